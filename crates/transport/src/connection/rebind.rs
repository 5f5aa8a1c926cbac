//! Our own address changed. RFC 9000 s9.2.
//!
//! Owns: which paths a new local address concerns, and what becomes of them. Does not own: a peer that
//! moves, validation of addresses (`migration.rs`).

use std::net::SocketAddr;

use super::{Connection, Event, migration::can_reach};
use crate::{
    error::ConnectionError,
    multipath::{RebindPathError, abandon},
    observe,
    path::{NetworkPath, PathEvent},
    time::Instant,
    units::{FourTuple, PathId},
};

impl Connection {
    /// The local address changed (another network, a rebound socket): go on from `local`.
    ///
    /// Uses a fresh connection ID, validates the path anew and starts congestion control over.
    /// RFC 9000 s9.2. Where no ID is left (the peer gives none, or the address changes faster than
    /// it can), nothing leaves until one comes; but no longer than a PTO, after which the old one
    /// is used again: the peer could not send us an ID without hearing where we are, and a
    /// connection that can be linked to its past is better than one lost. A connection whose peer
    /// forbids to move (disable_active_migration) is lost with its address, and so is one whose
    /// peer cannot be reached from there.
    ///
    /// Of several paths those move that share [`local_address`](Self::local_address), and those that
    /// wait to be opened from there; the others stay undisturbed, and carry the connection on if those
    /// cannot move. [`rebind_path`](Self::rebind_path) moves one that is named.
    pub fn rebind(&mut self, now: Instant, local: SocketAddr) {
        self.rebind_from(now, self.local_address(), local);
    }

    /// As [`rebind`](Self::rebind) for the paths from `former`: one of several sockets was bound anew.
    pub fn rebind_from(&mut self, now: Instant, former: SocketAddr, local: SocketAddr) {
        if self.is_closed() {
            return;
        }
        let moves = |at: FourTuple| {
            let remote = at.remote;
            at.matches(&FourTuple {
                local: former,
                remote,
            })
        };
        let moving: Vec<PathId> = self
            .paths
            .iter()
            .filter(|path| !path.is_abandoned() && moves(path.network.four_tuple()))
            .map(|path| path.id)
            .collect();
        for id in moving {
            if let Err(error) = self.move_path(now, id, local) {
                self.lose_path(now, id, error);
            }
        }
        if let Some(multipath) = &mut self.multipath {
            multipath.wishes.rebind(former, local);
        }
        self.emit_changes(now);
    }

    /// As [`rebind`](Self::rebind) for path `id` alone: its socket or interface got another address.
    ///
    /// # Errors
    /// [`RebindPathError`]; the path is left as it is.
    pub fn rebind_path(
        &mut self,
        now: Instant,
        id: PathId,
        local: SocketAddr,
    ) -> Result<(), RebindPathError> {
        if self.is_closed() {
            return Err(RebindPathError::UnknownPath);
        }
        let moved = self.move_path(now, id, local);
        self.emit_changes(now);
        moved
    }

    fn move_path(
        &mut self,
        now: Instant,
        id: PathId,
        local: SocketAddr,
    ) -> Result<(), RebindPathError> {
        let path = self.paths.get(id).filter(|path| !path.is_abandoned());
        let from = path
            .map(|path| path.network.four_tuple())
            .ok_or(RebindPathError::UnknownPath)?;
        if !self.peer_lets_us_move(from.remote) {
            return Err(RebindPathError::MigrationDisabled);
        }
        let path = self.paths.get_mut(id).ok_or(RebindPathError::UnknownPath)?;
        if !can_reach(local, from.remote) {
            return Err(RebindPathError::BadAddress);
        }
        let to = FourTuple {
            local,
            remote: from.remote,
        };
        let mut network = NetworkPath::new(to);
        // The server's address was proven by the handshake; only ours is new to it.
        network.amplification.set_validated();
        // What the handshake's packets prove until it is confirmed, nothing does of a further path.
        if self.life.confirmed || id != PathId::ZERO {
            let pto = Self::pto(path);
            network.start_validation(now, pto);
            if path.remote_cids.rotate(false) || path.remote_cids.is_nameless() {
                path.unnamed_until = None;
            } else {
                path.unnamed_until.get_or_insert(now + pto);
            }
        }
        path.network = network;
        path.forget_previous();
        path.probe = None;
        path.remote_cids.drop_probe();
        path.start_over(now);
        self.fec.forget_path(id);
        path.pending.ping = true;
        // The first round trip is worth more than a saved ACK.
        path.pending.immediate_ack = true;
        path.spin.reset();
        self.announce_reset_token(id);
        self.outbox
            .push(Event::Path(PathEvent::Migrated { path: id, to }));
        self.observer
            .emit(now, || observe::Event::PathMigrated { path: id, from, to });
        Ok(())
    }

    /// A path that lost its address cannot go on; the connection can, if others are left.
    fn lose_path(&mut self, now: Instant, id: PathId, why: RebindPathError) {
        let code = abandon::PATH_UNSTABLE_OR_POOR;
        if self.abandon_beside(now, id, code, |_| true).is_ok() {
            return;
        }
        let error = match why {
            RebindPathError::MigrationDisabled => "the peer does not allow migration",
            _ => "the new local address is of another family than the peer's",
        };
        self.die(now, ConnectionError::NoViablePath(error));
    }
}
