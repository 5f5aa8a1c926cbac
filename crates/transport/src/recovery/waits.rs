//! How long what is sent at any moment has to wait, on average, because the path stands still.
//!
//! Owns: the mean of such waits. Does not own: queues, which what is in flight explains (`queue.rs`), losses.

use std::time::Duration;

use crate::time::Instant;

/// What is older than this many seconds counts for little.
const MEMORY: f64 = 30.0;

/// A path that stands still for a time `t` makes what is sent meanwhile wait, `t / 2` on average: over
/// a longer time, half the sum of the squares divided by that time. Wi-Fi stations that retry, and hand-overs,
/// stand still without losing anything.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    /// Since when, and when last something was added.
    known: Option<(Instant, Instant)>,
    /// Half the sum of the squares, in square seconds, the older ones less.
    sum: f64,
}

impl Waits {
    /// A packet that left at `sent` took `excess` longer than anything but a standstill explains.
    pub(super) fn on_sample(&mut self, now: Instant, sent: Instant, excess: Duration) {
        let (_, last) = *self.known.get_or_insert((now, now));
        // What left before the last standstill was over tells of the same one.
        if excess.is_zero() || sent < last {
            return;
        }
        self.sum *= (-now.saturating_since(last).as_secs_f64() / MEMORY).exp();
        self.sum += excess.as_secs_f64().powi(2) / 2.0;
        if let Some((_, last)) = &mut self.known {
            *last = now;
        }
    }

    /// The mean wait.
    pub(super) fn mean(&self, now: Instant) -> Duration {
        let Some((first, last)) = self.known.filter(|_| self.sum > 0.0) else {
            return Duration::ZERO;
        };
        let decay = (-now.saturating_since(last).as_secs_f64() / MEMORY).exp();
        let age = now.saturating_since(first).as_secs_f64();
        let seconds = MEMORY * (1.0 - (-age / MEMORY).exp());
        let mean = self.sum * decay / seconds.max(1.0);
        Duration::try_from_secs_f64(mean).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_squares_over_the_time() {
        let start = Instant::ZERO;
        let ms = Duration::from_millis;
        let mut waits = Waits::default();
        waits.on_sample(start, start, Duration::ZERO);
        assert_eq!(waits.mean(start), Duration::ZERO);
        for second in 1..=120 {
            let at = start + ms(1_000 * second);
            // Two acknowledgements tell of one standstill.
            waits.on_sample(at, at - ms(100), ms(100));
            waits.on_sample(at + ms(1), at - ms(90), ms(91));
        }
        let mean = waits.mean(start + ms(120_000));
        assert!(mean > ms(4) && mean < ms(6), "{mean:?}");
        assert!(waits.mean(start + ms(300_000)) < ms(1));
    }
}
