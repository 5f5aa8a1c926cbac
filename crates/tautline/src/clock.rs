//! The one place of the stack that reads a clock.
//!
//! Owns: [`Clock`]. Does not own: timers ([`crate::timer`]) or any decision about time.

use tautline_transport::time::Instant;

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

    /// Nanoseconds since the start.
    #[expect(
        clippy::disallowed_methods,
        reason = "the socket edge is where time enters"
    )]
    pub(crate) fn now(&self) -> Instant {
        let elapsed = std::time::Instant::now().saturating_duration_since(self.origin);
        // One second of head start keeps "a little earlier than now" representable.
        Instant::ZERO + elapsed + std::time::Duration::from_secs(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_runs_backwards() {
        let clock = Clock::start();
        let first = clock.now();
        assert!(first > Instant::ZERO);
        assert!(clock.now() >= first);
    }
}
