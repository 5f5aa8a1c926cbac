//! fec_decoder and fec_encoder. docs/spec/fec.md.

use crate::wire::{MAX_VARINT, Reader, Writer, varint_len};

/// An erasure code as the handshake names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FecScheme {
    /// Its number in docs/spec/fec.md.
    pub id: u64,
    /// What the decoder wants of it, by the scheme's own rules; 0 where it has no choice.
    pub parameter: u64,
}

/// What a receiver of repair symbols can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FecDecoder {
    /// Source symbols that it remembers; at least 1.
    pub window_symbols: u64,
    /// Bytes that it sets aside for them: no repair symbol may cover source symbols whose count
    /// times the repair symbol's length is more.
    pub window_bytes: u64,
    /// The longest source symbol it takes, in bytes; at least 1.
    pub max_symbol_bytes: u64,
    /// The codes it knows, most wanted first; at least one.
    pub schemes: Vec<FecScheme>,
}

impl FecDecoder {
    /// More codes than this nobody has.
    pub const MAX_SCHEMES: usize = 32;

    /// Reads the value of the parameter; `None` if it is malformed.
    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let mut r = Reader::new(value);
        let mut next = || r.varint().ok();
        let (window_symbols, window_bytes, max_symbol_bytes) = (next()?, next()?, next()?);
        let mut schemes = Vec::new();
        while !r.is_empty() {
            let id = r.varint().ok()?;
            let parameter = r.varint().ok()?;
            let repeated = schemes.iter().any(|known: &FecScheme| known.id == id);
            if repeated || schemes.len() >= Self::MAX_SCHEMES {
                return None;
            }
            schemes.push(FecScheme { id, parameter });
        }
        (window_symbols > 0 && max_symbol_bytes > 0 && !schemes.is_empty()).then_some(Self {
            window_symbols,
            window_bytes,
            max_symbol_bytes,
            schemes,
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let numbers = [
            self.window_symbols,
            self.window_bytes,
            self.max_symbol_bytes,
        ];
        let schemes = self.schemes.iter().flat_map(|s| [s.id, s.parameter]);
        varints(numbers.into_iter().chain(schemes))
    }
}

/// Reads the IDs in fec_encoder; `None` if they are malformed.
pub(super) fn decode_encoder(value: &[u8]) -> Option<Vec<u64>> {
    let mut r = Reader::new(value);
    let mut ids = Vec::new();
    while !r.is_empty() {
        let id = r.varint().ok()?;
        if ids.contains(&id) || ids.len() >= FecDecoder::MAX_SCHEMES {
            return None;
        }
        ids.push(id);
    }
    (!ids.is_empty()).then_some(ids)
}

pub(super) fn encode_encoder(ids: &[u64]) -> Vec<u8> {
    varints(ids.iter().copied())
}

fn varints(values: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        let value = value.min(MAX_VARINT);
        let mut buf = [0; 8];
        let mut w = Writer::new(&mut buf);
        w.varint(value);
        debug_assert_eq!(w.len(), varint_len(value));
        out.extend_from_slice(w.into_written());
    }
    out
}
