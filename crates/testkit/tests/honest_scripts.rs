//! Any interleaving of loss, reordering, repetition, rebinding and calls delivers every byte once
//! and in order, or ends with a stated error. What is checked stands in `src/fuzz/pair/`.

use tautline_testkit::fuzz;

/// Cases, or as many as `TAUTLINE_CASES` says.
const CASES: u64 = 10_000;

#[test]
fn every_interleaving_delivers_every_byte_once() {
    let wanted = std::env::var("TAUTLINE_CASES").ok();
    let cases = wanted.and_then(|n| n.parse().ok()).unwrap_or(CASES);
    for seed in 0..cases {
        let script = fuzz::honest_script(seed);
        let result = std::panic::catch_unwind(|| fuzz::pair(&script));
        if result.is_err() {
            panic!("script {seed}:\n{}", fuzz::describe_pair(&script));
        }
    }
}
