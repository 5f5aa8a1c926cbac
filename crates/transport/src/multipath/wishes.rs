//! Paths that the application asked for and that cannot begin yet.
//!
//! Owns: which wait, in what order, and for how long. Does not own: what lets them begin, or what the peer is told
//! meanwhile (`connection/multipath.rs`), the identifiers themselves (`ids.rs`).

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use crate::{
    time::Instant,
    units::{FourTuple, PathId},
};

/// Paths that wait to be opened at most; 64 bytes each.
const MAX_WISHES: usize = 16;
/// How long a path waits for the peer's connection IDs: they come a round trip after it is asked for them.
const PATIENCE: Duration = Duration::from_secs(10);

/// Paths that wait for connection IDs, in the order of their identifiers.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathWishes {
    waiting: VecDeque<(PathId, FourTuple)>,
    /// When the first of them is given up.
    gives_up_at: Option<Instant>,
}

impl PathWishes {
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_WISHES
    }

    /// Whether one over these addresses waits.
    pub(crate) fn is_over(&self, to: &FourTuple) -> bool {
        self.waiting.iter().any(|(_, wish)| wish.matches(to))
    }

    pub(crate) fn contains(&self, id: PathId) -> bool {
        self.waiting.iter().any(|(wish, _)| *wish == id)
    }

    pub(crate) fn push(&mut self, id: PathId, to: FourTuple) {
        self.waiting.push_back((id, to));
    }

    /// The next to begin.
    pub(crate) fn first(&self) -> Option<(PathId, FourTuple)> {
        self.waiting.front().copied()
    }

    /// The first has waited: whether for too long.
    pub(crate) fn gives_up(&mut self, now: Instant) -> bool {
        let late = now >= *self.gives_up_at.get_or_insert(now + PATIENCE);
        if late {
            self.gives_up_at = None;
        }
        late
    }

    /// The first begins.
    pub(crate) fn pop(&mut self) {
        self.gives_up_at = None;
        self.waiting.pop_front();
    }

    /// Nobody wants it any more; whether it waited.
    pub(crate) fn remove(&mut self, id: PathId) -> bool {
        let at = self.waiting.iter().position(|(wish, _)| *wish == id);
        if at == Some(0) {
            // The next one waits from now on.
            self.gives_up_at = None;
        }
        at.and_then(|at| self.waiting.remove(at)).is_some()
    }

    /// Our address `from` is `to` now.
    pub(crate) fn rebind(&mut self, from: SocketAddr, to: SocketAddr) {
        for (_, wish) in self.waiting.iter_mut().filter(|(_, it)| it.local == from) {
            wish.local = to;
        }
    }

    /// When the first is given up, if one waits in vain.
    pub(crate) fn timer(&self) -> Option<Instant> {
        self.gives_up_at.filter(|_| !self.waiting.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(port: u16) -> FourTuple {
        FourTuple {
            local: SocketAddr::from(([10, 0, 0, 1], port)),
            remote: SocketAddr::from(([10, 0, 0, 2], 443)),
        }
    }

    #[test]
    fn the_first_is_given_up_and_the_next_waits_as_long() {
        let mut wishes = PathWishes::default();
        wishes.push(PathId(1), over(1));
        wishes.push(PathId(2), over(2));
        assert_eq!(wishes.timer(), None);
        let start = Instant::ZERO;
        assert!(!wishes.gives_up(start));
        assert_eq!(wishes.timer(), Some(start + PATIENCE));
        assert!(wishes.gives_up(start + PATIENCE));
        assert!(wishes.remove(PathId(1)) && !wishes.remove(PathId(1)));
        assert!(!wishes.gives_up(start + PATIENCE));
        assert_eq!(wishes.timer(), Some(start + 2 * PATIENCE));
        // One that nobody wants any more leaves its time to none.
        wishes.push(PathId(3), over(3));
        assert!(wishes.remove(PathId(2)) && wishes.timer().is_none());
        assert!(!wishes.gives_up(start + 3 * PATIENCE));
        assert_eq!(wishes.timer(), Some(start + 4 * PATIENCE));
        wishes.pop();
        assert_eq!((wishes.first(), wishes.timer()), (None, None));
    }

    #[test]
    fn wishes_are_bounded_and_follow_our_address() {
        let mut wishes = PathWishes::default();
        for port in 1..=MAX_WISHES as u16 {
            assert!(!wishes.is_full());
            wishes.push(PathId(port.into()), over(port));
        }
        assert!(wishes.is_full() && wishes.contains(PathId(3)));
        wishes.rebind(over(3).local, over(99).local);
        assert!(wishes.is_over(&over(99)) && !wishes.is_over(&over(3)));
    }
}
