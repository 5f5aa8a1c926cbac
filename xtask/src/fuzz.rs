//! `cargo xtask fuzz`: libFuzzer over the targets in `fuzz/`.

use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::tools::{has, root, run as run_command};

#[derive(Args)]
pub(crate) struct Options {
    /// Which target; all of them if left out.
    target: Option<String>,
    /// Executions per target.
    #[arg(long, default_value_t = 1_000_000)]
    runs: u64,
    /// `address`, or `none`, which is several times faster: our own crates hold next to no
    /// unsafe code, and debug assertions and overflow checks stay on.
    #[arg(long, default_value = "address")]
    sanitizer: String,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if !has("cargo-fuzz") {
        bail!("cargo-fuzz is missing: run `cargo install --locked cargo-fuzz`");
    }
    let folder = root().join("fuzz");
    let targets = match &options.target {
        Some(target) => vec![target.clone()],
        None => targets(&folder)?,
    };
    for target in targets {
        let mut fuzz = Command::new("cargo");
        fuzz.current_dir(&folder)
            .args(["+nightly", "fuzz", "run", "--debug-assertions"])
            .args(["--sanitizer", &options.sanitizer, &target, "--"]);
        run_command(fuzz.arg(format!("-runs={}", options.runs)))?;
    }
    Ok(())
}

fn targets(folder: &std::path::Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder.join("fuzz_targets"))? {
        let path = entry?.path();
        if let Some(name) = path.file_stem().and_then(|stem| stem.to_str()) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}
