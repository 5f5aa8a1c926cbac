//! The loss monitors of a connection's paths.

use super::{LossEstimate, LossMemory, LossMonitor};
use crate::units::PathId;

/// A path's.
type OfPath = (PathId, LossMonitor);

fn new(path: PathId) -> OfPath {
    (path, LossMonitor::default())
}

/// One monitor for each path that something was heard of, in that order: the first by itself, since most packets are of it.
#[derive(Debug, Default)]
pub(super) struct Monitors {
    first: Option<OfPath>,
    others: Vec<OfPath>,
}

impl Monitors {
    pub(super) fn get(&self, path: PathId) -> Option<&LossMonitor> {
        let mut all = self.first.iter().chain(&self.others);
        let monitor = all.find(|(id, _)| *id == path);
        monitor.map(|(_, monitor)| monitor)
    }

    /// That of a path, new if need be.
    #[inline]
    pub(super) fn of(&mut self, path: PathId) -> &mut LossMonitor {
        let first = self.first.get_or_insert_with(|| new(path));
        if first.0 == path {
            return &mut first.1;
        }
        Self::other(&mut self.others, path)
    }

    #[cold]
    fn other(others: &mut Vec<OfPath>, path: PathId) -> &mut LossMonitor {
        let index = others.iter().position(|(id, _)| *id == path);
        let index = index.unwrap_or_else(|| {
            others.push(new(path));
            others.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found or just pushed")]
        &mut others[index].1
    }

    /// Begins with what an earlier connection knew of a path, unless more is known already.
    pub(super) fn begin_with(&mut self, path: PathId, memory: &LossMemory) {
        if self.get(path).is_none() {
            *self.of(path) = LossMonitor::with_memory(memory);
        }
    }

    /// A path is gone.
    pub(super) fn forget(&mut self, path: PathId) {
        self.others.retain(|(id, _)| *id != path);
        if self.first.as_ref().is_some_and(|(id, _)| *id == path) {
            self.first = (!self.others.is_empty()).then(|| self.others.remove(0));
        }
    }

    /// What is known of the first path's losses.
    pub(super) fn first(&mut self) -> LossEstimate {
        let first = self.first.as_mut();
        first.map_or_else(LossEstimate::default, |(_, monitor)| {
            monitor.estimate_once()
        })
    }
}
