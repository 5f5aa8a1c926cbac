//! What a peer can make an end hold is what the configuration says, in bytes of heap.

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
    wire::{ConnectionId, Frame, Stream, TransportParameters},
};

use crate::{
    heap,
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
