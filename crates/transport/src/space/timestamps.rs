//! When packets arrived, as far as the peer wants to know. draft-ietf-quic-receive-ts.

use std::collections::VecDeque;

use crate::{time::Instant, units::PacketNumber};

/// More timestamps than this never wait for an ACK, whatever the peer asks for. 16 bytes each.
const MAX_PENDING: usize = 64;

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

    /// The newest arrivals, newest first, as many as the peer takes.
    pub(super) fn newest(
        &self,
        config: &TimestampConfig,
    ) -> impl Iterator<Item = (PacketNumber, Instant)> + Clone + '_ {
        let max = usize::try_from(config.max_per_ack).unwrap_or(usize::MAX);
        self.pending.iter().rev().take(max).copied()
    }

    /// An ACK told them.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }
}
