//! Figures of whole connections in the simulator, as bars.
//!
//! Every test prints what it measured. `TAUTLINE_SEEDS` sets the number of seeds that medians are
//! taken over (default 3). What other stacks reach on the same links: `interop/sim`.

mod asymmetry;
mod bbr;
mod cubic;
mod forerunners;
mod long_fat;
mod starlink;
mod startup;
mod taut;

use std::time::Duration;

use tautline_sim::{DirectionConfig, LinkConfig, QueueSize, links};
use tautline_testkit::{
    bars::lossy,
    figure::{Report, Trial, median},
};
use tautline_transport::units::Rate;

/// Seeds of a median.
fn seeds() -> std::ops::RangeInclusive<u64> {
    let wanted = std::env::var("TAUTLINE_SEEDS").ok();
    1..=wanted.and_then(|text| text.parse().ok()).unwrap_or(3)
}

fn named(name: &str) -> LinkConfig {
    links::by_name(name).unwrap_or_else(|| panic!("no link is called {name}"))
}

/// The same both ways: Mb/s, round trip in ms, queue in BDP.
fn link(mbit: f64, rtt_ms: u64, queue: f64) -> LinkConfig {
    LinkConfig::symmetric(DirectionConfig {
        queue: QueueSize::Bdp(queue),
        ..DirectionConfig::new(
            Rate::from_bits_per_second((mbit * 1e6) as u64),
            Duration::from_micros(rtt_ms * 500),
        )
    })
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Runs a trial; no flow of it may end in an error.
fn run(trial: &Trial, duration: Duration) -> Report {
    let report = trial.run(duration);
    for flow in &report.flows {
        assert_eq!(flow.error, None, "no run ends in an error");
    }
    report
}

/// Median over seeds of one download's goodput as a share of capacity.
fn utilisation(link: &LinkConfig, congestion: &str, duration: Duration) -> f64 {
    median(seeds().map(|seed| {
        let trial = Trial::new(seed, link.clone(), congestion);
        run(&trial, duration).utilisation()
    }))
}

/// Whatever the link, a minute of each controller ends in no error and moves something.
#[test]
fn no_named_link_ends_a_connection() {
    for name in links::names() {
        for congestion in ["newreno", "cubic", "bbr3", "bbr3-taut"] {
            let share = run(&Trial::new(1, named(name), congestion), secs(60)).utilisation();
            println!("{name:<12} {congestion:<9} {share:.4} of capacity");
            assert!(share > 0.01, "{name} {congestion}");
        }
    }
}
