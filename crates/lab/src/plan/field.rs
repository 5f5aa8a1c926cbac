//! Plans between two real machines: what of a plan is left aside, and what no field run can do.
//!
//! Owns: [`FieldOptions`], [`refusal`], and how points that differ only in the simulated network
//! become one. Does not own: runs, sockets, the order of runs (`campaign`).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Plan, Point, ReportOptions, error::PlanError};
use crate::{quantity::Size, scene::Scene, stack::StackOptions};

/// Connections of one run at most.
pub const MOST_CONNECTIONS: usize = 16;
/// What a solution may ask of either end's memory, for each connection and use.
const LARGEST_WINDOW: Size = Size(64 << 20);

/// How a plan is read for two real machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldOptions {
    /// The solutions that are played, by name; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub solutions: Vec<String>,
}

impl FieldOptions {
    /// Leaves the solutions that are to be played, in the plan's order.
    pub(super) fn choose(
        &self,
        solutions: &mut Vec<(String, StackOptions)>,
    ) -> Result<(), PlanError> {
        let names: Vec<String> = solutions.iter().map(|(name, _)| name.clone()).collect();
        if let Some(unknown) = self.solutions.iter().find(|name| !names.contains(name)) {
            let problem = format!("no solution is called {unknown:?}");
            return Err(PlanError::new("solution", problem).with_names(unknown, &names));
        }
        if !self.solutions.is_empty() {
            solutions.retain(|(name, _)| self.solutions.contains(name));
        }
        Ok(())
    }
}

/// Whether a path into the plan leads into its simulated network.
fn is_of_the_network(path: &str) -> bool {
    let parts: Vec<&str> = path.split('.').collect();
    match parts.as_slice() {
        ["network", ..] => true,
        ["flow", _, key, ..] => ["client", "server", "access_delay"].contains(key),
        _ => false,
    }
}

/// The factors and points that are left without the simulated network: levels no longer set anything
/// of it, factors that set nothing else are gone, and of points that are then the same the first stays.
pub(super) fn without_network(
    factors: Vec<String>,
    points: Vec<Point>,
) -> (Vec<String>, Vec<Point>) {
    let sets_more = |factor: usize| {
        points.iter().any(|point| {
            let level = point.levels.get(factor);
            level.is_some_and(|level| level.set.iter().any(|(path, _)| !is_of_the_network(path)))
        })
    };
    let kept: Vec<bool> = (0..factors.len()).map(sets_more).collect();
    let mut seen = BTreeSet::new();
    let mut left = Vec::new();
    for mut point in points {
        let mut stays = kept.iter();
        point
            .levels
            .retain(|_| stays.next().copied().unwrap_or(false));
        for level in &mut point.levels {
            level.set.retain(|(path, _)| !is_of_the_network(path));
        }
        let sets: Vec<_> = point.levels.iter().map(|level| &level.set).collect();
        if seen.insert(format!("{sets:?}")) {
            left.push(point);
        }
    }
    let mut stays = kept.iter();
    let mut factors = factors;
    factors.retain(|_| stays.next().copied().unwrap_or(false));
    (factors, left)
}

/// What a report of field data shows of what the plan says: not what is of the simulated network, nor
/// of solutions and factors that are left out.
pub(super) fn report(plan: &Plan) -> ReportOptions {
    let has = |name: &String| plan.solutions.iter().any(|(known, _)| known == name);
    let said = plan.report.clone();
    ReportOptions {
        baseline: said.baseline.filter(has),
        best_of: said.best_of.into_iter().filter(has).collect(),
        best_by: said.best_by.filter(|factor| plan.factors.contains(factor)),
        metrics: said.metrics,
        x: said.x.filter(|factor| plan.factors.contains(factor)),
        found: Vec::new(),
        notes: Vec::new(),
        paper: Vec::new(),
    }
}

/// What of these options cannot be played between two real machines: the key, and what to do.
pub fn refusal(options: &StackOptions) -> Option<(&'static str, String)> {
    let leave_out = "leave the solution out (--solutions), or play it simulated";
    if options.stack != "tautline" {
        let problem = format!(
            "{:?} has no sockets here: field runs play \"tautline\"; {leave_out}",
            options.stack
        );
        return Some(("stack", problem));
    }
    let several = [
        ("multipath", options.multipath.is_some()),
        ("ack_routing", options.ack_routing.is_some()),
        ("path_echoes", options.path_echoes.is_some()),
        ("window_rtt", options.window_rtt.is_some()),
        ("paths", options.paths.is_some()),
    ];
    if let Some((key, _)) = several.iter().find(|(_, said)| *said) {
        let problem = format!(
            "field runs take the one path that the system's routes give, and know none by name; \
             {leave_out}"
        );
        return Some((key, problem));
    }
    if options.fec_mode.is_some() {
        let problem = format!("no real network should see it (RFC 9265); {leave_out}");
        return Some(("fec_mode", problem));
    }
    let sizes = [
        ("receive_window", options.receive_window),
        ("send_buffer", options.send_buffer),
    ];
    let (key, size) = sizes
        .iter()
        .find_map(|(key, size)| Some((*key, size.filter(|size| *size > LARGEST_WINDOW)?)))?;
    let problem = format!("{size} is more than the 64 MiB that the other machine keeps for it");
    Some((key, problem))
}

/// Whether two real machines can play a scene.
pub(super) fn check(scene: &Scene) -> Result<(), PlanError> {
    for flow in &scene.flows {
        if let Some((key, problem)) = refusal(scene.options(flow)) {
            let field = match flow.stack {
                Some(_) => format!("flow.{}.stack.{key}", flow.name),
                None => format!("solution.{key}"),
            };
            return Err(PlanError::new(field, problem));
        }
    }
    let connections: u64 = scene.flows.iter().map(|flow| u64::from(flow.count)).sum();
    if connections > MOST_CONNECTIONS as u64 {
        let problem = format!(
            "{connections} connections at once; between two machines at most {MOST_CONNECTIONS}"
        );
        return Err(PlanError::new("flow", problem));
    }
    Ok(())
}
