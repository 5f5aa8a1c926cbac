//! A managed queue and its transmitter: packets leave when the world says that time has come.
//!
//! Owns: when the next packet is taken from the queue. Does not own: which one (`aqm`), events
//! (`world`), what happens on the wire (`direction.rs`).

use std::time::Duration;

use tautline_transport::time::Instant;

use super::{
    aqm::{ManagedQueue, Victims, Waiting},
    server::Server,
};
use crate::log::Service;

#[derive(Debug)]
pub(crate) struct Managed {
    pub(crate) queue: ManagedQueue,
    pub(crate) server: Server,
    free_at: Instant,
    /// The earliest event that will look at the queue again.
    wake: Option<Instant>,
    committed: Duration,
}

/// What [`Managed::next`] found.
#[derive(Debug)]
pub(crate) enum Next {
    /// This packet is sent now.
    Departs(Waiting, Service),
    /// Nothing leaves now; look again at this time, if there is one.
    Later(Option<Instant>),
}

impl Managed {
    pub(crate) fn new(
        queue: ManagedQueue,
        server: Server,
        free_at: Instant,
        busy: Duration,
    ) -> Self {
        Self {
            queue,
            server,
            free_at,
            wake: None,
            committed: busy,
        }
    }

    pub(crate) fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Whether a packet that arrives at `now` is sent at once.
    pub(crate) fn idle(&mut self, now: Instant) -> bool {
        self.queue.packets() == 0
            && self.free_at <= now
            && self.server.next_start(self.free_at.max(now)) <= now
    }

    /// Time spent sending until `now`.
    pub(crate) fn busy(&self, now: Instant) -> Duration {
        self.committed
            .saturating_sub(self.free_at.saturating_since(now))
    }

    /// Takes the next packet if one can leave at `now`. Asked until it says `Later`.
    pub(crate) fn next(&mut self, now: Instant, victims: &mut Victims) -> Next {
        self.wake = self.wake.filter(|wake| *wake > now);
        while self.queue.packets() > 0 {
            let start = self.server.next_start(self.free_at.max(now));
            if start > now {
                if self.wake.is_some_and(|wake| wake <= start) {
                    return Next::Later(None);
                }
                self.wake = Some(start);
                return Next::Later(Some(start));
            }
            if let Some(packet) = self.queue.pop(now, victims) {
                let follows = self.free_at == start;
                let departure = self.server.serve(start, packet.ip_bytes, follows);
                self.free_at = departure;
                self.committed += departure.saturating_since(start);
                return Next::Departs(packet, Service { start, departure });
            }
        }
        Next::Later(None)
    }
}
