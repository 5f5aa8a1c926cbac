//! The bodies of the fuzz targets, and the seeds they start from.
//!
//! Purpose: one function per target, callable without a fuzzer, so that `cargo test` replays
//! `fuzz/corpus` (see `tests/corpus.rs`) and a finding becomes a plain test.
//! Owns: [`TARGETS`], their bodies, [`seeds`].
//! Does not own: the fuzzer's glue (`fuzz/fuzz_targets/`), the corpus (`fuzz/corpus/`).
//! To add a target: a function here and a line in [`TARGETS`]; a file in `fuzz/fuzz_targets/` and
//! a `[[bin]]` in `fuzz/Cargo.toml`; seeds.

mod codes;
mod coverage;
mod endpoint;
mod input;
mod pair;
mod seeds;
mod tls;
mod wire;

pub use codes::codes;
pub use coverage::{Coverage, Reached};
pub use endpoint::{datagram_in, run_datagram_in, tokens};
pub use pair::{describe_pair, honest_script, pair, run_pair};
pub use seeds::seeds;
pub use tls::client_hello;
pub use wire::{frames, headers, transport_parameters, varint};

/// A target: its name, which is also its folder under `fuzz/corpus`, and its body, which panics
/// when a property does not hold.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("client_hello", client_hello),
    ("codes", codes),
    ("datagram_in", datagram_in),
    ("frames", frames),
    ("headers", headers),
    ("pair", pair),
    ("tokens", tokens),
    ("transport_parameters", transport_parameters),
    ("varint", varint),
];
