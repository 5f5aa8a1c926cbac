//! Recorded loss patterns.
//!
//! Owns: [`Pattern`], its parser and the running pattern. Does not own: loss models (`loss.rs`).

use std::{fmt, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{config::ConfigError, trace::MAX_TRACE_BYTES};

/// Which packets were picked in a recording.
///
/// The text is either one digit per packet (`0` passes, `1` is picked; blanks and line ends do not
/// count), or run lengths with commas: how many pass, how many are picked, how many pass, and so
/// on. `"0001100"` and `"3, 2, 2"` are the same. At most 64 MiB.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Pattern {
    /// The text itself.
    Inline(Arc<str>),
    /// In a file, read by [`crate::LinkConfig::load`].
    File {
        /// Its path; relative ones are relative to what [`crate::LinkConfig::load`] is told.
        file: PathBuf,
    },
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file } => f.debug_tuple("File").field(file).finish(),
            Self::Inline(text) => write!(f, "Inline({} bytes)", text.len()),
        }
    }
}

impl Pattern {
    /// Run lengths, passing ones first, and the number of packets.
    pub(crate) fn runs(&self) -> Result<Vec<u64>, ConfigError> {
        let error = |problem: String| Err(ConfigError::new("pattern", problem));
        let text = match self {
            Self::Inline(text) => text,
            Self::File { file } => {
                let problem = format!("{} is not read yet: call LinkConfig::load", file.display());
                return error(problem);
            }
        };
        if text.len() > MAX_TRACE_BYTES {
            return error(format!(
                "{} bytes are more than {MAX_TRACE_BYTES}",
                text.len()
            ));
        }
        let mut runs: Vec<u64> = Vec::new();
        if text.contains(',') {
            for (i, item) in text.split(',').enumerate() {
                let item = item.trim();
                match item.parse::<u64>() {
                    Ok(run) if run <= 1 << 40 => runs.push(run),
                    // A comma may end the text.
                    _ if item.is_empty() && i > 0 => {}
                    _ => {
                        let item: String = item.chars().take(40).collect();
                        return error(format!(
                            "run {}: {item:?} is not a number of packets",
                            i + 1
                        ));
                    }
                }
            }
        } else {
            let mut picked = false;
            runs.push(0);
            for (number, line) in text.lines().enumerate() {
                for digit in line.chars().filter(|c| !c.is_whitespace()) {
                    let this = match digit {
                        '0' => false,
                        '1' => true,
                        _ => {
                            let line = number + 1;
                            return error(format!("line {line}: {digit:?} is neither 0 nor 1"));
                        }
                    };
                    if this != picked {
                        runs.push(0);
                        picked = this;
                    }
                    if let Some(last) = runs.last_mut() {
                        *last += 1;
                    }
                }
            }
        }
        if runs.iter().all(|run| *run == 0) {
            return error("holds no packet".to_owned());
        }
        Ok(runs)
    }

    /// Share of the packets picked in the recording; zero when it cannot be read.
    pub(crate) fn mean_rate(&self) -> f64 {
        let runs = self.runs().unwrap_or_default();
        let all: u64 = runs.iter().sum();
        let picked: u64 = runs.iter().skip(1).step_by(2).sum();
        if all == 0 {
            0.0
        } else {
            picked as f64 / all as f64
        }
    }
}

/// A pattern at work.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    runs: Arc<[u64]>,
    repeat: bool,
    at: usize,
    used: u64,
}

impl Recording {
    pub(crate) fn new(pattern: &Pattern, repeat: bool) -> Self {
        Self {
            runs: pattern.runs().unwrap_or_default().into(),
            repeat,
            at: 0,
            used: 0,
        }
    }

    /// Whether the next packet is picked.
    pub(crate) fn next(&mut self) -> bool {
        // One round finds a run that is not empty, unless there is none.
        for _ in 0..=self.runs.len() {
            match self.runs.get(self.at) {
                Some(run) if self.used < *run => {
                    self.used += 1;
                    return self.at % 2 == 1;
                }
                Some(_) => self.at += 1,
                None if self.repeat => self.at = 0,
                None => return false,
            }
            self.used = 0;
        }
        // A repetition that wrapped in the middle of its search.
        match self.runs.get(self.at) {
            Some(run) if self.used < *run => {
                self.used += 1;
                self.at % 2 == 1
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(text: &str, repeat: bool, n: usize) -> String {
        let mut recording = Recording::new(&Pattern::Inline(text.into()), repeat);
        (0..n)
            .map(|_| if recording.next() { '1' } else { '0' })
            .collect()
    }

    #[test]
    fn both_ways_of_writing_are_read() {
        assert_eq!(picks("0001100", false, 9), "000110000");
        assert_eq!(picks("00 01\n1 00", true, 14), "00011000001100");
        assert_eq!(picks("3, 2, 2", true, 14), "00011000001100");
        assert_eq!(picks("0, 2, 1,", true, 7), "1101101");
        assert_eq!(picks("1", true, 3), "111");
        assert_eq!(picks("2, 1, 0", true, 6), "001001");
        assert_eq!(Pattern::Inline("3, 2, 2".into()).mean_rate(), 2.0 / 7.0);
    }

    #[test]
    fn errors_name_the_place() {
        let error = |text: &str| Pattern::Inline(text.into()).runs().unwrap_err().to_string();
        assert_eq!(error("00\n0x1"), "pattern: line 2: 'x' is neither 0 nor 1");
        assert_eq!(
            error("3,x,1"),
            "pattern: run 2: \"x\" is not a number of packets"
        );
        assert_eq!(error(" "), "pattern: holds no packet");
        assert_eq!(error("0,0"), "pattern: holds no packet");
    }
}
