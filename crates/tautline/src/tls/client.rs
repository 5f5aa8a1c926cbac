//! Clients: whom to trust.

use std::sync::Arc;

use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tautline_transport::config::ClientConfig;

use super::{Fingerprint, TlsError, client_config, protocols, provider, verify};

/// Builds a [`ClientConfig`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tautline::tls::{ClientTls, Fingerprint};
/// let pin: Fingerprint = "00".repeat(32).parse()?;
/// let config = ClientTls::pinned([pin]).alpn(["my-protocol"]).build()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "call `build`"]
pub struct ClientTls {
    trust: Trust,
    provider: Arc<CryptoProvider>,
    alpn: Vec<Vec<u8>>,
    identity: Option<(Vec<CertificateDer<'static>>, Arc<PrivateKeyDer<'static>>)>,
    early_data: bool,
    key_log: Option<Arc<dyn rustls::KeyLog>>,
}

#[derive(Clone, Debug)]
enum Trust {
    Roots(Arc<RootCertStore>),
    Handed(Arc<RootCertStore>, Arc<[CertificateDer<'static>]>),
    Pinned(Arc<[Fingerprint]>),
    Anyone,
}

impl ClientTls {
    fn new(trust: Trust) -> Self {
        Self {
            trust,
            provider: provider(),
            alpn: Vec::new(),
            identity: None,
            early_data: true,
            key_log: None,
        }
    }

    /// Trusts what the operating system trusts.
    ///
    /// # Errors
    /// When no root certificate is found.
    #[cfg(feature = "native-roots")]
    pub fn with_platform_roots() -> Result<Self, TlsError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            let reasons: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
            return Err(TlsError::NoRoots(reasons.join("; ")));
        }
        Ok(Self::with_roots(roots))
    }

    /// Trusts what these certificates issued.
    pub fn with_roots(roots: impl Into<Arc<RootCertStore>>) -> Self {
        Self::new(Trust::Roots(roots.into()))
    }

    /// Trusts what these certificates issued, and servers that show one of them as their own
    /// under a name that it bears (its dates are not looked at: who handed it out vouches for it).
    ///
    /// # Errors
    /// When a certificate cannot be read.
    pub fn with_certificates(
        certificates: impl IntoIterator<Item = CertificateDer<'static>>,
    ) -> Result<Self, TlsError> {
        let certificates: Arc<[_]> = certificates.into_iter().collect();
        let mut roots = RootCertStore::empty();
        for certificate in certificates.iter() {
            roots.add(certificate.clone())?;
        }
        Ok(Self::new(Trust::Handed(roots.into(), certificates)))
    }

    /// Trusts exactly these server certificates, whatever name, issuer and dates they bear.
    ///
    /// The right choice for self-signed certificates whose fingerprint came over a safe way.
    pub fn pinned(fingerprints: impl IntoIterator<Item = Fingerprint>) -> Self {
        Self::new(Trust::Pinned(fingerprints.into_iter().collect()))
    }

    /// Trusts anyone: encrypts, but an attacker can sit in the middle. For tests.
    pub fn danger_accept_any_certificate() -> Self {
        Self::new(Trust::Anyone)
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

    /// Shows this certificate chain to servers that ask.
    pub fn identity(
        mut self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Self {
        self.identity = Some((chain, Arc::new(key)));
        self
    }

    /// Whether resumed connections may send early data. Default on; what is sent early is the
    /// application's choice by [`Connecting::into_0rtt`](crate::Connecting::into_0rtt).
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
    /// When `rustls` does not take it.
    pub fn into_rustls(self) -> Result<rustls::ClientConfig, TlsError> {
        let provider = Arc::clone(&self.provider);
        let builder = rustls::ClientConfig::builder_with_provider(self.provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let custom = |verifier: Arc<dyn ServerCertVerifier>| {
            builder
                .clone()
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        };
        let builder = match self.trust {
            Trust::Roots(roots) => builder.with_root_certificates(roots),
            Trust::Handed(roots, certificates) => {
                let issued = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
                let issued = issued.map_err(|error| TlsError::NoRoots(error.to_string()))?;
                custom(Arc::new(verify::Handed::new(issued, certificates)))
            }
            Trust::Pinned(pins) => custom(Arc::new(verify::Pinned::new(pins, provider))),
            Trust::Anyone => custom(Arc::new(verify::Anyone::new(provider))),
        };
        let mut config = match self.identity {
            Some((chain, key)) => builder.with_client_auth_cert(chain, key.clone_key())?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = self.alpn;
        config.enable_early_data = self.early_data;
        if let Some(log) = self.key_log {
            config.key_log = log;
        }
        Ok(config)
    }

    /// The finished configuration; its `transport` field holds the rest.
    ///
    /// # Errors
    /// When the transport does not take it, for instance for want of an ALPN protocol.
    pub fn build(self) -> Result<ClientConfig, TlsError> {
        client_config(self.into_rustls()?)
    }
}
