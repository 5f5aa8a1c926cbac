//! A QUIC connection as `h3` wants to see it.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Buf;
use h3::{
    error::Code,
    quic::{self, ConnectionErrorIncoming, StreamErrorIncoming},
};
use http::HeaderMap;
use parking_lot::Mutex;
use tautline::{ConnectionError, Dir, Priority, Side, StreamId};

use crate::{
    error, priority,
    stream::{BidiStream, RecvStream, SendStream},
    unidirectional::Arriving,
    watch::Violation,
};

/// Streams whose PRIORITY_UPDATE is remembered; about 48 bytes each. The oldest are forgotten.
const MAX_REMEMBERED_UPDATES: usize = 256;

/// A [`tautline::Connection`] that carries HTTP/3: hand it to
/// [`server_builder`](crate::server_builder) or [`client_builder`](crate::client_builder).
#[derive(Debug)]
pub struct Connection {
    opener: OpenStreams,
    accept_bi: Waiting<(tautline::SendStream, tautline::RecvStream)>,
    accept_uni: Waiting<tautline::RecvStream>,
    arriving: Arriving,
}

/// Opens streams; cheap to clone.
#[derive(Debug)]
pub struct OpenStreams {
    priorities: Priorities,
    open_bi: Waiting<(tautline::SendStream, tautline::RecvStream)>,
    open_uni: Waiting<tautline::SendStream>,
}

/// Sets the place of responses among each other. RFC 9218.
///
/// Cheap to clone; clones name the same connection. Take it with [`Connection::priorities`]
/// before the connection is given to `h3`.
#[derive(Clone, Debug)]
pub struct Priorities {
    quic: tautline::Connection,
    /// What PRIORITY_UPDATE frames asked for; they beat header fields (RFC 9218 s7).
    updates: Arc<Mutex<BTreeMap<StreamId, Priority>>>,
}

impl Connection {
    /// HTTP/3 on this connection; its ALPN should be [`ALPN`](crate::ALPN).
    pub fn new(quic: tautline::Connection) -> Self {
        let priorities = Priorities {
            quic,
            updates: Arc::default(),
        };
        Self {
            opener: OpenStreams::new(priorities),
            accept_bi: Waiting::default(),
            accept_uni: Waiting::default(),
            arriving: Arriving::default(),
        }
    }

    /// A handle to set the priorities of responses.
    pub fn priorities(&self) -> Priorities {
        self.opener.priorities.clone()
    }

    /// The connection below.
    pub fn quic(&self) -> &tautline::Connection {
        &self.opener.priorities.quic
    }
}

impl OpenStreams {
    fn new(priorities: Priorities) -> Self {
        Self {
            priorities,
            open_bi: Waiting::default(),
            open_uni: Waiting::default(),
        }
    }

    fn close(&self, code: Code, reason: &[u8]) {
        self.priorities.quic.close(code.value(), reason);
    }
}

impl Clone for OpenStreams {
    fn clone(&self) -> Self {
        Self::new(self.priorities.clone())
    }
}

impl Priorities {
    /// Gives the response on `stream` the place that the request's `priority` field asks for,
    /// unless a PRIORITY_UPDATE said otherwise; returns the place.
    pub fn apply(&self, stream: quic::StreamId, headers: &HeaderMap) -> Priority {
        let stream = StreamId(stream.into_inner());
        let updated = self.updates.lock().get(&stream).copied();
        let wanted = updated.unwrap_or_else(|| priority::of_headers(headers));
        self.quic.set_stream_priority(stream, wanted);
        wanted
    }

    /// Gives the response (or request) on `stream` a place of your choice.
    pub fn set(&self, stream: quic::StreamId, priority: Priority) {
        self.quic
            .set_stream_priority(StreamId(stream.into_inner()), priority);
    }

    pub(crate) fn quic(&self) -> &tautline::Connection {
        &self.quic
    }

    /// Closes the connection for what the peer did; returns why it is over.
    pub(crate) fn refuse(&self, violation: Violation) -> ConnectionError {
        self.quic
            .close(violation.code.value(), violation.reason.as_bytes());
        let reason = self.quic.close_reason();
        reason.unwrap_or(ConnectionError::LocallyClosed)
    }

    /// A PRIORITY_UPDATE arrived. RFC 9218 s7.2.
    pub(crate) fn update(&self, stream: u64, value: &[u8]) {
        let stream = StreamId(stream);
        if self.quic.side() == Side::Client {
            let code = Code::H3_FRAME_UNEXPECTED.value();
            return self.quic.close(code, b"PRIORITY_UPDATE from a server");
        }
        if stream.dir() != Dir::Bi || stream.initiator() != Side::Client {
            let code = Code::H3_ID_ERROR.value();
            return self
                .quic
                .close(code, b"PRIORITY_UPDATE of no request stream");
        }
        let wanted = priority::parse(value);
        self.quic.set_stream_priority(stream, wanted);
        let mut updates = self.updates.lock();
        updates.insert(stream, wanted);
        if updates.len() > MAX_REMEMBERED_UPDATES {
            updates.pop_first();
        }
    }
}

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        let priorities = &self.opener.priorities;
        loop {
            match self.arriving.poll(cx, priorities) {
                Poll::Ready(Ok(stream)) => return Poll::Ready(Ok(stream)),
                Poll::Ready(Err(violation)) => {
                    let lost = priorities.refuse(violation);
                    return Poll::Ready(Err(error::connection(lost)));
                }
                Poll::Pending => {}
            }
            let accepted = self.accept_uni.poll(cx, || {
                let quic = priorities.quic.clone();
                async move { quic.accept_uni().await }
            });
            self.arriving
                .push(ready!(accepted).map_err(error::connection)?);
        }
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream<B>, ConnectionErrorIncoming>> {
        let priorities = &self.opener.priorities;
        let accepted = self.accept_bi.poll(cx, || {
            let quic = priorities.quic.clone();
            async move { quic.accept_bi().await }
        });
        let streams = ready!(accepted).map_err(error::connection)?;
        Poll::Ready(Ok(BidiStream::new(streams, priorities.clone())))
    }

    fn opener(&self) -> OpenStreams {
        self.opener.clone()
    }
}

impl<B: Buf> quic::OpenStreams<B> for Connection {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream<B>, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
        self.opener.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        OpenStreams::close(&self.opener, code, reason);
    }
}

impl<B: Buf> quic::OpenStreams<B> for OpenStreams {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream<B>, StreamErrorIncoming>> {
        let opened = self.open_bi.poll(cx, || {
            let quic = self.priorities.quic.clone();
            async move { quic.open_bi().await }
        });
        let streams = ready!(opened).map_err(error::on_stream)?;
        Poll::Ready(Ok(BidiStream::new(streams, self.priorities.clone())))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
        let opened = self.open_uni.poll(cx, || {
            let quic = self.priorities.quic.clone();
            async move { quic.open_uni().await }
        });
        Poll::Ready(
            ready!(opened)
                .map(SendStream::unidirectional)
                .map_err(error::on_stream),
        )
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        OpenStreams::close(self, code, reason);
    }
}

type BoxedAttempt<T> = Pin<Box<dyn Future<Output = Result<T, ConnectionError>> + Send + Sync>>;

/// A cancel-safe future kept between polls; made when first needed.
pub(crate) struct Waiting<T>(Option<BoxedAttempt<T>>);

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Waiting<T> {
    pub(crate) fn poll<F>(
        &mut self,
        cx: &mut Context<'_>,
        start: impl FnOnce() -> F,
    ) -> Poll<Result<T, ConnectionError>>
    where
        F: Future<Output = Result<T, ConnectionError>> + Send + Sync + 'static,
    {
        let attempt = self.0.get_or_insert_with(|| Box::pin(start()));
        let outcome = ready!(attempt.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(outcome)
    }
}

impl<T> fmt::Debug for Waiting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "waiting" } else { "idle" })
    }
}
