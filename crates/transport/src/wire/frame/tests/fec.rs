//! SOURCE_SYMBOL, REPAIR, SYMBOL_ACK, FEC_WINDOW; the vectors of docs/spec/fec.md.

use super::*;
use crate::wire::codepoints::frame as ty;

#[test]
fn the_vectors_of_the_specification() {
    // SOURCE_SYMBOL, IDs of 1 to 4 bytes; a PING stands for the symbol.
    let headers: [(SourceSymbol, &[u8]); 4] = [
        (SourceSymbol::new(0x0123_4567, 1), &[0x6f, 0xe4, 0x67]),
        (SourceSymbol::new(0x0123_4567, 2), &[0x6f, 0xe5, 0x45, 0x67]),
        (
            SourceSymbol::new(0x0123_4567, 3),
            &[0x6f, 0xe6, 0x23, 0x45, 0x67],
        ),
        (
            SourceSymbol::new(0x0123_4567, 4),
            &[0x6f, 0xe7, 0x01, 0x23, 0x45, 0x67],
        ),
    ];
    for (header, bytes) in headers {
        let frame = Frame::SourceSymbol(header);
        assert_eq!(encode(&frame), bytes);
        let packet = [bytes, &[0x01]].concat();
        assert_eq!(decode_all(&packet), Ok(vec![frame, Frame::Ping]));
        // Without a symbol behind it, it says nothing.
        assert_eq!(code_of(bytes), Code::FRAME_ENCODING_ERROR);
    }
    let repair = Frame::Repair(Repair {
        first: 300,
        count: 20,
        key: 7,
        symbol: &[0xde, 0xad, 0xbe],
    });
    let bytes = [0x6f, 0xe8, 0x41, 0x2c, 0x14, 0x07, 0x03, 0xde, 0xad, 0xbe];
    assert_eq!(encode(&repair), bytes);
    assert_eq!(decode_one(&bytes), repair);

    // Symbols 90 to 100, 80 and 81.
    let bytes = [0x6f, 0xe9, 0x40, 0x64, 0x01, 0x0a, 0x07, 0x01];
    let Frame::SymbolAck(ack) = decode_one(&bytes) else {
        panic!("not a SYMBOL_ACK");
    };
    assert_eq!(ack.iter().collect::<Vec<_>>(), [90..=100, 80..=81]);
    let mut buf = [0; 20];
    let mut w = Writer::new(&mut buf);
    assert_eq!(write_symbol_ack(&mut w, [90..=100, 80..=81].into_iter()), 2);
    assert_eq!(w.into_written(), bytes);

    let window = Frame::FecWindow {
        epoch: 2,
        symbols: 128,
        bytes: 192_256,
    };
    let bytes = [0x6f, 0xea, 0x02, 0x40, 0x80, 0x80, 0x02, 0xef, 0x00];
    assert_eq!(encode(&window), bytes);
    assert_eq!(decode_one(&bytes), window);
}

#[test]
fn what_may_not_be() {
    let bad = [
        // No source symbols.
        varints(&[ty::REPAIR, 1, 0, 0, 1, 1]),
        // Beyond the last symbol ID.
        varints(&[ty::REPAIR, MAX_VARINT, 2, 0, 1, 1]),
        // No repair symbol, and one that is cut.
        varints(&[ty::REPAIR, 1, 1, 0, 0]),
        varints(&[ty::REPAIR, 1, 1, 0, 2, 1]),
        // Below symbol 0.
        varints(&[ty::SYMBOL_ACK, 4, 0, 5]),
        varints(&[ty::SYMBOL_ACK, 4, 1, 0, 3, 0]),
    ];
    for bytes in bad {
        assert_eq!(code_of(&bytes), Code::FRAME_ENCODING_ERROR, "{bytes:x?}");
    }
}

#[test]
fn ranges_that_do_not_fit_are_left_out() {
    let ranges = (0..200u64).rev().map(|i| 10 * i..=10 * i + 1);
    for room in 0..100 {
        let mut buf = vec![0; room];
        let mut w = Writer::new(&mut buf);
        let written = write_symbol_ack(&mut w, ranges.clone());
        assert!(!w.overflowed());
        let bytes = w.into_written();
        assert_eq!(written > 0, !bytes.is_empty());
        if written > 0 {
            let Frame::SymbolAck(ack) = decode_one(bytes) else {
                panic!("not a SYMBOL_ACK");
            };
            assert!(ack.iter().eq(ranges.clone().take(written)));
        }
    }
    let none = write_symbol_ack(&mut Writer::new(&mut [0; 50]), std::iter::empty());
    assert_eq!(none, 0);
}

proptest! {
    #[test]
    fn repairs_and_windows_round_trip(
        (a, b, c) in (number(), number(), number()), symbol in data(1),
    ) {
        let (first, count) = (a.min(MAX_VARINT - 1), 1 + b % (MAX_VARINT - a.min(MAX_VARINT - 1)));
        round_trip(Frame::Repair(Repair { first, count, key: c, symbol: &symbol }))?;
        round_trip(Frame::FecWindow { epoch: a, symbols: b, bytes: c })?;
    }

    #[test]
    fn any_symbol_ranges_round_trip(
        runs in prop::collection::vec((0u64..300, 0u64..300), 1..40), base in number(),
    ) {
        let ranges = descending(base >> 1, &runs);
        let mut buf = vec![0; 4096];
        let mut w = Writer::new(&mut buf);
        prop_assert_eq!(write_symbol_ack(&mut w, ranges.iter().cloned()), ranges.len());
        let frame = decode_one(w.into_written());
        let Frame::SymbolAck(ack) = frame else { panic!("not a SYMBOL_ACK") };
        prop_assert_eq!(ack.iter().collect::<Vec<_>>(), ranges);
        round_trip(frame)?;
    }

    #[test]
    fn source_headers_keep_the_end_of_the_id(id in number(), bytes in 1usize..=4) {
        let frame = Frame::SourceSymbol(SourceSymbol::new(id, bytes));
        let encoded = encode(&frame);
        prop_assert_eq!(encoded.len(), SourceSymbol::encoded_len(bytes));
        let packet = [&encoded[..], &[1]].concat();
        let frames = decode_all(&packet).unwrap();
        prop_assert_eq!(frames[0], frame);
        let Frame::SourceSymbol(header) = frames[0] else { panic!("not a header") };
        prop_assert_eq!(u64::from(header.truncated), id & ((1 << (8 * bytes)) - 1));
    }
}
