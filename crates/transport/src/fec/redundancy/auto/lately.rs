//! Smallest and largest values of late.
//!
//! Owns: [`Lately`]. Does not own: of what (`strain.rs`, `waits.rs`).

use std::time::Duration;

use crate::time::Instant;

/// The smallest, or the largest, of what was seen in a period and in the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Lately {
    now: Option<Duration>,
    before: Option<Duration>,
    since: Option<Instant>,
}

impl Lately {
    /// Takes in a value; the one of this period that `of` prefers, or while that is young, of the one before too.
    pub(super) fn note(
        &mut self,
        now: Instant,
        value: Duration,
        period: Duration,
        of: fn(Duration, Duration) -> Duration,
    ) -> Duration {
        let since = *self.since.get_or_insert(now);
        let age = now.saturating_since(since);
        if age >= period {
            // Nothing of the period before counts if nothing came meanwhile.
            self.before = self.now.take().filter(|_| age < period.saturating_mul(2));
            self.since = Some(now);
        }
        let best = self.now.map_or(value, |best| of(best, value));
        self.now = Some(best);
        match self.before {
            Some(before) if age >= period || age < period / 2 => of(best, before),
            _ => best,
        }
    }
}
