//! The one place of the stack that reads a clock.
//!
//! Owns: [`Clock`]. Does not own: timers ([`crate::timer`]) or any decision about time.

use tautline_transport::time::Instant;

/// Keeps "a little earlier than now" representable.
const HEAD_START: std::time::Duration = std::time::Duration::from_secs(1);

/// Monotonic time since this clock was made, as the transport wants it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    /// A clock that starts near zero now.
    #[expect(
        clippy::disallowed_methods,
        reason = "the socket edge is where time enters"
    )]
    pub(crate) fn start() -> Self {
        Self {
            origin: std::time::Instant::now(),
        }
    }

    /// A time of the standard library as the transport wants it; what lies before the start is as
    /// early as can be told.
    pub(crate) fn at(&self, time: std::time::Instant) -> Instant {
        let start = Instant::ZERO + HEAD_START;
        match time.checked_duration_since(self.origin) {
            Some(after) => start + after,
            None => start - self.origin.saturating_duration_since(time),
        }
    }

    /// Nanoseconds since the start.
    #[expect(
        clippy::disallowed_methods,
        reason = "the socket edge is where time enters"
    )]
    pub(crate) fn now(&self) -> Instant {
        let elapsed = std::time::Instant::now().saturating_duration_since(self.origin);
        Instant::ZERO + elapsed + HEAD_START
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_of_the_standard_library_keep_their_distance() {
        let clock = Clock::start();
        let origin = clock.at(clock.origin);
        let tenth = Duration::from_millis(100);
        assert_eq!(clock.at(clock.origin + tenth), origin + tenth);
        if let Some(before) = clock.origin.checked_sub(tenth) {
            assert_eq!(clock.at(before), origin - tenth);
        }
        if let Some(before) = clock.origin.checked_sub(2 * HEAD_START) {
            assert_eq!(clock.at(before), Instant::ZERO);
        }
    }

    #[test]
    fn never_runs_backwards() {
        let clock = Clock::start();
        let first = clock.now();
        assert!(first > Instant::ZERO);
        assert!(clock.now() >= first);
    }
}
