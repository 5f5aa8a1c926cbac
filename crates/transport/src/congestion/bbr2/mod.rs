//! BBRv2: BBR that keeps loss below a threshold and leaves room for others.
//!
//! Purpose: `bbr2`, for comparison with BBRv1 and BBRv3. As published, not improved: the upper
//! bound of what may be in flight grows back slowly when capacity appears, and random loss keeps
//! the short-term bounds low.
//! Owns: states and cycle ([`cycle`]), what loss bounds ([`bounds`]), the minimum round trip and
//! its probes ([`probe_rtt`]), rate and window ([`control`]).
//! Does not own: delivery-rate samples (`recovery/`); rounds, largest bandwidth and aggregation
//! (`bbr::model`, the same in both drafts); the recovery period (`conserve`).
//! Called by: `recovery/` through [`CongestionController`].
//! Spec: draft-cardwell-iccrg-bbr-congestion-control-02 (March 2022); section numbers in this
//! folder are that draft's. What was read: -01 (November 2021) from s4.3.3.5 to s4.6.4.6, and of
//! -02 the parts where it differs as far as public sources quote them: ProbeBW_DOWN paces at 0.9
//! (-01: 0.75), and cruising begins only at or below the estimated BDP (-01: also after a
//! `min_rtt`). Where -02 changed more than that, this is -01.
//!
//! Where the text leaves a gap:
//! - `bw_hi`: no rule ever sets it, and read literally nothing would ever raise `inflight_hi`
//!   while it is unset. The largest bandwidth of two cycles, `max_bw`, is the upper bound of the
//!   rate here, and an unset `bw_hi` does not keep `inflight_hi` from rising.
//! - The samples of a probe end one round trip after ProbeBW_UP, and with them the filter's cycle
//!   advances once, as s4.5.2.5 says in words; the listing would advance it each round.
//! - CE marks: the draft has no response. A round with marks counts as a round with loss, and
//!   marks above the loss threshold as too much in flight (RFC 9002 s7.1 wants a response).
//! - Packets that the peer was asked to acknowledge together are part of the offload budget.

mod bounds;
mod control;
mod cycle;
mod probe_rtt;

#[cfg(test)]
mod tests;

use self::{
    bounds::{Bounds, Latest},
    cycle::{Cycle, State},
    probe_rtt::{MinRtt, ProbeRtt},
};
use super::{
    AckEvent, CongestionController, ControllerContext, ControllerFactory, ControllerMetrics,
    EcnEvent, LossEvent, SentEvent, SpuriousLossEvent,
    bbr::model::{Aggregation, MaxBandwidth, Rounds, Sample},
    conserve::Conservation,
    initial_window::InitialWindow,
    minimum_window,
};
use std::time::Duration;

use crate::{ack::AckRequest, time::Instant, units::Rate};

const NAME: &str = "bbr2";

/// Builds `bbr2` controllers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bbr2Factory {
    _private: (),
}

impl ControllerFactory for Bbr2Factory {
    fn name(&self) -> &'static str {
        NAME
    }

    fn build(&self, context: ControllerContext) -> Box<dyn CongestionController> {
        Box::new(Bbr2::new(context))
    }
}

/// The controller of one path.
#[derive(Debug)]
struct Bbr2 {
    mtu: u64,
    initial_window: InitialWindow,
    /// The path's delivered count, as last told.
    delivered: u64,

    rounds: Rounds,
    max_bw: MaxBandwidth,
    min_rtt: MinRtt,
    aggregation: Aggregation,
    latest: Latest,
    bounds: Bounds,
    recovery: Conservation,

    state: State,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    idle_restart: bool,
    /// When the window was last full.
    full_at: Option<Instant>,

    /// `min(max_bw, bw_lo)`.
    bw: Rate,
    pacing_rate: Rate,
    quantum: u64,
    /// What the peer was asked to do with its acknowledgements.
    ack_request: Option<AckRequest>,
    window: u64,
}

impl Bbr2 {
    fn new(context: ControllerContext) -> Self {
        let mtu = context.mtu.max(1);
        let initial_window = InitialWindow::new(&context);
        let mut bbr = Self {
            mtu,
            initial_window,
            delivered: 0,
            rounds: Rounds::default(),
            max_bw: MaxBandwidth::default(),
            min_rtt: MinRtt::new(context.now),
            aggregation: Aggregation::new(context.now),
            latest: Latest::default(),
            bounds: Bounds::default(),
            recovery: Conservation::default(),
            state: State::Startup,
            cycle: Cycle::new(context.now, context.rng),
            probe_rtt: ProbeRtt::default(),
            idle_restart: false,
            full_at: None,
            bw: Rate::ZERO,
            pacing_rate: Rate::ZERO,
            quantum: 0,
            ack_request: None,
            window: initial_window.bytes(),
        };
        bbr.init_pacing_rate(None);
        bbr
    }

    /// s4.2.2, in its order.
    fn update_model_and_state(&mut self, sample: &Sample, in_recovery: bool, full: bool) {
        self.latest.on_ack(sample);
        self.rounds.on_ack(sample);
        self.cycle.rounds_since_probe += u64::from(self.rounds.started);
        self.max_bw.on_sample(sample);
        self.adapt_lower_bounds();
        self.aggregation.on_ack(
            sample,
            self.bw,
            self.window,
            self.rounds.count,
            cycle::EXTRA_ACKED_ROUNDS,
        );
        self.check_startup_done(sample, in_recovery);
        self.check_drain_done(sample);
        self.update_cycle(sample, full);
        self.min_rtt.on_sample(sample.now, sample.rtt);
        self.check_probe_rtt(sample);
        self.latest.after_ack(sample);
        self.bw = self.max_bw.get().min(self.bounds.bw_lo);
    }
}

impl CongestionController for Bbr2 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_sent(&mut self, event: &SentEvent) {
        if event.bytes_in_flight.saturating_add(self.mtu) > self.window {
            self.full_at = Some(event.now);
        }
    }

    fn on_ack(&mut self, event: &AckEvent) {
        let mut sample = Sample::new(event);
        sample.app_limited |= self.probe_rtt.sent_in_it(sample.prior_delivered);
        self.delivered = event.delivered;
        if self.min_rtt.value.is_none() && event.has_rtt_sample {
            self.init_pacing_rate(Some(event.rtt.smoothed));
        }
        let in_recovery = self.recovery.is_open();
        if let Some(window) = self.recovery.on_ack(event.largest_acked_sent, self.window) {
            self.window = window;
        }
        // The window was full when, or after, the acknowledged packet left.
        let full = self
            .full_at
            .is_some_and(|at| event.largest_acked_sent <= at);
        self.update_model_and_state(&sample, in_recovery, full);
        self.set_pacing_rate(self.state.pacing_gain());
        self.set_quantum();
        self.set_window(&sample);
    }

    fn on_loss(&mut self, event: &LossEvent<'_>) {
        self.delivered = event.delivered;
        let in_probe_rtt = self.state == State::ProbeRtt;
        let floor = minimum_window(self.mtu);
        if let Some(window) = self
            .recovery
            .on_loss(event, self.window, self.mtu, in_probe_rtt)
        {
            self.window = window.max(floor);
        }
        self.judge_losses(event);
        if event.persistent {
            // Room for one more packet. s4.6.4.4.
            self.recovery
                .on_timeout(event.now, self.window, in_probe_rtt);
            let window = event.bytes_in_flight.saturating_add(self.mtu);
            self.window = window.max(floor);
        }
    }

    fn on_ecn(&mut self, event: &EcnEvent) {
        self.judge_marks(event);
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLossEvent) {
        if let Some(window) = self.recovery.on_spurious(event, self.window) {
            self.window = window;
            self.bound_window();
        }
    }

    fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu.max(1);
        self.window = self.window.max(minimum_window(self.mtu));
        self.set_quantum();
    }

    fn on_initial_window(&mut self, bytes: u64) {
        let growing = self.state == State::Startup;
        let window = self.initial_window.recalculate(bytes, self.window, growing);
        self.window = window.max(minimum_window(self.mtu));
        if growing {
            // While the pipe is not known to be full, the initial window is what there is to pace by.
            let rate = self.pacing_rate;
            self.init_pacing_rate(self.min_rtt.value);
            self.pacing_rate = self.pacing_rate.max(rate);
            self.set_quantum();
        }
    }

    fn on_path_full(&mut self, _bytes_in_flight: u64) {
        self.cycle.filled_pipe = true;
    }

    fn on_ack_request(&mut self, request: &AckRequest) {
        self.ack_request = Some(*request);
    }

    fn on_return_path(&mut self, now: Instant, _before: Duration, after: Duration) {
        self.min_rtt.on_return_path(now, after);
    }

    /// s4.4.
    fn on_restart_from_idle(&mut self, now: Instant) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        if self.state.is_probe_bw() {
            self.set_pacing_rate(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.pacing_rate)
    }

    fn send_quantum(&self) -> Option<u64> {
        Some(self.quantum)
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::new(self.window, self.state.name());
        metrics.pacing_rate = Some(self.pacing_rate);
        metrics.bandwidth = Some(self.bw);
        metrics.filled_pipe = self.state != State::Startup;
        metrics
    }
}
