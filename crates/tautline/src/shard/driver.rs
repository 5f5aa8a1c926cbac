//! The task that runs a shard: receive, run what is due, send, sleep.
//!
//! Every turn is bounded: so many receive batches, so many send batches per connection and in
//! all. What is left over waits its turn at the back of a queue, so that one busy connection
//! delays the others by at most its share, and other tasks of the runtime get the thread.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::BytesMut;
use parking_lot::MutexGuard;
use tautline_transport::{
    connection::{ConnectionEvent, EndpointEvent},
    endpoint::{ConnectionHandle, DatagramEvent, DatagramMeta, Transmit},
    time::{Instant, earliest},
    trim,
    units::FourTuple,
};

use super::{
    Shard, ShardState, count,
    full::Patience,
    handover,
    io::{Io, OLD_SOCKET_LIFETIME, ShardSockets},
    timers::TimerQueue,
};
use crate::{
    conn::{ConnShared, ConnState},
    endpoint::{Hub, Incoming},
    socket::{Received, Sent, canonical},
    timer::Timer,
};

/// Receive batches (of up to 64 KiB) taken before anything is sent and readers get their turn. Few
/// enough that data is still in the cache when it is read, and that streams need not copy it out
/// of the receive buffers meanwhile.
const RECEIVE_BATCHES_PER_ROUND: usize = 4;
/// Send batches (of up to 64 datagrams) that one connection may send before the next one's turn.
const SEND_BATCHES_PER_CONNECTION: usize = 2;
/// Send batches in one round.
const SEND_BATCHES_PER_ROUND: usize = 32;
/// Connections looked at in one round.
const CONNECTIONS_PER_ROUND: usize = 256;
/// Rounds in one turn, after which other tasks get the thread.
const ROUNDS_PER_TURN: usize = 8;
/// Unreachable reports heeded in one round; each may look at every connection.
const UNREACHABLE_PER_ROUND: usize = 4;
/// Tasks woken at once when little comes in; the rest hear of it after these have sent. With many
/// small requests at once, both ends then work at the same time instead of in turns.
const TASKS_PER_TURN: usize = 32;
/// A socket that only fails is asked again this often.
const RECEIVE_RETRY: Duration = Duration::from_millis(10);
/// A socket that was full is tried again after this long even if it does not tell.
const SEND_RETRY: Duration = Duration::from_millis(2);

/// Runs one shard. A future that ends when nobody needs the shard any more.
#[derive(Debug)]
pub(crate) struct Driver {
    shard: Arc<Shard>,
    hub: Arc<Hub>,
    io: Io,
    timer: Timer,
    timers: TimerQueue,
    /// Connections to look at; each has its `queued` flag set.
    ready: VecDeque<Arc<ConnShared>>,
    /// Connections that let the tasks they woke go first; each has its `queued` flag set.
    yielded: Vec<Arc<ConnShared>>,
    /// Scratch space of a turn.
    dirty: Vec<Arc<ConnShared>>,
    inbox: VecDeque<(DatagramMeta, BytesMut)>,
    knocking: Vec<tautline_transport::endpoint::Incoming>,
    woken: Vec<Waker>,
    /// Tasks were woken since the turn began.
    woke: bool,
    /// Where steering between shards applies.
    steering: Option<Steering>,
}

/// What a shard of several must know to recognise other shards' packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steering {
    pub(crate) shards: u16,
    pub(crate) cid_len: usize,
}

/// What came of a step of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// There is more to do at once.
    More,
    /// Nothing until something wakes the task.
    Idle,
}

impl Driver {
    /// Must be called inside the runtime that will run it.
    pub(crate) fn new(
        shard: Arc<Shard>,
        hub: Arc<Hub>,
        sockets: ShardSockets,
        steering: Option<Steering>,
    ) -> std::io::Result<Self> {
        Ok(Self {
            shard,
            hub,
            io: Io::new(sockets)?,
            timer: Timer::new(),
            timers: TimerQueue::default(),
            ready: VecDeque::new(),
            yielded: Vec::new(),
            dirty: Vec::new(),
            inbox: VecDeque::new(),
            knocking: Vec::new(),
            woken: Vec::new(),
            woke: false,
            steering,
        })
    }

    /// One round over everything that may have work.
    fn round(&mut self, cx: &mut Context<'_>) -> Step {
        self.take_new_socket();
        self.io.take_path_sockets(&self.shard);
        self.io.close_unused(&self.shard);
        self.take_inbox();
        let receiving = self.receive(cx);
        self.announce_incoming();
        self.send_answers();
        self.collect_dirty();
        self.collect_expired();
        let sending = self.run_connections(cx, receiving);
        if receiving == Step::More || sending == Step::More {
            Step::More
        } else {
            Step::Idle
        }
    }

    // ---- in ----

    fn receive(&mut self, cx: &mut Context<'_>) -> Step {
        let now = self.shard.now();
        if self.io.paused_until.is_some_and(|until| now < until) {
            return Step::Idle;
        }
        self.io.paused_until = None;
        self.receive_from_old(cx, now);
        // Several sockets give no more at once than one.
        let sockets = 1 + self.io.others.len();
        let (mut left, mut idle) = (RECEIVE_BATCHES_PER_ROUND, 0);
        while left > 0 && idle < sockets {
            let index = self.io.turn.of(sockets);
            let step = match index.checked_sub(1) {
                None => self.receive_from_main(cx, now),
                Some(other) => self.receive_from_other(cx, now, other),
            };
            match step {
                Step::More => (left, idle) = (left - 1, 0),
                Step::Idle => {
                    self.io.turn.pass();
                    idle += 1;
                }
            }
        }
        if left == 0 { Step::More } else { Step::Idle }
    }

    /// One batch of the main socket.
    fn receive_from_main(&mut self, cx: &mut Context<'_>, now: Instant) -> Step {
        if self.io.paused_until.is_some() {
            return Step::Idle;
        }
        match self.io.socket.poll_receive(cx, self.io.buffers.slot()) {
            Poll::Pending => return Step::Idle,
            Poll::Ready(Ok(received)) => {
                let in_order = self.deliver(received);
                self.io.turn.on_batch(in_order);
            }
            Poll::Ready(Err(_)) => {
                // Usually ICMP's report about an earlier datagram; asking consumed it.
                if !self.heed_unreachable(None) {
                    self.io.paused_until = Some(now + RECEIVE_RETRY);
                    return Step::Idle;
                }
                self.io.turn.pass();
            }
        }
        Step::More
    }

    /// One batch of a further socket.
    fn receive_from_other(&mut self, cx: &mut Context<'_>, now: Instant, index: usize) -> Step {
        if self.io.others_paused_until.is_some_and(|until| now < until) {
            return Step::Idle;
        }
        self.io.others_paused_until = None;
        let Io {
            others, buffers, ..
        } = &mut self.io;
        let Some(further) = others.get(index) else {
            return Step::Idle;
        };
        match further.socket.poll_receive(cx, buffers.slot()) {
            Poll::Pending => return Step::Idle,
            Poll::Ready(Ok(received)) => {
                let in_order = self.deliver(received);
                self.io.turn.on_batch(in_order);
            }
            Poll::Ready(Err(_)) => {
                if !self.heed_unreachable(Some(index)) {
                    // The others must not wait for it.
                    self.io.others_paused_until = Some(now + RECEIVE_RETRY);
                    return Step::Idle;
                }
                self.io.turn.pass();
            }
        }
        Step::More
    }

    fn receive_from_old(&mut self, cx: &mut Context<'_>, now: Instant) {
        let Some((socket, until)) = self.io.old.take() else {
            return;
        };
        if now >= until {
            return;
        }
        for _ in 0..RECEIVE_BATCHES_PER_ROUND {
            match socket.poll_receive(cx, self.io.buffers.slot()) {
                Poll::Pending => break,
                Poll::Ready(Ok(received)) => {
                    self.deliver(received);
                }
                Poll::Ready(Err(_)) => return,
            }
        }
        self.io.old = Some((socket, until));
    }

    /// Hands a batch to its connections, straight from the receive buffer. Whether it was what they waited for.
    fn deliver(&mut self, received: Received) -> bool {
        let counters = &self.shard.counters;
        count(&counters.received_batches, 1);
        count(
            &counters.received_datagrams,
            received.len.div_ceil(received.stride) as u64,
        );
        let meta = DatagramMeta {
            four_tuple: received.four_tuple,
            ecn: received.ecn,
        };
        let shard = Arc::clone(&self.shard);
        let mut state = shard.state.lock();
        let mut left = received.len;
        let mut route = Route::new(&mut state, shard.now());
        while left > 0 {
            let datagram = self.io.buffers.take(left.min(received.stride));
            // Small datagrams are copied out, so what was taken counts, not what was given.
            left -= left.min(received.stride);
            if let Some(owner) = foreign_owner(&shard, self.steering, &datagram) {
                hand_over(&self.hub, &shard, owner, meta, datagram);
                continue;
            }
            route.datagram(
                meta,
                datagram,
                &mut self.io,
                &mut self.ready,
                &mut self.knocking,
            );
        }
        route.in_order()
    }

    fn take_inbox(&mut self) {
        self.shard.inbox.take(&mut self.inbox);
        if self.inbox.is_empty() {
            return;
        }
        let taken = self.inbox.len();
        let shard = Arc::clone(&self.shard);
        let mut state = shard.state.lock();
        let mut route = Route::new(&mut state, shard.now());
        for (meta, datagram) in self.inbox.drain(..) {
            route.datagram(
                meta,
                datagram,
                &mut self.io,
                &mut self.ready,
                &mut self.knocking,
            );
        }
        if let Some(places) = trim::target(taken, self.inbox.capacity()) {
            self.inbox.shrink_to(places);
        }
    }

    /// Tells attempts to reach an address from a socket ([`Io::other_at`]) that the network calls it
    /// unreachable.
    fn heed_unreachable(&mut self, other: Option<usize>) -> bool {
        let mut heard = false;
        let now = self.shard.now();
        for _ in 0..UNREACHABLE_PER_ROUND {
            let Some((remote, reason)) = self.io.next_unreachable(other) else {
                break;
            };
            heard = true;
            let conns: Vec<_> = self.shard.state.lock().table.iter().cloned().collect();
            for conn in conns {
                let mut state = conn.state.lock();
                // From another place it may be reached all the same.
                let over =
                    |it: &FourTuple| it.remote == remote && self.io.other_at(it.local) == other;
                if state.called_unreachable(now, over, reason, &mut self.woken) {
                    enqueue(&mut self.ready, &conn);
                }
            }
        }
        self.wake_tasks();
        heard
    }

    fn announce_incoming(&mut self) {
        if self.knocking.is_empty() {
            return;
        }
        for attempt in self.knocking.drain(..) {
            self.hub
                .knock(Incoming::new(attempt, Arc::clone(&self.shard)));
        }
    }

    // ---- what is due ----

    fn collect_dirty(&mut self) {
        std::mem::swap(&mut *self.shard.dirty.lock(), &mut self.dirty);
        self.ready.extend(self.dirty.drain(..));
    }

    fn collect_expired(&mut self) {
        let now = self.shard.now();
        if self.timers.next().is_none_or(|at| at > now) {
            return;
        }
        let state = self.shard.state.lock();
        for handle in self.timers.expired(now) {
            if let Some(conn) = state.table.get(handle) {
                enqueue(&mut self.ready, conn);
            }
        }
    }

    // ---- out ----

    fn run_connections(&mut self, cx: &mut Context<'_>, receiving: Step) -> Step {
        if self.io.flush(cx, &self.shard).is_pending() {
            // The kernel's buffer is full: nobody sends until it has room, for a moment.
            return Step::Idle;
        }
        let mut batches = SEND_BATCHES_PER_ROUND;
        for _ in 0..CONNECTIONS_PER_ROUND {
            let Some(conn) = self.ready.pop_front() else {
                return Step::Idle;
            };
            if receiving == Step::Idle && self.yields(&conn) {
                self.yielded.push(conn);
                continue;
            }
            let sent = self.run_connection(cx, &conn, receiving);
            if self.io.unsent.is_some() {
                return Step::Idle;
            }
            batches = batches.saturating_sub(sent);
            if batches == 0 {
                break;
            }
        }
        if self.ready.is_empty() {
            Step::Idle
        } else {
            Step::More
        }
    }

    /// Wakes tasks with what has arrived. True when there were some and the connection shall let
    /// them go first, once: they are likely to answer, and one packet then carries answers and
    /// acknowledgements where two would.
    fn yields(&mut self, conn: &ConnShared) -> bool {
        let mut state = conn.state.lock();
        // The handshake is finished before anybody can close the connection.
        if std::mem::take(&mut state.yielded) || !state.connected {
            return false;
        }
        state.absorb_events(&mut self.woken, TASKS_PER_TURN);
        state.yielded = !self.woken.is_empty();
        drop(state);
        let yields = !self.woken.is_empty();
        self.wake_tasks();
        yields
    }

    /// Timeouts, sending, events. Returns how many batches it sent.
    fn run_connection(
        &mut self,
        cx: &mut Context<'_>,
        conn: &Arc<ConnShared>,
        receiving: Step,
    ) -> usize {
        // Before looking, so that what happens meanwhile queues it again.
        conn.queued.store(false, Ordering::Release);
        let mut sent = 0;
        let mut state = conn.state.lock();
        // Before the connection sends from there.
        self.io.take_path_sockets(&self.shard);
        let now = self.shard.now();
        // A deadline that what was just received has brought nearer is seen when the turn is over.
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(state.armed) && due(state.quic.poll_timeout()) {
            state.quic.handle_timeout(now);
        }
        // Connection IDs that what was received asks for belong into the flight that answers it: a client may open a
        // second path as soon as it has read that flight.
        let mut drained = self.answer_endpoint_events(conn, &mut state);
        while sent < SEND_BATCHES_PER_CONNECTION {
            let now = self.shard.now();
            let segments = self.io.max_segments();
            let Some(transmit) = state.quic.poll_transmit(now, &mut self.io.out, segments) else {
                break;
            };
            sent += 1;
            // The application may use the connection during the system call.
            let outcome = MutexGuard::unlocked(&mut state, || self.io.send(cx, transmit, now));
            match outcome {
                Poll::Ready(Sent::Unreachable(reason)) => {
                    let now = self.shard.now();
                    state.unreachable(now, &transmit.four_tuple, reason, &mut self.woken);
                }
                // RFC 9000 s9: only clients move.
                Poll::Ready(Sent::Moved) if state.quic.side().is_client() => {
                    let anywhere = self.io.socket_for(&transmit).local_addr();
                    let former = transmit.four_tuple.local;
                    state.quic.rebind_from(self.shard.now(), former, anywhere);
                }
                Poll::Ready(Sent::Dropped) => count(&self.shard.counters.send_failures, 1),
                Poll::Ready(_) => {}
                Poll::Pending => break,
            }
            count_sent(&self.shard, &transmit);
        }
        let limit = match receiving {
            // Batches as large as they come are cheapest.
            Step::More => usize::MAX,
            Step::Idle => TASKS_PER_TURN,
        };
        let heard = state.absorb_events(&mut self.woken, limit);
        // The next turn sends what these tasks say before it wakes more.
        state.yielded = !heard;
        state.keep_token();
        drained |= self.answer_endpoint_events(conn, &mut state);
        let deadline = if drained {
            // There is no next turn.
            state.absorb_events(&mut self.woken, usize::MAX);
            None
        } else {
            state.quic.poll_timeout()
        };
        self.timers.set(conn.handle, &mut state.armed, deadline);
        drop(state);
        self.wake_tasks();
        if drained {
            self.forget(conn.handle);
        } else if !heard || sent == SEND_BATCHES_PER_CONNECTION || self.io.unsent.is_some() {
            enqueue(&mut self.ready, conn);
        }
        for other in self.io.heard_icmp() {
            self.heed_unreachable(other);
        }
        sent
    }

    /// True when the endpoint shall forget the connection.
    fn answer_endpoint_events(
        &mut self,
        conn: &Arc<ConnShared>,
        state: &mut MutexGuard<'_, ConnState>,
    ) -> bool {
        let mut drained = false;
        while let Some(event) = state.quic.poll_endpoint_event() {
            drained |= matches!(event, EndpointEvent::Drained);
            // The shard's lock comes first, so ours is given up for a moment.
            let answer: Option<ConnectionEvent> = MutexGuard::unlocked(state, || {
                let mut shard = self.shard.state.lock();
                shard.endpoint.handle_connection_event(conn.handle, event)
            });
            if let Some(answer) = answer {
                state.quic.handle_endpoint_event(answer);
                // New connection IDs want to be announced.
                enqueue(&mut self.ready, conn);
            }
        }
        drained
    }

    fn forget(&mut self, handle: ConnectionHandle) {
        let (removed, left) = {
            let mut state = self.shard.state.lock();
            (state.table.remove(handle), state.table.len())
        };
        self.hub.connections_removed(usize::from(removed.is_some()));
        self.shrink(left);
    }

    /// After a burst of connections, queues in which each of them once had its place need not be
    /// as long any more; what makes them long again is a burst of new ones.
    fn shrink(&mut self, connections: usize) {
        let places = |capacity, len: usize| trim::target(connections.max(len), capacity);
        if let Some(places) = places(self.ready.capacity(), self.ready.len()) {
            self.ready.shrink_to(places);
        }
        for queue in [&mut self.yielded, &mut self.dirty] {
            if let Some(places) = places(queue.capacity(), queue.len()) {
                queue.shrink_to(places);
            }
        }
        let mut dirty = self.shard.dirty.lock();
        if let Some(places) = places(dirty.capacity(), dirty.len()) {
            dirty.shrink_to(places);
        }
        drop(dirty);
        if let Some(places) = places(self.woken.capacity(), self.woken.len()) {
            self.woken.shrink_to(places);
        }
        if let Some(places) = places(self.knocking.capacity(), self.knocking.len()) {
            self.knocking.shrink_to(places);
        }
    }

    /// Refusals and Retries; not worth waiting for a busy socket.
    fn send_answers(&mut self) {
        let mut state = self.shard.state.lock();
        let waited = state.answers.len();
        while let Some((transmit, contents)) = state.answers.pop_front() {
            let _ = self.io.socket_for(&transmit).try_send(&transmit, &contents);
        }
        if let Some(places) = trim::target(waited, state.answers.capacity()) {
            state.answers.shrink_to(places);
        }
    }

    fn wake_tasks(&mut self) {
        self.woke |= !self.woken.is_empty();
        self.woken.drain(..).for_each(Waker::wake);
    }

    // ---- around ----

    /// After a rebind: every connection moves.
    fn take_new_socket(&mut self) {
        let (new, conns) = {
            let mut state = self.shard.state.lock();
            let Some(new) = state.new_socket.take() else {
                return;
            };
            (new, state.table.iter().cloned().collect::<Vec<_>>())
        };
        let local = new.local_addr();
        let Ok(socket) = new.into_socket() else {
            return;
        };
        let now = self.shard.now();
        let old = std::mem::replace(&mut self.io.socket, socket);
        let former = canonical(old.local_addr());
        self.io.old = Some((old, now + OLD_SOCKET_LIFETIME));
        self.io.unsent = None;
        self.io.patience = Patience::default();
        for conn in conns {
            conn.state.lock().quic.rebind_from(now, former, local);
            enqueue(&mut self.ready, &conn);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let due = match self.io.unsent {
            // Nothing is sent before the socket has room, which wakes us, or nearly always does, or is given up.
            Some(_) => Some(self.shard.now() + SEND_RETRY),
            None => self.timers.next(),
        };
        earliest(due, self.io.next_deadline())
    }

    /// Whether nobody needs this shard any more.
    fn is_over(&self) -> bool {
        self.hub.is_abandoned() && self.shard.state.lock().table.len() == 0
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.shard.waker.begin_turn(cx);
        this.woke = false;
        this.ready.extend(this.yielded.drain(..));
        for _ in 0..ROUNDS_PER_TURN {
            let step = this.round(cx);
            if !this.yielded.is_empty() {
                break;
            }
            if step == Step::More {
                if std::mem::take(&mut this.woke) {
                    // Those just woken have work on what is in the cache now.
                    break;
                }
                continue;
            }
            if this.is_over() {
                return Poll::Ready(());
            }
            let Some(deadline) = this.next_deadline() else {
                return Poll::Pending;
            };
            let now = this.shard.now();
            if this.timer.poll_until(cx, deadline, now).is_pending() {
                return Poll::Pending;
            }
        }
        // More work, but others want the thread too.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shard.bury();
    }
}

/// Hands datagrams out, keeping the lock of the connection that got the last one.
struct Route<'a> {
    state: RouteState<'a>,
    now: Instant,
}

struct RouteState<'a> {
    endpoint: &'a mut tautline_transport::endpoint::Endpoint,
    table: &'a super::Table,
    current: Option<(ConnectionHandle, MutexGuard<'a, ConnState>)>,
}

impl<'a> Route<'a> {
    fn new(state: &'a mut ShardState, now: Instant) -> Self {
        let ShardState {
            endpoint, table, ..
        } = state;
        Self {
            state: RouteState {
                endpoint,
                table,
                current: None,
            },
            now,
        }
    }

    fn datagram(
        &mut self,
        meta: DatagramMeta,
        datagram: BytesMut,
        io: &mut Io,
        ready: &mut VecDeque<Arc<ConnShared>>,
        knocking: &mut Vec<tautline_transport::endpoint::Incoming>,
    ) {
        let RouteState {
            endpoint,
            table,
            current,
        } = &mut self.state;
        io.answer.clear();
        match endpoint.handle_datagram(self.now, meta, datagram, &mut io.answer) {
            DatagramEvent::Connection(handle, datagram) => {
                if current.as_ref().is_none_or(|(held, _)| *held != handle) {
                    // The old lock goes before the new one is taken.
                    *current = None;
                    *current = table.get(handle).map(|conn| {
                        enqueue(ready, conn);
                        (handle, conn.state.lock())
                    });
                }
                if let Some((_, conn)) = current {
                    conn.quic.note_receive_position(io.buffers.received_bytes());
                    conn.quic.handle_datagram(self.now, meta, datagram);
                }
            }
            DatagramEvent::Incoming(incoming) => knocking.push(incoming),
            DatagramEvent::Transmit(transmit) => {
                // Stateless answers are not worth waiting for.
                let _ = io.socket_for(&transmit).try_send(&transmit, &io.answer);
            }
            _ => {}
        }
    }

    /// Whether the connection that got the last datagram waits for nothing before it.
    fn in_order(&self) -> bool {
        let current = self.state.current.as_ref();
        current.is_some_and(|(_, conn)| conn.quic.receives_in_order())
    }
}

/// Queues a connection unless it is queued already.
fn enqueue(ready: &mut VecDeque<Arc<ConnShared>>, conn: &Arc<ConnShared>) {
    if !conn.queued.swap(true, Ordering::AcqRel) {
        ready.push_back(Arc::clone(conn));
    }
}

/// The other shard that a datagram belongs to, if it does.
fn foreign_owner(shard: &Shard, steering: Option<Steering>, datagram: &[u8]) -> Option<u16> {
    let Steering { shards, cid_len } = steering?;
    let owner = handover::owner(datagram, cid_len)?;
    (owner != shard.index && owner < shards).then_some(owner)
}

fn hand_over(hub: &Hub, shard: &Shard, owner: u16, meta: DatagramMeta, datagram: BytesMut) {
    let taken = hub.shard(owner).is_some_and(|owner| {
        let taken = owner.inbox.push(meta, &datagram);
        owner.waker.notify();
        taken
    });
    let counters = &shard.counters;
    count(
        if taken {
            &counters.handed_over
        } else {
            &counters.handover_drops
        },
        1,
    );
}

fn count_sent(shard: &Shard, transmit: &Transmit) {
    let datagrams = transmit
        .segment_size
        .map_or(1, |size| transmit.len.div_ceil(size.max(1)));
    count(&shard.counters.sent_batches, 1);
    count(&shard.counters.sent_datagrams, datagrams as u64);
}
