//! Paths that change their addresses, and connection IDs that change with them. RFC 9000 s5.1, s9.

use std::{net::SocketAddr, time::Duration};

use super::{
    Connection, EndpointEvent, Event,
    rx::{FrameSummary, Received},
};
use crate::{
    error::{ConnectionError, TransportError},
    observe,
    path::{NetworkPath, Path, PathEvent},
    time::Instant,
    units::{FourTuple, PathId},
    wire::NewConnectionId,
};

/// Connection IDs we issue per path at most, whatever the peer could hold.
const ISSUED_IDS: u64 = 4;

impl Connection {
    /// Decides whether a packet from another address moves the path.
    pub(crate) fn check_migration(
        &mut self,
        received: &Received,
        summary: FrameSummary,
        is_largest: bool,
    ) {
        let from = received.four_tuple;
        let Some(path) = self.paths.get(received.path) else {
            return;
        };
        if path.network.four_tuple().matches(&from) {
            return;
        }
        // Only the client may move, only with its newest packet, not by mere probing.
        // RFC 9000 s9.3.
        if self.side.is_client() || !summary.non_probing || !is_largest || !self.life.confirmed {
            return;
        }
        self.migrate(received.now, received.path, from, received.datagram_bytes);
    }

    fn pto(path: &Path) -> Duration {
        path.recovery.rtt().pto_base()
    }

    /// Moves a path to another network path, which is then validated. `received` bytes came from there.
    fn migrate(&mut self, now: Instant, id: PathId, to: FourTuple, received: usize) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let from = path.network.four_tuple();
        let pto = Self::pto(path);
        // What came from a known address was credited on arrival; a new one starts with this much.
        let mut probed = false;
        let (mut network, fallback) = match path.previous.take() {
            // Back to where we came from: what was proven stays proven.
            Some(previous) if previous.four_tuple().matches(&to) => (previous, None),
            previous => {
                let probe = path.probe.take_if(|probe| probe.four_tuple().matches(&to));
                probed = probe.is_some();
                let network = probe.unwrap_or_else(|| {
                    let mut network = NetworkPath::new(to);
                    network.amplification.on_received(received);
                    network
                });
                (network, previous)
            }
        };
        if !network.is_validated() && !network.is_validating() {
            network.start_validation(now, pto);
        }
        let mut old = std::mem::replace(&mut path.network, network);
        path.previous = if old.is_validated() {
            // An attacker may have copied a packet: ask the old address too. RFC 9000 s9.3.3.
            old.start_validation(now, pto);
            Some(old)
        } else {
            // The last proven address stays the one to fall back to, however many unproven ones
            // follow each other. RFC 9000 s9.3.2.
            fallback
        };
        if from.remote.ip() != to.remote.ip() || from.local.ip() != to.local.ip() {
            // Another address is another path; only a changed port keeps what is known.
            // RFC 9000 s9.4.
            path.recovery.reset_for_new_network_path(now);
            path.mtu.reset();
            path.recovery.on_mtu(path.mtu.current());
        }
        path.spin.reset();
        let renamed = if probed {
            path.remote_cids.adopt_probe()
        } else {
            path.remote_cids.rotate()
        };
        if renamed {
            self.announce_reset_token(id);
        }
        self.outbox
            .push(Event::Path(PathEvent::Migrated { path: id, to }));
        self.observer
            .emit(now, || observe::Event::PathMigrated { path: id, from, to });
    }

    fn announce_reset_token(&mut self, id: PathId) {
        if let Some(path) = self.paths.get(id)
            && let Some(token) = path.remote_cids.active().token
        {
            let remote = path.network.four_tuple().remote;
            self.outbox
                .endpoint(EndpointEvent::ResetToken { remote, token });
        }
    }

    pub(crate) fn on_path_challenge(
        &mut self,
        received: &Received,
        data: [u8; 8],
    ) -> Result<(), TransportError> {
        let limit = self.config.limits.pending_path_responses;
        let bytes = received.datagram_bytes;
        let Some(path) = self.paths.get_mut(received.path) else {
            return Ok(());
        };
        // The answer goes back where the challenge came from. RFC 9000 s8.2.2.
        let accepted = match path.network_mut(&received.four_tuple) {
            Some(network) => network.on_challenge(data, limit),
            None => {
                if path.probe.as_ref().is_some_and(NetworkPath::is_busy) {
                    return Ok(());
                }
                let pto = Self::pto(path);
                let mut probe = NetworkPath::new(received.four_tuple);
                probe.amplification.on_received(bytes);
                let accepted = probe.on_challenge(data, limit);
                if self.side.is_server() {
                    // The client may move there: prove the address while it asks. RFC 9000 s9.1.
                    probe.start_validation(received.now, pto);
                }
                path.remote_cids.drop_probe();
                path.probe = Some(probe);
                accepted
            }
        };
        if !accepted {
            self.observer.emit(received.now, || observe::Event::Abuse {
                kind: observe::Abuse::PathChallengeFlood,
            });
        }
        Ok(())
    }

    pub(crate) fn on_path_response(
        &mut self,
        now: Instant,
        data: &[u8; 8],
    ) -> Result<(), TransportError> {
        for index in 0..self.paths.len() {
            let Some(id) = self.paths.id_at(index) else {
                continue;
            };
            let Some(path) = self.paths.get_mut(id) else {
                continue;
            };
            if path.network.on_response(data) {
                let to = path.network.four_tuple();
                path.previous = None;
                self.outbox
                    .push(Event::Path(PathEvent::Validated { path: id, to }));
                self.observer
                    .emit(now, || observe::Event::PathValidated { path: id, to });
                return Ok(());
            }
            if path
                .previous
                .as_mut()
                .is_some_and(|previous| previous.on_response(data))
            {
                return Ok(());
            }
            if path
                .probe
                .as_mut()
                .is_some_and(|probe| probe.on_response(data))
            {
                self.adopt_probe(now, id);
                return Ok(());
            }
        }
        // An answer to nothing we asked (any more) is ignored: challenges may be answered late.
        Ok(())
    }

    /// The probed address answered: move there (client, preferred address).
    fn adopt_probe(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        if self.side.is_server() {
            // Kept: the client may be about to move there.
            return;
        }
        let Some(probe) = path.probe.take() else {
            return;
        };
        let (from, to) = (path.network.four_tuple(), probe.four_tuple());
        path.network = probe;
        path.previous = None;
        path.recovery.reset_for_new_network_path(now);
        path.mtu.reset();
        path.recovery.on_mtu(path.mtu.current());
        path.spin.reset();
        path.pending.ping = true;
        path.remote_cids.adopt_probe();
        self.announce_reset_token(id);
        self.outbox
            .push(Event::Path(PathEvent::Migrated { path: id, to }));
        self.outbox
            .push(Event::Path(PathEvent::Validated { path: id, to }));
        self.observer
            .emit(now, || observe::Event::PathMigrated { path: id, from, to });
    }

    /// A client moves to the address the server prefers, once it answers there. RFC 9000 s9.6.
    pub(crate) fn start_preferred_address_probe(&mut self, now: Instant) {
        self.probe_preferred_address(now, None);
    }

    /// Asks the server's preferred address, or the one after `silent`, which did not answer.
    fn probe_preferred_address(&mut self, now: Instant, silent: Option<SocketAddr>) {
        let Some(preferred) = self.peer.preferred_address else {
            return;
        };
        if self.side.is_server() || !self.config.migration {
            return;
        }
        let Some(path) = self.paths.get_mut(PathId::ZERO) else {
            return;
        };
        let candidates = preferred_paths(
            &path.network,
            preferred.v4.map(SocketAddr::V4),
            preferred.v6.map(SocketAddr::V6),
        );
        let mut left = candidates.into_iter().flatten();
        if let Some(silent) = silent {
            // Nothing is left after an address that is not among them: it was no preferred one.
            let _ = left.find(|candidate| candidate.remote == silent);
        }
        let Some(to) = left.next() else {
            return;
        };
        if !path.remote_cids.has_spare() {
            return;
        }
        let mut probe = NetworkPath::new(to);
        probe.amplification.set_validated();
        probe.start_validation(now, Self::pto(path));
        path.probe = Some(probe);
    }

    /// The local address changed (another network, a rebound socket): go on from `local`.
    ///
    /// Uses a fresh connection ID where the peer gave one, validates the path anew and starts
    /// congestion control over. RFC 9000 s9.2. A connection whose peer forbids to move
    /// (disable_active_migration) is lost with its address.
    pub fn rebind(&mut self, now: Instant, local: SocketAddr) {
        if self.is_closed() {
            return;
        }
        if !self.peer_lets_us_move() {
            let error = ConnectionError::NoViablePath("the peer does not allow migration");
            self.die(now, error);
            return;
        }
        let ids: Vec<PathId> = self.paths.iter().map(|path| path.id).collect();
        for id in ids {
            let Some(path) = self.paths.get_mut(id) else {
                continue;
            };
            let from = path.network.four_tuple();
            let to = FourTuple {
                local,
                remote: from.remote,
            };
            let mut network = NetworkPath::new(to);
            // The server's address was proven by the handshake; only ours is new to it.
            network.amplification.set_validated();
            if self.life.confirmed {
                network.start_validation(now, Self::pto(path));
                path.remote_cids.rotate();
            }
            path.network = network;
            path.previous = None;
            path.probe = None;
            path.remote_cids.drop_probe();
            path.recovery.reset_for_new_network_path(now);
            path.mtu.reset();
            path.recovery.on_mtu(path.mtu.current());
            path.pending.ping = true;
            path.spin.reset();
            self.announce_reset_token(id);
            self.outbox
                .push(Event::Path(PathEvent::Migrated { path: id, to }));
            self.observer
                .emit(now, || observe::Event::PathMigrated { path: id, from, to });
        }
    }

    /// Whether we may send from another address than the handshake's. RFC 9000 s9.
    fn peer_lets_us_move(&self) -> bool {
        let remote = self.remote_address();
        let at_preferred = self.peer.preferred_address.as_ref().is_some_and(|to| {
            to.v4.map(SocketAddr::V4) == Some(remote) || to.v6.map(SocketAddr::V6) == Some(remote)
        });
        !self.peer.disable_active_migration || at_preferred
    }

    pub(crate) fn on_new_connection_id(
        &mut self,
        new: &NewConnectionId,
    ) -> Result<(), TransportError> {
        let id = new.path.unwrap_or(PathId::ZERO);
        let limit = self.config.limits.pending_retire_connection_ids;
        let Some(path) = self.paths.get_mut(id) else {
            return Ok(());
        };
        if path.remote_cids.active().cid.is_empty() {
            let error = "NEW_CONNECTION_ID while using a zero-length connection ID";
            return Err(TransportError::protocol_violation(error));
        }
        let before = path.remote_cids.active();
        path.remote_cids.on_new(new, limit)?;
        if path.remote_cids.active() != before {
            self.announce_reset_token(id);
        }
        Ok(())
    }

    pub(crate) fn on_retire_connection_id(
        &mut self,
        received: &Received,
        id: PathId,
        sequence: u64,
    ) -> Result<(), TransportError> {
        if self.endpoint.connection_id_length == 0 {
            let error = "RETIRE_CONNECTION_ID of a zero-length connection ID";
            return Err(TransportError::protocol_violation(error));
        }
        let Some(path) = self.paths.get_mut(id) else {
            return Ok(());
        };
        if path.local_cids.on_retire(sequence, &received.dcid)? {
            self.outbox
                .endpoint(EndpointEvent::RetireConnectionId { path: id, sequence });
            self.request_connection_ids(id);
        }
        Ok(())
    }

    /// Asks the endpoint for as many connection IDs as the peer will hold.
    pub(crate) fn request_connection_ids(&mut self, id: PathId) {
        if self.endpoint.connection_id_length == 0 {
            return;
        }
        let wanted = self.peer.active_connection_id_limit.min(ISSUED_IDS);
        let Some(path) = self.paths.get(id) else {
            return;
        };
        let have = path.local_cids.len() as u64;
        if have < wanted {
            let first_sequence = path.local_cids.next_sequence();
            let count = wanted - have;
            self.outbox.endpoint(EndpointEvent::NeedConnectionIds {
                path: id,
                first_sequence,
                count,
            });
        }
    }

    /// Time for challenges, probes and their failures.
    pub(crate) fn on_path_timeout(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        if let Some(previous) = path.previous.as_mut() {
            // The old address not answering is what a real migration looks like.
            let _ = previous.on_timeout(now);
        }
        let mut silent = None;
        if let Some(probe) = path.probe.as_mut()
            && (probe.on_timeout(now).is_err() || !probe.is_busy() && !probe.is_validated())
        {
            silent = Some(probe.four_tuple().remote);
            path.probe = None;
            path.remote_cids.drop_probe();
        }
        if path.network.on_timeout(now).is_err() {
            let to = path.network.four_tuple();
            let back = path.previous.take().filter(NetworkPath::is_validated);
            // An address proven before, to which the peer returned, may stay though it is silent.
            let alone = back.is_none() && !path.network.is_validated();
            if let Some(previous) = back {
                path.network = previous;
                path.recovery.reset_for_new_network_path(now);
                path.mtu.reset();
                path.recovery.on_mtu(path.mtu.current());
            }
            self.outbox
                .push(Event::Path(PathEvent::ValidationFailed { path: id, to }));
            self.observer
                .emit(now, || observe::Event::PathValidationFailed {
                    path: id,
                    to,
                });
            if alone && self.side.is_server() {
                let error = ConnectionError::NoViablePath("the peer's new address did not answer");
                self.die(now, error);
            }
        }
        if silent.is_some() {
            self.probe_preferred_address(now, silent);
        }
    }
}

/// Where a client may go when the server prefers `v4` and `v6`, best first: the address family
/// that works already, then the other one if the socket has both.
fn preferred_paths(
    current: &NetworkPath,
    v4: Option<SocketAddr>,
    v6: Option<SocketAddr>,
) -> [Option<FourTuple>; 2] {
    let FourTuple { local, remote } = current.four_tuple();
    let (same, other) = if remote.is_ipv4() { (v4, v6) } else { (v6, v4) };
    let usable = |to: &SocketAddr| to.port() != 0 && !to.ip().is_unspecified() && *to != remote;
    let path = |local: SocketAddr, to: Option<SocketAddr>| {
        let remote = to.filter(usable)?;
        Some(FourTuple { local, remote })
    };
    let both = current.bound_to_both_families();
    [path(local, same), both.and_then(|both| path(both, other))]
}
