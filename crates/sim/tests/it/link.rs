//! Rate, queue, delay, jitter, MTU, ECN, statistics.

use std::time::Duration;

use tautline_sim::{DirectionConfig, Jitter, JitterOrder, QueueSize, RunEnd};
use tautline_transport::{
    time::Instant,
    units::{Ecn, Rate},
};

use crate::nodes::{Pair, at, ms, numbers, steady};

/// 1 MB/s: 1000 IP bytes take 1 ms.
fn megabyte_per_second() -> DirectionConfig {
    DirectionConfig {
        rate: Some(Rate::from_bytes_per_second(1_000_000)),
        delay: ms(10),
        ..DirectionConfig::default()
    }
}

#[test]
fn a_packet_takes_its_serialisation_and_the_delay() {
    let mut pair = Pair::new(1, megabyte_per_second(), steady(3, Duration::ZERO, 972));
    let arrivals: Vec<_> = pair.run().iter().map(|r| r.at).collect();
    assert_eq!(arrivals, [at(ms(11)), at(ms(12)), at(ms(13))]);
}

#[test]
fn ipv6_headers_count_48_bytes() {
    let mut plan = steady(1, Duration::ZERO, 952);
    plan[0].from = "[fd00::1]:1".parse().unwrap();
    plan[0].to = "[fd00::2]:2".parse().unwrap();
    let mut world = tautline_sim::World::new(0);
    let peer = crate::nodes::Peer::new(plan.clone());
    let a = world.add_host(plan[0].from, Box::new(peer));
    let b = world.add_host(plan[0].to, Box::new(crate::nodes::Peer::default()));
    world.connect(
        a,
        b,
        tautline_sim::LinkConfig::symmetric(megabyte_per_second()),
    );
    assert_eq!(world.run_until(at(ms(100))), RunEnd::Idle);
    assert_eq!(
        world.node::<crate::nodes::Peer>(b).received[0].at,
        at(ms(11))
    );
    assert_eq!(world.now(), at(ms(100)));
}

#[test]
fn a_queue_in_packets_holds_that_many_beside_the_one_being_sent() {
    let config = DirectionConfig {
        queue: QueueSize::Packets(25),
        ..megabyte_per_second()
    };
    let mut pair = Pair::new(1, config, steady(100, Duration::ZERO, 972));
    assert_eq!(numbers(&pair.run()), (0..26).collect::<Vec<_>>());
    assert_eq!(pair.stats().dropped.queue, 74);
    assert_eq!(pair.stats().queue_max_packets, 25);
}

#[test]
fn a_queue_in_bytes_and_in_bandwidth_delay_products() {
    let config = DirectionConfig {
        queue: QueueSize::Bytes(5_500),
        ..megabyte_per_second()
    };
    let mut pair = Pair::new(1, config, steady(100, Duration::ZERO, 972));
    assert_eq!(pair.run().len(), 6);
    assert_eq!(pair.stats().queue_max_bytes, 5_000);
    // 1 MB/s x (10 ms forward + 0 ms backward) x 2.
    let config = DirectionConfig {
        queue: QueueSize::Bdp(2.0),
        ..megabyte_per_second()
    };
    let mut pair = Pair::new(1, config, steady(100, Duration::ZERO, 972));
    assert_eq!(pair.run().len(), 21);
}

#[test]
fn a_saturated_link_is_busy_all_the_time_and_loses_nothing_to_rounding() {
    // 7 bytes per second more than a round number: no packet takes whole nanoseconds.
    let rate = Rate::from_bytes_per_second(2_500_007);
    let config = DirectionConfig {
        rate: Some(rate),
        ..megabyte_per_second()
    };
    let mut pair = Pair::new(1, config, steady(20_000, Duration::ZERO, 1_452));
    let received = pair.run();
    let bytes = 20_000 * 1_480;
    let last = received.last().unwrap().at.saturating_since(at(ms(10)));
    let exact = rate.time_for(bytes);
    assert!(
        last >= exact && last <= exact + Duration::from_nanos(2),
        "{last:?} {exact:?}"
    );
    let busy = pair.stats().busy;
    assert!(busy.abs_diff(exact) <= Duration::from_nanos(2));
}

#[test]
fn busy_time_counts_only_what_has_passed() {
    let mut pair = Pair::new(1, megabyte_per_second(), steady(10, Duration::ZERO, 972));
    pair.world.run_until(Instant::from_nanos(4_500_000));
    assert_eq!(pair.stats().busy, Duration::from_micros(4_500));
    assert_eq!(pair.stats().utilisation(Duration::from_micros(9_000)), 0.5);
    assert_eq!(pair.stats().in_flight(), 10);
    pair.world.run_until(at(ms(100)));
    assert_eq!(pair.stats().busy, ms(10));
    assert_eq!(pair.stats().in_flight(), 0);
}

#[test]
fn larger_than_the_mtu_is_dropped() {
    let mut plan = steady(2, Duration::ZERO, 1_472);
    plan[1].len = 1_473;
    let mut pair = Pair::new(1, megabyte_per_second(), plan);
    assert_eq!(numbers(&pair.run()), [0]);
    assert_eq!(pair.stats().dropped.mtu, 1);
}

#[test]
fn capable_packets_are_marked_above_the_threshold() {
    let config = DirectionConfig {
        ecn_threshold: Some(QueueSize::Packets(5)),
        ..megabyte_per_second()
    };
    let mut plan = steady(20, Duration::ZERO, 972);
    plan.iter_mut()
        .step_by(2)
        .for_each(|planned| planned.ecn = Ecn::Ect0);
    let mut pair = Pair::new(1, config, plan);
    for received in pair.run() {
        // Packet n finds n - 1 waiting.
        let expected = match (received.number % 2, received.number > 6) {
            (1, _) => Ecn::NotEct,
            (_, true) => Ecn::Ce,
            (_, false) => Ecn::Ect0,
        };
        assert_eq!(received.ecn, expected, "packet {}", received.number);
    }
    assert_eq!(pair.stats().ce_marked, 6);
}

fn jittery(jitter: Jitter) -> Vec<crate::nodes::Received> {
    let config = DirectionConfig {
        delay: ms(30),
        jitter: Some(jitter),
        ..DirectionConfig::default()
    };
    Pair::new(3, config, steady(20_000, ms(1), 100)).run()
}

fn delays(received: &[crate::nodes::Received]) -> Vec<f64> {
    let sent = |r: &crate::nodes::Received| at(ms(r.number));
    received
        .iter()
        .map(|r| r.at.saturating_since(sent(r)).as_secs_f64() * 1e3)
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn reordering_jitter_is_uniform_and_overtakes() {
    let received = jittery(Jitter::reorder(ms(5)));
    let delays = delays(&received);
    assert!((mean(&delays) - 30.0).abs() < 0.1, "{}", mean(&delays));
    assert!(delays.iter().all(|d| (25.0..=35.0).contains(d)));
    assert!(delays.iter().any(|d| *d < 25.1) && delays.iter().any(|d| *d > 34.9));
    assert!(numbers(&received).windows(2).any(|w| w[1] < w[0]));
}

#[test]
fn fifo_jitter_keeps_order() {
    let received = jittery(Jitter::fifo(ms(5)));
    assert_eq!(numbers(&received), (0..20_000).collect::<Vec<_>>());
    assert!(delays(&received).iter().all(|d| (25.0..=35.0).contains(d)));
}

#[test]
fn correlated_jitter_wanders_around_the_delay_in_order() {
    let jitter = Jitter {
        spread: ms(5),
        order: JitterOrder::Fifo,
        correlation: ms(100),
    };
    let received = jittery(jitter);
    assert_eq!(numbers(&received), (0..20_000).collect::<Vec<_>>());
    let delays = delays(&received);
    assert!((mean(&delays) - 30.0).abs() < 0.6, "{}", mean(&delays));
    // Moves by at most 10 ms in 100 ms.
    assert!(delays.windows(2).all(|w| (w[1] - w[0]).abs() < 0.101));
}

/// Three minutes at 20 Mb/s with an answer to every second packet: the measure of the
/// simulator's own cost (`cargo test --release -p tautline-sim --test it three_minutes`).
#[test]
fn three_minutes_of_a_busy_link() {
    let mut world = tautline_sim::World::new(1);
    let gap = Duration::from_nanos(592_000);
    let count = 180_000_000_000 / 592_000;
    let mut back = steady(count / 2, gap * 2, 50);
    for planned in &mut back {
        std::mem::swap(&mut planned.from, &mut planned.to);
    }
    let plan = steady(count, gap, 1_452);
    let a = world.add_host(plan[0].from, Box::new(crate::nodes::Counter::new(plan)));
    let b = world.add_host(back[0].from, Box::new(crate::nodes::Counter::new(back)));
    let wifi = tautline_sim::links::by_name("wifi").unwrap();
    let link = world.connect(a, b, wifi);
    world.run_until(at(Duration::from_secs(180)));
    let stats = world.link_stats(link, tautline_sim::Direction::Forward);
    assert_eq!(stats.dropped.total(), 0);
    assert!(stats.utilisation(Duration::from_secs(180)) > 0.999);
    assert!(world.node::<crate::nodes::Counter>(b).received > count - 50);
}
