//! Silences: nothing is sent for a while, nothing is lost, as when a Wi-Fi station retries.
//!
//! Owns: [`Silences`] and [`Gaps`], their lossy sister. Does not own: the moments (`spans.rs`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    config::{ConfigError, delay, probability},
    spans::{self, Spread, Timing},
};
use crate::text;

/// Times in which the transmitter stands still. Packets wait in the queue, which may overflow, and
/// leave at the link's rate afterwards; one that is being sent is finished later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Silences {
    /// Mean time from the end of one to the start of the next; with `periodic` from start to
    /// start. 1 ms to an hour.
    #[serde(with = "text::duration")]
    pub interval: Duration,
    /// When they begin.
    #[serde(default)]
    pub timing: Timing,
    /// How long each lasts.
    pub duration: Spread,
}

impl Silences {
    /// Whether every value is one a link can have.
    pub fn validate(&self) -> Result<(), ConfigError> {
        spans::validate(self.interval, &self.duration)?;
        let (mean, interval) = (self.duration.mean(), self.interval);
        // One that is late delays the next: there would be no end of them.
        if self.timing == Timing::Periodic && mean > interval / 10 * 9 {
            let problem = format!(
                "lasts {mean:?} on average, and one begins every {interval:?}: the link would hardly ever \
                 send; at most nine tenths of `interval`"
            );
            return Err(ConfigError::new("duration", problem));
        }
        Ok(())
    }
}

/// Times in which packets that leave the transmitter are lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gaps {
    /// Mean time from the end of one to the start of the next; with `periodic` from start to
    /// start. 1 ms to an hour.
    #[serde(with = "text::duration")]
    pub interval: Duration,
    /// When they begin.
    #[serde(default)]
    pub timing: Timing,
    /// How long each lasts.
    pub duration: Spread,
    /// Share of the packets lost meanwhile. Default 1.
    #[serde(default = "all")]
    pub probability: f64,
    /// For so long after it nothing is lost but the receiver still decodes nothing: what leaves the
    /// transmitter then arrives as if it had left at the end. Default zero.
    #[serde(
        default,
        with = "text::duration",
        skip_serializing_if = "Duration::is_zero"
    )]
    pub hold: Duration,
}

fn all() -> f64 {
    1.0
}

impl Gaps {
    /// Whether every value is one a link can have.
    pub fn validate(&self) -> Result<(), ConfigError> {
        probability("probability", self.probability)?;
        delay("hold", self.hold)?;
        spans::validate(self.interval, &self.duration)
    }
}
