//! SOURCE_SYMBOL, REPAIR, SYMBOL_ACK, FEC_WINDOW: forward erasure correction.

use super::{Frame, NumberRanges, numbers::write_numbers};
use crate::{
    error::{DecodeError, DecodeErrorKind},
    wire::{MAX_VARINT, Reader, Writer, codepoints::frame as ty, varint_len},
};

/// The end of a packet's unprotected frames: what follows is a source symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceSymbol {
    /// The last `bytes` bytes of the symbol ID, to be completed as packet numbers are.
    pub truncated: u32,
    /// Bytes of the ID on the wire, 1 to 4; the frame type says how many.
    pub bytes: u8,
}

impl SourceSymbol {
    /// Bytes of the frame, type included, with an ID of `id_bytes` bytes.
    pub const fn encoded_len(id_bytes: usize) -> usize {
        2 + id_bytes
    }

    /// The header for symbol `id`, sent in `bytes` bytes, 1 to 4.
    pub fn new(id: u64, bytes: usize) -> Self {
        let bytes = bytes.clamp(1, 4);
        Self {
            // Masked, so that it fits.
            truncated: (id & ((1 << (8 * bytes)) - 1)) as u32,
            bytes: bytes as u8,
        }
    }

    pub(super) fn frame_type(self) -> u64 {
        ty::SOURCE_SYMBOL + u64::from(self.bytes.clamp(1, 4)) - 1
    }

    pub(super) fn decode(frame_type: u64, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        // Between 1 and 4: the caller knows the types.
        let bytes = (frame_type - ty::SOURCE_SYMBOL + 1) as u8;
        let mut truncated = 0;
        for byte in r.bytes(usize::from(bytes))? {
            truncated = truncated << 8 | u32::from(*byte);
        }
        if r.is_empty() {
            return Err(r.error(DecodeErrorKind::Invalid("empty source symbol")));
        }
        Ok(Self { truncated, bytes })
    }

    pub(super) fn encode_fields(self, w: &mut Writer<'_>) {
        let bytes = self.truncated.to_be_bytes();
        let from = bytes.len() - usize::from(self.bytes.clamp(1, 4));
        w.bytes(bytes.get(from..).unwrap_or_default());
    }
}

/// A repair symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair<'a> {
    /// The first source symbol it is a sum of.
    pub first: u64,
    /// How many follow one another from there; at least 1, and `first + count <= 2^62`.
    pub count: u64,
    /// Tells repair symbols over the same source symbols apart; its meaning is the scheme's.
    pub key: u64,
    /// The repair symbol; never empty.
    pub symbol: &'a [u8],
}

impl<'a> Repair<'a> {
    /// Bytes of the frame around a symbol of `len` bytes, type included.
    pub fn header_len(first: u64, count: u64, key: u64, len: usize) -> usize {
        varint_len(ty::REPAIR)
            + varint_len(first)
            + varint_len(count)
            + varint_len(key)
            + varint_len(len as u64)
    }

    pub(super) fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (first, count, key) = (r.varint()?, r.varint()?, r.varint()?);
        // Both are below 2^62, so the sum does not wrap.
        if count == 0 || first + count - 1 > MAX_VARINT {
            return Err(r.error(DecodeErrorKind::Invalid("REPAIR symbol count")));
        }
        let symbol = r.varint_prefixed()?;
        if symbol.is_empty() {
            return Err(r.error(DecodeErrorKind::Invalid("REPAIR length")));
        }
        Ok(Self {
            first,
            count,
            key,
            symbol,
        })
    }

    pub(super) fn encoded_len(&self) -> usize {
        Self::header_len(self.first, self.count, self.key, self.symbol.len()) + self.symbol.len()
    }

    pub(super) fn encode_fields(&self, w: &mut Writer<'_>) {
        super::write_varints(w, [self.first, self.count, self.key]);
        super::write_prefixed(w, self.symbol);
    }
}

/// Writes a SYMBOL_ACK of `ranges`, descending as [`NumberRanges::iter`] gives them. Ranges that do
/// not fit are left out, oldest first. How many are in the frame: 0, and nothing is written, when not
/// even the first one fits or there is none.
pub fn write_symbol_ack<I>(w: &mut Writer<'_>, ranges: I) -> usize
where
    I: Iterator<Item = std::ops::RangeInclusive<u64>> + Clone,
{
    write_numbers(w, &[ty::SYMBOL_ACK], ranges)
}

/// Reads what follows the type `ty`; `None` for types that are none of these.
pub(super) fn decode<'a>(
    frame_type: u64,
    r: &mut Reader<'a>,
) -> Option<Result<Frame<'a>, DecodeError>> {
    Some(match frame_type {
        ty::SOURCE_SYMBOL..=ty::SOURCE_SYMBOL_LAST => {
            SourceSymbol::decode(frame_type, r).map(Frame::SourceSymbol)
        }
        ty::REPAIR => Repair::decode(r).map(Frame::Repair),
        ty::SYMBOL_ACK => NumberRanges::decode(r).map(Frame::SymbolAck),
        ty::FEC_WINDOW => decode_window(r),
        _ => return None,
    })
}

fn decode_window<'a>(r: &mut Reader<'a>) -> Result<Frame<'a>, DecodeError> {
    Ok(Frame::FecWindow {
        epoch: r.varint()?,
        symbols: r.varint()?,
        bytes: r.varint()?,
    })
}
