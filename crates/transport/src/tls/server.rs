//! Server sessions of rustls.

use std::sync::Arc;

use rustls::quic;

use super::{
    ServerSessionFactory, ServerTicketStore, Session, StartError, derive::rustls_version,
    rustls_session::RustlsSession, secrets::SecretCapture, tickets::ServerScope,
};
use crate::wire::Version;

/// Server TLS by rustls.
///
/// Certificates, client authentication, cipher suites, ALPN protocols, the key log and the clock
/// are taken from the [`rustls::ServerConfig`]; its session store is not: tickets are kept in a
/// [`ServerTicketStore`], which gives each out once.
#[derive(Clone, Debug)]
pub struct RustlsServer {
    config: Arc<rustls::ServerConfig>,
    tickets: Arc<ServerTicketStore>,
}

impl RustlsServer {
    /// With resumption from a store of its own, and early data if `config.max_early_data_size` is
    /// not 0 (any other value counts as the only one QUIC allows, 2^32-1; RFC 9001 s4.6.1).
    ///
    /// # Errors
    /// No ALPN protocol, TLS 1.3 switched off, no cipher suite that works with QUIC, or early
    /// data together with stateless tickets, which cannot prevent replay.
    pub fn new(mut config: rustls::ServerConfig) -> Result<Self, StartError> {
        if config.alpn_protocols.is_empty() {
            return Err(StartError::Config(
                "an ALPN protocol is needed (RFC 9001 s8.1)".into(),
            ));
        }
        if config.max_early_data_size != 0 {
            config.max_early_data_size = u32::MAX;
        }
        if config.max_early_data_size != 0 && config.ticketer.enabled() {
            return Err(StartError::Config(
                "early data needs tickets that count once; remove the ticketer".into(),
            ));
        }
        let config = Arc::new(config);
        // rustls tells only at the start of a connection what it makes of the configuration.
        quic::ServerConnection::new(Arc::clone(&config), quic::Version::V1, Vec::new())
            .map_err(|error| StartError::Config(error.to_string()))?;
        Ok(Self {
            config,
            tickets: Arc::default(),
        })
    }

    /// Keeps tickets in `store`; one of size 0 switches resumption off.
    #[must_use]
    pub fn with_ticket_store(mut self, store: Arc<ServerTicketStore>) -> Self {
        self.tickets = store;
        self
    }

    /// Whether early data (0-RTT) is accepted from clients that resume. Has no effect with a
    /// stateless ticketer.
    #[must_use]
    pub fn with_early_data(mut self, enabled: bool) -> Self {
        let config = Arc::make_mut(&mut self.config);
        let enabled = enabled && !config.ticketer.enabled();
        config.max_early_data_size = if enabled { u32::MAX } else { 0 };
        self
    }

    /// The configuration that sessions use.
    pub fn config(&self) -> &rustls::ServerConfig {
        &self.config
    }
}

impl ServerSessionFactory for RustlsServer {
    fn start(&self, version: Version, params: Vec<u8>) -> Result<Box<dyn Session>, StartError> {
        let tls_version = rustls_version(version).ok_or(StartError::UnsupportedVersion(version))?;

        let mut config = rustls::ServerConfig::clone(&self.config);
        let secrets = Arc::new(SecretCapture::new(Arc::clone(&config.key_log)));
        config.key_log = Arc::clone(&secrets) as Arc<dyn rustls::KeyLog>;
        let tickets = Arc::new(ServerScope::new(
            Arc::clone(&self.tickets),
            version,
            &params,
        ));
        config.session_storage = Arc::clone(&tickets) as _;

        let connection = quic::ServerConnection::new(Arc::new(config), tls_version, params)
            .map_err(|error| StartError::Config(error.to_string()))?;
        Ok(Box::new(RustlsSession::server(
            connection, secrets, version, tickets,
        )))
    }
}
