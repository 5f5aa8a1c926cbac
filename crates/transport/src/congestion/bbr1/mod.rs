//! BBRv1: the delivery rate and the round trip without queue set rate and window; loss does not.
//!
//! Purpose: `bbr1`, for comparison with what came after. As published, not improved: it is unfair
//! to flows that take loss for congestion, keeps shallow queues full, and favours long paths.
//! Owns: the model ([`model`]), states and gain cycle ([`machine`]), rate and window ([`control`]).
//! Does not own: delivery-rate samples (`recovery/`), rounds and samples (`bbr::model`), the
//! recovery period (`conserve`).
//! Called by: `recovery/` through [`CongestionController`].
//! Spec: draft-cardwell-iccrg-bbr-congestion-control-00 (July 2017), read from s4.1.1.4 on, which is the algorithm; section numbers
//! in this folder are that draft's.
//!
//! Where QUIC asks for more than the draft says:
//! - A retransmission timeout is persistent congestion; the window then is two datagrams, the
//!   least the core allows, where the draft says one.
//! - A round of acknowledgements that the peer was asked to hold back counts as one more quantum
//!   in the target window, as it is out of sight like the draft's three.
//! - CE marks are not looked at: the draft knows none. Do not use `bbr1` where ECN is relied on.

mod control;
mod machine;
mod model;

#[cfg(test)]
mod tests;

pub(super) use self::model::BottleneckBandwidth;
use self::{
    machine::{Machine, State},
    model::{FullPipe, RoundTrip},
};
use super::{
    AckEvent, CongestionController, ControllerContext, ControllerFactory, ControllerMetrics,
    EcnEvent, LossEvent, SentEvent, SpuriousLossEvent,
    bbr::model::{Rounds, Sample},
    conserve::Conservation,
    initial_window::InitialWindow,
    minimum_window,
};
use std::time::Duration;

use crate::{ack::AckRequest, time::Instant, units::Rate};

const NAME: &str = "bbr1";

/// Builds `bbr1` controllers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bbr1Factory {
    _private: (),
}

impl ControllerFactory for Bbr1Factory {
    fn name(&self) -> &'static str {
        NAME
    }

    fn build(&self, context: ControllerContext) -> Box<dyn CongestionController> {
        Box::new(Bbr1::new(context))
    }
}

/// The controller of one path.
#[derive(Debug)]
struct Bbr1 {
    mtu: u64,
    initial_window: InitialWindow,
    /// The path's delivered count, as last told.
    delivered: u64,

    rounds: Rounds,
    bandwidth: BottleneckBandwidth,
    round_trip: RoundTrip,
    full_pipe: FullPipe,
    machine: Machine,
    recovery: Conservation,

    pacing_rate: Rate,
    quantum: u64,
    /// What the peer was asked to do with its acknowledgements.
    ack_request: Option<AckRequest>,
    window: u64,
}

impl Bbr1 {
    fn new(context: ControllerContext) -> Self {
        let mtu = context.mtu.max(1);
        let initial_window = InitialWindow::new(&context);
        let mut bbr = Self {
            mtu,
            initial_window,
            delivered: 0,
            rounds: Rounds::default(),
            bandwidth: BottleneckBandwidth::default(),
            round_trip: RoundTrip::new(context.now),
            full_pipe: FullPipe::default(),
            machine: Machine::new(context.now, context.rng),
            recovery: Conservation::default(),
            pacing_rate: Rate::ZERO,
            quantum: 0,
            ack_request: None,
            window: initial_window.bytes(),
        };
        bbr.init_pacing_rate(None);
        bbr
    }

    fn update_model_and_state(&mut self, sample: &Sample) {
        self.rounds.on_ack(sample);
        self.bandwidth.on_sample(sample, self.rounds.count);
        self.check_cycle_phase(sample);
        self.full_pipe
            .on_ack(sample, self.rounds.started, self.bandwidth.get());
        self.check_drain(sample);
        self.round_trip.on_sample(sample.now, sample.rtt);
        self.check_probe_rtt(sample);
    }
}

impl CongestionController for Bbr1 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_sent(&mut self, _event: &SentEvent) {}

    fn on_ack(&mut self, event: &AckEvent) {
        let mut sample = Sample::new(event);
        sample.app_limited |= self.machine.sent_in_probe_rtt(sample.prior_delivered);
        self.delivered = event.delivered;
        if self.round_trip.value.is_none() && event.has_rtt_sample {
            self.init_pacing_rate(Some(event.rtt.smoothed));
        }
        if let Some(window) = self.recovery.on_ack(event.largest_acked_sent, self.window) {
            self.window = window;
        }
        self.update_model_and_state(&sample);
        self.set_pacing_rate(self.machine.pacing_gain());
        self.set_quantum();
        self.set_window(&sample);
    }

    fn on_loss(&mut self, event: &LossEvent<'_>) {
        self.delivered = event.delivered;
        let in_probe_rtt = self.machine.state == State::ProbeRtt;
        let floor = minimum_window(self.mtu);
        if let Some(window) = self
            .recovery
            .on_loss(event, self.window, self.mtu, in_probe_rtt)
        {
            self.window = window.max(floor);
        }
        if event.persistent {
            self.recovery
                .on_timeout(event.now, self.window, in_probe_rtt);
            self.window = floor;
        }
    }

    fn on_ecn(&mut self, _event: &EcnEvent) {}

    fn on_spurious_loss(&mut self, event: &SpuriousLossEvent) {
        if let Some(window) = self.recovery.on_spurious(event, self.window) {
            self.window = window;
            self.bound_for_probe_rtt();
        }
    }

    fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu.max(1);
        self.window = self.window.max(minimum_window(self.mtu));
        self.set_quantum();
    }

    fn on_initial_window(&mut self, bytes: u64) {
        let growing = self.machine.state == State::Startup && !self.full_pipe.reached;
        let window = self.initial_window.recalculate(bytes, self.window, growing);
        self.window = window.max(minimum_window(self.mtu));
        if growing {
            // While the pipe is not known to be full, the initial window is what there is to pace by.
            let rate = self.pacing_rate;
            self.init_pacing_rate(self.round_trip.value);
            self.pacing_rate = self.pacing_rate.max(rate);
            self.set_quantum();
        }
    }

    fn on_path_full(&mut self, _bytes_in_flight: u64) {
        self.full_pipe.reached = true;
    }

    fn on_ack_request(&mut self, request: &AckRequest) {
        self.ack_request = Some(*request);
    }

    fn on_return_path(&mut self, now: Instant, _before: Duration, after: Duration) {
        self.round_trip.on_return_path(now, after);
    }

    fn on_restart_from_idle(&mut self, _now: Instant) {
        self.machine.idle_restart = true;
        if matches!(self.machine.state, State::ProbeBw { .. }) {
            self.set_pacing_rate(1.0);
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
        let mut metrics = ControllerMetrics::new(self.window, self.machine.name());
        metrics.pacing_rate = Some(self.pacing_rate);
        metrics.bandwidth = Some(self.bandwidth.get());
        metrics.filled_pipe = self.machine.state != State::Startup;
        metrics
    }
}
