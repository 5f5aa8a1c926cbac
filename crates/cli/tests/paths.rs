//! Several paths between processes, over addresses of the loopback interface.

mod common;

use std::net::UdpSocket;

use common::{Server, tautline};
use serde_json::Value;

/// Whether the loopback interface has more than one address here.
fn has_addresses() -> bool {
    let missing = ["127.0.0.2", "127.0.0.3"]
        .into_iter()
        .find_map(|address| UdpSocket::bind((address, 0)).err().map(|it| (address, it)));
    if let Some((address, error)) = &missing {
        println!("skipped: {address} cannot be used here: {error}");
    }
    missing.is_none()
}

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn perf_tells_what_each_path_carried() {
    if !has_addresses() {
        return;
    }
    let listen = ["perf", "server", "--listen", "127.0.0.1:0"];
    let more = ["--scheduler", "round-robin"];
    let server = Server::start(&[&listen[..], &more].concat());
    let output = tautline()
        .args(["perf", "client", &format!("127.0.0.1:{}", server.port)])
        .args(["--pin", &server.fingerprint, "--json", "--requests", "0"])
        .args(["--download", "50M", "--upload", "50M"])
        .args(["--paths", "127.0.0.1,127.0.0.2"])
        .args(more)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let paths = report["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 2, "{paths:?}");
    for (path, address) in paths.iter().zip(["127.0.0.1:", "127.0.0.2:"]) {
        assert!(path["local"].as_str().unwrap().starts_with(address));
        for way in ["bytes_sent", "bytes_received"] {
            assert!(path[way].as_u64().unwrap() > 500_000, "{paths:?}");
        }
    }
    let shares = paths.iter().map(|path| path["share"].as_f64().unwrap());
    assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn files_come_over_several_paths_and_from_several_addresses() {
    if !has_addresses() {
        return;
    }
    let (www, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let content: Vec<u8> = (0..20_000_000_u32).map(|i| (i % 251) as u8).collect();
    std::fs::write(www.path().join("big"), &content).unwrap();
    let more = ["--listen", "127.0.0.3:0", "--no-tcp"];
    let server = Server::serve(www.path(), &more);
    let mut get = server.get(out.path());
    let output = get
        .args(["--paths", "127.0.0.1,127.0.0.2"])
        .arg(server.url("/big").replace("localhost", "127.0.0.1"))
        .output()
        .unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(std::fs::read(out.path().join("big")).unwrap(), content);
    for path in ["path 0", "path 1"] {
        assert!(said.contains(path), "{said}");
    }
}

/// No interface leads to this host itself, whatever its routes are.
#[test]
fn a_server_on_this_host_needs_no_interface() {
    let www = tempfile::tempdir().unwrap();
    std::fs::write(www.path().join("small"), "content").unwrap();
    let server = Server::serve(www.path(), &["--no-tcp"]);
    let out = tempfile::tempdir().unwrap();
    let output = server
        .get(out.path())
        .args(["--paths", "auto"])
        .arg(server.url("/small").replace("localhost", "127.0.0.1"))
        .output()
        .unwrap();
    let said = stderr(&output);
    if said.contains("cannot list the network interfaces") {
        println!("skipped: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    assert!(said.contains("path 0"), "{said}");
    assert!(!said.contains("warning"), "{said}");
}

/// Where no path may carry any more, the transfer ends at once and says why.
#[test]
fn caps_that_are_reached_end_a_transfer() {
    if !has_addresses() {
        return;
    }
    let (www, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(www.path().join("big"), vec![7; 20_000_000]).unwrap();
    let server = Server::serve(www.path(), &["--no-tcp"]);
    let output = server
        .get(out.path())
        .args(["--paths", "127.0.0.1:cap=2M,127.0.0.2:cap=2M"])
        .arg(server.url("/big").replace("localhost", "127.0.0.1"))
        .output()
        .unwrap();
    let said = stderr(&output);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("no path may carry any more"), "{said}");
}

/// A single path where the other end knows no other, and sentences where an address is wrong.
#[test]
fn what_is_missing_is_said() {
    let www = tempfile::tempdir().unwrap();
    std::fs::write(www.path().join("small"), "content").unwrap();
    let server = Server::serve(www.path(), &["--no-tcp"]);
    let out = tempfile::tempdir().unwrap();
    let url = server.url("/small").replace("localhost", "127.0.0.1");
    let run = |paths: &str| {
        let mut get = server.get(out.path());
        get.args(["--paths", paths]).arg(&url).output().unwrap()
    };
    let output = run("nosuch0");
    assert!(!output.status.success());
    assert!(stderr(&output).contains("nosuch0"), "{}", stderr(&output));
    // RFC 5737: nobody has it. The transfer goes on without.
    let output = run("127.0.0.1,192.0.2.1");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("path 0"), "{}", stderr(&output));
    let output = run("a b");
    assert_eq!(output.status.code(), Some(2));
}
