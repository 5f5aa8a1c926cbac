//! Messages of the peer, from their first byte until the application takes them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use super::{MESSAGE_OVERHEAD, Message, MessageConfig, MessageStats, ReceiveMessageError};
use crate::{
    stream::{Notice, ReadError, ReadOutcome, StreamSet},
    units::StreamId,
};

/// What waits for the application.
type Unread = Result<Message, ReceiveMessageError>;

/// Messages of the peer.
#[derive(Debug)]
pub(super) struct Incoming {
    config: MessageConfig,
    /// Those that are not whole.
    parts: BTreeMap<StreamId, Vec<u8>>,
    parts_bytes: u64,
    unread: VecDeque<Unread>,
    unread_bytes: u64,
    /// Streams with something to read that wait until the application has taken messages.
    behind: BTreeSet<StreamId>,
    /// [`super::MessageEvent::Received`] is due.
    news: bool,
    stats: MessageStats,
}

impl Incoming {
    pub(super) fn new(config: MessageConfig) -> Self {
        Self {
            config,
            parts: BTreeMap::new(),
            parts_bytes: 0,
            unread: VecDeque::new(),
            unread_bytes: 0,
            behind: BTreeSet::new(),
            news: false,
            stats: MessageStats::default(),
        }
    }

    pub(super) fn on_notice(&mut self, notice: Notice, streams: &mut StreamSet) {
        if let Notice::Readable(id) = notice {
            self.read(id, streams);
        }
    }

    /// Takes the streams that the peer opened.
    pub(super) fn accept(&mut self, streams: &mut StreamSet) {
        while !self.is_full()
            && let Some(id) = streams.accept_message()
        {
            self.read(id, streams);
        }
    }

    pub(super) fn take(&mut self, streams: &mut StreamSet) -> Option<Unread> {
        let taken = self.unread.pop_front();
        if let Some(taken) = &taken {
            let bytes = taken.as_ref().map_or(0, |message| message.data.len());
            self.unread_bytes -= bytes as u64 + MESSAGE_OVERHEAD;
        }
        if self.unread.is_empty() && self.unread.capacity() > 64 {
            self.unread = VecDeque::new();
        }
        while !self.is_full()
            && let Some(id) = self.behind.pop_first()
        {
            self.read(id, streams);
        }
        self.accept(streams);
        taken
    }

    /// Whether the application must hear of messages, once.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news) && !self.unread.is_empty()
    }

    pub(super) fn stats(&self) -> MessageStats {
        MessageStats {
            unread: self.unread.len(),
            unread_bytes: self.unread_bytes + self.parts_bytes,
            ..self.stats
        }
    }

    fn is_full(&self) -> bool {
        self.unread_bytes >= self.config.receive_bytes.max(1)
    }

    fn read(&mut self, id: StreamId, streams: &mut StreamSet) {
        if self.is_full() {
            self.behind.insert(id);
            return;
        }
        let max = self.config.message_bytes;
        loop {
            match streams.read(id, usize::MAX) {
                Ok(ReadOutcome::Chunk(chunk)) => {
                    let held = self.parts.get(&id).map_or(0, Vec::len) as u64;
                    if held + chunk.len() as u64 > max {
                        self.refuse(
                            id,
                            ReceiveMessageError::TooLarge { stream: id, max },
                            streams,
                        );
                        return;
                    }
                    if held == 0 {
                        self.parts_bytes += MESSAGE_OVERHEAD;
                    }
                    self.parts_bytes += chunk.len() as u64;
                    self.parts.entry(id).or_default().extend_from_slice(&chunk);
                }
                Ok(ReadOutcome::Finished) => {
                    let data = self.drop_part(id).map_or_else(Bytes::new, Bytes::from);
                    self.stats.received += 1;
                    self.keep(Ok(Message { stream: id, data }));
                    return;
                }
                Ok(ReadOutcome::Blocked) => break,
                Err(error) => {
                    self.stats.given_up_by_peer += u64::from(matches!(error, ReadError::Reset(_)));
                    self.drop_part(id);
                    return;
                }
            }
        }
        // Whatever the peer began first can be finished; and no part of it waits in a stream, where
        // it would hold back others.
        while self.parts_bytes > self.config.receive_bytes.max(max)
            && self.parts.len() > 1
            && let Some((&newest, _)) = self.parts.last_key_value()
        {
            self.refuse(
                newest,
                ReceiveMessageError::NoRoom { stream: newest },
                streams,
            );
        }
    }

    fn refuse(&mut self, id: StreamId, why: ReceiveMessageError, streams: &mut StreamSet) {
        // It exists: it was just read, or parts of it are here.
        let _ = streams.stop(id, self.config.refused_code.min(crate::wire::MAX_VARINT));
        self.drop_part(id);
        self.stats.refused_by_us += 1;
        self.keep(Err(why));
    }

    fn drop_part(&mut self, id: StreamId) -> Option<Vec<u8>> {
        let part = self.parts.remove(&id)?;
        self.parts_bytes -= part.len() as u64 + MESSAGE_OVERHEAD;
        Some(part)
    }

    fn keep(&mut self, unread: Unread) {
        let bytes = unread.as_ref().map_or(0, |message| message.data.len());
        self.unread_bytes += bytes as u64 + MESSAGE_OVERHEAD;
        self.news |= self.unread.is_empty();
        self.unread.push_back(unread);
    }

    /// The connection is over: what is not whole never will be. What is can be taken still.
    pub(super) fn on_connection_over(&mut self, streams: &mut StreamSet) {
        for id in std::mem::take(&mut self.parts).into_keys() {
            // What the streams still hold of them is read, or dropped with the connection.
            if !self.behind.contains(&id) {
                let _ = streams.stop(id, 0);
            }
        }
        self.parts_bytes = 0;
    }

    /// Nobody will take what is left.
    pub(super) fn discard(&mut self) {
        *self = Self {
            stats: self.stats,
            ..Self::new(self.config)
        };
    }
}
