//! The loss monitors of a connection's paths.

use smallvec::SmallVec;

use super::{LossEstimate, LossMemory, LossMonitor};
use crate::units::PathId;

/// One monitor for each path that something was heard of, in that order.
#[derive(Debug, Default)]
pub(super) struct Monitors(SmallVec<[(PathId, LossMonitor); 1]>);

impl Monitors {
    pub(super) fn get(&self, path: PathId) -> Option<&LossMonitor> {
        let monitor = self.0.iter().find(|(id, _)| *id == path);
        monitor.map(|(_, monitor)| monitor)
    }

    /// That of a path, new if need be.
    #[inline]
    pub(super) fn of(&mut self, path: PathId) -> &mut LossMonitor {
        let first = self.0.first().is_some_and(|(id, _)| *id == path);
        let index = if first { 0 } else { self.find(path) };
        #[expect(clippy::indexing_slicing, reason = "found or just pushed")]
        &mut self.0[index].1
    }

    #[cold]
    fn find(&mut self, path: PathId) -> usize {
        let index = self.0.iter().position(|(id, _)| *id == path);
        index.unwrap_or_else(|| {
            self.0.push((path, LossMonitor::default()));
            self.0.len() - 1
        })
    }

    /// Begins with what an earlier connection knew of a path, unless more is known already.
    pub(super) fn begin_with(&mut self, path: PathId, memory: &LossMemory) {
        if self.get(path).is_none() {
            self.0.push((path, LossMonitor::with_memory(memory)));
        }
    }

    /// A path is gone.
    pub(super) fn forget(&mut self, path: PathId) {
        self.0.retain(|(id, _)| *id != path);
    }

    /// What is known of the first path's losses.
    pub(super) fn first(&mut self) -> LossEstimate {
        let first = self.0.first_mut();
        first.map_or_else(LossEstimate::default, |(_, monitor)| {
            monitor.estimate_once()
        })
    }
}
