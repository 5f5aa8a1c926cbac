//! The command line.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand, ValueEnum};
use tautline_lab::{
    bundled,
    plan::{Plan, ReadOptions},
    stack::Stacks,
};

use crate::{
    measure::{Beside, Emulation, Group, Rules, measure},
    place, several,
    system::Ends,
    table::{self, Verdict},
};

/// Plays calibration plans simulated and on real sockets, and compares completion times
#[derive(Debug, Parser)]
#[command(name = "cargo xtask calibrate", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
    /// Runs of each cell and world
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Which plan
    #[arg(long, value_enum, default_value_t = Choice::All)]
    plan: Choice,
    /// Runs on sockets at the same time; each takes part of a core
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    jobs: u16,
    /// Another draw of seeds
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    draw: u64,
    /// The plans' smoke sizes
    #[arg(long)]
    smoke: bool,
    /// Write every run there
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Put the tables between this document's marks
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Other {
    Mptcp(several::Arguments),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// A bulk download
    Bulk,
    /// Short flows
    Short,
    /// Both
    All,
}

impl Choice {
    const fn plans(self) -> &'static [&'static str] {
        match self {
            Self::Bulk => &["calibration-bulk"],
            Self::Short => &["calibration-short"],
            Self::All => &["calibration-bulk", "calibration-short"],
        }
    }
}

pub(crate) fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(Other::Mptcp(arguments)) = &arguments.other {
        return several::main(arguments);
    }
    if let Some(obstacle) = place::obstacle() {
        println!("*skipped*: {obstacle}");
        return Ok(());
    }
    let stacks = Stacks::default();
    let options = ReadOptions {
        smoke: arguments.smoke,
        draw: arguments.draw,
        seeds: Some(arguments.runs),
        field: None,
    };
    let (mut groups, mut emulation) = (Vec::new(), Emulation::default());
    let before = load();
    for name in arguments.plan.plans() {
        let text = bundled::by_name(name).context("not a bundled plan")?.text;
        let plan = Plan::parse(text, Path::new("."), &options, &stacks)?;
        let rules = Rules {
            jobs: usize::from(arguments.jobs),
            beside: Beside::First,
            ends: Ends::Early,
            punctual: None,
        };
        groups.extend(measure(&plan, &stacks, &rules, &mut emulation)?);
    }
    let text = report(&arguments, &groups, &emulation, (&before, &load()));
    println!("{text}");
    if let Some(file) = &arguments.csv {
        std::fs::write(file, table::csv(&groups))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(file) = &arguments.document {
        let document = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let new = table::spliced(&document, &text)
            .with_context(|| format!("{} has no place for the tables", file.display()))?;
        std::fs::write(file, new)?;
    }
    let apart = groups.iter().filter(|group| {
        let verdict = Verdict::of(group);
        !verdict.is_some_and(|verdict| verdict.holds())
    });
    match apart.count() {
        0 => Ok(()),
        count => bail!("{count} of {} rows lie more than 10 % apart", groups.len()),
    }
}

fn report(
    arguments: &Arguments,
    groups: &[Group],
    emulation: &Emulation,
    load: (&str, &str),
) -> String {
    let mut out = String::new();
    let draw = match arguments.draw {
        0 => String::new(),
        draw => format!(" --draw {draw}"),
    };
    let smoke = if arguments.smoke { " --smoke" } else { "" };
    let plan = match arguments.plan {
        Choice::All => "",
        Choice::Bulk => " --plan bulk",
        Choice::Short => " --plan short",
    };
    let _ = writeln!(
        out,
        "`cargo xtask calibrate --runs {} --jobs {}{plan}{draw}{smoke}`; medians of {} runs.\n",
        arguments.runs, arguments.jobs, arguments.runs
    );
    let _ = writeln!(out, "{}", table::verdicts(groups));
    let _ = writeln!(out, "{}", table::kernel(groups));
    let _ = writeln!(
        out,
        "Emulator ({}): {}. Largest IP packet {} B; {} packets not taken. Load of the machine \
         (1, 5, 15 minutes): {} before, {} after.",
        emulation.favour, emulation.lateness, emulation.largest, emulation.refused, load.0, load.1
    );
    out
}

/// The machine's load averages.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let averages: Vec<&str> = text.split(' ').take(3).collect();
    averages.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_parse() {
        let parse = |line: &str| Arguments::try_parse_from(line.split(' '));
        let arguments = parse("calibrate").unwrap();
        assert_eq!((arguments.runs, arguments.plan), (20, Choice::All));
        let arguments = parse("calibrate --runs 3 --plan short --jobs 2").unwrap();
        assert_eq!((arguments.runs, arguments.jobs), (3, 2));
        assert_eq!(arguments.plan.plans(), ["calibration-short"]);
        for wrong in [
            "calibrate --runs 0",
            "calibrate --plan medium",
            "calibrate --jobs 99",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn plans_can_be_played_on_sockets() {
        let stacks = Stacks::default();
        for name in Choice::All.plans() {
            let text = bundled::by_name(name).unwrap().text;
            let options = ReadOptions::default();
            let plan = Plan::parse(text, Path::new("."), &options, &stacks).unwrap();
            for cell in plan.cells().filter(|cell| cell.repetition == 0) {
                let scene = plan.scene(&cell, &stacks).unwrap();
                crate::task::Task::of(&scene).unwrap();
                let direction = &scene.network.wires[0].config;
                assert!(direction.round_trip().as_millis() >= 50);
            }
        }
    }

    /// One small transfer of each kind through namespaces, TUN devices and the emulator.
    #[test]
    fn a_tiny_transfer_crosses_the_emulated_link() {
        use crate::run::{Transport, play};

        if let Some(obstacle) = place::obstacle() {
            println!("*skipped*: {obstacle}");
            return;
        }
        let stacks = Stacks::default();
        let text = bundled::by_name("calibration-short").unwrap().text;
        let options = ReadOptions::default();
        let plan = Plan::parse(text, Path::new("."), &options, &stacks).unwrap();
        let cell = plan.cell(0).unwrap();
        let task = crate::task::Task::of(&plan.scene(&cell, &stacks).unwrap()).unwrap();
        for transport in [Transport::Tautline, Transport::Kernel] {
            let run = play(&task, transport, cell.seed).unwrap();
            let took = run.took.unwrap();
            // Two round trips of 50 ms at least; nothing on a link is faster than light.
            assert!(took.as_millis() >= 100, "{took:?}");
            assert!(run.report.largest <= 1500, "{}", run.report.largest);
            assert_eq!(run.report.refused, 0);
            let link = &run.report.links[0];
            assert!(link.down.sent_packets > 30 && link.up.sent_packets > 3);
            assert!(run.report.lateness.quantile(1.0).is_some());
        }
    }

    /// The same over two links at once, and with MPTCP.
    #[test]
    fn a_small_transfer_takes_both_emulated_links() {
        use crate::run::{Transport, play};

        if let Some(obstacle) = place::obstacle() {
            println!("*skipped*: {obstacle}");
            return;
        }
        let stacks = Stacks::default();
        let text = bundled::by_name("mp-kernel").unwrap().text;
        let options = ReadOptions::default();
        let plan = Plan::parse(text, Path::new("."), &options, &stacks).unwrap();
        let is_wanted = |cell: &tautline_lab::plan::Cell| {
            let levels = &plan.points[cell.point].levels;
            plan.solutions[cell.solution].0 == "auto"
                && levels[0].label == "20/44 + 20/44"
                && levels[1].label == "1 MB, both known"
        };
        let cell = plan.cells().find(is_wanted).unwrap();
        let task = crate::task::Task::of(&plan.scene(&cell, &stacks).unwrap()).unwrap();
        let obstacle = place::obstacle_to_mptcp();
        for transport in [Transport::Tautline, Transport::Kernel, Transport::Https] {
            if let (Transport::Kernel | Transport::Https, Some(obstacle)) = (transport, &obstacle) {
                println!("*skipped*: {obstacle}");
                continue;
            }
            let run = play(&task, transport, cell.seed).unwrap();
            run.took.unwrap();
            for link in &run.report.links {
                assert!(link.down.sent_packets > 100, "{:?}", run.report.links);
            }
        }
    }
}
