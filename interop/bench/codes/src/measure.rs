//! Timing in interleaved rounds.

use std::time::{Duration, Instant};

use anyhow::Result;
use rand::{SeedableRng, rngs::SmallRng, seq::SliceRandom};
use serde_json::{Value, json};

use crate::subject::Subject;

/// What a subject's turn in a round should take, so that a round is short beside whatever else the
/// machine does.
const TURN: Duration = Duration::from_micros(60);
/// Times in a turn, at most.
const MOST: u32 = 16;

/// Each subject's nanoseconds for the task once, by round. Rounds of one index ran side by side:
/// ratios are to be taken within them.
pub(crate) fn interleaved(
    subjects: &mut [(&'static str, Box<dyn Subject>)],
    rounds: usize,
) -> Result<Vec<Value>> {
    let mut plan = Vec::new();
    for (_, subject) in subjects.iter_mut() {
        let mut best = Duration::MAX;
        for _ in 0..10 {
            best = best.min(turn(subject.as_mut(), 1)?);
        }
        let times = TURN.as_nanos() / best.as_nanos().max(1);
        plan.push(u32::try_from(times).unwrap_or(MOST).clamp(1, MOST));
    }
    let mut nanos = vec![Vec::with_capacity(rounds); subjects.len()];
    let mut order: Vec<usize> = (0..subjects.len()).collect();
    let mut random = SmallRng::seed_from_u64(1);
    for _ in 0..rounds {
        // Nobody shall always follow the same one, whose vectors may have slowed the processor down.
        order.shuffle(&mut random);
        for &index in &order {
            let times = plan[index];
            let took = turn(subjects[index].1.as_mut(), times)?;
            nanos[index].push(took.as_secs_f64() * 1e9 / f64::from(times));
        }
    }
    let names = subjects.iter().map(|(name, _)| name);
    let figures = names.zip(nanos);
    Ok(figures
        .map(|(name, nanos)| json!({ "name": name, "nanos": nanos }))
        .collect())
}

/// So many times, of which only the work counts; once more before, to find caches as everybody
/// else does.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn turn(subject: &mut dyn Subject, times: u32) -> Result<Duration> {
    subject.prepare()?;
    subject.work()?;
    let mut took = Duration::ZERO;
    for _ in 0..times {
        subject.prepare()?;
        let start = Instant::now();
        subject.work()?;
        took += start.elapsed();
    }
    Ok(took)
}
