//! A shard: its socket (and those of further addresses), its connections, and the task that runs them.
//!
//! Purpose: run the state machines of many connections in one task, so that a packet passes no
//! channel on its way from the socket to the application or back.
//! Owns: [`Shard`] (what applications reach: the connection table, the dirty queue, the driver's
//! waker), [`Driver`] (`driver.rs`: receive, run, send, sleep; its sockets: `io.rs`), timers (`timers.rs`), packets on
//! the way between shards (`handover.rs`), sockets of further paths (`path_sockets.rs`), full ones (`full.rs`).
//! Does not own: what a connection does; how handles behave ([`crate::conn`]).
//! Called by: `Endpoint` (connect, accept, close), connections (notify).

mod driver;
mod full;
mod handover;
mod io;
mod path_sockets;
mod timers;
mod turn;
mod wake;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tautline_transport::{
    connection as quic,
    endpoint::{self as transport, ConnectionHandle, Transmit},
    error::{ConnectionError, TransportError},
    time::Instant,
    trim,
};

use crate::{
    clock::Clock,
    conn::{Conn, ConnShared},
    endpoint::Hub,
    socket::{BindOptions, BoundSocket, WantedBuffers},
};
pub(crate) use driver::{Driver, Steering};
use handover::Inbox;
pub(crate) use io::ShardSockets;
use path_sockets::PathSockets;
pub(crate) use path_sockets::SocketUse;
use wake::DriverWaker;

/// What the applications and the driver of one shard share.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) index: u16,
    pub(crate) clock: Clock,
    pub(crate) hub: Weak<Hub>,
    /// Kernel buffers to ask for with every socket.
    buffers: WantedBuffers,
    pub(crate) state: Mutex<ShardState>,
    pub(crate) counters: Counters,
    /// Connections that applications touched since the driver last looked.
    dirty: Mutex<Vec<Arc<ConnShared>>>,
    inbox: Inbox,
    waker: DriverWaker,
    pub(crate) path_sockets: PathSockets,
}

/// What a shard's lock protects.
#[derive(Debug)]
pub(crate) struct ShardState {
    pub(crate) endpoint: transport::Endpoint,
    pub(crate) table: Table,
    /// A socket the driver shall use from now on.
    pub(crate) new_socket: Option<BoundSocket>,
    /// Refusals and Retries that the application decided on.
    answers: VecDeque<(Transmit, Vec<u8>)>,
    /// The driver is gone: nothing moves any more.
    pub(crate) dead: bool,
}

/// Refusals and Retries that may wait for the driver; 1.2 KiB each at most.
const QUEUED_ANSWERS: usize = 256;

impl ShardState {
    /// Gives the driver a stateless answer to send. When too many wait, it is dropped.
    pub(crate) fn queue_answer(&mut self, transmit: Transmit, contents: Vec<u8>) {
        if self.answers.len() < QUEUED_ANSWERS {
            self.answers.push_back((transmit, contents));
        }
    }
}

/// Connections by handle.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Vec<Option<Arc<ConnShared>>>,
    live: usize,
}

impl Table {
    pub(crate) fn insert(&mut self, conn: Arc<ConnShared>) {
        let ConnectionHandle(index) = conn.handle;
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        if let Some(slot) = self.slots.get_mut(index)
            && slot.replace(conn).is_none()
        {
            self.live += 1;
        }
    }

    pub(crate) fn get(&self, handle: ConnectionHandle) -> Option<&Arc<ConnShared>> {
        self.slots.get(handle.0)?.as_ref()
    }

    pub(crate) fn remove(&mut self, handle: ConnectionHandle) -> Option<Arc<ConnShared>> {
        let removed = self.slots.get_mut(handle.0)?.take();
        self.live -= usize::from(removed.is_some());
        while matches!(self.slots.last(), Some(None)) {
            self.slots.pop();
        }
        trim::vec(&mut self.slots);
        removed
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<ConnShared>> {
        self.slots.iter().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }
}

/// What a shard has done.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) received_datagrams: AtomicU64,
    pub(crate) received_batches: AtomicU64,
    pub(crate) sent_datagrams: AtomicU64,
    pub(crate) sent_batches: AtomicU64,
    pub(crate) send_failures: AtomicU64,
    pub(crate) handed_over: AtomicU64,
    pub(crate) handover_drops: AtomicU64,
}

/// Adds to a counter that one task writes and others read.
pub(crate) fn count(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl Shard {
    pub(crate) fn new(
        index: u16,
        clock: Clock,
        hub: Weak<Hub>,
        endpoint: transport::Endpoint,
        buffers: WantedBuffers,
    ) -> Self {
        Self {
            index,
            clock,
            hub,
            buffers,
            state: Mutex::new(ShardState {
                endpoint,
                table: Table::default(),
                new_socket: None,
                answers: VecDeque::new(),
                dead: false,
            }),
            counters: Counters::default(),
            dirty: Mutex::default(),
            inbox: Inbox::default(),
            waker: DriverWaker::default(),
            path_sockets: PathSockets::default(),
        }
    }

    /// Asks the driver to look at a connection.
    pub(crate) fn notify(&self, conn: &Arc<ConnShared>) {
        if !conn.queued.swap(true, Ordering::AcqRel) {
            self.dirty.lock().push(Arc::clone(conn));
            self.waker.notify();
        }
    }

    /// Asks the driver to look at the shard itself.
    pub(crate) fn notify_driver(&self) {
        self.waker.notify();
    }

    /// Takes a new connection in. The caller holds the lock of `state`.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        state: &mut ShardState,
        handle: ConnectionHandle,
        quic: quic::Connection,
    ) -> Conn {
        let (shared, conn) = ConnShared::new(quic, handle, Arc::clone(self));
        state.table.insert(Arc::clone(&shared));
        if let Some(hub) = self.hub.upgrade() {
            hub.connection_added();
        }
        self.notify(&shared);
        conn
    }

    /// Nothing moves any more: every connection is lost.
    fn bury(&self) {
        let lost = {
            let mut state = self.state.lock();
            state.dead = true;
            std::mem::take(&mut state.table)
        };
        let error = ConnectionError::Transport(TransportError::internal(
            "the endpoint's runtime was shut down",
        ));
        let mut woken = Vec::new();
        for conn in lost.iter() {
            conn.state.lock().lose(error.clone(), &mut woken);
        }
        self.dirty.lock().clear();
        woken.into_iter().for_each(std::task::Waker::wake);
        if let Some(hub) = self.hub.upgrade() {
            hub.connections_removed(lost.len());
            hub.shard_died();
        }
    }

    /// How to bind a socket for a path.
    pub(crate) fn path_socket_options(&self) -> BindOptions {
        BindOptions {
            reuse_port: false,
            buffers: self.buffers,
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }
}
