//! What the connection asks of TLS.

use std::fmt;

use rustls::pki_types::CertificateDer;

use super::{DirectionalKeys, Keys, Level, PacketKey};
use crate::{
    error::TransportError,
    units::Side,
    wire::{ConnectionId, Version},
};

/// One end of one TLS handshake. Feeds on CRYPTO bytes, yields CRYPTO bytes and keys.
pub trait Session: fmt::Debug + Send {
    /// Takes CRYPTO bytes that arrived, in order and without gaps, at `level`. A connection hands
    /// over whole TLS messages only, so that a session need not be good at putting pieces together.
    ///
    /// # Errors
    /// CRYPTO_ERROR with the TLS alert; PROTOCOL_VIOLATION for bytes at a level that TLS is not
    /// reading (RFC 9001 s4.1.3). The session is of no use afterwards.
    fn read(&mut self, level: Level, data: &[u8]) -> Result<(), TransportError>;

    /// Appends CRYPTO bytes of the current write level to `out` and returns the keys that become
    /// available after those bytes. Call again until it appends nothing and returns `None`.
    fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange>;

    /// Keys of early data, once known: on a client from the start of a session that resumes, on a
    /// server after a ClientHello whose early data it accepts.
    ///
    /// They belong to the version the session was started with: an upgrade by
    /// [`use_version`](Self::use_version) does not touch early data.
    fn zero_rtt_keys(&self) -> Option<DirectionalKeys>;

    /// Whether early data was taken; `None` while that is open, or when none was offered.
    fn early_data_accepted(&self) -> Option<bool>;

    /// Whether the TLS handshake is still going on. Once false, the handshake is *complete*
    /// (RFC 9001 s4.1.1).
    fn is_handshaking(&self) -> bool;

    /// The application protocol, once negotiated.
    fn alpn(&self) -> Option<&[u8]>;

    /// The name the client asked for.
    fn server_name(&self) -> Option<&str>;

    /// The peer's certificates, end entity first, if it showed any.
    fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>>;

    /// Whether the handshake resumed an earlier session; meaningful once complete.
    fn resumed(&self) -> bool;

    /// The peer's transport parameters as it sent them.
    ///
    /// On a server known after the ClientHello; on a client when the handshake is complete, so
    /// that nothing unauthenticated is acted upon.
    fn peer_transport_parameters(&self) -> Option<&[u8]>;

    /// The server's transport parameters of the resumed session, when this client may send early
    /// data. RFC 9000 s7.4.1.
    fn remembered_parameters(&self) -> Option<Vec<u8>>;

    /// The application protocol of the resumed session, which this client's early data speaks.
    fn early_data_alpn(&self) -> Option<Vec<u8>> {
        None
    }

    /// Fills `out` with keying material of this connection (RFC 5705, RFC 8446 s7.5).
    ///
    /// # Errors
    /// Before the handshake is complete, or for an impossible length.
    fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: Option<&[u8]>,
    ) -> Result<(), ExportError>;

    /// The connection goes on in another version than the session was started with: Handshake and
    /// 1-RTT keys that are returned from now on are derived with that version's labels
    /// (RFC 9369 s3.3.2). Call before the bytes that complete the Initial exchange are read.
    fn use_version(&mut self, version: Version);
}

/// Keys that a [`Session`] hands over.
#[derive(Debug)]
pub enum KeyChange {
    /// Bytes written from now on belong to the Handshake level.
    Handshake(Keys),
    /// Bytes written from now on belong to the 1-RTT level.
    OneRtt {
        /// Keys of key phase 0.
        keys: Keys,
        /// Source of the keys of every later phase.
        secrets: Box<dyn NextKeys>,
    },
}

/// Yields the packet keys of one key phase after the other, from phase 1. RFC 9001 s6.1.
pub trait NextKeys: Send {
    /// The next phase's keys: (local, remote). Header protection keys never change. `None` when
    /// the derivation fails, which ends the connection.
    fn next(&mut self) -> Option<(Box<dyn PacketKey>, Box<dyn PacketKey>)>;
}

impl fmt::Debug for dyn NextKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NextKeys")
    }
}

/// Starts client sessions; shared by all connections of one configuration.
pub trait ClientSessionFactory: fmt::Debug + Send + Sync {
    /// Starts a session with the server called `server_name` (a DNS name or an IP address),
    /// carrying the encoded transport parameters `params`.
    ///
    /// # Errors
    /// A name that is none, or a configuration that TLS does not take.
    fn start(
        &self,
        version: Version,
        server_name: &str,
        params: Vec<u8>,
    ) -> Result<Box<dyn Session>, StartError>;

    /// The version that the newest session with `server_name` ended up in, among those in
    /// `versions`, if it can be resumed. A session, and its early data, can be resumed by a
    /// connection that starts in that version only. RFC 9369 s5.
    fn resumable_version(&self, server_name: &str, versions: &[Version]) -> Option<Version> {
        let _ = (server_name, versions);
        None
    }

    /// Keys of the Initial level. `dcid` is the Destination Connection ID of the client's first
    /// Initial packet (after a Retry: the Retry's Source Connection ID). RFC 9001 s5.2.
    fn initial_keys(&self, version: Version, dcid: &ConnectionId, side: Side) -> Keys {
        super::initial_keys(version, dcid, side)
    }
}

/// Starts server sessions; shared by all connections of one configuration.
pub trait ServerSessionFactory: fmt::Debug + Send + Sync {
    /// Starts a session that carries the encoded transport parameters `params`.
    ///
    /// With compatible version negotiation: start with the version of the client's first flight
    /// (early data is protected with it), then call [`Session::use_version`].
    ///
    /// # Errors
    /// A configuration that TLS does not take.
    fn start(&self, version: Version, params: Vec<u8>) -> Result<Box<dyn Session>, StartError>;

    /// Keys of the Initial level; see [`ClientSessionFactory::initial_keys`].
    fn initial_keys(&self, version: Version, dcid: &ConnectionId, side: Side) -> Keys {
        super::initial_keys(version, dcid, side)
    }
}

/// Why a session could not start. A local mistake, never the peer's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Neither a DNS name nor an IP address.
    #[error("`{0}` is not a valid server name")]
    InvalidServerName(String),
    /// TLS 1.3 is off, no usable cipher suite, no ALPN protocol.
    #[error("TLS configuration: {0}")]
    Config(String),
    /// A version whose key derivation is unknown.
    #[error("QUIC version {0:?} is not supported")]
    UnsupportedVersion(Version),
}

/// Keying material could not be exported: the handshake is not complete or the length is
/// impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no keying material: handshake not complete or impossible length")]
pub struct ExportError;
