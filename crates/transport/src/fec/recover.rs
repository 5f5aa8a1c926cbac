//! Rebuilding lost symbols of the peer.
//!
//! Owns: the decoder with its bounds, and what is an error in what the peer sends.
//! Does not own: what the frames of a recovered symbol do (`connection/`).

use tautline_codes::{CodingWindow, DecodeError, Decoder, Limits, Outcome, RepairId, Scheme};

use crate::{
    error::TransportError,
    wire::{Repair, SourceSymbol, decode_packet_number},
};

/// The decoder; takes memory from the first symbol on.
#[derive(Debug)]
pub(super) struct Recovering {
    limits: Limits,
    scheme: Scheme,
    decoder: Option<Decoder>,
    largest: Option<u64>,
}

/// What a symbol that arrived was good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It told something.
    Useful,
    /// It told nothing new.
    Redundant,
    /// It came too late.
    Stale,
    /// It contradicts what is known, or what came of it makes no sense.
    Nonsense,
}

impl Recovering {
    pub(super) fn new(limits: Limits, scheme: Scheme) -> Self {
        Self {
            limits,
            scheme,
            decoder: None,
            largest: None,
        }
    }

    /// The symbol ID that a header means.
    pub(super) fn complete(&self, header: SourceSymbol) -> u64 {
        decode_packet_number(
            self.largest,
            u64::from(header.truncated),
            usize::from(header.bytes),
        )
    }

    /// A source symbol arrived.
    pub(super) fn on_source(&mut self, id: u64, symbol: &[u8]) -> Result<Use, TransportError> {
        self.largest = self.largest.max(Some(id));
        let decoder = self
            .decoder
            .get_or_insert_with(|| Decoder::new(self.limits));
        judge(decoder.source(id, symbol))
    }

    /// A repair symbol arrived.
    pub(super) fn on_repair(&mut self, repair: &Repair<'_>) -> Result<Use, TransportError> {
        let too_long =
            |_| TransportError::protocol_violation("REPAIR covers more than fec_decoder");
        let len = u16::try_from(repair.count).map_err(too_long)?;
        let no_key = |_| TransportError::protocol_violation("REPAIR key");
        let key = u32::try_from(repair.key).map_err(no_key)?;
        let window = CodingWindow {
            first: repair.first,
            len,
        };
        let decoder = self
            .decoder
            .get_or_insert_with(|| Decoder::new(self.limits));
        judge(decoder.repair(&self.scheme, RepairId { window, key }, repair.symbol))
    }

    /// Whether [`Self::next`] may have a symbol.
    #[inline]
    pub(super) fn has_next(&self) -> bool {
        let decoder = self.decoder.as_ref();
        decoder.is_some_and(|decoder| decoder.has_recovered())
    }

    /// The next symbol rebuilt.
    pub(super) fn next(&mut self) -> Option<(u64, &[u8])> {
        self.decoder.as_mut()?.next_recovered()
    }
}

/// What breaks the announced limits or the code's own rules is the peer's violation; what merely
/// contradicts other symbols is ignored.
fn judge(outcome: Result<Outcome, DecodeError>) -> Result<Use, TransportError> {
    let violation = |what: &'static str| Err(TransportError::protocol_violation(what));
    match outcome {
        Ok(Outcome::Used { .. }) => Ok(Use::Useful),
        Ok(Outcome::Redundant) => Ok(Use::Redundant),
        Ok(_) => Ok(Use::Stale),
        Err(DecodeError::LongerThanRepair { .. } | DecodeError::Garbage { .. }) => {
            Ok(Use::Nonsense)
        }
        Err(DecodeError::SymbolTooLong { .. }) => {
            violation("source symbol longer than fec_decoder allows")
        }
        Err(DecodeError::RepairLength { .. }) => violation("REPAIR length"),
        Err(DecodeError::WindowTooLong { .. }) => violation("REPAIR covers more than fec_decoder"),
        Err(DecodeError::Code(_)) => violation("REPAIR that the code does not have"),
        Err(DecodeError::IdTooLarge(_)) => violation("symbol ID"),
        Err(_) => violation("erasure correction"),
    }
}
