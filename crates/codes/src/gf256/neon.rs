//! Vectors of AArch64: NEON, which every such machine has.

use core::arch::aarch64::*;

use super::{
    tables::NIBBLES,
    vector::{self, Vector, entry_points},
};

/// 16 bytes, NEON.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Quad(uint8x16_t);

impl Vector for Quad {
    const BYTES: usize = 16;
    type Factor = (uint8x16_t, uint8x16_t);
    type Parts = (uint8x16_t, uint8x16_t);

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 16 bytes are readable; the load needs no alignment.
        Self(unsafe { vld1q_u8(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 16 bytes are writable; the store needs no alignment.
        unsafe { vst1q_u8(to, self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: NEON is part of AArch64.
        Self(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let table = &NIBBLES[usize::from(c)];
        // SAFETY: each half of the table is 16 bytes.
        unsafe { (vld1q_u8(table.low.as_ptr()), vld1q_u8(table.high.as_ptr())) }
    }

    #[inline(always)]
    unsafe fn split(self) -> Self::Parts {
        // SAFETY: NEON is part of AArch64.
        unsafe { (vandq_u8(self.0, vdupq_n_u8(15)), vshrq_n_u8::<4>(self.0)) }
    }

    #[inline(always)]
    unsafe fn mul((low, high): Self::Parts, (t_low, t_high): Self::Factor) -> Self {
        // SAFETY: NEON is part of AArch64.
        Self(unsafe { veorq_u8(vqtbl1q_u8(t_low, low), vqtbl1q_u8(t_high, high)) })
    }
}

entry_points!(quad, Quad, "neon");
