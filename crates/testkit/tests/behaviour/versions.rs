//! Version negotiation, compatible and not. RFC 9368, RFC 9369.

use std::sync::Arc;

use bytes::Bytes;
use tautline_sim::{Datagram, Direction, PacketView, Verdict};
use tautline_testkit::{apps::Job, tls};
use tautline_transport::{
    endpoint::{MemoryTokenStore, TokenStore},
    error::{Code, ConnectionError},
    tls::Level,
    units::Ecn,
    wire::{Header, Version, parse_header, write_version_negotiation},
};

use crate::kit::{Kind, MS, SECOND, Setup, calm, headers, seen, wire};

#[test]
fn v2_direct() {
    let mut setup = Setup::new(1, calm());
    setup.client_version = Version::V2;
    setup.client_endpoint.versions = vec![Version::V2, Version::V1];
    setup.server_endpoint.versions = vec![Version::V2, Version::V1];
    let mut net = setup.fetch(&[10_000]);
    net.finish(10 * SECOND);
    for direction in Direction::BOTH {
        for packet in seen(&net.tap, direction) {
            assert_ne!(packet.version, Some(Version::V1), "{direction:?}");
        }
    }
}

/// Started in v1, moved to v2 by the server, also under loss. Sessions belong to the version a
/// connection ended up in (RFC 9369 s5): the next one starts there, and resumes with early data.
#[test]
fn v1_to_v2_compatibly() {
    for (seed, loss) in (0..20).map(|seed| (seed, 0.15)).chain([(99, 0.0)]) {
        let mut link = calm();
        link.forward.loss = tautline_sim::LossModel::uniform(loss);
        link.backward.loss = tautline_sim::LossModel::uniform(loss);
        let mut setup = Setup::new(seed, link);
        setup.server_endpoint.versions = vec![Version::V2, Version::V1];
        setup.client_endpoint.versions = vec![Version::V2, Version::V1];
        let mut net = setup.sequence([
            Job::new(&[10_000]),
            Job::new(&[10_000; 3]).early(),
            Job::new(&[10_000]).early(),
        ]);
        net.finish(60 * SECOND);
        let resumption = &net.client_app().resumption;
        assert_eq!(resumption.len(), 3);
        if loss == 0.0 {
            let resumed = (true, Some(true));
            assert_eq!(*resumption, [(false, None), resumed, resumed]);
        } else {
            // A connection may be over before its tickets have come.
            assert!(resumption[1..].iter().any(|&(resumed, _)| resumed));
        }
        for index in 0..3 {
            let (resumed, _) = net.client_app().resumption[index];
            net.client_trace.with(index, |client| {
                let upgraded = [(Version::V1, Version::V2)];
                let expected = if resumed { &[][..] } else { &upgraded[..] };
                assert_eq!(client.versions, expected, "seed {seed}, connection {index}");
            });
        }
    }
}

/// Key updates work with keys that the client derived itself.
#[test]
fn key_updates_after_the_move() {
    let mut setup = Setup::new(3, calm());
    setup.server_endpoint.versions = vec![Version::V2, Version::V1];
    let mut net = setup.manual();
    net.connect();
    for round in 0..6 {
        // Only an acknowledged packet of the current phase allows the next. RFC 9001 s6.1.
        net.on_client(|client, _| client.ping());
        net.on_server(|server, _| server.ping());
        net.run_for(SECOND);
        if round % 2 == 0 {
            net.on_client(|client, now| client.initiate_key_update(now).unwrap());
        } else {
            net.on_server(|server, now| server.initiate_key_update(now).unwrap());
        }
        net.run_for(2 * SECOND);
    }
    assert_eq!(net.client_connection().version(), Version::V2);
    let phases = net.client_trace.with(0, |client| client.key_updates.len());
    assert_eq!(phases, 6);
    assert_eq!(net.client_app().ended(), None);
}

#[test]
fn version_negotiation_restarts() {
    let mut setup = Setup::new(4, calm());
    setup.server_endpoint.versions = vec![Version::V2];
    let mut net = setup.fetch(&[10_000]);
    net.finish(10 * SECOND);
    let kinds: Vec<Kind> = seen(&net.tap, Direction::Backward)
        .iter()
        .map(|packet| packet.kind)
        .collect();
    assert_eq!(kinds[0], Kind::VersionNegotiation);
    assert_eq!(net.server_app().accepted.len(), 1);
}

#[test]
fn nothing_in_common() {
    let mut setup = Setup::new(5, calm());
    setup.client_endpoint.versions = vec![Version::V1];
    setup.server_endpoint.versions = vec![Version::V2];
    let mut net = setup.manual();
    net.run_for(SECOND);
    let Some(ConnectionError::VersionMismatch { offered }) = net.client_app().ended() else {
        panic!("{:?}", net.client_app().ended());
    };
    assert!(offered.contains(&Version::V2.0));
}

/// A forged Version Negotiation packet for the client's first Initial.
fn forged(
    net: &crate::kit::Net<tautline_testkit::apps::Manual, tautline_testkit::apps::Manual>,
    versions: &[Version],
) -> Datagram {
    let first = &net.tap.heard(Direction::Forward)[0];
    let header = &headers(&first.payload)[0];
    let mut payload = Vec::new();
    write_version_negotiation(&mut payload, 0x2a, &header.scid, &header.dcid, versions);
    Datagram {
        src: first.dst,
        dst: first.src,
        ecn: Ecn::NotEct,
        payload,
    }
}

/// One that lists the version in use is not genuine.
#[test]
fn forged_with_the_version_in_use_is_ignored() {
    let mut net = Setup::new(6, calm()).manual();
    net.run_for(MS);
    let packet = forged(&net, &[Version::V1, Version::V2]);
    net.world.inject(packet);
    net.connect();
    assert_eq!(net.client_connection().version(), Version::V1);
}

/// A downgrade is noticed once the server's transport parameters are authenticated.
#[test]
fn forged_downgrade_is_detected() {
    let mut net = Setup::new(7, calm()).manual();
    net.run_for(MS);
    let packet = forged(&net, &[Version::V2]);
    net.world.inject(packet);
    net.run_for(5 * SECOND);
    let Some(ConnectionError::Transport(error)) = net.client_app().ended() else {
        panic!("{:?}", net.client_app().ended());
    };
    assert_eq!(error.code, Code::VERSION_NEGOTIATION_ERROR);
}

/// After the server has answered, Version Negotiation packets mean nothing.
#[test]
fn forged_after_an_answer_is_ignored() {
    let mut net = Setup::new(8, calm()).manual();
    net.run_for(MS);
    let packet = forged(&net, &[Version::V2]);
    let answered = net.run_while(SECOND, |net| {
        net.client_trace
            .with(0, |client| client.received.is_empty())
    });
    assert!(answered);
    net.world.inject(packet);
    net.connect();
    assert_eq!(net.client_connection().version(), Version::V1);
}

/// A server that has come to prefer v2 since it gave a v1 ticket, and whose answer is slow to
/// complete: early data goes on in the version it began in. RFC 9369 s4.1.
#[test]
fn early_data_stays_in_the_first_version() {
    let (client_tls, server_tls) = (Arc::new(tls::client(2)), Arc::new(tls::server(1)));
    let setup = || {
        let mut setup = Setup::new(1, wire(10, 100));
        setup.client_tls = client_tls.clone();
        setup.server_tls = server_tls.clone();
        setup
    };
    let mut before = setup();
    before.server_endpoint.versions = vec![Version::V1];
    before.sequence([Job::new(&[1_000])]).finish(10 * SECOND);

    let mut setup = setup();
    setup.server_endpoint.versions = vec![Version::V2, Version::V1];
    let mut job = Job::new(&[10; 60]).early();
    job.request_padding = 1_000;
    let mut net = setup.sequence([job]);
    let mut cut = false;
    let only_initial = move |packet: &PacketView<'_>| match parse_header(packet.payload, 8) {
        Ok(Header::Initial { packet_len, .. }) if !cut => {
            cut = true;
            Verdict::Replace(packet.payload[..packet_len].to_vec())
        }
        _ => Verdict::Pass,
    };
    net.world
        .add_rule(net.link, Direction::Backward, only_initial);
    net.finish(30 * SECOND);
    assert_eq!(net.client_app().resumption, [(true, Some(true))]);
    let sent = seen(&net.tap, Direction::Forward);
    let mut moved = false;
    let mut early_after_the_move = 0;
    for packet in &sent {
        moved |= packet.version == Some(Version::V2);
        if packet.kind == Kind::ZeroRtt {
            assert_eq!(packet.version, Some(Version::V1));
            early_after_the_move += u32::from(moved);
        }
    }
    assert!(early_after_the_move > 0, "the case does not arise");
}

/// A server takes early data in no version but the first.
#[test]
fn early_data_in_the_negotiated_version_is_dropped() {
    let mut setup = Setup::new(2, calm()).null_tls();
    setup.server_endpoint.versions = vec![Version::V2, Version::V1];
    let mut net = setup.sequence([Job::new(&[1_000]), Job::new(&[1_000; 5]).early()]);
    net.world
        .add_rule(net.link, Direction::Forward, |packet: &PacketView<'_>| {
            let mut payload = packet.payload.to_vec();
            let mut at = 0;
            while let Ok(header) = parse_header(&packet.payload[at..], 8) {
                let (Header::Initial { packet_len, .. }
                | Header::Handshake { packet_len, .. }
                | Header::ZeroRtt { packet_len, .. }) = header
                else {
                    break;
                };
                if let Header::ZeroRtt { .. } = header {
                    // 0-RTT is type 1 in v1 and 2 in v2.
                    payload[at] ^= 0x30;
                    payload[at + 1..at + 5].copy_from_slice(&Version::V2.0.to_be_bytes());
                }
                at += packet_len;
            }
            Verdict::Replace(payload)
        });
    net.finish(30 * SECOND);
    let sent = seen(&net.tap, Direction::Forward);
    assert!(sent.iter().any(|packet| packet.kind == Kind::ZeroRtt));
    for index in 0..net.server_trace.len() {
        net.server_trace.with(index, |server| {
            let mut received = server.received.iter();
            assert!(received.all(|packet| packet.level != Level::ZeroRtt));
        });
    }
}

/// The NEW_TOKEN tokens of a connection go with those that start in the version it ended up in.
#[test]
fn tokens_stay_with_their_version() {
    for resumes in [true, false] {
        let mut setup = Setup::new(9, calm());
        setup.server_endpoint.versions = vec![Version::V2, Version::V1];
        if !resumes {
            setup.client_tls = Arc::new(tls::client(10).with_ticket_store(None));
        }
        let store = Arc::new(MemoryTokenStore::default());
        let kept = Arc::clone(&store);
        setup.tune_client = Box::new(move |client| client.token_store = Some(store));
        let mut net = setup.sequence([Job::new(&[100]), Job::new(&[100])]);
        net.finish(10 * SECOND);
        let with_token: Vec<_> = seen(&net.tap, Direction::Forward)
            .into_iter()
            .filter(|packet| !packet.token.is_empty())
            .collect();
        // Without a session the second connection starts in v1, for which there is no token.
        assert_eq!(resumes, !with_token.is_empty());
        for packet in with_token {
            assert_eq!(packet.version, Some(Version::V2));
        }
        assert_eq!(kept.take("localhost", Version::V1), None);
        assert!(kept.take("localhost", Version::V2).is_some());
    }
}

/// A client that starts over in another version leaves its token behind.
#[test]
fn version_negotiation_takes_no_token_along() {
    let mut setup = Setup::new(11, calm());
    setup.server_endpoint.versions = vec![Version::V2];
    let store = Arc::new(MemoryTokenStore::default());
    store.insert(
        "localhost",
        Version::V1,
        Bytes::from_static(b"a token of v1"),
    );
    setup.tune_client = Box::new(move |client| client.token_store = Some(store));
    let mut net = setup.fetch(&[100]);
    net.finish(10 * SECOND);
    let mut versions = std::collections::BTreeSet::new();
    for packet in seen(&net.tap, Direction::Forward) {
        if packet.kind == Kind::Initial {
            versions.insert(packet.version);
            let first = packet.version == Some(Version::V1);
            assert_eq!(!packet.token.is_empty(), first, "{:?}", packet.version);
        }
    }
    assert_eq!(versions.len(), 2);
}
