//! The ServerHello, read out of a server's Initial packets.
//!
//! Anybody on the way can do that: the keys of Initial packets derive from the connection ID that
//! the client chose (RFC 9001 s5.2). It tells the cipher suite and whether a session is resumed.

use std::collections::BTreeMap;

use rustls::{Side, crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256, quic};

use crate::wire::{Packet, VERSION_1, VERSION_2};

const SAMPLE_LEN: usize = 16;
/// A ServerHello with this random is a HelloRetryRequest. RFC 8446 s4.1.3.
const HELLO_RETRY_START: [u8; 4] = [0xcf, 0x21, 0xad, 0x74];
const PRE_SHARED_KEY: u16 = 41;

/// What a ServerHello tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerHello {
    pub(crate) random: [u8; 32],
    pub(crate) cipher_suite: u16,
    pub(crate) resumed: bool,
}

/// A piece of a CRYPTO stream: its offset and its bytes.
pub(crate) type Piece = (u64, Vec<u8>);

/// Opens a server's Initial packet and takes its CRYPTO data; `None` if it does not open.
/// `client_dcid`: the destination of the client's Initial that is answered.
pub(crate) fn crypto(packet: &Packet<'_>, client_dcid: &[u8]) -> Option<Vec<Piece>> {
    let version = match packet.version {
        VERSION_1 => quic::Version::V1,
        VERSION_2 => quic::Version::V2,
        _ => return None,
    };
    let suite = TLS13_AES_128_GCM_SHA256.tls13()?;
    let keys = quic::Keys::initial(version, suite, suite.quic?, client_dcid, Side::Client);
    let mut bytes = packet.bytes.to_vec();
    let sample_at = packet.number_offset + 4;
    let sample = bytes.get(sample_at..sample_at + SAMPLE_LEN)?.to_vec();
    let (before, from_number) = bytes.split_at_mut_checked(packet.number_offset)?;
    let first = before.first_mut()?;
    let number = from_number.get_mut(..4)?;
    keys.remote
        .header
        .decrypt_in_place(&sample, first, number)
        .ok()?;
    let number_len = usize::from(*first & 3) + 1;
    // The number as it stands is right for the first packets of a connection.
    let number = number.get(..number_len)?;
    let number = number.iter().fold(0, |n, byte| (n << 8) | u64::from(*byte));
    let (header, payload) = bytes.split_at_mut_checked(packet.number_offset + number_len)?;
    let plain = keys
        .remote
        .packet
        .decrypt_in_place(number, header, payload)
        .ok()?;
    let mut pieces = Vec::new();
    // What cannot be read after the first frames is not needed.
    let _ = collect(plain, &mut pieces);
    Some(pieces)
}

/// The CRYPTO frames among those that a server puts into Initial packets.
fn collect(mut frames: &[u8], pieces: &mut Vec<Piece>) -> Option<()> {
    loop {
        let (kind, rest) = varint(frames)?;
        frames = rest;
        match kind {
            0 | 1 => {}
            2 | 3 => {
                let (_largest, rest) = varint(frames)?;
                let (_delay, rest) = varint(rest)?;
                let (ranges, rest) = varint(rest)?;
                frames = rest;
                let counts = if kind == 3 { 3 } else { 0 };
                for _ in 0..(1 + 2 * ranges + counts) {
                    frames = varint(frames)?.1;
                }
            }
            6 => {
                let (offset, rest) = varint(frames)?;
                let (len, rest) = varint(rest)?;
                let (data, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
                pieces.push((offset, data.to_vec()));
                frames = rest;
            }
            _ => return None,
        }
    }
}

/// The ServerHello in a CRYPTO stream, once it is all there. A HelloRetryRequest may stand before.
pub(crate) fn find(pieces: &BTreeMap<u64, Vec<u8>>) -> Option<ServerHello> {
    let mut stream = Vec::new();
    for (offset, bytes) in pieces {
        let offset = usize::try_from(*offset).ok()?;
        if offset > stream.len() {
            break;
        }
        stream.extend_from_slice(bytes.get(stream.len() - offset..).unwrap_or_default());
    }
    let mut rest = stream.as_slice();
    loop {
        let [_kind, high, middle, low] = *rest.get(..4)? else {
            return None;
        };
        let len = u32::from_be_bytes([0, high, middle, low]) as usize;
        let (message, after) = rest.split_at_checked(4 + len)?;
        if let Some(hello) = parse(message) {
            return Some(hello);
        }
        rest = after;
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    let len = 1usize << (first >> 6);
    let (value, rest) = bytes.split_at_checked(len)?;
    let value = value.iter().skip(1);
    let value = value.fold(u64::from(first & 0x3f), |value, byte| {
        value << 8 | u64::from(*byte)
    });
    Some((value, rest))
}

/// RFC 8446 s4.1.3: type 2, length, legacy version, random, session ID, suite, compression,
/// extensions.
fn parse(message: &[u8]) -> Option<ServerHello> {
    if *message.first()? != 2 {
        return None;
    }
    let random: [u8; 32] = message.get(6..38)?.try_into().ok()?;
    if random.starts_with(&HELLO_RETRY_START) {
        return None;
    }
    let session_len = usize::from(*message.get(38)?);
    let rest = message.get(39 + session_len..)?;
    let (suite, rest) = rest.split_at_checked(2)?;
    let cipher_suite = u16::from_be_bytes(suite.try_into().ok()?);
    let mut extensions = rest.get(3..).unwrap_or_default();
    let mut resumed = false;
    while let Some((head, rest)) = extensions.split_at_checked(4) {
        let [kind_high, kind_low, len_high, len_low] = head else {
            break;
        };
        resumed |= u16::from_be_bytes([*kind_high, *kind_low]) == PRE_SHARED_KEY;
        let len = usize::from(u16::from_be_bytes([*len_high, *len_low]));
        extensions = rest.get(len..).unwrap_or_default();
    }
    Some(ServerHello {
        random,
        cipher_suite,
        resumed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    /// The server's Initial of RFC 9001 appendix A.3.
    const SERVER_INITIAL: &str = "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a\
        5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e\
        7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d2039\
        8c276456cbc42158407dd074ee";

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex
            .chars()
            .filter_map(|c| c.to_digit(16))
            .map(|d| d as u8)
            .collect();
        digits
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect()
    }

    #[test]
    fn the_server_hello_of_rfc_9001_is_read() {
        let datagram = bytes(SERVER_INITIAL);
        let packets = wire::packets(&datagram);
        let [packet] = packets.as_slice() else {
            panic!("one packet")
        };
        assert_eq!(
            crypto(packet, &bytes("8394c8f03e515709")),
            None,
            "of another connection"
        );
        let pieces = crypto(packet, &bytes("8394c8f03e515708")).unwrap();
        let hello = find(&pieces.into_iter().collect()).unwrap();
        assert_eq!((hello.cipher_suite, hello.resumed), (0x1301, false));
    }
}
