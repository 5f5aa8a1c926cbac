//! Proxies on a flow's way: at which places, in which order, and which part of the way is the satellite's.
//!
//! The order is the network's: whatever a plan writes first, proxies stand on a shortest way from client to
//! server as it passes them. Places that no shortest way passes one after the other are refused: packets
//! would go where they do not go without proxies.
//!
//! Owns: [`Split`], and what is wrong with `proxies` and `satellite`. Does not own: what a proxy does
//! (`stack`), its host (`run`).

use super::{Flow, Network, Scene, SceneError};
use crate::{
    names::Names,
    stack::{Part, Stack, StackOptions},
};

/// More on one way would be another experiment; each has an address beside those of the ends.
const MOST_PROXIES: usize = 16;

/// A way with proxies on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split<'a> {
    /// Their places, from the client to the server; at least one.
    pub places: Vec<&'a str>,
    /// Which part of the way is the satellite's: 0 is that between the client and the first of them.
    pub satellite: usize,
}

impl Split<'_> {
    /// What the part of this number is.
    pub const fn part(&self, index: usize) -> Part {
        if index == self.satellite {
            Part::Satellite
        } else {
            Part::Land
        }
    }
}

impl Scene {
    /// The proxies on the way of a flow's connections; `None` where its options name none.
    ///
    /// # Errors
    /// Places that are not there or not on the way; nothing that says which part is the satellite's.
    pub fn split<'a>(&'a self, flow: &'a Flow) -> Result<Option<Split<'a>>, SceneError> {
        let options = self.options(flow);
        let Some(named) = &options.proxies else {
            return Ok(None);
        };
        let field = match flow.stack {
            Some(_) => format!("flow.{}.stack", flow.name),
            None => "solution".to_owned(),
        };
        let homes = self.homes(flow)?;
        // Stacks with proxies have one path.
        let home = homes.first().copied().unwrap_or_default();
        let way = Way {
            network: &self.network,
            flow: &flow.name,
            ends: [home, &flow.server],
        };
        let places = way.places(named, &format!("{field}.proxies"))?;
        let satellite = way.satellite(options, &places, &field)?;
        Ok(Some(Split { places, satellite }))
    }
}

/// The options that only stacks with proxies have.
///
/// # Errors
/// The first of them that another stack is given.
pub(super) fn check_stack(
    stack: &dyn Stack,
    options: &StackOptions,
    field: &str,
) -> Result<(), SceneError> {
    let given = [
        ("proxies", options.proxies.is_some()),
        ("satellite", options.satellite.is_some()),
        ("land_congestion", options.land_congestion.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((option, _)) if !stack.has_proxies() => {
            let problem = format!(
                "no proxy can split a connection of stack {}; stack = 'split-tcp' has them",
                options.stack
            );
            Err(SceneError::new(format!("{field}.{option}"), problem))
        }
        _ => Ok(()),
    }
}

/// The way of a flow's connections, from the client's place to the server's.
struct Way<'a> {
    network: &'a Network,
    flow: &'a str,
    ends: [&'a str; 2],
}

impl<'a> Way<'a> {
    /// Links between two places.
    fn length(&self, from: &str, to: &str) -> Option<usize> {
        Some(self.network.way(from, to)?.len())
    }

    /// The places named, as the way passes them.
    fn places(&self, named: &'a Names, field: &str) -> Result<Vec<&'a str>, SceneError> {
        let [from, to] = self.ends;
        if let Some(name) = named.repeated() {
            return Err(SceneError::new(
                field,
                format!("{name:?} stands there twice"),
            ));
        }
        if let Some(name) = named
            .iter()
            .find(|name| !self.network.places().any(|known| known == *name))
        {
            return Err(SceneError {
                field: field.to_owned(),
                problem: format!("no place is called {name:?}"),
                names: self.network.places().map(str::to_owned).collect(),
            });
        }
        let mut passed = Vec::new();
        for name in named.iter() {
            let ways = self.length(from, name).zip(self.length(name, to));
            let whole = self.length(from, to);
            match ways {
                Some((before, after)) if whole == Some(before + after) => {
                    passed.push((before, name));
                }
                _ => {
                    let problem = format!(
                        "{name:?} is not on the way of flow {}, which passes {}",
                        self.flow,
                        self.in_words()
                    );
                    return Err(SceneError::new(field, problem));
                }
            }
        }
        if passed.len() > MOST_PROXIES {
            let problem = format!("{} proxies; at most {MOST_PROXIES}", passed.len());
            return Err(SceneError::new(field, problem));
        }
        passed.sort_unstable();
        for pair in passed.windows(2) {
            if let [(near, a), (far, b)] = pair
                && self.length(a, b) != Some(far - near)
            {
                let problem = format!(
                    "{b:?} and {a:?} are on different ways of flow {}, and no packet passes both",
                    self.flow
                );
                return Err(SceneError::new(field, problem));
            }
        }
        Ok(passed.into_iter().map(|(_, name)| name).collect())
    }

    /// The places that packets pass, the ends among them.
    fn in_words(&self) -> String {
        let [from, to] = self.ends;
        let mut links = self.network.way(from, to).unwrap_or_default();
        links.reverse();
        let further = links.into_iter().filter_map(|(index, direction)| {
            let [a, b] = &self.network.wires.get(index)?.between;
            Some(match direction {
                tautline_sim::Direction::Forward => b.as_str(),
                tautline_sim::Direction::Backward => a.as_str(),
            })
        });
        let all: Vec<&str> = std::iter::once(from).chain(further).collect();
        all.join(", ")
    }

    /// The names of the links of each part.
    fn parts(&self, places: &[&str]) -> Vec<Vec<&'a str>> {
        let [from, to] = self.ends;
        let stops = std::iter::once(from).chain(places.iter().copied());
        let nexts = places.iter().copied().chain([to]);
        let links = |(a, b): (&str, &str)| {
            let way = self.network.way(a, b).unwrap_or_default();
            let wires = way
                .into_iter()
                .filter_map(|(index, _)| self.network.wires.get(index));
            wires.map(|wire| wire.name.as_str()).collect()
        };
        stops.zip(nexts).map(links).collect()
    }

    /// Which part is the satellite's.
    fn satellite(
        &self,
        options: &StackOptions,
        places: &[&str],
        field: &str,
    ) -> Result<usize, SceneError> {
        let parts = self.parts(places);
        let all = || parts.iter().flatten();
        let Some(name) = &options.satellite else {
            if places.len() == 2 {
                return Ok(1);
            }
            let problem = format!(
                "with {} it has to be said which link is the satellite's: satellite = one of {}",
                match places.len() {
                    1 => "one proxy".to_owned(),
                    several => format!("{several} proxies"),
                },
                all().copied().collect::<Vec<_>>().join(", ")
            );
            return Err(SceneError::new(format!("{field}.proxies"), problem));
        };
        let found = parts.iter().position(|part| part.contains(&name.as_str()));
        found.ok_or_else(|| SceneError {
            field: format!("{field}.satellite"),
            problem: format!("flow {} crosses no link called {name:?}", self.flow),
            names: all().map(|name| (*name).to_owned()).collect(),
        })
    }
}

#[cfg(test)]
mod tests;
