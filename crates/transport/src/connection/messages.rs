//! Messages in the hall: what an application may ask, and when the room of messages catches up.
//!
//! Owns: the calls, which path's round trip counts. Does not own: messages (`message/`).

use std::time::Duration;

use bytes::Bytes;

use super::Connection;
use crate::{
    message::{
        Message, MessageId, MessageOptions, MessageOutlook, MessageReport, MessageStats, OneWay,
        ReceiveMessageError, SendMessageError,
    },
    recovery::RttEstimator,
    time::Instant,
};

impl Connection {
    /// Takes a message to send: whole, on a unidirectional stream of its own, as soon as the peer's
    /// stream limit lets one open. Its fate comes as [`super::Event::Message`], once. One whose
    /// deadline has come, or that depends on a message that was not delivered, expires at once.
    ///
    /// # Errors
    /// [`SendMessageError`]; nothing was taken.
    pub fn send_message(
        &mut self,
        now: Instant,
        data: Bytes,
        options: &MessageOptions,
    ) -> Result<MessageId, SendMessageError> {
        if self.is_closed() {
            return Err(SendMessageError::Closed);
        }
        let config = &self.config.messages;
        self.messages
            .send(now, config, data, options, &mut self.streams)
    }

    /// Tells when the next message will be handed over, or that nobody knows. It is forgotten with
    /// the next [`Self::send_message`]. Redundancy schedulers wait for it, as long as deadlines
    /// allow.
    pub fn next_message_at(&mut self, at: Option<Instant>) {
        if !self.is_closed() {
            let config = &self.config.messages;
            self.messages.set_next_message_at(config, at);
        }
    }

    /// What became of a message of ours. `None` while that is open, for messages that were never sent,
    /// and for those that ended before the latest
    /// [`MessageConfig::remembered`](crate::message::MessageConfig::remembered).
    pub fn message_fate(&self, id: MessageId) -> Option<MessageReport> {
        self.messages.fate(id)
    }

    /// Whether the fate of a message of ours is still to come.
    pub fn is_message_open(&self, id: MessageId) -> bool {
        self.messages.is_open(id)
    }

    /// What is known of messages under way and to come.
    pub fn message_outlook(&self, now: Instant) -> MessageOutlook {
        let arrival = now + self.one_way_delay();
        self.messages.outlook(arrival, &self.streams)
    }

    /// From now on takes each unidirectional stream of the peer that was not accepted for a message:
    /// [`Self::accept_stream`] gives none of them any more. Cannot be taken back.
    pub fn receive_messages(&mut self) {
        let config = &self.config.messages;
        self.messages.receive(config, &mut self.streams);
    }

    /// The next message that arrived whole, in the order in which they did; an error for one that
    /// was refused. Call [`Self::receive_messages`] before.
    pub fn recv_message(&mut self) -> Option<Result<Message, ReceiveMessageError>> {
        self.messages.take(&mut self.streams)
    }

    /// Counters of messages.
    pub fn message_stats(&self) -> MessageStats {
        self.messages.stats()
    }

    /// How long a packet takes to the peer, as far as known.
    pub(super) fn one_way_delay(&self) -> Duration {
        let path = self.main_path();
        path.map_or(Duration::ZERO, |path| one_way_delay(path.recovery.rtt()))
    }

    /// Tells the room of messages what happened to its streams, and the time.
    pub(super) fn catch_up_with_messages(&mut self, now: Instant) {
        if self.messages.in_use() {
            let path = self.main_path();
            let rtt = path.map(|path| path.recovery.rtt());
            let rtt = rtt.filter(|rtt| rtt.has_sample());
            let way = rtt.map_or_else(OneWay::default, |rtt| OneWay {
                smoothed: one_way_delay(rtt),
                shortest: rtt.min() / 2,
            });
            self.messages.catch_up(now, way, &mut self.streams);
        }
    }
}

/// Half a round trip; zero before the first is measured.
pub(super) fn one_way_delay(rtt: &RttEstimator) -> Duration {
    if rtt.has_sample() {
        rtt.smoothed() / 2
    } else {
        Duration::ZERO
    }
}
