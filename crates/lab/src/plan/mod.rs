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
mod points;
mod report;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;
use toml::{Table, Value};

pub use error::PlanError;
pub use factor::Level;
pub use report::{PaperFigure, ReportOptions};

use self::{
    design::Design,
    document::{locate, set},
    error::join,
    points::points,
};
use crate::{
    quantity::Span,
    scene::{DEFAULT_SAMPLE, Flow, Network, Scene},
    stack::{StackOptions, Stacks},
    workload::{Workload, file},
};

/// The largest plan file that is read.
const MAX_PLAN_BYTES: u64 = 4 << 20;

/// How a plan is read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Whether the `[smoke]` table applies.
    pub smoke: bool,
    /// Which draw of a random design; seeds of runs differ between draws too.
    pub draw: u64,
    /// Repetitions instead of the plan's.
    pub seeds: Option<u64>,
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
    /// Where files that it names are looked for.
    folder: PathBuf,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    #[serde(default = "one")]
    seeds: u64,
    #[serde(default = "ten_minutes")]
    limit: Span,
    #[serde(default = "default_sample")]
    sample: Span,
    #[serde(default)]
    window: Option<[Span; 2]>,
    #[serde(default)]
    series: Option<Span>,
    #[serde(default)]
    items: bool,
}

const fn one() -> u64 {
    1
}

const fn ten_minutes() -> Span {
    Span::seconds(600)
}

const fn default_sample() -> Span {
    DEFAULT_SAMPLE
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
        Self::parse(&text, folder, options, stacks).map_err(|error| PlanError {
            file: Some(file.to_owned()),
            ..error
        })
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
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            PlanError::new("", error.message().to_owned()).at(text, error.span())
        })?;
        Self::of_table(table, text, folder, options, stacks).map_err(|error| {
            let span = locate(text, &error.field);
            error.at(text, span)
        })
    }

    fn of_table(
        mut table: Table,
        text: &str,
        folder: &Path,
        options: &ReadOptions,
        stacks: &Stacks,
    ) -> Result<Self, PlanError> {
        if let Some(unknown) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let error = PlanError::new(unknown.clone(), "there is no such key");
            let names: Vec<String> = KEYS.iter().map(|key| (*key).to_owned()).collect();
            return Err(error.with_names(unknown, &names));
        }
        if let Some(smoke) = table.remove("smoke") {
            let Value::Table(smoke) = smoke else {
                return Err(PlanError::new(
                    "smoke",
                    "is not a table of paths and values",
                ));
            };
            for (path, value) in smoke {
                if options.smoke && !set(&mut table, &path, value) {
                    let problem = "leads nowhere in this plan";
                    return Err(PlanError::new(format!("smoke.{path}"), problem));
                }
            }
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
        let run = section::<Run>(&table, "run")?.unwrap_or(Run {
            seeds: 1,
            limit: ten_minutes(),
            sample: DEFAULT_SAMPLE,
            window: None,
            series: None,
            items: false,
        });
        let repetitions = options.seeds.unwrap_or(run.seeds);
        if repetitions == 0 || repetitions > 100_000 {
            return Err(PlanError::new("run.seeds", "is not between 1 and 100000"));
        }
        let points = points(&design, options.draw)?;
        let solutions = solutions(&table)?;
        let mut plan = Self {
            name,
            title,
            about,
            expect,
            factors: design.factor.iter().map(|f| f.name.clone()).collect(),
            points,
            solutions,
            repetitions,
            keep: Keep {
                series: run.series.map(|span| span.0),
                items: run.items,
            },
            report,
            files: BTreeMap::new(),
            text: text.to_owned(),
            options: options.clone(),
            folder: folder.to_owned(),
            base: table,
        };
        plan.files = plan.check(stacks)?;
        Ok(plan)
    }

    /// Makes every scene once; returns the files that were read.
    fn check(&self, stacks: &Stacks) -> Result<BTreeMap<String, String>, PlanError> {
        let mut files = BTreeMap::new();
        for point in 0..self.points.len() {
            for solution in 0..self.solutions.len() {
                // One solution would do for networks; but a factor may set a solution's options.
                let scene = self
                    .scene_of(point, solution, stacks)
                    .map_err(|error| self.blame(point, error))?;
                files.extend(files_of(&scene));
            }
        }
        self.report.check(&self.factors, &self.solutions)?;
        Ok(files)
    }

    /// Finds the factor that an error at a point comes from.
    fn blame(&self, point: usize, mut error: PlanError) -> PlanError {
        let levels = self
            .points
            .get(point)
            .map_or(&[][..], |point| &point.levels);
        let named = || self.factors.iter().zip(levels);
        let culprit = named().find(|(_, level)| {
            let mut paths = level.set.iter().map(|(path, _)| path);
            paths.any(|path| error.field.starts_with(path))
        });
        // What is wrong at the first point is wrong without factors, most likely.
        if culprit.is_some() || point > 0 {
            let at: Vec<String> = named()
                .map(|(name, level)| format!("{name} = {}", level.label))
                .collect();
            error.problem = format!("{} (at {})", error.problem, at.join(", "));
        }
        if let Some((name, _)) = culprit {
            error.field = format!("design.factor.{name}");
        }
        error
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
            seed: self.options.draw * 1_000_000_007 + point as u64 * 100_003 + repetition,
        })
    }

    /// All cells, by number.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        (0..self.len()).filter_map(|index| self.cell(index))
    }

    /// What a cell plays.
    ///
    /// # Errors
    /// When a file that the plan names is no longer what it was when the plan was read.
    pub fn scene(&self, cell: &Cell, stacks: &Stacks) -> Result<Scene, PlanError> {
        let scene = self.scene_of(cell.point, cell.solution, stacks)?;
        let changed = files_of(&scene).find(|(path, hash)| self.files.get(path) != Some(hash));
        match changed {
            Some((path, _)) => Err(PlanError::new("", format!("{path} has changed"))),
            None => Ok(scene),
        }
    }

    /// The whole of what a cell is made of, as a value.
    pub fn parameters(&self, cell: &Cell) -> Table {
        let mut table = self.document(cell.point, cell.solution).unwrap_or_default();
        for key in ["name", "title", "about", "expect", "design", "report"] {
            table.remove(key);
        }
        if let Some((name, options)) = self.solutions.get(cell.solution) {
            let mut solution = Table::try_from(options).unwrap_or_default();
            solution.insert("name".to_owned(), name.clone().into());
            table.insert("solution".to_owned(), solution.into());
        }
        if let Ok(files) = Table::try_from(&self.files)
            && !files.is_empty()
        {
            table.insert("files".to_owned(), files.into());
        }
        table
    }

    /// The plan with one point's values in it, `solution` being one table.
    fn document(&self, point: usize, solution: usize) -> Result<Table, PlanError> {
        let mut table = self.base.clone();
        let (_, options) = &self.solutions[solution];
        let options = Table::try_from(options).unwrap_or_default();
        table.insert("solution".to_owned(), Value::Table(options));
        for level in &self.points[point].levels {
            for (path, value) in &level.set {
                let root = path.split('.').next().unwrap_or_default();
                let may = ["network", "flow", "solution", "run"].contains(&root);
                if !may || !set(&mut table, path, value.clone()) {
                    let problem = format!(
                        "{path:?} leads nowhere: paths begin with network, flow.<name>, solution or run"
                    );
                    return Err(PlanError::new(path.clone(), problem));
                }
            }
        }
        Ok(table)
    }

    fn scene_of(&self, point: usize, solution: usize, stacks: &Stacks) -> Result<Scene, PlanError> {
        let table = self.document(point, solution)?;
        let network = match table.get("network") {
            Some(Value::Table(network)) => network,
            Some(_) => return Err(PlanError::new("network", "is not a table")),
            None => return Err(PlanError::new("", "`[network]` is missing")),
        };
        let network = Network::from_table(network, &self.folder).map_err(|error| {
            let wrong = quoted(&error.problem);
            let mut found = PlanError::of_serde(&join("network", &error.field), &error.problem);
            if !error.names.is_empty() {
                found = found.with_names(&wrong, &error.names);
            }
            found
        })?;
        let mut flows = Vec::new();
        let entries = match table.get("flow") {
            Some(Value::Array(entries)) => entries.as_slice(),
            Some(_) => return Err(PlanError::new("flow", "is not an array: write [[flow]]")),
            None => return Err(PlanError::new("", "there is no [[flow]]")),
        };
        let mut names = BTreeSet::new();
        for (index, entry) in entries.iter().enumerate() {
            let field = match entry.get("name").and_then(Value::as_str) {
                Some(name) => format!("flow.{name}"),
                None => format!("flow[{index}]"),
            };
            // By itself first, so that an error names a key of the workload.
            if let Some(workload) = entry.get("workload") {
                Workload::deserialize(workload.clone()).map_err(|error| {
                    PlanError::of_serde(&join(&field, "workload"), error.message())
                })?;
            }
            let mut flow = Flow::deserialize(entry.clone())
                .map_err(|error| PlanError::of_serde(&field, error.message()))?;
            flow.workload
                .resolve(&self.folder)
                .map_err(|error| PlanError::new(join(&field, "workload"), error.to_string()))?;
            if !names.insert(flow.name.clone()) {
                let problem = format!("two flows are called {:?}", flow.name);
                return Err(PlanError::new(format!("flow[{index}].name"), problem));
            }
            flows.push(flow);
        }
        let solution = table
            .get("solution")
            .cloned()
            .unwrap_or(Value::Boolean(false));
        let solution = StackOptions::deserialize(solution)
            .map_err(|error| PlanError::of_serde("solution", error.message()))?;
        let run = section::<Run>(&table, "run")?;
        let (limit, sample, window) = match run {
            Some(run) => (run.limit, run.sample, run.window),
            None => (ten_minutes(), DEFAULT_SAMPLE, None),
        };
        let scene = Scene {
            network,
            flows,
            solution,
            limit: limit.0,
            sample: sample.0,
            window: window.map(|[from, to]| (from.0, to.0)),
        };
        scene.validate(stacks).map_err(|error| {
            let wrong = quoted(&error.problem);
            PlanError::new(error.field, error.problem).with_names(&wrong, &error.names)
        })?;
        Ok(scene)
    }

    /// Where files that the plan names are looked for.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// The files that a scene's links and flows were read from, with their hashes.
fn files_of(scene: &Scene) -> impl Iterator<Item = (String, String)> {
    let links = scene.network.wires.iter();
    let flows = scene.flows.iter();
    links
        .flat_map(|wire| wire.files.clone())
        .chain(flows.flat_map(|flow| flow.workload.program().files()))
        .filter_map(|file| Some((file.path, file.sha256?)))
}

/// The first word in double quotes.
fn quoted(text: &str) -> String {
    text.split('"').nth(1).unwrap_or_default().to_owned()
}

fn section<T: for<'de> Deserialize<'de>>(table: &Table, key: &str) -> Result<Option<T>, PlanError> {
    let Some(value) = table.get(key) else {
        return Ok(None);
    };
    T::deserialize(value.clone())
        .map(Some)
        .map_err(|error| PlanError::of_serde(key, error.message()))
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
        let options = StackOptions::deserialize(Value::Table(entry))
            .map_err(|error| PlanError::of_serde(&format!("solution.{name}"), error.message()))?;
        solutions.push((name, options));
    }
    Ok(solutions)
}

#[cfg(test)]
mod tests;
