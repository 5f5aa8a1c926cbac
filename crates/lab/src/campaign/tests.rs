use std::sync::atomic::AtomicBool;

use tautline_transport::time::Instant;

use super::*;
use crate::{
    plan::ReadOptions,
    stack::{EndSetup, Inspection, OptionError, Stack, StackOptions},
};

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

/// Outages of a link that is down all the time.
const DEAD: &str = "[{ start = \"0 s\", duration = \"600 s\" }]";

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
        traces: Chosen::default(),
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
        traces: Chosen::default(),
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
        .replace("path = \"network.loss\"", "path = \"network.outages\"")
        .replace("values = [0, \"1 %\"]", &format!("values = [{DEAD}, []]"))
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
        traces: Chosen::default(),
    };
    let stop = AtomicBool::new(false);
    let again = run(&read(), &Stacks::default(), &settings, &stop, |_| {});
    assert!(again.unwrap_err().to_string().contains("files"));
}

/// A plan with a file of a link and one of a flow.
fn with_files(folder: &Path) -> Plan {
    fs::create_dir_all(folder.join("in")).unwrap();
    fs::write(folder.join("in/frames.csv"), "0,1000\n40,2000\n").unwrap();
    fs::write(folder.join("in/down.trace"), "1\n2\n3\n").unwrap();
    let text = PLAN
        .replace(
            "{ kind = \"objects\", count = 3, bytes = \"20 kB\" }",
            "{ kind = \"messages\", trace = { file = \"in/frames.csv\" } }",
        )
        .replace(
            "link = \"wifi\"",
            "down.trace = { file = \"in/down.trace\" }",
        );
    fs::write(folder.join("mine.toml"), text).unwrap();
    let options = ReadOptions::default();
    Plan::read(&folder.join("mine.toml"), &options, &Stacks::default()).unwrap()
}

/// Wherever they were made, wherever they are taken, whatever became of the plan's files.
#[test]
fn results_are_whole_by_themselves() {
    let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let manifests = roots.each_ref().map(|root| {
        let plan = with_files(root.path());
        go(&plan, &root.path().join("results"), 2, usize::MAX);
        fs::read_to_string(root.path().join("results/manifest.json")).unwrap()
    });
    assert_eq!(manifests[0], manifests[1]);
    assert!(manifests[0].contains("\"source\": \"mine.toml\""));
    for root in &roots {
        let root = root.path().to_string_lossy().into_owned();
        assert!(!manifests[0].contains(&root), "{}", manifests[0]);
    }
    let [first, second] = roots;
    let moved = second.path().join("elsewhere");
    fs::rename(first.path().join("results"), &moved).unwrap();
    first.close().unwrap();
    let stacks = Stacks::default();
    let kept = plan_of(&moved, &stacks).unwrap();
    let read = results(&kept, &moved).unwrap();
    assert_eq!((read.missing, read.cells.rows.len()), (0, 8));
    // Played again it is what its row says.
    let journal = Journal::read_only(&moved.join("journal.jsonl")).unwrap();
    let entries = journal.entries().unwrap();
    let again = run_cell(&kept, &kept.cell(3).unwrap(), &stacks);
    assert_eq!(again, entries[&3]);
    // So it is gone on with, from the plan's own file.
    let plan = with_files(second.path());
    assert!(matches!(
        go(&plan, &moved, 1, usize::MAX),
        Ending::Complete(_)
    ));
}

/// Folders from before contents were kept name the folder of their plan's files instead.
#[test]
fn a_folder_from_before_contents_were_kept_is_read() {
    let root = tempfile::tempdir().unwrap();
    let plan = with_files(root.path());
    let folder = root.path().join("results");
    go(&plan, &folder, 1, 1);
    let path = folder.join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut old: serde_json::Value = serde_json::from_str(&text).unwrap();
    let keys = old.as_object_mut().unwrap();
    keys.remove("contents");
    keys.insert("folder".to_owned(), root.path().to_string_lossy().into());
    fs::write(&path, old.to_string()).unwrap();
    let stacks = Stacks::default();
    let kept = plan_of(&folder, &stacks).unwrap();
    assert!(results(&kept, &folder).unwrap().missing > 0);
    assert!(matches!(
        go(&plan, &folder, 1, usize::MAX),
        Ending::Complete(_)
    ));
    fs::remove_dir_all(root.path().join("in")).unwrap();
    let error = plan_of(&folder, &stacks).unwrap_err().to_string();
    assert!(error.contains("in/"), "{error}");
}

/// Traces of chosen cells lie beside the tables and change nothing in them; those that have a row are
/// not played for them.
#[test]
fn traces_are_of_chosen_cells_and_leave_rows_alone() {
    let plan = plan(PLAN);
    let root = tempfile::tempdir().unwrap();
    let (plain, traced) = (root.path().join("plain"), root.path().join("traced"));
    go(&plan, &plain, 2, usize::MAX);
    let stop = AtomicBool::new(false);
    let stacks = Stacks::default();
    let chosen = |qlog: &str, packets: &str| Chosen {
        qlog: qlog.parse().unwrap(),
        packets: packets.parse().unwrap(),
    };
    let play = |resume, traces| {
        let settings = Settings {
            folder: traced.clone(),
            jobs: 1,
            resume,
            traces,
        };
        run(&plan, &stacks, &settings, &stop, |_| {})
    };
    for (qlog, packets) in [("0,8", "0"), ("0", "7-9")] {
        let error = play(false, chosen(qlog, packets)).unwrap_err().to_string();
        assert!(error.starts_with("there is no cell "), "{error}");
        assert!(error.ends_with("they go from 0 to 7"), "{error}");
        assert!(!traced.exists());
    }
    let Ending::Complete(first) = play(false, chosen("0", "0")).unwrap() else {
        panic!("it came to an end");
    };
    assert_eq!((first.total, first.traced), (8, 1));
    assert_eq!(files(&plain), files(&traced));
    // As if it had been stopped after three cells.
    let journal = traced.join("journal.jsonl");
    let lines = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = lines.split_inclusive('\n').take(3).collect();
    fs::write(&journal, lines.concat()).unwrap();
    let Ending::Complete(second) = play(true, chosen("0-3", "0,3")).unwrap() else {
        panic!("it came to an end");
    };
    // Of 0 to 2 there were rows.
    assert_eq!((second.total, second.traced), (8, 1));
    assert_eq!(files(&plain), files(&traced));
    let inside = |cell: usize| -> Vec<String> {
        let names = fs::read_dir(cell_folder(&traced, cell)).map(|entries| {
            let names = entries.map(|entry| entry.unwrap().file_name());
            names
                .map(|name| name.to_string_lossy().into_owned())
                .collect()
        });
        names.unwrap_or_default()
    };
    let qlogs = |cell| {
        inside(cell)
            .iter()
            .filter(|name| name.ends_with(".sqlog"))
            .count()
    };
    // Two connections with two ends each.
    assert_eq!([0, 1, 2, 3, 4].map(qlogs), [4, 0, 0, 4, 0]);
    let captured = |cell| inside(cell).contains(&"packets.pcap".to_owned());
    assert_eq!([0, 2, 3].map(captured), [true, false, true]);
    let keys = fs::read_to_string(cell_folder(&traced, 3).join("keys.log")).unwrap();
    assert!(keys.contains("CLIENT_TRAFFIC_SECRET_0 "), "{keys}");
}

/// Two runs in one folder would write over each other.
#[test]
fn a_folder_that_is_written_to_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan(PLAN);
    go(&plan, root.path(), 1, 1);
    let held = Journal::open(&root.path().join("journal.jsonl")).unwrap();
    let settings = Settings {
        folder: root.path().to_owned(),
        jobs: 1,
        resume: true,
        traces: Chosen::default(),
    };
    let stop = AtomicBool::new(false);
    let refused = run(&plan, &Stacks::default(), &settings, &stop, |_| {});
    assert!(matches!(refused, Err(CampaignError::Busy(_))));
    drop(held);
    assert!(matches!(
        go(&plan, root.path(), 1, usize::MAX),
        Ending::Complete(_)
    ));
}

/// An endless flow that never connected has not done what it should.
#[test]
fn a_dead_endless_flow_is_not_ok() {
    let text = PLAN
        .replace(
            "kind = \"objects\", count = 3, bytes = \"20 kB\"",
            "kind = \"bulk\"",
        )
        .replace("path = \"network.loss\"", "path = \"network.outages\"")
        .replace("values = [0, \"1 %\"]", &format!("values = [{DEAD}]"))
        .replace("limit = \"20 s\"", "limit = \"2 s\"");
    let plan = plan(&text);
    let entry = run_cell(&plan, &plan.cell(0).unwrap(), &Stacks::default());
    assert_eq!(entry.status, "limit");
    assert!(entry.reason.unwrap().contains("had not connected"));
}

fn record_of(text: &str) -> crate::run::Record {
    let plan = plan(text);
    let cell = plan.cell(0).unwrap();
    let scene = plan.scene(&cell, &Stacks::default()).unwrap();
    let watch = crate::stack::Watch::default();
    let mut stage = crate::run::Stage::build(&scene, &Stacks::default(), cell.seed, watch).unwrap();
    stage.audit(1_000_000);
    stage.play(&scene)
}

fn value(record: &crate::run::Record, name: &str) -> Option<f64> {
    let metric = crate::metric::METRICS.iter().find(|m| m.name == name);
    (metric.unwrap().compute)(record)
}

/// With measured flows both ways a share is still one of what goes one way.
#[test]
fn shares_are_of_one_direction() {
    let both = PLAN
        .replace(
            "kind = \"objects\", count = 3, bytes = \"20 kB\"",
            "kind = \"bulk\"",
        )
        .replace(
            "kind = \"bulk\" }\nmeasure = false",
            "kind = \"bulk\", direction = \"up\" }",
        )
        .replace("limit = \"20 s\"", "limit = \"5 s\"");
    let record = record_of(&both);
    let of = |name| value(&record, name).unwrap();
    assert!((of("share") - 1.0).abs() < 1e-9, "{}", of("share"));
    assert!(of("share_of_r") < 1.0, "{}", of("share_of_r"));
    assert!(of("goodput_mbps") > 1.5 * of("total_goodput_mbps"));
}

/// Rates know what was played, which way the link was crossed, and what it changed to; an audit
/// does not blame a link for a change.
#[test]
fn rates_are_of_what_was_played() {
    let played = PLAN.replace("seeds = 2", "seeds = 2\nwindow = [\"10 s\", \"20 s\"]");
    let record = record_of(&played);
    for name in ["goodput_mbps", "utilisation", "share_of_r", "share", "jain"] {
        assert_eq!(value(&record, name), None, "{name}");
    }
    let network = |between: &str, rate: &str| {
        let network = format!(
            "[[network.links]]\nname = \"a\"\nbetween = {between}\nlink = \"wifi\"\n{rate}"
        );
        PLAN.replace("[network]\nlink = \"wifi\"", &network)
            .replace("path = \"network.loss\"", "path = \"flow.other.start\"")
            .replace("values = [0, \"1 %\"]", "values = [\"0 s\", \"1 s\"]")
    };
    let straight = record_of(&network("[\"near\", \"far\"]", ""));
    let turned = record_of(&network("[\"far\", \"near\"]", ""));
    let used = value(&straight, "utilisation").unwrap();
    assert!(used > 0.0 && used <= 1.0, "{used}");
    let other = value(&turned, "utilisation").unwrap();
    assert!((used / other - 1.0).abs() < 0.1, "{used} {other}");
    let halved = "changes = [{ at = \"60 ms\", rate = \"10 Mb/s\" }]";
    let changed = record_of(&network("[\"near\", \"far\"]", halved));
    assert_eq!(changed.violations, [""; 0]);
    let (from, to) = changed.window;
    let capacity = changed.links[0].capacity(tautline_sim::Direction::Backward, (from, to));
    let early = 0.06 / (to - from).as_secs_f64();
    let expected = 20e6 * early + 10e6 * (1.0 - early);
    assert!((capacity.unwrap() / expected - 1.0).abs() < 1e-9, "{to:?}");
    assert!(early < 1.0, "the change came too late to matter: {to:?}");
}

/// Cells of two laboratories would stand in one table; those of one of them can still be read.
#[test]
fn another_laboratory_does_not_go_on() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan(PLAN);
    go(&plan, root.path(), 1, 1);
    let path = root.path().join("manifest.json");
    let manifest = fs::read_to_string(&path).unwrap();
    assert!(!manifest.contains(&std::env::consts::ARCH.to_owned()));
    let settings = Settings {
        folder: root.path().to_owned(),
        jobs: 1,
        resume: true,
        traces: Chosen::default(),
    };
    let stop = AtomicBool::new(false);
    let now = MadeBy::this(&Stacks::default());
    let version = format!("\"version\": {:?}", now.version);
    let results_of = format!("\"results\": {RESULTS}");
    for (from, to, words) in [
        (
            version.as_str(),
            "\"version\": \"0.0.9\"",
            "results of tautline-lab 0.0.9",
        ),
        (
            results_of.as_str(),
            "\"results\": 999",
            "(results 999); this is",
        ),
        (
            "\"initial_window_packets\": \"10\"",
            "\"initial_window_packets\": \"32\"",
            "default of initial_window_packets of stack tautline was 32 and is 10",
        ),
        ("\"queue_drops\"", "\"queue_falls\"", "other metrics"),
    ] {
        let changed = manifest.replace(from, to);
        assert_ne!(changed, manifest, "{from}: {manifest}");
        fs::write(&path, changed).unwrap();
        let error = run(&plan, &Stacks::default(), &settings, &stop, |_| {}).unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
        let read = results(&plan, root.path()).unwrap();
        assert!(!read.cells.rows.is_empty());
        let known = |name| {
            read.cells
                .values(name)
                .all(|value| value.as_number().is_some())
        };
        assert!(known("events") && known("completion_s"));
        assert_eq!(known("queue_drops"), !words.contains("metrics"));
    }
    // A folder from before versions were written down.
    let mut old: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    old.as_object_mut().unwrap().remove("made_by");
    fs::write(&path, old.to_string()).unwrap();
    let error = run(&plan, &Stacks::default(), &settings, &stop, |_| {}).unwrap_err();
    assert!(error.to_string().contains("before versions"), "{error}");
    assert!(
        !results(&plan, root.path())
            .unwrap()
            .made_by
            .is_of_this_version()
    );
    fs::write(&path, manifest).unwrap();
    let ending = go(&plan, root.path(), 1, usize::MAX);
    assert!(matches!(ending, Ending::Complete(_)));
}

/// Short flows have no share of a window; those that fill it have.
#[test]
fn fairness_is_among_flows_that_last() {
    let long = PLAN
        .replace(
            "kind = \"objects\", count = 3, bytes = \"20 kB\"",
            "kind = \"bulk\"",
        )
        .replace("path = \"network.loss\"", "path = \"flow.other.start\"")
        .replace("values = [0, \"1 %\"]", "values = [\"0 s\"]")
        .replace("seeds = 2", "window = [\"5 s\", \"15 s\"]");
    let short = |keys: &str| {
        let flow = format!(
            "[[flow]]\nname = \"short\"\nmeasure = false\n{keys}\n[[solution]]\nname = \"cubic\""
        );
        long.replacen("[[solution]]\nname = \"cubic\"", &flow, 1)
    };
    let bulk = "workload = { kind = \"bulk\" }";
    for keys in [
        "workload = { kind = \"bulk\", bytes = \"100 kB\" }\nstart = \"6 s\"",
        "workload = { kind = \"bulk\", bytes = \"8 MB\" }",
        &format!("{bulk}\nstop = \"7 s\""),
    ] {
        let record = record_of(&short(keys));
        let rates: Vec<f64> = record
            .flows
            .iter()
            .map(|f| f.goodput(record.window))
            .collect();
        assert!(rates[2] > 0.0, "{keys}: not in the window: {rates:?}");
        let expected = crate::metric::jain(&rates[..2]);
        assert_eq!(value(&record, "jain"), expected, "{keys}");
    }
    let record = record_of(&short(bulk));
    let rates: Vec<f64> = record
        .flows
        .iter()
        .map(|f| f.goodput(record.window))
        .collect();
    assert_eq!(value(&record, "jain"), crate::metric::jain(&rates));
    let alone = long.replace("values = [\"0 s\"]", "values = [\"6 s\"]");
    assert_eq!(value(&record_of(&alone), "jain"), None);
}

#[test]
fn lateness_is_after_the_deadline() {
    let with = |deadline: &str| {
        let messages = format!(
            "kind = \"messages\", trace = {{ constant = {{ every = \"40 ms\", count = 25, bytes = \"20 kB\" }} }}{deadline}"
        );
        record_of(&PLAN.replace(
            "kind = \"objects\", count = 3, bytes = \"20 kB\"",
            &messages,
        ))
    };
    let none = with("");
    assert_eq!(value(&none, "late_p50_ms"), None);
    // No message of 8 ms at 20 Mb/s comes over 12.5 ms in less; all do in a minute.
    let strict = with(", deadline = \"5 ms\"");
    for (late, delay) in [
        ("late_p50_ms", "item_p50_ms"),
        ("late_p95_ms", "item_p95_ms"),
        ("late_max_ms", "item_max_ms"),
    ] {
        let (late, delay) = (
            value(&strict, late).unwrap(),
            value(&strict, delay).unwrap(),
        );
        assert!(
            late > 15.0 && (delay - late - 5.0).abs() < 1e-6,
            "{late} {delay}"
        );
    }
    let ample = with(", deadline = \"60 s\"");
    assert_eq!(value(&ample, "late_max_ms"), Some(0.0));
    assert_eq!(value(&ample, "on_time"), Some(1.0));
}

/// A stack whose timeout is always due.
#[derive(Debug)]
struct Sleepless;

impl tautline_sim::Node for Sleepless {
    fn handle_datagram(&mut self, _: Instant, _: tautline_sim::Datagram) {}

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        Some(Instant::ZERO)
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<tautline_sim::Datagram> {
        None
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

impl Stack for Sleepless {
    fn client(&self, _: &StackOptions, _: EndSetup) -> Result<Box<dyn tautline_sim::Node>, String> {
        Ok(Box::new(Self))
    }

    fn server(&self, _: &StackOptions, _: EndSetup) -> Result<Box<dyn tautline_sim::Node>, String> {
        Ok(Box::new(Self))
    }

    fn inspect<'a>(&self, _: &'a dyn std::any::Any) -> Option<Inspection<'a>> {
        None
    }

    fn check(&self, _: &StackOptions) -> Result<(), OptionError> {
        Ok(())
    }
}

#[test]
fn a_world_that_is_stuck_is_a_row_with_the_reason() {
    let mut stacks = Stacks::default();
    stacks.register("sleepless", std::sync::Arc::new(Sleepless));
    let text = PLAN.replace(
        "name = \"bbr3\"\ncongestion = \"bbr3\"",
        "name = \"bad\"\nstack = \"sleepless\"",
    );
    let plan = Plan::parse(&text, Path::new("."), &ReadOptions::default(), &stacks).unwrap();
    let index = (0..plan.len()).find(|&index| plan.cell(index).unwrap().solution == 1);
    let entry = run_cell(&plan, &plan.cell(index.unwrap()).unwrap(), &stacks);
    assert_eq!(entry.status, "error");
    assert!(entry.reason.unwrap().contains("without end"));
}
