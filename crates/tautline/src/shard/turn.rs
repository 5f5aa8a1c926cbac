//! Which of several sockets is received from.
//!
//! Data that crossed several paths is read nearly in the order in which it was sent: another socket follows as soon
//! as one is ahead. What is read too early has to be copied out of the receive buffers.
//!
//! Owns: whose turn it is, and for how long. Does not own: the sockets (`io.rs`), what is read from them (`driver.rs`).

/// A socket that brings what comes next is received from so many times before the others, too, have a turn.
const MOST_BATCHES: usize = 8;

/// Which socket is received from: 0 the main one, then the others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    socket: usize,
    batches: usize,
}

impl Turn {
    /// Whose it is among so many.
    pub(super) fn of(&mut self, sockets: usize) -> usize {
        self.socket %= sockets;
        self.socket
    }

    /// That one has nothing.
    pub(super) fn pass(&mut self) {
        *self = Self {
            socket: self.socket.wrapping_add(1),
            batches: 0,
        };
    }

    /// That one had a batch.
    pub(super) fn on_batch(&mut self, in_order: bool) {
        self.batches += 1;
        if !in_order || self.batches >= MOST_BATCHES {
            self.pass();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_brings_what_comes_next_goes_on_for_a_while() {
        let mut turn = Turn::default();
        for _ in 1..MOST_BATCHES {
            turn.on_batch(true);
            assert_eq!(turn.of(2), 0);
        }
        turn.on_batch(true);
        assert_eq!(turn.of(2), 1, "the others have a turn, too");
        turn.on_batch(false);
        assert_eq!(turn.of(2), 0, "what is missing stands elsewhere");
        turn.on_batch(true);
        turn.pass();
        assert_eq!(turn.of(2), 1, "it has nothing");
        turn.on_batch(true);
        assert_eq!(turn.of(1), 0, "the other socket is gone");
    }

    #[test]
    fn every_socket_has_its_turn() {
        let mut turn = Turn::default();
        let turns = [(); 6].map(|()| {
            let socket = turn.of(3);
            turn.on_batch(false);
            socket
        });
        assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
    }
}
