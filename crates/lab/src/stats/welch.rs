//! Welch's t-test, which the satellite study (002) compares mean values with.

use super::{mean, variance};

/// A comparison of two means whose variances may differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Welch {
    /// `(m1 - m2) / sqrt(v1 / n1 + v2 / n2)` with means m, unbiased variances v, counts n.
    pub t: f64,
    /// Degrees of freedom (Welch, Satterthwaite):
    /// `(v1/n1 + v2/n2)^2 / ((v1/n1)^2 / (n1 - 1) + (v2/n2)^2 / (n2 - 1))`.
    pub freedom: f64,
    /// Two-sided p-value: the probability of a t at least this far from 0 when the means are
    /// equal, `I_x(freedom / 2, 1 / 2)` at `x = freedom / (freedom + t^2)`.
    pub p: f64,
}

/// Compares the means of two samples; `None` of fewer than two values on a side, and when neither
/// side varies.
pub fn welch(a: &[f64], b: &[f64]) -> Option<Welch> {
    let count = |values: &[f64]| values.iter().filter(|v| v.is_finite()).count() as f64;
    let (n1, n2) = (count(a), count(b));
    let (s1, s2) = (variance(a)? / n1, variance(b)? / n2);
    let (mean_a, mean_b) = (mean(a)?, mean(b)?);
    let spread = s1 + s2;
    if spread <= 0.0 {
        return None;
    }
    let t = (mean_a - mean_b) / spread.sqrt();
    // Shares instead of squares of s, which could overflow.
    let (w1, w2) = (s1 / spread, s2 / spread);
    let freedom = 1.0 / (w1 * w1 / (n1 - 1.0) + w2 * w2 / (n2 - 1.0));
    let p = incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)?;
    (t.is_finite() && freedom.is_finite()).then_some(Welch { t, freedom, p })
}

/// The regularised incomplete beta function `I_x(a, b)`; `None` unless `a` and `b` are positive
/// and `x` lies in 0..=1.
pub fn incomplete_beta(x: f64, a: f64, b: f64) -> Option<f64> {
    let valid = (0.0..=1.0).contains(&x) && a > 0.0 && b > 0.0 && a.is_finite() && b.is_finite();
    if !valid {
        return None;
    }
    if x == 0.0 || x == 1.0 {
        return Some(x);
    }
    // The fraction converges fast on this side of the mean only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return Some(1.0 - incomplete_beta(1.0 - x, b, a)?);
    }
    let front = a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    // 1 / (1 + d1 / (1 + d2 / ...)), from the innermost term outwards (DLMF 8.17.22).
    const DEPTH: u32 = 4000;
    let mut fraction = 1.0;
    for k in (1..=DEPTH).rev() {
        let m = f64::from(k / 2);
        let d = if k % 2 == 1 {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        } else {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        };
        fraction = 1.0 + d / fraction;
        if fraction == 0.0 {
            fraction = f64::MIN_POSITIVE;
        }
    }
    let value = front.exp() / (a * fraction);
    value.is_finite().then(|| value.clamp(0.0, 1.0))
}

/// ln of the gamma function of a positive number: up by the recurrence to where Stirling's series
/// is exact to the last digits.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < 16.0 {
        below += x.ln();
        x += 1.0;
    }
    let square = x * x;
    let series = (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square)
        / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - below
}
