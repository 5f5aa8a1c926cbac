//! Several paths on real sockets, beside the kernel's TCP and MPTCP over the same links.
//!
//! Owns: the command `mptcp` of this program, what it calls the kernel's limits. Does not own: runs
//! (`measure.rs`, `run.rs`), its tables (`table.rs`).

mod table;

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use tautline_lab::{
    bundled,
    plan::{Plan, ReadOptions},
    stack::Stacks,
};

use crate::{
    command::load,
    measure::{Beside, Emulation, Group, Punctual, Rules, measure},
    place::{self, Place, Side},
    system::Ends,
    table::{csv, spliced},
};

/// The plan whose cells are played.
const PLAN: &str = "mp-kernel";
/// Those that the kernel has, too, by our names; the first is the plan's.
const CONTROLLERS: [&str; 3] = ["cubic", "newreno", "bbr1"];
/// Of the kernel's speed, in every cell; and in the median.
const LEAST: f64 = 0.95;
const MEDIAN: f64 = 1.0;
/// What runs must be like to count. Stalls of a few milliseconds come from the machine's own host
/// and cannot be kept away; they are little beside what runs take.
const PUNCTUAL: Punctual = Punctual {
    p99: Duration::from_micros(500),
    max: Duration::from_millis(5),
    share: 0.01,
    tries: 20,
};

/// Several paths beside the kernel's TCP and MPTCP over the same links
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Runs of each cell and contestant
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Runs on sockets at the same time; each takes part of a core
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=16))]
    jobs: u16,
    /// Another draw of seeds
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    draw: u64,
    /// The plan's smoke sizes
    #[arg(long)]
    smoke: bool,
    /// The congestion controller of both: cubic, newreno or bbr1
    #[arg(long, value_name = "NAME", default_value = CONTROLLERS[0], value_parser = CONTROLLERS)]
    congestion: String,
    /// Another plan than mp-kernel, with controllers of its own
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Only points whose labels contain this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Write every run there
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Put the tables between this document's marks
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
}

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    if let Some(obstacle) = place::obstacle().or_else(place::obstacle_to_mptcp) {
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
    let mut plan = match &arguments.plan {
        Some(file) => Plan::read(file, &options, &stacks)?,
        None => {
            let text = bundled::by_name(PLAN).context("not a bundled plan")?.text;
            let controller = |name| format!("congestion = {name:?}");
            let text = text.replace(
                &controller(CONTROLLERS[0]),
                &controller(&arguments.congestion),
            );
            Plan::parse(&text, Path::new("."), &options, &stacks)?
        }
    };
    if let Some(part) = &arguments.only {
        let labels = |point: &tautline_lab::plan::Point| {
            let labels: Vec<_> = point.levels.iter().map(|level| &*level.label).collect();
            labels.join(", ")
        };
        plan.points.retain(|point| labels(point).contains(part));
        if plan.points.is_empty() {
            bail!("no point of {} is called {part:?}", plan.name);
        }
    }
    let rules = Rules {
        jobs: usize::from(arguments.jobs),
        beside: Beside::Each,
        ends: Ends::RealTime,
        punctual: Some(PUNCTUAL),
    };
    let mut emulation = Emulation::default();
    let before = load();
    let groups = measure(&plan, &stacks, &rules, &mut emulation)?;
    let text = report(arguments, &groups, &emulation, (&before, &load()))?;
    println!("{text}");
    if let Some(file) = &arguments.csv {
        std::fs::write(file, csv(&groups))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(file) = &arguments.document {
        let document = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let new = spliced(&document, &text)
            .with_context(|| format!("{} has no place for the tables", file.display()))?;
        std::fs::write(file, new)?;
    }
    let rows = table::rows(&groups);
    match table::Verdict::of(&rows) {
        Some(verdict) if verdict.holds() => Ok(()),
        Some(verdict) => bail!("{}", verdict.sentence()),
        None => bail!("nothing was finished"),
    }
}

fn report(
    arguments: &Arguments,
    groups: &[Group],
    emulation: &Emulation,
    load: (&str, &str),
) -> Result<String> {
    let mut out = String::new();
    let draw = match arguments.draw {
        0 => String::new(),
        draw => format!(" --draw {draw}"),
    };
    let only = match &arguments.only {
        None => String::new(),
        Some(text) => format!(" --only '{text}'"),
    };
    let smoke = if arguments.smoke { " --smoke" } else { "" };
    let plan = match &arguments.plan {
        None if arguments.congestion == CONTROLLERS[0] => String::new(),
        None => format!(" --congestion {}", arguments.congestion),
        Some(file) => format!(" --plan {}", file.display()),
    };
    let _ = writeln!(
        out,
        "`cargo xtask calibrate mptcp --runs {} --jobs {}{plan}{only}{draw}{smoke}`; medians of {} runs.\n",
        arguments.runs, arguments.jobs, arguments.runs
    );
    let rows = table::rows(groups);
    if let Some(verdict) = table::Verdict::of(&rows) {
        let _ = writeln!(out, "{}\n", verdict.sentence());
    }
    let _ = writeln!(out, "{}", table::both(&rows));
    let _ = writeln!(out, "{}", table::single(&rows, groups));
    let _ = writeln!(
        out,
        "Emulator ({}): {}, {:.0} % of one processor in the busiest run. Ends: wake-ups {}. {} runs were \
         repeated because packets or wake-ups were late by more than {:?} (p99) or {:?} and {:.0} % of \
         the run (any). Largest IP packet {} B; {} packets not taken. Load of the machine (1, 5, 15 \
         minutes): {} before, {} after.\n",
        emulation.favour,
        emulation.lateness,
        100.0 * emulation.busiest,
        emulation.waking.times(),
        emulation.late_runs,
        PUNCTUAL.p99,
        PUNCTUAL.max,
        100.0 * PUNCTUAL.share,
        emulation.largest,
        emulation.refused,
        load.0,
        load.1
    );
    let _ = writeln!(out, "{}", limits()?);
    Ok(out)
}

/// Settings of the kernel in the namespaces that runs are in.
fn limits() -> Result<String> {
    let place = Place::new(Side::Far, 2)?;
    let mut out = String::from("| setting | value |\n|---|---|\n");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let _ = writeln!(out, "| kernel | {} |", release.trim());
    for name in [
        "ipv4/tcp_rmem",
        "ipv4/tcp_wmem",
        "ipv4/tcp_no_metrics_save",
        "ipv4/tcp_slow_start_after_idle",
        "ipv4/tcp_notsent_lowat",
        "ipv4/tcp_ecn",
        "mptcp/path_manager",
        "mptcp/scheduler",
        "mptcp/checksum_enabled",
        "mptcp/add_addr_timeout",
        "mptcp/stale_loss_cnt",
    ] {
        let value = place.setting(name)?;
        let value = if value.is_empty() {
            "not there"
        } else {
            &value
        };
        let _ = writeln!(out, "| {} | {value} |", name.replace('/', "."));
    }
    // Of UDP sockets; not of a namespace.
    for name in ["rmem_max", "wmem_max"] {
        let path = format!("/proc/sys/net/core/{name}");
        let value = std::fs::read_to_string(path).unwrap_or_default();
        let _ = writeln!(out, "| core.{name} (UDP) | {} |", value.trim());
    }
    Ok(out)
}
