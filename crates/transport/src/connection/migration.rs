//! Paths that change their addresses, and connection IDs that change with them. RFC 9000 s5.1, s9.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use super::{
    Connection, EndpointEvent, Event,
    rx::{FrameSummary, Received},
};
use crate::{
    error::{ConnectionError, TransportError},
    multipath::abandon,
    observe,
    path::{NetworkPath, Path, PathEvent, PathPhase, Proof},
    time::Instant,
    units::{FourTuple, PathId},
    wire::{ConnectionId, NewConnectionId},
};

/// Connection IDs we issue per path at most, whatever the peer could hold.
pub(super) const ISSUED_IDS: u64 = 4;

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
        if path.network.four_tuple().matches(&from) || path.is_abandoned() {
            return;
        }
        // Only the client may move, only with its newest packet, not by mere probing.
        // RFC 9000 s9.3.
        if self.side.is_client() || !summary.non_probing || !is_largest || !self.life.confirmed {
            return;
        }
        self.migrate(received.now, received.path, from, received.datagram_bytes);
    }

    pub(super) fn pto(path: &Path) -> Duration {
        path.recovery.pto_base()
    }

    /// Moves a path to another network path, which is then validated. `received` bytes came from there.
    fn migrate(&mut self, now: Instant, id: PathId, to: FourTuple, received: usize) {
        self.unreviewed = true;
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let from = path.network.four_tuple();
        let pto = Self::pto(path);
        // What came from a known address was credited on arrival; a new one starts with this much.
        let (mut probed, mut returned) = (false, false);
        let (mut network, fallback) = match path.previous.take() {
            // Back to where we came from: what was proven stays proven.
            Some(previous) if previous.four_tuple().matches(&to) => {
                returned = true;
                (previous, None)
            }
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
        let opening = path.phase == PathPhase::Opening;
        // Of an address that is known already nothing more is asked, unless the path waits for it to open.
        let proven = network.is_validated() && !(opening && network.is_silent());
        if !proven && !network.is_validating() {
            network.start_validation(now, pto);
        }
        let mut old = std::mem::replace(&mut path.network, network);
        let keeps_old = old.is_validated();
        path.previous = if keeps_old {
            // An attacker may have copied a packet: ask the old address too, once however often
            // the path goes to and fro. RFC 9000 s9.3.3.
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
            path.reset_mtu();
            if !path.network.is_validated() {
                // Forgotten only once the address is proven: each step to and fro would else open
                // a new window.
                path.starts_over = true;
            } else if returned && path.starts_over {
                path.starts_over = false;
            } else {
                path.start_over(now);
            }
        }
        path.spin.reset();
        // Without a spare ID the present one goes on: the peer, or a NAT on its way, chose to
        // move, and our own address is what it was. RFC 9000 s9.5.
        // An address that is still asked keeps the ID it knows.
        let keep = keeps_old;
        let renamed = if returned {
            path.remote_cids.return_to_previous(keep)
        } else if probed {
            path.remote_cids.adopt_probe(keep)
        } else {
            path.remote_cids.rotate(keep)
        };
        if path.previous.is_none() {
            path.forget_previous();
        }
        path.mtu.forget_before(path.space.peek_packet_number());
        if renamed {
            self.announce_reset_token(id);
        }
        self.outbox
            .push(Event::Path(PathEvent::Migrated { path: id, to }));
        self.observer
            .emit(now, || observe::Event::PathMigrated { path: id, from, to });
        self.open_if_proven(now, id);
    }

    /// A path that was about to open has moved to an address that had been proven beside it: no further
    /// answer will come that could tell.
    fn open_if_proven(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let network = &path.network;
        if path.phase != PathPhase::Opening || !network.is_validated() || network.is_validating() {
            return;
        }
        let to = network.four_tuple();
        path.open();
        path.forget_previous();
        self.count_paths();
        self.tell_validated(now, id, to);
    }

    fn tell_validated(&mut self, now: Instant, id: PathId, to: FourTuple) {
        self.outbox
            .push(Event::Path(PathEvent::Validated { path: id, to }));
        self.observer
            .emit(now, || observe::Event::PathValidated { path: id, to });
    }

    pub(super) fn announce_reset_token(&mut self, id: PathId) {
        if let Some(path) = self.paths.get(id)
            && let Some(token) = path.remote_cids.active().token
        {
            let remote = path.network.four_tuple().remote;
            self.outbox.endpoint(EndpointEvent::ResetToken {
                path: id,
                remote,
                token,
            });
        }
    }

    pub(crate) fn on_path_challenge(
        &mut self,
        received: &Received,
        data: [u8; 8],
    ) -> Result<(), TransportError> {
        let limit = self.config.limits.pending_path_responses;
        let bytes = received.datagram_bytes;
        let path = self.paths.get_mut(received.path);
        // Nothing leaves on an abandoned path, not even answers.
        let Some(path) = path.filter(|path| !path.is_abandoned()) else {
            return Ok(());
        };
        // The answer goes back where the challenge came from. RFC 9000 s8.2.2.
        let accepted = match path.network_mut(&received.four_tuple) {
            Some(network) => network.on_challenge(data, limit),
            None => {
                // One address beside the one in use at a time.
                let free = !path.probe.as_ref().is_some_and(NetworkPath::is_busy);
                if free {
                    let pto = Self::pto(path);
                    let mut probe = NetworkPath::new(received.four_tuple);
                    probe.amplification.on_received(bytes);
                    probe.on_challenge(data, limit);
                    if self.side.is_server() {
                        // The client may move there: prove the address while it asks.
                        // RFC 9000 s9.1.
                        probe.start_validation(received.now, pto);
                    }
                    path.remote_cids.drop_probe();
                    path.probe = Some(probe);
                }
                free
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
        by: PathId,
        data: &[u8; 8],
    ) -> Result<(), TransportError> {
        for index in 0..self.paths.len() {
            let Some(id) = self.paths.id_at(index) else {
                continue;
            };
            let path = self.paths.get_mut(id);
            let Some(path) = path.filter(|path| !path.is_abandoned()) else {
                continue;
            };
            let pto = Self::pto(path);
            let took = path.network.answered_in(now, data);
            if let Some(proof) = path.network.on_response(now, pto, data) {
                let to = path.network.four_tuple();
                if path.starts_over {
                    path.start_over(now);
                    self.fec.forget_path(id);
                }
                if proof == Proof::Address {
                    // Until full datagrams are known to arrive, the old address is kept.
                    return Ok(());
                }
                path.forget_previous();
                // An answer returns on the path of its challenge. RFC 10069 s3.1.
                let early = std::mem::take(&mut path.opened_early);
                path.answered_in = took.filter(|_| by == id && !early);
                path.open();
                self.count_paths();
                self.tell_validated(now, id, to);
                return Ok(());
            }
            if path
                .previous
                .as_mut()
                .is_some_and(|previous| previous.on_response(now, pto, data).is_some())
            {
                return Ok(());
            }
            if let Some(proof) = path
                .probe
                .as_mut()
                .and_then(|probe| probe.on_response(now, pto, data))
            {
                if proof == Proof::Path {
                    self.adopt_probe(now, id);
                }
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
        // What the server has under way to and from its former address still counts.
        // RFC 9000 s9.6.2.
        path.previous_until = Some(now + 3 * Self::pto(path));
        path.previous = Some(std::mem::replace(&mut path.network, probe));
        path.start_over(now);
        path.spin.reset();
        path.pending.ping = true;
        path.remote_cids.adopt_probe(true);
        self.announce_reset_token(id);
        self.outbox
            .push(Event::Path(PathEvent::Migrated { path: id, to }));
        self.outbox
            .push(Event::Path(PathEvent::Validated { path: id, to }));
        self.observer
            .emit(now, || observe::Event::PathMigrated { path: id, from, to });
        // Its answer is why we moved.
        self.observer
            .emit(now, || observe::Event::PathValidated { path: id, to });
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
        if !path.remote_cids.may_probe() {
            return;
        }
        let mut probe = NetworkPath::new(to);
        probe.amplification.set_validated();
        probe.start_validation(now, Self::pto(path));
        path.probe = Some(probe);
    }

    /// Whether we may send to `remote` from another address than that of the handshake: what the peer rules out
    /// is only that its own address of the handshake sees a new one. RFC 9000 s18.2.
    pub(super) fn peer_lets_us_move(&self, remote: SocketAddr) -> bool {
        !self.peer.disable_active_migration || remote != self.handshake.remote
    }

    pub(crate) fn on_new_connection_id(
        &mut self,
        new: &NewConnectionId,
    ) -> Result<(), TransportError> {
        let id = new.path.unwrap_or(PathId::ZERO);
        let limit = self.config.limits.pending_retire_connection_ids;
        if self.is_cid_of_other_path(id, &new.cid) {
            let error = "connection ID issued for two paths";
            return Err(TransportError::protocol_violation(error));
        }
        let Some(path) = self.paths.get_mut(id) else {
            return self.on_connection_id_of_unopened_path(new);
        };
        if path.is_abandoned() {
            return Ok(());
        }
        if path.remote_cids.active().cid.is_empty() {
            let error = "NEW_CONNECTION_ID while using a zero-length connection ID";
            return Err(TransportError::protocol_violation(error));
        }
        let before = path.remote_cids.active();
        path.remote_cids.on_new(new, limit)?;
        if path.unnamed_until.is_some() && path.remote_cids.rotate(false) {
            path.unnamed_until = None;
        }
        if path.remote_cids.active() != before {
            path.spin.reset();
            self.announce_reset_token(id);
        }
        Ok(())
    }

    /// Whether the peer issued `cid` for a path other than `id`: it must name one path only.
    /// RFC 10069 s3.2.
    fn is_cid_of_other_path(&self, id: PathId, cid: &ConnectionId) -> bool {
        let Some(multipath) = &self.multipath else {
            return false;
        };
        let mut others = self.paths.iter().filter(|other| other.id != id);
        others.any(|other| other.remote_cids.contains(cid)) || multipath.ids.has_remote_cid(cid, id)
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
            return self.on_retirement_of_unopened_path(id, sequence);
        };
        if path.local_cids.on_retire(sequence, &received.dcid)? {
            let left = path.local_cids.len();
            self.outbox
                .endpoint(EndpointEvent::RetireConnectionId { path: id, sequence });
            self.request_connection_ids(id);
            if left <= 1 {
                // Nothing but the one in use is left before we could replace any.
                self.emit_abuse(received.now, observe::Abuse::RetireFlood);
            }
        }
        Ok(())
    }

    /// Asks the endpoint for as many connection IDs as the peer will hold.
    pub(crate) fn request_connection_ids(&mut self, id: PathId) {
        if self.endpoint.connection_id_length == 0 {
            return;
        }
        let wanted = self.peer.active_connection_id_limit.min(ISSUED_IDS);
        let path = self.paths.get(id);
        // Nobody will use more of an abandoned path. RFC 10069 s3.4.
        let Some(path) = path.filter(|path| !path.is_abandoned()) else {
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
        if self.forget_path_if_due(now, id) {
            return;
        }
        let path = self.paths.get_mut(id);
        let Some(path) = path.filter(|path| !path.is_abandoned()) else {
            return;
        };
        path.unnamed_until.take_if(|until| now >= *until);
        path.mtu.on_timeout(now);
        if path.previous_until.is_some_and(|until| now >= until) {
            path.forget_previous();
        }
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
            // Where only the size is in doubt, a silent old address is no better.
            let proven = path.network.is_validated();
            let back = path
                .previous
                .take()
                .filter(|previous| previous.is_validated() && !(proven && previous.is_silent()));
            // An address proven before, to which the peer returned, may stay though it is silent.
            let opening = path.phase == PathPhase::Opening;
            let alone = back.is_none() && (opening || !path.network.is_validated());
            path.previous_until = None;
            if let Some(previous) = back {
                path.network = previous;
                path.remote_cids.return_to_previous(false);
                path.mtu.forget_before(path.space.peek_packet_number());
                if std::mem::take(&mut path.starts_over) {
                    path.reset_mtu();
                } else {
                    path.start_over(now);
                }
            } else {
                path.forget_previous();
            }
            self.outbox
                .push(Event::Path(PathEvent::ValidationFailed { path: id, to }));
            self.observer
                .emit(now, || observe::Event::PathValidationFailed {
                    path: id,
                    to,
                });
            let code = abandon::PATH_UNSTABLE_OR_POOR;
            if alone && self.abandon_beside(now, id, code, |_| true).is_err() {
                // No other path is left. A client that moved stays: its server may yet answer.
                if self.side.is_server() {
                    let error = "the peer's new address did not answer";
                    self.die(now, ConnectionError::NoViablePath(error));
                } else if opening {
                    let error = "the last path could not be opened";
                    self.die(now, ConnectionError::NoViablePath(error));
                }
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
    let usable = |to: &SocketAddr| to.port() != 0 && *to != remote && may_lead_to(remote, *to);
    let path = |local: SocketAddr, to: Option<SocketAddr>| {
        let remote = to.filter(usable)?;
        Some(FourTuple { local, remote })
    };
    let both = current.bound_to_both_families();
    [path(local, same), both.and_then(|both| path(both, other))]
}

/// Whether a server at `from` may send us to `to`: not to many hosts at once, and not from the
/// outside to hosts that only we can reach. RFC 9000 s21.5.3, s21.5.6.
fn may_lead_to(from: SocketAddr, to: SocketAddr) -> bool {
    fn reach(address: IpAddr) -> u8 {
        match address.to_canonical() {
            address if address.is_loopback() => 0,
            IpAddr::V4(address) if address.is_link_local() => 1,
            IpAddr::V6(address) if address.is_unicast_link_local() => 1,
            IpAddr::V4(address) if address.is_private() => 2,
            // Unique local addresses lead nowhere by guessing: whoever names one belongs there.
            _ => 3,
        }
    }
    let address = to.ip().to_canonical();
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !address.is_unspecified()
        && !address.is_multicast()
        && !broadcast
        && reach(address) >= reach(from.ip())
}

/// Whether datagrams can go from a socket bound to `local` to `remote`; a socket bound to no IPv6
/// address in particular reaches IPv4, too.
pub(super) fn can_reach(local: SocketAddr, remote: SocketAddr) -> bool {
    local.is_ipv4() == remote.is_ipv4() || (local.is_ipv6() && local.ip().is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferred_addresses_reach_no_further_inside() {
        let may = |from: &str, to: &str| {
            let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), 443);
            may_lead_to(at(from), at(to))
        };
        for from in ["127.0.0.1", "192.168.0.9", "193.0.0.1", "2001:db8::1"] {
            for to in [
                "224.0.0.1",
                "255.255.255.255",
                "0.0.0.0",
                "ff02::1",
                "::",
                "::ffff:224.0.0.1",
            ] {
                assert!(!may(from, to), "{from} {to}");
            }
            assert!(may(from, "193.0.0.2") && may(from, "2001:db8::2"), "{from}");
        }
        for inside in [
            "127.0.0.1",
            "::1",
            "169.254.169.254",
            "fe80::1",
            "192.168.0.1",
        ] {
            assert!(!may("193.0.0.1", inside), "{inside}");
            assert!(!may("2001:db8::1", inside), "{inside}");
            assert!(may("127.0.0.1", inside), "{inside}");
        }
        assert!(may("10.0.0.1", "192.168.0.1"));
        assert!(may("193.0.0.1", "fd00::1"));
    }
}
