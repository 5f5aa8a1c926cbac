//! What became of sent packets, and what follows from it.
//!
//! Purpose: turn acknowledgements and time into RTT samples, losses, probes, delivery rates and
//! events for the congestion controller.
//! Owns: [`Recovery`], one per path: [`RttEstimator`], loss detection with an adaptive packet
//! threshold, PTO, persistent congestion, spurious-loss detection, ECN validation, delivery-rate
//! samples, [`OneWayDelay`], bytes in flight, the path's congestion controller and pacer.
//! Does not own: the record of sent packets (`space/`, lent per call), what a lost frame needs
//! (each room, told through [`LossHandler`]), windows and rates (`congestion/`), MTU search and
//! amplification (`path/`).
//! Called by: `connection/`.
//! Spec: RFC 9002 with appendices A and B; RFC 9000 s13.4.2 and A.4 (ECN), s21.4 (optimistic
//! ACKs); draft-ietf-ccwg-bbr-06 s4.1 (delivery rate); draft-ietf-quic-receive-ts.
//! To add a variant: loss and timer rules are no policies; congestion controllers live in
//! `congestion/`.

mod acked;
mod ecn;
mod loss;
mod owd;
mod rate;
mod rtt;
mod threshold;
mod timer;

#[cfg(test)]
mod proptests;
#[cfg(test)]
mod test_path;
#[cfg(test)]
mod tests;

pub use owd::OneWayDelay;
pub use rtt::RttEstimator;

use std::time::Duration;

use crate::{
    config::TransportConfig,
    congestion::{
        CongestionController, ControllerContext, LostPacket, Pacer, RttView, SentEvent,
        SharedControllerFactory, fallback_rate, minimum_window,
    },
    observe::{EcnPhase, RecoveryMetrics},
    packet::Token,
    rng::Rng,
    space::{Fate, PacketNumberSpace, SentPacket, SpaceKind},
    time::Instant,
    units::{Ecn, PacketNumber, Rate},
};

use self::{ecn::EcnValidation, rate::DeliveryRate, threshold::ReorderingTolerance};

/// The probe timeout of a path nothing is known about. RFC 9002 s6.2.2.
pub(crate) const INITIAL_PTO: Duration = Duration::from_millis(333 + 4 * 333 / 2);
/// Timers cannot be trusted below this. RFC 9002 s6.1.2.
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);
/// Scratch memory above this many lost packets is given back after use.
const SCRATCH: usize = 32;

/// Why a packet was declared lost. RFC 9002 s6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossTrigger {
    /// Enough later packets were acknowledged.
    ReorderingThreshold,
    /// Enough time passed.
    TimeThreshold,
}

impl LossTrigger {
    /// The word used in qlog and counters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReorderingThreshold => "reordering_threshold",
            Self::TimeThreshold => "time_threshold",
        }
    }
}

/// The packet number spaces that share a path: on path 0 up to three, elsewhere one.
#[derive(Debug)]
pub struct Spaces<'a> {
    /// Initial, until discarded.
    pub initial: Option<&'a mut PacketNumberSpace>,
    /// Handshake, until discarded.
    pub handshake: Option<&'a mut PacketNumberSpace>,
    /// Application data.
    pub data: &'a mut PacketNumberSpace,
}

impl Spaces<'_> {
    fn get(&self, kind: SpaceKind) -> Option<&PacketNumberSpace> {
        match kind {
            SpaceKind::Initial => self.initial.as_deref(),
            SpaceKind::Handshake => self.handshake.as_deref(),
            SpaceKind::Data => Some(self.data),
        }
    }

    fn get_mut(&mut self, kind: SpaceKind) -> Option<&mut PacketNumberSpace> {
        match kind {
            SpaceKind::Initial => self.initial.as_deref_mut(),
            SpaceKind::Handshake => self.handshake.as_deref_mut(),
            SpaceKind::Data => Some(self.data),
        }
    }

    fn present(&self) -> impl Iterator<Item = (SpaceKind, &PacketNumberSpace)> {
        [SpaceKind::Initial, SpaceKind::Handshake, SpaceKind::Data]
            .into_iter()
            .filter_map(|kind| Some((kind, self.get(kind)?)))
    }
}

/// Who is told what became of packets and of what they carried.
///
/// A token may be reported lost and later acknowledged (the loss was spurious, or a probe
/// repeated it), and may be reported lost twice; rooms keep what is acknowledged acknowledged.
pub trait LossHandler {
    /// What this token stands for arrived.
    fn token_acked(&mut self, kind: SpaceKind, token: Token);
    /// What this token stands for must be sent again, if it still matters.
    fn token_lost(&mut self, kind: SpaceKind, token: Token);
    /// A packet was acknowledged for the first time, maybe after it was declared lost.
    fn packet_acked(&mut self, _kind: SpaceKind, _number: PacketNumber, _packet: &SentPacket) {}
    /// A packet was declared lost.
    fn packet_lost(
        &mut self,
        _kind: SpaceKind,
        _number: PacketNumber,
        _packet: &SentPacket,
        _trigger: LossTrigger,
    ) {
    }
    /// An MTU probe of this size arrived.
    fn mtu_probe_acked(&mut self, _bytes: u16) {}
    /// An MTU probe of this size was lost.
    fn mtu_probe_lost(&mut self, _bytes: u16) {}
}

/// A packet that is leaving.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingPacket {
    /// Its number, from [`PacketNumberSpace::take_packet_number`].
    pub number: PacketNumber,
    /// Its size in bytes of UDP payload.
    pub bytes: u16,
    /// Whether it carries an ack-eliciting frame.
    pub ack_eliciting: bool,
    /// Whether it counts towards bytes in flight.
    pub in_flight: bool,
    /// Whether it probes for a larger MTU.
    pub mtu_probe: bool,
    /// The mark of its datagram.
    pub ecn: Ecn,
    /// Whether it is a PTO probe.
    pub probe: bool,
}

/// What [`Recovery::on_ack`] needs to know beside the frame.
#[derive(Clone, Copy, Debug)]
pub struct AckContext {
    /// When the ACK arrived.
    pub now: Instant,
    /// The frame's ACK Delay, scaled by the peer's exponent.
    pub ack_delay: Duration,
    /// The peer's max_ack_delay, or the longest asked of it by ACK_FREQUENCY.
    pub peer_max_ack_delay: Duration,
    /// Whether the handshake is confirmed. RFC 9001 s4.1.2.
    pub handshake_confirmed: bool,
    /// Whether the peer is known to have validated our address: always on a server; on a client
    /// once a Handshake packet is acknowledged or the handshake is confirmed. RFC 9002 A.6.
    pub peer_completed_address_validation: bool,
    /// The exponent we announced for receive timestamps.
    pub timestamps_exponent: u8,
}

/// What an ACK frame changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckSummary {
    /// Whether it acknowledged a packet for the first time.
    pub newly_acked: bool,
    /// The largest of those.
    pub largest_newly_acked: Option<PacketNumber>,
    /// When that one left.
    pub largest_newly_acked_sent: Option<Instant>,
    /// The RTT sample taken, not adjusted by ACK Delay.
    pub rtt_sample: Option<Duration>,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Losses found spurious.
    pub spurious_losses: u64,
    /// Whether persistent congestion was established.
    pub persistent_congestion: bool,
    /// New CE marks reported.
    pub ce_marks: u64,
    /// The new state of ECN validation, where it changed.
    pub ecn_changed: Option<EcnPhase>,
}

/// What [`Recovery::timer`] and [`Recovery::on_timeout`] need to know.
#[derive(Clone, Copy, Debug)]
pub struct TimerContext {
    /// Whether the handshake is confirmed; before, application data arms no PTO.
    pub handshake_confirmed: bool,
    /// See [`AckContext::peer_completed_address_validation`].
    pub peer_completed_address_validation: bool,
    /// Whether we have keys to send Handshake packets.
    pub has_handshake_keys: bool,
    /// Whether a server has used up its anti-amplification credit.
    pub amplification_blocked: bool,
    /// The peer's max_ack_delay, or the longest asked of it by ACK_FREQUENCY.
    pub max_ack_delay: Duration,
}

/// What a timeout calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerAction {
    /// Packets were declared lost; what they carried waits to be sent.
    LossDetected,
    /// Send this many ack-eliciting packets in this space, whatever the window says.
    Probe {
        /// Where.
        kind: SpaceKind,
        /// How many.
        packets: u8,
    },
    /// The timer was early.
    Nothing,
}

/// Counters of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryStats {
    /// Packets sent.
    pub packets_sent: u64,
    /// Bytes of UDP payload sent.
    pub bytes_sent: u64,
    /// Packets acknowledged.
    pub packets_acked: u64,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Bytes declared lost.
    pub bytes_lost: u64,
    /// Of the lost packets, those acknowledged after all.
    pub spurious_losses: u64,
    /// MTU probes lost; not among the lost packets.
    pub mtu_probes_lost: u64,
    /// Probe timeouts.
    pub ptos: u64,
    /// Times persistent congestion was established.
    pub persistent_congestions: u64,
    /// Loss events told to the congestion controller.
    pub loss_events: u64,
    /// CE marks reported by the peer.
    pub ce_marks: u64,
}

/// Loss detection, congestion control and pacing of one path.
///
/// Path 0 serves the Initial and Handshake spaces too. All byte counts are UDP payload.
#[derive(Debug)]
pub struct Recovery {
    rtt: RttEstimator,
    rate: DeliveryRate,
    tolerance: ReorderingTolerance,
    ecn: EcnValidation,
    owd: OneWayDelay,
    controller: Box<dyn CongestionController>,
    pacer: Pacer,
    factory: SharedControllerFactory,
    rng: Rng,
    mtu: u16,
    pacing: bool,
    initial_window_packets: u32,
    persistent_threshold: u32,
    max_window: u64,
    bytes_in_flight: u64,
    pto_count: u32,
    /// Where a PTO without anything in flight counts from.
    timer_anchor: Instant,
    /// When the newest acknowledged packet of each space left.
    newest_acked_sent: [Option<Instant>; 3],
    /// Packets sent before this say nothing about persistent congestion.
    first_rtt_sample: Option<Instant>,
    /// Counts network paths; packets of old ones are none of the controller's business.
    epoch: u8,
    /// Whether anything was sent since the start of this network path.
    started: bool,
    /// Whether the application has left the window unused since it was last full.
    app_limited: bool,
    /// Whether the controller is in slow start; paces faster.
    slow_start: bool,
    /// Packets of the loss under report.
    lost_scratch: Vec<LostPacket>,
    stats: RecoveryStats,
}

impl Recovery {
    /// Recovery of a new path. `mtu`: bytes of a full datagram.
    pub fn new(now: Instant, config: &TransportConfig, mtu: u16, rng: Rng) -> Self {
        let mut rng = rng;
        let controller = build_controller(
            &config.congestion,
            now,
            mtu,
            config.initial_window_packets,
            config.initial_rtt,
            &mut rng,
        );
        let mut recovery = Self {
            rtt: RttEstimator::new(config.initial_rtt),
            rate: DeliveryRate::new(now),
            tolerance: ReorderingTolerance::new(
                config.packet_threshold,
                config.max_packet_threshold,
                config.time_threshold,
            ),
            ecn: EcnValidation::new(config.ecn),
            owd: OneWayDelay::default(),
            controller,
            pacer: Pacer::new(now, u64::from(mtu)),
            factory: config.congestion.clone(),
            rng,
            mtu,
            pacing: config.pacing,
            initial_window_packets: config.initial_window_packets,
            persistent_threshold: config.persistent_congestion_threshold,
            max_window: (config.limits.sent_packets as u64).saturating_mul(u64::from(mtu)),
            bytes_in_flight: 0,
            pto_count: 0,
            timer_anchor: now,
            newest_acked_sent: [None; 3],
            first_rtt_sample: None,
            epoch: 0,
            started: false,
            app_limited: false,
            slow_start: true,
            lost_scratch: Vec::new(),
            stats: RecoveryStats::default(),
        };
        recovery.note_controller_state();
        recovery
    }

    /// Round-trip times.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// One-way delay towards the peer, as far as it reports receive timestamps.
    pub fn one_way_delay(&self) -> &OneWayDelay {
        &self.owd
    }

    /// Bytes sent and neither acknowledged nor lost.
    pub fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// Bytes that may be in flight: the controller's window held within two datagrams and what
    /// `Limits::sent_packets` full datagrams are.
    pub fn window(&self) -> u64 {
        let floor = minimum_window(u64::from(self.mtu));
        self.controller.window().clamp(floor, self.max_window.max(floor))
    }

    /// The congestion controller, to look at.
    pub fn congestion(&self) -> &dyn CongestionController {
        self.controller.as_ref()
    }

    /// Bytes delivered on this network path.
    pub fn delivered(&self) -> u64 {
        self.rate.delivered()
    }

    /// Bytes lost on this network path.
    pub fn lost(&self) -> u64 {
        self.rate.lost()
    }

    /// Counters since the path began.
    pub fn stats(&self) -> RecoveryStats {
        self.stats
    }

    /// Probe timeouts in a row without an acknowledgement.
    pub fn pto_count(&self) -> u32 {
        self.pto_count
    }

    /// Reordering in packets tolerated now.
    pub fn packet_threshold(&self) -> u64 {
        u64::from(self.tolerance.packets())
    }

    /// The numbers for events.
    pub fn metrics(&self) -> RecoveryMetrics {
        let controller = self.controller.metrics();
        RecoveryMetrics {
            min_rtt: self.rtt.min(),
            smoothed_rtt: self.rtt.smoothed(),
            latest_rtt: self.rtt.latest(),
            rtt_variance: self.rtt.variance(),
            pto_count: self.pto_count,
            window: self.window(),
            bytes_in_flight: self.bytes_in_flight,
            slow_start_threshold: controller.slow_start_threshold,
            pacing_rate: self.pacing.then(|| self.pacing_rate()),
            bandwidth: controller.bandwidth,
            packet_threshold: self.tolerance.packets(),
        }
    }

    /// Whether the window has room for `bytes` more.
    pub fn can_send(&self, bytes: u64) -> bool {
        self.bytes_in_flight.saturating_add(bytes) <= self.window()
    }

    /// When the pacer lets `bytes` leave; `None` means now.
    pub fn next_send_time(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        if !self.paces() {
            return None;
        }
        let rate = self.pacing_rate();
        self.pacer.next_send_time(now, bytes, rate)
    }

    /// Bytes that should leave in one batch.
    pub fn send_quantum(&self, _now: Instant) -> u64 {
        let mtu = u64::from(self.mtu);
        if !self.paces() {
            return self.initial_window().max(mtu);
        }
        self.pacer.batch_bytes(self.pacing_rate(), self.controller.send_quantum(), mtu)
    }

    /// Before the first RTT sample there is nothing to pace by; the initial window bounds the
    /// burst. RFC 9002 s7.7.
    fn paces(&self) -> bool {
        self.pacing && (self.rtt.has_sample() || self.controller.pacing_rate().is_some())
    }

    fn initial_window(&self) -> u64 {
        u64::from(self.initial_window_packets) * u64::from(self.mtu)
    }

    fn pacing_rate(&self) -> Rate {
        self.controller
            .pacing_rate()
            .unwrap_or_else(|| fallback_rate(self.window(), self.rtt.smoothed(), self.slow_start))
    }

    /// The mark for the next packet. RFC 9000 s13.4.
    pub fn ecn_mark(&self) -> Ecn {
        self.ecn.mark()
    }

    /// How far ECN validation got.
    pub fn ecn_phase(&self) -> EcnPhase {
        self.ecn.phase()
    }

    /// A packet leaves. `tokens`, what it carries, are drained.
    pub fn on_packet_sent(
        &mut self,
        space: &mut PacketNumberSpace,
        _kind: SpaceKind,
        now: Instant,
        packet: OutgoingPacket,
        tokens: &mut Vec<Token>,
    ) {
        let bytes = u64::from(packet.bytes);
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += bytes;
        if packet.in_flight {
            if self.bytes_in_flight == 0 && self.started {
                self.controller.on_restart_from_idle(now);
            }
            self.rate.on_send(now, self.bytes_in_flight == 0);
            self.bytes_in_flight += bytes;
            self.started = true;
        }
        let snapshot = self.rate.snapshot(self.bytes_in_flight);
        let mut sent = SentPacket::new(now, packet.bytes, self.epoch, snapshot);
        sent.ack_eliciting = packet.ack_eliciting;
        sent.in_flight = packet.in_flight;
        sent.mtu_probe = packet.mtu_probe;
        sent.probe = packet.probe;
        sent.ecn = packet.ecn;
        sent.app_limited = self.rate.is_app_limited();
        if let Some(evicted) = space.sent.push(packet.number, sent, tokens) {
            self.take_off(&evicted);
        }
        if packet.ack_eliciting {
            space.last_eliciting_sent = Some(now);
            space.sent_without_eliciting = 0;
            self.timer_anchor = now;
        } else {
            space.sent_without_eliciting = space.sent_without_eliciting.saturating_add(1);
        }
        self.ecn.on_sent(&mut space.peer_ecn, packet.ecn, now, self.rtt.pto_base());
        if !packet.in_flight {
            return;
        }
        if self.bytes_in_flight.saturating_add(u64::from(self.mtu)) > self.window() {
            self.app_limited = false;
        }
        self.controller.on_sent(&SentEvent::new(
            now,
            packet.number,
            bytes,
            self.bytes_in_flight,
            self.app_limited,
        ));
        if self.paces() {
            let rate = self.pacing_rate();
            self.pacer.on_sent(now, bytes, rate);
        }
    }

    /// The pump ran dry although window and pacer allow more.
    pub fn set_app_limited(&mut self, _now: Instant) {
        if self.can_send(u64::from(self.mtu)) {
            self.app_limited = true;
            self.rate.set_app_limited(self.bytes_in_flight);
        }
    }

    /// The size of a full datagram changed.
    pub fn on_mtu(&mut self, mtu: u16) {
        if mtu == self.mtu {
            return;
        }
        self.mtu = mtu;
        self.max_window = self.max_window.max(minimum_window(u64::from(mtu)));
        self.controller.on_mtu(u64::from(mtu));
        self.pacer.on_mtu(u64::from(mtu));
        self.note_controller_state();
    }

    /// The keys of a space are gone: nothing in it counts any more. RFC 9002 A.11.
    pub fn discard_space(&mut self, space: &mut PacketNumberSpace) {
        self.forget_in_flight(space);
        self.pto_count = 0;
    }

    /// Takes every packet of `space` out of flight and forgets it, without a word to anybody.
    pub fn forget_in_flight(&mut self, space: &mut PacketNumberSpace) {
        let in_flight: u64 = space
            .sent
            .outstanding()
            .filter(|(_, packet)| packet.in_flight && packet.epoch == self.epoch)
            .map(|(_, packet)| u64::from(packet.bytes))
            .sum();
        debug_assert!(in_flight <= self.bytes_in_flight, "bytes in flight are exact");
        self.bytes_in_flight = self.bytes_in_flight.saturating_sub(in_flight);
        space.sent.clear();
        space.loss_time = None;
        space.last_eliciting_sent = None;
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
        for token in space.sent.take_orphans() {
            handler.token_lost(kind, token);
        }
        for (_, packet) in space.sent.outstanding() {
            for token in space.sent.tokens_of(packet) {
                handler.token_lost(kind, token);
            }
        }
        self.forget_in_flight(space);
    }

    /// The path's addresses changed: RTT, congestion control, pacing and ECN start anew, and
    /// packets sent before say nothing about the new network path. RFC 9000 s9.4.
    pub fn reset_for_new_network_path(&mut self, now: Instant) {
        self.epoch = self.epoch.wrapping_add(1);
        self.rtt = RttEstimator::new(self.rtt.initial());
        self.rate = DeliveryRate::new(now);
        self.owd = OneWayDelay::default();
        self.ecn.restart();
        self.tolerance.restart();
        self.controller = build_controller(
            &self.factory,
            now,
            self.mtu,
            self.initial_window_packets,
            self.rtt.initial(),
            &mut self.rng,
        );
        self.pacer = Pacer::new(now, u64::from(self.mtu));
        self.bytes_in_flight = 0;
        self.pto_count = 0;
        self.timer_anchor = now;
        self.newest_acked_sent = [None; 3];
        self.first_rtt_sample = None;
        self.started = false;
        self.app_limited = false;
        self.note_controller_state();
    }

    /// Takes a packet out of flight, if it was in flight on this network path.
    fn take_off(&mut self, packet: &SentPacket) -> u64 {
        if !packet.in_flight || packet.epoch != self.epoch || packet.fate != Fate::Outstanding {
            return 0;
        }
        let bytes = u64::from(packet.bytes);
        debug_assert!(bytes <= self.bytes_in_flight, "bytes in flight are exact");
        self.bytes_in_flight = self.bytes_in_flight.saturating_sub(bytes);
        bytes
    }

    fn rtt_view(&self) -> RttView {
        RttView {
            latest: self.rtt.latest(),
            smoothed: self.rtt.smoothed(),
            min: self.rtt.min(),
        }
    }

    /// Keeps what the pacer asks of the controller for every packet.
    fn note_controller_state(&mut self) {
        let metrics = self.controller.metrics();
        self.slow_start =
            metrics.slow_start_threshold.is_none_or(|threshold| metrics.window < threshold);
    }
}

fn build_controller(
    factory: &SharedControllerFactory,
    now: Instant,
    mtu: u16,
    initial_window_packets: u32,
    initial_rtt: Duration,
    rng: &mut Rng,
) -> Box<dyn CongestionController> {
    let mtu = u64::from(mtu);
    // RFC 9002 s7.2: ten datagrams, but no more than 14,720 bytes unless two are more.
    let packets = u64::from(initial_window_packets);
    let window = (packets * mtu).min((packets * 1472).max(2 * mtu));
    factory.build(ControllerContext::new(now, mtu, window, initial_rtt, rng.fork()))
}
