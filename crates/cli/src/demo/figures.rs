//! The table, and the words that say what its figures mean.

use std::{fmt::Write as _, time::Duration};

use tautline_sim::{DirectionConfig, JitterOrder, LossModel, format_duration, format_rate};

use super::{Run, cell::Measured};
use tautline_lab::report::chart::{Cell, Column, Row, Table};

/// What the terminal shows.
pub(super) fn text(run: &Run) -> String {
    let mut out = headline(run);
    out.push_str("\n\n");
    out.push_str(&table(run).to_text());
    for cell in run.cells.iter() {
        if let Some(problem) = &cell.problem {
            let _ = write!(out, "\n{} {}: {problem}", cell.link, cell.controller);
        }
    }
    out.push('\n');
    for (term, meaning) in definitions() {
        let _ = writeln!(out, "{term}: {meaning}");
    }
    let _ = writeln!(out, "\nSHA-256 {}", run.payload.digest);
    out.push_str(&verdict(run));
    out.push('\n');
    out
}

/// What was done.
pub(super) fn headline(run: &Run) -> String {
    format!(
        "Moved {} from a server to a client over {}, simulated, with seed {}.",
        run.payload.describe(),
        match run.links.as_slice() {
            [link] => format!("the link {link}"),
            links => format!("{} links", links.len()),
        },
        run.seed
    )
}

/// Whether it worked.
pub(super) fn verdict(run: &Run) -> String {
    let all = run.cells.len();
    match run.failed() {
        0 if all == 1 => "The transfer arrived complete, with the same SHA-256.".to_owned(),
        0 => format!("All {all} transfers arrived complete, with the same SHA-256."),
        failed => format!("{failed} of {all} transfers failed."),
    }
}

/// One row per transfer.
pub(super) fn table(run: &Run) -> Table {
    let mut table = Table {
        columns: vec![
            Column::text("link"),
            Column::text("controller"),
            Column::number("time", "s"),
            Column::number("goodput", "Mb/s"),
            Column::number("bound R", "Mb/s"),
            Column::number("utilisation", "%"),
            Column::number("lost", "packets"),
            Column::number("dropped", "packets"),
            Column::number("retransmitted", "bytes"),
            Column::text("SHA-256"),
        ],
        rows: Vec::new(),
    };
    for link in &run.links {
        for (index, cell) in run.of_link(link).enumerate() {
            table.rows.push(row(cell, index == 0));
        }
    }
    table
}

fn row(cell: &Measured, begins_group: bool) -> Row {
    let maybe = |text: Option<String>| Cell::new(text.unwrap_or_else(|| "-".to_owned()));
    let cells = vec![
        Cell::new(&cell.link),
        Cell::new(&cell.controller),
        maybe(
            cell.completion
                .map(|time| format!("{:.3}", time.as_secs_f64())),
        ),
        maybe(
            cell.goodput()
                .map(|goodput| format!("{:.3}", goodput / 1e6)),
        ),
        Cell::new(format!("{:.3}", cell.bound() / 1e6)),
        maybe(
            cell.utilisation()
                .map(|share| format!("{:.1}", share * 100.0)),
        ),
        maybe(
            cell.sender
                .map(|sender| sender.path.recovery.packets_lost.to_string()),
        ),
        Cell::new(cell.wire.dropped.total().to_string()),
        maybe(
            cell.sender
                .map(|sender| sender.streams.retransmitted_bytes.to_string()),
        ),
        match (cell.verified, cell.digest) {
            (true, _) => Cell::new("verified"),
            (false, Some(_)) => Cell::bad("WRONG"),
            (false, None) => Cell::bad("FAILED"),
        },
    ];
    Row {
        begins_group,
        cells,
    }
}

/// What the figures of the table mean.
pub(super) fn definitions() -> Vec<(&'static str, &'static str)> {
    vec![
        (
            "time",
            "simulated, from connect() to the last byte at the application",
        ),
        ("goodput", "application bytes delivered in order / time"),
        (
            "bound R",
            "0.9588 x capacity x (1 - loss), the most application bytes that 1,452-byte UDP \
             payloads can carry; capacity is the link rate counted in IP bytes",
        ),
        (
            "utilisation",
            "goodput / capacity; a short transfer spends much of it starting",
        ),
        ("lost", "packets that the sender declared lost"),
        (
            "dropped",
            "the sender's packets that the link dropped, by a full queue or by its loss",
        ),
        ("retransmitted", "stream bytes sent again"),
    ]
}

/// What a link is, in words.
pub(super) fn describe(direction: &DirectionConfig, round_trip: Duration) -> String {
    let mut text = match direction.rate {
        Some(rate) => format_rate(rate),
        None => "no rate limit".to_owned(),
    };
    let _ = write!(text, ", one-way delay {}", format_duration(direction.delay));
    if let Some(jitter) = &direction.jitter {
        let order = match jitter.order {
            JitterOrder::Fifo => "in order",
            _ => "reordering",
        };
        let _ = write!(text, " +- {} ({order})", format_duration(jitter.spread));
    }
    match &direction.loss {
        LossModel::None => text.push_str(", no loss"),
        LossModel::Uniform { probability, .. } => {
            let _ = write!(text, ", loss {:.1} %", probability * 100.0);
        }
        LossModel::Gilbert {
            probability,
            mean_burst,
            ..
        } => {
            let share = probability * 100.0;
            let _ = write!(
                text,
                ", loss {share:.1} % in bursts of {mean_burst} (Gilbert)"
            );
        }
        other => {
            let _ = write!(text, ", loss {:.1} %", other.mean_rate() * 100.0);
        }
    }
    let _ = write!(text, ", drop-tail queue of {}", direction.queue);
    if let Some(bdp) = bdp(direction, round_trip) {
        let _ = write!(text, "; the BDP is {:.1} kB", bdp / 1e3);
    }
    text
}

/// Bandwidth-delay product in bytes.
pub(super) fn bdp(direction: &DirectionConfig, round_trip: Duration) -> Option<f64> {
    Some(direction.rate?.bytes_per_second() as f64 * round_trip.as_secs_f64())
}
