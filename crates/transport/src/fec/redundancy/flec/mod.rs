//! FlEC: one loop, two anchors. Michel (2023), chapter 5.
//!
//! Purpose: the generic redundancy scheduler of Algorithm 1, and the use cases that give it a meaning.
//! Owns: [`Flec`] (Algorithm 1), [`UseCase`] (the anchors `ds()` and `FECPattern()`), [`Slot`] (what
//! they see), the use cases of table 5.2.
//! Does not own: loss estimation, which symbols are missing (`FecSender`), retransmission.
//! Called by: [`super::registry`]; [`super::AcRlnc`] is a use case too.
//! To add a variant: one file here that implements [`UseCase`], one line in [`super::registry`].
//!
//! Where this departs from the text:
//!
//! - Algorithm 1 answers each slot of the congestion window with a repair symbol or with data. Here a
//!   call stands for as many slots as are answered with repair symbols one after the other: at most
//!   [`MOST`].
//! - Its line 15 stands for retransmission as well, which the text leaves open (s5.3): lost frames are
//!   sent again as without erasure correction, and `md` counts those that wait for a repair symbol
//!   instead. Without any to wait for, a loss is not missing.
//! - `md / ad` at `ad = 0`, which the text leaves undefined, is 0 where nothing is missing, else
//!   infinite: what is missing with nothing under way calls for a repair symbol, whatever `ds()` is.
//! - No more symbols than the window has are sent by line 15: above a loss rate of one half a
//!   threshold above 0 would send without end.
//! - `ad` counts every repair symbol in flight. The text's are those over the window, but others are
//!   acknowledged with the symbols that left the window.

mod buffer;
mod bulk;
mod message;

use std::fmt;

use super::{Occasion, RedundancyFactory, RedundancyScheduler, RedundancyView, Repairs};
use crate::time::Instant;

pub use buffer::{Buffer, BufferLimited};
pub use bulk::{Bulk, BulkTransfer};
pub use message::{Message, Messaging};

/// Repair symbols that one call may ask for.
pub const MOST: u16 = 64;
/// What rounding may make of a difference that is none.
const ROUNDING: f64 = 1e-9;

/// A slot of the congestion window that is to be filled.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a> {
    /// Why the question comes.
    pub occasion: Occasion,
    /// The state before the first slot of this call.
    pub view: &'a RedundancyView,
    /// Slots of this call that were filled with repair symbols.
    pub decided: u16,
}

impl Slot<'_> {
    /// `|W|`: source symbols from the oldest whose fate is open on.
    pub fn window(&self) -> u64 {
        self.view.span.into()
    }

    /// `ad`: repair symbols that are under way or about to be.
    pub fn added(&self) -> u64 {
        let waiting = u64::from(self.view.queued) + u64::from(self.decided);
        self.view.repairs_in_flight.saturating_add(waiting)
    }

    /// The estimated loss rate; 0 while nothing is known.
    pub fn loss_rate(&self) -> f64 {
        probability(self.view.loss.rate, 0.0)
    }

    /// Gilbert's probability of a loss after an arrival.
    pub fn good_to_bad(&self) -> f64 {
        probability(self.view.loss.loss_after_arrival, 0.0)
    }

    /// Gilbert's probability of an arrival after a loss; 1 while nothing is known.
    pub fn bad_to_good(&self) -> f64 {
        let known = self.view.loss.packets > 0.0;
        probability(
            if known {
                self.view.loss.arrival_after_loss
            } else {
                1.0
            },
            1.0,
        )
    }

    /// Whether nothing else could fill the slot.
    pub fn is_idle(&self) -> bool {
        self.view.idle && !matches!(self.occasion, Occasion::SlotFree | Occasion::Feedback)
    }

    /// Whether the application has sent all it has.
    pub fn is_application_limited(&self) -> bool {
        self.is_idle() && !self.view.held_back
    }

    /// Bytes in flight, with repair symbols that have been decided on.
    pub fn bytes_in_flight(&self) -> u64 {
        let waiting = u64::from(self.view.queued) + u64::from(self.decided);
        let bytes = waiting.saturating_mul(self.view.datagram_bytes);
        self.view.bytes_in_flight.saturating_add(bytes)
    }
}

fn probability(value: f64, unknown: f64) -> f64 {
    if value.is_finite() {
        value.clamp(0.0, 1.0)
    } else {
        unknown
    }
}

/// The two anchors of Algorithm 1.
pub trait UseCase: fmt::Debug + Clone + Send + Sync + 'static {
    /// CLI flag, registry key and qlog value.
    fn name(&self) -> &'static str;
    /// `ds()`: repair symbols are sent while the share that arrives, less the missing for each that is
    /// under way, is below this. `loss`: the estimated loss rate.
    fn ds(&self, loss: f64) -> f64 {
        -loss
    }
    /// `FECPattern()`: whether the slot takes a repair symbol, whatever was lost.
    fn fec_pattern(&mut self, slot: &Slot<'_>) -> bool;
    /// Whether packets that leave now are protected.
    fn protects(&self, view: &RedundancyView) -> bool {
        let _ = view;
        true
    }
    /// Comes before the slots of a call, also where there is nothing to protect.
    fn look(&mut self, occasion: Occasion, view: &RedundancyView) {
        let _ = (occasion, view);
    }
    /// When to be asked though nothing happens.
    fn timer(&self) -> Option<Instant> {
        None
    }
}

/// Algorithm 1: a use case makes a redundancy scheduler of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Flec<U>(U);

impl<U: UseCase> Flec<U> {
    /// The scheduler for this use case.
    pub fn new(use_case: U) -> Self {
        Self(use_case)
    }

    /// Lines 1 to 19. That feedback arrived is no slot: then only line 14 is asked, so that a repair
    /// symbol for what was lost goes before data.
    fn fills(&mut self, slot: &Slot<'_>) -> bool {
        if slot.window() == 0 {
            return false;
        }
        if slot.occasion != Occasion::Feedback && self.0.fec_pattern(slot) {
            return true;
        }
        if slot.view.loss.packets <= 0.0 || slot.added() >= slot.window() {
            return false;
        }
        let loss = slot.loss_rate();
        let share = missing_per_added(slot.view.missing, slot.added());
        (1.0 - loss) - share < self.0.ds(loss) - ROUNDING
    }
}

fn missing_per_added(missing: u64, added: u64) -> f64 {
    match (missing, added) {
        (0, _) => 0.0,
        (_, 0) => f64::INFINITY,
        (missing, added) => missing as f64 / added as f64,
    }
}

impl<U: UseCase> RedundancyScheduler for Flec<U> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn protects(&self, view: &RedundancyView) -> bool {
        self.0.protects(view)
    }

    fn ask(&mut self, occasion: Occasion, view: &RedundancyView) -> Repairs {
        self.0.look(occasion, view);
        let mut slot = Slot {
            occasion,
            view,
            decided: 0,
        };
        while slot.decided < MOST && self.fills(&slot) {
            slot.decided += 1;
        }
        Repairs {
            count: slot.decided,
            window: view.span,
            behind: 0,
        }
    }

    fn timer(&self) -> Option<Instant> {
        self.0.timer()
    }
}

impl<U: UseCase> RedundancyFactory for Flec<U> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn build(&self) -> Box<dyn RedundancyScheduler> {
        Box::new(self.clone())
    }
}

/// A run of repair symbols over one window: `last`, `nTriggered` and `maxTrigger` of Algorithms 2
/// and 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sequence {
    last: u64,
    triggered: u16,
    most: u16,
}

impl Sequence {
    /// `nUnprotected`, as far as it is in the window: what has arrived needs no protection.
    pub(super) fn unprotected(&self, slot: &Slot<'_>) -> u64 {
        let since = slot.view.sources.saturating_sub(self.last);
        since.min(slot.window())
    }

    /// Begins a run of `most` repair symbols where something is unprotected, goes on with it
    /// otherwise. Whether the slot takes one.
    pub(super) fn step(&mut self, slot: &Slot<'_>, most: u16, without_end: bool) -> bool {
        if self.unprotected(slot) != 0 {
            *self = Self {
                last: slot.view.sources,
                triggered: 1,
                most,
            };
            return true;
        }
        let goes_on = without_end || self.triggered < self.most;
        self.triggered = self.triggered.saturating_add(u16::from(goes_on));
        goes_on
    }

    /// `maxTrigger`: the losses to expect among the unprotected symbols, and at least as many as
    /// come in a row.
    pub(super) fn expected(&self, slot: &Slot<'_>) -> u16 {
        let losses = slot.loss_rate() * self.unprotected(slot) as f64;
        at_least_one(losses.max(1.0 / slot.bad_to_good()))
    }
}

/// Rounded up, 1 to [`MOST`].
pub(super) fn at_least_one(wanted: f64) -> u16 {
    let whole = (wanted - ROUNDING).ceil();
    // Casts of floats saturate, and make 0 of what is no number.
    (whole as u16).clamp(1, MOST)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fec::LossEstimate;

    /// `sources` symbols sent, the latest `span` of them open, on a path with this loss rate.
    pub(in super::super) fn view(sources: u64, span: u16, loss: f64) -> RedundancyView {
        RedundancyView {
            sources,
            span,
            held: span,
            in_flight: span.into(),
            congestion_window: 120_000,
            datagram_bytes: 1_200,
            smoothed_rtt: Duration::from_millis(100),
            one_way_delay: Duration::from_millis(50),
            loss: LossEstimate {
                packets: 1_000.0,
                rate: loss,
                loss_after_arrival: loss,
                arrival_after_loss: 1.0,
                ..LossEstimate::default()
            },
            ..RedundancyView::default()
        }
    }

    pub(in super::super) fn idle(view: RedundancyView) -> RedundancyView {
        RedundancyView { idle: true, ..view }
    }

    /// Anchors that say what they are told to.
    #[derive(Clone, Debug)]
    struct Fixed {
        ds: f64,
        pattern: bool,
    }

    impl UseCase for Fixed {
        fn name(&self) -> &'static str {
            "fixed"
        }

        fn ds(&self, _loss: f64) -> f64 {
            self.ds
        }

        fn fec_pattern(&mut self, _slot: &Slot<'_>) -> bool {
            self.pattern
        }
    }

    #[test]
    fn what_is_missing_calls_for_as_many_repair_symbols() {
        // Equation 5.2: with ds() = -l, until ad is md. Whatever rounding makes of 1 - l + l.
        for loss in [0.0, 0.001, 0.02, 0.07, 0.3, 1.0] {
            let mut flec = Flec::new(Fixed {
                ds: -loss,
                pattern: false,
            });
            for (missing, under_way, count) in [(0, 0, 0), (1, 0, 1), (3, 1, 2), (3, 3, 0)] {
                let view = RedundancyView {
                    missing,
                    repairs_in_flight: under_way,
                    ..view(100, 50, loss)
                };
                let repairs = flec.ask(Occasion::Feedback, &view);
                assert_eq!(
                    repairs,
                    Repairs {
                        count,
                        window: 50,
                        behind: 0
                    },
                    "{loss} {missing}"
                );
            }
        }
    }

    #[test]
    fn a_threshold_above_that_sends_more_than_is_missing() {
        let mut flec = Flec::new(Fixed {
            ds: 0.1,
            pattern: false,
        });
        let view = RedundancyView {
            missing: 4,
            ..view(100, 50, 0.1)
        };
        // 0.9 - 4/ad < 0.1 as long as ad is at most 5: 4/5 is 0.8.
        let counted = flec.ask(Occasion::SlotFree, &view).count;
        assert_eq!(counted, 5);
    }

    #[test]
    fn nothing_is_without_end() {
        for loss in [0.0, 0.6, 1.0, f64::NAN, f64::INFINITY] {
            for ds in [-1.0, 0.0, 1.0, 1e300, f64::NAN] {
                let mut flec = Flec::new(Fixed { ds, pattern: true });
                let all = flec.ask(Occasion::SlotFree, &view(100, 50, loss));
                assert_eq!(all.count, MOST);
                let mut flec = Flec::new(Fixed { ds, pattern: false });
                let view = RedundancyView {
                    missing: u64::MAX,
                    ..view(100, 50, loss)
                };
                assert!(flec.ask(Occasion::SlotFree, &view).count <= 50);
                let nothing = RedundancyView { span: 0, ..view };
                assert_eq!(flec.ask(Occasion::Timer, &nothing).count, 0);
            }
        }
    }

    #[test]
    fn without_feedback_the_pattern_alone_decides() {
        let mut flec = Flec::new(Fixed {
            ds: 1.0,
            pattern: false,
        });
        let view = RedundancyView {
            missing: 5,
            loss: LossEstimate::default(),
            ..view(10, 10, 0.0)
        };
        assert_eq!(flec.ask(Occasion::SlotFree, &view).count, 0);
    }

    #[test]
    fn a_feedback_is_no_slot() {
        let mut flec = Flec::new(Fixed {
            ds: -1.0,
            pattern: true,
        });
        assert_eq!(flec.ask(Occasion::Feedback, &view(10, 10, 0.01)).count, 0);
    }

    #[test]
    fn as_many_as_are_lost_or_come_in_a_row() {
        let counts = |loss, arrival_after_loss, unprotected| {
            let mut view = view(unprotected, 300, loss);
            view.loss.arrival_after_loss = arrival_after_loss;
            let slot = Slot {
                occasion: Occasion::BurstEnd,
                view: &view,
                decided: 0,
            };
            Sequence::default().expected(&slot)
        };
        assert_eq!(counts(0.02, 1.0, 100), 2);
        assert_eq!(counts(0.02, 1.0, 101), 3);
        assert_eq!(counts(0.02, 0.33, 10), 4);
        assert_eq!(counts(0.0, 1.0, 10), 1);
        assert_eq!(counts(0.5, 0.0, 1000), MOST);
        assert_eq!(counts(f64::NAN, f64::NAN, 1000), 1);
    }
}
