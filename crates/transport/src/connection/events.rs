//! What the application and the endpoint hear from a connection.

use std::net::SocketAddr;

use crate::{
    error::ConnectionError,
    message::MessageEvent,
    path::{IssuedConnectionId, PathEvent},
    stream::StreamEvent,
    units::PathId,
    wire::ResetToken,
};

/// For the application.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// ALPN, server name and the peer's transport parameters can be asked for.
    HandshakeDataReady,
    /// The handshake is complete; the peer is authenticated.
    Connected,
    /// The peer finished its handshake too.
    HandshakeConfirmed,
    /// The server refused our 0-RTT data; all of it is sent again automatically.
    ZeroRttRejected,
    /// A stream needs attention.
    Stream(StreamEvent),
    /// A datagram can be received.
    DatagramReceived,
    /// The datagram send queue has room again.
    DatagramsUnblocked,
    /// Something about messages.
    Message(MessageEvent),
    /// A path changed.
    Path(PathEvent),
    /// The connection is over. Comes once.
    Lost(ConnectionError),
}

/// For the endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointEvent {
    /// Make `count` connection IDs for `path`, sequence numbers from `first_sequence` on, and
    /// answer by [`ConnectionEvent::ConnectionIds`].
    NeedConnectionIds {
        /// For which path.
        path: PathId,
        /// The first sequence number.
        first_sequence: u64,
        /// How many.
        count: u64,
    },
    /// The peer retired one of our connection IDs.
    RetireConnectionId {
        /// Of which path.
        path: PathId,
        /// Which.
        sequence: u64,
    },
    /// From now on, this token from this address means the peer lost our connection.
    ResetToken {
        /// Of the connection ID that is used on which path.
        path: PathId,
        /// Where resets come from.
        remote: SocketAddr,
        /// The token.
        token: ResetToken,
    },
    /// Nothing is left of this path: its reset tokens mean nothing any more.
    PathGone(PathId),
    /// The peer may send from this address too. Where our connection IDs are empty, the address
    /// alone tells whom its packets are for.
    PeerAddress(SocketAddr),
    /// The handshake finished: the connection no longer counts as incoming. An attempt that fails
    /// counts until it is [drained](Self::Drained), for it takes up room until then.
    HandshakeOver,
    /// Forget the connection: nothing more will be sent or understood.
    Drained,
}

/// From the endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// The answer to [`EndpointEvent::NeedConnectionIds`].
    ConnectionIds {
        /// For which path.
        path: PathId,
        /// The IDs, sequence numbers ascending without gaps.
        ids: Vec<IssuedConnectionId>,
    },
}
