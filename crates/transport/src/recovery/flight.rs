//! The end of a flight: the window is full, and nothing comes back for a while.
//!
//! Small windows on long paths leave in flights with pauses between them. What the window holds back then waits
//! for a round trip, not for the next acknowledgement: a part of a datagram that still has room is worth a packet,
//! and the acknowledgement of the last packet is worth its way. Delayed acknowledgements answer every second
//! packet, so that the last one of an odd number is told of up to max_ack_delay later, and the next flight goes
//! without what it would have opened.
//!
//! Owns: when a flight ends. Does not own: the size of datagrams (`connection/permit.rs`), what asks for an
//! acknowledgement (`connection/ack_requests.rs`).

use std::time::Duration;

use super::Recovery;
use crate::{space::PacketNumberSpace, time::Instant};

/// Room for less than this part of a full datagram is not worth a packet.
const LEAST_PART: u64 = 4;
/// A pause is at least this part of a round trip...
const PAUSE: u32 = 4;
/// ...and this long: on the shortest paths whatever travels in batches would pass for flights.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

impl Recovery {
    /// Whether the window's last room, less than a full datagram, is worth a packet, since the path pauses behind it.
    ///
    /// Without a pacer flights are bursts, and one packet more than ten is the one that a queue of ten drops.
    pub(crate) fn last_room(&self, now: Instant, space: &PacketNumberSpace) -> bool {
        self.paces() && self.room() >= self.least_part() && self.pauses(now, space)
    }

    /// Whether a packet of `bytes` is the last of its flight.
    pub(crate) fn ends_flight(&self, now: Instant, space: &PacketNumberSpace, bytes: u64) -> bool {
        let left = self.room().saturating_sub(bytes);
        left < self.least_part() && self.pauses(now, space)
    }

    fn least_part(&self) -> u64 {
        u64::from(self.mtu) / LEAST_PART
    }

    /// Whether no acknowledgement is due for a while: the oldest packet under way left a moment ago.
    fn pauses(&self, now: Instant, space: &PacketNumberSpace) -> bool {
        if !self.rtt.has_sample() {
            return false;
        }
        // Behind a queue that has gone, acknowledgements come earlier than the smoothed round trip says.
        let round_trip = self.rtt.smoothed().min(self.rtt.latest());
        let pause = (round_trip / PAUSE).max(SHORTEST_PAUSE);
        let oldest = space.oldest_eliciting_sent();
        oldest.is_none_or(|sent| now.saturating_since(sent).saturating_add(pause) <= round_trip)
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_path::*;

    fn last_room(path: &TestPath, millis: u64) -> bool {
        path.recovery.last_room(at(millis), &path.spaces[2])
    }

    fn ends_flight(path: &TestPath, millis: u64, bytes: u64) -> bool {
        path.recovery
            .ends_flight(at(millis), &path.spaces[2], bytes)
    }

    /// A round trip of 100 ms, nothing in flight, a window of ten packets and a half.
    fn path() -> TestPath {
        let mut path = TestPath::new();
        path.send(at(0));
        path.ack(at(100), &[0..=0]);
        path.notes.set_window(u64::from(MTU) * 21 / 2);
        path
    }

    #[test]
    fn a_flight_ends_where_nothing_comes_back_for_a_while() {
        let mut path = path();
        path.send_many(at(100), 9);
        let full = u64::from(MTU);
        assert!(!ends_flight(&path, 100, full), "half a packet is left");
        assert!(ends_flight(&path, 100, full * 3 / 2));
        path.send(at(110));
        // Acknowledgements are due at 200.
        assert!(last_room(&path, 110) && last_room(&path, 175));
        assert!(!last_room(&path, 176) && !last_room(&path, 300));
        assert!(ends_flight(&path, 175, full / 2) && !ends_flight(&path, 176, full / 2));
    }

    #[test]
    fn crumbs_are_not_worth_a_packet() {
        let mut path = path();
        path.send_many(at(100), 10);
        let window = |part: u64| u64::from(MTU) * 10 + part;
        path.notes.set_window(window(300));
        assert!(last_room(&path, 100));
        path.notes.set_window(window(299));
        assert!(!last_room(&path, 100) && ends_flight(&path, 100, 0));
    }

    #[test]
    fn acknowledgements_that_follow_each_other_leave_no_pause() {
        let mut path = path();
        path.send_many(at(100), 10);
        path.send(at(190));
        path.ack(at(200), &[1..=2]);
        // The next ones left at the same time as these, and theirs is due now.
        assert!(!last_room(&path, 200));
        path.ack(at(201), &[1..=10]);
        assert!(last_room(&path, 201), "only what left at 190 is under way");
    }

    #[test]
    fn nothing_is_known_before_the_first_sample_or_below_a_millisecond() {
        let mut path = TestPath::new();
        path.notes.set_window(u64::from(MTU) * 3 / 2);
        path.send(at(0));
        assert!(!last_room(&path, 0));
        let mut path = TestPath::new();
        path.send(at(0));
        path.ack(at(0) + std::time::Duration::from_micros(900), &[0..=0]);
        path.notes.set_window(u64::from(MTU) * 3 / 2);
        path.send(at(1));
        assert!(!last_room(&path, 1));
    }
}
