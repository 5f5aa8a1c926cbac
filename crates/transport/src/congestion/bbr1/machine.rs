//! Startup, Drain, the eight phases of ProbeBW, ProbeRTT. s4.3.

use std::time::Duration;

use super::Bbr1;
use crate::{congestion::bbr::model::Sample, rng::Rng, time::Instant};

/// `2 / ln 2`: the least gain with which the rate doubles each round. s4.3.2.1.
pub(super) const HIGH_GAIN: f64 = 2.885_390_081_777_926_8;
/// The phases of ProbeBW: probe, drain what that queued, cruise. s4.3.4.1.
pub(super) const GAIN_CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// ProbeBW's gain for the window.
const CRUISE_WINDOW_GAIN: f64 = 2.0;
/// How long ProbeRTT holds its window. s4.3.5.
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);

/// Where the controller stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    Startup,
    Drain,
    ProbeBw {
        /// Index into [`GAIN_CYCLE`].
        phase: usize,
    },
    ProbeRtt,
}

/// The state and what its end depends on.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) state: State,
    /// When the phase of ProbeBW began.
    phase_start: Instant,
    /// When ProbeRTT may end, once little enough is in flight.
    probe_rtt_until: Option<Instant>,
    probe_rtt_round_done: bool,
    /// Delivered counts between which packets left in ProbeRTT: they say nothing about bandwidth.
    /// Stands for marking the connection limited by the application, which a controller cannot.
    probe_rtt_sent: Option<(u64, u64)>,
    pub(super) idle_restart: bool,
    rng: Rng,
}

impl Machine {
    pub(super) const fn new(now: Instant, rng: Rng) -> Self {
        Self {
            state: State::Startup,
            phase_start: now,
            probe_rtt_until: None,
            probe_rtt_round_done: false,
            probe_rtt_sent: None,
            idle_restart: false,
            rng,
        }
    }

    pub(super) fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup => HIGH_GAIN,
            State::Drain => 1.0 / HIGH_GAIN,
            State::ProbeBw { phase } => GAIN_CYCLE.get(phase).copied().unwrap_or(1.0),
            State::ProbeRtt => 1.0,
        }
    }

    pub(super) const fn window_gain(&self) -> f64 {
        match self.state {
            State::Startup | State::Drain => HIGH_GAIN,
            State::ProbeBw { .. } => CRUISE_WINDOW_GAIN,
            State::ProbeRtt => 1.0,
        }
    }

    pub(super) const fn name(&self) -> &'static str {
        match self.state {
            State::Startup => "startup",
            State::Drain => "drain",
            State::ProbeBw { phase: 0 } => "probe_bw_up",
            State::ProbeBw { phase: 1 } => "probe_bw_down",
            State::ProbeBw { .. } => "probe_bw_cruise",
            State::ProbeRtt => "probe_rtt",
        }
    }

    pub(super) fn sent_in_probe_rtt(&self, prior_delivered: Option<u64>) -> bool {
        match (self.probe_rtt_sent, prior_delivered) {
            (Some((from, until)), Some(prior)) => (from..=until).contains(&prior),
            _ => false,
        }
    }

    /// Any phase may be the first but the one that drains: there is no queue yet. s4.3.4.2.
    fn enter_probe_bw(&mut self, now: Instant) {
        let drawn = self.rng.below(GAIN_CYCLE.len() as u64 - 1) as usize;
        let phase = if drawn == 0 { 0 } else { drawn + 1 };
        self.state = State::ProbeBw { phase };
        self.phase_start = now;
    }
}

impl Bbr1 {
    /// s4.3.4.3.
    pub(super) fn check_cycle_phase(&mut self, sample: &Sample) {
        let State::ProbeBw { phase } = self.machine.state else {
            return;
        };
        let gain = self.machine.pacing_gain();
        let length = self.round_trip.value.unwrap_or_default();
        let long_enough = sample.now > self.machine.phase_start + length;
        let over = if gain > 1.0 {
            // Until the larger volume is in flight, or does not fit.
            let full = sample.prior_in_flight >= self.inflight(gain);
            long_enough && (full || self.recovery.newly_lost() > 0)
        } else if gain < 1.0 {
            long_enough || sample.prior_in_flight <= self.inflight(1.0)
        } else {
            long_enough
        };
        if over {
            let phase = (phase + 1) % GAIN_CYCLE.len();
            self.machine.state = State::ProbeBw { phase };
            self.machine.phase_start = sample.now;
        }
    }

    /// s4.3.3.
    pub(super) fn check_drain(&mut self, sample: &Sample) {
        if self.machine.state == State::Startup && self.full_pipe.reached {
            self.machine.state = State::Drain;
        }
        if self.machine.state == State::Drain && sample.in_flight <= self.inflight(1.0) {
            self.machine.enter_probe_bw(sample.now);
        }
    }

    /// s4.3.5.
    pub(super) fn check_probe_rtt(&mut self, sample: &Sample) {
        let due = self.round_trip.expired && !self.machine.idle_restart;
        if self.machine.state != State::ProbeRtt && due {
            self.recovery.save(self.window, false);
            self.machine.state = State::ProbeRtt;
            self.machine.probe_rtt_until = None;
            self.machine.probe_rtt_sent = None;
        }
        if self.machine.state == State::ProbeRtt {
            self.hold_probe_rtt(sample);
        }
        self.machine.idle_restart = false;
    }

    fn hold_probe_rtt(&mut self, sample: &Sample) {
        let from = self
            .machine
            .probe_rtt_sent
            .map_or(self.delivered, |(from, _)| from);
        let until = self.delivered.saturating_add(sample.in_flight);
        self.machine.probe_rtt_sent = Some((from, until));
        let Some(until) = self.machine.probe_rtt_until else {
            if sample.in_flight <= self.min_pipe() {
                self.machine.probe_rtt_until = Some(sample.now + PROBE_RTT_TIME);
                self.machine.probe_rtt_round_done = false;
                self.rounds.restart(self.delivered);
            }
            return;
        };
        self.machine.probe_rtt_round_done |= self.rounds.started;
        if self.machine.probe_rtt_round_done && sample.now > until {
            self.round_trip.stamp = sample.now;
            self.window = self.recovery.restored(self.window);
            if self.full_pipe.reached {
                self.machine.enter_probe_bw(sample.now);
            } else {
                self.machine.state = State::Startup;
            }
        }
    }
}
