//! Recorded links: packet-delivery opportunities, as Mahimahi writes them.
//!
//! Owns: [`TraceSource`], its parser and the running trace. A trace is a text of whole numbers of
//! milliseconds, one a line and none smaller than the one before. Each is an opportunity to send
//! 1504 IP bytes (an MTU as Mahimahi counts it); what is not used is lost. The last line is the
//! period with which the trace repeats.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tautline_transport::{time::Instant, units::Rate};

use super::config::ConfigError;

/// IP bytes of one opportunity.
pub(crate) const OPPORTUNITY_BYTES: u32 = 1504;
/// Longest text of a trace, in bytes.
pub const MAX_TRACE_BYTES: usize = 64 << 20;
const MILLI: u64 = 1_000_000;

/// Where a trace comes from: a file, read by [`crate::LinkConfig::load`], or a text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum TraceSource {
    /// Path of a file; relative ones are relative to what [`crate::LinkConfig::load`] is told.
    File(PathBuf),
    /// The lines themselves, at most 64 MiB.
    Inline(Arc<str>),
}

impl fmt::Debug for TraceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Inline(text) => write!(f, "Inline({} bytes)", text.len()),
        }
    }
}

/// A text that is not a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// Longer than [`MAX_TRACE_BYTES`].
    #[error("{0} bytes are more than {MAX_TRACE_BYTES}")]
    TooLong(usize),
    /// A line that is no whole number of milliseconds up to 2^40.
    #[error("line {line}: {text:?} is not a whole number of milliseconds")]
    NotANumber {
        /// Counted from 1.
        line: usize,
        /// The start of the line.
        text: String,
    },
    /// Time went back.
    #[error("line {line}: {at} ms is before the line above ({before} ms)")]
    Unordered {
        /// Counted from 1.
        line: usize,
        /// The time on this line.
        at: u64,
        /// The time before.
        before: u64,
    },
    /// No opportunity, or all at time zero: the trace would have no period.
    #[error("the last line has to be above 0 ms: it is the period")]
    NoPeriod,
}

/// Reads the times of all opportunities, in ms. Empty lines and lines from `#` on are skipped.
pub fn parse_trace(text: &str) -> Result<Vec<u64>, TraceError> {
    if text.len() > MAX_TRACE_BYTES {
        return Err(TraceError::TooLong(text.len()));
    }
    let mut times: Vec<u64> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at: u64 = match line.parse() {
            Ok(at) if at <= 1 << 40 => at,
            _ => {
                return Err(TraceError::NotANumber {
                    line: i + 1,
                    text: line.chars().take(40).collect(),
                });
            }
        };
        if let Some(before) = times.last().copied().filter(|before| at < *before) {
            return Err(TraceError::Unordered {
                line: i + 1,
                at,
                before,
            });
        }
        times.push(at);
    }
    match times.last() {
        Some(last) if *last > 0 => Ok(times),
        _ => Err(TraceError::NoPeriod),
    }
}

impl TraceSource {
    fn times(&self) -> Result<Vec<u64>, ConfigError> {
        match self {
            Self::File(path) => {
                let problem = format!("{} is not read yet: call LinkConfig::load", path.display());
                Err(ConfigError::new("trace", problem))
            }
            Self::Inline(text) => {
                parse_trace(text).map_err(|e| ConfigError::new("trace", e.to_string()))
            }
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.times().map(|_| ())
    }

    /// Opportunities x 1504 bytes over the period.
    pub(crate) fn mean_rate(&self) -> Option<Rate> {
        let times = self.times().ok()?;
        let bytes = times.len() as u64 * u64::from(OPPORTUNITY_BYTES);
        let period = Duration::from_millis(*times.last()?);
        Some(Rate::from_bytes_over(bytes, period))
    }

    /// `None` unless valid.
    pub(crate) fn start(&self) -> Option<Trace> {
        let times = self.times().ok()?;
        let period = *times.last()?;
        Some(Trace {
            times,
            period,
            round: 0,
            next: 0,
            left: OPPORTUNITY_BYTES,
        })
    }
}

/// A trace at work. Packets use opportunities in order; a small packet leaves room for the next,
/// a large one takes several and leaves with the last.
#[derive(Debug)]
pub(crate) struct Trace {
    times: Vec<u64>,
    period: u64,
    /// The opportunity in use: which repetition, which line, and bytes left of it.
    round: u64,
    next: usize,
    left: u32,
}

impl Trace {
    fn time(&self) -> Instant {
        let line = self.times.get(self.next).copied().unwrap_or(self.period);
        let millis = self.round.saturating_mul(self.period).saturating_add(line);
        Instant::from_nanos(millis.saturating_mul(MILLI))
    }

    fn step(&mut self) {
        self.next += 1;
        if self.next >= self.times.len() {
            self.next = 0;
            self.round += 1;
        }
        self.left = OPPORTUNITY_BYTES;
    }

    /// The first opportunity at or after `at` with room; what was not used before is lost.
    pub(crate) fn next_start(&mut self, at: Instant) -> Instant {
        if self.left == 0 {
            self.step();
        }
        if self.time() < at {
            let millis = at.as_nanos().div_ceil(MILLI);
            // The last line of a round and the first of the next may share a time.
            let round = (millis.saturating_sub(1)) / self.period;
            if round > self.round {
                (self.round, self.next, self.left) = (round, 0, OPPORTUNITY_BYTES);
            }
            let into = millis.saturating_sub(self.round.saturating_mul(self.period));
            let line = self.times.partition_point(|time| *time < into);
            if line > self.next {
                (self.next, self.left) = (line, OPPORTUNITY_BYTES);
            }
            if self.next >= self.times.len() {
                (self.round, self.next) = (self.round + 1, 0);
            }
        }
        self.time()
    }

    /// When the last byte of a packet leaves that starts where [`Trace::next_start`] said.
    pub(crate) fn serve(&mut self, ip_bytes: u32) -> Instant {
        let mut due = ip_bytes;
        loop {
            if self.left == 0 {
                self.step();
            }
            let used = due.min(self.left);
            due -= used;
            self.left -= used;
            if due == 0 {
                return self.time();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_nanos(millis * MILLI)
    }

    fn trace(text: &str) -> Trace {
        TraceSource::Inline(text.into()).start().unwrap()
    }

    #[test]
    fn opportunities_come_in_order_and_repeat() {
        let mut trace = trace("0\n3\n3\n10\n");
        assert_eq!(trace.next_start(ms(0)), ms(0));
        assert_eq!(trace.serve(1504), ms(0));
        // Two small packets share one, a large one takes the rest and the next.
        assert_eq!(trace.next_start(ms(1)), ms(3));
        assert_eq!((trace.serve(700), trace.serve(700)), (ms(3), ms(3)));
        assert_eq!(trace.serve(1504), ms(3));
        assert_eq!(trace.serve(1504), ms(10));
        // 104 bytes are left at 10; they are lost when the time is past.
        assert_eq!(trace.next_start(ms(11)), ms(13));
        assert_eq!(trace.next_start(ms(1_000_001)), ms(1_000_003));
        assert_eq!(trace.next_start(ms(1_000_010)), ms(1_000_010));
        assert_eq!(trace.serve(1504), ms(1_000_010));
        // The period's end and the next period's start are two opportunities.
        assert_eq!(trace.next_start(ms(1_000_010)), ms(1_000_010));
        assert_eq!(trace.serve(1504), ms(1_000_010));
        assert_eq!(trace.next_start(ms(1_000_010)), ms(1_000_013));
    }

    #[test]
    fn the_mean_is_that_of_a_period() {
        let source = TraceSource::Inline("1\n2\n3\n4\n".into());
        assert_eq!(source.mean_rate().unwrap().bytes_per_second(), 1_504_000);
    }

    #[test]
    fn errors_name_the_line() {
        let cases = [
            (
                "1\n\n2x\n",
                "line 3: \"2x\" is not a whole number of milliseconds",
            ),
            ("1\n5\n4\n", "line 3: 4 ms is before the line above (5 ms)"),
            ("", "the last line has to be above 0 ms: it is the period"),
            (
                "0\n0\n",
                "the last line has to be above 0 ms: it is the period",
            ),
            (
                "-1\n",
                "line 1: \"-1\" is not a whole number of milliseconds",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(parse_trace(text).unwrap_err().to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[0-9 \\n#x-]{0,200}") {
            if let Ok(times) = parse_trace(&text) {
                prop_assert!(times.is_sorted());
            }
        }

        #[test]
        fn no_opportunity_is_used_twice(
            gaps in proptest::collection::vec(0u64..20, 1..40),
            sends in proptest::collection::vec((0u64..50_000_000, 28u32..1600), 1..100),
        ) {
            let mut at = 1;
            let lines: Vec<String> = gaps.iter().map(|gap| { at += gap; at.to_string() }).collect();
            let mut trace = trace(&lines.join("\n"));
            let (mut now, mut free) = (0, Instant::ZERO);
            let mut sent: std::collections::BTreeMap<u64, u64> = Default::default();
            for (gap, bytes) in sends {
                now += gap;
                let start = trace.next_start(Instant::from_nanos(now).max(free));
                prop_assert!(start >= Instant::from_nanos(now) && start >= free);
                free = trace.serve(bytes);
                prop_assert!(free >= start);
                *sent.entry(free.as_nanos()).or_default() += u64::from(bytes);
            }
            // Up to any moment no more bytes than opportunities.
            let mut total = 0;
            for (time, bytes) in sent {
                total += bytes;
                let (millis, period) = (time / MILLI, at);
                let whole = (millis - 1) / period;
                let rest = millis - whole * period;
                let line = |line: &String| line.parse::<u64>().unwrap() <= rest;
                let count = whole * lines.len() as u64 + lines.iter().filter(|l| line(l)).count() as u64;
                prop_assert!(total <= count * 1504, "{} > {}", total, count * 1504);
            }
        }
    }
}
