//! What a simulated byte costs: megabytes delivered per second of CPU, and how the cost grows.
//!
//! The program is the user's: `tautline lab run` on plans made here, its CPU time as the kernel has it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::{
    Options,
    compare::median,
    program::target,
    report::{Section, Table, verdict},
};
use crate::tools::{self, cargo};

/// Megabytes (10^6) delivered per CPU-second.
const WANTED: f64 = 200.0;
/// Of the logarithm of the cost by that of packets; a cost that grows as they do has 1.
const WANTED_SLOPE: f64 = 0.05;

const SOLUTIONS: [&str; 6] = ["newreno", "cubic", "bbr1", "bbr2", "bbr3", "bbr3-taut"];
/// Simulated seconds of the slope's runs.
const LENGTHS: [u64; 5] = [45, 90, 180, 360, 720];

struct Case {
    name: &'static str,
    flows: u32,
    loss: f64,
    /// Enough for seconds of CPU, which the kernel counts in hundredths.
    seeds: u32,
}

const CASES: [Case; 3] = [
    Case {
        name: "1 flow",
        flows: 1,
        loss: 0.0,
        seeds: 3,
    },
    Case {
        name: "1 flow, 1 % lost",
        flows: 1,
        loss: 0.01,
        seeds: 10,
    },
    Case {
        name: "64 flows",
        flows: 64,
        loss: 0.0,
        seeds: 3,
    },
];

/// What one run of the laboratory did.
struct Played {
    bytes: f64,
    packets: f64,
    cpu: f64,
}

fn plan(case: &Case, solution: &str, seconds: u64) -> String {
    format!(
        r#"name = "speed"
title = "The laboratory's own speed"
about = "Bulk over GEO."
expect = ["Nothing."]

[network]
link = "geo"
down = {{ loss = {} }}

[[flow]]
name = "main"
workload = {{ kind = "bulk" }}
count = {}
stagger = "5 ms"
stop = "{seconds} s"

[[solution]]
name = "{solution}"
congestion = "{solution}"
receive_window = "32 MiB"

[run]
seeds = {}
limit = "{seconds} s"
"#,
        case.loss, case.flows, case.seeds
    )
}

/// CPU seconds of this program's children that have ended: proc_pid_stat(5), fields 16 and 17.
fn children_cpu() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat").context("reading /proc/self/stat")?;
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields = after_name.split_whitespace().skip(13).take(2);
    let ticks: Result<Vec<f64>, _> = fields.map(str::parse).collect();
    // USER_HZ is 100 on every Linux that runs this.
    Ok(ticks?.iter().sum::<f64>() / 100.0)
}

/// The sum of a column over all rows.
fn column(file: &Path, name: &str) -> Result<f64> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let at = head.split(',').position(|column| column == name);
    let at = at.with_context(|| format!("{} has no column {name}", file.display()))?;
    let cells = lines.filter_map(|line| line.split(',').nth(at));
    let figures: Result<Vec<f64>, _> = cells.map(str::parse).collect();
    Ok(figures?.iter().sum())
}

struct Bench {
    program: PathBuf,
    folder: PathBuf,
}

impl Bench {
    fn play(&self, plan: &str) -> Result<Played> {
        let (file, out) = (self.folder.join("speed.toml"), self.folder.join("speed"));
        fs::write(&file, plan)?;
        if out.exists() {
            fs::remove_dir_all(&out)?;
        }
        let before = children_cpu()?;
        let said = Command::new(&self.program)
            .args(["lab", "run", "--jobs", "1", "--out"])
            .args([&out, &file])
            .output()
            .context("starting tautline")?;
        let cpu = children_cpu()? - before;
        ensure!(
            said.status.success(),
            "the laboratory failed: {}",
            String::from_utf8_lossy(&said.stderr)
        );
        let flows = out.join("flows.csv");
        Ok(Played {
            bytes: column(&flows, "received_bytes")?,
            packets: column(&flows, "packets_sent")?,
            cpu: cpu.max(0.01),
        })
    }

    fn several(&self, plan: &str, rounds: usize) -> Result<Vec<Played>> {
        (0..rounds).map(|_| self.play(plan)).collect()
    }
}

/// The slope of the least-squares line through the logarithms.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let logs: Vec<_> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / n;
    let joint: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    joint / logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>()
}

pub(super) fn run(options: &Options) -> Result<Section> {
    println!("\nThe laboratory");
    let mut build = cargo();
    build.args(["build", "--locked", "--release", "--quiet"]);
    tools::run(build.args(["--package", "tautline-cli"]))?;
    let target = target("target");
    let folder = target.join("bench-laboratory");
    fs::create_dir_all(&folder)?;
    let bench = Bench {
        program: target.join("release").join("tautline"),
        folder,
    };
    let rounds = options.runs.max(1);

    let mut head = vec!["".to_owned()];
    head.extend(CASES.map(|case| case.name.to_owned()));
    let mut table = Table::new(head);
    let mut least = f64::INFINITY;
    for solution in SOLUTIONS {
        let mut row = vec![solution.to_owned()];
        for case in &CASES {
            let played = bench.several(&plan(case, solution, 180), rounds)?;
            let speeds = played.iter().map(|p| p.bytes / 1e6 / p.cpu);
            let speed = median(speeds.collect());
            println!("{solution}, {}: {speed:.0} MB per CPU-second", case.name);
            least = least.min(speed);
            row.push(format!("{speed:.0}"));
        }
        table.row(row);
    }

    let mut points = Vec::new();
    for seconds in LENGTHS {
        let plan = plan(&CASES[0], "cubic", seconds);
        let played = bench.several(&plan, rounds)?;
        let packets = played.first().map_or(1.0, |first| first.packets);
        points.push((packets, median(played.iter().map(|p| p.cpu).collect())));
    }
    let slope = slope(&points);

    let mut text = format!(
        "Ours only, in the simulator: bulk over `geo` (20 Mb/s, 300 ms each way, 1 BDP of queue) for \
         180 simulated seconds on one thread, no qlog. Megabytes (10^6) delivered to the \
         application per second of CPU that the whole program takes, start and handshakes \
         included. Rounds: {rounds}, of which the median.\n\n"
    );
    text += &table.markdown();
    text += &format!(
        "\nThe least: **{least:.0}** (wanted at least {WANTED:.0}: {}).\n\nCost by packets, `cubic`, 1 flow, {} to \
         {} simulated seconds, {:.0} to {:.0} packets: log-log slope **{slope:.3}** (wanted 1 +- \
         {WANTED_SLOPE}: {}).\n",
        verdict(least >= WANTED),
        LENGTHS[0],
        LENGTHS[LENGTHS.len() - 1],
        points[0].0,
        points[points.len() - 1].0,
        verdict((slope - 1.0).abs() <= WANTED_SLOPE),
    );
    let mut command = "cargo xtask bench laboratory".to_owned();
    if options.runs != 5 {
        command += &format!(" --runs {}", options.runs);
    }
    Ok(Section {
        title: "The laboratory: what a simulated byte costs".to_owned(),
        command,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_in_proportion_has_slope_one() {
        let points = [(10.0, 3.0), (100.0, 30.0), (1_000.0, 300.0)];
        assert!((slope(&points) - 1.0).abs() < 1e-9);
        let squared = points.map(|(x, y)| (x, y * y));
        assert!((slope(&squared) - 2.0).abs() < 1e-9);
    }
}
