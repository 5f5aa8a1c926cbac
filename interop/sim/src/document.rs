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

/// Why cells are outside.
struct Explanation {
    congestion: &'static str,
    ahead: Ahead,
    /// As they are printed.
    cells: &'static [&'static str],
    /// In one sentence.
    why: &'static str,
}

/// Each was verified by giving ours the other behaviour in a throw-away build; whoever changes a
/// controller does so again.
const EXPLANATIONS: &[Explanation] = &[
    // Keeping them, ours is at 0.98, 0.96 (1.01 with 40 other seeds), 1.00 and 0.97.
    Explanation {
        congestion: "newreno",
        ahead: Ahead::Theirs,
        cells: &[
            "5 Mb/s, 50 ms, 1 % loss, queue 1 BDP",
            "10 Mb/s, 200 ms, 0.5 % loss, queue 1 BDP",
            "20 Mb/s, 25 ms, 0.5 % loss, queue 2 BDP",
            "100 Mb/s, 20 ms, 1 % loss, queue 1 BDP",
        ],
        why: "At a halving quinn-proto keeps the acknowledged bytes that have not yet earned a \
            datagram, which are worth twice as much in the smaller window; ours halves what they \
            have earned, as RFC 9002 appendix B.5 has it.",
    },
    // Seen in traces of both windows.
    Explanation {
        congestion: "newreno",
        ahead: Ahead::Ours,
        cells: &[
            "50 Mb/s, 200 ms, 0 % loss, queue 0.5 BDP",
            "20 Mb/s, 600 ms, 0 % loss, queue 0.5 BDP",
        ],
        why: "Slow start overshoots a small queue: ours learns of it at 1.6 times what path and \
            queue hold and halves once, quinn-proto at a little over 2 times, so that half of it \
            overflows again and it halves twice, which the rest of the run does not make good.",
    },
    // With that estimate ours is at 1.02, 0.92, 1.02 and 0.98 instead of 1.10, 1.08, 1.13 and 1.06.
    Explanation {
        congestion: "cubic",
        ahead: Ahead::Ours,
        cells: &[
            "10 Mb/s, 100 ms, 0.1 % loss, queue 1 BDP",
            "20 Mb/s, 25 ms, 0.5 % loss, queue 2 BDP",
            "50 Mb/s, 40 ms, 0.1 % loss, queue 0.5 BDP",
            "100 Mb/s, 100 ms, 0.5 % loss, queue 1 BDP",
        ],
        why: "Ours estimates what Reno would have by RFC 9438 s4.3, from the present window and \
            by a whole datagram per round trip once past the old maximum; quinn-proto's estimate \
            is RFC 8312's, which starts at 0.7 of a maximum that fast convergence lowered and \
            grows by 0.53 throughout.",
    },
];

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn goodput(row: &Value, stack: &str) -> f64 {
    number(&row[stack]["goodput_bits_per_second"])
}

/// Whether a cell needs no word. A ratio that is no number does.
pub fn is_within(ratio: f64) -> bool {
    (1.0 - WITHIN..=1.0 + WITHIN).contains(&ratio)
}

fn is_outside(row: &Value) -> bool {
    !is_within(number(&row["ratio"]))
}

fn explanation(row: &Value) -> Option<&'static str> {
    let ahead = if number(&row["ratio"]) > 1.0 {
        Ahead::Ours
    } else {
        Ahead::Theirs
    };
    EXPLANATIONS
        .iter()
        .find(|candidate| {
            row["congestion"] == candidate.congestion
                && candidate.ahead == ahead
                && candidate.cells.iter().any(|cell| row["cell"] == *cell)
        })
        .map(|explanation| explanation.why)
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
        let reached = ours >= least;
        if !reached {
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
