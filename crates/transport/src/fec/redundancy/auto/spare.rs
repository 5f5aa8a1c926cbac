//! What a link has left beside what the application sends.
//!
//! Owns: [`Spare`]: how long the link takes for a packet, how much of its time bursts take, for how many repair
//! symbols the rest has room. Does not own: a queue that stands already (`strain.rs`), what repair symbols do to what
//! follows (`effect.rs`), what they are worth (`worth.rs`).

use crate::{
    fec::redundancy::{Occasion, RedundancyView},
    time::Instant,
};

/// The part of a link's time that bursts and repair symbols together may take, as far as it can be told, and the part of what
/// bursts leave of that which goes to repair symbols: the rest is for retransmissions, and for what is not told.
const FULL: f64 = 0.9;
const PART: f64 = 0.5;
/// Bursts after which enough is known of them.
const KNOWN: u32 = 4;
/// How much a burst, and a round trip, say of those to come.
const OF_BURST: f64 = 1.0 / 8.0;
const OF_ROUND_TRIP: f64 = 1.0 / 32.0;
/// A pause is one of so many round trips at most, or usual times between bursts: what comes later does not wait for what came before.
const MOST_APART: f64 = 4.0;
/// The longest that repair symbols may keep the link at a time, as a part of a round trip.
const AT_A_TIME: f64 = 0.5;

/// Link time that bursts which come one after the other leave to repair symbols.
///
/// The link takes for a packet what its round trip is longer than the shortest, that of a short packet. A path that always had
/// full packets, or whose bursts never end, tells nothing: then nothing is limited here.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spare {
    /// Whether a burst is under way.
    in_burst: bool,
    /// Bursts that ended.
    ended: u32,
    /// Seconds that the link takes for a full packet at least, and at most, as far as that is known.
    least: f64,
    most: Option<f64>,
    /// Of the usual burst: bytes, and seconds from its beginning to that of the next.
    bytes: f64,
    interval: f64,
    /// The usual round trip without repair symbols, in seconds.
    round_trip: f64,
    /// When repair symbols left last.
    used: Option<Instant>,
    /// Seconds of the link's time that repair symbols may take, as of then.
    room: f64,
    at: Option<Instant>,
}

fn mix(value: &mut f64, news: f64, weight: f64) {
    *value += (news - *value) * weight;
}

impl Spare {
    /// Seconds from a burst's beginning to that of the next; 0 while that is not known.
    pub(super) fn interval(&self, view: &RedundancyView) -> f64 {
        // Messages follow each other; of others one may be all there is.
        if view.lifetime.is_none() && self.ended < KNOWN {
            return 0.0;
        }
        self.interval
    }

    /// Whether the burst that has just ended followed another within a round trip.
    pub(super) fn follows(&self, view: &RedundancyView) -> bool {
        let soon = view
            .burst_interval
            .is_some_and(|interval| interval < view.smoothed_rtt);
        self.ended > 1 && soon
    }

    /// Bytes of the usual burst.
    pub(super) fn bytes(&self) -> f64 {
        self.bytes
    }

    /// The link takes so many seconds for a full packet at least, and at most.
    pub(super) fn on_link(&mut self, least: f64, most: Option<f64>) {
        (self.least, self.most) = (least, most);
    }

    /// Sees what left, and how the path is. Whether a burst begins.
    pub(super) fn note(&mut self, occasion: Occasion, view: &RedundancyView) -> bool {
        let now = view.now;
        let used = self.used.map(|at| now.saturating_since(at));
        let calm = view.calm_rtt.as_secs_f64();
        if self.round_trip <= 0.0 {
            self.round_trip = calm;
        } else if used.is_none_or(|since| since > view.smoothed_rtt.saturating_mul(2)) {
            mix(&mut self.round_trip, calm, OF_ROUND_TRIP);
        }
        let began = self.note_burst(view, occasion == Occasion::BurstEnd);
        let since = self.at.replace(now).map(|at| now.saturating_since(at));
        let most = AT_A_TIME * view.smoothed_rtt.as_secs_f64().max(self.interval);
        let gained = since.unwrap_or_default().as_secs_f64() * self.rate(view);
        self.room = (self.room + gained).min(most.max(self.packet_time(view)));
        began
    }

    fn note_burst(&mut self, view: &RedundancyView, ends: bool) -> bool {
        let bytes = view.burst_bytes;
        let rtt = view.smoothed_rtt.as_secs_f64();
        let begins = bytes > 0 && !self.in_burst;
        if begins {
            if let Some(news) = view.burst_interval {
                let news = news.as_secs_f64();
                let news = news.min(MOST_APART * self.interval.max(rtt));
                let first = self.interval <= 0.0;
                mix(&mut self.interval, news, if first { 1.0 } else { OF_BURST });
            }
            self.in_burst = true;
        }
        if ends && std::mem::take(&mut self.in_burst) {
            let first = self.ended == 0;
            mix(
                &mut self.bytes,
                bytes as f64,
                if first { 1.0 } else { OF_BURST },
            );
            self.ended = self.ended.saturating_add(1);
        }
        begins
    }

    /// Seconds that the link takes for a full packet; 0 if nothing is known of that. Round trips of several paths do
    /// not tell how fast one of them is.
    fn packet_time(&self, view: &RedundancyView) -> f64 {
        let full = view.datagram_bytes as f64;
        // Packets of a long burst wait for each other: half of it on average.
        let usual = self.bytes.min(full).max(self.bytes / 2.0);
        let longer = self.round_trip - view.min_rtt.as_secs_f64();
        if view.several || self.ended < KNOWN || usual < 1.0 {
            return 0.0;
        }
        let takes = (longer * full / usual).max(self.least);
        self.most.map_or(takes, |most| takes.min(most))
    }

    /// The part of the link's time that is for repair symbols.
    fn rate(&self, view: &RedundancyView) -> f64 {
        let packets = self.bytes / view.datagram_bytes.max(1) as f64;
        let taken = if self.interval > 0.0 {
            packets * self.packet_time(view) / self.interval
        } else {
            0.0
        };
        PART * (FULL - taken).max(0.0)
    }

    /// For how many of so many repair symbols there is room.
    pub(super) fn allows(&self, view: &RedundancyView, count: u16) -> u16 {
        let each = self.packet_time(view);
        // Rounding must not take one.
        let room = self.room + 1e-9;
        if each * f64::from(count) <= room {
            return count;
        }
        (room / each) as u16
    }

    /// So many repair symbols leave.
    pub(super) fn on_repairs(&mut self, view: &RedundancyView, count: u16) {
        self.used = Some(view.now);
        self.room = (self.room - f64::from(count) * self.packet_time(view)).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::tests::{at, view},
        *,
    };

    /// Bursts of 1,250 bytes every 10 ms for a second, over a link that takes so long for each: how many of four repair
    /// symbols behind each may leave.
    fn sent(link_ms: f64) -> u64 {
        sent_over(link_ms, false)
    }

    fn sent_over(link_ms: f64, several: bool) -> u64 {
        let mut spare = Spare::default();
        let mut sent = 0;
        for ms in (0..1_000).step_by(10) {
            let link = Duration::from_secs_f64(link_ms / 1e3);
            let mut view = RedundancyView {
                now: at(ms),
                min_rtt: Duration::from_millis(50),
                calm_rtt: Duration::from_millis(50) + link,
                smoothed_rtt: Duration::from_millis(50) + link,
                burst_bytes: 1_250,
                burst_interval: (ms > 0).then_some(Duration::from_millis(10)),
                several,
                ..view(4, 0.02)
            };
            spare.note(Occasion::SlotFree, &view);
            spare.note(Occasion::BurstEnd, &view);
            view.burst_bytes = 0;
            spare.note(Occasion::Feedback, &view);
            if ms >= 100 {
                let count = spare.allows(&view, 4);
                spare.on_repairs(&view, count);
                sent += u64::from(count);
            }
        }
        sent
    }

    #[test]
    fn half_of_what_bursts_leave() {
        // All of 90, or as many as (0.9 - link / 10) / 2 of 0.9 s has room for, and at first half a round trip.
        assert_eq!(sent(0.1), 360);
        assert!((150..170).contains(&sent(2.0)), "{}", sent(2.0));
        assert!((38..44).contains(&sent(5.0)), "{}", sent(5.0));
        assert!(sent(8.0) <= 10, "{}", sent(8.0));
        assert!(sent(9.5) <= 3, "{}", sent(9.5));
    }

    #[test]
    fn what_is_not_known_limits_nothing() {
        let spare = Spare::default();
        assert_eq!(spare.allows(&view(4, 0.02), 9), 9);
        assert_eq!(sent(0.0), 360);
        assert_eq!(
            sent_over(9.5, true),
            360,
            "round trips of several paths tell nothing"
        );
    }
}
