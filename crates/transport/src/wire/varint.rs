//! Variable-length integers. RFC 9000 s16.

/// The largest value a variable-length integer holds, `2^62 - 1`.
pub const MAX_VARINT: u64 = (1 << 62) - 1;

/// Bytes of the shortest encoding of `v`: 1, 2, 4 or 8. Values above [`MAX_VARINT`] count as 8.
#[inline]
pub const fn varint_len(v: u64) -> usize {
    if v < 1 << 6 {
        1
    } else if v < 1 << 14 {
        2
    } else if v < 1 << 30 {
        4
    } else {
        8
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        error::DecodeErrorKind,
        wire::{Reader, Writer},
    };

    fn decode(bytes: &[u8]) -> u64 {
        let mut r = Reader::new(bytes);
        let value = r.varint().unwrap();
        assert!(r.is_empty());
        value
    }

    #[test]
    fn rfc_9000_appendix_a1_examples() {
        let long = [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c];
        assert_eq!(decode(&long), 151_288_809_941_952_652);
        assert_eq!(decode(&[0x9d, 0x7f, 0x3e, 0x7d]), 494_878_333);
        assert_eq!(decode(&[0x7b, 0xbd]), 15_293);
        assert_eq!(decode(&[0x25]), 37);
        assert_eq!(decode(&[0x40, 0x25]), 37);
    }

    #[test]
    fn lengths_change_at_the_right_values() {
        let edges = [
            (63, 1),
            (64, 2),
            (16_383, 2),
            (16_384, 4),
            ((1 << 30) - 1, 4),
            (1 << 30, 8),
        ];
        for (value, len) in edges {
            assert_eq!(varint_len(value), len, "{value}");
        }
        assert_eq!(varint_len(MAX_VARINT), 8);
    }

    #[test]
    fn truncated_varints_leave_the_reader_where_it_was() {
        for bytes in [&[][..], &[0x40], &[0x80, 0, 0], &[0xc0, 0, 0, 0, 0, 0, 0]] {
            let mut r = Reader::new(bytes);
            let error = r.varint().unwrap_err();
            assert_eq!(
                (error.offset, error.kind),
                (0, DecodeErrorKind::UnexpectedEnd)
            );
            assert_eq!(r.remaining(), bytes.len());
        }
    }

    #[test]
    fn a_longer_form_than_needed_can_be_written() {
        for (len, expected) in [
            (1, &[0x25][..]),
            (2, &[0x40, 0x25]),
            (4, &[0x80, 0, 0, 0x25]),
        ] {
            let mut buf = [0; 8];
            let mut w = Writer::new(&mut buf);
            w.varint_sized(37, len);
            assert_eq!(w.into_written(), expected);
        }
    }

    proptest! {
        #[test]
        fn round_trip(shift in 0u32..62, raw in 0..=MAX_VARINT) {
            let value = raw >> shift;
            let mut buf = [0; 8];
            let mut w = Writer::new(&mut buf);
            w.varint(value);
            prop_assert!(!w.overflowed());
            let written = w.into_written();
            prop_assert_eq!(written.len(), varint_len(value));
            prop_assert_eq!(decode(written), value);
        }
    }
}
