//! BBR: a model of the path sets rate and window.
//!
//! Purpose: `bbr3`, the algorithm of draft-ietf-ccwg-bbr-06, and `bbr3-taut`, which deviates from
//! it by the rules of [`taut`].
//! Owns: the path model ([`model`]), the states ([`state`], [`startup`], [`cycle`],
//! [`probe_rtt`]), the bounds that loss sets ([`bounds`], [`undo`]), rate and window ([`control`]).
//! Does not own: delivery-rate samples (`recovery/`), pacing itself (`super::pacer`).
//! Called by: `recovery/` through [`CongestionController`].
//! Spec: draft-ietf-ccwg-bbr-06; section numbers in this folder are that draft's.
//! To add a variant: a change of gains or times is another [`Params`] and factory; another state
//! machine is a sibling of [`Bbr`] built on [`model`].

mod bounds;
mod control;
mod cycle;
pub(super) mod model;
mod params;
mod probe_rtt;
mod startup;
mod state;
mod taut;
mod undo;

#[cfg(test)]
mod tests;

pub use self::taut::{Bbr3TautFactory, TautRules};

use self::{
    bounds::Signals,
    cycle::Cycle,
    model::{Aggregation, FullPipe, MaxBandwidth, MinRtt, Rounds, Sample, UNBOUNDED},
    params::Params,
    probe_rtt::ProbeRtt,
    state::State,
    taut::{Even, Ledger, QueueView, Share},
    undo::{Recovery, Undo},
};
use super::{
    AckEvent, CongestionController, ControllerContext, ControllerFactory, ControllerMetrics,
    EcnEvent, LossEvent, SentEvent, SpuriousLossEvent, initial_window::InitialWindow,
    minimum_window,
};
use std::time::Duration;

use crate::{ack::AckRequest, time::Instant, units::Rate};

/// Builds `bbr3` controllers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bbr3Factory {
    _private: (),
}

impl ControllerFactory for Bbr3Factory {
    fn name(&self) -> &'static str {
        Params::BBR3.name
    }

    fn build(&self, context: ControllerContext) -> Box<dyn CongestionController> {
        Box::new(Bbr::new(Params::BBR3, context))
    }
}

/// Whether the window was in full use during this round trip or the last.
#[derive(Clone, Copy, Debug, Default)]
struct CwndLimited {
    this_round: bool,
    last_round: bool,
}

impl CwndLimited {
    fn on_round(&mut self) {
        self.last_round = std::mem::take(&mut self.this_round);
    }

    const fn recently(&self) -> bool {
        self.this_round || self.last_round
    }
}

/// The controller of one path.
#[derive(Debug)]
struct Bbr {
    params: Params,
    mtu: u64,
    initial_window: InitialWindow,
    /// The path's delivered count, as last told.
    delivered: u64,

    rounds: Rounds,
    max_bw: MaxBandwidth,
    min_rtt: MinRtt,
    aggregation: Aggregation,
    full_pipe: FullPipe,

    /// The rate believed safe now: `min(max_bw, bw_shortterm)`.
    bw: Rate,
    /// [`Rate::MAX`] while unset.
    bw_shortterm: Rate,
    /// [`UNBOUNDED`] while unset.
    inflight_longterm: u64,
    inflight_shortterm: u64,
    signals: Signals,
    recovery: Recovery,
    undo: Undo,

    state: State,
    drain_start_round: u64,
    startup_ended: Option<Instant>,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    idle_restart: bool,
    cwnd_limited: CwndLimited,

    /// Loss with and without a queue.
    ledger: Ledger,
    queue: QueueView,
    /// Present while others keep the queue full.
    share: Option<Share>,
    /// How fast short bursts may leave.
    even: Even,

    pacing_rate: Rate,
    quantum: u64,
    /// What the peer was asked to do with its acknowledgements.
    ack_request: Option<AckRequest>,
    window: u64,
    prior_window: u64,
}

impl Bbr {
    fn new(params: Params, context: ControllerContext) -> Self {
        let mtu = context.mtu.max(1);
        let initial_window = InitialWindow::new(&context);
        let mut bbr = Self {
            params,
            mtu,
            initial_window,
            delivered: 0,
            rounds: Rounds::default(),
            max_bw: MaxBandwidth::default(),
            min_rtt: MinRtt::new(context.now),
            aggregation: Aggregation::new(context.now),
            full_pipe: FullPipe::default(),
            bw: Rate::ZERO,
            bw_shortterm: Rate::MAX,
            inflight_longterm: UNBOUNDED,
            inflight_shortterm: UNBOUNDED,
            signals: Signals::default(),
            recovery: Recovery::default(),
            undo: Undo::default(),
            state: State::Startup,
            drain_start_round: 0,
            startup_ended: None,
            cycle: Cycle::new(context.now, context.rng),
            probe_rtt: ProbeRtt::new(initial_window.bytes()),
            idle_restart: false,
            cwnd_limited: CwndLimited::default(),
            ledger: Ledger::default(),
            queue: QueueView::new(context.now),
            share: None,
            even: Even::default(),
            pacing_rate: Rate::ZERO,
            quantum: 0,
            ack_request: None,
            window: initial_window.bytes(),
            prior_window: 0,
        };
        bbr.init_pacing_rate(None);
        bbr
    }

    /// s5.2.3, in its order.
    fn update_model_and_state(&mut self, sample: &Sample) {
        self.signals.update(sample);
        self.update_congestion_signals(sample);
        let keep = if self.full_pipe.reached {
            self.params.extra_acked_rounds
        } else {
            1
        };
        self.aggregation
            .on_ack(sample, self.bw, self.window, self.rounds.count, keep);
        self.full_pipe
            .on_ack(sample, self.rounds.started, &self.params);
        self.look_for_others();
        self.check_brief_probe(sample);
        self.check_startup_done(sample);
        self.check_drain_done(sample);
        self.update_cycle(sample);
        self.update_min_rtt(sample);
        self.check_probe_rtt(sample);
        self.signals.advance(sample);
        self.update_share(sample);
        self.bw = self.max_bw.get().min(self.bw_shortterm);
    }

    fn update_congestion_signals(&mut self, sample: &Sample) {
        self.rounds.on_ack(sample);
        if self.rounds.started {
            self.cycle.rounds_since_probe += 1;
            self.cwnd_limited.on_round();
        }
        self.max_bw.on_sample(sample);
        self.adapt_lower_bounds();
        self.note_acked(sample);
    }
}

impl CongestionController for Bbr {
    fn name(&self) -> &'static str {
        self.params.name
    }

    fn on_sent(&mut self, event: &SentEvent) {
        self.cwnd_limited.this_round |=
            event.bytes_in_flight.saturating_add(self.mtu) > self.window;
        self.share_on_sent(event);
        self.even_on_sent(event);
    }

    fn on_ack(&mut self, event: &AckEvent) {
        let mut sample = Sample::new(event);
        sample.app_limited |= self.probe_rtt.limited(sample.prior_delivered);
        self.delivered = event.delivered;
        if self.min_rtt.value.is_none() && event.has_rtt_sample {
            self.init_pacing_rate(Some(event.rtt.smoothed));
        }
        if self.recovery.on_ack(event.largest_acked_sent) {
            self.restore_window();
        }
        self.update_model_and_state(&sample);
        self.set_pacing_rate(self.state.pacing_gain(&self.params));
        self.set_quantum();
        self.set_window(&sample);
        self.share_on_ack(event);
    }

    fn on_loss(&mut self, event: &LossEvent<'_>) {
        self.delivered = event.delivered;
        self.note_lost(event);
        self.handle_lost_packets(event);
        self.share_on_loss(event);
        if event.persistent {
            // As after a retransmission timeout: room for one more packet. s5.6.4.4.
            let window = event.bytes_in_flight.saturating_add(self.mtu);
            self.window = window.max(minimum_window(self.mtu));
        }
    }

    fn on_ecn(&mut self, event: &EcnEvent) {
        self.handle_marks(event);
        self.share_on_ecn(event);
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLossEvent) {
        self.handle_spurious_loss(event);
        self.share_on_spurious(event);
    }

    fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu.max(1);
        self.share_on_mtu();
        self.window = self.window.max(minimum_window(self.mtu));
        self.set_quantum();
    }

    fn on_initial_window(&mut self, bytes: u64) {
        let growing = self.state == State::Startup && !self.full_pipe.reached;
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
        if self.state == State::Startup && !self.full_pipe.reached {
            self.end_startup_too_high();
        }
    }

    fn on_ack_request(&mut self, request: &AckRequest) {
        self.ack_request = Some(*request);
    }

    fn on_return_path(&mut self, now: Instant, before: Duration, after: Duration) {
        self.min_rtt.on_return_path(now, after);
        self.queue.shift(before, after);
    }

    fn on_restart_from_idle(&mut self, now: Instant) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        self.share_on_idle(now);
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
