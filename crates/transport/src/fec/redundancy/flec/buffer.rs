//! Files to a peer whose receive window is small: all along, and more where it holds us back.

use super::{Flec, Sequence, Slot, UseCase};
use crate::fec::redundancy::options::Options;

/// `flec-buffer`: the anchors for buffer-limited transfers of Michel (2023), s5.6.1: `ds()` is `c`
/// times the loss rate, `FECPattern()` is Algorithm 2. A run of repair symbols follows as many symbols
/// as lie between two losses (or a window of them, if that is less), and more leave while flow control
/// holds data back, until twice the losses to be expected in the window are under way.
///
/// Table 5.2 has `c`, s5.6.1 has 1 for it: 1 is the default. In s5.6.2 the receiver made its window 5 %
/// smaller, to keep repair symbols in what that leaves. Here the decoder's memory is announced apart from
/// receive windows; `aside=5` holds the repair symbols under way within such a share of what flow
/// control allows, but one always may be. Nothing is sent before the first loss was seen, as
/// Algorithm 2's line 1 has it.
///
/// In s5.6.1 Gilbert's states drop with probabilities 1 and 0, which stand the wrong way round there.
pub type Buffer = Flec<BufferLimited>;

/// The anchors of [`Buffer`].
#[derive(Clone, Debug, PartialEq)]
pub struct BufferLimited {
    sensitivity: f64,
    /// Share of the flow control window that repair symbols may take.
    aside: f64,
    sequence: Sequence,
}

impl BufferLimited {
    /// `c`, at least 0, and the share of the flow control window set aside for repair symbols,
    /// `0..=1`.
    pub fn new(sensitivity: f64, aside: f64) -> Self {
        Self {
            sensitivity,
            aside,
            sequence: Sequence::default(),
        }
    }

    fn has_room_aside(&self, slot: &Slot<'_>) -> bool {
        let Some(window) = slot.view.flow_window else {
            return true;
        };
        let bytes = slot
            .added()
            .saturating_add(1)
            .saturating_mul(slot.view.datagram_bytes);
        slot.added() == 0 || bytes as f64 <= self.aside * window as f64
    }
}

impl Buffer {
    pub(in super::super) const NAME: &'static str = "flec-buffer";
    pub(in super::super) const USAGE: &'static str = "flec-buffer or flec-buffer:c=1,aside=100 (both 0 to 100; aside in percent of the receive window)";
    pub(in super::super) const KEYS: &'static [&'static str] = &["c", "aside"];

    pub(in super::super) fn parse(options: &Options<'_>) -> Option<Self> {
        let c = options.number("c", 1.0, 0.0..=100.0)?;
        let aside = options.number("aside", 100.0, 0.0..=100.0)? / 100.0;
        let buffer = Self::new(BufferLimited::new(c, aside));
        options.are_by_key().then_some(buffer)
    }
}

impl UseCase for BufferLimited {
    fn name(&self) -> &'static str {
        Buffer::NAME
    }

    fn ds(&self, loss: f64) -> f64 {
        self.sensitivity * loss
    }

    fn fec_pattern(&mut self, slot: &Slot<'_>) -> bool {
        let window = slot.window() as f64;
        let enough = 2.0 * (window * slot.loss_rate()).ceil();
        if slot.added() as f64 >= enough || !self.has_room_aside(slot) {
            return false;
        }
        let unprotected = self.sequence.unprotected(slot) as f64;
        let between_losses = (1.0 / slot.good_to_bad()).min(window);
        let blocked = slot.is_idle() && slot.view.held_back;
        let protects = unprotected == 0.0 || unprotected >= between_losses || blocked;
        let most = self.sequence.expected(slot);
        protects && self.sequence.step(slot, most, blocked)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{idle, view},
        *,
    };
    use crate::fec::{LossEstimate, Occasion, RedundancyScheduler, RedundancyView};

    fn buffer() -> Buffer {
        Buffer::new(BufferLimited::new(1.0, 0.05))
    }

    #[test]
    fn one_repair_symbol_between_two_losses() {
        let mut buffer = buffer();
        let mut sent = Vec::new();
        for sources in 1..=200u64 {
            // The window is what a round trip holds.
            let view = view(sources, sources.min(100) as u16, 0.02);
            let count = buffer.ask(Occasion::SlotFree, &view).count;
            sent.extend((0..count).map(|_| sources));
        }
        // The first window is all unprotected as soon as it has a symbol.
        assert_eq!(sent.first(), Some(&1));
        let rest: Vec<_> = sent.iter().skip(1).filter(|at| **at > 50).collect();
        assert_eq!(rest.len(), 3, "{sent:?}");
    }

    #[test]
    fn runs_of_losses_call_for_runs_of_repair_symbols() {
        let mut buffer = buffer();
        let mut view = view(100, 100, 0.03);
        view.loss.loss_after_arrival = 0.01;
        view.loss.arrival_after_loss = 0.33;
        assert_eq!(buffer.ask(Occasion::SlotFree, &view).count, 4);
    }

    #[test]
    fn blocked_by_flow_control_more_leave_until_feedback_comes() {
        let mut buffer = buffer();
        let blocked = RedundancyView {
            held_back: true,
            ..idle(view(100, 100, 0.02))
        };
        assert_eq!(buffer.ask(Occasion::BurstEnd, &blocked).count, 4);
        let under_way = RedundancyView {
            repairs_in_flight: 4,
            ..blocked
        };
        assert_eq!(buffer.ask(Occasion::SlotIdle, &under_way).count, 0);
        // One was acknowledged.
        let under_way = RedundancyView {
            repairs_in_flight: 3,
            ..blocked
        };
        assert_eq!(buffer.ask(Occasion::SlotIdle, &under_way).count, 1);
    }

    #[test]
    fn repair_symbols_have_their_share_of_the_receive_window() {
        let blocked = |flow_window| RedundancyView {
            held_back: true,
            flow_window: Some(flow_window),
            ..idle(view(100, 100, 0.1))
        };
        for (window, count) in [
            (0, 1),
            (47_999, 1),
            (48_000, 2),
            (120_000, 5),
            (1 << 40, 20),
        ] {
            let asked = buffer().ask(Occasion::BurstEnd, &blocked(window));
            assert_eq!(asked.count, count, "{window}");
        }
    }

    #[test]
    fn nothing_before_the_first_loss() {
        for loss in [0.0, f64::NAN] {
            let blocked = RedundancyView {
                held_back: true,
                ..idle(view(100, 100, loss))
            };
            assert_eq!(buffer().ask(Occasion::BurstEnd, &blocked).count, 0);
        }
        let unknown = RedundancyView {
            loss: LossEstimate::default(),
            ..view(100, 100, 0.0)
        };
        assert_eq!(buffer().ask(Occasion::SlotFree, &unknown).count, 0);
    }

    #[test]
    fn a_waiting_loss_is_covered_with_some_to_spare() {
        // 0.98 - 1/1 is below 0.02: one more, with which 1/2 is not.
        let missing = RedundancyView {
            missing: 1,
            repairs_in_flight: 1,
            ..view(100, 100, 0.02)
        };
        assert_eq!(buffer().ask(Occasion::Feedback, &missing).count, 1);
        let mut careless = Buffer::new(BufferLimited::new(0.0, 0.05));
        assert_eq!(careless.ask(Occasion::Feedback, &missing).count, 1);
        let none = RedundancyView {
            missing: 0,
            ..missing
        };
        assert_eq!(buffer().ask(Occasion::Feedback, &none).count, 0);
    }

    #[test]
    fn the_end_is_covered_when_the_rest_has_arrived() {
        let mut buffer = buffer();
        let end = idle(view(100, 100, 0.02));
        assert_eq!(buffer.ask(Occasion::SlotFree, &view(70, 70, 0.02)).count, 2);
        assert_eq!(buffer.ask(Occasion::BurstEnd, &end).count, 0);
        let rest = idle(view(100, 30, 0.02));
        assert_eq!(buffer.ask(Occasion::SlotIdle, &rest).count, 1);
    }
}
