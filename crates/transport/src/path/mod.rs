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

mod amplification;
mod cids;
mod lifecycle;
mod mtu;
mod network;
mod set;
mod validation;

#[cfg(test)]
pub(crate) mod tests;

pub use amplification::Amplification;
pub use cids::{IssuedConnectionId, LocalCids, RemoteCid, RemoteCids};
pub use lifecycle::{PathEvent, PathStats};
pub(crate) use mtu::MtuDiscovery;
pub(crate) use network::NetworkPath;
pub(crate) use set::PathSet;
pub(crate) use validation::{Validation, ValidationFailed};

use crate::{
    ack::AckPolicy,
    config::TransportConfig,
    recovery::Recovery,
    rng::Rng,
    space::PacketNumberSpace,
    time::Instant,
    units::{FourTuple, PathId},
    wire::ConnectionId,
};

/// Room for the longest short header, a PATH_CHALLENGE and the AEAD tag: an address that may get
/// less than this gets nothing.
pub(crate) const MIN_DATAGRAM: u64 = 56;

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
    /// The spin bit to send. RFC 9000 s17.4.
    pub(crate) spin: SpinBit,
    /// Sequence number of the next ACK_FREQUENCY frame, and the newest one waiting to be sent.
    pub(crate) ack_frequency: AckFrequencyState,
    /// The pacer lets nothing go before.
    pub(crate) pacing_until: Option<Instant>,
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
}

/// What we asked of the peer's acknowledgements, and what it asked of ours.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckFrequencyState {
    pub(crate) next_sequence: u64,
    pub(crate) to_send: Option<crate::ack::AckRequest>,
    /// The newest request made.
    pub(crate) last: Option<crate::ack::AckRequest>,
    pub(crate) largest_received: Option<u64>,
    /// The longest delay asked of the peer so far and possibly in force.
    pub(crate) requested_delay: Option<std::time::Duration>,
    pub(crate) next_review: Instant,
}

/// The latency spin bit of one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpinBit {
    enabled: bool,
    value: bool,
}

impl SpinBit {
    /// Disabled on one connection in 16 whatever the configuration. RFC 9000 s17.4.
    pub(crate) fn new(wanted: bool, rng: &mut Rng) -> Self {
        Self {
            enabled: wanted && rng.below(16) != 0,
            value: false,
        }
    }

    /// A packet with the largest number so far arrived.
    pub(crate) fn on_largest(&mut self, received: bool, is_client: bool) {
        self.value = received != is_client;
    }

    /// The bit for the next packet.
    pub(crate) fn value(self) -> bool {
        self.enabled && self.value
    }

    /// A new network path starts from zero.
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
            network: NetworkPath::new(four_tuple),
            previous: None,
            probe: None,
            local_cids: LocalCids::new(),
            remote_cids: RemoteCids::new(remote_cid, config.active_connection_id_limit.max(2)),
            mtu,
            pending: PathPending::default(),
            last_received: None,
            spin: SpinBit::new(config.spin_bit, rng),
            ack_frequency: AckFrequencyState::default(),
            pacing_until: None,
        }
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

    /// Whether MTU probes make sense: not while the address itself is in question.
    pub(crate) fn may_probe_mtu(&self) -> bool {
        self.network.is_validated() && !self.network.is_validating()
    }

    /// When anything about validation or MTU discovery needs attention.
    pub(crate) fn timer(&self) -> Option<Instant> {
        let networks = [
            Some(&self.network),
            self.previous.as_ref(),
            self.probe.as_ref(),
        ];
        networks
            .into_iter()
            .flatten()
            .filter_map(|network| network.validation_timer())
            .chain(self.mtu.timer().filter(|_| self.may_probe_mtu()))
            .min()
    }
}
