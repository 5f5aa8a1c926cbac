//! TLS 1.3 for QUIC: sessions, packet protection keys, key updates, ClientHello and Retry checks.
//!
//! Purpose: everything between CRYPTO bytes and keys, behind two small factory traits so that
//! another TLS library, or none (fuzzing), can stand in for rustls.
//! Owns: [`Session`] and its factories, the rustls implementation ([`RustlsClient`],
//! [`RustlsServer`]) with its bounded ticket stores, [`Keys`] of every [`Level`], [`OneRttKeys`]
//! (key phases, update rules, AEAD limits, per-path nonces), the [`client_hello`] reader, the
//! Retry integrity tag.
//! Does not own: the CRYPTO stream (`connection/`), packet layout (`wire/`), what transport
//! parameters mean, address-validation tokens (`endpoint/`).
//! Called by: `connection/` and `endpoint/`.
//! Spec: RFC 9001, RFC 9369 (v2), RFC 9368 s2 (the client that is moved to v2), RFC 10069 s2.4
//! (nonce), RFC 8446.
//! To add a variant: implement [`ClientSessionFactory`] and [`ServerSessionFactory`].

mod aead;
mod alert;
mod client;
pub mod client_hello;
mod derive;
mod one_rtt;
mod retry;
mod rustls_session;
mod secrets;
mod server;
mod session;
mod tickets;

#[cfg(test)]
mod tests;

use std::fmt;

pub use rustls::quic::{HeaderProtectionKey, PacketKey};

pub use aead::{TAG_LEN, open_in_place, seal_in_place};
pub use client::RustlsClient;
pub use derive::initial_keys;
pub use one_rtt::{OneRttKeys, OpenError, Opened, UpdateBlocked};
pub use retry::retry_integrity_tag;
pub use server::RustlsServer;
pub use session::{
    ClientSessionFactory, ExportError, KeyChange, NextKeys, ServerSessionFactory, Session,
    StartError,
};
pub use tickets::{ClientTicketStore, ServerTicketStore};

/// An encryption level. RFC 9001 s2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Keys anyone can derive from the first Destination Connection ID.
    Initial,
    /// Early data of a resumed session, client to server only.
    ZeroRtt,
    /// Keys from the handshake traffic secrets.
    Handshake,
    /// Keys from the application traffic secrets.
    OneRtt,
}

/// What protects packets in one direction at one level.
pub struct DirectionalKeys {
    /// Masks the first byte and the packet number. RFC 9001 s5.4.
    pub header: Box<dyn HeaderProtectionKey>,
    /// Seals or opens payloads. RFC 9001 s5.3.
    pub packet: Box<dyn PacketKey>,
}

impl fmt::Debug for DirectionalKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectionalKeys").finish_non_exhaustive()
    }
}

impl From<rustls::quic::DirectionalKeys> for DirectionalKeys {
    fn from(keys: rustls::quic::DirectionalKeys) -> Self {
        Self {
            header: keys.header,
            packet: keys.packet,
        }
    }
}

/// Both directions of one level.
#[derive(Debug)]
pub struct Keys {
    /// Protects what we send.
    pub local: DirectionalKeys,
    /// Removes protection from what we receive.
    pub remote: DirectionalKeys,
}

impl From<rustls::quic::Keys> for Keys {
    fn from(keys: rustls::quic::Keys) -> Self {
        Self {
            local: keys.local.into(),
            remote: keys.remote.into(),
        }
    }
}
