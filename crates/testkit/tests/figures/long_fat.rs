//! Half a second of delay and windows of tens of megabytes: reassembly holds thousands of gaps.

use tautline_testkit::figure::Trial;
use tautline_transport::config::WindowConfig;

use crate::{link, lossy, named, run, secs};

const WINDOW: u64 = 64 << 20;

fn wide(mut trial: Trial) -> Trial {
    trial.transport.stream_receive_window = WindowConfig::fixed(WINDOW);
    trial.transport.connection_receive_window = WindowConfig::fixed(WINDOW);
    trial.transport.send_buffer_bytes = WINDOW;
    trial
}

#[test]
fn geo_with_loss_and_overshoot() {
    for congestion in ["newreno", "cubic", "bbr3"] {
        let trial = wide(Trial::new(1, lossy(named("geo"), 0.01), congestion));
        let share = run(&trial, secs(60)).utilisation();
        println!("geo, 1 %, {congestion}: {share:.3} of capacity");
    }
}

#[test]
fn a_gigabit_over_a_satellite() {
    for (congestion, loss, seconds) in [
        ("cubic", 0.0, 13),
        ("bbr3", 0.0, 10),
        ("bbr3", 0.01, 10),
        ("cubic", 0.01, 30),
    ] {
        let trial = wide(Trial::new(
            1,
            lossy(link(1000.0, 600, 0.1), loss),
            congestion,
        ));
        let report = run(&trial, secs(seconds));
        let flow = report.flow();
        println!(
            "1 Gb/s x 600 ms, {} %, {congestion}: {:.3} of capacity, {} packets lost",
            loss * 100.0,
            report.utilisation(),
            flow.recovery().packets_lost
        );
    }
}
