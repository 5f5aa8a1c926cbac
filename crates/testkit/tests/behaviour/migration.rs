//! Addresses that change. RFC 9000 s9.

use std::{collections::BTreeSet, net::SocketAddr};

use tautline_sim::{Datagram, Direction, Rebind};
use tautline_testkit::{
    pair::{client_address, server_address},
    trace::FrameTrace,
};
use tautline_transport::{
    config::PreferredAddresses,
    connection::Event,
    multipath::{MultipathConfig, OpenPathError},
    path::PathEvent,
    units::{Dir, Ecn, FourTuple, PathId},
};

use crate::{
    interop::challenged_paths,
    kit::{MS, SECOND, Setup, calm, headers, read_all, wire},
};

#[test]
fn port_rebinding_keeps_what_is_known() {
    let mut net = Setup::new(1, wire(20, 20)).fetch(&[10_000_000]);
    net.run_for(SECOND);
    let window = |net: &crate::kit::Net<_, tautline_testkit::apps::PatternServer>| {
        let (_, server) = net.server_host().connections().next().unwrap();
        server.path_stats(PathId::ZERO).unwrap()
    };
    let before = window(&net);
    net.world.rebind(net.client, Rebind::Port);
    net.run_for(200 * MS);
    let after = window(&net);
    assert_ne!(before.four_tuple, after.four_tuple);
    assert!(after.validated);
    assert!(
        after.congestion.window >= before.congestion.window / 2,
        "{before:?} {after:?}"
    );
    net.finish(30 * SECOND);
    assert_eq!(challenged_paths(&net), 2);
}

#[test]
fn address_rebinding_starts_over() {
    let mut net = Setup::new(2, wire(20, 20)).fetch(&[10_000_000]);
    net.run_for(SECOND);
    net.world.rebind(net.client, Rebind::AddressAndPort);
    net.finish(30 * SECOND);
    assert_eq!(challenged_paths(&net), 2);
    let (_, server) = net.server_host().connections().next().map_or_else(
        || (None, None),
        |(handle, connection)| (Some(handle), Some(connection)),
    );
    assert!(server.is_none_or(|server| !server.is_handshaking()));
}

#[test]
fn rebinding_during_the_handshake() {
    // RFC 9000 s9: no migration before the handshake is confirmed; the client tries again from
    // where it is and the connection comes up or ends, but never hangs.
    for at in [5, 15, 25, 35] {
        let mut net = Setup::new(at, calm()).fetch(&[1_000]);
        net.run_for(at as u32 * MS);
        net.world.rebind(net.client, Rebind::Port);
        net.run_for(40 * SECOND);
        let app = net.client_app();
        assert!(app.is_done() || app.ended.is_some(), "{at} ms");
    }
}

#[test]
fn rebinding_every_second_under_loss() {
    for seed in 0..4 {
        let mut link = wire(10, 30);
        link.forward.loss = tautline_sim::LossModel::uniform(0.02);
        link.backward.loss = tautline_sim::LossModel::uniform(0.02);
        // A client that only listens may be the last to learn that nobody reaches it any more.
        let mut setup =
            Setup::new(seed, link).client(|client| client.keep_alive_interval = Some(2 * SECOND));
        setup.scenario.rebind = Some(tautline_sim::RebindSchedule {
            kind: Rebind::AddressAndPort,
            first: SECOND,
            every: Some(SECOND),
        });
        let mut net = setup.fetch(&[5_000_000]);
        let done = net.finish(120 * SECOND);
        println!("{done:?}");
    }
}

/// A quiet client behind a NAT that forgets: its next packet reopens the way.
#[test]
fn idle_then_rebound() {
    let mut net = Setup::new(3, calm()).manual();
    net.connect();
    net.run_for(5 * SECOND);
    net.world.rebind(net.client, Rebind::Port);
    net.run_for(SECOND);
    let id = net.on_client(|client, _| {
        let id = client.open_stream(Dir::Bi).unwrap();
        client.write(id, b"still here").unwrap();
        client.finish(id).unwrap();
        id
    });
    net.run_for(200 * MS);
    let (data, end) = net.on_server(|server, _| {
        assert_eq!(server.accept_stream(Dir::Bi), Some(id));
        server.write(id, b"so am I").unwrap();
        read_all(server, id)
    });
    assert_eq!((data.as_slice(), end), (&b"still here"[..], true));
    net.run_for(200 * MS);
    let (answer, _) = net.on_client(|client, _| read_all(client, id));
    assert_eq!(answer, b"so am I");
    assert_eq!(challenged_paths(&net), 2);
    let moved = net.server_app().events.iter().any(|(_, event)| {
        matches!(event, Event::Path(PathEvent::Validated { path, .. }) if *path == PathId::ZERO)
    });
    assert!(moved);
}

/// A client that changes its socket on purpose uses a fresh connection ID from the first packet.
#[test]
fn a_rebind_to_another_family_is_told_at_once() {
    for (local, ends) in [
        ("[2001:db8::1]:50001", true),
        ("[::]:50001", false),
        ("0.0.0.0:50001", false),
    ] {
        let mut net = Setup::new(4, calm()).manual();
        net.connect();
        net.run_for(SECOND);
        let closed = net.on_client(|client, now| {
            client.rebind(now, local.parse().unwrap());
            client.is_closed()
        });
        assert_eq!(closed, ends, "{local}");
    }
}

#[test]
fn client_rebind() {
    let mut net = Setup::new(4, calm()).manual();
    net.connect();
    let id = net.on_client(|client, _| {
        let id = client.open_stream(Dir::Bi).unwrap();
        client.write(id, &[7; 100_000]).unwrap();
        id
    });
    net.run_for(10 * MS);
    let new: SocketAddr = "10.0.0.1:50001".parse().unwrap();
    net.on_client(|client, now| client.rebind(now, new));
    net.on_client(|client, _| {
        client.write(id, &[8; 100_000]).unwrap();
        client.finish(id).unwrap();
    });
    net.run_for(SECOND);
    let (data, end) = net.on_server(|server, _| read_all(server, id));
    assert_eq!((data.len(), end), (200_000, true));
    assert_eq!(net.server_connection().remote_address(), new);
    let forward = net.tap.heard(Direction::Forward);
    let ids = |from_new: bool| -> BTreeSet<Vec<u8>> {
        forward
            .iter()
            .filter(|datagram| (datagram.src == new) == from_new)
            .flat_map(|datagram| headers(&datagram.payload))
            .map(|packet| packet.dcid)
            .collect()
    };
    assert!(
        ids(true).is_disjoint(&ids(false)),
        "linkable: {:?}",
        forward
            .iter()
            .map(|d| (d.time, d.src, headers(&d.payload)))
            .collect::<Vec<_>>()
    );
    assert_eq!(challenged_paths(&net), 2);
    // The client proves its own new path, too.
    let asked = net.client_trace.with(0, |client| {
        client
            .frames_sent()
            .any(|frame| matches!(frame, FrameTrace::PathChallenge(_)))
    });
    assert!(asked);
}

#[test]
fn many_client_rebinds() {
    let mut net = Setup::new(5, calm()).manual();
    net.connect();
    let id = net.on_client(|client, _| client.open_stream(Dir::Bi).unwrap());
    for port in 50_001..50_040 {
        let new = SocketAddr::from(([10, 0, 0, 1], port));
        net.on_client(|client, now| {
            client.rebind(now, new);
            client.write(id, &[1; 1000]).unwrap();
        });
        net.run_for(300 * MS);
        assert_eq!(net.server_connection().remote_address(), new);
    }
    let (data, _) = net.on_server(|server, _| read_all(server, id));
    assert_eq!(data.len(), 39_000);
}

#[test]
fn preferred_address_is_taken() {
    let preferred: std::net::SocketAddrV4 = "10.0.0.9:8443".parse().unwrap();
    let mut setup = Setup::new(6, calm());
    setup.server_addresses.push(preferred.into());
    setup.server.preferred_address = Some(PreferredAddresses {
        v4: Some(preferred),
        v6: None,
    });
    let mut net = setup.manual();
    net.connect();
    assert_eq!(
        net.client_connection().remote_address(),
        SocketAddr::from(preferred)
    );
    assert_eq!(
        net.server_connection().local_address(),
        SocketAddr::from(preferred)
    );
    assert_eq!(challenged_paths(&net), 2);
}

/// Also by a client without connection IDs, whose packets are told apart by where they come from.
#[test]
fn preferred_address_is_taken_without_connection_ids() {
    let preferred: std::net::SocketAddrV4 = "10.0.0.9:8443".parse().unwrap();
    let mut setup = Setup::new(6, calm());
    setup.client_endpoint.connection_id_length = 0;
    setup.server_addresses.push(preferred.into());
    setup.server.preferred_address = Some(PreferredAddresses {
        v4: Some(preferred),
        v6: None,
    });
    let mut net = setup.manual();
    net.connect();
    net.run_for(SECOND);
    assert_eq!(
        net.client_connection().remote_address(),
        SocketAddr::from(preferred)
    );
}

/// A client whose socket has both families goes where only the other one is offered, and where the
/// own family's address does not answer.
#[test]
fn preferred_address_of_the_other_family() {
    let there: std::net::SocketAddrV6 = "[fd00::9]:8443".parse().unwrap();
    for (seed, silent) in [(60, None), (61, Some("10.9.9.9:1".parse().unwrap()))] {
        let mut setup = Setup::new(seed, calm());
        setup.client_address = "[::]:50000".parse().unwrap();
        setup.client_addresses = vec![
            "10.0.0.1:50000".parse().unwrap(),
            "[fd00::1]:50000".parse().unwrap(),
        ];
        setup.server_addresses.push(there.into());
        setup.server.preferred_address = Some(PreferredAddresses {
            v4: silent,
            v6: Some(there),
        });
        let mut net = setup.manual();
        net.connect();
        net.run_for(5 * SECOND);
        let moved = net.client_connection().remote_address();
        assert_eq!(moved, SocketAddr::from(there), "{silent:?}");
        assert_eq!(net.server_connection().local_address(), moved);
        assert_eq!(challenged_paths(&net), 2);
    }
}

/// A socket of one family stays where it is.
#[test]
fn preferred_address_out_of_reach() {
    let mut setup = Setup::new(62, calm());
    setup.server.preferred_address = Some(PreferredAddresses {
        v4: None,
        v6: Some("[fd00::9]:8443".parse().unwrap()),
    });
    let mut net = setup.manual();
    net.connect();
    net.run_for(5 * SECOND);
    assert!(net.client_connection().remote_address().is_ipv4());
    assert_eq!(challenged_paths(&net), 1);
}

/// A preferred address that does not answer changes nothing.
#[test]
fn unreachable_preferred_address() {
    let mut setup = Setup::new(7, calm());
    setup.server.preferred_address = Some(PreferredAddresses {
        v4: Some("10.9.9.9:1".parse().unwrap()),
        v6: None,
    });
    let mut net = setup.fetch(&[3_000_000]);
    net.finish(20 * SECOND);
}

/// An attacker who copies a packet from another address wins nothing: the old address answers, the
/// new one does not, and the path goes back.
#[test]
fn copied_packet_from_elsewhere() {
    let mut net = Setup::new(8, calm()).manual();
    net.connect();
    let id = net.on_client(|client, _| {
        let id = client.open_stream(Dir::Bi).unwrap();
        client.write(id, b"one").unwrap();
        id
    });
    // The attacker's copy overtakes the original.
    let original = net.tap.heard(Direction::Forward).last().cloned();
    net.run_for(MS);
    let newest = net.tap.heard(Direction::Forward).last().cloned();
    assert_ne!(original, newest);
    let attacker: SocketAddr = "10.6.6.6:666".parse().unwrap();
    net.world.inject(Datagram {
        src: attacker,
        dst: newest.as_ref().unwrap().dst,
        ecn: Ecn::NotEct,
        payload: newest.unwrap().payload,
    });
    net.run_for(MS);
    assert_eq!(net.server_connection().remote_address(), attacker);
    // The client goes on; its next packet is newer.
    net.run_for(50 * MS);
    net.on_client(|client, _| client.write(id, b"two").unwrap());
    net.run_for(10 * SECOND);
    assert_eq!(
        net.server_connection().remote_address(),
        crate::kit::Setup::new(8, calm()).client_address
    );
    net.on_client(|client, _| client.write(id, b"three").unwrap());
    net.run_for(SECOND);
    let (data, _) = net.on_server(|server, _| read_all(server, id));
    assert_eq!(data, b"onetwothree");
}

/// Before it has answered, an address gets no more than three times what came from it.
#[test]
fn unvalidated_address_gets_little() {
    let mut net = Setup::new(9, calm()).manual();
    net.connect();
    let id = net.on_server(|server, _| {
        let id = server.open_stream(Dir::Uni).unwrap();
        while server.write(id, &[9; 100_000]).unwrap() > 0 {}
        id
    });
    let _ = id;
    net.run_for(60 * MS);
    let newest = net.tap.heard(Direction::Forward).last().cloned().unwrap();
    let copy = newest.payload.clone();
    let victim: SocketAddr = "10.6.6.6:666".parse().unwrap();
    // Cut the client off, so that the copy is the newest packet.
    net.world.set_link_up(net.link, false);
    net.run_for(20 * MS);
    let sent_before = net.server_connection().stats().bytes_sent;
    net.world.inject(Datagram {
        src: victim,
        dst: newest.dst,
        ecn: Ecn::NotEct,
        payload: copy.clone(),
    });
    net.run_for(5 * SECOND);
    let _ = sent_before;
    let to_victim: usize = net
        .tap
        .heard(Direction::Backward)
        .iter()
        .filter(|datagram| datagram.dst == victim)
        .map(|datagram| datagram.payload.len())
        .sum();
    assert!(to_victim <= 3 * copy.len(), "{to_victim}");
}

/// disable_active_migration rules out further paths to the address of the handshake, and to no other: not to the preferred one,
/// whether the connection is there already or not. RFC 9000 s18.2, RFC 10069 s3.1.
#[test]
fn without_migration_new_paths_lead_to_other_addresses_than_the_handshakes() {
    let preferred: std::net::SocketAddrV4 = "10.0.0.9:8443".parse().unwrap();
    for answers in [true, false] {
        let mut setup = Setup::new(6, wire(100, 10)).both(|config| {
            config.multipath = Some(MultipathConfig::default());
        });
        setup.server.migration = false;
        let second: SocketAddr = "10.0.1.1:50000".parse().unwrap();
        setup.client_addresses = vec![client_address(), second];
        if answers {
            setup.server_addresses.push(preferred.into());
        }
        setup.server.preferred_address = Some(PreferredAddresses {
            v4: Some(preferred),
            v6: None,
        });
        let mut net = setup.manual();
        net.connect();
        let main = net.client_connection().remote_address();
        assert_eq!(main == preferred.into(), answers);
        let mut open = |remote| {
            let to = FourTuple {
                local: second,
                remote,
            };
            net.on_client(|client, now| client.open_path(now, to))
        };
        assert_eq!(
            open(server_address()),
            Err(OpenPathError::MigrationDisabled)
        );
        assert_eq!(open(preferred.into()), Ok(PathId(1)));
    }
}
