//! Client sessions of rustls.

use std::sync::Arc;

use rustls::{client::Resumption, pki_types::ServerName, quic};

use super::{
    ClientSessionFactory, ClientTicketStore, Session, StartError, derive::rustls_version,
    rustls_session::RustlsSession, secrets::SecretCapture, tickets::ClientScope,
};
use crate::wire::Version;

/// Client TLS by rustls.
///
/// Certificates (the client's own included), cipher suites, ALPN protocols, the key log and the
/// clock are taken from the [`rustls::ClientConfig`]; its session store is not: tickets are kept
/// in a [`ClientTicketStore`].
#[derive(Clone, Debug)]
pub struct RustlsClient {
    config: Arc<rustls::ClientConfig>,
    tickets: Option<Arc<ClientTicketStore>>,
}

impl RustlsClient {
    /// With resumption from a store of its own, and early data as `config.enable_early_data` says.
    ///
    /// # Errors
    /// No ALPN protocol, TLS 1.3 switched off, or no cipher suite that works with QUIC.
    pub fn new(mut config: rustls::ClientConfig) -> Result<Self, StartError> {
        if config.alpn_protocols.is_empty() {
            return Err(StartError::Config(
                "an ALPN protocol is needed (RFC 9001 s8.1)".into(),
            ));
        }
        config.resumption = Resumption::disabled();
        let config = Arc::new(config);
        // rustls tells only at the start of a connection what it makes of the configuration.
        let probe = ServerName::try_from("probe.invalid")
            .map_err(|_| StartError::InvalidServerName("probe.invalid".into()))?;
        let version = quic::Version::V1;
        quic::ClientConnection::new(Arc::clone(&config), version, probe, Vec::new())
            .map_err(|error| StartError::Config(error.to_string()))?;
        Ok(Self {
            config,
            tickets: Some(Arc::default()),
        })
    }

    /// Keeps tickets in `store`, or, with `None`, never resumes.
    #[must_use]
    pub fn with_ticket_store(mut self, store: Option<Arc<ClientTicketStore>>) -> Self {
        self.tickets = store;
        self
    }

    /// Whether resumed connections send early data (0-RTT) if the server allows it. Early data can
    /// be replayed by an attacker unless the server prevents it: ask only for what may happen twice.
    #[must_use]
    pub fn with_early_data(mut self, enabled: bool) -> Self {
        Arc::make_mut(&mut self.config).enable_early_data = enabled;
        self
    }

    /// The configuration that sessions use.
    pub fn config(&self) -> &rustls::ClientConfig {
        &self.config
    }
}

impl ClientSessionFactory for RustlsClient {
    fn start(
        &self,
        version: Version,
        server_name: &str,
        params: Vec<u8>,
    ) -> Result<Box<dyn Session>, StartError> {
        let tls_version = rustls_version(version).ok_or(StartError::UnsupportedVersion(version))?;
        let name = ServerName::try_from(server_name)
            .map_err(|_| StartError::InvalidServerName(server_name.to_owned()))?
            .to_owned();

        let mut config = rustls::ClientConfig::clone(&self.config);
        let secrets = Arc::new(SecretCapture::new(Arc::clone(&config.key_log)));
        config.key_log = Arc::clone(&secrets) as Arc<dyn rustls::KeyLog>;
        let tickets = self
            .tickets
            .as_ref()
            .map(|store| Arc::new(ClientScope::new(Arc::clone(store), version)));
        if let Some(tickets) = &tickets {
            config.resumption = Resumption::store(Arc::clone(tickets) as _);
        }

        let connection = quic::ClientConnection::new(Arc::new(config), tls_version, name, params)
            .map_err(|error| StartError::Config(error.to_string()))?;
        let server_name = server_name.to_owned();
        Ok(Box::new(RustlsSession::client(
            connection,
            secrets,
            version,
            server_name,
            tickets,
        )))
    }

    fn resumable_version(&self, server_name: &str, versions: &[Version]) -> Option<Version> {
        self.tickets.as_ref()?.newest_version(server_name, versions)
    }
}
