//! A transfer, and small urgent objects that are asked for while it runs, on one connection.

use std::{collections::VecDeque, time::Duration};

use serde::{Deserialize, Serialize};
use tautline_transport::{rng::Rng, time::Instant};

use super::{
    Problem, Program,
    fetch::{Answered, Ask, Asker, Priority, Responder},
};
use crate::{
    outcome::Outcome,
    quantity::{Size, Span},
    session::{Half, Happening, Session},
};

/// More objects than this are another workload.
const MOST_OBJECTS: u32 = 10_000;

/// A download with urgent objects beside it. An item is an urgent object, wanted when it was asked
/// for; the transfer is none. What would be asked for when the transfer is over is left out.
///
/// Column `urgent_transfer_s`: what the transfer took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Urgent {
    /// Application bytes of the transfer.
    pub transfer: Size,
    /// Application bytes of each urgent object.
    pub object: Size,
    /// How many of them, 1 to 10,000. Default 1.
    #[serde(default = "one")]
    pub count: u32,
    /// Each is asked for at a time of its own, drawn evenly from the first so long after the
    /// transfer was asked for.
    pub within: Span,
    /// Whether the objects are more urgent than the transfer (RFC 9218: urgency 0, it has 5); else
    /// both have the default urgency. Default yes.
    #[serde(default = "yes")]
    pub prioritised: bool,
}

const fn one() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

impl Program for Urgent {
    fn client(&self, seed: u64) -> Box<dyn Half> {
        Box::new(Client::new(self.clone(), seed))
    }

    fn server(&self, _seed: u64) -> Box<dyn Half> {
        Box::<Responder>::default()
    }

    fn volume(&self, _seed: u64) -> Option<u64> {
        let objects = self.object.0.saturating_mul(self.count.into());
        Some(objects.saturating_add(self.transfer.0))
    }

    fn validate(&self) -> Result<(), Problem> {
        let wrong = |field: &str, reason: String| Err((field.to_owned(), reason));
        if self.count == 0 || self.count > MOST_OBJECTS {
            let reason = format!("{} is not between 1 and {MOST_OBJECTS}", self.count);
            return wrong("count", reason);
        }
        for (field, size) in [("transfer", self.transfer), ("object", self.object)] {
            if size.0 == 0 {
                return wrong(field, "0 bytes: nothing would be sent".to_owned());
            }
        }
        if self.within.0.is_zero() || self.within.0 > Duration::from_secs(3600) {
            let reason = format!("{:?} is not above 0 and at most an hour", self.within.0);
            return wrong("within", reason);
        }
        Ok(())
    }
}

struct Client {
    plan: Urgent,
    asker: Asker,
    /// How long after the transfer each object is asked for, ascending.
    phases: VecDeque<Duration>,
    began: Option<Instant>,
    transferred: Option<Instant>,
}

impl Client {
    fn new(plan: Urgent, seed: u64) -> Self {
        let mut rng = Rng::from_u64(seed);
        let span = u64::try_from(plan.within.0.as_nanos()).unwrap_or(u64::MAX);
        let draw = |_| Duration::from_nanos(rng.below(span));
        let mut phases: Vec<Duration> = (0..plan.count).map(draw).collect();
        phases.sort_unstable();
        Self {
            plan,
            asker: Asker::default(),
            phases: phases.into(),
            began: None,
            transferred: None,
        }
    }

    fn urgency(&self, urgency: u8) -> Priority {
        if self.plan.prioritised {
            Priority {
                urgency,
                incremental: false,
            }
        } else {
            Priority::in_turns(true)
        }
    }

    fn begin(&mut self, session: &mut dyn Session) {
        self.began = Some(session.now());
        let ask = Ask {
            answer_bytes: self.plan.transfer.0,
            priority: self.urgency(5),
            ..Ask::default()
        };
        self.asker.ask(session, ask);
        self.ask_urgently(session);
    }

    /// Asks for the objects whose time has come.
    fn ask_urgently(&mut self, session: &mut dyn Session) {
        let Some(began) = self.began else { return };
        while let Some(phase) = self.phases.front()
            && began + *phase <= session.now()
        {
            self.phases.pop_front();
            let ask = Ask {
                answer_bytes: self.plan.object.0,
                priority: self.urgency(0),
                ..Ask::default()
            };
            self.asker.ask(session, ask);
        }
    }

    fn answered(&mut self, session: &mut dyn Session, answered: Answered) {
        let now = session.now();
        if answered.item == 0 {
            // Later ones would meet no transfer.
            self.phases.clear();
            self.transferred = Some(now).filter(|_| answered.complete);
        }
        if self.asker.open() == 0 && self.phases.is_empty() {
            self.asker.outcome.finished = Some(now);
            session.close();
        }
    }
}

impl Half for Client {
    fn on(&mut self, session: &mut dyn Session, happening: Happening) {
        let connected = happening == Happening::Connected;
        let answered = self.asker.on(session, happening);
        if connected {
            self.begin(session);
        } else if let Some(answered) = answered {
            self.answered(session, answered);
        }
    }

    fn on_timer(&mut self, session: &mut dyn Session) {
        self.ask_urgently(session);
    }

    fn poll_timer(&self) -> Option<Instant> {
        Some(self.began? + *self.phases.front()?)
    }

    fn received_bytes(&self) -> u64 {
        self.asker.outcome.received_bytes
    }

    fn outcome(&self) -> Outcome {
        let mut outcome = self.asker.outcome.clone();
        if !outcome.items.is_empty() {
            outcome.items.remove(0);
        }
        if let (Some(began), Some(transferred)) = (self.began, self.transferred) {
            let seconds = transferred.saturating_since(began).as_secs_f64();
            outcome.extra.insert("urgent_transfer_s", seconds);
        }
        outcome
    }

    fn is_over(&self) -> bool {
        self.asker.outcome.finished.is_some() || self.asker.outcome.error.is_some()
    }
}

#[cfg(test)]
mod tests {
    use tautline_sim::LinkConfig;

    use super::*;
    use crate::workload::tests::{clean, play};

    fn urgent() -> Urgent {
        Urgent {
            transfer: Size(2_000_000),
            object: Size(1_000),
            count: 10,
            within: Span(Duration::from_secs(60)),
            prioritised: true,
        }
    }

    /// What comes after the transfer is left out, and phases differ by seed.
    #[test]
    fn objects_are_asked_for_while_the_transfer_runs() {
        let play = |seed| {
            let link: LinkConfig = clean();
            let client = play(&urgent(), link, seed).client;
            let transfer = client.extra["urgent_transfer_s"];
            assert!(client.finished.is_some());
            assert!(client.items.len() < 10);
            let bytes = 2_000_000 + 1_000 * client.items.len() as u64;
            assert_eq!(client.received_bytes, bytes);
            for item in &client.items {
                let began = client.connected.unwrap();
                let phase = item.wanted.saturating_since(began).as_secs_f64();
                assert!(phase < transfer && item.done.is_some());
            }
            client.items.first().map(|item| item.wanted)
        };
        let all: Vec<_> = (0..20).map(play).collect();
        assert!(all.iter().any(Option::is_some));
        assert!(all.iter().any(|one| *one != all[0]));
    }

    #[test]
    fn impossible_ones_are_refused() {
        let wrong = |change: fn(&mut Urgent)| {
            let mut urgent = urgent();
            change(&mut urgent);
            urgent.validate().unwrap_err().0
        };
        assert_eq!(wrong(|it| it.count = 0), "count");
        assert_eq!(wrong(|it| it.object = Size(0)), "object");
        assert_eq!(wrong(|it| it.within = Span::default()), "within");
    }
}
