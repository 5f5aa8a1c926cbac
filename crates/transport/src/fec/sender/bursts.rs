//! Of which bursts packets are.
//!
//! Owns: [`Bursts`]: what of its burst had left up to a packet near its beginning, and how long after the burst before the latest
//! began, protected or not. Does not own: what the round trips of such packets tell (`fec/redundancy/`), the bursts that are
//! protected (`asking.rs`).

use std::{collections::VecDeque, time::Duration};

use super::Departure;
use crate::{
    fec::redundancy::InBurst,
    time::Instant,
    units::{PacketNumber, PathId},
};

/// Packets of a burst that are remembered, of all bursts together. 32 bytes each.
const OF_ONE: u32 = 16;
const REMEMBERED: usize = 256;

/// The stream and datagram data of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentData {
    /// Frames without data.
    None,
    /// Nothing that left before.
    New,
    /// Some of it left before.
    Again,
}

/// The first packets of the latest bursts on a path.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    path: PathId,
    /// Ascending numbers.
    packets: VecDeque<(PacketNumber, InBurst)>,
    /// What left of this burst.
    left: InBurst,
    /// When the latest began, and how long after the one before.
    began: Option<Instant>,
    interval: Option<Duration>,
}

impl Bursts {
    /// The application has nothing to send.
    pub(super) fn on_pause(&mut self) {
        self.left = InBurst {
            burst: self.left.burst + u64::from(self.left.packets > 0),
            ..InBurst::default()
        };
    }

    /// An ack-eliciting packet left, without a repair symbol. One without new data begins no burst: the application did not.
    #[inline]
    pub(super) fn on_sent(&mut self, packet: Departure, bytes: usize, data: SentData) {
        let Departure { path, number, at } = packet;
        if data != SentData::New && self.left.packets == 0 {
            return;
        }
        if self.left.packets == 0 {
            let before = self.began.replace(at);
            self.interval = before.map(|before| at.saturating_since(before));
        }
        self.left.packets = self.left.packets.saturating_add(1);
        self.left.bytes = self.left.bytes.saturating_add(bytes as u64);
        if self.left.packets <= OF_ONE {
            self.remember(path, number);
        }
    }

    fn remember(&mut self, path: PathId, number: PacketNumber) {
        if self.path != path {
            self.path = path;
            self.packets.clear();
        }
        if self.packets.len() >= REMEMBERED {
            self.packets.pop_front();
        }
        self.packets.push_back((number, self.left));
    }

    /// Bytes of the burst so far.
    pub(super) fn left_bytes(&self) -> u64 {
        self.left.bytes
    }

    /// How long after the burst before the latest began.
    pub(super) fn interval(&self) -> Option<Duration> {
        self.interval
    }

    /// What of its burst had left with a packet, if that is remembered.
    pub(super) fn of(&self, packet: Departure) -> Option<InBurst> {
        // Of a long burst most packets are newer than those.
        let newest = self.packets.back().map(|(number, _)| *number);
        if newest.is_none_or(|newest| newest < packet.number) {
            return None;
        }
        let at = self
            .packets
            .binary_search_by_key(&packet.number, |(number, _)| *number);
        let (_, of) = self.packets.get(at.ok()?)?;
        (packet.path == self.path).then_some(*of)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::departures::tests::packet, *};

    fn send(bursts: &mut Bursts, path: u32, numbers: std::ops::Range<u64>) {
        bursts.on_pause();
        for number in numbers {
            bursts.on_sent(packet(path, number), 1_000, SentData::New);
        }
    }

    fn of(burst: u64, packets: u32) -> Option<InBurst> {
        Some(InBurst {
            burst,
            packets,
            bytes: u64::from(packets) * 1_000,
        })
    }

    #[test]
    fn what_had_left_of_a_burst() {
        let mut bursts = Bursts::default();
        send(&mut bursts, 0, 1..4);
        assert_eq!(bursts.interval(), None);
        bursts.on_pause();
        send(&mut bursts, 0, 7..8);
        assert_eq!(bursts.interval(), Some(Duration::from_millis(6)));
        let told = (0..8).map(|number| bursts.of(packet(0, number)));
        let none = None;
        assert!(told.eq([
            none,
            of(0, 1),
            of(0, 2),
            of(0, 3),
            none,
            none,
            none,
            of(1, 1)
        ]));
    }

    #[test]
    fn what_is_repeated_begins_none() {
        let mut bursts = Bursts::default();
        send(&mut bursts, 0, 0..3);
        bursts.on_pause();
        bursts.on_sent(packet(0, 3), 50, SentData::None);
        assert_eq!((bursts.of(packet(0, 3)), bursts.left_bytes()), (None, 0));
        bursts.on_sent(packet(0, 3), 1_000, SentData::Again);
        assert_eq!((bursts.of(packet(0, 3)), bursts.left_bytes()), (None, 0));
        bursts.on_sent(packet(0, 4), 1_000, SentData::New);
        bursts.on_sent(packet(0, 5), 1_000, SentData::Again);
        assert_eq!(bursts.of(packet(0, 5)), of(1, 2));
    }

    #[test]
    fn of_one_path_and_the_latest_ones() {
        let mut bursts = Bursts::default();
        send(&mut bursts, 0, 0..100);
        assert_eq!(bursts.packets.len(), OF_ONE as usize);
        for number in 100..1_000 {
            send(&mut bursts, 0, number..number + 1);
        }
        assert_eq!(bursts.packets.len(), REMEMBERED);
        assert_eq!(bursts.of(packet(0, 999)), of(900, 1));
        assert_eq!(bursts.of(packet(0, 1)), None);
        assert_eq!(bursts.of(packet(1, 999)), None);
        send(&mut bursts, 1, 5..6);
        assert_eq!(bursts.of(packet(0, 999)), None);
        assert_eq!(bursts.of(packet(1, 5)), of(901, 1));
    }
}
