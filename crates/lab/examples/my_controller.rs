//! A congestion controller of one's own, against CUBIC: `cargo run --release -p tautline-lab
//! --example my_controller`.

use std::{error::Error, path::Path, sync::Arc};

use tautline_lab::{
    metric::METRICS,
    plan::{Plan, ReadOptions},
    run::play,
    stack::{Stacks, Tautline},
};
use tautline_transport::congestion::*;

/// One more datagram a round trip, a quarter less at a loss.
#[derive(Clone, Debug)]
struct Gentle {
    window: f64,
    mtu: f64,
}

impl CongestionController for Gentle {
    fn name(&self) -> &'static str {
        "gentle"
    }
    fn on_sent(&mut self, _: &SentEvent) {}
    fn on_ack(&mut self, event: &AckEvent) {
        self.window += self.mtu * event.acked_bytes as f64 / self.window;
    }
    fn on_loss(&mut self, _: &LossEvent<'_>) {
        self.window = (self.window * 0.75).max(2.0 * self.mtu);
    }
    fn on_ecn(&mut self, _: &EcnEvent) {
        self.window = (self.window * 0.75).max(2.0 * self.mtu);
    }
    fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu as f64;
    }
    fn window(&self) -> u64 {
        self.window as u64
    }
    fn metrics(&self) -> ControllerMetrics {
        ControllerMetrics::new(self.window as u64, "steady")
    }
}

#[derive(Debug)]
struct GentleFactory;

impl ControllerFactory for GentleFactory {
    fn name(&self) -> &'static str {
        "gentle"
    }
    fn build(&self, context: ControllerContext) -> Box<dyn CongestionController> {
        Box::new(Gentle {
            window: context.initial_window as f64,
            mtu: context.mtu as f64,
        })
    }
}

const PLAN: &str = r#"
name = "mine"
title = "gentle and cubic beside each other"
network = { link = "wifi" }
flow = [
  { name = "mine", workload = { kind = "bulk" } },
  { name = "theirs", workload = { kind = "bulk" }, measure = false, stack = { congestion = "cubic" } },
]
solution = [{ name = "gentle", congestion = "gentle" }, { name = "cubic", congestion = "cubic" }]
run = { limit = "60 s", window = ["10 s", "60 s"] }
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let mut stacks = Stacks::default();
    let ours = Tautline::default().with_controller(Arc::new(GentleFactory));
    stacks.register("tautline", Arc::new(ours));
    let plan = Plan::parse(PLAN, Path::new("."), &ReadOptions::default(), &stacks)?;
    for cell in plan.cells() {
        let record = play(&plan.scene(&cell, &stacks)?, &stacks, cell.seed)?;
        println!("{} against cubic", plan.solutions[cell.solution].0);
        for metric in METRICS
            .iter()
            .filter(|m| ["share", "utilisation", "jain"].contains(&m.name))
        {
            println!("  {:12} {:?}", metric.name, (metric.compute)(&record));
        }
    }
    Ok(())
}
