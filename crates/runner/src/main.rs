//! The QUIC interop runner's test cases between two processes of the `tautline` program.
//!
//! Purpose: show that client and server, as the runner would start them, pass its cases over its
//! networks. Both run as processes of their own; between them is [`wire`], which impairs datagrams
//! with the very link model that the tests in the simulator use, in real time.
//! Owns: the cases (`case.rs`), one run (`play.rs`), the wire, reading packets with logged secrets
//! (`keys.rs`, `dissect.rs`, `tls.rs`), the verdict (`judge.rs`), the document (`document.rs`).
//! Does not own: what an end does in a case (`tautline interop`).
//! Called by: `cargo xtask runner`.

mod case;
mod dissect;
mod document;
mod judge;
mod keys;
mod play;
mod process;
mod tls;
mod wire;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Parser;

use case::Case;
use document::Row;

/// Plays the QUIC interop runner's test cases, Tautline to Tautline, as processes
#[derive(Debug, Parser)]
#[command(name = "cargo xtask runner")]
struct Arguments {
    /// The `tautline` program
    #[arg(long, value_name = "FILE")]
    tautline: PathBuf,
    /// Only these cases (several times or comma-separated)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    case: Vec<String>,
    /// Of every random fault of the wire
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Write the table there if all cases were played
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
    /// Keep files, logs, qlog traces and keys of every run, and say where
    #[arg(long)]
    keep: bool,
    /// List the cases
    #[arg(long)]
    list: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.list {
        for case in case::ALL {
            println!("{:32} {}", case.title(), case.meaning);
        }
        return Ok(());
    }
    if let Some(unknown) = arguments
        .case
        .iter()
        .find(|name| !case::ALL.iter().any(|case| case.name == **name))
    {
        bail!("there is no case {unknown}; --list names them");
    }
    let wanted = |case: &&Case| {
        arguments.case.is_empty() || arguments.case.iter().any(|name| name == case.name)
    };
    let folder = std::env::temp_dir().join(format!("tautline-runner-{}", std::process::id()));
    let mut rows = Vec::new();
    for case in case::ALL.iter().filter(wanted) {
        let row = play(case, &arguments, &folder);
        println!("{}", row.line());
        rows.push(row);
    }
    if arguments.keep {
        println!("kept: {}", folder.display());
    } else {
        let _ = std::fs::remove_dir_all(&folder);
    }
    if let Some(file) = arguments.document.filter(|_| arguments.case.is_empty()) {
        std::fs::write(&file, document::document(&rows, arguments.seed))?;
        println!("written: {}", file.display());
    }
    let failed = rows.iter().filter(|row| row.failure().is_some()).count();
    if failed > 0 {
        bail!("{failed} of {} rows fail", rows.len());
    }
    Ok(())
}

/// All runs of a case.
fn play(case: &'static Case, arguments: &Arguments, folder: &Path) -> Row {
    let mut outcomes = Vec::new();
    for run in 0..case.runs {
        let home = folder.join(format!("{}-{run}", case.title().replace(' ', "-")));
        // Runs of one case differ in their faults.
        let seed = arguments.seed.wrapping_add(run as u64);
        outcomes.push(play::play(case, &arguments.tautline, &home, seed));
        if !arguments.keep {
            let _ = std::fs::remove_dir_all(&home);
        }
    }
    Row { case, outcomes }
}
