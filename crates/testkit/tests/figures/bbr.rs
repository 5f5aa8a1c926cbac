//! `bbr3` as a whole connection: the satellite, and the scenarios of the draft's appendix that
//! need more than a controller and a box (unit tests have the rest).

use tautline_sim::{Jitter, LinkConfig};
use tautline_testkit::figure::{Flow, Trial, median};

use crate::{link, lossy, named, run, secs, seeds, utilisation};

#[test]
fn fills_geo() {
    for (loss, bar) in [(0.0, 0.84), (0.001, 0.83), (0.01, 0.40)] {
        let share = utilisation(&lossy(named("geo"), loss), "bbr3", secs(180));
        println!(
            "bbr3 on geo, 180 s, {} % loss: {share:.4} of capacity",
            loss * 100.0
        );
        assert!(share >= bar, "{share:.4} < {bar}");
    }
}

/// A queue of several BDPs is not filled for long.
#[test]
fn keeps_deep_queues_short() {
    let deep = link(20.0, 50, 8.0);
    let rtt = |congestion| {
        let report = run(&Trial::new(1, deep.clone(), congestion), secs(30));
        let history = &report.flow().history;
        let late = history.iter().skip(history.len() / 3);
        median(late.map(|sample| sample.rtt.as_secs_f64() * 1e3))
    };
    let (bbr, cubic) = (rtt("bbr3"), rtt("cubic"));
    println!("8 BDP of queue, 50 ms: median RTT bbr3 {bbr:.1} ms, cubic {cubic:.1} ms");
    assert!(bbr < 100.0 && cubic > 1.5 * bbr);
}

/// A queue of a quarter BDP is enough.
#[test]
fn needs_little_queue() {
    for queue in [0.25, 0.1] {
        let share = utilisation(&link(20.0, 50, queue), "bbr3", secs(30));
        println!("{queue} BDP of queue: {share:.3} of capacity");
        assert!(share > 0.75);
    }
}

/// The rate of the link changes under way.
#[test]
fn follows_the_bandwidth() {
    for (before, after) in [(10.0, 40.0), (40.0, 10.0), (20.0, 2.0)] {
        let share = median(seeds().map(|seed| {
            let mut trial = Trial::new(seed, link(before, 50, 1.0), "bbr3");
            trial.changes = vec![(secs(20), link(after, 50, 1.0))];
            let report = run(&trial, secs(60));
            report.flow().goodput(secs(30), secs(60)) / (after * 1e6)
        }));
        println!("{before} to {after} Mb/s: {share:.3} of the new rate");
        assert!(share > 0.8);
    }
}

/// The path becomes longer or shorter, as at a hand-over.
#[test]
fn follows_the_delay() {
    for (before, after) in [(30, 120), (120, 30)] {
        let mut trial = Trial::new(1, link(20.0, before, 1.0), "bbr3");
        trial.changes = vec![(secs(20), link(20.0, after, 1.0))];
        let report = run(&trial, secs(60));
        let share = report.flow().goodput(secs(35), secs(60)) / 20e6;
        println!("{before} to {after} ms: {share:.3} of capacity");
        assert!(share > 0.8);
    }
}

/// Two flows, the second late, share.
#[test]
fn two_flows_share() {
    for (name, bar) in [("wifi", 0.85), ("cellular", 0.85)] {
        let jain = median(seeds().map(|seed| {
            let flows = [
                Flow::endless("bbr3"),
                Flow::endless("bbr3").starting(secs(5)),
            ];
            run(&Trial::of(seed, named(name), flows), secs(90)).jain(secs(30), secs(90))
        }));
        println!("{name}: two bbr3 flows, Jain {jain:.4}");
        assert!(jain > bar);
    }
}

/// Beside cubic neither starves.
#[test]
fn neither_starves_beside_cubic() {
    for queue in [1.0, 4.0] {
        let share = median(seeds().map(|seed| {
            let flows = [
                Flow::endless("cubic"),
                Flow::endless("bbr3").starting(secs(5)),
            ];
            let report = run(&Trial::of(seed, link(20.0, 50, queue), flows), secs(90));
            let rate = |index: usize| report.flows[index].goodput(secs(30), secs(90));
            rate(1) / (rate(0) + rate(1))
        }));
        println!("{queue} BDP of queue: bbr3 has {share:.3} beside cubic");
        assert!((0.1..0.9).contains(&share));
    }
}

/// Jitter in order (a radio link) is not taken for a longer path or for congestion.
#[test]
fn endures_jitter() {
    let jittery = |spread_ms| {
        let mut config: LinkConfig = link(20.0, 60, 1.0);
        let jitter = Jitter::fifo(std::time::Duration::from_millis(spread_ms));
        config.forward.jitter = Some(jitter);
        config.backward.jitter = Some(jitter);
        config
    };
    for spread in [5, 15] {
        let share = utilisation(&jittery(spread), "bbr3", secs(30));
        println!("jitter of {spread} ms: {share:.3} of capacity");
        assert!(share > 0.8);
    }
}
