use std::sync::atomic::AtomicBool;

use super::*;
use crate::plan::ReadOptions;

const PLAN: &str = r#"
name = "tiny"
title = "Tiny"
[network]
link = "wifi"
[[flow]]
name = "main"
workload = { kind = "objects", count = 3, bytes = "20 kB" }
[[flow]]
name = "other"
workload = { kind = "bulk" }
measure = false
[[solution]]
name = "cubic"
congestion = "cubic"
[[solution]]
name = "bbr3"
congestion = "bbr3"
[[design.factor]]
name = "loss"
path = "network.loss"
values = [0, "1 %"]
[run]
seeds = 2
limit = "20 s"
series = "200 ms"
items = true
"#;

fn plan(text: &str) -> Plan {
    Plan::parse(
        text,
        Path::new("."),
        &ReadOptions::default(),
        &Stacks::default(),
    )
    .unwrap()
}

fn go(plan: &Plan, folder: &Path, jobs: usize, stop_after: usize) -> Ending {
    let settings = Settings {
        folder: folder.to_owned(),
        jobs,
        resume: folder.join("manifest.json").exists(),
    };
    let stop = AtomicBool::new(false);
    let begun = std::cell::Cell::new(0);
    run(plan, &Stacks::default(), &settings, &stop, |_| {
        begun.set(begun.get() + 1);
        if begun.get() > stop_after {
            stop.store(true, Ordering::Relaxed);
        }
    })
    .unwrap()
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|e| e == "csv" || e == "parquet")
        })
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn jobs_and_interruptions_leave_no_trace() {
    let plan = plan(PLAN);
    let root = tempfile::tempdir().unwrap();
    let (one, two, cut) = (
        root.path().join("1"),
        root.path().join("2"),
        root.path().join("3"),
    );
    assert!(matches!(
        go(&plan, &one, 1, usize::MAX),
        Ending::Complete(_)
    ));
    assert!(matches!(
        go(&plan, &two, 2, usize::MAX),
        Ending::Complete(_)
    ));
    assert!(matches!(go(&plan, &cut, 1, 2), Ending::Stopped(_)));
    // As if killed in the middle of a line.
    let journal = cut.join("journal.jsonl");
    let mut text = fs::read(&journal).unwrap();
    text.extend_from_slice(b"{\"cell\":5,\"sta");
    fs::write(&journal, text).unwrap();
    assert!(matches!(
        go(&plan, &cut, 2, usize::MAX),
        Ending::Complete(_)
    ));
    let expected = files(&one);
    assert_eq!(expected.len(), 8);
    assert_eq!(expected, files(&two));
    assert_eq!(expected, files(&cut));
}

#[test]
fn a_folder_keeps_to_its_plan() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("results");
    go(&plan(PLAN), &folder, 2, usize::MAX);
    let settings = |resume| Settings {
        folder: folder.clone(),
        jobs: 1,
        resume,
    };
    let stop = AtomicBool::new(false);
    let stacks = Stacks::default();
    let again = run(&plan(PLAN), &stacks, &settings(false), &stop, |_| {});
    assert!(matches!(again, Err(CampaignError::Occupied(_))));
    let other = plan(&PLAN.replace("20 kB", "30 kB"));
    let other = run(&other, &stacks, &settings(true), &stop, |_| {});
    assert!(matches!(other, Err(CampaignError::Other { .. })));
    let kept = plan_of(&folder, &stacks).unwrap();
    let results = results(&kept, &folder).unwrap();
    assert_eq!(results.missing, 0);
    assert_eq!(results.cells.rows.len(), 8);
    assert_eq!(results.flows.rows.len(), 16);
    assert!(
        results
            .cells
            .values("status")
            .all(|s| s.as_text() == Some("ok"))
    );
    assert!(!results.series.rows.is_empty());
    assert_eq!(results.items.rows.len(), 8 * 3);
}

#[test]
fn a_cell_that_fails_is_a_row_with_the_reason() {
    let text = PLAN
        .replace("values = [0, \"1 %\"]", "values = [\"100 %\", 0]")
        .replace("limit = \"20 s\"", "limit = \"60 s\"");
    let plan = plan(&text);
    let entry = run_cell(&plan, &plan.cell(0).unwrap(), &Stacks::default());
    assert_eq!(entry.status, "error");
    assert!(entry.reason.unwrap().contains("handshake"));
}

/// Results know the files that they come from, wherever they themselves lie.
#[test]
fn a_file_that_changed_is_another_plan() {
    let root = tempfile::tempdir().unwrap();
    let frames = root.path().join("frames.csv");
    fs::write(&frames, "0,1000\n40,2000\n").unwrap();
    let text = PLAN.replace(
        "{ kind = \"objects\", count = 3, bytes = \"20 kB\" }",
        "{ kind = \"messages\", trace = { file = \"frames.csv\" } }",
    );
    let read = || {
        let options = ReadOptions::default();
        Plan::parse(&text, root.path(), &options, &Stacks::default()).unwrap()
    };
    let plan = read();
    let folder = root.path().join("results");
    assert!(matches!(
        go(&plan, &folder, 1, usize::MAX),
        Ending::Complete(_)
    ));
    let kept = plan_of(&folder, &Stacks::default()).unwrap();
    let results = results(&kept, &folder).unwrap();
    let hash = &plan.files["frames.csv"];
    for parameters in results.cells.values("parameters") {
        assert!(parameters.as_text().unwrap().contains(hash));
    }
    fs::write(&frames, "0,1000\n40,3000\n").unwrap();
    let entry = run_cell(&plan, &plan.cell(0).unwrap(), &Stacks::default());
    assert_eq!(entry.status, "refused");
    assert!(entry.reason.unwrap().contains("frames.csv has changed"));
    let settings = Settings {
        folder: folder.clone(),
        jobs: 1,
        resume: true,
    };
    let stop = AtomicBool::new(false);
    let again = run(&read(), &Stacks::default(), &settings, &stop, |_| {});
    assert!(again.unwrap_err().to_string().contains("files"));
}
