//! What was sent and what became of it: the sender's view of SACK (RFC 6675, RFC 8985).
//!
//! Segments keep the borders of their first transmission. Every transmission has a number of its
//! own, in the order of sending, so that "sent before" is a comparison of numbers.
//!
//! Owns: [`Scoreboard`]: the segments from the first that is not acknowledged on, which of them are in
//! flight, delivered or lost. Does not own: when one counts as lost, how many may be in flight
//! (`send.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use tautline_transport::{congestion::LostPacket, time::Instant};

use super::{ranges::Ranges, rate::Snapshot, segment::HEADER_BYTES};

/// One transmission of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transmission {
    pub(super) number: u64,
    pub(super) at: Instant,
    pub(super) snapshot: Snapshot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Delivered,
    Lost,
}

/// The transmission before the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) transmission: Transmission,
    /// Whether it was declared lost; else the repetition was a probe.
    pub(super) lost: bool,
}

#[derive(Clone, Debug)]
struct Sent {
    start: u64,
    data: Bytes,
    state: State,
    last: Transmission,
    before: Option<Before>,
}

impl Sent {
    fn end(&self) -> u64 {
        self.start + self.data.len() as u64
    }

    fn wire_bytes(&self) -> u64 {
        wire_bytes(&self.data)
    }
}

/// Bytes of a segment's payload on the simulated wire.
pub(super) fn wire_bytes(data: &Bytes) -> u64 {
    (data.len() + HEADER_BYTES) as u64
}

/// A segment that an acknowledgement newly covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) last: Transmission,
    pub(super) before: Option<Before>,
    /// Whether it counted as lost, and was not sent again.
    pub(super) was_lost: bool,
}

impl Delivered {
    /// Bytes of its payload on the simulated wire.
    pub(super) const fn wire_bytes(&self) -> u64 {
        self.end - self.start + HEADER_BYTES as u64
    }
}

#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    segments: VecDeque<Sent>,
    /// The first byte that is not acknowledged.
    una: u64,
    /// The byte after the last one sent.
    next: u64,
    /// Transmissions in flight: number to start.
    in_flight: BTreeMap<u64, u64>,
    in_flight_bytes: u64,
    /// Starts of segments that are lost.
    lost: BTreeSet<u64>,
    /// What SACK blocks have told beyond `una`.
    told: Ranges,
    delivered_segments: usize,
}

impl Scoreboard {
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Segments beyond a hole that have been delivered.
    pub(super) fn delivered_segments(&self) -> usize {
        self.delivered_segments
    }

    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Segments in flight.
    pub(super) fn in_flight_segments(&self) -> usize {
        self.in_flight.len()
    }

    /// New data leaves. Returns its place.
    pub(super) fn send(&mut self, data: Bytes, transmission: Transmission) -> u64 {
        let start = self.next;
        let sent = Sent {
            start,
            data,
            state: State::InFlight,
            last: transmission,
            before: None,
        };
        self.next = sent.end();
        self.in_flight.insert(transmission.number, start);
        self.in_flight_bytes += sent.wire_bytes();
        self.segments.push_back(sent);
        start
    }

    /// The first segment that is lost.
    pub(super) fn first_lost(&self) -> Option<(u64, Bytes)> {
        let start = *self.lost.first()?;
        let index = self.index(start)?;
        Some((start, self.segments.get(index)?.data.clone()))
    }

    /// The last segment in flight.
    pub(super) fn last_in_flight(&self) -> Option<(u64, Bytes)> {
        let in_flight = |sent: &&Sent| sent.state == State::InFlight;
        let sent = self.segments.iter().rev().find(in_flight)?;
        Some((sent.start, sent.data.clone()))
    }

    /// A segment that is lost, or in flight, leaves again.
    pub(super) fn send_again(&mut self, start: u64, transmission: Transmission) {
        let Some(index) = self.index(start) else {
            return;
        };
        let Some(sent) = self.segments.get_mut(index) else {
            return;
        };
        match sent.state {
            State::Delivered => return,
            State::Lost => {
                self.lost.remove(&start);
                self.in_flight_bytes += sent.wire_bytes();
            }
            State::InFlight => {
                self.in_flight.remove(&sent.last.number);
            }
        }
        sent.before = Some(Before {
            transmission: sent.last,
            lost: sent.state == State::Lost,
        });
        sent.state = State::InFlight;
        sent.last = transmission;
        self.in_flight.insert(transmission.number, start);
    }

    /// An acknowledgement. Shows `each` segment that is newly delivered. False, and nothing
    /// happens, when it speaks of what was never sent.
    pub(super) fn on_ack(
        &mut self,
        ack: u64,
        blocks: impl Iterator<Item = (u64, u64)>,
        mut each: impl FnMut(Delivered),
    ) -> bool {
        if ack > self.next {
            return false;
        }
        while let Some(first) = self.segments.front()
            && first.end() <= ack
        {
            if first.state == State::Delivered {
                self.delivered_segments -= 1;
            } else {
                each(self.settle(0));
            }
            self.segments.pop_front();
        }
        self.una = self.una.max(ack);
        self.told.remove_below(self.una);
        let mut gaps = Vec::new();
        for (start, end) in blocks {
            let (start, end) = (start.max(self.una), end.min(self.next));
            self.told.insert(start, end, |a, b| gaps.push((a, b)));
        }
        for (from, to) in gaps {
            // What a block covers only in part is not delivered.
            let mut index = self
                .segments
                .partition_point(|sent| sent.start < from && sent.end() <= from);
            while let Some(sent) = self.segments.get(index)
                && sent.start < to
            {
                let whole = self
                    .told
                    .around(sent.start)
                    .is_some_and(|(_, until)| until >= sent.end());
                if whole && sent.state != State::Delivered {
                    let delivered = self.settle(index);
                    self.delivered_segments += 1;
                    each(delivered);
                }
                index += 1;
            }
        }
        true
    }

    /// Takes a segment out of flight, or out of the lost, as delivered.
    fn settle(&mut self, index: usize) -> Delivered {
        let sent = &mut self.segments[index];
        let delivered = Delivered {
            start: sent.start,
            end: sent.end(),
            last: sent.last,
            before: sent.before,
            was_lost: sent.state == State::Lost,
        };
        match sent.state {
            State::InFlight => {
                self.in_flight.remove(&sent.last.number);
                self.in_flight_bytes -= delivered.wire_bytes();
            }
            State::Lost => {
                self.lost.remove(&sent.start);
            }
            State::Delivered => {}
        }
        sent.state = State::Delivered;
        delivered
    }

    /// The transmission in flight that is oldest.
    pub(super) fn oldest(&self) -> Option<Transmission> {
        let (_, start) = self.in_flight.first_key_value()?;
        let sent = self.segments.get(self.index(*start)?)?;
        Some(sent.last)
    }

    /// Declares the oldest transmission in flight lost.
    pub(super) fn lose_oldest(&mut self) -> Option<LostPacket> {
        let (_, start) = self.in_flight.pop_first()?;
        let index = self.index(start)?;
        let sent = self.segments.get_mut(index)?;
        sent.state = State::Lost;
        self.lost.insert(start);
        let bytes = sent.wire_bytes();
        self.in_flight_bytes -= bytes;
        let snapshot = sent.last.snapshot;
        Some(LostPacket::new(
            sent.last.number,
            bytes,
            sent.last.at,
            snapshot.tx_in_flight,
            snapshot.delivered,
            snapshot.lost,
            snapshot.app_limited,
        ))
    }

    fn index(&self, start: u64) -> Option<usize> {
        let index = self.segments.partition_point(|sent| sent.start < start);
        (self.segments.get(index)?.start == start).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn transmission(number: u64) -> Transmission {
        Transmission {
            number,
            at: Instant::from_nanos(number),
            snapshot: Snapshot::default(),
        }
    }

    /// The same, as sets of segments.
    #[derive(Default)]
    struct Naive {
        sizes: Vec<u64>,
        in_flight: BTreeMap<u64, usize>,
        delivered: BTreeSet<usize>,
        lost: BTreeSet<usize>,
        una: usize,
    }

    impl Naive {
        fn place(&self, segment: usize) -> u64 {
            self.sizes[..segment].iter().sum()
        }

        fn deliver(&mut self, segment: usize) -> bool {
            self.lost.remove(&segment);
            self.in_flight.retain(|_, flying| *flying != segment);
            self.delivered.insert(segment)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Send(u64),
        Ack(prop::sample::Index, Vec<(prop::sample::Index, usize)>),
        Lose,
        Again,
        AgainInFlight,
    }

    fn step() -> impl Strategy<Value = Step> {
        let blocks = proptest::collection::vec((any::<prop::sample::Index>(), 1usize..6), 0..4);
        prop_oneof![
            4 => (1u64..50).prop_map(Step::Send),
            3 => (any::<prop::sample::Index>(), blocks).prop_map(|(to, blocks)| Step::Ack(to, blocks)),
            2 => Just(Step::Lose),
            2 => Just(Step::Again),
            1 => Just(Step::AgainInFlight),
        ]
    }

    proptest! {
        #[test]
        fn the_scoreboard_is_the_naive_one(steps in proptest::collection::vec(step(), 0..200)) {
            let mut board = Scoreboard::default();
            let mut naive = Naive::default();
            for (number, step) in (0..).zip(steps) {
                match step {
                    Step::Send(size) => {
                        let start = board.send(vec![0; size as usize].into(), transmission(number));
                        prop_assert_eq!(start, naive.place(naive.sizes.len()));
                        naive.in_flight.insert(number, naive.sizes.len());
                        naive.sizes.push(size);
                    }
                    Step::Ack(to, blocks) => {
                        let count = naive.sizes.len();
                        let to = to.index(count + 1);
                        let blocks: Vec<_> = blocks
                            .into_iter()
                            .filter(|_| count > 0)
                            .map(|(at, length)| {
                                let at = at.index(count);
                                (at, (at + length).min(count))
                            })
                            .collect();
                        let places: Vec<_> = blocks.iter().map(|(a, b)| (naive.place(*a), naive.place(*b))).collect();
                        let mut got = BTreeSet::new();
                        let ack = naive.place(to);
                        let taken = board.on_ack(ack, places.into_iter(), |d| {
                            got.insert((d.start, d.end));
                        });
                        prop_assert!(taken);
                        naive.una = naive.una.max(to);
                        let mut wanted = BTreeSet::new();
                        let covered = blocks.into_iter().flat_map(|(a, b)| a..b).chain(0..naive.una);
                        for segment in covered.collect::<Vec<_>>() {
                            if naive.deliver(segment) {
                                wanted.insert((naive.place(segment), naive.place(segment + 1)));
                            }
                        }
                        prop_assert_eq!(got, wanted);
                    }
                    Step::Lose => {
                        let oldest = naive.in_flight.pop_first();
                        prop_assert_eq!(board.oldest().map(|t| t.number), oldest.map(|(n, _)| n));
                        let lost = board.lose_oldest();
                        prop_assert_eq!(lost.map(|lost| lost.packet_number), oldest.map(|(n, _)| n));
                        naive.lost.extend(oldest.map(|(_, segment)| segment));
                    }
                    Step::Again => {
                        let first = naive.lost.pop_first();
                        let start = board.first_lost().map(|(start, _)| start);
                        prop_assert_eq!(start, first.map(|segment| naive.place(segment)));
                        if let (Some(start), Some(segment)) = (start, first) {
                            board.send_again(start, transmission(number));
                            naive.in_flight.insert(number, segment);
                        }
                    }
                    Step::AgainInFlight => {
                        let last = naive.in_flight.values().max().copied();
                        let start = board.last_in_flight().map(|(start, _)| start);
                        prop_assert_eq!(start, last.map(|segment| naive.place(segment)));
                        if let (Some(start), Some(segment)) = (start, last) {
                            board.send_again(start, transmission(number));
                            naive.in_flight.retain(|_, flying| *flying != segment);
                            naive.in_flight.insert(number, segment);
                        }
                    }
                }
                let bytes: u64 = naive.in_flight.values().map(|s| naive.sizes[*s] + HEADER_BYTES as u64).sum();
                prop_assert_eq!(board.in_flight_bytes(), bytes);
                prop_assert_eq!(board.in_flight_segments(), naive.in_flight.len());
                prop_assert_eq!(board.una(), naive.place(naive.una));
                let beyond = naive.delivered.iter().filter(|s| **s >= naive.una).count();
                prop_assert_eq!(board.delivered_segments(), beyond);
                prop_assert_eq!(board.is_empty(), naive.una == naive.sizes.len());
            }
        }

        #[test]
        fn absurd_acknowledgements_do_no_harm(
            sizes in proptest::collection::vec(1usize..50, 0..20),
            acks in proptest::collection::vec((0u64..1200, proptest::collection::vec((0u64..1200, 0u64..1200), 0..4)), 0..20),
        ) {
            let mut board = Scoreboard::default();
            for (number, size) in (0..).zip(&sizes) {
                board.send(vec![0; *size].into(), transmission(number));
            }
            let all: u64 = sizes.iter().map(|size| *size as u64).sum();
            let mut delivered = 0;
            for (ack, blocks) in acks {
                let taken = board.on_ack(ack, blocks.into_iter(), |d| delivered += d.end - d.start);
                prop_assert_eq!(taken, ack <= all);
            }
            prop_assert!(delivered <= all);
            prop_assert!(board.una() <= board.next());
        }
    }
}
