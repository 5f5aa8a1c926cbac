//! Times at which a link carries nothing, by schedule.
//!
//! Owns: [`Outage`]. Does not own: random silences (`silence.rs`) or losses (`loss.rs`).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tautline_transport::time::Instant;

use super::config::ConfigError;
use crate::text;

/// A time in which nothing passes, once or again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// First moment, since the world's origin.
    #[serde(with = "text::duration")]
    pub start: Duration,
    /// Length.
    #[serde(with = "text::duration")]
    pub duration: Duration,
    /// Repeats with this period; longer than `duration`.
    #[serde(
        with = "text::duration_option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub every: Option<Duration>,
    /// What becomes of packets.
    #[serde(default)]
    pub mode: OutageMode,
}

/// What becomes of packets during an outage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutageMode {
    /// A black hole: the transmitter goes on and the wire swallows what it sends.
    #[default]
    Drop,
    /// The transmitter stops; packets wait in the queue (a hand-over).
    Hold,
}

impl Outage {
    /// A single black hole.
    pub const fn once(start: Duration, duration: Duration) -> Self {
        Self {
            start,
            duration,
            every: None,
            mode: OutageMode::Drop,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.duration.is_zero() {
            return Err(ConfigError::new("duration", "is zero"));
        }
        if let Some(every) = self.every
            && every <= self.duration
        {
            let problem = format!(
                "{every:?} is not longer than the outage ({:?})",
                self.duration
            );
            return Err(ConfigError::new("every", problem));
        }
        Ok(())
    }

    /// The end of the outage that covers `at`, if one does.
    pub(crate) fn covering(&self, at: Instant) -> Option<Instant> {
        let since = at.since_origin().checked_sub(self.start)?;
        let into = match self.every {
            Some(every) => nanos(since) % nanos(every).max(1),
            None => nanos(since),
        };
        let left = nanos(self.duration)
            .checked_sub(into)
            .filter(|left| *left > 0)?;
        Some(at + Duration::from_nanos(left))
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
