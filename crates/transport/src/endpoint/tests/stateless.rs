//! Version Negotiation and stateless resets.

use std::time::Duration;

use proptest::prelude::*;

use super::kit::*;
use crate::{
    config::{EndpointConfig, fixed},
    endpoint::{DatagramEvent, EndpointEvent, shard_of},
    observe::{Abuse, DropReason},
    units::PathId,
    wire::{Header, ResetToken, Version, parse_header},
};

/// A long header of any version with any connection IDs, padded to `len`.
fn long_header(version: u32, dcid: &[u8], scid: &[u8], len: usize) -> Vec<u8> {
    let mut packet = vec![0xc3];
    packet.extend_from_slice(&version.to_be_bytes());
    for cid in [dcid, scid] {
        packet.push(cid.len() as u8);
        packet.extend_from_slice(cid);
    }
    packet.resize(len, 0);
    packet
}

#[test]
fn an_unknown_version_is_answered_with_the_versions_we_speak_and_a_reserved_one() {
    let mut server = Server::new();
    let client = client_address(1);
    for (version, dcid_len, scid_len) in [
        (0x1a2a_3a4a_u32, 8, 8),
        (0xff00_001d, 0, 0),
        (0xdead_beef, 255, 255),
        (2, 21, 3),
    ] {
        let (dcid, scid) = (vec![0xdd; dcid_len], vec![0x55; scid_len]);
        server.transmit(client, &long_header(version, &dcid, &scid, 1200));
        let Ok(Header::VersionNegotiation {
            dcid: to,
            scid: by,
            versions,
        }) = parse_header(&server.answer, 8)
        else {
            panic!("not a Version Negotiation packet");
        };
        // The client recognises it by its own IDs, exchanged. RFC 9000 s17.2.1.
        assert_eq!((to, by), (&scid[..], &dcid[..]));
        let versions: Vec<Version> = versions
            .chunks(4)
            .map(|v| Version(u32::from_be_bytes(v.try_into().unwrap())))
            .collect();
        assert_eq!(versions.len(), 3);
        assert!(versions.contains(&Version::V1) && versions.contains(&Version::V2));
        assert_eq!(
            versions.iter().filter(|v| v.is_reserved_grease()).count(),
            1
        );
        assert!(!versions.contains(&Version(version)));
    }
}

#[test]
fn a_version_switched_off_is_an_unknown_version() {
    let config = EndpointConfig {
        versions: vec![Version::V1],
        ..EndpointConfig::default()
    };
    let mut server = Server::with(config, |_| {});
    let packet = InitialPacket {
        version: Version::V2,
        ..InitialPacket::numbered(1)
    };
    server.transmit(client_address(1), &packet.datagram());
    let header = parse_header(&server.answer, 8);
    assert!(matches!(header, Ok(Header::VersionNegotiation { .. })));
}

#[test]
fn no_version_negotiation_for_small_datagrams_or_in_answer_to_itself() {
    let mut server = Server::new();
    let client = client_address(1);
    let small = server.receive(client, &long_header(0x1a2a_3a4a, &[1; 8], &[2; 8], 1199));
    assert!(matches!(
        small,
        DatagramEvent::Dropped(DropReason::UnsupportedVersion)
    ));
    let negotiation = server.receive(client, &long_header(0, &[1; 8], &[2; 8], 1200));
    assert!(matches!(negotiation, DatagramEvent::Dropped(_)));
}

#[test]
fn stateless_answers_are_rate_limited() {
    let config = EndpointConfig {
        stateless_responses_per_second: 50,
        ..Default::default()
    };
    let mut server = Server::with(config, |_| {});
    let flood = |server: &mut Server, n: u16| {
        (0..n)
            .filter(|i| {
                let packet = if i % 2 == 0 {
                    long_header(0x1a2a_3a4a, &[1; 8], &[2; 8], 1200)
                } else {
                    short_packet(&cid(&[i.to_be_bytes()[1]; 8]), 100)
                };
                let event = server.receive(client_address(*i), &packet);
                matches!(event, DatagramEvent::Transmit(_))
            })
            .count()
    };
    assert_eq!(flood(&mut server, 1000), 50);
    server.after(Duration::from_millis(500));
    assert_eq!(flood(&mut server, 1000), 25);
    assert!(server.counters.snapshot().abuse(Abuse::StatelessFlood) >= 1900);
}

#[test]
fn an_unknown_short_header_gets_a_smaller_reset_of_unpredictable_size() {
    let mut server = Server::new();
    let dcid = cid(&[0xab; 8]);
    let expected = server.endpoint.cids.reset_token(&dcid);
    let mut sizes = std::collections::BTreeSet::new();
    for len in 22..=300 {
        server.transmit(client_address(1), &short_packet(&dcid, len));
        let reset = &server.answer;
        assert!(
            reset.len() < len && reset.len() >= 21,
            "{} for {len}",
            reset.len()
        );
        assert_eq!(reset[0] >> 6, 1, "does not look like a short header");
        assert_eq!(reset[reset.len() - 16..], expected.0);
        if len > 200 {
            sizes.insert(reset.len());
        }
    }
    assert!(sizes.len() > 20, "sizes are predictable: {sizes:?}");
    for len in 9..=21 {
        let event = server.receive(client_address(1), &short_packet(&dcid, len));
        assert!(matches!(event, DatagramEvent::Dropped(_)), "{len}");
    }
}

#[test]
fn two_endpoints_do_not_reset_each_other_for_ever() {
    let mut servers = [Server::new(), Server::new()];
    let mut packet = short_packet(&cid(&[1; 8]), 1400);
    let mut exchanged = 0;
    'ping_pong: loop {
        for server in &mut servers {
            match server.receive(client_address(1), &packet) {
                DatagramEvent::Transmit(_) => packet = server.answer.clone(),
                _ => break 'ping_pong,
            }
            exchanged += 1;
            assert!(exchanged < 100, "no end in sight");
        }
    }
}

#[test]
fn another_shards_connections_are_left_alone() {
    let config = EndpointConfig {
        shard: Some(3),
        ..EndpointConfig::default()
    };
    let mut server = Server::with(config, |_| {});
    let other = cid(&[0, 4, 9, 9, 9, 9, 9, 9]);
    let event = server.receive(client_address(1), &short_packet(&other, 200));
    assert!(matches!(
        event,
        DatagramEvent::Dropped(DropReason::UnknownConnectionId)
    ));
    let ours = cid(&[0, 3, 9, 9, 9, 9, 9, 9]);
    assert_eq!(shard_of(&ours), Some(3));
    server.transmit(client_address(1), &short_packet(&ours, 200));
}

#[test]
fn a_peers_reset_finds_its_connection_and_a_guess_does_not() {
    let mut server = Server::new();
    let client = client_address(1);
    let incoming = server.incoming(client, &InitialPacket::numbered(1).datagram());
    let (handle, _connection) = server.endpoint.accept(server.now, incoming, None).unwrap();
    let token = ResetToken([0x77; 16]);
    let event = EndpointEvent::ResetToken {
        path: PathId::ZERO,
        remote: client,
        token,
    };
    server.endpoint.handle_connection_event(handle, event);

    let mut reset = short_packet(&cid(&[0x42; 8]), 60);
    reset[44..].copy_from_slice(&token.0);
    let event = server.receive(client, &reset);
    assert!(matches!(event, DatagramEvent::Connection(to, _) if to == handle));
    // Another address, or any other token: a datagram for nobody.
    assert!(!matches!(
        server.receive(client_address(2), &reset),
        DatagramEvent::Connection(..)
    ));
    for bit in 0..128 {
        let mut guess = reset.clone();
        guess[44 + bit / 8] ^= 1 << (bit % 8);
        assert!(!matches!(
            server.receive(client, &guess),
            DatagramEvent::Connection(..)
        ));
    }
    // Gone with the connection.
    server
        .endpoint
        .handle_connection_event(handle, EndpointEvent::Drained);
    assert!(!matches!(
        server.receive(client, &reset),
        DatagramEvent::Connection(..)
    ));
}

#[test]
fn one_connection_cannot_take_anothers_reset_token_or_hoard_them() {
    let mut server = Server::new();
    let mut handles = Vec::new();
    for n in 1..=2 {
        let packet = InitialPacket::numbered(n).datagram();
        let incoming = server.incoming(client_address(1), &packet);
        handles.push(server.endpoint.accept(server.now, incoming, None).unwrap());
    }
    let (first, second) = (handles[0].0, handles[1].0);
    let remote = client_address(1);
    let token = ResetToken([1; 16]);
    for handle in [first, second] {
        let event = EndpointEvent::ResetToken {
            path: PathId::ZERO,
            remote,
            token,
        };
        server.endpoint.handle_connection_event(handle, event);
    }
    assert_eq!(server.endpoint.routes.reset(&remote, &token), Some(first));
    // The second one's end does not take the first one's token along.
    server
        .endpoint
        .handle_connection_event(second, EndpointEvent::Drained);
    assert_eq!(server.endpoint.routes.reset(&remote, &token), Some(first));
    let before = server.endpoint.routes.len();
    for n in 0..10_000u64 {
        let mut bytes = [2; 16];
        bytes[..8].copy_from_slice(&n.to_be_bytes());
        let event = EndpointEvent::ResetToken {
            path: PathId::ZERO,
            remote,
            token: ResetToken(bytes),
        };
        server.endpoint.handle_connection_event(first, event);
    }
    assert!(server.endpoint.routes.len() <= before + fixed::RESET_TOKENS_KEPT);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever arrives: no panic, no amplification, no bytes without an answer (see the kit).
    #[test]
    fn any_bytes_are_survived(
        mut data in proptest::collection::vec(any::<u8>(), 0..1500),
        first in any::<u8>(),
        version in prop_oneof![Just(1u32), Just(0x6b33_43cf), Just(0), any::<u32>()],
    ) {
        let mut server = Server::new();
        if let Some(byte) = data.first_mut() {
            *byte = first;
        }
        if let Some(field) = data.get_mut(1..5) {
            field.copy_from_slice(&version.to_be_bytes());
        }
        server.receive(client_address(1), &data);
    }
}
