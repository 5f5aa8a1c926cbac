//! Startup and Drain. s5.3.1, s5.3.2.

use super::{Bbr, model::Sample, state::State, undo::Returns};

impl Bbr {
    pub(super) fn enter_startup(&mut self) {
        self.state = State::Startup;
    }

    pub(super) fn check_startup_done(&mut self, sample: &Sample) {
        self.check_startup_high_loss(sample);
        if self.state == State::Startup && self.full_pipe.reached {
            self.state = State::Drain;
            self.drain_start_round = self.rounds.count;
            self.startup_ended = Some(sample.now);
        }
    }

    /// Ends Startup on heavy loss (or marking) over a whole round trip spent in recovery.
    fn check_startup_high_loss(&mut self, sample: &Sample) {
        if !self.signals.round_started {
            return;
        }
        // `NoteLoss` begins the loss round at the first loss; its end is a round trip later.
        let ranges = std::mem::take(&mut self.signals.loss_ranges);
        let marked = std::mem::take(&mut self.signals.marked);
        if self.state != State::Startup || self.full_pipe.reached {
            return;
        }
        let bad = sample.lost.saturating_add(marked);
        if ranges >= self.params.startup_full_loss_count
            && self.is_too_high(bad, sample.tx_in_flight)
        {
            self.undo.returns = Returns::ToStartup;
            self.end_startup_too_high();
        }
    }

    /// The pipe is more than full; Drain begins with the next acknowledgement.
    pub(super) fn end_startup_too_high(&mut self) {
        self.full_pipe.reached = true;
        self.full_pipe.now = true;
        self.inflight_longterm = self.bdp(1.0).max(self.signals.inflight_latest);
    }

    pub(super) fn check_drain_done(&mut self, sample: &Sample) {
        let drained = sample.in_flight <= self.inflight(self.bw, 1.0);
        let long = self.rounds.count > self.drain_start_round + self.params.drain_rounds;
        if self.state == State::Drain && (drained || long) {
            self.start_probe_down(sample.now);
        }
    }
}
