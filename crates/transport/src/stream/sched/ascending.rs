//! Streams in the order of their IDs.

use std::collections::VecDeque;

use crate::units::StreamId;

/// A set of streams. Streams mostly become ready in the order in which they were opened and go
/// quiet in that order too; at its two ends, everything is O(1) and touches no memory of its own.
/// Elsewhere it is a binary search and a move of 8 bytes for each stream on the shorter side.
#[derive(Debug, Default)]
pub(super) struct Ascending {
    ids: VecDeque<StreamId>,
}

/// An empty set of up to this many places stays as it is; a larger one gives its memory back.
const SMALL: usize = 128;

impl Ascending {
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn first(&self) -> Option<StreamId> {
        self.ids.front().copied()
    }

    pub(super) fn contains(&self, id: StreamId) -> bool {
        self.first() == Some(id) || self.ids.binary_search(&id).is_ok()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = StreamId> {
        self.ids.iter().copied()
    }

    /// Does nothing when it is there already.
    pub(super) fn insert(&mut self, id: StreamId) {
        if self.ids.back().is_none_or(|last| *last < id) {
            self.ids.push_back(id);
        } else if let Err(at) = self.ids.binary_search(&id) {
            self.ids.insert(at, id);
        }
    }

    /// False when it was not there.
    pub(super) fn remove(&mut self, id: StreamId) -> bool {
        if self.first() == Some(id) {
            self.ids.pop_front();
        } else {
            let Ok(at) = self.ids.binary_search(&id) else {
                return false;
            };
            self.ids.remove(at);
        }
        if self.ids.is_empty() && self.ids.capacity() > SMALL {
            self.ids = VecDeque::new();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_set(ops in prop::collection::vec((any::<bool>(), 0..40u64), 0..200)) {
            let (mut ours, mut plain) = (Ascending::default(), BTreeSet::new());
            for (insert, id) in ops {
                let id = StreamId(id);
                if insert {
                    ours.insert(id);
                    plain.insert(id);
                } else {
                    prop_assert_eq!(ours.remove(id), plain.remove(&id));
                }
                prop_assert_eq!(ours.first(), plain.first().copied());
                prop_assert!(ours.iter().eq(plain.iter().copied()));
                prop_assert_eq!(ours.contains(id), plain.contains(&id));
                prop_assert_eq!(ours.is_empty(), plain.is_empty());
            }
            while let Some(first) = plain.pop_first() {
                prop_assert_eq!(ours.first(), Some(first));
                prop_assert!(ours.remove(first));
            }
            prop_assert!(ours.is_empty());
        }
    }
}
