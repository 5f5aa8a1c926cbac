//! `[run]`: how often, how long, and what is kept.

use serde::Deserialize;

use super::{Keep, error::PlanError};
use crate::{
    quantity::Span,
    scene::{DEFAULT_SAMPLE, Network},
};

/// What a factor may set: the rest is not a cell's, but the whole campaign's.
pub(super) const OF_A_CELL: [&str; 4] = ["limit", "sample", "window", "link"];

/// A link by its name, or by its position from 0.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "not the name of a link, nor its position from 0"
)]
enum LinkChoice {
    Position(usize),
    Name(String),
}

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
    /// The link that link metrics are of; the first one unless said.
    #[serde(default)]
    link: Option<LinkChoice>,
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
            link: None,
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

    /// Whether it says which link is measured.
    pub(super) fn names_link(&self) -> bool {
        self.link.is_some()
    }

    /// The position of the link that link metrics are of.
    pub(super) fn link_of(&self, network: &Network) -> Result<usize, PlanError> {
        let wires = &network.wires;
        let (found, wrong) = match &self.link {
            None => return Ok(0),
            Some(LinkChoice::Position(at)) => (Some(*at), at.to_string()),
            Some(LinkChoice::Name(name)) => {
                let at = wires.iter().position(|wire| wire.name == *name);
                (at, name.clone())
            }
        };
        if let Some(at) = found.filter(|at| *at < wires.len()) {
            return Ok(at);
        }
        let problem = match found {
            None => format!("no link is called {wrong:?}"),
            Some(at) => format!(
                "there is no link {at}; they go from 0 to {}",
                wires.len() - 1
            ),
        };
        let names: Vec<String> = wires.iter().map(|wire| wire.name.clone()).collect();
        let names = if found.is_none() { &names[..] } else { &[] };
        Err(PlanError::new("run.link", problem).with_names(&wrong, names))
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
