//! Rates that change with time.
//!
//! Owns: [`RateSteps`], [`RateWander`] with its [`Turns`], and the running curve. Does not own: service times
//! (`server.rs`), recorded traces (`trace.rs`), adaptive coding (`coding.rs`).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tautline_transport::{time::Instant, units::Rate};

use super::{
    config::{ConfigError, MAX_RATE, delay},
    outage::nanos,
};
use crate::{
    draw::{Draws, Purpose},
    text,
};

const MAX_STEPS: usize = 100_000;
/// Slower than this, one packet could take hours.
pub(crate) const MIN_RATE: Rate = Rate::from_bits_per_second(8_000);
/// Shorter pieces would cost more than they say.
const MIN_PIECE: Duration = Duration::from_millis(1);
const MIN_FRAME: Duration = Duration::from_micros(100);

pub(crate) fn rate(field: &str, value: Rate) -> Result<(), ConfigError> {
    if value < MIN_RATE || value > MAX_RATE {
        let problem = format!("{value} is not between {MIN_RATE} and {MAX_RATE}");
        return Err(ConfigError::new(field, problem));
    }
    Ok(())
}

pub(crate) fn piece(field: &str, value: Duration) -> Result<(), ConfigError> {
    if value < MIN_PIECE {
        let problem = format!("{value:?} is below {MIN_PIECE:?}");
        return Err(ConfigError::new(field, problem));
    }
    delay(field, value)
}

/// A rate that is constant between given times.
///
/// ```toml
/// rate_steps = { every = "20 s", steps = [
///     { at = "0 s", rate = "20 Mb/s" },
///     { at = "10 s", rate = "5 Mb/s" },
/// ] }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateSteps {
    /// The steps, by growing time, 1 to 100,000. Before the first one the direction's `rate`
    /// holds; without a `rate`, or with `every`, the first step is at 0.
    pub steps: Vec<RateStep>,
    /// Repeats with this period, later than the last step. At least 1 ms.
    #[serde(
        with = "text::duration_option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub every: Option<Duration>,
}

/// One step of [`RateSteps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    /// When, since the world's origin (or the start of the period).
    #[serde(with = "text::duration")]
    pub at: Duration,
    /// The rate from then on, counted in IP bytes: at least 8 kb/s.
    #[serde(with = "text::rate")]
    pub rate: Rate,
}

impl RateSteps {
    pub(crate) fn validate(&self, before: Option<Rate>) -> Result<(), ConfigError> {
        if self.steps.is_empty() || self.steps.len() > MAX_STEPS {
            let problem = format!("{} steps are not 1 to {MAX_STEPS}", self.steps.len());
            return Err(ConfigError::new("steps", problem));
        }
        let first_late = self.steps.first().is_some_and(|step| !step.at.is_zero());
        if first_late && (before.is_none() || self.every.is_some()) {
            let problem = "is not 0: without `rate`, or with `every`, no rate would hold before it";
            return Err(ConfigError::new("steps[0].at", problem));
        }
        for (i, step) in self.steps.iter().enumerate() {
            rate("rate", step.rate).map_err(|e| e.within(&format!("steps[{i}]")))?;
        }
        for (i, pair) in self.steps.windows(2).enumerate() {
            if let [a, b] = pair
                && a.at >= b.at
            {
                let problem = format!("{:?} is not after the step before ({:?})", b.at, a.at);
                return Err(ConfigError::new(format!("steps[{}].at", i + 1), problem));
            }
        }
        if let Some(every) = self.every {
            piece("every", every)?;
            if self.steps.last().is_some_and(|last| last.at >= every) {
                let problem = format!("{every:?} is not after the last step");
                return Err(ConfigError::new("every", problem));
            }
        }
        Ok(())
    }

    /// Over one period; without one, the plain mean of the rates listed.
    fn mean(&self) -> Rate {
        let Some(every) = self.every else {
            let sum: u128 = self
                .steps
                .iter()
                .map(|s| u128::from(s.rate.bytes_per_second()))
                .sum();
            let mean = sum / self.steps.len().max(1) as u128;
            return Rate::from_bytes_per_second(u64::try_from(mean).unwrap_or(u64::MAX));
        };
        let ends = self.steps.iter().skip(1).map(|s| s.at).chain([every]);
        let bytes: u128 = self
            .steps
            .iter()
            .zip(ends)
            .map(|(step, end)| u128::from(step.rate.bytes_in(end.saturating_sub(step.at))))
            .sum();
        Rate::from_bytes_over(u64::try_from(bytes).unwrap_or(u64::MAX), every)
    }

    fn piece(&self, before: u64, at: Instant) -> (u64, Instant) {
        let (base, into) = match self.every {
            Some(every) => {
                let every = nanos(every).max(1);
                let into = at.as_nanos() % every;
                (at.as_nanos() - into, into)
            }
            None => (0, at.as_nanos()),
        };
        let next = self.steps.partition_point(|step| nanos(step.at) <= into);
        let until = match (self.steps.get(next), self.every) {
            (Some(step), _) => base.saturating_add(nanos(step.at)),
            (None, Some(every)) => base.saturating_add(nanos(every)),
            (None, None) => u64::MAX,
        };
        let current = next.checked_sub(1).and_then(|i| self.steps.get(i));
        let rate = current.map_or(before, |step| step.rate.bytes_per_second());
        (rate, Instant::from_nanos(until))
    }
}

/// A rate that is drawn anew on a grid of time, uniformly between two bounds, and ripples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateWander {
    /// Lowest rate of a slot, at least 8 kb/s.
    #[serde(with = "text::rate")]
    pub low: Rate,
    /// Highest rate of a slot.
    #[serde(with = "text::rate")]
    pub high: Rate,
    /// Length of a slot, from 1 ms.
    #[serde(with = "text::duration")]
    pub every: Duration,
    /// Within a slot the rate is multiplied by a factor drawn from `1 - ripple ..= 1 + ripple`,
    /// `0.0..=0.9`. Default 0.
    #[serde(default)]
    pub ripple: f64,
    /// Length for which such a factor holds, from 1 ms. Default 100 ms.
    #[serde(default = "ripple_every", with = "text::duration")]
    pub ripple_every: Duration,
    /// Sends by turns with others, faster than its share. Default: steadily.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Turns>,
}

/// Turns at a faster transmitter: in every frame a direction sends at the line's rate for as long
/// as gives it the rate it has on average (the whole frame if the line is slower), then others do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turns {
    /// Length of a frame, from 100 us. Frames start at multiples of it, with the direction's turn.
    #[serde(with = "text::duration")]
    pub every: Duration,
    /// The line's rate is drawn per frame, uniformly between this, at least 8 kb/s, ...
    #[serde(with = "text::rate")]
    pub low: Rate,
    /// ... and this.
    #[serde(with = "text::rate")]
    pub high: Rate,
}

impl Turns {
    fn validate(&self) -> Result<(), ConfigError> {
        if self.every < MIN_FRAME {
            let problem = format!("{:?} is below {MIN_FRAME:?}", self.every);
            return Err(ConfigError::new("every", problem));
        }
        delay("every", self.every)?;
        between(self.low, self.high)
    }

    /// What of a steady rate (bytes per second) holds at `at`, and until when.
    fn piece(&self, steady: f64, draws: &Draws, at: Instant) -> (u64, Instant) {
        let every = nanos(self.every).max(1);
        let number = at.as_nanos() / every;
        let start = number.saturating_mul(every);
        let unit = draws.unit(Purpose::Turn, number);
        let line = uniform(self.low, self.high, unit);
        let turn = (every as f64 * (steady / line).min(1.0)) as u64;
        let over = Instant::from_nanos(start.saturating_add(turn));
        if at < over {
            (line as u64, over)
        } else {
            (0, Instant::from_nanos(start.saturating_add(every)))
        }
    }
}

/// Bytes per second.
fn uniform(low: Rate, high: Rate, unit: f64) -> f64 {
    let (low, high) = (low.bytes_per_second(), high.bytes_per_second());
    low as f64 + (high - low) as f64 * unit
}

fn between(low: Rate, high: Rate) -> Result<(), ConfigError> {
    rate("low", low)?;
    rate("high", high)?;
    if low > high {
        let problem = format!("{low} exceeds `high` ({high})");
        return Err(ConfigError::new("low", problem));
    }
    Ok(())
}

const fn ripple_every() -> Duration {
    Duration::from_millis(100)
}

impl RateWander {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        between(self.low, self.high)?;
        if let Some(turns) = &self.turns {
            turns.validate().map_err(|e| e.within("turns"))?;
        }
        if !(0.0..=0.9).contains(&self.ripple) {
            let problem = format!("{} is not between 0 and 0.9", self.ripple);
            return Err(ConfigError::new("ripple", problem));
        }
        piece("every", self.every)?;
        piece("ripple_every", self.ripple_every)
    }

    fn piece(&self, draws: &Draws, at: Instant) -> (u64, Instant) {
        let slot = |every: Duration| {
            let every = nanos(every).max(1);
            let number = at.as_nanos() / every;
            (
                number,
                Instant::from_nanos((number + 1).saturating_mul(every)),
            )
        };
        let (number, mut until) = slot(self.every);
        let unit = draws.unit(Purpose::RateWander, number * 2);
        let mut rate = uniform(self.low, self.high, unit);
        if self.ripple > 0.0 {
            let (number, end) = slot(self.ripple_every);
            let unit = draws.unit(Purpose::RateWander, number * 2 + 1);
            rate *= 1.0 + self.ripple * (2.0 * unit - 1.0);
            until = until.min(end);
        }
        let Some(turns) = &self.turns else {
            return ((rate as u64).max(1), until);
        };
        let (rate, over) = turns.piece(rate, draws, at);
        (rate, until.min(over))
    }
}

/// A rate as a function of time, constant piece by piece.
#[derive(Debug)]
pub(crate) enum RateCurve {
    Steps {
        steps: RateSteps,
        before: u64,
    },
    Wander {
        wander: RateWander,
        draws: Draws,
    },
    Coding {
        coding: super::coding::AdaptiveCoding,
        rate: u64,
        draws: Draws,
    },
}

impl RateCurve {
    /// Bytes per second at `at` (none between turns), and how long that holds; the end is after
    /// `at`.
    pub(crate) fn piece(&self, at: Instant) -> (u64, Instant) {
        match self {
            Self::Steps { steps, before } => steps.piece(*before, at),
            Self::Wander { wander, draws } => wander.piece(draws, at),
            Self::Coding {
                coding,
                rate,
                draws,
            } => {
                let (factor, until) = coding.factor(at, draws);
                (((*rate as f64 * factor) as u64).max(1), until)
            }
        }
    }
}

impl super::DirectionConfig {
    /// The rate that a queue in bandwidth-delay products counts with: constant, or the mean over a
    /// period (`rate_steps` with `every`, `trace`), over the rates listed (`rate_steps` without),
    /// over the range (`rate_wander`) or over the states, all counted alike (`coding`).
    pub fn mean_rate(&self) -> Option<Rate> {
        if let Some(trace) = &self.trace {
            return trace.mean_rate();
        }
        if let Some(wander) = &self.rate_wander {
            let sum = wander.low.bytes_per_second() + wander.high.bytes_per_second();
            return Some(Rate::from_bytes_per_second(sum / 2));
        }
        if let Some(steps) = &self.rate_steps {
            return Some(steps.mean());
        }
        match &self.coding {
            Some(coding) => self.rate.map(|rate| rate.mul_f64(coding.mean_factor())),
            None => self.rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000_000)
    }

    #[test]
    fn steps_hold_until_the_next_and_repeat() {
        let step = |at, rate| RateStep {
            at: Duration::from_secs(at),
            rate: Rate::from_bytes_per_second(rate),
        };
        let mut steps = RateSteps {
            steps: vec![step(0, 1000), step(3, 4000)],
            every: Some(Duration::from_secs(4)),
        };
        steps.validate(None).unwrap();
        assert_eq!(steps.mean().bytes_per_second(), 1750);
        assert_eq!(steps.piece(0, seconds(2)), (1000, seconds(3)));
        assert_eq!(steps.piece(0, seconds(3)), (4000, seconds(4)));
        assert_eq!(steps.piece(0, seconds(8)), (1000, seconds(11)));
        steps.every = None;
        assert_eq!(steps.mean().bytes_per_second(), 2500);
        assert_eq!(steps.piece(0, seconds(8)), (4000, Instant::FAR_FUTURE));
        steps.steps.remove(0);
        assert_eq!(steps.piece(7, seconds(1)), (7, seconds(3)));
        let error = steps.validate(None).unwrap_err().to_string();
        assert!(error.starts_with("steps[0].at: is not 0"), "{error}");
        steps.validate(Some(Rate::MAX)).unwrap();
    }

    #[test]
    fn a_wandering_rate_stays_within_its_bounds() {
        let wander = RateWander {
            low: Rate::from_bits_per_second(100_000_000),
            high: Rate::from_bits_per_second(250_000_000),
            every: Duration::from_secs(1),
            ripple: 0.0,
            ripple_every: ripple_every(),
            turns: None,
        };
        let draws = Draws::new(1, 0, 0);
        let rates: Vec<u64> = (0..2000)
            .map(|s| wander.piece(&draws, seconds(s)).0)
            .collect();
        assert!(rates.iter().all(|r| (12_500_000..=31_250_000).contains(r)));
        let mean = rates.iter().sum::<u64>() / 2000;
        assert!(mean.abs_diff(21_875_000) < 500_000, "{mean}");
        assert_eq!(wander.piece(&draws, seconds(3)).1, seconds(4));
    }

    #[test]
    fn turns_keep_the_mean_rate_and_send_at_the_lines() {
        let mbit = |n: u64| Rate::from_bits_per_second(n * 1_000_000);
        let wander = RateWander {
            low: mbit(100),
            high: mbit(100),
            every: Duration::from_secs(1),
            ripple: 0.0,
            ripple_every: ripple_every(),
            turns: Some(Turns {
                every: Duration::from_millis(2),
                low: mbit(200),
                high: mbit(400),
            }),
        };
        wander.validate().unwrap();
        let draws = Draws::new(1, 0, 0);
        let (mut at, mut bytes) = (Instant::ZERO, 0.0);
        while at < seconds(10) {
            let (rate, until) = wander.piece(&draws, at);
            assert!(rate == 0 || (25_000_000..=50_000_000).contains(&rate));
            assert!(until > at);
            bytes += rate as f64 * until.saturating_since(at).as_secs_f64();
            at = until;
        }
        assert!((bytes / 125e6 - 1.0).abs() < 1e-3, "{bytes}");
    }
}
