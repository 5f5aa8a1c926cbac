//! What repair symbols of a code can rebuild.
//!
//! Owns: [`Strength`], by which the sender expects something of repair symbols under way, and schedulers of
//! those to be sent. Does not own: the codes (`tautline-codes`), what is weighed against it
//! (`redundancy/`).

use tautline_codes::Scheme;
#[cfg(feature = "fec-rlc")]
use tautline_codes::rlc::{DensityThreshold, Field, Rlc};

/// How many losses of a window how many repair symbols over it can rebuild.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Strength {
    /// Any so many repair symbols rebuild as many losses (RLC over GF(2^8): but for one in 255).
    #[default]
    Any,
    /// Each rebuilds one loss of its group, of which a window has so many, at least 1: parity over every
    /// so many-th symbol.
    Groups(u16),
    /// Random sums. Of `k` losses that those before it leave open, one tells nothing with at most this
    /// probability to the `k`-th power (Odlyzko's bound: the largest share that one coefficient has).
    Random(f64),
}

impl Strength {
    /// That of a code.
    #[allow(
        clippy::match_single_binding,
        reason = "which codes there are depends on features"
    )]
    pub fn of(scheme: &Scheme) -> Self {
        match scheme {
            #[cfg(feature = "fec-xor")]
            Scheme::Xor(xor) => Self::Groups(xor.depth()),
            // All sums are the same.
            #[cfg(feature = "fec-rlc")]
            Scheme::Rlc(rlc) if *rlc == Rlc::new(Field::Gf2, DensityThreshold::FULL) => {
                Self::Groups(1)
            }
            #[cfg(feature = "fec-rlc")]
            Scheme::Rlc(rlc) if *rlc != Rlc::DENSE => {
                let others = match rlc.field() {
                    Field::Gf2 => 1.0,
                    Field::Gf256 => 255.0,
                };
                let dense = (f64::from(rlc.density().get()) + 1.0) / 16.0;
                Self::Random((1.0 - dense).max(dense / others))
            }
            _ => Self::Any,
        }
    }

    /// The chance that `repairs` repair symbols over one window rebuild all of `losses` losses in it.
    /// `follow`: share of losses that follow another directly, `0..=1`; all others lie anywhere.
    pub fn chance(self, losses: u64, repairs: u64, follow: f64) -> f64 {
        if losses > repairs {
            return 0.0;
        }
        match self {
            Self::Any => 1.0,
            Self::Groups(groups) => {
                let groups = f64::from(groups.max(1));
                let repairs = (repairs as f64).min(groups);
                let mut chance = 1.0;
                let mut before = 0.0;
                // Each in a group without another, and that with a repair symbol.
                for _ in 0..losses.min(1 + groups as u64) {
                    let alone = match before {
                        0.0 => 1.0,
                        _ => follow + (1.0 - follow) * (groups - before) / groups,
                    };
                    chance *= alone * (repairs - before).max(0.0) / (groups - before).max(1.0);
                    before += 1.0;
                }
                chance
            }
            Self::Random(stale) => {
                let open = (repairs - losses + 1)..=repairs;
                let told = open.map(|power| 1.0 - stale.powf(power as f64));
                told.product()
            }
        }
    }

    /// The same where a symbol's group is known.
    pub(super) fn within_group(self) -> Self {
        match self {
            Self::Groups(_) => Self::Any,
            other => other,
        }
    }
}

#[cfg(all(
    test,
    feature = "fec-xor",
    feature = "fec-reed-solomon",
    feature = "fec-rlc",
    feature = "fec-tetrys"
))]
mod tests {
    use tautline_codes::{CodingWindow, Decoder, Encoder, Limits, RepairId};

    use super::*;
    use crate::{fec::code_by_name, rng::Rng};

    /// The share of draws in which `repairs` repair symbols over 12 symbols rebuild `losses` of them.
    fn rebuilt(scheme: &Scheme, losses: usize, repairs: u32, in_a_row: bool) -> f64 {
        let seed = 5;
        let mut rng = Rng::from_u64(seed);
        let rounds = 2_000;
        let window = CodingWindow { first: 0, len: 12 };
        let mut encoder = Encoder::new(Limits::default());
        for id in 0..12 {
            encoder.push(&[id; 4]).unwrap();
        }
        let mut good = 0;
        for _ in 0..rounds {
            let mut decoder = Decoder::new(Limits::default());
            let mut lost = Vec::new();
            let first = rng.below(12 - losses as u64 + 1);
            while lost.len() < losses {
                let next = if in_a_row {
                    first + lost.len() as u64
                } else {
                    rng.below(12)
                };
                if !lost.contains(&next) {
                    lost.push(next);
                }
            }
            for id in (0..12).filter(|id| !lost.contains(id)) {
                decoder.source(id, &[id as u8; 4]).unwrap();
            }
            let key = match scheme {
                Scheme::Xor(_) | Scheme::ReedSolomon(_) => 0,
                _ => rng.below(1 << 14) as u32,
            };
            for key in key..key + repairs {
                let mut out = [0; 16];
                let id = RepairId { window, key };
                let len = encoder.repair(scheme, id, &mut out).unwrap();
                decoder.repair(scheme, id, &out[..len]).unwrap();
            }
            let all = std::iter::from_fn(|| decoder.next_recovered().map(|(id, _)| id)).count();
            good += u32::from(all == losses);
        }
        f64::from(good) / f64::from(rounds)
    }

    #[test]
    fn chances_are_what_decoders_do() {
        for (code, losses, repairs) in [
            ("rlc", 2, 2),
            ("rlc", 3, 2),
            ("reed-solomon", 3, 3),
            ("rlc-gf2", 1, 1),
            ("rlc-gf2", 1, 4),
            ("rlc-gf2", 2, 2),
            ("rlc-gf2", 3, 5),
            ("xor:1", 1, 1),
            ("xor:3", 1, 1),
            ("xor:3", 1, 3),
            ("xor:3", 2, 3),
            ("xor:3", 3, 3),
            ("xor:4", 2, 2),
        ] {
            let scheme = code_by_name(code).unwrap();
            let strength = Strength::of(&scheme);
            let runs: &[bool] = if losses > 1 { &[false, true] } else { &[false] };
            for &in_a_row in runs {
                let share = rebuilt(&scheme, losses, repairs, in_a_row);
                let follow = f64::from(u8::from(in_a_row));
                let chance = strength.chance(losses as u64, repairs.into(), follow);
                // Groups side by side, and few symbols in each: roughly.
                let rough = code.starts_with("xor") && losses > 1;
                let slack = if rough { 0.12 } else { 0.05 };
                assert!(
                    (share - chance).abs() < slack,
                    "{code} {losses} {repairs} {in_a_row}: {share} {chance}"
                );
            }
        }
    }

    #[test]
    fn odd_counts_are_harmless() {
        let all = [
            Strength::Any,
            Strength::Groups(0),
            Strength::Groups(u16::MAX),
            Strength::Random(0.5),
            Strength::Random(1.0),
        ];
        for strength in all {
            for (losses, repairs) in [(0, 0), (1, 0), (3, 3), (1_000, 1_000), (5, u64::MAX)] {
                let chance = strength.chance(losses, repairs, 0.5);
                assert!(
                    (0.0..=1.0).contains(&chance),
                    "{strength:?} {losses} {repairs}"
                );
                assert!(losses > 0 || chance == 1.0);
            }
        }
    }
}
