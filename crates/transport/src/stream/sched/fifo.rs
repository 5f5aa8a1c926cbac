//! The stream that has been ready longest, until it has nothing more to send.

use super::{Left, Priority, StreamScheduler, behind::one_after_the_other, ends, ring::Ring};
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

    fn next_behind(&mut self, ahead: u64, waiting: &dyn Fn(StreamId) -> u64) -> Option<StreamId> {
        one_after_the_other(self.ring.iter(), ahead, waiting)
    }

    fn first_end(&mut self, left: &dyn Fn(StreamId) -> Left) -> Option<u64> {
        ends::one_after_the_other(self.ring.iter(), left).first_end()
    }

    fn on_sent(&mut self, _id: StreamId, _bytes: u64) {}
}
