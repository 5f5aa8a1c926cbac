//! When repair symbols left.
//!
//! Owns: [`Departures`]: how long before a packet a repair symbol had left. Does not own: what that did to the packet
//! (`fec/redundancy/`).

use std::{collections::VecDeque, time::Duration};

use crate::{
    time::Instant,
    units::{PacketNumber, PathId},
};

/// Repair symbols that are remembered. 24 bytes each.
const REMEMBERED: usize = 64;

/// A packet with a repair symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Its path.
    pub path: PathId,
    /// Its number there.
    pub number: PacketNumber,
    /// When it left.
    pub at: Instant,
}

/// The latest of them.
#[derive(Debug, Default)]
pub(super) struct Departures(VecDeque<Departure>);

impl Departures {
    pub(super) fn note(&mut self, departure: Departure) {
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(departure);
    }

    /// How long before another packet the last repair symbol had left on its path, if one is remembered. `None` if the packet has
    /// a repair symbol itself.
    pub(super) fn before(&self, packet: Departure) -> Option<Option<Duration>> {
        let mut before = None;
        for sent in self.0.iter().filter(|sent| sent.path == packet.path) {
            if sent.number == packet.number {
                return None;
            }
            if sent.number < packet.number {
                before = Some(packet.at.saturating_since(sent.at));
            }
        }
        Some(before)
    }
}

#[cfg(test)]
pub(in crate::fec::sender) mod tests {
    use super::*;

    pub(in crate::fec::sender) fn packet(path: u32, number: u64) -> Departure {
        Departure {
            path: PathId(path),
            number,
            at: Instant::ZERO + Duration::from_millis(number),
        }
    }

    #[test]
    fn the_last_before_counts() {
        let mut departures = Departures::default();
        assert_eq!(departures.before(packet(0, 5)), Some(None));
        for (path, number) in [(0, 10), (1, 15), (0, 20)] {
            departures.note(packet(path, number));
        }
        let ms = |ms| Some(Some(Duration::from_millis(ms)));
        assert_eq!(departures.before(packet(0, 5)), Some(None));
        assert_eq!(departures.before(packet(0, 19)), ms(9));
        assert_eq!(departures.before(packet(0, 20)), None, "is one itself");
        assert_eq!(departures.before(packet(0, 25)), ms(5));
        assert_eq!(departures.before(packet(1, 14)), Some(None));
        for number in 100..300 {
            departures.note(packet(0, number));
        }
        assert_eq!(departures.0.len(), REMEMBERED);
    }
}
