//! Repair symbols decided on that have not left.
//!
//! Owns: over which runs, how many, how far that covers. Does not own: who decides (`redundancy/`), what
//! a repair symbol is when it leaves (`sender/`).

use std::collections::VecDeque;

use tautline_codes::CodingWindow;

/// Repair symbols that wait; more are not taken.
const MOST: u16 = 256;

/// Runs of source symbols, each with how many repair symbols over it are to leave; the first goes first.
#[derive(Debug, Default)]
pub(super) struct RepairQueue {
    runs: VecDeque<(CodingWindow, u16)>,
    len: u16,
    covered: u64,
}

impl RepairQueue {
    /// Repair symbols that wait.
    pub(super) fn len(&self) -> u16 {
        self.len
    }

    /// How many more are taken.
    pub(super) fn room(&self) -> u16 {
        MOST.saturating_sub(self.len)
    }

    /// Source symbols below this are covered by what a scheduler decided on.
    pub(super) fn covered(&self) -> u64 {
        self.covered
    }

    /// The run that the next one covers.
    pub(super) fn front(&self) -> Option<CodingWindow> {
        self.runs.front().map(|(run, _)| *run)
    }

    /// How many are to cover that run.
    pub(super) fn first_run_len(&self) -> u16 {
        self.runs.front().map_or(0, |(_, count)| *count)
    }

    /// A scheduler wants so many, at most [`Self::room`].
    pub(super) fn push(&mut self, run: CodingWindow, count: u16) {
        self.covered = self.covered.max(run.end());
        self.len += count;
        self.runs.push_back((run, count));
    }

    /// These, in place of all others.
    pub(super) fn replace(&mut self, run: CodingWindow, count: u16) {
        self.runs.clear();
        self.len = 0;
        self.push(run, count);
    }

    /// One more than was decided on; false if there is no room.
    pub(super) fn add(&mut self, run: CodingWindow) -> bool {
        if self.room() == 0 {
            return false;
        }
        self.len += 1;
        match self.runs.back_mut() {
            Some((last, count)) if *last == run => *count += 1,
            _ => self.runs.push_back((run, 1)),
        }
        true
    }

    /// The next one has left.
    pub(super) fn pop(&mut self) {
        if let Some((_, count)) = self.runs.front_mut() {
            self.len -= 1;
            *count -= 1;
            if *count == 0 {
                self.runs.pop_front();
            }
        }
    }

    /// Nothing over the first run leaves any more.
    pub(super) fn skip(&mut self) {
        if let Some((_, count)) = self.runs.pop_front() {
            self.len -= count;
        }
    }

    /// How many wait that cover symbol `id`.
    pub(super) fn over(&self, id: u64) -> u64 {
        let over = self.runs.iter().filter(|(run, _)| run.ids().contains(&id));
        over.map(|(_, count)| u64::from(*count)).sum()
    }
}
