//! The receiving side: what arrived, what is missing, and the equations between them.
//!
//! Owns: [`Decoder`] and its window. Does not own: the equations (`system.rs`), coefficients (the
//! codes), what the bytes mean.
//!
//! # How it solves
//!
//! A repair symbol is an equation in source symbols. What is known is subtracted as soon as it is
//! known; the equations that remain, in missing symbols only, are kept in reduced echelon form,
//! each solved for the *oldest* missing symbol in it. Equations of any code, over any windows,
//! overlapping or not, go into the same system. So a symbol is rebuilt at the very moment the
//! symbols received determine it, and a symbol that leaves the window, being the oldest, stands
//! in one equation at most: dropping that equation loses nothing that the others say.
//!
//! # What it may cost
//!
//! With a window of `W` symbols of `E` bytes: a source symbol costs its copy, and if it was missing
//! in equations, at most twice their number times `E`; a repair symbol at most `2 W E`, and
//! nothing but its coefficients if it tells nothing new; rebuilding costs nothing more. Memory is
//! bounded by [`Limits::decoder_bytes`]; equations never outnumber missing symbols, whatever is
//! sent.
//!
//! Coefficients come on top: where `P` equations wait, a repair symbol of whatever length costs at
//! most `2 W P` byte operations on them and `W P` to count them, `P` being at most `W / 8` (16 with
//! short windows) or what [`Limits::with_equations`] says. With symbols of a few bytes that is what
//! counts.

mod system;

use std::collections::VecDeque;

use crate::{
    code::{CodingWindow, ErasureCode, MAX_SYMBOL_ID, RepairId},
    error::{CodeError, DecodeError},
    limits::Limits,
    symbol::{Buffer, framed_len},
};

use system::System;

/// What became of a symbol that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It told something new, and `recovered` missing symbols are rebuilt: fetch them with
    /// [`Decoder::next_recovered`].
    Used {
        /// How many, this time.
        recovered: usize,
    },
    /// It told nothing new. Its bytes were not looked at.
    Redundant,
    /// It belongs to, or depends on, symbols that have left the window.
    Stale,
}

/// What a decoder has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecoderStats {
    /// Source symbols taken.
    pub sources: u64,
    /// Repair symbols taken that told something new.
    pub repairs: u64,
    /// Source and repair symbols that told nothing new.
    pub redundant: u64,
    /// Source and repair symbols that came too late.
    pub stale: u64,
    /// Symbols rebuilt.
    pub recovered: u64,
    /// Symbols rebuilt that were garbage.
    pub garbage: u64,
    /// Equations dropped unsolved: their oldest symbol left the window, or there were too many.
    pub dropped: u64,
    /// Bytes multiplied and added, padding included.
    pub byte_operations: u64,
}

/// One place of the window.
#[derive(Debug)]
enum Slot {
    Missing,
    Known(Buffer),
}

/// Holds the latest source symbols and rebuilds missing ones.
///
/// The window covers the [`Limits::window_symbols`] source symbols before the highest ID seen, in
/// a source symbol or in the window of a repair symbol; older ones are forgotten.
///
/// With a window of `W` symbols of `E` bytes and `P` equations that wait, a repair symbol costs at
/// most `2 W E` byte operations on symbols and, however short it is, `3 W P` on coefficients;
/// `docs/codes.md` in the repository has figures.
///
/// ```
/// # #[cfg(feature = "rlc")] {
/// use tautline_codes::{Decoder, Encoder, Limits, RepairId, rlc::Rlc};
///
/// let mut encoder = Encoder::new(Limits::default());
/// let mut decoder = Decoder::new(Limits::default());
/// for packet in [&b"one"[..], b"two", b"three"] {
///     let id = encoder.push(packet)?;
///     if packet != b"two" {
///         decoder.source(id, packet)?;
///     }
/// }
/// let mut repair = [0; 1502];
/// let id = RepairId { window: encoder.window(), key: 1 };
/// let len = encoder.repair(&Rlc::DENSE, id, &mut repair)?;
/// decoder.repair(&Rlc::DENSE, id, &repair[..len])?;
/// assert_eq!(decoder.next_recovered(), Some((1, &b"two"[..])));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    /// The window's first ID, and the ID after the last one heard of.
    base: u64,
    end: u64,
    /// Symbol `id` stands at `id` modulo the length, a power of two.
    slots: Vec<Slot>,
    system: System,
    /// Rebuilt and not yet fetched.
    recovered: VecDeque<u64>,
    /// Buffers to use again.
    spare: Vec<Buffer>,
    /// Coefficients of the repair symbol at hand: as its code gives them, and by slot.
    given: Vec<u8>,
    row: Vec<u8>,
    stats: DecoderStats,
}

impl Decoder {
    /// A decoder that has heard of no symbol.
    pub fn new(limits: Limits) -> Self {
        let window = limits.ring_symbols();
        Self {
            limits,
            base: 0,
            end: 0,
            slots: (0..window).map(|_| Slot::Missing).collect(),
            system: System::new(window),
            recovered: VecDeque::new(),
            spare: Vec::new(),
            given: Vec::new(),
            row: vec![0; window],
            stats: DecoderStats::default(),
        }
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// What it has done so far.
    pub fn stats(&self) -> DecoderStats {
        let mut stats = self.stats;
        stats.byte_operations = self.system.byte_operations();
        stats
    }

    /// Symbols it remembers or waits for: from the oldest of the window to the latest heard of.
    pub fn window(&self) -> CodingWindow {
        CodingWindow {
            first: self.base,
            // At most `window_symbols`, which has 16 bits.
            len: (self.end - self.base) as u16,
        }
    }

    /// The IDs of the window's missing symbols.
    pub fn missing(&self) -> impl Iterator<Item = u64> {
        (self.base..self.end).filter(|id| self.symbol(*id).is_none())
    }

    /// Independent equations in missing symbols: how many repair symbols wait for others.
    pub fn equations(&self) -> usize {
        self.system.len()
    }

    /// The bytes of a symbol, received or rebuilt, while it is in the window.
    pub fn symbol(&self, id: u64) -> Option<&[u8]> {
        self.known(id)?.symbol()
    }

    /// Whether [`Self::next_recovered`] may have one; it has none if this is false.
    #[inline]
    pub fn has_recovered(&self) -> bool {
        !self.recovered.is_empty()
    }

    /// The next rebuilt symbol: its ID and its bytes. Each is handed out once, unless it left the
    /// window before.
    pub fn next_recovered(&mut self) -> Option<(u64, &[u8])> {
        while let Some(id) = self.recovered.pop_front() {
            // Asked twice, for the borrow checker's sake.
            if self.symbol(id).is_some() {
                return self.symbol(id).map(|symbol| (id, symbol));
            }
        }
        None
    }

    /// Forgets symbols below `id`.
    pub fn release(&mut self, id: u64) {
        let id = id.min(MAX_SYMBOL_ID + 1);
        self.slide(id);
        self.end = self.end.max(self.base);
    }

    /// Takes a source symbol as it was received.
    ///
    /// # Errors
    /// [`DecodeError::SymbolTooLong`], [`DecodeError::IdTooLarge`], [`DecodeError::Garbage`].
    pub fn source(&mut self, id: u64, symbol: &[u8]) -> Result<Outcome, DecodeError> {
        let max = usize::from(self.limits.symbol_bytes);
        if symbol.len() > max {
            return Err(DecodeError::SymbolTooLong {
                len: symbol.len(),
                max,
            });
        }
        if id > MAX_SYMBOL_ID {
            return Err(DecodeError::IdTooLarge(id));
        }
        if id < self.base {
            self.stats.stale += 1;
            return Ok(Outcome::Stale);
        }
        if self.known(id).is_some() {
            self.stats.redundant += 1;
            return Ok(Outcome::Redundant);
        }
        self.stats.sources += 1;
        self.reach(id + 1);
        let mut buffer = self.buffer();
        buffer.frame(symbol);
        let origin = self.column(self.base);
        let emptied = self.system.substitute(self.column(id), &buffer, origin);
        self.spare.extend(emptied);
        self.put(id, buffer);
        self.collect_solved()
    }

    /// Takes a repair symbol. `code` must be the one it was made with.
    ///
    /// # Errors
    /// [`DecodeError`]; that a window without symbols is one, whatever the code, is
    /// [`CodeError::EmptyWindow`].
    pub fn repair<C: ErasureCode + ?Sized>(
        &mut self,
        code: &C,
        repair: RepairId,
        payload: &[u8],
    ) -> Result<Outcome, DecodeError> {
        self.check(repair.window, payload)?;
        let mut given = core::mem::take(&mut self.given);
        given.clear();
        given.resize(usize::from(repair.window.len), 0);
        let outcome = match code.coefficients(repair, &mut given) {
            Ok(()) => self.equation(repair.window, &given, payload),
            Err(error) => Err(error.into()),
        };
        self.given = given;
        outcome
    }

    /// Takes a repair symbol whose coefficients came with it: one for each symbol of the window;
    /// those that are left out are zero.
    ///
    /// # Errors
    /// [`DecodeError`]; for a window without symbols, as [`Self::repair`].
    pub fn equation(
        &mut self,
        window: CodingWindow,
        coefficients: &[u8],
        payload: &[u8],
    ) -> Result<Outcome, DecodeError> {
        self.check(window, payload)?;
        let terms = || {
            let pairs = window.ids().zip(coefficients.iter().copied());
            pairs.filter(|(_, c)| *c != 0)
        };
        if terms().any(|(id, _)| id < self.base) {
            self.stats.stale += 1;
            return Ok(Outcome::Stale);
        }
        let too_long = |id: &u64| self.known(*id).is_some_and(|b| b.len() > payload.len());
        if let Some(id) = terms().map(|(id, _)| id).find(too_long) {
            return Err(DecodeError::LongerThanRepair { id });
        }
        self.reach(window.end());

        // The equation in missing symbols only, less what others say.
        let mut row = core::mem::take(&mut self.row);
        row.fill(0);
        for (id, c) in terms().filter(|(id, _)| self.known(*id).is_none()) {
            if let Some(cell) = row.get_mut(self.column(id)) {
                *cell = c;
            }
        }
        let origin = self.column(self.base);
        let outcome = if self.system.reduce(&mut row, origin) {
            self.stats.repairs += 1;
            let mut data = self.buffer();
            data.set(payload);
            let slots = &self.slots;
            let known = terms().filter_map(|(id, c)| match slots.get(slot_of(id, slots.len())) {
                Some(Slot::Known(buffer)) => Some((buffer, c)),
                _ => None,
            });
            self.system.insert(&row, data, known);
            self.collect_solved()
        } else {
            self.stats.redundant += 1;
            Ok(Outcome::Redundant)
        };
        self.row = row;
        outcome
    }

    /// What can be refused before anything is looked up.
    fn check(&self, window: CodingWindow, payload: &[u8]) -> Result<(), DecodeError> {
        if window.len == 0 {
            return Err(CodeError::EmptyWindow.into());
        }
        let max = self.limits.window_symbols;
        if window.len > max {
            return Err(DecodeError::WindowTooLong {
                len: window.len,
                max,
            });
        }
        if window.end() > MAX_SYMBOL_ID + 1 {
            return Err(DecodeError::IdTooLarge(window.end() - 1));
        }
        let (min, max) = (framed_len(0), self.limits.repair_bytes());
        if !(min..=max).contains(&payload.len()) {
            return Err(DecodeError::RepairLength {
                len: payload.len(),
                min,
                max,
            });
        }
        Ok(())
    }

    /// Moves what the system has solved into the window; drops what it has too much of.
    fn collect_solved(&mut self) -> Result<Outcome, DecodeError> {
        let mut recovered = 0;
        let mut garbage: Option<u64> = None;
        while let Some((column, mut data)) = self.system.take_solved() {
            let id = self.id_at(column);
            let max = usize::from(self.limits.symbol_bytes);
            match data.symbol().map(<[u8]>::len).filter(|len| *len <= max) {
                Some(len) => {
                    data.shorten(framed_len(len));
                    self.put(id, data);
                    self.recovered.push_back(id);
                    recovered += 1;
                }
                None => {
                    self.spare.push(data);
                    self.stats.garbage += 1;
                    garbage = Some(garbage.map_or(id, |other| other.min(id)));
                }
            }
        }
        // A symbol is fetched late or not at all, but not remembered twice.
        while self.recovered.len() > self.slots.len() {
            self.recovered.pop_front();
        }
        while self.system.len() > usize::from(self.limits.equations) {
            let origin = self.column(self.base);
            self.spare.extend(self.system.drop_oldest(origin));
            self.stats.dropped += 1;
        }
        self.stats.recovered += recovered as u64;
        match garbage {
            None => Ok(Outcome::Used { recovered }),
            Some(id) => Err(DecodeError::Garbage { id }),
        }
    }

    /// Makes room for symbols below `end`.
    fn reach(&mut self, end: u64) {
        self.slide(end.saturating_sub(u64::from(self.limits.window_symbols)));
        self.end = self.end.max(end);
    }

    /// Lets the window begin at `base`, if that is later than now.
    fn slide(&mut self, base: u64) {
        // Beyond the symbols heard of there is nothing to forget.
        let last = base.min(self.end);
        for id in self.base..last {
            let column = self.column(id);
            if let Some(slot) = self.slots.get_mut(column)
                && let Slot::Known(buffer) = core::mem::replace(slot, Slot::Missing)
            {
                self.spare.push(buffer);
            } else if let Some(data) = self.system.forget(column) {
                self.spare.push(data);
                self.stats.dropped += 1;
            }
        }
        self.base = self.base.max(base);
    }

    fn put(&mut self, id: u64, buffer: Buffer) {
        let column = self.column(id);
        if let Some(slot) = self.slots.get_mut(column) {
            *slot = Slot::Known(buffer);
        }
    }

    fn known(&self, id: u64) -> Option<&Buffer> {
        match self.slots.get(self.column(id)) {
            Some(Slot::Known(buffer)) if (self.base..self.end).contains(&id) => Some(buffer),
            _ => None,
        }
    }

    fn buffer(&mut self) -> Buffer {
        let capacity = self.limits.repair_bytes();
        self.spare.pop().unwrap_or_else(|| Buffer::new(capacity))
    }

    fn column(&self, id: u64) -> usize {
        slot_of(id, self.slots.len())
    }

    /// The ID in the window that stands at `column`.
    fn id_at(&self, column: usize) -> u64 {
        let width = self.slots.len();
        let ahead = column.wrapping_sub(self.column(self.base)) & (width - 1);
        self.base + ahead as u64
    }
}

/// Where a ring of `width` places, a power of two, keeps symbol `id`.
fn slot_of(id: u64, width: usize) -> usize {
    id as usize & (width - 1)
}
