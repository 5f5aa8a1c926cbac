//! Which kernel runs: chosen once, at run time.

use std::sync::OnceLock;

#[cfg(all(feature = "simd", target_arch = "aarch64"))]
use super::neon;
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
use super::x86;
use super::{
    scalar,
    terms::{BATCH, Terms},
};

/// Sets of instructions a kernel is written for, slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InstructionSet {
    /// No vectors: table look-ups, byte by byte.
    Scalar,
    /// x86-64: 16-byte shuffles.
    Ssse3,
    /// x86-64: 32-byte shuffles.
    Avx2,
    /// x86-64: 32-byte bit-matrix products.
    Avx2Gfni,
    /// x86-64: 64-byte shuffles (AVX-512 F and BW).
    Avx512,
    /// x86-64: 64-byte bit-matrix products.
    Avx512Gfni,
    /// AArch64: 16-byte shuffles.
    Neon,
}

impl InstructionSet {
    /// Every one, on this machine or not.
    pub const ALL: [Self; 7] = [
        Self::Scalar,
        Self::Ssse3,
        Self::Avx2,
        Self::Avx2Gfni,
        Self::Avx512,
        Self::Avx512Gfni,
        Self::Neon,
    ];

    /// A short name, as benchmarks print it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Ssse3 => "ssse3",
            Self::Avx2 => "avx2",
            Self::Avx2Gfni => "avx2+gfni",
            Self::Avx512 => "avx512",
            Self::Avx512Gfni => "avx512+gfni",
            Self::Neon => "neon",
        }
    }

    /// Whether this machine has the instructions and this build uses them.
    fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            Self::Ssse3 => std::is_x86_feature_detected!("ssse3"),
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            Self::Avx2 => std::is_x86_feature_detected!("avx2"),
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            Self::Avx2Gfni => Self::Avx2.is_available() && std::is_x86_feature_detected!("gfni"),
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            Self::Avx512 => {
                std::is_x86_feature_detected!("avx512f")
                    && std::is_x86_feature_detected!("avx512bw")
            }
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            Self::Avx512Gfni => {
                Self::Avx512.is_available() && std::is_x86_feature_detected!("gfni")
            }
            #[cfg(all(feature = "simd", target_arch = "aarch64"))]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[allow(
                unreachable_patterns,
                reason = "which sets are left depends on the target"
            )]
            _ => false,
        }
    }
}

/// What [`Kernel::best`] gives, once it is settled.
static BEST: OnceLock<Kernel> = OnceLock::new();

/// The arithmetic of one [`InstructionSet`].
///
/// The functions of [`gf256`](super) use [`Kernel::best`]; tests and benchmarks pick their own.
/// All kernels give the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Made only by `Kernel::new`, after the check that lets `dispatch` call the entry points.
pub struct Kernel(InstructionSet);

/// Calls an entry point of the kernel's instruction set.
macro_rules! dispatch {
    ($kernel:expr, $function:ident($($argument:expr),*)) => {
        match $kernel.0 {
            // SAFETY, all arms: a `Kernel` exists only for instructions this machine has.
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            InstructionSet::Ssse3 => unsafe { x86::ssse3::$function($($argument),*) },
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            InstructionSet::Avx2 => unsafe { x86::avx2::$function($($argument),*) },
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            InstructionSet::Avx2Gfni => unsafe { x86::avx2_gfni::$function($($argument),*) },
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            InstructionSet::Avx512 => unsafe { x86::avx512::$function($($argument),*) },
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            InstructionSet::Avx512Gfni => unsafe { x86::avx512_gfni::$function($($argument),*) },
            #[cfg(all(feature = "simd", target_arch = "aarch64"))]
            InstructionSet::Neon => unsafe { neon::quad::$function($($argument),*) },
            _ => scalar::$function($($argument),*),
        }
    };
}

#[cfg_attr(
    feature = "simd",
    allow(unsafe_code, reason = "entry points need the CPU check of `new`")
)]
impl Kernel {
    /// The kernel for these instructions; `None` where the machine or the build lacks them.
    pub fn new(instructions: InstructionSet) -> Option<Self> {
        instructions.is_available().then_some(Self(instructions))
    }

    /// The fastest kernel here. Looked for once, then remembered.
    pub fn best() -> Self {
        *BEST.get_or_init(|| {
            Self::available()
                .last()
                .unwrap_or(Self(InstructionSet::Scalar))
        })
    }

    /// Makes this kernel what [`Self::best`] gives, and with it encoders and decoders, for as long
    /// as the process runs: for benchmarks, and machines where another than the last of
    /// [`Self::available`] is fastest. `false` if that was settled before, by this or by the first
    /// use, and is another.
    pub fn make_best(self) -> bool {
        *BEST.get_or_init(|| self) == self
    }

    /// Every kernel that runs here, slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        InstructionSet::ALL.into_iter().filter_map(Self::new)
    }

    /// The instructions it uses.
    pub fn instructions(self) -> InstructionSet {
        self.0
    }

    /// `dst[i] += src[i]`; see [`super::add_assign`].
    pub fn add_assign(self, dst: &mut [u8], src: &[u8]) {
        dispatch!(self, xor_many(dst, &[src]));
    }

    /// `dst[i] *= c`; see [`super::mul_assign`].
    pub fn mul_assign(self, dst: &mut [u8], c: u8) {
        match c {
            0 => dst.fill(0),
            1 => {}
            _ => dispatch!(self, scale(dst, c)),
        }
    }

    /// `dst[i] += c * src[i]`; see [`super::mul_add`].
    pub fn mul_add(self, dst: &mut [u8], src: &[u8], c: u8) {
        match c {
            0 => {}
            1 => self.add_assign(dst, src),
            _ => dispatch!(self, tile(&mut [dst], &[src], &[[c]])),
        }
    }

    /// Sums several products; see [`super::mul_add_many`].
    pub fn mul_add_many(self, dst: &mut [u8], srcs: &[&[u8]], coefficients: &[u8]) {
        let batches = srcs.chunks(BATCH).zip(coefficients.chunks(BATCH));
        for (srcs, coefficients) in batches {
            let pairs = srcs.iter().zip(coefficients);
            let terms = Terms::new(pairs.map(|(src, c)| (*src, [*c])));
            self.add_terms([&mut *dst], terms);
        }
    }

    /// Sums several products into several places; see [`super::mul_add_matrix`].
    pub fn mul_add_matrix(self, dsts: &mut [&mut [u8]], srcs: &[&[u8]], coefficients: &[u8]) {
        let mut start = 0;
        for batch in srcs.chunks(BATCH) {
            let mut row = 0;
            let mut rest = &mut *dsts;
            while !rest.is_empty() {
                // Column `start..` of the rows from `row` on.
                let columns = |n: usize| {
                    let at = (row + n) * srcs.len() + start;
                    let row = coefficients.get(at..).unwrap_or_default();
                    row.get(..batch.len()).unwrap_or(row)
                };
                // A row of zeros and ones, such as the first of our Reed-Solomon code, needs no
                // multiplication.
                let taken = if is_binary(columns(0)) && !self.sums_with_products(columns(0)) {
                    self.add_to_group::<1>(rest, batch, columns)
                } else {
                    self.has_room_for_eight()
                        .then(|| self.add_to_group::<8>(rest, batch, columns))
                        .flatten()
                        .or_else(|| self.add_to_group::<4>(rest, batch, columns))
                        .or_else(|| self.add_to_group::<3>(rest, batch, columns))
                        .or_else(|| self.add_to_group::<2>(rest, batch, columns))
                        .or_else(|| self.add_to_group::<1>(rest, batch, columns))
                };
                let taken = taken.unwrap_or(rest.len());
                row += taken;
                rest = rest.split_at_mut(taken.min(rest.len())).1;
            }
            start += batch.len();
        }
    }

    /// Whether eight sums at once are faster than twice four. With AVX2 and GFNI alone, registers run out
    /// before anything else does.
    fn has_room_for_eight(self) -> bool {
        self.0 != InstructionSet::Avx2Gfni
    }

    /// Whether a plain sum costs more alone than among products: if it has most sources, and products are
    /// as fast.
    fn sums_with_products(self, row: &[u8]) -> bool {
        self.0 == InstructionSet::Avx512Gfni && !row.contains(&0)
    }

    /// The first `N` destinations, at most [`BATCH`] sources. `None` if there are not as many, or
    /// not of one length, so that they cannot be served together.
    fn add_to_group<'c, const N: usize>(
        self,
        dsts: &mut [&mut [u8]],
        srcs: &[&[u8]],
        columns: impl Fn(usize) -> &'c [u8],
    ) -> Option<usize> {
        let (dsts, _) = dsts.split_first_chunk_mut::<N>()?;
        let len = dsts.first()?.len();
        if dsts.iter().any(|dst| dst.len() != len) {
            return None;
        }
        let rows: [&[u8]; N] = core::array::from_fn(columns);
        let factors = |i: usize| rows.map(|row| row.get(i).copied().unwrap_or_default());
        let terms = srcs.iter().enumerate().map(|(i, src)| (*src, factors(i)));
        self.add_terms(dsts.each_mut().map(|dst| &mut **dst), Terms::new(terms));
        Some(N)
    }

    /// Adds the terms to destinations of one length.
    fn add_terms<const N: usize>(self, mut dsts: [&mut [u8]; N], mut terms: Terms<'_, N>) {
        while let Some(len) = terms.common_len(dsts.first().map(|dst| dst.len())) {
            let (srcs, factors) = terms.slices();
            match dsts.first_mut() {
                Some(dst) if N == 1 && is_binary(factors.as_flattened()) => {
                    dispatch!(self, xor_many(dst, srcs));
                }
                _ => dispatch!(self, tile(&mut dsts, srcs, factors)),
            }
            dsts = dsts.map(|dst| dst.split_at_mut(len.min(dst.len())).1);
            terms.advance(len);
        }
    }
}

/// Whether these coefficients only pick sources.
fn is_binary(coefficients: &[u8]) -> bool {
    coefficients.iter().all(|c| *c <= 1)
}
