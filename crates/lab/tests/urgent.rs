//! An urgent object beside a transfer over two paths (Viernickel 2017, s7.4; all cells: plan mp-priority).

use tautline_lab::{
    plan::{Plan, ReadOptions},
    run::play,
    stack::Stacks,
};

/// Round trip of the shorter path in ms, packets and their headers apart.
const ROUND_TRIP_MS: f64 = 44.0;

#[test]
fn an_urgent_object_meets_no_queue_of_bbr() {
    let plan = r#"
name = "urgent"
title = "an urgent object"
network = { rate = "10 Mb/s", queue = "1 BDP", paths = [{ name = "a", delay = "22 ms" }, { name = "b", delay = "62 ms" }] }
flow = [{ name = "main", workload = { kind = "urgent", transfer = "10 MB", object = "1 kB", within = "4 s" } }]
solution = [
  { name = "auto", congestion = "bbr3-taut", streams = "priority", multipath = "auto" },
  { name = "auto from b", congestion = "bbr3-taut", streams = "priority", multipath = "auto", paths = ["b", "a"] },
]
run = { seeds = 15, limit = "120 s" }
design = { kind = "grid" }
"#;
    let stacks = Stacks::default();
    let plan = Plan::parse(plan, ".".as_ref(), &ReadOptions::default(), &stacks).unwrap();
    let mut times: Vec<Vec<f64>> = plan.solutions.iter().map(|_| Vec::new()).collect();
    for cell in plan.cells() {
        let scene = plan.scene(&cell, &stacks).unwrap();
        let record = play(&scene, &stacks, cell.seed).unwrap();
        times[cell.solution].push(record.metric("item_p50_ms").unwrap());
    }
    for ((name, _), mut times) in plan.solutions.iter().zip(times) {
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        println!("{name}: {median:.1} ms of {times:.0?}");
        assert!(median <= 1.3 * ROUND_TRIP_MS, "{name}: {median} ms");
    }
}
