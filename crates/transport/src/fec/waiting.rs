//! Lost symbols whose frames wait for repair symbols before they are sent again.
//!
//! Owns: what they carried, and until when. Does not own: whether waiting helps (`sender/`).

use std::{collections::VecDeque, time::Duration};

use smallvec::SmallVec;

use super::repair::Group;
use crate::{packet::Token, time::Instant, units::PathId};

/// Symbols that wait at a time; more are sent again at once.
const MOST: usize = 1024;

/// The tokens of a symbol's frames.
pub(crate) type Tokens = SmallVec<[Token; 2]>;

#[derive(Debug)]
struct Waiting {
    id: u64,
    path: PathId,
    until: Instant,
    tokens: Tokens,
}

/// Symbols that wait, in the order in which they were lost.
#[derive(Debug, Default)]
pub(super) struct WaitingSymbols(VecDeque<Waiting>);

impl WaitingSymbols {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    pub(super) fn push(&mut self, id: u64, path: PathId, until: Instant) {
        self.0.push_back(Waiting {
            id,
            path,
            until,
            tokens: Tokens::new(),
        });
    }

    /// A token of the symbol that came last.
    pub(super) fn keep(&mut self, token: Token) {
        if let Some(newest) = self.0.back_mut() {
            newest.tokens.push(token);
        }
    }

    /// The symbol is delivered after all; what it carried.
    pub(super) fn take(&mut self, id: u64) -> Tokens {
        let index = self.0.iter().position(|waiting| waiting.id == id);
        let waiting = index.and_then(|index| self.0.remove(index));
        waiting.map_or_else(Tokens::new, |waiting| waiting.tokens)
    }

    /// The symbols that wait.
    pub(super) fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().map(|waiting| waiting.id)
    }

    /// Those of a group.
    pub(super) fn ids(&self, group: Group) -> impl Iterator<Item = u64> + '_ {
        self.all().filter(move |id| group.contains(*id))
    }

    /// The symbols of a group wait at least until then.
    pub(super) fn prolong(&mut self, group: Group, until: Instant) {
        for waiting in self.of(group) {
            waiting.until = waiting.until.max(until);
        }
    }

    /// No symbol of a group waits any longer.
    pub(super) fn stop(&mut self, group: Group) {
        for waiting in self.of(group) {
            waiting.until = Instant::ZERO;
        }
    }

    fn of(&mut self, group: Group) -> impl Iterator<Item = &mut Waiting> {
        let all = self.0.iter_mut();
        all.filter(move |waiting| group.contains(waiting.id))
    }

    /// When the first of them has waited long enough.
    pub(super) fn timer(&self) -> Option<Instant> {
        self.0.iter().map(|waiting| waiting.until).min()
    }

    /// A symbol that has waited long enough, its path, and what it carried. One for which `until_when` has another time
    /// waits until then; not if it waits in vain.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        until_when: impl Fn(u64, &Tokens) -> Option<Instant>,
    ) -> Option<(u64, PathId, Tokens)> {
        let due = |waiting: &mut Waiting| {
            if waiting.until <= now
                && waiting.until > Instant::ZERO
                && let Some(until) = until_when(waiting.id, &waiting.tokens)
            {
                waiting.until = until;
            }
            waiting.until <= now
        };
        let index = self.0.iter_mut().position(due)?;
        let waiting = self.0.remove(index)?;
        Some((waiting.id, waiting.path, waiting.tokens))
    }

    /// How long a symbol waits at most: four times the margin that the time threshold has over a round
    /// trip (RFC 9002 s6.1.2), and a round trip for a repair symbol that has to leave first.
    pub(super) fn patience(smoothed_rtt: Duration, to_leave: bool) -> Duration {
        let margin = (smoothed_rtt / 2).max(Duration::from_millis(1));
        if to_leave {
            smoothed_rtt + margin
        } else {
            margin
        }
    }
}
