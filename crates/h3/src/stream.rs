//! Streams as `h3` wants to see them.

use std::{
    collections::VecDeque,
    error::Error,
    fmt, io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut};
use h3::{
    error::Code,
    quic::{self, StreamErrorIncoming, StreamId, WriteBuf},
};
use tautline::{ConnectionError, Side, transport::wire::varint_len};
use tokio::io::AsyncWrite;

use crate::{
    MAX_FIELD_SECTION_BYTES,
    connection::Priorities,
    error,
    message::{self, Method},
    varint::PartialVarint,
    watch::{FRAME_HEADERS, Noticed, Watch},
};

/// 431 Request Header Fields Too Large. RFC 6585 s5.
const FIELDS_TOO_LARGE: u16 = 431;

/// The sending half of a request, or a unidirectional stream.
///
/// **Drop:** a request or response that was not finished is reset with H3_REQUEST_CANCELLED, so
/// that the peer does not take a part for the whole.
pub struct SendStream<B> {
    stream: tautline::SendStream,
    writing: Option<WriteBuf<B>>,
    reset_on_drop: bool,
    exchange: Arc<Exchange>,
    /// The message's first frame, as far as it was written; `None` when it was read.
    first_frame: Option<Vec<u8>>,
    /// Of a response.
    status: u16,
    /// Something was written behind the first frame.
    more: bool,
}

/// The receiving half of a request, or a unidirectional stream.
///
/// **Drop:** what was not read is stopped with H3_REQUEST_CANCELLED by a client and with
/// H3_NO_ERROR by a server, which may well answer a request without reading it all.
#[derive(Debug)]
pub struct RecvStream {
    stream: tautline::RecvStream,
    watch: Watch,
    /// What was read before `h3` asked: given to it as it is, and looked at first.
    early: VecDeque<Early>,
    /// The frame under way, which `h3` gets when it is whole: it would look at all of it whenever
    /// a byte more comes.
    held: BytesMut,
    priorities: Priorities,
    exchange: Arc<Exchange>,
}

/// What the halves of a request stream tell each other.
#[derive(Debug, Default)]
struct Exchange {
    /// Of the request that we sent.
    asked: OnceLock<Method>,
    malformed: OnceLock<Malformed>,
}

/// What came on a request stream is malformed (RFC 9114 s4.1.2): the stream is over, both ways,
/// with H3_MESSAGE_ERROR. `h3` hands it on inside of `StreamError::Undefined`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Which rule was broken.
    pub reason: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message: {}", self.reason)
    }
}

impl Error for Malformed {}

impl From<Malformed> for StreamErrorIncoming {
    fn from(malformed: Malformed) -> Self {
        Self::Unknown(Box::new(malformed))
    }
}

#[derive(Debug)]
enum Early {
    /// The stream's type.
    Seen(Bytes),
    /// Frames, perhaps cut anywhere.
    Unseen(Bytes),
}

/// A request stream.
#[derive(Debug)]
pub struct BidiStream<B> {
    send: SendStream<B>,
    recv: RecvStream,
}

/// Bytes of a message with this header and body, if the body leaves in one DATA frame: each further one is two to nine bytes
/// more.
fn whole(header: u64, body: u64) -> u64 {
    // The frame's type, which is one byte, and its length.
    let frame = 1 + varint_len(body) as u64;
    header.saturating_add(frame).saturating_add(body)
}

/// The same number in `h3`'s type.
fn number(id: tautline::StreamId) -> StreamId {
    // QUIC knows no larger numbers, and `h3` refuses only those.
    const LARGEST: u64 = (1 << 62) - 1;
    match StreamId::try_from(id.0 & LARGEST) {
        Ok(id) => id,
        Err(_) => unreachable!("below 2^62"),
    }
}

impl<B> SendStream<B> {
    pub(crate) fn unidirectional(stream: tautline::SendStream) -> Self {
        Self {
            stream,
            writing: None,
            reset_on_drop: false,
            exchange: Arc::default(),
            first_frame: None,
            status: 0,
            more: false,
        }
    }

    /// Looks at the message's first frame as it is written, and remembers what the other half, or
    /// dropping, needs to know.
    fn wrote(&mut self, data: &[u8]) {
        let Some(frame) = &mut self.first_frame else {
            self.more = true;
            return;
        };
        frame.extend_from_slice(data);
        let Some((kind, rest)) = PartialVarint::first(frame) else {
            return;
        };
        let Some((len, section)) = PartialVarint::first(rest) else {
            return;
        };
        let readable = kind == FRAME_HEADERS && len <= MAX_FIELD_SECTION_BYTES;
        if readable && (section.len() as u64) < len {
            return;
        }
        let mut body = None;
        if readable && let Ok(request) = message::request(section) {
            // Set once, for there is one first frame.
            let _ = self.exchange.asked.set(request.method);
            body = request.content_length;
        } else if readable && let Ok(response) = message::response(section) {
            self.status = response.status;
            body = response.content_length;
        }
        if let Some(body) = body {
            let head = (frame.len() - section.len()) as u64;
            let bytes = whole(head.saturating_add(len), body);
            self.stream.set_size_hint(Some(bytes));
        }
        self.first_frame = None;
    }

    /// The other half found that what came is malformed: so is this half over.
    fn check(&mut self) -> Result<(), Malformed> {
        let Some(malformed) = self.exchange.malformed.get().copied() else {
            return Ok(());
        };
        self.give_up(Code::H3_MESSAGE_ERROR.value());
        Err(malformed)
    }

    fn give_up(&mut self, code: u64) {
        self.reset_on_drop = false;
        // An error means that the stream is over already.
        let _ = self.stream.reset(code);
    }
}

impl<B: Buf> SendStream<B> {
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, data));
        if let Ok(written) = written {
            self.wrote(data.get(..written).unwrap_or_default());
        }
        Poll::Ready(written.map_err(error::write))
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.check()?;
        while let Some(mut buf) = self.writing.take() {
            if !buf.has_remaining() {
                break;
            }
            match self.poll_write(cx, buf.chunk()) {
                Poll::Ready(Ok(written)) => {
                    buf.advance(written);
                    self.writing = Some(buf);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.writing = Some(buf);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.writing.is_some() {
            let error = io::Error::other("send_data before the last data was written");
            return Err(StreamErrorIncoming::Unknown(Box::new(error)));
        }
        self.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_ready(cx))?;
        self.reset_on_drop = false;
        Poll::Ready(
            self.stream
                .finish()
                .map_err(|error| StreamErrorIncoming::Unknown(Box::new(error))),
        )
    }

    fn reset(&mut self, reset_code: u64) {
        self.give_up(reset_code);
    }

    fn send_id(&self) -> StreamId {
        number(self.stream.id())
    }
}

impl<B: Buf> quic::SendStreamUnframed<B> for SendStream<B> {
    fn poll_send<D: Buf>(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut D,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        ready!(quic::SendStream::poll_ready(self, cx))?;
        let written = ready!(self.poll_write(cx, buf.chunk()))?;
        buf.advance(written);
        Poll::Ready(Ok(written))
    }
}

impl<B> Drop for SendStream<B> {
    fn drop(&mut self) {
        if !self.reset_on_drop || self.check().is_err() {
            return;
        }
        // `h3` answers by itself where fields are too large, and leaves it at that: such an answer
        // has no body, and is whole.
        if self.status == FIELDS_TOO_LARGE && !self.more {
            let _ = self.stream.finish();
        } else {
            self.give_up(Code::H3_REQUEST_CANCELLED.value());
        }
    }
}

impl<B> fmt::Debug for SendStream<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendStream")
            .field("id", &self.stream.id())
            .finish_non_exhaustive()
    }
}

impl RecvStream {
    /// `of_type` and `rest` were read already.
    pub(crate) fn unidirectional(
        stream: tautline::RecvStream,
        watch: Watch,
        of_type: Bytes,
        rest: Bytes,
        priorities: &Priorities,
    ) -> Self {
        let mut early = VecDeque::from([Early::Seen(of_type)]);
        if !rest.is_empty() {
            early.push_back(Early::Unseen(rest));
        }
        let mut this = Self::new(stream, watch, priorities.clone(), Arc::default());
        this.early = early;
        this
    }

    fn new(
        stream: tautline::RecvStream,
        watch: Watch,
        priorities: Priorities,
        exchange: Arc<Exchange>,
    ) -> Self {
        Self {
            stream,
            watch,
            early: VecDeque::new(),
            held: BytesMut::new(),
            priorities,
            exchange,
        }
    }

    /// Looks at a chunk and returns what `h3` shall see, perhaps nothing.
    fn sift(&mut self, chunk: Bytes) -> Result<Bytes, StreamErrorIncoming> {
        let mut refused = None;
        let priorities = &self.priorities;
        if let Some(method) = self.exchange.asked.get() {
            self.watch.answers(*method);
        }
        let incomplete = self.watch.look(&chunk, |noticed| match noticed {
            Noticed::PriorityUpdate { stream, value } => priorities.update(stream, &value),
            noticed => refused = refused.take().or(Some(noticed)),
        });
        if let Some(refused) = refused {
            return Err(self.refuse(refused));
        }
        if self.held.is_empty() && incomplete == 0 {
            return Ok(chunk);
        }
        let whole = chunk.len().saturating_sub(incomplete);
        let (whole, rest) = (chunk.slice(..whole), chunk.slice(whole..));
        let ready = if whole.is_empty() || self.held.is_empty() {
            whole
        } else {
            self.held.extend_from_slice(&whole);
            self.held.split().freeze()
        };
        self.held.extend_from_slice(&rest);
        Ok(ready)
    }
}

impl RecvStream {
    /// Ends what the peer is doing: the connection, or this stream.
    fn refuse(&mut self, noticed: Noticed) -> StreamErrorIncoming {
        match noticed {
            Noticed::Violation(violation) => error::on_stream(self.priorities.refuse(violation)),
            Noticed::Malformed(reason) => {
                let malformed = Malformed { reason };
                // The first reason stands.
                let _ = self.exchange.malformed.set(malformed);
                // An error means that the stream is over already.
                let _ = self.stream.stop(Code::H3_MESSAGE_ERROR.value());
                malformed.into()
            }
            // Not refused.
            Noticed::PriorityUpdate { .. } => error::on_stream(ConnectionError::LocallyClosed),
        }
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        if let Some(malformed) = self.exchange.malformed.get() {
            return Poll::Ready(Err((*malformed).into()));
        }
        loop {
            let chunk = match self.early.pop_front() {
                Some(Early::Seen(bytes)) => return Poll::Ready(Ok(Some(bytes))),
                Some(Early::Unseen(bytes)) => Some(bytes),
                None => ready!(self.stream.poll_read_chunk(cx, usize::MAX)).map_err(error::read)?,
            };
            let Some(chunk) = chunk else {
                if let Some(refused) = self.watch.end() {
                    return Poll::Ready(Err(self.refuse(refused)));
                }
                // `h3` says what the end means within a frame of a control stream.
                let cut_off = self.held.split().freeze();
                return Poll::Ready(Ok((!cut_off.is_empty()).then_some(cut_off)));
            };
            let ready = self.sift(chunk)?;
            if !ready.is_empty() {
                return Poll::Ready(Ok(Some(ready)));
            }
        }
    }

    fn stop_sending(&mut self, error_code: u64) {
        // An error means that the stream is over already.
        let _ = self.stream.stop(error_code);
    }

    fn recv_id(&self) -> StreamId {
        number(self.stream.id())
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let code = match self.priorities.quic().side() {
            Side::Client => Code::H3_REQUEST_CANCELLED,
            Side::Server => Code::H3_NO_ERROR,
        };
        // An error means that it was read to its end, as it should.
        let _ = self.stream.stop(code.value());
    }
}

impl<B> BidiStream<B> {
    pub(crate) fn new(
        (send, recv): (tautline::SendStream, tautline::RecvStream),
        priorities: Priorities,
    ) -> Self {
        let exchange = Arc::new(Exchange::default());
        let watch = Watch::request(priorities.quic().side());
        Self {
            send: SendStream {
                stream: send,
                writing: None,
                reset_on_drop: true,
                exchange: Arc::clone(&exchange),
                first_frame: Some(Vec::new()),
                status: 0,
                more: false,
            },
            recv: RecvStream::new(recv, watch, priorities, exchange),
        }
    }
}

impl<B: Buf> quic::BidiStream<B> for BidiStream<B> {
    type SendStream = SendStream<B>;
    type RecvStream = RecvStream;

    fn split(self) -> (SendStream<B>, RecvStream) {
        (self.send, self.recv)
    }
}

impl<B: Buf> quic::SendStream<B> for BidiStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.send.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl<B: Buf> quic::SendStreamUnframed<B> for BidiStream<B> {
    fn poll_send<D: Buf>(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut D,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        self.send.poll_send(cx, buf)
    }
}

impl<B> quic::RecvStream for BidiStream<B> {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let polled = self.recv.poll_data(cx);
        // If it is malformed, the other half need not wait to be asked for something.
        let _ = self.send.check();
        polled
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.recv.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_its_header_and_a_data_frame() {
        for (body, bytes) in [
            (0, 12),
            (63, 75),
            (64, 77),
            (16_383, 16_396),
            (16_384, 16_399),
            (1 << 30, (1 << 30) + 19),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(whole(10, body), bytes, "{body}");
        }
    }
}
