//! Which recovered symbols the peer is to be told of, and when. docs/spec/fec.md.
//!
//! Owns: the list behind SYMBOL_ACK on the receiving side.
//! Does not own: what a SYMBOL_ACK means to the one who gets it (`sender.rs`).

use std::ops::RangeInclusive;

/// SYMBOL_ACK frames that tell of a recovered symbol: so many in a row may be lost but one.
const TELLINGS: u8 = 3;
/// Recovered symbols that wait to be told; 16 bytes each. Beyond, the oldest go untold: they are
/// sent again, no more.
const UNTOLD: usize = 256;

/// Recovered symbols to report.
#[derive(Debug, Default)]
pub(super) struct Feedback {
    /// IDs, ascending, each with how often it was told.
    recovered: Vec<(u64, u8)>,
    /// Some were never told.
    due: bool,
    /// The last frame had no room for those below this ID: the next one begins with them.
    below: Option<u64>,
}

impl Feedback {
    /// A symbol was recovered: the peer should know at once, before it sends the data again.
    pub(super) fn on_recovered(&mut self, id: u64) {
        let index = self.recovered.partition_point(|(known, _)| *known < id);
        if self
            .recovered
            .get(index)
            .is_some_and(|(known, _)| *known == id)
        {
            return;
        }
        self.recovered.insert(index, (id, 0));
        if self.recovered.len() > UNTOLD {
            self.recovered.remove(0);
        }
        self.due = true;
    }

    /// Whether a SYMBOL_ACK must leave now.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Whether there is something that an ACK should take along.
    pub(super) fn has_news(&self) -> bool {
        !self.recovered.is_empty()
    }

    /// The symbols to report, as ranges, descending.
    pub(super) fn ranges(&self) -> Ranges<'_> {
        let rest = self.below.map_or(0, |below| {
            self.recovered.partition_point(|(id, _)| *id < below)
        });
        // Those that had no room may be gone: the oldest go untold.
        let rest = self.recovered.get(..rest).filter(|rest| !rest.is_empty());
        Ranges(rest.unwrap_or(&self.recovered))
    }

    /// A SYMBOL_ACK left with the first `written` of [`Self::ranges`]; 0 if none left.
    pub(super) fn on_told(&mut self, written: usize) {
        let named = self.ranges().take(written);
        let ends = named.fold(None, |ends, range| {
            let (_, last) = ends.unwrap_or((0, *range.end()));
            Some((*range.start(), last))
        });
        let Some((first, last)) = ends else {
            return;
        };
        for (id, told) in &mut self.recovered {
            *told += u8::from((first..=last).contains(id));
        }
        self.recovered.retain(|(_, told)| *told < TELLINGS);
        self.due = self.recovered.iter().any(|(_, told)| *told == 0);
        // Not from the top again, or the newest would leave no room for the others once more.
        let rest = self.recovered.first().is_some_and(|(id, _)| *id < first);
        self.below = Some(first).filter(|_| self.due && rest);
        if self.recovered.is_empty() && self.recovered.capacity() > 16 {
            self.recovered = Vec::new();
        }
    }
}

/// Runs of neighbours, from the end.
#[derive(Clone, Debug)]
pub(super) struct Ranges<'a>(&'a [(u64, u8)]);

impl Iterator for Ranges<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        let ((last, _), mut rest) = self.0.split_last()?;
        let mut first = *last;
        while let Some(((id, _), before)) = rest.split_last()
            && id + 1 == first
        {
            first = *id;
            rest = before;
        }
        self.0 = rest;
        Some(first..=*last)
    }
}
