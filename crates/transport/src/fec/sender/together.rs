//! Whether paths lose packets at the same times.
//!
//! Owns: [`Together`]: of packets that left while another path lost some, how many were lost too, beside how many usually are.
//! Does not own: what follows of that (`fec/redundancy/`), losses of one path (`loss_monitor.rs`).
//!
//! A radio beside another in one vehicle, a tunnel, a queue that both share: what one path loses then the other loses as well, and
//! a repair symbol that leaves with the packets it is for is lost with them whatever path it takes.

use std::{collections::VecDeque, time::Duration};

use smallvec::SmallVec;

use super::Departure;
use crate::{time::Instant, units::PathId};

/// Packets that leave within so long of each other leave at the same time.
const SPAN: Duration = Duration::from_millis(10);
/// After so long it is known which packets are lost.
const KNOWN: Duration = Duration::from_millis(2_500);
/// Spans that are remembered. 56 bytes each.
const REMEMBERED: usize = 256;
/// What remains of a count after a packet more: of those beside losses, and of all.
const FADE_BESIDE: f64 = 1.0 - 1.0 / 256.0;
const FADE: f64 = 1.0 - 1.0 / 4096.0;
/// Packets beside losses of which as many are taken to be lost as usual, before any is seen.
const PRIOR: f64 = 20.0;
/// Paths lose together where so many times as many are lost as usual, and so many more.
const TIMES: f64 = 3.0;
const MORE: f64 = 0.05;

/// What left in a span on a path.
#[derive(Clone, Copy, Debug)]
struct OfPath {
    path: PathId,
    sent: u32,
    lost: u32,
}

#[derive(Clone, Debug)]
struct Span {
    from: Instant,
    by_path: SmallVec<[OfPath; 2]>,
}

impl Span {
    fn of(&mut self, path: PathId) -> &mut OfPath {
        let known = self.by_path.iter().position(|of| of.path == path);
        let index = known.unwrap_or_else(|| {
            self.by_path.push(OfPath {
                path,
                sent: 0,
                lost: 0,
            });
            self.by_path.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found or just pushed")]
        &mut self.by_path[index]
    }
}

/// Packets and losses, old ones counted less.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    packets: f64,
    lost: f64,
}

impl Counts {
    fn add(&mut self, of: &OfPath, fade: f64) {
        let kept = fade.powi(i32::try_from(of.sent).unwrap_or(i32::MAX));
        self.packets = self.packets * kept + f64::from(of.sent);
        self.lost = self.lost * kept + f64::from(of.lost);
    }
}

/// Losses of several paths by whether another path lost something then.
#[derive(Debug, Default)]
pub(super) struct Together {
    /// In order of time.
    spans: VecDeque<Span>,
    /// Of packets that left while another path lost some.
    beside: Counts,
    /// Of all that left while others did on another path.
    all: Counts,
}

impl Together {
    /// A packet left.
    pub(super) fn on_sent(&mut self, packet: Departure) {
        while let Some(oldest) = self.spans.front()
            && (self.spans.len() >= REMEMBERED || packet.at.saturating_since(oldest.from) > KNOWN)
        {
            self.judge_oldest();
        }
        let same = self.spans.back_mut();
        let same = same.filter(|span| packet.at.saturating_since(span.from) < SPAN);
        if let Some(span) = same {
            span.of(packet.path).sent += 1;
            return;
        }
        let mut span = Span {
            from: packet.at,
            by_path: SmallVec::new(),
        };
        span.of(packet.path).sent = 1;
        self.spans.push_back(span);
    }

    /// It was lost.
    pub(super) fn on_lost(&mut self, packet: Departure) {
        let after = self.spans.partition_point(|span| span.from <= packet.at);
        let span = after.checked_sub(1).and_then(|at| self.spans.get_mut(at));
        if let Some(span) = span {
            let of = span.of(packet.path);
            of.lost = (of.lost + 1).min(of.sent);
        }
    }

    fn judge_oldest(&mut self) {
        let Some(span) = self.spans.pop_front() else {
            return;
        };
        if span.by_path.len() < 2 {
            return;
        }
        let losing = span.by_path.iter().filter(|of| of.lost > 0).count();
        for of in &span.by_path {
            if losing > usize::from(of.lost > 0) {
                self.beside.add(of, FADE_BESIDE);
            }
            self.all.add(of, FADE);
        }
    }

    /// Whether paths lose packets at the same times, as far as known.
    pub(super) fn is_known(&self) -> bool {
        let usual = self.all.lost / self.all.packets.max(1.0);
        let beside = (self.beside.lost + PRIOR * usual) / (self.beside.packets + PRIOR);
        beside > TIMES * usual + MORE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;

    fn packet(path: u32, ms: u64) -> Departure {
        Departure {
            path: PathId(path),
            number: ms,
            at: Instant::ZERO + Duration::from_millis(ms),
        }
    }

    /// A packet on either path every 2 ms for so long; whether one is lost.
    fn play(seconds: u64, mut is_lost: impl FnMut(u32, u64) -> bool) -> Together {
        let mut together = Together::default();
        for ms in (0..seconds * 1_000).step_by(2) {
            for path in [0, 1] {
                together.on_sent(packet(path, ms));
            }
            // A round trip later.
            let Some(then) = ms.checked_sub(400) else {
                continue;
            };
            for path in [0, 1] {
                if is_lost(path, then) {
                    together.on_lost(packet(path, then));
                }
            }
        }
        together
    }

    /// A number that looks random, from 0 to 99.
    fn percent(path: u32, ms: u64) -> u64 {
        let mixed = (ms + 1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .wrapping_add(u64::from(path).wrapping_mul(0xD1B5_4A32_D192_ED03));
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed >> 32) * 100) >> 32
    }

    #[test]
    fn losses_at_the_same_times() {
        let together = play(20, |path, ms| ms % 500 < 30 && percent(path, ms) < 35);
        assert!(together.is_known(), "{together:?}");
    }

    #[test]
    fn losses_each_for_itself() {
        for rate in [0, 1, 2, 8, 20] {
            let apart = play(20, |path, ms| percent(path, ms) < rate);
            assert!(!apart.is_known(), "{rate} %");
        }
        let in_turn = play(20, |path, ms| {
            ms % 500 < 30 && (ms / 500) % 2 == u64::from(path) && percent(path, ms) < 35
        });
        assert!(!in_turn.is_known());
        let of_one = play(20, |path, ms| path == 0 && ms % 500 < 30);
        assert!(!of_one.is_known());
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let together = play(60, |path, ms| {
            let at_once = ms < 20_000 && ms % 500 < 30;
            percent(path, ms) < if at_once { 35 } else { 2 }
        });
        assert!(!together.is_known(), "{together:?}");
    }

    #[test]
    fn memory_is_bounded() {
        let mut together = Together::default();
        for ms in 0..100_000 {
            together.on_sent(packet(u32::try_from(ms % 3).unwrap(), 11 * ms));
            together.on_lost(packet(0, ms));
        }
        assert!(together.spans.len() <= REMEMBERED);
        // Times that go backwards, and what nobody remembers.
        together.on_sent(packet(0, 1));
        together.on_lost(packet(9, 0));
        assert!(!together.is_known());
    }
}
