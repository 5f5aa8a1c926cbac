//! Bytes written by the application until they are acknowledged.
//!
//! Small writes are copied into blocks that grow with use; [`Bytes`] are kept without a copy.
//! Acknowledged and lost ranges are sets with O(log n) operations; in the common case (in-order
//! acknowledgement, no loss) both stay empty. The acknowledged prefix is released at once.

use std::ops::Range;

use bytes::Bytes;

use super::{range_set::RangeSet, short_deque::ShortDeque};

/// Blocks for copied writes grow from the smaller to the larger of these.
const BLOCK_BYTES: Range<usize> = 512..65_536;

/// Shorter [`Bytes`] are copied: keeping each would cost more than its bytes.
const COPY_BELOW_BYTES: usize = 256;

/// Gaps that are looked at to tell how much is to be sent again.
const RANGES_COUNTED: usize = 64;

#[derive(Debug)]
enum Data {
    Kept(Bytes),
    /// Copied; the last block takes further writes while it has spare capacity.
    Copied(Vec<u8>),
}

#[derive(Debug)]
struct Chunk {
    offset: u64,
    data: Data,
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Kept(bytes) => bytes,
            Data::Copied(block) => block,
        }
    }

    fn end(&self) -> u64 {
        self.offset + self.bytes().len() as u64
    }
}

/// See the module's words. Offsets: `base <= unsent <= end`.
#[derive(Debug, Default)]
pub(crate) struct SendBuffer {
    chunks: ShortDeque<Chunk>,
    /// Index in `chunks` at which the search for `unsent` starts.
    cursor: usize,
    base: u64,
    unsent: u64,
    end: u64,
    /// Acknowledged ranges above `base`.
    acked: RangeSet,
    /// Ranges to send again.
    lost: RangeSet,
    block_bytes: usize,
}

impl SendBuffer {
    /// Offset after the last written byte.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Offset of the first byte never sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Everything below is acknowledged.
    #[cfg(test)]
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Bytes written and not released.
    pub(crate) fn buffered(&self) -> u64 {
        self.end - self.base
    }

    /// Whether every written byte is acknowledged.
    pub(crate) fn is_all_acked(&self) -> bool {
        self.base == self.end
    }

    /// Bytes to send again, as far as they lie in a moderate number of ranges.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost.count_up_to(RANGES_COUNTED)
    }

    /// The lowest range to send again.
    pub(crate) fn first_lost(&self) -> Option<Range<u64>> {
        self.lost.first()
    }

    /// Appends a copy of `data`.
    pub(crate) fn write(&mut self, mut data: &[u8]) {
        if let Some(Chunk {
            data: Data::Copied(block),
            ..
        }) = self.chunks.back_mut()
        {
            let spare = block.capacity() - block.len();
            let (now, rest) = data.split_at(data.len().min(spare));
            block.extend_from_slice(now);
            self.end += now.len() as u64;
            data = rest;
            // What was sent up to its end continues in this block.
            self.cursor = self.cursor.min(self.chunks.len() - 1);
        }
        while !data.is_empty() {
            let capacity = self
                .block_bytes
                .max(data.len())
                .clamp(BLOCK_BYTES.start, BLOCK_BYTES.end);
            self.block_bytes = capacity.saturating_mul(2).min(BLOCK_BYTES.end);
            let (now, rest) = data.split_at(data.len().min(capacity));
            let mut block = Vec::with_capacity(capacity);
            block.extend_from_slice(now);
            self.chunks.push_back(Chunk {
                offset: self.end,
                data: Data::Copied(block),
            });
            self.end += now.len() as u64;
            data = rest;
        }
    }

    /// Appends `data` without copying it (unless it is short).
    pub(crate) fn write_bytes(&mut self, data: Bytes) {
        if data.len() < COPY_BELOW_BYTES {
            return self.write(&data);
        }
        let offset = self.end;
        self.end += data.len() as u64;
        self.chunks.push_back(Chunk {
            offset,
            data: Data::Kept(data),
        });
    }

    /// Copies the bytes from `offset` on into `out`, all of which were written and not released.
    pub(crate) fn copy_to(&self, offset: u64, out: &mut [u8]) {
        let mut index = self.index_of(offset);
        let mut offset = offset;
        let mut filled = 0;
        while let Some(room) = out.get_mut(filled..).filter(|room| !room.is_empty()) {
            let Some(chunk) = self.chunks.get(index) else {
                debug_assert!(false, "bytes {offset} were not written or were released");
                return;
            };
            let from = (offset - chunk.offset) as usize;
            let bytes = chunk.bytes().get(from..).unwrap_or_default();
            let len = bytes.len().min(room.len());
            if let (Some(to), Some(from)) = (room.get_mut(..len), bytes.get(..len)) {
                to.copy_from_slice(from);
            }
            filled += len;
            offset += len as u64;
            index += 1;
        }
    }

    /// `len` bytes from `unsent` on were put into a packet.
    pub(crate) fn on_sent(&mut self, len: u64) {
        self.unsent = (self.unsent + len).min(self.end);
        while self
            .chunks
            .get(self.cursor)
            .is_some_and(|chunk| chunk.end() <= self.unsent)
        {
            self.cursor += 1;
        }
    }

    /// `range` was put into a packet again.
    pub(crate) fn on_sent_again(&mut self, range: Range<u64>) {
        self.lost.remove(range);
    }

    /// `range` is acknowledged. Returns how many bytes were released.
    pub(crate) fn on_acked(&mut self, range: Range<u64>) -> u64 {
        let range = range.start.max(self.base)..range.end.min(self.unsent);
        if range.is_empty() {
            return 0;
        }
        if !self.lost.is_empty() {
            self.lost.remove(range.clone());
        }
        if range.start > self.base {
            self.acked.insert(range);
            return 0;
        }
        let before = self.base;
        self.base = range.end;
        while let Some(next) = self.acked.first().filter(|next| next.start <= self.base) {
            self.base = self.base.max(next.end);
            self.acked.remove(next);
        }
        self.release();
        self.base - before
    }

    /// `range` is lost: what of it is not acknowledged is to be sent again.
    pub(crate) fn on_lost(&mut self, range: Range<u64>) {
        let range = range.start.max(self.base)..range.end.min(self.unsent);
        if self.acked.is_empty() {
            self.lost.insert(range);
        } else {
            for gap in self.acked.gaps_in(range) {
                self.lost.insert(gap);
            }
        }
    }

    /// Forgets what lies at `end` and above. Returns how many bytes were released.
    pub(crate) fn truncate(&mut self, end: u64) -> u64 {
        let end = end.max(self.base);
        if end >= self.end {
            return 0;
        }
        let before = self.buffered();
        self.lost.remove(end..u64::MAX);
        self.acked.remove(end..u64::MAX);
        while self.chunks.back().is_some_and(|chunk| chunk.offset >= end) {
            self.chunks.pop_back();
        }
        if let Some(chunk) = self.chunks.back_mut() {
            let len = (end - chunk.offset) as usize;
            match &mut chunk.data {
                Data::Kept(bytes) => bytes.truncate(len),
                Data::Copied(block) => block.truncate(len),
            }
        }
        self.end = end;
        self.unsent = self.unsent.min(end);
        self.cursor = self.cursor.min(self.chunks.len());
        before - self.buffered()
    }

    /// Nothing that was sent counts any more: all is new again.
    pub(crate) fn rewind(&mut self) {
        debug_assert_eq!(
            self.base, 0,
            "0-RTT data cannot be acknowledged and then rejected"
        );
        self.acked.clear();
        self.lost.clear();
        self.unsent = self.base;
        self.cursor = 0;
    }

    fn release(&mut self) {
        while self
            .chunks
            .front()
            .is_some_and(|chunk| chunk.end() <= self.base)
        {
            self.chunks.pop_front();
            self.cursor = self.cursor.saturating_sub(1);
        }
        if self.chunks.is_empty() {
            self.block_bytes = 0;
            if self.chunks.capacity() > 16 {
                self.chunks = ShortDeque::default();
            }
        }
    }

    fn index_of(&self, offset: u64) -> usize {
        // New data is found at once; a range sent again by binary search.
        match self.chunks.get(self.cursor) {
            Some(chunk) if chunk.offset <= offset && offset < chunk.end() => self.cursor,
            _ => self.chunks.partition_point(|chunk| chunk.end() <= offset),
        }
    }
}

#[cfg(test)]
mod tests;
