//! The queue and the transmitter of a direction: when a packet starts and ends being sent.
//!
//! Departures are computed on arrival (first in, first out, one speed), so that a packet costs
//! one event on its whole way. A rate that varies with time would live here.

use std::{collections::VecDeque, time::Duration};

use tautline_transport::{time::Instant, units::Rate};

use super::config::{Outage, OutageMode, QueueSize};

/// A queue size in effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    bytes: u64,
    packets: u64,
}

impl Limit {
    /// `round_trip` turns a bandwidth-delay product into bytes.
    pub(crate) fn new(size: QueueSize, rate: Option<Rate>, round_trip: Duration) -> Self {
        let unlimited = Self {
            bytes: u64::MAX,
            packets: u64::MAX,
        };
        match (size, rate) {
            (QueueSize::Unlimited, _) | (QueueSize::Bdp(_), None) => unlimited,
            (QueueSize::Bytes(bytes), _) => Self { bytes, ..unlimited },
            (QueueSize::Packets(packets), _) => Self {
                packets,
                ..unlimited
            },
            (QueueSize::Bdp(factor), Some(rate)) => {
                let bytes = (rate.bytes_in(round_trip) as f64 * factor) as u64;
                Self {
                    bytes: bytes.max(3000),
                    ..unlimited
                }
            }
        }
    }
}

/// One packet's time at the transmitter.
#[derive(Clone, Copy, Debug)]
struct Service {
    start: Instant,
    finish: Instant,
    ip_bytes: u32,
}

#[derive(Debug)]
pub(crate) struct Transmitter {
    rate: Option<Rate>,
    limit: Limit,
    /// Packets whose service has not started at the last look.
    waiting: VecDeque<Service>,
    waiting_bytes: u64,
    /// The packet whose service started last.
    current: Option<Service>,
    free_at: Instant,
    /// Bytes x 1e9 that the last whole nanosecond of the busy period still has room for.
    remainder: u64,
    /// Time of all services, also those still to come.
    committed: Duration,
}

impl Transmitter {
    pub(crate) fn new(rate: Option<Rate>, limit: Limit) -> Self {
        Self {
            rate,
            limit,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            current: None,
            free_at: Instant::ZERO,
            remainder: 0,
            committed: Duration::ZERO,
        }
    }

    /// Applies to packets from now on; those waiting keep their times.
    pub(crate) fn reconfigure(&mut self, rate: Option<Rate>, limit: Limit) {
        self.rate = rate;
        self.limit = limit;
        self.remainder = 0;
    }

    /// IP bytes waiting at `now`, the packet being sent not counted.
    pub(crate) fn waiting_bytes(&mut self, now: Instant) -> u64 {
        self.advance(now);
        self.waiting_bytes
    }

    pub(crate) fn waiting_packets(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Whether more than `threshold` waits (after `waiting_bytes`, which brings it up to date).
    pub(crate) fn above(&self, threshold: &Limit) -> bool {
        self.waiting_bytes > threshold.bytes || self.waiting_packets() > threshold.packets
    }

    /// Queues a packet and tells when its last byte leaves; `None` when the queue is full.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        ip_bytes: u32,
        outages: &[Outage],
    ) -> Option<Instant> {
        self.advance(now);
        let idle = self.free_at <= now;
        let start = past_holds(self.free_at.max(now), outages);
        if start > now
            && (self.waiting_bytes + u64::from(ip_bytes) > self.limit.bytes
                || self.waiting_packets() >= self.limit.packets)
        {
            return None;
        }
        if idle || start > self.free_at {
            self.remainder = 0;
        }
        let time = self.service_time(ip_bytes);
        let service = Service {
            start,
            finish: start + time,
            ip_bytes,
        };
        self.free_at = service.finish;
        self.committed += time;
        if start > now {
            self.waiting.push_back(service);
            self.waiting_bytes += u64::from(ip_bytes);
        } else {
            self.current = Some(service);
        }
        Some(service.finish)
    }

    /// Time spent sending until `now`.
    pub(crate) fn busy(&self, now: Instant) -> Duration {
        let ahead = |service: &Service| service.finish.saturating_since(service.start.max(now));
        let future: Duration = self.waiting.iter().chain(&self.current).map(ahead).sum();
        self.committed.saturating_sub(future)
    }

    fn advance(&mut self, now: Instant) {
        while let Some(service) = self.waiting.front().filter(|s| s.start <= now) {
            self.waiting_bytes -= u64::from(service.ip_bytes);
            self.current = Some(*service);
            self.waiting.pop_front();
        }
    }

    /// Whole nanoseconds, rounded up over a busy period as a whole, so that the rate is never
    /// exceeded and never lost to rounding.
    fn service_time(&mut self, ip_bytes: u32) -> Duration {
        let Some(rate) = self.rate.map(Rate::bytes_per_second).filter(|r| *r > 0) else {
            return Duration::ZERO;
        };
        let due = u64::from(ip_bytes) * 1_000_000_000;
        if due <= self.remainder {
            self.remainder -= due;
            return Duration::ZERO;
        }
        let due = due - self.remainder;
        let nanos = due.div_ceil(rate);
        self.remainder = nanos * rate - due;
        Duration::from_nanos(nanos)
    }
}

/// The first moment from `start` on at which no outage stops the transmitter.
fn past_holds(mut start: Instant, outages: &[Outage]) -> Instant {
    // Outages that together cover all time would never end: give up after a few rounds.
    for _ in 0..64 {
        let hold = |o: &Outage| o.covering(start).filter(|_| o.mode == OutageMode::Hold);
        match outages.iter().find_map(hold) {
            Some(end) => start = end,
            None => break,
        }
    }
    start
}
