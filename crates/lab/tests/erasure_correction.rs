//! What erasure correction does to short transfers over the links of QUIRL's study, in figures.
//! Michel (2023), table 7.3; the bars are the project's own.

use tautline_lab::{
    metric::FLOW_METRICS,
    plan::{Cell, Plan, ReadOptions},
    run::{Record, play},
    stack::Stacks,
};
use tautline_sim::Direction;
use tautline_transport::time::Instant;

const SEEDS: u64 = 5;
const POINTS: usize = 200;

/// QUIRL's links, which lose packets by the chain that table 7.3 has, or none of them.
fn plan(loses: bool) -> String {
    let loss = format!(
        r#"{{ model = "gilbert-elliott", good_to_bad = 0.0, bad_to_good = 0.5, loss_good = 0.0, loss_bad = {:?} }}"#,
        f64::from(u8::from(loses))
    );
    let factors = r#"
  { name = "p_gb", path = "network.loss.good_to_bad", range = [0, 0.02], digits = 5 },
  { name = "p_bg", path = "network.loss.bad_to_good", range = [0.2, 1], digits = 4 },"#;
    over_links(&loss, factors, "")
}

/// The same links (by delay and rate) with up to 5 % of packets lost, in runs of three on average and five at most.
fn plan_of_runs(loses: bool) -> String {
    // A range has a width: five digits of this are 0. As many factors as above make the same links.
    let most = if loses { 0.05 } else { 1e-9 };
    let loss = r#"{ model = "gilbert", probability = 0.0, mean_burst = 3.0, max_burst = 5 }"#;
    let factors = format!(
        r#"
  {{ name = "loss", path = "network.loss.probability", range = [0, {most:?}], digits = 5 }},
  {{ name = "run", path = "network.loss.mean_burst", range = [3.0, 3.000001], digits = 4 }},"#
    );
    let codes = r#"
  { name = "auto, Reed-Solomon", congestion = "cubic", fec = "auto", fec_code = "reed-solomon" },
  { name = "auto, XOR", congestion = "cubic", fec = "auto", fec_code = "xor:3" },"#;
    over_links(loss, &factors, codes)
}

fn over_links(loss: &str, factors: &str, solutions: &str) -> String {
    format!(
        r#"
name = "quirl"
title = "50 kB over QUIRL's links"
network = {{ queue = "10000 packets", rate = "20 Mb/s", delay = "20 ms", aqm = {{ model = "fq-codel" }}, loss = {loss} }}
flow = [{{ name = "main", workload = {{ kind = "objects", bytes = "50 kB" }} }}]
solution = [
  {{ name = "plain", congestion = "cubic" }},
  {{ name = "quirl-object", congestion = "cubic", fec = "quirl-object" }},
  {{ name = "auto", congestion = "cubic", fec = "auto" }},{solutions}
]
run = {{ seeds = {SEEDS}, limit = "600 s" }}

[design]
kind = "wsp"
count = {POINTS}
factor = [
  {{ name = "delay", path = "network.delay", range = [2.5, 100], format = "{{}} ms" }},
  {{ name = "rate", path = "network.rate", range = [5, 100], format = "{{}} Mb/s" }},{factors}
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
fn played(plan: &str) -> Vec<Run> {
    let stacks = Stacks::default();
    let plan = Plan::parse(plan, ".".as_ref(), &ReadOptions::default(), &stacks).unwrap();
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

/// What a solution does to short transfers, by plain's time.
#[derive(Debug)]
struct Short {
    /// Where nothing is lost: over the links' medians.
    calm_median: f64,
    calm_worst: f64,
    /// Where packets are lost: the geometric mean of all pairs, and over the links' medians.
    mean: f64,
    p95: f64,
    worst: f64,
    /// Runs that lose packets of the last flight only, and the share of them that takes at most 1.03 of their
    /// time without loss.
    ends: u32,
    spared: f64,
}

impl Short {
    /// Reads and prints it.
    fn of(name: &str, calm: &[Run], lossy: &[Run], solution: usize) -> Self {
        let mut calm_ratios = medians(&ratios(calm, solution));
        let pairs = ratios(lossy, solution);
        let mut points = medians(&pairs);
        let mean = pairs.iter().map(|(_, ratio)| ratio.ln()).sum::<f64>() / pairs.len() as f64;
        // Losses of the last flight only: none before what left in the last round trip before the
        // last packet of the same cell without loss.
        let (mut ends, mut spared, mut spared_plain) = (0_u32, 0_u32, 0_u32);
        let mut bytes = Vec::new();
        for plain in lossy.iter().filter(|run| run.solution == 0) {
            let (Some(whole), Some(run)) = (twin(calm, plain, 0), twin(lossy, plain, solution))
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
        let [spared, spared_plain] = [spared, spared_plain].map(|n| f64::from(n) / f64::from(ends));
        let [calm_median, calm_worst] = [0.5, 1.0].map(|share| quantile(&mut calm_ratios, share));
        let [p95, worst] = [0.95, 1.0].map(|share| quantile(&mut points, share));
        let mean = mean.exp();
        println!(
            "{name}: no loss: median {calm_median:.4}, worst {calm_worst:.4}; all: mean {mean:.4}, p95 of points \
             {p95:.4}, worst {worst:.4}; {ends} cells with losses in the last flight only: {spared:.3} \
             as without loss (plain {spared_plain:.3}), bytes {:.3}",
            quantile(&mut bytes, 0.5),
        );
        Self {
            calm_median,
            calm_worst,
            mean,
            p95,
            worst,
            ends,
            spared,
        }
    }

    /// The project's bars, with the least that is gained over all and at the ends.
    fn judge(&self, name: &str, mean: f64, spared: f64) {
        let harmless = self.calm_median <= 1.003 && self.calm_worst <= 1.01;
        assert!(harmless, "{name}: {self:?}");
        assert!(self.p95 <= 1.005 && self.worst <= 1.02, "{name}: {self:?}");
        assert!(self.mean < mean, "{name}: {self:?}");
        let gains = self.ends > 50 && self.spared >= spared;
        assert!(gains, "{name}: {self:?}");
    }
}

#[test]
fn short_transfers_gain_at_their_ends_and_lose_nowhere() {
    let [calm, lossy] = [false, true].map(|loses| played(&plan(loses)));
    for (solution, name) in [(1, "quirl-object"), (2, "auto")] {
        Short::of(name, &calm, &lossy, solution).judge(name, 0.985, 0.8);
    }
}

/// The same with losses in runs of three on average and five at most.
#[test]
fn short_transfers_gain_where_losses_come_in_runs() {
    let [calm, lossy] = [false, true].map(|loses| played(&plan_of_runs(loses)));
    let names = ["quirl-object", "auto", "auto, Reed-Solomon", "auto, XOR"];
    for (solution, name) in (1..).zip(names) {
        // Of a run XOR rebuilds no more than one packet of each of its groups.
        let spared = if name == "auto, XOR" { 0.5 } else { 0.8 };
        Short::of(name, &calm, &lossy, solution).judge(name, 0.99, spared);
    }
}

/// Where nothing is lost but what start-up overfills, codes take no time: QUIC-FEC's links (Michel 2023, table 2.1)
/// without their losses, and 300 kB, which flow control holds back for moments while its window grows.
#[test]
fn where_only_start_up_loses_codes_take_no_time() {
    for (bytes, congestion) in [
        ("1 MB", "cubic"),
        ("300 kB", "cubic"),
        ("1 MB", "bbr3-taut"),
    ] {
        let runs = played(&format!(
            r#"
name = "clean"
title = "links without loss"
network = {{ queue = "1 BDP", rate = "1 Mb/s", delay = "100 ms" }}
flow = [{{ name = "main", workload = {{ kind = "objects", bytes = "{bytes}" }} }}]
solution = [
  {{ name = "plain", congestion = "{congestion}" }},
  {{ name = "auto", congestion = "{congestion}", fec = "auto" }},
]
run = {{ seeds = 1, limit = "600 s" }}

[design]
kind = "wsp"
count = 130
factor = [
  {{ name = "rate", path = "network.rate", range = [0.3, 10], format = "{{}} Mb/s" }},
  {{ name = "delay", path = "network.delay", range = [100, 400], format = "{{}} ms", digits = 0 }},
]
"#
        ));
        let mut ratios: Vec<f64> = ratios(&runs, 1).iter().map(|(_, ratio)| *ratio).collect();
        assert_eq!(ratios.len(), 130);
        let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
        let [median, late] = [0.5, 0.95].map(|share| quantile(&mut ratios, share));
        let worst = ratios[ratios.len() - 1];
        println!(
            "{bytes}, {congestion}: mean {:.4}, median {median:.4}, p95 {late:.4}, worst {worst:.3}",
            mean.exp()
        );
        assert!(mean.exp() < 1.005 && median < 1.002 && late < 1.03);
    }
}

/// Fixed receive windows of about what path and queue hold: repair symbols on suspicion would overflow the queue, and
/// what is lost then call for more.
#[test]
fn where_windows_just_fit_codes_take_no_time() {
    for (rate, delay, queue, window, congestion) in [
        (4.047, 34.3, 0.346, 40, "bbr3-taut"),
        (20.0, 20.0, 0.3, 110, "bbr3"),
        (20.0, 20.0, 0.6, 140, "cubic"),
    ] {
        let runs = played(&format!(
            r#"
name = "fits"
title = "windows that just fit"
network = {{ queue = "{queue} BDP", rate = "{rate} Mb/s", delay = "{delay} ms" }}
flow = [{{ name = "main", workload = {{ kind = "objects", bytes = "2 MB" }} }}]
solution = [
  {{ name = "plain", congestion = "{congestion}", receive_window = "{window} kB" }},
  {{ name = "auto", congestion = "{congestion}", receive_window = "{window} kB", fec = "auto" }},
]
run = {{ seeds = 3, limit = "600 s" }}
design = {{ kind = "grid" }}
"#
        ));
        let mut ratios: Vec<f64> = ratios(&runs, 1).iter().map(|(_, ratio)| *ratio).collect();
        let median = quantile(&mut ratios, 0.5);
        println!("{rate} Mb/s, {window} kB, {congestion}: {median:.4}");
        assert!(median < 1.03, "{congestion}");
    }
}

/// Where nothing is lost there is nothing to gain: repair symbols that fill what the application leaves of the window do
/// not make the next flight larger. In the mean of some sizes: where a window just holds an object or just does not, a
/// packet decides.
#[test]
fn where_nothing_is_lost_codes_save_no_time() {
    // BBR's rounds go by what is delivered, whatever it is: they are a little shorter.
    for (congestion, off) in [
        ("cubic", 0.01),
        ("newreno", 0.01),
        ("bbr3", 0.03),
        ("bbr3-taut", 0.03),
    ] {
        let runs = played(&format!(
            r#"
name = "idle"
title = "nothing is lost"
network = {{ queue = "100 packets", rate = "200 Mb/s", delay = "50 ms" }}
flow = [{{ name = "main", workload = {{ kind = "objects", bytes = "100 kB", count = 60, parallel = 1, pause = "100 ms" }} }}]
solution = [
  {{ name = "plain", congestion = "{congestion}" }},
  {{ name = "quirl-object", congestion = "{congestion}", fec = "quirl-object" }},
  {{ name = "auto", congestion = "{congestion}", fec = "auto" }},
]
run = {{ seeds = 1, limit = "600 s" }}
design = {{ kind = "grid", factor = [{{ name = "bytes", path = "flow.main.workload.bytes", values = ["90 kB", "95 kB", "100 kB", "105 kB", "110 kB"] }}] }}
"#
        ));
        for solution in [1, 2] {
            let ratios = ratios(&runs, solution);
            assert_eq!(ratios.len(), 5, "all end");
            let logarithms = ratios.iter().map(|(_, ratio)| ratio.ln());
            let mean = (logarithms.sum::<f64>() / ratios.len() as f64).exp();
            println!("{congestion}, {solution}: {mean:.4}");
            // 0.01 to 0.09 earlier where a window grew by them.
            assert!((mean - 1.0).abs() < off, "{congestion}");
        }
    }
}

/// Answers that are single packets, and small ones in parallel, over a path that loses nothing: repair symbols for what is
/// merely assumed would be as many bytes again, and would hold up the next answers.
#[test]
fn where_nothing_is_lost_small_answers_cost_little() {
    for (bytes, parallel, solution, time, more) in [
        ("1 kB", 1, "auto", 1.001, 1.01),
        ("2 kB", 1, "auto", 1.001, 1.01),
        ("2 kB", 6, "auto", 1.02, 1.1),
        ("5 kB", 6, "auto", 1.02, 1.1),
        ("2 kB", 16, "quirl-object", 1.15, 1.4),
    ] {
        let runs = played(&format!(
            r#"
name = "answers"
title = "small answers, nothing lost"
network = {{ queue = "200 packets", rate = "10 Mb/s", delay = "20 ms" }}
flow = [{{ name = "main", workload = {{ kind = "objects", bytes = "{bytes}", count = 200, parallel = {parallel} }} }}]
solution = [
  {{ name = "plain", congestion = "cubic" }},
  {{ name = "{solution}", congestion = "cubic", fec = "{solution}" }},
]
run = {{ seeds = 3, limit = "600 s" }}
design = {{ kind = "grid" }}
"#
        ));
        let coded: Vec<&Run> = runs.iter().filter(|run| run.solution == 1).collect();
        assert_eq!(coded.len(), 3, "all end");
        for run in coded {
            let plain = twin(&runs, run, 0).unwrap();
            let took = run.completion / plain.completion;
            let cost = run.overhead / plain.overhead;
            println!("{solution}, {parallel} of {bytes}: time {took:.4}, bytes {cost:.4}");
            assert!(took < time && cost < more);
        }
    }
}

/// Messages with a deadline over links that carry little more than them, and with a controller that random losses slow
/// down: repair symbols must not make a queue there, nor take the congestion window's place. Where nothing is lost not
/// one leaves; where there is room for them, they do what they are for.
#[test]
fn messages_are_not_late_for_their_protection() {
    let stacks = Stacks::default();
    for (rate, loss, congestion, least) in [
        ("600 kb/s", "0 %", "cubic", 1.0),
        ("700 kb/s", "0 %", "bbr3-taut", 1.0),
        ("1 Mb/s", "0 %", "bbr3-taut", 1.0),
        ("700 kb/s", "2 %", "bbr3-taut", 0.94),
        ("700 kb/s", "2 %", "cubic", 0.9),
        ("2 Mb/s", "2 %", "bbr3-taut", 0.997),
    ] {
        let text = format!(
            r#"
name = "messages"
title = "small messages, little to spare"
network = {{ queue = "1 BDP", rate = "{rate}", delay = "25 ms", loss = "{loss}" }}
solution = [
  {{ name = "plain", congestion = "{congestion}" }},
  {{ name = "auto", congestion = "{congestion}", fec = "auto" }},
]
run = {{ seeds = 5, limit = "300 s" }}
design = {{ kind = "grid" }}

[[flow]]
name = "main"
workload = {{ kind = "messages", api = "messages", deadline = "100 ms", trace = {{ constant = {{ every = "40 ms", bytes = "2000 B", count = 1500 }} }} }}
"#
        );
        let plan = Plan::parse(&text, ".".as_ref(), &ReadOptions::default(), &stacks).unwrap();
        let mut on_time: [Vec<f64>; 2] = Default::default();
        let mut bytes: [Vec<f64>; 2] = Default::default();
        for cell in plan.cells() {
            let scene = plan.scene(&cell, &stacks).unwrap();
            let record = play(&scene, &stacks, cell.seed).unwrap();
            on_time[cell.solution].push(record.metric("on_time").unwrap());
            bytes[cell.solution].push(record.metric("overhead").unwrap());
        }
        let [plain, auto] = on_time.map(|mut shares| quantile(&mut shares, 0.5));
        let [before, after] = bytes.map(|mut bytes| quantile(&mut bytes, 0.5));
        println!(
            "{rate}, {loss}, {congestion}: on time {plain:.4}, auto {auto:.4}; bytes {before:.3}, {after:.3}"
        );
        assert!(auto >= plain - 0.01 && auto >= least, "{rate} {loss}");
        if loss == "0 %" {
            assert!(after < 1.001 * before, "{rate}");
        }
    }
}

/// Delays that vary by a few milliseconds are not taken for a link that is full.
#[test]
fn messages_are_protected_where_delays_vary() {
    let stacks = Stacks::default();
    for (loss, jitter, least) in [
        ("0.5 %", 5, 0.995),
        ("3 %", 5, 0.992),
        ("0.5 %", 10, 0.985),
        ("3 %", 10, 0.985),
    ] {
        let text = format!(
            r#"
name = "messages"
title = "messages, jitter"
network = {{ queue = "1 BDP", rate = "10 Mb/s", delay = "40 ms", loss = "{loss}", jitter = {{ spread = "{jitter} ms", order = "fifo" }} }}
solution = [{{ name = "plain", congestion = "bbr3-taut" }}, {{ name = "auto", congestion = "bbr3-taut", fec = "auto" }}]
run = {{ seeds = 5, limit = "300 s" }}
design = {{ kind = "grid" }}

[[flow]]
name = "main"
workload = {{ kind = "messages", api = "messages", deadline = "100 ms", trace = {{ constant = {{ every = "33 ms", bytes = "4 kB", count = 1500 }} }} }}
"#
        );
        let plan = Plan::parse(&text, ".".as_ref(), &ReadOptions::default(), &stacks).unwrap();
        let mut on_time: [Vec<f64>; 2] = Default::default();
        for cell in plan.cells() {
            let scene = plan.scene(&cell, &stacks).unwrap();
            let record = play(&scene, &stacks, cell.seed).unwrap();
            on_time[cell.solution].push(record.metric("on_time").unwrap());
        }
        let [plain, auto] = on_time.map(|mut shares| quantile(&mut shares, 0.5));
        println!("jitter of {jitter} ms, {loss}: on time {plain:.4}, auto {auto:.4}");
        assert!(auto > least, "{jitter} ms, {loss}: {auto}");
    }
}

/// Ranks of values, ties shared.
fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |value: f64| values.iter().filter(|other| **other < value).count();
    let equal = |value: f64| values.iter().filter(|other| **other == value).count();
    let rank = |value: &f64| below(*value) as f64 + equal(*value) as f64 / 2.0;
    values.iter().map(rank).collect()
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| of(a - mean_a, b - mean_b)).sum()
    };
    sum(&|a, b| a * b) / (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt()
}

/// What `auto` expects to save by its repair symbols, beside what it saves: a hundred objects of 50 kB one
/// after the other, at each of QUIRL's links.
#[test]
fn what_is_expected_to_be_saved_is_saved() {
    let plan = plan(true)
        .replace(
            r#"bytes = "50 kB""#,
            r#"bytes = "50 kB", count = 100, parallel = 1, pause = "500 ms""#,
        )
        .replace(r#""cubic""#, r#""bbr3-taut""#)
        .replace(&format!("seeds = {SEEDS}"), "seeds = 1")
        .replace("600 s", "900 s");
    let stacks = Stacks::default();
    let expected = FLOW_METRICS
        .iter()
        .find(|metric| metric.name == "expected_saving_ms");
    let expected = expected.unwrap().compute;
    let (mut predicted, mut measured, mut relative) = (Vec::new(), Vec::new(), 0.0);
    // One draw alone differs from another by up to 2 ms in what is saved.
    for draw in 0..2 {
        let options = ReadOptions {
            draw,
            ..ReadOptions::default()
        };
        let plan = Plan::parse(&plan, ".".as_ref(), &options, &stacks).unwrap();
        let mut plain = None;
        for cell in plan.cells().filter(|cell| cell.solution != 1) {
            let scene = plan.scene(&cell, &stacks).unwrap();
            let record = play(&scene, &stacks, cell.seed).unwrap();
            let Some(took) = record.metric("completion_s") else {
                continue;
            };
            if cell.solution == 0 {
                plain = Some((cell.point, took));
            } else if let Some((_, without)) = plain.filter(|(point, _)| *point == cell.point) {
                predicted.push(expected(record.measured().next().unwrap()).unwrap());
                measured.push((without - took) * 1e3);
                relative += (took / without).ln();
            }
        }
    }
    let of = measured.len() as f64;
    let rank = correlation(&ranks(&predicted), &ranks(&measured));
    let sum = |values: &[f64]| values.iter().sum::<f64>() / of / 100.0;
    println!(
        "{of} points: {:.1} ms an object expected, {:.1} saved; rank correlation {rank:.3}; time {:.4}",
        sum(&predicted),
        sum(&measured),
        (relative / of).exp()
    );
    assert!(of > 380.0 && rank >= 0.8, "{rank} of {of}");
    // Where objects with pauses pass for bursts that follow each other it is 26 on the first of them.
    assert!(sum(&measured) > 30.0, "{:.1} ms saved", sum(&measured));
}

/// 50 kB over Starlink with losses in the last flight that cost time, beside the same without any loss, which no
/// code can beat, and beside that where the losses are no more than a code for 0.3 of the flight can rebuild, else
/// plain. Michel (2023), s7.5.1, has medians of 0.72 of plain's down and 0.79 up. Down, a
/// plain transfer here loses no more than a round trip by such a loss, a fifth of its time; up, most gaps of the
/// fitted link take the whole flight with its repair symbols.
///
/// With `TAUTLINE_ENDS=all` also what protection comes to over all transfers, most of which lose nothing there.
#[test]
fn ends_over_starlink() {
    const RUNS: usize = 12_000;
    /// 0.3 of the last flight, which is 17 to 21 packets.
    const REBUILT: u64 = 6;
    let stacks = Stacks::default();
    let read = |direction: &str, loss: &str| {
        let text = format!(
            r#"
name = "ends"
title = "50 kB over Starlink"
network = {{ link = "starlink"{loss} }}
flow = [{{ name = "main", workload = {{ kind = "bulk", bytes = "50 kB", direction = "{direction}" }} }}]
solution = [
  {{ name = "plain", congestion = "cubic" }},
  {{ name = "quirl-object", congestion = "cubic", fec = "quirl-object" }},
  {{ name = "auto", congestion = "cubic", fec = "auto" }},
  {{ name = "free", congestion = "cubic", fec = "auto:cost=off" }},
]
run = {{ seeds = {RUNS}, limit = "60 s" }}
design = {{ kind = "grid" }}
"#
        );
        Plan::parse(&text, ".".as_ref(), &ReadOptions::default(), &stacks).unwrap()
    };
    let run = |plan: &Plan, solution: usize, repetition: usize| {
        let cell = plan.cell(solution * RUNS + repetition).unwrap();
        let scene = plan.scene(&cell, &stacks).unwrap();
        play(&scene, &stacks, cell.seed).unwrap()
    };
    let of_all = std::env::var("TAUTLINE_ENDS").is_ok_and(|which| which == "all");
    for direction in ["down", "up"] {
        let plan = read(direction, "");
        let calm = read(direction, r#", loss = "0 %", gaps = []"#);
        let mut times: [Vec<f64>; 6] = Default::default();
        // Repair symbols of `quirl-object`, `auto`, and `auto` that takes them to cost nothing.
        let mut sent = [0.0; 3];
        let mut all = All::default();
        for repetition in 0..RUNS {
            let plain = run(&plan, 0, repetition);
            if of_all {
                all.note([
                    &plain,
                    &run(&plan, 1, repetition),
                    &run(&plan, 2, repetition),
                ]);
            }
            let flow = plain.measured().next().unwrap();
            let way = flow.direction.unwrap_or(Direction::Backward);
            let (Some(drop), Some(connected)) =
                (plain.links[0].stats(way).first_drop, flow.connected)
            else {
                continue;
            };
            // 50 kB leave in three flights, a round trip apart; the server's half of one later.
            let round_trip = connected.saturating_since(flow.start);
            let flights = if direction == "up" { 1.75 } else { 2.25 };
            if drop < connected + round_trip.mul_f64(flights) {
                continue;
            }
            let lost = plain.links[0].stats(way).dropped.total();
            let took = |record: Record| record.metric("completion_s").unwrap_or(f64::INFINITY);
            let (plain, without) = (took(plain), took(run(&calm, 0, repetition)));
            // What was lost may have been a probe.
            if plain > 1.03 * without {
                let protected = [1, 2, 3].map(|solution| run(&plan, solution, repetition));
                for (sent, record) in sent.iter_mut().zip(&protected) {
                    *sent += record.metric("repair_sent").unwrap();
                }
                let [object, auto, free] = protected.map(took);
                let coded = if lost <= REBUILT { without } else { plain };
                let all = [plain, object, auto, free, without, coded];
                times
                    .iter_mut()
                    .zip(all)
                    .for_each(|(times, took)| times.push(took));
            }
        }
        let runs = times[0].len();
        let [plain, object, auto, free, without, coded] =
            times.map(|mut times| quantile(&mut times, 0.5));
        let ratios = [object, auto, free, without, coded].map(|median| median / plain);
        let [object, auto, free, without, coded] = ratios;
        let sent = sent.map(|sent| sent / runs as f64);
        println!(
            "{direction}: {runs} runs with losses in the last flight only, median {plain:.3} s; of that \
             {object:.3} with quirl-object, {auto:.3} with auto, {free:.3} with auto:cost=off (repair symbols {sent:.1?}), \
             {without:.3} without loss, {coded:.3} if no more than {REBUILT} losses cost nothing"
        );
        all.print(direction);
        // Upwards what loses one packet of the last flight mostly loses all, with what protects them: there codes
        // must do no harm.
        let (most_object, most_auto) = match direction {
            "down" => (0.92, 0.92),
            _ => (1.03, 1.03),
        };
        let gains = object < most_object && auto < most_auto;
        assert!(runs > 60 && gains, "{direction}");
        // Why the medians asked for, 0.70 and 0.77, are not: what they would take. docs/results/fec.md.
        let out_of_reach = match direction {
            "down" => without > 0.70,
            _ => coded > 0.77,
        };
        assert!(out_of_reach, "{direction}");
    }
}

/// Transfers plain, with `quirl-object` and with `auto`, whatever they lose.
#[derive(Default)]
struct All {
    seconds: [Vec<f64>; 3],
    /// UDP bytes by application bytes.
    overhead: [f64; 3],
}

impl All {
    fn note(&mut self, records: [&Record; 3]) {
        for (solution, record) in records.into_iter().enumerate() {
            let took = record.metric("completion_s").unwrap_or(f64::INFINITY);
            self.seconds[solution].push(took);
            self.overhead[solution] += record.metric("overhead").unwrap();
        }
    }

    fn print(mut self, direction: &str) {
        let runs = self.seconds[0].len() as f64;
        if runs == 0.0 {
            return;
        }
        for (solution, name) in ["plain", "quirl-object", "auto"].into_iter().enumerate() {
            let seconds = &mut self.seconds[solution];
            let mean = seconds.iter().sum::<f64>() / runs * 1e3;
            let [median, p99] = [0.5, 0.99].map(|share| quantile(seconds, share) * 1e3);
            println!(
                "{direction}, all {runs} transfers, {name}: mean {mean:.2} ms, median {median:.1}, p99 {p99:.1}; \
                 {:.3} bytes for each of the application's",
                self.overhead[solution] / runs
            );
        }
    }
}
