//! PATH_ECHO; the vector of docs/spec/path-echo.md.

use super::*;
use crate::wire::codepoints::frame as ty;

fn written(path: PathId, ranges: &[std::ops::RangeInclusive<u64>], room: usize) -> Vec<u8> {
    let mut buf = vec![0; room];
    let mut w = Writer::new(&mut buf);
    let count = write_path_echo(&mut w, path, ranges.iter().cloned());
    assert!(!w.overflowed() && count <= ranges.len());
    w.into_written().to_vec()
}

#[test]
fn the_vector_of_the_specification() {
    let bytes = [0x6f, 0xeb, 0x03, 0x40, 0x64, 0x01, 0x0a, 0x07, 0x01];
    assert_eq!(written(PathId(3), &[90..=100, 80..=81], 20), bytes);
    let frame = decode_one(&bytes);
    let Frame::PathEcho { path, numbers } = frame else {
        panic!("not a PATH_ECHO");
    };
    assert_eq!((path, numbers.largest), (PathId(3), 100));
    assert_eq!(numbers.iter().collect::<Vec<_>>(), [90..=100, 80..=81]);
    assert_eq!(encode(&frame), bytes);
}

#[test]
fn what_may_not_be() {
    let bad = [
        // Below packet 0.
        varints(&[ty::PATH_ECHO, 1, 4, 0, 5]),
        varints(&[ty::PATH_ECHO, 1, 4, 1, 0, 3, 0]),
        // Ranges that are not there.
        varints(&[ty::PATH_ECHO, 1, 4, 1, 0]),
    ];
    for bytes in bad {
        assert_eq!(code_of(&bytes), Code::FRAME_ENCODING_ERROR, "{bytes:x?}");
    }
}

proptest! {
    #[test]
    fn any_ranges_round_trip_as_far_as_they_fit(
        path in any::<u32>(), runs in prop::collection::vec((0u64..300, 0u64..300), 1..40),
        base in 0..1u64 << 60, room in 0usize..300,
    ) {
        let ranges = descending(base, &runs);
        let bytes = written(PathId(path), &ranges, room);
        if !bytes.is_empty() {
            let frame = decode_one(&bytes);
            let Frame::PathEcho { path: of, numbers } = frame else { panic!("not a PATH_ECHO") };
            prop_assert_eq!(of, PathId(path));
            let told: Vec<_> = numbers.iter().collect();
            prop_assert_eq!(&told[..], &ranges[..told.len()]);
            prop_assert_eq!(encode(&frame), bytes);
        }
    }
}
