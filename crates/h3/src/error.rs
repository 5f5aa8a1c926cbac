//! From the transport's errors to those `h3` understands.

use std::sync::Arc;

use h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming};
use tautline::{ConnectionError, ReadError, WriteError};

pub(crate) fn connection(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::PeerApplication { code, .. } => {
            ConnectionErrorIncoming::ApplicationClose { error_code: code }
        }
        ConnectionError::IdleTimeout | ConnectionError::HandshakeTimeout => {
            ConnectionErrorIncoming::Timeout
        }
        error => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

pub(crate) fn on_stream(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming {
        connection_error: connection(error),
    }
}

pub(crate) fn read(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(error_code) => StreamErrorIncoming::StreamTerminated { error_code },
        ReadError::ConnectionLost(error) => on_stream(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

/// From the `std::io::Error` that wraps a [`WriteError`].
pub(crate) fn write(error: std::io::Error) -> StreamErrorIncoming {
    match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<WriteError>())
    {
        Some(WriteError::Stopped(code)) => {
            StreamErrorIncoming::StreamTerminated { error_code: *code }
        }
        Some(WriteError::ConnectionLost(lost)) => on_stream(lost.clone()),
        _ => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}
