//! A fixed piece of a stream's offsets: bytes, and which of them have arrived.

use bytes::{Buf as _, Bytes, BytesMut};

/// Bytes per block: blocks lie at multiples of this.
pub(super) const BLOCK: usize = 4096;

const WORDS: usize = BLOCK / 64;

/// Which bytes of a block: one range as long as they are in one piece, as nearly always, else one bit per
/// byte. These are the 12.5 % that reassembly costs at most.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    /// Where the range starts and ends; without meaning once there are words.
    start: usize,
    end: usize,
    words: Option<Box<[u64; WORDS]>>,
}

/// The words that `start..end` touches, each with the mask of the bits inside.
fn words(start: usize, end: usize) -> impl Iterator<Item = (usize, u64)> {
    let end = end.min(BLOCK);
    let last = end.div_ceil(64);
    (start / 64..last).map(move |word| {
        let from = start.saturating_sub(word * 64).min(63);
        let to = (end - word * 64).min(64);
        (word, (u64::MAX << from) & (u64::MAX >> (64 - to)))
    })
}

impl Bits {
    /// Sets `start..end`; how many were not set.
    pub(super) fn set(&mut self, start: usize, end: usize) -> u64 {
        let end = end.min(BLOCK);
        if start >= end {
            return 0;
        }
        if self.words.is_none() {
            let before = self.end - self.start;
            if before == 0 {
                (self.start, self.end) = (start, end);
                return (end - start) as u64;
            }
            if start <= self.end && self.start <= end {
                (self.start, self.end) = (self.start.min(start), self.end.max(end));
                return (self.end - self.start - before) as u64;
            }
        }
        let mut fresh = 0;
        let bits = self.in_words();
        for (word, mask) in words(start, end) {
            if let Some(bits) = bits.get_mut(word) {
                fresh += u64::from((mask & !*bits).count_ones());
                *bits |= mask;
            }
        }
        fresh
    }

    /// One bit per byte from now on.
    fn in_words(&mut self) -> &mut [u64; WORDS] {
        let (start, end) = (self.start, self.end);
        self.words.get_or_insert_with(|| {
            let mut bits = Box::new([0; WORDS]);
            if start < end {
                for (word, mask) in words(start, end) {
                    if let Some(bits) = bits.get_mut(word) {
                        *bits = mask;
                    }
                }
            }
            bits
        })
    }

    pub(super) fn clear(&mut self, start: usize, end: usize) {
        if start >= end {
            return;
        }
        if self.words.is_none() {
            if end <= self.start || self.end <= start {
                return;
            }
            if start <= self.start {
                self.start = end.min(self.end);
                return;
            }
            if self.end <= end {
                self.end = start;
                return;
            }
        }
        let bits = self.in_words();
        for (word, mask) in words(start, end) {
            if let Some(bits) = bits.get_mut(word) {
                *bits &= !mask;
            }
        }
    }

    /// How many of `start..end` are set.
    pub(super) fn count(&self, start: usize, end: usize) -> u64 {
        if start >= end {
            return 0;
        }
        let Some(bits) = &self.words else {
            return self.end.min(end).saturating_sub(self.start.max(start)) as u64;
        };
        words(start, end)
            .filter_map(|(word, mask)| Some((bits.get(word)? & mask).count_ones()))
            .map(u64::from)
            .sum()
    }

    /// The first position from `start` on whose bit is `wanted`, or [`BLOCK`].
    pub(super) fn find(&self, start: usize, wanted: bool) -> usize {
        if start >= BLOCK {
            return BLOCK;
        }
        let Some(bits) = &self.words else {
            let ahead = start < self.end && self.start < self.end;
            return match wanted {
                true if ahead => start.max(self.start),
                true => BLOCK,
                false if ahead && self.start <= start => self.end,
                false => start,
            };
        };
        let mut mask = u64::MAX << (start % 64);
        for (word, bits) in bits.iter().enumerate().skip(start / 64) {
            let hits = mask & if wanted { *bits } else { !*bits };
            if hits != 0 {
                return word * 64 + hits.trailing_zeros() as usize;
            }
            mask = u64::MAX;
        }
        BLOCK
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.words {
            Some(bits) => bits.iter().all(|word| *word == 0),
            None => self.start == self.end,
        }
    }

    /// Bytes of memory beside itself.
    #[cfg(test)]
    fn memory(&self) -> usize {
        self.words.as_ref().map_or(0, |words| size_of_val(&**words))
    }
}

/// Bytes of one block.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// Bytes from position `taken` on, up to the last that arrived. Room for the rest of the
    /// block, or none at all until something is copied in.
    data: BytesMut,
    /// Positions below were handed out.
    taken: usize,
    /// Positions that have arrived.
    pub(super) received: Bits,
    /// In unordered mode: positions held in `data` that the application has not got.
    pub(super) pending: Option<Box<Bits>>,
}

impl Block {
    /// Copies `bytes` to position `at`; how many of them had not arrived before.
    pub(super) fn fill(&mut self, at: usize, bytes: &[u8]) -> u64 {
        if self.data.capacity() == 0 {
            self.data.reserve(BLOCK);
            self.taken = 0;
        }
        debug_assert!(at >= self.taken, "fill below what was taken");
        let from = at.saturating_sub(self.taken);
        let (known, new) = bytes.split_at(self.data.len().saturating_sub(from).min(bytes.len()));
        if let Some(room) = self.data.get_mut(from..from + known.len()) {
            room.copy_from_slice(known);
        }
        if !new.is_empty() {
            // Only gaps are zeroed; what follows in order is written once.
            self.data.resize(from + known.len(), 0);
            self.data.extend_from_slice(new);
        }
        self.received.set(at, at + bytes.len())
    }

    /// Hands out `len` bytes from position `at` without copying; everything before is let go.
    pub(super) fn take(&mut self, at: usize, len: usize) -> Bytes {
        let skip = at.saturating_sub(self.taken).min(self.data.len());
        let len = len.min(self.data.len() - skip);
        self.taken += skip + len;
        self.data.advance(skip);
        if self.taken == BLOCK {
            return std::mem::take(&mut self.data).freeze();
        }
        self.data.split_to(len).freeze()
    }

    /// Copies out `len` pending bytes from position `at`; the memory goes when none is left.
    pub(super) fn take_pending(&mut self, at: usize, len: usize) -> Bytes {
        let from = at.saturating_sub(self.taken);
        let bytes = self
            .data
            .get(from..from + len)
            .map_or_else(Bytes::new, Bytes::copy_from_slice);
        if let Some(pending) = &mut self.pending {
            pending.clear(at, at + len);
            if pending.is_empty() {
                self.pending = None;
                self.data = BytesMut::new();
                self.taken = 0;
            }
        }
        bytes
    }

    /// Forgets what arrived from position `at` on.
    pub(super) fn truncate(&mut self, at: usize) {
        self.received.clear(at, BLOCK);
        if let Some(pending) = &mut self.pending {
            pending.clear(at, BLOCK);
            if pending.is_empty() {
                self.pending = None;
            }
        }
    }

    /// Bytes of memory held, the block itself included.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let pending = self.pending.as_ref();
        let pending = pending.map_or(0, |bits| size_of::<Bits>() + bits.memory());
        size_of::<Self>() + self.data.capacity() + self.received.memory() + pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn bits_in_one_piece_and_in_many_are_the_same_bits() {
        let mut rng = Rng::from_u64(7);
        for _ in 0..200 {
            let (mut bits, mut plain) = (Bits::default(), vec![false; BLOCK]);
            for _ in 0..12 {
                let start = rng.below(BLOCK as u64 / 64) as usize * 64 + rng.below(3) as usize;
                let end = (start + 1 + rng.below(1_500) as usize).min(BLOCK);
                if rng.below(4) == 0 {
                    bits.clear(start, end);
                    plain[start..end].fill(false);
                } else {
                    let fresh = plain[start..end].iter().filter(|set| !**set).count();
                    assert_eq!(bits.set(start, end), fresh as u64);
                    plain[start..end].fill(true);
                }
                let from = rng.below(BLOCK as u64) as usize;
                for wanted in [false, true] {
                    let found = plain[from..].iter().position(|set| *set == wanted);
                    let found = found.map_or(BLOCK, |at| from + at);
                    assert_eq!(bits.find(from, wanted), found);
                }
                let counted = plain[from..end.max(from)]
                    .iter()
                    .filter(|set| **set)
                    .count();
                assert_eq!(bits.count(from, end), counted as u64);
                assert_eq!(bits.is_empty(), !plain.contains(&true));
            }
        }
    }
}
