//! How fast bursts may leave that the link's queue does not hold.
//!
//! Owns: [`Even`]: whether an application-limited Startup loses packets behind others rather than any, and a bound of the pacing
//! rate that follows. Does not own: losses that tell of the path's capacity (`ledger.rs`).
//!
//! Who sends a burst every now and then never fills the pipe, and paces at Startup's gain for ever: faster than the link. A queue
//! of a few packets loses the ends of bursts then, and nothing ends that, since little is lost and bandwidth does not grow.
//! Losses by chance do not care what left before.

use std::{collections::VecDeque, time::Duration};

use crate::{
    congestion::SentEvent,
    time::Instant,
    units::{PacketNumber, Rate, Rows},
};

/// Packets that are remembered. 16 bytes each.
const REMEMBERED: usize = 256;
/// Losses of packets behind others that are no chance: so many, and so many deviations and such a part of the packets more than of
/// those in front.
const LEAST_LOSSES: f64 = 4.0;
const DEVIATIONS: f64 = 3.0;
const THRESHOLD: f64 = 0.02;
/// Packets in front from which these count.
const ENOUGH: f64 = 8.0;
/// What is left of the counts with each round.
const MEMORY: f64 = 7.0 / 8.0;
/// What is left of the rate each time, and the least that it is of the bandwidth known.
const LESS: f64 = 0.8;
const LEAST: f64 = 1.25;
/// After so long without such losses it is raised by a step again: the path may have changed.
const FORGIVES: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    packets: f64,
    losses: f64,
}

impl Count {
    fn fade(&mut self) {
        self.packets *= MEMORY;
        self.losses *= MEMORY;
    }
}

/// Losses by what left just before, and the bound that they led to.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Even {
    /// Bytes that would stand before a link as fast as the bandwidth known, and as of when.
    level: u64,
    at: Option<Instant>,
    /// The most of it in this round and in the one before.
    peak: (u64, u64),
    /// Packets, and whether more than half of that stood before the link when they left.
    sent: VecDeque<(PacketNumber, bool)>,
    in_front: Count,
    behind: Count,
    /// Losses, and rows of them.
    in_rows: (f64, f64),
    lost: Rows,
    /// Whether the application limited a sample of this round.
    limited: bool,
    limit: Option<Rate>,
    /// When the bound was set last.
    since: Option<Instant>,
}

impl Even {
    /// A packet leaves where so much bandwidth is known.
    pub(in super::super) fn on_sent(&mut self, event: &SentEvent, bandwidth: Rate) {
        let before = self.at.replace(event.now).unwrap_or(event.now);
        let gone = bandwidth.bytes_in(event.now.saturating_since(before));
        self.level = self.level.saturating_sub(gone).saturating_add(event.bytes);
        self.peak.0 = self.peak.0.max(self.level);
        let behind = self.level > self.peak.0.max(self.peak.1) / 2;
        if self.sent.len() >= REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back((event.packet_number, behind));
        self.count(behind).packets += 1.0;
    }

    fn count(&mut self, behind: bool) -> &mut Count {
        if behind {
            &mut self.behind
        } else {
            &mut self.in_front
        }
    }

    pub(in super::super) fn on_lost(&mut self, number: PacketNumber) {
        let begins = self.lost.begins(number);
        let at = self.sent.binary_search_by_key(&number, |(sent, _)| *sent);
        let Some((_, behind)) = at.ok().and_then(|at| self.sent.get(at)).copied() else {
            return;
        };
        self.in_rows.0 += 1.0;
        self.in_rows.1 += f64::from(u8::from(begins));
        self.count(behind).losses += 1.0;
    }

    /// A sample was taken, limited by the application or not.
    pub(in super::super) fn on_sample(&mut self, limited: bool) {
        self.limited |= limited;
    }

    /// A round of Startup ended, in which packets left at this rate.
    pub(in super::super) fn on_round(&mut self, now: Instant, rate: Rate) {
        if !std::mem::take(&mut self.limited) {
            // The pipe will be filled, or found full.
            self.clear();
            return;
        }
        if self.is_overfilled() {
            self.limit = Some(rate.mul_f64(LESS));
            self.since = Some(now);
            // What is under way left at the old rate.
            self.sent.clear();
            (self.in_front, self.behind) = (Count::default(), Count::default());
        } else if let Some(since) = self.since
            && now.saturating_since(since) >= FORGIVES
        {
            self.limit = self.limit.map(|limit| limit.mul_f64(1.0 / LESS));
            self.since = Some(now);
        }
        self.peak = (0, self.peak.0);
        self.in_front.fade();
        self.behind.fade();
        self.in_rows = (self.in_rows.0 * MEMORY, self.in_rows.1 * MEMORY);
    }

    /// Whether packets are lost for being behind others.
    fn is_overfilled(&self) -> bool {
        let (front, behind) = (self.in_front, self.behind);
        let base = front.losses / front.packets.max(ENOUGH);
        let mean = (base + THRESHOLD) * behind.packets;
        // Losses that come in rows are that much fewer events.
        let row = (self.in_rows.0 / self.in_rows.1.max(1.0)).max(1.0);
        front.packets >= ENOUGH
            && behind.losses >= LEAST_LOSSES
            && behind.losses > mean + DEVIATIONS * (mean * row).sqrt()
    }

    /// Nothing is known, nor bounded.
    pub(in super::super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// What is left of a pacing rate where so much bandwidth is known.
    pub(in super::super) fn bound(&self, rate: Rate, bandwidth: Rate) -> Rate {
        self.limit
            .map_or(rate, |limit| rate.min(limit.max(bandwidth.mul_f64(LEAST))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BANDWIDTH: Rate = Rate::from_bytes_per_second(100_000);
    const PACKET: u64 = 1_000;

    /// Bursts of 10 packets every 100 ms, a packet each ms, of which some are lost by their place. Rounds until the rate is
    /// bounded, of so many.
    fn bounded_after(rounds: u64, mut is_lost: impl FnMut(u64, u64) -> bool) -> Option<u64> {
        let mut even = Even::default();
        let rate = BANDWIDTH.mul_f64(4.0);
        for round in 0..rounds {
            let began = Instant::ZERO + Duration::from_millis(100 * round);
            for place in 0..10 {
                let event = SentEvent {
                    now: began + Duration::from_millis(place),
                    packet_number: round * 10 + place,
                    bytes: PACKET,
                    bytes_in_flight: PACKET * (place + 1),
                    app_limited: true,
                };
                even.on_sent(&event, BANDWIDTH);
            }
            for place in 0..10 {
                if is_lost(round, place) {
                    even.on_lost(round * 10 + place);
                }
            }
            even.on_sample(true);
            even.on_round(began + Duration::from_millis(50), rate);
            assert!(even.sent.len() <= REMEMBERED);
            if even.bound(rate, BANDWIDTH) < rate {
                return Some(round);
            }
        }
        None
    }

    #[test]
    fn the_ends_of_bursts_are_no_chance() {
        let after = bounded_after(10, |_, place| place >= 7);
        assert!(after.is_some_and(|round| round <= 4), "{after:?}");
        let after = bounded_after(20, |_, place| place == 9);
        assert!(
            after.is_some_and(|round| round <= 10),
            "one of each: {after:?}"
        );
    }

    #[test]
    fn losses_anywhere_are() {
        assert_eq!(bounded_after(200, |round, place| round % 10 == place), None);
        assert_eq!(
            bounded_after(200, |_, place| place % 5 == 0),
            None,
            "a fifth"
        );
        let runs = |round: u64, place: u64| round.is_multiple_of(8) && (5..8).contains(&place);
        assert_eq!(bounded_after(80, runs), None, "rows now and then");
    }

    #[test]
    fn step_by_step_to_what_is_known_and_back() {
        let mut even = Even::default();
        let rate = BANDWIDTH.mul_f64(2.0);
        let mut bound = rate;
        let at = |second| Instant::ZERO + Duration::from_secs(second);
        let overfilled = |even: &mut Even| {
            even.in_front.packets = 20.0;
            (even.behind.packets, even.behind.losses) = (20.0, 10.0);
            even.on_sample(true);
        };
        for second in 0..5 {
            overfilled(&mut even);
            even.on_round(at(second), bound);
            bound = even.bound(rate, BANDWIDTH);
        }
        assert_eq!(bound, BANDWIDTH.mul_f64(LEAST));
        for second in 5..60 {
            even.on_sample(true);
            even.on_round(at(second), bound);
        }
        assert!(even.bound(rate, BANDWIDTH) > bound, "forgiven in time");
        overfilled(&mut even);
        even.on_round(at(60), bound);
        // A round that nothing limited: the pipe is filled.
        even.on_round(at(61), bound);
        assert_eq!(even.bound(rate, BANDWIDTH), rate);
    }
}
