//! Every ready stream in turn, whatever its priority.

use super::{Left, Priority, StreamScheduler, TURN_BYTES, behind::taking_turns, ends, ring::Ring};
use crate::{time::Instant, units::StreamId};

/// `round-robin`: each ready stream puts [`TURN_BYTES`] before the next one goes.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    ring: Ring,
    sent_this_turn: u64,
}

impl RoundRobin {
    pub(super) const NAME: &'static str = "round-robin";
}

impl StreamScheduler for RoundRobin {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ready(&mut self, id: StreamId, _priority: Priority, _deadline: Option<Instant>) {
        self.ring.push_back(id);
    }

    fn on_quiet(&mut self, id: StreamId) {
        if self.ring.front() == Some(id) {
            self.sent_this_turn = 0;
        }
        self.ring.remove(id);
    }

    fn on_priority(&mut self, _id: StreamId, _priority: Priority) {}

    fn next(&mut self) -> Option<StreamId> {
        self.ring.front()
    }

    fn next_behind(&mut self, ahead: u64, waiting: &dyn Fn(StreamId) -> u64) -> Option<StreamId> {
        let (id, _) = taking_turns(self.ring.iter(), ahead, waiting)?;
        Some(id)
    }

    fn first_end(&mut self, left: &dyn Fn(StreamId) -> Left) -> Option<u64> {
        ends::taking_turns(self.ring.iter().map(|id| left(id).into()))
    }

    fn on_sent(&mut self, id: StreamId, bytes: u64) {
        if self.ring.front() != Some(id) {
            return;
        }
        self.sent_this_turn = self.sent_this_turn.saturating_add(bytes);
        if self.sent_this_turn >= TURN_BYTES {
            self.sent_this_turn = 0;
            self.ring.rotate();
        }
    }
}
