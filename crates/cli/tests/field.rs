//! `tautline lab far` and `tautline lab field` as two processes.

mod common;

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use common::{Server, fail, succeed, tautline};

const TOKEN: &str = "a-word-that-nobody-guesses";

const PLAN: &str = r#"
name = "small"
title = "A small plan"
[network]
link = "wifi"
[[flow]]
name = "main"
workload = { kind = "bulk", bytes = "50 MB" }
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
seeds = 2
limit = "30 s"
[report]
baseline = "cubic"
[smoke]
"flow.main.workload.bytes" = "200 kB"
"#;

fn far(more: &[&str]) -> Server {
    let mut arguments = vec!["lab", "far", "--listen", "127.0.0.1:0", "--token", TOKEN];
    arguments.extend(more);
    Server::start(&arguments)
}

fn field(folder: &Path, far: &Server, more: &[&str]) -> Command {
    let mut command = tautline();
    let at = format!("127.0.0.1:{}", far.port);
    command
        .args(["lab", "field", "plan.toml", "--far", &at, "--token", TOKEN])
        .args(["--smoke", "--pause", "0 s"])
        .args(more)
        .current_dir(folder);
    command
}

fn rows(journal: &Path) -> Vec<String> {
    let text = fs::read_to_string(journal).unwrap_or_default();
    let whole = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    whole.map(str::to_owned).collect()
}

fn cell(row: &str) -> u64 {
    let row: serde_json::Value = serde_json::from_str(row).expect("a row");
    row["cell"].as_u64().expect("a cell")
}

#[test]
fn a_smoke_plan_runs_and_is_reported_on() {
    let root = tempfile::tempdir().expect("a folder");
    let root = root.path();
    fs::write(root.join("plan.toml"), PLAN).expect("written");
    let far = far(&[]);
    let pin = far.fingerprint.clone();
    succeed(&mut field(root, &far, &["--pin", &pin]));
    let folder = root.join("lab-results/small-field-smoke");
    let journal = rows(&folder.join("journal.jsonl"));
    assert_eq!(journal.len(), 4);
    let csv = fs::read_to_string(folder.join("cells.csv")).expect("a table");
    assert_eq!(csv.lines().count(), 5);
    assert_eq!(csv.matches(",ok,").count(), 4, "{csv}");
    assert!(folder.join("cells.parquet").exists() && folder.join("schema.md").exists());

    // The order is the draw's.
    succeed(&mut field(root, &far, &["--out", "again"]));
    let order = |rows: &[String]| rows.iter().map(|row| cell(row)).collect::<Vec<_>>();
    let again = rows(&root.join("again/journal.jsonl"));
    assert_eq!(order(&again), order(&journal));

    let mut report = tautline();
    report.args(["lab", "report"]).arg(&folder);
    succeed(&mut report);
    let page = fs::read_to_string(folder.join("summary.md")).expect("a summary");
    assert!(page.contains("A small plan (field data)"), "{page}");
    assert!(page.contains("lab field plan.toml"), "{page}");

    let told = fail(tautline().args(["lab", "show"]).arg(&folder).arg("0"));
    assert!(told.contains("field data"), "{told}");
    let mut simulated = tautline();
    simulated
        .args([
            "lab",
            "run",
            "plan.toml",
            "--smoke",
            "--resume",
            "--out",
            "again",
        ])
        .current_dir(root);
    let told = fail(&mut simulated);
    assert!(
        told.contains("it holds field data of two machines"),
        "{told}"
    );
    let told = fail(&mut field(
        root,
        &far,
        &["--out", "other", "--solutions", "cubik"],
    ));
    assert!(told.contains("did you mean `cubic`"), "{told}");
}

/// Killed again and again, with SIGKILL, and gone on with: each run has one row, and rows stay as they
/// are.
#[test]
fn kills_lose_no_row_and_make_none_twice() {
    let root = tempfile::tempdir().expect("a folder");
    let root = root.path();
    fs::write(root.join("plan.toml"), PLAN).expect("written");
    let far = far(&["--peers", "64"]);
    let journal = root.join("cut/journal.jsonl");
    let mut kept: Vec<String> = Vec::new();
    for number in 1..=4 {
        let mut command = field(root, &far, &["--out", "cut", "--runs", "4"]);
        if root.join("cut/manifest.json").exists() {
            command.arg("--resume");
        }
        let mut child: Child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut waited = 0;
        while rows(&journal).len() < 2 * number && waited < 20_000 {
            sleep(Duration::from_millis(5));
            waited += 5;
            if child.try_wait().expect("it can be asked").is_some() {
                break;
            }
        }
        sleep(Duration::from_millis(7 * number as u64));
        let _ = child.kill();
        child.wait().expect("it ends");
        let now = rows(&journal);
        assert!(now.starts_with(&kept), "rows are lost or others");
        kept = now;
    }
    succeed(&mut field(
        root,
        &far,
        &["--out", "cut", "--runs", "4", "--resume"],
    ));
    let all = rows(&journal);
    assert!(all.starts_with(&kept));
    let mut cells: Vec<u64> = all.iter().map(|row| cell(row)).collect();
    cells.sort_unstable();
    assert_eq!(cells, (0..8).collect::<Vec<u64>>());
    assert!(root.join("cut/cells.csv").exists());
}

#[test]
fn what_goes_wrong_is_one_sentence() {
    let root = tempfile::tempdir().expect("a folder");
    let root = root.path();
    fs::write(root.join("plan.toml"), PLAN).expect("written");
    let far = far(&[]);
    let mut wrong = tautline();
    let at = format!("127.0.0.1:{}", far.port);
    wrong
        .args([
            "lab",
            "field",
            "plan.toml",
            "--far",
            &at,
            "--token",
            "another-word",
        ])
        .current_dir(root);
    let told = fail(&mut wrong);
    assert!(told.contains("the token is another one"), "{told}");
    drop(far);
    let mut nobody = tautline();
    nobody
        .args(["lab", "field", "plan.toml", "--far", &at, "--token", TOKEN])
        .current_dir(root);
    let told = fail(&mut nobody);
    assert!(told.contains("start `tautline lab far"), "{told}");
    assert!(!root.join("lab-results").exists());
}
