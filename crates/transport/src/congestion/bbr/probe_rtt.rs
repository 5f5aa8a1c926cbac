//! ProbeRTT: half the data in flight for a moment, to see the path without queue. s5.3.4.

use super::{
    Bbr,
    model::Sample,
    state::{AckPhase, State},
};
use crate::time::Instant;

/// One visit to ProbeRTT.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeRtt {
    /// The window held meanwhile, from the estimates before they went stale.
    pub(super) window: u64,
    /// When the visit may end, once the data in flight is down.
    done: Option<Instant>,
    round_done: bool,
    /// Delivered counts between which packets left that say nothing about bandwidth.
    limited: Option<(u64, u64)>,
}

impl ProbeRtt {
    pub(super) const fn new(window: u64) -> Self {
        Self {
            window,
            done: None,
            round_done: false,
            limited: None,
        }
    }

    /// Whether a packet that left at this delivered count left during the visit.
    ///
    /// Stands for `MarkConnectionAppLimited()`, as a controller cannot mark packets.
    pub(super) fn limited(&self, prior_delivered: Option<u64>) -> bool {
        match (self.limited, prior_delivered) {
            (Some((from, until)), Some(prior)) => (from..=until).contains(&prior),
            _ => false,
        }
    }
}

impl Bbr {
    pub(super) fn update_min_rtt(&mut self, sample: &Sample) {
        let patience = self.probe_rtt_patience();
        let due = self.min_rtt.check_due(sample.now, &self.params, patience);
        if due && self.state != State::ProbeRtt {
            let half = self.bdp(self.params.probe_rtt_cwnd_gain);
            self.probe_rtt.window = half.max(self.min_pipe());
        }
        self.min_rtt.on_sample(sample.now, sample.rtt, &self.params);
    }

    pub(super) fn check_probe_rtt(&mut self, sample: &Sample) {
        if self.state != State::ProbeRtt && self.min_rtt.probe_due && !self.idle_restart {
            self.save_window();
            self.state = State::ProbeRtt;
            self.probe_rtt.done = None;
            self.probe_rtt.limited = None;
            self.cycle.ack_phase = AckPhase::ProbeStopping;
            self.rounds.restart(self.delivered);
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(sample);
        }
        if sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, sample: &Sample) {
        let from = self
            .probe_rtt
            .limited
            .map_or(self.delivered, |(from, _)| from);
        self.probe_rtt.limited = Some((from, self.delivered.saturating_add(sample.in_flight)));
        if self.probe_rtt.done.is_none() {
            if sample.in_flight <= self.probe_rtt.window {
                self.probe_rtt.done = Some(sample.now + self.params.probe_rtt_duration);
                self.probe_rtt.round_done = false;
                self.rounds.restart(self.delivered);
            }
            return;
        }
        self.probe_rtt.round_done |= self.rounds.started;
        if self.probe_rtt.round_done {
            self.check_probe_rtt_done(sample.now);
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.probe_rtt.done.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt.on_probe_done(now);
        self.restore_window();
        self.reset_short_term_model();
        if self.resume_share(now) {
            return;
        }
        if self.full_pipe.reached {
            self.start_probe_down(now);
            self.start_probe_cruise();
        } else {
            self.enter_startup();
        }
    }
}
