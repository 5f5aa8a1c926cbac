//! `ignore-loss`: a control for experiments. Never for networks that others use.
//!
//! Purpose: what is left of a loss-recovery scheme's gain when loss costs no sending rate at all.
//! A scheme that repairs losses before the controller sees them must be compared with this.
//! Owns: a window that grows as in slow start up to 1.5 times the measured bandwidth-delay
//! product, the largest delivery rate of ten round trips times the smallest RTT; so it grows by
//! half per round trip until the path delivers no more. Loss and CE marks change nothing.
//! Does not own: rounds and samples (`bbr::model`), pacing (the core's, from window and RTT).
//! Called by: `recovery/`. Spec: none. Only [`super::registry::lab_names`] lists it.
//!
//! Two things hold it back: the multiple of what was delivered, which bounds the queue that it
//! keeps, and persistent congestion (RFC 9002 s7.6): where nothing at all arrives it starts over.

use super::{
    AckEvent, CongestionController, ControllerContext, ControllerFactory, ControllerMetrics,
    EcnEvent, LossEvent, SentEvent,
    bbr::model::{Rounds, Sample},
    bbr1::BottleneckBandwidth,
    initial_window::InitialWindow,
    minimum_window,
};
use crate::units::Rate;

const NAME: &str = "ignore-loss";
/// The window at most, in measured bandwidth-delay products.
const PRODUCTS: f64 = 1.5;

/// Builds `ignore-loss` controllers.
#[derive(Clone, Copy, Debug, Default)]
pub struct IgnoreLossFactory {
    _private: (),
}

impl ControllerFactory for IgnoreLossFactory {
    fn name(&self) -> &'static str {
        NAME
    }

    fn build(&self, context: ControllerContext) -> Box<dyn CongestionController> {
        Box::new(IgnoreLoss::new(&context))
    }
}

#[derive(Debug)]
struct IgnoreLoss {
    mtu: u64,
    initial_window: InitialWindow,
    window: u64,
    rounds: Rounds,
    bandwidth: BottleneckBandwidth,
    growing: bool,
}

impl IgnoreLoss {
    fn new(context: &ControllerContext) -> Self {
        let initial_window = InitialWindow::new(context);
        Self {
            mtu: context.mtu.max(1),
            initial_window,
            window: initial_window.bytes(),
            rounds: Rounds::default(),
            bandwidth: BottleneckBandwidth::default(),
            growing: true,
        }
    }
}

impl CongestionController for IgnoreLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_sent(&mut self, _event: &SentEvent) {}

    fn on_ack(&mut self, event: &AckEvent) {
        let sample = Sample::new(event);
        self.rounds.on_ack(&sample);
        self.bandwidth.on_sample(&sample, self.rounds.count);
        let product = self.bandwidth.get().bytes_in(event.rtt.min);
        let most = ((PRODUCTS * product as f64) as u64)
            .max(self.initial_window.bytes())
            .max(minimum_window(self.mtu));
        let grown = self.window.saturating_add(event.acked_bytes);
        self.growing = grown < most;
        self.window = grown.min(most);
    }

    fn on_loss(&mut self, event: &LossEvent<'_>) {
        if event.persistent {
            self.window = minimum_window(self.mtu);
        }
    }

    fn on_ecn(&mut self, _event: &EcnEvent) {}

    fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu.max(1);
        self.window = self.window.max(minimum_window(self.mtu));
    }

    fn on_initial_window(&mut self, bytes: u64) {
        // No model allows less than the initial window.
        let growing = self.growing || self.window == self.initial_window.bytes();
        let window = self.initial_window.recalculate(bytes, self.window, growing);
        self.window = window.max(minimum_window(self.mtu));
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> ControllerMetrics {
        let state = if self.growing { "slow_start" } else { "full" };
        let mut metrics = ControllerMetrics::new(self.window, state);
        metrics.filled_pipe = !self.growing;
        metrics.bandwidth = Some(self.bandwidth.get()).filter(|rate| *rate > Rate::ZERO);
        metrics
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::congestion::test_link::{MTU, Path, Run, context, loss, lost, ms};
    use crate::time::Instant;

    fn controller() -> IgnoreLoss {
        IgnoreLoss::new(&context())
    }

    #[test]
    fn loss_and_marks_change_nothing_but_silence_does() {
        let mut cc = controller();
        let packet = lost(0, Instant::ZERO);
        cc.on_loss(&loss(Instant::ZERO + ms(9), &[packet], false));
        cc.on_ecn(&EcnEvent::new(
            Instant::ZERO + ms(9),
            1,
            1,
            Instant::ZERO,
            0,
        ));
        assert_eq!(cc.window(), 10 * MTU);
        cc.on_loss(&loss(Instant::ZERO + ms(9), &[packet], true));
        assert_eq!(cc.window(), 2 * MTU);
    }

    /// 5 % of random loss costs 5 %.
    #[test]
    fn random_loss_costs_what_is_lost() {
        for rate in [0.0, 0.01, 0.05] {
            let mut run = Run::new(controller(), Path::new(20.0, 100, 1.0).with_loss(rate));
            run.run_for(Duration::from_secs(5)).mark();
            run.run_for(Duration::from_secs(20));
            let share = run.utilisation();
            println!("{rate} lost: {share:.3} of capacity");
            assert!(share > 0.98, "{share}");
        }
    }

    /// In a queue too short for its window it goes on losing, yet the window stays bounded.
    #[test]
    fn the_window_follows_what_is_delivered() {
        let mut run = Run::new(controller(), Path::new(20.0, 100, 0.1));
        run.run_for(Duration::from_secs(20));
        let product = run.path.rate.bytes_in(run.path.delay);
        let products = run.controller.window() as f64 / product as f64;
        println!("window of {products:.2} BDP, {:.3} lost", run.loss_share());
        assert!(products <= 1.6, "{products}");
        run.path.rate = run.path.rate.mul_f64(0.1);
        run.run_for(Duration::from_secs(60));
        let products = 10.0 * run.controller.window() as f64 / product as f64;
        println!("after a tenfold drop: {products:.2} BDP");
        assert!(products <= 1.7, "{products}");
    }
}
