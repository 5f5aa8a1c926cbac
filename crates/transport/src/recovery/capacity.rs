//! What a path has shown that it cannot exceed.
//!
//! Owns: the delivery rate seen while a queue stood, for as long as nothing contradicts it. Does not own:
//! the samples (`rate.rs`, `rtt.rs`), what a congestion controller thinks (`congestion/`).
//!
//! Round trips tell of a queue only a round trip later, and of a queue between two bursts not at all. So
//! what was learned while one stood is kept until twice as much was in flight without one.

use std::time::Duration;

use crate::{congestion::RateSample, units::Rate};

/// What is left of it with a sample of less.
const FADES: f64 = 15.0 / 16.0;

/// The rate of the bottleneck, once a queue has stood before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Capacity {
    known: Option<Rate>,
}

/// What round trips are without a queue, and now.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrips {
    pub(super) min: Duration,
    pub(super) recent: Duration,
}

impl RoundTrips {
    /// Whether they have grown so much that a queue must stand.
    pub(super) fn tell_of_queue(self) -> bool {
        self.recent > longest_without_queue(self.min)
    }
}

/// Longer round trips tell of a queue; shorter ones of chance.
pub(crate) fn longest_without_queue(min_rtt: Duration) -> Duration {
    min_rtt + min_rtt / 4
}

impl Capacity {
    pub(super) fn known(&self) -> Option<Rate> {
        self.known
    }

    /// The network path is another one.
    pub(super) fn forget(&mut self) {
        self.known = None;
    }

    pub(super) fn on_sample(&mut self, sample: &RateSample, round_trips: RoundTrips) {
        // What was in flight when the packet left was delivered by the time it was acknowledged.
        let drained = Rate::from_bytes_over(sample.tx_in_flight, round_trips.recent);
        let seen = sample.delivery_rate.max(drained);
        let before = if !round_trips.tell_of_queue() {
            match self.known {
                // In slow start a round trip later: it was no queue.
                Some(known) if sample.tx_in_flight > 2 * known.bytes_in(round_trips.min) => {
                    self.known = None;
                    return;
                }
                None => return,
                known => known,
            }
        } else if sample.app_limited {
            self.known
        } else {
            // A path may become slower; a sample across a pause is too low.
            self.known.map(|known| known.mul_f64(FADES))
        };
        self.known = Some(before.map_or(seen, |known| known.max(seen)));
    }

    /// Whether so many bytes in flight are more than the path holds without a queue, by a quarter.
    pub(super) fn is_exceeded_by(&self, in_flight: u64, min_rtt: Duration) -> bool {
        self.known.is_some_and(|rate| {
            let holds = rate.bytes_in(min_rtt);
            in_flight > holds.saturating_add(holds / 4)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(mbps: u64, tx_in_flight: u64) -> RateSample {
        RateSample {
            delivered: 0,
            interval: Duration::from_millis(40),
            delivery_rate: Rate::from_bits_per_second(mbps * 1_000_000),
            app_limited: false,
            prior_delivered: 0,
            lost: 0,
            tx_in_flight,
        }
    }

    fn round_trips(recent: u64) -> RoundTrips {
        RoundTrips {
            min: Duration::from_millis(40),
            recent: Duration::from_millis(recent),
        }
    }

    const MIN: Duration = Duration::from_millis(40);

    fn mbps(capacity: Capacity) -> Option<u64> {
        let known = capacity.known()?;
        Some(known.bits_per_second() / 1_000_000)
    }

    #[test]
    fn nothing_is_known_without_a_queue() {
        let mut capacity = Capacity::default();
        capacity.on_sample(&sample(5, 25_000), round_trips(42));
        assert_eq!(mbps(capacity), None);
        assert!(!capacity.is_exceeded_by(u64::MAX, MIN));
    }

    #[test]
    fn a_queue_that_drained_between_bursts_is_remembered() {
        let mut capacity = Capacity::default();
        capacity.on_sample(&sample(10, 75_000), round_trips(60));
        capacity.on_sample(&sample(8, 50_000), round_trips(41));
        assert_eq!(mbps(capacity), Some(10));
        assert!(capacity.is_exceeded_by(70_000, MIN));
    }

    #[test]
    fn twice_as_much_in_flight_without_a_queue_proves_it_wrong() {
        let mut capacity = Capacity::default();
        capacity.on_sample(&sample(10, 75_000), round_trips(60));
        capacity.on_sample(&sample(10, 110_000), round_trips(41));
        assert_eq!(mbps(capacity), None);
    }

    #[test]
    fn a_faster_delivery_raises_it() {
        let mut capacity = Capacity::default();
        capacity.on_sample(&sample(10, 75_000), round_trips(60));
        capacity.on_sample(&sample(12, 40_000), round_trips(41));
        assert_eq!(mbps(capacity), Some(12));
        // 80 kB within 41 ms: 15.6 Mb/s, whatever the sample across a pause says.
        capacity.on_sample(&sample(3, 80_000), round_trips(41));
        assert_eq!(mbps(capacity), Some(15));
    }

    #[test]
    fn a_slower_path_is_learned_in_some_samples() {
        let mut capacity = Capacity::default();
        capacity.on_sample(&sample(40, 200_000), round_trips(60));
        for _ in 0..32 {
            capacity.on_sample(&sample(10, 75_000), round_trips(80));
        }
        assert_eq!(mbps(capacity), Some(10));
    }

    #[test]
    fn what_the_application_limited_only_raises_it() {
        let mut capacity = Capacity::default();
        capacity.on_sample(&sample(10, 75_000), round_trips(60));
        let limited = RateSample {
            app_limited: true,
            ..sample(2, 10_000)
        };
        capacity.on_sample(&limited, round_trips(60));
        assert_eq!(mbps(capacity), Some(10));
    }
}
