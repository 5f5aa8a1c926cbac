//! Packets that the peer did not send, made from what was seen of it.

use tautline_transport::{
    tls::retry_integrity_tag,
    units::Side,
    wire::{
        AckToWrite, ConnectionId, Header, LongHeader, LongType, Version, Writer,
        decode_packet_number, encode_short, parse_header, patch_length, write_ack,
        write_retry_without_tag, write_version_negotiation,
    },
};

/// Tags of 1-RTT keys start here, two for each key phase; see [`crate::null_tls`].
const FIRST_ONE_RTT_TAG: u8 = 8;
const PHASES: u8 = 60;
/// Tags of the levels before, as sent by a client.
const LONG_TAGS: [u8; 3] = [1, 3, 4];
/// The packet number space of each level: Initial, 0-RTT, Handshake, 1-RTT.
const SPACES: [usize; 4] = [0, 2, 1, 2];

/// What passed on the way to one side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sniffed {
    /// Destination of the newest packet.
    pub(super) dcid: ConnectionId,
    /// Source of the newest long header.
    pub(super) scid: ConnectionId,
    /// Destination of the first packet of all.
    pub(super) first_dcid: Option<ConnectionId>,
    pub(super) version: Version,
    /// Largest packet numbers: Initial, Handshake, application data.
    largest: [Option<u64>; 3],
    /// First byte of the newest 1-RTT packet's tag.
    tag: u8,
    /// Second byte of the newest Initial packet's tag.
    pub(super) mark: u8,
}

impl Default for Sniffed {
    fn default() -> Self {
        Self {
            dcid: ConnectionId::EMPTY,
            scid: ConnectionId::EMPTY,
            first_dcid: None,
            version: Version::V1,
            largest: [None; 3],
            tag: 0,
            mark: 0,
        }
    }
}

impl Sniffed {
    /// Takes note of a datagram. Headers are not protected here.
    pub(super) fn note(&mut self, mut rest: &[u8], cid_len: usize) {
        while let Ok(header) = parse_header(rest, cid_len) {
            let (space, dcid, long, pn_offset, len) = match header {
                Header::Initial {
                    version,
                    dcid,
                    scid,
                    pn_offset,
                    packet_len,
                    ..
                } => (0, dcid, Some((version, scid)), pn_offset, packet_len),
                Header::Handshake {
                    version,
                    dcid,
                    scid,
                    pn_offset,
                    packet_len,
                } => (1, dcid, Some((version, scid)), pn_offset, packet_len),
                Header::ZeroRtt {
                    version,
                    dcid,
                    scid,
                    pn_offset,
                    packet_len,
                } => (2, dcid, Some((version, scid)), pn_offset, packet_len),
                Header::Short {
                    dcid,
                    pn_offset,
                    packet_len,
                } => (2, dcid, None, pn_offset, packet_len),
                _ => return,
            };
            self.dcid = dcid;
            self.first_dcid.get_or_insert(dcid);
            let tag = rest[..len].last_chunk::<16>().copied().unwrap_or_default();
            match long {
                Some((version, scid)) => (self.version, self.scid) = (version, scid),
                None => self.tag = tag[0],
            }
            if space == 0 {
                self.mark = tag[1];
            }
            let pn_len = usize::from(rest[0] & 3) + 1;
            if let Some(bytes) = rest.get(pn_offset..pn_offset + pn_len) {
                let truncated = bytes.iter().fold(0, |pn, byte| pn << 8 | u64::from(*byte));
                let number = decode_packet_number(self.largest[space], truncated, pn_len);
                self.largest[space] = self.largest[space].max(Some(number));
            }
            rest = &rest[len..];
        }
    }

    /// An ACK frame for packets that went this way.
    pub(super) fn ack(&self, level: u8, ahead: i8, below: u8) -> Vec<u8> {
        let largest = self.largest[SPACES[usize::from(level % 4)]].unwrap_or(0);
        let largest = largest.saturating_add_signed(i64::from(ahead));
        let first = largest.saturating_sub(u64::from(below));
        let ack = AckToWrite {
            path: None,
            largest,
            delay: 0,
            ranges: std::iter::once(first..=largest),
            ecn: None,
            timestamps: None,
        };
        let mut frame = vec![0; 64];
        let mut w = Writer::new(&mut frame);
        write_ack(&mut w, ack);
        let len = w.len();
        frame.truncate(len);
        frame
    }

    /// A packet with these frames. `level` counts Initial, 0-RTT, Handshake, 1-RTT; `number` and
    /// `phase` are added to the next expected.
    pub(super) fn forge(
        &self,
        to: Side,
        zero_tag: bool,
        (level, number, phase, bits): (u8, i8, i8, u8),
        frames: &[u8],
    ) -> Vec<u8> {
        let level = level % 4;
        let space = SPACES[usize::from(level)];
        let next = self.largest[space].map_or(0, |largest| largest + 1);
        let number = next.saturating_add_signed(i64::from(number));
        // Shorter packets are too short for header protection.
        let pn_len = if frames.len() < 2 { 4 } else { 2 };
        let mut packet = vec![0; 100 + frames.len()];
        let mut w = Writer::new(&mut packet);
        let from_server = u8::from(to == Side::Client);
        let tag = if level == 3 {
            let current = self.tag.saturating_sub(FIRST_ONE_RTT_TAG) / 2;
            let phase = i16::from(current) + i16::from(phase);
            let phase = phase.rem_euclid(i16::from(PHASES)) as u8;
            encode_short(
                &mut w,
                &self.dcid,
                false,
                phase & 1 == 1,
                number,
                pn_len,
                true,
            );
            w.bytes(frames);
            FIRST_ONE_RTT_TAG + 2 * phase + from_server
        } else {
            let ty = [LongType::Initial, LongType::ZeroRtt, LongType::Handshake];
            let header = LongHeader {
                ty: ty[usize::from(level)],
                version: self.version,
                dcid: self.dcid,
                scid: self.scid,
                token: &[],
                fixed_bit: true,
            };
            let length_offset = header.encode(&mut w, number, pn_len).unwrap_or_default();
            let start = w.len() - pn_len;
            w.bytes(frames);
            let len = w.len() + 16 - start;
            patch_length(&mut packet, length_offset, len);
            w = Writer::new(&mut packet);
            w.reserve_slice(start + len - 16);
            LONG_TAGS[usize::from(level)] + from_server
        };
        let mut seal = [0; 16];
        if !zero_tag {
            seal[0] = tag;
            seal[1] = if level == 0 { self.mark } else { 0 };
        }
        w.bytes(&seal);
        let len = w.len();
        packet.truncate(len);
        packet[0] |= bits & 0x1c;
        packet
    }

    /// A Retry from the server.
    pub(super) fn retry(&self, to_client: &Self, good: bool, token: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        let client = if to_client.first_dcid.is_some() {
            to_client.dcid
        } else {
            self.scid
        };
        let scid = ConnectionId::new(b"retried!").unwrap_or_default();
        write_retry_without_tag(&mut packet, self.version, 0, &client, &scid, token);
        let original = self.first_dcid.unwrap_or_default();
        let mut tag = retry_integrity_tag(self.version, &original, &packet);
        tag[0] ^= u8::from(!good);
        packet.extend_from_slice(&tag);
        packet
    }

    /// A Version Negotiation packet from the server.
    pub(super) fn negotiation(&self, versions: &[u8]) -> Vec<u8> {
        let versions: Vec<Version> = versions
            .as_chunks::<4>()
            .0
            .iter()
            .map(|version| Version(u32::from_be_bytes(*version)))
            .collect();
        let mut packet = Vec::new();
        let original = self.first_dcid.unwrap_or_default();
        write_version_negotiation(
            &mut packet,
            0,
            self.scid.as_slice(),
            original.as_slice(),
            &versions,
        );
        packet
    }
}
