//! What the shards of one endpoint share.
//!
//! Owns: [`Hub`]: the queue of knocking clients, the count of connections, who waits for either.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;
use tautline_transport::trim;

use super::Incoming;
use crate::{
    shard::Shard,
    wait::{Place, WakerSet},
};

/// Clients that may wait to be accepted; above it, new ones are refused. Each holds at most
/// `ServerConfig::incoming_buffer_bytes`.
const KNOCKING_CLIENTS: usize = 4_096;

/// Shared by endpoint handles and drivers.
#[derive(Debug)]
pub(crate) struct Hub {
    shards: Vec<Arc<Shard>>,
    /// Endpoint handles that the application holds.
    handles: AtomicUsize,
    next_shard: AtomicUsize,
    closed: AtomicBool,
    state: Mutex<HubState>,
}

#[derive(Debug, Default)]
struct HubState {
    knocking: VecDeque<Incoming>,
    not_accepting: bool,
    /// Connections whose state is held, draining ones included.
    live: usize,
    dead_shards: usize,
    accepting: WakerSet,
    idle: WakerSet,
}

/// What a [`HubWait`] waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum HubQueue {
    Accept,
    Idle,
}

impl HubState {
    fn queue(&mut self, queue: HubQueue) -> &mut WakerSet {
        match queue {
            HubQueue::Accept => &mut self.accepting,
            HubQueue::Idle => &mut self.idle,
        }
    }
}

impl Hub {
    pub(super) fn new(shards: Vec<Arc<Shard>>) -> Self {
        Self {
            shards,
            handles: AtomicUsize::new(0),
            next_shard: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    pub(crate) fn shard(&self, index: u16) -> Option<&Arc<Shard>> {
        self.shards.get(usize::from(index))
    }

    pub(super) fn shards(&self) -> &[Arc<Shard>] {
        &self.shards
    }

    /// The shard of the next outgoing connection.
    pub(super) fn next_shard(&self) -> Option<&Arc<Shard>> {
        let turn = self.next_shard.fetch_add(1, Ordering::Relaxed);
        self.shards.get(turn.checked_rem(self.shards.len())?)
    }

    pub(super) fn add_handle(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    /// The drivers end once their connections have.
    pub(super) fn remove_handle(&self) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.stop_accepting();
            self.shards.iter().for_each(|shard| shard.notify_driver());
        }
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.handles.load(Ordering::Acquire) == 0
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.stop_accepting();
    }

    /// Refuses who knocks from now on, and who waits.
    pub(super) fn stop_accepting(&self) {
        let refused = self.change(|state, woken| {
            state.not_accepting = true;
            state.accepting.take_all(woken);
            std::mem::take(&mut state.knocking)
        });
        // Dropping refuses; outside our lock, because it takes the shard's.
        drop(refused);
    }

    /// A client wants in.
    pub(crate) fn knock(&self, incoming: Incoming) {
        let refused = self.change(|state, woken| {
            if state.not_accepting || state.knocking.len() >= KNOCKING_CLIENTS {
                return Some(incoming);
            }
            state.knocking.push_back(incoming);
            state.accepting.take_all(woken);
            None
        });
        drop(refused);
    }

    pub(crate) fn connection_added(&self) {
        self.state.lock().live += 1;
    }

    pub(crate) fn connections_removed(&self, count: usize) {
        self.change(|state, woken| {
            state.live = state.live.saturating_sub(count);
            if state.live == 0 && count > 0 {
                state.idle.take_all(woken);
            }
        });
    }

    /// A driver is gone, with its runtime.
    pub(crate) fn shard_died(&self) {
        self.change(|state, woken| {
            state.dead_shards += 1;
            state.accepting.take_all(woken);
            state.idle.take_all(woken);
        });
    }

    pub(super) fn live_connections(&self) -> usize {
        self.state.lock().live
    }

    fn change<R>(&self, act: impl FnOnce(&mut HubState, &mut Vec<Waker>) -> R) -> R {
        let mut woken = Vec::new();
        let result = act(&mut self.state.lock(), &mut woken);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// The next client, or `None` when none will come.
    pub(super) fn accept(&self) -> HubWait<'_, Option<Incoming>> {
        HubWait::new(self, HubQueue::Accept, |hub, state| {
            match state.knocking.pop_front() {
                Some(incoming) => {
                    trim::deque(&mut state.knocking);
                    Some(Some(incoming))
                }
                None if state.not_accepting || state.dead_shards >= hub.shards.len() => Some(None),
                None => None,
            }
        })
    }

    /// Ready when no connection is left.
    pub(super) fn idle(&self) -> HubWait<'_, ()> {
        HubWait::new(self, HubQueue::Idle, |hub, state| {
            (state.live == 0 || state.dead_shards >= hub.shards.len()).then_some(())
        })
    }
}

/// Waits under the hub's lock. Dropping it leaves nothing behind and takes nothing.
#[derive(Debug)]
pub(super) struct HubWait<'a, T> {
    hub: &'a Hub,
    queue: HubQueue,
    place: Option<Place>,
    attempt: fn(&Hub, &mut HubState) -> Option<T>,
}

impl<'a, T> HubWait<'a, T> {
    fn new(hub: &'a Hub, queue: HubQueue, attempt: fn(&Hub, &mut HubState) -> Option<T>) -> Self {
        Self {
            hub,
            queue,
            place: None,
            attempt,
        }
    }
}

impl<T> Future for HubWait<'_, T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        let mut state = this.hub.state.lock();
        match (this.attempt)(this.hub, &mut state) {
            Some(value) => Poll::Ready(value),
            None => {
                state.queue(this.queue).register(&mut this.place, cx);
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for HubWait<'_, T> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.hub.state.lock().queue(self.queue).remove(place);
        }
    }
}
