//! Objects: a series of requests and answers, closed loop or at set intervals.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tautline_transport::{rng::Rng, time::Instant};

use super::{
    Problem, Program,
    amount::Amount,
    fetch::{Ask, Asker, Priority, Responder},
};
use crate::{
    outcome::Outcome,
    quantity::Span,
    session::{Half, Happening, Session},
};

/// A series of objects, each on a stream of its own. An item is an object, wanted from the moment
/// the application wants it, also when a stream limit delays the request.
///
/// Requests go out in one of two ways. Without `every`, `parallel` of them are under way at once,
/// and one that ends makes room for the next (after `pause`): a closed loop. With `every` they are
/// wanted at these intervals, whatever has become of those before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objects {
    /// How many. 1 to 1,000,000. Default 1.
    #[serde(default = "one")]
    pub count: u32,
    /// Application bytes of each answer, fixed or drawn for each.
    pub bytes: Amount,
    /// Application bytes of each request, fixed or drawn for each. Default 0.
    #[serde(default)]
    pub request_bytes: Amount,
    /// How many are under way at once; all when absent. 1: one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u32>,
    /// Time between two requests; the first is wanted at once. Excludes `parallel` and `pause`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// How long the server thinks before it answers. Default 0.
    #[serde(default)]
    pub think: Span,
    /// How long the client waits between the end of one object and the next request. Default 0.
    #[serde(default)]
    pub pause: Span,
    /// Whether objects under way take turns; else the first one goes first. Default no.
    #[serde(default)]
    pub incremental: bool,
}

const fn one() -> u32 {
    1
}

impl Objects {
    /// So many objects of so many bytes, all at once.
    pub fn new(count: u32, bytes: impl Into<Amount>) -> Self {
        Self {
            count,
            bytes: bytes.into(),
            request_bytes: Amount::default(),
            parallel: None,
            every: None,
            think: Span::default(),
            pause: Span::default(),
            incremental: false,
        }
    }
}

impl Program for Objects {
    fn client(&self, seed: u64) -> Box<dyn Half> {
        Box::new(Client {
            plan: self.clone(),
            rng: Rng::from_u64(seed),
            begun: 0,
            answered: 0,
            next: VecDeque::new(),
            asker: Asker::default(),
        })
    }

    fn server(&self, _seed: u64) -> Box<dyn Half> {
        Box::<Responder>::default()
    }

    fn volume(&self, _seed: u64) -> Option<u64> {
        let each = self.bytes.max().saturating_add(self.request_bytes.max());
        Some(each.saturating_mul(self.count.into()))
    }

    fn validate(&self) -> Result<(), Problem> {
        let within = |field: &str, value: u32| match value {
            1..=1_000_000 => Ok(()),
            _ => Err((
                field.to_owned(),
                format!("{value} is not between 1 and 1000000"),
            )),
        };
        within("count", self.count)?;
        within("parallel", self.parallel.unwrap_or(1))?;
        self.bytes.check("bytes")?;
        self.request_bytes.check("request_bytes")?;
        match self.every {
            Some(every) if every.0.is_zero() => {
                Err(("every".to_owned(), "the interval is zero".to_owned()))
            }
            Some(_) if self.parallel.is_some() || !self.pause.0.is_zero() => Err((
                "every".to_owned(),
                "requests at intervals wait for nothing: leave `parallel` and `pause` out"
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

struct Client {
    plan: Objects,
    rng: Rng,
    begun: u32,
    answered: u32,
    /// Times of further requests, earliest first.
    next: VecDeque<Instant>,
    asker: Asker,
}

impl Client {
    fn ask(&mut self, session: &mut dyn Session) {
        if self.begun >= self.plan.count {
            return;
        }
        self.begun += 1;
        let ask = Ask {
            answer_bytes: self.plan.bytes.draw(&mut self.rng),
            body_bytes: self.plan.request_bytes.draw(&mut self.rng),
            think: self.plan.think.0,
            priority: Priority::in_turns(self.plan.incremental),
        };
        self.asker.ask(session, ask);
    }

    fn start(&mut self, session: &mut dyn Session) {
        let at_once = match self.plan.every {
            Some(every) => {
                self.next.push_back(session.now() + every.0);
                1
            }
            None => self.plan.parallel.unwrap_or(self.plan.count),
        };
        for _ in 0..at_once.min(self.plan.count) {
            self.ask(session);
        }
    }

    fn answered(&mut self, session: &mut dyn Session) {
        self.answered += 1;
        if self.answered == self.plan.count {
            self.asker.outcome.finished = Some(session.now());
            session.close();
        } else if self.plan.every.is_none() && self.begun < self.plan.count {
            if self.plan.pause.0.is_zero() {
                self.ask(session);
            } else {
                self.next.push_back(session.now() + self.plan.pause.0);
            }
        }
    }
}

impl Half for Client {
    fn on(&mut self, session: &mut dyn Session, happening: Happening) {
        let connected = happening == Happening::Connected;
        if matches!(happening, Happening::Closed(_)) {
            self.next.clear();
        }
        if self.asker.on(session, happening).is_some() {
            self.answered(session);
        }
        if connected {
            self.start(session);
        }
    }

    fn on_timer(&mut self, session: &mut dyn Session) {
        while let Some(&at) = self.next.front()
            && at <= session.now()
        {
            self.next.pop_front();
            self.ask(session);
            if let Some(every) = self.plan.every
                && self.begun < self.plan.count
            {
                self.next.push_back(at + every.0);
            }
        }
    }

    fn poll_timer(&self) -> Option<Instant> {
        self.next.front().copied()
    }

    fn received_bytes(&self) -> u64 {
        self.asker.outcome.received_bytes
    }

    fn outcome(&self) -> Outcome {
        self.asker.outcome.clone()
    }

    fn is_over(&self) -> bool {
        self.asker.outcome.finished.is_some() || self.asker.outcome.error.is_some()
    }
}
