//! The `tautline` program, and [`lab`] for programs that have more stacks than it.
//!
//! Purpose: the stack in everyday use: serve and get files, measure, demonstrate.
//! Owns: one folder per subcommand (`serve`, `get`, `perf`, `interop`, `demo`, [`lab`]), what they
//! share (`options`, `paths`, `erasure`, `identity`, `http09`, `checksum`, `output`, `signals`) and how they fail
//! (`failure`).
//! Does not own: QUIC (`tautline`), HTTP/3 (`tautline-h3`).
//! To add a subcommand: a folder with `Args` and `run`, and a variant of `Command`.

#![deny(
    clippy::print_stdout,
    reason = "it panics when nobody reads: `output::print`"
)]

mod checksum;
mod demo;
mod erasure;
mod failure;
mod get;
mod http09;
mod identity;
mod interop;
pub mod lab;
mod options;
mod output;
mod paths;
mod perf;
mod serve;
mod signals;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Outcome;

/// QUIC and HTTP/3 that stay taut on slack networks
#[derive(Debug, Parser)]
#[command(name = "tautline", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the files of a directory over HTTP/3, and over HTTPS for browsers to find it
    Serve(serve::Args),
    /// Download files over HTTP/3
    Get(get::Args),
    /// Measure a network with our own traffic
    #[command(subcommand)]
    Perf(perf::Command),
    /// Show what the stack does on bad links, without root and without a network
    Demo(demo::Args),
    /// Run experiments on simulated networks, or between two machines, from a plan to figures
    #[command(subcommand)]
    Lab(lab::Command),
    /// Play an end in the QUIC interop runner
    Interop(interop::Args),
}

/// The `tautline` program.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    ended(run(cli.command), "tautline")
}

/// Tells a failure, and makes an exit code of it.
fn ended(outcome: Outcome, program: &str) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{program}: {failure}");
            failure.exit_code()
        }
    }
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Serve(args) => block_on(serve::run(args)),
        Command::Get(args) => block_on(get::run(args)),
        Command::Perf(command) => block_on(perf::run(command)),
        Command::Demo(args) => demo::run(args),
        Command::Lab(command) => lab::run(command, &lab::Laboratory::default()),
        Command::Interop(args) => block_on(interop::run(args)),
    }
}

fn block_on(work: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(work);
    // A read of a slow disk that nobody waits for must not keep the program alive.
    runtime.shutdown_background();
    outcome
}
