//! Every workload on every stack; the same twice; failures as rows.

use std::{path::Path, time::Duration};

use tautline_lab::{
    campaign::{Entry, run_cell},
    metric::METRICS,
    plan::{Plan, PlanError, ReadOptions},
    run::Stage,
    stack::{Stacks, Watch},
    table::Value,
};
use tautline_lab_peers::stacks;

/// Kinds of workload, each small.
const WORKLOADS: [&str; 9] = [
    r#"{ kind = "bulk", bytes = "1 MB" }"#,
    r#"{ kind = "bulk", bytes = "1 MB", direction = "up" }"#,
    r#"{ kind = "bulk", bytes = "20 kB", streams = 300 }"#,
    r#"{ kind = "objects", count = 30, bytes = "50 kB", request_bytes = "2 kB" }"#,
    r#"{ kind = "messages", trace = { constant = { every = "40 ms", bytes = "15 kB", count = 100 } } }"#,
    r#"{ kind = "messages", direction = "up", trace = { constant = { every = "40 ms", bytes = "15 kB", count = 100 } } }"#,
    r#"{ kind = "datagrams", rate = "500 kb/s", bytes = "800 B", duration = "5 s" }"#,
    r#"{ kind = "page", page = "objects-30" }"#,
    r#"{ kind = "video", duration = "20 s" }"#,
];
/// Every controller of every peer.
const SOLUTIONS: [(&str, &str); 6] = [
    ("quinn", "newreno"),
    ("quinn", "cubic"),
    ("quinn", "bbr"),
    ("noq", "newreno"),
    ("noq", "cubic"),
    ("noq", "bbr3"),
];

fn text(workload: &str, link: &str, (stack, congestion): (&str, &str), more: &str) -> String {
    format!(
        r#"
name = "test"
title = "A test"
[network]
link = "wifi"
{link}
[[flow]]
name = "main"
workload = {workload}
[[solution]]
name = "one"
stack = "{stack}"
congestion = "{congestion}"
{more}
[run]
limit = "300 s"
"#
    )
}

fn parse(text: &str, stacks: &Stacks) -> Result<Plan, PlanError> {
    Plan::parse(text, Path::new("."), &ReadOptions::default(), stacks)
}

fn plan(text: &str) -> Plan {
    parse(text, &stacks()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn play(plan: &Plan) -> Entry {
    run_cell(plan, &plan.cell(0).expect("a cell"), &stacks())
}

fn metric(entry: &Entry, name: &str) -> Value {
    let place = METRICS.iter().position(|metric| metric.name == name);
    entry.metrics[place.expect(name)].clone()
}

#[test]
fn every_workload_ends_on_every_stack_and_no_packet_comes_from_nowhere() {
    for workload in WORKLOADS {
        for link in ["", "loss = \"2 %\""] {
            for solution in SOLUTIONS {
                let plan = plan(&text(workload, link, solution, ""));
                let cell = plan.cell(0).expect("a cell");
                let stacks = stacks();
                let scene = plan.scene(&cell, &stacks).expect("a scene");
                let mut stage =
                    Stage::build(&scene, &stacks, cell.seed, Watch::default()).expect("a stage");
                stage.audit(1_000_000);
                let record = stage.play(&scene);
                let what = format!("{workload} over {link:?} on {solution:?}");
                assert_eq!(record.violations, Vec::<String>::new(), "{what}");
                let flow = &record.flows[0];
                assert_eq!(flow.error, None, "{what}");
                assert!(flow.receiver.finished.is_some(), "{what}: not finished");
                assert!(flow.receiver.received_bytes > 0, "{what}");
                let wire = flow.sender_wire.expect("counters after the end");
                assert!(wire.packets_sent > 0 && wire.bytes_sent > 0, "{what}");
            }
        }
    }
}

#[test]
fn seeded_stacks_repeat_themselves_and_the_others_say_that_they_do_not() {
    for solution in SOLUTIONS {
        let seeded = !["bbr", "bbr3"].contains(&solution.1);
        for workload in WORKLOADS {
            let plan = plan(&text(workload, "loss = \"1 %\"", solution, ""));
            let one = play(&plan);
            assert_eq!(one.deterministic, seeded, "{solution:?}");
            if seeded {
                assert_eq!(one, play(&plan), "{workload} on {solution:?}");
            }
        }
    }
}

#[test]
fn what_a_stack_does_not_tell_is_empty() {
    let of = |solution| {
        let entry = play(&plan(&text(WORKLOADS[0], "", solution, "")));
        let told = |name| metric(&entry, name) != Value::NONE;
        [
            "packets_lost",
            "acks_per_packet",
            "queue_delay_ms",
            "spurious_losses",
            "ptos",
        ]
        .map(told)
    };
    assert_eq!(of(("tautline", "cubic")), [true, true, true, true, true]);
    assert_eq!(of(("quinn", "cubic")), [true, true, true, false, false]);
    // The queue's delay is the link's to tell.
    assert_eq!(of(("noq", "cubic")), [true, true, true, false, false]);
}

/// The link goes away for good while a transfer is under way.
#[test]
fn a_connection_that_dies_is_a_row_with_the_reason() {
    let link = "changes = [{ at = \"300 ms\", loss = \"100 %\" }]";
    for (stack, congestion) in SOLUTIONS {
        let more = "idle_timeout = \"5 s\"";
        let entry = play(&plan(&text(WORKLOADS[0], link, (stack, congestion), more)));
        assert_eq!(entry.status, "error", "{stack} {congestion}");
        let reason = entry.reason.expect("a reason");
        assert!(reason.contains("timed out"), "{reason}");
        assert!(!entry.flows.is_empty());
    }
}

/// A server that is never reached: the client gives up, or time does.
#[test]
fn a_handshake_that_cannot_be_is_a_row() {
    for (stack, congestion) in SOLUTIONS {
        let link = "outages = [{ start = \"0 s\", duration = \"600 s\" }]";
        let entry = play(&plan(&text(WORKLOADS[3], link, (stack, congestion), "")));
        assert_eq!(entry.status, "error", "{stack}: {:?}", entry.reason);
    }
}

#[test]
fn options_are_heard() {
    let short = |more: &str| {
        let entry = play(&plan(&text(
            r#"{ kind = "bulk", bytes = "2 MB" }"#,
            "",
            ("quinn", "cubic"),
            more,
        )));
        let number = |name: &str| match metric(&entry, name) {
            Value::Number(value) => value,
            other => panic!("{name}: {other:?}"),
        };
        (
            number("completion_s"),
            number("acks_per_packet"),
            number("packets_sent"),
        )
    };
    let plain = short("");
    // 20 kB a round trip of 25 ms is 6.4 Mb/s of 20.
    assert!(short("receive_window = \"20 kB\"").0 > 2.0 * plain.0);
    assert!(short("ack = \"frequency\"").1 < 0.6 * plain.1);
    assert!(short("mtu_discovery = false").2 > 1.1 * plain.2);
    assert!(short("initial_window = 100").0 < plain.0);
}

#[test]
fn what_a_stack_lacks_is_told_before_anything_runs() {
    for (solution, more, field, nearest) in [
        (("quinn", "bbr3-taut"), "", "congestion", None),
        (("quinn", "cubik"), "", "congestion", Some("cubic")),
        (("noq", "bbr"), "", "congestion", Some("bbr3")),
        (("quinn", "cubic"), "pacing = false", "pacing", None),
        (("quin", "cubic"), "", "stack", Some("quinn")),
    ] {
        let text = text(WORKLOADS[0], "", solution, more);
        let error = parse(&text, &stacks()).expect_err("refused");
        assert!(error.field.ends_with(field), "{error}");
        if nearest.is_some() {
            assert_eq!(error.nearest.as_deref(), nearest, "{error}");
        }
    }
    // The laboratory alone names the program that has the stack.
    let text = text(WORKLOADS[0], "", ("noq", "cubic"), "");
    let error = parse(&text, &Stacks::default()).expect_err("refused");
    assert!(
        error.to_string().contains("cargo xtask lab-peers"),
        "{error}"
    );
}

#[test]
fn bundled_plans_read_in_both_sizes_and_their_smoke_plays() {
    for bundled in tautline_lab_peers::PLANS {
        for smoke in [false, true] {
            let options = ReadOptions {
                smoke,
                ..ReadOptions::default()
            };
            let plan = Plan::parse(bundled.text, Path::new("."), &options, &stacks())
                .unwrap_or_else(|error| panic!("{}: {error}", bundled.name));
            assert_eq!(plan.name, bundled.name);
            assert!(!plan.expect.is_empty());
            if smoke {
                let step = plan.len().div_ceil(7).max(1);
                for index in (0..plan.len()).step_by(step) {
                    let entry = run_cell(&plan, &plan.cell(index).expect("a cell"), &stacks());
                    assert_eq!(
                        entry.status, "ok",
                        "{} {index}: {:?}",
                        plan.name, entry.reason
                    );
                }
            }
        }
    }
}

/// Cross traffic of another stack on the same bottleneck.
#[test]
fn stacks_share_a_link() {
    let text = text(
        r#"{ kind = "bulk", bytes = "3 MB" }"#,
        "",
        ("quinn", "cubic"),
        "",
    );
    let text = format!(
        "{text}\n[[flow]]\nname = \"other\"\nworkload = {{ kind = \"bulk\" }}\nmeasure = false\n\
         stack = {{ stack = \"noq\", congestion = \"cubic\" }}\n"
    );
    let entry = play(&plan(&text));
    assert_eq!(entry.status, "ok", "{:?}", entry.reason);
    assert_eq!(entry.flows.len(), 2);
    assert_eq!(entry.flows[1].stack, "noq");
    assert!(entry.deterministic);
    let Value::Number(completion) = metric(&entry, "completion_s") else {
        panic!("no completion");
    };
    assert!(Duration::from_secs_f64(completion) > Duration::from_millis(1500));
}

/// noq's own rule over two paths: both carry data, the handshake's is the first, and a request that
/// waits for paths begins when they work.
#[test]
fn noq_takes_two_paths() {
    let text = |more: &str| {
        format!(
            "name = \"test\"\ntitle = \"A test\"\n[network]\nrate = \"10 Mb/s\"\ndelay = \"20 ms\"\n\
             paths = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[flow]]\nname = \"main\"\n\
             workload = {{ kind = \"bulk\", bytes = \"5 MB\" }}\n[[solution]]\nname = \"one\"\n\
             stack = \"noq\"\ncongestion = \"cubic\"\n{more}\n"
        )
    };
    let number = |entry: &Entry, name: &str| match metric(entry, name) {
        Value::Number(value) => value,
        other => panic!("{name}: {other:?}"),
    };
    let alone = play(&plan(&text("paths = \"a\"")));
    for paths in ["[\"a\", \"b\"]", "[\"b\", \"a\"]"] {
        let more = format!("multipath = \"noq\"\nready = \"paths\"\npaths = {paths}");
        let plan = plan(&text(&more));
        let both = play(&plan);
        assert_eq!(both.status, "ok", "{:?}", both.reason);
        assert_eq!(both, play(&plan), "the same twice");
        assert_eq!(number(&both, "paths_used"), 2.0);
        let share = number(&both, "first_path_share");
        assert!((0.4..0.7).contains(&share), "{share}");
        assert!(number(&both, "completion_s") < 0.65 * number(&alone, "completion_s"));
        // The handshake, connection IDs, and a challenge there and back.
        assert!(number(&both, "ready_s") > 0.08);
    }
}
