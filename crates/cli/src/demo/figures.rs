//! The table, and the words that say what its figures mean.

use std::{fmt::Write as _, time::Duration};

use tautline_sim::{DirectionConfig, JitterOrder, LossModel, format_duration, format_rate};

use super::{Beside, Run, apps::SenderView, cell::Measured, pairs, requests, runs::Runs};
use tautline_lab::{
    report::chart::{Cell, Column, Row, Table},
    stats,
};

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
        "Moved {} from a server to a client over {}, simulated, {} {}{}.{}",
        run.payload.describe(),
        match run.links.as_slice() {
            [link] => format!("the link {link}"),
            links => format!("{} links", links.len()),
        },
        match run.seeds {
            1 => "with seed".to_owned(),
            seeds => format!("{seeds} times each, with seeds"),
        },
        seeds_of(run),
        match &run.fec {
            Some(fec) =>
                format!("; plain, and again with erasure correction (FEC) as {fec} decides"),
            None => String::new(),
        },
        match (run.seeds, &run.fec) {
            (1, _) => String::new(),
            (seeds, None) => format!(" Figures are medians of {seeds} runs."),
            (seeds, Some(_)) => format!(
                " Figures are medians of {seeds} runs, ratios medians of the ratios of each seed."
            ),
        },
    )
}

/// Which seeds the transfers have.
pub(super) fn seeds_of(run: &Run) -> String {
    match run.seeds {
        1 => run.seed.to_string(),
        seeds => {
            let last = run.seed.wrapping_add(seeds as u64 - 1);
            format!("{} to {last}", run.seed)
        }
    }
}

/// What erasure correction does to the transfers; bulk has little to gain.
pub(super) fn beside(run: &Run) -> Option<String> {
    let ratios = stats::sorted(&run.pairs().filter_map(Beside::ratio).collect::<Vec<_>>());
    let (least, most) = (ratios.first()?, ratios.last()?);
    let same = ratios
        .iter()
        .filter(|it| (**it - 1.0).abs() <= 0.01)
        .count();
    let single: Vec<f64> = run.pairs().filter_map(Beside::ratios).flatten().collect();
    let single = stats::sorted(&single);
    let (in_the_median, single) = match run.seeds {
        1 => ("", "Each is one run".to_owned()),
        _ => (
            " in the median",
            format!(
                "Those of single seeds are {:.3} to {:.3}",
                single.first()?,
                single.last()?
            ),
        ),
    };
    Some(format!(
        "With FEC, {same} of {} transfers take the same time within 1 %{in_the_median}; ratios are \
         {least:.3} to {most:.3}. Bulk has little to gain from a code, \
         and pays for one that always sends. {single}: where packets are lost by \
         chance, other packets are lost once the two differ, and that goes either way.",
        ratios.len()
    ))
}

/// What failed.
pub(super) fn problems(run: &Run) -> Vec<String> {
    let line = |cell: &Measured, arm: &str| {
        let problem = cell.problem.as_ref()?;
        let (link, controller, seed) = (&cell.link, &cell.controller, cell.seed);
        Some(format!("{link} {controller}{arm}, seed {seed}: {problem}"))
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
        0 if run.seeds == 1 => {
            format!("All {all} transfers arrived complete, with the same SHA-256.")
        }
        0 => format!(
            "All {all} transfers, {} of each, arrived complete, with the same SHA-256.",
            run.seeds
        ),
        failed => format!("{failed} of {all} transfers failed."),
    }
}

/// One row per transfer, with the medians of its runs.
pub(super) fn table(run: &Run) -> Table {
    let coded = run.fec.is_some();
    let mut columns = vec![
        Column::text("link"),
        Column::text("controller"),
        Column::number("time", "s"),
    ];
    if coded {
        columns.push(Column::number("with FEC", "s"));
        columns.push(Column::number("ratio", ""));
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
        let begins_group = link != Some(&pair.plain.first.link);
        link = Some(&pair.plain.first.link);
        table.rows.push(row(pair, begins_group));
    }
    table
}

fn row(pair: Beside<'_>, begins_group: bool) -> Row {
    let Beside { plain, coded } = pair;
    let number = |value: Option<f64>, places: usize| {
        Cell::new(value.map_or_else(|| "-".to_owned(), |value| format!("{value:.places$}")))
    };
    let mut cells = vec![
        Cell::new(&plain.first.link),
        Cell::new(&plain.first.controller),
        number(plain.seconds(), 3),
    ];
    if let Some(coded) = coded {
        cells.push(number(coded.seconds(), 3));
        cells.push(number(pair.ratio(), 3));
    }
    let count = |runs: Runs<'_>, figure: fn(&SenderView) -> u64| {
        number(runs.count(|run| run.sender.as_ref().map(figure)), 0)
    };
    cells.extend([
        number(plain.goodput().map(|goodput| goodput / 1e6), 3),
        number(
            Some(plain.first.bound() / 1e6).filter(|bound| bound.is_finite()),
            3,
        ),
        number(plain.utilisation().map(|share| share * 100.0), 1),
        count(plain, |sender| sender.path.recovery.packets_lost),
        number(plain.count(|run| Some(run.wire.dropped.total())), 0),
        count(plain, |sender| sender.streams.retransmitted_bytes),
    ]);
    cells.extend(coded.map(|coded| count(coded, |sender| sender.fec.repairs_sent)));
    // Of both.
    let failed = coded.into_iter().chain([plain]).map(Runs::failed);
    let (wrong, failed) = failed.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    cells.push(match (wrong, failed) {
        (0, 0) => Cell::new("verified"),
        (wrong, 0) => Cell::bad(format!("{wrong} WRONG")),
        (0, failed) => Cell::bad(format!("{failed} FAILED")),
        (wrong, failed) => Cell::bad(format!("{wrong} WRONG, {failed} FAILED")),
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
        all.extend([
            (
                "with FEC",
                "the same with forward erasure correction negotiated; goodput and what follows it, but \
                 for repair, are of the plain transfer",
            ),
            (
                "ratio",
                "time with FEC / time without, of the same seed; of several seeds the median, which need \
                 not be that of the medians",
            ),
        ]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::runs::tests::runs;

    #[test]
    fn a_row_is_verified_if_every_run_is() {
        let said = |plain: &[Measured], coded: &[Measured]| {
            let pair = Beside {
                plain: Runs::new(plain).unwrap(),
                coded: Runs::new(coded),
            };
            row(pair, false).cells.pop().unwrap().text
        };
        let (good, bad) = (runs(&[Some(1.0); 3]), runs(&[Some(1.0), None, None]));
        assert_eq!(said(&good, &good), "verified");
        assert_eq!(said(&good, &[]), "verified");
        assert_eq!(said(&good, &bad), "2 FAILED");
        assert_eq!(said(&bad, &bad), "4 FAILED");
        let mut wrong = runs(&[Some(1.0); 3]);
        wrong[2].verified = false;
        assert_eq!(said(&wrong, &good), "1 WRONG");
        assert_eq!(said(&wrong, &bad), "1 WRONG, 2 FAILED");
    }
}
