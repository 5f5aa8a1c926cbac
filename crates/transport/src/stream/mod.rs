//! Streams: the application's bytes between its calls and STREAM frames.
//!
//! Purpose: ordered byte streams with flow control, stream counts and priorities.
//! Owns: [`StreamSet`], every stream's send and receive half, both directions of flow control,
//! stream limits, what is retransmitted of a stream, the order of streams ([`sched`]).
//! Does not own: encoding (`wire/`), loss detection (`recovery/`), when a packet is built
//! (`connection/`), messages beyond the streams that carry them (`message/`).
//! Called by: `connection/` for API calls (`api.rs`), dispatch (`input.rs`), the pump and the fate
//! of tokens (`output.rs`).
//! Spec: RFC 9000 s2, s3, s4, s19.4-19.14; RESET_STREAM_AT (draft -10); RFC 9218 for priorities.
//! To add a variant: a scheduler is a file in `sched/`; a control frame is a bit in `table::due`
//! and an arm in `output.rs`.
//!
//! # Memory
//! A stream costs about half a kilobyte while it exists. Send: what the application wrote and the
//! peer has not acknowledged, at most `send_buffer_bytes` over all streams. Receive: at most 1.125
//! times `connection_receive_window.max`, plus up to 256 pinned receive buffers and some words per
//! stream for its first short message. Once the connection is over: what the application can still
//! read (`aftermath.rs`).

mod aftermath;
mod api;
mod assembler;
mod block;
mod events;
mod flow;
mod id_hash;
mod input;
mod journal;
mod limits;
mod messages;
mod output;
mod pins;
mod protection;
mod range_set;
mod recv;
pub mod sched;
mod send;
mod send_buffer;
mod sharing;
mod short_deque;
mod table;
#[cfg(test)]
mod tests;
mod types;

use std::{collections::VecDeque, sync::Arc};

use crate::{
    config::{TransportConfig, WindowConfig},
    observe::{FlowScope, HalfStream},
    units::{Dir, Side, StreamId},
};

use events::EventQueue;
use flow::{ReceiveWindow, SendCredit};
use limits::StreamLimits;
use messages::MessageStreams;
use pins::Pins;
use recv::RecvHalf;
use sched::{Priority, SharedStreamSchedulerFactory, StreamScheduler};
use send::{Demand, SendHalf};
use sharing::Sharing;
use table::{Stream, Table};

pub use id_hash::{IdHash, IdHasher};
pub(crate) use journal::{Journal, Note};
pub(crate) use messages::Notice;
pub(crate) use output::Waiting;
pub use protection::Protection;
pub use types::{
    PeerLimits, ReadError, ReadOutcome, ReceiveEnd, ResetError, StreamEvent, StreamStats,
    UnorderedOutcome, WriteError,
};

/// Send buffers may hold this much before anything is known of the path.
const MIN_SEND_BUFFER_BYTES: u64 = 512 * 1024;
/// And this many congestion windows afterwards: one is under way, one is acknowledged while the
/// application is asked for more, and the window may double meanwhile.
const SEND_BUFFER_WINDOWS: u64 = 4;
/// Names of the states of the sending and the receiving half.
type HalfStates = (Option<&'static str>, Option<&'static str>);

/// All streams of one connection.
#[derive(Debug)]
pub struct StreamSet {
    table: Table,
    limits: StreamLimits,
    /// The peer's limits for streams that do not exist yet.
    peer: PeerLimits,
    /// The next [`StreamSet::set_peer_limits`] replaces limits instead of raising them.
    replace_peer_limits: bool,
    peer_supports_reset_at: bool,
    /// The connection is over: nothing is sent or arrives any more.
    over: bool,

    /// Knows the streams without a pin.
    scheduler: Box<dyn StreamScheduler>,
    scheduler_factory: SharedStreamSchedulerFactory,
    pins: Pins,
    /// Streams that a scheduler knows as ready.
    ready: usize,
    /// See [`Self::take_new_end`].
    new_end: bool,
    /// Streams with new data only, while the connection has no credit. May name dead streams.
    parked: Vec<StreamId>,
    /// Streams refused for lack of room in the send buffer. May name dead streams.
    waiting: Vec<StreamId>,
    /// What the peer lets us send on the connection.
    credit: SendCredit,
    /// How often a limit of the peer's kept data from leaving.
    times_held_back: u64,
    /// The peer was told that flow control holds us back, and may do so still.
    told_blocked: bool,
    /// Bytes that all send buffers may hold now.
    send_buffer_bytes: u64,
    /// And however fast the path becomes.
    max_send_buffer_bytes: u64,

    stream_window: WindowConfig,
    /// What each stream's window is raised to when data comes for it.
    least_window: u64,
    /// What we let the peer send on the connection.
    window: ReceiveWindow,
    /// Sum of the highest offsets of all streams.
    received: u64,
    /// Slices of receive buffers held by all streams.
    borrowed: usize,
    /// Whether the stream data that arrived last was the next of its stream.
    in_order: bool,
    sharing: Sharing,

    /// Streams that owe control frames. Each stands here once.
    control: VecDeque<StreamId>,
    max_queued_control: usize,
    /// Some streams owe control frames and found the queue full.
    control_overflowed: bool,
    /// MAX_DATA was lost or did not fit.
    resend_max_data: bool,

    events: EventQueue,
    messages: MessageStreams,
    /// Streams that exist and have a say in whether they are protected.
    protection_chosen: usize,
    stats: StreamStats,
    pub(crate) journal: Journal,
    floods: Floods,
}

/// What a peer overdid, until the connection asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Floods {
    /// More streams owe control frames than may wait.
    pub(crate) control: bool,
    /// Tiny pieces behind gaps came in a long row.
    pub(crate) fragments: bool,
    tiny_pieces: u32,
}

impl StreamSet {
    /// No streams yet. Sending needs the peer's limits first.
    pub fn new(side: Side, config: &TransportConfig) -> Self {
        Self {
            table: Table::default(),
            limits: StreamLimits::new(side, config),
            peer: PeerLimits::default(),
            replace_peer_limits: false,
            peer_supports_reset_at: false,
            over: false,
            scheduler: config.stream_scheduler.build(),
            scheduler_factory: Arc::clone(&config.stream_scheduler),
            pins: Pins::default(),
            ready: 0,
            new_end: false,
            parked: Vec::new(),
            waiting: Vec::new(),
            credit: SendCredit::default(),
            times_held_back: 0,
            told_blocked: false,
            send_buffer_bytes: config.send_buffer_bytes.min(MIN_SEND_BUFFER_BYTES),
            max_send_buffer_bytes: config.send_buffer_bytes,
            stream_window: config.stream_receive_window,
            least_window: 0,
            window: ReceiveWindow::new(config.connection_receive_window),
            received: 0,
            borrowed: 0,
            in_order: false,
            sharing: Sharing::new(&config.limits),
            control: VecDeque::new(),
            max_queued_control: config.limits.queued_control_frames.max(1),
            control_overflowed: false,
            resend_max_data: false,
            events: EventQueue::new(config.limits.pending_events),
            messages: MessageStreams::default(),
            protection_chosen: 0,
            stats: StreamStats::default(),
            journal: Journal::default(),
            floods: Floods::default(),
        }
    }

    /// What the peer overdid since the last call.
    pub(crate) fn take_floods(&mut self) -> Floods {
        let tiny_pieces = self.floods.tiny_pieces;
        std::mem::replace(
            &mut self.floods,
            Floods {
                tiny_pieces,
                ..Floods::default()
            },
        )
    }

    /// Notes the states of a stream's halves if one of them is not what it was `before`.
    fn note_states(&mut self, id: StreamId, before: HalfStates) {
        if !self.journal.is_open() {
            return;
        }
        let after = self.states(id);
        for (half, old, new) in [
            (HalfStream::Sending, before.0, after.0),
            (HalfStream::Receiving, before.1, after.1),
        ] {
            if let Some(state) = new.filter(|new| old != Some(*new)) {
                self.journal.note(|| Note::State { id, half, state });
            }
        }
    }

    /// The states of both halves, while somebody observes.
    fn states(&self, id: StreamId) -> HalfStates {
        if !self.journal.is_open() {
            return (None, None);
        }
        let stream = self.table.get(id);
        let send = stream.and_then(|stream| stream.send.as_ref());
        let recv = stream.and_then(|stream| stream.recv.as_ref());
        (
            send.map(SendHalf::state_name),
            recv.map(RecvHalf::state_name),
        )
    }

    /// Takes the peer's `initial_*` limits: remembered ones for 0-RTT, then the real ones. Limits
    /// are only raised, except after [`StreamSet::on_zero_rtt_rejected`], when they are replaced.
    pub fn set_peer_limits(&mut self, limits: &PeerLimits) {
        let replace = std::mem::take(&mut self.replace_peer_limits);
        let merge = |old: u64, new: u64| if replace { new } else { old.max(new) };
        let old = self.peer;
        self.peer = PeerLimits {
            max_data: merge(old.max_data, limits.max_data),
            max_stream_data_bidi_local: merge(
                old.max_stream_data_bidi_local,
                limits.max_stream_data_bidi_local,
            ),
            max_stream_data_bidi_remote: merge(
                old.max_stream_data_bidi_remote,
                limits.max_stream_data_bidi_remote,
            ),
            max_stream_data_uni: merge(old.max_stream_data_uni, limits.max_stream_data_uni),
            max_streams_bidi: merge(old.max_streams_bidi, limits.max_streams_bidi),
            max_streams_uni: merge(old.max_streams_uni, limits.max_streams_uni),
        };
        if replace {
            self.credit.max = 0;
            self.limits.rewind();
        }
        for id in self.table.ids() {
            let max = self.initial_send_limit(id);
            if let Some(send) = self
                .table
                .get_mut(id)
                .and_then(|stream| stream.send.as_mut())
            {
                if replace {
                    send.credit.max = 0;
                }
                send.credit.raise(max);
            }
            self.wake_writer(id);
            self.refresh(id);
        }
        self.raise_max_data(self.peer.max_data);
        self.raise_max_streams(Dir::Bi, self.peer.max_streams_bidi);
        self.raise_max_streams(Dir::Uni, self.peer.max_streams_uni);
    }

    /// Whether `limits` lower none of the limits set before. RFC 9000 s7.4.1.
    pub fn limits_cover(&self, limits: &PeerLimits) -> bool {
        let old = &self.peer;
        limits.max_data >= old.max_data
            && limits.max_stream_data_bidi_local >= old.max_stream_data_bidi_local
            && limits.max_stream_data_bidi_remote >= old.max_stream_data_bidi_remote
            && limits.max_stream_data_uni >= old.max_stream_data_uni
            && limits.max_streams_bidi >= old.max_streams_bidi
            && limits.max_streams_uni >= old.max_streams_uni
    }

    /// Whether the peer announced reset_stream_at.
    pub fn set_peer_supports_reset_at(&mut self, supports: bool) {
        self.peer_supports_reset_at = supports;
    }

    /// What is held and was done.
    pub fn stats(&self) -> StreamStats {
        let is_blocked = |stream: &&Stream| stream.send.as_ref().is_some_and(|s| s.wants_write);
        StreamStats {
            open_streams: self.table.len(),
            receive_buffered_bytes: self
                .table
                .iter()
                .filter_map(|stream| stream.recv.as_ref())
                .map(|recv| recv.assembler().buffered())
                .sum(),
            connection_blocked: self.credit.available() == 0 && !self.parked.is_empty(),
            blocked_streams: self.table.iter().filter(is_blocked).count(),
            receive_window: self.window.window(),
            ..self.stats
        }
    }

    /// The peer's limit on what we send on a new stream. Its "local" and "remote" are ours turned
    /// round.
    fn initial_send_limit(&self, id: StreamId) -> u64 {
        match (id.dir(), self.limits.is_local(id)) {
            (Dir::Uni, _) => self.peer.max_stream_data_uni,
            (Dir::Bi, true) => self.peer.max_stream_data_bidi_remote,
            (Dir::Bi, false) => self.peer.max_stream_data_bidi_local,
        }
    }

    /// Makes the state of a stream that was just opened by either end.
    fn create(&mut self, id: StreamId) {
        if self.over {
            // Nothing of it arrived, and nothing will.
            return;
        }
        let local = self.limits.is_local(id);
        let sends = id.dir() == Dir::Bi || local;
        let receives = id.dir() == Dir::Bi || !local;
        let max = self.initial_send_limit(id);
        self.table.insert(Stream {
            id,
            send: sends.then(|| SendHalf::new(max)),
            recv: receives.then(|| RecvHalf::new(self.stream_window)),
            priority: Priority::default(),
            deadline: None,
            protection: Protection::default(),
            pin: None,
            message: false,
            borrowed: 0,
            due: 0,
            in_control: false,
            ready: false,
            parked: false,
            waiting: false,
            readable_queued: false,
            writable_queued: false,
        });
        self.note_states(id, (None, None));
    }

    /// Tells the scheduler what changed about the stream's wish to send.
    fn refresh(&mut self, id: StreamId) {
        let has_credit = self.credit.available() > 0;
        let allowed = self.limits.is_allowed(id);
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        let demand = match &stream.send {
            Some(send) if allowed => send.demand(has_credit),
            _ => Demand::Nothing,
        };
        match (demand == Demand::Now, stream.ready) {
            (true, false) => self.enter_scheduler(id),
            (false, true) => self.leave_scheduler(id),
            _ => {}
        }
        if demand == Demand::NeedsCredit
            && let Some(stream) = self.table.get_mut(id).filter(|stream| !stream.parked)
        {
            stream.parked = true;
            self.parked.push(id);
            if self.parked.len() > 2 * self.table.len() + 16 {
                let table = &self.table;
                self.parked
                    .retain(|id| table.get(*id).is_some_and(|stream| stream.parked));
            }
        }
    }

    /// The stream owes control frames (bits of [`table::due`]).
    fn owe(&mut self, id: StreamId, due: u8) {
        if self.over {
            return;
        }
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        stream.due |= due;
        if stream.in_control {
            return;
        }
        if self.control.len() >= self.max_queued_control {
            // It keeps its bits; the queue is filled from them again when it has run empty.
            self.control_overflowed = true;
            self.floods.control = true;
            return;
        }
        stream.in_control = true;
        self.control.push_back(id);
    }

    /// Queues an event of a stream. `Readable` and `Writable` are queued once at a time.
    fn emit(&mut self, event: StreamEvent) {
        let of_message = match event {
            StreamEvent::Readable(id) => match self.table.get_mut(id) {
                Some(stream) if !stream.readable_queued => {
                    stream.readable_queued = true;
                    stream.message
                }
                _ => return,
            },
            StreamEvent::Writable(id) => match self.table.get_mut(id) {
                Some(stream) if !stream.writable_queued => {
                    stream.writable_queued = true;
                    stream.message
                }
                _ => return,
            },
            StreamEvent::Finished(id) | StreamEvent::Stopped { id, .. } => {
                self.table.get(id).is_some_and(|stream| stream.message)
            }
            StreamEvent::Opened(_) | StreamEvent::Available(_) => false,
        };
        if of_message {
            self.messages.on_event(event);
            return;
        }
        let table = &self.table;
        self.events.push(event, |event| match event {
            StreamEvent::Readable(id)
            | StreamEvent::Writable(id)
            | StreamEvent::Finished(id)
            | StreamEvent::Stopped { id, .. } => table.get(*id).is_some(),
            StreamEvent::Opened(_) | StreamEvent::Available(_) => true,
        });
    }

    /// Tells a writer that was cut short when the stream takes bytes again.
    fn wake_writer(&mut self, id: StreamId) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        let Some(send) = &mut stream.send else { return };
        if send.wants_write && !stream.waiting && send.writable() > 0 {
            send.wants_write = false;
            self.emit(StreamEvent::Writable(id));
        }
    }

    /// Takes note of what a receive half gave back, and whether the stream is over.
    fn settle_receiving(&mut self, id: StreamId) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        let Some(recv) = &mut stream.recv else { return };
        let credit = recv.take_credit();
        recv.window.consume(credit);
        self.window.consume(credit);
        let borrowed = recv.assembler().borrowed();
        self.borrowed = (self.borrowed + borrowed).saturating_sub(stream.borrowed);
        stream.borrowed = borrowed;
        let terminal = recv.is_terminal();
        if recv.is_open()
            && recv.window.wants_grant()
            && stream.due & table::due::MAX_STREAM_DATA == 0
        {
            self.owe(id, table::due::MAX_STREAM_DATA);
        }
        if terminal {
            self.free_if_over(id);
        }
    }

    /// Takes note of bytes that left a send buffer.
    fn on_released(&mut self, bytes: u64) {
        self.stats.send_buffered_bytes = self.stats.send_buffered_bytes.saturating_sub(bytes);
        self.stats.released_bytes += bytes;
        self.wake_waiting();
    }

    /// Lets writers go on that were refused for lack of room, once there is some worth waking for.
    fn wake_waiting(&mut self) {
        if self.waiting.is_empty() || self.send_room() < self.send_buffer_bytes / 8 {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        // Whoever writes first takes most of the room, and what others would fill it with leaves later.
        waiting.sort_by_cached_key(|id| {
            let stream = self.table.get(*id);
            stream.map(|stream| self.scheduler.place(*id, stream.priority))
        });
        for id in waiting {
            if let Some(stream) = self.table.get_mut(id) {
                stream.waiting = false;
                self.wake_writer(id);
            }
        }
    }

    /// So many paths carry data. What one of them loses while it finds out what it can carry holds up
    /// what the others bring meanwhile: a stream's window begins with twice the usual for each.
    pub fn set_paths(&mut self, paths: usize) {
        let windows = if paths > 1 { 2 * paths as u64 } else { 0 };
        self.least_window = self.stream_window.initial.saturating_mul(windows);
    }

    /// A stream of our own begins: the larger window for the answer goes along with the request.
    fn widen(&mut self, id: StreamId) {
        let least = self.least_window;
        if least == 0 {
            return;
        }
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        let (Some(send), Some(recv)) = (&stream.send, &mut stream.recv) else {
            return;
        };
        if send.buffer().end() > 0 || !self.limits.is_local(id) {
            return;
        }
        recv.window.raise_window(least);
        let wants = recv.window.wants_grant();
        self.window.raise_window(least.saturating_add(least / 2));
        if wants {
            self.owe(id, table::due::MAX_STREAM_DATA);
        }
    }

    /// Lets send buffers hold what the paths can use with this many bytes of congestion window, so
    /// that a peer that takes nothing cannot make us hold the configured most.
    pub fn set_congestion_window(&mut self, bytes: u64) {
        let wanted = bytes.saturating_mul(SEND_BUFFER_WINDOWS);
        let before = self.send_buffer_bytes;
        self.send_buffer_bytes = wanted
            .max(MIN_SEND_BUFFER_BYTES)
            .min(self.max_send_buffer_bytes);
        if self.send_buffer_bytes > before {
            self.wake_waiting();
        }
    }

    /// Bytes that all send buffers together still take.
    fn send_room(&self) -> u64 {
        self.send_buffer_bytes
            .saturating_sub(self.stats.send_buffered_bytes)
    }

    /// Forgets the stream once both halves are terminal.
    fn free_if_over(&mut self, id: StreamId) {
        if !self.table.get(id).is_some_and(Stream::is_over) {
            return;
        }
        let before = self.states(id);
        self.leave_scheduler(id);
        self.leave_lane(id);
        let Some(stream) = self.table.remove(id) else {
            return;
        };
        for (half, was) in [
            (HalfStream::Sending, before.0),
            (HalfStream::Receiving, before.1),
        ] {
            if was.is_some() {
                let state = "closed";
                self.journal.note(|| Note::State { id, half, state });
            }
        }
        self.borrowed = self.borrowed.saturating_sub(stream.borrowed);
        self.messages.with_deadline -= usize::from(stream.deadline.is_some());
        self.protection_chosen -= usize::from(stream.protection != Protection::Scheduled);
        self.table.recycle(stream);
        if !self.limits.is_local(id) {
            self.limits.remote_mut(id.dir()).on_closed();
        }
    }

    fn note_blocked(&mut self, scope: FlowScope, limit: u64, blocked: bool) {
        self.journal.note(|| Note::Blocked {
            scope,
            limit,
            blocked,
        });
    }

    /// Takes a new limit on the connection's data.
    fn raise_max_data(&mut self, max: u64) {
        let was_blocked = self.credit.is_reported();
        if !self.credit.raise(max) || self.credit.available() == 0 {
            return;
        }
        if was_blocked {
            self.note_blocked(FlowScope::Connection, max, false);
        }
        for id in std::mem::take(&mut self.parked) {
            if let Some(stream) = self.table.get_mut(id) {
                stream.parked = false;
            }
            self.refresh(id);
        }
    }

    /// Takes a new limit on the streams we may open.
    fn raise_max_streams(&mut self, dir: Dir, max: u64) {
        let local = self.limits.local_mut(dir);
        let before = local.max;
        let was_blocked = local.is_reported();
        if !local.raise(max) {
            return;
        }
        if was_blocked {
            self.journal.note(|| Note::Blocked {
                scope: FlowScope::Streams(dir),
                limit: max,
                blocked: false,
            });
        }
        let local = self.limits.local_mut(dir);
        let (opened, max) = (local.opened, local.max);
        if std::mem::take(&mut local.refused) && opened < max {
            self.events.available(dir);
        }
        // Streams opened for a rejected 0-RTT may have waited for this.
        for index in before..opened.min(max) {
            let id = StreamId::new(self.limits.side(), dir, index);
            if self.table.get(id).is_some_and(|stream| stream.due != 0) {
                self.owe(id, 0);
            }
            self.refresh(id);
        }
    }
}
