//! Redundancy for the ends of what is sent, over all paths.

use super::{
    Occasion, RedundancyFactory, RedundancyScheduler, RedundancyView, Repairs, flec, quirl::Quirl,
};
use crate::time::Instant;

/// `tail`: the packets that are in flight when the last one leaves are the coding set, source and repair
/// symbols alike. As many repair symbols leave behind it as losses are to be expected in it, each packet on
/// its path (Zverev 2023, eq. 4.11), rounded up, over all of it. Packets before are plain: their losses show
/// in time. Nothing leaves where nothing was lost yet.
///
/// The last one of a stream is one, too, where other streams go on (s4.4.1): what they send behind it shows its loss in a
/// round trip, and that is what it would be late. The set is what is in flight then, data of others included: what is under way
/// already of repair symbols is for some of it, and counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tail;

impl Tail {
    pub(super) const NAME: &'static str = "tail";

    /// Whether a packet that leaves now will be in flight when a stream ends. Of a stream alone what waits tells the same.
    fn is_before_end(view: &RedundancyView) -> bool {
        let flight = Quirl::last_flight(view);
        view.ends_in.is_some_and(|bytes| bytes <= flight)
    }

    /// Repair symbols for the coding set: they are of it themselves.
    fn redundancy(view: &RedundancyView) -> u64 {
        let repair = view.repair_loss.unwrap_or(view.loss);
        let arrives = (1.0 - repair.rate).clamp(0.5, 1.0);
        // Casts of floats saturate. Losses that are waited for are certain.
        ((view.expected_losses.max(0.0) / arrives).ceil() as u64).saturating_add(view.missing)
    }
}

impl RedundancyScheduler for Tail {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn protects(&self, view: &RedundancyView) -> bool {
        Quirl::is_of_last_flight(view) || Self::is_before_end(view)
    }

    fn plain_for(&self, view: &RedundancyView) -> u64 {
        let of_all = Quirl::before_last_flight(view);
        let before_end = |bytes| Quirl::before_flight_of(view, bytes);
        of_all.min(view.ends_in.map_or(u64::MAX, before_end))
    }

    fn heeds_feedback(&self, _: Instant) -> bool {
        false
    }

    fn heeds_ends(&self) -> bool {
        true
    }

    fn ask(&mut self, occasion: Occasion, view: &RedundancyView) -> Repairs {
        let is_end = match occasion {
            Occasion::BurstEnd => true,
            // With nothing behind it, this is the end of the burst, and asked about as that.
            Occasion::SlotFree => view.stream_ends && view.more_waits,
            _ => false,
        };
        if !is_end {
            return Repairs::NONE;
        }
        let under_way = view.repairs_in_flight.saturating_add(view.queued.into());
        let count = Self::redundancy(view).saturating_sub(under_way);
        Repairs {
            count: u16::try_from(count).unwrap_or(u16::MAX).min(flec::MOST),
            window: view.span,
            behind: 0,
        }
    }
}

impl RedundancyFactory for Tail {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn build(&self) -> Box<dyn RedundancyScheduler> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fec::LossEstimate;

    fn view(in_flight: u64, rates: &[(u64, f64)]) -> RedundancyView {
        RedundancyView {
            in_flight,
            span: u16::try_from(in_flight).unwrap(),
            expected_losses: rates.iter().map(|(n, rate)| *n as f64 * rate).sum(),
            paths: u16::try_from(rates.len()).unwrap(),
            ..RedundancyView::default()
        }
    }

    #[test]
    fn as_many_as_all_paths_are_expected_to_lose() {
        let ask = |view: &RedundancyView| Tail.ask(Occasion::BurstEnd, view);
        // 30 packets at 1 % and 20 at 5 %: 1.3.
        let both = view(50, &[(30, 0.01), (20, 0.05)]);
        assert_eq!((ask(&both).count, ask(&both).window), (2, 50));
        assert_eq!(ask(&view(50, &[(50, 0.0)])).count, 0);
        assert_eq!(
            ask(&view(1, &[(1, 0.02)])).count,
            1,
            "never less than a whole one"
        );
        let mut missing = view(50, &[(50, 0.0)]);
        (missing.missing, missing.queued) = (3, 1);
        assert_eq!(ask(&missing).count, 2);
        // Every other repair symbol is lost.
        let mut lossy = both;
        lossy.repair_loss = Some(LossEstimate {
            rate: 0.5,
            ..LossEstimate::default()
        });
        assert_eq!(ask(&lossy).count, 3);
        for occasion in [Occasion::SlotFree, Occasion::Feedback, Occasion::Timer] {
            assert_eq!(Tail.ask(occasion, &both), Repairs::NONE);
        }
    }

    #[test]
    fn what_is_not_of_the_last_flight_is_plain() {
        let mut bulk = view(50, &[(50, 0.02)]);
        (bulk.congestion_window, bulk.window_bytes) = (60_000, 300_000);
        bulk.waiting_bytes = 60_001;
        assert!(!Tail.protects(&bulk));
        bulk.waiting_bytes = 60_000;
        assert!(Tail.protects(&bulk));
    }

    #[test]
    fn the_end_of_one_stream_is_an_end() {
        let ask = |view: &RedundancyView| Tail.ask(Occasion::SlotFree, view);
        let mut ends = view(50, &[(30, 0.01), (20, 0.05)]);
        (ends.stream_ends, ends.more_waits) = (true, true);
        assert_eq!((ask(&ends).count, ask(&ends).window), (2, 50));
        for occasion in [Occasion::Feedback, Occasion::Timer, Occasion::SlotIdle] {
            assert_eq!(Tail.ask(occasion, &ends), Repairs::NONE);
        }
        // The burst may end at once: for the same packets none again.
        ends.queued = 1;
        assert_eq!(ask(&ends).count, 1);
        (ends.queued, ends.repairs_in_flight) = (1, 1);
        assert_eq!(Tail.ask(Occasion::BurstEnd, &ends).count, 0);
        // With nothing behind it the burst ends, and that is asked about.
        (ends.queued, ends.repairs_in_flight) = (0, 0);
        ends.more_waits = false;
        assert_eq!(ask(&ends), Repairs::NONE);
        assert_eq!(Tail.ask(Occasion::BurstEnd, &ends).count, 2);
        (ends.stream_ends, ends.more_waits) = (false, true);
        assert_eq!(ask(&ends), Repairs::NONE);
    }

    #[test]
    fn what_is_in_flight_when_a_stream_ends_is_protected() {
        let mut beside = view(50, &[(50, 0.02)]);
        (beside.congestion_window, beside.window_bytes) = (60_000, 300_000);
        beside.waiting_bytes = 240_000;
        let all = Tail.plain_for(&beside);
        assert_eq!(all, 179_999);
        for (ends_in, protected, plain) in [
            (None, false, all),
            (Some(0), true, 0),
            (Some(60_000), true, 0),
            (Some(60_001), false, 0),
            (Some(70_001), false, 10_000),
            (Some(u64::MAX), false, all),
        ] {
            beside.ends_in = ends_in;
            assert_eq!(Tail.protects(&beside), protected, "{ends_in:?}");
            assert_eq!(Tail.plain_for(&beside), plain, "{ends_in:?}");
        }
        // No further than a repair symbol covers.
        (beside.ends_in, beside.window_bytes) = (Some(50_000), 40_000);
        assert!(!Tail.protects(&beside));
    }

    /// It ends with what waits, or later: it is asked about as if nobody told when.
    #[test]
    fn of_a_stream_alone_nothing_new_is_told() {
        let mut alone = view(50, &[(50, 0.02)]);
        (alone.congestion_window, alone.window_bytes) = (60_000, 300_000);
        for waiting in [0, 59_999, 60_000, 60_001, 240_000] {
            alone.waiting_bytes = waiting;
            alone.ends_in = None;
            let before = (Tail.protects(&alone), Tail.plain_for(&alone));
            for more in [0, 1, 1_000_000] {
                alone.ends_in = Some(waiting + more);
                let told = (Tail.protects(&alone), Tail.plain_for(&alone));
                assert_eq!(told, before, "{waiting} {more}");
            }
        }
    }
}
