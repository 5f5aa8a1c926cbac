//! The next packet number, and numbers left out on purpose. RFC 9000 s21.4.

use std::ops::RangeInclusive;

use crate::{rng::Rng, units::PacketNumber};

/// How many left-out numbers are remembered; the oldest are forgotten.
const REMEMBERED: usize = 8;
/// The first number is left out within this many packets...
const FIRST_PERIOD: u64 = 64;
/// ...and the period doubles up to this.
const LAST_PERIOD: u64 = 4096;

/// Hands out packet numbers.
#[derive(Debug)]
pub(crate) struct Numbers {
    next: PacketNumber,
    allow_skips: bool,
    /// The next number to leave out; not below `next`. `None` until the first number is taken.
    skip_at: Option<PacketNumber>,
    period: u64,
    /// The newest left-out numbers, ascending; `count` of them.
    skipped: [PacketNumber; REMEMBERED],
    count: usize,
}

impl Numbers {
    pub(super) fn new(allow_skips: bool) -> Self {
        Self {
            next: 0,
            allow_skips,
            skip_at: None,
            period: FIRST_PERIOD,
            skipped: [0; REMEMBERED],
            count: 0,
        }
    }

    pub(super) fn peek(&self) -> PacketNumber {
        if self.skip_at == Some(self.next) {
            self.next + 1
        } else {
            self.next
        }
    }

    pub(super) fn take(&mut self, rng: &mut Rng) -> PacketNumber {
        if self.skip_at == Some(self.next) {
            self.remember(self.next);
            self.next += 1;
            self.skip_at = None;
        }
        let number = self.next;
        self.next += 1;
        if self.allow_skips && self.skip_at.is_none() {
            self.skip_at = Some(self.next + rng.below(self.period));
            self.period = (self.period * 2).min(LAST_PERIOD);
        }
        number
    }

    fn remember(&mut self, number: PacketNumber) {
        if self.count == REMEMBERED {
            self.skipped.copy_within(1.., 0);
            self.count -= 1;
        }
        if let Some(slot) = self.skipped.get_mut(self.count) {
            *slot = number;
            self.count += 1;
        }
    }

    /// One more than the largest number handed out.
    pub(crate) fn end(&self) -> PacketNumber {
        self.next
    }

    /// Whether one of `ranges`, which descend, holds a number that was left out.
    pub(crate) fn covers_skipped(
        &self,
        ranges: impl Iterator<Item = RangeInclusive<PacketNumber>>,
    ) -> bool {
        let mut skipped = self.skipped.iter().take(self.count).rev().peekable();
        for range in ranges {
            while skipped.next_if(|&&number| number > *range.end()).is_some() {}
            match skipped.peek() {
                None => return false,
                Some(&&number) if range.contains(&number) => return true,
                Some(_) => {}
            }
        }
        false
    }

    #[cfg(test)]
    pub(crate) fn last_skipped(&self) -> Option<PacketNumber> {
        self.count.checked_sub(1).map(|last| self.skipped[last])
    }
}
