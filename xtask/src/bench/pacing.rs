//! Gaps between the packets of a paced sender.

use anyhow::Result;
use serde_json::Value;

use super::{
    Options,
    program::{Programs, Running, number},
    report::{Section, Table},
};

const RATES_MBPS: [&str; 3] = ["1", "20", "500"];
/// A full datagram.
const PACKET_BITS: f64 = 1_452.0 * 8.0;

pub(super) fn run(programs: &Programs, options: &Options) -> Result<Section> {
    println!("\nPacing");
    let program = programs.of_ours("bench-ours-pacing");
    let mut runs = Vec::new();
    for rate in RATES_MBPS {
        let mut command = program.command(&programs.identity);
        command.args(["--mbps", rate, "--seconds", &options.seconds.to_string()]);
        runs.push((rate, Running::start(&mut command)?.finish()?));
    }
    let text = format!(
        "Ours only: a sender whose controller asks for a fixed rate; arrival times by the \
         receiving kernel. Datagrams less than 5 us apart are a batch; gaps are between \
         batches.\n\n{}\nShare of packets by the gap before them:\n\n{}",
        summary(&runs).markdown(),
        histogram(&runs).markdown()
    );
    Ok(Section {
        title: "Pacing: gaps between packets".to_owned(),
        command: format!("cargo xtask bench pacing --seconds {}", options.seconds),
        text,
    })
}

fn summary(runs: &[(&str, Value)]) -> Table {
    let head = [
        "Mb/s asked",
        "Mb/s seen",
        "packets",
        "per batch p50",
        "max",
        "fair gap us",
        "p1 us",
        "p50 us",
        "p99 us",
        "max us",
    ];
    let mut table = Table::new(head.map(str::to_owned).to_vec());
    for (rate, run) in runs {
        let value = |name: &str, decimals: usize| format!("{:.decimals$}", number(run, name));
        let asked: f64 = rate.parse().unwrap_or(f64::NAN);
        let fair = PACKET_BITS / asked * number(run, "batch_p50");
        table.row(vec![
            (*rate).to_owned(),
            value("mbps", 2),
            value("packets", 0),
            value("batch_p50", 0),
            value("batch_max", 0),
            format!("{fair:.0}"),
            value("gap_p1_us", 0),
            value("gap_p50_us", 0),
            value("gap_p99_us", 0),
            value("gap_max_us", 0),
        ]);
    }
    table
}

fn histogram(runs: &[(&str, Value)]) -> Table {
    let mut head = vec!["gap below".to_owned()];
    head.extend(runs.iter().map(|(rate, _)| format!("{rate} Mb/s")));
    let mut table = Table::new(head);
    let list = |run: &Value, name: &str| -> Vec<f64> {
        let values = run.get(name).and_then(Value::as_array);
        values
            .into_iter()
            .flatten()
            .filter_map(Value::as_f64)
            .collect()
    };
    let bounds = runs
        .first()
        .map(|(_, run)| list(run, "bounds_us"))
        .unwrap_or_default();
    let counts: Vec<_> = runs.iter().map(|(_, run)| list(run, "counts")).collect();
    for (index, bound) in bounds.iter().enumerate() {
        let mut row = vec![match bound {
            1e9.. => "any".to_owned(),
            1e3.. => format!("{:.0} ms", bound / 1e3),
            _ => format!("{bound:.0} us"),
        }];
        for counts in &counts {
            let all: f64 = counts.iter().sum();
            let share = counts.get(index).copied().unwrap_or(0.0) / all.max(1.0) * 100.0;
            row.push(if share == 0.0 {
                String::new()
            } else {
                format!("{share:.2} %")
            });
        }
        table.row(row);
    }
    table
}
