//! The `h3` crate's transport traits over any [`RawStreams`], for stacks that bring no adapter.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stack::RawStreams;

type Pending<T> = Option<Pin<Box<dyn Future<Output = anyhow::Result<T>>>>>;

const READ_BYTES: usize = 16 * 1024;

/// A connection that carries HTTP/3.
pub struct Http3<C: RawStreams> {
    opener: Opener<C>,
    accept_bi: Pending<(C::Send, C::Recv)>,
    accept_uni: Pending<C::Recv>,
}

/// Opens streams.
pub struct Opener<C: RawStreams> {
    connection: C,
    open_bi: Pending<(C::Send, C::Recv)>,
    open_uni: Pending<C::Send>,
}

impl<C: RawStreams> Http3<C> {
    /// HTTP/3 over this connection.
    pub fn new(connection: C) -> Self {
        Self {
            opener: Opener::new(connection),
            accept_bi: None,
            accept_uni: None,
        }
    }
}

impl<C: RawStreams> Opener<C> {
    fn new(connection: C) -> Self {
        Self {
            connection,
            open_bi: None,
            open_uni: None,
        }
    }
}

impl<C: RawStreams> Clone for Opener<C> {
    fn clone(&self) -> Self {
        Self::new(self.connection.clone())
    }
}

fn poll<T, F>(
    pending: &mut Pending<T>,
    cx: &mut Context<'_>,
    start: impl FnOnce() -> F,
) -> Poll<Result<T, ConnectionErrorIncoming>>
where
    F: Future<Output = anyhow::Result<T>> + 'static,
{
    let future = pending.get_or_insert_with(|| Box::pin(start()));
    let outcome = ready!(future.as_mut().poll(cx));
    *pending = None;
    Poll::Ready(outcome.map_err(|error| {
        ConnectionErrorIncoming::Undefined(Arc::new(std::io::Error::other(format!("{error:#}"))))
    }))
}

fn on_stream(connection_error: ConnectionErrorIncoming) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error }
}

impl<C: RawStreams, B: Buf> quic::Connection<B> for Http3<C> {
    type RecvStream = RecvHalf<C>;
    type OpenStreams = Opener<C>;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        let connection = &self.opener.connection;
        poll(&mut self.accept_uni, cx, || {
            let connection = connection.clone();
            async move { connection.accept_uni().await }
        })
        .map_ok(RecvHalf::new)
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let connection = &self.opener.connection;
        poll(&mut self.accept_bi, cx, || {
            let connection = connection.clone();
            async move { connection.accept_bi().await }
        })
        .map_ok(Both::new)
    }

    fn opener(&self) -> Self::OpenStreams {
        self.opener.clone()
    }
}

impl<C: RawStreams, B: Buf> quic::OpenStreams<B> for Http3<C> {
    type BidiStream = Both<C, B>;
    type SendStream = SendHalf<C, B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        quic::OpenStreams::<B>::poll_open_bidi(&mut self.opener, cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        quic::OpenStreams::<B>::poll_open_send(&mut self.opener, cx)
    }

    fn close(&mut self, code: h3::error::Code, reason: &[u8]) {
        self.opener.connection.close(code.value(), reason);
    }
}

impl<C: RawStreams, B: Buf> quic::OpenStreams<B> for Opener<C> {
    type BidiStream = Both<C, B>;
    type SendStream = SendHalf<C, B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        let connection = &self.connection;
        poll(&mut self.open_bi, cx, || {
            let connection = connection.clone();
            async move { connection.open_bi().await }
        })
        .map_ok(Both::new)
        .map_err(on_stream)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        let connection = &self.connection;
        poll(&mut self.open_uni, cx, || {
            let connection = connection.clone();
            async move { connection.open_uni().await }
        })
        .map_ok(SendHalf::new)
        .map_err(on_stream)
    }

    fn close(&mut self, code: h3::error::Code, reason: &[u8]) {
        self.connection.close(code.value(), reason);
    }
}

/// What is sent.
pub struct SendHalf<C: RawStreams, B: Buf> {
    stream: C::Send,
    waiting: Option<WriteBuf<B>>,
}

/// What is received.
pub struct RecvHalf<C: RawStreams> {
    stream: C::Recv,
}

/// A bidirectional stream.
pub struct Both<C: RawStreams, B: Buf> {
    send: SendHalf<C, B>,
    recv: RecvHalf<C>,
}

impl<C: RawStreams, B: Buf> SendHalf<C, B> {
    fn new(stream: C::Send) -> Self {
        Self {
            stream,
            waiting: None,
        }
    }
}

impl<C: RawStreams> RecvHalf<C> {
    fn new(stream: C::Recv) -> Self {
        Self { stream }
    }
}

impl<C: RawStreams, B: Buf> Both<C, B> {
    fn new((send, recv): (C::Send, C::Recv)) -> Self {
        Self {
            send: SendHalf::new(send),
            recv: RecvHalf::new(recv),
        }
    }
}

fn stream_id(id: u64) -> StreamId {
    // Stream IDs are below 2^62 in every stack.
    StreamId::try_from(id).unwrap_or_else(|_| unreachable!("stream ID out of range"))
}

fn broken(error: std::io::Error) -> StreamErrorIncoming {
    StreamErrorIncoming::Unknown(Box::new(error))
}

impl<C: RawStreams, B: Buf> quic::SendStream<B> for SendHalf<C, B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while let Some(data) = &mut self.waiting {
            if !data.has_remaining() {
                self.waiting = None;
                break;
            }
            let write = Pin::new(&mut self.stream).poll_write(cx, data.chunk());
            let written = ready!(write).map_err(broken)?;
            data.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.waiting = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        Pin::new(&mut self.stream).poll_shutdown(cx).map_err(broken)
    }

    fn reset(&mut self, _code: u64) {}

    fn send_id(&self) -> StreamId {
        stream_id(C::send_id(&self.stream))
    }
}

impl<C: RawStreams> quic::RecvStream for RecvHalf<C> {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let mut space = vec![0; READ_BYTES];
        let mut buffer = ReadBuf::new(&mut space);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer)).map_err(broken)?;
        let len = buffer.filled().len();
        space.truncate(len);
        Poll::Ready(Ok((len > 0).then(|| Bytes::from(space))))
    }

    fn stop_sending(&mut self, _code: u64) {}

    fn recv_id(&self) -> StreamId {
        stream_id(C::recv_id(&self.stream))
    }
}

impl<C: RawStreams, B: Buf> quic::SendStream<B> for Both<C, B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, code: u64) {
        self.send.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl<C: RawStreams, B: Buf> quic::RecvStream for Both<C, B> {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.recv.poll_data(cx)
    }

    fn stop_sending(&mut self, code: u64) {
        self.recv.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}

impl<C: RawStreams, B: Buf> quic::BidiStream<B> for Both<C, B> {
    type SendStream = SendHalf<C, B>;
    type RecvStream = RecvHalf<C>;

    fn split(self) -> (Self::SendStream, Self::RecvStream) {
        (self.send, self.recv)
    }
}
