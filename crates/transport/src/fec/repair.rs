//! Repair symbols: which keys they bear, and which of them are under way.
//!
//! Owns: repair keys, the record of repair symbols sent.
//! Does not own: sums (`tautline-codes`), when one is sent (`sender.rs`).

use std::collections::VecDeque;

use tautline_codes::{CodingWindow, Scheme};

use super::{Strength, scheme::Numbering};

/// Keys of rateless codes stay below this, so that they take two bytes.
pub(super) const KEYS: u32 = 1 << 14;
/// Repair symbols whose fate is remembered. 40 bytes each.
const REMEMBERED: usize = 512;

/// Source and repair symbols of a block, at most (`tautline_codes::reed_solomon`).
const BLOCK: u32 = 256;

/// Whether a repair symbol may still arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RepairFate {
    InFlight,
    Arrived,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct SentRepair {
    window: CodingWindow,
    key: u32,
    fate: RepairFate,
    /// Losses called for it; nobody had decided on it.
    added: bool,
}

/// The source symbols that repair symbols are sums of: every `step`-th of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    run: CodingWindow,
    step: u16,
    /// Where in each step.
    at: u32,
}

impl Group {
    /// From the first to the last of them, those between that are not of the group too.
    pub(super) fn run(self) -> CodingWindow {
        self.run
    }

    pub(super) fn contains(self, id: u64) -> bool {
        let step = u64::from(self.step.max(1));
        self.run.ids().contains(&id) && (id - self.run.first) % step == u64::from(self.at)
    }

    pub(super) fn ids(self) -> impl Iterator<Item = u64> {
        let first = self.run.first.saturating_add(self.at.into());
        (first..self.run.end()).step_by(usize::from(self.step.max(1)))
    }
}

/// What is under way for a source symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    /// Repair symbols that cover it and have arrived or may do so.
    pub(super) repairs: u64,
    /// Those of them that are in flight.
    pub(super) in_flight: u64,
    /// Those of them that were added for losses.
    pub(super) added: u64,
    /// The source symbols that they cover together.
    pub(super) group: Group,
}

/// Keys of the code in use, and the repair symbols sent with them.
#[derive(Debug)]
pub(super) struct RepairLog {
    scheme: Scheme,
    numbering: Numbering,
    strength: Strength,
    next_key: u32,
    last_window: Option<CodingWindow>,
    sent: VecDeque<SentRepair>,
    /// The number of the first.
    first: u64,
    /// How many of them are in flight.
    in_flight: u64,
}

impl RepairLog {
    pub(super) fn new(scheme: Scheme) -> Self {
        Self {
            scheme,
            numbering: Numbering::of(&scheme),
            strength: Strength::of(&scheme),
            next_key: 0,
            last_window: None,
            sent: VecDeque::new(),
            first: 0,
            in_flight: 0,
        }
    }

    /// Repair symbols that are neither acknowledged nor lost, of those that are remembered.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(super) fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// What repair symbols can rebuild.
    pub(super) fn strength(&self) -> Strength {
        self.strength
    }

    /// Whether any further repair symbols over the same window serve, each for one more loss. Those of
    /// block codes are numbered, and few; those of sparse or binary codes often tell nothing new.
    pub(super) fn is_rateless(&self) -> bool {
        self.numbering == Numbering::Endless && self.strength == Strength::Any
    }

    /// The key for a repair symbol over `window`; `None` if the code has no (further) one.
    pub(super) fn key(&self, window: CodingWindow) -> Option<u32> {
        // Of a block code, the index of the repair symbol in its block.
        let index = if self.last_window == Some(window) {
            self.next_key
        } else {
            0
        };
        let len = u32::from(window.len);
        match self.numbering {
            // One after the other: any so many of them rebuild as many losses.
            Numbering::Endless => Some(self.next_key % KEYS),
            Numbering::Groups(groups) => Some(index).filter(|key| *key < len.min(groups.into())),
            Numbering::Block => Some(index).filter(|key| *key + len < BLOCK),
        }
    }

    /// The end of `window` that `count` more repair symbols can be made over: a block code has no more than 256
    /// symbols in all, and a group of repair symbols goes on over the window that it began with.
    pub(super) fn fitting(&self, window: CodingWindow, count: u16) -> CodingWindow {
        if self.numbering != Numbering::Block {
            return window;
        }
        if let Some(begun) = self.last_window
            && begun.end() == window.end()
            && begun.first >= window.first
            && self.next_key + u32::from(begun.len) < BLOCK
        {
            return begun;
        }
        let len = window
            .len
            .min(BLOCK as u16 - count.clamp(1, BLOCK as u16 / 2));
        CodingWindow {
            first: window.end() - u64::from(len),
            len,
        }
    }

    /// A key that those of the next few repair symbols are no longer than. Where so many more leave
    /// that it is, windows begin behind the longest symbols for once.
    pub(super) fn key_soon(&self) -> u64 {
        u64::from(self.next_key % KEYS) + 32
    }

    /// A repair symbol left; they are numbered from 0.
    pub(super) fn on_sent(&mut self, window: CodingWindow, key: u32, added: bool) {
        self.next_key = key.saturating_add(1);
        self.last_window = Some(window);
        self.sent.push_back(SentRepair {
            window,
            key,
            fate: RepairFate::InFlight,
            added,
        });
        self.in_flight += 1;
        if self.sent.len() > REMEMBERED
            && let Some(oldest) = self.sent.pop_front()
        {
            self.first += 1;
            self.in_flight -= u64::from(oldest.fate == RepairFate::InFlight);
        }
    }

    /// A repair symbol was acknowledged or lost. Returns what it covers, while that is known.
    pub(super) fn on_settled(&mut self, number: u64, arrived: bool) -> Option<Group> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let repair = self.sent.get_mut(index)?;
        self.in_flight -= u64::from(repair.fate == RepairFate::InFlight);
        repair.fate = if arrived {
            RepairFate::Arrived
        } else {
            RepairFate::Lost
        };
        let repair = *repair;
        Some(self.group(&repair))
    }

    /// What a repair symbol is a sum of.
    fn group(&self, repair: &SentRepair) -> Group {
        let (step, at) = match self.numbering {
            Numbering::Groups(groups) => (groups, repair.key),
            _ => (1, 0),
        };
        Group {
            run: repair.window,
            step,
            at,
        }
    }

    /// What all repair symbols in flight cover together, and how many they are; they are assumed to be sums
    /// of neighbouring runs, as those of one burst are.
    pub(super) fn under_way(&self) -> Option<(Group, u64)> {
        let in_flight = self.sent.iter().rev();
        let in_flight = in_flight.filter(|repair| repair.fate == RepairFate::InFlight);
        let mut runs = in_flight.map(|repair| repair.window);
        let newest = runs.next()?;
        let (mut first, end, mut count) = (newest.first, newest.end(), 1);
        for run in runs.take_while(|run| run.end() > newest.first) {
            first = first.min(run.first);
            count += 1;
        }
        let run = CodingWindow {
            first,
            len: u16::try_from(end - first).unwrap_or(u16::MAX),
        };
        let (step, at) = (1, 0);
        Some((Group { run, step, at }, count))
    }

    /// What could rebuild symbol `id`. Of codes that sum groups, the latest repair symbol over it that is
    /// in flight, else the latest: repair symbols of other windows have other groups.
    pub(super) fn cover(&self, id: u64) -> Option<Cover> {
        let all = self.sent.iter().map(|repair| Cover {
            repairs: 1,
            in_flight: u64::from(repair.fate == RepairFate::InFlight),
            added: u64::from(repair.added),
            group: self.group(repair),
        });
        let fates = self.sent.iter().map(|repair| repair.fate);
        let of_id = all
            .zip(fates)
            .filter(|(cover, fate)| *fate != RepairFate::Lost && cover.group.contains(id));
        let mut under_way = of_id.map(|(cover, _)| cover);
        if matches!(self.numbering, Numbering::Groups(_)) {
            return under_way.max_by_key(|cover| cover.in_flight);
        }
        let first = under_way.next()?;
        Some(under_way.fold(first, |cover, other| {
            let (run, more) = (cover.group.run, other.group.run);
            let first = run.first.min(more.first);
            let end = run.end().max(more.end());
            Cover {
                repairs: cover.repairs + 1,
                in_flight: cover.in_flight + other.in_flight,
                added: cover.added + other.added,
                group: Group {
                    run: CodingWindow {
                        first,
                        // Windows are neighbours of one another; a longer span is counted as far as
                        // it goes.
                        len: u16::try_from(end - first).unwrap_or(u16::MAX),
                    },
                    ..cover.group
                },
            }
        }))
    }
}
