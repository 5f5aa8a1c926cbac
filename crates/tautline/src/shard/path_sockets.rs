//! Sockets for paths from other addresses than the endpoint's own.
//!
//! Purpose: whoever opens a path binds its socket at once and hears of a refusal; the driver takes it
//! over before anything is sent there.
//! Owns: which of them there are, who uses them. A socket that nobody uses is kept for a while, since
//! packets may be on their way to it, and may be used again.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

use crate::{
    error::LocalEndError,
    paths::Resolved,
    socket::{BindOptions, BoundSocket},
};

/// More than this at once are refused, each costs its kernel buffers.
const MAX_SOCKETS: usize = 64;

/// Of one shard.
#[derive(Debug, Default)]
pub(crate) struct PathSockets {
    state: Mutex<State>,
    /// The driver has not seen all of them.
    news: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    known: Vec<Arc<PathSocket>>,
    unclaimed: Vec<(BoundSocket, Arc<PathSocket>)>,
}

/// One of them, as those see it who do not send.
#[derive(Debug)]
pub(crate) struct PathSocket {
    wanted: Resolved,
    local: SocketAddr,
    warning: Option<String>,
    users: AtomicUsize,
}

/// Keeps a socket open.
#[derive(Debug)]
pub(crate) struct SocketUse(Arc<PathSocket>);

impl SocketUse {
    /// Where it is bound.
    pub(crate) fn local(&self) -> SocketAddr {
        self.0.local
    }

    /// What is less than it should be.
    pub(crate) fn warning(&self) -> Option<&str> {
        self.0.warning.as_deref()
    }
}

impl Drop for SocketUse {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}

impl PathSocket {
    /// Whether some path needs it.
    pub(super) fn is_used(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }
}

impl PathSockets {
    /// The socket for paths from `wanted`: one that is there, or a new one.
    pub(crate) fn open(
        &self,
        wanted: &Resolved,
        options: BindOptions,
    ) -> Result<SocketUse, LocalEndError> {
        let mut state = self.state.lock();
        let socket = match state.known.iter().find(|socket| socket.wanted == *wanted) {
            Some(socket) => Arc::clone(socket),
            None if state.known.len() >= MAX_SOCKETS => {
                return Err(LocalEndError::TooMany { max: MAX_SOCKETS });
            }
            None => {
                let (bound, warning) = wanted.bind(options)?;
                // Only clients have paths from other places, and they want to know of a refused port.
                bound.report_errors();
                let socket = Arc::new(PathSocket {
                    wanted: wanted.clone(),
                    local: bound.local_addr(),
                    warning,
                    users: AtomicUsize::new(0),
                });
                state.known.push(Arc::clone(&socket));
                state.unclaimed.push((bound, Arc::clone(&socket)));
                self.news.store(true, Ordering::Release);
                socket
            }
        };
        // Under the lock, so that the driver does not close it meanwhile.
        socket.users.fetch_add(1, Ordering::AcqRel);
        Ok(SocketUse(socket))
    }

    /// Sockets that the driver has not got yet.
    pub(super) fn take_unclaimed(&self) -> Vec<(BoundSocket, Arc<PathSocket>)> {
        if !self.news.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut self.state.lock().unclaimed)
    }

    /// True when nobody uses the socket, and nobody will: the driver may close it.
    pub(super) fn give_up(&self, socket: &Arc<PathSocket>) -> bool {
        let mut state = self.state.lock();
        let unused = !socket.is_used();
        if unused {
            state.known.retain(|known| !Arc::ptr_eq(known, socket));
        }
        unused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_shared_and_given_up_when_unused() {
        let sockets = PathSockets::default();
        let wanted = Resolved {
            address: "127.0.0.1:0".parse().unwrap(),
            interface: None,
            index: None,
        };
        let options = BindOptions::default();
        let first = sockets.open(&wanted, options).unwrap();
        let second = sockets.open(&wanted, options).unwrap();
        assert_eq!(first.local(), second.local());
        let unclaimed = sockets.take_unclaimed();
        assert_eq!(unclaimed.len(), 1);
        assert!(sockets.take_unclaimed().is_empty());
        let (_, socket) = &unclaimed[0];
        drop(first);
        assert!(!sockets.give_up(socket));
        drop(second);
        assert!(sockets.give_up(socket));
        let third = sockets.open(&wanted, options).unwrap();
        assert_eq!(sockets.take_unclaimed().len(), 1);
        assert_eq!(third.warning(), None);
    }
}
