//! Whether packets are lost for the repair symbols that left beside them.
//!
//! Owns: [`Toll`]. Does not own: which packets these are (`fec/sender/company.rs`), a queue that is long enough to be seen
//! (`strain.rs`, `worth.rs`).
//!
//! Before a queue of a few packets a repair symbol takes the place of another packet, and nothing tells but that more are lost:
//! what calls for more repair symbols. So where packets beside repair symbols are lost more often than others were, none leave
//! until it is known whether packets are lost as often without them. Before anything is known of it few leave at a time.

use std::time::Duration;

use super::shy::Shy;
use crate::{
    fec::redundancy::{ByCompany, Fates, RedundancyView},
    time::Instant,
};

/// Packets of each kind from which something is told, and on which it rests, about.
const ENOUGH: f64 = 32.0;
const ALONE_RESTS_ON: f64 = 512.0;
const BESIDE_RESTS_ON: f64 = 96.0;
/// More are lost beside repair symbols if the shares differ by this and so many deviations, and one is so many times the other. This is
/// asked again and again, so that what is chance once in a thousand times would be found.
const PART: f64 = 0.05;
const DEVIATIONS: f64 = 3.0;
/// The same once none left for it: that is asked but once. And from which on it is asked for longer.
const ONCE: f64 = 2.0;
const MAYBE: f64 = 1.2;
const TIMES: f64 = 2.0;
/// So heavy losses are asked about even if those of packets alone were, and again after so long, then four times as long each time.
const HEAVY: f64 = 0.25;
const AGAIN: Duration = Duration::from_secs(16);
const MOST_AGAIN: Duration = Duration::from_secs(256);
/// How long no repair symbol leaves until it is known at most, in round trips, and packets that tell.
const WAITS: u32 = 32;
const TELLING: f64 = 64.0;
/// How many times longer where that is not clear.
const LONGER: u32 = 3;
/// How many repair symbols may leave at a time before so many packets beside them tell. In runs of losses a path loses as much as a
/// short queue does, and calls for as many as that has places.
const UNPROVEN: u16 = 4;
const PROVEN: u64 = 128;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    packets: f64,
    lost: f64,
    rows: f64,
}

impl Count {
    fn add(&mut self, before: Fates, now: Fates, rests_on: f64) {
        let packets = now.packets.saturating_sub(before.packets) as f64;
        let kept = (1.0 - packets / rests_on).max(0.0);
        self.packets = self.packets * kept + packets;
        self.lost = self.lost * kept + now.lost.saturating_sub(before.lost) as f64;
        self.rows = self.rows * kept + now.rows.saturating_sub(before.rows) as f64;
    }

    fn rate(&self) -> f64 {
        self.lost / self.packets.max(ENOUGH)
    }
}

/// What is known of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Toll {
    seen: ByCompany,
    alone: Count,
    beside: Count,
    /// Since when none leaves until it is known.
    asks: Option<Instant>,
    /// When to ask about heavy losses again, and after how long.
    again: Option<(Instant, Duration)>,
    /// None leaves for what they cost.
    shy: Shy,
}

impl Toll {
    /// Sees what became of packets.
    pub(super) fn note(&mut self, view: &RedundancyView) {
        if view.several {
            return;
        }
        let seen = std::mem::replace(&mut self.seen, view.by_company);
        self.alone
            .add(seen.alone, view.by_company.alone, ALONE_RESTS_ON);
        self.beside.add(
            seen.beside_repairs,
            view.by_company.beside_repairs,
            BESIDE_RESTS_ON,
        );
        let Some(since) = self.asks else {
            if !self.shy.is_now(view.now) && (self.is_more(DEVIATIONS) || self.is_heavy(view.now)) {
                self.asks = Some(view.now);
                self.alone = Count::default();
            }
            return;
        };
        let costs = self.is_more(ONCE);
        let times = if !costs && self.is_more(MAYBE) {
            LONGER
        } else {
            1
        };
        let waited = view.now.saturating_since(since);
        let waits = view.smoothed_rtt.saturating_mul(WAITS * times);
        if self.alone.packets < TELLING * f64::from(times) && waited < waits {
            return;
        }
        self.asks = None;
        if costs {
            self.shy.give_up(view.now);
        } else {
            let before = self.again.map_or(Duration::ZERO, |(_, before)| before);
            let after = (before * 4).clamp(AGAIN, MOST_AGAIN);
            self.again = Some((view.now + after, after));
        }
        self.beside = Count::default();
    }

    /// Whether more are lost beside repair symbols than chance has it.
    fn is_more(&self, deviations: f64) -> bool {
        let (alone, beside) = (self.alone, self.beside);
        if alone.packets < ENOUGH || beside.packets < ENOUGH {
            return false;
        }
        let packets = alone.packets + beside.packets;
        let lost = alone.lost + beside.lost;
        let share = (lost / packets).min(1.0);
        // Losses that come in rows are that much fewer events.
        let row = (lost / (alone.rows + beside.rows).max(1.0)).max(1.0);
        let each = 1.0 / alone.packets + 1.0 / beside.packets;
        let chance = deviations * (row * share * (1.0 - share) * each).sqrt();
        let (with, without) = (beside.rate(), alone.rate());
        with > without + PART + chance && with > TIMES * without
    }

    /// Whether losses are heavy, and nobody asked why for long.
    fn is_heavy(&self, now: Instant) -> bool {
        let due = self.again.is_none_or(|(at, _)| at <= now);
        due && self.beside.packets >= ENOUGH && self.beside.rate() > HEAVY
    }

    /// How many may leave at a time.
    pub(super) fn most(&self, view: &RedundancyView) -> u16 {
        if view.several || view.by_company.beside_repairs.packets >= PROVEN {
            u16::MAX
        } else {
            UNPROVEN
        }
    }

    /// Whether none may leave now.
    pub(super) fn forbids(&self, now: Instant) -> bool {
        self.asks.is_some() || self.shy.is_now(now)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{at, view},
        *,
    };

    /// Ten packets every 100 ms, by the policy's leave beside repair symbols: whether packets of each kind are lost, every so
    /// many. Of so many seconds those in which repair symbols left.
    fn seconds_with(seconds: u64, alone: u64, beside: u64) -> f64 {
        let mut toll = Toll::default();
        let mut by_company = ByCompany::default();
        let mut used = 0;
        for tick in 0..seconds * 10 {
            let now = at(100 * tick);
            // Nothing is known to be lost in the first second.
            let repairs = tick > 10 && !toll.forbids(now);
            used += u64::from(repairs);
            let (fates, every) = if repairs {
                (&mut by_company.beside_repairs, beside)
            } else {
                (&mut by_company.alone, alone)
            };
            for _ in 0..10 {
                fates.packets += 1;
                let lost = fates.packets.is_multiple_of(every);
                fates.lost += u64::from(lost);
                fates.rows += u64::from(lost);
            }
            toll.note(&RedundancyView {
                now,
                by_company,
                ..view(4, 0.02)
            });
        }
        used as f64 / 10.0
    }

    #[test]
    fn as_many_lost_with_and_without_is_no_reason() {
        assert!(seconds_with(60, 50, 50) > 58.0);
        assert!(seconds_with(60, 20, 25) > 58.0);
    }

    #[test]
    fn heavy_losses_are_asked_about_now_and_then() {
        let used = seconds_with(300, 3, 3);
        assert!((290.0..298.9).contains(&used), "{used}");
    }

    #[test]
    fn who_loses_by_them_does_without() {
        let used = seconds_with(120, 50, 3);
        assert!(used < 12.0, "{used}");
    }

    #[test]
    fn few_leave_at_a_time_until_it_is_known() {
        let toll = Toll::default();
        let mut view = view(4, 0.02);
        assert_eq!(toll.most(&view), UNPROVEN);
        view.several = true;
        assert_eq!(toll.most(&view), u16::MAX);
        view.several = false;
        view.by_company.beside_repairs.packets = PROVEN;
        assert_eq!(toll.most(&view), u16::MAX);
    }

    #[test]
    fn several_paths_tell_nothing() {
        let mut toll = Toll::default();
        let lost = Fates {
            packets: 100,
            lost: 90,
            rows: 90,
        };
        let mut several = view(4, 0.02);
        several.by_company.beside_repairs = lost;
        several.by_company.alone.packets = 100;
        several.several = true;
        toll.note(&several);
        assert!(!toll.forbids(several.now));
        several.several = false;
        toll.note(&several);
        assert!(toll.forbids(several.now));
    }
}
