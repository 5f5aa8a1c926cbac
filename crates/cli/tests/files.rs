//! `tautline serve` and `tautline get` as processes: every byte is compared.

mod common;

use std::{fs, process::Stdio, thread::sleep, time::Duration};

use common::{Server, fail, noise, put, read, succeed, tautline};

#[test]
fn small_and_large_files_arrive_with_their_checksums() {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let large = noise(12_345_678, 1);
    put(www.path(), "empty", b"");
    put(www.path(), "small.txt", b"hello\n");
    put(www.path(), "with space & more/large.bin", &large);
    let server = Server::serve(www.path(), &[]);
    let output = succeed(server.get(got.path()).args([
        server.url("/empty"),
        server.url("/small.txt"),
        server.url("/with%20space%20%26%20more/large.bin?query=ignored"),
    ]));
    assert_eq!(read(got.path(), "empty"), b"");
    assert_eq!(read(got.path(), "small.txt"), b"hello\n");
    assert!(read(got.path(), "large.bin") == large);
    // As `sha256sum` prints it.
    let printed = String::from_utf8(output.stdout).unwrap();
    let sum = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
    assert!(printed.contains(&format!("{sum}  ")), "{printed}");
    assert!(
        fs::read_dir(got.path()).unwrap().count() == 3,
        "no part files are left"
    );

    let check = |sum: &str| {
        let mut command = server.get(got.path());
        command.args(["--sha256", sum, &server.url("/small.txt")]);
        command
    };
    succeed(&mut check(sum));
    let said = fail(&mut check(&sum.replace('5', "6")));
    assert!(said.contains("wrong content"), "{said}");
}

#[test]
fn a_thousand_small_files_over_one_connection() {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for index in 0..1000 {
        put(
            www.path(),
            &format!("f{index}"),
            &noise(index % 700, index as u64),
        );
    }
    let server = Server::serve(www.path(), &["--max-connections", "1"]);
    let urls = (0..1000).map(|index| server.url(&format!("/f{index}")));
    succeed(server.get(got.path()).args(["-j", "50"]).args(urls));
    for index in 0..1000 {
        assert_eq!(
            read(got.path(), &format!("f{index}")),
            noise(index % 700, index as u64)
        );
    }
}

#[test]
fn a_killed_download_resumes_where_it_stopped() {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let content = noise(64 << 20, 2);
    put(www.path(), "large", &content);
    let server = Server::serve(www.path(), &[]);
    let part = got.path().join("large.part");
    let mut command = server.get(got.path());
    let mut child = command
        .arg(server.url("/large"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let len = || fs::metadata(&part).map_or(0, |part| part.len());
    while len() < 4 << 20 && child.try_wait().unwrap().is_none() {
        sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = len();
    assert!(
        before >= 4 << 20,
        "the download was over too soon to be killed"
    );
    assert!(got.path().join("large.part.note").exists());
    // What is there already must not be fetched again: bytes changed here show that it was kept.
    let mut kept = read(got.path(), "large.part");
    kept[0] ^= 1;
    fs::write(&part, &kept).unwrap();
    succeed(server.get(got.path()).arg(server.url("/large")));
    let mut expected = content.clone();
    expected[0] ^= 1;
    assert!(read(got.path(), "large") == expected);

    // Another version of the file is fetched from its start.
    fs::write(&part, &kept).unwrap();
    fs::write(
        got.path().join("large.part.note"),
        format!("{}\n\"old\"\n", server.url("/large")),
    )
    .unwrap();
    succeed(server.get(got.path()).arg(server.url("/large")));
    assert!(read(got.path(), "large") == content);
}

/// Of `ulimit -f`, whose signal would end the program without a word.
#[cfg(unix)]
#[test]
fn a_limit_on_file_sizes_is_told_and_leaves_a_part() {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(www.path(), "large", &noise(4 << 20, 9));
    let server = Server::serve(www.path(), &[]);
    let get = server.get(got.path());
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "ulimit -f 1000; exec \"$0\" \"$@\""])
        .arg(get.get_program())
        .args(get.get_args());
    let said = fail(limited.arg(server.url("/large")));
    assert!(
        said.contains("large.part") && said.contains("kept"),
        "{said}"
    );
    succeed(server.get(got.path()).arg(server.url("/large")));
    assert!(read(got.path(), "large") == noise(4 << 20, 9));
}

#[test]
fn nothing_outside_of_the_directory_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let got = tempfile::tempdir().unwrap();
    let www = dir.path().join("www");
    put(dir.path(), "secret", b"secret");
    put(&www, "inside/file", b"inside");
    put(&www, ".hidden", b"hidden");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(dir.path().join("secret"), www.join("escape")).unwrap();
        std::os::unix::fs::symlink("..", www.join("up")).unwrap();
        std::os::unix::fs::symlink("inside/file", www.join("link")).unwrap();
    }
    let server = Server::serve(&www, &[]);
    for path in [
        "/../secret",
        "/inside/../../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/inside/%2e%2e%2f%2e%2e%2fsecret",
        "/escape",
        "/up/secret",
        "/up/missing",
        // Out and in again.
        "/up/www/inside/file",
        "/.hidden",
        "/inside/file/",
        "/inside/file/x",
        "/%00",
    ] {
        for how in [&[][..], &["--http09"]] {
            let said = fail(server.get(got.path()).args(how).arg(server.url(path)));
            let refused = ["404", "403", "400", "no such file"];
            assert!(
                refused.iter().any(|text| said.contains(text)),
                "{path}: {said}"
            );
        }
    }
    #[cfg(unix)]
    {
        // What is outside is answered like what does not exist.
        for path in [
            "/escape",
            "/up/secret",
            "/up/missing",
            "/up/www/inside/file",
        ] {
            let said = fail(server.get(got.path()).arg(server.url(path)));
            assert!(said.contains("404"), "{path}: {said}");
        }
        succeed(server.get(got.path()).arg(server.url("/link")));
        assert_eq!(read(got.path(), "link"), b"inside");
    }
}

/// Clocks were wrong, and archives are old: HTTP can write no year before 1970.
#[test]
fn files_of_any_age_are_served_and_listed() {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let old = put(www.path(), "old/file", b"old\n");
    let before = std::time::UNIX_EPOCH - Duration::from_millis(1);
    let file = fs::File::options().write(true).open(old).unwrap();
    let times = fs::FileTimes::new().set_modified(before);
    file.set_times(times).unwrap();
    let server = Server::serve(www.path(), &[]);
    succeed(server.get(got.path()).arg(server.url("/old/file")));
    assert_eq!(read(got.path(), "file"), b"old\n");
    succeed(server.get(got.path()).arg(server.url("/old/")));
    let listing = String::from_utf8(read(got.path(), "index.html")).unwrap();
    assert!(listing.contains("./file"), "{listing}");
}

#[test]
fn directories_are_listed_unless_they_have_an_index() {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(www.path(), "a <b>.txt", b"x");
    put(www.path(), "sub/index.html", b"<p>index</p>");
    put(www.path(), ".hidden", b"x");
    let server = Server::serve(www.path(), &[]);
    succeed(server.get(got.path()).arg(server.url("/")));
    let page = String::from_utf8(read(got.path(), "index.html")).unwrap();
    assert!(page.contains("href=\"./a%20%3Cb%3E.txt\"") && page.contains("a &lt;b&gt;.txt"));
    assert!(page.contains("href=\"./sub/\"") && !page.contains("hidden"));
    // Without the slash there is a redirect, which is followed.
    succeed(server.get(got.path()).arg(server.url("/sub")));
    assert_eq!(read(got.path(), "sub"), b"<p>index</p>");

    let server = Server::serve(www.path(), &["--no-listing"]);
    assert!(fail(server.get(got.path()).arg(server.url("/"))).contains("403"));
}

#[test]
fn failures_are_one_clear_sentence() {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(www.path(), "f", b"x");
    let server = Server::serve(www.path(), &[]);
    let url = server.url("/f");

    let said = fail(server.get(got.path()).arg(server.url("/missing")));
    assert!(said.contains("404"), "{said}");
    let said = fail(tautline().args(["get", "--pin", &"0".repeat(64), &url]));
    assert!(
        said.contains("another certificate than the pinned one"),
        "{said}"
    );
    let said = fail(tautline().args(["get", "https://host.invalid/f", "--insecure"]));
    assert!(said.contains("cannot resolve host.invalid"), "{said}");
    // Nobody listens: a port that was free a moment ago.
    let free = std::net::UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let said = fail(tautline().args(["get", "--insecure", &format!("https://{free}/f")]));
    assert!(said.contains("could not be reached"), "{said}");
    put(got.path(), "file", b"no directory");
    let said = fail(server.get(&got.path().join("file/sub")).arg(&url));
    assert!(said.contains("cannot make directory"), "{said}");
    let said = fail(tautline().args(["serve", "/no/such/directory"]));
    assert!(said.contains("no such file or directory"), "{said}");
    let said = fail(tautline().args(["get", "--insecure", "-o", "/no/such/dir/f", &url]));
    assert!(said.contains("cannot write /no/such/dir/f.part"), "{said}");

    let perf = Server::start(&["perf", "server", "--listen", "127.0.0.1:0"]);
    let said = fail(perf.get(got.path()).arg(perf.url("/f")));
    assert!(said.contains("ALPN"), "{said}");
}

#[test]
fn http09_and_retry_and_other_controllers() {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let content = noise(3_000_000, 3);
    put(www.path(), "f", &content);
    let qlog = got.path().join("qlog");
    let keys = got.path().join("keys");
    let server = Server::serve(www.path(), &["--retry", "--cc", "bbr3"]);
    for (index, more) in [&["--http09"][..], &["--cc", "newreno"], &["--cc", "bbr3"]]
        .iter()
        .enumerate()
    {
        let dir = got.path().join(index.to_string());
        let mut command = server.get(&dir);
        command
            .args(*more)
            .arg("--qlog-dir")
            .arg(&qlog)
            .env("SSLKEYLOGFILE", &keys);
        succeed(command.arg(server.url("/f")));
        assert!(read(&dir, "f") == content);
    }
    assert_eq!(fs::read_dir(&qlog).unwrap().count(), 3);
    assert!(
        fs::read_to_string(&keys)
            .unwrap()
            .contains("CLIENT_TRAFFIC_SECRET_0")
    );
}

#[cfg(unix)]
#[test]
fn a_stopping_server_lets_downloads_finish() {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let content = noise(64 << 20, 4);
    put(www.path(), "large", &content);
    let mut server = Server::serve(www.path(), &["--grace", "600"]);
    let mut command = server.get(got.path());
    let mut child = command
        .arg(server.url("/large"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let part = got.path().join("large.part");
    while fs::metadata(&part).map_or(0, |part| part.len()) < 1 << 20
        && child.try_wait().unwrap().is_none()
    {
        sleep(Duration::from_millis(1));
    }
    server.terminate();
    assert!(child.wait().unwrap().success());
    assert!(read(got.path(), "large") == content);
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn perf_measures_and_writes_json() {
    let server = Server::start(&["perf", "server", "--listen", "127.0.0.1:0"]);
    let output = succeed(tautline().args([
        "perf",
        "client",
        "--pin",
        &server.fingerprint,
        &format!("localhost:{}", server.port),
        "--download=2M",
        "--upload=1Mi",
        "--streams=3",
        "--requests=50",
        "--json",
    ]));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["download"]["bytes"], 2_000_000);
    assert_eq!(report["upload"]["bytes"], 1 << 20);
    assert_eq!(report["requests"]["count"], 50);
    let latency = &report["requests"]["latency_microseconds"];
    assert!(latency["p99"].as_u64() >= latency["p50"].as_u64());
}

/// A line for each connection on which it was agreed, when the client has left.
#[cfg(unix)]
#[test]
fn a_server_tells_what_erasure_correction_did() {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(www.path(), "f", &noise(300_000, 6));
    let server = Server::serve_verbosely(www.path(), &["--fec", "constant:6,5"]);
    for (index, more) in [&["--fec", "none"][..], &["--fec", "quirl-object"], &[]]
        .iter()
        .enumerate()
    {
        let dir = got.path().join(index.to_string());
        succeed(server.get(&dir).args(*more).arg(server.url("/f")));
    }
    let said = server.last_words();
    assert_eq!(said.matches(" h3 GET /f 200").count(), 3, "{said}");
    let told: Vec<_> = (said.lines())
        .filter_map(|line| line.split_once(" erasure "))
        .collect();
    assert_eq!(told.len(), 2, "{said}");
    for agreed in ["agreed towards the client only; ", "agreed both ways; "] {
        let figures = told.iter().find_map(|(_, told)| told.strip_prefix(agreed));
        let (sent, rest) = figures
            .unwrap()
            .split_once(" repair symbols sent, ")
            .unwrap();
        // A fifth of 300 kB in packets of at most 1,500 bytes.
        assert!(sent.parse::<u32>().unwrap() >= 40, "{said}");
        assert!(
            rest.contains(" packets recovered by the client; "),
            "{said}"
        );
        assert!(rest.contains(" useful, "), "{said}");
    }
    assert!(
        told.iter()
            .all(|(client, _)| client.starts_with("127.0.0.1:"))
    );
}

/// Between two processes, over real sockets: files are whole, and both ends tell.
#[test]
fn erasure_correction_at_both_ends_and_at_one() {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let content = noise(3_000_000, 5);
    put(www.path(), "f", &content);
    let server = Server::serve(www.path(), &["--fec", "constant:6,5"]);
    for (index, more) in [&["--fec", "none"][..], &["--fec", "quirl-object"], &[]]
        .iter()
        .enumerate()
    {
        let dir = got.path().join(index.to_string());
        let output = succeed(server.get(&dir).args(*more).arg(server.url("/f")));
        assert!(read(&dir, "f") == content);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = ["agreed from the server only;", "agreed both ways;", ""][index];
        let line = format!("erasure    localhost:{}: {expected}", server.port);
        assert_eq!(said.contains("erasure"), !expected.is_empty(), "{said}");
        assert!(expected.is_empty() || said.contains(&line), "{said}");
    }
    let plain = Server::serve(www.path(), &[]);
    let mut alone = plain.get(&got.path().join("alone"));
    let output = succeed(alone.args(["--fec", "auto"]).arg(plain.url("/f")));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains(": not agreed, nothing was protected"),
        "{said}"
    );
    let listen = ["perf", "server", "--listen", "127.0.0.1:0"];
    let perf = Server::start(&[&listen[..], &["--fec", "constant:6,5"]].concat());
    let ask = |perf: &Server| {
        let target = format!("localhost:{}", perf.port);
        let mut command = tautline();
        command.args(["perf", "client", "--pin", &perf.fingerprint, &target]);
        command
    };
    let measure = |fec: &str| {
        let mut command = ask(&perf);
        command.arg("--json");
        command.args(["--download=2M", "--upload=0", "--requests=0"]);
        if !fec.is_empty() {
            command.args(["--fec", fec]);
        }
        let output = succeed(&mut command);
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let report = measure("none");
    let repairs = report["erasure_correction"]["repair_received"].as_u64();
    assert!(repairs.unwrap() > 100, "{report}");
    assert_eq!(report["erasure_correction"]["agreed_receiving"], true);
    assert_eq!(report["erasure_correction"]["agreed_sending"], false);
    assert!(measure("")["erasure_correction"].is_null());
    let plain = Server::start(&listen);
    let mut alone = ask(&plain);
    alone.args(["--download=10k", "--upload=0", "--requests=0", "--fec=auto"]);
    let said = String::from_utf8(succeed(&mut alone).stdout).unwrap();
    assert!(
        said.contains("erasure    not agreed, nothing was protected"),
        "{said}"
    );
    // A name that will not do is said before anything is tried.
    let mut wrong = tautline();
    wrong.args(["get", "--fec", "constant:5,20", "https://localhost/f"]);
    let output = wrong.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("give it as constant:N,K"), "{said}");
}
