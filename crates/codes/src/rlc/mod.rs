//! Sliding-window random linear codes as RFC 8681 defines them.
//!
//! Owns: [`Rlc`] (coefficients over GF(2) and GF(2^8) from a repair key and a density), the
//! generator [`TinyMt32`] (RFC 8682), the RFC's payload IDs ([`wire`]).
//! Does not own: windows and sums (`encoder.rs`), solving (`decoder/`).
//! Spec: RFC 8681 s3.5-3.6, s4.1, s5.1; RFC 8682.
//!
//! Any window, any number of repair symbols: a rateless code. Over GF(2^8) with full density a
//! repair symbol is useless with probability of about 1/256 when as many as were lost arrive;
//! over GF(2) often, so that some more are needed, but sums cost no multiplication.
//!
//! Below full density a repair symbol may have no coefficient at all: `w` source symbols leave all of
//! them out with probability `(1 - (dt + 1) / 16)^w`, at half density 1 in 2 for a window of one
//! symbol and 1 in 65,536 for 16. It is made and sent like any other, all zeros, and tells nothing.
//! So use [`Rlc::DENSE`] for short windows, where there is no work to save: none of its coefficients
//! is zero. (Full density over GF(2) has no zero either, but is the same parity whatever the
//! key.) Who stays sparse takes the next key where [`ErasureCode::coefficients`] gives only zeros.

mod tinymt;
pub mod wire;

#[cfg(test)]
mod tests;

pub use tinymt::TinyMt32;
use tinymt::{LANES, Lanes};

use crate::{
    code::{ErasureCode, RepairId, rows_one_by_one},
    error::CodeError,
};

/// The field coefficients are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// Zeros and ones (FEC Encoding ID 9).
    Gf2,
    /// Bytes (FEC Encoding ID 10).
    Gf256,
}

/// How many coefficients are not zero: `(dt + 1) / 16` of them on average. RFC 8681 s3.5.
///
/// Below [`Self::FULL`] all of a short window's may be zero, and the repair symbol with them: see
/// [the module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DensityThreshold(u8);

impl DensityThreshold {
    /// Every coefficient: for small windows.
    pub const FULL: Self = Self(15);

    /// From the four bits of the payload ID; `None` above 15. Below 15 not for windows of a few
    /// symbols: see [the module](self).
    pub fn new(dt: u8) -> Option<Self> {
        (dt <= 15).then_some(Self(dt))
    }

    /// The four bits.
    pub fn get(self) -> u8 {
        self.0
    }
}

/// A random linear code. The repair key has 16 bits; use each key once for a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rlc {
    field: Field,
    density: DensityThreshold,
}

impl Rlc {
    /// Over GF(2^8), every coefficient nonzero: the strongest.
    pub const DENSE: Self = Self {
        field: Field::Gf256,
        density: DensityThreshold::FULL,
    };

    /// The longest window: NSS has 12 bits.
    pub const MAX_WINDOW: u16 = 0xfff;

    /// Over `field`, with `density`.
    pub fn new(field: Field, density: DensityThreshold) -> Self {
        Self { field, density }
    }

    /// The field.
    pub fn field(self) -> Field {
        self.field
    }

    /// The density.
    pub fn density(self) -> DensityThreshold {
        self.density
    }

    /// Whether there is such a repair symbol over a window of `width`.
    fn check(self, repair: RepairId, width: usize) -> Result<(), CodeError> {
        if width == 0 {
            return Err(CodeError::EmptyWindow);
        }
        if width > usize::from(Self::MAX_WINDOW) {
            return Err(CodeError::WindowTooLong {
                len: width,
                max: usize::from(Self::MAX_WINDOW),
            });
        }
        if repair.key > u32::from(u16::MAX) {
            return Err(CodeError::KeyTooLarge {
                key: repair.key,
                max: u32::from(u16::MAX),
            });
        }
        Ok(())
    }
}

impl ErasureCode for Rlc {
    fn name(&self) -> &'static str {
        match self.field {
            Field::Gf2 => "rlc-gf2",
            Field::Gf256 => "rlc",
        }
    }

    fn coefficients(&self, repair: RepairId, out: &mut [u8]) -> Result<(), CodeError> {
        self.check(repair, out.len())?;
        // RFC 8681 s3.6: a fresh generator for each repair symbol; how many numbers are drawn
        // depends on field, density and the numbers themselves.
        let mut generator = TinyMt32::new(repair.key);
        let full = self.density == DensityThreshold::FULL;
        for c in out {
            *c = match (self.field, full) {
                (Field::Gf2, true) => 1,
                (Field::Gf2, false) => u8::from(generator.rand16() <= self.density.get()),
                (Field::Gf256, true) => nonzero(&mut generator),
                (Field::Gf256, false) if generator.rand16() <= self.density.get() => {
                    nonzero(&mut generator)
                }
                (Field::Gf256, false) => 0,
            };
        }
        Ok(())
    }

    fn rows(&self, first: RepairId, out: &mut [u8]) -> Result<(), CodeError> {
        let width = usize::from(first.window.len);
        if *self != Self::DENSE || width == 0 {
            return rows_one_by_one(self, first, out);
        }
        let mut next = first;
        let mut groups = out.chunks_exact_mut(LANES * width);
        for group in &mut groups {
            // What is refused for the last key of a group is what one by one would end with.
            let key = next.key.saturating_add(LANES as u32 - 1);
            self.check(RepairId { key, ..next }, width)?;
            fill_in_step(group, width, next.key);
            next.key = key.saturating_add(1);
        }
        rows_one_by_one(self, next, groups.into_remainder())
    }
}

/// [`Rlc::DENSE`], for [`LANES`] rows of `width` bytes with the keys from `first` on.
fn fill_in_step(group: &mut [u8], width: usize, first: u32) {
    let mut generators = Lanes::new(first);
    let mut filled = [0; LANES];
    while filled.iter().any(|filled| *filled < width) {
        let rows = group.chunks_mut(width).zip(&mut filled);
        for ((row, filled), drawn) in rows.zip(generators.four_bytes()) {
            let drawn = drawn.to_le_bytes();
            let room = row.get_mut(*filled..).unwrap_or_default();
            match room.first_chunk_mut() {
                // Nearly always none is zero.
                Some(room) if !drawn.contains(&0) => {
                    *room = drawn;
                    *filled += drawn.len();
                }
                _ => {
                    let kept = drawn.into_iter().filter(|byte| *byte != 0);
                    for (place, byte) in room.iter_mut().zip(kept) {
                        *place = byte;
                        *filled += 1;
                    }
                }
            }
        }
    }
}

/// Draws until the byte is not zero.
///
/// Ends: the generator's period visits every value, and zeros come 1 in 256.
fn nonzero(generator: &mut TinyMt32) -> u8 {
    loop {
        let byte = generator.rand256();
        if byte != 0 {
            return byte;
        }
    }
}
