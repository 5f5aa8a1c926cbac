//! What the link itself carries, without a transport: speed tests, and probes over days.
//!
//! Owns: [`speed_tests`], [`outages`]. Does not own: what transfers reach on it (`bench.rs`).

use std::time::Duration;

use tautline_sim::{Direction, DirectionConfig, Line, LinkConfig, Outcome};
use tautline_transport::{time::Instant, units::Ecn};

use super::look::quantile;

/// The study's speed tests open several connections, which together fill the link.
const SPEED_TEST: Duration = Duration::from_secs(10);
/// Bytes of IP of what fills it: large, because only their sum matters.
const FILLER: u32 = 9000;
/// Offered, in Mb/s: more than the line ever has down, and than any share of it up.
const OFFERED_DOWN: f64 = 330.0;
const OFFERED_UP: f64 = 45.0;

/// Between two probes for outages.
const PROBE_EVERY: Duration = Duration::from_millis(200);
const PROBE: u32 = 100;

fn line(seed: u64, link: &LinkConfig, down: bool, mtu: u16) -> Line {
    let (direction, config) = if down {
        (Direction::Backward, &link.backward)
    } else {
        (Direction::Forward, &link.forward)
    };
    let config = DirectionConfig {
        mtu,
        ..config.clone()
    };
    Line::new(seed, 0, direction, config, link.round_trip()).expect("a valid link")
}

/// What a link that is kept full carries in ten seconds, in Mb/s, a figure a seed, sorted.
pub(super) fn speed_tests(
    seeds: impl Iterator<Item = u64>,
    link: &LinkConfig,
    down: bool,
) -> SpeedTests {
    let offered = if down { OFFERED_DOWN } else { OFFERED_UP };
    let every = Duration::from_secs_f64(f64::from(FILLER) * 8e-6 / offered);
    let carried = |seed| {
        let mut line = line(seed, link, down, FILLER as u16);
        let (mut now, end) = (Instant::ZERO, Instant::ZERO + SPEED_TEST);
        let mut bytes = 0;
        while now < end {
            let record = line.offer(now, FILLER, Ecn::NotEct);
            if matches!(record.outcome, Outcome::Arrives(at) if at < end) {
                bytes += u64::from(FILLER);
            }
            now += every;
        }
        bytes as f64 * 8e-6 / SPEED_TEST.as_secs_f64()
    };
    let mut rates: Vec<f64> = seeds.map(carried).collect();
    rates.sort_by(f64::total_cmp);
    SpeedTests(rates)
}

/// In Mb/s, sorted.
pub(super) struct SpeedTests(Vec<f64>);

impl SpeedTests {
    /// In Mb/s.
    pub(super) fn rate(&self, share: f64) -> f64 {
        quantile(&self.0, share)
    }
}

/// How often within so many hours nothing came through for more than a second.
pub(super) fn outages(seed: u64, link: &LinkConfig, down: bool, hours: u64) -> u64 {
    let mut line = line(seed, link, down, 1500);
    let end = Instant::ZERO + Duration::from_secs(3600 * hours);
    let mut now = Instant::ZERO;
    let mut first_lost = None;
    let mut long = 0;
    while now < end {
        let record = line.offer(now, PROBE, Ecn::NotEct);
        if matches!(record.outcome, Outcome::Arrives(_)) {
            let lasted = first_lost
                .take()
                .map(|first| now.saturating_since(first) - PROBE_EVERY);
            long += u64::from(lasted.is_some_and(|lasted| lasted > Duration::from_secs(1)));
        } else {
            first_lost = first_lost.or(Some(now));
        }
        now += PROBE_EVERY;
    }
    long
}
