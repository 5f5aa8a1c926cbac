//! What goes in and out of an endpoint.

use std::net::SocketAddr;

use bytes::BytesMut;

use super::Incoming;
use crate::{
    observe::DropReason,
    tls::StartError,
    units::{Ecn, FourTuple},
    wire::Version,
};

/// Names a connection of one endpoint until it is drained; numbers are used again afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle(pub usize);

/// What a received datagram's envelope says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramMeta {
    /// Addresses.
    pub four_tuple: FourTuple,
    /// ECN codepoint of the IP header.
    pub ecn: Ecn,
}

/// Datagrams to send: the last `len` bytes of the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Addresses.
    pub four_tuple: FourTuple,
    /// ECN codepoint to set.
    pub ecn: Ecn,
    /// Bytes, all datagrams together.
    pub len: usize,
    /// Size of every datagram but the last, which may be smaller; `None` for a single one.
    pub segment_size: Option<usize>,
}

/// What to do after [`super::Endpoint::handle_datagram`].
#[derive(Debug)]
#[non_exhaustive]
pub enum DatagramEvent {
    /// Hand the bytes to this connection: `connection.handle_datagram(now, meta, bytes)`.
    Connection(ConnectionHandle, BytesMut),
    /// A client knocks: accept, refuse, retry or ignore it.
    Incoming(Incoming),
    /// Send the answer that was appended to `out`.
    Transmit(Transmit),
    /// Kept with the [`Incoming`] it belongs to. Nothing to do.
    Buffered,
    /// Nothing to do.
    Dropped(DropReason),
}

/// Why a connection could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The version is not among the endpoint's.
    #[error("QUIC version {0:?} is not enabled on this endpoint")]
    UnsupportedVersion(Version),
    /// Connection IDs of this length are used up; with length 0 a remote address can have one
    /// connection only.
    #[error("no connection ID free")]
    NoConnectionId,
    /// Port 0 or an unspecified address.
    #[error("cannot connect to {0}")]
    InvalidRemoteAddress(SocketAddr),
    /// TLS could not start, for instance because the server name is malformed.
    #[error(transparent)]
    Tls(#[from] StartError),
}

/// Why a connection could not be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// It waited too long, or belongs to another endpoint.
    #[error("the connection attempt is no longer there")]
    Expired,
    /// `max_connections` is reached.
    #[error("too many connections")]
    TooManyConnections,
    /// No connection ID free.
    #[error("no connection ID free")]
    NoConnectionId,
    /// There is no server configuration.
    #[error("this endpoint has no server configuration")]
    NotListening,
}
