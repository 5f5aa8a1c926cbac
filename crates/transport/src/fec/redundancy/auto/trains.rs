//! How long a link takes for packets that leave together.
//!
//! Owns: [`Trains`]. Does not own: what follows of it (`waits.rs`, `spare.rs`, `effect.rs`).
//!
//! Packets of a burst arrive no closer to each other, on average, than the link takes for them, however its delay varies; further
//! apart where the pacer spreads them. So what is told here is never too little for long.

use crate::{
    fec::redundancy::{InBurst, Measured},
    time::Instant,
};

/// Bytes that lie between two packets at least, if how far apart they arrive is to tell something.
const APART: u64 = 1_000;
/// Bursts from which that is known, and on which it rests, about.
const KNOWN: u32 = 8;
const RESTS_ON: u32 = 32;

/// What bursts of several packets tell of the link.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Trains {
    /// The first packet of a burst that came back: when it arrived, to a constant, and its place.
    first: Option<(Instant, InBurst)>,
    /// Seconds a byte, by the latest of that burst.
    latest: Option<f64>,
    bursts: u32,
    /// Seconds a byte, on average.
    mean: f64,
}

impl Trains {
    pub(super) fn on_round_trip(&mut self, packet: Measured) {
        let Some(place) = packet.in_burst else {
            return;
        };
        let arrived = packet.sent + packet.round_trip;
        match self.first {
            Some((first, from)) if from.burst == place.burst => {
                let bytes = place.bytes.saturating_sub(from.bytes);
                if bytes >= APART {
                    let apart = arrived.saturating_since(first).as_secs_f64();
                    self.latest = Some(apart / bytes as f64);
                }
            }
            _ => {
                if let Some(latest) = self.latest.take() {
                    self.bursts = self.bursts.saturating_add(1);
                    self.mean += (latest - self.mean) / f64::from(self.bursts.min(RESTS_ON));
                }
                self.first = Some((arrived, place));
            }
        }
    }

    /// Seconds that the link takes for so many bytes, at most; `None` while no bursts of several packets told.
    pub(super) fn time_of(&self, bytes: f64) -> Option<f64> {
        (self.bursts >= KNOWN).then_some(bytes * self.mean)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Bursts of so many packets of 1,250 bytes, which arrive so many ms apart.
    fn after(bursts: u64, packets: u32, apart_ms: f64) -> Trains {
        let mut trains = Trains::default();
        for burst in 0..bursts {
            for packet in 0..packets {
                trains.on_round_trip(Measured {
                    sent: Instant::ZERO + Duration::from_secs(burst),
                    round_trip: Duration::from_secs_f64(0.05 + f64::from(packet) * apart_ms / 1e3),
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

    #[test]
    fn how_far_apart_packets_arrive() {
        let takes = after(9, 4, 5.0).time_of(1_250.0).unwrap();
        assert!((takes - 0.005).abs() < 1e-9, "{takes}");
        assert_eq!(after(9, 4, 0.0).time_of(1_250.0), Some(0.0));
    }

    #[test]
    fn single_packets_and_few_bursts_tell_nothing() {
        assert_eq!(after(100, 1, 5.0).time_of(1_250.0), None);
        assert_eq!(after(8, 4, 5.0).time_of(1_250.0), None);
    }
}
