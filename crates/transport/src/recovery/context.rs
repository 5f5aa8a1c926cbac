//! What recovery is told and what it tells: contexts, outcomes, counters.

use std::time::Duration;

use crate::{
    observe::EcnPhase,
    packet::Token,
    space::{PacketNumberSpace, SentPacket, SpaceKind},
    time::Instant,
    units::{Ecn, PacketNumber, PathId},
};

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
    pub(super) fn get(&self, kind: SpaceKind) -> Option<&PacketNumberSpace> {
        match kind {
            SpaceKind::Initial => self.initial.as_deref(),
            SpaceKind::Handshake => self.handshake.as_deref(),
            SpaceKind::Data => Some(self.data),
        }
    }

    pub(super) fn get_mut(&mut self, kind: SpaceKind) -> Option<&mut PacketNumberSpace> {
        match kind {
            SpaceKind::Initial => self.initial.as_deref_mut(),
            SpaceKind::Handshake => self.handshake.as_deref_mut(),
            SpaceKind::Data => Some(self.data),
        }
    }

    pub(super) fn present(&self) -> impl Iterator<Item = (SpaceKind, &PacketNumberSpace)> {
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
    /// Whether what this token stands for is not to be sent on another path as well.
    fn keeps(&self, _token: Token) -> bool {
        false
    }
    /// Whether what another path carries as well is sent once more when the first of both is lost.
    fn repeats_what_was_copied(&self) -> bool {
        false
    }
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
    fn mtu_probe_acked(&mut self, _number: PacketNumber, _bytes: u16) {}
    /// An MTU probe of this size was lost.
    fn mtu_probe_lost(&mut self, _number: PacketNumber, _bytes: u16) {}
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
    /// Whether its acknowledgement is not held back: it carries IMMEDIATE_ACK, or a repair symbol.
    pub asks: bool,
    /// Whether it counts towards bytes in flight.
    pub in_flight: bool,
    /// Whether it probes for a larger MTU.
    pub mtu_probe: bool,
    /// The mark of its datagram.
    pub ecn: Ecn,
    /// Whether it goes to another address than the path's: it counts for nothing here, whatever
    /// it carries. RFC 9000 s9.4.
    pub off_path: bool,
    /// Whether it only fills room that the application left: a repair symbol. What it fills says nothing of what
    /// the application needs, so that no window grows by it (RFC 9002 s7.8); its loss counts as any other.
    pub filler: bool,
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
    /// The path that brought the frame.
    pub returned_by: PathId,
    /// Whether that is another path than this one.
    pub elsewhere: bool,
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
    /// The RTT sample taken, not adjusted by ACK Delay, as it would be by the way back in use.
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
    /// The peer's min_ack_delay: for no longer it holds back an acknowledgement that is due at once.
    pub min_ack_delay: Duration,
    /// Of so many packets under way the acknowledgement is due at once.
    pub together: usize,
    /// Whether another path works: then what is overdue here is better sent there.
    pub may_leave: bool,
    /// How often a path that is silent is probed at least, if others work: these keep the connection open, and nothing but a
    /// probe shows that it is back. A timeout that only doubles (RFC 9002 s6.2.1) suits connections that end soon.
    pub probe_every: Option<Duration>,
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

/// How the peer acknowledges what arrives on a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAcks {
    /// So many packets at once, or more.
    pub(crate) together: usize,
    /// Fewer after this at the latest.
    pub(crate) max_delay: Duration,
}

impl PeerAcks {
    /// Each packet by itself.
    pub(super) const AT_ONCE: Self = Self {
        together: 1,
        max_delay: Duration::ZERO,
    };
}
