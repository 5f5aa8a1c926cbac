//! The network of a scene: one bottleneck between two places, or any graph of links.
//!
//! A link is written as a table: `link` names one of the simulator's links to start from, every
//! other key is a field of [`DirectionConfig`] for both directions, and `up` and `down` hold
//! fields of one direction (`up` is from the first place to the second). `loss` and `corruption`
//! may be a share instead of a model.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::Path,
    time::Duration,
};

use tautline_sim::{Direction, DirectionConfig, LinkConfig, links, parse_duration};
use toml::{Table, Value};

use crate::{
    quantity::Share,
    reading::{fields, read},
    workload::file::FileRecord,
};

/// The place of clients on a single bottleneck.
pub const NEAR: &str = "near";
/// The place of servers on a single bottleneck.
pub const FAR: &str = "far";

/// The smallest IP packet that every QUIC path carries: a datagram of 1200 bytes over IPv4.
const MIN_MTU: u16 = 1228;

/// A link between two places.
#[derive(Clone, Debug, PartialEq)]
pub struct Wire {
    /// Its name in tables.
    pub name: String,
    /// Where it begins and ends; forward is from the first to the second.
    pub between: [String; 2],
    /// What it does.
    pub config: LinkConfig,
    /// What it does later.
    pub changes: Vec<(Duration, LinkConfig)>,
    /// The files that this was read from (traces, loss patterns).
    pub files: Vec<FileRecord>,
}

/// Places and links. The first link is the bottleneck of the figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The links, at least one.
    pub wires: Vec<Wire>,
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
                between: [NEAR.to_owned(), FAR.to_owned()],
                config,
                changes: Vec::new(),
                files: Vec::new(),
            }],
        }
    }

    /// Reads a network: a link table for a single bottleneck, or `links`, an array of link tables
    /// that also have `name` and `between`. Files that it names (traces, loss patterns) are looked
    /// for in `folder`, and read.
    ///
    /// # Errors
    /// Unknown keys, impossible values.
    pub fn from_table(table: &Table, folder: &Path) -> Result<Self, NetworkError> {
        known_keys(table, &["links", "link", "changes", "up", "down"])?;
        let Some(links) = table.get("links") else {
            let configured = link(table.clone(), folder)?;
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
            let wire = wire(entry, folder).map_err(|error| error.within(&outer))?;
            if wires.iter().any(|other| other.name == wire.name) {
                let problem = format!("two links are called {:?}", wire.name);
                return Err(NetworkError::new(format!("{outer}.name"), problem));
            }
            wires.push(wire);
        }
        Ok(Self { wires })
    }

    /// Which way packets from one place to another cross the first link, if they do.
    pub fn crossing(&self, from: &str, to: &str) -> Option<Direction> {
        let way = self.way(from, to)?;
        let first = way.into_iter().find(|(link, _)| *link == 0);
        first.map(|(_, direction)| direction)
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

fn wire(entry: &Value, folder: &Path) -> Result<Wire, NetworkError> {
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
    let configured = link(table, folder)?;
    Ok(Wire {
        name,
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

fn link(mut table: Table, folder: &Path) -> Result<Configured, NetworkError> {
    let base = match table.remove("link") {
        None => LinkConfig::symmetric(DirectionConfig::default()),
        Some(Value::String(name)) => links::by_name(&name).ok_or_else(|| NetworkError {
            field: "link".to_owned(),
            problem: format!("no link is called {name:?}"),
            names: links::names()
                .iter()
                .map(|name| (*name).to_owned())
                .collect(),
        })?,
        Some(_) => return Err(NetworkError::new("link", "is not a name")),
    };
    let changes = table.remove("changes");
    let mut files = Vec::new();
    let config = overlaid(&base, table, folder, &mut files)?;
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
            before = overlaid(&before, change, folder, &mut files).map_err(|e| e.within(&outer))?;
            later.push((at, before.clone()));
        }
    }
    Ok(Configured {
        config,
        changes: later,
        files,
    })
}

/// `base` with the fields of `table` in place of its own. Files that are read are added to `files`.
fn overlaid(
    base: &LinkConfig,
    table: Table,
    folder: &Path,
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
    let mut sides = Vec::new();
    for (key, value) in table {
        match key.as_str() {
            "up" | "down" => match value {
                Value::Table(inner) => sides.push((key, inner)),
                _ => {
                    return Err(NetworkError::new(
                        key,
                        "is not a table of one direction's fields",
                    ));
                }
            },
            _ => {
                let value = shorthand(&key, value)?;
                forward.insert(key.clone(), value.clone());
                backward.insert(key, value);
            }
        }
    }
    for (side, inner) in sides {
        known_keys(&inner, &[]).map_err(|e| e.within(&side))?;
        let target = if side == "up" {
            &mut forward
        } else {
            &mut backward
        };
        for (key, value) in inner {
            let value = shorthand(&key, value).map_err(|e| e.within(&side))?;
            target.insert(key, value);
        }
    }
    let one_way = |table: Table, side: &str| {
        read::<DirectionConfig>(Value::Table(table))
            .map_err(|error| NetworkError::new(error.field, error.message).within(side))
    };
    let mut config = LinkConfig {
        forward: one_way(forward, "up")?,
        backward: one_way(backward, "down")?,
    };
    let inputs = config
        .load(folder)
        .and_then(|inputs| config.validate().map(|()| inputs))
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
    files.extend(inputs.iter().map(|file| {
        let path = file.path.to_string_lossy().into_owned();
        FileRecord::of(path, file.text.as_bytes())
    }));
    Ok(config)
}

/// Whether every key is a field of one direction of a link, or one of `more`.
fn known_keys(table: &Table, more: &[&str]) -> Result<(), NetworkError> {
    let fields = fields::<DirectionConfig>();
    let known = |key: &str| fields.contains(&key) || more.contains(&key);
    let Some(unknown) = table.keys().find(|key| !known(key)) else {
        return Ok(());
    };
    Err(NetworkError {
        field: unknown.clone(),
        problem: "there is no such key".to_owned(),
        names: more.iter().chain(fields).map(|&key| key.into()).collect(),
    })
}

/// A share in place of a loss model.
fn shorthand(key: &str, value: Value) -> Result<Value, NetworkError> {
    if !matches!(key, "loss" | "corruption") || value.is_table() {
        return Ok(value);
    }
    let share = read::<Share>(value).map_err(|error| NetworkError::new(key, error.message))?;
    let mut model = Table::new();
    if share.0 > 0.0 {
        model.insert("model".to_owned(), "uniform".into());
        model.insert("probability".to_owned(), share.0.into());
    } else {
        model.insert("model".to_owned(), "none".into());
    }
    Ok(Value::Table(model))
}

#[cfg(test)]
mod tests {
    use tautline_sim::{LossModel, QueueSize};

    use super::*;

    fn read(text: &str) -> Result<Network, NetworkError> {
        Network::from_table(&text.parse::<Table>().unwrap(), Path::new("."))
    }

    #[test]
    fn a_named_link_with_changes_of_its_own() {
        let network = read(
            "link = 'geo'\nqueue = '0.5 BDP'\nloss = '1 %'\n[up]\nrate = '3 Mb/s'\nloss = 0\n\
             [[changes]]\nat = '10 s'\ndown.rate = '5 Mb/s'",
        )
        .unwrap();
        let wire = &network.wires[0];
        assert_eq!(wire.config.backward.loss, LossModel::uniform(0.01));
        assert_eq!(wire.config.forward.loss, LossModel::None);
        assert_eq!(wire.config.forward.queue, QueueSize::Bdp(0.5));
        let rate = |config: &LinkConfig, up: bool| {
            let side = if up {
                &config.forward
            } else {
                &config.backward
            };
            side.rate.unwrap().bits_per_second()
        };
        assert_eq!(rate(&wire.config, true), 3_000_000);
        assert_eq!(rate(&wire.config, false), 20_000_000);
        let (at, later) = &wire.changes[0];
        assert_eq!(*at, Duration::from_secs(10));
        assert_eq!(
            (rate(later, true), rate(later, false)),
            (3_000_000, 5_000_000)
        );
    }

    #[test]
    fn files_of_links_are_read_and_hashed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.trace"), "1\n2\n").unwrap();
        let text =
            "[down]\ntrace = { file = 'a.trace' }\n[[changes]]\nat = '1 s'\nup.delay = '1 ms'";
        let table = text.parse::<Table>().unwrap();
        let network = Network::from_table(&table, folder.path()).unwrap();
        let wire = &network.wires[0];
        assert_eq!(wire.files, [FileRecord::of("a.trace".into(), b"1\n2\n")]);
        assert!(wire.changes[0].1.backward.trace.is_some());
        let error = Network::from_table(&table, Path::new("/nowhere")).unwrap_err();
        assert_eq!(error.field, "down.trace");
    }

    /// docs/lab.md has a row for every key, and no row for another.
    #[test]
    fn every_key_of_a_link_is_documented() {
        let text = include_str!("../../../../docs/lab.md");
        let section = text.split("### Links").nth(1).unwrap();
        let section = section.split("\n### ").next().unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        let mut rows: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
        let mut known = fields::<DirectionConfig>().to_vec();
        rows.sort_unstable();
        known.sort_unstable();
        assert_eq!(rows, known);
        for name in links::names() {
            assert!(section.contains(&format!("`{name}`")), "{name}");
        }
        let inner = [
            fields::<tautline_sim::RateWander>(),
            fields::<tautline_sim::Turns>(),
            fields::<tautline_sim::AdaptiveCoding>(),
            fields::<tautline_sim::Grants>(),
            fields::<tautline_sim::Handover>(),
            fields::<tautline_sim::Silences>(),
            fields::<tautline_sim::Gaps>(),
            fields::<tautline_sim::Outage>(),
            fields::<tautline_sim::Jitter>(),
            fields::<tautline_sim::Reordering>(),
        ];
        for key in inner.concat() {
            assert!(section.contains(key), "{key}");
        }
    }

    #[test]
    fn a_graph() {
        let network = read(
            "[[links]]\nname = 'a'\nbetween = ['home', 'pop']\nlink = 'leo'\n\
             [[links]]\nname = 'b'\nbetween = ['pop', 'cdn']\ndelay = '5 ms'",
        )
        .unwrap();
        assert_eq!(network.places().collect::<Vec<_>>(), ["cdn", "home", "pop"]);
    }

    #[test]
    fn the_way_over_the_first_link_is_known() {
        let network = read(
            "[[links]]\nname = 'a'\nbetween = ['home', 'pop']\n\
             [[links]]\nname = 'b'\nbetween = ['pop', 'cdn']\n\
             [[links]]\nname = 'c'\nbetween = ['cdn', 'far']",
        )
        .unwrap();
        assert_eq!(network.crossing("home", "far"), Some(Direction::Forward));
        assert_eq!(network.crossing("cdn", "home"), Some(Direction::Backward));
        for (from, to) in [("pop", "far"), ("home", "home"), ("far", "nowhere")] {
            assert_eq!(network.crossing(from, to), None, "{from} {to}");
        }
        assert_eq!(network.way("home", "far").map(|way| way.len()), Some(3));
        assert_eq!(network.way("home", "home"), Some(Vec::new()));
        assert_eq!(network.way("far", "nowhere"), None);
    }

    #[test]
    fn errors_name_the_field() {
        for (text, field, part) in [
            ("link = 'goe'", "link", "goe"),
            ("qeue = '1 BDP'", "qeue", "no such key"),
            ("lniks = []", "lniks", "no such key"),
            ("dwon.rate = '1 Mb/s'", "dwon", "no such key"),
            ("down.rtae = '1 Mb/s'", "down.rtae", "no such key"),
            ("loss = 2", "loss", "share"),
            ("down.rate = '5 MB/s'", "down.rate", "rate"),
            (
                "jitter = {spread = '1 ms', ordr = 'fifo'}",
                "up.jitter.ordr",
                "ordr",
            ),
            ("down.mtu = 1227", "down.mtu", "1200"),
            ("changes = [{rate = '1 Mb/s'}]", "changes[0].at", "time"),
            (
                "changes = [{at = '1 s', raet = '1 Mb/s'}]",
                "changes[0].raet",
                "no such key",
            ),
            (
                "changes = [{at = '2 s', mtu = 1400}, {at = '2 s', mtu = 1300}]",
                "changes[1].at",
                "after",
            ),
            ("[[links]]\nname = 'a'", "links[0].between", "between"),
            (
                "[[links]]\nnmae = 'a'\nbetween = ['a', 'b']",
                "links[0].nmae",
                "no such key",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.field, field, "{text}: {error}");
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }
}
