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
    pub(crate) fn last_room(&self, now: Instant, space: &PacketNumberSpace) -> bool {
        self.room() >= self.least_part() && self.pauses(now, space)
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
        let round_trip = self.rtt.smoothed();
        let pause = (round_trip / PAUSE).max(SHORTEST_PAUSE);
        let oldest = space.oldest_eliciting_sent();
        oldest.is_none_or(|sent| now.saturating_since(sent).saturating_add(pause) <= round_trip)
    }
}
