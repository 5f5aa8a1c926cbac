//! How many stateless answers may leave.

use std::time::Duration;

use crate::time::Instant;

/// A token bucket: `per_second` answers a second, one second's worth at once at most.
#[derive(Debug)]
pub(super) struct Limiter {
    per_second: u32,
    available: u32,
    /// Up to when `available` was filled.
    filled: Instant,
}

impl Limiter {
    /// A full bucket.
    pub(super) fn new(per_second: u32) -> Self {
        Self {
            per_second,
            available: per_second,
            filled: Instant::ZERO,
        }
    }

    /// Takes one answer if there is one.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        self.refill(now);
        let allowed = self.available > 0;
        self.available = self.available.saturating_sub(1);
        allowed
    }

    fn refill(&mut self, now: Instant) {
        if self.per_second == 0 || self.available >= self.per_second {
            self.filled = self.filled.max(now);
            return;
        }
        let elapsed = now.saturating_since(self.filled);
        if elapsed >= Duration::from_secs(1) {
            self.available = self.per_second;
            self.filled = now;
            return;
        }
        let nanos_each = 1_000_000_000 / u64::from(self.per_second).max(1);
        let gained = elapsed.as_nanos() as u64 / nanos_each.max(1);
        let room = u64::from(self.per_second - self.available);
        let gained = gained.min(room);
        self.available += gained as u32;
        // What is left of a fraction counts next time.
        self.filled += Duration::from_nanos(gained * nanos_each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_gets_one_second_of_answers_then_the_rate() {
        let mut limiter = Limiter::new(10);
        let start = Instant::from_nanos(5_000_000_000);
        let burst = (0..1_000).filter(|_| limiter.take(start)).count();
        assert_eq!(burst, 10);
        let mut allowed = 0;
        for ms in 0..10_000u64 {
            allowed += usize::from(limiter.take(start + Duration::from_millis(ms)));
        }
        assert!((98..=101).contains(&allowed), "{allowed}");
    }

    #[test]
    fn zero_means_never() {
        let mut limiter = Limiter::new(0);
        assert!(!limiter.take(Instant::FAR_FUTURE));
    }

    #[test]
    fn time_running_backwards_gives_nothing() {
        let mut limiter = Limiter::new(2);
        let late = Instant::from_nanos(10_000_000_000);
        assert!(limiter.take(late) && limiter.take(late));
        assert!(!limiter.take(Instant::ZERO));
    }
}
