//! The table, and the words that say what its figures mean.

use std::{fmt::Write as _, time::Duration};

use tautline_sim::{DirectionConfig, JitterOrder, LossModel, format_duration, format_rate};

use super::{Beside, Run, cell::Measured, pairs, requests};
use tautline_lab::report::chart::{Cell, Column, Row, Table};

/// What the terminal shows.
pub(super) fn text(run: &Run) -> String {
    let mut out = headline(run);
    out.push_str("\n\n");
    out.push_str(&table(run).to_text());
    for line in beside(run).into_iter().chain(problems(run)) {
        let _ = write!(out, "\n{line}");
    }
    out.push_str("\n\n");
    out.push_str(&requests::text(&run.requests));
    out.push('\n');
    out.push_str(&pairs::text(&run.pairs));
    for (term, meaning) in definitions(run) {
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
        "Moved {} from a server to a client over {}, simulated, with seed {}{}.",
        run.payload.describe(),
        match run.links.as_slice() {
            [link] => format!("the link {link}"),
            links => format!("{} links", links.len()),
        },
        run.seed,
        match &run.fec {
            Some(fec) =>
                format!("; plain, and again with erasure correction (FEC) as {fec} decides"),
            None => String::new(),
        }
    )
}

/// What erasure correction does to the transfers; bulk has little to gain.
pub(super) fn beside(run: &Run) -> Option<String> {
    let ratio = |it: Beside<'_>| {
        let (plain, coded) = (it.plain.completion?, it.coded?.completion?);
        Some(coded.as_secs_f64() / plain.as_secs_f64())
    };
    let mut ratios: Vec<f64> = run.pairs().filter_map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios.first()?, ratios.last()?);
    let same = ratios
        .iter()
        .filter(|it| (**it - 1.0).abs() <= 0.01)
        .count();
    Some(format!(
        "With FEC, {same} of {} transfers take the same time within 1 %; ratios are {least:.3} to \
         {most:.3}. Bulk has little to gain from it. Each is one run: where packets are lost by chance, \
         other packets are lost once the two differ, and that goes either way.",
        ratios.len()
    ))
}

/// What failed.
pub(super) fn problems(run: &Run) -> Vec<String> {
    let line = |cell: &Measured, arm: &str| {
        let problem = cell.problem.as_ref()?;
        Some(format!("{} {}{arm}: {problem}", cell.link, cell.controller))
    };
    let plain = run.cells.iter().filter_map(|cell| line(cell, ""));
    let coded = run.coded.iter().filter_map(|cell| line(cell, " with FEC"));
    plain.chain(coded).collect()
}

/// Whether it worked.
pub(super) fn verdict(run: &Run) -> String {
    let all = run.transfers();
    match run.failed() {
        0 if all == 1 => "The transfer arrived complete, with the same SHA-256.".to_owned(),
        0 => format!("All {all} transfers arrived complete, with the same SHA-256."),
        failed => format!("{failed} of {all} transfers failed."),
    }
}

/// One row per transfer.
pub(super) fn table(run: &Run) -> Table {
    let coded = run.fec.is_some();
    let mut columns = vec![
        Column::text("link"),
        Column::text("controller"),
        Column::number("time", "s"),
    ];
    if coded {
        columns.push(Column::number("with FEC", "s"));
    }
    columns.extend([
        Column::number("goodput", "Mb/s"),
        Column::number("bound R", "Mb/s"),
        Column::number("utilisation", "%"),
        Column::number("lost", "packets"),
        Column::number("dropped", "packets"),
        Column::number("retransmitted", "bytes"),
    ]);
    if coded {
        columns.push(Column::number("repair", "symbols"));
    }
    columns.push(Column::text("SHA-256"));
    let mut table = Table {
        columns,
        rows: Vec::new(),
    };
    let mut link = None;
    for pair in run.pairs() {
        let begins_group = link != Some(&pair.plain.link);
        link = Some(&pair.plain.link);
        table.rows.push(row(pair, begins_group));
    }
    table
}

fn row(Beside { plain: cell, coded }: Beside<'_>, begins_group: bool) -> Row {
    let maybe = |text: Option<String>| Cell::new(text.unwrap_or_else(|| "-".to_owned()));
    let seconds = |cell: &Measured| {
        maybe(
            cell.completion
                .map(|time| format!("{:.3}", time.as_secs_f64())),
        )
    };
    let mut cells = vec![
        Cell::new(&cell.link),
        Cell::new(&cell.controller),
        seconds(cell),
    ];
    cells.extend(coded.map(seconds));
    cells.extend([
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
    ]);
    cells.extend(coded.map(|coded| {
        let sender = coded.sender;
        maybe(sender.map(|sender| sender.fec.repairs_sent.to_string()))
    }));
    // The worse of both.
    let worse = coded.filter(|coded| cell.succeeded() && !coded.succeeded());
    let judged = worse.unwrap_or(cell);
    cells.push(match (judged.verified, judged.digest) {
        (true, _) => Cell::new("verified"),
        (false, Some(_)) => Cell::bad("WRONG"),
        (false, None) => Cell::bad("FAILED"),
    });
    Row {
        begins_group,
        cells,
    }
}

/// What the figures of the table mean.
pub(super) fn definitions(run: &Run) -> Vec<(&'static str, &'static str)> {
    let mut all = vec![
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
    ];
    if run.fec.is_some() {
        all.push((
            "with FEC",
            "the same with forward erasure correction negotiated; goodput and what follows it, but for \
             repair, are of the plain transfer",
        ));
    }
    all.extend(requests::definitions(&run.requests));
    all.extend(pairs::definitions(&run.pairs));
    all
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
