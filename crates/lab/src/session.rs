//! A connection as a workload sees it, whatever the stack below.
//!
//! Owns: [`Session`] (what a program may ask of its connection), [`Happening`] (what it is told),
//! [`Fate`] and [`Half`] (the program at one end). Does not own: any stack (`stack/`), any program
//! (`workload/`).

use std::any::Any;

use bytes::Bytes;
use tautline_transport::{
    message::{Expiry, MessageFate},
    time::Instant,
};

use crate::outcome::Outcome;

/// A stream of one session. The number is the stack's own and says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey(pub u64);

/// Which ways a stream carries data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Both.
    Both,
    /// From the opener to the other end.
    Out,
}

/// What reading a stream gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The next bytes, in order.
    Chunk(Bytes),
    /// Nothing for now; [`Happening::Readable`] will tell.
    Blocked,
    /// Everything was read.
    Finished,
    /// The peer gave the stream up, or there is no such stream.
    Gone,
}

/// What a stack made of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOver {
    /// It is sent, or not, as the stack sees fit; [`Happening::Fate`] will tell.
    Taken,
    /// There is no room now; [`Happening::MayOpen`] tells when to try again.
    Full,
    /// It is too long, or the connection is over.
    Refused,
    /// The stack knows streams and no messages.
    Unsupported,
}

/// What a program may do with its connection.
pub trait Session {
    /// The time.
    fn now(&self) -> Instant;
    /// Opens a stream; `None` at the peer's limit, then [`Happening::MayOpen`] tells when to try
    /// again.
    fn open(&mut self, way: Way) -> Option<StreamKey>;
    /// Hands bytes over and takes them off the front of `data`; fewer than all of them when a
    /// buffer is full, then [`Happening::Writable`] tells when to go on.
    fn write(&mut self, stream: StreamKey, data: &mut Bytes) -> usize;
    /// No more bytes will follow.
    fn finish(&mut self, stream: StreamKey);
    /// The rest of the stream is given up.
    fn reset(&mut self, stream: StreamKey);
    /// The next bytes.
    fn read(&mut self, stream: StreamKey) -> Read;
    /// The rest is not wanted.
    fn stop(&mut self, stream: StreamKey);
    /// Urgency 0 (first) to 7, and whether streams of the same urgency take turns (RFC 9218).
    fn prioritise(&mut self, stream: StreamKey, urgency: u8, incremental: bool);
    /// Queues an unreliable datagram; `false` when it cannot go.
    fn send_datagram(&mut self, data: Bytes) -> bool;
    /// The next datagram received.
    fn receive_datagram(&mut self) -> Option<Bytes>;
    /// Hands a whole message over, to be sent on a stream of its own and given up when it would come
    /// after `deadline`, as `expiry` says.
    fn send_message(
        &mut self,
        _data: &Bytes,
        _deadline: Option<Instant>,
        _expiry: Expiry,
    ) -> HandOver {
        HandOver::Unsupported
    }
    /// Tells when the next message will be handed over.
    fn next_message_at(&mut self, _at: Instant) {}
    /// Ends the connection.
    fn close(&mut self);
}

/// What became of a message, as the stack that sent it judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// How it ended.
    pub fate: MessageFate,
    /// Whether some of it came by repair symbols.
    pub recovered: bool,
}

/// What a program is told about its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The handshake is complete.
    Connected,
    /// The peer opened a stream.
    Opened(StreamKey),
    /// [`Session::read`] gives something.
    Readable(StreamKey),
    /// [`Session::write`] takes something.
    Writable(StreamKey),
    /// [`Session::open`] may work.
    MayOpen,
    /// [`Session::receive_datagram`] gives something.
    Datagram,
    /// What became of a message that this end handed over, as the stack judges it.
    Fate(Fate),
    /// The connection is over: `None` when an end closed it, else why.
    Closed(Option<String>),
}

/// The program at one end of a connection.
///
/// Nothing blocks. Calls are made in virtual time, or between two real machines in real time; a half
/// knows no other clock than [`Session::now`]. It must cope with happenings it did not expect.
pub trait Half: Any + Send {
    /// Something happened.
    fn on(&mut self, session: &mut dyn Session, happening: Happening);
    /// The time named by [`Half::poll_timer`] has come.
    fn on_timer(&mut self, _session: &mut dyn Session) {}
    /// When [`Half::on_timer`] is wanted.
    fn poll_timer(&self) -> Option<Instant> {
        None
    }
    /// What this end has measured so far: a copy, which takes time and memory for every item.
    fn outcome(&self) -> Outcome;
    /// [`Outcome::received_bytes`], which is asked for more often than the rest.
    fn received_bytes(&self) -> u64 {
        self.outcome().received_bytes
    }
    /// Whether nothing more will come of it: it is finished, or its connection is gone.
    fn is_over(&self) -> bool {
        let outcome = self.outcome();
        outcome.finished.is_some() || outcome.error.is_some()
    }
}

/// A session that is not there (yet, or any more), for stacks to hand to a [`Half`] at that time.
#[derive(Clone, Copy, Debug)]
pub struct Nobody(pub Instant);

impl Session for Nobody {
    fn now(&self) -> Instant {
        self.0
    }
    fn open(&mut self, _way: Way) -> Option<StreamKey> {
        None
    }
    fn write(&mut self, _stream: StreamKey, _data: &mut Bytes) -> usize {
        0
    }
    fn finish(&mut self, _stream: StreamKey) {}
    fn reset(&mut self, _stream: StreamKey) {}
    fn read(&mut self, _stream: StreamKey) -> Read {
        Read::Gone
    }
    fn stop(&mut self, _stream: StreamKey) {}
    fn prioritise(&mut self, _stream: StreamKey, _urgency: u8, _incremental: bool) {}
    fn send_datagram(&mut self, _data: Bytes) -> bool {
        false
    }
    fn receive_datagram(&mut self) -> Option<Bytes> {
        None
    }
    fn close(&mut self) {}
}
