//! My own congestion controller against CUBIC: `cargo run -p tautline-lab --example my_controller`.

use tautline_lab::{plan::Plan, plan::ReadOptions, run::play, stack::Stacks};
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

const PLAN: &str = r#"
name = "mine"
title = "gentle and cubic beside each other"
network = { link = "wifi" }
flow = [{ name = "mine", workload = { kind = "bulk" } },
        { name = "theirs", workload = { kind = "bulk" }, measure = false, stack.congestion = "cubic" }]
solution = [{ name = "gentle", congestion = "gentle" }, { name = "cubic", congestion = "cubic" }]
run = { limit = "60 s", window = ["10 s", "60 s"] }
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stacks = Stacks::with_controller("gentle", |path| Gentle {
        window: path.initial_window as f64,
        mtu: path.mtu as f64,
    });
    let plan = Plan::parse(PLAN, ".".as_ref(), &ReadOptions::default(), &stacks)?;
    for cell in plan.cells() {
        let record = play(&plan.scene(&cell, &stacks)?, &stacks, cell.seed)?;
        let figures = ["share", "utilisation", "jain"].map(|name| (name, record.metric(name)));
        println!("{}: {figures:?}", plan.solutions[cell.solution].0);
    }
    Ok(())
}
