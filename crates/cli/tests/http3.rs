//! `tautline serve` and `tautline get` against peers that speak HTTP/3 by hand.

mod common;

use std::{process::Command, sync::Arc, thread, time::Duration};

use bytes::Bytes;
use common::{Server, fail, noise, put, read, succeed, tautline};
use h3::error::Code;
use tautline::{
    Connection, Endpoint, ReadError, ReadToEndError, TransportConfig, config::WindowConfig, tls,
};
use tautline_testkit::http3::{CONTROL, headers};
use tokio::runtime::{Builder, Runtime};

const GET: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "localhost"),
    (":path", "/file"),
];

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A connection to `server`, with a control stream.
async fn connect(server: &Server) -> (Endpoint, Connection) {
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let config = tls::ClientTls::danger_accept_any_certificate().alpn(["h3"]);
    endpoint.set_default_client_config(config.build().unwrap());
    let address = ([127, 0, 0, 1], server.port).into();
    let quic = endpoint.connect(address, "localhost").unwrap();
    let quic = quic.await.unwrap();
    let mut control = quic.open_uni().await.unwrap();
    control.write_all(CONTROL).await.unwrap();
    // A control stream stays open.
    tokio::spawn(async move { control.stopped().await });
    (endpoint, quic)
}

#[test]
fn malformed_requests_get_no_file() {
    let www = tempfile::tempdir().unwrap();
    put(www.path(), "file", b"here\n");
    let server = Server::serve(www.path(), &[]);
    let with = |more: &[(&str, &str)]| headers(&[GET, more].concat());
    let length = |value| with(&[("content-length", value)]);
    let malformed = Code::H3_MESSAGE_ERROR;
    let cases: &[(&str, Vec<u8>, Code)] = &[
        ("no :path", headers(&GET[..3]), malformed),
        (":path twice", with(&[(":path", "/")]), malformed),
        ("unknown pseudo-header", with(&[(":x", "y")]), malformed),
        ("capitals", with(&[("Range", "x")]), malformed),
        ("connection", with(&[("connection", "close")]), malformed),
        ("te", with(&[("te", "gzip")]), malformed),
        (
            "body too short",
            [length("5"), vec![0, 1, 1]].concat(),
            malformed,
        ),
        (
            "body too long",
            [length("1"), vec![0, 2, 1, 1]].concat(),
            malformed,
        ),
        ("no body", length("5"), malformed),
        (
            "pseudo-header among trailers",
            [with(&[]), headers(&[(":path", "/")])].concat(),
            malformed,
        ),
        ("nothing", vec![], Code::H3_REQUEST_INCOMPLETE),
    ];
    runtime().block_on(async {
        let (_endpoint, quic) = connect(&server).await;
        for (name, bytes, code) in cases {
            let (mut send, mut recv) = quic.open_bi().await.unwrap();
            send.write_all(bytes).await.unwrap();
            send.finish().unwrap();
            let told = recv.read_to_end(10_000).await;
            let reset = ReadError::Reset(code.value());
            assert_eq!(told, Err(ReadToEndError::Read(reset)), "{name}");
        }
        // A good one on the same connection, with a body that nobody needs.
        let (mut send, mut recv) = quic.open_bi().await.unwrap();
        let bytes = [length("2"), vec![0, 2, 1, 1]].concat();
        send.write_all(&bytes).await.unwrap();
        send.finish().unwrap();
        let answer = recv.read_to_end(10_000).await.unwrap();
        assert!(answer.windows(5).any(|part| part == b"here\n"));
    });
}

#[test]
fn answers_say_what_time_it_is() {
    let www = tempfile::tempdir().unwrap();
    put(www.path(), "file", b"here\n");
    let server = Server::serve(www.path(), &[]);
    runtime().block_on(async {
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let config = tls::ClientTls::danger_accept_any_certificate().alpn(["h3"]);
        endpoint.set_default_client_config(config.build().unwrap());
        let address = ([127, 0, 0, 1], server.port).into();
        let quic = endpoint.connect(address, "localhost").unwrap();
        let quic = tautline_h3::Connection::new(quic.await.unwrap());
        let (mut driver, mut http) = tautline_h3::client_builder()
            .build::<_, _, Bytes>(quic)
            .await
            .unwrap();
        tokio::spawn(async move { driver.wait_idle().await });
        for path in ["file", "missing", ""] {
            let request = http::Request::get(format!("https://localhost/{path}"));
            let mut stream = http.send_request(request.body(()).unwrap()).await.unwrap();
            // Fails if the answer was faster.
            let _ = stream.finish().await;
            let answer = stream.recv_response().await.unwrap();
            let date = answer.headers()[http::header::DATE].to_str().unwrap();
            httpdate::parse_http_date(date).unwrap();
        }
    });
}

/// A large answer is broken off when the request turns out to be malformed, or is.
#[test]
fn requests_that_break_later_end_their_answer() {
    let www = tempfile::tempdir().unwrap();
    put(www.path(), "file", &noise(64 << 20, 1));
    let server = Server::serve(www.path(), &[]);
    runtime().block_on(async {
        let (_endpoint, quic) = connect(&server).await;
        for (ends, code) in [
            (true, Code::H3_MESSAGE_ERROR),
            (false, Code::H3_REQUEST_INCOMPLETE),
        ] {
            let (mut send, mut recv) = quic.open_bi().await.unwrap();
            let head = headers(&[GET, &[("content-length", "5")]].concat());
            send.write_all(&head).await.unwrap();
            // The answer has begun, and waits for us to read.
            recv.read_chunk(1).await.unwrap().unwrap();
            if ends {
                send.finish().unwrap();
            } else {
                send.reset(Code::H3_REQUEST_CANCELLED.value()).unwrap();
            }
            let told = recv.read_to_end(usize::MAX).await;
            let reset = ReadError::Reset(code.value());
            assert_eq!(told.map(drop), Err(ReadToEndError::Read(reset)));
        }
    });
}

/// A server in this process, for so many connections; the command that gets `/file` from it.
fn serve<F, T>(
    got: &std::path::Path,
    connections: usize,
    answer: F,
) -> (Command, thread::JoinHandle<()>)
where
    F: Fn(usize, Connection) -> T + Send + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    let identity = tls::self_signed(["localhost"]).unwrap();
    let config = identity.server().alpn(["h3"]).build().unwrap();
    let fingerprint = identity.fingerprint.to_string();
    let (tell, told) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        runtime().block_on(async {
            let endpoint = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
            tell.send(endpoint.local_addr().port()).unwrap();
            let mut tasks = tokio::task::JoinSet::new();
            for index in 0..connections {
                let incoming = endpoint.accept().await.unwrap();
                tasks.spawn(answer(index, incoming.await.unwrap()));
            }
            while let Some(done) = tasks.join_next().await {
                done.unwrap();
            }
            endpoint.close(Code::H3_NO_ERROR.value(), b"");
            endpoint.wait_idle().await;
        });
    });
    let port = told.recv().unwrap();
    let mut command = tautline();
    command
        .args(["get", "--quiet", "--pin", &fingerprint, "--dir"])
        .arg(got)
        .arg(format!("https://localhost:{port}/file"));
    (command, thread)
}

/// Rejected, given up in the middle, and then answered from where it stopped.
#[test]
fn a_download_goes_on_after_the_server_gave_it_up() {
    let got = tempfile::tempdir().unwrap();
    let content = Arc::new(noise(300_000, 3));
    let body = Arc::clone(&content);
    let (mut get, thread) = serve(got.path(), 1, move |_, quic| {
        let body = Bytes::from_owner(body.to_vec());
        async move {
            let connection = tautline_h3::Connection::new(quic.clone());
            let mut http = tautline_h3::server_builder()
                .build::<_, Bytes>(connection)
                .await
                .unwrap();
            let mut requests = 0;
            while let Ok(Some(resolver)) = http.accept().await {
                let (request, mut stream) = resolver.resolve_request().await.unwrap();
                requests += 1;
                let range = request.headers().get("range");
                let range = range.map(|range| range.to_str().unwrap().to_owned());
                match (requests, range) {
                    (1, None) => {
                        stream.stop_sending(Code::H3_REQUEST_REJECTED);
                        stream.stop_stream(Code::H3_REQUEST_REJECTED);
                    }
                    (2, None) => {
                        let head = http::Response::builder()
                            .header("etag", "\"x\"")
                            .header("content-length", body.len());
                        let head = head.body(()).unwrap();
                        stream.send_response(head).await.unwrap();
                        stream.send_data(body.slice(..100_000)).await.unwrap();
                        // So that some of it arrives.
                        while quic.stream_stats().released_bytes < 100_000 {
                            tokio::task::yield_now().await;
                        }
                        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                        stream.stop_stream(Code::H3_REQUEST_CANCELLED);
                    }
                    (3, Some(range)) => {
                        assert_eq!(request.headers()["if-range"], "\"x\"");
                        let from = range.strip_prefix("bytes=").unwrap();
                        let from: usize = from.strip_suffix('-').unwrap().parse().unwrap();
                        let last = body.len() - 1;
                        let span = format!("bytes {from}-{last}/{}", body.len());
                        let head = http::Response::builder()
                            .status(206)
                            .header("etag", "\"x\"")
                            .header("content-range", span);
                        let head = head.body(()).unwrap();
                        stream.send_response(head).await.unwrap();
                        stream.send_data(body.slice(from..)).await.unwrap();
                        stream.finish().await.unwrap();
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(requests, 3);
            quic.closed().await;
        }
    });
    succeed(&mut get);
    assert!(read(got.path(), "file") == *content);
    thread.join().unwrap();
}

/// GOAWAY, and the request on another connection.
#[test]
fn a_download_moves_to_another_connection_when_the_server_goes_away() {
    let got = tempfile::tempdir().unwrap();
    let (mut get, thread) = serve(got.path(), 2, |index, quic| async move {
        let mut control = quic.open_uni().await.unwrap();
        control.write_all(CONTROL).await.unwrap();
        if index == 0 {
            // No request is answered. It ends as servers end that have finished. Not before the
            // request is there: else the client might not ask at all here, and wait for the next
            // connection, which nobody accepts meanwhile.
            let (mut send, _recv) = quic.accept_bi().await.unwrap();
            control.write_all(&[0x07, 0x01, 0x00]).await.unwrap();
            send.reset(Code::H3_REQUEST_REJECTED.value()).unwrap();
            return quic.close(Code::H3_NO_ERROR.value(), b"");
        }
        let (mut send, _recv) = quic.accept_bi().await.unwrap();
        let answer = headers(&[(":status", "200"), ("content-length", "5")]);
        let answer = [&answer, &[0, 5][..], b"here\n"].concat();
        send.write_all(&answer).await.unwrap();
        send.finish().unwrap();
        quic.closed().await;
    });
    succeed(&mut get);
    assert_eq!(read(got.path(), "file"), b"here\n");
    thread.join().unwrap();
}

/// There is an end to asking, and it says so.
#[test]
fn a_server_that_always_rejects_is_not_asked_for_ever() {
    let got = tempfile::tempdir().unwrap();
    let (mut get, thread) = serve(got.path(), 1, |_, quic| async move {
        let mut control = quic.open_uni().await.unwrap();
        control.write_all(CONTROL).await.unwrap();
        let mut requests = 0;
        while let Ok((mut send, _recv)) = quic.accept_bi().await {
            send.reset(Code::H3_REQUEST_REJECTED.value()).unwrap();
            requests += 1;
        }
        assert_eq!(requests, 4);
    });
    let said = fail(&mut get);
    assert!(said.contains("H3_REQUEST_REJECTED"), "{said}");
    assert!(said.contains("attempt 4 and the last"), "{said}");
    assert!(std::fs::read_dir(got.path()).unwrap().next().is_none());
    thread.join().unwrap();
}

/// Interim responses are passed over, but not for ever.
#[test]
fn interim_responses_without_end_are_an_error() {
    let got = tempfile::tempdir().unwrap();
    let (mut get, thread) = serve(got.path(), 1, |_, quic| async move {
        let mut control = quic.open_uni().await.unwrap();
        control.write_all(CONTROL).await.unwrap();
        let (mut send, _recv) = quic.accept_bi().await.unwrap();
        let many = headers(&[(":status", "103")]).repeat(100);
        while send.write_all(&many).await.is_ok() {}
    });
    let said = fail(&mut get);
    assert!(said.contains("interim responses without end"), "{said}");
    thread.join().unwrap();
}

/// Requests that are taken back make room for others in the client's eyes, not in the server's,
/// which has as many of them as it answers and keeps waiting, and no more.
#[test]
fn requests_that_are_taken_back_do_not_pile_up() {
    /// As many as a server may keep, and some.
    const FEW: usize = 400;
    const MANY: usize = 4 * FEW;
    for alpn in ["h3", "hq-interop"] {
        let www = tempfile::tempdir().unwrap();
        put(www.path(), "file", &noise(1_000_000, 9));
        let server = Server::serve(www.path(), &[]);
        runtime().block_on(async {
            let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
            let config = tls::ClientTls::danger_accept_any_certificate().alpn([alpn]);
            let mut config = config.build().unwrap();
            // Answers do not end by themselves.
            let mut transport = TransportConfig::default();
            transport.stream_receive_window = WindowConfig::fixed(1_000);
            config.transport = Arc::new(transport);
            let address = ([127, 0, 0, 1], server.port).into();
            let quic = endpoint.connect_with(config, address, "localhost").unwrap();
            let quic = quic.await.unwrap();
            let request = match alpn {
                "h3" => {
                    let mut control = quic.open_uni().await.unwrap();
                    control.write_all(CONTROL).await.unwrap();
                    tokio::spawn(async move { control.stopped().await });
                    headers(GET)
                }
                _ => b"GET /file\r\n".to_vec(),
            };
            // These keep the server's hands full.
            let mut busy = Vec::new();
            for _ in 0..32 {
                let (mut send, mut recv) = quic.open_bi().await.unwrap();
                send.write_all(&request).await.unwrap();
                send.finish().unwrap();
                recv.read_chunk(1).await.unwrap();
                busy.push((send, recv));
            }
            let mut taken_back = 0;
            while taken_back < MANY {
                // No reserve of time helps a client that must wait for the server here.
                let opened = tokio::time::timeout(Duration::from_secs(3), quic.open_bi()).await;
                let Ok(opened) = opened else { break };
                let (mut send, mut recv) = opened.unwrap();
                send.write_all(&request).await.unwrap();
                send.finish().unwrap();
                recv.stop(Code::H3_REQUEST_CANCELLED.value()).unwrap();
                taken_back += 1;
            }
            assert!(taken_back < FEW, "{alpn}: {taken_back}");
            assert_eq!(quic.close_reason(), None, "{alpn}");
        });
    }
}
