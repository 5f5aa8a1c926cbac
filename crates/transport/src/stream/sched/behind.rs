//! Which stream a slower path had better carry.
//!
//! Owns: who, in the order of a scheduler, is not finished yet when other paths have delivered so many bytes. Does not own:
//! those orders (the schedulers), how many bytes these are (`multipath/sched/`).

use smallvec::SmallVec;

use crate::units::StreamId;

/// More streams are not looked at, for every packet, for one that other paths will not have finished.
pub(super) const MOST_PASSED_OVER: usize = 64;

/// Of streams of which each is finished before the next one goes, the one that is going when `ahead` bytes have gone: the
/// last one if there are no more.
pub(super) fn one_after_the_other(
    streams: impl Iterator<Item = StreamId>,
    mut ahead: u64,
    waiting: &dyn Fn(StreamId) -> u64,
) -> Option<StreamId> {
    let mut last = None;
    for id in streams.take(MOST_PASSED_OVER) {
        last = Some(id);
        let Some(rest) = ahead.checked_sub(waiting(id)) else {
            break;
        };
        ahead = rest;
    }
    last
}

/// Of streams that take turns, the next one that has something left when `ahead` bytes have gone, and what has gone of
/// it: the one with most if there are no more.
pub(super) fn taking_turns(
    streams: impl Iterator<Item = StreamId>,
    ahead: u64,
    waiting: &dyn Fn(StreamId) -> u64,
) -> Option<(StreamId, u64)> {
    let all = streams.take(MOST_PASSED_OVER);
    let all: SmallVec<[(StreamId, u64); 8]> = all.map(|id| (id, waiting(id))).collect();
    let mut by_size: SmallVec<[u64; 8]> = all.iter().map(|(_, bytes)| *bytes).collect();
    by_size.sort_unstable();
    let (mut gone_of_each, mut rest) = (0, ahead);
    for (finished, bytes) in by_size.iter().enumerate() {
        let share = rest / (by_size.len() - finished) as u64;
        let more = (bytes - gone_of_each).min(share);
        gone_of_each += more;
        if more == share && gone_of_each < *bytes {
            break;
        }
        rest = rest.saturating_sub(more.saturating_mul((by_size.len() - finished) as u64));
    }
    let left = all.iter().find(|(_, bytes)| *bytes > gone_of_each);
    let most = || all.iter().max_by_key(|(_, bytes)| *bytes);
    let (id, _) = left.or_else(most)?;
    Some((*id, gone_of_each))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Streams 0, 1, 2... with so many bytes each.
    fn ids(sizes: &[u64]) -> impl Iterator<Item = StreamId> + use<> {
        (0..sizes.len() as u64).map(StreamId)
    }

    fn waiting(sizes: &[u64]) -> impl Fn(StreamId) -> u64 {
        |id| sizes[id.0 as usize]
    }

    fn in_order(sizes: &[u64], ahead: u64) -> Option<u64> {
        one_after_the_other(ids(sizes), ahead, &waiting(sizes)).map(|id| id.0)
    }

    fn in_turns(sizes: &[u64], ahead: u64) -> Option<(u64, u64)> {
        taking_turns(ids(sizes), ahead, &waiting(sizes)).map(|(id, gone)| (id.0, gone))
    }

    #[test]
    fn whoever_is_not_finished_by_then() {
        let sizes = [10, 20, 30];
        let at = |ahead| in_order(&sizes, ahead).unwrap();
        assert_eq!([0, 9, 10, 29, 30, 59].map(at), [0, 0, 1, 1, 2, 2]);
        assert_eq!([60, u64::MAX].map(at), [2, 2], "the last one at least");
        assert_eq!(in_order(&[], 0), None);
    }

    #[test]
    fn who_takes_turns_is_finished_the_sooner_the_less_there_is() {
        let sizes = [10, 40, 20];
        let at = |ahead| in_turns(&sizes, ahead).unwrap();
        assert_eq!(at(0), (0, 0));
        assert_eq!(at(29), (0, 9));
        assert_eq!(at(30), (1, 10), "the first has gone, and ten of each");
        assert_eq!(at(50), (1, 20));
        assert_eq!(at(60), (1, 30));
        assert_eq!(at(70), (1, 40), "the one with most at least");
        assert_eq!(in_turns(&[20, 40, 10], 30), Some((0, 10)));
        assert_eq!(in_turns(&[], 5), None);
    }

    proptest! {
        #[test]
        fn what_has_gone_is_what_the_others_carried(
            sizes in prop::collection::vec(0..1_000u64, 1..20),
            ahead in 0..12_000u64,
        ) {
            let (id, gone) = in_turns(&sizes, ahead).unwrap();
            let carried: u64 = sizes.iter().map(|size| (*size).min(gone)).sum();
            let all: u64 = sizes.iter().sum();
            prop_assert!(carried <= ahead);
            if ahead < all {
                prop_assert!(sizes[id as usize] > gone);
                prop_assert!(sizes[..id as usize].iter().all(|size| *size <= gone));
                prop_assert!(carried + sizes.len() as u64 > ahead, "but for the rest of a division");
            } else {
                prop_assert_eq!(carried, all);
            }
        }
    }
}
