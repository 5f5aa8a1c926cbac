//! The round trip without queue, and ProbeRTT: half a BDP in flight for a moment. s4.3.4.

use std::time::Duration;

use super::{Bbr2, cycle::State};
use crate::{congestion::bbr::model::Sample, time::Instant};

/// How long a minimum is believed.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Time without a new low after which ProbeRTT is due.
pub(super) const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);

/// The minimum of two probes: each looks at five seconds, the estimate at ten.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    pub(super) value: Option<Duration>,
    stamp: Instant,
    since_probe: Option<Duration>,
    probe_stamp: Instant,
    pub(super) probe_due: bool,
}

impl MinRtt {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            value: None,
            stamp: now,
            since_probe: None,
            probe_stamp: now,
            probe_due: false,
        }
    }

    /// Round trips are `rtt` at least from now on.
    pub(super) fn on_return_path(&mut self, now: Instant, rtt: Duration) {
        (self.value, self.stamp) = (Some(rtt), now);
        (self.since_probe, self.probe_stamp) = (Some(rtt), now);
    }

    /// s4.3.4.4.
    pub(super) fn on_sample(&mut self, now: Instant, rtt: Option<Duration>) {
        self.probe_due = now > self.probe_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = rtt
            && (self.probe_due || self.since_probe.is_none_or(|low| rtt < low))
        {
            self.since_probe = Some(rtt);
            self.probe_stamp = now;
        }
        let Some(low) = self.since_probe else { return };
        let expired = now > self.stamp + MIN_RTT_WINDOW;
        if expired || self.value.is_none_or(|value| low < value) {
            self.value = Some(low);
            self.stamp = self.probe_stamp;
        }
    }
}

/// One visit to ProbeRTT.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeRtt {
    /// When it may end, once little enough is in flight.
    until: Option<Instant>,
    round_done: bool,
    /// Delivered counts between which packets left meanwhile: they say nothing about bandwidth.
    /// Stands for `MarkConnectionAppLimited()`, as a controller cannot mark packets.
    sent: Option<(u64, u64)>,
}

impl ProbeRtt {
    pub(super) fn sent_in_it(&self, prior_delivered: Option<u64>) -> bool {
        match (self.sent, prior_delivered) {
            (Some((from, until)), Some(prior)) => (from..=until).contains(&prior),
            _ => false,
        }
    }
}

impl Bbr2 {
    pub(super) fn check_probe_rtt(&mut self, sample: &Sample) {
        if self.state != State::ProbeRtt && self.min_rtt.probe_due && !self.idle_restart {
            self.recovery.save(self.window, false);
            self.state = State::ProbeRtt;
            self.probe_rtt = ProbeRtt::default();
            self.cycle.stop_probe();
            self.rounds.restart(self.delivered);
        }
        if self.state == State::ProbeRtt {
            self.hold_probe_rtt(sample);
        }
        if sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    fn hold_probe_rtt(&mut self, sample: &Sample) {
        let from = self.probe_rtt.sent.map_or(self.delivered, |(from, _)| from);
        let until = self.delivered.saturating_add(sample.in_flight);
        self.probe_rtt.sent = Some((from, until));
        if self.probe_rtt.until.is_some() {
            self.probe_rtt.round_done |= self.rounds.started;
            if self.probe_rtt.round_done {
                self.check_probe_rtt_done(sample.now);
            }
        } else if sample.in_flight <= self.probe_rtt_window() {
            self.probe_rtt.until = Some(sample.now + PROBE_RTT_TIME);
            self.probe_rtt.round_done = false;
            self.rounds.restart(self.delivered);
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.probe_rtt.until.is_none_or(|until| now <= until) {
            return;
        }
        self.min_rtt.probe_stamp = now;
        self.window = self.recovery.restored(self.window);
        self.bounds.reset_lower();
        if self.cycle.filled_pipe {
            self.start_down(now);
            self.start_cruise();
        } else {
            self.state = State::Startup;
        }
    }
}
