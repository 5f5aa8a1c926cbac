//! Packet numbers are sent truncated. RFC 9000 s17.1, A.2, A.3.

use crate::{units::PacketNumber, wire::MAX_VARINT};

/// Bytes (1 to 4) to send of `pn` so that a peer that acknowledged `largest_acked` can tell it
/// from every other number in flight.
#[inline]
pub fn packet_number_len(pn: PacketNumber, largest_acked: Option<PacketNumber>) -> usize {
    let unacked = match largest_acked {
        Some(largest) => pn.saturating_sub(largest),
        None => pn.saturating_add(1),
    };
    // The window must be at least twice as wide as the run of unacknowledged numbers.
    if unacked <= 1 << 7 {
        1
    } else if unacked <= 1 << 15 {
        2
    } else if unacked <= 1 << 23 {
        3
    } else {
        4
    }
}

/// The full packet number that ends in the `len` bytes `truncated` and lies nearest to the one
/// expected after `largest`, the largest received so far in the space.
#[inline]
pub fn decode_packet_number(
    largest: Option<PacketNumber>,
    truncated: u64,
    len: usize,
) -> PacketNumber {
    debug_assert!((1..=4).contains(&len), "packet numbers have 1 to 4 bytes");
    let expected = largest.map_or(0, |largest| largest.saturating_add(1).min(MAX_VARINT));
    let window = 1u64 << (8 * len.clamp(1, 4));
    let half = window / 2;
    let candidate = (expected & !(window - 1)) | (truncated & (window - 1));
    if candidate.saturating_add(half) <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected.saturating_add(half) && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rfc_9000_appendix_a2_examples() {
        assert_eq!(packet_number_len(0xac5c02, Some(0xabe8b3)), 2);
        assert_eq!(packet_number_len(0xace8fe, Some(0xabe8b3)), 3);
    }

    #[test]
    fn rfc_9000_appendix_a3_example() {
        assert_eq!(
            decode_packet_number(Some(0xa82f30ea), 0x9b32, 2),
            0xa82f9b32
        );
    }

    #[test]
    fn the_first_packets() {
        assert_eq!(packet_number_len(0, None), 1);
        assert_eq!(packet_number_len(127, None), 1);
        assert_eq!(packet_number_len(128, None), 2);
        assert_eq!(decode_packet_number(None, 0, 1), 0);
        assert_eq!(decode_packet_number(None, 0xff, 1), 0xff);
        assert_eq!(decode_packet_number(Some(0), 0xff, 1), 0xff);
    }

    #[test]
    fn the_end_of_the_number_space() {
        assert_eq!(decode_packet_number(Some(MAX_VARINT), 0xff, 1), MAX_VARINT);
        assert!(decode_packet_number(Some(MAX_VARINT), 0x00, 1) <= MAX_VARINT);
    }

    proptest! {
        #[test]
        fn what_is_sent_is_what_is_decoded(
            largest_acked in prop::option::of(0..MAX_VARINT / 2),
            ahead in 1u64..1 << 24,
            received in 0.0f64..1.0,
        ) {
            let base = largest_acked.map_or(0, |largest| largest + 1);
            let pn = base + ahead - 1;
            let len = packet_number_len(pn, largest_acked);
            // The receiver has seen the acknowledged packet and any of those up to `pn`.
            let span = (pn - base) as f64;
            let seen = (base + (span * received) as u64).min(pn).checked_sub(1);
            let largest = seen.max(largest_acked);
            let truncated = pn & ((1 << (8 * len)) - 1);
            prop_assert_eq!(decode_packet_number(largest, truncated, len), pn);
        }

        #[test]
        fn decoding_keeps_the_truncated_bits_and_the_range(
            largest in prop::option::of(0..=MAX_VARINT), bits in any::<u32>(), len in 1usize..=4,
        ) {
            let mask = (1u64 << (8 * len)) - 1;
            let truncated = u64::from(bits) & mask;
            let pn = decode_packet_number(largest, truncated, len);
            prop_assert_eq!(pn & mask, truncated);
            prop_assert!(pn <= MAX_VARINT);
        }
    }
}
