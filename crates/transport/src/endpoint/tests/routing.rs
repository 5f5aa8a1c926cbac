//! Who gets a datagram; connection IDs issued and retired.

use std::{sync::Arc, time::Duration};

use super::kit::*;
use crate::{
    config::{ClientConfig, EndpointConfig, fixed},
    connection::ConnectionEvent,
    endpoint::{
        AcceptError, ConnectError, ConnectionHandle, DatagramEvent, Endpoint, EndpointEvent,
    },
    observe::DropReason,
    path::IssuedConnectionId,
    rng::Rng,
    units::PathId,
    wire::Version,
};

fn accepted(server: &mut Server, n: u64) -> (ConnectionHandle, InitialPacket) {
    let packet = InitialPacket::numbered(n);
    let incoming = server.incoming(client_address(n as u16), &packet.datagram());
    let (handle, _) = server.endpoint.accept(server.now, incoming, None).unwrap();
    (handle, packet)
}

fn issue(
    server: &mut Server,
    handle: ConnectionHandle,
    path: u32,
    first_sequence: u64,
    count: u64,
) -> Vec<IssuedConnectionId> {
    let path = PathId(path);
    let event = EndpointEvent::NeedConnectionIds {
        path,
        first_sequence,
        count,
    };
    match server.endpoint.handle_connection_event(handle, event) {
        Some(ConnectionEvent::ConnectionIds {
            path: answered,
            ids,
        }) => {
            assert_eq!(answered, path);
            ids
        }
        other => panic!("no connection IDs: {other:?}"),
    }
}

fn goes_to(server: &mut Server, packet: &[u8]) -> Option<ConnectionHandle> {
    match server.receive(client_address(99), packet) {
        DatagramEvent::Connection(handle, data) => {
            assert_eq!(&data[..], packet);
            Some(handle)
        }
        _ => None,
    }
}

#[test]
fn a_second_initial_waits_with_the_attempt_and_a_third_goes_to_the_connection() {
    let mut server = Server::new();
    let client = client_address(1);
    let packet = InitialPacket::numbered(1);
    let incoming = server.incoming(client, &packet.datagram());
    assert_eq!(incoming.remote_address(), client);
    assert!(!incoming.is_validated() && incoming.may_retry());
    assert_eq!(incoming.version(), Version::V1);
    let second = server.receive(client, &packet.datagram());
    assert!(matches!(second, DatagramEvent::Buffered));
    // Somebody else who learned the ID cannot add to it.
    let spoofed = server.receive(client_address(2), &packet.datagram());
    assert!(matches!(
        spoofed,
        DatagramEvent::Dropped(DropReason::Overload)
    ));
    let (handle, _) = server.endpoint.accept(server.now, incoming, None).unwrap();
    assert_eq!(goes_to(&mut server, &packet.datagram()), Some(handle));
    assert_eq!(server.endpoint.undecided(), 0);
    assert_eq!(server.endpoint.connections(), 1);
}

#[test]
fn an_ignored_client_may_knock_again() {
    let mut server = Server::new();
    let packet = InitialPacket::numbered(1).datagram();
    for _ in 0..3 {
        let incoming = server.incoming(client_address(1), &packet);
        server.endpoint.ignore(incoming);
    }
    assert_eq!(server.endpoint.routes.len(), 0);
}

#[test]
fn refused_clients_get_connection_refused() {
    let mut server = Server::new();
    let packet = InitialPacket {
        version: Version::V2,
        ..InitialPacket::numbered(1)
    };
    let incoming = server.incoming(client_address(1), &packet.datagram());
    let mut out = Vec::new();
    let transmit = server
        .endpoint
        .refuse(server.now, incoming, &mut out)
        .unwrap();
    assert_eq!(transmit.len, out.len());
    assert_eq!(read_close(&out, &packet.dcid), 2);
    assert_eq!(server.endpoint.routes.len(), 0);
}

#[test]
fn first_initials_are_checked() {
    let mut server = Server::new();
    let client = client_address(1);
    let good = InitialPacket::numbered(1);
    let reason = |server: &mut Server, data: &[u8]| match server.receive(client, data) {
        DatagramEvent::Dropped(reason) => reason,
        other => panic!("taken: {other:?}"),
    };
    let small = InitialPacket {
        len: 1199,
        ..good.clone()
    }
    .datagram();
    assert_eq!(reason(&mut server, &small), DropReason::TooSmall);
    let short_id = InitialPacket {
        dcid: cid(&[1; 7]),
        ..good.clone()
    }
    .datagram();
    assert_eq!(reason(&mut server, &short_id), DropReason::BadConnectionId);
    let mut no_fixed_bit = good.datagram();
    no_fixed_bit[0] &= 0xbf;
    assert_eq!(reason(&mut server, &no_fixed_bit), DropReason::Malformed);
    // One flipped bit anywhere, and nobody is bothered.
    for place in [0, 7, 30, 700, 1199] {
        let mut corrupt = good.datagram();
        corrupt[place] ^= 1;
        let reason = reason(&mut server, &corrupt);
        assert_eq!(reason, DropReason::DecryptionFailure, "byte {place}");
    }
    let long = vec![0; 65_535];
    server.endpoint.config = Arc::new(EndpointConfig {
        max_udp_payload_bytes: 1500,
        ..EndpointConfig::default()
    });
    assert_eq!(reason(&mut server, &long), DropReason::Overload);
    server.endpoint.set_server_config(None);
    assert_eq!(
        reason(&mut server, &good.datagram()),
        DropReason::NotListening
    );
}

#[test]
fn issued_ids_lead_to_their_connection_until_it_is_drained() {
    let mut server = Server::new();
    let (a, _) = accepted(&mut server, 1);
    let (b, _) = accepted(&mut server, 2);
    let of_a = issue(&mut server, a, 0, 1, 7);
    let of_b = issue(&mut server, b, 3, 0, 2);
    let sequences: Vec<u64> = of_a.iter().map(|id| id.sequence).collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5, 6, 7]);
    for (ids, handle) in [(&of_a, a), (&of_b, b)] {
        for id in ids {
            assert_eq!(
                goes_to(&mut server, &short_packet(&id.cid, 50)),
                Some(handle)
            );
            assert_eq!(server.endpoint.cids.reset_token(&id.cid), id.token);
        }
    }
    // Asked for again: the same IDs.
    assert_eq!(issue(&mut server, a, 0, 1, 7), of_a);
    server
        .endpoint
        .handle_connection_event(a, EndpointEvent::Drained);
    for id in &of_a {
        assert_eq!(goes_to(&mut server, &short_packet(&id.cid, 50)), None);
    }
    assert_eq!(
        goes_to(&mut server, &short_packet(&of_b[0].cid, 50)),
        Some(b)
    );
    server
        .endpoint
        .handle_connection_event(b, EndpointEvent::Drained);
    assert_eq!(server.endpoint.routes.len(), 0);
    assert_eq!(server.endpoint.connections(), 0);
    // Events of connections that are gone are ignored.
    for event in [
        EndpointEvent::Drained,
        EndpointEvent::HandshakeOver,
        EndpointEvent::RetireConnectionId {
            path: PathId::ZERO,
            sequence: 0,
        },
        EndpointEvent::NeedConnectionIds {
            path: PathId::ZERO,
            first_sequence: 0,
            count: 1,
        },
    ] {
        assert_eq!(server.endpoint.handle_connection_event(a, event), None);
    }
    assert_eq!(server.endpoint.routes.len(), 0);
}

#[test]
fn retired_ids_work_a_little_longer_and_are_then_forgotten() {
    let mut server = Server::new();
    let (handle, _) = accepted(&mut server, 1);
    let mut sequence = 1;
    let mut ids = issue(&mut server, handle, 0, 1, 4);
    let before = server.endpoint.routes.len();
    for _ in 0..1_000 {
        let path = PathId::ZERO;
        let oldest = ids.remove(0);
        let event = EndpointEvent::RetireConnectionId { path, sequence };
        server.endpoint.handle_connection_event(handle, event);
        // Twice is once.
        let event = EndpointEvent::RetireConnectionId { path, sequence };
        server.endpoint.handle_connection_event(handle, event);
        assert_eq!(
            goes_to(&mut server, &short_packet(&oldest.cid, 50)),
            Some(handle)
        );
        sequence += 1;
        ids.extend(issue(&mut server, handle, 0, sequence + 3, 1));
    }
    assert!(server.endpoint.routes.len() <= before + fixed::RETIRED_IDS_KEPT);
}

#[test]
fn ids_are_limited_and_never_given_twice() {
    let mut server = Server::new();
    let (handle, _) = accepted(&mut server, 1);
    let ids = issue(&mut server, handle, 0, 1, u64::MAX);
    assert_eq!(ids.len(), fixed::CONNECTION_IDS - 1);
    let distinct: std::collections::BTreeSet<_> = ids.iter().map(|id| id.cid).collect();
    assert_eq!(distinct.len(), ids.len());
    assert!(issue(&mut server, handle, 1, 0, 5).is_empty());
}

#[test]
fn one_byte_ids_collide_until_there_are_none_left() {
    let config = EndpointConfig {
        connection_id_length: 1,
        ..EndpointConfig::default()
    };
    let mut server = Server::with(config, |_| {});
    let mut accepted = 0;
    let mut failed = 0;
    for n in 0..300 {
        let packet = InitialPacket::numbered(n).datagram();
        let incoming = server.incoming(client_address(n as u16), &packet);
        match server.endpoint.accept(server.now, incoming, None) {
            Ok(_) => accepted += 1,
            Err(AcceptError::NoConnectionId) => failed += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(
        accepted <= 256 && accepted > 200 && failed > 0,
        "{accepted} {failed}"
    );
    assert_eq!(server.endpoint.connections(), accepted);
}

#[test]
fn an_attempt_of_another_endpoint_cannot_be_accepted() {
    let mut server = Server::new();
    let mut other = Server::new();
    let packet = InitialPacket::numbered(1).datagram();
    let incoming = server.incoming(client_address(1), &packet);
    let _its_own = other.incoming(client_address(1), &packet);
    let result = other.endpoint.accept(other.now, incoming, None);
    assert!(matches!(result, Err(AcceptError::Expired)));
}

fn client_endpoint(connection_id_length: usize) -> Endpoint {
    let config = EndpointConfig {
        connection_id_length,
        ..EndpointConfig::default()
    };
    Endpoint::new(Arc::new(config), None, Rng::from_u64(1))
}

#[test]
fn a_client_with_empty_ids_is_found_by_the_servers_address() {
    let mut endpoint = client_endpoint(0);
    let now = crate::time::Instant::from_nanos(1);
    let to = |n| from(client_address(n)).four_tuple;
    let config = || ClientConfig::new(Arc::new(NoTls));
    let (one, _) = endpoint.connect(now, config(), to(1), "a.test").unwrap();
    let (two, _) = endpoint.connect(now, config(), to(2), "a.test").unwrap();
    let again = endpoint.connect(now, config(), to(1), "a.test");
    assert!(matches!(again, Err(ConnectError::NoConnectionId)));
    let mut out = Vec::new();
    for (n, handle) in [(1, one), (2, two)] {
        let packet = short_packet(&cid(&[]), 60);
        let meta = from(client_address(n));
        let event = endpoint.handle_datagram(now, meta, packet[..].into(), &mut out);
        assert!(matches!(event, DatagramEvent::Connection(to, _) if to == handle));
    }
    endpoint.handle_connection_event(one, EndpointEvent::Drained);
    assert!(endpoint.connect(now, config(), to(1), "a.test").is_ok());
    assert!(out.is_empty());
}

#[test]
fn connect_refuses_what_cannot_work() {
    let mut endpoint = client_endpoint(8);
    let now = crate::time::Instant::from_nanos(1);
    let config = || ClientConfig::new(Arc::new(NoTls));
    let good = from(client_address(1)).four_tuple;
    let mut bad = good;
    bad.remote.set_port(0);
    let result = endpoint.connect(now, config(), bad, "a.test");
    assert!(matches!(result, Err(ConnectError::InvalidRemoteAddress(_))));
    let mut odd = config();
    odd.initial_version = Version(0x7777_7777);
    let result = endpoint.connect(now, odd, good, "a.test");
    assert!(matches!(result, Err(ConnectError::UnsupportedVersion(_))));
    let result = endpoint.connect(now, config(), good, "no such name");
    assert!(matches!(result, Err(ConnectError::Tls(_))));
    assert_eq!(endpoint.connections(), 0);
    assert_eq!(endpoint.routes.len(), 0);
}

#[test]
fn a_client_endpoint_takes_nobody_in() {
    let mut endpoint = client_endpoint(8);
    let now = crate::time::Instant::from_nanos(1);
    let mut out = Vec::new();
    let packet = InitialPacket::numbered(1).datagram();
    let meta = from(client_address(1));
    let event = endpoint.handle_datagram(now, meta, packet[..].into(), &mut out);
    assert!(matches!(
        event,
        DatagramEvent::Dropped(DropReason::NotListening)
    ));
    assert!(out.is_empty());
}

#[test]
fn stale_attempts_make_room() {
    let mut server = Server::new();
    let client = client_address(1);
    let dropped = server.incoming(client, &InitialPacket::numbered(1).datagram());
    drop(dropped);
    let kept = server.incoming(client, &InitialPacket::numbered(2).datagram());
    assert_eq!(server.endpoint.undecided(), 1, "dropped attempts go first");
    server.after(Duration::from_secs(11));
    let _third = server.incoming(client, &InitialPacket::numbered(3).datagram());
    assert_eq!(server.endpoint.undecided(), 1);
    let result = server.endpoint.accept(server.now, kept, None);
    assert!(matches!(result, Err(AcceptError::Expired)));
}
