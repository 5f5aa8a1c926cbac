//! Objects: a series of requests and answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tautline_transport::time::Instant;

use super::{
    Program,
    fetch::{Fetch, Request, Responder},
};
use crate::{
    outcome::{Item, Outcome},
    quantity::{Size, Span},
    session::{Half, Happening, Session, StreamKey},
};

/// A series of objects, each on a stream of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objects {
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// Application bytes of each answer.
    pub bytes: Size,
    /// Application bytes of each request, its 16 header bytes apart.
    #[serde(default)]
    pub request_bytes: Size,
    /// How many are under way at once; all when absent. 1: one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u32>,
    /// How long the server thinks before it answers.
    #[serde(default)]
    pub think: Span,
    /// How long the client waits between the end of one object and the next request.
    #[serde(default)]
    pub pause: Span,
}

const fn one() -> u32 {
    1
}

impl Program for Objects {
    fn client(&self, _seed: u64) -> Box<dyn Half> {
        Box::new(Client {
            plan: self.clone(),
            begun: 0,
            fetches: BTreeMap::new(),
            pauses: Vec::new(),
            outcome: Outcome::default(),
        })
    }

    fn server(&self, _seed: u64) -> Box<dyn Half> {
        Box::<Responder>::default()
    }

    fn validate(&self) -> Result<(), (String, String)> {
        let within = |field: &str, value: u32| match value {
            1..=1_000_000 => Ok(()),
            _ => Err((
                field.to_owned(),
                format!("{value} is not between 1 and 1000000"),
            )),
        };
        within("count", self.count)?;
        within("parallel", self.parallel.unwrap_or(1))
    }
}

struct Client {
    plan: Objects,
    begun: u32,
    fetches: BTreeMap<StreamKey, (Fetch, usize)>,
    /// Ends of pauses, each worth one more request.
    pauses: Vec<Instant>,
    outcome: Outcome,
}

impl Client {
    fn begin(&mut self, session: &mut dyn Session) {
        let parallel = self.plan.parallel.unwrap_or(u32::MAX) as usize;
        while self.begun < self.plan.count && self.fetches.len() + self.pauses.len() < parallel {
            let request = Request {
                answer_bytes: self.plan.bytes.0,
                think_nanos: u64::try_from(self.plan.think.0.as_nanos()).unwrap_or(u64::MAX),
            };
            let Some(fetch) = Fetch::begin(session, request, self.plan.request_bytes.0) else {
                return;
            };
            let item = self.outcome.items.len();
            let wanted = Item::wanted(self.plan.bytes.0, session.now());
            self.outcome.items.push(wanted);
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
        if !over {
            return;
        }
        self.fetches.remove(&stream);
        if self.fetches.is_empty() && self.begun == self.plan.count {
            self.outcome.finished = Some(now);
            session.close();
        } else if self.begun < self.plan.count {
            if self.plan.pause.0.is_zero() {
                self.begin(session);
            } else {
                self.pauses.push(now + self.plan.pause.0);
            }
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

    fn on_timer(&mut self, session: &mut dyn Session) {
        let now = session.now();
        self.pauses.retain(|at| *at > now);
        self.begin(session);
    }

    fn poll_timer(&self) -> Option<Instant> {
        self.pauses.iter().min().copied()
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
