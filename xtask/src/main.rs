//! The project's own commands: `cargo xtask COMMAND`.

mod bench;
mod calibrate;
mod ci;
mod deps;
mod fuzz;
mod interop;
mod lab_peers;
mod pages;
mod runner;
mod sizes;
mod test;
mod tools;

use clap::{Parser, Subcommand};

/// Tautline's project commands.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what tests need and is missing, then run every test.
    Test(test::Options),
    /// What continuous integration runs: format, lints, tests, sizes, dependencies between rooms.
    Ci,
    /// Run our client and server against other implementations; writes docs/interop.md.
    Interop(interop::Options),
    /// Play the QUIC interop runner's cases between two processes of ours; writes docs/runner.md.
    Runner(runner::Options),
    /// Measure ours beside other stacks in one run.
    Bench(bench::Options),
    /// The laboratory's commands with stacks of other makers: `lab-peers -- run PLAN`.
    LabPeers(lab_peers::Options),
    /// Play the laboratory's calibration plans simulated and on real sockets (needs root).
    Calibrate(calibrate::Options),
    /// Fill docs/results/*.template.md with the figures of the campaigns' pages.
    Pages(pages::Options),
    /// List files and functions that are longer than they should be.
    Sizes,
    /// Check which rooms and crates import which.
    Deps,
    /// Run fuzz targets (needs cargo-fuzz and a nightly toolchain).
    Fuzz(fuzz::Options),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Test(options) => test::run(&options),
        Command::Ci => ci::run(),
        Command::Interop(options) => interop::run(&options),
        Command::Runner(options) => runner::run_cases(&options),
        Command::Bench(options) => bench::run(&options),
        Command::LabPeers(options) => lab_peers::run(&options),
        Command::Calibrate(options) => calibrate::run_plans(&options),
        Command::Pages(options) => pages::run(&options),
        Command::Sizes => sizes::run(),
        Command::Deps => deps::run(),
        Command::Fuzz(options) => fuzz::run(&options),
    }
}
