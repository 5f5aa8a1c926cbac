//! What a TLS failure is called in QUIC. RFC 9001 s4.8.

use rustls::{AlertDescription, CertificateError, Error, PeerMisbehaved};

use crate::error::{Code, TransportError};

/// The error that closes the connection after rustls returned `error` and raised `alert`.
pub(super) fn transport_error(error: &Error, alert: Option<AlertDescription>) -> TransportError {
    let code = match error {
        // QUIC has rules of its own here, with a code of its own. RFC 9001 s4.1.3, s4.6.1.
        Error::PeerMisbehaved(
            PeerMisbehaved::KeyEpochWithPendingFragment | PeerMisbehaved::InvalidMaxEarlyDataSize,
        ) => Code::PROTOCOL_VIOLATION,
        _ => match alert.or_else(|| implied_alert(error)) {
            Some(alert) => Code::crypto(alert.into()),
            None => Code::INTERNAL_ERROR,
        },
    };
    TransportError::new(code, words(error))
}

/// `error` for people: rustls prints some certificate errors as they stand in its code.
fn words(error: &Error) -> String {
    let Error::InvalidCertificate(fault) = error else {
        return error.to_string();
    };
    let known = match fault {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet"
        }
        CertificateError::UnknownIssuer => "the certificate's issuer is not trusted",
        CertificateError::BadSignature => "the certificate's signature is wrong",
        CertificateError::Revoked => "the certificate was revoked",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate is for another name"
        }
        CertificateError::ApplicationVerificationFailure => {
            "the certificate is not the expected one"
        }
        other => {
            let told = other.to_string();
            if told.contains("CaUsedAsEndEntity") {
                return "the certificate is one for issuing others, not for a server".to_owned();
            }
            return format!("the certificate is not valid: {told}");
        }
    };
    known.to_owned()
}

/// The alert for errors that rustls reports without raising one; `None` if the fault is ours.
fn implied_alert(error: &Error) -> Option<AlertDescription> {
    Some(match error {
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            AlertDescription::UnexpectedMessage
        }
        Error::InvalidMessage(_) => AlertDescription::DecodeError,
        Error::PeerIncompatible(_) => AlertDescription::HandshakeFailure,
        Error::PeerMisbehaved(_) => AlertDescription::IllegalParameter,
        Error::NoCertificatesPresented => AlertDescription::CertificateRequired,
        Error::InvalidCertificate(_) | Error::InvalidCertRevocationList(_) => {
            AlertDescription::BadCertificate
        }
        Error::NoApplicationProtocol => AlertDescription::NoApplicationProtocol,
        Error::DecryptError => AlertDescription::DecryptError,
        _ => return None,
    })
}
