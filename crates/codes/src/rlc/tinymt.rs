//! TinyMT32, the generator that RFC 8682 fixes for coefficients.

/// The parameter set of RFC 8682 s2.1.
const MAT1: u32 = 0x8f70_11ee;
const MAT2: u32 = 0xfc78_ff1f;
const TMAT: u32 = 0x3793_fdff;

/// Steps before the first number.
const STIRRED: usize = 8;

/// A generator of 127 bits of state. Not for secrets.
#[derive(Clone, Debug)]
pub struct TinyMt32 {
    s0: u32,
    s1: u32,
    s2: u32,
    s3: u32,
}

impl TinyMt32 {
    /// From any seed; the RFC's tests use 1, RLC the repair key.
    pub fn new(seed: u32) -> Self {
        let mut generator = Self::unstirred(seed);
        for _ in 0..STIRRED {
            generator.step();
        }
        generator
    }

    /// Before its first steps, whose numbers nobody gets.
    fn unstirred(seed: u32) -> Self {
        let mut words = [seed, MAT1, MAT2, TMAT];
        let [w0, w1, w2, w3] = &mut words;
        // Word i (mod 4) takes up a scrambled word i - 1, for i in 1..8.
        let scramble = |previous: u32, i: u32| {
            (previous ^ (previous >> 30))
                .wrapping_mul(1_812_433_253)
                .wrapping_add(i)
        };
        for i in [1, 5] {
            *w1 ^= scramble(*w0, i);
            *w2 ^= scramble(*w1, i + 1);
            *w3 ^= scramble(*w2, i + 2);
            if i == 1 {
                *w0 ^= scramble(*w3, i + 3);
            }
        }
        let [s0, s1, s2, s3] = words;
        Self { s0, s1, s2, s3 }
    }

    /// A uniform 32-bit number.
    pub fn next_u32(&mut self) -> u32 {
        self.step();
        let sum = self.s0.wrapping_add(self.s2 >> 8);
        let tempered = self.s3 ^ sum;
        if sum & 1 == 1 {
            tempered ^ TMAT
        } else {
            tempered
        }
    }

    /// A uniform number below 16: the low bits, as RFC 8682 s2.2 has it.
    pub fn rand16(&mut self) -> u8 {
        (self.next_u32() & 0xf) as u8
    }

    /// A uniform number below 256: the low bits, as RFC 8682 s2.2 has it.
    pub fn rand256(&mut self) -> u8 {
        (self.next_u32() & 0xff) as u8
    }

    fn step(&mut self) {
        let mut x = (self.s0 & 0x7fff_ffff) ^ self.s1 ^ self.s2;
        let mut y = self.s3;
        x ^= x << 1;
        y ^= (y >> 1) ^ x;
        let odd = (y & 1).wrapping_neg();
        self.s0 = self.s1;
        self.s1 = self.s2 ^ (odd & MAT1);
        self.s2 = x ^ (y << 10) ^ (odd & MAT2);
        self.s3 = y;
    }
}

/// How many generators go in step.
pub(super) const LANES: usize = 8;

/// Generators side by side: the numbers of as many [`TinyMt32`] in less time, as compilers put lanes
/// into vectors. One generator alone mostly waits for its own last step.
pub(super) struct Lanes {
    s0: [u32; LANES],
    s1: [u32; LANES],
    s2: [u32; LANES],
    s3: [u32; LANES],
}

impl Lanes {
    /// With one seed after the other, from this one on.
    pub(super) fn new(first_seed: u32) -> Self {
        let mut lanes = Self {
            s0: [0; LANES],
            s1: [0; LANES],
            s2: [0; LANES],
            s3: [0; LANES],
        };
        let words = (lanes.s0.iter_mut().zip(&mut lanes.s1)).zip(&mut lanes.s2);
        for (((w0, w1), w2), (w3, lane)) in words.zip(lanes.s3.iter_mut().zip(0..)) {
            let generator = TinyMt32::unstirred(first_seed.wrapping_add(lane));
            (*w0, *w1, *w2, *w3) = (generator.s0, generator.s1, generator.s2, generator.s3);
        }
        for _ in 0..STIRRED {
            lanes.step();
        }
        lanes
    }

    /// The next four [`TinyMt32::rand256`] of each, the first in the lowest byte.
    #[inline]
    pub(super) fn four_bytes(&mut self) -> [u32; LANES] {
        let mut bytes = [0; LANES];
        for nth in 0..4 {
            self.step();
            let words = self.s0.iter().zip(&self.s2).zip(&self.s3);
            for (bytes, ((s0, s2), s3)) in bytes.iter_mut().zip(words) {
                let sum = s0.wrapping_add(s2 >> 8);
                let tempered = s3 ^ sum ^ ((sum & 1).wrapping_neg() & TMAT);
                *bytes |= (tempered & 0xff) << (8 * nth);
            }
        }
        bytes
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "below the length of all arrays; compilers see through it"
    )]
    #[inline(always)]
    fn step(&mut self) {
        for i in 0..LANES {
            let mut x = (self.s0[i] & 0x7fff_ffff) ^ self.s1[i] ^ self.s2[i];
            let mut y = self.s3[i];
            x ^= x << 1;
            y ^= (y >> 1) ^ x;
            let odd = (y & 1).wrapping_neg();
            self.s0[i] = self.s1[i];
            self.s1[i] = self.s2[i] ^ (odd & MAT1);
            self.s2[i] = x ^ (y << 10) ^ (odd & MAT2);
            self.s3[i] = y;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_rfc_8682() {
        let mut generator = TinyMt32::new(1);
        let numbers = [2_545_341_989, 981_918_433, 3_715_302_833];
        assert_eq!([(); 3].map(|()| generator.next_u32()), numbers);

        let mut generator = TinyMt32::new(1);
        let bytes = [37, 225, 177, 176, 21, 246, 54, 139];
        assert_eq!([(); 8].map(|()| generator.rand256()), bytes);

        let mut generator = TinyMt32::new(1);
        let nibbles = [5, 1, 1, 0, 5, 6, 6, 11];
        assert_eq!([(); 8].map(|()| generator.rand16()), nibbles);
    }

    #[test]
    fn lanes_give_the_same_numbers() {
        for first in [0, 1, 0xffff, u32::MAX - 3] {
            let mut lanes = Lanes::new(first);
            let seeds = (0..LANES as u32).map(|lane| first.wrapping_add(lane));
            let mut alone: Vec<TinyMt32> = seeds.map(TinyMt32::new).collect();
            for _ in 0..80 {
                for (four, alone) in lanes.four_bytes().into_iter().zip(&mut alone) {
                    assert_eq!(four.to_le_bytes(), [(); 4].map(|()| alone.rand256()));
                }
            }
        }
    }
}
