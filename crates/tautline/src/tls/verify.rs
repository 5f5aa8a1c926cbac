//! Verifiers beside the one of rustls, which asks certificate authorities alone.
//!
//! All check that the server holds the certificate's key: the handshake signature is verified.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use super::Fingerprint;

/// Accepts certificates with known fingerprints only.
#[derive(Debug)]
pub(super) struct Pinned {
    pins: Arc<[Fingerprint]>,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    pub(super) fn new(pins: Arc<[Fingerprint]>, provider: Arc<CryptoProvider>) -> Self {
        Self { pins, provider }
    }

    fn verify(&self, end_entity: &CertificateDer<'_>) -> Result<ServerCertVerified, Error> {
        // A certificate is public; comparing its digest need not take constant time.
        if self.pins.contains(&Fingerprint::of(end_entity)) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }
}

/// Accepts every certificate.
#[derive(Debug)]
pub(super) struct Anyone {
    provider: Arc<CryptoProvider>,
}

impl Anyone {
    pub(super) fn new(provider: Arc<CryptoProvider>) -> Self {
        Self { provider }
    }

    #[expect(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "one shape for both"
    )]
    fn verify(&self, _: &CertificateDer<'_>) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }
}

/// Accepts what these certificates issued, and these certificates themselves: a server may show
/// the very certificate that was handed out, as `openssl req -x509` makes it.
#[derive(Debug)]
pub(super) struct Handed {
    issued: Arc<WebPkiServerVerifier>,
    certificates: Arc<[CertificateDer<'static>]>,
}

impl Handed {
    pub(super) fn new(
        issued: Arc<WebPkiServerVerifier>,
        certificates: Arc<[CertificateDer<'static>]>,
    ) -> Self {
        Self {
            issued,
            certificates,
        }
    }
}

impl ServerCertVerifier for Handed {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.certificates.contains(end_entity) {
            // Whoever handed it out vouches for it, but for its name only.
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.issued
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.issued.supported_verify_schemes()
    }
}

macro_rules! server_cert_verifier {
    ($verifier:ty) => {
        impl ServerCertVerifier for $verifier {
            fn verify_server_cert(
                &self,
                end_entity: &CertificateDer<'_>,
                _intermediates: &[CertificateDer<'_>],
                _server_name: &ServerName<'_>,
                _ocsp_response: &[u8],
                _now: UnixTime,
            ) -> Result<ServerCertVerified, Error> {
                self.verify(end_entity)
            }

            fn verify_tls12_signature(
                &self,
                message: &[u8],
                cert: &CertificateDer<'_>,
                dss: &DigitallySignedStruct,
            ) -> Result<HandshakeSignatureValid, Error> {
                let algorithms = &self.provider.signature_verification_algorithms;
                verify_tls12_signature(message, cert, dss, algorithms)
            }

            fn verify_tls13_signature(
                &self,
                message: &[u8],
                cert: &CertificateDer<'_>,
                dss: &DigitallySignedStruct,
            ) -> Result<HandshakeSignatureValid, Error> {
                let algorithms = &self.provider.signature_verification_algorithms;
                verify_tls13_signature(message, cert, dss, algorithms)
            }

            fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
                self.provider
                    .signature_verification_algorithms
                    .supported_schemes()
            }
        }
    };
}

server_cert_verifier!(Pinned);
server_cert_verifier!(Anyone);
