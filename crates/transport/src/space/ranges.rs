//! Received packet numbers as a bounded set of ranges.

use std::{collections::VecDeque, ops::RangeInclusive};

use crate::units::PacketNumber;

/// A set of packet numbers that forgets from below.
///
/// Everything under `floor` counts as seen: what was forgotten must never be taken for new
/// (RFC 9000 s13.2.3).
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    /// Ascending, disjoint, never adjacent.
    ranges: VecDeque<(PacketNumber, PacketNumber)>,
    floor: PacketNumber,
    max_ranges: usize,
    /// Ranges ever begun.
    begun: u64,
}

impl Ranges {
    pub(super) fn new(max_ranges: usize) -> Self {
        Self {
            ranges: VecDeque::new(),
            floor: 0,
            max_ranges: max_ranges.max(1),
            begun: 0,
        }
    }

    pub(super) fn largest(&self) -> Option<PacketNumber> {
        self.ranges.back().map(|&(_, end)| end)
    }

    /// How many ranges began so far, joined or forgotten ones too.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Numbers below this are forgotten and count as seen.
    #[cfg(test)]
    pub(super) fn floor(&self) -> PacketNumber {
        self.floor
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Keeps the newest range only; what lies below counts as seen.
    pub(super) fn keep_newest(&mut self) {
        if let Some(newest) = self.ranges.pop_back() {
            self.floor = self.floor.max(newest.0);
            self.ranges = VecDeque::from([newest]);
        }
    }

    /// Index of the first range that ends at `number` or above.
    fn find(&self, number: PacketNumber) -> usize {
        // Nearly always the last one.
        match self.ranges.back() {
            Some(&(start, end)) if start <= number => {
                self.ranges.len() - usize::from(number <= end)
            }
            _ => self.ranges.partition_point(|&(_, end)| end < number),
        }
    }

    /// Whether `number` was inserted or lies below the floor.
    pub(super) fn contains(&self, number: PacketNumber) -> bool {
        number < self.floor
            || self
                .ranges
                .get(self.find(number))
                .is_some_and(|&(start, _)| start <= number)
    }

    /// Adds `number`; false if it was there already or is forgotten.
    pub(super) fn insert(&mut self, number: PacketNumber) -> bool {
        if number < self.floor {
            return false;
        }
        let index = self.find(number);
        if self
            .ranges
            .get(index)
            .is_some_and(|&(start, _)| start <= number)
        {
            return false;
        }
        let joins_next = self
            .ranges
            .get(index)
            .is_some_and(|&(start, _)| start == number + 1);
        let before = index.checked_sub(1);
        let joins_before = before
            .and_then(|before| self.ranges.get(before))
            .is_some_and(|&(_, end)| end + 1 == number);
        match (joins_before, joins_next) {
            (true, true) => {
                if let Some((_, end)) = self.ranges.remove(index)
                    && let Some(range) = before.and_then(|before| self.ranges.get_mut(before))
                {
                    range.1 = end;
                }
            }
            (true, false) => {
                if let Some(range) = before.and_then(|before| self.ranges.get_mut(before)) {
                    range.1 = number;
                }
            }
            (false, true) => {
                if let Some(range) = self.ranges.get_mut(index) {
                    range.0 = number;
                }
            }
            (false, false) => {
                self.begun += 1;
                self.ranges.insert(index, (number, number));
                self.bound();
            }
        }
        true
    }

    fn bound(&mut self) {
        while self.ranges.len() > self.max_ranges {
            if let Some((_, end)) = self.ranges.pop_front() {
                self.floor = self.floor.max(end + 1);
            }
        }
    }

    /// Forgets everything up to and including `number`, but never the largest.
    pub(super) fn forget_up_to(&mut self, number: PacketNumber) {
        let Some(largest) = self.largest() else {
            return;
        };
        self.floor = self.floor.max((number + 1).min(largest));
        while let Some(front) = self.ranges.front_mut() {
            if front.1 >= self.floor {
                front.0 = front.0.max(self.floor);
                break;
            }
            self.ranges.pop_front();
        }
        if self.ranges.capacity() > 16 && self.ranges.len() < self.ranges.capacity() / 8 {
            self.ranges.shrink_to(self.ranges.len() * 2);
        }
    }

    /// Descending.
    pub(super) fn iter(&self) -> impl Iterator<Item = RangeInclusive<PacketNumber>> + Clone + '_ {
        self.ranges.iter().rev().map(|&(start, end)| start..=end)
    }

    /// The smallest number above `bound` (or the smallest at all, from the floor on) that is
    /// missing below the largest.
    pub(super) fn smallest_missing_above(
        &self,
        bound: Option<PacketNumber>,
    ) -> Option<PacketNumber> {
        let from = bound.map_or(0, |bound| bound + 1).max(self.floor);
        let largest = self.largest()?;
        if from > largest {
            return None;
        }
        match self.ranges.get(self.find(from)) {
            Some(&(start, end)) if start <= from => (end < largest).then_some(end + 1),
            _ => Some(from),
        }
    }
}
