//! The application's side of [`StreamSet`].

use bytes::Bytes;

use super::{
    Note, ReadError, ReadOutcome, ReceiveEnd, ResetError, StreamEvent, StreamSet, UnorderedOutcome,
    WriteError, limits::Touched, recv::RecvHalf, sched::Priority, send::SendHalf,
    send_buffer::SendBuffer, table::due,
};
use crate::{
    observe::{DataPosition, HalfStream},
    units::{Dir, StreamId},
};

/// A stream may hold this many times what is left of the send buffer: one stream alone gets 8/9 of
/// it, and a new stream always finds some room.
const ROOM_SHARE: u64 = 8;

impl StreamSet {
    /// Opens a stream. `None` when the peer allows no more for now; [`StreamEvent::Available`]
    /// will tell.
    pub fn open(&mut self, dir: Dir) -> Option<StreamId> {
        let index = self.limits.local_mut(dir).open()?;
        let id = StreamId::new(self.limits.side(), dir, index);
        self.create(id);
        Some(id)
    }

    /// The next stream that the peer opened, in the order of their IDs. Read it at once: events of
    /// before may be gone.
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        if dir == Dir::Uni && self.messages.takes_uni {
            return None;
        }
        self.accept_next(dir)
    }

    pub(super) fn accept_next(&mut self, dir: Dir) -> Option<StreamId> {
        let (index, touched) = self.limits.remote_mut(dir).accept()?;
        let id = StreamId::new(self.limits.side().peer(), dir, index);
        if touched == Touched::New {
            self.create(id);
        }
        Some(id)
    }

    /// Takes bytes to send, copying them. Returns how many; fewer than given (also none) when the
    /// peer's limit for the stream or the send buffer is reached: [`StreamEvent::Writable`] will
    /// tell when to go on.
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        self.write_with(id, data.len(), |buffer, len| {
            buffer.write(data.get(..len).unwrap_or_default());
        })
    }

    /// As [`StreamSet::write`] without a copy: `data` advances by what was taken.
    pub fn write_bytes(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        self.write_with(id, data.len(), |buffer, len| {
            buffer.write_bytes(data.split_to(len))
        })
    }

    /// Ends the stream after the bytes written so far.
    pub fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        self.widen(id);
        self.send_half(id)
            .ok_or(WriteError::UnknownStream)?
            .finish()?;
        self.refresh(id);
        self.note_new_end();
        Ok(())
    }

    /// Gives up sending: bytes not delivered yet are dropped.
    pub fn reset(&mut self, id: StreamId, code: u64) -> Result<(), ResetError> {
        self.reset_with(id, code, None)
    }

    /// Gives up sending after the first `reliable_size` bytes, which are still delivered (at most
    /// what was written). RESET_STREAM_AT draft -10.
    pub fn reset_at(
        &mut self,
        id: StreamId,
        code: u64,
        reliable_size: u64,
    ) -> Result<(), ResetError> {
        if !self.peer_supports_reset_at {
            return Err(ResetError::NotNegotiated);
        }
        self.reset_with(id, code, Some(reliable_size))
    }

    /// How much the application means to write in all, if it says so.
    pub fn set_size_hint(&mut self, id: StreamId, bytes: Option<u64>) {
        if let Some(send) = self
            .table
            .get_mut(id)
            .and_then(|stream| stream.send.as_mut())
        {
            send.set_size_hint(bytes);
        }
    }

    /// Sets the stream's place among others. Unknown streams are ignored.
    pub fn set_priority(&mut self, id: StreamId, priority: Priority) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        if stream.priority != priority {
            stream.priority = priority;
            if stream.ready {
                self.scheduler_of(id).on_priority(id, priority);
                self.note_new_end();
            }
        }
    }

    /// The code with which the peer asked to stop sending, while the stream exists.
    pub fn stopped(&self, id: StreamId) -> Option<u64> {
        self.table.get(id)?.send.as_ref()?.stop_code()
    }

    /// The next bytes in order, at most `max_bytes` of them.
    ///
    /// The end ([`ReadOutcome::Finished`] or [`ReadError::Reset`]) must be seen, or
    /// [`StreamSet::stop`] called, before the stream is forgotten.
    pub fn read(&mut self, id: StreamId, max_bytes: usize) -> Result<ReadOutcome, ReadError> {
        let before = self.states(id);
        let recv = self.recv_half(id).ok_or(ReadError::UnknownStream)?;
        let from = recv.assembler().delivered();
        let outcome = recv.read(max_bytes);
        if let Ok(ReadOutcome::Chunk(chunk)) = &outcome {
            self.stats.read_bytes += chunk.len() as u64;
            self.note_read(id, from, chunk.len());
        }
        self.note_states(id, before);
        self.settle_receiving(id);
        outcome
    }

    /// Any bytes not given before, at most `max_bytes` of them, whatever is missing before them.
    /// Afterwards, ordered reads are refused.
    pub fn read_unordered(
        &mut self,
        id: StreamId,
        max_bytes: usize,
    ) -> Result<UnorderedOutcome, ReadError> {
        let before = self.states(id);
        let recv = self.recv_half(id).ok_or(ReadError::UnknownStream)?;
        let outcome = recv.read_unordered(max_bytes);
        if let Ok(UnorderedOutcome::Chunk { offset, data }) = &outcome {
            self.stats.read_bytes += data.len() as u64;
            self.note_read(id, *offset, data.len());
        }
        self.note_states(id, before);
        self.settle_receiving(id);
        outcome
    }

    /// How far the peer has come, without reading.
    pub fn receive_end(&self, id: StreamId) -> Result<ReceiveEnd, ReadError> {
        let stream = self.table.get(id).ok_or(ReadError::UnknownStream)?;
        let recv = stream.recv.as_ref().ok_or(ReadError::UnknownStream)?;
        Ok(recv.end())
    }

    /// Asks the peer to send no more, and drops what has arrived. RFC 9000 s3.5.
    pub fn stop(&mut self, id: StreamId, code: u64) -> Result<(), ReadError> {
        let before = self.states(id);
        let recv = self.recv_half(id).ok_or(ReadError::UnknownStream)?;
        let (offset, dropped) = (recv.assembler().delivered(), recv.assembler().buffered());
        if recv.stop(code) {
            if recv.stop_to_send().is_some() {
                self.owe(id, due::STOP_SENDING);
            }
            self.journal.note(|| Note::Moved {
                id,
                offset,
                len: usize::try_from(dropped).unwrap_or(usize::MAX),
                from: DataPosition::Transport,
                to: DataPosition::Dropped,
            });
        }
        self.note_states(id, before);
        self.settle_receiving(id);
        if self.over {
            // Nobody else wants it: the peer is not told.
            self.table.remove(id);
        }
        Ok(())
    }

    /// Changes how many streams the peer may have open at once; takes effect as streams close
    /// when lowered, with the next MAX_STREAMS when raised.
    pub fn set_max_concurrent(&mut self, dir: Dir, count: u64) {
        self.limits.remote_mut(dir).set_concurrent(count);
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        loop {
            let event = self.events.pop()?;
            match event {
                StreamEvent::Readable(id) => match self.table.get_mut(id) {
                    Some(stream) if !stream.message => stream.readable_queued = false,
                    _ => continue,
                },
                StreamEvent::Writable(id) => match self.table.get_mut(id) {
                    Some(stream) => stream.writable_queued = false,
                    None => continue,
                },
                StreamEvent::Opened(Dir::Uni) if self.messages.takes_uni => continue,
                _ => {}
            }
            return Some(event);
        }
    }

    fn note_read(&mut self, id: StreamId, offset: u64, len: usize) {
        self.journal.note(|| Note::Moved {
            id,
            offset,
            len,
            from: DataPosition::Transport,
            to: DataPosition::Application,
        });
    }

    fn send_half(&mut self, id: StreamId) -> Option<&mut SendHalf> {
        self.table.get_mut(id)?.send.as_mut()
    }

    fn recv_half(&mut self, id: StreamId) -> Option<&mut RecvHalf> {
        self.table.get_mut(id)?.recv.as_mut()
    }

    fn write_with(
        &mut self,
        id: StreamId,
        len: usize,
        append: impl FnOnce(&mut SendBuffer, usize),
    ) -> Result<usize, WriteError> {
        self.widen(id);
        let room = self.room_for(id);
        let stream = self.table.get_mut(id).ok_or(WriteError::UnknownStream)?;
        let send = stream.send.as_mut().ok_or(WriteError::UnknownStream)?;
        send.check_writable()?;
        let by_flow = send.writable();
        // Each byte taken raises what the stream holds and lowers what is left.
        let held = send.buffer().buffered();
        let share = room.saturating_mul(ROOM_SHARE).saturating_sub(held) / (ROOM_SHARE + 1);
        let by_room = if held == 0 {
            share.max(room.min(1))
        } else {
            share
        };
        let wanted = len as u64;
        let taken = wanted.min(by_flow).min(by_room);
        if taken < wanted {
            send.wants_write = true;
            if by_room <= by_flow && !stream.waiting {
                stream.waiting = true;
                self.waiting.push(id);
            }
        }
        let offset = send.buffer().end();
        // Not above `len`.
        append(send.buffer_mut(), taken as usize);
        if taken > 0 {
            self.journal.note(|| Note::Moved {
                id,
                offset,
                len: taken as usize,
                from: DataPosition::Application,
                to: DataPosition::Transport,
            });
        }
        self.stats.send_buffered_bytes += taken;
        if self.waiting.len() > 2 * self.table.len() + 16 {
            let table = &self.table;
            self.waiting
                .retain(|id| table.get(*id).is_some_and(|stream| stream.waiting));
        }
        self.report_blocked_stream(id);
        self.refresh(id);
        Ok(taken as usize)
    }

    fn reset_with(
        &mut self,
        id: StreamId,
        code: u64,
        reliable_size: Option<u64>,
    ) -> Result<(), ResetError> {
        let send = self.send_half(id).ok_or(ResetError::UnknownStream)?;
        if send.is_terminal() {
            return Err(ResetError::UnknownStream);
        }
        let released = send
            .reset(code, reliable_size)
            .ok_or(ResetError::AlreadyReset)?;
        let (half, state) = (HalfStream::Sending, send.state_name());
        self.journal.note(|| Note::State { id, half, state });
        self.owe(id, due::RESET);
        self.on_released(released);
        self.refresh(id);
        Ok(())
    }
}
