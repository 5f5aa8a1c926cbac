//! A bounded cursor over bytes to send.

use super::varint::{MAX_VARINT, varint_len};

/// Writes fields into a byte slice, front to back.
///
/// A field that does not fit is left out whole and remembered by [`Writer::overflowed`].
#[derive(Debug)]
pub struct Writer<'a> {
    buf: &'a mut [u8],
    /// What may be filled; at most the buffer's length.
    end: usize,
    len: usize,
    overflowed: bool,
}

impl<'a> Writer<'a> {
    /// A cursor at the first byte of `buf`.
    #[inline]
    pub fn new(buf: &'a mut [u8]) -> Self {
        Self {
            end: buf.len(),
            buf,
            len: 0,
            overflowed: false,
        }
    }

    /// Bytes written.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// What was written so far.
    #[inline]
    pub fn written(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or(&[])
    }

    /// Whether nothing was written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that still fit.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.end - self.len
    }

    /// Whether some field did not fit.
    #[inline]
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Takes the next `n` bytes for the caller to fill; `None`, and an overflow, if there are fewer.
    #[inline]
    pub fn reserve_slice(&mut self, n: usize) -> Option<&mut [u8]> {
        let end = self.len.checked_add(n)?;
        let free = self.buf.get_mut(self.len..end).filter(|_| end <= self.end);
        match free {
            Some(slice) => {
                self.len = end;
                Some(slice)
            }
            None => {
                self.overflowed = true;
                None
            }
        }
    }

    /// Lets at most `room` more bytes be written.
    pub(crate) fn limit(&mut self, room: usize) {
        self.end = self.len.saturating_add(room).min(self.end);
    }

    /// Takes back what was written from byte `len` on.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Fills the whole buffer, whatever the limit: zeros go in before byte `at`, and what is written
    /// from there on moves to the end. Returns how many zeros.
    pub(crate) fn fill_before(&mut self, at: usize) -> usize {
        let zeros = self.buf.len() - self.len;
        let end = at.saturating_add(zeros);
        if at > self.len || zeros == 0 {
            return 0;
        }
        self.buf.copy_within(at..self.len, end);
        if let Some(gap) = self.buf.get_mut(at..end) {
            gap.fill(0);
        }
        self.len = self.buf.len();
        self.end = self.len;
        zeros
    }

    /// Raw bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        if let Some(slice) = self.reserve_slice(bytes.len()) {
            slice.copy_from_slice(bytes);
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self, bytes: [u8; N]) {
        match self
            .buf
            .get_mut(self.len..self.end)
            .and_then(|rest| rest.first_chunk_mut::<N>())
        {
            Some(chunk) => {
                *chunk = bytes;
                self.len += N;
            }
            None => self.overflowed = true,
        }
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self, v: u8) {
        self.array([v]);
    }

    /// Two bytes, big-endian.
    #[inline]
    pub fn u16(&mut self, v: u16) {
        self.array(v.to_be_bytes());
    }

    /// Four bytes, big-endian.
    #[inline]
    pub fn u32(&mut self, v: u32) {
        self.array(v.to_be_bytes());
    }

    /// Eight bytes, big-endian.
    #[inline]
    pub fn u64(&mut self, v: u64) {
        self.array(v.to_be_bytes());
    }

    /// The shortest variable-length integer; a value above [`MAX_VARINT`] counts as an overflow.
    #[inline]
    pub fn varint(&mut self, v: u64) {
        self.varint_sized(v, varint_len(v));
    }

    /// A variable-length integer of 1, 2, 4 or 8 bytes; a value that does not fit so many counts
    /// as an overflow.
    #[inline]
    pub fn varint_sized(&mut self, v: u64, bytes: usize) {
        if v > MAX_VARINT || varint_len(v) > bytes {
            debug_assert!(false, "{v} does not fit a {bytes}-byte integer");
            self.overflowed = true;
            return;
        }
        // The checks above make every cast lossless.
        match bytes {
            1 => self.array([v as u8]),
            2 => self.array((v as u16 | 0x4000).to_be_bytes()),
            4 => self.array((v as u32 | 0x8000_0000).to_be_bytes()),
            8 => self.array((v | 0xc000_0000_0000_0000).to_be_bytes()),
            _ => {
                debug_assert!(false, "no {bytes}-byte integers");
                self.overflowed = true;
            }
        }
    }

    /// `n` zero bytes, which are PADDING frames where frames stand.
    #[inline]
    pub fn zeros(&mut self, n: usize) {
        if let Some(slice) = self.reserve_slice(n) {
            slice.fill(0);
        }
    }

    /// What was written.
    #[inline]
    pub fn into_written(self) -> &'a mut [u8] {
        let Self { buf, len, .. } = self;
        // `len` never exceeds the buffer.
        buf.get_mut(..len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_does_not_fit_writes_nothing() {
        let mut buf = [0xaa; 3];
        let mut w = Writer::new(&mut buf);
        w.u16(0x0102);
        w.u32(5);
        assert!(w.overflowed());
        assert_eq!((w.len(), w.remaining()), (2, 1));
        w.u8(3);
        w.bytes(&[1]);
        w.zeros(1);
        assert!(w.reserve_slice(usize::MAX).is_none());
        assert_eq!(w.into_written(), &[1, 2, 3]);
    }

    #[test]
    fn all_widths() {
        let mut buf = [0xaa; 32];
        let mut w = Writer::new(&mut buf);
        w.u8(1);
        w.u64(2);
        w.zeros(2);
        w.bytes(&[7, 8]);
        w.reserve_slice(1).unwrap().fill(9);
        assert!(!w.overflowed());
        assert_eq!(
            w.into_written(),
            &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 7, 8, 9]
        );
    }
}
