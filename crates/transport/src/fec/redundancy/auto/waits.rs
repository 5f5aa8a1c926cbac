//! How long packets wait before the link, and what a repair symbol costs those who share it.
//!
//! Owns: [`Waits`]. Does not own: queues that stand all the time (`worth.rs`, `strain.rs`), what repair symbols do to bursts of
//! this connection that follow them (`effect.rs`).
//!
//! Where packets come to a link at random, one more makes the others wait, all together, twice what one waits on average:
//! with a part `u` of the link in use and `s` seconds for a packet they wait `s u / 2 (1 - u)` (Pollaczek and Khinchine), and one
//! more keeps `u / (1 - u)` of them waiting for `s`. So neither the link's rate nor how many share it need be known. What comes at
//! fixed intervals waits less, until one more comes: so it is taken twice.

use std::time::Duration;

use super::{lately::Lately, trains::Trains};
use crate::{
    fec::redundancy::{Measured, RedundancyView},
    time::Instant,
};

/// How long all wait for a repair symbol, in mean waits.
const OTHERS: f64 = 4.0;
/// Packets of a size from which it is known how long one takes that does not wait, and packets from which the mean wait is.
const KNOWN: u32 = 4;
const ENOUGH: u32 = 8;
/// Packets of a burst that are of interest: of one that is acknowledged with the next the round trip is not told.
const FIRST: u32 = 2;
/// Packets on which the mean rests, about.
const RESTS_ON: u32 = 32;
/// The part of a full packet from which a size tells what the link takes for one.
const TELLING: f64 = 0.5;
/// For how long the shortest is remembered, twice.
const PERIOD: Duration = Duration::from_secs(5);
/// Sizes are told apart by the half of a power of two: packets of one take the link at most so much longer than its others.
const CLASSES: usize = 16;
const LEAST_BYTES: f64 = 32.0;
const PER_OCTAVE: f64 = 2.0;
/// What one costs at most, in times that the link takes for a packet: four fifths of its time are in use.
const BUSY: f64 = 4.0;
/// A link on which packets wait for longer than so many of them take is one whose delay varies for other reasons.
const MOST: f64 = 1.5;
/// Messages may wait for this part of the time that they have beyond the way, on average.
const PART: u32 = 10;

/// Packets of about a size that were the first of their bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Class {
    packets: u32,
    bytes: u64,
    shortest: Lately,
    least: Duration,
}

/// What bursts wait for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Waits {
    classes: [Class; CLASSES],
    /// The class with the most packets.
    usual: usize,
    packets: u32,
    /// Seconds, on average.
    mean: f64,
    /// What the link takes for packets of one burst.
    trains: Trains,
}

fn class_of(bytes: u64) -> usize {
    let octaves = (bytes as f64 / LEAST_BYTES).max(1.0).log2();
    ((octaves * PER_OCTAVE) as usize).min(CLASSES - 1)
}

impl Waits {
    fn usual(&self) -> Class {
        self.classes.get(self.usual).copied().unwrap_or_default()
    }

    pub(super) fn on_round_trip(&mut self, now: Instant, packet: Measured) {
        self.trains.on_round_trip(packet);
        let Some(place) = packet.in_burst.filter(|place| place.packets <= FIRST) else {
            return;
        };
        let bytes = place.bytes;
        let index = class_of(bytes);
        let most = self.usual().packets;
        let Some(class) = self.classes.get_mut(index) else {
            return;
        };
        class.least = class
            .shortest
            .note(now, packet.round_trip, PERIOD, <Duration as Ord>::min);
        (class.packets, class.bytes) = (class.packets.saturating_add(1), bytes);
        if class.packets >= most {
            self.usual = index;
        }
        if class.packets < KNOWN {
            return;
        }
        let wait = packet.round_trip.saturating_sub(class.least).as_secs_f64();
        self.packets = self.packets.saturating_add(1);
        self.mean += (wait - self.mean) / f64::from(self.packets.min(RESTS_ON));
    }

    /// Seconds that the link takes for a full packet, at least, by packets that did not wait; 0 where all had about the size of those with
    /// the shortest round trip.
    pub(super) fn least_packet_time(&self, view: &RedundancyView) -> f64 {
        let usual = self.usual();
        if usual.packets < KNOWN {
            return 0.0;
        }
        let takes = usual.least.saturating_sub(view.min_rtt).as_secs_f64();
        // What short packets take is the peer's time rather than the link's.
        let full = view.datagram_bytes as f64;
        takes * full / (usual.bytes as f64).max(full * TELLING)
    }

    /// Seconds that packets wait, on average.
    fn mean(&self, view: &RedundancyView) -> f64 {
        if self.packets < ENOUGH || view.several {
            return 0.0;
        }
        let packet = self.trains.time_of(view.datagram_bytes as f64);
        packet.map_or(self.mean, |packet| self.mean.min(MOST * packet))
    }

    /// Seconds that the link takes for so many bytes, at most, if that is known.
    pub(super) fn most_time_of(&self, bytes: f64) -> Option<f64> {
        self.trains.time_of(bytes)
    }

    /// The same for one packet where the delay of the way varies by more than that.
    pub(super) fn packet_time_if_delays_vary(&self, view: &RedundancyView) -> Option<f64> {
        let full = view.datagram_bytes as f64;
        let tells = self.trains.vary() && !view.several;
        self.trains.time_of(full).filter(|_| tells)
    }

    /// The same at least; 0 if that is not known.
    pub(super) fn least_time_of(&self, bytes: f64) -> f64 {
        self.trains.least_time_of(bytes)
    }

    /// Seconds that all wait longer for a repair symbol.
    pub(super) fn cost(&self, view: &RedundancyView) -> f64 {
        let all = OTHERS * self.mean(view);
        let packet = self.trains.time_of(view.datagram_bytes as f64);
        packet.map_or(all, |packet| all.min(BUSY * packet))
    }

    /// Whether a message may wait longer than it does.
    pub(super) fn is_short(&self, view: &RedundancyView) -> bool {
        let lifetime = view.lifetime.unwrap_or_default();
        let time = lifetime.saturating_sub(view.min_rtt / 2);
        self.mean(view) <= (time / PART).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{at, view},
        *,
    };
    use crate::fec::redundancy::InBurst;

    fn packet(round_trip: f64, bytes: u64, packets: u32) -> Measured {
        of_burst(0, round_trip, bytes, packets)
    }

    fn of_burst(burst: u64, round_trip: f64, bytes: u64, packets: u32) -> Measured {
        Measured {
            sent: Instant::ZERO,
            round_trip: Duration::from_secs_f64(round_trip),
            after_repair: None,
            in_burst: Some(InBurst {
                burst,
                packets,
                bytes,
            }),
        }
    }

    /// What is known after a second of such round trips, in ms.
    fn after(round_trip: impl Fn(u64) -> f64) -> Waits {
        let mut waits = Waits::default();
        for ms in (0..1_000).step_by(10) {
            waits.on_round_trip(at(ms), packet(round_trip(ms) / 1e3, 1_250, 1));
        }
        waits
    }

    #[test]
    fn who_does_not_wait_costs_nothing() {
        let view = view(4, 0.02);
        assert_eq!(Waits::default().cost(&view), 0.0);
        assert_eq!(after(|_| 70.0).cost(&view), 0.0);
        let several = RedundancyView {
            several: true,
            ..view
        };
        let waits = after(|ms| 60.0 + (ms % 40) as f64);
        assert!(waits.cost(&view) > 0.0);
        assert_eq!(waits.cost(&several), 0.0, "of which path is not told");
    }

    #[test]
    fn a_repair_symbol_costs_what_others_wait_for_it() {
        // A quarter of them waits for 20 ms.
        let waits = after(|ms| if ms % 40 == 0 { 80.0 } else { 60.0 });
        let cost = waits.cost(&view(4, 0.02));
        assert!((0.017..0.023).contains(&cost), "{cost}");
    }

    #[test]
    fn packets_of_other_sizes_take_longer_and_do_not_wait() {
        let of = |sizes: [(u64, f64); 3]| {
            let mut waits = Waits::default();
            for ms in (0..1_000).step_by(10) {
                let (bytes, takes) = sizes[(ms / 10 % 3) as usize];
                waits.on_round_trip(at(ms), packet(takes / 1e3, bytes, 1));
            }
            waits
        };
        // The first are one more than each of the others.
        let waits = of([(1_250, 60.0), (100, 50.8), (2_500, 70.0)]);
        let view = RedundancyView {
            min_rtt: Duration::from_millis(50),
            ..view(4, 0.02)
        };
        assert_eq!(waits.cost(&view), 0.0);
        assert!((waits.least_packet_time(&view) - 0.01).abs() < 1e-3);
        let short = of([(100, 50.8), (1_250, 60.0), (2_500, 70.0)]);
        assert_eq!(short.cost(&view), 0.0);
        let takes = short.least_packet_time(&view);
        assert!(takes > 0.0 && takes < 0.01, "no more than is sure: {takes}");
    }

    #[test]
    fn what_waits_for_its_own_burst_tells_nothing() {
        let mut waits = Waits::default();
        for ms in (0..1_000).step_by(10) {
            for packets in 1..=6_u32 {
                let round_trip = 0.05 + f64::from(packets) * 0.01;
                waits.on_round_trip(
                    at(ms),
                    of_burst(ms, round_trip, 1_250 * u64::from(packets), packets),
                );
            }
        }
        assert_eq!(waits.cost(&view(4, 0.02)), 0.0);
    }

    /// Bursts of two packets 1 ms apart: a link that is fast enough is not what they wait for.
    #[test]
    fn a_delay_that_varies_is_no_full_link() {
        let mut waits = Waits::default();
        for ms in (0..1_000).step_by(10) {
            let varies = if ms % 40 == 0 { 0.08 } else { 0.06 };
            waits.on_round_trip(at(ms), of_burst(ms, varies, 1_250, 1));
            waits.on_round_trip(at(ms), of_burst(ms, varies + 1e-3, 2_500, 2));
        }
        let view = RedundancyView {
            lifetime: Some(Duration::from_millis(40)),
            ..view(4, 0.02)
        };
        let cost = waits.cost(&view);
        assert!((cost - BUSY * 1e-3).abs() < 1e-6, "{cost}");
        assert!(waits.is_short(&view), "5 ms on average, were it the link");
    }

    #[test]
    fn a_longer_path_is_forgiven_in_time() {
        let mut waits = after(|_| 60.0);
        for ms in (1_000..13_000).step_by(10) {
            waits.on_round_trip(at(ms), packet(0.09, 1_250, 1));
        }
        assert!(waits.cost(&view(4, 0.02)) < 1e-3);
    }

    #[test]
    fn messages_may_wait_for_a_part_of_their_time() {
        let view = RedundancyView {
            lifetime: Some(Duration::from_millis(110)),
            min_rtt: Duration::from_millis(100),
            ..view(4, 0.02)
        };
        assert!(after(|ms| if ms % 40 == 0 { 110.0 } else { 100.0 }).is_short(&view));
        assert!(!after(|ms| if ms % 40 == 0 { 140.0 } else { 100.0 }).is_short(&view));
    }
}
