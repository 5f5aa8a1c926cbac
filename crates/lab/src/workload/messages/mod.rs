//! Messages: each on a unidirectional stream of its own, handed over when a trace says.
//!
//! A message begins with its index and the time at which the trace began (eight bytes each,
//! big-endian, the latter in nanoseconds of the clock that both ends share); they count as its
//! bytes. The receiver knows the trace, hence when each message was handed over, also of those
//! that never come. A message that finds no stream waits in a queue; its time runs.
//!
//! Owns: [`Messages`], the sending and the receiving half. Does not own: which messages
//! (`trace.rs`).

mod trace;

use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use tautline_transport::time::Instant;
pub use trace::{Constant, Frame, Frames, Trace};

use super::{
    Direction, End, Problem, Program, Unready,
    fetch::{Head, Sink, Source},
    file::{FileError, FileRecord},
};
use crate::{
    outcome::{Item, Outcome},
    quantity::Span,
    session::{Half, Happening, Session, StreamKey, Way},
};

/// Index and beginning of the trace.
const HEAD_BYTES: usize = 16;

/// Messages by a trace. An item is a message, wanted when it was handed over.
///
/// Columns of the sender: `messages_handed_over`, `messages_held` (how many of them found no
/// stream at once).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// Which messages, and when.
    pub trace: Trace,
    /// Which way. Default `down`.
    #[serde(default)]
    pub direction: Direction,
    /// How long after its hand-over a message is of use; replaces what the trace says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// Only the messages handed over before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Factor on the bytes of each message, 0.01 to 100; no message gets smaller than 16 bytes.
    /// Default 1.
    #[serde(default = "one")]
    pub scale: f64,
}

const fn one() -> f64 {
    1.0
}

impl Messages {
    /// Messages of this trace.
    pub const fn new(trace: Trace) -> Self {
        Self {
            trace,
            direction: Direction::Down,
            deadline: None,
            duration: None,
            scale: 1.0,
        }
    }

    /// The messages. `seed` decides what is random in them.
    ///
    /// # Errors
    /// When the trace is a file that was not read.
    pub fn frames(&self, seed: u64) -> Result<Arc<[Frame]>, String> {
        let frames = self.trace.frames(seed)?;
        if self.deadline.is_none() && self.duration.is_none() && self.scale == 1.0 {
            return Ok(frames);
        }
        let in_time = |frame: &&Frame| self.duration.is_none_or(|end| frame.at < end.0);
        let change = |frame: &Frame| {
            let scaled = if self.scale == 1.0 {
                frame.bytes
            } else {
                (frame.bytes as f64 * self.scale).round() as u64
            };
            Frame {
                at: frame.at,
                bytes: scaled.max(HEAD_BYTES as u64),
                deadline: self.deadline.map(|deadline| deadline.0).or(frame.deadline),
            }
        };
        Ok(frames.iter().filter(in_time).map(change).collect())
    }

    fn half(&self, end: End, seed: u64) -> Box<dyn Half> {
        match self.frames(seed) {
            Err(reason) => Box::new(Unready(reason)),
            Ok(frames) if end == self.direction.receiver() => Box::new(Receiver::new(frames)),
            Ok(frames) => Box::new(Sender::new(frames)),
        }
    }
}

impl Program for Messages {
    fn client(&self, seed: u64) -> Box<dyn Half> {
        self.half(End::Client, seed)
    }

    fn server(&self, seed: u64) -> Box<dyn Half> {
        self.half(End::Server, seed)
    }

    fn receiver(&self) -> End {
        self.direction.receiver()
    }

    fn validate(&self) -> Result<(), Problem> {
        self.trace.validate()?;
        if !(0.01..=100.0).contains(&self.scale) {
            let reason = format!("{} is not between 0.01 and 100", self.scale);
            return Err(("scale".to_owned(), reason));
        }
        if self.duration.is_some_and(|duration| duration.0.is_zero()) {
            return Err(("duration".to_owned(), "lets no message through".to_owned()));
        }
        Ok(())
    }

    fn resolve(&mut self, base: &Path) -> Result<(), FileError> {
        match &mut self.trace {
            Trace::File(file) => file.load(base),
            _ => Ok(()),
        }
    }

    fn files(&self) -> Vec<FileRecord> {
        match &self.trace {
            Trace::File(file) => vec![file.record()],
            _ => Vec::new(),
        }
    }
}

struct Sender {
    frames: Arc<[Frame]>,
    /// When the trace began.
    began: Option<Instant>,
    handed_over: usize,
    held: usize,
    waiting: VecDeque<usize>,
    writing: BTreeMap<StreamKey, Source>,
    outcome: Outcome,
}

impl Sender {
    fn new(frames: Arc<[Frame]>) -> Self {
        Self {
            frames,
            began: None,
            handed_over: 0,
            held: 0,
            waiting: VecDeque::new(),
            writing: BTreeMap::new(),
            outcome: Outcome::default(),
        }
    }

    fn due(&self) -> Option<Instant> {
        let next = self.frames.get(self.handed_over)?;
        Some(self.began? + next.at)
    }

    fn hand_over(&mut self, session: &mut dyn Session) {
        while self.due().is_some_and(|due| due <= session.now()) {
            self.waiting.push_back(self.handed_over);
            self.handed_over += 1;
            self.send(session);
            self.held += self.waiting.len().min(1);
        }
    }

    fn send(&mut self, session: &mut dyn Session) {
        while let (Some(&index), Some(began)) = (self.waiting.front(), self.began) {
            let Some(frame) = self.frames.get(index) else {
                return;
            };
            let Some(stream) = session.open(Way::Out) else {
                return;
            };
            self.waiting.pop_front();
            let mut head = Vec::with_capacity(HEAD_BYTES);
            head.extend_from_slice(&(index as u64).to_be_bytes());
            head.extend_from_slice(&began.as_nanos().to_be_bytes());
            let rest = frame.bytes.saturating_sub(HEAD_BYTES as u64);
            let mut source = Source::new(head.into(), rest);
            if !source.write(session, stream) {
                self.writing.insert(stream, source);
            }
        }
    }
}

impl Half for Sender {
    fn on(&mut self, session: &mut dyn Session, happening: Happening) {
        match happening {
            Happening::Connected => {
                self.outcome.connected = Some(session.now());
                self.began = Some(session.now());
                self.hand_over(session);
            }
            Happening::MayOpen => self.send(session),
            Happening::Writable(stream) => {
                if let Some(source) = self.writing.get_mut(&stream)
                    && source.write(session, stream)
                {
                    self.writing.remove(&stream);
                }
            }
            Happening::Closed(error) => {
                self.outcome.error = error;
                self.began = None;
            }
            Happening::Opened(_) | Happening::Readable(_) | Happening::Datagram => {}
        }
    }

    fn on_timer(&mut self, session: &mut dyn Session) {
        self.hand_over(session);
    }

    fn poll_timer(&self) -> Option<Instant> {
        self.due()
    }

    fn received_bytes(&self) -> u64 {
        self.outcome.received_bytes
    }

    fn is_over(&self) -> bool {
        self.outcome.finished.is_some() || self.outcome.error.is_some()
    }

    fn outcome(&self) -> Outcome {
        let mut outcome = self.outcome.clone();
        let extra = &mut outcome.extra;
        extra.insert("messages_handed_over", self.handed_over as f64);
        extra.insert("messages_held", self.held as f64);
        outcome
    }
}

struct Receiver {
    frames: Arc<[Frame]>,
    /// When the trace began, once a message has told.
    began: Option<Instant>,
    reading: BTreeMap<StreamKey, (Head<HEAD_BYTES>, Sink)>,
    missing: usize,
    outcome: Outcome,
}

impl Receiver {
    fn new(frames: Arc<[Frame]>) -> Self {
        let item = |frame: &Frame| Item {
            deadline: frame.deadline,
            ..Item::wanted(frame.bytes, Instant::ZERO + frame.at)
        };
        let outcome = Outcome {
            items: frames.iter().map(item).collect(),
            ..Outcome::default()
        };
        Self {
            missing: frames.len(),
            frames,
            began: None,
            reading: BTreeMap::new(),
            outcome,
        }
    }

    fn date_from(&mut self, began: Instant) {
        for (item, frame) in self.outcome.items.iter_mut().zip(self.frames.iter()) {
            item.wanted = began + frame.at;
        }
    }

    fn finish_if_complete(&mut self, session: &mut dyn Session) {
        if self.missing == 0 {
            self.outcome.finished = Some(session.now());
            session.close();
        }
    }

    fn read(&mut self, session: &mut dyn Session, stream: StreamKey) {
        let now = session.now();
        let Some((head, sink)) = self.reading.get_mut(&stream) else {
            return;
        };
        self.outcome.received_bytes += sink.read(session, stream, |chunk| head.take(chunk));
        let told = head.bytes().and_then(|head| {
            let (index, began) = head.split_first_chunk::<8>()?;
            let index = usize::try_from(u64::from_be_bytes(*index)).ok()?;
            let began = u64::from_be_bytes(*began.first_chunk::<8>()?);
            Some((index, Instant::from_nanos(began)))
        });
        let (finished, bytes) = (sink.finished, sink.bytes);
        if sink.is_over() {
            self.reading.remove(&stream);
        }
        let Some((index, began)) = told else {
            return;
        };
        if self.began.is_none() {
            self.began = Some(began);
            self.date_from(began);
        }
        let Some(item) = self.outcome.items.get_mut(index) else {
            return;
        };
        item.began.get_or_insert(now);
        if finished && bytes == item.bytes && item.done.is_none() {
            item.done = Some(now);
            self.missing -= 1;
            self.finish_if_complete(session);
        }
    }
}

impl Half for Receiver {
    fn on(&mut self, session: &mut dyn Session, happening: Happening) {
        match happening {
            Happening::Connected => {
                self.outcome.connected = Some(session.now());
                // The best guess until a message tells.
                if self.began.is_none() {
                    self.date_from(session.now());
                }
                self.finish_if_complete(session);
            }
            Happening::Opened(stream) => {
                self.reading.insert(stream, Default::default());
                self.read(session, stream);
            }
            Happening::Readable(stream) => self.read(session, stream),
            Happening::Closed(error) => self.outcome.error = error,
            Happening::Writable(_) | Happening::MayOpen | Happening::Datagram => {}
        }
    }

    fn received_bytes(&self) -> u64 {
        self.outcome.received_bytes
    }

    fn outcome(&self) -> Outcome {
        self.outcome.clone()
    }

    fn is_over(&self) -> bool {
        self.outcome.finished.is_some() || self.outcome.error.is_some()
    }
}

#[cfg(test)]
mod tests;
