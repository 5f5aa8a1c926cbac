//! The paths of one connection: opened, waited for, and looked at.
//!
//! Owns: [`enable`] (what a plan's `multipath` means to the transport), [`Paths`]. Does not own: what
//! goes over which path (the transport's scheduler).

use std::{collections::BTreeMap, net::SocketAddr};

use tautline_transport::{
    config::TransportConfig,
    connection::Connection,
    multipath::{AckRouting, MultipathConfig, WindowRtt, sched::registry},
    path::{PathEvent, PathStats},
    time::Instant,
    units::{FourTuple, PathId},
};

use super::named;
use crate::stack::{OptionError, PathWire, Ready, StackOptions};

/// As many paths as a plan can give to one connection.
const MAX_PATHS: u32 = 16;

/// Lets both ends speak multipath, with the packet scheduler of this name.
pub(super) fn enable(config: &mut TransportConfig, name: &String) -> Result<(), OptionError> {
    let find = registry::by_name;
    if let Some(scheduler) = named("multipath", Some(name), find, registry::names())? {
        let mut multipath = MultipathConfig::default();
        multipath.max_paths = MAX_PATHS;
        multipath.scheduler = scheduler;
        config.multipath = Some(multipath);
    }
    Ok(())
}

/// Which path carries acknowledgements.
pub(super) fn route_acks(
    config: &mut TransportConfig,
    name: Option<&String>,
) -> Result<(), OptionError> {
    let option = "ack_routing";
    let Some(routing) = named(option, name, AckRouting::by_name, AckRouting::names())? else {
        return Ok(());
    };
    let says = "says which of several paths carries acknowledgements";
    multipath_of(config, option, says)?.ack_routing = routing;
    Ok(())
}

/// Whether paths echo each other.
pub(super) fn allow_echoes(
    config: &mut TransportConfig,
    allowed: Option<bool>,
) -> Result<(), OptionError> {
    if let Some(allowed) = allowed {
        let says = "says whether several paths echo each other";
        multipath_of(config, "path_echoes", says)?.echoes = allowed;
    }
    Ok(())
}

/// By which round trip windows are tuned.
pub(super) fn tune_windows(
    config: &mut TransportConfig,
    options: &StackOptions,
) -> Result<(), OptionError> {
    let (option, name) = ("window_rtt", options.window_rtt.as_ref());
    let Some(choice) = named(option, name, WindowRtt::by_name, WindowRtt::names())? else {
        return Ok(());
    };
    let says = "says by which of several paths' round trips windows are tuned";
    multipath_of(config, option, says)?.window_rtt = choice;
    if options.receive_window.is_some() || options.window_tuning == Some(false) {
        return Err(OptionError {
            option,
            problem: format!("{says}, and they are fixed"),
            names: Vec::new(),
        });
    }
    Ok(())
}

fn multipath_of<'a>(
    config: &'a mut TransportConfig,
    option: &'static str,
    says: &str,
) -> Result<&'a mut MultipathConfig, OptionError> {
    config.multipath.as_mut().ok_or_else(|| OptionError {
        option,
        problem: format!("{says}, and there is no `multipath`"),
        names: Vec::new(),
    })
}

/// The paths of a connection, from one end.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// Whether there may be several.
    several: bool,
    /// Own addresses from which paths are to be opened.
    others: Vec<SocketAddr>,
    /// What the workload waits for.
    ready: Ready,
    /// Asked for, and neither validated nor given up.
    awaited: Vec<PathId>,
    /// Whether the handshake is complete and the workload has not begun.
    holds: bool,
    seen: BTreeMap<PathId, PathWire>,
}

impl Paths {
    pub(super) fn new(several: bool, others: Vec<SocketAddr>, ready: Ready) -> Self {
        Self {
            several,
            others,
            ready,
            ..Self::default()
        }
    }

    /// The handshake is complete: opens the other paths. Whether the workload begins now.
    pub(super) fn on_connected(&mut self, now: Instant, connection: &mut Connection) -> bool {
        let remote = connection.remote_address();
        for local in std::mem::take(&mut self.others) {
            // A path that cannot be opened is not waited for.
            let opened = connection.open_path(now, FourTuple { local, remote });
            self.awaited.extend(opened);
        }
        self.note(now, connection);
        if let Some(first) = self.seen.get_mut(&PathId::ZERO) {
            first.validated = Some(now);
        }
        self.holds = self.ready == Ready::Paths && !self.awaited.is_empty();
        !self.holds
    }

    /// Something happened to a path. Whether the workload begins now.
    pub(super) fn on_event(
        &mut self,
        now: Instant,
        connection: &Connection,
        event: &PathEvent,
    ) -> bool {
        self.note(now, connection);
        let over = match event {
            PathEvent::Validated { path, .. } => {
                if let Some(seen) = self.seen.get_mut(path) {
                    seen.validated.get_or_insert(now);
                }
                *path
            }
            PathEvent::ValidationFailed { path, .. } | PathEvent::Abandoned { path, .. } => *path,
            _ => return false,
        };
        self.awaited.retain(|path| *path != over);
        self.holds && {
            self.holds = !self.awaited.is_empty();
            !self.holds
        }
    }

    /// Something may have come: when each path's first data did.
    pub(super) fn on_settled(&mut self, now: Instant, connection: &Connection) {
        if !self.several {
            return;
        }
        let all_known = || {
            let known = |id| {
                self.seen
                    .get(&id)
                    .is_some_and(|path| path.first_data.is_some())
            };
            connection.paths().all(known)
        };
        if !all_known() {
            self.note(now, connection);
        }
    }

    /// Takes down what there is to see of every path.
    pub(super) fn note(&mut self, now: Instant, connection: &Connection) {
        if !self.several {
            return;
        }
        for id in connection.paths() {
            let Some(stats) = connection.path_stats(id) else {
                continue;
            };
            let before = self.seen.get(&id);
            let validated = before.and_then(|path| path.validated);
            let first_data = before.and_then(|path| path.first_data);
            let came = stats.acks.data_packets_received > 0;
            let path = wire(&stats, validated, first_data.or(came.then_some(now)));
            self.seen.insert(id, path);
        }
    }

    /// Every path there was, as it was last seen, or is.
    pub(super) fn all(&self, connection: Option<&Connection>) -> Vec<PathWire> {
        let Some(connection) = connection else {
            return self.seen.values().copied().collect();
        };
        let mut seen = self.seen.clone();
        for path in seen.values_mut() {
            let id = PathId(path.id as u32);
            if let Some(stats) = connection.path_stats(id) {
                *path = wire(&stats, path.validated, path.first_data);
            }
        }
        seen.into_values().collect()
    }
}

fn wire(stats: &PathStats, validated: Option<Instant>, first_data: Option<Instant>) -> PathWire {
    PathWire {
        id: u64::from(stats.id.0),
        four_tuple: stats.four_tuple,
        rtt: stats.rtt,
        min_rtt: stats.min_rtt,
        bytes_sent: stats.recovery.bytes_sent,
        packets_sent: stats.recovery.packets_sent,
        packets_lost: stats.recovery.packets_lost,
        ptos: stats.recovery.ptos,
        validated,
        first_data,
    }
}
