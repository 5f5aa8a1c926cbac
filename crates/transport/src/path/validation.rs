//! One attempt to prove an address by PATH_CHALLENGE. RFC 9000 s8.2.

use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;

use crate::{rng::Rng, time::Instant};

/// Challenges sent per attempt at most.
const CHALLENGES: usize = 6;

/// No answer came in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValidationFailed;

/// What an answer to a challenge proves. RFC 9000 s8.2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Somebody at the address hears us; whether it can be reached with full datagrams is open.
    Address,
    /// That, and datagrams of 1,200 bytes arrive there.
    Path,
}

/// A challenge that was sent.
#[derive(Clone, Copy, Debug)]
struct Challenge {
    data: [u8; 8],
    proves: Proof,
    at: Instant,
}

/// An attempt under way. Each retransmission carries fresh data (RFC 9000 s8.2.1), any of which
/// may be answered.
#[derive(Debug)]
pub(crate) struct Validation {
    sent: [Option<Challenge>; CHALLENGES],
    count: usize,
    due: Instant,
    interval: Duration,
    deadline: Instant,
}

impl Validation {
    /// For a path whose present PTO is `pto`, the first challenge being due at `start`. The attempt
    /// ends after three times the larger of that and of the initial PTO (RFC 9000 s8.2.4);
    /// challenges follow each other as probes would.
    pub(crate) fn new(start: Instant, pto: Duration) -> Self {
        Self {
            sent: [None; CHALLENGES],
            count: 0,
            due: start,
            interval: pto,
            deadline: start + 3 * pto.max(crate::recovery::INITIAL_PTO),
        }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.count < CHALLENGES && now >= self.due
    }

    /// The data to send in a datagram that, answered, proves this much.
    pub(crate) fn next(&mut self, now: Instant, proves: Proof, rng: &mut Rng) -> [u8; 8] {
        let data = rng.array();
        if let Some(slot) = self.sent.get_mut(self.count) {
            *slot = Some(Challenge {
                data,
                proves,
                at: now,
            });
            self.count += 1;
        }
        self.due = now + self.interval;
        self.interval *= 2;
        data
    }

    /// The next challenge is due by `at`.
    pub(crate) fn repeat_by(&mut self, at: Instant) {
        self.due = self.due.min(at);
    }

    /// What `data`, coming back, proves; `None` if it was not sent.
    pub(crate) fn proof(&self, data: &[u8; 8]) -> Option<Proof> {
        self.challenge(data).map(|sent| sent.proves)
    }

    /// When `data` was sent.
    pub(crate) fn sent_at(&self, data: &[u8; 8]) -> Option<Instant> {
        self.challenge(data).map(|sent| sent.at)
    }

    fn challenge(&self, data: &[u8; 8]) -> Option<&Challenge> {
        self.sent
            .iter()
            .flatten()
            .find(|sent| verify_slices_are_equal(&sent.data, data).is_ok())
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
