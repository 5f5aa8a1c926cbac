//! How much may be in flight, and how fast it may leave.
//!
//! Purpose: the [`CongestionController`] policy, its built-in implementations, and the [`Pacer`].
//! Owns: windows, pacing rates, round counting, model state. One controller per path.
//! Does not own: bytes in flight, RTT, loss detection and delivery-rate samples (`recovery/`);
//! MTU discovery (`path/`).
//! Called by: `recovery/`, which turns acknowledgements and losses into events.
//! Spec: RFC 9002 s7, RFC 9438, RFC 9406, RFC 6356, draft-ietf-ccwg-bbr-06 and its
//! forerunners. `docs/congestion.md` compares them.
//! To add a variant: one file here and one line in `registry.rs`.

mod bbr;
mod bbr1;
mod bbr2;
mod conserve;
mod coupled;
mod cubic;
mod hystart;
mod ignore_loss;
mod initial_window;
mod newreno;
mod pacer;
pub mod registry;
mod window_use;

#[cfg(test)]
mod contract_tests;
#[cfg(test)]
mod test_link;

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    ack::AckRequest,
    rng::Rng,
    time::Instant,
    units::{PacketNumber, Rate},
};

pub use bbr::{Bbr3Factory, Bbr3TautFactory, TautRules};
pub use bbr1::Bbr1Factory;
pub use bbr2::Bbr2Factory;
pub use coupled::{
    BaliaFactory, Coupling, DelayRecord, Kinship, LiaFactory, OliaFactory, SharedBottlenecks,
    SiblingView,
};
pub use cubic::{CubicConfig, CubicFactory};
pub use ignore_loss::IgnoreLossFactory;
pub(crate) use initial_window::{USUAL_PACKETS, initial_window};
pub use newreno::NewRenoFactory;
pub use pacer::{Pacer, fallback_rate};

/// Below this no controller goes: two datagrams. RFC 9002 s7.2.
pub(crate) const fn minimum_window(mtu: u64) -> u64 {
    mtu.saturating_mul(2)
}

/// What a new controller is told about its path.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerContext {
    /// When the path starts.
    pub now: Instant,
    /// Bytes of UDP payload in a full datagram.
    pub mtu: u64,
    /// Initial congestion window in bytes.
    pub initial_window: u64,
    /// The RTT assumed before the first sample.
    pub initial_rtt: Duration,
    /// Whether packets are paced.
    pub paced: bool,
    /// Randomness of the controller's own.
    pub rng: Rng,
}

impl ControllerContext {
    /// A context of a path with pacing, with every other field given.
    pub fn new(
        now: Instant,
        mtu: u64,
        initial_window: u64,
        initial_rtt: Duration,
        rng: Rng,
    ) -> Self {
        Self {
            now,
            mtu,
            initial_window,
            initial_rtt,
            paced: true,
            rng,
        }
    }
}

/// The path's round-trip times, as `recovery/` estimates them.
#[derive(Clone, Copy, Debug)]
pub struct RttView {
    /// The newest sample.
    pub latest: Duration,
    /// That sample without the time for which the peer held its acknowledgement back (adjusted_rtt,
    /// RFC 9002 s5.3): what tells of the queue.
    pub adjusted: Duration,
    /// Exponentially smoothed.
    pub smoothed: Duration,
    /// The smallest sample of the path's life (RFC 9002 s5.2; not a windowed minimum).
    pub min: Duration,
}

/// A delivery-rate sample. draft-ietf-ccwg-bbr-06 s4.1 (delivery rate estimation).
#[derive(Clone, Copy, Debug)]
pub struct RateSample {
    /// Bytes delivered over `interval`.
    pub delivered: u64,
    /// `max(send elapsed, ack elapsed)` of the sampled packet.
    pub interval: Duration,
    /// `delivered / interval`.
    pub delivery_rate: Rate,
    /// `delivered / send elapsed`: how fast it left. What is delivered no faster than it left says nothing
    /// about what the path could deliver.
    pub send_rate: Rate,
    /// Whether the sampled packet was sent while the application had too little to send.
    pub app_limited: bool,
    /// The connection's delivered count when the sampled packet left; round counting rests on it.
    pub prior_delivered: u64,
    /// Bytes lost between the sampled packet's departure and now.
    pub lost: u64,
    /// Bytes in flight right after the sampled packet left, itself included.
    pub tx_in_flight: u64,
}

/// A packet left.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SentEvent {
    /// When.
    pub now: Instant,
    /// Which.
    pub packet_number: PacketNumber,
    /// Its size in bytes of UDP payload.
    pub bytes: u64,
    /// Bytes in flight, this packet included.
    pub bytes_in_flight: u64,
    /// Whether the application ran out of data (not the window, not the pacer).
    pub app_limited: bool,
}

/// An acknowledgement arrived that newly acknowledges in-flight packets.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AckEvent {
    /// When.
    pub now: Instant,
    /// In-flight bytes newly acknowledged by this ACK frame.
    pub acked_bytes: u64,
    /// In-flight packets newly acknowledged by this ACK frame.
    pub acked_packets: u64,
    /// The largest newly acknowledged packet number.
    pub largest_acked: PacketNumber,
    /// When that packet left.
    pub largest_acked_sent: Instant,
    /// The next packet number this path will send; rounds end when it is acknowledged.
    pub next_packet_number: PacketNumber,
    /// Whether `rtt.latest` is a sample taken from this very acknowledgement.
    pub has_rtt_sample: bool,
    /// Round-trip times after this acknowledgement.
    pub rtt: RttView,
    /// Bytes in flight before this acknowledgement (and losses found with it) were taken off.
    pub prior_in_flight: u64,
    /// Bytes in flight now.
    pub bytes_in_flight: u64,
    /// Bytes delivered on the path so far, these included.
    pub delivered: u64,
    /// Bytes lost on the path so far.
    pub lost: u64,
    /// Delivery-rate sample, absent when none is valid.
    pub rate: Option<RateSample>,
    /// Whether sending was limited by the application since the last full window.
    pub app_limited: bool,
}

/// One packet of a [`LossEvent`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LostPacket {
    /// Which.
    pub packet_number: PacketNumber,
    /// Its size in bytes of UDP payload.
    pub bytes: u64,
    /// When it left.
    pub sent: Instant,
    /// Bytes in flight right after it left, itself included.
    pub tx_in_flight: u64,
    /// The path's delivered count when it left.
    pub delivered_at_send: u64,
    /// The path's lost count when it left.
    pub lost_at_send: u64,
    /// Whether the application was limiting when it left.
    pub app_limited: bool,
}

/// Packets were declared lost.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LossEvent<'a> {
    /// When.
    pub now: Instant,
    /// The packets, ascending; never empty. MTU probes are not among them.
    pub packets: &'a [LostPacket],
    /// Sum of their bytes.
    pub lost_bytes: u64,
    /// Bytes lost on the path so far, these included.
    pub lost: u64,
    /// Bytes delivered on the path so far.
    pub delivered: u64,
    /// Whether they establish persistent congestion. RFC 9002 s7.6.
    pub persistent: bool,
    /// Bytes in flight before they were taken off.
    pub prior_in_flight: u64,
    /// Bytes in flight now.
    pub bytes_in_flight: u64,
    /// Round-trip times.
    pub rtt: RttView,
}

/// The peer reported more CE marks.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct EcnEvent {
    /// When.
    pub now: Instant,
    /// How many packets newly counted as CE.
    pub ce_packets: u64,
    /// The largest packet number the report acknowledges.
    pub largest_acked: PacketNumber,
    /// When that packet left.
    pub largest_acked_sent: Instant,
    /// Bytes in flight now.
    pub bytes_in_flight: u64,
}

/// Packets declared lost were acknowledged after all.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SpuriousLossEvent {
    /// When.
    pub now: Instant,
    /// The packet that was not lost.
    pub packet_number: PacketNumber,
    /// When it left.
    pub sent: Instant,
    /// Its size in bytes of UDP payload.
    pub bytes: u64,
    /// Whether no packet of its loss episode remains lost: the whole episode was spurious.
    pub episode_spurious: bool,
}

macro_rules! event_new {
    ($($ty:ty { $($field:ident : $fty:ty),* $(,)? })*) => {$(
        impl $ty {
            /// All fields, in the order of the struct.
            #[allow(clippy::too_many_arguments, reason = "events carry many plain numbers; only tests and recovery build them")]
            pub fn new($($field: $fty),*) -> Self { Self { $($field),* } }
        }
    )*};
}

/// What a controller shows of itself for events, statistics and plots.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ControllerMetrics {
    /// Congestion window in bytes.
    pub window: u64,
    /// Slow-start threshold in bytes, where the algorithm has one.
    pub slow_start_threshold: Option<u64>,
    /// Whether start-up is over, where the algorithm has no threshold: the window no longer doubles every round trip.
    pub filled_pipe: bool,
    /// Pacing rate, where the algorithm sets one itself.
    pub pacing_rate: Option<Rate>,
    /// Estimated bottleneck bandwidth, where the algorithm has one.
    pub bandwidth: Option<Rate>,
    /// A name for the current phase ("slow_start", "probe_bw_up", ...).
    pub state: &'static str,
}

impl ControllerMetrics {
    /// Metrics of a controller that only has a window.
    pub fn new(window: u64, state: &'static str) -> Self {
        Self {
            window,
            state,
            ..Self::default()
        }
    }
}

/// The congestion-control policy of one path.
///
/// View in, decision out: a controller sees plain numbers and never core state, reads no clock,
/// and is held to sane limits by the core (never below two datagrams, never above the
/// configured maximum).
pub trait CongestionController: fmt::Debug + Send {
    /// CLI flag, registry key and qlog value.
    fn name(&self) -> &'static str;
    /// An in-flight packet left. Not told of what only fills room that the application left, nor that it was
    /// acknowledged: [`OutgoingPacket::filler`](crate::recovery::OutgoingPacket).
    fn on_sent(&mut self, event: &SentEvent);
    /// In-flight packets were acknowledged. Comes after [`Self::on_loss`] of the same ACK frame.
    fn on_ack(&mut self, event: &AckEvent);
    /// Packets were declared lost.
    fn on_loss(&mut self, event: &LossEvent<'_>);
    /// CE marks increased.
    fn on_ecn(&mut self, event: &EcnEvent);
    /// A loss was spurious.
    fn on_spurious_loss(&mut self, _event: &SpuriousLossEvent) {}
    /// The path's datagram size changed.
    fn on_mtu(&mut self, mtu: u64);
    /// The path's initial window is `bytes` with the datagram size that [`Self::on_mtu`] is about to tell: a
    /// window that has only grown from the former one is larger by the difference. Not called once
    /// anything was lost. RFC 9002 s7.2.
    fn on_initial_window(&mut self, _bytes: u64) {}
    /// What is in flight stands in the path's queue already, and the data of a path that died comes on top of it: a slow
    /// start is over, before a window that nobody used is filled at once.
    fn on_path_full(&mut self, _bytes_in_flight: u64) {}
    /// The peer was asked to acknowledge this rarely (ACK_FREQUENCY): so much may be in flight
    /// beyond what the path holds, waiting for an ACK.
    fn on_ack_request(&mut self, _request: &AckRequest) {}
    /// Acknowledgements come another way from now on: the shortest round trip is `after`, by the former way
    /// it was `before`. The difference tells nothing of queues, and of the way there nothing at all.
    fn on_return_path(&mut self, _now: Instant, _before: Duration, _after: Duration) {}
    /// Sending resumes after nothing was in flight.
    fn on_restart_from_idle(&mut self, _now: Instant) {}
    /// What this controller shows to those of the connection's other paths; `None` for one that minds its
    /// own path alone, which [`Self::on_siblings`] is then never called of.
    fn coupling(&self) -> Option<Coupling<'_>> {
        None
    }
    /// How the connection's working paths do: `own` is this controller's. About once a round trip and
    /// after losses while there are several, and once with no siblings when the last of them has gone.
    fn on_siblings(&mut self, _own: &SiblingView, _siblings: &[SiblingView]) {}
    /// Bytes that may be in flight.
    fn window(&self) -> u64;
    /// Speed at which packets may leave; `None` lets the core derive it from window and RTT.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }
    /// Bytes that may leave back to back; `None` lets the pacer decide.
    fn send_quantum(&self) -> Option<u64> {
        None
    }
    /// State to show.
    fn metrics(&self) -> ControllerMetrics;
}

/// Builds controllers of one kind with one set of options.
pub trait ControllerFactory: fmt::Debug + Send + Sync {
    /// The name its controllers bear.
    fn name(&self) -> &'static str;
    /// A controller for a new path.
    fn build(&self, context: ControllerContext) -> Box<dyn CongestionController>;
}

/// A shared factory, as the configuration holds it.
pub type SharedControllerFactory = Arc<dyn ControllerFactory>;

event_new! {
    SentEvent { now: Instant, packet_number: PacketNumber, bytes: u64, bytes_in_flight: u64, app_limited: bool }
    AckEvent { now: Instant, acked_bytes: u64, acked_packets: u64, largest_acked: PacketNumber,
        largest_acked_sent: Instant, next_packet_number: PacketNumber, has_rtt_sample: bool, rtt: RttView,
        prior_in_flight: u64, bytes_in_flight: u64, delivered: u64, lost: u64, rate: Option<RateSample>, app_limited: bool }
    LostPacket { packet_number: PacketNumber, bytes: u64, sent: Instant, tx_in_flight: u64, delivered_at_send: u64, lost_at_send: u64, app_limited: bool }
    EcnEvent { now: Instant, ce_packets: u64, largest_acked: PacketNumber, largest_acked_sent: Instant, bytes_in_flight: u64 }
    SpuriousLossEvent { now: Instant, packet_number: PacketNumber, sent: Instant, bytes: u64, episode_spurious: bool }
}

impl<'a> LossEvent<'a> {
    /// All fields, in the order of the struct.
    #[expect(
        clippy::too_many_arguments,
        reason = "events carry many plain numbers; only tests and recovery build them"
    )]
    pub fn new(
        now: Instant,
        packets: &'a [LostPacket],
        lost_bytes: u64,
        lost: u64,
        delivered: u64,
        persistent: bool,
        prior_in_flight: u64,
        bytes_in_flight: u64,
        rtt: RttView,
    ) -> Self {
        Self {
            now,
            packets,
            lost_bytes,
            lost,
            delivered,
            persistent,
            prior_in_flight,
            bytes_in_flight,
            rtt,
        }
    }
}
