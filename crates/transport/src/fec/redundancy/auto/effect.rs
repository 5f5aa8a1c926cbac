//! What repair symbols do to what follows them.
//!
//! Owns: [`Effect`]: by how much later packets come that leave behind repair symbols, found by trial, and whether that is more
//! than these save. Does not own: what they save (`worth.rs`), messages that are late for them (`strain.rs`), what a link has room
//! for (`spare.rs`).
//!
//! How fast a link is that is never filled nobody tells, and on one that is nearly full a repair symbol holds up one burst after
//! the other. So where these follow each other, repair symbols leave one by one at first, and the round trips of packets behind
//! them are held against others.

use std::time::Duration;

use super::shy::Shy;
use crate::{fec::redundancy::RedundancyView, time::Instant};

/// Bursts follow each other that are this many round trips apart at most.
const FOLLOW: f64 = 1.0;
/// A packet is behind a repair symbol that left within so many round trips before it, and by itself if none did within so many.
const BEHIND: f64 = 1.0;
const ALONE: f64 = 4.0;
/// The next two bursts begin within so many times what bursts are usually apart. Of two that are single packets only one is
/// acknowledged by itself.
const NEXT: f64 = 2.25;
/// On a short thin path, where it is later than a round trip, the next one begins within so many times that.
const NEXT_ONE: f64 = 1.25;
/// Single repair symbols are so many round trips apart.
const APART: f64 = 6.0;
/// The same for messages, in times between them: what follows next tells.
const APART_NEXT: f64 = 2.5;
/// Packets of a burst from which their waiting for each other tells what it takes of the link, and the part of the time to the
/// next that they wait at most, on average, if there is room.
const TELLING: f64 = 3.0;
const ROOM: f64 = 0.25;
/// What packets by themselves take is known for so many times as long.
const STALE: f64 = 3.0;
/// Packets of each kind from which the difference is told, and such deviations of it are taken for chance.
const ENOUGH: u32 = 8;
const ENOUGH_NEXT: u32 = 4;
const CHANCE: f64 = 2.0;
/// What makes a message later by less seconds is none of that.
const LEAST: f64 = 5e-4;
/// It is none of that either if it is sure to be less than this part of the time between messages.
const LITTLE: f64 = 1.0 / 16.0;
/// Messages that are so many times as long are tried anew.
const GROWN: f64 = 1.5;
/// Packets on which it rests, about.
const RESTS_ON: u32 = 32;
/// How much a repair symbol says of what they save and how many bursts follow them.
const OF_ONE: f64 = 1.0 / 16.0;

/// Round trips of packets of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RoundTrips {
    count: u32,
    mean: f64,
    variance: f64,
}

impl RoundTrips {
    fn note(&mut self, seconds: f64) {
        self.count = self.count.saturating_add(1);
        let gain = 1.0 / f64::from(self.count.min(RESTS_ON));
        let off = seconds - self.mean;
        self.mean += gain * off;
        self.variance = (1.0 - gain) * (self.variance + gain * off * off);
    }

    /// The square of the mean's deviation.
    fn doubt(&self) -> f64 {
        self.variance / f64::from(self.count.clamp(1, RESTS_ON))
    }
}

/// Bursts as they usually are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bursts {
    /// Seconds between the beginnings of two.
    pub interval: f64,
    /// Bytes of one.
    pub bytes: f64,
    /// Seconds that the link takes for a full packet, at least; 0 while that is not known.
    pub least_packet_time: f64,
    /// Seconds that the link takes for such a burst, at most, if that is known.
    pub most_time: Option<f64>,
}

/// Harm and use of repair symbols behind bursts that follow each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Effect {
    /// The smoothed round trip, in seconds, or a little longer than it takes until the next burst.
    usual: f64,
    /// The usual ones.
    bursts: Bursts,
    /// Behind a repair symbol, and of these those of the next two bursts.
    behind: RoundTrips,
    next: RoundTrips,
    alone: RoundTrips,
    /// When a packet that had left by itself came back last.
    since_alone: Option<Instant>,
    /// Seconds that a repair symbol saves, as far as is computed, and bursts that are behind it: means.
    saves: f64,
    followers: f64,
    /// Bursts since the latest.
    since: u32,
    /// How many left since a trial began.
    tried: u32,
    /// When the latest left.
    used: Option<Instant>,
    /// None leaves that did more harm than good.
    shy: Shy,
    /// Single ones did not make messages of so many bytes later.
    passed: Option<f64>,
}

/// Whether there is room for repair symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// As far as is known.
    Enough,
    /// Not known yet: a single one right behind a burst will tell.
    Trial,
    /// None now.
    None,
}

impl Effect {
    /// A packet came back that left so long after a repair symbol.
    pub(super) fn on_round_trip(
        &mut self,
        now: Instant,
        round_trip: Duration,
        after_repair: Option<Duration>,
    ) {
        let (seconds, usual) = (round_trip.as_secs_f64(), self.usual);
        match after_repair.map(|after| after.as_secs_f64()) {
            // After a trial nobody asks any more.
            Some(after) if after <= BEHIND * usual && self.shy.is_now(now) => {}
            Some(after) if after <= BEHIND * usual => {
                self.behind.note(seconds);
                if after <= NEXT * self.bursts.interval {
                    self.next.note(seconds);
                }
            }
            Some(after) if after < ALONE * usual => {}
            _ => {
                self.alone.note(seconds);
                self.since_alone = Some(now);
            }
        }
    }

    /// A burst begins.
    pub(super) fn on_burst(&mut self, view: &RedundancyView, bursts: Bursts) {
        self.bursts = bursts;
        let (interval, bytes) = (bursts.interval, bursts.bytes);
        self.usual = view.smoothed_rtt.as_secs_f64();
        // On a short thin path the link takes longer for a burst and a repair symbol than a round trip does.
        let packets = bytes / view.datagram_bytes.max(1) as f64 + 1.0;
        let takes = packets * bursts.least_packet_time;
        if self.usual < interval && interval < takes {
            self.usual = NEXT_ONE * interval;
        }
        if self.passed.is_some_and(|passed| bytes > GROWN * passed) {
            self.try_again();
        }
        let since = self.since_used(view.now);
        if since.is_some_and(|since| since <= BEHIND * self.usual) {
            self.since = self.since.saturating_add(1);
        }
    }

    fn since_used(&self, now: Instant) -> Option<f64> {
        self.used.map(|at| now.saturating_since(at).as_secs_f64())
    }

    /// Seconds by which packets come later, and by how much that may be chance; `None` while that is not known.
    fn later(&self, behind: &RoundTrips, enough: u32) -> Option<(f64, f64)> {
        if behind.count < enough || self.alone.count < ENOUGH {
            return None;
        }
        let later = behind.mean - self.alone.mean;
        let doubt = (behind.doubt() + self.alone.doubt()).sqrt();
        Some((later, CHANCE * doubt))
    }

    /// Whether repair symbols do more harm than good; `None` while that is not known.
    fn harms(&self, for_messages: bool) -> Option<bool> {
        if !for_messages {
            let (later, chance) = self.later(&self.behind, ENOUGH)?;
            return Some((later - chance) * self.followers.max(1.0) > self.saves.max(0.0));
        }
        // With one behind each message each would be later than the one before.
        let (later, chance) = self.later(&self.next, ENOUGH_NEXT)?;
        if later - chance > LEAST {
            return Some(true);
        }
        let clear = later + chance < LITTLE * self.bursts.interval;
        (clear || self.next.count >= RESTS_ON / 2).then_some(later - chance / 2.0 > LEAST)
    }

    /// Whether there is room for repair symbols.
    pub(super) fn room(&mut self, view: &RedundancyView) -> Room {
        let now = view.now;
        if !self.follows(view) {
            return Room::Enough;
        }
        if self.shy.is_now(now) {
            return Room::None;
        }
        let for_messages = view.deadline.is_some();
        if for_messages && (self.passed.is_some() || self.has_room(view)) {
            self.passed.get_or_insert(self.bursts.bytes);
            return Room::Enough;
        }
        let Some(harms) = self.harms(for_messages) else {
            let waits = self.waits(now, for_messages);
            return if waits { Room::None } else { Room::Trial };
        };
        if harms && self.is_stale(now) {
            // Round trips may have grown by themselves since packets left alone.
            (self.alone, self.since_alone) = (RoundTrips::default(), None);
            self.try_again();
            return Room::None;
        }
        if harms {
            self.give_up(now);
            return Room::None;
        }
        if for_messages {
            self.passed = Some(self.bursts.bytes);
        }
        Room::Enough
    }

    /// Whether bursts follow each other.
    fn follows(&self, view: &RedundancyView) -> bool {
        self.bursts.interval > 0.0 && self.bursts.interval <= FOLLOW * self.usual && !view.several
    }

    /// Whether the next trial is not due yet.
    fn waits(&self, now: Instant, for_messages: bool) -> bool {
        let soon =
            self.alone.count >= ENOUGH && self.tried <= self.next.count.saturating_add(ENOUGH_NEXT);
        let apart = if for_messages && soon {
            APART_NEXT * self.bursts.interval
        } else {
            APART * self.usual
        };
        self.since_used(now).is_some_and(|since| since < apart)
    }

    /// Whether bursts take so little of the link that no trial is needed: the packets of one wait for each other.
    fn has_room(&self, view: &RedundancyView) -> bool {
        let waits = self.alone.mean - view.min_rtt.as_secs_f64();
        let waits = self.bursts.most_time.map_or(waits, |most| waits.min(most));
        let tells = self.bursts.bytes >= TELLING * view.datagram_bytes as f64;
        tells && self.alone.count >= ENOUGH && waits < ROOM * self.bursts.interval
    }

    /// Whether no packet left by itself for longer than single repair symbols are apart.
    fn is_stale(&self, now: Instant) -> bool {
        let since = self
            .since_alone
            .map(|at| now.saturating_since(at).as_secs_f64());
        since.is_none_or(|since| since > STALE * APART * self.usual)
    }

    /// Whether none leaves now, for harm found before or because another trial is to tell first.
    pub(super) fn is_silent(&self, view: &RedundancyView) -> bool {
        if self.shy.is_now(view.now) {
            return true;
        }
        let for_messages = view.lifetime.is_some();
        self.follows(view)
            && !(for_messages && self.passed.is_some())
            && self.harms(for_messages).is_none()
            && self.waits(view.now, for_messages)
    }

    fn give_up(&mut self, now: Instant) {
        self.shy.give_up(now);
        self.try_again();
    }

    /// Messages were late for repair symbols after all.
    pub(super) fn try_again(&mut self) {
        (self.behind, self.next) = (RoundTrips::default(), RoundTrips::default());
        self.passed = None;
        self.tried = 0;
    }

    /// So many repair symbols leave, which may save so many seconds each.
    pub(super) fn on_repairs(&mut self, now: Instant, count: u16, each: f64) {
        let first = self.used.is_none();
        // For deadlines nothing is computed.
        if each > 0.0 {
            let part = if self.saves <= 0.0 { 1.0 } else { OF_ONE };
            self.saves += (each - self.saves) * part;
        }
        if !first {
            let followers = f64::from(std::mem::take(&mut self.since)) / f64::from(count.max(1));
            let part = if self.followers <= 0.0 { 1.0 } else { OF_ONE };
            self.followers += (followers - self.followers) * part;
        }
        self.tried = self.tried.saturating_add(1);
        self.used = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{at, view},
        *,
    };

    fn bursts(interval: f64, bytes: f64) -> Bursts {
        Bursts {
            interval,
            bytes,
            ..Bursts::default()
        }
    }

    /// Bursts of a packet every 10 ms over a link that takes so long for each, and a repair symbol behind each that may
    /// have one.
    struct Link {
        effect: Effect,
        takes_ms: f64,
        way_ms: f64,
        busy_until: f64,
        last_repair: Option<f64>,
    }

    impl Link {
        fn new(takes_ms: f64) -> Self {
            Self {
                effect: Effect::default(),
                takes_ms,
                way_ms: 50.0,
                busy_until: 0.0,
                last_repair: None,
            }
        }

        /// How long a packet takes that leaves now.
        fn send(&mut self, now: f64) -> f64 {
            self.busy_until = self.busy_until.max(now) + self.takes_ms;
            self.way_ms + self.busy_until - now
        }

        /// So many repair symbols leave from one time to another, in seconds.
        fn play(&mut self, from: u64, to: u64, messages: bool) -> u32 {
            let mut sent = 0;
            for ms in (from * 1_000..to * 1_000).step_by(10) {
                let now = ms as f64;
                let view = RedundancyView {
                    now: at(ms),
                    smoothed_rtt: Duration::from_secs_f64(self.way_ms / 1e3),
                    deadline: messages.then(|| at(ms + 100)),
                    ..view(4, 0.02)
                };
                self.effect.on_burst(&view, bursts(0.01, 1_250.0));
                let took = Duration::from_secs_f64(self.send(now) / 1e3);
                let after = self.last_repair.map(|last| now - last);
                let after = after.map(|after| Duration::from_secs_f64(after / 1e3));
                self.effect.on_round_trip(view.now, took, after);
                if self.effect.room(&view) != Room::None {
                    self.send(now);
                    self.effect.on_repairs(view.now, 1, 2e-3);
                    self.last_repair = Some(now);
                    sent += 1;
                }
            }
            sent
        }
    }

    #[test]
    fn where_there_is_room_a_trial_ends_soon() {
        for messages in [false, true] {
            let mut link = Link::new(1.0);
            assert!(link.play(0, 1, messages) < 80, "one by one at first");
            assert_eq!(link.play(1, 2, messages), 100, "behind each");
        }
    }

    #[test]
    fn a_link_that_is_nearly_full_gets_a_few() {
        // Less than 6 ms is half a millisecond for the next two on average: `strain.rs` sees that once it is a queue.
        for (messages, takes_ms) in [(false, 8.0), (true, 8.0), (true, 6.5)] {
            let mut link = Link::new(takes_ms);
            let first = link.play(0, 3, messages);
            assert!((1..=9).contains(&first), "{takes_ms}: {first}");
            // Once more after 4, 16 and 64 seconds.
            let later = link.play(3, 90, messages);
            assert!((3..=24).contains(&later), "{takes_ms}: {later}");
            assert!(link.effect.shy.is_now(at(90_000)));
        }
    }

    #[test]
    fn long_messages_that_pass_in_no_time_need_no_trial() {
        for (waits_ms, room) in [(4, Room::Enough), (6, Room::Trial)] {
            let mut effect = Effect::default();
            let view = RedundancyView {
                min_rtt: Duration::from_millis(50),
                deadline: Some(at(1_100)),
                ..view(4, 0.02)
            };
            effect.on_burst(&view, bursts(0.02, 5_000.0));
            for _ in 0..ENOUGH {
                effect.on_round_trip(at(900), Duration::from_millis(50 + waits_ms), None);
            }
            assert_eq!(effect.room(&view), room);
        }
    }

    #[test]
    fn a_path_that_grows_longer_is_no_harm() {
        let mut link = Link::new(1.0);
        link.play(0, 2, false);
        link.way_ms = 80.0;
        let sent = link.play(2, 6, false);
        assert!(!link.effect.shy.is_now(at(6_000)));
        assert!(sent > 200, "{sent}");
    }

    #[test]
    fn where_the_link_takes_longer_than_until_the_next_burst_it_is_tried() {
        let short = RedundancyView {
            smoothed_rtt: Duration::from_millis(12),
            ..view(1, 0.02)
        };
        for (takes, room) in [(0.006, Room::Enough), (0.007, Room::Trial)] {
            let mut effect = Effect::default();
            let bursts = Bursts {
                least_packet_time: takes,
                ..bursts(0.013, 1_250.0)
            };
            effect.on_burst(&short, bursts);
            assert_eq!(effect.room(&short), room);
        }
    }

    #[test]
    fn messages_that_grow_are_tried_anew() {
        let mut link = Link::new(1.0);
        link.play(0, 2, true);
        let view = RedundancyView {
            now: at(2_000),
            smoothed_rtt: Duration::from_millis(50),
            deadline: Some(at(2_100)),
            ..view(4, 0.02)
        };
        for (bytes, room) in [(1_800.0, Room::Enough), (1_900.0, Room::Trial)] {
            link.effect.on_burst(&view, bursts(0.01, bytes));
            // The latest trial was long ago.
            link.effect.used = None;
            assert_eq!(link.effect.room(&view), room, "{bytes}");
        }
    }

    #[test]
    fn no_headers_while_no_trial_is_due() {
        let mut effect = Effect::default();
        let view = view(4, 0.02);
        effect.on_burst(&view, bursts(0.02, 1_250.0));
        assert!(!effect.is_silent(&view));
        effect.on_repairs(view.now, 1, 2e-3);
        assert!(effect.is_silent(&view));
        let later = RedundancyView {
            now: view.now + view.smoothed_rtt.mul_f64(APART + 1.0),
            ..view
        };
        assert!(!effect.is_silent(&later));
    }

    #[test]
    fn bursts_far_apart_need_no_trial() {
        let mut effect = Effect::default();
        let view = view(4, 0.02);
        assert_eq!(effect.room(&view), Room::Enough, "nothing is known of them");
        effect.on_burst(&view, bursts(0.2, 1_250.0));
        assert_eq!(effect.room(&view), Room::Enough);
        effect.on_burst(&view, bursts(0.02, 1_250.0));
        assert_eq!(effect.room(&view), Room::Trial);
        let several = RedundancyView {
            several: true,
            ..view
        };
        assert_eq!(effect.room(&several), Room::Enough);
    }
}
