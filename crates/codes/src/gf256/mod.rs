//! The field of 256 elements, and arithmetic on rows of its elements at the speed of memory.
//!
//! Owns: the field (polynomial 0x11d, as RFC 8681 and RFC 5510 have it; addition is exclusive or,
//! 2 generates the multiplicative group), operations on slices, the choice of [`Kernel`].
//! Does not own: which coefficients are used (the codes).
//! Called by: every code here; useful alone.
//! To add an instruction set: implement `Vector` for its registers, a line of `entry_points!`,
//! a variant of [`InstructionSet`] with its detection and its arm in `dispatch!`.
//!
//! A slice is a row of elements. Where lengths differ, the shorter slice counts as followed by
//! zeros, and nothing is written beyond the destination. No function here panics.
//!
//! ```
//! use tautline_codes::gf256;
//!
//! let mut sum = [1, 2, 3];
//! gf256::mul_add(&mut sum, &[4, 5, 6], 7);
//! assert_eq!(sum[0], 1 ^ gf256::mul(4, 7));
//! ```

mod kernel;
#[cfg(all(feature = "simd", target_arch = "aarch64"))]
#[allow(
    unsafe_code,
    clippy::indexing_slicing,
    reason = "vector instructions; indices are bytes into tables of 256"
)]
mod neon;
mod scalar;
#[allow(
    clippy::indexing_slicing,
    reason = "evaluated at build time, where a bad index is a build error"
)]
mod tables;
mod terms;
#[cfg(all(feature = "simd", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[allow(
    unsafe_code,
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "walks memory in vectors; indices are bounded by const parameters"
)]
mod vector;
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
#[allow(
    unsafe_code,
    clippy::indexing_slicing,
    clippy::wildcard_imports,
    reason = "vector instructions; indices are bytes into tables of 256"
)]
mod x86;

#[cfg(test)]
mod tests;

pub use kernel::{InstructionSet, Kernel};

use tables::{EXP, GROUP_ORDER, INVERSES, LOG};

/// The product of two elements.
pub fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    exp_at(log_of(a) + log_of(b))
}

/// The element whose product with `a` is 1; 0 for 0, which has none.
pub fn inv(a: u8) -> u8 {
    INVERSES.get(usize::from(a)).copied().unwrap_or_default()
}

/// The product of `a` with the inverse of `b`; 0 for a `b` of 0, which has none.
pub fn div(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    exp_at(log_of(a) + GROUP_ORDER - log_of(b))
}

/// The generator 2 to the power of `exponent`.
pub fn exp(exponent: u64) -> u8 {
    exp_at((exponent % GROUP_ORDER as u64) as usize)
}

fn log_of(a: u8) -> usize {
    LOG.get(usize::from(a)).copied().map_or(0, usize::from)
}

/// `i` is below twice the group's order.
fn exp_at(i: usize) -> u8 {
    EXP.get(i).copied().unwrap_or_default()
}

/// `dst[i] += src[i]`: exclusive or.
pub fn add_assign(dst: &mut [u8], src: &[u8]) {
    Kernel::best().add_assign(dst, src);
}

/// `dst[i] *= c`.
pub fn mul_assign(dst: &mut [u8], c: u8) {
    Kernel::best().mul_assign(dst, c);
}

/// `dst[i] += c * src[i]`.
pub fn mul_add(dst: &mut [u8], src: &[u8], c: u8) {
    Kernel::best().mul_add(dst, src, c);
}

/// `dst += coefficients[i] * srcs[i]`, summed over `i`.
///
/// Faster than as many calls of [`mul_add`]: the sum stays in registers. Sources without a
/// coefficient, and coefficients without a source, count for nothing.
pub fn mul_add_many(dst: &mut [u8], srcs: &[&[u8]], coefficients: &[u8]) {
    Kernel::best().mul_add_many(dst, srcs, coefficients);
}

/// `dsts[j] += coefficients[j][i] * srcs[i]`, summed over `i`, for every `j`.
///
/// `coefficients` has a row of `srcs.len()` for each destination, one row after the other; what
/// it lacks counts as zero. Each source is read once for several destinations.
pub fn mul_add_matrix(dsts: &mut [&mut [u8]], srcs: &[&[u8]], coefficients: &[u8]) {
    Kernel::best().mul_add_matrix(dsts, srcs, coefficients);
}
