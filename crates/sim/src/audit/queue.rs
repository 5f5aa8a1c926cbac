//! What waits: counted anew, and held against the limits.
//!
//! Owns: [`Queue`]: who may enter, who is turned away, who leaves a managed queue. Does not own:
//! when the transmitter takes a packet (`transmitter.rs`).

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tautline_transport::{time::Instant, units::Ecn};

use super::{Blame, Era, curve, transmitter::Transmitter};
use crate::{Aqm, DropCause, Outcome, PacketRecord, QueueSize, Stage};

pub(super) struct Queue {
    limit: Limit,
    mark_above: Option<Limit>,
    /// Drop-tail: when the service of each begins, and its bytes.
    tail: VecDeque<(Instant, u64)>,
    /// Managed: when each came, and its bytes.
    managed: BTreeMap<u64, (Instant, u64)>,
    bytes: u64,
    /// Since when a managed queue has not been empty.
    busy_since: Instant,
    /// The last that came to a managed queue, until the next record says whether it may stay.
    newcomer: Option<u64>,
}

/// A queue's size in bytes and packets.
#[derive(Clone, Copy)]
struct Limit {
    bytes: u64,
    packets: u64,
}

impl Limit {
    const NONE: Self = Self {
        bytes: u64::MAX,
        packets: u64::MAX,
    };

    fn of(size: QueueSize, era: &Era<'_>) -> Self {
        match size {
            QueueSize::Unlimited => Self::NONE,
            QueueSize::Bytes(bytes) => Self {
                bytes,
                ..Self::NONE
            },
            QueueSize::Packets(packets) => Self {
                packets,
                ..Self::NONE
            },
            QueueSize::Bdp(factor) => curve::mean(era.config).map_or(Self::NONE, |rate| {
                let product = rate.bytes_in(era.round_trip) as f64 * factor;
                Self {
                    bytes: (product as u64).max(3000),
                    ..Self::NONE
                }
            }),
        }
    }

    fn is_below(&self, bytes: u64, packets: u64) -> bool {
        bytes > self.bytes || packets > self.packets
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.bytes, self.packets) {
            (u64::MAX, u64::MAX) => f.write_str("no limit"),
            (bytes, u64::MAX) => write!(f, "{bytes} bytes"),
            (u64::MAX, packets) => write!(f, "{packets} packets"),
            (bytes, packets) => write!(f, "{bytes} bytes and {packets} packets"),
        }
    }
}

impl Queue {
    pub(super) fn new(era: &Era<'_>) -> Self {
        let mut queue = Self {
            limit: Limit::NONE,
            mark_above: None,
            tail: VecDeque::new(),
            managed: BTreeMap::new(),
            bytes: 0,
            busy_since: Instant::ZERO,
            newcomer: None,
        };
        queue.enter(era);
        queue
    }

    fn enter(&mut self, era: &Era<'_>) {
        self.limit = Limit::of(era.config.queue, era);
        if let Aqm::FqCodel { limit, .. } = era.config.aqm {
            self.limit.packets = self.limit.packets.min(limit);
        }
        let threshold = era.config.ecn_threshold;
        self.mark_above = threshold.map(|size| Limit::of(size, era));
    }

    pub(super) fn next_era(&mut self, old: &Era<'_>, new: &Era<'_>, blame: &mut Blame<'_>) {
        self.end(old, blame);
        if old.config.aqm != new.config.aqm && !old.managed() {
            // They are in the transmitter's hands; another queue begins behind them.
            self.tail.clear();
            self.bytes = 0;
        }
        self.enter(new);
    }

    /// When the log is over, or the configuration another.
    pub(super) fn end(&mut self, _: &Era<'_>, blame: &mut Blame<'_>) {
        if let Some(index) = self.newcomer.take() {
            self.stays(index, blame);
        }
    }

    /// Since when a managed queue has had something to send.
    pub(super) fn busy_since(&self) -> Instant {
        self.busy_since
    }

    pub(super) fn check(
        &mut self,
        era: &Era<'_>,
        record: &PacketRecord,
        transmitter: &Transmitter<'_>,
        blame: &mut Blame<'_>,
    ) {
        self.settle(record, blame);
        if era.managed() {
            match record.stage {
                Stage::Offered => self.comes(record, blame),
                Stage::Dequeued => self.leaves(era, record, blame),
            }
            return;
        }
        if record.stage == Stage::Dequeued {
            // What waited in a managed queue until there was none.
            self.leaves(era, record, blame);
        }
        while let Some((_, bytes)) = self.tail.front().filter(|(start, _)| *start <= record.time) {
            self.bytes -= bytes;
            self.tail.pop_front();
        }
        if record.stage == Stage::Offered {
            self.tail_entry(record, transmitter, blame);
        }
        let waits = record.service.filter(|service| service.start > record.time);
        if let Some(service) = waits {
            let bytes = u64::from(record.ip_bytes);
            self.tail.push_back((service.start, bytes));
            self.bytes += bytes;
        }
    }

    /// A packet comes to a drop-tail queue.
    fn tail_entry(
        &self,
        record: &PacketRecord,
        transmitter: &Transmitter<'_>,
        blame: &mut Blame<'_>,
    ) {
        self.counts(record, self.tail.len() as u64, blame);
        let (bytes, packets) = (
            self.bytes + u64::from(record.ip_bytes),
            self.tail.len() as u64 + 1,
        );
        let full = self.limit.is_below(bytes, packets);
        let waiting = format!("{} bytes in {} packets", self.bytes, self.tail.len());
        if record.outcome == Outcome::Dropped(DropCause::Queue) {
            if !full {
                let limit = self.limit;
                blame.packet(
                    record,
                    format!("turned away while {waiting} waited; the limit is {limit}"),
                );
            } else if transmitter.free_at(record.time) {
                blame.packet(record, "turned away by a transmitter that was free");
            }
        }
        let waits = record.service.is_some_and(|s| s.start > record.time);
        if waits && full {
            let limit = self.limit;
            blame.packet(
                record,
                format!("joined {waiting} that waited; the limit is {limit}"),
            );
        }
        if record.outcome == Outcome::Queued {
            blame.packet(record, "entered a managed queue where there is none");
        }
        if record.service.is_some() {
            self.marks(record, self.tail.len() as u64, blame);
        }
    }

    /// The record's own count against this one.
    fn counts(&self, record: &PacketRecord, packets: u64, blame: &mut Blame<'_>) {
        if record.queue_bytes != self.bytes {
            let (said, counted) = (record.queue_bytes, self.bytes);
            blame.packet(
                record,
                format!("found {said} bytes waiting; {counted} did, in {packets} packets"),
            );
        }
    }

    fn marks(&self, record: &PacketRecord, packets: u64, blame: &mut Blame<'_>) {
        let above = self
            .mark_above
            .is_some_and(|mark| mark.is_below(self.bytes, packets));
        if above && matches!(record.ecn, Ecn::Ect0 | Ecn::Ect1) {
            blame.packet(record, "was not marked above the threshold");
        }
    }

    /// A packet comes to a managed queue.
    fn comes(&mut self, record: &PacketRecord, blame: &mut Blame<'_>) {
        let packets = self.managed.len() as u64;
        self.counts(record, packets, blame);
        match record.outcome {
            Outcome::Queued => {
                self.marks(record, packets, blame);
                if self.managed.is_empty() {
                    self.busy_since = record.time;
                }
                let bytes = u64::from(record.ip_bytes);
                self.managed.insert(record.index, (record.time, bytes));
                self.bytes += bytes;
                self.newcomer = Some(record.index);
            }
            Outcome::Dropped(DropCause::Mtu | DropCause::Outage | DropCause::Rule) => {}
            Outcome::Dropped(_) | Outcome::Arrives(_) => {
                blame.packet(record, "did not meet the managed queue");
            }
        }
    }

    /// A packet leaves a managed queue.
    fn leaves(&mut self, era: &Era<'_>, record: &PacketRecord, blame: &mut Blame<'_>) {
        let full = self.limit.is_below(self.bytes, self.managed.len() as u64);
        let first = self.managed.first_key_value().map(|(index, _)| *index);
        let Some((since, bytes)) = self.managed.remove(&record.index) else {
            blame.packet(record, "left a queue that it was not in");
            return;
        };
        self.bytes -= bytes;
        if bytes != u64::from(record.ip_bytes) {
            blame.packet(record, "left the queue at another size");
        }
        let turned_away = record.outcome == Outcome::Dropped(DropCause::Queue);
        let one_flow = !matches!(era.config.aqm, Aqm::FqCodel { .. });
        if turned_away && !full {
            let limit = self.limit;
            blame.packet(
                record,
                format!("turned away from a queue with room; the limit is {limit}"),
            );
        }
        if !turned_away && one_flow && first != Some(record.index) {
            blame.packet(record, "left the queue before the one ahead of it");
        }
        if record.outcome == Outcome::Dropped(DropCause::Aqm) {
            let waited = record.time.saturating_since(since);
            let target = target(era.config.aqm);
            if target.is_none_or(|target| waited < target) {
                blame.packet(
                    record,
                    format!("given up after {waited:?}; the target is {target:?}"),
                );
            }
        }
    }

    /// Whether the last newcomer may stay, once the next record is there.
    fn settle(&mut self, record: &PacketRecord, blame: &mut Blame<'_>) {
        let Some(newcomer) = self.newcomer else {
            return;
        };
        let dequeued = record.stage == Stage::Dequeued;
        if dequeued && record.outcome == Outcome::Dropped(DropCause::Queue) {
            // Another one makes room for it; or it is turned away itself, and what was there before
            // may be more than a limit that has shrunk since.
            self.newcomer = self.newcomer.filter(|newcomer| *newcomer != record.index);
            return;
        }
        self.newcomer = None;
        // Who finds an idle transmitter does not wait.
        let alone = self.managed.len() == 1 && dequeued && record.index == newcomer;
        let at_once = alone
            && record
                .service
                .is_some_and(|s| s.start == record.time && record.time == self.busy_since);
        if !at_once {
            self.stays(newcomer, blame);
        }
    }

    fn stays(&self, index: u64, blame: &mut Blame<'_>) {
        if self.limit.is_below(self.bytes, self.managed.len() as u64) {
            let (bytes, packets, limit) = (self.bytes, self.managed.len(), self.limit);
            blame.add(
                Some(index),
                format!("made {bytes} bytes in {packets} packets wait; the limit is {limit}"),
            );
        }
    }
}

fn target(aqm: Aqm) -> Option<Duration> {
    match aqm {
        Aqm::None => None,
        Aqm::Codel { target, .. } | Aqm::FqCodel { target, .. } => Some(target),
    }
}
