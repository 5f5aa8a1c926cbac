//! What a connection is born with.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    config::{EndpointConfig, TransportConfig},
    endpoint::TokenSealer,
    rng::Rng,
    time::Instant,
    tls::{ClientSessionFactory, ServerSessionFactory},
    units::{FourTuple, Side},
    wire::{ConnectionId, ResetToken, Version},
};

/// Where the TLS session comes from.
#[derive(Clone, Debug)]
pub enum SessionSource {
    /// A client starts it at once.
    Client {
        /// Makes sessions; asked again after Version Negotiation.
        factory: Arc<dyn ClientSessionFactory>,
        /// Name to authenticate the server by (SNI).
        server_name: String,
    },
    /// A server starts it once the ClientHello shows which versions the client speaks.
    Server {
        /// Makes sessions.
        factory: Arc<dyn ServerSessionFactory>,
    },
}

impl SessionSource {
    /// Which end this is.
    pub fn side(&self) -> Side {
        match self {
            Self::Client { .. } => Side::Client,
            Self::Server { .. } => Side::Server,
        }
    }
}

/// Everything [`Connection::new`](super::Connection::new) needs; filled in by the endpoint.
#[derive(Debug)]
pub struct ConnectionParams {
    /// Now.
    pub now: Instant,
    /// The version of the first flight.
    pub version: Version,
    /// The client's first Destination Connection ID (after a Retry: the Retry's Source Connection
    /// ID); Initial keys derive from it.
    pub initial_dcid: ConnectionId,
    /// The very first Destination Connection ID, before any Retry. RFC 9000 s7.3.
    pub original_dcid: ConnectionId,
    /// Our connection ID in the handshake, sequence 0.
    pub local_cid: ConnectionId,
    /// The reset token of `local_cid` (servers announce it).
    pub local_cid_token: Option<ResetToken>,
    /// A second ID and its reset token for preferred_address, sequence 1 (servers).
    pub preferred_cid: Option<(ConnectionId, ResetToken)>,
    /// The peer's connection ID as known so far.
    pub remote_cid: ConnectionId,
    /// Source Connection ID of the Retry this server sent, if any.
    pub retry_scid: Option<ConnectionId>,
    /// The addresses.
    pub four_tuple: FourTuple,
    /// Whether a token already proved the client's address (servers).
    pub address_validated: bool,
    /// Token for the first Initial (clients).
    pub token: Bytes,
    /// Behaviour.
    pub transport: Arc<TransportConfig>,
    /// Behaviour of the endpoint.
    pub endpoint: Arc<EndpointConfig>,
    /// TLS.
    pub session: SessionSource,
    /// Randomness of the connection's own.
    pub rng: Rng,
    /// Makes NEW_TOKEN tokens, and how many to send (servers).
    pub validation_tokens: Option<(Arc<TokenSealer>, u8)>,
}
