//! What became of sent packets, and what follows from it.
//!
//! Purpose: turn acknowledgements and time into RTT samples, losses, probes, delivery rates and
//! events for the congestion controller.
//! Owns: [`Recovery`], one per path: [`RttEstimator`] by the path that brings acknowledgements, loss detection with an adaptive packet
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
mod capacity;
mod context;
mod echo;
mod ecn;
mod flight;
mod loss;
mod owd;
mod queue;
mod rate;
mod reset;
mod returns;
mod rtt;
mod sending;
mod threshold;
mod timer;
mod waits;

#[cfg(test)]
mod proptests;
#[cfg(test)]
mod test_path;
#[cfg(test)]
mod tests;

pub(crate) use context::PeerAcks;
pub use context::{
    AckContext, AckSummary, LossHandler, LossTrigger, OutgoingPacket, RecoveryStats, Spaces,
    TimerAction, TimerContext,
};
pub use owd::OneWayDelay;
pub use rtt::RttEstimator;
pub(crate) use timer::Overdue;
pub use waits::Standstill;

use std::time::Duration;

use crate::{
    ack::AckRequest,
    config::TransportConfig,
    congestion::{
        CongestionController, ControllerContext, LostPacket, Pacer, RttView,
        SharedControllerFactory, SiblingView, initial_window, minimum_window,
    },
    observe::RecoveryMetrics,
    rng::Rng,
    space::{Fate, SentPacket, SpaceKind},
    time::Instant,
    units::{PacketNumber, PathId, Rate},
};

use self::{
    capacity::Capacity,
    ecn::EcnValidation,
    queue::RoundTrips,
    rate::DeliveryRate,
    returns::{ReturnPaths, Taken},
    threshold::ReorderingTolerance,
};

/// The probe timeout of a path nothing is known about. RFC 9002 s6.2.2.
pub(crate) const INITIAL_PTO: Duration = Duration::from_millis(333 + 4 * 333 / 2);

/// Timers cannot be trusted below this. RFC 9002 s6.1.2.
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);
/// Scratch memory above this many lost packets is given back after use.
const SCRATCH: usize = 32;

/// Loss detection, congestion control and pacing of one path.
///
/// Path 0 serves the Initial and Handshake spaces too. All byte counts are UDP payload.
#[derive(Debug)]
pub struct Recovery {
    /// By the way that most acknowledgements take.
    rtt: RttEstimator,
    returns: ReturnPaths,
    rate: DeliveryRate,
    capacity: Capacity,
    tolerance: ReorderingTolerance,
    ecn: EcnValidation,
    owd: OneWayDelay,
    controller: Box<dyn CongestionController>,
    pacer: Pacer,
    factory: SharedControllerFactory,
    rng: Rng,
    mtu: u16,
    pacing: bool,
    /// The pacer's rate at least: what deadlines ask for.
    least_rate: Rate,
    /// Nothing leaves faster than the path delivers.
    evenly: bool,
    initial_window_packets: u32,
    persistent_threshold: u32,
    max_window: u64,
    bytes_in_flight: u64,
    /// The same of packets to other addresses than the path's, which have a window of their own.
    off_path_in_flight: u64,
    pto_count: u32,
    /// When the newest probe timeout expired.
    last_pto: Option<Instant>,
    /// Where a PTO without anything in flight counts from.
    timer_anchor: Instant,
    /// When packets were acknowledged last.
    acked_at: Instant,
    /// When the newest acknowledged packet of each space left.
    newest_acked_sent: [Option<Instant>; 3],
    /// Packets sent before this say nothing about persistent congestion.
    first_rtt_sample: Option<Instant>,
    /// The number after the last packet sent, by space.
    next_number: [PacketNumber; 3],
    /// The first packet of each space that was sent on this network path: what came before is none
    /// of the controller's business. RFC 9000 s9.4.
    first_number: [PacketNumber; 3],
    /// Whether anything was sent since the start of this network path.
    started: bool,
    /// Whether the application has left the window unused since it was last full.
    app_limited: bool,
    /// Bytes in flight when the packets of the two newest round-trip samples left.
    sampled_in_flight: [u64; 2],
    waits: waits::Waits,
    /// Whether the controller is in slow start; paces faster.
    slow_start: bool,
    /// What we asked of the peer's acknowledgements.
    ack_request: Option<AckRequest>,
    /// Packets of the loss under report.
    lost_scratch: Vec<LostPacket>,
    /// Of the lost packets, those lost where nothing told of a queue.
    lost_without_queue: u64,
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
            config.pacing,
            &mut rng,
        );
        let mut recovery = Self {
            rtt: RttEstimator::new(config.initial_rtt),
            returns: ReturnPaths::default(),
            rate: DeliveryRate::new(now),
            capacity: Capacity::default(),
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
            least_rate: Rate::ZERO,
            evenly: false,
            initial_window_packets: config.initial_window_packets,
            persistent_threshold: config.persistent_congestion_threshold,
            max_window: (config.limits.sent_packets as u64).saturating_mul(u64::from(mtu)),
            bytes_in_flight: 0,
            off_path_in_flight: 0,
            pto_count: 0,
            last_pto: None,
            timer_anchor: now,
            acked_at: now,
            newest_acked_sent: [None; 3],
            first_rtt_sample: None,
            next_number: [0; 3],
            first_number: [0; 3],
            started: false,
            app_limited: false,
            sampled_in_flight: [0; 2],
            waits: waits::Waits::default(),
            slow_start: true,
            ack_request: None,
            lost_scratch: Vec::new(),
            lost_without_queue: 0,
            stats: RecoveryStats::default(),
        };
        recovery.note_controller_state();
        recovery
    }

    /// Round-trip times: there on this path, back by [`Self::returned_by`].
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// The path that brings most acknowledgements of this one; `None` before the first sample.
    pub fn returned_by(&self) -> Option<PathId> {
        self.returns.current()
    }

    /// Round-trip times with acknowledgements by path `by`; `None` if there is no sample.
    pub fn rtt_by(&self, by: PathId) -> Option<&RttEstimator> {
        if self.returns.current() == Some(by) {
            return Some(&self.rtt);
        }
        self.returns.parked(by)
    }

    /// A probe timeout without max_ack_delay and backoff, for the slowest of the ways that the next
    /// acknowledgement may take.
    pub fn pto_base(&self) -> Duration {
        pto_base(&self.rtt, &self.returns)
    }

    /// What a packet that others overtook is given to arrive, before reordering is tolerated: the longest
    /// of the round trips that the newest acknowledgements took.
    fn overtaking_rtt(&self) -> Duration {
        let longest = |rtt: &RttEstimator| rtt.latest().max(rtt.smoothed());
        let other = self.returns.fresh().map(longest).max();
        longest(&self.rtt).max(other.unwrap_or_default())
    }

    /// The shortest round trip there has been, by whatever way back.
    fn shortest_rtt(&self) -> Option<Duration> {
        let others = self.returns.all_parked().map(RttEstimator::min);
        let known = self.rtt.has_sample().then(|| self.rtt.min());
        others.chain(known).min()
    }

    /// An answer that must come back on this path itself, `id`, took `sample`.
    pub(crate) fn on_own_round_trip(&mut self, now: Instant, id: PathId, sample: Duration) {
        self.take_sample(now, id, sample, Duration::ZERO);
    }

    /// Until the first sample, `estimate` stands in.
    pub(crate) fn assume_rtt(&mut self, estimate: Duration) {
        self.rtt.assume(estimate);
    }

    /// Path `by` leads another way from now on: what was learned of acknowledgements by it is over.
    pub(crate) fn on_return_path_moved(&mut self, by: PathId) {
        if self.returns.forget(by) {
            self.rtt.restart_min();
        }
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
        self.controller
            .window()
            .clamp(floor, self.max_window.max(floor))
    }

    /// Whether the window was below its slow start threshold, or start-up not over, when acknowledgements last
    /// changed it.
    pub fn is_slow_start(&self) -> bool {
        self.slow_start
    }

    /// The congestion controller, to look at.
    pub fn congestion(&self) -> &dyn CongestionController {
        self.controller.as_ref()
    }

    /// Whether the application has left the window unused since it was last full.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited
    }

    /// Bytes of the congestion window that are in use: all of it, unless the application has left some.
    pub fn used_window(&self) -> u64 {
        if self.app_limited {
            self.bytes_in_flight.min(self.window())
        } else {
            self.window()
        }
    }

    /// How the connection's working paths do, this one as `own`.
    pub(crate) fn on_siblings(&mut self, own: &SiblingView, siblings: &[SiblingView]) {
        self.controller.on_siblings(own, siblings);
    }

    /// Bytes delivered on this network path.
    pub fn delivered(&self) -> u64 {
        self.rate.delivered()
    }

    /// Bytes lost on this network path.
    pub fn lost(&self) -> u64 {
        self.rate.lost()
    }

    /// Bytes in flight when the packets left whose round trips are the newest: the less of two.
    pub fn sampled_in_flight(&self) -> u64 {
        let [newest, before] = self.sampled_in_flight;
        newest.min(before)
    }

    /// How the path stands still now and then.
    pub fn standstill(&self, now: Instant) -> Standstill {
        self.waits.standstill(now)
    }

    /// Computes what [`Self::standstill`] says for a while from now on.
    pub(crate) fn look_at_standstills(&mut self, now: Instant) {
        self.waits.look(now);
    }

    /// The same, if that is frequent.
    pub(crate) fn frequent_standstill(&self, now: Instant) -> Option<Standstill> {
        let standstill = self.waits.any().then(|| self.standstill(now));
        standstill.filter(Standstill::is_frequent)
    }

    /// How fast the path delivered while a queue stood before its bottleneck, if one did and nothing has
    /// shown since that it does more.
    pub fn capacity(&self) -> Option<Rate> {
        self.capacity.known()
    }

    /// Packets lost where neither round trips nor what was in flight told of a queue: what the path loses
    /// by itself, not what our own data makes it drop.
    pub fn lost_without_queue(&self) -> u64 {
        self.lost_without_queue
    }

    /// For how many round trips more has been in flight than the path holds, as far as its capacity is known.
    pub fn rounds_exceeded(&self) -> u32 {
        self.capacity.rounds_exceeded()
    }

    /// Bytes in flight beyond which the path's queue drops packets, if it did so lately.
    pub fn overflow(&self, now: Instant) -> Option<u64> {
        self.capacity.overflow(now)
    }

    /// The most bytes that were delivered within a round trip on this network path.
    pub fn most_passed(&self) -> u64 {
        self.capacity.most_passed()
    }

    /// The longest round trip that may be chance: longer ones tell of a queue.
    pub fn longest_without_queue(&self) -> Duration {
        self.capacity.signs().longest_without(self.rtt.min())
    }

    /// Whether the path's queue is full for certain: it dropped more at once than chance does, and round trips tell of it
    /// still.
    pub fn queue_is_full(&self, now: Instant) -> bool {
        self.capacity.has_overflowed(now) && self.capacity.signs().tell_of_queue(self.round_trips())
    }

    fn round_trips(&self) -> RoundTrips {
        RoundTrips {
            min: self.rtt.min(),
            recent: self.rtt.recent(),
            longer: self.rtt.longer(),
        }
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
            one_way_delay: self.owd.smoothed(),
            one_way_delay_variation: self.owd.variation(),
        }
    }

    /// The size of a full datagram changed.
    pub fn on_mtu(&mut self, mtu: u16) {
        if mtu == self.mtu {
            return;
        }
        self.mtu = mtu;
        self.max_window = self.max_window.max(minimum_window(u64::from(mtu)));
        if self.rate.lost() == 0 {
            let initial_window = self.initial_window();
            self.controller.on_initial_window(initial_window);
        }
        self.controller.on_mtu(u64::from(mtu));
        self.pacer.on_mtu(u64::from(mtu));
        self.note_controller_state();
    }

    /// The peer is asked to acknowledge in this way from now on, on this network path and others
    /// to come.
    pub fn on_ack_request(&mut self, request: AckRequest) {
        self.ack_request = Some(request);
        self.controller.on_ack_request(&request);
    }

    /// Puts a sample where it belongs. What it is, or would have been, by the way back in use.
    fn take_sample(
        &mut self,
        now: Instant,
        by: PathId,
        sample: Duration,
        ack_delay: Duration,
    ) -> Option<Duration> {
        self.first_rtt_sample.get_or_insert(now);
        let at_once = self.pto_count > 0;
        let taken = self
            .returns
            .take(&mut self.rtt, by, sample, ack_delay, at_once);
        match taken {
            Taken::Current => Some(self.rtt.latest()),
            Taken::Aside { as_usual } => as_usual,
            Taken::Changed { before } => {
                let after = self.rtt.min();
                self.controller.on_return_path(now, before, after);
                self.note_controller_state();
                Some(self.rtt.latest())
            }
        }
    }

    /// Takes a packet out of flight, if it was in flight on this network path.
    fn take_off(&mut self, kind: SpaceKind, number: PacketNumber, packet: &SentPacket) -> u64 {
        if packet.off_path && packet.fate == Fate::Outstanding {
            let bytes = u64::from(packet.bytes);
            self.off_path_in_flight = self.off_path_in_flight.saturating_sub(bytes);
            return 0;
        }
        if !packet.in_flight || !self.is_current(kind, number) || packet.fate != Fate::Outstanding {
            return 0;
        }
        let bytes = u64::from(packet.bytes);
        debug_assert!(bytes <= self.bytes_in_flight, "bytes in flight are exact");
        self.bytes_in_flight = self.bytes_in_flight.saturating_sub(bytes);
        bytes
    }

    /// Whether a packet was sent on this network path.
    fn is_current(&self, kind: SpaceKind, number: PacketNumber) -> bool {
        let first = self.first_number.get(kind as usize);
        first.is_some_and(|first| number >= *first)
    }

    /// The view with this newest sample, which another way back may have brought: then it is no
    /// sample of the estimator, and is taken as it is.
    fn rtt_view_with(&self, sample: Option<Duration>) -> RttView {
        let view = self.rtt_view();
        match sample {
            Some(latest) if latest != view.latest => RttView {
                latest,
                adjusted: latest,
                ..view
            },
            _ => view,
        }
    }

    fn rtt_view(&self) -> RttView {
        RttView {
            latest: self.rtt.latest(),
            adjusted: self.rtt.newest(),
            smoothed: self.rtt.smoothed(),
            min: self.rtt.min(),
        }
    }

    /// Keeps what the pacer asks of the controller for every packet.
    fn note_controller_state(&mut self) {
        let metrics = self.controller.metrics();
        let threshold = metrics.slow_start_threshold;
        self.slow_start =
            !metrics.filled_pipe && threshold.is_none_or(|threshold| metrics.window < threshold);
    }
}

fn pto_base(rtt: &RttEstimator, returns: &ReturnPaths) -> Duration {
    if returns.is_single() {
        return rtt.pto_base();
    }
    let other = returns.expected().map(RttEstimator::pto_base);
    rtt.pto_base().max(other.max().unwrap_or_default())
}

fn build_controller(
    factory: &SharedControllerFactory,
    now: Instant,
    mtu: u16,
    initial_window_packets: u32,
    initial_rtt: Duration,
    paced: bool,
    rng: &mut Rng,
) -> Box<dyn CongestionController> {
    let mtu = u64::from(mtu);
    let window = initial_window(initial_window_packets, mtu);
    let mut context = ControllerContext::new(now, mtu, window, initial_rtt, rng.fork());
    context.paced = paced;
    factory.build(context)
}
