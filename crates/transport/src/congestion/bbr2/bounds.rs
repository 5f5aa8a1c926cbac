//! What loss says about the path: latest delivery, short-term and long-term bounds. s4.5.6.

use super::{Bbr2, cycle::State};
use crate::{
    congestion::{
        EcnEvent, LossEvent,
        bbr::model::{Sample, UNBOUNDED},
    },
    time::Instant,
    units::{PacketNumber, Rate, Rows},
};

/// Share of what was in flight, lost within a round trip, above which it was too much.
pub(super) const LOSS_THRESHOLD: f64 = 0.02;
/// What a bound is multiplied by at most per round trip with loss.
pub(super) const BETA: f64 = 0.7;
/// Share of `inflight_hi` left to others while cruising.
pub(super) const HEADROOM: f64 = 0.15;
/// Separate losses in a round trip that, with the threshold, end Startup. s4.3.1.3.
pub(super) const STARTUP_LOSSES: u32 = 3;

/// The bounds; each as large as can be while it is unset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The rate that present losses leave.
    pub(super) bw_lo: Rate,
    /// The volume that present losses leave.
    pub(super) inflight_lo: u64,
    /// The largest volume that the last probes found safe.
    pub(super) inflight_hi: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            bw_lo: Rate::MAX,
            inflight_lo: UNBOUNDED,
            inflight_hi: UNBOUNDED,
        }
    }
}

impl Bounds {
    pub(super) fn reset_lower(&mut self) {
        self.bw_lo = Rate::MAX;
        self.inflight_lo = UNBOUNDED;
    }
}

/// Delivery and loss of the present loss round. s4.5.6.3.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latest {
    bw: Rate,
    pub(super) inflight: u64,
    round_end: u64,
    /// Whether the present ACK ended the loss round.
    pub(super) round_over: bool,
    loss: bool,
    /// Losses in the round that do not follow each other.
    separate_losses: u32,
    lost: Rows,
    /// CE-marked bytes of the round.
    marked: u64,
    /// Whether the round began in recovery.
    began_in_recovery: bool,
}

impl Latest {
    pub(super) fn on_ack(&mut self, sample: &Sample) {
        self.bw = self.bw.max(sample.delivery_rate);
        self.inflight = self.inflight.max(sample.delivered);
        self.round_over = sample
            .prior_delivered
            .is_some_and(|prior| prior >= self.round_end);
        if self.round_over {
            self.round_end = sample.total_delivered;
        }
    }

    pub(super) fn after_ack(&mut self, sample: &Sample) {
        if self.round_over {
            self.bw = sample.delivery_rate;
            self.inflight = sample.delivered;
        }
    }

    /// A new cycle looks at its own signals only.
    pub(super) fn reset(&mut self) {
        self.loss = false;
        self.bw = Rate::ZERO;
        self.inflight = 0;
    }

    fn note_lost(&mut self, number: PacketNumber) {
        self.loss = true;
        if self.lost.begins(number) {
            self.separate_losses = self.separate_losses.saturating_add(1);
        }
    }

    /// Whether a whole round in recovery lost in enough places; to be asked at each round's end,
    /// which begins the next.
    fn round_was_lossy(&mut self, in_recovery: bool) -> bool {
        let losses = std::mem::take(&mut self.separate_losses);
        let throughout = std::mem::replace(&mut self.began_in_recovery, in_recovery);
        throughout && in_recovery && losses >= STARTUP_LOSSES
    }
}

impl Bbr2 {
    pub(super) fn is_too_high(lost: u64, tx_in_flight: u64) -> bool {
        lost as f64 > tx_in_flight as f64 * LOSS_THRESHOLD
    }

    /// s4.5.6.2: looks for the volume at which a probe's losses crossed the threshold.
    pub(super) fn judge_losses(&mut self, event: &LossEvent<'_>) {
        // The count as it was when each packet in turn was declared lost.
        let mut total = event.lost.saturating_sub(event.lost_bytes);
        for packet in event.packets {
            total = total.saturating_add(packet.bytes);
            self.latest.note_lost(packet.packet_number);
            let lost = total.saturating_sub(packet.lost_at_send);
            if !self.cycle.probe_samples || !Self::is_too_high(lost, packet.tx_in_flight) {
                continue;
            }
            let before = packet.tx_in_flight.saturating_sub(packet.bytes) as f64;
            let lost_before = lost.saturating_sub(packet.bytes) as f64;
            let prefix = (LOSS_THRESHOLD * before - lost_before) / (1.0 - LOSS_THRESHOLD);
            // Negative floats become zero.
            let volume = (before + prefix) as u64;
            self.on_too_high(event.now, volume, packet.app_limited);
        }
    }

    pub(super) fn judge_marks(&mut self, event: &EcnEvent) {
        if event.ce_packets == 0 {
            return;
        }
        self.latest.loss = true;
        let marked = event.ce_packets.saturating_mul(self.mtu);
        self.latest.marked = self.latest.marked.saturating_add(marked);
        let too_high = Self::is_too_high(self.latest.marked, event.bytes_in_flight);
        if self.cycle.probe_samples && too_high {
            self.on_too_high(event.now, event.bytes_in_flight, false);
        }
    }

    /// Once per probe: no more than so much, though never less than what CUBIC would keep.
    pub(super) fn on_too_high(&mut self, now: Instant, volume: u64, app_limited: bool) {
        self.cycle.probe_samples = false;
        if !app_limited {
            let floor = (self.target_inflight() as f64 * BETA) as u64;
            self.bounds.inflight_hi = volume.max(floor);
        }
        if self.state == State::ProbeUp {
            self.start_down(now);
        }
    }

    /// Once per round trip with loss, unless a probe asked for it. s4.5.6.3.
    pub(super) fn adapt_lower_bounds(&mut self) {
        if !self.latest.round_over {
            return;
        }
        self.latest.marked = 0;
        if !std::mem::take(&mut self.latest.loss) || self.state.is_probing() {
            return;
        }
        let bounds = &mut self.bounds;
        if bounds.bw_lo == Rate::MAX {
            bounds.bw_lo = self.max_bw.get();
        }
        if bounds.inflight_lo == UNBOUNDED {
            bounds.inflight_lo = self.window;
        }
        bounds.bw_lo = bounds.bw_lo.mul_f64(BETA).max(self.latest.bw);
        let volume = (bounds.inflight_lo as f64 * BETA) as u64;
        bounds.inflight_lo = volume.max(self.latest.inflight);
    }

    /// s4.3.1.3: Startup ends when a round trip of recovery lost too much in several places.
    pub(super) fn startup_lost_too_much(&mut self, sample: &Sample, in_recovery: bool) -> bool {
        self.latest.round_over
            && self.latest.round_was_lossy(in_recovery)
            && Self::is_too_high(sample.lost, sample.tx_in_flight)
    }

    /// `inflight_hi` less what is left to others.
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        let bound = self.bounds.inflight_hi;
        if bound == UNBOUNDED {
            return UNBOUNDED;
        }
        let share = (HEADROOM * bound as f64) as u64;
        bound
            .saturating_sub(share.max(self.mtu))
            .max(self.min_pipe())
    }
}
