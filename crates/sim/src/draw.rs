//! Random decisions that are looked up, not drawn in turn.
//!
//! Owns: [`Draws`]. A decision is a pure function of (seed, link, direction, purpose, index), so
//! that one more packet elsewhere, or one more kind of fault here, changes no other decision.

/// What a decision is about; part of its key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Loss = 1,
    LossState = 2,
    Corruption = 3,
    CorruptionState = 4,
    CorruptByte = 5,
    Jitter = 6,
    Reorder = 7,
    Duplicate = 8,
    NatPort = 9,
    FlowHash = 10,
    Span = 11,
    HandoverDelay = 12,
    HandoverLoss = 13,
    RateWander = 14,
    CodingState = 15,
    CodingLoss = 16,
    GapLoss = 17,
    Request = 18,
    Turn = 19,
}

/// The decisions of one direction of one link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws {
    key: u64,
}

impl Draws {
    /// `stream` is 0 forward and 1 backward for links; other users number their own.
    pub(crate) fn new(seed: u64, link: u64, stream: u64) -> Self {
        Self {
            key: mix(mix(mix(seed).wrapping_add(link)).wrapping_add(stream)),
        }
    }

    /// Decisions of their own for part `number` of this direction.
    pub(crate) fn part(&self, number: u64) -> Self {
        Self {
            key: mix(mix(self.key ^ GOLDEN).wrapping_add(number)),
        }
    }

    /// 64 uniform bits.
    pub(crate) fn bits(&self, purpose: Purpose, index: u64) -> u64 {
        mix(mix(self.key ^ ((purpose as u64) << 56)).wrapping_add(index.wrapping_mul(GOLDEN)))
    }

    /// A number in `0.0..1.0`.
    pub(crate) fn unit(&self, purpose: Purpose, index: u64) -> f64 {
        (self.bits(purpose, index) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p`; costs nothing at 0.
    pub(crate) fn chance(&self, purpose: Purpose, index: u64, p: f64) -> bool {
        p > 0.0 && self.unit(purpose, index) < p
    }
}

/// 2^64 divided by the golden ratio: spreads consecutive numbers over all bits.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijective mixer (the finaliser of SplitMix64).
pub(crate) const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The natural logarithm of a number in `0.0..=1.0`; the same to the last bit on every platform,
/// which the library's is not. Off by less than 1e-12; -745 at zero.
pub(crate) fn ln(x: f64) -> f64 {
    if x < f64::MIN_POSITIVE {
        return -745.0;
    }
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as f64 - 1023.0;
    // The mantissa in 1..2, then a series in (m - 1) / (m + 1), at most a third.
    let m = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    let z = (m - 1.0) / (m + 1.0);
    let mut sum = 0.0;
    for k in (0..15).rev() {
        sum = sum * z * z + 1.0 / f64::from(2 * k + 1);
    }
    2.0 * z * sum + exponent * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_key_matters() {
        let base = Draws::new(1, 2, 0).bits(Purpose::Loss, 7);
        for other in [
            Draws::new(2, 2, 0).bits(Purpose::Loss, 7),
            Draws::new(1, 3, 0).bits(Purpose::Loss, 7),
            Draws::new(1, 2, 1).bits(Purpose::Loss, 7),
            Draws::new(1, 2, 0).bits(Purpose::Jitter, 7),
            Draws::new(1, 2, 0).bits(Purpose::Loss, 8),
        ] {
            assert_ne!(base, other);
        }
        assert_eq!(base, Draws::new(1, 2, 0).bits(Purpose::Loss, 7));
    }

    #[test]
    fn logarithms_are_close() {
        for i in 1..=10_000 {
            let x = f64::from(i) / 1e4;
            assert!((ln(x) - x.ln()).abs() < 1e-12, "{x}");
        }
        assert_eq!(ln(0.0), -745.0);
    }

    #[test]
    fn units_are_uniform_and_neighbours_uncorrelated() {
        let draws = Draws::new(5, 0, 0);
        let n = 200_000u64;
        let values: Vec<f64> = (0..n).map(|i| draws.unit(Purpose::Loss, i)).collect();
        let mean = values.iter().sum::<f64>() / n as f64;
        assert!((mean - 0.5).abs() < 0.003, "mean {mean}");
        let product: f64 = values.windows(2).map(|w| (w[0] - 0.5) * (w[1] - 0.5)).sum();
        let correlation = product / (n as f64 / 12.0);
        assert!(correlation.abs() < 0.01, "correlation {correlation}");
    }
}
