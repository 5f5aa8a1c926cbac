//! Several paths to a server: which, how they are opened, what they carried.
//!
//! Owns: `--paths`, connecting over several ways at once, the figures of each path.
//! Does not own: paths themselves (`tautline`).

use std::{
    collections::BTreeMap,
    fmt,
    str::FromStr,
    sync::{Arc, Mutex},
};

use clap::Args;
use serde::Serialize;
use tautline::{
    Connection, Endpoint, Followed, LocalEnd, OpenPathError, PathEvent, PathId, PathStats,
    TransportConfig, interfaces,
};
use tokio::task::JoinSet;

use crate::{
    failure::{Failure, Outcome},
    options::{TransportOptions, TrustOptions},
};

/// Where a client's paths begin.
#[derive(Clone, Debug, Args)]
pub(crate) struct PathOptions {
    /// Use several paths at once (RFC 10069; the server must support it): from each of these
    /// interfaces or local addresses, or, with auto, from every interface that leads to the server
    #[arg(long, value_name = "auto|IF,IF|ADDR,ADDR")]
    paths: Option<Sources>,
}

/// What `--paths` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sources {
    Auto,
    These(Vec<LocalEnd>),
}

impl FromStr for Sources {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let mut ends = Vec::new();
        for part in text.split(',') {
            let end: LocalEnd = part.trim().parse().map_err(|error| format!("{error}"))?;
            if ends.contains(&end) {
                return Err(format!("{end} is named twice"));
            }
            ends.push(end);
        }
        Ok(Self::These(ends))
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
        let ends = match &self.paths {
            None => Vec::new(),
            Some(Sources::These(ends)) => ends.clone(),
            Some(Sources::Auto) => ways_out(host, port).await?,
        };
        let (connection, first) = trust.connect(endpoint, &ends, host, port).await?;
        let mut ledger = Ledger::open(&connection);
        match &self.paths {
            None => {}
            Some(Sources::Auto) => {
                let connection = connection.clone();
                ledger.tasks.spawn(async move {
                    if let Err(error) = connection.follow_interfaces(tell).await {
                        warn(&format!("cannot follow the network interfaces: {error}"));
                    }
                });
            }
            Some(Sources::These(_)) => {
                let others = ends.into_iter().enumerate();
                for (_, end) in others.filter(|(index, _)| *index != first) {
                    ledger.tasks.spawn(open(connection.clone(), end));
                }
            }
        }
        Ok((connection, ledger))
    }
}

/// The interfaces that lead away from here; none where the server is on this host.
async fn ways_out(host: &str, port: u16) -> Outcome<Vec<LocalEnd>> {
    let name = host.trim_start_matches('[').trim_end_matches(']');
    // A name that does not resolve fails when we connect.
    let found = tokio::net::lookup_host((name, port)).await;
    let addresses: Vec<_> = found.map(Iterator::collect).unwrap_or_default();
    let mut ends = Vec::new();
    for address in addresses {
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

async fn open(connection: Connection, end: LocalEnd) {
    match connection
        .open_path(end.clone(), connection.remote_address())
        .await
    {
        Ok(path) => path.warning.iter().for_each(|warning| warn(warning)),
        Err(OpenPathError::ConnectionLost(_)) => {}
        Err(error) => warn(&format!("no path from {end}: {error}")),
    }
}

fn tell(change: Followed) {
    match change {
        Followed::Opened { path, .. } => path.warning.iter().for_each(|warning| warn(warning)),
        Followed::Failed { interface, error }
            if !matches!(error, OpenPathError::ConnectionLost(_)) =>
        {
            warn(&format!("no path over {interface}: {error}"));
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

/// What the paths of a connection carried, those that are gone included.
#[derive(Debug)]
pub(crate) struct Ledger {
    connection: Connection,
    former: Arc<Mutex<BTreeMap<PathId, PathStats>>>,
    /// What goes on behind the connection's user; ends with this.
    tasks: JoinSet<()>,
}

impl Ledger {
    fn open(connection: &Connection) -> Self {
        let former = Arc::<Mutex<BTreeMap<_, _>>>::default();
        let mut tasks = JoinSet::new();
        let (watched, kept) = (connection.clone(), Arc::clone(&former));
        tasks.spawn(async move {
            let mut events = watched.path_events();
            while let Some(event) = events.next().await {
                let PathEvent::Abandoned { path, .. } = event else {
                    continue;
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
        let carried = |stats: &PathStats| stats.recovery.bytes_sent + stats.bytes_received;
        let total: u64 = all.values().map(carried).sum();
        let figures = all.values().map(|stats| PathFigures {
            path: stats.id.0,
            local: stats.four_tuple.local.to_string(),
            remote: stats.four_tuple.remote.to_string(),
            closed: stats.abandoned,
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
            "path {:<5} {} to {}: {:.1} %, {} bytes received, {} sent, RTT {:.3} ms{}",
            self.path,
            self.local,
            self.remote,
            100.0 * self.share,
            self.bytes_received,
            self.bytes_sent,
            1e3 * self.smoothed_rtt_seconds,
            if self.closed { ", closed" } else { "" },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_named_once() {
        assert_eq!("auto".parse(), Ok(Sources::Auto));
        let both = ["127.0.0.1", "eth0"].map(|end| end.parse().unwrap());
        assert_eq!("127.0.0.1, eth0".parse(), Ok(Sources::These(both.into())));
        for bad in ["", ",", "eth0,eth0", "a b"] {
            assert!(bad.parse::<Sources>().is_err(), "{bad:?}");
        }
    }
}
