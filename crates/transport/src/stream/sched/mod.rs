//! Which stream fills the next packet.
//!
//! Purpose: the [`StreamScheduler`] policy and its built-in implementations
//! (`round-robin`, `fifo`, `priority`, `deadline`).
//! Owns: an order over ready streams. Does not own: stream data, flow control, what is ready.
//! Called by: `stream/` when a packet has room.
//! Spec: RFC 9218 for `priority` (urgency 0..=7, incremental).
//! To add a variant: one file here and one line in `registry.rs`.

mod ascending;
mod behind;
mod deadline;
mod ends;
mod fifo;
mod priority;
pub mod registry;
mod ring;
mod round_robin;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc, time::Duration};

use crate::{time::Instant, units::StreamId};

pub use ends::Left;

/// Priority of a stream. RFC 9218 s4: smaller urgency goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority {
    /// `0..=7`, 3 by default; larger values are taken as 7.
    pub urgency: u8,
    /// Whether streams of the same urgency share (true) or go one after the other (false).
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self {
            urgency: 3,
            incremental: false,
        }
    }
}

/// Bytes a sharing stream puts before the next one has its turn: several packets, so that the
/// receiver's application is woken for more than one packet's worth at a time.
const TURN_BYTES: u64 = 8 * 1024;

/// The stream-scheduling policy of one connection.
///
/// The stream room tells it which streams became ready or went quiet; it answers which one goes
/// next and how many bytes it may put before the question is asked again.
pub trait StreamScheduler: fmt::Debug + Send {
    /// CLI flag, registry key and qlog value.
    fn name(&self) -> &'static str;
    /// `id` has data that flow control allows. Called only for streams that were not ready. Streams
    /// of messages may have a deadline, which never changes.
    fn on_ready(&mut self, id: StreamId, priority: Priority, deadline: Option<Instant>);
    /// `id` has nothing more to send for now (or is gone). Called only for ready streams.
    fn on_quiet(&mut self, id: StreamId);
    /// The priority of a ready stream changed.
    fn on_priority(&mut self, id: StreamId, priority: Priority);
    /// What time it is, and how long a packet takes to arrive (zero if nobody knows). Told before
    /// each packet while some stream has a deadline.
    fn on_time(&mut self, now: Instant, one_way_delay: Duration) {
        let _ = (now, one_way_delay);
    }
    /// The stream to write next; `None` when none is ready.
    fn next(&mut self) -> Option<StreamId>;
    /// In place of [`Self::next`] where other paths will have delivered `ahead` bytes before anything of this arrives: the
    /// stream that will not be finished by then, which of those is next. `waiting`: bytes that wait in a stream.
    fn next_behind(&mut self, ahead: u64, waiting: &dyn Fn(StreamId) -> u64) -> Option<StreamId> {
        let _ = (ahead, waiting);
        self.next()
    }
    /// Bytes that leave, as things stand, before the first stream ends of those whose end is known: so many that it has left itself,
    /// and those that go before or in between. `left`: what a stream has left. `None` if none is known to end.
    fn first_end(&mut self, left: &dyn Fn(StreamId) -> Left) -> Option<u64> {
        let next = left(self.next()?);
        next.ends.then_some(next.bytes)
    }
    /// The place of a stream among those that have written less than they would: room for more goes to the smallest, and
    /// of equal ones to whoever has waited longest.
    fn place(&self, id: StreamId, priority: Priority) -> (u8, u64) {
        let _ = (id, priority);
        (0, 0)
    }
    /// `bytes` of `id` were put into a packet; it may still be ready.
    fn on_sent(&mut self, id: StreamId, bytes: u64);
}

/// Builds schedulers of one kind.
pub trait StreamSchedulerFactory: fmt::Debug + Send + Sync {
    /// The name its schedulers bear.
    fn name(&self) -> &'static str;
    /// A scheduler for a new connection.
    fn build(&self) -> Box<dyn StreamScheduler>;
}

/// A shared factory, as the configuration holds it.
pub type SharedStreamSchedulerFactory = Arc<dyn StreamSchedulerFactory>;
