//! Which packets a link picks, for loss or for corruption.
//!
//! Owns: [`LossModel`] and the process that runs it. The pick of packet `i` depends only on the
//! key of the direction and on `i`.

use serde::{Deserialize, Serialize};

use super::{
    config::{ConfigError, probability},
    recorded::{Pattern, Recording},
};
use crate::draw::{Draws, Purpose};

/// A rule by which packets are picked. `i` counts every packet offered to the direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LossModel {
    /// None is picked.
    #[default]
    None,
    /// Each packet by itself.
    Uniform {
        /// Share of the packets picked.
        probability: f64,
        /// Never more than this many in a row; the next one passes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_burst: Option<u32>,
    },
    /// Gilbert's two states: all packets pass in one and none in the other.
    Gilbert {
        /// Share of the packets picked, in the long run.
        probability: f64,
        /// Mean length of a run of picked packets, at least 1.
        mean_burst: f64,
        /// Never more than this many in a row; the next one passes, and ends the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_burst: Option<u32>,
    },
    /// Gilbert and Elliott's four parameters. The chain starts in its stationary distribution; a
    /// packet is judged in the current state, then the state may change.
    GilbertElliott {
        /// Probability to go from the good to the bad state after a packet (`p`).
        good_to_bad: f64,
        /// Probability to go back (`r`).
        bad_to_good: f64,
        /// Share picked in the good state (`1 - k`).
        loss_good: f64,
        /// Share picked in the bad state (`1 - h`).
        loss_bad: f64,
    },
    /// As in a recording, packet by packet from the first one offered.
    Recorded {
        /// The recording, or the file that holds it.
        pattern: Pattern,
        /// Whether it begins anew when it has ended; otherwise none is picked any more.
        #[serde(default)]
        repeat: bool,
    },
}

impl LossModel {
    /// Independent picks with probability `p`.
    pub const fn uniform(p: f64) -> Self {
        Self::Uniform {
            probability: p,
            max_burst: None,
        }
    }

    /// Whether this is [`LossModel::None`].
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Share of the packets picked in the long run (an upper bound with `max_burst`; that of
    /// the recording).
    pub fn mean_rate(&self) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Uniform { probability, .. } | Self::Gilbert { probability, .. } => probability,
            Self::GilbertElliott {
                good_to_bad: p,
                bad_to_good: r,
                loss_good,
                loss_bad,
            } => {
                let bad = stationary_bad(p, r);
                loss_good * (1.0 - bad) + loss_bad * bad
            }
            Self::Recorded { ref pattern, .. } => pattern.mean_rate(),
        }
    }

    /// Whether every packet is picked, for ever: none that is offered ever passes.
    pub fn picks_all(&self) -> bool {
        match *self {
            Self::None => false,
            // Where runs have an end, the packet after one passes.
            Self::Uniform {
                probability: p,
                max_burst,
            }
            | Self::Gilbert {
                probability: p,
                max_burst,
                ..
            } => p >= 1.0 && max_burst.is_none(),
            Self::GilbertElliott {
                good_to_bad: p,
                bad_to_good: r,
                loss_good,
                loss_bad,
            } => {
                // A state that the chain is never in decides nothing.
                let bad = stationary_bad(p, r);
                (bad >= 1.0 || loss_good >= 1.0) && (bad <= 0.0 || loss_bad >= 1.0)
            }
            Self::Recorded {
                ref pattern,
                repeat,
            } => repeat && pattern.mean_rate() >= 1.0,
        }
    }

    /// Whether every parameter is possible.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match *self {
            Self::None => Ok(()),
            Self::Uniform {
                probability: p,
                max_burst,
            } => {
                some_burst(max_burst)?;
                probability("probability", p)
            }
            Self::Gilbert {
                probability: p,
                mean_burst,
                max_burst,
            } => {
                some_burst(max_burst)?;
                probability("probability", p)?;
                if !(1.0..=1e9).contains(&mean_burst) {
                    let problem = format!("{mean_burst} is not between 1 and 1e9 packets");
                    return Err(ConfigError::new("mean_burst", problem));
                }
                if p >= 1.0 {
                    let problem = "would pick every packet, and a burst without end has no mean \
                                   length; below 1";
                    return Err(ConfigError::new("probability", problem));
                }
                if p / (1.0 - p) > mean_burst {
                    let problem = format!(
                        "{p} needs bursts of {:.2} at least, not {mean_burst}",
                        p / (1.0 - p)
                    );
                    return Err(ConfigError::new("probability", problem));
                }
                Ok(())
            }
            Self::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_good,
                loss_bad,
            } => {
                probability("good_to_bad", good_to_bad)?;
                probability("bad_to_good", bad_to_good)?;
                probability("loss_good", loss_good)?;
                probability("loss_bad", loss_bad)
            }
            Self::Recorded { ref pattern, .. } => pattern.runs().map(|_| ()),
        }
    }
}

fn some_burst(max_burst: Option<u32>) -> Result<(), ConfigError> {
    if max_burst == Some(0) {
        let problem = "0 would pick none; use `none`";
        return Err(ConfigError::new("max_burst", problem));
    }
    Ok(())
}

fn stationary_bad(p: f64, r: f64) -> f64 {
    if p + r > 0.0 { p / (p + r) } else { 0.0 }
}

/// A loss model at work.
#[derive(Clone, Debug)]
pub(crate) struct LossProcess {
    kind: Kind,
    pick: Purpose,
    state: Purpose,
}

#[derive(Clone, Debug)]
enum Kind {
    Never,
    Uniform {
        p: f64,
        max_burst: u32,
        run: u32,
    },
    Chain {
        p: f64,
        r: f64,
        good: f64,
        bad: f64,
        in_bad: Option<bool>,
        max_burst: u32,
        run: u32,
    },
    Recorded(Recording),
}

impl LossProcess {
    pub(crate) fn for_loss(model: &LossModel) -> Self {
        Self {
            kind: Kind::new(model),
            pick: Purpose::Loss,
            state: Purpose::LossState,
        }
    }

    pub(crate) fn for_corruption(model: &LossModel) -> Self {
        Self {
            kind: Kind::new(model),
            pick: Purpose::Corruption,
            state: Purpose::CorruptionState,
        }
    }

    /// Whether packet `index` is picked. To be asked once for every index, in order.
    pub(crate) fn picks(&mut self, draws: &Draws, index: u64) -> bool {
        match &mut self.kind {
            Kind::Never => false,
            Kind::Uniform { p, max_burst, run } => {
                let picked = *run < *max_burst && draws.chance(self.pick, index, *p);
                *run = if picked { *run + 1 } else { 0 };
                picked
            }
            Kind::Recorded(recording) => recording.next(),
            Kind::Chain {
                p,
                r,
                good,
                bad,
                in_bad,
                max_burst,
                run,
            } => {
                let is_bad = in_bad
                    .unwrap_or_else(|| draws.chance(self.state, u64::MAX, stationary_bad(*p, *r)));
                let turns = draws.chance(self.state, index, if is_bad { *r } else { *p });
                *in_bad = Some(is_bad != turns);
                let picked = draws.chance(self.pick, index, if is_bad { *bad } else { *good });
                if picked && *run == *max_burst {
                    *in_bad = Some(false);
                    *run = 0;
                    return false;
                }
                *run = if picked { run.saturating_add(1) } else { 0 };
                picked
            }
        }
    }
}

impl Kind {
    fn new(model: &LossModel) -> Self {
        match *model {
            LossModel::None => Self::Never,
            LossModel::Uniform {
                probability,
                max_burst,
            } => Self::Uniform {
                p: probability,
                max_burst: max_burst.unwrap_or(u32::MAX),
                run: 0,
            },
            LossModel::Gilbert {
                probability,
                mean_burst,
                max_burst,
            } => {
                let r = 1.0 / mean_burst.max(1.0);
                // The share of time in the bad state is p / (p + r).
                let p = if probability < 1.0 {
                    r * probability / (1.0 - probability)
                } else {
                    1.0
                };
                let r = if probability < 1.0 { r } else { 0.0 };
                Self::Chain {
                    p: p.min(1.0),
                    r,
                    good: 0.0,
                    bad: 1.0,
                    in_bad: None,
                    max_burst: max_burst.unwrap_or(u32::MAX),
                    run: 0,
                }
            }
            LossModel::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_good,
                loss_bad,
            } => Self::Chain {
                p: good_to_bad,
                r: bad_to_good,
                good: loss_good,
                bad: loss_bad,
                in_bad: None,
                max_burst: u32::MAX,
                run: 0,
            },
            LossModel::Recorded {
                ref pattern,
                repeat,
            } => Self::Recorded(Recording::new(pattern, repeat)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(model: LossModel, n: u64) -> Vec<bool> {
        model.validate().unwrap();
        let mut process = LossProcess::for_loss(&model);
        let draws = Draws::new(11, 3, 1);
        (0..n).map(|i| process.picks(&draws, i)).collect()
    }

    fn rate(picks: &[bool]) -> f64 {
        picks.iter().filter(|p| **p).count() as f64 / picks.len() as f64
    }

    fn bursts(picks: &[bool]) -> Vec<usize> {
        picks
            .split(|p| !p)
            .map(<[bool]>::len)
            .filter(|n| *n > 0)
            .collect()
    }

    fn mean(values: &[usize]) -> f64 {
        values.iter().sum::<usize>() as f64 / values.len() as f64
    }

    #[test]
    fn uniform_matches_its_rate_and_geometric_bursts() {
        for p in [0.001, 0.02, 0.3] {
            let picks = run(LossModel::uniform(p), 1_000_000);
            let sigma = (p * (1.0 - p) / 1e6).sqrt();
            assert!(
                (rate(&picks) - p).abs() < 5.0 * sigma,
                "{p}: {}",
                rate(&picks)
            );
            assert!((mean(&bursts(&picks)) - 1.0 / (1.0 - p)).abs() < 0.05);
        }
        assert_eq!(rate(&run(LossModel::uniform(0.0), 1000)), 0.0);
        assert_eq!(rate(&run(LossModel::uniform(1.0), 1000)), 1.0);
    }

    #[test]
    fn max_burst_is_kept() {
        let picks = run(
            LossModel::Uniform {
                probability: 0.3,
                max_burst: Some(3),
            },
            1_000_000,
        );
        assert_eq!(bursts(&picks).into_iter().max(), Some(3));
        assert!((0.28..0.30).contains(&rate(&picks)), "{}", rate(&picks));
    }

    #[test]
    fn runs_are_cut() {
        let picks = run(
            LossModel::Gilbert {
                probability: 0.02,
                mean_burst: 3.0,
                max_burst: Some(5),
            },
            1_000_000,
        );
        let runs = bursts(&picks);
        assert_eq!(runs.iter().max(), Some(&5));
        // A geometric length of mean 3, cut at 5.
        assert!((2.55..2.66).contains(&mean(&runs)), "{}", mean(&runs));
        assert!((0.016..0.019).contains(&rate(&picks)), "{}", rate(&picks));
    }

    #[test]
    fn gilbert_matches_rate_and_mean_burst() {
        for (p, burst) in [(0.004, 3.0), (0.02, 10.0), (0.2, 1.5), (0.4, 5.0)] {
            let picks = run(
                LossModel::Gilbert {
                    probability: p,
                    mean_burst: burst,
                    max_burst: None,
                },
                4_000_000,
            );
            assert!(
                (rate(&picks) / p - 1.0).abs() < 0.04,
                "{p}: {}",
                rate(&picks)
            );
            let got = mean(&bursts(&picks));
            assert!((got / burst - 1.0).abs() < 0.03, "{burst}: {got}");
        }
    }

    #[test]
    fn gilbert_elliott_matches_its_stationary_rate() {
        let model = LossModel::GilbertElliott {
            good_to_bad: 0.01,
            bad_to_good: 0.2,
            loss_good: 0.001,
            loss_bad: 0.6,
        };
        let picks = run(model.clone(), 4_000_000);
        assert!((rate(&picks) / model.mean_rate() - 1.0).abs() < 0.02);
    }

    #[test]
    fn impossible_parameters_are_named() {
        let cases = [
            (
                LossModel::uniform(1.5),
                "probability: 1.5 is not a probability (0 to 1)",
            ),
            (
                LossModel::uniform(f64::NAN),
                "probability: NaN is not a probability (0 to 1)",
            ),
            (
                LossModel::Gilbert {
                    probability: 0.9,
                    mean_burst: 2.0,
                    max_burst: None,
                },
                "probability: 0.9 needs bursts of 9.00 at least, not 2",
            ),
            (
                LossModel::Gilbert {
                    probability: 0.1,
                    mean_burst: 0.5,
                    max_burst: None,
                },
                "mean_burst: 0.5 is not between 1 and 1e9 packets",
            ),
        ];
        for (model, message) in cases {
            assert_eq!(model.validate().unwrap_err().to_string(), message);
        }
        let whole = LossModel::Gilbert {
            probability: 1.0,
            mean_burst: 3.0,
            max_burst: None,
        };
        let told = whole.validate().unwrap_err().to_string();
        assert!(told.starts_with("probability: would pick every packet"));
    }

    #[test]
    fn what_picks_all_is_known_beforehand() {
        let chain = |p, r, loss_good, loss_bad| LossModel::GilbertElliott {
            good_to_bad: p,
            bad_to_good: r,
            loss_good,
            loss_bad,
        };
        let capped = LossModel::Uniform {
            probability: 1.0,
            max_burst: Some(3),
        };
        let recorded = |text: &str, repeat| LossModel::Recorded {
            pattern: Pattern::Inline(text.into()),
            repeat,
        };
        for (model, all) in [
            (LossModel::None, false),
            (LossModel::uniform(0.999), false),
            (LossModel::uniform(1.0), true),
            (capped, false),
            (chain(0.1, 0.3, 1.0, 1.0), true),
            (chain(0.1, 0.3, 0.0, 1.0), false),
            (chain(0.1, 0.0, 0.0, 1.0), true),
            (chain(0.0, 0.3, 0.0, 1.0), false),
            (chain(0.0, 0.3, 1.0, 0.0), true),
            (chain(0.0, 0.0, 1.0, 0.0), true),
            (recorded("111", true), true),
            (recorded("111", false), false),
            (recorded("110", true), false),
        ] {
            assert_eq!(model.picks_all(), all, "{model:?}");
            let picks = run(model.clone(), 2_000);
            assert_eq!(picks.iter().all(|picked| *picked), all, "{model:?}");
        }
    }
}
