//! Several paths of a connection, for applications.
//!
//! Purpose: open a path from any address or interface of this host, and hear of all that happens to
//! paths.
//! Owns: [`LocalEnd`] (`local_end.rs`), what connections know of their paths (`news.rs`), advice
//! where a path does not answer (`advice.rs`), a path per interface (`follow.rs`), the calls.
//! Does not own: what a path does (`tautline-transport`), sockets ([`crate::shard`]), interfaces
//! ([`crate::interfaces`]).
//! Spec: RFC 10069.

mod advice;
mod follow;
mod local_end;
mod news;

use std::{net::SocketAddr, sync::Arc};

use tautline_transport::{
    multipath::{PathCost, PathStatus, abandon},
    path::PathEvent,
    units::{FourTuple, PathId},
};

pub use follow::Followed;
pub use local_end::LocalEnd;
pub(crate) use local_end::Resolved;
pub(crate) use news::{Outcome, PathNews};

use crate::{
    Connection,
    conn::{Conn, ConnShared, ConnState, Queue, WaitFor},
    error::{AbandonPathError, OpenPathError},
    socket::canonical,
};

/// A path that is ready for data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenedPath {
    /// Its identifier.
    pub id: PathId,
    /// Where it begins.
    pub local: SocketAddr,
    /// What is less than it should be, with the cure, for programs to print.
    pub warning: Option<String>,
}

impl Connection {
    /// Opens a further path (RFC 10069) from a local address or interface to an address of the peer,
    /// usually [`Self::remote_address`]. Ready once the path is proven to work; data may use it then.
    ///
    /// Only clients open paths, and both ends must have
    /// [`TransportConfig::multipath`](crate::TransportConfig). The path gets a socket of its own, which
    /// paths of other connections from the same place share.
    ///
    /// **Not cancel safe:** dropping the future gives the path up.
    ///
    /// # Errors
    /// [`OpenPathError`] says in a sentence what to do.
    pub async fn open_path(
        &self,
        local: impl Into<LocalEnd>,
        remote: SocketAddr,
    ) -> Result<OpenedPath, OpenPathError> {
        self.open_path_at(local, remote, PathCost::default()).await
    }

    /// As [`Self::open_path`], with a cost from the first packet on ([`Self::set_path_cost`]).
    ///
    /// # Errors
    /// As [`Self::open_path`].
    pub async fn open_path_at(
        &self,
        local: impl Into<LocalEnd>,
        remote: SocketAddr,
        cost: PathCost,
    ) -> Result<OpenedPath, OpenPathError> {
        let remote = canonical(remote);
        let attempt = Attempt::begin(self.conn(), &local.into(), remote, cost)?;
        let id = attempt.id;
        let decided = move |state: &mut ConnState| {
            let outcome = state.paths.outcome(id).map(Ok);
            outcome.or_else(|| state.alive().err().map(Err))
        };
        let local = attempt.local;
        match self.wait(Queue::Path, decided).await? {
            Outcome::Validated => Ok(attempt.succeed()),
            Outcome::NoAnswer => Err(OpenPathError::NoAnswer {
                local,
                remote,
                advice: advice::no_answer(local, remote),
            }),
            Outcome::NoRoute(reason) => Err(OpenPathError::NoRoute {
                local,
                remote,
                reason,
            }),
            Outcome::Unreachable(reason) => Err(OpenPathError::Unreachable {
                local,
                remote,
                reason,
            }),
            Outcome::Abandoned { code, by_peer } => Err(OpenPathError::Abandoned { code, by_peer }),
        }
    }

    /// Closes one of several paths. What is under way on it is sent again on others.
    ///
    /// # Errors
    /// [`AbandonPathError`] for a path that is not there, or the last one.
    pub fn close_path(&self, path: PathId) -> Result<(), AbandonPathError> {
        let now = self.conn().shard.now();
        self.conn().with(|state| {
            state.touched = true;
            let code = abandon::APPLICATION_ABANDON_PATH;
            state.quic.abandon_path(now, path, code)
        })
    }

    /// Asks both ends to use a path, or to keep it for when no other works.
    ///
    /// # Errors
    /// [`AbandonPathError::UnknownPath`].
    pub fn set_path_status(
        &self,
        path: PathId,
        status: PathStatus,
    ) -> Result<(), AbandonPathError> {
        self.conn().with(|state| {
            state.touched = true;
            state.quic.set_path_status(path, status)
        })
    }

    /// Sets what using a path costs: whether it is used only when others do not work, and how many bytes it
    /// may carry. At its cap a path is closed; if it is the last one, nothing more leaves. What the peer
    /// sends is not ours to stop: it is asked to keep such a path in reserve, and may send above the cap
    /// what it has under way when the path is closed.
    ///
    /// # Errors
    /// [`AbandonPathError::UnknownPath`].
    pub fn set_path_cost(&self, path: PathId, cost: PathCost) -> Result<(), AbandonPathError> {
        let now = self.conn().shard.now();
        self.conn().with(|state| {
            state.touched = true;
            state.quic.set_path_cost(now, path, cost)
        })
    }

    /// What happens to the connection's paths from now on.
    pub fn path_events(&self) -> PathEvents {
        let conn = Arc::clone(self.conn());
        let next = conn.state.lock().paths.next_number();
        PathEvents { conn, next }
    }
}

/// A path that is being opened; given up unless it succeeds.
struct Attempt<'a> {
    conn: &'a Conn,
    id: PathId,
    local: SocketAddr,
    warning: Option<String>,
    done: bool,
}

impl<'a> Attempt<'a> {
    fn begin(
        conn: &'a Conn,
        from: &LocalEnd,
        remote: SocketAddr,
        cost: PathCost,
    ) -> Result<Self, OpenPathError> {
        conn.state.lock().usable()?;
        let wanted = from.resolve(remote)?;
        let options = conn.shard.path_socket_options();
        let socket = conn.shard.path_sockets.open(&wanted, options)?;
        let (local, warning) = (socket.local(), socket.warning().map(str::to_owned));
        let over = FourTuple { local, remote };
        let now = conn.shard.now();
        let id = conn.with(|state| {
            state.usable()?;
            let id = state.quic.open_path(now, over)?;
            if cost != PathCost::default() {
                // It was opened just now.
                let _ = state.quic.set_path_cost(now, id, cost);
            }
            state.paths.begin(id, over, Some(socket));
            state.touched = true;
            Ok::<_, OpenPathError>(id)
        })?;
        Ok(Self {
            conn,
            id,
            local,
            warning,
            done: false,
        })
    }

    fn succeed(mut self) -> OpenedPath {
        self.done = true;
        OpenedPath {
            id: self.id,
            local: self.local,
            warning: self.warning.take(),
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let now = self.conn.shard.now();
        self.conn.with(|state| {
            state.paths.forget(self.id);
            if !self.done {
                // Fails only if it is gone already.
                let code = abandon::APPLICATION_ABANDON_PATH;
                let given_up = state.quic.abandon_path(now, self.id, code);
                state.touched |= given_up.is_ok();
            }
        });
    }
}

/// The events of a connection's paths, for one listener; does not keep the connection open.
///
/// A listener that is more than 64 events late misses the oldest.
#[derive(Debug)]
pub struct PathEvents {
    conn: Arc<ConnShared>,
    next: u64,
}

impl PathEvents {
    /// The next event; `None` once the connection has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<PathEvent> {
        let next = self.next;
        let wait = WaitFor::new(
            Arc::clone(&self.conn),
            Queue::Path,
            move |state: &mut ConnState| match state.paths.event(next) {
                Some(event) => Some(Some(event)),
                None => state.error.is_some().then_some(None),
            },
        );
        let (number, event) = wait.await?;
        self.next = number + 1;
        Some(event)
    }
}
