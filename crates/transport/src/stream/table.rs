//! Finding a stream by its ID.

use hashbrown::HashMap;

use super::{
    id_hash::IdHash, protection::Protection, recv::RecvHalf, sched::Priority, send::SendHalf,
};
use crate::{multipath::PathPin, time::Instant, units::StreamId};

/// Control frames that a stream owes, as bits.
pub(super) mod due {
    pub(in super::super) const RESET: u8 = 1;
    pub(in super::super) const STOP_SENDING: u8 = 2;
    pub(in super::super) const MAX_STREAM_DATA: u8 = 4;
    pub(in super::super) const STREAM_DATA_BLOCKED: u8 = 8;
}

/// Both halves of a stream and its places in queues.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    /// `None` when the peer's unidirectional.
    pub(super) send: Option<SendHalf>,
    /// `None` when our unidirectional.
    pub(super) recv: Option<RecvHalf>,
    pub(super) priority: Priority,
    /// When it must have arrived, if it carries a message that must.
    pub(super) deadline: Option<Instant>,
    /// Whether erasure correction is for it.
    pub(super) protection: Protection,
    /// The path it goes by.
    pub(super) pin: Option<PathPin>,
    /// Carries a message: what happens to it is for the room of messages to know.
    pub(super) message: bool,
    /// Receive-buffer slices counted for this stream.
    pub(super) borrowed: usize,
    /// Control frames owed, bits of [`due`].
    pub(super) due: u8,
    /// Stands in the queue of streams that owe control frames.
    pub(super) in_control: bool,
    /// The scheduler knows it as ready.
    pub(super) ready: bool,
    /// Waits for MAX_DATA.
    pub(super) parked: bool,
    /// Waits for room in the send buffer.
    pub(super) waiting: bool,
    /// A `Readable` event is queued.
    pub(super) readable_queued: bool,
    /// A `Writable` event is queued.
    pub(super) writable_queued: bool,
}

impl Stream {
    pub(super) fn is_over(&self) -> bool {
        self.send.as_ref().is_none_or(SendHalf::is_terminal)
            && self.recv.as_ref().is_none_or(RecvHalf::is_terminal)
    }
}

/// Streams by ID. The one used last is found without a search.
#[derive(Debug, Default)]
pub(super) struct Table {
    index: HashMap<StreamId, u32, IdHash>,
    slots: Vec<Option<Box<Stream>>>,
    free: Vec<u32>,
    last: u32,
    /// Memory of streams that are gone, for those to come; none while there is no stream.
    #[expect(
        clippy::vec_box,
        reason = "the boxes come from `slots` and go back there"
    )]
    spare: Vec<Box<Stream>>,
}

/// Streams of which the memory is kept.
const SPARE: usize = 64;

impl Table {
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Places of streams, taken and free.
    pub(super) fn slots_len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn get(&self, id: StreamId) -> Option<&Stream> {
        self.slots.get(self.find(id)? as usize)?.as_deref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        let slot = self.find(id)?;
        self.last = slot;
        self.slots.get_mut(slot as usize)?.as_deref_mut()
    }

    /// Adds a stream whose ID is not there.
    pub(super) fn insert(&mut self, stream: Stream) {
        let boxed = match self.spare.pop() {
            Some(mut spare) => {
                *spare = stream;
                spare
            }
            None => Box::new(stream),
        };
        self.insert_boxed(boxed);
    }

    /// As [`Self::insert`], for a stream that has its memory.
    pub(super) fn insert_boxed(&mut self, stream: Box<Stream>) {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                // Streams that exist at once stay far below 2^32.
                (self.slots.len() - 1) as u32
            }
        };
        self.index.insert(stream.id, slot);
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Some(stream);
        }
    }

    /// Every stream, in the order of their slots.
    pub(super) fn into_streams(self) -> impl Iterator<Item = Box<Stream>> {
        self.slots.into_iter().flatten()
    }

    pub(super) fn remove(&mut self, id: StreamId) -> Option<Box<Stream>> {
        let slot = self.index.remove(&id)?;
        let stream = self.slots.get_mut(slot as usize)?.take();
        self.free.push(slot);
        if self.index.is_empty() {
            self.spare = Vec::new();
            if self.slots.len() > 64 {
                *self = Self::default();
            }
        }
        stream
    }

    /// Takes a removed stream's memory back.
    pub(super) fn recycle(&mut self, mut stream: Box<Stream>) {
        if self.spare.len() < SPARE && !self.index.is_empty() {
            (stream.send, stream.recv) = (None, None);
            self.spare.push(stream);
        }
    }

    /// Every stream's ID, in the order of their slots (which depends on API and network order
    /// only).
    pub(super) fn ids(&self) -> Vec<StreamId> {
        self.slots
            .iter()
            .flatten()
            .map(|stream| stream.id)
            .collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.slots.iter().filter_map(|slot| slot.as_deref())
    }

    #[inline]
    fn find(&self, id: StreamId) -> Option<u32> {
        match self.slots.get(self.last as usize) {
            Some(Some(stream)) if stream.id == id => Some(self.last),
            _ => self.index.get(&id).copied(),
        }
    }
}
