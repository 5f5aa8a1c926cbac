//! What the applications of one connection wrote and read, to compare at the end.

use std::collections::BTreeMap;

use bytes::Bytes;
use tautline_transport::{
    connection::Connection,
    message::{Expiry, MessageId, MessageOptions, MessageReport, SendMessageError},
    stream::{Protection, ReadError, ReadOutcome, UnorderedOutcome},
    time::Instant,
    units::{Dir, Side, StreamId},
};

/// Bytes that one stream carries in one direction at most, so that a run stays short.
const MAX_STREAM_BYTES: u64 = 64 * 1024;

/// The byte at `offset` of what `sender` says on a stream.
fn pattern(sender: Side, id: StreamId, offset: u64) -> u8 {
    let seed = id.0.wrapping_mul(29) ^ u64::from(sender.is_server()) << 7;
    (offset ^ (offset >> 8).wrapping_mul(31)) as u8 ^ seed as u8
}

/// Every byte of every message.
const MESSAGE_BYTE: u8 = b'm';

fn is_message(data: &[u8]) -> bool {
    data.iter().all(|byte| *byte == MESSAGE_BYTE)
}

/// What one end knows of the messages that it sent.
#[derive(Debug, Default)]
pub(super) struct Messages {
    sent: u64,
    fates: BTreeMap<MessageId, MessageReport>,
}

impl Messages {
    pub(super) fn send(
        &mut self,
        connection: &mut Connection,
        now: Instant,
        len: u16,
        within: u8,
        behind: u8,
    ) {
        let within = std::time::Duration::from_millis(within.into());
        let behind = (behind > 0).then(|| self.sent.wrapping_sub(behind.into()));
        let options = MessageOptions {
            deadline: Some(now + within),
            depends_on: behind.map(MessageId).into_iter().collect(),
            expiry: if len.is_multiple_of(2) {
                Expiry::AtDeadline
            } else {
                Expiry::WhenHopeless
            },
            protection: match len % 3 {
                0 => Protection::Scheduled,
                1 => Protection::Never,
                _ => Protection::Always,
            },
            ..MessageOptions::default()
        };
        let data = Bytes::from(vec![MESSAGE_BYTE; usize::from(len)]);
        match connection.send_message(now, data.clone(), &options) {
            Ok(id) => {
                assert_eq!(id, MessageId(self.sent), "messages are counted");
                self.sent += 1;
            }
            Err(SendMessageError::Blocked(back)) => assert_eq!(back, data),
            Err(SendMessageError::UnknownDependency(id)) => assert!(id.0 >= self.sent),
            Err(_) => {}
        }
    }

    pub(super) fn on_fate(&mut self, report: MessageReport) {
        assert!(report.id.0 < self.sent, "the fate of nothing");
        let before = self.fates.insert(report.id, report);
        assert_eq!(before, None, "two fates");
    }

    /// What must hold at any time; when all is `over`, every message has its fate.
    pub(super) fn check(&self, connection: &Connection, over: bool) {
        let open = connection.message_stats().in_flight;
        assert!(!over || self.fates.len() as u64 == self.sent, "no fate");
        assert!(
            open + self.fates.len() <= self.sent as usize,
            "fates of open messages"
        );
    }
}

/// Takes the messages that came, and those to come.
pub(super) fn receive_messages(connection: &mut Connection, check: bool) {
    let sender = connection.side().peer();
    while let Some(message) = connection.recv_message() {
        let Ok(message) = message else {
            assert!(!check, "a message is refused");
            continue;
        };
        // Streams that the script wrote by hand are messages too.
        let by_hand = |(at, byte): (u64, &u8)| *byte == pattern(sender, message.stream, at);
        let whole = is_message(&message.data) || (0..).zip(&message.data).all(by_hand);
        assert!(!check || whole, "a message of other bytes");
    }
}

/// What was written to a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) len: u64,
    pub(super) finished: bool,
    /// Reset by us or on the peer's wish; with how much of it still promised.
    pub(super) reset: Option<u64>,
}

/// How reading a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Finished,
    Reset,
    Stopped,
}

/// What was read of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Read {
    /// Bytes read in order.
    ordered: u64,
    /// Which bytes were read, once any came out of order.
    seen: Option<Vec<bool>>,
    pub(super) ended: Option<Ended>,
}

impl Read {
    /// Bytes that were read, of the first `len`.
    pub(super) fn count(&self, len: u64) -> u64 {
        match &self.seen {
            None => self.ordered.min(len),
            Some(seen) => seen.iter().take(len as usize).filter(|seen| **seen).count() as u64,
        }
    }
}

/// One end's streams.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// In the order they came to be known.
    pub(super) known: Vec<StreamId>,
    pub(super) written: BTreeMap<StreamId, Written>,
    pub(super) read: BTreeMap<StreamId, Read>,
    /// Unidirectional streams of the peer may be messages, read as streams.
    pub(super) messages: bool,
    /// Unidirectional streams of the peer are taken as messages.
    pub(super) takes_messages: bool,
}

impl Streams {
    pub(super) fn learn(&mut self, id: StreamId) {
        if !self.known.contains(&id) {
            self.known.push(id);
        }
    }

    /// The stream that `place` names.
    pub(super) fn pick(&self, place: u8) -> StreamId {
        let index = usize::from(place).checked_rem(self.known.len());
        let known = index.and_then(|index| self.known.get(index));
        known.copied().unwrap_or(StreamId(u64::from(place)))
    }

    /// Writes up to `len` more bytes.
    pub(super) fn write(&mut self, connection: &mut Connection, id: StreamId, len: u16) {
        let written = self.written.get(&id).copied().unwrap_or_default();
        let end = (written.len + u64::from(len)).min(MAX_STREAM_BYTES);
        let side = connection.side();
        let bytes: Vec<u8> = (written.len..end).map(|at| pattern(side, id, at)).collect();
        if let Ok(taken) = connection.write(id, &bytes) {
            assert!(taken <= bytes.len());
            self.written.entry(id).or_default().len += taken as u64;
        }
    }

    /// Reads once, in order. `check` compares with what the peer wrote. False when there is no
    /// more to have now.
    pub(super) fn read(
        &mut self,
        connection: &mut Connection,
        id: StreamId,
        max: usize,
        check: bool,
    ) -> bool {
        let sender = connection.side().peer();
        let outcome = connection.read(id, max);
        let read = self.read.entry(id).or_default();
        match outcome {
            Ok(ReadOutcome::Chunk(chunk)) => {
                assert!(!chunk.is_empty() && chunk.len() <= max, "size of a read");
                assert!(read.seen.is_none(), "ordered after unordered");
                let message = self.messages && id.dir() == Dir::Uni && is_message(&chunk);
                if check && !message {
                    assert_eq!(read.ended, None, "data after the end");
                    for (at, byte) in (read.ordered..).zip(&chunk) {
                        assert_eq!(*byte, pattern(sender, id, at), "byte {at} of {id:?}");
                    }
                }
                read.ordered += chunk.len() as u64;
                true
            }
            Ok(ReadOutcome::Finished) => {
                read.ended.get_or_insert(Ended::Finished);
                false
            }
            Err(ReadError::Reset(_)) => {
                read.ended.get_or_insert(Ended::Reset);
                false
            }
            Err(ReadError::Stopped) => {
                read.ended.get_or_insert(Ended::Stopped);
                false
            }
            Err(ReadError::Unordered) => self.read_unordered(connection, id, max, check),
            _ => false,
        }
    }

    /// Reads once, in any order.
    pub(super) fn read_unordered(
        &mut self,
        connection: &mut Connection,
        id: StreamId,
        max: usize,
        check: bool,
    ) -> bool {
        let sender = connection.side().peer();
        let outcome = connection.read_unordered(id, max);
        let read = self.read.entry(id).or_default();
        match outcome {
            Ok(UnorderedOutcome::Chunk { offset, data }) => {
                assert!(!data.is_empty() && data.len() <= max, "size of a read");
                if !check {
                    return true;
                }
                let ordered = read.ordered as usize;
                let seen = read.seen.get_or_insert_with(|| vec![true; ordered]);
                let end = offset as usize + data.len();
                if seen.len() < end {
                    seen.resize(end, false);
                }
                let message = self.messages && id.dir() == Dir::Uni && is_message(&data);
                for (at, byte) in (offset..).zip(&data) {
                    let expected = pattern(sender, id, at);
                    assert!(message || *byte == expected, "byte {at} of {id:?}");
                    assert!(!seen[at as usize], "byte {at} of {id:?} given twice");
                    seen[at as usize] = true;
                }
                true
            }
            Ok(UnorderedOutcome::Finished) => {
                read.ended.get_or_insert(Ended::Finished);
                false
            }
            Err(ReadError::Reset(_)) => {
                read.ended.get_or_insert(Ended::Reset);
                false
            }
            Err(ReadError::Stopped) => {
                read.ended.get_or_insert(Ended::Stopped);
                false
            }
            _ => false,
        }
    }

    /// Accepts and reads all there is.
    pub(super) fn read_all(&mut self, connection: &mut Connection, check: bool) {
        for dir in [
            tautline_transport::units::Dir::Bi,
            tautline_transport::units::Dir::Uni,
        ] {
            while let Some(id) = connection.accept_stream(dir) {
                self.learn(id);
            }
        }
        for id in self.known.clone() {
            while self.read(connection, id, usize::MAX, check) {}
        }
    }
}

/// Why what `reader` read of a stream is not yet what `writer` wrote; `None` if it is.
pub(super) fn lacking(writer: &Streams, reader: &Streams) -> Option<(StreamId, &'static str)> {
    for (&id, written) in &writer.written {
        if reader.takes_messages && id.dir() == Dir::Uni {
            continue;
        }
        let unread = Read::default();
        let read = reader.read.get(&id).unwrap_or(&unread);
        if read.ended == Some(Ended::Stopped) {
            continue;
        }
        let promised = written.reset.unwrap_or(written.len);
        if read.count(promised) < promised {
            return Some((id, "bytes"));
        }
        if written.finished && written.reset.is_none() && read.ended != Some(Ended::Finished) {
            return Some((id, "the end"));
        }
        if written.reset.is_some() && read.ended.is_none() {
            return Some((id, "the reset"));
        }
    }
    None
}
