//! Repair symbols that left before the last moment.
//!
//! Owns: [`Early`], what of those that are due has left already. Does not own: when they leave (`../mod.rs`), how many are
//! due (`counts.rs`).

use std::{collections::VecDeque, ops::Range};

use super::PIECES;

/// Over source symbols below which they left, and how many, the oldest first: [`PIECES`] at most.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Early(VecDeque<(u64, u16)>);

impl Early {
    /// So many leave, over all source symbols below `end`.
    pub(super) fn note(&mut self, end: u64, count: u16) {
        if self.0.len() >= PIECES {
            self.0.pop_front();
        }
        self.0.push_back((end, count));
    }

    /// No source symbol below `open` is open.
    pub(super) fn forget(&mut self, open: u64) {
        self.0.retain(|(end, _)| *end > open);
    }

    /// What is left of `due` repair symbols for such source symbols: each that left counts as far as it covers them, and with
    /// more of them than packets, sending each packet twice would be cheaper.
    pub(super) fn left_of(&self, due: u16, ids: &Range<u64>) -> u16 {
        let packets = ids.end.saturating_sub(ids.start);
        let (mut counted, mut within) = (0.0, 0);
        for (end, count) in &self.0 {
            let covered = (*end).min(ids.end).saturating_sub(ids.start);
            counted += f64::from(*count) * covered as f64 / packets.max(1) as f64;
            within += covered.min((*count).into());
        }
        let most = packets.saturating_sub(within);
        let left = due.saturating_sub(counted as u16);
        left.min(u16::try_from(most).unwrap_or(u16::MAX))
    }
}
