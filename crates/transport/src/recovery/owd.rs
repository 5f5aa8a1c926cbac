//! One-way delay towards the peer, from its receive timestamps.
//!
//! The clocks of both ends differ by an unknown constant. As in draft-huitema-quic-ts s4, the
//! first sample is taken to be half the round-trip time of that moment; the phase shift this
//! gives stays fixed, so later samples show how the forward delay varies, while its absolute
//! value is a guess that an asymmetric path makes wrong by a constant.

use std::time::Duration;

use crate::time::Instant;

/// Forward delay of one network path.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneWayDelay {
    /// Nanoseconds to take off "peer's timestamp minus our send time".
    phase_shift: Option<i128>,
    latest: i128,
    smoothed: i128,
    min: i128,
}

impl OneWayDelay {
    /// The packet that left at `sent` arrived at `received`, counted from the peer's own basis.
    /// `smoothed_rtt` matters for the first sample only.
    pub(super) fn on_sample(&mut self, sent: Instant, received: Duration, smoothed_rtt: Duration) {
        let raw = nanos(received) - i128::from(sent.as_nanos());
        let Some(shift) = self.phase_shift else {
            let half = nanos(smoothed_rtt / 2);
            self.phase_shift = Some(raw - half);
            (self.latest, self.smoothed, self.min) = (half, half, half);
            return;
        };
        self.latest = raw - shift;
        self.smoothed += (self.latest - self.smoothed) / 8;
        self.min = self.min.min(self.latest);
    }

    /// Whether any timestamp arrived.
    pub fn has_sample(&self) -> bool {
        self.phase_shift.is_some()
    }

    /// The newest estimate; zero where the phase shift makes it negative.
    pub fn latest(&self) -> Option<Duration> {
        self.has_sample().then(|| duration(self.latest))
    }

    /// Exponentially smoothed, gain 1/8.
    pub fn smoothed(&self) -> Option<Duration> {
        self.has_sample().then(|| duration(self.smoothed))
    }

    /// The smallest estimate.
    pub fn min(&self) -> Option<Duration> {
        self.has_sample().then(|| duration(self.min))
    }

    /// How much longer than at best packets take now: the queueing delay on the way there. Does
    /// not depend on the guess of the phase shift.
    pub fn variation(&self) -> Option<Duration> {
        self.has_sample().then(|| duration(self.latest - self.min))
    }
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX / 4)
}

fn duration(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}
