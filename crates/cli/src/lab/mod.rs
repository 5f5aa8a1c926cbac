//! `tautline lab`: experiments from a plan to figures.
//!
//! Owns: where plans are found and results go, progress, interruption, words for errors. Does not
//! own: plans, runs, reports (`tautline-lab`).

mod list;
mod report;
mod run;
mod show;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use tautline_lab::{
    bundled,
    campaign::{self, CampaignError},
    plan::{Plan, ReadOptions},
    stack::Stacks,
};

use crate::failure::{Failure, Outcome};

/// What to do in the laboratory.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Name the bundled plans
    List(list::Args),
    /// Run a plan: rows as CSV and Parquet, one per cell
    Run(run::Args),
    /// Write the report of results: one HTML page and its figures
    Report(report::Args),
    /// Play one cell of results again, with qlog
    Show(show::Args),
}

pub(crate) fn run(command: Command) -> Outcome {
    match command {
        Command::List(args) => list::run(&args),
        Command::Run(args) => run::run(args),
        Command::Report(args) => report::run(&args),
        Command::Show(args) => show::run(&args),
    }
}

/// A bundled plan by its name, or a plan file.
fn find(plan: &str, options: &ReadOptions, stacks: &Stacks) -> Outcome<Plan> {
    let words = |error: tautline_lab::plan::PlanError| Failure::new(error.to_string());
    let path = Path::new(plan);
    if let Some(known) = bundled::by_name(plan)
        && !path.exists()
    {
        return Plan::parse(known.text, Path::new("."), options, stacks).map_err(words);
    }
    if !path.exists() && !plan.contains(['/', '\\', '.']) {
        let names: Vec<&str> = bundled::PLANS.iter().map(|plan| plan.name).collect();
        return Err(Failure::new(format!(
            "no bundled plan and no file is called {plan:?}; there are {}",
            names.join(", ")
        )));
    }
    Plan::read(path, options, stacks).map_err(words)
}

/// The plan and results of a folder.
fn results(folder: &Path, stacks: &Stacks) -> Outcome<(Plan, campaign::Results)> {
    let words = |error: CampaignError| Failure::new(error.to_string());
    if !folder.join("manifest.json").exists() {
        return Err(Failure::new(format!(
            "{} holds no results; `tautline lab run PLAN --out {0}` makes some",
            folder.display()
        )));
    }
    let plan = campaign::plan_of(folder, stacks).map_err(words)?;
    let results = campaign::results(&plan, folder).map_err(words)?;
    Ok((plan, results))
}

/// Where results of a plan go unless said.
fn default_folder(plan: &Plan) -> PathBuf {
    let mut name = plan.name.clone();
    if plan.options.smoke {
        name.push_str("-smoke");
    }
    if plan.options.draw != 0 {
        name.push_str(&format!("-draw{}", plan.options.draw));
    }
    Path::new("lab-results").join(name)
}
