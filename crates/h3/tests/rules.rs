//! A peer that breaks the rules of HTTP/3 or QPACK hears the code that the RFC names.

mod common;

use common::{echo, pair};
use h3::error::Code;
use tautline::{ConnectionError, ReadError};

/// A control stream with empty SETTINGS.
const CONTROL: &[u8] = &[0x00, 0x04, 0x00];
/// HEADERS of `GET https://abcdef/`, from the static table.
const GET: &[u8] = &[
    0x01, 0x0d, 0x00, 0x00, 0xd1, 0xd7, 0xc1, 0x50, 0x06, b'a', b'b', b'c', b'd', b'e', b'f',
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
    let cases: &[(&str, &[u8])] = &[
        ("no pseudo-headers", &[0x01, 0x02, 0x00, 0x00]),
        (
            "name in capitals",
            &[
                0x01, 0x11, 0x00, 0x00, 0xd1, 0xd7, 0xc1, 0x50, 0x06, b'a', b'b', b'c', b'd', b'e',
                b'f', 0x21, b'X', 0x01, b'y',
            ],
        ),
    ];
    for (name, bytes) in cases {
        let (quic, server, _endpoints) = pair().await;
        tokio::spawn(echo(server));
        let mut control = quic.open_uni().await.unwrap();
        control.write_all(CONTROL).await.unwrap();
        let (mut send, mut recv) = quic.open_bi().await.unwrap();
        send.write_all(bytes).await.unwrap();
        send.finish().unwrap();
        let told = recv.read_to_end(1_000).await;
        let reset =
            tautline::ReadToEndError::Read(ReadError::Reset(Code::H3_MESSAGE_ERROR.value()));
        assert_eq!(told, Err(reset), "{name}");
        assert!(quic.close_reason().is_none(), "{name}");
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
