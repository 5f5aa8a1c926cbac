//! What a message in time is worth.
//!
//! Owns: [`Price`], how many messages a repair symbol has to keep from being late. Does not own: how many it does (`counts.rs`).
//!
//! So many messages may be late ([`super::aim`]), no matter which. Repair symbols are fewest where each of them saves as much as any other,
//! rather than where no message is later than the next: of long messages more are late then, and of short ones fewer.

use super::aim;
use crate::fec::redundancy::{RedundancyView, auto::model::Chain};

/// What a repair symbol saves at least, in aims.
const USUAL: f64 = 5.0;
/// The same where too much is late all the same: what is late for other reasons no repair symbol saves.
const LEAST: f64 = 2.0;
/// Less where more than this part of the aim is late for that. Of runs of losses less is known.
const PART: f64 = 0.5;
/// Messages on which the share rests, about.
const RESTS_ON: f64 = 512.0;

/// What a message in time is worth, in repair symbols.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Price {
    /// The share of messages that are expected to be late.
    late: f64,
}

impl Price {
    pub(super) fn on_message(&mut self) {
        self.late -= self.late / RESTS_ON;
    }

    /// So many are expected to be late.
    pub(super) fn on_late(&mut self, messages: f64) {
        self.late += messages / RESTS_ON;
    }

    /// How many messages a repair symbol has to keep from being late.
    pub(super) fn of(&self, view: &RedundancyView, chain: Chain) -> f64 {
        let aim = aim(view);
        let most = PART * aim * chain.q.sqrt();
        let part = most / self.late.max(most);
        aim * f64::max(USUAL * part * part, LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::tests::view, *};

    const SINGLE: Chain = Chain { p: 0.08, q: 0.92 };

    #[test]
    fn the_more_are_late_the_less_a_repair_symbol_has_to_save() {
        let view = view(4, 0.08);
        let mut price = Price::default();
        let usual = price.of(&view, SINGLE);
        assert!((0.004..0.006).contains(&usual), "{usual}");
        // One in 250 messages, each of which has one due.
        for _ in 0..2_000 {
            price.on_message();
            price.on_late(0.004);
        }
        let of_late = price.of(&view, SINGLE);
        assert!(of_late < usual / 2.0, "{of_late}");
        assert!(of_late > usual / 3.0, "{of_late}");
        for _ in 0..5_000 {
            price.on_message();
        }
        assert!(price.of(&view, SINGLE) >= usual);
    }
}
