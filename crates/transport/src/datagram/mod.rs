//! Application datagrams. RFC 9221.
//!
//! Purpose: queues between the application and DATAGRAM frames.
//! Owns: [`DatagramQueue`], those that wait for one path, its limits in bytes, what happens when they are reached.
//! Does not own: encoding (`wire/frame`), what a lost DATAGRAM means (nothing is resent; the
//! token only names it), deadlines.
//! Called by: `connection/` for API, dispatch and the pump.
//! Spec: RFC 9221.
//! To add a variant: another dropping order is another arm of [`WhenFull`].

use std::collections::VecDeque;

use bytes::Bytes;

use crate::{
    config::TransportConfig,
    multipath::{Hold, PathPin, Takes},
    observe::{DataPosition, Event},
    packet::PacketWriter,
    stream::{Journal, Note},
    units::PathId,
};

#[cfg(test)]
mod tests;

/// Memory one queued datagram costs beside its payload; counted against the limits, so that empty
/// datagrams are bounded too.
const OVERHEAD_BYTES: usize = 64;

/// What a send does when the queue has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Refuse the new one with [`SendDatagramError::Blocked`].
    Refuse,
    /// Drop the oldest ones until the new one fits.
    DropOldest,
}

/// Why a datagram was not queued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The peer takes no DATAGRAM frames.
    #[error("the peer does not support datagrams")]
    Unsupported,
    /// Larger than the peer or the path takes.
    #[error("datagram too large: at most {max} bytes now")]
    TooLarge {
        /// Largest payload now, in bytes.
        max: usize,
    },
    /// The queue is full; the datagram comes back.
    #[error("datagram queue full")]
    Blocked(Bytes),
}

/// Counters of the datagram room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatagramStats {
    /// Datagrams put into packets.
    pub sent: u64,
    /// Datagrams whose packet was acknowledged.
    pub acked: u64,
    /// Datagrams whose packet was lost.
    pub lost: u64,
    /// Datagrams received from the peer, dropped ones included.
    pub received: u64,
    /// Queued datagrams dropped before they were sent: pushed out, or grown too large for the path.
    pub dropped_unsent: u64,
    /// Received datagrams dropped because the application did not take them.
    pub dropped_unread: u64,
}

/// Datagrams that wait for one path.
#[derive(Debug)]
struct Lane {
    pin: PathPin,
    /// Whether only the pin's path carries them.
    holds: bool,
    queue: VecDeque<(u64, Bytes)>,
}

/// Both queues of one connection. Allocates nothing until used.
#[derive(Debug)]
pub struct DatagramQueue {
    /// Without a pin.
    outgoing: VecDeque<(u64, Bytes)>,
    /// With one; as long as any waits.
    pinned: Vec<Lane>,
    outgoing_bytes: usize,
    outgoing_limit: usize,
    incoming: VecDeque<Bytes>,
    incoming_bytes: usize,
    incoming_limit: usize,
    /// The peer's max_datagram_frame_size: type, length and payload. 0: unsupported.
    peer_max_frame: u64,
    next_id: u64,
    refused: bool,
    /// As `refused`, of those that may use one path alone.
    bound_refused: bool,
    stats: DatagramStats,
    pub(crate) journal: Journal,
}

impl DatagramQueue {
    /// Empty queues with the configured limits; sending is off until the peer's limit is known.
    pub fn new(config: &TransportConfig) -> Self {
        Self {
            outgoing: VecDeque::new(),
            pinned: Vec::new(),
            outgoing_bytes: 0,
            outgoing_limit: config.datagram_send_buffer_bytes,
            incoming: VecDeque::new(),
            incoming_bytes: 0,
            incoming_limit: config.datagram_receive_buffer_bytes,
            peer_max_frame: 0,
            next_id: 0,
            refused: false,
            bound_refused: false,
            stats: DatagramStats::default(),
            journal: Journal::default(),
        }
    }

    /// Sets the peer's max_datagram_frame_size, remembered for 0-RTT or real. RFC 9221 s3.
    pub fn set_peer_limit(&mut self, bytes: u64) {
        self.peer_max_frame = bytes;
    }

    /// Largest payload in bytes that the peer takes, at most `room`, which is what a packet on the
    /// current path has left after a DATAGRAM frame's type and length. `None` when the peer takes
    /// no datagrams.
    pub fn max_payload(&self, room: usize) -> Option<usize> {
        if self.peer_max_frame == 0 {
            return None;
        }
        payload_in(self.peer_max_frame).map(|by_peer| by_peer.min(room))
    }

    /// Queues `data`, or refuses when the queue is full. `max` comes from
    /// [`DatagramQueue::max_payload`]. Returns the datagram's id, counted from 0, which its token
    /// carries.
    pub fn send(&mut self, data: Bytes, max: Option<usize>) -> Result<u64, SendDatagramError> {
        self.send_when(data, max, WhenFull::Refuse, None)
    }

    /// As [`DatagramQueue::send`], with a choice of what happens when the queue is full, and of a path.
    /// What the pin amounts to is asked for before anything is sent ([`Self::review_pins`]).
    pub fn send_when(
        &mut self,
        data: Bytes,
        max: Option<usize>,
        when_full: WhenFull,
        pin: Option<PathPin>,
    ) -> Result<u64, SendDatagramError> {
        let max = max.ok_or(SendDatagramError::Unsupported)?;
        if data.len() > max {
            return Err(SendDatagramError::TooLarge { max });
        }
        let cost = data.len() + OVERHEAD_BYTES;
        if when_full == WhenFull::DropOldest {
            while self.outgoing_bytes + cost > self.outgoing_limit && self.drop_oldest_unsent() {}
        }
        if let Some(pin @ PathPin::Only(_)) = pin {
            // Its path may be dead: the others' datagrams keep half of the room.
            let most = self.outgoing_limit / 2;
            if when_full == WhenFull::DropOldest {
                while self.bound_bytes() + cost > most && self.drop_oldest_of(pin) {}
            }
            let bound = self.bound_bytes();
            if bound + cost > most && bound > 0 {
                self.bound_refused = true;
                return Err(SendDatagramError::Blocked(data));
            }
        }
        // An empty queue takes any one datagram, however small the limit.
        if self.outgoing_bytes + cost > self.outgoing_limit && self.outgoing_bytes > 0 {
            self.refused = true;
            return Err(SendDatagramError::Blocked(data));
        }
        let id = self.next_id;
        self.next_id += 1;
        self.outgoing_bytes += cost;
        self.note(
            data.len(),
            DataPosition::Application,
            DataPosition::Transport,
        );
        self.queue_for(pin).push_back((id, data));
        Ok(id)
    }

    /// Takes a received DATAGRAM payload; the oldest unread ones make room. False when datagrams
    /// are switched off, so that nothing was kept.
    pub fn on_datagram(&mut self, data: Bytes) -> bool {
        if self.incoming_limit == 0 {
            return false;
        }
        self.stats.received += 1;
        self.note(data.len(), DataPosition::Network, DataPosition::Transport);
        // A copy, because a payload that nobody reads would keep its whole receive buffer, and the
        // limit counts payloads.
        let data = Bytes::copy_from_slice(&data);
        self.incoming_bytes += data.len() + OVERHEAD_BYTES;
        self.incoming.push_back(data);
        while self.incoming_bytes > self.incoming_limit && self.incoming.len() > 1 {
            if let Some(oldest) = self.incoming.pop_front() {
                self.incoming_bytes -= oldest.len() + OVERHEAD_BYTES;
                self.stats.dropped_unread += 1;
                self.note(oldest.len(), DataPosition::Transport, DataPosition::Dropped);
            }
        }
        true
    }

    fn note(&mut self, len: usize, from: DataPosition, to: DataPosition) {
        self.journal.note(|| Note::Datagram { len, from, to });
    }

    /// A packet with a datagram was acknowledged.
    pub fn on_acked(&mut self) {
        self.stats.acked += 1;
    }

    /// A packet with a datagram was lost. Datagrams are not sent again. RFC 9221 s5.
    pub fn on_lost(&mut self) {
        self.stats.lost += 1;
    }

    /// The server did not take 0-RTT: datagrams sent in it are lost, queued ones stay queued.
    pub fn on_zero_rtt_rejected(&mut self) {
        self.stats.lost = self.stats.sent.saturating_sub(self.stats.acked);
    }

    /// The oldest received payload.
    pub fn recv(&mut self) -> Option<Bytes> {
        let data = self.incoming.pop_front()?;
        self.incoming_bytes -= data.len() + OVERHEAD_BYTES;
        self.note(
            data.len(),
            DataPosition::Transport,
            DataPosition::Application,
        );
        if self.incoming.is_empty() && self.incoming.capacity() > 64 {
            self.incoming = VecDeque::new();
        }
        Some(data)
    }

    /// Our max_datagram_frame_size transport parameter in bytes: 65,535, or 0 to refuse.
    /// RFC 9221 s3.
    pub fn max_frame_size(&self) -> u64 {
        if self.incoming_limit == 0 { 0 } else { 65_535 }
    }

    /// Whether a datagram waits to be sent.
    pub fn has_frames(&self) -> bool {
        self.outgoing_bytes > 0
    }

    /// Whether one waits that has no pin, or whose pin yields.
    pub(crate) fn has_free_frames(&self) -> bool {
        let yields = |lane: &Lane| !lane.holds;
        !self.outgoing.is_empty() || self.pinned.iter().any(yields)
    }

    /// Whether one waits that such a packet may carry.
    pub(crate) fn has_frames_for(&self, takes: Takes) -> bool {
        let mut pinned = self.pinned.iter();
        takes.free && !self.outgoing.is_empty()
            || pinned.any(|lane| takes.takes(lane.pin, lane.holds))
    }

    /// Whether one with a pin waits.
    pub(crate) fn has_pins(&self) -> bool {
        !self.pinned.is_empty()
    }

    /// Paths for which datagrams wait that go by no other.
    pub(crate) fn paths_waited_for(&self) -> impl Iterator<Item = PathId> + '_ {
        let held = self.pinned.iter().filter(|lane| lane.holds);
        held.map(|lane| lane.pin.path())
    }

    /// Asks what each pin amounts to now.
    pub(crate) fn review_pins(&mut self, hold: impl Fn(PathPin) -> Hold) {
        for lane in &mut self.pinned {
            lane.holds = hold(lane.pin) == Hold::Holds;
        }
    }

    /// Whether a received datagram waits to be read.
    pub fn is_readable(&self) -> bool {
        !self.incoming.is_empty()
    }

    /// Drops waiting datagrams, from the oldest on, that fit no packet any more: the path's MTU
    /// shrank. `room`: payload that the largest packet takes now.
    pub fn drop_oversized(&mut self, room: usize) {
        for at in 0..=self.pinned.len() {
            let queue = at.checked_sub(1);
            while self.front(queue).is_some_and(|(_, data)| data.len() > room) {
                self.drop_front(queue);
            }
        }
        self.tidy();
    }

    /// Writes waiting datagrams, oldest first, until one does not fit. That one may fit the next
    /// packet, which need not begin behind another one or in a batch of short ones.
    pub(crate) fn write(&mut self, takes: Takes, packet: &mut PacketWriter<'_>) {
        if !self.has_frames() {
            return;
        }
        while let Some(queue) = self.oldest(|lane| match lane {
            None => takes.free,
            Some(lane) => takes.takes(lane.pin, lane.holds),
        }) {
            let Some((id, data)) = self.front(queue) else {
                break;
            };
            if !packet.push_datagram(*id, data) {
                break;
            }
            let len = data.len();
            packet.observe(|| Event::DatagramDataMoved {
                len,
                from: DataPosition::Transport,
                to: DataPosition::Network,
            });
            self.pop(queue);
            self.stats.sent += 1;
        }
        self.tidy();
    }

    /// Gives memory back that nothing waits in.
    fn tidy(&mut self) {
        self.pinned.retain(|lane| !lane.queue.is_empty());
        if self.outgoing.is_empty() && self.outgoing.capacity() > 64 {
            self.outgoing = VecDeque::new();
        }
    }

    /// Bytes free in the send queue; each datagram takes its payload and 64 more.
    pub fn send_space(&self) -> usize {
        self.outgoing_limit.saturating_sub(self.outgoing_bytes)
    }

    /// Whether a refused send would work now; true once per refusal.
    pub fn take_unblocked(&mut self) -> bool {
        let unblocked = self.refused && self.outgoing_bytes <= self.outgoing_limit / 2;
        if unblocked {
            self.refused = false;
        }
        let unbound = self.bound_refused && self.bound_bytes() <= self.outgoing_limit / 4;
        if unbound {
            self.bound_refused = false;
        }
        unblocked || unbound
    }

    /// What waits of those that may use one path alone.
    fn bound_bytes(&self) -> usize {
        let bound = |lane: &&Lane| matches!(lane.pin, PathPin::Only(_));
        let waiting = self.pinned.iter().filter(bound);
        let waiting = waiting.flat_map(|lane| &lane.queue);
        waiting.map(|(_, data)| data.len() + OVERHEAD_BYTES).sum()
    }

    fn drop_oldest_of(&mut self, pin: PathPin) -> bool {
        let at = self.pinned.iter().position(|lane| lane.pin == pin);
        let dropped = at.is_some_and(|at| self.drop_front(Some(at)));
        self.tidy();
        dropped
    }

    /// The connection is over: nothing is sent any more, and what waited for it is dropped.
    /// What arrived may still be read.
    pub(crate) fn stop_sending(&mut self) {
        while self.drop_oldest_unsent() {}
        self.outgoing = VecDeque::new();
        self.pinned = Vec::new();
        self.peer_max_frame = 0;
        self.refused = false;
    }

    /// Nobody will read what arrived.
    pub(crate) fn discard_unread(&mut self) {
        while let Some(data) = self.incoming.pop_front() {
            self.stats.dropped_unread += 1;
            self.note(data.len(), DataPosition::Transport, DataPosition::Dropped);
        }
        self.incoming = VecDeque::new();
        self.incoming_bytes = 0;
    }

    /// Counters.
    pub fn stats(&self) -> DatagramStats {
        self.stats
    }

    fn drop_oldest_unsent(&mut self) -> bool {
        let oldest = self.oldest(|_| true);
        let dropped = oldest.is_some_and(|queue| self.drop_front(queue));
        self.tidy();
        dropped
    }

    fn drop_front(&mut self, queue: Option<usize>) -> bool {
        let Some(len) = self.pop(queue) else {
            return false;
        };
        self.note(len, DataPosition::Transport, DataPosition::Dropped);
        self.stats.dropped_unsent += 1;
        true
    }

    // A queue: `None` for that without a pin, else a place in `pinned`.

    fn queue_for(&mut self, pin: Option<PathPin>) -> &mut VecDeque<(u64, Bytes)> {
        let Some(pin) = pin else {
            return &mut self.outgoing;
        };
        let at = match self.pinned.iter().position(|lane| lane.pin == pin) {
            Some(at) => at,
            None => {
                self.pinned.push(Lane {
                    pin,
                    holds: true,
                    queue: VecDeque::new(),
                });
                self.pinned.len() - 1
            }
        };
        match self.pinned.get_mut(at) {
            Some(lane) => &mut lane.queue,
            None => &mut self.outgoing,
        }
    }

    fn front(&self, queue: Option<usize>) -> Option<&(u64, Bytes)> {
        match queue {
            None => self.outgoing.front(),
            Some(at) => self.pinned.get(at)?.queue.front(),
        }
    }

    /// Takes the first datagram of a queue away; its length.
    fn pop(&mut self, queue: Option<usize>) -> Option<usize> {
        let (_, data) = match queue {
            None => self.outgoing.pop_front(),
            Some(at) => self.pinned.get_mut(at)?.queue.pop_front(),
        }?;
        self.outgoing_bytes -= data.len() + OVERHEAD_BYTES;
        Some(data.len())
    }

    /// The queue, of those that `may` go, whose first datagram is the oldest.
    fn oldest(&self, may: impl Fn(Option<&Lane>) -> bool) -> Option<Option<usize>> {
        let free = self.outgoing.front().filter(|_| may(None));
        let free = free.map(|(id, _)| (*id, None));
        let pinned = self.pinned.iter().enumerate();
        let pinned = pinned.filter_map(|(at, lane)| {
            let (id, _) = lane.queue.front().filter(|_| may(Some(lane)))?;
            Some((*id, Some(at)))
        });
        let all = free.into_iter().chain(pinned);
        all.min_by_key(|(id, _)| *id).map(|(_, queue)| queue)
    }
}

/// Length fields of a DATAGRAM frame: their size and the largest value they hold.
const LENGTH_FIELDS: [(u64, u64); 4] = [
    (1, 63),
    (2, (1 << 14) - 1),
    (4, (1 << 30) - 1),
    (8, (1 << 62) - 1),
];

/// Largest payload of a DATAGRAM frame, with its type and length field, of `frame` bytes.
fn payload_in(frame: u64) -> Option<usize> {
    let after_type = frame.checked_sub(1)?;
    let payload = LENGTH_FIELDS
        .into_iter()
        .filter_map(|(size, largest)| Some(after_type.checked_sub(size)?.min(largest)))
        .max()?;
    Some(usize::try_from(payload).unwrap_or(usize::MAX))
}
