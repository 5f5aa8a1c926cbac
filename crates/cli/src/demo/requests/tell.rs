//! What the requests gave, in words, a table, pictures and JSON.

use std::fmt::Write as _;

use serde::Serialize;
use tautline_lab::report::chart::{
    Block, Cell, Column, LegendEntry, LineChart, Row, Section, Series, Table,
};

use super::{Compared, PER_CONNECTION, Requests, Tally, client::PAUSE};
use crate::demo::figures::describe;

/// A difference below this share is none: the two arms part at the first packet that one of them
/// sends and the other does not, and meet other chances after it.
const NOISE: f64 = 0.01;
/// Places in the palette.
const SLOTS: [(&str, usize); 2] = [("plain", 0), ("with erasure correction", 1)];

/// What the terminal shows.
pub(in crate::demo) fn text(requests: &Requests) -> String {
    let mut out = headline(requests);
    out.push_str("\n\n");
    out.push_str(&table(requests).to_text());
    for line in verdicts(requests).into_iter().chain(problems(requests)) {
        let _ = write!(out, "\n{line}");
    }
    out.push('\n');
    out
}

/// The part of the page.
pub(in crate::demo) fn section(requests: &Requests) -> Section {
    let mut blocks = vec![
        Block::Text(headline(requests)),
        Block::Table(table(requests)),
    ];
    let mut list = verdicts(requests);
    list.extend(problems(requests));
    if !list.is_empty() {
        blocks.push(Block::List(list));
    }
    let arms = if requests.fec.is_some() { 2 } else { 1 };
    let legend = SLOTS.iter().take(arms).map(|(name, slot)| LegendEntry {
        name: (*name).to_owned(),
        slot: *slot,
    });
    blocks.push(Block::Legend(legend.collect()));
    blocks.push(Block::Lines(requests.links.iter().map(chart).collect()));
    Section {
        heading: "Small requests".to_owned(),
        blocks,
    }
}

fn headline(requests: &Requests) -> String {
    let each = requests.links.first().map_or(0, |it| it.plain.wanted);
    let mut text = format!(
        "Small requests: {each} of {} bytes over each link, {PER_CONNECTION} to a connection, {} s \
         apart, with {}",
        requests.payload.len(),
        PAUSE.as_secs(),
        requests.controller,
    );
    match &requests.fec {
        Some(fec) => {
            let _ = write!(
                text,
                "; plain, and again with erasure correction (FEC) as {fec} decides."
            );
        }
        None => text.push_str("; plain QUIC, without erasure correction."),
    }
    text
}

/// One row per link, plain and coded side by side.
fn table(requests: &Requests) -> Table {
    let coded = requests.fec.is_some();
    let mut columns = vec![Column::text("link")];
    for percentile in ["median", "p95", "p99"] {
        columns.push(Column::number(percentile, "ms"));
        if coded {
            columns.push(Column::number("with FEC", "ms"));
        }
    }
    columns.push(Column::number("dropped", "packets"));
    if coded {
        columns.push(Column::number("repair", "symbols"));
        columns.push(Column::number("recovered", "packets"));
        columns.push(Column::number("wasted", "symbols"));
        columns.push(Column::number("bytes", "%"));
    }
    columns.push(Column::text("SHA-256"));
    Table {
        columns,
        rows: requests.links.iter().map(row).collect(),
    }
}

fn row(it: &Compared) -> Row {
    let millis = |value: Option<f64>| {
        Cell::new(value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}")))
    };
    let mut cells = vec![Cell::new(&it.link)];
    let plain = it.plain.percentiles();
    let coded = it.coded.as_ref().map(Tally::percentiles);
    for (index, plain) in plain.into_iter().enumerate() {
        cells.push(millis(plain));
        if let Some(coded) = &coded {
            cells.push(millis(coded.get(index).copied().flatten()));
        }
    }
    cells.push(Cell::new(it.plain.dropped.to_string()));
    let (mut answered, mut wanted) = (it.plain.answered(), it.plain.wanted);
    if let Some(coded) = &it.coded {
        cells.push(Cell::new(coded.repairs.to_string()));
        cells.push(Cell::new(coded.recovered.to_string()));
        cells.push(Cell::new(coded.wasted.to_string()));
        cells.push(Cell::new(extra_bytes(&it.plain, coded).map_or_else(
            || "-".to_owned(),
            |share| format!("{:+.1}", share * 100.0),
        )));
        answered += coded.answered();
        wanted += coded.wanted;
    }
    cells.push(if answered == wanted {
        Cell::new("verified")
    } else {
        Cell::bad(format!("{} FAILED", wanted - answered))
    });
    Row {
        begins_group: false,
        cells,
    }
}

/// Bytes with erasure correction over those without, less one; of whole series only.
fn extra_bytes(plain: &Tally, coded: &Tally) -> Option<f64> {
    let whole = |it: &Tally| it.answered() == it.wanted && it.bytes > 0;
    (whole(plain) && whole(coded)).then(|| coded.bytes as f64 / plain.bytes as f64 - 1.0)
}

/// What that means, link by link; nothing without erasure correction.
fn verdicts(requests: &Requests) -> Vec<String> {
    requests.links.iter().filter_map(verdict).collect()
}

/// Gain, loss or neither, in words that are chosen by the figures alone.
fn verdict(it: &Compared) -> Option<String> {
    let coded = it.coded.as_ref()?;
    let name = &it.link;
    let (before, after) = (it.plain.percentiles(), coded.percentiles());
    let Some(bytes) = extra_bytes(&it.plain, coded) else {
        return Some(format!("{name}: requests failed, so nothing is compared."));
    };
    let mut better = Vec::new();
    let mut worse = Vec::new();
    for ((label, before), after) in ["median", "p95", "p99"].iter().zip(before).zip(after) {
        let (Some(before), Some(after)) = (before, after) else {
            continue;
        };
        let change = after / before - 1.0;
        let said = format!("{label} {:+.0} %", change * 100.0);
        if change < -NOISE {
            better.push(said);
        } else if change > NOISE {
            worse.push(said);
        }
    }
    let cost = format!("{:+.1} % bytes", bytes * 100.0);
    Some(match (better.is_empty(), worse.is_empty()) {
        (false, true) => format!("{name}: faster: {}, for {cost}.", better.join(", ")),
        (false, false) => format!(
            "{name}: better and worse: {}; but {}, for {cost}.",
            better.join(", "),
            worse.join(", ")
        ),
        (true, false) => format!("{name}: worse: {}, with {cost}.", worse.join(", ")),
        (true, true) if it.plain.dropped == 0 => {
            format!("{name}: nothing gained, for nothing was lost; {cost}.")
        }
        (true, true) => format!("{name}: nothing gained in these percentiles; {cost}."),
    })
}

fn problems(requests: &Requests) -> Vec<String> {
    let mut lines = Vec::new();
    for it in &requests.links {
        let arms = [
            Some(("plain", &it.plain)),
            it.coded.as_ref().map(|it| ("FEC", it)),
        ];
        for (arm, tally) in arms.into_iter().flatten() {
            for problem in &tally.problems {
                lines.push(format!("{} {arm}: {problem}", it.link));
            }
        }
    }
    lines
}

/// The distribution of times over one link.
fn chart(it: &Compared) -> LineChart {
    let [plain, coded] = SLOTS;
    let arms = [
        Some((plain, &it.plain)),
        it.coded.as_ref().map(|it| (coded, it)),
    ];
    LineChart {
        title: it.link.clone(),
        note: describe(&it.config.backward, it.config.round_trip()),
        x_label: "time of a request (ms)".to_owned(),
        y_unit: "% done".to_owned(),
        y_limit: None,
        series: arms
            .into_iter()
            .flatten()
            .map(|((name, slot), tally)| Series {
                name: name.to_owned(),
                slot,
                points: distribution(tally),
            })
            .collect(),
        references: Vec::new(),
    }
}

/// Which share of all requests was done within a time; ends below 100 % by those that failed.
fn distribution(tally: &Tally) -> Vec<(f64, f64)> {
    let mut sorted = tally.millis.clone();
    sorted.sort_by(f64::total_cmp);
    let all = tally.wanted.max(1) as f64;
    let start = sorted.first().map(|first| (*first, 0.0));
    let steps = sorted
        .iter()
        .enumerate()
        .map(|(index, time)| (*time, (index + 1) as f64 / all * 100.0));
    start.into_iter().chain(steps).collect()
}

/// What the figures of the table mean.
pub(in crate::demo) fn definitions(requests: &Requests) -> Vec<(&'static str, &'static str)> {
    let mut all = vec![(
        "median, p95, p99",
        "simulated time from a request to the last byte of its answer; connections are set up before",
    )];
    if requests.fec.is_some() {
        all.extend([
            (
                "repair, recovered, wasted",
                "repair symbols sent; lost packets that the client rebuilt from them; repair symbols \
                 that arrived and told nothing new, for nothing was lost or all was there",
            ),
            (
                "bytes",
                "UDP payload that the server sent, against plain: what is paid",
            ),
        ]);
    }
    all
}

/// The JSON of [`answers`].
#[derive(Serialize)]
pub(in crate::demo) struct Answers<'a> {
    answer_bytes: u64,
    controller: &'a str,
    fec: Option<&'a str>,
    links: Vec<Link<'a>>,
}

#[derive(Serialize)]
struct Link<'a> {
    link: &'a str,
    plain: Arm<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    with_fec: Option<Arm<'a>>,
}

/// Packets and bytes are those of the server; recovered and wasted those of the client.
#[derive(Serialize)]
struct Arm<'a> {
    requests: usize,
    answered: usize,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    problems: &'a [String],
    median_ms: Option<f64>,
    p95_ms: Option<f64>,
    p99_ms: Option<f64>,
    packets_dropped: u64,
    udp_payload_bytes: u64,
    retransmitted_bytes: u64,
    repair_symbols_sent: u64,
    packets_recovered: u64,
    repair_symbols_wasted: u64,
}

/// The results for programs.
pub(in crate::demo) fn answers(requests: &Requests) -> Answers<'_> {
    Answers {
        answer_bytes: requests.payload.len(),
        controller: &requests.controller,
        fec: requests.fec.as_deref(),
        links: requests
            .links
            .iter()
            .map(|it| Link {
                link: &it.link,
                plain: arm(&it.plain),
                with_fec: it.coded.as_ref().map(arm),
            })
            .collect(),
    }
}

fn arm(tally: &Tally) -> Arm<'_> {
    let [median_ms, p95_ms, p99_ms] = tally.percentiles();
    Arm {
        requests: tally.wanted,
        answered: tally.answered(),
        problems: &tally.problems,
        median_ms,
        p95_ms,
        p99_ms,
        packets_dropped: tally.dropped,
        udp_payload_bytes: tally.bytes,
        retransmitted_bytes: tally.retransmitted,
        repair_symbols_sent: tally.repairs,
        packets_recovered: tally.recovered,
        repair_symbols_wasted: tally.wasted,
    }
}

#[cfg(test)]
mod tests {
    use tautline_sim::links;

    use super::*;

    fn compared(plain: &[f64], coded: &[f64], dropped: u64) -> Compared {
        let tally = |millis: &[f64], bytes| Tally {
            wanted: millis.len(),
            millis: millis.to_vec(),
            bytes,
            dropped,
            ..Tally::default()
        };
        Compared {
            link: "wifi".to_owned(),
            config: links::by_name("wifi").unwrap(),
            plain: tally(plain, 1000),
            coded: Some(tally(coded, 1030)),
        }
    }

    #[test]
    fn figures_choose_the_words() {
        let said = |plain: &[f64], coded: &[f64], dropped| {
            verdict(&compared(plain, coded, dropped)).unwrap()
        };
        let same = said(&[10.0; 3], &[10.0; 3], 0);
        assert!(
            same.contains("nothing was lost") && same.contains("+3.0 % bytes"),
            "{same}"
        );
        let same = said(&[10.0; 3], &[10.05; 3], 7);
        assert!(same.contains("nothing gained"), "{same}");
        let better = said(&[10.0, 10.0, 20.0], &[10.0, 10.0, 15.0], 7);
        assert!(
            better.contains("p95 -") && !better.contains("median"),
            "{better}"
        );
        let worse = said(&[10.0; 3], &[12.0; 3], 7);
        assert!(worse.contains("worse: median +20 %"), "{worse}");
        let both = said(&[10.0, 10.0, 20.0], &[11.0, 11.0, 15.0], 7);
        assert!(both.contains("better and worse"), "{both}");
        let mut failed = compared(&[10.0; 3], &[10.0; 3], 7);
        failed.plain.wanted = 4;
        assert!(verdict(&failed).unwrap().contains("failed"));
    }

    #[test]
    fn a_failure_keeps_the_curve_below_all() {
        let tally = Tally {
            wanted: 4,
            millis: vec![3.0, 1.0],
            ..Tally::default()
        };
        assert_eq!(distribution(&tally), [(1.0, 0.0), (1.0, 25.0), (3.0, 50.0)]);
    }
}
