//! Whether two paths share a bottleneck, by their delays and losses.
//!
//! Owns: [`DelayRecord`], a path's round trips and losses in intervals of 350 ms; [`SharedBottlenecks`],
//! what that says of each pair of paths. Does not own: what follows from it (`rules.rs`).
//! Spec: RFC 8382 s3 for the statistics and s3.3 for telling paths apart by them.
//!
//! Beyond RFC 8382, whose flows may have different senders: here one clock sees all paths, so that a
//! queue in common must show in all of them at the same time. Paths are apart only if the statistics
//! say so *and* their delays do not move together. Round trips are measured, not one-way delays: a
//! queue on the way back counts too, and two paths that share that alone remain coupled.

use std::{collections::VecDeque, time::Duration};

use crate::{time::Instant, units::PathId};

/// T of RFC 8382 s2.2.
const INTERVAL: Duration = Duration::from_millis(350);
/// N: intervals looked back on.
const INTERVALS: u64 = 50;
/// M: intervals of which skewness and variation are taken.
const RECENT: u64 = 30;
/// `c_s`, `c_h`, `p_l`: a skewness below, or a loss above, tells of a bottleneck.
const SKEWNESS: f64 = 0.1;
const SKEWNESS_STAYS: f64 = 0.3;
const LOSS: f64 = 0.05;
/// `p_f`, `p_mad`, `p_s`, `p_d`: differences that tell bottlenecks apart.
const DIFFERENT_FREQUENCY: f64 = 0.1;
const DIFFERENT_VARIATION: f64 = 0.1;
const DIFFERENT_SKEWNESS: f64 = 0.15;
const DIFFERENT_LOSS: f64 = 0.1;
/// `p_v`: how many variations from the mean a crossing of it must go to count.
const CROSSING: f64 = 0.7;

/// Delays that correlate more than this have a queue in common.
const TOGETHER: f64 = 0.4;
/// Intervals by which one path may see the queue later than the other.
const LAG: u64 = 2;
/// Intervals that both paths have delays of, for any conclusion.
const ENOUGH: usize = 40;
/// Reviews in a row that must find a pair apart before it counts as such, and together before it
/// counts as together again.
const STREAK: u32 = 10;

/// One interval of a path.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    /// How many intervals since the clock's origin.
    index: u64,
    samples: u32,
    /// Sum of delays in seconds.
    sum: f64,
    /// Delays below the mean of the record, less those above.
    skew: i64,
    /// Sum of distances from the mean of the interval before.
    deviation: f64,
    delivered: u64,
    lost: u64,
}

impl Interval {
    /// Mean delay in seconds.
    fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum / f64::from(self.samples))
    }
}

/// Round trips and losses of one path over the last 50 intervals.
#[derive(Clone, Debug, Default)]
pub struct DelayRecord {
    /// Those that are over, ascending; those without a packet are missing.
    closed: VecDeque<Interval>,
    /// The one under way.
    newest: Interval,
    /// Mean of those that are over, and of the last of them, in seconds.
    mean: Option<f64>,
    former: Option<f64>,
    /// Whether the last look found a bottleneck.
    congested: bool,
}

/// What a record amounts to. RFC 8382 s3.2.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Summary {
    skewness: f64,
    variation: f64,
    frequency: f64,
    loss: f64,
    congested: bool,
}

/// What two records say of their paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinship {
    /// Too little is known.
    Unknown,
    /// Nothing speaks against a bottleneck in common.
    Shared,
    /// Delays and losses come from different places.
    Apart,
}

impl DelayRecord {
    /// A round trip.
    pub(super) fn on_sample(&mut self, now: Instant, delay: Duration) {
        let delay = delay.as_secs_f64();
        self.current(now);
        let (mean, former) = (self.mean, self.former);
        let interval = self.current(now);
        interval.samples = interval.samples.saturating_add(1);
        interval.sum += delay;
        if let Some(mean) = mean {
            interval.skew += i64::from(delay < mean) - i64::from(delay > mean);
        }
        if let Some(former) = former {
            interval.deviation += (delay - former).abs();
        }
    }

    /// Packets that arrived, and packets that did not.
    pub(super) fn on_packets(&mut self, now: Instant, delivered: u64, lost: u64) {
        let interval = self.current(now);
        interval.delivered = interval.delivered.saturating_add(delivered);
        interval.lost = interval.lost.saturating_add(lost);
    }

    /// The interval that `now` is in.
    fn current(&mut self, now: Instant) -> &mut Interval {
        let index = u64::try_from(u128::from(now.as_nanos()) / INTERVAL.as_nanos()).unwrap_or(0);
        // A clock that runs backwards adds to the interval under way.
        if self.newest.index < index {
            let next = Interval {
                index,
                ..Interval::default()
            };
            let over = std::mem::replace(&mut self.newest, next);
            self.closed.push_back(over);
            while let Some(first) = self.closed.front()
                && (first.index + INTERVALS < index || self.closed.len() as u64 > INTERVALS)
            {
                self.closed.pop_front();
            }
            let means = || self.closed.iter().filter_map(Interval::mean);
            let count = means().count();
            self.mean = (count > 0).then(|| means().sum::<f64>() / count as f64);
            self.former = means().next_back();
            self.congested = self.summary().is_some_and(|summary| summary.congested);
        }
        &mut self.newest
    }

    fn summary(&self) -> Option<Summary> {
        let newest = self.newest.index;
        let recent = self
            .closed
            .iter()
            .filter(|interval| interval.index + RECENT >= newest);
        let samples: f64 = recent.clone().map(|it| f64::from(it.samples)).sum();
        if samples == 0.0 {
            return None;
        }
        let skewness = recent.clone().map(|it| it.skew as f64).sum::<f64>() / samples;
        let variation = recent.map(|it| it.deviation).sum::<f64>() / samples;
        let lost: f64 = self.closed.iter().map(|it| it.lost as f64).sum();
        let delivered: f64 = self.closed.iter().map(|it| it.delivered as f64).sum();
        let loss = lost / (lost + delivered).max(1.0);
        let limit = if self.congested {
            SKEWNESS_STAYS
        } else {
            SKEWNESS
        };
        Some(Summary {
            skewness,
            variation,
            frequency: self.crossings(variation) as f64 / INTERVALS as f64,
            loss,
            congested: skewness < limit || loss > LOSS,
        })
    }

    /// How often the delay went from well below its mean to well above or back. RFC 8382 s3.2.4.
    fn crossings(&self, variation: f64) -> u64 {
        let Some(mean) = self.mean else {
            return 0;
        };
        let margin = CROSSING * variation;
        let (mut above, mut count) = (None, 0);
        for delay in self.closed.iter().filter_map(Interval::mean) {
            let side = if delay > mean + margin {
                true
            } else if delay < mean - margin {
                false
            } else {
                continue;
            };
            if above.is_some_and(|before| before != side) {
                count += 1;
            }
            above = Some(side);
        }
        count
    }

    fn mean_at(&self, index: u64) -> Option<f64> {
        let place = self.closed.binary_search_by_key(&index, |it| it.index);
        place
            .ok()
            .and_then(|at| self.closed.get(at))
            .and_then(Interval::mean)
    }

    /// Correlation of this path's delays with the other's `lag` intervals later, and how many there
    /// were to compare.
    fn correlation(&self, other: &Self, lag: u64) -> (f64, usize) {
        let pairs = self.closed.iter().filter_map(|interval| {
            Some((
                interval.mean()?,
                other.mean_at(interval.index.saturating_add(lag))?,
            ))
        });
        let count = pairs.clone().count();
        let (a, b) = pairs
            .clone()
            .fold((0.0, 0.0), |(a, b), pair| (a + pair.0, b + pair.1));
        let (a, b) = (a / count.max(1) as f64, b / count.max(1) as f64);
        let (mut both, mut first, mut second) = (0.0, 0.0, 0.0);
        for (x, y) in pairs {
            both += (x - a) * (y - b);
            first += (x - a) * (x - a);
            second += (y - b) * (y - b);
        }
        let scale = (first * second).sqrt();
        let correlation = if scale > 0.0 { both / scale } else { 0.0 };
        (correlation, count)
    }

    /// How closely both delays move together, at the delay between them that fits best.
    fn together(&self, other: &Self) -> Option<f64> {
        let (now, count) = self.correlation(other, 0);
        if count < ENOUGH {
            return None;
        }
        let lagged = (1..=LAG).flat_map(|lag| {
            [
                self.correlation(other, lag).0,
                other.correlation(self, lag).0,
            ]
        });
        Some(lagged.fold(now, f64::max))
    }

    /// What both records together say.
    pub fn kinship(&self, other: &Self) -> Kinship {
        let (Some(a), Some(b)) = (self.summary(), other.summary()) else {
            return Kinship::Unknown;
        };
        let Some(together) = self.together(other) else {
            return Kinship::Unknown;
        };
        if !a.congested && !b.congested {
            // No bottleneck, nothing to tell apart.
            return Kinship::Unknown;
        }
        if together < TOGETHER && a.differs(&b) {
            Kinship::Apart
        } else {
            Kinship::Shared
        }
    }
}

impl Summary {
    /// RFC 8382 s3.3.1: whether both paths belong to different groups.
    fn differs(&self, other: &Self) -> bool {
        let apart = |a: f64, b: f64, by: f64| (a - b).abs() > by;
        let relative = |a: f64, b: f64, by: f64| apart(a, b, by * a.max(b));
        self.congested != other.congested
            || apart(self.frequency, other.frequency, DIFFERENT_FREQUENCY)
            || relative(self.variation, other.variation, DIFFERENT_VARIATION)
            || if self.loss.max(other.loss) > LOSS {
                relative(self.loss, other.loss, DIFFERENT_LOSS)
            } else {
                apart(self.skewness, other.skewness, DIFFERENT_SKEWNESS)
            }
    }
}

/// A pair of paths under watch.
#[derive(Clone, Copy, Debug)]
struct Pair {
    paths: (PathId, PathId),
    apart: bool,
    /// Reviews in a row that spoke against what `apart` says.
    against: u32,
}

/// Which of a connection's paths share no bottleneck.
#[derive(Clone, Debug, Default)]
pub struct SharedBottlenecks {
    pairs: Vec<Pair>,
    /// Number of the interval of the last review.
    reviewed: Option<u128>,
}

impl SharedBottlenecks {
    /// Compares all paths, at most once per interval. Paths that are not named are forgotten.
    pub fn review<'a>(
        &mut self,
        now: Instant,
        records: impl Iterator<Item = (PathId, &'a DelayRecord)> + Clone,
    ) {
        let interval = u128::from(now.as_nanos()) / INTERVAL.as_nanos();
        if self.reviewed == Some(interval) {
            return;
        }
        self.reviewed = Some(interval);
        let known = |id| records.clone().any(|(path, _)| path == id);
        self.pairs
            .retain(|pair| known(pair.paths.0) && known(pair.paths.1));
        for (index, (a, first)) in records.clone().enumerate() {
            for (b, second) in records.clone().skip(index + 1) {
                let kinship = first.kinship(second);
                self.learn((a.min(b), a.max(b)), kinship);
            }
        }
    }

    fn learn(&mut self, paths: (PathId, PathId), kinship: Kinship) {
        if let Some(pair) = self.pairs.iter_mut().find(|pair| pair.paths == paths) {
            pair.learn(kinship);
            return;
        }
        let mut pair = Pair {
            paths,
            apart: false,
            against: 0,
        };
        pair.learn(kinship);
        self.pairs.push(pair);
    }

    /// Whether the two may share one: so it is until there is evidence.
    pub fn may_share(&self, a: PathId, b: PathId) -> bool {
        let paths = (a.min(b), a.max(b));
        !self
            .pairs
            .iter()
            .any(|pair| pair.paths == paths && pair.apart)
    }
}

impl Pair {
    fn learn(&mut self, kinship: Kinship) {
        let says_apart = match kinship {
            Kinship::Unknown => return,
            Kinship::Shared => false,
            Kinship::Apart => true,
        };
        if says_apart == self.apart {
            self.against = 0;
            return;
        }
        self.against += 1;
        if self.against >= STREAK {
            self.apart = says_apart;
            self.against = 0;
        }
    }
}
