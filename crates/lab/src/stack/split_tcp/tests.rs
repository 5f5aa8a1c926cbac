//! Whole connections in virtual time: what a proxy's baseline has to reach, and that nothing a
//! link does keeps it from ending.

use std::time::Duration;

use tautline_sim::{LinkConfig, LossModel, Reordering, links};

use super::*;
use crate::{
    run::{Record, play},
    scene::{Flow, Network, Scene},
    stack::Stacks,
};

/// Whether a run that says nothing else is short.
const LIMIT: Duration = Duration::from_secs(120);

fn options(text: &str) -> StackOptions {
    toml::from_str(&format!("stack = \"split-tcp\"\n{text}")).unwrap()
}

fn flow(workload: &str) -> Flow {
    toml::from_str(&format!("name = \"main\"\nworkload = {workload}")).unwrap()
}

fn scene(link: LinkConfig, flows: Vec<Flow>, solution: StackOptions) -> Scene {
    Scene {
        network: Network::bottleneck(link),
        flows,
        solution,
        limit: LIMIT,
        sample: Duration::from_millis(100),
        window: None,
        link: 0,
    }
}

fn run(scene: &Scene, seed: u64) -> Record {
    let stacks = Stacks::default();
    scene.validate(&stacks).unwrap();
    play(scene, &stacks, seed).unwrap()
}

fn geo(loss: f64) -> LinkConfig {
    let mut link = links::by_name("geo").unwrap();
    link.backward.loss = LossModel::uniform(loss);
    link
}

/// Share of what the link can carry of full packets over the last two thirds of a minute.
fn bulk_share(congestion: &str, loss: f64) -> f64 {
    let mut scene = scene(
        geo(loss),
        vec![flow("{ kind = \"bulk\" }")],
        options(congestion),
    );
    scene.limit = Duration::from_secs(60);
    scene.window = Some((Duration::from_secs(20), Duration::from_secs(60)));
    let record = run(&scene, 7);
    let carried = 20e6 * (1448.0 / 1500.0) * (1.0 - loss);
    record.flows[0].goodput(record.window) / carried
}

#[test]
fn bulk_over_a_satellite_fills_it_whatever_is_lost() {
    let fixed = "rate = \"20 Mb/s\"";
    for (loss, least) in [(0.0, 0.99), (0.01, 0.98), (0.05, 0.95)] {
        let share = bulk_share(fixed, loss);
        assert!(share >= least, "{loss}: {share}");
    }
    for (congestion, loss, least) in [
        ("congestion = \"hybla\"", 0.0, 0.85),
        ("congestion = \"hybla\"", 0.001, 0.5),
        ("congestion = \"cubic\"", 0.0, 0.85),
        ("congestion = \"bbr3\"", 0.0, 0.8),
    ] {
        let share = bulk_share(congestion, loss);
        assert!(share >= least, "{congestion} {loss}: {share}");
    }
}

#[test]
fn an_object_takes_the_handshake_and_a_round_trip() {
    let work = "{ kind = \"objects\", count = 1, bytes = \"10 kB\" }";
    let record = run(&scene(geo(0.0), vec![flow(work)], options("")), 1);
    let main = &record.flows[0];
    let took = main.receiver.finished.unwrap().since_origin();
    // Two round trips of 600 ms, and 10 kB and some at 20 Mb/s.
    assert!(
        (1200..1215).contains(&took.as_millis()),
        "{} ms",
        took.as_millis()
    );
    assert_eq!(main.connected.unwrap().since_origin().as_millis(), 600);
    // Nothing was lost, nothing was sent twice.
    let wire = main.sender_wire.unwrap();
    assert_eq!(
        (wire.packets_lost, wire.spurious_losses, wire.ptos),
        (0, Some(0), Some(0))
    );
    // A flight of the server, then the object with its records.
    assert!((8..=10).contains(&wire.packets_sent), "{wire:?}");
    assert!((11_000..11_600).contains(&wire.bytes_sent), "{wire:?}");
}

#[test]
fn a_known_rate_makes_objects_faster() {
    let work = "{ kind = \"objects\", count = 1, bytes = \"1 MB\" }";
    let took = |text: &str| {
        let record = run(&scene(geo(0.01), vec![flow(work)], options(text)), 3);
        let wire = record.flows[0].sender_wire.unwrap();
        assert_eq!(wire.spurious_losses, Some(0));
        record.flows[0].receiver.finished.unwrap().since_origin()
    };
    let fixed = took("rate = \"20 Mb/s\"");
    // Two round trips, 0.42 s of sending, one round trip to repair what was lost; two where a
    // repetition was lost.
    assert!(fixed < Duration::from_millis(2900), "{fixed:?}");
    assert!(took("congestion = \"cubic\"") > fixed);
}

/// Reordered, repeated, damaged and lost, both ways.
fn hostile() -> LinkConfig {
    let mut link = links::by_name("wifi").unwrap();
    for way in [&mut link.forward, &mut link.backward] {
        way.loss = LossModel::uniform(0.03);
        way.corruption = LossModel::uniform(0.01);
        way.duplication = 0.02;
        way.reordering = Some(reordering());
    }
    link
}

fn reordering() -> Reordering {
    Reordering {
        probability: 0.05,
        extra: Duration::from_millis(8),
    }
}

const WORKLOADS: &[&str] = &[
    "{ kind = \"bulk\", bytes = \"3 MB\" }",
    "{ kind = \"bulk\", bytes = \"10 kB\", direction = \"up\", streams = 150 }",
    "{ kind = \"objects\", count = 300, bytes = \"5 kB\" }",
    "{ kind = \"page\", page = \"article\" }",
    "{ kind = \"messages\", trace = \"starlink\", duration = \"5 s\" }",
    "{ kind = \"messages\", trace = \"video-conference\", duration = \"5 s\", direction = \"up\" }",
    "{ kind = \"datagrams\", rate = \"1 Mb/s\", duration = \"5 s\" }",
    "{ kind = \"video\", duration = \"20 s\" }",
];

#[test]
fn every_workload_ends_over_every_fault_and_the_same_each_time() {
    for work in WORKLOADS {
        for (link, congestion) in [
            (hostile(), "rate = \"20 Mb/s\""),
            (hostile(), ""),
            (geo(0.01), "rate = \"20 Mb/s\""),
            (
                links::by_name("starlink").unwrap(),
                "congestion = \"cubic\"",
            ),
        ] {
            let scene = scene(link, vec![flow(work)], options(congestion));
            let record = run(&scene, 5);
            let main = &record.flows[0];
            assert_eq!(main.error, None, "{work} {congestion}");
            assert!(main.receiver.finished.is_some(), "{work} {congestion}");
            let again = run(&scene, 5);
            assert_eq!(again.flows[0].receiver, main.receiver, "{work}");
            assert_eq!(again.events, record.events, "{work}");
        }
    }
}

#[test]
fn what_is_reordered_is_seldom_taken_for_lost() {
    let mut link = links::by_name("wifi").unwrap();
    link.backward.reordering = Some(reordering());
    let work = "{ kind = \"bulk\", bytes = \"20 MB\" }";
    let record = run(
        &scene(link, vec![flow(work)], options("rate = \"20 Mb/s\"")),
        2,
    );
    let wire = record.flows[0].sender_wire.unwrap();
    // At first segments that pass three others look like losses; then the window is wider.
    assert!(wire.packets_lost < wire.packets_sent / 200, "{wire:?}");
    assert!(
        wire.spurious_losses.unwrap() * 10 >= wire.packets_lost * 9,
        "{wire:?}"
    );
}

#[test]
fn a_link_that_dies_is_an_error_and_one_that_comes_back_is_not() {
    for (dead, fails) in [("20 s", false), ("1000 s", true)] {
        let mut link = geo(0.0);
        let outage = format!("start = \"5 s\"\nduration = \"{dead}\"\nmode = \"drop\"");
        for way in [&mut link.forward, &mut link.backward] {
            way.outages.push(toml::from_str(&outage).unwrap());
        }
        let work = "{ kind = \"bulk\", bytes = \"50 MB\" }";
        let mut scene = scene(link, vec![flow(work)], options("idle_timeout = \"60 s\""));
        scene.limit = Duration::from_secs(200);
        let record = run(&scene, 1);
        let main = &record.flows[0];
        assert_eq!(main.error.is_some(), fails, "{:?}", main.error);
        assert_eq!(main.receiver.finished.is_none(), fails);
        // No endless probing either.
        assert!(main.sender_wire.unwrap().ptos.unwrap() < 20);
    }
}

#[test]
fn small_windows_and_buffers_slow_but_do_not_stop() {
    for small in [
        "receive_window = \"20 kB\"",
        "receive_window = \"1200 B\"",
        "send_buffer = \"1200 B\"",
        "mtu = 576",
        "mtu = 1200",
        "initial_window = 2",
        "pacing = false",
        "max_streams = 1",
        "max_ack_delay = \"0 ms\"",
    ] {
        let work = "{ kind = \"objects\", count = 4, bytes = \"30 kB\" }";
        let link = links::by_name("wifi").unwrap();
        let record = run(&scene(link, vec![flow(work)], options(small)), 1);
        assert!(record.flows[0].receiver.finished.is_some(), "{small}");
    }
}

#[test]
fn a_loss_holds_up_every_stream() {
    let work = "{ kind = \"objects\", count = 10, bytes = \"1 kB\" }";
    let late = |solution: StackOptions, lost: u64| {
        let mut link = geo(0.0);
        link.backward.drop_packets.push(lost..=lost);
        let record = run(&scene(link, vec![flow(work)], solution), 1);
        let items = &record.flows[0].receiver.items;
        let late = |item: &&crate::outcome::Item| item.duration().unwrap().as_millis() > 1000;
        items.iter().filter(late).count()
    };
    // The second segment of the answers; the first packet is the server's handshake.
    assert_eq!(late(options(""), 2), 9);
    let ours = late(StackOptions::default(), 6);
    assert!((1..=5).contains(&ours), "{ours}");
}

#[test]
fn a_thin_return_link_is_spared() {
    let share = |ack: &str| {
        let mut link = geo(0.0);
        link.forward.rate = Some(Rate::from_bits_per_second(100_000));
        let solution = options(&format!("rate = \"20 Mb/s\"\nack = \"{ack}\""));
        let mut scene = scene(link, vec![flow("{ kind = \"bulk\" }")], solution);
        scene.limit = Duration::from_secs(30);
        scene.window = Some((Duration::from_secs(10), Duration::from_secs(30)));
        let record = run(&scene, 1);
        record.flows[0].goodput(record.window) / 20e6
    };
    let (standard, aggregated) = (share("standard"), share("aggregated"));
    assert!(aggregated > 0.95, "{aggregated}");
    assert!(standard < aggregated, "{standard}");
}

#[test]
fn options_it_does_not_have_are_refused_with_words() {
    let refused = |text: &str| SplitTcp.check(&options(text)).unwrap_err();
    let error = refused("congestion = \"hyble\"");
    assert!(error.names.contains(&"hybla".to_owned()));
    assert!(error.names.contains(&"cubic".to_owned()));
    for (text, option) in [
        ("congestion = \"fixed\"", "congestion"),
        ("congestion = \"cubic\"\nrate = \"1 Mb/s\"", "rate"),
        ("rate = \"10 b/s\"", "rate"),
        ("ack = \"frequency\"", "ack"),
        ("streams = \"round-robin\"", "streams"),
        ("window_rtt = \"mean\"", "window_rtt"),
        ("ecn = true", "ecn"),
        ("mtu = 100", "mtu"),
        ("receive_window = \"1 kB\"", "receive_window"),
        ("max_ack_delay = \"1 s\"", "max_ack_delay"),
        ("initial_rtt = \"0 s\"", "initial_rtt"),
        ("idle_timeout = \"0 s\"", "idle_timeout"),
        ("max_streams = 0", "max_streams"),
        ("initial_window = 1", "initial_window"),
    ] {
        assert_eq!(refused(text).option, option, "{text}");
    }
    let tautline: StackOptions = toml::from_str("rate = \"20 Mb/s\"").unwrap();
    let error = crate::stack::Tautline::default().check(&tautline);
    assert_eq!(error.unwrap_err().option, "rate");
    assert_eq!(SplitTcp.check(&options("")), Ok(()));
}

#[test]
fn an_unknown_stack_is_told_which_there_are() {
    let mut solution = options("");
    solution.stack = "split-tpc".to_owned();
    let scene = scene(geo(0.0), vec![flow("{ kind = \"bulk\" }")], solution);
    let error = scene.validate(&Stacks::default()).unwrap_err();
    assert!(error.names.contains(&"split-tcp".to_owned()), "{error:?}");
}

#[test]
fn no_link_is_cheated() {
    let work = "{ kind = \"bulk\", bytes = \"5 MB\" }";
    let scene = scene(hostile(), vec![flow(work)], options("rate = \"20 Mb/s\""));
    let mut stage = crate::run::Stage::build(
        &scene,
        &Stacks::default(),
        1,
        crate::stack::Watch::default(),
    )
    .unwrap();
    stage.audit(100_000);
    assert_eq!(stage.play(&scene).violations, Vec::<String>::new());
}
