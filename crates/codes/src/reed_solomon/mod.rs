//! Systematic Reed-Solomon: the most losses rebuilt that any code of its rate can rebuild.
//!
//! Owns: [`ReedSolomon`] (coefficients, for the encoder and decoder that all codes share),
//! [`encode`] and [`reconstruct`] (whole blocks of slices, for those who want nothing else).
//! Does not own: windows and incremental solving (`encoder.rs`, `decoder/`).
//!
//! A block has `k` source and `r` repair symbols, `k + r <= 256`; any `k` of them give the others.
//! The code is a generalised Reed-Solomon code in systematic form: source symbol `i` is tied to
//! field element `i`, repair symbol `j` to `255 - j`, and the coefficient is
//! `(255 + i) / ((255 - j) + i)`, sums being exclusive ors: a Cauchy matrix with its columns
//! scaled. Every square part of it is invertible, which is the property above. Three things
//! follow from the form: the first repair symbol is the plain parity of the block; neither `k`
//! nor `r` enters a coefficient, so that a sender may shorten a block or add repair symbols as it
//! goes; and nothing needs to be inverted to encode. It is not the code of RFC 5510, which derives
//! its matrix from a Vandermonde matrix of `k` columns and ends at 255 symbols.

mod block;

#[cfg(test)]
mod tests;

pub use block::{BlockError, encode, reconstruct};

use crate::{
    code::{ErasureCode, RepairId},
    error::CodeError,
    gf256,
};

/// Symbols of a block, source and repair together.
pub const MAX_SYMBOLS: usize = 256;

/// Systematic Reed-Solomon. A window is a block; repair keys count from 0 up to
/// `255 - window.len`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReedSolomon;

/// The coefficient of source symbol `i` in repair symbol `j`; `i + j < 255`.
pub(crate) fn coefficient(i: u8, j: u8) -> u8 {
    let (first, point) = (u8::MAX, u8::MAX - j);
    gf256::div(first ^ i, point ^ i)
}

impl ErasureCode for ReedSolomon {
    fn name(&self) -> &'static str {
        "reed-solomon"
    }

    fn coefficients(&self, repair: RepairId, out: &mut [u8]) -> Result<(), CodeError> {
        if out.is_empty() {
            return Err(CodeError::EmptyWindow);
        }
        let Some(last) = (MAX_SYMBOLS - 1).checked_sub(out.len()) else {
            return Err(CodeError::WindowTooLong {
                len: out.len(),
                max: MAX_SYMBOLS - 1,
            });
        };
        let key = u8::try_from(repair.key)
            .ok()
            .filter(|key| usize::from(*key) <= last)
            .ok_or(CodeError::KeyTooLarge {
                key: repair.key,
                max: last as u32,
            })?;
        // As 255 + (255 - j) = j, the coefficient is 1 + j / ((255 - j) + i): one look-up each, and one
        // factor for all.
        for (c, i) in out.iter_mut().zip(0_u8..) {
            *c = gf256::inv((u8::MAX - key) ^ i);
        }
        gf256::mul_assign(out, key);
        for c in out {
            *c ^= 1;
        }
        Ok(())
    }
}
