//! `tautline lab` as a program: runs that are killed, plans that are wrong, reports.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread::sleep,
    time::Duration,
};

use tautline_transport::rng::Rng;

const PLAN: &str = r#"
name = "small"
title = "A small plan"
[network]
link = "wifi"
[[flow]]
name = "main"
workload = { kind = "bulk", bytes = "500 kB" }
[[solution]]
name = "cubic"
congestion = "cubic"
[[solution]]
name = "bbr3"
congestion = "bbr3"
[[design.factor]]
name = "loss"
path = "network.loss"
values = ["0 %", "2 %"]
[run]
seeds = 10
limit = "60 s"
"#;

fn lab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tautline"))
        .arg("lab")
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program starts")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The seed of where runs are killed.
const SEED: u64 = 20;

const KILLS: u64 = 20;

/// What of a journal is whole lines.
fn rows(journal: &Path) -> Vec<u8> {
    let mut text = fs::read(journal).unwrap_or_default();
    let whole = text.iter().rposition(|byte| *byte == b'\n');
    text.truncate(whole.map_or(0, |end| end + 1));
    text
}

/// Killed again and again, a campaign goes on where it was: no row twice, none missing, and the
/// tables are those of a run that nobody disturbed, whatever the number of jobs.
#[test]
fn kills_leave_no_trace() {
    eprintln!("seed {SEED}");
    let mut rng = Rng::from_u64(SEED);
    let root = tempfile::tempdir().expect("a folder");
    let root = root.path();
    let plan = PLAN
        .replace("500 kB", "20 kB")
        .replace("seeds = 10", "seeds = 50");
    fs::write(root.join("plan.toml"), plan).expect("written");
    let whole = lab(root, &["run", "plan.toml", "--out", "whole", "--jobs", "1"]);
    assert!(whole.status.success(), "{}", told(&whole));
    let all = rows(&root.join("whole/journal.jsonl")).len() as u64;
    // How long the journal is when the run is killed, from nothing to all of it.
    let mut points: Vec<u64> = (0..KILLS).map(|_| rng.below(all + 1)).collect();
    points.sort_unstable();
    let journal = root.join("cut/journal.jsonl");
    let mut kept = Vec::new();
    for point in points {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tautline"));
        command.args(["lab", "run", "plan.toml", "--out", "cut", "--jobs", "2"]);
        if root.join("cut/manifest.json").exists() {
            command.arg("--resume");
        }
        let mut child = command
            .current_dir(root)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let later = Duration::from_micros(rng.below(5_000));
        let length = || fs::metadata(&journal).map_or(0, |about| about.len());
        // It may end by itself, the journal being whole.
        while length() < point && child.try_wait().expect("it can be asked").is_none() {
            sleep(Duration::from_millis(1));
        }
        sleep(later);
        // SIGKILL, where there are signals.
        let _ = child.kill();
        child.wait().expect("it ends");
        let now = rows(&journal);
        assert!(
            now.starts_with(&kept),
            "killed at {point} of {all}: finished rows are lost or others (seed {SEED})"
        );
        kept = now;
    }
    let last = lab(root, &["run", "plan.toml", "--out", "cut", "--resume"]);
    assert!(last.status.success(), "{}", told(&last));
    let journal = rows(&journal);
    assert!(journal.starts_with(&kept), "seed {SEED}");
    let journal = String::from_utf8(journal).expect("text");
    let number = |line: &str| -> usize {
        let row: serde_json::Value = serde_json::from_str(line).expect("a row");
        row["cell"].as_u64().expect("a cell") as usize
    };
    let mut cells: Vec<usize> = journal.lines().map(number).collect();
    cells.sort_unstable();
    let every: Vec<usize> = (0..200).collect();
    assert_eq!(
        cells, every,
        "a row is missing or was made twice, seed {SEED}"
    );
    for file in ["cells.csv", "cells.parquet", "flows.csv", "flows.parquet"] {
        let read = |folder: &str| fs::read(root.join(folder).join(file)).expect(file);
        assert!(read("whole") == read("cut"), "{file} differs, seed {SEED}");
    }
}

/// With traces of chosen cells or without, moved or not: the same rows, report and traces.
#[test]
fn results_can_be_moved_shown_and_traced() {
    let root = tempfile::tempdir().expect("a folder");
    let root = root.path();
    fs::create_dir(root.join("made")).expect("a folder");
    let made = root.join("made");
    let plan = PLAN.replace("seeds = 10", "seeds = 2").replace(
        "link = \"wifi\"",
        "delay = \"10 ms\"\ndown.trace = { file = \"down.trace\" }",
    );
    fs::write(made.join("plan.toml"), plan).expect("written");
    fs::write(made.join("down.trace"), "1\n2\n").expect("written");
    let run = |more: &[&str]| {
        lab(
            &made,
            &[&["run", "plan.toml", "--jobs", "2"], more].concat(),
        )
    };
    for (cells, words) in [
        ("8", "there is no cell 8; they go from 0 to 7"),
        ("0,3-99", "there is no cell 99; they go from 0 to 7"),
        ("3-1", "ends before it begins"),
        ("one", "is not a cell's number"),
    ] {
        for option in ["--qlog", "--pcap"] {
            let output = run(&["--out", "none", option, cells]);
            assert!(!output.status.success(), "{option} {cells}");
            assert!(told(&output).contains(words), "{cells}: {}", told(&output));
            assert!(!made.join("none").exists(), "{cells}: something ran");
        }
    }
    let plain = run(&["--out", "plain"]);
    assert!(plain.status.success(), "{}", told(&plain));
    let traced = run(&["--out", "traced", "--qlog", "0,5-7", "--pcap", "7"]);
    assert!(traced.status.success(), "{}", told(&traced));
    let said = String::from_utf8_lossy(&traced.stdout).into_owned();
    assert!(
        said.contains("traces of 4 cells in traced/cell-NUMBER"),
        "{said}"
    );
    let again = run(&["--out", "traced", "--qlog", "0-1", "--resume"]);
    assert!(again.status.success(), "{}", told(&again));
    let said = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(
        said.contains("of 2 that had a row before none was written"),
        "{said}"
    );
    for file in [
        "manifest.json",
        "cells.csv",
        "cells.parquet",
        "flows.parquet",
    ] {
        let read = |folder: &str| fs::read(made.join(folder).join(file)).expect(file);
        assert!(read("plain") == read("traced"), "{file} differs");
    }
    let ended = |folder: &Path, end: &str| {
        let entries = fs::read_dir(folder).map(|entries| {
            let names = entries.map(|entry| entry.expect("an entry").file_name());
            let names = names.map(|name| name.to_string_lossy().into_owned());
            names.filter(|name| name.ends_with(end)).count()
        });
        entries.unwrap_or(0)
    };
    let count = |cell: usize, end: &str| ended(&made.join(format!("traced/cell-{cell}")), end);
    assert_eq!([0, 1, 5, 7].map(|cell| count(cell, ".sqlog")), [2, 0, 2, 2]);
    assert_eq!([0, 1, 5, 7].map(|cell| count(cell, ".pcap")), [0, 0, 0, 1]);

    // Nothing of where they were made is needed.
    fs::rename(made.join("plain"), root.join("moved")).expect("moved");
    let first = made.join("traced/cell-7");
    fs::rename(&first, root.join("cell-7")).expect("moved");
    fs::remove_dir_all(&made).expect("removed");
    let report = lab(root, &["report", "moved"]);
    assert!(report.status.success(), "{}", told(&report));
    let page = fs::read_to_string(root.join("moved/report.html")).expect("a page");
    assert!(page.contains("A small plan"));
    let show = lab(root, &["show", "moved", "7", "--audit", "--pcap"]);
    assert!(show.status.success(), "{}", told(&show));
    let said = String::from_utf8_lossy(&show.stdout);
    let words = "audit: no link did what it cannot do as far as was checked\n\
                 not checked: link bottleneck up: loss: which packets it picks\n";
    assert!(said.contains(words), "{said}");
    // One way to write them.
    let (ours, theirs) = (root.join("cell-7"), root.join("moved/cell-7"));
    for entry in fs::read_dir(&ours).expect("traces") {
        let name = entry.expect("an entry").file_name();
        let read = |folder: &Path| fs::read(folder.join(&name)).expect("a trace");
        assert!(read(&ours) == read(&theirs), "{name:?} differs");
    }
    assert_eq!(ended(&ours, ""), ended(&theirs, ""));
    let capture = fs::read(theirs.join("packets.pcap")).expect("a capture");
    assert!(capture.len() > 20_000 && capture.starts_with(&[0x4d, 0x3c, 0xb2, 0xa1]));
    let keys = fs::read_to_string(theirs.join("keys.log")).expect("keys");
    assert!(keys.contains("CLIENT_TRAFFIC_SECRET_0 "), "{keys}");
    let show = lab(root, &["show", "moved", "8"]);
    let words = "there is no cell 8; they go from 0 to 7";
    assert!(told(&show).contains(words), "{}", told(&show));
}

#[test]
fn what_is_wrong_with_a_plan_is_told_before_anything_runs() {
    let root = tempfile::tempdir().expect("a folder");
    let root = root.path();
    for (from, to, words) in [
        (
            "seeds = 10",
            "seds = 10",
            "plan.toml:20: run.seds: there is no such key",
        ),
        (
            "\"wifi\"",
            "\"wfii\"",
            "plan.toml:5: network.link: no link is called \"wfii\"",
        ),
        (
            "\"2 %\"",
            "\"200 %\"",
            "plan.toml:18: design.factor.loss: 2 is not a share",
        ),
        (
            "kind = \"bulk\", bytes = \"500 kB\"",
            "kind = \"messages\", trace = { file = \"no.csv\" }",
            "no.csv",
        ),
    ] {
        let text = PLAN.replacen(from, to, 1);
        assert_ne!(text, PLAN);
        fs::write(root.join("plan.toml"), text).expect("written");
        let output = lab(root, &["run", "plan.toml", "--out", "none"]);
        assert!(!output.status.success());
        assert!(!root.join("none").exists(), "{to}: something ran");
        let told = told(&output);
        assert!(told.contains(words), "{to}: {told}");
    }
    // Checked in both sizes, whichever is asked for.
    let smoke = |line: &str| {
        fs::write(root.join("plan.toml"), format!("{PLAN}[smoke]\n{line}\n")).expect("written");
        lab(root, &["run", "plan.toml", "--check"])
    };
    let output = smoke("\"flow.mian.count\" = 1");
    let words = "plan.toml:23: smoke.flow.mian.count: \"flow.mian.count\" leads nowhere";
    assert!(told(&output).contains(words), "{}", told(&output));
    let output = smoke("\"run.seeds\" = 1");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("= 40 cells") && said.contains("= 4 cells"),
        "{said}"
    );
    for arguments in [["run", "startlink"], ["list", "startlink"]] {
        let output = lab(root, &arguments);
        assert!(!output.status.success());
        let told = told(&output);
        assert!(told.contains("did you mean `starlink`?"), "{told}");
        assert!(told.contains("satcom-a1, satcom-a2"), "{told}");
    }
}

#[test]
fn the_bundled_plans_are_listed_and_printed() {
    let root = tempfile::tempdir().expect("a folder");
    let listed = lab(root.path(), &["list"]);
    assert!(listed.status.success(), "{}", told(&listed));
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("satcom-a1") && listed.contains("cells"));
    let printed = lab(root.path(), &["list", "ifc"]);
    assert!(String::from_utf8_lossy(&printed.stdout).contains("name = \"ifc\""));
}
