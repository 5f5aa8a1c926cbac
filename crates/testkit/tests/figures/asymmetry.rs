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

/// The satellite of the study with a hundredth of its rate back: an upload and a call share the
/// return path with the ACKs of the download, which keeps its goodput and leaves them theirs; without a policy all of them lose.
/// Medians of seeds from 30 s on; longer and for all rates: plan satcom-c1.
struct ThinReturnPath {
    congestion: &'static str,
    loss: f64,
    /// What a single seed has differs from another's by a fiftieth, with `bbr3` and loss by a tenth.
    seeds: u64,
    to: Duration,
    /// At least this share of the goodput of the symmetric twin.
    of_symmetric: f64,
    /// More than this by the goodput without a policy.
    gain: f64,
}

impl ThinReturnPath {
    fn of(congestion: &'static str, loss: f64) -> Self {
        Self {
            congestion,
            loss,
            seeds: 9,
            to: secs(120),
            of_symmetric: 0.995,
            gain: 1.0,
        }
    }

    fn judge(&self) {
        let Self {
            congestion,
            loss,
            to,
            ..
        } = *self;
        let from = secs(30);
        let thin = |loss| satellite(20_000, 200, loss);
        let mut alone = CrossTrial::of(1, thin(0.0), []).with_cross_traffic();
        alone.upload_transport = behaviour("standard");
        let alone = run(&alone, to);
        let of = |link: LinkConfig, policy: &str, seeds: u64| -> Vec<CrossReport> {
            let played = (1..=seeds).map(|seed| {
                let trial = trial(seed, link.clone(), congestion, policy);
                run(&trial.with_cross_traffic(), to)
            });
            played.collect()
        };
        let middle = |reports: &[CrossReport], figure: &dyn Fn(&CrossReport) -> f64| {
            median(reports.iter().map(figure))
        };
        let goodput = |report: &CrossReport| report.download().goodput(from, to);
        let call_rate =
            |report: &CrossReport| report.constant.as_ref().expect("a call").rate(from, to);
        let cross_rate = |report: &CrossReport| report.cross_rate(from, to);
        let symmetric = of(satellite(20_000, 20_000, loss), "standard", self.seeds);
        let thinned = of(thin(loss), "asymmetric", self.seeds);
        let ratio = middle(&thinned, &goodput) / middle(&symmetric, &goodput);
        let call = middle(&thinned, &call_rate) / call_rate(&alone);
        let cross = middle(&thinned, &cross_rate) / cross_rate(&alone);
        let acks = middle(&thinned, &|report| report.download().acks_per_data_packet());
        println!(
            "{congestion} {} %: {ratio:.4} of symmetric; call {call:.3}, all cross traffic \
             {cross:.3}; {acks:.4} ACKs per data packet",
            loss * 100.0,
        );
        let plain = of(thin(loss), "standard", 3);
        let beside = middle(&plain, &cross_rate) / cross_rate(&alone);
        let gain = middle(&thinned, &goodput) / middle(&plain, &goodput);
        println!("  {gain:.4} of the goodput without a policy");
        assert!(gain > self.gain, "{gain}");
        assert!(beside < 0.5, "{beside} without a policy");
        assert!(ratio >= self.of_symmetric, "{ratio}");
        assert!(call >= 0.8 && cross >= 0.8, "{call}, {cross}");
        assert!(acks < 0.1, "{acks} ACKs per packet");
    }
}

#[test]
fn a_thin_return_path_with_cubic() {
    let seeds = 3;
    let path = ThinReturnPath::of("cubic", 0.0);
    ThinReturnPath { seeds, ..path }.judge();
}

#[test]
fn a_thin_return_path_with_bbr3() {
    let seeds = 3;
    let path = ThinReturnPath::of("bbr3", 0.0);
    ThinReturnPath { seeds, ..path }.judge();
}

/// `bbr3` falls at 1 % in whichever round the chance has it, symmetric or not: medians of 25 are
/// still further apart than the bar. The ten seeds of the plan meet it.
#[test]
fn a_thin_return_path_with_bbr3_and_loss() {
    let path = ThinReturnPath::of("bbr3", 0.01);
    let (seeds, of_symmetric) = (25, 0.98);
    ThinReturnPath {
        seeds,
        of_symmetric,
        ..path
    }
    .judge();
}

/// Without losses `bbr3-taut` fills the way down either way (0.991 of it with the policy); the
/// others pay then.
#[test]
fn a_thin_return_path_with_bbr3_taut() {
    let path = ThinReturnPath::of("bbr3-taut", 0.0);
    let (to, gain) = (secs(300), 0.98);
    ThinReturnPath { to, gain, ..path }.judge();
}

#[test]
fn a_thin_return_path_with_bbr3_taut_and_loss() {
    ThinReturnPath::of("bbr3-taut", 0.01).judge();
}

/// ACKs per data packet fall as the return path gets thinner.
#[test]
fn acks_become_rarer_the_thinner_the_return_path() {
    let acks: Vec<f64> = [20_000, 200, 50]
        .into_iter()
        .map(|up| {
            // Where slow start ends moves the window, and with it the ACKs, by half.
            let mut of_seeds: Vec<f64> = (1..=5)
                .map(|seed| {
                    let trial = trial(seed, satellite(20_000, up, 0.0), "cubic", "asymmetric");
                    let report = run(&trial, secs(40));
                    let flow = report.download();
                    println!(
                        "20 Mb/s, {up} kb/s back: {:.2} Mb/s, {:.4} ACKs per data packet",
                        flow.goodput(secs(20), secs(40)) / 1e6,
                        flow.acks_per_data_packet()
                    );
                    flow.acks_per_data_packet()
                })
                .collect();
            of_seeds.sort_by(f64::total_cmp);
            of_seeds[2]
        })
        .collect();
    assert!(
        acks.is_sorted_by(|thick, thin| 1.1 * thick > *thin),
        "{acks:?}"
    );
    assert!(acks[2] < 0.6 * acks[0], "{acks:?}");
}

/// A server that knows nothing of ACK_FREQUENCY: the receiver spares its return path alone.
#[test]
fn a_receiver_thins_its_own_acks_where_the_sender_cannot_ask() {
    let of = |policy: &str| {
        let mut trial = trial(1, satellite(20_000, 100, 0.0), "cubic", policy);
        trial.transport.ack_frequency = false;
        run(&trial, secs(40))
    };
    let (standard, own) = (of("standard"), of("asymmetric"));
    let rate = |report: &CrossReport| report.download().goodput(secs(15), secs(40)) / 1e6;
    let acks = |report: &CrossReport| report.download().acks_per_data_packet();
    println!(
        "standard {:.2} Mb/s with {:.3} ACKs per data packet, asymmetric {:.2} with {:.3}",
        rate(&standard),
        acks(&standard),
        rate(&own),
        acks(&own)
    );
    assert!(acks(&own) < 0.5 * acks(&standard));
    assert!(rate(&own) > 1.05 * rate(&standard));
}

/// 10 kB to 1 MB on links that are the same both ways: nothing is slower than with `standard`.
#[test]
fn short_flows_on_symmetric_links_take_no_longer() {
    for name in ["wifi", "terrestrial", "geo", "lte"] {
        for congestion in ["bbr3", "cubic"] {
            for size in [10_000, 100_000, 1_000_000] {
                let time = |policy: &str| {
                    median(crate::seeds().map(|seed| {
                        let mut trial = CrossTrial::of(
                            seed,
                            crate::named(name),
                            [Flow::endless(congestion).of(size)],
                        );
                        trial.transport = behaviour(policy);
                        let report = run(&trial, secs(60));
                        let finished = report.download().finished.expect("within a minute");
                        finished.since_origin().as_secs_f64()
                    }))
                };
                let ratio = time("asymmetric") / time("standard");
                if ratio != 1.0 {
                    println!("{name} {congestion} {size} bytes: {ratio:.4} of standard");
                }
                assert!(ratio <= 1.05, "{name} {congestion} {size}: {ratio}");
            }
        }
    }
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
