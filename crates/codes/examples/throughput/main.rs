//! How fast the codes are on this machine: bytes a second of every kernel, time and paired ratio
//! of every scheme.
//!
//! `cargo run --release -p tautline-codes --example throughput [symbol bytes]`
//!
//! Each figure comes from many short runs, each paired with a run of its reference (the exclusive
//! or of the same symbols) just before it, so that a busy machine slows both. Times are those of
//! the quieter runs, ratios are medians: compare ratios, not times, between machines. Bytes count source bytes once for each sum they enter.

mod clock;
mod kernels;
mod schemes;

fn main() {
    let symbol_bytes = std::env::args()
        .nth(1)
        .and_then(|arg| arg.parse().ok())
        .unwrap_or(1200);
    kernels::print(symbol_bytes);
    schemes::print(symbol_bytes);
}
