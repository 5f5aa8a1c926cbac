//! Codes by the numbers that the handshake uses (docs/spec/fec.md), and by the names that people use.

use tautline_codes::Scheme;

use crate::{
    error::TransportError,
    wire::{FecDecoder, FecScheme},
};

/// One code: how it is written, its number in the handshake, and what its parameter means.
struct Code {
    name: &'static str,
    usage: &'static str,
    id: u64,
    /// From what stands behind a colon, if anything does.
    named: fn(Option<&str>) -> Option<Scheme>,
    numbered: fn(u16) -> Option<Scheme>,
    /// The parameter, if the scheme is of this code.
    parameter: fn(&Scheme) -> Option<u64>,
}

/// What is compiled in. To add a code, add its line here; what else is to be known of it is in
/// [`Numbering::of`] and [`Strength::of`](super::Strength::of).
const CODES: &[Code] = &[
    #[cfg(feature = "fec-xor")]
    xor::XOR,
    #[cfg(feature = "fec-reed-solomon")]
    reed_solomon::REED_SOLOMON,
    #[cfg(feature = "fec-rlc")]
    rlc::RLC,
    #[cfg(feature = "fec-rlc")]
    rlc::RLC_GF2,
    #[cfg(feature = "fec-tetrys")]
    tetrys::TETRYS,
];

#[cfg(feature = "fec-xor")]
mod xor {
    use std::num::NonZeroU16;

    use tautline_codes::{Scheme, xor::Xor};

    use super::Code;

    pub(super) const XOR: Code = Code {
        name: "xor",
        usage: "xor, xor:DEPTH (1 to 65535)",
        id: 1,
        named: |depth| of_depth(depth.map_or(Some(1), |depth| depth.parse().ok())?),
        numbered: of_depth,
        parameter: |scheme| match scheme {
            Scheme::Xor(xor) => Some(xor.depth().into()),
            _ => None,
        },
    };

    fn of_depth(depth: u16) -> Option<Scheme> {
        let depth = NonZeroU16::new(depth);
        depth.map(|depth| Scheme::Xor(Xor::interleaved(depth)))
    }
}

#[cfg(feature = "fec-reed-solomon")]
mod reed_solomon {
    use tautline_codes::{Scheme, reed_solomon::ReedSolomon};

    use super::Code;

    pub(super) const REED_SOLOMON: Code = Code {
        name: "reed-solomon",
        usage: "reed-solomon",
        id: 2,
        named: |more| more.is_none().then_some(Scheme::ReedSolomon(ReedSolomon)),
        numbered: |zero| (zero == 0).then_some(Scheme::ReedSolomon(ReedSolomon)),
        parameter: |scheme| matches!(scheme, Scheme::ReedSolomon(_)).then_some(0),
    };
}

#[cfg(feature = "fec-rlc")]
mod rlc {
    use tautline_codes::{
        Scheme,
        rlc::{DensityThreshold, Field, Rlc},
    };

    use super::Code;

    pub(super) const RLC: Code = Code {
        name: "rlc",
        usage: "rlc",
        id: 10,
        named: |more| more.is_none().then_some(Scheme::Rlc(Rlc::DENSE)),
        numbered: |density| of_density(Field::Gf256, density),
        parameter: |scheme| density_in(scheme, Field::Gf256),
    };

    pub(super) const RLC_GF2: Code = Code {
        name: "rlc-gf2",
        usage: "rlc-gf2",
        id: 9,
        // Half of the coefficients: with all of them every repair symbol would be the same sum.
        named: |more| of_density(Field::Gf2, 7).filter(|_| more.is_none()),
        numbered: |density| of_density(Field::Gf2, density),
        parameter: |scheme| density_in(scheme, Field::Gf2),
    };

    fn of_density(field: Field, density: u16) -> Option<Scheme> {
        let density = DensityThreshold::new(u8::try_from(density).ok()?)?;
        Some(Scheme::Rlc(Rlc::new(field, density)))
    }

    fn density_in(scheme: &Scheme, field: Field) -> Option<u64> {
        match scheme {
            Scheme::Rlc(rlc) if rlc.field() == field => Some(rlc.density().get().into()),
            _ => None,
        }
    }
}

#[cfg(feature = "fec-tetrys")]
mod tetrys {
    use tautline_codes::{Scheme, tetrys::Tetrys};

    use super::Code;

    const SCHEME: Scheme = Scheme::Tetrys(Tetrys::VANDERMONDE);

    pub(super) const TETRYS: Code = Code {
        name: "tetrys",
        usage: "tetrys",
        id: 11,
        named: |more| more.is_none().then_some(SCHEME),
        numbered: |zero| (zero == 0).then_some(SCHEME),
        parameter: |scheme| (*scheme == SCHEME).then_some(0),
    };
}

/// How repair symbols of a code are told apart.
#[cfg_attr(
    not(all(feature = "fec-xor", feature = "fec-reed-solomon")),
    allow(dead_code, reason = "which codes there are depends on features")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbering {
    /// By keys that go on whatever the window: any number of them.
    Endless,
    /// By their index in their block; symbols of a block and repair symbols together are at most 256.
    Block,
    /// By their index, below this, among the sums of every so many-th symbol.
    Groups(u16),
}

impl Numbering {
    /// That of a code.
    #[allow(
        clippy::match_single_binding,
        reason = "which codes there are depends on features"
    )]
    pub(super) fn of(scheme: &Scheme) -> Self {
        match scheme {
            #[cfg(feature = "fec-xor")]
            Scheme::Xor(xor) => Self::Groups(xor.depth()),
            #[cfg(feature = "fec-reed-solomon")]
            Scheme::ReedSolomon(_) => Self::Block,
            _ => Self::Endless,
        }
    }
}

/// A code that nobody knows, or that was left out of the build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no code is called {0:?}; there are: {known}", known = known())]
pub struct UnknownCode(pub String);

fn known() -> String {
    let usages: Vec<_> = CODES.iter().map(|code| code.usage).collect();
    if usages.is_empty() {
        return "none (all were left out of this build)".to_owned();
    }
    usages.join(", ")
}

/// The code of this name: `xor` (one sum) or `xor:DEPTH` (interleaved, 1 to 65535), `reed-solomon`, `rlc`
/// (RFC 8681 over GF(2^8), all coefficients drawn), `rlc-gf2`, `tetrys`; each only with its cargo feature
/// (`fec-xor` and so on). docs/codes.md.
///
/// # Errors
/// [`UnknownCode`], which says what there is.
pub fn by_name(name: &str) -> Result<Scheme, UnknownCode> {
    let (word, more) = name
        .split_once(':')
        .map_or((name, None), |(word, more)| (word, Some(more)));
    let code = CODES.iter().find(|code| code.name == word);
    code.and_then(|code| (code.named)(more))
        .ok_or_else(|| UnknownCode(name.to_owned()))
}

/// What is used where nobody names codes: those of these that are compiled in, so that ends with other ones agree as well.
/// Repair symbols of the first two serve whatever was lost.
pub(super) fn default_schemes() -> Vec<Scheme> {
    let wanted = ["rlc", "tetrys", "reed-solomon", "xor"];
    let there = wanted.iter().filter_map(|name| by_name(name).ok());
    there.collect()
}

/// The number and the parameter of a code; `None` for one that has no number.
pub fn scheme_of(scheme: &Scheme) -> Option<FecScheme> {
    CODES.iter().find_map(|code| {
        Some(FecScheme {
            id: code.id,
            parameter: (code.parameter)(scheme)?,
        })
    })
}

/// The code of this number and parameter: `Ok(None)` for numbers that we do not know.
fn code_of(scheme: FecScheme) -> Result<Option<Scheme>, TransportError> {
    let Some(code) = CODES.iter().find(|code| code.id == scheme.id) else {
        return Ok(None);
    };
    let parameter = u16::try_from(scheme.parameter).ok();
    let invalid = || TransportError::transport_parameter("fec_decoder: scheme parameter");
    let found = parameter.and_then(code.numbered);
    found.map(Some).ok_or_else(invalid)
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

/// These hold whichever codes are compiled in.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::fec::{FecConfig, redundancy::registry};

    /// Every code there may be: its name, number and parameter, and whether it is compiled in.
    const ALL: [(&str, u64, u64, bool); 5] = [
        ("xor", 1, 1, cfg!(feature = "fec-xor")),
        ("reed-solomon", 2, 0, cfg!(feature = "fec-reed-solomon")),
        ("rlc", 10, 15, cfg!(feature = "fec-rlc")),
        ("rlc-gf2", 9, 7, cfg!(feature = "fec-rlc")),
        ("tetrys", 11, 0, cfg!(feature = "fec-tetrys")),
    ];

    #[test]
    fn a_code_that_was_left_out_has_no_name_and_no_number() {
        for (name, id, parameter, there) in ALL {
            let scheme = FecScheme { id, parameter };
            let decoder = FecDecoder {
                window_symbols: 10,
                window_bytes: 10_000,
                max_symbol_bytes: 1_000,
                schemes: vec![scheme],
            };
            let negotiated = negotiate(Some(&decoder), &[id]).unwrap();
            match by_name(name) {
                Ok(code) => {
                    assert!(there, "{name}");
                    assert_eq!(scheme_of(&code), Some(scheme), "{name}");
                    assert_eq!(negotiated, Some(code), "{name}");
                }
                Err(error) => {
                    assert!(!there, "{error}");
                    assert_eq!(negotiated, None, "{name}");
                }
            }
            let error = by_name("magic").unwrap_err().to_string();
            let listed = error.split_once("there are: ").unwrap().1;
            let listed = listed
                .split(", ")
                .any(|usage| usage.split(':').next() == Some(name));
            assert_eq!(listed, there, "{name}: {error}");
        }
    }

    #[test]
    fn what_is_announced_is_compiled_in() {
        let config = FecConfig {
            redundancy: registry::parse("constant").unwrap(),
            decode: true,
            ..FecConfig::default()
        };
        let wanted = [10, 11, 2, 1];
        let there = |id: &u64| ALL.iter().any(|(_, other, _, there)| other == id && *there);
        let wanted: Vec<_> = wanted.into_iter().filter(there).collect();
        assert_eq!(config.encoder_parameter(), wanted);
        let announced = config.decoder_parameter().map(|decoder| decoder.schemes);
        let announced = announced.unwrap_or_default();
        assert_eq!(
            announced.iter().map(|scheme| scheme.id).collect::<Vec<_>>(),
            wanted
        );
        assert_eq!(config.encodes(), !wanted.is_empty());
    }
}
