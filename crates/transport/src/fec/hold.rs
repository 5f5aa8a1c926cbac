//! Packets that are not acknowledged yet, since those before them may still be recovered.
//!
//! Owns: [`Hold`], the order in which packets behind a gap are let go.
//! Does not own: decoding, acknowledgement. Only laboratories use it ([`super::FecLab::hold`]).

use std::{collections::VecDeque, time::Duration};

use crate::time::Instant;

/// Gaps that are followed, and packets that are held; older ones are let go.
const MOST: usize = 1024;
/// So many source symbols behind the repair symbols over a gap, and nothing is hoped for any more: the
/// packet reordering threshold. Zverev (2023), s3.3.3.
const NEWER: u8 = 3;

/// A source symbol that has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    id: u64,
    since: Instant,
    /// Repair symbols over it end here, if any came.
    covered_to: Option<u64>,
    /// Source symbols from there on that came.
    newer: u8,
}

/// Holds packets of a receiver that are behind a gap of source symbols.
#[derive(Debug)]
pub(crate) struct Hold<T> {
    timeout: Duration,
    /// One more than the largest symbol ID.
    next: u64,
    /// By ID, and so by time.
    gaps: VecDeque<Gap>,
    /// What is held, with the symbol ID that must have been reached.
    held: VecDeque<(u64, T)>,
}

impl<T> Hold<T> {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            next: 0,
            gaps: VecDeque::new(),
            held: VecDeque::new(),
        }
    }

    /// A source symbol arrived.
    pub(crate) fn on_source(&mut self, id: u64, now: Instant) {
        let first = self.next.max(id.saturating_sub(MOST as u64));
        for missing in first..id {
            self.gaps.push_back(Gap {
                id: missing,
                since: now,
                covered_to: None,
                newer: 0,
            });
        }
        let excess = self.gaps.len().saturating_sub(MOST);
        self.gaps.drain(..excess);
        self.next = self.next.max(id.saturating_add(1));
        for gap in &mut self.gaps {
            gap.newer += u8::from(gap.covered_to.is_some_and(|end| id >= end));
        }
        self.gaps.retain(|gap| gap.id != id && gap.newer < NEWER);
    }

    /// A repair symbol over so many source symbols arrived.
    pub(crate) fn on_repair(&mut self, first: u64, count: u64) {
        let end = first.saturating_add(count);
        for gap in &mut self.gaps {
            if (first..end).contains(&gap.id) {
                gap.covered_to = Some(end);
            }
        }
    }

    /// A source symbol was recovered.
    pub(crate) fn on_recovered(&mut self, id: u64) {
        self.gaps.retain(|gap| gap.id != id);
    }

    /// A packet arrived that carried source symbol `id`, or none. Returned if it need not be held.
    pub(crate) fn push(&mut self, id: Option<u64>, packet: T) -> Option<T> {
        let reached = id.map_or(self.next, |id| id.saturating_add(1));
        if self.gap().is_none_or(|gap| reached <= gap) {
            return Some(packet);
        }
        self.held.push_back((reached, packet));
        None
    }

    /// The next packet that is not held any more.
    pub(crate) fn release(&mut self, now: Instant) -> Option<T> {
        while let Some(gap) = self.gaps.front() {
            if now < gap.since + self.timeout {
                break;
            }
            self.gaps.pop_front();
        }
        let (reached, _) = self.held.front()?;
        let free = self.gap().is_none_or(|gap| *reached <= gap) || self.held.len() > MOST;
        free.then(|| self.held.pop_front())
            .flatten()
            .map(|(_, packet)| packet)
    }

    /// When a packet has been held long enough.
    pub(crate) fn timer(&self) -> Option<Instant> {
        let gap = self.gaps.front().filter(|_| !self.held.is_empty())?;
        Some(gap.since + self.timeout)
    }

    fn gap(&self) -> Option<u64> {
        self.gaps.front().map(|gap| gap.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const NONE: [u64; 0] = [];

    fn at(ms: u32) -> Instant {
        Instant::ZERO + ms * MS
    }

    /// The source symbols that are let go when this one arrives.
    fn arrive(hold: &mut Hold<u64>, id: u64, ms: u32) -> Vec<u64> {
        hold.on_source(id, at(ms));
        let mut free: Vec<u64> = hold.push(Some(id), id).into_iter().collect();
        free.extend(std::iter::from_fn(|| hold.release(at(ms))));
        free
    }

    fn released(hold: &mut Hold<u64>, ms: u32) -> Vec<u64> {
        std::iter::from_fn(|| hold.release(at(ms))).collect()
    }

    #[test]
    fn what_is_behind_a_gap_waits_for_it() {
        let mut hold = Hold::new(24 * MS);
        assert_eq!(arrive(&mut hold, 0, 0), [0]);
        assert_eq!(arrive(&mut hold, 2, 1), NONE);
        assert_eq!(arrive(&mut hold, 4, 2), NONE);
        assert_eq!(hold.timer(), Some(at(25)));
        // The first gap closes, by a late packet; then the second, by recovery.
        assert_eq!(arrive(&mut hold, 1, 3), [1, 2]);
        hold.on_repair(0, 5);
        assert_eq!(hold.push(None, 100), None);
        hold.on_recovered(3);
        assert_eq!(released(&mut hold, 4), [4, 100]);
        assert_eq!(hold.timer(), None);
    }

    #[test]
    fn no_longer_than_the_timeout() {
        let mut hold = Hold::new(24 * MS);
        assert_eq!(arrive(&mut hold, 1, 0), NONE);
        assert_eq!(arrive(&mut hold, 3, 10), NONE);
        assert_eq!(released(&mut hold, 23), NONE);
        assert_eq!(released(&mut hold, 24), [1]);
        assert_eq!(hold.timer(), Some(at(34)));
        assert_eq!(released(&mut hold, 34), [3]);
    }

    #[test]
    fn three_packets_behind_the_repair_symbol_end_it() {
        let mut hold = Hold::new(1000 * MS);
        for id in [1, 3] {
            assert_eq!(arrive(&mut hold, id, 0), NONE);
        }
        hold.on_repair(0, 4);
        assert_eq!(arrive(&mut hold, 4, 0), NONE);
        assert_eq!(arrive(&mut hold, 5, 0), NONE);
        assert_eq!(arrive(&mut hold, 6, 0), [6, 1, 3, 4, 5]);
    }

    #[test]
    fn a_bounded_number() {
        let mut hold = Hold::new(1000 * MS);
        assert_eq!(arrive(&mut hold, u64::MAX, 0), NONE);
        assert_eq!(hold.gaps.len(), MOST);
        let mut hold = Hold::new(1000 * MS);
        let all: usize = (1..3000).map(|id| arrive(&mut hold, id, 0).len()).sum();
        assert_eq!((all, hold.held.len()), (2999 - MOST, MOST));
    }
}
