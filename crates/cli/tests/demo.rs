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
    let args = ["--file", "small", "--link", "cellular", "--requests", "5"];
    let out = demo(folder.path(), &args);
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
        // Plain, and with erasure correction, with five seeds.
        &format!(
            "All {} transfers, 5 of each",
            2 * 5 * registry::names().len()
        ),
        "5 times each, with seeds 1 to 5",
        "medians of 5 runs",
        "in the median",
        "ratio",
        "with FEC",
        "as auto decides",
        "Small requests: 5 of 50000 bytes",
        "wasted",
        ".html",
    ] {
        assert!(table.contains(part), "{part}:\n{table}");
    }
    let requests = table
        .lines()
        .rfind(|line| line.starts_with("cellular  ") && line.ends_with("verified"));
    assert!(requests.is_some(), "{table}");
    let verdict = table.lines().find(|line| line.starts_with("cellular: "));
    let verdict = verdict.unwrap_or_else(|| panic!("no verdict:\n{table}"));
    assert!(verdict.contains("% bytes"), "{verdict}");

    let page = std::fs::read_to_string(folder.path().join("tautline-demo.html")).expect("a page");
    for part in [
        "<!DOCTYPE html>",
        "<svg",
        "cellular",
        "Congestion window",
        "Round-trip time",
        "Small requests",
        "time of a request",
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
fn two_links_at_once_stand_beside_each_alone() {
    let (folder, _) = folder();
    let args = [
        "--file",
        "small",
        "--link",
        "wifi",
        "--cc",
        "cubic",
        "--requests",
        "3",
        "--paths",
        "wifi,lte",
    ];
    let out = demo(folder.path(), &args);
    let table = text(&out.stdout);
    assert!(out.status.success(), "{table}\n{}", text(&out.stderr));
    assert!(
        table.contains("Two links at once (RFC 10069): the file (the median of 5 runs)"),
        "{table}"
    );
    for way in ["wifi ", "lte ", "wifi+lte "] {
        let row = table.lines().find(|line| {
            line.strip_prefix("wifi+lte")
                .is_some_and(|rest| rest.trim_start().starts_with(way))
        });
        let row = row.unwrap_or_else(|| panic!("no row for {way}:\n{table}"));
        assert!(row.ends_with("verified"), "{row}");
    }
    assert!(
        table.contains("wifi+lte: both links against the better one alone"),
        "{table}"
    );
    let page = std::fs::read_to_string(folder.path().join("tautline-demo.html")).expect("a page");
    assert!(page.contains("Two links at once"));

    let out = demo(
        folder.path(),
        &[&args[..], &["--json", "--fec", "none"]].concat(),
    );
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let ways = json["pairs"]["pairs"][0]["ways"].as_array().expect("ways");
    assert_eq!(ways.len(), 3);
    for way in ways {
        assert_eq!(way["plain"]["requests_answered"], 3, "{way}");
        assert!(way["plain"]["file_seconds"].as_f64() > Some(0.0), "{way}");
        let runs = way["plain"]["file_run_seconds"].as_array().expect("runs");
        assert_eq!(runs.len(), 5, "{way}");
        assert!(way["with_fec"].is_null(), "{way}");
    }
    for (wrong, said) in [
        ("wifi", "name two links"),
        ("wifi,wlan0", "no link is called \"wlan0\""),
    ] {
        let out = demo(folder.path(), &["--paths", wrong]);
        assert!(
            !out.status.success() && text(&out.stderr).contains(said),
            "{wrong}"
        );
    }
}

/// What a link carries that has delays and no rate has no bound.
#[test]
fn a_link_without_a_rate_has_no_bound() {
    let (folder, _) = folder();
    let args = [
        "--link", "starlink", "--cc", "cubic", "--bytes", "100k", "--seeds", "1", "--paths",
        "none", "--fec", "none",
    ];
    let output = demo(folder.path(), &args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    let row = table.lines().find(|line| line.starts_with("starlink "));
    let row = row.expect("a row of the link");
    let fields: Vec<&str> = row.split_whitespace().collect();
    assert!(!row.contains("inf") && fields.contains(&"-"), "{row}");
}

#[test]
fn same_seed_same_figures() {
    let (folder, hash) = folder();
    let run = |seed: &str, seeds: &str, report: &str| {
        let args = [
            "--file",
            "small",
            "--link",
            "leo,da2gc",
            "--cc",
            "cubic",
            "--requests",
            "12",
            "--json",
            "--seed",
            seed,
            "--seeds",
            seeds,
        ];
        let out = demo(folder.path(), &[&args[..], &["--report", report]].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        let page = std::fs::read_to_string(folder.path().join(report)).expect("a page");
        (text(&out.stdout).to_owned(), page)
    };
    let first = run("5", "3", "a.html");
    assert_eq!(first, run("5", "3", "b.html"));
    let alone = run("6", "1", "c.html");

    let json: serde_json::Value = serde_json::from_str(&first.0).expect("JSON");
    assert_eq!((&json["seed"], &json["seeds"]), (&5.into(), &3.into()));
    assert_eq!(json["file"]["bytes"], 100_000);
    assert_eq!(json["file"]["sha256"], hash.as_str());
    let transfers = json["transfers"].as_array().expect("transfers");
    assert_eq!(transfers.len(), 2);
    let alone: serde_json::Value = serde_json::from_str(&alone.0).expect("JSON");
    for (index, transfer) in transfers.iter().enumerate() {
        assert_eq!(transfer["verified"], true);
        assert_eq!(transfer["with_fec"]["verified"], true);
        assert_eq!(transfer["controller"], "cubic");
        let share = transfer["utilisation"].as_f64().expect("a number");
        assert!(share > 0.0 && share < 0.9588, "{share}");
        let runs = transfer["runs"].as_array().expect("runs");
        assert_eq!(runs.len(), 3);
        for run in runs {
            for arm in [run, &run["with_fec"]] {
                assert_eq!(arm["verified"], true);
                assert_eq!(arm["sha256"], hash.as_str());
                assert!(arm["trace_sha256"].is_string());
            }
        }
        let middle = |arm: fn(&serde_json::Value) -> &serde_json::Value| {
            let seconds = |run| arm(run)["time_seconds"].as_f64().expect("seconds");
            let mut all: Vec<f64> = runs.iter().map(seconds).collect();
            all.sort_by(f64::total_cmp);
            all[1]
        };
        assert_eq!(transfer["time_seconds"], middle(|run| run));
        let coded = middle(|run| &run["with_fec"]);
        assert_eq!(transfer["with_fec"]["time_seconds"], coded);
        assert!(transfer["time_ratio"].is_number());
        // Seeds count up, and a run is what it is alone.
        assert_eq!(runs[1]["seed"], 6);
        assert_ne!(runs[0]["trace_sha256"], runs[1]["trace_sha256"]);
        assert_eq!(runs[1], alone["transfers"][index]["runs"][0]);
    }
}

#[test]
fn erasure_correction_stands_beside_plain_or_not_at_all() {
    let (folder, _) = folder();
    let run = |fec: &[&str]| {
        let args = [
            "--file",
            "small",
            "--link",
            "inflight",
            "--cc",
            "bbr3,newreno",
            "--requests",
            "96",
            "--json",
        ];
        let out = demo(folder.path(), &[&args[..], fec].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        json
    };
    let names = |json: &serde_json::Value| {
        let links = json["requests"]["links"].as_array().expect("links");
        links
            .iter()
            .map(|it| it["link"].clone())
            .collect::<Vec<_>>()
    };

    let auto = run(&[]);
    assert_eq!(auto["fec"], "auto");
    assert_eq!(auto["requests"]["controller"], "bbr3");
    assert_eq!(auto["requests"]["answer_bytes"], 50_000);
    assert_eq!(names(&auto), ["da2gc", "mss"]);
    for link in auto["requests"]["links"].as_array().expect("links") {
        let (plain, coded) = (&link["plain"], &link["with_fec"]);
        for arm in [plain, coded] {
            assert_eq!(arm["requests"], 96);
            assert_eq!(arm["answered"], 96);
            assert!(arm["p95_ms"].as_f64() >= arm["median_ms"].as_f64(), "{arm}");
            // These links lose packets, and it is said so.
            assert!(arm["packets_dropped"].as_u64() > Some(0), "{arm}");
        }
        assert_eq!(plain["repair_symbols_sent"], 0);
        assert_eq!(plain["packets_recovered"], 0);
        assert!(coded["repair_symbols_sent"].as_u64() > Some(0), "{coded}");
        assert!(coded["packets_recovered"].as_u64() > Some(0), "{coded}");
        if link["link"] == "mss" {
            let [plain, coded] = [plain, coded].map(|arm| arm["median_ms"].as_f64().expect("ms"));
            assert!(coded < 0.75 * plain, "{coded} for {plain}");
        }
    }

    let none = run(&["--fec", "none"]);
    assert!(none["fec"].is_null());
    for link in none["requests"]["links"].as_array().expect("links") {
        assert!(link.get("with_fec").is_none(), "{link}");
    }
    // What is plain does not depend on what stands beside it.
    let both = auto["transfers"].as_array().expect("transfers").iter();
    for (with, without) in both.zip(none["transfers"].as_array().expect("transfers")) {
        for seed in 0..5 {
            let (with, without) = (&with["runs"][seed], &without["runs"][seed]);
            assert!(with["trace_sha256"].is_string());
            assert_eq!(with["trace_sha256"], without["trace_sha256"]);
            assert!(without.get("with_fec").is_none(), "{without}");
        }
        assert!(without.get("with_fec").is_none(), "{without}");
        assert!(without.get("time_ratio").is_none(), "{without}");
    }
    for link in 0..2 {
        let plain = |json: &serde_json::Value| json["requests"]["links"][link]["plain"].clone();
        assert_eq!(plain(&auto), plain(&none));
    }

    let other = run(&["--fec", "constant:10,8"]);
    assert_eq!(other["fec"], "constant:10,8");
    assert_ne!(other["requests"], auto["requests"]);
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
        ["--fec", "magic"],
        ["--requests", "0"],
        ["--seeds", "0"],
    ] {
        let out = demo(folder.path(), &args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
    }
}
