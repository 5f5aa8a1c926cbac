//! Which NEW_TOKEN tokens were used already. RFC 9000 s8.1.4.

use hashbrown::HashSet;

use super::routes::RandomKeyHasher;
use crate::{rng::Rng, time::Instant};

/// Remembers used tokens in bounded memory.
///
/// Two generations of at most `capacity` tokens each. When the younger one is full the older is
/// forgotten, and every token issued no later than the newest forgotten one stops counting: a
/// forgotten token can never be replayed, at the price that some unused old ones prove nothing
/// (their clients are merely treated like new ones).
#[derive(Debug)]
pub(super) struct ReplayFilter {
    capacity: usize,
    young: Generation,
    old: Generation,
    /// Tokens issued up to here are no longer told apart.
    floor: Option<Instant>,
}

#[derive(Debug)]
struct Generation {
    ids: HashSet<u64, RandomKeyHasher>,
    newest_issued: Option<Instant>,
}

impl Generation {
    fn new(hasher: RandomKeyHasher) -> Self {
        Self {
            ids: HashSet::with_hasher(hasher),
            newest_issued: None,
        }
    }
}

impl ReplayFilter {
    /// Remembers at least `capacity` and at most twice as many tokens. Takes no memory before
    /// [`Self::reserve`] or the first, and then all of it: 21 to 41 bytes per token of `capacity`.
    pub(super) fn new(capacity: usize, rng: &mut Rng) -> Self {
        let hasher = RandomKeyHasher::new(rng);
        Self {
            capacity: capacity.max(1),
            young: Generation::new(hasher),
            old: Generation::new(hasher),
            floor: None,
        }
    }

    /// Whether this is the token's first use; from now on it is used.
    pub(super) fn first_use(&mut self, id: u64, issued: Instant) -> bool {
        let known = self.young.ids.contains(&id) || self.old.ids.contains(&id);
        if known || self.floor.is_some_and(|floor| issued <= floor) {
            return false;
        }
        if self.young.ids.len() >= self.capacity {
            // The forgotten generation's memory serves the next one.
            std::mem::swap(&mut self.old, &mut self.young);
            self.floor = self.floor.max(self.young.newest_issued.take());
            self.young.ids.clear();
            if self.floor.is_some_and(|floor| issued <= floor) {
                return false;
            }
        }
        self.reserve();
        self.young.ids.insert(id);
        self.young.newest_issued = self.young.newest_issued.max(Some(issued));
        true
    }

    /// Takes the memory, if that was not done yet. All at once: what a server needs shall not creep
    /// up with the clients it has seen.
    pub(super) fn reserve(&mut self) {
        if self.young.ids.capacity() == 0 {
            self.young.ids.reserve(self.capacity);
            self.old.ids.reserve(self.capacity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_passes_twice_whatever_was_forgotten() {
        let mut filter = ReplayFilter::new(16, &mut Rng::from_u64(1));
        let token = |i: u64| {
            (
                i.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                Instant::from_nanos(i),
            )
        };
        let mut first = 0;
        for i in 0..1_000 {
            let (id, issued) = token(i);
            first += u32::from(filter.first_use(id, issued));
        }
        assert_eq!(first, 1_000);
        for i in 0..1_000 {
            let (id, issued) = token(i);
            assert!(!filter.first_use(id, issued), "token {i} passed again");
        }
        assert!(filter.young.ids.len() + filter.old.ids.len() <= 32);
    }
}
