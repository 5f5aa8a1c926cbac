//! Which representation comes next.
//!
//! Owns: [`Rule`]. Does not own: measurements.

use std::{collections::VecDeque, time::Duration};

use serde::{Deserialize, Serialize};

/// How the player chooses a representation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// By throughput: the highest bit rate within a share of the harmonic mean of the last five
    /// segments' throughput (bytes over the time from request to last byte). The share rises with
    /// the buffer from 0.5 when it is empty to 0.9 when it is half of `max_buffer` or more.
    #[default]
    Throughput,
    /// By buffer (in the manner of BBA-0, Huang et al., SIGCOMM 2014): a rate that rises linearly
    /// with the buffer. The highest of the ladder is reached at 90 % of `max_buffer` less a segment,
    /// which is as full as the buffer is when a segment is asked for; the lowest holds up to two
    /// segments or 10 % of `max_buffer`, whichever is more, but not beyond half of that. The
    /// representation changes when the rate reaches the next one.
    Buffer,
}

/// Segments whose throughput counts.
const REMEMBERED: usize = 5;

/// What a choice is made of.
#[derive(Clone, Debug)]
pub(super) struct Chooser {
    rule: Rule,
    /// Bits per second of the ladder, ascending.
    ladder: Vec<f64>,
    segment: Duration,
    max_buffer: Duration,
    /// Bits per second of the last segments.
    throughputs: VecDeque<f64>,
    current: usize,
}

impl Chooser {
    pub(super) fn new(
        rule: Rule,
        ladder: Vec<f64>,
        segment: Duration,
        max_buffer: Duration,
    ) -> Self {
        Self {
            rule,
            ladder,
            segment,
            max_buffer,
            throughputs: VecDeque::new(),
            current: 0,
        }
    }

    /// A segment came.
    pub(super) fn measure(&mut self, bytes: u64, took: Duration) {
        if took.is_zero() || bytes == 0 {
            return;
        }
        if self.throughputs.len() == REMEMBERED {
            self.throughputs.pop_front();
        }
        self.throughputs
            .push_back(bytes as f64 * 8.0 / took.as_secs_f64());
    }

    /// The representation of the next segment; the lowest before anything was measured.
    pub(super) fn choose(&mut self, buffered: Duration) -> usize {
        if !self.throughputs.is_empty() {
            self.current = match self.rule {
                Rule::Throughput => self.by_throughput(buffered),
                Rule::Buffer => self.by_buffer(buffered),
            };
        }
        self.current
    }

    fn by_throughput(&self, buffered: Duration) -> usize {
        let slowness: f64 = self.throughputs.iter().map(|rate| 1.0 / rate).sum();
        let mean = self.throughputs.len() as f64 / slowness;
        let half = self.max_buffer.as_secs_f64() / 2.0;
        let fullness = (buffered.as_secs_f64() / half).min(1.0);
        let budget = mean * (0.5 + 0.4 * fullness);
        let within = self.ladder.iter().filter(|rate| **rate <= budget).count();
        within.saturating_sub(1)
    }

    fn by_buffer(&self, buffered: Duration) -> usize {
        let (Some(lowest), Some(highest)) = (self.ladder.first(), self.ladder.last()) else {
            return 0;
        };
        let max = self.max_buffer.as_secs_f64();
        let segment = self.segment.as_secs_f64();
        let high = 0.9 * (max - segment);
        let low = (2.0 * segment).max(0.1 * max).min(high / 2.0);
        let buffered = buffered.as_secs_f64();
        let rate = if buffered <= low {
            *lowest
        } else if buffered >= high {
            *highest
        } else {
            lowest + (highest - lowest) * (buffered - low) / (high - low)
        };
        let next_up = self.ladder.get(self.current + 1);
        let next_down = self
            .current
            .checked_sub(1)
            .and_then(|it| self.ladder.get(it));
        if next_up.is_some_and(|next| rate >= *next) {
            // The highest below the rate.
            self.ladder.iter().filter(|it| **it <= rate).count() - 1
        } else if next_down.is_some_and(|next| rate <= *next) {
            // The lowest above the rate.
            let below = self.ladder.iter().filter(|it| **it < rate).count();
            below.min(self.ladder.len() - 1)
        } else {
            self.current
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn chooser(rule: Rule) -> Chooser {
        Chooser::new(rule, vec![1e6, 2e6, 4e6, 8e6], s(4), s(40))
    }

    #[test]
    fn throughput_decides_and_a_full_buffer_dares_more() {
        let mut it = chooser(Rule::Throughput);
        assert_eq!(it.choose(s(40)), 0, "nothing is known");
        it.measure(1_250_000, s(2)); // 5 Mb/s
        assert_eq!(it.choose(s(0)), 1, "half of it");
        assert_eq!(it.choose(s(20)), 2, "0.9 of it");
        // One slow segment outweighs a fast one: 2 / (1/5 + 1/0.5) = 0.91 Mb/s.
        it.measure(125_000, s(2));
        assert_eq!(it.choose(s(40)), 0);
        for _ in 0..5 {
            it.measure(5_000_000, s(2));
        }
        assert_eq!(it.choose(s(40)), 3, "five segments are remembered");
    }

    #[test]
    fn the_buffer_decides_with_hysteresis() {
        let mut it = chooser(Rule::Buffer);
        it.measure(1, s(1));
        // 1 Mb/s up to 8 s, 8 Mb/s from 32.4 s: 0.287 Mb/s a second.
        assert_eq!(it.choose(s(8)), 0);
        assert_eq!(it.choose(s(13)), 1, "2.43 Mb/s");
        assert_eq!(it.choose(s(9)), 1, "1.29 Mb/s is not down at the next one");
        assert_eq!(it.choose(s(18)), 1, "3.87 Mb/s is not up at the next one");
        assert_eq!(it.choose(s(38)), 3);
        assert_eq!(it.choose(s(22)), 3, "5.0 Mb/s is still above 4");
        assert_eq!(it.choose(s(14)), 2, "2.7 Mb/s: the lowest above it");
        assert_eq!(it.choose(s(0)), 0);
    }
}
