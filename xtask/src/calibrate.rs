//! `cargo xtask calibrate`: the laboratory against real sockets.
//!
//! Builds `crates/calibration` and starts it.

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::tools::{cargo, programs, root, run};

#[derive(Args)]
pub(crate) struct Options {
    /// Put the tables into docs/calibration.md; of `mptcp` into docs/results/mptcp.md.
    #[arg(long)]
    write: bool,
    /// Passed on: --runs 20, --plan bulk|short|all, --jobs 1, --draw 0, --smoke, --csv FILE; or `mptcp`,
    /// several paths beside the kernel's TCP and MPTCP, then --runs 5, --jobs 2, --only TEXT, --congestion NAME, --plan FILE, --draw 0,
    /// --smoke, --csv FILE.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run_plans(options: &Options) -> Result<()> {
    run(cargo().args([
        "build",
        "--locked",
        "--quiet",
        "--package",
        "tautline-calibration",
    ]))?;
    let is_mptcp = options
        .arguments
        .first()
        .is_some_and(|first| first == "mptcp");
    let mut calibration = std::process::Command::new(programs()?.join("tautline-calibration"));
    calibration.args(&options.arguments);
    if options.write {
        let document = if is_mptcp {
            "docs/results/mptcp.md"
        } else {
            "docs/calibration.md"
        };
        calibration.arg("--document").arg(root().join(document));
    }
    let status = calibration
        .status()
        .context("cannot start tautline-calibration")?;
    if !status.success() {
        bail!(if is_mptcp {
            "several paths are not as fast as the kernel's MPTCP"
        } else {
            "simulation and sockets do not agree"
        });
    }
    Ok(())
}
