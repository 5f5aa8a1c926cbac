//! One connection, shared between its driver and the application.
//!
//! Purpose: application calls lock the connection, act on it directly, and wake the driver only
//! when something must be sent: no message passes a channel.
//! Owns: [`ConnShared`] (the lock, the queued flag), [`ConnState`] (the transport's connection
//! and who waits for what), [`Conn`] (a counted application handle), [`WaitFor`] (a future that
//! waits under the lock's protection).
//! Does not own: sending and receiving ([`crate::shard`]); the public surface
//! ([`crate::Connection`], streams).
//! Locking: `Shard` state before connection; never the other way round; wakers are woken after
//! both are released.

use std::{
    collections::BTreeMap,
    future::Future,
    io,
    ops::Deref,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tautline_transport::{
    connection::{self as quic, Event},
    endpoint::{ConnectionHandle, TokenStore},
    error::ConnectionError,
    message::{MessageEvent, MessageId},
    multipath::abandon,
    stream::{IdHash, StreamEvent},
    time::Instant,
    units::{Dir, FourTuple, StreamId},
};

use crate::{
    paths::{Outcome, PathNews},
    shard::Shard,
    wait::{Place, WakerSet},
};

/// What driver and application share.
#[derive(Debug)]
pub(crate) struct ConnShared {
    pub(crate) state: Mutex<ConnState>,
    pub(crate) handle: ConnectionHandle,
    pub(crate) shard: Arc<Shard>,
    /// Whether the driver already has this connection in a queue.
    pub(crate) queued: AtomicBool,
    /// Handles that the application holds.
    handles: AtomicUsize,
}

/// What the lock protects.
#[derive(Debug)]
pub(crate) struct ConnState {
    pub(crate) quic: quic::Connection,
    /// Why the connection ended, once it has.
    pub(crate) error: Option<ConnectionError>,
    /// What the network reported about the peer's address during the handshake.
    pub(crate) unreachable: Option<io::ErrorKind>,
    /// When the driver's timer queue will look at this connection.
    pub(crate) armed: Option<Instant>,
    /// The application did something that may need sending.
    pub(crate) touched: bool,
    /// The driver lets tasks go first that it just woke.
    pub(crate) yielded: bool,
    pub(crate) connected: bool,
    pub(crate) confirmed: bool,
    /// Where a client keeps the tokens of this server.
    pub(crate) tokens: Option<(String, Arc<dyn TokenStore>)>,
    pub(crate) waiting: Waiting,
    pub(crate) paths: PathNews,
}

/// Tasks that wait for this connection.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    handshake: WakerSet,
    closed: WakerSet,
    open: [WakerSet; 2],
    accept: [WakerSet; 2],
    datagram_in: WakerSet,
    datagram_out: WakerSet,
    message_in: WakerSet,
    message_out: WakerSet,
    path: WakerSet,
    /// Who waits for the fate of which message; gone when that is known.
    fates: BTreeMap<MessageId, WakerSet>,
    /// Readers that found nothing. Removed when woken or dropped.
    readers: StreamMap<Waker>,
    /// One entry per sending stream that the application holds.
    pub(crate) senders: StreamMap<Sender>,
}

/// By stream. Hashed alike in every run.
pub(crate) type StreamMap<V> = HashMap<StreamId, V, IdHash>;

/// An empty map of up to this many places stays as it is; a larger one gives its memory back.
const SMALL_MAP: usize = 128;

fn remove<V>(map: &mut StreamMap<V>, id: StreamId) -> Option<V> {
    let removed = map.remove(&id);
    if map.is_empty() && map.capacity() > SMALL_MAP {
        *map = StreamMap::default();
    }
    removed
}

/// What a live `SendStream` waits for or was told.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    pub(crate) writer: Option<Waker>,
    pub(crate) stopped: WakerSet,
    pub(crate) outcome: Option<SendOutcome>,
    /// The `SendStream` and futures of its end.
    holders: usize,
}

/// How a stream's sending side ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// Everything was acknowledged.
    Delivered,
    /// The peer sent STOP_SENDING with this code.
    Stopped(u64),
    /// The application gave it up.
    Reset,
}

/// What a [`WaitFor`] waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Queue {
    Handshake,
    Closed,
    Open(Dir),
    Accept(Dir),
    DatagramIn,
    DatagramOut,
    MessageIn,
    MessageOut,
    /// Anything about paths.
    Path,
    /// Of a message whose fate is open.
    Fate(MessageId),
    Stopped(StreamId),
}

const fn index(dir: Dir) -> usize {
    match dir {
        Dir::Bi => 0,
        Dir::Uni => 1,
    }
}

impl Waiting {
    fn queue(&mut self, queue: Queue) -> Option<&mut WakerSet> {
        Some(match queue {
            Queue::Handshake => &mut self.handshake,
            Queue::Closed => &mut self.closed,
            Queue::Open(dir) => self.open.get_mut(index(dir))?,
            Queue::Accept(dir) => self.accept.get_mut(index(dir))?,
            Queue::DatagramIn => &mut self.datagram_in,
            Queue::DatagramOut => &mut self.datagram_out,
            Queue::MessageIn => &mut self.message_in,
            Queue::MessageOut => &mut self.message_out,
            Queue::Path => &mut self.path,
            Queue::Fate(id) => self.fates.get_mut(&id)?,
            Queue::Stopped(id) => &mut self.senders.get_mut(&id)?.stopped,
        })
    }

    /// A reader found nothing, and wants to know of more.
    pub(crate) fn read(&mut self, id: StreamId, cx: &Context<'_>) {
        self.readers
            .entry(id)
            .and_modify(|waker| waker.clone_from(cx.waker()))
            .or_insert_with(|| cx.waker().clone());
    }

    /// Nobody waits to read any more, or whoever did can go on.
    pub(crate) fn take_reader(&mut self, id: StreamId) -> Option<Waker> {
        remove(&mut self.readers, id)
    }

    /// Somebody wants to know of a sending stream's end.
    pub(crate) fn hold_sender(&mut self, id: StreamId) {
        self.senders.entry(id).or_default().holders += 1;
    }

    /// Returns what is to be dropped outside of the lock.
    pub(crate) fn release_sender(&mut self, id: StreamId) -> Option<Sender> {
        let sender = self.senders.get_mut(&id)?;
        sender.holders = sender.holders.saturating_sub(1);
        if sender.holders == 0 {
            remove(&mut self.senders, id)
        } else {
            None
        }
    }

    fn wake(&mut self, queue: Queue, woken: &mut Vec<Waker>) {
        if let Some(set) = self.queue(queue) {
            set.take_all(woken);
        }
    }

    fn on_message_event(&mut self, event: MessageEvent, woken: &mut Vec<Waker>) {
        match event {
            MessageEvent::Fate(report) => {
                if let Some(mut set) = self.fates.remove(&report.id) {
                    set.take_all(woken);
                }
            }
            MessageEvent::Received => self.wake(Queue::MessageIn, woken),
            MessageEvent::Unblocked => self.wake(Queue::MessageOut, woken),
            _ => {}
        }
    }

    fn wake_everyone(&mut self, woken: &mut Vec<Waker>) {
        for dir in [Dir::Bi, Dir::Uni] {
            self.wake(Queue::Open(dir), woken);
            self.wake(Queue::Accept(dir), woken);
        }
        for queue in [
            Queue::Handshake,
            Queue::Closed,
            Queue::DatagramIn,
            Queue::DatagramOut,
            Queue::MessageIn,
            Queue::MessageOut,
            Queue::Path,
        ] {
            self.wake(queue, woken);
        }
        for mut set in std::mem::take(&mut self.fates).into_values() {
            set.take_all(woken);
        }
        woken.extend(std::mem::take(&mut self.readers).into_values());
        for sender in self.senders.values_mut() {
            woken.extend(sender.writer.take());
            sender.stopped.take_all(woken);
        }
    }
}

impl ConnState {
    pub(crate) fn new(quic: quic::Connection) -> Self {
        Self {
            quic,
            error: None,
            unreachable: None,
            armed: None,
            touched: false,
            yielded: false,
            connected: false,
            confirmed: false,
            tokens: None,
            waiting: Waiting::default(),
            paths: PathNews::default(),
        }
    }

    /// Fails with the reason once the connection has ended.
    pub(crate) fn alive(&self) -> Result<(), ConnectionError> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// As [`Self::alive`], and also once the transport has ended what it has not told yet: it keeps
    /// no streams from then on. Not for those who wait for events, which come before the end.
    pub(crate) fn usable(&self) -> Result<(), ConnectionError> {
        self.alive()?;
        self.quic.untold_end().cloned().map_or(Ok(()), Err)
    }

    /// Takes what the transport wants to tell, and collects who must hear of it, until `limit` tasks
    /// must. True when that was all.
    pub(crate) fn absorb_events(&mut self, woken: &mut Vec<Waker>, limit: usize) -> bool {
        while woken.len() < limit {
            let Some(event) = self.quic.poll_event() else {
                return true;
            };
            match event {
                Event::Connected => {
                    self.connected = true;
                    self.waiting.wake(Queue::Handshake, woken);
                }
                Event::HandshakeConfirmed => {
                    self.confirmed = true;
                    self.waiting.wake(Queue::Handshake, woken);
                }
                Event::HandshakeDataReady | Event::ZeroRttRejected => {
                    self.waiting.wake(Queue::Handshake, woken);
                }
                Event::Stream(event) => self.absorb_stream_event(event, woken),
                Event::DatagramReceived => self.waiting.wake(Queue::DatagramIn, woken),
                Event::DatagramsUnblocked => self.waiting.wake(Queue::DatagramOut, woken),
                Event::Message(event) => self.waiting.on_message_event(event, woken),
                Event::Path(event) => {
                    self.paths.on_event(event);
                    self.waiting.wake(Queue::Path, woken);
                }
                Event::Lost(error) => self.lose(error, woken),
                _ => {}
            }
        }
        false
    }

    /// A server gave us a token for the next time. RFC 9000 s8.1.3.
    pub(crate) fn keep_token(&mut self) {
        if let Some(token) = self.quic.take_validation_token()
            && let Some((server_name, store)) = &self.tokens
        {
            store.insert(server_name, self.quic.version(), token);
        }
    }

    fn absorb_stream_event(&mut self, event: StreamEvent, woken: &mut Vec<Waker>) {
        match event {
            StreamEvent::Opened(dir) => self.waiting.wake(Queue::Accept(dir), woken),
            StreamEvent::Available(dir) => self.waiting.wake(Queue::Open(dir), woken),
            StreamEvent::Readable(id) => woken.extend(self.waiting.take_reader(id)),
            StreamEvent::Writable(id) => {
                if let Some(sender) = self.waiting.senders.get_mut(&id) {
                    woken.extend(sender.writer.take());
                }
            }
            StreamEvent::Finished(id) => self.sending_over(id, SendOutcome::Delivered, woken),
            StreamEvent::Stopped { id, code } => {
                self.sending_over(id, SendOutcome::Stopped(code), woken);
            }
            _ => {}
        }
    }

    pub(crate) fn sending_over(
        &mut self,
        id: StreamId,
        outcome: SendOutcome,
        woken: &mut Vec<Waker>,
    ) {
        if let Some(sender) = self.waiting.senders.get_mut(&id) {
            sender.outcome.get_or_insert(outcome);
            woken.extend(sender.writer.take());
            sender.stopped.take_all(woken);
        }
    }

    /// The network says that the peer cannot be reached, before it was ever heard.
    pub(crate) fn attempt_failed(&mut self, reason: io::ErrorKind, woken: &mut Vec<Waker>) {
        self.unreachable = Some(reason);
        self.waiting.wake(Queue::Handshake, woken);
    }

    /// There is no way over `four_tuple`: an attempt over it has failed.
    pub(crate) fn unreachable(
        &mut self,
        now: Instant,
        four_tuple: &FourTuple,
        reason: io::ErrorKind,
        woken: &mut Vec<Waker>,
    ) {
        if !self.connected {
            self.attempt_failed(reason, woken);
        } else {
            let over = |it: &FourTuple| it == four_tuple;
            self.give_path_up(now, over, Outcome::NoRoute(reason), woken);
        }
    }

    /// The network calls the peer unreachable over such a four-tuple. Only attempts heed it: anyone may
    /// have said so. True when something is to be sent.
    pub(crate) fn called_unreachable(
        &mut self,
        now: Instant,
        over: impl Fn(&FourTuple) -> bool,
        reason: io::ErrorKind,
        woken: &mut Vec<Waker>,
    ) -> bool {
        if self.connected {
            return self.give_path_up(now, over, Outcome::Unreachable(reason), woken);
        }
        let (local, remote) = (self.quic.local_address(), self.quic.remote_address());
        if over(&FourTuple { local, remote }) {
            self.attempt_failed(reason, woken);
        }
        false
    }

    fn give_path_up(
        &mut self,
        now: Instant,
        over: impl Fn(&FourTuple) -> bool,
        outcome: Outcome,
        woken: &mut Vec<Waker>,
    ) -> bool {
        let Some(id) = self.paths.fail(over, outcome) else {
            return false;
        };
        // Fails only if it is gone.
        let code = abandon::PATH_UNSTABLE_OR_POOR;
        let _ = self.quic.abandon_path(now, id, code);
        self.waiting.wake(Queue::Path, woken);
        true
    }

    /// The connection is over; everybody hears of it. The first reason stays.
    pub(crate) fn lose(&mut self, error: ConnectionError, woken: &mut Vec<Waker>) {
        self.error.get_or_insert(error);
        self.paths.release();
        self.waiting.wake_everyone(woken);
    }
}

impl ConnShared {
    /// The connection and its first application handle.
    pub(crate) fn new(
        quic: quic::Connection,
        handle: ConnectionHandle,
        shard: Arc<Shard>,
    ) -> (Arc<Self>, Conn) {
        let shared = Arc::new(Self {
            state: Mutex::new(ConnState::new(quic)),
            handle,
            shard,
            queued: AtomicBool::new(false),
            handles: AtomicUsize::new(1),
        });
        let conn = Conn(Arc::clone(&shared));
        (shared, conn)
    }

    /// Acts on the connection; wakes the driver if the action touched it.
    pub(crate) fn with<R>(self: &Arc<Self>, act: impl FnOnce(&mut ConnState) -> R) -> R {
        let mut state = self.state.lock();
        let result = act(&mut state);
        let touched = std::mem::take(&mut state.touched);
        drop(state);
        if touched {
            self.shard.notify(self);
        }
        result
    }

    /// Closes at once with an application code; what was not delivered is lost.
    pub(crate) fn close(self: &Arc<Self>, code: u64, reason: Bytes) {
        let now = self.shard.clock.now();
        let mut woken = Vec::new();
        self.with(|state| {
            if state.error.is_none() {
                // What ended it before counts, though nobody was told yet.
                let lost = state.usable().err();
                state.quic.close(now, code, reason);
                let lost = lost.unwrap_or(ConnectionError::LocallyClosed);
                state.lose(lost, &mut woken);
                state.touched = true;
            }
        });
        woken.into_iter().for_each(Waker::wake);
    }
}

/// An application's handle; the connection closes when the last one is dropped.
#[derive(Debug)]
pub(crate) struct Conn(pub(crate) Arc<ConnShared>);

impl Deref for Conn {
    type Target = Arc<ConnShared>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Clone for Conn {
    fn clone(&self) -> Self {
        self.0.handles.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.close(0, Bytes::new());
            self.0.with(|state| {
                // The driver keeps the rest until it is drained. What the application will never
                // read need not wait for that.
                state.keep_token();
                state.quic.abandon();
            });
        }
    }
}

/// Ways in which a waiting future holds its connection.
pub(crate) trait Hold {
    fn shared(&self) -> &Arc<ConnShared>;
}

impl Hold for Conn {
    fn shared(&self) -> &Arc<ConnShared> {
        &self.0
    }
}

impl Hold for &Conn {
    fn shared(&self) -> &Arc<ConnShared> {
        &self.0
    }
}

/// Does not count as use of the connection: it may be closed meanwhile.
impl Hold for Arc<ConnShared> {
    fn shared(&self) -> &Arc<ConnShared> {
        self
    }
}

/// Waits in a queue of a connection until `attempt` gives something.
///
/// `attempt` runs under the connection's lock, and this future registers under the same lock, so
/// that no event falls between. Dropping the future leaves the queue; whatever `attempt` took, it
/// took in the same step in which the future became ready: cancelling loses nothing.
pub(crate) struct WaitFor<C, F>
where
    C: Hold,
{
    conn: C,
    queue: Queue,
    place: Option<Place>,
    attempt: F,
}

impl<C: Hold, F> WaitFor<C, F> {
    pub(crate) fn new(conn: C, queue: Queue, attempt: F) -> Self {
        Self {
            conn,
            queue,
            place: None,
            attempt,
        }
    }

    pub(crate) fn conn(&self) -> &C {
        &self.conn
    }
}

impl<C, F, T> Future for WaitFor<C, F>
where
    C: Hold + Unpin,
    F: FnMut(&mut ConnState) -> Option<T> + Unpin,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Self {
            conn,
            queue,
            place,
            attempt,
        } = self.get_mut();
        conn.shared().with(|state| match attempt(state) {
            Some(value) => Poll::Ready(value),
            None => {
                if let Queue::Fate(id) = queue {
                    state.waiting.fates.entry(*id).or_default();
                }
                if let Some(set) = state.waiting.queue(*queue) {
                    set.register(place, cx);
                }
                Poll::Pending
            }
        })
    }
}

impl<C: Hold, F> std::fmt::Debug for WaitFor<C, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitFor")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl<C: Hold, F> Drop for WaitFor<C, F> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let mut state = self.conn.shared().state.lock();
            if let Some(set) = state.waiting.queue(self.queue) {
                set.remove(place);
            }
        }
    }
}
