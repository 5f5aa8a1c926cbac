//! One experiment: a network, flows over it, and how long to look.
//!
//! Owns: [`Scene`], its parts as plain data, and their validation. Does not own: how scenes are
//! multiplied into cells (`plan`), how they are played (`run`).

mod flow;
mod network;
mod never;
mod proxies;

use std::time::Duration;

use self::network::ALL;
pub use self::{
    flow::Flow,
    network::{FAR, NEAR, Network, NetworkError, Wire},
    proxies::Split,
};

use crate::{
    quantity::Span,
    stack::{StackOptions, Stacks},
};

/// Everything that one run needs but its seed.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The network.
    pub network: Network,
    /// The flows, in the order in which hosts are made.
    pub flows: Vec<Flow>,
    /// What flows without a stack of their own use.
    pub solution: StackOptions,
    /// When the run ends at the latest.
    pub limit: Duration,
    /// Time between two samples.
    pub sample: Duration,
    /// Between which times rates are averaged; the whole run when absent.
    pub window: Option<(Duration, Duration)>,
    /// Position of the link that link metrics are of.
    pub link: usize,
}

/// What is wrong with a scene, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct SceneError {
    /// Dotted path of the field.
    pub field: String,
    /// The reason.
    pub problem: String,
    /// Values that would do, when a name was asked for.
    pub names: Vec<String>,
}

impl SceneError {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
            names: Vec::new(),
        }
    }
}

/// What fits into about a gigabyte.
const MAX_SAMPLES: u128 = 5_000_000;
/// No experiment has more.
const MAX_FLOWS: u64 = 10_000;
const MAX_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

impl Scene {
    /// Whether everything in it is possible.
    ///
    /// # Errors
    /// The first thing that is not.
    pub fn validate(&self, stacks: &Stacks) -> Result<(), SceneError> {
        if self.flows.is_empty() {
            return Err(SceneError::new("flow", "there is none; add a [[flow]]"));
        }
        if self.limit.is_zero() || self.limit > MAX_LIMIT {
            let problem = format!("{:?} is not above 0 and at most 7 days", self.limit);
            return Err(SceneError::new("run.limit", problem));
        }
        if self.sample < Duration::from_millis(1) {
            return Err(SceneError::new("run.sample", "at least 1 ms"));
        }
        if let Some((from, to)) = self.window
            && (from >= to || to > self.limit)
        {
            let problem = format!(
                "{from:?} to {to:?} does not lie within the run's {:?}",
                self.limit
            );
            return Err(SceneError::new("run.window", problem));
        }
        check_stack(stacks, &self.solution, "solution")?;
        let mut hosts = 0;
        for flow in &self.flows {
            let field = format!("flow.{}", flow.name);
            hosts += u64::from(flow.count);
            flow.validate(&field, &self.network)?;
            if flow.last_start() >= self.limit {
                let key = if flow.start.0 >= self.limit {
                    "start"
                } else if flow.latest_start() >= self.limit {
                    "start_within"
                } else {
                    "stagger"
                };
                let problem = format!(
                    "it would begin after {:?}, when the run is over after {:?} (run.limit)",
                    flow.last_start(),
                    self.limit
                );
                return Err(SceneError::new(format!("{field}.{key}"), problem));
            }
            if let Some(stack) = &flow.stack {
                check_stack(stacks, stack, &format!("{field}.stack"))?;
            }
            self.homes(flow)?;
            self.split(flow)?;
        }
        if hosts > MAX_FLOWS {
            return Err(SceneError::new(
                "flow",
                format!("{hosts} flows; at most {MAX_FLOWS}"),
            ));
        }
        let samples = (self.limit.as_nanos() / self.sample.as_nanos().max(1)) * u128::from(hosts);
        if samples > MAX_SAMPLES {
            let problem = format!(
                "{samples} samples of all flows; at most {MAX_SAMPLES}: sample more seldom, or \
                 end sooner"
            );
            return Err(SceneError::new("run.sample", problem));
        }
        if !self.flows.iter().any(Flow::is_measured) {
            return Err(SceneError::new("flow", "none is measured"));
        }
        never::check(self, stacks)
    }

    /// Whether everything that its links are to do at a stated time is done before the run is over at
    /// the latest.
    ///
    /// # Errors
    /// The first change, step, outage or hand-over that would come later.
    pub fn in_time(&self) -> Result<(), SceneError> {
        let mut wires = self.network.wires.iter();
        wires.try_for_each(|wire| never::in_time(wire, self.limit))
    }

    /// What a flow's connections use.
    pub fn options<'a>(&'a self, flow: &'a Flow) -> &'a StackOptions {
        flow.stack.as_ref().unwrap_or(&self.solution)
    }

    /// The places at which a flow's client has an address: that of its handshake, then those of its
    /// further paths.
    ///
    /// # Errors
    /// Paths that the client does not have, or of which its stack takes only one.
    pub fn homes<'a>(&'a self, flow: &'a Flow) -> Result<Vec<&'a str>, SceneError> {
        let options = self.options(flow);
        let mut homes = flow.homes(&self.network);
        let field = match flow.stack {
            Some(_) => format!("flow.{}.stack.paths", flow.name),
            None => "solution.paths".to_owned(),
        };
        let Some(paths) = &options.paths else {
            if options.multipath.is_none() {
                homes.truncate(1);
            }
            return Ok(homes);
        };
        if paths.only() != Some(ALL) {
            if let Some(name) = paths.repeated() {
                return Err(SceneError::new(
                    field,
                    format!("{name:?} stands there twice"),
                ));
            }
            if let Some(name) = paths.iter().find(|name| !homes.contains(name)) {
                let all = (homes.len() > 1).then_some(ALL);
                return Err(SceneError {
                    field,
                    problem: format!("flow {} has no path called {name:?}", flow.name),
                    names: homes.into_iter().chain(all).map(str::to_owned).collect(),
                });
            }
            homes = paths.iter().collect();
        }
        if homes.len() > 1 && options.multipath.is_none() {
            let problem = format!(
                "{} paths at once need `multipath`, the name of a scheduler",
                homes.len()
            );
            return Err(SceneError::new(field, problem));
        }
        Ok(homes)
    }

    /// Whether a measured flow crosses the link that link metrics are of.
    pub fn is_crossed(&self) -> bool {
        let mut measured = self.flows.iter().filter(|flow| flow.is_measured());
        measured.any(|flow| {
            let homes = self.homes(flow).unwrap_or_default();
            let mut ways = homes
                .iter()
                .map(|home| self.network.crossing(self.link, home, &flow.server));
            ways.any(|way| way.is_some())
        })
    }

    /// Whether every stack in it repeats itself; so does one that is not known, for it never runs.
    pub fn is_deterministic(&self, stacks: &Stacks) -> bool {
        self.flows.iter().all(|flow| {
            let options = self.options(flow);
            let stack = stacks.get(&options.stack);
            stack.is_none_or(|stack| stack.is_deterministic(options))
        })
    }

    /// The span over which rates are averaged.
    pub fn window_or(&self, end: Duration) -> (Duration, Duration) {
        self.window.unwrap_or((Duration::ZERO, end))
    }
}

fn check_stack(stacks: &Stacks, options: &StackOptions, field: &str) -> Result<(), SceneError> {
    let Some(stack) = stacks.get(&options.stack) else {
        let mut problem = format!("no stack is called {:?}", options.stack);
        let mut names: Vec<String> = stacks.names().map(str::to_owned).collect();
        if let Some(program) = stacks.elsewhere(&options.stack) {
            problem = format!("{problem} in this program; `{program} run PLAN` has it");
            names.clear();
        }
        return Err(SceneError {
            field: format!("{field}.stack"),
            problem,
            names,
        });
    };
    proxies::check_stack(stack.as_ref(), options, field)?;
    stack.check(options).map_err(|error| SceneError {
        field: format!("{field}.{}", error.option),
        problem: error.problem,
        names: error.names,
    })
}

/// A step between samples that is fine enough for any window.
pub const DEFAULT_SAMPLE: Span = Span(Duration::from_millis(100));
