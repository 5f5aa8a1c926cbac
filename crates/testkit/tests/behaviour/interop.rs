//! The interop runner's test cases, Tautline to Tautline, over the runner's networks and with its
//! criteria. HTTP/0.9 is stood in for by a request that names a length.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc};

use rustls::{CipherSuite, pki_types::CertificateDer};
use tautline_sim::Direction;
use tautline_testkit::{
    apps::Job,
    tls,
    trace::{FrameTrace, by_datagram},
};
use tautline_transport::{
    config::PreferredAddresses,
    tls::{Level, RustlsClient, RustlsServer},
    units::Ecn,
    wire::Version,
};

use crate::kit::{Kind, MS, Net, SECOND, Setup, headers, is_of_connection, seen};

const MB: u64 = 1 << 20;
const KB: u64 = 1 << 10;

/// What the runner asks of nearly every case: one handshake, no Retry, the version.
fn one_plain_handshake<C: tautline_sim::quic::App>(
    net: &Net<C, tautline_testkit::apps::PatternServer>,
) {
    assert_eq!(net.server_app().accepted.len(), 1, "one handshake");
    let packets = seen(&net.tap, Direction::Backward);
    assert!(packets.iter().all(|packet| packet.kind != Kind::Retry));
    assert!(
        packets
            .iter()
            .filter_map(|packet| packet.version)
            .all(|version| version == Version::V1)
    );
}

#[test]
fn handshake() {
    let mut net = Setup::case(1, "handshake").fetch(&[KB]);
    net.finish(10 * SECOND);
    one_plain_handshake(&net);
}

#[test]
fn transfer() {
    let mut net = Setup::case(2, "transfer").fetch(&[2 * MB, 3 * MB, 5 * MB]);
    let done = net.finish(60 * SECOND);
    one_plain_handshake(&net);
    println!("10 MB in {done:?}");
}

#[test]
fn longrtt() {
    let mut net = Setup::case(3, "longrtt").fetch(&[KB]);
    net.finish(30 * SECOND);
    one_plain_handshake(&net);
    let hellos = net.client_trace.with(0, |client| {
        client
            .sent_at(Level::Initial)
            .filter(|packet| packet.has(|f| matches!(f, FrameTrace::Crypto { offset: 0, .. })))
            .count()
    });
    assert!(hellos >= 2, "{hellos} ClientHellos");
}

#[test]
fn chacha20() {
    let mut config = tls::client_config(5);
    let mut provider = (**config.crypto_provider()).clone();
    provider
        .cipher_suites
        .retain(|suite| suite.suite() == CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
    assert_eq!(provider.cipher_suites.len(), 1);
    config = rustls::ClientConfig::builder_with_details(
        Arc::new(provider),
        Arc::new(tls::VirtualClock::new()),
    )
    .with_protocol_versions(&[&rustls::version::TLS13])
    .unwrap()
    .with_root_certificates(tls::Identity::server().roots())
    .with_no_client_auth();
    config.alpn_protocols = vec![tls::ALPN.to_vec()];
    let mut setup = Setup::case(4, "chacha20");
    setup.client_tls = Arc::new(RustlsClient::new(config).unwrap());
    let mut net = setup.fetch(&[3 * MB]);
    net.finish(30 * SECOND);
    one_plain_handshake(&net);
}

#[test]
fn multiplexing() {
    let mut net = Setup::case(5, "multiplexing")
        .server(|server| server.max_concurrent_bidi_streams = 1000)
        .fetch(&[32; 1999]);
    net.finish(60 * SECOND);
    one_plain_handshake(&net);
}

#[test]
fn retry() {
    let mut server = tautline_testkit::apps::PatternServer::default();
    server.retry = true;
    let mut net = Setup::case(6, "retry").build(
        |config, to| tautline_testkit::apps::PatternClient::new(config, to, &[KB]),
        server,
    );
    net.finish(10 * SECOND);
    let retries: Vec<_> = seen(&net.tap, Direction::Backward)
        .into_iter()
        .filter(|packet| packet.kind == Kind::Retry)
        .collect();
    assert_eq!(retries.len(), 1);
    let with_token = seen(&net.tap, Direction::Forward)
        .into_iter()
        .find(|packet| !packet.token.is_empty())
        .expect("an Initial with a token");
    assert_eq!(with_token.token, retries[0].token);
    assert_eq!(with_token.dcid, retries[0].scid);
    let numbers: Vec<u64> = net.client_trace.with(0, |client| {
        client
            .sent_at(Level::Initial)
            .map(|packet| packet.number)
            .collect()
    });
    assert!(
        numbers.windows(2).all(|pair| pair[0] < pair[1]),
        "{numbers:?}"
    );
}

#[test]
fn resumption() {
    let mut net =
        Setup::case(7, "resumption").sequence([Job::new(&[5 * KB]), Job::new(&[10 * KB])]);
    net.finish(20 * SECOND);
    assert_eq!(net.server_app().accepted.len(), 2);
    let resumed: Vec<bool> = net.client_app().resumption.iter().map(|r| r.0).collect();
    assert_eq!(resumed, [false, true], "the second without a certificate");
}

#[test]
fn zerortt() {
    let mut early = Job::new(&[32; 40]).early();
    // "GET /" and a name of 250 characters.
    early.request_padding = 250;
    let mut net = Setup::case(8, "zerortt").sequence([Job::new(&[KB]), early]);
    net.finish(20 * SECOND);
    assert_eq!(
        net.client_app().resumption,
        [(false, None), (true, Some(true))]
    );
    let (early, late) = net.client_trace.with(1, |client| {
        let bytes = |level| {
            client
                .sent_at(level)
                .map(|packet| packet.bytes)
                .sum::<usize>()
        };
        (bytes(Level::ZeroRtt), bytes(Level::OneRtt))
    });
    assert!(early > 40 * 250, "{early} bytes of 0-RTT");
    assert!(late <= 5000, "{late} bytes of 1-RTT from the client");
}

/// The transport's share of the case: ALPN `h3` and the objects.
#[test]
fn http3() {
    let mut setup = Setup::case(9, "http3");
    let mut client = tls::client_config(9);
    client.alpn_protocols = vec![b"h3".to_vec()];
    let mut server = tls::server_config(10);
    server.alpn_protocols = vec![b"h3".to_vec()];
    setup.client_tls = Arc::new(RustlsClient::new(client).unwrap());
    setup.server_tls = Arc::new(RustlsServer::new(server).unwrap());
    let mut net = setup.fetch(&[5 * KB, 10 * KB, 500 * KB]);
    net.finish(10 * SECOND);
    one_plain_handshake(&net);
}

#[test]
fn blackhole() {
    let mut net = Setup::case(10, "blackhole").fetch(&[10 * MB]);
    let done = net.finish(60 * SECOND);
    one_plain_handshake(&net);
    println!("10 MB in {done:?}");
}

#[test]
fn keyupdate() {
    let mut net = Setup::case(11, "keyupdate").fetch(&[3 * MB]);
    net.run_for(500 * MS);
    let (client, now) = (net.client, net.now());
    net.world
        .node_mut::<tautline_sim::quic::QuicHost<tautline_testkit::apps::PatternClient>>(client)
        .with_app(now, |app, cx| {
            let handle = app.handle.unwrap();
            let connection = cx.connection(handle).unwrap();
            connection.initiate_key_update(now).unwrap();
        });
    net.finish(30 * SECOND);
    one_plain_handshake(&net);
    for trace in [&net.client_trace, &net.server_trace] {
        trace.with(0, |connection| {
            let in_phase = |phase| {
                connection
                    .sent_at(Level::OneRtt)
                    .filter(|packet| packet.key_phase == phase)
                    .count()
            };
            assert!(in_phase(0) > 0 && in_phase(1) > 0, "{:?}", connection.side);
        });
    }
}

#[test]
fn ecn() {
    let mut net = Setup::case(12, "ecn").fetch(&[KB]);
    net.finish(10 * SECOND);
    one_plain_handshake(&net);
    for direction in Direction::BOTH {
        for (index, datagram) in net.tap.heard(direction).iter().enumerate() {
            assert_eq!(datagram.ecn, Ecn::Ect0, "{direction:?} datagram {index}");
        }
    }
    for trace in [&net.client_trace, &net.server_trace] {
        let reported = trace.with(0, |connection| {
            connection
                .frames_sent()
                .any(|frame| matches!(frame, FrameTrace::Ack { ecn: true, .. }))
        });
        assert!(reported, "ACK with ECN counts");
    }
}

/// A server whose chain of nine certificates makes its first flight long.
pub fn long_chain_server(seed: u64) -> RustlsServer {
    let identity = tls::Identity::server();
    let mut chain = vec![identity.certificate.clone()];
    chain.extend((0..8).map(|number| CertificateDer::from(vec![number; 1000])));
    let mut config = rustls::ServerConfig::builder_with_details(
        tls::provider(seed),
        Arc::new(tls::VirtualClock::new()),
    )
    .with_protocol_versions(&[&rustls::version::TLS13])
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(chain, identity.key())
    .unwrap();
    config.alpn_protocols = vec![tls::ALPN.to_vec()];
    RustlsServer::new(config).unwrap()
}

#[test]
fn amplificationlimit() {
    let mut setup = Setup::case(13, "amplificationlimit");
    setup.server_tls = Arc::new(long_chain_server(13));
    let mut net = setup.fetch(&[5 * KB]);
    net.finish(30 * SECOND);
    one_plain_handshake(&net);
    let crypto: usize = net.server_trace.with(0, |server| {
        let first_flight = server.sent_at(Level::Handshake);
        first_flight
            .flat_map(|packet| &packet.frames)
            .map(|frame| match frame {
                FrameTrace::Crypto { len, .. } => *len,
                _ => 0,
            })
            .sum()
    });
    assert!(crypto >= 7500, "{crypto} bytes of handshake data");
    assert_amplification_kept(&net, &(1..=6));
}

/// The server never sends more than three times what reached it before a Handshake packet of the
/// client reached it.
fn assert_amplification_kept<C: tautline_sim::quic::App>(
    net: &Net<C, tautline_testkit::apps::PatternServer>,
    dropped: &std::ops::RangeInclusive<usize>,
) {
    let delay = net
        .world
        .direction_config(net.link, Direction::Forward)
        .delay;
    let forward = net.tap.heard(Direction::Forward);
    let arrived: Vec<_> = forward
        .iter()
        .enumerate()
        .filter(|(index, _)| !dropped.contains(index))
        .map(|(_, datagram)| datagram)
        .collect();
    let validated = arrived
        .iter()
        .find(|datagram| {
            headers(&datagram.payload)
                .iter()
                .any(|packet| packet.kind == Kind::Handshake)
        })
        .expect("a Handshake packet of the client")
        .time
        + delay;
    let mut sent = 0;
    for datagram in net.tap.heard(Direction::Backward) {
        if datagram.time >= validated {
            break;
        }
        sent += datagram.payload.len();
        let received: usize = arrived
            .iter()
            .filter(|earlier| earlier.time + delay <= datagram.time)
            .map(|earlier| earlier.payload.len())
            .sum();
        assert!(sent <= 3 * received, "{sent} bytes for {received}");
    }
    assert!(sent > 0);
}

fn fifty_connections(name: &str, seed: u64) {
    let jobs = (0..50).map(|_| Job::new(&[KB]));
    let mut net = Setup::case(seed, name).sequence(jobs);
    net.finish(300 * SECOND);
    println!("{name}: 50 connections in {:?}", net.now());
}

#[test]
fn handshakeloss() {
    fifty_connections("handshakeloss", 14);
}

#[test]
fn handshakecorruption() {
    fifty_connections("handshakecorruption", 15);
}

#[test]
fn transferloss() {
    let mut net = Setup::case(16, "transferloss").fetch(&[2 * MB]);
    let done = net.finish(60 * SECOND);
    one_plain_handshake(&net);
    println!("2 MB in {done:?}");
}

#[test]
fn transfercorruption() {
    let mut net = Setup::case(17, "transfercorruption").fetch(&[2 * MB]);
    let done = net.finish(60 * SECOND);
    one_plain_handshake(&net);
    println!("2 MB in {done:?}");
}

#[test]
fn ipv6() {
    let mut setup = Setup::case(18, "ipv6");
    setup.client_address = "[fd00::1]:50000".parse().unwrap();
    setup.server_addresses = vec!["[fd00::2]:443".parse().unwrap()];
    let mut net = setup.fetch(&[5 * KB, 10 * KB]);
    net.finish(10 * SECOND);
    one_plain_handshake(&net);
    let heard = net.tap.heard(Direction::Backward);
    assert!(heard.iter().all(|datagram| datagram.src.is_ipv6()));
}

#[test]
fn v2() {
    let mut setup = Setup::case(19, "v2");
    setup.server_endpoint.versions = vec![Version::V2, Version::V1];
    setup.client_endpoint.versions = vec![Version::V2, Version::V1];
    let mut net = setup.fetch(&[KB]);
    net.finish(10 * SECOND);
    let versions = |direction, kind| -> BTreeSet<Version> {
        seen(&net.tap, direction)
            .iter()
            .filter(|packet| packet.kind == kind)
            .filter_map(|packet| packet.version)
            .collect()
    };
    let first = &seen(&net.tap, Direction::Forward)[0];
    assert_eq!(
        (first.kind, first.version),
        (Kind::Initial, Some(Version::V1))
    );
    let v2 = BTreeSet::from([Version::V2]);
    assert_eq!(versions(Direction::Backward, Kind::Initial), v2);
    assert_eq!(versions(Direction::Backward, Kind::Handshake), v2);
    assert_eq!(versions(Direction::Forward, Kind::Handshake), v2);
}

/// The first server datagram on each new path carries a PATH_CHALLENGE, and each of those is
/// answered. Returns how many paths there were.
pub fn challenged_paths<C: tautline_sim::quic::App, S: tautline_sim::quic::App>(
    net: &Net<C, S>,
) -> usize {
    let datagrams: Vec<_> = net
        .tap
        .heard(Direction::Backward)
        .into_iter()
        .filter(is_of_connection)
        .collect();
    let sent = net.server_trace.connection(0).sent;
    let answered: Vec<[u8; 8]> = net.client_trace.with(0, |client| {
        client
            .frames_sent()
            .filter_map(|frame| match frame {
                FrameTrace::PathResponse(data) => Some(*data),
                _ => None,
            })
            .collect()
    });
    let mut paths: BTreeSet<(SocketAddr, SocketAddr)> = BTreeSet::new();
    for (datagram, packets) in by_datagram(&datagrams, &sent) {
        let path = (datagram.src, datagram.dst);
        if !paths.insert(path) || paths.len() == 1 {
            continue;
        }
        let challenge = packets
            .iter()
            .flat_map(|packet| &packet.frames)
            .find_map(|frame| match frame {
                FrameTrace::PathChallenge(data) => Some(*data),
                _ => None,
            });
        let challenge = challenge.unwrap_or_else(|| {
            panic!(
                "no PATH_CHALLENGE first on {path:?} at {:?}: {packets:?}",
                datagram.time
            )
        });
        assert!(
            answered.contains(&challenge),
            "challenge on {path:?} not answered"
        );
    }
    paths.len()
}

#[test]
fn rebind_port() {
    let mut net = Setup::case(20, "rebind-port").fetch(&[10 * MB]);
    let done = net.finish(60 * SECOND);
    one_plain_handshake(&net);
    let paths = challenged_paths(&net);
    assert!(paths >= 3, "{paths} paths");
    println!("10 MB in {done:?} over {paths} paths");
}

#[test]
fn rebind_addr() {
    let mut net = Setup::case(21, "rebind-addr").fetch(&[10 * MB]);
    let done = net.finish(60 * SECOND);
    one_plain_handshake(&net);
    let paths = challenged_paths(&net);
    assert!(paths >= 3, "{paths} paths");
    println!("10 MB in {done:?} over {paths} paths");
}

#[test]
fn connectionmigration() {
    let preferred: std::net::SocketAddrV4 = "10.0.0.3:4433".parse().unwrap();
    let mut setup = Setup::case(22, "connectionmigration");
    setup.server_addresses.push(preferred.into());
    setup.server.preferred_address = Some(PreferredAddresses {
        v4: Some(preferred),
        v6: None,
    });
    let mut net = setup.fetch(&[2 * MB]);
    net.finish(30 * SECOND);
    one_plain_handshake(&net);
    // The client moves there, under another connection ID from the first packet on.
    let heard = net.tap.heard(Direction::Forward);
    let before: BTreeSet<_> = heard
        .iter()
        .filter(|datagram| datagram.dst != preferred.into())
        .flat_map(|datagram| headers(&datagram.payload))
        .map(|packet| packet.dcid)
        .collect();
    let after: Vec<_> = heard
        .iter()
        .filter(|datagram| datagram.dst == preferred.into())
        .flat_map(|datagram| headers(&datagram.payload))
        .collect();
    assert!(
        after.len() > 20,
        "{} packets to the new address",
        after.len()
    );
    assert!(after.iter().all(|packet| !before.contains(&packet.dcid)));
    assert_eq!(challenged_paths(&net), 2);
}

#[test]
fn versionnegotiation() {
    let mut setup = Setup::case(23, "handshake");
    setup.server_endpoint.versions = vec![Version::V2];
    let mut net = setup.fetch(&[KB]);
    net.finish(10 * SECOND);
    let negotiated = seen(&net.tap, Direction::Backward)
        .iter()
        .filter(|packet| packet.kind == Kind::VersionNegotiation)
        .count();
    assert_eq!(negotiated, 1);
}

/// Measured by the runner, not judged. Ours must use the link.
#[test]
fn goodput() {
    let mut net = Setup::case(24, "goodput").fetch(&[10 * MB]);
    let done = net.finish(60 * SECOND).since_origin();
    let goodput = (10 * MB * 8) as f64 / done.as_secs_f64();
    println!("goodput {:.2} Mb/s", goodput / 1e6);
    assert!(goodput > 0.85 * 10e6, "{goodput} b/s of 10 Mb/s");
}
