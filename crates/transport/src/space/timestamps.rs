//! When packets arrived, as far as the peer wants to know. draft-ietf-quic-receive-ts.

use std::collections::VecDeque;

use crate::{time::Instant, units::PacketNumber};

/// More timestamps than this never wait for an ACK, whatever the peer asks for. 16 bytes each.
pub(super) const MAX_PENDING: usize = 64;

/// How receive timestamps are reported to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampConfig {
    /// Timestamps in one ACK at most: the peer's max_receive_timestamps_per_ack.
    pub max_per_ack: u64,
    /// The peer's receive_timestamps_exponent: times are in units of 2^exponent microseconds.
    pub exponent: u8,
    /// What reported times count from; constant for the connection and never in the future.
    pub basis: Instant,
}

/// Packets whose arrival was not reported yet, oldest arrival first.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrivalTimes {
    pending: VecDeque<(PacketNumber, Instant)>,
}

impl ArrivalTimes {
    pub(super) fn record(&mut self, number: PacketNumber, now: Instant) {
        if self.pending.len() >= MAX_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back((number, now));
    }

    /// Fills `out` with the newest arrivals, newest first, in microseconds since the basis.
    pub(super) fn newest<'a>(
        &self,
        config: &TimestampConfig,
        out: &'a mut [(PacketNumber, u64); MAX_PENDING],
    ) -> &'a [(PacketNumber, u64)] {
        let max = usize::try_from(config.max_per_ack).unwrap_or(usize::MAX);
        let mut count = 0;
        for ((number, at), slot) in self.pending.iter().rev().take(max).zip(out.iter_mut()) {
            let micros = at.saturating_since(config.basis).as_micros();
            *slot = (*number, u64::try_from(micros).unwrap_or(u64::MAX));
            count += 1;
        }
        out.get(..count).unwrap_or_default()
    }

    /// An ACK told them.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }
}
