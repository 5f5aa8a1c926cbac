//! For how long no repair symbol leaves that did harm.
//!
//! Owns: [`Shy`]. Does not own: what harm is (`effect.rs`, `strain.rs`, `toll.rs`).

use std::time::Duration;

use crate::time::Instant;

/// For how long none leaves, and at most: four times as long each time that harm is found again.
const FIRST: Duration = Duration::from_secs(4);
const MOST: Duration = Duration::from_secs(64);

/// None until then, and for how long that was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Shy(Option<(Instant, Duration)>);

impl Shy {
    /// Harm was found.
    pub(super) fn give_up(&mut self, now: Instant) {
        let time = match self.0 {
            Some((_, before)) if before >= FIRST && self.is_remembered(now) => {
                (before * 4).min(MOST)
            }
            _ => FIRST,
        };
        self.pause(now, time);
    }

    /// None leaves for so long.
    pub(super) fn pause(&mut self, now: Instant, time: Duration) {
        self.0 = Some((now + time, time));
    }

    /// Whether none leaves now.
    pub(super) fn is_now(&self, now: Instant) -> bool {
        self.0.is_some_and(|(until, _)| now < until)
    }

    /// Whether none left lately.
    pub(super) fn is_remembered(&self, now: Instant) -> bool {
        self.0.is_some_and(|(until, _)| now < until + MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::at, *};

    #[test]
    fn for_longer_each_time_until_it_is_forgotten() {
        let mut shy = Shy::default();
        let mut now = 1_000;
        for seconds in [4, 16, 64, 64] {
            shy.give_up(at(now));
            assert!(shy.is_now(at(now + seconds * 1_000 - 1)));
            now += seconds * 1_000;
            assert!(!shy.is_now(at(now)) && shy.is_remembered(at(now)));
        }
        now += 64_000;
        assert!(!shy.is_remembered(at(now)));
        shy.give_up(at(now));
        assert!(!shy.is_now(at(now + 4_000)), "as at first");
    }

    #[test]
    fn a_pause_is_no_first_time() {
        let mut shy = Shy::default();
        shy.pause(at(0), Duration::from_secs(2));
        assert!(shy.is_now(at(1_999)) && !shy.is_now(at(2_000)));
        shy.give_up(at(3_000));
        assert!(!shy.is_now(at(7_000)));
    }
}
