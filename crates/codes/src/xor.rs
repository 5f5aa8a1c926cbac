//! Parity, interleaved so that a burst hits each sum once.
//!
//! With depth `d`, repair symbol `j` is the exclusive or of the window's symbols at positions
//! `j`, `j + d`, `j + 2d` and so on: it rebuilds one of them, and `d` repair symbols together
//! rebuild any `d` losses in a row. The cheapest code, and the weakest against losses that are
//! not spread: two in one sum are lost.

use core::num::NonZeroU16;

use crate::{
    code::{ErasureCode, RepairId},
    error::CodeError,
};

/// Interleaved parity. Repair keys are `0..depth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xor {
    depth: NonZeroU16,
}

impl Xor {
    /// One parity symbol over the whole window.
    pub const PARITY: Self = Self {
        depth: NonZeroU16::MIN,
    };

    /// Parity over every `depth`-th symbol.
    pub fn interleaved(depth: NonZeroU16) -> Self {
        Self { depth }
    }

    /// The number of repair symbols of a window: losses in a row that can be rebuilt.
    pub fn depth(self) -> u16 {
        self.depth.get()
    }
}

impl ErasureCode for Xor {
    fn name(&self) -> &'static str {
        "xor"
    }

    fn coefficients(&self, repair: RepairId, out: &mut [u8]) -> Result<(), CodeError> {
        if out.is_empty() {
            return Err(CodeError::EmptyWindow);
        }
        let depth = usize::from(self.depth.get());
        let key = repair.key as usize;
        // A window shorter than the depth has as many sums as symbols.
        let last = depth.min(out.len()) - 1;
        if key > last {
            return Err(CodeError::KeyTooLarge {
                key: repair.key,
                max: last as u32,
            });
        }
        out.fill(0);
        for c in out.iter_mut().skip(key).step_by(depth) {
            *c = 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::CodingWindow;

    fn coefficients(depth: u16, key: u32, len: u16) -> Result<Vec<u8>, CodeError> {
        let mut out = vec![7; usize::from(len)];
        let repair = RepairId {
            window: CodingWindow { first: 3, len },
            key,
        };
        let depth = NonZeroU16::new(depth).expect("not zero");
        Xor::interleaved(depth).coefficients(repair, &mut out)?;
        Ok(out)
    }

    #[test]
    fn each_symbol_is_in_one_sum() {
        assert_eq!(coefficients(1, 0, 4), Ok(vec![1; 4]));
        assert_eq!(coefficients(3, 0, 7), Ok(vec![1, 0, 0, 1, 0, 0, 1]));
        assert_eq!(coefficients(3, 2, 7), Ok(vec![0, 0, 1, 0, 0, 1, 0]));
        assert_eq!(coefficients(9, 1, 2), Ok(vec![0, 1]));
    }

    #[test]
    fn there_are_depth_sums() {
        let max = |max| Err(CodeError::KeyTooLarge { key: 3, max });
        assert_eq!(coefficients(3, 3, 7), max(2));
        assert_eq!(coefficients(9, 3, 2), max(1));
        assert_eq!(coefficients(1, 0, 0), Err(CodeError::EmptyWindow));
    }
}
