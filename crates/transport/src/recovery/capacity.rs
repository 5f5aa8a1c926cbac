//! What a path has shown that it cannot exceed.
//!
//! Owns: the delivery rate seen while a queue stood, for as long as nothing contradicts it; how much has
//! passed within a round trip; how much was in flight when the queue was full. Does not own: the samples
//! (`rate.rs`, `rtt.rs`), what tells of a queue (`queue.rs`), what a congestion controller thinks (`congestion/`).
//!
//! Round trips tell of a queue only a round trip later, and of a queue between two bursts not at all. So
//! what was learned while one stood is kept until much more passed without one.

use std::time::Duration;

use super::queue::{QueueSigns, RoundTrips};
use crate::{
    congestion::{RateSample, USUAL_PACKETS},
    time::Instant,
    units::Rate,
};

/// What is left of it with a sample of less.
const FADES: f64 = 15.0 / 16.0;

/// So many times what the path should hold must have passed without a queue to prove that it holds more.
const PROOF: f64 = 2.0;
/// The same of a path with jitter, whose first queue was likely none.
const PROOF_WITH_JITTER: f64 = 1.25;

/// The part of its capacity at which a path is sure to have no queue: what is known is the most that was seen.
const EVENLY: f64 = 0.97;

/// For so many round trips a queue is believed to hold no more than when it dropped something.
const BELIEVED: u32 = 32;

/// A queue that overflows drops at least this part of what is in flight within a round trip, and not less than so many
/// packets; what a path loses by itself is less, or more only by chance.
const DROPPED: u64 = 16;
const FEWEST_DROPPED: u32 = 4;

/// What the application limited tells of a queue from so many bytes on: an initial window of the least
/// datagrams. RFC 9002 s7.2.
const TELLING: u64 = USUAL_PACKETS as u64 * 1_200;

/// The rate of the bottleneck, once a queue has stood before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Capacity {
    known: Option<Rate>,
    signs: QueueSigns,
    most_passed: u64,
    overflow: Option<Overflow>,
    exceeded: Exceeded,
}

/// Round trips in which more was in flight than what is known, counted by packets.
#[derive(Clone, Copy, Debug, Default)]
struct Exceeded {
    rounds: u32,
    /// The round trip ends with the first packet that left after so much was delivered.
    until: u64,
}

impl Exceeded {
    fn on_sample(&mut self, sample: &RateSample) {
        if sample.prior_delivered >= self.until {
            self.rounds = self.rounds.saturating_add(1);
            self.until = sample.prior_delivered.saturating_add(sample.delivered);
        }
    }
}

/// What was in flight when a packet left that a full queue dropped.
#[derive(Clone, Copy, Debug)]
struct Overflow {
    /// The least of the latest, bytes.
    in_flight: u64,
    believed_until: Instant,
    burst: Burst,
    /// As long is believed that so much was dropped at once as a path does not lose by itself.
    certain_until: Option<Instant>,
}

/// Packets lost within a round trip.
#[derive(Clone, Copy, Debug)]
struct Burst {
    until: Instant,
    packets: u32,
    bytes: u64,
}

impl Burst {
    const fn new(until: Instant) -> Self {
        Self {
            until,
            packets: 0,
            bytes: 0,
        }
    }

    fn on_lost(&mut self, bytes: u64) {
        self.packets = self.packets.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Whether it is more of what was in flight than chance loses.
    fn is_dense(&self, in_flight: u64) -> bool {
        self.packets >= FEWEST_DROPPED && self.bytes.saturating_mul(DROPPED) >= in_flight
    }
}

impl Capacity {
    pub(super) fn known(&self) -> Option<Rate> {
        self.known
    }

    /// The most bytes that were delivered within a round trip.
    pub(super) fn most_passed(&self) -> u64 {
        self.most_passed
    }

    /// For how many round trips more has been in flight than the path holds, as far as is known.
    pub(super) fn rounds_exceeded(&self) -> u32 {
        self.exceeded.rounds
    }

    /// How fast data may leave without a queue.
    pub(super) fn evenly(&self) -> Option<Rate> {
        self.known.map(|rate| rate.mul_f64(EVENLY))
    }

    pub(super) fn signs(&self) -> &QueueSigns {
        &self.signs
    }

    /// The network path is another one.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    pub(super) fn on_sample(&mut self, sample: &RateSample, round_trips: RoundTrips) {
        // What was in flight when the packet left was delivered by the time it was acknowledged, or lost.
        let passed = sample.tx_in_flight.min(sample.delivered);
        self.most_passed = self.most_passed.max(passed);
        self.signs.on_round_trip(passed, round_trips);
        if self.is_exceeded_by(passed, round_trips.min) {
            self.exceeded.on_sample(sample);
        }
        let drained = Rate::from_bytes_over(passed, round_trips.longer);
        let seen = sample.delivery_rate.max(drained);
        let before = if !self.signs.tell_of_queue(round_trips) {
            let proof = if self.signs.know_jitter() {
                PROOF_WITH_JITTER
            } else {
                PROOF
            };
            match self.known {
                // In slow start a round trip later: it was no queue.
                Some(known) if passed > known.mul_f64(proof).bytes_in(round_trips.min) => {
                    self.known = None;
                    self.exceeded = Exceeded::default();
                    return;
                }
                None => return,
                known => known,
            }
        } else if sample.app_limited {
            // A small request behind others' data: the queue is not its own.
            if self.known.is_none() && passed < TELLING {
                return;
            }
            self.known
        } else {
            // A path may become slower; a sample across a pause is too low.
            self.known.map(|known| known.mul_f64(FADES))
        };
        self.known = Some(before.map_or(seen, |known| known.max(seen)));
    }

    /// A packet of `bytes` that left with `in_flight` of them was lost: if a queue stood, it was full.
    pub(super) fn on_lost(&mut self, now: Instant, bytes: u64, in_flight: u64, min_rtt: Duration) {
        if !self.is_exceeded_by(in_flight, min_rtt) {
            return;
        }
        let before = self.overflow.filter(|before| now < before.believed_until);
        let last = before
            .map(|before| before.burst)
            .filter(|burst| now < burst.until);
        let mut burst = last.unwrap_or(Burst::new(now + min_rtt));
        burst.on_lost(bytes);
        let believed_until = now + min_rtt * BELIEVED;
        let certain_until = if burst.is_dense(in_flight) {
            Some(believed_until)
        } else {
            before.and_then(|before| before.certain_until)
        };
        self.overflow = Some(Overflow {
            in_flight: before.map_or(in_flight, |before| before.in_flight.min(in_flight)),
            believed_until,
            burst,
            certain_until,
        });
    }

    /// Whether a queue was full for certain, and not only a packet lost while more was in flight than the path seems to
    /// hold.
    pub(super) fn has_overflowed(&self, now: Instant) -> bool {
        let certain = self.overflow.and_then(|overflow| overflow.certain_until);
        certain.is_some_and(|until| now < until)
    }

    /// Bytes in flight beyond which the path's queue drops packets, if it did so lately.
    pub(super) fn overflow(&self, now: Instant) -> Option<u64> {
        self.known?;
        let overflow = self
            .overflow
            .filter(|overflow| now < overflow.believed_until)?;
        Some(overflow.in_flight.max(self.most_passed))
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
            delivered: tx_in_flight,
            interval: Duration::from_millis(40),
            delivery_rate: Rate::from_bits_per_second(mbps * 1_000_000),
            send_rate: Rate::MAX,
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
            longer: Duration::from_millis(recent),
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

    /// What was in flight has passed within the longer of two round trips, of a burst's end and its beginning.
    #[test]
    fn a_burst_is_no_faster_than_its_end() {
        let mut capacity = Capacity::default();
        let burst = RoundTrips {
            longer: Duration::from_millis(80),
            ..round_trips(50)
        };
        capacity.on_sample(&sample(5, 100_000), burst);
        assert_eq!(mbps(capacity), Some(10));
        let even = capacity.evenly().unwrap();
        assert!(even < capacity.known().unwrap() && even.bits_per_second() > 9_500_000);
    }

    #[test]
    fn what_was_lost_proves_nothing() {
        let mut capacity = Capacity::default();
        let overflown = RateSample {
            delivered: 75_000,
            ..sample(10, 150_000)
        };
        capacity.on_sample(&overflown, round_trips(60));
        assert_eq!(mbps(capacity), Some(10));
        assert_eq!(capacity.most_passed(), 75_000);
    }

    #[test]
    fn with_jitter_less_proves_it_wrong() {
        let mut capacity = Capacity::default();
        capacity.on_sample(&sample(3, 15_000), round_trips(52));
        assert_eq!(mbps(capacity), Some(3));
        capacity.on_sample(&sample(6, 30_000), round_trips(47));
        assert_eq!(mbps(capacity), None);
    }

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn what_a_full_queue_dropped_tells_what_it_holds() {
        let mut capacity = Capacity::default();
        capacity.on_lost(NOW, 1_200, 100_000, MIN);
        assert_eq!(capacity.overflow(NOW), None, "no queue is known");
        // 50 kB without a queue.
        capacity.on_sample(&sample(10, 75_000), round_trips(60));
        capacity.on_lost(NOW, 1_200, 55_000, MIN);
        assert_eq!(capacity.overflow(NOW), None, "lost by chance");
        capacity.on_lost(NOW, 1_200, 100_000, MIN);
        capacity.on_lost(NOW, 1_200, 110_000, MIN);
        assert_eq!(capacity.overflow(NOW), Some(100_000));
        capacity.on_sample(&sample(10, 104_000), round_trips(80));
        assert_eq!(capacity.overflow(NOW), Some(104_000), "it has passed");
        assert_eq!(capacity.overflow(NOW + MIN * BELIEVED), None);
        // The next time counts alone.
        capacity.on_lost(NOW + MIN * BELIEVED, 1_200, 120_000, MIN);
        assert_eq!(capacity.overflow(NOW + MIN * BELIEVED), Some(120_000));
    }

    #[test]
    fn a_full_queue_drops_more_at_once_than_chance() {
        let mut capacity = Capacity::default();
        capacity.on_sample(&sample(10, 75_000), round_trips(60));
        let mut at = NOW;
        let mut lose = |capacity: &mut Capacity, packets: u32, after: Duration| {
            for _ in 0..packets {
                at += after;
                capacity.on_lost(at, 1_200, 100_000, MIN);
            }
            capacity.has_overflowed(at)
        };
        assert!(!lose(&mut capacity, 40, MIN), "one by one");
        assert!(!lose(&mut capacity, 3, Duration::ZERO), "few");
        assert!(!lose(&mut capacity, 1, MIN), "late");
        assert!(!lose(&mut capacity, 4, Duration::ZERO), "5 of 84");
        assert!(lose(&mut capacity, 1, Duration::ZERO), "6 of 84");
        assert!(lose(&mut capacity, 1, MIN), "believed, whatever follows");
        assert!(lose(&mut capacity, 1, MIN * (BELIEVED - 2)));
        assert!(!lose(&mut capacity, 1, MIN * 2), "not for ever");
    }

    #[test]
    fn round_trips_that_exceed_what_is_known_are_counted_by_packets() {
        let mut capacity = Capacity::default();
        let mut total = 0;
        let mut round = |capacity: &mut Capacity, bytes, rtt| {
            // Two samples of one round trip.
            for _ in 0..2 {
                let sample = RateSample {
                    prior_delivered: total,
                    ..sample(10, bytes)
                };
                capacity.on_sample(&sample, round_trips(rtt));
            }
            total += bytes;
        };
        round(&mut capacity, 75_000, 60);
        assert_eq!(capacity.rounds_exceeded(), 1);
        round(&mut capacity, 60_000, 60);
        assert_eq!(capacity.rounds_exceeded(), 1, "it is held");
        round(&mut capacity, 75_000, 60);
        assert_eq!(capacity.rounds_exceeded(), 2);
        round(&mut capacity, 110_000, 41);
        assert_eq!(capacity.rounds_exceeded(), 0, "known to be wrong");
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
        let limited = RateSample {
            app_limited: true,
            ..sample(2, 10_000)
        };
        capacity.on_sample(&limited, round_trips(60));
        assert_eq!(mbps(capacity), None, "a small request behind others' data");
        let mut capacity = Capacity::default();
        capacity.on_sample(&sample(10, 75_000), round_trips(60));
        capacity.on_sample(&limited, round_trips(60));
        assert_eq!(mbps(capacity), Some(10));
    }
}
