//! Codes by the numbers that the handshake uses (docs/spec/fec.md), and by the names that people use.

use std::num::NonZeroU16;

use tautline_codes::{
    Scheme,
    reed_solomon::ReedSolomon,
    rlc::{DensityThreshold, Field, Rlc},
    tetrys::Tetrys,
    xor::Xor,
};

use crate::{
    error::TransportError,
    wire::{FecDecoder, FecScheme},
};

const XOR: u64 = 1;
const REED_SOLOMON: u64 = 2;
const RLC_GF2: u64 = 9;
const RLC: u64 = 10;
const TETRYS: u64 = 11;

/// A code that nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no code is called {0:?}; there are: xor:DEPTH, reed-solomon, rlc, rlc-gf2, tetrys")]
pub struct UnknownCode(pub String);

/// The code of this name: `xor` (one sum) or `xor:DEPTH` (interleaved, 1 to 65535), `reed-solomon`, `rlc`
/// (RFC 8681 over GF(2^8), all coefficients drawn), `rlc-gf2`, `tetrys`. docs/codes.md.
///
/// # Errors
/// [`UnknownCode`], which says what there is.
pub fn by_name(name: &str) -> Result<Scheme, UnknownCode> {
    let (word, depth) = name
        .split_once(':')
        .map_or((name, None), |(w, d)| (w, Some(d)));
    let code = match (word, depth) {
        ("xor", depth) => {
            let depth = depth.map_or(Ok(1), str::parse).ok();
            let depth = depth.and_then(NonZeroU16::new);
            depth.map(|depth| Scheme::Xor(Xor::interleaved(depth)))
        }
        ("reed-solomon", None) => Some(Scheme::ReedSolomon(ReedSolomon)),
        ("rlc", None) => Some(Scheme::Rlc(Rlc::DENSE)),
        ("rlc-gf2", None) => {
            // Half of the coefficients: with all of them every repair symbol would be the same sum.
            let half = DensityThreshold::new(7);
            half.map(|density| Scheme::Rlc(Rlc::new(Field::Gf2, density)))
        }
        ("tetrys", None) => Some(Scheme::Tetrys(Tetrys::VANDERMONDE)),
        _ => None,
    };
    code.ok_or_else(|| UnknownCode(name.to_owned()))
}

/// The number and the parameter of a code; `None` for one that has no number.
pub fn scheme_of(scheme: &Scheme) -> Option<FecScheme> {
    let (id, parameter) = match scheme {
        Scheme::Xor(xor) => (XOR, u64::from(xor.depth())),
        Scheme::ReedSolomon(_) => (REED_SOLOMON, 0),
        Scheme::Rlc(rlc) => {
            let id = match rlc.field() {
                Field::Gf2 => RLC_GF2,
                Field::Gf256 => RLC,
            };
            (id, u64::from(rlc.density().get()))
        }
        Scheme::Tetrys(tetrys) if *tetrys == Tetrys::VANDERMONDE => (TETRYS, 0),
        _ => return None,
    };
    Some(FecScheme { id, parameter })
}

/// The code of this number and parameter: `Ok(None)` for numbers that we do not know.
fn code_of(scheme: FecScheme) -> Result<Option<Scheme>, TransportError> {
    let parameter = u16::try_from(scheme.parameter).ok();
    let rlc = |field| {
        let density = u8::try_from(parameter?)
            .ok()
            .and_then(DensityThreshold::new)?;
        Some(Scheme::Rlc(Rlc::new(field, density)))
    };
    let code = match (scheme.id, parameter) {
        (XOR, _) => parameter
            .and_then(NonZeroU16::new)
            .map(|depth| Scheme::Xor(Xor::interleaved(depth))),
        (REED_SOLOMON, Some(0)) => Some(Scheme::ReedSolomon(ReedSolomon)),
        (TETRYS, Some(0)) => Some(Scheme::Tetrys(Tetrys::VANDERMONDE)),
        (RLC, _) => rlc(Field::Gf256),
        (RLC_GF2, _) => rlc(Field::Gf2),
        (REED_SOLOMON | TETRYS, _) => None,
        _ => return Ok(None),
    };
    let invalid = || TransportError::transport_parameter("fec_decoder: scheme parameter");
    code.map(Some).ok_or_else(invalid)
}

/// The code for one direction: the first of the decoder's that the encoder has. `None`: no repair
/// symbols in this direction.
///
/// # Errors
/// TRANSPORT_PARAMETER_ERROR for a code we know with a parameter it does not have.
pub fn negotiate(
    decoder: Option<&FecDecoder>,
    encoder: &[u64],
) -> Result<Option<Scheme>, TransportError> {
    let mut chosen = None;
    for scheme in decoder.into_iter().flat_map(|decoder| &decoder.schemes) {
        let code = code_of(*scheme)?;
        if chosen.is_none() && encoder.contains(&scheme.id) {
            // The first in common decides, whether or not we know it.
            chosen = Some(code);
        }
    }
    Ok(chosen.flatten())
}
