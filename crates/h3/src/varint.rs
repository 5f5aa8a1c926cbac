//! Numbers that arrive in pieces. RFC 9000 s16.

/// A number under way.
#[derive(Debug, Default)]
pub(crate) struct PartialVarint {
    value: u64,
    /// Bytes still to come; 0 between numbers.
    missing: u8,
}

impl PartialVarint {
    /// Takes the next byte; the number if that was its last.
    pub(crate) fn push(&mut self, byte: u8) -> Option<u64> {
        if self.missing == 0 {
            self.value = u64::from(byte & 0x3f);
            self.missing = (1 << (byte >> 6)) - 1;
        } else {
            self.value = self.value << 8 | u64::from(byte);
            self.missing -= 1;
        }
        (self.missing == 0).then_some(self.value)
    }

    /// Whether some bytes of a number have come, but not all.
    pub(crate) fn is_partial(&self) -> bool {
        self.missing > 0
    }

    /// The number that `bytes` begin with, and what follows it.
    pub(crate) fn first(bytes: &[u8]) -> Option<(u64, &[u8])> {
        let mut number = Self::default();
        let mut rest = bytes;
        while let Some((&byte, behind)) = rest.split_first() {
            rest = behind;
            if let Some(value) = number.push(byte) {
                return Some((value, rest));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_lengths() {
        for (bytes, value) in [
            (&[0x25][..], 37),
            (&[0x7b, 0xbd], 15_293),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c],
                151_288_809_941_952_652,
            ),
        ] {
            assert_eq!(PartialVarint::first(bytes), Some((value, &[][..])));
            assert_eq!(PartialVarint::first(&bytes[..bytes.len() - 1]), None);
        }
    }
}
