//! The bodies of the fuzz targets, and the seeds they start from.
//!
//! Purpose: one function per target, callable without a fuzzer, so that `cargo test` replays
//! `fuzz/corpus` (see `tests/corpus.rs`) and a finding becomes a plain test.
//! Owns: [`TARGETS`], their bodies, [`seeds`].
//! Does not own: the fuzzer's glue (`fuzz/fuzz_targets/`), the corpus (`fuzz/corpus/`).
//! To add a target: a function here and a line in [`TARGETS`]; a file in `fuzz/fuzz_targets/` and
//! a `[[bin]]` in `fuzz/Cargo.toml`; seeds.

mod seeds;
mod wire;

pub use seeds::seeds;
pub use wire::{frames, headers, transport_parameters, varint};

/// A target: its name, which is also its folder under `fuzz/corpus`, and its body, which panics
/// when a property does not hold.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("frames", frames),
    ("headers", headers),
    ("transport_parameters", transport_parameters),
    ("varint", varint),
];
