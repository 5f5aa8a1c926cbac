//! What a plan says about its report.

use serde::Deserialize;
use toml::Table;

use super::{Plan, Point, error::PlanError, factor::label};
use crate::{metric::METRICS, workload::columns::COLUMNS};

/// Levels of a factor that an error names at most.
const MOST_LEVELS: usize = 40;

/// What a plan says about its report.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportOptions {
    /// The solution that others are compared with.
    #[serde(default)]
    pub baseline: Option<String>,
    /// Solutions of which the best, cell by cell, is what others are compared with: single paths
    /// beside several.
    #[serde(default)]
    pub best_of: Vec<String>,
    /// The factor at whose levels that is told one by one as well: clocks that must not be mixed.
    #[serde(default)]
    pub best_by: Option<String>,
    /// The metrics shown, most important first.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// The factor along the axis of charts.
    #[serde(default)]
    pub x: Option<String>,
    /// What the figures at full size came to show, in words: where they and the papers' agree, where not, and
    /// why.
    #[serde(default)]
    pub found: Vec<String>,
    /// What is to be known before ours and theirs are compared, a paragraph each.
    #[serde(default)]
    pub notes: Vec<String>,
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

impl ReportOptions {
    /// Whether every name in it is one of the plan's or of the laboratory's.
    pub(super) fn check(&self, plan: &Plan) -> Result<(), PlanError> {
        let solutions: Vec<String> = plan
            .solutions
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        let factors = &plan.factors;
        let metrics: Vec<String> = METRICS
            .iter()
            .map(|metric| metric.name.to_owned())
            .chain(COLUMNS.iter().map(|column| format!("x_{}", column.name)))
            .collect();
        for metric in &self.metrics {
            known("report.metrics", "metric", metric, &metrics)?;
        }
        if let Some(baseline) = &self.baseline {
            known("report.baseline", "solution", baseline, &solutions)?;
        }
        for name in &self.best_of {
            known("report.best_of", "solution", name, &solutions)?;
        }
        for (field, factor) in [("report.best_by", &self.best_by), ("report.x", &self.x)] {
            if let Some(factor) = factor {
                known(field, "factor", factor, factors)?;
            }
        }
        for (index, figure) in self.paper.iter().enumerate() {
            let field = |inner: &str| format!("report.paper[{index}].{inner}");
            known(&field("metric"), "metric", &figure.metric, &metrics)?;
            if let Some(solution) = &figure.solution {
                known(&field("solution"), "solution", solution, &solutions)?;
            }
            if !figure.value.is_finite() {
                let problem = format!("{} is not a number to compare with", figure.value);
                return Err(PlanError::new(field("value"), problem));
            }
            figure.check_point(&field("point"), plan)?;
        }
        Ok(())
    }
}

impl PaperFigure {
    /// Whether there is a point with these levels. The small version may leave levels out.
    fn check_point(&self, field: &str, plan: &Plan) -> Result<(), PlanError> {
        for (factor, wanted) in &self.point {
            known(field, "factor", factor, &plan.factors)?;
            let place = plan.factors.iter().position(|name| name == factor);
            let levels = || {
                let levels = plan.points.iter().map(|point| &point.levels);
                levels.filter_map(|levels| levels.get(place?))
            };
            if !plan.options.smoke && !levels().any(|level| level.is(wanted)) {
                let mut names: Vec<String> = levels().map(|level| level.label.clone()).collect();
                names.sort_unstable();
                names.dedup();
                names.truncate(MOST_LEVELS);
                let wanted = label(wanted);
                let problem = format!("no level of {factor} is called {wanted:?}");
                let field = format!("{field}.{factor}");
                return Err(PlanError::new(field, problem).with_names(&wanted, &names));
            }
        }
        if !plan.options.smoke && !plan.points.iter().any(|point| self.is_of(point, plan)) {
            let problem = "no point of the design has all of these levels";
            return Err(PlanError::new(field, problem));
        }
        Ok(())
    }

    /// Whether a point has every level that the figure names.
    pub fn is_of(&self, point: &Point, plan: &Plan) -> bool {
        self.point.iter().all(|(factor, wanted)| {
            let place = plan.factors.iter().position(|name| name == factor);
            let level = place.and_then(|place| point.levels.get(place));
            level.is_some_and(|level| level.is(wanted))
        })
    }
}

fn known(field: &str, kind: &str, name: &str, names: &[String]) -> Result<(), PlanError> {
    if names.iter().any(|known| known == name) {
        return Ok(());
    }
    let problem = format!("no {kind} is called {name:?}");
    Err(PlanError::new(field, problem).with_names(name, names))
}
