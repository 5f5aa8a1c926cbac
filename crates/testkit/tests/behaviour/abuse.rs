//! What a peer or a network may never do: each abuse ends in the RFC's error, or in nothing, with
//! bounded state, and never in a panic.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use tautline_sim::{Direction, quic::Admission};
use tautline_testkit::{
    apps::Manual,
    trace::{FrameTrace, Tap, Trace},
};
use tautline_transport::{
    config::TransportConfig,
    connection::Event,
    error::{Code, ConnectionError},
    observe::Abuse,
    path::PathEvent,
    rng::Rng,
    tls::Level,
    units::{Dir, PathId, Side, StreamId},
    wire::{
        ConnectionId, Frame, Header, NewConnectionId, ResetStream, ResetToken, Stream,
        TransportParameters, parse_header,
    },
};

use crate::{
    kit::{MS, SECOND},
    raw::{Arena, Peer, ack, encode, parameters},
};

const CLIENT_BIDI: StreamId = StreamId::new(Side::Client, Dir::Bi, 0);
const CLIENT_UNI: StreamId = StreamId::new(Side::Client, Dir::Uni, 0);
const SERVER_UNI: StreamId = StreamId::new(Side::Server, Dir::Uni, 0);
const SERVER_BIDI: StreamId = StreamId::new(Side::Server, Dir::Bi, 0);
/// 2^62 - 1.
const MAX: u64 = (1 << 62) - 1;

fn stream(id: StreamId, offset: u64, data: &[u8], fin: bool) -> Frame<'_> {
    Frame::Stream(Stream {
        id,
        offset,
        data,
        fin,
    })
}

/// One 1-RTT packet with this payload closes a server's connection with this code.
#[track_caller]
fn closes(payload: &[u8], code: Code) {
    closes_after(&[], payload, code);
}

#[track_caller]
fn closes_after(first: &[u8], payload: &[u8], code: Code) {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    if !first.is_empty() {
        let datagram = peer.one_rtt_bytes(first);
        arena.send(datagram);
        arena.run(50 * MS);
        assert_eq!(arena.app().ended(), None, "the prelude is innocent");
    }
    let datagram = peer.one_rtt_bytes(payload);
    arena.expect_close(&mut peer, datagram, code);
}

#[track_caller]
fn client_closes(payload: &[u8], code: Code) {
    let (mut arena, mut peer) = Arena::client(1);
    let datagram = peer.one_rtt_bytes(payload);
    arena.expect_close(&mut peer, datagram, code);
}

/// The harness itself: an honest raw client is served.
#[test]
fn honest_raw_peers() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let request = peer.one_rtt(&[stream(CLIENT_BIDI, 0, b"hi", true)]);
    arena.send(request);
    arena.run(50 * MS);
    let (data, end) = arena.on_victim(|server, _| {
        let id = server.accept_stream(Dir::Bi).unwrap();
        crate::kit::read_all(server, id)
    });
    assert_eq!((data.as_slice(), end), (&b"hi"[..], true));
    arena.assert_alive(&mut peer);
    let (mut arena, mut peer) = Arena::client(1);
    arena.assert_alive(&mut peer);
}

// -- Frames that break rules --

#[test]
fn malformed_frames() {
    // Unknown type, truncated fields, a type longer than needed.
    closes(&[0x2f], Code::FRAME_ENCODING_ERROR);
    closes(&[0x21, 0x21], Code::FRAME_ENCODING_ERROR);
    closes(&[0x10], Code::FRAME_ENCODING_ERROR);
    closes(&[0x04, 0x00], Code::FRAME_ENCODING_ERROR);
    closes(&[0x40, 0x01], Code::PROTOCOL_VIOLATION);
    // CRYPTO and NEW_TOKEN with a length beyond the packet; an empty token.
    closes(&[0x06, 0x00, 0x3f, 0x00], Code::FRAME_ENCODING_ERROR);
    client_closes(&[0x07, 0x00], Code::FRAME_ENCODING_ERROR);
    // ACK whose first range underflows.
    closes(&[0x02, 0x05, 0x00, 0x00, 0x09], Code::FRAME_ENCODING_ERROR);
    // NEW_CONNECTION_ID of length 21, and with Retire Prior To beyond its number.
    let mut new = vec![0x18, 0x01, 0x00, 21];
    new.resize(4 + 21 + 16, 7);
    closes(&new, Code::FRAME_ENCODING_ERROR);
    let mut new = vec![0x18, 0x01, 0x02, 8];
    new.resize(4 + 8 + 16, 7);
    closes(&new, Code::FRAME_ENCODING_ERROR);
    // MAX_STREAMS above 2^60.
    closes(
        &[0x12, 0xd0, 0, 0, 0, 0, 0, 0, 1],
        Code::FRAME_ENCODING_ERROR,
    );
    // RESET_STREAM_AT that promises more than there is.
    closes(
        &encode(&[Frame::ResetStreamAt {
            id: CLIENT_BIDI,
            code: 0,
            final_size: 5,
            reliable_size: 6,
        }]),
        Code::FRAME_ENCODING_ERROR,
    );
    // No frames at all.
    closes(&[], Code::PROTOCOL_VIOLATION);
}

#[test]
fn frames_from_the_wrong_end() {
    closes(&encode(&[Frame::HandshakeDone]), Code::PROTOCOL_VIOLATION);
    closes(
        &encode(&[Frame::NewToken { token: b"t" }]),
        Code::PROTOCOL_VIOLATION,
    );
}

#[test]
fn frames_in_the_wrong_packet() {
    for frame in [
        stream(CLIENT_BIDI, 0, b"x", false),
        Frame::MaxData(1),
        Frame::HandshakeDone,
        Frame::PathChallenge([0; 8]),
        Frame::Datagram { data: b"x" },
    ] {
        let mut arena = Arena::server(1, |_| {}, |_| {}, Manual::server());
        let mut peer = Peer::client(0x11, &parameters(ConnectionId::new(&[0x11; 8]).unwrap()));
        let hello = peer.hello();
        let mut frames = encode(&[Frame::Crypto {
            offset: 0,
            data: &hello,
        }]);
        frames.extend_from_slice(&encode(&[frame]));
        let datagram = peer.initial(&frames);
        arena.expect_close(&mut peer, datagram, Code::PROTOCOL_VIOLATION);
    }
}

#[test]
fn reserved_bits() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let mut packet = peer.packet(Level::OneRtt, &encode(&[Frame::Ping]));
    packet[0] |= 0x18;
    let datagram = peer.datagram(packet);
    arena.expect_close(&mut peer, datagram, Code::PROTOCOL_VIOLATION);
}

#[test]
fn multipath_frames_without_multipath() {
    for frame in [
        Frame::PathAbandon {
            path: PathId(1),
            code: 0,
        },
        Frame::MaxPathId(5),
        Frame::PathsBlocked(5),
        Frame::PathStatus {
            path: PathId(1),
            available: true,
            sequence: 1,
        },
    ] {
        closes(&encode(&[frame]), Code::PROTOCOL_VIOLATION);
    }
}

// -- Handshake --

#[test]
fn bad_transport_parameters() {
    let own = ConnectionId::new(&[0x11; 8]).unwrap();
    let good = parameters(own).encode(Side::Client, None);
    let with = |extra: &[u8]| [good.as_slice(), extra].concat();
    let stranger = parameters(ConnectionId::new(&[0x99; 8]).unwrap()).encode(Side::Client, None);
    let without = TransportParameters {
        initial_source_connection_id: None,
        ..parameters(own)
    }
    .encode(Side::Client, None);
    let bad = [
        // Twice the same; server-only ones; out of bounds; cut off; wrong or missing ID.
        with(&[0x04, 0x01, 0x05]),
        with(&[0x02, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        with(&[0x00, 0x00]),
        with(&[0x0a, 0x01, 21]),
        with(&[0x03, 0x02, 0x44, 0xaf]),
        with(&[0x0b, 0x04, 0x80, 0x00, 0x40, 0x00]),
        with(&[0x7f]),
        stranger,
        without,
    ];
    for (index, parameters) in bad.into_iter().enumerate() {
        let mut arena = Arena::server(1, |_| {}, |_| {}, Manual::server());
        let mut peer = Peer::client_with(0x11, parameters);
        let first = peer.first();
        arena.send(first);
        arena.run(100 * MS);
        arena.collect(&mut peer);
        let expected = Some(Code::TRANSPORT_PARAMETER_ERROR);
        assert_eq!(arena.victim_error(), expected, "case {index}");
        assert_eq!(peer.closed_with(), expected, "case {index}");
    }
}

#[test]
fn crypto_gaps_and_oversize() {
    // Far beyond what is kept.
    let beyond = Frame::Crypto {
        offset: 10 << 20,
        data: b"x",
    };
    closes(&encode(&[beyond]), Code::CRYPTO_BUFFER_EXCEEDED);
    // Beyond 2^62 - 1.
    let over = [
        0x06, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00,
    ];
    closes(&over, Code::FRAME_ENCODING_ERROR);

    // Every other byte, up to the limit: kept, and nothing more.
    let mut arena = Arena::server(1, |_| {}, |_| {}, Manual::server());
    let mut peer = Peer::client(0x11, &parameters(ConnectionId::new(&[0x11; 8]).unwrap()));
    let mut offset = 1;
    for _ in 0..600 {
        let mut frames = Vec::new();
        while frames.len() < 1_000 && offset < 120_000 {
            frames.extend_from_slice(&encode(&[Frame::Crypto { offset, data: b"x" }]));
            offset += 2;
        }
        if frames.is_empty() {
            break;
        }
        let datagram = peer.initial(&frames);
        arena.send(datagram);
    }
    arena.run(SECOND);
    arena.collect(&mut peer);
    assert_eq!(arena.app().ended(), None);
    let last = peer.initial(&encode(&[Frame::Crypto {
        offset: 200_000,
        data: b"x",
    }]));
    arena.expect_close(&mut peer, last, Code::CRYPTO_BUFFER_EXCEEDED);
}

#[test]
fn endless_client_hello() {
    let mut arena = Arena::server(1, |_| {}, |_| {}, Manual::server());
    let mut peer = Peer::client(0x11, &parameters(ConnectionId::new(&[0x11; 8]).unwrap()));
    // A ClientHello that claims 16 MB.
    let mut hello = vec![1, 0xff, 0xff, 0xff];
    hello.resize(1_000, 3);
    let datagram = peer.initial(&encode(&[Frame::Crypto {
        offset: 0,
        data: &hello,
    }]));
    arena.send(datagram);
    arena.run(100 * MS);
    arena.collect(&mut peer);
    let code = arena.victim_error().expect("closed");
    assert!(
        code == Code::CRYPTO_BUFFER_EXCEEDED || code.tls_alert().is_some(),
        "{code}"
    );
}

/// Thousands of first Initials from everywhere: a bounded number is taken, the others must prove
/// their address first; a client that does is served, and everything is forgotten in the end.
#[test]
fn handshake_flood() {
    let mut arena = Arena::server(
        1,
        |transport| transport.handshake_timeout = 10 * SECOND,
        |server| server.max_incoming = 50,
        Manual::server(),
    );
    let mut rng = Rng::from_u64(1);
    for number in 0..3_000u32 {
        let mut peer = Peer::client(0x11, &parameters(ConnectionId::new(&[0x11; 8]).unwrap()));
        peer.dcid = ConnectionId::new(&rng.array::<8>()).unwrap();
        peer.from = SocketAddr::from(([10, 77, (number >> 8) as u8, number as u8], 1_000));
        let first = peer.first();
        arena.inject(first);
    }
    arena.run(100 * MS);
    let taken = arena.app().accepted.len();
    assert_eq!(taken, 50, "connections taken");
    assert_eq!(arena.host().connections().count(), 50);

    // An honest client answers the Retry.
    let mut peer = Peer::client(0x33, &parameters(ConnectionId::new(&[0x33; 8]).unwrap()));
    let first = peer.first();
    arena.send(first);
    arena.run(50 * MS);
    arena.collect(&mut peer);
    let retry = peer.special.pop().expect("a Retry");
    let Ok(Header::Retry { token, scid, .. }) = parse_header(&retry, 8) else {
        panic!("not a Retry");
    };
    peer.token = token.to_vec();
    peer.dcid = scid;
    arena.handshake(&mut peer);
    assert_eq!(arena.app().accepted.len(), 51);

    arena.run(40 * SECOND);
    assert!(arena.host().connections().count() <= 1, "all forgotten");
}

/// Datagrams too small to start a connection start none and get no answer.
#[test]
fn small_initials() {
    let mut arena = Arena::server(1, |_| {}, |_| {}, Manual::server());
    let mut peer = Peer::client(0x11, &parameters(ConnectionId::new(&[0x11; 8]).unwrap()));
    let hello = peer.hello();
    let frames = encode(&[Frame::Crypto {
        offset: 0,
        data: &hello,
    }]);
    let packet = peer.packet(Level::Initial, &frames);
    let datagram = peer.datagram(packet);
    arena.send(datagram);
    arena.run(SECOND);
    assert!(arena.inbox().is_empty());
    assert!(arena.app().accepted.is_empty());
}

/// A raw client that got a Retry from a server that always asks for one.
fn retried() -> (Arena, Peer) {
    let mut app = Manual::server();
    app.admission = Some(Admission::Retry);
    let mut arena = Arena::server(1, |_| {}, |_| {}, app);
    let mut peer = Peer::client(0x11, &parameters(ConnectionId::new(&[0x11; 8]).unwrap()));
    let first = peer.first();
    arena.send(first);
    arena.run(50 * MS);
    arena.collect(&mut peer);
    let retry = peer.special.pop().expect("a Retry");
    let Ok(Header::Retry { token, scid, .. }) = parse_header(&retry, 8) else {
        panic!("not a Retry");
    };
    peer.token = token.to_vec();
    peer.dcid = scid;
    (arena, peer)
}

fn refused_with_invalid_token(mut arena: Arena, mut peer: Peer) {
    let from = peer.from;
    let first = peer.first();
    if from == tautline_testkit::pair::client_address() {
        arena.send(first);
    } else {
        arena.inject(first);
    }
    arena.run(50 * MS);
    arena.collect(&mut peer);
    assert!(arena.app().accepted.is_empty());
    if from.ip() == tautline_testkit::pair::client_address().ip() {
        assert_eq!(peer.closed_with(), Some(Code::INVALID_TOKEN));
    }
}

#[test]
fn retry_token_honest() {
    let (mut arena, mut peer) = retried();
    arena.handshake(&mut peer);
    assert_eq!(arena.app().knocks, [false, true]);
}

#[test]
fn retry_token_forgery() {
    for position in [0, 1, 5, 20] {
        let (arena, mut peer) = retried();
        let place = position.min(peer.token.len() - 1);
        peer.token[place] ^= 1;
        let mut arena = arena;
        let first = peer.first();
        arena.send(first);
        arena.run(50 * MS);
        arena.collect(&mut peer);
        // A token that does not look like a Retry's any more proves nothing; one that does is
        // an error. Neither opens a connection.
        assert!(arena.app().accepted.is_empty());
        assert!(!arena.app().knocks.contains(&true));
    }
}

#[test]
fn retry_token_replay() {
    // From another address, another port, to another connection ID, and too late.
    let (arena, mut peer) = retried();
    peer.from = "10.0.0.99:50000".parse().unwrap();
    refused_with_invalid_token(arena, peer);
    let (arena, mut peer) = retried();
    peer.from.set_port(50_001);
    refused_with_invalid_token(arena, peer);
    let (arena, mut peer) = retried();
    peer.dcid = ConnectionId::new(&[9; 8]).unwrap();
    refused_with_invalid_token(arena, peer);
    let (mut arena, peer) = retried();
    arena.run(20 * SECOND);
    refused_with_invalid_token(arena, peer);
}

/// From the client that it was given to, once its connection is over.
#[test]
fn retry_token_opens_one_connection() {
    let (mut arena, peer) = retried();
    let (token, scid) = (peer.token, peer.dcid);
    for round in 0..3 {
        let number = 0x51 + round;
        let own = ConnectionId::new(&[number; 8]).unwrap();
        let mut again = Peer::client(number, &parameters(own));
        again.token.clone_from(&token);
        again.dcid = scid;
        let first = again.first();
        arena.send(first);
        arena.run(50 * MS);
        arena.collect(&mut again);
        assert_eq!(arena.app().accepted.len(), 1, "round {round}");
        if round == 0 {
            assert_eq!(again.closed_with(), None);
            arena.on_victim(|server, now| server.close(now, 1, bytes::Bytes::new()));
        } else {
            assert_eq!(again.closed_with(), Some(Code::INVALID_TOKEN));
        }
        arena.run(5 * SECOND);
        arena.collect(&mut again);
        assert_eq!(arena.host().connections().count(), 0);
    }
}

/// A NEW_TOKEN token proves an address once.
#[test]
fn new_token_replay() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let token = peer
        .got
        .iter()
        .find_map(|got| {
            let mut reader = tautline_transport::wire::Reader::new(&got.payload);
            while let Ok(frame) = Frame::decode(&mut reader) {
                if let Frame::NewToken { token } = frame {
                    return Some(token.to_vec());
                }
            }
            None
        })
        .expect("a token");
    arena.collect(&mut peer);
    for (number, proven) in [(0x41, true), (0x42, false), (0x43, false)] {
        let own = ConnectionId::new(&[number; 8]).unwrap();
        let mut again = Peer::client(number, &parameters(own));
        again.token.clone_from(&token);
        let first = again.first();
        arena.send(first);
        arena.run(50 * MS);
        assert_eq!(arena.app().knocks.last(), Some(&proven), "{number:#x}");
    }
    // From elsewhere it proves nothing even the first time.
    let (mut arena, mut peer) = Arena::confirmed(2, |_| {});
    let _ = &mut peer;
    let mut elsewhere = Peer::client(0x44, &parameters(ConnectionId::new(&[0x44; 8]).unwrap()));
    elsewhere.token = token;
    elsewhere.from = "10.0.0.99:50000".parse().unwrap();
    let first = elsewhere.first();
    arena.inject(first);
    arena.run(50 * MS);
    assert_eq!(arena.app().knocks.last(), Some(&false));
}

/// 1-RTT packets before there are keys: a bounded number is kept.
#[test]
fn undecryptable_flood() {
    let mut arena = Arena::server(1, |_| {}, |_| {}, Manual::server());
    let mut peer = Peer::client(0x11, &parameters(ConnectionId::new(&[0x11; 8]).unwrap()));
    let first = peer.first();
    arena.send(first);
    arena.run(50 * MS);
    arena.collect(&mut peer);
    for _ in 0..2_000 {
        let datagram = peer.one_rtt(&[Frame::Ping]);
        arena.send(datagram);
    }
    arena.run(200 * MS);
    let (kept, dropped) = arena.trace.with(0, |server| {
        (
            server
                .received
                .iter()
                .filter(|p| p.level == Level::OneRtt)
                .count(),
            server.dropped.len(),
        )
    });
    assert_eq!(kept, 0);
    assert!(dropped >= 1_900, "{dropped}");
    assert_eq!(arena.app().ended(), None);
}

// -- Connection IDs --

fn new_id(sequence: u64, retire_prior_to: u64) -> Frame<'static> {
    let mut bytes = [0x77; 8];
    bytes[..8].copy_from_slice(&(sequence + 1_000).to_be_bytes());
    Frame::NewConnectionId(NewConnectionId {
        path: None,
        sequence,
        retire_prior_to,
        cid: ConnectionId::new(&bytes).unwrap(),
        token: ResetToken([sequence as u8; 16]),
    })
}

#[test]
fn new_connection_id_flood() {
    // More than the limit (8) at once.
    let many: Vec<Frame<'_>> = (1..9).map(|sequence| new_id(sequence, 0)).collect();
    closes(&encode(&many), Code::CONNECTION_ID_LIMIT_ERROR);
    // As many as allowed.
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let frames: Vec<Frame<'_>> = (1..8).map(|sequence| new_id(sequence, 0)).collect();
    let datagram = peer.one_rtt(&frames);
    arena.send(datagram);
    arena.run(50 * MS);
    arena.assert_alive(&mut peer);
    // Each new one retires all before, and the retirements are never acknowledged: in the end
    // the queue is full.
    let mut sequence = 8;
    for _ in 0..200 {
        let mut frames = Vec::new();
        for _ in 0..20 {
            frames.push(new_id(sequence, sequence));
            sequence += 1;
        }
        let datagram = peer.one_rtt(&frames);
        arena.send(datagram);
    }
    arena.run(SECOND);
    assert_eq!(arena.victim_error(), Some(Code::CONNECTION_ID_LIMIT_ERROR));
}

#[test]
fn connection_ids_with_two_meanings() {
    let other = Frame::NewConnectionId(NewConnectionId {
        path: None,
        sequence: 1,
        retire_prior_to: 0,
        cid: ConnectionId::new(&[0x55; 8]).unwrap(),
        token: ResetToken([1; 16]),
    });
    closes_after(
        &encode(&[new_id(1, 0)]),
        &encode(&[other]),
        Code::PROTOCOL_VIOLATION,
    );
    // The same again is a retransmission.
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    for _ in 0..3 {
        let datagram = peer.one_rtt(&[new_id(1, 0)]);
        arena.send(datagram);
    }
    arena.run(50 * MS);
    arena.assert_alive(&mut peer);
}

fn retire(sequence: u64) -> Frame<'static> {
    Frame::RetireConnectionId {
        path: None,
        sequence,
    }
}

#[test]
fn retire_connection_id_flood() {
    closes(&encode(&[retire(100)]), Code::PROTOCOL_VIOLATION);
    // The one the packet itself is sent to.
    closes(&encode(&[retire(0)]), Code::PROTOCOL_VIOLATION);
    // Retiring as fast as new ones come: each frame costs the flooder a packet, and no more than
    // the limit is ever active.
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    for round in 0..300 {
        let datagram = peer.one_rtt(&[retire(1 + round)]);
        arena.send(datagram);
        arena.run(25 * MS);
        arena.collect(&mut peer);
        if arena.app().ended().is_some() {
            break;
        }
    }
    arena.assert_alive(&mut peer);
    let issued = peer
        .frames()
        .iter()
        .filter(|frame| **frame == FrameTrace::Other(0x18))
        .count();
    assert!(issued <= 3 * 303 + 20, "{issued}");
}

// -- Paths --

#[test]
fn path_challenge_flood() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    for round in 0..200u64 {
        let frames: Vec<Frame<'_>> = (0..100)
            .map(|n| Frame::PathChallenge((round * 100 + n).to_be_bytes()))
            .collect();
        let datagram = peer.one_rtt(&frames);
        arena.send(datagram);
    }
    arena.run(SECOND);
    arena.collect(&mut peer);
    let answers = peer
        .frames()
        .iter()
        .filter(|frame| matches!(frame, FrameTrace::PathResponse(_)))
        .count();
    // At most what may wait is answered per packet, of 20,000 asked.
    assert!((1..=200 * 8).contains(&answers), "{answers}");
    let noticed = arena.trace.with(0, |server| {
        server.abuse.contains(&Abuse::PathChallengeFlood)
    });
    assert!(noticed);
    arena.assert_alive(&mut peer);
}

/// Challenges from thousands of addresses: state for one, and never more than three times what
/// came to any of them.
#[test]
fn path_challenges_from_everywhere() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let tap_before = arena.world.stats().sent;
    for number in 0..2_000u16 {
        let mut datagram = peer.one_rtt(&[Frame::PathChallenge(u64::from(number).to_be_bytes())]);
        datagram.src = SocketAddr::from(([10, 88, (number >> 8) as u8, number as u8], 99));
        arena.inject(datagram);
        if number % 100 == 0 {
            arena.run(MS);
        }
    }
    arena.run(10 * SECOND);
    let sent = arena.world.stats().sent - tap_before;
    assert!(sent < 2_000 * 3, "{sent}");
    let noticed = arena.trace.with(0, |server| {
        server.abuse.contains(&Abuse::PathChallengeFlood)
    });
    assert!(noticed);
    arena.assert_alive(&mut peer);
}

#[test]
fn path_response_to_nothing() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    for number in 0..1_000u64 {
        let datagram = peer.one_rtt(&[Frame::PathResponse(number.to_be_bytes())]);
        arena.send(datagram);
    }
    arena.run(SECOND);
    arena.assert_alive(&mut peer);
}

/// An attacker on the side who makes the path jump between thousands of forged addresses. None of
/// them gets more than three times what came from it, the state is that of two addresses, and the
/// honest peer has the path back with its next packet.
#[test]
fn migration_storm() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let honest_address = peer.from;
    let tap = Tap::new(&mut arena.world, arena.link);
    // Something to send, which would go wherever the path leads.
    let id = arena.on_victim(|server, _| {
        let id = server.open_stream(Dir::Uni).unwrap();
        while server.write(id, &[0; 100_000]).unwrap() > 0 {}
        id
    });
    let mut forged: BTreeMap<SocketAddr, usize> = BTreeMap::new();
    for number in 0..2_000u16 {
        let mut datagram = peer.one_rtt(&[Frame::Ping]);
        datagram.src = SocketAddr::from(([10, 99, (number >> 8) as u8, number as u8], 99));
        forged.insert(datagram.src, datagram.payload.len());
        arena.inject(datagram);
        if number % 20 == 0 {
            arena.run(MS);
        }
    }
    let storm_over = arena.world.now();
    arena.run(SECOND);
    let at = arena.on_victim(|server, _| server.remote_address());
    assert!(forged.contains_key(&at), "no storm: {at}");
    let back = arena.world.now();
    let honest = peer.one_rtt(&[Frame::Ping]);
    arena.send(honest);
    arena.run(15 * MS);
    let at = arena.on_victim(|server, _| server.remote_address());
    assert_eq!(at, honest_address);
    // An honest client acknowledges, and gets what there is.
    for _ in 0..200 {
        arena.collect(&mut peer);
        if let Some(all) = peer.honest_ack(Level::OneRtt) {
            let ack = peer.one_rtt_bytes(&all);
            arena.send(ack);
        }
        arena.run(25 * MS);
    }
    let served = peer.frames().iter().any(|frame| {
        matches!(frame, FrameTrace::Stream { id: of, offset, .. } if *of == id && *offset > 200_000)
    });
    assert!(served, "the honest peer is not served");
    arena.assert_alive(&mut peer);

    let mut sent_to: BTreeMap<SocketAddr, usize> = BTreeMap::new();
    let (mut remembered, mut afterwards) = (BTreeSet::new(), BTreeSet::new());
    for datagram in tap.heard(Direction::Backward) {
        if datagram.dst != honest_address {
            *sent_to.entry(datagram.dst).or_default() += datagram.payload.len();
            if datagram.time > storm_over + MS {
                remembered.insert(datagram.dst);
            }
            if datagram.time > back + 15 * MS {
                afterwards.insert(datagram.dst);
            }
        }
    }
    for (address, bytes) in &sent_to {
        let most = 3 * forged[address];
        assert!(*bytes <= most, "{bytes} of {most} to {address}");
    }
    assert!(remembered.len() <= 1, "state of many: {remembered:?}");
    assert!(afterwards.is_empty(), "still known: {afterwards:?}");
    let moved = arena
        .app()
        .events
        .iter()
        .filter(|(_, event)| matches!(event, Event::Path(PathEvent::Migrated { .. })))
        .count();
    assert!(moved > 100, "no storm: {moved}");
}

// -- Streams --

#[test]
fn stream_limit_abuse() {
    let beyond = StreamId::new(Side::Client, Dir::Bi, 100);
    closes(
        &encode(&[stream(beyond, 0, b"x", false)]),
        Code::STREAM_LIMIT_ERROR,
    );
    let far = StreamId::new(Side::Client, Dir::Uni, 1 << 58);
    closes(
        &encode(&[stream(far, 0, b"x", false)]),
        Code::STREAM_LIMIT_ERROR,
    );
    let stop = Frame::StopSending {
        id: beyond,
        code: 0,
    };
    closes(&encode(&[stop]), Code::STREAM_LIMIT_ERROR);
}

#[test]
fn stream_state_abuse() {
    // Streams that only the server could have opened, and has not.
    closes(
        &encode(&[stream(SERVER_BIDI, 0, b"x", false)]),
        Code::STREAM_STATE_ERROR,
    );
    for frame in [
        Frame::MaxStreamData {
            id: SERVER_BIDI,
            max: 1,
        },
        Frame::StopSending {
            id: SERVER_BIDI,
            code: 1,
        },
        // Data for a stream that only the server sends on.
        stream(SERVER_UNI, 0, b"x", false),
        Frame::ResetStream(ResetStream {
            id: SERVER_UNI,
            code: 0,
            final_size: 0,
        }),
        // Credit for a stream that only the client sends on.
        Frame::MaxStreamData {
            id: CLIENT_UNI,
            max: 1,
        },
        Frame::StopSending {
            id: CLIENT_UNI,
            code: 1,
        },
    ] {
        closes(&encode(&[frame]), Code::STREAM_STATE_ERROR);
    }
}

#[test]
fn window_abuse() {
    // Beyond the stream's window (256 KiB), beyond the connection's (1 MiB) over several streams,
    // beyond 2^62 - 1.
    closes(
        &encode(&[stream(CLIENT_BIDI, 256 * 1024, b"x", false)]),
        Code::FLOW_CONTROL_ERROR,
    );
    let spread: Vec<Frame<'_>> = (0..5)
        .map(|index| {
            let id = StreamId::new(Side::Client, Dir::Uni, index);
            stream(id, 256 * 1024 - 1, b"x", false)
        })
        .collect();
    closes(&encode(&spread), Code::FLOW_CONTROL_ERROR);
    closes(
        &encode(&[Frame::ResetStream(ResetStream {
            id: CLIENT_BIDI,
            code: 0,
            final_size: MAX,
        })]),
        Code::FLOW_CONTROL_ERROR,
    );
    let mut beyond = vec![0x0c, 0x00];
    beyond.extend_from_slice(&[0xff; 8]);
    beyond.extend_from_slice(b"xyz");
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let datagram = peer.one_rtt_bytes(&beyond);
    arena.send(datagram);
    arena.run(100 * MS);
    let code = arena.victim_error().expect("closed");
    // RFC 9000 s19.8 leaves the choice.
    assert!(
        [Code::FRAME_ENCODING_ERROR, Code::FLOW_CONTROL_ERROR].contains(&code),
        "{code}"
    );
}

#[test]
fn final_size_abuse() {
    let fin = encode(&[stream(CLIENT_BIDI, 0, b"0123456789", true)]);
    for frame in [
        stream(CLIENT_BIDI, 10, b"x", false),
        stream(CLIENT_BIDI, 0, b"01234567890", true),
        stream(CLIENT_BIDI, 0, b"01", true),
        Frame::ResetStream(ResetStream {
            id: CLIENT_BIDI,
            code: 0,
            final_size: 9,
        }),
    ] {
        closes_after(&fin, &encode(&[frame]), Code::FINAL_SIZE_ERROR);
    }
    let reset = encode(&[Frame::ResetStream(ResetStream {
        id: CLIENT_BIDI,
        code: 0,
        final_size: 5,
    })]);
    let other = encode(&[Frame::ResetStream(ResetStream {
        id: CLIENT_BIDI,
        code: 0,
        final_size: 6,
    })]);
    closes_after(&reset, &other, Code::FINAL_SIZE_ERROR);
}

/// Single bytes with gaps between them, as many as the window takes. They count as what they are,
/// stay within it, and the stream still works once the gaps are filled.
#[test]
fn one_byte_fragments_with_gaps() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let window = 200_000u64;
    let mut offset = 1;
    while offset < window {
        let mut payload = Vec::new();
        while payload.len() < 1_100 && offset < window {
            payload.extend_from_slice(&encode(&[stream(CLIENT_BIDI, offset, b"b", false)]));
            offset += 2;
        }
        let datagram = peer.one_rtt_bytes(&payload);
        arena.send(datagram);
    }
    arena.run(SECOND);
    arena.assert_alive(&mut peer);
    let held = arena.on_victim(|server, _| server.stream_stats());
    assert_eq!(held.receive_buffered_bytes, window / 2, "{held:?}");
    // Now everything, in large pieces.
    let all = vec![b'a'; 1_000];
    let mut offset = 0;
    while offset < window {
        let datagram = peer.one_rtt(&[stream(CLIENT_BIDI, offset, &all, offset + 1_000 == window)]);
        arena.send(datagram);
        offset += 1_000;
    }
    arena.run(SECOND);
    let (data, end) = arena.on_victim(|server, _| {
        assert_eq!(server.accept_stream(Dir::Bi), Some(CLIENT_BIDI));
        crate::kit::read_all(server, CLIENT_BIDI)
    });
    assert_eq!((data.len() as u64, end), (window, true));
    // What came first counts: RFC 9000 s2.2 lets a receiver keep either copy.
    assert!(data.iter().all(|byte| b"ab".contains(byte)));
}

/// Opened and reset, opened and reset: no more than the limit is open at once, nothing is owed.
#[test]
fn rapid_resets() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let mut allowed = 100;
    let mut next = 0;
    for _ in 0..100 {
        let mut frames = Vec::new();
        while next < allowed && frames.len() < 30 {
            let id = StreamId::new(Side::Client, Dir::Bi, next);
            next += 1;
            frames.push(stream(id, 0, b"x", false));
            frames.push(Frame::ResetStream(ResetStream {
                id,
                code: 0,
                final_size: 1,
            }));
            frames.push(Frame::StopSending { id, code: 0 });
        }
        if !frames.is_empty() {
            let datagram = peer.one_rtt(&frames);
            arena.send(datagram);
        }
        arena.run(30 * MS);
        arena.collect(&mut peer);
        if let Some(honest) = peer.honest_ack(Level::OneRtt) {
            let datagram = peer.one_rtt_bytes(&honest);
            arena.send(datagram);
        }
        arena.on_victim(|server, _| while server.accept_stream(Dir::Bi).is_some() {});
        arena.collect(&mut peer);
        for got in &peer.got {
            let mut reader = tautline_transport::wire::Reader::new(&got.payload);
            while let Ok(frame) = Frame::decode(&mut reader) {
                if let Frame::MaxStreams { dir: Dir::Bi, max } = frame {
                    allowed = allowed.max(max);
                }
            }
        }
        let open = arena.on_victim(|server, _| server.stream_stats().open_streams);
        assert!(open <= 100, "{open}");
        peer.got.retain(|got| got.level == Level::OneRtt);
    }
    arena.assert_alive(&mut peer);
    assert!(next >= 100);
}

/// Frames that make the server owe frames (MAX_STREAM_DATA, RESET_STREAM) while it is never
/// acknowledged: what it owes is bounded by its streams.
#[test]
fn blocked_frames_flood() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    for round in 0..500u64 {
        let frames = [
            Frame::DataBlocked(round),
            Frame::StreamDataBlocked {
                id: CLIENT_BIDI,
                limit: round,
            },
            Frame::StreamsBlocked {
                dir: Dir::Bi,
                limit: round,
            },
            Frame::MaxData(round),
        ];
        let datagram = peer.one_rtt(&frames);
        arena.send(datagram);
    }
    arena.run(SECOND);
    arena.assert_alive(&mut peer);
}

// -- Acknowledgements --

#[test]
fn ack_of_unsent_packets() {
    closes(&ack(&[1_000..=1_000]), Code::PROTOCOL_VIOLATION);
    closes(&ack(&[0..=MAX]), Code::PROTOCOL_VIOLATION);
    client_closes(&ack(&[5_000..=5_000]), Code::PROTOCOL_VIOLATION);
    // In the handshake spaces, too.
    let mut arena = Arena::server(1, |_| {}, |_| {}, Manual::server());
    let mut peer = Peer::client(0x11, &parameters(ConnectionId::new(&[0x11; 8]).unwrap()));
    let first = peer.first();
    arena.send(first);
    arena.run(50 * MS);
    arena.collect(&mut peer);
    let datagram = peer.initial(&ack(&[77..=77]));
    arena.expect_close(&mut peer, datagram, Code::PROTOCOL_VIOLATION);
}

/// A receiver that acknowledges everything up to the largest number, whether it came or not, meets
/// a number that was never sent.
#[test]
fn optimistic_acks() {
    let mut caught = 0;
    for seed in 0..5 {
        let (mut arena, mut peer) = Arena::confirmed(seed, |_| {});
        arena.on_victim(|server, _| {
            let id = server.open_stream(Dir::Uni).unwrap();
            while server.write(id, &[0; 100_000]).unwrap() > 0 {}
        });
        for _ in 0..400 {
            arena.run(10 * MS);
            arena.collect(&mut peer);
            let largest = peer
                .got
                .iter()
                .filter(|got| got.level == Level::OneRtt)
                .map(|got| got.number)
                .max();
            if let Some(largest) = largest {
                let datagram = peer.one_rtt_bytes(&ack(&[0..=largest]));
                arena.send(datagram);
            }
            if arena.app().ended().is_some() {
                assert_eq!(arena.victim_error(), Some(Code::PROTOCOL_VIOLATION));
                only(&arena.trace, Abuse::OptimisticAck);
                caught += 1;
                break;
            }
        }
    }
    assert_eq!(caught, 5);
}

/// The same ACK thousands of times costs little and changes nothing.
#[test]
fn repeated_acks() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let honest = peer.honest_ack(Level::OneRtt).unwrap();
    for _ in 0..3_000 {
        let datagram = peer.one_rtt_bytes(&honest);
        arena.send(datagram);
    }
    arena.run(SECOND);
    arena.assert_alive(&mut peer);
}

/// Packets with ever larger gaps between their numbers: received ranges stay bounded.
#[test]
fn packet_number_gaps() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    for _ in 0..3_000 {
        peer.numbers[2] += 2;
        // As long as data is; what small ones draw is another test's.
        let datagram = peer.one_rtt(&[Frame::Ping, Frame::Padding { len: 1_000 }]);
        arena.send(datagram);
    }
    arena.run(SECOND);
    arena.collect(&mut peer);
    let mut most = 0;
    for got in &peer.got {
        let mut reader = tautline_transport::wire::Reader::new(&got.payload);
        while let Ok(frame) = Frame::decode(&mut reader) {
            if let Frame::Ack(ack) = frame {
                most = most.max(ack.ranges().count());
            }
        }
    }
    assert!((50..=256).contains(&most), "{most} ranges");
    arena.assert_alive(&mut peer);
}

#[test]
fn ack_frequency_out_of_range() {
    let frame = |max_ack_delay_us| Frame::AckFrequency {
        sequence: 0,
        threshold: 1,
        max_ack_delay_us,
        reordering: 1,
    };
    closes(&encode(&[frame(999)]), Code::PROTOCOL_VIOLATION);
    closes(&encode(&[frame(1 << 40)]), Code::PROTOCOL_VIOLATION);
    // Extremes within the rules.
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    for (sequence, threshold) in [(0, 0), (1, MAX), (2, 1)] {
        let datagram = peer.one_rtt(&[Frame::AckFrequency {
            sequence,
            threshold,
            max_ack_delay_us: 1_000,
            reordering: MAX,
        }]);
        arena.send(datagram);
    }
    arena.run(SECOND);
    arena.assert_alive(&mut peer);
}

// -- Keys --

#[test]
fn key_update_storm() {
    // Phase after phase without waiting: RFC 9001 s6.2 allows to close.
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    for phase in 1..50 {
        peer.key_phase = phase;
        let datagram = peer.one_rtt(&[Frame::Ping]);
        arena.send(datagram);
    }
    arena.run(SECOND);
    assert_eq!(arena.victim_error(), Some(Code::KEY_UPDATE_ERROR));
    let phases = arena.trace.with(0, |server| server.key_updates.len());
    assert!(phases <= 2, "{phases}");
}

/// Packets that claim another phase but do not open change nothing.
#[test]
fn forged_key_updates() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    for number in 0..2_000 {
        peer.key_phase = 1;
        let mut packet =
            peer.packet_numbered(Level::OneRtt, 5_000 + number, &encode(&[Frame::Ping]));
        let last = packet.len() - 1;
        packet[last] ^= 0xff;
        let datagram = peer.datagram(packet);
        arena.send(datagram);
    }
    arena.run(SECOND);
    peer.key_phase = 0;
    arena.assert_alive(&mut peer);
    let phases = arena.trace.with(0, |server| server.key_updates.len());
    assert_eq!(phases, 0);
}

// -- Floods --

#[test]
fn datagram_flood() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let data = [7; 1_000];
    for _ in 0..5_000 {
        let datagram = peer.one_rtt(&[Frame::Datagram { data: &data }]);
        arena.send(datagram);
    }
    // Empty ones cost something, too.
    for _ in 0..500 {
        let frames = [Frame::Datagram { data: &[] }; 500];
        let datagram = peer.one_rtt(&frames);
        arena.send(datagram);
    }
    arena.run(2 * SECOND);
    arena.assert_alive(&mut peer);
    let (count, bytes) = arena.on_victim(|server, _| {
        let mut held = (0, 0);
        while let Some(data) = server.recv_datagram() {
            held = (held.0 + 1, held.1 + data.len());
        }
        held
    });
    assert!(bytes <= 1 << 20, "{bytes}");
    assert!(count <= (1 << 20) / 64, "{count}");
}

#[test]
fn oversized_datagram_frame() {
    // The server announced that it takes none.
    let (mut arena, mut peer) =
        Arena::confirmed(1, |transport| transport.datagram_receive_buffer_bytes = 0);
    let datagram = peer.one_rtt(&[Frame::Datagram { data: b"x" }]);
    arena.expect_close(&mut peer, datagram, Code::PROTOCOL_VIOLATION);
}

#[test]
fn ping_flood() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let before = arena.inbox().len();
    for _ in 0..5_000 {
        let datagram = peer.one_rtt(&[Frame::Ping]);
        arena.send(datagram);
    }
    arena.run(SECOND);
    let answers = arena.inbox().len() - before;
    assert!(answers <= 5_000, "{answers}");
    arena.assert_alive(&mut peer);
}

/// Bytes without sense, of every length, to everybody.
#[test]
fn noise() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let mut rng = Rng::from_u64(5);
    for round in 0..20_000usize {
        let mut payload = vec![0; round % 1_400];
        rng.fill(&mut payload);
        if round % 3 == 0 && payload.len() > 9 {
            payload[0] = 0x40 | payload[0] & 0x3f;
            payload[1..9].copy_from_slice(peer.dcid.as_slice());
        }
        let datagram = peer.datagram(payload);
        arena.inject(datagram);
    }
    arena.run(SECOND);
    arena.assert_alive(&mut peer);
}

/// Well-formed packets with random frames: any end but a panic.
#[test]
fn random_frames() {
    let mut rng = Rng::from_u64(6);
    for seed in 0..300 {
        let (mut arena, mut peer) = Arena::confirmed(seed, |_| {});
        for _ in 0..10 {
            let mut payload = vec![0; 1 + rng.below(60) as usize];
            rng.fill(&mut payload);
            payload[0] = rng.below(0x32) as u8;
            let datagram = peer.one_rtt_bytes(&payload);
            arena.send(datagram);
        }
        arena.run(50 * MS);
        if let Some(ConnectionError::Transport(error)) = arena.app().ended() {
            assert_ne!(error.code, Code::INTERNAL_ERROR, "{error}");
        }
    }
}

/// A server that lies to its client.
#[test]
fn lying_servers() {
    client_closes(&encode(&[retire(77)]), Code::PROTOCOL_VIOLATION);
    client_closes(
        &encode(&[stream(
            StreamId::new(Side::Server, Dir::Bi, 100),
            0,
            b"x",
            false,
        )]),
        Code::STREAM_LIMIT_ERROR,
    );
    client_closes(
        &encode(&[stream(CLIENT_UNI, 0, b"x", false)]),
        Code::STREAM_STATE_ERROR,
    );
    let many: Vec<Frame<'_>> = (1..12).map(|sequence| new_id(sequence, 0)).collect();
    client_closes(&encode(&many), Code::CONNECTION_ID_LIMIT_ERROR);
}

// -- Counters --

/// What a server whose handshake is confirmed notices about packets with these payloads.
fn noticed(payloads: &[Vec<u8>]) -> Vec<Abuse> {
    noticed_with(|_| {}, payloads)
}

fn noticed_with(tune: impl FnOnce(&mut TransportConfig), payloads: &[Vec<u8>]) -> Vec<Abuse> {
    let (mut arena, mut peer) = Arena::confirmed(1, tune);
    for payload in payloads {
        let datagram = peer.one_rtt_bytes(payload);
        arena.send(datagram);
    }
    arena.run(SECOND);
    arena.trace.with(0, |server| server.abuse.clone())
}

/// Each kind of abuse has a counter of its own, and only that one moves.
#[test]
fn each_abuse_is_counted_as_what_it_is() {
    let one = |frames: &[Frame<'_>]| noticed(&[encode(frames)]);
    let beyond = StreamId::new(Side::Client, Dir::Bi, 100);
    let crypto = Frame::Crypto {
        offset: 10 << 20,
        data: b"x",
    };
    let many_ids: Vec<Frame<'_>> = (1..9).map(|sequence| new_id(sequence, 0)).collect();
    let retirements: Vec<Frame<'_>> = (1..4).map(retire).collect();
    let challenges: Vec<Frame<'_>> = (0..100)
        .map(|n: u64| Frame::PathChallenge(n.to_be_bytes()))
        .collect();
    let fragments: Vec<Vec<u8>> = (0..20u64)
        .map(|packet| {
            let pieces: Vec<Frame<'_>> = (0..100)
                .map(|piece| stream(CLIENT_BIDI, 1 + 2 * (100 * packet + piece), b"b", false))
                .collect();
            encode(&pieces)
        })
        .collect();
    let big = [7; 1_000];
    let datagrams: Vec<Vec<u8>> = (0..2_000)
        .map(|_| encode(&[Frame::Datagram { data: &big }]))
        .collect();
    let stops: Vec<Frame<'_>> = (0..5)
        .map(|index| Frame::StopSending {
            id: StreamId::new(Side::Client, Dir::Bi, index),
            code: 1,
        })
        .collect();
    let unsent = noticed(&[ack(&[1_000..=1_000])]);
    for (kind, found) in [
        (Abuse::MalformedFrame, noticed(&[vec![0x2f]])),
        (Abuse::MalformedFrame, noticed(&[vec![0x40, 0x01]])),
        (Abuse::Violation, one(&[Frame::HandshakeDone])),
        (
            Abuse::StreamViolation,
            one(&[stream(beyond, 0, b"x", false)]),
        ),
        (
            Abuse::StreamViolation,
            one(&[stream(SERVER_BIDI, 0, b"x", false)]),
        ),
        (
            Abuse::FlowControlViolation,
            one(&[stream(CLIENT_BIDI, 256 * 1024, b"x", false)]),
        ),
        (Abuse::CryptoFlood, one(&[crypto])),
        (Abuse::ConnectionIdFlood, one(&many_ids)),
        (Abuse::RetireFlood, one(&retirements)),
        (Abuse::AckOfUnsent, unsent),
        (Abuse::FragmentFlood, noticed(&fragments)),
        (Abuse::DatagramFlood, noticed(&datagrams)),
        (Abuse::PathChallengeFlood, one(&challenges)),
        (
            Abuse::ControlFlood,
            noticed_with(
                |transport| transport.limits.queued_control_frames = 1,
                &[encode(&stops)],
            ),
        ),
    ] {
        assert!(
            !found.is_empty() && found.iter().all(|found| *found == kind),
            "{kind}: {found:?}"
        );
    }
}

fn only(trace: &Trace, kind: Abuse) {
    let found = trace.with(0, |victim| victim.abuse.clone());
    // A server that may not send yet says so; nobody is to blame for that.
    let mut found = found
        .iter()
        .filter(|found| **found != Abuse::AmplificationLimited)
        .peekable();
    assert!(found.peek().is_some(), "{kind}: nothing");
    assert!(found.all(|found| *found == kind), "{kind}");
}

#[test]
fn abuse_of_packets_is_counted_as_what_it_is() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let mut packet = peer.packet(Level::OneRtt, &encode(&[Frame::Ping]));
    packet[0] |= 0x18;
    let datagram = peer.datagram(packet);
    arena.send(datagram);
    arena.run(50 * MS);
    only(&arena.trace, Abuse::ReservedBits);

    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let mut packet = peer.packet(Level::OneRtt, &encode(&[Frame::Ping]));
    let last = packet.len() - 1;
    packet[last] ^= 0xff;
    let datagram = peer.datagram(packet);
    arena.send(datagram);
    arena.run(50 * MS);
    only(&arena.trace, Abuse::UndecryptablePacket);

    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    for phase in 1..50 {
        peer.key_phase = phase;
        let datagram = peer.one_rtt(&[Frame::Ping]);
        arena.send(datagram);
    }
    arena.run(SECOND);
    // Packets of phases that nobody can have keys for yet do not open.
    let found = arena.trace.with(0, |server| server.abuse.clone());
    assert_eq!(found.first(), Some(&Abuse::KeyUpdateStorm), "{found:?}");

    let mut arena = Arena::server(1, |_| {}, |_| {}, Manual::server());
    let mut peer = Peer::client(0x11, &parameters(ConnectionId::new(&[0x11; 8]).unwrap()));
    let hello = peer.hello();
    let frames = encode(&[
        Frame::Crypto {
            offset: 0,
            data: &hello,
        },
        Frame::MaxData(1),
    ]);
    let datagram = peer.initial(&frames);
    arena.send(datagram);
    arena.run(50 * MS);
    only(&arena.trace, Abuse::FrameNotAllowed);

    let mut arena = Arena::server(1, |_| {}, |_| {}, Manual::server());
    let mut peer = Peer::client_with(0x11, vec![0x7f]);
    let first = peer.first();
    arena.send(first);
    arena.run(100 * MS);
    only(&arena.trace, Abuse::BadTransportParameters);

    // A client that says nothing more may be sent three times what it sent. A probe would leave less
    // than an Initial needs, but something.
    let no_probes = |config: &mut TransportConfig| config.mtu.discovery = false;
    let mut arena = Arena::server(1, no_probes, |_| {}, Manual::server());
    let mut peer = Peer::client(0x11, &parameters(ConnectionId::new(&[0x11; 8]).unwrap()));
    let first = peer.first();
    arena.send(first);
    arena.run(10 * SECOND);
    let limited = arena.trace.with(0, |server| {
        server.abuse.contains(&Abuse::AmplificationLimited)
    });
    assert!(limited);
}

/// Answers to a client's first packet that no server gave.
#[test]
fn forged_first_answers_are_counted_as_what_they_are() {
    let mut net = crate::kit::Setup::new(1, crate::kit::calm()).manual();
    net.run_for(5 * MS);
    let sent = net.tap.heard(tautline_sim::Direction::Forward)[0].clone();
    let header = crate::kit::headers(&sent.payload)[0].clone();
    let long = |version: u32, rest: &[u8]| {
        let mut packet = vec![0xf0];
        packet.extend_from_slice(&version.to_be_bytes());
        for id in [&header.scid, &header.dcid] {
            packet.push(id.len() as u8);
            packet.extend_from_slice(id);
        }
        packet.extend_from_slice(rest);
        packet
    };
    // A Retry whose tag is wrong, and a refusal of the very version that is offered.
    let retry = long(1, &[7; 40]);
    let negotiation = long(0, &[0, 0, 0, 1, 0x0a, 0x0a, 0x0a, 0x0a]);
    for payload in [retry, negotiation] {
        net.world.inject(tautline_sim::Datagram {
            src: sent.dst,
            dst: sent.src,
            ecn: sent.ecn,
            payload,
        });
    }
    net.connect();
    let found = net.client_trace.with(0, |client| client.abuse.clone());
    assert_eq!(found, [Abuse::RetrySpoof, Abuse::VersionNegotiationSpoof]);
}
