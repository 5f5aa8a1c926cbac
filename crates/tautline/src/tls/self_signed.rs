//! Certificates made on the spot.

use std::sync::Arc;

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};

use super::{Fingerprint, ServerTls, TlsError};

/// A certificate that vouches for itself, with its key.
#[derive(Debug)]
pub struct SelfSigned {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    /// What clients pin: see [`ClientTls::pinned`](super::ClientTls::pinned).
    pub fingerprint: Fingerprint,
    certificate_pem: String,
    key_pem: String,
}

/// Makes a self-signed certificate (ECDSA P-256) for these DNS names and IP addresses.
///
/// # Errors
/// When a name cannot stand in a certificate.
pub fn self_signed<I>(names: I) -> Result<SelfSigned, TlsError>
where
    I: IntoIterator,
    I::Item: Into<String>,
{
    let names: Vec<String> = names.into_iter().map(Into::into).collect();
    let made = rcgen::generate_simple_self_signed(names)
        .map_err(|error| TlsError::Certificate(error.to_string()))?;
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    Ok(SelfSigned {
        fingerprint: Fingerprint::of(&certificate),
        certificate_pem: made.cert.pem(),
        key_pem: made.signing_key.serialize_pem(),
        certificate,
        key,
    })
}

impl SelfSigned {
    /// A server with this certificate; add [`ServerTls::alpn`].
    pub fn server(&self) -> ServerTls {
        ServerTls::new(vec![self.certificate.clone()], self.key.clone_key())
    }

    /// Roots that trust this certificate alone.
    ///
    /// # Errors
    /// Never for certificates made here.
    pub fn roots(&self) -> Result<Arc<RootCertStore>, TlsError> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        Ok(Arc::new(roots))
    }

    /// The certificate as PEM text.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The private key as PEM text. Keep it to yourself.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }
}
