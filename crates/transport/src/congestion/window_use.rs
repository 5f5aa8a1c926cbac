//! Whether the window was the limit when the packets now acknowledged left.

use super::{AckEvent, SentEvent};
use crate::time::Instant;

/// Remembers when the window was last full, so that a window nobody uses does not grow.
///
/// RFC 9002 s7.8, RFC 9438 s5.8. Packets that were in flight when the window was full tested it,
/// even if the application has fallen silent by the time they are acknowledged. Times are
/// compared, not packet numbers: one path serves several packet number spaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowUse {
    /// Share of the window (0..=1) in flight that counts as full.
    threshold: f64,
    /// When the window was last full.
    full_at: Option<Instant>,
}

impl WindowUse {
    pub(super) const fn new(threshold: f64) -> Self {
        Self {
            threshold,
            full_at: None,
        }
    }

    /// A packet left under a window of `window` bytes.
    pub(super) fn on_sent(&mut self, event: &SentEvent, window: u64, mtu: u64) {
        // A datagram that does not fit any more leaves less than one MTU unused.
        let room_for_one = event.bytes_in_flight.saturating_add(mtu) > window;
        if room_for_one || event.bytes_in_flight as f64 >= self.threshold * window as f64 {
            self.full_at = Some(event.now);
        }
    }

    /// Whether the packets acknowledged by `event` tested the window.
    pub(super) fn tested(&self, event: &AckEvent) -> bool {
        !event.app_limited
            || self
                .full_at
                .is_some_and(|at| event.largest_acked_sent <= at)
    }
}
