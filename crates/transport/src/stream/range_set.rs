//! Disjoint ranges of offsets.

use std::{collections::BTreeMap, ops::Range};

/// A set of numbers kept as disjoint, non-adjacent ranges. Operations are O(log n) plus the number
/// of ranges they merge or split. Allocates nothing while it was never used.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    /// Start to end (exclusive).
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn clear(&mut self) {
        self.ranges = BTreeMap::new();
    }

    pub(crate) fn contains(&self, value: u64) -> bool {
        self.ranges
            .range(..=value)
            .next_back()
            .is_some_and(|(_, end)| *end > value)
    }

    /// How many numbers, of the lowest `ranges` ranges.
    pub(crate) fn count_up_to(&self, ranges: usize) -> u64 {
        let lowest = self.ranges.iter().take(ranges);
        lowest.map(|(start, end)| end - start).sum()
    }

    /// The lowest range.
    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.ranges
            .first_key_value()
            .map(|(start, end)| *start..*end)
    }

    pub(crate) fn insert(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        if let Some((before, before_end)) = self.ranges.range_mut(..=start).next_back() {
            if *before_end >= end {
                return;
            }
            if *before_end >= start {
                // The common case: a range grows at its end. Extend it in place.
                start = *before;
                *before_end = end;
            }
        }
        while let Some((next, next_end)) = self.range_after(start) {
            if next > end {
                break;
            }
            self.ranges.remove(&next);
            end = end.max(next_end);
        }
        self.ranges.insert(start, end);
    }

    pub(crate) fn remove(&mut self, range: Range<u64>) {
        if range.start >= range.end {
            return;
        }
        if let Some((_, end)) = self.ranges.range_mut(..range.start).next_back()
            && *end > range.start
        {
            let tail = *end;
            *end = range.start;
            if tail > range.end {
                self.ranges.insert(range.end, tail);
                return;
            }
        }
        while let Some((&start, &end)) = self.ranges.range(range.start..range.end).next() {
            self.ranges.remove(&start);
            if end > range.end {
                self.ranges.insert(range.end, end);
            }
        }
    }

    /// The parts of `range` that are not in the set, in order.
    pub(crate) fn gaps_in(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = range.start;
        if let Some((_, end)) = self.ranges.range(..=range.start).next_back() {
            at = at.max(*end);
        }
        let limit = range.end;
        let mut ranges = self.ranges.range(at..limit.max(at));
        std::iter::from_fn(move || {
            while at < limit {
                let (start, end) = ranges.next().map_or((limit, limit), |(s, e)| (*s, *e));
                let gap = at..start.min(limit);
                at = end;
                if !gap.is_empty() {
                    return Some(gap);
                }
            }
            None
        })
    }

    fn range_after(&self, start: u64) -> Option<(u64, u64)> {
        let after = (std::ops::Bound::Excluded(start), std::ops::Bound::Unbounded);
        self.ranges
            .range(after)
            .next()
            .map(|(start, end)| (*start, *end))
    }
}
