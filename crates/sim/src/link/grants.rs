//! A return link whose capacity is granted on demand.
//!
//! Owns: [`Grants`]: when a terminal that was idle may send again.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tautline_transport::time::Instant;

use super::{
    config::{ConfigError, delay},
    outage::nanos,
    spans::Spread,
};
use crate::{
    draw::{Draws, Purpose},
    text,
};

/// Slots assigned on demand.
///
/// A terminal that was idle for `idle_after` has to ask: what goes beyond `standing` bytes waits
/// for `request_delay`. Whoever does not send without a break waits for the start of the next
/// frame; from there on the direction's `rate` holds.
///
/// Not modelled: contention of several terminals for request or traffic slots, grants that are
/// smaller than the demand, padding and the signalling's own bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grants {
    /// Length of a frame; zero: no waiting for frames. Frames start at multiples of it.
    #[serde(with = "text::duration")]
    pub frame: Duration,
    /// From the first packet after idleness to the first slot granted for it; drawn per request.
    pub request_delay: Spread,
    /// Idleness after which a grant is gone.
    #[serde(with = "text::duration")]
    pub idle_after: Duration,
    /// IP bytes that go without a request after idleness. A packet that begins within them goes as
    /// a whole. Default 0.
    #[serde(default)]
    pub standing: u32,
}

impl Grants {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        delay("frame", self.frame)?;
        self.request_delay
            .validate()
            .map_err(|e| e.within("request_delay"))?;
        delay("idle_after", self.idle_after)
    }

    fn next_frame(&self, at: Instant) -> Instant {
        let frame = nanos(self.frame);
        if frame == 0 {
            return at;
        }
        Instant::from_nanos(at.as_nanos().div_ceil(frame).saturating_mul(frame))
    }
}

/// The state of a terminal.
#[derive(Debug)]
pub(crate) struct Granted {
    grants: Grants,
    draws: Draws,
    requests: u64,
    /// From when on the request is granted.
    from: Instant,
    standing_left: u32,
    /// When the last packet's last byte left; `None` before the first.
    finished: Option<Instant>,
    /// Whether a packet has come since the last idleness, but none has started.
    asked: bool,
}

impl Granted {
    pub(crate) fn new(grants: Grants, draws: Draws) -> Self {
        Self {
            grants,
            draws,
            requests: 0,
            from: Instant::ZERO,
            standing_left: 0,
            finished: None,
            asked: false,
        }
    }

    /// The first moment from `at` on at which a packet can start.
    pub(crate) fn next_start(&mut self, at: Instant) -> Instant {
        let gone = self
            .finished
            .is_none_or(|last| at.saturating_since(last) > self.grants.idle_after);
        if gone && !self.asked {
            self.asked = true;
            let unit = self.draws.unit(Purpose::Request, self.requests);
            self.requests += 1;
            self.from = self
                .grants
                .next_frame(at + self.grants.request_delay.at(unit));
            self.standing_left = self.grants.standing;
        }
        let at = if self.standing_left > 0 {
            at
        } else {
            at.max(self.from)
        };
        if self.finished == Some(at) {
            return at;
        }
        self.grants.next_frame(at)
    }

    pub(crate) fn served(&mut self, start: Instant, finish: Instant, ip_bytes: u32) {
        self.asked = false;
        self.finished = Some(finish);
        if start < self.from {
            self.standing_left = self.standing_left.saturating_sub(ip_bytes);
        } else {
            self.standing_left = 0;
        }
    }
}
