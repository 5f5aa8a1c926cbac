//! Handshakes under every kind of trouble.

use std::sync::{Arc, Mutex};

use tautline_sim::{Direction, PacketView, Verdict, rule};
use tautline_testkit::{apps::Job, tls, trace::FrameTrace};
use tautline_transport::{
    connection::Event,
    endpoint::MemoryTokenStore,
    error::{Code, ConnectionError},
    tls::{Level, RustlsClient, RustlsServer, ServerTicketStore},
    units::Dir,
};

use crate::{
    interop::long_chain_server,
    kit::{Kind, MS, Net, SECOND, Setup, calm, read_all, seen, wire},
};

/// Each single datagram of the first exchange lost, in either direction, and each pair.
#[test]
fn loss_at_each_position() {
    for direction in Direction::BOTH {
        for position in 0..8 {
            for length in 1..=2 {
                let mut net = Setup::new(100 + position, calm()).fetch(&[5_000]);
                let lost = position..position + length;
                net.world
                    .add_rule(net.link, direction, rule::drop_indices(lost.clone()));
                let done = net.finish(10 * SECOND);
                println!("{direction:?} {lost:?}: {done:?}");
            }
        }
    }
}

/// The first flights of both ends lost several times over.
#[test]
fn whole_flights_lost() {
    for (forward, backward) in [(3, 0), (0, 6), (2, 4)] {
        let mut net = Setup::new(7, calm()).fetch(&[5_000]);
        net.world
            .add_rule(net.link, Direction::Forward, rule::drop_indices(..forward));
        net.world.add_rule(
            net.link,
            Direction::Backward,
            rule::drop_indices(..backward),
        );
        net.finish(20 * SECOND);
    }
}

#[test]
fn reordered_and_duplicated() {
    for seed in 0..20 {
        let mut link = calm();
        for direction in [&mut link.forward, &mut link.backward] {
            direction.duplication = 0.3;
            direction.reordering = Some(tautline_sim::Reordering {
                probability: 0.3,
                extra: 30 * MS,
            });
        }
        let mut net = Setup::new(seed, link).fetch(&[20_000, 100]);
        net.finish(10 * SECOND);
        assert_eq!(net.server_app().accepted.len(), 1);
    }
}

#[test]
fn rtt_of_1500_ms() {
    let mut net = Setup::new(3, wire(10, 750)).fetch(&[100_000]);
    let done = net.finish(60 * SECOND);
    println!("100 kB at {done:?}");
    assert_eq!(net.server_app().accepted.len(), 1);
}

#[test]
fn long_chain_with_loss() {
    for seed in 0..10 {
        let mut link = calm();
        link.forward.loss = tautline_sim::LossModel::uniform(0.2);
        link.backward.loss = tautline_sim::LossModel::uniform(0.2);
        let mut setup = Setup::new(seed, link);
        setup.server_tls = Arc::new(long_chain_server(seed));
        let mut net = setup.fetch(&[1_000]);
        net.finish(30 * SECOND);
    }
}

/// A client whose every datagram but the first is lost cannot be used to reflect more than three
/// times that one.
#[test]
fn amplification_is_limited_without_a_second_packet() {
    let mut setup = Setup::new(4, calm());
    setup.server_tls = Arc::new(long_chain_server(4));
    let mut net = setup.manual();
    net.world
        .add_rule(net.link, Direction::Forward, rule::drop_indices(1..));
    net.run_for(40 * SECOND);
    let sent: usize = net
        .tap
        .heard(Direction::Backward)
        .iter()
        .map(|datagram| datagram.payload.len())
        .sum();
    let received = net.tap.heard(Direction::Forward)[0].payload.len();
    assert!(sent <= 3 * received, "{sent} for {received}");
    assert!(net.client_app().ended().is_some() && net.server_app().ended().is_some());
    assert_eq!(net.server_host().connections().count(), 0, "all forgotten");
}

/// Every client datagram with an Initial packet is at least 1200 bytes long, and every one of the
/// server's that asks for an acknowledgement.
#[test]
fn initials_are_padded() {
    for seed in 0..30 {
        let mut link = calm();
        link.forward.loss = tautline_sim::LossModel::uniform(0.2);
        link.backward.loss = tautline_sim::LossModel::uniform(0.2);
        let mut net = Setup::new(seed, link).sequence([
            Job::new(&[100]),
            Job::new(&[100; 5]).early(),
            Job::new(&[100]).early(),
        ]);
        net.finish(60 * SECOND);
        for datagram in net.tap.heard(Direction::Forward) {
            let initial = crate::kit::headers(&datagram.payload)
                .iter()
                .any(|packet| packet.kind == Kind::Initial);
            assert!(
                !initial || datagram.payload.len() >= 1200,
                "seed {seed}: {} bytes at {:?}: {:?}",
                datagram.payload.len(),
                datagram.time,
                crate::kit::headers(&datagram.payload)
            );
        }
    }
}

#[test]
fn retry_under_loss() {
    for seed in 0..10 {
        let mut link = calm();
        link.forward.loss = tautline_sim::LossModel::uniform(0.2);
        link.backward.loss = tautline_sim::LossModel::uniform(0.2);
        let mut server = tautline_testkit::apps::PatternServer::default();
        server.retry = true;
        let mut net = Setup::new(seed, link).build(
            |config, to| tautline_testkit::apps::PatternClient::new(config, to, &[10_000]),
            server,
        );
        net.finish(30 * SECOND);
    }
}

#[test]
fn new_token_proves_the_address_next_time() {
    let mut setup = Setup::new(5, calm());
    let store = Arc::new(MemoryTokenStore::default());
    setup.tune_client = Box::new(move |client| client.token_store = Some(store));
    let mut net = setup.sequence([Job::new(&[100]), Job::new(&[100]), Job::new(&[100])]);
    net.finish(10 * SECOND);
    let mut with_token = Vec::new();
    for packet in seen(&net.tap, Direction::Forward) {
        if packet.kind == Kind::Initial && !packet.token.is_empty() {
            with_token.push(packet.token);
        }
    }
    with_token.dedup();
    assert_eq!(with_token.len(), 2, "the later two, each with its own");
    assert_ne!(with_token[0], with_token[1]);
}

#[test]
fn resumption_and_early_data() {
    let mut net = Setup::new(6, wire(10, 100)).sequence([
        Job::new(&[1_000]),
        Job::new(&[1_000; 30]).early(),
        Job::new(&[1_000]).early(),
    ]);
    net.finish(20 * SECOND);
    let expected = [(false, None), (true, Some(true)), (true, Some(true))];
    assert_eq!(net.client_app().resumption, expected);
    // Asking in early data saves a round trip.
    let latency = |index: usize| {
        let client = &net.client_app().finished[index];
        let start = net.client_trace.with(index, |trace| trace.sent[0].time);
        client.finished_at().unwrap().saturating_since(start)
    };
    assert!(latency(0) >= 400 * MS, "{:?}", latency(0));
    assert!(latency(2) < 300 * MS, "{:?}", latency(2));
}

#[test]
fn early_data_survives_loss() {
    for seed in 0..20 {
        let mut link = calm();
        link.forward.loss = tautline_sim::LossModel::uniform(0.15);
        link.backward.loss = tautline_sim::LossModel::uniform(0.15);
        let mut early = Job::new(&[2_000; 20]).early();
        early.request_padding = 500;
        let mut net = Setup::new(seed, link).sequence([Job::new(&[1_000]), early.clone(), early]);
        net.finish(60 * SECOND);
    }
}

/// A server that refuses early data: all of it is delivered after the handshake, once.
fn rejected(
    seed: u64,
    loss: f64,
) -> Net<tautline_testkit::apps::SequenceClient, tautline_testkit::apps::PatternServer> {
    let mut net = refusing_early_data(seed, loss, |setup| setup);
    net.finish(60 * SECOND);
    net
}

/// A client that resumes with early data, and a server that takes it the first time only.
pub fn refusing_early_data(
    seed: u64,
    loss: f64,
    tune: impl FnOnce(Setup) -> Setup,
) -> Net<tautline_testkit::apps::SequenceClient, tautline_testkit::apps::PatternServer> {
    let mut link = calm();
    link.forward.loss = tautline_sim::LossModel::uniform(loss);
    link.backward.loss = tautline_sim::LossModel::uniform(loss);
    let mut setup = Setup::new(seed, link);
    // Tickets promise early data, and a limit that is lower next time makes TLS refuse it.
    let tickets = Arc::new(ServerTicketStore::new(100, 1 << 20));
    let generous = RustlsServer::new(tls::server_config(seed))
        .unwrap()
        .with_ticket_store(Arc::clone(&tickets));
    let refusing = generous.clone().with_early_data(false);
    setup.server_tls = Arc::new(Changing {
        first: generous,
        then: refusing,
        started: Mutex::new(0),
    });
    let mut early = Job::new(&[3_000; 20]).early();
    early.request_padding = 300;
    tune(setup).sequence([Job::new(&[1_000]), early])
}

/// One server for the first connection, another for later ones.
#[derive(Debug)]
struct Changing {
    first: RustlsServer,
    then: RustlsServer,
    started: Mutex<u32>,
}

impl tautline_transport::tls::ServerSessionFactory for Changing {
    fn start(
        &self,
        version: tautline_transport::wire::Version,
        params: Vec<u8>,
    ) -> Result<Box<dyn tautline_transport::tls::Session>, tautline_transport::tls::StartError>
    {
        let mut started = self.started.lock().unwrap();
        *started += 1;
        if *started == 1 {
            self.first.start(version, params)
        } else {
            self.then.start(version, params)
        }
    }

    fn initial_keys(
        &self,
        version: tautline_transport::wire::Version,
        dcid: &tautline_transport::wire::ConnectionId,
        side: tautline_transport::units::Side,
    ) -> tautline_transport::tls::Keys {
        self.first.initial_keys(version, dcid, side)
    }
}

#[test]
fn rejected_early_data_is_sent_again() {
    let net = rejected(8, 0.0);
    assert_eq!(
        net.client_app().resumption,
        [(false, None), (true, Some(false))]
    );
    let second = &net.client_app().finished[1];
    assert!(second.events.contains(&Event::ZeroRttRejected));
    // Nothing the server read came from 0-RTT packets.
    let early = net.server_trace.with(1, |server| {
        server
            .received
            .iter()
            .filter(|packet| packet.level == Level::ZeroRtt)
            .count()
    });
    assert_eq!(early, 0);
    let sent = net
        .client_trace
        .with(1, |client| client.sent_at(Level::ZeroRtt).count());
    assert!(sent > 3, "{sent} 0-RTT packets");
}

/// Early data that was refused is not said again to a server that now speaks another protocol.
#[test]
fn rejected_early_data_stays_with_its_protocol() {
    for (alpn, fits) in [(tls::ALPN, true), (&b"another"[..], false)] {
        let mut setup = Setup::new(12, calm());
        let mut client = tls::client_config(13);
        client.alpn_protocols = vec![tls::ALPN.to_vec(), b"another".to_vec()];
        client.enable_early_data = true;
        setup.client_tls = Arc::new(RustlsClient::new(client).unwrap());
        let mut later = tls::server_config(12);
        later.alpn_protocols = vec![alpn.to_vec()];
        setup.server_tls = Arc::new(Changing {
            first: RustlsServer::new(tls::server_config(12)).unwrap(),
            // It does not know the first one's tickets.
            then: RustlsServer::new(later).unwrap(),
            started: Mutex::new(0),
        });
        let mut net = setup.sequence([Job::new(&[1_000]), Job::new(&[1_000; 5]).early()]);
        net.run_for(20 * SECOND);
        let second = &net.client_app().finished[1];
        assert_eq!(second.is_done(), fits);
        if fits {
            assert!(second.events.contains(&Event::ZeroRttRejected));
            continue;
        }
        let Some(ConnectionError::Transport(error)) = &second.ended else {
            panic!("{:?}", second.ended);
        };
        assert_eq!(error.code, Code::crypto(120));
        // The server saw none of it.
        let asked = net.server_trace.with(1, |server| {
            server
                .received
                .iter()
                .any(|packet| packet.has(|frame| matches!(frame, FrameTrace::Stream { .. })))
        });
        assert!(!asked);
    }
}

#[test]
fn rejected_early_data_survives_loss() {
    for seed in 0..10 {
        rejected(seed, 0.15);
    }
}

/// A server may speak first: before it has heard the client's Finished.
#[test]
fn half_rtt_data() {
    let mut net = Setup::new(9, calm()).manual();
    let ready = net.run_while(SECOND, |net| {
        net.server_app().handle.is_none_or(|handle| {
            let host = net.server_host();
            !host.connection(handle).is_some_and(|c| c.has_0rtt())
        })
    });
    assert!(ready);
    assert!(net.server_connection().is_handshaking());
    let id = net.on_server(|server, _| {
        let id = server.open_stream(Dir::Uni).expect("limits are known");
        server.write(id, b"early bird").unwrap();
        server.finish(id).unwrap();
        id
    });
    let sent_at = net.now();
    net.run_for(12 * MS);
    let (data, end) = net.on_client(|client, _| {
        assert_eq!(client.accept_stream(Dir::Uni), Some(id));
        read_all(client, id)
    });
    assert_eq!((data.as_slice(), end), (&b"early bird"[..], true));
    assert!(
        net.now().saturating_since(sent_at) < 15 * MS,
        "half a round trip"
    );
    net.connect();
}

fn closes_with(
    net: &mut Net<tautline_testkit::apps::Manual, tautline_testkit::apps::Manual>,
) -> (Option<ConnectionError>, Option<ConnectionError>) {
    net.run_for(5 * SECOND);
    (
        net.client_app().ended().cloned(),
        net.server_app().ended().cloned(),
    )
}

#[test]
fn alpn_mismatch_is_0x178() {
    let mut server = tls::server_config(10);
    server.alpn_protocols = vec![b"something-else".to_vec()];
    let mut setup = Setup::new(10, calm());
    setup.server_tls = Arc::new(RustlsServer::new(server).unwrap());
    let mut net = setup.manual();
    let (client, server) = closes_with(&mut net);
    let Some(ConnectionError::PeerTransport(error)) = client else {
        panic!("{client:?}");
    };
    assert_eq!(error.code, Code(0x178));
    let Some(ConnectionError::Transport(error)) = server else {
        panic!("{server:?}");
    };
    assert_eq!(error.code, Code(0x178));
}

#[test]
fn client_certificate() {
    let mut setup = Setup::new(11, calm());
    setup.client_tls =
        Arc::new(RustlsClient::new(tls::client_config_with_certificate(11)).unwrap());
    setup.server_tls =
        Arc::new(RustlsServer::new(tls::server_config_demanding_certificate(12)).unwrap());
    let mut net = setup.manual();
    net.connect();
    let shown = net
        .on_server(|server, _| server.peer_certificates())
        .unwrap();
    assert_eq!(shown, [tls::Identity::client().certificate]);

    // Without one: certificate_required, after the client believes itself connected.
    let mut setup = Setup::new(11, calm());
    setup.server_tls =
        Arc::new(RustlsServer::new(tls::server_config_demanding_certificate(12)).unwrap());
    let mut net = setup.manual();
    let (client, server) = closes_with(&mut net);
    for error in [client, server] {
        let error = match error {
            Some(ConnectionError::PeerTransport(error) | ConnectionError::Transport(error)) => {
                error
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(error.code, Code::crypto(116));
    }
}

#[test]
fn stranger_is_refused() {
    let mut setup = Setup::new(12, calm());
    let stranger = tls::server_config_of(12, &tls::Identity::stranger());
    setup.server_tls = Arc::new(RustlsServer::new(stranger).unwrap());
    let mut net = setup.manual();
    let (client, server) = closes_with(&mut net);
    assert!(
        matches!(client, Some(ConnectionError::Transport(_))),
        "{client:?}"
    );
    let Some(ConnectionError::PeerTransport(error)) = server else {
        panic!("{server:?}");
    };
    assert!(error.code.tls_alert().is_some());
}

/// A ClientHello that spans several datagrams, arriving in any order.
#[test]
fn long_client_hello_in_any_order() {
    for seed in 0..10 {
        let mut setup = Setup::new(seed, calm()).null_tls();
        let mut client = tautline_testkit::null_tls::NullClient::new(b"null");
        client.padding_bytes = 4_000;
        client.tag = tautline_testkit::null_tls::NullTag::Numbered;
        setup.client_tls = Arc::new(client);
        let mut net = setup.fetch(&[1_000]);
        let mut order = 0;
        net.world.add_rule(
            net.link,
            Direction::Forward,
            move |packet: &PacketView<'_>| {
                order += 1;
                if packet.index < 4 {
                    Verdict::Delay(((seed * 7 + order * 5) % 11) as u32 * 3 * MS)
                } else {
                    Verdict::Pass
                }
            },
        );
        net.finish(10 * SECOND);
        assert_eq!(net.server_app().accepted.len(), 1);
    }
}

/// The client's Finished lost for a while: 1-RTT data of the server waits for nothing but that.
#[test]
fn finished_lost() {
    let mut net = Setup::new(13, calm()).fetch(&[1_000]);
    let mut dropped = 0;
    net.world.add_rule(
        net.link,
        Direction::Forward,
        move |packet: &PacketView<'_>| {
            let handshake = crate::kit::headers(packet.payload)
                .iter()
                .any(|packet| packet.kind == Kind::Handshake);
            if handshake && dropped < 3 {
                dropped += 1;
                Verdict::Drop
            } else {
                Verdict::Pass
            }
        },
    );
    net.finish(10 * SECOND);
}

/// HANDSHAKE_DONE lost again and again is sent again.
#[test]
fn handshake_done_is_reliable() {
    for seed in 0..10 {
        let mut link = calm();
        link.backward.loss = tautline_sim::LossModel::uniform(0.5);
        let mut net = Setup::new(seed, link).manual();
        net.connect();
        let done = net.server_trace.with(0, |server| {
            server
                .frames_sent()
                .filter(|frame| **frame == FrameTrace::Other(0x1e))
                .count()
        });
        assert!(done >= 1);
    }
}
