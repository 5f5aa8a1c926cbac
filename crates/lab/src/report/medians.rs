//! Tables of medians.

use super::{
    chart::{Block, Cell, Column, Row, Table},
    data::{Data, Shown},
};

/// Rows above which points are folded into levels.
pub(super) const MOST_ROWS: usize = 60;

pub(super) fn blocks(data: &Data<'_>, metric: &Shown) -> Vec<Block> {
    let points = data.plan.points.len();
    let intro = format!(
        "Medians over {} with 95 % confidence intervals in brackets (bootstrap). {}",
        if points > MOST_ROWS {
            format!(
                "all points at each level of a factor and repetitions ({points} points; each is \
                 in cells.csv)"
            )
        } else {
            "repetitions".to_owned()
        },
        metric.missing()
    );
    let table = if points > MOST_ROWS {
        by_level(data, metric)
    } else {
        by_point(data, metric)
    };
    vec![Block::Text(intro), Block::Table(table)]
}

fn solution_columns<'a>(
    data: &'a Data<'_>,
    metric: &'a Shown,
) -> impl Iterator<Item = Column> + 'a {
    data.solutions()
        .map(|solution| Column::number(data.solution(solution), metric.unit.clone()))
}

fn cells(data: &Data<'_>, metric: &Shown, points: &[usize]) -> Vec<Cell> {
    data.solutions()
        .map(|solution| {
            let summary = data.summary(metric, points, solution);
            if summary.complete() {
                Cell::new(summary.text())
            } else {
                Cell::bad(summary.text())
            }
        })
        .collect()
}

fn by_point(data: &Data<'_>, metric: &Shown) -> Table {
    let factors = &data.plan.factors;
    let mut columns: Vec<Column> = factors.iter().map(Column::text).collect();
    if factors.is_empty() {
        columns.push(Column::text("point"));
    }
    columns.extend(solution_columns(data, metric));
    let mut rows = Vec::new();
    for point in 0..data.plan.points.len() {
        let mut row: Vec<Cell> = (0..factors.len())
            .map(|factor| Cell::new(data.label(point, factor)))
            .collect();
        if factors.is_empty() {
            row.push(Cell::new("the only one"));
        }
        row.extend(cells(data, metric, &[point]));
        // A line wherever the first factor changes.
        let begins = point == 0 || data.label(point, 0) != data.label(point - 1, 0);
        rows.push(Row::new(begins, row));
    }
    Table { columns, rows }
}

fn by_level(data: &Data<'_>, metric: &Shown) -> Table {
    let mut columns = vec![
        Column::text("factor"),
        Column::text("level"),
        Column::number("points", ""),
    ];
    columns.extend(solution_columns(data, metric));
    let mut rows = Vec::new();
    let mut row = |begins, factor: &str, level: &str, points: &[usize]| {
        let mut all = vec![
            Cell::new(factor),
            Cell::new(level),
            Cell::new(points.len().to_string()),
        ];
        all.extend(cells(data, metric, points));
        rows.push(Row::new(begins, all));
    };
    row(true, "all", "", &data.all_points());
    for (index, factor) in data.plan.factors.iter().enumerate() {
        for (place, (level, points)) in data.groups(index).iter().enumerate() {
            row(place == 0, factor, level, points);
        }
    }
    Table { columns, rows }
}
