//! `cargo xtask ci`: what must hold before anything lands.

use anyhow::Result;

use crate::tools::{self, cargo};

pub(crate) fn run() -> Result<()> {
    tools::run(cargo().args(["fmt", "--all", "--check"]))?;
    tools::run(cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))?;
    crate::deps::run()?;
    crate::sizes::run()?;
    crate::test::run(&crate::test::Options::default())
}
