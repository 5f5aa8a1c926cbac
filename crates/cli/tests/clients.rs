//! `tautline serve` and clients of other kinds: browsers that start over TCP, the slow, the many.

mod common;

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use common::{Server, fail, noise, put, read, succeed};
use rustls::{ClientConnection, StreamOwned, pki_types::ServerName};
use tautline::{
    Endpoint, TransportConfig,
    tls::{ClientTls, Fingerprint},
};

/// Longer than any patience here by far: it turns a hang into a failure.
const HANG: Duration = Duration::from_secs(60);

fn tcp(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream
}

fn client_tls() -> ClientTls {
    ClientTls::danger_accept_any_certificate()
}

/// What an HTTP/1.1 client gets for one request: head and body.
fn ask(server: &Server, request: &str) -> (String, Vec<u8>) {
    let config = client_tls().alpn(["http/1.1"]).into_rustls().unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(session, tcp(server));
    let head = format!("{request}\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let body = answer.split_off(end.expect("a head") + 4);
    (String::from_utf8(answer).unwrap().to_lowercase(), body)
}

#[test]
fn https_over_tcp_serves_the_same_files_and_names_http3() {
    let www = tempfile::tempdir().unwrap();
    let content = noise(3_000_000, 5);
    put(www.path(), "picture.png", &content);
    let server = Server::serve(www.path(), &[]);

    let (head, body) = ask(&server, "GET /picture.png HTTP/1.1");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(head.contains("content-type: image/png"), "{head}");
    let alt_svc = format!("alt-svc: h3=\":{}\"", server.port);
    assert!(head.contains(&alt_svc), "{head}");
    assert!(body == content);
    let etag = head
        .lines()
        .find_map(|line| line.strip_prefix("etag: "))
        .expect("an entity tag")
        .to_owned();

    let (head, body) = ask(&server, "GET /picture.png HTTP/1.1\r\nrange: bytes=10-19");
    assert!(head.starts_with("http/1.1 206"), "{head}");
    assert!(
        head.contains("content-range: bytes 10-19/3000000"),
        "{head}"
    );
    assert_eq!(body, &content[10..20]);
    let (head, body) = ask(
        &server,
        &format!("GET /picture.png HTTP/1.1\r\nif-none-match: {etag}"),
    );
    assert!(
        head.starts_with("http/1.1 304") && body.is_empty(),
        "{head}"
    );
    let (head, body) = ask(&server, "HEAD /picture.png HTTP/1.1");
    assert!(
        head.contains("content-length: 3000000") && body.is_empty(),
        "{head}"
    );
    // Only GET knows ranges.
    let (head, _) = ask(&server, "HEAD /picture.png HTTP/1.1\r\nrange: bytes=10-19");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    for path in ["/missing", "/../picture.png/..", "/%2e%2e/secret"] {
        let (head, _) = ask(&server, &format!("GET {path} HTTP/1.1"));
        assert!(head.starts_with("http/1.1 40"), "{path}: {head}");
    }
    let (head, _) = ask(&server, "POST /picture.png HTTP/1.1");
    assert!(head.starts_with("http/1.1 405"), "{head}");
}

/// Its clients are told, and nothing remains.
#[cfg(unix)]
#[test]
fn a_perf_server_stops_when_asked() {
    let mut server = Server::start(&["perf", "server", "--listen", "127.0.0.1:0"]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let config = client_tls().alpn(["tautline-perf/1"]).build().unwrap();
        endpoint.set_default_client_config(config);
        let address = ([127, 0, 0, 1], server.port).into();
        let connection = endpoint.connect(address, "localhost").unwrap();
        let connection = connection.await.unwrap();
        server.terminate();
        let end = connection.closed().await.to_string();
        assert!(end.contains("the server stops"), "{end}");
    });
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn an_unknown_protocol_over_tcp_is_told_so() {
    let www = tempfile::tempdir().unwrap();
    let server = Server::serve(www.path(), &[]);
    let config = client_tls().alpn(["not-http"]).into_rustls().unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(session, tcp(&server));
    let said = stream.write_all(b"x").unwrap_err().to_string();
    assert!(said.contains("NoApplicationProtocol"), "{said}");
}

/// Reads until the other end hangs up; panics if it never does.
fn hung_up_on(mut stream: impl Read) {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("still connected")
            }
            Err(_) => return,
        }
    }
}

#[test]
fn a_tcp_client_that_says_nothing_is_let_go() {
    let www = tempfile::tempdir().unwrap();
    let server = Server::serve(www.path(), &["--patience", "1"]);
    // Not even a ClientHello.
    hung_up_on(tcp(&server));
    // Half a request.
    let config = client_tls().alpn(["http/1.1"]).into_rustls().unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(session, tcp(&server));
    stream.write_all(b"GET / HTTP/1.1\r\nhost: lo").unwrap();
    hung_up_on(stream);
}

#[test]
fn tcp_clients_beyond_the_limit_are_turned_away() {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(www.path(), "f", b"content");
    let server = Server::serve(
        www.path(),
        &["--max-connections", "1", "--patience", "3600"],
    );
    let first = tcp(&server);
    hung_up_on(tcp(&server));
    // QUIC has places of its own.
    succeed(server.get(got.path()).arg(server.url("/f")));
    assert_eq!(read(got.path(), "f"), b"content");
    drop(first);
}

/// A runtime, and a connection that speaks HTTP/0.9 with windows of 64 kB.
fn quic_client(server: &Server) -> (tokio::runtime::Runtime, Endpoint, tautline::Connection) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let fingerprint: Fingerprint = server.fingerprint.parse().unwrap();
    let mut config = ClientTls::pinned([fingerprint])
        .alpn(["hq-interop"])
        .build()
        .unwrap();
    let mut transport = TransportConfig::default();
    transport.keep_alive_interval = Some(Duration::from_secs(1));
    config.transport = Arc::new(transport);
    let (endpoint, connection) = runtime.block_on(async {
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        endpoint.set_default_client_config(config);
        let addr = ([127, 0, 0, 1], server.port).into();
        let connection = endpoint.connect(addr, "localhost").unwrap().await.unwrap();
        (endpoint, connection)
    });
    (runtime, endpoint, connection)
}

#[test]
fn a_quic_client_that_takes_nothing_is_given_up() {
    let www = tempfile::tempdir().unwrap();
    // More than the windows of both ends hold.
    let large = std::fs::File::create(www.path().join("large")).unwrap();
    large.set_len(1 << 30).unwrap();
    let server = Server::serve(www.path(), &["--patience", "1"]);
    let (runtime, _endpoint, connection) = quic_client(&server);
    runtime.block_on(async {
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(b"GET /large\r\n").await.unwrap();
        send.finish().unwrap();
        // Nothing is read, though the connection is alive, until the server resets the stream.
        let code = tokio::time::timeout(HANG, recv.received_reset()).await;
        assert!(code.expect("still waiting for us").unwrap().is_some());
        // Half a request, for ever.
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(b"GET /lar").await.unwrap();
        let code = tokio::time::timeout(HANG, recv.received_reset()).await;
        assert!(code.expect("still waiting for us").unwrap().is_some());
    });
}

#[test]
fn quic_clients_beyond_the_limit_are_refused() {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(www.path(), "f", b"content");
    let server = Server::serve(www.path(), &["--max-connections", "1"]);
    let (runtime, endpoint, connection) = quic_client(&server);
    let said = fail(server.get(got.path()).arg(server.url("/f")));
    assert!(said.contains("refuses new connections"), "{said}");
    runtime.block_on(async {
        connection.close(0, b"");
        endpoint.wait_idle().await;
    });
}

#[test]
fn a_quic_client_that_asks_for_nothing_is_let_go() {
    let www = tempfile::tempdir().unwrap();
    let server = Server::serve(www.path(), &["--patience", "1", "--idle", "3600"]);
    let (runtime, _endpoint, connection) = quic_client(&server);
    runtime.block_on(async {
        let closed = tokio::time::timeout(HANG, connection.closed()).await;
        assert!(closed.is_ok(), "still connected");
    });
}

#[cfg(unix)]
#[test]
fn an_interrupted_download_keeps_what_arrived() {
    use std::{
        process::{Command, Stdio},
        thread::sleep,
    };
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let large = std::fs::File::create(www.path().join("large")).unwrap();
    large.set_len(8 << 30).unwrap();
    let server = Server::serve(www.path(), &[]);
    let mut command = server.get(got.path());
    let child = command
        .arg(server.url("/large"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let part = got.path().join("large.part");
    while std::fs::metadata(&part).map_or(0, |part| part.len()) == 0 {
        sleep(Duration::from_millis(1));
    }
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("goes on from what arrived"), "{said}");
    assert!(std::fs::metadata(&part).unwrap().len() > 0);
    assert!(got.path().join("large.part.note").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_one_sentence() {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(www.path(), "f", &noise(100_000, 6));
    let server = Server::serve(www.path(), &[]);
    let full = || std::fs::File::create("/dev/full").unwrap();
    let said = fail(server.get(got.path()).arg(server.url("/f")).stdout(full()));
    assert!(said.contains("standard output"), "{said}");
    let mut command = common::tautline();
    command.args(["get", "--quiet", "--pin", &server.fingerprint]);
    let said = fail(command.args([&server.url("/f"), "-o", "/dev/full"]));
    assert!(said.contains("/dev/full"), "{said}");
}
