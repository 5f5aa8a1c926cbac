//! Solutions against the best of several in the same cell and seed: of several paths, the best one.

use super::{
    chart::{Block, Cell, Column, Row, Table},
    compare::{Against, curves},
    data::{Data, Shown, number, percent, with_interval},
};
use crate::stats::{Comparison, paired};

/// A median of paired ratios beyond this is told as worse than the best.
const MARGIN: f64 = 0.01;
/// One pair beyond this is told.
const WORST: f64 = 0.05;
/// Points that get a row of their own for each solution.
const MOST_ROWS: usize = 400;

pub(super) fn blocks(data: &Data<'_>, metric: &Shown) -> Vec<Block> {
    let best = data.best_of();
    let Some(more) = metric.more_is_better.filter(|_| !best.is_empty()) else {
        return Vec::new();
    };
    let others: Vec<usize> = data.solutions().filter(|s| !best.contains(s)).collect();
    if others.is_empty() {
        return Vec::new();
    }
    let names: Vec<&str> = best.iter().map(|s| data.solution(*s)).collect();
    let group = Group {
        data,
        metric,
        best,
        more,
    };
    let all = data.all_points();
    let found: Vec<(usize, Comparison)> = others
        .iter()
        .map(|solution| (*solution, group.compared(&all, *solution)))
        .collect();
    let mut blocks = vec![
        Block::Heading(format!(
            "{} against the best of {}",
            metric.name,
            names.join(", ")
        )),
        Block::Text(format!(
            "Paired ratios: {} of a solution / the {} of these at the same point and repetition, \
             each of which met the same chance: a best that nobody knows beforehand. The ratio of \
             medians compares with the one whose median is best at the point; it pairs nothing. {} \
             1 is worse than the best; a run without a value where the best has one is worse than \
             all. Points are counted as worse when the median of their ratios is beyond {}, pairs \
             when theirs is beyond {}.",
            metric.name,
            if more { "highest" } else { "lowest" },
            if more { "Below" } else { "Above" },
            number(group.bound(MARGIN)),
            number(group.bound(WORST)),
        )),
        Block::Table(group.overall(&found)),
    ];
    if let Some(factor) = data.best_by() {
        blocks.push(Block::Table(group.at_levels(factor, &others)));
    }
    if found.iter().any(|(_, found)| !found.ratios.is_empty()) {
        let against = Against {
            name: "the best of them",
            file: "best",
        };
        blocks.push(curves(data, metric, &against, &found));
    }
    if all.len() * others.len() <= MOST_ROWS {
        blocks.push(Block::Table(group.by_point(&others)));
    }
    blocks
}

/// Those that the others are compared with.
struct Group<'a, 'b> {
    data: &'b Data<'a>,
    metric: &'b Shown,
    best: Vec<usize>,
    more: bool,
}

impl Group<'_, '_> {
    /// The ratio that is so much worse than equal.
    fn bound(&self, margin: f64) -> f64 {
        if self.more {
            1.0 - margin
        } else {
            1.0 + margin
        }
    }

    fn is_beyond(&self, ratio: f64, margin: f64) -> bool {
        if self.more {
            ratio < self.bound(margin)
        } else {
            ratio > self.bound(margin)
        }
    }

    fn compared(&self, points: &[usize], solution: usize) -> Comparison {
        let pairs = self
            .data
            .pairs_with_best(self.metric, points, solution, &self.best, self.more);
        paired(&pairs, &self.data.bootstrap)
    }

    /// The worst ratio of some pairs; `None` where a run has no value and so is worse than any.
    fn worst(&self, found: &Comparison) -> Option<f64> {
        let worst = if self.more {
            found.ratios.first()
        } else {
            found.ratios.last()
        };
        worst.copied().filter(|_| found.only_base == 0)
    }

    fn worst_cell(&self, found: &Comparison) -> Cell {
        match self.worst(found) {
            Some(ratio) if self.is_beyond(ratio, WORST) => Cell::bad(number(ratio)),
            Some(ratio) => Cell::new(number(ratio)),
            None if found.only_base > 0 => Cell::bad("no value"),
            None => Cell::new("-"),
        }
    }

    fn columns(&self) -> Vec<Column> {
        let worse = |margin: f64| number(self.bound(margin));
        vec![
            Column::text("solution"),
            Column::number("pairs", ""),
            Column::number("median ratio", "95 % interval"),
            Column::number("geometric mean", ""),
            Column::number("worst point", "median of its ratios"),
            Column::number("points worse", format!("than {}", worse(MARGIN))),
            Column::number("worst pair", ""),
            Column::number("pairs worse", format!("than {}", worse(WORST))),
        ]
    }

    /// What [`Self::columns`] name of one solution at some points.
    fn cells(&self, points: &[usize], solution: usize, found: &Comparison) -> Vec<Cell> {
        let mut medians = Vec::new();
        for point in points {
            let here = self.compared(&[*point], solution);
            let lost = here.only_base * 2 > here.pairs();
            let never = if self.more { 0.0 } else { f64::INFINITY };
            medians.extend(if lost { Some(never) } else { here.median });
        }
        let last = if self.more {
            medians.iter().copied().reduce(f64::min)
        } else {
            medians.iter().copied().reduce(f64::max)
        };
        let points = medians.len();
        let worse = medians
            .iter()
            .filter(|m| self.is_beyond(**m, MARGIN))
            .count();
        let worse = format!("{worse} of {points}");
        let beyond = found.ratios.iter().filter(|r| self.is_beyond(**r, WORST));
        let beyond = (beyond.count() + found.only_base) as f64 / found.pairs().max(1) as f64;
        vec![
            Cell::new(self.data.solution(solution)),
            Cell::new(found.pairs().to_string()),
            Cell::new(with_interval(found.median, found.median_interval)),
            Cell::new(found.geometric_mean.map_or_else(|| "-".to_owned(), number)),
            match last {
                Some(ratio) if !ratio.is_finite() => Cell::bad("no value"),
                Some(ratio) if self.is_beyond(ratio, MARGIN) => Cell::bad(number(ratio)),
                Some(ratio) => Cell::new(number(ratio)),
                None => Cell::new("-"),
            },
            Cell::new(worse),
            self.worst_cell(found),
            Cell::new(percent(beyond)),
        ]
    }

    fn overall(&self, found: &[(usize, Comparison)]) -> Table {
        let all = self.data.all_points();
        let row = |(solution, found): &(usize, Comparison)| {
            Row::new(true, self.cells(&all, *solution, found))
        };
        Table {
            columns: self.columns(),
            rows: found.iter().map(row).collect(),
        }
    }

    /// The same at each level of a factor.
    fn at_levels(&self, factor: usize, others: &[usize]) -> Table {
        let name = self
            .data
            .plan
            .factors
            .get(factor)
            .map_or("", String::as_str);
        let mut columns = vec![Column::text(name)];
        columns.extend(self.columns());
        let mut rows = Vec::new();
        for (level, points) in self.data.groups(factor) {
            for (place, solution) in others.iter().enumerate() {
                let found = self.compared(&points, *solution);
                let mut row = vec![Cell::new(&*level)];
                row.extend(self.cells(&points, *solution, &found));
                rows.push(Row::new(place == 0, row));
            }
        }
        Table { columns, rows }
    }

    fn by_point(&self, others: &[usize]) -> Table {
        let data = self.data;
        let mut columns: Vec<Column> = data.plan.factors.iter().map(Column::text).collect();
        columns.extend([
            Column::text("solution"),
            Column::text("best by median"),
            Column::number("median ratio", "95 % interval"),
            Column::number("worst pair", ""),
            Column::number("ratio of medians", "unpaired"),
            Column::number("of the sum", "of all that it is compared with"),
        ]);
        let mut rows = Vec::new();
        for point in data.all_points() {
            let median = |solution: &usize| data.median(self.metric, &[point], *solution);
            let known = self.best.iter().filter_map(|s| Some((*s, median(s)?)));
            let best = if self.more {
                known.max_by(|a, b| a.1.total_cmp(&b.1))
            } else {
                known.min_by(|a, b| a.1.total_cmp(&b.1))
            };
            let sum: Option<f64> = self.best.iter().map(median).sum();
            // Sums of times say nothing.
            let sum = sum.filter(|_| self.more);
            for (place, solution) in others.iter().enumerate() {
                let found = self.compared(&[point], *solution);
                let own = median(solution);
                let ratio = |base: Option<f64>| {
                    let ratio = own.zip(base.filter(|base| *base > 0.0));
                    ratio.map_or_else(|| "-".to_owned(), |(own, base)| number(own / base))
                };
                let mut row: Vec<Cell> = (0..data.plan.factors.len())
                    .map(|factor| Cell::new(data.label(point, factor)))
                    .collect();
                let text = with_interval(found.median, found.median_interval);
                let worse = found.median.is_some_and(|m| self.is_beyond(m, MARGIN));
                row.extend([
                    Cell::new(data.solution(*solution)),
                    Cell::new(best.map_or("-", |(best, _)| data.solution(best))),
                    if worse {
                        Cell::bad(text)
                    } else {
                        Cell::new(text)
                    },
                    self.worst_cell(&found),
                    Cell::new(ratio(best.map(|(_, median)| median))),
                    Cell::new(ratio(sum)),
                ]);
                rows.push(Row::new(place == 0, row));
            }
        }
        Table { columns, rows }
    }
}
