//! Who a server is: its certificate and key.

use std::path::{Path, PathBuf};

use clap::Args;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tautline::tls::{Fingerprint, ServerTls, self_signed};

use crate::{
    failure::{Failure, Outcome},
    options::certificates_from,
};

/// Where certificate and key come from.
#[derive(Clone, Debug, Args)]
pub(crate) struct IdentityOptions {
    /// Certificate chain (PEM, the server's own first); without it a self-signed certificate is
    /// made
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// A name or IP address for the self-signed certificate, beside localhost (repeatable)
    #[arg(long, value_name = "NAME", conflicts_with = "cert")]
    name: Vec<String>,
}

/// A certificate chain with its key.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) self_signed: bool,
}

impl IdentityOptions {
    /// Reads or makes the certificate.
    pub(crate) fn load(&self) -> Outcome<Identity> {
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            return Identity::from_files(cert, key);
        }
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let made = self_signed(names.into_iter().chain(self.name.iter().cloned()))?;
        Ok(Identity {
            chain: vec![made.certificate],
            key: made.key,
            self_signed: true,
        })
    }
}

impl Identity {
    /// From PEM files.
    pub(crate) fn from_files(cert: &Path, key: &Path) -> Outcome<Self> {
        let chain = certificates_from(cert)?;
        let text = std::fs::read(key).map_err(|error| Failure::file("read", key, &error))?;
        let private = PrivateKeyDer::from_pem_slice(&text)
            .map_err(|error| Failure::new(format!("{}: no private key: {error}", key.display())))?;
        Ok(Self {
            chain,
            key: private,
            self_signed: false,
        })
    }

    /// Of the server's own certificate.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        self.chain.first().map(Fingerprint::of)
    }

    /// TLS set-up for QUIC, without ALPN; respects SSLKEYLOGFILE.
    pub(crate) fn server_tls(&self) -> ServerTls {
        ServerTls::new(self.chain.clone(), self.key.clone_key()).key_log_from_env()
    }
}
