//! The timestamps part of ACK_RECEIVE_TIMESTAMPS. draft-ietf-quic-receive-ts.

use std::iter;

use crate::{
    error::{DecodeError, DecodeErrorKind},
    units::PacketNumber,
    wire::{Reader, Writer, varint_len},
};

/// Receive timestamps as they arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps<'a> {
    largest: PacketNumber,
    range_count: u64,
    /// Delta Largest Acknowledged, Timestamp Delta Count and that many deltas, `range_count` times.
    ranges: &'a [u8],
}

impl<'a> Timestamps<'a> {
    /// Reads what follows the ACK fields; no packet number may fall below 0.
    pub(super) fn decode(largest: PacketNumber, r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let invalid = DecodeErrorKind::Invalid("timestamp range");
        let range_count = r.varint()?;
        let all = r.peek_rest();
        let before = r.offset();
        for _ in 0..range_count {
            let delta_largest = r.varint()?;
            let count = r.varint()?;
            let last = delta_largest.checked_add(count.saturating_sub(1));
            if last.is_none_or(|last| last > largest) {
                return Err(r.error(invalid));
            }
            for _ in 0..count {
                r.varint()?;
            }
        }
        let ranges = all.get(..r.offset() - before).unwrap_or_default();
        Ok(Self {
            largest,
            range_count,
            ranges,
        })
    }

    /// How many timestamps there are; must not exceed what we announced in
    /// max_receive_timestamps_per_ack.
    pub fn count(&self) -> u64 {
        self.iter(0).count() as u64
    }

    /// Packet numbers and when they were received, in microseconds since the peer's private
    /// basis; the latest received first. Ends at a timestamp that would be before the basis.
    ///
    /// `exponent` is the receive_timestamps_exponent we announced, at most 20.
    pub fn iter(&self, exponent: u8) -> impl Iterator<Item = (PacketNumber, u64)> + use<'a> {
        let largest = self.largest;
        let mut rest = Reader::new(self.ranges);
        let mut left_in_range = 0;
        let mut number = largest;
        let mut time: Option<u64> = None;
        iter::from_fn(move || {
            while left_in_range == 0 {
                number = largest.checked_sub(rest.varint().ok()?)?;
                left_in_range = rest.varint().ok()?;
            }
            let delta = rest.varint().ok()?;
            let now = match time {
                None => delta,
                Some(earlier) => earlier.checked_sub(delta)?,
            };
            time = Some(now);
            let this = number;
            left_in_range -= 1;
            number = number.saturating_sub(1);
            let micros = now
                .checked_shl(u32::from(exponent))
                .filter(|m| m >> exponent == now);
            Some((this, micros.unwrap_or(u64::MAX)))
        })
    }

    pub(super) fn encoded_len(&self) -> usize {
        varint_len(self.range_count) + self.ranges.len()
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        w.varint(self.range_count);
        w.bytes(self.ranges);
    }
}

/// Receive timestamps to report.
#[derive(Clone, Copy, Debug)]
pub struct TimestampsToWrite<'a> {
    /// Packet numbers and when they were received, in microseconds since a basis that stays the
    /// same on this connection; the latest received first, none above the acknowledgement's
    /// largest. Reporting stops at an entry that breaks these rules.
    pub received: &'a [(PacketNumber, u64)],
    /// The peer's receive_timestamps_exponent.
    pub exponent: u8,
    /// The peer's max_receive_timestamps_per_ack.
    pub max: u64,
}

/// The part of [`TimestampsToWrite`] that fits: how many entries, in how many ranges.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    pub(super) entries: usize,
    ranges: u64,
}

impl TimestampsToWrite<'_> {
    fn scaled(&self, micros: u64) -> u64 {
        (micros >> self.exponent.min(63)).min(super::super::MAX_VARINT)
    }

    /// Counts the entries that `room` bytes hold, the range count included.
    pub(super) fn plan(&self, largest: PacketNumber, room: usize) -> Plan {
        let mut plan = Plan::default();
        let mut used = 0;
        let mut run = 0u64;
        let mut previous: Option<(PacketNumber, u64)> = None;
        let max = usize::try_from(self.max).unwrap_or(usize::MAX);
        for &(number, micros) in self.received.iter().take(max) {
            let time = self.scaled(micros);
            let delta = previous.map_or(Some(time), |(_, before)| before.checked_sub(time));
            let (Some(delta), Some(from_largest)) = (delta, largest.checked_sub(number)) else {
                break;
            };
            let continues =
                previous.is_some_and(|(before, _)| before.checked_sub(1) == Some(number));
            let ranges = plan.ranges + u64::from(!continues);
            let more = if continues {
                varint_len(run + 1) - varint_len(run)
            } else {
                varint_len(from_largest) + 1
            };
            used += more + varint_len(delta);
            if varint_len(ranges) + used > room {
                break;
            }
            run = if continues { run + 1 } else { 1 };
            plan = Plan {
                entries: plan.entries + 1,
                ranges,
            };
            previous = Some((number, time));
        }
        plan
    }

    /// Writes what `plan` found room for.
    pub(super) fn encode(&self, largest: PacketNumber, plan: Plan, w: &mut Writer<'_>) {
        w.varint(plan.ranges);
        let mut rest = self.received.get(..plan.entries).unwrap_or_default();
        let mut before = None;
        while let Some(&(first, _)) = rest.first() {
            let run = rest.windows(2).take_while(|pair| is_run(pair)).count() + 1;
            let (range, tail) = rest.split_at_checked(run).unwrap_or((rest, &[]));
            w.varint(largest.saturating_sub(first));
            w.varint(run as u64);
            for &(_, micros) in range {
                let time = self.scaled(micros);
                w.varint(before.map_or(time, |before: u64| before.saturating_sub(time)));
                before = Some(time);
            }
            rest = tail;
        }
    }
}

fn is_run(pair: &[(PacketNumber, u64)]) -> bool {
    matches!(pair, [(a, _), (b, _)] if a.checked_sub(1) == Some(*b))
}
