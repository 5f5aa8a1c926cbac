//! `tautline lab list`.

use std::{fmt::Write, path::Path};

use tautline_lab::{
    bundled::PLANS,
    plan::{Plan, ReadOptions},
    stack::Stacks,
};

use crate::{
    failure::{Failure, Outcome},
    output::print,
};

/// What to tell.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the text of this plan, to make one's own of it
    #[arg(value_name = "PLAN")]
    plan: Option<String>,
}

pub(super) fn run(args: &Args) -> Outcome {
    if let Some(name) = &args.plan {
        let known = tautline_lab::bundled::by_name(name)
            .ok_or_else(|| Failure::new(format!("no bundled plan is called {name:?}")))?;
        return print(known.text);
    }
    let stacks = Stacks::default();
    let mut text = String::new();
    let width = PLANS.iter().map(|plan| plan.name.len()).max().unwrap_or(0);
    for bundled in PLANS {
        let read = |smoke| {
            let options = ReadOptions {
                smoke,
                ..ReadOptions::default()
            };
            Plan::parse(bundled.text, Path::new("."), &options, &stacks)
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
