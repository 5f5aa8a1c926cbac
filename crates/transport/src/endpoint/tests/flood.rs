//! Floods stay within the limits of the configuration.

use super::kit::*;
use crate::{
    config::EndpointConfig,
    endpoint::{DatagramEvent, EndpointEvent, MemoryTokenStore, TokenStore},
    error::Code,
    observe::{Abuse, DropReason},
    wire::{Header, Version, parse_header},
};

#[test]
fn above_max_incoming_clients_must_prove_their_address() {
    let mut server = Server::with(EndpointConfig::default(), |server| server.max_incoming = 10);
    let mut kept = Vec::new();
    let mut retries = 0;
    for n in 0..2_000u64 {
        let client = client_address(n as u16);
        let packet = InitialPacket::numbered(n);
        match server.receive(client, &packet.datagram()) {
            DatagramEvent::Incoming(incoming) => kept.push(incoming),
            DatagramEvent::Transmit(_) => {
                retries += 1;
                let (scid, token) = read_retry(&server.answer, &packet.dcid);
                // Who comes back is let in, as long as there is room to wait.
                let second = InitialPacket::with_token(scid, &token);
                let event = server.receive(client, &second.datagram());
                assert!(matches!(
                    event,
                    DatagramEvent::Dropped(DropReason::Overload)
                ));
            }
            other => panic!("{other:?}"),
        }
        assert!(server.endpoint.undecided() <= 10);
        assert!(server.endpoint.routes.len() <= 10);
    }
    assert_eq!((kept.len(), retries), (10, 1_990));
    assert!(server.counters.snapshot().abuse(Abuse::HandshakeFlood) >= 1_990);
}

#[test]
fn a_limit_of_zero_makes_every_client_do_a_retry() {
    let mut server = Server::with(EndpointConfig::default(), |server| server.max_incoming = 0);
    let (client, first) = (client_address(1), InitialPacket::numbered(1));
    server.transmit(client, &first.datagram());
    let (scid, token) = read_retry(&server.answer, &first.dcid);
    let second = InitialPacket::with_token(scid, &token);
    assert!(server.incoming(client, &second.datagram()).is_validated());
}

#[test]
fn unfinished_handshakes_count_until_they_are_over() {
    let mut server = Server::with(EndpointConfig::default(), |server| server.max_incoming = 3);
    let mut handles = Vec::new();
    for n in 0..3 {
        let packet = InitialPacket::numbered(n).datagram();
        let incoming = server.incoming(client_address(n as u16), &packet);
        handles.push(server.endpoint.accept(server.now, incoming, None).unwrap());
    }
    // A fourth is sent away to prove its address, and then let in.
    let client = client_address(4);
    let fourth = InitialPacket::numbered(4);
    server.transmit(client, &fourth.datagram());
    let (scid, token) = read_retry(&server.answer, &fourth.dcid);
    let incoming = server.incoming(client, &InitialPacket::with_token(scid, &token).datagram());
    server.endpoint.ignore(incoming);
    let (handle, _) = handles[0];
    for _ in 0..2 {
        server
            .endpoint
            .handle_connection_event(handle, EndpointEvent::HandshakeOver);
    }
    let again = server.incoming(client, &fourth.datagram());
    assert!(!again.is_validated());
    server.transmit(client_address(5), &InitialPacket::numbered(5).datagram());
}

#[test]
fn above_max_connections_clients_are_refused() {
    let mut server = Server::with(EndpointConfig::default(), |server| {
        server.max_connections = 2
    });
    let mut kept = Vec::new();
    for n in 0..2 {
        let packet = InitialPacket::numbered(n).datagram();
        let incoming = server.incoming(client_address(n as u16), &packet);
        let (handle, connection) = server.endpoint.accept(server.now, incoming, None).unwrap();
        server
            .endpoint
            .handle_connection_event(handle, EndpointEvent::HandshakeOver);
        kept.push((handle, connection));
    }
    let third = InitialPacket::numbered(3);
    server.transmit(client_address(3), &third.datagram());
    assert_eq!(
        read_close(&server.answer, &third.dcid),
        Code::CONNECTION_REFUSED.0
    );
    assert_eq!(
        server.counters.snapshot().abuse(Abuse::TooManyConnections),
        1
    );
    server
        .endpoint
        .handle_connection_event(kept[0].0, EndpointEvent::Drained);
    let _welcome = server.incoming(client_address(3), &third.datagram());
}

/// Clients whose address may be forged make others prove theirs, and take nobody's place.
#[test]
fn half_open_connections_never_turn_clients_away() {
    for (max_incoming, max_connections) in [(1_000, 50), (50, 50), (20, 50)] {
        let mut server = Server::with(EndpointConfig::default(), |server| {
            server.max_incoming = max_incoming;
            server.max_connections = max_connections;
        });
        let mut half_open = Vec::new();
        for n in 0..2_000 {
            let packet = InitialPacket::numbered(n).datagram();
            match server.receive(client_address(n as u16), &packet) {
                DatagramEvent::Incoming(incoming) => {
                    half_open.push(server.endpoint.accept(server.now, incoming, None).unwrap());
                }
                DatagramEvent::Transmit(_) => {
                    read_retry(&server.answer, &InitialPacket::numbered(n).dcid);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(half_open.len(), max_incoming.min(max_connections));
        // As many as there are places prove their address and are served.
        let mut served = 0;
        for n in 2_000..3_000 {
            let (client, first) = (client_address(n as u16), InitialPacket::numbered(n));
            server.transmit(client, &first.datagram());
            let Ok(Header::Retry { .. }) = parse_header(&server.answer, 8) else {
                break;
            };
            let (scid, token) = read_retry(&server.answer, &first.dcid);
            let second = InitialPacket::with_token(scid, &token);
            let incoming = server.incoming(client, &second.datagram());
            let accepted = server.endpoint.accept(server.now, incoming, None);
            let (handle, _) = accepted.unwrap();
            server
                .endpoint
                .handle_connection_event(handle, EndpointEvent::HandshakeOver);
            served += 1;
        }
        assert_eq!(served, max_connections);
        // Then, and only then, it is full.
        let late = InitialPacket::numbered(3_001);
        server.transmit(client_address(1), &late.datagram());
        assert_eq!(
            read_close(&server.answer, &late.dcid),
            Code::CONNECTION_REFUSED.0
        );
        // Places come free again when they end.
        for (handle, _) in half_open {
            server
                .endpoint
                .handle_connection_event(handle, EndpointEvent::Drained);
        }
        assert_eq!(server.endpoint.connections(), max_connections);
    }
}

#[test]
fn early_datagrams_of_an_attempt_are_bounded() {
    let mut server = Server::with(EndpointConfig::default(), |server| {
        server.incoming_buffer_bytes = 10_000
    });
    let client = client_address(1);
    let packet = InitialPacket::numbered(1).datagram();
    let incoming = server.incoming(client, &packet);
    let count = |server: &mut Server, data: &[u8]| {
        (0..500)
            .filter(|_| matches!(server.receive(client, data), DatagramEvent::Buffered))
            .count()
    };
    assert_eq!(count(&mut server, &packet), 6);
    // Small ones cost something too.
    let small = InitialPacket {
        len: 100,
        ..InitialPacket::numbered(1)
    }
    .datagram();
    assert!(count(&mut server, &small) < 20);
    assert!(server.counters.snapshot().abuse(Abuse::EarlyDataFlood) > 900);
    assert!(server.endpoint.accept(server.now, incoming, None).is_ok());
}

#[test]
fn thousands_of_connections_leave_nothing_behind() {
    let mut server = Server::new();
    for n in 0..2_000u64 {
        let packet = InitialPacket::numbered(n).datagram();
        let incoming = server.incoming(client_address(1), &packet);
        let (handle, connection) = server.endpoint.accept(server.now, incoming, None).unwrap();
        drop(connection);
        server
            .endpoint
            .handle_connection_event(handle, EndpointEvent::Drained);
        assert!(handle.0 < 32, "handles are used again");
    }
    assert_eq!(server.endpoint.routes.len(), 0);
    assert_eq!(server.endpoint.connections(), 0);
}

#[test]
fn a_token_store_keeps_few_tokens_of_few_servers() {
    const V: Version = Version::V1;
    let store = MemoryTokenStore::new(3, 2);
    assert_eq!(store.take("a", V), None);
    for n in 0..5u8 {
        store.insert("a", V, bytes::Bytes::from(vec![n]));
    }
    for name in ["b", "c"] {
        store.insert(name, V, bytes::Bytes::from_static(b"t"));
    }
    // Newest first, each once, two at most.
    assert_eq!(store.take("a", V).as_deref(), Some(&[4][..]));
    assert_eq!(store.take("a", V).as_deref(), Some(&[3][..]));
    assert_eq!(store.take("a", V), None);
    for n in 0..100 {
        store.insert(&format!("host{n}"), V, bytes::Bytes::from_static(b"t"));
    }
    assert_eq!(store.take("b", V), None);
    assert!((97..100).all(|n| store.take(&format!("host{n}"), V).is_some()));
    store.insert("big", V, bytes::Bytes::from(vec![0; 100_000]));
    store.insert("none", V, bytes::Bytes::new());
    assert_eq!((store.take("big", V), store.take("none", V)), (None, None));
}

/// RFC 9369 s5.
#[test]
fn a_token_store_tells_versions_apart() {
    let store = MemoryTokenStore::new(2, 2);
    store.insert("a", Version::V1, bytes::Bytes::from_static(b"1"));
    assert_eq!(store.take("a", Version::V2), None);
    store.insert("a", Version::V2, bytes::Bytes::from_static(b"2"));
    assert_eq!(store.take("a", Version::V2).as_deref(), Some(&b"2"[..]));
    assert_eq!(store.take("a", Version::V1).as_deref(), Some(&b"1"[..]));
}

#[test]
fn tables_weigh_what_the_present_connections_weigh() {
    let mut server = Server::new();
    let mut serial = 0;
    let mut accept = |server: &mut Server| {
        serial += 1;
        let packet = InitialPacket::numbered(serial).datagram();
        let incoming = server.incoming(client_address(serial as u16), &packet);
        let accepted = server.endpoint.accept(server.now, incoming, None);
        let (handle, mut connection) = accepted.unwrap();
        while let Some(event) = connection.poll_endpoint_event() {
            server.endpoint.handle_connection_event(handle, event);
        }
        server
            .endpoint
            .handle_connection_event(handle, EndpointEvent::HandshakeOver);
        handle
    };
    let places = |server: &Server| {
        let endpoint = &server.endpoint;
        endpoint.table.capacity() + endpoint.routes.capacity()
    };
    // Some at once, then many, then one that stays: the last, so that its place is a high one.
    let mut drained = |server: &mut Server, count: usize, stays: bool| {
        let handles: Vec<_> = (0..count).map(|_| accept(server)).collect();
        for handle in handles.iter().take(count - usize::from(stays)) {
            server
                .endpoint
                .handle_connection_event(*handle, EndpointEvent::Drained);
        }
        handles.last().copied().unwrap()
    };
    for _ in 0..20 {
        drained(&mut server, 20, false);
    }
    let before = places(&server);
    drained(&mut server, 3_000, false);
    assert_eq!(server.endpoint.connections(), 0);
    let after = places(&server);
    assert!(after <= before + 200, "{before} places, then {after}");
    let stays = drained(&mut server, 3_000, true);
    assert_eq!(server.endpoint.connections(), 1);
    // Places for connections are words; what is in them is not kept.
    assert!(server.endpoint.routes.capacity() <= before + 200);
    server
        .endpoint
        .handle_connection_event(stays, EndpointEvent::Drained);
    assert_eq!(server.endpoint.routes.len(), 0);
    assert!(places(&server) <= before + 200);
    // And handles still rest before they name somebody else.
    let first = accept(&mut server);
    server
        .endpoint
        .handle_connection_event(first, EndpointEvent::Drained);
    assert_ne!(accept(&mut server), first);
}
