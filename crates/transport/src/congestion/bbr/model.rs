//! What BBR believes about the path: rounds, bandwidth, propagation delay, aggregation.
//!
//! Nothing here knows a state machine; other variants of BBR can use these parts.

use std::time::Duration;

use super::{super::AckEvent, params::Params};
use crate::{time::Instant, units::Rate};

/// No bound on a volume of data.
pub(in crate::congestion) const UNBOUNDED: u64 = u64::MAX;

/// One acknowledgement as the model reads it ("RS" and "C" of the draft).
#[derive(Clone, Copy, Debug)]
pub(in crate::congestion) struct Sample {
    pub(in crate::congestion) now: Instant,
    /// Zero when the ACK gave no valid sample.
    pub(in crate::congestion) delivery_rate: Rate,
    /// How fast that left.
    pub(in crate::congestion) send_rate: Rate,
    /// Bytes delivered over the sampled interval.
    pub(in crate::congestion) delivered: u64,
    /// Delivered count when the sampled packet left; `None` without a sample.
    pub(in crate::congestion) prior_delivered: Option<u64>,
    pub(in crate::congestion) app_limited: bool,
    /// Bytes lost since the sampled packet left.
    pub(in crate::congestion) lost: u64,
    pub(in crate::congestion) tx_in_flight: u64,
    pub(in crate::congestion) newly_acked: u64,
    /// When the newest packet that this acknowledges left.
    pub(in crate::congestion) newest_sent: Instant,
    pub(in crate::congestion) rtt: Option<Duration>,
    /// The same without the time for which the peer held its acknowledgement back, which is no queue.
    pub(in crate::congestion) adjusted_rtt: Option<Duration>,
    pub(in crate::congestion) prior_in_flight: u64,
    pub(in crate::congestion) in_flight: u64,
    /// The path's delivered count, this ACK included.
    pub(in crate::congestion) total_delivered: u64,
}

impl Sample {
    pub(in crate::congestion) fn new(event: &AckEvent) -> Self {
        let rate = event.rate;
        Self {
            now: event.now,
            delivery_rate: rate.map_or(Rate::ZERO, |rate| rate.delivery_rate),
            send_rate: rate.map_or(Rate::ZERO, |rate| rate.send_rate),
            delivered: rate.map_or(0, |rate| rate.delivered),
            prior_delivered: rate.map(|rate| rate.prior_delivered),
            app_limited: rate.is_some_and(|rate| rate.app_limited),
            lost: rate.map_or(0, |rate| rate.lost),
            tx_in_flight: rate.map_or(0, |rate| rate.tx_in_flight),
            newly_acked: event.acked_bytes,
            newest_sent: event.largest_acked_sent,
            rtt: event.has_rtt_sample.then_some(event.rtt.latest),
            adjusted_rtt: event.has_rtt_sample.then_some(event.rtt.adjusted),
            prior_in_flight: event.prior_in_flight,
            in_flight: event.bytes_in_flight,
            total_delivered: event.delivered,
        }
    }
}

/// Packet-timed round trips. s5.5.1.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::congestion) struct Rounds {
    /// The round ends when a packet is acknowledged that left at or after this delivered count.
    end: u64,
    pub(in crate::congestion) count: u64,
    /// Whether the present ACK began a round.
    pub(in crate::congestion) started: bool,
}

impl Rounds {
    pub(in crate::congestion) fn on_ack(&mut self, sample: &Sample) {
        self.started = sample
            .prior_delivered
            .is_some_and(|prior| prior >= self.end);
        if self.started {
            self.restart(sample.total_delivered);
            self.count += 1;
        }
    }

    pub(in crate::congestion) fn restart(&mut self, delivered: u64) {
        self.end = delivered;
    }
}

/// Largest delivery rate of this and the previous probing cycle. s5.5.2.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::congestion) struct MaxBandwidth {
    previous: Rate,
    current: Rate,
}

impl MaxBandwidth {
    pub(in crate::congestion) fn get(&self) -> Rate {
        self.previous.max(self.current)
    }

    pub(in crate::congestion) fn on_sample(&mut self, sample: &Sample) {
        let rate = sample.delivery_rate;
        // Limited by the application a sample says too little, unless it says more than we knew.
        if rate > Rate::ZERO && (rate >= self.get() || !sample.app_limited) {
            self.current = self.current.max(rate);
        }
    }

    /// The cycle is over. Without any sample in it the old one is kept.
    pub(in crate::congestion) fn advance(&mut self) {
        if self.current > Rate::ZERO {
            self.previous = self.current;
            self.current = Rate::ZERO;
        }
    }
}

/// Propagation delay, and when it must be looked at again. s5.3.4.3.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    /// Smallest RTT of the last 10 s, as far as ProbeRTT confirmed it.
    pub(super) value: Option<Duration>,
    stamp: Instant,
    /// Smallest RTT since the last probe.
    probe_value: Option<Duration>,
    probe_stamp: Instant,
    /// No new low for the probing interval.
    pub(super) probe_due: bool,
}

impl MinRtt {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            value: None,
            stamp: now,
            probe_value: None,
            probe_stamp: now,
            probe_due: false,
        }
    }

    /// Whether the interval has passed; to be asked before [`Self::on_sample`] changes the value.
    pub(super) fn check_due(&mut self, now: Instant, params: &Params, patience: u32) -> bool {
        let interval = params.probe_rtt_interval.saturating_mul(patience);
        self.probe_due = now > self.probe_stamp + interval;
        self.probe_due
    }

    pub(super) fn on_sample(&mut self, now: Instant, rtt: Option<Duration>, params: &Params) {
        if params.rules.confirm_min_rtt
            && let (Some(rtt), Some(value)) = (rtt, self.value)
            && is_confirmed(rtt, value)
        {
            self.probe_stamp = now;
            self.stamp = now;
        }
        if let Some(rtt) = rtt
            && (self.probe_due || self.probe_value.is_none_or(|low| rtt < low))
        {
            self.probe_value = Some(rtt);
            self.probe_stamp = now;
        }
        let Some(low) = self.probe_value else { return };
        let expired = now > self.stamp + params.min_rtt_window;
        if expired || self.value.is_none_or(|value| low < value) {
            self.value = Some(low);
            self.stamp = self.probe_stamp;
        }
    }

    /// Round trips are `rtt` at least from now on.
    pub(super) fn on_return_path(&mut self, now: Instant, rtt: Duration) {
        (self.value, self.stamp) = (Some(rtt), now);
        (self.probe_value, self.probe_stamp) = (Some(rtt), now);
    }

    /// A probe is over; the next one is an interval away.
    pub(super) fn on_probe_done(&mut self, now: Instant) {
        self.probe_stamp = now;
    }
}

/// Whether the sample is as good as the minimum.
fn is_confirmed(rtt: Duration, min: Duration) -> bool {
    rtt <= min.saturating_add(min / CONFIRMS)
}

/// A sample that exceeds the minimum RTT by less than this part of it confirms it.
const CONFIRMS: u32 = 16;

/// Slots of the aggregation filter: the present round and ten before it.
const SLOTS: usize = 11;

/// How much more than expected is acknowledged at once. s5.5.9.
#[derive(Clone, Copy, Debug)]
pub(in crate::congestion) struct Aggregation {
    interval_start: Instant,
    delivered: u64,
    /// (round, largest excess seen in it).
    slots: [(u64, u64); SLOTS],
    /// Windowed maximum in bytes.
    pub(in crate::congestion) extra: u64,
}

impl Aggregation {
    pub(in crate::congestion) const fn new(now: Instant) -> Self {
        Self {
            interval_start: now,
            delivered: 0,
            slots: [(0, 0); SLOTS],
            extra: 0,
        }
    }

    pub(in crate::congestion) fn on_ack(
        &mut self,
        sample: &Sample,
        bandwidth: Rate,
        window: u64,
        round: u64,
        keep_rounds: u64,
    ) {
        let interval = sample.now.saturating_since(self.interval_start);
        let mut expected = bandwidth.bytes_in(interval);
        if self.delivered <= expected {
            self.restart(sample.now);
            expected = 0;
        }
        self.delivered = self.delivered.saturating_add(sample.newly_acked);
        let excess = self.delivered.saturating_sub(expected).min(window);

        let index = (round % SLOTS as u64) as usize;
        if let Some(slot) = self.slots.get_mut(index) {
            if slot.0 != round {
                *slot = (round, 0);
            }
            slot.1 = slot.1.max(excess);
        }
        let recent = |slot: &&(u64, u64)| round.saturating_sub(slot.0) <= keep_rounds;
        self.extra = self
            .slots
            .iter()
            .filter(recent)
            .map(|slot| slot.1)
            .max()
            .unwrap_or(0);
    }

    pub(in crate::congestion) fn restart(&mut self, now: Instant) {
        self.delivered = 0;
        self.interval_start = now;
    }
}

/// Looks for a plateau of the delivery rate while accelerating. s5.3.1.2.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    /// Filled at some time of the connection.
    pub(super) reached: bool,
    /// Filled since the search last began.
    pub(super) now: bool,
    baseline: Rate,
    pub(super) count: u32,
}

impl FullPipe {
    /// Begins a new search from this rate.
    pub(super) fn restart(&mut self, baseline: Rate) {
        self.now = false;
        self.count = 0;
        self.baseline = baseline;
    }

    /// Whether what this sample counts left so fast that it could have shown growth.
    pub(super) fn was_tried(&self, sample: &Sample, params: &Params) -> bool {
        sample.send_rate >= self.baseline.mul_f64(params.full_bandwidth_growth)
    }

    pub(super) fn on_ack(&mut self, sample: &Sample, round_started: bool, params: &Params) {
        if self.now || !round_started || sample.app_limited {
            return;
        }
        if sample.delivery_rate >= self.baseline.mul_f64(params.full_bandwidth_growth) {
            self.restart(sample.delivery_rate);
            return;
        }
        self.count += 1;
        self.now = self.count >= params.full_bandwidth_rounds;
        self.reached |= self.now;
    }
}
