//! A peer that breaks the rules of HTTP/3 or QPACK hears the code that the RFC names.

mod common;

use bytes::{Buf, Bytes};
use common::{echo, pair};
use h3::error::{Code, StreamError};
use tautline::{ConnectionError, ReadError};
use tautline_testkit::http3::{CONTROL, headers};

/// HEADERS of `GET https://abcdef/`, from the static table.
const GET: &[u8] = &[
    0x01, 0x0d, 0x00, 0x00, 0xd1, 0xd7, 0xc1, 0x50, 0x06, b'a', b'b', b'c', b'd', b'e', b'f',
];

const GET_FIELDS: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a"),
    (":path", "/"),
];

/// Bytes of a stream, and whether it ends after them.
type Sent<'a> = (&'a [u8], bool);

/// What a client sends.
struct Client<'a> {
    unidirectional: &'a [Sent<'a>],
    request: Option<Sent<'a>>,
}

/// How the server ends the connection. Waits for it.
async fn closed(client: Client<'_>) -> Option<u64> {
    let (quic, server, _endpoints) = pair().await;
    tokio::spawn(echo(server));
    let mut held = Vec::new();
    for (bytes, fin) in client.unidirectional {
        let mut stream = quic.open_uni().await.unwrap();
        stream.write_all(bytes).await.unwrap();
        if *fin {
            stream.finish().unwrap();
        }
        held.push(stream);
    }
    let mut request = None;
    if let Some((bytes, fin)) = client.request {
        let (mut send, recv) = quic.open_bi().await.unwrap();
        send.write_all(bytes).await.unwrap();
        if fin {
            send.finish().unwrap();
        }
        request = Some((send, recv));
    }
    let reason = quic.closed().await;
    drop((held, request));
    match reason {
        ConnectionError::PeerApplication { code, .. } => Some(code),
        _ => None,
    }
}

#[track_caller]
fn expect(name: &str, told: Option<u64>, code: Code) {
    assert_eq!(told, Some(code.value()), "{name}");
}

#[tokio::test]
async fn streams_of_the_wrong_kind_or_number() {
    let cases: &[(&str, &[Sent<'_>], Code)] = &[
        (
            "push stream",
            &[(CONTROL, false), (&[0x01, 0x00], false)],
            Code::H3_STREAM_CREATION_ERROR,
        ),
        (
            "two control streams",
            &[(CONTROL, false), (CONTROL, false)],
            Code::H3_STREAM_CREATION_ERROR,
        ),
        (
            "two encoder streams",
            &[(CONTROL, false), (&[0x02], false), (&[0x02], false)],
            Code::H3_STREAM_CREATION_ERROR,
        ),
        (
            "two decoder streams",
            &[(CONTROL, false), (&[0x03], false), (&[0x03], false)],
            Code::H3_STREAM_CREATION_ERROR,
        ),
        (
            "control stream closed",
            &[(CONTROL, true)],
            Code::H3_CLOSED_CRITICAL_STREAM,
        ),
        (
            "encoder stream closed",
            &[(CONTROL, false), (&[0x02], true)],
            Code::H3_CLOSED_CRITICAL_STREAM,
        ),
        (
            "decoder stream closed",
            &[(CONTROL, false), (&[0x03], true)],
            Code::H3_CLOSED_CRITICAL_STREAM,
        ),
    ];
    for (name, unidirectional, code) in cases {
        let told = closed(Client {
            unidirectional,
            request: None,
        })
        .await;
        expect(name, told, *code);
    }
}

#[tokio::test]
async fn frames_of_the_control_stream() {
    let cases: &[(&str, &[u8], Code)] = &[
        (
            "no SETTINGS first",
            &[0x00, 0x07, 0x01, 0x00],
            Code::H3_MISSING_SETTINGS,
        ),
        (
            "second SETTINGS",
            &[0x00, 0x04, 0x00, 0x04, 0x00],
            Code::H3_FRAME_UNEXPECTED,
        ),
        (
            "setting of HTTP/2",
            &[0x00, 0x04, 0x02, 0x02, 0x01],
            Code::H3_SETTINGS_ERROR,
        ),
        (
            "duplicate setting",
            &[0x00, 0x04, 0x04, 0x06, 0x05, 0x06, 0x05],
            Code::H3_SETTINGS_ERROR,
        ),
        (
            "frame of HTTP/2",
            &[0x00, 0x04, 0x00, 0x06, 0x00],
            Code::H3_FRAME_UNEXPECTED,
        ),
        (
            "DATA",
            &[0x00, 0x04, 0x00, 0x00, 0x01, 0x00],
            Code::H3_FRAME_UNEXPECTED,
        ),
        (
            "HEADERS",
            &[0x00, 0x04, 0x00, 0x01, 0x02, 0x00, 0x00],
            Code::H3_FRAME_UNEXPECTED,
        ),
        (
            "GOAWAY grows",
            &[0x00, 0x04, 0x00, 0x07, 0x01, 0x04, 0x07, 0x01, 0x08],
            Code::H3_ID_ERROR,
        ),
        (
            "GOAWAY of two numbers",
            &[0x00, 0x04, 0x00, 0x07, 0x02, 0x04, 0x07],
            Code::H3_FRAME_ERROR,
        ),
        (
            "MAX_PUSH_ID shrinks",
            &[0x00, 0x04, 0x00, 0x0d, 0x01, 0x05, 0x0d, 0x01, 0x04],
            Code::H3_ID_ERROR,
        ),
        (
            "CANCEL_PUSH of nothing",
            &[0x00, 0x04, 0x00, 0x03, 0x01, 0x05],
            Code::H3_ID_ERROR,
        ),
        (
            "PRIORITY_UPDATE without ID",
            &[0x00, 0x04, 0x00, 0x80, 0x0f, 0x07, 0x00, 0x00],
            Code::H3_FRAME_ERROR,
        ),
        (
            "PRIORITY_UPDATE of a push",
            &[0x00, 0x04, 0x00, 0x80, 0x0f, 0x07, 0x01, 0x01, 0x05],
            Code::H3_ID_ERROR,
        ),
        (
            "PRIORITY_UPDATE of a response",
            &[0x00, 0x04, 0x00, 0x80, 0x0f, 0x07, 0x00, 0x01, 0x01],
            Code::H3_ID_ERROR,
        ),
    ];
    for (name, bytes, code) in cases {
        let unidirectional = &[(*bytes, false)];
        let told = closed(Client {
            unidirectional,
            request: None,
        })
        .await;
        expect(name, told, *code);
    }
}

#[tokio::test]
async fn instructions_of_qpack() {
    let cases: &[(&str, &[u8], Code)] = &[
        (
            "insert",
            &[0x02, 0xc0, 0x01, b'x'],
            Code::QPACK_ENCODER_STREAM_ERROR,
        ),
        (
            "capacity above ours",
            &[0x02, 0x3f, 0xff, 0x7f],
            Code::QPACK_ENCODER_STREAM_ERROR,
        ),
        (
            "increment of nothing",
            &[0x03, 0x00],
            Code::QPACK_DECODER_STREAM_ERROR,
        ),
        (
            "acknowledgement of nothing",
            &[0x03, 0x80],
            Code::QPACK_DECODER_STREAM_ERROR,
        ),
    ];
    for (name, bytes, code) in cases {
        let unidirectional = &[(CONTROL, false), (*bytes, false)];
        let told = closed(Client {
            unidirectional,
            request: None,
        })
        .await;
        expect(name, told, *code);
    }
}

#[tokio::test]
async fn frames_of_requests() {
    let cases: &[(&str, &[u8], Code)] = &[
        ("DATA first", &[0x00, 0x01, 0x00], Code::H3_FRAME_UNEXPECTED),
        ("SETTINGS", &[0x04, 0x00], Code::H3_FRAME_UNEXPECTED),
        (
            "PUSH_PROMISE",
            &[0x05, 0x03, 0x00, 0x00, 0x00],
            Code::H3_FRAME_UNEXPECTED,
        ),
        ("frame of HTTP/2", &[0x08, 0x00], Code::H3_FRAME_UNEXPECTED),
        (
            "PRIORITY_UPDATE",
            &[0x80, 0x0f, 0x07, 0x00, 0x01, 0x00],
            Code::H3_FRAME_UNEXPECTED,
        ),
        ("cut off", &GET[..8], Code::H3_FRAME_ERROR),
        (
            "DATA cut off",
            &[GET, &[0x00, 0x03, 0x01]].concat(),
            Code::H3_FRAME_ERROR,
        ),
        (
            "DATA behind trailers",
            &[GET, &[0x01, 0x02, 0x00, 0x00, 0x00, 0x01, 0x01]].concat(),
            Code::H3_FRAME_UNEXPECTED,
        ),
        (
            "GOAWAY behind the request",
            &[GET, &[0x07, 0x01, 0x00]].concat(),
            Code::H3_FRAME_UNEXPECTED,
        ),
        (
            "trailers that cannot be decoded",
            &[GET, &[0x01, 0x03, 0x00, 0x00, 0x80]].concat(),
            Code::QPACK_DECOMPRESSION_FAILED,
        ),
        (
            "padding of zeros in a string",
            &[0x01, 0x06, 0x00, 0x00, 0x21, b'x', 0x81, 0x00],
            Code::QPACK_DECOMPRESSION_FAILED,
        ),
        (
            "dynamic table",
            &[0x01, 0x03, 0x02, 0x00, 0x80],
            Code::QPACK_DECOMPRESSION_FAILED,
        ),
        (
            "static table's end",
            &[0x01, 0x04, 0x00, 0x00, 0xff, 0x70],
            Code::QPACK_DECOMPRESSION_FAILED,
        ),
        (
            "too long",
            &[0x01, 0xbf, 0xff, 0xff, 0xff],
            Code::H3_EXCESSIVE_LOAD,
        ),
    ];
    for (name, bytes, code) in cases {
        let unidirectional = &[(CONTROL, false)];
        let request = Some((*bytes, true));
        let told = closed(Client {
            unidirectional,
            request,
        })
        .await;
        expect(name, told, *code);
    }
}

/// A malformed request concerns its stream alone.
#[tokio::test]
async fn malformed_requests_are_reset() {
    let with = |more: &[(&str, &str)]| headers(&[GET_FIELDS, more].concat());
    let cases: &[(&str, Vec<u8>)] = &[
        ("no fields", headers(&[])),
        ("no :method", headers(&GET_FIELDS[1..])),
        ("no :path", headers(&GET_FIELDS[..3])),
        (
            "no :scheme",
            headers(&[GET_FIELDS[0], GET_FIELDS[2], GET_FIELDS[3]]),
        ),
        (
            "no :authority",
            headers(&[GET_FIELDS[0], GET_FIELDS[1], GET_FIELDS[3]]),
        ),
        (":path twice", with(&[(":path", "/")])),
        ("unknown pseudo-header", with(&[(":secret", "x")])),
        ("pseudo-header of a response", with(&[(":status", "200")])),
        (
            "pseudo-header behind others",
            headers(&[&GET_FIELDS[..3], &[("x", "y"), (":path", "/")]].concat()),
        ),
        (
            "empty :path",
            headers(&[&GET_FIELDS[..3], &[(":path", "")]].concat()),
        ),
        ("name in capitals", with(&[("Accept", "x")])),
        ("forbidden character", with(&[("x", "a\rb")])),
        ("connection", with(&[("connection", "close")])),
        ("keep-alive", with(&[("keep-alive", "timeout=5")])),
        ("proxy-connection", with(&[("proxy-connection", "x")])),
        (
            "transfer-encoding",
            with(&[("transfer-encoding", "chunked")]),
        ),
        ("upgrade", with(&[("upgrade", "websocket")])),
        ("te", with(&[("te", "gzip")])),
        ("host is another", with(&[("host", "b")])),
        (
            "two lengths",
            with(&[("content-length", "1"), ("content-length", "2")]),
        ),
        ("length is no number", with(&[("content-length", "-1")])),
        (
            "body too short",
            [with(&[("content-length", "5")]), vec![0, 2, 1, 2]].concat(),
        ),
        (
            "body too long",
            [with(&[("content-length", "1")]), vec![0, 2, 1, 2]].concat(),
        ),
        ("body missing", with(&[("content-length", "1")])),
        (
            "pseudo-header among trailers",
            [with(&[]), headers(&[(":path", "/")])].concat(),
        ),
        (
            "connection among trailers",
            [with(&[]), headers(&[("connection", "close")])].concat(),
        ),
    ];
    let (quic, server, _endpoints) = pair().await;
    tokio::spawn(echo(server));
    let mut control = quic.open_uni().await.unwrap();
    control.write_all(CONTROL).await.unwrap();
    for (name, bytes) in cases {
        let (mut send, mut recv) = quic.open_bi().await.unwrap();
        send.write_all(bytes).await.unwrap();
        send.finish().unwrap();
        let told = recv.read_to_end(1_000).await;
        let reset =
            tautline::ReadToEndError::Read(ReadError::Reset(Code::H3_MESSAGE_ERROR.value()));
        assert_eq!(told, Err(reset), "{name}");
        assert!(quic.close_reason().is_none(), "{name}");
    }
    // Others are answered.
    let (mut send, mut recv) = quic.open_bi().await.unwrap();
    let good = with(&[("te", "trailers"), ("content-length", "2")]);
    send.write_all(&[&good, &[0, 2, 1, 2][..]].concat())
        .await
        .unwrap();
    send.finish().unwrap();
    assert!(!recv.read_to_end(1_000).await.unwrap().is_empty());
}

/// The client need not have finished to hear of it.
#[tokio::test]
async fn malformed_requests_are_stopped() {
    let (quic, server, _endpoints) = pair().await;
    tokio::spawn(echo(server));
    let mut control = quic.open_uni().await.unwrap();
    control.write_all(CONTROL).await.unwrap();
    let fields = [GET_FIELDS, &[("content-length", "1")]].concat();
    for bytes in [
        headers(&[GET_FIELDS, &[("upgrade", "x")]].concat()),
        [headers(&fields), vec![0, 2]].concat(),
    ] {
        let (mut send, mut recv) = quic.open_bi().await.unwrap();
        send.write_all(&bytes).await.unwrap();
        let stopped = send.stopped().await.unwrap();
        assert_eq!(stopped, Some(Code::H3_MESSAGE_ERROR.value()));
        let told = recv.read_to_end(1_000).await.unwrap_err();
        let reset = ReadError::Reset(Code::H3_MESSAGE_ERROR.value());
        assert_eq!(told, tautline::ReadToEndError::Read(reset));
    }
}

#[tokio::test]
async fn a_request_that_never_begins_is_incomplete() {
    let (quic, server, _endpoints) = pair().await;
    tokio::spawn(echo(server));
    let mut control = quic.open_uni().await.unwrap();
    control.write_all(CONTROL).await.unwrap();
    // Nothing, and an unknown frame.
    for bytes in [&[][..], &[0x21, 0x01, 0x00]] {
        let (mut send, mut recv) = quic.open_bi().await.unwrap();
        send.write_all(bytes).await.unwrap();
        send.finish().unwrap();
        let told = recv.read_to_end(1_000).await.unwrap_err();
        let reset = ReadError::Reset(Code::H3_REQUEST_INCOMPLETE.value());
        assert_eq!(told, tautline::ReadToEndError::Read(reset));
    }
    assert!(quic.close_reason().is_none());
}

/// Fields that are short as they are sent and too large when decoded.
#[tokio::test]
async fn field_sections_that_are_too_large_are_answered_with_431() {
    let (quic, server, _endpoints) = pair().await;
    tokio::spawn(echo(server));
    let mut control = quic.open_uni().await.unwrap();
    control.write_all(CONTROL).await.unwrap();
    let mut section = headers(GET_FIELDS).split_off(3);
    // `accept: */*` from the static table: one byte sent, 41 bytes counted.
    section.extend([0xdd; 2_000]);
    let mut bytes = vec![0x01, 0x40 | (section.len() >> 8) as u8, section.len() as u8];
    bytes.extend(section);
    let (mut send, mut recv) = quic.open_bi().await.unwrap();
    send.write_all(&bytes).await.unwrap();
    send.finish().unwrap();
    let answer = recv.read_to_end(1_000).await.unwrap();
    // HEADERS with `:status` from the static table and 431 as a literal, Huffman or not.
    let plain = [0x01, 0x07, 0x00, 0x00, 0x5f, 0x09, 0x03, b'4', b'3', b'1'];
    assert_eq!(answer[0], 0x01);
    assert_eq!(answer[4..6], plain[4..6], "{answer:?}");
    assert!(quic.close_reason().is_none());
}

/// What our client makes of a response, and what the server hears of it.
async fn response(frames: &[u8], fin: bool) -> (Result<Vec<u8>, StreamError>, Option<u64>) {
    let (client, server, _endpoints) = pair().await;
    let (mut driver, mut http) = tautline_h3::client_builder()
        .build::<_, _, Bytes>(tautline_h3::Connection::new(client.clone()))
        .await
        .unwrap();
    tokio::spawn(async move { driver.wait_idle().await });
    let request = http::Request::get("https://localhost/").body(()).unwrap();
    let mut stream = http.send_request(request).await.unwrap();
    let mut control = server.open_uni().await.unwrap();
    control.write_all(CONTROL).await.unwrap();
    let (mut send, _recv) = server.accept_bi().await.unwrap();
    send.write_all(frames).await.unwrap();
    if fin {
        send.finish().unwrap();
    }
    let outcome = async {
        while stream.recv_response().await?.status().is_informational() {}
        let mut body = Vec::new();
        while let Some(mut data) = stream.recv_data().await? {
            body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        stream.recv_trailers().await?;
        Ok(body)
    };
    let outcome = outcome.await;
    let told = match &outcome {
        Ok(_) => None,
        Err(StreamError::ConnectionError(_)) => match server.closed().await {
            ConnectionError::PeerApplication { code, .. } => Some(code),
            _ => None,
        },
        Err(_) if fin => None,
        Err(_) => send.stopped().await.unwrap(),
    };
    (outcome, told)
}

#[tokio::test]
async fn malformed_responses_are_stopped() {
    let ok = |more: &[(&str, &str)]| headers(&[&[(":status", "200")], more].concat());
    let cases: &[(&str, Vec<u8>)] = &[
        ("no :status", headers(&[("x", "y")])),
        (":status twice", ok(&[(":status", "200")])),
        (":status is no number", headers(&[(":status", "abc")])),
        ("pseudo-header of a request", ok(&[(":path", "/")])),
        (
            "pseudo-header behind others",
            headers(&[("x", "y"), (":status", "200")]),
        ),
        ("name in capitals", ok(&[("Server", "x")])),
        ("connection", ok(&[("connection", "close")])),
        ("transfer-encoding", ok(&[("transfer-encoding", "chunked")])),
        ("te", ok(&[("te", "trailers")])),
        (
            "body too long",
            [ok(&[("content-length", "1")]), vec![0, 2, 1, 2]].concat(),
        ),
        (
            "trailers before the body's end",
            [ok(&[("content-length", "1")]), headers(&[])].concat(),
        ),
        (
            "pseudo-header among trailers",
            [ok(&[]), headers(&[(":status", "200")])].concat(),
        ),
    ];
    for (name, frames) in cases {
        let (outcome, told) = response(frames, false).await;
        let Err(StreamError::Undefined(error)) = outcome else {
            panic!("{name}: {outcome:?}");
        };
        assert!(error.is::<tautline_h3::Malformed>(), "{name}: {error}");
        assert_eq!(told, Some(Code::H3_MESSAGE_ERROR.value()), "{name}");
    }
}

#[tokio::test]
async fn responses_that_end_too_soon_are_errors() {
    let length = headers(&[(":status", "200"), ("content-length", "3")]);
    let early = headers(&[(":status", "103")]);
    for (name, frames) in [
        ("no response", vec![]),
        ("interim responses only", early.clone()),
        ("no body", length.clone()),
        ("half a body", [&length, &[0, 1, 1][..]].concat()),
    ] {
        let (outcome, _) = response(&frames, true).await;
        let Err(StreamError::Undefined(error)) = outcome else {
            panic!("{name}: {outcome:?}");
        };
        assert!(error.is::<tautline_h3::Malformed>(), "{name}: {error}");
    }
    let whole = [&early, &length, &[0, 1, 1, 0, 2, 2, 3][..]].concat();
    assert_eq!(response(&whole, true).await.0.unwrap(), [1, 2, 3]);
}

#[tokio::test]
async fn frames_of_responses() {
    let ok = headers(&[(":status", "200")]);
    let behind = |frames: &[u8]| [&ok, frames].concat();
    let trailers = headers(&[("x", "y")]);
    for (name, frames, code) in [
        ("DATA first", vec![0, 1, 1], Code::H3_FRAME_UNEXPECTED),
        ("PUSH_PROMISE", vec![5, 3, 0, 0, 0], Code::H3_ID_ERROR),
        ("SETTINGS", behind(&[4, 0]), Code::H3_FRAME_UNEXPECTED),
        ("GOAWAY", behind(&[7, 1, 0]), Code::H3_FRAME_UNEXPECTED),
        (
            "frame of HTTP/2",
            behind(&[6, 0]),
            Code::H3_FRAME_UNEXPECTED,
        ),
        (
            "DATA behind trailers",
            behind(&[&trailers[..], &[0, 1, 1]].concat()),
            Code::H3_FRAME_UNEXPECTED,
        ),
        (
            "trailers twice",
            behind(&[&trailers[..], &trailers[..]].concat()),
            Code::H3_FRAME_UNEXPECTED,
        ),
        ("DATA cut off", behind(&[0, 3, 1]), Code::H3_FRAME_ERROR),
        ("DATA without a byte", behind(&[0, 3]), Code::H3_FRAME_ERROR),
        (
            "frame header cut off",
            behind(&[0x40]),
            Code::H3_FRAME_ERROR,
        ),
        (
            "dynamic table",
            vec![1, 3, 2, 0, 0x80],
            Code::QPACK_DECOMPRESSION_FAILED,
        ),
        (
            "dynamic table in trailers",
            behind(&[1, 3, 0, 0, 0x80]),
            Code::QPACK_DECOMPRESSION_FAILED,
        ),
    ] {
        let (outcome, told) = response(&frames, true).await;
        assert!(outcome.is_err(), "{name}");
        expect(name, told, code);
    }
}

/// RFC 9114 s6.1, s6.2, s7.2.
#[tokio::test]
async fn servers_that_break_the_rules_hear_why() {
    let update = [0, 4, 0, 0x80, 0x0f, 0x07, 0x00, 0x04, 0, b'u', b'=', b'6'];
    let cases: &[(&str, &[u8], bool, Code)] = &[
        (
            "bidirectional stream",
            &[0x21],
            true,
            Code::H3_STREAM_CREATION_ERROR,
        ),
        ("push", &[0x01, 0x00], false, Code::H3_ID_ERROR),
        (
            "no SETTINGS",
            &[0, 7, 1, 0],
            false,
            Code::H3_MISSING_SETTINGS,
        ),
        ("PRIORITY_UPDATE", &update, false, Code::H3_FRAME_UNEXPECTED),
        (
            "MAX_PUSH_ID",
            &[0, 4, 0, 0x0d, 1, 0],
            false,
            Code::H3_FRAME_UNEXPECTED,
        ),
        (
            "GOAWAY of a push",
            &[0, 4, 0, 7, 1, 3],
            false,
            Code::H3_ID_ERROR,
        ),
        (
            "insert",
            &[2, 0xc0, 1, b'x'],
            false,
            Code::QPACK_ENCODER_STREAM_ERROR,
        ),
    ];
    for (name, bytes, bidirectional, code) in cases {
        let (client, server, _endpoints) = pair().await;
        let (mut driver, _http) = tautline_h3::client_builder()
            .build::<_, _, Bytes>(tautline_h3::Connection::new(client))
            .await
            .unwrap();
        tokio::spawn(async move { driver.wait_idle().await });
        let mut stream = if *bidirectional {
            server.open_bi().await.unwrap().0
        } else {
            server.open_uni().await.unwrap()
        };
        stream.write_all(bytes).await.unwrap();
        let told = match server.closed().await {
            ConnectionError::PeerApplication { code, .. } => Some(code),
            _ => None,
        };
        expect(name, told, *code);
    }
}

/// Whatever the pieces: the request is answered, and so are others meanwhile.
#[tokio::test]
async fn requests_in_single_bytes() {
    let (quic, server, _endpoints) = pair().await;
    tokio::spawn(echo(server));
    let mut control = quic.open_uni().await.unwrap();
    for byte in CONTROL {
        control.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let (mut send, mut recv) = quic.open_bi().await.unwrap();
    for byte in GET.iter().chain(&[0x00, 0x03, 1, 2, 3]) {
        send.write_all(&[*byte]).await.unwrap();
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    send.finish().unwrap();
    let answer = recv.read_to_end(10_000).await.unwrap();
    // HEADERS, then what was sent, in DATA frames of whatever size, then perhaps grease. All of
    // it is short: types and lengths of one byte, but for grease, which comes last.
    let mut frames = &answer[..];
    let mut echoed = Vec::new();
    while let [kind @ (0x00 | 0x01), len @ ..0x40, rest @ ..] = frames {
        let (payload, behind) = rest.split_at(usize::from(*len));
        if *kind == 0x00 {
            echoed.extend_from_slice(payload);
        }
        frames = behind;
    }
    assert_eq!(answer[0], 0x01);
    assert_eq!(echoed, [1, 2, 3], "{answer:?}");
    assert!(quic.close_reason().is_none());
}
