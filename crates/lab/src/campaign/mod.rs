//! Campaigns: every cell of a plan, into a folder.
//!
//! The folder holds `manifest.json` (what is run, with the text of the plan and of every file that it
//! names: a folder is whole by itself, wherever it is moved), `journal.jsonl` (a line per finished cell, in
//! the order in which they finished), and once all are finished the tables: `cells`, `flows`, and
//! where the plan asks for them `series` and `items`, each as CSV and Parquet, with `schema.md`.
//! Tables are made from the journal alone, in the order of cells: jobs, interruptions and
//! processes leave no trace in them, and no clock or host does.
//!
//! Of chosen cells it may hold traces as well, in folders of their own ([`cell_folder`]).
//!
//! Owns: the folder, the workers, resuming. Does not own: progress bars, signals (the program's).

mod cell;
mod chosen;
mod columns;
mod field;
mod journal;
mod made_by;

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
};

pub use cell::{Entry, FlowEntry, Kept, Moment, run_cell};
pub use chosen::{Cells, Chosen};
pub use field::{FieldNote, Turn, entry, failed, turns};
pub use made_by::{MadeBy, RESULTS};

use self::{
    cell::run_traced,
    columns::Tables,
    journal::{Journal, Manifest},
};
use crate::{
    plan::{Cell, Plan},
    run::TraceError,
    stack::Stacks,
    table::{Table, write_csv, write_parquet, write_schema},
};

/// Why a campaign cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// A file.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder holds something that must not be overwritten.
    #[error("{0}: holds results already; give --resume to go on with them, or another folder")]
    Occupied(PathBuf),
    /// Somebody runs cells into this journal now.
    #[error("{0}: another run is writing to it; wait for its end, or give another folder")]
    Busy(PathBuf),
    /// The folder holds results of something else.
    #[error("{path}: {reason}; give another folder")]
    Other {
        /// The folder.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// A cell was named that the plan does not have.
    #[error("there is no cell {cell}; they go from 0 to {last}")]
    NoCell {
        /// Its number.
        cell: usize,
        /// The last one there is.
        last: usize,
    },
    /// A trace cannot be written; the cell's row is kept.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A table cannot be written.
    #[error("{path}: {reason}")]
    Table {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> CampaignError {
    let path = path.to_owned();
    move |source| CampaignError::Io { path, source }
}

/// How a campaign is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where results go.
    pub folder: PathBuf,
    /// Cells at once.
    pub jobs: usize,
    /// Whether to go on with what the folder holds.
    pub resume: bool,
    /// Of which cells traces are written as well, when they are played; rows are the same.
    pub traces: Chosen,
}

/// Where traces of a cell go unless said.
pub fn cell_folder(results: &Path, cell: usize) -> PathBuf {
    results.join(format!("cell-{cell}"))
}

/// The cell of this number.
///
/// # Errors
/// When the plan has none.
pub fn cell_of(plan: &Plan, cell: usize) -> Result<Cell, CampaignError> {
    plan.cell(cell).ok_or_else(|| CampaignError::NoCell {
        cell,
        last: plan.len().saturating_sub(1),
    })
}

/// How far a campaign is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Cells with a row.
    pub done: usize,
    /// All cells.
    pub total: usize,
    /// Rows of this session that are not `ok`.
    pub troubled: usize,
    /// Cells of this session with traces.
    pub traced: usize,
}

/// How a campaign ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every cell has its row and the tables are written.
    Complete(Progress),
    /// It was stopped; what was finished is kept.
    Stopped(Progress),
}

/// Runs the cells of a plan that have no row yet. `stop` ends it after the cells under way;
/// `progress` is told after every row.
///
/// # Errors
/// Files that cannot be read or written; a folder that holds something else; traces of cells that there
/// are not.
pub fn run(
    plan: &Plan,
    stacks: &Stacks,
    settings: &Settings,
    stop: &AtomicBool,
    mut progress: impl FnMut(Progress),
) -> Result<Ending, CampaignError> {
    let folder = &settings.folder;
    settings.traces.check(plan)?;
    let mut rows = Rows::open(plan, stacks, folder, settings.resume)?;
    let wanted: Vec<usize> = (0..plan.len()).filter(|cell| !rows.has(*cell)).collect();
    let mut state = Progress {
        done: plan.len() - wanted.len(),
        total: plan.len(),
        troubled: 0,
        traced: 0,
    };
    progress(state);
    let next = AtomicUsize::new(0);
    let failure = std::thread::scope(|scope| -> Result<(), CampaignError> {
        let (send, receive) = mpsc::channel();
        for _ in 0..settings.jobs.clamp(1, 1024).min(wanted.len().max(1)) {
            let send = send.clone();
            let (next, wanted) = (&next, &wanted);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Some(index) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        break;
                    };
                    let Some(cell) = plan.cell(*index) else { break };
                    let wanted = settings.traces.wanted(*index);
                    let into = cell_folder(folder, *index);
                    let played = run_traced(plan, &cell, stacks, (&into, wanted));
                    if send.send(played).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        for (entry, traced) in receive {
            let kept = rows.add(&entry);
            if let Err(error) = kept.and_then(|()| traced.map_err(CampaignError::from)) {
                // Nothing more can be kept: let the workers go.
                stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
            state.done += 1;
            state.troubled += usize::from(entry.status != "ok");
            state.traced += usize::from(settings.traces.wanted(entry.cell).is_any());
            progress(state);
        }
        Ok(())
    });
    failure?;
    if state.done < state.total {
        return Ok(Ending::Stopped(state));
    }
    rows.write_tables()?;
    Ok(Ending::Complete(state))
}

/// The rows of a campaign in its folder, to be added to: by [`run`], or by whoever plays cells in
/// another way.
pub struct Rows<'a> {
    plan: &'a Plan,
    folder: PathBuf,
    journal: Journal,
    finished: BTreeSet<usize>,
}

impl<'a> Rows<'a> {
    /// Claims an empty folder for the plan; with `resume` also goes on with one that holds rows of it.
    ///
    /// # Errors
    /// Files that cannot be read or written; a folder that holds something else, or is in use.
    pub fn open(
        plan: &'a Plan,
        stacks: &Stacks,
        folder: &Path,
        resume: bool,
    ) -> Result<Self, CampaignError> {
        fs::create_dir_all(folder).map_err(at(folder))?;
        Manifest::of(plan, stacks).establish(plan, folder, resume)?;
        let journal = Journal::open(&folder.join("journal.jsonl"))?;
        Ok(Self {
            plan,
            folder: folder.to_owned(),
            finished: journal.cells()?,
            journal,
        })
    }

    /// Whether a cell has its row.
    pub fn has(&self, cell: usize) -> bool {
        self.finished.contains(&cell)
    }

    /// How many cells have theirs.
    pub fn count(&self) -> usize {
        self.finished.len()
    }

    /// Keeps a row, of a cell that has none.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, entry: &Entry) -> Result<(), CampaignError> {
        self.journal.append(entry)?;
        self.finished.insert(entry.cell);
        Ok(())
    }

    /// Makes the tables of all rows.
    ///
    /// # Errors
    /// Files that cannot be read or written.
    pub fn write_tables(&self) -> Result<(), CampaignError> {
        write_tables(self.plan, &self.folder, &self.journal)
    }
}

fn write_tables(plan: &Plan, folder: &Path, journal: &Journal) -> Result<(), CampaignError> {
    let tables = Tables::of(plan, journal.entries()?);
    let mut described = Vec::new();
    for (name, about, table) in tables.all() {
        write_whole(&folder.join(format!("{name}.csv")), |file| {
            write_csv(table, file).map_err(|error| error.to_string())
        })?;
        write_whole(&folder.join(format!("{name}.parquet")), |file| {
            write_parquet(table, file).map_err(|error| error.to_string())
        })?;
        described.push((name, about, table));
    }
    write_whole(&folder.join("schema.md"), |file| {
        write_schema(&described, file).map_err(|error| error.to_string())
    })
}

/// Writes a file beside its place and moves it there, so that it is whole or absent.
fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut io::BufWriter<fs::File>) -> Result<(), String>,
) -> Result<(), CampaignError> {
    let beside = path.with_extension("partial");
    let file = fs::File::create(&beside).map_err(at(&beside))?;
    let mut file = io::BufWriter::new(file);
    write(&mut file).map_err(|reason| CampaignError::Table {
        path: path.to_owned(),
        reason,
    })?;
    io::Write::flush(&mut file).map_err(at(&beside))?;
    drop(file);
    fs::rename(&beside, path).map_err(at(path))
}

/// The tables of a finished campaign, for reports.
#[derive(Clone, Debug)]
pub struct Results {
    /// A row per cell.
    pub cells: Table,
    /// A row per connection.
    pub flows: Table,
    /// Time series; empty unless the plan asks for them.
    pub series: Table,
    /// Objects, messages and so on; empty unless the plan asks for them.
    pub items: Table,
    /// Cells without a row yet.
    pub missing: usize,
    /// The laboratory that made them.
    pub made_by: MadeBy,
}

/// Reads what a folder holds, of a campaign that need not be finished. Another version of the
/// laboratory may have made it: metrics that it did not have are empty.
///
/// # Errors
/// Files that cannot be read, or are of another plan.
pub fn results(plan: &Plan, folder: &Path) -> Result<Results, CampaignError> {
    let manifest = Manifest::read(folder)?;
    manifest.is_of(plan, folder)?;
    let journal = Journal::read_only(&folder.join("journal.jsonl"))?;
    let mut entries = journal.entries()?;
    manifest.align(entries.values_mut());
    let missing = plan.len().saturating_sub(entries.len());
    let tables = Tables::of(plan, entries);
    Ok(Results {
        cells: tables.cells,
        flows: tables.flows,
        series: tables.series,
        items: tables.items,
        missing,
        made_by: manifest.into_made_by(),
    })
}

/// The plan that a folder's results are of, as it was read then.
///
/// # Errors
/// When there is no manifest, or it cannot be understood.
pub fn plan_of(folder: &Path, stacks: &Stacks) -> Result<Plan, CampaignError> {
    Manifest::read(folder)?.plan(folder, stacks)
}

#[cfg(test)]
mod tests;
