//! Several hosts, parallel paths, routers, stuck nodes, wrong set-ups.

use std::{any::Any, time::Duration};

use tautline_sim::{
    Datagram, Direction, DirectionConfig, LinkConfig, Node, QueueSize, RunEnd, TopologyError,
    World, links,
};
use tautline_transport::{
    time::Instant,
    units::{Ecn, Rate},
};

use crate::nodes::{A, B, Peer, Planned, addr, at, ms};

const A2: &str = "10.1.0.1:1000";
const B2: &str = "10.1.0.2:443";

fn delay(millis: u64) -> LinkConfig {
    LinkConfig::symmetric(DirectionConfig {
        delay: ms(millis),
        ..DirectionConfig::default()
    })
}

fn planned(from: &str, to: &str) -> Planned {
    Planned {
        at: Instant::ZERO,
        from: addr(from),
        to: addr(to),
        len: 50,
        ecn: Ecn::NotEct,
    }
}

#[test]
fn parallel_paths_follow_addresses() {
    let mut world = World::new(1);
    let plan = vec![
        planned(A, B),
        planned(A2, B2),
        planned(A2, B),
        planned("0.0.0.0:9", B2),
    ];
    let a = world.add_host([addr(A), addr(A2)], Box::new(Peer::new(plan)));
    let b = world.add_host([addr(B), addr(B2)], Box::new(Peer::echo()));
    let ip = |text: &str| Some(addr(text).ip());
    let fast = world
        .try_connect((a, ip(A)), (b, ip(B)), delay(10))
        .unwrap();
    let slow = world
        .try_connect((a, ip(A2)), (b, ip(B2)), delay(50))
        .unwrap();
    world.run_until(at(ms(500)));
    // The fourth gets A's address, and only the second link serves B2.
    let got: Vec<_> = world
        .node::<Peer>(b)
        .received
        .iter()
        .map(|r| (r.at, r.number))
        .collect();
    assert_eq!(
        got,
        [
            (at(ms(10)), 0),
            (at(ms(10)), 2),
            (at(ms(50)), 1),
            (at(ms(50)), 3)
        ]
    );
    assert_eq!(world.node::<Peer>(b).received[3].from, addr("10.0.0.1:9"));
    assert_eq!(world.link_stats(fast, Direction::Forward).sent_packets, 2);
    assert_eq!(world.link_stats(slow, Direction::Forward).sent_packets, 2);
    assert_eq!(world.node::<Peer>(a).received.len(), 4);
}

#[test]
fn routers_make_a_shared_bottleneck() {
    let mut world = World::new(1);
    let (left, right) = (world.add_router(), world.add_router());
    let server = world.add_host(addr(B), Box::new(Peer::echo()));
    let mut clients = Vec::new();
    for i in 1..=3 {
        let from = format!("10.0.1.{i}:1000");
        let plan = vec![planned(&from, B); 100];
        let client = world.add_host(addr(&from), Box::new(Peer::new(plan)));
        world.connect(client, left, delay(1));
        clients.push(client);
    }
    let narrow = DirectionConfig {
        queue: QueueSize::Packets(1_000),
        ..DirectionConfig::new(Rate::from_bytes_per_second(78_000), ms(5))
    };
    let bottleneck = world.connect(left, right, LinkConfig::symmetric(narrow));
    world.connect(right, server, delay(1));
    assert_eq!(world.run_until(at(ms(10_000))), RunEnd::Idle);
    assert_eq!(
        world
            .link_stats(bottleneck, Direction::Forward)
            .delivered_packets,
        300
    );
    // 300 packets of 78 bytes, 1 ms each.
    let last = world.node::<Peer>(server).received.last().unwrap().at;
    assert_eq!(last, at(ms(1 + 300 + 5 + 1)));
    for client in clients {
        assert_eq!(world.node::<Peer>(client).received.len(), 100);
    }
}

#[test]
fn unknown_destinations_are_counted() {
    let mut world = World::new(1);
    let plan = vec![planned(A, "192.0.2.1:1"), planned(A, B), planned(A, A)];
    let a = world.add_host(addr(A), Box::new(Peer::new(plan)));
    world.add_host(addr(B), Box::new(Peer::default()));
    assert_eq!(world.run_until(at(ms(1))), RunEnd::Idle);
    // No host, no link, itself.
    assert_eq!(world.stats().unroutable, 2);
    assert_eq!(world.node::<Peer>(a).received.len(), 1);
}

#[test]
fn wrong_set_ups_are_errors() {
    let mut world = World::new(1);
    let a = world.add_host(addr(A), Box::new(Peer::default()));
    let b = world.add_host(addr(B), Box::new(Peer::default()));
    let same = world.try_add_host(addr("10.0.0.1:77"), Box::new(Peer::default()));
    assert_eq!(same.unwrap_err(), TopologyError::AddressInUse(addr(A).ip()));
    let none: Vec<std::net::SocketAddr> = Vec::new();
    let none = world.try_add_host(none, Box::new(Peer::default()));
    assert_eq!(none.unwrap_err(), TopologyError::NoAddress);
    let itself = world.try_connect((a, None), (a, None), delay(1));
    assert_eq!(itself.unwrap_err(), TopologyError::SelfLink(a));
    let foreign = world.try_connect((a, Some(addr(B).ip())), (b, None), delay(1));
    assert_eq!(
        foreign.unwrap_err(),
        TopologyError::NotItsAddress(a, addr(B).ip())
    );
    let mut link = links::by_name("lte").unwrap();
    link.backward.duplication = -0.5;
    let error = world.try_connect((a, None), (b, None), link).unwrap_err();
    assert_eq!(
        error.to_string(),
        "backward.duplication: -0.5 is not a probability (0 to 1)"
    );
    let text = "[forward]\nrate = \"20 MB/s\"\n[backward]\n";
    let error = toml::from_str::<LinkConfig>(text).unwrap_err().to_string();
    assert!(
        error.contains("\"20 MB/s\" is not a rate such as \"20 Mb/s\""),
        "{error}"
    );
    let text = "[forward]\ndelya = \"20 ms\"\n[backward]\n";
    let error = toml::from_str::<LinkConfig>(text).unwrap_err().to_string();
    assert!(error.contains("unknown field `delya`"), "{error}");
}

#[test]
fn a_plan_in_toml_reads_as_people_write_it() {
    let text = r#"
        [forward]
        rate = "1.5 Mb/s"
        delay = "200 ms"
        queue = "25 packets"
        jitter = { spread = "5 ms", order = "reorder" }
        loss = { model = "gilbert", probability = 0.004, mean_burst = 3.0 }
        outages = [{ start = "5 s", duration = "2 s", every = "7 s" }]
        drop_packets = [{ start = 1, end = 6 }]
        [backward]
    "#;
    let link: LinkConfig = toml::from_str(text).unwrap();
    link.validate().unwrap();
    assert_eq!(
        link.forward.rate,
        Some(Rate::from_bits_per_second(1_500_000))
    );
    assert_eq!(link.forward.queue, QueueSize::Packets(25));
    assert_eq!(link.backward, DirectionConfig::default());
}

/// Wants time again and again, or sends without end.
struct Restless {
    sends: bool,
}

impl Node for Restless {
    fn handle_datagram(&mut self, _: Instant, _: Datagram) {}
    fn handle_timeout(&mut self, _: Instant) {}
    fn poll_timeout(&self) -> Option<Instant> {
        Some(Instant::ZERO)
    }
    fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> {
        let (src, dst) = (addr(A), addr("192.0.2.1:1"));
        self.sends.then(|| Datagram {
            src,
            dst,
            ecn: Ecn::NotEct,
            payload: Vec::new(),
        })
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[test]
fn restless_nodes_are_told_apart_from_long_runs() {
    for sends in [false, true] {
        let mut world = World::new(1);
        world.add_host(addr(A), Box::new(Restless { sends }));
        assert_eq!(world.run_until(at(ms(1))), RunEnd::Stuck);
        assert!(!world.step());
    }
}

#[test]
fn a_condition_ends_a_run() {
    let mut world = World::new(1);
    let plan = vec![
        planned(A, B),
        Planned {
            at: at(ms(7)),
            ..planned(A, B)
        },
    ];
    let a = world.add_host(addr(A), Box::new(Peer::new(plan)));
    let b = world.add_host(addr(B), Box::new(Peer::default()));
    world.connect(a, b, delay(10));
    let more = |world: &World| world.node::<Peer>(b).received.is_empty();
    assert_eq!(world.run_while(more, at(ms(5))), RunEnd::TimeReached);
    assert_eq!(world.now(), at(ms(5)));
    assert_eq!(world.run_while(more, at(ms(100))), RunEnd::ConditionMet);
    assert_eq!(world.now(), at(ms(10)));
    assert_eq!(world.run_for(Duration::from_secs(1)), RunEnd::Idle);
    assert_eq!(world.now(), at(ms(1_010)));
    assert!(world.try_node::<Restless>(b).is_none());
}

#[test]
fn a_node_changed_from_outside_is_asked_again() {
    let mut world = World::new(1);
    let a = world.add_host(addr(A), Box::new(Peer::default()));
    let b = world.add_host(addr(B), Box::new(Peer::default()));
    world.connect(a, b, delay(10));
    world.run_until(at(ms(100)));
    *world.node_mut::<Peer>(a) = Peer::new(vec![planned(A, B)]);
    world.run_until(at(ms(200)));
    assert_eq!(world.node::<Peer>(b).received[0].at, at(ms(110)));
}
