//! How often a path stands still, and how long what is sent meanwhile has to wait.
//!
//! Owns: means over time. Does not own: queues, which what is in flight explains (`queue.rs`), losses.

use std::time::Duration;

use crate::time::Instant;

/// What is older than this many seconds counts for little.
const MEMORY: f64 = 30.0;
/// So many seconds of a young path count at least: a single standstill tells little.
const YOUNG: f64 = 3.0;
/// What is left of so few seconds is forgotten.
const FORGOTTEN: f64 = 0.005;
/// What was computed is good for so long: it fades over half a minute, and each choice of a path asks for it.
const GOOD_FOR: Duration = Duration::from_millis(1);

/// A path that stands still for a time `t` makes what is sent meanwhile wait, `t / 2` on average: over
/// a longer time, half the sum of the squares divided by that time. Wi-Fi stations that retry, and hand-overs,
/// stand still without losing anything.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    /// Since when, and when last something was added.
    known: Option<(Instant, Instant)>,
    /// Half the sum of the squares, in square seconds, the older ones less.
    squares: f64,
    /// The same and the sum itself, in seconds, of long ones alone.
    long_squares: f64,
    long: f64,
    /// What was computed last, and when; none where something was added since.
    computed: Option<(Instant, Standstill)>,
}

/// The share of time for which a path that stands still frequently does.
const FREQUENT: f64 = 0.01;

/// By chance a path that stands still like another one does not in the time in which that does so often: in one of twenty.
const TIMES: f64 = 3.0;

/// How a path stands still.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standstill {
    /// What anything waits on average.
    pub mean_wait: Duration,
    /// The share of time for which it stands still for longer than jitter and a queue of a few packets account for, 0 to 1.
    pub share: f64,
    /// What is sent in such a time waits so long on average.
    pub wait: Duration,
    /// For how long that has been watched.
    pub watched: Duration,
}

impl Standstill {
    /// Whether the end of what is sent is worth a copy on another path: that the path stands still shows only when an
    /// acknowledgement is overdue.
    pub fn is_frequent(&self) -> bool {
        self.share >= FREQUENT
    }

    /// What to expect beside a path that stands still as `other` does: the same, until that would have shown [`TIMES`]
    /// times, for as long as is remembered at most. Paths that are alike are told apart by nothing else, and what meets the
    /// first standstill is late.
    pub(crate) fn beside(self, other: Self) -> Self {
        let lasts = 2.0 * other.wait.as_secs_f64();
        let shows_after = (TIMES * lasts / other.share.max(FREQUENT)).min(MEMORY);
        if self.is_frequent() || self.watched.as_secs_f64() >= shows_after {
            return self;
        }
        Self {
            share: other.share,
            wait: other.wait,
            ..self
        }
    }
}

impl Waits {
    /// A packet that left at `sent` took `excess` longer than it may take without a standstill; more than `usual` is long.
    pub(super) fn on_sample(
        &mut self,
        now: Instant,
        sent: Instant,
        usual: Duration,
        excess: Duration,
    ) {
        let (_, last) = *self.known.get_or_insert((now, now));
        let decay = || (-now.saturating_since(last).as_secs_f64() / MEMORY).exp();
        if self.any() && self.long * decay() < FORGOTTEN {
            (self.long, self.long_squares) = (0.0, 0.0);
        }
        // What left before the last standstill was over tells of the same one.
        if excess.is_zero() || sent < last {
            return;
        }
        self.computed = None;
        let (is_long, decay) = (excess > usual, decay());
        let excess = excess.as_secs_f64();
        let square = excess.powi(2) / 2.0;
        for sum in [&mut self.squares, &mut self.long_squares, &mut self.long] {
            *sum *= decay;
        }
        self.squares += square;
        if is_long {
            self.long_squares += square;
            self.long += excess;
        }
        if let Some((_, last)) = &mut self.known {
            *last = now;
        }
    }

    /// Whether it has for long, not too long ago.
    pub(super) fn any(&self) -> bool {
        self.long > 0.0
    }

    /// What has been seen lately.
    pub(super) fn standstill(&self, now: Instant) -> Standstill {
        self.still_good(now).unwrap_or_else(|| self.compute(now))
    }

    /// Computes what [`Self::standstill`] will say for a while, if that is not known.
    pub(super) fn look(&mut self, now: Instant) {
        if self.still_good(now).is_none() {
            self.computed = Some((now, self.compute(now)));
        }
    }

    fn still_good(&self, now: Instant) -> Option<Standstill> {
        let (at, standstill) = self.computed?;
        (now.saturating_since(at) < GOOD_FOR).then_some(standstill)
    }

    fn compute(&self, now: Instant) -> Standstill {
        let Some((first, last)) = self.known else {
            return Standstill::default();
        };
        let watched = now.saturating_since(first);
        if self.squares <= 0.0 {
            return Standstill {
                watched,
                ..Standstill::default()
            };
        }
        let decay = (-now.saturating_since(last).as_secs_f64() / MEMORY).exp();
        let seconds = MEMORY * (1.0 - (-watched.as_secs_f64() / MEMORY).exp());
        let duration = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Standstill {
            mean_wait: duration(self.squares * decay / seconds.max(1.0)),
            share: (self.long * decay / seconds.max(YOUNG)).min(1.0),
            wait: duration(self.long_squares / self.long.max(f64::MIN_POSITIVE)),
            watched,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_been_watched_for_long_is_like_the_other() {
        let ms = Duration::from_millis;
        let other = Standstill {
            mean_wait: ms(3),
            share: 0.05,
            wait: ms(50),
            watched: ms(20_000),
        };
        // 100 ms of every two seconds.
        let after = |millis| Standstill {
            watched: ms(millis),
            ..Standstill::default()
        };
        let young = after(5_900).beside(other);
        assert!(young.is_frequent() && young.wait == other.wait);
        assert_eq!(young.mean_wait, Duration::ZERO, "it has not stood still");
        assert_eq!(after(6_100).beside(other), after(6_100));
        let rare = Standstill {
            share: 0.01,
            wait: ms(5_000),
            ..other
        };
        assert!(after(29_000).beside(rare).is_frequent());
        assert_eq!(after(31_000).beside(rare), after(31_000));
        let own = Standstill {
            share: 0.02,
            ..after(100)
        };
        assert_eq!(own.beside(other), own);
    }

    #[test]
    fn half_the_squares_over_the_time() {
        let start = Instant::ZERO;
        let ms = Duration::from_millis;
        let mut waits = Waits::default();
        waits.on_sample(start, start, ms(20), Duration::ZERO);
        assert_eq!(waits.standstill(start), Standstill::default());
        for second in 1..=120 {
            let at = start + ms(1_000 * second);
            // Two acknowledgements tell of one standstill.
            waits.on_sample(at, at - ms(100), ms(20), ms(100));
            waits.on_sample(at + ms(1), at - ms(90), ms(20), ms(91));
        }
        let standstill = waits.standstill(start + ms(120_000));
        let mean = standstill.mean_wait;
        assert!(mean > ms(4) && mean < ms(6), "{mean:?}");
        assert!((0.08..0.12).contains(&standstill.share), "{standstill:?}");
        assert_eq!(standstill.wait.as_millis(), 50);
        let before = standstill;
        let at = start + ms(120_500);
        waits.on_sample(at, at - ms(45), ms(20), ms(5));
        let standstill = waits.standstill(at);
        // A queue of a few packets is no standstill.
        assert!(standstill.share < before.share && standstill.wait == before.wait);
        waits.look(at);
        assert_eq!(
            waits.standstill(at + ms(1) / 2),
            standstill,
            "good for a while"
        );
        let later = waits.standstill(start + ms(300_000));
        assert!(later.mean_wait < ms(1) && later.wait == standstill.wait);
    }
}
