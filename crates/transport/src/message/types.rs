//! What the application and the connection exchange with the room of messages.

use std::time::Duration;

use bytes::Bytes;

use crate::{
    multipath::PathPin,
    stream::{Protection, sched::Priority},
    time::Instant,
    units::StreamId,
};

/// A message of ours: they are counted from 0 on each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

impl std::fmt::Display for MessageId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "message {}", self.0)
    }
}

/// What matters about a message beside its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageOptions {
    /// When the whole of it must be at the receiver; `None`: whenever.
    pub deadline: Option<Instant>,
    /// Its place among streams and other messages, as the stream scheduler takes it.
    pub priority: Priority,
    /// Whether erasure correction protects it.
    pub protection: Protection,
    /// The path it goes by; one that is not there has no effect.
    pub pin: Option<PathPin>,
    /// Messages without which this one is of no use: if one of them is not delivered, this one
    /// expires.
    pub depends_on: Vec<MessageId>,
    /// When it is given up.
    pub expiry: Expiry,
}

/// When a message is given up that will not be whole in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// At its deadline.
    #[default]
    AtDeadline,
    /// As soon as what is left of it would arrive after its deadline, by half of the shortest round
    /// trip seen: then nothing is sent in vain. On a path that is much slower on the way back than on the
    /// way there, that is too early.
    WhenHopeless,
}

/// How a message ended, as far as its sender can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageFate {
    /// All of it is acknowledged, and was there by its deadline, if it had one, as half a round trip
    /// tells.
    OnTime,
    /// All of it is acknowledged, and was there after its deadline.
    Late,
    /// It was given up: its deadline came (or, with [`Expiry::WhenHopeless`], came too near) before
    /// all of it was sent, or with some of it known to be lost; or a message that it depends on was
    /// not delivered.
    Expired,
    /// The peer did not want it, with this code of STOP_SENDING.
    Refused(u64),
    /// The connection ended first. It may have arrived.
    Unknown,
}

impl MessageFate {
    /// Whether all of it arrived.
    pub fn is_delivered(self) -> bool {
        matches!(self, Self::OnTime | Self::Late)
    }
}

/// What became of a message of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageReport {
    /// Which message.
    pub id: MessageId,
    /// How it ended.
    pub fate: MessageFate,
    /// Some of it came by repair symbols, as the peer told.
    pub recovered: bool,
    /// Its bytes.
    pub bytes: u64,
    /// When it was handed over.
    pub handed_over: Instant,
    /// Its deadline.
    pub deadline: Option<Instant>,
    /// When it is thought to have arrived: half a smoothed round trip before the last of it was
    /// known to be there. `None` if it was not delivered.
    pub arrived: Option<Instant>,
    /// The stream that carried it; `None` if it had none yet.
    pub stream: Option<StreamId>,
}

/// A message of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The stream that carried it: messages are numbered as the peer gave them streams.
    pub stream: StreamId,
    /// All of it; may be empty.
    pub data: Bytes,
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendMessageError {
    /// Longer than [`MessageConfig::message_bytes`](super::MessageConfig::message_bytes).
    #[error("message too large: at most {max} bytes; use a stream, or raise message_bytes")]
    TooLarge {
        /// The limit in bytes.
        max: u64,
    },
    /// Too many messages, or bytes of them, are under way; the message comes back.
    #[error("too many messages are under way: wait for one to end, or drop this one")]
    Blocked(Bytes),
    /// More dependencies than [`MessageConfig::dependencies`](super::MessageConfig::dependencies).
    #[error("a message may depend on {max} others at most")]
    TooManyDependencies {
        /// The limit.
        max: usize,
    },
    /// It depends on a message that was not sent before it.
    #[error("{0} does not exist yet: a message depends on earlier ones only")]
    UnknownDependency(MessageId),
    /// It depends on a message that ended too long ago.
    #[error("{0} ended too long ago for its fate to be known: leave it out, or raise remembered")]
    ForgottenDependency(MessageId),
    /// The connection is over.
    #[error("the connection is closed")]
    Closed,
}

/// Why a message of the peer is not handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveMessageError {
    /// It is longer than [`MessageConfig::message_bytes`](super::MessageConfig::message_bytes), and
    /// was refused.
    #[error("the message on {stream} is longer than {max} bytes and was refused")]
    TooLarge {
        /// The stream that carried it.
        stream: StreamId,
        /// The limit in bytes.
        max: u64,
    },
    /// Parts of messages filled
    /// [`MessageConfig::receive_bytes`](super::MessageConfig::receive_bytes), and this one, the
    /// newest, was refused.
    #[error(
        "the message on {stream} found no room beside others that are not whole, and was refused"
    )]
    NoRoom {
        /// The stream that carried it.
        stream: StreamId,
    },
}

/// Something the application may want to know about messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageEvent {
    /// The fate of a message of ours. Comes once for each.
    Fate(MessageReport),
    /// A message of the peer can be received. Comes again after all were taken.
    Received,
    /// A message refused for lack of room would be taken now.
    Unblocked,
}

/// What is known of messages to come, for those who decide what is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageOutlook {
    /// The nearest deadline, of messages whose fate is open, that what leaves now can meet. Here and
    /// below: but for messages that are never protected.
    pub deadline: Option<Instant>,
    /// The least time that such a message had when it was handed over.
    pub lifetime: Option<Duration>,
    /// The deadline of the message that the last stream data belonged to, of those that have one.
    pub sent_deadline: Option<Instant>,
    /// When the application said it would hand over its next message; may have passed.
    pub next_message_at: Option<Instant>,
}

/// Counters of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageStats {
    /// Messages handed over.
    pub handed_over: u64,
    /// Of these, by fate.
    pub on_time: u64,
    /// See [`MessageFate::Late`].
    pub late: u64,
    /// See [`MessageFate::Expired`].
    pub expired: u64,
    /// See [`MessageFate::Refused`].
    pub refused: u64,
    /// See [`MessageFate::Unknown`].
    pub unknown: u64,
    /// Of the delivered ones, those that repair symbols helped.
    pub recovered: u64,
    /// Messages whose fate is open.
    pub in_flight: usize,
    /// Bytes of these.
    pub in_flight_bytes: u64,
    /// Messages of the peer that came whole.
    pub received: u64,
    /// Messages that the peer gave up.
    pub given_up_by_peer: u64,
    /// Messages of the peer that we refused.
    pub refused_by_us: u64,
    /// Messages that came whole and wait for the application.
    pub unread: usize,
    /// Bytes held of messages of the peer, whole or not.
    pub unread_bytes: u64,
}
