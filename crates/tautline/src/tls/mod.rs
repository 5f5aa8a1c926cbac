//! TLS set-ups for the common cases.
//!
//! Purpose: from "I trust the platform", "I know this fingerprint" or "here is my key" to a
//! [`ClientConfig`] or [`ServerConfig`] in one expression. Everything else: bring a
//! `rustls` configuration ([`client_config`], [`server_config`]).
//! Owns: [`ClientTls`], [`ServerTls`], [`Fingerprint`], [`SelfSigned`], verifiers.
//! Does not own: the TLS session (`tautline_transport::tls`).
//! Spec: RFC 9001 s4; ALPN is mandatory (s8.1).

mod client;
#[cfg(feature = "rcgen")]
mod self_signed;
mod server;
mod verify;

use std::{fmt, str::FromStr, sync::Arc};

use rustls::{crypto::CryptoProvider, pki_types::CertificateDer};
use tautline_transport::{
    config::{ClientConfig, ServerConfig},
    endpoint::MemoryTokenStore,
    tls::{RustlsClient, RustlsServer, StartError},
};

pub use self::{client::ClientTls, server::ServerTls};
#[cfg(feature = "rcgen")]
pub use self_signed::{SelfSigned, self_signed};
pub use tautline_transport::tls::{ClientTicketStore, ServerTicketStore};

/// A TLS set-up that cannot work.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// rustls or the transport does not take the configuration.
    #[error("TLS configuration: {0}")]
    Config(String),
    /// The platform's trust store cannot be read or is empty.
    #[error("no trusted root certificates on this system: {0}")]
    NoRoots(String),
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(String),
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self::Config(error.to_string())
    }
}

impl From<StartError> for TlsError {
    fn from(error: StartError) -> Self {
        Self::Config(error.to_string())
    }
}

/// A client configuration from a `rustls` one, with default transport behaviour.
///
/// `config` must allow TLS 1.3 and name at least one ALPN protocol.
///
/// # Errors
/// When the transport does not take it.
pub fn client_config(config: rustls::ClientConfig) -> Result<ClientConfig, TlsError> {
    let mut config = ClientConfig::new(Arc::new(RustlsClient::new(config)?));
    config.token_store = Some(Arc::new(MemoryTokenStore::default()));
    Ok(config)
}

/// A server configuration from a `rustls` one, with default transport behaviour.
///
/// `config` must allow TLS 1.3 and name at least one ALPN protocol.
///
/// # Errors
/// When the transport does not take it.
pub fn server_config(config: rustls::ServerConfig) -> Result<ServerConfig, TlsError> {
    Ok(ServerConfig::new(Arc::new(RustlsServer::new(config)?)))
}

/// SHA-256 of a certificate in DER form.
///
/// Prints and parses as 64 hexadecimal digits; colons between bytes are skipped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Of this certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(digest.as_ref()) {
            *to = *from;
        }
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is no SHA-256 fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is 64 hexadecimal digits (SHA-256 of the certificate)")]
pub struct ParseFingerprintError;

impl FromStr for Fingerprint {
    type Err = ParseFingerprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut digits = text.chars().filter(|c| *c != ':').map(|c| c.to_digit(16));
        let mut digit = || digits.next().flatten().ok_or(ParseFingerprintError);
        let mut bytes = [0; 32];
        for byte in &mut bytes {
            // Two hexadecimal digits fit a byte.
            *byte = (digit()? * 16 + digit()?) as u8;
        }
        match digits.next() {
            None => Ok(Self(bytes)),
            Some(_) => Err(ParseFingerprintError),
        }
    }
}

/// The cryptography in use: aws-lc-rs.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn protocols<I>(names: I) -> Vec<Vec<u8>>
where
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    names
        .into_iter()
        .map(|name| name.as_ref().to_vec())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_print_and_parse() {
        let fingerprint = Fingerprint::of(&CertificateDer::from(&b"abc"[..]));
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(fingerprint.to_string(), text);
        assert_eq!(text.parse(), Ok(fingerprint));
        let with_colons: Vec<_> = text
            .as_bytes()
            .chunks(2)
            .map(String::from_utf8_lossy)
            .collect();
        assert_eq!(with_colons.join(":").parse(), Ok(fingerprint));
        for bad in [
            "",
            "ba78",
            &text[1..],
            &format!("{text}0"),
            &text.replace('b', "x"),
        ] {
            assert_eq!(
                bad.parse::<Fingerprint>(),
                Err(ParseFingerprintError),
                "{bad}"
            );
        }
    }
}
