//! The stream that has been ready longest, until it has nothing more to send.

use super::{Priority, StreamScheduler, ring::Ring};
use crate::{time::Instant, units::StreamId};

/// `fifo`: no sharing; a stream that goes quiet and comes back queues at the end.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    ring: Ring,
}

impl Fifo {
    pub(super) const NAME: &'static str = "fifo";
}

impl StreamScheduler for Fifo {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ready(&mut self, id: StreamId, _priority: Priority, _deadline: Option<Instant>) {
        self.ring.push_back(id);
    }

    fn on_quiet(&mut self, id: StreamId) {
        self.ring.remove(id);
    }

    fn on_priority(&mut self, _id: StreamId, _priority: Priority) {}

    fn next(&mut self) -> Option<StreamId> {
        self.ring.front()
    }

    fn on_sent(&mut self, _id: StreamId, _bytes: u64) {}
}
