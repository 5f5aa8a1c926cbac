use proptest::prelude::*;

use super::*;

fn close(a: f64, b: f64, within: f64) {
    assert!((a - b).abs() <= within, "{a} against {b}");
}

#[test]
fn location_by_hand() {
    let values = [4.0, 1.0, f64::NAN, 3.0, 2.0, f64::INFINITY];
    assert_eq!(mean(&values), Some(2.5));
    assert_eq!(median(&values), Some(2.5));
    // Deviations 1.5, 0.5, 0.5, 1.5: squares sum to 5, over 3.
    close(variance(&values).unwrap(), 5.0 / 3.0, 1e-12);
    assert_eq!(quantiles(&values, [0.0, 0.25, 1.0]), Some([1.0, 1.75, 4.0]));
    assert_eq!(ratio_of_medians(&[2.0, 4.0], &[1.5]), Some(2.0));
    assert_eq!(ratio_of_medians(&[2.0], &[0.0]), None);
    assert_eq!(variance(&[1.0]), None);
}

#[test]
fn nothing_has_no_statistic() {
    let none: [f64; 0] = [];
    assert_eq!(mean(&none), None);
    assert_eq!(median(&[f64::NAN]), None);
    assert_eq!(quantiles(&none, [0.5]), None);
    assert_eq!(Spread::of(&none), None);
    assert_eq!(Ecdf::new(&none, 7), None);
    assert_eq!(Bootstrap::default().median(&[1.0]), None);
    assert_eq!(spearman(&[]), None);
    assert_eq!(welch(&none, &[1.0, 2.0]), None);
    assert_eq!(geometric_mean(&none), None);
    let comparison = paired(&[], &Bootstrap::default());
    assert_eq!((comparison.median, comparison.beyond(0.02)), (None, None));
}

#[test]
fn a_distribution_ends_below_one_by_what_failed() {
    let ecdf = Ecdf::new(&[2.0, 1.0, 1.0], 4).unwrap();
    assert_eq!(ecdf.at(0.9), 0.0);
    assert_eq!(ecdf.at(1.0), 0.5);
    assert_eq!(ecdf.at(9.0), 0.75);
    assert_eq!(ecdf.corners(100), [(1.0, 0.25), (1.0, 0.5), (2.0, 0.75)]);
    let many: Vec<f64> = (0..100_000).map(f64::from).collect();
    let corners = Ecdf::new(&many, 0).unwrap().corners(400);
    assert!(corners.len() <= 402);
    assert_eq!(corners.last(), Some(&(99_999.0, 1.0)));
}

#[test]
fn a_box_is_made_of_percentiles() {
    let values: Vec<f64> = (0..=100).map(f64::from).collect();
    let spread = Spread::of(&values).unwrap();
    assert_eq!((spread.low, spread.lower, spread.median), (5.0, 25.0, 50.0));
    assert_eq!((spread.upper, spread.high), (75.0, 95.0));
    assert_eq!(spread.outside.len(), 10);
}

#[test]
fn a_bootstrap_repeats_and_covers() {
    let bootstrap = Bootstrap::default();
    let values: Vec<f64> = (1..=31).map(f64::from).collect();
    let bounds = bootstrap.median(&values).unwrap();
    assert_eq!(bootstrap.median(&values), Some(bounds));
    // Order statistics 10 and 22 of 31 cover the median with 97 %, 11 and 21 with 93 %.
    assert!((9.0..=12.0).contains(&bounds.low), "{bounds:?}");
    assert!((20.0..=23.0).contains(&bounds.high), "{bounds:?}");
    assert_eq!(
        bootstrap.median(&[3.0, 3.0, 3.0]),
        Some(Interval {
            low: 3.0,
            high: 3.0
        })
    );
    // The quicker way is the same thing, drawn otherwise.
    let slow = bootstrap.interval(&values, |drawn| median(drawn)).unwrap();
    close(bounds.low, slow.low, 1.5);
    close(bounds.high, slow.high, 1.5);
    // The mean's interval is near mean +- 1.96 s / sqrt(n): 16 +- 3.2.
    let bounds = bootstrap.interval(&values, |drawn| mean(drawn)).unwrap();
    close(bounds.low, 12.8, 0.5);
    close(bounds.high, 19.2, 0.5);
}

#[test]
fn pairs_by_hand() {
    let pair = |value, base| Pair { value, base };
    let pairs = [
        pair(Some(1.0), Some(2.0)),
        pair(Some(2.0), Some(1.0)),
        pair(Some(8.0), Some(1.0)),
        pair(Some(0.0), Some(0.0)),
        pair(Some(1.0), Some(0.0)),
        pair(Some(-1.0), Some(1.0)),
        pair(None, Some(1.0)),
        pair(Some(1.0), None),
        pair(None, Some(f64::NAN)),
    ];
    let found = paired(&pairs, &Bootstrap::default());
    assert_eq!(found.ratios, [0.5, 1.0, 2.0, 8.0]);
    assert_eq!(found.median, Some(1.5));
    // (0.5 x 1 x 2 x 8)^(1/4) = 8^(1/4)
    close(found.geometric_mean.unwrap(), 8f64.powf(0.25), 1e-12);
    assert_eq!((found.undefined, found.only_base), (2, 1));
    assert_eq!((found.only_value, found.neither), (1, 1));
    assert_eq!(found.beyond(0.02), Some((1.0 / 9.0, 2.0 / 9.0)));
    close(geometric_mean(&[1.0, 4.0]).unwrap(), 2.0, 1e-12);
}

/// Two samples with published results: t = -2.46, 25 degrees of freedom, p = 0.021.
#[test]
fn welch_as_published() {
    let a = [
        27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4,
    ];
    let b = [
        27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4,
    ];
    let found = welch(&a, &b).unwrap();
    close(found.t, -2.46, 0.005);
    close(found.freedom, 25.0, 0.05);
    close(found.p, 0.021, 0.0005);
    let turned = welch(&b, &a).unwrap();
    close(turned.t, -found.t, 1e-12);
    assert_eq!(welch(&[1.0, 1.0], &[2.0, 2.0]), None);
}

#[test]
fn p_values_of_exact_cases() {
    let p = |t: f64, freedom: f64| {
        incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5).unwrap()
    };
    for t in [0.01, 0.5, 1.0, 3.0, 50.0, 1e6] {
        let cauchy = 1.0 - 2.0 * f64::atan(t) / std::f64::consts::PI;
        close(p(t, 1.0), cauchy, 1e-10);
        close(p(t, 2.0), 1.0 - t / (t * t + 2.0).sqrt(), 1e-10);
    }
    // Tables of Student's t, two-sided 5 %.
    close(p(2.228_139, 10.0), 0.05, 1e-6);
    close(p(2.042_272, 30.0), 0.05, 1e-6);
    // Many degrees of freedom are the normal distribution.
    close(p(1.959_964, 1e7), 0.05, 1e-5);
    // I_x(a, 1) = x^a and the symmetry.
    close(
        incomplete_beta(0.3, 2.5, 1.0).unwrap(),
        0.3f64.powf(2.5),
        1e-12,
    );
    close(incomplete_beta(0.5, 7.0, 7.0).unwrap(), 0.5, 1e-12);
    assert_eq!(incomplete_beta(1.5, 1.0, 1.0), None);
    assert_eq!(incomplete_beta(f64::NAN, 1.0, 1.0), None);
}

/// The textbook pair of intelligence and hours of television: -29/165.
#[test]
fn spearman_as_published() {
    let pairs = [
        (106.0, 7.0),
        (100.0, 27.0),
        (86.0, 2.0),
        (101.0, 50.0),
        (99.0, 28.0),
        (103.0, 29.0),
        (97.0, 20.0),
        (113.0, 12.0),
        (112.0, 6.0),
        (110.0, 17.0),
    ];
    close(spearman(&pairs).unwrap(), -29.0 / 165.0, 1e-12);
    assert_eq!(ranks(&[5.0, 1.0, 5.0, 9.0]), [2.5, 1.0, 2.5, 4.0]);
    assert_eq!(spearman(&[(1.0, 2.0), (3.0, 2.0)]), None);
}

fn numbers() -> impl Strategy<Value = Vec<f64>> {
    let odd = prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(0.0),
        Just(-0.0),
        Just(f64::MAX),
        Just(f64::MIN),
        Just(f64::MIN_POSITIVE),
    ];
    prop::collection::vec(prop_oneof![4 => -1e6..1e6f64, 1 => odd], 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_comes_in_nothing_odd_comes_out(a in numbers(), b in numbers()) {
        let quick = Bootstrap { resamples: 50, ..Bootstrap::default() };
        let finite = |value: Option<f64>| value.is_none_or(f64::is_finite);
        prop_assert!(finite(mean(&a)) && finite(median(&a)) && finite(variance(&a)));
        prop_assert!(finite(ratio_of_medians(&a, &b)) && finite(geometric_mean(&a)));
        if let Some(bounds) = quick.median(&a) {
            prop_assert!(bounds.low <= bounds.high && bounds.high.is_finite());
        }
        if let Some(test) = welch(&a, &b) {
            prop_assert!((0.0..=1.0).contains(&test.p), "{test:?}");
        }
        let pairs: Vec<(f64, f64)> = a.iter().copied().zip(b.iter().copied()).collect();
        prop_assert!(spearman(&pairs).is_none_or(|rho| (-1.0..=1.0).contains(&rho)));
        let pairs: Vec<Pair> = pairs
            .iter()
            .map(|(value, base)| Pair { value: Some(*value), base: Some(*base) })
            .collect();
        let found = paired(&pairs, &quick);
        prop_assert_eq!(found.pairs(), pairs.len());
        prop_assert!(finite(found.median) && finite(found.geometric_mean));
        if let Some(ecdf) = Ecdf::new(&a, a.len()) {
            let corners = ecdf.corners(10);
            prop_assert!(corners.is_sorted_by(|p, q| p.0 <= q.0 && p.1 <= q.1));
            prop_assert!(corners.iter().all(|p| p.1 <= 1.0));
        }
    }
}
