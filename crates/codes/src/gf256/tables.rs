//! What multiplication by a constant looks like to each kind of kernel; computed at build time.

/// x^8 + x^4 + x^3 + x^2 + 1, the polynomial of RFC 8681 s3.7 and RFC 5510 s8.1 for m = 8.
pub(super) const POLYNOMIAL: u16 = 0x11d;

/// Elements other than zero: the order of the multiplicative group, which `2` generates.
pub(super) const GROUP_ORDER: usize = 255;

/// Products of a constant with every low and every high nibble: `low[x & 15] ^ high[x >> 4]` is
/// the product with `x`. Sixteen entries fit the byte shuffles of every vector unit.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Nibbles {
    pub(super) low: [u8; 16],
    pub(super) high: [u8; 16],
}

/// Powers of the generator, twice over, so that sums of two logarithms need no reduction.
pub(super) static EXP: [u8; 2 * GROUP_ORDER] = exp_table();

/// Logarithms to the generator; the entry of zero, which has none, is 0.
pub(super) static LOG: [u8; 256] = log_table();

/// Inverses; the entry of zero, which has none, is 0.
pub(super) static INVERSES: [u8; 256] = inverse_table();

/// [`Nibbles`] of every constant: 8 KiB.
pub(super) static NIBBLES: [Nibbles; 256] = nibble_table();

/// Multiplication by every constant as an 8 by 8 matrix over GF(2), laid out for GF2P8AFFINEQB:
/// the row that yields bit `i` of the product stands in byte `7 - i`. 2 KiB.
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
pub(super) static MATRICES: [u64; 256] = matrix_table();

/// Multiplication by the generator.
const fn double(x: u8) -> u8 {
    let wide = (x as u16) << 1;
    (if wide & 0x100 == 0 {
        wide
    } else {
        wide ^ POLYNOMIAL
    }) as u8
}

/// The product, bit by bit: the definition that everything else is derived from.
pub(super) const fn product(a: u8, b: u8) -> u8 {
    let mut sum = 0;
    let mut shifted = a;
    let mut bit = 0;
    while bit < 8 {
        if b >> bit & 1 == 1 {
            sum ^= shifted;
        }
        shifted = double(shifted);
        bit += 1;
    }
    sum
}

const fn exp_table() -> [u8; 2 * GROUP_ORDER] {
    let mut table = [0; 2 * GROUP_ORDER];
    let mut power = 1;
    let mut i = 0;
    while i < table.len() {
        table[i] = power;
        power = double(power);
        i += 1;
    }
    table
}

const fn inverse_table() -> [u8; 256] {
    let (exp, log) = (exp_table(), log_table());
    let mut table = [0; 256];
    let mut x = 1;
    while x < table.len() {
        table[x] = exp[GROUP_ORDER - log[x] as usize];
        x += 1;
    }
    table
}

const fn log_table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut power = 1u8;
    let mut i = 0;
    while i < GROUP_ORDER {
        table[power as usize] = i as u8;
        power = double(power);
        i += 1;
    }
    table
}

const fn nibble_table() -> [Nibbles; 256] {
    let none = Nibbles {
        low: [0; 16],
        high: [0; 16],
    };
    let mut table = [none; 256];
    let mut c = 0;
    while c < 256 {
        let mut x = 0;
        while x < 16 {
            table[c].low[x] = product(c as u8, x as u8);
            table[c].high[x] = product(c as u8, (x as u8) << 4);
            x += 1;
        }
        c += 1;
    }
    table
}

#[cfg(all(feature = "simd", target_arch = "x86_64"))]
const fn matrix_table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut c = 0;
    while c < 256 {
        let mut matrix = 0u64;
        let mut column = 0;
        while column < 8 {
            // What input bit `column` contributes to each output bit.
            let image = product(c as u8, 1 << column);
            let mut row = 0;
            while row < 8 {
                if image >> row & 1 == 1 {
                    matrix |= 1 << (8 * (7 - row) + column);
                }
                row += 1;
            }
            column += 1;
        }
        table[c] = matrix;
        c += 1;
    }
    table
}
