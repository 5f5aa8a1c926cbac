//! Redundancy for the ends of bursts: what is lost there waits longest for its retransmission.

use std::time::Duration;

use super::{
    Occasion, RedundancyFactory, RedundancyScheduler, RedundancyView, Repairs, before_flight,
    last_flight,
};
use crate::time::{Instant, earliest};

/// Repair symbols per source symbol in flight, at most: the papers' beta, and what it is by default.
pub(super) const BETA: f64 = 0.3;
/// What `quirl-burst` takes for a burst: any.
const ANY_BURST: u32 = 0;

/// `quirl-object` and `quirl-burst`: when the application has nothing more to send (or flow control
/// lets nothing go), as many repair symbols as a run of losses is long, on average and two
/// standard deviations more, but at most beta (0.3) of the packets in flight, cover all packets in flight.
///
/// `quirl-burst` lets bursts below a size pass, and waits for a time that the application can spare, so
/// that the bursts within it are covered together.
///
/// A path without a loss so far says nothing of how long a run would be: the bound alone holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quirl {
    name: &'static str,
    /// Bytes of frames in a burst that calls for repair symbols.
    burst_bytes: u64,
    /// How long data may come later than it would without losses.
    jitter: Duration,
    /// Repair symbols per packet in flight, at most.
    beta: f64,
    due: Option<Instant>,
}

impl Quirl {
    pub(super) const OBJECT: &'static str = "quirl-object";
    pub(super) const BURST: &'static str = "quirl-burst";

    /// For objects: at every end.
    pub fn object() -> Self {
        Self {
            name: Self::OBJECT,
            ..Self::burst(ANY_BURST, Duration::ZERO)
        }
    }

    /// For bursts of at least so many bytes; repair symbols leave `jitter` after their end.
    pub fn burst(bytes: u32, jitter: Duration) -> Self {
        Self {
            name: Self::BURST,
            burst_bytes: u64::from(bytes),
            jitter,
            beta: BETA,
            due: None,
        }
    }

    /// With at most so many repair symbols per packet in flight: between 0 and 1.
    #[must_use]
    pub fn with_beta(self, beta: f64) -> Self {
        Self {
            beta: if beta.is_nan() {
                BETA
            } else {
                beta.clamp(0.0, 1.0)
            },
            ..self
        }
    }

    /// Whether a packet that leaves now will be in flight when the last of what waits has left. One
    /// that will not shows its loss by those behind it, and is retransmitted no later than the last
    /// of them arrive.
    pub(super) fn is_of_last_flight(view: &RedundancyView) -> bool {
        view.waiting_bytes <= Self::last_flight(view)
    }

    /// Bytes that can leave before that may be so, as long as the congestion window does not grow.
    pub(super) fn before_last_flight(view: &RedundancyView) -> u64 {
        Self::before_flight_of(view, view.waiting_bytes)
    }

    /// Bytes that can leave before what does will be in flight when the last of so many has left, likewise.
    pub(super) fn before_flight_of(view: &RedundancyView, bytes: u64) -> u64 {
        before_flight(bytes, Self::last_flight(view))
    }

    /// Bytes that are in flight at once, as far as a repair symbol can cover them.
    pub(super) fn last_flight(view: &RedundancyView) -> u64 {
        last_flight(view.congestion_window, view.slow_start, view.window_bytes)
    }

    fn repairs(&self, view: &RedundancyView) -> Repairs {
        // The bound is rounded down: less than four packets are not worth another one. What is under way counts: where
        // small answers leave in parallel, each of them ends a burst, and the next is asked for before anything is
        // acknowledged.
        let under_way = view.repairs_in_flight.saturating_add(view.queued.into());
        let most = (self.beta * view.in_flight as f64).floor() - under_way as f64;
        let loss = view.loss;
        let wanted = if loss.burst_mean > 0.0 {
            (loss.burst_mean + 2.0 * loss.burst_deviation).ceil()
        } else {
            most
        };
        Repairs {
            // Casts of floats saturate.
            count: wanted.min(most).max(0.0) as u16,
            window: view.span,
            behind: 0,
        }
    }
}

impl RedundancyScheduler for Quirl {
    fn name(&self) -> &'static str {
        self.name
    }

    /// All bursts that share repair symbols, or are counted, are protected whole.
    fn protects(&self, view: &RedundancyView) -> bool {
        let any = self.jitter.is_zero() && self.burst_bytes == u64::from(ANY_BURST);
        !any || Self::is_of_last_flight(view)
    }

    fn plain_for(&self, view: &RedundancyView) -> u64 {
        Self::before_last_flight(view)
    }

    fn heeds_feedback(&self, _: Instant) -> bool {
        false
    }

    fn ask(&mut self, occasion: Occasion, view: &RedundancyView) -> Repairs {
        match occasion {
            Occasion::BurstEnd if view.burst_bytes >= self.burst_bytes => {
                self.due = earliest(self.due, Some(view.now + self.jitter));
            }
            Occasion::BurstEnd | Occasion::Timer => {}
            Occasion::SlotFree | Occasion::Feedback | Occasion::SlotIdle => return Repairs::NONE,
        }
        if self.due.is_none_or(|due| due > view.now) {
            return Repairs::NONE;
        }
        self.due = None;
        self.repairs(view)
    }

    fn timer(&self) -> Option<Instant> {
        self.due
    }
}

impl RedundancyFactory for Quirl {
    fn name(&self) -> &'static str {
        self.name
    }

    fn build(&self) -> Box<dyn RedundancyScheduler> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(in_flight: u64, now: Instant) -> RedundancyView {
        RedundancyView {
            now,
            held: 100,
            span: 40,
            sources: 100,
            uncovered: 10,
            in_flight,
            burst_bytes: 5_000,
            window_bytes: 300_000,
            congestion_window: 30_000,
            smoothed_rtt: Duration::from_millis(100),
            ..RedundancyView::default()
        }
    }

    #[test]
    fn the_end_of_an_object_is_covered_by_its_share() {
        let mut object = Quirl::object();
        for (in_flight, count) in [(0, 0), (3, 0), (4, 1), (10, 3), (40, 12)] {
            let view = view(in_flight, Instant::ZERO);
            assert_eq!(object.ask(Occasion::SlotFree, &view), Repairs::NONE);
            assert_eq!(object.ask(Occasion::Feedback, &view), Repairs::NONE);
            let repairs = object.ask(Occasion::BurstEnd, &view);
            assert_eq!(
                repairs,
                Repairs {
                    count,
                    window: 40,
                    behind: 0
                }
            );
            assert_eq!(object.timer(), None);
        }
    }

    #[test]
    fn what_is_under_way_counts() {
        let mut object = Quirl::object();
        for (under_way, queued, count) in [(0, 0, 3), (1, 1, 1), (3, 0, 0), (9, 9, 0)] {
            let view = RedundancyView {
                repairs_in_flight: under_way,
                queued,
                ..view(10, Instant::ZERO)
            };
            assert_eq!(object.ask(Occasion::BurstEnd, &view).count, count);
        }
    }

    #[test]
    fn only_the_last_flight_of_an_object_is_protected() {
        let waits = |waiting_bytes, slow_start, window_bytes| RedundancyView {
            waiting_bytes,
            slow_start,
            window_bytes,
            ..view(10, Instant::ZERO)
        };
        for (bytes, slow_start, window, protected) in [
            (0, false, 300_000, true),
            (30_000, false, 300_000, true),
            (30_001, false, 300_000, false),
            (60_000, true, 300_000, true),
            (60_001, true, 300_000, false),
            (20_001, true, 20_000, false),
        ] {
            let view = waits(bytes, slow_start, window);
            assert_eq!(Quirl::object().protects(&view), protected, "{view:?}");
            assert!(Quirl::burst(1, Duration::ZERO).protects(&view));
            let later = Quirl::burst(0, Duration::from_millis(1));
            assert!(later.protects(&view));
        }
    }

    #[test]
    fn as_many_as_losses_come_in_a_row() {
        let mut view = view(40, Instant::ZERO);
        view.loss.burst_mean = 1.5;
        view.loss.burst_deviation = 0.6;
        let repairs = Quirl::object().ask(Occasion::BurstEnd, &view);
        assert_eq!(repairs.count, 3);
        view.loss.burst_mean = 1e9;
        let repairs = Quirl::object().ask(Occasion::BurstEnd, &view);
        assert_eq!(repairs.count, 12);
    }

    #[test]
    fn bursts_within_the_jitter_are_covered_together() {
        let mut burst = Quirl::burst(5_000, Duration::from_millis(40));
        let at = |ms| view(20, Instant::ZERO + Duration::from_millis(ms));
        let small = RedundancyView {
            burst_bytes: 4_999,
            ..at(0)
        };
        assert_eq!(burst.ask(Occasion::BurstEnd, &small), Repairs::NONE);
        assert_eq!(burst.timer(), None);
        assert_eq!(burst.ask(Occasion::BurstEnd, &at(0)), Repairs::NONE);
        assert_eq!(burst.ask(Occasion::BurstEnd, &at(33)), Repairs::NONE);
        assert_eq!(burst.timer(), Some(at(40).now));
        assert_eq!(burst.ask(Occasion::Timer, &at(39)), Repairs::NONE);
        assert_eq!(burst.ask(Occasion::Timer, &at(40)).count, 6);
        assert_eq!(burst.timer(), None);
    }
}
