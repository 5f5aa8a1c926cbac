//! What must arrive soonest goes first, as long as it can arrive in time.

use std::{collections::BTreeSet, time::Duration};

use hashbrown::HashMap;

use super::{Left, Priority, StreamScheduler, ends, priority::ByPriority};
use crate::{stream::id_hash::IdHash, time::Instant, units::StreamId};

/// `deadline`: among the streams with a deadline that a packet sent now can meet, the one whose
/// deadline is nearest; of equal deadlines the smaller urgency, then the older stream. When there
/// is none, all ready streams as `priority` has them: those without a deadline, and those too late.
///
/// Algorithm 3 of F. Michel's thesis on flexible erasure correction (2023, section 5.7.1.2). A
/// stream that flow control blocks is not ready, and so never stands in the way.
#[derive(Debug, Default)]
pub(super) struct Deadline {
    /// Every ready stream.
    all: ByPriority,
    /// Those of them with a deadline.
    by_deadline: BTreeSet<Place>,
    places: HashMap<StreamId, Place, IdHash>,
    /// What leaves now arrives then.
    arrival: Instant,
    /// The answer of the last [`StreamScheduler::next`], while nothing changed.
    current: Option<StreamId>,
}

/// Deadline, urgency, stream.
type Place = (Instant, u8, StreamId);

impl Deadline {
    pub(super) const NAME: &'static str = "deadline";

    fn leave(&mut self, id: StreamId) -> Option<Instant> {
        let place = self.places.remove(&id)?;
        self.by_deadline.remove(&place);
        Some(place.0)
    }

    /// The streams whose deadlines can be met, the nearest first.
    fn in_time(&self) -> impl Iterator<Item = StreamId> {
        let soonest = (self.arrival, 0, StreamId(0));
        self.by_deadline.range(soonest..).map(|(_, _, id)| *id)
    }

    /// The stream whose deadline is the nearest that can be met.
    fn soonest(&self) -> Option<StreamId> {
        self.in_time().next()
    }

    fn enter(&mut self, id: StreamId, priority: Priority, deadline: Instant) {
        let place = (deadline, priority.urgency, id);
        self.by_deadline.insert(place);
        self.places.insert(id, place);
    }
}

impl StreamScheduler for Deadline {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ready(&mut self, id: StreamId, priority: Priority, deadline: Option<Instant>) {
        self.all.on_ready(id, priority, deadline);
        if let Some(deadline) = deadline {
            self.enter(id, priority, deadline);
        }
        self.current = None;
    }

    fn on_quiet(&mut self, id: StreamId) {
        self.all.on_quiet(id);
        self.leave(id);
        self.current = None;
    }

    fn on_priority(&mut self, id: StreamId, priority: Priority) {
        self.all.on_priority(id, priority);
        if let Some(deadline) = self.leave(id) {
            self.enter(id, priority, deadline);
        }
        self.current = None;
    }

    fn on_time(&mut self, now: Instant, one_way_delay: Duration) {
        self.arrival = now + one_way_delay;
        self.current = None;
    }

    fn next(&mut self) -> Option<StreamId> {
        if self.current.is_none() {
            self.current = self.soonest().or_else(|| self.all.next());
        }
        self.current
    }

    fn next_behind(&mut self, ahead: u64, waiting: &dyn Fn(StreamId) -> u64) -> Option<StreamId> {
        match self.soonest() {
            Some(id) => Some(id),
            None => self.all.next_behind(ahead, waiting),
        }
    }

    fn first_end(&mut self, left: &dyn Fn(StreamId) -> Left) -> Option<u64> {
        match self.soonest() {
            Some(_) => ends::one_after_the_other(self.in_time(), left).first_end(),
            None => self.all.first_end(left),
        }
    }

    /// Deadlines are met by what is sent, not by room.
    fn place(&self, id: StreamId, priority: Priority) -> (u8, u64) {
        self.all.place(id, priority)
    }

    fn on_sent(&mut self, id: StreamId, bytes: u64) {
        self.all.on_sent(id, bytes);
        if !self.places.contains_key(&id) {
            // It may be another one's turn.
            self.current = None;
        }
    }
}
