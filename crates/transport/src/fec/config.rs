//! What can be chosen.

use std::sync::Arc;

use tautline_codes::{Limits, Scheme};

use super::{
    FecLab, LossMemory, LossStore,
    redundancy::{
        SharedRedundancyFactory,
        registry::{self, RedundancyError},
    },
    scheme::default_schemes,
};
use crate::wire::{FecDecoder, FecScheme};

/// Packets are not protected where a source symbol may have fewer bytes. One that is cut to less costs more
/// packets than a code saves, and a peer that names a small Max Symbol Size could make us send ever so many.
pub(super) const LEAST_SYMBOL_BYTES: u16 = 512;

/// How a connection protects what it sends, and whether it decodes what its peer protects.
///
/// By default neither: no transport parameter is sent, and no memory is taken.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FecConfig {
    /// When repair symbols are sent. Default `none`: nothing is protected.
    pub redundancy: SharedRedundancyFactory,
    /// Whether to take repair symbols. Default off.
    pub decode: bool,
    /// The codes to decode and encode with, most wanted first. Default: RLC over GF(2^8), every
    /// coefficient nonzero, then Tetrys, Reed-Solomon and parity, as far as they are compiled in;
    /// without any code nothing is protected or decoded. `docs/codes.md` tells what is on record
    /// about patents. Of codes with one number (`xor:1`, `xor:4`) the first counts; what has no number in
    /// docs/spec/fec.md is passed over.
    pub schemes: Vec<Scheme>,
    /// Source symbols that are remembered to decode with, 1 to 4,095. Default 256; memory is taken
    /// from the first source symbol on, about 2 KiB each.
    pub decoder_symbols: u16,
    /// Source symbols that are kept to make repair symbols from, 1 to 4,095. Default 256; about
    /// 2 KiB each.
    pub encoder_symbols: u16,
    /// Whether DATAGRAM frames are protected too. Default off: recovered ones come late, and who
    /// sends datagrams often prefers none to a late one.
    pub protect_datagrams: bool,
    /// Whether packets with source and with repair symbols leave in datagrams of one size, the path's,
    /// so that nobody on the way can tell them apart by theirs. Short packets then take the room of long
    /// ones. Default off.
    pub padding: bool,
    /// What an earlier connection to the peer knew of losses on the way there
    /// ([`Connection::loss_memory`](crate::connection::Connection::loss_memory)), to begin with.
    /// Default: nothing. Goes before what `loss_store` knows.
    pub loss_memory: Option<LossMemory>,
    /// Where connections keep what they know of losses on the way to a peer, and find what others
    /// knew. Default: nowhere, so that connections know nothing of one another.
    pub loss_store: Option<Arc<LossStore>>,
    /// The longest source symbol taken, and sent, in bytes; at least 1. Default 1,500; protected packets grow no
    /// longer than that. Below 512 nothing is protected, by us or by a peer of this implementation.
    pub max_symbol_bytes: u16,
    /// What only laboratories do: departures from RFC 9265. Default: none.
    pub lab: FecLab,
}

impl Default for FecConfig {
    fn default() -> Self {
        Self {
            redundancy: registry::none(),
            decode: false,
            schemes: default_schemes(),
            decoder_symbols: 256,
            encoder_symbols: 256,
            protect_datagrams: false,
            padding: false,
            loss_memory: None,
            loss_store: None,
            max_symbol_bytes: 1500,
            lab: FecLab::default(),
        }
    }
}

impl FecConfig {
    /// Protects by the scheduler of this name, which may have options behind a colon, and decodes; the rest is the default.
    /// `none` is for an end that only receives. docs/erasure-correction.md.
    ///
    /// # Errors
    /// Says what there is, or what the options of that scheduler are.
    pub fn with(scheduler: &str) -> Result<Self, RedundancyError> {
        Ok(Self {
            redundancy: registry::parse(scheduler)?,
            decode: true,
            ..Self::default()
        })
    }

    /// Whether packets may be protected, if the peer decodes.
    pub fn encodes(&self) -> bool {
        self.redundancy.name() != registry::NONE
            && self.has_codes()
            && self.max_symbol_bytes >= LEAST_SYMBOL_BYTES
    }

    /// Bounds of the decoder; `None` when there is none.
    pub(crate) fn decoder_limits(&self) -> Option<Limits> {
        let wanted = self.decode && self.has_codes();
        let symbols = self.decoder_symbols.clamp(1, Limits::MAX_WINDOW);
        let limits = Limits::new(symbols, self.max_symbol_bytes.max(1));
        limits.ok().filter(|_| wanted)
    }

    /// The fec_decoder transport parameter.
    pub fn decoder_parameter(&self) -> Option<FecDecoder> {
        let limits = self.decoder_limits()?;
        Some(FecDecoder {
            window_symbols: u64::from(limits.window_symbols()),
            window_bytes: u64::from(limits.window_symbols()) * limits.repair_bytes() as u64,
            max_symbol_bytes: u64::from(limits.symbol_bytes()),
            schemes: self.announced(),
        })
    }

    /// The fec_encoder transport parameter: numbers of codes, empty if nothing is protected.
    pub fn encoder_parameter(&self) -> Vec<u64> {
        if !self.encodes() {
            return Vec::new();
        }
        self.announced().iter().map(|scheme| scheme.id).collect()
    }

    fn has_codes(&self) -> bool {
        self.schemes
            .iter()
            .any(|scheme| super::scheme_of(scheme).is_some())
    }

    /// The codes as the handshake may name them: each number once, and no more than it takes.
    fn announced(&self) -> Vec<FecScheme> {
        let mut announced: Vec<FecScheme> = Vec::new();
        for scheme in self.schemes.iter().filter_map(super::scheme_of) {
            if announced.iter().all(|known| known.id != scheme.id) {
                announced.push(scheme);
            }
        }
        announced.truncate(FecDecoder::MAX_SCHEMES);
        announced
    }
}
