//! Whether everything that can be told is told: every kind of event, every timer, every policy.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use tautline_sim::{
    Datagram, Direction, LossModel, PacketView, Rebind, Reordering, Verdict, quic::Admission, rule,
};
use tautline_testkit::{
    apps::Manual,
    pair::{client_address, server_address},
};
use tautline_transport::{
    ack,
    config::WindowConfig,
    fec::redundancy::registry,
    multipath::{MultipathConfig, PathCost, PathPin, PathStatus},
    observe::{ConnectionInfo, ConnectionState, Event, PathVerdict, Sink, SinkFactory, TimerKind},
    time::Instant,
    units::{Dir, Ecn, FourTuple, PathId, Side},
    wire::Version,
};

use crate::{
    handshake::refusing_early_data,
    kit::{MS, SECOND, Setup, calm, read_all, wire},
    multipath_trouble::Trouble,
};

/// Keeps what kinds of events there were.
#[derive(Clone, Debug, Default)]
struct Recorder(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    kinds: BTreeSet<&'static str>,
    policies: BTreeSet<&'static str>,
    timers_set: BTreeSet<TimerKind>,
    timers_expired: BTreeSet<TimerKind>,
    states: BTreeSet<ConnectionState>,
}

impl Sink for Recorder {
    fn on_event(&mut self, _: Instant, event: &Event<'_>) {
        let mut heard = self.0.lock().unwrap();
        heard.kinds.insert(event.kind());
        match event {
            Event::PolicyDecision { policy, .. } => {
                heard.policies.insert(policy);
            }
            Event::TimerSet { timer, .. } => {
                heard.timers_set.insert(*timer);
            }
            Event::TimerExpired { timer, .. } => {
                heard.timers_expired.insert(*timer);
            }
            Event::ConnectionState { new, .. } => {
                heard.states.insert(*new);
            }
            _ => {}
        }
    }
}

impl SinkFactory for Recorder {
    fn build(&self, _: &ConnectionInfo) -> Option<Box<dyn Sink>> {
        Some(Box::new(self.clone()))
    }
}

impl Recorder {
    fn listens(&self, setup: Setup) -> Setup {
        let recorder = self.clone();
        let mut setup = setup.quiet().both(|config| {
            config.observer = Some(Arc::new(recorder.clone()));
        });
        setup.server_sink = Some(Box::new(self.clone()));
        setup
    }
}

/// Retry, version 2, loss, reordering, a key update, datagrams, limits, rebindings, silence.
fn a_rough_life(recorder: &Recorder) {
    let mut link = wire(20, 20);
    for direction in [&mut link.forward, &mut link.backward] {
        direction.loss = LossModel::uniform(0.02);
        direction.corruption = LossModel::uniform(0.01);
        direction.reordering = Some(Reordering {
            probability: 0.05,
            extra: 30 * MS,
        });
    }
    let mut setup = recorder.listens(Setup::new(1, link)).both(|config| {
        config.ack_policy = ack::registry::by_name("frequency").unwrap();
        config.stream_receive_window = WindowConfig::fixed(20_000);
        config.connection_receive_window = WindowConfig::fixed(30_000);
        config.max_concurrent_uni_streams = 3;
        config.keep_alive_interval = Some(2 * SECOND);
    });
    setup.client_endpoint.versions = vec![Version::V1, Version::V2];
    setup.server_endpoint.versions = vec![Version::V2, Version::V1];
    let mut server = Manual::server();
    server.admission = Some(Admission::Retry);
    let mut net = setup.build(Manual::client, server);
    net.connect();
    net.world.inject(Datagram {
        src: client_address(),
        dst: server_address(),
        ecn: Ecn::NotEct,
        payload: vec![0x40; 40],
    });
    net.on_client(|client, now| client.initiate_key_update(now).unwrap());
    for round in 0..80 {
        net.on_client(|client, _| {
            let _ = client.send_datagram(Bytes::from_static(b"hello"));
            if let Some(id) = client.open_stream(Dir::Uni) {
                let _ = client.write(id, &[7; 100_000]);
                let _ = client.finish(id);
            }
        });
        net.run_for(100 * MS);
        net.on_server(|server, _| {
            while server.recv_datagram().is_some() {}
            while let Some(id) = server.accept_stream(Dir::Uni) {
                let _ = read_all(server, id);
            }
        });
        match round {
            20 => net.world.rebind(net.client, Rebind::Port),
            40 => net.world.rebind(net.client, Rebind::AddressAndPort),
            60 => {
                net.world.set_link_up(net.link, false);
                net.run_for(SECOND);
                net.world.set_link_up(net.link, true);
            }
            _ => {}
        }
    }
    net.run_for(5 * SECOND);
    net.on_client(|client, now| client.close(now, 7, Bytes::from_static(b"enough")));
    net.run_for(10 * SECOND);
}

/// A bulk transfer whose client moves to where the server cannot answer.
fn a_move_into_the_void(recorder: &Recorder) {
    let mut net = recorder
        .listens(Setup::new(2, wire(20, 20)))
        .fetch(&[50_000_000]);
    net.run_for(2 * SECOND);
    net.world.rebind(net.client, Rebind::AddressAndPort);
    net.run_for(30 * MS);
    let deaf = rule::apply_when(Verdict::Drop, |_| true);
    net.world.add_rule(net.link, Direction::Backward, deaf);
    net.run_for(60 * SECOND);
}

/// Peers that have no protocol in common.
fn a_refusal(recorder: &Recorder) {
    let mut server = tautline_testkit::tls::server_config(1);
    server.alpn_protocols = vec![b"something-else".to_vec()];
    let mut setup = recorder.listens(Setup::new(3, calm()));
    setup.server_tls = Arc::new(tautline_transport::tls::RustlsServer::new(server).unwrap());
    let mut net = setup.manual();
    net.run_for(5 * SECOND);
}

/// Data that comes before the end of its handshake.
fn an_early_packet(recorder: &Recorder) {
    let mut net = recorder.listens(Setup::new(6, calm())).manual();
    let handshake = rule::drop_when(|packet: &PacketView<'_>| {
        let at = packet.now.since_origin();
        at > 15 * MS && at < 28 * MS && packet.payload.first().is_some_and(|byte| byte & 0x80 != 0)
    });
    net.world.add_rule(net.link, Direction::Forward, handshake);
    net.run_for(26 * MS);
    net.on_client(|client, _| {
        let id = client.open_stream(Dir::Uni).unwrap();
        client.write(id, b"early").unwrap();
    });
    net.run_for(5 * SECOND);
}

/// A server that is not there.
fn a_silence(recorder: &Recorder) {
    let mut net = recorder.listens(Setup::new(4, calm())).manual();
    net.world.set_link_up(net.link, false);
    net.run_for(60 * SECOND);
}

fn a_lost_packet_that_is_rebuilt(recorder: &Recorder) {
    let mut link = calm();
    link.backward.loss = LossModel::uniform(0.05);
    let setup = recorder.listens(Setup::new(6, link)).both(|config| {
        config.fec.redundancy = registry::parse("constant:6,4").unwrap();
        config.fec.decode = true;
    });
    setup.fetch(&[200_000]).finish(60 * SECOND);
}

fn two_paths(recorder: &Recorder) {
    let second = SocketAddr::from(([10, 0, 1, 1], 50_000));
    let mut setup = recorder
        .listens(Setup::new(7, wire(20, 10)))
        .both(|config| {
            config.multipath = Some(MultipathConfig::default());
        });
    setup.client_addresses = vec![client_address(), second];
    setup.parallel = vec![wire(20, 40)];
    let mut net = setup.manual();
    net.connect();
    let to = FourTuple {
        local: second,
        remote: server_address(),
    };
    net.on_client(|client, now| client.open_path(now, to).expect("both ends have it"));
    net.run_for(SECOND);
    let id = net
        .on_client(|client, _| client.open_stream(Dir::Uni))
        .expect("a stream");
    net.on_client(|client, _| client.write(id, &[7; 400_000]).expect("it is open"));
    net.run_for(3 * SECOND);
}

/// What was told of choices of path.
#[derive(Clone, Debug, Default)]
struct Choices(Arc<Mutex<Vec<Choice>>>);

type Verdicts = Vec<(PathId, PathVerdict)>;
type Choice = (Instant, Option<PathId>, &'static str, u32, Verdicts);

impl Sink for Choices {
    fn on_event(&mut self, now: Instant, event: &Event<'_>) {
        if let Event::PathChosen {
            path,
            reason,
            changes,
            candidates,
            ..
        } = *event
        {
            let verdicts = candidates.iter().map(|it| (it.path, it.verdict)).collect();
            let mut all = self.0.lock().unwrap();
            all.push((now, path, reason, changes, verdicts));
        }
    }
}

impl SinkFactory for Choices {
    fn build(&self, info: &ConnectionInfo) -> Option<Box<dyn Sink>> {
        info.side.is_client().then(|| Box::new(self.clone()) as _)
    }
}

/// Why a path was taken and the others not; seldom, however many packets there are.
#[test]
fn choices_of_paths_are_told_with_their_reasons() {
    let choices = Choices::default();
    let observer = choices.clone();
    let mut trouble = Trouble::with(12, 2, |config| {
        config.observer = Some(Arc::new(observer.clone()));
    });
    let (fast, slow) = (PathId(0), PathId(1));
    let take = || std::mem::take(&mut *choices.0.lock().unwrap());
    let all =
        |told: &[Choice], path, verdict| told.iter().any(|it| it.4.contains(&(path, verdict)));
    take();
    trouble.transfer(Side::Client, 4_000_000);
    trouble.deliver(20 * SECOND);
    let told = take();
    assert!(told.len() > 5, "{told:?}");
    for (before, after) in told.iter().zip(&told[1..]) {
        assert!(
            after.0.saturating_since(before.0) >= 10 * MS,
            "{before:?} {after:?}"
        );
    }
    // A path is asked about with the other; one of both is chosen, and why not the other is told.
    for (_, path, reason, changes, verdicts) in &told {
        assert!(*changes > 0 && verdicts.len() == 2);
        let chosen = verdicts.iter().filter(|it| it.1 == PathVerdict::Chosen);
        assert_eq!(
            chosen.map(|it| Some(it.0)).next(),
            path.map(Some),
            "{told:?}"
        );
        assert_eq!(path.is_none(), *reason == "waits", "{reason}");
    }
    assert!(all(&told, fast, PathVerdict::Full) || all(&told, fast, PathVerdict::Paced));
    assert!(all(&told, slow, PathVerdict::Chosen));

    // Kept in reserve, metered, silent: each has its word.
    let set = trouble.on(Side::Client, |it, _| {
        it.set_path_status(slow, PathStatus::Backup)
    });
    assert_eq!(set, Ok(()));
    trouble.transfer(Side::Client, 100_000);
    trouble.deliver(5 * SECOND);
    trouble.transfer(Side::Client, 100_000);
    trouble.deliver(5 * SECOND);
    assert!(all(&take(), slow, PathVerdict::Backup));
    let set = trouble.on(Side::Client, |it, now| {
        it.set_path_cost(now, slow, PathCost::metered())
    });
    assert_eq!(set, Ok(()));
    trouble.transfer(Side::Client, 100_000);
    trouble.deliver(5 * SECOND);
    let told = take();
    assert!(all(&told, slow, PathVerdict::Costlier), "{told:?}");
    assert!(told.iter().any(|it| it.2 == "only_candidate"), "{told:?}");
    trouble.set_link(0, false);
    trouble.transfer(Side::Client, 100_000);
    trouble.deliver(10 * SECOND);
    let told = take();
    assert!(all(&told, fast, PathVerdict::Silent) && all(&told, slow, PathVerdict::Chosen));
    trouble.transfer_on(Side::Client, 100_000, Some(PathPin::Only(slow)));
    trouble.deliver(10 * SECOND);
    assert!(take().iter().any(|it| it.2 == "pin" && it.1 == Some(slow)));
}

#[test]
fn every_kind_of_event_is_told() {
    let recorder = Recorder::default();
    a_rough_life(&recorder);
    a_move_into_the_void(&recorder);
    a_refusal(&recorder);
    a_silence(&recorder);
    an_early_packet(&recorder);
    a_lost_packet_that_is_rebuilt(&recorder);
    two_paths(&recorder);
    let mut net = refusing_early_data(5, 0.0, |setup| recorder.listens(setup));
    net.finish(60 * SECOND);

    let heard = recorder.0.lock().unwrap();
    let missing: Vec<_> = Event::KINDS
        .iter()
        .filter(|kind| !heard.kinds.contains(*kind))
        .collect();
    assert!(missing.is_empty(), "never told: {missing:?}");
    let policies = [
        "ack",
        "congestion",
        "pacing",
        "redundancy",
        "stream_scheduler",
    ];
    assert_eq!(heard.policies, BTreeSet::from(policies));
    let all = BTreeSet::from_iter(TimerKind::ALL.iter().copied());
    assert_eq!(heard.timers_set, all, "set");
    let never: Vec<_> = all.difference(&heard.timers_expired).collect();
    // The search for a larger datagram starts again after ten minutes only.
    assert_eq!(never, [&TimerKind::Mtu], "expired");
    for state in [
        // The two before may be passed within one datagram.
        ConnectionState::EarlyWrite,
        ConnectionState::HandshakeComplete,
        ConnectionState::HandshakeConfirmed,
        ConnectionState::Closing,
        ConnectionState::Draining,
        ConnectionState::Closed,
    ] {
        assert!(heard.states.contains(&state), "{state}");
    }
}

/// The delay of one direction follows its queue and nothing else. Receive timestamps draft.
#[test]
fn one_way_delay_follows_its_own_direction() {
    let mut link = wire(20, 10);
    link.backward.delay = 30 * MS;
    let mut net = Setup::new(1, link)
        .both(|config| config.receive_timestamps = true)
        .manual();
    net.connect();
    let observe = |net: &mut crate::kit::Net<Manual, Manual>| {
        for _ in 0..100 {
            net.on_server(|server, _| server.ping());
            net.run_for(20 * MS);
        }
        let path = tautline_transport::units::PathId::ZERO;
        let stats = net.server_connection().path_stats(path).unwrap();
        (
            stats.one_way_delay.expect("the client reports timestamps"),
            stats.one_way_delay_variation.unwrap(),
        )
    };
    let (before, variation) = observe(&mut net);
    // Half a round trip of 40 ms is the guess to start from, however it is split.
    assert!((15 * MS..30 * MS).contains(&before), "{before:?}");
    assert!(variation < 2 * MS, "{variation:?}");

    let delay = |net: &mut crate::kit::Net<Manual, Manual>, direction, delay| {
        let mut config = net.world.direction_config(net.link, direction).clone();
        config.delay = delay;
        net.world
            .set_direction(net.link, direction, config)
            .unwrap();
    };
    // Slower towards the client: seen in full.
    delay(&mut net, Direction::Backward, 55 * MS);
    let (slower, variation) = observe(&mut net);
    let grown = slower.saturating_sub(before);
    assert!((24 * MS..26 * MS).contains(&grown), "{grown:?}");
    assert!((24 * MS..27 * MS).contains(&variation), "{variation:?}");
    // Slower on the way back: not seen at all.
    delay(&mut net, Direction::Backward, 30 * MS);
    delay(&mut net, Direction::Forward, 35 * MS);
    let (other, variation) = observe(&mut net);
    assert!(other.abs_diff(before) < MS, "{other:?} {before:?}");
    assert!(variation < 2 * MS, "{variation:?}");
}
