//! The event queue: by time, then by the order in which events were made.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
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

#[derive(Debug, Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
}

impl EventQueue {
    pub(super) fn push(&mut self, time: Instant, event: Event) {
        let sequence = self.sequence;
        self.sequence += 1;
        self.heap.push(Reverse(Entry {
            time,
            sequence,
            event,
        }));
    }

    pub(super) fn next_time(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.time)
    }

    pub(super) fn pop(&mut self) -> Option<(Instant, Event)> {
        self.heap
            .pop()
            .map(|Reverse(entry)| (entry.time, entry.event))
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
}
