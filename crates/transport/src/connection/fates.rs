//! What acknowledgement and loss of packets mean to each room.

use super::{Connection, handshake::CryptoStreams};
use crate::{
    observe::{self, Observer},
    packet::Token,
    path::MtuDiscovery,
    recovery::{LossHandler, LossTrigger},
    space::{SentPacket, SpaceKind},
    stream::StreamSet,
    time::Instant,
    units::PathId,
};

/// Routes tokens to rooms while recovery walks over packets.
pub(crate) struct FrameFates<'a> {
    pub(crate) now: Instant,
    pub(crate) path: PathId,
    pub(crate) streams: &'a mut StreamSet,
    pub(crate) crypto: &'a mut CryptoStreams,
    pub(crate) mtu: &'a mut MtuDiscovery,
    /// Lost tokens of rooms that are borrowed at the moment.
    pub(crate) deferred: &'a mut Vec<Token>,
    /// Largest packet number of an ACK of ours that the peer has seen.
    pub(crate) acked_ack: Option<(PathId, u64)>,
    /// Datagram size that became usable or necessary.
    pub(crate) new_mtu: Option<u16>,
    pub(crate) observer: &'a mut Observer,
}

impl LossHandler for FrameFates<'_> {
    #[inline]
    fn token_acked(&mut self, kind: SpaceKind, token: Token) {
        match token {
            Token::Ack { path, largest } => {
                if self.acked_ack.is_none_or(|(p, l)| p != path || largest > l) {
                    self.acked_ack = Some((path, largest));
                }
            }
            Token::Crypto { offset, len } => self.crypto.get(kind).on_acked(offset, len),
            Token::HandshakeDone
            | Token::NewToken { .. }
            | Token::AckFrequency { .. }
            | Token::NewConnectionId { .. }
            | Token::RetireConnectionId { .. }
            | Token::Datagram { .. } => {}
            token => self.streams.on_acked(token),
        }
    }

    fn token_lost(&mut self, kind: SpaceKind, token: Token) {
        match token {
            // Application datagrams are never retransmitted. RFC 9221 s5.
            Token::Ack { .. } | Token::Datagram { .. } => {}
            Token::Crypto { offset, len } => self.crypto.get(kind).on_lost(offset, len),
            Token::HandshakeDone
            | Token::NewToken { .. }
            | Token::AckFrequency { .. }
            | Token::NewConnectionId { .. }
            | Token::RetireConnectionId { .. } => self.deferred.push(token),
            token => self.streams.on_lost(token),
        }
    }

    #[inline]
    fn packet_acked(&mut self, kind: SpaceKind, number: u64, packet: &SentPacket) {
        if kind == SpaceKind::Data {
            self.mtu.on_acked(number, packet.bytes);
        }
    }

    fn packet_lost(
        &mut self,
        kind: SpaceKind,
        number: u64,
        packet: &SentPacket,
        trigger: LossTrigger,
    ) {
        if kind == SpaceKind::Data
            && let Some(mtu) = self.mtu.on_lost(self.now, number, packet.bytes)
        {
            self.new_mtu = Some(mtu);
        }
        let path = self.path;
        let bytes = u64::from(packet.bytes);
        self.observer.emit(self.now, || observe::Event::PacketLost {
            kind,
            path,
            number,
            bytes,
            trigger,
        });
    }

    fn mtu_probe_acked(&mut self, bytes: u16) {
        if let Some(mtu) = self.mtu.on_probe_acked(self.now, bytes) {
            self.new_mtu = Some(mtu);
        }
    }

    fn mtu_probe_lost(&mut self, bytes: u16) {
        self.mtu.on_probe_lost(self.now, bytes);
    }
}

impl Connection {
    /// Hands over what could not be routed while the path was borrowed.
    pub(crate) fn apply_deferred(&mut self, kind: SpaceKind, acked_ack: Option<(PathId, u64)>) {
        if let Some((path, largest)) = acked_ack {
            let space = match kind {
                SpaceKind::Initial => self.spaces.initial.as_mut(),
                SpaceKind::Handshake => self.spaces.handshake.as_mut(),
                SpaceKind::Data => self.paths.get_mut(path).map(|path| &mut path.space),
            };
            if let Some(space) = space {
                space.received.on_ack_acked(largest);
            }
        }
        if self.scratch.deferred.is_empty() {
            return;
        }
        let mut deferred = std::mem::take(&mut self.scratch.deferred);
        for token in deferred.drain(..) {
            match token {
                Token::HandshakeDone => self.control.handshake_done = true,
                Token::NewToken { index } => self.control.resend_token(index),
                Token::NewConnectionId { path, sequence } => {
                    if let Some(path) = self.paths.get_mut(path) {
                        path.local_cids.resend(sequence);
                    }
                }
                Token::RetireConnectionId { path, sequence } => {
                    if let Some(path) = self.paths.get_mut(path) {
                        path.remote_cids.resend_retirement(sequence);
                    }
                }
                // A newer request replaces a lost one; the newest is sent again at its review.
                Token::AckFrequency { sequence } => self.resend_ack_frequency(sequence),
                _ => {}
            }
        }
        self.scratch.deferred = deferred;
    }
}
