use proptest::prelude::*;

use super::*;

/// The stream's byte at `offset`.
fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn bytes(offset: u64, len: usize) -> Bytes {
    (offset..offset + len as u64)
        .map(byte)
        .collect::<Vec<_>>()
        .into()
}

fn check(offset: u64, data: &[u8]) {
    assert!(
        data.iter().zip(offset..).all(|(got, at)| *got == byte(at)),
        "wrong bytes at {offset}"
    );
}

fn read_all(assembler: &mut Assembler) -> u64 {
    while let Some(chunk) = assembler.read(usize::MAX, u64::MAX) {
        check(assembler.delivered() - chunk.len() as u64, &chunk);
    }
    assembler.delivered()
}

/// What a window's worth of bytes may cost at most.
fn memory_limit(window: u64) -> usize {
    // 1.125, the head of each block, and a first and last block that are only partly in the window.
    (window as f64 * 1.15) as usize + 3 * 5000
}

#[test]
fn in_order_data_passes_through_uncopied() {
    let mut assembler = Assembler::default();
    let data = bytes(0, 3000);
    let address = data.as_ptr();
    assert!(assembler.insert(0, data, 1));
    assert_eq!(assembler.borrowed(), 1);
    let chunk = assembler.read(1000, u64::MAX).unwrap();
    assert_eq!((chunk.as_ptr(), chunk.len()), (address, 1000));
    assert_eq!(assembler.read(usize::MAX, 1500).unwrap().len(), 500);
    assert_eq!(assembler.read(usize::MAX, 1500), None);
    assert_eq!(read_all(&mut assembler), 3000);
    assert_eq!((assembler.memory_of_blocks(), assembler.buffered()), (0, 0));
}

#[test]
fn what_comes_too_early_by_one_piece_passes_through_uncopied() {
    let mut assembler = Assembler::default();
    // Two paths by turns, of which one is read a batch ahead.
    let pieces: Vec<_> = (0..40).map(|piece| bytes(1000 * piece, 1000)).collect();
    let addresses: Vec<_> = pieces.iter().map(|piece| piece.as_ptr()).collect();
    for batch in pieces.chunks(20).enumerate() {
        let at = |piece: usize| 20 * batch.0 + piece;
        for piece in (10..20).chain(0..10) {
            let offset = 1000 * at(piece) as u64;
            let grew = assembler.insert(offset, batch.1[piece].clone(), 100 - piece);
            assert_eq!(grew, piece < 10);
        }
        assert_eq!(assembler.borrowed(), 20);
        assert_eq!(assembler.buffered(), 20_000);
        for piece in 0..20 {
            let chunk = assembler.read(usize::MAX, u64::MAX).unwrap();
            assert_eq!((chunk.as_ptr(), chunk.len()), (addresses[at(piece)], 1000));
        }
        assert_eq!(assembler.memory_of_blocks(), 0);
    }
}

#[test]
fn what_comes_too_early_is_copied_where_pieces_overlap_or_none_may_be_held() {
    for (offset, len, may_borrow) in [
        (0, 1500, 9),
        (500, 1000, 9),
        (0, 1000, 0),
        (1500, 10, 9),
        (3000, 9, 0),
    ] {
        let mut assembler = Assembler::default();
        assembler.insert(1000, bytes(1000, 1000), 9);
        assembler.insert(2000, bytes(2000, 500), 9);
        assert_eq!((assembler.borrowed(), assembler.memory_of_blocks()), (2, 0));
        assembler.insert(offset, bytes(offset, len), may_borrow);
        assert!(assembler.memory_of_blocks() > 0, "{offset} {len}");
        assembler.insert(0, bytes(0, 3500), 9);
        assert_eq!(read_all(&mut assembler), 3500);
        assert_eq!((assembler.buffered(), assembler.borrowed()), (0, 0));
    }
    let mut assembler = Assembler::default();
    assert!(!assembler.insert(1000, Bytes::new(), 9));
    assert_eq!(assembler.borrowed(), 0, "an end without data");
}

#[test]
fn copied_data_is_handed_out_in_whole_blocks() {
    let mut assembler = Assembler::default();
    for at in (0..8192).step_by(64) {
        assembler.insert(at, bytes(at, 64), 0);
    }
    assert_eq!(assembler.read(usize::MAX, u64::MAX).unwrap().len(), BLOCK);
    assert_eq!(assembler.read(usize::MAX, u64::MAX).unwrap().len(), BLOCK);
    assert_eq!(assembler.read(usize::MAX, u64::MAX), None);
    assert_eq!(assembler.memory_of_blocks(), 0);
}

#[test]
fn a_short_message_needs_no_block_and_pins_nothing() {
    let mut assembler = Assembler::default();
    assert!(assembler.insert_end(0, bytes(0, 40)));
    assert_eq!((assembler.memory_of_blocks(), assembler.borrowed()), (0, 0));
    assert!(!assembler.insert_end(0, bytes(0, 40)));
    assert_eq!(read_all(&mut assembler), 40);
    assert_eq!((assembler.buffered(), assembler.borrowed()), (0, 0));
    // The end behind a gap is a piece like any other.
    let mut assembler = Assembler::default();
    assert!(!assembler.insert_end(40, bytes(40, 40)));
    assert!(assembler.memory_of_blocks() > 0);
    assert!(assembler.insert(0, bytes(0, 40), 1));
    assert_eq!(assembler.borrowed(), 1);
    assert_eq!(read_all(&mut assembler), 80);
    assert_eq!((assembler.memory_of_blocks(), assembler.borrowed()), (0, 0));
}

#[test]
fn gap_then_rest() {
    let mut assembler = Assembler::default();
    assert!(!assembler.insert(5000, bytes(5000, 1000), 9));
    assert!(!assembler.is_readable());
    assert!(assembler.insert(0, bytes(0, 4999), 9));
    assert_eq!(read_all(&mut assembler), 4999);
    assert!(assembler.insert(4000, bytes(4000, 1500), 9));
    assert_eq!(read_all(&mut assembler), 6000);
    assert!(!assembler.insert(5999, bytes(5999, 1), 9));
}

#[test]
fn discard_lets_memory_go() {
    let mut assembler = Assembler::default();
    assembler.insert(100_000, bytes(100_000, 1000), 9);
    assembler.discard();
    assert_eq!((assembler.memory(), assembler.buffered()), (0, 0));
}

#[test]
fn one_byte_fragments_with_gaps_cost_little_more_than_the_window() {
    const WINDOW: u64 = 1 << 20;
    let mut assembler = Assembler::default();
    for at in (1..WINDOW).step_by(2) {
        assembler.insert(at, bytes(at, 1), usize::from(at % 7 == 0));
        if at % 0x1_0001 == 1 {
            assert!(assembler.memory() <= memory_limit(WINDOW));
        }
    }
    let memory = assembler.memory();
    assert!(
        memory <= memory_limit(WINDOW),
        "{memory} bytes for a window of {WINDOW}"
    );
    assert_eq!(assembler.buffered(), WINDOW / 2);
    for at in (0..WINDOW).step_by(2) {
        assembler.insert(at, bytes(at, 1), 0);
    }
    assert!(assembler.memory() <= memory_limit(WINDOW));
    assert_eq!(read_all(&mut assembler), WINDOW);
    assert_eq!(assembler.memory_of_blocks(), 0);
}

#[test]
fn one_byte_in_order_fragments_are_compact() {
    const WINDOW: u64 = 100_000;
    let mut assembler = Assembler::default();
    for at in 0..WINDOW {
        let may_borrow = 32_usize.saturating_sub(assembler.borrowed());
        assembler.insert(at, bytes(at, 1), may_borrow);
    }
    assert!(assembler.memory() <= memory_limit(WINDOW));
    assert_eq!(read_all(&mut assembler), WINDOW);
}

#[test]
fn wide_window_with_many_gaps_is_fast() {
    const PIECE: u64 = 671;
    const PIECES: u64 = 100_000;
    let mut assembler = Assembler::default();
    let data = Bytes::from(vec![7; PIECE as usize]);
    // 50,000 gaps, filled from the far end so that nothing can be handed out before the last.
    for piece in (1..PIECES).step_by(2) {
        let may_borrow = 100_usize.saturating_sub(assembler.borrowed());
        assembler.insert(piece * PIECE, data.clone(), may_borrow);
    }
    assert!(assembler.memory() <= memory_limit(PIECE * PIECES));
    for piece in (0..PIECES as usize).step_by(2).rev() {
        assembler.insert(piece as u64 * PIECE, data.clone(), 100);
    }
    assert_eq!(assembler.contiguous(), PIECE * PIECES);
    let mut total = 0;
    while let Some(chunk) = assembler.read(1 << 20, u64::MAX) {
        assert!(chunk.iter().all(|byte| *byte == 7));
        total += chunk.len() as u64;
    }
    assert_eq!(total, PIECE * PIECES);
}

#[derive(Clone, Debug)]
enum Op {
    Insert {
        offset: u64,
        len: usize,
        may_borrow: usize,
    },
    Read {
        max: usize,
    },
}

const SPAN: u64 = 20_000;

fn op() -> impl Strategy<Value = Op> {
    let len = prop_oneof![4 => 1..4_usize, 4 => 1..1500_usize, 1 => 1..9000_usize];
    let insert = (0..SPAN, len, 0..3_usize).prop_map(|(offset, len, may_borrow)| Op::Insert {
        offset,
        len,
        may_borrow,
    });
    prop_oneof![5 => insert, 1 => (0..6000_usize).prop_map(|max| Op::Read { max })]
}

proptest! {
    /// Against a model that keeps one flag per byte: the same is readable, the same bytes come out,
    /// and memory stays within its bound.
    #[test]
    fn ordered_like_the_model(ops in prop::collection::vec(op(), 1..120)) {
        let mut assembler = Assembler::default();
        let mut model = vec![false; 2 * SPAN as usize];
        let mut delivered = 0;
        let end_op = Op::Insert { offset: 0, len: SPAN as usize, may_borrow: 1 };
        for op in ops.into_iter().chain([end_op, Op::Read { max: usize::MAX }]) {
            match op {
                Op::Insert { offset, len, may_borrow } => {
                    let was_readable = assembler.is_readable();
                    let grew = assembler.insert(offset, bytes(offset, len), may_borrow);
                    model[offset as usize..][..len].fill(true);
                    prop_assert!(grew || was_readable == assembler.is_readable());
                }
                Op::Read { max } => {
                    let mut left = max;
                    while let Some(chunk) = assembler.read(left, u64::MAX) {
                        prop_assert!(chunk.len() <= left);
                        check(delivered, &chunk);
                        delivered += chunk.len() as u64;
                        left -= chunk.len();
                    }
                }
            }
            let contiguous = model.iter().take_while(|got| **got).count() as u64;
            let received = model.iter().filter(|got| **got).count() as u64;
            prop_assert_eq!(assembler.delivered(), delivered);
            prop_assert_eq!(assembler.contiguous(), contiguous);
            prop_assert_eq!(assembler.buffered(), received - delivered);
            prop_assert_eq!(assembler.is_readable(), delivered < contiguous);
            prop_assert!(assembler.memory() <= memory_limit(SPAN + 9000));
        }
        prop_assert_eq!(delivered, assembler.contiguous());
    }

    /// After a cut, everything below it still comes out exactly once, nothing else is kept.
    #[test]
    fn truncated_like_the_model(
        before in prop::collection::vec(op(), 0..60),
        unordered: bool,
        cut in 0..2 * SPAN,
        after in prop::collection::vec(op(), 0..30),
    ) {
        let mut assembler = Assembler::default();
        let mut given = vec![false; 2 * SPAN as usize];
        let mut read = |assembler: &mut Assembler, max| {
            let at = assembler.delivered();
            let chunk = match unordered {
                true => assembler.read_unordered(max),
                false => assembler.read(max, u64::MAX).map(|chunk| (at, chunk)),
            };
            let Some((offset, chunk)) = chunk else { return false };
            check(offset, &chunk);
            for given in &mut given[offset as usize..][..chunk.len()] {
                assert!(!std::mem::replace(given, true), "given twice");
            }
            true
        };
        for op in before {
            match op {
                Op::Insert { offset, len, may_borrow } => {
                    assembler.insert(offset, bytes(offset, len), may_borrow);
                }
                Op::Read { max } => { read(&mut assembler, max); }
            }
        }
        assembler.truncate(cut);
        let handed_out = assembler.delivered();
        let end_op = Op::Insert { offset: 0, len: SPAN as usize, may_borrow: 1 };
        for op in after.into_iter().chain([end_op]) {
            match op {
                Op::Insert { offset, len, may_borrow } => {
                    let len = len.min(cut.saturating_sub(offset) as usize);
                    assembler.insert(offset, bytes(offset, len), may_borrow);
                }
                Op::Read { max } => { read(&mut assembler, max); }
            }
        }
        while read(&mut assembler, usize::MAX) {}
        prop_assert!(assembler.delivered() >= handed_out);
        prop_assert!(assembler.buffered() == 0 || cut > SPAN);
        for (at, given) in given.iter().enumerate().take(cut.min(SPAN) as usize) {
            prop_assert!(*given, "byte {at} lost");
        }
        if !unordered {
            prop_assert!(assembler.delivered() <= handed_out.max(cut));
        }
    }

    /// Read out of order (after some ordered reads), every byte comes out exactly once.
    #[test]
    fn unordered_like_the_model(
        ordered in prop::collection::vec(op(), 0..30),
        ops in prop::collection::vec(op(), 1..100),
    ) {
        let mut assembler = Assembler::default();
        let mut given = vec![0_u8; 2 * SPAN as usize];
        for op in ordered {
            match op {
                Op::Insert { offset, len, may_borrow } => {
                    assembler.insert(offset, bytes(offset, len), may_borrow);
                }
                Op::Read { max } => {
                    if let Some(chunk) = assembler.read(max, u64::MAX) {
                        let at = (assembler.delivered() - chunk.len() as u64) as usize;
                        given[at..][..chunk.len()].iter_mut().for_each(|count| *count += 1);
                    }
                }
            }
        }
        let end_op = Op::Insert { offset: 0, len: SPAN as usize, may_borrow: 1 };
        for op in ops.into_iter().chain([Op::Read { max: 1 }, end_op]) {
            match op {
                Op::Insert { offset, len, may_borrow } => {
                    assembler.insert(offset, bytes(offset, len), may_borrow);
                }
                Op::Read { max } => {
                    if let Some((offset, data)) = assembler.read_unordered(max) {
                        prop_assert!(data.len() <= max);
                        check(offset, &data);
                        given[offset as usize..][..data.len()].iter_mut().for_each(|n| *n += 1);
                    }
                }
            }
            prop_assert!(assembler.memory() <= memory_limit(SPAN + 9000) * 5 / 4);
        }
        while let Some((offset, data)) = assembler.read_unordered(usize::MAX) {
            check(offset, &data);
            given[offset as usize..][..data.len()].iter_mut().for_each(|n| *n += 1);
        }
        prop_assert!(given[..SPAN as usize].iter().all(|n| *n == 1));
        prop_assert!(given.iter().all(|n| *n <= 1));
        prop_assert_eq!(assembler.buffered(), 0);
        let total = given.iter().map(|n| u64::from(*n)).sum::<u64>();
        prop_assert_eq!(assembler.delivered(), total);
    }
}
