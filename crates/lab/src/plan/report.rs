//! What a plan says about its report.

use serde::Deserialize;
use toml::Table;

use super::error::PlanError;
use crate::{metric::METRICS, stack::StackOptions};

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

impl ReportOptions {
    /// Whether every name in it is one of the plan's or of the laboratory's.
    pub(super) fn check(
        &self,
        factors: &[String],
        solutions: &[(String, StackOptions)],
    ) -> Result<(), PlanError> {
        let solutions: Vec<String> = solutions.iter().map(|(name, _)| name.clone()).collect();
        let metrics: Vec<String> = METRICS
            .iter()
            .map(|metric| metric.name.to_owned())
            .collect();
        // Measures of workloads (`x_...`) are known only when they ran.
        for metric in self.metrics.iter().filter(|name| !name.starts_with("x_")) {
            known("report.metrics", "metric", metric, &metrics)?;
        }
        if let Some(baseline) = &self.baseline {
            known("report.baseline", "solution", baseline, &solutions)?;
        }
        if let Some(factor) = &self.x {
            known("report.x", "factor", factor, factors)?;
        }
        for (index, figure) in self.paper.iter().enumerate() {
            let field = |inner: &str| format!("report.paper[{index}].{inner}");
            if !figure.metric.starts_with("x_") {
                known(&field("metric"), "metric", &figure.metric, &metrics)?;
            }
            if let Some(solution) = &figure.solution {
                known(&field("solution"), "solution", solution, &solutions)?;
            }
            for factor in figure.point.keys() {
                known(&field("point"), "factor", factor, factors)?;
            }
        }
        Ok(())
    }
}

fn known(field: &str, kind: &str, name: &str, names: &[String]) -> Result<(), PlanError> {
    if names.iter().any(|known| known == name) {
        return Ok(());
    }
    let problem = format!("no {kind} is called {name:?}");
    Err(PlanError::new(field, problem).with_names(name, names))
}
