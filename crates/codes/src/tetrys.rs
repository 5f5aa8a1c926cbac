//! The coefficients of Tetrys (RFC 9407): a rateless code without a random generator.
//!
//! The coefficient of source symbol `s` in coded symbol `c` is a power of the field's generator
//! whose exponent grows with `s * c`. The RFC reduces that product modulo 256, although the
//! generator has order 255: its coefficients are well defined, but no longer those of a
//! Vandermonde matrix, and some pairs of coded symbols that should be independent are not.
//! [`Tetrys::RFC9407`] does as the RFC says, to interoperate; [`Tetrys::VANDERMONDE`] reduces
//! modulo 255, and then `m` coded symbols with consecutive IDs rebuild any `m` losses within 255
//! consecutive source symbols, always. Prefer it where both ends are yours.
//!
//! Only GF(2^8) (CCGI 1) is here, with the polynomial of RFC 5510; GF(2^4) is not, nor are the
//! RFC's packet formats. Coded symbols cover a run of source symbols: what the receiver has
//! acknowledged leaves the window from its old end.

use crate::{
    code::{ErasureCode, RepairId},
    error::CodeError,
    gf256,
};

/// Tetrys coefficients. The repair key is the coded symbol ID; 0 gives a plain parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tetrys {
    modulus: u64,
}

impl Tetrys {
    /// Exponents modulo 256, as RFC 9407 writes them.
    pub const RFC9407: Self = Self { modulus: 256 };

    /// Exponents modulo 255, the order of the generator: a Vandermonde matrix.
    pub const VANDERMONDE: Self = Self { modulus: 255 };
}

impl ErasureCode for Tetrys {
    fn name(&self) -> &'static str {
        if self.modulus == 256 {
            "tetrys-rfc9407"
        } else {
            "tetrys"
        }
    }

    fn coefficients(&self, repair: RepairId, out: &mut [u8]) -> Result<(), CodeError> {
        if out.is_empty() {
            return Err(CodeError::EmptyWindow);
        }
        // Source symbol IDs are 32-bit numbers in Tetrys; only their residues matter here, and
        // reducing modulo 2^32 first, as a truncated ID does, would change those modulo 255.
        let step = u64::from(repair.key) % self.modulus;
        let mut exponent = repair.window.first % self.modulus * step % self.modulus;
        for c in out {
            *c = gf256::exp(exponent);
            exponent = (exponent + step) % self.modulus;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::CodingWindow;

    fn coefficient(code: Tetrys, source: u64, coded: u32) -> u8 {
        let mut out = [0];
        let window = CodingWindow {
            first: source,
            len: 1,
        };
        let repair = RepairId { window, key: coded };
        code.coefficients(repair, &mut out).expect("a coefficient");
        out[0]
    }

    #[test]
    fn powers_of_the_generator() {
        for code in [Tetrys::RFC9407, Tetrys::VANDERMONDE] {
            assert_eq!(coefficient(code, 9, 0), 1);
            assert_eq!(coefficient(code, 0, 9), 1);
            assert_eq!(coefficient(code, 1, 1), 2);
            assert_eq!(coefficient(code, 2, 4), 0x1d);
            for (source, coded) in [
                (3, 5),
                (15, 17),
                (16, 16),
                (1000, 77),
                (u64::from(u32::MAX), 9),
            ] {
                let exponent = u128::from(source) * u128::from(coded) % u128::from(code.modulus);
                let exponent = u64::try_from(exponent).expect("small");
                assert_eq!(coefficient(code, source, coded), gf256::exp(exponent));
            }
        }
    }

    #[test]
    fn the_two_readings_part_at_255() {
        // 15 * 17 = 255: the generator's order, but not the RFC's modulus; 2^255 = 1 all the same.
        assert_eq!(coefficient(Tetrys::RFC9407, 15, 17), 1);
        assert_eq!(coefficient(Tetrys::VANDERMONDE, 15, 17), 1);
        // 16 * 16 = 256.
        assert_eq!(coefficient(Tetrys::RFC9407, 16, 16), 1);
        assert_eq!(coefficient(Tetrys::VANDERMONDE, 16, 16), 2);
    }

    #[test]
    fn a_run_is_its_symbols() {
        for code in [Tetrys::RFC9407, Tetrys::VANDERMONDE] {
            let window = CodingWindow {
                first: 1_000_003,
                len: 300,
            };
            let mut out = [0; 300];
            let repair = RepairId {
                window,
                key: 12_345,
            };
            code.coefficients(repair, &mut out).expect("coefficients");
            for (id, c) in window.ids().zip(out) {
                assert_eq!(c, coefficient(code, id, 12_345));
            }
        }
    }
}
