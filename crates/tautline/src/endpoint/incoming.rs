//! Clients that knock.

use std::{
    future::{Future, IntoFuture},
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tautline_transport::{
    config::ServerConfig,
    endpoint::{self as transport, Transmit},
    time::Instant,
};

use super::Connecting;
use crate::{
    Connection,
    error::HandshakeError,
    shard::{Shard, ShardState},
};

/// A client that wants to connect: accept, retry, refuse or ignore it.
///
/// Until it is accepted, a few packets of it are kept and nothing else; nothing was computed.
/// Dropping it refuses it.
///
/// `incoming.await` accepts it and waits for the handshake.
#[derive(Debug)]
#[must_use = "dropping it refuses the client"]
pub struct Incoming {
    attempt: Option<transport::Incoming>,
    shard: Arc<Shard>,
}

/// [`Incoming::retry`] is of no use: the client answered a Retry already.
#[derive(Debug, thiserror::Error)]
#[error("the client's address is validated already: accept or refuse it")]
pub struct RetryError(Box<Incoming>);

impl RetryError {
    /// The client, to be accepted or refused.
    pub fn into_incoming(self) -> Incoming {
        *self.0
    }
}

/// Accepts an [`Incoming`] and waits for its handshake.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct IncomingFuture(Result<Connecting, Option<HandshakeError>>);

impl Incoming {
    pub(crate) fn new(attempt: transport::Incoming, shard: Arc<Shard>) -> Self {
        Self {
            attempt: Some(attempt),
            shard,
        }
    }

    /// Starts the handshake.
    ///
    /// # Errors
    /// When the endpoint is full, was closed, or the client waited too long.
    pub fn accept(self) -> Result<Connecting, HandshakeError> {
        self.accept_as(None)
    }

    /// [`Self::accept`] in another way than the endpoint's.
    ///
    /// # Errors
    /// When the endpoint is full, was closed, or the client waited too long.
    pub fn accept_with(self, config: Arc<ServerConfig>) -> Result<Connecting, HandshakeError> {
        self.accept_as(Some(config))
    }

    fn accept_as(
        mut self,
        config: Option<Arc<ServerConfig>>,
    ) -> Result<Connecting, HandshakeError> {
        let remote = self.remote_address();
        let closed = || HandshakeError::NotAccepted {
            reason: "the endpoint is closed".into(),
        };
        let attempt = self.attempt.take().ok_or_else(closed)?;
        let shard = Arc::clone(&self.shard);
        let mut state = shard.state.lock();
        if state.dead || shard.hub.upgrade().is_none_or(|hub| hub.is_closed()) {
            // Dropping refuses, under the lock that we hold here.
            drop(state);
            self.attempt = Some(attempt);
            return Err(closed());
        }
        let (handle, quic) = state
            .endpoint
            .accept(shard.now(), attempt, config)
            .map_err(|error| HandshakeError::NotAccepted {
                reason: error.to_string(),
            })?;
        let conn = shard.adopt(&mut state, handle, quic);
        Ok(Connecting::new(conn, remote))
    }

    /// Makes the client prove its address first (a Retry; one round trip more). RFC 9000 s8.1.2.
    ///
    /// # Errors
    /// Gives the client back when it did that already.
    pub fn retry(mut self) -> Result<(), RetryError> {
        if let Some(attempt) = self.attempt.take() {
            if !attempt.may_retry() {
                self.attempt = Some(attempt);
                return Err(RetryError(Box::new(self)));
            }
            self.answer(|state, now, out| state.endpoint.retry(now, attempt, out));
        }
        Ok(())
    }

    /// Tells the client that it is not wanted (CONNECTION_REFUSED).
    pub fn refuse(self) {
        drop(self);
    }

    /// Forgets the client without a word. It will try for some time.
    pub fn ignore(mut self) {
        if let Some(attempt) = self.attempt.take() {
            self.shard.state.lock().endpoint.ignore(attempt);
        }
    }

    /// Where the client claims to be. See [`Self::remote_address_validated`].
    pub fn remote_address(&self) -> SocketAddr {
        self.attempt
            .as_ref()
            .map_or_else(unspecified, transport::Incoming::remote_address)
    }

    /// Whether a token proved that the client is where it claims to be.
    pub fn remote_address_validated(&self) -> bool {
        self.attempt
            .as_ref()
            .is_some_and(transport::Incoming::is_validated)
    }

    /// Lets the transport write an answer and sends it, unless the socket is busy.
    fn answer(
        &self,
        write: impl FnOnce(&mut ShardState, Instant, &mut Vec<u8>) -> Option<Transmit>,
    ) {
        let mut out = Vec::new();
        let mut state = self.shard.state.lock();
        let transmit = write(&mut state, self.shard.now(), &mut out);
        if let Some(transmit) = transmit {
            state.queue_answer(transmit, out);
            drop(state);
            self.shard.notify_driver();
        }
    }
}

fn unspecified() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], 0))
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            self.answer(|state, now, out| state.endpoint.refuse(now, attempt, out));
        }
    }
}

impl IntoFuture for Incoming {
    type Output = Result<Connection, HandshakeError>;
    type IntoFuture = IncomingFuture;

    fn into_future(self) -> IncomingFuture {
        IncomingFuture(self.accept().map_err(Some))
    }
}

impl Future for IncomingFuture {
    type Output = Result<Connection, HandshakeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ok(connecting) => Pin::new(connecting).poll(cx),
            Err(error) => Poll::Ready(Err(error.take().unwrap_or_else(|| {
                HandshakeError::NotAccepted {
                    reason: "polled after it was over".into(),
                }
            }))),
        }
    }
}
