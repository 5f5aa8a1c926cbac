//! Proxies on the way in virtual time: what each part's own recovery is worth, that nothing gets lost or
//! piles up between the parts, and how they end.

use std::{net::SocketAddr, path::Path, time::Duration};

use tautline_sim::{DirectionConfig, LinkConfig, World};
use tautline_transport::units::Rate;

use super::{super::ACK_DELAY, *};
use crate::{
    campaign::run_cell,
    plan::{Plan, ReadOptions},
    run::{Record, Stage, play},
    scene::Scene,
    stack::{EndSetup, Part, ProxySetup, SplitTcp, Stack, StackOptions, Stacks, Watch},
    workload::Workload,
};

/// Servers at `office`, some land, a satellite, the client at `home`.
const PLAN: &str = r#"
name = "split"
title = "Proxies on the way"
[network]
links = [
  { name = "satellite", between = ["home", "gateway"], rate = "20 Mb/s", delay = "300 ms", queue = "1 BDP" },
  { name = "land", between = ["gateway", "office"], rate = "100 Mb/s", delay = "20 ms", queue = "1000000 bytes" },
]
[[flow]]
name = "main"
client = "home"
server = "office"
workload = { kind = "bulk", bytes = "5 MB" }
[[solution]]
name = "one"
stack = "split-tcp"
[run]
limit = "120 s"
"#;

const BOTH: &str = "proxies = [\"gateway\", \"home\"]\nland_congestion = \"bbr3\"";

struct Setup {
    text: String,
}

impl Setup {
    fn new(solution: &str) -> Self {
        let stack = format!("stack = \"split-tcp\"\n{solution}\n");
        Self {
            text: PLAN.replace("stack = \"split-tcp\"\n", &stack),
        }
    }

    fn with(mut self, from: &str, to: &str) -> Self {
        assert!(self.text.contains(from), "{from}");
        self.text = self.text.replace(from, to);
        self
    }

    /// More of what the land does to packets towards the client.
    fn land(self, keys: &str) -> Self {
        let to = format!("{keys}, name = \"land\"");
        self.with("name = \"land\"", &to)
    }

    fn satellite(self, keys: &str) -> Self {
        let to = format!("{keys}, name = \"satellite\"");
        self.with("name = \"satellite\"", &to)
    }

    fn workload(self, workload: &str) -> Self {
        self.with("{ kind = \"bulk\", bytes = \"5 MB\" }", workload)
    }

    fn plan(&self) -> Plan {
        let (options, stacks) = (ReadOptions::default(), Stacks::default());
        Plan::parse(&self.text, Path::new("."), &options, &stacks).unwrap()
    }

    fn scene(&self) -> Scene {
        let plan = self.plan();
        let cell = plan.cell(0).unwrap();
        plan.scene(&cell, &Stacks::default()).unwrap()
    }

    fn run(&self, seed: u64) -> Record {
        play(&self.scene(), &Stacks::default(), seed).unwrap()
    }

    fn took(&self, seed: u64) -> Duration {
        let record = self.run(seed);
        let main = &record.flows[0];
        assert_eq!(main.error, None);
        main.receiver.finished.unwrap().since_origin()
    }
}

/// What splitting is for: losses on land cost round trips on land.
#[test]
fn losses_on_land_are_not_recovered_over_the_satellite() {
    for congestion in ["congestion = \"hybla\"", "congestion = \"cubic\""] {
        for seed in 1..4 {
            let of = |loss: &str, proxies: &str| {
                let setup = Setup::new(&format!("{congestion}\n{proxies}"));
                let setup = setup.with("limit = \"120 s\"", "limit = \"600 s\"");
                setup.land(&format!("loss = \"{loss}\"")).took(seed)
            };
            let (clean, split, whole) = (of("0 %", BOTH), of("2 %", BOTH), of("2 %", ""));
            let told = format!("{congestion}: {clean:?}, split {split:?}, whole {whole:?}");
            assert!(split < clean.mul_f64(1.2), "{told}");
            assert!(whole > split.mul_f64(2.5), "{told}");
        }
    }
}

#[test]
fn each_part_has_its_own_round_trip() {
    let record = Setup::new(BOTH).run(1);
    let main = &record.flows[0];
    // TLS goes from end to end, opening takes no time.
    assert_eq!(main.connected.unwrap().since_origin().as_millis(), 640);
    let least = |wire: Option<crate::stack::WireStats>| wire.unwrap().min_rtt.unwrap().as_millis();
    assert_eq!(least(main.sender_wire), 40);
    // The proxy stands where the client is: all it takes is to put its acknowledgement off.
    assert_eq!(least(main.receiver_wire), ACK_DELAY.as_millis());
}

/// Proxies beside the ends change nothing that matters.
#[test]
fn proxies_beside_the_ends_are_as_none() {
    let known = "rate = \"20 Mb/s\"";
    let none = Setup::new(known).took(1);
    let beside = format!("{known}\nproxies = [\"home\", \"office\"]");
    let beside = Setup::new(&beside).took(1);
    let ratio = beside.as_secs_f64() / none.as_secs_f64();
    assert!((0.98..1.02).contains(&ratio), "{none:?}, {beside:?}");
}

#[test]
fn one_proxy_is_enough_where_the_satellite_is_named() {
    let one = "proxies = \"gateway\"\nsatellite = \"satellite\"\nland_congestion = \"bbr3\"";
    let both = Setup::new(BOTH).land("loss = \"2 %\"").took(1);
    let one = Setup::new(one).land("loss = \"2 %\"").took(1);
    let ratio = one.as_secs_f64() / both.as_secs_f64();
    assert!((0.95..1.05).contains(&ratio), "{one:?}, {both:?}");
}

/// Reordered, repeated, damaged and lost, both ways and on both parts.
const HOSTILE: &str = "loss = \"3 %\", corruption = \"1 %\", duplication = 0.02, \
                       reordering = { probability = 0.05, extra = \"8 ms\" }";

#[test]
fn every_byte_arrives_once_whichever_way_and_the_same_each_time() {
    for (workload, bytes) in [
        ("{ kind = \"bulk\", bytes = \"3 MB\" }", 3_000_000),
        (
            "{ kind = \"bulk\", bytes = \"3 MB\", direction = \"up\" }",
            3_000_000,
        ),
        (
            "{ kind = \"bulk\", bytes = \"20 kB\", direction = \"up\", streams = 40 }",
            800_000,
        ),
        (
            "{ kind = \"objects\", count = 50, bytes = \"10 kB\" }",
            500_000,
        ),
    ] {
        for small in ["", "receive_window = \"30 kB\"\nsend_buffer = \"20 kB\""] {
            let setup = Setup::new(&format!("rate = \"20 Mb/s\"\n{BOTH}\n{small}"));
            let setup = setup.land(HOSTILE).satellite(HOSTILE).workload(workload);
            let setup = setup.with("limit = \"120 s\"", "limit = \"600 s\"");
            let (record, again) = (setup.run(5), setup.run(5));
            let main = &record.flows[0];
            assert_eq!(main.error, None, "{workload} {small}");
            assert!(main.receiver.finished.is_some(), "{workload} {small}");
            assert_eq!(main.receiver.received_bytes, bytes, "{workload} {small}");
            assert_eq!(again.flows[0].receiver, main.receiver, "{workload}");
            assert_eq!(again.events, record.events, "{workload}");
        }
    }
}

#[test]
fn other_workloads_end_too() {
    for workload in [
        "{ kind = \"page\", page = \"article\" }",
        "{ kind = \"messages\", trace = \"video-conference\", duration = \"5 s\", direction = \"up\" }",
        "{ kind = \"video\", duration = \"20 s\" }",
    ] {
        let setup = Setup::new(BOTH).land("loss = \"1 %\"").workload(workload);
        let record = setup.run(2);
        let main = &record.flows[0];
        assert_eq!(main.error, None, "{workload}");
        assert!(main.receiver.finished.is_some(), "{workload}");
    }
}

/// Proxies pass datagrams on at once: what comes, and when, is as without them.
#[test]
fn datagrams_pass_as_if_there_were_no_proxy() {
    let work = "{ kind = \"datagrams\", rate = \"1 Mb/s\", bytes = \"1 kB\", duration = \"5 s\" }";
    let items = |proxies: &str| {
        let record = Setup::new(proxies).workload(work).run(4);
        let receiver = record.flows[0].receiver.clone();
        assert!(receiver.finished.is_some());
        let took = receiver.items.iter().map(crate::outcome::Item::duration);
        (receiver.received_bytes, took.collect::<Vec<_>>())
    };
    assert_eq!(items(BOTH), items(""));
}

#[test]
fn a_fast_leg_waits_for_a_slow_one() {
    const BUFFER: u64 = 50_000;
    let windows = "receive_window = \"50 kB\"\nsend_buffer = \"50 kB\"\n";
    for direction in ["down", "up"] {
        let (mut world, proxy, client) = relay(windows, direction);
        let mut most = 0;
        let end = loop {
            world.run_for(Duration::from_millis(10));
            most = most.max(world.try_node::<Proxy>(proxy).unwrap().bytes());
            let node = world.program(client).unwrap();
            let outcome = SplitTcp.inspect(node).unwrap().half.outcome();
            if outcome.finished.is_some() || world.now() >= Instant::ZERO + Duration::from_secs(60)
            {
                break outcome;
            }
        };
        assert!(end.finished.is_some(), "{direction}: {end:?}");
        // One direction has data; the other one carries the request and the handshake at most.
        assert!(most <= 2 * BUFFER + 2000, "{direction}: {most}");
        assert!(most >= BUFFER, "{direction}: {most}, and nothing waited");
    }
}

/// A connection of 2 MB over a proxy between 1 Gb/s and 2 Mb/s, the slow leg where the data go.
fn relay(options: &str, direction: &str) -> (World, tautline_sim::HostId, tautline_sim::HostId) {
    let options =
        format!("stack = \"split-tcp\"\nproxies = \"here\"\nsatellite = \"slow\"\n{options}");
    let options: StackOptions = toml::from_str(&options).unwrap();
    let work = format!("kind = \"bulk\"\nbytes = \"2 MB\"\ndirection = \"{direction}\"");
    let work: Workload = toml::from_str(&work).unwrap();
    let mut world = World::new(1);
    let at = |host: u8, port: u16| SocketAddr::from(([10, 0, 0, host], port));
    let (client_at, server_at) = (at(1, 50_000), at(2, 443));
    let (front, back) = (at(3, 443), at(3, 50_000));
    let end = |local, remote, half, label| EndSetup {
        local,
        others: Vec::new(),
        remote,
        part: Part::Satellite,
        half,
        start: Instant::ZERO,
        rng: world.rng(label),
        seed: 1,
        watch: Watch::default(),
    };
    let program = work.program();
    let client = end(client_at, front, program.client(1), 1);
    let server = end(server_at, back, program.server(1), 2);
    let setup = ProxySetup {
        place: "here".to_owned(),
        sides: [
            (front, client_at, Part::Satellite),
            (back, server_at, Part::Land),
        ],
        start: Instant::ZERO,
        rng: world.rng(3),
    };
    let client = SplitTcp.client(&options, client).unwrap();
    let server = SplitTcp.server(&options, server).unwrap();
    let proxy = SplitTcp.proxy(&options, setup).unwrap();
    let client = world.add_host(client_at, client);
    let server = world.add_host(server_at, server);
    let proxy = world.add_host(front, proxy);
    let link = |megabits: u64| {
        LinkConfig::symmetric(DirectionConfig {
            rate: Some(Rate::from_bits_per_second(megabits * 1_000_000)),
            delay: Duration::from_millis(20),
            ..DirectionConfig::default()
        })
    };
    let (near, far) = if direction == "down" {
        (2, 1000)
    } else {
        (1000, 2)
    };
    world.connect(client, proxy, link(near));
    world.connect(proxy, server, link(far));
    (world, proxy, client)
}

/// Whoever gives up: both ends hear why, and the row says so.
#[test]
fn a_dead_leg_is_an_error_of_the_flow() {
    let dead = "outages = [{ start = \"3 s\", duration = \"500 s\" }]";
    for (link, side, direction) in [
        ("satellite", "gateway had no word from the client", "down"),
        ("land", "gateway had no word from the server", "up"),
    ] {
        let work = format!("{{ kind = \"bulk\", bytes = \"50 MB\", direction = \"{direction}\" }}");
        let setup = Setup::new(&format!("{BOTH}\nidle_timeout = \"10 s\"")).workload(&work);
        let setup = match link {
            "land" => setup.land(dead),
            _ => setup.satellite(dead),
        };
        let plan = setup.with("limit = \"120 s\"", "limit = \"600 s\"").plan();
        let entry = run_cell(&plan, &plan.cell(0).unwrap(), &Stacks::default());
        assert_eq!(entry.status, "error", "{link}: {:?}", entry.reason);
        let reason = entry.reason.unwrap();
        let told = format!("flow main: the proxy at {side}'s side for 10s");
        assert!(reason.contains(&told), "{link}: {reason}");
    }
    // One that comes back in time is none.
    let short = "outages = [{ start = \"3 s\", duration = \"6 s\" }]";
    let setup = Setup::new(&format!("{BOTH}\nidle_timeout = \"30 s\"")).satellite(short);
    assert!(setup.took(1) > Duration::from_secs(9));
}

/// A flow that is stopped closes: its proxies have nothing more to send.
#[test]
fn a_close_reaches_everybody() {
    let setup = Setup::new(BOTH)
        .workload("{ kind = \"bulk\" }\nstop = \"5 s\"")
        .land("loss = \"1 %\"");
    let mut scene = setup.scene();
    let until = |seconds: u64, scene: &mut Scene| {
        scene.limit = Duration::from_secs(seconds);
        let stacks = Stacks::default();
        let stage = Stage::build(scene, &stacks, 1, Watch::default()).unwrap();
        let record = stage.play(scene);
        (record.events, record.flows[0].error.clone())
    };
    let (early, late) = (until(8, &mut scene), until(60, &mut scene));
    assert_eq!(early, late);
    assert_eq!(late.1, None);
}

#[test]
fn no_link_is_cheated() {
    let setup = Setup::new(BOTH).land(HOSTILE).satellite(HOSTILE);
    let scene = setup.scene();
    let mut stage = Stage::build(&scene, &Stacks::default(), 1, Watch::default()).unwrap();
    stage.audit(200_000);
    assert_eq!(stage.play(&scene).violations, Vec::<String>::new());
}

#[test]
fn what_waits_is_taken_in_order() {
    let mut queue = Queue::default();
    for chunk in ["ab", "cdef", "g"] {
        queue.push(Bytes::from(chunk));
    }
    let mut taken = Vec::new();
    for most in [1, 3, 2, 9] {
        assert_eq!(queue.available(most), most.min(7 - taken.len()));
        taken.extend_from_slice(&queue.take(most));
    }
    assert_eq!(taken, b"abcdefg");
    assert_eq!((queue.available(5), queue.take(5).len()), (0, 0));
}
