//! A flow: a workload between two places, from one time to another.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{FAR, NEAR, Network, SceneError};
use crate::{quantity::Span, stack::StackOptions, workload::Workload};

/// One or several alike connections, each between a client and a server of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Its name in tables and factors.
    pub name: String,
    /// What it does.
    pub workload: Workload,
    /// When the client connects.
    #[serde(default)]
    pub start: Span,
    /// When the client closes, if the workload has not ended by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
    /// How many of them.
    #[serde(default = "one")]
    pub count: u32,
    /// How much later each of them starts than the one before.
    #[serde(default)]
    pub stagger: Span,
    /// Whether metrics of the cell count it: unless said, the first flow does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<bool>,
    /// Stack and options of its own, instead of the solution's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<StackOptions>,
    /// Where the client is; the near end of the bottleneck unless said.
    #[serde(default = "near")]
    pub client: String,
    /// Where the server is; the far end of the bottleneck unless said.
    #[serde(default = "far")]
    pub server: String,
    /// Delay of a link of its own before the client's place, each way.
    #[serde(default)]
    pub access_delay: Span,
}

const fn one() -> u32 {
    1
}

fn near() -> String {
    NEAR.to_owned()
}

fn far() -> String {
    FAR.to_owned()
}

impl Flow {
    /// When the last of its connections begins; none later than a time that can be written.
    pub(super) fn last_start(&self) -> Duration {
        let others = self.stagger.0.checked_mul(self.count.saturating_sub(1));
        let others = others.unwrap_or(Duration::MAX);
        self.start.0.saturating_add(others)
    }

    /// Whether metrics of the cell count it.
    pub fn is_measured(&self) -> bool {
        self.measure.unwrap_or(true)
    }

    pub(super) fn validate(&self, field: &str, network: &Network) -> Result<(), SceneError> {
        let name_is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.name.is_empty() || self.name.len() > 40 || !self.name.chars().all(name_is_plain) {
            let problem = format!(
                "{:?} is not a name of up to 40 letters, digits, - and _",
                self.name
            );
            return Err(SceneError::new("flow.name", problem));
        }
        if self.count == 0 {
            return Err(SceneError::new(
                format!("{field}.count"),
                "0 flows; at least 1",
            ));
        }
        if let Some(stop) = self.stop
            && stop <= self.start
        {
            return Err(SceneError::new(format!("{field}.stop"), "not after start"));
        }
        for (end, place) in [("client", &self.client), ("server", &self.server)] {
            if !network.places().any(|known| known == place) {
                return Err(SceneError {
                    field: format!("{field}.{end}"),
                    problem: format!("no place is called {place:?}"),
                    names: network.places().map(str::to_owned).collect(),
                });
            }
        }
        if self.client == self.server {
            let problem = format!(
                "both ends are at {:?}, and nothing would cross a link",
                self.server
            );
            return Err(SceneError::new(format!("{field}.server"), problem));
        }
        if network.way(&self.client, &self.server).is_none() {
            let problem = format!("no links lead from {:?} to {:?}", self.client, self.server);
            return Err(SceneError::new(format!("{field}.server"), problem));
        }
        self.workload
            .program()
            .validate()
            .map_err(|(inner, problem)| {
                SceneError::new(format!("{field}.workload.{inner}"), problem)
            })
    }
}
