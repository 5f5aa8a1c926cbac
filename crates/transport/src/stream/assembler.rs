//! Puts received bytes in order.
//!
//! Bytes that arrive in order pass through as slices of the receive buffer (a bounded number of
//! them, because a slice pins the whole buffer), and so do those that come too early but after each other, as
//! what crossed several paths does. All others are copied into [`Block`]s that lie at
//! fixed offsets and mark what has arrived with at most one bit per byte. So memory is at most the receive
//! window times 1.125 (and some bytes per 4 KiB), however finely a peer cuts its data, and no
//! number of gaps is too many. Every operation is O(bytes / 64) plus O(1) to find a block.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;

use super::{
    block::{BLOCK, Block},
    short_deque::ShortDeque,
};

/// A message up to this size gets memory of its own instead of a block.
const SHORT_MESSAGE_BYTES: usize = 512;

/// See the module's words.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    /// Bytes handed to the application. In ordered mode also the offset of the next one.
    delivered: u64,
    /// Everything below this offset has arrived.
    contiguous: u64,
    /// Bytes arrived and not handed out.
    buffered: u64,
    /// Slices of receive buffers, by offset. In ordered mode all below `contiguous`, ascending.
    borrowed: ShortDeque<(u64, Bytes)>,
    /// The first of them is a copy of our own, which pins nothing.
    owns_first: bool,
    /// Slices that came too early, ascending, with gaps before them but no block: ordered mode only.
    ahead: VecDeque<(u64, Bytes)>,
    /// Blocks from number `first` on.
    blocks: VecDeque<Option<Box<Block>>>,
    first: u64,
    /// Unordered mode: the numbers of the blocks that hold bytes for the application.
    pending: Option<BTreeSet<u64>>,
}

fn split(offset: u64) -> (u64, usize) {
    (offset / BLOCK as u64, (offset % BLOCK as u64) as usize)
}

impl Assembler {
    /// Bytes handed to the application.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Everything below this offset has arrived.
    pub(crate) fn contiguous(&self) -> u64 {
        self.contiguous
    }

    /// Bytes arrived and not handed out.
    pub(crate) fn buffered(&self) -> u64 {
        self.buffered
    }

    /// Slices of receive buffers held.
    pub(crate) fn borrowed(&self) -> usize {
        let own = usize::from(self.owns_first);
        (self.borrowed.len() + self.ahead.len()).saturating_sub(own)
    }

    fn pop_borrowed(&mut self) -> Option<(u64, Bytes)> {
        self.owns_first = false;
        self.borrowed.pop_front()
    }

    /// Whether bytes were handed out of order.
    pub(crate) fn is_unordered(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether a read would give bytes.
    #[cfg(test)]
    pub(crate) fn is_readable(&self) -> bool {
        if self.is_unordered() {
            self.buffered > 0
        } else {
            self.delivered < self.contiguous
        }
    }

    /// Bytes of memory held, not counting pinned receive buffers.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.memory_of_blocks()
            + self.blocks.capacity() * size_of::<Option<Box<Block>>>()
            + (self.borrowed.capacity() + self.ahead.capacity()) * size_of::<(u64, Bytes)>()
    }

    #[cfg(test)]
    pub(crate) fn memory_of_blocks(&self) -> usize {
        self.blocks
            .iter()
            .flatten()
            .map(|block| block.memory())
            .sum()
    }

    /// Takes bytes that arrived at `offset`. At most `may_borrow` further slices may be held; what
    /// exceeds that is copied. True when there is something to read that was not there before.
    ///
    /// The caller has checked that the end is within the receive window.
    pub(crate) fn insert(&mut self, mut offset: u64, mut data: Bytes, may_borrow: usize) -> bool {
        let end = offset.saturating_add(data.len() as u64);
        if end <= self.contiguous {
            return false;
        }
        if offset < self.contiguous {
            // Cannot exceed the length, because the end lies beyond.
            let _known = data.split_to((self.contiguous - offset) as usize);
            offset = self.contiguous;
        }
        if self.is_unordered() {
            return self.insert_unordered(offset, data, may_borrow);
        }
        if offset > self.contiguous {
            if data.is_empty() {
                return false;
            }
            if may_borrow > 0 && self.is_behind_all(offset) {
                self.buffered += data.len() as u64;
                self.ahead.push_back((offset, data));
            } else {
                self.copy_ahead();
                self.buffered += self.copy(offset, &data);
            }
            return false;
        }
        let next = self.ahead.front().map_or(u64::MAX, |(next, _)| *next);
        if may_borrow == 0 || next < end {
            self.copy_ahead();
        }
        if may_borrow > 0 {
            let known = if self.blocks.is_empty() {
                0
            } else {
                self.count(offset, end)
            };
            self.buffered += data.len() as u64 - known;
            self.borrowed.push_back((offset, data));
        } else {
            self.buffered += self.copy(offset, &data);
        }
        self.contiguous = end;
        self.advance();
        true
    }

    /// [`Self::insert`] without borrowing, for bytes that end the stream. Short ones get memory of
    /// their own instead of a block if they are all there is: a small message is one frame, and
    /// nothing follows it that could make many such pieces.
    pub(crate) fn insert_end(&mut self, offset: u64, data: Bytes) -> bool {
        let alone = offset == self.contiguous
            && self.borrowed.is_empty()
            && self.ahead.is_empty()
            && self.blocks.is_empty()
            && !self.is_unordered();
        if !alone || data.is_empty() || data.len() > SHORT_MESSAGE_BYTES {
            return self.insert(offset, data, 0);
        }
        let own = Bytes::copy_from_slice(&data);
        self.owns_first = true;
        self.insert(offset, own, 1)
    }

    /// The next bytes in order, at most `max` and below offset `limit`.
    pub(crate) fn read(&mut self, max: usize, limit: u64) -> Option<Bytes> {
        debug_assert!(!self.is_unordered(), "ordered read in unordered mode");
        let mut stop = self.contiguous.min(limit);
        if self.delivered >= stop || max == 0 {
            return None;
        }
        stop = stop.min(self.delivered.saturating_add(max as u64));
        let chunk = match self.borrowed.front_mut() {
            Some((offset, data)) if *offset <= self.delivered => {
                let len = ((stop - self.delivered) as usize).min(data.len());
                if len == data.len() {
                    self.pop_borrowed().map(|(_, data)| data)?
                } else {
                    *offset += len as u64;
                    data.split_to(len)
                }
            }
            next_borrowed => {
                if let Some((offset, _)) = next_borrowed {
                    stop = stop.min(*offset);
                }
                let (number, at) = split(self.delivered);
                let len = ((stop - self.delivered) as usize).min(BLOCK - at);
                self.block(number)?.take(at, len)
            }
        };
        debug_assert!(
            !chunk.is_empty(),
            "contiguous bytes are in a slice or a block"
        );
        self.delivered += chunk.len() as u64;
        self.buffered = self.buffered.saturating_sub(chunk.len() as u64);
        self.release_blocks();
        Some(chunk).filter(|chunk| !chunk.is_empty())
    }

    /// Any bytes not handed out yet, at most `max`, with their offset. From the first call on, the
    /// stream is read out of order.
    pub(crate) fn read_unordered(&mut self, max: usize) -> Option<(u64, Bytes)> {
        if !self.is_unordered() {
            self.switch_to_unordered();
        }
        if max == 0 {
            return None;
        }
        let (offset, chunk) = match self.borrowed.front_mut() {
            Some((offset, data)) if data.len() > max => {
                let at = *offset;
                *offset += max as u64;
                (at, data.split_to(max))
            }
            Some(_) => self.pop_borrowed()?,
            None => self.take_pending(max)?,
        };
        self.delivered += chunk.len() as u64;
        self.buffered = self.buffered.saturating_sub(chunk.len() as u64);
        self.release_blocks();
        Some((offset, chunk))
    }

    /// Drops everything that was not handed out.
    pub(crate) fn discard(&mut self) {
        let delivered = self.delivered;
        *self = Self {
            delivered,
            contiguous: delivered,
            ..Self::default()
        };
    }

    /// Drops what lies at `end` and beyond and was not handed out; no more will come.
    pub(crate) fn truncate(&mut self, end: u64) {
        self.copy_ahead();
        while let Some((offset, data)) = self.borrowed.back_mut()
            && offset.saturating_add(data.len() as u64) > end
        {
            if *offset < end {
                // Below the length, because the end lies beyond.
                data.truncate((end - *offset) as usize);
                break;
            }
            self.borrowed.pop_back();
        }
        self.owns_first &= !self.borrowed.is_empty();
        if self.is_unordered() {
            // Slices have no order there.
            for (offset, data) in self.borrowed.iter_mut() {
                data.truncate(usize::try_from(end.saturating_sub(*offset)).unwrap_or(usize::MAX));
            }
            self.borrowed.retain(|(_, data)| !data.is_empty());
        }
        let (number, at) = split(end);
        let kept = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        if number < self.first {
            self.blocks.clear();
        } else {
            self.blocks.truncate(kept.saturating_add(1));
            if let Some(Some(block)) = self.blocks.get_mut(kept) {
                block.truncate(at);
            }
        }
        if let Some(numbers) = &mut self.pending {
            let blocks = &self.blocks;
            let first = self.first;
            numbers.retain(|number| {
                let index = number
                    .checked_sub(first)
                    .and_then(|i| usize::try_from(i).ok());
                let block = index.and_then(|index| blocks.get(index)?.as_ref());
                block.is_some_and(|block| block.pending.is_some())
            });
        }
        self.contiguous = self.contiguous.min(end.max(if self.is_unordered() {
            0
        } else {
            self.delivered
        }));
        self.buffered = self.count_buffered();
        self.release_blocks();
    }

    /// Bytes arrived and not handed out, counted anew.
    fn count_buffered(&self) -> u64 {
        if self.is_unordered() {
            let slices = self.borrowed.iter().map(|(_, data)| data.len() as u64);
            let blocks = self.blocks.iter().flatten();
            let pending = blocks.filter_map(|block| block.pending.as_ref());
            return slices.sum::<u64>() + pending.map(|bits| bits.count(0, BLOCK)).sum::<u64>();
        }
        let ahead = (self.first..)
            .zip(&self.blocks)
            .filter_map(|(number, block)| {
                let start = self.contiguous.saturating_sub(number * BLOCK as u64);
                let start = usize::try_from(start).unwrap_or(BLOCK).min(BLOCK);
                Some(block.as_ref()?.received.count(start, BLOCK))
            });
        self.contiguous.saturating_sub(self.delivered) + ahead.sum::<u64>()
    }

    fn insert_unordered(&mut self, offset: u64, data: Bytes, mut may_borrow: usize) -> bool {
        let end = offset + data.len() as u64;
        let before = self.buffered;
        if offset == self.contiguous && self.blocks.is_empty() && may_borrow > 0 {
            // In order and nothing around: no bits needed.
            self.buffered += data.len() as u64;
            self.borrowed.push_back((offset, data));
            self.contiguous = end;
            return true;
        }
        let mut at = offset;
        while at < end {
            let (number, from) = split(at);
            let to = BLOCK.min(from + (end - at) as usize);
            let base = at - from as u64;
            let Some(block) = self.block(number) else {
                break;
            };
            let start = block.received.find(from, false);
            let stop = block.received.find(start, true).min(to);
            if start >= to {
                at = base + to as u64;
                continue;
            }
            let piece_at = (base + start as u64 - offset) as usize;
            let piece = data.slice(piece_at..piece_at + (stop - start));
            if may_borrow > 0 {
                may_borrow -= 1;
                block.received.set(start, stop);
                self.borrowed.push_back((base + start as u64, piece));
            } else {
                block.fill(start, &piece);
                block.pending.get_or_insert_default().set(start, stop);
                if let Some(pending) = &mut self.pending {
                    pending.insert(number);
                }
            }
            self.buffered += (stop - start) as u64;
            at = base + stop as u64;
        }
        if offset == self.contiguous {
            self.contiguous = end;
        }
        self.advance();
        self.release_blocks();
        self.buffered > before
    }

    fn switch_to_unordered(&mut self) {
        self.copy_ahead();
        // It need not stay the first from here on, and counts like the others.
        self.owns_first = false;
        let mut numbers = BTreeSet::new();
        let slices = &self.borrowed;
        for (number, block) in (self.first..).zip(&mut self.blocks) {
            let Some(block) = block else { continue };
            let base = number * BLOCK as u64;
            let within = |offset: u64| offset.saturating_sub(base).min(BLOCK as u64) as usize;
            let mut pending = block.received.clone();
            pending.clear(0, within(self.delivered));
            for (offset, data) in slices.iter() {
                pending.clear(within(*offset), within(offset + data.len() as u64));
            }
            if !pending.is_empty() {
                block.pending = Some(Box::new(pending));
                numbers.insert(number);
            }
        }
        self.pending = Some(numbers);
    }

    fn take_pending(&mut self, max: usize) -> Option<(u64, Bytes)> {
        let numbers = self.pending.as_mut()?;
        let number = numbers.first().copied()?;
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let block = self.blocks.get_mut(index)?.as_mut()?;
        let bits = block.pending.as_ref()?;
        let start = bits.find(0, true);
        let len = (bits.find(start, false) - start).min(max);
        let chunk = block.take_pending(start, len);
        if block.pending.is_none() {
            numbers.remove(&number);
        }
        Some((number * BLOCK as u64 + start as u64, chunk))
    }

    /// Copies into blocks; how many bytes were new.
    fn copy(&mut self, mut offset: u64, mut data: &[u8]) -> u64 {
        let mut fresh = 0;
        while !data.is_empty() {
            let (number, at) = split(offset);
            let (piece, rest) = data.split_at(data.len().min(BLOCK - at));
            let Some(block) = self.block(number) else {
                break;
            };
            fresh += block.fill(at, piece);
            offset += piece.len() as u64;
            data = rest;
        }
        fresh
    }

    /// How many bytes of `offset..end` are in blocks.
    fn count(&self, mut offset: u64, end: u64) -> u64 {
        let mut known = 0;
        while offset < end {
            let (number, at) = split(offset);
            let to = BLOCK.min(at + (end - offset) as usize);
            if let Some(block) = self.existing(number) {
                known += block.received.count(at, to);
            }
            offset += (to - at) as u64;
        }
        known
    }

    /// Whether nothing from `offset` on has arrived, and nothing before it is in blocks.
    fn is_behind_all(&self, offset: u64) -> bool {
        let last = self.ahead.back();
        let end = last.map_or(0, |(at, data)| at + data.len() as u64);
        self.blocks.is_empty() && end <= offset
    }

    /// Copies what came too early into blocks.
    fn copy_ahead(&mut self) {
        for (offset, data) in std::mem::take(&mut self.ahead) {
            self.copy(offset, &data);
        }
    }

    /// Moves `contiguous` over what has already arrived.
    fn advance(&mut self) {
        while let Some((offset, _)) = self.ahead.front()
            && *offset == self.contiguous
            && let Some((offset, data)) = self.ahead.pop_front()
        {
            self.contiguous += data.len() as u64;
            self.borrowed.push_back((offset, data));
        }
        while !self.blocks.is_empty() {
            let (number, at) = split(self.contiguous);
            let Some(block) = self.existing(number) else {
                break;
            };
            let stop = block.received.find(at, false);
            self.contiguous += (stop - at) as u64;
            if stop < BLOCK {
                break;
            }
        }
    }

    fn existing(&self, number: u64) -> Option<&Block> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.blocks.get(index)?.as_deref()
    }

    /// The block of this number, made if missing. `None` only for numbers below the first one.
    fn block(&mut self, number: u64) -> Option<&mut Block> {
        if self.blocks.is_empty() {
            let start = if self.is_unordered() {
                self.contiguous
            } else {
                self.delivered
            };
            self.first = split(start).0;
        }
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        if index >= self.blocks.len() {
            // At most one entry per 4 KiB of receive window.
            self.blocks.resize_with(index + 1, || None);
        }
        Some(self.blocks.get_mut(index)?.get_or_insert_default())
    }

    /// Frees blocks that nobody needs.
    fn release_blocks(&mut self) {
        if self.blocks.is_empty() {
            return;
        }
        let unordered = self.is_unordered();
        let needed = split(if unordered {
            self.contiguous
        } else {
            self.delivered
        })
        .0;
        while self.first < needed {
            match self.blocks.front() {
                Some(Some(block)) if block.pending.is_some() => break,
                Some(_) => {
                    self.blocks.pop_front();
                    self.first += 1;
                }
                None => break,
            }
        }
        if self.buffered == 0 && !unordered {
            self.blocks.clear();
        }
        if self.blocks.is_empty() && self.blocks.capacity() > 64 {
            self.blocks = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests;
