//! `tautline lab run`.

use std::{
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use tautline_lab::{
    campaign::{self, Cells, Chosen, Ending, Progress, Settings},
    plan::ReadOptions,
};

use super::{
    Laboratory, default_folder, find,
    under_way::{progress_bar, show_progress, stop_when_asked},
};
use crate::{
    failure::{Failure, Outcome},
    output::print,
};

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A plan file, or the name of a bundled plan (`list` names them)
    #[arg(value_name = "PLAN")]
    plan: String,

    /// Where results go [default: lab-results/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Cells to run at once [default: all cores]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    /// Go on with what the folder holds
    #[arg(long)]
    resume: bool,

    /// The plan's small version, to see that it works
    #[arg(long)]
    smoke: bool,

    /// Which draw of a random design, and of all seeds
    #[arg(long, value_name = "N", default_value_t = 0)]
    draw: u32,

    /// Repetitions, instead of the plan's
    #[arg(long, value_name = "N")]
    seeds: Option<u32>,

    /// Write qlog traces of these cells, numbers and ranges such as 0,5,10-12, into DIR/cell-NUMBER; rows
    /// are the same. Of cells that are played now: with --resume, not of those that have a row (`show`
    /// plays one of them again)
    #[arg(long, value_name = "CELLS", conflicts_with = "check")]
    qlog: Option<Cells>,

    /// Capture the first link's packets of these cells, with the clients' keys beside: packets.pcap and
    /// keys.log in DIR/cell-NUMBER; otherwise as --qlog
    #[arg(long, value_name = "CELLS", conflicts_with = "check")]
    pcap: Option<Cells>,

    /// Only read and check the plan, its small version too
    #[arg(long)]
    check: bool,
}

pub(super) fn run(args: Args, laboratory: &Laboratory) -> Outcome {
    let options = ReadOptions {
        smoke: args.smoke,
        draw: u64::from(args.draw),
        seeds: args.seeds.map(u64::from),
        field: None,
    };
    if args.check {
        return check(&args.plan, &options, laboratory);
    }
    let plan = find(&args.plan, &options, laboratory)?;
    let folder = args.out.unwrap_or_else(|| default_folder(&plan));
    let cores = std::thread::available_parallelism();
    let jobs = args.jobs.or(cores.ok()).map_or(1, NonZeroUsize::get);
    let settings = Settings {
        folder: folder.clone(),
        jobs,
        resume: args.resume,
        traces: Chosen {
            qlog: args.qlog.unwrap_or_default(),
            packets: args.pcap.unwrap_or_default(),
        },
    };
    let stop = Arc::new(AtomicBool::new(false));
    stop_when_asked(Arc::clone(&stop))?;
    let bar = progress_bar(&plan);
    let ending = campaign::run(&plan, &laboratory.stacks, &settings, &stop, |progress| {
        show_progress(&bar, progress)
    })
    .map_err(|error| Failure::new(error.to_string()))?;
    bar.finish_and_clear();
    match ending {
        Ending::Complete(progress) => print(&format!(
            "{}: {} rows in {} ({} of this run not ok)\n{}`{} report {}` makes the page\n",
            plan.name,
            progress.total,
            folder.display(),
            progress.troubled,
            traced(&settings, settings.traces.count(&plan), progress),
            laboratory.program,
            folder.display()
        )),
        Ending::Stopped(progress) => Err(Failure::interrupted(format!(
            "stopped after {} of {} cells; the same command with --resume goes on",
            progress.done, progress.total
        ))),
    }
}

/// What became of the chosen cells' traces, as a line; nothing if none is chosen.
fn traced(settings: &Settings, chosen: usize, progress: Progress) -> String {
    let folder = settings.folder.display();
    let before = chosen.saturating_sub(progress.traced);
    match (chosen, before) {
        (0, _) => String::new(),
        (_, 0) => format!("traces of {chosen} cells in {folder}/cell-NUMBER\n"),
        _ => format!(
            "traces of {} cells in {folder}/cell-NUMBER; of {before} that had a row before none was \
             written in this run\n",
            progress.traced
        ),
    }
}

/// Reads a plan in both sizes.
fn check(plan: &str, options: &ReadOptions, laboratory: &Laboratory) -> Outcome {
    let mut text = String::new();
    for (smoke, size) in [(false, "full size"), (true, "--smoke")] {
        let options = ReadOptions {
            smoke,
            ..options.clone()
        };
        let plan = find(plan, &options, laboratory)?;
        text.push_str(&format!(
            "{}, {size}: {} points x {} solutions x {} repetitions = {} cells; nothing is wrong\n",
            plan.name,
            plan.points.len(),
            plan.solutions.len(),
            plan.repetitions,
            plan.len()
        ));
    }
    print(&text)
}
