//! The receiving half of a stream.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use tautline_transport::{
    stream::{ReadError as TransportReadError, ReadOutcome, ReceiveEnd, UnorderedOutcome},
    units::StreamId,
};
use tokio::io::{AsyncRead, ReadBuf};

use crate::{
    conn::{Conn, ConnState},
    error::{ClosedStream, ReadError, ReadExactError, ReadToEndError},
};

/// Receives bytes in order.
///
/// **Drop:** a stream that was not read to its end is stopped with code 0, as if by
/// [`Self::stop`]: the peer learns that the rest is not wanted.
///
/// **Cancel safety:** see each method.
///
/// **After the end of the connection** what arrived in order can still be read.
///
/// **Back-pressure:** the peer may send as much as the receive windows in
/// [`TransportConfig`](crate::TransportConfig) allow beyond what was read, then it waits.
#[derive(Debug)]
pub struct RecvStream {
    conn: Conn,
    id: StreamId,
    /// How the stream ended, as far as the reader saw it.
    over: Option<Over>,
}

/// What ends reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Finished,
    Reset(u64),
    Stopped,
}

/// Bytes of a stream and where they belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadChunk {
    /// Offset of the first byte in the stream.
    pub offset: u64,
    /// The bytes, never empty.
    pub bytes: Bytes,
}

impl RecvStream {
    pub(crate) fn new(conn: Conn, id: StreamId) -> Self {
        Self {
            conn,
            id,
            over: None,
        }
    }

    /// The stream's number.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// What ended reading, as every later read reports it.
    fn ended<T>(&self) -> Option<Result<Option<T>, ReadError>> {
        self.over.map(|over| match over {
            Over::Finished => Ok(None),
            Over::Reset(code) => Err(ReadError::Reset(code)),
            Over::Stopped => Err(ReadError::ClosedStream),
        })
    }

    fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut read: impl FnMut(&mut ConnState, StreamId) -> Result<Read<T>, TransportReadError>,
    ) -> Poll<Result<Option<T>, ReadError>> {
        if let Some(ended) = self.ended() {
            return Poll::Ready(ended);
        }
        let id = self.id;
        let outcome = self.conn.with(|state| {
            let outcome = match read(state, id) {
                Ok(Read::Some(chunk)) => Ok(Some(chunk)),
                Ok(Read::Finished) => Ok(None),
                Ok(Read::Blocked) => match state.usable() {
                    Err(lost) => Err(ReadError::ConnectionLost(lost)),
                    Ok(()) => {
                        state.waiting.read(id, cx);
                        return Poll::Pending;
                    }
                },
                Err(TransportReadError::Reset(code)) => Err(ReadError::Reset(code)),
                Err(_) => Err(match state.usable() {
                    Err(lost) => ReadError::ConnectionLost(lost),
                    Ok(()) => ReadError::ClosedStream,
                }),
            };
            // Reading may open windows; the peer hears of it when that is worth a frame.
            state.touched |= state.quic.has_stream_control();
            Poll::Ready(outcome)
        });
        let outcome = ready!(outcome);
        match &outcome {
            Ok(None) => self.over = Some(Over::Finished),
            Err(ReadError::Reset(code)) => self.over = Some(Over::Reset(*code)),
            _ => {}
        }
        Poll::Ready(outcome)
    }

    fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
        max_bytes: usize,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        self.poll_with(cx, |state, id| {
            Ok(match state.quic.read(id, max_bytes)? {
                ReadOutcome::Chunk(bytes) => Read::Some(bytes),
                ReadOutcome::Blocked => Read::Blocked,
                ReadOutcome::Finished => Read::Finished,
            })
        })
    }

    /// Reads some bytes into `buf`: how many (at least 1, unless `buf` is empty), or `None` at
    /// the end of the stream.
    ///
    /// Cancel safe: unless it returned, nothing was read.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read(&mut self, buf: &mut [u8]) -> Result<Option<usize>, ReadError> {
        poll_fn(|cx| self.poll_into(cx, buf)).await
    }

    fn poll_into(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<Result<Option<usize>, ReadError>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(Some(0)));
        }
        let mut filled = 0;
        // A chunk is at most a packet's worth; one call fills what there is.
        while filled < buf.len() {
            let room = buf.get_mut(filled..).unwrap_or_default();
            match self.poll_chunk(cx, room.len()) {
                Poll::Ready(Ok(Some(chunk))) => {
                    if let Some(place) = room.get_mut(..chunk.len()) {
                        place.copy_from_slice(&chunk);
                    }
                    filled += chunk.len();
                }
                // An end or an error is told by the next call.
                _ if filled > 0 => break,
                other => return other.map_ok(|_| None),
            }
        }
        Poll::Ready(Ok(Some(filled)))
    }

    /// Takes the next bytes without copying them, at most `max_bytes`; `None` at the end.
    ///
    /// A chunk shares memory with the packets it came in; to keep it for long, copy it.
    ///
    /// Cancel safe: unless it returned, nothing was read.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_chunk(&mut self, max_bytes: usize) -> Result<Option<Bytes>, ReadError> {
        poll_fn(|cx| self.poll_chunk(cx, max_bytes.max(1))).await
    }

    /// Takes as many chunks as there are and `chunks` holds, without copying them: how many (at
    /// least 1, unless `chunks` is empty), or `None` at the end. Cheaper than one by one.
    ///
    /// Cancel safe: unless it returned, nothing was read.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_chunks(&mut self, chunks: &mut [Bytes]) -> Result<Option<usize>, ReadError> {
        if chunks.is_empty() {
            return Ok(Some(0));
        }
        let mut over = None;
        let filled = poll_fn(|cx| {
            self.poll_with(cx, |state, id| {
                let mut filled = 0;
                for place in &mut *chunks {
                    match state.quic.read(id, usize::MAX) {
                        Ok(ReadOutcome::Chunk(bytes)) => *place = bytes,
                        // The transport tells an end once; the next call here does it again.
                        Ok(ReadOutcome::Finished) if filled > 0 => {
                            over = Some(Over::Finished);
                            break;
                        }
                        Err(TransportReadError::Reset(code)) if filled > 0 => {
                            over = Some(Over::Reset(code));
                            break;
                        }
                        _ if filled > 0 => break,
                        Ok(ReadOutcome::Blocked) => return Ok(Read::Blocked),
                        Ok(ReadOutcome::Finished) => return Ok(Read::Finished),
                        Err(error) => return Err(error),
                    }
                    filled += 1;
                }
                Ok(Read::Some(filled))
            })
        })
        .await;
        self.over = self.over.or(over);
        filled
    }

    /// [`Self::read_chunk`] for hand-written futures.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn poll_read_chunk(
        &mut self,
        cx: &mut Context<'_>,
        max_bytes: usize,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        self.poll_chunk(cx, max_bytes.max(1))
    }

    /// Takes bytes in whatever order they arrive, without waiting for gaps to be filled.
    ///
    /// Ordered reads of the same stream fail afterwards. When the connection ends, bytes behind a
    /// gap are kept on streams that were read like this before. Cancel safe.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_unordered(
        &mut self,
        max_bytes: usize,
    ) -> Result<Option<ReadChunk>, ReadError> {
        poll_fn(|cx| {
            self.poll_with(cx, |state, id| {
                Ok(match state.quic.read_unordered(id, max_bytes.max(1))? {
                    UnorderedOutcome::Chunk { offset, data } => Read::Some(ReadChunk {
                        offset,
                        bytes: data,
                    }),
                    UnorderedOutcome::Blocked => Read::Blocked,
                    UnorderedOutcome::Finished => Read::Finished,
                })
            })
        })
        .await
    }

    /// Fills `buf`.
    ///
    /// **Not** cancel safe: when it is dropped, some bytes may be read and are lost with `buf`.
    ///
    /// # Errors
    /// When the stream ends before, or cannot be read.
    pub async fn read_exact(&mut self, buf: &mut [u8]) -> Result<(), ReadExactError> {
        let mut read = 0;
        while read < buf.len() {
            let room = buf.get_mut(read..).unwrap_or_default();
            match self.read(room).await? {
                Some(more) => read += more,
                None => return Err(ReadExactError::FinishedEarly { read }),
            }
        }
        Ok(())
    }

    /// Reads up to the end, at most `limit_bytes`.
    ///
    /// **Not** cancel safe: when it is dropped, what it read is lost.
    ///
    /// # Errors
    /// When the stream is longer, or cannot be read.
    pub async fn read_to_end(&mut self, limit_bytes: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut all = BytesMut::new();
        while let Some(chunk) = self.read_chunk(usize::MAX).await? {
            if chunk.len() > limit_bytes.saturating_sub(all.len()) {
                return Err(ReadToEndError::TooLong { limit: limit_bytes });
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all.into())
    }

    /// Waits, without reading, until the peer resets the stream (its code), or everything has
    /// arrived (`None`): for those who wait for something else than this stream's bytes. The peer
    /// can only come to the end within the receive window.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn received_reset(&mut self) -> Result<Option<u64>, ReadError> {
        poll_fn(|cx| self.poll_received_reset(cx)).await
    }

    fn poll_received_reset(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<u64>, ReadError>> {
        match self.over {
            Some(Over::Finished) => return Poll::Ready(Ok(None)),
            Some(Over::Reset(code)) => return Poll::Ready(Ok(Some(code))),
            Some(Over::Stopped) => return Poll::Ready(Err(ReadError::ClosedStream)),
            None => {}
        }
        let id = self.id;
        self.conn.with(|state| match state.quic.receive_end(id) {
            Ok(ReceiveEnd::Complete) => Poll::Ready(Ok(None)),
            Ok(ReceiveEnd::Reset(code)) => Poll::Ready(Ok(Some(code))),
            Ok(ReceiveEnd::Open) => {
                if let Err(lost) = state.usable() {
                    return Poll::Ready(Err(ReadError::ConnectionLost(lost)));
                }
                state.waiting.read(id, cx);
                Poll::Pending
            }
            Err(_) => Poll::Ready(Err(match state.usable() {
                Err(lost) => ReadError::ConnectionLost(lost),
                Ok(()) => ReadError::ClosedStream,
            })),
        })
    }

    /// Tells the peer that the rest is not wanted (STOP_SENDING); its writes fail with `code`
    /// (below 2^62).
    ///
    /// # Errors
    /// When the stream is over already.
    pub fn stop(&mut self, code: u64) -> Result<(), ClosedStream> {
        if self.over.is_some() {
            return Err(ClosedStream);
        }
        self.over = Some(Over::Stopped);
        let id = self.id;
        self.conn.with(|state| {
            state.touched = true;
            state.quic.stop(id, code).map_err(|_| ClosedStream)
        })
    }
}

/// What one attempt to read gave.
enum Read<T> {
    Some(T),
    Blocked,
    Finished,
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let id = self.id;
        let unread = self.over.is_none();
        let removed = self.conn.with(|state| {
            if unread {
                // An error means that the stream is over already. After the end of the connection,
                // too, nobody else will read what is left.
                let _ = state.quic.stop(id, 0);
                state.touched |= state.error.is_none();
            }
            state.waiting.take_reader(id)
        });
        // The waker is dropped outside of the lock.
        drop(removed);
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        while buf.remaining() > 0 {
            match this.poll_chunk(cx, buf.remaining()) {
                Poll::Ready(Ok(Some(chunk))) => buf.put_slice(&chunk),
                // An end or an error is told by the next call.
                _ if buf.filled().len() > before => break,
                Poll::Ready(Ok(None)) => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}
