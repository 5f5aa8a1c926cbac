//! Round trips of one path, kept apart by the path that brings its acknowledgements.
//!
//! The peer may send PATH_ACK on any path and may change its mind with every frame (RFC 10069 s4.1, s5).
//! A sample belongs to the way there *and* the way back. One estimator at a time is the path's own voice:
//! that of the way most acknowledgements take. The others are parked, bounded in number; a change
//! of the way back brings a parked one into use instead of bending the present one.

use std::time::Duration;

use smallvec::SmallVec;

use super::RttEstimator;
use crate::units::PathId;

/// Ways back remembered beside the present one; 100 bytes each, none unless the peer uses them.
const PARKED: usize = 7;
/// Samples in a row that another way back must bring to become the present one: a peer that takes
/// turns does not turn us over with every frame.
const RUN: u8 = 8;
/// Of the newest 16 samples so many came another way: whatever waits for an acknowledgement waits
/// for the slowest of them.
const STRAYS: u32 = 3;
/// A way back that brought none of the newest samples is not expected to bring the next.
const FORGOTTEN: u8 = 16;
/// A single acknowledgement that came another way counts for this many samples in what is
/// late enough to be lost.
const FRESH: u8 = 4;

/// Who brings this path's acknowledgements, and the round trips of the ways not in use.
#[derive(Clone, Debug, Default)]
pub(super) struct ReturnPaths {
    /// The path behind `Recovery::rtt`; `None` before the first sample.
    current: Option<PathId>,
    parked: SmallVec<[Parked; 1]>,
    /// One bit a sample, the newest lowest: set if it came another way than the present one.
    strays: u16,
    /// The way that brought the newest samples, if it is another one, and how many of them.
    run: Option<(PathId, u8)>,
}

#[derive(Clone, Debug)]
struct Parked {
    by: PathId,
    rtt: RttEstimator,
    /// Samples of all ways since its newest one.
    age: u8,
}

/// What a sample did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It went into the estimator in use.
    Current,
    /// It tells of another way back; what it would have been by the one in use, as far as that can be told.
    Aside { as_usual: Option<Duration> },
    /// Its way back is the one in use from now on; the former one's smallest round trip.
    Changed { before: Duration },
}

impl ReturnPaths {
    /// Whether no other way back than the present one is remembered.
    #[inline]
    pub(super) fn is_single(&self) -> bool {
        self.parked.is_empty()
    }

    /// The path that brings most acknowledgements; `None` before the first sample.
    pub(super) fn current(&self) -> Option<PathId> {
        self.current
    }

    /// A sample whose acknowledgement came by path `by`. `rtt` is the estimator in use. `at_once`: nothing came
    /// the present way for a probe timeout.
    pub(super) fn take(
        &mut self,
        rtt: &mut RttEstimator,
        by: PathId,
        sample: Duration,
        ack_delay: Duration,
        at_once: bool,
    ) -> Taken {
        for parked in &mut self.parked {
            parked.age = parked.age.saturating_add(1);
        }
        let current = *self.current.get_or_insert(by);
        if by == current {
            self.strays <<= 1;
            self.run = None;
            rtt.update(sample, ack_delay);
            return Taken::Current;
        }
        self.strays = self.strays << 1 | 1;
        let run = match self.run {
            Some((path, run)) if path == by => run.saturating_add(1),
            _ => 1,
        };
        self.run = Some((by, run));
        let initial = rtt.initial();
        let Some(slot) = self.slot(by, initial) else {
            return Taken::Aside { as_usual: None };
        };
        slot.age = 0;
        let known = slot.rtt.has_sample();
        slot.rtt.update(sample, ack_delay);
        if run < RUN && !at_once {
            // The ways back differ by what the shortest round trips differ by; queues on the way there are
            // the same.
            let queue = sample.saturating_sub(slot.rtt.min());
            return Taken::Aside {
                as_usual: known.then(|| rtt.min() + queue),
            };
        }
        let before = rtt.min();
        std::mem::swap(&mut slot.rtt, rtt);
        slot.by = current;
        self.current = Some(by);
        self.run = None;
        // The former way may not be over yet.
        self.strays = u16::MAX;
        Taken::Changed { before }
    }

    /// The place of a way back; the one unused for longest makes room.
    fn slot(&mut self, by: PathId, initial: Duration) -> Option<&mut Parked> {
        if self.parked(by).is_none() {
            let ages = self.parked.iter().enumerate();
            let oldest = ages.max_by_key(|(_, parked)| parked.age);
            if let Some((index, _)) = oldest.filter(|_| self.parked.len() >= PARKED) {
                self.parked.remove(index);
            }
            self.parked.push(Parked {
                by,
                rtt: RttEstimator::new(initial),
                age: 0,
            });
        }
        self.parked.iter_mut().find(|parked| parked.by == by)
    }

    /// The estimator of a way back that is not in use.
    pub(super) fn parked(&self, by: PathId) -> Option<&RttEstimator> {
        let parked = self.parked.iter().find(|parked| parked.by == by)?;
        Some(&parked.rtt)
    }

    /// Ways back that the next acknowledgement may take, beside the one in use: none unless several of the
    /// newest took them.
    pub(super) fn expected(&self) -> impl Iterator<Item = &RttEstimator> {
        let mixed = self.strays.count_ones() >= STRAYS;
        self.within(if mixed { FORGOTTEN } else { 0 })
    }

    /// Ways back that one of the newest acknowledgements took.
    pub(super) fn fresh(&self) -> impl Iterator<Item = &RttEstimator> {
        self.within(FRESH)
    }

    /// Every way back that is remembered.
    pub(super) fn all_parked(&self) -> impl Iterator<Item = &RttEstimator> {
        self.parked.iter().map(|parked| &parked.rtt)
    }

    fn within(&self, age: u8) -> impl Iterator<Item = &RttEstimator> {
        let recent = self.parked.iter().filter(move |parked| parked.age < age);
        recent.map(|parked| &parked.rtt)
    }

    /// The way back over `by` is another one from now on. Whether it is the one in use.
    pub(super) fn forget(&mut self, by: PathId) -> bool {
        self.parked.retain(|parked| parked.by != by);
        self.current == Some(by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PathId = PathId(0);
    const B: PathId = PathId(1);

    fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    struct Ways {
        rtt: RttEstimator,
        ways: ReturnPaths,
    }

    impl Ways {
        fn new() -> Self {
            Self {
                rtt: RttEstimator::new(ms(333)),
                ways: ReturnPaths::default(),
            }
        }

        fn take(&mut self, by: PathId, sample: u64) -> Taken {
            let zero = Duration::ZERO;
            self.ways.take(&mut self.rtt, by, ms(sample), zero, false)
        }
    }

    #[test]
    fn samples_of_another_way_are_kept_apart() {
        let mut ways = Ways::new();
        assert_eq!(ways.take(A, 600), Taken::Current);
        for _ in 0..100 {
            for _ in 0..RUN - 1 {
                assert!(matches!(ways.take(B, 320), Taken::Aside { .. }));
            }
            assert_eq!(ways.take(A, 600), Taken::Current);
        }
        assert_eq!(ways.rtt.smoothed(), ms(600));
        assert_eq!(ways.rtt.min(), ms(600));
        assert_eq!(
            ways.ways.parked(B).map(RttEstimator::smoothed),
            Some(ms(320))
        );
    }

    #[test]
    fn a_lasting_change_brings_its_own_estimator() {
        let mut ways = Ways::new();
        for _ in 0..20 {
            ways.take(A, 320);
        }
        for _ in 0..RUN - 1 {
            assert!(matches!(ways.take(B, 600), Taken::Aside { .. }));
        }
        assert_eq!(ways.take(B, 600), Taken::Changed { before: ms(320) });
        assert_eq!(ways.ways.current(), Some(B));
        assert_eq!((ways.rtt.smoothed(), ways.rtt.min()), (ms(600), ms(600)));
        assert_eq!(
            ways.ways.parked(A).map(RttEstimator::smoothed),
            Some(ms(320))
        );
        // And back, with what was known.
        for _ in 0..RUN {
            ways.take(A, 330);
        }
        assert_eq!(ways.ways.current(), Some(A));
        assert_eq!(ways.rtt.min(), ms(320));
    }

    #[test]
    fn what_waits_waits_for_the_slowest_of_ways_in_turn() {
        let mut ways = Ways::new();
        for _ in 0..8 {
            ways.take(A, 100);
            ways.take(B, 400);
        }
        assert_eq!(ways.ways.current(), Some(A));
        let longest = ways.ways.expected().map(RttEstimator::smoothed).max();
        assert_eq!(longest, Some(ms(400)));
        // One in many is no reason to wait for it.
        for _ in 0..20 {
            ways.take(A, 100);
        }
        ways.take(B, 400);
        assert_eq!(ways.ways.expected().count(), 0);
        assert_eq!(ways.ways.fresh().count(), 1);
    }

    #[test]
    fn what_another_way_tells_of_queues_is_kept() {
        let mut ways = Ways::new();
        ways.take(A, 100);
        let aside = |as_usual: Option<u64>| Taken::Aside {
            as_usual: as_usual.map(ms),
        };
        assert_eq!(ways.take(B, 400), aside(None));
        assert_eq!(ways.take(B, 430), aside(Some(130)));
        assert_eq!(ways.take(B, 400), aside(Some(100)));
    }

    #[test]
    fn ways_are_bounded() {
        let mut ways = Ways::new();
        for by in 0..10_000 {
            ways.take(PathId(by), 100);
            assert!(ways.ways.parked.len() <= PARKED);
        }
        assert_eq!(ways.ways.current(), Some(A));
        assert!(!ways.ways.forget(PathId(9_999)));
        assert!(ways.ways.forget(A));
        assert!(ways.ways.parked(PathId(9_999)).is_none());
    }
}
