//! Certificates, TLS settings and sockets that all stacks use alike.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    RootCertStore,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// The name in the certificate.
pub const NAME: &str = "localhost";

/// Where certificates are, and what is in them.
#[derive(Debug)]
pub struct Identity {
    pub authority_file: PathBuf,
    pub certificate_file: PathBuf,
    pub key_file: PathBuf,
}

/// Makes an authority and a server certificate, both ECDSA on P-256.
pub fn create(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority
        .distinguished_name
        .push(rcgen::DnType::CommonName, "bench authority");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec![NAME.to_owned()])?.signed_by(&key, &authority)?;
    let files = Identity::load(folder)?;
    std::fs::write(&files.authority_file, authority.pem())?;
    std::fs::write(&files.certificate_file, certificate.pem())?;
    std::fs::write(&files.key_file, key.serialize_pem())?;
    Ok(())
}

impl Identity {
    /// The files of [`create`].
    pub fn load(folder: &Path) -> Result<Self> {
        Ok(Self {
            authority_file: folder.join("authority.pem"),
            certificate_file: folder.join("certificate.pem"),
            key_file: folder.join("key.pem"),
        })
    }

    /// The server's certificate and key.
    pub fn chain(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let chain = CertificateDer::pem_file_iter(&self.certificate_file)
            .context("no certificate: run `identity` first")?
            .collect::<Result<_, _>>()?;
        Ok((chain, PrivateKeyDer::from_pem_file(&self.key_file)?))
    }

    /// Whom the client trusts.
    pub fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.authority_file)?)?;
        Ok(roots)
    }

    /// A `rustls` server without tickets.
    pub fn rustls_server(&self) -> Result<rustls::ServerConfig> {
        let (chain, key) = self.chain()?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![crate::ALPN.to_vec()];
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// A `rustls` client without resumption.
    pub fn rustls_client(&self) -> Result<rustls::ClientConfig> {
        let mut config = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(self.roots()?)
            .with_no_client_auth();
        config.alpn_protocols = vec![crate::ALPN.to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        Ok(config)
    }
}

/// AES-128-GCM and X25519 only.
pub fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
    Arc::new(provider)
}

/// A socket on loopback with the buffers that every stack gets.
pub fn socket() -> Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let options = socket2::SockRef::from(&socket);
    options.set_recv_buffer_size(crate::SOCKET_BUFFER)?;
    options.set_send_buffer_size(crate::SOCKET_BUFFER)?;
    Ok(socket)
}
