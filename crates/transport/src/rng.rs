//! The one source of randomness of an endpoint or connection.
//!
//! Owns: [`Rng`], a seeded generator. Does not own: entropy; the caller hands in the seed, so
//! that a simulation repeats and a production endpoint seeds from the operating system.

use rand_chacha::ChaCha12Rng;
use rand_core::{Rng as _, SeedableRng};

/// A cryptographically strong, seeded random generator.
#[derive(Clone, Debug)]
pub struct Rng(ChaCha12Rng);

impl Rng {
    /// From 32 bytes of entropy.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(ChaCha12Rng::from_seed(seed))
    }

    /// From a small number, for tests and simulations.
    pub fn from_u64(seed: u64) -> Self {
        Self(ChaCha12Rng::seed_from_u64(seed))
    }

    /// An independent generator drawn from this one.
    pub fn fork(&mut self) -> Self {
        let mut seed = [0; 32];
        self.fill(&mut seed);
        Self::from_seed(seed)
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        self.0.fill_bytes(out);
    }

    /// A random array.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }

    /// A uniform 64-bit number.
    pub fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..bound`; 0 when `bound` is 0. The bias is below 2^-32 for bounds below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `0.0..1.0`.
    pub fn unit_f64(&mut self) -> f64 {
        (self.u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit_f64() < p
    }
}
