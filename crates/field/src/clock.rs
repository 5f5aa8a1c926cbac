//! The one place of this crate that reads clocks.
//!
//! Owns: [`now`], [`utc`], [`RunClock`]. Does not own: how two machines agree on a run's time zero
//! (`near/link.rs`).

use std::time::{Duration, Instant as StdInstant, SystemTime, UNIX_EPOCH};

use tautline_transport::time::Instant;

/// Monotonic time.
#[expect(
    clippy::disallowed_methods,
    reason = "field runs are made in real time; halves are handed it"
)]
pub fn now() -> StdInstant {
    StdInstant::now()
}

/// The calendar's time, UTC, as RFC 3339 with milliseconds.
#[expect(
    clippy::disallowed_methods,
    reason = "field data says when it was measured"
)]
pub fn utc() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    written(since.unwrap_or_default())
}

/// A time after 1970-01-01T00:00:00Z.
fn written(since: Duration) -> String {
    let (mut day, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let millis = since.subsec_millis();
    format!(
        "{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z",
        day + 1
    )
}

/// The time of a run, the same at both ends: [`Instant::ZERO`] is when it begins.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    zero: StdInstant,
}

impl RunClock {
    /// Whose zero is at this time, which may still come.
    pub const fn from(zero: StdInstant) -> Self {
        Self { zero }
    }

    /// The time; zero before the run begins.
    pub fn now(&self) -> Instant {
        Instant::ZERO + now().saturating_duration_since(self.zero)
    }

    /// A time of the run as the standard library has it; what is too far ahead to be told is a year ahead.
    pub fn at(&self, time: Instant) -> StdInstant {
        let year = Duration::from_secs(366 * 86_400);
        self.zero + time.since_origin().min(year)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (1_767_225_600, "2026-01-01T00:00:00.000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(written(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_run_that_is_still_to_begin_is_at_zero() {
        let clock = RunClock::from(now() + Duration::from_secs(60));
        assert_eq!(clock.now(), Instant::ZERO);
        let far = Instant::from_nanos(u64::MAX);
        assert!(clock.at(far) > clock.at(Instant::ZERO));
    }
}
