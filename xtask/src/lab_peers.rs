//! `cargo xtask lab-peers`: `interop/lab`, which is `tautline lab` with more stacks.

use anyhow::Result;
use clap::Args;

use crate::tools::{cargo, root, run as run_command};

#[derive(Args)]
pub(crate) struct Options {
    /// Run its tests instead.
    #[arg(long)]
    test: bool,
    /// What `tautline lab` takes: `list`, `run PLAN`, `report DIR`, `show DIR CELL`.
    #[arg(last = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let manifest = root().join("interop").join("Cargo.toml");
    let mut command = cargo();
    // Plans and results are where the user is.
    command.current_dir(std::env::current_dir()?);
    command
        .arg(if options.test { "test" } else { "run" })
        .args(["--quiet", "--locked", "--release"])
        .args(["--package", "tautline-lab-peers", "--manifest-path"])
        .arg(manifest)
        .arg("--")
        .args(&options.arguments);
    run_command(&mut command)
}
