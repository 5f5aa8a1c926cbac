//! Where values lie and how far they spread.

use crate::metric::quantile;

/// The finite ones of `values`, ascending.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The sum over the count.
pub fn mean(values: &[f64]) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0u64);
    for value in values.iter().filter(|v| v.is_finite()) {
        sum += value;
        count += 1;
    }
    (count > 0)
        .then(|| sum / count as f64)
        .filter(|mean| mean.is_finite())
}

/// The unbiased variance, `sum((x - mean)^2) / (n - 1)`; `None` of fewer than two.
pub fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let (mut squares, mut count) = (0.0, 0u64);
    for value in values.iter().filter(|v| v.is_finite()) {
        squares += (value - mean) * (value - mean);
        count += 1;
    }
    (count > 1)
        .then(|| squares / (count - 1) as f64)
        .filter(|variance| variance.is_finite())
}

/// The middle value; between the two middle ones of an even count.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(&sorted(values), 0.5).filter(|m| m.is_finite())
}

/// The values below which the given shares lie, interpolated as [`quantile`] does.
pub fn quantiles<const N: usize>(values: &[f64], shares: [f64; N]) -> Option<[f64; N]> {
    let values = sorted(values);
    let mut out = [0.0; N];
    for (out, share) in out.iter_mut().zip(shares) {
        *out = quantile(&values, share).filter(|q| q.is_finite())?;
    }
    Some(out)
}

/// The median of `values` over that of `base`, which pairs nothing: runs that met the same chance
/// are not told from others. `None` unless the lower one is positive.
pub fn ratio_of_medians(values: &[f64], base: &[f64]) -> Option<f64> {
    let (value, base) = (median(values)?, median(base)?);
    (base > 0.0).then(|| value / base).filter(|r| r.is_finite())
}

/// What a box plot draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// 5th percentile: the lower whisker.
    pub low: f64,
    /// 25th percentile.
    pub lower: f64,
    /// Median.
    pub median: f64,
    /// 75th percentile.
    pub upper: f64,
    /// 95th percentile: the upper whisker.
    pub high: f64,
    /// Values outside the whiskers, ascending.
    pub outside: Vec<f64>,
}

impl Spread {
    /// Of `values`.
    pub fn of(values: &[f64]) -> Option<Self> {
        let values = sorted(values);
        let at = |share| quantile(&values, share).filter(|q| q.is_finite());
        let (low, high) = (at(0.05)?, at(0.95)?);
        Some(Self {
            low,
            lower: at(0.25)?,
            median: at(0.5)?,
            upper: at(0.75)?,
            high,
            outside: values
                .iter()
                .copied()
                .filter(|v| *v < low || *v > high)
                .collect(),
        })
    }
}

/// An empirical distribution: which share of all lies at or below a value.
///
/// What never got a value (a transfer that did not finish) counts as larger than every value, so
/// that the curve ends below 1 by the share of failures.
#[derive(Clone, Debug, PartialEq)]
pub struct Ecdf {
    values: Vec<f64>,
    all: usize,
}

impl Ecdf {
    /// Of the finite ones of `values`, out of `all` (no fewer than those).
    pub fn new(values: &[f64], all: usize) -> Option<Self> {
        let values = sorted(values);
        let all = all.max(values.len());
        (!values.is_empty()).then_some(Self { values, all })
    }

    /// Values, ascending.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The share at or below `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.values.partition_point(|v| *v <= x) as f64 / self.all as f64
    }

    /// Corners of the curve, `(value, share at or below it)`, at most about `limit` of them: of
    /// more values every k-th, and the first and last.
    pub fn corners(&self, limit: usize) -> Vec<(f64, f64)> {
        let count = self.values.len();
        let stride = count.div_ceil(limit.max(2)).max(1);
        self.values
            .iter()
            .enumerate()
            .filter(|(index, _)| index % stride == 0 || index + 1 == count)
            .map(|(index, value)| (*value, (index + 1) as f64 / self.all as f64))
            .collect()
    }
}
