//! NewReno as RFC 9002 s7 and appendix B describe it for QUIC.

use super::{
    AckEvent, CongestionController, ControllerContext, ControllerFactory, ControllerMetrics,
    EcnEvent, LossEvent, SentEvent, SpuriousLossEvent, initial_window::InitialWindow,
    minimum_window, window_use::WindowUse,
};
use crate::time::Instant;

/// What the window is multiplied by on congestion. RFC 9002 appendix B.1.
pub(super) const LOSS_REDUCTION: f64 = 0.5;

/// Builds [`NewReno`] controllers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewRenoFactory {
    _private: (),
}

impl ControllerFactory for NewRenoFactory {
    fn name(&self) -> &'static str {
        NewReno::NAME
    }

    fn build(&self, context: ControllerContext) -> Box<dyn CongestionController> {
        Box::new(NewReno::new(&context))
    }
}

/// Window and threshold from before a reduction, in case the loss was spurious.
#[derive(Clone, Copy, Debug)]
struct Before {
    window: u64,
    threshold: u64,
    /// Packets of the episode left after this time (the previous episode's end)...
    after: Option<Instant>,
    /// ...and until this time.
    until: Instant,
}

/// Slow start, additive increase, halving once per round trip.
#[derive(Debug)]
pub(super) struct NewReno {
    mtu: u64,
    initial_window: InitialWindow,
    window: u64,
    /// `u64::MAX` until the first congestion event.
    threshold: u64,
    /// When the current recovery period began; packets sent until then belong to it.
    recovery_start: Option<Instant>,
    /// Acknowledged bytes not yet turned into window growth (congestion avoidance); below zero where
    /// coupling shrinks the window.
    acked_remainder: i128,
    window_use: WindowUse,
    before: Option<Before>,
}

impl NewReno {
    const NAME: &'static str = "newreno";

    pub(super) fn new(context: &ControllerContext) -> Self {
        let initial_window = InitialWindow::new(context);
        Self {
            mtu: context.mtu.max(1),
            initial_window,
            window: initial_window.bytes(),
            threshold: u64::MAX,
            recovery_start: None,
            acked_remainder: 0,
            window_use: WindowUse::new(1.0),
            before: None,
        }
    }

    /// Whether a packet that left at `sent` belongs to the recovery period under way.
    fn in_recovery(&self, sent: Instant) -> bool {
        self.recovery_start.is_some_and(|start| sent <= start)
    }

    /// RFC 9002 appendix B.6: at most one reduction per round trip.
    /// `kept` is what the window is multiplied by. Returns whether this began a recovery period.
    fn on_congestion(&mut self, now: Instant, sent: Instant, kept: f64) -> bool {
        if self.in_recovery(sent) {
            return false;
        }
        self.before = Some(Before {
            window: self.window,
            threshold: self.threshold,
            after: self.recovery_start,
            until: now,
        });
        self.recovery_start = Some(now);
        // The part of a datagram earned so far counts: RFC 9002 B.5 grows by fractions, and on
        // lossy paths, where windows are a few datagrams, forgetting it costs a tenth of the rate.
        let share = self.acked_remainder as f64 / self.window.max(1) as f64;
        let earned = share.clamp(-1.0, 1.0) * self.mtu as f64;
        let reduced = ((self.window as f64 + earned) * kept) as u64;
        self.window = reduced.max(minimum_window(self.mtu));
        self.threshold = self.window;
        self.acked_remainder = 0;
        true
    }

    /// An acknowledgement; in congestion avoidance the window grows `gain` times as fast as NewReno's.
    pub(super) fn on_ack_with_gain(&mut self, event: &AckEvent, gain: f64) {
        if self.in_recovery(event.largest_acked_sent) || !self.window_use.tested(event) {
            return;
        }
        if self.window < self.threshold {
            self.window = self.window.saturating_add(event.acked_bytes);
            return;
        }
        // One datagram per window of acknowledged bytes; the remainder waits for the next ACK.
        let acked = event.acked_bytes.min(self.window);
        self.acked_remainder += (acked as f64 * gain) as i128;
        let window = i128::from(self.window);
        if self.acked_remainder >= window {
            self.acked_remainder -= window;
            self.window = self.window.saturating_add(self.mtu);
        } else if self.acked_remainder <= -window {
            self.acked_remainder += window;
            let smaller = self.window.saturating_sub(self.mtu);
            self.window = smaller.max(minimum_window(self.mtu));
            self.threshold = self.threshold.min(self.window);
        }
    }

    /// Losses; of the window the share `kept` stays. Returns whether they began a recovery period.
    pub(super) fn on_loss_keeping(&mut self, event: &LossEvent<'_>, kept: f64) -> bool {
        let last = event.packets.iter().map(|packet| packet.sent).max();
        let began = last.is_some_and(|last| self.on_congestion(event.now, last, kept));
        if event.persistent {
            self.window = minimum_window(self.mtu);
            self.recovery_start = None;
            self.acked_remainder = 0;
            self.before = None;
        }
        began
    }

    /// Marks, likewise.
    pub(super) fn on_ecn_keeping(&mut self, event: &EcnEvent, kept: f64) -> bool {
        let began = self.on_congestion(event.now, event.largest_acked_sent, kept);
        // A mark is never spurious.
        self.before = None;
        began
    }
}

impl CongestionController for NewReno {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_sent(&mut self, event: &SentEvent) {
        self.window_use.on_sent(event, self.window, self.mtu);
    }

    fn on_ack(&mut self, event: &AckEvent) {
        self.on_ack_with_gain(event, 1.0);
    }

    fn on_loss(&mut self, event: &LossEvent<'_>) {
        self.on_loss_keeping(event, LOSS_REDUCTION);
    }

    fn on_ecn(&mut self, event: &EcnEvent) {
        self.on_ecn_keeping(event, LOSS_REDUCTION);
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLossEvent) {
        let of_episode = |before: &Before| {
            event.sent <= before.until && before.after.is_none_or(|after| event.sent > after)
        };
        if !event.episode_spurious || !self.before.as_ref().is_some_and(of_episode) {
            return;
        }
        if let Some(before) = self.before.take() {
            self.window = self.window.max(before.window);
            self.threshold = before.threshold;
            self.recovery_start = before.after;
        }
    }

    fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu.max(1);
        self.window = self.window.max(minimum_window(self.mtu));
    }

    fn on_initial_window(&mut self, bytes: u64) {
        let growing = self.threshold == u64::MAX;
        let window = self.initial_window.recalculate(bytes, self.window, growing);
        self.window = window.max(minimum_window(self.mtu));
    }

    fn on_path_full(&mut self, bytes_in_flight: u64) {
        if self.window < self.threshold {
            let held = bytes_in_flight.max(minimum_window(self.mtu));
            self.window = self.window.min(held);
            self.threshold = self.window;
        }
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> ControllerMetrics {
        let state = if self.window < self.threshold {
            "slow_start"
        } else {
            "congestion_avoidance"
        };
        let mut metrics = ControllerMetrics::new(self.window, state);
        metrics.slow_start_threshold = (self.threshold != u64::MAX).then_some(self.threshold);
        metrics
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::congestion::test_link::{self, MTU, Path, Run, Source, context, mbps, ms};

    fn at(millis: u64) -> Instant {
        Instant::ZERO + ms(millis)
    }

    fn ack(sent: u64, now: u64, bytes: u64) -> AckEvent {
        AckEvent {
            now: at(now),
            largest_acked_sent: at(sent),
            ..test_link::ack(0, 0, bytes, ms(100))
        }
    }

    fn lose(controller: &mut NewReno, sent: u64, now: u64, persistent: bool) {
        let packet = test_link::lost(0, at(sent));
        controller.on_loss(&test_link::loss(at(now), &[packet], persistent));
    }

    fn controller() -> NewReno {
        NewReno::new(&context())
    }

    // RFC 9002 s7.3.1, appendix B.5.
    #[test]
    fn slow_start_grows_by_what_is_acknowledged() {
        let mut cc = controller();
        cc.on_ack(&ack(0, 100, 3 * MTU));
        assert_eq!(cc.window(), 13 * MTU);
        assert_eq!(cc.metrics().state, "slow_start");
        assert_eq!(cc.metrics().slow_start_threshold, None);
    }

    // RFC 9002 s7.3.3.
    #[test]
    fn avoidance_adds_one_datagram_per_window() {
        let mut cc = controller();
        lose(&mut cc, 0, 10, false);
        assert_eq!(cc.window(), 5 * MTU);
        for _ in 0..4 {
            cc.on_ack(&ack(20, 120, MTU));
            assert_eq!(cc.window(), 5 * MTU);
        }
        cc.on_ack(&ack(20, 120, MTU));
        assert_eq!(cc.window(), 6 * MTU);
        assert_eq!(cc.metrics().state, "congestion_avoidance");
    }

    #[test]
    fn a_reduction_counts_parts_of_a_datagram() {
        let mut cc = controller();
        lose(&mut cc, 0, 10, false);
        for _ in 0..3 {
            cc.on_ack(&ack(20, 120, MTU));
        }
        assert_eq!(cc.window(), 5 * MTU);
        lose(&mut cc, 20, 130, false);
        assert_eq!(cc.window(), (5 * MTU + 3 * MTU / 5) / 2);
    }

    // RFC 9002 s7.3.2, appendix B.6.
    #[test]
    fn one_reduction_per_round_trip() {
        let mut cc = controller();
        lose(&mut cc, 5, 100, false);
        lose(&mut cc, 90, 110, false); // Left before recovery began.
        lose(&mut cc, 100, 120, false);
        assert_eq!(cc.window(), 5 * MTU);
        cc.on_ack(&ack(99, 130, 5 * MTU)); // No growth in recovery.
        assert_eq!(cc.window(), 5 * MTU);
        lose(&mut cc, 101, 200, false);
        assert_eq!(cc.window(), 5 * MTU / 2);
    }

    #[test]
    fn never_below_two_datagrams() {
        let mut cc = controller();
        for step in 0..20 {
            lose(&mut cc, step * 100 + 1, step * 100 + 50, false);
        }
        assert_eq!(cc.window(), 2 * MTU);
    }

    // RFC 9002 s7.6.2.
    #[test]
    fn persistent_congestion_collapses_and_ends_recovery() {
        let mut cc = controller();
        lose(&mut cc, 5, 100, true);
        assert_eq!(cc.window(), 2 * MTU);
        cc.on_ack(&ack(50, 150, MTU)); // Slow start at once, up to the threshold.
        assert_eq!(cc.window(), 3 * MTU);
        assert_eq!(cc.metrics().slow_start_threshold, Some(5 * MTU));
    }

    // RFC 9002 s7.1.
    #[test]
    fn a_mark_counts_like_a_loss() {
        let mut cc = controller();
        cc.on_ecn(&EcnEvent::new(at(100), 1, 3, at(50), 0));
        assert_eq!(cc.window(), 5 * MTU);
        lose(&mut cc, 60, 110, false);
        assert_eq!(cc.window(), 5 * MTU, "same round trip");
    }

    // RFC 9002 s7.8.
    #[test]
    fn an_unused_window_does_not_grow() {
        let mut cc = controller();
        let idle = |sent| AckEvent {
            app_limited: true,
            ..ack(sent, sent + 100, MTU)
        };
        cc.on_sent(&SentEvent::new(at(0), 0, MTU, MTU, true));
        cc.on_ack(&idle(0));
        assert_eq!(cc.window(), 10 * MTU);
        // A burst that filled the window counts, though the application is silent now.
        cc.on_sent(&SentEvent::new(at(200), 1, MTU, 10 * MTU, true));
        cc.on_ack(&idle(200));
        assert_eq!(cc.window(), 11 * MTU);
    }

    #[test]
    fn spurious_loss_is_undone_but_only_its_own() {
        let spurious = |sent, whole| SpuriousLossEvent::new(at(300), 0, at(sent), MTU, whole);
        let mut cc = controller();
        lose(&mut cc, 5, 100, false);
        cc.on_spurious_loss(&spurious(5, false));
        assert_eq!(
            cc.window(),
            5 * MTU,
            "another packet of the episode is still lost"
        );
        cc.on_spurious_loss(&spurious(5, true));
        assert_eq!(cc.window(), 10 * MTU);
        assert_eq!(cc.metrics().slow_start_threshold, None);
        lose(&mut cc, 5, 100, false);
        lose(&mut cc, 150, 200, false);
        cc.on_spurious_loss(&spurious(5, true));
        assert_eq!(cc.window(), 5 * MTU / 2, "the second episode stands");
    }

    #[test]
    fn sawtooth_over_a_link() {
        let mut run = Run::new(controller(), Path::new(20.0, 25, 1.0));
        run.run_for(Duration::from_secs(60));
        assert!(run.utilisation() > 0.97, "{}", run.utilisation());
    }

    #[test]
    fn a_slow_application_keeps_its_window() {
        let mut run = Run::new(controller(), Path::new(20.0, 25, 1.0));
        run.source = Source::AtRate(mbps(1.0), Instant::ZERO);
        run.run_for(Duration::from_secs(20));
        assert!(
            run.controller.window() <= 11 * MTU,
            "{}",
            run.controller.window()
        );
    }
}
