//! Metrics over factors: lines over one, heat maps over two.

use std::collections::BTreeMap;

use super::{
    chart::{Block, HeatMap, Line, Panel, Picture, Plot, Scale, Style, Wish},
    compare::median_ratio,
    data::{Data, Distinct, Shown, axis_wish, bounded},
};

/// Panels of one picture.
const MOST_PANELS: usize = 12;
/// Marks of a cloud.
const MOST_MARKS: usize = 6000;
/// Levels that are written under an axis one by one.
const MOST_TICKS: usize = 12;
/// Levels from which on a factor is worth an axis without being asked for.
const FEWEST_LEVELS: usize = 3;

/// The factor along the axis: the plan's, else the first with several numbers.
fn axis(data: &Data<'_>) -> Option<usize> {
    let factors = &data.plan.factors;
    if let Some(x) = &data.plan.report.x {
        return factors.iter().position(|factor| factor == x);
    }
    (0..factors.len()).find(|factor| numeric(data.levels(*factor)).is_some())
}

/// The numbers of levels, when there are several and all are numbers.
fn numeric(levels: &[Distinct]) -> Option<Vec<f64>> {
    let numbers: Option<Vec<f64>> = levels.iter().map(|level| level.number).collect();
    numbers.filter(|numbers| numbers.len() >= FEWEST_LEVELS)
}

/// Line charts with a factor along the axis.
pub(super) fn lines(data: &Data<'_>, metric: &Shown) -> Vec<Block> {
    let Some(factor) = axis(data) else {
        return match &data.plan.report.x {
            Some(x) => vec![Block::Text(format!(
                "The plan wants {x} along the axis of charts, but no factor is called that."
            ))],
            None => Vec::new(),
        };
    };
    let levels = data.levels(factor);
    if levels.len() < 2 {
        return Vec::new();
    }
    let name = data.plan.factors.get(factor).map_or("", String::as_str);
    // Levels that are not numbers stand side by side.
    let places: Vec<f64> = if levels.iter().all(|level| level.number.is_some()) {
        levels.iter().filter_map(|level| level.number).collect()
    } else {
        (0..levels.len()).map(|index| index as f64).collect()
    };
    let labels = levels.iter().map(|level| level.label.as_str());
    let by_label: BTreeMap<&str, f64> = labels.zip(places.iter().copied()).collect();
    let place = |point: usize| by_label.get(data.label(point, factor)).copied();
    let mut groups = combinations(data, factor);
    let all_points = data.plan.points.len();
    // A design that repeats no combination of the others is a cloud, not lines.
    let mut drawn_points = all_points;
    let cloud = groups.len() * 2 > all_points && groups.len() > 1;
    if cloud {
        // So many that the picture stays of a size that opens.
        let wanted = all_points * data.plan.solutions.len();
        let stride = wanted.div_ceil(MOST_MARKS).max(1);
        let points: Vec<usize> = data.all_points().into_iter().step_by(stride).collect();
        drawn_points = points.len();
        groups = vec![(String::new(), points)];
    }
    let of_all = groups.len();
    groups.truncate(MOST_PANELS);

    let mut plots = Vec::new();
    let mut seen = Vec::new();
    for (name, mut points) in groups {
        points.sort_by(|a, b| f64::total_cmp(&place(*a).unwrap_or(0.0), &place(*b).unwrap_or(0.0)));
        let drawn = data
            .solutions()
            .map(|solution| {
                let at = points.iter().filter_map(|p| Some((*p, place(*p)?)));
                if cloud {
                    marks(data, metric, solution, at, &mut seen)
                } else {
                    line(data, metric, solution, at, &mut seen)
                }
            })
            .collect();
        plots.push((name, drawn));
    }
    let x_wish = Wish {
        may_be_log: true,
        ..Wish::default()
    };
    let mut x = Scale::fit(name, places.iter().copied(), x_wish, 6);
    if levels.len() <= MOST_TICKS {
        let ticks = places.iter().copied();
        let labels = levels.iter().map(|level| level.label.clone());
        x = x.with_ticks(ticks.zip(labels).collect());
    }
    let y = Scale::fit(metric.label(), seen.iter().copied(), axis_wish(&seen), 5);
    let panels = plots
        .into_iter()
        .map(|(name, lines)| {
            let plot = Plot {
                x: x.clone(),
                y: y.clone(),
                lines,
                guides: Vec::new(),
            };
            (name, Box::new(plot) as Box<dyn Panel>)
        })
        .collect();
    let title = format!("{} over {name}", metric.name);
    let mut note = if cloud {
        "a mark per point and solution: the median over repetitions".to_owned()
    } else {
        "medians over repetitions; whiskers: 95 % intervals of the median".to_owned()
    };
    if drawn_points < all_points {
        note.push_str(&format!("; {drawn_points} of {all_points} points"));
    }
    if of_all > MOST_PANELS {
        note.push_str(&format!(
            "; the first {MOST_PANELS} of {of_all} combinations of the other factors"
        ));
    }
    vec![Block::Picture(
        Picture::panels(&format!("{}-over-{name}", metric.name), title, note, panels)
            .with_legend(data.legend(data.solutions())),
    )]
}

/// Points by the levels of all factors but one.
fn combinations(data: &Data<'_>, without: usize) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    let mut index_of: BTreeMap<String, usize> = BTreeMap::new();
    for point in data.all_points() {
        let name = data.point_name(point, Some(without));
        let index = *index_of.entry(name.clone()).or_insert(groups.len());
        if index == groups.len() {
            groups.push((name, Vec::new()));
        }
        if let Some((_, points)) = groups.get_mut(index) {
            points.push(point);
        }
    }
    groups
}

/// Medians with intervals over points and their places; what is drawn goes into `seen` too.
fn line(
    data: &Data<'_>,
    metric: &Shown,
    solution: usize,
    points: impl Iterator<Item = (usize, f64)>,
    seen: &mut Vec<f64>,
) -> Line {
    let mut line = Line {
        name: data.solution(solution).to_owned(),
        slot: solution,
        style: Style::Marked,
        points: Vec::new(),
        whiskers: Vec::new(),
    };
    for (point, x) in points {
        let summary = data.summary(metric, &[point], solution);
        seen.extend(summary.median);
        line.points.push((x, summary.median.unwrap_or(f64::NAN)));
        if let Some(bounds) = summary.interval {
            let ends = [bounds.low, bounds.high];
            seen.extend(ends.into_iter().filter(|end| bounded(*end)));
            line.whiskers.push((x, bounds.low, bounds.high));
        }
    }
    line
}

/// Medians alone.
fn marks(
    data: &Data<'_>,
    metric: &Shown,
    solution: usize,
    points: impl Iterator<Item = (usize, f64)>,
    seen: &mut Vec<f64>,
) -> Line {
    let points = points.map(|(point, x)| {
        let y = data.median(metric, &[point], solution);
        (x, y.unwrap_or(f64::NAN))
    });
    let points: Vec<(f64, f64)> = points.collect();
    seen.extend(points.iter().map(|point| point.1));
    Line {
        name: data.solution(solution).to_owned(),
        slot: solution,
        style: Style::Points,
        points,
        whiskers: Vec::new(),
    }
}

/// Heat maps over two factors of a grid.
pub(super) fn heat(data: &Data<'_>, metric: &Shown) -> Vec<Block> {
    let Some(base) = data.baseline().filter(|_| data.is_grid()) else {
        return Vec::new();
    };
    let several = |factor: &usize| numeric(data.levels(*factor)).is_some();
    let mut factors: Vec<usize> = (0..data.plan.factors.len()).filter(several).collect();
    // The plan's axis first.
    let first = axis(data);
    factors.sort_by_key(|factor| Some(*factor) != first);
    let [across, up, ..] = factors.as_slice() else {
        return Vec::new();
    };
    let side = |factor: usize| {
        let name = data.plan.factors.get(factor).cloned().unwrap_or_default();
        let labels = data.levels(factor).iter().map(|level| level.label.clone());
        (name, labels.collect::<Vec<String>>())
    };
    let (x, y) = (side(*across), side(*up));
    let mut points_at: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for point in data.all_points() {
        let at = (data.label(point, *across), data.label(point, *up));
        points_at.entry(at).or_default().push(point);
    }
    let panels = data
        .solutions()
        .filter(|solution| *solution != base)
        .take(MOST_PANELS)
        .map(|solution| {
            let row = |row: &String| {
                let ratio = |column: &String| {
                    let points = points_at.get(&(column.as_str(), row.as_str()))?;
                    median_ratio(data, metric, points, solution, base)
                };
                x.1.iter().map(ratio).collect()
            };
            let map = HeatMap {
                ratios: y.1.iter().map(row).collect(),
                x: x.clone(),
                y: y.clone(),
                more_is_better: metric.more_is_better,
            };
            let name = data.solution(solution).to_owned();
            (name, Box::new(map) as Box<dyn Panel>)
        })
        .collect();
    let title = format!(
        "{} against {}, over {} and {}",
        metric.name,
        data.solution(base),
        x.0,
        y.0
    );
    let note = format!(
        "median of the paired ratios; {}, orange the other way, full at a factor of 2",
        match metric.more_is_better {
            Some(_) => "blue is better",
            None => "blue is lower",
        }
    );
    let mut picture = Picture::panels(&format!("{}-heat", metric.name), title, note, panels);
    picture.panel_height = picture.panel_height.max(70.0 + 26.0 * y.1.len() as f64);
    vec![Block::Picture(picture)]
}
