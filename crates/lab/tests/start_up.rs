//! What ends a start-up by a rate over a path that `auto` holds, and what does not (all pairs: plan mp-16). That a
//! full queue does, an urgent object shows (`urgent.rs`).

use tautline_lab::{
    plan::{Plan, ReadOptions},
    run::play,
    stack::Stacks,
};

/// What both paths carry together, Mb/s.
const RATES: f64 = 140.0;
/// In the third and the last of these one packet lost by chance holds the path by Starlink from its first second on: 42
/// and 44 Mb/s with results 56, whose start-up ended for it.
const REPETITIONS: std::ops::Range<u64> = 8..13;

/// Jitter makes believe that a queue stands, and a packet lost by chance that it is full.
#[test]
fn a_packet_lost_by_chance_ends_none() {
    let plan = r#"
name = "start-up"
title = "LTE beside Starlink"
flow = [{ name = "main", workload = { kind = "bulk" } }]
solution = [{ name = "auto", congestion = "bbr3-taut", multipath = "auto", ready = "paths" }]
run = { seeds = 13, limit = "20 s" }
design = { kind = "grid" }

[network]
queue = "1 BDP"
paths = [
  { name = "lte", delay = "35 ms", rate = "40 Mb/s", jitter = { spread = "8 ms", order = "fifo" } },
  { name = "starlink", delay = "50 ms", rate = "100 Mb/s", jitter = { spread = "25 ms", order = "fifo" }, loss = "1 %" },
]
"#;
    let stacks = Stacks::default();
    let plan = Plan::parse(plan, ".".as_ref(), &ReadOptions::default(), &stacks).unwrap();
    let mut goodputs = Vec::new();
    for cell in plan
        .cells()
        .filter(|cell| REPETITIONS.contains(&cell.repetition))
    {
        let scene = plan.scene(&cell, &stacks).unwrap();
        let record = play(&scene, &stacks, cell.seed).unwrap();
        goodputs.push((cell.seed, record.metric("goodput_mbps").unwrap()));
    }
    println!("seed and Mb/s of 20 s: {goodputs:.1?}");
    assert_eq!(goodputs.len(), REPETITIONS.count());
    for (seed, goodput) in goodputs {
        assert!(goodput > RATES / 2.0, "seed {seed}: {goodput} Mb/s");
    }
}
