//! What a direction of a link has done so far.

use std::time::Duration;

use tautline_transport::time::Instant;

/// Why a packet vanished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DropCause {
    /// The queue was full.
    Queue = 1,
    /// The loss model picked it.
    Loss = 2,
    /// It was larger than the MTU.
    Mtu = 3,
    /// An outage, or the link was set down.
    Outage = 4,
    /// A scripted index or a rule.
    Rule = 5,
    /// The queue's management (CoDel) picked it.
    Aqm = 6,
}

/// Packets dropped, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// The queue was full.
    pub queue: u64,
    /// The loss model picked it.
    pub loss: u64,
    /// Larger than the MTU.
    pub mtu: u64,
    /// An outage, or the link was set down.
    pub outage: u64,
    /// A scripted index or a rule.
    pub rule: u64,
    /// The queue's management (CoDel) picked it.
    pub aqm: u64,
}

impl Drops {
    /// All causes together.
    pub const fn total(&self) -> u64 {
        self.queue + self.loss + self.mtu + self.outage + self.rule + self.aqm
    }

    fn count(&mut self, cause: DropCause) {
        match cause {
            DropCause::Queue => self.queue += 1,
            DropCause::Loss => self.loss += 1,
            DropCause::Mtu => self.mtu += 1,
            DropCause::Outage => self.outage += 1,
            DropCause::Rule => self.rule += 1,
            DropCause::Aqm => self.aqm += 1,
        }
    }
}

/// Counters of one direction of a link.
///
/// `sent_packets + duplicated = delivered_packets + dropped.total() + in_flight()` at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionStats {
    /// Packets offered by the sending end.
    pub sent_packets: u64,
    /// Their IP bytes.
    pub sent_bytes: u64,
    /// Packets that reached the other end, copies included.
    pub delivered_packets: u64,
    /// Their IP bytes.
    pub delivered_bytes: u64,
    /// Packets that vanished.
    pub dropped: Drops,
    /// When the first of them was offered, or left the queue.
    pub first_drop: Option<Instant>,
    /// Packets delivered with a changed payload.
    pub corrupted: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets held back by the reordering model.
    pub held_back: u64,
    /// Packets marked CE by the queue.
    pub ce_marked: u64,
    /// Most IP bytes that waited at once.
    pub queue_max_bytes: u64,
    /// Most packets that waited at once.
    pub queue_max_packets: u64,
    /// Time the transmitter has spent sending.
    pub busy: Duration,
    /// Packets that the queue let go to the wire, also those the wire then lost.
    pub served_packets: u64,
    /// Their times together from reaching the queue until their last byte leaves.
    pub sojourn: Duration,
}

impl DirectionStats {
    pub(crate) fn on_drop(&mut self, now: Instant, cause: DropCause) {
        self.first_drop.get_or_insert(now);
        self.dropped.count(cause);
    }

    /// Packets waiting, being sent or on the wire.
    pub const fn in_flight(&self) -> u64 {
        (self.sent_packets + self.duplicated)
            .saturating_sub(self.delivered_packets + self.dropped.total())
    }

    /// Mean time from reaching the queue until the last byte leaves; none without a packet.
    pub fn mean_sojourn(&self) -> Option<Duration> {
        let nanos = self
            .sojourn
            .as_nanos()
            .checked_div(self.served_packets.into())?;
        Some(Duration::from_nanos(
            u64::try_from(nanos).unwrap_or(u64::MAX),
        ))
    }

    pub(crate) fn served(&mut self, since: Instant, departure: Instant) {
        self.served_packets += 1;
        self.sojourn += departure.saturating_since(since);
    }

    /// Share of `elapsed` in which the transmitter was busy, `0.0..=1.0`.
    pub fn utilisation(&self, elapsed: Duration) -> f64 {
        if elapsed.is_zero() {
            return 0.0;
        }
        (self.busy.as_secs_f64() / elapsed.as_secs_f64()).min(1.0)
    }
}
