//! `[run]`: how often, how long, and what is kept.

use serde::Deserialize;

use super::{Keep, error::PlanError};
use crate::{quantity::Span, scene::DEFAULT_SAMPLE};

/// What a factor may set: the rest is not a cell's, but the whole campaign's.
pub(super) const OF_A_CELL: [&str; 3] = ["limit", "sample", "window"];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    /// Repetitions of every point and solution.
    #[serde(default = "one")]
    pub(super) seeds: u64,
    /// When a run ends at the latest.
    #[serde(default = "ten_minutes")]
    pub(super) limit: Span,
    /// Time between two samples.
    #[serde(default = "default_sample")]
    pub(super) sample: Span,
    /// Over which times rates are averaged.
    #[serde(default)]
    pub(super) window: Option<[Span; 2]>,
    /// Time series at this step.
    #[serde(default)]
    series: Option<Span>,
    /// Whether every object, message and so on is kept.
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

impl Default for Run {
    fn default() -> Self {
        Self {
            seeds: one(),
            limit: ten_minutes(),
            sample: DEFAULT_SAMPLE,
            window: None,
            series: None,
            items: false,
        }
    }
}

impl Run {
    /// What is kept beside rows.
    pub(super) fn keep(&self) -> Keep {
        Keep {
            series: self.series.map(|span| span.0),
            items: self.items,
        }
    }

    /// Whether a series can have the step that is asked for.
    pub(super) fn check(&self) -> Result<(), PlanError> {
        if let Some(series) = self.series
            && series < self.sample
        {
            let problem = format!(
                "a step of {:?} is finer than the samples that it is taken from (run.sample, {:?})",
                series.0, self.sample.0
            );
            return Err(PlanError::new("run.series", problem));
        }
        Ok(())
    }
}
