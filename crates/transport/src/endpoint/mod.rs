//! One per socket: which connection a datagram belongs to, and every answer given without one.
//!
//! Purpose: demultiplex datagrams by destination connection ID, create connections, and answer
//! what needs no connection (Version Negotiation, Retry, refusal, stateless reset).
//! Owns: the routing tables, issued connection IDs and their reset tokens, connection attempts
//! not yet accepted ([`Incoming`]), address-validation tokens ([`TokenSealer`]), the rate limit
//! on stateless answers.
//! Does not own: anything inside a connection; coalesced packets (only the first header of a
//! datagram is read here); sockets and timers.
//! Called by: the driver of a socket: [`Endpoint::handle_datagram`] for what arrives,
//! [`Endpoint::handle_connection_event`] for what connections ask.
//! Spec: RFC 9000 s5, s6, s7.2, s8.1, s10.3, s14.1; RFC 8999; RFC 9368 s5, s6.
//! To add a variant: a new kind of address-validation token is a variant in `tokens.rs`; a new
//! layout of connection IDs is a change in `cids.rs` alone.

mod accept;
mod cids;
mod demux;
mod incoming;
mod initial;
mod limiter;
mod replay;
mod routes;
mod stateless;
mod store;
mod table;
mod tokens;
mod types;
mod used_tokens;

#[cfg(test)]
mod tests;

pub use self::{
    cids::shard_of,
    demux::Endpoint,
    incoming::Incoming,
    store::{MemoryTokenStore, TokenStore},
    tokens::{TokenError, TokenFault, TokenSealer, TokenUse, ValidToken},
    types::{AcceptError, ConnectError, ConnectionHandle, DatagramEvent, DatagramMeta, Transmit},
    used_tokens::UsedTokens,
};
pub use crate::connection::{ConnectionEvent, EndpointEvent};
