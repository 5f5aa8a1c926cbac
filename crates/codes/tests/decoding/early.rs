//! As early as the algebra allows: after every symbol, what the decoder knows of its window is
//! exactly what the symbols it took determine.

use proptest::prelude::*;
use tautline_codes::{
    CodingWindow, Decoder, Encoder, ErasureCode, Limits, Outcome, RepairId, Scheme,
    reed_solomon::ReedSolomon,
    rlc::{DensityThreshold, Field, Rlc},
    tetrys::Tetrys,
    xor::Xor,
};

use crate::{Noise, oracle::Oracle};

/// What the network and the sender do next.
#[derive(Clone, Debug)]
enum Step {
    /// A source symbol is sent; it arrives now, is lost, or arrives some steps later.
    Source { len: u16, fate: u8 },
    /// A repair symbol over some of the latest symbols arrives.
    Repair {
        scheme: u8,
        len: u16,
        skip: u16,
        key: u32,
    },
    /// The receiver forgets its oldest symbols.
    Release { count: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u16..60, any::<u8>()).prop_map(|(len, fate)| Step::Source { len, fate }),
        4 => (any::<u8>(), 1u16..12, 0u16..6, any::<u32>())
            .prop_map(|(scheme, len, skip, key)| Step::Repair { scheme, len, skip, key }),
        1 => (0u8..4).prop_map(|count| Step::Release { count }),
    ]
}

fn scheme(number: u8) -> Scheme {
    let depth = std::num::NonZeroU16::new(2).expect("not zero");
    let sparse = DensityThreshold::new(5).expect("four bits");
    match number % 8 {
        0 => Scheme::Xor(Xor::PARITY),
        1 => Scheme::Xor(Xor::interleaved(depth)),
        2 => Scheme::ReedSolomon(ReedSolomon),
        3 => Scheme::Rlc(Rlc::new(Field::Gf2, sparse)),
        4 => Scheme::Rlc(Rlc::new(Field::Gf256, sparse)),
        5 => Scheme::Tetrys(Tetrys::RFC9407),
        6 => Scheme::Tetrys(Tetrys::VANDERMONDE),
        _ => Scheme::Rlc(Rlc::DENSE),
    }
}

struct Run {
    encoder: Encoder,
    decoder: Decoder,
    oracle: Oracle,
    sent: Vec<Vec<u8>>,
    /// Source symbols on a detour, and the steps left until they arrive.
    late: Vec<(u64, u8)>,
}

impl Run {
    fn new(decoder_window: u16) -> Self {
        let limits = |window| Limits::new(window, 60).expect("valid limits");
        let all = limits(decoder_window).with_equations(decoder_window);
        Self {
            encoder: Encoder::new(limits(32)),
            decoder: Decoder::new(all.expect("not zero")),
            oracle: Oracle::default(),
            sent: Vec::new(),
            late: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step, noise: &mut Noise) {
        let arriving: Vec<u64> = self.late.iter().filter(|l| l.1 == 0).map(|l| l.0).collect();
        self.late.retain(|l| l.1 > 0);
        self.late.iter_mut().for_each(|l| l.1 -= 1);
        for id in arriving {
            self.arrive(id);
        }
        match *step {
            Step::Source { len, fate } => {
                let symbol = noise.bytes(usize::from(len));
                let id = self.encoder.push(&symbol).expect("within limits");
                self.sent.push(symbol);
                match fate % 8 {
                    0..3 => {}
                    3..5 => self.late.push((id, fate / 32)),
                    _ => self.arrive(id),
                }
            }
            Step::Repair {
                scheme: number,
                len,
                skip,
                key,
            } => {
                let held = self.encoder.window();
                let len = len.min(held.len);
                let skip = u64::from(skip.min(held.len - len));
                let first = held.end() - u64::from(len) - skip;
                let window = CodingWindow { first, len };
                let code = scheme(number);
                let key = if number % 8 < 3 {
                    key % 3
                } else {
                    key % 65_536
                };
                self.repair(&code, RepairId { window, key });
            }
            Step::Release { count } => {
                let first = self.decoder.window().first;
                self.decoder.release(first + u64::from(count));
            }
        }
        self.check();
    }

    fn arrive(&mut self, id: u64) {
        let symbol = &self.sent[id as usize];
        let outcome = self.decoder.source(id, symbol).expect("a valid symbol");
        if outcome != Outcome::Stale {
            self.oracle.source(id);
        }
        self.check();
    }

    fn repair(&mut self, code: &Scheme, id: RepairId) {
        let mut payload = [0; 62];
        let Ok(len) = self.encoder.repair(code, id, &mut payload) else {
            return;
        };
        let mut coefficients = vec![0; usize::from(id.window.len)];
        code.coefficients(id, &mut coefficients).expect("just used");
        if usize::from(id.window.len) > usize::from(self.decoder.limits().window_symbols()) {
            return;
        }
        let before = self.decoder.equations();
        let outcome = self
            .decoder
            .repair(code, id, &payload[..len])
            .expect("a valid symbol");
        match outcome {
            Outcome::Stale => {}
            Outcome::Redundant => {
                // Redundant means that the oracle learns nothing either.
                let known = self.oracle.known();
                self.oracle.repair(id.window.first, &coefficients);
                assert_eq!(self.oracle.known(), known);
            }
            Outcome::Used { recovered } => {
                assert!(recovered > 0 || self.decoder.equations() > 0 || before > 0);
                self.oracle.repair(id.window.first, &coefficients);
            }
            other => panic!("{other:?}"),
        }
    }

    fn check(&mut self) {
        let window = self.decoder.window();
        let known = self.oracle.known();
        for id in window.ids() {
            let symbol = self.decoder.symbol(id);
            assert_eq!(
                symbol.is_some(),
                known.contains(&id),
                "symbol {id} of {window:?}"
            );
            if let Some(symbol) = symbol {
                assert_eq!(symbol, self.sent[id as usize], "symbol {id}");
            }
        }
        while let Some((id, symbol)) = self.decoder.next_recovered() {
            assert_eq!(symbol, self.sent[id as usize], "recovered {id}");
        }
        assert!(self.decoder.equations() <= self.decoder.missing().count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn known_is_what_is_determined(
        steps in prop::collection::vec(step(), 1..80),
        seed in any::<u64>(),
        decoder_window in prop_oneof![Just(8u16), Just(12), Just(24), Just(64)],
    ) {
        let mut noise = Noise(seed);
        let mut run = Run::new(decoder_window);
        for step in &steps {
            run.step(step, &mut noise);
        }
    }
}
