//! 1-RTT packet protection: key phases, key updates, AEAD limits. RFC 9001 s6.
//!
//! Both directions change keys together. A phase is numbered from 0; its lowest bit is the Key
//! Phase bit on the wire. One set of keys serves all paths, the limits count over all of them
//! (RFC 10069 s2.4), but the order of packets, by which old and new keys are told apart, exists
//! only within a path.

use std::{fmt, time::Duration};

use smallvec::SmallVec;

use super::{
    HeaderProtectionKey, Keys, NextKeys, PacketKey, TAG_LEN, open_in_place, seal_in_place,
};
use crate::{
    error::TransportError,
    time::Instant,
    units::{PacketNumber, PathId},
};

/// Three PTOs before any RTT sample: 3 x (333 ms + 4 x 166.5 ms). RFC 9002 s6.2.2.
const INITIAL_RETENTION: Duration = Duration::from_millis(2_997);

/// A packet that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Length of the plaintext at the start of the payload.
    pub len: usize,
    /// The key phase that protected it; hand it to [`OneRttKeys::on_acked`] with each ACK frame
    /// inside.
    pub phase: u64,
    /// Whether this packet made both directions change keys: the peer updated.
    pub peer_updated: bool,
}

/// Why a packet was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Not authentic, or its keys are gone: drop the packet.
    #[error("packet is not authentic")]
    Drop,
    /// Close the connection: KEY_UPDATE_ERROR or AEAD_LIMIT_REACHED.
    #[error(transparent)]
    Close(#[from] TransportError),
}

/// Why an update must wait. Not an error of anyone's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateBlocked {
    /// The handshake is not confirmed.
    #[error("the handshake is not confirmed")]
    HandshakeNotConfirmed,
    /// No packet of this phase was acknowledged yet.
    #[error("the peer has not acknowledged the current keys")]
    PhaseNotConfirmed,
    /// Less than three PTOs since the current keys were confirmed.
    #[error("the last update is too recent")]
    TooSoon,
    /// The next keys could not be derived.
    #[error("no further keys")]
    NoKeys,
}

/// Packets of one path, as far as they tell phases apart.
#[derive(Clone, Copy, Debug)]
struct PathOrder {
    path: PathId,
    /// First number sent in the current phase.
    first_sent: Option<PacketNumber>,
    /// Lowest and highest number received in the current phase.
    received: Option<(PacketNumber, PacketNumber)>,
    /// Highest number received in any earlier phase.
    highest_older: Option<PacketNumber>,
}

/// Keys of the phase before, for packets that were overtaken.
struct Previous {
    remote: Box<dyn PacketKey>,
    /// When to drop it; unknown until the peer is seen to use the current phase.
    drop_at: Option<Instant>,
}

/// Which keys a received packet calls for.
enum Candidate {
    Current,
    Previous,
    Next,
}

/// The keys of 1-RTT packets in both directions.
pub struct OneRttKeys {
    local_header: Box<dyn HeaderProtectionKey>,
    remote_header: Box<dyn HeaderProtectionKey>,
    local: Box<dyn PacketKey>,
    remote: Box<dyn PacketKey>,
    /// (local, remote) of the phase to come. Derived when first wanted, so that a connection that
    /// never updates pays for none; from then on always ready, so that a packet that brings an
    /// update takes no longer than another (RFC 9001 s9.5).
    next: Option<(Box<dyn PacketKey>, Box<dyn PacketKey>)>,
    secrets: Box<dyn NextKeys>,
    previous: Option<Previous>,
    phase: u64,
    handshake_confirmed: bool,
    /// Whether a packet of the current phase was acknowledged, in a phase no older.
    phase_confirmed: bool,
    /// Three times the largest PTO over all paths.
    retention: Duration,
    /// Before this we do not start another update.
    update_not_before: Instant,
    /// Packets sealed in the current phase, over all paths.
    sealed: u64,
    /// Packets that failed authentication in the connection's life, over all paths.
    failed: u64,
    confidentiality_limit: u64,
    integrity_limit: u64,
    paths: SmallVec<[PathOrder; 1]>,
}

impl OneRttKeys {
    /// Key phase 0.
    pub fn new(keys: Keys, secrets: Box<dyn NextKeys>) -> Self {
        let confidentiality_limit = keys.local.packet.confidentiality_limit();
        let integrity_limit = keys.remote.packet.integrity_limit();
        Self {
            local_header: keys.local.header,
            remote_header: keys.remote.header,
            local: keys.local.packet,
            remote: keys.remote.packet,
            next: None,
            secrets,
            previous: None,
            phase: 0,
            handshake_confirmed: false,
            phase_confirmed: false,
            retention: INITIAL_RETENTION,
            update_not_before: Instant::ZERO,
            sealed: 0,
            failed: 0,
            confidentiality_limit,
            integrity_limit,
            paths: SmallVec::new(),
        }
    }

    /// Tighter limits than the AEAD's: packets sealed per phase, and failed opens in all.
    #[must_use]
    pub fn with_limits(mut self, confidentiality: u64, integrity: u64) -> Self {
        self.confidentiality_limit = self.confidentiality_limit.min(confidentiality);
        self.integrity_limit = self.integrity_limit.min(integrity);
        self
    }

    /// Masks headers of packets we send.
    pub fn local_header(&self) -> &dyn HeaderProtectionKey {
        self.local_header.as_ref()
    }

    /// Unmasks headers of packets we receive.
    pub fn remote_header(&self) -> &dyn HeaderProtectionKey {
        self.remote_header.as_ref()
    }

    /// The Key Phase bit of the next packet sent.
    pub fn key_phase(&self) -> bool {
        self.phase & 1 == 1
    }

    /// The current phase, from 0.
    pub fn phase(&self) -> u64 {
        self.phase
    }

    /// Packets sealed with the current keys.
    pub fn sealed_packets(&self) -> u64 {
        self.sealed
    }

    /// Packets that failed authentication.
    pub fn failed_packets(&self) -> u64 {
        self.failed
    }

    /// The handshake is confirmed (RFC 9001 s4.1.2): updates may begin.
    pub fn on_handshake_confirmed(&mut self) {
        self.handshake_confirmed = true;
    }

    /// How long old keys stay after the peer's first packet under new ones, and how long a new
    /// phase lasts at least: three times the largest PTO over all paths (RFC 9001 s6.5, RFC 10069
    /// s2.4). Call when PTOs change, and before [`initiate_update`](Self::initiate_update).
    pub fn set_retention(&mut self, three_ptos: Duration) {
        self.retention = three_ptos;
    }

    /// Length of the tag that ends a packet, in bytes.
    pub fn tag_len(&self) -> usize {
        TAG_LEN
    }

    /// Seals a packet with the current keys. `payload_and_tag` is plaintext and 16 bytes of room.
    ///
    /// The header must carry [`key_phase`](Self::key_phase), and packet numbers must grow on each
    /// path.
    ///
    /// # Errors
    /// AEAD_LIMIT_REACHED when these keys may seal no more (RFC 9001 s6.6).
    pub fn seal(
        &mut self,
        path: PathId,
        pn: PacketNumber,
        header: &[u8],
        payload_and_tag: &mut [u8],
    ) -> Result<(), TransportError> {
        if self.sealed >= self.confidentiality_limit {
            return Err(TransportError::aead_limit("confidentiality limit"));
        }
        self.sealed += 1;
        self.order(path).first_sent.get_or_insert(pn);
        seal_in_place(self.local.as_ref(), path, pn, header, payload_and_tag)
    }

    /// Opens a packet in place. `payload` is ciphertext and tag; `phase_bit` comes from the
    /// unmasked first byte.
    ///
    /// # Errors
    /// [`OpenError::Drop`] to drop the packet; KEY_UPDATE_ERROR when old and new keys
    /// come in an order that packet numbers contradict, or when the peer updates twice without
    /// having heard from us (RFC 9001 s6.2, s6.4); AEAD_LIMIT_REACHED after too many forgeries.
    pub fn open(
        &mut self,
        now: Instant,
        path: PathId,
        pn: PacketNumber,
        phase_bit: bool,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Opened, OpenError> {
        let candidate = self.candidate(now, path, pn, phase_bit);
        let key = match candidate {
            Candidate::Current => Some(&self.remote),
            Candidate::Previous => self.previous.as_ref().map(|previous| &previous.remote),
            Candidate::Next => {
                self.prepare_next();
                self.next.as_ref().map(|(_, remote)| remote)
            }
        };
        let key = key.ok_or(OpenError::Drop)?;
        let Some(len) = open_in_place(key.as_ref(), path, pn, header, payload) else {
            self.failed += 1;
            if self.failed >= self.integrity_limit {
                return Err(TransportError::aead_limit("integrity limit").into());
            }
            return Err(OpenError::Drop);
        };
        match candidate {
            Candidate::Current => {
                self.received_current(now, path, pn)?;
                Ok(Opened {
                    len,
                    phase: self.phase,
                    peer_updated: false,
                })
            }
            Candidate::Previous => {
                let order = self.order(path);
                order.highest_older = order.highest_older.max(Some(pn));
                Ok(Opened {
                    len,
                    phase: self.phase.saturating_sub(1),
                    peer_updated: false,
                })
            }
            Candidate::Next => {
                self.peer_updated(now, path, pn)?;
                Ok(Opened {
                    len,
                    phase: self.phase,
                    peer_updated: true,
                })
            }
        }
    }

    fn candidate(
        &mut self,
        now: Instant,
        path: PathId,
        pn: PacketNumber,
        phase_bit: bool,
    ) -> Candidate {
        if phase_bit == self.key_phase() {
            return Candidate::Current;
        }
        self.on_timeout(now);
        if self.previous.is_none() {
            return Candidate::Next;
        }
        // The other bit means the phase before for packets sent before any of the current phase.
        // A path on which nothing of the current phase arrived may still be in the old one: while
        // old keys are kept, the peer cannot rightly be two phases on.
        match self.find(path).and_then(|order| order.received) {
            Some((lowest, _)) if pn >= lowest => Candidate::Next,
            _ => Candidate::Previous,
        }
    }

    fn received_current(
        &mut self,
        now: Instant,
        path: PathId,
        pn: PacketNumber,
    ) -> Result<(), TransportError> {
        let retention = self.retention;
        let order = self.order(path);
        if order.highest_older.is_some_and(|older| pn < older) {
            return Err(TransportError::key_update("old keys after new ones"));
        }
        order.received = Some(match order.received {
            Some((lowest, highest)) => (lowest.min(pn), highest.max(pn)),
            None => (pn, pn),
        });
        if let Some(previous) = &mut self.previous {
            previous.drop_at.get_or_insert(now + retention);
        }
        Ok(())
    }

    fn peer_updated(
        &mut self,
        now: Instant,
        path: PathId,
        pn: PacketNumber,
    ) -> Result<(), TransportError> {
        if self.sealed == 0 {
            // It cannot have an acknowledgement under the keys it leaves. RFC 9001 s6.2.
            return Err(TransportError::key_update(
                "second update before the first was answered",
            ));
        }
        let highest = self
            .find(path)
            .and_then(|order| order.received)
            .map(|(_, highest)| highest);
        if highest.is_some_and(|highest| pn < highest) {
            return Err(TransportError::key_update("old keys after new ones"));
        }
        self.install_next()
            .map_err(|_| TransportError::internal("no keys for the next phase"))?;
        self.received_current(now, path, pn)
    }

    /// Whether the current keys come near their limit, so that an update is wanted.
    pub fn wants_update(&self) -> bool {
        // A quarter of the limit is left for the time until the update may begin.
        self.sealed >= self.confidentiality_limit - self.confidentiality_limit / 4
    }

    /// Starts a key update if the limit calls for one and the rules allow it. Cheap; call before
    /// building packets. Returns whether the keys changed.
    pub fn update_if_wanted(&mut self, now: Instant) -> bool {
        self.wants_update() && self.initiate_update(now).is_ok()
    }

    /// Changes keys in both directions; the peer follows when it sees the next packet.
    ///
    /// # Errors
    /// Why it must wait. RFC 9001 s6.1, s6.5.
    pub fn initiate_update(&mut self, now: Instant) -> Result<(), UpdateBlocked> {
        if !self.handshake_confirmed {
            return Err(UpdateBlocked::HandshakeNotConfirmed);
        }
        // Asked of phase 0 as well: until the peer acknowledged one of our 1-RTT packets it may
        // not have the keys that an update starts from.
        if !self.phase_confirmed {
            return Err(UpdateBlocked::PhaseNotConfirmed);
        }
        if now < self.update_not_before {
            return Err(UpdateBlocked::TooSoon);
        }
        self.install_next()
    }

    fn prepare_next(&mut self) {
        if self.next.is_none() {
            self.next = self.secrets.next();
        }
    }

    fn install_next(&mut self) -> Result<(), UpdateBlocked> {
        self.prepare_next();
        let (local, remote) = self.next.take().ok_or(UpdateBlocked::NoKeys)?;
        self.local = local;
        let old_remote = std::mem::replace(&mut self.remote, remote);
        self.previous = Some(Previous {
            remote: old_remote,
            drop_at: None,
        });
        self.phase += 1;
        self.phase_confirmed = false;
        self.sealed = 0;
        for order in &mut self.paths {
            order.first_sent = None;
            let highest = order.received.take().map(|(_, highest)| highest);
            order.highest_older = order.highest_older.max(highest);
        }
        self.prepare_next();
        Ok(())
    }

    /// The peer acknowledged our packet `pn` of `path`, in an ACK frame that travelled in a packet
    /// of phase `carried_in` ([`Opened::phase`]). Call with the largest newly acknowledged number.
    ///
    /// # Errors
    /// KEY_UPDATE_ERROR when new keys are acknowledged under old ones. RFC 9001 s6.2.
    pub fn on_acked(
        &mut self,
        now: Instant,
        path: PathId,
        pn: PacketNumber,
        carried_in: u64,
    ) -> Result<(), TransportError> {
        let first_sent = self.find(path).and_then(|order| order.first_sent);
        if first_sent.is_none_or(|first| pn < first) {
            return Ok(());
        }
        if carried_in < self.phase {
            return Err(TransportError::key_update(
                "new keys acknowledged under old ones",
            ));
        }
        if !self.phase_confirmed {
            self.phase_confirmed = true;
            if self.phase > 0 {
                self.update_not_before = now + self.retention;
            }
        }
        Ok(())
    }

    /// Whether the peer acknowledged a packet that these keys, in their present phase, protected.
    pub fn is_acknowledged(&self) -> bool {
        self.phase_confirmed || self.phase > 0
    }

    /// When old keys must go, if any are kept.
    pub fn timer(&self) -> Option<Instant> {
        self.previous.as_ref().and_then(|previous| previous.drop_at)
    }

    /// Drops old keys whose time has come.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.timer().is_some_and(|at| now >= at) {
            self.previous = None;
        }
    }

    /// A path is gone for good.
    pub fn forget_path(&mut self, path: PathId) {
        self.paths.retain(|order| order.path != path);
    }

    fn find(&self, path: PathId) -> Option<&PathOrder> {
        self.paths.iter().find(|order| order.path == path)
    }

    #[allow(
        clippy::indexing_slicing,
        reason = "the index was found or made just before"
    )]
    fn order(&mut self, path: PathId) -> &mut PathOrder {
        let index = match self.paths.iter().position(|order| order.path == path) {
            Some(index) => index,
            None => {
                let fresh = PathOrder {
                    path,
                    first_sent: None,
                    received: None,
                    highest_older: None,
                };
                self.paths.push(fresh);
                self.paths.len() - 1
            }
        };
        &mut self.paths[index]
    }
}

impl fmt::Debug for OneRttKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneRttKeys")
            .field("phase", &self.phase)
            .field("phase_confirmed", &self.phase_confirmed)
            .field("sealed", &self.sealed)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
