//! Servers: who we are.

use std::sync::Arc;

use rustls::{
    RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};
use tautline_transport::config::ServerConfig;

use super::{TlsError, protocols, provider, server_config};

/// Builds a [`ServerConfig`].
#[derive(Debug)]
#[must_use = "call `build`"]
pub struct ServerTls {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: Arc<CryptoProvider>,
    alpn: Vec<Vec<u8>>,
    clients: Option<Arc<RootCertStore>>,
    early_data: bool,
    key_log: Option<Arc<dyn rustls::KeyLog>>,
}

impl ServerTls {
    /// With this certificate chain (end entity first) and its key.
    pub fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Self {
        Self {
            chain,
            key,
            provider: provider(),
            alpn: Vec::new(),
            clients: None,
            early_data: true,
            key_log: None,
        }
    }

    /// Application protocols, most wanted first. At least one is needed.
    pub fn alpn<I>(mut self, names: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<[u8]>,
    {
        self.alpn = protocols(names);
        self
    }

    /// Asks clients for certificates issued by one of these, and turns others away.
    pub fn require_clients(mut self, roots: impl Into<Arc<RootCertStore>>) -> Self {
        self.clients = Some(roots.into());
        self
    }

    /// Whether to take early data (0-RTT) of resumed connections. Default on; each ticket is
    /// good for one use, so that early data reaches this server once.
    pub fn early_data(mut self, enabled: bool) -> Self {
        self.early_data = enabled;
        self
    }

    /// Writes TLS secrets to the file named by SSLKEYLOGFILE, if set, for packet analysers.
    pub fn key_log_from_env(self) -> Self {
        self.key_log(Arc::new(rustls::KeyLogFile::new()))
    }

    /// Gives TLS secrets to `log`.
    pub fn key_log(mut self, log: Arc<dyn rustls::KeyLog>) -> Self {
        self.key_log = Some(log);
        self
    }

    /// Other cryptography or cipher suites than the default of aws-lc-rs.
    pub fn crypto_provider(mut self, provider: Arc<CryptoProvider>) -> Self {
        self.provider = provider;
        self
    }

    /// The `rustls` configuration, to change further.
    ///
    /// # Errors
    /// When `rustls` does not take it, for instance because key and certificate do not match.
    pub fn into_rustls(self) -> Result<rustls::ServerConfig, TlsError> {
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let builder = match self.clients {
            Some(roots) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, self.provider);
                let verifier = verifier
                    .build()
                    .map_err(|error| TlsError::Config(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(self.chain, self.key)?;
        config.alpn_protocols = self.alpn;
        // QUIC knows no other limit. RFC 9001 s4.6.1.
        config.max_early_data_size = if self.early_data { u32::MAX } else { 0 };
        if let Some(log) = self.key_log {
            config.key_log = log;
        }
        Ok(config)
    }

    /// The finished configuration; its `transport` field holds the rest.
    ///
    /// # Errors
    /// When the transport does not take it, for instance for want of an ALPN protocol.
    pub fn build(self) -> Result<ServerConfig, TlsError> {
        server_config(self.into_rustls()?)
    }
}
