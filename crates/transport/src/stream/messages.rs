//! Streams that carry messages: what the room of messages (`message/`) may ask and is told of them.
//!
//! Owns: which streams those are, [`Notice`]s in place of events for the application, deadlines as
//! schedulers see them. Does not own: messages, their fates.

use std::time::Duration;

use super::{Protection, StreamEvent, StreamSet, sched::Priority};
use crate::{
    multipath::PathPin,
    time::Instant,
    units::{Dir, StreamId},
};

/// What happened to a stream that carries a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It takes bytes again.
    Writable(StreamId),
    /// All of it is acknowledged.
    Delivered(StreamId),
    /// The peer does not want it.
    Stopped { id: StreamId, code: u64 },
    /// Some of a stream with a deadline was lost, and will be sent again.
    Lost(StreamId),
    /// There is something to read.
    Readable(StreamId),
}

/// What [`StreamSet`] keeps for the room of messages.
#[derive(Debug, Default)]
pub(super) struct MessageStreams {
    /// What it was not told yet; it asks after every input.
    pub(super) notices: Vec<Notice>,
    /// Streams that exist and have a deadline.
    pub(super) with_deadline: usize,
    /// The deadline of the stream that was written last of those that have one.
    pub(super) sent_deadline: Option<Instant>,
    /// Unidirectional streams of the peer carry messages.
    pub(super) takes_uni: bool,
    /// Some stream carries a message, or did.
    any: bool,
}

impl MessageStreams {
    pub(super) fn on_event(&mut self, event: StreamEvent) {
        self.notices.push(match event {
            StreamEvent::Readable(id) => Notice::Readable(id),
            StreamEvent::Writable(id) => Notice::Writable(id),
            StreamEvent::Finished(id) => Notice::Delivered(id),
            StreamEvent::Stopped { id, code } => Notice::Stopped { id, code },
            StreamEvent::Opened(_) | StreamEvent::Available(_) => return,
        });
    }

    pub(super) fn on_lost(&mut self, id: StreamId) {
        // Of a packet with several pieces, or several packets in a row.
        if self.notices.last() != Some(&Notice::Lost(id)) {
            self.notices.push(Notice::Lost(id));
        }
    }
}

impl StreamSet {
    /// Opens a unidirectional stream for a message, unless the peer's limit is reached.
    pub(crate) fn open_message(
        &mut self,
        priority: Priority,
        deadline: Option<Instant>,
        protection: Protection,
        pin: Option<PathPin>,
    ) -> Option<StreamId> {
        let id = self.open(Dir::Uni)?;
        self.set_protection(id, protection);
        self.set_pin(id, pin);
        if let Some(stream) = self.table.get_mut(id) {
            self.messages.any = true;
            stream.message = true;
            stream.priority = priority;
            stream.deadline = deadline;
            self.messages.with_deadline += usize::from(deadline.is_some());
        }
        Some(id)
    }

    /// From now on, unidirectional streams of the peer that were not accepted carry messages.
    pub(crate) fn take_uni_for_messages(&mut self) {
        self.messages.takes_uni = true;
    }

    /// The next such stream. Read it at once: notices of before may be gone.
    pub(crate) fn accept_message(&mut self) -> Option<StreamId> {
        let id = self.accept_next(Dir::Uni)?;
        if let Some(stream) = self.table.get_mut(id) {
            self.messages.any = true;
            stream.message = true;
            // An event for the application may wait: it is passed over.
            stream.readable_queued = false;
        }
        Some(id)
    }

    /// Whether a stream carries a message: it is not for the application to write or read.
    pub(crate) fn is_of_message(&self, id: StreamId) -> bool {
        self.messages.any && self.table.get(id).is_some_and(|stream| stream.message)
    }

    /// Whether there is something to tell of streams that carry messages.
    pub(crate) fn has_notices(&self) -> bool {
        !self.messages.notices.is_empty()
    }

    /// Hands over what happened, in exchange for an empty list.
    pub(crate) fn take_notices(&mut self, out: &mut Vec<Notice>) {
        std::mem::swap(&mut self.messages.notices, out);
        for notice in out {
            match *notice {
                Notice::Readable(id) => {
                    if let Some(stream) = self.table.get_mut(id) {
                        stream.readable_queued = false;
                    }
                }
                Notice::Writable(id) => {
                    if let Some(stream) = self.table.get_mut(id) {
                        stream.writable_queued = false;
                    }
                }
                Notice::Delivered(_) | Notice::Stopped { .. } | Notice::Lost(_) => {}
            }
        }
    }

    /// Whether some of a stream or its end was not sent, or is lost as far as is known. False when it
    /// is over.
    pub(crate) fn needs_sending(&self, id: StreamId) -> bool {
        let send = self.table.get(id).and_then(|stream| stream.send.as_ref());
        send.is_some_and(|send| !send.is_terminal() && !send.is_on_its_way())
    }

    /// Bytes of a stream that were not sent yet.
    pub(crate) fn unsent_bytes(&self, id: StreamId) -> u64 {
        let send = self.table.get(id).and_then(|stream| stream.send.as_ref());
        send.map_or(0, |send| {
            let (lost, new) = send.waiting_bytes();
            lost + new
        })
    }

    /// How many notices wait, for [`Self::forget_losses`].
    pub(crate) fn notices_len(&self) -> usize {
        self.messages.notices.len()
    }

    /// What was said to be lost since, so that a probe repeats it, may well have arrived.
    pub(crate) fn forget_losses(&mut self, notices: usize) {
        self.messages.notices.truncate(notices);
    }

    /// Tells the scheduler the time, where that matters.
    pub(crate) fn set_time(&mut self, now: Instant, one_way_delay: impl FnOnce() -> Duration) {
        if self.messages.with_deadline > 0 {
            let way = one_way_delay();
            self.scheduler.on_time(now, way);
            self.pins.set_time(now, way);
        }
    }

    /// The deadline of what was written last of streams with a deadline.
    pub(crate) fn sent_deadline(&self) -> Option<Instant> {
        self.messages.sent_deadline
    }
}
