//! Stretches of time at random or periodic moments.
//!
//! Owns: [`Spread`], a distribution of durations, and the sequence of stretches that silences and
//! gaps are made of. The n-th stretch is a function of the direction's key and of n.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tautline_transport::time::Instant;

use super::{
    config::{ConfigError, delay},
    outage::nanos,
};
use crate::{
    draw::{Draws, Purpose, ln},
    text,
};

/// Stretches that one look may pass over; more mean that the clock was set far ahead.
const MAX_STEPS: u32 = 10_000_000;
/// The shortest mean distance of two stretches.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
const MAX_POINTS: usize = 1000;

/// How long something lasts. Every duration is at most an hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Spread {
    /// Always the same.
    Fixed {
        /// The duration.
        #[serde(with = "text::duration")]
        value: Duration,
    },
    /// Each duration in a range is as likely as another.
    Uniform {
        /// Shortest.
        #[serde(with = "text::duration")]
        least: Duration,
        /// Longest.
        #[serde(with = "text::duration")]
        most: Duration,
    },
    /// Exponential, cut off at ten times the mean.
    Exponential {
        /// The mean (before the cut, which takes 0.05 % off).
        #[serde(with = "text::duration")]
        mean: Duration,
    },
    /// Straight lines between points of a distribution function. The first point has share 0, the
    /// last share 1, and both shares and values grow.
    Quantiles {
        /// The points.
        points: Vec<Quantile>,
    },
}

/// One point of a distribution function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantile {
    /// Share of the durations that are at most `value`, `0.0..=1.0`.
    pub share: f64,
    /// The duration.
    #[serde(with = "text::duration")]
    pub value: Duration,
}

impl Spread {
    /// Whether every parameter is possible; no duration may exceed an hour.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Fixed { value } => delay("value", *value),
            Self::Exponential { mean } => delay("mean", *mean),
            Self::Uniform { least, most } => {
                if least > most {
                    let problem = format!("{least:?} exceeds `most` ({most:?})");
                    return Err(ConfigError::new("least", problem));
                }
                delay("most", *most)
            }
            Self::Quantiles { points } => {
                let ends = points.first().zip(points.last());
                let whole = ends.is_some_and(|(a, b)| a.share == 0.0 && b.share == 1.0);
                if !whole || points.len() < 2 || points.len() > MAX_POINTS {
                    let problem = format!("needs 2 to {MAX_POINTS} points from share 0 to share 1");
                    return Err(ConfigError::new("points", problem));
                }
                for (i, pair) in points.windows(2).enumerate() {
                    let [a, b] = pair else { continue };
                    if !(a.share < b.share && a.value <= b.value) {
                        let problem = "shares and values have to grow from point to point";
                        return Err(ConfigError::new(format!("points[{}]", i + 1), problem));
                    }
                }
                points
                    .last()
                    .map_or(Ok(()), |last| delay("points", last.value))
            }
        }
    }

    /// Their mean.
    pub(crate) fn mean(&self) -> Duration {
        match self {
            Self::Fixed { value } => *value,
            Self::Exponential { mean } => *mean,
            Self::Uniform { least, most } => (*least + *most) / 2,
            Self::Quantiles { points } => {
                let piece = |pair: &[Quantile]| match pair {
                    [a, b] => ((a.value + b.value) / 2).mul_f64(b.share - a.share),
                    _ => Duration::ZERO,
                };
                points.windows(2).map(piece).sum()
            }
        }
    }

    /// The duration at `unit`, `0.0..1.0`.
    pub(crate) fn at(&self, unit: f64) -> Duration {
        let between = |a: Duration, b: Duration, x: f64| {
            a + Duration::from_nanos((b.saturating_sub(a).as_nanos() as f64 * x) as u64)
        };
        match self {
            Self::Fixed { value } => *value,
            Self::Uniform { least, most } => between(*least, *most, unit),
            Self::Exponential { mean } => exponential(*mean, unit),
            Self::Quantiles { points } => {
                let pair = points
                    .windows(2)
                    .find(|pair| pair.last().is_some_and(|b| unit < b.share));
                match pair {
                    Some([a, b]) => {
                        let x = (unit - a.share) / (b.share - a.share);
                        between(a.value, b.value, x)
                    }
                    _ => points.last().map_or(Duration::ZERO, |last| last.value),
                }
            }
        }
    }
}

/// An exponential duration, cut off at ten times its mean.
fn exponential(mean: Duration, unit: f64) -> Duration {
    let factor = (-ln(1.0 - unit)).clamp(0.0, 10.0);
    Duration::from_nanos((mean.as_nanos() as f64 * factor) as u64)
}

/// When stretches begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// The time between the end of one and the start of the next is exponential.
    #[default]
    Random,
    /// They start at multiples of the interval (or when the one before has ended).
    Periodic,
}

pub(crate) fn validate(interval: Duration, duration: &Spread) -> Result<(), ConfigError> {
    if interval < MIN_INTERVAL {
        let problem = format!("{interval:?} is below {MIN_INTERVAL:?}");
        return Err(ConfigError::new("interval", problem));
    }
    delay("interval", interval)?;
    duration.validate().map_err(|e| e.within("duration"))
}

/// The stretches, visited in order of time.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    interval: Duration,
    timing: Timing,
    duration: Spread,
    draws: Draws,
    next: u64,
    /// End of the stretch before this one.
    last_end: Option<Instant>,
    start: Instant,
    end: Instant,
}

impl Spans {
    /// `draws` is for these alone.
    pub(crate) fn new(interval: Duration, timing: Timing, duration: Spread, draws: Draws) -> Self {
        let mut spans = Self {
            interval,
            timing,
            duration,
            draws,
            next: 0,
            last_end: None,
            start: Instant::ZERO,
            end: Instant::ZERO,
        };
        spans.advance();
        spans
    }

    fn advance(&mut self) {
        let unit = |what: u64| self.draws.unit(Purpose::Span, self.next * 2 + what);
        self.last_end = (self.next > 0).then_some(self.end);
        self.start = match self.timing {
            Timing::Random => self.end + exponential(self.interval, unit(0)),
            Timing::Periodic => {
                let at = nanos(self.interval).saturating_mul(self.next + 1);
                Instant::from_nanos(at).max(self.end)
            }
        };
        self.end = self.start + self.duration.at(unit(1));
        self.next += 1;
    }

    /// The first stretch that ends after `at`. `at` never goes back.
    pub(crate) fn from(&mut self, at: Instant) -> (Instant, Instant) {
        for _ in 0..MAX_STEPS {
            if self.end > at {
                return (self.start, self.end);
            }
            self.advance();
        }
        (Instant::FAR_FUTURE, Instant::FAR_FUTURE)
    }

    /// When the stretch before the one that [`Spans::from`] named last was over.
    pub(crate) const fn last_end(&self) -> Option<Instant> {
        self.last_end
    }

    /// The end of the stretch that covers `at`, if one does. `at` never goes back.
    pub(crate) fn covering(&mut self, at: Instant) -> Option<Instant> {
        let (start, end) = self.from(at);
        (start <= at).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(timing: Timing, duration: Spread) -> Spans {
        Spans::new(
            Duration::from_millis(100),
            timing,
            duration,
            Draws::new(3, 1, 0),
        )
    }

    #[test]
    fn random_spans_have_their_means() {
        let mean = Duration::from_millis(10);
        let mut spans = spans(Timing::Random, Spread::Exponential { mean });
        let (mut count, mut length, mut at) = (0, 0.0, Instant::ZERO);
        loop {
            let (start, end) = spans.from(at);
            if end > Instant::from_nanos(1_000_000_000_000) {
                break;
            }
            assert!(start >= at);
            count += 1;
            length += end.saturating_since(start).as_secs_f64();
            at = end;
        }
        // 1000 s in cycles of 110 ms.
        assert!((8_700..9_500).contains(&count), "{count}");
        let mean = length / f64::from(count);
        assert!((mean / 0.010 - 1.0).abs() < 0.04, "{mean}");
    }

    #[test]
    fn periodic_spans_start_on_the_grid() {
        let value = Duration::from_millis(30);
        let mut spans = spans(Timing::Periodic, Spread::Fixed { value });
        let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
        assert_eq!(spans.covering(ms(99)), None);
        assert_eq!(spans.covering(ms(100)), Some(ms(130)));
        assert_eq!(spans.covering(ms(130)), None);
        assert_eq!(spans.covering(ms(229)), Some(ms(230)));
    }

    #[test]
    fn quantiles_are_met() {
        let ms = Duration::from_millis;
        let point = |share, value| Quantile { share, value };
        let points = vec![point(0.0, ms(1)), point(0.9, ms(10)), point(1.0, ms(100))];
        let spread = Spread::Quantiles { points };
        spread.validate().unwrap();
        let mut values: Vec<Duration> =
            (0..10_000).map(|i| spread.at(f64::from(i) / 1e4)).collect();
        values.sort();
        assert_eq!(values[9000], ms(10));
        assert!(values[9500].abs_diff(ms(55)) < ms(1));
    }
}
