//! Writing acknowledgements straight from what was received.

use std::ops::RangeInclusive;

use super::{
    ack::{AckKind, EcnCounts},
    timestamps::TimestampsToWrite,
};
use crate::{
    units::{PacketNumber, PathId},
    wire::{Writer, varint_len},
};

/// An acknowledgement to send.
#[derive(Clone, Copy, Debug)]
pub struct AckToWrite<'a, I> {
    /// `Some` makes it a PATH_ACK.
    pub path: Option<PathId>,
    /// Largest packet number; the end of the first range.
    pub largest: PacketNumber,
    /// ACK Delay as on the wire, scaled by our ack_delay_exponent.
    pub delay: u64,
    /// Received packet numbers: ranges that neither overlap nor touch, descending.
    pub ranges: I,
    /// ECN counts to report.
    pub ecn: Option<EcnCounts>,
    /// Receive timestamps to report, as far as they fit.
    pub timestamps: Option<TimestampsToWrite<'a>>,
}

/// Writes an acknowledgement.
///
/// What does not fit is left out: first timestamps, then ranges, oldest first. Returns false, and
/// writes nothing, when not even the first range fits or there is none.
pub fn write_ack<I>(w: &mut Writer<'_>, ack: AckToWrite<'_, I>) -> bool
where
    I: Iterator<Item = RangeInclusive<PacketNumber>> + Clone,
{
    let mut ranges = ack.ranges;
    let Some(first) = ranges.next() else {
        return false;
    };
    debug_assert_eq!(
        *first.end(),
        ack.largest,
        "the first range ends in the largest number"
    );
    let Some(first_length) = ack.largest.checked_sub(*first.start()) else {
        return false;
    };
    let mut kind = AckKind {
        path: ack.path.is_some(),
        ecn: ack.ecn.is_some(),
        timestamps: false,
    };
    let fixed = varint_len(kind.to_type())
        + ack.path.map_or(0, |path| varint_len(u64::from(path.0)))
        + varint_len(ack.largest)
        + varint_len(ack.delay)
        + varint_len(first_length)
        + ack.ecn.map_or(0, |ecn| ecn.encoded_len());
    let Some(room) = w.remaining().checked_sub(fixed + 1) else {
        return false;
    };

    let (count, used) = count_ranges(Gaps::new(*first.start(), ranges.clone()), room);
    let timestamps = ack.timestamps.and_then(|timestamps| {
        kind.timestamps = true;
        let longer_type = varint_len(kind.to_type())
            - varint_len(
                AckKind {
                    timestamps: false,
                    ..kind
                }
                .to_type(),
            );
        let room = room.checked_sub(used + longer_type);
        let plan = timestamps.plan(ack.largest, room.unwrap_or(0));
        kind.timestamps = plan.entries > 0;
        kind.timestamps.then_some((timestamps, plan))
    });

    w.varint(kind.to_type());
    if let Some(path) = ack.path {
        w.varint(u64::from(path.0));
    }
    w.varint(ack.largest);
    w.varint(ack.delay);
    w.varint(count as u64);
    w.varint(first_length);
    for (gap, length) in Gaps::new(*first.start(), ranges).take(count) {
        w.varint(gap);
        w.varint(length);
    }
    if let Some(ecn) = ack.ecn {
        ecn.encode(w);
    }
    if let Some((timestamps, plan)) = timestamps {
        timestamps.encode(ack.largest, plan, w);
    }
    debug_assert!(!w.overflowed(), "an acknowledgement was measured wrongly");
    true
}

/// How many ranges after the first fit in `room` bytes, beside the one-byte range count that is
/// already accounted for, and how many bytes they take with a longer count.
pub(super) fn count_ranges(gaps: impl Iterator<Item = (u64, u64)>, room: usize) -> (usize, usize) {
    let mut count = 0;
    let mut bytes = 0;
    let mut used = 0;
    for (gap, length) in gaps {
        bytes += varint_len(gap) + varint_len(length);
        let longer_count = varint_len(count as u64 + 1) - 1;
        if bytes + longer_count > room {
            break;
        }
        count += 1;
        used = bytes + longer_count;
    }
    (count, used)
}

/// Turns ranges into Gap and ACK Range Length; stops at one that is out of order.
#[derive(Clone, Debug)]
pub(super) struct Gaps<I> {
    smallest: PacketNumber,
    ranges: I,
}

impl<I> Gaps<I> {
    pub(super) fn new(smallest: PacketNumber, ranges: I) -> Self {
        Self { smallest, ranges }
    }
}

impl<I: Iterator<Item = RangeInclusive<PacketNumber>>> Iterator for Gaps<I> {
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let range = self.ranges.next()?;
        let gap = self
            .smallest
            .checked_sub(*range.end())
            .and_then(|gap| gap.checked_sub(2));
        let length = range.end().checked_sub(*range.start());
        debug_assert!(
            gap.is_some() && length.is_some(),
            "ranges descend and do not touch"
        );
        self.smallest = *range.start();
        gap.zip(length)
    }
}
