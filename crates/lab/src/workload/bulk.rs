//! Bytes, as many and as fast as the network lets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tautline_transport::time::Instant;

use super::{
    Direction, End, Program,
    fetch::{Fetch, Request, Responder},
};
use crate::{
    outcome::{Item, Outcome},
    quantity::Size,
    session::{Half, Happening, Session, StreamKey},
};

/// Without a size, as many bytes as nobody moves.
const ENDLESS: u64 = 1 << 50;

/// A transfer of bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// Application bytes of each stream; without them the transfer has no end but the flow's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// Which way.
    #[serde(default)]
    pub direction: Direction,
    /// On how many streams at once.
    #[serde(default = "one")]
    pub streams: u32,
}

const fn one() -> u32 {
    1
}

impl Program for Bulk {
    fn client(&self, _seed: u64) -> Box<dyn Half> {
        Box::new(Client {
            plan: self.clone(),
            begun: 0,
            fetches: BTreeMap::new(),
            outcome: Outcome::default(),
        })
    }

    fn server(&self, _seed: u64) -> Box<dyn Half> {
        Box::<Responder>::default()
    }

    fn receiver(&self) -> End {
        self.direction.receiver()
    }

    fn is_endless(&self) -> bool {
        self.bytes.is_none()
    }

    fn validate(&self) -> Result<(), (String, String)> {
        if self.streams == 0 || self.streams > 10_000 {
            let reason = format!("{} is not between 1 and 10000", self.streams);
            return Err(("streams".to_owned(), reason));
        }
        Ok(())
    }
}

struct Client {
    plan: Bulk,
    begun: u32,
    fetches: BTreeMap<StreamKey, (Fetch, usize)>,
    outcome: Outcome,
}

impl Client {
    fn begin(&mut self, session: &mut dyn Session) {
        while self.begun < self.plan.streams {
            let bytes = self.plan.bytes.map_or(ENDLESS, |size| size.0);
            let (answer_bytes, body) = match self.plan.direction {
                Direction::Down => (bytes, 0),
                Direction::Up => (0, bytes),
            };
            let request = Request {
                answer_bytes,
                think_nanos: 0,
            };
            let Some(fetch) = Fetch::begin(session, request, body) else {
                return;
            };
            let item = self.outcome.items.len();
            self.outcome.items.push(Item::wanted(bytes, session.now()));
            self.fetches.insert(fetch.stream, (fetch, item));
            self.begun += 1;
        }
    }

    fn read(&mut self, session: &mut dyn Session, stream: StreamKey) {
        let now = session.now();
        let Some((fetch, item)) = self.fetches.get_mut(&stream) else {
            return;
        };
        let (came, over) = fetch.read(session);
        self.outcome.receive(came as usize);
        if let Some(item) = self.outcome.items.get_mut(*item) {
            if came > 0 {
                item.began.get_or_insert(now);
            }
            if over {
                item.done = Some(now);
            }
        }
        if over {
            self.fetches.remove(&stream);
            self.is_over(session, now);
        }
    }

    fn is_over(&mut self, session: &mut dyn Session, now: Instant) {
        if self.fetches.is_empty() && self.begun == self.plan.streams {
            self.outcome.finished = Some(now);
            session.close();
        }
    }
}

impl Half for Client {
    fn on(&mut self, session: &mut dyn Session, happening: Happening) {
        match happening {
            Happening::Connected => {
                self.outcome.connected = Some(session.now());
                self.begin(session);
            }
            Happening::MayOpen => self.begin(session),
            Happening::Readable(stream) => self.read(session, stream),
            Happening::Writable(stream) => {
                if let Some((fetch, _)) = self.fetches.get_mut(&stream) {
                    fetch.write(session);
                }
            }
            Happening::Closed(error) => self.outcome.error = error,
            Happening::Opened(_) | Happening::Datagram => {}
        }
    }

    fn outcome(&self) -> Outcome {
        self.outcome.clone()
    }

    fn received_bytes(&self) -> u64 {
        self.outcome.received_bytes
    }

    fn is_over(&self) -> bool {
        self.outcome.finished.is_some() || self.outcome.error.is_some()
    }
}
