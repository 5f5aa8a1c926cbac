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

impl Entry {
    const fn key(&self) -> (Instant, u64) {
        (self.time, self.sequence)
    }

    fn tick(&self) -> u64 {
        tick_of(self.time)
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A tick is 2^20 ns, about a millisecond.
const TICK_BITS: u32 = 20;
/// Ticks of the wheel, a power of two: 2.1 s, longer than most links delay and most queues hold.
const TICKS: u64 = 2048;
const WORDS: usize = (TICKS / 64) as usize;

fn tick_of(time: Instant) -> u64 {
    time.as_nanos() >> TICK_BITS
}

/// An event of the wheel, in a chain of those of its tick.
#[derive(Clone, Copy, Debug)]
struct Link {
    entry: Entry,
    next: Option<u32>,
}

/// A timing wheel. What happens within the tick at hand is sorted, what happens within the wheel's
/// reach lies unsorted under its tick, and what happens later is in a heap. Thousands of packets are under
/// way at a time; a heap of them all would be a tenth of a simulation's cost. Memory is what the most events
/// at once have needed.
#[derive(Debug)]
pub(super) struct EventQueue {
    sequence: u64,
    /// The tick at hand. Only [`EventQueue::advance`] moves it, when `due` is empty.
    tick: u64,
    /// Events up to the end of the tick at hand, the next one last.
    due: Vec<Entry>,
    /// Chains of the events of the ticks after that, `TICKS - 1` of them; each tick has the slot of its
    /// remainder.
    wheel: Vec<Option<u32>>,
    /// Which slots hold anything.
    held: [u64; WORDS],
    links: Vec<Link>,
    /// The chain of unused links.
    free: Option<u32>,
    /// What lay beyond the wheel's reach when it was made.
    later: BinaryHeap<Reverse<Entry>>,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            sequence: 0,
            tick: 0,
            due: Vec::new(),
            wheel: vec![None; TICKS as usize],
            held: [0; WORDS],
            links: Vec::new(),
            free: None,
            later: BinaryHeap::new(),
        }
    }
}

impl EventQueue {
    pub(super) fn push(&mut self, time: Instant, event: Event) {
        let sequence = self.sequence;
        self.sequence += 1;
        let entry = Entry {
            time,
            sequence,
            event,
        };
        let tick = entry.tick();
        if tick <= self.tick {
            // Its sequence number is the highest, so that it stands before all of its time.
            let at = self.due.partition_point(|other| other.time > time);
            self.due.insert(at, entry);
        } else if tick - self.tick < TICKS {
            self.chain((tick % TICKS) as usize, entry);
        } else {
            self.later.push(Reverse(entry));
        }
    }

    /// Puts an event into the chain of a slot.
    fn chain(&mut self, slot: usize, entry: Entry) {
        let (Some(first), Some(word)) = (self.wheel.get_mut(slot), self.held.get_mut(slot / 64))
        else {
            return;
        };
        *word |= 1 << (slot % 64);
        let link = Link {
            entry,
            next: *first,
        };
        let unused = self
            .free
            .and_then(|at| Some((at, self.links.get_mut(at as usize)?)));
        match unused {
            Some((at, place)) => {
                self.free = place.next;
                *place = link;
                *first = Some(at);
            }
            None => {
                *first = Some(self.links.len() as u32);
                self.links.push(link);
            }
        }
    }

    /// The events in the chain of a slot.
    fn chained(&self, slot: usize) -> impl Iterator<Item = Entry> + '_ {
        let link = |at: u32| self.links.get(at as usize);
        let first = self.wheel.get(slot).copied().flatten().and_then(link);
        std::iter::successors(first, move |it| it.next.and_then(link)).map(|it| it.entry)
    }

    /// When the next event is.
    pub(super) fn next_time(&self) -> Option<Instant> {
        if let Some(next) = self.due.last() {
            return Some(next.time);
        }
        let wheel = self.next_tick().and_then(|tick| {
            let times = self
                .chained((tick % TICKS) as usize)
                .map(|entry| entry.time);
            times.min()
        });
        let later = self.later.peek().map(|Reverse(entry)| entry.time);
        lesser(wheel, later)
    }

    #[cfg(test)]
    fn pop(&mut self) -> Option<(Instant, Event)> {
        self.pop_until(Instant::FAR_FUTURE)
    }

    /// The next event, unless it is after `limit`.
    pub(super) fn pop_until(&mut self, limit: Instant) -> Option<(Instant, Event)> {
        if self.due.is_empty() {
            self.advance(limit);
        }
        let next = self.due.pop_if(|next| next.time <= limit)?;
        Some((next.time, next.event))
    }

    /// Whether anything is left to happen at `now`, the time of the event taken last.
    pub(super) fn has_at(&self, now: Instant) -> bool {
        // What happens within its tick is all there.
        self.due.last().is_some_and(|next| next.time <= now)
    }

    /// The next tick after that at hand for which the wheel holds anything.
    fn next_tick(&self) -> Option<u64> {
        let first = ((self.tick + 1) % TICKS) as usize;
        // The word of the first slot comes up twice: its later slots first, its earlier ones last.
        (0..=WORDS).find_map(|step| {
            let index = (first / 64 + step) % WORDS;
            let mut word = *self.held.get(index)?;
            if step == 0 {
                word &= u64::MAX << (first % 64);
            } else if step == WORDS {
                word &= !(u64::MAX << (first % 64));
            }
            if word == 0 {
                return None;
            }
            let slot = (index * 64) as u64 + u64::from(word.trailing_zeros());
            Some(self.tick + 1 + (slot + TICKS - first as u64) % TICKS)
        })
    }

    /// Goes on to the next tick in which anything happens, but not beyond that of `limit`: all that
    /// is made until the next event would have to be sorted in.
    fn advance(&mut self, limit: Instant) {
        let wheel = self.next_tick();
        let later = self.later.peek().map(|Reverse(entry)| entry.tick());
        let next = lesser(wheel, later).filter(|tick| *tick <= tick_of(limit));
        let Some(tick) = next else {
            return;
        };
        self.tick = tick;
        let slot = (tick % TICKS) as usize;
        if wheel == Some(tick)
            && let (Some(first), Some(word)) =
                (self.wheel.get_mut(slot), self.held.get_mut(slot / 64))
        {
            *word &= !(1 << (slot % 64));
            let mut next = first.take();
            while let Some(at) = next
                && let Some(link) = self.links.get_mut(at as usize)
            {
                self.due.push(link.entry);
                next = link.next;
                link.next = self.free;
                self.free = Some(at);
            }
        }
        while let Some(Reverse(next)) = self.later.peek()
            && next.tick() <= tick
        {
            self.due
                .extend(self.later.pop().map(|Reverse(entry)| entry));
        }
        self.due.sort_unstable_by_key(|entry| Reverse(entry.key()));
    }
}

fn lesser<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    a.into_iter().chain(b).min()
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
    use proptest::prelude::*;

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
    fn nothing_comes_before_its_time() {
        let mut queue = EventQueue::default();
        let at = Instant::from_nanos(1 << 40);
        queue.push(at, Event::Wake(0));
        assert_eq!(queue.next_time(), Some(at));
        assert_eq!(queue.pop_until(Instant::from_nanos((1 << 40) - 1)), None);
        let before = Instant::from_nanos(5);
        queue.push(before, Event::Wake(1));
        assert_eq!(queue.next_time(), Some(before));
        assert_eq!(queue.pop_until(at), Some((before, Event::Wake(1))));
        assert_eq!(queue.pop_until(at), Some((at, Event::Wake(0))));
        assert_eq!(queue.pop_until(at), None);
    }

    proptest! {
        /// Beside a sorted set: delays from nothing to a minute, in any mixture of making and taking.
        #[test]
        fn the_order_is_that_of_a_sorted_set(
            steps in proptest::collection::vec((0u32..36, any::<u64>(), any::<bool>()), 1..400),
        ) {
            let mut queue = EventQueue::default();
            let mut model = std::collections::BTreeSet::new();
            let mut now = 0u64;
            for (number, (magnitude, bits, take)) in steps.into_iter().enumerate() {
                let time = now + (bits & ((1 << magnitude) - 1));
                queue.push(Instant::from_nanos(time), Event::Timer(number as u32));
                model.insert((time, number as u32));
                if take {
                    let (time, number) = model.pop_first().unwrap();
                    prop_assert_eq!(queue.next_time(), Some(Instant::from_nanos(time)));
                    let expected = (Instant::from_nanos(time), Event::Timer(number));
                    prop_assert_eq!(queue.pop(), Some(expected));
                    now = time;
                }
            }
            for (time, number) in model {
                prop_assert_eq!(queue.next_time(), Some(Instant::from_nanos(time)));
                let expected = (Instant::from_nanos(time), Event::Timer(number));
                prop_assert_eq!(queue.pop(), Some(expected));
            }
            prop_assert_eq!(queue.next_time(), None);
            prop_assert_eq!(queue.pop(), None);
        }
    }
}
