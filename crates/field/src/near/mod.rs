//! The machine with the plan: every run of it with a far end, into a folder.
//!
//! Owns: [`campaign`], [`Settings`], [`FieldError`]; what becomes of runs that fail. Does not own: the
//! control connection (`link.rs`), a run (`run.rs`), rows and their order (`tautline_lab::campaign`).

mod link;
mod run;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tautline::tls::Fingerprint;
use tautline_lab::{
    campaign::{self, CampaignError, Ending, Entry, FieldNote, Progress, Rows, Turn},
    plan::Plan,
    stack::Stacks,
};
use tokio::time::sleep;

use self::{link::Link, run::RunError};
use crate::clock;

/// How often a far end that has gone is called again, and how long is waited in between.
const CALLS: u32 = 5;
const BETWEEN_CALLS: Duration = Duration::from_secs(3);
/// How soon a wish to stop is heeded between runs.
const TICK: Duration = Duration::from_millis(50);

/// Which far end, and how it is known.
#[derive(Clone)]
pub struct Address {
    /// Its name or address.
    pub host: String,
    /// Its UDP port.
    pub port: u16,
    /// The word that it was started with.
    pub token: String,
    /// Its certificate's fingerprint, if that is to be looked at as well.
    pub pin: Option<Fingerprint>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the token.
        write!(f, "Address({}, pin {:?})", self.name(), self.pin)
    }
}

impl Address {
    /// As one writes it.
    fn name(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// How a campaign is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where results go.
    pub folder: PathBuf,
    /// Whether to go on with what the folder holds.
    pub resume: bool,
    /// Between the end of a run and the beginning of the next.
    pub pause: Duration,
}

/// Why a campaign cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// The folder.
    #[error(transparent)]
    Campaign(#[from] CampaignError),
    /// A plan that was read for simulation.
    #[error("the plan was not read for field runs")]
    Simulated,
    /// The far end does not answer.
    #[error(
        "no far end at {far}: {reason}; start `tautline lab far --listen ADDR:PORT` there, and let UDP to \
         that port through"
    )]
    Unreachable {
        /// Where.
        far: String,
        /// What happened.
        reason: String,
    },
    /// Something else answers.
    #[error(
        "{far} is no `tautline lab far`: it speaks another protocol; give the port that the far end printed"
    )]
    Stranger {
        /// Where.
        far: String,
    },
    /// The certificate is another one.
    #[error(
        "{far} shows another certificate than the pinned one: check --pin; if it is right, somebody else \
         is answering"
    )]
    Pin {
        /// Where.
        far: String,
    },
    /// The far end says no.
    #[error("{far} refuses: {reason}")]
    Refused {
        /// Where.
        far: String,
        /// Its words.
        reason: String,
    },
    /// The far end cannot show that it has the token.
    #[error(
        "{far} does not show that it has the token: somebody else is answering, or sits in the middle; \
         nothing was run"
    )]
    Impostor {
        /// Where.
        far: String,
    },
    /// The control connection broke.
    #[error("{far} has gone: {reason}")]
    Lost {
        /// Where.
        far: String,
        /// What happened.
        reason: String,
    },
}

/// Runs what has no row yet of a plan that was read for field runs. `stop` ends it after the run under
/// way; `progress` is told after every row. A run that fails is a row; when the far end has gone for good,
/// the campaign ends with an error, and can be resumed.
///
/// # Errors
/// Files, a folder that holds something else, a far end that cannot be had.
pub async fn campaign(
    plan: &Plan,
    address: &Address,
    settings: &Settings,
    stop: &AtomicBool,
    mut progress: impl FnMut(Progress),
) -> Result<Ending, FieldError> {
    if !plan.is_of_field() {
        return Err(FieldError::Simulated);
    }
    let stacks = Stacks::default();
    // Before anything is written: a far end that cannot be had leaves no folder behind.
    let mut link = Some(Link::connect(address).await?);
    let mut rows = Rows::open(plan, &stacks, &settings.folder, settings.resume)?;
    let mut state = Progress {
        done: rows.count(),
        total: plan.len(),
        troubled: 0,
        traced: 0,
    };
    progress(state);
    let left: Vec<Turn> = campaign::turns(plan)
        .into_iter()
        .filter(|turn| !rows.has(turn.cell.index))
        .collect();
    for (number, turn) in left.iter().enumerate() {
        if number > 0 {
            pause(settings.pause, stop).await;
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(Ending::Stopped(state));
        }
        let mut connected = match link.take() {
            Some(link) => link,
            None => again(address).await?,
        };
        let (entry, lost) = one(plan, &stacks, turn, address, &mut connected).await;
        rows.add(&entry)?;
        state.done += 1;
        state.troubled += usize::from(entry.status != "ok");
        progress(state);
        match lost {
            // What is no fault of the connection would be the same with another one.
            Some(error @ (FieldError::Impostor { .. } | FieldError::Pin { .. })) => {
                return Err(error);
            }
            Some(_) => {}
            None => link = Some(connected),
        }
    }
    if let Some(link) = link {
        link.close().await;
    }
    rows.write_tables()?;
    Ok(Ending::Complete(state))
}

async fn pause(pause: Duration, stop: &AtomicBool) {
    let until = clock::now() + pause;
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(clock::now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(TICK)).await;
    }
}

/// Calls a far end that has gone.
async fn again(address: &Address) -> Result<Link, FieldError> {
    let mut calls = 1;
    loop {
        match Link::connect(address).await {
            Err(FieldError::Unreachable { .. } | FieldError::Lost { .. }) if calls < CALLS => {
                calls += 1;
                sleep(BETWEEN_CALLS).await;
            }
            other => return other,
        }
    }
}

/// The row of one run; and what happened to the control connection, if it is of no use any more.
async fn one(
    plan: &Plan,
    stacks: &Stacks,
    turn: &Turn,
    address: &Address,
    link: &mut Link,
) -> (Entry, Option<FieldError>) {
    let mut note = FieldNote {
        started: clock::utc(),
        block: turn.block,
        order: turn.order,
        far: address.name(),
        ..FieldNote::default()
    };
    let cell = &turn.cell;
    let scene = match plan.scene(cell, stacks) {
        Ok(scene) => scene,
        Err(error) => {
            let entry = campaign::failed(cell, "refused", error.to_string(), note);
            return (entry, None);
        }
    };
    match run::play(plan, &scene, cell, link, &mut note).await {
        Ok(record) => (campaign::entry(plan, cell, &record, note), None),
        Err(RunError::Refused(reason)) => (campaign::failed(cell, "refused", reason, note), None),
        Err(RunError::Failed(reason)) => (campaign::failed(cell, "error", reason, note), None),
        Err(RunError::Link(error)) => {
            let entry = campaign::failed(cell, "error", error.to_string(), note);
            (entry, Some(error))
        }
    }
}
