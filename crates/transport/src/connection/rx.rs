//! From datagram to frames: packets side by side, path bookkeeping.
//!
//! Owns: the order in which a datagram's packets are opened and what is done once per packet.
//! Does not own: keys and protection (`unprotect.rs`), what frames mean (`dispatch.rs`), migration
//! rules (`migration.rs`).

use bytes::{Buf as _, Bytes, BytesMut};

use super::{
    Connection,
    fec::may_stand_in_symbol,
    lifecycle::State,
    tx::MIN_INITIAL_DATAGRAM,
    unprotect::{Opened, Protected, Unopened},
};
use crate::{
    endpoint::DatagramMeta,
    error::{ConnectionError, TransportError},
    observe::{self, Abuse, DropReason, PacketKind},
    path::{Contents, Path},
    space::SpaceKind,
    time::Instant,
    tls::Level,
    units::{Ecn, FourTuple, PathId},
    wire::{
        ConnectionId, Frame, Header, PacketTypes, Reader, ResetToken, has_fixed_bit, parse_header,
    },
};

/// Smallest datagram that can be a stateless reset. RFC 9000 s10.3.
const MIN_STATELESS_RESET: usize = 21;

/// An opened packet.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) now: Instant,
    /// When its datagram came: before `now` if it waited for keys.
    pub(crate) arrived: Instant,
    pub(crate) level: Level,
    pub(crate) path: PathId,
    pub(crate) number: u64,
    pub(crate) four_tuple: FourTuple,
    pub(crate) ecn: Ecn,
    pub(crate) dcid: ConnectionId,
    /// Key phase it was protected with, counted from 0; 0 but in 1-RTT packets.
    pub(crate) key_phase: u64,
    /// UDP payload bytes of the whole datagram.
    pub(crate) datagram_bytes: usize,
    /// Bytes of the packet itself.
    pub(crate) packet_bytes: usize,
}

/// A datagram, but for its content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    pub(crate) meta: DatagramMeta,
    /// UDP payload bytes.
    pub(crate) bytes: usize,
}

/// What the frames of a packet amounted to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrameSummary {
    pub(crate) ack_eliciting: bool,
    /// Carried a frame that is not a probing frame. RFC 9000 s9.1.
    pub(crate) non_probing: bool,
    pub(crate) immediate_ack: bool,
    /// A repair symbol is in it.
    pub(crate) repair: bool,
    pub(crate) contents: Contents,
}

impl Connection {
    /// The datagrams that follow lie behind the first `bytes` that their socket has received.
    ///
    /// Tells how much receive memory unread data keeps alive by sharing it. A caller whose
    /// datagrams have buffers of their own need not call this.
    pub fn note_receive_position(&mut self, bytes: u64) {
        self.streams.note_receive_position(bytes);
    }

    /// Whether the stream data that arrived last was the next of its stream.
    ///
    /// Of several sockets, whose datagrams crossed several paths, the one that is read next had better be another
    /// one if not: what is missing stands there.
    pub fn receives_in_order(&self) -> bool {
        self.streams.receives_in_order()
    }

    /// A datagram arrived for this connection.
    ///
    /// `data` is opened in place; stream data handed to the application shares its memory.
    pub fn handle_datagram(&mut self, now: Instant, meta: DatagramMeta, data: BytesMut) {
        let bytes = data.len();
        self.stats.datagrams_received += 1;
        self.stats.bytes_received += bytes as u64;
        self.observer
            .emit(now, || observe::Event::DatagramReceived { bytes });
        match self.life.state {
            State::Drained | State::Draining { .. } => return,
            State::Closing(_) => self.on_datagram_while_closing(now, &meta.four_tuple),
            _ => {}
        }
        let network = self.paths.network_mut(&meta.four_tuple);
        let known = network.is_some();
        if let Some(network) = network {
            network.amplification.on_received(bytes);
            network.learn_local(&meta.four_tuple);
        }
        if !known && self.side.is_client() && !self.expects_from(&meta) {
            // Servers do not move on their own. RFC 9000 s9.
            self.drop_packet(now, DropReason::UnexpectedAddress, "unexpected address");
            return;
        }
        let arrival = Arrival {
            at: now,
            meta,
            bytes,
        };
        self.process_datagram(now, &arrival, data);
        self.release_buffered(now);
        self.after_input(now);
    }

    /// Whether some path leads to where a datagram came from.
    fn expects_from(&self, meta: &DatagramMeta) -> bool {
        let remote = meta.four_tuple.remote;
        self.paths.iter().any(|path| path.knows_remote(remote))
    }

    fn process_datagram(&mut self, now: Instant, arrival: &Arrival, mut rest: BytesMut) {
        let datagram_bytes = arrival.bytes;
        let mut first_dcid: Option<ConnectionId> = None;
        let reset_token = trailing_token(&rest);
        while !rest.is_empty() {
            let cid_len = self.endpoint.connection_id_length;
            let (protected, packet_len) = match parse_header(&rest, cid_len) {
                Ok(Header::Initial {
                    version,
                    dcid,
                    scid,
                    token,
                    pn_offset,
                    packet_len,
                }) => {
                    if self.side.is_client() && !token.is_empty() {
                        // RFC 9000 s17.2.2: only clients send tokens.
                        self.drop_packet(now, DropReason::Violation, "token in a server's Initial");
                        return;
                    }
                    let scid = Some(scid);
                    let level = Level::Initial;
                    (
                        Protected {
                            level,
                            version,
                            dcid,
                            scid,
                            pn_offset,
                        },
                        packet_len,
                    )
                }
                Ok(Header::ZeroRtt {
                    version,
                    dcid,
                    scid,
                    pn_offset,
                    packet_len,
                }) => {
                    let scid = Some(scid);
                    let level = Level::ZeroRtt;
                    (
                        Protected {
                            level,
                            version,
                            dcid,
                            scid,
                            pn_offset,
                        },
                        packet_len,
                    )
                }
                Ok(Header::Handshake {
                    version,
                    dcid,
                    scid,
                    pn_offset,
                    packet_len,
                }) => {
                    let scid = Some(scid);
                    let level = Level::Handshake;
                    (
                        Protected {
                            level,
                            version,
                            dcid,
                            scid,
                            pn_offset,
                        },
                        packet_len,
                    )
                }
                Ok(Header::Short {
                    dcid,
                    pn_offset,
                    packet_len,
                }) => {
                    let version = self.handshake.version;
                    let level = Level::OneRtt;
                    (
                        Protected {
                            level,
                            version,
                            dcid,
                            scid: None,
                            pn_offset,
                        },
                        packet_len,
                    )
                }
                Ok(Header::Retry {
                    version,
                    dcid,
                    scid,
                    token,
                    tag,
                    packet_len,
                }) => {
                    let whole = rest.get(..packet_len).unwrap_or_default();
                    let body = whole
                        .get(..whole.len().saturating_sub(16))
                        .unwrap_or_default();
                    let expected = crate::tls::retry_integrity_tag(
                        version,
                        &self.handshake.original_dcid,
                        body,
                    );
                    let authentic = expected == tag
                        && version == self.handshake.version
                        && dcid == self.handshake.local_cid;
                    let token = token.to_vec();
                    if self.on_retry(now, scid, &token, authentic) {
                        self.note_special(now, PacketKind::Retry, datagram_bytes);
                    } else if !authentic {
                        self.emit_abuse(now, Abuse::RetrySpoof);
                    }
                    return;
                }
                Ok(Header::VersionNegotiation {
                    dcid,
                    scid,
                    versions,
                }) => {
                    let ours = dcid == self.handshake.local_cid.as_slice()
                        && scid == self.handshake.initial_dcid.as_slice();
                    if ours {
                        let offered = be_u32s(versions);
                        self.on_version_negotiation(now, &offered, datagram_bytes);
                    } else {
                        self.emit_abuse(now, Abuse::VersionNegotiationSpoof);
                        self.drop_packet(now, DropReason::UnexpectedPacket, "version negotiation");
                    }
                    return;
                }
                Ok(Header::UnknownVersion { .. }) => {
                    self.drop_packet(now, DropReason::UnsupportedVersion, "unknown version");
                    return;
                }
                Err(_) => {
                    self.drop_packet(now, DropReason::Malformed, "header does not parse");
                    return;
                }
            };
            if packet_len == 0 || packet_len > rest.len() {
                return;
            }
            // Packets for other connection IDs in one datagram are ignored. RFC 9000 s12.2.
            if *first_dcid.get_or_insert(protected.dcid) != protected.dcid {
                self.drop_packet(
                    now,
                    DropReason::UnknownConnectionId,
                    "coalesced with another connection ID",
                );
                return;
            }
            // Whole, it needs no further handle on the receive buffer.
            let packet = if packet_len == rest.len() {
                std::mem::take(&mut rest)
            } else {
                rest.split_to(packet_len)
            };
            match self.receive_packet(now, arrival, protected, packet) {
                Ok(()) => {}
                Err(Unopened::KeysMissing) => {}
                Err(Unopened::Drop(reason, details)) => {
                    if protected.level == Level::OneRtt
                        && self.is_stateless_reset(datagram_bytes, reset_token.as_ref())
                    {
                        self.note_special(now, PacketKind::StatelessReset, datagram_bytes);
                        self.start_draining(now, ConnectionError::StatelessReset);
                        return;
                    }
                    if reason == DropReason::DecryptionFailure {
                        self.emit_abuse(now, Abuse::UndecryptablePacket);
                    }
                    self.drop_packet(now, reason, details);
                }
                Err(Unopened::Close(error)) => {
                    self.close_with(now, error);
                    return;
                }
            }
            if matches!(self.life.state, State::Draining { .. } | State::Drained) {
                return;
            }
        }
    }

    pub(super) fn drop_packet(&mut self, now: Instant, reason: DropReason, details: &'static str) {
        self.stats.packets_dropped += 1;
        self.observer
            .emit(now, || observe::Event::PacketDropped { reason, details });
    }

    /// A packet without a number was taken.
    pub(super) fn note_special(&mut self, now: Instant, kind: PacketKind, bytes: usize) {
        self.observer
            .emit(now, || observe::Event::SpecialPacketReceived {
                kind,
                bytes,
            });
    }

    fn is_stateless_reset(&self, bytes: usize, token: Option<&ResetToken>) -> bool {
        bytes >= MIN_STATELESS_RESET
            && token.is_some_and(|token| {
                // Connection IDs of an abandoned path count as retired.
                self.paths
                    .iter()
                    .filter(|path| !path.is_abandoned())
                    .any(|path| path.remote_cids.is_reset_token(token))
            })
    }

    fn receive_packet(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        protected: Protected,
        mut packet: BytesMut,
    ) -> Result<(), Unopened> {
        let datagram_bytes = arrival.bytes;
        let path = self.path_of(protected.level, &protected.dcid);
        let Some(path) = path else {
            return Err(Unopened::Drop(
                DropReason::UnknownConnectionId,
                "unknown connection ID",
            ));
        };
        self.check_long_header(&protected)
            .and_then(|()| self.check_envelope(&protected, &packet, datagram_bytes))
            .map_err(|(reason, details)| Unopened::Drop(reason, details))?;
        if self.paths.get(path).is_none() && !self.can_accept_path(path) && !self.is_closed() {
            // The path on which the peer gives its first connection ID may be slower than this one.
            self.buffer_undecryptable(now, arrival, packet);
            return Err(Unopened::KeysMissing);
        }
        let packet_bytes = packet.len();
        let opened = match self.open(now, path, &protected, &mut packet) {
            Ok(opened) => opened,
            Err(Unopened::KeysMissing) => {
                // Keys come to no connection that is over.
                if !self.is_closed() {
                    self.buffer_undecryptable(now, arrival, packet);
                }
                return Err(Unopened::KeysMissing);
            }
            Err(other) => return Err(other),
        };
        let Opened {
            number,
            header_len,
            payload_len,
            key_phase,
        } = opened;
        if matches!(self.life.state, State::Closing(_)) {
            return self.receive_while_closing(now, packet, header_len, payload_len);
        }
        if self.paths.get(path).is_none() && !self.accept_path(now, path, arrival) {
            return Err(Unopened::Drop(
                DropReason::UnknownConnectionId,
                "path cannot be opened",
            ));
        }
        self.stats.packets_received += 1;
        self.unreviewed |= protected.level != Level::OneRtt;
        let kind = kind_of(protected.level);
        let received = Received {
            now,
            arrived: arrival.at,
            level: protected.level,
            path,
            number,
            four_tuple: arrival.meta.four_tuple,
            ecn: arrival.meta.ecn,
            dcid: protected.dcid,
            key_phase,
            datagram_bytes,
            packet_bytes,
        };
        self.observer.emit(now, || observe::Event::PacketReceived {
            level: received.level,
            path,
            number,
            bytes: packet_bytes,
            ecn: received.ecn,
        });
        self.note_authentic(now, &protected);
        let spin = packet.first().is_some_and(|first| first & 0x20 != 0);
        packet.advance(header_len);
        packet.truncate(payload_len);
        let summary = self
            .process_frames(&received, packet.freeze())
            .map_err(Unopened::Close)?;
        if !self.is_closed() {
            self.dispatch_recovered(&received)
                .map_err(Unopened::Close)?;
        }
        // The packet that ended the connection is not acknowledged, and moves nothing.
        if !self.is_closed() {
            // What it acknowledged may have ended the silence.
            if self.life.confirmed && protected.level == Level::OneRtt {
                self.probe_if_silent(now, path);
            }
            if self.fec.holds() {
                self.record_or_hold(received, kind, summary, spin);
            } else {
                self.record_received(&received, kind, summary, spin);
            }
        }
        Ok(())
    }

    /// The path a packet belongs to; `None` for connection IDs that are not (or no longer) ours.
    fn path_of(&self, level: Level, dcid: &ConnectionId) -> Option<PathId> {
        let Some(multipath) = self.multipath.as_ref().filter(|_| level == Level::OneRtt) else {
            return self.paths.get(PathId::ZERO).map(|path| path.id);
        };
        let is_its = |path: &&Path| path.local_cids.contains(dcid);
        // Packets come in batches of one path.
        let latest = self.paths.latest().filter(is_its);
        let open = latest.or_else(|| self.paths.iter().find(is_its));
        let open = open.map(|path| path.id);
        open.or_else(|| {
            // Clients open paths.
            let opens = self.side.is_server();
            opens.then(|| multipath.ids.by_local_cid(dcid)).flatten()
        })
    }

    /// What can be said against a packet by its first byte and its datagram.
    fn check_envelope(
        &self,
        protected: &Protected,
        packet: &[u8],
        datagram_bytes: usize,
    ) -> Result<(), (DropReason, &'static str)> {
        // Unset, the QUIC bit is understood only by those who said so. RFC 9287 s3.
        if !self.config.grease && !packet.first().is_some_and(|first| has_fixed_bit(*first)) {
            return Err((DropReason::Malformed, "QUIC bit not set"));
        }
        match protected.level {
            // RFC 9000 s14.1: whoever expects an answer to an Initial has paid for it.
            Level::Initial if self.side.is_server() && datagram_bytes < MIN_INITIAL_DATAGRAM => {
                Err((DropReason::TooSmall, "Initial in a small datagram"))
            }
            // Our own early data, sent back to us.
            Level::ZeroRtt if self.side.is_client() => {
                Err((DropReason::UnexpectedPacket, "0-RTT packet from a server"))
            }
            _ => Ok(()),
        }
    }

    /// The peer's connection ID and version must stay what they were.
    fn check_long_header(&self, protected: &Protected) -> Result<(), (DropReason, &'static str)> {
        let Some(scid) = protected.scid else {
            return Ok(());
        };
        if let Some(known) = self.handshake.peer_scid
            && known != scid
        {
            return Err((DropReason::BadConnectionId, "source connection ID changed"));
        }
        // RFC 9369 s4.1.
        let (first, negotiated) = (self.handshake.first_version, self.handshake.version);
        let version = protected.version;
        let expected = match protected.level {
            // Clients learn of the server's choice by its Initial packets.
            Level::Initial => self.side.is_client() || version == first || version == negotiated,
            Level::ZeroRtt => version == first,
            Level::Handshake => version == negotiated,
            Level::OneRtt => true,
        };
        if !expected {
            return Err((DropReason::UnexpectedPacket, "version changed"));
        }
        Ok(())
    }

    /// Facts that only an authentic packet may establish.
    fn note_authentic(&mut self, now: Instant, protected: &Protected) {
        if let Some(scid) = protected.scid
            && self.handshake.peer_scid.is_none()
        {
            self.handshake.peer_scid = Some(scid);
            if self.side().is_client()
                && let Some(path) = self.paths.get_mut(PathId::ZERO)
            {
                path.remote_cids.replace_initial(scid);
            }
        }
        if self.side().is_client()
            && protected.level == Level::Initial
            && protected.version != self.handshake.version
            && !self.handshake.version_settled
        {
            self.switch_version(now, protected.version);
            self.handshake.version_settled = true;
        }
        if self.side().is_server() && protected.level == Level::Handshake {
            // The client has our Initial: its address is proven, and Initial keys are done.
            // RFC 9000 s8.1, RFC 9001 s4.9.1.
            self.discard_initial_keys(now);
            if let Some(path) = self.paths.get_mut(PathId::ZERO) {
                path.network.amplification.set_validated();
            }
        }
    }

    fn process_frames(
        &mut self,
        received: &Received,
        payload: Bytes,
    ) -> Result<FrameSummary, TransportError> {
        let packet_type = packet_type_of(received.level);
        let mut summary = FrameSummary::default();
        let mut reader = Reader::new(&payload);
        let mut symbol = None;
        while !reader.is_empty() {
            let here = reader.peek_rest();
            let frame = Frame::decode(&mut reader).map_err(|error| {
                let frame_type = Reader::new(here).varint().unwrap_or(0);
                blame(TransportError::from(error), frame_type)
            })?;
            let row = frame.row();
            let frame_type = frame.frame_type();
            if !row.allowed.contains(packet_type) {
                let error = TransportError::protocol_violation("frame not allowed in this packet")
                    .counted_as(Abuse::FrameNotAllowed);
                return Err(error.in_frame(frame_type));
            }
            summary.ack_eliciting |= row.ack_eliciting;
            summary.non_probing |= !row.probing;
            summary.immediate_ack |= matches!(frame, Frame::ImmediateAck);
            summary.repair |= matches!(frame, Frame::Repair(_));
            match frame {
                Frame::Ack(_) => summary.contents.ack = true,
                Frame::Ping | Frame::Padding { .. } => {}
                Frame::Stream(_) | Frame::Datagram { .. } => {
                    summary.contents.data = true;
                    summary.contents.more = true;
                }
                _ => summary.contents.more = true,
            }
            self.stats.frames_received.count(frame_type);
            self.observer
                .emit(received.now, || observe::Event::FrameReceived(&frame));
            if symbol.is_some() && !may_stand_in_symbol(&frame) {
                let error = "frame not allowed in a source symbol";
                let error = TransportError::protocol_violation(error);
                return Err(error.in_frame(frame_type));
            }
            if let Frame::SourceSymbol(header) = frame {
                let known = self.on_source_symbol(header, reader.peek_rest());
                symbol = Some(known.map_err(|error| blame(error, frame_type))?);
            }
            if symbol == Some(true) && matches!(frame, Frame::Datagram { .. }) {
                // It was delivered when the symbol was recovered.
                continue;
            }
            if let Frame::Stream(stream) = frame
                && reader.is_empty()
            {
                // Nothing else is in the packet: its memory goes to the stream as it is.
                let (id, offset, fin) = (stream.id, stream.offset, stream.fin);
                let before = payload.len().saturating_sub(stream.data.len());
                let mut data = payload;
                data.advance(before);
                let rtt = self.window_rtt(received.path);
                self.streams
                    .on_stream_data(received.now, rtt, id, offset, fin, data)
                    .map_err(|error| blame(error, frame_type))?;
                return Ok(summary);
            }
            self.dispatch(received, &payload, frame)
                .map_err(|error| blame(error, frame_type))?;
            if self.is_closed() {
                break;
            }
        }
        Ok(summary)
    }

    /// Bookkeeping after a packet's frames were processed.
    pub(super) fn record_received(
        &mut self,
        received: &Received,
        kind: SpaceKind,
        summary: FrameSummary,
        spin: bool,
    ) {
        let now = received.now;
        let confirmed = self.life.confirmed;
        let Some(path) = self.paths.arrived_on(received.path) else {
            return;
        };
        let rtt = path.recovery.rtt().smoothed();
        let (space, policy) = match kind {
            SpaceKind::Initial => (self.spaces.initial.as_mut(), None),
            SpaceKind::Handshake => (self.spaces.handshake.as_mut(), None),
            SpaceKind::Data => (Some(&mut path.space), Some(path.ack.as_mut())),
        };
        let Some(space) = space else {
            return;
        };
        let largest = space.received.largest();
        let is_largest = largest.is_none_or(|largest| received.number > largest);
        space.received.note_bytes(received.datagram_bytes);
        space.received.on_received(
            received.number,
            // What it waited for keys is told as ACK delay, not taken for the way. RFC 9002 s5.3.
            received.arrived,
            summary.ack_eliciting,
            received.ecn,
            summary.immediate_ack,
            summary.repair,
            policy,
            confirmed,
            rtt,
        );
        if summary.ack_eliciting {
            path.ack_copies.on_eliciting(summary.immediate_ack);
        }
        if kind == SpaceKind::Data {
            path.ack_stats
                .on_received(summary.contents, received.packet_bytes);
        }
        let acks = path.space.received.ack_deadline();
        path.last_received = Some(now);
        path.bytes_received += received.packet_bytes as u64;
        if received.level == Level::OneRtt && is_largest {
            path.spin.on_largest(spin, self.side.is_client());
        }
        self.restart_idle_on_receive(now, received.path);
        if received.level == Level::OneRtt {
            self.observe_received(received, summary, acks);
            self.check_migration(received, summary, is_largest);
        }
    }

    /// While closing, only a peer's close matters.
    fn receive_while_closing(
        &mut self,
        now: Instant,
        mut packet: BytesMut,
        header_len: usize,
        payload_len: usize,
    ) -> Result<(), Unopened> {
        let mut payload = packet.split_off(header_len);
        payload.truncate(payload_len);
        let mut reader = Reader::new(&payload);
        while !reader.is_empty() {
            match Frame::decode(&mut reader) {
                Ok(Frame::ConnectionClose(close)) => {
                    let error = Self::peer_close_error(&close);
                    self.start_draining(now, error);
                    return Ok(());
                }
                Ok(_) => {}
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Keeps a packet whose keys (or, of a new path, the connection ID to answer to) are on their way,
    /// bounded.
    fn buffer_undecryptable(&mut self, now: Instant, arrival: &Arrival, packet: BytesMut) {
        if self.undecryptable.len() < self.config.limits.buffered_undecryptable_datagrams {
            self.observer.emit(now, || observe::Event::PacketBuffered {
                bytes: packet.len(),
            });
            // A copy: it may stay for long, and must not keep its receive buffer.
            let packet = BytesMut::from(&packet[..]);
            self.undecryptable.push((*arrival, packet));
        } else {
            self.drop_packet(now, DropReason::Overload, "no keys, buffer full");
        }
    }

    /// New keys and connection IDs may open what was buffered.
    fn release_buffered(&mut self, now: Instant) {
        if self.undecryptable.is_empty() || !std::mem::take(&mut self.may_release) {
            return;
        }
        for (arrival, packet) in std::mem::take(&mut self.undecryptable) {
            self.process_datagram(now, &arrival, packet);
        }
    }
}

pub(super) fn blame(mut error: TransportError, frame_type: u64) -> TransportError {
    if error.frame_type == 0 {
        error.frame_type = frame_type;
    }
    error
}

fn trailing_token(datagram: &[u8]) -> Option<ResetToken> {
    let (_, token) = datagram.split_last_chunk::<16>()?;
    Some(ResetToken(*token))
}

fn be_u32s(bytes: &[u8]) -> Vec<u32> {
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|chunk| u32::from_be_bytes(*chunk))
        .collect()
}

/// The space a level's packets are numbered in.
pub(crate) fn kind_of(level: Level) -> SpaceKind {
    match level {
        Level::Initial => SpaceKind::Initial,
        Level::Handshake => SpaceKind::Handshake,
        Level::ZeroRtt | Level::OneRtt => SpaceKind::Data,
    }
}

/// The packet type a level's packets have.
pub(crate) fn packet_type_of(level: Level) -> PacketTypes {
    match level {
        Level::Initial => PacketTypes::INITIAL,
        Level::ZeroRtt => PacketTypes::ZERO_RTT,
        Level::Handshake => PacketTypes::HANDSHAKE,
        Level::OneRtt => PacketTypes::ONE_RTT,
    }
}
