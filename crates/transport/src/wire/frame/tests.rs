mod ack;
mod fec;
mod path_echo;

use proptest::prelude::*;

use super::*;
use crate::{
    error::{Code, TransportError},
    wire::{ConnectionId, MAX_VARINT, ResetToken, codepoints},
};

fn decode_all(bytes: &[u8]) -> Result<Vec<Frame<'_>>, DecodeError> {
    let mut r = Reader::new(bytes);
    let mut frames = Vec::new();
    while !r.is_empty() {
        frames.push(Frame::decode(&mut r)?);
    }
    Ok(frames)
}

fn decode_one(bytes: &[u8]) -> Frame<'_> {
    let frames = decode_all(bytes).unwrap();
    assert_eq!(frames.len(), 1, "{frames:?}");
    frames[0]
}

fn encode(frame: &Frame<'_>) -> Vec<u8> {
    let mut buf = vec![0xaa; frame.encoded_len()];
    let mut w = Writer::new(&mut buf);
    frame.encode(&mut w);
    assert!(!w.overflowed(), "{frame:?} is longer than encoded_len");
    assert_eq!(w.remaining(), 0, "{frame:?} is shorter than encoded_len");
    buf
}

/// Concatenates raw bytes and variable-length integers.
fn build(parts: &[&dyn Fn(&mut Writer<'_>)]) -> Vec<u8> {
    let mut buf = vec![0; 2048];
    let mut w = Writer::new(&mut buf);
    for part in parts {
        part(&mut w);
    }
    w.into_written().to_vec()
}

fn varints(values: &[u64]) -> Vec<u8> {
    build(&[&|w| values.iter().for_each(|v| w.varint(*v))])
}

/// Ranges of numbers from `base` on as acknowledgements have them, from gaps and lengths less one.
fn descending(base: u64, runs: &[(u64, u64)]) -> Vec<std::ops::RangeInclusive<u64>> {
    let mut next = base;
    let ranges = runs.iter().map(|(gap, len)| {
        let range = next + gap..=next + gap + len;
        next = range.end() + 2;
        range
    });
    let mut ranges: Vec<_> = ranges.collect();
    ranges.reverse();
    ranges
}

/// The code that a peer which sends these bytes is closed with.
fn code_of(bytes: &[u8]) -> Code {
    TransportError::from(decode_all(bytes).unwrap_err()).code
}

fn new_cid(path: Option<PathId>, sequence: u64, retire_prior_to: u64, len: u8) -> Vec<u8> {
    build(&[&|w| {
        w.varint(if path.is_some() {
            codepoints::frame::PATH_NEW_CONNECTION_ID
        } else {
            0x18
        });
        if let Some(path) = path {
            w.varint(u64::from(path.0));
        }
        w.varint(sequence);
        w.varint(retire_prior_to);
        w.u8(len);
        w.bytes(&vec![7; usize::from(len)]);
        w.bytes(&[9; 16]);
    }])
}

// ---- Layouts ----

#[test]
fn simple_frames_have_the_bytes_of_the_rfc() {
    let id = StreamId(4);
    let cases: &[(Frame<'_>, &[u8])] = &[
        (Frame::Padding { len: 3 }, &[0, 0, 0]),
        (Frame::Ping, &[0x01]),
        (
            Frame::ResetStream(ResetStream {
                id,
                code: 5,
                final_size: 64,
            }),
            &[4, 4, 5, 0x40, 64],
        ),
        (Frame::StopSending { id, code: 5 }, &[5, 4, 5]),
        (
            Frame::Crypto {
                offset: 1,
                data: b"ab",
            },
            &[6, 1, 2, b'a', b'b'],
        ),
        (Frame::NewToken { token: b"t" }, &[7, 1, b't']),
        (Frame::MaxData(9), &[0x10, 9]),
        (Frame::MaxStreamData { id, max: 9 }, &[0x11, 4, 9]),
        (
            Frame::MaxStreams {
                dir: Dir::Bi,
                max: 9,
            },
            &[0x12, 9],
        ),
        (
            Frame::MaxStreams {
                dir: Dir::Uni,
                max: 9,
            },
            &[0x13, 9],
        ),
        (Frame::DataBlocked(9), &[0x14, 9]),
        (Frame::StreamDataBlocked { id, limit: 9 }, &[0x15, 4, 9]),
        (
            Frame::StreamsBlocked {
                dir: Dir::Bi,
                limit: 9,
            },
            &[0x16, 9],
        ),
        (
            Frame::StreamsBlocked {
                dir: Dir::Uni,
                limit: 9,
            },
            &[0x17, 9],
        ),
        (
            Frame::RetireConnectionId {
                path: None,
                sequence: 3,
            },
            &[0x19, 3],
        ),
        (
            Frame::PathChallenge([1; 8]),
            &[0x1a, 1, 1, 1, 1, 1, 1, 1, 1],
        ),
        (Frame::PathResponse([2; 8]), &[0x1b, 2, 2, 2, 2, 2, 2, 2, 2]),
        (
            Frame::ConnectionClose(Close {
                frame_type: Some(8),
                code: 10,
                reason: b"no",
            }),
            &[0x1c, 10, 8, 2, b'n', b'o'],
        ),
        (
            Frame::ConnectionClose(Close {
                frame_type: None,
                code: 10,
                reason: b"",
            }),
            &[0x1d, 10, 0],
        ),
        (Frame::HandshakeDone, &[0x1e]),
        (Frame::ImmediateAck, &[0x1f]),
        (
            Frame::AckFrequency {
                sequence: 1,
                threshold: 2,
                max_ack_delay_us: 25_000,
                reordering: 3,
            },
            &[0x40, 0xaf, 1, 2, 0x80, 0, 0x61, 0xa8, 3],
        ),
        (
            Frame::ResetStreamAt {
                id,
                code: 5,
                final_size: 9,
                reliable_size: 8,
            },
            &[0x24, 4, 5, 9, 8],
        ),
        (Frame::Datagram { data: b"ab" }, &[0x31, 2, b'a', b'b']),
        (
            Frame::PathAbandon {
                path: PathId(3),
                code: 4,
            },
            &[0x7e, 0x75, 3, 4],
        ),
        (
            Frame::PathStatus {
                path: PathId(3),
                available: false,
                sequence: 4,
            },
            &[0x7e, 0x76, 3, 4],
        ),
        (
            Frame::PathStatus {
                path: PathId(3),
                available: true,
                sequence: 4,
            },
            &[0x7e, 0x77, 3, 4],
        ),
        (
            Frame::RetireConnectionId {
                path: Some(PathId(3)),
                sequence: 4,
            },
            &[0x7e, 0x79, 3, 4],
        ),
        (Frame::MaxPathId(5), &[0x7e, 0x7a, 5]),
        (Frame::PathsBlocked(5), &[0x7e, 0x7b, 5]),
        (
            Frame::PathCidsBlocked {
                path: PathId(3),
                next_sequence: 4,
            },
            &[0x7e, 0x7c, 3, 4],
        ),
    ];
    for (frame, bytes) in cases {
        assert_eq!(encode(frame), *bytes, "{frame:?}");
        assert_eq!(decode_one(bytes), *frame);
    }
}

#[test]
fn all_eight_stream_types() {
    for ty in 0x08u8..=0x0f {
        let mut bytes = vec![ty, 8];
        let offset = if ty & 4 != 0 {
            bytes.push(5);
            5
        } else {
            0
        };
        if ty & 2 != 0 {
            bytes.push(2);
        }
        bytes.extend(b"ab");
        let stream = Stream {
            id: StreamId(8),
            offset,
            data: b"ab",
            fin: ty & 1 != 0,
        };
        assert_eq!(decode_one(&bytes), Frame::Stream(stream));
        let with_length = u64::from(ty | 2);
        assert_eq!(Frame::Stream(stream).frame_type(), with_length);
        if ty & 2 != 0 {
            assert_eq!(encode(&Frame::Stream(stream)), bytes);
        }
    }
}

#[test]
fn stream_headers_can_leave_the_length_out() {
    for (offset, len) in [(0, None), (0, Some(70)), (1000, None), (1 << 40, Some(3))] {
        let id = StreamId(77);
        let mut buf = [0; 32];
        let mut w = Writer::new(&mut buf);
        encode_stream_header(&mut w, id, offset, len, true);
        assert_eq!(w.len(), stream_header_len(id, offset, len));
        let mut bytes = w.into_written().to_vec();
        let data = vec![3; len.unwrap_or(9)];
        bytes.extend(&data);
        let expected = Frame::Stream(Stream {
            id,
            offset,
            data: &data,
            fin: true,
        });
        assert_eq!(decode_one(&bytes), expected);
    }
}

#[test]
fn data_ends_where_the_reader_stands() {
    let bytes = encode(&Frame::Stream(Stream {
        id: StreamId(1),
        offset: 100,
        data: b"hello",
        fin: false,
    }));
    let mut packet = vec![0x01];
    packet.extend(&bytes);
    packet.push(0x01);
    let mut r = Reader::new(&packet);
    Frame::decode(&mut r).unwrap();
    let Frame::Stream(stream) = Frame::decode(&mut r).unwrap() else {
        panic!("STREAM expected")
    };
    let start = r.offset() - stream.data.len();
    assert_eq!(&packet[start..r.offset()], b"hello");
}

#[test]
fn a_datagram_without_length_takes_the_rest() {
    assert_eq!(
        decode_one(&[0x30, 1, 2, 3]),
        Frame::Datagram { data: &[1, 2, 3] }
    );
    assert_eq!(decode_one(&[0x30]), Frame::Datagram { data: &[] });
    assert_eq!(decode_all(&[0x31, 1, 2, 1]).unwrap().len(), 2);
}

#[test]
fn padding_runs_are_one_frame() {
    let frames = decode_all(&[0, 0, 1, 0, 1]).unwrap();
    let expected = [
        Frame::Padding { len: 2 },
        Frame::Ping,
        Frame::Padding { len: 1 },
        Frame::Ping,
    ];
    assert_eq!(frames, expected);
}

// ---- Errors ----

#[test]
fn frame_types_must_be_minimal() {
    for bytes in [
        &[0x40, 0x01][..],
        &[0x40, 0x02, 0, 0, 0, 0],
        &[0x40, 0x08, 0],
        &[0x80, 0, 0, 0],
    ] {
        assert_eq!(
            decode_all(bytes).unwrap_err().kind,
            DecodeErrorKind::FrameTypeNotMinimal
        );
        assert_eq!(code_of(bytes), Code::PROTOCOL_VIOLATION);
    }
    let long_ack_frequency = [0x80, 0, 0, 0xaf, 0, 0, 0, 0];
    assert_eq!(code_of(&long_ack_frequency), Code::PROTOCOL_VIOLATION);
}

#[test]
fn unknown_frames_are_encoding_errors() {
    for ty in [0x20, 0x3d, 0xae, 0x3e74, 0x3e7d, 0x0317_830b, MAX_VARINT] {
        let error = decode_all(&varints(&[1, ty, 0, 0, 0])).unwrap_err();
        assert_eq!(
            (error.kind, error.offset),
            (DecodeErrorKind::UnknownFrame, 1),
            "{ty:#x}"
        );
        assert_eq!(TransportError::from(error).code, Code::FRAME_ENCODING_ERROR);
        assert_eq!(row_of(ty), None);
    }
}

#[test]
fn stream_counts_above_2_to_the_60() {
    for ty in [0x12, 0x13, 0x16, 0x17] {
        assert!(decode_all(&varints(&[ty, MAX_STREAM_COUNT])).is_ok());
        assert_eq!(
            code_of(&varints(&[ty, MAX_STREAM_COUNT + 1])),
            Code::FRAME_ENCODING_ERROR
        );
    }
}

#[test]
fn data_beyond_the_largest_offset() {
    for (ty, id) in [(0x0e, &[0][..]), (0x06, &[])] {
        let frame = |offset, len| {
            build(&[&|w| {
                w.u8(ty);
                w.bytes(id);
                w.varint(offset);
                w.varint(len);
                w.zeros(len as usize);
            }])
        };
        assert!(decode_all(&frame(MAX_VARINT, 0)).is_ok());
        assert!(decode_all(&frame(MAX_VARINT - 3, 3)).is_ok());
        assert_eq!(
            code_of(&frame(MAX_VARINT - 3, 4)),
            Code::FRAME_ENCODING_ERROR
        );
    }
    // The same without a Length field.
    let bytes = build(&[&|w| {
        w.u8(0x0c);
        w.varint(0);
        w.varint(MAX_VARINT);
        w.u8(1);
    }]);
    assert_eq!(code_of(&bytes), Code::FRAME_ENCODING_ERROR);
}

#[test]
fn new_connection_id_bounds() {
    for path in [None, Some(PathId(3))] {
        for len in [1, 20] {
            assert!(decode_all(&new_cid(path, 5, 5, len)).is_ok());
        }
        for len in [0, 21, 255] {
            assert_eq!(
                code_of(&new_cid(path, 5, 5, len)),
                Code::FRAME_ENCODING_ERROR
            );
        }
        assert_eq!(code_of(&new_cid(path, 5, 6, 8)), Code::FRAME_ENCODING_ERROR);
    }
}

#[test]
fn an_empty_new_token() {
    assert_eq!(code_of(&[7, 0]), Code::FRAME_ENCODING_ERROR);
}

#[test]
fn a_reliable_size_above_the_final_size() {
    assert!(decode_all(&varints(&[0x24, 0, 0, 7, 7])).is_ok());
    assert_eq!(
        code_of(&varints(&[0x24, 0, 0, 7, 8])),
        Code::FRAME_ENCODING_ERROR
    );
}

#[test]
fn path_ids_of_33_bits() {
    for ty in [0x3e75, 0x3e76, 0x3e77, 0x3e78, 0x3e79, 0x3e7c, 0x3e, 0x3f] {
        let bytes = varints(&[ty, 1 << 32, 0, 0, 0, 0, 0, 0]);
        assert_eq!(code_of(&bytes), Code::PROTOCOL_VIOLATION, "{ty:#x}");
    }
    assert_eq!(
        decode_one(&varints(&[0x3e7a, 1 << 32])),
        Frame::MaxPathId(1 << 32)
    );
}

// ---- The table ----

#[test]
fn rows_are_sorted_and_disjoint() {
    for pair in all_rows().windows(2) {
        assert!(
            pair[0].types.end() < pair[1].types.start(),
            "{} {}",
            pair[0].name,
            pair[1].name
        );
    }
    for row in all_rows() {
        for ty in row.types.clone() {
            assert_eq!(row_of(ty), Some(*row));
            let known = decode_all(&varints(&[ty, 1, 1, 1, 1, 1, 1, 1, 1])).err();
            let unknown = known.is_some_and(|e| e.kind == DecodeErrorKind::UnknownFrame);
            assert!(!unknown, "{} has a row but no decoder", row.name);
        }
        assert!(!row.ack_eliciting || row.in_flight, "{}", row.name);
    }
}

/// RFC 9000 s12.4 table 3, with RETIRE_CONNECTION_ID as in s12.5.
#[test]
fn the_table_of_rfc_9000() {
    let rows = [
        (0x00, "IH01", "NP"),
        (0x01, "IH01", ""),
        (0x02, "IH_1", "NC"),
        (0x04, "__01", ""),
        (0x05, "__01", ""),
        (0x06, "IH_1", ""),
        (0x07, "___1", ""),
        (0x08, "__01", ""),
        (0x10, "__01", ""),
        (0x11, "__01", ""),
        (0x12, "__01", ""),
        (0x14, "__01", ""),
        (0x15, "__01", ""),
        (0x16, "__01", ""),
        (0x18, "__01", "P"),
        (0x19, "___1", ""),
        (0x1a, "__01", "P"),
        (0x1b, "___1", "P"),
        (0x1c, "IH01", "NC"),
        (0x1d, "__01", "NC"),
        (0x1e, "___1", ""),
    ];
    for (ty, packets, marks) in rows {
        let row = row_of(ty).unwrap();
        let places = [
            ('I', PacketTypes::INITIAL),
            ('H', PacketTypes::HANDSHAKE),
            ('0', PacketTypes::ZERO_RTT),
            ('1', PacketTypes::ONE_RTT),
        ];
        for (letter, place) in places {
            assert_eq!(
                row.allowed.contains(place),
                packets.contains(letter),
                "{}",
                row.name
            );
        }
        assert_eq!(row.ack_eliciting, !marks.contains('N'), "{}", row.name);
        assert_eq!(row.in_flight, !marks.contains('C'), "{}", row.name);
        assert_eq!(row.probing, marks.contains('P'), "{}", row.name);
    }
}

#[test]
fn extensions_stand_where_their_documents_say() {
    for row in all_rows().iter().filter(|row| *row.types.start() > 0x1e) {
        let in_zero_rtt = ["RESET_STREAM_AT", "DATAGRAM"].contains(&row.name);
        assert_eq!(
            row.allowed.contains(PacketTypes::ZERO_RTT),
            in_zero_rtt,
            "{}",
            row.name
        );
        assert!(row.allowed.contains(PacketTypes::ONE_RTT), "{}", row.name);
        assert!(!row.allowed.contains(PacketTypes::INITIAL), "{}", row.name);
        let is_ack = row.name.contains("ACK_RECEIVE")
            || ["PATH_ACK", "SYMBOL_ACK", "PATH_ECHO"].contains(&row.name);
        assert_eq!(row.ack_eliciting, !is_ack, "{}", row.name);
    }
    let both = PacketTypes::INITIAL | PacketTypes::HANDSHAKE;
    assert!(row_of(0).unwrap().allowed.contains(both));
}

// ---- Any frame, any bytes ----

fn number() -> impl Strategy<Value = u64> {
    (0u32..62, 0..=MAX_VARINT).prop_map(|(shift, raw)| raw >> shift)
}

fn path_id() -> impl Strategy<Value = PathId> {
    (0u32..32, any::<u32>()).prop_map(|(shift, raw)| PathId(raw >> shift))
}

fn data(min: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), min..100)
}

fn dir_strategy() -> impl Strategy<Value = Dir> {
    prop_oneof![Just(Dir::Bi), Just(Dir::Uni)]
}

/// Checks that `frame` survives a round trip and that its row is consistent.
fn round_trip(frame: Frame<'_>) -> Result<(), TestCaseError> {
    let bytes = encode(&frame);
    let mut r = Reader::new(&bytes);
    prop_assert_eq!(Frame::decode(&mut r), Ok(frame));
    prop_assert!(r.is_empty());
    prop_assert_eq!(row_of(frame.frame_type()), Some(frame.row()));
    if frame.frame_type() != 0 {
        prop_assert_eq!(Reader::new(&bytes).peek_varint(), Some(frame.frame_type()));
    }
    for cut in 0..bytes.len() {
        // A cut frame is an error, unless it is PADDING.
        let cut_frame = Frame::decode(&mut Reader::new(&bytes[..cut]));
        prop_assert!(
            cut_frame.is_err() || frame.frame_type() == 0,
            "cut at {}",
            cut
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn frames_of_numbers_round_trip(
        (a, b, c, d) in (number(), number(), number(), number()),
        (path, dir, available) in (path_id(), dir_strategy(), any::<bool>()),
        challenge in any::<[u8; 8]>(),
    ) {
        let id = StreamId(a);
        let frames = [
            Frame::Padding { len: 1 + (a % 50) as usize },
            Frame::Ping,
            Frame::ResetStream(ResetStream { id, code: b, final_size: c }),
            Frame::StopSending { id, code: b },
            Frame::MaxData(a),
            Frame::MaxStreamData { id, max: b },
            Frame::MaxStreams { dir, max: b >> 2 },
            Frame::DataBlocked(a),
            Frame::StreamDataBlocked { id, limit: b },
            Frame::StreamsBlocked { dir, limit: b >> 2 },
            Frame::RetireConnectionId { path: None, sequence: b },
            Frame::RetireConnectionId { path: Some(path), sequence: b },
            Frame::PathChallenge(challenge),
            Frame::PathResponse(challenge),
            Frame::HandshakeDone,
            Frame::ImmediateAck,
            Frame::AckFrequency { sequence: a, threshold: b, max_ack_delay_us: c, reordering: d },
            Frame::ResetStreamAt { id, code: b, final_size: c.max(d), reliable_size: c.min(d) },
            Frame::PathAbandon { path, code: b },
            Frame::PathStatus { path, available, sequence: b },
            Frame::MaxPathId(a),
            Frame::PathsBlocked(a),
            Frame::PathCidsBlocked { path, next_sequence: b },
        ];
        for frame in frames {
            round_trip(frame)?;
        }
    }

    #[test]
    fn frames_of_bytes_round_trip(
        (a, b) in (number(), number()),
        data in data(1),
        cid in prop::collection::vec(any::<u8>(), 1..=20),
        token in any::<[u8; 16]>(),
        (path, fin) in (prop::option::of(path_id()), any::<bool>()),
        frame_type in prop::option::of(number()),
    ) {
        let offset = a.min(MAX_VARINT - data.len() as u64);
        let frames = [
            Frame::Crypto { offset, data: &data },
            Frame::NewToken { token: &data },
            Frame::Stream(Stream { id: StreamId(b), offset, data: &data, fin }),
            Frame::Stream(Stream { id: StreamId(b), offset, data: &[], fin }),
            Frame::NewConnectionId(NewConnectionId {
                path,
                sequence: a.max(b),
                retire_prior_to: a.min(b),
                cid: ConnectionId::new(&cid).unwrap(),
                token: ResetToken(token),
            }),
            Frame::ConnectionClose(Close { frame_type, code: b, reason: &data }),
            Frame::Datagram { data: &data },
        ];
        for frame in frames {
            round_trip(frame)?;
        }
    }

    #[test]
    fn any_bytes_decode_without_panic_and_reencode_stably(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..120),
            // Small numbers make valid frames likely.
            prop::collection::vec(0u8..0x40, 0..120),
        ],
    ) {
        let Ok(frames) = decode_all(&bytes) else { return Ok(()) };
        let mut encoded = Vec::new();
        for frame in &frames {
            encoded.extend(encode(frame));
            if let Frame::Ack(ack) = frame {
                let mut below = None;
                for range in ack.ranges() {
                    prop_assert!(range.start() <= range.end());
                    prop_assert!(below.is_none_or(|below| *range.end() + 1 < below));
                    below = Some(*range.start());
                }
            }
        }
        prop_assert_eq!(decode_all(&encoded).unwrap(), frames);
    }

    #[test]
    fn any_extension_frame_decodes_without_panic(
        row in 0..all_rows().len(), bytes in prop::collection::vec(0u8..0x48, 0..60),
    ) {
        let mut input = varints(&[*all_rows()[row].types.end()]);
        input.extend(bytes);
        if let Ok(frame) = Frame::decode(&mut Reader::new(&input)) {
            let mut again = encode(&frame);
            if matches!(frame, Frame::SourceSymbol(_)) {
                // Something must follow it.
                again.push(0x01);
                prop_assert_eq!(decode_all(&again), Ok(vec![frame, Frame::Ping]));
                return Ok(());
            }
            prop_assert_eq!(decode_one(&again), frame);
        }
    }
}

/// `docs/multipath.md` tells of every frame which path carries it.
#[test]
fn the_page_has_every_frame_where_the_table_has_it() {
    let page = include_str!("../../../../../docs/multipath.md");
    let lines: Vec<&str> = page.lines().collect();
    for row in all_rows() {
        let class = match row.class {
            FrameClass::PathSpecific => "path-specific",
            FrameClass::DataRelated => "data-related",
        };
        let carrier = match row.carrier {
            FrameCarrier::Scheduled => "the scheduler's",
            FrameCarrier::Own => "its own",
            FrameCarrier::OwnOrOther => "its own or another",
            FrameCarrier::Any => "any that works",
        };
        let end = format!("| {class} | {carrier} |");
        let line = lines.iter().find(|line| line.ends_with(&end));
        let line = line.unwrap_or_else(|| panic!("no line of {class} frames for {carrier}"));
        let mut names = line
            .trim_matches('|')
            .split('|')
            .next()
            .unwrap_or_default()
            .split(',');
        assert!(
            names.any(|name| name.trim() == row.name),
            "{} is not in: {line}",
            row.name
        );
    }
}
