//! Packets sent without a connection.

use super::{DatagramMeta, Transmit};
use crate::{
    error::Code,
    rng::Rng,
    tls::{Keys, TAG_LEN, open_in_place, retry_integrity_tag, seal_in_place},
    units::{Ecn, PathId},
    wire::{
        Close, ConnectionId, Frame, LongHeader, LongType, ResetToken, Version, Writer,
        decode_packet_number, patch_length, write_retry_without_tag, write_version_negotiation,
    },
};

/// Smallest datagram that can be a stateless reset. RFC 9000 s10.3.
pub(super) const MIN_RESET_LEN: usize = 21;
/// A reset in answer to a packet longer than this need not be one byte shorter only.
const TYPICAL_RESET_LEN: usize = 43;

/// `len` bytes at the end of the buffer, for where `meta` came from.
pub(super) fn answer(meta: &DatagramMeta, len: usize) -> Transmit {
    Transmit {
        four_tuple: meta.four_tuple,
        ecn: Ecn::NotEct,
        len,
        segment_size: None,
    }
}

/// Appends a Version Negotiation packet that answers a packet with these connection IDs.
///
/// Lists `versions` and one reserved version, to keep clients honest. RFC 9000 s6.3, s17.2.1.
pub(super) fn version_negotiation(
    out: &mut Vec<u8>,
    client_dcid: &[u8],
    client_scid: &[u8],
    asked: u32,
    versions: &[Version],
    rng: &mut Rng,
) -> usize {
    let mut listed: Vec<Version> = Vec::with_capacity(versions.len() + 1);
    listed.extend(versions);
    let place = rng.below(listed.len() as u64 + 1) as usize;
    listed.insert(place.min(listed.len()), grease_version(asked, rng));
    let (unused, start) = (rng.u64() as u8, out.len());
    // The answer's destination is the client's source and the other way round.
    write_version_negotiation(out, unused, client_scid, client_dcid, &listed);
    out.len() - start
}

/// A reserved version (0x?a?a?a?a) other than the one asked for. RFC 9000 s15.
fn grease_version(asked: u32, rng: &mut Rng) -> Version {
    let version = (rng.u64() as u32 & 0xf0f0_f0f0) | 0x0a0a_0a0a;
    Version(if version == asked {
        version ^ 0x1010_1010
    } else {
        version
    })
}

/// Appends a Retry packet. RFC 9000 s17.2.5.
pub(super) fn retry(
    out: &mut Vec<u8>,
    version: Version,
    client_scid: &ConnectionId,
    retry_scid: &ConnectionId,
    original_dcid: &ConnectionId,
    token: &[u8],
    rng: &mut Rng,
) -> usize {
    let start = out.len();
    let unused = rng.u64() as u8;
    write_retry_without_tag(out, version, unused, client_scid, retry_scid, token);
    let tag = retry_integrity_tag(version, original_dcid, out.get(start..).unwrap_or(&[]));
    out.extend_from_slice(&tag);
    out.len() - start
}

/// Appends a stateless reset in answer to a short-header packet of `trigger_len` bytes, if one
/// can be made that is smaller (so that two endpoints never answer each other for ever) and of
/// an unpredictable size. RFC 9000 s10.3, s10.3.3.
pub(super) fn stateless_reset(
    out: &mut Vec<u8>,
    trigger_len: usize,
    token: &ResetToken,
    rng: &mut Rng,
) -> Option<usize> {
    let longest = trigger_len
        .checked_sub(1)
        .filter(|len| *len >= MIN_RESET_LEN)?;
    let len = if longest <= TYPICAL_RESET_LEN {
        longest
    } else {
        let spread = (longest - TYPICAL_RESET_LEN).min(64) as u64;
        TYPICAL_RESET_LEN + rng.below(spread + 1) as usize
    };
    let start = out.len();
    out.resize(start + len - token.0.len(), 0);
    if let Some(noise) = out.get_mut(start..) {
        rng.fill(noise);
        if let Some(first) = noise.first_mut() {
            // Looks like a short header: header form 0, fixed bit 1.
            *first = (*first & 0x3f) | 0x40;
        }
    }
    out.extend_from_slice(&token.0);
    Some(len)
}

/// Appends an Initial packet that closes a connection that never was. RFC 9000 s10.2.3.
///
/// `keys` are the server's Initial keys for the client's destination ID.
pub(super) fn initial_close(
    out: &mut Vec<u8>,
    keys: &Keys,
    version: Version,
    client_scid: &ConnectionId,
    server_scid: &ConnectionId,
    code: Code,
    reason: &'static str,
) -> Option<usize> {
    let mut packet = [0; 256];
    let close = Frame::ConnectionClose(Close {
        frame_type: Some(0),
        code: code.0,
        reason: reason.as_bytes(),
    });
    let header = LongHeader {
        ty: LongType::Initial,
        version,
        dcid: *client_scid,
        scid: *server_scid,
        token: &[],
        fixed_bit: true,
    };
    const PN_LEN: usize = 2;
    let mut w = Writer::new(&mut packet);
    let length_offset = header.encode(&mut w, 0, PN_LEN)?;
    let header_len = w.len();
    close.encode(&mut w);
    let end = w.len();
    if w.overflowed() || end + TAG_LEN > packet.len() {
        return None;
    }
    let packet = packet.get_mut(..end + TAG_LEN)?;
    patch_length(packet, length_offset, PN_LEN + (end - header_len) + TAG_LEN);
    let (head, payload) = packet.split_at_mut_checked(header_len)?;
    seal_in_place(&*keys.local.packet, PathId::ZERO, 0, head, payload).ok()?;
    let (head, rest) = packet.split_at_mut_checked(header_len)?;
    let (first, head) = head.split_first_mut()?;
    let number = head
        .len()
        .checked_sub(PN_LEN)
        .and_then(|at| head.get_mut(at..))?;
    // The sample starts 4 bytes after the start of the packet number. RFC 9001 s5.4.2.
    let sample = rest
        .get(4 - PN_LEN..)?
        .get(..keys.local.header.sample_len())?;
    keys.local
        .header
        .encrypt_in_place(sample, first, number)
        .ok()?;
    out.extend_from_slice(packet);
    Some(packet.len())
}

/// Whether the Initial packet at the start of `datagram` opens with the client's keys, that is,
/// whether it came over the network as somebody sent it. Works on a copy.
pub(super) fn initial_is_authentic(
    keys: &Keys,
    datagram: &[u8],
    pn_offset: usize,
    packet_len: usize,
    scratch: &mut Vec<u8>,
) -> bool {
    scratch.clear();
    let Some(packet) = datagram.get(..packet_len) else {
        return false;
    };
    scratch.extend_from_slice(packet);
    open_initial(keys, scratch, pn_offset).is_some()
}

fn open_initial(keys: &Keys, packet: &mut [u8], pn_offset: usize) -> Option<()> {
    let (head, rest) = packet.split_at_mut_checked(pn_offset)?;
    let (number, sampled) = rest.split_at_mut_checked(4)?;
    let sample = sampled.get(..keys.remote.header.sample_len())?;
    let first = head.first_mut()?;
    keys.remote
        .header
        .decrypt_in_place(sample, first, number)
        .ok()?;
    let number_len = usize::from(*first & 0x03) + 1;
    let truncated = number
        .get(..number_len)?
        .iter()
        .fold(0u64, |n, &byte| (n << 8) | u64::from(byte));
    let number = decode_packet_number(None, truncated, number_len);
    let (header, payload) = packet.split_at_mut_checked(pn_offset + number_len)?;
    open_in_place(&*keys.remote.packet, PathId::ZERO, number, header, payload).map(|_| ())
}
