//! Processing of ACK frames. RFC 9002 A.7, B.5, B.7.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    AckContext, AckSummary, GRANULARITY, LossHandler, PeerAcks, Recovery, ecn::NewlyAckedMarks,
};
use crate::{
    congestion::{AckEvent, EcnEvent, SpuriousLossEvent},
    error::TransportError,
    observe::Abuse,
    packet::Token,
    space::{Fate, PacketNumberSpace, SentPacket, SpaceKind},
    time::Instant,
    units::{Ecn, PacketNumber, Rate},
    wire::{Ack, EcnCounts},
};

/// A standstill is longer than a round trip over this,
const LONG: u32 = 2;
/// and than so many of its mean deviations: jitter is none.
const UNUSUAL: u32 = 4;

/// An ACK frame, apart from its encoding.
pub(super) struct AckFrame<R, T> {
    pub(super) largest: PacketNumber,
    /// Descending, disjoint.
    pub(super) ranges: R,
    pub(super) ecn: Option<EcnCounts>,
    /// Receive times since the peer's own basis.
    pub(super) timestamps: T,
}

/// What one ACK frame acknowledges for the first time.
#[derive(Default)]
struct Newly {
    /// Packets, spurious losses included.
    any: bool,
    /// The largest packet not declared lost before: number, when it left, and whether it measures a round
    /// trip of the present network path.
    largest: Option<(PacketNumber, Instant, bool)>,
    ack_eliciting: bool,
    /// The largest in-flight packet.
    largest_in_flight: Option<(PacketNumber, Instant)>,
    /// Of the in-flight packets those that were no fillers: bytes, how many, and the largest.
    asked_bytes: u64,
    asked_packets: u64,
    largest_asked: Option<(PacketNumber, Instant)>,
    marks: NewlyAckedMarks,
    spurious: u64,
}

impl Recovery {
    /// An ACK or PATH_ACK frame for `space` arrived.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION when it acknowledges a packet that was never sent: RFC 9000 s13.1,
    /// s21.4. Nothing is changed then.
    pub fn on_ack(
        &mut self,
        space: &mut PacketNumberSpace,
        kind: SpaceKind,
        ack: &Ack<'_>,
        context: &AckContext,
        handler: &mut impl LossHandler,
    ) -> Result<AckSummary, TransportError> {
        let frame = AckFrame {
            largest: ack.largest,
            ranges: ack.ranges(),
            ecn: ack.ecn,
            timestamps: ack.timestamps.into_iter().flat_map(|timestamps| {
                timestamps
                    .iter(context.timestamps_exponent)
                    .map(|(number, micros)| (number, Duration::from_micros(micros)))
            }),
        };
        self.on_ack_frame(space, kind, frame, context, handler)
    }

    pub(super) fn on_ack_frame<R, T>(
        &mut self,
        space: &mut PacketNumberSpace,
        kind: SpaceKind,
        frame: AckFrame<R, T>,
        context: &AckContext,
        handler: &mut impl LossHandler,
    ) -> Result<AckSummary, TransportError>
    where
        R: Iterator<Item = RangeInclusive<PacketNumber>> + Clone,
        T: Iterator<Item = (PacketNumber, Duration)>,
    {
        let now = context.now;
        if frame.largest >= space.numbers().end() {
            let error = TransportError::protocol_violation("ACK of a packet not sent");
            return Err(error.counted_as(Abuse::AckOfUnsent));
        }
        if space.numbers().covers_skipped(frame.ranges.clone()) {
            let error = TransportError::protocol_violation("ACK of a skipped packet number");
            return Err(error.counted_as(Abuse::OptimisticAck));
        }
        self.report_orphans(space, kind, handler);
        let prior_in_flight = self.bytes_in_flight;
        let prior_largest = space.largest_acked;
        let newly = self.mark_acked(space, kind, now, frame.ranges, handler);
        space.largest_acked = prior_largest.max(Some(frame.largest));
        let mut summary = AckSummary {
            newly_acked: newly.any,
            largest_newly_acked: newly.largest.map(|(number, ..)| number),
            largest_newly_acked_sent: newly.largest.map(|(_, sent, _)| sent),
            spurious_losses: newly.spurious,
            ..AckSummary::default()
        };
        if !newly.any {
            return Ok(summary);
        }
        summary.rtt_sample = self.sample_rtt(kind, &newly, frame.largest, context);
        self.sample_one_way_delay(space, kind, frame.timestamps);
        if prior_largest.is_none_or(|prior| frame.largest > prior) {
            self.process_ecn(space, &newly, frame.ecn, now, &mut summary);
        }
        let losses = self.detect_losses(space, kind, now, context.peer_max_ack_delay, handler);
        summary.lost_packets = losses.packets;
        summary.persistent_congestion = losses.persistent;
        self.report_ack(space, &newly, prior_in_flight, summary.rtt_sample, now);
        // RFC 9002 A.7: a client whose address may not be validated keeps backing off.
        // By another path, what left before the path went silent does not show that it is alive.
        let answers = !context.elsewhere
            || newly
                .largest
                .is_some_and(|(_, sent, _)| self.last_pto.is_none_or(|at| sent >= at));
        if context.peer_completed_address_validation && answers {
            self.pto_count = 0;
        }
        self.timer_anchor = now;
        self.acked_at = now;
        self.tolerance.decay(now, self.rtt.smoothed());
        self.prune(space, now, context.peer_max_ack_delay);
        Ok(summary)
    }

    /// A packet that was lost and recovered counts as acknowledged, with the congestion controller too; it
    /// measures no round trip. [`FecLab`](crate::fec::FecLab) says why not to do so.
    pub(crate) fn on_recovered(
        &mut self,
        space: &mut PacketNumberSpace,
        kind: SpaceKind,
        now: Instant,
        number: PacketNumber,
        handler: &mut impl LossHandler,
    ) {
        let prior_in_flight = self.bytes_in_flight;
        let range = std::iter::once(number..=number);
        let newly = self.mark_acked(space, kind, now, range, handler);
        if newly.any {
            self.report_ack(space, &newly, prior_in_flight, None, now);
        }
    }

    /// Marks what is newly acknowledged and tells everybody but the controller's `on_ack`.
    fn mark_acked(
        &mut self,
        space: &mut PacketNumberSpace,
        kind: SpaceKind,
        now: Instant,
        ranges: impl Iterator<Item = RangeInclusive<PacketNumber>>,
        handler: &mut impl LossHandler,
    ) -> Newly {
        let mut newly = Newly::default();
        let prior_largest = space.largest_acked;
        for range in ranges {
            if *range.end() < space.sent.base() {
                break;
            }
            space
                .sent
                .ack_range(*range.start(), *range.end(), |number, packet, tokens| {
                    newly.any = true;
                    for token in tokens {
                        handler.token_acked(kind, token);
                    }
                    handler.packet_acked(kind, number, packet);
                    if packet.mtu_probe {
                        handler.mtu_probe_acked(number, packet.bytes);
                    }
                    if self.is_current(kind, number) {
                        match packet.ecn {
                            Ecn::Ect0 => newly.marks.ect0 += 1,
                            Ecn::Ect1 => newly.marks.ect1 += 1,
                            Ecn::NotEct | Ecn::Ce => {}
                        }
                    }
                    if packet.is_lost() {
                        newly.spurious += 1;
                        self.on_spurious(kind, number, packet, prior_largest, now);
                    } else {
                        self.on_packet_acked(kind, number, packet, now, &mut newly);
                    }
                });
        }
        newly
    }

    fn on_packet_acked(
        &mut self,
        kind: SpaceKind,
        number: PacketNumber,
        packet: &SentPacket,
        now: Instant,
        newly: &mut Newly,
    ) {
        let this_path = self.is_current(kind, number) && !packet.off_path;
        self.stats.packets_acked += 1;
        self.stats.bytes_acked += u64::from(packet.bytes);
        newly.ack_eliciting |= packet.ack_eliciting;
        if newly.largest.is_none_or(|(largest, ..)| number > largest) {
            // A probe may have waited for the keys to read it, longer than delays of ACKs account for.
            let measures = this_path && !packet.mtu_probe;
            newly.largest = Some((number, packet.sent, measures));
        }
        if !this_path {
            if packet.off_path {
                self.take_off(kind, number, packet);
            }
            return;
        }
        if let Some(newest) = self.newest_acked_sent.get_mut(kind as usize) {
            *newest = (*newest).max(Some(packet.sent));
        }
        if packet.in_flight {
            let bytes = self.take_off(kind, number, packet);
            let this = Some((number, packet.sent));
            newly.largest_in_flight = newly.largest_in_flight.max(this);
            if !packet.is_filler() {
                newly.asked_bytes += bytes;
                newly.asked_packets += 1;
                newly.largest_asked = newly.largest_asked.max(this);
            }
            self.rate.on_acked(number, packet, now);
        }
    }

    /// A packet declared lost was acknowledged. RFC 9002 s6.1: tolerate more from now on.
    fn on_spurious(
        &mut self,
        kind: SpaceKind,
        number: PacketNumber,
        packet: &SentPacket,
        prior_largest: Option<PacketNumber>,
        now: Instant,
    ) {
        if packet.mtu_probe {
            // Its loss was none to begin with.
            return;
        }
        self.stats.spurious_losses += 1;
        if !self.is_current(kind, number) || !packet.in_flight {
            return;
        }
        let bytes = u64::from(packet.bytes);
        self.rate.on_spurious(bytes);
        let distance = (packet.fate == Fate::LostByThreshold)
            .then(|| prior_largest.map(|largest| largest.saturating_sub(number)))
            .flatten();
        let episode_spurious = self.tolerance.on_spurious(now, packet.lost_at(), distance);
        self.controller.on_spurious_loss(&SpuriousLossEvent::new(
            now,
            number,
            packet.sent,
            bytes,
            episode_spurious,
        ));
    }

    /// RFC 9002 s5.1: only from the largest packet, newly acknowledged, together with an
    /// ack-eliciting one.
    fn sample_rtt(
        &mut self,
        kind: SpaceKind,
        newly: &Newly,
        largest: PacketNumber,
        context: &AckContext,
    ) -> Option<Duration> {
        let (number, sent, measures) = newly.largest?;
        if number != largest || !newly.ack_eliciting || !measures {
            return None;
        }
        // Another path than usual tells late: that measures how long the acknowledgement waited to be told again.
        let usual = self.returns.current();
        let strange = context.elsewhere && usual.is_some_and(|by| by != context.returned_by);
        if strange && context.ack_delay > context.peer_max_ack_delay {
            return None;
        }
        // s5.3: Initial packets are acknowledged at once; the announced maximum binds once the
        // peer is known to have it.
        let ack_delay = match kind {
            SpaceKind::Initial => Duration::ZERO,
            _ if context.handshake_confirmed => context.ack_delay.min(context.peer_max_ack_delay),
            _ => context.ack_delay,
        };
        let raw = context.now.saturating_since(sent);
        // Of a first sample the delay is not taken off, but where most of it tells for how long the peer lacked what it
        // needs to read the packet (a path opened early): what follows would believe that of the path. No announced
        // maximum binds it there.
        let lacked = kind == SpaceKind::Data
            && !self.rtt.has_sample()
            && context.ack_delay > context.peer_max_ack_delay;
        let way = raw
            .checked_sub(context.ack_delay)
            .filter(|way| lacked && *way >= GRANULARITY);
        let (sample, ack_delay) = way.map_or((raw, ack_delay), |way| (way, Duration::ZERO));
        self.take_sample(context.now, context.returned_by, sample, ack_delay)
    }

    fn sample_one_way_delay(
        &mut self,
        space: &PacketNumberSpace,
        kind: SpaceKind,
        timestamps: impl Iterator<Item = (PacketNumber, Duration)>,
    ) {
        for (number, received) in timestamps {
            let packet = space.sent.get(number);
            if let Some(packet) = packet
                && packet.fate == Fate::Acked
                && !packet.off_path
                && self.is_current(kind, number)
            {
                let smoothed = self.rtt.smoothed();
                self.owd.on_sample(packet.sent, received, smoothed);
            }
        }
    }

    fn process_ecn(
        &mut self,
        space: &mut PacketNumberSpace,
        newly: &Newly,
        report: Option<EcnCounts>,
        now: Instant,
        summary: &mut AckSummary,
    ) {
        let before = self.ecn.phase();
        let ce = self.ecn.on_ack(&mut space.peer_ecn, newly.marks, report);
        let after = self.ecn.phase();
        summary.ecn_changed = (before != after).then_some(after);
        summary.ce_marks = ce;
        self.stats.ce_marks += ce;
        let Some((largest, sent)) = newly.largest_in_flight.filter(|_| ce > 0) else {
            return;
        };
        let event = EcnEvent::new(now, ce, largest, sent, self.bytes_in_flight);
        self.controller.on_ecn(&event);
        self.note_controller_state();
    }

    fn report_ack(
        &mut self,
        space: &PacketNumberSpace,
        newly: &Newly,
        prior_in_flight: u64,
        rtt_sample: Option<Duration>,
        now: Instant,
    ) {
        let rate = self.rate.take_sample(self.shortest_rtt());
        if let Some(sample) = &rate {
            self.capacity.on_sample(sample, self.round_trips());
            if rtt_sample.is_some() {
                let passed = sample.tx_in_flight.min(sample.delivered);
                self.sampled_in_flight = [passed, self.sampled_in_flight[0]];
                self.note_standstill(newly, sample.tx_in_flight, now);
            }
        }
        let Some((largest_acked, largest_acked_sent)) = newly.largest_asked else {
            return;
        };
        let event = AckEvent::new(
            now,
            newly.asked_bytes,
            newly.asked_packets,
            largest_acked,
            largest_acked_sent,
            space.peek_packet_number(),
            rtt_sample.is_some(),
            self.rtt_view_with(rtt_sample),
            prior_in_flight,
            self.bytes_in_flight,
            self.rate.delivered(),
            self.rate.lost(),
            rate,
            self.app_limited,
        );
        self.controller.on_ack(&event);
        self.note_controller_state();
    }

    /// What a round trip took beyond what chance and what was in flight explain.
    fn note_standstill(&mut self, newly: &Newly, in_flight: u64, now: Instant) {
        let Some((_, sent)) = newly.largest_in_flight else {
            return;
        };
        let explained = self.explained(in_flight);
        let excess = self.rtt.newest().saturating_sub(explained);
        let usual = (explained / LONG).max(self.rtt.variance_before().saturating_mul(UNUSUAL));
        self.waits.on_sample(now, sent, usual, excess);
    }

    /// The longest round trip that chance and a queue of so many bytes explain.
    fn explained(&self, in_flight: u64) -> Duration {
        let queue = self.rate_passed().time_for(in_flight);
        self.longest_without_queue().max(queue)
    }

    /// What the path has been seen to deliver.
    pub(super) fn rate_passed(&self) -> Rate {
        let passed = || Rate::from_bytes_over(self.most_passed(), self.rtt.min());
        self.capacity().unwrap_or_else(passed)
    }

    /// For how long an acknowledgement has been overdue on a path that has stood still before: it seems to do so again.
    pub(crate) fn stands_still_for(
        &self,
        space: &PacketNumberSpace,
        now: Instant,
        acks: PeerAcks,
    ) -> Duration {
        let oldest = self.waits.any().then(|| space.oldest_eliciting_sent());
        let Some(oldest) = oldest.flatten() else {
            return Duration::ZERO;
        };
        let mut usual = self.explained(self.bytes_in_flight);
        if space.sent.eliciting_outstanding() < acks.together {
            usual = usual.saturating_add(acks.max_delay);
        }
        now.saturating_since(self.acked_at.max(oldest + usual))
    }

    /// Lost packets are remembered for a PTO, to notice that they were not.
    pub(super) fn prune(
        &self,
        space: &mut PacketNumberSpace,
        now: Instant,
        max_ack_delay: Duration,
    ) {
        space.sent.prune(now - (self.pto_base() + max_ack_delay));
    }

    /// Tokens of packets that had to make room in a full ring.
    pub(super) fn report_orphans(
        &self,
        space: &mut PacketNumberSpace,
        kind: SpaceKind,
        handler: &mut impl LossHandler,
    ) {
        for token in space.sent.take_orphans() {
            // Nothing tells where one orphan ends and the next begins: what a symbol carried is
            // simply sent again.
            if !matches!(token, Token::Symbol { .. } | Token::Repair { .. }) {
                handler.token_lost(kind, token);
            }
        }
    }
}
