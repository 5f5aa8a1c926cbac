//! What the peer's decoder has room for.
//!
//! Owns: its window as last announced, by transport parameter or FEC_WINDOW. Does not own: what is
//! covered within it (`sender/`).

use tautline_codes::Limits;

use crate::{error::TransportError, wire::FecDecoder};

/// The window of the peer's decoder.
#[derive(Debug)]
pub(super) struct PeerDecoder {
    /// Source symbols that it remembers.
    symbols: u64,
    /// Bytes that a repair symbol's window may have.
    bytes: u64,
    /// Which announcement says so; `None`: the handshake.
    epoch: Option<u64>,
    /// Both, as the handshake had them: never more.
    most: (u64, u64),
}

impl PeerDecoder {
    pub(super) fn new(parameter: &FecDecoder) -> Self {
        Self {
            symbols: parameter.window_symbols,
            bytes: parameter.window_bytes,
            epoch: None,
            most: (parameter.window_symbols, parameter.window_bytes),
        }
    }

    pub(super) fn symbols(&self) -> u64 {
        self.symbols
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Repair symbols that it keeps at least while it cannot use them yet: as many losses can be rebuilt
    /// together. docs/spec/fec.md section 2.1.
    pub(super) fn equations(&self) -> u64 {
        let symbols = u16::try_from(self.symbols).unwrap_or(u16::MAX);
        let limits = Limits::new(symbols.clamp(1, Limits::MAX_WINDOW), 1);
        limits.map_or(1, |limits| limits.equations().into())
    }

    /// The first source symbol that it remembers when `next` is the next to be sent.
    pub(super) fn remembered(&self, next: u64) -> u64 {
        next.saturating_sub(self.symbols)
    }

    /// A FEC_WINDOW frame; an older one than the newest is ignored, and so is what it says beyond the handshake.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION for a window without symbols.
    pub(super) fn on_window(
        &mut self,
        epoch: u64,
        symbols: u64,
        bytes: u64,
    ) -> Result<(), TransportError> {
        check_window(symbols)?;
        if self.epoch.is_none_or(|newest| epoch > newest) {
            let (most_symbols, most_bytes) = self.most;
            *self = Self {
                symbols: symbols.min(most_symbols),
                bytes: bytes.min(most_bytes),
                epoch: Some(epoch),
                ..*self
            };
        }
        Ok(())
    }
}

/// What a FEC_WINDOW may not say, whatever is protected.
///
/// # Errors
/// PROTOCOL_VIOLATION for a window without symbols.
pub(crate) fn check_window(symbols: u64) -> Result<(), TransportError> {
    if symbols == 0 {
        let error = "FEC_WINDOW of no symbols";
        return Err(TransportError::protocol_violation(error));
    }
    Ok(())
}
