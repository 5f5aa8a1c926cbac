//! Figures of a run: every metric with its unit, formula and the papers' name for it.
//!
//! Owns: [`METRICS`] (of a cell), [`FLOW_METRICS`] (of a connection). Does not own: statistics
//! over cells (`stats`).
//! To add a metric: a line in one of the two tables.

mod bound;
mod cell;
mod fec;
mod flow;
mod paths;

pub use cell::METRICS;
pub use flow::FLOW_METRICS;

use crate::run::{FlowRecord, Record};

/// One figure.
pub struct Metric<T: ?Sized + 'static> {
    /// Its column.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// How it is computed.
    pub formula: &'static str,
    /// What the papers call it; empty when they have no name for it.
    pub paper: &'static str,
    /// Whether more is better; `None` when neither.
    pub more_is_better: Option<bool>,
    /// The computation; `None` when the run does not have it.
    pub compute: fn(&T) -> Option<f64>,
}

/// A metric of a whole cell.
pub type CellMetric = Metric<Record>;
/// A metric of one connection.
pub type FlowMetric = Metric<FlowRecord>;

/// The value below which a share `q` of the sorted `values` lies, interpolated; `None` of nothing.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    let (low_value, high_value) = (*values.get(low)?, *values.get(high)?);
    Some(low_value + (high_value - low_value) * (at - low as f64))
}

/// Jain's index of shares; `None` of nothing and when all are zero.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let values = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&values, 0.5), Some(2.5));
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(quantile(&values, 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn jain_is_one_for_equals_and_one_over_n_for_one() {
        assert_eq!(jain(&[3.0, 3.0]), Some(1.0));
        assert_eq!(jain(&[3.0, 0.0]), Some(0.5));
        assert_eq!(jain(&[0.0, 0.0]), None);
    }
}
