//! Confidence intervals by resampling.

use tautline_transport::rng::Rng;

use crate::metric::quantile;

/// Bounds of a statistic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// The percentile bootstrap (Efron): draw as many values as there are, with replacement, compute
/// the statistic, repeat; the interval lies between the percentiles of what came out. The same
/// values and seed give the same bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bootstrap {
    /// How often values are drawn.
    pub resamples: u32,
    /// The share of resamples between the bounds, in 0..1.
    pub confidence: f64,
    /// Seed of the draws.
    pub seed: u64,
}

impl Default for Bootstrap {
    /// 95 %, 1000 resamples, seed 1.
    fn default() -> Self {
        Self {
            resamples: 1000,
            confidence: 0.95,
            seed: 1,
        }
    }
}

impl Bootstrap {
    /// Bounds of `statistic`, which may reorder what it is given; `None` of fewer than two finite
    /// values, or when a resample has no statistic.
    pub fn interval(
        &self,
        values: &[f64],
        statistic: impl Fn(&mut [f64]) -> Option<f64>,
    ) -> Option<Interval> {
        let values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        if values.len() < 2 {
            return None;
        }
        let mut rng = Rng::from_u64(self.seed);
        let mut drawn = vec![0.0; values.len()];
        let mut found = Vec::with_capacity(self.resamples as usize);
        for _ in 0..self.resamples.max(1) {
            for place in &mut drawn {
                let index = rng.below(values.len() as u64) as usize;
                *place = values[index];
            }
            found.push(statistic(&mut drawn).filter(|x| x.is_finite())?);
        }
        found.sort_by(f64::total_cmp);
        let tail = (1.0 - self.confidence.clamp(0.0, 1.0)) / 2.0;
        Some(Interval {
            low: quantile(&found, tail)?,
            high: quantile(&found, 1.0 - tail)?,
        })
    }

    /// Bounds of the median.
    pub fn median(&self, values: &[f64]) -> Option<Interval> {
        self.interval(values, middle)
    }
}

/// The median, by partial sorting.
fn middle(values: &mut [f64]) -> Option<f64> {
    let count = values.len();
    if count == 0 {
        return None;
    }
    let (below, upper, _) = values.select_nth_unstable_by(count / 2, f64::total_cmp);
    let upper = *upper;
    if count % 2 == 1 {
        return Some(upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some(lower + (upper - lower) / 2.0)
}
