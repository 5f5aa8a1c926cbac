//! What loss and CE marks do to the model. s5.5.10.

use super::{
    super::{EcnEvent, LossEvent, LostPacket},
    Bbr,
    model::{Sample, UNBOUNDED},
    state::State,
    undo::Returns,
};
use crate::{
    time::Instant,
    units::{Rate, Rows},
};

/// Delivery and loss of the present loss round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signals {
    /// Largest delivery rate of the round.
    pub(super) bw_latest: Rate,
    /// Largest delivered volume of the round.
    pub(super) inflight_latest: u64,
    round_delivered: u64,
    /// Whether the present ACK ended a loss round.
    pub(super) round_started: bool,
    pub(super) loss_in_round: bool,
    /// Discontiguous losses of the round (CE reports count as one each).
    pub(super) loss_ranges: u32,
    /// CE-marked bytes of the round.
    pub(super) marked: u64,
    lost: Rows,
}

impl Signals {
    pub(super) fn reset(&mut self) {
        self.loss_in_round = false;
        self.bw_latest = Rate::ZERO;
        self.inflight_latest = 0;
    }

    /// Near the start of ACK processing.
    pub(super) fn update(&mut self, sample: &Sample) {
        self.bw_latest = self.bw_latest.max(sample.delivery_rate);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        self.round_started = sample
            .prior_delivered
            .is_some_and(|prior| prior >= self.round_delivered);
        if self.round_started {
            self.round_delivered = sample.total_delivered;
        }
    }

    /// Near the end of ACK processing.
    pub(super) fn advance(&mut self, sample: &Sample) {
        if self.round_started {
            self.bw_latest = sample.delivery_rate;
            self.inflight_latest = sample.delivered;
        }
    }
}

impl Bbr {
    /// Whether so much was lost of what was in flight that the volume must have been too high.
    pub(super) fn is_too_high(&self, lost: u64, tx_in_flight: u64) -> bool {
        let threshold = self.params.loss_threshold;
        if self.params.rules.excess_loss {
            let mtu = self.mtu as f64;
            return lost as f64 / mtu > self.ledger.allowed(tx_in_flight as f64 / mtu, threshold);
        }
        lost as f64 > tx_in_flight as f64 * threshold
    }

    /// Whether what this round lost so far is congestion.
    fn is_loss_congestion(&self) -> bool {
        let window = (self.window / self.mtu) as f64;
        let threshold = self.params.loss_threshold;
        !self.params.rules.excess_loss || self.ledger.is_congested(threshold, window)
    }

    pub(super) fn handle_lost_packets(&mut self, event: &LossEvent<'_>) {
        // The count as it was when each packet in turn was declared lost.
        let mut lost = event.lost.saturating_sub(event.lost_bytes);
        let congestion = self.is_loss_congestion();
        for packet in event.packets {
            lost = lost.saturating_add(packet.bytes);
            self.note_loss(event.now, packet.sent, congestion);
            if self.signals.lost.begins(packet.packet_number) && congestion {
                self.signals.loss_ranges = self.signals.loss_ranges.saturating_add(1);
            }
            if self.cycle.probe_sample {
                self.judge_probe(event.now, packet, lost);
            }
        }
    }

    /// A packet of a bandwidth probe was lost.
    fn judge_probe(&mut self, now: Instant, packet: &LostPacket, total_lost: u64) {
        let lost = total_lost.saturating_sub(packet.lost_at_send);
        if self.is_too_high(lost, packet.tx_in_flight) {
            let inflight = self.inflight_at_loss(packet, lost);
            self.handle_inflight_too_high(now, inflight, packet.app_limited);
        }
    }

    /// The volume in flight at which losses crossed the threshold, within this packet.
    fn inflight_at_loss(&self, packet: &LostPacket, lost: u64) -> u64 {
        let threshold = self.loss_threshold();
        let inflight_before = packet.tx_in_flight.saturating_sub(packet.bytes) as f64;
        let lost_before = lost.saturating_sub(packet.bytes) as f64;
        let prefix = (threshold * inflight_before - lost_before) / (1.0 - threshold);
        // Negative floats become zero.
        (inflight_before + prefix) as u64
    }

    fn handle_inflight_too_high(&mut self, now: Instant, tx_in_flight: u64, app_limited: bool) {
        self.cycle.previous_too_high = true;
        self.cycle.probe_sample = false; // React once per probe.
        if !app_limited {
            let floor = (self.target_inflight() as f64 * self.params.beta) as u64;
            self.inflight_longterm = tx_in_flight.max(floor);
        }
        if self.state == State::ProbeUp {
            self.undo.returns = Returns::ToProbeUp;
            self.start_probe_down(now);
        }
    }

    /// The share of loss at which a probe went too high.
    fn loss_threshold(&self) -> f64 {
        if self.params.rules.excess_loss {
            self.params.loss_threshold + self.ledger.base()
        } else {
            self.params.loss_threshold
        }
    }

    fn note_loss(&mut self, now: Instant, sent: Instant, congestion: bool) {
        if congestion && !self.signals.loss_in_round {
            self.signals.round_delivered = self.delivered;
        }
        if self.recovery.begins_episode(sent) {
            self.save_state_upon_loss();
        }
        self.recovery.on_loss(now, sent);
        self.signals.loss_in_round |= congestion;
    }

    /// CE marks are congestion like loss; the draft leaves the response open. A round with marks
    /// lowers the short-term bounds, and a probe with more marks than the loss threshold went too
    /// high.
    pub(super) fn handle_marks(&mut self, event: &EcnEvent) {
        if event.ce_packets == 0 {
            return;
        }
        self.note_loss(event.now, event.largest_acked_sent, true);
        self.undo.marked = true;
        self.signals.loss_ranges = self.signals.loss_ranges.saturating_add(1);
        let marked = event.ce_packets.saturating_mul(self.mtu);
        self.signals.marked = self.signals.marked.saturating_add(marked);
        let threshold = self.params.loss_threshold;
        let too_high = self.signals.marked as f64 > event.bytes_in_flight as f64 * threshold;
        if self.cycle.probe_sample && too_high {
            self.handle_inflight_too_high(event.now, event.bytes_in_flight, false);
        }
    }

    /// Once per round trip with loss outside of probes.
    pub(super) fn adapt_lower_bounds(&mut self) {
        if !self.signals.round_started {
            return;
        }
        let bounded = !self.state.is_probing_bandwidth() && !self.is_sharing();
        if self.signals.loss_in_round && bounded {
            if self.bw_shortterm == Rate::MAX {
                self.bw_shortterm = self.max_bw.get();
            }
            if self.inflight_shortterm == UNBOUNDED {
                self.inflight_shortterm = self.window;
            }
            let beta = self.params.beta;
            self.bw_shortterm = self.signals.bw_latest.max(self.bw_shortterm.mul_f64(beta));
            let reduced = (self.inflight_shortterm as f64 * beta) as u64;
            self.inflight_shortterm = self.signals.inflight_latest.max(reduced);
        }
        self.signals.loss_in_round = false;
    }

    pub(super) fn reset_short_term_model(&mut self) {
        self.bw_shortterm = Rate::MAX;
        self.inflight_shortterm = UNBOUNDED;
    }
}
