//! Transport error codes. RFC 9000 s20.1, RFC 9368 s10.2, RFC 10069.

use std::fmt;

/// A transport error code as it travels in CONNECTION_CLOSE and PATH_ABANDON.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub u64);

macro_rules! codes {
    ($($value:literal $name:ident)*) => {
        #[expect(missing_docs, reason = "the names are the RFC's")]
        impl Code { $(pub const $name: Self = Self($value);)* }
        impl Code {
            /// The RFC's name, where it has one.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($value => Some(stringify!($name)),)* _ => None }
            }
        }
    };
}

codes! {
    0x00 NO_ERROR
    0x01 INTERNAL_ERROR
    0x02 CONNECTION_REFUSED
    0x03 FLOW_CONTROL_ERROR
    0x04 STREAM_LIMIT_ERROR
    0x05 STREAM_STATE_ERROR
    0x06 FINAL_SIZE_ERROR
    0x07 FRAME_ENCODING_ERROR
    0x08 TRANSPORT_PARAMETER_ERROR
    0x09 CONNECTION_ID_LIMIT_ERROR
    0x0a PROTOCOL_VIOLATION
    0x0b INVALID_TOKEN
    0x0c APPLICATION_ERROR
    0x0d CRYPTO_BUFFER_EXCEEDED
    0x0e KEY_UPDATE_ERROR
    0x0f AEAD_LIMIT_REACHED
    0x10 NO_VIABLE_PATH
    0x11 VERSION_NEGOTIATION_ERROR
    0x3e APPLICATION_ABANDON_PATH
    0x3e75 PATH_RESOURCE_LIMIT_REACHED
    0x3e76 PATH_UNSTABLE_OR_POOR
    0x3e77 NO_CID_AVAILABLE_FOR_PATH
}

impl Code {
    /// CRYPTO_ERROR: a TLS alert. RFC 9001 s4.8.
    pub const fn crypto(alert: u8) -> Self {
        Self(0x100 | alert as u64)
    }

    /// The TLS alert inside a CRYPTO_ERROR.
    pub const fn tls_alert(self) -> Option<u8> {
        if self.0 >> 8 == 1 {
            Some(self.0 as u8)
        } else {
            None
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.tls_alert()) {
            (Some(name), _) => f.write_str(name),
            (None, Some(alert)) => write!(f, "CRYPTO_ERROR (TLS alert {alert})"),
            (None, None) => write!(f, "error {:#x}", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
