//! ACK and its variants: PATH_ACK, ACK_RECEIVE_TIMESTAMPS, PATH_ACK_RECEIVE_TIMESTAMPS.

use std::{iter::FusedIterator, ops::RangeInclusive};

use super::{path::decode_path_id, timestamps::Timestamps};
use crate::{
    error::{DecodeError, DecodeErrorKind},
    units::{PacketNumber, PathId},
    wire::{Reader, Writer, codepoints::frame as ty, varint_len},
};

/// Which of the eight acknowledgement frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AckKind {
    pub(super) path: bool,
    pub(super) ecn: bool,
    pub(super) timestamps: bool,
}

impl AckKind {
    pub(super) const fn plain(ecn: bool) -> Self {
        Self {
            path: false,
            ecn,
            timestamps: false,
        }
    }

    pub(super) const fn from_type(frame_type: u64) -> Option<Self> {
        let (path, ecn, timestamps) = match frame_type {
            0x02 => (false, false, false),
            0x03 => (false, true, false),
            ty::PATH_ACK => (true, false, false),
            ty::PATH_ACK_ECN => (true, true, false),
            ty::ACK_RECEIVE_TIMESTAMPS => (false, false, true),
            ty::ACK_RECEIVE_TIMESTAMPS_ECN => (false, true, true),
            ty::PATH_ACK_RECEIVE_TIMESTAMPS => (true, false, true),
            ty::PATH_ACK_RECEIVE_TIMESTAMPS_ECN => (true, true, true),
            _ => return None,
        };
        Some(Self {
            path,
            ecn,
            timestamps,
        })
    }

    pub(super) const fn to_type(self) -> u64 {
        match (self.path, self.ecn, self.timestamps) {
            (false, false, false) => 0x02,
            (false, true, false) => 0x03,
            (true, false, false) => ty::PATH_ACK,
            (true, true, false) => ty::PATH_ACK_ECN,
            (false, false, true) => ty::ACK_RECEIVE_TIMESTAMPS,
            (false, true, true) => ty::ACK_RECEIVE_TIMESTAMPS_ECN,
            (true, false, true) => ty::PATH_ACK_RECEIVE_TIMESTAMPS,
            (true, true, true) => ty::PATH_ACK_RECEIVE_TIMESTAMPS_ECN,
        }
    }
}

/// Packets received with each ECN codepoint since the start of the space. RFC 9000 s19.3.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// ECT(0).
    pub ect0: u64,
    /// ECT(1).
    pub ect1: u64,
    /// CE.
    pub ce: u64,
}

impl EcnCounts {
    pub(super) fn encoded_len(&self) -> usize {
        varint_len(self.ect0) + varint_len(self.ect1) + varint_len(self.ce)
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        w.varint(self.ect0);
        w.varint(self.ect1);
        w.varint(self.ce);
    }
}

/// A received acknowledgement. RFC 9000 s19.3, RFC 10069, draft-ietf-quic-receive-ts.
///
/// Its ranges were checked when it was decoded: descending, disjoint, none below packet 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The path whose packets are meant; `None` for ACK, which means path 0.
    pub path: Option<PathId>,
    /// Largest packet number acknowledged.
    pub largest: PacketNumber,
    /// ACK Delay as on the wire, to be scaled by the peer's ack_delay_exponent.
    pub delay: u64,
    /// ECN counts, if reported.
    pub ecn: Option<EcnCounts>,
    /// Receive timestamps, if the frame is one that carries them.
    pub timestamps: Option<Timestamps<'a>>,
    /// ACK ranges after the first.
    range_count: u64,
    /// First ACK Range, then Gap and ACK Range Length `range_count` times.
    ranges: &'a [u8],
}

impl<'a> Ack<'a> {
    /// The acknowledged packet numbers: disjoint ranges that do not touch, descending. Starts
    /// with the range that ends in `largest`.
    #[inline]
    pub fn ranges(&self) -> AckRanges<'a> {
        AckRanges::new(self.largest, self.ranges)
    }

    pub(super) fn kind(&self) -> AckKind {
        AckKind {
            path: self.path.is_some(),
            ecn: self.ecn.is_some(),
            timestamps: self.timestamps.is_some(),
        }
    }

    pub(super) fn encoded_len(&self) -> usize {
        varint_len(self.kind().to_type())
            + self.path.map_or(0, |path| varint_len(u64::from(path.0)))
            + varint_len(self.largest)
            + varint_len(self.delay)
            + varint_len(self.range_count)
            + self.ranges.len()
            + self.ecn.map_or(0, |ecn| ecn.encoded_len())
            + self
                .timestamps
                .map_or(0, |timestamps| timestamps.encoded_len())
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        w.varint(self.kind().to_type());
        if let Some(path) = self.path {
            w.varint(u64::from(path.0));
        }
        w.varint(self.largest);
        w.varint(self.delay);
        w.varint(self.range_count);
        w.bytes(self.ranges);
        if let Some(ecn) = self.ecn {
            ecn.encode(w);
        }
        if let Some(timestamps) = self.timestamps {
            timestamps.encode(w);
        }
    }
}

/// Reads what follows the type.
#[inline]
pub(super) fn decode<'a>(kind: AckKind, r: &mut Reader<'a>) -> Result<Ack<'a>, DecodeError> {
    let path = if kind.path {
        Some(decode_path_id(r)?)
    } else {
        None
    };
    let largest = r.varint()?;
    let delay = r.varint()?;
    let range_count = r.varint()?;
    let all = r.peek_rest();
    let before = r.offset();
    check_ranges(largest, range_count, r)?;
    let ranges = all.get(..r.offset() - before).unwrap_or_default();
    let ecn = if kind.ecn {
        Some(EcnCounts {
            ect0: r.varint()?,
            ect1: r.varint()?,
            ce: r.varint()?,
        })
    } else {
        None
    };
    let timestamps = if kind.timestamps {
        Some(Timestamps::decode(largest, r)?)
    } else {
        None
    };
    Ok(Ack {
        path,
        largest,
        delay,
        ecn,
        timestamps,
        range_count,
        ranges,
    })
}

/// Walks over the ranges; no packet number may fall below 0. RFC 9000 s19.3.1.
///
/// Takes time linear in the bytes read: a count larger than the bytes allow ends early.
pub(super) fn check_ranges(
    largest: u64,
    count: u64,
    r: &mut Reader<'_>,
) -> Result<(), DecodeError> {
    let below_zero = DecodeErrorKind::Invalid("ACK range");
    let first = r.varint()?;
    let mut smallest = largest
        .checked_sub(first)
        .ok_or_else(|| r.error(below_zero))?;
    for _ in 0..count {
        let gap = r.varint()?;
        let length = r.varint()?;
        // Both are below 2^62, so the sum does not wrap.
        smallest = smallest
            .checked_sub(gap + length + 2)
            .ok_or_else(|| r.error(below_zero))?;
    }
    Ok(())
}

/// Iterator over the ranges of an [`Ack`], descending.
#[derive(Clone, Debug)]
pub struct AckRanges<'a> {
    /// Upper end of the next range.
    largest: Option<PacketNumber>,
    /// The next range's length, then gaps and lengths.
    rest: Reader<'a>,
}

impl<'a> AckRanges<'a> {
    /// Over ranges that were checked: the first one's length, then gaps and lengths.
    pub(super) fn new(largest: u64, ranges: &'a [u8]) -> Self {
        Self {
            largest: Some(largest),
            rest: Reader::new(ranges),
        }
    }
}

impl Iterator for AckRanges<'_> {
    type Item = RangeInclusive<PacketNumber>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let largest = self.largest.take()?;
        let length = self.rest.varint().ok()?;
        let smallest = largest.checked_sub(length)?;
        if !self.rest.is_empty() {
            let gap = self.rest.varint().ok()?;
            self.largest = smallest.checked_sub(gap + 2);
        }
        Some(smallest..=largest)
    }
}

impl FusedIterator for AckRanges<'_> {}
