//! The paths of a peer's connection: which are opened, waited for, and what was seen of them.
//!
//! Owns: [`Several`]. Does not own: how a peer opens a path or tells of it (`glue` of each).

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use tautline_lab::stack::{PathWire, Ready};
use tautline_transport::time::Instant;

/// What became of a path that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// It is being opened, under this number.
    Begun(u64),
    /// The peer has not allowed it yet.
    NotYet,
    /// There will be none.
    Never,
}

/// What a peer tells of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Data may go over it.
    Established(u64),
    /// It is given up.
    Abandoned(u64),
}

/// A path as a peer describes it now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    pub(crate) wire: PathWire,
    /// Whether stream data or datagrams came over it.
    pub(crate) data_came: bool,
}

/// The paths of one end of a connection.
#[derive(Debug)]
pub(crate) struct Several {
    /// Whether there may be several.
    on: bool,
    local: SocketAddr,
    others: Vec<SocketAddr>,
    ready: Ready,
    connected: bool,
    /// Addresses from which paths are still to be opened.
    wanted: Vec<SocketAddr>,
    /// Opened, and neither established nor given up.
    awaited: Vec<u64>,
    /// Whether the workload waits for paths.
    holds: bool,
    seen: BTreeMap<u64, PathWire>,
}

impl Several {
    pub(crate) fn new(on: bool, local: SocketAddr, others: Vec<SocketAddr>, ready: Ready) -> Self {
        Self {
            on,
            local,
            wanted: others.clone(),
            others,
            ready,
            connected: false,
            awaited: Vec::new(),
            holds: false,
            seen: BTreeMap::new(),
        }
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.on
    }

    /// The address of the handshake.
    pub(crate) const fn first(&self) -> SocketAddr {
        self.local
    }

    /// The address that a datagram leaves from, by what the peer says.
    pub(crate) fn source(&self, ip: Option<IpAddr>) -> SocketAddr {
        let own = self.others.iter().find(|other| Some(other.ip()) == ip);
        own.copied().unwrap_or(self.local)
    }

    /// Where a datagram came in, if that is to be told.
    pub(crate) fn destination(&self, at: SocketAddr) -> Option<IpAddr> {
        self.on.then(|| at.ip())
    }

    /// The handshake is complete. Whether the workload begins now.
    pub(crate) fn on_connected(&mut self, now: Instant) -> bool {
        self.connected = true;
        self.holds = self.ready == Ready::Paths && !self.wanted.is_empty();
        if let Some(first) = self.seen.get_mut(&0) {
            first.validated = Some(now);
        }
        !self.holds
    }

    /// Asks for the paths that are still wanted. Whether the workload begins now.
    pub(crate) fn open(&mut self, mut open: impl FnMut(IpAddr) -> Opening) -> bool {
        if !self.connected || self.wanted.is_empty() {
            return false;
        }
        let awaited = &mut self.awaited;
        // In their order, so that numbers are those of the plan.
        let mut waits = false;
        self.wanted.retain(|local| {
            if waits {
                return true;
            }
            match open(local.ip()) {
                Opening::Begun(id) => awaited.push(id),
                Opening::NotYet => waits = true,
                Opening::Never => {}
            }
            waits
        });
        self.is_released()
    }

    /// Something became of a path. Whether the workload begins now.
    pub(crate) fn on_change(&mut self, now: Instant, change: Change) -> bool {
        let id = match change {
            Change::Established(id) => {
                if let Some(seen) = self.seen.get_mut(&id) {
                    seen.validated.get_or_insert(now);
                }
                id
            }
            Change::Abandoned(id) => id,
        };
        self.awaited.retain(|awaited| *awaited != id);
        self.is_released()
    }

    fn is_released(&mut self) -> bool {
        let free = self.wanted.is_empty() && self.awaited.is_empty();
        let released = self.holds && free;
        self.holds &= !free;
        released
    }

    /// Takes down what there is to see of a path.
    pub(crate) fn note(&mut self, now: Instant, path: Described) {
        let before = self.seen.get(&path.wire.id);
        let is_new = before.is_none();
        let wire = PathWire {
            validated: before.and_then(|before| before.validated),
            min_rtt: before.map_or(path.wire.rtt, |before| before.min_rtt.min(path.wire.rtt)),
            first_data: before
                .and_then(|before| before.first_data)
                .or(path.data_came.then_some(now)),
            ..path.wire
        };
        self.seen.insert(wire.id, wire);
        if is_new
            && wire.id == 0
            && self.connected
            && let Some(first) = self.seen.get_mut(&0)
        {
            first.validated = Some(now);
        }
    }

    /// Every path there was, as it was last seen.
    pub(crate) fn all(&self) -> Vec<PathWire> {
        self.seen.values().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 1))
    }

    #[test]
    fn a_workload_waits_for_paths_if_it_is_told_to() {
        let others = vec![address(2), address(3)];
        let mut paths = Several::new(true, address(1), others, Ready::Paths);
        assert!(!paths.open(|_| Opening::Begun(7)), "not connected yet");
        assert!(!paths.on_connected(Instant::ZERO));
        assert!(!paths.open(|_| Opening::NotYet));
        let mut number = 0;
        assert!(!paths.open(|_| {
            number += 1;
            Opening::Begun(number)
        }));
        assert!(!paths.on_change(Instant::ZERO, Change::Established(1)));
        assert!(paths.on_change(Instant::ZERO, Change::Abandoned(2)));
        assert!(!paths.on_change(Instant::ZERO, Change::Abandoned(2)));
        let mut alone = Several::new(true, address(1), vec![address(2)], Ready::Paths);
        assert!(!alone.on_connected(Instant::ZERO));
        assert!(alone.open(|_| Opening::Never));
        let mut at_once = Several::new(true, address(1), vec![address(2)], Ready::Connected);
        assert!(at_once.on_connected(Instant::ZERO));
        assert!(!at_once.open(|_| Opening::Begun(1)));
    }

    #[test]
    fn datagrams_leave_from_the_address_that_the_peer_names() {
        let paths = Several::new(true, address(1), vec![address(2)], Ready::Connected);
        assert_eq!(paths.source(None), address(1));
        assert_eq!(paths.source(Some(address(2).ip())), address(2));
        assert_eq!(paths.source(Some(address(9).ip())), address(1));
    }
}
