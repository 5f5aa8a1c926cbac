//! What tells of a queue.
//!
//! Owns: how long a round trip may take before a queue of our own must stand, and how much of that is
//! jitter. Does not own: the samples (`rtt.rs`), what is concluded from a queue (`capacity.rs`, `loss.rs`).
//!
//! A queue of our own grows with what is in flight; jitter does not. So where much more passed within a
//! round trip that took no longer, the earlier length was no queue, and from then on counts as jitter.

use std::time::Duration;

/// Round trips longer than the shortest by its fifth tell of a queue.
const LONGER: u32 = 5;
/// So many times as much must have passed. Slow start sends bursts at twice the bottleneck's rate, which queue
/// before the path is full: where the next one's queue is as long, half as much again has passed.
const MORE: f64 = 1.75;
/// What is learned of jitter is learned from few samples.
const SAFETY: u32 = 2;
/// A few packets make no queue, bytes.
const FEW: u64 = 6_000;

/// What round trips are without a queue, and now.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrips {
    pub(super) min: Duration,
    /// The smaller of the two newest: a single straggler counts for nothing.
    pub(super) recent: Duration,
    /// The larger of the two: within that, what was in flight has passed.
    pub(super) longer: Duration,
}

/// Tells queues from jitter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueSigns {
    /// Bytes that passed within a round trip when it was first too long, and how much longer than the
    /// shortest it was.
    first: Option<(u64, Duration)>,
    jitter: Duration,
}

impl QueueSigns {
    /// The longest round trip that may be chance; at most twice the shortest.
    pub(super) fn longest_without(&self, min_rtt: Duration) -> Duration {
        min_rtt + (min_rtt / LONGER).max(self.jitter.min(min_rtt))
    }

    /// Whether round trips have grown so much that a queue must stand.
    pub(super) fn tell_of_queue(&self, round_trips: RoundTrips) -> bool {
        round_trips.recent > self.longest_without(round_trips.min)
    }

    /// Whether signs have turned out to be none: more than usual may be chance.
    pub(super) fn know_jitter(&self) -> bool {
        !self.jitter.is_zero()
    }

    /// `passed` bytes were delivered within the newest round trip. That an earlier one was jitter is shown by two that are
    /// no longer.
    pub(super) fn on_round_trip(&mut self, passed: u64, round_trips: RoundTrips) {
        let longer = round_trips.recent.saturating_sub(round_trips.min);
        let within = round_trips.longer.saturating_sub(round_trips.min);
        if let Some((before, then)) = self.first
            && passed as f64 > before as f64 * MORE
            && within <= then
        {
            self.jitter = self.jitter.max(then * SAFETY);
            self.first = None;
        }
        if self.first.is_none() && passed >= FEW && self.tell_of_queue(round_trips) {
            self.first = Some((passed, longer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trips(recent: u64) -> RoundTrips {
        RoundTrips {
            min: Duration::from_millis(40),
            recent: Duration::from_millis(recent),
            longer: Duration::from_millis(recent),
        }
    }

    fn after(samples: &[(u64, u64)]) -> QueueSigns {
        let mut signs = QueueSigns::default();
        for (passed, recent) in samples {
            signs.on_round_trip(*passed, round_trips(*recent));
        }
        signs
    }

    #[test]
    fn longer_round_trips_tell_of_a_queue() {
        let signs = QueueSigns::default();
        assert!(!signs.tell_of_queue(round_trips(48)));
        assert!(signs.tell_of_queue(round_trips(49)));
    }

    #[test]
    fn a_queue_that_grows_with_what_is_in_flight_stays_one() {
        let signs = after(&[(50_000, 50), (75_000, 60), (100_000, 80)]);
        assert!(!signs.know_jitter());
        assert!(signs.tell_of_queue(round_trips(50)));
    }

    #[test]
    fn what_is_no_longer_with_twice_as_much_is_jitter() {
        let signs = after(&[(15_000, 52), (30_000, 47)]);
        assert!(signs.know_jitter());
        assert!(!signs.tell_of_queue(round_trips(64)));
        assert!(signs.tell_of_queue(round_trips(65)));
    }

    #[test]
    fn bursts_of_slow_start_are_no_jitter() {
        // The next burst's queue is as long as the last one's when half as much again has passed.
        let signs = after(&[(40_000, 51), (44_000, 42), (60_000, 51), (80_000, 64)]);
        assert!(!signs.know_jitter());
    }

    #[test]
    fn a_burst_into_an_empty_queue_is_no_jitter_beside_a_round_trip_that_shows_the_next() {
        // Between bursts a short queue is empty: every other round trip is short, however much is in flight.
        let mut signs = after(&[(8_000, 50)]);
        let by_turns = RoundTrips {
            longer: Duration::from_millis(58),
            ..round_trips(50)
        };
        signs.on_round_trip(17_000, by_turns);
        assert!(!signs.know_jitter());
        signs.on_round_trip(17_000, round_trips(50));
        assert!(signs.know_jitter());
    }

    #[test]
    fn jitter_never_hides_a_queue_as_long_as_the_path() {
        let signs = after(&[(15_000, 400), (30_000, 47)]);
        assert!(signs.tell_of_queue(round_trips(81)));
    }

    #[test]
    fn a_lone_packet_says_nothing() {
        let signs = after(&[(100, 90), (300, 41)]);
        assert!(!signs.know_jitter());
    }
}
