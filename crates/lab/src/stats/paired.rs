//! Ratios of runs that met the same chance.

use super::{Bootstrap, Interval, mean, median};

/// The same point and repetition under two solutions; `None` where a run has no value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Of the solution.
    pub value: Option<f64>,
    /// Of the one compared with.
    pub base: Option<f64>,
}

/// What pairs say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// `value / base` of every pair that has both, ascending.
    pub ratios: Vec<f64>,
    /// Pairs where only the solution has a value.
    pub only_value: usize,
    /// Pairs where only the one compared with has a value.
    pub only_base: usize,
    /// Pairs where neither has one.
    pub neither: usize,
    /// Pairs whose ratio means nothing: negative values, or a base of 0 with a value that is not.
    pub undefined: usize,
    /// The median of the ratios, which is not the ratio of the medians.
    pub median: Option<f64>,
    /// Its bounds.
    pub median_interval: Option<Interval>,
    /// The geometric mean of the ratios; `None` when one is 0.
    pub geometric_mean: Option<f64>,
    /// Its bounds.
    pub geometric_mean_interval: Option<Interval>,
}

impl Comparison {
    /// All pairs.
    pub fn pairs(&self) -> usize {
        self.ratios.len() + self.only_value + self.only_base + self.neither + self.undefined
    }

    /// Shares of all pairs in which the ratio is (below `1 - margin`, above `1 + margin`).
    pub fn beyond(&self, margin: f64) -> Option<(f64, f64)> {
        let all = self.pairs();
        if all == 0 {
            return None;
        }
        let below = self.ratios.iter().filter(|r| **r < 1.0 - margin).count();
        let above = self.ratios.iter().filter(|r| **r > 1.0 + margin).count();
        Some((below as f64 / all as f64, above as f64 / all as f64))
    }
}

/// The mean of the logarithms, raised again; `None` unless every value is positive.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if !values.iter().all(|v| *v > 0.0) {
        return None;
    }
    let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    Some(mean(&logs)?.exp()).filter(|m| m.is_finite())
}

/// Compares pair by pair. Equal zeros have the ratio 1.
pub fn paired(pairs: &[Pair], bootstrap: &Bootstrap) -> Comparison {
    let mut found = Comparison::default();
    for pair in pairs {
        let finite = |value: Option<f64>| value.filter(|v| v.is_finite());
        match (finite(pair.value), finite(pair.base)) {
            (None, None) => found.neither += 1,
            (Some(_), None) => found.only_value += 1,
            (None, Some(_)) => found.only_base += 1,
            (Some(value), Some(base)) => {
                let ratio = if value == 0.0 && base == 0.0 {
                    1.0
                } else {
                    value / base
                };
                if value < 0.0 || base < 0.0 || !ratio.is_finite() {
                    found.undefined += 1;
                } else {
                    found.ratios.push(ratio);
                }
            }
        }
    }
    found.ratios.sort_by(f64::total_cmp);
    found.median = median(&found.ratios);
    found.median_interval = bootstrap.median(&found.ratios);
    if found.ratios.iter().all(|r| *r > 0.0) {
        let logs: Vec<f64> = found.ratios.iter().map(|r| r.ln()).collect();
        found.geometric_mean = mean(&logs).map(f64::exp).filter(|m| m.is_finite());
        let bounds = bootstrap.interval(&logs, |drawn| mean(drawn));
        found.geometric_mean_interval = bounds.map(|bounds| Interval {
            low: bounds.low.exp(),
            high: bounds.high.exp(),
        });
    }
    found
}
