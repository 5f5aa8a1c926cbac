//! What a flow that does not fill its share takes from another when it is protected: no more than constant
//! traffic of as many bytes.

use tautline_lab::{
    plan::{Plan, ReadOptions},
    run::{Record, play},
    stack::Stacks,
    stats::Bootstrap,
};

/// Starts where nobody asks for more.
const STARTS: usize = 31;

/// Times at which the foreground starts, a second apart: it meets another phase of the others' windows each time.
/// `TAUTLINE_STARTS` asks for more of them.
fn starts() -> usize {
    std::env::var("TAUTLINE_STARTS").map_or(STARTS, |asked| {
        asked.parse().expect("TAUTLINE_STARTS: a number")
    })
}

/// By how much of its bytes constant traffic may miss what it stands for: as little as the starts can tell.
/// A hundredth of the background's bytes is half a hundredth of the foreground's.
fn close() -> f64 {
    if starts() > STARTS { 0.0007 } else { 0.01 }
}

/// How long the background lasts, longer than the foreground.
const BACKGROUND_S: f64 = 258.0;
/// How often constant traffic has something to send.
const EVERY_MS: f64 = 40.0;
/// How often it is asked for more or less until it sends as much as is wanted.
const PASSES: usize = 8;

/// A download of 10 MB over the link MSS (Michel 2023, s2.3.2.4) beside `background`.
fn plan(background: &str) -> String {
    let starts: Vec<String> = (0..starts()).map(|n| format!("\"{} s\"", 20 + n)).collect();
    format!(
        r#"
name = "beside"
title = "Beside a flow that does not fill its share"
network = {{ rate = "1.89 Mb/s", delay = "380 ms", queue = "1 BDP" }}
flow = [
  {{ name = "foreground", start = "20 s", stack = {{ congestion = "cubic", fec = "none" }}, workload = {{ kind = "bulk", bytes = "10 MB" }} }},
  {{ name = "background", measure = false, workload = {background} }},
]
solution = [
  {{ name = "plain", congestion = "cubic" }},
  {{ name = "constant", congestion = "cubic", fec = "constant:25,20" }},
  {{ name = "rquic", congestion = "cubic", fec = "rquic" }},
  {{ name = "ac-rlnc", congestion = "cubic", fec = "ac-rlnc" }},
  {{ name = "flec-bulk", congestion = "cubic", fec = "flec-bulk" }},
  {{ name = "flec-buffer", congestion = "cubic", fec = "flec-buffer" }},
  {{ name = "flec-message", congestion = "cubic", fec = "flec-message" }},
  {{ name = "quirl-object", congestion = "cubic", fec = "quirl-object" }},
  {{ name = "quirl-burst", congestion = "cubic", fec = "quirl-burst" }},
  {{ name = "tail", congestion = "cubic", fec = "tail" }},
  {{ name = "auto", congestion = "cubic", fec = "auto" }},
]
run = {{ seeds = 1, limit = "900 s" }}
design = {{ kind = "grid", factor = [{{ name = "start", path = "flow.foreground.start", values = [{}] }}] }}
"#,
        starts.join(", ")
    )
}

fn read(background: &str, stacks: &Stacks) -> Plan {
    Plan::parse(
        &plan(background),
        ".".as_ref(),
        &ReadOptions::default(),
        stacks,
    )
    .unwrap()
}

/// Seconds that the foreground took, and bits a second that the background sent beside it, at every start.
fn runs(plan: &Plan, solution: &str, stacks: &Stacks) -> Vec<(f64, f64)> {
    let solution = plan.solutions.iter().position(|(name, _)| name == solution);
    let solution = solution.unwrap();
    let of = |record: Record| {
        let flow = |name| record.flows.iter().find(|flow| flow.name == name).unwrap();
        let (foreground, background) = (flow("foreground"), flow("background"));
        // Before the foreground is there nothing is lost, and a scheduler that answers losses sends less.
        let mut before = background.history.iter().rev();
        let before = before.find(|sample| sample.at <= foreground.start);
        let before = before.map_or(0, |sample| sample.wire.bytes_sent);
        let sent = background.sender_wire.unwrap().bytes_sent - before;
        let beside = record.end - foreground.start.since_origin();
        (
            record.metric("completion_s").unwrap(),
            sent as f64 * 8.0 / beside.as_secs_f64(),
        )
    };
    let cells = plan.cells().filter(|cell| cell.solution == solution);
    cells
        .map(|cell| {
            let scene = plan.scene(&cell, stacks).unwrap();
            of(play(&scene, stacks, cell.seed).unwrap())
        })
        .collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs beside constant traffic that sends so many bits a second in the median, and what it did send.
/// What it does not get through, where little is left of the link, it is asked for again.
fn as_many(sent: f64, stacks: &Stacks) -> (Vec<(f64, f64)>, f64) {
    let off = |got: f64| (got / sent - 1.0).abs();
    let mut asked = sent;
    let mut best: Option<(Vec<(f64, f64)>, f64)> = None;
    for _ in 0..PASSES {
        let bytes = asked / 8.0 * EVERY_MS / 1e3;
        let count = BACKGROUND_S * 1e3 / EVERY_MS;
        let constant = format!(
            r#"{{ kind = "messages", trace = {{ constant = {{ every = "{EVERY_MS} ms", bytes = "{bytes:.0} B", count = {count:.0} }} }} }}"#
        );
        let runs = runs(&read(&constant, stacks), "plain", stacks);
        let got = median(runs.iter().map(|(_, sent)| *sent).collect());
        asked *= sent / got;
        if best.as_ref().is_none_or(|(_, best)| off(got) < off(*best)) {
            best = Some((runs, got));
        }
        if off(got) < close() {
            break;
        }
    }
    best.unwrap()
}

#[test]
fn a_protected_conversation_takes_no_more_than_constant_traffic_of_its_bytes() {
    let stacks = Stacks::default();
    let conversation = r#"{ kind = "messages", trace = "video-conference", repeat = 3 }"#;
    let protected = read(conversation, &stacks);
    for (solution, _) in &protected.solutions {
        let beside = runs(&protected, solution, &stacks);
        let sent = median(beside.iter().map(|(_, sent)| *sent).collect());
        let (constant, as_many) = as_many(sent, &stacks);
        let pairs = beside.iter().zip(&constant);
        let ratios: Vec<f64> = pairs.map(|((took, _), (of, _))| took / of).collect();
        let interval = Bootstrap::default().median(&ratios).unwrap();
        let ratio = median(ratios);
        println!(
            "{solution}: {:.0} kb/s, {:.3} of the constant one's; time {ratio:.3} ({:.3} to {:.3})",
            sent / 1e3,
            sent / as_many,
            interval.low,
            interval.high
        );
        assert!(
            (sent / as_many - 1.0).abs() < 0.02,
            "{solution}: not as many bytes"
        );
        // Pairs scatter by 2 % with when the foreground starts.
        assert!(ratio < 1.03, "{solution}");
    }
}
