//! The files that make a campaign resumable.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions, TryLockError},
    io::{BufRead, BufReader, ErrorKind, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{CampaignError, MadeBy, at, cell::Entry, write_whole};
use crate::{
    metric::{FLOW_METRICS, METRICS},
    plan::{FieldOptions, Plan, ReadOptions},
    stack::Stacks,
    table::Value,
    workload::file::Inputs,
};

/// What the folder's results are of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    plan: String,
    /// Where the files that the plan names were, in folders from before what they held was kept.
    #[serde(default, skip_serializing)]
    folder: Option<PathBuf>,
    /// Those files by their path in the plan, with the SHA-256 of what was read.
    files: BTreeMap<String, String>,
    smoke: bool,
    draw: u64,
    seeds: Option<u64>,
    /// That it is field data, and of which solutions; nothing of simulations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    field: Option<FieldOptions>,
    cells: usize,
    /// The name of the plan's file, for those who want to run it again; a bundled plan has none.
    #[serde(default)]
    source: Option<String>,
    /// Names of the metrics: another version of the laboratory may have others.
    metrics: Vec<String>,
    #[serde(default)]
    made_by: MadeBy,
    /// What the plan's files held, by SHA-256: with it results are whole wherever they are moved.
    #[serde(default)]
    contents: BTreeMap<String, String>,
}

const MANIFEST: &str = "manifest.json";

impl Manifest {
    /// Without the files' contents, which [`Manifest::establish`] adds.
    pub(super) fn of(plan: &Plan, stacks: &Stacks) -> Self {
        Self {
            plan: plan.text.clone(),
            folder: None,
            files: plan.files.clone(),
            smoke: plan.options.smoke,
            draw: plan.options.draw,
            seeds: plan.options.seeds,
            field: plan.options.field.clone(),
            cells: plan.len(),
            source: plan.source.clone(),
            metrics: metrics(),
            made_by: MadeBy::this(stacks),
            contents: BTreeMap::new(),
        }
    }

    pub(super) fn read(folder: &Path) -> Result<Self, CampaignError> {
        let path = folder.join(MANIFEST);
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        serde_json::from_str(&text).map_err(|error| CampaignError::Other {
            path: folder.to_owned(),
            reason: format!("its {MANIFEST} cannot be understood ({error})"),
        })
    }

    pub(super) fn plan(&self, folder: &Path, stacks: &Stacks) -> Result<Plan, CampaignError> {
        let read = Plan::parse_with(&self.plan, self.inputs(), &self.options(), stacks);
        let mut plan = read.map_err(|error| CampaignError::Other {
            path: folder.to_owned(),
            reason: format!("its plan cannot be read any more ({error})"),
        })?;
        plan.source = self.source.clone();
        Ok(plan)
    }

    /// Where the plan's files are read from.
    fn inputs(&self) -> Inputs {
        if let Some(folder) = &self.folder
            && self.contents.is_empty()
        {
            return Inputs::Folder(folder.clone());
        }
        let kept = self.files.iter().filter_map(|(path, hash)| {
            let text = self.contents.get(hash)?;
            Some((path.clone(), text.as_str().into()))
        });
        Inputs::Kept(Arc::new(kept.collect()))
    }

    /// Claims an empty folder for the plan that this manifest is of, or checks that a used one is of the
    /// same plan.
    pub(super) fn establish(
        mut self,
        plan: &Plan,
        folder: &Path,
        resume: bool,
    ) -> Result<(), CampaignError> {
        let path = folder.join(MANIFEST);
        if path.exists() {
            if !resume {
                return Err(CampaignError::Occupied(folder.to_owned()));
            }
            return self.confirm(folder);
        }
        let journal = folder.join("journal.jsonl");
        if journal.exists() {
            return Err(CampaignError::Other {
                path: folder.to_owned(),
                reason: format!("it holds a journal without its {MANIFEST}"),
            });
        }
        self.contents = plan.contents().map_err(|reason| CampaignError::Other {
            path: folder.to_owned(),
            reason: format!("it is to keep the plan's files, and {reason}"),
        })?;
        write_whole(&path, |file| {
            serde_json::to_writer_pretty(file, &self).map_err(|error| error.to_string())
        })
    }

    /// Whether cells of this manifest may join what the folder holds.
    fn confirm(&self, folder: &Path) -> Result<(), CampaignError> {
        let theirs = Self::read(folder)?;
        let differs = theirs
            .other_than(&self.plan, &self.files, &self.options())
            .or_else(|| theirs.made_by.differs_from(&self.made_by))
            .or_else(|| {
                let words = "it holds results of a laboratory with other metrics";
                (theirs.metrics != self.metrics).then(|| words.to_owned())
            });
        other(folder, differs)
    }

    /// Whether a folder's results are of this plan.
    pub(super) fn is_of(&self, plan: &Plan, folder: &Path) -> Result<(), CampaignError> {
        other(
            folder,
            self.other_than(&plan.text, &plan.files, &plan.options),
        )
    }

    fn other_than(
        &self,
        plan: &str,
        files: &BTreeMap<String, String>,
        options: &ReadOptions,
    ) -> Option<String> {
        let world = &options.field;
        let options = (options.smoke, options.draw, options.seeds);
        let reason = if self.plan != plan {
            "it holds results of another plan, or of another version of this one"
        } else if self.files != *files {
            "the files that the plan names have changed since"
        } else if self.field.is_some() != world.is_some() {
            match world {
                Some(_) => "it holds simulated results, and these would be field data",
                None => "it holds field data of two machines, and these would be simulated",
            }
        } else if self.field != *world {
            "it holds field data of other solutions of this plan (--solutions)"
        } else if (self.smoke, self.draw, self.seeds) != options {
            "it holds results of this plan with other options (smoke, draw, seeds)"
        } else {
            return None;
        };
        Some(reason.to_owned())
    }

    /// Puts entries of another version's metrics into the order of this one's.
    pub(super) fn align<'a>(&self, entries: impl Iterator<Item = &'a mut Entry>) {
        let wanted = metrics();
        if self.metrics == wanted {
            return;
        }
        let split = |names: &[String]| -> (Vec<String>, Vec<String>) {
            let (flow, cell) = names.iter().cloned().partition(|n| n.starts_with("flow."));
            (cell, flow)
        };
        let ((cell, flow), (their_cell, their_flow)) = (split(&wanted), split(&self.metrics));
        let reorder = |values: &mut Vec<Value>, wanted: &[String], theirs: &[String]| {
            let place = |name: &String| theirs.iter().position(|their| their == name);
            let value = |name| Some(values.get(place(name)?)?.clone());
            let aligned = wanted.iter().map(|name| value(name).unwrap_or(Value::NONE));
            *values = aligned.collect();
        };
        for entry in entries {
            reorder(&mut entry.metrics, &cell, &their_cell);
            for connection in &mut entry.flows {
                reorder(&mut connection.metrics, &flow, &their_flow);
            }
        }
    }

    /// The laboratory that made the results.
    pub(super) fn into_made_by(self) -> MadeBy {
        self.made_by
    }

    fn options(&self) -> ReadOptions {
        ReadOptions {
            smoke: self.smoke,
            draw: self.draw,
            seeds: self.seeds,
            field: self.field.clone(),
        }
    }
}

/// The metrics of this version, a cell's first.
fn metrics() -> Vec<String> {
    let cell = METRICS.iter().map(|metric| metric.name.to_owned());
    let flow = FLOW_METRICS.iter();
    cell.chain(flow.map(|metric| format!("flow.{}", metric.name)))
        .collect()
}

fn other(folder: &Path, reason: Option<String>) -> Result<(), CampaignError> {
    reason.map_or(Ok(()), |reason| {
        let path = folder.to_owned();
        Err(CampaignError::Other { path, reason })
    })
}

/// Entries, a line each, in the order in which they were finished.
pub(super) struct Journal {
    path: PathBuf,
    file: Option<File>,
}

impl Journal {
    /// Opens or makes a journal to append to. A last line that was cut off is taken away: its cell
    /// runs again.
    pub(super) fn open(path: &Path) -> Result<Self, CampaignError> {
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .write(true)
            .truncate(false)
            .open(path)
            .map_err(at(path))?;
        // Two runs would write over each other. The lock goes with the process, however it ends.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(CampaignError::Busy(path.to_owned())),
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(at(path)(error)),
        }
        let whole = whole_lines(&file).map_err(at(path))?;
        file.set_len(whole).map_err(at(path))?;
        file.seek(SeekFrom::End(0)).map_err(at(path))?;
        Ok(Self {
            path: path.to_owned(),
            file: Some(file),
        })
    }

    pub(super) fn read_only(path: &Path) -> Result<Self, CampaignError> {
        fs::metadata(path).map_err(at(path))?;
        Ok(Self {
            path: path.to_owned(),
            file: None,
        })
    }

    pub(super) fn append(&mut self, entry: &Entry) -> Result<(), CampaignError> {
        let mut line = serde_json::to_vec(entry).map_err(|error| CampaignError::Table {
            path: self.path.clone(),
            reason: error.to_string(),
        })?;
        line.push(b'\n');
        match &mut self.file {
            Some(file) => file.write_all(&line).map_err(at(&self.path)),
            None => Ok(()),
        }
    }

    /// Cells that have an entry.
    pub(super) fn cells(&self) -> Result<BTreeSet<usize>, CampaignError> {
        Ok(self.entries()?.into_keys().collect())
    }

    /// All entries, by cell. A line that cannot be read is an error: the folder is damaged.
    pub(super) fn entries(&self) -> Result<BTreeMap<usize, Entry>, CampaignError> {
        let file = File::open(&self.path).map_err(at(&self.path))?;
        let whole = whole_lines(&file).map_err(at(&self.path))?;
        let file = File::open(&self.path).map_err(at(&self.path))?;
        let lines = BufReader::new(std::io::Read::take(file, whole)).lines();
        let mut entries = BTreeMap::new();
        for (number, line) in lines.enumerate() {
            let line = line.map_err(at(&self.path))?;
            let entry: Entry =
                serde_json::from_str(&line).map_err(|error| CampaignError::Table {
                    path: self.path.clone(),
                    reason: format!("line {} cannot be understood: {error}", number + 1),
                })?;
            entries.entry(entry.cell).or_insert(entry);
        }
        Ok(entries)
    }
}

/// Bytes up to the end of the last whole line.
fn whole_lines(file: &File) -> std::io::Result<u64> {
    let mut reader = BufReader::new(file);
    let (mut whole, mut line) = (0, Vec::new());
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)? as u64;
        if read == 0 || line.last() != Some(&b'\n') {
            return Ok(whole);
        }
        whole += read;
    }
}
