//! Timing in pairs.

use std::time::Instant;

/// Runs of a measurement. The first half warms up: memory is mapped, the processor finds the
/// frequency it keeps under vector instructions; that takes tens of milliseconds.
pub(crate) const ROUNDS: u64 = 2000;

/// A measurement: the time of the quieter runs, and the median of the ratio to the reference run
/// beside each.
pub(crate) struct Pair {
    pub(crate) nanos: f64,
    pub(crate) ratio: f64,
}

/// Nanoseconds that one of `times` calls takes.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn time(times: u32, work: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..times {
        work();
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(times)
}

/// What a tenth of the warm runs are faster than, and the median ratio.
pub(crate) fn summary(pairs: &[Pair]) -> Pair {
    let pairs = &pairs[pairs.len() / 2..];
    let rank = |part: usize, value: fn(&Pair) -> f64| {
        let mut values: Vec<f64> = pairs.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / part]
    };
    Pair {
        nanos: rank(10, |pair| pair.nanos),
        ratio: rank(2, |pair| pair.ratio),
    }
}

/// Measures `work` beside `reference`.
pub(crate) fn measure(work: &mut dyn FnMut(), reference: &mut dyn FnMut()) -> Pair {
    // Runs of about 20 microseconds, after some to warm up.
    let once = time(20, work).min(time(20, work)).max(1.0);
    let times = (20_000.0 / once).ceil() as u32;
    let run = |_| measure_once(times, work, reference);
    summary(&(0..ROUNDS).map(run).collect::<Vec<_>>())
}

/// One run of each, of so many calls.
pub(crate) fn measure_once(
    times: u32,
    work: &mut dyn FnMut(),
    reference: &mut dyn FnMut(),
) -> Pair {
    let theirs = time(times, reference);
    let nanos = time(times, work);
    Pair {
        nanos,
        ratio: nanos / theirs,
    }
}

/// Bytes without structure.
pub(crate) fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_add(1);
    (0..len)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect()
}
