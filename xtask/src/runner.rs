//! `cargo xtask runner`: the QUIC interop runner's cases, Tautline to Tautline, as two processes.
//!
//! Builds the program and `crates/runner`, which plays and judges the cases, and starts the latter.

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::tools::{cargo, programs, root, run};

#[derive(Args)]
pub(crate) struct Options {
    /// Only these cases (several times or comma-separated); writes no document.
    #[arg(long, value_delimiter = ',')]
    case: Vec<String>,
    /// Of every random fault of the wire.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep files, logs, qlog traces and keys of every run, and say where.
    #[arg(long)]
    keep: bool,
    /// List the cases.
    #[arg(long)]
    list: bool,
}

pub(crate) fn run_cases(options: &Options) -> Result<()> {
    run(cargo().args(["build", "--locked", "--quiet"]).args([
        "--package",
        "tautline-cli",
        "--package",
        "tautline-runner",
    ]))?;
    let programs = programs()?;
    let mut runner = std::process::Command::new(programs.join("tautline-runner"));
    runner
        .arg("--tautline")
        .arg(programs.join("tautline"))
        .arg("--document")
        .arg(root().join("docs").join("runner.md"))
        .arg(format!("--seed={}", options.seed))
        .args(options.case.iter().map(|case| format!("--case={case}")));
    if options.keep {
        runner.arg("--keep");
    }
    if options.list {
        runner.arg("--list");
    }
    let status = runner.status().context("cannot start tautline-runner")?;
    if !status.success() {
        bail!("not every case passed");
    }
    Ok(())
}
