//! The schemes, through the encoder and the decoder.

use std::hint::black_box;

use tautline_codes::{
    CodingWindow, Decoder, Encoder, Limits, RepairId, Scheme, gf256,
    reed_solomon::{ReedSolomon, encode, reconstruct},
    rlc::{DensityThreshold, Field, Rlc},
    tetrys::Tetrys,
    xor::Xor,
};

use crate::clock::{Pair, ROUNDS, bytes, measure, measure_once, summary};

/// A window, its symbols, and repair symbols over it.
struct Case {
    scheme: Scheme,
    symbols: Vec<Vec<u8>>,
    encoder: Encoder,
    first: RepairId,
    repairs: Vec<Vec<u8>>,
}

impl Case {
    fn new(scheme: Scheme, k: u16, r: usize, len: usize) -> Self {
        let symbols: Vec<Vec<u8>> = (0..k).map(|i| bytes(len, u64::from(i))).collect();
        let mut encoder = Encoder::new(limits(k, len));
        for symbol in &symbols {
            encoder.push(symbol).expect("within limits");
        }
        let window = CodingWindow { first: 0, len: k };
        let first = RepairId { window, key: 0 };
        let mut case = Self {
            scheme,
            symbols,
            encoder,
            first,
            repairs: vec![vec![0; len + 2]; r],
        };
        case.encode();
        case
    }

    fn encode(&mut self) {
        let mut outs: Vec<&mut [u8]> = self.repairs.iter_mut().map(|r| &mut r[..]).collect();
        let made = self.encoder.repairs(&self.scheme, self.first, &mut outs);
        black_box(made).expect("held");
    }

    /// The sums that parity of the same symbols would take, `sums` times over.
    fn xor(&self, sums: usize, out: &mut [u8]) {
        let srcs: Vec<&[u8]> = self.symbols.iter().map(Vec::as_slice).collect();
        let ones = vec![1; srcs.len()];
        for _ in 0..sums {
            gf256::mul_add_many(black_box(out), &srcs, &ones);
        }
    }

    /// The next block of the same symbols: new IDs, new repair symbols.
    fn advance(&mut self) {
        for symbol in &self.symbols {
            self.encoder.push(symbol).expect("within limits");
        }
        self.first.window = self.encoder.window();
        self.encode();
    }

    /// All of the block arrives but its first symbols.
    fn receive(&self, decoder: &mut Decoder, lost: usize) {
        for (id, symbol) in self.first.window.ids().zip(&self.symbols).skip(lost) {
            decoder.source(id, symbol).expect("valid");
        }
    }

    /// Its repair symbols arrive, until nothing is missing.
    fn decode(&self, decoder: &mut Decoder, lost: usize) {
        let all = decoder.stats().recovered + lost as u64;
        for (key, repair) in (self.first.key..).zip(&self.repairs) {
            let id = RepairId { key, ..self.first };
            decoder.repair(&self.scheme, id, repair).expect("valid");
            if decoder.stats().recovered == all {
                return;
            }
        }
    }
}

fn limits(k: u16, len: usize) -> Limits {
    let len = u16::try_from(len).expect("a packet's size");
    Limits::new(k, len).expect("in range")
}

fn row(name: &str, what: &str, pair: &Pair) {
    println!(
        "{name:>18} {what:<28} {:>9.2} us {:>7.2} x",
        pair.nanos / 1e3,
        pair.ratio
    );
}

pub(crate) fn print(len: usize) {
    println!("schemes, {len}-byte symbols: time, and ratio to the exclusive or of the same sums");
    let sparse = DensityThreshold::new(7).expect("four bits");
    let depth = std::num::NonZeroU16::new(8).expect("not zero");
    let schemes = [
        ("xor, depth 8", Scheme::Xor(Xor::interleaved(depth))),
        ("reed-solomon", Scheme::ReedSolomon(ReedSolomon)),
        ("rlc", Scheme::Rlc(Rlc::DENSE)),
        (
            "rlc, half density",
            Scheme::Rlc(Rlc::new(Field::Gf256, sparse)),
        ),
        ("rlc, GF(2)", Scheme::Rlc(Rlc::new(Field::Gf2, sparse))),
        ("tetrys", Scheme::Tetrys(Tetrys::VANDERMONDE)),
    ];
    for (name, scheme) in schemes {
        let mut case = Case::new(scheme, 32, 8, len);
        // Over GF(2) some more repair symbols are needed than symbols were lost.
        let enough = if name == "rlc, GF(2)" { 16 } else { 8 };
        let twin = Case::new(scheme, 32, enough, len);
        let mut out = vec![0; len];
        let encode = measure(&mut || case.encode(), &mut || twin.xor(8, &mut out));
        row(name, "encode 8 of 32", &encode);
        decode_row(name, twin, 8, "decode 8 losses of 32");
    }
    for (name, scheme) in [
        ("xor", Scheme::Xor(Xor::PARITY)),
        ("reed-solomon", Scheme::ReedSolomon(ReedSolomon)),
        ("rlc", Scheme::Rlc(Rlc::DENSE)),
        ("tetrys", Scheme::Tetrys(Tetrys::VANDERMONDE)),
    ] {
        let mut case = Case::new(scheme, 100, 1, len);
        if name == "tetrys" {
            // Coded symbol 0 is the parity.
            case.first.key = 1;
        }
        decode_row(name, case, 1, "decode 1 loss of 100");
    }
    blocks(len);
}

/// Block after block at one decoder; what is measured is the arrival of the repair symbols.
fn decode_row(name: &str, mut case: Case, lost: usize, what: &str) {
    let mut out = vec![0; case.symbols[0].len()];
    let mut decoder = Decoder::new(case.encoder.limits());
    let mut pairs = Vec::new();
    for block in 1..=2 * ROUNDS {
        case.advance();
        case.receive(&mut decoder, lost);
        let mut arrive = || case.decode(&mut decoder, lost);
        pairs.push(measure_once(1, &mut arrive, &mut || {
            case.xor(lost, &mut out)
        }));
        assert_eq!(decoder.stats().recovered, block * lost as u64);
    }
    row(name, what, &summary(&pairs));
}

/// Reed-Solomon without encoder and decoder: slices in, slices out.
fn blocks(len: usize) {
    let case = Case::new(Scheme::ReedSolomon(ReedSolomon), 32, 8, len);
    let srcs: Vec<&[u8]> = case.symbols.iter().map(Vec::as_slice).collect();
    let mut repairs = vec![vec![0; len]; 8];
    let mut out = vec![0; len];
    let encoded = measure(
        &mut || {
            let mut outs: Vec<&mut [u8]> = repairs.iter_mut().map(|r| &mut r[..]).collect();
            encode(black_box(&srcs), &mut outs).expect("a valid block");
        },
        &mut || case.xor(8, &mut out),
    );
    row("reed-solomon block", "encode 8 of 32", &encoded);
    let rows: Vec<(u8, &[u8])> = (0..).zip(repairs.iter().map(Vec::as_slice)).collect();
    let mut sources: Vec<Option<Vec<u8>>> = case.symbols.iter().cloned().map(Some).collect();
    let decoded = measure(
        &mut || {
            sources[..8].iter_mut().for_each(|source| *source = None);
            reconstruct(black_box(&mut sources), &rows).expect("enough symbols");
        },
        &mut || case.xor(8, &mut out),
    );
    row("reed-solomon block", "decode 8 losses of 32", &decoded);
}
