//! When acknowledgements go out, and what we ask of the peer's.
//!
//! Purpose: the [`AckPolicy`] policy and its built-in implementations.
//! Owns: the decision "now, by then, or hold" for each received packet; ACK_FREQUENCY requests.
//! Does not own: which packets arrived (`space/received.rs`); encoding (`wire/`).
//! Called by: `connection/rx.rs` for each received packet, `connection/tx.rs` for requests.
//! Spec: RFC 9000 s13.2, draft-ietf-quic-ack-frequency-14.
//! To add a variant: one file here and one line in `registry.rs`.

mod asymmetric;
mod frequency;
pub mod registry;
mod return_path;
mod rules;
mod sparing;
mod standard;
mod urgency;

#[cfg(test)]
mod tests;

pub use asymmetric::{AsymmetricFactory, AsymmetricRule};
pub use frequency::FrequencyFactory;
pub use standard::StandardFactory;

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    time::Instant,
    units::{Ecn, PacketNumber},
};

/// A received packet, as the policy sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReceivedView {
    /// When it arrived.
    pub now: Instant,
    /// Its number.
    pub packet_number: PacketNumber,
    /// Whether it is ack-eliciting.
    pub ack_eliciting: bool,
    /// Its ECN mark.
    pub ecn: Ecn,
    /// The mark of the packet received just before.
    pub previous_ecn: Ecn,
    /// Largest ack-eliciting packet number received before this one, `None` if it is the first.
    pub largest_before: Option<PacketNumber>,
    /// Largest packet number reported in the last ACK sent, `None` before the first.
    pub largest_reported: Option<PacketNumber>,
    /// Smallest missing packet number that no ACK sent so far lets the peer declare lost under
    /// [`AckPolicy::reordering_threshold`]; `None` when nothing of that kind is missing.
    /// draft-ietf-quic-ack-frequency s6.2 calls these *unreported missing*.
    pub smallest_unreported_missing: Option<PacketNumber>,
    /// Ack-eliciting packets received since the last ACK was sent, this one included.
    pub unacked_eliciting: u64,
    /// Whether the frame IMMEDIATE_ACK was in it.
    pub immediate_requested: bool,
    /// Whether a repair symbol was in it.
    pub repair: bool,
    /// Whether the handshake is confirmed.
    pub handshake_confirmed: bool,
    /// Smoothed round-trip time of the path.
    pub smoothed_rtt: Duration,
    /// When the last ACK left, `None` before the first.
    pub last_ack_sent: Option<Instant>,
}

impl ReceivedView {
    /// A plain in-order, ack-eliciting packet; change fields from here.
    pub fn in_order(now: Instant, packet_number: PacketNumber, unacked_eliciting: u64) -> Self {
        Self {
            now,
            packet_number,
            ack_eliciting: true,
            ecn: Ecn::NotEct,
            previous_ecn: Ecn::NotEct,
            largest_before: packet_number.checked_sub(1),
            largest_reported: None,
            smallest_unreported_missing: None,
            unacked_eliciting,
            immediate_requested: false,
            repair: false,
            handshake_confirmed: true,
            smoothed_rtt: Duration::from_millis(50),
            last_ack_sent: None,
        }
    }
}

/// What the policy decides for a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckDecision {
    /// Acknowledge with the next packet, which leaves as soon as possible.
    Now,
    /// Acknowledge no later than this.
    By(Instant),
    /// No need yet; the ACK rides along when something else is sent.
    Hold,
}

/// What the peer asked for by ACK_FREQUENCY, or the defaults before it did.
///
/// The caller has checked a frame's values: a delay of 2^14 ms or more, or below our own
/// min_ack_delay, is a PROTOCOL_VIOLATION and never comes here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckRequest {
    /// Acknowledge after more than this many ack-eliciting packets.
    pub ack_eliciting_threshold: u64,
    /// Wait at most this long.
    pub max_ack_delay: Duration,
    /// Packet distance that makes a gap worth an immediate ACK; 0 means never.
    pub reordering_threshold: u64,
}

/// What the sender side of the policy may look at when it decides what to ask of the peer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SendView {
    /// Now.
    pub now: Instant,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// Smallest round-trip time.
    pub min_rtt: Duration,
    /// Congestion window in bytes.
    pub window: u64,
    /// Bytes of a full datagram.
    pub mtu: u64,
    /// The peer's min_ack_delay.
    pub peer_min_ack_delay: Duration,
    /// The peer's max_ack_delay transport parameter.
    pub peer_max_ack_delay: Duration,
    /// Our current packet reordering threshold for loss detection.
    pub packet_threshold: u64,
    /// Packets of application data acknowledged so far.
    pub packets_acked: u64,
    /// Packets declared lost so far.
    pub packets_lost: u64,
    /// Probe timeouts so far.
    pub ptos: u64,
    /// Packets received from the peer so far.
    pub packets_received: u64,
    /// Packets received so far on the path that brings this one's acknowledgements: most often itself.
    pub packets_returned: u64,
    /// Of these, packets that held an ACK.
    pub acks_received: u64,
    /// Packet numbers below the largest received there that have not come: the return path dropped
    /// them, they are late, or the peer left them out on purpose.
    pub packets_missing: u64,
    /// Packets that arrived there with a CE mark so far.
    pub packets_marked: u64,
    /// How long the latest message with a deadline had when it was handed over; `None` if there was none lately.
    pub message_time: Option<Duration>,
}

impl SendView {
    /// The path's measures in the order of the struct, and no packet counted yet.
    #[expect(
        clippy::too_many_arguments,
        reason = "a view carries many plain numbers"
    )]
    pub fn new(
        now: Instant,
        smoothed_rtt: Duration,
        min_rtt: Duration,
        window: u64,
        mtu: u64,
        peer_min_ack_delay: Duration,
        peer_max_ack_delay: Duration,
        packet_threshold: u64,
    ) -> Self {
        Self {
            now,
            smoothed_rtt,
            min_rtt,
            window,
            mtu,
            peer_min_ack_delay,
            peer_max_ack_delay,
            packet_threshold,
            packets_acked: 0,
            packets_lost: 0,
            ptos: 0,
            packets_received: 0,
            packets_returned: 0,
            acks_received: 0,
            packets_missing: 0,
            packets_marked: 0,
            message_time: None,
        }
    }
}

/// The acknowledgement policy of one path.
pub trait AckPolicy: fmt::Debug + Send {
    /// CLI flag, registry key and qlog value.
    fn name(&self) -> &'static str;
    /// A packet arrived in the application space.
    fn on_packet(&mut self, view: &ReceivedView) -> AckDecision;
    /// The peer's ACK_FREQUENCY frame, already validated and newer than any before.
    fn on_request(&mut self, request: AckRequest);
    /// Another round trip has passed, whether or not the peer can be asked for anything.
    fn on_round(&mut self, _view: &SendView) {}
    /// What to ask of the peer now, if it differs from what was asked last. Asked about once a round trip,
    /// after [`Self::on_round`], and only if the peer's transport parameters allow ACK_FREQUENCY.
    fn request(&mut self, view: &SendView) -> Option<AckRequest>;
    /// Packets go another way from now on (migration): what the old one could carry says nothing.
    /// What was asked of the peer is repeated unless [`Self::request`] wishes otherwise.
    fn on_new_network_path(&mut self) {}
    /// Another path brings the acknowledgements from now on: what the former one could carry says
    /// nothing.
    fn on_new_return_path(&mut self) {
        self.on_new_network_path();
    }
    /// The longest this policy may hold an ACK now.
    fn max_ack_delay(&self) -> Duration;
    /// The reordering threshold in force; 0 means that reordering never hastens an ACK.
    fn reordering_threshold(&self) -> u64 {
        1
    }
}

/// Builds policies of one kind.
pub trait AckPolicyFactory: fmt::Debug + Send + Sync {
    /// The name its policies bear.
    fn name(&self) -> &'static str;
    /// A policy for a new path; `max_ack_delay` is our transport parameter.
    fn build(&self, max_ack_delay: Duration) -> Box<dyn AckPolicy>;
}

/// A shared factory, as the configuration holds it.
pub type SharedAckPolicyFactory = Arc<dyn AckPolicyFactory>;
