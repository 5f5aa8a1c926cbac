//! How a source symbol of any length enters the code, and where its bytes lie.
//!
//! Owns: the framing rule, [`Buffer`].
//!
//! The code works on framed symbols: the symbol's length (16 bits, big-endian), its bytes, then
//! zeros without end. A repair symbol is as long as the longest framed symbol of its window, so
//! padding is never sent, neither with a source symbol (which travels as it is) nor beyond what
//! the longest needs. What is rebuilt is a symbol only if its length fits and everything after it
//! is zero; that check costs nothing and finds nearly all garbage.

/// Bytes of the length before a symbol.
const LENGTH_BYTES: usize = 2;

/// Buffers begin at, and extend to, multiples of this: the largest vector, and a cache line.
const ALIGNMENT: usize = 64;

/// Bytes of a framed symbol of `len` bytes.
pub(crate) const fn framed_len(len: usize) -> usize {
    LENGTH_BYTES + len
}

/// The symbol in a framed symbol with its padding; `None` if these bytes frame none.
pub(crate) fn unframe(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    let (symbol, padding) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    padding.iter().all(|byte| *byte == 0).then_some(symbol)
}

/// A framed symbol or a sum of such, followed by zeros, at an address vectors like.
///
/// Invariant: all bytes from `len` on are zero.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    memory: Vec<u8>,
    /// Where the aligned part begins.
    start: usize,
    /// Bytes in use.
    len: usize,
}

impl Buffer {
    /// Zeros, with room for `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        let memory = vec![0; Self::allocated_bytes(capacity)];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self {
            start: if start < ALIGNMENT { start } else { 0 },
            memory,
            len: 0,
        }
    }

    /// What a buffer for `capacity` bytes allocates.
    pub(crate) const fn allocated_bytes(capacity: usize) -> usize {
        capacity.next_multiple_of(ALIGNMENT) + ALIGNMENT - 1
    }

    /// Bytes in use.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes in use, and zeros up to a whole number of vectors.
    pub(crate) fn padded(&self) -> &[u8] {
        let end = self.start + self.len.next_multiple_of(ALIGNMENT);
        self.memory.get(self.start..end).unwrap_or_default()
    }

    /// The bytes in use and zeros after them, for a sum that is `len` bytes long if that is more
    /// than now. Adding buffers' [`padded`](Self::padded) bytes keeps the invariant as long as
    /// none of them has more bytes in use.
    pub(crate) fn sum(&mut self, len: usize) -> &mut [u8] {
        self.len = self.len.max(len);
        let end = self.start + self.len.next_multiple_of(ALIGNMENT);
        self.memory.get_mut(self.start..end).unwrap_or_default()
    }

    /// Counts only `len` bytes as in use; those after them must be zero.
    pub(crate) fn shorten(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Becomes zero, of no length.
    pub(crate) fn clear(&mut self) {
        self.sum(0).fill(0);
        self.len = 0;
    }

    /// Becomes these bytes.
    pub(crate) fn set(&mut self, bytes: &[u8]) {
        if let Some(room) = self.overwrite(bytes.len()) {
            room.copy_from_slice(bytes);
        }
    }

    /// Becomes the framed symbol; the caller has checked that its length fits 16 bits.
    pub(crate) fn frame(&mut self, symbol: &[u8]) {
        let room = self.overwrite(framed_len(symbol.len()));
        if let Some((length, room)) = room.and_then(<[u8]>::split_first_chunk_mut::<LENGTH_BYTES>) {
            *length = (symbol.len() as u16).to_be_bytes();
            room.copy_from_slice(symbol);
        }
    }

    /// The first `len` bytes, all of which the caller writes; what was in use behind them is zero
    /// from now on. (Not all of it: symbols are mostly as long as the last, and zeros written first
    /// would cost as much as the copy.) `None`, and empty, where there is no room.
    fn overwrite(&mut self, len: usize) -> Option<&mut [u8]> {
        let before = self.len;
        if self.start + len > self.memory.len() {
            self.clear();
            return None;
        }
        self.len = len;
        let room = self.memory.get_mut(self.start..)?;
        if let Some(old) = room.get_mut(len..before) {
            old.fill(0);
        }
        room.get_mut(..len)
    }

    /// The symbol framed here; `None` if none is.
    pub(crate) fn symbol(&self) -> Option<&[u8]> {
        unframe(self.padded())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing() {
        let mut buffer = Buffer::new(framed_len(300));
        for len in [0, 1, 299, 300, 61, 62, 63] {
            let symbol = vec![len as u8 | 1; len];
            buffer.frame(&symbol);
            assert_eq!(buffer.len(), len + 2);
            assert_eq!(buffer.padded().len() % 64, 0);
            assert_eq!(buffer.padded().as_ptr().align_offset(64), 0);
            assert_eq!(buffer.symbol(), Some(&symbol[..]));
            let behind = &buffer.memory[buffer.start + buffer.len()..];
            assert!(behind.iter().all(|byte| *byte == 0));
        }
        buffer.clear();
        assert_eq!(buffer.len(), 0);
        assert!(buffer.memory.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn what_frames_no_symbol() {
        assert_eq!(unframe(&[]), None);
        assert_eq!(unframe(&[0]), None);
        assert_eq!(unframe(&[0, 0]), Some(&[][..]));
        assert_eq!(unframe(&[0, 2, 7]), None);
        assert_eq!(unframe(&[0, 1, 7, 0]), Some(&[7][..]));
        assert_eq!(unframe(&[0, 1, 7, 1]), None);
    }
}
