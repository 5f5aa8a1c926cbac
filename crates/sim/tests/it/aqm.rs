//! Managed queues: CoDel and FQ-CoDel in a world.

use std::time::Duration;

use tautline_sim::{Aqm, Direction, DirectionConfig, DropCause, Outcome, QueueSize, Stage};
use tautline_transport::{
    time::Instant,
    units::{Ecn, Rate},
};

use crate::nodes::{B, Pair, Planned, Received, addr, at, ms, numbers, steady};

/// One byte a microsecond: a packet of 1000 IP bytes takes a millisecond.
fn managed(aqm: Aqm) -> DirectionConfig {
    DirectionConfig {
        rate: Some(Rate::from_bytes_per_second(1_000_000)),
        queue: QueueSize::Packets(1000),
        aqm,
        ..DirectionConfig::default()
    }
}

/// A sends twice what the link carries for five seconds, packets of 1000 IP bytes.
fn overload(ecn: Ecn) -> Vec<Planned> {
    let mut plan = steady(10_000, Duration::from_micros(500), 972);
    for planned in &mut plan {
        planned.ecn = ecn;
    }
    plan
}

/// Seconds from sending to arrival of the packets sent in `range`.
fn delays(received: &[Received], plan: &[Planned], range: std::ops::Range<u64>) -> Vec<f64> {
    let of = |r: &&Received| {
        let sent = plan[r.number as usize].at;
        (ms(range.start)..ms(range.end)).contains(&sent.since_origin())
    };
    let delay = |r: &Received| {
        let sent = plan[r.number as usize].at;
        r.at.saturating_since(sent).as_secs_f64()
    };
    received.iter().filter(of).map(delay).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn codel_drops_at_the_head_and_every_drop_is_told() {
    let mut pair = Pair::new(1, managed(Aqm::codel()), overload(Ecn::NotEct));
    let received = pair.run();
    let stats = pair.stats();
    assert!(stats.dropped.aqm > 10, "{stats:?}");
    assert_eq!(stats.sent_packets, 10_000);
    assert_eq!(stats.in_flight(), 0);
    assert_eq!(
        stats.sent_packets,
        received.len() as u64 + stats.dropped.total()
    );
    assert!(numbers(&received).is_sorted());
    let log = pair.world.log();
    let dropped =
        |cause| move |r: &&tautline_sim::PacketRecord| r.outcome == Outcome::Dropped(cause);
    let by_codel: Vec<_> = log.iter().filter(dropped(DropCause::Aqm)).collect();
    assert_eq!(by_codel.len() as u64, stats.dropped.aqm);
    assert!(
        by_codel
            .iter()
            .all(|r| r.stage == Stage::Dequeued && r.ip_bytes == 1000)
    );
    // Offered once, decided once.
    let stage = |stage| log.iter().filter(|r| r.stage == stage).count();
    assert_eq!(
        (stage(Stage::Offered), stage(Stage::Dequeued)),
        (10_000, 10_000)
    );
    // An unresponsive sender at twice the rate: the first drop comes an interval after the wait
    // first exceeded the target.
    let first = by_codel[0].time.since_origin();
    assert!((ms(110)..ms(115)).contains(&first), "{first:?}");
}

#[test]
fn codel_marks_instead_when_asked_to() {
    let aqm = Aqm::Codel {
        target: ms(5),
        interval: ms(100),
        ecn: true,
    };
    let mut pair = Pair::new(1, managed(aqm), overload(Ecn::Ect0));
    let received = pair.run();
    let stats = pair.stats();
    assert_eq!(stats.dropped.aqm, 0);
    let marked = received.iter().filter(|r| r.ecn == Ecn::Ce).count();
    assert!(marked > 10);
    assert_eq!(stats.ce_marked, marked as u64);
}

#[test]
fn fq_codel_protects_a_thin_flow_beside_a_bulk_flow() {
    // A flow of 10 packets a second beside one of 2000, on a link for 1000.
    let mut plan = overload(Ecn::NotEct);
    plan.extend(steady(50, ms(100), 172).into_iter().map(|mut thin| {
        thin.from = addr("10.0.0.1:2000");
        thin.at += Duration::from_micros(250);
        thin
    }));
    plan.sort_by_key(|planned| planned.at);
    let thin = |received: &[Received]| -> Vec<Received> {
        let thin = received.iter().filter(|r| r.from == addr("10.0.0.1:2000"));
        thin.cloned().collect()
    };
    let mut tail = Pair::new(1, managed(Aqm::None), plan.clone());
    let mut fair = Pair::new(1, managed(Aqm::fq_codel()), plan.clone());
    let (tail, fair) = (thin(&tail.run()), thin(&fair.run()));
    // It waits for the packet being sent and for itself, never for the bulk queue.
    assert_eq!(fair.len(), 50);
    let worst = delays(&fair, &plan, 0..5000)
        .into_iter()
        .fold(0.0, f64::max);
    assert!(worst < 0.0023, "{worst}");
    let beside = median(delays(&tail, &plan, 2000..5000));
    assert!(beside > 0.9, "{beside}");
}

#[test]
fn fq_codel_shares_a_link_by_bytes() {
    let mut plan = Vec::new();
    for (port, len) in [(1u16, 1472), (2, 472), (3, 172)] {
        let gap = Duration::from_nanos((len as u64 + 28) * 700);
        for i in 0..(3_000_000_000 / gap.as_nanos() as u64) {
            plan.push(Planned {
                at: Instant::from_nanos(gap.as_nanos() as u64 * i),
                from: format!("10.0.0.1:{port}").parse().unwrap(),
                to: addr(B),
                len,
                ecn: Ecn::NotEct,
            });
        }
    }
    plan.sort_by_key(|planned| planned.at);
    let mut pair = Pair::new(1, managed(Aqm::fq_codel()), plan);
    pair.world.run_until(at(Duration::from_secs(3)));
    let received = pair.received();
    let bytes = |port: u16| -> usize {
        let mine = received.iter().filter(|r| r.from.port() == port);
        mine.map(|r| r.payload.len() + 28).sum()
    };
    let shares = [1, 2, 3].map(|port| bytes(port) as f64 / 3_000_000.0);
    assert!(
        shares.iter().all(|share| (share * 3.0 - 1.0).abs() < 0.02),
        "{shares:?}"
    );
}

#[test]
fn at_the_limit_the_fattest_queue_loses() {
    let aqm = Aqm::FqCodel {
        target: ms(1000),
        interval: ms(1000),
        quantum: 1514,
        flows: 1024,
        limit: 20,
        ecn: false,
    };
    let mut plan = overload(Ecn::NotEct);
    plan.extend(steady(20, ms(50), 972).into_iter().map(|mut thin| {
        thin.from = addr("10.0.0.1:2000");
        thin
    }));
    plan.sort_by_key(|planned| planned.at);
    let mut pair = Pair::new(1, managed(aqm), plan);
    let received = pair.run();
    let stats = pair.stats();
    assert_eq!(
        received.iter().filter(|r| r.from.port() == 2000).count(),
        20
    );
    assert!(
        stats.dropped.queue > 4000 && stats.dropped.aqm == 0,
        "{stats:?}"
    );
    assert!(stats.queue_max_packets <= 20);
}

#[test]
fn a_discipline_can_change_while_packets_wait() {
    let order = [
        Aqm::codel(),
        Aqm::None,
        Aqm::fq_codel(),
        Aqm::codel(),
        Aqm::None,
    ];
    let mut pair = Pair::new(1, managed(Aqm::fq_codel()), overload(Ecn::NotEct));
    for (i, aqm) in order.into_iter().enumerate() {
        pair.world.run_until(at(ms(600 * (i as u64 + 1))));
        let link = pair.link;
        pair.world
            .set_direction(link, Direction::Forward, managed(aqm))
            .unwrap();
    }
    let received = pair.run();
    let stats = pair.stats();
    assert_eq!(stats.in_flight(), 0);
    assert_eq!(received.len() as u64 + stats.dropped.total(), 10_000);
    assert!(numbers(&received).is_sorted());
    // Never faster than the link, across all changes.
    let last = received.last().unwrap().at.since_origin();
    assert!(
        last >= Duration::from_millis(received.len() as u64),
        "{last:?}"
    );
    assert!(stats.busy <= last);
}

#[test]
fn impossible_parameters_are_named() {
    let cases = [
        (
            r#"{ model = "fq-codel", flows = 0 }"#,
            "aqm.flows: 0 is not between 1 and 65536",
        ),
        (
            r#"{ model = "fq-codel", limit = 0 }"#,
            "aqm.limit: is zero: nothing could ever wait",
        ),
        (
            r#"{ model = "codel", interval = "0 ms" }"#,
            "aqm.interval: is zero",
        ),
        (r#"{ model = "codel", target = "2 h" }"#, "duration"),
        (
            r#"{ model = "codel", goal = "2 ms" }"#,
            "unknown field `goal`",
        ),
        (r#"{ model = "red" }"#, "unknown variant `red`"),
    ];
    for (text, problem) in cases {
        let error = match toml::from_str::<DirectionConfig>(&format!("aqm = {text}")) {
            Ok(config) => config.validate().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(problem), "{text}: {error}");
    }
}
