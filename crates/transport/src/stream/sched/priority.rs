//! Extensible priorities. RFC 9218.

use super::{
    Left, Priority, StreamScheduler, TURN_BYTES,
    ascending::Ascending,
    behind::{MOST_PASSED_OVER, one_after_the_other, taking_turns},
    ends,
    ring::Ring,
};
use crate::{time::Instant, units::StreamId};

const URGENCIES: usize = 8;

/// Stands in the ring of an urgency for all its non-incremental streams together.
const IN_ORDER: StreamId = StreamId(u64::MAX);

/// `priority`: the smallest urgency that has anything ready goes first. Within it,
/// non-incremental streams go one after the other in the order of their IDs and incremental ones
/// share round robin; when both kinds are ready, the non-incremental ones count as one more member
/// of the round, so that neither kind starves (RFC 9218 s10 leaves the mix open).
#[derive(Debug, Default)]
pub(super) struct ByPriority {
    levels: [Level; URGENCIES],
    /// Bit `u` is set when urgency `u` has something ready.
    ready: u8,
    /// The answer of the last [`StreamScheduler::next`], while nothing changed.
    current: Option<StreamId>,
    sent_this_turn: u64,
}

#[derive(Debug, Default)]
struct Level {
    in_order: Ascending,
    ring: Ring,
}

impl Level {
    fn insert(&mut self, id: StreamId, incremental: bool) {
        if incremental {
            self.ring.push_back(id);
        } else {
            if self.in_order.is_empty() {
                self.ring.push_back(IN_ORDER);
            }
            self.in_order.insert(id);
        }
    }

    fn remove(&mut self, id: StreamId) -> bool {
        if self.in_order.remove(id) {
            if self.in_order.is_empty() {
                self.ring.remove(IN_ORDER);
            }
            return true;
        }
        self.ring.remove(id)
    }

    fn next(&self) -> Option<StreamId> {
        match self.ring.front()? {
            IN_ORDER => self.in_order.first(),
            id => Some(id),
        }
    }

    /// Whether a stream is the member whose turn it is, or of those that are it together.
    fn has_turn(&self, id: StreamId) -> bool {
        match self.ring.front() {
            Some(IN_ORDER) => self.in_order.contains(id),
            front => front == Some(id),
        }
    }

    fn is_empty(&self) -> bool {
        self.ring.front().is_none()
    }
}

impl ByPriority {
    pub(super) const NAME: &'static str = "priority";

    fn urgency(priority: Priority) -> usize {
        usize::from(priority.urgency).min(URGENCIES - 1)
    }

    fn active_level(&mut self) -> Option<&mut Level> {
        self.levels.get_mut(self.ready.trailing_zeros() as usize)
    }

    fn remove(&mut self, id: StreamId) {
        for (urgency, level) in self.levels.iter_mut().enumerate() {
            if self.ready & (1 << urgency) != 0 && level.remove(id) {
                if level.is_empty() {
                    self.ready &= !(1 << urgency);
                }
                break;
            }
        }
        if self.current == Some(id) {
            self.current = None;
            self.sent_this_turn = 0;
        }
    }
}

impl StreamScheduler for ByPriority {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ready(&mut self, id: StreamId, priority: Priority, _deadline: Option<Instant>) {
        let urgency = Self::urgency(priority);
        if let Some(level) = self.levels.get_mut(urgency) {
            level.insert(id, priority.incremental);
            self.ready |= 1 << urgency;
            self.current = None;
        }
    }

    fn on_quiet(&mut self, id: StreamId) {
        self.remove(id);
    }

    fn on_priority(&mut self, id: StreamId, priority: Priority) {
        self.remove(id);
        self.on_ready(id, priority, None);
    }

    fn next(&mut self) -> Option<StreamId> {
        if self.current.is_none() {
            self.current = self.active_level()?.next();
        }
        self.current
    }

    fn next_behind(&mut self, ahead: u64, waiting: &dyn Fn(StreamId) -> u64) -> Option<StreamId> {
        let level = self.active_level()?;
        let in_order = || level.in_order.iter().take(MOST_PASSED_OVER);
        let of_member = |member| match member {
            IN_ORDER => in_order().map(waiting).sum(),
            id => waiting(id),
        };
        match taking_turns(level.ring.iter(), ahead, &of_member)? {
            (IN_ORDER, ahead) => one_after_the_other(in_order(), ahead, waiting),
            (id, _) => Some(id),
        }
    }

    /// Those of the smallest urgency alone: who is less urgent waits for streams that may write on.
    fn first_end(&mut self, left: &dyn Fn(StreamId) -> Left) -> Option<u64> {
        let level = self.active_level()?;
        let in_order = || ends::one_after_the_other(level.in_order.iter(), left);
        let members = level.ring.iter().map(|member| match member {
            IN_ORDER => in_order(),
            id => left(id).into(),
        });
        ends::taking_turns(members)
    }

    fn place(&self, id: StreamId, priority: Priority) -> (u8, u64) {
        let in_order = if priority.incremental { 0 } else { id.0 };
        (Self::urgency(priority) as u8, in_order)
    }

    /// A turn is a member's, whoever named the stream: what a slower path carries counts, too.
    fn on_sent(&mut self, id: StreamId, bytes: u64) {
        if !self.active_level().is_some_and(|level| level.has_turn(id)) {
            return;
        }
        self.sent_this_turn = self.sent_this_turn.saturating_add(bytes);
        if self.sent_this_turn >= TURN_BYTES {
            self.sent_this_turn = 0;
            if let Some(level) = self.active_level().filter(|level| level.ring.is_shared()) {
                level.ring.rotate();
                self.current = None;
            }
        }
    }
}
