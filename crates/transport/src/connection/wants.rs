//! Whether there is anything to say.
//!
//! Owns: the question for each level, asked before a packet is begun. Does not own: what may leave now (`permit.rs`), what
//! the packet carries in the end (`tx.rs`).

use super::{Connection, multipath_tx::Load, permit::Permit};
use crate::{space::SpaceKind, time::Instant, tls::Level, units::PathId};

impl Connection {
    /// Whether there is anything to say at `level`.
    pub(super) fn wants(
        &self,
        now: Instant,
        id: PathId,
        level: Level,
        permit: Permit,
        load: Load,
    ) -> bool {
        let full = permit.is_full(level);
        match level {
            Level::Initial | Level::Handshake => {
                let (kind, space, has_keys) = match level {
                    Level::Initial => (
                        SpaceKind::Initial,
                        &self.spaces.initial,
                        self.keys.initial.is_some(),
                    ),
                    _ => (
                        SpaceKind::Handshake,
                        &self.spaces.handshake,
                        self.keys.handshake.is_some(),
                    ),
                };
                let Some(space) = space.as_ref().filter(|_| has_keys) else {
                    return false;
                };
                let crypto = match kind {
                    SpaceKind::Initial => &self.crypto.initial,
                    _ => &self.crypto.handshake,
                };
                space.received.ack_due(now)
                    || full && (crypto.has_pending() || self.probes_wanted(kind) > 0)
            }
            Level::ZeroRtt => {
                full && self.keys.zero_rtt.is_some()
                    && self.side.is_client()
                    && self.keys.one_rtt.is_none()
                    && (self.streams.has_control()
                        || self.streams.has_data_for(load.on(id))
                        || self.datagrams.has_frames_for(load.on(id)))
            }
            Level::OneRtt => self.wants_one_rtt(now, id, permit, load),
        }
    }

    fn wants_one_rtt(&self, now: Instant, id: PathId, permit: Permit, load: Load) -> bool {
        if self.keys.one_rtt.is_none() {
            return false;
        }
        // A client sends 1-RTT packets only once its own handshake is complete.
        if self.side.is_client() && self.is_handshaking() {
            return false;
        }
        let Some(path) = self.paths.get(id) else {
            return false;
        };
        let full = permit == Permit::Full;
        // In bulk the first question is the only one.
        if full && load.takes_data() && self.has_data_for(id, load)
            || self.owes_acks(now, path)
            || self.fec.ack_due()
            || permit == Permit::Validation && path.network.wants_packet(now)
        {
            return true;
        }
        full && (path.pending.ping
            || path.pending.immediate_ack
            || path.pending.probes > 0
            || path.network.wants_packet(now)
            || path.ack_frequency.to_send.is_some()
            || path.local_cids.peek_unsent().is_some() && !path.needs_introduction()
            || path.remote_cids.peek_retirement().is_some()
            || path.status.unsent().is_some())
    }

    /// PTO probes that a space of the handshake still owes.
    fn probes_wanted(&self, kind: SpaceKind) -> u8 {
        match kind {
            SpaceKind::Initial => self.handshake_probes[0],
            SpaceKind::Handshake => self.handshake_probes[1],
            SpaceKind::Data => 0,
        }
    }
}
