//! From a point and a solution to what a cell plays.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::{
    Cell, Plan,
    design::Design,
    document::{beyond, is_same, related, set},
    error::{Place, PlanError, join},
    field,
    points::place,
    run::{OF_A_CELL, Run},
    section,
};
use crate::{
    reading::read,
    scene::{Flow, Network, Scene},
    stack::{StackOptions, Stacks},
    workload::Workload,
};

/// What rows of field data say instead of a network's parameters.
const LEFT_ASIDE: &str = "a real one; the plan's simulated network was left aside";

/// What a factor may set.
const ROOTS: [&str; 4] = ["network", "flow", "solution", "run"];

impl Plan {
    /// Makes every scene once; returns the files that were read.
    pub(super) fn check(&self, stacks: &Stacks) -> Result<BTreeMap<String, String>, PlanError> {
        let mut files = BTreeMap::new();
        for point in 0..self.points.len() {
            for solution in 0..self.solutions.len() {
                // One solution would do for networks; but a factor may set a solution's options.
                let scene = self.scene_of(point, solution, stacks);
                let scene = scene.and_then(|scene| match self.is_of_field() {
                    true => field::check(&scene).map(|()| scene),
                    false => Ok(scene),
                });
                let scene = scene.map_err(|error| {
                    let error = self.blame(point, solution, error);
                    self.with_solution(solution, error)
                })?;
                files.extend(files_of(&scene));
            }
        }
        self.report.check(self)?;
        Ok(files)
    }

    /// Says which of the solutions an error is about.
    fn with_solution(&self, solution: usize, mut error: PlanError) -> PlanError {
        if let Some(key) = error.field.strip_prefix("solution.")
            && let Some((name, _)) = self.solutions.get(solution)
        {
            error.field = format!("solution.{name}.{key}");
        }
        error
    }

    /// Finds the factor that an error at a point comes from, and which of its values.
    fn blame(&self, point: usize, solution: usize, mut error: PlanError) -> PlanError {
        let levels = self
            .points
            .get(point)
            .map_or(&[][..], |point| &point.levels);
        let named = || self.factors.iter().zip(levels);
        let culprit = named().enumerate().find_map(|(factor, (name, level))| {
            let mut paths = level.set.iter().map(|(path, _)| path);
            let path = paths.find(|path| related(&error.field, path))?;
            Some((factor, name, level, path))
        });
        let no_key = error.is_of_no_key();
        let of_path =
            culprit.filter(|(_, _, _, path)| no_key && beyond(&error.field, path).is_empty());
        if let Some((_, _, _, path)) = of_path {
            // Whatever its value: there is nothing at the end of the path.
            let whole = match is_same(&error.field, path) {
                true => error.problem,
                false => format!("{}: {}", error.field, error.problem),
            };
            error.problem = format!("{path:?} leads nowhere: {whole}");
        } else if culprit.is_some() || point > 0 {
            // What is wrong at the first point is wrong without factors, most likely.
            let at: Vec<String> = named()
                .map(|(name, level)| format!("{name} = {}", level.label))
                .collect();
            error.problem = format!("{} (at {})", error.problem, at.join(", "));
        }
        if let Some((factor, name, level, path)) = culprit {
            // Paths that lead nowhere have no value to blame.
            let leads = of_path.is_none() && self.document(point, solution).is_ok();
            let inner = leads.then(|| beyond(&error.field, path));
            // Without the network, factors and points are no longer those of the text.
            let design = section::<Design>(&self.base, "design").ok().flatten();
            if let Some(design) = design.filter(|_| !self.is_of_field()) {
                let at = (point, factor);
                error.place = place(&design, at, level, path, inner.as_deref())
                    .map(|path| Box::new(Place(path)));
            }
            if of_path.is_none() && !is_same(&error.field, path) {
                error.problem = format!("{}: {}", error.field, error.problem);
            }
            error.field = format!("design.factor.{name}");
        }
        error
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
        if let Some((name, _)) = self.solutions.get(cell.solution)
            && let Some(Value::Table(solution)) = table.get_mut("solution")
        {
            solution.insert("name".to_owned(), name.clone().into());
        }
        if self.is_of_field() {
            table.insert("network".to_owned(), LEFT_ASIDE.into());
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
                allowed(path)?;
                set(&mut table, path, value.clone()).map_err(|blocked| blocked.told(path, path))?;
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
        let network = Network::from_table(network, &self.inputs).map_err(|error| {
            let field = join("network", &error.field);
            if error.names.is_empty() {
                return PlanError::of_serde(&field, &error.problem);
            }
            let wrong = match quoted(&error.problem) {
                Some(wrong) => wrong,
                None => error.field.rsplit('.').next().unwrap_or_default(),
            };
            PlanError::new(&field, &error.problem).with_names(wrong, &error.names)
        })?;
        let run = section::<Run>(&table, "run")?.unwrap_or_default();
        run.check()?;
        let link = run.link_of(&network)?;
        let scene = Scene {
            network,
            flows: self.flows(&table)?,
            solution: solution_of(&table)?,
            limit: run.limit.0,
            sample: run.sample.0,
            window: run.window.map(|[from, to]| (from.0, to.0)),
            link,
        };
        let valid = scene
            .validate(stacks)
            .and_then(|()| match self.options.smoke {
                // A run cut short for a trial need not come to what the plan has for later.
                true => Ok(()),
                false => scene.in_time(),
            });
        valid.map_err(|error| {
            let wrong = quoted(&error.problem).unwrap_or_default();
            PlanError::new(error.field, &error.problem).with_names(wrong, &error.names)
        })?;
        if run.names_link() && !scene.is_crossed() {
            let problem = "no measured flow crosses this link: nothing of it would be measured";
            return Err(PlanError::new("run.link", problem));
        }
        Ok(scene)
    }

    fn flows(&self, table: &Table) -> Result<Vec<Flow>, PlanError> {
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
                Workload::read(workload)
                    .map_err(|error| PlanError::misread(&join(&field, "workload"), &error))?;
            }
            let mut flow: Flow =
                read(entry.clone()).map_err(|error| PlanError::misread(&field, &error))?;
            flow.workload
                .resolve(&self.inputs)
                .map_err(|error| PlanError::new(join(&field, "workload"), error.to_string()))?;
            if !names.insert(flow.name.clone()) {
                let problem = format!("two flows are called {:?}", flow.name);
                return Err(PlanError::new(format!("flow[{index}].name"), problem));
            }
            flows.push(flow);
        }
        Ok(flows)
    }
}

fn solution_of(table: &Table) -> Result<StackOptions, PlanError> {
    section(table, "solution").map(Option::unwrap_or_default)
}

/// Whether a factor may set this.
fn allowed(path: &str) -> Result<(), PlanError> {
    let mut parts = path.split('.');
    let (root, key) = (parts.next().unwrap_or_default(), parts.next());
    if !ROOTS.contains(&root) {
        let problem = format!(
            "{path:?} leads nowhere: paths begin with network, flow.<name>, solution or run"
        );
        let names = ROOTS.map(str::to_owned);
        return Err(PlanError::new(path, problem).with_nearest(root, &names));
    }
    if root != "run" || key.is_some_and(|key| OF_A_CELL.contains(&key)) {
        return Ok(());
    }
    let names = OF_A_CELL.map(|key| format!("run.{key}"));
    let problem = match key {
        Some("seeds" | "series" | "items") => format!(
            "{path:?} is not a cell's but the whole campaign's, and cannot vary: set it under [run]"
        ),
        _ => format!("{path:?} cannot vary; of [run] only limit, sample, window and link can"),
    };
    Err(PlanError::new(path, problem).with_nearest(path, &names))
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
fn quoted(text: &str) -> Option<&str> {
    text.split('"').nth(1)
}
