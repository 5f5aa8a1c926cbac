//! Our congestion controllers beside those of quinn-proto and noq-proto, in our simulator.
//!
//! `interop-sim cells` compares `newreno` and `cubic` over 20 links with loss, delay and queues;
//! `interop-sim bbr3` compares `bbr3` with noq-proto's on `geo` at three rates of loss. Without a
//! word both. Every stack gets the same link, seed, duration, datagram size, initial window,
//! receive windows and buffers.

mod cells;
mod document;
mod noq;
mod ours;
mod peer;
mod quinn;
mod scene;

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tautline_sim::{LossModel, links};
use tautline_testkit::figure::{Flow, Trial, median};

use crate::{
    cells::{CELLS, Cell},
    scene::{Outcome, Scene},
};

const USAGE: &str = "\
interop-sim [cells] [bbr3] [options]

  cells         newreno and cubic beside quinn-proto's (and noq-proto's) over 20 links
  bbr3          bbr3 beside noq-proto's on geo, 180 s, 0, 0.1 and 1 % loss
  trace         one run of ours with default windows, step by step: --cell, --cc, --first,
                --step MS, --seconds S, --size BYTES
  --seeds N     seeds for bbr3 (default 10); twice as many per lossy cell, three per cell without
  --first N     first seed (default 1)
  --only N      only this cell, counted from 0
  --cell R,T,L,Q  this cell instead of the 20: Mb/s, RTT in ms, loss in %, queue in BDP
  --cc NAME     only this controller (bbr3: noq-proto's stands in quinn-proto's column)
  --jobs N      runs at a time (default: processors)
  --json        JSON instead of tables
  --document F  write all tables to this Markdown file, too
  --from F      figures of an earlier run (its JSON) instead of running; may be given several times

Ends with status 1 when a bar fails: a run that ends in an error, a cell outside 5 % that nobody has
explained (src/document.rs), bbr3 below 0.84 of capacity without loss or below noq-proto's with it.";

/// What the command line asks for.
struct Options {
    cells: bool,
    bbr3: bool,
    trace: bool,
    step: u64,
    seconds: u64,
    size: Option<u64>,
    seeds: u64,
    first: u64,
    only: Option<usize>,
    cell: Option<Cell>,
    congestion: Option<String>,
    jobs: usize,
    json: bool,
    document: Option<PathBuf>,
    from: Vec<PathBuf>,
}

impl Options {
    fn parse() -> Result<Self> {
        let mut options = Self {
            cells: false,
            bbr3: false,
            trace: false,
            step: 100,
            seconds: 10,
            size: None,
            seeds: 10,
            first: 1,
            only: None,
            cell: None,
            congestion: None,
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            json: false,
            document: None,
            from: Vec::new(),
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .with_context(|| format!("{word} needs a value"))
            };
            match word.as_str() {
                "cells" => options.cells = true,
                "bbr3" => options.bbr3 = true,
                "trace" => options.trace = true,
                "--step" => options.step = value()?.parse::<u64>()?.max(1),
                "--seconds" => options.seconds = value()?.parse()?,
                "--size" => options.size = Some(value()?.parse()?),
                "--seeds" => options.seeds = value()?.parse::<u64>()?.max(1),
                "--first" => options.first = value()?.parse()?,
                "--only" => options.only = Some(value()?.parse()?),
                "--cell" => options.cell = Some(value()?.parse()?),
                "--cc" => options.congestion = Some(value()?),
                "--jobs" => options.jobs = value()?.parse::<usize>()?.max(1),
                "--json" => options.json = true,
                "--document" => options.document = Some(value()?.into()),
                "--from" => options.from.push(value()?.into()),
                "--help" | "-h" => {
                    println!("{USAGE}");
                    std::process::exit(0);
                }
                other => bail!("{other}?\n{USAGE}"),
            }
        }
        if !options.cells && !options.bbr3 && !options.trace {
            (options.cells, options.bbr3) = (true, true);
        }
        Ok(options)
    }

    fn seeds(&self, count: u64) -> impl Iterator<Item = u64> {
        self.first..self.first + count
    }
}

/// A stack under comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stack {
    Ours,
    Quinn,
    Noq,
}

impl Stack {
    fn run(self, scene: &Scene) -> Outcome {
        match self {
            Self::Ours => ours::run(scene),
            Self::Quinn => quinn::run(scene),
            Self::Noq => noq::run(scene),
        }
    }
}

/// Runs every scene, several at a time; outcomes in the order of the scenes.
fn run_all(jobs: usize, scenes: &[(Stack, Scene)]) -> Vec<Outcome> {
    let queue: Mutex<VecDeque<usize>> = Mutex::new((0..scenes.len()).collect());
    let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(vec![None; scenes.len()]);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let next = queue
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .pop_front();
                    let Some(index) = next else { break };
                    let (stack, scene) = &scenes[index];
                    let outcome = stack.run(scene);
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(outcome);
                }
            });
        }
    });
    let outcomes = outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    outcomes.into_iter().flatten().collect()
}

/// Medians and errors of one stack in one place.
#[derive(Debug)]
struct Summary {
    goodput: f64,
    errors: Vec<String>,
}

impl Summary {
    fn of(outcomes: &[Outcome]) -> Self {
        Self {
            goodput: median(outcomes.iter().map(|outcome| outcome.goodput)),
            errors: outcomes
                .iter()
                .filter_map(|outcome| outcome.error.clone())
                .collect(),
        }
    }

    fn json(&self) -> Value {
        json!({ "goodput_bits_per_second": self.goodput, "errors": self.errors })
    }
}

/// Runs one scene on several stacks, once per seed.
fn compare(
    options: &Options,
    stacks: &[Stack],
    seeds: u64,
    scene: impl Fn(u64) -> Scene,
) -> Vec<Summary> {
    let scenes: Vec<_> = stacks
        .iter()
        .flat_map(|&stack| options.seeds(seeds).map(move |seed| (stack, seed)))
        .map(|(stack, seed)| (stack, scene(seed)))
        .collect();
    run_all(options.jobs, &scenes)
        .chunks(seeds as usize)
        .map(Summary::of)
        .collect()
}

fn run_cells(options: &Options) -> Vec<Value> {
    if !options.json {
        println!("goodput in Mb/s, median over seeds; ratio ours / quinn-proto");
        println!(
            "{:<42} {:<8} {:>7} {:>7} {:>7} {:>6}",
            "cell", "", "ours", "quinn", "noq", "ratio"
        );
    }
    let chosen: Vec<Cell> = match (options.cell, options.only) {
        (Some(cell), _) => vec![cell],
        (None, Some(only)) => CELLS.get(only).copied().into_iter().collect(),
        (None, None) => CELLS.to_vec(),
    };
    let mut rows = Vec::new();
    for cell in chosen {
        for congestion in ["newreno", "cubic", "bbr3"] {
            let wanted = match options.congestion.as_deref() {
                Some(only) => only == congestion,
                // quinn-proto has none; the other command compares with noq-proto.
                None => congestion != "bbr3",
            };
            if wanted {
                rows.push(cell_row(options, cell, congestion));
            }
        }
    }
    rows
}

fn cell_row(options: &Options, cell: Cell, congestion: &'static str) -> Value {
    // Where chance decides who loses what, ten runs say little.
    let seeds = if cell.loss > 0.0 {
        2 * options.seeds
    } else {
        3
    };
    let baseline = if congestion == "bbr3" {
        Stack::Noq
    } else {
        Stack::Quinn
    };
    let stacks = [Stack::Ours, baseline, Stack::Noq];
    let summaries = compare(options, &stacks, seeds, |seed| Scene {
        seed,
        link: cell.link(),
        congestion,
        duration: cell.duration(),
    });
    let [ours, quinn, noq] = summaries.as_slice() else {
        unreachable!("one summary per stack");
    };
    let ratio = ours.goodput / quinn.goodput;
    if !options.json {
        let mark = if document::is_within(ratio) { "" } else { " *" };
        println!(
            "{:<42} {congestion:<8} {:>7.3} {:>7.3} {:>7.3} {ratio:>6.3}{mark}",
            cell.name(),
            ours.goodput / 1e6,
            quinn.goodput / 1e6,
            noq.goodput / 1e6,
        );
        print_errors(&stacks, &summaries);
    }
    json!({
        "rate_mbps": cell.rate, "rtt_ms": cell.rtt, "loss": cell.loss, "queue_bdp": cell.queue,
        "cell": cell.name(), "congestion": congestion,
        "seconds": cell.duration().as_secs_f64(), "seeds": seeds,
        "ours": ours.json(), "quinn": quinn.json(), "noq": noq.json(), "ratio": ratio,
    })
}

fn run_bbr3(options: &Options) -> Vec<Value> {
    const SECONDS: u64 = 180;
    if !options.json {
        println!(
            "bbr3 on geo, {SECONDS} s: goodput as a share of capacity, median over {} seeds",
            options.seeds
        );
        println!("{:<8} {:>7} {:>7} {:>6}", "loss", "ours", "noq", "ratio");
    }
    let geo = links::by_name("geo").expect("a named link");
    let capacity = geo
        .backward
        .rate
        .map_or(1.0, |rate| rate.bits_per_second() as f64);
    let stacks = [Stack::Ours, Stack::Noq];
    let mut rows = Vec::new();
    for loss in [0.0, 0.001, 0.01] {
        let mut link = geo.clone();
        if loss > 0.0 {
            link.forward.loss = LossModel::uniform(loss);
            link.backward.loss = LossModel::uniform(loss);
        }
        let summaries = compare(options, &stacks, options.seeds, |seed| Scene {
            seed,
            link: link.clone(),
            congestion: "bbr3",
            duration: Duration::from_secs(SECONDS),
        });
        let [ours, noq] = summaries.as_slice() else {
            unreachable!("one summary per stack");
        };
        if !options.json {
            println!(
                "{:<8} {:>7.4} {:>7.4} {:>6.3}",
                format!("{} %", loss * 100.0),
                ours.goodput / capacity,
                noq.goodput / capacity,
                ours.goodput / noq.goodput
            );
            print_errors(&stacks, &summaries);
        }
        rows.push(json!({
            "link": "geo", "loss": loss, "seconds": SECONDS, "seeds": options.seeds,
            "capacity_bits_per_second": capacity, "ours": ours.json(), "noq": noq.json(),
        }));
    }
    rows
}

/// One run of ours, a line per step.
fn trace(options: &Options) {
    let cell = options.cell.unwrap_or(CELLS[5]);
    let mut flow = Flow::endless(options.congestion.as_deref().unwrap_or("cubic"));
    if let Some(size) = options.size {
        flow = flow.of(size);
    }
    let mut trial = Trial::of(options.first, cell.link(), [flow]);
    trial.step = Duration::from_millis(options.step);
    let report = trial.run(Duration::from_secs(options.seconds));
    let mut before = 0;
    println!(
        "{:>8} {:>9} {:>8} {:>9} {:>9} {:>9} {:>6} state",
        "s", "Mb/s", "RTT ms", "in flight", "window", "bandwidth", "lost"
    );
    for sample in &report.flow().history {
        println!(
            "{:>8.3} {:>9.3} {:>8.1} {:>9} {:>9} {:>9.3} {:>6} {}",
            sample.at.as_nanos() as f64 / 1e9,
            (sample.received - before) as f64 * 8e-3 / options.step as f64,
            sample.rtt.as_secs_f64() * 1e3,
            sample.in_flight,
            sample.congestion.window,
            sample
                .congestion
                .bandwidth
                .map_or(0.0, |rate| rate.bits_per_second() as f64 / 1e6),
            sample.recovery.packets_lost,
            sample.congestion.state,
        );
        before = sample.received;
    }
}

fn print_errors(stacks: &[Stack], summaries: &[Summary]) {
    for (stack, summary) in stacks.iter().zip(summaries) {
        for error in &summary.errors {
            println!("    {stack:?} ended: {error}");
        }
    }
}

/// Cells and bbr3's rows as earlier runs printed them, in the order of the files.
fn earlier(files: &[PathBuf]) -> Result<(Vec<Value>, Vec<Value>)> {
    let (mut cells, mut bbr3) = (Vec::new(), Vec::new());
    for file in files {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let run: Value = serde_json::from_str(&text)
            .with_context(|| format!("{} is no JSON", file.display()))?;
        for (rows, key) in [(&mut cells, "cells"), (&mut bbr3, "bbr3")] {
            rows.extend(run[key].as_array().into_iter().flatten().cloned());
        }
    }
    Ok((cells, bbr3))
}

fn main() -> Result<()> {
    let options = Options::parse()?;
    if options.trace {
        trace(&options);
        return Ok(());
    }
    let (mut cells, mut bbr3) = earlier(&options.from)?;
    if options.from.is_empty() && options.cells {
        cells = run_cells(&options);
    }
    if options.from.is_empty() && options.bbr3 {
        bbr3 = run_bbr3(&options);
    }
    if options.json {
        println!("{}", json!({ "cells": cells, "bbr3": bbr3 }));
    }
    if let Some(path) = &options.document {
        let text = document::markdown(&cells, &bbr3);
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let failures = document::failures(&cells, &bbr3);
    if failures.is_empty() {
        return Ok(());
    }
    bail!("bars that fail:\n{}", failures.join("\n"));
}
