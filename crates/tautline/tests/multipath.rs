//! Several paths over sockets on the loopback interface, whose addresses 127.0.0.x all lead home.

mod common;

use std::{
    future::{Future, poll_fn},
    net::SocketAddr,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use common::{Pair, client_config, connect, identity, loopback, server_config, within};
use tautline::{
    AbandonPathError, ConnectHostError, Connection, Endpoint, HandshakeError, LocalEnd,
    LocalEndError, MultipathConfig, OpenPathError, OpenedPath, PathCost, PathEvent, PathId,
    PathStatus, TransportConfig,
    transport::{
        multipath::{OpenPathError as Refused, sched},
        observe::{ConnectionInfo, Event, Sink, SinkFactory},
        time::Instant,
        tls::Level,
        wire::Frame,
    },
};

fn multipath(scheduler: &str) -> TransportConfig {
    let mut config = TransportConfig::default();
    let mut multipath = MultipathConfig::default();
    multipath.scheduler = sched::registry::by_name(scheduler).unwrap();
    config.multipath = Some(multipath);
    config
}

async fn pair() -> Pair {
    common::pair_with(multipath("auto"), multipath("auto")).await
}

/// 127.0.0.`last`, unless this machine has no such address.
fn spare(last: u8) -> Option<LocalEnd> {
    let address = SocketAddr::from(([127, 0, 0, last], 0));
    match std::net::UdpSocket::bind(address) {
        Ok(_) => Some(address.ip().into()),
        Err(error) => {
            println!("skipped: {} cannot be used here: {error}", address.ip());
            None
        }
    }
}

async fn open(connection: &Connection, from: &LocalEnd) -> OpenedPath {
    let remote = connection.remote_address();
    connection.open_path(from.clone(), remote).await.unwrap()
}

/// Moves bytes from one end to the other.
async fn transfer(from: &Connection, to: &Connection, bytes: usize) {
    let send = async {
        let mut stream = from.open_uni().await.unwrap();
        let chunk: Vec<u8> = (0..250_u8).cycle().take(250_000).collect();
        let mut left = bytes;
        while left > 0 {
            let part = left.min(chunk.len());
            stream.write_all(&chunk[..part]).await.unwrap();
            left -= part;
        }
        stream.finish().unwrap();
        stream.stopped().await.unwrap();
    };
    let receive = async {
        let mut stream = to.accept_uni().await.unwrap();
        let mut at = 0;
        let mut buffer = vec![0; 65_536];
        while let Some(len) = stream.read(&mut buffer).await.unwrap() {
            for byte in &buffer[..len] {
                assert_eq!(usize::from(*byte), at % 250_000 % 250);
                at += 1;
            }
        }
        assert_eq!(at, bytes);
    };
    tokio::join!(send, receive);
}

fn received(connection: &Connection) -> Vec<u64> {
    let paths = connection.paths().into_iter();
    paths.map(|path| path.bytes_received).collect()
}

/// Transfers until each of two paths has carried a megabyte to either end. On a busy machine one may
/// grow much faster than the other, so that a single transfer says little.
async fn both_carry(server: &Connection, client: &Connection) {
    for _ in 0..20 {
        transfer(server, client, 10_000_000).await;
        transfer(client, server, 10_000_000).await;
        let carried = [received(server), received(client)];
        assert!(carried.iter().all(|paths| paths.len() == 2), "{carried:?}");
        if carried.iter().flatten().all(|bytes| *bytes > 1_000_000) {
            return;
        }
    }
    panic!("{:?} {:?}", server.paths(), client.paths());
}

/// When an end sent its first Handshake packet, and when the first connection ID for path 1.
#[derive(Clone, Debug, Default)]
struct FirstFlight(Arc<Mutex<[Option<Instant>; 2]>>);

impl SinkFactory for FirstFlight {
    fn build(&self, _: &ConnectionInfo) -> Option<Box<dyn Sink>> {
        let sent = Arc::clone(&self.0);
        Some(Box::new(move |now: Instant, event: &Event<'_>| {
            let [handshake, connection_id] = &mut *sent.lock().unwrap();
            match event {
                Event::PacketSent {
                    level: Level::Handshake,
                    ..
                } => handshake.get_or_insert(now),
                Event::FrameSent(Frame::NewConnectionId(new)) if new.path == Some(PathId(1)) => {
                    connection_id.get_or_insert(now)
                }
                _ => return,
            };
        }))
    }
}

/// A client may open a second path as soon as it has read the server's first flight (noq gives up if it then lacks
/// a connection ID).
#[tokio::test]
async fn the_first_flight_brings_connection_ids_for_a_second_path() {
    within(async {
        let flight = FirstFlight::default();
        let mut watched = multipath("auto");
        watched.observer = Some(Arc::new(flight.clone()));
        let pair = common::pair_with(watched, multipath("auto")).await;
        pair.client.handshake_confirmed().await.unwrap();
        // The instant is that of one call that makes datagrams: they left together.
        let [handshake, connection_id] = *flight.0.lock().unwrap();
        assert!(handshake.is_some());
        assert_eq!(handshake, connection_id);
    })
    .await;
}

#[tokio::test]
async fn two_paths_carry_data_both_ways() {
    let Some(second) = spare(2) else { return };
    let Pair {
        server,
        client,
        server_endpoint,
        client_endpoint,
    } = common::pair_with(multipath("round-robin"), multipath("round-robin")).await;
    let opened = open(&client, &second).await;
    assert_eq!(opened.id, PathId(1));
    assert_eq!(opened.local.ip(), second.ip().unwrap());
    assert_eq!(opened.warning, None);
    both_carry(&server, &client).await;
    let seen_by_server: Vec<_> = server
        .paths()
        .iter()
        .map(|it| it.four_tuple.remote)
        .collect();
    assert_eq!(seen_by_server[1], opened.local);
    drop((server_endpoint, client_endpoint));
}

#[tokio::test]
async fn a_server_is_reached_at_each_of_its_addresses() {
    let (Some(second), Some(_)) = (spare(2), spare(3)) else {
        return;
    };
    let identity = identity();
    let server_endpoint = Endpoint::builder()
        .server(server_config(&identity, multipath("round-robin")))
        .also_bind("127.0.0.3:0".parse().unwrap())
        .bind(loopback())
        .unwrap();
    let client_endpoint = Endpoint::client("[::]:0".parse().unwrap())
        .or_else(|_| Endpoint::client("0.0.0.0:0".parse().unwrap()))
        .unwrap();
    client_endpoint.set_default_client_config(client_config(&identity, multipath("round-robin")));
    let (server, client) = connect(&server_endpoint, &client_endpoint).await;
    let there = server_endpoint.other_addrs()[0];
    client.open_path(second.clone(), there).await.unwrap();
    both_carry(&server, &client).await;
    assert_eq!(server.paths()[1].four_tuple.local, there);
    // And connections may begin at either, from any address.
    let accept = async { server_endpoint.accept().await.unwrap().await.unwrap() };
    let connecting = client_endpoint
        .connect_from(&second, there, "localhost")
        .unwrap();
    let (other, mine) = tokio::join!(accept, async { connecting.await.unwrap() });
    assert_eq!(other.local_address(), there);
    assert_eq!(other.remote_address().ip(), second.ip().unwrap());
    transfer(&mine, &other, 100_000).await;
    transfer(&other, &mine, 100_000).await;
}

/// One path of each family: the server listens on both, the connection begins on either.
#[tokio::test]
async fn ipv4_and_ipv6_make_a_pair() {
    let both = [
        loopback(),
        SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0)),
    ];
    if let Err(error) = std::net::UdpSocket::bind(both[1]) {
        println!("skipped: {} cannot be used here: {error}", both[1].ip());
        return;
    }
    for (first, second) in [(0, 1), (1, 0)] {
        let identity = identity();
        let server_endpoint = Endpoint::builder()
            .server(server_config(&identity, multipath("round-robin")))
            .also_bind(both[second])
            .bind(both[first])
            .unwrap();
        let client_endpoint = Endpoint::client(both[first]).unwrap();
        let config = client_config(&identity, multipath("round-robin"));
        client_endpoint.set_default_client_config(config);
        let (server, client) = connect(&server_endpoint, &client_endpoint).await;
        let there = server_endpoint.other_addrs()[0];
        let opened = client.open_path(both[second].ip(), there).await;
        let opened = opened.unwrap();
        assert_eq!(opened.local.ip(), both[second].ip());
        both_carry(&server, &client).await;
        let families = |connection: &Connection| -> Vec<bool> {
            let paths = connection.paths().into_iter();
            paths.map(|it| it.four_tuple.remote.is_ipv4()).collect()
        };
        assert_eq!(families(&client), [first == 0, second == 0]);
        assert_eq!(families(&server), families(&client));
        // The one goes, the other carries on.
        client.close_path(PathId(0)).unwrap();
        transfer(&server, &client, 1_000_000).await;
    }
}

/// A place is led to an address of the peer's that it can reach and that answers.
#[tokio::test]
async fn a_path_finds_the_address_that_its_place_leads_to() {
    let Some(second) = spare(2) else { return };
    let six = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0));
    if let Err(error) = std::net::UdpSocket::bind(six) {
        println!("skipped: {} cannot be used here: {error}", six.ip());
        return;
    }
    let identity = identity();
    let server_endpoint = Endpoint::builder()
        .server(server_config(&identity, multipath("auto")))
        .also_bind(six)
        .bind(loopback())
        .unwrap();
    let client_endpoint = Endpoint::client(loopback()).unwrap();
    client_endpoint.set_default_client_config(client_config(&identity, multipath("auto")));
    let (server, client) = connect(&server_endpoint, &client_endpoint).await;
    let there = server_endpoint.other_addrs()[0];
    let from_six = || client.open_path_from(six.ip(), PathCost::default());
    assert!(matches!(
        from_six().await,
        Err(OpenPathError::Local(LocalEndError::OtherFamily { .. }))
    ));
    let mute = std::net::UdpSocket::bind(six).unwrap();
    let silent = mute.local_addr().unwrap();
    client.add_peer_addresses([silent, there, there]);
    let in_use = client.remote_address();
    assert_eq!(client.peer_addresses(), [in_use, silent, there]);
    let opened = from_six().await.unwrap();
    assert_eq!((opened.local.ip(), opened.remote), (six.ip(), there));
    let opened = client.open_path_from(second, PathCost::default()).await;
    assert_eq!(opened.unwrap().remote, in_use);
    transfer(&server, &client, 100_000).await;
}

#[tokio::test]
async fn listeners_hear_of_a_path_from_beginning_to_end() {
    let Some(second) = spare(2) else { return };
    let Pair {
        server,
        client,
        server_endpoint: _server_endpoint,
        client_endpoint: _client_endpoint,
    } = pair().await;
    let mut events = client.path_events();
    let mut server_events = server.path_events();
    let path = open(&client, &second).await.id;
    client.set_path_status(path, PathStatus::Backup).unwrap();
    assert!(matches!(
        events.next().await,
        Some(PathEvent::Opened { path: id, .. }) if id == path
    ));
    assert!(matches!(
        events.next().await,
        Some(PathEvent::Validated { path: id, .. }) if id == path
    ));
    transfer(&client, &server, 10_000).await;
    client.close_path(path).unwrap();
    assert!(matches!(
        events.next().await,
        Some(PathEvent::Abandoned { path: id, by_peer: false, .. }) if id == path
    ));
    let mut heard = Vec::new();
    while let Some(event) = server_events.next().await {
        heard.push(event);
        if matches!(event, PathEvent::Abandoned { .. }) {
            break;
        }
    }
    assert!(
        heard.iter().any(|event| matches!(event,
            PathEvent::StatusChanged { path: id, status: PathStatus::Backup } if *id == path)),
        "{heard:?}"
    );
    assert!(
        matches!(heard.last(), Some(PathEvent::Abandoned { path: id, by_peer: true, .. }) if *id == path),
        "{heard:?}"
    );
    assert_eq!(
        client.close_path(PathId::ZERO),
        Err(AbandonPathError::LastPath)
    );
    assert_eq!(
        client.close_path(PathId(77)),
        Err(AbandonPathError::UnknownPath)
    );
    transfer(&server, &client, 10_000).await;
    client.close(0, b"");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    let Pair {
        server,
        client,
        server_endpoint: _server_endpoint,
        client_endpoint: _client_endpoint,
    } = pair().await;
    let remote = client.remote_address();
    let failed = |from: &str| {
        let from: LocalEnd = from.parse().unwrap();
        let client = client.clone();
        async move { client.open_path(from, remote).await.unwrap_err() }
    };
    let error = failed("nosuch0").await;
    assert!(
        matches!(&error, OpenPathError::Local(LocalEndError::NoInterface { name }) if name == "nosuch0")
            || matches!(
                &error,
                OpenPathError::Local(LocalEndError::NoInterfaceList { .. })
            ),
        "{error:?}"
    );
    println!("{error}");
    // RFC 5737: nobody has it.
    let error = failed("192.0.2.1").await;
    println!("{error}");
    assert!(matches!(
        error,
        OpenPathError::Local(LocalEndError::Bind { .. })
    ));
    let error = failed("::1").await;
    println!("{error}");
    assert!(matches!(
        error,
        OpenPathError::Local(LocalEndError::OtherFamily { .. })
    ));
    let from = LocalEnd::from(loopback());
    let error = server.open_path(from, server.remote_address()).await;
    assert_eq!(error, Err(OpenPathError::Refused(Refused::NotClient)));
}

#[tokio::test]
async fn a_peer_without_multipath_sees_one_path() {
    let Some(second) = spare(2) else { return };
    for (ours, theirs, expected) in [
        (Some("auto"), None, Refused::NotSupported),
        (None, Some("auto"), Refused::NotConfigured),
    ] {
        let config = |name: Option<&str>| name.map_or_else(TransportConfig::default, multipath);
        let Pair {
            server,
            client,
            server_endpoint: _server_endpoint,
            client_endpoint: _client_endpoint,
        } = common::pair_with(config(theirs), config(ours)).await;
        let error = client.open_path(second.clone(), client.remote_address());
        assert_eq!(error.await, Err(OpenPathError::Refused(expected)));
        transfer(&server, &client, 50_000).await;
    }
}

#[tokio::test]
async fn a_path_that_nobody_answers_fails_and_harms_nobody() {
    let Some(second) = spare(2) else { return };
    let Pair {
        server,
        client,
        server_endpoint: _server_endpoint,
        client_endpoint: _client_endpoint,
    } = pair().await;
    let mute = std::net::UdpSocket::bind(loopback()).unwrap();
    let there = mute.local_addr().unwrap();
    let opening = client.open_path(second, there);
    let (opened, ()) = tokio::join!(opening, transfer(&server, &client, 1_000_000));
    match opened {
        Err(error @ OpenPathError::NoAnswer { .. }) => println!("{error}"),
        other => panic!("{other:?}"),
    }
    transfer(&client, &server, 1_000_000).await;
}

/// A port of 127.0.0.1 at which nobody listens.
fn closed_port() -> SocketAddr {
    let nobody = std::net::UdpSocket::bind(loopback()).unwrap();
    nobody.local_addr().unwrap()
}

/// What ICMP says of one socket's datagrams fails the attempts from there, and no others.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_refused_port_ends_a_path_at_once_and_harms_nobody() {
    let Some(second) = spare(2) else { return };
    let Pair {
        server,
        client,
        server_endpoint: _server_endpoint,
        client_endpoint: _client_endpoint,
    } = pair().await;
    let good = open(&client, &second).await;
    let opening = client.open_path(second.clone(), closed_port());
    let (opened, ()) = tokio::join!(opening, transfer(&server, &client, 1_000_000));
    match opened {
        Err(error @ OpenPathError::Unreachable { .. }) => println!("{error}"),
        other => panic!("{other:?}"),
    }
    transfer(&client, &server, 1_000_000).await;
    let left = client.paths().into_iter().filter(|it| !it.abandoned);
    let left: Vec<_> = left.map(|it| it.id).collect();
    assert_eq!(left, [PathId::ZERO, good.id]);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_refused_port_is_known_from_every_place() {
    let (Some(second), Some(third)) = (spare(2), spare(3)) else {
        return;
    };
    let client = Endpoint::client(loopback()).unwrap();
    client.set_default_client_config(client_config(&identity(), multipath("auto")));
    let port = closed_port().port();
    let from = [second, third];
    let error = client.connect_host_from(&from, "127.0.0.1", port).await;
    let ConnectHostError::AllFailed { attempts, .. } = error.unwrap_err() else {
        panic!("it was tried");
    };
    assert_eq!(attempts.len(), 2);
    for (_, error) in attempts {
        assert!(
            matches!(error, HandshakeError::Unreachable { .. }),
            "{error}"
        );
    }
}

#[tokio::test]
async fn dropped_attempts_and_closed_paths_leave_nothing_behind() {
    let Some(second) = spare(2) else { return };
    let Pair {
        server,
        client,
        server_endpoint: _server_endpoint,
        client_endpoint: _client_endpoint,
    } = pair().await;
    let mut events = client.path_events();
    {
        let mut opening = std::pin::pin!(client.open_path(second.clone(), client.remote_address()));
        // Nobody else runs meanwhile.
        let ready = poll_fn(|cx| Poll::Ready(opening.as_mut().poll(cx).is_ready())).await;
        assert!(!ready);
    }
    loop {
        match events.next().await {
            Some(PathEvent::Abandoned { path, .. }) => {
                assert_eq!(path, PathId(1));
                break;
            }
            Some(_) => {}
            None => panic!("the connection ended"),
        }
    }
    let mut locals = std::collections::BTreeSet::new();
    for round in 0..20 {
        let opened = match client
            .open_path(second.clone(), client.remote_address())
            .await
        {
            Ok(opened) => opened,
            // Identifiers come back with acknowledgements.
            Err(OpenPathError::Refused(Refused::TooManyPaths { .. })) => {
                transfer(&client, &server, 1_000).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            Err(error) => panic!("{round}: {error}"),
        };
        locals.insert(opened.local);
        client.close_path(opened.id).unwrap();
    }
    assert_eq!(locals.len(), 1, "one socket serves them all: {locals:?}");
    transfer(&server, &client, 100_000).await;
}

#[tokio::test]
async fn one_path_moves_while_the_other_stays() {
    let Some(second) = spare(2) else { return };
    let Pair {
        server,
        client,
        server_endpoint: _server_endpoint,
        client_endpoint,
    } = pair().await;
    let opened = open(&client, &second).await;
    transfer(&server, &client, 100_000).await;
    let mut events = server.path_events();
    let new = std::net::UdpSocket::bind(loopback()).unwrap();
    let new_address = new.local_addr().unwrap();
    client_endpoint.rebind(new).unwrap();
    transfer(&client, &server, 100_000).await;
    while let Some(event) = events.next().await {
        if let PathEvent::Migrated { path, to } = event {
            assert_eq!((path, to.remote), (PathId::ZERO, new_address));
            break;
        }
    }
    let remotes: Vec<_> = server
        .paths()
        .iter()
        .map(|it| it.four_tuple.remote)
        .collect();
    assert_eq!(remotes, [new_address, opened.local]);
    transfer(&server, &client, 100_000).await;
}
