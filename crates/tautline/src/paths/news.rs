//! What a connection's paths are up to, for those who wait for it.
//!
//! Owns: the latest path events, which attempts to open a path were decided how, and the sockets that
//! a connection's paths need.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
};

use tautline_transport::{
    path::PathEvent,
    units::{FourTuple, PathId},
};

use crate::shard::SocketUse;

/// Events kept for listeners that are late; about 100 bytes each.
const KEPT: usize = 64;

/// Of one connection. Never used, it owns no memory.
#[derive(Debug, Default)]
pub(crate) struct PathNews {
    events: VecDeque<PathEvent>,
    /// The number of the oldest that is kept.
    first: u64,
    attempts: BTreeMap<PathId, Attempt>,
    sockets: Vec<(PathId, SocketUse)>,
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
