//! The tables of a campaign.

use std::collections::{BTreeMap, BTreeSet};

use super::{cell::Entry, field};
use crate::{
    metric::{FLOW_METRICS, METRICS, Metric},
    plan::{Cell, Plan},
    table::{Column, Kind, Table, Value},
    workload::columns::COLUMNS,
};

/// What the schema says of the rows of runs between two machines.
const FIELD_DATA: &str = "Field data: a row per run between two real machines, of a point of the design, \
                          a solution, a repetition. Rows are measurements: they hold the clock, and the \
                          same plan gives others. The plan's simulated network was left aside; metrics \
                          of simulated links are empty.";

pub(super) struct Tables {
    pub(super) cells: Table,
    pub(super) flows: Table,
    pub(super) paths: Table,
    pub(super) series: Table,
    pub(super) items: Table,
    keeps_series: bool,
    keeps_items: bool,
    is_of_field: bool,
}

impl Tables {
    pub(super) fn of(plan: &Plan, entries: BTreeMap<usize, Entry>) -> Self {
        let extra: BTreeSet<&str> = entries
            .values()
            .flat_map(|entry| {
                let of_flows = entry.flows.iter().flat_map(|flow| flow.extra.keys());
                entry.extra.keys().chain(of_flows)
            })
            .map(String::as_str)
            .collect();
        let extra: Vec<String> = extra.into_iter().map(str::to_owned).collect();
        let mut tables = Self {
            cells: Table {
                columns: cell_columns(plan, &extra),
                rows: Vec::new(),
            },
            flows: Table {
                columns: flow_columns(plan, &extra),
                rows: Vec::new(),
            },
            paths: Table {
                columns: path_columns(plan),
                rows: Vec::new(),
            },
            series: Table {
                columns: series_columns(),
                rows: Vec::new(),
            },
            items: Table {
                columns: item_columns(),
                rows: Vec::new(),
            },
            keeps_series: plan.keep.series.is_some(),
            keeps_items: plan.keep.items,
            is_of_field: plan.is_of_field(),
        };
        for (index, entry) in &entries {
            if let Some(cell) = plan.cell(*index) {
                tables.add(plan, &cell, entry, &extra);
            }
        }
        tables
    }

    /// Name, meaning and table, of those that the plan asks for.
    pub(super) fn all(&self) -> Vec<(&'static str, &'static str, &Table)> {
        let mut all = vec![
            (
                "cells",
                match self.is_of_field {
                    false => {
                        "A row per cell: a point of the design, a solution, a repetition. The measured link is the \
                         network's first, or the one that `run.link` names."
                    }
                    true => FIELD_DATA,
                },
                &self.cells,
            ),
            ("flows", "A row per connection of each cell.", &self.flows),
        ];
        if !self.paths.rows.is_empty() {
            all.push((
                "paths",
                "A row per path of each connection that could have several.",
                &self.paths,
            ));
        }
        if self.keeps_series {
            all.push((
                "series",
                "A row per connection and moment, seen at the sender.",
                &self.series,
            ));
        }
        if self.keeps_items {
            all.push((
                "items",
                "A row per object, message, datagram or segment of the measured connections.",
                &self.items,
            ));
        }
        all
    }

    fn add(&mut self, plan: &Plan, cell: &Cell, entry: &Entry, extra: &[String]) {
        let head = head(plan, cell);
        let extras = |values: &BTreeMap<String, f64>| -> Vec<Value> {
            let value = |name: &String| Value::number(values.get(name).copied());
            extra.iter().map(value).collect()
        };
        let mut row = head.clone();
        row.push(Value::integer(cell.seed));
        row.push(Value::text(&entry.status));
        row.push(entry.reason.as_deref().map_or(Value::NONE, Value::text));
        let flag = Value::text(if entry.deterministic {
            ""
        } else {
            "nondeterministic"
        });
        row.push(flag.clone());
        if plan.is_of_field() {
            let note = entry.field.clone().unwrap_or_default();
            row.extend(field::values(&note));
        }
        row.extend(entry.metrics.iter().cloned());
        row.extend(extras(&entry.extra));
        let parameters = serde_json::to_string(&plan.parameters(cell)).unwrap_or_default();
        row.push(Value::text(parameters));
        self.cells.rows.push(row);
        for (number, flow) in entry.flows.iter().enumerate() {
            let mut row = head.clone();
            row.push(Value::integer(number as u64));
            row.push(Value::text(&flow.name));
            row.push(Value::text(&flow.stack));
            row.push(flow.congestion.as_deref().map_or(Value::NONE, Value::text));
            row.push(Value::integer(u64::from(flow.measured)));
            row.push(flow.error.as_deref().map_or(Value::NONE, Value::text));
            row.push(flag.clone());
            row.extend(flow.metrics.iter().cloned());
            row.extend(extras(&flow.extra));
            self.flows.rows.push(row);
        }
        for path in &entry.paths {
            let mut row = head.clone();
            row.extend([
                Value::integer(path.flow as u64),
                Value::text(&path.path),
                Value::integer(path.id),
                Value::integer(path.sent),
                Value::integer(path.back),
                Value::number(path.share),
                Value::integer(path.packets),
                Value::integer(path.lost),
                Value::integer(path.ptos),
                Value::number(path.rtt),
                Value::number(path.min_rtt),
                Value::number(path.validated),
                Value::number(path.first_data),
                flag.clone(),
            ]);
            self.paths.rows.push(row);
        }
        let cell = Value::integer(cell.index as u64);
        for (flow, at, received, rtt, window, in_flight, sent, lost) in &entry.series {
            self.series.rows.push(vec![
                cell.clone(),
                Value::integer(*flow as u64),
                Value::Number(*at),
                Value::integer(*received),
                Value::number(*rtt),
                Value::integer(*window),
                in_flight.map_or(Value::NONE, Value::integer),
                Value::integer(*sent),
                Value::integer(*lost),
            ]);
        }
        for (flow, bytes, wanted, delay, on_time) in &entry.items {
            self.items.rows.push(vec![
                cell.clone(),
                Value::integer(*flow as u64),
                Value::integer(*bytes),
                Value::Number(*wanted),
                Value::number(*delay),
                Value::integer(u64::from(*on_time)),
            ]);
        }
    }
}

/// What identifies a cell: the values of [`head_columns`].
fn head(plan: &Plan, cell: &Cell) -> Vec<Value> {
    let mut row = vec![
        Value::text(&plan.name),
        Value::integer(cell.index as u64),
        Value::integer(cell.point as u64),
    ];
    if let Some(point) = plan.points.get(cell.point) {
        row.extend(point.levels.iter().map(|level| Value::text(&level.label)));
    }
    let solution = plan.solutions.get(cell.solution);
    row.push(solution.map_or(Value::NONE, |(name, _)| Value::text(name)));
    row.push(Value::integer(cell.repetition));
    row
}

fn head_columns(plan: &Plan) -> Vec<Column> {
    let mut columns = vec![
        Column::new("plan", Kind::Text, "the plan's name"),
        Column::new(
            "cell",
            Kind::Integer,
            "number of the cell in the plan, from 0",
        ),
        Column::new(
            "point",
            Kind::Integer,
            "number of the point in the design, from 0",
        ),
    ];
    for factor in &plan.factors {
        let meaning = "level of this factor of the design";
        columns.push(Column::new(format!("f_{factor}"), Kind::Text, meaning));
    }
    columns.push(Column::new("solution", Kind::Text, "what is compared"));
    columns.push(Column::new(
        "repetition",
        Kind::Integer,
        "number of the repetition, from 0",
    ));
    columns
}

fn metric_columns<T: ?Sized>(metrics: &[Metric<T>]) -> impl Iterator<Item = Column> {
    metrics.iter().map(|metric| Column {
        name: metric.name.to_owned(),
        kind: Kind::Number,
        unit: metric.unit.to_owned(),
        meaning: metric.formula.to_owned(),
        paper: metric.paper.to_owned(),
    })
}

fn extra_columns(extra: &[String]) -> impl Iterator<Item = Column> {
    extra.iter().map(|name| {
        let known = COLUMNS.iter().find(|column| column.name == *name);
        Column {
            unit: known.map_or("", |column| column.unit).to_owned(),
            ..Column::new(
                format!("x_{name}"),
                Kind::Number,
                known.map_or("measured by the workload", |column| column.meaning),
            )
        }
    })
}

fn cell_columns(plan: &Plan, extra: &[String]) -> Vec<Column> {
    let mut columns = head_columns(plan);
    columns.push(Column::new(
        "seed",
        Kind::Integer,
        "seed of everything random in the run",
    ));
    columns.push(Column::new(
        "status",
        Kind::Text,
        "`ok`; `limit`: a measured flow was not finished when the run's time was over; `error`: a \
         measured connection failed; `refused`: the cell could not begin; `panic`: a fault of the \
         laboratory or of a stack",
    ));
    columns.push(Column::new("reason", Kind::Text, "why, unless ok"));
    columns.push(flag_column());
    if plan.is_of_field() {
        columns.extend(field::columns());
    }
    let metrics = metric_columns(METRICS);
    columns.extend(metrics.map(|column| of_world(plan, column)));
    columns.extend(extra_columns(extra));
    columns.push(Column::new(
        "parameters",
        Kind::Text,
        "network, flows, solution and run in full, as JSON",
    ));
    columns
}

/// A metric's column, which says what it is of.
fn of_world(plan: &Plan, column: Column) -> Column {
    match column.name.as_str() {
        "end_s" if plan.is_of_field() => Column {
            meaning: "time of the run, by the clock of the machine that connects".to_owned(),
            ..column
        },
        _ => column,
    }
}

/// A connection shares its links with the others of its cell, and so their chance.
fn flag_column() -> Column {
    Column::new(
        "flag",
        Kind::Text,
        "`nondeterministic` when a stack in the cell does not repeat itself",
    )
}

fn flow_columns(plan: &Plan, extra: &[String]) -> Vec<Column> {
    let mut columns = head_columns(plan);
    columns.push(Column::new(
        "connection",
        Kind::Integer,
        "number of the connection in the cell",
    ));
    columns.push(Column::new("flow", Kind::Text, "the flow's name"));
    columns.push(Column::new("stack", Kind::Text, "its transport"));
    columns.push(Column::new(
        "congestion",
        Kind::Text,
        "its congestion controller, if named",
    ));
    columns.push(Column::new(
        "measured",
        Kind::Integer,
        "1 when the cell's metrics count it",
    ));
    columns.push(Column::new(
        "error",
        Kind::Text,
        "why the connection ended, if by an error",
    ));
    columns.push(flag_column());
    columns.extend(metric_columns(FLOW_METRICS));
    columns.extend(extra_columns(extra));
    columns
}

pub(super) fn plain(name: &str, kind: Kind, unit: &str, meaning: &str) -> Column {
    Column {
        unit: unit.to_owned(),
        ..Column::new(name, kind, meaning)
    }
}

fn path_columns(plan: &Plan) -> Vec<Column> {
    let mut columns = head_columns(plan);
    columns.extend([
        plain(
            "connection",
            Kind::Integer,
            "",
            "number of the connection in the cell",
        ),
        plain("path", Kind::Text, "", "the client's place at its near end"),
        plain(
            "path_id",
            Kind::Integer,
            "",
            "its number in the protocol; 0 is the path of the handshake",
        ),
        plain(
            "sent_bytes",
            Kind::Integer,
            "B",
            "UDP payload bytes that the sender sent over it",
        ),
        plain(
            "back_bytes",
            Kind::Integer,
            "B",
            "UDP payload bytes that the receiver sent over it",
        ),
        plain(
            "share",
            Kind::Number,
            "1",
            "sent_bytes / the same of all paths of the connection",
        ),
        plain(
            "packets_sent",
            Kind::Integer,
            "packets",
            "in-flight packets sent by the sender",
        ),
        plain(
            "packets_lost",
            Kind::Integer,
            "packets",
            "of these, declared lost",
        ),
        plain("ptos", Kind::Integer, "1", "the sender's probe timeouts"),
        plain(
            "rtt_ms",
            Kind::Number,
            "ms",
            "the sender's smoothed RTT at the end; empty when it did not know the path",
        ),
        plain("min_rtt_ms", Kind::Number, "ms", "its smallest RTT"),
        plain(
            "validated_s",
            Kind::Number,
            "s",
            "since the connection began, when the client knew it to be usable",
        ),
        plain(
            "first_data_s",
            Kind::Number,
            "s",
            "since the connection began, when the first packet with data came to the receiver \
             over it",
        ),
        flag_column(),
    ]);
    columns
}

fn series_columns() -> Vec<Column> {
    vec![
        plain("cell", Kind::Integer, "", "number of the cell"),
        plain(
            "connection",
            Kind::Integer,
            "",
            "number of the connection in the cell",
        ),
        plain("time_s", Kind::Number, "s", "since the run began"),
        plain(
            "received_bytes",
            Kind::Integer,
            "B",
            "application bytes received in order so far",
        ),
        plain("rtt_ms", Kind::Number, "ms", "smoothed RTT"),
        plain("window_bytes", Kind::Integer, "B", "congestion window"),
        plain(
            "in_flight_bytes",
            Kind::Integer,
            "B",
            "bytes in flight; empty when the stack does not tell",
        ),
        plain(
            "packets_sent",
            Kind::Integer,
            "packets",
            "in-flight packets sent so far",
        ),
        plain(
            "packets_lost",
            Kind::Integer,
            "packets",
            "of these, declared lost so far",
        ),
    ]
}

fn item_columns() -> Vec<Column> {
    vec![
        plain("cell", Kind::Integer, "", "number of the cell"),
        plain(
            "connection",
            Kind::Integer,
            "",
            "number of the connection in the cell",
        ),
        plain("bytes", Kind::Integer, "B", "application bytes"),
        plain(
            "wanted_s",
            Kind::Number,
            "s",
            "when it was wanted, since the run began",
        ),
        plain(
            "delay_ms",
            Kind::Number,
            "ms",
            "from wanted to complete; empty when it never was",
        ),
        plain(
            "on_time",
            Kind::Integer,
            "",
            "1 when it came within its deadline",
        ),
    ]
}
