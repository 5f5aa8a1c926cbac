//! What a TLS failure is called in QUIC. RFC 9001 s4.8.

use rustls::{AlertDescription, Error, PeerMisbehaved};

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
    TransportError::new(code, error.to_string())
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
