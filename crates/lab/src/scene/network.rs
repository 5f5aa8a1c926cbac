//! The network of a scene: one bottleneck between two places, several paths side by side, or any
//! graph of links.
//!
//! A link is written as a table: `link` names one of the simulator's links to start from, every
//! other key is a field of [`DirectionConfig`] for both directions, and `up` and `down` hold
//! fields of one direction (`up` is from the first place to the second). `loss` and `corruption`
//! may be a share instead of a model, and every share a percentage.

mod overlay;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tautline_sim::{
    Direction, DirectionConfig, LinkConfig, MAX_TRACE_BYTES, links, parse_duration,
};
use toml::{Table, Value};

use self::overlay::{known_keys, overlay};
use crate::{
    reading::read,
    workload::file::{FileRecord, Inputs},
};

/// The place of clients on a single bottleneck.
pub const NEAR: &str = "near";
/// The place of servers on a single bottleneck, and at the end of all paths.
pub const FAR: &str = "far";
/// What stands for every path where paths are chosen.
pub(super) const ALL: &str = "all";
/// More paths than this from one client would be another experiment.
pub(super) const MOST_PATHS: usize = 16;

/// The smallest IP packet that every QUIC path carries: a datagram of 1200 bytes over IPv4.
const MIN_MTU: u16 = 1228;

/// A link between two places.
#[derive(Clone, Debug, PartialEq)]
pub struct Wire {
    /// Its name in tables.
    pub name: String,
    /// Where a plan says what it is, from the network on; empty for the network as a whole.
    pub field: String,
    /// Where it begins and ends; forward is from the first to the second.
    pub between: [String; 2],
    /// What it does.
    pub config: LinkConfig,
    /// What it does later.
    pub changes: Vec<(Duration, LinkConfig)>,
    /// The files that this was read from (traces, loss patterns).
    pub files: Vec<FileRecord>,
}

/// Places and links. The first link is the bottleneck of the figures, unless a scene says another.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The links, at least one.
    pub wires: Vec<Wire>,
    /// The places of clients unless flows say others: one, or one for each path.
    pub homes: Vec<String>,
}

/// What is wrong with a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct NetworkError {
    /// The field, from the network on.
    pub field: String,
    /// The reason.
    pub problem: String,
    /// Values that would do, when a name was asked for.
    pub names: Vec<String>,
}

impl NetworkError {
    fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
            names: Vec::new(),
        }
    }

    fn under(mut self, inner: &str) -> Self {
        if !inner.is_empty() {
            self.field = format!("{}.{inner}", self.field);
        }
        self
    }

    fn within(mut self, outer: &str) -> Self {
        self.field = if self.field.is_empty() {
            outer.to_owned()
        } else {
            format!("{outer}.{}", self.field)
        };
        self
    }
}

impl Network {
    /// One bottleneck between [`NEAR`] and [`FAR`].
    pub fn bottleneck(config: LinkConfig) -> Self {
        Self {
            wires: vec![Wire {
                name: "bottleneck".to_owned(),
                field: String::new(),
                between: [NEAR.to_owned(), FAR.to_owned()],
                config,
                changes: Vec::new(),
                files: Vec::new(),
            }],
            homes: vec![NEAR.to_owned()],
        }
    }

    /// Reads a network: a link table for a single bottleneck; `paths`, an array of link tables that
    /// also have a `name`, each a link from the place of that name to [`FAR`], beside what all of
    /// them start from; or `links`, an array of link tables that also have `name` and `between`.
    /// Files that it names (traces, loss patterns) are read from `inputs`.
    ///
    /// # Errors
    /// Unknown keys, impossible values.
    pub fn from_table(table: &Table, inputs: &Inputs) -> Result<Self, NetworkError> {
        let keys = ["links", "paths", "link", "changes", "up", "down"];
        known_keys(table, &keys)?;
        if let Some(paths) = table.get("paths")
            && !table.contains_key("links")
        {
            return Self::side_by_side(paths, table, inputs);
        }
        let Some(links) = table.get("links") else {
            let configured = link(&[table], inputs)?;
            let mut network = Self::bottleneck(configured.config);
            if let Some(wire) = network.wires.first_mut() {
                wire.changes = configured.changes;
                wire.files = configured.files;
            }
            return Ok(network);
        };
        if let Some(other) = table.keys().find(|key| *key != "links") {
            let problem = "stands beside `links`; put it into one of them";
            return Err(NetworkError::new(other.clone(), problem));
        }
        let links = links
            .as_array()
            .filter(|links| !links.is_empty())
            .ok_or_else(|| NetworkError::new("links", "is not an array of tables"))?;
        let mut wires: Vec<Wire> = Vec::new();
        for (index, entry) in links.iter().enumerate() {
            let outer = format!("links[{index}]");
            let mut wire = wire(entry, inputs).map_err(|error| error.within(&outer))?;
            wire.field.clone_from(&outer);
            if wires.iter().any(|other| other.name == wire.name) {
                let problem = format!("two links are called {:?}", wire.name);
                return Err(NetworkError::new(format!("{outer}.name"), problem));
            }
            wires.push(wire);
        }
        let homes = vec![NEAR.to_owned()];
        Ok(Self { wires, homes })
    }

    /// Paths from places of their own to one, each what `table` says without them and then what its
    /// own table says.
    fn side_by_side(paths: &Value, table: &Table, inputs: &Inputs) -> Result<Self, NetworkError> {
        let mut common = table.clone();
        common.remove("paths");
        let paths = paths
            .as_array()
            .filter(|paths| !paths.is_empty())
            .ok_or_else(|| NetworkError::new("paths", "is not an array of tables"))?;
        if paths.len() > MOST_PATHS {
            let problem = format!("{} paths; at most {MOST_PATHS}", paths.len());
            return Err(NetworkError::new("paths", problem));
        }
        let mut wires: Vec<Wire> = Vec::new();
        for (index, entry) in paths.iter().enumerate() {
            let wire = path(entry, index, &common, inputs)?;
            if wires.iter().any(|other| other.name == wire.name) {
                let problem = format!("two paths are called {:?}", wire.name);
                return Err(NetworkError::new(format!("paths[{index}].name"), problem));
            }
            wires.push(wire);
        }
        let homes = wires.iter().map(|wire| wire.name.clone()).collect();
        Ok(Self { wires, homes })
    }

    /// Which way packets from one place to another cross the link at a position, if they do.
    pub fn crossing(&self, link: usize, from: &str, to: &str) -> Option<Direction> {
        let way = self.way(from, to)?;
        let found = way.into_iter().find(|(other, _)| *other == link);
        found.map(|(_, direction)| direction)
    }

    /// The links that packets cross from one place to another, last one first, if there is a way:
    /// the one with the fewest links, the first of several.
    pub fn way(&self, from: &str, to: &str) -> Option<Vec<(usize, Direction)>> {
        // How each place was reached: over which link, and which way.
        let mut reached: BTreeMap<&str, Option<(usize, Direction)>> = BTreeMap::new();
        reached.insert(from, None);
        let mut next = VecDeque::from([from]);
        while let Some(place) = next.pop_front() {
            for (index, wire) in self.wires.iter().enumerate() {
                let [a, b] = &wire.between;
                let (other, direction) = match place {
                    _ if place == a => (b.as_str(), Direction::Forward),
                    _ if place == b => (a.as_str(), Direction::Backward),
                    _ => continue,
                };
                if !reached.contains_key(other) {
                    reached.insert(other, Some((index, direction)));
                    next.push_back(other);
                }
            }
        }
        let mut way = Vec::new();
        let mut place = to;
        while let Some((index, direction)) = *reached.get(place)? {
            way.push((index, direction));
            let [a, b] = &self.wires.get(index)?.between;
            place = match direction {
                Direction::Forward => a,
                Direction::Backward => b,
            };
        }
        Some(way)
    }

    /// All places, each once, in alphabetical order.
    pub fn places(&self) -> impl Iterator<Item = &str> {
        let names: BTreeSet<&str> = self
            .wires
            .iter()
            .flat_map(|wire| wire.between.iter().map(String::as_str))
            .collect();
        names.into_iter()
    }
}

/// One of several paths. Faults are told by its name where it has one, as factors name it.
fn path(
    entry: &Value,
    index: usize,
    common: &Table,
    inputs: &Inputs,
) -> Result<Wire, NetworkError> {
    let unnamed = |field: &str, problem: &str| {
        Err(NetworkError::new(format!("paths[{index}]"), problem).under(field))
    };
    let Some(mut table) = entry.as_table().cloned() else {
        return unnamed("", "is not a table");
    };
    let name = match table.remove("name") {
        Some(Value::String(name)) => name,
        _ => return unnamed("name", "a path needs a name"),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 40 || !name.chars().all(plain) {
        let problem = format!("{name:?} is not a name of up to 40 letters, digits, - and _");
        return unnamed("name", &problem);
    }
    if [FAR, ALL].contains(&name.as_str()) {
        let problem = format!("{name:?} has a meaning of its own; call it otherwise");
        return unnamed("name", &problem);
    }
    let outer = format!("paths.{name}");
    known_keys(&table, &["name", "link", "changes", "up", "down"])
        .and_then(|()| link(&[common, &table], inputs))
        .map(|configured| Wire {
            between: [name.clone(), FAR.to_owned()],
            name,
            field: outer.clone(),
            config: configured.config,
            changes: configured.changes,
            files: configured.files,
        })
        .map_err(|error| match link(&[common], inputs) {
            // Wrong without the path's own table is wrong there.
            Err(without) if without == error => error,
            _ => error.within(&outer),
        })
}

fn wire(entry: &Value, inputs: &Inputs) -> Result<Wire, NetworkError> {
    let mut table = entry
        .as_table()
        .ok_or_else(|| NetworkError::new("", "is not a table"))?
        .clone();
    known_keys(
        &table,
        &["name", "between", "link", "changes", "up", "down"],
    )?;
    let name = match table.remove("name") {
        Some(Value::String(name)) => name,
        _ => return Err(NetworkError::new("name", "a link needs a name")),
    };
    let between = match table.remove("between") {
        Some(Value::Array(ends)) => ends,
        _ => Vec::new(),
    };
    let between = match between.as_slice() {
        [Value::String(a), Value::String(b)] if a != b => [a.clone(), b.clone()],
        _ => {
            let problem = "a link is between two places: between = [\"near\", \"far\"]";
            return Err(NetworkError::new("between", problem));
        }
    };
    let configured = link(&[&table], inputs)?;
    Ok(Wire {
        name,
        field: String::new(),
        between,
        config: configured.config,
        changes: configured.changes,
        files: configured.files,
    })
}

/// A link as a table says.
struct Configured {
    config: LinkConfig,
    changes: Vec<(Duration, LinkConfig)>,
    files: Vec<FileRecord>,
}

/// A link as tables say, each in place of what those before it said. Named links and changes are
/// those of the last table that has some.
fn link(tables: &[&Table], inputs: &Inputs) -> Result<Configured, NetworkError> {
    let last = |key: &str| tables.iter().rev().find_map(|table| table.get(key));
    let base = match last("link") {
        None => LinkConfig::symmetric(DirectionConfig::default()),
        Some(Value::String(name)) => links::by_name(name).ok_or_else(|| NetworkError {
            field: "link".to_owned(),
            problem: format!("no link is called {name:?}"),
            names: links::names()
                .iter()
                .map(|name| (*name).to_owned())
                .collect(),
        })?,
        Some(_) => return Err(NetworkError::new("link", "is not a name")),
    };
    let changes = last("changes");
    let mut files = Vec::new();
    let own = tables.iter().map(|table| {
        let mut table = (*table).clone();
        table.remove("link");
        table.remove("changes");
        table
    });
    let config = overlaid(&base, own, inputs, &mut files)?;
    let mut later = Vec::new();
    if let Some(changes) = changes {
        let changes = changes
            .as_array()
            .ok_or_else(|| NetworkError::new("changes", "is not an array of tables"))?;
        let mut before = config.clone();
        let mut last = None;
        for (index, change) in changes.iter().enumerate() {
            let outer = format!("changes[{index}]");
            let mut change = change
                .as_table()
                .cloned()
                .ok_or_else(|| NetworkError::new(&outer, "is not a table"))?;
            known_keys(&change, &["at", "up", "down"]).map_err(|e| e.within(&outer))?;
            let at = match change.remove("at") {
                Some(Value::String(text)) => parse_duration(&text)
                    .map_err(|e| NetworkError::new(format!("{outer}.at"), e.to_string()))?,
                _ => {
                    return Err(NetworkError::new(
                        format!("{outer}.at"),
                        "a change needs a time",
                    ));
                }
            };
            if let Some(last) = last.replace(at)
                && at <= last
            {
                let problem = format!("{at:?} is not after the change before it ({last:?})");
                return Err(NetworkError::new(format!("{outer}.at"), problem));
            }
            before =
                overlaid(&before, [change], inputs, &mut files).map_err(|e| e.within(&outer))?;
            later.push((at, before.clone()));
        }
    }
    Ok(Configured {
        config,
        changes: later,
        files,
    })
}

/// `base` with the fields of one table after the other in place of what there was. Files that are
/// read are added to `files`.
fn overlaid(
    base: &LinkConfig,
    tables: impl IntoIterator<Item = Table>,
    inputs: &Inputs,
    files: &mut Vec<FileRecord>,
) -> Result<LinkConfig, NetworkError> {
    let base = Table::try_from(base).map_err(|e| NetworkError::new("", e.to_string()))?;
    let direction = |key: &str| {
        base.get(key)
            .and_then(Value::as_table)
            .cloned()
            .unwrap_or_default()
    };
    let (mut forward, mut backward) = (direction("forward"), direction("backward"));
    for table in tables {
        overlay(&mut forward, &mut backward, table)?;
    }
    let one_way = |table: Table, side: &str| {
        read::<DirectionConfig>(Value::Table(table))
            .map_err(|error| NetworkError::new(error.field, error.message).within(side))
    };
    let mut config = LinkConfig {
        forward: one_way(forward, "up")?,
        backward: one_way(backward, "down")?,
    };
    let loaded = config.load_with(|path| {
        let path = path.to_string_lossy();
        inputs.text(&path, MAX_TRACE_BYTES as u64)
    });
    let read = loaded
        .and_then(|read| config.validate().map(|()| read))
        .map_err(|error| {
            let field = error
                .field
                .replacen("forward", "up", 1)
                .replacen("backward", "down", 1);
            NetworkError::new(field, error.problem)
        })?;
    for (side, one_way) in [("up", &config.forward), ("down", &config.backward)] {
        if one_way.mtu < MIN_MTU {
            let problem = format!(
                "{} bytes: nothing would get through, for QUIC's datagrams have at least 1200 bytes \
                 and IP's and UDP's headers 28",
                one_way.mtu
            );
            return Err(NetworkError::new(format!("{side}.mtu"), problem));
        }
    }
    files.extend(read.iter().map(|file| {
        let path = file.path.to_string_lossy().into_owned();
        FileRecord::of(path, file.text.as_bytes())
    }));
    Ok(config)
}

#[cfg(test)]
mod tests;
