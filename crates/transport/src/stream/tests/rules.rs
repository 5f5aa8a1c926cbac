//! One rule at a time, by hand-made frames.

use bytes::Bytes;

use super::kit::*;
use crate::{
    config::{TransportConfig, WindowConfig},
    error::Code,
    multipath::Takes,
    packet::Token,
    stream::{
        Protection, ReadError, ReadOutcome, ResetError, StreamEvent, StreamSet, UnorderedOutcome,
        WriteError, sched::Priority,
    },
    time::Instant,
    units::{Dir, Side, StreamId},
    wire::{Frame, ResetStream},
};

fn client() -> StreamSet {
    set(Side::Client, &small_config())
}

fn server() -> StreamSet {
    set(Side::Server, &small_config())
}

fn code<T: std::fmt::Debug>(result: Result<T, crate::error::TransportError>) -> Code {
    result.unwrap_err().code
}

#[test]
fn idle_set_is_small() {
    assert!(
        size_of::<StreamSet>() < 2048,
        "{} bytes",
        size_of::<StreamSet>()
    );
}

#[test]
fn stream_is_small() {
    let size = size_of::<crate::stream::table::Stream>();
    assert!(size < 768, "{size} bytes");
}

#[test]
fn request_and_response() {
    let (mut client, mut server) = (client(), server());
    let id = client.open(Dir::Bi).unwrap();
    assert_eq!(client.write(id, b"request"), Ok(7));
    client.finish(id).unwrap();
    assert_eq!(client.finish(id), Err(WriteError::Finished));
    assert_eq!(client.write(id, b"more"), Err(WriteError::Finished));
    flush(&mut client, &mut server);
    assert_eq!(
        events(&mut server),
        [StreamEvent::Opened(Dir::Bi), StreamEvent::Readable(id)]
    );
    assert_eq!(server.accept(Dir::Bi), Some(id));
    assert_eq!(server.accept(Dir::Bi), None);
    assert_eq!(read_all(&mut server, id), (b"request".to_vec(), true));
    assert_eq!(
        server.write_bytes(id, &mut Bytes::from_static(b"response")),
        Ok(8)
    );
    server.finish(id).unwrap();
    flush(&mut server, &mut client);
    assert_eq!(read_all(&mut client, id), (b"response".to_vec(), true));
    let finished = StreamEvent::Finished(id);
    assert!(events(&mut client).contains(&finished) && events(&mut server).contains(&finished));
    for set in [&mut client, &mut server] {
        assert_eq!(set.stats().open_streams, 0);
        assert_eq!(set.stats().send_buffered_bytes, 0);
        assert_eq!(set.read(id, 10), Err(ReadError::UnknownStream));
        assert_eq!(set.write(id, b"x"), Err(WriteError::UnknownStream));
        assert!(set.parked.is_empty() && set.waiting.is_empty() && set.borrowed == 0);
    }
}

#[test]
fn stream_limit_error() {
    let mut server = server();
    assert_eq!(
        code(stream_frame(&mut server, client_bi(3), 0, b"x", false)),
        Code::STREAM_LIMIT_ERROR
    );
    assert_eq!(
        code(server.on_stop_sending(client_bi(3), 0)),
        Code::STREAM_LIMIT_ERROR
    );
    assert_eq!(
        code(server.on_reset_stream_at(client_uni(2), 0, 0, 0)),
        Code::STREAM_LIMIT_ERROR
    );
    stream_frame(&mut server, client_bi(2), 0, b"x", false).unwrap();
}

#[test]
fn stream_state_error() {
    let mut server = server();
    // Streams of ours that we have not opened.
    assert_eq!(
        code(stream_frame(&mut server, server_bi(0), 0, b"", true)),
        Code::STREAM_STATE_ERROR
    );
    assert_eq!(
        code(server.on_max_stream_data(server_bi(0), 1)),
        Code::STREAM_STATE_ERROR
    );
    assert_eq!(
        code(server.on_stop_sending(server_uni(0), 1)),
        Code::STREAM_STATE_ERROR
    );
    // Frames about the half that does not exist.
    let ours = server.open(Dir::Uni).unwrap();
    let reset = ResetStream {
        id: ours,
        code: 0,
        final_size: 0,
    };
    assert_eq!(
        code(stream_frame(&mut server, ours, 0, b"", true)),
        Code::STREAM_STATE_ERROR
    );
    assert_eq!(
        code(server.on_reset_stream(&reset)),
        Code::STREAM_STATE_ERROR
    );
    assert_eq!(
        code(server.on_stream_data_blocked(ours, 0)),
        Code::STREAM_STATE_ERROR
    );
    assert_eq!(
        code(server.on_max_stream_data(client_uni(0), 9)),
        Code::STREAM_STATE_ERROR
    );
    assert_eq!(
        code(server.on_stop_sending(client_uni(0), 9)),
        Code::STREAM_STATE_ERROR
    );
    let error = server.on_stop_sending(client_uni(0), 9).unwrap_err();
    assert_eq!(error.frame_type, 0x05);
}

#[test]
fn final_size_error() {
    let reset = |final_size| ResetStream {
        id: client_uni(0),
        code: 7,
        final_size,
    };
    let fresh = || {
        let mut server = server();
        stream_frame(&mut server, client_uni(0), 0, &[1; 100], false).unwrap();
        server
    };
    // Below what was received.
    assert_eq!(
        code(stream_frame(&mut fresh(), client_uni(0), 0, &[1; 99], true)),
        Code::FINAL_SIZE_ERROR
    );
    assert_eq!(
        code(fresh().on_reset_stream(&reset(99))),
        Code::FINAL_SIZE_ERROR
    );
    // Changed, or exceeded, once known.
    let finished = || {
        let mut server = fresh();
        stream_frame(&mut server, client_uni(0), 100, &[], true).unwrap();
        server
    };
    assert_eq!(
        code(stream_frame(
            &mut finished(),
            client_uni(0),
            0,
            &[1; 99],
            true
        )),
        Code::FINAL_SIZE_ERROR
    );
    assert_eq!(
        code(stream_frame(
            &mut finished(),
            client_uni(0),
            100,
            &[1],
            false
        )),
        Code::FINAL_SIZE_ERROR
    );
    assert_eq!(
        code(finished().on_reset_stream(&reset(101))),
        Code::FINAL_SIZE_ERROR
    );
    assert_eq!(
        code(finished().on_reset_stream_at(client_uni(0), 7, 101, 9)),
        Code::FINAL_SIZE_ERROR
    );
    finished().on_reset_stream(&reset(100)).unwrap();
    let mut reset_first = fresh();
    reset_first.on_reset_stream(&reset(200)).unwrap();
    assert_eq!(
        code(reset_first.on_reset_stream(&reset(201))),
        Code::FINAL_SIZE_ERROR
    );
    assert_eq!(
        code(stream_frame(
            &mut reset_first,
            client_uni(0),
            200,
            &[1],
            false
        )),
        Code::FINAL_SIZE_ERROR
    );
}

#[test]
fn flow_control_error() {
    // The stream's limit is 2000, the connection's 3000.
    let mut server = server();
    assert_eq!(
        code(stream_frame(
            &mut server,
            client_bi(0),
            1900,
            &[1; 101],
            false
        )),
        Code::FLOW_CONTROL_ERROR
    );
    stream_frame(&mut server, client_bi(0), 1900, &[1; 100], false).unwrap();
    assert_eq!(
        code(stream_frame(
            &mut server,
            client_bi(1),
            0,
            &[1; 1001],
            false
        )),
        Code::FLOW_CONTROL_ERROR
    );
    let reset = |id, final_size| ResetStream {
        id,
        code: 0,
        final_size,
    };
    assert_eq!(
        code(server.on_reset_stream(&reset(client_bi(1), 1001))),
        Code::FLOW_CONTROL_ERROR
    );
    assert_eq!(
        code(server.on_reset_stream(&reset(client_bi(0), 2001))),
        Code::FLOW_CONTROL_ERROR
    );
    assert_eq!(
        code(server.on_reset_stream_at(client_bi(1), 0, 1001, 0)),
        Code::FLOW_CONTROL_ERROR
    );
    stream_frame(&mut server, client_bi(1), 0, &[1; 1000], false).unwrap();
}

#[test]
fn frame_encoding_error() {
    let mut server = server();
    let beyond = stream_frame(&mut server, client_bi(0), (1 << 62) - 1, &[1], false);
    assert_eq!(code(beyond), Code::FRAME_ENCODING_ERROR);
    assert_eq!(
        code(server.on_max_streams(Dir::Bi, (1 << 60) + 1)),
        Code::FRAME_ENCODING_ERROR
    );
    assert_eq!(
        code(server.on_streams_blocked(Dir::Uni, (1 << 60) + 1)),
        Code::FRAME_ENCODING_ERROR
    );
    assert_eq!(
        code(server.on_reset_stream_at(client_bi(0), 0, 5, 6)),
        Code::FRAME_ENCODING_ERROR
    );
}

#[test]
fn frames_for_streams_that_are_over_are_ignored() {
    let mut server = server();
    let id = client_uni(0);
    stream_frame(&mut server, id, 0, b"all", true).unwrap();
    assert_eq!(server.accept(Dir::Uni), Some(id));
    assert_eq!(read_all(&mut server, id), (b"all".to_vec(), true));
    assert_eq!(server.stats().open_streams, 0);
    stream_frame(&mut server, id, 0, b"all", true).unwrap();
    server
        .on_reset_stream(&ResetStream {
            id,
            code: 1,
            final_size: 3,
        })
        .unwrap();
    server.on_stream_data_blocked(id, 3).unwrap();
    assert_eq!(server.stats().open_streams, 0);
    assert_eq!(server.accept(Dir::Uni), None);
}

#[test]
fn lower_streams_open_without_state() {
    let mut config = small_config();
    config.max_concurrent_uni_streams = 1 << 40;
    let mut server = set(Side::Server, &config);
    stream_frame(&mut server, client_uni(1 << 39), 0, b"far", false).unwrap();
    assert_eq!(server.stats().open_streams, 1);
    assert_eq!(server.accept(Dir::Uni), Some(client_uni(0)));
    assert_eq!(server.accept(Dir::Uni), Some(client_uni(1)));
    assert_eq!(server.stats().open_streams, 3);
    assert_eq!(server.read(client_uni(1), 10), Ok(ReadOutcome::Blocked));
}

#[test]
fn stop_sending_is_answered_by_reset() {
    let mut client = client();
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[1; 500]).unwrap();
    let first = packet(&mut client, 200).unwrap();
    assert_eq!(first.tokens.len(), 1);
    client.on_stop_sending(id, 42).unwrap();
    assert_eq!(client.stopped(id), Some(42));
    assert_eq!(client.write(id, b"x"), Err(WriteError::Stopped(42)));
    assert_eq!(client.finish(id), Err(WriteError::Stopped(42)));
    assert_eq!(client.reset(id, 1), Err(ResetError::AlreadyReset));
    assert_eq!(events(&mut client), [StreamEvent::Stopped { id, code: 42 }]);
    let answer = packets(&mut client);
    let Frame::ResetStream(reset) = answer[0].frames()[0] else {
        panic!("{answer:?}")
    };
    assert_eq!((reset.id, reset.code), (id, 42));
    let sent = match first.tokens[0] {
        Token::Stream { len, .. } => u64::from(len),
        other => panic!("{other:?}"),
    };
    assert_eq!(reset.final_size, sent);
    // A lost STREAM frame is not sent again, a lost RESET_STREAM is.
    client.on_lost(first.tokens[0]);
    assert!(!client.has_data());
    client.on_lost(answer[0].tokens[0]);
    let again = packets(&mut client);
    assert_eq!(again[0].frames(), answer[0].frames());
    client.on_acked(again[0].tokens[0]);
    assert_eq!(client.stats().open_streams, 0);
    assert_eq!(client.stats().send_buffered_bytes, 0);
}

#[test]
fn stop_discards_and_gives_credit_back() {
    let mut server = server();
    let id = client_uni(0);
    stream_frame(&mut server, id, 100, &[1; 1400], false).unwrap();
    server.stop(id, 9).unwrap();
    assert_eq!(server.read(id, 1), Err(ReadError::Stopped));
    let sent = packets(&mut server);
    let frames = sent[0].frames();
    assert!(
        frames.contains(&Frame::StopSending { id, code: 9 }),
        "{frames:?}"
    );
    // 1500 of the connection's 3000 bytes are free again.
    assert!(frames.contains(&Frame::MaxData(4500)), "{frames:?}");
    assert!(
        !frames
            .iter()
            .any(|frame| matches!(frame, Frame::MaxStreamData { .. }))
    );
    stream_frame(&mut server, id, 1500, &[1; 100], false).unwrap();
    assert_eq!(server.stats().receive_buffered_bytes, 0);
    server
        .on_reset_stream(&ResetStream {
            id,
            code: 9,
            final_size: 1700,
        })
        .unwrap();
    assert_eq!(server.stats().open_streams, 0);
    assert_eq!(server.received, 1700);
    // A lost STOP_SENDING no longer matters.
    for token in &sent[0].tokens {
        server.on_lost(*token);
    }
    let again: Vec<_> = packets(&mut server);
    let stops = again
        .iter()
        .flat_map(|p| p.frames())
        .filter(|f| matches!(f, Frame::StopSending { .. }));
    assert_eq!(stops.count(), 0);
}

#[test]
fn reset_reaches_the_reader_and_credit_returns() {
    let mut server = server();
    let id = client_uni(0);
    stream_frame(&mut server, id, 0, &[1; 10], false).unwrap();
    server
        .on_reset_stream(&ResetStream {
            id,
            code: 77,
            final_size: 1800,
        })
        .unwrap();
    assert_eq!(
        events(&mut server),
        [StreamEvent::Opened(Dir::Uni), StreamEvent::Readable(id)]
    );
    let sent = packets(&mut server);
    assert!(sent[0].frames().contains(&Frame::MaxData(4800)));
    assert_eq!(server.read(id, 10), Err(ReadError::Reset(77)));
    assert_eq!(server.stats().open_streams, 0);
}

#[test]
fn reset_after_all_data_is_ignored() {
    let mut server = server();
    let id = client_uni(0);
    stream_frame(&mut server, id, 0, b"data", true).unwrap();
    server
        .on_reset_stream(&ResetStream {
            id,
            code: 1,
            final_size: 4,
        })
        .unwrap();
    assert_eq!(read_all(&mut server, id), (b"data".to_vec(), true));
}

#[test]
fn reset_at_delivers_what_it_promises() {
    let (mut client, mut server) = (client(), server());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[5; 1000]).unwrap();
    client.reset_at(id, 3, 300).unwrap();
    assert_eq!(client.reset_at(id, 3, 200), Err(ResetError::AlreadyReset));
    assert_eq!(client.write(id, b"x"), Err(WriteError::Finished));
    let sent = packets(&mut client);
    let frames: Vec<_> = sent.iter().flat_map(|packet| packet.frames()).collect();
    let reset = Frame::ResetStreamAt {
        id,
        code: 3,
        final_size: 300,
        reliable_size: 300,
    };
    assert!(frames.contains(&reset), "{frames:?}");
    // The reset alone is not enough: the bytes must arrive too.
    server.on_reset_stream_at(id, 3, 300, 300).unwrap();
    assert_eq!(server.read(id, 1000), Ok(ReadOutcome::Blocked));
    for packet in &sent {
        deliver(&mut server, Instant::ZERO, packet).unwrap();
    }
    assert_eq!(
        server.read(id, 1000),
        Ok(ReadOutcome::Chunk(vec![5; 300].into()))
    );
    assert_eq!(server.read(id, 1000), Err(ReadError::Reset(3)));
    assert_eq!(server.stats().open_streams, 0);
    for token in sent.iter().flat_map(|packet| &packet.tokens) {
        client.on_acked(*token);
    }
    assert_eq!(client.stats().open_streams, 0);
    assert!(!events(&mut client).contains(&StreamEvent::Finished(id)));
}

#[test]
fn reset_at_needs_the_peer() {
    let mut client = client();
    client.set_peer_supports_reset_at(false);
    let id = client.open(Dir::Uni).unwrap();
    assert_eq!(client.reset_at(id, 0, 0), Err(ResetError::NotNegotiated));
}

#[test]
fn reliable_size_only_falls() {
    let mut server = server();
    let id = client_uni(0);
    stream_frame(&mut server, id, 0, &[1; 100], false).unwrap();
    server.on_reset_stream_at(id, 3, 500, 200).unwrap();
    server.on_reset_stream_at(id, 3, 500, 400).unwrap();
    assert_eq!(
        code(server.on_reset_stream_at(id, 4, 500, 100)),
        Code::STREAM_STATE_ERROR
    );
    assert_eq!(
        code(server.on_reset_stream(&ResetStream {
            id,
            code: 4,
            final_size: 500
        })),
        Code::STREAM_STATE_ERROR
    );
    stream_frame(&mut server, id, 100, &[1; 200], false).unwrap();
    assert_eq!(
        server.read(id, 150).unwrap(),
        ReadOutcome::Chunk(vec![1; 100].into())
    );
    assert_eq!(
        server.read(id, 50).unwrap(),
        ReadOutcome::Chunk(vec![1; 50].into())
    );
    server.on_reset_stream_at(id, 3, 500, 120).unwrap();
    assert_eq!(server.read(id, 50), Err(ReadError::Reset(3)));
    assert_eq!(server.window.granted(), 3000);
    assert!(!server.window.wants_grant());
}

#[test]
fn stop_sending_after_reset_at_is_answered_by_plain_reset() {
    let mut client = client();
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[5; 1000]).unwrap();
    let data = packets(&mut client);
    client.reset_at(id, 3, 900).unwrap();
    let reset = packets(&mut client);
    client.on_stop_sending(id, 8).unwrap();
    let plain = packets(&mut client);
    // Neither the code nor the final size may change.
    let expected = ResetStream {
        id,
        code: 3,
        final_size: 1000,
    };
    assert_eq!(plain[0].frames(), [Frame::ResetStream(expected)]);
    client.on_acked(reset[0].tokens[0]);
    assert_eq!(client.stats().open_streams, 1);
    client.on_lost(data[0].tokens[0]);
    assert!(!client.has_data());
    client.on_acked(plain[0].tokens[0]);
    assert_eq!(client.stats().open_streams, 0);
}

#[test]
fn writing_stops_at_the_streams_limit() {
    let mut client = client();
    let id = client.open(Dir::Uni).unwrap();
    assert_eq!(client.write(id, &[1; 5000]), Ok(2000));
    assert_eq!(client.write(id, &[1; 5000]), Ok(0));
    let sent = packets(&mut client);
    let frames: Vec<_> = sent.iter().flat_map(|packet| packet.frames()).collect();
    assert!(
        !frames
            .iter()
            .any(|frame| matches!(frame, Frame::DataBlocked(_)))
    );
    // All is sent and the application wants more: told once for this limit.
    let blocked = sent.last().unwrap().frames();
    assert_eq!(
        blocked.last(),
        Some(&Frame::StreamDataBlocked { id, limit: 2000 })
    );
    assert_eq!(client.write(id, &[1; 5000]), Ok(0));
    assert!(!client.has_control());
    client.on_max_stream_data(id, 1000).unwrap();
    assert_eq!(events(&mut client), []);
    client.on_max_stream_data(id, 2500).unwrap();
    assert_eq!(events(&mut client), [StreamEvent::Writable(id)]);
    assert_eq!(client.write(id, &[1; 5000]), Ok(500));
    // A lost report of an old limit is not repeated.
    client.on_lost(Token::StreamDataBlocked(id));
    let frames: Vec<_> = packets(&mut client);
    assert!(matches!(frames[0].frames()[0], Frame::Stream(_)));
}

#[test]
fn connection_limit_blocks_new_data_only() {
    let mut client = client();
    let (a, b) = (
        client.open(Dir::Uni).unwrap(),
        client.open(Dir::Uni).unwrap(),
    );
    client.write(a, &[1; 2000]).unwrap();
    client.write(b, &[2; 2000]).unwrap();
    client.finish(b).unwrap();
    let sent = packets(&mut client);
    let bytes: u64 = sent
        .iter()
        .flat_map(|packet| &packet.tokens)
        .map(|token| {
            if let Token::Stream { len, .. } = token {
                u64::from(*len)
            } else {
                0
            }
        })
        .sum();
    assert_eq!(bytes, 3000);
    assert_eq!(sent.last().unwrap().frames(), [Frame::DataBlocked(3000)]);
    assert!(client.stats().connection_blocked);
    // Retransmission needs no credit.
    client.on_lost(sent[0].tokens[0]);
    assert!(client.has_data());
    assert_eq!(packets(&mut client)[0].tokens[0], sent[0].tokens[0]);
    client.on_max_data(3000);
    assert!(!client.has_data());
    client.on_max_data(3600);
    assert!(client.has_data());
    let more = packets(&mut client);
    assert!(
        more.iter()
            .flat_map(|p| p.frames())
            .any(|f| f == Frame::DataBlocked(3600))
    );
    client.on_max_data(9999);
    let last = packets(&mut client);
    let Frame::Stream(frame) = last[0].frames()[0] else {
        panic!()
    };
    assert_eq!((frame.id, frame.data.len(), frame.fin), (b, 400, true));
    assert!(!client.stats().connection_blocked);
}

#[test]
fn all_that_waits_ends_within_a_packet_or_does_not() {
    let mut client = client();
    let ids = [Dir::Uni, Dir::Uni].map(|dir| client.open(dir).unwrap());
    assert!(!client.ends_within(u64::MAX), "nothing waits");
    client.write(ids[0], &[1; 700]).unwrap();
    assert!(!client.ends_within(u64::MAX), "more may follow");
    client.finish(ids[0]).unwrap();
    assert!(client.ends_within(700) && !client.ends_within(699));
    client.write(ids[1], &[2; 500]).unwrap();
    assert!(!client.ends_within(u64::MAX), "more may follow there");
    client.finish(ids[1]).unwrap();
    assert!(client.ends_within(1_200) && !client.ends_within(1_199));
    let sent = packets(&mut client);
    assert!(!client.ends_within(u64::MAX));
    client.on_lost(sent[0].tokens[0]);
    assert!(client.ends_within(1_200), "what is sent again ends, too");
    client.on_acked(sent[0].tokens[0]);
    let id = client.open(Dir::Bi).unwrap();
    let mut pieces = Vec::new();
    for _ in 0..5 {
        client.write(id, &[3; 100]).unwrap();
        pieces.extend(packets(&mut client));
    }
    client.finish(id).unwrap();
    packets(&mut client);
    for piece in [0, 2, 4] {
        client.on_lost(pieces[piece].tokens[0]);
    }
    assert!(client.ends_within(300) && !client.ends_within(299));
    // What flow control keeps back is not the end.
    let mut client = set(Side::Client, &small_config());
    let ids = [Dir::Uni, Dir::Uni].map(|dir| client.open(dir).unwrap());
    for id in ids {
        client.write(id, &[1; 2_000]).unwrap();
        client.finish(id).unwrap();
    }
    assert!(client.credit.available() < 4_000 && !client.ends_within(u64::MAX));
}

#[test]
fn what_arrives_is_next_or_is_not() {
    let mut server = server();
    let id = client_uni(0);
    assert!(!server.receives_in_order(), "nothing has arrived");
    for (offset, in_order) in [(0, true), (20, false), (10, true), (30, true), (0, true)] {
        stream_frame(&mut server, id, offset, &[1; 10], false).unwrap();
        assert_eq!(server.receives_in_order(), in_order, "{offset}");
    }
}

#[test]
fn used_up_credit_leaves_nothing_to_send() {
    let mut client = set(Side::Client, &small_config());
    for dir in [Dir::Uni, Dir::Uni, Dir::Bi, Dir::Bi] {
        let id = client.open(dir).unwrap();
        client.write(id, &[1; 1500]).unwrap();
    }
    while client.credit.available() > 0 {
        packet(&mut client, 1200).unwrap();
    }
    assert!(!client.has_data());
}

#[test]
fn lost_stop_sending_is_sent_again() {
    let mut server = server();
    let id = client_uni(0);
    stream_frame(&mut server, id, 0, &[1; 10], false).unwrap();
    server.stop(id, 9).unwrap();
    for _ in 0..3 {
        let sent = packets(&mut server);
        assert_eq!(sent[0].frames(), [Frame::StopSending { id, code: 9 }]);
        server.on_lost(sent[0].tokens[0]);
    }
}

#[test]
fn where_a_stream_ends_is_told() {
    let mut client = client();
    let any = ANY;
    assert_eq!(client.ends_in(any), None);
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[1; 500]).unwrap();
    assert_eq!(client.ends_in(any), None, "it may write on");
    client.finish(id).unwrap();
    assert_eq!(client.ends_in(any), Some(500));
    assert!(!client.take_new_end(), "it is alone");
    let other = client.open(Dir::Uni).unwrap();
    client.write(other, &[1; 1_000]).unwrap();
    assert!(client.take_new_end() && !client.take_new_end());
    assert_eq!(client.ends_in(any), Some(500), "the older one goes first");
    let most_urgent = Priority {
        urgency: 0,
        incremental: false,
    };
    client.set_priority(other, most_urgent);
    assert!(client.take_new_end());
    assert_eq!(client.ends_in(any), None);
    client.finish(other).unwrap();
    assert!(client.take_new_end());
    assert_eq!(client.ends_in(any), Some(1_000));
    let first = packet(&mut client, 600).unwrap();
    assert!(!first.flags.ends_stream);
    let rest = client.ends_in(any).unwrap();
    assert!((400..500).contains(&rest), "{rest}");
    // What was lost leaves before the end, too.
    client.on_lost(first.tokens[0]);
    assert_eq!(client.ends_in(any), Some(1_000));
    let none = Takes { free: false, ..any };
    assert_eq!(client.ends_in(none), None);
    assert!(!protected(&mut client, 620).flags.ends_stream);
    // Of the more urgent one the rest, and some of the other.
    let end = protected(&mut client, 620);
    assert_eq!((end.tokens.len(), end.flags.ends_stream), (3, true));
    // Sent again it ends again, but not for those who do not protect it.
    for token in &end.tokens {
        client.on_lost(*token);
    }
    client.set_protection(other, Protection::Never);
    assert!(!protected(&mut client, 500).flags.ends_stream);
    let plain = packet(&mut client, 1_200).unwrap();
    assert!(!plain.flags.ends_stream && !client.has_data());
}

/// What flow control holds back does not end.
#[test]
fn an_end_beyond_a_limit_is_none() {
    let mut client = client();
    for ends in [Some(2_000), None] {
        let id = client.open(Dir::Uni).unwrap();
        assert_eq!(client.write(id, &[1; 2_000]), Ok(2_000));
        client.finish(id).unwrap();
        assert_eq!(client.ends_in(ANY), ends, "of 3000 bytes in all");
        while packet(&mut client, 1_200).is_some() {}
    }
}

#[test]
fn retransmissions_come_before_new_data() {
    let mut client = client();
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[1; 1500]).unwrap();
    let first = packet(&mut client, 300).unwrap();
    let _second = packet(&mut client, 300).unwrap();
    client.on_lost(first.tokens[0]);
    let third = packet(&mut client, 300).unwrap();
    assert!(matches!(third.tokens[0], Token::Stream { offset: 0, .. }));
    assert!(third.flags.repeats && !first.flags.repeats);
    assert_eq!(
        client.stats().retransmitted_bytes,
        match first.tokens[0] {
            Token::Stream { len, .. } => u64::from(len),
            _ => 0,
        }
    );
    let fourth = packet(&mut client, 300).unwrap();
    assert!(matches!(
        fourth.tokens[0],
        Token::Stream { offset: 500.., .. }
    ));
}

#[test]
fn fin_alone_is_sent_and_sent_again() {
    let mut client = client();
    let id = client.open(Dir::Uni).unwrap();
    client.finish(id).unwrap();
    let sent = packets(&mut client);
    assert_eq!(
        sent[0].tokens,
        [Token::Stream {
            id,
            offset: 0,
            len: 0,
            fin: true
        }]
    );
    client.on_lost(sent[0].tokens[0]);
    let again = packets(&mut client);
    assert_eq!(again[0].tokens, sent[0].tokens);
    client.on_acked(again[0].tokens[0]);
    assert_eq!(events(&mut client), [StreamEvent::Finished(id)]);
    assert_eq!(client.stats().open_streams, 0);
}

#[test]
fn opening_waits_for_the_peer() {
    let mut client = client();
    assert!(client.open(Dir::Uni).is_some());
    assert!(client.open(Dir::Uni).is_some());
    assert!(!client.has_control());
    assert_eq!(client.open(Dir::Uni), None);
    assert_eq!(client.open(Dir::Uni), None);
    let sent = packets(&mut client);
    assert_eq!(
        sent[0].frames(),
        [Frame::StreamsBlocked {
            dir: Dir::Uni,
            limit: 2
        }]
    );
    assert!(!client.has_control());
    client.on_max_streams(Dir::Uni, 3).unwrap();
    assert_eq!(events(&mut client), [StreamEvent::Available(Dir::Uni)]);
    assert_eq!(client.open(Dir::Uni), Some(client_uni(2)));
}

#[test]
fn streams_are_granted_as_they_end() {
    let mut server = server();
    for index in 0..50 {
        let id = client_uni(index);
        stream_frame(&mut server, id, 0, &[1; 10], true).unwrap();
        assert_eq!(server.accept(Dir::Uni), Some(id));
        assert_eq!(read_all(&mut server, id).0.len(), 10);
        let sent = packets(&mut server);
        let grant = Frame::MaxStreams {
            dir: Dir::Uni,
            max: index + 3,
        };
        assert!(sent[0].frames().contains(&grant), "{:?}", sent[0].frames());
        server.on_lost(Token::MaxStreams(Dir::Uni));
        assert_eq!(packets(&mut server)[0].frames(), [grant]);
    }
}

/// Of 10,000 bytes.
fn with_a_small_send_buffer() -> StreamSet {
    let mut config = small_config();
    config.send_buffer_bytes = 10_000;
    config.max_concurrent_uni_streams = 10;
    config.stream_receive_window = WindowConfig::fixed(100_000);
    set(Side::Client, &config)
}

#[test]
fn send_buffer_is_shared() {
    let mut client = with_a_small_send_buffer();
    let (a, b) = (
        client.open(Dir::Uni).unwrap(),
        client.open(Dir::Uni).unwrap(),
    );
    let first = client.write(a, &[1; 50_000]).unwrap();
    assert!((8000..9500).contains(&first), "{first}");
    assert_eq!(client.write(a, &[1; 50_000]), Ok(0));
    // Another stream still finds room.
    let second = client.write(b, &[1; 50_000]).unwrap();
    assert!(second > 500, "{second}");
    assert!(client.stats().send_buffered_bytes <= 10_000);
    let sent = packets(&mut client);
    assert_eq!(events(&mut client), []);
    for token in sent.iter().flat_map(|packet| &packet.tokens) {
        client.on_acked(*token);
    }
    let woken = events(&mut client);
    assert!(woken.contains(&StreamEvent::Writable(a)), "{woken:?}");
    assert!(client.write(a, &[1; 50_000]).unwrap() > 0);
}

/// Room in the send buffer goes to whoever is sent first: what others fill it with leaves later.
#[test]
fn writers_are_woken_in_the_order_in_which_they_are_sent() {
    let mut client = with_a_small_send_buffer();
    let ids: Vec<StreamId> = (0..5).map(|_| client.open(Dir::Uni).unwrap()).collect();
    // The last one but one is the most urgent; the first two take turns, after all others.
    let priority = |urgency, incremental| Priority {
        urgency,
        incremental,
    };
    client.set_priority(ids[0], priority(5, true));
    client.set_priority(ids[1], priority(5, true));
    client.set_priority(ids[3], priority(1, false));
    // They are cut short in an order that is none of these.
    for index in [1, 4, 0, 2, 3] {
        client.write(ids[index], &[1; 50_000]).unwrap();
    }
    let sent = packets(&mut client);
    for token in sent.iter().flat_map(|packet| &packet.tokens) {
        client.on_acked(*token);
    }
    let woken: Vec<usize> = events(&mut client)
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Writable(id) => ids.iter().position(|it| it == id),
            _ => None,
        })
        .collect();
    assert_eq!(woken, [3, 2, 4, 1, 0]);
}

#[test]
fn windows_are_granted_and_tuned() {
    let mut server = server();
    let id = client_uni(0);
    stream_frame(&mut server, id, 0, &[1; 1000], false).unwrap();
    assert_eq!(read_all(&mut server, id).0.len(), 1000);
    let frames = packets(&mut server);
    assert_eq!(frames[0].frames(), [Frame::MaxStreamData { id, max: 3000 }]);
    // Half a window was read within one RTT: the next frame sees the window doubled.
    stream_frame(&mut server, id, 1000, &[1; 10], false).unwrap();
    let frames = packets(&mut server);
    let frames = frames[0].frames();
    assert!(
        frames.contains(&Frame::MaxStreamData { id, max: 5000 }),
        "{frames:?}"
    );
    // The connection's window makes room for one and a half of it.
    assert!(frames.contains(&Frame::MaxData(1000 + 6000)), "{frames:?}");
    server.on_lost(Token::MaxStreamData(id));
    server.on_lost(Token::MaxData);
    let again = packets(&mut server);
    assert_eq!(again[0].frames(), frames);
    // Nothing more once the end is known.
    stream_frame(&mut server, id, 1010, &[1; 4000 - 10], false).unwrap();
    stream_frame(&mut server, id, 5000, &[], true).unwrap();
    server.on_lost(Token::MaxStreamData(id));
    read_all(&mut server, id);
    let rest = packets(&mut server);
    assert!(
        !rest
            .iter()
            .flat_map(|p| p.frames())
            .any(|f| matches!(f, Frame::MaxStreamData { .. }))
    );
}

#[test]
fn priorities_order_streams() {
    let config = TransportConfig::default();
    let mut client = set(Side::Client, &config);
    let ids: Vec<StreamId> = (0..3).map(|_| client.open(Dir::Uni).unwrap()).collect();
    for id in &ids {
        client.write(*id, &[1; 10_000]).unwrap();
    }
    client.set_priority(
        ids[2],
        Priority {
            urgency: 0,
            incremental: false,
        },
    );
    client.set_priority(
        ids[0],
        Priority {
            urgency: 7,
            incremental: true,
        },
    );
    let order: Vec<StreamId> = packets(&mut client)
        .iter()
        .flat_map(|packet| &packet.tokens)
        .map(|token| {
            if let Token::Stream { id, .. } = token {
                *id
            } else {
                panic!()
            }
        })
        .collect();
    let mut seen = order;
    seen.dedup();
    assert_eq!(seen, [ids[2], ids[1], ids[0]]);
}

#[test]
fn unordered_reads() {
    let mut server = server();
    let id = client_uni(0);
    stream_frame(&mut server, id, 600, &[6; 100], true).unwrap();
    assert_eq!(
        server.read_unordered(id, 1000),
        Ok(UnorderedOutcome::Chunk {
            offset: 600,
            data: vec![6; 100].into()
        })
    );
    assert_eq!(server.read(id, 1000), Err(ReadError::Unordered));
    assert_eq!(
        server.read_unordered(id, 1000),
        Ok(UnorderedOutcome::Blocked)
    );
    stream_frame(&mut server, id, 0, &[1; 650], false).unwrap();
    assert_eq!(
        server.read_unordered(id, 1000),
        Ok(UnorderedOutcome::Chunk {
            offset: 0,
            data: vec![1; 600].into()
        })
    );
    assert_eq!(
        server.read_unordered(id, 1000),
        Ok(UnorderedOutcome::Finished)
    );
    assert_eq!(server.stats().open_streams, 0);
}

#[test]
fn control_queue_has_a_limit() {
    let mut config = small_config();
    config.limits.queued_control_frames = 4;
    config.max_concurrent_uni_streams = 100;
    let mut client = set(Side::Client, &config);
    let ids: Vec<StreamId> = (0..50).map(|_| client.open(Dir::Uni).unwrap()).collect();
    for id in &ids {
        client.reset(*id, 1).unwrap();
    }
    assert_eq!(client.control.len(), 4);
    let sent = packets(&mut client);
    let resets: usize = sent.iter().map(|packet| packet.tokens.len()).sum();
    assert_eq!(resets, 50);
    for token in sent.iter().flat_map(|packet| &packet.tokens) {
        client.on_acked(*token);
    }
    assert_eq!(client.stats().open_streams, 0);
}

#[test]
fn events_of_dead_streams_do_not_pile_up() {
    let mut config = small_config();
    config.limits.pending_events = 10;
    let mut client = set(Side::Client, &config);
    let mut server = set(Side::Server, &config);
    for _ in 0..1000 {
        let id = client.open(Dir::Uni).unwrap();
        client.write(id, b"x").unwrap();
        client.finish(id).unwrap();
        flush(&mut client, &mut server);
        assert_eq!(server.accept(Dir::Uni), Some(id));
        read_all(&mut server, id);
        flush(&mut server, &mut client);
    }
    assert!(events(&mut client).len() <= 30);
    assert!(events(&mut server).len() <= 30);
}

#[test]
fn one_byte_fragments_with_gaps_stay_within_the_window() {
    let mut config = small_config();
    config.stream_receive_window = WindowConfig::fixed(100_000);
    config.connection_receive_window = WindowConfig::fixed(100_000);
    let mut server = set(Side::Server, &config);
    for offset in (1..100_000).step_by(2) {
        stream_frame(&mut server, client_uni(0), offset, &[1], false).unwrap();
    }
    let memory = server
        .table
        .get(client_uni(0))
        .unwrap()
        .recv
        .as_ref()
        .unwrap()
        .assembler()
        .memory();
    assert!(memory < 120_000 + 10_000, "{memory}");
    for offset in (0..100_000).step_by(2) {
        stream_frame(&mut server, client_uni(0), offset, &[1], false).unwrap();
    }
    assert_eq!(read_all(&mut server, client_uni(0)).0.len(), 100_000);
}
