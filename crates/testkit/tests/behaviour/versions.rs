//! Version negotiation, compatible and not. RFC 9368, RFC 9369.

use tautline_sim::{Datagram, Direction};
use tautline_testkit::apps::Job;
use tautline_transport::{
    error::{Code, ConnectionError},
    units::Ecn,
    wire::{Version, write_version_negotiation},
};

use crate::kit::{Kind, MS, SECOND, Setup, calm, headers, seen};

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

/// Started in v1, moved to v2 by the server, also under loss, with resumption and early data.
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
        assert!(net.client_app().resumption.len() == 3);
        if loss == 0.0 {
            for index in 0..3 {
                net.client_trace.with(index, |client| {
                    assert_eq!(client.versions, [(Version::V1, Version::V2)]);
                });
            }
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
