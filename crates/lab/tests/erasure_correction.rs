//! What erasure correction does to short transfers over the links of QUIRL's study, in figures.
//! Michel (2023), table 7.3; the bars are the project's own.

use tautline_lab::{
    plan::{Cell, Plan, ReadOptions},
    run::play,
    stack::Stacks,
};
use tautline_sim::Direction;
use tautline_transport::time::Instant;

const SEEDS: u64 = 5;
const POINTS: usize = 200;

fn plan(loss: &str) -> String {
    format!(
        r#"
name = "quirl"
title = "50 kB over QUIRL's links"
network = {{ queue = "10000 packets", rate = "20 Mb/s", delay = "20 ms", aqm = {{ model = "fq-codel" }}, loss = {{ model = "gilbert-elliott", good_to_bad = 0.0, bad_to_good = 0.5, loss_good = 0.0, loss_bad = {loss} }} }}
flow = [{{ name = "main", workload = {{ kind = "objects", bytes = "50 kB" }} }}]
solution = [
  {{ name = "plain", congestion = "cubic" }},
  {{ name = "quirl-object", congestion = "cubic", fec = "quirl-object" }},
  {{ name = "auto", congestion = "cubic", fec = "auto" }},
]
run = {{ seeds = {SEEDS}, limit = "600 s" }}

[design]
kind = "wsp"
count = {POINTS}
factor = [
  {{ name = "delay", path = "network.delay", range = [2.5, 100], format = "{{}} ms" }},
  {{ name = "rate", path = "network.rate", range = [5, 100], format = "{{}} Mb/s" }},
  {{ name = "p_gb", path = "network.loss.good_to_bad", range = [0, 0.02], digits = 5 }},
  {{ name = "p_bg", path = "network.loss.bad_to_good", range = [0.2, 1], digits = 4 }},
]
"#
    )
}

struct Run {
    point: usize,
    solution: usize,
    repetition: u64,
    /// Times are in seconds.
    completion: f64,
    overhead: f64,
    /// When the way of the data first lost a packet.
    first_drop: Option<f64>,
    min_rtt: f64,
}

/// Every cell that finished, by point, solution and repetition. Now and then one does not: a run of
/// losses can outlast a connection.
fn runs(loss: &str) -> Vec<Run> {
    let stacks = Stacks::default();
    let plan = plan(loss);
    let plan = Plan::parse(&plan, ".".as_ref(), &ReadOptions::default(), &stacks).unwrap();
    let of = |cell: Cell| {
        let scene = plan.scene(&cell, &stacks).unwrap();
        let record = play(&scene, &stacks, cell.seed).unwrap();
        let flow = record.measured().next().unwrap();
        let direction = flow.direction.unwrap_or(Direction::Backward);
        let drop = record.links[0].stats(direction).first_drop;
        Some(Run {
            point: cell.point,
            solution: cell.solution,
            repetition: cell.repetition,
            completion: record.metric("completion_s")?,
            overhead: record.metric("overhead")?,
            first_drop: drop.map(|at: Instant| at.since_origin().as_secs_f64()),
            min_rtt: flow.sender_wire.as_ref()?.min_rtt?.as_secs_f64(),
        })
    };
    plan.cells().filter_map(of).collect()
}

/// The run of the same point and repetition with this solution.
fn twin<'a>(runs: &'a [Run], run: &Run, solution: usize) -> Option<&'a Run> {
    let key = (run.point, solution, run.repetition);
    let place = runs.binary_search_by_key(&key, |run| (run.point, run.solution, run.repetition));
    place.ok().map(|place| &runs[place])
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(share * (values.len() - 1) as f64).round() as usize]
}

/// Time of each run of a solution as a ratio to that of plain, with its point.
fn ratios(runs: &[Run], solution: usize) -> Vec<(usize, f64)> {
    let of = runs.iter().filter(|run| run.solution == solution);
    of.filter_map(|run| {
        let plain = twin(runs, run, 0)?;
        Some((run.point, run.completion / plain.completion))
    })
    .collect()
}

/// The median of a point's repetitions, for every point.
fn medians(ratios: &[(usize, f64)]) -> Vec<f64> {
    let of = |point| {
        let of_point = ratios.iter().filter(|(of, _)| *of == point);
        let mut values: Vec<f64> = of_point.map(|(_, value)| *value).collect();
        (!values.is_empty()).then(|| quantile(&mut values, 0.5))
    };
    (0..POINTS).filter_map(of).collect()
}

#[test]
fn short_transfers_gain_at_their_ends_and_lose_nowhere() {
    let (calm, lossy) = (runs("0.0"), runs("1.0"));
    for (solution, name) in [(1, "quirl-object"), (2, "auto")] {
        let mut calm_ratios = medians(&ratios(&calm, solution));
        let pairs = ratios(&lossy, solution);
        let mut points = medians(&pairs);
        let mean = pairs.iter().map(|(_, ratio)| ratio.ln()).sum::<f64>() / pairs.len() as f64;
        // Losses of the last flight only: none before what left in the last round trip before the
        // last packet of the same cell without loss.
        let (mut ends, mut spared, mut spared_plain) = (0_u32, 0_u32, 0_u32);
        let mut bytes = Vec::new();
        for plain in lossy.iter().filter(|run| run.solution == 0) {
            let (Some(whole), Some(run)) = (twin(&calm, plain, 0), twin(&lossy, plain, solution))
            else {
                continue;
            };
            let begins = whole.completion - 1.5 * whole.min_rtt;
            let lost_late = |drop| drop >= begins && drop < whole.completion;
            if plain.first_drop.is_some_and(lost_late) {
                ends += 1;
                spared += u32::from(run.completion <= 1.03 * whole.completion);
                spared_plain += u32::from(plain.completion <= 1.03 * whole.completion);
                bytes.push(run.overhead / plain.overhead);
            }
        }
        let [share, share_plain] = [spared, spared_plain].map(|n| f64::from(n) / f64::from(ends));
        let [median, worst] = [0.5, 1.0].map(|share| quantile(&mut calm_ratios, share));
        let [p95, most] = [0.95, 1.0].map(|share| quantile(&mut points, share));
        println!(
            "{name}: no loss: median {median:.4}, worst {worst:.4}; all: mean {:.4}, p95 of points \
             {p95:.4}, worst {most:.4}; {ends} cells with losses in the last flight only: {share:.3} \
             as without loss (plain {share_plain:.3}), bytes {:.3}",
            mean.exp(),
            quantile(&mut bytes, 0.5),
        );
        assert!(median <= 1.003 && worst <= 1.01, "{name}: {median} {worst}");
        assert!(p95 <= 1.005 && most <= 1.02, "{name}: {p95} {most}");
        assert!(mean.exp() < 0.985, "{name}: {mean}");
        assert!(ends > 50 && share >= 0.8, "{name}: {share} of {ends}");
    }
}
