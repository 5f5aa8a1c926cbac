//! Which path carries the next data.
//!
//! Purpose: the [`Scheduler`] policy and its built-in implementations.
//! Owns: the choice among paths. Does not own: which paths may send at all (the connection asks only
//! about those that are validated and alive), which stream goes (`stream/sched/`), frames that belong
//! to one path (they go there whatever a scheduler says).
//! Called by: the connection's pump, before each datagram or batch of data.
//! To add a variant: one file here and one line in `registry.rs`.

mod completion;
mod min_rtt;
pub mod registry;
mod round_robin;
mod waiting;

#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc, time::Duration};

use super::PathStatus;
use crate::{
    recovery::Standstill,
    time::Instant,
    units::{PathId, Rate},
};

/// A path as a scheduler sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PathView {
    /// Which path.
    pub id: PathId,
    /// Whether a full datagram may leave on it now: window and pacer allow it.
    pub may_send: bool,
    /// What both ends wish.
    pub status: PathStatus,
    /// Smoothed round-trip time; the estimate for a path without a sample.
    pub smoothed_rtt: Duration,
    /// The round trip now: the smaller of the two newest samples, without the peer's delay.
    pub recent_rtt: Duration,
    /// Bytes in flight when the packets of these samples left.
    pub sampled_in_flight: u64,
    /// Smallest round-trip time.
    pub min_rtt: Duration,
    /// The longest round trip that may be chance: longer ones tell of a queue.
    pub longest_without_queue: Duration,
    /// What acknowledgements take on their way back: half of the smallest round-trip time, unless another
    /// path brings them.
    pub return_delay: Duration,
    /// Mean deviation of the round-trip time.
    pub rtt_variance: Duration,
    /// Whether there is a round-trip sample.
    pub has_rtt: bool,
    /// How it stands still now and then.
    pub standstill: Standstill,
    /// For how long it seems to have stood still now: nobody knows for how much longer, but the longer it has, the longer it
    /// will.
    pub still_for: Duration,
    /// Congestion window, bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// What the path delivers: its capacity if that is known; else the controller's estimate of
    /// bandwidth, or a window a round trip.
    pub rate: Rate,
    /// How fast its pacer lets data leave now.
    pub pacing: Rate,
    /// How long that holds the next datagram back.
    pub wait: Duration,
    /// What it delivered while a queue stood, if nothing has shown since that it can do more.
    pub capacity: Option<Rate>,
    /// For how many round trips more has been in flight than `capacity` holds.
    pub rounds_exceeded: u32,
    /// The most bytes that were delivered within a round trip.
    pub most_passed: u64,
    /// Bytes in flight beyond which the path's queue drops packets, if it did so lately.
    pub overflow: Option<u64>,
    /// Whether the window still doubles every round trip.
    pub slow_start: bool,
    /// Bytes of a full datagram.
    pub datagram: u64,
    /// Share of packets that the path loses by itself, 0 to 1: of ours, or of the peer's if that is more.
    pub loss: f64,
}

/// Bytes that a queue still takes that overflowed with so many in flight, in datagrams of so many.
///
/// Less by half a datagram: a queue counts headers, too, and holds no more packets where they are a little
/// smaller, as those with codes are.
pub(crate) fn before_overflow(overflow: u64, in_flight: u64, datagram: u64) -> u64 {
    let holds = overflow.saturating_sub(datagram / 2);
    holds.max(FEWEST * datagram).saturating_sub(in_flight)
}

impl PathView {
    /// What the next packet takes to the peer: the round trip expected without the way back, and as long as the path has
    /// stood still.
    pub fn one_way_delay(&self) -> Duration {
        self.delay_and_queue().0
    }

    /// Whether a queue must stand: more is in flight than the path holds, or what is not explained by that has
    /// grown.
    pub fn queues(&self) -> bool {
        self.delay_and_queue().1
    }

    /// [`Self::one_way_delay`] and [`Self::queues`], which rest on the same forecast.
    fn delay_and_queue(&self) -> (Duration, bool) {
        let round_trip = self.round_trip();
        let way = round_trip.saturating_sub(self.return_delay);
        let queues = round_trip > self.longest_without_queue;
        (way.saturating_add(self.still_for), queues)
    }

    /// The round trip of what leaves now: the shortest, the queue of what is in flight, and what the newest took
    /// beyond the queue of what was in flight then. No more of that can stand than is in flight now.
    fn round_trip(&self) -> Duration {
        let longer = self.recent_rtt.saturating_sub(self.min_rtt);
        let expected = self.queue_behind(self.sampled_in_flight);
        let unexplained = longer.saturating_sub(expected);
        let drained = self.rate.time_for(self.in_flight);
        let queue = unexplained.min(drained) + self.queue_behind(self.in_flight);
        self.min_rtt + queue.saturating_sub(expected.saturating_sub(longer))
    }

    /// What is in flight beyond what the path holds stands in a queue, as far as its capacity is known.
    fn queue_behind(&self, in_flight: u64) -> Duration {
        self.capacity.map_or(Duration::ZERO, |capacity| {
            capacity.time_for(in_flight).saturating_sub(self.min_rtt)
        })
    }

    /// How much later data may arrive than [`Self::one_way_delay`] says if the path does no more than it has shown: in
    /// slow start what is in flight beyond that may stand in a queue, or be lost in one, and no round trip tells.
    pub fn unproven_delay(&self) -> Duration {
        if !self.slow_start || self.capacity.is_some() {
            return Duration::ZERO;
        }
        let shown = self.most_passed.max(self.datagram).max(1);
        let beyond = self.in_flight.saturating_sub(shown);
        let round_trips = (beyond as f64 / shown as f64).min(MOST_DOUBT);
        self.min_rtt.mul_f64(round_trips)
    }

    /// [`Self::one_way_delay`] if the path does no more than it has shown.
    pub fn proven_delay(&self) -> Duration {
        self.one_way_delay().saturating_add(self.unproven_delay())
    }

    /// Whether the path stands still frequently, and what is sent on `other` as well arrives before that would be over.
    pub fn is_outrun_by(&self, other: &Self) -> bool {
        let over = || self.proven_delay().saturating_add(self.standstill.wait);
        self.standstill.is_frequent() && other.one_way_delay() < over()
    }

    /// Bytes that the path takes: those that its window allows, and that its queue has not dropped so far.
    ///
    /// After slow start has overfilled a queue, the window that a loss leaves is still more than the path holds where
    /// it had doubled meanwhile. Filled, it overflows a second time, and what is lost at the end of a
    /// transfer is found out when everything else has arrived.
    pub fn takes(&self) -> u64 {
        let queue = self.overflow.map_or(u64::MAX, |overflow| {
            before_overflow(overflow, self.in_flight, self.datagram)
        });
        queue.min(self.room())
    }

    /// Whether the path's queue would drop another packet, as it did lately.
    pub fn is_full(&self) -> bool {
        self.overflow.is_some() && self.takes() < self.datagram
    }

    /// Bytes the window still takes.
    pub fn room(&self) -> u64 {
        self.window.saturating_sub(self.in_flight)
    }
}

/// A path takes so many packets, however few its queue has dropped something with.
const FEWEST: u64 = 4;

/// No more than so many round trips are doubted.
const MOST_DOUBT: f64 = 2.0;

/// What a decision is about.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SchedulerView<'a> {
    /// Now.
    pub now: Instant,
    /// Paths that data may use, ascending by identifier; at least one.
    pub paths: &'a [PathView],
    /// Bytes of data that wait to be sent, as far as flow control lets them go; with those that applications have
    /// announced by `Connection::set_size_hint`.
    pub waiting: u64,
    /// Whether more may follow: the application has neither finished nor said how much it would write, or the
    /// peer's limits count only a part of what it has written. Then data that arrives late holds up what comes after it.
    pub more_follows: bool,
    /// Whether flow control has held data back lately: then more of it follows whatever arrives.
    pub held_back: bool,
}

/// Where data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The path.
    pub path: PathId,
    /// Bytes it may carry before the scheduler wants to be asked again.
    pub bytes: u64,
    /// Bytes of what waits that the others will have delivered before any of this arrives: of several streams that go one
    /// after the other, those behind so many are better served by this path, and the others finished sooner by theirs.
    pub ahead: u64,
}

/// The path-scheduling policy of one connection.
pub trait Scheduler: fmt::Debug + Send {
    /// CLI flag, registry key and qlog value.
    fn name(&self) -> &'static str;
    /// The path for the next data; `None` if it had better wait for a path that may not send now.
    fn choose(&mut self, view: &SchedulerView<'_>) -> Option<Choice>;
    /// `bytes` of data left on `path`.
    fn on_sent(&mut self, path: PathId, bytes: u64) {
        let _ = (path, bytes);
    }
    /// Whether data under way on one path is sent once more on others that have room and nothing
    /// else to carry.
    fn repeats(&self) -> Repeats {
        Repeats::Never
    }
}

/// When data under way on one path is sent on another one too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Only when a timeout says that it may be lost.
    Never,
    /// When nothing new waits and the copy is expected to arrive first.
    Late,
    /// Always.
    All,
}

/// Builds schedulers of one kind.
pub trait SchedulerFactory: fmt::Debug + Send + Sync {
    /// The name its schedulers bear.
    fn name(&self) -> &'static str;
    /// A scheduler for a new connection.
    fn build(&self) -> Box<dyn Scheduler>;
}

/// A shared factory, as the configuration holds it.
pub type SharedSchedulerFactory = Arc<dyn SchedulerFactory>;

/// The paths of `view` that may send, those that both ends want first if any of them is alive.
fn ready<'a>(view: &'a SchedulerView<'_>) -> impl Iterator<Item = &'a PathView> {
    wanted(view).filter(|path| path.may_send)
}

/// The available paths, or the backup ones where there is no other.
fn wanted<'a>(view: &'a SchedulerView<'_>) -> impl Iterator<Item = &'a PathView> {
    let any = view
        .paths
        .iter()
        .any(|path| path.status == PathStatus::Available);
    view.paths
        .iter()
        .filter(move |path| !any || path.status == PathStatus::Available)
}
