//! `tautline lab`: experiments from a plan to figures.
//!
//! Owns: where plans are found and results go, progress, interruption, words for errors. Does not
//! own: plans, runs, reports (`tautline-lab`).
//!
//! A program with stacks of its own has the same commands: it makes a [`Laboratory`] and calls
//! [`main`] with a parsed [`Command`].

mod far;
mod field;
mod list;
mod report;
mod run;
mod show;
mod under_way;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Subcommand;
use tautline_lab::{
    bundled::{self, Bundled},
    campaign::{self, CampaignError},
    plan::{Plan, ReadOptions, nearest},
    stack::Stacks,
};

use crate::failure::{Failure, Outcome};

/// What to do in the laboratory.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Name the bundled plans
    List(list::Args),
    /// Run a plan: rows as CSV and Parquet, one per cell
    Run(run::Args),
    /// Wait for field runs of another machine: its plans between both, over this network
    ///
    /// Serves whoever has the token, at most so many peers, bytes and seconds, and opens no file. Every run
    /// of `field` is then played over real UDP sockets between both machines.
    Far(far::Args),
    /// Run a plan between this machine and one that runs `far`: rows as of `run`, but measured
    ///
    /// The plan's workloads and solutions over the real network between both machines; the network that the
    /// plan describes is left aside, and points that differ in nothing else become one. Each block (a point
    /// and repetition with every solution) is run in an order of its own, drawn by --draw.
    Field(field::Args),
    /// Write the report of results: one HTML page and its figures
    Report(report::Args),
    /// Play one cell of results again, with qlog
    Show(show::Args),
}

/// What a program's laboratory has.
#[derive(Clone, Debug)]
pub struct Laboratory {
    /// What one types before `run PLAN`.
    pub program: &'static str,
    /// Stacks under test.
    pub stacks: Stacks,
    /// Plans of its own, beside [`bundled::PLANS`].
    pub plans: &'static [Bundled],
}

impl Default for Laboratory {
    /// The one of `tautline lab`.
    fn default() -> Self {
        Self {
            program: "tautline lab",
            stacks: Stacks::default(),
            plans: &[],
        }
    }
}

impl Laboratory {
    /// All plans that have a name.
    fn plans(&self) -> impl Iterator<Item = &Bundled> {
        bundled::PLANS.iter().chain(self.plans)
    }

    fn plan(&self, name: &str) -> Option<&Bundled> {
        self.plans().find(|plan| plan.name == name)
    }

    /// That no plan has this name; which one was perhaps meant.
    fn unknown(&self, what: &str, name: &str) -> Failure {
        let names: Vec<&str> = self.plans().map(|plan| plan.name).collect();
        let hint = match nearest(name, names.iter().copied()) {
            Some(nearest) => format!("; did you mean `{nearest}`?"),
            None => ".".to_owned(),
        };
        let names = names.join(", ");
        Failure::new(format!("{what} is called {name:?}{hint} There are {names}"))
    }
}

/// Runs a command, tells how it failed, and returns the program's exit code.
pub fn main(command: Command, laboratory: &Laboratory) -> ExitCode {
    crate::ended(run(command, laboratory), laboratory.program)
}

pub(crate) fn run(command: Command, laboratory: &Laboratory) -> Outcome {
    match command {
        Command::List(args) => list::run(&args, laboratory),
        Command::Run(args) => run::run(args, laboratory),
        Command::Far(args) => crate::block_on(far::run(args)),
        Command::Field(args) => field::run(args, laboratory),
        Command::Report(args) => report::run(&args, laboratory),
        Command::Show(args) => show::run(&args, laboratory),
    }
}

/// A bundled plan by its name, or a plan file.
fn find(plan: &str, options: &ReadOptions, laboratory: &Laboratory) -> Outcome<Plan> {
    let stacks = &laboratory.stacks;
    let words = |error: tautline_lab::plan::PlanError| Failure::new(error.to_string());
    let path = Path::new(plan);
    if let Some(known) = laboratory.plan(plan)
        && !path.is_file()
    {
        return Plan::parse(known.text, Path::new("."), options, stacks).map_err(words);
    }
    if !path.exists() && !plan.contains(['/', '\\', '.']) {
        return Err(laboratory.unknown("no bundled plan and no file", plan));
    }
    Plan::read(path, options, stacks).map_err(words)
}

/// The plan and results of a folder.
fn results(folder: &Path, laboratory: &Laboratory) -> Outcome<(Plan, campaign::Results)> {
    let words = |error: CampaignError| Failure::new(error.to_string());
    if !folder.join("manifest.json").exists() {
        return Err(Failure::new(format!(
            "{} holds no results; `{} run PLAN --out {0}` makes some",
            folder.display(),
            laboratory.program
        )));
    }
    let plan = campaign::plan_of(folder, &laboratory.stacks).map_err(words)?;
    let results = campaign::results(&plan, folder).map_err(words)?;
    Ok((plan, results))
}

/// Where results of a plan go unless said.
fn default_folder(plan: &Plan) -> PathBuf {
    let mut name = plan.name.clone();
    if plan.is_of_field() {
        name.push_str("-field");
    }
    if plan.options.smoke {
        name.push_str("-smoke");
    }
    if plan.options.draw != 0 {
        name.push_str(&format!("-draw{}", plan.options.draw));
    }
    Path::new("lab-results").join(name)
}
