//! Ask for bytes, get them: the request protocol that most workloads use.
//!
//! A request is a bidirectional stream that begins with 16 bytes: the length of the answer and the
//! nanoseconds that the server thinks before it answers, both big-endian; what follows them to the
//! end of the stream is a body that is counted and thrown away.
//!
//! Owns: [`Request`], [`Responder`] (the server), [`Sink`] (reads a stream to its end), [`Source`]
//! (writes so many bytes).

use std::collections::BTreeMap;

use bytes::Bytes;
use tautline_transport::time::{Instant, earliest};

use crate::{
    outcome::{Item, Outcome},
    session::{Half, Happening, Read, Session, StreamKey},
};

/// What is sent when it does not matter what.
static FILLER: [u8; 64 * 1024] = [0x74; 64 * 1024];

const HEADER_BYTES: usize = 16;
/// More answers wait for their time than any workload asks for.
const MAX_THINK_NANOS: u64 = 3_600_000_000_000;

/// A request before its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) answer_bytes: u64,
    pub(crate) think_nanos: u64,
}

impl Request {
    pub(crate) fn header(self) -> Bytes {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(&self.answer_bytes.to_be_bytes());
        header.extend_from_slice(&self.think_nanos.to_be_bytes());
        header.into()
    }

    fn parse(header: &[u8]) -> Option<Self> {
        let (answer, rest) = header.split_first_chunk::<8>()?;
        let think = rest.first_chunk::<8>()?;
        Some(Self {
            answer_bytes: u64::from_be_bytes(*answer),
            think_nanos: u64::from_be_bytes(*think).min(MAX_THINK_NANOS),
        })
    }
}

/// Bytes still to be written to a stream.
#[derive(Debug, Default)]
pub(crate) struct Source {
    head: Bytes,
    left: u64,
    over: bool,
}

impl Source {
    /// `head`, then `filler_bytes` of filler, then the end of the stream.
    pub(crate) fn new(head: Bytes, filler_bytes: u64) -> Self {
        Self {
            head,
            left: filler_bytes,
            over: false,
        }
    }

    /// Writes what the stream takes; `true` once everything is handed over.
    pub(crate) fn write(&mut self, session: &mut dyn Session, stream: StreamKey) -> bool {
        while !self.over {
            if !self.head.is_empty() {
                if session.write(stream, &mut self.head) == 0 {
                    return false;
                }
                continue;
            }
            if self.left == 0 {
                session.finish(stream);
                self.over = true;
                break;
            }
            let take = usize::try_from(self.left).map_or(FILLER.len(), |n| n.min(FILLER.len()));
            let mut data = Bytes::from_static(FILLER.get(..take).unwrap_or(&FILLER));
            match session.write(stream, &mut data) {
                0 => return false,
                taken => self.left -= taken as u64,
            }
        }
        true
    }
}

/// Bytes read from a stream.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) bytes: u64,
    pub(crate) finished: bool,
    pub(crate) gone: bool,
}

impl Sink {
    /// Reads what is there; `first` is shown every chunk. Returns how many bytes came.
    pub(crate) fn read(
        &mut self,
        session: &mut dyn Session,
        stream: StreamKey,
        mut each: impl FnMut(&[u8]),
    ) -> u64 {
        let before = self.bytes;
        loop {
            match session.read(stream) {
                Read::Chunk(chunk) => {
                    self.bytes += chunk.len() as u64;
                    each(&chunk);
                }
                Read::Blocked => break,
                Read::Finished => {
                    self.finished = true;
                    break;
                }
                Read::Gone => {
                    self.gone = true;
                    break;
                }
            }
        }
        self.bytes - before
    }
}

/// Answers requests.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    asking: BTreeMap<StreamKey, (Vec<u8>, Sink, usize)>,
    thinking: BTreeMap<(Instant, StreamKey), Request>,
    answering: BTreeMap<StreamKey, Source>,
    outcome: Outcome,
}

impl Responder {
    fn read(&mut self, session: &mut dyn Session, stream: StreamKey) {
        let now = session.now();
        let Some((header, sink, item)) = self.asking.get_mut(&stream) else {
            return;
        };
        let came = sink.read(session, stream, |chunk| {
            let room = HEADER_BYTES - header.len();
            header.extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
        });
        self.outcome.receive(came as usize);
        if let Some(item) = self.outcome.items.get_mut(*item) {
            item.bytes += came;
            item.began.get_or_insert(now);
            if sink.finished {
                item.done = Some(now);
            }
        }
        if sink.gone {
            self.asking.remove(&stream);
            return;
        }
        if sink.finished {
            let request = Request::parse(header);
            self.asking.remove(&stream);
            self.outcome.finished = Some(now);
            let Some(request) = request else {
                session.reset(stream);
                return;
            };
            let at = now + std::time::Duration::from_nanos(request.think_nanos);
            self.thinking.insert((at, stream), request);
            self.answer(session);
        }
    }

    /// Begins the answers whose time has come.
    fn answer(&mut self, session: &mut dyn Session) {
        let now = session.now();
        while let Some((&(at, stream), _)) = self.thinking.first_key_value()
            && at <= now
        {
            let Some(request) = self.thinking.remove(&(at, stream)) else {
                break;
            };
            let mut source = Source::new(Bytes::new(), request.answer_bytes);
            if !source.write(session, stream) {
                self.answering.insert(stream, source);
            }
        }
    }
}

impl Half for Responder {
    fn on(&mut self, session: &mut dyn Session, happening: Happening) {
        match happening {
            Happening::Connected => self.outcome.connected = Some(session.now()),
            Happening::Opened(stream) => {
                let item = self.outcome.items.len();
                self.outcome.items.push(Item::wanted(0, session.now()));
                self.asking
                    .insert(stream, (Vec::new(), Sink::default(), item));
                self.read(session, stream);
            }
            Happening::Readable(stream) => self.read(session, stream),
            Happening::Writable(stream) => {
                if let Some(source) = self.answering.get_mut(&stream)
                    && source.write(session, stream)
                {
                    self.answering.remove(&stream);
                }
            }
            Happening::Closed(error) => self.outcome.error = error,
            Happening::MayOpen | Happening::Datagram => {}
        }
    }

    fn on_timer(&mut self, session: &mut dyn Session) {
        self.answer(session);
    }

    fn poll_timer(&self) -> Option<Instant> {
        earliest(
            None,
            self.thinking.first_key_value().map(|((at, _), _)| *at),
        )
    }

    fn outcome(&self) -> Outcome {
        self.outcome.clone()
    }

    fn received_bytes(&self) -> u64 {
        self.outcome.received_bytes
    }

    fn is_over(&self) -> bool {
        // More requests may come as long as the connection lives.
        self.outcome.error.is_some()
    }
}

/// Asks for an answer on a stream of its own, and reads it.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) stream: StreamKey,
    request: Source,
    sink: Sink,
}

impl Fetch {
    /// Opens a stream and asks; `None` when no stream may be opened now.
    pub(crate) fn begin(
        session: &mut dyn Session,
        request: Request,
        body_bytes: u64,
    ) -> Option<Self> {
        let stream = session.open(crate::session::Way::Both)?;
        let mut fetch = Self {
            stream,
            request: Source::new(request.header(), body_bytes),
            sink: Sink::default(),
        };
        fetch.request.write(session, stream);
        Some(fetch)
    }

    /// Goes on writing the request.
    pub(crate) fn write(&mut self, session: &mut dyn Session) {
        self.request.write(session, self.stream);
    }

    /// Reads; returns how many bytes came and whether the answer is complete.
    pub(crate) fn read(&mut self, session: &mut dyn Session) -> (u64, bool) {
        let came = self.sink.read(session, self.stream, |_| {});
        (came, self.sink.finished || self.sink.gone)
    }
}
