//! The interop runner's cases, Tautline to Tautline, as two processes on loopback.

mod common;

use std::path::Path;

use common::{Server, noise, put, read, succeed, tautline};

/// Plays one test; the client must end well and every byte must be right.
fn play(case: &str, files: &[(String, Vec<u8>)]) {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (name, bytes) in files {
        put(www.path(), name, bytes);
    }
    let certs = certificate();
    let server = Server::start(&[
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
    ]);
    let urls: Vec<_> = files
        .iter()
        .map(|(name, _)| server.url(&format!("/{name}")))
        .collect();
    let mut client = tautline();
    client.args(["interop", "client", "--downloads", text(got.path())]);
    succeed(client.env("TESTCASE", case).env("REQUESTS", urls.join(" ")));
    for (name, bytes) in files {
        assert!(read(got.path(), name) == *bytes, "{case}: {name}");
    }
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
