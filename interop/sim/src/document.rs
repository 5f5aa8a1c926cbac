//! The tables as a document, and the bars they must reach.

use std::fmt::Write as _;

use serde_json::Value;

/// Goodput within this share of quinn-proto's needs no word.
const WITHIN: f64 = 0.05;
/// bbr3's goodput on geo without loss, as a share of capacity.
const BBR3_WITHOUT_LOSS: f64 = 0.84;

/// Which stack has the larger goodput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ahead {
    Ours,
    Theirs,
}

/// Why a cell is outside: the cell as it is printed, the controller, who is ahead, one sentence.
/// Whoever changes a controller looks at these again.
const EXPLAINED: &[(&str, &str, Ahead, &str)] = &[];

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn goodput(row: &Value, stack: &str) -> f64 {
    number(&row[stack]["goodput_bits_per_second"])
}

fn is_outside(row: &Value) -> bool {
    // A ratio that is no number is outside, too.
    !((number(&row["ratio"]) - 1.0).abs() <= WITHIN)
}

fn explanation(row: &Value) -> Option<&'static str> {
    let ahead = if number(&row["ratio"]) > 1.0 {
        Ahead::Ours
    } else {
        Ahead::Theirs
    };
    EXPLAINED
        .iter()
        .find(|(cell, congestion, who, _)| {
            row["cell"] == *cell && row["congestion"] == *congestion && *who == ahead
        })
        .map(|(.., sentence)| *sentence)
}

/// What is not as it must be, a line each.
pub fn failures(cells: &[Value], bbr3: &[Value]) -> Vec<String> {
    let mut failures = Vec::new();
    for row in cells.iter().chain(bbr3) {
        for error in row["ours"]["errors"].as_array().into_iter().flatten() {
            failures.push(format!("{}: a run of ours ended: {error}", name(row)));
        }
    }
    for row in cells {
        if is_outside(row) && explanation(row).is_none() {
            let ratio = number(&row["ratio"]);
            failures.push(format!("{}: ratio {ratio:.3}, not explained", name(row)));
        }
    }
    for row in bbr3 {
        let ours = goodput(row, "ours");
        let least = if number(&row["loss"]) == 0.0 {
            BBR3_WITHOUT_LOSS * number(&row["capacity_bits_per_second"])
        } else {
            goodput(row, "noq")
        };
        if !(ours >= least) {
            let (ours, least) = (ours / 1e6, least / 1e6);
            failures.push(format!("{}: {ours:.3} of {least:.3} Mb/s", name(row)));
        }
    }
    failures
}

fn name(row: &Value) -> String {
    match (row["cell"].as_str(), row["congestion"].as_str()) {
        (Some(cell), Some(congestion)) => format!("{cell}, {congestion}"),
        _ => format!("geo, {} % loss, bbr3", 100.0 * number(&row["loss"])),
    }
}

/// Both tables of one run.
pub fn markdown(cells: &[Value], bbr3: &[Value]) -> String {
    let mut text = "# Beside other stacks in the simulator\n\n\
         Made by `cargo xtask bench sim`; do not edit. Every stack gets the same links, seeds (from \
         1 on), durations, datagram sizes, initial windows, receive windows and buffers; TLS and \
         clocks are the simulator's. Goodput is that of the whole run, handshake and slow start \
         included, in Mb/s; a figure is the median over the seeds.\n"
        .to_owned();
    if !cells.is_empty() {
        text += "\n## newreno and cubic over 20 links\n\n\
                 Wanted: within 5 % of quinn-proto, or the difference explained (*).\n\n\
                 | link | controller | seeds | ours | quinn-proto | noq-proto | ours / quinn-proto |\n\
                 |---|---|--:|--:|--:|--:|--:|\n";
        for row in cells {
            let mark = if is_outside(row) { " *" } else { "" };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.3} | {:.3} | {:.3} | {:.3}{mark} |",
                row["cell"].as_str().unwrap_or_default(),
                row["congestion"].as_str().unwrap_or_default(),
                row["seeds"],
                goodput(row, "ours") / 1e6,
                goodput(row, "quinn") / 1e6,
                goodput(row, "noq") / 1e6,
                number(&row["ratio"]),
            );
        }
        let outside: Vec<_> = cells.iter().filter(|row| is_outside(row)).collect();
        if !outside.is_empty() {
            text += "\nOutside 5 %:\n\n";
        }
        for row in outside {
            let sentence = explanation(row).unwrap_or("Not explained yet.");
            let _ = writeln!(text, "- {}: {sentence}", name(row));
        }
    }
    if !bbr3.is_empty() {
        text += "\n## bbr3 on geo\n\n\
                 Wanted: without loss 0.84 of capacity, with loss not below noq-proto's.\n\n\
                 | loss | seeds | ours, of capacity | noq-proto | ours / noq-proto |\n\
                 |--:|--:|--:|--:|--:|\n";
        for row in bbr3 {
            let capacity = number(&row["capacity_bits_per_second"]);
            let (ours, noq) = (goodput(row, "ours"), goodput(row, "noq"));
            let _ = writeln!(
                text,
                "| {} % | {} | {:.4} | {:.4} | {:.3} |",
                100.0 * number(&row["loss"]),
                row["seeds"],
                ours / capacity,
                noq / capacity,
                ours / noq,
            );
        }
    }
    let failures = failures(cells, bbr3);
    text += "\n## Bars\n\n";
    if failures.is_empty() {
        text += "All reached.\n";
    }
    for failure in failures {
        let _ = writeln!(text, "- not reached: {failure}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cell(ratio: f64, errors: &[&str]) -> Value {
        let of = |goodput: f64| json!({ "goodput_bits_per_second": goodput, "errors": [] });
        json!({
            "cell": "5 Mb/s, 20 ms, 0 % loss, queue 0.5 BDP", "congestion": "cubic", "seeds": 3,
            "ours": { "goodput_bits_per_second": 4e6 * ratio, "errors": errors },
            "quinn": of(4e6), "noq": of(4e6), "ratio": ratio,
        })
    }

    fn geo(loss: f64, ours: f64, noq: f64) -> Value {
        let of = |goodput: f64| json!({ "goodput_bits_per_second": goodput, "errors": [] });
        json!({
            "link": "geo", "loss": loss, "seeds": 10, "capacity_bits_per_second": 10e6,
            "ours": of(ours), "noq": of(noq),
        })
    }

    #[test]
    fn bars() {
        assert!(failures(&[cell(1.04, &[])], &[geo(0.0, 8.5e6, 9e6)]).is_empty());
        assert_eq!(failures(&[cell(1.06, &[])], &[]).len(), 1);
        assert_eq!(failures(&[cell(f64::NAN, &[])], &[]).len(), 1);
        assert_eq!(failures(&[cell(1.0, &["timed out"])], &[]).len(), 1);
        assert_eq!(failures(&[], &[geo(0.0, 8.3e6, 1e6)]).len(), 1);
        assert_eq!(failures(&[], &[geo(0.01, 4e6, 5e6)]).len(), 1);
        assert!(failures(&[], &[geo(0.01, 5e6, 5e6)]).is_empty());
    }

    #[test]
    fn the_document_names_what_is_outside() {
        let text = markdown(&[cell(0.9, &[]), cell(1.0, &[])], &[geo(0.01, 5e6, 5e6)]);
        assert!(text.contains("| 0.900 * |") && text.contains("| 1.000 |"));
        assert!(
            text.contains("- 5 Mb/s, 20 ms, 0 % loss, queue 0.5 BDP, cubic: Not explained yet.")
        );
        assert!(text.contains("not reached"));
    }
}
