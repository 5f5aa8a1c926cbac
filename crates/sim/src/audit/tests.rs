//! Honest logs are not blamed; of each rule, a log that was tampered with at one packet is.

use std::{any::Any, net::SocketAddr, time::Duration};

use tautline_transport::{
    time::Instant,
    units::{Ecn, Rate},
};

use super::{Audit, Violation, Way, audit, eras, judge};
use crate::{
    AdaptiveCoding, Aqm, CodingState, Datagram, Direction, DirectionConfig, DropCause, Grants,
    Handover, Jitter, LinkConfig, LinkId, LossModel, Node, Outage, OutageMode, Outcome,
    PacketRecord, QueueSize, RateStep, RateSteps, RateWander, Reordering, Service, Silences,
    Spread, Stage, Timing, TraceSource, Turns, Verdict, World, links, rule,
};

/// Sends a packet of varying size now and then.
struct Source {
    left: u32,
    next: Instant,
    from: SocketAddr,
    to: SocketAddr,
}

impl Node for Source {
    fn handle_datagram(&mut self, _: Instant, _: Datagram) {}
    fn handle_timeout(&mut self, _: Instant) {}
    fn poll_timeout(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.next)
    }
    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        if now < self.next {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        if self.left.is_multiple_of(8) {
            self.next = now + Duration::from_micros(u64::from(self.left % 70) * 100);
        }
        Some(Datagram {
            src: self.from,
            dst: self.to,
            ecn: Ecn::Ect0,
            payload: vec![0; 40 + (self.left as usize * 37) % 1400],
        })
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// 5000 packets one way, 500 back; `later` may change the link while they are sent.
fn changed(config: LinkConfig, later: impl FnOnce(&mut World, LinkId) + 'static) -> World {
    let from: SocketAddr = "10.0.0.1:1".parse().unwrap();
    let to: SocketAddr = "10.0.0.2:2".parse().unwrap();
    let source = |left, from, to| {
        Box::new(Source {
            left,
            next: Instant::ZERO,
            from,
            to,
        })
    };
    let mut world = World::new(3);
    world.enable_log(100_000);
    let a = world.add_host(from, source(5000, from, to));
    let b = world.add_host(to, source(500, to, from));
    let link = world.connect(a, b, config);
    world.schedule(at(300), move |world| later(world, link));
    world.run_for(Duration::from_secs(60));
    world
}

fn played(config: LinkConfig) -> World {
    changed(config, |_, _| {})
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + ms(millis)
}

fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_second(rate * 1_000_000)
}

/// 20 Mb/s, 10 ms, a queue of 20 packets, and what `change` makes of it.
fn with(change: impl FnOnce(&mut DirectionConfig)) -> LinkConfig {
    let mut forward = DirectionConfig {
        queue: QueueSize::Packets(20),
        ..DirectionConfig::new(mbit(20), ms(10))
    };
    change(&mut forward);
    let backward = DirectionConfig::default();
    LinkConfig { forward, backward }
}

/// What is found after `tamper` had the records of the way forward.
fn judged(world: &World, tamper: impl FnOnce(&mut Vec<PacketRecord>)) -> Vec<Violation> {
    let forward = |record: &&PacketRecord| record.direction == Direction::Forward;
    let positions = world.log().iter().enumerate();
    let positions = positions.filter(|(_, record)| forward(record));
    let positions: Vec<usize> = positions.map(|(position, _)| position).collect();
    let mut records: Vec<PacketRecord> = world.log().iter().filter(forward).copied().collect();
    tamper(&mut records);
    let link = world.links().next().unwrap();
    let way = Way {
        link,
        direction: Direction::Forward,
        records: positions.into_iter().zip(&records).collect(),
        eras: eras(world, link, Direction::Forward),
        stats: world.link_stats(link, Direction::Forward),
        now: world.now(),
        seed: world.seed(),
    };
    let mut report = Audit::default();
    judge(&way, &mut report);
    report.violations
}

/// Tampers with the 30th packet that `pick` picks; some violation has to say `words` of it.
fn blamed(
    world: &World,
    pick: impl Fn(&PacketRecord) -> bool,
    tamper: impl FnOnce(&mut PacketRecord),
    words: &str,
) {
    let honest = audit(world).unwrap().violations;
    assert_eq!(honest, [], "{words}");
    let mut index = None;
    let found = judged(world, |records| {
        let mut picked = records.iter_mut().filter(|record| pick(record));
        let record = picked.nth(29).expect("30 such packets");
        index = Some(record.index);
        tamper(record);
    });
    let told = |v: &Violation| v.index == index && v.what.contains(words);
    assert!(found.iter().any(told), "{words}: {index:?}, {found:?}");
}

fn arrives(record: &PacketRecord) -> bool {
    matches!(record.outcome, Outcome::Arrives(_))
}

fn drops(cause: DropCause) -> impl Fn(&PacketRecord) -> bool {
    move |record| record.outcome == Outcome::Dropped(cause)
}

/// Waited for the one ahead of it.
fn waits(record: &PacketRecord) -> bool {
    let ready = |service: Service| service.start > record.time;
    arrives(record) && record.service.is_some_and(ready)
}

fn later(instant: &mut Instant, nanos: i64) {
    let moved = instant.as_nanos().saturating_add_signed(nanos);
    *instant = Instant::from_nanos(moved);
}

/// Moves the departure and what follows from it.
fn departs(nanos: i64) -> impl Fn(&mut PacketRecord) {
    move |record| {
        if let Some(service) = &mut record.service {
            later(&mut service.departure, nanos);
        }
        arrives_later(nanos)(record);
    }
}

/// Moves everything from the start on.
fn begins(nanos: i64) -> impl Fn(&mut PacketRecord) {
    move |record| {
        if let Some(service) = &mut record.service {
            later(&mut service.start, nanos);
        }
        departs(nanos)(record);
    }
}

fn arrives_later(nanos: i64) -> impl Fn(&mut PacketRecord) {
    move |record| {
        if let Outcome::Arrives(at) = &mut record.outcome {
            later(at, nanos);
        }
    }
}

fn becomes(cause: DropCause) -> impl Fn(&mut PacketRecord) {
    move |record| record.outcome = Outcome::Dropped(cause)
}

fn refused(cause: DropCause) -> impl Fn(&mut PacketRecord) {
    move |record| {
        record.outcome = Outcome::Dropped(cause);
        record.service = None;
    }
}

#[test]
fn named_links_keep_their_promises() {
    for name in links::names() {
        let world = played(links::by_name(name).unwrap());
        assert_eq!(audit(&world).unwrap().violations, [], "{name}");
    }
}

#[test]
fn what_is_not_checked_is_named() {
    let world = played(with(|c| {
        c.loss = LossModel::uniform(0.05);
        c.jitter = Some(Jitter::fifo(ms(3)));
    }));
    let audit = audit(&world).unwrap();
    assert_eq!(audit.violations, []);
    // Nothing of the way back.
    let [unchecked] = audit.unchecked.as_slice() else {
        panic!("{:?}", audit.unchecked);
    };
    assert_eq!(
        unchecked.to_string(),
        "link 0 Forward: loss: which packets it picks; jitter: where within its spread a packet's \
         delay lies"
    );
    assert_eq!(super::audit(&played(with(|_| {}))).unwrap().unchecked, []);
}

#[test]
fn the_order_of_records() {
    let world = played(with(|_| {}));
    blamed(
        &world,
        arrives,
        |r| later(&mut r.time, -1_000_000_000),
        "recorded before",
    );
    let found = judged(&world, |records| {
        records.remove(7);
    });
    assert!(
        found.iter().any(|v| v.what == "7 was expected"),
        "{found:?}"
    );
}

fn curves() -> Vec<LinkConfig> {
    let step = |millis, rate| RateStep {
        at: ms(millis),
        rate: mbit(rate),
    };
    let steps = RateSteps {
        steps: vec![step(0, 30), step(40, 7), step(90, 12)],
        every: Some(ms(130)),
    };
    let wander = RateWander {
        low: mbit(4),
        high: mbit(40),
        every: ms(30),
        ripple: 0.4,
        ripple_every: ms(7),
        turns: None,
    };
    let turns = Turns {
        every: ms(2),
        low: mbit(50),
        high: mbit(90),
    };
    let state = |factor| CodingState { factor, loss: 0.0 };
    let coding = AdaptiveCoding {
        every: ms(5),
        correlation: ms(50),
        states: vec![state(0.2), state(0.5), state(1.0)],
        lag: ms(13),
        lag_loss: 0.0,
    };
    vec![
        with(|_| {}),
        with(|c| c.rate_steps = Some(steps)),
        with(|c| (c.rate, c.rate_wander) = (None, Some(wander))),
        with(|c| {
            c.rate = None;
            c.rate_wander = Some(RateWander {
                turns: Some(turns),
                ..wander
            });
        }),
        with(|c| c.coding = Some(coding)),
        with(|c| c.aqm = Aqm::codel()),
    ]
}

#[test]
fn rates_of_every_kind() {
    for config in curves() {
        let world = played(config);
        let busy = |r: &PacketRecord| arrives(r) && r.service.is_some();
        blamed(&world, busy, departs(-2), "bytes can be");
        blamed(&world, busy, departs(1), "longer than the rate asks");
        blamed(&world, busy, begins(-20), "sent");
        blamed(&world, busy, begins(20), "began to be sent at");
    }
    let endless = played(with(|c| c.rate = None));
    blamed(&endless, arrives, departs(1), "at no rate");
}

#[test]
fn opportunities_of_a_trace() {
    let lines: String = (0..50).map(|i| format!("{}\n", i * 3 / 2 + 1)).collect();
    let world = played(with(|c| {
        c.rate = None;
        c.trace = Some(TraceSource::Inline(lines.into()));
    }));
    blamed(&world, waits, departs(-1_000_000), "its last opportunity");
    blamed(&world, waits, departs(1_000_000), "its last opportunity");
    blamed(&world, waits, begins(-500_000), "could at");
    blamed(&world, waits, begins(500_000), "between two opportunities");
}

#[test]
fn what_holds_the_transmitter() {
    let outage = Outage {
        every: Some(ms(50)),
        mode: OutageMode::Hold,
        ..Outage::once(ms(20), ms(11))
    };
    let handover = Handover {
        every: ms(60),
        gap: ms(9),
        ..Handover::default()
    };
    for (config, period, end) in [
        (with(|c| c.outages = vec![outage]), 50, 31),
        (with(|c| c.handover = Some(handover)), 60, 9),
    ] {
        let world = played(config);
        let first = |r: &PacketRecord| {
            let start = r.service.map_or(0, |s| s.start.as_nanos());
            arrives(r) && start % (period * 1_000_000) == end * 1_000_000
        };
        let some = world.log().iter().filter(|r| first(r)).count();
        assert!(some >= 5, "{some}");
        let mut left = 3;
        let found = judged(&world, |records| {
            let mut picked = records.iter_mut().filter(|r| first(r));
            let record = picked.nth(left).unwrap();
            left = record.index as usize;
            begins(-1000)(record);
        });
        let told = |v: &Violation| v.index == Some(left as u64) && v.what.contains("could at");
        assert!(found.iter().any(told), "{found:?}");
    }
    let silences = Silences {
        interval: ms(20),
        timing: Timing::Random,
        duration: Spread::Fixed { value: ms(3) },
    };
    let world = played(with(|c| c.silences = Some(silences)));
    blamed(&world, waits, departs(-700_000), "bytes can be");
    blamed(&world, waits, begins(-700_000), "sent while the one ahead");
    let grants = Grants {
        frame: ms(1),
        request_delay: Spread::Fixed { value: ms(4) },
        idle_after: ms(1),
        standing: 0,
    };
    let world = played(with(|c| c.grants = Some(grants)));
    let asked = |r: &PacketRecord| {
        arrives(r) && r.queue_bytes == 0 && r.service.is_some_and(|s| s.start >= r.time + ms(4))
    };
    blamed(&world, asked, begins(1), "within a frame");
    blamed(&world, asked, begins(-3_000_000), "of its request");
}

#[test]
fn limits_of_drop_tail_queues() {
    let trace = TraceSource::Inline("1\n2\n3\n".into());
    for (queue, trace) in [
        (QueueSize::Packets(12), None),
        (QueueSize::Bytes(9000), None),
        (QueueSize::Bdp(0.4), None),
        (QueueSize::Bdp(0.5), Some(trace)),
    ] {
        let world = played(with(|c| {
            c.queue = queue;
            if trace.is_some() {
                (c.rate, c.trace) = (None, trace);
            }
        }));
        blamed(
            &world,
            waits,
            refused(DropCause::Queue),
            "turned away while",
        );
        blamed(&world, waits, |r| r.queue_bytes += 1, "bytes waiting");
        let join = |r: &mut PacketRecord| {
            let start = r.time + ms(1);
            let departure = start + ms(1);
            r.service = Some(Service { start, departure });
            r.outcome = Outcome::Arrives(departure + ms(10));
        };
        blamed(&world, drops(DropCause::Queue), join, "joined");
    }
    let world = played(with(|c| c.queue = QueueSize::Packets(0)));
    blamed(&world, arrives, refused(DropCause::Queue), "that was free");
    let world = played(with(|c| c.ecn_threshold = Some(QueueSize::Packets(3))));
    let marked = |r: &PacketRecord| arrives(r) && r.ecn == Ecn::Ce;
    blamed(&world, marked, |r| r.ecn = Ecn::Ect0, "was not marked");
}

#[test]
fn limits_of_managed_queues() {
    for aqm in [Aqm::codel(), Aqm::fq_codel()] {
        let world = played(with(|c| c.aqm = aqm));
        let left = |r: &PacketRecord| r.stage == Stage::Dequeued && arrives(r);
        blamed(&world, left, refused(DropCause::Queue), "with room");
        let soon = |r: &PacketRecord| left(r) && r.queue_bytes == 0;
        blamed(&world, soon, refused(DropCause::Aqm), "given up after");
        blamed(&world, left, |r| r.ip_bytes += 1, "at another size");
        let found = judged(&world, |records| {
            let full = drops(DropCause::Queue);
            let mut full = records.iter_mut().filter(|r| full(r));
            // As if it had stayed.
            let record = full.nth(3).unwrap();
            record.outcome = Outcome::Queued;
        });
        let told = |v: &Violation| v.what.contains("left the queue for the queue");
        assert!(found.iter().any(told), "{found:?}");
        let found = judged(&world, |records| {
            let full = drops(DropCause::Queue);
            let at = records.iter().position(full).unwrap();
            records.remove(at);
        });
        let told = |v: &Violation| v.what.contains("wait; the limit is");
        assert!(found.iter().any(told), "{found:?}");
    }
    let world = played(with(|c| c.aqm = Aqm::codel()));
    let found = judged(&world, |records| {
        let dequeued = |r: &&mut PacketRecord| r.stage == Stage::Dequeued && r.queue_bytes > 0;
        let mut pair = records.iter_mut().filter(dequeued).take(2);
        let (a, b) = (pair.next().unwrap(), pair.next().unwrap());
        std::mem::swap(&mut a.index, &mut b.index);
    });
    let told = |v: &Violation| v.what.contains("before the one ahead of it");
    assert!(found.iter().any(told), "{found:?}");
}

#[test]
fn delays_of_every_kind() {
    let plain = played(with(|_| {}));
    blamed(&plain, arrives, arrives_later(-1), "the least is");
    blamed(&plain, arrives, arrives_later(1), "the most is");
    let jitter = played(with(|c| c.jitter = Some(Jitter::fifo(ms(3)))));
    blamed(&jitter, arrives, arrives_later(-6_100_000), "the least is");
    blamed(&jitter, arrives, arrives_later(400_000_000), "the most is");
    let reordering = Reordering {
        probability: 0.1,
        extra: ms(7),
    };
    let world = played(with(|c| c.reordering = Some(reordering)));
    blamed(&world, arrives, arrives_later(6_000_000), "neither");
    let handover = Handover {
        every: ms(60),
        delay_spread: ms(4),
        ..Handover::default()
    };
    let world = played(with(|c| c.handover = Some(handover)));
    blamed(&world, arrives, arrives_later(1), "others of its slot");
    blamed(&world, arrives, arrives_later(-9_000_000), "the least is");
    blamed(&world, arrives, arrives_later(900_000_000), "the most is");
}

#[test]
fn order_on_the_wire() {
    let world = played(with(|c| c.jitter = Some(Jitter::fifo(ms(3)))));
    // Those that arrive with the one ahead of them had to wait for it.
    let mut ahead = None;
    let found = judged(&world, |records| {
        let mut last = Instant::ZERO;
        for record in records.iter_mut() {
            let Outcome::Arrives(at) = record.outcome else {
                continue;
            };
            if at == last {
                arrives_later(-1)(record);
                ahead = Some(record.index);
                break;
            }
            last = at;
        }
    });
    let told = |v: &Violation| v.index == ahead && v.what.contains("overtook");
    assert!(found.iter().any(told), "{ahead:?} {found:?}");
}

#[test]
fn losses_need_a_reason() {
    let plain = played(with(|_| {}));
    blamed(
        &plain,
        arrives,
        becomes(DropCause::Loss),
        "lost where nothing is",
    );
    blamed(
        &plain,
        arrives,
        refused(DropCause::Loss),
        "without having been sent",
    );
    blamed(
        &plain,
        arrives,
        becomes(DropCause::Outage),
        "there was no outage",
    );
    blamed(
        &plain,
        arrives,
        refused(DropCause::Outage),
        "while the link was up",
    );
    blamed(
        &plain,
        arrives,
        refused(DropCause::Rule),
        "that there is not",
    );
    blamed(
        &plain,
        arrives,
        refused(DropCause::Mtu),
        "dropped at an MTU",
    );
    blamed(&plain, arrives, refused(DropCause::Aqm), "did not reach");
    blamed(
        &plain,
        arrives,
        |r| r.service = None,
        "without having been sent",
    );
    blamed(&plain, arrives, |r| r.copies = 1, "copies");
    blamed(&plain, arrives, |r| r.corrupted = true, "changes nothing");
    let narrow = played(with(|c| c.mtu = 700));
    let found = |r: &mut PacketRecord| r.outcome = Outcome::Queued;
    blamed(&narrow, drops(DropCause::Mtu), found, "passed at an MTU");
    let scripted = played(with(|c| c.drop_packets = vec![100..=140]));
    blamed(
        &scripted,
        drops(DropCause::Rule),
        found,
        "was to be dropped",
    );
    let outage = Outage {
        every: Some(ms(50)),
        ..Outage::once(ms(20), ms(11))
    };
    let cut = played(with(|c| c.outages = vec![outage]));
    let through = |r: &mut PacketRecord| {
        let departure = r.service.map_or(r.time, |s| s.departure);
        r.outcome = Outcome::Arrives(departure + ms(10));
    };
    blamed(&cut, drops(DropCause::Outage), through, "was not swallowed");
    let handover = Handover {
        every: ms(60),
        loss_duration: ms(9),
        ..Handover::default()
    };
    let world = played(with(|c| c.handover = Some(handover)));
    blamed(&world, drops(DropCause::Loss), through, "loses everything");
    let into = |r: &PacketRecord| r.time.as_nanos() % 60_000_000;
    let quiet = |r: &PacketRecord| arrives(r) && (20_000_000..40_000_000).contains(&into(r));
    blamed(
        &world,
        quiet,
        becomes(DropCause::Loss),
        "lost where nothing is",
    );
    let model = LossModel::Uniform {
        probability: 0.3,
        max_burst: Some(1),
    };
    let bursts = played(with(|c| (c.loss, c.rate) = (model, None)));
    let mut before = None;
    let found = judged(&bursts, |records| {
        let lost = drops(DropCause::Loss);
        let at = records.iter().position(lost).unwrap();
        becomes(DropCause::Loss)(&mut records[at + 1]);
        before = Some(records[at + 1].index);
    });
    let told = |v: &Violation| v.index == before && v.what.contains("in a row");
    assert!(found.iter().any(told), "{found:?}");
}

/// Every packet is held against what was in force when it came.
#[test]
fn links_that_are_changed() {
    let world = changed(with(|_| {}), |world, link| {
        let slower = with(|c| {
            (c.rate, c.delay, c.mtu) = (Some(mbit(9)), ms(25), 900);
            c.queue = QueueSize::Bdp(0.5);
        });
        world
            .set_direction(link, Direction::Forward, slower.forward)
            .unwrap();
    });
    let early = |r: &PacketRecord| arrives(r) && r.time < at(300);
    let late = |r: &PacketRecord| arrives(r) && r.time > at(300);
    blamed(
        &world,
        late,
        arrives_later(-15_000_000),
        "the least is 25ms",
    );
    blamed(&world, early, arrives_later(15_000_000), "the most is 10ms");
    blamed(&world, late, departs(-2), "bytes can be");
    blamed(
        &world,
        late,
        |r| r.ip_bytes = 901,
        "passed at an MTU of 900",
    );
    blamed(
        &world,
        waits,
        refused(DropCause::Queue),
        "turned away while",
    );
    let world = changed(with(|_| {}), |world, link| world.set_link_up(link, false));
    let through = |r: &mut PacketRecord| r.outcome = Outcome::Queued;
    blamed(&world, drops(DropCause::Outage), through, "that was cut");
}

/// What a rule said of a packet is not the link's doing, and is not checked.
#[test]
fn rules_are_no_violations() {
    let world = changed(with(|_| {}), |world, link| {
        for (verdict, of) in [
            (Verdict::Delay(ms(40)), 0),
            (Verdict::Duplicate(3), 1),
            (Verdict::Corrupt, 2),
            (Verdict::Drop, 3),
        ] {
            let pick = move |p: &crate::PacketView<'_>| p.index % 29 == of;
            world.add_rule(link, Direction::Forward, rule::apply_when(verdict, pick));
        }
    });
    let audit = audit(&world).unwrap();
    assert_eq!(audit.violations, []);
    assert_eq!(audit.unchecked[0].what, ["what rules did to packets"]);
}

#[test]
fn counters_are_those_of_the_log() {
    let world = played(with(|c| c.loss = LossModel::uniform(0.1)));
    for (tamper, words) in [
        (
            &becomes(DropCause::Loss) as &dyn Fn(&mut PacketRecord),
            " lost in the log",
        ),
        (&|r| r.ip_bytes -= 1, " bytes in the log"),
        (&departs(1), " ns of sending in the log"),
        (&|r| r.time += ms(1), " ns of waiting"),
        (&|r| r.copies += 1, " copies in the log"),
        (&|r| r.corrupted = true, " changed in the log"),
    ] {
        let found = judged(&world, |records| {
            tamper(records.iter_mut().filter(|r| arrives(r)).nth(40).unwrap());
        });
        let told = |v: &Violation| v.index.is_none() && v.what.contains(words);
        assert!(found.iter().any(told), "{words}: {found:?}");
    }
}
