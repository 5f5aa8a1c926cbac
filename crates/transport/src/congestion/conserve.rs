//! Loss recovery of the first two BBRs: packet conservation, then the window from before.
//!
//! Purpose: what "Modulating cwnd in Loss Recovery" and saving and restoring the window ask for
//! (draft-cardwell-iccrg-bbr-congestion-control-00 s4.2.3.4, -02 s4.6.4.4), in QUIC's terms.
//! Owns: the recovery period and the window remembered for its end. Does not own: the window.
//! Called by: `bbr1`, `bbr2`.
//!
//! Recovery lasts until the losses are repaired: it begins with a loss and ends when a packet is
//! acknowledged that left after the last loss was seen. Its first round trip conserves packets, the
//! later ones let the window grow by what is acknowledged ("at most twice the delivery rate"). On a
//! path that loses in every round trip it does not end, and the first round trip does not recur. A
//! retransmission timeout is persistent congestion (RFC 9002 s7.6).

use super::{LossEvent, SpuriousLossEvent};
use crate::time::Instant;

/// Recovery of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Conservation {
    open: bool,
    /// When recovery last began.
    start: Option<Instant>,
    /// When the last loss was seen.
    last: Option<Instant>,
    /// When the newest loss episode began, and the one before: what a report of a spurious loss
    /// speaks of, the losses of packets that left before the first of them was seen.
    episode: Option<Instant>,
    previous_episode: Option<Instant>,
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

    /// Takes note of losses; returns the window if recovery begins with them.
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
        let sent = event.packets.iter().map(|packet| packet.sent).max()?;
        // A straggler of a recovery that is over begins none.
        let begins = !self.open && self.last.is_none_or(|last| sent > last);
        if begins {
            self.save(window, lowered);
            self.start = Some(event.now);
            self.open = true;
            self.conserving = true;
        }
        if self.episode.is_none_or(|episode| sent > episode) {
            self.previous_episode = self.episode.replace(event.now);
        }
        self.last = Some(event.now);
        begins.then(|| event.bytes_in_flight.saturating_add(mtu))
    }

    /// Everything in flight was lost: the window starts over, from one packet.
    pub(super) fn on_timeout(&mut self, now: Instant, window: u64, lowered: bool) {
        self.save(window, lowered);
        self.last = Some(now);
        self.open = true;
        self.conserving = false;
    }

    /// A packet that left at `sent` was acknowledged; the window to have again if that ended
    /// recovery.
    pub(super) fn on_ack(&mut self, sent: Instant, window: u64) -> Option<u64> {
        self.conserving &= self.start.is_some_and(|start| sent <= start);
        let over = self.open && self.last.is_some_and(|last| sent > last);
        over.then(|| self.close(window))
    }

    /// What recovery began with was no loss; the window to have again.
    pub(super) fn on_spurious(&mut self, event: &SpuriousLossEvent, window: u64) -> Option<u64> {
        let covered = self.episode.is_some_and(|episode| event.sent <= episode)
            && self
                .previous_episode
                .is_none_or(|previous| event.sent > previous);
        // With an earlier episode in the same recovery, that one's losses stand.
        let alone = self.start == self.episode;
        (event.episode_spurious && covered && alone).then(|| self.close(window))
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
