//! Answers over HTTPS and TCP, so that browsers get the files and learn of HTTP/3 (Alt-Svc).
//!
//! Spec: RFC 9112; RFC 7838.

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body::Frame;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::server::Acceptor;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{JoinSet, spawn_blocking},
    time::{Sleep, sleep, timeout},
};
use tokio_rustls::{LazyConfigAcceptor, server::TlsStream};

use super::{
    Server,
    files::Pieces,
    reply::{self, Body},
};
use crate::{
    failure::{Failure, Outcome},
    identity::Identity,
};

/// A client whose handshake failed gets this long to read why.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A bound TCP port.
pub(super) struct Listener {
    tcp: TcpListener,
    tls: Arc<rustls::ServerConfig>,
}

impl Listener {
    pub(super) async fn bind(addr: SocketAddr, identity: &Identity) -> Outcome<Self> {
        let tcp = TcpListener::bind(addr).await.map_err(|error| {
            Failure::new(format!(
                "cannot bind TCP {addr}: {error}; --no-tcp does without"
            ))
        })?;
        let mut config = identity
            .server_tls()
            .alpn(["http/1.1", "http/1.0"])
            .into_rustls()?;
        // Early data is QUIC's business here.
        config.max_early_data_size = 0;
        Ok(Self {
            tcp,
            tls: Arc::new(config),
        })
    }

    /// Takes clients in until it is time to go, then waits for those it has.
    pub(super) async fn serve(self, server: Arc<Server>, max_connections: usize) {
        /// The system is out of something; trying at once would only burn time.
        const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);
        let room = Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS)));
        let mut clients = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.tcp.accept() => accepted,
                Some(_) = clients.join_next() => continue,
                () = server.stopping() => break,
            };
            let Ok((stream, remote)) = accepted else {
                sleep(PAUSE_AFTER_ERROR).await;
                continue;
            };
            // No room: dropping it closes it.
            let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
                continue;
            };
            let tls = self.tls.clone();
            clients.spawn(one_client(Arc::clone(&server), tls, stream, remote, permit));
        }
        drop(self.tcp);
        while clients.join_next().await.is_some() {}
    }
}

async fn one_client(
    server: Arc<Server>,
    tls: Arc<rustls::ServerConfig>,
    stream: TcpStream,
    remote: SocketAddr,
    _permit: OwnedSemaphorePermit,
) {
    // Best effort: it only saves some milliseconds.
    let _ = stream.set_nodelay(true);
    let stream = Impatient {
        stream,
        patience: server.patience,
        waiting: None,
    };
    let Ok(Some(stream)) = timeout(server.patience, shake_hands(stream, tls)).await else {
        return;
    };
    let service = service_fn(|request| answer(Arc::clone(&server), remote, request));
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(server.patience)
            .serve_connection(TokioIo::new(stream), service)
    );
    tokio::select! {
        // How a client ends its connection is its own business.
        _ = connection.as_mut() => return,
        () = server.stopping() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// The TLS handshake. A client that is turned away is told by an alert.
async fn shake_hands(
    stream: Impatient,
    tls: Arc<rustls::ServerConfig>,
) -> Option<TlsStream<Impatient>> {
    // Only this way are alerts sent that answer a ClientHello.
    let hello = LazyConfigAcceptor::new(Acceptor::default(), stream);
    let accepted = hello.await.ok()?.into_stream(tls).into_fallible().await;
    match accepted {
        Ok(stream) => Some(stream),
        Err((_, mut stream)) => {
            // What the client has sent since must not turn the alert into a reset.
            let _ = stream.shutdown().await;
            let mut nowhere = tokio::io::sink();
            let _ = timeout(LAST_WORDS, tokio::io::copy(&mut stream, &mut nowhere)).await;
            None
        }
    }
}

async fn answer(
    server: Arc<Server>,
    remote: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<ReplyBody>, Infallible> {
    let site = server.site.clone();
    let (parts, _) = request.into_parts();
    let what = format!("{} {}", parts.method, parts.uri.path());
    let answered = spawn_blocking(move || {
        reply::answer(&site, &parts.method, parts.uri.path(), &parts.headers)
    });
    let reply = answered
        .await
        .unwrap_or_else(|_| reply::error_page(http::StatusCode::INTERNAL_SERVER_ERROR));
    let mut response = reply.head.map(|()| ReplyBody::new(reply.body));
    if let Some(alt_svc) = &server.alt_svc {
        response
            .headers_mut()
            .insert(header::ALT_SVC, alt_svc.clone());
    }
    server.log(remote, "h1", &what, response.status().as_str());
    Ok(response)
}

/// A body as hyper takes it.
enum ReplyBody {
    Empty,
    Bytes(Bytes),
    Reading { left: u64, next: Reading },
}

type Reading = Pin<Box<dyn Future<Output = io::Result<(Pieces, Option<Bytes>)>> + Send>>;

impl ReplyBody {
    fn new(body: Body) -> Self {
        match body {
            Body::Empty => Self::Empty,
            Body::Bytes(bytes) => Self::Bytes(bytes),
            Body::File(pieces) => Self::Reading {
                left: pieces.left(),
                next: Box::pin(pieces.read()),
            },
        }
    }
}

impl http_body::Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let data = match this {
            Self::Empty => return Poll::Ready(None),
            Self::Bytes(bytes) => {
                let bytes = std::mem::take(bytes);
                *this = Self::Empty;
                bytes
            }
            Self::Reading { next, .. } => match ready!(next.as_mut().poll(cx)) {
                Ok((pieces, Some(piece))) => {
                    let left = pieces.left();
                    *this = Self::Reading {
                        left,
                        next: Box::pin(pieces.read()),
                    };
                    piece
                }
                outcome => {
                    *this = Self::Empty;
                    return Poll::Ready(outcome.err().map(Err));
                }
            },
        };
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Empty)
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(match self {
            Self::Empty => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Reading { left, .. } => *left,
        })
    }
}

/// A TCP stream that fails when the client takes nothing for too long.
struct Impatient {
    stream: TcpStream,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    fn limit<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.waiting = None;
            return poll;
        }
        let patience = self.patience;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(sleep(patience)));
        waiting
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // hyper times reading.
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, data);
        self.limit(cx, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(cx);
        self.limit(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.limit(cx, poll)
    }
}
