//! Repair symbols decided on that have not left.
//!
//! Owns: over which runs, how many, how far that covers. Does not own: who decides (`redundancy/`), what
//! a repair symbol is when it leaves (`sender/`).

use std::collections::VecDeque;

use tautline_codes::CodingWindow;

/// Repair symbols that wait; more are not taken.
const MOST: u16 = 256;

/// Repair symbols over one run of source symbols.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    run: CodingWindow,
    count: u16,
    /// Those of them that nobody decided on, but that losses called for; they leave last.
    added: u16,
}

/// Runs of source symbols, each with how many repair symbols over it are to leave; the first goes first.
#[derive(Debug, Default)]
pub(super) struct RepairQueue {
    runs: VecDeque<Wanted>,
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
        self.runs.front().map(|wanted| wanted.run)
    }

    /// How many are to cover that run.
    pub(super) fn first_run_len(&self) -> u16 {
        self.runs.front().map_or(0, |wanted| wanted.count)
    }

    /// A scheduler wants so many, at most [`Self::room`].
    pub(super) fn push(&mut self, run: CodingWindow, count: u16) {
        self.covered = self.covered.max(run.end());
        self.len += count;
        self.runs.push_back(Wanted {
            run,
            count,
            added: 0,
        });
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
            Some(last) if last.run == run => {
                last.count += 1;
                last.added += 1;
            }
            _ => self.runs.push_back(Wanted {
                run,
                count: 1,
                added: 1,
            }),
        }
        true
    }

    /// The next one has left. True if nobody had decided on it.
    pub(super) fn pop(&mut self) -> bool {
        let Some(first) = self.runs.front_mut() else {
            return false;
        };
        let added = first.count <= first.added;
        first.added -= u16::from(added);
        first.count -= 1;
        self.len -= 1;
        if first.count == 0 {
            self.runs.pop_front();
        }
        added
    }

    /// Nothing over the first run leaves any more.
    pub(super) fn skip(&mut self) {
        if let Some(first) = self.runs.pop_front() {
            self.len -= first.count;
        }
    }

    /// How many wait that cover symbol `id`.
    pub(super) fn over(&self, id: u64) -> u64 {
        self.covering(id)
            .map(|wanted| u64::from(wanted.count))
            .sum()
    }

    /// Of these, those that nobody decided on.
    pub(super) fn added_over(&self, id: u64) -> u64 {
        self.covering(id)
            .map(|wanted| u64::from(wanted.added))
            .sum()
    }

    fn covering(&self, id: u64) -> impl Iterator<Item = &Wanted> {
        let wanted = self.runs.iter();
        wanted.filter(move |wanted| wanted.run.ids().contains(&id))
    }
}
