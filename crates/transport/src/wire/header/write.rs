//! Writing headers.

use super::{FIXED_BIT, KEY_PHASE_BIT, LONG_FORM, LongKind, LongType, SPIN_BIT};
use crate::{
    units::PacketNumber,
    wire::{ConnectionId, Version, Writer},
};

/// Largest value of the two-byte Length field.
const MAX_LENGTH: usize = (1 << 14) - 1;

/// The header of an Initial, 0-RTT or Handshake packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongHeader<'a> {
    /// Type.
    pub ty: LongType,
    /// Version, which decides the type bits.
    pub version: Version,
    /// Destination connection ID.
    pub dcid: ConnectionId,
    /// Source connection ID.
    pub scid: ConnectionId,
    /// Token; written in Initial packets only.
    pub token: &'a [u8],
    /// The QUIC bit; cleared only for a peer that announced grease_quic_bit. RFC 9287.
    pub fixed_bit: bool,
}

impl LongHeader<'_> {
    /// Writes the header up to and with the `pn_len` (1 to 4) low bytes of `pn`; reserved bits 0.
    ///
    /// Returns where in the writer's buffer the two-byte Length field stands, for
    /// [`patch_length`]; `None` when the header does not fit.
    pub fn encode(&self, w: &mut Writer<'_>, pn: PacketNumber, pn_len: usize) -> Option<usize> {
        let type_bits = LongKind::Numbered(self.ty).to_bits(self.version);
        w.u8(LONG_FORM | fixed(self.fixed_bit) | type_bits | pn_len_bits(pn_len));
        w.u32(self.version.0);
        write_cid(w, &self.dcid);
        write_cid(w, &self.scid);
        if self.ty == LongType::Initial {
            w.varint(self.token.len() as u64);
            w.bytes(self.token);
        }
        let length_offset = w.len();
        w.varint_sized(0, 2);
        write_packet_number(w, pn, pn_len);
        (!w.overflowed()).then_some(length_offset)
    }
}

/// Sets the Length field of a long header: `value` bytes, at most 16,383, from the packet number
/// to the end of the tag.
pub fn patch_length(buf: &mut [u8], length_offset: usize, value: usize) {
    debug_assert!(
        value <= MAX_LENGTH,
        "a long-header packet has at most 16,383 bytes"
    );
    let field = buf
        .get_mut(length_offset..)
        .and_then(|rest| rest.first_chunk_mut::<2>());
    debug_assert!(field.is_some(), "no Length field there");
    if let (Some(field), Ok(value)) = (field, u16::try_from(value.min(MAX_LENGTH))) {
        *field = (0x4000 | value).to_be_bytes();
    }
}

/// Writes the header of a 1-RTT packet with the `pn_len` (1 to 4) low bytes of `pn`; reserved
/// bits 0. RFC 9000 s17.3.1.
#[inline]
pub fn encode_short(
    w: &mut Writer<'_>,
    dcid: &ConnectionId,
    spin: bool,
    key_phase: bool,
    pn: PacketNumber,
    pn_len: usize,
    fixed_bit: bool,
) {
    let spin = if spin { SPIN_BIT } else { 0 };
    let key_phase = if key_phase { KEY_PHASE_BIT } else { 0 };
    w.u8(fixed(fixed_bit) | spin | key_phase | pn_len_bits(pn_len));
    w.bytes(dcid.as_slice());
    write_packet_number(w, pn, pn_len);
}

#[inline]
fn fixed(set: bool) -> u8 {
    if set { FIXED_BIT } else { 0 }
}

#[inline]
fn pn_len_bits(pn_len: usize) -> u8 {
    debug_assert!(
        (1..=4).contains(&pn_len),
        "packet numbers have 1 to 4 bytes"
    );
    (pn_len.clamp(1, 4) - 1) as u8
}

#[inline]
fn write_packet_number(w: &mut Writer<'_>, pn: PacketNumber, pn_len: usize) {
    let [.., b2, b1, b0] = pn.to_be_bytes();
    match pn_len {
        1 => w.u8(b0),
        2 => w.u16(u16::from_be_bytes([b1, b0])),
        3 => w.bytes(&[b2, b1, b0]),
        // Truncation is meant.
        _ => w.u32(pn as u32),
    }
}

fn write_cid(w: &mut Writer<'_>, cid: &ConnectionId) {
    // At most 20.
    w.u8(cid.len() as u8);
    w.bytes(cid.as_slice());
}

/// Appends a Version Negotiation packet to `out`. RFC 9000 s17.2.1, s6.
///
/// `dcid` and `scid` are the packet's own, so the received ones exchanged, of at most 255 bytes
/// each; more are cut off. `unused` gives the bits of the first byte that mean nothing and should
/// be random; the QUIC bit is always set so that such packets can be told from other protocols.
pub fn write_version_negotiation(
    out: &mut Vec<u8>,
    unused: u8,
    dcid: &[u8],
    scid: &[u8],
    versions: &[Version],
) {
    out.push(LONG_FORM | FIXED_BIT | unused);
    out.extend_from_slice(&Version::NEGOTIATION.0.to_be_bytes());
    for cid in [dcid, scid] {
        let len = u8::try_from(cid.len()).unwrap_or(u8::MAX);
        out.push(len);
        out.extend(cid.iter().take(usize::from(len)));
    }
    for version in versions {
        out.extend_from_slice(&version.0.to_be_bytes());
    }
}

/// Appends a Retry packet without its integrity tag to `out`. RFC 9000 s17.2.5.
///
/// `unused` gives the four low bits of the first byte, which should be random.
pub fn write_retry_without_tag(
    out: &mut Vec<u8>,
    version: Version,
    unused: u8,
    dcid: &ConnectionId,
    scid: &ConnectionId,
    token: &[u8],
) {
    out.push(LONG_FORM | FIXED_BIT | LongKind::Retry.to_bits(version) | (unused & 0x0f));
    out.extend_from_slice(&version.0.to_be_bytes());
    for cid in [dcid, scid] {
        // At most 20.
        out.push(cid.len() as u8);
        out.extend_from_slice(cid.as_slice());
    }
    out.extend_from_slice(token);
}
