//! Acknowledgements of a path on the path itself, while another one carries them.
//!
//! They show the peer what the path's own round trip is and that its way back is alive, and with the PING
//! beside them show us the same of the way there.

use std::time::Duration;

use crate::time::Instant;

/// Round trips between two copies.
const ROUNDS: u32 = 4;
/// And at least this.
const LEAST: Duration = Duration::from_millis(100);
/// Packets that asked for an acknowledgement before one is copied: the peer's copies, which bring one each,
/// must not draw copies for ever.
const PACKETS: u32 = 2;

/// When the next copy is due.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckCopies {
    /// A copy waits to be sent.
    owed: bool,
    /// Packets since the last copy that asked for an acknowledgement.
    eliciting: u32,
    next: Instant,
}

impl AckCopies {
    /// A packet that asks for an acknowledgement arrived. `at_once`: IMMEDIATE_ACK was in it, and other
    /// ways back may be dead.
    pub(crate) fn on_eliciting(&mut self, at_once: bool) {
        self.eliciting = self.eliciting.saturating_add(1);
        self.owed |= at_once;
    }

    /// Another path carries the acknowledgements: whether it is time for one here.
    pub(crate) fn review(&mut self, now: Instant) {
        self.owed |= self.eliciting >= PACKETS && now >= self.next;
    }

    /// The path carries its acknowledgements itself.
    pub(crate) fn rest(&mut self) {
        (self.owed, self.eliciting) = (false, 0);
    }

    pub(crate) fn is_owed(&self) -> bool {
        self.owed
    }

    pub(crate) fn on_written(&mut self, now: Instant, rtt: Duration) {
        self.rest();
        self.next = now + rtt.saturating_mul(ROUNDS).max(LEAST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_rare_and_end() {
        let rtt = Duration::from_millis(50);
        let mut copies = AckCopies::default();
        let mut written = 0;
        for ms in 0..1_000 {
            let now = Instant::ZERO + Duration::from_millis(ms);
            copies.on_eliciting(false);
            copies.review(now);
            if copies.is_owed() {
                copies.on_written(now, rtt);
                written += 1;
            }
        }
        assert_eq!(written, 5);
        copies.rest();
        // One packet, such as the peer's PING, is none to copy for; a probe is.
        copies.on_eliciting(false);
        copies.review(Instant::ZERO + Duration::from_secs(10));
        assert!(!copies.is_owed());
        copies.on_eliciting(true);
        assert!(copies.is_owed());
    }
}
