//! What the round trip of a new path will be, before anything has measured it.
//!
//! Viernickel (2017), eq. 4.6: whoever opens a path sends two packets at once, one on the new path and one on a
//! path known already. They left at the same moment, so the difference of their arrivals is that of the ways
//! there; the known path's is half of its round trip. Here the second packet is one with PATH_STATUS for the
//! new path, which a client sends on another path when it opens one (RFC 10069 s3.3 lets it be told any time).
//!
//! The paper takes the known path's round trip where the new path's packet was not the later one. Here the
//! formula holds for faster paths, too, and only what it cannot mean is replaced: a status that was lost and
//! told again comes later than by half a round trip, which makes the result negative.

use std::time::Duration;

use crate::time::Instant;

/// No more is believed: a packet of either was lost, or the peer told of the path long before.
const LONGEST: Duration = Duration::from_secs(2);

/// Arrivals of the two packets that left at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FirstRtt {
    /// The packet on the path known already: when, and the smoothed round trip of that path.
    known: Option<(Instant, Duration)>,
    /// The first packet on the new path.
    new: Option<Instant>,
}

impl FirstRtt {
    /// A status of the path arrived on another one, of this round trip. It may be told long before the path is
    /// opened: the newest before that counts.
    pub(crate) fn on_told(&mut self, now: Instant, rtt: Duration) {
        if self.new.is_none() || self.known.is_none() {
            self.known = Some((now, rtt));
        }
    }

    /// The first packet arrived on the path.
    pub(crate) fn on_opened(&mut self, now: Instant) {
        self.new.get_or_insert(now);
    }

    /// The round trip to assume, once both have come.
    pub(crate) fn estimate(&self) -> Option<Duration> {
        let ((known, rtt), new) = (self.known?, self.new?);
        let later = new.saturating_since(known);
        let earlier = known.saturating_since(new);
        let there = (rtt / 2 + later).saturating_sub(earlier);
        let estimate = if there.is_zero() { rtt } else { there * 2 };
        Some(estimate.min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn estimate(known: u64, rtt: u64, new: u64) -> Option<Duration> {
        let mut first = FirstRtt::default();
        first.on_told(Instant::ZERO + ms(known), ms(rtt));
        assert_eq!(first.estimate(), None);
        first.on_opened(Instant::ZERO + ms(new));
        first.estimate()
    }

    #[test]
    fn the_papers_example() {
        assert_eq!(estimate(510, 20, 530), Some(ms(60)));
    }

    #[test]
    fn what_was_told_long_before_the_path_opened_does_not_count() {
        let mut first = FirstRtt::default();
        first.on_told(Instant::ZERO, ms(20));
        first.on_told(Instant::ZERO + ms(60_000), ms(20));
        first.on_opened(Instant::ZERO + ms(60_020));
        assert_eq!(first.estimate(), Some(ms(60)));
        // Nor does what is told of it afterwards.
        first.on_told(Instant::ZERO + ms(90_000), ms(20));
        assert_eq!(first.estimate(), Some(ms(60)));
    }

    #[test]
    fn faster_paths_lost_packets_and_nonsense() {
        assert_eq!(estimate(530, 60, 510), Some(ms(20)));
        // The status was told again a probe timeout later.
        assert_eq!(estimate(630, 60, 530), Some(ms(60)));
        assert_eq!(estimate(0, 60, 1_000_000), Some(LONGEST));
        assert_eq!(estimate(1_000_000, 60, 0), Some(ms(60)));
    }
}
