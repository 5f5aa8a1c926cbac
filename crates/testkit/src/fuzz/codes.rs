//! The target of the erasure codes: an encoder and a decoder, a network that loses, and a peer
//! that lies.

use tautline_codes::{
    CodingWindow, Decoder, Encoder, Limits, RepairId, Scheme,
    reed_solomon::ReedSolomon,
    rlc::{DensityThreshold, Field, Rlc},
    tetrys::Tetrys,
    xor::Xor,
};

use super::input::{Field as _, Input, operations};

operations! {
    /// What happens next.
    Op {
        /// A source symbol is sent; an odd `lost` loses it.
        0 Source { len: u8, lost: u8 };
        /// A repair symbol over `len` symbols, `skip` before the latest, arrives.
        1 Repair { scheme: u8, len: u8, skip: u8, key: u16 };
        /// The receiver forgets.
        2 Release { count: u8 };
        /// A lie: any bytes as a source symbol.
        3 AnySource { id: u64, bytes: Vec<u8> };
        /// A lie: any bytes as a repair symbol.
        4 AnyRepair { scheme: u8, first: u64, len: u16, key: u32, bytes: Vec<u8> };
        /// A lie: any equation.
        5 AnyEquation { first: u64, len: u16, coefficients: Vec<u8>, bytes: Vec<u8> };
        /// A lie near the decoder's window, where it may do harm.
        6 NearEquation { back: u8, coefficients: Vec<u8>, bytes: Vec<u8> };
    }
}

/// Symbols of at most this many bytes; with their length, two vectors.
const SYMBOL_BYTES: u16 = 100;
const PADDED_BYTES: u64 = 128;

/// Runs a script. While nobody lies, what the decoder knows is what was sent; whatever happens,
/// work and equations are bounded.
pub fn codes(data: &[u8]) {
    let mut input = Input::new(data);
    let window = u16::from(input.take::<u8>() % 48) + 1;
    let equations = u16::from(input.take::<u8>() % 48) + 1;
    let limits = Limits::new(window, SYMBOL_BYTES).expect("in range");
    let limits = limits.with_equations(equations).expect("not zero");
    let mut run = Run {
        encoder: Encoder::new(limits),
        decoder: Decoder::new(limits),
        honest: true,
    };
    while !input.is_empty() {
        let before = run.decoder.stats().byte_operations;
        let waiting = run.decoder.equations() as u64;
        run.apply(&Op::take(&mut input));
        let spent = run.decoder.stats().byte_operations - before;
        let allowed = (2 * u64::from(window)).max(2 * waiting + 1);
        assert!(spent <= allowed * PADDED_BYTES);
        run.check();
    }
    let window = run.decoder.window();
    for (id, bytes) in window
        .ids()
        .filter_map(|id| Some((id, run.decoder.symbol(id)?)))
    {
        assert!(!run.honest || is_honest(id, bytes));
    }
}

/// The bytes of an honest source symbol.
fn symbol(id: u64, len: u8) -> Vec<u8> {
    let len = u64::from(len) % (u64::from(SYMBOL_BYTES) + 1);
    // The first byte tells how long it is, so that the receiver can check.
    let byte = |i: u64| (id * 31 + i * i * 7 + 1) as u8;
    (0..len)
        .map(|i| if i == 0 { len as u8 } else { byte(i) })
        .collect()
}

/// Whether these are the bytes of the honest symbol `id`.
fn is_honest(id: u64, bytes: &[u8]) -> bool {
    bytes == symbol(id, bytes.first().copied().unwrap_or(0))
}

fn scheme(number: u8) -> Scheme {
    let depth = std::num::NonZeroU16::new(3).expect("not zero");
    let half = DensityThreshold::new(7).expect("four bits");
    match number % 7 {
        0 => Scheme::Xor(Xor::PARITY),
        1 => Scheme::Xor(Xor::interleaved(depth)),
        2 => Scheme::ReedSolomon(ReedSolomon),
        3 => Scheme::Rlc(Rlc::DENSE),
        4 => Scheme::Rlc(Rlc::new(Field::Gf2, half)),
        5 => Scheme::Tetrys(Tetrys::RFC9407),
        _ => Scheme::Tetrys(Tetrys::VANDERMONDE),
    }
}

struct Run {
    encoder: Encoder,
    decoder: Decoder,
    honest: bool,
}

impl Run {
    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Source { len, lost } => {
                let bytes = symbol(self.encoder.next_id(), len);
                let id = self.encoder.push(&bytes).expect("within limits");
                if lost % 2 == 0 {
                    let taken = self.decoder.source(id, &bytes);
                    assert!(taken.is_ok() || !self.honest, "{taken:?}");
                }
            }
            Op::Repair {
                scheme: number,
                len,
                skip,
                key,
            } => {
                let held = self.encoder.window();
                let len = u16::from(len).min(held.len);
                let skip = u64::from(skip).min(u64::from(held.len - len));
                let first = held.end() - u64::from(len) - skip;
                let key = match number % 7 {
                    0..3 => u32::from(key % 4),
                    _ => u32::from(key),
                };
                let window = CodingWindow { first, len };
                let (code, id) = (scheme(number), RepairId { window, key });
                let mut payload = [0; SYMBOL_BYTES as usize + 2];
                if let Ok(len) = self.encoder.repair(&code, id, &mut payload) {
                    let taken = self.decoder.repair(&code, id, &payload[..len]);
                    assert!(taken.is_ok() || !self.honest, "{taken:?}");
                }
            }
            Op::Release { count } => {
                let first = self.decoder.window().first;
                self.decoder.release(first + u64::from(count % 8));
            }
            Op::AnySource { id, ref bytes } => {
                self.honest = false;
                let _ = self.decoder.source(id, bytes);
            }
            Op::AnyRepair {
                scheme: number,
                first,
                len,
                key,
                ref bytes,
            } => {
                self.honest = false;
                let window = CodingWindow { first, len };
                let id = RepairId { window, key };
                let _ = self.decoder.repair(&scheme(number), id, bytes);
            }
            Op::AnyEquation {
                first,
                len,
                ref coefficients,
                ref bytes,
            } => {
                self.honest = false;
                let window = CodingWindow { first, len };
                let _ = self.decoder.equation(window, coefficients, bytes);
            }
            Op::NearEquation {
                back,
                ref coefficients,
                ref bytes,
            } => {
                self.honest = false;
                let first = self.decoder.window().end().saturating_sub(u64::from(back));
                let len = u16::try_from(coefficients.len()).unwrap_or(u16::MAX);
                let window = CodingWindow { first, len };
                let _ = self.decoder.equation(window, coefficients, bytes);
            }
        }
    }

    fn check(&mut self) {
        let limits = self.decoder.limits();
        let window = self.decoder.window();
        assert!(window.len <= limits.window_symbols());
        assert!(self.decoder.equations() <= usize::from(limits.equations()));
        assert!(self.decoder.equations() <= self.decoder.missing().count());
        while let Some((id, bytes)) = self.decoder.next_recovered() {
            assert!(window.ids().contains(&id));
            assert!(bytes.len() <= usize::from(limits.symbol_bytes()));
            assert!(!self.honest || is_honest(id, bytes));
        }
    }
}

/// Scripts that reach every scheme, honest and not.
pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let honest = script(
        32,
        (0..7u8).flat_map(|scheme| {
            let sources = (0..16).map(move |i| Op::Source {
                len: i * 6,
                lost: u8::from(i % 7 == scheme),
            });
            let repairs = (0..4).map(move |key| Op::Repair {
                scheme,
                len: 12,
                skip: u8::from(key == 3),
                key,
            });
            sources.chain(repairs)
        }),
    );
    let sliding = script(
        7,
        (0..60u8).map(|i| match i % 3 {
            0 => Op::Repair {
                scheme: i,
                len: 5,
                skip: 0,
                key: u16::from(i),
            },
            _ => Op::Source {
                len: i,
                lost: u8::from(i % 5 == 1),
            },
        }),
    );
    let coefficients = vec![3, 0, 1, 255];
    let bytes = vec![0, 4, 9, 9, 9, 9];
    let lies = script(
        31,
        [
            Op::Source { len: 5, lost: 1 },
            Op::NearEquation {
                back: 4,
                coefficients: coefficients.clone(),
                bytes: bytes.clone(),
            },
            Op::AnySource {
                id: 70,
                bytes: vec![1; 101],
            },
            Op::AnyEquation {
                first: 2,
                len: 4,
                coefficients,
                bytes: bytes.clone(),
            },
            Op::AnyRepair {
                scheme: 3,
                first: u64::MAX - 3,
                len: 8,
                key: 70_000,
                bytes: bytes.clone(),
            },
            Op::AnyRepair {
                scheme: 3,
                first: 1,
                len: 8,
                key: 7,
                bytes,
            },
            Op::Release { count: 7 },
        ]
        .into_iter(),
    );
    vec![("honest", honest), ("sliding", sliding), ("lies", lies)]
}

fn script(window: u8, ops: impl Iterator<Item = Op>) -> Vec<u8> {
    let mut out = vec![window, window];
    ops.for_each(|op| op.put(&mut out));
    out
}
