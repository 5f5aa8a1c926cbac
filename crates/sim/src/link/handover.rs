//! Hand-overs on a fixed grid of time, as between satellites.
//!
//! Owns: [`Handover`]. Each slot has a delay of its own; a hand-over may stop the transmitter and
//! lose packets for a while.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tautline_transport::time::Instant;

use super::{
    config::{ConfigError, delay, probability},
    outage::nanos,
};
use crate::{
    draw::{Draws, Purpose},
    text,
};

/// A hand-over at `offset + k x every`, for every k from 0 on; none at the world's very origin,
/// so that an offset of zero starts with a quiet slot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Handover {
    /// Length of a slot. Default 15 s; 10 ms to an hour.
    #[serde(with = "text::duration")]
    pub every: Duration,
    /// Start of a slot, less than `every`.
    #[serde(with = "text::duration")]
    pub offset: Duration,
    /// The delay of each slot is drawn uniformly from `delay - delay_spread ..= delay +
    /// delay_spread`; jitter comes on top. The two directions of a link draw by themselves.
    #[serde(with = "text::duration")]
    pub delay_spread: Duration,
    /// For how long after a hand-over packets are lost; less than `every`.
    #[serde(with = "text::duration")]
    pub loss_duration: Duration,
    /// Share of the packets lost meanwhile. Default 1.
    pub loss_probability: f64,
    /// For how long after a hand-over the transmitter stands still; less than `every`.
    #[serde(with = "text::duration")]
    pub gap: Duration,
}

impl Default for Handover {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(15),
            offset: Duration::ZERO,
            delay_spread: Duration::ZERO,
            loss_duration: Duration::ZERO,
            loss_probability: 1.0,
            gap: Duration::ZERO,
        }
    }
}

impl Handover {
    /// Whether every value is one a link with this delay can have.
    pub(crate) fn validate(&self, room: Duration) -> Result<(), ConfigError> {
        delay("every", self.every)?;
        if self.every < Duration::from_millis(10) {
            let problem = format!("{:?} is below 10 ms", self.every);
            return Err(ConfigError::new("every", problem));
        }
        probability("loss_probability", self.loss_probability)?;
        let parts = [
            ("offset", self.offset),
            ("loss_duration", self.loss_duration),
            ("gap", self.gap),
        ];
        for (field, value) in parts {
            if value >= self.every {
                let problem = format!("{value:?} is not shorter than a slot ({:?})", self.every);
                return Err(ConfigError::new(field, problem));
            }
        }
        if self.delay_spread > room {
            let problem = format!(
                "{:?} exceeds the delay less its jitter ({room:?})",
                self.delay_spread
            );
            return Err(ConfigError::new("delay_spread", problem));
        }
        Ok(())
    }

    /// The slot of a moment, and the time since the hand-over that began it.
    fn slot(&self, at: Instant) -> (u64, Option<Duration>) {
        let (offset, every) = (nanos(self.offset), nanos(self.every).max(1));
        match at.as_nanos().checked_sub(offset) {
            None => (0, None),
            Some(since) => {
                let slot = since / every;
                let began_at_origin = slot == 0 && offset == 0;
                let into = Duration::from_nanos(since % every);
                (slot + 1, (!began_at_origin).then_some(into))
            }
        }
    }

    /// The end of the gap that covers `at`, if one does.
    pub(crate) fn gap_end(&self, at: Instant) -> Option<Instant> {
        let into = self.slot(at).1?;
        let left = self.gap.checked_sub(into).filter(|left| !left.is_zero())?;
        Some(at + left)
    }

    /// `base` moved by what the slot of `at` drew; never below zero.
    pub(crate) fn delay(&self, base: Duration, at: Instant, draws: &Draws) -> Duration {
        if self.delay_spread.is_zero() {
            return base;
        }
        let unit = draws.unit(Purpose::HandoverDelay, self.slot(at).0);
        let width = self.delay_spread.as_nanos() as f64 * 2.0;
        base.saturating_sub(self.delay_spread) + Duration::from_nanos((width * unit) as u64)
    }

    /// Whether packet `index`, which leaves at `at`, is lost.
    pub(crate) fn loses(&self, at: Instant, index: u64, draws: &Draws) -> bool {
        let after = self.slot(at).1;
        after.is_some_and(|into| into < self.loss_duration)
            && draws.chance(Purpose::HandoverLoss, index, self.loss_probability)
    }
}
