//! What can go wrong, sorted by who is to blame.
//!
//! Owns: [`DecodeError`] (bytes that do not parse), [`TransportError`] (the peer broke a rule;
//! always closes), [`ConnectionError`] (why a connection ended), error codes.
//! Does not own: per-operation errors, which stand beside their operation; being *blocked*,
//! which is a value and no error.
//! Spec: RFC 9000 s20, RFC 9368 s10, RFC 10069.

mod codes;

use std::borrow::Cow;

use crate::observe::Abuse;

use bytes::Bytes;

pub use codes::Code;

/// Bytes that do not follow the wire format. Allocation-free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {offset}")]
pub struct DecodeError {
    /// Where in the buffer the problem was noticed.
    pub offset: usize,
    /// What is wrong.
    pub kind: DecodeErrorKind,
}

/// The kinds of malformed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The buffer ends inside a field.
    #[error("unexpected end")]
    UnexpectedEnd,
    /// A field holds a value that its definition forbids.
    #[error("invalid {0}")]
    Invalid(&'static str),
    /// A frame type that was not negotiated or does not exist.
    #[error("unknown frame type")]
    UnknownFrame,
    /// A path ID that no limit allows, 2^32 or more. RFC 10069.
    #[error("path ID too large")]
    PathIdTooLarge,
    /// A frame type encoded longer than needed. RFC 9000 s12.4.
    #[error("frame type not minimally encoded")]
    FrameTypeNotMinimal,
}

/// The peer broke a rule (or we failed internally); the connection closes with this code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}{}{reason}", if reason.is_empty() { "" } else { ": " })]
pub struct TransportError {
    /// The code that goes on the wire.
    pub code: Code,
    /// The frame type that triggered it, 0 when unknown.
    pub frame_type: u64,
    /// Names the violated field or rule.
    pub reason: Cow<'static, str>,
    /// What it looks like when it is the peer's doing; `None`: nothing a peer should be blamed for.
    pub abuse: Option<Abuse>,
}

impl TransportError {
    /// An error with no frame type.
    pub fn new(code: Code, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            frame_type: 0,
            reason: reason.into(),
            abuse: abuse_of(code),
        }
    }

    /// The same error, counted as this kind of abuse where the code alone does not tell.
    #[must_use]
    pub fn counted_as(mut self, abuse: Abuse) -> Self {
        self.abuse = Some(abuse);
        self
    }

    /// The same error, blamed on a frame type.
    #[must_use]
    pub fn in_frame(mut self, frame_type: u64) -> Self {
        self.frame_type = frame_type;
        self
    }
}

/// What a code stands for unless the place that found the error knows better.
fn abuse_of(code: Code) -> Option<Abuse> {
    match code {
        // Our own trouble, an honest refusal, or a disagreement about certificates.
        Code::NO_ERROR | Code::INTERNAL_ERROR | Code::CONNECTION_REFUSED => None,
        _ if code.tls_alert().is_some() => None,
        Code::FLOW_CONTROL_ERROR => Some(Abuse::FlowControlViolation),
        Code::STREAM_LIMIT_ERROR | Code::STREAM_STATE_ERROR | Code::FINAL_SIZE_ERROR => {
            Some(Abuse::StreamViolation)
        }
        Code::FRAME_ENCODING_ERROR => Some(Abuse::MalformedFrame),
        Code::TRANSPORT_PARAMETER_ERROR => Some(Abuse::BadTransportParameters),
        Code::CONNECTION_ID_LIMIT_ERROR => Some(Abuse::ConnectionIdFlood),
        Code::CRYPTO_BUFFER_EXCEEDED => Some(Abuse::CryptoFlood),
        Code::KEY_UPDATE_ERROR => Some(Abuse::KeyUpdateStorm),
        Code::VERSION_NEGOTIATION_ERROR => Some(Abuse::VersionNegotiationSpoof),
        Code::INVALID_TOKEN => Some(Abuse::TokenForged),
        Code::AEAD_LIMIT_REACHED => Some(Abuse::UndecryptablePacket),
        _ => Some(Abuse::Violation),
    }
}

macro_rules! shorthand {
    ($($(#[$doc:meta])* $name:ident => $code:ident;)*) => {
        impl TransportError {
            $($(#[$doc])* pub fn $name(reason: impl Into<Cow<'static, str>>) -> Self {
                Self::new(Code::$code, reason)
            })*
        }
    };
}

shorthand! {
    /// INTERNAL_ERROR.
    internal => INTERNAL_ERROR;
    /// FLOW_CONTROL_ERROR.
    flow_control => FLOW_CONTROL_ERROR;
    /// STREAM_LIMIT_ERROR.
    stream_limit => STREAM_LIMIT_ERROR;
    /// STREAM_STATE_ERROR.
    stream_state => STREAM_STATE_ERROR;
    /// FINAL_SIZE_ERROR.
    final_size => FINAL_SIZE_ERROR;
    /// FRAME_ENCODING_ERROR.
    frame_encoding => FRAME_ENCODING_ERROR;
    /// TRANSPORT_PARAMETER_ERROR.
    transport_parameter => TRANSPORT_PARAMETER_ERROR;
    /// CONNECTION_ID_LIMIT_ERROR.
    connection_id_limit => CONNECTION_ID_LIMIT_ERROR;
    /// PROTOCOL_VIOLATION.
    protocol_violation => PROTOCOL_VIOLATION;
    /// INVALID_TOKEN.
    invalid_token => INVALID_TOKEN;
    /// CRYPTO_BUFFER_EXCEEDED.
    crypto_buffer_exceeded => CRYPTO_BUFFER_EXCEEDED;
    /// KEY_UPDATE_ERROR.
    key_update => KEY_UPDATE_ERROR;
    /// AEAD_LIMIT_REACHED.
    aead_limit => AEAD_LIMIT_REACHED;
    /// VERSION_NEGOTIATION_ERROR.
    version_negotiation => VERSION_NEGOTIATION_ERROR;
}

impl From<DecodeError> for TransportError {
    fn from(error: DecodeError) -> Self {
        let code = match error.kind {
            DecodeErrorKind::FrameTypeNotMinimal | DecodeErrorKind::PathIdTooLarge => {
                Code::PROTOCOL_VIOLATION
            }
            _ => Code::FRAME_ENCODING_ERROR,
        };
        let error = Self::new(code, error.to_string());
        match code {
            Code::PROTOCOL_VIOLATION => error.counted_as(Abuse::MalformedFrame),
            _ => error,
        }
    }
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// We closed because the peer broke a rule or an internal invariant failed.
    #[error("closed by us: {0}")]
    Transport(TransportError),
    /// The peer closed with a transport error.
    #[error("closed by peer: {0}")]
    PeerTransport(TransportError),
    /// The peer's application closed.
    #[error("closed by the peer's application (code {code}){}{}", if reason.is_empty() { "" } else { ": " }, String::from_utf8_lossy(reason))]
    PeerApplication {
        /// Application error code.
        code: u64,
        /// Application's words, any bytes.
        reason: Bytes,
    },
    /// This end's application closed.
    #[error("closed locally")]
    LocallyClosed,
    /// Nothing was heard for the idle timeout.
    #[error("timed out: nothing heard from the peer")]
    IdleTimeout,
    /// The handshake did not finish in time.
    #[error("timed out during the handshake")]
    HandshakeTimeout,
    /// The peer lost its state and said so with a stateless reset.
    #[error("reset by peer: it has no state for this connection")]
    StatelessReset,
    /// No version in common.
    #[error("the server speaks none of our QUIC versions (it offers {})", .offered.iter().map(|v| format!("{v:#010x}")).collect::<Vec<_>>().join(", "))]
    VersionMismatch {
        /// What the server's Version Negotiation packet lists.
        offered: Vec<u32>,
    },
    /// Connection IDs ran out, or no usable network path remains.
    #[error("no viable path: {0}")]
    NoViablePath(&'static str),
}
