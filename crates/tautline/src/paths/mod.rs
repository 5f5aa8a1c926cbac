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

pub(crate) use advice::no_answer;
pub use follow::Followed;
pub use local_end::LocalEnd;
pub(crate) use local_end::Resolved;
pub(crate) use news::{Outcome, PathNews};

use crate::{
    Connection,
    conn::{Conn, ConnShared, ConnState, Queue, WaitFor},
    error::{AbandonPathError, ConnectionError, LocalEndError, OpenPathError},
    socket::canonical,
};

/// Addresses that [`Connection::open_path_from`] tries: each takes until it is known not to answer.
const MAX_TRIED: usize = 4;

/// A path that is ready for data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenedPath {
    /// Its identifier.
    pub id: PathId,
    /// Where it begins.
    pub local: SocketAddr,
    /// Where it leads.
    pub remote: SocketAddr,
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
                advice: no_answer(local, remote),
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

    /// As [`Self::open_path_at`], to the first of [`Self::peer_addresses`] that `local` leads to and that
    /// answers over it: an interface may lead to the peer by IPv6 only, or to one of its addresses.
    ///
    /// At most four addresses are tried from a place that leads to them.
    ///
    /// # Errors
    /// As [`Self::open_path`]; of several addresses, of the one at which the attempt got furthest.
    pub async fn open_path_from(
        &self,
        local: impl Into<LocalEnd>,
        cost: PathCost,
    ) -> Result<OpenedPath, OpenPathError> {
        let local = local.into();
        let mut worst: Option<OpenPathError> = None;
        let mut tried = 0;
        for remote in self.peer_addresses() {
            let error = match self.open_path_at(local.clone(), remote, cost).await {
                Ok(path) => return Ok(path),
                Err(error) => error,
            };
            let Some(distance) = distance(&error) else {
                let lost = matches!(error, OpenPathError::ConnectionLost(_));
                return Err(worst.filter(|_| !lost).unwrap_or(error));
            };
            let further = |known: &OpenPathError| self::distance(known) < Some(distance);
            if worst.as_ref().is_none_or(further) {
                worst = Some(error);
            }
            tried += usize::from(distance > 0);
            if tried == MAX_TRIED {
                break;
            }
        }
        // There is always the address in use.
        Err(worst.unwrap_or(OpenPathError::ConnectionLost(
            ConnectionError::LocallyClosed,
        )))
    }

    /// Where the peer can be reached, as far as is known: [`Self::remote_address`], then the addresses
    /// that its name had ([`Endpoint::connect_host`](crate::Endpoint::connect_host)), then those of
    /// [`Self::add_peer_addresses`].
    pub fn peer_addresses(&self) -> Vec<SocketAddr> {
        let state = self.conn().state.lock();
        let mut all = vec![state.quic.remote_address()];
        for address in state.paths.peers() {
            if !all.contains(address) {
                all.push(*address);
            }
        }
        all
    }

    /// Tells that the peer can be reached at these addresses too; [`Self::follow_interfaces`] and
    /// [`Self::open_path_from`] use them. Beyond 16, those that its name had included, they are left out.
    pub fn add_peer_addresses(&self, addresses: impl IntoIterator<Item = SocketAddr>) {
        // Collected outside of the lock: the iterator may use the connection.
        let addresses: Vec<_> = addresses.into_iter().take(64).collect();
        self.conn().state.lock().paths.note_peers(addresses);
    }

    /// Closes one of several paths. What is under way on it is sent again on others.
    ///
    /// # Errors
    /// [`AbandonPathError`] for a path that is not there, or the only one that has worked.
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

/// How far an attempt to open a path got at one address, where another one is worth a try.
fn distance(error: &OpenPathError) -> Option<u8> {
    match error {
        OpenPathError::Local(LocalEndError::TooMany { .. }) => None,
        OpenPathError::Local(_) => Some(0),
        OpenPathError::NoRoute { .. } => Some(1),
        OpenPathError::Unreachable { .. } => Some(2),
        OpenPathError::NoAnswer { .. } => Some(3),
        _ => None,
    }
}

/// A path that is being opened; given up unless it succeeds.
struct Attempt<'a> {
    conn: &'a Conn,
    id: PathId,
    local: SocketAddr,
    remote: SocketAddr,
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
            remote,
            warning,
            done: false,
        })
    }

    fn succeed(mut self) -> OpenedPath {
        self.done = true;
        OpenedPath {
            id: self.id,
            local: self.local,
            remote: self.remote,
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
