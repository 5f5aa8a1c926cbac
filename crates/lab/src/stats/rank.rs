//! Rank correlation.

use super::mean;

/// The rank of each value from 1; equal values share the mean of their ranks. Values that are not
/// finite are ranked as `total_cmp` orders them; filter them first.
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let mut to = from + 1;
        while to < order.len() && values[order[to]] == values[order[from]] {
            to += 1;
        }
        // Ranks from + 1 ..= to.
        let shared = (from + 1 + to) as f64 / 2.0;
        for index in &order[from..to] {
            ranks[*index] = shared;
        }
        from = to;
    }
    ranks
}

/// Spearman's rho: Pearson's correlation of the ranks, in -1..=1. `None` of fewer than two pairs
/// and when all of one side are equal. Pairs with a value that is not finite are left out.
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let (x, y): (Vec<f64>, Vec<f64>) = pairs
        .iter()
        .copied()
        .filter(|(x, y)| x.is_finite() && y.is_finite())
        .unzip();
    let (x, y) = (ranks(&x), ranks(&y));
    let (mean_x, mean_y) = (mean(&x)?, mean(&y)?);
    let (mut both, mut of_x, mut of_y) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(&y) {
        both += (x - mean_x) * (y - mean_y);
        of_x += (x - mean_x) * (x - mean_x);
        of_y += (y - mean_y) * (y - mean_y);
    }
    let whole = of_x.sqrt() * of_y.sqrt();
    (whole > 0.0).then(|| (both / whole).clamp(-1.0, 1.0))
}
