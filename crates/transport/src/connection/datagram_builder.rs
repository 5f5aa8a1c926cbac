//! Headers, padding, protection: packets side by side in one datagram.
//!
//! Owns: where each packet lies in the buffer. A packet is opened, filled through a
//! [`PacketWriter`], possibly padded, and sealed; only sealing consumes its packet number.
//! Does not own: which frames it carries (`tx.rs`).

use crate::{
    error::TransportError,
    observe::{self, Observer},
    packet::{PacketFlags, PacketWriter, Token},
    recovery::{OutgoingPacket, Recovery},
    rng::Rng,
    space::PacketNumberSpace,
    time::Instant,
    tls::{DirectionalKeys, Level, OneRttKeys},
    units::{Ecn, PathId},
    wire::{
        ConnectionId, LongHeader, LongType, Version, Writer, encode_short, packet_number_len,
        patch_length,
    },
};

use super::rx::kind_of;

/// AEAD tag length of every QUIC cipher suite. RFC 9001 s5.3.
const TAG_LEN: usize = 16;
/// Packet number and payload together must reach the header protection sample. RFC 9001 s5.4.2.
const MIN_NUMBER_AND_PAYLOAD: usize = 4;

/// A packet between its header and its protection.
#[derive(Debug)]
pub(crate) struct OpenPacket {
    pub(crate) level: Level,
    path: PathId,
    number: u64,
    header_start: usize,
    pn_offset: usize,
    payload_start: usize,
    payload_len: usize,
    length_offset: Option<usize>,
    flags: PacketFlags,
    /// A PTO probe: passes the congestion window.
    pub(crate) probe: bool,
    /// An MTU probe: its loss is no congestion signal.
    pub(crate) mtu_probe: bool,
    /// Goes to another address than the path's.
    pub(crate) off_path: bool,
    /// As [`OutgoingPacket::filler`].
    pub(crate) filler: bool,
    /// Carries PATH_CHALLENGE or PATH_RESPONSE: the datagram must be full size.
    pub(crate) validates_path: bool,
    /// Carries a source symbol.
    pub(crate) is_source: bool,
    pub(crate) tokens: Vec<Token>,
}

impl OpenPacket {
    /// Takes over what the writer recorded.
    pub(crate) fn finish(&mut self, writer: &PacketWriter<'_>) {
        self.payload_len = writer.len();
        self.flags = writer.flags();
    }

    /// It does not count as in flight, whatever it holds. [`FecLab`](crate::fec::FecLab) says why not
    /// to do so.
    pub(crate) fn leave_window(&mut self) {
        self.flags.in_flight = false;
    }

    /// The peer acknowledges it at once.
    pub(crate) fn set_asks(&mut self) {
        self.flags.asks = true;
    }

    pub(crate) fn flags(&self) -> PacketFlags {
        self.flags
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes the packet will take once sealed.
    pub(crate) fn sealed_len(&self) -> usize {
        self.payload_start - self.header_start + self.payload_len + TAG_LEN
    }
}

/// What sealing needs beside keys and rooms.
pub(crate) struct SealContext<'a> {
    pub(crate) now: Instant,
    pub(crate) rng: &'a mut Rng,
    pub(crate) ecn: Ecn,
}

/// One datagram under construction.
#[derive(Debug)]
pub(crate) struct DatagramBuilder<'a> {
    buf: &'a mut [u8],
    used: usize,
    /// Whether the fixed bit is set; unset now and then if the peer greases. RFC 9287.
    pub(crate) fixed_bit: bool,
}

impl<'a> DatagramBuilder<'a> {
    pub(crate) fn new(buf: &'a mut [u8]) -> Self {
        Self {
            buf,
            used: 0,
            fixed_bit: true,
        }
    }

    /// Sealed bytes.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Bytes behind the sealed ones.
    pub(crate) fn remaining(&self) -> usize {
        self.buf.len().saturating_sub(self.used)
    }

    pub(crate) fn open_short(
        &mut self,
        path: PathId,
        dcid: ConnectionId,
        spin: bool,
        keys: &OneRttKeys,
        space: &PacketNumberSpace,
    ) -> Option<OpenPacket> {
        let number = space.peek_packet_number();
        let pn_len = packet_number_len(number, space.largest_acked());
        let header_start = self.used;
        let mut writer = Writer::new(self.buf.get_mut(header_start..)?);
        encode_short(
            &mut writer,
            &dcid,
            spin,
            keys.key_phase(),
            number,
            pn_len,
            self.fixed_bit,
        );
        if writer.overflowed() {
            return None;
        }
        let payload_start = header_start + writer.len();
        self.opened(
            Level::OneRtt,
            path,
            number,
            pn_len,
            header_start,
            payload_start,
            None,
        )
    }

    pub(crate) fn open_long(
        &mut self,
        level: Level,
        version: Version,
        dcid: ConnectionId,
        scid: ConnectionId,
        token: &[u8],
        space: &PacketNumberSpace,
    ) -> Option<OpenPacket> {
        let ty = match level {
            Level::Initial => LongType::Initial,
            Level::ZeroRtt => LongType::ZeroRtt,
            Level::Handshake => LongType::Handshake,
            Level::OneRtt => return None,
        };
        let number = space.peek_packet_number();
        let pn_len = packet_number_len(number, space.largest_acked());
        let header_start = self.used;
        let mut writer = Writer::new(self.buf.get_mut(header_start..)?);
        let header = LongHeader {
            ty,
            version,
            dcid,
            scid,
            token,
            fixed_bit: self.fixed_bit,
        };
        let length_offset = header.encode(&mut writer, number, pn_len)?;
        if writer.overflowed() {
            return None;
        }
        let payload_start = header_start + writer.len();
        let length_offset = Some(header_start + length_offset);
        self.opened(
            level,
            PathId::ZERO,
            number,
            pn_len,
            header_start,
            payload_start,
            length_offset,
        )
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "two callers, each of which knows all of it"
    )]
    fn opened(
        &self,
        level: Level,
        path: PathId,
        number: u64,
        pn_len: usize,
        header_start: usize,
        payload_start: usize,
        length_offset: Option<usize>,
    ) -> Option<OpenPacket> {
        if payload_start + MIN_NUMBER_AND_PAYLOAD + TAG_LEN > self.buf.len() {
            return None;
        }
        Some(OpenPacket {
            level,
            path,
            number,
            header_start,
            pn_offset: payload_start - pn_len,
            payload_start,
            payload_len: 0,
            length_offset,
            flags: PacketFlags::default(),
            probe: false,
            mtu_probe: false,
            off_path: false,
            filler: false,
            validates_path: false,
            is_source: false,
            tokens: Vec::new(),
        })
    }

    /// Where the packet's frames go.
    pub(crate) fn payload(&mut self, open: &OpenPacket) -> Option<&mut [u8]> {
        let end = self.buf.len().checked_sub(TAG_LEN)?;
        self.buf.get_mut(open.payload_start..end)
    }

    /// Nothing was written: the packet never was.
    pub(crate) fn abort(&mut self, open: OpenPacket) {
        debug_assert_eq!(open.header_start, self.used);
    }

    /// Appends PADDING so that the datagram, this packet being its last, becomes `size` long.
    pub(crate) fn pad_to(&mut self, open: &mut OpenPacket, size: usize) {
        let size = size.min(self.buf.len());
        let wanted = size.saturating_sub(open.payload_start + TAG_LEN);
        self.pad_payload(open, wanted);
    }

    fn pad_payload(&mut self, open: &mut OpenPacket, wanted: usize) {
        if wanted <= open.payload_len {
            return;
        }
        let from = open.payload_start + open.payload_len;
        let to = open.payload_start + wanted;
        if let Some(room) = self.buf.get_mut(from..to) {
            room.fill(0);
            open.payload_len = wanted;
            // PADDING makes a packet count as in flight. RFC 9002 s2.
            open.flags.in_flight = true;
        }
    }

    /// Protects a 1-RTT packet in place and records it.
    #[expect(
        clippy::too_many_arguments,
        reason = "the one place where keys, space and recovery meet"
    )]
    pub(crate) fn seal_short(
        &mut self,
        mut open: OpenPacket,
        keys: &mut OneRttKeys,
        space: &mut PacketNumberSpace,
        recovery: &mut Recovery,
        tokens: &mut Vec<Token>,
        context: SealContext<'_>,
        observer: &mut Observer,
    ) -> Result<(), TransportError> {
        self.reach_sample(&mut open);
        let end = open.payload_start + open.payload_len + TAG_LEN;
        let Some(packet) = self.buf.get_mut(open.header_start..end) else {
            return Err(TransportError::internal("packet outside its buffer"));
        };
        let header_len = open.payload_start - open.header_start;
        let (header, payload) = packet.split_at_mut(header_len);
        keys.seal(open.path, open.number, header, payload)?;
        mask(
            packet,
            open.pn_offset - open.header_start,
            keys.local_header(),
        )?;
        self.record(open, end, space, recovery, tokens, context, observer);
        Ok(())
    }

    /// Protects a long-header packet in place and records it.
    #[expect(
        clippy::too_many_arguments,
        reason = "the one place where keys, space and recovery meet"
    )]
    pub(crate) fn seal_long(
        &mut self,
        mut open: OpenPacket,
        keys: &DirectionalKeys,
        space: &mut PacketNumberSpace,
        recovery: &mut Recovery,
        tokens: &mut Vec<Token>,
        context: SealContext<'_>,
        observer: &mut Observer,
    ) -> Result<(), TransportError> {
        self.reach_sample(&mut open);
        let end = open.payload_start + open.payload_len + TAG_LEN;
        if let Some(length_offset) = open.length_offset {
            patch_length(self.buf, length_offset, end - open.pn_offset);
        }
        let Some(packet) = self.buf.get_mut(open.header_start..end) else {
            return Err(TransportError::internal("packet outside its buffer"));
        };
        let header_len = open.payload_start - open.header_start;
        let (header, payload) = packet.split_at_mut(header_len);
        let (text, tag_room) = payload.split_at_mut(open.payload_len);
        let tag = keys
            .packet
            .encrypt_in_place(open.number, header, text)
            .map_err(|_| TransportError::internal("packet protection failed"))?;
        if tag.as_ref().len() == tag_room.len() {
            tag_room.copy_from_slice(tag.as_ref());
        }
        mask(
            packet,
            open.pn_offset - open.header_start,
            keys.header.as_ref(),
        )?;
        self.record(open, end, space, recovery, tokens, context, observer);
        Ok(())
    }

    fn reach_sample(&mut self, open: &mut OpenPacket) {
        let pn_len = open.payload_start - open.pn_offset;
        let in_flight = open.flags.in_flight;
        self.pad_payload(open, MIN_NUMBER_AND_PAYLOAD.saturating_sub(pn_len));
        // A byte or two for the sample's sake do not make an ACK count as in flight.
        open.flags.in_flight = in_flight;
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what seal_short and seal_long share"
    )]
    fn record(
        &mut self,
        open: OpenPacket,
        end: usize,
        space: &mut PacketNumberSpace,
        recovery: &mut Recovery,
        tokens: &mut Vec<Token>,
        context: SealContext<'_>,
        observer: &mut Observer,
    ) {
        let number = space.take_packet_number(context.rng);
        debug_assert_eq!(number, open.number);
        let bytes = end - open.header_start;
        let kind = kind_of(open.level);
        let outgoing = OutgoingPacket {
            number: open.number,
            bytes: u16::try_from(bytes).unwrap_or(u16::MAX),
            ack_eliciting: open.flags.ack_eliciting && !open.off_path,
            asks: open.flags.asks,
            in_flight: open.flags.in_flight && !open.off_path,
            mtu_probe: open.mtu_probe,
            off_path: open.off_path,
            filler: open.filler,
            ecn: context.ecn,
        };
        recovery.on_packet_sent(space, kind, context.now, outgoing, tokens);
        observer.emit(context.now, || observe::Event::PacketSent {
            level: open.level,
            path: open.path,
            number: open.number,
            bytes,
            ecn: context.ecn,
        });
        self.used = end;
    }
}

/// Applies header protection to a sealed packet.
fn mask(
    packet: &mut [u8],
    pn_offset: usize,
    key: &dyn crate::tls::HeaderProtectionKey,
) -> Result<(), TransportError> {
    let failed = || TransportError::internal("header protection failed");
    let sample_start = pn_offset + 4;
    if packet.len() < sample_start + key.sample_len() || pn_offset == 0 {
        return Err(failed());
    }
    let (head, sample_on) = packet.split_at_mut(sample_start);
    let sample = sample_on.get(..key.sample_len()).unwrap_or_default();
    let (front, pn_on) = head.split_at_mut(pn_offset);
    let Some(first) = front.first_mut() else {
        return Err(failed());
    };
    let pn_len = usize::from(*first & 0x03) + 1;
    let pn_bytes = pn_on.get_mut(..pn_len).ok_or_else(failed)?;
    key.encrypt_in_place(sample, first, pn_bytes)
        .map_err(|_| failed())
}
