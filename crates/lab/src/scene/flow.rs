//! A flow: a workload between two places, from one time to another.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{FAR, Network, SceneError, network::MOST_PATHS};
use crate::{names::Names, quantity::Span, stack::StackOptions, workload::Workload};

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
    /// By how much later at most; the cell's seed draws it, the same for every solution.
    #[serde(default)]
    pub start_within: Span,
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
    /// Where the client is: one place, or several, at each of which it has an address. Unless said,
    /// the near end of the bottleneck, or that of every path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Names>,
    /// Where the server is; the far end of the bottleneck unless said.
    #[serde(default = "far")]
    pub server: String,
    /// Delay of a link of its own before each of the client's places, each way.
    #[serde(default)]
    pub access_delay: Span,
}

const fn one() -> u32 {
    1
}

fn far() -> String {
    FAR.to_owned()
}

impl Flow {
    /// When the last of its connections begins at the latest; never beyond a time that can be written.
    pub(super) fn last_start(&self) -> Duration {
        let others = self.stagger.0.checked_mul(self.count.saturating_sub(1));
        let others = others.unwrap_or(Duration::MAX);
        self.latest_start().saturating_add(others)
    }

    /// When the first of them begins at the latest.
    pub(super) fn latest_start(&self) -> Duration {
        self.start.0.saturating_add(self.start_within.0)
    }

    /// Whether metrics of the cell count it.
    pub fn is_measured(&self) -> bool {
        self.measure.unwrap_or(true)
    }

    /// Where the client could be: a connection begins at the first of those that its stack takes.
    pub fn homes<'a>(&'a self, network: &'a Network) -> Vec<&'a str> {
        match &self.client {
            Some(places) => places.iter().collect(),
            None => network.homes.iter().map(String::as_str).collect(),
        }
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
            && stop.0 <= self.latest_start()
        {
            let problem = if self.start_within.0.is_zero() {
                "not after start"
            } else {
                "not after start and start_within together"
            };
            return Err(SceneError::new(format!("{field}.stop"), problem));
        }
        let homes = self.homes(network);
        if let Some(place) = self.client.as_ref().and_then(Names::repeated) {
            let problem = format!("{place:?} stands there twice");
            return Err(SceneError::new(format!("{field}.client"), problem));
        }
        if homes.len() > MOST_PATHS {
            let problem = format!("{} places; at most {MOST_PATHS}", homes.len());
            return Err(SceneError::new(format!("{field}.client"), problem));
        }
        let clients = homes.iter().map(|home| ("client", *home));
        for (end, place) in clients.clone().chain([("server", self.server.as_str())]) {
            if !network.places().any(|known| known == place) {
                return Err(SceneError {
                    field: format!("{field}.{end}"),
                    problem: format!("no place is called {place:?}"),
                    names: network.places().map(str::to_owned).collect(),
                });
            }
        }
        for (_, home) in clients {
            if home == self.server {
                let problem = format!(
                    "both ends are at {:?}, and nothing would cross a link",
                    self.server
                );
                return Err(SceneError::new(format!("{field}.server"), problem));
            }
            if network.way(home, &self.server).is_none() {
                let problem = format!("no links lead from {home:?} to {:?}", self.server);
                return Err(SceneError::new(format!("{field}.server"), problem));
            }
        }
        self.workload
            .program()
            .validate()
            .map_err(|(inner, problem)| {
                SceneError::new(format!("{field}.workload.{inner}"), problem)
            })
    }
}
