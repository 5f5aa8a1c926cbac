//! The event queue: by time, then by the order in which events were made.
//!
//! What a link carries mostly arrives in order, and a long link carries thousands: each direction
//! has a lane, of which the first event alone stands in the heap. The order of events is the same
//! as if all stood there.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, VecDeque, binary_heap::PeekMut},
};

use tautline_transport::time::Instant;

use super::Direction;

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The datagram in this slot reaches the end of its link.
    Arrival(u32),
    /// The timer of this host.
    Timer(u32),
    /// This host may have something to send.
    Wake(u32),
    /// The action in this slot.
    Action(u32),
    /// A managed queue may send: link and direction.
    Dequeue(u32, Direction),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    time: Instant,
    sequence: u64,
    event: Event,
    /// The lane whose first event this is.
    lane: Option<u32>,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.time, self.sequence).cmp(&(other.time, other.sequence))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The events of a lane behind its first.
#[derive(Debug, Default)]
struct Lane {
    behind: VecDeque<Entry>,
    /// The time of the last event of the lane, while it has one.
    last: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Reverse<Entry>>,
    lanes: Vec<Lane>,
    sequence: u64,
}

impl EventQueue {
    pub(super) fn push(&mut self, time: Instant, event: Event) {
        let entry = self.entry(time, event);
        self.heap.push(Reverse(entry));
    }

    /// As [`Self::push`], cheaper where the events of a lane come in the order of their times.
    pub(super) fn push_in(&mut self, lane: usize, time: Instant, event: Event) {
        let mut entry = self.entry(time, event);
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, Lane::default);
        }
        if let Some(line) = self.lanes.get_mut(lane) {
            match line.last {
                Some(last) if last <= time => {
                    line.last = Some(time);
                    entry.lane = Some(lane as u32);
                    line.behind.push_back(entry);
                    return;
                }
                // Overtakes what is in the lane.
                Some(_) => {}
                None => {
                    line.last = Some(time);
                    entry.lane = Some(lane as u32);
                }
            }
        }
        self.heap.push(Reverse(entry));
    }

    fn entry(&mut self, time: Instant, event: Event) -> Entry {
        let sequence = self.sequence;
        self.sequence += 1;
        Entry {
            time,
            sequence,
            event,
            lane: None,
        }
    }

    pub(super) fn next_time(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.time)
    }

    pub(super) fn pop(&mut self) -> Option<(Instant, Event)> {
        let mut top = self.heap.peek_mut()?;
        let Reverse(entry) = *top;
        let lane = entry.lane.and_then(|at| self.lanes.get_mut(at as usize));
        match lane.map(|lane| (lane.behind.pop_front(), lane)) {
            Some((Some(next), _)) => *top = Reverse(next),
            Some((None, lane)) => {
                lane.last = None;
                PeekMut::pop(top);
            }
            None => {
                PeekMut::pop(top);
            }
        }
        Some((entry.time, entry.event))
    }
}

/// Values that events point at, in reused slots.
#[derive(Debug)]
pub(super) struct Slots<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slots<T> {
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop()
            && let Some(place) = self.values.get_mut(slot as usize)
        {
            *place = Some(value);
            return slot;
        }
        self.values.push(Some(value));
        (self.values.len() - 1) as u32
    }

    pub(super) fn take(&mut self, slot: u32) -> Option<T> {
        let value = self.values.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use tautline_transport::rng::Rng;

    use super::*;

    #[test]
    fn ties_keep_the_order_of_making() {
        let mut queue = EventQueue::default();
        let (early, late) = (Instant::from_nanos(1), Instant::from_nanos(2));
        queue.push(late, Event::Timer(0));
        queue.push(early, Event::Timer(1));
        queue.push(late, Event::Timer(2));
        queue.push(early, Event::Timer(3));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let expected = [(early, 1), (early, 3), (late, 0), (late, 2)];
        assert_eq!(order, expected.map(|(t, i)| (t, Event::Timer(i))));
    }

    #[test]
    fn lanes_change_nothing_in_the_order() {
        let (mut plain, mut lanes) = (EventQueue::default(), EventQueue::default());
        let mut draw = Rng::from_u64(7);
        let mut clock = [0; 3];
        for made in 0..20_000 {
            if draw.below(5) < 2 {
                assert_eq!(plain.next_time(), lanes.next_time());
                assert_eq!(plain.pop(), lanes.pop());
            }
            let lane = draw.below(3) as usize;
            clock[lane] += draw.below(20);
            let overtakes = draw.below(20) == 0;
            let time = Instant::from_nanos(clock[lane] / if overtakes { 2 } else { 1 });
            let event = Event::Timer(made);
            plain.push(time, event);
            lanes.push_in(lane, time, event);
        }
        assert!(10 * lanes.heap.len() < plain.heap.len());
        while let Some(event) = plain.pop() {
            assert_eq!(lanes.pop(), Some(event));
        }
        assert_eq!(lanes.pop(), None);
    }
}
