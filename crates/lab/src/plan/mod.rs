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

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;
use toml::{Table, Value};

pub use error::PlanError;
pub use factor::Level;

use self::{
    design::{Design, Kind, MAX_POINTS},
    document::{locate, set},
    error::join,
};
use crate::{
    quantity::Span,
    scene::{DEFAULT_SAMPLE, Flow, Network, Scene},
    stack::{StackOptions, Stacks},
    workload::Workload,
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

/// What a plan says about its report.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportOptions {
    /// The solution that others are compared with.
    #[serde(default)]
    pub baseline: Option<String>,
    /// The metrics shown, most important first.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// The factor along the axis of charts.
    #[serde(default)]
    pub x: Option<String>,
    /// What the papers report, to stand beside.
    #[serde(default)]
    pub paper: Vec<PaperFigure>,
}

/// A figure of a paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperFigure {
    /// Where it stands.
    pub source: String,
    /// What it is of.
    pub what: String,
    /// The metric of ours that compares.
    pub metric: String,
    /// The solution of ours that compares.
    #[serde(default)]
    pub solution: Option<String>,
    /// The point of ours that compares: labels by factor name.
    #[serde(default)]
    pub point: Table,
    /// Their number.
    pub value: f64,
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
        let size = std::fs::metadata(file).map_err(|e| fail(format!("cannot be read: {e}")))?;
        if size.len() > MAX_PLAN_BYTES {
            return Err(fail(format!("is larger than {MAX_PLAN_BYTES} bytes")));
        }
        let text =
            std::fs::read_to_string(file).map_err(|e| fail(format!("cannot be read: {e}")))?;
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
        let plan = Self {
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
            text: text.to_owned(),
            options: options.clone(),
            folder: folder.to_owned(),
            base: table,
        };
        plan.check(stacks)?;
        Ok(plan)
    }

    /// Makes every scene once.
    fn check(&self, stacks: &Stacks) -> Result<(), PlanError> {
        for point in 0..self.points.len() {
            for solution in 0..self.solutions.len() {
                // One solution would do for networks; but a factor may set a solution's options.
                self.scene_of(point, solution, stacks)
                    .map_err(|error| self.blame(point, error))?;
            }
        }
        for metric in &self.report.metrics {
            let known = crate::metric::METRICS.iter().map(|metric| metric.name);
            if !known.clone().any(|name| name == metric) && !metric.starts_with("x_") {
                let names: Vec<String> = known.map(str::to_owned).collect();
                let problem = format!("no metric is called {metric:?}");
                return Err(PlanError::new("report.metrics", problem).with_names(metric, &names));
            }
        }
        if let Some(baseline) = &self.report.baseline {
            let names: Vec<String> = self
                .solutions
                .iter()
                .map(|(name, _)| name.clone())
                .collect();
            if !names.contains(baseline) {
                let problem = format!("no solution is called {baseline:?}");
                return Err(PlanError::new("report.baseline", problem).with_names(baseline, &names));
            }
        }
        Ok(())
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
    /// None for a plan that was read with the same stacks.
    pub fn scene(&self, cell: &Cell, stacks: &Stacks) -> Result<Scene, PlanError> {
        self.scene_of(cell.point, cell.solution, stacks)
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

fn points(design: &Design, draw: u64) -> Result<Vec<Point>, PlanError> {
    for (index, factor) in design.factor.iter().enumerate() {
        let field = format!("design.factor[{index}]");
        factor
            .check()
            .map_err(|(inner, problem)| PlanError::new(join(&field, &inner), problem))?;
        if design
            .factor
            .iter()
            .filter(|other| other.name == factor.name)
            .count()
            > 1
        {
            let problem = format!("two factors are called {:?}", factor.name);
            return Err(PlanError::new(join(&field, "name"), problem));
        }
        if factor.values.is_empty() && matches!(design.kind, Kind::Grid) {
            return Err(PlanError::new(
                join(&field, "values"),
                "a grid needs values, not a range",
            ));
        }
    }
    let count = || match design.count {
        Some(count @ 1..=10_000) => Ok(count),
        Some(_) => Err(PlanError::new("design.count", "is not between 1 and 10000")),
        None => Err(PlanError::new(
            "design",
            "`count`, the number of points, is missing",
        )),
    };
    let points = match design.kind {
        Kind::Grid => {
            let levels: Vec<Vec<Level>> =
                design.factor.iter().map(factor::Factor::levels).collect();
            let sizes: Vec<usize> = levels.iter().map(Vec::len).collect();
            let product = sizes
                .iter()
                .try_fold(1usize, |all, size| all.checked_mul(*size));
            if product.is_none_or(|product| product > MAX_POINTS) {
                return Err(PlanError::new(
                    "design.factor",
                    format!("more than {MAX_POINTS} points"),
                ));
            }
            let pick = |point: Vec<usize>| Point {
                levels: point
                    .iter()
                    .zip(&levels)
                    .filter_map(|(index, levels)| levels.get(*index).cloned())
                    .collect(),
            };
            design::grid(&sizes).into_iter().map(pick).collect()
        }
        Kind::List => {
            let mut points = Vec::new();
            for (index, listed) in design.point.iter().enumerate() {
                let field = format!("design.point[{index}]");
                if let Some(unknown) = listed
                    .keys()
                    .find(|key| !design.factor.iter().any(|factor| factor.name == **key))
                {
                    let names: Vec<String> = design
                        .factor
                        .iter()
                        .map(|factor| factor.name.clone())
                        .collect();
                    let error = PlanError::new(join(&field, unknown), "there is no such factor");
                    return Err(error.with_names(unknown, &names));
                }
                let mut levels = Vec::new();
                for factor in &design.factor {
                    let value = listed.get(&factor.name).ok_or_else(|| {
                        PlanError::new(&field, format!("`{}` is missing", factor.name))
                    })?;
                    levels.push(factor.level(value));
                }
                points.push(Point { levels });
            }
            points
        }
        Kind::Wsp => filled(design, count()?, draw, design::wsp)?,
        Kind::Lhs => filled(design, count()?, draw, design::lhs)?,
    };
    if points.is_empty() {
        return Err(PlanError::new("design", "has no point"));
    }
    Ok(points)
}

fn few_enough(sizes: &[usize]) -> Result<(), PlanError> {
    let product = sizes
        .iter()
        .try_fold(1usize, |all, size| all.checked_mul(*size));
    if product.is_none_or(|product| product > MAX_POINTS) {
        let problem = format!("more than {MAX_POINTS} points");
        return Err(PlanError::new("design.factor", problem));
    }
    Ok(())
}

/// Fills the space of the factors that have a range; each of its points is crossed with every
/// combination of the others' values.
fn filled(
    design: &Design,
    count: usize,
    draw: u64,
    fill: fn(usize, usize, u64) -> Vec<Vec<f64>>,
) -> Result<Vec<Point>, PlanError> {
    let ranged = design.factor.iter().filter(|factor| factor.range.is_some());
    let dimensions = ranged.count();
    if dimensions == 0 {
        let problem = "no factor has a `range` to fill";
        return Err(PlanError::new("design.factor", problem));
    }
    let listed = design.factor.iter().filter(|factor| factor.range.is_none());
    let sizes: Vec<usize> = listed.map(|factor| factor.values.len()).collect();
    few_enough(&[sizes.as_slice(), &[count]].concat())?;
    let combinations = design::grid(&sizes);
    let mut points = Vec::new();
    for shares in fill(count, dimensions, draw) {
        for combination in &combinations {
            let (mut shares, mut picks) = (shares.iter(), combination.iter());
            let level = |factor: &factor::Factor| match factor.range {
                Some(_) => shares.next().map(|share| factor.at(*share)),
                None => {
                    let value = factor.values.get(*picks.next()?)?;
                    Some(factor.level(value))
                }
            };
            points.push(Point {
                levels: design.factor.iter().filter_map(level).collect(),
            });
        }
    }
    Ok(points)
}

#[cfg(test)]
mod tests;
