//! Reading headers.

use super::{FIXED_BIT, LONG_FORM, LongKind, LongType};
use crate::{
    error::{DecodeError, DecodeErrorKind},
    wire::{ConnectionId, Reader, Version},
};

/// What can be read of a packet before its protection is removed.
///
/// `packet_len` is the length in bytes of this packet from its first byte; what follows in the
/// datagram is the next, coalesced packet. `pn_offset` is where the protected packet number
/// starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "fields repeat the header's fields; the two others are above"
)]
pub enum Header<'a> {
    /// Initial. RFC 9000 s17.2.2.
    Initial {
        version: Version,
        dcid: ConnectionId,
        scid: ConnectionId,
        token: &'a [u8],
        pn_offset: usize,
        packet_len: usize,
    },
    /// 0-RTT. RFC 9000 s17.2.3.
    ZeroRtt {
        version: Version,
        dcid: ConnectionId,
        scid: ConnectionId,
        pn_offset: usize,
        packet_len: usize,
    },
    /// Handshake. RFC 9000 s17.2.4.
    Handshake {
        version: Version,
        dcid: ConnectionId,
        scid: ConnectionId,
        pn_offset: usize,
        packet_len: usize,
    },
    /// Retry; takes the rest of the datagram. RFC 9000 s17.2.5.
    Retry {
        version: Version,
        dcid: ConnectionId,
        scid: ConnectionId,
        token: &'a [u8],
        tag: [u8; 16],
        packet_len: usize,
    },
    /// Version Negotiation; takes the rest of the datagram. Connection IDs have up to 255 bytes;
    /// `versions` holds 4 bytes, big-endian, for each version. RFC 8999 s6.
    VersionNegotiation {
        dcid: &'a [u8],
        scid: &'a [u8],
        versions: &'a [u8],
    },
    /// 1-RTT; takes the rest of the datagram. RFC 9000 s17.3.1.
    Short {
        dcid: ConnectionId,
        pn_offset: usize,
        packet_len: usize,
    },
    /// A long header of a version we do not speak; takes the rest of the datagram. Connection IDs
    /// have up to 255 bytes. RFC 8999 s5.1.
    UnknownVersion {
        version: u32,
        dcid: &'a [u8],
        scid: &'a [u8],
    },
}

impl Header<'_> {
    /// Bytes of this packet, from its first byte, given what was handed to [`parse_header`].
    pub fn packet_len(&self, datagram_rest: &[u8]) -> usize {
        match *self {
            Self::Initial { packet_len, .. }
            | Self::ZeroRtt { packet_len, .. }
            | Self::Handshake { packet_len, .. }
            | Self::Retry { packet_len, .. }
            | Self::Short { packet_len, .. } => packet_len,
            Self::VersionNegotiation { .. } | Self::UnknownVersion { .. } => datagram_rest.len(),
        }
    }
}

/// Whether the QUIC bit is set; without it a packet is good only if we announced
/// grease_quic_bit. RFC 9287 s3.
#[inline]
pub const fn has_fixed_bit(first_byte: u8) -> bool {
    first_byte & FIXED_BIT != 0
}

/// Reads the header of the packet at the front of `datagram_rest`.
///
/// `local_cid_len` is the length of the connection IDs we issue. The QUIC bit is not looked at
/// (see [`has_fixed_bit`]).
///
/// # Errors
///
/// When the packet must be dropped: fields are cut off, the packet is longer than the datagram,
/// a connection ID of v1 or v2 is longer than 20 bytes, a Retry has no token.
#[inline]
pub fn parse_header(datagram_rest: &[u8], local_cid_len: usize) -> Result<Header<'_>, DecodeError> {
    let mut r = Reader::new(datagram_rest);
    let first = r.u8()?;
    if first & LONG_FORM != 0 {
        return parse_long(first, r);
    }
    let dcid = read_cid(&mut r, local_cid_len)?;
    Ok(Header::Short {
        dcid,
        pn_offset: r.offset(),
        packet_len: datagram_rest.len(),
    })
}

fn read_cid(r: &mut Reader<'_>, len: usize) -> Result<ConnectionId, DecodeError> {
    let too_long = r.error(DecodeErrorKind::Invalid("connection ID length"));
    ConnectionId::new(r.bytes(len)?).ok_or(too_long)
}

fn parse_long<'a>(first: u8, mut r: Reader<'a>) -> Result<Header<'a>, DecodeError> {
    let version = Version(r.u32()?);
    if !version.is_supported() {
        return parse_invariant(version, r);
    }
    let dcid_len = usize::from(r.u8()?);
    let dcid = read_cid(&mut r, dcid_len)?;
    let scid_len = usize::from(r.u8()?);
    let scid = read_cid(&mut r, scid_len)?;
    let ty = match LongKind::from_first_byte(version, first) {
        LongKind::Numbered(ty) => ty,
        LongKind::Retry => return parse_retry(version, dcid, scid, r),
    };
    let token = match ty {
        LongType::Initial => r.varint_prefixed()?,
        LongType::ZeroRtt | LongType::Handshake => &[],
    };
    // Length covers the packet number and the payload with its tag.
    let length = r.varint()?;
    let length = usize::try_from(length)
        .ok()
        .filter(|&length| length <= r.remaining())
        .ok_or_else(|| r.error(DecodeErrorKind::UnexpectedEnd))?;
    let pn_offset = r.offset();
    let packet_len = pn_offset + length;
    Ok(match ty {
        LongType::Initial => Header::Initial {
            version,
            dcid,
            scid,
            token,
            pn_offset,
            packet_len,
        },
        LongType::ZeroRtt => Header::ZeroRtt {
            version,
            dcid,
            scid,
            pn_offset,
            packet_len,
        },
        LongType::Handshake => Header::Handshake {
            version,
            dcid,
            scid,
            pn_offset,
            packet_len,
        },
    })
}

fn parse_retry<'a>(
    version: Version,
    dcid: ConnectionId,
    scid: ConnectionId,
    mut r: Reader<'a>,
) -> Result<Header<'a>, DecodeError> {
    let token_len = r
        .remaining()
        .checked_sub(16)
        .ok_or_else(|| r.error(DecodeErrorKind::UnexpectedEnd))?;
    if token_len == 0 {
        // RFC 9000 s17.2.5.2
        return Err(r.error(DecodeErrorKind::Invalid("Retry token length")));
    }
    let token = r.bytes(token_len)?;
    let tag = r.array()?;
    Ok(Header::Retry {
        version,
        dcid,
        scid,
        token,
        tag,
        packet_len: r.offset(),
    })
}

fn parse_invariant<'a>(version: Version, mut r: Reader<'a>) -> Result<Header<'a>, DecodeError> {
    let dcid_len = usize::from(r.u8()?);
    let dcid = r.bytes(dcid_len)?;
    let scid_len = usize::from(r.u8()?);
    let scid = r.bytes(scid_len)?;
    if version != Version::NEGOTIATION {
        return Ok(Header::UnknownVersion {
            version: version.0,
            dcid,
            scid,
        });
    }
    if r.is_empty() || !r.remaining().is_multiple_of(4) {
        return Err(r.error(DecodeErrorKind::Invalid("Supported Version length")));
    }
    Ok(Header::VersionNegotiation {
        dcid,
        scid,
        versions: r.rest(),
    })
}
