//! How much reordering is tolerated before a packet counts as lost. RFC 9002 s6.1.
//!
//! The packet threshold grows to the reordering that made a loss spurious, within the configured
//! bound, and goes back by halves as long as no more of it is seen.

use std::time::Duration;

use super::GRANULARITY;
use crate::time::Instant;

/// The raised threshold is halved towards its base after this many quiet round trips.
const QUIET_ROUNDS: u32 = 16;

/// Packet and time thresholds, and the loss episode under way.
#[derive(Clone, Debug)]
pub(super) struct ReorderingTolerance {
    base: u32,
    max: u32,
    packets: u32,
    time_factor: f64,
    /// When the threshold was last raised or lowered.
    changed: Instant,
    episode: Option<Episode>,
}

/// Losses that the controller answers once: those of packets that left before it answered.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// When its first loss was declared.
    start: Instant,
    /// Losses declared minus losses found spurious.
    remaining: u64,
}

impl ReorderingTolerance {
    pub(super) fn new(base: u32, max: u32, time_factor: f64) -> Self {
        let base = base.max(1);
        let time_factor = if time_factor.is_finite() {
            time_factor.clamp(1.0, 16.0)
        } else {
            1.125
        };
        Self {
            base,
            max: max.max(base),
            packets: base,
            time_factor,
            changed: Instant::ZERO,
            episode: None,
        }
    }

    /// A new network path reorders in its own way.
    pub(super) fn restart(&mut self) {
        self.packets = self.base;
        self.episode = None;
    }

    pub(super) fn packets(&self) -> u32 {
        self.packets
    }

    /// How long after leaving an overtaken packet counts as lost, round trips being at most this
    /// long. RFC 9002 s6.1.2.
    pub(super) fn loss_delay(&self, rtt: Duration) -> Duration {
        let nanos = rtt.as_nanos() as f64 * self.time_factor;
        Duration::from_nanos(nanos as u64).max(GRANULARITY)
    }

    /// Lowers a raised threshold after a quiet time.
    pub(super) fn decay(&mut self, now: Instant, smoothed_rtt: Duration) {
        if self.packets > self.base
            && now.saturating_since(self.changed) >= smoothed_rtt * QUIET_ROUNDS
        {
            self.packets = self.base + (self.packets - self.base) / 2;
            self.changed = now;
        }
    }

    /// Congestion-relevant packets were declared lost, the newest of which left at `last_sent`.
    pub(super) fn on_lost(&mut self, now: Instant, last_sent: Instant, packets: u64) {
        match &mut self.episode {
            Some(episode) if last_sent <= episode.start => episode.remaining += packets,
            _ => {
                self.episode = Some(Episode {
                    start: now,
                    remaining: packets,
                })
            }
        }
    }

    /// A packet declared lost at `lost_at` was acknowledged. `distance`: how many packets overtook
    /// it, if that was the reason. True if no loss of its episode remains.
    pub(super) fn on_spurious(
        &mut self,
        now: Instant,
        lost_at: Instant,
        distance: Option<u64>,
    ) -> bool {
        if let Some(distance) = distance {
            let wanted = u32::try_from(distance.saturating_add(1)).unwrap_or(u32::MAX);
            self.packets = self.packets.max(wanted.min(self.max));
            self.changed = now;
        }
        match &mut self.episode {
            Some(episode) if lost_at >= episode.start && episode.remaining > 0 => {
                episode.remaining -= 1;
                episode.remaining == 0
            }
            _ => false,
        }
    }
}
