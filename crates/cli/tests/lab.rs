//! `tautline lab` as a program: runs that are killed, plans that are wrong, reports.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread::sleep,
    time::Duration,
};

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

/// Killed again and again, a campaign goes on where it was: no row twice, none missing, and the
/// tables are those of a run that nobody disturbed, whatever the number of jobs.
#[test]
fn kills_leave_no_trace() {
    let root = tempfile::tempdir().expect("a folder");
    let root = root.path();
    fs::write(root.join("plan.toml"), PLAN).expect("written");
    let whole = lab(root, &["run", "plan.toml", "--out", "whole", "--jobs", "1"]);
    assert!(whole.status.success(), "{}", told(&whole));
    for turn in 0..20 {
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
        sleep(Duration::from_millis(20 + turn * 13 % 90));
        // It may have ended by itself.
        let _ = child.kill();
        child.wait().expect("it ends");
    }
    let last = lab(root, &["run", "plan.toml", "--out", "cut", "--resume"]);
    assert!(last.status.success(), "{}", told(&last));
    for file in ["cells.csv", "cells.parquet", "flows.csv", "flows.parquet"] {
        let read = |folder: &str| fs::read(root.join(folder).join(file)).expect(file);
        assert!(read("whole") == read("cut"), "{file} differs");
    }
    let journal = fs::read_to_string(root.join("cut/journal.jsonl")).expect("a journal");
    assert_eq!(journal.lines().count(), 40, "a row was made twice");
    let report = lab(root, &["report", "cut"]);
    assert!(report.status.success(), "{}", told(&report));
    let page = fs::read_to_string(root.join("cut/report.html")).expect("a page");
    assert!(page.contains("A small plan"));
    let show = lab(root, &["show", "cut", "7", "--audit", "--pcap"]);
    assert!(show.status.success(), "{}", told(&show));
    let capture = fs::read(root.join("cut/cell-7/packets.pcap")).expect("a capture");
    assert!(capture.len() > 20_000 && capture.starts_with(&[0x4d, 0x3c, 0xb2, 0xa1]));
    let keys = fs::read_to_string(root.join("cut/cell-7/keys.log")).expect("keys");
    assert!(keys.contains("CLIENT_TRAFFIC_SECRET_0 "), "{keys}");
    assert!(
        fs::read_dir(root.join("cut/cell-7"))
            .expect("traces")
            .count()
            >= 2
    );
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
