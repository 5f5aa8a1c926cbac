//! Files: the last flight alone.

use super::{Flec, Sequence, Slot, UseCase};
use crate::fec::{
    RedundancyView,
    redundancy::{Quirl, options::Options},
};

/// `flec-bulk`: the anchors for bulk transfers of Michel (2023), s5.5.1 and table 5.2. `ds()` is minus
/// the loss rate (equation 5.2: a repair symbol for each that is missing), and `FECPattern()` is true
/// once all the application has is sent: repair symbols then leave in what is free of the congestion
/// window, as many as losses are to be expected.
///
/// The text gives no number for that: it is the `maxTrigger` of Algorithms 2 and 4 here. The text also
/// speaks of the other way, to fill what is free of the window; `fill-cwnd` does that, with no more
/// repair symbols under way than symbols whose fate is open.
///
/// Packets are protected, and so give up bytes, only where they may be in flight when the last of
/// them leaves: others are out of the window by then. That flow control holds the application back is
/// no end of its data; that it has nothing more for now is one here (the text's `allStreamsFinished()` asks whether
/// streams are finished): a file that is read more slowly than it is sent gets repair symbols on its way.
pub type Bulk = Flec<BulkTransfer>;

/// The anchors of [`Bulk`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkTransfer {
    fill_window: bool,
    sequence: Sequence,
}

impl BulkTransfer {
    /// As many repair symbols as losses are expected, or as many as the window takes.
    pub fn new(fill_window: bool) -> Self {
        Self {
            fill_window,
            sequence: Sequence::default(),
        }
    }
}

impl Bulk {
    pub(in super::super) const NAME: &'static str = "flec-bulk";
    pub(in super::super) const USAGE: &'static str = "flec-bulk or flec-bulk:fill-cwnd=on";
    pub(in super::super) const KEYS: &'static [&'static str] = &["fill-cwnd"];

    pub(in super::super) fn parse(options: &Options<'_>) -> Option<Self> {
        let fill_window = options.switch("fill-cwnd", false)?;
        let bulk = Self::new(BulkTransfer::new(fill_window));
        options.are_by_key().then_some(bulk)
    }
}

impl UseCase for BulkTransfer {
    fn name(&self) -> &'static str {
        Bulk::NAME
    }

    fn protects(&self, view: &RedundancyView) -> bool {
        Quirl::is_of_last_flight(view)
    }

    fn fec_pattern(&mut self, slot: &Slot<'_>) -> bool {
        if !slot.is_application_limited() {
            return false;
        }
        if !self.fill_window {
            let most = self.sequence.expected(slot);
            return self.sequence.step(slot, most, false);
        }
        let bytes = slot.view.datagram_bytes;
        let another = slot.bytes_in_flight().saturating_add(bytes);
        another <= slot.view.congestion_window && slot.added() < slot.window()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{idle, view},
        *,
    };
    use crate::fec::{Occasion, RedundancyScheduler, Repairs};

    #[test]
    fn nothing_before_the_end_and_the_expected_losses_then() {
        let mut bulk = Bulk::new(BulkTransfer::new(false));
        for occasion in [Occasion::SlotFree, Occasion::Feedback] {
            assert_eq!(bulk.ask(occasion, &view(100, 100, 0.03)).count, 0);
        }
        let end = idle(view(100, 100, 0.03));
        let held_back = RedundancyView {
            held_back: true,
            ..end
        };
        assert_eq!(bulk.ask(Occasion::BurstEnd, &held_back).count, 0);
        let repairs = bulk.ask(Occasion::BurstEnd, &end);
        assert_eq!(
            repairs,
            Repairs {
                count: 3,
                window: 100,
                behind: 0,
            }
        );
        // The run is over; what is new has its own.
        assert_eq!(bulk.ask(Occasion::SlotIdle, &end).count, 0);
        let more = idle(view(110, 60, 0.03));
        assert_eq!(bulk.ask(Occasion::BurstEnd, &more).count, 1);
    }

    #[test]
    fn a_lost_repair_symbol_is_made_good() {
        let mut bulk = Bulk::new(BulkTransfer::new(false));
        let missing = RedundancyView {
            missing: 1,
            ..idle(view(100, 100, 0.03))
        };
        assert_eq!(bulk.ask(Occasion::Feedback, &missing).count, 1);
    }

    #[test]
    fn the_window_is_filled_where_that_is_wanted() {
        let mut bulk = Bulk::new(BulkTransfer::new(true));
        let end = RedundancyView {
            bytes_in_flight: 108_000,
            ..idle(view(90, 90, 0.01))
        };
        assert_eq!(bulk.ask(Occasion::BurstEnd, &end).count, 10);
        let short = RedundancyView { span: 4, ..end };
        assert_eq!(bulk.ask(Occasion::BurstEnd, &short).count, 4);
        let full = RedundancyView {
            bytes_in_flight: 119_000,
            ..end
        };
        assert_eq!(bulk.ask(Occasion::BurstEnd, &full).count, 0);
    }

    #[test]
    fn only_the_last_flight_is_protected() {
        let bulk = Bulk::new(BulkTransfer::new(false));
        let waits = |waiting_bytes| RedundancyView {
            waiting_bytes,
            window_bytes: 300_000,
            ..view(10, 10, 0.01)
        };
        assert!(bulk.protects(&waits(120_000)));
        assert!(!bulk.protects(&waits(120_001)));
    }
}
