//! ACK and its variants.

use std::ops::RangeInclusive;

use super::*;

fn write(ack: AckToWrite<'_, impl Iterator<Item = RangeInclusive<u64>> + Clone>) -> Vec<u8> {
    let mut buf = [0; 1500];
    let mut w = Writer::new(&mut buf);
    assert!(write_ack(&mut w, ack));
    w.into_written().to_vec()
}

#[test]
fn ack_ranges_below_packet_zero() {
    let bad: [&[u64]; 7] = [
        &[2, 4, 0, 0, 5],
        &[2, 4, 0, 1, 0, 3, 0],
        &[2, 4, 0, 1, 4, 0, 0],
        &[2, 4, 0, 1, 0, 2, 1],
        &[2, 4, 0, 1, 0, 0, MAX_VARINT],
        &[2, 4, 0, 1, 0, MAX_VARINT, MAX_VARINT],
        &[3, 9, 0, 2, 0, 2, 0, 4, 0, 0, 0, 0],
    ];
    for values in bad {
        assert_eq!(
            code_of(&varints(values)),
            Code::FRAME_ENCODING_ERROR,
            "{values:?}"
        );
    }
    let good: [&[u64]; 3] = [
        &[2, 4, 0, 0, 4],
        &[2, 4, 0, 1, 0, 2, 0],
        &[2, 4, 0, 1, 4, 0, 0, 0],
    ];
    for values in &good[..2] {
        assert!(decode_all(&varints(values)).is_ok(), "{values:?}");
    }
}

#[test]
fn an_ack_with_more_ranges_than_bytes_ends_early() {
    let bytes = varints(&[2, MAX_VARINT, 0, MAX_VARINT, 0, 0, 0, 0, 0]);
    assert_eq!(
        decode_all(&bytes).unwrap_err().kind,
        DecodeErrorKind::UnexpectedEnd
    );
}

fn ranges_of(bytes: &[u8]) -> Vec<RangeInclusive<u64>> {
    let Frame::Ack(ack) = decode_one(bytes) else {
        panic!("ACK expected")
    };
    ack.ranges().collect()
}

#[test]
fn ack_ranges_descend() {
    // 100..=98, gap 1 (97 and 96 missing), 95..=95
    let bytes = varints(&[2, 100, 7, 1, 2, 1, 0]);
    assert_eq!(ranges_of(&bytes), [98..=100, 95..=95]);
    let Frame::Ack(ack) = decode_one(&bytes) else {
        panic!("ACK expected")
    };
    assert_eq!(
        (ack.largest, ack.delay, ack.path, ack.ecn),
        (100, 7, None, None)
    );
    assert_eq!(ack.ranges().map(|range| range.count()).sum::<usize>(), 4);
}

#[test]
fn an_ack_down_to_packet_zero() {
    assert_eq!(ranges_of(&varints(&[2, 0, 0, 0, 0])), [0..=0]);
    assert_eq!(ranges_of(&varints(&[2, 2, 0, 1, 0, 0, 0])), [2..=2, 0..=0]);
}

#[test]
fn written_acks_of_every_kind_are_read_back() {
    let ranges = [90..=100, 50..=60, 0..=3];
    let received = [(95, 395), (94, 394), (100, 380), (99, 370), (50, 300)];
    for path in [None, Some(PathId(0)), Some(PathId(70_000))] {
        for ecn in [
            None,
            Some(EcnCounts {
                ect0: 1,
                ect1: 2,
                ce: 300,
            }),
        ] {
            for with_timestamps in [false, true] {
                let timestamps = with_timestamps.then_some(TimestampsToWrite {
                    received: &received,
                    exponent: 0,
                    max: 100,
                });
                let (largest, delay, ranges) = (100, 5, ranges.iter().cloned());
                let bytes = write(AckToWrite {
                    path,
                    largest,
                    delay,
                    ranges: ranges.clone(),
                    ecn,
                    timestamps,
                });
                let frame = decode_one(&bytes);
                let Frame::Ack(ack) = frame else {
                    panic!("ACK expected")
                };
                assert_eq!(
                    (ack.path, ack.largest, ack.delay, ack.ecn),
                    (path, 100, 5, ecn)
                );
                assert!(ack.ranges().eq(ranges));
                let seen: Option<Vec<_>> = ack.timestamps.map(|t| t.iter(0).collect());
                assert_eq!(seen, with_timestamps.then(|| received.to_vec()));
                assert_eq!(encode(&frame), bytes);
                assert_eq!(row_of(frame.frame_type()), Some(frame.row()));
            }
        }
    }
}

#[test]
fn ranges_that_do_not_fit_are_left_out_from_the_oldest() {
    let ranges: Vec<_> = (0..200u64).rev().map(|i| i * 4..=i * 4 + 1).collect();
    let largest = *ranges[0].end();
    let ack = |ranges| AckToWrite {
        path: None,
        largest,
        delay: 0,
        ranges,
        ecn: Some(EcnCounts::default()),
        timestamps: None,
    };
    let mut before = 0;
    for size in 0..500 {
        let mut buf = vec![0; size];
        let mut w = Writer::new(&mut buf);
        if !write_ack(&mut w, ack(ranges.iter().cloned())) {
            assert_eq!(w.len(), 0);
            assert!(size < 9, "{size}");
            continue;
        }
        let bytes = w.into_written();
        let unused = size - bytes.len();
        let seen = ranges_of(bytes);
        assert_eq!(seen, ranges[..seen.len()]);
        assert!(seen.len() >= before);
        // Another range takes 2 bytes, and the count once grows by 1.
        assert!(
            unused < 3 || seen.len() == ranges.len(),
            "{unused} bytes unused of {size}"
        );
        before = seen.len();
    }
    assert_eq!(before, 200);
}

#[test]
fn an_ack_without_ranges_is_not_written() {
    let mut buf = [0; 100];
    let mut w = Writer::new(&mut buf);
    let ack = AckToWrite {
        path: None,
        largest: 0,
        delay: 0,
        ranges: std::iter::empty(),
        ecn: None,
        timestamps: None,
    };
    assert!(!write_ack(&mut w, ack));
    assert_eq!(w.len(), 0);
}

/// Packets 87 to 91 and 96 to 100 as in the draft's examples, latest first.
const FIRST_ARRIVALS: [(u64, u64); 10] = [
    (100, 380),
    (99, 370),
    (98, 360),
    (97, 355),
    (96, 350),
    (91, 330),
    (90, 320),
    (89, 310),
    (88, 305),
    (87, 300),
];

fn timestamps_ack(received: &[(u64, u64)], exponent: u8, max: u64) -> Vec<u8> {
    let timestamps = Some(TimestampsToWrite {
        received,
        exponent,
        max,
    });
    let ranges = std::iter::once(80..=100);
    write(AckToWrite {
        path: None,
        largest: 100,
        delay: 0,
        ranges,
        ecn: None,
        timestamps,
    })
}

#[test]
fn receive_ts_example_1() {
    let bytes = timestamps_ack(&FIRST_ARRIVALS, 0, 50);
    let expected = varints(&[
        codepoints::frame::ACK_RECEIVE_TIMESTAMPS,
        100,
        0,
        0,
        20,
        2,
        0,
        5,
        380,
        10,
        10,
        5,
        5,
        9,
        5,
        20,
        10,
        10,
        5,
        5,
    ]);
    assert_eq!(bytes, expected);
}

#[test]
fn receive_ts_example_2_out_of_order() {
    let late = [(95, 395), (94, 394), (93, 392), (92, 390)];
    let received: Vec<_> = late.into_iter().chain(FIRST_ARRIVALS).collect();
    let bytes = timestamps_ack(&received, 0, 50);
    let Frame::Ack(ack) = decode_one(&bytes) else {
        panic!("ACK expected")
    };
    let timestamps = ack.timestamps.unwrap();
    assert_eq!(timestamps.count(), 14);
    assert!(timestamps.iter(0).eq(received));
    let tail = varints(&[
        3, 5, 4, 395, 1, 2, 2, 0, 5, 10, 10, 10, 5, 5, 9, 5, 20, 10, 10, 5, 5,
    ]);
    assert!(bytes.ends_with(&tail));
}

#[test]
fn timestamps_are_limited_in_number_and_precision() {
    let bytes = timestamps_ack(&FIRST_ARRIVALS, 3, 7);
    let Frame::Ack(ack) = decode_one(&bytes) else {
        panic!("ACK expected")
    };
    let seen: Vec<_> = ack.timestamps.unwrap().iter(3).collect();
    let expected: Vec<_> = FIRST_ARRIVALS[..7]
        .iter()
        .map(|(pn, t)| (*pn, t / 8 * 8))
        .collect();
    assert_eq!(seen, expected);
    let none = timestamps_ack(&FIRST_ARRIVALS, 3, 0);
    assert_eq!(none[0], 0x02);
}

#[test]
fn timestamps_stop_at_an_entry_out_of_order() {
    let bytes = timestamps_ack(&[(100, 380), (99, 370), (98, 371), (97, 1)], 0, 50);
    let Frame::Ack(ack) = decode_one(&bytes) else {
        panic!("ACK expected")
    };
    assert_eq!(ack.timestamps.unwrap().count(), 2);
    assert_eq!(timestamps_ack(&[(101, 380)], 0, 50)[0], 0x02);
}

#[test]
fn timestamps_take_only_the_room_that_is_left() {
    for size in 0..60 {
        let mut buf = vec![0; size];
        let mut w = Writer::new(&mut buf);
        let ack = AckToWrite {
            path: None,
            largest: 100,
            delay: 0,
            ranges: [96..=100, 87..=91].into_iter(),
            ecn: None,
            timestamps: Some(TimestampsToWrite {
                received: &FIRST_ARRIVALS,
                exponent: 0,
                max: 50,
            }),
        };
        if !write_ack(&mut w, ack) {
            continue;
        }
        assert!(!w.overflowed());
        let Frame::Ack(ack) = decode_one(w.into_written()) else {
            panic!("ACK expected")
        };
        let seen: Vec<_> = ack.timestamps.iter().flat_map(|t| t.iter(0)).collect();
        assert_eq!(seen, FIRST_ARRIVALS[..seen.len()]);
    }
}

#[test]
fn timestamp_ranges_below_packet_zero() {
    let ty = codepoints::frame::ACK_RECEIVE_TIMESTAMPS;
    let ack = [ty, 4, 0, 0, 4];
    let with = |more: &[u64]| varints(&[&ack, more].concat());
    assert!(decode_all(&with(&[1, 3, 2, 5, 5])).is_ok());
    assert!(decode_all(&with(&[1, 4, 0])).is_ok());
    assert_eq!(
        code_of(&with(&[1, 3, 3, 5, 5, 5])),
        Code::FRAME_ENCODING_ERROR
    );
    assert_eq!(code_of(&with(&[1, 5, 0])), Code::FRAME_ENCODING_ERROR);
    assert_eq!(
        code_of(&with(&[1, 0, MAX_VARINT])),
        Code::FRAME_ENCODING_ERROR
    );
    let endless = with(&[MAX_VARINT, 0, 0]);
    assert_eq!(
        decode_all(&endless).unwrap_err().kind,
        DecodeErrorKind::UnexpectedEnd
    );
}

#[test]
fn timestamps_before_the_basis_end_the_list() {
    let bytes = varints(&[
        codepoints::frame::ACK_RECEIVE_TIMESTAMPS,
        4,
        0,
        0,
        4,
        1,
        0,
        3,
        9,
        8,
        7,
    ]);
    let Frame::Ack(ack) = decode_one(&bytes) else {
        panic!("ACK expected")
    };
    assert!(ack.timestamps.unwrap().iter(0).eq([(4, 9), (3, 1)]));
}

fn received_ranges() -> impl Strategy<Value = Vec<RangeInclusive<u64>>> {
    // Gaps and lengths upwards from the smallest number.
    let steps = prop::collection::vec((2u64..100, 0u64..100), 1..80);
    (0u64..1 << 40, steps).prop_map(|(start, steps)| {
        let mut next = start;
        let mut ranges: Vec<_> = steps
            .into_iter()
            .map(|(gap, length)| {
                let first = next + gap;
                next = first + length;
                first..=next
            })
            .collect();
        ranges.reverse();
        ranges
    })
}

proptest! {
    #[test]
    fn acks_round_trip(
        ranges in received_ranges(),
        (delay, path) in (number(), prop::option::of(path_id())),
        ecn in prop::option::of((number(), number(), number())),
        times in prop::collection::vec((0u64..90, 0u64..1 << 30), 0..60),
        (exponent, max) in (0u8..=20, 0u64..70),
        room in 0usize..400,
    ) {
        let largest = *ranges[0].end();
        let mut times: Vec<_> =
            times.into_iter().map(|(back, at)| (largest.saturating_sub(back), at)).collect();
        times.sort_by_key(|(_, at)| std::cmp::Reverse(*at));
        let ecn = ecn.map(|(ect0, ect1, ce)| EcnCounts { ect0, ect1, ce });
        let timestamps = Some(TimestampsToWrite { received: &times, exponent, max });
        let mut buf = vec![0; room];
        let mut w = Writer::new(&mut buf);
        let to_write =
            AckToWrite { path, largest, delay, ranges: ranges.iter().cloned(), ecn, timestamps };
        if !write_ack(&mut w, to_write) {
            prop_assert_eq!(w.len(), 0);
            return Ok(());
        }
        prop_assert!(!w.overflowed());
        let bytes = w.into_written();
        let frame = decode_one(bytes);
        round_trip(frame)?;
        let Frame::Ack(ack) = frame else { panic!("ACK expected") };
        let seen: Vec<_> = ack.ranges().collect();
        prop_assert_eq!(&seen[..], &ranges[..seen.len()]);
        prop_assert_eq!((ack.path, ack.delay, ack.ecn), (path, delay, ecn));
        if let Some(timestamps) = ack.timestamps {
            let seen: Vec<_> = timestamps.iter(exponent).collect();
            prop_assert!(seen.len() as u64 <= max);
            let rounded: Vec<_> =
                times.iter().take(seen.len()).map(|(pn, t)| (*pn, t >> exponent << exponent)).collect();
            prop_assert_eq!(seen, rounded);
        }
    }
}
