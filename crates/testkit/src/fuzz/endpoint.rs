//! Targets of the `endpoint` room: any datagrams, and tokens.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::BytesMut;
use tautline_transport::{
    config::{EndpointConfig, ServerConfig},
    endpoint::{
        DatagramEvent, DatagramMeta, Endpoint, TokenFault, TokenSealer, TokenUse, ValidToken,
    },
    rng::Rng,
    time::Instant,
    units::{Ecn, FourTuple},
    wire::{ConnectionId, Frame, LongHeader, LongType, Version, Writer, patch_length},
};

use super::{
    Coverage,
    input::{Input, record},
    pair::{Op, Setup, World, end, shared},
};
use crate::null_tls::{NullServer, NullTag};

/// Datagrams of one run.
const MAX_DATAGRAMS: usize = 64;

record! {
    /// One datagram of [`datagram_in`].
    Arrival {
        /// To the server (bit 0), from a strange address (bit 1), behind a short header to the
        /// connection (bit 2), after a pause (bit 3), with output before it (bit 4).
        how: u8,
        /// The datagram.
        bytes: Vec<u8>,
    }
}

/// Any datagrams for a server, and for both ends of an established connection. Packets open with
/// any key, so what follows their headers is read as frames.
pub fn datagram_in(data: &[u8]) {
    run_datagram_in(data, None);
}

/// As [`datagram_in`], noting in `coverage` what it reached.
pub fn run_datagram_in(data: &[u8], coverage: Option<&Coverage>) {
    let mut input = Input::new(data);
    let setup = Setup {
        shared: shared::ZERO_TAGS,
        client: end::MULTIPATH,
        server: end::MULTIPATH,
        ..Setup::default()
    };
    let mut world = World::new(setup, coverage.cloned());
    world.connect();
    let mut batch = 0;
    world.run(&Op::Run { rounds: 4 }, &mut batch);
    for _ in 0..MAX_DATAGRAMS {
        if input.is_empty() {
            break;
        }
        let Arrival { how, bytes } = input.take();
        let bit = |bit: u8| how >> bit & 1;
        if bit(3) == 1 {
            world.run(&Op::NextTimer {}, &mut batch);
        }
        let (to, from) = (bit(0), bit(1));
        let op = if bit(2) == 1 {
            Op::RawShort { to, from, bytes }
        } else {
            Op::Raw { to, from, bytes }
        };
        batch = 1 - bit(4);
        world.run(&op, &mut batch);
    }
    world.finish();
}

record! {
    /// The script of [`tokens`].
    TokenScript {
        /// Key of the sealer.
        key: u8,
        /// Port and last byte of the client's address.
        port: u16,
        ip: u8,
        /// Seconds until the token is used, halved.
        seconds: u16,
        /// Where the token is changed, and how.
        offset: u8,
        xor: u8,
        /// Used from another address (bit 0) or port (1), at another connection ID (2), with
        /// another key (3); not a Retry's but a NEW_TOKEN token (4); given out in v2 (5).
        how: u8,
        /// A token of somebody else's making.
        forged: Vec<u8>,
    }
}

/// Tokens prove what they were given for and nothing else, once.
pub fn tokens(data: &[u8]) {
    let script: TokenScript = Input::new(data).take();
    let has = |bit: u8| script.how >> bit & 1 == 1;
    let mut rng = Rng::from_u64(u64::from(script.key));
    let sealer = TokenSealer::new(&[script.key; 32]);
    let server = ServerConfig::new(Arc::new(null_server()));
    let given = Instant::from_nanos(1_000_000_000_000);
    let used = given + Duration::from_secs(u64::from(script.seconds) / 2);
    let client = SocketAddr::from(([10, 0, 0, script.ip], script.port));
    let odcid = cid(b"original");
    let scid = cid(b"retried!");

    let mut here = TokenUse {
        remote: client,
        dcid: scid,
        version: Version::V1,
    };
    let nothing = sealer.open(used, &script.forged, &here, &server);
    assert!(nothing.is_err(), "a forged token proves {nothing:?}");

    let version = if has(5) { Version::V2 } else { Version::V1 };
    let mut token = match has(4) {
        false => sealer.seal_retry(given, &TokenUse { version, ..here }, &odcid, &mut rng),
        true => sealer.seal_validation(given, client.ip(), version, &mut rng),
    };
    let at = usize::from(script.offset) % token.len();
    token[at] ^= script.xor;
    if has(0) {
        here.remote.set_ip([10, 1, 0, script.ip].into());
    }
    if has(1) {
        here.remote.set_port(script.port ^ 1);
    }
    if has(2) {
        here.dcid = odcid;
    }
    let other = TokenSealer::new(&[script.key ^ u8::from(has(3)); 32]);
    let opened = other.open(used, &token, &here, &server);
    let lifetime = match has(4) {
        false => server.retry_token_lifetime,
        true => server.validation_token_lifetime,
    };
    let fault = if script.xor != 0 || has(3) {
        Some(TokenFault::Forged)
    } else if used > given + lifetime {
        Some(TokenFault::Expired)
    } else if has(5) {
        Some(TokenFault::WrongVersion)
    } else if has(0) || (has(1) && !has(4)) {
        Some(TokenFault::WrongAddress)
    } else if has(2) && !has(4) {
        Some(TokenFault::WrongConnectionId)
    } else {
        None
    };
    assert_eq!(opened.err().map(|error| error.fault), fault);
    match opened {
        Ok(ValidToken::Retry {
            original_dcid,
            retry_scid,
            ..
        }) => assert_eq!((original_dcid, retry_scid), (odcid, scid)),
        Ok(_) => assert!(has(4)),
        Err(error) => assert_eq!(error.was_retry, token.first() == Some(&0x52)),
    }
    knock(&script, &token, (given, used, here));
}

/// A server takes the token in two first Initials: a good one validates the address once (a
/// NEW_TOKEN token), and a bad Retry token is refused.
fn knock(script: &TokenScript, token: &[u8], (given, used, here): (Instant, Instant, TokenUse)) {
    let key = [script.key; 32];
    let mut config = EndpointConfig::default();
    config.token_key = Some(key);
    let server = Arc::new(ServerConfig::new(Arc::new(null_server())));
    let mut endpoint = Endpoint::new(Arc::new(config), Some(server.clone()), Rng::from_u64(1));
    let good = TokenSealer::new(&key).open(used, token, &here, &server);
    let meta = DatagramMeta {
        four_tuple: FourTuple {
            local: SocketAddr::from(([10, 0, 0, 2], 443)),
            remote: here.remote,
        },
        ecn: Ecn::NotEct,
    };
    let mut attempts = Vec::new();
    for round in 0..2 {
        let packet = initial(&here.dcid, token);
        let mut out = Vec::new();
        let event = endpoint.handle_datagram(used, meta, BytesMut::from(&packet[..]), &mut out);
        match (event, &good) {
            (DatagramEvent::Incoming(incoming), Ok(ValidToken::Validation { .. })) => {
                assert_eq!(incoming.is_validated(), round == 0, "a token proves once");
                endpoint.ignore(incoming);
            }
            (DatagramEvent::Incoming(incoming), proof) => {
                assert_eq!(incoming.is_validated(), proof.is_ok());
                attempts.push(incoming);
            }
            (DatagramEvent::Transmit(transmit), Err(error)) => {
                assert!(error.was_retry && transmit.len <= 3 * packet.len());
            }
            (DatagramEvent::Buffered, _) => assert_eq!(round, 1),
            (event, _) => panic!("{event:?} after {good:?}"),
        }
    }
    assert!(given <= used);
}

fn null_server() -> NullServer {
    let mut server = NullServer::new(b"fuzz");
    server.tag = NullTag::Zero;
    server
}

fn cid(bytes: &[u8; 8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap_or_default()
}

/// A client's first Initial with a PING, sealed by nothing.
fn initial(dcid: &ConnectionId, token: &[u8]) -> Vec<u8> {
    let header = LongHeader {
        ty: LongType::Initial,
        version: Version::V1,
        dcid: *dcid,
        scid: cid(b"theclien"),
        token,
        fixed_bit: true,
    };
    let mut packet = vec![0; 1200];
    let mut w = Writer::new(&mut packet);
    let offset = header.encode(&mut w, 0, 2).unwrap_or_default();
    let start = w.len() - 2;
    Frame::Ping.encode(&mut w);
    patch_length(&mut packet, offset, 1200 - start);
    packet
}
