//! Dropping, cancelling and waiting do what the documentation says.

mod common;

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use common::{pair, pair_with, pattern, within};
use tautline::{
    Bytes, ClosedStream, ConnectionError, ReadError, ReadExactError, ReadToEndError,
    TransportConfig, WriteError, config::WindowConfig,
};

/// Polls a future once and drops it.
async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

/// Lets other tasks, the drivers among them, run for a while.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
}

fn small_windows() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.stream_receive_window = WindowConfig::fixed(10_000);
    config.connection_receive_window = WindowConfig::fixed(10_000);
    config.max_concurrent_bidi_streams = 1;
    config.max_concurrent_uni_streams = 1;
    config
}

// ---- dropping ----

#[tokio::test]
async fn a_dropped_send_stream_is_finished() {
    within(async {
        let pair = pair().await;
        let mut send = pair.client.open_uni().await.unwrap();
        send.write_all(b"last words").await.unwrap();
        drop(send);
        let mut recv = pair.server.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"last words");
    })
    .await;
}

#[tokio::test]
async fn a_send_stream_dropped_by_a_panic_is_reset() {
    within(async {
        let pair = pair().await;
        let mut send = pair.client.open_uni().await.unwrap();
        send.write_all(b"half a mess").await.unwrap();
        let task = tokio::spawn(async move {
            let _send = send;
            panic!("expected by the test");
        });
        assert!(task.await.is_err());
        let mut recv = pair.server.accept_uni().await.unwrap();
        let outcome = recv.read_to_end(100).await;
        assert_eq!(outcome, Err(ReadToEndError::Read(ReadError::Reset(0))));
    })
    .await;
}

#[tokio::test]
async fn a_dropped_receive_stream_stops_the_peer() {
    within(async {
        let pair = pair().await;
        let mut send = pair.client.open_uni().await.unwrap();
        send.write_all(b"unwanted").await.unwrap();
        drop(pair.server.accept_uni().await.unwrap());
        assert_eq!(send.stopped().await, Ok(Some(0)));
        assert_eq!(send.write(b"more").await, Err(WriteError::Stopped(0)));
    })
    .await;
}

#[tokio::test]
async fn the_last_dropped_handle_closes_the_connection() {
    within(async {
        let pair = pair().await;
        let other = pair.client.clone();
        let (send, recv) = pair.client.open_bi().await.unwrap();
        let closed = pair.client.closed();
        drop(pair.client);
        drop(send);
        drop(other);
        // The receiving half still holds it open.
        assert_eq!(pair.server.close_reason(), None);
        drop(recv);
        assert_eq!(closed.await, ConnectionError::LocallyClosed);
        let reason = pair.server.closed().await;
        assert_eq!(
            reason,
            ConnectionError::PeerApplication {
                code: 0,
                reason: Bytes::new()
            }
        );
    })
    .await;
}

#[tokio::test]
async fn connections_outlive_their_endpoint_handle() {
    within(async {
        let pair = pair().await;
        drop(pair.client_endpoint);
        drop(pair.server_endpoint);
        let mut send = pair.client.open_uni().await.unwrap();
        send.write_all(b"still here").await.unwrap();
        send.finish().unwrap();
        let mut recv = pair.server.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"still here");
    })
    .await;
}

#[tokio::test]
async fn a_dropped_attempt_is_given_up() {
    within(async {
        let pair = pair().await;
        let connecting = pair
            .client_endpoint
            .connect(pair.server_endpoint.local_addr(), "localhost")
            .unwrap();
        drop(connecting);
        pair.client.close(0, b"");
        pair.client_endpoint.wait_idle().await;
        assert_eq!(pair.client_endpoint.open_connections(), 0);
    })
    .await;
}

#[test]
fn a_runtime_that_ends_ends_connections() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let first = runtime();
    let pair = first.block_on(pair());
    drop(first);
    runtime().block_on(within(async {
        assert!(matches!(
            pair.client.closed().await,
            ConnectionError::Transport(_)
        ));
        assert!(pair.client.open_bi().await.is_err());
        assert!(pair.server_endpoint.accept().await.is_none());
        pair.server_endpoint.wait_idle().await;
        let again = pair
            .client_endpoint
            .connect(pair.server_endpoint.local_addr(), "localhost");
        assert!(again.is_err());
    }));
}

// ---- resetting and stopping ----

#[tokio::test]
async fn codes_travel_with_resets_and_stops() {
    within(async {
        let pair = pair().await;
        let (mut send, mut recv) = pair.client.open_bi().await.unwrap();
        send.write_all(b"begin").await.unwrap();
        let (mut their_send, mut their_recv) = pair.server.accept_bi().await.unwrap();
        their_recv.read_exact(&mut [0; 5]).await.unwrap();
        send.reset(7).unwrap();
        assert_eq!(send.stopped().await, Ok(None));
        assert_eq!(send.write(b"x").await, Err(WriteError::ClosedStream));
        assert_eq!(their_recv.read(&mut [0; 9]).await, Err(ReadError::Reset(7)));
        // And again: the answer stays.
        assert_eq!(their_recv.read(&mut [0; 9]).await, Err(ReadError::Reset(7)));
        recv.stop(9).unwrap();
        assert_eq!(recv.stop(9), Err(ClosedStream));
        assert_eq!(recv.read(&mut [0; 9]).await, Err(ReadError::ClosedStream));
        assert_eq!(their_send.stopped().await, Ok(Some(9)));
        assert_eq!(their_send.write(b"x").await, Err(WriteError::Stopped(9)));
        assert_eq!(their_send.finish(), Err(ClosedStream));
    })
    .await;
}

#[tokio::test]
async fn a_reset_at_delivers_its_promise() {
    within(async {
        let pair = pair().await;
        let mut send = pair.client.open_uni().await.unwrap();
        send.write_all(b"promised and not").await.unwrap();
        send.reset_at(3, 8).unwrap();
        let mut recv = pair.server.accept_uni().await.unwrap();
        let mut promised = [0; 8];
        recv.read_exact(&mut promised).await.unwrap();
        assert_eq!(&promised, b"promised");
        loop {
            match recv.read(&mut [0; 100]).await {
                Ok(Some(_)) => {}
                outcome => break assert_eq!(outcome, Err(ReadError::Reset(3))),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_reset_or_the_end_can_be_awaited_without_reading() {
    within(async {
        let pair = pair().await;
        for resets in [true, false] {
            let mut send = pair.client.open_uni().await.unwrap();
            send.write_all(b"unread").await.unwrap();
            let mut recv = pair.server.accept_uni().await.unwrap();
            // Cancelled once, and still told.
            assert!(poll_once(recv.received_reset()).await.is_none());
            let waiting = tokio::spawn(async move { (recv.received_reset().await, recv) });
            settle().await;
            if resets {
                send.reset(5).unwrap();
                let (outcome, mut recv) = waiting.await.unwrap();
                assert_eq!(outcome, Ok(Some(5)));
                assert_eq!(recv.received_reset().await, Ok(Some(5)));
                assert_eq!(recv.read(&mut [0; 9]).await, Err(ReadError::Reset(5)));
                assert_eq!(recv.received_reset().await, Ok(Some(5)));
            } else {
                // The FIN comes alone, after all of the data.
                send.finish().unwrap();
                let (outcome, mut recv) = waiting.await.unwrap();
                assert_eq!(outcome, Ok(None));
                assert_eq!(recv.read_to_end(10).await.unwrap(), b"unread");
                assert_eq!(recv.received_reset().await, Ok(None));
                recv.stop(0).unwrap_err();
            }
        }
        let mut send = pair.client.open_uni().await.unwrap();
        send.write_all(b"unread").await.unwrap();
        let mut recv = pair.server.accept_uni().await.unwrap();
        pair.client.close(1, b"");
        assert!(matches!(
            recv.received_reset().await,
            Err(ReadError::ConnectionLost(_))
        ));
    })
    .await;
}

#[tokio::test]
async fn ends_are_told_apart() {
    within(async {
        let pair = pair().await;
        for _ in 0..2 {
            let mut send = pair.client.open_uni().await.unwrap();
            send.write_all(b"12345").await.unwrap();
            send.finish().unwrap();
            assert_eq!(send.finish(), Err(ClosedStream));
        }
        let mut recv = pair.server.accept_uni().await.unwrap();
        let early = recv.read_exact(&mut [0; 9]).await;
        assert_eq!(early, Err(ReadExactError::FinishedEarly { read: 5 }));
        assert_eq!(recv.read(&mut [0; 9]).await, Ok(None));
        assert_eq!(recv.read_chunk(9).await, Ok(None));
        let mut recv = pair.server.accept_uni().await.unwrap();
        assert_eq!(
            recv.read_to_end(4).await,
            Err(ReadToEndError::TooLong { limit: 4 })
        );
    })
    .await;
}

#[tokio::test]
async fn chunks_come_together_and_the_end_after_them() {
    within(async {
        let pair = pair().await;
        let data = pattern(500_000);
        let write = async {
            let mut send = pair.client.open_uni().await.unwrap();
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
            send.stopped().await
        };
        let read = async {
            let mut recv = pair.server.accept_uni().await.unwrap();
            let mut chunks = [const { Bytes::new() }; 7];
            let mut got = Vec::new();
            assert_eq!(recv.read_chunks(&mut []).await, Ok(Some(0)));
            while let Some(count) = recv.read_chunks(&mut chunks).await.unwrap() {
                assert!(count > 0);
                chunks[..count]
                    .iter()
                    .for_each(|chunk| got.extend_from_slice(chunk));
            }
            assert_eq!(recv.read_chunks(&mut chunks).await, Ok(None));
            got
        };
        let (sent, got) = tokio::join!(write, read);
        assert_eq!(sent, Ok(None));
        assert!(got == data);
    })
    .await;
}

// ---- cancelling ----

#[tokio::test]
async fn cancelled_accepts_lose_no_stream() {
    within(async {
        let pair = pair().await;
        for _ in 0..20 {
            assert!(poll_once(pair.server.accept_uni()).await.is_none());
            assert!(poll_once(pair.server.accept_bi()).await.is_none());
        }
        let mut send = pair.client.open_uni().await.unwrap();
        send.write_all(b"x").await.unwrap();
        let mut recv = loop {
            match poll_once(pair.server.accept_uni()).await {
                Some(stream) => break stream.unwrap(),
                None => tokio::task::yield_now().await,
            }
        };
        drop(send);
        assert_eq!(recv.read_to_end(9).await.unwrap(), b"x");
    })
    .await;
}

#[tokio::test]
async fn cancelled_endpoint_accepts_lose_no_client() {
    within(async {
        let pair = pair().await;
        let address = pair.server_endpoint.local_addr();
        let connecting = pair.client_endpoint.connect(address, "localhost").unwrap();
        let accepted = loop {
            match poll_once(pair.server_endpoint.accept()).await {
                Some(incoming) => break incoming.unwrap(),
                None => tokio::task::yield_now().await,
            }
        };
        let (server, client) = tokio::join!(accepted.into_future(), connecting);
        server.unwrap();
        client.unwrap();
    })
    .await;
}

#[tokio::test]
async fn cancelled_reads_lose_no_byte() {
    within(async {
        let pair = pair().await;
        let data = pattern(300_000);
        let mut send = pair.client.open_uni().await.unwrap();
        let write = async {
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
        };
        let read = async {
            let mut recv = pair.server.accept_uni().await.unwrap();
            let mut all = Vec::new();
            let mut turn = 0_usize;
            loop {
                turn += 1;
                let mut buf = [0; 1_000];
                let outcome = if turn.is_multiple_of(2) {
                    let read = poll_once(recv.read(&mut buf)).await;
                    read.map(|read| read.unwrap().map(|n| buf[..n].to_vec()))
                } else {
                    let read = poll_once(recv.read_chunk(777)).await;
                    read.map(|read| read.unwrap().map(|chunk| chunk.to_vec()))
                };
                match outcome {
                    Some(Some(chunk)) => all.extend_from_slice(&chunk),
                    Some(None) => break all,
                    None => tokio::task::yield_now().await,
                }
            }
        };
        let ((), all) = tokio::join!(write, read);
        assert_eq!(all, data);
    })
    .await;
}

#[tokio::test]
async fn cancelled_writes_lose_and_repeat_no_byte() {
    within(async {
        let mut sender = TransportConfig::default();
        sender.send_buffer_bytes = 5_000;
        let pair = pair_with(small_windows(), sender).await;
        let data = pattern(200_000);
        let mut send = pair.client.open_uni().await.unwrap();
        let write = async {
            let mut left = Bytes::from(data.clone());
            let mut turn = 0_usize;
            while !left.is_empty() {
                turn += 1;
                let piece = left.slice(..left.len().min(3_000));
                let blocked = if turn.is_multiple_of(2) {
                    match poll_once(send.write(&piece)).await {
                        Some(taken) => {
                            left = left.slice(taken.unwrap()..);
                            false
                        }
                        None => true,
                    }
                } else {
                    let mut piece = piece;
                    let before = piece.len();
                    let outcome = poll_once(send.write_bytes(&mut piece)).await;
                    left = left.slice(before - piece.len()..);
                    outcome.is_none()
                };
                if blocked {
                    tokio::task::yield_now().await;
                }
            }
            send.finish().unwrap();
        };
        let read = async {
            let mut recv = pair.server.accept_uni().await.unwrap();
            recv.read_to_end(data.len()).await.unwrap()
        };
        let ((), all) = tokio::join!(write, read);
        assert_eq!(all, data);
    })
    .await;
}

#[tokio::test]
async fn cancelled_opens_waste_no_stream() {
    within(async {
        let pair = pair_with(small_windows(), TransportConfig::default()).await;
        let mut first = pair.client.open_uni().await.unwrap();
        for _ in 0..20 {
            assert!(poll_once(pair.client.open_uni()).await.is_none());
        }
        first.finish().unwrap();
        let mut recv = pair.server.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(0).await.unwrap(), b"");
        let second = pair.client.open_uni().await.unwrap();
        assert_eq!(second.id().index(), first.id().index() + 1);
    })
    .await;
}

/// Every future that waits for something is polled and dropped while nothing has happened: no
/// waker of theirs is kept, and those that wait on are woken all the same.
#[tokio::test]
async fn cancelled_waits_leave_no_waker_behind() {
    struct Woken(AtomicUsize);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    within(async {
        let mut small = TransportConfig::default();
        small.datagram_send_buffer_bytes = 2_000;
        let pair = pair_with(small_windows(), small).await;
        let mut send = pair.client.open_uni().await.unwrap();
        send.write_all(b"x").await.unwrap();
        let mut recv = pair.server.accept_uni().await.unwrap();
        assert_eq!(recv.read_chunk(9).await.unwrap().unwrap(), b"x"[..]);
        settle().await;
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        let handles = Arc::strong_count(&woken);
        for _ in 0..100 {
            assert!(pin!(pair.client.read_datagram()).poll(&mut cx).is_pending());
            assert!(pin!(pair.client.closed()).poll(&mut cx).is_pending());
            assert!(pin!(send.stopped()).poll(&mut cx).is_pending());
            assert!(pin!(pair.client.open_uni()).poll(&mut cx).is_pending());
            assert!(pin!(pair.client.accept_bi()).poll(&mut cx).is_pending());
            assert!(
                pin!(pair.server_endpoint.accept())
                    .poll(&mut cx)
                    .is_pending()
            );
            assert_eq!(Arc::strong_count(&woken), handles, "a waker was kept");
        }
        // A stream has one place for whoever reads it, and that vanishes with the stream.
        for _ in 0..100 {
            let mut read = [0; 9];
            assert!(pin!(recv.read(&mut read)).poll(&mut cx).is_pending());
            assert!(Arc::strong_count(&woken) <= handles + 1, "wakers pile up");
        }
        drop(recv);
        assert_eq!(Arc::strong_count(&woken), handles, "a waker was kept");
        // One that stays is woken, once, when its time has come.
        let mut stays = pin!(pair.client.closed());
        assert!(stays.as_mut().poll(&mut cx).is_pending());
        drop(pair.client.read_datagram());
        assert!(pin!(pair.client.closed()).poll(&mut cx).is_pending());
        pair.server.close(7, b"");
        pair.server.closed().await;
        while pair.client.close_reason().is_none() {
            tokio::task::yield_now().await;
        }
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(stays.as_mut().poll(&mut cx).is_ready());
        assert_eq!(Arc::strong_count(&woken), handles, "a waker was kept");
    })
    .await;
}

#[tokio::test]
async fn cancelled_reads_of_datagrams_lose_none() {
    within(async {
        let pair = pair().await;
        for index in 0..50_u8 {
            // Before, while and after it arrives.
            let before = poll_once(pair.server.read_datagram()).await;
            assert!(before.is_none());
            pair.client.send_datagram(vec![index].into()).unwrap();
            let read = loop {
                match poll_once(pair.server.read_datagram()).await {
                    Some(datagram) => break datagram.unwrap(),
                    None => tokio::task::yield_now().await,
                }
            };
            assert_eq!(read, [index][..]);
        }
        // One that arrives while a reader waits belongs to whoever reads next.
        let mut waiting = Box::pin(pair.server.read_datagram());
        assert!(poll_once(waiting.as_mut()).await.is_none());
        pair.client.send_datagram(b"last"[..].into()).unwrap();
        settle().await;
        drop(waiting);
        assert_eq!(pair.server.read_datagram().await.unwrap(), b"last"[..]);
    })
    .await;
}

#[tokio::test]
async fn cancelled_datagrams_are_not_sent_and_others_once() {
    within(async {
        let mut small = TransportConfig::default();
        small.datagram_send_buffer_bytes = 3_000;
        let pair = pair_with(TransportConfig::default(), small).await;
        let datagram = |index: u8| Bytes::from(vec![index; 1_000]);
        let mut sent = Vec::new();
        let mut cancelled = 0;
        // Nothing runs meanwhile, and so the queue fills up.
        for index in 0..100 {
            match poll_once(pair.client.send_datagram_wait(datagram(index))).await {
                Some(outcome) => {
                    outcome.unwrap();
                    sent.push(index);
                }
                None => cancelled += 1,
            }
            if index % 10 == 9 {
                settle().await;
            }
        }
        assert!(cancelled > 0, "the queue was never full");
        settle().await;
        // The queue has room again for one who waits now.
        pair.client.send_datagram_wait(datagram(200)).await.unwrap();
        sent.push(200);
        let mut arrived = Vec::new();
        while arrived.last() != Some(&200) {
            let datagram = pair.server.read_datagram().await.unwrap();
            assert_eq!(datagram.len(), 1_000);
            arrived.push(datagram[0]);
        }
        // Loopback may drop some, but nothing comes that was not sent, or comes twice.
        assert!(arrived.is_sorted_by(|a, b| a < b), "{arrived:?}");
        assert!(
            arrived.iter().all(|index| sent.contains(index)),
            "{arrived:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn cancelled_waits_for_a_stop_or_an_end_miss_nothing() {
    within(async {
        let pair = pair().await;
        // A stop that comes while nobody waits.
        let mut send = pair.client.open_uni().await.unwrap();
        send.write_all(b"x").await.unwrap();
        for _ in 0..20 {
            assert!(poll_once(send.stopped()).await.is_none());
        }
        let mut recv = pair.server.accept_uni().await.unwrap();
        recv.stop(5).unwrap();
        settle().await;
        assert_eq!(send.stopped().await, Ok(Some(5)));
        assert_eq!(send.stopped().await, Ok(Some(5)), "and still");
        // Delivery likewise, of a stream that is gone at this end.
        let mut send = pair.client.open_uni().await.unwrap();
        let delivered = send.stopped();
        for _ in 0..20 {
            assert!(poll_once(send.stopped()).await.is_none());
        }
        send.finish().unwrap();
        drop(send);
        let mut recv = pair.server.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(0).await.unwrap(), b"");
        settle().await;
        assert_eq!(delivered.await, Ok(None));
        // The connection's end.
        for _ in 0..20 {
            assert!(poll_once(pair.client.closed()).await.is_none());
        }
        pair.server.close(9, b"");
        while pair.client.close_reason().is_none() {
            tokio::task::yield_now().await;
        }
        let ended = pair.client.closed().await;
        assert!(
            matches!(ended, ConnectionError::PeerApplication { code: 9, .. }),
            "{ended}"
        );
        assert_eq!(pair.client.closed().await, ended, "and still");
    })
    .await;
}

#[tokio::test]
async fn cancelled_waits_for_the_handshake_miss_nothing() {
    within(async {
        let pair = pair().await;
        let address = pair.server_endpoint.local_addr();
        let connecting = pair.client_endpoint.connect(address, "localhost").unwrap();
        let accept = async { pair.server_endpoint.accept().await.unwrap().await.unwrap() };
        let (client, _server) = tokio::join!(connecting, accept);
        let client = client.unwrap();
        // It is confirmed at some time between two of these.
        let mut polls = 0;
        while poll_once(client.handshake_confirmed()).await.is_none() {
            polls += 1;
            assert!(polls < 1_000_000);
            tokio::task::yield_now().await;
        }
        client.handshake_confirmed().await.unwrap();
        client.handshake_complete().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_connect_host_leaves_no_connection_behind() {
    within(async {
        let pair = pair().await;
        let port = pair.server_endpoint.local_addr().port();
        // Given up at every stage that polling shows, from before the name is resolved to just
        // before the handshake is complete.
        for polls in 0..12 {
            let mut connecting = Box::pin(pair.client_endpoint.connect_host("localhost", port));
            let mut connected = None;
            for _ in 0..polls {
                if let Some(outcome) = poll_once(connecting.as_mut()).await {
                    connected = Some(outcome.unwrap());
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            drop(connecting);
            drop(connected);
        }
        // Whoever got through to the server is told.
        while let Some(Some(incoming)) = poll_once(pair.server_endpoint.accept()).await {
            let _ = incoming.await;
        }
        pair.client.close(0, b"");
        pair.client_endpoint.wait_idle().await;
        assert_eq!(pair.client_endpoint.open_connections(), 0);
    })
    .await;
}

// ---- back-pressure ----

#[tokio::test]
async fn an_unread_stream_holds_the_writer_back() {
    within(async {
        let mut sender = TransportConfig::default();
        sender.send_buffer_bytes = 20_000;
        let pair = pair_with(small_windows(), sender).await;
        let mut send = pair.client.open_uni().await.unwrap();
        let data = pattern(1_000_000);
        let mut written = 0;
        // Until it blocks for good: the buffer here and the window there are full.
        let mut quiet = 0;
        while quiet < 5 {
            match poll_once(send.write(&data[written..])).await {
                Some(taken) => {
                    written += taken.unwrap();
                    quiet = 0;
                }
                None => {
                    quiet += 1;
                    settle().await;
                }
            }
        }
        assert!(written <= 20_000 + 10_000, "{written} bytes were taken");
        let mut recv = pair.server.accept_uni().await.unwrap();
        let rest = async {
            send.write_all(&data[written..]).await.unwrap();
            send.finish().unwrap();
        };
        let (all, ()) = tokio::join!(recv.read_to_end(data.len()), rest);
        assert_eq!(all.unwrap(), data);
    })
    .await;
}

#[tokio::test]
async fn unaccepted_streams_hold_the_opener_back() {
    within(async {
        let pair = pair_with(small_windows(), TransportConfig::default()).await;
        let mut first = pair.client.open_uni().await.unwrap();
        first.write_all(b"1").await.unwrap();
        first.finish().unwrap();
        assert_eq!(first.stopped().await, Ok(None));
        settle().await;
        assert!(poll_once(pair.client.open_uni()).await.is_none());
        let mut recv = pair.server.accept_uni().await.unwrap();
        recv.read_to_end(1).await.unwrap();
        pair.client.open_uni().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn stream_limits_can_be_raised_later() {
    within(async {
        let pair = pair_with(small_windows(), TransportConfig::default()).await;
        let _first = pair.client.open_bi().await.unwrap();
        assert!(poll_once(pair.client.open_bi()).await.is_none());
        pair.server.set_max_concurrent_bi_streams(3);
        let _second = pair.client.open_bi().await.unwrap();
        let _third = pair.client.open_bi().await.unwrap();
        assert!(poll_once(pair.client.open_bi()).await.is_none());
    })
    .await;
}

#[tokio::test]
async fn unread_datagrams_are_dropped_oldest_first() {
    within(async {
        let mut small = TransportConfig::default();
        small.datagram_receive_buffer_bytes = 10_000;
        let pair = pair_with(small, TransportConfig::default()).await;
        for index in 0..200_u8 {
            let mut datagram = vec![0; 1_000];
            datagram[0] = index;
            pair.client
                .send_datagram_wait(datagram.into())
                .await
                .unwrap();
        }
        // Until nothing arrives any more.
        let mut arrived = u64::MAX;
        while arrived != pair.server.stats().bytes_received {
            arrived = pair.server.stats().bytes_received;
            settle().await;
            settle().await;
        }
        let mut kept = Vec::new();
        while let Some(datagram) = poll_once(pair.server.read_datagram()).await {
            kept.push(datagram.unwrap()[0]);
        }
        assert!(!kept.is_empty() && kept.len() <= 10, "{kept:?} were kept");
        assert!(
            kept.is_sorted() && kept.last() >= Some(&190),
            "{kept:?} were kept"
        );
    })
    .await;
}

/// The close arrives together with what wakes more tasks than are woken at once: those that run
/// before the close was told to anybody hear of it all the same.
#[tokio::test]
async fn whoever_runs_before_the_end_is_told_hears_of_it() {
    const STREAMS: usize = 100;
    const CODE: u64 = 7;
    within(async {
        let identity = common::identity();
        let (address_out, address) = std::sync::mpsc::channel();
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let (done_out, done) = std::sync::mpsc::channel();
        let config = common::server_config(&identity, TransportConfig::default());
        // A thread of its own, so that the server can act while the client cannot.
        let server = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let endpoint = tautline::Endpoint::builder()
                    .server(config)
                    .bind(common::loopback())
                    .unwrap();
                address_out.send(endpoint.local_addr()).unwrap();
                let connection = endpoint.accept().await.unwrap().await.unwrap();
                let mut streams = Vec::new();
                for _ in 0..STREAMS {
                    let (send, mut recv) = connection.accept_bi().await.unwrap();
                    recv.read_exact(&mut [0]).await.unwrap();
                    streams.push((send, recv));
                }
                gone.await.unwrap();
                for (send, _) in &mut streams {
                    send.write_all(b"!").await.unwrap();
                }
                settle().await;
                connection.close(CODE, b"enough");
                settle().await;
                done_out.send(()).unwrap();
                endpoint.wait_idle().await;
            });
        });
        let endpoint = tautline::Endpoint::client(common::loopback()).unwrap();
        endpoint.set_default_client_config(common::client_config(
            &identity,
            TransportConfig::default(),
        ));
        let connecting = endpoint.connect(address.recv().unwrap(), "localhost");
        let connection = connecting.unwrap().await.unwrap();
        let mut tasks = Vec::new();
        for _ in 0..STREAMS {
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            send.write_all(b"?").await.unwrap();
            let connection = connection.clone();
            tasks.push(tokio::spawn(async move {
                let read = recv.read_chunk(1).await;
                let written = send.write_all(b"more").await;
                let sent = connection.send_datagram(Bytes::from_static(b"more"));
                let told = connection.close_reason();
                // Too late to be the reason.
                connection.close(CODE + 1, b"");
                (read, written, sent, told)
            }));
        }
        settle().await;
        go.send(()).unwrap();
        // No task and no driver runs here meanwhile.
        done.recv().unwrap();
        let reason = ConnectionError::PeerApplication {
            code: CODE,
            reason: Bytes::from_static(b"enough"),
        };
        for task in tasks {
            let (read, written, sent, told) = task.await.unwrap();
            assert_eq!(told, Some(reason.clone()));
            assert_eq!(read, Ok(Some(Bytes::from_static(b"!"))));
            assert_eq!(written, Err(WriteError::ConnectionLost(reason.clone())));
            assert_eq!(
                sent,
                Err(tautline::SendDatagramError::ConnectionLost(reason.clone()))
            );
        }
        drop(connection);
        endpoint.wait_idle().await;
        server.join().unwrap();
    })
    .await;
}
