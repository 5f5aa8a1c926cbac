//! Which kernel runs: chosen once, at run time.

use std::sync::OnceLock;

#[cfg(all(feature = "simd", target_arch = "aarch64"))]
use super::neon;
use super::scalar;
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
use super::x86;

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

/// Sources worked on in one go: with symbols of a packet's size they stay in the first-level
/// cache while every group of destinations passes over them.
const BATCH: usize = 16;

/// Destinations whose sums share the registers.
const ROWS: usize = 4;

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
        static BEST: OnceLock<Kernel> = OnceLock::new();
        *BEST.get_or_init(|| {
            Self::available()
                .last()
                .unwrap_or(Self(InstructionSet::Scalar))
        })
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
            self.add_batch(dst, srcs, coefficients);
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
                let taken = match rest.split_first_chunk_mut::<ROWS>() {
                    Some((group, _)) if !is_binary(columns(0)) => {
                        self.add_group(group, batch, columns);
                        ROWS
                    }
                    _ => {
                        if let Some(dst) = rest.first_mut() {
                            self.add_batch(dst, batch, columns(0));
                        }
                        1
                    }
                };
                row += taken;
                rest = rest.split_at_mut(taken.min(rest.len())).1;
            }
            start += batch.len();
        }
    }

    /// [`ROWS`] destinations, at most [`BATCH`] sources.
    fn add_group<'c>(
        self,
        dsts: &mut [&mut [u8]; ROWS],
        srcs: &[&[u8]],
        columns: impl Fn(usize) -> &'c [u8],
    ) {
        let mut factors = [[0; ROWS]; BATCH];
        for n in 0..ROWS {
            for (factors, c) in factors.iter_mut().zip(columns(n)) {
                if let Some(factor) = factors.get_mut(n) {
                    *factor = *c;
                }
            }
        }
        if let Some(factors) = factors.get(..srcs.len()) {
            dispatch!(self, tile(dsts, srcs, factors));
        }
        let common = dsts.iter().map(|dst| dst.len()).min().unwrap_or_default();
        let common = srcs.iter().map(|src| src.len()).fold(common, usize::min);
        for (n, dst) in dsts.iter_mut().enumerate() {
            self.add_tails(dst, srcs, columns(n), common);
        }
    }

    /// One destination, at most [`BATCH`] sources.
    fn add_batch(self, dst: &mut [u8], srcs: &[&[u8]], coefficients: &[u8]) {
        let mut kept_srcs: [&[u8]; BATCH] = [&[]; BATCH];
        let mut factors = [[0; 1]; BATCH];
        let mut kept = 0;
        let terms = srcs.iter().zip(coefficients).filter(|(_, c)| **c != 0);
        for ((src, c), (kept_src, factor)) in
            terms.zip(kept_srcs.iter_mut().zip(factors.iter_mut()))
        {
            (*kept_src, *factor) = (src, [*c]);
            kept += 1;
        }
        let (Some(srcs), Some(factors)) = (kept_srcs.get(..kept), factors.get(..kept)) else {
            return;
        };
        if srcs.is_empty() {
            return;
        }
        if is_binary(factors.as_flattened()) {
            dispatch!(self, xor_many(dst, srcs));
        } else {
            dispatch!(self, tile(&mut [dst], srcs, factors));
        }
        let common = srcs.iter().map(|src| src.len()).fold(dst.len(), usize::min);
        self.add_tails(dst, srcs, factors.as_flattened(), common);
    }

    /// What sources longer than the shortest of them have after `common` bytes.
    fn add_tails(self, dst: &mut [u8], srcs: &[&[u8]], coefficients: &[u8], common: usize) {
        let Some(dst) = dst.get_mut(common..) else {
            return;
        };
        if dst.is_empty() {
            return;
        }
        for (src, c) in srcs.iter().zip(coefficients) {
            if let Some(src) = src.get(common..).filter(|src| !src.is_empty()) {
                self.mul_add(dst, src, *c);
            }
        }
    }
}

/// Whether these coefficients only pick sources.
fn is_binary(coefficients: &[u8]) -> bool {
    coefficients.iter().all(|c| *c <= 1)
}
