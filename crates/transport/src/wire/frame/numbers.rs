//! Ranges of numbers as ACK has them, in frames that are none: SYMBOL_ACK, PATH_ECHO.

use std::ops::RangeInclusive;

use super::{
    AckRanges,
    ack::check_ranges,
    write_ack::{Gaps, count_ranges},
};
use crate::{
    error::DecodeError,
    wire::{Reader, Writer, varint_len},
};

/// Numbers that the peer reports: of source symbols that it has, received or recovered, or of packets.
///
/// Checked when they were decoded: the ranges descend, are disjoint, and none reaches below 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRanges<'a> {
    /// The largest number reported.
    pub largest: u64,
    /// Ranges after the first.
    range_count: u64,
    /// First range, then gap and length `range_count` times, as in ACK.
    ranges: &'a [u8],
}

impl<'a> NumberRanges<'a> {
    /// The numbers: disjoint ranges that do not touch, descending.
    pub fn iter(&self) -> AckRanges<'a> {
        AckRanges::new(self.largest, self.ranges)
    }

    pub(super) fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let largest = r.varint()?;
        let range_count = r.varint()?;
        let all = r.peek_rest();
        let before = r.offset();
        check_ranges(largest, range_count, r)?;
        Ok(Self {
            largest,
            range_count,
            ranges: all.get(..r.offset() - before).unwrap_or_default(),
        })
    }

    pub(super) fn encoded_len(&self) -> usize {
        varint_len(self.largest) + varint_len(self.range_count) + self.ranges.len()
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        w.varint(self.largest);
        w.varint(self.range_count);
        w.bytes(self.ranges);
    }
}

/// Writes `ranges`, which descend, behind the fields `head`. Ranges that do not fit are left out, oldest
/// first. How many are written: 0, and nothing is, when not even the first one fits or there is none.
pub(super) fn write_numbers<I>(w: &mut Writer<'_>, head: &[u64], ranges: I) -> usize
where
    I: Iterator<Item = RangeInclusive<u64>> + Clone,
{
    let mut ranges = ranges;
    let Some(first) = ranges.next() else {
        return 0;
    };
    let (largest, Some(length)) = (*first.end(), first.end().checked_sub(*first.start())) else {
        return 0;
    };
    let head_len: usize = head.iter().map(|field| varint_len(*field)).sum();
    let fixed = head_len + varint_len(largest) + varint_len(length);
    let Some(room) = w.remaining().checked_sub(fixed + 1) else {
        return 0;
    };
    let gaps = Gaps::new(*first.start(), ranges);
    let (count, _) = count_ranges(gaps.clone(), room);
    for field in head {
        w.varint(*field);
    }
    super::write_varints(w, [largest, count as u64, length]);
    for (gap, length) in gaps.take(count) {
        w.varint(gap);
        w.varint(length);
    }
    1 + count
}
