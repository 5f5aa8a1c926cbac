//! What holds for every link and every traffic.

use std::time::Duration;

use proptest::prelude::*;
use tautline_sim::{
    AdaptiveCoding, Aqm, CodingState, Direction, DirectionConfig, Gaps, Grants, Handover, Jitter,
    LinkConfig, LossModel, Outage, OutageMode, Outcome, QueueSize, RateStep, RateSteps, RateWander,
    Reordering, Silences, Spread, Stage, Timing, TraceSource, Turns,
};
use tautline_transport::{time::Instant, units::Rate};

use crate::nodes::{A, B, Pair, Peer, Planned, addr, numbers};

fn duration(max_micros: u64) -> impl Strategy<Value = Duration> {
    (0..max_micros).prop_map(Duration::from_micros)
}

fn queue() -> impl Strategy<Value = QueueSize> {
    prop_oneof![
        Just(QueueSize::Unlimited),
        (0u64..50).prop_map(QueueSize::Packets),
        (0u64..50_000).prop_map(QueueSize::Bytes),
        (0.1f64..4.0).prop_map(QueueSize::Bdp),
    ]
}

fn aqm() -> impl Strategy<Value = Aqm> {
    let fq = (1u32..3000, 1u32..20, 1u64..60, any::<bool>());
    let fq = (duration(20_000), 1u64..100, fq).prop_map(|(target, interval, fq)| Aqm::FqCodel {
        target,
        interval: Duration::from_millis(interval),
        quantum: fq.0,
        flows: fq.1,
        limit: fq.2,
        ecn: fq.3,
    });
    let codel = (duration(20_000), 1u64..100, any::<bool>());
    let codel = codel.prop_map(|(target, interval, ecn)| Aqm::Codel {
        target,
        interval: Duration::from_millis(interval),
        ecn,
    });
    prop_oneof![2 => Just(Aqm::None), 1 => codel, 1 => fq]
}

fn loss() -> impl Strategy<Value = LossModel> {
    prop_oneof![
        Just(LossModel::None),
        (0.0..=1.0, proptest::option::of(1u32..5)).prop_map(|(probability, max_burst)| {
            LossModel::Uniform {
                probability,
                max_burst,
            }
        }),
        (0.0..0.5, 1.0..9.0).prop_map(|(probability, mean_burst)| LossModel::Gilbert {
            probability,
            mean_burst,
            max_burst: None
        }),
        (0.0..=1.0, 0.0..=1.0, 0.0..=1.0, 0.0..=1.0).prop_map(|(p, r, good, bad)| {
            LossModel::GilbertElliott {
                good_to_bad: p,
                bad_to_good: r,
                loss_good: good,
                loss_bad: bad,
            }
        }),
    ]
}

fn outages() -> impl Strategy<Value = Vec<Outage>> {
    let outage = (
        duration(500_000),
        1u64..100_000,
        any::<bool>(),
        any::<bool>(),
    );
    let outage = outage.prop_map(|(start, micros, repeats, hold)| Outage {
        start,
        duration: Duration::from_micros(micros),
        every: repeats.then(|| Duration::from_micros(micros * 2)),
        mode: if hold {
            OutageMode::Hold
        } else {
            OutageMode::Drop
        },
    });
    proptest::collection::vec(outage, 0..3)
}

/// What makes the rate of a direction vary, and what stops its transmitter.
pub(crate) fn vary(config: &mut DirectionConfig, kind: u8, seed: u64) {
    let rate = |n: u64| Rate::from_bytes_per_second(1_000 + (seed >> n) % 1_000_000);
    let micros = |n: u64| Duration::from_micros(1_000 + (seed >> n) % 50_000);
    match kind {
        0 => {
            let first = RateStep {
                at: Duration::ZERO,
                rate: rate(1),
            };
            let second = RateStep {
                at: micros(2),
                rate: rate(3),
            };
            let every = (seed.is_multiple_of(2)).then(|| micros(2) + micros(4));
            config.rate_steps = Some(RateSteps {
                steps: vec![first, second],
                every,
            });
        }
        1 => {
            config.rate = None;
            let (low, high) = (rate(1).min(rate(2)), rate(1).max(rate(2)));
            config.rate_wander = Some(RateWander {
                low,
                high,
                every: micros(3),
                ripple: 0.5,
                ripple_every: micros(4),
                turns: seed.is_multiple_of(3).then(|| Turns {
                    every: micros(5),
                    low,
                    high,
                }),
            });
        }
        2 => {
            config.rate = None;
            let lines = (0..5).map(|i| (seed >> i) % 20).scan(0, |at, gap| {
                *at += gap + 1;
                Some(format!("{at}\n"))
            });
            config.trace = Some(TraceSource::Inline(lines.collect::<String>().into()));
        }
        3 => {
            config.grants = Some(Grants {
                frame: micros(1),
                request_delay: Spread::Exponential { mean: micros(2) },
                idle_after: micros(3),
                standing: (seed % 4000) as u32,
            });
        }
        4 => {
            let mean = micros(2) / 10;
            let (timing, mean) = if seed.is_multiple_of(2) {
                (Timing::Random, mean)
            } else {
                // Longer ones would leave no time between them.
                (Timing::Periodic, mean.min(micros(1) / 2))
            };
            config.silences = Some(Silences {
                interval: micros(1),
                timing,
                duration: Spread::Exponential { mean },
            });
        }
        5 => {
            config.handover = Some(Handover {
                every: Duration::from_millis(100),
                offset: micros(1),
                loss_duration: micros(2),
                gap: micros(3),
                ..Handover::default()
            });
        }
        6 => {
            config.gaps = vec![Gaps {
                interval: micros(1),
                timing: Timing::Random,
                duration: Spread::Uniform {
                    least: Duration::ZERO,
                    most: micros(2),
                },
                probability: 0.7,
                hold: micros(6),
            }];
        }
        7 if config.rate.is_some() => {
            let state = |factor| CodingState { factor, loss: 0.1 };
            config.coding = Some(AdaptiveCoding {
                every: micros(1),
                correlation: micros(1) * 5,
                states: vec![state(0.1), state(0.5), state(1.0)],
                lag: micros(2),
                lag_loss: 0.5,
            });
        }
        _ => {}
    }
}

prop_compose! {
    pub(crate) fn direction()(
        variation in (0u8..16, any::<u64>()),
        rate in proptest::option::of(1_000u64..10_000_000),
        delay in duration(100_000),
        jitter in 0u8..4,
        queue in queue(),
        aqm in aqm(),
        loss in loss(),
        corruption in loss(),
        reorder in proptest::option::of((0.0..1.0, duration(50_000))),
        duplication in 0.0..0.5,
        ecn_threshold in proptest::option::of(queue()),
        outages in outages(),
    ) -> DirectionConfig {
        let mut config = DirectionConfig {
            rate: rate.map(Rate::from_bytes_per_second),
            delay,
            jitter: match jitter {
                0 => None,
                1 => Some(Jitter::fifo(delay / 2)),
                2 => Some(Jitter::reorder(delay)),
                _ => Some(Jitter { correlation: delay, ..Jitter::fifo(delay) }),
            },
            queue,
            aqm,
            loss,
            corruption,
            reordering: reorder.map(|(probability, extra)| Reordering { probability, extra }),
            duplication,
            ecn_threshold,
            outages,
            ..DirectionConfig::default()
        };
        vary(&mut config, variation.0, variation.1);
        config
    }
}

prop_compose! {
    pub(crate) fn traffic()(
        sends in proptest::collection::vec((0u64..5_000_000, 8usize..1_600, 0u8..4), 1..150),
    ) -> Vec<Planned> {
        let mut now = 0;
        sends.into_iter().map(|(gap, len, ecn)| {
            // Bursts: most gaps are zero.
            now += if gap % 3 == 0 { gap } else { 0 };
            Planned {
                at: Instant::from_nanos(now),
                from: addr(A),
                to: addr(B),
                len,
                ecn: tautline_transport::units::Ecn::from_bits(ecn),
            }
        }).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn packets_are_conserved(
        seed in any::<u64>(),
        forward in direction(),
        backward in direction(),
        plan in traffic(),
        stop_micros in 0u64..2_000_000,
    ) {
        let count = plan.len() as u64;
        let mut pair = Pair::with(seed, LinkConfig { forward, backward }, plan, true);
        for stop in [stop_micros * 1_000, 40_000_000_000_000] {
            pair.world.run_until(Instant::from_nanos(stop));
            for direction in Direction::BOTH {
                let stats = pair.world.link_stats(pair.link, direction);
                prop_assert_eq!(
                    stats.sent_packets + stats.duplicated,
                    stats.delivered_packets + stats.dropped.total() + stats.in_flight()
                );
                prop_assert!(stats.busy <= pair.world.now().since_origin());
                let records = || pair.world.log().iter().filter(|r| r.direction == direction);
                let stage = |stage| records().filter(move |r| r.stage == stage);
                prop_assert_eq!(stage(Stage::Offered).count() as u64, stats.sent_packets);
                let queued = records().filter(|r| r.outcome == Outcome::Queued).count();
                let left = stage(Stage::Dequeued).count();
                prop_assert!(left <= queued);
                if stop > stop_micros * 1_000 {
                    prop_assert_eq!(left, queued);
                }
                let drops = records().filter(|r| matches!(r.outcome, Outcome::Dropped(_)));
                prop_assert_eq!(drops.count() as u64, stats.dropped.total());
                let copies: u64 = records().map(|r| u64::from(r.copies)).sum();
                prop_assert_eq!(copies, stats.duplicated);
            }
        }
        let stats = pair.stats();
        prop_assert_eq!(stats.in_flight(), 0);
        prop_assert_eq!(stats.sent_packets, count);
        prop_assert_eq!(pair.received().len() as u64, stats.delivered_packets);
        let back = pair.world.link_stats(pair.link, Direction::Backward);
        prop_assert_eq!(back.sent_packets, stats.delivered_packets);
        let home = pair.world.node::<Peer>(pair.a).received.len() as u64;
        prop_assert_eq!(home, back.delivered_packets);
    }

    #[test]
    fn order_is_kept_unless_something_reorders(
        seed in any::<u64>(),
        mut forward in direction(),
        plan in traffic(),
    ) {
        forward.reordering = None;
        forward.corruption = LossModel::None;
        if let Some(jitter) = &mut forward.jitter {
            jitter.order = tautline_sim::JitterOrder::Fifo;
        }
        let mut pair = Pair::new(seed, forward, plan);
        let numbers = numbers(&pair.run());
        prop_assert!(numbers.is_sorted(), "{:?}", numbers);
    }

    #[test]
    fn the_rate_is_never_exceeded_over_any_window(
        seed in any::<u64>(),
        rate in 1_000u64..10_000_000,
        queue in queue(),
        aqm in aqm(),
        // Those that never go above `rate`.
        variation in (3u8..16, any::<u64>()),
        plan in traffic(),
    ) {
        let rate = Rate::from_bytes_per_second(rate);
        let mut forward =
            DirectionConfig { rate: Some(rate), queue, aqm, ..DirectionConfig::default() };
        vary(&mut forward, variation.0, variation.1);
        for gaps in &mut forward.gaps {
            // What a gap holds was sent in time, but comes all at once.
            gaps.hold = Duration::ZERO;
        }
        let mut pair = Pair::new(seed, forward, plan);
        let received = pair.run();
        for first in 0..received.len() {
            let mut bytes = 0;
            // What ends after the first one ended has been sent since.
            for later in &received[first + 1..] {
                bytes += later.payload.len() as u64 + 28;
                let window = later.at.saturating_since(received[first].at);
                // One nanosecond of rounding at either edge.
                let least = rate.time_for(bytes).saturating_sub(Duration::from_nanos(2));
                prop_assert!(window >= least, "{} bytes in {:?}", bytes, window);
            }
        }
    }

    #[test]
    fn the_queue_never_holds_more_than_its_limit(
        limit in 0u64..40_000,
        packets in 0u64..40,
        in_packets in any::<bool>(),
        aqm in aqm(),
        plan in traffic(),
    ) {
        let queue =
            if in_packets { QueueSize::Packets(packets) } else { QueueSize::Bytes(limit) };
        let rate = Some(Rate::from_bytes_per_second(100_000));
        let mut pair = Pair::new(1, DirectionConfig { rate, queue, aqm, ..Default::default() }, plan);
        pair.run();
        let stats = pair.stats();
        let held = if in_packets { stats.queue_max_packets } else { stats.queue_max_bytes };
        let limit = if in_packets { packets } else { limit };
        prop_assert!(held <= limit, "{} > {}", held, limit);
    }

    #[test]
    fn configurations_survive_serde_and_runs_repeat(
        seed in any::<u64>(),
        forward in direction(),
        plan in traffic(),
    ) {
        let text = toml::to_string(&forward).unwrap();
        let back: DirectionConfig = toml::from_str(&text).unwrap();
        prop_assert_eq!(&back, &forward, "{}", text);
        let mut one = Pair::new(seed, forward, plan.clone());
        let mut two = Pair::new(seed, back, plan);
        prop_assert_eq!(one.run(), two.run());
        prop_assert_eq!(one.world.trace_hash(), two.world.trace_hash());
    }
}
