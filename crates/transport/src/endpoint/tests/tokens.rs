//! Retry and NEW_TOKEN tokens: forged, replayed, expired, moved.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use super::kit::*;
use crate::{
    config::{EndpointConfig, ServerConfig},
    endpoint::{DatagramEvent, TokenFault, TokenSealer, TokenUse, UsedTokens, ValidToken},
    error::Code,
    observe::Abuse,
    rng::Rng,
    time::Instant,
    wire::{ConnectionId, Version},
};

const SECRET: [u8; 32] = [9; 32];

fn config() -> ServerConfig {
    ServerConfig::new(Arc::new(NoTls))
}

/// An Initial of v1.
fn used(remote: SocketAddr, dcid: ConnectionId) -> TokenUse {
    let version = Version::V1;
    TokenUse {
        remote,
        dcid,
        version,
    }
}

fn server() -> Server {
    let config = EndpointConfig {
        token_key: Some(SECRET),
        ..EndpointConfig::default()
    };
    Server::with(config, |_| {})
}

#[test]
fn a_retry_answered_in_time_from_the_same_address_validates() {
    let mut server = server();
    let client = client_address(1);
    let first = InitialPacket::numbered(1);
    let (scid, token) = server.retry(client, &first.datagram());
    assert!(scid.len() >= 8);
    server.after(Duration::from_secs(14));
    let second = InitialPacket::with_token(scid, &token);
    let incoming = server.incoming(client, &second.datagram());
    assert!(incoming.is_validated() && !incoming.may_retry());
    assert_eq!(incoming.original_dcid(), first.dcid);
    let mut out = Vec::new();
    assert!(
        server
            .endpoint
            .retry(server.now, incoming, &mut out)
            .is_none()
    );
    assert!(out.is_empty());
}

#[test]
fn a_bad_retry_token_is_answered_by_invalid_token() {
    let client = client_address(1);
    let mut server = server();
    let (scid, token) = server.retry(client, &InitialPacket::numbered(1).datagram());
    let mut expect_close = |remote, dcid, token: &[u8], wait: u64| {
        server.after(Duration::from_secs(wait));
        server.transmit(remote, &InitialPacket::with_token(dcid, token).datagram());
        assert_eq!(read_close(&server.answer, &dcid), Code::INVALID_TOKEN.0);
    };
    // Any flipped bit but those of the kind.
    for place in [1, 12, 13, 40, token.len() - 1] {
        let mut forged = token.clone();
        forged[place] ^= 0x10;
        expect_close(client, scid, &forged, 0);
    }
    expect_close(client, scid, &token[..token.len() - 1], 0);
    expect_close(client_address(2), scid, &token, 0);
    expect_close(client, cid(&[3; 8]), &token, 0);
    expect_close(client, scid, &token, 16);
    assert_eq!(server.counters.snapshot().abuse(Abuse::TokenForged), 8);
    assert_eq!(server.counters.snapshot().abuse(Abuse::TokenExpired), 1);
}

#[test]
fn a_new_token_validates_once_and_from_its_address_only() {
    let mut server = server();
    let sealer = TokenSealer::new(&SECRET);
    let client = client_address(1);
    let mut rng = Rng::from_u64(3);
    let token = sealer.seal_validation(server.now, client.ip(), Version::V1, &mut rng);
    server.after(Duration::from_secs(3600));
    let mut n = 0;
    let mut validated = |server: &mut Server, remote, token: &[u8]| {
        n += 1;
        let packet = InitialPacket::with_token(cid(&[n; 8]), token);
        let incoming = server.incoming(remote, &packet.datagram());
        assert!(incoming.may_retry());
        let validated = incoming.is_validated();
        server.endpoint.ignore(incoming);
        validated
    };
    // From another address it proves nothing, and is not spent by it.
    let other = SocketAddr::from(([203, 0, 113, 9], 40_001));
    assert!(!validated(&mut server, other, &token));
    // The port may differ: it is a new connection.
    let same_host = SocketAddr::new(client.ip(), 50_000);
    assert!(validated(&mut server, same_host, &token));
    assert!(!validated(&mut server, same_host, &token));
    assert!(!validated(&mut server, client, &token));
    // Garbage, and a token that expired, are as good as none.
    assert!(!validated(&mut server, client, b"no such token"));
    let old = sealer.seal_validation(server.now, client.ip(), Version::V1, &mut rng);
    server.after(Duration::from_secs(15 * 24 * 3600));
    assert!(!validated(&mut server, client, &old));
    let snapshot = server.counters.snapshot();
    assert_eq!(snapshot.abuse(Abuse::TokenReplayed), 2);
    assert_eq!(snapshot.abuse(Abuse::TokenForged), 2);
    assert_eq!(snapshot.abuse(Abuse::TokenExpired), 1);
}

#[test]
fn retry_and_new_token_cannot_stand_in_for_each_other() {
    let sealer = TokenSealer::new(&SECRET);
    let mut rng = Rng::from_u64(1);
    let (now, client, config) = (Instant::from_nanos(50), client_address(1), config());
    let dcid = cid(&[1; 8]);
    let retry = sealer.seal_retry(now, &used(client, dcid), &cid(&[2; 9]), &mut rng);
    let validation = sealer.seal_validation(now, client.ip(), Version::V1, &mut rng);
    let open = |token: &[u8]| sealer.open(now, token, &used(client, dcid), &config);
    assert!(matches!(open(&retry), Ok(ValidToken::Retry { .. })));
    assert!(matches!(
        open(&validation),
        Ok(ValidToken::Validation { .. })
    ));
    for (token, kind) in [(&retry, validation[0]), (&validation, retry[0])] {
        let mut swapped = token.clone();
        swapped[0] = kind;
        assert_eq!(open(&swapped).unwrap_err().fault, TokenFault::Forged);
    }
    let stranger = TokenSealer::new(&[8; 32]);
    assert!(
        stranger
            .open(now, &retry, &used(client, dcid), &config)
            .unwrap_err()
            .was_retry
    );
}

#[test]
fn tokens_from_the_future_are_not_honoured() {
    let sealer = TokenSealer::new(&SECRET);
    let mut rng = Rng::from_u64(1);
    let client = client_address(1);
    let token = sealer.seal_validation(
        Instant::from_nanos(10_000_000_000),
        client.ip(),
        Version::V1,
        &mut rng,
    );
    let error = sealer
        .open(
            Instant::ZERO,
            &token,
            &used(client, cid(&[1; 8])),
            &config(),
        )
        .unwrap_err();
    assert_eq!(error.fault, TokenFault::Expired);
}

#[test]
fn every_single_bit_matters() {
    let sealer = TokenSealer::new(&SECRET);
    let (now, client, config) = (Instant::from_nanos(50), client_address(1), config());
    let dcid = cid(&[1; 8]);
    let token = sealer.seal_retry(now, &used(client, dcid), &dcid, &mut Rng::from_u64(1));
    for bit in 0..token.len() * 8 {
        let mut forged = token.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        let opened = sealer.open(now, &forged, &used(client, dcid), &config);
        assert_eq!(opened.unwrap_err().fault, TokenFault::Forged, "bit {bit}");
    }
}

#[test]
fn an_ipv4_client_may_come_back_over_a_dual_stack_socket() {
    let sealer = TokenSealer::new(&SECRET);
    let (now, config) = (Instant::from_nanos(50), config());
    let v4 = client_address(1);
    let std::net::IpAddr::V4(ip) = v4.ip() else {
        unreachable!()
    };
    let mapped = SocketAddr::new(ip.to_ipv6_mapped().into(), 1234);
    let token = sealer.seal_validation(now, v4.ip(), Version::V1, &mut Rng::from_u64(1));
    assert!(
        sealer
            .open(now, &token, &used(mapped, cid(&[1; 8])), &config)
            .is_ok()
    );
}

#[test]
fn a_token_does_not_open_the_door_to_a_full_server() {
    let config = EndpointConfig {
        token_key: Some(SECRET),
        ..EndpointConfig::default()
    };
    let mut server = Server::with(config, |server| server.max_connections = 0);
    let client = client_address(1);
    let token = TokenSealer::new(&SECRET).seal_validation(
        server.now,
        client.ip(),
        Version::V1,
        &mut Rng::from_u64(1),
    );
    let packet = InitialPacket::with_token(cid(&[1; 8]), &token);
    let event = server.receive(client, &packet.datagram());
    assert!(matches!(event, DatagramEvent::Transmit(_)));
    assert_eq!(
        read_close(&server.answer, &packet.dcid),
        Code::CONNECTION_REFUSED.0
    );
}

/// RFC 9369 s5. Such a NEW_TOKEN token proves nothing and is not spent; a Retry's is refused, for its
/// client changed the version on the way.
#[test]
fn a_token_counts_in_its_own_version_only() {
    let mut server = server();
    let client = client_address(1);
    let sealer = TokenSealer::new(&SECRET);
    let mut rng = Rng::from_u64(3);
    let mut n = 0;
    for (own, other) in [(Version::V1, Version::V2), (Version::V2, Version::V1)] {
        let token = sealer.seal_validation(server.now, client.ip(), own, &mut rng);
        let mut proves = |version| {
            n += 1;
            let packet = InitialPacket {
                version,
                ..InitialPacket::with_token(cid(&[n; 8]), &token)
            };
            let incoming = server.incoming(client, &packet.datagram());
            let validated = incoming.is_validated();
            server.endpoint.ignore(incoming);
            validated
        };
        assert!(!proves(other));
        assert!(proves(own));

        n += 1;
        let first = InitialPacket {
            version: own,
            ..InitialPacket::to(cid(&[n; 8]))
        };
        let (scid, token) = server.retry(client, &first.datagram());
        let second = InitialPacket {
            version: other,
            ..InitialPacket::with_token(scid, &token)
        };
        server.transmit(client, &second.datagram());
        assert_eq!(read_close(&server.answer, &scid), Code::INVALID_TOKEN.0);
    }
}

#[test]
fn endpoints_that_share_a_token_key_honour_a_token_once_together() {
    let used_tokens = Arc::new(UsedTokens::new(&mut Rng::from_u64(8)));
    let shard = |index| {
        let config = EndpointConfig {
            shard: Some(index),
            token_key: Some(SECRET),
            used_tokens: Some(Arc::clone(&used_tokens)),
            ..EndpointConfig::default()
        };
        Server::with(config, |_| {})
    };
    let mut shards: Vec<Server> = (0..4).map(shard).collect();
    let client = client_address(1);
    let sealer = TokenSealer::new(&SECRET);
    let now = shards[0].now;
    let token = sealer.seal_validation(now, client.ip(), Version::V1, &mut Rng::from_u64(3));
    let proven: Vec<bool> = shards
        .iter_mut()
        .map(|shard| {
            let packet = InitialPacket::with_token(cid(&[1; 8]), &token);
            shard.incoming(client, &packet.datagram()).is_validated()
        })
        .collect();
    assert_eq!(proven, [true, false, false, false]);
}
