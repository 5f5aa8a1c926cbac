//! Loss recovery of the first two BBRs: packet conservation, then the window from before.
//!
//! Purpose: what "Modulating cwnd in Loss Recovery" and saving and restoring the window ask for
//! (draft-cardwell-iccrg-bbr-congestion-control-00 s4.2.3.4, -02 s4.6.4.4), in QUIC's terms.
//! Owns: the recovery period and the window remembered for its end. Does not own: the window.
//! Called by: `bbr1`, `bbr2`.
//!
//! QUIC's recovery period (RFC 9002 s7.3.2) begins with the loss of a packet that left after the
//! last period began, and ends when a packet is acknowledged that left in it. That is one round
//! trip, so the drafts' second and later rounds of a recovery ("at most twice the delivery rate")
//! are the first rounds of the next period here. A retransmission timeout is persistent congestion
//! (RFC 9002 s7.6).

use super::{LossEvent, SpuriousLossEvent};
use crate::time::Instant;

/// The recovery period of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Conservation {
    /// When the newest period began, and the one before it.
    start: Option<Instant>,
    previous: Option<Instant>,
    open: bool,
    /// Each acknowledged packet lets one leave; not after a timeout.
    conserving: bool,
    /// Bytes lost since the last acknowledgement was processed.
    newly_lost: u64,
    prior_window: u64,
}

impl Conservation {
    pub(super) const fn is_open(&self) -> bool {
        self.open
    }

    pub(super) const fn newly_lost(&self) -> u64 {
        self.newly_lost
    }

    /// Takes note of losses; returns the window of a period that they begin.
    ///
    /// `lowered`: whether something other than recovery holds the window down at present.
    pub(super) fn on_loss(
        &mut self,
        event: &LossEvent<'_>,
        window: u64,
        mtu: u64,
        lowered: bool,
    ) -> Option<u64> {
        self.newly_lost = self.newly_lost.saturating_add(event.lost_bytes);
        let last = event.packets.iter().map(|packet| packet.sent).max()?;
        if self.start.is_some_and(|start| last <= start) {
            return None;
        }
        self.save(window, lowered);
        self.previous = self.start.replace(event.now);
        self.open = true;
        self.conserving = true;
        Some(event.bytes_in_flight.saturating_add(mtu))
    }

    /// Everything in flight was lost: the window starts over, from one packet.
    pub(super) fn on_timeout(&mut self, now: Instant, window: u64, lowered: bool) {
        self.save(window, lowered);
        self.start = Some(now);
        self.open = true;
        self.conserving = false;
    }

    /// A packet that left at `sent` was acknowledged; the window to have again if that ended the
    /// period.
    pub(super) fn on_ack(&mut self, sent: Instant, window: u64) -> Option<u64> {
        let over = self.open && self.start.is_some_and(|start| sent > start);
        over.then(|| self.close(window))
    }

    /// The losses of the newest period were none; the window to have again.
    pub(super) fn on_spurious(&mut self, event: &SpuriousLossEvent, window: u64) -> Option<u64> {
        let covered = self.start.is_some_and(|start| event.sent <= start)
            && self.previous.is_none_or(|previous| event.sent > previous);
        (event.episode_spurious && covered).then(|| self.close(window))
    }

    fn close(&mut self, window: u64) -> u64 {
        self.open = false;
        self.conserving = false;
        self.restored(window)
    }

    /// Holds the window to what recovery allows; returns whether it may not grow beyond that.
    ///
    /// To be asked once per acknowledgement: `acked` bytes of it, which leave `in_flight`.
    pub(super) fn modulate(
        &mut self,
        window: &mut u64,
        in_flight: u64,
        acked: u64,
        floor: u64,
    ) -> bool {
        let lost = std::mem::take(&mut self.newly_lost);
        if !self.open {
            return false;
        }
        *window = window.saturating_sub(lost).max(floor);
        if self.conserving {
            *window = (*window).max(in_flight.saturating_add(acked));
        }
        self.conserving
    }

    /// Remembers the last window that neither recovery nor ProbeRTT lowered.
    pub(super) fn save(&mut self, window: u64, lowered: bool) {
        self.prior_window = if self.open || lowered {
            self.prior_window.max(window)
        } else {
            window
        };
    }

    /// The larger of this window and the remembered one.
    pub(super) fn restored(&self, window: u64) -> u64 {
        window.max(self.prior_window)
    }
}
