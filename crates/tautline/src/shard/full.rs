//! What waits while a socket's send buffer is full, and for how long.
//!
//! Owns: when a full socket stops holding everybody up. Does not own: the batch that waits (`io.rs`).
//!
//! A buffer that the link empties is full for a moment: whoever waits loses nothing, and nothing else has to be kept.
//! But a modem or a Wi-Fi driver may stand still for seconds with all that a socket may hold. Then the other sockets
//! of the shard, and everybody's timeouts, must go on, and what the full one does not take is a lost packet, as it is to
//! any sender behind a full queue: the path is found to be silent by its own probe timeouts.

use std::time::Duration;

use tautline_transport::time::Instant;

/// All wait so long for a socket that is the only one.
const ALONE: Duration = Duration::from_millis(100);
/// The same where others could send meanwhile. A link of a gigabit per second empties half a megabyte in less.
const BESIDE_OTHERS: Duration = Duration::from_millis(5);
/// After a wait in vain nobody waits for that socket for so long: one that is always full would take a part of all
/// others' time.
const NEXT_WAIT: Duration = Duration::from_millis(250);

/// Whether a socket may hold others up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    none_until: Option<Instant>,
}

impl Patience {
    /// The socket is full: until when all wait for it, if they do.
    pub(super) fn wait(self, now: Instant, is_alone: bool) -> Option<Instant> {
        if self.none_until.is_some_and(|until| now < until) {
            return None;
        }
        Some(now + if is_alone { ALONE } else { BESIDE_OTHERS })
    }

    /// They did, in vain.
    pub(super) fn on_waited_in_vain(&mut self, now: Instant) {
        self.none_until = Some(now + NEXT_WAIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_socket_holds_others_up_for_a_moment_now_and_then() {
        let mut patience = Patience::default();
        let start = Instant::ZERO;
        let until = patience.wait(start, false).unwrap();
        assert_eq!(until, start + BESIDE_OTHERS);
        patience.on_waited_in_vain(until);
        assert_eq!(patience.wait(until, false), None);
        let next = until + NEXT_WAIT;
        assert_eq!(patience.wait(next, false), Some(next + BESIDE_OTHERS));
    }

    #[test]
    fn one_that_is_alone_is_waited_for_longer() {
        let patience = Patience::default();
        let until = patience.wait(Instant::ZERO, true).unwrap();
        assert_eq!(until, Instant::ZERO + ALONE);
    }
}
