//! The program: its plans, its tables twice, its words.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const PLAN: &str = r#"
name = "small"
title = "A small plan"
[network]
link = "wifi"
loss = "1 %"
[[flow]]
name = "main"
workload = { kind = "objects", count = 5, bytes = "100 kB" }
[[solution]]
name = "tautline"
[[solution]]
name = "quinn"
stack = "quinn"
[[solution]]
name = "noq"
stack = "noq"
[run]
seeds = 4
limit = "60 s"
series = "100 ms"
items = true
"#;

fn lab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tautline-lab-peers"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program starts")
}

/// An empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // There is none the first time.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Another process, another base of std's clock, other numbers of jobs: the same bytes.
#[test]
fn two_runs_give_the_same_bytes() {
    let root = &folder("two-runs");
    fs::write(root.join("plan.toml"), PLAN).expect("written");
    for (folder, jobs) in [("one", "1"), ("two", "2")] {
        let ran = lab(root, &["run", "plan.toml", "--out", folder, "--jobs", jobs]);
        assert!(ran.status.success(), "{}", told(&ran));
    }
    for table in ["cells", "flows", "series", "items"] {
        for kind in ["csv", "parquet"] {
            let file = format!("{table}.{kind}");
            let read = |folder: &str| fs::read(root.join(folder).join(&file)).expect(&file);
            assert!(read("one") == read("two"), "{file} differs");
        }
    }
    let report = lab(root, &["report", "one"]);
    assert!(report.status.success(), "{}", told(&report));
    let show = lab(root, &["show", "one", "11", "--audit"]);
    assert!(show.status.success(), "{}", told(&show));
    let text = String::from_utf8_lossy(&show.stdout).into_owned();
    assert!(text.contains("no link did what it cannot do"), "{text}");
}

#[test]
fn plans_of_both_kinds_are_listed() {
    let folder = folder("lists");
    let list = lab(&folder, &["list"]);
    assert!(list.status.success(), "{}", told(&list));
    let text = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(
        text.contains("satcom-a1") && text.contains("peers-bulk"),
        "{text}"
    );
    let check = lab(&folder, &["run", "peers-bulk", "--check"]);
    assert!(check.status.success(), "{}", told(&check));
}
