//! Header and packet protection of what arrives. RFC 9001 s5.
//!
//! Owns: which keys a packet calls for, whether it is authentic, and the rules that can be checked
//! only then (reserved bits, duplicates). Does not own: AEAD and key phases (`tls/`), what an
//! authentic packet means (`rx.rs`).

use bytes::BytesMut;

use super::{Connection, lifecycle::State, rx::kind_of};
use crate::{
    error::TransportError,
    observe::{Abuse, DropReason},
    space::SpaceKind,
    time::Instant,
    tls::{HeaderProtectionKey, Level, OpenError},
    units::PathId,
    wire::{ConnectionId, Version, decode_packet_number},
};

/// What is known of a packet before its protection is removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protected {
    pub(super) level: Level,
    pub(super) version: Version,
    pub(super) dcid: ConnectionId,
    pub(super) scid: Option<ConnectionId>,
    pub(super) pn_offset: usize,
}

/// Where things are in an opened packet.
pub(super) struct Opened {
    pub(super) number: u64,
    pub(super) header_len: usize,
    pub(super) payload_len: usize,
    pub(super) key_phase: u64,
}

/// Why a packet was not opened.
pub(super) enum Unopened {
    /// Keys are not there yet; worth keeping.
    KeysMissing,
    /// Keys are gone, or the packet is not authentic.
    Drop(DropReason, &'static str),
    /// A rule was broken.
    Close(TransportError),
}

impl Connection {
    /// Removes header and packet protection in place.
    pub(super) fn open(
        &mut self,
        now: Instant,
        path: PathId,
        protected: &Protected,
        packet: &mut BytesMut,
    ) -> Result<Opened, Unopened> {
        let kind = kind_of(protected.level);
        if protected.level == Level::Initial
            && self.side().is_client()
            && protected.version != self.handshake.version
        {
            self.prepare_server_version(protected)?;
        }
        let keys = &self.keys;
        let (header_key, tag_len): (&dyn HeaderProtectionKey, usize) = match protected.level {
            Level::Initial => {
                let keys = match (&keys.initial, &keys.former_initial) {
                    (Some(_), Some((version, former))) if *version == protected.version => former,
                    (Some(current), _) => current,
                    (None, _) => {
                        return Err(Unopened::Drop(
                            DropReason::KeyUnavailable,
                            "Initial keys discarded",
                        ));
                    }
                };
                (keys.remote.header.as_ref(), keys.remote.packet.tag_len())
            }
            Level::Handshake => match &keys.handshake {
                Some(keys) => (keys.remote.header.as_ref(), keys.remote.packet.tag_len()),
                None if self.life.confirmed => {
                    return Err(Unopened::Drop(
                        DropReason::KeyUnavailable,
                        "Handshake keys discarded",
                    ));
                }
                None => return Err(Unopened::KeysMissing),
            },
            Level::ZeroRtt => match &keys.zero_rtt {
                Some(keys) => (keys.header.as_ref(), keys.packet.tag_len()),
                None if self.side.is_client() || keys.one_rtt.is_some() => {
                    return Err(Unopened::Drop(
                        DropReason::KeyUnavailable,
                        "0-RTT not accepted",
                    ));
                }
                None => return Err(Unopened::KeysMissing),
            },
            Level::OneRtt => match &keys.one_rtt {
                // A server must not process 1-RTT packets before the handshake is complete.
                // RFC 9001 s5.7.
                Some(_) if self.life.state == State::Handshake => {
                    return Err(Unopened::KeysMissing);
                }
                Some(keys) => (keys.remote_header(), keys.tag_len()),
                None => return Err(Unopened::KeysMissing),
            },
        };
        let largest = match kind {
            SpaceKind::Initial => self.spaces.initial.as_ref(),
            SpaceKind::Handshake => self.spaces.handshake.as_ref(),
            SpaceKind::Data => self.paths.get(path).map(|path| &path.space),
        }
        .and_then(|space| space.received.largest());
        let (number, header_len) = unmask(packet, protected, header_key, largest)?;
        let first = packet.first().copied().unwrap_or(0);
        let (header, payload) = packet.split_at_mut(header_len);
        if payload.len() < tag_len {
            return Err(Unopened::Drop(DropReason::Malformed, "too short"));
        }
        let mut key_phase = 0;
        let payload_len = match protected.level {
            Level::OneRtt => {
                let keys = self.keys.one_rtt.as_mut();
                let Some(keys) = keys else {
                    return Err(Unopened::KeysMissing);
                };
                let phase = first & 0x04 != 0;
                match keys.open(now, path, number, phase, header, payload) {
                    Ok(opened) => {
                        key_phase = opened.phase;
                        if opened.peer_updated {
                            self.on_peer_key_update(now);
                        }
                        opened.len
                    }
                    Err(OpenError::Drop) => {
                        return Err(Unopened::Drop(
                            DropReason::DecryptionFailure,
                            "not authentic",
                        ));
                    }
                    Err(OpenError::Close(error)) => return Err(Unopened::Close(error)),
                }
            }
            level => {
                let keys = match level {
                    Level::Initial => match (&self.keys.initial, &self.keys.former_initial) {
                        (Some(_), Some((version, former))) if *version == protected.version => {
                            Some(&former.remote)
                        }
                        (current, _) => current.as_ref().map(|keys| &keys.remote),
                    },
                    Level::Handshake => self.keys.handshake.as_ref().map(|keys| &keys.remote),
                    _ => self.keys.zero_rtt.as_ref(),
                };
                let Some(keys) = keys else {
                    return Err(Unopened::KeysMissing);
                };
                match keys.packet.decrypt_in_place(number, header, payload) {
                    Ok(plain) => plain.len(),
                    Err(_) => {
                        return Err(Unopened::Drop(
                            DropReason::DecryptionFailure,
                            "not authentic",
                        ));
                    }
                }
            }
        };
        let reserved = if protected.level == Level::OneRtt {
            0x18
        } else {
            0x0c
        };
        if first & reserved != 0 {
            let error = TransportError::protocol_violation("reserved header bits set")
                .counted_as(Abuse::ReservedBits);
            return Err(Unopened::Close(error));
        }
        if payload_len == 0 {
            let error = TransportError::protocol_violation("packet without frames");
            return Err(Unopened::Close(error));
        }
        let duplicate = match kind {
            SpaceKind::Initial => self.spaces.initial.as_ref(),
            SpaceKind::Handshake => self.spaces.handshake.as_ref(),
            SpaceKind::Data => self.paths.get(path).map(|path| &path.space),
        }
        .map_or(kind != SpaceKind::Data, |space| {
            // The first packet of a path that is not open yet has no space to look into.
            space.received.is_duplicate(number)
        });
        if duplicate {
            return Err(Unopened::Drop(DropReason::Duplicate, "duplicate"));
        }
        Ok(Opened {
            number,
            header_len,
            payload_len,
            key_phase,
        })
    }

    /// A server Initial in another version we speak: the server upgraded. RFC 9368 s2.3.
    fn prepare_server_version(&mut self, protected: &Protected) -> Result<(), Unopened> {
        let former = self
            .keys
            .former_initial
            .as_ref()
            .is_some_and(|(v, _)| *v == protected.version);
        if former {
            return Ok(());
        }
        let speaks = self.endpoint.versions.contains(&protected.version);
        if !speaks || self.handshake.version_settled {
            return Err(Unopened::Drop(
                DropReason::UnsupportedVersion,
                "unexpected version",
            ));
        }
        // Tried beside the current keys; kept only if the packet proves authentic.
        let keys = self.handshake.initial_keys(protected.version);
        self.keys.former_initial = Some((protected.version, keys));
        Ok(())
    }
}

/// Removes header protection. Returns the full packet number and the header's length.
fn unmask(
    packet: &mut BytesMut,
    protected: &Protected,
    key: &dyn HeaderProtectionKey,
    largest: Option<u64>,
) -> Result<(u64, usize), Unopened> {
    let pn_offset = protected.pn_offset;
    let sample_start = pn_offset + 4;
    let sample_len = key.sample_len();
    if packet.len() < sample_start + sample_len {
        return Err(Unopened::Drop(
            DropReason::Malformed,
            "too short for header protection",
        ));
    }
    let (head, sample_on) = packet.split_at_mut(sample_start);
    let sample = sample_on.get(..sample_len).unwrap_or_default();
    let (front, pn_bytes) = head.split_at_mut(pn_offset);
    let Some(first) = front.first_mut() else {
        return Err(Unopened::Drop(DropReason::Malformed, "empty"));
    };
    if key.decrypt_in_place(sample, first, pn_bytes).is_err() {
        return Err(Unopened::Drop(
            DropReason::DecryptionFailure,
            "header protection",
        ));
    }
    let pn_len = usize::from(*first & 0x03) + 1;
    let truncated = pn_bytes
        .iter()
        .take(pn_len)
        .fold(0u64, |number, byte| (number << 8) | u64::from(*byte));
    let number = decode_packet_number(largest, truncated, pn_len);
    Ok((number, pn_offset + pn_len))
}
