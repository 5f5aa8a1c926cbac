//! What a transmitter can carry between two moments, from the configuration alone.
//!
//! Owns: [`Curve`], the rate as a function of time, and [`Opportunities`], those of a trace.

use tautline_transport::{time::Instant, units::Rate};

use super::nanos;
use crate::{
    AdaptiveCoding, DirectionConfig, RateSteps, RateWander, TraceSource, Turns,
    draw::{Draws, Purpose},
};

/// Bytes per second as a function of time, constant piece by piece.
pub(super) enum Curve<'a> {
    Constant(u64),
    Steps(&'a RateSteps, u64),
    Wander(&'a RateWander, Draws),
    Coding(&'a AdaptiveCoding, u64, Draws),
}

impl<'a> Curve<'a> {
    /// `None` where there is no rate, or a trace instead.
    pub(super) fn of(config: &'a DirectionConfig, draws: Draws) -> Option<Self> {
        let rate = config.rate.map_or(0, Rate::bytes_per_second);
        if config.trace.is_some() {
            None
        } else if let Some(steps) = &config.rate_steps {
            Some(Self::Steps(steps, rate))
        } else if let Some(wander) = &config.rate_wander {
            Some(Self::Wander(wander, draws))
        } else if let Some(coding) = &config.coding {
            Some(Self::Coding(coding, rate, draws))
        } else {
            (rate > 0).then_some(Self::Constant(rate))
        }
    }

    /// The rate at a nanosecond, and the first one at which that may no longer hold.
    pub(super) fn at(&self, at: u64) -> (u64, u64) {
        match self {
            Self::Constant(rate) => (*rate, u64::MAX),
            Self::Steps(steps, before) => steps_at(steps, *before, at),
            Self::Wander(wander, draws) => wander_at(wander, draws, at),
            Self::Coding(coding, rate, draws) => {
                let (every, lag) = (nanos(coding.every).max(1), nanos(coding.lag));
                let look = at.saturating_sub(lag) / every;
                let class = class(coding, draws, look * every);
                let factor = coding.states.get(class).map_or(1.0, |state| state.factor);
                let until = ((look + 1) * every).saturating_add(lag);
                (((*rate as f64 * factor) as u64).max(1), until)
            }
        }
    }

    /// Byte-nanoseconds per second that pass from one moment to another: bytes times 1e9.
    pub(super) fn carries(&self, from: Instant, to: Instant) -> u128 {
        let (mut at, to) = (from.as_nanos(), to.as_nanos());
        let mut sum = 0;
        while at < to {
            let (rate, until) = self.at(at);
            let until = until.min(to).max(at + 1);
            sum += u128::from(rate) * u128::from(until - at);
            at = until;
        }
        sum
    }
}

/// Bytes per second in the fastest nanosecond between two moments.
pub(super) fn fastest(curve: &Curve<'_>, from: Instant, to: Instant) -> u64 {
    let (mut at, to) = (from.as_nanos(), to.as_nanos());
    let mut most = 0;
    while at < to {
        let (rate, until) = curve.at(at);
        most = most.max(rate);
        at = until.max(at + 1);
    }
    most
}

fn steps_at(steps: &RateSteps, before: u64, at: u64) -> (u64, u64) {
    let period = steps.every.map(nanos);
    let base = period.map_or(0, |period| at - at % period.max(1));
    let starts = |i: usize| steps.steps.get(i).map(|s| base.saturating_add(nanos(s.at)));
    let count = steps
        .steps
        .partition_point(|step| base + nanos(step.at) <= at);
    let current = count.checked_sub(1).and_then(|i| steps.steps.get(i));
    let rate = current.map_or(before, |step| step.rate.bytes_per_second());
    let end = period.map_or(u64::MAX, |period| base + period);
    (rate, starts(count).unwrap_or(end))
}

/// A rate between two bounds, in bytes per second.
fn drawn(low: Rate, high: Rate, unit: f64) -> f64 {
    let span = high.bytes_per_second() - low.bytes_per_second();
    low.bytes_per_second() as f64 + span as f64 * unit
}

fn wander_at(wander: &RateWander, draws: &Draws, at: u64) -> (u64, u64) {
    let (every, ripple_every) = (nanos(wander.every), nanos(wander.ripple_every));
    let slot = at / every.max(1);
    let mut until = (slot + 1) * every;
    let unit = draws.unit(Purpose::RateWander, slot * 2);
    let mut rate = drawn(wander.low, wander.high, unit);
    if wander.ripple > 0.0 {
        let slot = at / ripple_every.max(1);
        until = until.min((slot + 1) * ripple_every);
        let unit = draws.unit(Purpose::RateWander, slot * 2 + 1);
        rate *= 1.0 + wander.ripple * (2.0 * unit - 1.0);
    }
    match &wander.turns {
        None => ((rate as u64).max(1), until),
        Some(turns) => turns_at(turns, draws, at, rate, until),
    }
}

/// In its turn a direction sends at the line's rate, for as long as gives it its own on average.
fn turns_at(turns: &Turns, draws: &Draws, at: u64, rate: f64, until: u64) -> (u64, u64) {
    let frame = nanos(turns.every).max(1);
    let number = at / frame;
    let line = drawn(turns.low, turns.high, draws.unit(Purpose::Turn, number));
    let begin = number * frame;
    let over = begin + (frame as f64 * (rate / line).min(1.0)) as u64;
    if at < over {
        (line as u64, until.min(over))
    } else {
        (0, until.min(begin + frame))
    }
}

/// Which of a modem's states suits the channel at a nanosecond.
fn class(coding: &AdaptiveCoding, draws: &Draws, at: u64) -> usize {
    let every = nanos(coding.correlation).max(1);
    let (number, into) = (at / every, at % every);
    let value = |number| draws.unit(Purpose::CodingState, number);
    let (from, to) = (value(number), value(number + 1));
    let channel = from + (to - from) * (into as f64 / every as f64);
    let states = coding.states.len();
    ((channel * states as f64) as usize).min(states.saturating_sub(1))
}

/// IP bytes that a trace lets pass at each of its times.
const OPPORTUNITY: u32 = 1504;
const MILLI: u64 = 1_000_000;

/// The opportunities of a trace, used up in order.
pub(super) struct Opportunities {
    /// Milliseconds; the last one is the period.
    times: Vec<u64>,
    round: u64,
    line: usize,
    left: u32,
}

impl Opportunities {
    pub(super) fn of(config: &DirectionConfig) -> Option<Self> {
        let Some(TraceSource::Inline(text)) = &config.trace else {
            return None;
        };
        let times = times(text);
        (times.last().copied()? > 0).then_some(Self {
            times,
            round: 0,
            line: 0,
            left: OPPORTUNITY,
        })
    }

    fn period(&self) -> u64 {
        self.times.last().copied().unwrap_or(1)
    }

    fn millis(&self) -> u64 {
        let line = self.times.get(self.line).copied().unwrap_or(0);
        self.round * self.period() + line
    }

    fn next(&mut self) {
        self.line += 1;
        if self.line >= self.times.len() {
            (self.line, self.round) = (0, self.round + 1);
        }
        self.left = OPPORTUNITY;
    }

    /// The first one at or after `at` that has room; those before are lost.
    pub(super) fn seek(&mut self, at: Instant) -> Instant {
        let wanted = at.as_nanos().div_ceil(MILLI);
        // Whole rounds that end before it.
        let round = wanted.saturating_sub(1) / self.period();
        if round > self.round {
            (self.round, self.line, self.left) = (round, 0, OPPORTUNITY);
        }
        while self.left == 0 || self.millis() < wanted {
            self.next();
        }
        Instant::from_nanos(self.millis().saturating_mul(MILLI))
    }

    /// When the last of so many bytes leaves.
    pub(super) fn take(&mut self, mut bytes: u32) -> Instant {
        loop {
            let used = bytes.min(self.left);
            (bytes, self.left) = (bytes - used, self.left - used);
            if bytes == 0 {
                return Instant::from_nanos(self.millis().saturating_mul(MILLI));
            }
            self.next();
        }
    }
}

fn times(text: &str) -> Vec<u64> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(|line| line.parse().ok()).collect()
}

/// The rate that a queue in bandwidth-delay products counts with.
pub(super) fn mean(config: &DirectionConfig) -> Option<Rate> {
    let over =
        |bytes: u128, time| Rate::from_bytes_over(u64::try_from(bytes).unwrap_or(u64::MAX), time);
    if let Some(TraceSource::Inline(text)) = &config.trace {
        let times = times(text);
        let period = std::time::Duration::from_millis(*times.last()?);
        return Some(over(times.len() as u128 * u128::from(OPPORTUNITY), period));
    }
    if let Some(wander) = &config.rate_wander {
        let both = wander.low.bytes_per_second() + wander.high.bytes_per_second();
        return Some(Rate::from_bytes_per_second(both / 2));
    }
    if let Some(RateSteps { steps, every }) = &config.rate_steps {
        let Some(every) = *every else {
            let all = steps.iter().map(|s| u128::from(s.rate.bytes_per_second()));
            let mean = all.sum::<u128>() / steps.len().max(1) as u128;
            return Some(Rate::from_bytes_per_second(
                u64::try_from(mean).unwrap_or(u64::MAX),
            ));
        };
        let bytes = steps.iter().enumerate().map(|(i, step)| {
            let end = steps.get(i + 1).map_or(every, |next| next.at);
            u128::from(step.rate.bytes_in(end.saturating_sub(step.at)))
        });
        return Some(over(bytes.sum(), every));
    }
    let coded = |rate: Rate| match &config.coding {
        Some(coding) => {
            let sum: f64 = coding.states.iter().map(|state| state.factor).sum();
            rate.mul_f64(sum / coding.states.len().max(1) as f64)
        }
        None => rate,
    };
    config.rate.map(coded)
}
