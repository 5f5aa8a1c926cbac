//! Messages: each on a unidirectional stream of its own, handed over when a trace says. To the stack
//! it may be a stream like any other, or a message with a deadline; on the wire both are the same.
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
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tautline_transport::{
    message::{Expiry, MessageConfig, MessageFate},
    time::Instant,
};
use trace::MAX_FRAMES;
pub use trace::{Constant, Frame, Frames, Trace};

use super::{
    Direction, End, Problem, Program, Unready,
    fetch::{Head, Sink, Source},
    file::{FileError, FileRecord, Inputs},
};
use crate::{
    outcome::{Item, Outcome},
    quantity::Span,
    session::{Fate, Half, HandOver, Happening, Session, StreamKey, Way},
};

/// Index and beginning of the trace.
const HEAD_BYTES: usize = 16;

/// Messages by a trace. An item is a message, wanted when it was handed over.
///
/// Columns of the sender: `messages_handed_over`, `messages_held` (how many of them found no
/// stream at once). With `api = "messages"` besides what the sending transport thinks of its
/// messages: `messages_judged_on_time`, `messages_judged_late`, `messages_expired`,
/// `messages_recovered`.
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
    /// How often the trace is played, one after the other, each time with draws of its own. Default
    /// 1, at most 100.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub repeat: u32,
    /// Factor on the bytes of each message, 0.01 to 100; no message gets smaller than 16 bytes.
    /// Default 1.
    #[serde(default = "one")]
    pub scale: f64,
    /// What the stack knows of them. Default `streams`.
    #[serde(default, skip_serializing_if = "Api::is_streams")]
    pub api: Api,
    /// Whether the stack is told, with `api = "messages"`, when the next message will come. Default
    /// true.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub announce: bool,
    /// When the stack gives messages up, with `api = "messages"`. Default `at-deadline`.
    #[serde(default, skip_serializing_if = "GiveUp::is_at_deadline")]
    pub give_up: GiveUp,
}

/// When messages that will not be whole in time are given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GiveUp {
    /// At their deadlines.
    #[default]
    AtDeadline,
    /// As soon as half of the shortest round trip says that what is left would come too late.
    WhenHopeless,
}

impl GiveUp {
    fn is_at_deadline(&self) -> bool {
        *self == Self::AtDeadline
    }

    const fn expiry(self) -> Expiry {
        match self {
            Self::AtDeadline => Expiry::AtDeadline,
            Self::WhenHopeless => Expiry::WhenHopeless,
        }
    }
}

/// How messages are handed to the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// As streams: nothing is known of deadlines, everything is delivered.
    #[default]
    Streams,
    /// As messages with their deadlines, given up when they would come too late. A stack that knows
    /// no messages gets streams.
    Messages,
}

impl Api {
    fn is_streams(&self) -> bool {
        *self == Self::Streams
    }
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_yes(it: &bool) -> bool {
    *it
}

const fn once() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_once(it: &u32) -> bool {
    *it == 1
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
            repeat: 1,
            scale: 1.0,
            api: Api::Streams,
            announce: true,
            give_up: GiveUp::AtDeadline,
        }
    }

    /// The messages. `seed` decides what is random in them.
    ///
    /// # Errors
    /// When the trace is a file that was not read.
    pub fn frames(&self, seed: u64) -> Result<Arc<[Frame]>, String> {
        let frames = if self.repeat == 1 {
            self.trace.frames(seed)?
        } else {
            self.repeated(seed)?
        };
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

    fn repeated(&self, seed: u64) -> Result<Arc<[Frame]>, String> {
        let mut all: Vec<Frame> = Vec::new();
        let mut start = Duration::ZERO;
        for time in 0..self.repeat {
            let frames = self.trace.frames(seed.wrapping_add(time.into()))?;
            if all.len() + frames.len() > MAX_FRAMES {
                return Err(format!("more than {MAX_FRAMES} messages"));
            }
            all.extend(frames.iter().map(|frame| Frame {
                at: start + frame.at,
                ..*frame
            }));
            // The last message is followed as it followed the one before.
            if let [.., before, last] = &*frames {
                start += last.at + (last.at - before.at);
            } else if let [only] = &*frames {
                start += only.at + Duration::from_secs(1);
            }
        }
        Ok(all.into())
    }

    fn half(&self, end: End, seed: u64) -> Box<dyn Half> {
        match self.frames(seed) {
            Err(reason) => Box::new(Unready(reason)),
            Ok(frames) if end == self.direction.receiver() => {
                Box::new(Receiver::new(frames, self.api))
            }
            Ok(frames) => Box::new(Sender::new(frames, self)),
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

    fn volume(&self, seed: u64) -> Option<u64> {
        let frames = self.frames(seed).ok()?;
        let bytes = frames.iter().map(|frame| frame.bytes);
        Some(bytes.fold(0, u64::saturating_add))
    }

    fn validate(&self) -> Result<(), Problem> {
        self.trace.validate()?;
        if !(0.01..=100.0).contains(&self.scale) {
            let reason = format!("{} is not between 0.01 and 100", self.scale);
            return Err(("scale".to_owned(), reason));
        }
        let longest = MessageConfig::default().message_bytes as f64;
        if let (Api::Messages, Trace::Constant(constant)) = (self.api, &self.trace)
            && constant.bytes.max() as f64 * self.scale > longest
        {
            let reason = format!("messages above {longest} B are for api = \"streams\"");
            return Err(("api".to_owned(), reason));
        }
        if !(1..=100).contains(&self.repeat) {
            let reason = format!("{} is not between 1 and 100", self.repeat);
            return Err(("repeat".to_owned(), reason));
        }
        if self.duration.is_some_and(|duration| duration.0.is_zero()) {
            return Err(("duration".to_owned(), "lets no message through".to_owned()));
        }
        Ok(())
    }

    fn resolve(&mut self, inputs: &Inputs) -> Result<(), FileError> {
        match &mut self.trace {
            Trace::File(file) => file.load(inputs),
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
    api: Api,
    announce: bool,
    expiry: Expiry,
    fates: Fates,
    /// When the trace began.
    began: Option<Instant>,
    handed_over: usize,
    held: usize,
    waiting: VecDeque<usize>,
    writing: BTreeMap<StreamKey, Source>,
    outcome: Outcome,
}

/// What the stack thinks of its messages.
#[derive(Default)]
struct Fates {
    on_time: usize,
    late: usize,
    expired: usize,
    recovered: usize,
    /// All whose fate is known, those that the stack did not take included.
    known: usize,
}

impl Fates {
    fn count(&mut self, report: Fate) {
        self.known += 1;
        self.recovered += usize::from(report.recovered && report.fate.is_delivered());
        match report.fate {
            MessageFate::OnTime => self.on_time += 1,
            MessageFate::Late => self.late += 1,
            MessageFate::Expired => self.expired += 1,
            _ => {}
        }
    }
}

impl Sender {
    fn new(frames: Arc<[Frame]>, messages: &Messages) -> Self {
        Self {
            frames,
            api: messages.api,
            announce: messages.announce,
            expiry: messages.give_up.expiry(),
            fates: Fates::default(),
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
        if self.api == Api::Messages
            && self.announce
            && let Some(due) = self.due()
        {
            session.next_message_at(due);
        }
    }

    /// Hands the message to the stack, head and filler. False while there is no room.
    fn send_message(&mut self, session: &mut dyn Session, head: &[u8], frame: &Frame) -> bool {
        let mut data = Vec::with_capacity(usize::try_from(frame.bytes).unwrap_or(0));
        data.extend_from_slice(head);
        data.resize(usize::try_from(frame.bytes).unwrap_or(0), b't');
        let handed_over = self.began.map(|began| began + frame.at);
        let deadline = handed_over.zip(frame.deadline);
        let deadline = deadline.map(|(handed_over, deadline)| handed_over + deadline);
        match session.send_message(&Bytes::from(data), deadline, self.expiry) {
            HandOver::Taken => true,
            HandOver::Full => false,
            HandOver::Refused => {
                self.fates.known += 1;
                true
            }
            HandOver::Unsupported => {
                self.api = Api::Streams;
                false
            }
        }
    }

    /// The stack knows of no message any more, and none is to come: the receiver need not wait.
    fn close_if_all_are_known(&mut self, session: &mut dyn Session) {
        if self.fates.known == self.frames.len() {
            session.close();
        }
    }

    fn send(&mut self, session: &mut dyn Session) {
        while let (Some(&index), Some(began)) = (self.waiting.front(), self.began) {
            let Some(frame) = self.frames.get(index) else {
                return;
            };
            let frame = *frame;
            let mut head = Vec::with_capacity(HEAD_BYTES);
            head.extend_from_slice(&(index as u64).to_be_bytes());
            head.extend_from_slice(&began.as_nanos().to_be_bytes());
            if self.api == Api::Messages {
                if self.send_message(session, &head, &frame) {
                    self.waiting.pop_front();
                    continue;
                }
                if self.api == Api::Messages {
                    return;
                }
            }
            let Some(stream) = session.open(Way::Out) else {
                return;
            };
            self.waiting.pop_front();
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
            Happening::Fate(report) => {
                self.fates.count(report);
                self.close_if_all_are_known(session);
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
        if self.api == Api::Messages {
            let fates = &self.fates;
            extra.insert("messages_judged_on_time", fates.on_time as f64);
            extra.insert("messages_judged_late", fates.late as f64);
            extra.insert("messages_expired", fates.expired as f64);
            extra.insert("messages_recovered", fates.recovered as f64);
        }
        outcome
    }
}

struct Receiver {
    frames: Arc<[Frame]>,
    api: Api,
    /// When the trace began, once a message has told.
    began: Option<Instant>,
    reading: BTreeMap<StreamKey, (Head<HEAD_BYTES>, Sink)>,
    missing: usize,
    outcome: Outcome,
}

impl Receiver {
    fn new(frames: Arc<[Frame]>, api: Api) -> Self {
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
            api,
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
            // Else the sender is the one who knows when no more will come.
            if self.api == Api::Streams {
                session.close();
            }
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
            Happening::Closed(error) => {
                if self.api == Api::Messages && error.is_none() {
                    self.outcome.finished.get_or_insert(session.now());
                }
                self.outcome.error = error;
            }
            Happening::Writable(_)
            | Happening::MayOpen
            | Happening::Datagram
            | Happening::Fate(_) => {}
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
