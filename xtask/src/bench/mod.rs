//! `cargo xtask bench`: ours beside other stacks, in one run on one machine.
//!
//! Every stack is a program under `interop/bench/` that serves and loads in the same way (see
//! `interop/bench/kit`). Figures of a noisy machine mean little by themselves: runs of all stacks
//! are interleaved, and what counts are ratios, CPU time and instructions.

mod arms;
mod codes;
mod compare;
mod fec;
mod instructions;
mod laboratory;
mod memory;
mod pacing;
mod paths;
mod program;
mod report;
mod sim;

use anyhow::Result;
use clap::{Args, ValueEnum};

use program::Programs;
use report::Report;

#[derive(Args)]
pub(crate) struct Options {
    /// What to measure.
    #[arg(value_enum, default_value = "all")]
    what: What,
    /// Megabytes (10^6) per bulk run.
    #[arg(long, default_value_t = 1_000)]
    mb: u64,
    /// Interleaved runs (of the codes: of each kernel).
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Seconds per run of handshakes, requests and pacing.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Only these stacks (ours always runs).
    #[arg(long, value_delimiter = ',')]
    stacks: Vec<String>,
    /// Only these kernels of our erasure codes, of those that run here.
    #[arg(long, value_delimiter = ',')]
    kernels: Vec<String>,
    /// Count the instructions of codes, erasure correction and two paths, too, with valgrind.
    #[arg(long)]
    instructions: bool,
    /// Threads of every stack's runtime, instead of what suits it best; 0 is tokio's
    /// single-threaded runtime.
    #[arg(long)]
    threads: Option<usize>,
    /// Print only; leave docs/bench.md as it is.
    #[arg(long)]
    dry: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// One large download on one stream.
    Bulk,
    /// The same over 100 streams.
    Streams,
    /// Connections made and closed.
    Handshakes,
    /// Small requests.
    Requests,
    /// Heap per connection, and what many connections leave behind.
    Memory,
    /// Gaps between packets at three rates.
    Pacing,
    /// Erasure correction negotiated where nothing is lost, beside plain: goodput and CPU per GB.
    Fec,
    /// Two paths on loopback beside one: goodput and CPU per GB.
    Paths,
    /// Instructions per packet and where they go.
    Callgrind,
    /// Our erasure codes beside reed-solomon-simd, rlnc, raptorq and reed-solomon-erasure: ratios to
    /// the first of them in the same rounds, ours with each kernel that runs here, and which bars
    /// that passes.
    Codes,
    /// Our congestion controllers beside quinn-proto's and noq-proto's in the simulator; writes
    /// docs/sim-comparison.md and fails when a bar does. Takes minutes
    /// of both processors.
    Sim,
    /// Megabytes that the laboratory delivers per second of CPU, and how its cost grows with packets.
    Laboratory,
    /// Everything but the simulator's comparison and the laboratory's speed.
    All,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.what == What::Sim {
        return sim::run_comparison(options.dry);
    }
    if options.what == What::Laboratory {
        return Report::open(options.dry)?.put(&laboratory::run(options)?);
    }
    let wanted = |what| options.what == what || options.what == What::All;
    if options.what == What::Codes {
        return Report::open(options.dry)?.put(&codes::run(options)?);
    }
    let loads: Vec<_> = compare::LOADS
        .iter()
        .filter(|load| wanted(load.what))
        .collect();
    let programs = Programs::build(options, !loads.is_empty())?;
    let mut report = Report::open(options.dry)?;
    for load in loads {
        report.put(&compare::run(&programs, options, load)?)?;
    }
    if wanted(What::Memory) {
        report.put(&memory::run(&programs)?)?;
    }
    if wanted(What::Pacing) {
        report.put(&pacing::run(&programs, options)?)?;
    }
    if wanted(What::Fec) {
        report.put(&fec::run(&programs, options)?)?;
    }
    if wanted(What::Paths) {
        report.put(&paths::run(&programs, options)?)?;
    }
    if wanted(What::Callgrind) {
        report.put(&instructions::run(&programs)?)?;
    }
    if wanted(What::Codes) {
        report.put(&codes::run(options)?)?;
    }
    Ok(())
}
