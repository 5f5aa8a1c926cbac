//! Instructions per packet, counted by callgrind: the figure that noise does not move.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};

use super::{
    program::{Programs, number},
    report::{Section, Table},
};
use crate::tools;

/// A load, and what its instructions are divided by.
struct Subject {
    title: &'static str,
    /// Two sizes: the difference leaves start-up, handshake and slow start out.
    few: &'static [&'static str],
    many: &'static [&'static str],
    unit: &'static str,
    /// The client's count of units.
    count: &'static str,
    ends: [(End, &'static str); 2],
}

const SUBJECTS: [Subject; 2] = [
    Subject {
        title: "Bulk, between a download of 10 MB and one of 60 MB",
        few: &["bulk", "--mb", "10"],
        many: &["bulk", "--mb", "60"],
        unit: "packet",
        count: "packets_received",
        ends: [(End::Server, "sending"), (End::Client, "receiving")],
    },
    Subject {
        title: "Requests, 100 at a time, between 1 s and 4 s of them",
        few: &["requests", "--at-once", "100", "--seconds", "1"],
        many: &["requests", "--at-once", "100", "--seconds", "4"],
        unit: "request",
        count: "count",
        ends: [(End::Server, "answering"), (End::Client, "asking")],
    },
];
/// Functions in the table.
const TOP: usize = 20;
/// Where it is asked whether anybody observes the connection. Nobody does here, so that nothing
/// else of this file runs.
const OBSERVER_SOURCE: &str = "observe/sink.rs";
/// What that may cost.
const WANTED_OBSERVER_PERCENT: f64 = 0.5;

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Client,
    Server,
}

/// What one profiled run gave.
struct Profile {
    instructions: f64,
    /// Those of [`OBSERVER_SOURCE`].
    observer: f64,
    units: f64,
    /// Instructions by function.
    functions: Vec<(String, f64)>,
}

pub(super) fn run(programs: &Programs) -> Result<Section> {
    if !tools::has("valgrind") {
        bail!("no `valgrind` on the PATH (Debian: apt-get install valgrind)");
    }
    println!("\nInstructions");
    let mut text = String::from(
        "Ours only, by `valgrind --tool=callgrind`: user space, without the kernel; the CPU that \
         valgrind shows has AES-NI and AVX2 but no AVX-512, so that AES-GCM takes more \
         instructions than outside.\n",
    );
    for subject in &SUBJECTS {
        text += &format!("\n### {}\n", subject.title);
        for (end, name) in subject.ends {
            text += &one_end(programs, subject, end, name)?;
        }
    }
    Ok(Section {
        title: "Instructions: where they go".to_owned(),
        command: "cargo xtask bench callgrind".to_owned(),
        text,
    })
}

fn one_end(programs: &Programs, subject: &Subject, end: End, name: &str) -> Result<String> {
    let plain = || programs.ours().command(&programs.identity);
    let few = profile(programs, &plain, end, subject.few, subject.count)?;
    let many = profile(programs, &plain, end, subject.many, subject.count)?;
    let units = many.units - few.units;
    let each = (many.instructions - few.instructions) / units;
    let unit = subject.unit;
    let head = ["function", &format!("per {unit}"), "share"];
    let mut table = Table::new(head.map(str::to_owned).to_vec());
    let mut rows: Vec<_> = many
        .functions
        .iter()
        .map(|(function, count)| {
            let before = few.functions.iter().find(|(it, _)| it == function);
            let before = before.map_or(0.0, |(_, count)| *count);
            (function, (count - before) / units)
        })
        .collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    let ciphers: f64 = rows
        .iter()
        .filter(|(function, _)| is_cipher(function))
        .map(|(_, count)| count)
        .sum();
    for (function, count) in rows.iter().take(TOP) {
        table.row(vec![
            (*function).clone(),
            format!("{count:.0}"),
            format!("{:.1} %", count / each * 100.0),
        ]);
    }
    let observer = (many.observer - few.observer) / units;
    Ok(format!(
        "\n**{name}: {each:.0} instructions per {unit}**, {ciphers:.0} of them ciphers, {:.0} \
         everything else; {observer:.1} ({:.2} %; wanted at most {WANTED_OBSERVER_PERCENT} %) ask \
         whether anybody observes, and nobody does.\n\n{}",
        each - ciphers,
        observer / each * 100.0,
        table.markdown()
    ))
}

/// Whether a function is AES-GCM's or header protection's inner part.
fn is_cipher(function: &str) -> bool {
    let name = function.to_ascii_lowercase();
    ["aes", "gcm", "ghash"]
        .iter()
        .any(|part| name.contains(part))
}

/// Instructions per packet of a bulk download by our program as `command` starts it, sending and
/// receiving.
pub(super) fn bulk_per_packet(
    programs: &Programs,
    command: &dyn Fn() -> Command,
) -> Result<[f64; 2]> {
    if !tools::has("valgrind") {
        bail!("no `valgrind` on the PATH (Debian: apt-get install valgrind)");
    }
    let bulk = &SUBJECTS[0];
    let mut each = [f64::NAN; 2];
    for (place, (end, _)) in each.iter_mut().zip(bulk.ends) {
        let few = profile(programs, command, end, bulk.few, bulk.count)?;
        let many = profile(programs, command, end, bulk.many, bulk.count)?;
        *place = (many.instructions - few.instructions) / (many.units - few.units);
    }
    Ok(each)
}

/// `plain` is the program with what comes before `server` or `client`.
fn profile(
    programs: &Programs,
    plain: &dyn Fn() -> Command,
    end: End,
    load: &[&str],
    count: &str,
) -> Result<Profile> {
    let program = programs.ours();
    let out = programs.folder.join("callgrind.out");
    let mut watched = Command::new("valgrind");
    watched.args(["--tool=callgrind", "--quiet", "--log-file=/dev/null"]);
    watched.arg(format!("--callgrind-out-file={}", out.display()));
    let inner = plain();
    watched.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => watched.env(name, value),
            None => watched.env_remove(name),
        };
    }
    let (mut server, mut client) = match end {
        End::Server => (watched, plain()),
        End::Client => (plain(), watched),
    };
    let load: Vec<_> = load.iter().map(|&word| word.to_owned()).collect();
    let both = program.measure_with(&mut server, &mut client, &load)?;
    let functions = annotate(&out)?;
    let raw = fs::read_to_string(&out).context("no output of callgrind")?;
    Ok(Profile {
        observer: cost_of_source(&raw, OBSERVER_SOURCE),
        instructions: functions.iter().map(|(_, count)| count).sum(),
        units: number(&both.client, count),
        functions,
    })
}

/// Instructions by function, as `callgrind_annotate` counts them.
fn annotate(file: &Path) -> Result<Vec<(String, f64)>> {
    let output = Command::new("callgrind_annotate")
        .args(["--threshold=100", "--auto=no", "--show-percs=no"])
        .arg(file)
        .output()
        .context("cannot run callgrind_annotate")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut functions: Vec<(String, f64)> = Vec::new();
    for line in text.lines() {
        let Some((count, place)) = line.trim_start().split_once("  ") else {
            continue;
        };
        let Ok(count) = count.replace(',', "").parse::<f64>() else {
            continue;
        };
        let Some((_, function)) = place.split_once(':') else {
            continue;
        };
        let function = readable(function);
        match functions.iter_mut().find(|(it, _)| *it == function) {
            Some((_, sum)) => *sum += count,
            None => functions.push((function, count)),
        }
    }
    Ok(functions)
}

/// Instructions of lines of source files whose path ends with `suffix`, wherever the compiler put
/// them, in callgrind's own format.
fn cost_of_source(raw: &str, suffix: &str) -> f64 {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let (mut wanted, mut is_call) = (false, false);
    let mut sum = 0.0;
    for line in raw.lines() {
        if let Some((kind, name)) = line.split_once('=') {
            if !matches!(kind, "fl" | "fi" | "fe" | "cfi" | "cfl") {
                // The line after `calls` holds what the callee cost.
                is_call |= kind == "calls";
                continue;
            }
            // "(1) path" names a file, "(1)" repeats it.
            let (key, path) = name.split_once(' ').unwrap_or((name, ""));
            if !path.is_empty() {
                names.insert(key, path);
            }
            if !kind.starts_with('c') {
                wanted = names.get(key).is_some_and(|path| path.ends_with(suffix));
            }
            continue;
        }
        let is_cost =
            line.starts_with(|first: char| "+-*".contains(first) || first.is_ascii_digit());
        if !is_cost || std::mem::take(&mut is_call) || !wanted {
            continue;
        }
        let cost = line.split_whitespace().nth(1);
        sum += cost
            .and_then(|cost| cost.parse::<f64>().ok())
            .unwrap_or(0.0);
    }
    sum
}

/// Without the object's path, hashes and the crates' own prefix.
fn readable(function: &str) -> String {
    let name = function.split(" [").next().unwrap_or(function).trim();
    let name = match name.rfind("::h") {
        Some(at) if name.len() - at == 19 => &name[..at],
        _ => name,
    };
    let name = name
        .replace("tautline_transport::", "")
        .replace("aws_lc_0_", "");
    name.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::cost_of_source;

    #[test]
    fn lines_of_a_source_file_are_added_up_and_calls_left_out() {
        let raw = "events: Ir\nfl=(1) /a/observe/sink.rs\nfn=(1) f\n10 5\ncfi=(2) /a/b.rs\n\
                   cfn=(2) g\ncalls=1 3\n11 100\n+1 2\nfi=(2)\n3 7\nfe=(1)\n* 1\n";
        assert_eq!(cost_of_source(raw, "observe/sink.rs"), 8.0);
        assert_eq!(cost_of_source(raw, "b.rs"), 7.0);
    }
}
