//! One attempt to prove an address by PATH_CHALLENGE. RFC 9000 s8.2.

use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;

use crate::{rng::Rng, time::Instant};

/// Challenges sent per attempt at most.
const CHALLENGES: usize = 6;

/// No answer came in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValidationFailed;

/// An attempt under way. Each retransmission carries fresh data (RFC 9000 s8.2.1), any of which
/// may be answered.
#[derive(Debug)]
pub(crate) struct Validation {
    sent: [Option<[u8; 8]>; CHALLENGES],
    count: usize,
    due: Instant,
    interval: Duration,
    deadline: Instant,
}

impl Validation {
    /// For a path whose present PTO is `pto`. The attempt ends after three times the larger of that
    /// and of the initial PTO (RFC 9000 s8.2.4); challenges follow each other as probes would.
    pub(crate) fn new(now: Instant, pto: Duration) -> Self {
        Self {
            sent: [None; CHALLENGES],
            count: 0,
            due: now,
            interval: pto,
            deadline: now + 3 * pto.max(crate::recovery::INITIAL_PTO),
        }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.count < CHALLENGES && now >= self.due
    }

    pub(crate) fn next(&mut self, now: Instant, rng: &mut Rng) -> [u8; 8] {
        let data = rng.array();
        if let Some(slot) = self.sent.get_mut(self.count) {
            *slot = Some(data);
            self.count += 1;
        }
        self.due = now + self.interval;
        self.interval *= 2;
        data
    }

    pub(crate) fn matches(&self, data: &[u8; 8]) -> bool {
        self.sent
            .iter()
            .flatten()
            .any(|sent| verify_slices_are_equal(sent, data).is_ok())
    }

    pub(crate) fn timer(&self) -> Instant {
        if self.count < CHALLENGES {
            self.due.min(self.deadline)
        } else {
            self.deadline
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(crate) fn has_failed(&self, now: Instant) -> bool {
        now >= self.deadline
    }
}
