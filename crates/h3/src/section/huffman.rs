//! The Huffman code of QPACK's strings.
//!
//! Owns: [`decode`]. Does not own: anything else of QPACK (`section.rs`).
//! Spec: RFC 7541 s5.2 and appendix B, which RFC 9204 s4.1.2 takes over.

use super::Undecodable;

/// Bits of each byte's code. The code is canonical: codes count upwards in order of their length,
/// then of the byte, and so lengths are all there is to know.
const BITS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The longest code; that of the end of a string, which must not be written, is as long.
const MAX_BITS: usize = 30;
/// More padding than this is an error.
const MAX_PADDING_BITS: u32 = 7;

/// For each length: the first code, how many there are, and where their bytes begin in `BYTES`.
const LENGTHS: [(u32, u32, usize); MAX_BITS + 1] = lengths();
const BYTES: [u8; 256] = bytes();

const fn lengths() -> [(u32, u32, usize); MAX_BITS + 1] {
    let mut table = [(0, 0, 0); MAX_BITS + 1];
    let (mut bits, mut first, mut at) = (1, 0, 0);
    while bits <= MAX_BITS {
        let (mut count, mut byte) = (0, 0);
        while byte < 256 {
            if BITS[byte] as usize == bits {
                count += 1;
            }
            byte += 1;
        }
        table[bits] = (first, count, at);
        first = (first + count) << 1;
        at += count as usize;
        bits += 1;
    }
    table
}

const fn bytes() -> [u8; 256] {
    let mut table = [0; 256];
    let (mut bits, mut at) = (1, 0);
    while bits <= MAX_BITS {
        let mut byte = 0;
        while byte < 256 {
            if BITS[byte] as usize == bits {
                table[at] = byte as u8;
                at += 1;
            }
            byte += 1;
        }
        bits += 1;
    }
    table
}

/// The string that `coded` stands for: at most 8 / 5 of its length.
pub(super) fn decode(coded: &[u8]) -> Result<Vec<u8>, Undecodable> {
    let mut plain = Vec::with_capacity(coded.len() * 8 / 5);
    let (mut code, mut bits) = (0_u32, 0_usize);
    for byte in coded {
        for place in (0..8).rev() {
            code = code << 1 | u32::from(byte >> place & 1);
            bits += 1;
            let (first, count, at) = *LENGTHS.get(bits).ok_or(Undecodable)?;
            if let Some(nth) = code.checked_sub(first)
                && nth < count
            {
                plain.push(*BYTES.get(at + nth as usize).ok_or(Undecodable)?);
                (code, bits) = (0, 0);
            }
        }
    }
    // What is left must be the beginning of the longest code, which is all ones.
    let padding = bits as u32;
    if padding > MAX_PADDING_BITS || code != (1 << padding) - 1 {
        return Err(Undecodable);
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(plain: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for byte in plain {
            let len = usize::from(BITS[usize::from(*byte)]);
            let (first, _, at) = LENGTHS[len];
            let nth = BYTES[at..].iter().position(|other| other == byte).unwrap();
            let code = first + nth as u32;
            bits.extend((0..len).rev().map(|place| code >> place & 1 == 1));
        }
        while bits.len() % 8 != 0 {
            bits.push(true);
        }
        let byte = |bits: &[bool]| bits.iter().fold(0, |all, bit| all << 1 | u8::from(*bit));
        bits.chunks(8).map(byte).collect()
    }

    /// RFC 7541 appendix C.4 and C.6.
    #[test]
    fn vectors() {
        for (coded, plain) in [
            (
                &[
                    0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
                ][..],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (
                &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f],
                "custom-key",
            ),
            (&[0xae, 0xc3, 0x77, 0x1a, 0x4b], "private"),
        ] {
            assert_eq!(decode(coded).unwrap(), plain.as_bytes());
            assert_eq!(encode(plain.as_bytes()), coded);
        }
    }

    /// The code fills its space but for the string's end, which is 30 ones.
    #[test]
    fn the_code_is_complete() {
        let (first, count, _) = LENGTHS[MAX_BITS];
        assert_eq!(first + count, (1 << 30) - 1);
    }

    #[test]
    fn padding_is_short_and_of_ones() {
        // `a` is 00011.
        assert_eq!(decode(&[0b0001_1111]).unwrap(), b"a");
        assert!(decode(&[0b0001_1110]).is_err());
        assert!(decode(&[0b0001_1111, 0xff]).is_err());
        // The string's end.
        assert!(decode(&[0xff; 4]).is_err());
        assert!(decode(&[0xff; 100]).is_err());
        assert_eq!(decode(&[]).unwrap(), b"");
    }

    proptest! {
        #[test]
        fn what_is_coded_is_decoded(plain in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(decode(&encode(&plain)).unwrap(), plain);
        }

        #[test]
        fn any_bytes_do_no_harm(coded in prop::collection::vec(any::<u8>(), 0..100)) {
            let plain = decode(&coded).unwrap_or_default();
            prop_assert!(plain.len() <= coded.len() * 8 / 5);
        }
    }
}
