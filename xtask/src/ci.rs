//! `cargo xtask ci`: what must hold before anything lands.

use anyhow::Result;

use crate::tools::{self, cargo};

/// Builds of the transport with none of the erasure codes, and with each alone.
const CODES: [&str; 5] = ["", "fec-xor", "fec-reed-solomon", "fec-rlc", "fec-tetrys"];

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
    for code in CODES {
        tools::run(cargo().args([
            "clippy",
            "--package",
            "tautline-transport",
            "--locked",
            "--no-default-features",
            "--features",
            code,
            "--",
            "-D",
            "warnings",
        ]))?;
    }
    crate::deps::run()?;
    crate::sizes::run()?;
    crate::test::run(&crate::test::Options::default())
}
