//! Results by point, solution and repetition.

use std::collections::BTreeSet;

use super::chart::{LegendEntry, Wish, significant};
use crate::{
    campaign::Results,
    metric::{METRICS, quantile},
    plan::{Cell, Plan},
    stats::{Bootstrap, Interval, Pair, median},
    table::Value,
};

/// The tables of a campaign, found by cell.
pub(super) struct Data<'a> {
    pub(super) plan: &'a Plan,
    pub(super) results: &'a Results,
    /// Row of each cell.
    rows: Vec<Option<&'a [Value]>>,
    /// Levels of each factor.
    levels: Vec<Vec<Distinct>>,
    /// How intervals are computed.
    pub(super) bootstrap: Bootstrap,
}

/// A metric that is shown.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) name: String,
    pub(super) unit: String,
    formula: String,
    paper: String,
    pub(super) more_is_better: Option<bool>,
    /// Whether a cell without a value is one that did not finish, and so above every value.
    unfinished_is_most: bool,
    column: usize,
}

/// A level that occurs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Distinct {
    pub(super) label: String,
    pub(super) number: Option<f64>,
}

/// Values of one kind in one place.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    pub(super) values: Vec<f64>,
    /// Cells that ran.
    pub(super) of: usize,
    pub(super) median: Option<f64>,
    pub(super) interval: Option<Interval>,
}

/// Shown when a plan does not say.
const DEFAULT_METRICS: [&str; 3] = ["completion_s", "goodput_mbps", "utilisation"];

/// Metrics that lack a value only where something did not finish.
const UNFINISHED_IS_MOST: [&str; 2] = ["completion_s", "request_completion_s"];

/// Stands for a value above all others; scales leave it out.
const ABOVE_ALL: f64 = f64::MAX;

impl<'a> Data<'a> {
    pub(super) fn new(plan: &'a Plan, results: &'a Results) -> Self {
        let mut rows = vec![None; plan.len()];
        if let Some(position) = results.cells.position("cell") {
            for row in &results.cells.rows {
                let number = row.get(position).and_then(Value::as_number);
                if let Some(place) = number.and_then(|number| rows.get_mut(number as usize)) {
                    *place = Some(row.as_slice());
                }
            }
        }
        Self {
            plan,
            results,
            rows,
            levels: (0..plan.factors.len())
                .map(|factor| distinct(plan, factor))
                .collect(),
            bootstrap: Bootstrap::default(),
        }
    }

    /// The metrics to show, most important first.
    pub(super) fn metrics(&self) -> Vec<Shown> {
        let asked = &self.plan.report.metrics;
        if !asked.is_empty() {
            let mut seen = BTreeSet::new();
            let new = asked.iter().filter(|name| seen.insert(name.as_str()));
            return new.filter_map(|name| self.metric(name)).collect();
        }
        let default = DEFAULT_METRICS.iter().filter_map(|name| self.metric(name));
        let all: Vec<Shown> = default.collect();
        let mut present = all.clone();
        present.retain(|metric| !self.values_of_all(metric).is_empty());
        if present.is_empty() { all } else { present }
    }

    /// The metric of this name, if the table has it.
    pub(super) fn metric(&self, name: &str) -> Option<Shown> {
        let column = self.results.cells.position(name)?;
        let about = self.results.cells.columns.get(column)?;
        let known = METRICS.iter().find(|metric| metric.name == name);
        Some(Shown {
            name: name.to_owned(),
            unit: match about.unit.as_str() {
                "1" => String::new(),
                unit => unit.to_owned(),
            },
            formula: about.meaning.clone(),
            paper: about.paper.clone(),
            more_is_better: known.and_then(|metric| metric.more_is_better),
            unfinished_is_most: UNFINISHED_IS_MOST.contains(&name),
            column,
        })
    }

    /// The row of a cell, if it ran.
    pub(super) fn row(&self, index: usize) -> Option<&'a [Value]> {
        self.rows.get(index).copied().flatten()
    }

    /// A column of a cell.
    pub(super) fn text(&self, index: usize, column: &str) -> Option<&'a str> {
        let position = self.results.cells.position(column)?;
        self.row(index)?.get(position)?.as_text()
    }

    pub(super) fn value(&self, metric: &Shown, index: usize) -> Option<f64> {
        let value = self.row(index)?.get(metric.column)?.as_number()?;
        value.is_finite().then_some(value)
    }

    /// Numbers of the cells of a point and solution.
    pub(super) fn cells(&self, point: usize, solution: usize) -> std::ops::Range<usize> {
        let repetitions = self.plan.repetitions as usize;
        let first = (point * self.plan.solutions.len() + solution) * repetitions;
        first..first + repetitions
    }

    pub(super) fn cell(&self, index: usize) -> Option<Cell> {
        self.plan.cell(index)
    }

    /// Every value there is.
    pub(super) fn values_of_all(&self, metric: &Shown) -> Vec<f64> {
        (0..self.rows.len())
            .filter_map(|index| self.value(metric, index))
            .collect()
    }

    /// Values of one solution over some points; how many cells ran there.
    pub(super) fn values(
        &self,
        metric: &Shown,
        points: &[usize],
        solution: usize,
    ) -> (Vec<f64>, usize) {
        let (mut values, mut ran) = (Vec::new(), 0);
        for point in points {
            for index in self.cells(*point, solution) {
                ran += usize::from(self.row(index).is_some());
                values.extend(self.value(metric, index));
            }
        }
        (values, ran)
    }

    pub(super) fn summary(&self, metric: &Shown, points: &[usize], solution: usize) -> Summary {
        let (values, of) = self.values(metric, points, solution);
        let counted = counted(metric, &values, of);
        let median = median(&counted).filter(|median| bounded(*median));
        Summary {
            median,
            interval: self.bootstrap.median(&counted).filter(|_| median.is_some()),
            values,
            of,
        }
    }

    /// The median of one solution over some points, as in [`Self::summary`].
    pub(super) fn median(&self, metric: &Shown, points: &[usize], solution: usize) -> Option<f64> {
        let (values, of) = self.values(metric, points, solution);
        median(&counted(metric, &values, of)).filter(|median| bounded(*median))
    }

    /// A quantile, cells without a value counting as they do in medians.
    pub(super) fn quantile(
        &self,
        metric: &Shown,
        points: &[usize],
        solution: usize,
        share: f64,
    ) -> Option<f64> {
        let (values, of) = self.values(metric, points, solution);
        let mut counted = counted(metric, &values, of);
        counted.sort_by(f64::total_cmp);
        quantile(&counted, share).filter(|value| bounded(*value))
    }

    /// The same points and repetitions under a solution and the baseline; only where both ran.
    pub(super) fn pairs(
        &self,
        metric: &Shown,
        points: &[usize],
        solution: usize,
        base: usize,
    ) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for point in points {
            let cells = self.cells(*point, solution);
            for (index, other) in cells.zip(self.cells(*point, base)) {
                if self.row(index).is_some() && self.row(other).is_some() {
                    pairs.push(Pair {
                        value: self.value(metric, index),
                        base: self.value(metric, other),
                    });
                }
            }
        }
        pairs
    }

    /// The same points and repetitions under a solution and the best of several, of those that have
    /// a value; only where all ran.
    pub(super) fn pairs_with_best(
        &self,
        metric: &Shown,
        points: &[usize],
        solution: usize,
        best: &[usize],
        more: bool,
    ) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for point in points {
            for (place, index) in self.cells(*point, solution).enumerate() {
                let cell = |solution: &usize| self.cells(*point, *solution).start + place;
                let ran = |index: usize| self.row(index).is_some();
                if !ran(index) || !best.iter().map(cell).all(ran) {
                    continue;
                }
                let values = best
                    .iter()
                    .filter_map(|other| self.value(metric, cell(other)));
                let base = if more {
                    values.reduce(f64::max)
                } else {
                    values.reduce(f64::min)
                };
                pairs.push(Pair {
                    value: self.value(metric, index),
                    base,
                });
            }
        }
        pairs
    }

    /// The solutions of which the best is compared with, if the plan names any.
    pub(super) fn best_of(&self) -> Vec<usize> {
        let place = |name: &String| {
            let mut names = self.plan.solutions.iter().map(|(name, _)| name);
            names.position(|known| known == name)
        };
        self.plan.report.best_of.iter().filter_map(place).collect()
    }

    /// The factor at whose levels the best of several is compared with as well.
    pub(super) fn best_by(&self) -> Option<usize> {
        let name = self.plan.report.best_by.as_ref()?;
        self.plan.factors.iter().position(|known| known == name)
    }

    /// The solution that others are compared with: the plan's, else the first of several; none where
    /// the plan names only those of which the best is.
    pub(super) fn baseline(&self) -> Option<usize> {
        let alone = self.plan.report.baseline.is_none() && !self.plan.report.best_of.is_empty();
        if self.plan.solutions.len() < 2 || alone {
            return None;
        }
        let named = self.plan.report.baseline.as_ref().and_then(|baseline| {
            let mut names = self.plan.solutions.iter().map(|(name, _)| name);
            names.position(|name| name == baseline)
        });
        Some(named.unwrap_or(0))
    }

    pub(super) fn solution(&self, index: usize) -> &str {
        self.plan.solutions.get(index).map_or("", |(name, _)| name)
    }

    pub(super) fn solutions(&self) -> std::ops::Range<usize> {
        0..self.plan.solutions.len()
    }

    pub(super) fn all_points(&self) -> Vec<usize> {
        (0..self.plan.points.len()).collect()
    }

    pub(super) fn legend(&self, solutions: impl IntoIterator<Item = usize>) -> Vec<LegendEntry> {
        let entry = |slot| LegendEntry {
            name: self.solution(slot).to_owned(),
            slot,
        };
        solutions.into_iter().map(entry).collect()
    }

    /// The level of a point.
    pub(super) fn label(&self, point: usize, factor: usize) -> &str {
        let level = self
            .plan
            .points
            .get(point)
            .and_then(|p| p.levels.get(factor));
        level.map_or("", |level| &level.label)
    }

    /// The name of a point where the factors are named beside it.
    pub(super) fn short_name(&self, point: usize) -> String {
        let mut varying = (0..self.plan.factors.len()).filter(|f| self.levels(*f).len() > 1);
        match (varying.next(), varying.next()) {
            (Some(only), None) => self.label(point, only).to_owned(),
            _ => self.point_name(point, None),
        }
    }

    /// What tells a point from others: the levels of factors that have several, but not `without`.
    pub(super) fn point_name(&self, point: usize, without: Option<usize>) -> String {
        let varying = |factor: &usize| Some(*factor) != without && self.levels(*factor).len() > 1;
        let parts: Vec<String> = (0..self.plan.factors.len())
            .filter(varying)
            .map(|factor| {
                let name = self.plan.factors.get(factor).map_or("", String::as_str);
                format!("{name} {}", self.label(point, factor))
            })
            .collect();
        parts.join(", ")
    }

    /// The levels of a factor that occur, by number when all have one, else as they come.
    pub(super) fn levels(&self, factor: usize) -> &[Distinct] {
        self.levels.get(factor).map_or(&[], Vec::as_slice)
    }

    /// Whether the design is every combination of its levels.
    pub(super) fn is_grid(&self) -> bool {
        let sizes = (0..self.plan.factors.len()).map(|factor| self.levels(factor).len());
        sizes.product::<usize>() == self.plan.points.len()
    }

    /// Points at each level of a factor; of many numbers, at each third of them.
    pub(super) fn groups(&self, factor: usize) -> Vec<(String, Vec<usize>)> {
        const MOST: usize = 12;
        let levels = self.levels(factor);
        let numeric = levels.iter().all(|level| level.number.is_some());
        if levels.len() <= MOST || !numeric {
            return levels
                .iter()
                .map(|level| {
                    let points = self.all_points();
                    let at = points
                        .into_iter()
                        .filter(|point| self.label(*point, factor) == level.label)
                        .collect();
                    (level.label.clone(), at)
                })
                .collect();
        }
        let third = levels.len().div_ceil(3);
        levels
            .chunks(third)
            .map(|part| {
                let ends = (part.first(), part.last());
                let name = match ends {
                    (Some(first), Some(last)) => format!("{} to {}", first.label, last.label),
                    _ => String::new(),
                };
                let labels: BTreeSet<&str> =
                    part.iter().map(|level| level.label.as_str()).collect();
                let at = self
                    .all_points()
                    .into_iter()
                    .filter(|point| labels.contains(self.label(*point, factor)))
                    .collect();
                (name, at)
            })
            .collect()
    }
}

fn distinct(plan: &Plan, factor: usize) -> Vec<Distinct> {
    let mut seen = BTreeSet::new();
    let mut levels = Vec::new();
    for level in plan.points.iter().filter_map(|p| p.levels.get(factor)) {
        if seen.insert(level.label.as_str()) {
            levels.push(Distinct {
                label: level.label.clone(),
                number: level.number.filter(|n| n.is_finite()),
            });
        }
    }
    if levels.iter().all(|level| level.number.is_some()) {
        levels.sort_by(|a, b| f64::total_cmp(&a.number.unwrap_or(0.0), &b.number.unwrap_or(0.0)));
    }
    levels
}

/// What a median is taken of: cells that did not finish stand above all others.
fn counted(metric: &Shown, values: &[f64], of: usize) -> Vec<f64> {
    let mut counted = values.to_vec();
    if metric.unfinished_is_most {
        counted.resize(of.max(values.len()), ABOVE_ALL);
    }
    counted
}

impl Shown {
    /// How cells without a value count in its medians.
    pub(super) fn missing(&self) -> &'static str {
        if self.unfinished_is_most {
            "Cells that did not finish count as slower than all others: where half did not, there \
             is no median. How many have a value stands behind."
        } else {
            "Where not every cell that ran has a value, how many have one stands behind, and the \
             median is over those alone."
        }
    }

    /// With its unit.
    pub(super) fn label(&self) -> String {
        match self.unit.as_str() {
            "" => self.name.clone(),
            unit => format!("{} ({unit})", self.name),
        }
    }

    pub(super) fn heading(&self) -> String {
        self.label()
    }

    /// What it is, in a sentence or three.
    pub(super) fn definition(&self) -> String {
        let mut text = format!("{}: {}.", self.name, self.formula);
        if !self.paper.is_empty() {
            text.push_str(&format!(" In the papers: {}.", self.paper));
        }
        match self.more_is_better {
            Some(true) => text.push_str(" More is better."),
            Some(false) => text.push_str(" Less is better."),
            None => {}
        }
        text
    }
}

impl Summary {
    /// `median [low, high]`, and how many have a value when not all do.
    pub(super) fn text(&self) -> String {
        if self.of == 0 {
            return "not run".to_owned();
        }
        let mut text = with_interval(self.median, self.interval);
        if !self.complete() {
            text.push_str(&format!(" ({} of {})", self.values.len(), self.of));
        }
        text
    }

    /// Whether every cell that ran has a value.
    pub(super) fn complete(&self) -> bool {
        self.values.len() == self.of && self.of > 0
    }
}

/// `12.3 [12.1, 12.6]`.
pub(super) fn with_interval(value: Option<f64>, interval: Option<Interval>) -> String {
    match (value, interval) {
        (None, _) => "-".to_owned(),
        (Some(value), None) => number(value),
        (Some(value), Some(bounds)) => {
            // A bound among those that did not finish is none.
            let [low, high] = [bounds.low, bounds.high].map(|bound| {
                if bounded(bound) {
                    number(bound)
                } else {
                    "none".to_owned()
                }
            });
            format!("{} [{low}, {high}]", number(value))
        }
    }
}

/// Whether a value is not (mixed with) the one that stands for cells that did not finish.
pub(super) fn bounded(value: f64) -> bool {
    value.abs() < 1e290
}

/// A number as tables show it: four significant digits, whole numbers in full.
pub(super) fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e12 {
        return format!("{value:.0}");
    }
    significant(value, 4)
}

/// `12.3 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// An axis of a metric: logarithmic over wide ranges, from zero unless that would hide what there
/// is to see.
pub(super) fn axis_wish(values: &[f64]) -> Wish {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Wish {
        from_zero: low >= 0.0 && low < 0.5 * high,
        may_be_log: true,
        log: false,
    }
}
