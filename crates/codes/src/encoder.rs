//! The sending side: a window of source symbols, and repair symbols made from them on demand.
//!
//! Owns: [`Encoder`]. Does not own: coefficients (the codes), when to send repair symbols and
//! over which window (the caller).
//!
//! Nothing is computed when a source symbol enters; it is copied, once.

use std::collections::VecDeque;

use crate::{
    code::{CodingWindow, ErasureCode, MAX_SYMBOL_ID, RepairId},
    error::EncodeError,
    gf256,
    limits::Limits,
    symbol::{Buffer, framed_len},
};

/// Source symbols whose slices are gathered on the stack at a time.
const GATHERED: usize = 64;

/// Holds the latest source symbols and makes repair symbols.
///
/// ```
/// # #[cfg(feature = "rlc")] {
/// use tautline_codes::{CodingWindow, Encoder, Limits, RepairId, rlc::Rlc};
///
/// let mut encoder = Encoder::new(Limits::default());
/// for packet in [&b"one"[..], b"two", b"three"] {
///     let id = encoder.push(packet)?;
///     // Send the packet, with its ID.
/// }
/// let mut repair = [0; 1502];
/// let id = RepairId { window: encoder.window(), key: 1 };
/// let len = encoder.repair(&Rlc::DENSE, id, &mut repair)?;
/// assert_eq!(len, 2 + "three".len());
/// # }
/// # Ok::<(), tautline_codes::EncodeError>(())
/// ```
#[derive(Debug)]
pub struct Encoder {
    limits: Limits,
    /// Symbols of the window, oldest first.
    symbols: VecDeque<Buffer>,
    /// The ID of the first.
    first: u64,
    /// Buffers to use again.
    spare: Vec<Buffer>,
    /// Coefficients of the repair symbols being made: a row each, then those of some columns.
    coefficients: Vec<u8>,
    columns: Vec<u8>,
}

impl Encoder {
    /// An encoder that holds as many symbols as the limits say; the next symbol ID is 0.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            symbols: VecDeque::new(),
            first: 0,
            spare: Vec::new(),
            coefficients: Vec::new(),
            columns: Vec::new(),
        }
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Takes the next source symbol in and returns its ID. If the window is full, the oldest
    /// symbol leaves it.
    ///
    /// # Errors
    /// [`EncodeError::SymbolTooLong`], [`EncodeError::IdsExhausted`].
    pub fn push(&mut self, symbol: &[u8]) -> Result<u64, EncodeError> {
        let max = usize::from(self.limits.symbol_bytes);
        if symbol.len() > max {
            return Err(EncodeError::SymbolTooLong {
                len: symbol.len(),
                max,
            });
        }
        let id = self.next_id();
        if id > MAX_SYMBOL_ID {
            return Err(EncodeError::IdsExhausted);
        }
        if self.symbols.len() >= usize::from(self.limits.window_symbols) {
            self.drop_oldest();
        }
        let capacity = self.limits.repair_bytes();
        let mut buffer = self.spare.pop().unwrap_or_else(|| Buffer::new(capacity));
        buffer.frame(symbol);
        self.symbols.push_back(buffer);
        Ok(id)
    }

    /// Lets symbols below `id` go: they are acknowledged, or too old to be worth protecting.
    pub fn release(&mut self, id: u64) {
        while self.first < id && !self.symbols.is_empty() {
            self.drop_oldest();
        }
    }

    /// Everything that is held.
    pub fn window(&self) -> CodingWindow {
        CodingWindow {
            first: self.first,
            // At most `window_symbols`, which has 16 bits.
            len: self.symbols.len() as u16,
        }
    }

    /// The latest `len` symbols, or as many as are held.
    pub fn latest(&self, len: u16) -> CodingWindow {
        let held = self.window();
        let len = len.min(held.len);
        CodingWindow {
            first: held.end() - u64::from(len),
            len,
        }
    }

    /// The ID the next source symbol gets.
    pub fn next_id(&self) -> u64 {
        self.first + self.symbols.len() as u64
    }

    /// Bytes of a repair symbol over `window`: two more than its longest source symbol.
    ///
    /// # Errors
    /// [`EncodeError::NotHeld`].
    pub fn repair_len(&self, window: CodingWindow) -> Result<usize, EncodeError> {
        let lengths = self.range(window)?.map(Buffer::len);
        Ok(lengths.max().unwrap_or(framed_len(0)))
    }

    /// Writes a repair symbol to the front of `out` and returns its length.
    ///
    /// Costs one multiplication-and-addition of every symbol of the window whose coefficient is
    /// not zero.
    ///
    /// # Errors
    /// [`EncodeError`]; `out` is then unchanged.
    pub fn repair<C: ErasureCode + ?Sized>(
        &mut self,
        code: &C,
        repair: RepairId,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        self.repairs(code, repair, &mut [out])
    }

    /// Writes several repair symbols over one window, with the keys from `first.key` on, and
    /// returns their length, the same for all.
    ///
    /// Reads each source symbol once for several repair symbols, so that a group of them costs
    /// less than each alone.
    ///
    /// # Errors
    /// [`EncodeError`]; `outs` are then unchanged.
    pub fn repairs<C: ErasureCode + ?Sized>(
        &mut self,
        code: &C,
        first: RepairId,
        outs: &mut [&mut [u8]],
    ) -> Result<usize, EncodeError> {
        let needed = self.repair_len(first.window)?;
        if let Some(out) = outs.iter().find(|out| out.len() < needed) {
            return Err(EncodeError::OutputTooShort {
                needed,
                len: out.len(),
            });
        }
        let mut coefficients = core::mem::take(&mut self.coefficients);
        let mut columns = core::mem::take(&mut self.columns);
        coefficients.clear();
        coefficients.resize(outs.len() * usize::from(first.window.len), 0);
        let done = code
            .rows(first, &mut coefficients)
            .map_err(EncodeError::from)
            .and_then(|()| self.sum(first.window, &coefficients, &mut columns, outs, needed));
        self.coefficients = coefficients;
        self.columns = columns;
        done.map(|()| needed)
    }

    /// Sums the window's symbols into the first `needed` bytes of each output.
    fn sum(
        &self,
        window: CodingWindow,
        coefficients: &[u8],
        columns: &mut Vec<u8>,
        outs: &mut [&mut [u8]],
        needed: usize,
    ) -> Result<(), EncodeError> {
        for out in outs.iter_mut() {
            out.get_mut(..needed).unwrap_or_default().fill(0);
        }
        let width = usize::from(window.len);
        let mut symbols = self.range(window)?;
        let mut at = 0;
        while at < width {
            let mut gathered: [&[u8]; GATHERED] = [&[]; GATHERED];
            let mut count = 0;
            for (place, symbol) in gathered.iter_mut().zip(symbols.by_ref()) {
                *place = symbol.padded();
                count += 1;
            }
            let Some(gathered) = gathered
                .get(..count)
                .filter(|gathered| !gathered.is_empty())
            else {
                break;
            };
            columns.clear();
            for row in coefficients.chunks(width) {
                columns.extend(row.iter().skip(at).take(count));
            }
            // Outputs may go on behind the repair symbol; padding beyond it is zero.
            if let [out] = outs {
                let out = out.get_mut(..needed).unwrap_or_default();
                gf256::mul_add_many(out, gathered, columns);
            } else {
                for (group, columns) in outs.chunks_mut(8).zip(columns.chunks(8 * count)) {
                    let mut slices: [&mut [u8]; 8] = Default::default();
                    let len = group.len();
                    for (slice, out) in slices.iter_mut().zip(group) {
                        *slice = out.get_mut(..needed).unwrap_or_default();
                    }
                    let slices = slices.get_mut(..len).unwrap_or_default();
                    gf256::mul_add_matrix(slices, gathered, columns);
                }
            }
            at += count;
        }
        Ok(())
    }

    /// The symbols of a window.
    fn range(&self, window: CodingWindow) -> Result<impl Iterator<Item = &Buffer>, EncodeError> {
        let held = self.window();
        if window.first < held.first || window.end() > held.end() {
            return Err(EncodeError::NotHeld {
                asked: window,
                held,
            });
        }
        let start = (window.first - held.first) as usize;
        Ok(self
            .symbols
            .iter()
            .skip(start)
            .take(usize::from(window.len)))
    }

    fn drop_oldest(&mut self) {
        if let Some(buffer) = self.symbols.pop_front() {
            self.spare.push(buffer);
            self.first += 1;
        }
    }
}
