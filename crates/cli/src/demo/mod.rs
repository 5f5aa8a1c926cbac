//! `tautline demo`: a real file over simulated bad links, told in figures and pictures.
//!
//! Purpose: show in under a minute, without root and without a network, what the stack does.
//! Owns: the choice of links and controllers, the programs on the simulated hosts (`apps`), one
//! transfer (`cell`), many at once (`crew`), and what is told of them: the table and the words for
//! its figures (`figures`), JSON (`json`), the page (`page`).
//! Does not own: the network (`tautline-sim`), how a page is drawn (`crate::report`).
//! Spec: the project's definitions of goodput, capacity, utilisation and R, printed with every
//! result.

mod apps;
mod cell;
mod crew;
mod figures;
mod json;
mod page;
mod payload;

use std::{
    fs::OpenOptions,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressStyle};
use tautline_sim::links;
use tautline_transport::congestion::registry;

use crate::{
    failure::{Failure, Outcome},
    options::parse_some_bytes,
    output::print,
};
use cell::{Cell, Measured};
use payload::Payload;

/// The links shown when none is chosen.
const LINKS: &[&str] = &["wifi", "cellular", "leo", "geo", "da2gc"];
/// How often the progress bar moves.
const TICK: Duration = Duration::from_millis(100);

/// What to show.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to move, at most 256 MB [default: the first 4 MB of this program]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Move only the first BYTES of the file (suffixes k, M, G, Ki, Mi, Gi)
    #[arg(long, value_name = "BYTES", value_parser = parse_some_bytes)]
    bytes: Option<u64>,

    /// Where to write the report
    #[arg(long, value_name = "PATH", default_value = "tautline-demo.html")]
    report: PathBuf,

    /// Links to cross, separated by commas [default: wifi,cellular,leo,geo,da2gc]
    #[arg(
        long = "link",
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(links::names())
    )]
    links: Vec<String>,

    /// Congestion controllers to try, separated by commas [default: all]
    #[arg(
        long = "cc",
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(registry::names())
    )]
    controllers: Vec<String>,

    /// Seed of everything random; the same seed gives the same figures
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// Everything that was done, for those who tell of it.
#[derive(Debug)]
struct Run {
    payload: Payload,
    seed: u64,
    links: Vec<String>,
    controllers: Vec<String>,
    /// By link, then by controller, in the order asked for.
    cells: Vec<Measured>,
}

impl Run {
    /// The results over one link, in the order of `controllers`.
    fn of_link<'a>(&'a self, link: &'a str) -> impl Iterator<Item = &'a Measured> {
        self.cells.iter().filter(move |cell| cell.link == link)
    }

    /// The place of a controller in the palette, the same in every chart.
    fn slot(&self, controller: &str) -> usize {
        registry::names()
            .position(|name| name == controller)
            .unwrap_or_default()
    }

    fn failed(&self) -> usize {
        self.cells.iter().filter(|cell| !cell.succeeded()).count()
    }
}

/// Moves the file over every link with every controller and tells what happened.
pub(crate) fn run(args: Args) -> Outcome {
    let payload = Payload::load(args.file.as_deref(), args.bytes)?;
    check_writable(&args.report)?;
    let links = unique(args.links, LINKS.iter().copied());
    let controllers = unique(args.controllers, registry::names());
    let cells = transfer(&payload, args.seed, &links, &controllers)?;
    let run = Run {
        payload,
        seed: args.seed,
        links,
        controllers,
        cells,
    };

    std::fs::write(&args.report, page::report(&run).to_html())
        .map_err(|error| Failure::file("write the report", &args.report, &error))?;
    let place = std::path::absolute(&args.report).unwrap_or(args.report);
    if args.json {
        print(&json::text(&run)?)?;
        eprintln!("report: {}", place.display());
    } else {
        print(&figures::text(&run))?;
        print(&format!("\nReport with pictures: {}\n", place.display()))?;
    }
    match run.failed() {
        0 => Ok(()),
        failed => Err(Failure::new(format!(
            "{failed} of {} transfers failed",
            run.cells.len()
        ))),
    }
}

/// `chosen` without repetitions, or else `default`.
fn unique(chosen: Vec<String>, default: impl Iterator<Item = &'static str>) -> Vec<String> {
    if chosen.is_empty() {
        return default.map(str::to_owned).collect();
    }
    let mut names = Vec::new();
    for name in chosen {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Fails now rather than after the work. Leaves what is there as it is.
fn check_writable(report: &Path) -> Outcome {
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(report)
        .map(drop)
        .map_err(|error| Failure::file("write the report", report, &error))
}

/// Runs all cells on all cores, behind a progress bar.
fn transfer(
    payload: &Payload,
    seed: u64,
    links: &[String],
    controllers: &[String],
) -> Outcome<Vec<Measured>> {
    let mut cells = Vec::new();
    let delivered = Arc::new(AtomicU64::new(0));
    for link in links {
        for controller in controllers {
            cells.push(Cell::new(
                link,
                controller,
                seed,
                payload,
                Arc::clone(&delivered),
            )?);
        }
    }
    let total = payload.len().saturating_mul(cells.len() as u64);
    let bar = ProgressBar::new(total);
    if let Ok(style) =
        ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes}  {msg}  [{elapsed}]")
    {
        bar.set_style(style);
    }
    let workers = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut finished = 0;
    let count = cells.len();
    let measured = crew::run_all(
        &cells,
        workers,
        TICK,
        Cell::run,
        |done: Option<&Measured>| {
            if let Some(done) = done {
                finished += 1;
                let (link, controller) = (&done.link, &done.controller);
                bar.set_message(format!(
                    "{finished} of {count} transfers, last {link} {controller}"
                ));
            }
            bar.set_position(delivered.load(Ordering::Relaxed));
        },
    );
    bar.finish_and_clear();
    Ok(measured)
}
