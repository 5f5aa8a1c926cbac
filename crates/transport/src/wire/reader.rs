//! A cursor over received bytes.

use crate::error::{DecodeError, DecodeErrorKind};

/// Reads fields from the front of a byte slice.
///
/// Never panics; a read that fails consumes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Reader<'a> {
    /// A cursor at the first byte of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            total: bytes.len(),
        }
    }

    /// Bytes not read yet.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether everything was read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes read so far.
    #[inline]
    pub const fn offset(&self) -> usize {
        self.total - self.rest.len()
    }

    /// Everything not read yet, without reading it.
    #[inline]
    pub const fn peek_rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next variable-length integer without reading it, such as the type of the next frame.
    #[inline]
    pub fn peek_varint(&self) -> Option<u64> {
        Reader::new(self.rest).varint().ok()
    }

    /// An error at the current position.
    #[cold]
    pub(crate) fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError {
            offset: self.offset(),
            kind,
        }
    }

    #[cold]
    fn end(&self) -> DecodeError {
        self.error(DecodeErrorKind::UnexpectedEnd)
    }

    /// `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(self.end()),
        }
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        match self.rest.split_first() {
            Some((&first, tail)) => {
                self.rest = tail;
                Ok(first)
            }
            None => Err(self.end()),
        }
    }

    /// Two bytes, big-endian.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes, big-endian.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes, big-endian.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    /// A variable-length integer of any of its lengths. RFC 9000 s16.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let Some((&first, tail)) = self.rest.split_first() else {
            return Err(self.end());
        };
        match first >> 6 {
            0 => {
                self.rest = tail;
                Ok(u64::from(first))
            }
            1 => self
                .array()
                .map(|b| u64::from(u16::from_be_bytes(b) & 0x3fff)),
            2 => self
                .array()
                .map(|b| u64::from(u32::from_be_bytes(b) & 0x3fff_ffff)),
            _ => self
                .array()
                .map(|b| u64::from_be_bytes(b) & super::MAX_VARINT),
        }
    }

    /// `n` bytes.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(n) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(self.end()),
        }
    }

    /// As many bytes as the variable-length integer in front of them says.
    #[inline]
    pub fn varint_prefixed(&mut self) -> Result<&'a [u8], DecodeError> {
        let before = *self;
        let len = self.varint()?;
        let result = match usize::try_from(len) {
            Ok(len) => self.bytes(len),
            Err(_) => Err(self.end()),
        };
        if result.is_err() {
            *self = before;
        }
        result
    }

    /// All bytes not read yet.
    #[inline]
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Skips `n` bytes that are known to be there; fewer when they are not.
    #[inline]
    pub(crate) fn skip(&mut self, n: usize) {
        self.rest = self.rest.get(n..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_width_fields_are_big_endian() {
        let mut r = Reader::new(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        assert_eq!(r.u8(), Ok(1));
        assert_eq!(r.u16(), Ok(0x0203));
        assert_eq!(r.u32(), Ok(0x0405_0607));
        assert_eq!(r.u64(), Ok(0x0809_0a0b_0c0d_0e0f));
        assert_eq!((r.offset(), r.remaining()), (15, 1));
        assert_eq!(r.u16().unwrap_err().offset, 15);
        assert_eq!(r.rest(), &[16]);
        assert!(r.is_empty());
        assert_eq!(r.offset(), 16);
    }

    #[test]
    fn a_prefixed_field_that_is_cut_consumes_nothing() {
        let mut r = Reader::new(&[3, 1, 2]);
        assert!(r.varint_prefixed().is_err());
        assert_eq!(r.remaining(), 3);
        let huge = [0xff; 8];
        assert!(Reader::new(&huge).varint_prefixed().is_err());
    }
}
