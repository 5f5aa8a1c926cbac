//! A plan in two worlds: every cell simulated and on sockets, and the kernel's TCP beside.
//!
//! Owns: [`measure`], [`Rules`], [`Group`]. Does not own: a run (`run.rs`), tables (`table.rs`,
//! `several/`).

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use tautline_lab::{
    plan::{Cell, Plan},
    run,
    stack::{Ready, Stacks},
};
use tautline_sim::DirectionStats;

use crate::{
    emulator::Report,
    lateness::Lateness,
    run::{Run, Transport, play},
    system::{Ends, Favour},
    task::Task,
};

/// How a plan is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Runs on sockets at a time.
    pub(crate) jobs: usize,
    pub(crate) beside: Beside,
    pub(crate) ends: Ends,
    /// What runs must be like to count; any will do without.
    pub(crate) punctual: Option<Punctual>,
}

/// Beside which solutions the kernel plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// The first of each point that is CUBIC.
    First,
    /// Each whose controller the kernel has, and HTTP/2 over TLS on it where links are several.
    Each,
}

/// How late a machine may be with what a run needs; later ones are repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Punctual {
    /// 99 of 100 packets, and of 100 wake-ups.
    pub(crate) p99: Duration,
    /// Any packet or wake-up,
    pub(crate) max: Duration,
    /// or this share of the time that the run took, if that is more.
    pub(crate) share: f64,
    /// How often a run is tried.
    pub(crate) tries: u32,
}

impl Punctual {
    /// What was too late, if anything was.
    fn complaint(&self, run: &Run) -> Option<String> {
        let took = run.took.as_ref().copied().unwrap_or_default();
        let max = self.max.max(took.mul_f64(self.share));
        let seen = [("packets", &run.report.lateness), ("ends", &run.waking)];
        seen.into_iter().find_map(|(what, late)| {
            let at = |share| late.quantile(share).unwrap_or_default();
            let is_late = at(0.99) > self.p99 || at(1.0) > max;
            is_late.then(|| format!("{what} late by {:?} (p99), {:?} (max)", at(0.99), at(1.0)))
        })
    }
}

/// Where a time was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum World {
    /// In virtual time.
    Simulated,
    /// On sockets.
    Sockets,
    /// On sockets, the kernel's TCP.
    Kernel,
    /// On sockets, HTTP/2 over TLS over the kernel's TCP.
    Https,
}

impl World {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Sockets => "sockets",
            Self::Kernel => "kernel",
            Self::Https => "kernel-https",
        }
    }
}

/// What the link saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packets {
    /// From the client.
    pub(crate) up: u64,
    /// To the client.
    pub(crate) down: u64,
    /// Of these, picked by the loss model.
    pub(crate) down_lost: u64,
    /// Of these, met a full queue.
    pub(crate) down_queue_drops: u64,
}

impl Packets {
    fn of(up: &DirectionStats, down: &DirectionStats) -> Self {
        Self {
            up: up.sent_packets,
            down: down.sent_packets,
            down_lost: down.dropped.loss,
            down_queue_drops: down.dropped.queue,
        }
    }
}

/// A completed or failed run.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) world: World,
    pub(crate) repetition: u64,
    pub(crate) seed: u64,
    /// Seconds from connect to the last byte, or why not.
    pub(crate) took: Result<f64, String>,
    /// Of each link that it took, in its order.
    pub(crate) links: Vec<Packets>,
}

impl Measured {
    /// Of the first link.
    pub(crate) fn packets(&self) -> Packets {
        self.links.first().copied().unwrap_or_default()
    }

    /// The share of all packets to the client that came over links but the first.
    pub(crate) fn further_share(&self) -> f64 {
        let down = |links: &[Packets]| links.iter().map(|link| link.down).sum::<u64>();
        let further = down(self.links.get(1..).unwrap_or_default());
        further as f64 / down(&self.links).max(1) as f64
    }
}

/// All runs of a point with one solution.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) plan: String,
    /// Labels of the point's levels.
    pub(crate) point: Vec<String>,
    pub(crate) solution: String,
    pub(crate) is_cubic: bool,
    pub(crate) bytes: u64,
    /// How many links it takes.
    pub(crate) wires: usize,
    pub(crate) runs: Vec<Measured>,
}

impl Group {
    /// The times of one world, by repetition; failures left out.
    pub(crate) fn times(&self, world: World) -> Vec<(u64, f64)> {
        let of_it = self.runs.iter().filter(|run| run.world == world);
        let mut times: Vec<_> = of_it
            .filter_map(|run| Some((run.repetition, *run.took.as_ref().ok()?)))
            .collect();
        times.sort_by_key(|(repetition, _)| *repetition);
        times
    }
}

/// What the emulators of all runs saw together.
#[derive(Clone, Debug)]
pub(crate) struct Emulation {
    pub(crate) lateness: Lateness,
    pub(crate) favour: Favour,
    pub(crate) largest: usize,
    pub(crate) refused: u64,
    /// How late ends were woken.
    pub(crate) waking: Lateness,
    /// Runs that did not count because the machine was late.
    pub(crate) late_runs: u64,
    /// The largest share of a processor that a run's emulator took.
    pub(crate) busiest: f64,
}

impl Default for Emulation {
    fn default() -> Self {
        Self {
            lateness: Lateness::default(),
            favour: Favour::RealTime,
            largest: 0,
            refused: 0,
            waking: Lateness::default(),
            late_runs: 0,
            busiest: 0.0,
        }
    }
}

impl Emulation {
    fn add(&mut self, seen: &Seen) {
        self.late_runs += seen.late_runs;
        if let Some((report, waking)) = &seen.run {
            self.waking.merge(waking);
            self.add_report(report);
        }
    }

    fn add_report(&mut self, report: &Report) {
        let busy = report.busy.as_secs_f64() / report.ran.as_secs_f64().max(1e-3);
        self.busiest = self.busiest.max(busy);
        self.lateness.merge(&report.lateness);
        if report.favour != Favour::RealTime {
            self.favour = report.favour;
        }
        self.largest = self.largest.max(report.largest);
        self.refused += report.refused;
    }
}

struct Job {
    cell: Cell,
    world: World,
    task: Task,
}

/// Plays every cell of a plan in both worlds, so many at a time.
///
/// # Errors
/// A plan that sockets cannot play.
pub(crate) fn measure(
    plan: &Plan,
    stacks: &Stacks,
    rules: &Rules,
    emulation: &mut Emulation,
) -> Result<Vec<Group>> {
    let mut groups = groups(plan, stacks)?;
    let simulated: Vec<Cell> = plan.cells().collect();
    let done = each(rules.jobs, &simulated, |cell| simulate(plan, stacks, cell));
    for (cell, measured) in simulated.iter().zip(done) {
        enter(plan, &mut groups, cell, measured?);
    }
    let list = real(plan, stacks, rules)?;
    let total = list.len();
    let count = AtomicUsize::new(0);
    let done = each(rules.jobs, &list, |job| {
        let (measured, seen) = on_sockets(job, rules.punctual);
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        let took = match &measured.took {
            Ok(took) => format!("{took:.3} s"),
            Err(reason) => reason.clone(),
        };
        let (world, cell) = (job.world.name(), &job.cell);
        let labels = labels(plan, cell).join(" ");
        let solution = solution(plan, cell);
        eprintln!(
            "{number}/{total} {} {labels} {solution} {world} #{}: {took}",
            plan.name, cell.repetition
        );
        (measured, seen)
    });
    for (job, (measured, seen)) in list.iter().zip(done) {
        emulation.add(&seen);
        enter(plan, &mut groups, &job.cell, measured);
    }
    Ok(groups)
}

fn labels(plan: &Plan, cell: &Cell) -> Vec<String> {
    let point = plan.points.get(cell.point);
    let levels = point.map_or(&[][..], |point| &point.levels);
    levels.iter().map(|level| level.label.clone()).collect()
}

fn solution<'a>(plan: &'a Plan, cell: &Cell) -> &'a str {
    let solution = plan.solutions.get(cell.solution);
    solution.map_or("", |(name, _)| name)
}

fn groups(plan: &Plan, stacks: &Stacks) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    let firsts = plan.cells().filter(|cell| cell.repetition == 0);
    let mut firsts: Vec<Cell> = firsts.collect();
    firsts.sort_by_key(|cell| (cell.point, cell.solution));
    for cell in firsts {
        let task = task(plan, stacks, &cell)?;
        groups.push(Group {
            plan: plan.name.clone(),
            point: labels(plan, &cell),
            solution: solution(plan, &cell).to_owned(),
            is_cubic: task.transport.congestion.name() == "cubic",
            bytes: task.bytes,
            wires: task.wires.len(),
            runs: Vec::new(),
        });
    }
    Ok(groups)
}

fn enter(plan: &Plan, groups: &mut [Group], cell: &Cell, measured: Measured) {
    let place = cell.point * plan.solutions.len() + cell.solution;
    if let Some(group) = groups.get_mut(place) {
        group.runs.push(measured);
    }
}

fn task(plan: &Plan, stacks: &Stacks, cell: &Cell) -> Result<Task> {
    let scene = plan.scene(cell, stacks)?;
    Task::of(&scene).with_context(|| format!("plan {}", plan.name))
}

fn simulate(plan: &Plan, stacks: &Stacks, cell: &Cell) -> Result<Measured> {
    let scene = plan.scene(cell, stacks)?;
    let record = run::play(&scene, stacks, cell.seed)?;
    let flow = record.measured().next().context("no flow was measured")?;
    let began = match scene.solution.ready {
        Some(Ready::Paths) => flow.connected.unwrap_or(flow.start),
        _ => flow.start,
    };
    let took = match (flow.receiver.finished, &flow.error) {
        (Some(finished), _) => Ok(finished.saturating_since(began).as_secs_f64()),
        (None, Some(error)) => Err(error.clone()),
        (None, None) => Err("not finished within the plan's limit".to_owned()),
    };
    let links = record.links.iter();
    Ok(Measured {
        world: World::Simulated,
        repetition: cell.repetition,
        seed: cell.seed,
        took,
        links: links
            .map(|link| Packets::of(&link.forward, &link.backward))
            .collect(),
    })
}

/// The runs on sockets, repetition by repetition, so that what the machine does meanwhile meets all
/// alike.
fn real(plan: &Plan, stacks: &Stacks, rules: &Rules) -> Result<Vec<Job>> {
    let mut cells: Vec<Cell> = plan.cells().collect();
    cells.sort_by_key(|cell| (cell.repetition, cell.point, cell.solution));
    let mut jobs = Vec::new();
    let mut beside = None;
    for cell in cells {
        let mut task = task(plan, stacks, &cell)?;
        task.ends = rules.ends;
        let is_first = || {
            let is_cubic = task.transport.congestion.name() == "cubic";
            is_cubic && beside != Some((cell.repetition, cell.point))
        };
        let plays = match rules.beside {
            Beside::First => is_first(),
            Beside::Each => task.controller_of_the_kernel().is_some(),
        };
        if plays {
            beside = Some((cell.repetition, cell.point));
            jobs.push(Job {
                cell,
                world: World::Kernel,
                task: task.clone(),
            });
            if rules.beside == Beside::Each && task.wires.len() > 1 {
                jobs.push(Job {
                    cell,
                    world: World::Https,
                    task: task.clone(),
                });
            }
        }
        jobs.push(Job {
            cell,
            world: World::Sockets,
            task,
        });
    }
    Ok(jobs)
}

/// What the emulator of a job saw, and the witness, in the run that counted.
struct Seen {
    run: Option<(Report, Lateness)>,
    late_runs: u64,
}

/// A run that fails, or cannot even begin, is a row with the reason.
fn on_sockets(job: &Job, punctual: Option<Punctual>) -> (Measured, Seen) {
    let (mut late_runs, mut late) = (0, None);
    for _ in 0..punctual.map_or(1, |rule| rule.tries.max(1)) {
        let (measured, run) = try_on_sockets(job);
        late = run
            .as_ref()
            .and_then(|run| punctual.and_then(|rule| rule.complaint(run)));
        if late.is_none() {
            let run = run.map(|run| (run.report, run.waking));
            return (measured, Seen { run, late_runs });
        }
        late_runs += 1;
    }
    let measured = Measured {
        world: job.world,
        repetition: job.cell.repetition,
        seed: job.cell.seed,
        took: Err(late.unwrap_or_default()),
        links: Vec::new(),
    };
    let run = None;
    (measured, Seen { run, late_runs })
}

fn try_on_sockets(job: &Job) -> (Measured, Option<Run>) {
    let transport = match job.world {
        World::Kernel => Transport::Kernel,
        World::Https => Transport::Https,
        World::Simulated | World::Sockets => Transport::Tautline,
    };
    let played = play(&job.task, transport, job.cell.seed);
    let took = match &played {
        Ok(run) => run.took.as_ref().map(|took| took.as_secs_f64()),
        Err(error) => Err(error),
    };
    let links = played.iter().flat_map(|run| &run.report.links);
    let measured = Measured {
        world: job.world,
        repetition: job.cell.repetition,
        seed: job.cell.seed,
        took: took.map_err(|error| format!("{error:#}")),
        links: links
            .map(|link| Packets::of(&link.up, &link.down))
            .collect(),
    };
    (measured, played.ok())
}

/// Does `work` with every item, so many at a time; results in the order of the items.
fn each<T: Sync, R: Send>(jobs: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else {
                        return;
                    };
                    let result = work(item);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        let doubled: Vec<u32> = items.iter().map(|n| n * 2).collect();
        assert_eq!(each(4, &items, |n| n * 2), doubled);
        assert_eq!(each(0, &items, |n| n * 2), doubled);
    }
}
