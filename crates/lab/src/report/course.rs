//! What happened within cells: time series, and items one by one.

use std::collections::BTreeMap;

use super::{
    chart::{Block, LegendEntry, Line, Panel, Picture, Plot, Scale, Section, Style, Wish},
    data::Data,
    spread::curves_over,
};
use crate::{
    stats::Ecdf,
    table::{Table, Value},
};

/// Cells whose course is shown.
const MOST_CELLS: usize = 6;
/// Connections of a cell that are shown.
const MOST_LINES: usize = 8;
/// Points of a line.
const MOST_POINTS: usize = 400;
/// Points that get a distribution of items of their own.
const MOST_PANELS: usize = 4;

#[derive(Clone, Copy)]
struct Sample {
    at: f64,
    received: f64,
    rtt: Option<f64>,
    window: f64,
}

/// Goodput, RTT and congestion window over time.
pub(super) fn series(data: &Data<'_>) -> Option<Section> {
    let chosen: Vec<usize> = chosen(data);
    let samples = samples(&data.results.series, &chosen)?;
    let cells: Vec<usize> = chosen
        .into_iter()
        .filter(|cell| {
            samples
                .range((*cell, 0)..=(*cell, usize::MAX))
                .next()
                .is_some()
        })
        .collect();
    if cells.is_empty() {
        return None;
    }
    let most = samples.keys().map(|(_, connection)| connection + 1).max();
    let names = names(data, &cells);
    let legend: Vec<LegendEntry> = (0..most.unwrap_or(0).min(MOST_LINES))
        .map(|slot| LegendEntry {
            name: names
                .get(&slot)
                .cloned()
                .unwrap_or_else(|| format!("connection {slot}")),
            slot,
        })
        .collect();
    let draw = |file: &str, title: &str, unit: &str, of: fn(&[Sample]) -> Vec<(f64, f64)>| {
        let panels = cells
            .iter()
            .map(|cell| {
                let connections = samples.range((*cell, 0)..(*cell, MOST_LINES));
                let lines: Vec<Line> = connections
                    .map(|((_, connection), samples)| Line {
                        name: names.get(connection).cloned().unwrap_or_default(),
                        slot: *connection,
                        style: Style::Plain,
                        points: of(&thinned(samples)),
                        whiskers: Vec::new(),
                    })
                    .collect();
                let points = || lines.iter().flat_map(|line| line.points.iter());
                let from_zero = Wish {
                    from_zero: true,
                    ..Wish::default()
                };
                let plot = Plot {
                    x: Scale::fit("time (s)", points().map(|p| p.0), from_zero, 6),
                    y: Scale::fit(unit, points().map(|p| p.1), from_zero, 5),
                    lines,
                    guides: Vec::new(),
                };
                (cell_name(data, *cell), Box::new(plot) as Box<dyn Panel>)
            })
            .collect();
        let mut note = "first repetition, seen at the sender".to_owned();
        if most.unwrap_or(0) > MOST_LINES {
            note.push_str(&format!(
                "; the first {MOST_LINES} of up to {} connections",
                most.unwrap_or(0)
            ));
        }
        let picture = Picture::panels(file, title.to_owned(), note, panels);
        Block::Picture(picture.with_legend(legend.clone()))
    };
    Some(Section {
        heading: "Over time".to_owned(),
        blocks: vec![
            Block::Text(format!(
                "The first repetition of {} of {} cells. Goodput is what came in order since the \
                 sample before: nothing while a gap waits for its retransmission, then all at \
                 once.",
                cells.len(),
                data.plan.len()
            )),
            draw("series-goodput", "Goodput over time", "Mb/s", goodput),
            draw("series-rtt", "Smoothed round-trip time", "ms", |samples| {
                let rtt = |s: &Sample| (s.at, s.rtt.unwrap_or(f64::NAN));
                samples.iter().map(rtt).collect()
            }),
            draw("series-window", "Congestion window", "kB", |samples| {
                samples.iter().map(|s| (s.at, s.window / 1e3)).collect()
            }),
        ],
    })
}

/// The first repetition, under every solution, of as many points as there is room for, evenly
/// from the first to the last.
fn chosen(data: &Data<'_>) -> Vec<usize> {
    let all = data.plan.points.len();
    let room = (MOST_CELLS / data.plan.solutions.len().max(1)).clamp(1, all.max(1));
    let point = |place: usize| match room {
        1 => all / 2,
        room => place * (all - 1) / (room - 1),
    };
    (0..room)
        .map(point)
        .flat_map(|point| data.solutions().map(move |solution| (point, solution)))
        .filter_map(|(point, solution)| data.cells(point, solution).next())
        .take(MOST_CELLS)
        .collect()
}

fn samples(table: &Table, chosen: &[usize]) -> Option<BTreeMap<(usize, usize), Vec<Sample>>> {
    let position = |name| table.position(name);
    let (cell, connection) = (position("cell")?, position("connection")?);
    let (at, received) = (position("time_s")?, position("received_bytes")?);
    let (rtt, window) = (position("rtt_ms")?, position("window_bytes")?);
    let mut found: BTreeMap<(usize, usize), Vec<Sample>> = BTreeMap::new();
    for row in &table.rows {
        let get = |index: usize| row.get(index).and_then(Value::as_number);
        let (Some(cell), Some(connection)) = (get(cell), get(connection)) else {
            continue;
        };
        let (cell, connection) = (cell as usize, connection as usize);
        if !chosen.contains(&cell) {
            continue;
        }
        if let (Some(at), Some(received), Some(window)) = (get(at), get(received), get(window)) {
            found.entry((cell, connection)).or_default().push(Sample {
                at,
                received,
                rtt: get(rtt),
                window,
            });
        }
    }
    (!found.is_empty()).then_some(found)
}

fn thinned(samples: &[Sample]) -> Vec<Sample> {
    let stride = samples.len().div_ceil(MOST_POINTS).max(1);
    samples.iter().copied().step_by(stride).collect()
}

fn goodput(samples: &[Sample]) -> Vec<(f64, f64)> {
    samples
        .windows(2)
        .map(|pair| {
            let [before, now] = [pair[0], pair[1]];
            let rate = (now.received - before.received) * 8.0 / (now.at - before.at) / 1e6;
            (now.at, rate)
        })
        .collect()
}

/// Names of connections, by number, as the first cell that has them calls them.
fn names(data: &Data<'_>, cells: &[usize]) -> BTreeMap<usize, String> {
    let table = &data.results.flows;
    let mut names = BTreeMap::new();
    let columns = (
        table.position("cell"),
        table.position("connection"),
        table.position("flow"),
    );
    let (Some(cell), Some(connection), Some(flow)) = columns else {
        return names;
    };
    for row in &table.rows {
        let number = |index: usize| row.get(index).and_then(Value::as_number);
        let wanted = number(cell).is_some_and(|number| cells.contains(&(number as usize)));
        if let (true, Some(connection)) = (wanted, number(connection)) {
            let name = row.get(flow).and_then(Value::as_text).unwrap_or_default();
            let name = format!("{name} (connection {connection})");
            names.entry(connection as usize).or_insert(name);
        }
    }
    names
}

fn cell_name(data: &Data<'_>, index: usize) -> String {
    let Some(cell) = data.cell(index) else {
        return String::new();
    };
    let mut name = format!("cell {index}: {}", data.solution(cell.solution));
    let point = data.point_name(cell.point, None);
    if !point.is_empty() {
        name.push_str(&format!(", {point}"));
    }
    name
}

/// Distributions of the delays of items.
pub(super) fn items(data: &Data<'_>) -> Option<Section> {
    let table = &data.results.items;
    let (cell, delay) = (table.position("cell")?, table.position("delay_ms")?);
    if table.rows.is_empty() {
        return None;
    }
    let panels_wanted = data.plan.points.len() <= MOST_PANELS;
    // By point (or all in one) and solution: delays, and how many items there were.
    let mut found: BTreeMap<(usize, usize), (Vec<f64>, usize)> = BTreeMap::new();
    for row in &table.rows {
        let number = row.get(cell).and_then(Value::as_number);
        let Some(of) = number.and_then(|number| data.cell(number as usize)) else {
            continue;
        };
        let point = if panels_wanted { of.point } else { 0 };
        let (delays, all) = found.entry((point, of.solution)).or_default();
        delays.extend(row.get(delay).and_then(Value::as_number));
        *all += 1;
    }
    let points = if panels_wanted {
        data.all_points()
    } else {
        vec![0]
    };
    let panels: Vec<(String, Box<dyn Panel>)> = points
        .into_iter()
        .map(|point| {
            let curves = data.solutions().map(|solution| {
                let ecdf = found
                    .get(&(point, solution))
                    .and_then(|(delays, all)| Ecdf::new(delays, *all));
                (solution, data.solution(solution).to_owned(), ecdf)
            });
            let name = if panels_wanted {
                data.point_name(point, None)
            } else {
                String::new()
            };
            let curves = curves.collect();
            (
                name,
                curves_over("delay (ms)".to_owned(), "share of items", curves),
            )
        })
        .collect();
    let note = "all items of the measured connections, over repetitions and the points of a \
                panel; a curve that ends below 1 misses items that never came whole";
    let picture = Picture::panels(
        "items-ecdf",
        "Delay of items, from wanted to complete".to_owned(),
        note.to_owned(),
        panels,
    );
    Some(Section {
        heading: "Items".to_owned(),
        blocks: vec![
            Block::Text(
                "An item is an object, message, datagram or segment; its delay runs from when it \
                 was wanted to when all of it had come."
                    .to_owned(),
            ),
            Block::Picture(picture.with_legend(data.legend(data.solutions()))),
        ],
    })
}
