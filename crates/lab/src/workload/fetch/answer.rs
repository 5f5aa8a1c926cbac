//! The server of the request protocol.

use std::collections::BTreeMap;

use bytes::Bytes;
use tautline_transport::time::Instant;

use super::{HEAD_BYTES, Head, Request, Sink, Source};
use crate::{
    outcome::{Item, Outcome},
    session::{Half, Happening, Session, StreamKey},
};

#[derive(Debug)]
struct Asking {
    head: Head<HEAD_BYTES>,
    sink: Sink,
    item: usize,
}

/// Answers requests. Each is an item: its body, wanted when the client wanted it.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    asking: BTreeMap<StreamKey, Asking>,
    thinking: BTreeMap<(Instant, StreamKey), Request>,
    answering: BTreeMap<StreamKey, Source>,
    outcome: Outcome,
}

impl Responder {
    fn read(&mut self, session: &mut dyn Session, stream: StreamKey) {
        let now = session.now();
        let Some(asking) = self.asking.get_mut(&stream) else {
            return;
        };
        let body_before = asking.sink.bytes.saturating_sub(HEAD_BYTES as u64);
        let head = &mut asking.head;
        asking.sink.read(session, stream, |chunk| head.take(chunk));
        let body = asking.sink.bytes.saturating_sub(HEAD_BYTES as u64) - body_before;
        self.outcome.received_bytes += body;
        let request = asking.head.bytes().and_then(|head| Request::parse(head));
        if let Some(item) = self.outcome.items.get_mut(asking.item) {
            item.bytes += body;
            item.began.get_or_insert(now);
            if let Some(request) = request {
                item.wanted = request.wanted;
            }
            if asking.sink.finished && request.is_some() {
                item.done = Some(now);
            }
        }
        if !asking.sink.is_over() {
            return;
        }
        let finished = asking.sink.finished;
        self.asking.remove(&stream);
        match request {
            Some(request) if finished => {
                self.outcome.finished = Some(now);
                self.thinking.insert((now + request.think, stream), request);
                self.answer(session);
            }
            _ => session.reset(stream),
        }
    }

    /// Begins the answers whose time has come.
    fn answer(&mut self, session: &mut dyn Session) {
        let now = session.now();
        while let Some(entry) = self.thinking.first_entry() {
            let (at, stream) = *entry.key();
            if at > now {
                break;
            }
            let request = entry.remove();
            request.priority.apply(session, stream);
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
                let asking = Asking {
                    head: Head::default(),
                    sink: Sink::default(),
                    item,
                };
                self.asking.insert(stream, asking);
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
            Happening::Closed(error) => {
                self.outcome.error = error;
                self.thinking.clear();
            }
            Happening::MayOpen | Happening::Datagram | Happening::Fate(_) => {}
        }
    }

    fn on_timer(&mut self, session: &mut dyn Session) {
        self.answer(session);
    }

    fn poll_timer(&self) -> Option<Instant> {
        self.thinking.first_key_value().map(|((at, _), _)| *at)
    }

    fn received_bytes(&self) -> u64 {
        self.outcome.received_bytes
    }

    fn outcome(&self) -> Outcome {
        self.outcome.clone()
    }

    fn is_over(&self) -> bool {
        // More requests may come as long as the connection lives.
        self.outcome.error.is_some()
    }
}
