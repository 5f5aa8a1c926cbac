//! Several paths to a server: which, how they are opened, what they carried.
//!
//! Owns: `--paths`, connecting over several ways at once, the figures of each path.
//! Does not own: paths themselves (`tautline`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::SocketAddr,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use clap::Args;
use serde::Serialize;
use tautline::{
    Connection, Endpoint, Followed, LocalEnd, OpenPathError, PathCost, PathEvent, PathId,
    PathStats, TransportConfig,
    interfaces::{self, Interface},
};
use tokio::task::JoinSet;

use crate::{
    failure::{Failure, Outcome},
    options::{TransportOptions, TrustOptions, parse_some_bytes},
};

/// A path over which nothing answers is tried again after this, and then after twice as long each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// At most.
const LAST_RETRY: Duration = Duration::from_secs(30);
/// Of a cap so many bytes are left where a path is opened anew: to prove one takes some of them.
const LEAST_LEFT: u64 = 16 * 1024;

/// Where a client's paths begin.
#[derive(Clone, Debug, Args)]
pub(crate) struct PathOptions {
    /// Use several paths at once (RFC 10069; the server must support it): from each of these
    /// interfaces or local addresses, or, with auto, from every interface that leads to the server.
    /// IF:metered is used only when no other path works, IF:metered=BYTES carries no more than BYTES
    /// (sent and received, of each connection), IF:cap=BYTES is used freely up to nine
    /// tenths of BYTES and then kept in reserve (suffixes k, M, G,
    /// Ki, Mi, Gi); after auto, such names say what interfaces cost: auto,wwan0:metered=500M
    #[arg(long, value_name = "auto|IF,IF|ADDR,ADDR")]
    paths: Option<Sources>,
}

/// What `--paths` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sources {
    /// Every interface that leads to the server; `ends` say what some of them cost.
    auto: bool,
    ends: Vec<Source>,
}

/// Where a path begins, and what it costs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    end: LocalEnd,
    cost: PathCost,
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown =
            |price: &str| format!("{price}: a path may be metered, metered=BYTES or cap=BYTES");
        // An IPv6 address has colons of its own, but none of these words.
        let (end, cost) = match text.rsplit_once(':') {
            Some((end, "metered")) => (end, PathCost::metered()),
            Some((end, price)) if price.contains('=') => {
                let capped = |base: PathCost, bytes| Ok(base.cap(parse_some_bytes(bytes)?));
                let cost: Result<PathCost, String> = match price.split_once('=') {
                    Some(("metered", bytes)) => capped(PathCost::metered(), bytes),
                    Some(("cap", bytes)) => capped(PathCost::default(), bytes),
                    _ => Err(unknown(price)),
                };
                (end, cost?)
            }
            // No interface has a colon in its name.
            Some((end, price)) if !end.contains([':', '.']) => return Err(unknown(price)),
            _ => (text, PathCost::default()),
        };
        let end = end.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { end, cost })
    }
}

impl FromStr for Sources {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut ends: Vec<Source> = Vec::new();
        let mut parts = text.split(',').map(str::trim).peekable();
        let auto = parts.next_if_eq(&"auto").is_some();
        for part in parts {
            if part == "auto" {
                return Err("auto stands first".to_owned());
            }
            let source: Source = part.parse()?;
            let end = &source.end;
            if ends.iter().any(|other| other.end == *end) {
                return Err(format!("{end} is named twice"));
            }
            if auto && (source.cost == PathCost::default() || end.interface_name().is_none()) {
                return Err(format!(
                    "{end}: auto is followed by interfaces and what they cost, as in {end}:metered"
                ));
            }
            ends.push(source);
        }
        // What costs nothing is tried first.
        ends.sort_by_key(|source| source.cost.class);
        Ok(Self { auto, ends })
    }
}

impl Sources {
    /// What a path from there costs.
    fn cost_of(&self, end: &LocalEnd) -> PathCost {
        let named = self.ends.iter().find(|source| {
            source.end == *end || self.auto && source.end.interface_name() == end.interface_name()
        });
        named.map_or_else(PathCost::default, |source| source.cost)
    }
}

impl PathOptions {
    /// Whether several paths are wanted.
    pub(crate) fn wanted(&self) -> bool {
        self.paths.is_some()
    }

    /// Lets the transport have several paths, if they are wanted.
    pub(crate) fn apply(&self, options: &TransportOptions, config: &mut TransportConfig) {
        if self.wanted() {
            config.multipath = Some(options.multipath());
        }
    }

    /// Connects, and opens the paths that are wanted; opening goes on while the connection is used.
    pub(crate) async fn connect(
        &self,
        trust: &TrustOptions,
        endpoint: &Endpoint,
        host: &str,
        port: u16,
    ) -> Outcome<(Connection, Ledger)> {
        let mut ends: Vec<LocalEnd> = match &self.paths {
            None => Vec::new(),
            Some(sources) if sources.auto => ways_out(host, port).await?,
            Some(sources) => sources.ends.iter().map(|it| it.end.clone()).collect(),
        };
        if let Some(sources) = &self.paths {
            if sources.auto {
                warn_of_unknown(sources);
            }
            ends.sort_by_key(|end| sources.cost_of(end).class);
        }
        let (connection, first) = trust.connect(endpoint, &ends, host, port).await?;
        let mut ledger = Ledger::open(&connection);
        let Some(sources) = &self.paths else {
            return Ok((connection, ledger));
        };
        let mut bill = Bill {
            sources: sources.clone(),
            connection: connection.clone(),
            former: Arc::clone(&ledger.former),
            paths: Vec::new(),
        };
        if let (Some(end), Some(path)) = (ends.get(first), connection.paths().first()) {
            bill.charge(end, path.id);
        }
        if sources.auto {
            let connection = connection.clone();
            ledger.tasks.spawn(async move {
                let bill = Mutex::new(bill);
                let bill = || bill.lock().unwrap_or_else(PoisonError::into_inner);
                let end = |name: &str| LocalEnd::interface(name.to_owned());
                let cost = |it: &Interface| bill().allows(&end(&it.name));
                let followed = connection.follow_interfaces(cost, |change| {
                    if let Followed::Opened { interface, path } = &change {
                        bill().charge(&end(interface), path.id);
                    }
                    tell(change);
                });
                if let Err(error) = followed.await {
                    warn(&format!("cannot follow the network interfaces: {error}"));
                }
            });
        } else {
            let others = ends.into_iter().enumerate();
            for (_, end) in others.filter(|(index, _)| *index != first) {
                let cost = sources.cost_of(&end);
                ledger.tasks.spawn(open(connection.clone(), end, cost));
            }
        }
        Ok((connection, ledger))
    }
}

/// The server's addresses; none of a name that does not resolve, which fails when we connect.
async fn resolve(host: &str, port: u16) -> Vec<SocketAddr> {
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let found = tokio::net::lookup_host((name, port)).await;
    found.map(Iterator::collect).unwrap_or_default()
}

/// The interfaces that lead away from here; none where the server is on this host.
async fn ways_out(host: &str, port: u16) -> Outcome<Vec<LocalEnd>> {
    let mut ends = Vec::new();
    for address in resolve(host, port).await {
        let towards = interfaces::towards(address).map_err(|error| {
            Failure::new(format!(
                "cannot list the network interfaces ({error}): name addresses instead of auto"
            ))
        })?;
        for interface in towards {
            let end = LocalEnd::interface(interface.name);
            if !ends.contains(&end) {
                ends.push(end);
            }
        }
    }
    Ok(ends)
}

/// Tells a connection what its paths cost, however often an interface comes back.
struct Bill {
    sources: Sources,
    connection: Connection,
    former: Former,
    /// Every path from a place that costs something.
    paths: Vec<(LocalEnd, PathId)>,
}

impl Bill {
    /// What a further path from there costs: of a cap what earlier ones have left.
    fn cost_of(&self, end: &LocalEnd) -> PathCost {
        let cost = self.sources.cost_of(end);
        let (Some(cap), Ok(former)) = (cost.cap_bytes, self.former.lock()) else {
            return cost;
        };
        let last = |id: PathId| {
            let stats = self.connection.path_stats(id);
            stats.or_else(|| former.get(&id).cloned())
        };
        let used: u64 = self
            .before(end)
            .filter_map(last)
            .map(|it| carried(&it))
            .sum();
        cost.cap(cap.saturating_sub(used))
    }

    /// The same; none where what is left of a cap is hardly enough to open a path.
    fn allows(&self, end: &LocalEnd) -> Option<PathCost> {
        let cost = self.cost_of(end);
        let used_up = cost.cap_bytes.is_some_and(|cap| cap < LEAST_LEFT);
        let again = self.before(end).next().is_some();
        (!used_up || !again).then_some(cost)
    }

    /// Earlier paths from there.
    fn before(&self, end: &LocalEnd) -> impl Iterator<Item = PathId> {
        let before = self.paths.iter().filter(move |(other, _)| other == end);
        before.map(|(_, id)| *id)
    }

    fn charge(&mut self, end: &LocalEnd, path: PathId) {
        if self.sources.cost_of(end) == PathCost::default() {
            return;
        }
        // What came before has lost its address; it may be there still, as the last path was until now.
        for id in self.before(end) {
            let _ = self.connection.close_path(id);
        }
        let cost = self.cost_of(end);
        self.paths.push((end.clone(), path));
        // Fails only for a path that is gone.
        let _ = self.connection.set_path_cost(path, cost);
    }
}

/// Bytes of a path, both ways.
fn carried(stats: &PathStats) -> u64 {
    stats.recovery.bytes_sent + stats.bytes_received
}

/// Opens a path, again and again where nothing answers: it may be out of reach for now.
async fn open(connection: Connection, end: LocalEnd, cost: PathCost) {
    let mut wait = FIRST_RETRY;
    loop {
        match connection.open_path_from(end.clone(), cost).await {
            Ok(path) => {
                path.warning.iter().for_each(|warning| warn(warning));
                return;
            }
            Err(OpenPathError::ConnectionLost(_)) => return,
            Err(error) => {
                let again = matches!(
                    error,
                    OpenPathError::NoAnswer { .. } | OpenPathError::Unreachable { .. }
                );
                if !again || wait == FIRST_RETRY {
                    let then = if again { "; it is tried again" } else { "" };
                    warn(&format!("no path from {end}: {error}{then}"));
                }
                if !again {
                    return;
                }
            }
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LAST_RETRY);
    }
}

/// Tells of interfaces that have a price and are not there: a typing error would cost money.
fn warn_of_unknown(sources: &Sources) {
    let Ok(known) = interfaces::list() else {
        return;
    };
    let named = sources.ends.iter().filter_map(|it| it.end.interface_name());
    for name in named.filter(|name| known.iter().all(|it| it.name != *name)) {
        warn(&format!(
            "there is no interface {name}: what it costs counts once it comes"
        ));
    }
}

fn tell(change: Followed) {
    match change {
        Followed::Opened { path, .. } => path.warning.iter().for_each(|warning| warn(warning)),
        Followed::Failed { interface, error }
            if !matches!(error, OpenPathError::ConnectionLost(_)) =>
        {
            warn(&format!(
                "no path over {interface}: {error}; it is tried again"
            ));
        }
        Followed::Closed { interface } => {
            warn(&format!("{interface} is gone, and its path with it"))
        }
        _ => {}
    }
}

fn warn(sentence: &str) {
    eprintln!("tautline: warning: {sentence}");
}

/// Paths that are gone, as they were last.
type Former = Arc<Mutex<BTreeMap<PathId, PathStats>>>;

/// What the paths of a connection carried, those that are gone included.
#[derive(Debug)]
pub(crate) struct Ledger {
    connection: Connection,
    former: Former,
    /// What goes on behind the connection's user; ends with this.
    tasks: JoinSet<()>,
}

impl Ledger {
    fn open(connection: &Connection) -> Self {
        let former = Former::default();
        let mut tasks = JoinSet::new();
        let (watched, kept) = (connection.clone(), Arc::clone(&former));
        tasks.spawn(async move {
            let mut events = watched.path_events();
            let (mut spent, mut silent) = (BTreeSet::new(), BTreeSet::new());
            while let Some(event) = events.next().await {
                let path = match event {
                    PathEvent::Abandoned { path, .. } => path,
                    PathEvent::Degraded { path } | PathEvent::Lost { path } => {
                        silent.insert(path);
                        continue;
                    }
                    PathEvent::Recovered { path } => {
                        silent.remove(&path);
                        continue;
                    }
                    PathEvent::CapReached { path } => {
                        warn(&format!("path {path} has carried all it may"));
                        spent.insert(path);
                        let ends = |it: &PathStats| it.abandoned || spent.contains(&it.id);
                        if watched.paths().iter().all(ends) {
                            // Nothing would tell before the idle timeout.
                            warn(
                                "no path may carry any more: raise a cap, or name another \
                                 interface with --paths",
                            );
                            watched.close(0, b"every path has carried all it may");
                        } else if watched
                            .paths()
                            .iter()
                            .all(|it| ends(it) || silent.contains(&it.id))
                        {
                            warn(
                                "no other path answers, so nothing goes on before one does: raise \
                                 the cap, or name another interface with --paths",
                            );
                        }
                        continue;
                    }
                    _ => continue,
                };
                // It is forgotten soon.
                if let (Some(stats), Ok(mut kept)) = (watched.path_stats(path), kept.lock()) {
                    kept.insert(path, stats);
                }
            }
        });
        Self {
            connection: connection.clone(),
            former,
            tasks,
        }
    }

    /// What each path has carried so far.
    pub(crate) fn figures(&self) -> Vec<PathFigures> {
        let mut all = self
            .former
            .lock()
            .map_or_else(|_| BTreeMap::new(), |it| it.clone());
        for stats in self.connection.paths() {
            all.insert(stats.id, stats);
        }
        let total: u64 = all.values().map(carried).sum();
        let figures = all.values().map(|stats| PathFigures {
            path: stats.id.0,
            local: stats.four_tuple.local.to_string(),
            remote: stats.four_tuple.remote.to_string(),
            closed: stats.abandoned,
            validated: stats.validated,
            metered: stats.cost.class > 0,
            bytes_sent: stats.recovery.bytes_sent,
            bytes_received: stats.bytes_received,
            share: carried(stats) as f64 / total.max(1) as f64,
            smoothed_rtt_seconds: stats.rtt.as_secs_f64(),
            packets_lost: stats.recovery.packets_lost,
        });
        figures.collect()
    }
}

/// One path in figures.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PathFigures {
    path: u32,
    local: String,
    remote: String,
    closed: bool,
    /// Whether anything answered over it; else its RTT is a guess.
    validated: bool,
    metered: bool,
    /// UDP payload.
    bytes_sent: u64,
    bytes_received: u64,
    /// Of the bytes of all paths, both ways.
    share: f64,
    smoothed_rtt_seconds: f64,
    /// Of those sent.
    packets_lost: u64,
}

impl fmt::Display for PathFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "path {:<5} {} to {}: {:.1} %, {} bytes received, {} sent, ",
            self.path,
            self.local,
            self.remote,
            100.0 * self.share,
            self.bytes_received,
            self.bytes_sent,
        )?;
        if self.validated {
            write!(f, "RTT {:.3} ms", 1e3 * self.smoothed_rtt_seconds)?;
        } else {
            f.write_str("no answer")?;
        }
        write!(
            f,
            "{}{}",
            if self.metered { ", metered" } else { "" },
            if self.closed { ", closed" } else { "" },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_without_an_answer_has_no_round_trip() {
        let path = |validated| PathFigures {
            path: 1,
            local: "192.0.2.1:1".to_owned(),
            remote: "192.0.2.2:443".to_owned(),
            closed: true,
            validated,
            metered: false,
            bytes_sent: 1_200,
            bytes_received: 0,
            share: 0.0,
            smoothed_rtt_seconds: 0.333,
            packets_lost: 0,
        };
        assert!(path(true).to_string().ends_with("RTT 333.000 ms, closed"));
        assert!(path(false).to_string().ends_with("no answer, closed"));
    }

    #[test]
    fn sources_are_named_once() {
        let sources = |auto, ends: &[(&str, PathCost)]| {
            let ends = ends.iter().map(|(end, cost)| Source {
                end: end.parse().unwrap(),
                cost: *cost,
            });
            Ok(Sources {
                auto,
                ends: ends.collect(),
            })
        };
        let free = PathCost::default();
        assert_eq!("auto".parse(), sources(true, &[]));
        assert_eq!(
            "127.0.0.1, eth0".parse(),
            sources(false, &[("127.0.0.1", free), ("eth0", free)])
        );
        let metered = PathCost::metered();
        assert_eq!(
            "wwan0:metered,wlan0,2001:db8::1:metered=2G,::1:cap=1k".parse(),
            sources(
                false,
                &[
                    ("wlan0", free),
                    ("::1", free.cap(1_000)),
                    ("wwan0", metered),
                    ("2001:db8::1", metered.cap(2_000_000_000)),
                ]
            )
        );
        let auto: Sources = "auto,wwan0:metered=5M".parse().unwrap();
        assert_eq!(
            auto.cost_of(&LocalEnd::interface("wwan0")),
            metered.cap(5_000_000)
        );
        assert_eq!(auto.cost_of(&LocalEnd::interface("wlan0")), free);
        for bad in [
            "",
            ",",
            "eth0,eth0",
            "a b",
            "auto,eth0",
            "auto,127.0.0.1:metered",
            "eth0:metered=",
            "eth0:metered=0",
            "eth0:price=3",
            "eth0:cheap",
            "eth0,auto",
        ] {
            assert!(bad.parse::<Sources>().is_err(), "{bad:?}");
        }
    }
}
