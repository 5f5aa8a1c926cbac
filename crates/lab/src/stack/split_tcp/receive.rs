//! The receiving end: data back in order, the window, and when to acknowledge.
//!
//! Acknowledged at once is every second segment, everything out of order and everything that fills
//! a hole; else after the delay (RFC 5681 s4.2). Aggregated, it is every sixteenth, and out of order
//! only what begins a hole or fills one. The first SACK block is the one that changed last
//! (RFC 2018 s4).
//!
//! Owns: [`Receiver`]. Does not own: what the bytes mean, the segments' encoding.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use bytes::Bytes;
use tautline_transport::time::Instant;

use super::{
    ranges::Ranges,
    segment::{MAX_BLOCKS, Segment, expand},
};

/// When acknowledgements are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckRule {
    /// How many segments one is for.
    pub(super) segments: u32,
    /// How long it may be put off.
    pub(super) delay: Duration,
    /// Whether each segment beyond a hole has its own.
    pub(super) each_beyond: bool,
}

impl AckRule {
    /// RFC 5681.
    pub(super) const fn standard(delay: Duration) -> Self {
        Self {
            segments: 2,
            delay,
            each_beyond: true,
        }
    }

    /// For thin return links.
    pub(super) const fn aggregated(delay: Duration) -> Self {
        Self {
            segments: 16,
            delay,
            each_beyond: false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Receiver {
    /// The next byte in order.
    next: u64,
    /// What came beyond it.
    ahead: Ranges,
    pieces: BTreeMap<u64, Bytes>,
    pieces_bytes: u64,
    /// A place in each of the ranges that changed last, newest first.
    recent: VecDeque<u64>,
    ready: VecDeque<Bytes>,
    ready_bytes: u64,
    /// Bytes handed on that the application has not read.
    held: u64,
    buffer: u64,
    /// The first byte the sender was not allowed to send.
    edge: u64,
    /// Whether anything ever came.
    began: bool,
    echo: u32,
    unacknowledged: u32,
    due: Option<Instant>,
    rule: AckRule,
    /// The byte after the last one that came.
    last: u64,
}

impl Receiver {
    pub(super) fn new(buffer: u64, rule: AckRule) -> Self {
        Self {
            next: 0,
            ahead: Ranges::default(),
            pieces: BTreeMap::new(),
            pieces_bytes: 0,
            recent: VecDeque::new(),
            ready: VecDeque::new(),
            ready_bytes: 0,
            held: 0,
            buffer,
            edge: buffer,
            began: false,
            echo: 0,
            unacknowledged: 0,
            due: None,
            rule,
            last: 0,
        }
    }

    /// A segment with data came.
    pub(super) fn on_data(&mut self, now: Instant, segment: &Segment) {
        let start = expand(self.next, segment.seq);
        let end = start.saturating_add(segment.data.len() as u64);
        self.began = true;
        self.echo = segment.stamp;
        self.unacknowledged += 1;
        let had_holes = !self.ahead.is_empty();
        let (from, to) = (start.max(self.next), end.min(self.edge));
        if from < to {
            self.keep(start, from, to, &segment.data);
        }
        let follows = start == self.last;
        self.last = self.last.max(end);
        let in_order = from == start && to == end && self.next == end;
        let beyond = had_holes || !self.ahead.is_empty() || !in_order;
        let news = if self.rule.each_beyond {
            beyond
        } else {
            beyond && !follows
        };
        let at_once = news || self.unacknowledged >= self.rule.segments;
        let due = if at_once { now } else { now + self.rule.delay };
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    fn keep(&mut self, start: u64, from: u64, to: u64, data: &Bytes) {
        let part = |a: u64, b: u64| data.slice((a - start) as usize..(b - start) as usize);
        if from == self.next && self.ahead.is_empty() {
            self.hand_on(part(from, to));
            return;
        }
        let (pieces, bytes) = (&mut self.pieces, &mut self.pieces_bytes);
        self.ahead.insert(from, to, |a, b| {
            pieces.insert(a, part(a, b));
            *bytes += b - a;
        });
        while let Some(first) = self.pieces.first_entry()
            && *first.key() == self.next
        {
            let piece = first.remove();
            self.pieces_bytes -= piece.len() as u64;
            self.hand_on(piece);
        }
        self.ahead.remove_below(self.next);
        if from >= self.next {
            self.recent.push_front(from);
        }
        let ahead = &self.ahead;
        let mut seen = Vec::with_capacity(MAX_BLOCKS);
        self.recent.retain(|place| match ahead.around(*place) {
            Some(range) if !seen.contains(&range) && seen.len() < MAX_BLOCKS => {
                seen.push(range);
                true
            }
            _ => false,
        });
    }

    fn hand_on(&mut self, data: Bytes) {
        self.next += data.len() as u64;
        self.ready_bytes += data.len() as u64;
        self.ready.push_back(data);
    }

    /// The next bytes in order.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        let data = self.ready.pop_front()?;
        self.ready_bytes -= data.len() as u64;
        Some(data)
    }

    /// The next bytes in order, no more than `most`; `None` also where that is none.
    pub(super) fn take_up_to(&mut self, most: usize) -> Option<Bytes> {
        let front = self.ready.front_mut().filter(|_| most > 0)?;
        let data = front.split_to(front.len().min(most));
        if front.is_empty() {
            self.ready.pop_front();
        }
        self.ready_bytes -= data.len() as u64;
        Some(data)
    }

    /// Of what was taken, the application has not read so many bytes.
    pub(super) fn hold(&mut self, now: Instant, bytes: u64) {
        let closed = self.edge.saturating_sub(self.next);
        self.held = bytes;
        let open = self.open_edge().saturating_sub(self.next);
        // A window that was nearly shut and opens is worth telling (RFC 9293 s3.8.6.2.2).
        if closed < self.buffer / 4 && open >= self.buffer / 2 {
            self.due = Some(now);
        }
    }

    fn open_edge(&self) -> u64 {
        let room = self.buffer.saturating_sub(self.held + self.ready_bytes);
        (self.next + room).max(self.edge)
    }

    /// When an acknowledgement is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Fills in what an outgoing segment says about this direction. Returns whether an
    /// acknowledgement had been owed.
    pub(super) fn acknowledge(&mut self, segment: &mut Segment) -> bool {
        self.edge = self.open_edge();
        segment.window = self.edge.saturating_sub(self.next);
        segment.ack = self.began.then_some(self.next as u32);
        segment.echo = self.echo;
        let newest = self.recent.iter();
        let newest: Vec<_> = newest.filter_map(|at| self.ahead.around(*at)).collect();
        let others = self.ahead.iter().filter(|range| !newest.contains(range));
        // Others have been told; again, should that have been lost.
        for (start, end) in newest.iter().copied().chain(others).take(MAX_BLOCKS) {
            segment.blocks.push(start, end);
        }
        self.unacknowledged = 0;
        self.due.take().is_some()
    }

    /// Whether blocks would have to be told.
    pub(super) fn has_holes(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Bytes in memory.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.pieces_bytes + self.ready_bytes + self.held
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULE: AckRule = AckRule::standard(Duration::from_millis(40));

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn data(start: u64, bytes: &[u8]) -> Segment {
        Segment {
            seq: start as u32,
            data: Bytes::copy_from_slice(bytes),
            ..Segment::default()
        }
    }

    fn answer(receiver: &mut Receiver) -> Segment {
        let mut segment = Segment::default();
        receiver.acknowledge(&mut segment);
        segment
    }

    #[test]
    fn every_second_segment_is_acknowledged_at_once() {
        let mut receiver = Receiver::new(10_000, RULE);
        receiver.on_data(at(0), &data(0, &[0; 100]));
        assert_eq!(receiver.due(), Some(at(40)));
        receiver.on_data(at(5), &data(100, &[0; 100]));
        assert_eq!(receiver.due(), Some(at(5)));
        let told = answer(&mut receiver);
        assert_eq!((told.ack, receiver.due()), (Some(200), None));
        assert_eq!(told.window, 9_800);
    }

    #[test]
    fn holes_are_told_at_once_newest_first() {
        let mut receiver = Receiver::new(10_000, RULE);
        for start in [200, 400, 600, 800, 300] {
            receiver.on_data(at(start), &data(start, &[0; 100]));
            assert_eq!(receiver.due(), Some(at(start)));
            answer(&mut receiver);
        }
        receiver.on_data(at(9), &data(1000, &[0; 100]));
        let told = answer(&mut receiver);
        assert_eq!(told.ack, Some(0));
        let blocks: Vec<_> = told.blocks.iter().collect();
        assert_eq!(blocks, [(1000, 1100), (200, 500), (800, 900)]);
        // What fills the first hole is told at once, too.
        receiver.on_data(at(10), &data(0, &[0; 200]));
        assert_eq!(receiver.due(), Some(at(10)));
        assert_eq!(answer(&mut receiver).ack, Some(500));
    }

    #[test]
    fn aggregated_ones_tell_of_each_hole_once() {
        let rule = AckRule::aggregated(Duration::from_millis(40));
        let mut receiver = Receiver::new(100_000, rule);
        let mut told = Vec::new();
        let starts = (0..20).chain(21..30).chain([20]).chain(30..50);
        for (millis, start) in (0..).zip(starts) {
            receiver.on_data(at(millis), &data(start * 100, &[0; 100]));
            if receiver.due() == Some(at(millis)) {
                answer(&mut receiver);
                told.push(start);
            }
        }
        // Two by count, one for the hole, one when it was filled.
        assert_eq!(told, [15, 21, 20, 45]);
    }

    #[test]
    fn a_window_that_opens_is_told() {
        let mut receiver = Receiver::new(1_000, RULE);
        receiver.on_data(at(0), &data(0, &[0; 900]));
        while receiver.take().is_some() {}
        receiver.hold(at(0), 900);
        assert_eq!(answer(&mut receiver).window, 100);
        // Beyond the edge nothing is kept.
        receiver.on_data(at(1), &data(900, &[0; 500]));
        assert_eq!(receiver.due(), Some(at(1)));
        assert_eq!(answer(&mut receiver).ack, Some(1000));
        while receiver.take().is_some() {}
        receiver.hold(at(2), 900);
        assert_eq!(receiver.due(), None);
        receiver.hold(at(3), 300);
        assert_eq!(receiver.due(), Some(at(3)));
        assert_eq!(answer(&mut receiver).window, 700);
    }

    proptest! {
        /// Whatever order, overlap and repetition segments come in, the stream comes out, and no
        /// more is kept than the buffer holds.
        #[test]
        fn the_stream_comes_back(
            length in 1usize..400,
            cuts in proptest::collection::vec((any::<prop::sample::Index>(), 1usize..60), 0..120),
            buffer in 50u64..500,
        ) {
            let stream: Vec<u8> = (0..length).map(|i| (i * 7 % 251) as u8).collect();
            let mut receiver = Receiver::new(buffer, RULE);
            let mut out = Vec::new();
            let in_turn = (0..length).step_by(10).map(|start| (start, 10));
            let wild = cuts.into_iter().map(|(at, take)| (at.index(length), take));
            for (start, take) in wild.chain(in_turn) {
                let end = (start + take).min(length);
                receiver.on_data(at(0), &data(start as u64, &stream[start..end]));
                prop_assert!(receiver.bytes() <= buffer);
                let told = answer(&mut receiver);
                let mut before = Vec::new();
                for (from, to) in told.blocks.iter() {
                    prop_assert!(from > told.ack.unwrap() && from < to);
                    prop_assert!(!before.contains(&(from, to)));
                    before.push((from, to));
                }
                prop_assert_eq!(told.blocks.iter().next().is_some(), receiver.has_holes());
                while let Some(chunk) = receiver.take() {
                    out.extend_from_slice(&chunk);
                    receiver.hold(at(0), 0);
                }
                answer(&mut receiver);
            }
            prop_assert_eq!(out, stream);
        }
    }
}
