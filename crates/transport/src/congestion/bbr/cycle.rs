//! The ProbeBW cycle: down, cruise, refill, up. s5.3.3.

use std::time::Duration;

use super::{
    Bbr,
    model::{Sample, UNBOUNDED},
    state::{AckPhase, State},
};
use crate::{rng::Rng, time::Instant, units::Rate};

/// Where a path is in the cycle, and what the last probe taught.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    pub(super) ack_phase: AckPhase,
    /// Whether acknowledgements and losses now concern packets of a probe, and nothing has been
    /// concluded from it yet.
    pub(super) probe_sample: bool,
    /// The last probe lost too much.
    pub(super) previous_too_high: bool,
    /// The last probe ended early, out of caution.
    pub(super) previous_precautionary: bool,
    /// Acknowledged bytes since the long-term bound last rose.
    up_acked: u64,
    /// Acknowledged bytes per datagram that the bound rises.
    up_acked_per_increment: u64,
    /// Rounds that it has been rising.
    up_rounds: u32,
    pub(super) rounds_since_probe: u64,
    pub(super) wait: Duration,
    started: Instant,
    rng: Rng,
}

impl Cycle {
    pub(super) fn new(now: Instant, rng: Rng) -> Self {
        Self {
            ack_phase: AckPhase::Init,
            probe_sample: false,
            previous_too_high: false,
            previous_precautionary: false,
            up_acked: 0,
            up_acked_per_increment: UNBOUNDED,
            up_rounds: 0,
            rounds_since_probe: 0,
            wait: Duration::ZERO,
            started: now,
            rng,
        }
    }
}

impl Bbr {
    pub(super) fn start_probe_down(&mut self, now: Instant) {
        self.signals.reset();
        self.cycle.up_acked_per_increment = UNBOUNDED;
        self.pick_probe_wait();
        self.cycle.started = now;
        self.cycle.ack_phase = AckPhase::ProbeStopping;
        self.rounds.restart(self.delivered);
        self.state = State::ProbeDown;
    }

    pub(super) fn start_probe_cruise(&mut self) {
        self.state = State::ProbeCruise;
    }

    pub(super) fn start_probe_refill(&mut self) {
        self.reset_short_term_model();
        self.cycle.up_rounds = 0;
        self.cycle.up_acked = 0;
        self.cycle.previous_precautionary = false;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.rounds.restart(self.delivered);
        self.state = State::ProbeRefill;
    }

    fn start_probe_up(&mut self, sample: &Sample) {
        self.cycle.ack_phase = AckPhase::ProbeStarting;
        self.rounds.restart(self.delivered);
        self.full_pipe.restart(sample.delivery_rate);
        self.state = State::ProbeUp;
        self.raise_longterm_slope();
    }

    /// Randomised, so that flows sharing a bottleneck do not probe together.
    fn pick_probe_wait(&mut self) {
        self.cycle.rounds_since_probe = self.cycle.rng.below(2);
        let jitter = self
            .params
            .probe_wait_jitter
            .mul_f64(self.cycle.rng.unit_f64());
        self.cycle.wait = self.params.probe_wait + jitter;
    }

    /// One step per ACK.
    pub(super) fn update_cycle(&mut self, sample: &Sample) {
        if !self.full_pipe.reached || self.adapt_long_term_model(sample) {
            return;
        }
        let state = self.state;
        match state {
            State::ProbeDown | State::ProbeCruise if self.is_time_to_probe(sample.now) => {
                self.start_probe_refill();
            }
            State::ProbeDown if self.is_time_to_cruise(sample) => self.start_probe_cruise(),
            State::ProbeRefill if self.rounds.started => {
                self.cycle.probe_sample = true;
                self.start_probe_up(sample);
            }
            State::ProbeUp if self.is_time_to_go_down(sample) => {
                self.cycle.previous_too_high = false;
                self.start_probe_down(sample.now);
            }
            _ => {}
        }
    }

    fn is_time_to_probe(&self, now: Instant) -> bool {
        now > self.cycle.started + self.cycle.wait || self.is_reno_coexistence_probe_time()
    }

    /// Reno at this window would have recovered from its last halving by now. s5.3.3.5.3.
    fn is_reno_coexistence_probe_time(&self) -> bool {
        let rounds = (self.target_inflight() / self.mtu).min(self.params.reno_rounds);
        self.cycle.rounds_since_probe >= rounds
    }

    fn is_time_to_cruise(&self, sample: &Sample) -> bool {
        sample.in_flight <= self.inflight_with_headroom()
            && sample.in_flight <= self.inflight(self.max_bw.get(), 1.0)
    }

    fn is_time_to_go_down(&mut self, sample: &Sample) -> bool {
        // The bound is reached when not another datagram fits below it.
        let peak = sample
            .prior_in_flight
            .max(sample.in_flight)
            .saturating_add(self.mtu);
        if self.cycle.previous_too_high && peak > self.inflight_longterm {
            self.cycle.previous_precautionary = true;
            return true;
        }
        if self.params.rules.brief_probe && self.full_pipe.now {
            return true;
        }
        if self.cwnd_limited.recently() && self.window >= self.inflight_longterm {
            // The bound, not the path, limits the rate: a plateau says nothing.
            self.full_pipe.restart(sample.delivery_rate);
            return false;
        }
        self.full_pipe.now
    }

    /// Follows the probe through its acknowledgements; returns whether it changed the state.
    fn adapt_long_term_model(&mut self, sample: &Sample) -> bool {
        if self.cycle.ack_phase == AckPhase::ProbeStarting && self.rounds.started {
            self.cycle.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.cycle.ack_phase == AckPhase::ProbeStopping && self.rounds.started {
            self.cycle.probe_sample = false;
            self.cycle.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !sample.app_limited {
                self.max_bw.advance();
            }
            // The cautious probe went well: probe again at once, this time without caution.
            if self.state.is_probe_bw()
                && self.cycle.previous_precautionary
                && !self.cycle.previous_too_high
            {
                self.start_probe_refill();
                return true;
            }
        }
        if self.inflight_longterm != UNBOUNDED
            && !self.is_too_high(sample.lost, sample.tx_in_flight)
        {
            self.inflight_longterm = self.inflight_longterm.max(sample.tx_in_flight);
            if self.state == State::ProbeUp {
                self.probe_longterm_upward(sample);
            }
        }
        false
    }

    /// The bound rises by 1, 2, 4, ... datagrams per round.
    pub(super) fn raise_longterm_slope(&mut self) {
        let growth = 1u64 << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(30);
        self.cycle.up_acked_per_increment = (self.window / growth).max(self.mtu);
    }

    pub(super) fn probe_longterm_upward(&mut self, sample: &Sample) {
        if !self.cwnd_limited.recently() || self.window < self.inflight_longterm {
            return; // The bound is not in use.
        }
        self.cycle.up_acked = self.cycle.up_acked.saturating_add(sample.newly_acked);
        let per_increment = self.cycle.up_acked_per_increment.max(1);
        let increments = self.cycle.up_acked / per_increment;
        self.cycle.up_acked %= per_increment;
        let raise = increments.saturating_mul(self.mtu);
        self.inflight_longterm = self
            .inflight_longterm
            .saturating_add(raise)
            .min(UNBOUNDED - 1);
        if self.rounds.started {
            self.raise_longterm_slope();
        }
    }

    /// The estimated BDP, unless congestion cut the window below it.
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp(1.0).min(self.window)
    }

    pub(super) fn inflight_with_headroom(&self) -> u64 {
        if self.inflight_longterm == UNBOUNDED {
            return UNBOUNDED;
        }
        let share = (self.params.headroom * self.inflight_longterm as f64) as u64;
        self.inflight_longterm
            .saturating_sub(share.max(self.mtu))
            .max(self.min_pipe())
    }

    /// The next search for a plateau starts from nothing.
    pub(super) fn reset_full_bw(&mut self) {
        self.full_pipe.restart(Rate::ZERO);
    }
}
