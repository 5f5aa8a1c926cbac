//! Bytes, as many and as fast as the network lets.

use serde::{Deserialize, Serialize};

use super::{
    Direction, End, Problem, Program,
    fetch::{Ask, Asker, Priority, Responder},
};
use crate::{
    outcome::Outcome,
    quantity::Size,
    session::{Half, Happening, Session},
};

/// Without a size, as many bytes as nobody moves.
const ENDLESS: u64 = 1 << 50;

/// A transfer of bytes. An item is a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// Application bytes of each stream; without them the transfer has no end but the flow's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// Which way. Default `down`.
    #[serde(default)]
    pub direction: Direction,
    /// On how many streams at once, as far as the peer's limit lets. 1 to 10,000. Default 1.
    #[serde(default = "one")]
    pub streams: u32,
    /// Whether the streams take turns; else the first one goes first. Default yes.
    #[serde(default = "yes")]
    pub incremental: bool,
}

const fn one() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

impl Default for Bulk {
    fn default() -> Self {
        Self {
            bytes: None,
            direction: Direction::Down,
            streams: 1,
            incremental: true,
        }
    }
}

impl Program for Bulk {
    fn client(&self, _seed: u64) -> Box<dyn Half> {
        Box::new(Client {
            plan: self.clone(),
            asker: Asker::default(),
        })
    }

    fn server(&self, _seed: u64) -> Box<dyn Half> {
        Box::<Responder>::default()
    }

    fn receiver(&self) -> End {
        self.direction.receiver()
    }

    fn volume(&self, _seed: u64) -> Option<u64> {
        Some(self.bytes?.0.saturating_mul(self.streams.into()))
    }

    fn is_endless(&self) -> bool {
        self.bytes.is_none()
    }

    fn validate(&self) -> Result<(), Problem> {
        if self.streams == 0 || self.streams > 10_000 {
            let reason = format!("{} is not between 1 and 10000", self.streams);
            return Err(("streams".to_owned(), reason));
        }
        if self.bytes == Some(Size(0)) {
            let reason = "0 bytes: nothing would be sent; without `bytes` it has no end";
            return Err(("bytes".to_owned(), reason.to_owned()));
        }
        Ok(())
    }
}

struct Client {
    plan: Bulk,
    asker: Asker,
}

impl Client {
    fn ask(&mut self, session: &mut dyn Session) {
        let bytes = self.plan.bytes.map_or(ENDLESS, |size| size.0);
        let (answer_bytes, body_bytes) = match self.plan.direction {
            Direction::Down => (bytes, 0),
            Direction::Up => (0, bytes),
        };
        let several = self.plan.streams > 1;
        let ask = Ask {
            answer_bytes,
            body_bytes,
            priority: Priority::in_turns(several && self.plan.incremental),
            ..Ask::default()
        };
        for _ in 0..self.plan.streams {
            self.asker.ask(session, ask);
        }
    }
}

impl Half for Client {
    fn on(&mut self, session: &mut dyn Session, happening: Happening) {
        let connected = happening == Happening::Connected;
        let answered = self.asker.on(session, happening);
        if connected {
            self.ask(session);
        } else if answered.is_some() && self.asker.open() == 0 {
            self.asker.outcome.finished = Some(session.now());
            session.close();
        }
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
