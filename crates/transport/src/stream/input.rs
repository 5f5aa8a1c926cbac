//! The network's side of [`StreamSet`]: one method per frame type.

use std::time::Duration;

use bytes::Bytes;

use super::{
    Floods, Note, StreamEvent, StreamSet,
    limits::{MAX_STREAM_COUNT, Touched},
    recv::{Extent, ResetFrame},
    table::due,
};
use crate::{
    error::TransportError,
    observe::{DataPosition, FlowScope, HalfStream},
    time::Instant,
    units::{Dir, StreamId},
    wire,
};

/// Of the slices that may share receive buffers, one in this many may be short: longer ones are
/// worth what they cost.
const SHORT_SHARE: usize = 8;
const SHORT_BYTES: usize = 512;

/// A piece that does not continue its stream is tiny below this.
const TINY_BYTES: u64 = 64;
/// So many of them, less those that did continue a stream, are a flood.
const MANY_TINY: u32 = 1_024;

impl Floods {
    fn on_piece(&mut self, piece: &Extent, contiguous: u64) {
        if piece.offset <= contiguous || piece.len >= TINY_BYTES {
            self.tiny_pieces = self.tiny_pieces.saturating_sub(1);
            return;
        }
        self.tiny_pieces += 1;
        if self.tiny_pieces >= MANY_TINY {
            self.tiny_pieces = 0;
            self.fragments = true;
        }
    }
}

mod frame_type {
    pub(super) const RESET_STREAM: u64 = 0x04;
    pub(super) const STOP_SENDING: u64 = 0x05;
    pub(super) const STREAM: u64 = 0x08;
    pub(super) const MAX_STREAM_DATA: u64 = 0x11;
    pub(super) const MAX_STREAMS: u64 = 0x12;
    pub(super) const STREAM_DATA_BLOCKED: u64 = 0x15;
    pub(super) const STREAMS_BLOCKED: u64 = 0x16;
    pub(super) const RESET_STREAM_AT: u64 = 0x24;
}

impl StreamSet {
    /// A STREAM frame; `data` is its payload as a slice of the receive buffer, `rtt` the smoothed
    /// round-trip time. RFC 9000 s19.8.
    pub fn on_stream(
        &mut self,
        now: Instant,
        rtt: Duration,
        frame: &wire::Stream<'_>,
        data: Bytes,
    ) -> Result<(), TransportError> {
        debug_assert_eq!(frame.data.len(), data.len());
        self.on_stream_data(now, rtt, frame.id, frame.offset, frame.fin, data)
    }

    /// [`Self::on_stream`] by the frame's fields, when nobody else needs the packet's memory.
    pub fn on_stream_data(
        &mut self,
        now: Instant,
        rtt: Duration,
        id: StreamId,
        offset: u64,
        fin: bool,
        data: Bytes,
    ) -> Result<(), TransportError> {
        let extent = Extent {
            offset,
            len: data.len() as u64,
            fin,
        };
        self.receive(now, rtt, id, extent, data)
            .map_err(|error| error.in_frame(frame_type::STREAM))
    }

    /// See [`Connection::note_receive_position`](crate::connection::Connection).
    pub fn note_receive_position(&mut self, bytes: u64) {
        self.sharing.advance(bytes);
    }

    /// See [`Connection::receives_in_order`](crate::connection::Connection).
    pub fn receives_in_order(&self) -> bool {
        self.in_order
    }

    /// A RESET_STREAM frame. RFC 9000 s19.4.
    pub fn on_reset_stream(&mut self, frame: &wire::ResetStream) -> Result<(), TransportError> {
        let reset = ResetFrame {
            code: frame.code,
            final_size: frame.final_size,
            reliable_size: None,
        };
        self.receive_reset(frame.id, reset)
            .map_err(|error| error.in_frame(frame_type::RESET_STREAM))
    }

    /// A RESET_STREAM_AT frame. Draft -10 s3.
    pub fn on_reset_stream_at(
        &mut self,
        id: StreamId,
        code: u64,
        final_size: u64,
        reliable_size: u64,
    ) -> Result<(), TransportError> {
        let reset = ResetFrame {
            code,
            final_size,
            reliable_size: Some(reliable_size),
        };
        self.receive_reset(id, reset)
            .map_err(|error| error.in_frame(frame_type::RESET_STREAM_AT))
    }

    /// A STOP_SENDING frame: answered by RESET_STREAM with the same code. RFC 9000 s3.5, s19.5.
    pub fn on_stop_sending(&mut self, id: StreamId, code: u64) -> Result<(), TransportError> {
        self.touch(id, false)
            .map_err(|error| error.in_frame(frame_type::STOP_SENDING))?;
        let Some(send) = self
            .table
            .get_mut(id)
            .and_then(|stream| stream.send.as_mut())
        else {
            return Ok(());
        };
        let was_reset = send.is_reset();
        if let Some(released) = send.on_stop_sending(code) {
            let (half, state) = (HalfStream::Sending, send.state_name());
            self.journal.note(|| Note::State { id, half, state });
            self.owe(id, due::RESET);
            self.on_released(released);
            self.refresh(id);
            if !was_reset {
                self.emit(StreamEvent::Stopped { id, code });
            }
        }
        Ok(())
    }

    /// A MAX_DATA frame. RFC 9000 s19.9.
    pub fn on_max_data(&mut self, max: u64) {
        self.raise_max_data(max);
    }

    /// A MAX_STREAM_DATA frame. RFC 9000 s19.10.
    pub fn on_max_stream_data(&mut self, id: StreamId, max: u64) -> Result<(), TransportError> {
        self.touch(id, false)
            .map_err(|error| error.in_frame(frame_type::MAX_STREAM_DATA))?;
        let send = self
            .table
            .get_mut(id)
            .and_then(|stream| stream.send.as_mut());
        let Some(send) = send else {
            return Ok(());
        };
        let was_blocked = send.credit.is_reported();
        if send.credit.raise(max) {
            if was_blocked {
                self.note_blocked(FlowScope::Stream(id), max, false);
            }
            self.wake_writer(id);
            self.refresh(id);
        }
        Ok(())
    }

    /// A MAX_STREAMS frame. RFC 9000 s19.11.
    pub fn on_max_streams(&mut self, dir: Dir, max: u64) -> Result<(), TransportError> {
        if max > MAX_STREAM_COUNT {
            let error = TransportError::frame_encoding("MAX_STREAMS above 2^60");
            return Err(error.in_frame(frame_type::MAX_STREAMS + u64::from(dir == Dir::Uni)));
        }
        self.raise_max_streams(dir, max);
        Ok(())
    }

    /// A DATA_BLOCKED frame. Our grants follow the application's reading, not the peer's wishes.
    /// RFC 9000 s19.12.
    pub fn on_data_blocked(&mut self, _limit: u64) -> Result<(), TransportError> {
        Ok(())
    }

    /// A STREAM_DATA_BLOCKED frame. RFC 9000 s19.13.
    pub fn on_stream_data_blocked(
        &mut self,
        id: StreamId,
        _limit: u64,
    ) -> Result<(), TransportError> {
        self.touch(id, true)
            .map_err(|error| error.in_frame(frame_type::STREAM_DATA_BLOCKED))
    }

    /// A STREAMS_BLOCKED frame. RFC 9000 s19.14.
    pub fn on_streams_blocked(&mut self, dir: Dir, limit: u64) -> Result<(), TransportError> {
        if limit > MAX_STREAM_COUNT {
            let error = TransportError::frame_encoding("STREAMS_BLOCKED above 2^60");
            return Err(error.in_frame(frame_type::STREAMS_BLOCKED + u64::from(dir == Dir::Uni)));
        }
        self.limits.remote_mut(dir).on_blocked();
        Ok(())
    }

    /// Makes sure that a stream named by a frame has state, unless it is over. `receiving` tells
    /// which half the frame is about, from our side.
    #[inline]
    fn touch(&mut self, id: StreamId, receiving: bool) -> Result<(), TransportError> {
        if let Some(stream) = self.table.get_mut(id) {
            let has_half = if receiving {
                stream.recv.is_some()
            } else {
                stream.send.is_some()
            };
            if has_half {
                return Ok(());
            }
        }
        self.touch_unknown(id, receiving)
    }

    fn touch_unknown(&mut self, id: StreamId, receiving: bool) -> Result<(), TransportError> {
        let dir = id.dir();
        let opened_before = self.limits.remote(dir).opened;
        if self.limits.touch(id, receiving)? == Touched::New {
            self.create(id);
        }
        if self.limits.remote(dir).opened > opened_before {
            self.events.opened(dir);
        }
        Ok(())
    }

    fn receive(
        &mut self,
        now: Instant,
        rtt: Duration,
        id: StreamId,
        extent: Extent,
        data: Bytes,
    ) -> Result<(), TransportError> {
        self.touch(id, true)?;
        let Some(stream) = self.table.get_mut(id) else {
            return Ok(());
        };
        let Some(recv) = &mut stream.recv else {
            return Ok(());
        };
        let fresh = recv.check(extent)?;
        if fresh > self.window.granted().saturating_sub(self.received) {
            return Err(TransportError::flow_control("stream data beyond MAX_DATA"));
        }
        self.received += fresh;
        recv.window.raise_window(self.least_window);
        let tuned = recv.window.tune(now, rtt);
        if tuned || self.least_window > 0 {
            // One stream must be able to use its window.
            self.window.raise_window(
                recv.window
                    .window()
                    .saturating_add(recv.window.window() / 2),
            );
        }
        self.window.tune(now, rtt);
        let most = self.sharing.slices(self.borrowed);
        let allowed = if data.len() < SHORT_BYTES {
            most / SHORT_SHARE
        } else {
            most
        };
        let contiguous = recv.assembler().contiguous();
        self.in_order = extent.offset <= contiguous;
        self.floods.on_piece(&extent, contiguous);
        let before = recv.state_name();
        let readable = recv.on_data(extent, data, allowed.saturating_sub(self.borrowed));
        let state = recv.state_name();
        self.journal.note(|| Note::Moved {
            id,
            offset: extent.offset,
            len: usize::try_from(extent.len).unwrap_or(usize::MAX),
            from: DataPosition::Network,
            to: DataPosition::Transport,
        });
        if before != state {
            let half = HalfStream::Receiving;
            self.journal.note(|| Note::State { id, half, state });
        }
        // Otherwise no credit is due before somebody reads.
        let settles = tuned || recv.is_given_up();
        let borrowed = recv.assembler().borrowed();
        self.borrowed = (self.borrowed + borrowed).saturating_sub(stream.borrowed);
        stream.borrowed = borrowed;
        if readable && !stream.readable_queued {
            self.emit(StreamEvent::Readable(id));
        }
        if settles {
            self.settle_receiving(id);
        }
        Ok(())
    }

    fn receive_reset(&mut self, id: StreamId, frame: ResetFrame) -> Result<(), TransportError> {
        self.touch(id, true)?;
        let Some(stream) = self.table.get_mut(id) else {
            return Ok(());
        };
        let Some(recv) = &mut stream.recv else {
            return Ok(());
        };
        let fresh = recv.check_reset(frame)?;
        if fresh > self.window.granted().saturating_sub(self.received) {
            return Err(TransportError::flow_control("final size beyond MAX_DATA"));
        }
        self.received += fresh;
        let before = recv.state_name();
        let told = recv.on_reset(frame);
        let state = recv.state_name();
        if before != state {
            let half = HalfStream::Receiving;
            self.journal.note(|| Note::State { id, half, state });
        }
        if told {
            self.emit(StreamEvent::Readable(id));
        }
        self.settle_receiving(id);
        Ok(())
    }
}
