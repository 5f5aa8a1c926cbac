//! What an erasure code is, to the encoder and the decoder: a rule for coefficients.
//!
//! Owns: [`CodingWindow`], [`RepairId`], [`ErasureCode`], [`Scheme`].
//! Does not own: any rule (one module a scheme), the sums (`encoder.rs`), solving (`decoder/`).
//! To add a variant: a module with a type that implements [`ErasureCode`], behind a feature; a
//! variant of [`Scheme`] if users should be able to name it at run time.
//!
//! A repair symbol is a sum of source symbols, each multiplied by a coefficient. Block codes and
//! sliding windows differ only in which windows are used: a block is a window that no other
//! window overlaps.

use core::ops::Range;

use crate::error::CodeError;

/// The largest symbol ID. IDs count from 0, one for each source symbol, and fit a QUIC integer.
pub const MAX_SYMBOL_ID: u64 = (1 << 62) - 1;

/// The run of source symbols that a repair symbol is a sum of. RFC 8406 calls it the coding
/// window; RFC 8681 writes it as FSS_ESI and NSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodingWindow {
    /// The ID of the first source symbol.
    pub first: u64,
    /// How many there are.
    pub len: u16,
}

impl CodingWindow {
    /// Block number `index` of a code with blocks of `len` symbols.
    pub fn block(index: u64, len: u16) -> Self {
        Self {
            first: index.saturating_mul(u64::from(len)),
            len,
        }
    }

    /// The symbols' IDs.
    pub fn ids(self) -> Range<u64> {
        self.first..self.end()
    }

    /// The ID after the last.
    pub fn end(self) -> u64 {
        self.first.saturating_add(u64::from(self.len))
    }
}

/// What must be known of a repair symbol besides its bytes and its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RepairId {
    /// The source symbols it is a sum of.
    pub window: CodingWindow,
    /// Tells repair symbols of the same window apart. Its meaning and range are the code's: the
    /// index of the repair symbol (XOR, Reed-Solomon), the repair key (RLC), the coded symbol ID
    /// (Tetrys).
    pub key: u32,
}

/// A linear code over GF(2^8).
pub trait ErasureCode {
    /// The name, as users write it.
    fn name(&self) -> &'static str;

    /// Writes the coefficient of each source symbol of the window, in order of IDs.
    ///
    /// Shape: `out` has as many bytes as the window has symbols. The same `repair` must always
    /// yield the same coefficients: the decoder derives them again.
    ///
    /// # Errors
    /// [`CodeError`] where the code has no such repair symbol; `out` is then unspecified.
    fn coefficients(&self, repair: RepairId, out: &mut [u8]) -> Result<(), CodeError>;

    /// Writes the coefficients of several repair symbols over one window, with the keys from
    /// `first.key` on: for codes that are faster at it than one by one.
    ///
    /// Shape: rows of `first.window.len` bytes, a repair symbol each, one after the other; each as
    /// [`Self::coefficients`] gives it.
    ///
    /// # Errors
    /// As [`Self::coefficients`]; [`CodeError::KeyTooLarge`] too where keys run out before rows do.
    fn rows(&self, first: RepairId, out: &mut [u8]) -> Result<(), CodeError> {
        rows_one_by_one(self, first, out)
    }
}

/// What [`ErasureCode::rows`] is for a code that knows nothing better.
pub(crate) fn rows_one_by_one<C: ErasureCode + ?Sized>(
    code: &C,
    first: RepairId,
    out: &mut [u8],
) -> Result<(), CodeError> {
    let width = usize::from(first.window.len);
    if width == 0 {
        // Let the code say what it makes of no symbols.
        return code.coefficients(first, &mut []);
    }
    let more = out.len().div_ceil(width).saturating_sub(1);
    let mut keys = first.key..=u32::MAX;
    for row in out.chunks_mut(width) {
        // Past the last number there is no key: with it again the row would be no other equation.
        let Some(key) = keys.next() else {
            return Err(CodeError::KeyTooLarge {
                key: first.key,
                max: u32::MAX.saturating_sub(u32::try_from(more).unwrap_or(u32::MAX)),
            });
        };
        code.coefficients(RepairId { key, ..first }, row)?;
    }
    Ok(())
}

/// The codes of this crate, to be chosen at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scheme {
    /// Interleaved parity.
    #[cfg(feature = "xor")]
    Xor(crate::xor::Xor),
    /// Systematic Reed-Solomon.
    #[cfg(feature = "reed-solomon")]
    ReedSolomon(crate::reed_solomon::ReedSolomon),
    /// Random linear code.
    #[cfg(feature = "rlc")]
    Rlc(crate::rlc::Rlc),
    /// Tetrys.
    #[cfg(feature = "tetrys")]
    Tetrys(crate::tetrys::Tetrys),
}

impl ErasureCode for Scheme {
    fn name(&self) -> &'static str {
        match *self {
            #[cfg(feature = "xor")]
            Self::Xor(code) => code.name(),
            #[cfg(feature = "reed-solomon")]
            Self::ReedSolomon(code) => code.name(),
            #[cfg(feature = "rlc")]
            Self::Rlc(code) => code.name(),
            #[cfg(feature = "tetrys")]
            Self::Tetrys(code) => code.name(),
        }
    }

    #[cfg_attr(
        not(any(
            feature = "xor",
            feature = "reed-solomon",
            feature = "rlc",
            feature = "tetrys"
        )),
        allow(unused_variables, reason = "no scheme is left to ask")
    )]
    fn coefficients(&self, repair: RepairId, out: &mut [u8]) -> Result<(), CodeError> {
        match *self {
            #[cfg(feature = "xor")]
            Self::Xor(code) => code.coefficients(repair, out),
            #[cfg(feature = "reed-solomon")]
            Self::ReedSolomon(code) => code.coefficients(repair, out),
            #[cfg(feature = "rlc")]
            Self::Rlc(code) => code.coefficients(repair, out),
            #[cfg(feature = "tetrys")]
            Self::Tetrys(code) => code.coefficients(repair, out),
        }
    }

    fn rows(&self, first: RepairId, out: &mut [u8]) -> Result<(), CodeError> {
        match *self {
            #[cfg(feature = "rlc")]
            Self::Rlc(code) => code.rows(first, out),
            // Where that is the only scheme this arm is never taken.
            #[allow(
                unreachable_patterns,
                reason = "which schemes are left depends on features"
            )]
            _ => rows_one_by_one(self, first, out),
        }
    }
}
