//! The kernels, each on its own.

use std::hint::black_box;

use tautline_codes::gf256::Kernel;

use crate::clock::{bytes, measure};

/// Symbols of a window.
const COLUMNS: usize = 32;
/// Repair symbols made together.
const ROWS: usize = 8;

pub(crate) fn print(len: usize) {
    println!("kernels, {len}-byte symbols, GB/s of source (32 symbols: 1 sum, 8 sums at once)");
    println!(
        "{:>12} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "", "xor", "mul_add", "mul", "xor 32", "sum 32", "8 x 32"
    );
    let srcs: Vec<Vec<u8>> = (0..COLUMNS).map(|i| bytes(len, i as u64)).collect();
    let srcs: Vec<&[u8]> = srcs.iter().map(Vec::as_slice).collect();
    // Neither 0 nor 1, which kernels need not multiply by.
    let coefficients: Vec<u8> = bytes(ROWS * COLUMNS, 9).iter().map(|c| c | 2).collect();
    let ones = [1; COLUMNS];
    for kernel in Kernel::available() {
        let mut dst = bytes(len, 77);
        let mut dsts = vec![bytes(len, 78); ROWS];
        let src = srcs[0];
        let rates = [
            rate(len, &mut || kernel.add_assign(black_box(&mut dst), src)),
            rate(len, &mut || kernel.mul_add(black_box(&mut dst), src, 0x53)),
            rate(len, &mut || kernel.mul_assign(black_box(&mut dst), 0x53)),
            rate(COLUMNS * len, &mut || {
                kernel.mul_add_many(black_box(&mut dst), &srcs, &ones);
            }),
            rate(COLUMNS * len, &mut || {
                kernel.mul_add_many(black_box(&mut dst), &srcs, &coefficients[..COLUMNS]);
            }),
            rate(ROWS * COLUMNS * len, &mut || {
                let mut slices: Vec<&mut [u8]> = dsts.iter_mut().map(|d| &mut d[..]).collect();
                kernel.mul_add_matrix(black_box(&mut slices), &srcs, &coefficients);
            }),
        ];
        print!("{:>12}", kernel.instructions().name());
        rates.iter().for_each(|rate| print!(" {rate:>8.2}"));
        println!();
    }
    println!();
}

/// Gigabytes a second of work on so many bytes.
fn rate(bytes: usize, work: &mut dyn FnMut()) -> f64 {
    bytes as f64 / measure(work, &mut || {}).nanos
}
