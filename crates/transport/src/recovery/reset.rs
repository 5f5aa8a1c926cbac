//! Packets that stop to matter without being acknowledged or lost.

use super::{
    LossHandler, LossTrigger, OneWayDelay, Recovery, RttEstimator, build_controller,
    rate::DeliveryRate, returns::ReturnPaths, timer::may_leave,
};
use crate::{
    congestion::Pacer,
    space::{Fate, PacketNumberSpace, SpaceKind},
    time::Instant,
    units::PacketNumber,
};

impl Recovery {
    /// The keys of a space are gone: nothing in it counts any more. RFC 9002 A.11.
    pub fn discard_space(&mut self, space: &mut PacketNumberSpace, kind: SpaceKind) {
        self.forget_in_flight(space, kind);
        self.pto_count = 0;
    }

    /// Takes every packet of `space` out of flight and forgets it, without a word to anybody.
    pub fn forget_in_flight(&mut self, space: &mut PacketNumberSpace, kind: SpaceKind) {
        let in_flight: u64 = space
            .sent
            .outstanding()
            .filter(|(number, packet)| packet.in_flight && self.is_current(kind, *number))
            .map(|(_, packet)| u64::from(packet.bytes))
            .sum();
        debug_assert!(
            in_flight <= self.bytes_in_flight,
            "bytes in flight are exact"
        );
        self.bytes_in_flight = self.bytes_in_flight.saturating_sub(in_flight);
        let off_path: u64 = space
            .sent
            .outstanding()
            .filter(|(_, packet)| packet.off_path)
            .map(|(_, packet)| u64::from(packet.bytes))
            .sum();
        self.off_path_in_flight = self.off_path_in_flight.saturating_sub(off_path);
        space.sent.clear();
        space.loss_time = None;
        space.last_eliciting_sent = None;
        space.last_asks = false;
        space.lost_run = None;
    }

    /// Everything outstanding in `space` must be sent again (0-RTT was rejected, a Retry came);
    /// this says nothing about congestion.
    pub fn retransmit_all(
        &mut self,
        space: &mut PacketNumberSpace,
        kind: SpaceKind,
        handler: &mut impl LossHandler,
    ) {
        self.report_orphans(space, kind, handler);
        for (_, packet) in space.sent.outstanding() {
            for token in space.sent.tokens_of(packet) {
                handler.token_lost(kind, token);
            }
        }
        self.forget_in_flight(space, kind);
    }

    /// The MTU probe `number` counts as lost from now on; that says nothing about congestion, and its
    /// acknowledgement may still come.
    pub fn give_up_mtu_probe(
        &mut self,
        space: &mut PacketNumberSpace,
        number: PacketNumber,
        now: Instant,
        handler: &mut impl LossHandler,
    ) {
        let (kind, fate) = (SpaceKind::Data, Fate::LostByTime);
        let mut lost = Vec::new();
        space.sent.lose(number, fate, now, |packet, _| {
            self.on_packet_lost(kind, number, packet, fate, &mut lost, handler);
        });
        debug_assert!(lost.is_empty(), "no packet but a probe is given up");
    }

    /// The path is given up: what its packets carried and nobody took over is lost. Says nothing about
    /// congestion.
    pub fn abandon(&mut self, space: &mut PacketNumberSpace, handler: &mut impl LossHandler) {
        let kind = SpaceKind::Data;
        self.report_orphans(space, kind, handler);
        for (number, packet) in space.sent.outstanding() {
            for token in space.sent.tokens_of(packet) {
                if !(packet.is_repeated() && may_leave(token)) {
                    handler.token_lost(kind, token);
                }
            }
            handler.packet_lost(kind, number, packet, LossTrigger::TimeThreshold);
        }
        self.forget_in_flight(space, kind);
    }

    /// The path's addresses changed: RTT, congestion control, pacing and ECN start anew, and
    /// packets sent before say nothing about the new network path. RFC 9000 s9.4.
    pub fn reset_for_new_network_path(&mut self, now: Instant) {
        self.first_number = self.next_number;
        self.rtt = RttEstimator::new(self.rtt.initial());
        self.returns = ReturnPaths::default();
        self.rate = DeliveryRate::new(now);
        self.capacity.forget();
        self.owd = OneWayDelay::default();
        self.ecn.restart();
        self.tolerance.restart();
        self.controller = build_controller(
            &self.factory,
            now,
            self.mtu,
            self.initial_window_packets,
            self.rtt.initial(),
            self.pacing,
            &mut self.rng,
        );
        if let Some(request) = self.ack_request {
            self.controller.on_ack_request(&request);
        }
        self.pacer = Pacer::new(now, u64::from(self.mtu));
        self.bytes_in_flight = 0;
        self.pto_count = 0;
        self.timer_anchor = now;
        self.acked_at = now;
        self.newest_acked_sent = [None; 3];
        self.first_rtt_sample = None;
        self.started = false;
        self.app_limited = false;
        self.sampled_in_flight = [0; 2];
        self.waits = super::waits::Waits::default();
        self.note_controller_state();
    }
}
