//! Adaptive and causal coding: a share of repair symbols each round trip, and more by feedback.

use super::{
    Occasion, RedundancyView,
    flec::{Flec, Sequence, Slot, UseCase, at_least_one},
    options::Options,
};
use crate::time::Instant;

/// `ac-rlnc`: adaptive causal random linear network coding (Cohen et al., "Adaptive causal network
/// coding with feedback", 2020), as Michel (2023), table 5.2, sets it into FlEC's loop: `ds()` is `c`
/// times the loss rate, and `FECPattern()` is true once every round-trip time.
///
/// What is sent then are as many repair symbols as losses are to be expected among the symbols of that
/// round trip (the original's a-priori repair, the loss rate times the symbols of a generation), and at
/// least one, as the table's `true` says. `ds()` is its repair by feedback: while the degrees of freedom
/// that are missing exceed what those under way bring at the rate that arrives, by a margin that grows
/// with `c`.
///
/// The original counts all repair symbols sent over its window; FlEC, and this, those in flight. It has
/// no retransmission; here lost frames go out again unless repair symbols are under way for them. It
/// bounds how far windows overlap; here they begin at the oldest symbol whose fate is open.
pub type AcRlnc = Flec<Causal>;

/// The anchors of [`AcRlnc`].
#[derive(Clone, Debug, PartialEq)]
pub struct Causal {
    sensitivity: f64,
    sequence: Sequence,
    /// When the round trip is over that began with the first unprotected symbol.
    due: Option<Instant>,
}

impl Causal {
    /// `c`, at least 0.
    pub fn new(sensitivity: f64) -> Self {
        Self {
            sensitivity,
            sequence: Sequence::default(),
            due: None,
        }
    }
}

impl AcRlnc {
    pub(super) const NAME: &'static str = "ac-rlnc";
    pub(super) const USAGE: &'static str = "ac-rlnc or ac-rlnc:c=1 (0 to 100)";
    pub(super) const KEYS: &'static [&'static str] = &["c"];

    pub(super) fn parse(options: &Options<'_>) -> Option<Self> {
        let c = options.number("c", 1.0, 0.0..=100.0)?;
        let scheduler = Self::new(Causal::new(c));
        options.are_by_key().then_some(scheduler)
    }
}

impl UseCase for Causal {
    fn name(&self) -> &'static str {
        AcRlnc::NAME
    }

    fn ds(&self, loss: f64) -> f64 {
        self.sensitivity * loss
    }

    fn look(&mut self, occasion: Occasion, view: &RedundancyView) {
        if view.span == 0 {
            self.due = None;
        } else if occasion == Occasion::SlotFree && !view.smoothed_rtt.is_zero() {
            self.due.get_or_insert(view.now + view.smoothed_rtt);
        }
    }

    fn fec_pattern(&mut self, slot: &Slot<'_>) -> bool {
        if self.due.is_some_and(|due| due <= slot.view.now) {
            self.due = None;
            let unprotected = self.sequence.unprotected(slot);
            let most = at_least_one(slot.loss_rate() * unprotected as f64);
            return unprotected > 0 && self.sequence.step(slot, most, false);
        }
        // The rest of a run that has begun; what came since waits for the next.
        self.sequence.unprotected(slot) == 0 && self.sequence.step(slot, 0, false)
    }

    fn timer(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::flec::tests::{idle, view},
        *,
    };
    use crate::fec::RedundancyScheduler;

    fn at(ms: u64, view: RedundancyView) -> RedundancyView {
        RedundancyView {
            now: Instant::ZERO + Duration::from_millis(ms),
            ..view
        }
    }

    #[test]
    fn the_expected_losses_once_a_round_trip() {
        let mut scheduler = AcRlnc::new(Causal::new(1.0));
        let mut sent = Vec::new();
        for sources in 1..=350u64 {
            // A symbol each millisecond; a round trip is 100 ms.
            let view = at(sources, view(sources, sources.min(100) as u16, 0.025));
            let count = scheduler.ask(Occasion::SlotFree, &view).count;
            if count > 0 {
                sent.push((sources, count));
            }
        }
        assert_eq!(sent, [(101, 3), (202, 3), (303, 3)]);
    }

    #[test]
    fn a_pause_is_covered_when_its_round_trip_is_over() {
        let mut scheduler = AcRlnc::new(Causal::new(1.0));
        let open = |ms| at(ms, view(5, 5, 0.0));
        assert_eq!(scheduler.ask(Occasion::SlotFree, &open(0)).count, 0);
        assert_eq!(scheduler.ask(Occasion::BurstEnd, &idle(open(1))).count, 0);
        assert_eq!(scheduler.timer(), Some(open(100).now));
        assert_eq!(scheduler.ask(Occasion::Timer, &idle(open(100))).count, 1);
        assert_eq!(scheduler.timer(), None);
        assert_eq!(scheduler.ask(Occasion::SlotIdle, &idle(open(150))).count, 0);
        // Nothing is left to cover.
        scheduler.ask(Occasion::SlotFree, &open(200));
        scheduler.ask(Occasion::Feedback, &at(220, view(6, 0, 0.0)));
        assert_eq!(scheduler.timer(), None);
    }

    #[test]
    fn feedback_calls_for_more_than_is_missing() {
        let missing = RedundancyView {
            missing: 2,
            repairs_in_flight: 2,
            ..view(100, 100, 0.1)
        };
        // 0.9 - 2/2 is below 0.1 c; 0.9 - 2/3 is 0.23: below it where c is 3.
        for (c, count) in [(0.0, 1), (1.0, 1), (3.0, 2)] {
            let mut scheduler = AcRlnc::new(Causal::new(c));
            let asked = scheduler.ask(Occasion::Feedback, &missing).count;
            assert_eq!(asked, count, "c = {c}");
        }
    }

    #[test]
    fn before_a_round_trip_is_known() {
        let mut scheduler = AcRlnc::new(Causal::new(1.0));
        let unknown = RedundancyView {
            smoothed_rtt: Duration::ZERO,
            ..view(10, 10, 0.1)
        };
        assert_eq!(scheduler.ask(Occasion::SlotFree, &unknown).count, 0);
        assert_eq!(scheduler.timer(), None);
    }
}
