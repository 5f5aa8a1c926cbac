//! The named link `starlink` against what was measured on one.
//!
//! The study: F. Michel, *Flexible QUIC loss recovery mechanisms for latency-sensitive applications*
//! (2023), section 6.3; 100 MB over HTTP/3, messages of 5-25 kB 25 times a second, pings. Ours:
//! `bench.rs` (set-up and programs), `sender.rs` (the study's congestion control), `look.rs` (what is
//! read from the packet log, and how). `docs/starlink.md` has the table and the reasons.
//!
//! Two things about the study decide what its figures mean:
//! - Its downloads were captured at the client, which sees no lost packet: a loss event lasts from
//!   the packet before it to the packet after it. Of an overflow that is one serialisation, whatever
//!   the number of packets lost; 49 us are 1378 bytes at 225 Mb/s.
//! - Its sender took the reductions of its window back where less than a fifth of it was lost, so it
//!   stood at a full queue and kept losing.
//!
//! Rows that are printed but not claimed, and why:
//! - Loss of bulk uploads: 1.2 % instead of 1.96 %, of which two thirds are overflows. Neither other
//!   queues (220 to 300 kB) nor other ripples (0.65 to 0.85, 100 to 400 ms) came above 1.3 % with the
//!   round trips as published; the medium cannot lose more, or messages would.
//! - Loss of bulk downloads: it hangs on how far the first slow start of each transfer goes beyond the
//!   queue.
//! - The best speed tests: a line on which packets are 49 us apart in the median carries 237 Mb/s at most.
//! - The goodput of one download: the thesis leaves open why it was below its speed tests (178 Mb/s
//!   in the median), which the rate of the link is taken from.

mod bench;
mod capacity;
mod look;
mod sender;

use std::{ops::Range, thread};

use tautline_sim::LinkConfig;

use super::named;
use bench::{bulk, messages, pings};
use capacity::{outages, speed_tests};
use look::{Seen, merge, quantile};

/// What the model claims of a published figure.
#[derive(Clone, Copy, PartialEq)]
enum Claim {
    /// Within 10 %.
    Near,
    /// Published as an upper bound.
    Below,
    /// Published as a lower bound.
    Above,
    /// Nothing; it is printed.
    None,
}

use Claim::{Above, Below, Near};

impl Claim {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Near => (0.9..=1.1).contains(&ratio),
            Below => ratio < 1.0,
            Above => ratio > 1.0,
            Self::None => true,
        }
    }
}

/// One published figure beside ours.
struct Row {
    name: &'static str,
    published: f64,
    measured: f64,
    claim: Claim,
}

/// Names the first seed of a draw; 4001 without it. Fitting used 100,001 to 100,400, 110,001 to 110,960,
/// 120,001 to 120,240, 130,001 to 130,160 and 200,001 to 200,400, and before them seeds below 4000.
const FIRST_SEED: &str = "TAUTLINE_STARLINK_SEED";

fn first_seed() -> u64 {
    std::env::var(FIRST_SEED).map_or(4001, |text| {
        text.parse()
            .unwrap_or_else(|e| panic!("{FIRST_SEED}={text}: {e}"))
    })
}

/// All of these runs, on two threads.
fn all(seeds: Range<u64>, run: impl Fn(u64) -> Seen + Sync) -> Seen {
    let middle = u64::midpoint(seeds.start, seeds.end);
    let half = |seeds: Range<u64>| merge(seeds.map(&run));
    let halves = thread::scope(|scope| {
        let second = scope.spawn(|| half(middle..seeds.end));
        [half(seeds.start..middle), second.join().unwrap()]
    });
    merge(halves.into_iter())
}

/// Downloads looked at together. The far quantiles of the duration of their loss events need so many:
/// between 58 us and 1.5 ms lie 15 % of the events, so that a hundred or two follow how many overflows they
/// happen to have. The study had 244,008 events, a thousand downloads have 110,000.
const DOWNLOADS: u64 = 960;

/// As [`all`], with a part of the round trips, which would take a gigabyte.
fn downloads(link: &LinkConfig, first: u64) -> Seen {
    const TOGETHER: usize = 160;
    let parts = (first..first + DOWNLOADS).step_by(TOGETHER);
    merge(parts.map(|part| {
        let seen = all(part..part + TOGETHER as u64, |seed| bulk(seed, link, true));
        seen.with_every(16)
    }))
}

/// Hours of probes for outages.
const HOURS: u64 = 100;

fn rows(link: &LinkConfig, first: u64) -> Vec<Row> {
    let fresh = |count| first..first + count;
    let down = downloads(link, first);
    let up = all(fresh(32), |seed| bulk(seed, link, false));
    let to = all(fresh(240), |seed| messages(seed, link, true));
    let from = all(fresh(160), |seed| messages(seed, link, false));
    let idle = all(fresh(96), |seed| pings(seed, link));
    let tests = speed_tests(fresh(250), link, true);
    let tests_up = speed_tests(fresh(250), link, false);
    let row = |name, published, measured, claim| Row {
        name,
        published,
        measured,
        claim,
    };
    let rate = |seen: &Seen| quantile(&seen.rates, 0.5);
    vec![
        row("idle RTT min, ms", 20.0, idle.rtt(0.0), Near),
        row("idle RTT p50, ms", 49.0, idle.rtt(0.5), Near),
        row("idle RTT p95, ms (below)", 70.0, idle.rtt(0.95), Below),
        row("bulk down RTT p50, ms", 95.0, down.rtt(0.5), Near),
        row("bulk down RTT p95, ms", 175.0, down.rtt(0.95), Near),
        row("bulk down RTT p99, ms", 210.0, down.rtt(0.99), Near),
        row("bulk up RTT p50, ms", 104.0, up.rtt(0.5), Near),
        row("bulk up RTT p95, ms", 237.0, up.rtt(0.95), Near),
        row("bulk up RTT p99, ms", 310.0, up.rtt(0.99), Near),
        row("messages down RTT p50, ms", 50.0, to.rtt(0.5), Near),
        row("messages down RTT p95, ms", 71.0, to.rtt(0.95), Near),
        row("messages down RTT p99, ms", 87.0, to.rtt(0.99), Near),
        row("messages up RTT p50, ms", 66.0, from.rtt(0.5), Near),
        row("messages up RTT p95, ms", 87.0, from.rtt(0.95), Near),
        row("messages up RTT p99, ms", 143.0, from.rtt(0.99), Near),
        row("bulk down loss, %", 1.56, down.loss(), Claim::None),
        row("bulk up loss, %", 1.96, up.loss(), Claim::None),
        row("messages down loss, %", 0.40, to.loss(), Near),
        row("messages up loss, %", 0.45, from.loss(), Near),
        row(
            "down: events of several, % (above)",
            75.0,
            down.multi(),
            Above,
        ),
        row("down: events p50, us", 49.0, down.event(0.5), Near),
        row("down: events p75, us", 58.0, down.event(0.75), Near),
        row("down: events p90, us", 113.0, down.event(0.9), Near),
        row("down: events p95, us", 1500.0, down.event(0.95), Near),
        row("down: events p99, us", 7500.0, down.event(0.99), Near),
        row("messages down: events p95, us", 104e3, to.event(0.95), Near),
        row("messages down: events p99, us", 127e3, to.event(0.99), Near),
        row("bulk up rate p50, Mb/s", 17.0, rate(&up), Near),
        row("bulk down rate p50, Mb/s", 125.0, rate(&down), Claim::None),
        row("speed test down p5, Mb/s", 100.0, tests.rate(0.05), Near),
        row("speed test down p50, Mb/s", 178.0, tests.rate(0.5), Near),
        row(
            "speed test down p95, Mb/s",
            250.0,
            tests.rate(0.95),
            Claim::None,
        ),
        row("speed test up p50, Mb/s", 17.0, tests_up.rate(0.5), Near),
        row(
            "speed test up p95, Mb/s (below)",
            30.0,
            tests_up.rate(0.95),
            Below,
        ),
    ]
}

#[test]
fn meets_the_published_quantiles() {
    let first = first_seed();
    let mut missed = Vec::new();
    println!("{FIRST_SEED}={first}");
    for row in rows(&named("starlink"), first) {
        let ratio = row.measured / row.published;
        let holds = row.claim.holds(ratio);
        let claim = match row.claim {
            Claim::None => " not claimed",
            _ if !holds => " MISSED",
            _ => "",
        };
        println!(
            "{:<36} {:>10.2} published {:>10.2} ours {ratio:>6.3}{claim}",
            row.name, row.published, row.measured
        );
        if !holds {
            missed.push(format!("{}: {ratio:.3}", row.name));
        }
    }
    assert!(missed.is_empty(), "{FIRST_SEED}={first} missed {missed:?}");
}

/// The study saw "a small number" of outages over a second in both directions' transfers.
#[test]
fn outages_over_a_second_are_rare_and_happen() {
    let (link, first) = (named("starlink"), first_seed());
    for down in [true, false] {
        let count = outages(first, &link, down, HOURS);
        println!("down {down}: {count} outages over 1 s in {HOURS} hours");
        assert!(
            (1..=2 * HOURS).contains(&count),
            "{FIRST_SEED}={first} down {down}: {count}"
        );
    }
}
