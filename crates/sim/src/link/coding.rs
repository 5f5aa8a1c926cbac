//! Adaptive coding and modulation, as on a DVB-S2 carrier.
//!
//! Owns: [`AdaptiveCoding`]: which state the modem is in, how fast and how lossy that is.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tautline_transport::time::Instant;

use super::{
    config::{ConfigError, probability},
    outage::nanos,
    rate::piece,
};
use crate::{
    draw::{Draws, Purpose},
    text,
};

const MAX_STATES: usize = 64;

/// A modem that changes its modulation and code with the weather.
///
/// The channel is a line between values drawn uniformly, one per `correlation`, looked at every
/// `every`, and cut into as many equal classes as there are states. The modem follows `lag` later:
/// while it is faster than the channel bears, `lag_loss` of the packets are lost; while it is
/// slower, nothing is.
///
/// Not modelled: the overhead of encapsulation (GSE, MPE) and of physical-layer frames, frames that
/// hold several packets and are lost as one, the states' real probabilities at a place, rain that
/// moves over several terminals at once, and the power control of the uplink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdaptiveCoding {
    /// How often the channel is looked at, from 1 ms.
    #[serde(with = "text::duration")]
    pub every: Duration,
    /// Time from one drawn value of the channel to the next, at least `every`.
    #[serde(with = "text::duration")]
    pub correlation: Duration,
    /// States from the slowest to the fastest, 1 to 64.
    pub states: Vec<CodingState>,
    /// How late the modem follows, at most an hour.
    #[serde(with = "text::duration")]
    pub lag: Duration,
    /// Share of the packets lost while the modem is too fast.
    pub lag_loss: f64,
}

/// One pair of modulation and code.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodingState {
    /// Share of the direction's `rate` that it carries, `0.01..=1.0`.
    pub factor: f64,
    /// Share of the packets lost in it.
    pub loss: f64,
}

impl AdaptiveCoding {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        piece("every", self.every)?;
        piece("correlation", self.correlation)?;
        if self.correlation < self.every {
            let problem = format!("{:?} is below `every` ({:?})", self.correlation, self.every);
            return Err(ConfigError::new("correlation", problem));
        }
        super::config::delay("lag", self.lag)?;
        probability("lag_loss", self.lag_loss)?;
        if self.states.is_empty() || self.states.len() > MAX_STATES {
            let problem = format!("{} states are not 1 to {MAX_STATES}", self.states.len());
            return Err(ConfigError::new("states", problem));
        }
        for (i, state) in self.states.iter().enumerate() {
            if !(0.01..=1.0).contains(&state.factor) {
                let problem = format!("{} is not between 0.01 and 1", state.factor);
                return Err(ConfigError::new(format!("states[{i}].factor"), problem));
            }
            probability(&format!("states[{i}].loss"), state.loss)?;
        }
        if !self.states.is_sorted_by(|a, b| a.factor < b.factor) {
            let problem = "are not sorted by growing factor";
            return Err(ConfigError::new("states", problem));
        }
        Ok(())
    }

    pub(crate) fn mean_factor(&self) -> f64 {
        self.states.iter().map(|s| s.factor).sum::<f64>() / self.states.len().max(1) as f64
    }

    /// The channel's class in slot `slot`.
    fn channel(&self, slot: u64, draws: &Draws) -> usize {
        let at = slot.saturating_mul(nanos(self.every));
        let correlation = nanos(self.correlation).max(1);
        let (anchor, into) = (at / correlation, at % correlation);
        let from = draws.unit(Purpose::CodingState, anchor);
        let to = draws.unit(Purpose::CodingState, anchor + 1);
        let value = from + (to - from) * (into as f64 / correlation as f64);
        ((value * self.states.len() as f64) as usize).min(self.states.len() - 1)
    }

    fn modem_slot(&self, at: Instant) -> u64 {
        at.as_nanos().saturating_sub(nanos(self.lag)) / nanos(self.every).max(1)
    }

    /// The rate factor at `at`, and until when it holds.
    pub(crate) fn factor(&self, at: Instant, draws: &Draws) -> (f64, Instant) {
        let slot = self.modem_slot(at);
        let state = self.states.get(self.channel(slot, draws));
        let end = (slot + 1).saturating_mul(nanos(self.every));
        let until = Instant::from_nanos(end.saturating_add(nanos(self.lag)));
        (state.map_or(1.0, |s| s.factor), until)
    }

    /// Whether packet `index`, which leaves at `at`, is lost.
    pub(crate) fn loses(&self, at: Instant, index: u64, draws: &Draws) -> bool {
        let modem = self.channel(self.modem_slot(at), draws);
        let channel = self.channel(at.as_nanos() / nanos(self.every).max(1), draws);
        let loss = if modem > channel {
            self.lag_loss
        } else {
            self.states.get(modem).map_or(0.0, |s| s.loss)
        };
        draws.chance(Purpose::CodingLoss, index, loss)
    }
}
