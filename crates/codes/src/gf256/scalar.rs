//! The kernels for machines without vectors, and the twin every vector kernel is tested against.

use super::tables::{NIBBLES, Nibbles};

/// The product of the constant `table` stands for with `x`.
#[inline]
fn times(table: &Nibbles, x: u8) -> u8 {
    // Nibbles are below 16, the length of both halves.
    let low = table.low.get(usize::from(x & 15)).copied();
    let high = table.high.get(usize::from(x >> 4)).copied();
    low.unwrap_or_default() ^ high.unwrap_or_default()
}

/// `dst ^= src` for each source, over the bytes that all of them have.
pub(super) fn xor_many(dst: &mut [u8], srcs: &[&[u8]]) {
    let common = common_len(dst.len(), srcs);
    for src in srcs {
        for (d, s) in dst.iter_mut().zip(*src).take(common) {
            *d ^= s;
        }
    }
}

/// The shortest of `len` and the sources' lengths.
fn common_len(len: usize, srcs: &[&[u8]]) -> usize {
    srcs.iter().map(|src| src.len()).fold(len, usize::min)
}

/// `dst *= c`.
pub(super) fn scale(dst: &mut [u8], c: u8) {
    if let Some(table) = NIBBLES.get(usize::from(c)) {
        for d in dst {
            *d = times(table, *d);
        }
    }
}

/// `dst[n] += factors[i][n] * srcs[i]` over the bytes that all slices have.
pub(super) fn tile<const N: usize>(dsts: &mut [&mut [u8]; N], srcs: &[&[u8]], factors: &[[u8; N]]) {
    let shortest = dsts.iter().map(|dst| dst.len()).min().unwrap_or_default();
    let common = common_len(shortest, srcs);
    for (src, factors) in srcs.iter().zip(factors) {
        for (dst, c) in dsts.iter_mut().zip(factors) {
            let Some(table) = NIBBLES.get(usize::from(*c)) else {
                continue;
            };
            for (d, s) in dst.iter_mut().zip(*src).take(common) {
                *d ^= times(table, *s);
            }
        }
    }
}
