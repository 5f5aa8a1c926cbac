//! Messages: bytes that belong together, are of use until a deadline, and have a fate.
//!
//! Purpose: send and receive whole messages, give up those that come too late, tell the sender what
//! became of each.
//! Owns: [`Messages`]; which stream carries which message, deadlines and expiry, dependencies,
//! fates, parts of messages received, their limits ([`MessageConfig`]).
//! Does not own: streams (`stream/`; each message is a unidirectional stream, from its first byte
//! to its end), their order in packets (`stream/sched`), when repair symbols leave (`fec/`, which
//! sees [`MessageOutlook`]).
//! Called by: `connection/messages.rs`.
//! Spec: docs/messages.md; on the wire, RFC 9000.
//! To add a variant: a fate is a variant of [`MessageFate`], set where `outgoing.rs` settles.

mod config;
mod incoming;
mod outgoing;
#[cfg(test)]
mod tests;
mod types;

use std::time::Duration;

use bytes::Bytes;

pub use config::MessageConfig;
pub use types::{
    Expiry, Message, MessageEvent, MessageFate, MessageId, MessageOptions, MessageOutlook,
    MessageReport, MessageStats, ReceiveMessageError, SendMessageError,
};

use crate::{
    stream::{Notice, StreamSet},
    time::Instant,
    units::{Rate, StreamId},
};
use incoming::Incoming;
use outgoing::{HASTE, LEAST_TIME, Outgoing};

/// What one message costs beside its bytes; counted, so that empty ones are bounded too.
const MESSAGE_OVERHEAD: u64 = 64;

/// What a packet takes to the peer, as far as known; zero while nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OneWay {
    /// Usually.
    pub smoothed: Duration,
    /// At least.
    pub shortest: Duration,
}

/// Messages of one connection, both ways. Allocates nothing until used.
#[derive(Debug, Default)]
pub struct Messages {
    outgoing: Option<Box<Outgoing>>,
    incoming: Option<Box<Incoming>>,
    notices: Vec<Notice>,
}

impl Messages {
    /// Whether messages are sent or received here.
    pub fn in_use(&self) -> bool {
        self.outgoing.is_some() || self.incoming.is_some()
    }

    // ---- Sending ----

    /// Takes a message. `config` counts at the first one.
    ///
    /// # Errors
    /// [`SendMessageError`]; nothing was taken.
    pub fn send(
        &mut self,
        now: Instant,
        config: &MessageConfig,
        data: Bytes,
        options: &MessageOptions,
        streams: &mut StreamSet,
    ) -> Result<MessageId, SendMessageError> {
        let outgoing = self.outgoing_or_new(config);
        outgoing.send(now, data, options, streams)
    }

    fn outgoing_or_new(&mut self, config: &MessageConfig) -> &mut Outgoing {
        self.outgoing
            .get_or_insert_with(|| Box::new(Outgoing::new(*config)))
    }

    /// When the application will hand over its next message; forgotten when it does.
    pub fn set_next_message_at(&mut self, config: &MessageConfig, at: Option<Instant>) {
        self.outgoing_or_new(config).set_next_message_at(at);
    }

    /// What became of a message, if that is known and not forgotten.
    pub fn fate(&self, id: MessageId) -> Option<MessageReport> {
        self.outgoing.as_ref()?.fate(id)
    }

    /// Whether the fate of a message is still to come.
    pub fn is_open(&self, id: MessageId) -> bool {
        let outgoing = self.outgoing.as_ref();
        outgoing.is_some_and(|outgoing| outgoing.is_open(id))
    }

    /// Whether this is the stream of a message whose deadline has come: what it lacks would be too late if it were sent again.
    pub(crate) fn is_overdue(&self, now: Instant, stream: StreamId) -> bool {
        let outgoing = self.outgoing.as_ref();
        outgoing.is_some_and(|outgoing| outgoing.is_overdue(now, stream))
    }

    /// What is known of messages to come. `arrival`: when a packet that leaves now is there.
    pub fn outlook(&self, arrival: Instant, streams: &StreamSet) -> MessageOutlook {
        let outgoing = self.outgoing.as_ref();
        outgoing.map_or_else(MessageOutlook::default, |outgoing| {
            outgoing.outlook(arrival, streams)
        })
    }

    /// How long the latest message with a deadline had when it was handed over; `None` if there was none lately.
    pub(crate) fn time_lately(&self, now: Instant) -> Option<Duration> {
        self.outgoing.as_ref()?.time_lately(now)
    }

    /// How fast messages have to leave from now on, those with the nearest deadlines first, for all of
    /// them to be in time that still can; zero if none waits. `way`: how long a packet takes.
    pub(crate) fn needed_rate(&self, now: Instant, way: Duration, streams: &StreamSet) -> Rate {
        let outgoing = self.outgoing.as_ref();
        outgoing.map_or(Rate::ZERO, |outgoing| {
            outgoing.needed_rate(now, way, streams)
        })
    }

    /// How fast `bytes` have to leave for the nearest deadline that can be met; zero if there is none.
    pub(crate) fn rate_for(
        &self,
        bytes: u64,
        now: Instant,
        way: Duration,
        streams: &StreamSet,
    ) -> Rate {
        let arrival = now + way;
        let nearest = self.outlook(arrival, streams).deadline;
        nearest.map_or(Rate::ZERO, |deadline| {
            let time = deadline.saturating_since(arrival).max(LEAST_TIME);
            Rate::from_bytes_over(bytes, time).mul_f64(HASTE)
        })
    }

    /// Some of a stream came by repair symbols.
    pub(crate) fn on_recovered(&mut self, stream: StreamId) {
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.on_recovered(stream);
        }
    }

    // ---- Receiving ----

    /// From now on, unidirectional streams of the peer that nobody accepted carry messages.
    pub fn receive(&mut self, config: &MessageConfig, streams: &mut StreamSet) {
        if self.incoming.is_none() {
            streams.take_uni_for_messages();
            let mut incoming = Box::new(Incoming::new(*config));
            incoming.accept(streams);
            self.incoming = Some(incoming);
        }
    }

    /// The next message that came whole, or what is to be said of one that will not.
    pub fn take(
        &mut self,
        streams: &mut StreamSet,
    ) -> Option<Result<Message, ReceiveMessageError>> {
        self.incoming.as_mut()?.take(streams)
    }

    // ---- Both ----

    /// Catches up with the streams after any input.
    pub(crate) fn catch_up(&mut self, now: Instant, way: OneWay, streams: &mut StreamSet) {
        while streams.has_notices() {
            let mut notices = std::mem::take(&mut self.notices);
            streams.take_notices(&mut notices);
            // What one acknowledgement tells is known at once: that a message arrived, before that
            // one is lost on which it depends.
            notices.sort_by_key(|notice| matches!(notice, Notice::Lost(_)));
            for notice in notices.drain(..) {
                if let Some(outgoing) = &mut self.outgoing {
                    outgoing.on_notice(now, way.smoothed, notice, streams);
                }
                if let Some(incoming) = &mut self.incoming {
                    incoming.on_notice(notice, streams);
                }
            }
            self.notices = notices;
        }
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.on_timeout(now, way.shortest, streams);
            outgoing.open_streams(streams);
        }
        if let Some(incoming) = &mut self.incoming {
            incoming.accept(streams);
        }
    }

    /// When the next deadline comes.
    pub fn timer(&self) -> Option<Instant> {
        self.outgoing.as_ref()?.timer()
    }

    /// The next thing the application should know.
    pub fn poll_event(&mut self) -> Option<MessageEvent> {
        if let Some(outgoing) = &mut self.outgoing {
            if let Some(report) = outgoing.poll_fate() {
                return Some(MessageEvent::Fate(report));
            }
            if outgoing.take_unblocked() {
                return Some(MessageEvent::Unblocked);
            }
        }
        let incoming = self.incoming.as_mut()?;
        incoming.take_news().then_some(MessageEvent::Received)
    }

    /// Counters.
    pub fn stats(&self) -> MessageStats {
        let outgoing = self.outgoing.as_ref();
        let sent = outgoing.map_or_else(MessageStats::default, |outgoing| outgoing.stats());
        let incoming = self.incoming.as_ref();
        let received = incoming.map_or_else(MessageStats::default, |incoming| incoming.stats());
        MessageStats {
            received: received.received,
            given_up_by_peer: received.given_up_by_peer,
            refused_by_us: received.refused_by_us,
            unread: received.unread,
            unread_bytes: received.unread_bytes,
            ..sent
        }
    }

    /// The connection is over: every message has its fate now, and what came whole can be taken.
    /// Called after the streams heard of it.
    pub(crate) fn on_connection_over(&mut self, streams: &mut StreamSet) {
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.on_connection_over();
        }
        if let Some(incoming) = &mut self.incoming {
            incoming.on_connection_over(streams);
        }
        self.notices = Vec::new();
    }

    /// Nobody will ask any more.
    pub(crate) fn abandon(&mut self) {
        self.outgoing = None;
        if let Some(incoming) = &mut self.incoming {
            incoming.discard();
        }
    }
}
