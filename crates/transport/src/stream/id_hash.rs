//! Where a stream stands in a hash table: alike in every run.

use std::hash::{BuildHasherDefault, Hasher};

/// Hashes stream IDs. Fixed and fast: a peer only chooses IDs below the limits that we set.
pub type IdHash = BuildHasherDefault<IdHasher>;

/// See [`IdHash`].
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        // Fibonacci hashing, folded so that both the high bits (hashbrown's tags) and the low
        // bits (its buckets) depend on every bit of the value.
        let product = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}
