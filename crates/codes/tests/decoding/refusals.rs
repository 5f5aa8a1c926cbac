//! Wrong input gets the documented error, and nothing changes.

use core::num::NonZeroU16;

use tautline_codes::{
    CodeError, CodingWindow, DecodeError, Decoder, DecoderStats, EncodeError, Encoder, ErasureCode,
    Limits, LimitsError, MAX_SYMBOL_ID, Outcome, RepairId, Scheme,
    reed_solomon::ReedSolomon,
    rlc::{DensityThreshold, Field, Rlc},
    tetrys::Tetrys,
    xor::Xor,
};

fn limits() -> Limits {
    Limits::new(8, 10).expect("valid")
}

fn parity(first: u64, len: u16) -> RepairId {
    let window = CodingWindow { first, len };
    RepairId { window, key: 0 }
}

#[test]
fn limits_have_limits() {
    assert_eq!(Limits::new(0, 10), Err(LimitsError::Window(0)));
    assert_eq!(Limits::new(4096, 10), Err(LimitsError::Window(4096)));
    assert_eq!(Limits::new(8, 0), Err(LimitsError::SymbolBytes));
    assert_eq!(limits().with_equations(0), Err(LimitsError::Equations));
    assert_eq!(limits().with_equations(99).expect("valid").equations(), 8);
    assert!(Limits::new(4095, u16::MAX).is_ok());
}

#[test]
fn the_encoder_refuses() {
    let mut encoder = Encoder::new(limits());
    let mut out = [7; 12];
    let too_long = EncodeError::SymbolTooLong { len: 11, max: 10 };
    assert_eq!(encoder.push(&[0; 11]), Err(too_long));
    encoder.push(&[1; 10]).expect("within limits");
    let held = encoder.window();
    let asked = parity(0, 2).window;
    let not_held = EncodeError::NotHeld { asked, held };
    assert_eq!(
        encoder.repair(&Xor::PARITY, parity(0, 2), &mut out),
        Err(not_held)
    );
    let short = EncodeError::OutputTooShort {
        needed: 12,
        len: 11,
    };
    assert_eq!(
        encoder.repair(&Xor::PARITY, parity(0, 1), &mut out[1..]),
        Err(short)
    );
    let empty = EncodeError::Code(CodeError::EmptyWindow);
    assert_eq!(
        encoder.repair(&Xor::PARITY, parity(0, 0), &mut out),
        Err(empty)
    );
    assert_eq!(out, [7; 12]);
    assert_eq!(encoder.repair(&Xor::PARITY, parity(0, 1), &mut out), Ok(12));
}

/// Every scheme, with the last repair key it has over windows of 8.
fn last_keys() -> [(Scheme, u32); 9] {
    let depth = NonZeroU16::new(3).expect("not zero");
    let half = DensityThreshold::new(7).expect("four bits");
    let rlc = |field, density| Scheme::Rlc(Rlc::new(field, density));
    let last = u32::from(u16::MAX);
    [
        (Scheme::Xor(Xor::PARITY), 0),
        (Scheme::Xor(Xor::interleaved(depth)), 2),
        (Scheme::ReedSolomon(ReedSolomon), 247),
        (Scheme::Rlc(Rlc::DENSE), last),
        (rlc(Field::Gf256, half), last),
        (rlc(Field::Gf2, half), last),
        (rlc(Field::Gf2, DensityThreshold::FULL), last),
        (Scheme::Tetrys(Tetrys::VANDERMONDE), u32::MAX),
        (Scheme::Tetrys(Tetrys::RFC9407), u32::MAX),
    ]
}

#[test]
fn no_repair_symbol_has_a_key_past_the_last() {
    let mut encoder = Encoder::new(limits());
    for i in 0..8 {
        encoder.push(&[i; 10]).expect("within limits");
    }
    let window = encoder.window();
    let mut ask = |code: &Scheme, key, count| {
        let mut outs = vec![[7; 12]; count];
        let mut slices: Vec<&mut [u8]> = outs.iter_mut().map(|out| &mut out[..]).collect();
        let done = encoder.repairs(code, RepairId { window, key }, &mut slices);
        assert!(done.is_ok() || outs.iter().all(|out| *out == [7; 12]));
        done
    };
    for (code, last) in last_keys() {
        assert_eq!(ask(&code, last, 1), Ok(12), "{code:?}");
        // One by one, and in groups: the last key in whatever place.
        for count in [2, 3, 8, 9, 20] {
            for key in (0..count as u32 - 1).filter_map(|back| last.checked_sub(back)) {
                let done = ask(&code, key, count);
                let too_large = matches!(
                    done,
                    Err(EncodeError::Code(CodeError::KeyTooLarge { max, .. })) if max <= last
                );
                assert!(too_large, "{code:?} {key} {count}: {done:?}");
            }
            let done = ask(&code, u32::MAX, count);
            assert!(done.is_err(), "{code:?} {count}: {done:?}");
            if let Some(key) = last.checked_sub(count as u32 - 1) {
                assert_eq!(ask(&code, key, count), Ok(12), "{code:?} {key} {count}");
            }
        }
    }
    // What it says: keys from this one on would do.
    let max = u32::MAX - 2;
    let too_large = EncodeError::Code(CodeError::KeyTooLarge { key: max + 1, max });
    let tetrys = Scheme::Tetrys(Tetrys::VANDERMONDE);
    assert_eq!(ask(&tetrys, max + 1, 3), Err(too_large));
    assert_eq!(ask(&tetrys, max, 3), Ok(12));
}

#[test]
fn the_encoder_window_slides() {
    let mut encoder = Encoder::new(limits());
    for i in 0..20 {
        assert_eq!(encoder.push(&[1]), Ok(i));
    }
    assert_eq!(encoder.window(), CodingWindow { first: 12, len: 8 });
    assert_eq!(encoder.latest(3), CodingWindow { first: 17, len: 3 });
    assert_eq!(encoder.latest(30), encoder.window());
    encoder.release(15);
    assert_eq!(encoder.window(), CodingWindow { first: 15, len: 5 });
    encoder.release(100);
    assert_eq!(encoder.window(), CodingWindow { first: 20, len: 0 });
    assert_eq!(encoder.push(&[1]), Ok(20));
}

#[test]
fn the_decoder_refuses() {
    let mut decoder = Decoder::new(limits());
    let too_long = DecodeError::SymbolTooLong { len: 11, max: 10 };
    assert_eq!(decoder.source(0, &[0; 11]), Err(too_long));
    let id = MAX_SYMBOL_ID + 1;
    assert_eq!(decoder.source(id, &[]), Err(DecodeError::IdTooLarge(id)));
    let repair = |decoder: &mut Decoder, id, bytes: &[u8]| decoder.repair(&Xor::PARITY, id, bytes);
    for len in [0, 1, 13] {
        let length = DecodeError::RepairLength {
            len,
            min: 2,
            max: 12,
        };
        assert_eq!(
            repair(&mut decoder, parity(0, 3), &vec![0; len]),
            Err(length)
        );
    }
    let window = DecodeError::WindowTooLong { len: 9, max: 8 };
    assert_eq!(repair(&mut decoder, parity(0, 9), &[0; 5]), Err(window));
    let far = DecodeError::IdTooLarge(MAX_SYMBOL_ID + 1);
    assert_eq!(
        repair(&mut decoder, parity(MAX_SYMBOL_ID, 2), &[0; 5]),
        Err(far)
    );
    let far = DecodeError::IdTooLarge(u64::MAX - 1);
    assert_eq!(repair(&mut decoder, parity(u64::MAX, 2), &[0; 5]), Err(far));
    // However the coefficients come, and whatever else is wrong with it.
    let empty = Err(DecodeError::Code(CodeError::EmptyWindow));
    for (first, len) in [(0, 5), (4, 5), (u64::MAX, 5), (4, 1)] {
        let id = parity(first, 0);
        assert_eq!(repair(&mut decoder, id, &vec![0; len]), empty);
        for coefficients in [&[][..], &[1]] {
            let payload = vec![0; len];
            assert_eq!(decoder.equation(id.window, coefficients, &payload), empty);
        }
    }
    assert_eq!(decoder.stats(), DecoderStats::default());
    assert_eq!(decoder.window(), CodingWindow { first: 0, len: 0 });

    decoder.source(1, &[9; 10]).expect("valid");
    let longer = DecodeError::LongerThanRepair { id: 1 };
    assert_eq!(repair(&mut decoder, parity(0, 2), &[0; 11]), Err(longer));
    assert_eq!(decoder.window(), CodingWindow { first: 0, len: 2 });
    assert_eq!(repair(&mut decoder, parity(0, 2), &[0, 10, 3]), Err(longer));
}

#[test]
fn garbage_is_told_and_not_kept() {
    let mut decoder = Decoder::new(limits());
    decoder.source(1, &[9; 4]).expect("valid");
    // Symbol 0 would be 3 bytes long, with something after them.
    let payload = [0, 4 ^ 3, 1, 1, 1, 1];
    let garbage = Err(DecodeError::Garbage { id: 0 });
    assert_eq!(
        decoder.repair(&Xor::PARITY, parity(0, 2), &payload),
        garbage
    );
    assert_eq!(decoder.next_recovered(), None);
    assert_eq!(decoder.missing().collect::<Vec<_>>(), [0]);
    assert_eq!(decoder.stats().garbage, 1);
    // A good one still helps.
    let payload = [0, 4 ^ 3, 1 ^ 9, 1 ^ 9, 1 ^ 9, 9];
    let used = Ok(Outcome::Used { recovered: 1 });
    assert_eq!(decoder.repair(&Xor::PARITY, parity(0, 2), &payload), used);
    assert_eq!(decoder.next_recovered(), Some((0, &[1, 1, 1][..])));
    assert_eq!(decoder.next_recovered(), None);
}

#[test]
fn what_is_late_or_known_is_told_apart() {
    let mut decoder = Decoder::new(limits());
    let used = Ok(Outcome::Used { recovered: 0 });
    assert_eq!(decoder.source(9, &[1]), used);
    assert_eq!(decoder.window(), CodingWindow { first: 2, len: 8 });
    assert_eq!(decoder.source(9, &[1]), Ok(Outcome::Redundant));
    assert_eq!(decoder.source(1, &[1]), Ok(Outcome::Stale));
    let code = Scheme::Xor(Xor::PARITY);
    assert_eq!(
        decoder.repair(&code, parity(1, 3), &[0; 4]),
        Ok(Outcome::Stale)
    );
    assert_eq!(
        decoder.repair(&code, parity(9, 1), &[0; 4]),
        Ok(Outcome::Redundant)
    );
    assert_eq!(decoder.repair(&code, parity(2, 3), &[0; 4]), used);
    assert_eq!(
        decoder.repair(&code, parity(2, 3), &[0; 4]),
        Ok(Outcome::Redundant)
    );
    // The window moves on: the equation goes with its oldest symbol.
    assert_eq!(decoder.equations(), 1);
    assert_eq!(decoder.source(10, &[1]), used);
    assert_eq!(decoder.equations(), 0);
    assert_eq!(decoder.stats().dropped, 1);
    // A jump forgets everything.
    assert_eq!(decoder.source(1 << 40, &[1]), used);
    assert_eq!(decoder.missing().count(), 7);
    decoder.release(u64::MAX);
    assert_eq!(
        decoder.window(),
        CodingWindow {
            first: 1 << 62,
            len: 0
        }
    );
}

#[test]
fn too_many_equations_cost_the_oldest() {
    let limits = Limits::new(64, 10)
        .expect("valid")
        .with_equations(2)
        .expect("valid");
    let mut encoder = Encoder::new(limits);
    let mut decoder = Decoder::new(limits);
    for i in 0..9 {
        encoder.push(&[i; 10]).expect("within limits");
    }
    let mut repair = |decoder: &mut Decoder, first, key| {
        let mut payload = [0; 12];
        let id = RepairId {
            key,
            ..parity(first, 3)
        };
        encoder.repair(&Rlc::DENSE, id, &mut payload).expect("held");
        decoder.repair(&Rlc::DENSE, id, &payload).expect("valid")
    };
    repair(&mut decoder, 0, 1);
    repair(&mut decoder, 3, 2);
    assert_eq!(decoder.equations(), 2);
    repair(&mut decoder, 6, 3);
    assert_eq!((decoder.equations(), decoder.stats().dropped), (2, 1));
    // What is left of the three equations is that of 6 to 8 and that of 3 to 5.
    decoder.source(3, &[3; 10]).expect("valid");
    assert_eq!(
        decoder.source(4, &[4; 10]),
        Ok(Outcome::Used { recovered: 1 })
    );
    decoder.source(0, &[0; 10]).expect("valid");
    assert_eq!(
        decoder.source(1, &[1; 10]),
        Ok(Outcome::Used { recovered: 0 })
    );
}

#[test]
fn names_are_what_users_write() {
    assert_eq!(Scheme::Xor(Xor::PARITY).name(), "xor");
    assert_eq!(Scheme::ReedSolomon(ReedSolomon).name(), "reed-solomon");
    assert_eq!(Scheme::Rlc(Rlc::DENSE).name(), "rlc");
}
