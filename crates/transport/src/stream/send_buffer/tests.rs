use proptest::prelude::*;

use super::*;

fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn data(range: Range<u64>) -> Vec<u8> {
    range.map(byte).collect()
}

fn take(buffer: &SendBuffer, range: Range<u64>) -> Vec<u8> {
    let mut out = vec![0; (range.end - range.start) as usize];
    buffer.copy_to(range.start, &mut out);
    out
}

#[test]
fn writes_are_copied_into_shared_blocks() {
    let mut buffer = SendBuffer::default();
    for at in 0..100 {
        buffer.write(&data(at * 3..at * 3 + 3));
    }
    assert_eq!(buffer.chunks.len(), 1);
    assert_eq!(take(&buffer, 0..300), data(0..300));
    buffer.write(&data(300..200_000));
    assert_eq!(take(&buffer, 0..200_000), data(0..200_000));
    assert!(buffer.chunks.len() < 10);
}

#[test]
fn bytes_are_kept_uncopied() {
    let mut buffer = SendBuffer::default();
    let bytes = Bytes::from(data(0..5000));
    let address = bytes.as_ptr();
    buffer.write_bytes(bytes);
    assert_eq!(buffer.chunks.front().unwrap().bytes().as_ptr(), address);
    // Short ones go into a block.
    buffer.write_bytes(Bytes::from(data(5000..5010)));
    buffer.write_bytes(Bytes::from(data(5010..5020)));
    assert_eq!(buffer.chunks.len(), 2);
    assert_eq!(take(&buffer, 4990..5020), data(4990..5020));
}

#[test]
fn acknowledged_prefix_is_released() {
    let mut buffer = SendBuffer::default();
    buffer.write(&data(0..1000));
    buffer.on_sent(1000);
    assert_eq!(buffer.on_acked(500..600), 0);
    assert_eq!(buffer.on_acked(0..500), 600);
    assert_eq!(buffer.buffered(), 400);
    assert_eq!(buffer.on_acked(600..1000), 400);
    assert!(buffer.is_all_acked() && buffer.chunks.is_empty());
}

#[test]
fn only_what_is_missing_is_sent_again() {
    let mut buffer = SendBuffer::default();
    buffer.write(&data(0..1000));
    buffer.on_sent(1000);
    buffer.on_acked(300..400);
    buffer.on_lost(200..500);
    assert_eq!(buffer.first_lost(), Some(200..300));
    buffer.on_sent_again(200..300);
    assert_eq!(buffer.first_lost(), Some(400..500));
    // The loss was spurious.
    buffer.on_acked(400..500);
    assert_eq!(buffer.first_lost(), None);
    // What was never sent cannot be lost or acknowledged.
    buffer.write(&data(1000..1100));
    buffer.on_lost(900..2000);
    assert_eq!(buffer.first_lost(), Some(900..1000));
    assert_eq!(buffer.on_acked(0..2000), 1000);
}

#[test]
fn thousands_of_lost_ranges_are_fast() {
    const PIECE: u64 = 1000;
    let mut buffer = SendBuffer::default();
    for _ in 0..1000 {
        buffer.write_bytes(Bytes::from(vec![1; 100_000]));
    }
    buffer.on_sent(buffer.end());
    for piece in (1..100_000).step_by(2) {
        buffer.on_acked(piece * PIECE..(piece + 1) * PIECE);
    }
    for piece in (0..100_000).step_by(2) {
        buffer.on_lost(piece * PIECE..(piece + 1) * PIECE);
    }
    let mut out = [0; PIECE as usize];
    while let Some(lost) = buffer.first_lost() {
        assert_eq!(lost.end - lost.start, PIECE);
        buffer.copy_to(lost.start, &mut out);
        buffer.on_sent_again(lost);
    }
    for piece in (0..50_000).map(|pair| 99_998 - 2 * pair) {
        buffer.on_acked(piece * PIECE..(piece + 1) * PIECE);
    }
    assert!(buffer.is_all_acked());
}

#[derive(Clone, Debug)]
enum Op {
    Write(u64),
    WriteBytes(u64),
    Send(u64),
    Resend(u64),
    Ack(u64, u64),
    Lose(u64, u64),
    Truncate(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (1..700_u64).prop_map(Op::Write),
        (1..700_u64).prop_map(Op::WriteBytes),
        (1..500_u64).prop_map(Op::Send),
        (1..500_u64).prop_map(Op::Resend),
        (0..4000_u64, 1..500_u64).prop_map(|(at, len)| Op::Ack(at, len)),
        (0..4000_u64, 1..500_u64).prop_map(|(at, len)| Op::Lose(at, len)),
    ]
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Unsent,
    InFlight,
    Lost,
    Acked,
}

proptest! {
    /// Against a model with one fate per byte.
    #[test]
    fn like_the_model(
        ops in prop::collection::vec(op(), 1..80),
        last in prop::option::of(0..4000_u64),
    ) {
        let mut buffer = SendBuffer::default();
        let mut model: Vec<Fate> = Vec::new();
        for op in ops.into_iter().chain(last.map(Op::Truncate)) {
            let end = model.len() as u64;
            match op {
                Op::Write(len) => {
                    buffer.write(&data(end..end + len));
                    model.extend((0..len).map(|_| Fate::Unsent));
                }
                Op::WriteBytes(len) => {
                    buffer.write_bytes(data(end..end + len).into());
                    model.extend((0..len).map(|_| Fate::Unsent));
                }
                Op::Send(len) => {
                    let at = buffer.unsent();
                    let len = len.min(end - at);
                    prop_assert_eq!(take(&buffer, at..at + len), data(at..at + len));
                    buffer.on_sent(len);
                    model[at as usize..(at + len) as usize].fill(Fate::InFlight);
                }
                Op::Resend(len) => {
                    if let Some(lost) = buffer.first_lost() {
                        let range = lost.start..lost.end.min(lost.start + len);
                        prop_assert_eq!(take(&buffer, range.clone()), data(range.clone()));
                        buffer.on_sent_again(range.clone());
                        model[range.start as usize..range.end as usize].fill(Fate::InFlight);
                    }
                }
                Op::Ack(at, len) => {
                    buffer.on_acked(at..at + len);
                    let range = at.min(buffer.unsent())..(at + len).min(buffer.unsent());
                    model[range.start as usize..range.end as usize].fill(Fate::Acked);
                }
                Op::Lose(at, len) => {
                    buffer.on_lost(at..at + len);
                    for at in at.min(buffer.unsent())..(at + len).min(buffer.unsent()) {
                        if model[at as usize] == Fate::InFlight {
                            model[at as usize] = Fate::Lost;
                        }
                    }
                }
                Op::Truncate(at) => {
                    buffer.truncate(at);
                    model.truncate(at.max(buffer.base()) as usize);
                }
            }
            let position = |fate| model.iter().position(|f| *f == fate).map(|at| at as u64);
            let acked = model.iter().take_while(|fate| **fate == Fate::Acked).count() as u64;
            prop_assert_eq!(buffer.end(), model.len() as u64);
            prop_assert_eq!(buffer.base(), acked);
            prop_assert_eq!(buffer.unsent(), position(Fate::Unsent).unwrap_or(buffer.end()));
            prop_assert_eq!(buffer.first_lost().map(|lost| lost.start), position(Fate::Lost));
        }
        let rest = buffer.base()..buffer.end();
        prop_assert_eq!(take(&buffer, rest.clone()), data(rest));
    }
}
