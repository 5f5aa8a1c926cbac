//! The sender's window of source symbols, and what became of each.
//!
//! Owns: the plaintext of protected packets (in the encoder, bounded in symbols and so in bytes),
//! the way from a symbol ID to its packet and its fate.
//! Does not own: when a packet is lost (`recovery/`), what its frames need (each room).

use std::collections::VecDeque;

use tautline_codes::{CodingWindow, EncodeError, Encoder, Limits};

use crate::units::{PacketNumber, PathId};

/// Symbols whose fate is remembered, beyond those that can still be covered. 16 bytes each.
const REMEMBERED: usize = 8192;

/// What became of a source symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolFate {
    /// Its packet is neither acknowledged nor lost.
    InFlight,
    /// Its packet was acknowledged.
    Acked,
    /// The peer has recovered it.
    Recovered,
    /// Its packet is lost; what it carried waits for a repair symbol.
    Waiting,
    /// Its packet is lost; what it carried was queued to be sent again.
    Resent,
}

impl SymbolFate {
    /// Whether the peer has what the symbol carried.
    pub(super) fn is_settled(self) -> bool {
        matches!(self, Self::Acked | Self::Recovered)
    }
}

/// Where a symbol travelled, and its fate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) path: PathId,
    pub(super) number: PacketNumber,
    pub(super) fate: SymbolFate,
    /// What it carried is on its way on another path as well: nothing waits for this symbol.
    pub(super) copied: bool,
    /// So many symbols from this one on are settled, at least; 0 if this one is not.
    settled: u16,
}

impl Entry {
    /// Whether repair symbols are wanted for it: its fate is open, and no copy stands in for it.
    fn counts(&self) -> bool {
        self.fate == SymbolFate::InFlight && !self.copied
    }
}

/// Source symbols, oldest first.
#[derive(Debug)]
pub(super) struct SourceWindow {
    pub(super) encoder: Encoder,
    entries: VecDeque<Entry>,
    /// The ID of the first entry.
    first: u64,
    /// No symbol below waits, or is in flight without a copy.
    open: u64,
    /// Entries in flight without a copy.
    in_flight: u64,
    /// One more than the largest symbol ID that the peer is known to have.
    known: u64,
    /// Entries that [`Self::unsettled_from`] has looked at.
    #[cfg(test)]
    pub(super) looked_at: u64,
}

impl SourceWindow {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            encoder: Encoder::new(limits),
            entries: VecDeque::new(),
            first: 0,
            open: 0,
            in_flight: 0,
            known: 0,
            #[cfg(test)]
            looked_at: 0,
        }
    }

    /// Takes the next symbol; returns its ID.
    pub(super) fn push(
        &mut self,
        path: PathId,
        number: PacketNumber,
        symbol: &[u8],
    ) -> Result<u64, EncodeError> {
        let id = self.encoder.push(symbol)?;
        self.entries.push_back(Entry {
            path,
            number,
            fate: SymbolFate::InFlight,
            copied: false,
            settled: 0,
        });
        self.in_flight += 1;
        if self.entries.len() > REMEMBERED {
            self.forget_oldest();
        }
        Ok(id)
    }

    fn forget_oldest(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.first += 1;
            self.in_flight -= u64::from(entry.counts());
        }
    }

    /// How many symbols there are from the oldest on whose fate is open.
    pub(super) fn span(&self) -> u64 {
        self.next_id() - self.open.max(self.first)
    }

    /// The symbols from the oldest on whose fate is open; `None` if there is none, or if they are too
    /// many to count.
    pub(super) fn open_run(&self) -> Option<CodingWindow> {
        let len = u16::try_from(self.span()).ok().filter(|len| *len > 0)?;
        let first = self.open.max(self.first);
        Some(CodingWindow { first, len })
    }

    /// The ID of the next symbol.
    pub(super) fn next_id(&self) -> u64 {
        self.encoder.next_id()
    }

    /// The largest ID that the peer is known to have.
    pub(super) fn largest_known(&self) -> Option<u64> {
        self.known.checked_sub(1)
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(super) fn get(&self, id: u64) -> Option<Entry> {
        let index = usize::try_from(id.checked_sub(self.first)?).ok()?;
        self.entries.get(index).copied()
    }

    /// What became of a symbol; `None` if nobody remembers, or a copy stands in for it.
    pub(super) fn fate(&self, id: u64) -> Option<SymbolFate> {
        let entry = self.get(id).filter(|entry| !entry.copied)?;
        Some(entry.fate)
    }

    /// The first symbol from `id` on that the peer is not known to have; one that is not remembered, if there is
    /// none. Settled symbols stay settled, and runs of them grow together where they are walked: a question costs
    /// a logarithm of what is remembered, amortised, however often the same one is put.
    pub(super) fn unsettled_from(&mut self, id: u64) -> u64 {
        let Some(mut at) = id
            .checked_sub(self.first)
            .and_then(|index| usize::try_from(index).ok())
        else {
            return id;
        };
        while let Some(run) = self.settled_at(at).filter(|run| *run > 0) {
            let behind = self.settled_at(at + usize::from(run)).unwrap_or(0);
            if let Some(entry) = self.entries.get_mut(at) {
                entry.settled = run.saturating_add(behind);
            }
            at += usize::from(run) + usize::from(behind);
        }
        self.first + at as u64
    }

    fn settled_at(&mut self, index: usize) -> Option<u16> {
        #[cfg(test)]
        {
            self.looked_at += 1;
        }
        Some(self.entries.get(index)?.settled)
    }

    /// Symbols whose fate is remembered.
    pub(super) fn remembered(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.entries.len() as u64
    }

    /// Writes down the fate of a symbol; returns the one before.
    pub(super) fn settle(&mut self, id: u64, fate: SymbolFate) -> Option<SymbolFate> {
        let index = usize::try_from(id.checked_sub(self.first)?).ok()?;
        let entry = self.entries.get_mut(index)?;
        let counted = entry.counts();
        let before = std::mem::replace(&mut entry.fate, fate);
        self.in_flight -= u64::from(counted && !entry.counts());
        if fate.is_settled() {
            entry.settled = entry.settled.max(1);
            self.known = self.known.max(id + 1);
        }
        self.move_on();
        Some(before)
    }

    /// What a symbol carries goes on another path as well.
    pub(super) fn on_copied(&mut self, id: u64) {
        let index = id.checked_sub(self.first).map(usize::try_from);
        if let Some(Ok(index)) = index
            && let Some(entry) = self.entries.get_mut(index)
        {
            self.in_flight -= u64::from(entry.counts());
            entry.copied = true;
            self.move_on();
        }
    }

    /// The same for all that travel on a path.
    pub(super) fn on_all_copied(&mut self, path: PathId) {
        for entry in self.entries.iter_mut().filter(|entry| entry.path == path) {
            self.in_flight -= u64::from(entry.counts());
            entry.copied = true;
        }
        self.move_on();
    }

    /// How many of the symbols that can still be covered travel on a path, without a copy elsewhere. Work:
    /// a step for each symbol that is covered, at most.
    pub(super) fn in_flight_on(&self, path: PathId) -> u64 {
        let held = usize::from(self.encoder.window().len);
        let held = self.entries.iter().rev().take(held);
        let of_path = held.filter(|entry| entry.path == path && entry.counts());
        of_path.count() as u64
    }

    fn move_on(&mut self) {
        self.open = self.open.max(self.first);
        while self
            .get(self.open)
            .is_some_and(|entry| !entry.counts() && entry.fate != SymbolFate::Waiting)
        {
            self.open += 1;
        }
    }

    /// Whether a repair symbol over this run could still tell the peer something.
    pub(super) fn is_open(&self, run: CodingWindow) -> bool {
        run.ids().any(|id| {
            self.get(id)
                .is_some_and(|entry| !entry.fate.is_settled() && !entry.copied)
        })
    }
}
