//! `tautline demo` as a user runs it.

use std::{
    path::Path,
    process::{Command, Output},
};

use aws_lc_rs::digest::{SHA256, digest};
use tautline::transport::congestion::registry;

fn demo(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tautline"))
        .arg("demo")
        .args(args)
        .current_dir(folder)
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// A folder with a file `small` of 100,000 bytes, and that file's SHA-256.
fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let data: Vec<u8> = (0..100_000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    std::fs::write(folder.path().join("small"), &data).expect("a file");
    let hash = digest(&SHA256, &data);
    let hash = hash
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    (folder, hash)
}

#[test]
fn one_link_gives_a_table_and_a_page() {
    let (folder, hash) = folder();
    let out = demo(folder.path(), &["--file", "small", "--link", "cellular"]);
    let table = text(&out.stdout);
    assert!(out.status.success(), "{table}\n{}", text(&out.stderr));
    for controller in registry::names() {
        let row = table
            .lines()
            .find(|line| line.contains(controller) && line.contains("cellular"));
        let row = row.unwrap_or_else(|| panic!("no row for {controller}:\n{table}"));
        assert!(row.ends_with("verified"), "{row}");
        // 0.9588 x 10 Mb/s.
        assert!(row.contains("9.588"), "{row}");
    }
    for part in [
        "goodput",
        "bound R",
        "utilisation",
        "retransmitted",
        &hash,
        &format!("All {} transfers", registry::names().len()),
        ".html",
    ] {
        assert!(table.contains(part), "{part}:\n{table}");
    }

    let page = std::fs::read_to_string(folder.path().join("tautline-demo.html")).expect("a page");
    for part in [
        "<!DOCTYPE html>",
        "<svg",
        "cellular",
        "Congestion window",
        "Round-trip time",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for part in [hash.as_str(), "seed", "Mb/s", "bound R", "</html>"] {
        assert!(page.contains(part), "{part}");
    }
    for stranger in [
        "<script", "http://", "https://", "@import", "<img", "<link", "NaN",
    ] {
        assert!(!page.contains(stranger), "{stranger}");
    }
    let lines = page.matches("<title>bbr3</title>").count();
    assert_eq!(lines, 4, "a line in every chart");
}

#[test]
fn same_seed_same_figures() {
    let (folder, hash) = folder();
    let run = |seed: &str, report: &str| {
        let args = [
            "--file",
            "small",
            "--link",
            "leo,da2gc",
            "--cc",
            "cubic",
            "--json",
            "--seed",
            seed,
        ];
        let out = demo(folder.path(), &[&args[..], &["--report", report]].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        let page = std::fs::read_to_string(folder.path().join(report)).expect("a page");
        (text(&out.stdout).to_owned(), page)
    };
    let first = run("5", "a.html");
    assert_eq!(first, run("5", "b.html"));
    assert_ne!(first, run("6", "c.html"));

    let json: serde_json::Value = serde_json::from_str(&first.0).expect("JSON");
    assert_eq!(json["seed"], 5);
    assert_eq!(json["file"]["bytes"], 100_000);
    assert_eq!(json["file"]["sha256"], hash.as_str());
    let transfers = json["transfers"].as_array().expect("transfers");
    assert_eq!(transfers.len(), 2);
    for transfer in transfers {
        assert_eq!(transfer["verified"], true);
        assert_eq!(transfer["sha256"], hash.as_str());
        assert_eq!(transfer["controller"], "cubic");
        let share = transfer["utilisation"].as_f64().expect("a number");
        assert!(share > 0.0 && share < 0.9588, "{share}");
        assert!(transfer["trace_sha256"].is_string());
    }
}

#[test]
fn what_cannot_work_is_said_in_one_line() {
    let (folder, _) = folder();
    std::fs::write(folder.path().join("empty"), b"").expect("a file");
    let cases: [(&[&str], &str); 6] = [
        (&["--file", "absent"], "cannot read absent: no such file"),
        (&["--file", "empty"], "empty is empty"),
        (&["--file", "."], "cannot read .:"),
        (
            &["--file", "small", "--report", "no/such/folder/r.html"],
            "no/such/folder/r.html",
        ),
        (
            &["--file", "small", "--report", "."],
            "cannot write the report",
        ),
        (
            &["--file", "small", "--bytes", "999999999999"],
            "at most 256 MB",
        ),
    ];
    for (args, expected) in cases {
        let out = demo(folder.path(), args);
        let error = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {error}");
        assert!(error.contains(expected), "{args:?}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{args:?}: {error}");
        assert!(out.stdout.is_empty());
    }
    for args in [
        ["--link", "carrier-pigeon"],
        ["--cc", "reno2000"],
        ["--bytes", "0"],
    ] {
        let out = demo(folder.path(), &args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
    }
}
