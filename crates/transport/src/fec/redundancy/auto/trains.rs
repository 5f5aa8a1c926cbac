//! How long a link takes for packets that leave together.
//!
//! Owns: [`Trains`]. Does not own: what follows of it (`waits.rs`, `spare.rs`, `effect.rs`).
//!
//! Packets of a burst arrive no closer to each other, in the median, than the link takes for them, however its delay varies; further
//! apart where the pacer spreads them, or where the delay varies and no packet overtakes another. What a link takes is the same for
//! each burst, what chance adds is not: where a quarter of the bursts arrives far closer together than half of them, that quarter
//! tells. So what is told here is seldom too little, and not for long; and where packets arrive further apart than they left, it
//! is what the link takes.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::{
    fec::redundancy::{InBurst, Measured},
    time::Instant,
};

/// Bytes that lie between two packets at least, if how far apart they arrive is to tell something.
const APART: u64 = 1_000;
/// Bursts from which that is known, and on which it rests. 16 bytes each.
const KNOWN: usize = 8;
const RESTS_ON: usize = 64;
/// The link spreads packets that arrive so many times as far apart as they left.
const SPREAD: f64 = 1.25;
/// Where a quarter of the bursts arrives so many times closer together than half of them, delays vary.
const VARIES: f64 = 4.0;

/// What bursts of several packets tell of the link.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Trains {
    /// The first packet of a burst that came back: when it left and arrived, to a constant, and its place.
    first: Option<(Instant, Instant, InBurst)>,
    /// Seconds a byte, by the latest of that burst: when it left, and when it arrived.
    latest: Option<(f64, f64)>,
    /// The latest bursts.
    bursts: VecDeque<(f64, f64)>,
    /// Seconds a byte, in the median; that of arrivals in the first quartile where delays vary.
    left: f64,
    arrived: f64,
    varies: bool,
}

/// The first quartile, and the median.
fn quartiles(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut values: SmallVec<[f64; RESTS_ON]> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let at = |part: usize| values.get(values.len() / part).copied();
    (at(4).unwrap_or_default(), at(2).unwrap_or_default())
}

impl Trains {
    pub(super) fn on_round_trip(&mut self, packet: Measured) {
        let Some(place) = packet.in_burst else {
            return;
        };
        let arrived = packet.sent + packet.round_trip;
        match self.first {
            Some((left, first, from)) if from.burst == place.burst => {
                let bytes = place.bytes.saturating_sub(from.bytes);
                if bytes >= APART {
                    let a_byte =
                        |to: Instant, from| to.saturating_since(from).as_secs_f64() / bytes as f64;
                    self.latest = Some((a_byte(packet.sent, left), a_byte(arrived, first)));
                }
            }
            _ => {
                if let Some(burst) = self.latest.take() {
                    if self.bursts.len() >= RESTS_ON {
                        self.bursts.pop_front();
                    }
                    self.bursts.push_back(burst);
                    self.left = quartiles(self.bursts.iter().map(|(left, _)| *left)).1;
                    let (quartile, median) =
                        quartiles(self.bursts.iter().map(|(_, arrived)| *arrived));
                    self.varies = quartile * VARIES < median;
                    self.arrived = if self.varies { quartile } else { median };
                }
                self.first = Some((packet.sent, arrived, place));
            }
        }
    }

    /// Seconds that the link takes for so many bytes, at most; `None` while no bursts of several packets told.
    pub(super) fn time_of(&self, bytes: f64) -> Option<f64> {
        (self.bursts.len() >= KNOWN).then_some(bytes * self.arrived)
    }

    /// Whether the way's delay varies by more than the link takes for a packet.
    pub(super) fn vary(&self) -> bool {
        self.varies && self.bursts.len() >= KNOWN
    }

    /// The same at least; 0 while nothing tells.
    pub(super) fn least_time_of(&self, bytes: f64) -> f64 {
        let spreads = self.arrived > SPREAD * self.left;
        self.time_of(bytes).filter(|_| spreads).unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Bursts of so many packets of 1,250 bytes, each of which comes back after so many ms, by burst and packet.
    fn with(bursts: u64, packets: u32, round_trip_ms: impl Fn(u64, u32) -> f64) -> Trains {
        let mut trains = Trains::default();
        for burst in 0..bursts {
            for packet in 0..packets {
                trains.on_round_trip(Measured {
                    sent: Instant::ZERO + Duration::from_secs(burst),
                    round_trip: Duration::from_secs_f64(round_trip_ms(burst, packet) / 1e3),
                    after_repair: None,
                    in_burst: Some(InBurst {
                        burst,
                        packets: packet + 1,
                        bytes: 1_250 * u64::from(packet + 1),
                    }),
                });
            }
        }
        trains
    }

    /// Those that arrive so many ms apart.
    fn after(bursts: u64, packets: u32, apart_ms: f64) -> Trains {
        with(bursts, packets, |_, packet| {
            50.0 + f64::from(packet) * apart_ms
        })
    }

    #[test]
    fn how_far_apart_packets_arrive() {
        let takes = after(9, 4, 5.0).time_of(1_250.0).unwrap();
        assert!((takes - 0.005).abs() < 1e-9, "{takes}");
        assert_eq!(after(9, 4, 0.0).time_of(1_250.0), Some(0.0));
    }

    /// Each is late by as much as chance has it, and none overtakes another.
    #[test]
    fn delays_that_vary_tell_little() {
        let late = [0.0, 7.0, 3.0, 9.0, 5.0, 1.0, 8.0, 2.0, 6.0, 4.0];
        let arrives = |burst: u64, packet: u32| {
            let packet = u64::from(packet);
            50.0 + packet as f64 + late[(burst * 7 + packet * (3 + burst)) as usize % 10]
        };
        let trains = with(50, 2, |burst, packet| {
            (0..=packet)
                .map(|packet| arrives(burst, packet))
                .fold(0.0, f64::max)
        });
        let takes = trains.time_of(1_250.0).unwrap();
        // 3.2 ms on average.
        assert!((0.0..0.002).contains(&takes), "{takes}");
    }

    /// Packets arrive so many ms apart, by turns.
    #[test]
    fn what_chance_adds_is_not_what_the_link_takes() {
        let apart = |apart_ms: [f64; 4]| {
            let trains = with(80, 2, |burst, packet| {
                50.0 + f64::from(packet) * apart_ms[burst as usize % 4]
            });
            (trains.time_of(1_250.0).unwrap(), trains.vary())
        };
        let (takes, varies) = apart([1.0, 1.0, 14.0, 20.0]);
        assert!((0.0009..0.0011).contains(&takes) && varies);
        // Others' packets lie between.
        let (takes, varies) = apart([6.0, 8.0, 14.0, 20.0]);
        assert!((0.0139..0.0141).contains(&takes) && !varies);
    }

    #[test]
    fn what_the_link_spreads_it_takes() {
        let mut spread = after(9, 4, 5.0);
        assert!((spread.least_time_of(1_250.0) - 0.005).abs() < 1e-9);
        // The pacer did.
        spread.left = spread.arrived;
        assert_eq!(spread.least_time_of(1_250.0), 0.0);
        assert_eq!(after(8, 4, 5.0).least_time_of(1_250.0), 0.0, "too few");
    }

    #[test]
    fn single_packets_and_few_bursts_tell_nothing() {
        assert_eq!(after(100, 1, 5.0).time_of(1_250.0), None);
        assert_eq!(after(8, 4, 5.0).time_of(1_250.0), None);
    }
}
