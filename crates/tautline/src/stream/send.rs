//! The sending half of a stream.

use std::{
    future::{Future, poll_fn},
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use tautline_transport::{
    multipath::{PathPin, PinError},
    stream::{
        Protection, ResetError as TransportResetError, WriteError as TransportWriteError,
        sched::Priority,
    },
    units::StreamId,
};
use tokio::io::AsyncWrite;

use crate::{
    conn::{Conn, ConnState, Queue, SendOutcome, WaitFor},
    error::{ClosedStream, ResetError, StoppedError, WriteError},
};

/// Sends bytes in order.
///
/// **Drop:** a stream that was neither finished nor reset is finished, as if by
/// [`Self::finish`]: everything written is delivered, then the peer sees the end. To give it up
/// instead, call [`Self::reset`]. (While unwinding from a panic the stream is reset with code 0,
/// so that the peer does not take half a message for a whole one.)
///
/// **Cancel safety:** see each method.
///
/// **Back-pressure:** writes wait while the peer's flow control or the send buffer
/// ([`send_buffer_bytes`](crate::TransportConfig::send_buffer_bytes)) is full. Written means
/// buffered, not delivered: see [`Self::stopped`].
#[derive(Debug)]
pub struct SendStream {
    conn: Conn,
    id: StreamId,
    /// Finished or reset by the application.
    over: bool,
}

impl SendStream {
    pub(crate) fn new(conn: Conn, id: StreamId) -> Self {
        conn.state.lock().waiting.hold_sender(id);
        Self {
            conn,
            id,
            over: false,
        }
    }

    /// The stream's number.
    pub fn id(&self) -> StreamId {
        self.id
    }

    fn poll_write_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&mut ConnState) -> Result<T, TransportWriteError>,
        took_something: impl Fn(&T) -> bool,
    ) -> Poll<Result<T, WriteError>> {
        let id = self.id;
        self.conn.with(|state| {
            state.usable()?;
            match write(state) {
                Ok(taken) if took_something(&taken) => {
                    state.touched = true;
                    Poll::Ready(Ok(taken))
                }
                Ok(_) => {
                    // The peer is told that we are blocked.
                    state.touched = true;
                    let sender = state.waiting.senders.entry(id).or_default();
                    match &mut sender.writer {
                        Some(waker) => waker.clone_from(cx.waker()),
                        None => sender.writer = Some(cx.waker().clone()),
                    }
                    Poll::Pending
                }
                Err(error) => Poll::Ready(Err(explain(state, id, error))),
            }
        })
    }

    fn poll_write_slice(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, WriteError>> {
        let id = self.id;
        let write = |state: &mut ConnState| state.quic.write(id, data);
        self.poll_write_with(cx, write, |taken| *taken > 0 || data.is_empty())
    }

    /// Writes some of `data`; returns how much was taken, at least one byte unless `data` is
    /// empty. Waits while nothing can be taken.
    ///
    /// Cancel safe: unless it returned, nothing was written.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_write_slice(cx, data)).await
    }

    /// Writes all of `data`.
    ///
    /// **Not** cancel safe: when it is dropped, some of `data` may be written. Use
    /// [`Self::write`] where that matters.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write_all(&mut self, mut data: &[u8]) -> Result<(), WriteError> {
        while !data.is_empty() {
            let taken = self.write(data).await?;
            data = data.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// Writes some of `chunk` without copying it and advances it past what was taken.
    ///
    /// Cancel safe: `chunk` always tells what is left.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write_bytes(&mut self, chunk: &mut Bytes) -> Result<usize, WriteError> {
        let id = self.id;
        poll_fn(|cx| {
            let empty = chunk.is_empty();
            let write = |state: &mut ConnState| state.quic.write_bytes(id, chunk);
            self.poll_write_with(cx, write, |taken| *taken > 0 || empty)
        })
        .await
    }

    /// Writes all of `chunk` without copying it.
    ///
    /// **Not** cancel safe: when it is dropped, some of `chunk` may be written. Use
    /// [`Self::write_bytes`] where that matters.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write_chunk(&mut self, mut chunk: Bytes) -> Result<(), WriteError> {
        while !chunk.is_empty() {
            self.write_bytes(&mut chunk).await?;
        }
        Ok(())
    }

    /// Says that nothing more will be written. What was written is delivered all the same.
    ///
    /// Does not wait; await [`Self::stopped`] to know that everything arrived.
    ///
    /// # Errors
    /// When the stream was finished, reset or stopped before, or the connection has ended.
    pub fn finish(&mut self) -> Result<(), ClosedStream> {
        if self.over {
            return Err(ClosedStream);
        }
        let id = self.id;
        let finished = self.conn.with(|state| {
            state.touched = true;
            if state.error.is_some() {
                Err(ClosedStream)
            } else {
                state.quic.finish(id).map_err(|_| ClosedStream)
            }
        });
        self.over = true;
        finished
    }

    /// Gives the stream up: what was not delivered is dropped, and the peer's reads fail with
    /// `code` (below 2^62).
    ///
    /// # Errors
    /// When everything was delivered, the stream was reset before, or the connection has ended.
    pub fn reset(&mut self, code: u64) -> Result<(), ResetError> {
        self.over = true;
        self.give_up(|state, id| state.quic.reset(id, code))
    }

    fn give_up(
        &self,
        reset: impl FnOnce(&mut ConnState, StreamId) -> Result<(), TransportResetError>,
    ) -> Result<(), ResetError> {
        let mut woken = Vec::new();
        let outcome = self.conn.with(|state| {
            state.touched = true;
            reset(state, self.id).map_err(reset_error)?;
            state.sending_over(self.id, SendOutcome::Reset, &mut woken);
            Ok(())
        });
        woken.into_iter().for_each(Waker::wake);
        outcome
    }

    /// Gives the stream up but still delivers its first `reliable_bytes` bytes
    /// (RESET_STREAM_AT).
    ///
    /// # Errors
    /// When the peer does not support it, or the stream or the connection is over.
    pub fn reset_at(&mut self, code: u64, reliable_bytes: u64) -> Result<(), ResetError> {
        let reset = self.give_up(|state, id| state.quic.reset_at(id, code, reliable_bytes));
        self.over |= reset != Err(ResetError::NotNegotiated);
        reset
    }

    /// Sets the stream's place among others. Default urgency 3, not incremental. RFC 9218.
    /// Without effect once everything is sent.
    pub fn set_priority(&self, priority: Priority) {
        self.conn
            .with(|state| state.quic.set_priority(self.id, priority));
    }

    /// Says that `bytes` will be written in all, as soon as there is room; `None`: that is no longer known. Over several
    /// paths the scheduler decides with what is still to come: a small stream whose end is in sight waits for no slow path, though
    /// it has not been [finished](Self::finish) yet. A hint alone: less or more may be written.
    pub fn set_size_hint(&self, bytes: Option<u64>) {
        self.conn
            .with(|state| state.quic.set_size_hint(self.id, bytes));
    }

    /// Sets whether erasure correction protects what is sent of the stream from now on, sent again
    /// included, where it was negotiated
    /// ([`TransportConfig::fec`](crate::TransportConfig)). By default the redundancy scheduler says.
    pub fn set_protection(&self, protection: Protection) {
        self.conn
            .with(|state| state.quic.set_protection(self.id, protection));
    }

    /// From now on the stream's data goes by one path ([`PathPin`]), sent again included; `None`: wherever
    /// the path scheduler sends it. What becomes of it when the path fails: docs/multipath.md.
    ///
    /// # Errors
    /// [`PinError::UnknownPath`] for a path that is not there (any more); the stream has no pin then.
    pub fn pin(&self, pin: Option<PathPin>) -> Result<(), PinError> {
        self.conn.with(|state| {
            state.touched = true;
            state.quic.pin_stream(self.id, pin)
        })
    }

    /// Waits until the peer needs no more from this stream: `Ok(None)` when it acknowledged
    /// everything up to the end (after [`Self::finish`]), `Ok(Some(code))` when it stopped
    /// reading.
    ///
    /// Acknowledged means that the peer's QUIC stack has it, not that its application read it.
    /// The future does not borrow the stream, so that one can write meanwhile; it does keep the
    /// connection open. Cancel safe. `Ok(None)` at once after [`Self::reset`].
    ///
    /// # Errors
    /// When the connection ended first.
    pub fn stopped(
        &self,
    ) -> impl Future<Output = Result<Option<u64>, StoppedError>> + Send + 'static + use<> {
        let id = self.id;
        self.conn.state.lock().waiting.hold_sender(id);
        let outcome = move |state: &mut ConnState| {
            let outcome = state
                .waiting
                .senders
                .get(&id)
                .and_then(|sender| sender.outcome);
            match outcome {
                Some(SendOutcome::Delivered | SendOutcome::Reset) => Some(Ok(None)),
                Some(SendOutcome::Stopped(code)) => Some(Ok(Some(code))),
                None => match state.quic.stopped(id) {
                    Some(code) => Some(Ok(Some(code))),
                    None => state.alive().err().map(|error| Err(error.into())),
                },
            }
        };
        let wait = WaitFor::new(self.conn.clone(), Queue::Stopped(id), outcome);
        Stopped {
            wait,
            conn: self.conn.clone(),
            id,
        }
    }
}

/// The future of [`SendStream::stopped`]; keeps what is known of the stream's end.
struct Stopped<F> {
    wait: WaitFor<Conn, F>,
    conn: Conn,
    id: StreamId,
}

impl<F, T> Future for Stopped<F>
where
    F: FnMut(&mut ConnState) -> Option<T> + Unpin,
{
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.wait).poll(cx)
    }
}

impl<F> Drop for Stopped<F> {
    fn drop(&mut self) {
        let released = self.conn.state.lock().waiting.release_sender(self.id);
        drop(released);
    }
}

/// Why a write failed; a stopped stream keeps its code even when the transport forgot it.
fn explain(state: &ConnState, id: StreamId, error: TransportWriteError) -> WriteError {
    let outcome = state
        .waiting
        .senders
        .get(&id)
        .and_then(|sender| sender.outcome);
    match (error, outcome) {
        (TransportWriteError::Stopped(code), _) | (_, Some(SendOutcome::Stopped(code))) => {
            WriteError::Stopped(code)
        }
        _ => WriteError::ClosedStream,
    }
}

fn reset_error(error: TransportResetError) -> ResetError {
    match error {
        TransportResetError::NotNegotiated => ResetError::NotNegotiated,
        _ => ResetError::ClosedStream,
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let id = self.id;
        let over = self.over;
        let removed = self.conn.with(|state| {
            if !over && state.error.is_none() {
                state.touched = true;
                // An error means that the stream is over already.
                if std::thread::panicking() {
                    let _ = state.quic.reset(id, 0);
                } else {
                    let _ = state.quic.finish(id);
                }
            }
            state.waiting.release_sender(id)
        });
        // Its waker is dropped outside of the lock.
        drop(removed);
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .poll_write_slice(cx, data)
            .map_err(Into::into)
    }

    /// Nothing to do: the driver sends as soon as it can.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// [`SendStream::finish`], without waiting for the peer; finishing twice is fine here.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let already_over = this.over;
        let finished = this.finish();
        Poll::Ready(match finished {
            Err(error) if !already_over => Err(io::Error::new(io::ErrorKind::BrokenPipe, error)),
            _ => Ok(()),
        })
    }
}
