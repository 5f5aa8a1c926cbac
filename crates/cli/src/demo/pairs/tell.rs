//! What pairs of links gave, in words, a table and JSON.

use std::fmt::Write as _;

use serde::Serialize;
use tautline_lab::report::chart::{Block, Cell, Column, Row, Section, Table};

use super::{Compared, Figures, Pair, Pairs};
use crate::demo::requests::ANSWER_BYTES;

/// What the terminal shows; nothing without pairs.
pub(in crate::demo) fn text(pairs: &Pairs) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let mut out = headline(pairs);
    out.push_str("\n\n");
    out.push_str(&table(pairs).to_text());
    for line in verdicts(pairs).into_iter().chain(problems(pairs)) {
        let _ = write!(out, "\n{line}");
    }
    out.push_str("\n\n");
    out
}

/// The part of the page.
pub(in crate::demo) fn section(pairs: &Pairs) -> Option<Section> {
    if pairs.is_empty() {
        return None;
    }
    let mut list = verdicts(pairs);
    list.extend(problems(pairs));
    Some(Section {
        heading: "Two links at once".to_owned(),
        blocks: vec![
            Block::Text(headline(pairs)),
            Block::Table(table(pairs)),
            Block::List(list),
        ],
    })
}

fn headline(pairs: &Pairs) -> String {
    let mut text = format!(
        "Two links at once (RFC 10069): the file{}, and {} requests of {} bytes, over each link alone \
         and over both, with {}",
        match pairs.seeds {
            1 => String::new(),
            seeds => format!(" (the median of {seeds} runs)"),
        },
        pairs.requests,
        pairs.file.len().min(ANSWER_BYTES),
        pairs.controller,
    );
    match &pairs.fec {
        Some(fec) => {
            let _ = write!(text, "; plain, and again with FEC as {fec} decides.");
        }
        None => text.push_str("; plain QUIC."),
    }
    text
}

/// One row per way, plain and coded side by side.
fn table(pairs: &Pairs) -> Table {
    let coded = pairs.fec.is_some();
    let mut columns = vec![Column::text("links"), Column::text("over")];
    for (name, unit) in [("file", "s"), ("median", "ms"), ("p99", "ms")] {
        columns.push(Column::number(name, unit));
        if coded {
            columns.push(Column::number("with FEC", unit));
        }
    }
    if coded {
        columns.push(Column::number("bytes", "%"));
    }
    columns.push(Column::text("SHA-256"));
    let mut rows = Vec::new();
    for pair in &pairs.pairs {
        for (index, way) in pair.ways.iter().enumerate() {
            rows.push(row(pair, way, index == 0));
        }
    }
    Table { columns, rows }
}

fn row(pair: &Pair, way: &Compared, begins_group: bool) -> Row {
    let number = |value: Option<f64>, places: usize| {
        Cell::new(value.map_or_else(|| "-".to_owned(), |value| format!("{value:.places$}")))
    };
    let mut cells = vec![Cell::new(pair.name.0.join("+")), Cell::new(&way.name)];
    let arms: Vec<&Figures> = std::iter::once(&way.plain).chain(&way.coded).collect();
    cells.extend(arms.iter().map(|arm| number(arm.seconds(), 3)));
    cells.extend(arms.iter().map(|arm| number(arm.median(), 1)));
    cells.extend(arms.iter().map(|arm| number(arm.p99(), 1)));
    if let Some(coded) = &way.coded {
        let share = coded.bytes() / way.plain.bytes().max(1.0) - 1.0;
        cells.push(Cell::new(format!("{:+.1}", share * 100.0)));
    }
    let tallies = arms.iter().flat_map(|arm| [&arm.file, &arm.requests]);
    let failed: usize = tallies
        .map(|tally| tally.wanted.saturating_sub(tally.answered()))
        .sum();
    cells.push(match failed {
        0 => Cell::new("verified"),
        failed => Cell::bad(format!("{failed} FAILED")),
    });
    Row {
        begins_group,
        cells,
    }
}

impl Figures {
    /// The file's time, in the median.
    pub(super) fn seconds(&self) -> Option<f64> {
        self.file.percentiles()[0].map(|millis| millis / 1e3)
    }

    fn median(&self) -> Option<f64> {
        self.requests.percentiles()[0]
    }

    fn p99(&self) -> Option<f64> {
        self.requests.percentiles()[2]
    }

    /// Of the file, the mean of its runs, and the requests, so that the file weighs as one.
    fn bytes(&self) -> f64 {
        self.file.bytes as f64 / self.file.wanted.max(1) as f64 + self.requests.bytes as f64
    }
}

/// Both links against the better one alone, pair by pair, in words that the figures alone choose.
fn verdicts(pairs: &Pairs) -> Vec<String> {
    pairs.pairs.iter().filter_map(verdict).collect()
}

fn verdict(pair: &Pair) -> Option<String> {
    let [first, second, both] = pair.ways.as_slice() else {
        return None;
    };
    let against = |figure: fn(&Figures) -> Option<f64>, both: &Figures| {
        let best = figure(&first.plain)?.min(figure(&second.plain)?);
        Some(format!("{:+.0} %", (figure(both)? / best - 1.0) * 100.0))
    };
    let all = |figures: &Figures| {
        Some(format!(
            "file {}, requests median {}, p99 {}",
            against(Figures::seconds, figures)?,
            against(Figures::median, figures)?,
            against(Figures::p99, figures)?,
        ))
    };
    let mut line = format!(
        "{}: both links against the better one alone, plain, in time: {}",
        pair.name.0.join("+"),
        all(&both.plain)?
    );
    if let Some(coded) = both.coded.as_ref().and_then(all) {
        let _ = write!(line, "; with FEC {coded}");
    }
    line.push('.');
    Some(line)
}

fn problems(pairs: &Pairs) -> Vec<String> {
    let mut lines = Vec::new();
    for pair in &pairs.pairs {
        for way in &pair.ways {
            let arms = [
                Some(("plain", &way.plain)),
                way.coded.as_ref().map(|it| ("FEC", it)),
            ];
            for (arm, figures) in arms.into_iter().flatten() {
                let all = figures
                    .file
                    .problems
                    .iter()
                    .chain(&figures.requests.problems);
                lines.extend(all.map(|problem| {
                    format!(
                        "{} over {} {arm}: {problem}",
                        pair.name.0.join("+"),
                        way.name
                    )
                }));
            }
        }
    }
    lines
}

/// What the figures of the table mean.
pub(in crate::demo) fn definitions(pairs: &Pairs) -> Vec<(&'static str, &'static str)> {
    if pairs.is_empty() {
        return Vec::new();
    }
    vec![(
        "file (two links)",
        "simulated time from the request to the last byte; the connection begins on whichever link completes a \
         handshake first, the second's being tried a quarter of a second after the first's, and the other path opens as \
         soon as that is complete; in bytes, the file counts once",
    )]
}

/// The JSON of [`answers`].
#[derive(Serialize)]
pub(in crate::demo) struct Answers<'a> {
    controller: &'a str,
    fec: Option<&'a str>,
    /// Runs of the file.
    seeds: usize,
    requests: usize,
    pairs: Vec<Of<'a>>,
}

#[derive(Serialize)]
struct Of<'a> {
    links: &'a [String],
    ways: Vec<Way<'a>>,
}

#[derive(Serialize)]
struct Way<'a> {
    over: &'a str,
    plain: Arm<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    with_fec: Option<Arm<'a>>,
}

#[derive(Serialize)]
struct Arm<'a> {
    /// The median.
    file_seconds: Option<f64>,
    /// Runs of the file, by seed but for those that failed.
    file_run_seconds: Vec<f64>,
    requests_answered: usize,
    median_ms: Option<f64>,
    p95_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// That the server sent, for all runs of the file, and for the requests.
    file_udp_payload_bytes: u64,
    file_repair_symbols_sent: u64,
    requests_udp_payload_bytes: u64,
    requests_repair_symbols_sent: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<&'a str>,
}

/// The results for programs.
pub(in crate::demo) fn answers(pairs: &Pairs) -> Answers<'_> {
    Answers {
        controller: &pairs.controller,
        fec: pairs.fec.as_deref(),
        seeds: pairs.seeds,
        requests: pairs.requests,
        pairs: pairs
            .pairs
            .iter()
            .map(|pair| Of {
                links: &pair.name.0,
                ways: pair.ways.iter().map(way).collect(),
            })
            .collect(),
    }
}

fn way(way: &Compared) -> Way<'_> {
    Way {
        over: &way.name,
        plain: arm(&way.plain),
        with_fec: way.coded.as_ref().map(arm),
    }
}

fn arm(figures: &Figures) -> Arm<'_> {
    let [median_ms, p95_ms, p99_ms] = figures.requests.percentiles();
    let problems = figures.file.problems.iter();
    Arm {
        file_seconds: figures.seconds(),
        file_run_seconds: figures.file.millis.iter().map(|it| it / 1e3).collect(),
        requests_answered: figures.requests.answered(),
        median_ms,
        p95_ms,
        p99_ms,
        file_udp_payload_bytes: figures.file.bytes,
        file_repair_symbols_sent: figures.file.repairs,
        requests_udp_payload_bytes: figures.requests.bytes,
        requests_repair_symbols_sent: figures.requests.repairs,
        problems: problems
            .chain(&figures.requests.problems)
            .map(String::as_str)
            .collect(),
    }
}
