//! What every registry entry promises, whatever happens to it.

use std::time::Duration;

use proptest::{collection::vec, prelude::*};

use super::{
    test_link::{MTU, Path, Run, context, ms},
    *,
};

fn all_names() -> impl Iterator<Item = &'static str> {
    registry::names().chain(registry::lab_names())
}

#[test]
fn names_build_what_they_say() {
    for name in all_names() {
        let factory = registry::by_name(name).unwrap();
        assert_eq!(factory.name(), name);
        let controller = factory.build(context());
        assert_eq!(controller.name(), name);
        assert_eq!(
            controller.window(),
            10 * MTU,
            "{name} starts at the initial window"
        );
        assert!(!controller.metrics().state.is_empty());
    }
    assert!(registry::by_name("vegas").is_none());
    assert_eq!(registry::default_factory().name(), "cubic");
    assert_eq!(registry::cubic_for_bursts().name(), "cubic");
}

/// What harms others is found by name, but never offered.
#[test]
fn controls_for_experiments_are_apart() {
    assert!(registry::is_lab_only("ignore-loss"));
    assert!(registry::names().all(|name| !registry::is_lab_only(name)));
    assert!(registry::lab_names().all(registry::is_lab_only));
    let mut names: Vec<_> = all_names().collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all_names().count());
}

#[test]
fn every_controller_fills_a_plain_link() {
    for name in all_names() {
        let controller = registry::by_name(name).unwrap().build(context());
        let mut run = Run::new(controller, Path::new(20.0, 40, 1.0));
        run.run_for(Duration::from_secs(5)).mark();
        run.run_for(Duration::from_secs(25));
        assert!(run.utilisation() > 0.93, "{name}: {}", run.utilisation());
        assert!(run.loss_share() < 0.02, "{name}: {}", run.loss_share());
    }
}

/// A slow start ends at what the path holds, and only a slow start.
#[test]
fn a_full_path_ends_slow_start() {
    for name in ["newreno", "cubic", "lia", "olia", "balia"] {
        let mut controller = registry::by_name(name).unwrap().build(context());
        assert_eq!(controller.metrics().state, "slow_start", "{name}");
        controller.on_path_full(8 * MTU);
        assert_eq!(controller.window(), 8 * MTU, "{name}");
        assert_ne!(controller.metrics().state, "slow_start", "{name}");
        controller.on_path_full(4 * MTU);
        assert_eq!(controller.window(), 8 * MTU, "{name}");
    }
    for name in ["bbr1", "bbr2", "bbr3", "bbr3-taut"] {
        let after = |full: bool| {
            let controller = registry::by_name(name).unwrap().build(context());
            let mut run = Run::new(controller, Path::new(20.0, 100, 1.0));
            run.run_for(ms(250));
            assert_eq!(run.controller.metrics().state, "startup", "{name}");
            if full {
                run.controller.on_path_full(20 * MTU);
            }
            run.run_for(ms(20));
            let metrics = run.controller.metrics();
            assert_eq!(metrics.filled_pipe, metrics.state != "startup", "{name}");
            metrics.state
        };
        assert_eq!(after(false), "startup", "{name}");
        assert_ne!(after(true), "startup", "{name}");
    }
    for name in all_names() {
        let mut controller = registry::by_name(name).unwrap().build(context());
        controller.on_path_full(0);
        assert!(controller.window() >= 2 * MTU, "{name}");
    }
}

// RFC 9002 s7.2.
#[test]
fn larger_datagrams_enlarge_the_initial_window_until_slow_start_ends() {
    for name in all_names() {
        let mut cc = registry::by_name(name).unwrap().build(context());
        let enlarge = |cc: &mut Box<dyn CongestionController>, mtu: u64| {
            cc.on_initial_window(initial_window(10, mtu));
            cc.on_mtu(mtu);
            cc.window()
        };
        assert_eq!(enlarge(&mut cc, 1_400), 14_000, "{name}");
        let before = cc.pacing_rate();
        cc.on_ack(&test_link::ack(0, 10, 1_400, ms(50)));
        let grown = cc.window();
        assert_eq!(enlarge(&mut cc, 1_450), grown + 500, "{name}");
        assert_eq!(enlarge(&mut cc, 1_450), grown + 500, "{name} again");
        if let Some(rate) = cc.pacing_rate() {
            let full = Rate::from_bytes_over(14_500, ms(50));
            assert!(rate >= full && Some(rate) < before, "{name}: {rate}");
        }

        let mut run = Run::new(cc, Path::new(20.0, 40, 1.0));
        run.run_for(Duration::from_secs(5));
        let mut cc = run.controller;
        let settled = cc.window();
        if cc.metrics().state != "slow_start" {
            assert_eq!(
                enlarge(&mut cc, 1_460),
                settled,
                "{name}: the path is known"
            );
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for name in all_names() {
        let outcome = || {
            let controller = registry::by_name(name).unwrap().build(context());
            let mut run = Run::new(controller, Path::new(20.0, 100, 0.5).with_loss(0.005));
            run.run_for(Duration::from_secs(10));
            (run.delivered, run.lost, run.controller.window())
        };
        assert_eq!(outcome(), outcome(), "{name}");
    }
}

#[test]
fn every_controller_survives_a_black_hole() {
    for name in all_names() {
        let controller = registry::by_name(name).unwrap().build(context());
        let mut run = Run::new(controller, Path::new(10.0, 50, 1.0));
        run.run_for(Duration::from_secs(5));
        run.path.loss = 1.0;
        run.run_for(Duration::from_secs(5));
        assert!(
            run.controller.window() <= 20 * MTU,
            "{name}: {}",
            run.controller.window()
        );
        run.path.loss = 0.0;
        run.run_for(Duration::from_secs(5)).mark();
        run.run_for(Duration::from_secs(10));
        assert!(run.utilisation() > 0.8, "{name}: {}", run.utilisation());
    }
}

/// Anything that can be said to a controller, numbers unrelated to each other included.
#[derive(Clone, Debug)]
enum Op {
    Sent {
        bytes: u64,
        in_flight: u64,
        app_limited: bool,
    },
    Ack {
        bytes: u64,
        number: u64,
        rtt: u64,
        in_flight: u64,
        rate: Option<[u64; 6]>,
        limited: bool,
    },
    Loss {
        packets: Vec<[u64; 6]>,
        persistent: bool,
        lost: u64,
        delivered: u64,
    },
    Ecn {
        packets: u64,
        in_flight: u64,
    },
    Spurious {
        sent: u64,
        episode: bool,
    },
    Mtu(u64),
    Siblings(Vec<[u64; 4]>),
    Idle,
    Wait(u64),
}

/// Small numbers, plausible numbers and absurd ones.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..20_000,
        4 => 0u64..100_000_000,
        1 => Just(u64::MAX),
        1 => any::<u64>(),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let six = || [number(), number(), number(), number(), number(), number()];
    prop_oneof![
        4 => (number(), number(), any::<bool>())
            .prop_map(|(bytes, in_flight, app_limited)| Op::Sent { bytes, in_flight, app_limited }),
        8 => (number(), number(), number(), number(), proptest::option::of(six()), any::<bool>())
            .prop_map(|(bytes, number, rtt, in_flight, rate, limited)| {
                Op::Ack { bytes, number, rtt, in_flight, rate, limited }
            }),
        3 => (vec(six(), 1..5), any::<bool>(), number(), number()).prop_map(
            |(packets, persistent, lost, delivered)| Op::Loss { packets, persistent, lost, delivered }
        ),
        1 => (number(), number()).prop_map(|(packets, in_flight)| Op::Ecn { packets, in_flight }),
        1 => (number(), any::<bool>()).prop_map(|(sent, episode)| Op::Spurious { sent, episode }),
        1 => (1_200u64..65_536).prop_map(Op::Mtu),
        1 => vec([number(), number(), number(), number()], 1..4).prop_map(Op::Siblings),
        1 => Just(Op::Idle),
        2 => number().prop_map(Op::Wait),
    ]
}

struct Driver {
    controller: Box<dyn CongestionController>,
    now: Instant,
    delivered: u64,
}

impl Driver {
    fn rtt(nanos: u64) -> RttView {
        let rtt = Duration::from_nanos(nanos);
        RttView {
            latest: rtt,
            adjusted: rtt,
            smoothed: rtt,
            min: rtt,
        }
    }

    fn apply(&mut self, op: &Op) {
        let now = self.now;
        let controller = &mut self.controller;
        match op {
            Op::Sent {
                bytes,
                in_flight,
                app_limited,
            } => {
                controller.on_sent(&SentEvent::new(now, 1, *bytes, *in_flight, *app_limited));
            }
            Op::Ack {
                bytes,
                number,
                rtt,
                in_flight,
                rate,
                limited,
            } => {
                self.delivered = self.delivered.saturating_add(*bytes);
                let rate = rate.map(|[delivered, interval, speed, prior, lost, tx]| RateSample {
                    delivered,
                    interval: Duration::from_nanos(interval),
                    delivery_rate: Rate::from_bytes_per_second(speed),
                    send_rate: Rate::from_bytes_per_second(tx),
                    app_limited: *limited,
                    prior_delivered: prior,
                    lost,
                    tx_in_flight: tx,
                });
                let sent = now - Duration::from_nanos(*rtt);
                controller.on_ack(&AckEvent::new(
                    now,
                    *bytes,
                    1,
                    *number,
                    sent,
                    number.saturating_add(10),
                    true,
                    Self::rtt(*rtt),
                    in_flight.saturating_add(*bytes),
                    *in_flight,
                    self.delivered,
                    0,
                    rate,
                    *limited,
                ));
            }
            Op::Loss {
                packets,
                persistent,
                lost,
                delivered,
            } => {
                let packets: Vec<_> = packets
                    .iter()
                    .map(|[number, bytes, sent, tx, delivered, lost]| {
                        let sent = Instant::from_nanos(*sent);
                        LostPacket::new(*number, *bytes, sent, *tx, *delivered, *lost, false)
                    })
                    .collect();
                let bytes = packets
                    .iter()
                    .fold(0u64, |sum, p| sum.saturating_add(p.bytes));
                controller.on_loss(&LossEvent::new(
                    now,
                    &packets,
                    bytes,
                    *lost,
                    *delivered,
                    *persistent,
                    *lost,
                    *delivered,
                    Self::rtt(1),
                ));
            }
            Op::Ecn { packets, in_flight } => {
                controller.on_ecn(&EcnEvent::new(now, *packets, 1, now, *in_flight));
            }
            Op::Spurious { sent, episode } => {
                let sent = Instant::from_nanos(*sent);
                let event = SpuriousLossEvent::new(now, 1, sent, MTU, *episode);
                controller.on_spurious_loss(&event);
            }
            Op::Mtu(mtu) => {
                controller.on_initial_window(initial_window(10, *mtu));
                controller.on_mtu(*mtu);
            }
            Op::Siblings(paths) => {
                let mut views = paths.iter().map(|[window, rtt, datagram, bytes]| {
                    let rtt = Duration::from_nanos(*rtt);
                    let mut view = SiblingView::new(*window, rtt, *datagram);
                    view.between_losses = *bytes;
                    view
                });
                if let Some(own) = views.next() {
                    let siblings: Vec<_> = views.collect();
                    controller.on_siblings(&own, &siblings);
                }
            }
            Op::Idle => controller.on_restart_from_idle(now),
            Op::Wait(nanos) => self.now += Duration::from_nanos(*nanos),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_sequence_of_events_breaks_a_controller(ops in vec(op(), 1..120)) {
        for name in all_names() {
            let controller = registry::by_name(name).unwrap().build(context());
            let mut driver = Driver { controller, now: Instant::ZERO + ms(1), delivered: 0 };
            let mut mtu = MTU;
            for op in &ops {
                driver.apply(op);
                if let Op::Mtu(new) = op {
                    mtu = *new;
                }
                let window = driver.controller.window();
                prop_assert!(window >= 2 * mtu, "{name}: window {window} after {op:?}");
                prop_assert!(driver.controller.send_quantum() != Some(0));
                driver.controller.metrics();
            }
        }
    }
}
