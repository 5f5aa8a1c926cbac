//! `tautline lab list`.

use std::{fmt::Write, path::Path};

use tautline_lab::plan::{Plan, ReadOptions};

use super::Laboratory;
use crate::{
    failure::{Failure, Outcome},
    output::print,
};

/// What to tell.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print the text of this plan, to make one's own of it
    #[arg(value_name = "PLAN")]
    plan: Option<String>,
}

pub(super) fn run(args: &Args, laboratory: &Laboratory) -> Outcome {
    if let Some(name) = &args.plan {
        let known = laboratory
            .plan(name)
            .ok_or_else(|| laboratory.unknown("no bundled plan", name))?;
        return print(known.text);
    }
    let mut text = String::new();
    let widths = laboratory.plans().map(|plan| plan.name.len());
    let width = widths.max().unwrap_or(0);
    for bundled in laboratory.plans() {
        let read = |smoke| {
            let options = ReadOptions {
                smoke,
                ..ReadOptions::default()
            };
            Plan::parse(bundled.text, Path::new("."), &options, &laboratory.stacks)
                .map_err(|error| Failure::new(error.to_string()))
        };
        let (full, smoke) = (read(false)?, read(true)?);
        let _ = writeln!(
            text,
            "{:width$}  {} ({} cells, {} with --smoke)",
            bundled.name,
            full.title,
            full.len(),
            smoke.len()
        );
    }
    print(&text)
}
