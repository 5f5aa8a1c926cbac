//! Confidence intervals by resampling.

use tautline_transport::rng::Rng;

use super::sorted;
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
        self.between(found)
    }

    /// Bounds of the median: [`Self::interval`] of it, in less time.
    pub fn median(&self, values: &[f64]) -> Option<Interval> {
        let values = sorted(values);
        let count = u32::try_from(values.len())
            .ok()
            .filter(|count| *count > 1)?;
        let value = |rank: u32| values.get(rank as usize).copied();
        let mut rng = Rng::from_u64(self.seed);
        // Ranks stand for values: they are cheaper to draw and to order.
        let mut drawn = vec![0u32; values.len()];
        let mut found = Vec::with_capacity(self.resamples as usize);
        for _ in 0..self.resamples.max(1) {
            for two in drawn.chunks_mut(2) {
                let mut chance = rng.u64();
                for rank in two {
                    *rank = (((chance & 0xffff_ffff) * u64::from(count)) >> 32) as u32;
                    chance >>= 32;
                }
            }
            let (below, upper, _) = drawn.select_nth_unstable(values.len() / 2);
            let upper = value(*upper)?;
            let median = if count % 2 == 1 {
                upper
            } else {
                let lower = value(below.iter().copied().max()?)?;
                lower + (upper - lower) / 2.0
            };
            found.push(Some(median).filter(|median| median.is_finite())?);
        }
        self.between(found)
    }

    /// Where the share of confidence lies.
    fn between(&self, mut found: Vec<f64>) -> Option<Interval> {
        found.sort_by(f64::total_cmp);
        let tail = (1.0 - self.confidence.clamp(0.0, 1.0)) / 2.0;
        Some(Interval {
            low: quantile(&found, tail)?,
            high: quantile(&found, 1.0 - tail)?,
        })
    }
}
