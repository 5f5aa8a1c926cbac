//! `rustls` set-ups for the stacks that are built on it.

use std::{path::Path, sync::Arc};

use anyhow::Result;
use rustls::{
    RootCertStore,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::{Arguments, Case};

/// The name in the server's certificate.
pub const SERVER_NAME: &str = "localhost";

/// Cryptography for the case.
pub fn provider(case: Case) -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|suite| match case {
        Case::ChaCha20 => suite.suite() == rustls::CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        _ => suite.tls13().is_some(),
    });
    // QUIC protects Initial packets by AES-128-GCM whatever is negotiated, and some stacks look
    // for it here; last, it is not chosen.
    Arc::new(provider)
}

/// The certificate chain in a PEM file.
pub fn chain(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    Ok(CertificateDer::pem_file_iter(file)?.collect::<Result<_, _>>()?)
}

/// The private key in a PEM file.
pub fn key(file: &Path) -> Result<PrivateKeyDer<'static>> {
    Ok(PrivateKeyDer::from_pem_file(file)?)
}

/// A server for these arguments.
pub fn server(arguments: &Arguments) -> Result<rustls::ServerConfig> {
    let mut config = rustls::ServerConfig::builder_with_provider(provider(arguments.case))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain(&arguments.certificate)?, key(&arguments.key)?)?;
    config.alpn_protocols = vec![arguments.protocol.alpn().to_vec()];
    config.max_early_data_size = u32::MAX;
    config.key_log = Arc::new(rustls::KeyLogFile::new());
    Ok(config)
}

/// A client for these arguments.
pub fn client(arguments: &Arguments) -> Result<rustls::ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(&arguments.certificate)? {
        roots.add(certificate)?;
    }
    let mut config = rustls::ClientConfig::builder_with_provider(provider(arguments.case))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![arguments.protocol.alpn().to_vec()];
    config.enable_early_data = true;
    config.key_log = Arc::new(rustls::KeyLogFile::new());
    Ok(config)
}
