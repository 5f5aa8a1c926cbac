//! Acknowledgements of a path on another path than the one that carries them.
//!
//! On the path itself, while another one carries them: they show the peer what the path's own round trip is and
//! that its way back is alive, and with the PING beside them show us the same of the way there. And on
//! another one, once, when the path that carries its own falls quiet: it may be because its way back has
//! died, and the peer would send again all that had arrived.

use std::time::Duration;

use crate::time::Instant;

/// Round trips between two copies.
const ROUNDS: u32 = 4;
/// And at least this.
const LEAST: Duration = Duration::from_millis(100);
/// Packets that asked for an acknowledgement before one is copied: the peer's copies, which bring one each,
/// must not draw copies for ever.
const PACKETS: u32 = 2;

/// A path is quiet after its round trip over this without a packet that asks for an acknowledgement: soon enough
/// that the copy comes before the peer's probe timeout.
const QUIET: u32 = 4;
/// And at least this.
const PAUSE: Duration = Duration::from_millis(1);
/// If so many such packets came since it was quiet before: a probe, or a first packet, tells the peer most by the
/// way that its acknowledgement takes by itself.
const FLOW: u32 = 16;

/// When the next copy is due.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckCopies {
    /// A copy waits to be sent.
    owed: bool,
    /// Packets since the last copy that asked for an acknowledgement.
    eliciting: u32,
    next: Instant,
    /// As many, up to [`FLOW`], since another path carried a copy.
    flow: u32,
    /// From then on the path is quiet.
    quiet: Instant,
    /// And from then on a copy would come too late, and pass for a long round trip.
    over: Instant,
}

impl AckCopies {
    /// A packet that asks for an acknowledgement arrived. `at_once`: IMMEDIATE_ACK was in it, and other
    /// ways back may be dead.
    pub(crate) fn on_eliciting(&mut self, now: Instant, rtt: Duration, at_once: bool) {
        self.eliciting = self.eliciting.saturating_add(1);
        self.owed |= at_once;
        self.flow = FLOW.min(self.flow + 1);
        self.quiet = now + (rtt / QUIET).max(PAUSE);
        self.over = self.quiet + rtt;
    }

    /// The path carries its acknowledgements itself: whether another one is to repeat them now, with a packet that it
    /// sends anyway.
    pub(crate) fn is_wanted_elsewhere(&self, now: Instant) -> bool {
        self.flow == FLOW && (self.quiet..self.over).contains(&now)
    }

    pub(crate) fn on_told_elsewhere(&mut self) {
        self.flow = 0;
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
            copies.on_eliciting(now, rtt, false);
            copies.review(now);
            if copies.is_owed() {
                copies.on_written(now, rtt);
                written += 1;
            }
        }
        assert_eq!(written, 5);
        copies.rest();
        // One packet, such as the peer's PING, is none to copy for; a probe is.
        let later = Instant::ZERO + Duration::from_secs(10);
        copies.on_eliciting(later, rtt, false);
        copies.review(later);
        assert!(!copies.is_owed());
        copies.on_eliciting(later, rtt, true);
        assert!(copies.is_owed());
    }

    #[test]
    fn a_path_that_falls_quiet_is_told_of_once() {
        let ms = Duration::from_millis(1);
        let at = |time: u32| Instant::ZERO + time * ms;
        let mut copies = AckCopies::default();
        assert!(!copies.is_wanted_elsewhere(at(0)));
        for time in 0..100 {
            copies.on_eliciting(at(time), 40 * ms, false);
            assert!(!copies.is_wanted_elsewhere(at(time)));
        }
        assert!(!copies.is_wanted_elsewhere(at(108)));
        assert!(copies.is_wanted_elsewhere(at(109)));
        assert!(copies.is_wanted_elsewhere(at(148)));
        assert!(!copies.is_wanted_elsewhere(at(149)), "too late");
        copies.on_told_elsewhere();
        assert!(!copies.is_wanted_elsewhere(at(1_000)));
        for _ in 1..FLOW {
            copies.on_eliciting(at(1_000), 40 * ms, true);
        }
        assert!(!copies.is_wanted_elsewhere(at(1_010)), "too few");
        copies.on_eliciting(at(1_000), 40 * ms, false);
        assert!(copies.is_wanted_elsewhere(at(1_010)));
    }
}
