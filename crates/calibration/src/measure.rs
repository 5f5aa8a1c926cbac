//! A plan in two worlds: every cell simulated and on sockets, every point with the kernel's TCP.
//!
//! Owns: [`measure`], [`Group`]. Does not own: a run (`run.rs`), tables (`table.rs`).

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context, Result};
use tautline_lab::{
    plan::{Cell, Plan},
    run,
    stack::Stacks,
};
use tautline_sim::DirectionStats;

use crate::{
    emulator::Report,
    lateness::Lateness,
    run::{Run, Transport, play},
    system::Favour,
    task::Task,
};

/// Where a time was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum World {
    /// In virtual time.
    Simulated,
    /// On sockets.
    Sockets,
    /// On sockets, the kernel's TCP.
    Kernel,
}

impl World {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Sockets => "sockets",
            Self::Kernel => "kernel-cubic",
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
    pub(crate) packets: Packets,
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
}

impl Default for Emulation {
    fn default() -> Self {
        Self {
            lateness: Lateness::default(),
            favour: Favour::RealTime,
            largest: 0,
            refused: 0,
        }
    }
}

impl Emulation {
    fn add(&mut self, report: &Report) {
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
    jobs: usize,
    emulation: &mut Emulation,
) -> Result<Vec<Group>> {
    let mut groups = groups(plan, stacks)?;
    let simulated: Vec<Cell> = plan.cells().collect();
    let done = each(jobs, &simulated, |cell| simulate(plan, stacks, cell));
    for (cell, measured) in simulated.iter().zip(done) {
        enter(plan, &mut groups, cell, measured?);
    }
    let list = real(plan, stacks)?;
    let total = list.len();
    let count = AtomicUsize::new(0);
    let done = each(jobs, &list, |job| {
        let (measured, report) = on_sockets(job);
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
        (measured, report)
    });
    for (job, (measured, report)) in list.iter().zip(done) {
        if let Some(report) = &report {
            emulation.add(report);
        }
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
    let record = run::play(&plan.scene(cell, stacks)?, stacks, cell.seed)?;
    let flow = record.measured().next().context("no flow was measured")?;
    let took = match (flow.receiver.finished, &flow.error) {
        (Some(finished), _) => Ok(finished.saturating_since(flow.start).as_secs_f64()),
        (None, Some(error)) => Err(error.clone()),
        (None, None) => Err("not finished within the plan's limit".to_owned()),
    };
    let link = record.links.first().context("no link")?;
    Ok(Measured {
        world: World::Simulated,
        repetition: cell.repetition,
        seed: cell.seed,
        took,
        packets: Packets::of(&link.forward, &link.backward),
    })
}

/// The runs on sockets, repetition by repetition, so that what the machine does meanwhile meets all
/// alike; the kernel's TCP once for each point, beside its first solution that is CUBIC.
fn real(plan: &Plan, stacks: &Stacks) -> Result<Vec<Job>> {
    let mut cells: Vec<Cell> = plan.cells().collect();
    cells.sort_by_key(|cell| (cell.repetition, cell.point, cell.solution));
    let mut jobs = Vec::new();
    let mut beside = None;
    for cell in cells {
        let task = task(plan, stacks, &cell)?;
        let is_cubic = task.transport.congestion.name() == "cubic";
        if is_cubic && beside != Some((cell.repetition, cell.point)) {
            beside = Some((cell.repetition, cell.point));
            jobs.push(Job {
                cell,
                world: World::Kernel,
                task: task.clone(),
            });
        }
        jobs.push(Job {
            cell,
            world: World::Sockets,
            task,
        });
    }
    Ok(jobs)
}

/// A run that fails, or cannot even begin, is a row with the reason.
fn on_sockets(job: &Job) -> (Measured, Option<Report>) {
    let transport = match job.world {
        World::Kernel => Transport::Kernel,
        World::Simulated | World::Sockets => Transport::Tautline,
    };
    let (took, report) = match play(&job.task, transport, job.cell.seed) {
        Ok(Run { took, report }) => (took, Some(report)),
        Err(error) => (Err(error), None),
    };
    let packets = report.as_ref();
    let packets = packets.map(|report| Packets::of(&report.up, &report.down));
    let measured = Measured {
        world: job.world,
        repetition: job.cell.repetition,
        seed: job.cell.seed,
        took: took
            .map(|took| took.as_secs_f64())
            .map_err(|error| format!("{error:#}")),
        packets: packets.unwrap_or_default(),
    };
    (measured, report)
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
