//! Plans: an experiment as a TOML file.
//!
//! A plan has a `[network]`, one or several `[[flow]]`, one or several `[[solution]]` to compare,
//! a `[design]` of factors, a `[run]` with seeds and times, and a `[smoke]` table that makes it
//! small. Every combination of point, solution and repetition is a [`Cell`]; [`Plan::scene`] is
//! what it plays.
//!
//! Owns: reading, checking (everything, before anything runs), designs, cells. Does not own: what
//! a scene is (`scene`), running (`campaign`).

mod design;
mod document;
mod error;
mod factor;
mod field;
mod points;
mod report;
mod run;
mod scenes;

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde::Deserialize;
use toml::{Table, Value};

use error::NO_KEY;
pub use error::{PlanError, nearest};
pub use factor::Level;
pub use field::{FieldOptions, MOST_CONNECTIONS, refusal};
pub use report::{PaperFigure, ReportOptions};

use self::{
    design::Design,
    document::{locate, set},
    points::points,
    run::Run,
};
use crate::{
    reading::read,
    stack::{StackOptions, Stacks},
    workload::file::{self, FileRecord, Inputs},
};

/// The largest plan file that is read.
const MAX_PLAN_BYTES: u64 = 4 << 20;

/// No plan has more cells: about what the tables of one campaign take in memory.
const MAX_CELLS: u128 = 1_000_000;

/// No plan repeats itself more often.
const MAX_SEEDS: u64 = 100_000;

/// How a plan is read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Whether the `[smoke]` table applies.
    pub smoke: bool,
    /// Which draw of a random design; seeds of runs differ between draws too.
    pub draw: u64,
    /// Repetitions instead of the plan's.
    pub seeds: Option<u64>,
    /// Whether it is for two real machines, its simulated network being left aside, and how.
    pub field: Option<FieldOptions>,
}

/// A plan, read and checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its short name, also of its results' folder.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What it is about and where it comes from.
    pub about: String,
    /// What its figures are expected to show, in words.
    pub expect: Vec<String>,
    /// Names of the factors.
    pub factors: Vec<String>,
    /// Points of the design.
    pub points: Vec<Point>,
    /// What is compared.
    pub solutions: Vec<(String, StackOptions)>,
    /// Repetitions of each point and solution.
    pub repetitions: u64,
    /// Repetitions that the plan asks for at this size.
    pub planned: u64,
    /// What is kept beside rows.
    pub keep: Keep,
    /// What its report shows.
    pub report: ReportOptions,
    /// The files that its links and flows name, with the SHA-256 of what was read.
    pub files: BTreeMap<String, String>,
    /// Its text.
    pub text: String,
    /// How it was read.
    pub options: ReadOptions,
    /// The name of its file, without folders; `None` for a plan that is not a file.
    pub source: Option<String>,
    /// Where files that it names are found.
    inputs: Inputs,
    base: Table,
}

/// A point of the design: one level of each factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// One per factor, in their order.
    pub levels: Vec<Level>,
}

/// One run to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// Its number in the plan.
    pub index: usize,
    /// Which point.
    pub point: usize,
    /// Which solution.
    pub solution: usize,
    /// Which repetition, from 0.
    pub repetition: u64,
    /// The seed of everything random in it.
    pub seed: u64,
}

/// What is kept beside rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Time series of every connection, at this step.
    pub series: Option<Duration>,
    /// Every object, message and so on.
    pub items: bool,
}

const KEYS: &[&str] = &[
    "name", "title", "about", "expect", "network", "flow", "solution", "design", "run", "smoke",
    "report",
];

impl Plan {
    /// Reads and checks a plan file.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn read(file: &Path, options: &ReadOptions, stacks: &Stacks) -> Result<Self, PlanError> {
        let fail = |problem: String| PlanError {
            file: Some(file.to_owned()),
            ..PlanError::new("", problem)
        };
        let content =
            file::read(file, MAX_PLAN_BYTES).map_err(|reason| fail(format!("it {reason}")))?;
        let text =
            String::from_utf8(content).map_err(|_| fail("it is not text in UTF-8".to_owned()))?;
        let folder = file.parent().unwrap_or(Path::new("."));
        let read = Self::parse(&text, folder, options, stacks);
        let mut plan = read.map_err(|error| PlanError {
            file: Some(file.to_owned()),
            ..error
        })?;
        // Where somebody's files are on their machine is nobody's business.
        let name = file.file_name();
        plan.source = name.map(|name| name.to_string_lossy().into_owned());
        Ok(plan)
    }

    /// Reads and checks a plan; files it names are looked for in `folder`.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(
        text: &str,
        folder: &Path,
        options: &ReadOptions,
        stacks: &Stacks,
    ) -> Result<Self, PlanError> {
        Self::parse_with(text, folder.into(), options, stacks)
    }

    /// As [`Plan::parse`], with the files that it names from anywhere.
    pub(crate) fn parse_with(
        text: &str,
        inputs: Inputs,
        options: &ReadOptions,
        stacks: &Stacks,
    ) -> Result<Self, PlanError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            PlanError::new("", error.message().to_owned()).at(text, error.span())
        })?;
        Self::of_table(table, text, inputs, options, stacks).map_err(|error| {
            let place = error.place.as_ref();
            if let Some(span) = place.and_then(|place| locate(text, &place.0, options.smoke)) {
                return error.within(text, span);
            }
            let span = locate(text, &error.field, options.smoke);
            // What is missing in the plan as a whole is missing from its first line on.
            let span = span.or_else(|| error.field.is_empty().then_some(0..0));
            error.at(text, span)
        })
    }

    fn of_table(
        mut table: Table,
        text: &str,
        inputs: Inputs,
        options: &ReadOptions,
        stacks: &Stacks,
    ) -> Result<Self, PlanError> {
        if let Some(smoke) = table.remove("smoke") {
            let Value::Table(smoke) = smoke else {
                return Err(PlanError::new(
                    "smoke",
                    "is not a table of paths and values",
                ));
            };
            for (path, value) in smoke.into_iter().filter(|_| options.smoke) {
                set(&mut table, &path, value)
                    .map_err(|blocked| blocked.told(&format!("smoke.{path}"), &path))?;
            }
        }
        // After the small version's keys, which may be wrong as well.
        if let Some(unknown) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let error = PlanError::new(unknown.clone(), NO_KEY);
            let names: Vec<String> = KEYS.iter().map(|key| (*key).to_owned()).collect();
            return Err(error.with_names(unknown, &names));
        }
        let string = |key: &str| match table.get(key) {
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            Some(_) => Err(PlanError::new(key, "is not a text")),
            None => Err(PlanError::new("", format!("`{key}` is missing"))),
        };
        let name = string("name")?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.len() > 60 || !name.chars().all(plain) {
            return Err(PlanError::new(
                "name",
                "is not made of letters, digits and -",
            ));
        }
        let title = string("title")?;
        let about = string("about").unwrap_or_default();
        let expect = section::<Vec<String>>(&table, "expect")?.unwrap_or_default();
        let report = section::<ReportOptions>(&table, "report")?.unwrap_or_default();
        let design = section::<Design>(&table, "design")?.unwrap_or_default();
        let run = section::<Run>(&table, "run")?.unwrap_or_default();
        run.check()?;
        let repetitions = options.seeds.unwrap_or(run.seeds);
        // Who says it to the program is not to look for it in the plan.
        let seeds = match options.seeds {
            Some(_) => "--seeds",
            None => "run.seeds",
        };
        if repetitions == 0 || repetitions > MAX_SEEDS {
            let problem = format!("{repetitions} is not between 1 and {MAX_SEEDS}");
            return Err(PlanError::new(seeds, problem));
        }
        let mut solutions = solutions(&table)?;
        if let Some(field) = &options.field {
            field.choose(&mut solutions)?;
        }
        bounded(&design, solutions.len(), (repetitions, seeds))?;
        let mut points = points(&design, options.draw)?;
        points::distinct(&design, &points)?;
        let mut factors: Vec<String> = design.factor.iter().map(|f| f.name.clone()).collect();
        if options.field.is_some() {
            (factors, points) = field::without_network(factors, points);
        }
        let mut plan = Self {
            name,
            title,
            about,
            expect,
            factors,
            points,
            solutions,
            repetitions,
            planned: run.seeds,
            keep: run.keep(),
            report,
            files: BTreeMap::new(),
            text: text.to_owned(),
            options: options.clone(),
            source: None,
            inputs,
            base: table,
        };
        if plan.is_of_field() {
            plan.report = field::report(&plan);
        }
        plan.files = plan.check(stacks)?;
        Ok(plan)
    }

    /// Whether it is played between two real machines.
    pub fn is_of_field(&self) -> bool {
        self.options.field.is_some()
    }

    /// How many cells there are.
    pub fn len(&self) -> usize {
        self.points.len() * self.solutions.len() * self.repetitions as usize
    }

    /// Whether there is no cell; never true of a plan that was read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cell of this number.
    pub fn cell(&self, index: usize) -> Option<Cell> {
        if index >= self.len() {
            return None;
        }
        let repetitions = self.repetitions as usize;
        let repetition = (index % repetitions) as u64;
        let rest = index / repetitions;
        let (point, solution) = (rest / self.solutions.len(), rest % self.solutions.len());
        Some(Cell {
            index,
            point,
            solution,
            repetition,
            // Solutions of one point and repetition meet the same chance.
            seed: (self.options.draw.wrapping_mul(1_000_000_007))
                .wrapping_add(point as u64 * 100_003 + repetition),
        })
    }

    /// All cells, by number.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        (0..self.len()).filter_map(|index| self.cell(index))
    }

    /// What the files that the plan names hold, by their paths in the plan.
    ///
    /// # Errors
    /// As of a file that has changed since the plan was read.
    pub fn kept_files(&self) -> Result<BTreeMap<String, String>, String> {
        let contents = self.contents()?;
        let named = self.files.iter();
        let text =
            |(path, hash): (&String, &String)| Some((path.clone(), contents.get(hash)?.clone()));
        Ok(named.filter_map(text).collect())
    }

    /// What the files that the plan names hold, by SHA-256.
    ///
    /// # Errors
    /// The file, and why its text cannot be had: it is no longer what it was when the plan was read, or
    /// no text in UTF-8.
    pub(crate) fn contents(&self) -> Result<BTreeMap<String, String>, String> {
        let mut contents = BTreeMap::new();
        for (path, hash) in &self.files {
            let told = |reason: &str| format!("{path} {reason}");
            // As large as it was: that was looked at when it was read.
            let content = self.inputs.read(path, u64::MAX - 1);
            let content = content.map_err(|reason| told(&reason))?;
            if FileRecord::of(path.clone(), &content).sha256.as_ref() != Some(hash) {
                return Err(told("has changed"));
            }
            let text = String::from_utf8(content).map_err(|_| told("is not text in UTF-8"))?;
            contents.insert(hash.clone(), text);
        }
        Ok(contents)
    }
}

/// Refuses more cells than a campaign can hold, before a point is made.
fn bounded(
    design: &Design,
    solutions: usize,
    (repetitions, seeds): (u64, &str),
) -> Result<(), PlanError> {
    let points = points::count(design)?;
    let cells = (points as u128) * (solutions as u128) * u128::from(repetitions);
    if cells <= MAX_CELLS {
        return Ok(());
    }
    let mut parts = points::in_words(design);
    parts.push(format!("{solutions} solutions"));
    parts.push(format!("{repetitions} repetitions"));
    let problem = format!("{cells} cells ({}); at most {MAX_CELLS}", parts.join(" x "));
    let field = if repetitions > points as u64 {
        seeds
    } else {
        "design"
    };
    Err(PlanError::new(field, problem))
}

/// A section of the plan, if it has it.
fn section<T: for<'de> Deserialize<'de>>(table: &Table, key: &str) -> Result<Option<T>, PlanError> {
    let Some(value) = table.get(key) else {
        return Ok(None);
    };
    read(value.clone())
        .map(Some)
        .map_err(|error| PlanError::misread(key, &error))
}

fn solutions(table: &Table) -> Result<Vec<(String, StackOptions)>, PlanError> {
    let entries = match table.get("solution") {
        Some(Value::Array(entries)) if !entries.is_empty() => entries.as_slice(),
        Some(_) => {
            return Err(PlanError::new(
                "solution",
                "is not an array: write [[solution]]",
            ));
        }
        None => return Err(PlanError::new("", "there is no [[solution]]")),
    };
    let mut solutions: Vec<(String, StackOptions)> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let mut entry = entry
            .as_table()
            .cloned()
            .ok_or_else(|| PlanError::new(format!("solution[{index}]"), "is not a table"))?;
        let name = match entry.remove("name") {
            Some(Value::String(name)) if !name.is_empty() && name.len() <= 60 => name,
            _ => {
                let problem = "a solution needs a name of up to 60 characters";
                return Err(PlanError::new(format!("solution[{index}].name"), problem));
            }
        };
        if solutions.iter().any(|(other, _)| *other == name) {
            let problem = format!("two solutions are called {name:?}");
            return Err(PlanError::new(format!("solution[{index}].name"), problem));
        }
        let options = read(Value::Table(entry))
            .map_err(|error| PlanError::misread(&format!("solution.{name}"), &error))?;
        solutions.push((name, options));
    }
    Ok(solutions)
}

#[cfg(test)]
mod tests;
