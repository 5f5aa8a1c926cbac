//! `tautline demo`: a real file over simulated bad links, told in figures and pictures.
//!
//! Purpose: show in under a minute, without root and without a network, what the stack does.
//! Owns: the choice of links and controllers, the simulated hosts (`network`) and the programs on them
//! (`apps`), one transfer (`cell`) and several of the same (`runs`), many small requests (`requests`), two
//! links at once (`pairs`), much at once (`crew`), and what is told of them: the table and the words for its figures (`figures`), JSON (`json`), the page
//! (`page`).
//! Does not own: the network (`tautline-sim`), how a page is drawn (`crate::report`).
//! Spec: the project's definitions of goodput, capacity, utilisation and R, printed with every
//! result.

mod apps;
mod cell;
mod crew;
mod figures;
mod json;
mod network;
mod page;
mod pairs;
mod payload;
mod requests;
mod runs;

use std::{
    fs::OpenOptions,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressStyle};
use tautline_sim::links;
use tautline_transport::{congestion::registry, fec::redundancy};

use crate::{
    failure::{Failure, Outcome},
    options::{parse_redundancy, parse_some_bytes},
    output::print,
};
use cell::{Cell, Measured};
use pairs::{PAIRS, PairName, Pairs};
use payload::Payload;
use requests::Requests;
use runs::{Beside, Runs};

/// The links that the file crosses when none is chosen.
const LINKS: &[&str] = &["wifi", "cellular", "leo", "geo", "da2gc"];
/// The links that small requests cross when none is chosen: one without random loss, for honesty, and
/// some with.
const REQUEST_LINKS: &[&str] = &["wifi", "lte", "starlink", INFLIGHT];
/// Aboard an aeroplane: by way of the ground, or of a satellite.
const INFLIGHT: &str = "inflight";
const INFLIGHT_LINKS: &[&str] = &["da2gc", "mss"];
/// The controller of small requests, if it is among those chosen.
const REQUEST_CONTROLLER: &str = "cubic";
/// Requests over each way of a pair of links; of 100, the slowest two alone would make the 99th percentile.
const MOST_REQUESTS_OF_PAIRS: usize = 400;
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

    /// Links to cross, separated by commas; inflight is da2gc and mss [default: wifi, cellular, leo,
    /// geo and da2gc for the file, wifi, lte, starlink and inflight for small requests]
    #[arg(
        long = "link",
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(links::names().iter().copied().chain([INFLIGHT]))
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

    /// Show everything plain, and again with forward erasure correction by this redundancy scheduler:
    /// auto, quirl-object, constant:N,K and others (docs/erasure-correction.md); none leaves that out
    #[arg(long, value_name = "SCHEDULER[:OPTIONS]", default_value = "auto", value_parser = known_scheduler)]
    fec: String,

    /// Requests of 50 kB, the beginning of the file, over each link, plain and with erasure correction;
    /// at most 400 over links used at once
    #[arg(long, value_name = "COUNT", default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    requests: u32,

    /// Two links to use at once, as in wifi,lte; more than once for more pairs; auto is wifi,lte, leo,lte
    /// and geo,lte, none leaves that out [default: auto, or none where --link chooses]
    #[arg(long = "paths", value_name = "auto|LINK,LINK")]
    paths: Vec<ChosenPaths>,

    /// Seed of everything random, from which seeds count up; the same seed gives the same figures
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Runs of each transfer of the file, each with a seed of its own; medians are shown, for where
    /// packets are lost by chance a single run says little
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    seeds: u32,

    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// What `--paths` names.
#[derive(Clone, Debug)]
enum ChosenPaths {
    /// The usual pairs.
    Auto,
    None,
    Pair(PairName),
}

impl FromStr for ChosenPaths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "auto" => Self::Auto,
            "none" => Self::None,
            name => Self::Pair(name.parse()?),
        })
    }
}

/// Everything that was done, for those who tell of it.
#[derive(Debug)]
struct Run {
    payload: Payload,
    /// The first, and how many.
    seed: u64,
    seeds: usize,
    links: Vec<String>,
    controllers: Vec<String>,
    /// By link, then by controller, in the order asked for, then by seed.
    cells: Vec<Measured>,
    /// The redundancy scheduler; `None` if all is plain.
    fec: Option<String>,
    /// The same transfers with erasure correction, in the same order; none without.
    coded: Vec<Measured>,
    requests: Requests,
    pairs: Pairs,
}

impl Run {
    /// The results over one link, in the order of `controllers`.
    fn of_link<'a>(&'a self, link: &'a str) -> impl Iterator<Item = Runs<'a>> {
        let plain = self.pairs().map(|pair| pair.plain);
        plain.filter(move |runs| runs.first.link == link)
    }

    /// The place of a controller in the palette, the same in every chart.
    fn slot(&self, controller: &str) -> usize {
        registry::names()
            .position(|name| name == controller)
            .unwrap_or_default()
    }

    /// All transfers with those with erasure correction beside them.
    fn pairs(&self) -> impl Iterator<Item = Beside<'_>> {
        let runs = |cells| <[Measured]>::chunks(cells, self.seeds.max(1)).filter_map(Runs::new);
        let mut coded = runs(&self.coded);
        runs(&self.cells).map(move |plain| Beside {
            plain,
            coded: coded.next(),
        })
    }

    /// Transfers, plain and not, with every seed.
    fn transfers(&self) -> usize {
        self.cells.len() + self.coded.len()
    }

    /// Those that failed.
    fn failed(&self) -> usize {
        let all = self.cells.iter().chain(&self.coded);
        all.filter(|cell| !cell.succeeded()).count()
    }
}

/// Moves the file over every link with every controller and tells what happened.
pub(crate) fn run(args: Args) -> Outcome {
    let payload = Payload::load(args.file.as_deref(), args.bytes)?;
    check_writable(&args.report)?;
    let request_links = unique(&args.links, REQUEST_LINKS.iter().copied());
    let links = unique(&args.links, LINKS.iter().copied());
    let controllers = unique(&args.controllers, registry::names());
    let fec = (args.fec != redundancy::registry::NONE).then_some(args.fec);
    let requests = Requests::new(
        &payload,
        controller_of_requests(&controllers),
        fec.as_deref(),
        &request_links,
    )?;
    let pairs = Pairs::new(
        &chosen_pairs(&args.paths, &args.links)?,
        &payload,
        controller_of_requests(&controllers),
        fec.as_deref(),
        args.seeds as usize,
        (args.requests as usize).min(MOST_REQUESTS_OF_PAIRS),
    );
    let mut run = Run {
        payload,
        seed: args.seed,
        seeds: args.seeds as usize,
        links,
        controllers,
        cells: Vec::new(),
        fec,
        coded: Vec::new(),
        requests,
        pairs,
    };
    work(&mut run, args.requests as usize)?;

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
    let (of_pairs, failed_of_pairs) = run.pairs.failed();
    match (run.failed(), run.requests.failed()) {
        (0, 0) if failed_of_pairs > 0 => Err(Failure::new(format!(
            "{failed_of_pairs} of {of_pairs} transfers and requests over two links failed"
        ))),
        (0, 0) => Ok(()),
        (0, failed) => Err(Failure::new(format!(
            "{failed} of {} requests failed",
            run.requests.wanted()
        ))),
        (failed, _) => Err(Failure::new(format!(
            "{failed} of {} transfers failed",
            run.transfers()
        ))),
    }
}

/// A redundancy scheduler, as it is written.
fn known_scheduler(text: &str) -> Result<String, String> {
    parse_redundancy(text).map(|_| text.to_owned())
}

/// `chosen` without repetitions, or else `default`; the links aboard an aeroplane by their names.
fn unique(chosen: &[String], default: impl Iterator<Item = &'static str>) -> Vec<String> {
    let chosen: Vec<&str> = match chosen {
        [] => default.collect(),
        chosen => chosen.iter().map(String::as_str).collect(),
    };
    let mut names: Vec<String> = Vec::new();
    for name in chosen {
        let meant = if name == INFLIGHT {
            INFLIGHT_LINKS
        } else {
            &[name]
        };
        for name in meant {
            if !names.iter().any(|known| known == name) {
                names.push((*name).to_owned());
            }
        }
    }
    names
}

/// `chosen`, or else the usual ones, unless single links were chosen.
fn chosen_pairs(chosen: &[ChosenPaths], links: &[String]) -> Outcome<Vec<PairName>> {
    let default = match links {
        [] => [ChosenPaths::Auto].as_slice(),
        _ => &[],
    };
    let chosen = if chosen.is_empty() { default } else { chosen };
    let mut names: Vec<PairName> = Vec::new();
    for paths in chosen {
        let meant = match paths {
            ChosenPaths::Auto => PAIRS
                .iter()
                .map(|name| name.parse().map_err(Failure::new))
                .collect::<Outcome<_>>()?,
            ChosenPaths::None => Vec::new(),
            ChosenPaths::Pair(name) => vec![name.clone()],
        };
        for name in meant {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    Ok(names)
}

fn controller_of_requests(chosen: &[String]) -> &str {
    match chosen {
        [first, ..] if !chosen.iter().any(|name| name == REQUEST_CONTROLLER) => first,
        _ => REQUEST_CONTROLLER,
    }
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

/// Makes all transfers and requests of `run` on all cores, behind a progress bar.
fn work(run: &mut Run, requests: usize) -> Outcome {
    let delivered = Arc::new(AtomicU64::new(0));
    let arms = [Some(None), run.fec.as_deref().map(Some)];
    let mut cells = Vec::new();
    for fec in arms.into_iter().flatten() {
        for link in &run.links {
            for controller in &run.controllers {
                for seed in (0..run.seeds).map(|index| run.seed.wrapping_add(index as u64)) {
                    let (payload, delivered) = (&run.payload, Arc::clone(&delivered));
                    cells.push(Cell::new(link, controller, fec, seed, payload, delivered)?);
                }
            }
        }
    }
    let jobs = run.requests.jobs(run.seed, requests, &delivered);
    let tasks = run.pairs.tasks(run.seed, &delivered)?;
    let small: u64 = jobs.iter().map(|(_, job)| job.bytes()).sum();
    let paired: u64 = tasks.iter().map(pairs::Task::bytes).sum();
    let total = run.payload.len().saturating_mul(cells.len() as u64);
    let bar = ProgressBar::new(total.saturating_add(small).saturating_add(paired));
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
    bar.set_message("small requests");
    let tallies = crew::run_all(
        &jobs,
        workers,
        TICK,
        |(_, job): &(usize, requests::Job)| job.run(),
        |_: Option<&requests::Tally>| bar.set_position(delivered.load(Ordering::Relaxed)),
    );
    bar.set_message("two links at once");
    let of_pairs = crew::run_all(
        &tasks,
        workers,
        TICK,
        pairs::Task::run,
        |_: Option<&requests::Tally>| bar.set_position(delivered.load(Ordering::Relaxed)),
    );
    bar.finish_and_clear();
    run.requests.take(&jobs, tallies);
    run.pairs.take(&tasks, of_pairs);
    run.coded = measured;
    let plain = run.links.len() * run.controllers.len() * run.seeds;
    run.cells = run.coded.drain(..plain.min(run.coded.len())).collect();
    Ok(())
}
