//! The CRYPTO stream of one packet number space. RFC 9000 s19.6, s7.5.
//!
//! Owns: bytes to send until acknowledged, received bytes until TLS takes them in order.
//! Does not own: what the bytes mean (`tls/`).

use std::collections::BTreeMap;

use crate::{error::TransportError, packet::PacketWriter, wire::MAX_VARINT};

/// Disjoint, non-adjacent half-open ranges, ascending.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn insert(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        if let Some((&before, &before_end)) = self.0.range(..=start).next_back()
            && before_end >= start
        {
            start = before;
            end = end.max(before_end);
            self.0.remove(&before);
        }
        while let Some((&next, &next_end)) = self.0.range(start..=end).next() {
            end = end.max(next_end);
            self.0.remove(&next);
        }
        self.0.insert(start, end);
    }

    fn remove(&mut self, start: u64, end: u64) {
        let first = self
            .0
            .range(..start)
            .next_back()
            .map(|(&s, _)| s)
            .unwrap_or(start);
        let touched: Vec<(u64, u64)> = self
            .0
            .range(first..end)
            .map(|(&s, &e)| (s, e))
            .filter(|&(_, e)| e > start)
            .collect();
        for (s, e) in touched {
            self.0.remove(&s);
            if s < start {
                self.0.insert(s, start);
            }
            if e > end {
                self.0.insert(end, e);
            }
        }
    }

    fn first(&self) -> Option<(u64, u64)> {
        self.0.first_key_value().map(|(&s, &e)| (s, e))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Both directions of one CRYPTO stream.
#[derive(Debug, Default)]
pub(crate) struct CryptoStream {
    /// Sent or unsent bytes from `sent_base` on.
    outgoing: Vec<u8>,
    sent_base: u64,
    /// First byte never sent.
    next: u64,
    lost: Ranges,
    acked: Ranges,
    incoming: Incoming,
}

impl CryptoStream {
    /// TLS has more to say.
    pub(crate) fn queue(&mut self, data: &[u8]) {
        self.outgoing.extend_from_slice(data);
    }

    fn end(&self) -> u64 {
        self.sent_base + self.outgoing.len() as u64
    }

    /// Whether anything waits to be sent.
    pub(crate) fn has_pending(&self) -> bool {
        !self.lost.is_empty() || self.next < self.end()
    }

    /// Writes CRYPTO frames, lost ranges first.
    pub(crate) fn write(&mut self, packet: &mut PacketWriter<'_>) {
        loop {
            let (start, end, again) = match self.lost.first() {
                Some((start, end)) => (start, end, true),
                None if self.next < self.end() => (self.next, self.end(), false),
                None => return,
            };
            let room = packet.crypto_room(start) as u64;
            let len = room.min(end - start);
            let from = usize::try_from(start - self.sent_base).unwrap_or(usize::MAX);
            let Some(data) = self.outgoing.get(from..from.saturating_add(len as usize)) else {
                debug_assert!(false, "CRYPTO range outside the buffer");
                return;
            };
            if !packet.push_crypto(start, data.len(), |out| out.copy_from_slice(data)) {
                return;
            }
            if again {
                self.lost.remove(start, start + len);
            } else {
                self.next = start + len;
            }
        }
    }

    /// Bytes arrived at the peer.
    pub(crate) fn on_acked(&mut self, offset: u64, len: u32) {
        let end = offset + u64::from(len);
        self.lost.remove(offset, end);
        self.acked.insert(offset.max(self.sent_base), end);
        if let Some((start, end)) = self.acked.first()
            && start <= self.sent_base
        {
            self.acked.remove(start, end);
            let drop = usize::try_from(end.saturating_sub(self.sent_base)).unwrap_or(0);
            self.outgoing.drain(..drop.min(self.outgoing.len()));
            self.sent_base = end;
            if self.outgoing.is_empty() {
                self.outgoing = Vec::new();
            }
        }
    }

    /// Bytes must be sent again, but for those that arrived meanwhile.
    pub(crate) fn on_lost(&mut self, offset: u64, len: u32) {
        let end = (offset + u64::from(len)).min(self.next);
        self.lost.insert(offset.max(self.sent_base), end);
        let acked: Vec<_> = self.acked.0.range(..end).map(|(&s, &e)| (s, e)).collect();
        for (s, e) in acked {
            self.lost.remove(s, e);
        }
    }

    /// Everything sent and not acknowledged goes out again (a probe, or a Retry).
    pub(crate) fn resend_unacked(&mut self) {
        let len = u32::try_from(self.next - self.sent_base).unwrap_or(u32::MAX);
        self.on_lost(self.sent_base, len);
    }

    /// A CRYPTO frame arrived.
    ///
    /// # Errors
    /// CRYPTO_BUFFER_EXCEEDED beyond `limit` bytes past what TLS has taken;
    /// FRAME_ENCODING_ERROR beyond 2^62-1.
    pub(crate) fn on_frame(
        &mut self,
        offset: u64,
        data: &[u8],
        limit: usize,
    ) -> Result<(), TransportError> {
        let end = offset.saturating_add(data.len() as u64);
        if end > MAX_VARINT {
            return Err(TransportError::frame_encoding(
                "CRYPTO offset beyond 2^62-1",
            ));
        }
        if end <= self.incoming.read {
            return Ok(());
        }
        if end - self.incoming.read > limit as u64 {
            return Err(TransportError::crypto_buffer_exceeded(
                "CRYPTO data too far ahead",
            ));
        }
        let skip = usize::try_from(self.incoming.read.saturating_sub(offset)).unwrap_or(0);
        let fresh = data.get(skip..).unwrap_or_default();
        self.incoming
            .insert(offset.max(self.incoming.read), fresh, limit);
        Ok(())
    }

    /// Bytes that are complete from the read position on, without taking them.
    pub(crate) fn readable(&self) -> &[u8] {
        self.incoming.readable()
    }

    /// Takes `len` readable bytes.
    pub(crate) fn consume(&mut self, len: usize) {
        self.incoming.consume(len);
    }

    /// Memory that received bytes take.
    #[cfg(test)]
    pub(super) fn incoming_memory(&self) -> usize {
        self.incoming.data.capacity() + 8 * self.incoming.present.capacity()
    }
}

/// Received bytes, with gaps, and a bit for each that is there: what a peer can make us hold
/// depends on how far ahead it writes, never on how many pieces it writes in.
#[derive(Debug, Default)]
struct Incoming {
    /// Stream offset of the first byte of `data`; a multiple of 64.
    base: u64,
    data: Vec<u8>,
    /// A bit per byte of `data`, lowest first.
    present: Vec<u64>,
    /// First byte that TLS has not taken.
    read: u64,
    /// End of what follows `read` without a gap.
    ready: u64,
}

impl Incoming {
    /// Position in `data` of a stream offset.
    fn place(&self, offset: u64) -> usize {
        usize::try_from(offset.saturating_sub(self.base)).unwrap_or(usize::MAX)
    }

    /// `bytes` lie within `limit` of the read position.
    fn insert(&mut self, start: u64, bytes: &[u8], limit: usize) {
        let end = start + bytes.len() as u64;
        if end <= self.ready {
            return;
        }
        let (from, to) = (self.place(start), self.place(end));
        if self.data.len() < to {
            if self.data.capacity() < to {
                let most = self.place(self.read).saturating_add(limit);
                let capacity = to.max(2 * self.data.capacity()).min(most);
                self.data.reserve_exact(capacity - self.data.len());
                let words = capacity.div_ceil(64);
                self.present.reserve_exact(words - self.present.len());
            }
            self.data.resize(to, 0);
            self.present.resize(to.div_ceil(64), 0);
        }
        if let Some(room) = self.data.get_mut(from..to) {
            room.copy_from_slice(bytes);
        }
        self.mark(from, to);
        if start <= self.ready {
            self.ready = self.base + self.run_end(self.place(self.ready)) as u64;
        }
    }

    fn mark(&mut self, from: usize, to: usize) {
        let mut at = from;
        while at < to {
            let bit = at % 64;
            let len = (64 - bit).min(to - at);
            if let Some(word) = self.present.get_mut(at / 64) {
                *word |= (u64::MAX >> (64 - len)) << bit;
            }
            at += len;
        }
    }

    /// The first byte from `at` on that is not there.
    fn run_end(&self, mut at: usize) -> usize {
        while let Some(word) = self.present.get(at / 64) {
            let bit = at % 64;
            let run = (word >> bit).trailing_ones() as usize;
            at += run;
            if run < 64 - bit {
                break;
            }
        }
        at
    }

    fn readable(&self) -> &[u8] {
        let ready = self.place(self.read)..self.place(self.ready);
        self.data.get(ready).unwrap_or_default()
    }

    fn consume(&mut self, len: usize) {
        self.read = (self.read + len as u64).min(self.ready);
        let taken = self.place(self.read);
        if taken >= self.data.len() {
            *self = Self {
                base: self.read & !63,
                read: self.read,
                ready: self.ready,
                ..Self::default()
            };
        } else if 8 * taken >= self.data.len() {
            // Not at every step: a gap far ahead would let single bytes move all that lies between.
            let gone = taken & !63;
            self.data.drain(..gone);
            self.present.drain(..gone / 64);
            self.base += gone as u64;
        }
    }
}
