//! Packet headers as far as they can be read before protection is removed.
//!
//! Purpose: split datagrams into packets, and write the headers of packets to send.
//! Owns: [`Header`], [`LongHeader`], packet number truncation.
//! Does not own: header protection and reserved bits, which are known only after it (`tls/`).
//! Called by: `endpoint/` (demultiplexing), `connection/` (rx and tx).
//! Spec: RFC 8999, RFC 9000 s17, RFC 9369 s3.2.
//! To add a variant: a version gets its type bits in [`LongType`]; the rest is invariant.

mod packet_number;
mod parse;
#[cfg(test)]
mod tests;
mod write;

pub use packet_number::{decode_packet_number, packet_number_len};
pub use parse::{Header, has_fixed_bit, parse_header};
pub use write::{
    LongHeader, encode_short, patch_length, write_retry_without_tag, write_version_negotiation,
};

use super::Version;

const LONG_FORM: u8 = 0x80;
const FIXED_BIT: u8 = 0x40;
const SPIN_BIT: u8 = 0x20;
const KEY_PHASE_BIT: u8 = 0x04;

/// The long-header packets that carry a packet number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LongType {
    /// Initial.
    Initial,
    /// 0-RTT.
    ZeroRtt,
    /// Handshake.
    Handshake,
}

/// What the two type bits of a long header mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LongKind {
    Numbered(LongType),
    Retry,
}

impl LongKind {
    /// The kind in v1's order 0..=3. Version 2 turns the order by one. RFC 9369 s3.2.
    const V1_ORDER: [Self; 4] = [
        Self::Numbered(LongType::Initial),
        Self::Numbered(LongType::ZeroRtt),
        Self::Numbered(LongType::Handshake),
        Self::Retry,
    ];

    fn from_first_byte(version: Version, first: u8) -> Self {
        let bits = (first >> 4) & 3;
        let v1_bits = if version == Version::V2 {
            bits.wrapping_sub(1) & 3
        } else {
            bits
        };
        let [initial, zero_rtt, handshake, retry] = Self::V1_ORDER;
        match v1_bits {
            0 => initial,
            1 => zero_rtt,
            2 => handshake,
            _ => retry,
        }
    }

    /// The type bits in their place in the first byte.
    fn to_bits(self, version: Version) -> u8 {
        let v1_bits = match self {
            Self::Numbered(LongType::Initial) => 0,
            Self::Numbered(LongType::ZeroRtt) => 1,
            Self::Numbered(LongType::Handshake) => 2,
            Self::Retry => 3,
        };
        let bits = if version == Version::V2 {
            (v1_bits + 1) & 3
        } else {
            v1_bits
        };
        bits << 4
    }
}
