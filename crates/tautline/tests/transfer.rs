//! Streams and datagrams carry what was put in.

mod common;

use common::{connect, pair, pair_with, pattern, within};
use tautline::{Bytes, Priority, SendDatagramError, TransportConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn a_bidirectional_stream_echoes() {
    within(async {
        let pair = pair().await;
        let data = pattern(3_000_000);
        let echo = async {
            let (mut send, mut recv) = pair.server.accept_bi().await.unwrap();
            while let Some(chunk) = recv.read_chunk(usize::MAX).await.unwrap() {
                send.write_chunk(chunk).await.unwrap();
            }
            send.finish().unwrap();
            assert_eq!(send.stopped().await, Ok(None));
        };
        let talk = async {
            let (mut send, mut recv) = pair.client.open_bi().await.unwrap();
            let write = async {
                send.write_all(&data).await.unwrap();
                send.finish().unwrap();
            };
            let (back, ()) = tokio::join!(recv.read_to_end(data.len()), write);
            assert_eq!(back.unwrap(), data);
        };
        tokio::join!(echo, talk);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_directions_and_kinds_work_from_both_ends() {
    within(async {
        let pair = pair().await;
        for (from, to) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
            let mut send = from.open_uni().await.unwrap();
            send.write_all(b"one way").await.unwrap();
            send.finish().unwrap();
            let mut recv = to.accept_uni().await.unwrap();
            assert_eq!(recv.read_to_end(100).await.unwrap(), b"one way");

            let (mut send, mut recv) = from.open_bi().await.unwrap();
            send.write_all(b"ping").await.unwrap();
            let (mut their_send, mut their_recv) = to.accept_bi().await.unwrap();
            let mut ping = [0; 4];
            their_recv.read_exact(&mut ping).await.unwrap();
            their_send.write_all(&ping).await.unwrap();
            their_send.finish().unwrap();
            assert_eq!(recv.read_to_end(100).await.unwrap(), b"ping");
        }
    })
    .await;
}

#[tokio::test]
async fn tokio_traits_carry_a_stream() {
    within(async {
        let pair = pair().await;
        let (mut send, _recv) = pair.client.open_bi().await.unwrap();
        let data = pattern(200_000);
        let write = async {
            AsyncWriteExt::write_all(&mut send, &data).await.unwrap();
            send.flush().await.unwrap();
            send.shutdown().await.unwrap();
            send.shutdown().await.unwrap();
        };
        let read = async {
            let (_send, mut recv) = pair.server.accept_bi().await.unwrap();
            let mut all = Vec::new();
            AsyncReadExt::read_to_end(&mut recv, &mut all)
                .await
                .unwrap();
            all
        };
        let ((), all) = tokio::join!(write, read);
        assert_eq!(all, data);
    })
    .await;
}

#[tokio::test]
async fn many_streams_arrive_whole() {
    within(async {
        let pair = pair().await;
        const STREAMS: usize = 1_000;
        let send = async {
            for index in 0..STREAMS {
                // Waits for the peer's limit again and again.
                let mut stream = pair.client.open_uni().await.unwrap();
                let priority = Priority {
                    urgency: (index % 8) as u8,
                    incremental: index % 2 == 0,
                };
                stream.set_priority(priority);
                stream
                    .write_all(&(index as u64).to_be_bytes())
                    .await
                    .unwrap();
                stream.write_all(&pattern(index)).await.unwrap();
                stream.finish().unwrap();
            }
        };
        let receive = async {
            let mut seen = vec![false; STREAMS];
            for _ in 0..STREAMS {
                let mut stream = pair.server.accept_uni().await.unwrap();
                let all = stream.read_to_end(STREAMS + 8).await.unwrap();
                let (index, body) = all.split_first_chunk().unwrap();
                let index = u64::from_be_bytes(*index) as usize;
                assert_eq!(body, pattern(index));
                assert!(
                    !std::mem::replace(&mut seen[index], true),
                    "stream {index} twice"
                );
            }
        };
        tokio::join!(send, receive);
    })
    .await;
}

#[tokio::test]
async fn many_connections_share_an_endpoint() {
    within(async {
        let pair = pair().await;
        let mut held = Vec::new();
        for _ in 0..50 {
            held.push(connect(&pair.server_endpoint, &pair.client_endpoint).await);
        }
        assert_eq!(pair.server_endpoint.open_connections(), 51);
        for (index, (server, client)) in held.iter().enumerate() {
            let mut send = client.open_uni().await.unwrap();
            send.write_all(&[index as u8]).await.unwrap();
            drop(send);
            let mut recv = server.accept_uni().await.unwrap();
            assert_eq!(recv.read_to_end(1).await.unwrap(), [index as u8]);
        }
    })
    .await;
}

#[tokio::test]
async fn unordered_reads_give_every_byte_once() {
    within(async {
        let pair = pair().await;
        let data = pattern(100_000);
        let mut send = pair.client.open_uni().await.unwrap();
        send.write_all(&data).await.unwrap();
        send.finish().unwrap();
        let mut recv = pair.server.accept_uni().await.unwrap();
        let mut all = vec![0; data.len()];
        let mut total = 0;
        while let Some(chunk) = recv.read_unordered(usize::MAX).await.unwrap() {
            let start = chunk.offset as usize;
            all[start..start + chunk.bytes.len()].copy_from_slice(&chunk.bytes);
            total += chunk.bytes.len();
        }
        assert_eq!(total, data.len());
        assert_eq!(all, data);
    })
    .await;
}

#[tokio::test]
async fn datagrams_arrive_and_their_limits_are_told() {
    within(async {
        let pair = pair().await;
        let max = pair.client.max_datagram_size().unwrap();
        pair.client
            .send_datagram(Bytes::from(pattern(max)))
            .unwrap();
        assert_eq!(pair.server.read_datagram().await.unwrap(), pattern(max));
        let too_large = pair.client.send_datagram(Bytes::from(pattern(70_000)));
        assert!(matches!(too_large, Err(SendDatagramError::TooLarge { .. })));
        for index in 0..100_u8 {
            pair.server
                .send_datagram_wait(Bytes::copy_from_slice(&[index]))
                .await
                .unwrap();
        }
        for index in 0..100_u8 {
            assert_eq!(pair.client.read_datagram().await.unwrap()[..], [index]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_peer_without_datagrams_is_told_apart() {
    within(async {
        let mut deaf = TransportConfig::default();
        deaf.datagram_receive_buffer_bytes = 0;
        let pair = pair_with(deaf, TransportConfig::default()).await;
        assert_eq!(pair.client.max_datagram_size(), None);
        let sent = pair.client.send_datagram(Bytes::from_static(b"x"));
        assert_eq!(sent, Err(SendDatagramError::UnsupportedByPeer));
    })
    .await;
}

#[tokio::test]
async fn a_full_datagram_queue_gives_the_datagram_back() {
    within(async {
        let mut small = TransportConfig::default();
        small.datagram_send_buffer_bytes = 3_000;
        let pair = pair_with(TransportConfig::default(), small).await;
        // No await between: the driver, on the same thread, cannot empty the queue.
        let mut refused = None;
        for _ in 0..100 {
            match pair.client.send_datagram(Bytes::from(pattern(1_000))) {
                Ok(()) => {}
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        assert_eq!(
            refused,
            Some(SendDatagramError::QueueFull(Bytes::from(pattern(1_000))))
        );
        pair.client
            .send_datagram_wait(Bytes::from_static(b"patient"))
            .await
            .unwrap();
        while pair.server.read_datagram().await.unwrap() != b"patient"[..] {}
    })
    .await;
}

#[tokio::test]
async fn facts_about_the_connection_agree() {
    within(async {
        let pair = pair().await;
        let (server, client) = (&pair.server, &pair.client);
        assert_eq!(client.alpn().as_deref(), Some(common::ALPN.as_bytes()));
        assert_eq!(client.alpn(), server.alpn());
        assert_eq!(server.server_name().as_deref(), Some("localhost"));
        assert_eq!(client.remote_address(), pair.server_endpoint.local_addr());
        assert_eq!(server.remote_address(), pair.client_endpoint.local_addr());
        assert_eq!(server.local_address(), pair.server_endpoint.local_addr());
        assert_eq!(client.peer_identity().unwrap().len(), 1);
        assert_eq!(server.peer_identity(), None);
        let (mut a, mut b) = ([0; 32], [0; 32]);
        client
            .export_keying_material(&mut a, b"label", b"context")
            .unwrap();
        server
            .export_keying_material(&mut b, b"label", b"context")
            .unwrap();
        assert_eq!(a, b);
        assert_ne!(a, [0; 32]);
        client.handshake_confirmed().await.unwrap();
        client.force_key_update().unwrap();
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"under new keys").await.unwrap();
        send.finish().unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"under new keys");
        assert!(client.stats().packets_sent > 0);
        assert_eq!(client.paths().len(), 1);
        assert!(client.path_stats(tautline::PathId::ZERO).unwrap().validated);
        let stats = pair.client_endpoint.stats();
        assert!(stats.sent_datagrams >= stats.sent_batches && stats.received_datagrams > 0);
    })
    .await;
}
