//! The laboratory's commands with the stacks of other makers: `list`, `run`, `report`, `show`.

use std::process::ExitCode;

use clap::Parser;
use tautline_cli::lab::{Command, Laboratory};

/// The laboratory, with stacks of other makers beside Tautline
#[derive(Debug, Parser)]
#[command(name = "tautline-lab-peers", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let laboratory = Laboratory {
        program: "cargo xtask lab-peers --",
        stacks: tautline_lab_peers::stacks(),
        plans: tautline_lab_peers::PLANS,
    };
    tautline_cli::lab::main(Cli::parse().command, &laboratory)
}
