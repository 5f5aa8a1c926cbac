//! A [`Session`] of rustls, either side.

use std::{fmt, sync::Arc};

use rustls::{HandshakeKind, pki_types::CertificateDer, quic};

use super::{
    DirectionalKeys, ExportError, KeyChange, Keys, Level, Session,
    alert::transport_error,
    derive::{DerivedNextKeys, Deriver, RustlsNextKeys},
    secrets::{SecretCapture, SecretPair},
    tickets::{ClientScope, ServerScope},
};
use crate::{error::TransportError, units::Side, wire::Version};

/// What only one side has.
pub(super) enum SideState {
    Client {
        server_name: String,
        tickets: Option<Arc<ClientScope>>,
        /// The server's parameters of the resumed session; `Some` exactly when early data is
        /// offered.
        remembered: Option<Vec<u8>>,
    },
    Server {
        tickets: Arc<ServerScope>,
    },
}

/// One handshake.
pub(super) struct RustlsSession {
    connection: quic::Connection,
    secrets: Arc<SecretCapture>,
    /// The version rustls derives keys for.
    started: Version,
    /// The version the connection uses.
    used: Version,
    side: SideState,
    /// Keys were due that we could not derive; told at the next `read`.
    broken: bool,
}

impl RustlsSession {
    pub(super) fn client(
        connection: quic::ClientConnection,
        secrets: Arc<SecretCapture>,
        version: Version,
        server_name: String,
        tickets: Option<Arc<ClientScope>>,
    ) -> Self {
        // rustls shows remembered parameters in the place of the peer's until it has those.
        let remembered = connection
            .zero_rtt_keys()
            .and_then(|_| connection.quic_transport_parameters())
            .map(<[u8]>::to_vec);
        let side = SideState::Client {
            server_name,
            tickets,
            remembered,
        };
        Self::new(connection.into(), secrets, version, side)
    }

    pub(super) fn server(
        connection: quic::ServerConnection,
        secrets: Arc<SecretCapture>,
        version: Version,
        tickets: Arc<ServerScope>,
    ) -> Self {
        Self::new(
            connection.into(),
            secrets,
            version,
            SideState::Server { tickets },
        )
    }

    fn new(
        connection: quic::Connection,
        secrets: Arc<SecretCapture>,
        version: Version,
        side: SideState,
    ) -> Self {
        Self {
            connection,
            secrets,
            started: version,
            used: version,
            side,
            broken: false,
        }
    }

    fn side(&self) -> Side {
        match self.side {
            SideState::Client { .. } => Side::Client,
            SideState::Server { .. } => Side::Server,
        }
    }

    /// The level whose CRYPTO bytes TLS waits for.
    fn read_level(&self) -> Level {
        if !self.connection.is_handshaking() {
            Level::OneRtt
        } else if self.secrets.handshake_known() {
            Level::Handshake
        } else {
            Level::Initial
        }
    }

    fn deriver(&self) -> Option<Deriver> {
        Deriver::new(
            self.connection.negotiated_cipher_suite()?.tls13()?,
            self.used,
        )
    }

    /// Keys in `used`, from secrets that rustls logged.
    fn upgrade(&self, change: &quic::KeyChange) -> Option<KeyChange> {
        let deriver = self.deriver()?;
        let secrets = match change {
            quic::KeyChange::Handshake { .. } => self.secrets.take_handshake(),
            quic::KeyChange::OneRtt { .. } => self.secrets.take_application(),
        };
        let SecretPair {
            client: Some(client),
            server: Some(server),
        } = secrets
        else {
            return None;
        };
        let (local, remote) = match self.side() {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        let keys = deriver.keys(&local, &remote)?;
        Some(match change {
            quic::KeyChange::Handshake { .. } => KeyChange::Handshake(keys),
            quic::KeyChange::OneRtt { .. } => KeyChange::OneRtt {
                keys,
                secrets: Box::new(DerivedNextKeys::new(deriver, local, remote)),
            },
        })
    }
}

/// The keys as rustls made them.
fn convert(change: quic::KeyChange) -> KeyChange {
    match change {
        quic::KeyChange::Handshake { keys } => KeyChange::Handshake(keys.into()),
        quic::KeyChange::OneRtt { keys, next } => KeyChange::OneRtt {
            keys: Keys::from(keys),
            secrets: Box::new(RustlsNextKeys(next)),
        },
    }
}

impl Session for RustlsSession {
    fn read(&mut self, level: Level, data: &[u8]) -> Result<(), TransportError> {
        if self.broken {
            return Err(TransportError::internal("packet keys could not be derived"));
        }
        if data.is_empty() {
            return Ok(());
        }
        if level != self.read_level() {
            return Err(TransportError::protocol_violation(
                "CRYPTO data at the wrong level",
            ));
        }
        if level == Level::OneRtt
            && let SideState::Client {
                tickets: Some(tickets),
                ..
            } = &self.side
        {
            // For the tickets that may be among the data.
            tickets.use_alpn(self.connection.alpn_protocol());
        }
        self.connection
            .read_hs(data)
            .map_err(|error| transport_error(&error, self.connection.alert()))
    }

    fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        let change = self.connection.write_hs(out)?;
        if self.used != self.started {
            let upgraded = self.upgrade(&change);
            self.broken |= upgraded.is_none();
            debug_assert!(!self.broken, "no keys for {:?}", self.used);
            return Some(upgraded.unwrap_or_else(|| convert(change)));
        }
        // Whoever needs no second derivation keeps no secrets. The handshake's are safe to drop
        // only now: until the keys are taken, the version may change.
        match change {
            quic::KeyChange::Handshake { .. } => drop(self.secrets.take_handshake()),
            quic::KeyChange::OneRtt { .. } => drop(self.secrets.take_application()),
        }
        Some(convert(change))
    }

    fn zero_rtt_keys(&self) -> Option<DirectionalKeys> {
        self.connection.zero_rtt_keys().map(Into::into)
    }

    fn early_data_accepted(&self) -> Option<bool> {
        match (&self.connection, &self.side) {
            (quic::Connection::Client(client), SideState::Client { remembered, .. }) => {
                let known = remembered.is_some() && !self.connection.is_handshaking();
                known.then(|| client.is_early_data_accepted())
            }
            _ => self.connection.zero_rtt_keys().map(|_| true),
        }
    }

    fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    fn server_name(&self) -> Option<&str> {
        match (&self.connection, &self.side) {
            (_, SideState::Client { server_name, .. }) => Some(server_name),
            (quic::Connection::Server(server), _) => server.server_name(),
            _ => None,
        }
    }

    fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.connection.peer_certificates().map(<[_]>::to_vec)
    }

    fn resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    fn peer_transport_parameters(&self) -> Option<&[u8]> {
        if self.side().is_client() && self.connection.is_handshaking() {
            return None;
        }
        self.connection.quic_transport_parameters()
    }

    fn remembered_parameters(&self) -> Option<Vec<u8>> {
        match &self.side {
            SideState::Client { remembered, .. } => remembered.clone(),
            SideState::Server { .. } => None,
        }
    }

    fn early_data_alpn(&self) -> Option<Vec<u8>> {
        match &self.side {
            SideState::Client {
                tickets: Some(tickets),
                remembered: Some(_),
                ..
            } => tickets.resumed_alpn(),
            _ => None,
        }
    }

    fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: Option<&[u8]>,
    ) -> Result<(), ExportError> {
        self.connection
            .export_keying_material(out, label, context)
            .map(|_| ())
            .map_err(|_| ExportError)
    }

    fn use_version(&mut self, version: Version) {
        self.used = version;
        match &self.side {
            SideState::Client {
                tickets: Some(tickets),
                ..
            } => tickets.use_version(version),
            SideState::Client { tickets: None, .. } => {}
            SideState::Server { tickets } => tickets.use_version(version),
        }
    }
}

impl fmt::Debug for RustlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RustlsSession")
            .field("side", &self.side())
            .field("version", &self.used)
            .field("handshaking", &self.connection.is_handshaking())
            .finish_non_exhaustive()
    }
}
