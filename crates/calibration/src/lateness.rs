//! How late packets were delivered, in steps of a microsecond.

use std::{fmt, time::Duration};

/// Above this, only the maximum is exact.
const STEPS: usize = 20_000;

/// A histogram of delays that the emulator added to those of its link.
#[derive(Clone, Debug)]
pub(crate) struct Lateness {
    counts: Vec<u64>,
    total: u64,
    max: Duration,
}

impl Default for Lateness {
    fn default() -> Self {
        Self {
            counts: vec![0; STEPS + 1],
            total: 0,
            max: Duration::ZERO,
        }
    }
}

impl Lateness {
    /// One packet more.
    pub(crate) fn record(&mut self, late: Duration) {
        let step = usize::try_from(late.as_micros()).map_or(STEPS, |micros| micros.min(STEPS));
        if let Some(count) = self.counts.get_mut(step) {
            *count += 1;
        }
        self.total += 1;
        self.max = self.max.max(late);
    }

    /// Those of `other` too.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// What this share of all packets did not exceed, rounded up to the microsecond; `None` of none.
    pub(crate) fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = ((self.total as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut below = 0;
        for (step, count) in (0u64..).zip(&self.counts) {
            below += count;
            if below >= rank {
                // The last step has no upper end.
                let end = Duration::from_micros(step + 1).min(self.max);
                let is_last = step == STEPS as u64;
                return Some(if is_last { self.max } else { end });
            }
        }
        None
    }
}

impl Lateness {
    /// Its quantiles, in words.
    pub(crate) fn times(&self) -> String {
        let at = |share| self.quantile(share).unwrap_or_default().as_micros();
        format!(
            "late by p50 {} us, p95 {} us, p99 {} us, max {:.1} ms",
            at(0.5),
            at(0.95),
            at(0.99),
            self.max.as_secs_f64() * 1e3
        )
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packets, {}", self.total, self.times())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_known_values() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile(0.5), None);
        for micros in 1..=100 {
            lateness.record(Duration::from_micros(micros));
        }
        assert_eq!(lateness.quantile(0.5), Some(Duration::from_micros(51)));
        assert_eq!(lateness.quantile(0.99), Some(Duration::from_micros(100)));
        assert_eq!(lateness.quantile(1.0), Some(Duration::from_micros(100)));
        assert_eq!(lateness.quantile(0.0), Some(Duration::from_micros(2)));
        let mut other = Lateness::default();
        other.record(Duration::from_secs(3));
        lateness.merge(&other);
        assert_eq!(lateness.quantile(1.0), Some(Duration::from_secs(3)));
        assert!(lateness.to_string().contains("max 3000.0 ms"), "{lateness}");
    }
}
