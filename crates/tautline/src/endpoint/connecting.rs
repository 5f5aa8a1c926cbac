//! Handshakes under way.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tautline_transport::units::Side;

use crate::{
    Connection,
    conn::{Conn, ConnState, Queue, WaitFor},
    error::HandshakeError,
    paths::no_answer,
};

/// A handshake under way; a future of its outcome.
///
/// Dropping it gives the attempt up. Polling again after it was ready gives the same answer.
#[derive(Debug)]
#[must_use = "dropping it gives the attempt up"]
pub struct Connecting {
    wait: WaitFor<Conn, fn(&mut ConnState) -> Option<Outcome>>,
    remote: SocketAddr,
    /// Where it begins, if that was chosen.
    from: Option<SocketAddr>,
}

/// How a handshake ended.
#[derive(Debug)]
enum Outcome {
    Connected,
    Unreachable(std::io::ErrorKind),
    Lost(tautline_transport::error::ConnectionError),
}

fn outcome(state: &mut ConnState) -> Option<Outcome> {
    if let Some(error) = &state.error {
        return Some(Outcome::Lost(error.clone()));
    }
    if state.connected {
        return Some(Outcome::Connected);
    }
    state.unreachable.map(Outcome::Unreachable)
}

impl Connecting {
    pub(super) fn new(conn: Conn, remote: SocketAddr) -> Self {
        Self {
            wait: WaitFor::new(conn, Queue::Handshake, outcome),
            remote,
            from: None,
        }
    }

    /// It begins at a place that was chosen.
    pub(super) fn beginning_at(mut self, local: Option<SocketAddr>) -> Self {
        self.from = local;
        self
    }

    /// The peer's address.
    pub fn remote_address(&self) -> SocketAddr {
        self.remote
    }

    /// Uses the connection before the handshake is done.
    ///
    /// **Client:** works when a ticket from an earlier connection to this server allows early
    /// data (0-RTT). What is sent now can be replayed by an attacker: send only what may happen
    /// twice. If the server turns early data down, everything sent so far is sent again after the
    /// handshake; streams stay usable. [`ZeroRttAccepted`] tells which it was.
    ///
    /// **Server:** always works (0.5-RTT): data goes out before the client is authenticated by
    /// certificate and before it is known to be no replay.
    ///
    /// # Errors
    /// Gives the attempt back when there is no ticket.
    pub fn into_0rtt(self) -> Result<(Connection, ZeroRttAccepted), Self> {
        let possible = self.wait.conn().with(|state| {
            state.connected || state.quic.side() == Side::Server || state.quic.has_0rtt()
        });
        if !possible {
            return Err(self);
        }
        let conn = self.wait.conn().clone();
        let accepted = WaitFor::new(conn.clone(), Queue::Handshake, accepted as fn(&mut _) -> _);
        Ok((Connection::new(conn), ZeroRttAccepted { wait: accepted }))
    }
}

impl Future for Connecting {
    type Output = Result<Connection, HandshakeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.wait).poll(cx));
        let remote = self.remote;
        Poll::Ready(match outcome {
            Outcome::Connected => Ok(Connection::new(self.wait.conn().clone())),
            Outcome::Unreachable(reason) => Err(HandshakeError::Unreachable { remote, reason }),
            Outcome::Lost(error) => Err(match HandshakeError::new(error, remote) {
                HandshakeError::TimedOut { remote, .. } => HandshakeError::TimedOut {
                    remote,
                    // Without a choice, packets leave and come back as the routing table says.
                    advice: self
                        .from
                        .map_or_else(String::new, |local| no_answer(local, remote)),
                },
                error => error,
            }),
        })
    }
}

/// Tells, once the handshake is done, whether early data was accepted.
///
/// False also when the connection ended before, and on servers when the client sent none.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct ZeroRttAccepted {
    wait: WaitFor<Conn, fn(&mut ConnState) -> Option<bool>>,
}

fn accepted(state: &mut ConnState) -> Option<bool> {
    if state.connected {
        return Some(state.quic.early_data_accepted().unwrap_or(false));
    }
    state.error.as_ref().map(|_| false)
}

impl Future for ZeroRttAccepted {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        Pin::new(&mut self.wait).poll(cx)
    }
}
