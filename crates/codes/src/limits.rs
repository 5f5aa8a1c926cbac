//! How much memory and work a sender or receiver may cost.

use crate::{error::LimitsError, symbol};

/// What lists of symbols and equations take for each, grown by doubling.
const BOOKKEEPING_BYTES: usize = 240;

/// Bounds on what an [`Encoder`](crate::Encoder) or [`Decoder`](crate::Decoder) holds.
///
/// Memory is taken as symbols arrive and never given back before the owner is dropped; its bound
/// is [`Limits::encoder_bytes`] and [`Limits::decoder_bytes`]. The default holds 256 symbols of
/// 1,500 bytes, 32 of them being looked for: 0.4 MB to send, 0.5 MB to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub(crate) window_symbols: u16,
    pub(crate) symbol_bytes: u16,
    pub(crate) equations: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            window_symbols: 256,
            symbol_bytes: 1500,
            equations: 32,
        }
    }
}

impl Limits {
    /// The longest window, that of RFC 8681's 12-bit NSS.
    pub const MAX_WINDOW: u16 = 0xfff;

    /// Limits for windows of `window_symbols` source symbols of `symbol_bytes` or less.
    ///
    /// Up to an eighth of the window, but at least 16 symbols, can be looked for at a time; see
    /// [`Self::with_equations`].
    ///
    /// # Errors
    /// [`LimitsError`] names the number that is out of range.
    pub fn new(window_symbols: u16, symbol_bytes: u16) -> Result<Self, LimitsError> {
        if window_symbols == 0 || window_symbols > Self::MAX_WINDOW {
            return Err(LimitsError::Window(window_symbols));
        }
        if symbol_bytes == 0 {
            return Err(LimitsError::SymbolBytes);
        }
        Ok(Self {
            window_symbols,
            symbol_bytes,
            equations: (window_symbols / 8).max(16).min(window_symbols),
        })
    }

    /// How many equations the decoder keeps: independent repair symbols that wait for others.
    ///
    /// Each repair symbol is compared with all of them, over the whole window: with symbols of a few
    /// bytes, window times equations is the decoder's work.
    ///
    /// As many missing symbols can be rebuilt together; when one more comes, the equation of the
    /// oldest missing symbol makes room. Equations beyond the window's symbols are never needed:
    /// more are taken as so many.
    ///
    /// # Errors
    /// [`LimitsError::Equations`] for 0.
    pub fn with_equations(mut self, equations: u16) -> Result<Self, LimitsError> {
        if equations == 0 {
            return Err(LimitsError::Equations);
        }
        self.equations = equations.min(self.window_symbols);
        Ok(self)
    }

    /// Source symbols in the window.
    pub fn window_symbols(self) -> u16 {
        self.window_symbols
    }

    /// Bytes of the longest source symbol.
    pub fn symbol_bytes(self) -> u16 {
        self.symbol_bytes
    }

    /// Equations of the decoder.
    pub fn equations(self) -> u16 {
        self.equations
    }

    /// Bytes of the longest repair symbol: [`symbol_bytes`](Self::symbol_bytes) and the length
    /// before them.
    pub fn repair_bytes(self) -> usize {
        symbol::framed_len(usize::from(self.symbol_bytes))
    }

    /// The most an encoder with these limits allocates, in bytes, give or take its own fields.
    pub fn encoder_bytes(self) -> usize {
        usize::from(self.window_symbols) * (self.buffer_bytes() + BOOKKEEPING_BYTES)
    }

    /// The most a decoder with these limits allocates, in bytes, give or take its own fields.
    pub fn decoder_bytes(self) -> usize {
        let (window, ring) = (usize::from(self.window_symbols), self.ring_symbols());
        // One equation more is worked on than is kept.
        let equations = usize::from(self.equations) + 1;
        let buffers = (window + equations) * self.buffer_bytes();
        buffers + equations * (ring + BOOKKEEPING_BYTES) + ring * BOOKKEEPING_BYTES
    }

    /// Places in the decoder's ring.
    pub(crate) fn ring_symbols(self) -> usize {
        usize::from(self.window_symbols).next_power_of_two()
    }

    /// Bytes allocated for one symbol.
    fn buffer_bytes(self) -> usize {
        symbol::Buffer::allocated_bytes(self.repair_bytes())
    }
}
