//! The kernels, written once over [`Vector`].
//!
//! Owns: how memory is walked: whole vectors, then one partial vector, so that no length is
//! served byte by byte. Does not own: what a vector is (`x86.rs`, `neon.rs`), which one is chosen
//! (`kernel.rs`).
//!
//! Everything is `inline(always)`: these bodies carry no target feature of their own and are
//! compiled into functions that do. For the same reason they use loops, not closures, which might
//! be compiled apart, without the feature.

/// A vector register of bytes, each an element of the field.
pub(super) trait Vector: Copy {
    /// Its size.
    const BYTES: usize;
    /// A constant to multiply by, in the form the instructions want it.
    type Factor: Copy;
    /// A value to be multiplied, prepared once for several factors.
    type Parts: Copy;

    /// # Safety
    /// The machine has the instructions, as for every method here; `BYTES` at `from` are readable.
    unsafe fn load(from: *const u8) -> Self;

    /// # Safety
    /// `BYTES` at `to` are writable.
    unsafe fn store(self, to: *mut u8);

    /// Loads `len` bytes, followed by zeros.
    ///
    /// # Safety
    /// `len` bytes at `from` are readable; `len <= BYTES`.
    #[inline(always)]
    unsafe fn load_partial(from: *const u8, len: usize) -> Self {
        let mut buf = [0u8; 64];
        // SAFETY: `len <= BYTES <= 64` bytes are readable at `from`; `buf` holds a whole vector.
        unsafe {
            core::ptr::copy_nonoverlapping(from, buf.as_mut_ptr(), len);
            Self::load(buf.as_ptr())
        }
    }

    /// Stores the first `len` bytes.
    ///
    /// # Safety
    /// `len` bytes at `to` are writable; `len <= BYTES`.
    #[inline(always)]
    unsafe fn store_partial(self, to: *mut u8, len: usize) {
        let mut buf = [0u8; 64];
        // SAFETY: `buf` holds a whole vector; `len <= BYTES` bytes are writable at `to`.
        unsafe {
            self.store(buf.as_mut_ptr());
            core::ptr::copy_nonoverlapping(buf.as_ptr(), to, len);
        }
    }

    /// # Safety
    /// The machine has the instructions.
    unsafe fn xor(self, other: Self) -> Self;

    /// # Safety
    /// The machine has the instructions.
    unsafe fn factor(c: u8) -> Self::Factor;

    /// # Safety
    /// The machine has the instructions.
    unsafe fn split(self) -> Self::Parts;

    /// # Safety
    /// The machine has the instructions.
    unsafe fn mul(parts: Self::Parts, factor: Self::Factor) -> Self;

    /// The sum with a product.
    ///
    /// # Safety
    /// The machine has the instructions.
    #[inline(always)]
    unsafe fn plus_product(self, parts: Self::Parts, factor: Self::Factor) -> Self {
        // SAFETY: the caller's promise.
        unsafe { self.xor(Self::mul(parts, factor)) }
    }

    /// Whether [`Self::plus_two`] costs less than two additions.
    const ADDS_TWO: bool = false;

    /// The sum of three.
    ///
    /// # Safety
    /// The machine has the instructions.
    #[inline(always)]
    unsafe fn plus_two(self, one: Self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { self.xor(one).xor(other) }
    }
}

/// Bytes that the destination and every source have.
#[inline(always)]
fn common_len(mut len: usize, srcs: &[&[u8]]) -> usize {
    for src in srcs {
        if src.len() < len {
            len = src.len();
        }
    }
    len
}

/// `dst ^= src` for each source, over the bytes that all of them have.
///
/// # Safety
/// The machine has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn xor_many<V: Vector>(dst: &mut [u8], srcs: &[&[u8]]) {
    let len = common_len(dst.len(), srcs);
    let dst = dst.as_mut_ptr();
    let mut at = 0;
    // SAFETY: every access lies below `len`, which no slice is shorter than; `dst`, borrowed
    // mutably, overlaps no source.
    unsafe {
        while at + 4 * V::BYTES <= len {
            xor_step::<V, 4>(dst, srcs, at);
            at += 4 * V::BYTES;
        }
        while at + V::BYTES <= len {
            xor_step::<V, 1>(dst, srcs, at);
            at += V::BYTES;
        }
        let rest = len - at;
        if rest > 0 {
            let mut sum = V::load_partial(dst.add(at), rest);
            for src in srcs {
                sum = sum.xor(V::load_partial(src.as_ptr().add(at), rest));
            }
            sum.store_partial(dst.add(at), rest);
        }
    }
}

/// # Safety
/// `U` vectors from `at` on lie within `dst` and every source, which do not overlap; the machine
/// has the instructions.
#[inline(always)]
unsafe fn xor_step<V: Vector, const U: usize>(dst: *mut u8, srcs: &[&[u8]], at: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [V::load(dst.add(at)); U];
        for u in 1..U {
            sums[u] = V::load(dst.add(at + u * V::BYTES));
        }
        for src in srcs {
            let src = src.as_ptr().add(at);
            for u in 0..U {
                sums[u] = sums[u].xor(V::load(src.add(u * V::BYTES)));
            }
        }
        for u in 0..U {
            sums[u].store(dst.add(at + u * V::BYTES));
        }
    }
}

/// `dst *= c`.
///
/// # Safety
/// The machine has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn scale<V: Vector>(dst: &mut [u8], c: u8) {
    let len = dst.len();
    let dst = dst.as_mut_ptr();
    let mut at = 0;
    // SAFETY: every access lies below `len`.
    unsafe {
        let factor = V::factor(c);
        while at + V::BYTES <= len {
            V::mul(V::load(dst.add(at)).split(), factor).store(dst.add(at));
            at += V::BYTES;
        }
        let rest = len - at;
        if rest > 0 {
            let value = V::load_partial(dst.add(at), rest);
            V::mul(value.split(), factor).store_partial(dst.add(at), rest);
        }
    }
}

/// `dst[n] += factors[i][n] * srcs[i]` over the bytes that all slices have: `N` sums stay in
/// registers while each source is read once. `U` vectors are worked on side by side.
///
/// # Safety
/// The machine has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn tile<V: Vector, const N: usize, const U: usize>(
    dsts: &mut [&mut [u8]; N],
    srcs: &[&[u8]],
    factors: &[[u8; N]],
) {
    let mut len = usize::MAX;
    let mut pointers = [core::ptr::null_mut(); N];
    for n in 0..N {
        len = len.min(dsts[n].len());
        pointers[n] = dsts[n].as_mut_ptr();
    }
    let len = common_len(len, srcs);
    let mut at = 0;
    // SAFETY: every access lies below `len`, which no slice is shorter than; the destinations,
    // borrowed mutably, overlap neither each other nor a source.
    unsafe {
        while at + U * V::BYTES <= len {
            tile_step::<V, N, U>(&pointers, srcs, factors, at);
            at += U * V::BYTES;
        }
        while at + V::BYTES <= len {
            tile_step::<V, N, 1>(&pointers, srcs, factors, at);
            at += V::BYTES;
        }
        let rest = len - at;
        if rest > 0 {
            tile_rest::<V, N>(&pointers, srcs, factors, at, rest);
        }
    }
}

/// # Safety
/// `U` vectors from `at` on lie within every slice, none of which overlap; the machine has the
/// instructions.
#[inline(always)]
unsafe fn tile_step<V: Vector, const N: usize, const U: usize>(
    dsts: &[*mut u8; N],
    srcs: &[&[u8]],
    factors: &[[u8; N]],
    at: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[V::load(dsts[0].add(at)); U]; N];
        for n in 0..N {
            for u in 0..U {
                sums[n][u] = V::load(dsts[n].add(at + u * V::BYTES));
            }
        }
        let mut terms = srcs.iter().zip(factors);
        if V::ADDS_TWO {
            while terms.len() > 1 {
                let (Some((one, ones)), Some((other, others))) = (terms.next(), terms.next())
                else {
                    break;
                };
                let (one, other) = (parts::<V, U>(one, at), parts::<V, U>(other, at));
                for n in 0..N {
                    let (by_one, by_other) = (V::factor(ones[n]), V::factor(others[n]));
                    for u in 0..U {
                        let products = (V::mul(one[u], by_one), V::mul(other[u], by_other));
                        sums[n][u] = sums[n][u].plus_two(products.0, products.1);
                    }
                }
            }
        }
        for (src, factors) in terms {
            let parts = parts::<V, U>(src, at);
            for n in 0..N {
                let factor = V::factor(factors[n]);
                for u in 0..U {
                    sums[n][u] = sums[n][u].plus_product(parts[u], factor);
                }
            }
        }
        for n in 0..N {
            for u in 0..U {
                sums[n][u].store(dsts[n].add(at + u * V::BYTES));
            }
        }
    }
}

/// `U` vectors, ready to be multiplied.
///
/// # Safety
/// They lie within `src` from `at` on; the machine has the instructions.
#[inline(always)]
unsafe fn parts<V: Vector, const U: usize>(src: &[u8], at: usize) -> [V::Parts; U] {
    // SAFETY: the caller's promise.
    unsafe {
        let src = src.as_ptr().add(at);
        let mut parts = [V::load(src).split(); U];
        for u in 1..U {
            parts[u] = V::load(src.add(u * V::BYTES)).split();
        }
        parts
    }
}

/// # Safety
/// As for [`tile_step`], with `rest < BYTES` bytes in place of `U` vectors.
#[inline(always)]
unsafe fn tile_rest<V: Vector, const N: usize>(
    dsts: &[*mut u8; N],
    srcs: &[&[u8]],
    factors: &[[u8; N]],
    at: usize,
    rest: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [V::load_partial(dsts[0].add(at), rest); N];
        for n in 1..N {
            sums[n] = V::load_partial(dsts[n].add(at), rest);
        }
        for (src, factors) in srcs.iter().zip(factors) {
            let parts = V::load_partial(src.as_ptr().add(at), rest).split();
            for n in 0..N {
                sums[n] = sums[n].xor(V::mul(parts, V::factor(factors[n])));
            }
        }
        for n in 0..N {
            sums[n].store_partial(dsts[n].add(at), rest);
        }
    }
}

/// A module of entry points compiled with the target features of one vector type.
macro_rules! entry_points {
    ($(#[$doc:meta])* $module:ident, $vector:ty, $features:literal) => {
        $(#[$doc])*
        pub(in crate::gf256) mod $module {
            use super::*;

            #[target_feature(enable = $features)]
            pub(in crate::gf256) fn xor_many(dst: &mut [u8], srcs: &[&[u8]]) {
                // SAFETY: this function runs only where its target features are present.
                unsafe { vector::xor_many::<$vector>(dst, srcs) }
            }

            #[target_feature(enable = $features)]
            pub(in crate::gf256) fn scale(dst: &mut [u8], c: u8) {
                // SAFETY: as above.
                unsafe { vector::scale::<$vector>(dst, c) }
            }

            #[target_feature(enable = $features)]
            pub(in crate::gf256) fn tile<const N: usize>(
                dsts: &mut [&mut [u8]; N],
                srcs: &[&[u8]],
                factors: &[[u8; N]],
            ) {
                // One sum needs more vectors side by side to hide the latency of its additions.
                // SAFETY: as above.
                unsafe {
                    if N == 1 {
                        vector::tile::<$vector, N, 4>(dsts, srcs, factors);
                    } else {
                        vector::tile::<$vector, N, 2>(dsts, srcs, factors);
                    }
                }
            }
        }
    };
}

pub(super) use entry_points;
