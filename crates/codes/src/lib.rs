//! Erasure codes for packets: sums of packets that replace lost ones.
//!
//! Purpose: everything a protocol needs to protect packets against loss, and nothing about any
//! protocol: bytes in, bytes out, no clock, no randomness, no input that panics or grows memory
//! beyond its [`Limits`].
//!
//! - [`Encoder`] holds the latest source symbols and makes repair symbols over any run of them.
//! - [`Decoder`] holds what arrived and rebuilds what is missing, as early as the symbols received
//!   determine it, whatever mix of codes and overlapping windows they come from.
//! - An [`ErasureCode`] is the rule for coefficients between them: [`xor`], [`reed_solomon`],
//!   [`rlc`] (RFC 8681) and [`tetrys`] (RFC 9407), each a cargo feature; [`Scheme`] chooses among
//!   them at run time, and the trait takes yours.
//! - [`gf256`] is the arithmetic below, with kernels for SSSE3, AVX2, AVX-512, GFNI and NEON
//!   chosen at run time; useful alone.
//!
//! A block code is used like a sliding window, with windows that do not overlap
//! ([`CodingWindow::block`]):
//!
//! ```
//! # #[cfg(feature = "reed-solomon")] {
//! use tautline_codes::{CodingWindow, Decoder, Encoder, Limits, RepairId, reed_solomon::ReedSolomon};
//!
//! let mut encoder = Encoder::new(Limits::default());
//! let mut decoder = Decoder::new(Limits::default());
//! let packets: Vec<Vec<u8>> = (0..10).map(|i| vec![i; 100 + usize::from(i)]).collect();
//! for packet in &packets {
//!     let id = encoder.push(packet)?;
//!     // Packets 4, 5 and 6 are lost.
//!     if !(4..=6).contains(&id) {
//!         decoder.source(id, packet)?;
//!     }
//! }
//! let window = CodingWindow::block(0, 10);
//! let mut repairs = vec![[0; 1502]; 3];
//! let mut outputs: Vec<&mut [u8]> = repairs.iter_mut().map(|r| &mut r[..]).collect();
//! let len = encoder.repairs(&ReedSolomon, RepairId { window, key: 0 }, &mut outputs)?;
//! for (key, repair) in (0..).zip(&repairs) {
//!     decoder.repair(&ReedSolomon, RepairId { window, key }, &repair[..len])?;
//! }
//! let mut rebuilt = 0;
//! while let Some((id, symbol)) = decoder.next_recovered() {
//!     assert_eq!(symbol, packets[id as usize]);
//!     rebuilt += 1;
//! }
//! assert_eq!(rebuilt, 3);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Symbols may have any length up to the limit. Inside the code each is preceded by its length and
//! followed by zeros, neither of which is sent with it; a repair symbol is two bytes longer than
//! the longest source symbol of its window.
//!
//! Which code for what, what they cost, and which patent disclosures are on record:
//! `docs/codes.md` in the repository.

#![cfg_attr(not(feature = "simd"), forbid(unsafe_code))]
#![deny(unsafe_code)]
// Nothing that bytes or API order can do may panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod code;
mod decoder;
mod encoder;
pub mod error;
pub mod gf256;
mod limits;
#[cfg(feature = "reed-solomon")]
pub mod reed_solomon;
#[cfg(feature = "rlc")]
pub mod rlc;
mod symbol;
#[cfg(feature = "tetrys")]
pub mod tetrys;
#[cfg(feature = "xor")]
pub mod xor;

pub use code::{CodingWindow, ErasureCode, MAX_SYMBOL_ID, RepairId, Scheme};
pub use decoder::{Decoder, DecoderStats, Outcome};
pub use encoder::Encoder;
pub use error::{CodeError, DecodeError, EncodeError, LimitsError};
pub use limits::Limits;

/// The README's example, as a test.
#[cfg(all(doctest, feature = "reed-solomon"))]
#[doc = include_str!("../README.md")]
struct Readme;
