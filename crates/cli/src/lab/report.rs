//! `tautline lab report`.

use std::path::PathBuf;

use tautline_lab::report;

use super::Laboratory;
use crate::{
    failure::{Failure, Outcome},
    output::print,
};

/// What to report on.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of `tautline lab run`
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn run(args: &Args, laboratory: &Laboratory) -> Outcome {
    let (plan, results) = super::results(&args.folder, laboratory)?;
    if results.cells.rows.is_empty() {
        return Err(Failure::new(format!(
            "{} holds no finished cell yet",
            args.folder.display()
        )));
    }
    let files = report::write(&plan, &results, &args.folder)
        .map_err(|error| Failure::new(error.to_string()))?;
    let mut text = String::new();
    if results.missing > 0 {
        text.push_str(&format!(
            "{} cells have no row yet; the report is of the rest\n",
            results.missing
        ));
    }
    if let Some(page) = files.first() {
        text.push_str(&format!(
            "{} and {} more files\n",
            page.display(),
            files.len().saturating_sub(1)
        ));
    }
    print(&text)
}
