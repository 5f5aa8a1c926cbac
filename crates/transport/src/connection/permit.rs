//! What may leave on a path at this moment.
//!
//! Owns: [`Permit`], what amplification, congestion and pacing together allow, how deadlines hurry the
//! pacer. Does not own: each of these (`path/`, `recovery/`, `message/`), what then leaves (`tx.rs`).

use super::{Connection, messages::one_way_delay, tx::MIN_PACKET_ROOM};
use crate::{
    observe,
    path::{MIN_DATAGRAM, Path},
    space::PacketNumberSpace,
    time::Instant,
    tls::Level,
    units::PathId,
};

/// What congestion, pacing and amplification allow on a path right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    /// Anything.
    Full,
    /// What proves a path, and packets that do not count as in flight.
    Validation,
    /// Initial and Handshake packets, and packets that do not count as in flight.
    Handshake,
    /// Only packets that do not count as in flight.
    AcksOnly,
    /// Nothing.
    Blocked,
}

impl Permit {
    /// Whether packets of `level` may carry more than acknowledgements.
    pub(super) fn is_full(self, level: Level) -> bool {
        match self {
            Self::Full => true,
            Self::Handshake => matches!(level, Level::Initial | Level::Handshake),
            Self::Validation | Self::AcksOnly | Self::Blocked => false,
        }
    }
}

/// What a packet takes beside the stream data in it, at most for what is usual.
pub(super) const PACKET_OVERHEAD: u64 = MIN_PACKET_ROOM as u64;

impl Connection {
    /// The size of the next datagram on a path: a full one; where the window has no room for that, what room it
    /// has, if that is enough for all stream data that waits, or nothing is acknowledged for a while. The end of
    /// an answer need not wait a round trip for room that it does not use, nor room a round trip for data.
    pub(super) fn datagram_size(&self, now: Instant, id: PathId) -> usize {
        let Some(path) = self.paths.get(id) else {
            return 0;
        };
        let full = usize::from(path.mtu.datagram_size());
        let room = path.recovery.room();
        if room >= full as u64 || room <= PACKET_OVERHEAD {
            return full;
        }
        let waiting = self.streams.waiting_bytes(room);
        let fits = waiting + PACKET_OVERHEAD <= room;
        // Where sizes are to tell nothing, only an end may be short.
        let ends = || {
            !self.config.fec.padding
                && path.recovery.last_room(now, &path.space)
                && self.fills_flights(path, 1)
        };
        if waiting > 0 && (fits || ends()) {
            usize::try_from(room).unwrap_or(full)
        } else {
            full
        }
    }

    /// Whether what waits fills the next so many flights: otherwise all is there as soon, whatever goes with this one.
    pub(super) fn fills_flights(&self, path: &Path, flights: u64) -> bool {
        let windows = path.recovery.window().saturating_mul(flights);
        self.streams.waiting_bytes(windows) >= windows
    }

    /// What may be sent on a path now. `batching` skips the pacer, which was asked for the batch.
    pub(super) fn permit(
        &mut self,
        now: Instant,
        id: PathId,
        mtu: usize,
        batching: bool,
    ) -> Permit {
        let in_the_way =
            |path: &Path| path.mtu.early_probe().is_some() && !path.recovery.can_send(mtu as u64);
        if self.paths.get(id).is_some_and(in_the_way) {
            self.give_up_early_mtu_probe(now, id);
        }
        let Some(path) = self.paths.get_mut(id) else {
            return Permit::Blocked;
        };
        let budget = path.network.amplification.budget();
        if budget < MIN_DATAGRAM || path.cap_room() < mtu as u64 {
            return Permit::Blocked;
        }
        let probing =
            path.pending.probes > 0 || self.handshake_probes.iter().any(|probes| *probes > 0);
        if probing && id == PathId::ZERO || path.pending.probes > 0 {
            return Permit::Full;
        }
        if path.space.is_full() || !path.recovery.can_send(mtu as u64) {
            // A challenge passes, alone: whoever makes the address change must not thereby open
            // the window. RFC 9000 s8.2.2.
            return if path.network.challenge_due(now) {
                Permit::Validation
            } else {
                self.permit_for_handshake(id, mtu)
            };
        }
        if self.config.pacing && !batching && self.messages.in_use() {
            let way = one_way_delay(path.recovery.rtt());
            let mut needed = self.messages.needed_rate(now, way, &self.streams);
            let queued = self.fec.sender.as_ref().map_or(0, |sender| sender.queued());
            if queued > 0 {
                // They leave when it is time, and no pacer knew of them.
                let bytes = u64::from(queued) * mtu as u64;
                needed = needed.max(self.messages.rate_for(bytes, now, way, &self.streams));
            }
            path.recovery.set_least_rate(needed);
        }
        if self.config.pacing
            && !batching
            && let Some(at) = path.recovery.next_send_time(now, mtu as u64)
        {
            if path.network.wants_packet(now) {
                return Permit::Validation;
            }
            path.pacing_until = Some(at);
            let name = path.recovery.congestion().name();
            self.observer.emit(now, || observe::Event::PolicyDecision {
                policy: "pacing",
                name,
                path: Some(id),
                decision: "wait",
                values: [Some(at.saturating_since(now).as_secs_f64()), None],
            });
            return Permit::AcksOnly;
        }
        Permit::Full
    }

    /// What may leave although the congestion window is full.
    ///
    /// Until the handshake is confirmed, nothing tells the fate of early 0-RTT and 1-RTT data: no
    /// PTO runs for it (RFC 9002 s6.2.1), and the peer may lack the keys to acknowledge it. Were
    /// the handshake to wait for room behind it, neither would ever move. So the handshake's own
    /// packets alone count against the window here.
    fn permit_for_handshake(&self, id: PathId, mtu: usize) -> Permit {
        if self.life.confirmed || id != PathId::ZERO {
            return Permit::AcksOnly;
        }
        let in_flight: u64 = [&self.spaces.initial, &self.spaces.handshake]
            .into_iter()
            .flatten()
            .map(PacketNumberSpace::bytes_in_flight)
            .sum();
        let window = self.paths.get(id).map_or(0, |path| path.recovery.window());
        if in_flight + mtu as u64 <= window {
            Permit::Handshake
        } else {
            Permit::AcksOnly
        }
    }
}
