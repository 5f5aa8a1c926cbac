//! Repair symbols: which keys they bear, and which of them are under way.
//!
//! Owns: repair keys, the record of repair symbols sent.
//! Does not own: sums (`tautline-codes`), when one is sent (`sender.rs`).

use std::collections::VecDeque;

use tautline_codes::{CodingWindow, Scheme, rlc::Rlc};

/// Keys of rateless codes stay below this, so that they take two bytes.
pub(super) const KEYS: u32 = 1 << 14;
/// Repair symbols whose fate is remembered. 40 bytes each.
const REMEMBERED: usize = 512;

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
    fate: RepairFate,
}

/// What is under way for a source symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    /// Repair symbols that cover it and have arrived or may do so.
    pub(super) repairs: u64,
    /// Those of them that are in flight.
    pub(super) in_flight: u64,
    /// The run of source symbols that they cover together.
    pub(super) span: CodingWindow,
}

/// Keys of the code in use, and the repair symbols sent with them.
#[derive(Debug)]
pub(super) struct RepairLog {
    scheme: Scheme,
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

    /// Whether any further repair symbols over the same window serve, each for one more loss. Those of
    /// block codes are numbered, and few; those of sparse or binary codes often tell nothing new.
    pub(super) fn is_rateless(&self) -> bool {
        match self.scheme {
            Scheme::Rlc(rlc) => rlc == Rlc::DENSE,
            Scheme::Tetrys(_) => true,
            _ => false,
        }
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
        match self.scheme {
            // One after the other: any so many of them rebuild as many losses.
            Scheme::Rlc(_) | Scheme::Tetrys(_) => Some(self.next_key % KEYS),
            Scheme::Xor(xor) => Some(index).filter(|key| *key < len.min(xor.depth().into())),
            Scheme::ReedSolomon(_) => Some(index).filter(|key| *key + len < 256),
            _ => None,
        }
    }

    /// A key that those of the next few repair symbols are no longer than. Where so many more leave
    /// that it is, windows begin behind the longest symbols for once.
    pub(super) fn key_soon(&self) -> u64 {
        u64::from(self.next_key % KEYS) + 32
    }

    /// A repair symbol left; they are numbered from 0.
    pub(super) fn on_sent(&mut self, window: CodingWindow, key: u32) {
        self.next_key = key.saturating_add(1);
        self.last_window = Some(window);
        self.sent.push_back(SentRepair {
            window,
            fate: RepairFate::InFlight,
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
    pub(super) fn on_settled(&mut self, number: u64, arrived: bool) -> Option<CodingWindow> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let repair = self.sent.get_mut(index)?;
        self.in_flight -= u64::from(repair.fate == RepairFate::InFlight);
        repair.fate = if arrived {
            RepairFate::Arrived
        } else {
            RepairFate::Lost
        };
        Some(repair.window)
    }

    /// What could rebuild symbol `id`.
    pub(super) fn cover(&self, id: u64) -> Option<Cover> {
        let under_way = self
            .sent
            .iter()
            .filter(|repair| repair.fate != RepairFate::Lost && repair.window.ids().contains(&id));
        under_way.fold(None, |cover: Option<Cover>, repair| {
            let (first, end) = (repair.window.first, repair.window.end());
            let in_flight = u64::from(repair.fate == RepairFate::InFlight);
            let Some(cover) = cover else {
                return Some(Cover {
                    repairs: 1,
                    in_flight,
                    span: repair.window,
                });
            };
            let first = first.min(cover.span.first);
            let end = end.max(cover.span.end());
            Some(Cover {
                repairs: cover.repairs + 1,
                in_flight: cover.in_flight + in_flight,
                span: CodingWindow {
                    first,
                    // Windows are neighbours of one another; a longer span is counted as far as
                    // it goes.
                    len: u16::try_from(end - first).unwrap_or(u16::MAX),
                },
            })
        })
    }
}
