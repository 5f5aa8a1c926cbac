//! What a connection's paths are up to, for those who wait for it.
//!
//! Owns: the latest path events, which attempts to open a path were decided how, the sockets that
//! a connection's paths need, and the addresses of the peer that they may lead to.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::SocketAddr,
};

use tautline_transport::{
    path::PathEvent,
    units::{FourTuple, PathId},
};

use crate::{shard::SocketUse, socket::canonical};

/// Events kept for listeners that are late; about 100 bytes each.
const KEPT: usize = 64;

/// Addresses of the peer that are remembered at most.
const MAX_PEERS: usize = 16;

/// Of one connection. Never used, it owns no memory.
#[derive(Debug, Default)]
pub(crate) struct PathNews {
    events: VecDeque<PathEvent>,
    /// The number of the oldest that is kept.
    first: u64,
    attempts: BTreeMap<PathId, Attempt>,
    sockets: Vec<(PathId, SocketUse)>,
    /// Where the peer can be reached too, by what its name or the application says.
    peers: Vec<SocketAddr>,
}

/// A path that somebody waits for.
#[derive(Debug)]
struct Attempt {
    over: FourTuple,
    outcome: Option<Outcome>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Validated,
    NoAnswer,
    /// The system has no way there.
    NoRoute(io::ErrorKind),
    /// The network says that it is not to be reached.
    Unreachable(io::ErrorKind),
    Abandoned {
        code: u64,
        by_peer: bool,
    },
}

impl PathNews {
    pub(crate) fn on_event(&mut self, event: PathEvent) {
        if self.events.len() >= KEPT {
            self.events.pop_front();
            self.first += 1;
        }
        self.events.push_back(event);
        match event {
            PathEvent::Validated { path, .. } => self.decide(path, Outcome::Validated),
            PathEvent::ValidationFailed { path, .. } => self.decide(path, Outcome::NoAnswer),
            PathEvent::Abandoned {
                path,
                code,
                by_peer,
            } => {
                self.decide(path, Outcome::Abandoned { code, by_peer });
                self.sockets.retain(|(user, _)| *user != path);
            }
            _ => {}
        }
    }

    /// The number of the next event.
    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Event number `number`, or the oldest kept if that is gone; with its number.
    pub(crate) fn event(&self, number: u64) -> Option<(u64, PathEvent)> {
        let number = number.max(self.first);
        let index = usize::try_from(number - self.first).ok()?;
        Some((number, *self.events.get(index)?))
    }

    /// The peer can be reached at these addresses too. What is too many is left out.
    pub(crate) fn note_peers(&mut self, addresses: impl IntoIterator<Item = SocketAddr>) {
        for address in addresses {
            if self.peers.len() >= MAX_PEERS {
                return;
            }
            let address = canonical(address);
            if !self.peers.contains(&address) {
                self.peers.push(address);
            }
        }
    }

    /// What [`Self::note_peers`] was told.
    pub(crate) fn peers(&self) -> &[SocketAddr] {
        &self.peers
    }

    /// Somebody waits for a path; it needs a socket.
    pub(crate) fn begin(&mut self, id: PathId, over: FourTuple, socket: Option<SocketUse>) {
        self.attempts.insert(
            id,
            Attempt {
                over,
                outcome: None,
            },
        );
        self.hold(id, socket);
    }

    /// A path needs a socket as long as it lives.
    pub(crate) fn hold(&mut self, id: PathId, socket: Option<SocketUse>) {
        self.sockets.extend(socket.map(|socket| (id, socket)));
    }

    /// How the attempt ended, if it has.
    pub(crate) fn outcome(&self, id: PathId) -> Option<Outcome> {
        self.attempts.get(&id)?.outcome
    }

    /// Nobody waits any more.
    pub(crate) fn forget(&mut self, id: PathId) {
        self.attempts.remove(&id);
    }

    /// The connection has ended: no path needs its socket much longer.
    pub(crate) fn release(&mut self) {
        self.sockets = Vec::new();
    }

    /// Nothing can be sent over such a four-tuple. The attempt that it decides, if any.
    pub(crate) fn fail(
        &mut self,
        over: impl Fn(&FourTuple) -> bool,
        outcome: Outcome,
    ) -> Option<PathId> {
        let waits = |attempt: &Attempt| attempt.outcome.is_none() && over(&attempt.over);
        let (id, attempt) = self
            .attempts
            .iter_mut()
            .find(|(_, attempt)| waits(attempt))?;
        attempt.outcome = Some(outcome);
        Some(*id)
    }

    fn decide(&mut self, path: PathId, outcome: Outcome) {
        if let Some(attempt) = self.attempts.get_mut(&path) {
            attempt.outcome.get_or_insert(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_listeners_miss_the_oldest() {
        let mut news = PathNews::default();
        assert_eq!(news.event(0), None);
        for path in 0..100 {
            news.on_event(PathEvent::Degraded { path: PathId(path) });
        }
        let degraded = |path| PathEvent::Degraded { path: PathId(path) };
        assert_eq!(news.event(0), Some((36, degraded(36))));
        assert_eq!(news.event(99), Some((99, degraded(99))));
        assert_eq!(news.event(100), None);
        assert_eq!(news.next_number(), 100);
    }

    #[test]
    fn few_addresses_of_a_peer_are_kept() {
        let mut news = PathNews::default();
        let mapped = "[::ffff:192.0.2.1]:1".parse().unwrap();
        let many = (0..100).map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        news.note_peers([mapped]);
        news.note_peers(many);
        assert_eq!(news.peers().len(), MAX_PEERS);
        assert_eq!(news.peers()[0], canonical(mapped));
        assert_eq!(news.peers()[1].port(), 0);
    }

    #[test]
    fn the_first_outcome_counts() {
        let mut news = PathNews::default();
        let at = |text: &str| text.parse().unwrap();
        let over = FourTuple {
            local: at("127.0.0.1:1"),
            remote: at("127.0.0.1:2"),
        };
        news.begin(PathId(1), over, None);
        let outcome = Outcome::NoRoute(io::ErrorKind::NetworkUnreachable);
        assert_eq!(news.fail(|_| false, outcome), None);
        assert_eq!(news.fail(|it| *it == over, outcome), Some(PathId(1)));
        assert_eq!(news.fail(|it| *it == over, outcome), None);
        news.on_event(PathEvent::Validated {
            path: PathId(1),
            to: over,
        });
        assert_eq!(news.outcome(PathId(1)), Some(outcome));
        news.forget(PathId(1));
        assert_eq!(news.outcome(PathId(1)), None);
    }
}
