//! The papers' figures beside ours.

use super::{
    chart::{Block, Cell, Column, Row, Section, Table},
    data::{Data, number, with_interval},
};
use crate::plan::PaperFigure;

pub(super) fn section(data: &Data<'_>) -> Option<Section> {
    if data.plan.report.paper.is_empty() {
        return None;
    }
    let rows = data
        .plan
        .report
        .paper
        .iter()
        .flat_map(|figure| rows(data, figure))
        .collect();
    let table = Table {
        columns: vec![
            Column::text("source"),
            Column::text("what"),
            Column::text("metric"),
            Column::text("ours from"),
            Column::number("theirs", ""),
            Column::number("ours", "median, 95 % interval"),
            Column::number("ours / theirs", ""),
            Column::number("cells", ""),
        ],
        rows,
    };
    let mut blocks = vec![Block::Text(
        "Their value as the text gives it; ours is the median over the cells that compare, all \
         repetitions."
            .to_owned(),
    )];
    let notes = data.plan.report.notes.iter();
    blocks.extend(notes.map(|note| Block::Text(note.clone())));
    blocks.push(Block::Table(table));
    Some(Section {
        heading: "The papers' figures beside ours".to_owned(),
        blocks,
    })
}

/// A row per solution that compares.
fn rows(data: &Data<'_>, figure: &PaperFigure) -> Vec<Row> {
    let solutions: Vec<usize> = match &figure.solution {
        Some(name) => data
            .solutions()
            .filter(|solution| data.solution(*solution) == name)
            .collect(),
        None => data.solutions().collect(),
    };
    let points = points(data, figure);
    let place = figure
        .point
        .iter()
        .map(|(factor, level)| format!("{factor} {}", label(level)))
        .collect::<Vec<String>>()
        .join(", ");
    let head = |solution: &str| {
        let from = match (solution, place.as_str()) {
            (solution, "") => solution.to_owned(),
            (solution, place) => format!("{solution}, {place}"),
        };
        vec![
            Cell::new(&figure.source),
            Cell::new(&figure.what),
            Cell::new(&figure.metric),
            Cell::new(from),
            Cell::new(number(figure.value)),
        ]
    };
    let absent = |why: &str| {
        let mut row = head(figure.solution.as_deref().unwrap_or("every solution"));
        row.extend([Cell::bad(why), Cell::new("-"), Cell::new("0")]);
        vec![Row::new(true, row)]
    };
    let Some(metric) = data.metric(&figure.metric) else {
        return absent("no such metric");
    };
    if solutions.is_empty() {
        return absent("no such solution");
    }
    if points.is_empty() {
        return absent("no such point");
    }
    solutions
        .into_iter()
        .enumerate()
        .map(|(place, solution)| {
            let summary = data.summary(&metric, &points, solution);
            let ratio = summary
                .median
                .map(|ours| ours / figure.value)
                .filter(|ratio| ratio.is_finite());
            let mut row = head(data.solution(solution));
            row.extend([
                if summary.median.is_some() {
                    Cell::new(with_interval(summary.median, summary.interval))
                } else {
                    Cell::bad("no value")
                },
                Cell::new(ratio.map_or_else(|| "-".to_owned(), number)),
                Cell::new(if summary.complete() {
                    summary.of.to_string()
                } else {
                    format!("{} of {}", summary.values.len(), summary.of)
                }),
            ]);
            Row::new(place == 0, row)
        })
        .collect()
}

/// The points that have every level the figure names.
fn points(data: &Data<'_>, figure: &PaperFigure) -> Vec<usize> {
    let plan = data.plan;
    let is_of = |point: &usize| {
        let point = plan.points.get(*point);
        point.is_some_and(|point| figure.is_of(point, plan))
    };
    data.all_points().into_iter().filter(is_of).collect()
}

fn label(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
