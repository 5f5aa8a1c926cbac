//! Segments on the wire, with as many bytes as TCP's.
//!
//! A simulated packet is an IP header (20 bytes), a UDP header (8 bytes) and a payload. A TCP header
//! with time stamps has 32 bytes; the first 8 stand for the UDP header that the simulator counts
//! anyway, and the other 24 begin the payload:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | flags |
//! | 1 | window scale (high half), number of SACK blocks (low half) |
//! | 2 | checksum: ones' complement sum of the payload |
//! | 4 | sequence number of the first data byte |
//! | 4 | acknowledgement number |
//! | 2 | window, scaled |
//! | 4 | time stamp in microseconds |
//! | 4 | time stamp echoed |
//! | 2 | zero |
//!
//! SACK blocks follow, 4 bytes for the option and 8 for each block as in RFC 2018, then data. So 1,448
//! bytes of data make an IP packet of 1,500.
//!
//! Unlike RFC 7323 the echo is that of the segment that caused the acknowledgement, also out of
//! order: it tells a first transmission from its repetition (RFC 3522).
//!
//! Owns: [`Segment`], its encoding, [`expand`]. Does not own: what the numbers mean.

use bytes::{BufMut, Bytes};
use tautline_transport::time::Instant;

/// Bytes of a payload before SACK blocks and data.
pub(super) const HEADER_BYTES: usize = 24;
/// Beside time stamps a TCP header has room for no more (RFC 2018 s3).
pub(super) const MAX_BLOCKS: usize = 3;
/// RFC 7323 s2.3.
const MAX_SHIFT: u8 = 14;

const ACK: u8 = 1;
const CLOSE: u8 = 2;
const DATAGRAM: u8 = 4;

/// What a packet is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// Data, an acknowledgement, or both.
    #[default]
    Stream,
    /// The connection is over.
    Close,
    /// A UDP datagram beside the connection.
    Datagram,
}

/// SACK blocks: first byte and the one after the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    count: usize,
    blocks: [(u32, u32); MAX_BLOCKS],
}

impl Blocks {
    /// Adds a block if there is room.
    pub(super) fn push(&mut self, start: u64, end: u64) {
        if let Some(slot) = self.blocks.get_mut(self.count) {
            *slot = (start as u32, end as u32);
            self.count += 1;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.blocks.iter().take(self.count).copied()
    }

    const fn bytes(&self) -> usize {
        if self.count == 0 {
            0
        } else {
            4 + 8 * self.count
        }
    }
}

/// A packet of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) kind: Kind,
    /// Low 32 bits of the first data byte's place in the stream.
    pub(super) seq: u32,
    /// The next byte expected, once anything came.
    pub(super) ack: Option<u32>,
    /// Bytes from `ack` on that have room.
    pub(super) window: u64,
    pub(super) stamp: u32,
    pub(super) echo: u32,
    pub(super) blocks: Blocks,
    pub(super) data: Bytes,
}

impl Segment {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + self.blocks.bytes() + self.data.len());
        let kind = match self.kind {
            Kind::Stream => 0,
            Kind::Close => CLOSE,
            Kind::Datagram => DATAGRAM,
        };
        let mut shift = 0;
        while self.window >> shift > u64::from(u16::MAX) && shift < MAX_SHIFT {
            shift += 1;
        }
        let window = u16::try_from(self.window >> shift).unwrap_or(u16::MAX);
        out.put_u8(kind | if self.ack.is_some() { ACK } else { 0 });
        out.put_u8(shift << 4 | self.blocks.count as u8);
        out.put_u16(0);
        out.put_u32(self.seq);
        out.put_u32(self.ack.unwrap_or(0));
        out.put_u16(window);
        out.put_u32(self.stamp);
        out.put_u32(self.echo);
        out.put_u16(0);
        if self.blocks.count > 0 {
            out.put_u32(0);
        }
        for (start, end) in self.blocks.iter() {
            out.put_u32(start);
            out.put_u32(end);
        }
        out.extend_from_slice(&self.data);
        let sum = checksum(&out);
        if let Some(field) = out.get_mut(2..4) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
        out
    }

    /// `None` for what is damaged or no segment.
    pub(super) fn decode(payload: Bytes) -> Option<Self> {
        // With its own complement in it, the sum is all ones, whose complement is zero.
        if checksum(&payload) != 0 {
            return None;
        }
        let (head, _) = payload.split_first_chunk::<HEADER_BYTES>()?;
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_be_bytes(*payload.get(at..)?.first_chunk::<4>()?))
        };
        let [flags, scale, _, _, ..] = *head;
        let count = usize::from(scale & 15);
        let shift = scale >> 4;
        if count > MAX_BLOCKS || shift > MAX_SHIFT {
            return None;
        }
        let mut blocks = Blocks::default();
        for index in 0..count {
            let at = HEADER_BYTES + 4 + 8 * index;
            let (start, end) = (word(at)?, word(at + 4)?);
            blocks.push(u64::from(start), u64::from(end));
        }
        let window = u16::from_be_bytes(*payload.get(12..)?.first_chunk::<2>()?);
        Some(Self {
            kind: match flags & !ACK {
                0 => Kind::Stream,
                CLOSE => Kind::Close,
                DATAGRAM => Kind::Datagram,
                _ => return None,
            },
            seq: word(4)?,
            ack: (flags & ACK != 0).then_some(word(8)?),
            window: u64::from(window) << shift,
            stamp: word(14)?,
            echo: word(18)?,
            data: payload.slice(HEADER_BYTES + blocks.bytes()..),
            blocks,
        })
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words
        .iter()
        .map(|word| u64::from(u32::from_be_bytes(*word)))
        .sum();
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    sum += u64::from(u32::from_be_bytes(last));
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// The place in the stream nearest to `near` whose low 32 bits are these.
pub(super) fn expand(near: u64, low: u32) -> u64 {
    let offset = low.wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(i64::from(offset))
}

/// The clock of time stamps.
pub(super) fn stamp(now: Instant) -> u32 {
    (now.as_nanos() / 1000) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_segment() -> impl Strategy<Value = Segment> {
        let blocks = proptest::collection::vec((any::<u32>(), any::<u32>()), 0..=MAX_BLOCKS);
        let data = proptest::collection::vec(any::<u8>(), 0..1500);
        (
            (0u8..3, any::<u32>(), any::<Option<u32>>()),
            (0u64..1 << 30, any::<u32>(), any::<u32>()),
            (blocks, data),
        )
            .prop_map(|((kind, seq, ack), (window, stamp, echo), (list, data))| {
                let mut blocks = Blocks::default();
                for (start, end) in list {
                    blocks.push(u64::from(start), u64::from(end));
                }
                Segment {
                    kind: [Kind::Stream, Kind::Close, Kind::Datagram][usize::from(kind)],
                    seq,
                    ack,
                    window,
                    stamp,
                    echo,
                    blocks,
                    data: data.into(),
                }
            })
    }

    proptest! {
        #[test]
        fn segments_parse_back(segment in any_segment()) {
            let parsed = Segment::decode(segment.encode().into()).unwrap();
            // The window loses what its scale cannot say, never more, and never grows.
            prop_assert!(parsed.window <= segment.window);
            prop_assert!(segment.window - parsed.window <= segment.window >> 15);
            prop_assert_eq!(Segment { window: segment.window, ..parsed }, segment);
        }

        #[test]
        fn one_changed_byte_is_noticed(segment in any_segment(), at: prop::sample::Index, change in 1u8..) {
            let mut bytes = segment.encode();
            let at = at.index(bytes.len());
            bytes[at] = bytes[at].wrapping_add(change);
            prop_assert_eq!(Segment::decode(bytes.into()), None);
        }

        #[test]
        fn any_bytes_are_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut bytes = bytes;
            let _ = Segment::decode(bytes.clone().into());
            // And with a checksum that fits.
            if bytes.len() > 4 {
                bytes[2..4].fill(0);
                let sum = checksum(&bytes).to_be_bytes();
                bytes[2..4].copy_from_slice(&sum);
                let _ = Segment::decode(bytes.into());
            }
        }

        #[test]
        fn places_expand(near in 0u64..1 << 50, offset in -(1i64 << 31) + 1..(1i64 << 31)) {
            let place = near.saturating_add_signed(offset);
            prop_assert_eq!(expand(near, place as u32), place.max(near.saturating_sub(1 << 31)));
        }
    }

    #[test]
    fn a_full_segment_is_a_full_packet() {
        let segment = Segment {
            data: vec![7; 1448].into(),
            ..Segment::default()
        };
        // 20 bytes of IP and 32 of TCP with time stamps.
        assert_eq!(segment.encode().len() + 28, 1448 + 20 + 32);
        let mut blocks = Blocks::default();
        for start in [1, 5, 9, 13] {
            blocks.push(start, start + 2);
        }
        let ack = Segment {
            blocks,
            ..Segment::default()
        };
        // Three blocks fit beside time stamps: 40 bytes of options in all.
        assert_eq!(ack.encode().len() + 28, 20 + 20 + 40);
    }
}
