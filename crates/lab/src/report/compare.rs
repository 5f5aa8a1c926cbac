//! Solutions against the baseline, pair by pair.

use super::{
    chart::{Block, Cell, Column, Guide, Line, Picture, Plot, Row, Scale, Style, Table, Wish},
    data::{Data, Shown, number, percent, with_interval},
    spread::CORNERS,
};
use crate::stats::{Bootstrap, Comparison, Ecdf, paired, welch};

/// A ratio within this of 1 is neither better nor worse.
const MARGIN: f64 = 0.02;
/// Points that get a row of their own.
const MOST_POINTS: usize = 16;

pub(super) fn blocks(data: &Data<'_>, metric: &Shown) -> Vec<Block> {
    let Some(base) = data.baseline() else {
        return Vec::new();
    };
    let points = data.all_points();
    let others: Vec<(usize, Comparison)> = data
        .solutions()
        .filter(|solution| *solution != base)
        .map(|solution| {
            let pairs = data.pairs(metric, &points, solution, base);
            (solution, paired(&pairs, &data.bootstrap))
        })
        .collect();
    let chosen = match data.plan.report.baseline {
        Some(_) => "",
        None => " (the plan names no baseline; this is its first solution)",
    };
    let mut blocks = vec![
        Block::Heading(format!("{} against {}", metric.name, data.solution(base))),
        Block::Text(format!(
            "Paired ratios: {} of a solution / that of {}{chosen} at the same point and \
             repetition, which meet the same chance. Below 1, the solution's value is the lower{}. \
             Medians and means of ratios are over the pairs in which both have a value. The \
             ratio of medians pairs nothing and is another figure. Better and worse: ratio \
             beyond {} %, or only one of the two has a value; shares are of all pairs.",
            metric.name,
            data.solution(base),
            match metric.more_is_better {
                Some(true) => " and it is worse",
                Some(false) => " and it is better",
                None => "",
            },
            MARGIN * 100.0
        )),
        Block::Table(overall(data, metric, base, &others)),
    ];
    if others.iter().any(|(_, found)| !found.ratios.is_empty()) {
        let against = Against {
            name: data.solution(base),
            file: "ratio",
        };
        blocks.push(curves(data, metric, &against, &others));
    }
    if points.len() <= MOST_POINTS {
        blocks.push(Block::Text(format!(
            "By point; p is of Welch's t-test that the means over repetitions are equal, each \
             solution against {}, unpaired, cells without a value left out.",
            data.solution(base)
        )));
        blocks.push(Block::Table(by_point(data, metric, base)));
    } else {
        blocks.push(Block::Text(
            "Median of the paired ratios at each level of a factor, over all points there."
                .to_owned(),
        ));
        blocks.push(Block::Table(by_level(data, metric, base)));
        blocks.push(Block::Text(
            "Ratio of the medians and of the 95th percentiles of all runs at a level, unpaired: how the \
             two distributions lie, whatever became of a pair."
                .to_owned(),
        ));
        blocks.push(Block::Table(distributions(data, metric, base)));
    }
    blocks
}

fn overall(data: &Data<'_>, metric: &Shown, base: usize, others: &[(usize, Comparison)]) -> Table {
    let (low, high) = match metric.more_is_better {
        Some(true) => ("worse", "better"),
        Some(false) => ("better", "worse"),
        None => ("lower", "higher"),
    };
    let columns = vec![
        Column::text("solution"),
        Column::number("pairs", ""),
        Column::number("median ratio", "95 % interval"),
        Column::number("geometric mean", "95 % interval"),
        Column::number("ratio of medians", "unpaired"),
        Column::number(low, "of pairs"),
        Column::number(high, "of pairs"),
        Column::number("one without value", "baseline / solution"),
        Column::number("left out", "both without / undefined"),
    ];
    let points = data.all_points();
    let row = |(solution, found): &(usize, Comparison)| {
        let ratio = ratio_of(data, metric, &points, *solution, base);
        let all = found.pairs().max(1) as f64;
        let (mut below, mut above) = found.beyond(MARGIN).unwrap_or((0.0, 0.0));
        // A run that has no value is the worse one of a pair.
        let (won, lost) = (found.only_value as f64 / all, found.only_base as f64 / all);
        match metric.more_is_better {
            Some(true) => (above, below) = (above + won, below + lost),
            Some(false) => (below, above) = (below + won, above + lost),
            None => {}
        }
        let share = |share: f64| {
            if found.pairs() == 0 {
                "-".to_owned()
            } else {
                percent(share)
            }
        };
        let without = format!("{} / {}", found.only_value, found.only_base);
        Row::new(
            true,
            vec![
                Cell::new(data.solution(*solution)),
                Cell::new(found.pairs().to_string()),
                Cell::new(with_interval(found.median, found.median_interval)),
                Cell::new(with_interval(
                    found.geometric_mean,
                    found.geometric_mean_interval,
                )),
                Cell::new(ratio.map_or_else(|| "-".to_owned(), number)),
                Cell::new(share(below)),
                Cell::new(share(above)),
                if found.only_value + found.only_base > 0 {
                    Cell::bad(without)
                } else {
                    Cell::new(without)
                },
                Cell::new(format!("{} / {}", found.neither, found.undefined)),
            ],
        )
    };
    Table {
        columns,
        rows: others.iter().map(row).collect(),
    }
}

/// What ratios are of.
pub(super) struct Against<'a> {
    /// In words.
    pub(super) name: &'a str,
    /// In the picture's name.
    pub(super) file: &'a str,
}

/// How paired ratios are spread.
pub(super) fn curves(
    data: &Data<'_>,
    metric: &Shown,
    against: &Against<'_>,
    others: &[(usize, Comparison)],
) -> Block {
    let ratios = others.iter().flat_map(|(_, found)| found.ratios.iter());
    let wish = Wish {
        log: true,
        ..Wish::default()
    };
    let label = format!("{} / that of {}", metric.name, against.name);
    let lines = others
        .iter()
        .map(|(solution, found)| {
            // What has no ratio because the baseline alone finished is beyond every ratio.
            let ecdf = Ecdf::new(&found.ratios, found.ratios.len() + found.only_base);
            Line {
                name: data.solution(*solution).to_owned(),
                slot: *solution,
                style: Style::Steps,
                points: ecdf.map(|ecdf| ecdf.corners(CORNERS)).unwrap_or_default(),
                whiskers: Vec::new(),
            }
        })
        .collect();
    let panel = Plot {
        x: Scale::fit(label, ratios.copied().chain([1.0]), wish, 7),
        y: Scale::fit("share of pairs", [0.0, 1.0], Wish::default(), 5),
        lines,
        guides: vec![Guide {
            label: "equal".to_owned(),
            value: 1.0,
            upright: true,
        }],
    };
    let title = format!("Paired ratios of {} to {}", metric.name, against.name);
    let note = format!(
        "share of pairs (point, repetition) at or below a ratio{}",
        match metric.more_is_better {
            Some(true) => "; to the right is better",
            Some(false) => "; to the left is better",
            None => "",
        }
    );
    Block::Picture(
        Picture::of(
            &format!("{}-{}", metric.name, against.file),
            title,
            note,
            Box::new(panel),
        )
        .with_legend(data.legend(others.iter().map(|(solution, _)| *solution))),
    )
}

fn by_point(data: &Data<'_>, metric: &Shown, base: usize) -> Table {
    let mut columns: Vec<Column> = data.plan.factors.iter().map(Column::text).collect();
    columns.extend([
        Column::text("solution"),
        Column::number("median ratio", "95 % interval"),
        Column::number("ratio of medians", "unpaired"),
        Column::number("p", "Welch"),
    ]);
    let mut rows = Vec::new();
    for point in data.all_points() {
        let (base_values, _) = data.values(metric, &[point], base);
        for (place, solution) in data.solutions().filter(|s| *s != base).enumerate() {
            let pairs = data.pairs(metric, &[point], solution, base);
            let found = paired(&pairs, &data.bootstrap);
            let (values, _) = data.values(metric, &[point], solution);
            let mut row: Vec<Cell> = (0..data.plan.factors.len())
                .map(|factor| Cell::new(data.label(point, factor)))
                .collect();
            let ratio = ratio_of(data, metric, &[point], solution, base);
            row.extend([
                Cell::new(data.solution(solution)),
                Cell::new(with_interval(found.median, found.median_interval)),
                Cell::new(ratio.map_or_else(|| "-".to_owned(), number)),
                Cell::new(match welch(&values, &base_values) {
                    Some(test) if test.p < 1e-4 => "< 0.0001".to_owned(),
                    Some(test) => format!("{:.4}", test.p),
                    None => "-".to_owned(),
                }),
            ]);
            rows.push(Row::new(place == 0, row));
        }
    }
    Table { columns, rows }
}

fn by_level(data: &Data<'_>, metric: &Shown, base: usize) -> Table {
    let others: Vec<usize> = data.solutions().filter(|s| *s != base).collect();
    let mut columns = vec![
        Column::text("factor"),
        Column::text("level"),
        Column::number("points", ""),
    ];
    columns.extend(others.iter().map(|s| Column::number(data.solution(*s), "")));
    let mut rows = Vec::new();
    for (index, factor) in data.plan.factors.iter().enumerate() {
        for (place, (level, points)) in data.groups(index).iter().enumerate() {
            let mut row = vec![
                Cell::new(factor),
                Cell::new(level),
                Cell::new(points.len().to_string()),
            ];
            for solution in &others {
                let pairs = data.pairs(metric, points, *solution, base);
                let found = paired(&pairs, &data.bootstrap);
                row.push(Cell::new(with_interval(
                    found.median,
                    found.median_interval,
                )));
            }
            rows.push(Row::new(place == 0, row));
        }
    }
    Table { columns, rows }
}

/// Quantiles of all runs at each level, by those of the baseline.
fn distributions(data: &Data<'_>, metric: &Shown, base: usize) -> Table {
    let others: Vec<usize> = data.solutions().filter(|s| *s != base).collect();
    let mut columns = vec![
        Column::text("factor"),
        Column::text("level"),
        Column::text("quantile"),
    ];
    columns.extend(others.iter().map(|s| Column::number(data.solution(*s), "")));
    let mut rows = Vec::new();
    for (index, factor) in data.plan.factors.iter().enumerate() {
        for (level, points) in data.groups(index) {
            for (name, share) in [("median", 0.5), ("95th percentile", 0.95)] {
                let mut row = vec![Cell::new(factor), Cell::new(&level), Cell::new(name)];
                let of = |solution| data.quantile(metric, &points, solution, share);
                let base = of(base).filter(|base| *base > 0.0);
                for solution in &others {
                    let ratio = of(*solution).zip(base).map(|(value, base)| value / base);
                    row.push(Cell::new(ratio.map_or_else(|| "-".to_owned(), number)));
                }
                rows.push(Row::new(share == 0.5, row));
            }
        }
    }
    Table { columns, rows }
}

/// The ratio of medians, where cells that did not finish count as they do in tables of medians.
fn ratio_of(
    data: &Data<'_>,
    metric: &Shown,
    points: &[usize],
    solution: usize,
    base: usize,
) -> Option<f64> {
    let value = data.median(metric, points, solution)?;
    let base = data
        .median(metric, points, base)
        .filter(|base| *base > 0.0)?;
    Some(value / base).filter(|ratio| ratio.is_finite())
}

/// The median of paired ratios over some points.
pub(super) fn median_ratio(
    data: &Data<'_>,
    metric: &Shown,
    points: &[usize],
    solution: usize,
    base: usize,
) -> Option<f64> {
    let pairs = data.pairs(metric, points, solution, base);
    // The interval is not wanted.
    let quick = Bootstrap {
        resamples: 1,
        ..data.bootstrap
    };
    paired(&pairs, &quick).median
}
