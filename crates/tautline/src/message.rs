//! Messages on a connection: sent whole, of use until a deadline, each with a fate.
//!
//! Owns: [`MessageOptions`], [`MessageReport`], the calls on [`Connection`]. Does not own: what a
//! message is and what becomes of it (`tautline_transport::message`, docs/messages.md).

use std::{
    future::Future,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tautline_transport::{
    message::{
        self as core, Expiry, Message, MessageFate, MessageId, MessageStats,
        SendMessageError as TransportError,
    },
    multipath::PathPin,
    stream::{Protection, sched::Priority},
    units::StreamId,
};

use crate::{
    Connection,
    conn::{ConnState, Queue, WaitFor},
    error::{NextMessageError, SendMessageError, UnknownMessage},
};

/// What matters about a message beside its bytes. By default it has no deadline, the default
/// [`Priority`], and depends on nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageOptions {
    deadline: Option<Deadline>,
    priority: Priority,
    protection: Protection,
    pin: Option<PathPin>,
    depends_on: Vec<MessageId>,
    expiry: Expiry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deadline {
    Within(Duration),
    By(Instant),
}

impl MessageOptions {
    /// Of use for so long from the call that sends it on.
    pub fn within(time: Duration) -> Self {
        Self {
            deadline: Some(Deadline::Within(time)),
            ..Self::default()
        }
    }

    /// Of use until then.
    pub fn by(deadline: Instant) -> Self {
        Self {
            deadline: Some(Deadline::By(deadline)),
            ..Self::default()
        }
    }

    /// Its place among streams and messages: which goes first is for the stream scheduler to say
    /// ([`TransportConfig::stream_scheduler`](crate::TransportConfig)).
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Whether erasure correction protects it, where that was negotiated: by default the redundancy
    /// scheduler says.
    #[must_use]
    pub fn protection(mut self, protection: Protection) -> Self {
        self.protection = protection;
        self
    }

    /// The path it goes by; one that is not there has no effect. Usually: any.
    #[must_use]
    pub fn pin(mut self, pin: PathPin) -> Self {
        self.pin = Some(pin);
        self
    }

    /// Of no use without these, sent before it on this connection: if one of them is not delivered,
    /// it expires.
    #[must_use]
    pub fn depends_on(mut self, ids: impl IntoIterator<Item = MessageId>) -> Self {
        self.depends_on.extend(ids);
        self
    }

    /// When it is given up that will not be whole in time.
    #[must_use]
    pub fn expiry(mut self, expiry: Expiry) -> Self {
        self.expiry = expiry;
        self
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageReport {
    /// Which message.
    pub id: MessageId,
    /// How it ended. How that is judged: docs/messages.md.
    pub fate: MessageFate,
    /// Some of it came by repair symbols.
    pub recovered: bool,
    /// Its bytes.
    pub bytes: u64,
    /// From the call that sent it to its arrival, as half a round trip tells; `None` if it was not
    /// delivered.
    pub took: Option<Duration>,
    /// The stream that carried it; `None` if it had none.
    pub stream: Option<StreamId>,
}

impl MessageReport {
    fn new(report: core::MessageReport) -> Self {
        Self {
            id: report.id,
            fate: report.fate,
            recovered: report.recovered,
            bytes: report.bytes,
            took: report
                .arrived
                .map(|arrived| arrived.saturating_since(report.handed_over)),
            stream: report.stream,
        }
    }
}

impl Connection {
    /// Sends a message, whole, without waiting: it is queued, and leaves on a unidirectional stream
    /// of its own.
    ///
    /// It is sent again when lost, until its deadline; then it is given up, by RESET_STREAM if any of
    /// it left. [`Self::message_fate`] tells how it ended. A message whose deadline has passed
    /// already, or that depends on one that was not delivered, expires at once.
    ///
    /// # Errors
    /// See [`SendMessageError`]; when too many are under way the message comes back.
    pub fn send_message(
        &self,
        data: Bytes,
        options: &MessageOptions,
    ) -> Result<MessageId, SendMessageError> {
        let options = self.resolve(options);
        let now = self.conn().shard.now();
        self.conn()
            .with(|state| queue_message(state, now, data, &options))
    }

    /// As [`Self::send_message`], but waits while too many messages are under way.
    ///
    /// Its time runs from the call on. Cancel safe: unless it returned, nothing was sent.
    ///
    /// # Errors
    /// See [`SendMessageError`].
    pub async fn send_message_wait(
        &self,
        data: Bytes,
        options: &MessageOptions,
    ) -> Result<MessageId, SendMessageError> {
        let options = self.resolve(options);
        let shard = &self.conn().shard;
        let mut data = Some(data);
        let attempt =
            |state: &mut ConnState| match queue_message(state, shard.now(), data.take()?, &options)
            {
                Err(SendMessageError::Blocked(back)) => {
                    data = Some(back);
                    None
                }
                outcome => Some(outcome),
            };
        self.wait(Queue::MessageOut, attempt).await
    }

    /// Tells when the next message will be sent, until one is. Redundancy schedulers that know wait
    /// for it before they protect, as far as deadlines let them, and so cover more by the same repair
    /// symbols.
    pub fn next_message_at(&self, at: Instant) {
        let at = self.conn().shard.clock.at(at);
        self.conn()
            .with(|state| state.quic.next_message_at(Some(at)));
    }

    /// The next message of the peer, in the order in which they arrived whole.
    ///
    /// From the first call on, every unidirectional stream of the peer that was not accepted carries
    /// a message: [`Self::accept_uni`] gives none of them any more. Messages that nobody takes stop
    /// the peer by flow control. Cancel safe.
    ///
    /// # Errors
    /// When a message was refused (the next call goes on), or the connection has ended and no
    /// message is left.
    pub async fn next_message(&self) -> Result<Message, NextMessageError> {
        let next = |state: &mut ConnState| {
            state.quic.receive_messages();
            let taken = state.quic.recv_message();
            // What was taken makes room.
            state.touched |= state.quic.has_stream_control();
            match taken {
                Some(Ok(message)) => Some(Ok(message)),
                Some(Err(refused)) => Some(Err(refused.into())),
                None => state.alive().err().map(|error| Err(error.into())),
            }
        };
        self.wait(Queue::MessageIn, next).await
    }

    /// Waits until it is known what became of a message of ours. Cancel safe.
    ///
    /// The future does not keep the connection open: when it ends first, the fate is
    /// [`MessageFate::Unknown`].
    ///
    /// # Errors
    /// For a message that was never sent, or that ended before the latest
    /// [`MessageConfig::remembered`](tautline_transport::message::MessageConfig::remembered).
    pub fn message_fate(
        &self,
        id: MessageId,
    ) -> impl Future<Output = Result<MessageReport, UnknownMessage>> + Send + 'static + use<> {
        let conn = std::sync::Arc::clone(self.conn());
        WaitFor::new(conn, Queue::Fate(id), move |state: &mut ConnState| {
            let known = state.quic.message_fate(id);
            let known = known.map(|report| Ok(MessageReport::new(report)));
            let open = state.quic.is_message_open(id);
            known.or_else(|| (!open).then_some(Err(UnknownMessage(id))))
        })
    }

    /// Counters of messages.
    pub fn message_stats(&self) -> MessageStats {
        self.conn().state.lock().quic.message_stats()
    }

    fn resolve(&self, options: &MessageOptions) -> core::MessageOptions {
        let shard = &self.conn().shard;
        core::MessageOptions {
            deadline: options.deadline.map(|deadline| match deadline {
                Deadline::Within(time) => shard.now() + time,
                Deadline::By(at) => shard.clock.at(at),
            }),
            priority: options.priority,
            protection: options.protection,
            pin: options.pin,
            depends_on: options.depends_on.clone(),
            expiry: options.expiry,
        }
    }
}

fn queue_message(
    state: &mut ConnState,
    now: tautline_transport::time::Instant,
    data: Bytes,
    options: &core::MessageOptions,
) -> Result<MessageId, SendMessageError> {
    state.usable()?;
    let sent = state.quic.send_message(now, data, options);
    let id = sent.map_err(|error| match error {
        TransportError::TooLarge { max } => SendMessageError::TooLarge { max },
        TransportError::Blocked(back) => SendMessageError::Blocked(back),
        TransportError::TooManyDependencies { max } => {
            SendMessageError::TooManyDependencies { max }
        }
        TransportError::UnknownDependency(id) => SendMessageError::UnknownDependency(id),
        TransportError::ForgottenDependency(id) => SendMessageError::ForgottenDependency(id),
        // Closed; `usable` says why.
        _ => match state.usable() {
            Err(error) => SendMessageError::ConnectionLost(error),
            Ok(()) => {
                SendMessageError::ConnectionLost(crate::error::ConnectionError::LocallyClosed)
            }
        },
    })?;
    state.touched = true;
    Ok(id)
}
