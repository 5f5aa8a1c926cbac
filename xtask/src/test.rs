//! `cargo xtask test`: everything a fresh machine needs, then every test.

use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::tools::{cargo, has};

/// Programs that some tests use, and the Debian packages they come in.
const NEEDED: &[(&str, &str)] = &[("cc", "gcc")];

#[derive(Args, Default)]
pub(crate) struct Options {
    /// Passed on to the test programs.
    #[arg(last = true)]
    arguments: Vec<String>,
}

fn install_missing() {
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(program, _)| !has(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return;
    }
    println!(
        "missing: {}; installing by package name",
        missing.join(", ")
    );
    let installed = has("apt-get")
        && crate::tools::run(Command::new("apt-get").args(["update", "-qq"])).is_ok()
        && crate::tools::run(
            Command::new("apt-get")
                .args(["install", "-y", "-qq"])
                .args(&missing),
        )
        .is_ok();
    if !installed {
        println!(
            "could not install {}: tests that need them will say *skipped*",
            missing.join(", ")
        );
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    install_missing();
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
    if !options.arguments.is_empty() {
        tests.arg("--").args(&options.arguments);
    }
    crate::tools::run(&mut tests)
}
