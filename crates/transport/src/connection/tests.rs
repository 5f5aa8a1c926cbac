//! What a peer, or somebody who copies its packets, may do to an established connection.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;

use super::{
    Connection,
    crypto_stream::CryptoStream,
    rx::{FrameSummary, Received},
};
use crate::{
    config::TransportConfig,
    error::{Code, TransportError},
    path::tests::Wire,
    rng::Rng,
    time::Instant,
    tls::Level,
    units::{Ecn, FourTuple, PathId},
    wire::Frame,
};

const DATAGRAM: usize = 1200;

fn established() -> Wire {
    Wire::established(TransportConfig::default())
}

/// A packet with the highest number so far, from another address of the peer's.
fn received_from(connection: &Connection, now: Instant, host: u8) -> Received {
    let remote = SocketAddr::from(([192, 0, 2, host], 4444));
    let local = connection.local_address();
    Received {
        now,
        arrived: now,
        level: Level::OneRtt,
        path: PathId::ZERO,
        number: 1_000_000 + u64::from(host),
        four_tuple: FourTuple { local, remote },
        ecn: Ecn::NotEct,
        dcid: connection.handshake.local_cid,
        key_phase: 0,
        datagram_bytes: DATAGRAM,
        packet_bytes: 0,
    }
}

fn dispatch(connection: &mut Connection, frame: Frame<'_>) -> Result<(), TransportError> {
    let received = received_from(connection, Instant::ZERO, 9);
    connection.dispatch(&received, &Bytes::new(), frame)
}

const NON_PROBING: FrameSummary = FrameSummary {
    ack_eliciting: true,
    non_probing: true,
    immediate_ack: false,
    repair: false,
    contents: crate::path::Contents {
        ack: false,
        data: false,
        more: false,
    },
};

/// Two copied packets from two addresses: neither address answers, the path returns to where it
/// was, and the connection lives on.
#[test]
fn last_proven_address_survives_a_chain_of_others() {
    let mut wire = established();
    let now = wire.now;
    let server = wire.server();
    let home = server.remote_address();
    for host in [1, 2, 3] {
        let received = received_from(server, now, host);
        server.check_migration(&received, NON_PROBING, true);
        assert_eq!(server.remote_address(), received.four_tuple.remote);
    }
    server.handle_timeout(now + Duration::from_secs(10));
    assert_eq!(server.remote_address(), home);
    assert!(!server.is_closed());
}

/// A packet that both probes and moves counts once towards the amplification limit.
#[test]
fn a_new_address_is_credited_once() {
    let mut wire = established();
    let now = wire.now;
    let server = wire.server();
    let received = received_from(server, now, 1);
    let challenge = Frame::PathChallenge([7; 8]);
    let done = server.dispatch(&received, &Bytes::new(), challenge);
    assert!(done.is_ok());
    server.check_migration(&received, NON_PROBING, true);
    let path = server.paths.get(PathId::ZERO).expect("path 0");
    assert_eq!(path.network.four_tuple(), received.four_tuple);
    assert_eq!(path.network.amplification.budget(), 3 * DATAGRAM as u64);
}

/// However many challenges come, answers wait in a bounded queue.
#[test]
fn challenges_flood_in_vain() {
    let mut wire = established();
    let now = wire.now;
    let server = wire.server();
    for host in [1, 1, 2, 1] {
        let received = received_from(server, now, host);
        for data in 0..100u8 {
            let challenge = Frame::PathChallenge([data; 8]);
            assert!(server.dispatch(&received, &Bytes::new(), challenge).is_ok());
        }
    }
    let mut buf = vec![0; 65_535];
    let mut sent = 0;
    while let Some(transmit) = server.poll_transmit(now, &mut buf, 10) {
        sent += transmit.len;
    }
    assert!(sent <= 3 * DATAGRAM, "{sent}");
}

#[test]
fn extensions_that_were_not_agreed_on_are_refused() {
    let mut wire = Wire::established(TransportConfig {
        ack_frequency: false,
        datagram_receive_buffer_bytes: 0,
        ..TransportConfig::default()
    });
    let server = wire.server();
    let retire = Frame::RetireConnectionId {
        path: Some(PathId::ZERO),
        sequence: 0,
    };
    let frames = [
        retire,
        Frame::MaxPathId(3),
        Frame::ImmediateAck,
        Frame::Datagram { data: &[] },
    ];
    for frame in frames {
        let error = dispatch(server, frame).expect_err("refused");
        assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
    }
}

/// As frames of a type that nobody knows. RFC 9000 s12.4.
#[test]
fn frames_of_erasure_correction_are_unknown_unless_negotiated() {
    let mut wire = Wire::established(TransportConfig::default());
    let server = wire.server();
    let frames = [
        Frame::Repair(crate::wire::Repair {
            first: 0,
            count: 1,
            key: 0,
            symbol: &[0, 0],
        }),
        Frame::FecWindow {
            epoch: 1,
            symbols: 1,
            bytes: 1,
        },
    ];
    for frame in frames {
        let error = dispatch(server, frame).expect_err("refused");
        assert_eq!(error.code, Code::FRAME_ENCODING_ERROR);
    }
}

/// disable_active_migration: a client that lost its address has lost the connection.
#[test]
fn no_moving_against_the_peers_will() {
    let mut wire = Wire::established(TransportConfig {
        migration: false,
        ..TransportConfig::default()
    });
    let (now, local) = (wire.now, SocketAddr::from(([10, 0, 0, 7], 7000)));
    wire.client.rebind(now, local);
    assert!(wire.client.is_drained());
}

#[test]
fn closing_with_an_impossible_code() {
    let mut wire = established();
    let now = wire.now;
    wire.client.close(now, u64::MAX, Bytes::new());
    let mut buf = vec![0; 1500];
    assert!(wire.client.poll_transmit(now, &mut buf, 1).is_some());
}

/// CRYPTO bytes one by one before a byte far ahead.
#[test]
fn crypto_bytes_in_order_with_a_gap() {
    let mut stream = CryptoStream::default();
    let limit = 1000;
    assert!(stream.on_frame(999, &[9], limit).is_ok());
    assert!(stream.on_frame(1000, &[9], limit).is_err());
    for offset in 0..999u16 {
        let byte = offset as u8;
        assert!(stream.on_frame(u64::from(offset), &[byte], limit).is_ok());
        let expected: &[u8] = if offset == 998 { &[byte, 9] } else { &[byte] };
        assert_eq!(stream.readable(), expected);
        stream.consume(1);
    }
    stream.consume(1);
    assert!(stream.readable().is_empty());
    assert!(stream.on_frame(1000, &[1, 2], limit).is_ok());
    assert_eq!(stream.readable(), [1, 2]);
}

/// Pieces and gaps cost no memory beyond the bytes they span.
#[test]
fn crypto_memory_does_not_depend_on_the_pieces() {
    let limit = 128 * 1024;
    for (step, len) in [(2, 1), (3, 2), (65, 64), (1_000, 1)] {
        let mut stream = CryptoStream::default();
        let mut offset = 1;
        while offset + len <= limit {
            let data = vec![7; len];
            assert!(stream.on_frame(offset as u64, &data, limit).is_ok());
            assert!(stream.incoming_memory() <= limit * 4 / 3);
            offset += step;
        }
        assert!(stream.readable().is_empty());
    }
}

/// Any pieces in any order come out as they were, once each.
#[test]
fn crypto_pieces_in_any_order() {
    let limit = 3_000;
    for seed in 0..200 {
        let mut rng = Rng::from_u64(seed);
        let whole: Vec<u8> = (0..20_000).map(|_| rng.below(256) as u8).collect();
        let mut stream = CryptoStream::default();
        let mut taken = Vec::new();
        let longest = [2, 70, 700][seed as usize % 3];
        while taken.len() < whole.len() {
            let ahead = if rng.below(3) == 0 { 1 } else { limit as u64 };
            let from = (taken.len() as u64 + rng.below(ahead)).saturating_sub(rng.below(50));
            let from = (from as usize).min(whole.len());
            let most = (taken.len() + limit).min(whole.len());
            let to = (from + 1 + rng.below(longest) as usize).clamp(from, most.max(from));
            assert!(
                stream
                    .on_frame(from as u64, &whole[from..to], limit)
                    .is_ok()
            );
            assert!(stream.incoming_memory() <= limit * 4 / 3 + 64);
            let ready = stream.readable();
            assert_eq!(ready, &whole[taken.len()..taken.len() + ready.len()]);
            let some = rng.below(ready.len() as u64 + 1) as usize;
            taken.extend_from_slice(&ready[..some]);
            stream.consume(some);
        }
        assert_eq!(taken, whole);
        assert!(stream.readable().is_empty());
        assert_eq!(stream.incoming_memory(), 0);
    }
}
