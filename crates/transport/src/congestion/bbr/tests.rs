//! The scenarios of the draft's appendix.

use std::time::Duration;

use super::{state::AckPhase, *};
use crate::congestion::test_link::{MTU, Path, Run, Source, context, mbps, ms};

fn run(path: Path) -> Run<Bbr> {
    Run::new(Bbr::new(Params::BBR3, context()), path)
}

fn seconds(value: f64) -> Instant {
    Instant::from_nanos((value * 1e9) as u64)
}

#[test]
fn probe_print() {
    for loss in [0.0, 0.001, 0.01, 0.02] {
        for seed in 0..3 {
            let mut r = run(Path::new(20.0, 600, 1.0).with_loss(loss)).seed(seed);
            r.run_for(Duration::from_secs(180));
            println!(
                "{loss} {seed}: {:.3} loss {:.4}",
                r.utilisation(),
                r.loss_share()
            );
        }
    }
}
