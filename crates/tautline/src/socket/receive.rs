//! Memory that datagrams are received into and handed on without a copy.
//!
//! Purpose: the kernel writes into one large buffer; each datagram is split off as its own
//! `BytesMut`, decrypted in place and given to the application as `Bytes`.
//! Owns: [`ReceiveBuffers`], a short ring of buffers. A buffer is used again once every datagram
//! in it is gone; until then another one takes its place.

use std::{collections::VecDeque, mem};

use bytes::{Bytes, BytesMut};

/// Size of one buffer: four of the largest GRO batches.
const BUFFER_BYTES: usize = 256 * 1024;
/// Room that one receive call needs: the largest UDP payload, or the largest GRO batch.
pub(crate) const SLOT_BYTES: usize = 64 * 1024;
/// Buffers kept for reuse while their datagrams are still held; 256 KiB each.
const SPARE_BUFFERS: usize = 16;
/// Datagrams up to this size are copied out, so that a tiny one does not pin a large buffer.
const COPY_BELOW_BYTES: usize = 256;

/// The ring.
#[derive(Debug)]
pub(crate) struct ReceiveBuffers {
    current: Buffer,
    spares: VecDeque<Buffer>,
    received_bytes: u64,
}

/// One allocation of exactly [`BUFFER_BYTES`], of which the tail is still unused.
#[derive(Debug)]
struct Buffer {
    /// The unused tail; every byte initialised.
    tail: BytesMut,
}

impl Buffer {
    fn new() -> Self {
        // A boxed slice has no capacity beyond its length; `rewind` relies on that.
        let memory = vec![0; BUFFER_BYTES].into_boxed_slice();
        Self {
            tail: BytesMut::from(Bytes::from(memory)),
        }
    }

    /// Makes the whole buffer usable again; false when datagrams in it are still held.
    fn rewind(&mut self) -> bool {
        let unused = self.tail.len();
        self.tail.clear();
        let whole = self.tail.try_reclaim(BUFFER_BYTES);
        let len = if whole { BUFFER_BYTES } else { unused };
        // SAFETY: `Buffer::new` initialised all `BUFFER_BYTES` bytes of the allocation, and
        // nothing un-initialises bytes. `try_reclaim` never moves to another allocation: when it
        // succeeds, the capacity of this handle is at least `BUFFER_BYTES`, and as the allocation
        // has exactly that capacity, the handle starts at its beginning. When it fails, the
        // handle is unchanged and had `unused` initialised bytes before `clear`.
        unsafe { self.tail.set_len(len) };
        whole
    }
}

impl ReceiveBuffers {
    pub(crate) fn new() -> Self {
        Self {
            current: Buffer::new(),
            spares: VecDeque::new(),
            received_bytes: 0,
        }
    }

    /// Bytes taken so far: what is held of them keeps alive no more memory than was received
    /// since, and one buffer.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// At least [`SLOT_BYTES`] bytes to receive into.
    pub(crate) fn slot(&mut self) -> &mut [u8] {
        // Rewinding whenever nothing is held keeps the working set in the cache.
        if !self.current.rewind() && self.current.tail.len() < SLOT_BYTES {
            self.replace();
        }
        &mut self.current.tail[..]
    }

    fn replace(&mut self) {
        let next = match self.spares.pop_front() {
            Some(mut oldest) => {
                if oldest.rewind() {
                    oldest
                } else {
                    // Whoever holds datagrams in it frees it in the end.
                    if self.spares.len() + 1 < SPARE_BUFFERS {
                        self.spares.push_front(oldest);
                    }
                    Buffer::new()
                }
            }
            None => Buffer::new(),
        };
        self.spares.push_back(mem::replace(&mut self.current, next));
    }

    /// Splits the next `len` received bytes off, in the order they stand in the slot.
    pub(crate) fn take(&mut self, len: usize) -> BytesMut {
        let len = len.min(self.current.tail.len());
        let datagram = self.current.tail.split_to(len);
        self.received_bytes += len as u64;
        if len < COPY_BELOW_BYTES {
            BytesMut::from(&datagram[..])
        } else {
            datagram
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_keep_their_bytes_while_buffers_turn_over() {
        let mut buffers = ReceiveBuffers::new();
        let mut held = Vec::new();
        for round in 0..200_u32 {
            let slot = buffers.slot();
            assert!(slot.len() >= SLOT_BYTES);
            let fill = round as u8;
            slot[..3_000].fill(fill);
            for len in [1_400, 1_400, 200] {
                let datagram = buffers.take(len);
                assert_eq!(datagram.len(), len);
                if round % 3 == 0 {
                    held.push((fill, datagram));
                }
            }
        }
        for (fill, datagram) in held {
            assert!(datagram.iter().all(|&byte| byte == fill));
        }
    }

    #[test]
    fn an_unheld_buffer_is_used_again_from_its_start() {
        let mut buffers = ReceiveBuffers::new();
        let start = buffers.slot().as_ptr();
        for _ in 0..100 {
            drop(buffers.take(10_000));
            assert_eq!(buffers.slot().as_ptr(), start);
            assert_eq!(buffers.slot().len(), BUFFER_BYTES);
        }
    }

    #[test]
    fn spare_buffers_are_bounded() {
        let mut buffers = ReceiveBuffers::new();
        let mut held = Vec::new();
        for _ in 0..200 {
            buffers.slot();
            held.push(buffers.take(SLOT_BYTES - 1));
            assert!(buffers.spares.len() <= SPARE_BUFFERS);
        }
    }

    #[test]
    fn small_datagrams_do_not_pin_a_buffer() {
        let mut buffers = ReceiveBuffers::new();
        let start = buffers.slot().as_ptr();
        let held: Vec<_> = (0..50).map(|_| buffers.take(40)).collect();
        assert_eq!(buffers.slot().as_ptr(), start);
        assert_eq!(buffers.slot().len(), BUFFER_BYTES);
        assert_eq!(held.len(), 50);
    }
}
