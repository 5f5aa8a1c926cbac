//! `cargo xtask bench sim`: `interop/sim` compares, judges and writes docs/sim-comparison.md.

use anyhow::Result;

use crate::tools::{cargo, root, run};

pub(super) fn run_comparison(dry: bool) -> Result<()> {
    let mut command = cargo();
    command
        .current_dir(root().join("interop"))
        .args(["run", "--locked", "--release", "--package", "interop-sim"])
        .args(["--", "cells", "bbr3"]);
    if !dry {
        command
            .arg("--document")
            .arg(root().join("docs").join("sim-comparison.md"));
    }
    run(&mut command)
}
