//! Loss, corruption, reordering, duplication, outages, rules, rebinding, forged datagrams.

use std::time::Duration;

use tautline_sim::{
    Datagram, Direction, DirectionConfig, DropCause, LinkConfig, LossModel, Outage, OutageMode,
    Outcome, Rebind, RebindSchedule, Reordering, RunEnd, Verdict, interop, rule,
};
use tautline_transport::units::{Ecn, Rate};

use crate::nodes::{A, B, Pair, Peer, addr, at, ms, numbers, steady};

fn lost(pair: &Pair) -> Vec<u64> {
    let dropped = |r: &&tautline_sim::PacketRecord| {
        r.direction == Direction::Forward && r.outcome == Outcome::Dropped(DropCause::Loss)
    };
    pair.world
        .log()
        .iter()
        .filter(dropped)
        .map(|r| r.index)
        .collect()
}

fn lossy() -> DirectionConfig {
    DirectionConfig {
        delay: ms(20),
        loss: LossModel::Gilbert {
            probability: 0.05,
            mean_burst: 3.0,
            max_burst: None,
        },
        ..DirectionConfig::default()
    }
}

#[test]
fn loss_depends_on_seed_link_direction_and_index_only() {
    let mut plain = Pair::new(9, lossy(), steady(5_000, ms(1), 100));
    plain.run();
    let expected = lost(&plain);
    assert!((150..350).contains(&expected.len()));

    // Other times, other sizes, other faults, traffic the other way.
    let forward = DirectionConfig {
        rate: Some(Rate::from_bits_per_second(50_000_000)),
        duplication: 0.1,
        corruption: LossModel::uniform(0.2),
        reordering: Some(Reordering {
            probability: 0.1,
            extra: ms(7),
        }),
        ..lossy()
    };
    let link = LinkConfig {
        forward,
        backward: lossy(),
    };
    let mut busy = Pair::with(
        9,
        link,
        steady(5_000, Duration::from_micros(700), 900),
        true,
    );
    busy.run();
    assert_eq!(lost(&busy), expected);

    let mut other = Pair::new(10, lossy(), steady(5_000, ms(1), 100));
    other.run();
    assert_ne!(lost(&other), expected);
}

#[test]
fn loss_uses_the_transmitter() {
    let config = DirectionConfig {
        rate: Some(Rate::from_bytes_per_second(1_000_000)),
        loss: LossModel::uniform(0.5),
        ..DirectionConfig::default()
    };
    let mut pair = Pair::new(1, config, steady(1_000, Duration::ZERO, 972));
    pair.run();
    assert_eq!(pair.stats().busy, ms(1_000));
    assert!(pair.stats().dropped.loss > 400);
}

#[test]
fn corruption_changes_exactly_one_byte() {
    let config = DirectionConfig {
        corruption: LossModel::uniform(0.3),
        ..DirectionConfig::default()
    };
    let mut pair = Pair::new(1, config, steady(2_000, ms(1), 64));
    let mut changed = 0;
    for (i, received) in pair.run().iter().enumerate() {
        let mut original = [0xaa; 64];
        original[..8].copy_from_slice(&(i as u64).to_be_bytes());
        let differs = original
            .iter()
            .zip(&received.payload)
            .filter(|(a, b)| a != b)
            .count();
        assert!(differs <= 1);
        changed += differs as u64;
    }
    assert_eq!(changed, pair.stats().corrupted);
    assert!((500..700).contains(&changed), "{changed}");
}

#[test]
fn duplicates_and_held_back_packets_match_their_rates() {
    let config = DirectionConfig {
        delay: ms(5),
        duplication: 0.1,
        reordering: Some(Reordering {
            probability: 0.2,
            extra: ms(3),
        }),
        ..DirectionConfig::default()
    };
    let mut pair = Pair::new(1, config, steady(10_000, ms(1), 64));
    let received = pair.run();
    let stats = pair.stats();
    assert_eq!(received.len() as u64, 10_000 + stats.duplicated);
    assert!((900..1_100).contains(&stats.duplicated));
    assert!((1_850..2_150).contains(&stats.held_back));
    for r in &received {
        let delay = r.at.saturating_since(at(ms(r.number)));
        assert!(delay == ms(5) || delay == ms(8));
    }
}

#[test]
fn a_black_hole_swallows_and_a_hold_delays() {
    let outage = Outage::once(ms(100), ms(50));
    let config = DirectionConfig {
        outages: vec![outage],
        ..DirectionConfig::default()
    };
    let mut pair = Pair::new(1, config, steady(200, ms(1), 64));
    let expected: Vec<u64> = (0..200).filter(|n| !(100..150).contains(n)).collect();
    assert_eq!(numbers(&pair.run()), expected);
    assert_eq!(pair.stats().dropped.outage, 50);

    let hold = Outage {
        mode: OutageMode::Hold,
        every: Some(ms(1_000)),
        ..outage
    };
    let config = DirectionConfig {
        outages: vec![hold],
        ..DirectionConfig::default()
    };
    let mut pair = Pair::new(1, config, steady(1_200, ms(1), 64));
    for r in pair.run() {
        let into = r.number % 1_000;
        let expected = if (100..150).contains(&into) {
            r.number - into + 150
        } else {
            r.number
        };
        assert_eq!(r.at, at(ms(expected)), "packet {}", r.number);
    }
}

#[test]
fn overlapping_endless_holds_do_not_hang() {
    let hold = |start| Outage {
        start: ms(start),
        duration: ms(9),
        every: Some(ms(10)),
        mode: OutageMode::Hold,
    };
    let config = DirectionConfig {
        outages: vec![hold(0), hold(5)],
        ..DirectionConfig::default()
    };
    let mut pair = Pair::new(1, config, steady(10, ms(1), 64));
    assert_eq!(pair.run().len(), 10);
}

#[test]
fn scripted_indices_and_rules() {
    let config = DirectionConfig {
        drop_packets: vec![1..=2, 7..=7],
        ..DirectionConfig::default()
    };
    let mut pair = Pair::new(1, config, steady(10, ms(1), 64));
    let link = pair.link;
    let mut seen = 0;
    pair.world
        .add_rule(link, Direction::Forward, move |packet| {
            assert_eq!(packet.index, seen);
            seen += 1;
            Verdict::Pass
        });
    pair.world
        .add_rule(link, Direction::Forward, rule::drop_indices(4..5));
    let late = rule::apply_when(Verdict::Delay(ms(20)), |p| p.index == 5);
    pair.world.add_rule(link, Direction::Forward, late);
    let twice = rule::apply_when(Verdict::Duplicate(2), |p| p.index == 6);
    pair.world.add_rule(link, Direction::Forward, twice);
    let other = rule::apply_when(Verdict::Replace(vec![0; 8]), |p| p.index == 8);
    pair.world.add_rule(link, Direction::Forward, other);
    let mark = rule::apply_when(Verdict::SetEcn(Ecn::Ce), |p| p.index == 9);
    let removed = pair
        .world
        .add_rule(link, Direction::Forward, rule::drop_indices(..));
    pair.world.add_rule(link, Direction::Forward, mark);
    assert!(pair.world.remove_rule(removed) && !pair.world.remove_rule(removed));
    let received = pair.run();
    assert_eq!(numbers(&received), [0, 3, 6, 6, 6, 0, 9, 5]);
    assert_eq!(received[6].ecn, Ecn::Ce);
    assert_eq!(pair.stats().dropped.rule, 4);
}

#[test]
fn a_link_can_be_cut_and_changed_while_it_runs() {
    let mut pair = Pair::new(1, DirectionConfig::default(), steady(30, ms(1), 64));
    let link = pair.link;
    pair.world
        .schedule(at(Duration::from_micros(9_500)), move |w| {
            w.set_link_up(link, false)
        });
    pair.world
        .schedule(at(Duration::from_micros(19_500)), move |w| {
            w.set_link_up(link, true);
            let slow = DirectionConfig {
                delay: ms(7),
                ..DirectionConfig::default()
            };
            w.set_direction(link, Direction::Forward, slow).unwrap();
        });
    let received = pair.run();
    assert_eq!(
        numbers(&received),
        (0..10).chain(20..30).collect::<Vec<_>>()
    );
    assert_eq!(received[10].at, at(ms(27)));
}

fn rebinding(kind: Rebind) -> (Pair, Vec<(u64, std::net::SocketAddr)>) {
    let link = LinkConfig::symmetric(DirectionConfig {
        delay: ms(10),
        ..Default::default()
    });
    let mut pair = Pair::with(1, link, steady(100, ms(10), 64), true);
    let schedule = RebindSchedule {
        kind,
        first: ms(205),
        every: Some(ms(500)),
    };
    pair.world.schedule_rebind(pair.a, schedule);
    assert_eq!(pair.world.run_until(at(ms(1_200))), RunEnd::TimeReached);
    let mut seen: Vec<(u64, std::net::SocketAddr)> = Vec::new();
    for r in pair.received() {
        if seen.last().is_none_or(|(_, from)| *from != r.from) {
            seen.push((r.number, r.from));
        }
    }
    (pair, seen)
}

#[test]
fn a_nat_rebinds_ports_on_schedule() {
    let (pair, seen) = rebinding(Rebind::Port);
    let firsts: Vec<u64> = seen.iter().map(|(n, _)| *n).collect();
    assert_eq!(firsts, [0, 21, 71]);
    assert!(seen.iter().all(|(_, from)| from.ip() == addr(A).ip()));
    // What was under way to the old port is lost; everything else comes back to the inner address.
    let echoes = &pair.world.node::<Peer>(pair.a).received;
    assert!(echoes.iter().all(|r| r.to == addr(A)));
    assert_eq!(pair.world.stats().nat_dropped, 4);
    assert_eq!(echoes.len(), 96);
}

#[test]
fn a_nat_rebinds_addresses() {
    let (pair, seen) = rebinding(Rebind::Address);
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|(_, from)| from.port() == addr(A).port()));
    assert_eq!(seen[1].1.ip().to_string(), "100.64.0.1");
    let (_, seen) = rebinding(Rebind::AddressAndPort);
    assert_ne!(seen[1].1.port(), addr(A).port());
    assert_eq!(pair.world.node::<Peer>(pair.a).received.len(), 96);
    let (_, seen) = rebinding(Rebind::To("192.0.2.9".parse().unwrap()));
    assert_eq!(seen[1].1.ip().to_string(), "192.0.2.9");
    // Another host's address cannot be taken.
    let (_, seen) = rebinding(Rebind::To(addr(B).ip()));
    assert_eq!(seen.len(), 1);
}

#[test]
fn forged_datagrams_reach_their_target() {
    let mut pair = Pair::new(1, DirectionConfig::default(), Vec::new());
    let forged = Datagram {
        src: addr(A),
        dst: addr(B),
        ecn: Ecn::NotEct,
        payload: vec![7; 9],
    };
    let copy = forged.clone();
    pair.world
        .schedule(at(ms(5)), move |world| world.inject(copy));
    pair.world.inject(Datagram {
        dst: addr("203.0.113.1:1"),
        ..forged
    });
    let received = pair.run();
    assert_eq!((received.len(), received[0].at), (1, at(ms(5))));
    assert_eq!(
        (pair.world.stats().injected, pair.world.stats().unroutable),
        (2, 1)
    );
}

#[test]
fn interop_scenarios_do_what_their_names_say() {
    let drops = |name: &str, count: u64| {
        let scenario = interop::scenario(name).unwrap();
        let mut pair = Pair::with(4, scenario.link, steady(count, ms(2), 1_200), false);
        pair.run();
        pair.stats()
    };
    assert_eq!(drops("amplificationlimit", 20).dropped.rule, 6);
    assert_eq!(drops("blackhole", 7_000).dropped.outage, 4_000 / 2);
    assert_eq!(drops("transfer", 7_000).dropped.total(), 0);
    let loss = drops("handshakeloss", 10_000).dropped.loss;
    assert!((2_800..3_100).contains(&loss), "{loss}");
    let corrupted = drops("transfercorruption", 10_000).corrupted;
    assert!((150..250).contains(&corrupted), "{corrupted}");
}
