//! NewReno as RFC 9002 s7 and appendix B describe it for QUIC.

use super::{
    AckEvent, CongestionController, ControllerContext, ControllerFactory, ControllerMetrics,
    EcnEvent, LossEvent, SentEvent, SpuriousLossEvent, minimum_window, window_use::WindowUse,
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
    window: u64,
    /// `u64::MAX` until the first congestion event.
    threshold: u64,
    /// When the current recovery period began; packets sent until then belong to it.
    recovery_start: Option<Instant>,
    /// Acknowledged bytes not yet turned into window growth (congestion avoidance).
    acked_remainder: u64,
    window_use: WindowUse,
    before: Option<Before>,
}

impl NewReno {
    const NAME: &'static str = "newreno";

    pub(super) fn new(context: &ControllerContext) -> Self {
        Self {
            mtu: context.mtu,
            window: context.initial_window.max(minimum_window(context.mtu)),
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
    fn on_congestion(&mut self, now: Instant, sent: Instant) {
        if self.in_recovery(sent) {
            return;
        }
        self.before = Some(Before {
            window: self.window,
            threshold: self.threshold,
            after: self.recovery_start,
            until: now,
        });
        self.recovery_start = Some(now);
        let reduced = (self.window as f64 * LOSS_REDUCTION) as u64;
        self.window = reduced.max(minimum_window(self.mtu));
        self.threshold = self.window;
        self.acked_remainder = 0;
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
        if self.in_recovery(event.largest_acked_sent) || !self.window_use.tested(event) {
            return;
        }
        if self.window < self.threshold {
            self.window = self.window.saturating_add(event.acked_bytes);
            return;
        }
        // One datagram per window of acknowledged bytes; the remainder waits for the next ACK.
        let acked = event.acked_bytes.min(self.window);
        self.acked_remainder = self.acked_remainder.saturating_add(acked);
        if self.acked_remainder >= self.window {
            self.acked_remainder -= self.window;
            self.window = self.window.saturating_add(self.mtu);
        }
    }

    fn on_loss(&mut self, event: &LossEvent<'_>) {
        if let Some(last) = event.packets.iter().map(|packet| packet.sent).max() {
            self.on_congestion(event.now, last);
        }
        if event.persistent {
            self.window = minimum_window(self.mtu);
            self.recovery_start = None;
            self.acked_remainder = 0;
            self.before = None;
        }
    }

    fn on_ecn(&mut self, event: &EcnEvent) {
        self.on_congestion(event.now, event.largest_acked_sent);
        // A mark is never spurious.
        self.before = None;
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
        self.mtu = mtu;
        self.window = self.window.max(minimum_window(mtu));
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
