//! What acknowledgement and loss of packets mean to each room.

use smallvec::SmallVec;

use super::{Connection, handshake::CryptoStreams, multipath::unopened};
use crate::{
    datagram::DatagramQueue,
    fec::{FecSender, OnLoss},
    observe::{self, Observer},
    packet::Token,
    path::MtuDiscovery,
    recovery::{LossHandler, LossTrigger},
    space::{SentPacket, SpaceKind},
    stream::StreamSet,
    time::Instant,
    units::{PathId, StreamId},
};

/// Packet numbers by path: as many as paths whose acknowledgements went together.
pub(crate) type AckedAcks = SmallVec<[(PathId, u64); 2]>;

/// Routes tokens to rooms while recovery walks over packets.
pub(crate) struct FrameFates<'a> {
    pub(crate) now: Instant,
    pub(crate) path: PathId,
    pub(crate) streams: &'a mut StreamSet,
    pub(crate) crypto: &'a mut CryptoStreams,
    pub(crate) datagrams: &'a mut DatagramQueue,
    pub(crate) mtu: &'a mut MtuDiscovery,
    /// Acknowledged stream tokens, newest first, until [`FrameFates::settle_acked`].
    pub(crate) acked: &'a mut Vec<Token>,
    /// Lost tokens of rooms that are borrowed at the moment.
    pub(crate) deferred: &'a mut Vec<Token>,
    /// Paths whose end the peer has acknowledged.
    pub(crate) ends_heard: &'a mut Vec<PathId>,
    /// Largest packet number of an ACK of ours that the peer has seen, by the path it is about.
    pub(crate) acked_acks: AckedAcks,
    /// Largest sequence number of an ACK_FREQUENCY of ours that the peer has read.
    pub(crate) acked_request: Option<u64>,
    /// Datagram size that became usable or necessary.
    pub(crate) new_mtu: Option<u16>,
    pub(crate) seen: Seen,
    pub(crate) observer: &'a mut Observer,
    /// Who follows source and repair symbols, where packets may carry them.
    pub(crate) fec: Option<&'a mut FecSender>,
    /// What becomes of the tokens behind that of a source symbol, until the end of the packet.
    pub(crate) symbol: Option<OnLoss>,
    /// What is said to be lost goes on another path as well: pinned data does not.
    pub(crate) copies: bool,
    /// Nothing waits, so that a copy whose original is lost need not stand for it alone.
    pub(crate) idle: bool,
}

/// [`FrameFates`] of a connection's rooms and one of its paths, borrowed one by one: the rest of both
/// stays free. `fec`, `symbol`, `copies` and `idle` where they are not `None` or false.
macro_rules! frame_fates {
    ($connection:ident, $path:ident, $now:expr $(, $field:ident: $value:expr)*) => {{
        #[allow(unused_mut, reason = "without fields")]
        let mut fates = $crate::connection::fates::FrameFates {
            now: $now,
            path: $path.id,
            streams: &mut $connection.streams,
            crypto: &mut $connection.crypto,
            datagrams: &mut $connection.datagrams,
            mtu: &mut $path.mtu,
            acked: &mut $connection.scratch.acked,
            deferred: &mut $connection.scratch.deferred,
            ends_heard: &mut $connection.scratch.ends_heard,
            acked_acks: $crate::connection::fates::AckedAcks::new(),
            acked_request: None,
            new_mtu: None,
            seen: $crate::connection::fates::Seen::default(),
            observer: &mut $connection.observer,
            fec: None,
            symbol: None,
            copies: false,
            idle: false,
        };
        $(fates.$field = $value;)*
        fates
    }};
}
pub(super) use frame_fates;

/// What is gathered for events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Packets acknowledged side by side: the first and the last.
    acked: Option<(SpaceKind, u64, u64)>,
    /// Something that the packet under report carried waits to be sent again.
    requeued: bool,
}

/// Stream tokens that are gathered before they are handed over.
const MAX_GATHERED: usize = 256;

impl FrameFates<'_> {
    /// Tells the streams what was acknowledged: oldest first, and neighbours in one piece, so that
    /// a run of packets costs them what one packet does.
    pub(crate) fn settle_acked(&mut self) {
        let mut run: Option<(StreamId, u64, u64, bool)> = None;
        for token in self.acked.drain(..).rev() {
            let Token::Stream {
                id,
                offset,
                len,
                fin,
            } = token
            else {
                continue;
            };
            let end = offset.saturating_add(len.into());
            match &mut run {
                Some((of, _, reached, ended)) if *of == id && *reached == offset => {
                    *reached = end;
                    *ended |= fin;
                }
                _ => {
                    if let Some((of, from, to, ended)) = run.replace((id, offset, end, fin)) {
                        self.streams.on_stream_acked(of, from..to, ended);
                    }
                }
            }
        }
        if let Some((of, from, to, ended)) = run {
            self.streams.on_stream_acked(of, from..to, ended);
        }
    }
}

impl FrameFates<'_> {
    /// Tells of a run of acknowledged packets.
    pub(crate) fn settle_observed(&mut self) {
        let path = self.path;
        if let Some((kind, first, last)) = self.seen.acked.take() {
            self.observer
                .emit(self.now, || observe::Event::PacketsAcked {
                    kind,
                    path,
                    first,
                    last,
                });
        }
    }

    /// Whether erasure correction takes care of a lost token, so that nothing is sent again.
    fn lost_to_erasure_correction(&mut self, token: Token) -> bool {
        let Some(fec) = self.fec.as_deref_mut() else {
            return false;
        };
        match (token, self.symbol) {
            (Token::Symbol { id }, _) => self.symbol = Some(fec.on_symbol_lost(self.now, id)),
            (Token::Repair { number }, _) => fec.on_repair_settled(number, false),
            (_, Some(OnLoss::Nothing)) => {}
            (_, Some(OnLoss::Wait)) => fec.wait(token),
            (_, Some(OnLoss::Resend) | None) => return false,
        }
        true
    }

    #[cold]
    fn observe_acked(&mut self, kind: SpaceKind, number: u64, packet: &SentPacket) {
        let path = self.path;
        if packet.is_lost() {
            self.observer
                .emit(self.now, || observe::Event::PacketSpuriouslyLost {
                    kind,
                    path,
                    number,
                });
        }
        match &mut self.seen.acked {
            Some((_, first, _)) if *first == number + 1 => *first = number,
            Some((_, _, last)) if *last + 1 == number => *last = number,
            _ => {
                self.settle_observed();
                self.seen.acked = Some((kind, number, number));
            }
        }
    }
}

impl LossHandler for FrameFates<'_> {
    fn keeps(&self, token: Token) -> bool {
        self.copies && matches!(token, Token::Stream { id, .. } if self.streams.is_held_to_path(id))
    }

    fn repeats_what_was_copied(&self) -> bool {
        self.idle
    }

    #[inline]
    fn token_acked(&mut self, kind: SpaceKind, token: Token) {
        match token {
            Token::Symbol { id } => {
                let fec = self.fec.as_deref_mut();
                if fec.is_some_and(|fec| fec.on_symbol_acked(id)) {
                    self.symbol = Some(OnLoss::Nothing);
                }
            }
            Token::Repair { number } => {
                if let Some(fec) = self.fec.as_deref_mut() {
                    fec.on_repair_settled(number, true);
                }
            }
            // Counted when the symbol was reported.
            Token::Datagram { .. } if self.symbol == Some(OnLoss::Nothing) => {}
            Token::Ack { path, largest } => {
                let known = self.acked_acks.iter_mut().find(|(known, _)| *known == path);
                match known {
                    Some((_, known)) => *known = largest.max(*known),
                    None => self.acked_acks.push((path, largest)),
                }
            }
            Token::Stream { .. } => {
                if self.acked.len() >= MAX_GATHERED {
                    self.settle_acked();
                }
                self.acked.push(token);
            }
            Token::Crypto { offset, len } => self.crypto.get(kind).on_acked(offset, len),
            Token::AckFrequency { sequence } => {
                self.acked_request = self.acked_request.max(Some(sequence));
            }
            Token::Datagram { .. } => self.datagrams.on_acked(),
            Token::HandshakeDone
            | Token::NewToken { .. }
            | Token::NewConnectionId { .. }
            | Token::RetireConnectionId { .. }
            | Token::MaxPathId
            | Token::PathsBlocked
            | Token::PathCidsBlocked { .. }
            | Token::PathStatus { .. } => {}
            Token::PathAbandon { path } => self.ends_heard.push(path),
            token => self.streams.on_acked(token),
        }
    }

    fn token_lost(&mut self, kind: SpaceKind, token: Token) {
        if self.lost_to_erasure_correction(token) {
            return;
        }
        self.seen.requeued |= !matches!(token, Token::Ack { .. } | Token::Datagram { .. });
        match token {
            Token::Ack { .. } => {}
            // Application datagrams are never retransmitted. RFC 9221 s5.
            Token::Datagram { .. } => self.datagrams.on_lost(),
            Token::Stream { .. } => {
                // What is acknowledged must not be sent again for a loss of another copy.
                self.settle_acked();
                self.streams.on_lost(token);
            }
            Token::Crypto { offset, len } => self.crypto.get(kind).on_lost(offset, len),
            Token::HandshakeDone
            | Token::NewToken { .. }
            | Token::FecWindow { .. }
            | Token::AckFrequency { .. }
            | Token::NewConnectionId { .. }
            | Token::RetireConnectionId { .. }
            | Token::MaxPathId
            | Token::PathsBlocked
            | Token::PathCidsBlocked { .. }
            | Token::PathAbandon { .. }
            | Token::PathStatus { .. } => self.deferred.push(token),
            token => self.streams.on_lost(token),
        }
    }

    #[inline]
    fn packet_acked(&mut self, kind: SpaceKind, number: u64, packet: &SentPacket) {
        if kind == SpaceKind::Data {
            self.mtu.on_acked(number, packet.bytes);
            if let Some(fec) = self.fec.as_deref_mut() {
                if packet.is_lost() {
                    fec.on_late_packet(self.path, number);
                } else {
                    fec.on_packet_acked(self.path, number);
                }
            }
        }
        self.symbol = None;
        if self.observer.is_active() {
            self.observe_acked(kind, number, packet);
        }
    }

    fn packet_lost(
        &mut self,
        kind: SpaceKind,
        number: u64,
        packet: &SentPacket,
        trigger: LossTrigger,
    ) {
        if kind == SpaceKind::Data && !packet.mtu_probe {
            self.mtu.on_lost(number, packet.bytes);
            if let Some(fec) = self.fec.as_deref_mut() {
                fec.on_packet_lost(self.path, number);
            }
        }
        self.symbol = None;
        let path = self.path;
        let bytes = u64::from(packet.bytes);
        self.observer.emit(self.now, || observe::Event::PacketLost {
            kind,
            path,
            number,
            bytes,
            trigger,
        });
        if std::mem::take(&mut self.seen.requeued) {
            self.observer
                .emit(self.now, || observe::Event::MarkedForRetransmit {
                    path,
                    kind,
                    number,
                });
        }
    }

    fn mtu_probe_acked(&mut self, number: u64, bytes: u16) {
        if let Some(mtu) = self.mtu.on_probe_acked(self.now, number, bytes) {
            self.new_mtu = Some(mtu);
        }
    }

    fn mtu_probe_lost(&mut self, number: u64, bytes: u16) {
        if let Some(mtu) = self.mtu.on_probe_lost(self.now, number, bytes) {
            self.new_mtu = Some(mtu);
        }
    }
}

impl Connection {
    /// Hands over what could not be routed while the path was borrowed.
    pub(crate) fn apply_deferred(
        &mut self,
        kind: SpaceKind,
        acked_acks: impl IntoIterator<Item = (PathId, u64)>,
    ) {
        for (path, largest) in acked_acks {
            let space = match kind {
                SpaceKind::Initial => self.spaces.initial.as_mut(),
                SpaceKind::Handshake => self.spaces.handshake.as_mut(),
                SpaceKind::Data => self.paths.get_mut(path).map(|path| &mut path.space),
            };
            if let Some(space) = space {
                space.received.on_ack_acked(largest);
            }
        }
        if !self.scratch.ends_heard.is_empty() {
            self.on_abandons_heard();
        }
        if self.scratch.deferred.is_empty() {
            return;
        }
        let mut deferred = std::mem::take(&mut self.scratch.deferred);
        for token in deferred.drain(..) {
            match token {
                Token::HandshakeDone => self.control.handshake_done = true,
                Token::NewToken { index } => self.control.resend_token(index),
                Token::NewConnectionId { path: id, sequence } => {
                    if let Some(path) = self.paths.get_mut(id) {
                        path.local_cids.resend(sequence);
                    } else if let Some(unopened) = unopened(&mut self.multipath, id) {
                        unopened.local.resend(sequence);
                    }
                }
                Token::MaxPathId
                | Token::PathsBlocked
                | Token::PathCidsBlocked { .. }
                | Token::PathAbandon { .. }
                | Token::PathStatus { .. } => self.on_path_frame_lost(token),
                Token::RetireConnectionId { path, sequence } => {
                    let remote = match self.paths.get_mut(path) {
                        Some(path) => Some(&mut path.remote_cids),
                        None => unopened(&mut self.multipath, path)
                            .and_then(|unopened| unopened.remote.as_mut()),
                    };
                    if let Some(remote) = remote {
                        remote.resend_retirement(sequence);
                    }
                }
                Token::FecWindow { epoch } => {
                    if let Some(receiver) = &mut self.fec.receiver {
                        receiver.on_window_lost(epoch);
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
