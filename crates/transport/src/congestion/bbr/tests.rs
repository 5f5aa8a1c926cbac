//! The scenarios of the draft's appendix.

use std::time::Duration;

use super::{state::AckPhase, *};
use crate::congestion::test_link::{MTU, Path, Run, Source, context, mbps, ms};

fn run(path: Path) -> Run<Bbr> {
    Run::new(Bbr::new(Params::BBR3, context()), path)
}

#[test]
fn probe_print() {
    for loss in [0.0, 0.001, 0.01, 0.015] {
        let mut r = Run::new(
            Bbr::new(
                Params {
                    probe_rtt_interval: Duration::from_secs(10),
                    ..Params::BBR3
                },
                context(),
            ),
            Path::new(20.0, 600, 1.0).with_loss(loss),
        );
        r.run_for(Duration::from_secs(180));
        println!(
            "10s {loss}: {:.3} loss {:.4}",
            r.utilisation(),
            r.loss_share()
        );
    }
    for (m, d, q, l) in [
        (100.0, 40, 1.0, 0.0),
        (10.0, 20, 1.0, 0.0),
        (100.0, 20, 0.1, 0.0),
        (1.0, 100, 1.0, 0.0),
        (100., 40, 1.0, 0.01),
        (500., 10, 1.0, 0.0),
        (0.1, 5, 0.1, 0.0),
        (50.0, 40, 2.0, 0.005),
    ] {
        let mut r = run(Path::new(m, d, q).with_loss(l));
        r.run_for(Duration::from_secs(20));
        r.mark();
        let mut last = "";
        let mut trace = String::new();
        let end = r.now + Duration::from_secs(30);
        r.run_until(end, |r| {
            let s = r.controller.state.name();
            if s != last {
                last = s;
                if trace.len() < 900 {
                    trace += &format!("{s}@{:.2} ", r.now.as_nanos() as f64 / 1e9);
                }
            }
            false
        });
        println!(
            "{m} {d} {q} {l}: {:.3} loss {:.4} bw {} lt {} trace {trace}",
            r.utilisation(),
            r.loss_share(),
            r.controller.bw,
            r.controller.inflight_longterm
        );
    }
}
