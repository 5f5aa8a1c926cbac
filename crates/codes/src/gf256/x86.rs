//! Vectors of x86-64: SSSE3, AVX2, AVX-512, and the Galois-field instructions in both lengths.
//!
//! Two ways to multiply sixteen or more bytes by one constant at once: look both nibbles up with
//! byte shuffles, or, with GFNI, apply the constant's bit matrix. (GFNI's own multiplication is
//! of no use here: it knows only the polynomial 0x11b.)

use core::arch::x86_64::*;

use super::{
    tables::{MATRICES, NIBBLES},
    vector::{self, Vector, entry_points},
};

/// 16 bytes, SSSE3.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Xmm(__m128i);

// SAFETY of all blocks below: the methods' contracts promise that the instructions exist and that
// pointers are good for the bytes accessed; `u8` indexes tables of 256 entries.
impl Vector for Xmm {
    const BYTES: usize = 16;
    type Factor = (__m128i, __m128i);
    type Parts = (__m128i, __m128i);

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 16 bytes are readable; the load needs no alignment.
        Self(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 16 bytes are writable; the store needs no alignment.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: SSE2 is part of x86-64.
        Self(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let table = &NIBBLES[usize::from(c)];
        // SAFETY: each half of the table is 16 bytes.
        unsafe {
            (
                _mm_loadu_si128(table.low.as_ptr().cast()),
                _mm_loadu_si128(table.high.as_ptr().cast()),
            )
        }
    }

    #[inline(always)]
    unsafe fn split(self) -> Self::Parts {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            let mask = _mm_set1_epi8(15);
            (
                _mm_and_si128(self.0, mask),
                _mm_and_si128(_mm_srli_epi64::<4>(self.0), mask),
            )
        }
    }

    #[inline(always)]
    unsafe fn mul((low, high): Self::Parts, (t_low, t_high): Self::Factor) -> Self {
        // SAFETY: the caller promises SSSE3.
        Self(unsafe { _mm_xor_si128(_mm_shuffle_epi8(t_low, low), _mm_shuffle_epi8(t_high, high)) })
    }
}

/// 32 bytes, AVX2.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Ymm(__m256i);

impl Ymm {
    #[inline(always)]
    unsafe fn table(from: &[u8; 16]) -> __m256i {
        // SAFETY: 16 bytes are readable; the caller promises AVX2.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(from.as_ptr().cast())) }
    }
}

impl Vector for Ymm {
    const BYTES: usize = 32;
    type Factor = (__m256i, __m256i);
    type Parts = (__m256i, __m256i);

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 32 bytes are readable; the load needs no alignment.
        Self(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 32 bytes are writable; the store needs no alignment.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller promises AVX2.
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let table = &NIBBLES[usize::from(c)];
        // SAFETY: the caller promises AVX2.
        unsafe { (Self::table(&table.low), Self::table(&table.high)) }
    }

    #[inline(always)]
    unsafe fn split(self) -> Self::Parts {
        // SAFETY: the caller promises AVX2.
        unsafe {
            let mask = _mm256_set1_epi8(15);
            (
                _mm256_and_si256(self.0, mask),
                _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), mask),
            )
        }
    }

    #[inline(always)]
    unsafe fn mul((low, high): Self::Parts, (t_low, t_high): Self::Factor) -> Self {
        // SAFETY: the caller promises AVX2.
        Self(unsafe {
            _mm256_xor_si256(
                _mm256_shuffle_epi8(t_low, low),
                _mm256_shuffle_epi8(t_high, high),
            )
        })
    }
}

/// The truth table of an exclusive or of three, for ternary logic.
const XOR_OF_THREE: i32 = 0x96;

/// 64 bytes, AVX-512 with byte instructions.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Zmm(__m512i);

impl Zmm {
    #[inline(always)]
    unsafe fn table(from: &[u8; 16]) -> __m512i {
        // SAFETY: 16 bytes are readable; the caller promises AVX-512.
        unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(from.as_ptr().cast())) }
    }

    /// Selects the first `len < 64` bytes.
    #[inline(always)]
    fn mask(len: usize) -> __mmask64 {
        (1 << len) - 1
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const u8, len: usize) -> __m512i {
        // SAFETY: bytes that the mask leaves out are not accessed; AVX-512 is promised.
        unsafe { _mm512_maskz_loadu_epi8(Self::mask(len), from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_masked(value: __m512i, to: *mut u8, len: usize) {
        // SAFETY: bytes that the mask leaves out are not accessed; AVX-512 is promised.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), Self::mask(len), value) }
    }
}

impl Vector for Zmm {
    const BYTES: usize = 64;
    type Factor = (__m512i, __m512i);
    type Parts = (__m512i, __m512i);

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 64 bytes are readable; the load needs no alignment.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 64 bytes are writable; the store needs no alignment.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_partial(from: *const u8, len: usize) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Self::load_masked(from, len) })
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { Self::store_masked(self.0, to, len) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller promises AVX-512.
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let table = &NIBBLES[usize::from(c)];
        // SAFETY: the caller promises AVX-512.
        unsafe { (Self::table(&table.low), Self::table(&table.high)) }
    }

    #[inline(always)]
    unsafe fn split(self) -> Self::Parts {
        // SAFETY: the caller promises AVX-512.
        unsafe {
            let mask = _mm512_set1_epi8(15);
            (
                _mm512_and_si512(self.0, mask),
                _mm512_and_si512(_mm512_srli_epi64::<4>(self.0), mask),
            )
        }
    }

    #[inline(always)]
    unsafe fn mul((low, high): Self::Parts, (t_low, t_high): Self::Factor) -> Self {
        // SAFETY: the caller promises AVX-512 with byte instructions.
        Self(unsafe {
            _mm512_xor_si512(
                _mm512_shuffle_epi8(t_low, low),
                _mm512_shuffle_epi8(t_high, high),
            )
        })
    }

    #[inline(always)]
    unsafe fn plus_product(self, (low, high): Self::Parts, (t_low, t_high): Self::Factor) -> Self {
        // SAFETY: the caller promises AVX-512 with byte instructions.
        Self(unsafe {
            _mm512_ternarylogic_epi64::<XOR_OF_THREE>(
                self.0,
                _mm512_shuffle_epi8(t_low, low),
                _mm512_shuffle_epi8(t_high, high),
            )
        })
    }
}

/// 32 bytes, AVX2 and GFNI.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct GaloisYmm(__m256i);

impl Vector for GaloisYmm {
    const BYTES: usize = 32;
    type Factor = __m256i;
    type Parts = __m256i;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Ymm::load(from) }.0)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { Ymm(self.0).store(to) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Ymm(self.0).xor(Ymm(other.0)) }.0)
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        // SAFETY: the caller promises AVX2.
        unsafe { _mm256_set1_epi64x(MATRICES[usize::from(c)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn split(self) -> Self::Parts {
        self.0
    }

    #[inline(always)]
    unsafe fn mul(parts: Self::Parts, factor: Self::Factor) -> Self {
        // SAFETY: the caller promises GFNI.
        Self(unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(parts, factor) })
    }
}

/// 64 bytes, AVX-512 and GFNI.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct GaloisZmm(__m512i);

impl Vector for GaloisZmm {
    const BYTES: usize = 64;
    type Factor = __m512i;
    type Parts = __m512i;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Zmm::load(from) }.0)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { Zmm(self.0).store(to) }
    }

    #[inline(always)]
    unsafe fn load_partial(from: *const u8, len: usize) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Zmm::load_masked(from, len) })
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { Zmm::store_masked(self.0, to, len) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Zmm(self.0).xor(Zmm(other.0)) }.0)
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        // SAFETY: the caller promises AVX-512.
        unsafe { _mm512_set1_epi64(MATRICES[usize::from(c)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn split(self) -> Self::Parts {
        self.0
    }

    #[inline(always)]
    unsafe fn mul(parts: Self::Parts, factor: Self::Factor) -> Self {
        // SAFETY: the caller promises GFNI.
        Self(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(parts, factor) })
    }

    const ADDS_TWO: bool = true;

    #[inline(always)]
    unsafe fn plus_two(self, one: Self, other: Self) -> Self {
        // SAFETY: the caller promises AVX-512.
        Self(unsafe { _mm512_ternarylogic_epi64::<XOR_OF_THREE>(self.0, one.0, other.0) })
    }
}

entry_points!(ssse3, Xmm, "ssse3");
entry_points!(avx2, Ymm, "avx2");
entry_points!(avx2_gfni, GaloisYmm, "avx2,gfni");
entry_points!(avx512, Zmm, "avx512f,avx512bw");
entry_points!(avx512_gfni, GaloisZmm, "avx512f,avx512bw,gfni");
