//! `bbr1` and `bbr2` as whole connections, and the controls: what their documents claim, and what
//! was published against them. Bars follow from the texts; unit tests have the state machines.

use std::time::Duration;

use tautline_testkit::figure::{Flow, FlowReport, Trial, median};
use tautline_transport::{congestion::registry, time::Instant};

use crate::{link, lossy, named, run, secs, seeds, utilisation};

/// When the controller entered this state, as far as samples tell.
fn entries(flow: &FlowReport, state: &str) -> Vec<Instant> {
    let mut before = "";
    let mut times = Vec::new();
    for sample in &flow.history {
        if sample.congestion.state == state && before != state {
            times.push(sample.at);
        }
        before = sample.congestion.state;
    }
    times
}

/// ProbeRTT empties the pipe for its drain, 200 ms or a round trip, whichever is longer, and the
/// way back: three round trips of 600 ms in eleven seconds, besides Startup. Loss is no signal: one
/// in a hundred costs little beyond itself.
#[test]
fn bbr1_fills_geo_with_loss_or_without() {
    let share = |loss| {
        let trial = Trial::new(1, lossy(named("geo"), loss), "bbr1");
        run(&trial, secs(180)).utilisation()
    };
    let (clean, lossy) = (share(0.0), share(0.01));
    println!("bbr1 on geo, 180 s: {clean:.4} of capacity; 1 % of loss: {lossy:.4}");
    assert!(clean >= 0.75);
    assert!(lossy >= 0.9 * clean);
}

/// "Drains the queue in one round": two round trips after Startup there is next to none.
#[test]
fn bbr1_drains_what_startup_queued() {
    for (name, lowest) in [("geo", 600.0), ("terrestrial", 100.0)] {
        let report = run(&Trial::new(1, named(name), "bbr1"), secs(20));
        let history = &report.flow().history;
        let rtts = |states: &[&str]| -> Vec<f64> {
            // The first samples show the RTT assumed before there is one.
            let of = history
                .iter()
                .skip(5)
                .filter(|sample| states.contains(&sample.congestion.state));
            of.map(|sample| sample.rtt.as_secs_f64() * 1e3).collect()
        };
        let peak = rtts(&["startup", "drain"]).into_iter().fold(0.0, f64::max);
        let cruising = median(rtts(&["probe_bw_cruise"]));
        println!(
            "{name}: {lowest} ms at least, {peak:.0} at the end of Startup, then {cruising:.0}"
        );
        assert!(peak > 1.5 * lowest && cruising < 1.25 * lowest);
    }
}

/// Every ten seconds, unless a round trip as short was seen meanwhile.
#[test]
fn bbr1_probes_the_round_trip_every_ten_seconds() {
    let report = run(&Trial::new(1, named("terrestrial"), "bbr1"), secs(60));
    let times = entries(report.flow(), "probe_rtt");
    println!("bbr1 in ProbeRTT at {times:?}");
    assert!(times.len() >= 4);
    for pair in times.windows(2) {
        let gap = pair[1].saturating_since(pair[0]);
        assert!((secs(10)..secs(11)).contains(&gap), "{gap:?}");
    }
}

/// Each flow keeps up to two of its own BDPs in flight, so in a queue the longer path's has more.
#[test]
fn bbr1_favours_the_longer_path() {
    let share = |congestion| {
        let flows = [
            Flow::endless(congestion),
            Flow::endless(congestion).further(Duration::from_millis(40)),
        ];
        let report = run(&Trial::of(1, link(10.0, 20, 8.0), flows), secs(60));
        let rate = |index: usize| report.flows[index].goodput(secs(20), secs(60));
        rate(1) / (rate(0) + rate(1))
    };
    let (bbr1, bbr2) = (share("bbr1"), share("bbr2"));
    println!("100 ms beside 20 ms, deep queue: the long path has {bbr1:.3}; of bbr2 {bbr2:.3}");
    assert!(bbr1 > 0.6);
}

/// A round trip of recovery with more than 2 % lost ends `bbr2`'s Startup, whatever was to be had;
/// `bbr1`'s ends only where the rate grows no more.
#[test]
fn bbr2_leaves_startup_on_loss() {
    let one = |congestion, seed| {
        let link = lossy(link(100.0, 200, 1.0), 0.1);
        let report = run(&Trial::new(seed, link, congestion), secs(20));
        let flow = report.flow();
        let after = flow
            .history
            .iter()
            .find(|sample| sample.congestion.state != "startup")
            .unwrap_or_else(|| panic!("{congestion} never leaves Startup"));
        let bandwidth = after.congestion.bandwidth.unwrap_or_default();
        let share = bandwidth.bits_per_second() as f64 / 100e6;
        println!(
            "{congestion}, 10 % lost, seed {seed}: Startup until {:?}, at {share:.3} of the rate",
            after.at
        );
        share
    };
    // A first flight that is mostly lost ends any Startup.
    let found = |congestion| median((1..6).map(|seed| one(congestion, seed)));
    let (bbr1, bbr2) = (found("bbr1"), found("bbr2"));
    // Nine in ten packets arrive.
    assert!(bbr1 > 0.8 && bbr2 < 0.5);
}

/// Loss above 2 % bounds what `bbr2` keeps in flight. For `bbr1` recovery conserves packets, and
/// a BDP stays in flight at any loss.
#[test]
fn bbr2_takes_loss_above_its_threshold_for_congestion() {
    let windows = |congestion, loss| {
        let link = lossy(link(20.0, 50, 1.0), loss);
        let bdp = 20e6 / 8.0 * 0.05;
        let report = run(&Trial::new(1, link, congestion), secs(40));
        let late = report.flow().history.iter().skip(150);
        let windows = median(late.map(|sample| sample.congestion.window as f64 / bdp));
        let share = report.utilisation();
        println!(
            "{congestion}, {} % lost: window {windows:.2} BDP, {share:.3} of capacity",
            loss * 100.0
        );
        windows
    };
    assert!(windows("bbr1", 0.05) > 0.8);
    assert!(windows("bbr2", 0.0) > 1.0);
    assert!(windows("bbr2", 0.05) < 0.5);
}

/// "Coexists": beside CUBIC, in a queue of one BDP and in a short one, `bbr2` leaves more than
/// `bbr1` does.
#[test]
fn bbr2_leaves_cubic_more_than_bbr1_does() {
    for queue in [0.5, 1.0] {
        let cubic = |congestion| {
            median(seeds().map(|seed| {
                let flows = [
                    Flow::endless("cubic"),
                    Flow::endless(congestion).starting(secs(5)),
                ];
                let report = run(&Trial::of(seed, link(10.0, 50, queue), flows), secs(90));
                let rate = |index: usize| report.flows[index].goodput(secs(30), secs(90));
                rate(0) / (rate(0) + rate(1))
            }))
        };
        let (beside1, beside2) = (cubic("bbr1"), cubic("bbr2"));
        println!("{queue} BDP: cubic has {beside1:.3} beside bbr1, {beside2:.3} beside bbr2");
        assert!(beside2 > beside1);
    }
}

/// What hiding losses could gain at most, and what judging them gains.
#[test]
fn controls_for_random_loss() {
    let link = lossy(named("terrestrial"), 0.01);
    let share = |congestion| run(&Trial::new(1, link.clone(), congestion), secs(40)).utilisation();
    let (cubic, scaled) = (share("cubic"), share("cubic-rtt-scaled"));
    let ignoring = share("ignore-loss");
    println!(
        "terrestrial, 1 %: cubic {cubic:.3}, cubic-rtt-scaled {scaled:.3}, ignore-loss {ignoring:.3}"
    );
    assert!(scaled > 2.0 * cubic && ignoring > 0.85);
}

/// Each controller alone on the two paths of the satellite study, 1 BDP of queue. `TAUTLINE_CC`
/// names those to run, separated by commas.
#[test]
#[ignore = "a table: minutes"]
fn table() {
    let wanted = std::env::var("TAUTLINE_CC").ok();
    let all: Vec<_> = registry::names().chain(registry::lab_names()).collect();
    let names = wanted
        .as_deref()
        .map_or(all, |names| names.split(',').collect());
    println!(
        "goodput as a share of capacity, 180 s, median of {} seeds",
        seeds().count()
    );
    for path in ["geo", "terrestrial"] {
        for congestion in &names {
            let row = [0.0, 0.001, 0.01].map(|loss| {
                let share = utilisation(&lossy(named(path), loss), congestion, secs(180));
                format!("{share:.4}")
            });
            println!("| {path} | {congestion} | {} |", row.join(" | "));
        }
    }
}
