//! The interop runner's cases, Tautline to Tautline, as two processes on loopback.

mod common;

use std::path::Path;

use common::{Server, noise, put, read, succeed, tautline};

/// Plays one test; the client must end well and every byte must be right.
fn play(case: &str, files: &[(String, Vec<u8>)]) {
    play_between(case, "localhost", &[], files);
}

/// With more arguments for the server, which the client reaches as `host`. Returns the client's
/// qlog.
fn play_between(case: &str, host: &str, more: &[&str], files: &[(String, Vec<u8>)]) -> String {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let notes = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        put(www.path(), name, bytes);
    }
    let certs = certificate();
    let mut args = vec![
        "interop",
        "server",
        "--testcase",
        case,
        "--listen",
        "[::]:0",
        "--www",
        text(www.path()),
        "--certs",
        text(certs.path()),
    ];
    args.extend(more);
    let server = Server::start(&args);
    let urls: Vec<_> = files
        .iter()
        .map(|(name, _)| format!("https://{host}:{}/{name}", server.port))
        .collect();
    let keys = notes.path().join("keys.log");
    let mut client = tautline();
    client
        .args(["interop", "client", "--downloads", text(got.path())])
        .env("SSLKEYLOGFILE", &keys)
        .env("QLOGDIR", notes.path().join("qlog"));
    // The runner's word for the client's part.
    let told = match case {
        "connectionmigration" => "transfer",
        other => other,
    };
    succeed(client.env("TESTCASE", told).env("REQUESTS", urls.join(" ")));
    for (name, bytes) in files {
        assert!(read(got.path(), name) == *bytes, "{case}: {name}");
    }
    let keys = std::fs::read_to_string(keys).unwrap();
    assert!(keys.contains("CLIENT_TRAFFIC_SECRET_0 "), "{case}: {keys}");
    let traces = std::fs::read_dir(notes.path().join("qlog")).unwrap();
    let traces = traces.map(|trace| std::fs::read_to_string(trace.unwrap().path()).unwrap());
    let traces: String = traces.collect();
    assert!(traces.contains("packet_sent"), "{case}: no qlog");
    traces
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// As the runner lays it out.
fn certificate() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let made = tautline::tls::self_signed(["localhost"]).unwrap();
    put(dir.path(), "cert.pem", made.certificate_pem().as_bytes());
    put(dir.path(), "priv.key", made.key_pem().as_bytes());
    dir
}

fn files(count: u64, len: usize) -> Vec<(String, Vec<u8>)> {
    (0..count)
        .map(|index| (format!("file-{index}"), noise(len, index + 1)))
        .collect()
}

#[test]
fn transfers() {
    for case in [
        "handshake",
        "transfer",
        "chacha20",
        "retry",
        "keyupdate",
        "v2",
        "ecn",
        "http3",
    ] {
        play(case, &files(2, 1_000_000));
    }
}

#[test]
fn multiplexing() {
    play("transfer", &files(1999, 32));
}

#[test]
fn resumption_and_early_data() {
    play("resumption", &files(2, 5_000));
    let mut many = files(40, 100);
    for (name, _) in &mut many {
        name.push_str(&"x".repeat(250 - name.len()));
    }
    play("zerortt", &many);
}

#[test]
fn a_connection_for_each_file() {
    play("multiconnect", &files(10, 1024));
}

#[test]
fn ipv6() {
    play_between("transfer", "[::1]", &[], &files(2, 50_000));
}

/// The client starts at one address of the server and ends at another, of the other family too.
#[test]
fn connection_migration() {
    for (from, to) in [
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("127.0.0.1", "[::1]"),
        ("[::1]", "127.0.0.1"),
    ] {
        // The server names the port before it binds it.
        let free = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let (listen, preferred) = (format!("[::]:{port}"), format!("{to}:{port}"));
        let more = ["--also-listen", &listen, "--preferred", &preferred];
        let qlog = play_between("connectionmigration", from, &more, &files(2, 5_000_000));
        assert!(
            qlog.contains("migration_complete") && qlog.contains(&port.to_string()),
            "from {from} to {to}"
        );
    }
}

#[test]
fn unknown_tests_are_refused_with_127() {
    for role in ["client", "server"] {
        let output = tautline()
            .args(["interop", role, "--testcase", "nonsense"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(127));
        // And as the runner starts it.
        let mut command = tautline();
        command
            .arg("interop")
            .env("ROLE", role)
            .env("TESTCASE", "nonsense");
        assert_eq!(command.output().unwrap().status.code(), Some(127));
    }
}
