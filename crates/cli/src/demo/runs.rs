//! One transfer, made several times: where packets are lost by chance, a single run says little.

use tautline_lab::stats;

use super::cell::Measured;

/// The same transfer with one seed after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs<'a> {
    /// That with the first seed.
    pub(super) first: &'a Measured,
    /// All, by seed.
    pub(super) all: &'a [Measured],
}

impl<'a> Runs<'a> {
    /// `all` as one; `None` of none.
    pub(super) fn new(all: &'a [Measured]) -> Option<Self> {
        all.first().map(|first| Self { first, all })
    }

    /// Whether every byte of every run came and was right.
    pub(super) fn succeeded(self) -> bool {
        self.all.iter().all(Measured::succeeded)
    }

    /// Runs that brought other bytes than were sent, and runs that did not end.
    pub(super) fn failed(self) -> (usize, usize) {
        let failed = self.all.iter().filter(|run| !run.succeeded());
        let wrong = failed.clone().filter(|run| run.digest.is_some()).count();
        (wrong, failed.count() - wrong)
    }

    /// Seconds to the last byte. As with all medians here, a failed run counts as worse than all
    /// others, so that a failure cannot make a figure look better.
    pub(super) fn seconds(self) -> Option<f64> {
        self.median(Measured::seconds, f64::INFINITY)
    }

    /// Application bits delivered per second.
    pub(super) fn goodput(self) -> Option<f64> {
        self.median(Measured::goodput, f64::NEG_INFINITY)
    }

    /// Goodput / capacity.
    pub(super) fn utilisation(self) -> Option<f64> {
        self.median(Measured::utilisation, f64::NEG_INFINITY)
    }

    fn median(self, figure: fn(&Measured) -> Option<f64>, failed: f64) -> Option<f64> {
        let figure = |run| figure(run).filter(|_| run.succeeded()).unwrap_or(failed);
        let mut values: Vec<f64> = self.all.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.get((values.len().checked_sub(1)?) / 2..=values.len() / 2)?;
        let median = middle.iter().sum::<f64>() / middle.len() as f64;
        median.is_finite().then_some(median)
    }

    /// The median of what was counted, failed runs included.
    pub(super) fn count(self, figure: impl Fn(&Measured) -> Option<u64>) -> Option<f64> {
        let counts = self.all.iter().filter_map(figure);
        stats::median(&counts.map(|count| count as f64).collect::<Vec<_>>())
    }
}

/// One transfer, and the same with erasure correction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside<'a> {
    pub(super) plain: Runs<'a>,
    pub(super) coded: Option<Runs<'a>>,
}

impl<'a> Beside<'a> {
    /// The runs of each seed.
    pub(super) fn by_seed(self) -> impl Iterator<Item = (&'a Measured, Option<&'a Measured>)> {
        let coded = self.coded.map_or(&[][..], |coded| coded.all);
        let plain = self.plain.all.iter().enumerate();
        plain.map(|(index, plain)| (plain, coded.get(index)))
    }

    /// Time with erasure correction / time without, seed by seed; `None` without, or if a run failed.
    pub(super) fn ratios(self) -> Option<Vec<f64>> {
        let ratio = |(plain, coded): (&Measured, Option<&Measured>)| {
            let coded = coded.filter(|coded| coded.succeeded() && plain.succeeded())?;
            Some(coded.seconds()? / plain.seconds()?)
        };
        self.by_seed().map(ratio).collect()
    }

    /// The median of [`Self::ratios`].
    pub(super) fn ratio(self) -> Option<f64> {
        stats::median(&self.ratios()?)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::demo::{cell::Cell, payload::Payload};

    /// Runs of these seconds; `None` failed.
    pub(in crate::demo) fn runs(seconds: &[Option<f64>]) -> Vec<Measured> {
        let payload = Payload::load(None, Some(1000)).unwrap();
        let cell = Cell::new("wifi", "cubic", None, 1, &payload, Arc::default()).unwrap();
        let run = |seconds: &Option<f64>| {
            let mut run = cell.run();
            assert!(run.succeeded(), "{run:?}");
            run.completion = seconds.map(Duration::from_secs_f64);
            if seconds.is_none() {
                (run.verified, run.digest) = (false, None);
            }
            run
        };
        seconds.iter().map(run).collect()
    }

    #[test]
    fn a_failed_run_is_the_worst() {
        let figures = |seconds: &[Option<f64>]| {
            let all = runs(seconds);
            let runs = Runs::new(&all).unwrap();
            (runs.seconds(), runs.goodput(), runs.failed())
        };
        let (time, goodput, failed) = figures(&[Some(4.0), Some(1.0), Some(2.0)]);
        assert_eq!((time, goodput, failed), (Some(2.0), Some(4000.0), (0, 0)));
        let (time, goodput, failed) = figures(&[Some(4.0), None, Some(2.0)]);
        assert_eq!((time, goodput, failed), (Some(4.0), Some(2000.0), (0, 1)));
        assert_eq!(figures(&[Some(4.0), None]), (None, None, (0, 1)));
        assert_eq!(figures(&[Some(4.0), Some(2.0)]).0, Some(3.0));
        assert_eq!(figures(&[None]), (None, None, (0, 1)));
    }

    #[test]
    fn other_bytes_are_told_from_none() {
        let mut all = runs(&[Some(1.0), Some(1.0), None]);
        all[0].verified = false;
        let runs = Runs::new(&all).unwrap();
        assert_eq!((runs.failed(), runs.succeeded()), ((1, 1), false));
        assert_eq!(runs.seconds(), None);
    }

    #[test]
    fn times_are_compared_seed_by_seed() {
        let ratio = |plain: &[Option<f64>], coded: &[Option<f64>]| {
            let (plain, coded) = (runs(plain), runs(coded));
            let pair = Beside {
                plain: Runs::new(&plain).unwrap(),
                coded: Runs::new(&coded),
            };
            pair.ratio()
        };
        let plain = [Some(1.0), Some(2.0), Some(4.0)];
        // The medians are the same; of the ratios 4, 1 and 0.25 it is 1.
        assert_eq!(ratio(&plain, &[Some(4.0), Some(2.0), Some(1.0)]), Some(1.0));
        assert_eq!(ratio(&plain, &[Some(4.0), Some(1.0), Some(6.0)]), Some(1.5));
        assert_eq!(ratio(&plain, &[Some(4.0), Some(1.0), None]), None);
        assert_eq!(ratio(&plain, &[]), None);
    }
}
