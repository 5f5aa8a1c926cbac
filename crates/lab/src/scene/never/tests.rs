use std::path::Path;

use crate::{
    plan::{Plan, PlanError, ReadOptions},
    run::play,
    stack::Stacks,
};

const PLAN: &str = r#"
name = "never"
title = "What never happens"
[network]
link = "wifi"
[[flow]]
name = "main"
workload = { kind = "datagrams", rate = "1 Mb/s", bytes = "1 kB", duration = "2 s" }
[[solution]]
name = "one"
[run]
limit = "60 s"
"#;

fn parse(text: &str) -> Result<Plan, PlanError> {
    Plan::parse(
        text,
        Path::new("."),
        &ReadOptions::default(),
        &Stacks::default(),
    )
}

/// The plan with more keys of its link.
fn link(keys: &str) -> String {
    PLAN.replace("link = \"wifi\"\n", &format!("link = \"wifi\"\n{keys}\n"))
}

/// Each with its line, the whole path, the reason and what would be valid.
fn refused(text: &str, place: &str, part: &str) {
    let told = match parse(text) {
        Ok(_) => panic!("{place}: accepted\n{text}"),
        Err(error) => error.to_string(),
    };
    assert!(
        told.starts_with(&format!("{place}: ")),
        "{told}\n{place}: {part}"
    );
    assert!(told.contains(part), "{told}\n{place}: {part}");
}

#[test]
fn what_comes_after_the_end_is_refused() {
    let changes = "changes = [\n{ at = \"9 s\", mtu = 1400 },\n{ at = \"60 s\", mtu = 1300 }]";
    let steps = "down = { rate_steps = { steps = [\n{ at = \"0 s\", rate = \"1 Mb/s\" },\n\
                 { at = \"70 s\", rate = \"2 Mb/s\" }] } }";
    for (keys, place, part) in [
        (
            changes,
            "plan:8: network.changes[1].at",
            "a change at 60s never comes, for the run is over after 60s",
        ),
        (
            "outages = [{ start = \"61 s\", duration = \"1 s\" }]",
            "plan:6: network.up.outages[0].start",
            "an outage at 61s never comes",
        ),
        (
            "changes = [{ at = \"9 s\", outages = [{ start = \"61 s\", duration = \"1 s\" }] }]",
            "plan:6: network.changes[0].up.outages[0].start",
            "write an earlier time",
        ),
        (
            steps,
            "plan:8: network.down.rate_steps.steps[1].at",
            "a step at 70s never comes",
        ),
        (
            "handover = { every = \"90 s\", offset = \"75 s\", gap = \"1 s\" }",
            "plan:6: network.up.handover.offset",
            "the first hand-over at 75s never comes",
        ),
        (
            "up.handover = { every = \"90 s\", gap = \"1 s\" }",
            "plan:6: network.up.handover.every",
            "the first hand-over at 90s never comes",
        ),
    ] {
        refused(&link(keys), place, part);
    }
    for keys in [
        "changes = [{ at = \"59 s\", mtu = 1400 }]",
        "outages = [{ start = \"0 s\", duration = \"600 s\" }]",
        // What the first slot drew is the delay of the whole run.
        "handover = { every = \"90 s\", delay_spread = \"5 ms\" }",
        "link = \"starlink\"",
    ] {
        let text = link(keys).replace("link = \"wifi\"\nlink", "link");
        parse(&text).unwrap_or_else(|error| panic!("{keys}: {error}"));
    }
    // The small version may end before them.
    let small = format!(
        "{}[smoke]\n\"run.limit\" = \"5 s\"\n",
        link("changes = [{ at = \"9 s\", mtu = 1400 }]")
    );
    let options = ReadOptions {
        smoke: true,
        ..ReadOptions::default()
    };
    Plan::parse(&small, Path::new("."), &options, &Stacks::default()).unwrap();
}

/// Of several links each is told by where it stands, also what all of them start from.
#[test]
fn links_that_are_late_are_told_apart() {
    let several = |common: &str, own: &str| {
        let paths = format!(
            "{common}\n[[network.paths]]\nname = \"a\"\n[[network.paths]]\nname = \"b\"\n{own}\n"
        );
        PLAN.replace("link = \"wifi\"\n", &paths)
    };
    let change = "changes = [{ at = \"60 s\", mtu = 1400 }]";
    let part = "never comes";
    refused(
        &several("", change),
        "plan:10: network.paths.b.changes[0].at",
        part,
    );
    refused(
        &several(change, ""),
        "plan:5: network.paths.a.changes[0].at",
        part,
    );
    let graph =
        format!("[[network.links]]\nname = \"l\"\nbetween = [\"near\", \"far\"]\n{change}\n");
    let text = PLAN.replace("[network]\nlink = \"wifi\"\n", &graph);
    refused(&text, "plan:7: network.links[0].changes[0].at", part);
}

#[test]
fn links_that_let_nothing_through_are_refused() {
    let lost = "every packet would be lost, from the beginning to the end; a share below 1";
    for (keys, place, part) in [
        ("loss = \"100 %\"", "plan:6: network.up.loss", lost),
        ("down.loss = 1", "plan:6: network.down.loss", lost),
        (
            "loss = { model = \"gilbert\", probability = 1.0, mean_burst = 3.0 }",
            "plan:6: network.up.loss.probability",
            "would pick every packet",
        ),
        (
            "loss = { model = \"gilbert-elliott\", good_to_bad = 0.1, bad_to_good = 0.0, loss_good = 0.0, loss_bad = 1.0 }",
            "plan:6: network.up.loss",
            lost,
        ),
        (
            "loss = { model = \"recorded\", pattern = \"111\", repeat = true }",
            "plan:6: network.up.loss",
            lost,
        ),
        (
            "loss = 1\nchanges = [{ at = \"2 s\", mtu = 1400 }]",
            "plan:6: network.up.loss",
            lost,
        ),
        (
            "corruption = 1",
            "plan:6: network.up.corruption",
            "outages = [{ start = '0 s', duration = '600 s' }]",
        ),
    ] {
        refused(&link(keys), place, part);
    }
    for keys in [
        "loss = \"99 %\"",
        "loss = { model = \"uniform\", probability = 1.0, max_burst = 9 }",
        "loss = { model = \"recorded\", pattern = \"111\" }",
        // A link that comes, and one that goes.
        "loss = 1\nchanges = [{ at = \"2 s\", loss = 0 }]",
        "changes = [{ at = \"2 s\", loss = 1 }]",
    ] {
        parse(&link(keys)).unwrap_or_else(|error| panic!("{keys}: {error}"));
    }
}

/// Up to the byte that the transport takes, and none more.
#[test]
fn datagrams_that_never_fit_are_refused() {
    let stacks = Stacks::default();
    for (solution, network, limit) in [
        ("", "", 1420),
        ("mtu_discovery = false", "", 1168),
        ("mtu_discovery = false\nmtu = 1300", "", 1268),
        ("mtu = 9000", "", 1440),
        ("mtu_discovery = false", "down.mtu = 1228", 1168),
        ("", "down.mtu = 1228", 1168),
        ("stack = \"split-tcp\"\ncongestion = \"hybla\"", "", 1448),
    ] {
        let with = |bytes: u64| {
            link(network)
                .replace("1 kB", &format!("{bytes} B"))
                .replace("name = \"one\"", &format!("name = \"one\"\n{solution}"))
        };
        let plan = parse(&with(limit)).unwrap_or_else(|error| panic!("{solution}: {error}"));
        let cell = plan.cell(0).unwrap();
        let scene = plan.scene(&cell, &stacks).unwrap();
        let record = play(&scene, &stacks, cell.seed).unwrap();
        let extra = &record.flows[0].receiver.extra;
        assert!(
            extra["datagrams_received"] > 20.0,
            "{solution}, {network}: {extra:?}"
        );
        let error = parse(&with(limit + 1)).expect_err(solution);
        assert_eq!(error.field, "flow.main.workload.bytes");
        let line = if network.is_empty() { 8 } else { 9 };
        assert!(error.line.unwrap().abs_diff(line) <= 1, "{error}");
        let part = format!("would never be sent: one has at most {limit} B with stack ");
        assert!(error.problem.contains(&part), "{error}");
    }
    // The widest of several links in a row, paths and times decides.
    let later = "down.mtu = 1300\nchanges = [{ at = \"1 s\", down.mtu = 1500 }]";
    parse(&link(later).replace("1 kB", "1400 B")).unwrap();
    parse(&link("up.mtu = 1300").replace("1 kB", "1400 B")).unwrap();
    let narrow = link("down.mtu = 1300").replace("1 kB", "1400 B");
    let error = parse(&narrow).unwrap_err().to_string();
    assert!(error.contains("IP packets of up to 1300 bytes"), "{error}");
    let paths = "[[network.paths]]\nname = \"a\"\nmtu = 1300\n[[network.paths]]\nname = \"b\"\n";
    let two = PLAN
        .replace("link = \"wifi\"\n", paths)
        .replace("1 kB", "1400 B");
    assert!(parse(&two).is_err(), "the first path alone");
    let both = two.replace("name = \"one\"", "name = \"one\"\nmultipath = \"min-rtt\"");
    parse(&both).unwrap();
}
