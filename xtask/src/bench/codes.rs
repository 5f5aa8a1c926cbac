//! `cargo xtask bench codes`: our erasure codes beside those of other crates.
//!
//! `interop/bench/codes` does the work, one process a run: everybody in short interleaved rounds, ours
//! with one kernel. Ratios are taken within a round and pooled over runs.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{
    Options,
    program::build_rust,
    report::{Section, Table},
};
use crate::tools;

/// Whom ratios are to where nothing else is said.
const REFERENCE: &str = "reed-solomon-simd";
/// Whom a single loss is measured against.
const SUM: &str = "exclusive or";
/// What the names of ours begin with.
const OURS: &str = "ours: ";
/// Those of ours that are judged.
const JUDGED: [&str; 2] = ["ours: rlc", "ours: reed-solomon"];
/// Kernels from which on there are bars, slowest first.
const KERNELS_WITH_BARS: [&str; 4] = ["avx2", "avx2+gfni", "avx512", "avx512+gfni"];
/// Times that a task is done for the profiler.
const COUNTED: u32 = 20;

/// What all do.
struct Task {
    /// As the program calls it.
    name: &'static str,
    title: &'static str,
    reference: &'static str,
}

const TASKS: [Task; 3] = [
    Task {
        name: "encode",
        title: "All 8 repair symbols of 32",
        reference: REFERENCE,
    },
    Task {
        name: "decode",
        title: "8 losses of 32",
        reference: REFERENCE,
    },
    Task {
        name: "one",
        title: "One loss of 100, from the arrival of the repair symbol",
        reference: SUM,
    },
];

/// What a ratio may be at most, and what is hoped for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bar {
    most: f64,
    goal: Option<f64>,
}

/// The bar for one of [`JUDGED`] at a task with a kernel, where there is one. Making repair symbols
/// has none for AVX-512 without GFNI.
fn bar(task: &str, kernel: &str) -> Option<Bar> {
    if !KERNELS_WITH_BARS.contains(&kernel) {
        return None;
    }
    let (most, goal) = match (task, kernel) {
        ("encode", "avx2") => (2.5, None),
        ("encode", "avx512+gfni") => (1.0, Some(0.5)),
        ("decode", _) => (1.0 / 5.0, Some(1.0 / 10.0)),
        ("one", _) => (2.5, None),
        _ => return None,
    };
    Some(Bar { most, goal })
}

/// Nanoseconds of everybody at a task: by run, by subject, by round.
#[derive(Debug, Default)]
struct Times {
    /// In the order of the program.
    names: Vec<String>,
    runs: Vec<Vec<Vec<f64>>>,
}

/// The middle of many ratios, and the quarters around it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    low: f64,
    middle: f64,
    high: f64,
}

impl Times {
    /// Adds what the program said of a task.
    fn add(&mut self, said: &Value) -> Result<()> {
        let subjects = said.as_array().context("no subjects")?;
        let mut names = Vec::new();
        let mut run = Vec::new();
        for subject in subjects {
            names.push(subject["name"].as_str().context("no name")?.to_owned());
            let nanos = subject["nanos"].as_array().context("no times")?;
            run.push(nanos.iter().filter_map(Value::as_f64).collect());
        }
        if !self.names.is_empty() && self.names != names {
            bail!("runs of different subjects");
        }
        self.names = names;
        self.runs.push(run);
        Ok(())
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|it| it == name)
    }

    /// The ratio of the times of two subjects, round by round.
    fn ratio(&self, name: &str, reference: &str) -> Option<Spread> {
        let (index, reference) = (self.index(name)?, self.index(reference)?);
        let rounds = self.runs.iter().flat_map(|run| {
            let pairs = run[index].iter().zip(&run[reference]);
            pairs.map(|(its, others)| its / others)
        });
        spread(rounds.collect())
    }

    /// Microseconds that a tenth of the rounds stays below: what it takes where nobody disturbs.
    fn micros(&self, name: &str) -> Option<f64> {
        let index = self.index(name)?;
        let rounds = self.runs.iter().flat_map(|run| run[index].iter().copied());
        rank(sorted(rounds.collect()), 0.1).map(|nanos| nanos / 1e3)
    }
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// The value below which this share of the sorted values lies.
fn rank(sorted: Vec<f64>, share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

fn spread(values: Vec<f64>) -> Option<Spread> {
    let values = sorted(values);
    Some(Spread {
        low: rank(values.clone(), 0.25)?,
        middle: rank(values.clone(), 0.5)?,
        high: rank(values, 0.75)?,
    })
}

/// Three digits that count.
fn digits(value: f64) -> String {
    let decimals = match value {
        ..0.1 => 3,
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// By kernel, and by task.
type Figures = BTreeMap<(String, &'static str), Times>;

pub(super) fn run(options: &Options) -> Result<Section> {
    println!("\nCodes");
    let program = build_rust(&["bench-codes"])?.join("bench-codes");
    let said = ask(Command::new(&program).arg("cpu"))?;
    let cpu = words(&said["cpu"]);
    let all = words(&said["kernels"]);
    let wanted = |kernel: &String| options.kernels.is_empty() || options.kernels.contains(kernel);
    let kernels: Vec<String> = all
        .iter()
        .filter(|kernel| wanted(kernel))
        .cloned()
        .collect();
    if kernels.is_empty() {
        bail!(
            "none of these kernels runs here; there are {}",
            all.join(", ")
        );
    }
    let mut figures = Figures::new();
    for round in 0..options.runs.max(1) {
        for kernel in &kernels {
            let mut command = Command::new(&program);
            let said = ask(command.args(["--kernel", kernel.as_str(), "measure"]))?;
            for task in &TASKS {
                let times = figures.entry((kernel.clone(), task.name)).or_default();
                times.add(&said["tasks"][task.name])?;
            }
            println!("  run {} {kernel}", round + 1);
        }
    }
    let mut text = introduction(&cpu, &all, &kernels);
    for task in &TASKS {
        text += &table(task, &kernels, &figures);
    }
    text += "\n### Bars\n\n";
    text += &bars(&all, &kernels, &figures);
    if options.instructions {
        text += &instructions(&program)?;
    }
    let mut command = "cargo xtask bench codes".to_owned();
    if options.runs != 5 {
        command += &format!(" --runs {}", options.runs);
    }
    if !options.kernels.is_empty() {
        command += &format!(" --kernels {}", options.kernels.join(","));
    }
    if options.instructions {
        command += " --instructions";
    }
    Ok(Section {
        title: "Codes: repair symbols made and used".to_owned(),
        command,
        text,
    })
}

/// What a program says: one line of JSON.
fn ask(command: &mut Command) -> Result<Value> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{name} ended with {}: {}", output.status, errors.trim());
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("{name} said no JSON"))
}

fn words(value: &Value) -> Vec<String> {
    let words = value.as_array().into_iter().flatten();
    words.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn introduction(cpu: &[String], all: &[String], kernels: &[String]) -> String {
    let best = all.last().map_or("", String::as_str);
    let slower = if kernels.iter().any(|kernel| kernel.starts_with("avx512")) {
        " Vectors of 64 bytes, `rlnc`'s and `raptorq`'s too, slow some processors down, for \
         everybody in those runs: the time of the one that ratios are to is given for each kernel."
    } else {
        ""
    };
    format!(
        "Symbols of 1,200 bytes, one thread. The processor has {}; ours would choose `{best}`, and \
         was made to use {} in turn. The others choose for themselves: `reed-solomon-simd` and \
         `reed-solomon-erasure` have nothing beyond AVX2, `raptorq` and `rlnc` use what there is.\n\
         \n\
         A ratio is the median over rounds of milliseconds in which everybody has a turn, in \
         random order; in brackets the quarters. Microseconds are those of the quietest tenth of \
         the rounds (last column: with the last kernel).{slower}\n\
         \n\
         What is timed goes from bytes to bytes: encoders, decoders, plans and buffers are made \
         beforehand wherever an interface allows, symbols are taken in within the time where it \
         copies them, ours included (*sums only*: they are held already; *block*: slices, without \
         encoder and decoder). Everything made was decoded and compared first. `rlnc` gets \
         source symbols as pieces with one coefficient; `reed-solomon-erasure` remembers the \
         inverse matrix of a pattern of losses, which is always the same here.\n",
        listed(cpu),
        listed(kernels),
    )
}

fn listed(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

fn table(task: &Task, kernels: &[String], figures: &Figures) -> String {
    let of = |kernel: &String| figures.get(&(kernel.clone(), task.name));
    let mut head = vec![format!("time / {}, ours with", task.reference)];
    head.extend(kernels.iter().cloned());
    head.push("us".to_owned());
    let mut table = Table::new(head);
    let last = kernels.last().and_then(of);
    for name in last.map_or(&[][..], |times| &times.names) {
        let mut row = vec![name.clone()];
        for kernel in kernels {
            let ratio = of(kernel).and_then(|times| times.ratio(name, task.reference));
            row.push(ratio.map_or_else(String::new, |ratio| {
                if name == task.reference {
                    let micros = of(kernel).and_then(|times| times.micros(name));
                    return micros.map_or_else(String::new, |us| format!("= {} us", digits(us)));
                }
                let Spread { low, middle, high } = ratio;
                format!("{} ({}-{})", digits(middle), digits(low), digits(high))
            }));
        }
        let micros = last.and_then(|times| times.micros(name));
        row.push(micros.map_or_else(String::new, digits));
        table.row(row);
    }
    format!("\n### {}\n\n{}", task.title, table.markdown())
}

/// Whether a ratio passes, in a word.
fn verdict(ratio: f64, bar: Bar) -> &'static str {
    if ratio > bar.most {
        "MISS"
    } else if bar.goal.is_some_and(|goal| ratio <= goal) {
        "pass, and the goal"
    } else {
        "pass"
    }
}

fn bars(all: &[String], kernels: &[String], figures: &Figures) -> String {
    let head = ["", "kernel", "ours", "at most", "goal", ""];
    let mut table = Table::new(head.map(str::to_owned).to_vec());
    for task in &TASKS {
        for kernel in KERNELS_WITH_BARS {
            let Some(bar) = bar(task.name, kernel) else {
                continue;
            };
            let times = figures.get(&(kernel.to_owned(), task.name));
            for name in JUDGED {
                let ratio = times.and_then(|times| times.ratio(name, task.reference));
                // Where nothing was measured one row says so.
                if ratio.is_none() && name != JUDGED[0] {
                    continue;
                }
                let what = if ratio.is_some() {
                    format!("{}: {}", task.name, name.trim_start_matches(OURS))
                } else {
                    task.name.to_owned()
                };
                let absent = if all.iter().any(|it| it == kernel) {
                    "not asked for"
                } else {
                    "not on this machine"
                };
                table.row(vec![
                    what,
                    kernel.to_owned(),
                    ratio.map_or_else(String::new, |ratio| digits(ratio.middle)),
                    digits(bar.most),
                    bar.goal.map_or_else(String::new, digits),
                    ratio
                        .map_or(absent, |ratio| verdict(ratio.middle, bar))
                        .to_owned(),
                ]);
            }
        }
    }
    let none = kernels
        .iter()
        .filter(|kernel| bar("encode", kernel).is_none())
        .cloned()
        .collect::<Vec<_>>();
    let mut text = table.markdown();
    if !none.is_empty() {
        text += &format!(
            "\nNo bar is set for making repair symbols with {}.\n",
            listed(&none)
        );
    }
    text
}

/// Instructions of everybody at every task, counted by callgrind.
fn instructions(program: &PathBuf) -> Result<String> {
    if !tools::has("valgrind") {
        bail!("no `valgrind` on the PATH (Debian: apt-get install valgrind)");
    }
    let mut text = String::from(
        "\n### Instructions\n\nThousands, by `valgrind --tool=callgrind`, whose processor has AVX2 but \
         no AVX-512 and no GFNI, for everybody.\n",
    );
    let out = program.with_extension("callgrind");
    for task in &TASKS {
        let said = ask(Command::new(program).args(["subjects", task.name]))?;
        let mut counts = Vec::new();
        for name in words(&said["subjects"]) {
            println!("  counting {}: {name}", task.name);
            ask(Command::new("valgrind")
                .args(["--tool=callgrind", "--quiet", "--log-file=/dev/null"])
                .args([
                    "--collect-atstart=no",
                    "--toggle-collect=bench_codes::counted*",
                ])
                .arg(format!("--callgrind-out-file={}", out.display()))
                .arg(program)
                .args(["repeat", task.name, &name, &COUNTED.to_string()]))?;
            let raw = fs::read_to_string(&out).context("no output of callgrind")?;
            let count = total(&raw).context("no total in callgrind's output")?;
            counts.push((name, count / f64::from(COUNTED)));
        }
        let reference = counts.iter().find(|(name, _)| name == task.reference);
        let reference = reference.map_or(f64::NAN, |(_, count)| *count);
        let head = [task.title, "thousands", &format!("/ {}", task.reference)];
        let mut table = Table::new(head.map(str::to_owned).to_vec());
        for (name, count) in &counts {
            let ratio = digits(count / reference);
            table.row(vec![name.clone(), format!("{:.1}", count / 1e3), ratio]);
        }
        text += &format!("\n{}", table.markdown());
    }
    Ok(text)
}

/// The instructions that callgrind's own format sums up.
fn total(raw: &str) -> Option<f64> {
    let line = raw.lines().find_map(|line| {
        line.strip_prefix("totals:")
            .or(line.strip_prefix("summary:"))
    })?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn times(runs: &[Value]) -> Times {
        let mut times = Times::default();
        for run in runs {
            times.add(run).unwrap();
        }
        times
    }

    #[test]
    fn ratios_are_taken_within_rounds_and_pooled_over_runs() {
        // The second run is slow for both.
        let both = |ours: [f64; 2], its: [f64; 2]| json!([{ "name": "ours: rlc", "nanos": ours }, { "name": REFERENCE, "nanos": its }]);
        let times = times(&[
            both([2e3, 4e3], [1e3, 2e3]),
            both([90e3, 20e3], [30e3, 10e3]),
        ]);
        let ratio = times.ratio("ours: rlc", REFERENCE).unwrap();
        assert_eq!((ratio.low, ratio.middle, ratio.high), (2.0, 2.0, 2.0));
        assert_eq!(times.micros(REFERENCE), Some(1.0));
        assert_eq!(times.ratio("rlnc", REFERENCE), None);
    }

    #[test]
    fn runs_of_others_are_not_mixed() {
        let mut times = times(&[json!([{ "name": "a", "nanos": [1.0] }])]);
        assert!(
            times
                .add(&json!([{ "name": "b", "nanos": [1.0] }]))
                .is_err()
        );
        assert!(times.add(&json!({ "error": 1 })).is_err());
    }

    #[test]
    fn bars_and_verdicts() {
        let judge = |task, kernel, ratio| verdict(ratio, bar(task, kernel).unwrap());
        assert_eq!(judge("encode", "avx2", 2.51), "MISS");
        assert_eq!(judge("encode", "avx2", 0.4), "pass");
        assert_eq!(judge("encode", "avx512+gfni", 1.0), "pass");
        assert_eq!(judge("encode", "avx512+gfni", 0.5), "pass, and the goal");
        assert_eq!(judge("decode", "avx512", 0.21), "MISS");
        assert_eq!(judge("decode", "avx2", 0.1), "pass, and the goal");
        assert_eq!(judge("one", "avx2", 2.6), "MISS");
        assert_eq!(bar("encode", "avx512"), None);
        assert_eq!(bar("one", "scalar"), None);
    }

    #[test]
    fn a_kernel_that_is_not_there_is_said_to_be_missing() {
        let avx2 = vec!["avx2".to_owned()];
        let run = json!([
            { "name": "ours: rlc", "nanos": [200.0] }, { "name": "ours: reed-solomon", "nanos": [300.0] },
            { "name": REFERENCE, "nanos": [100.0] }, { "name": SUM, "nanos": [100.0] },
        ]);
        let figures: Figures = TASKS
            .iter()
            .map(|task| {
                (
                    ("avx2".to_owned(), task.name),
                    times(std::slice::from_ref(&run)),
                )
            })
            .collect();
        let text = bars(&avx2, &avx2, &figures);
        let row = |text: &str, what: &str, kernel: &str| {
            let row = text
                .lines()
                .find(|row| row.contains(what) && row.contains(kernel));
            row.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let found = row(&text, "encode: rlc", "avx2").unwrap();
        assert_eq!(found, "| encode: rlc | avx2 | 2.00 | 2.50 | | pass |");
        let found = row(&text, "encode: reed-solomon", "avx2").unwrap();
        assert!(found.ends_with("MISS |"), "{found}");
        let found = row(&text, "encode", "avx512+gfni").unwrap();
        assert!(found.ends_with("not on this machine |"), "{found}");
        assert!(table(&TASKS[2], &avx2, &figures).contains("2.00 (2.00-2.00)"));
    }

    #[test]
    fn totals_of_callgrind() {
        assert_eq!(
            total("events: Ir\nfn=(1) f\n1 5\ntotals: 1234\n"),
            Some(1234.0)
        );
        assert_eq!(total("events: Ir\nsummary: 77 3\n"), Some(77.0));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn digits_that_count() {
        let shown = [0.0123, 0.5, 2.345, 12.34, 123.4].map(digits);
        assert_eq!(shown, ["0.012", "0.50", "2.35", "12.3", "123"]);
    }
}
