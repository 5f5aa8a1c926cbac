//! Packet number spaces: what was sent under which number, and what arrived.
//!
//! Purpose: one numbering context (Initial, Handshake, or application data of one path) with the
//! record of packets in each direction.
//! Owns: [`PacketNumberSpace`]: the next packet number and the numbers skipped on purpose, the
//! ring of sent packets with their tokens, [`ReceivedPackets`] (ranges, duplicates, ECN counts,
//! when an ACK is due), the peer's ECN reports.
//! Does not own: RTT, loss detection, timers, congestion control (`recovery/`, which works on a
//! space lent to it); when to acknowledge (`ack/` decides); encoding (`wire/`).
//! Called by: `connection/`, `recovery/`.
//! Spec: RFC 9000 s12.3, s13.2, s13.4, s21.4; draft-ietf-quic-receive-ts.
//! To add a variant: nothing here is chosen at run time; policies live in `ack/`.

mod echo;
mod ecn;
mod numbers;
mod ranges;
mod received;
mod sent;
mod timestamps;

#[cfg(test)]
mod ack_frame_tests;
#[cfg(test)]
mod tests;

pub use received::ReceivedPackets;
pub use sent::SentPacket;
pub use timestamps::TimestampConfig;

pub(crate) use ecn::PeerEcn;
pub(crate) use sent::{Fate, SendSnapshot, SentPackets};

use crate::{config::Limits, rng::Rng, time::Instant, units::PacketNumber};
use numbers::Numbers;

/// Which packet number space. RFC 9000 s12.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpaceKind {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// 0-RTT and 1-RTT packets of one path.
    Data,
}

/// One numbering context and what was sent and received in it.
#[derive(Debug)]
pub struct PacketNumberSpace {
    /// What arrived, and which ACK is owed for it.
    pub received: ReceivedPackets,
    pub(crate) sent: SentPackets,
    numbers: Numbers,
    /// Largest packet number the peer acknowledged.
    pub(crate) largest_acked: Option<PacketNumber>,
    /// When the oldest packet overtaken by an acknowledged one counts as lost. RFC 9002 A.3.
    pub(crate) loss_time: Option<Instant>,
    /// When the newest ack-eliciting packet left.
    pub(crate) last_eliciting_sent: Option<Instant>,
    /// Whether its acknowledgement is not held back. Not for an MTU probe, whose loss says nothing.
    pub(crate) last_asks: bool,
    /// Bytes in flight then.
    pub(crate) last_in_flight: u64,
    /// Below this number no packet awaits its fate; loss detection starts here.
    pub(crate) loss_cursor: PacketNumber,
    /// Largest packet number that the peer echoed on another path.
    largest_echoed: Option<PacketNumber>,
    /// The peer's ECN reports for this space.
    pub(crate) peer_ecn: PeerEcn,
    /// Send times of the newest unbroken run of lost ack-eliciting packets. RFC 9002 s7.6.2.
    pub(crate) lost_run: Option<LostRun>,
    /// ACK-only packets sent since the last ack-eliciting one.
    pub(crate) sent_without_eliciting: u32,
}

/// Packets lost one after another, with none acknowledged in between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostRun {
    /// When the first ack-eliciting packet of the run left.
    pub(crate) first_sent: Instant,
    /// When the newest ack-eliciting packet of the run left.
    pub(crate) last_sent: Instant,
    /// The newest packet of the run.
    pub(crate) last_number: PacketNumber,
}

impl PacketNumberSpace {
    /// An empty space; allocates nothing. `allow_skips`: whether numbers are skipped now and then
    /// to catch peers that acknowledge what they did not receive (RFC 9000 s21.4).
    pub fn new(limits: &Limits, allow_skips: bool) -> Self {
        Self {
            received: ReceivedPackets::new(limits),
            sent: SentPackets::new(limits.sent_packets),
            numbers: Numbers::new(allow_skips),
            largest_acked: None,
            loss_time: None,
            last_eliciting_sent: None,
            last_asks: false,
            last_in_flight: 0,
            loss_cursor: 0,
            largest_echoed: None,
            peer_ecn: PeerEcn::default(),
            lost_run: None,
            sent_without_eliciting: 0,
        }
    }

    /// The number that [`Self::take_packet_number`] returns next.
    pub fn peek_packet_number(&self) -> PacketNumber {
        self.numbers.peek()
    }

    /// The number of the next packet. Sometimes leaves one out and remembers it: an ACK of it is
    /// a PROTOCOL_VIOLATION.
    pub fn take_packet_number(&mut self, rng: &mut Rng) -> PacketNumber {
        self.numbers.take(rng)
    }

    /// Largest packet number the peer acknowledged; packet number encoding rests on it.
    pub fn largest_acked(&self) -> Option<PacketNumber> {
        self.largest_acked
    }

    /// Whether an ack-eliciting packet awaits its acknowledgement.
    pub fn has_ack_eliciting_in_flight(&self) -> bool {
        self.sent.eliciting_outstanding() > 0
    }

    /// When the oldest ack-eliciting packet left that is still waited for.
    pub(crate) fn oldest_eliciting_sent(&self) -> Option<Instant> {
        self.sent.oldest_waiting().map(SentPacket::sent)
    }

    /// Whether as many packets are tracked as the limits allow; probes and ACKs may still leave.
    pub fn is_full(&self) -> bool {
        self.sent.is_full()
    }

    /// Bytes of this space's packets in flight. Walks over them: for the small handshake spaces.
    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.sent
            .outstanding()
            .filter(|(_, packet)| packet.in_flight)
            .map(|(_, packet)| u64::from(packet.bytes))
            .sum()
    }

    /// Whether the next ACK-only packet should ask for an acknowledgement (a PING will do): while
    /// data comes in, one such packet is always under way, so that old ranges can be forgotten and
    /// a pure receiver notices when its packets or the peer's go nowhere. RFC 9000 s13.2.4.
    pub fn should_elicit_ack(&self) -> bool {
        self.sent_without_eliciting >= MAX_ACK_ONLY_IN_A_ROW
            || self.sent_without_eliciting >= MIN_ACK_ONLY_IN_A_ROW
                && !self.has_ack_eliciting_in_flight()
    }

    /// An echo up to `largest` arrived: the first packet whose fate it may tell, for all below `threshold` packets
    /// before the one before have theirs; `None` if it is no newer than that.
    pub(crate) fn take_echo(
        &mut self,
        largest: PacketNumber,
        threshold: u64,
    ) -> Option<PacketNumber> {
        let before = self.largest_echoed;
        if before.is_some_and(|before| largest <= before) {
            return None;
        }
        self.largest_echoed = Some(largest);
        Some(before.map_or(0, |before| before.saturating_sub(threshold)))
    }

    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }
}

/// Two idle ends must not ask each other in turn for ever: this many ACKs that ask for nothing
/// come first, which only a flow of data brings about.
const MIN_ACK_ONLY_IN_A_ROW: u32 = 2;
/// At least one packet in twenty of a pure receiver carries a PING.
const MAX_ACK_ONLY_IN_A_ROW: u32 = 19;
