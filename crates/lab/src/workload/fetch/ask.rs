//! The client of the request protocol.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tautline_transport::time::Instant;

use super::{Priority, Request, Sink, Source};
use crate::{
    outcome::{Item, Outcome},
    session::{Happening, Session, StreamKey, Way},
};

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ask {
    /// Length of the answer.
    pub(crate) answer_bytes: u64,
    /// Length of the request's body.
    pub(crate) body_bytes: u64,
    /// How long the server thinks.
    pub(crate) think: Duration,
    /// How the answer shares the connection.
    pub(crate) priority: Priority,
}

/// An answer that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    /// Which, as [`Asker::ask`] numbered it.
    pub(crate) item: usize,
    /// Whether all of it is there.
    pub(crate) complete: bool,
}

#[derive(Debug)]
struct UnderWay {
    request: Source,
    sink: Sink,
    item: usize,
    answer_bytes: u64,
}

/// Asks, each time on a stream of its own, and reads the answers. What finds no stream waits its
/// turn; an item is wanted from the moment it was asked for.
#[derive(Debug, Default)]
pub(crate) struct Asker {
    waiting: VecDeque<(Instant, usize, Ask)>,
    under_way: BTreeMap<StreamKey, UnderWay>,
    /// What was measured; one item for each question.
    pub(crate) outcome: Outcome,
}

impl Asker {
    /// Asks. Returns the number of the item.
    pub(crate) fn ask(&mut self, session: &mut dyn Session, ask: Ask) -> usize {
        let item = self.outcome.items.len();
        let bytes = ask.answer_bytes.max(ask.body_bytes);
        self.outcome.items.push(Item::wanted(bytes, session.now()));
        self.waiting.push_back((session.now(), item, ask));
        self.begin(session);
        item
    }

    /// Questions that have no answer yet.
    pub(crate) fn open(&self) -> usize {
        self.waiting.len() + self.under_way.len()
    }

    /// Takes part in what happened. Tells when it ended an answer.
    pub(crate) fn on(
        &mut self,
        session: &mut dyn Session,
        happening: Happening,
    ) -> Option<Answered> {
        match happening {
            Happening::Connected => self.outcome.connected = Some(session.now()),
            Happening::MayOpen => self.begin(session),
            Happening::Readable(stream) => return self.read(session, stream),
            Happening::Writable(stream) => {
                if let Some(under_way) = self.under_way.get_mut(&stream) {
                    under_way.request.write(session, stream);
                }
            }
            Happening::Closed(error) => self.outcome.error = error,
            Happening::Opened(_) | Happening::Datagram | Happening::Fate(_) => {}
        }
        None
    }

    fn begin(&mut self, session: &mut dyn Session) {
        while let Some(&(wanted, item, ask)) = self.waiting.front() {
            let Some(stream) = session.open(Way::Both) else {
                return;
            };
            self.waiting.pop_front();
            ask.priority.apply(session, stream);
            let request = Request {
                answer_bytes: ask.answer_bytes,
                think: ask.think,
                wanted,
                priority: ask.priority,
            };
            let mut under_way = UnderWay {
                request: Source::new(request.head(), ask.body_bytes),
                sink: Sink::default(),
                item,
                answer_bytes: ask.answer_bytes,
            };
            under_way.request.write(session, stream);
            self.under_way.insert(stream, under_way);
        }
    }

    fn read(&mut self, session: &mut dyn Session, stream: StreamKey) -> Option<Answered> {
        let now = session.now();
        let under_way = self.under_way.get_mut(&stream)?;
        let came = under_way.sink.read(session, stream, |_| {});
        self.outcome.received_bytes += came;
        let answered = under_way.sink.is_over().then_some(Answered {
            item: under_way.item,
            complete: under_way.sink.finished && under_way.sink.bytes == under_way.answer_bytes,
        });
        if let Some(item) = self.outcome.items.get_mut(under_way.item) {
            if came > 0 {
                item.began.get_or_insert(now);
            }
            if answered.is_some_and(|answered| answered.complete) {
                item.done = Some(now);
            }
        }
        if answered.is_some() {
            self.under_way.remove(&stream);
        }
        answered
    }
}
