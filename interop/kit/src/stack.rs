//! What the programs need of a QUIC stack.

use std::{fmt, future::Future, pin::Pin};

use anyhow::Result;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

/// The stack cannot do what the case asks for.
#[derive(Debug)]
pub struct Unsupported(pub String);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unsupported: {}", self.0)
    }
}

impl std::error::Error for Unsupported {}

/// An [`Unsupported`] as the error of anything.
pub fn unsupported<T>(reason: impl Into<String>) -> Result<T> {
    Err(Unsupported(reason.into()).into())
}

/// Streams as bytes.
pub trait RawStreams: Clone + 'static {
    /// Shutting it down ends the stream.
    type Send: AsyncWrite + Unpin + 'static;
    type Recv: AsyncRead + Unpin + 'static;

    fn open_bi(&self) -> impl Future<Output = Result<(Self::Send, Self::Recv)>>;
    fn accept_bi(&self) -> impl Future<Output = Result<(Self::Send, Self::Recv)>>;
    fn open_uni(&self) -> impl Future<Output = Result<Self::Send>>;
    fn accept_uni(&self) -> impl Future<Output = Result<Self::Recv>>;
    fn send_id(send: &Self::Send) -> u64;
    fn recv_id(recv: &Self::Recv) -> u64;
    fn close(&self, code: u64, reason: &[u8]);
}

/// A connection.
pub trait Connection: RawStreams {
    /// HTTP/3 over it: the stack's own adapter to the `h3` crate, or [`Http3`](crate::Http3).
    type Http3: h3::quic::Connection<Bytes, OpenStreams: Clone + 'static, BidiStream: 'static>
        + 'static;

    fn http3(&self) -> Self::Http3;

    /// Starts a key update; `Ok(false)`: not now, ask again.
    fn update_keys(&self) -> Result<bool>;

    /// Counts what the stack knows: resumed, early data and so on. Called before it is closed.
    fn report(&self);
}

/// A connection that was made, perhaps before its handshake is done.
pub struct Connected<C> {
    pub connection: C,
    /// Requests now go as early data; whether the server took it.
    pub early: Option<Pin<Box<dyn Future<Output = bool>>>>,
}

/// A client.
pub trait Client {
    type Connection: Connection;

    /// `early`: use early data if there is a ticket.
    fn connect(&self, early: bool) -> impl Future<Output = Result<Connected<Self::Connection>>>;

    /// Moves to another local port.
    fn migrate(&self) -> Result<()>;

    /// Waits until the peer was told of the end, for a short time.
    fn finish(self) -> impl Future<Output = ()>;
}

/// A server.
pub trait Server {
    type Connection: Connection;

    /// The next client; `None` at the end.
    fn accept(&self) -> impl Future<Output = Option<crate::Accepted<Self::Connection>>>;

    /// Closes what is open.
    fn finish(self) -> impl Future<Output = ()>;
}
