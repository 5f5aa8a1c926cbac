//! ACK policies where the return path is thin. What they are measured by: `docs/ack-policies.md`.

use std::time::Duration;

use tautline_sim::{DirectionConfig, LinkConfig, LossModel, QueueSize};
use tautline_testkit::{
    cross::{CrossReport, CrossTrial},
    figure::{Flow, median},
};
use tautline_transport::{
    ack,
    config::{TransportConfig, WindowConfig},
    units::Rate,
};

use crate::secs;

/// A geostationary satellite, 300 ms each way, 1 BDP of queue each way.
fn satellite(down_kbit: u64, up_kbit: u64, forward_loss: f64) -> LinkConfig {
    let wire = |kbit: u64| DirectionConfig {
        queue: QueueSize::Bdp(1.0),
        ..DirectionConfig::new(
            Rate::from_bits_per_second(kbit * 1_000),
            Duration::from_millis(300),
        )
    };
    let mut link = LinkConfig {
        forward: wire(up_kbit),
        backward: wire(down_kbit),
    };
    if forward_loss > 0.0 {
        link.backward.loss = LossModel::uniform(forward_loss);
    }
    link
}

/// Windows that are in nobody's way.
fn behaviour(policy: &str) -> TransportConfig {
    const WINDOW: u64 = 64 << 20;
    let mut transport = TransportConfig::default();
    transport.ack_policy = ack::registry::by_name(policy).expect("a policy");
    transport.stream_receive_window = WindowConfig::fixed(WINDOW);
    transport.connection_receive_window = WindowConfig::fixed(WINDOW);
    transport.send_buffer_bytes = WINDOW;
    transport
}

fn trial(seed: u64, link: LinkConfig, congestion: &str, policy: &str) -> CrossTrial {
    let mut trial = CrossTrial::of(seed, link, [Flow::endless(congestion)]);
    trial.transport = behaviour(policy);
    trial.upload_transport = behaviour("standard");
    trial
}

fn run(trial: &CrossTrial, duration: Duration) -> CrossReport {
    let report = trial.run(duration);
    // Where nobody thins the ACKs, uploads may starve until they time out.
    for flow in &report.downloads {
        assert_eq!(flow.error, None, "no run ends in an error");
    }
    report
}

fn env<T: std::str::FromStr>(name: &str, default: T) -> T {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn list(name: &str, default: &str) -> Vec<String> {
    let text = std::env::var(name).unwrap_or_else(|_| default.to_owned());
    text.split(',').map(str::to_owned).collect()
}

/// The whole grid. Lists in the environment narrow it: `DOWN` and `UP` (kb/s), `LOSS`, `CC`,
/// `POLICY`, `CROSS` (0 or 1), `SECONDS`.
#[test]
#[ignore = "minutes: the table of docs/ack-policies.md"]
fn table() {
    let seconds: u64 = env("SECONDS", 180);
    let (from, to) = (secs(30), secs(seconds));
    println!(
        "| down/up kb/s | loss % | control | policy | cross | goodput | of symmetric | after 30 s \
         | call | all cross | ACKs/data | bytes/data | queue drops |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for down in list("DOWN", "20000,25000,75000,100000") {
        let down: u64 = down.parse().expect("kb/s");
        for loss in list("LOSS", "0,0.01") {
            let loss: f64 = loss.parse().expect("a share");
            for cross in list("CROSS", "1") {
                let dressed = |trial: CrossTrial| {
                    if cross == "1" {
                        trial.with_cross_traffic()
                    } else {
                        trial
                    }
                };
                for congestion in list("CC", "bbr3,cubic") {
                    let reference: Vec<CrossReport> = crate::seeds()
                        .map(|seed| {
                            let link = satellite(down, down, loss);
                            run(&dressed(trial(seed, link, &congestion, "standard")), to)
                        })
                        .collect();
                    for up in list("UP", "200") {
                        let up: u64 = up.parse().expect("kb/s");
                        let mut alone = dressed(CrossTrial::of(1, satellite(down, up, loss), []));
                        alone.upload_transport = behaviour("standard");
                        let alone = run(&alone, to);
                        for policy in list("POLICY", "standard,frequency,asymmetric") {
                            let reports: Vec<CrossReport> = crate::seeds()
                                .map(|seed| {
                                    let link = satellite(down, up, loss);
                                    run(&dressed(trial(seed, link, &congestion, &policy)), to)
                                })
                                .collect();
                            let of = |value: &dyn Fn(&CrossReport) -> f64| {
                                median(reports.iter().map(value))
                            };
                            let ratio = |from: Duration| {
                                of(&|report| report.download().goodput(from, to))
                                    / median(
                                        reference
                                            .iter()
                                            .map(|report| report.download().goodput(from, to)),
                                    )
                            };
                            let call = of(&|report| {
                                let rate = |report: &CrossReport| {
                                    report.constant.as_ref().map(|call| call.rate(from, to))
                                };
                                rate(report).unwrap_or(1.0) / rate(&alone).unwrap_or(1.0)
                            });
                            let all = of(&|report| {
                                report.cross_rate(from, to) / alone.cross_rate(from, to)
                            });
                            println!(
                                "| {down}/{up} | {} | {congestion} | {policy} | {cross} | {:.2} | \
                                 {:.4} | {:.4} | {call:.3} | {all:.3} | {:.4} | {:.2} | {} |",
                                loss * 100.0,
                                of(&|report| report.download().goodput(Duration::ZERO, to)) / 1e6,
                                ratio(Duration::ZERO),
                                ratio(from),
                                of(&|report| report.download().acks_per_data_packet()),
                                of(&|report| report.download().return_bytes_per_data_packet()),
                                of(&|report| report.up.dropped.queue as f64),
                            );
                        }
                    }
                }
            }
        }
    }
}
