//! What a peer can make an end hold is what the configuration says, in bytes of heap.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tautline_testkit::{
    apps::Manual,
    pair::{client_address, server_address},
};
use tautline_transport::{
    connection::Connection,
    endpoint::DatagramMeta,
    error::Code,
    stream::ReadOutcome,
    time::Instant,
    tls::Level,
    units::{Dir, Ecn, FourTuple, Side, StreamId},
    wire::{Close, ConnectionId, Frame, Stream, TransportParameters},
};

use crate::{
    heap,
    kit::MS,
    raw::{Arena, Peer, parameters},
};

/// As the socket layer has them.
const RECEIVE_BUFFER_BYTES: usize = 256 * 1024;
const MIB: i64 = 1 << 20;

fn meta() -> DatagramMeta {
    DatagramMeta {
        four_tuple: FourTuple {
            local: server_address(),
            remote: client_address(),
        },
        ecn: Ecn::NotEct,
    }
}

/// Hands `payload` to the connection as a slice of a receive buffer of its own, the rest of which
/// other connections have used.
fn receive(server: &mut Connection, now: Instant, payload: &[u8], number: u64) {
    let mut buffer = BytesMut::from(Bytes::from(
        vec![0; RECEIVE_BUFFER_BYTES].into_boxed_slice(),
    ));
    buffer[..payload.len()].copy_from_slice(payload);
    let slice = buffer.split_to(payload.len());
    drop(buffer);
    server.note_receive_position(number * RECEIVE_BUFFER_BYTES as u64);
    server.handle_datagram(now, meta(), slice);
}

#[test]
fn unread_datagrams_keep_no_receive_buffers() {
    let (mut arena, mut peer) = Arena::confirmed(1, |transport| transport.observer = None);
    let ((), grown) = heap::growth(|| {
        for number in 0..3_000 {
            let datagram = peer.one_rtt(&[Frame::Datagram { data: &[7; 700] }]);
            arena.on_victim(|server, now| receive(server, now, &datagram.payload, number));
        }
    });
    // The limit, and the ACKs that pile up in the test's own network.
    assert!(grown < 2 * MIB, "{grown}");
}

#[test]
fn unread_stream_data_keeps_few_receive_buffers() {
    let (mut arena, mut peer) = Arena::confirmed(1, |transport| transport.observer = None);
    let id = StreamId::new(Side::Client, Dir::Bi, 0);
    let data = [7; 600];
    let ((), grown) = heap::growth(|| {
        for number in 0..300 {
            let offset = number * data.len() as u64;
            let fin = false;
            let stream = Stream {
                id,
                offset,
                data: &data,
                fin,
            };
            let datagram = peer.one_rtt(&[Frame::Stream(stream)]);
            arena.on_victim(|server, now| receive(server, now, &datagram.payload, number));
        }
    });
    // `shared_receive_bytes`, one buffer, and the data itself.
    assert!(grown < 5 * MIB, "{grown}");
    // Nothing is lost by it.
    let read = arena.on_victim(|server, _| {
        let mut read = 0;
        while let Ok(ReadOutcome::Chunk(chunk)) = server.read(id, usize::MAX) {
            assert!(chunk.iter().all(|byte| *byte == 7));
            read += chunk.len();
        }
        read
    });
    assert_eq!(read, 300 * data.len());
}

#[test]
fn a_peer_that_takes_nothing_makes_us_hold_little() {
    let mut arena = Arena::server(1, |_| {}, |_| {}, Manual::server());
    let cid = ConnectionId::new(&[0x11; 8]).unwrap();
    let stingy = TransportParameters {
        initial_max_data: 0,
        ..parameters(cid)
    };
    let mut peer = Peer::client(0x11, &stingy);
    arena.handshake(&mut peer);
    let (taken, grown) = heap::growth(|| {
        arena.on_victim(|server, _| {
            let mut taken = 0;
            for _ in 0..50 {
                let Some(id) = server.open_stream(Dir::Uni) else {
                    break;
                };
                while let Ok(some @ 1..) = server.write(id, &[0; 100_000]) {
                    taken += some;
                }
            }
            taken
        })
    });
    assert!(taken > 0);
    assert!(grown < MIB, "{grown} for {taken}");
}

#[test]
fn receive_timestamps_must_be_offered() {
    let (mut arena, mut peer) =
        Arena::confirmed(1, |transport| transport.receive_timestamps = false);
    // An honest ACK but for its type, 0x03178307, and no timestamp ranges at its end.
    let honest = peer
        .honest_ack(Level::OneRtt)
        .expect("something to acknowledge");
    let mut payload = vec![0x83, 0x17, 0x83, 0x07];
    payload.extend_from_slice(&honest[1..]);
    payload.push(0);
    let datagram = peer.one_rtt_bytes(&payload);
    arena.expect_close(&mut peer, datagram, Code::PROTOCOL_VIOLATION);
}

/// What a connection that is over and abandoned may weigh.
const OVER_BYTES: i64 = 8_000;

/// Pieces of a stream that arrive, 600 bytes each; they stay within its first window.
const PIECES: u64 = 200;

/// A server with much to send, much received in order, and much behind gaps; and what all that is
/// in heap bytes.
fn busy() -> (Arena, Peer, i64) {
    let (mut arena, mut peer) = Arena::confirmed(1, |transport| transport.observer = None);
    let id = StreamId::new(Side::Client, Dir::Bi, 0);
    let ((), grown) = heap::growth(|| {
        arena.on_victim(|server, now| {
            let own = server.open_stream(Dir::Uni).unwrap();
            assert!(server.write(own, &[1; 400_000]).unwrap() >= 300_000);
            for _ in 0..50 {
                server.send_datagram(Bytes::from(vec![2; 1_000])).unwrap();
            }
            // As if under way: recovery keeps track of it.
            let mut buf = vec![0; 65_000];
            while server.poll_transmit(now, &mut buf, 1).is_some() {}
        });
        for number in 0..PIECES {
            // Twenty-one in order, then every other one.
            let offset = (number + number.saturating_sub(20)) * 600;
            let stream = Stream {
                id,
                offset,
                data: &[7; 600],
                fin: false,
            };
            let datagram = peer.one_rtt(&[Frame::Stream(stream)]);
            let own = BytesMut::from(&datagram.payload[..]);
            arena.on_victim(|server, now| server.handle_datagram(now, meta(), own));
        }
    });
    assert_eq!(arena.app().ended(), None);
    assert!(grown > 500_000, "{grown}");
    (arena, peer, grown)
}

fn read_all(server: &mut Connection) -> usize {
    let id = server.accept_stream(Dir::Bi).expect("it arrived before");
    let mut read = 0;
    while let Ok(ReadOutcome::Chunk(chunk)) = server.read(id, usize::MAX) {
        assert!(chunk.iter().all(|byte| *byte == 7));
        read += chunk.len();
    }
    read
}

#[test]
fn a_closing_connection_keeps_what_can_be_read_and_what_repeats_its_close() {
    let (mut arena, mut peer, held) = busy();
    let ((), freed) = heap::growth(|| {
        arena.on_victim(|server, now| server.close(now, 5, Bytes::from_static(b"enough")));
    });
    // In order: 21 pieces, which share their datagrams.
    let kept = held + freed;
    assert!(kept < 40_000, "{kept} of {held} after the close");
    let stats = arena.on_victim(|server, _| server.stream_stats());
    assert_eq!(stats.send_buffered_bytes, 0);
    assert_eq!(stats.receive_buffered_bytes, 21 * 600);
    let (read, _) = heap::growth(|| arena.on_victim(|server, _| read_all(server)));
    assert_eq!(read, 21 * 600);
    // It still answers with its close.
    let mut closes = 0;
    for _ in 0..8 {
        let datagram = peer.one_rtt(&[Frame::Ping]);
        let own = BytesMut::from(&datagram.payload[..]);
        closes += arena.on_victim(|server, now| {
            server.handle_datagram(now, meta(), own);
            let mut buf = vec![0; 1_500];
            let sent = server.poll_transmit(now, &mut buf, 1);
            if let Some(sent) = sent {
                peer.receive(&buf[..sent.len]);
            }
            usize::from(sent.is_some())
        });
    }
    assert!((3..8).contains(&closes), "{closes}");
    assert_eq!(peer.closed_with(), Some(Code(5)));
    // Nothing can be added to it.
    arena.on_victim(|server, _| {
        assert_eq!(server.open_stream(Dir::Uni), None);
        let own = StreamId::new(Side::Server, Dir::Uni, 0);
        server.write(own, &[1; 100]).unwrap_err();
        server
            .send_datagram(Bytes::from_static(b"late"))
            .unwrap_err();
        assert_eq!(server.accept_stream(Dir::Bi), None);
        assert!(!server.has_stream_control());
    });
}

#[test]
fn a_connection_that_the_peer_closed_keeps_what_can_be_read() {
    let (mut arena, mut peer, held) = busy();
    let close = Frame::ConnectionClose(Close {
        frame_type: None,
        code: 9,
        reason: b"",
    });
    let datagram = peer.one_rtt(&[close]);
    let own = BytesMut::from(&datagram.payload[..]);
    drop(datagram);
    let ((), freed) = heap::growth(|| {
        arena.on_victim(|server, now| server.handle_datagram(now, meta(), own));
    });
    let kept = held + freed;
    assert!(kept < 40_000, "{kept} of {held} after the close");
    let (read, freed_by_reading) = heap::growth(|| arena.on_victim(|server, _| read_all(server)));
    assert_eq!(read, 21 * 600);
    assert!(-freed_by_reading >= 21 * 600, "{freed_by_reading}");
}

#[test]
fn an_abandoned_connection_weighs_little() {
    for peer_closes in [false, true] {
        let (mut arena, mut peer, _) = busy();
        arena.on_victim(|server, _| {
            server.abandon();
            // Without effect: it lives.
            assert_eq!(server.stream_stats().receive_buffered_bytes, PIECES * 600);
        });
        let close = Frame::ConnectionClose(Close {
            frame_type: None,
            code: 9,
            reason: b"",
        });
        let datagram = peer.one_rtt(&[close]);
        arena.on_victim(|server, now| {
            if peer_closes {
                server.handle_datagram(now, meta(), BytesMut::from(&datagram.payload[..]));
            } else {
                server.close(now, 5, Bytes::new());
                let mut buf = vec![0; 1_500];
                server.poll_transmit(now, &mut buf, 1).expect("a close");
            }
            server.abandon();
            assert_eq!(server.poll_event(), None);
            assert_eq!(server.stream_stats().receive_buffered_bytes, 0);
        });
        // What is on the way arrives. What is freed after that is what the connection weighed.
        arena.run(60 * MS);
        assert_eq!(arena.host().connections().count(), 1);
        let ((), gone) = heap::growth(|| arena.run(Duration::from_secs(10)));
        assert_eq!(arena.host().connections().count(), 0);
        println!("peer closes: {peer_closes}; {} bytes", -gone);
        assert!((1_000..OVER_BYTES).contains(&-gone), "{gone}");
    }
}
