//! The drop-tail queue before a transmitter.
//!
//! Departures are computed on arrival (first in, first out), so that a packet costs one event on
//! its whole way. Queues that decide when a packet leaves are in `managed.rs`.

use std::{collections::VecDeque, time::Duration};

use tautline_transport::time::Instant;

use super::{queue::Limit, server::Server};
use crate::log::Service;

/// A packet that is or will be sent.
#[derive(Clone, Copy, Debug)]
struct Sending {
    service: Service,
    ip_bytes: u32,
}

#[derive(Debug)]
pub(crate) struct Transmitter {
    server: Server,
    limit: Limit,
    /// Packets whose service has not started at the last look.
    waiting: VecDeque<Sending>,
    waiting_bytes: u64,
    /// The packet whose service started last.
    current: Option<Sending>,
    free_at: Instant,
    /// Time of all services, also those still to come.
    committed: Duration,
}

impl Transmitter {
    pub(crate) fn new(server: Server, limit: Limit) -> Self {
        Self {
            server,
            limit,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            current: None,
            free_at: Instant::ZERO,
            committed: Duration::ZERO,
        }
    }

    /// Goes on where another queue stopped: not free before `free_at`, `busy` time spent.
    pub(crate) fn resume(mut self, free_at: Instant, busy: Duration) -> Self {
        self.free_at = free_at;
        self.committed = busy;
        self
    }

    /// Applies to packets from now on; those waiting keep their times.
    pub(crate) fn reconfigure(&mut self, server: Server, limit: Limit) {
        self.server = server;
        self.limit = limit;
    }

    /// When everything that waits will have been sent.
    pub(crate) fn free_at(&self) -> Instant {
        self.free_at
    }

    /// IP bytes waiting at `now`, the packet being sent not counted.
    pub(crate) fn waiting_bytes(&mut self, now: Instant) -> u64 {
        self.advance(now);
        self.waiting_bytes
    }

    pub(crate) fn waiting_packets(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Queues a packet and tells when it is sent; `None` when the queue is full.
    pub(crate) fn push(&mut self, now: Instant, ip_bytes: u32) -> Option<Service> {
        self.advance(now);
        let start = self.server.next_start(self.free_at.max(now));
        if start > now
            && (self.waiting_bytes + u64::from(ip_bytes) > self.limit.bytes
                || self.waiting_packets() >= self.limit.packets)
        {
            return None;
        }
        Some(self.commit(now, start, ip_bytes))
    }

    /// [`Transmitter::push`] whatever the limit.
    pub(crate) fn push_anyway(&mut self, now: Instant, ip_bytes: u32) -> Service {
        let start = self.server.next_start(self.free_at.max(now));
        self.commit(now, start, ip_bytes)
    }

    fn commit(&mut self, now: Instant, start: Instant, ip_bytes: u32) -> Service {
        let follows = self.free_at > now && start == self.free_at;
        let departure = self.server.serve(start, ip_bytes, follows);
        let service = Service { start, departure };
        self.free_at = departure;
        self.committed += departure.saturating_since(start);
        let sending = Sending { service, ip_bytes };
        if start > now {
            self.waiting.push_back(sending);
            self.waiting_bytes += u64::from(ip_bytes);
        } else {
            self.current = Some(sending);
        }
        service
    }

    /// Time spent sending until `now`.
    pub(crate) fn busy(&self, now: Instant) -> Duration {
        let ahead = |sending: &Sending| {
            let Service { start, departure } = sending.service;
            departure.saturating_since(start.max(now))
        };
        let future: Duration = self.waiting.iter().chain(&self.current).map(ahead).sum();
        self.committed.saturating_sub(future)
    }

    fn advance(&mut self, now: Instant) {
        while let Some(sending) = self.waiting.front().filter(|s| s.service.start <= now) {
            self.waiting_bytes -= u64::from(sending.ip_bytes);
            self.current = Some(*sending);
            self.waiting.pop_front();
        }
    }
}
