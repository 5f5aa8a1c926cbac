//! Why data goes where it goes, for whoever observes.
//!
//! Owns: what is told of a choice of path, and how often. Does not own: the choice
//! (`multipath_tx.rs`, `pins.rs`). Not observed, nothing of this runs.

use std::time::Duration;

use super::{Connection, multipath_tx::view_of};
use crate::{
    multipath::{PathStatus, sched::PathView},
    observe::{Event, PathCandidate, PathVerdict},
    path::Path,
    time::Instant,
    units::PathId,
};

/// Choices that follow each other more quickly are told of together.
const INTERVAL: Duration = Duration::from_millis(10);

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct PathTrace {
    last: Option<(Option<PathId>, &'static str)>,
    /// The candidates, and whether the scheduler was asked about each.
    asked: Vec<(PathId, bool)>,
    told_at: Option<Instant>,
    /// Choices that differed from the one before, since then.
    changes: u32,
}

/// Why a path carries data.
pub(super) mod reason {
    /// The scheduler was asked about it alone.
    pub(crate) const ONLY: &str = "only_candidate";
    /// The scheduler chose among several.
    pub(crate) const SCHEDULER: &str = "scheduler";
    /// The scheduler would rather wait for one that may not send now.
    pub(crate) const WAITS: &str = "waits";
    /// Data is pinned to it.
    pub(crate) const PIN: &str = "pin";
}

impl Connection {
    /// Tells of a choice, if it differs from the one before: `views` are what the scheduler was asked
    /// about.
    pub(super) fn trace_choice(
        &mut self,
        now: Instant,
        chosen: Option<PathId>,
        why: &'static str,
        views: &[PathView],
        waiting: u64,
    ) {
        if !self.observer.is_active() {
            return;
        }
        let Some(multipath) = &mut self.multipath else {
            return;
        };
        let trace = &mut multipath.trace;
        let live = || self.paths.iter().filter(|path| !path.is_abandoned());
        let asked = |path: &Path| views.iter().any(|view| view.id == path.id);
        let same = live().count() == trace.asked.len()
            && live()
                .zip(&trace.asked)
                .all(|(path, was)| (path.id, asked(path)) == *was);
        if trace.last == Some((chosen, why)) && same {
            return;
        }
        trace.last = Some((chosen, why));
        trace.asked.clear();
        trace
            .asked
            .extend(live().map(|path| (path.id, asked(path))));
        trace.changes = trace.changes.saturating_add(1);
        if trace.told_at.is_some_and(|at| now < at + INTERVAL) {
            return;
        }
        trace.told_at = Some(now);
        let changes = std::mem::take(&mut trace.changes);
        let chosen_view = views.iter().find(|view| Some(view.id) == chosen);
        let candidates: Vec<PathCandidate> = live()
            .map(|path| {
                let asked = views.iter().find(|view| view.id == path.id);
                let view = asked
                    .copied()
                    .unwrap_or_else(|| view_of(now, path, false, path.recovery.rtt().min() / 2));
                PathCandidate {
                    path: path.id,
                    verdict: verdict(path, asked, chosen_view),
                    smoothed_rtt: view.has_rtt.then_some(view.smoothed_rtt),
                    arrival: view.one_way_delay(),
                    room: view.room().min(path.cap_room()),
                    rate: view.rate,
                    loss: view.loss,
                }
            })
            .collect();
        let scheduler = multipath.scheduler.name();
        self.observer.emit(now, || Event::PathChosen {
            path: chosen,
            scheduler,
            reason: why,
            waiting,
            changes,
            candidates: &candidates,
        });
    }
}

/// What came of one path.
fn verdict(path: &Path, asked: Option<&PathView>, chosen: Option<&PathView>) -> PathVerdict {
    if chosen.is_some_and(|chosen| chosen.id == path.id) {
        return PathVerdict::Chosen;
    }
    let Some(view) = asked else {
        return if path.is_spent() {
            PathVerdict::CapReached
        } else if !path.is_usable() {
            PathVerdict::NotValidated
        } else if path.is_silent() {
            PathVerdict::Silent
        } else {
            PathVerdict::Costlier
        };
    };
    let spared = chosen.is_some_and(|chosen| chosen.status == PathStatus::Available);
    if view.status == PathStatus::Backup && spared {
        PathVerdict::Backup
    } else if view.room() < view.datagram {
        PathVerdict::Full
    } else if !view.may_send {
        PathVerdict::Paced
    } else {
        PathVerdict::LeftAlone
    }
}
