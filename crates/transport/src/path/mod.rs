//! One path: everything whose value depends on which way packets go.
//!
//! Purpose: keep per-path facts in one aggregate, so that several paths are several values.
//! Owns: [`Path`] (packet number space, recovery with RTT, congestion and pacer, connection IDs,
//! ACK policy, MTU discovery) and, inside it, [`NetworkPath`] (4-tuple, validation,
//! amplification limit); [`PathSet`], the only way to find one.
//! Does not own: keys (one set for all paths, `tls/`), streams, the Initial and Handshake
//! spaces (the connection lends path 0's recovery to them).
//! Called by: `connection/`.
//! Spec: RFC 9000 s8-9, RFC 8899, RFC 10069.

mod ack_copies;
mod ack_frequency;
mod ack_stats;
mod amplification;
mod cids;
mod first_rtt;
mod hand_over;
mod lifecycle;
mod mtu;
mod network;
mod set;
mod validation;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use ack_copies::AckCopies;
pub(crate) use ack_frequency::AckFrequencyState;
pub use ack_stats::AckStats;
pub(crate) use ack_stats::Contents;
pub use amplification::Amplification;
pub use cids::{IssuedConnectionId, LocalCids, RemoteCid, RemoteCids};
pub(crate) use first_rtt::FirstRtt;
pub(crate) use hand_over::HandOver;
pub(crate) use lifecycle::Told;
pub use lifecycle::{PathEvent, PathStats};
pub(crate) use mtu::MtuDiscovery;
pub(crate) use network::NetworkPath;
pub(crate) use set::PathSet;
pub(crate) use validation::{Proof, Validation, ValidationFailed};

use std::time::Duration;

use crate::{
    ack::AckPolicy,
    config::TransportConfig,
    multipath::{CostMeter, StatusExchange},
    recovery::Recovery,
    rng::Rng,
    space::{PacketNumberSpace, SpaceKind},
    time::Instant,
    units::{FourTuple, PathId},
    wire::ConnectionId,
};

/// Room for the longest short header, a PATH_CHALLENGE and the AEAD tag: an address that may get
/// less than this gets nothing.
pub(crate) const MIN_DATAGRAM: u64 = 56;

/// What every path must carry, UDP payload bytes. RFC 9000 s14, s8.2.1.
pub(crate) const FULL_DATAGRAM: usize = 1200;

/// A path and all that belongs to it alone.
pub(crate) struct Path {
    /// Its identifier; also the path part of the AEAD nonce.
    pub(crate) id: PathId,
    /// Packet numbers of application data on this path.
    pub(crate) space: PacketNumberSpace,
    /// RTT, loss detection, congestion control, pacing.
    pub(crate) recovery: Recovery,
    /// When to acknowledge what arrives here.
    pub(crate) ack: Box<dyn AckPolicy>,
    /// What acknowledging costs.
    pub(crate) ack_stats: AckStats,
    /// Where packets go now.
    pub(crate) network: NetworkPath,
    /// Where they went before a migration that is not validated yet.
    pub(crate) previous: Option<NetworkPath>,
    /// A network path under probe that no data uses yet (preferred address).
    pub(crate) probe: Option<NetworkPath>,
    /// Connection IDs we issued for this path.
    pub(crate) local_cids: LocalCids,
    /// Connection IDs the peer issued for this path.
    pub(crate) remote_cids: RemoteCids,
    /// Datagram size in use and the search for a larger one.
    pub(crate) mtu: MtuDiscovery,
    /// What waits to be sent on this path.
    pub(crate) pending: PathPending,
    /// Largest packet number received, and when anything last arrived.
    pub(crate) last_received: Option<Instant>,
    /// If nothing leaves and nothing arrives before, a PING is due.
    pub(crate) keep_alive_at: Option<Instant>,
    /// Bytes of authentic packets that arrived here.
    pub(crate) bytes_received: u64,
    /// The spin bit to send. RFC 9000 s17.4.
    pub(crate) spin: SpinBit,
    /// Sequence number of the next ACK_FREQUENCY frame, and the newest one waiting to be sent.
    pub(crate) ack_frequency: AckFrequencyState,
    /// Acknowledgements here while another path carries them.
    pub(crate) ack_copies: AckCopies,
    /// The pacer lets nothing go before.
    pub(crate) pacing_until: Option<Instant>,
    /// Our address changed and no connection ID is left for the new one: nothing leaves before
    /// one comes, or this.
    pub(crate) unnamed_until: Option<Instant>,
    /// Until then the peer's former address is listened to, and no longer.
    pub(crate) previous_until: Option<Instant>,
    /// The address changed; once the new one is proven, [`Path::start_over`].
    pub(crate) starts_over: bool,
    /// How far its life has come.
    pub(crate) phase: PathPhase,
    /// Whether it was ever open, whatever became of it.
    pub(crate) has_opened: bool,
    /// Whether the ends want data on it.
    pub(crate) status: StatusExchange,
    /// What using it costs.
    pub(crate) cost: CostMeter,
    /// What its first round trip will be.
    pub(crate) first_rtt: FirstRtt,
    /// How long the peer took to answer a challenge, until the round trip is known otherwise.
    pub(crate) answered_in: Option<Duration>,
    /// Opened before the handshake was confirmed: the peer may have kept the challenge until it could read it.
    pub(crate) opened_early: bool,
    /// It leads another way than before, and the others have not heard of it.
    pub(crate) moved: bool,
    /// What the application was told of its answers.
    pub(crate) told: Told,
    /// What is under way here and leaves for other paths.
    pub(crate) handing_over: Option<HandOver>,
}

/// The life of a path. RFC 10069 s3.1, s3.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathPhase {
    /// Its address is not proven yet.
    Opening,
    /// It may carry data.
    Open,
    /// Nothing is sent on it any more; what still arrives is acknowledged on other paths. `until` is
    /// known once the peer has abandoned it, too.
    Abandoned { until: Option<Instant> },
}

/// Small things that wait for the next packet on a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathPending {
    /// A PING for liveness or a probe.
    pub(crate) ping: bool,
    /// An IMMEDIATE_ACK beside a probe.
    pub(crate) immediate_ack: bool,
    /// PTO probes still to be sent; they pass the congestion window.
    pub(crate) probes: u8,
    /// Repair symbols wait to be these probes.
    pub(crate) coded_probes: bool,
}

/// The latency spin bit of one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpinBit {
    enabled: bool,
    value: bool,
    /// What is sent where it is disabled: chosen at random, as RFC 9000 s17.4 recommends.
    constant: bool,
}

impl SpinBit {
    /// Disabled on one connection in 16 whatever the configuration. RFC 9000 s17.4.
    pub(crate) fn new(wanted: bool, rng: &mut Rng) -> Self {
        let draw = rng.below(32);
        Self {
            enabled: wanted && !draw.is_multiple_of(16),
            value: false,
            constant: draw >= 16,
        }
    }

    /// A packet with the largest number so far arrived.
    pub(crate) fn on_largest(&mut self, received: bool, is_client: bool) {
        self.value = received != is_client;
    }

    /// The bit for the next packet.
    pub(crate) fn value(self) -> bool {
        if self.enabled {
            self.value
        } else {
            self.constant
        }
    }

    /// A new network path, or a new connection ID, starts from zero.
    pub(crate) fn reset(&mut self) {
        self.value = false;
    }
}

impl Path {
    /// A path over `four_tuple`, with no connection IDs yet beside the given remote one.
    pub(crate) fn new(
        id: PathId,
        now: Instant,
        four_tuple: FourTuple,
        remote_cid: ConnectionId,
        config: &TransportConfig,
        rng: &mut Rng,
    ) -> Self {
        let mtu = MtuDiscovery::new(config.mtu);
        Self {
            id,
            space: PacketNumberSpace::new(&config.limits, true),
            recovery: Recovery::new(now, config, mtu.current(), rng.fork()),
            ack: config.ack_policy.build(config.max_ack_delay),
            ack_stats: AckStats::default(),
            network: NetworkPath::new(four_tuple),
            previous: None,
            probe: None,
            local_cids: LocalCids::new(),
            remote_cids: RemoteCids::new(remote_cid, config.active_connection_id_limit.max(2)),
            mtu,
            pending: PathPending::default(),
            last_received: None,
            keep_alive_at: None,
            bytes_received: 0,
            spin: SpinBit::new(config.spin_bit, rng),
            ack_frequency: AckFrequencyState::default(),
            ack_copies: AckCopies::default(),
            pacing_until: None,
            unnamed_until: None,
            previous_until: None,
            starts_over: false,
            phase: PathPhase::Open,
            has_opened: true,
            status: StatusExchange::default(),
            cost: CostMeter::default(),
            first_rtt: FirstRtt::default(),
            answered_in: None,
            opened_early: false,
            moved: false,
            told: Told::default(),
            handing_over: None,
        }
    }

    /// Whether data may go on it, as far as its own state tells.
    pub(crate) fn is_usable(&self) -> bool {
        self.phase == PathPhase::Open && self.unnamed_until.is_none()
    }

    /// Its address is proven: it opens, if it was about to.
    pub(crate) fn open(&mut self) {
        if self.phase == PathPhase::Opening {
            self.phase = PathPhase::Open;
            self.has_opened = true;
        }
    }

    /// Whether it was abandoned by either end.
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self.phase, PathPhase::Abandoned { .. })
    }

    /// When a PING is due that keeps an open path from being forgotten.
    pub(crate) fn keep_alive(&self) -> Option<Instant> {
        self.keep_alive_at
            .filter(|_| matches!(self.phase, PathPhase::Open))
    }

    /// Bytes of packets, both ways.
    pub(crate) fn carried(&self) -> u64 {
        self.recovery.stats().bytes_sent + self.bytes_received
    }

    /// Bytes that may leave before its cap is reached.
    pub(crate) fn cap_room(&self) -> u64 {
        match self.cost.cost.cap_bytes {
            Some(_) => self.cost.room(self.carried()),
            None => u64::MAX,
        }
    }

    /// Whether no full datagram may leave any more.
    pub(crate) fn is_spent(&self) -> bool {
        self.cap_room() < u64::from(self.mtu.datagram_size())
    }

    /// Whether it answers, its address is proven, and its cost leaves room: what it carries gets through.
    pub(crate) fn is_at_work(&self) -> bool {
        self.is_usable() && !self.is_silent() && !self.is_spent()
    }

    /// Whether the newest packets that ask for an acknowledgement have been waiting for longer than
    /// a probe timeout.
    pub(crate) fn is_silent(&self) -> bool {
        self.recovery.pto_count() > 0
    }

    /// The connection is over: what was sent needs no fate, what arrived no acknowledgement.
    /// Addresses, connection IDs, packet numbers and what statistics tell stay.
    pub(crate) fn release(&mut self) {
        self.forget_sent();
        self.space.received.release();
        self.pending = PathPending::default();
        self.pacing_until = None;
    }

    /// What acknowledging has cost so far.
    pub(crate) fn ack_stats(&self) -> AckStats {
        AckStats {
            packets_missing: self.space.received.missing(),
            ..self.ack_stats
        }
    }

    /// Forgets packets of application data that were sent.
    pub(crate) fn forget_sent(&mut self) {
        self.recovery
            .forget_in_flight(&mut self.space, SpaceKind::Data);
    }

    /// The address left behind is of no interest any more, nor is its connection ID.
    pub(crate) fn forget_previous(&mut self) {
        self.previous = None;
        self.previous_until = None;
        self.remote_cids.drop_previous();
    }

    /// Another address is another path: what was learned of the old one is forgotten.
    /// RFC 9000 s9.4.
    pub(crate) fn start_over(&mut self, now: Instant) {
        self.starts_over = false;
        self.answered_in = None;
        self.moved = true;
        // First: the initial window is one of datagrams of this size.
        self.reset_mtu();
        self.recovery.reset_for_new_network_path(now);
        self.ack_frequency.on_new_network_path(now);
        self.ack.on_new_network_path();
    }

    /// The smallest datagram size, and the search for more from there.
    pub(crate) fn reset_mtu(&mut self) {
        self.mtu.reset();
        self.mtu.forget_before(self.space.peek_packet_number());
        self.recovery.on_mtu(self.mtu.current());
    }

    /// The network path, current, previous or under probe, that has this 4-tuple.
    pub(crate) fn network_mut(&mut self, four_tuple: &FourTuple) -> Option<&mut NetworkPath> {
        if self.network.four_tuple().matches(four_tuple) {
            return Some(&mut self.network);
        }
        [&mut self.previous, &mut self.probe]
            .into_iter()
            .flatten()
            .find(|network| network.four_tuple().matches(four_tuple))
    }

    /// Whether one of its network paths leads to `remote`.
    pub(crate) fn knows_remote(&self, remote: std::net::SocketAddr) -> bool {
        [
            Some(&self.network),
            self.previous.as_ref(),
            self.probe.as_ref(),
        ]
        .into_iter()
        .flatten()
        .any(|network| network.four_tuple().remote == remote)
    }

    /// Whether it was opened before the peer was told of a connection ID to answer to: another path must tell
    /// of it.
    pub(crate) fn needs_introduction(&self) -> bool {
        self.phase == PathPhase::Opening && self.local_cids.is_unsent(0)
    }

    /// Whether MTU probes make sense: not while the address itself is in question.
    pub(crate) fn may_probe_mtu(&self) -> bool {
        self.network.is_validated() && !self.network.is_validating()
    }

    /// When anything about validation or MTU discovery needs attention.
    pub(crate) fn timer(&self) -> Option<Instant> {
        match self.phase {
            PathPhase::Abandoned { until } => until,
            _ => crate::time::earliest(self.validation_timer(), self.mtu_timer()),
        }
    }

    /// When MTU discovery goes on. Whatever may not leave waits for no time: a path without a name, or at
    /// its cap.
    pub(crate) fn mtu_timer(&self) -> Option<Instant> {
        let may_send = self.unnamed_until.is_none() && !self.is_spent();
        self.mtu
            .timer()
            .filter(|_| self.may_probe_mtu() && may_send)
    }

    /// When a challenge or its failure is due, or an address is forgotten.
    pub(crate) fn validation_timer(&self) -> Option<Instant> {
        let named = self.unnamed_until.is_none();
        let previous_named = self.remote_cids.previous().is_some();
        let probe_named = self.remote_cids.may_probe();
        let spent = self.is_spent();
        let networks = [
            (Some(&self.network), named),
            (self.previous.as_ref(), previous_named),
            (self.probe.as_ref(), probe_named),
        ];
        networks
            .into_iter()
            .filter_map(|(network, named)| network?.validation_timer(named && !spent))
            .chain(self.unnamed_until)
            .chain(self.previous_until)
            .min()
    }
}
