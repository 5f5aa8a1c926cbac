use std::collections::VecDeque;

use proptest::prelude::*;
use tautline_transport::{congestion::ControllerContext, rng::Rng};

use super::{
    super::{
        growth::FixedFactory,
        receive::{AckRule, Receiver},
        segment::Blocks,
    },
    *,
};
use tautline_transport::congestion::{ControllerFactory, registry};

const MOST: usize = 1000;
const FULL: u64 = (MOST + HEADER_BYTES) as u64;
const RTT: u64 = 100;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn context(initial: u64) -> ControllerContext {
    ControllerContext::new(
        at(0),
        FULL,
        initial * FULL,
        Duration::from_secs(1),
        Rng::from_u64(1),
    )
}

/// A sender whose window is 10 segments and stays so until the first acknowledgement.
fn sender(name: &str) -> Sender {
    let controller = registry::by_name(name).unwrap().build(context(10));
    let initial = Duration::from_secs(1);
    Sender::new(at(0), MOST, 1 << 20, initial, controller, false)
}

/// So many bytes.
struct Bulk(usize);

impl Source for Bulk {
    fn available(&mut self, most: usize) -> usize {
        self.0.min(most)
    }

    fn take(&mut self, most: usize) -> Bytes {
        let taken = self.0.min(most);
        self.0 -= taken;
        vec![7; taken].into()
    }
}

fn send_all(sender: &mut Sender, now: Instant, source: &mut Bulk) -> Vec<u64> {
    std::iter::from_fn(|| sender.poll(now, source))
        .map(|(start, _)| start)
        .collect()
}

fn ack(echo: Instant, ack: u64, blocks: &[(u64, u64)]) -> Segment {
    let mut told = Blocks::default();
    for (start, end) in blocks {
        told.push(*start, *end);
    }
    Segment {
        ack: Some(ack as u32),
        window: 1 << 20,
        echo: stamp(echo),
        blocks: told,
        ..Segment::default()
    }
}

#[test]
fn the_initial_window_leaves_and_acknowledgements_let_more_go() {
    let mut sender = sender("newreno");
    let mut source = Bulk(1 << 20);
    assert_eq!(send_all(&mut sender, at(0), &mut source).len(), 10);
    assert_eq!(sender.in_flight(), 10 * FULL);
    sender.on_ack(at(RTT), &ack(at(0), 2000, &[]));
    assert_eq!(sender.rtt().unwrap().latest, Duration::from_millis(RTT));
    // Slow start: two for each.
    assert_eq!(send_all(&mut sender, at(RTT), &mut source).len(), 4);
}

#[test]
fn three_beyond_a_hole_repair_it_at_once() {
    let mut sender = sender("newreno");
    let mut source = Bulk(1 << 20);
    send_all(&mut sender, at(0), &mut source);
    for end in [2000, 3000] {
        sender.on_ack(at(RTT), &ack(at(0), 0, &[(1000, end)]));
        let sent = send_all(&mut sender, at(RTT), &mut source);
        assert!(!sent.contains(&0), "{sent:?}");
    }
    sender.on_ack(at(RTT), &ack(at(0), 0, &[(1000, 4000)]));
    assert_eq!(sender.counters.lost, 1);
    // The window is halved; the repair still goes as soon as it fits.
    sender.on_ack(at(RTT), &ack(at(0), 0, &[(1000, 10_000)]));
    assert_eq!(
        send_all(&mut sender, at(RTT), &mut source).first(),
        Some(&0)
    );
    let later = at(2 * RTT);
    sender.on_ack(later, &ack(at(RTT), 10_000, &[]));
    assert_eq!((sender.una(), sender.counters.spurious), (10_000, 0));
}

#[test]
fn fewer_are_waited_for_and_a_late_one_is_no_loss() {
    let mut sender = sender("newreno");
    let mut source = Bulk(3000);
    send_all(&mut sender, at(0), &mut source);
    sender.on_ack(at(RTT), &ack(at(0), 0, &[(1000, 2000)]));
    // A quarter of the RTT for what may only be late.
    assert_eq!(sender.timeout(), Some(at(RTT + RTT / 4)));
    sender.on_ack(at(RTT + 20), &ack(at(0), 2000, &[]));
    assert_eq!((sender.counters.lost, sender.una()), (0, 2000));
}

#[test]
fn a_repetition_that_is_lost_is_repeated_again() {
    let mut sender = sender("newreno");
    let mut source = Bulk(1 << 20);
    send_all(&mut sender, at(0), &mut source);
    sender.on_ack(at(RTT), &ack(at(0), 0, &[(1000, 10_000)]));
    assert_eq!(send_all(&mut sender, at(RTT), &mut source)[0], 0);
    // What left after the repetition arrives; the repetition does not.
    let beyond = 10_000 + 4 * 1000;
    let now = at(2 * RTT + 1);
    sender.on_ack(now, &ack(at(RTT), 0, &[(1000, beyond)]));
    assert_eq!(sender.counters.lost, 2);
    assert_eq!(send_all(&mut sender, now, &mut source)[0], 0);
}

#[test]
fn a_stamp_tells_a_repetition_from_the_first_transmission() {
    let mut sender = sender("newreno");
    let mut source = Bulk(1 << 20);
    send_all(&mut sender, at(0), &mut source);
    sender.on_ack(at(RTT), &ack(at(0), 0, &[(1000, 10_000)]));
    let reduced = sender.window();
    assert_eq!(send_all(&mut sender, at(RTT), &mut source)[0], 0);
    // The first transmission was only late.
    sender.on_ack(at(RTT + 5), &ack(at(0), 10_000, &[]));
    assert_eq!(sender.counters.spurious, 1);
    assert!(sender.window() > reduced, "{}", sender.window());
}

#[test]
fn a_silent_tail_is_probed_then_times_out() {
    let mut sender = sender("newreno");
    let mut source = Bulk(5000);
    send_all(&mut sender, at(0), &mut source);
    sender.on_ack(at(RTT), &ack(at(0), 2000, &[]));
    // Two smoothed round trips after the last transmission.
    let probe = sender.timeout().unwrap();
    assert_eq!(probe, at(200));
    sender.on_timeout(probe);
    assert_eq!(send_all(&mut sender, probe, &mut source), [4000]);
    assert_eq!(sender.counters.lost, 0);
    // 100 ms and four times 50 ms of variation.
    let timeout = sender.timeout().unwrap();
    assert_eq!(timeout, probe + Duration::from_millis(300));
    sender.on_timeout(timeout);
    assert_eq!(sender.counters.lost, 3);
    assert_eq!(sender.window(), 2 * FULL);
    assert_eq!(send_all(&mut sender, timeout, &mut source), [2000, 3000]);
    // Backed off.
    assert_eq!(sender.timeout(), Some(timeout + Duration::from_millis(600)));
    let now = timeout + Duration::from_millis(RTT);
    sender.on_ack(now, &ack(timeout, 5000, &[]));
    assert_eq!((sender.una(), sender.timeout()), (5000, None));
}

#[test]
fn a_probe_that_was_not_needed_is_no_loss() {
    let mut sender = sender("newreno");
    let mut source = Bulk(3000);
    send_all(&mut sender, at(0), &mut source);
    sender.on_ack(at(RTT), &ack(at(0), 1000, &[]));
    let probe = sender.timeout().unwrap();
    sender.on_timeout(probe);
    assert_eq!(send_all(&mut sender, probe, &mut source), [2000]);
    sender.on_ack(probe + Duration::from_millis(1), &ack(at(0), 3000, &[]));
    assert_eq!((sender.counters.lost, sender.counters.spurious), (0, 0));
    assert_eq!(sender.in_flight(), 0);
}

#[test]
fn a_shut_window_is_asked_again_and_again() {
    let mut sender = sender("newreno");
    let mut source = Bulk(10_000);
    let mut told = ack(at(0), 0, &[]);
    assert_eq!(send_all(&mut sender, at(0), &mut Bulk(1000)), [0]);
    told.ack = Some(1000);
    told.window = 0;
    // What the peer said at first holds.
    sender.edge = 1000;
    sender.on_ack(at(RTT), &told);
    assert_eq!(send_all(&mut sender, at(RTT), &mut source), [0; 0]);
    let mut now = at(RTT);
    let mut asked = 0;
    for _ in 0..5 {
        now = sender.timeout().unwrap();
        sender.on_timeout(now);
        asked += send_all(&mut sender, now, &mut source).len();
        // Asked more and more seldom; the answer is that it is still shut.
        sender.on_ack(now, &told);
    }
    assert_eq!(asked, 5);
    assert!(now > at(5_000), "{now:?}");
    told.window = 5000;
    told.ack = Some(2000);
    sender.on_ack(now, &told);
    let sent = send_all(&mut sender, now, &mut source);
    assert!(sent.starts_with(&[2000]), "{sent:?}");
}

#[test]
fn what_was_never_sent_cannot_be_acknowledged() {
    let mut sender = sender("cubic");
    send_all(&mut sender, at(0), &mut Bulk(3000));
    sender.on_ack(at(RTT), &ack(at(0), 3001, &[]));
    sender.on_ack(at(RTT), &ack(at(0), u64::from(u32::MAX), &[]));
    assert_eq!((sender.una(), sender.rtt().is_none()), (0, true));
}

/// What happens to a packet on its way.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Passes,
    Lost,
    Twice,
    Late(u64),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Passes),
        2 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
        1 => (1u64..300).prop_map(Fate::Late),
    ]
}

/// Packets under way, by arrival.
#[derive(Default)]
struct Wire(VecDeque<(Instant, Segment)>);

impl Wire {
    fn put(&mut self, now: Instant, segment: Segment, fate: Fate) {
        let half = Duration::from_millis(RTT / 2);
        let (copies, extra) = match fate {
            Fate::Passes => (1, 0),
            Fate::Lost => (0, 0),
            Fate::Twice => (2, 0),
            Fate::Late(millis) => (1, millis),
        };
        for _ in 0..copies {
            let arrives = now + half + Duration::from_millis(extra);
            let place = self.0.partition_point(|(at, _)| *at <= arrives);
            self.0.insert(place, (arrives, segment.clone()));
        }
    }

    fn next(&self) -> Option<Instant> {
        self.0.front().map(|(at, _)| *at)
    }

    fn take(&mut self, now: Instant) -> Option<Segment> {
        self.next().filter(|at| *at <= now)?;
        self.0.pop_front().map(|(_, segment)| segment)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is lost, late or doubled both ways, all of it arrives, in bounded time, and
    /// nothing is left over.
    #[test]
    fn everything_arrives(
        bytes in 1usize..60_000,
        fates in proptest::collection::vec(fate(), 1..200),
        fixed: bool,
        paced: bool,
        aggregated: bool,
    ) {
        let controller = if fixed {
            FixedFactory { rate: Rate::from_bytes_per_second(1_000_000) }.build(context(10))
        } else {
            registry::by_name("cubic").unwrap().build(context(10))
        };
        let buffer = 20_000;
        let mut sender = Sender::new(at(0), MOST, buffer, Duration::from_secs(1), controller, paced);
        let delay = Duration::from_millis(40);
        let rule = if aggregated { AckRule::aggregated(delay) } else { AckRule::standard(delay) };
        let mut receiver = Receiver::new(buffer, rule);
        let mut source = Bulk(bytes);
        let (mut there, mut back) = (Wire::default(), Wire::default());
        let mut now = at(0);
        let mut got = 0;
        // Faults end some time.
        let mut fates = fates.into_iter().chain(std::iter::repeat(Fate::Passes));
        for _ in 0..20_000 {
            while let Some(segment) = there.take(now) {
                receiver.on_data(now, &segment);
                while let Some(data) = receiver.take() {
                    got += data.len();
                    receiver.hold(now, 0);
                }
            }
            while let Some(segment) = back.take(now) {
                sender.on_ack(now, &segment);
            }
            if sender.timeout().is_some_and(|at| at <= now) {
                sender.on_timeout(now);
            }
            while let Some((start, data)) = sender.poll(now, &mut source) {
                let segment = Segment { seq: start as u32, data, stamp: stamp(now), ..Segment::default() };
                there.put(now, segment, fates.next().unwrap());
            }
            if receiver.due().is_some_and(|at| at <= now) {
                let mut segment = Segment::default();
                receiver.acknowledge(&mut segment);
                back.put(now, segment, fates.next().unwrap());
            }
            let own = earliest(sender.timeout(), receiver.due());
            match earliest(own, earliest(there.next(), back.next())) {
                Some(next) => now = now.max(next),
                None => break,
            }
        }
        prop_assert_eq!((got, source.0), (bytes, 0));
        prop_assert_eq!((sender.outstanding(), sender.in_flight()), (0, 0));
        prop_assert_eq!(sender.timeout(), None);
        prop_assert!(now < at(400_000), "{:?}", now);
    }
}
