//! Sets of stream places, as ranges.
//!
//! Owns: [`Ranges`]. Does not own: what lies in them.

use std::collections::BTreeMap;

/// Ranges that neither overlap nor touch: start to end, the end excluded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds a range and shows `each` part of it that is new, in order.
    pub(super) fn insert(&mut self, start: u64, end: u64, mut each: impl FnMut(u64, u64)) {
        if start >= end {
            return;
        }
        let (mut from, mut to, mut at) = (start, end, start);
        if let Some((&before, &until)) = self.0.range(..=start).next_back()
            && until >= start
        {
            if until >= end {
                return;
            }
            from = before;
            at = until;
        }
        while let Some((&next, &until)) = self.0.range(at..).next()
            && next <= end
        {
            if next > at {
                each(at, next);
            }
            self.0.remove(&next);
            at = until;
            to = to.max(until);
        }
        if at < end {
            each(at, end);
        }
        self.0.insert(from, to);
    }

    /// Forgets everything before `end`.
    pub(super) fn remove_below(&mut self, end: u64) {
        while let Some(first) = self.0.first_entry() {
            let (start, until) = (*first.key(), *first.get());
            if start >= end {
                break;
            }
            first.remove();
            if until > end {
                self.0.insert(end, until);
            }
        }
    }

    /// The range around a place.
    pub(super) fn around(&self, at: u64) -> Option<(u64, u64)> {
        let (&start, &end) = self.0.range(..=at).next_back()?;
        (end > at).then_some((start, end))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(&start, &end)| (start, end))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_the_set_of_their_places(steps in proptest::collection::vec((0u64..60, 0u64..12, 0u8..5), 0..60)) {
            let mut ranges = Ranges::default();
            let mut naive = BTreeSet::new();
            for (start, length, what) in steps {
                if what == 0 {
                    ranges.remove_below(start);
                    naive.retain(|place| *place >= start);
                } else {
                    let mut new = Vec::new();
                    ranges.insert(start, start + length, |from, to| new.extend(from..to));
                    let wanted: Vec<u64> = (start..start + length).filter(|place| naive.insert(*place)).collect();
                    prop_assert_eq!(new, wanted);
                }
                let all: Vec<u64> = ranges.iter().flat_map(|(from, to)| from..to).collect();
                prop_assert_eq!(&all, &naive.iter().copied().collect::<Vec<_>>());
                let touching = ranges.iter().zip(ranges.iter().skip(1)).any(|(a, b)| a.1 >= b.0);
                prop_assert!(!touching);
                for place in 0..75 {
                    let around = ranges.around(place);
                    prop_assert_eq!(around.is_some(), naive.contains(&place));
                }
            }
        }
    }
}
