//! Work and equations stay within what the documentation says, whatever arrives.

use proptest::prelude::*;
use tautline_codes::{CodingWindow, Decoder, Limits, RepairId, rlc::Rlc, tetrys::Tetrys};

use crate::Noise;

/// Anything a peer might send.
#[derive(Clone, Debug)]
enum Hostile {
    Source {
        id: u64,
        len: usize,
    },
    Repair {
        first: u64,
        len: u16,
        key: u32,
        bytes: usize,
    },
    Equation {
        first: u64,
        len: u16,
        given: usize,
        bytes: usize,
        sparse: bool,
    },
    Release {
        id: u64,
    },
}

/// Mostly near each other, sometimes anywhere.
fn id() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0u64..200, 1 => any::<u64>(), 1 => (1u64 << 62) - 40..(1 << 62) + 2]
}

fn hostile() -> impl Strategy<Value = Hostile> {
    prop_oneof![
        3 => (id(), 0usize..40).prop_map(|(id, len)| Hostile::Source { id, len }),
        4 => (id(), 0u16..40, any::<u32>(), 0usize..40).prop_map(|(first, len, key, bytes)| {
            Hostile::Repair { first, len, key: key % 70_000, bytes }
        }),
        4 => (id(), 0u16..40, 0usize..50, 0usize..40, any::<bool>()).prop_map(
            |(first, len, given, bytes, sparse)| Hostile::Equation {
                first, len, given, bytes, sparse,
            }
        ),
        1 => id().prop_map(|id| Hostile::Release { id }),
    ]
}

const WINDOW: u16 = 32;
/// Bytes of a symbol as the decoder counts them: whole vectors.
const PADDED: u64 = 64;

fn attack(decoder: &mut Decoder, hostile: &Hostile, noise: &mut Noise) {
    let before = decoder.stats().byte_operations;
    let waiting = decoder.equations() as u64;
    let allowed = match *hostile {
        Hostile::Source { id, len } => {
            let _ = decoder.source(id, &noise.bytes(len));
            2 * waiting + 1
        }
        Hostile::Repair {
            first,
            len,
            key,
            bytes,
        } => {
            let window = CodingWindow { first, len };
            let id = RepairId { window, key };
            let payload = noise.bytes(bytes);
            let _ = match key % 3 {
                0 => decoder.repair(&Tetrys::RFC9407, id, &payload),
                _ => decoder.repair(&Rlc::DENSE, id, &payload),
            };
            2 * u64::from(WINDOW)
        }
        Hostile::Equation {
            first,
            len,
            given,
            bytes,
            sparse,
        } => {
            let window = CodingWindow { first, len };
            let mut coefficients = noise.bytes(given);
            if sparse {
                coefficients
                    .iter_mut()
                    .for_each(|c| *c = if *c < 60 { *c } else { 0 });
            }
            let _ = decoder.equation(window, &coefficients, &noise.bytes(bytes));
            2 * u64::from(WINDOW)
        }
        Hostile::Release { id } => {
            decoder.release(id);
            0
        }
    };
    let spent = decoder.stats().byte_operations - before;
    assert!(spent <= allowed * PADDED, "{hostile:?} cost {spent} bytes");
    assert!(decoder.equations() <= usize::from(decoder.limits().equations()));
    assert!(decoder.equations() <= decoder.missing().count());
    assert!(decoder.window().len <= WINDOW);
    let window = decoder.window();
    while let Some((id, symbol)) = decoder.next_recovered() {
        assert!(window.ids().contains(&id));
        assert!(symbol.len() <= 30);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_costs_more_than_it_may(
        attacks in prop::collection::vec(hostile(), 1..200),
        equations in prop_oneof![Just(1u16), Just(4), Just(32)],
        seed in any::<u64>(),
    ) {
        let limits = Limits::new(WINDOW, 30).expect("valid").with_equations(equations);
        let mut decoder = Decoder::new(limits.expect("valid"));
        let mut noise = Noise(seed);
        for hostile in &attacks {
            attack(&mut decoder, hostile, &mut noise);
        }
    }
}

/// Every equation involves every symbol and none is solvable until the last: the worst there is.
#[test]
fn the_worst_case_of_elimination() {
    let limits = Limits::new(64, 62)
        .expect("valid")
        .with_equations(64)
        .expect("valid");
    let mut encoder = tautline_codes::Encoder::new(limits);
    let mut decoder = Decoder::new(limits);
    let mut noise = Noise(3);
    let symbols: Vec<_> = (0..64).map(|_| noise.bytes(62)).collect();
    for symbol in &symbols {
        encoder.push(symbol).expect("within limits");
    }
    let mut payload = [0; 64];
    for key in 0..64 {
        let id = RepairId {
            window: encoder.window(),
            key,
        };
        encoder
            .repair(&Tetrys::VANDERMONDE, id, &mut payload)
            .expect("in the window");
        let before = decoder.stats().byte_operations;
        decoder
            .repair(&Tetrys::VANDERMONDE, id, &payload)
            .expect("valid");
        assert!(decoder.stats().byte_operations - before <= 2 * 64 * 64);
        assert_eq!(decoder.missing().count(), if key == 63 { 0 } else { 64 });
    }
    for (id, symbol) in (0..).zip(&symbols) {
        assert_eq!(decoder.symbol(id), Some(&symbol[..]));
    }
    assert_eq!(decoder.stats().recovered, 64);
}
