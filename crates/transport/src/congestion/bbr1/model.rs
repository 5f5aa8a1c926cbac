//! What BBRv1 knows of the path: two filters, and whether the pipe was ever full. s4.1, s4.3.2.2.

use std::time::Duration;

use crate::{congestion::bbr::model::Sample, time::Instant, units::Rate};

/// Rounds that a delivery rate is remembered for. s4.1.1.3.
const BANDWIDTH_ROUNDS: usize = 10;
/// How long a low round-trip time is believed, and the time between probes for it. s4.3.5.
pub(super) const RTT_WINDOW: Duration = Duration::from_secs(10);
/// Growth per round below which the pipe may be full. s4.3.2.2.
const FULL_PIPE_GROWTH: f64 = 1.25;
/// Rounds without that growth after which it is.
const FULL_PIPE_ROUNDS: u32 = 3;

/// `BtlBw`: the largest delivery rate of the last ten rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::congestion) struct BottleneckBandwidth {
    /// (round, largest rate in it), each in the place of its round modulo the length.
    slots: [(u64, Rate); BANDWIDTH_ROUNDS],
    max: Rate,
}

impl BottleneckBandwidth {
    pub(in crate::congestion) const fn get(&self) -> Rate {
        self.max
    }

    /// Time passes for the filter only with samples: without any it keeps what it has. s4.1.1.4.
    pub(in crate::congestion) fn on_sample(&mut self, sample: &Sample, round: u64) {
        let rate = sample.delivery_rate;
        if rate == Rate::ZERO || (sample.app_limited && rate < self.max) {
            return;
        }
        let place = (round % BANDWIDTH_ROUNDS as u64) as usize;
        if let Some(slot) = self.slots.get_mut(place) {
            if slot.0 != round {
                *slot = (round, Rate::ZERO);
            }
            slot.1 = slot.1.max(rate);
        }
        let recent = |slot: &&(u64, Rate)| round.saturating_sub(slot.0) < BANDWIDTH_ROUNDS as u64;
        let rates = self.slots.iter().filter(recent).map(|slot| slot.1);
        self.max = rates.max().unwrap_or(rate);
    }
}

/// `RTprop`: the smallest round-trip time of the last ten seconds. s4.1.2.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    pub(super) value: Option<Duration>,
    /// When it was last confirmed.
    pub(super) stamp: Instant,
    /// Nothing as low was seen for the length of the filter.
    pub(super) expired: bool,
}

impl RoundTrip {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            value: None,
            stamp: now,
            expired: false,
        }
    }

    /// Round trips are `rtt` at least from now on.
    pub(super) fn on_return_path(&mut self, now: Instant, rtt: Duration) {
        (self.value, self.stamp) = (Some(rtt), now);
    }

    pub(super) fn on_sample(&mut self, now: Instant, rtt: Option<Duration>) {
        self.expired = now > self.stamp + RTT_WINDOW;
        if let Some(rtt) = rtt
            && (self.expired || self.value.is_none_or(|low| rtt <= low))
        {
            self.value = Some(rtt);
            self.stamp = now;
        }
    }
}

/// Looks for the plateau of `BtlBw` that ends Startup.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    pub(super) reached: bool,
    baseline: Rate,
    pub(super) rounds: u32,
}

impl FullPipe {
    pub(super) fn on_ack(&mut self, sample: &Sample, round_started: bool, bandwidth: Rate) {
        if self.reached || !round_started || sample.app_limited {
            return;
        }
        if bandwidth >= self.baseline.mul_f64(FULL_PIPE_GROWTH) {
            self.baseline = bandwidth;
            self.rounds = 0;
        } else {
            self.rounds += 1;
            self.reached = self.rounds >= FULL_PIPE_ROUNDS;
        }
    }
}
