//! Ranges against a naive set, the ring against a naive map, and the rules of numbering.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::prelude::*;

use super::{ranges::Ranges, *};
use crate::{
    ack::registry,
    packet::Token,
    rng::Rng,
    units::{Dir, Ecn, StreamId},
};

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn limits(ranges: usize, sent: usize) -> Limits {
    Limits {
        received_ranges: ranges,
        sent_packets: sent,
        ..Limits::default()
    }
}

// -- Received ranges --

fn inserted(numbers: &[u64], max: usize) -> Ranges {
    let mut ranges = Ranges::new(max);
    for &number in numbers {
        ranges.insert(number);
    }
    ranges
}

#[test]
fn ranges_merge_on_both_sides() {
    let ranges = inserted(&[5, 1, 3, 2, 9, 4], 8);
    assert_eq!(ranges.iter().collect::<Vec<_>>(), [9..=9, 1..=5]);
    assert_eq!(ranges.largest(), Some(9));
    assert!(ranges.contains(3) && !ranges.contains(6) && !ranges.contains(0));
}

#[test]
fn forgotten_ranges_count_as_seen() {
    let mut ranges = inserted(&[1, 3, 5, 7], 2);
    assert_eq!(ranges.iter().collect::<Vec<_>>(), [7..=7, 5..=5]);
    assert_eq!(ranges.floor(), 4);
    assert!(ranges.contains(0) && ranges.contains(2) && !ranges.contains(4));
    assert!(!ranges.insert(2), "must not come back as new");
}

#[test]
fn a_late_number_below_a_full_set_is_forgotten_again() {
    let mut ranges = inserted(&[10, 12], 2);
    assert!(ranges.insert(5), "new, though not kept");
    assert_eq!(ranges.iter().collect::<Vec<_>>(), [12..=12, 10..=10]);
    assert!(ranges.contains(5));
}

#[test]
fn forgetting_keeps_the_largest() {
    let mut ranges = inserted(&[1, 2, 3, 7, 8], 8);
    ranges.forget_up_to(2);
    assert_eq!(ranges.iter().collect::<Vec<_>>(), [7..=8, 3..=3]);
    ranges.forget_up_to(100);
    assert_eq!(ranges.iter().collect::<Vec<_>>(), [8..=8]);
    assert!(ranges.contains(6), "below the floor");
    assert!(!ranges.contains(9));
}

#[test]
fn smallest_missing() {
    let ranges = inserted(&[0, 1, 4, 5, 9], 8);
    assert_eq!(ranges.smallest_missing_above(None), Some(2));
    assert_eq!(ranges.smallest_missing_above(Some(2)), Some(3));
    assert_eq!(ranges.smallest_missing_above(Some(3)), Some(6));
    assert_eq!(ranges.smallest_missing_above(Some(8)), None);
    assert_eq!(ranges.smallest_missing_above(Some(50)), None);
    assert_eq!(inserted(&[2], 8).smallest_missing_above(None), Some(0));
    assert_eq!(inserted(&[], 8).smallest_missing_above(None), None);
}

proptest! {
    #[test]
    fn ranges_match_a_naive_set(
        steps in proptest::collection::vec((0_u64..120, 0_u8..8), 1..200),
        max in 1_usize..12,
    ) {
        let mut ranges = Ranges::new(max);
        let mut naive = BTreeSet::new();
        for (number, what) in steps {
            if what == 0 {
                ranges.forget_up_to(number);
            } else {
                let expected = number >= ranges.floor() && !naive.contains(&number);
                prop_assert_eq!(ranges.insert(number), expected);
                naive.insert(number);
            }
            prop_assert!(ranges.len() <= max);
            let kept: Vec<_> = ranges.iter().collect();
            // Descending, disjoint, not adjacent.
            for pair in kept.windows(2) {
                prop_assert!(pair[1].end() + 1 < *pair[0].start());
            }
            let floor = ranges.floor();
            let listed: BTreeSet<_> = kept.into_iter().flatten().collect();
            let expected: BTreeSet<_> = naive.range(floor..).copied().collect();
            prop_assert_eq!(&listed, &expected);
            for number in 0..125 {
                prop_assert_eq!(
                    ranges.contains(number),
                    number < floor || naive.contains(&number)
                );
                let largest = ranges.largest().unwrap_or(0);
                let missing = (number + 1..largest)
                    .find(|n| *n >= floor && !expected.contains(n));
                prop_assert_eq!(ranges.smallest_missing_above(Some(number)), missing);
            }
        }
    }
}

// -- Received packets --

fn receive(received: &mut ReceivedPackets, number: u64, now: Instant, ecn: Ecn) {
    let mut policy = registry::default_factory().build(Duration::from_millis(25));
    let rtt = Duration::from_millis(50);
    received.on_received(
        number,
        now,
        true,
        ecn,
        false,
        false,
        Some(policy.as_mut()),
        true,
        rtt,
    );
}

#[test]
fn an_ack_is_owed_by_the_deadline_of_the_first_packet() {
    let mut received = ReceivedPackets::new(&limits(256, 64));
    assert_eq!(received.ack_deadline(), None);
    assert!(!received.has_unreported());
    receive(&mut received, 0, at(10), Ecn::NotEct);
    assert_eq!(received.ack_deadline(), Some(at(35)));
    assert!(received.has_unreported());
    assert!(!received.ack_due(at(34)) && received.ack_due(at(35)));
    received.on_timeout(at(34));
    assert_eq!(received.ack_deadline(), Some(at(35)));
    receive(&mut received, 1, at(12), Ecn::NotEct);
    assert!(received.ack_due(at(12)), "every second packet");
    received.ack_was_sent(at(12));
    assert!(!received.ack_due(at(1_000)));
    assert_eq!(received.ack_deadline(), None);
}

#[test]
fn handshake_spaces_acknowledge_at_once() {
    let mut received = ReceivedPackets::new(&limits(256, 64));
    let rtt = Duration::from_millis(50);
    received.on_received(0, at(1), false, Ecn::NotEct, false, false, None, false, rtt);
    assert!(!received.ack_due(at(1)), "nothing that asks for one");
    received.on_received(1, at(1), true, Ecn::NotEct, false, false, None, false, rtt);
    assert!(received.ack_due(at(1)));
}

#[test]
fn marks_are_counted_once_per_packet() {
    let mut received = ReceivedPackets::new(&limits(256, 64));
    for (number, ecn) in [(0, Ecn::Ect0), (1, Ecn::Ce), (2, Ecn::Ect1), (2, Ecn::Ect1)] {
        receive(&mut received, number, at(1), ecn);
    }
    let counts = received.ecn_counts();
    assert_eq!((counts.ect0, counts.ect1, counts.ce), (1, 1, 1));
}

#[test]
fn duplicates_are_known_even_after_their_ack_was_acknowledged() {
    let mut received = ReceivedPackets::new(&limits(256, 64));
    for number in 0..10 {
        receive(&mut received, number, at(1), Ecn::NotEct);
    }
    received.ack_was_sent(at(1));
    received.on_ack_acked(7);
    assert_eq!(received.ranges().collect::<Vec<_>>(), [8..=9]);
    assert!((0..10).all(|number| received.is_duplicate(number)));
    assert!(!received.is_duplicate(10));
}

// -- Numbers --

#[test]
fn numbers_ascend_and_leave_some_out() {
    let mut space = PacketNumberSpace::new(&limits(256, 64), true);
    let mut rng = Rng::from_u64(7);
    let mut taken = BTreeSet::new();
    for _ in 0..20_000 {
        let peeked = space.peek_packet_number();
        let number = space.take_packet_number(&mut rng);
        assert_eq!(peeked, number);
        assert!(
            taken
                .last()
                .is_none_or(|&last| last < number && number <= last + 2)
        );
        taken.insert(number);
    }
    let skipped: Vec<_> = (0..*taken.last().unwrap())
        .filter(|n| !taken.contains(n))
        .collect();
    assert!(
        (8..80).contains(&skipped.len()),
        "{} numbers left out",
        skipped.len()
    );
    assert!(skipped[0] <= 65, "the first soon");
    let newest = *skipped.last().unwrap();
    assert_eq!(space.numbers().last_skipped(), Some(newest));
    let numbers = space.numbers();
    assert!(numbers.covers_skipped([newest..=newest].into_iter()));
    assert!(numbers.covers_skipped([newest + 5..=newest + 9, newest - 2..=newest + 1].into_iter()));
    assert!(!numbers.covers_skipped([newest + 1..=newest + 9].into_iter()));
    let between = [newest + 1..=newest + 1, newest - 1..=newest - 1].into_iter();
    assert!(!numbers.covers_skipped(between));
}

#[test]
fn handshake_spaces_leave_none_out() {
    let mut space = PacketNumberSpace::new(&limits(256, 64), false);
    let mut rng = Rng::from_u64(7);
    assert!((0..10_000).all(|number| space.take_packet_number(&mut rng) == number));
}

// -- The ring of sent packets --

fn sent(eliciting: bool) -> SentPacket {
    let snapshot = SendSnapshot {
        delivered: 0,
        delivered_time: Instant::ZERO,
        first_sent: Instant::ZERO,
        tx_in_flight: 0,
        lost: 0,
    };
    let mut packet = SentPacket::new(at(1), 1_200, snapshot);
    packet.ack_eliciting = eliciting;
    packet.in_flight = eliciting;
    packet
}

fn token(number: u64) -> Token {
    Token::MaxStreamData(StreamId::new(crate::units::Side::Client, Dir::Bi, number))
}

fn push(ring: &mut SentPackets, number: u64, tokens: usize) -> Option<SentPacket> {
    let mut tokens = vec![token(number); tokens];
    let evicted = ring.push(number, sent(true), &mut tokens);
    assert!(tokens.is_empty());
    evicted.map(|(_, packet)| packet)
}

fn acked(ring: &mut SentPackets, first: u64, last: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    ring.ack_range(first, last, |number, _, tokens| {
        tokens.for_each(|t| assert_eq!(t, token(number)));
        seen.push(number);
    });
    seen
}

#[test]
fn a_sent_packet_takes_one_cache_line() {
    assert_eq!(std::mem::size_of::<SentPacket>(), 64);
    assert!(std::mem::size_of::<Token>() <= 24);
}

#[test]
fn an_ack_visits_new_packets_once_newest_first() {
    let mut ring = SentPackets::new(1_000);
    for number in 0..10 {
        push(&mut ring, number, 2);
    }
    assert_eq!(acked(&mut ring, 2, 4), [4, 3, 2]);
    assert_eq!(acked(&mut ring, 0, 6), [6, 5, 1, 0]);
    assert_eq!(acked(&mut ring, 0, 9), [9, 8, 7]);
    assert!(acked(&mut ring, 0, 9).is_empty());
    assert_eq!(ring.eliciting_outstanding(), 0);
    ring.prune(Instant::ZERO);
    assert_eq!((ring.base(), ring.end()), (10, 10));
}

#[test]
fn a_gap_in_the_numbers_holds_no_packet() {
    let mut ring = SentPackets::new(1_000);
    push(&mut ring, 5, 1);
    push(&mut ring, 8, 1);
    assert_eq!((ring.base(), ring.end()), (5, 9));
    assert_eq!(acked(&mut ring, 0, 100), [8, 5]);
}

#[test]
fn lost_packets_are_remembered_until_told() {
    let mut ring = SentPackets::new(1_000);
    push(&mut ring, 0, 1);
    push(&mut ring, 1, 1);
    ring.lose(0, Fate::LostByTime, at(50), |_, tokens| {
        assert_eq!(tokens.count(), 1)
    });
    ring.lose(0, Fate::LostByTime, at(60), |_, _| panic!("lost twice"));
    assert_eq!(ring.eliciting_outstanding(), 1);
    assert_eq!(acked(&mut ring, 1, 1), [1]);
    ring.prune(at(49));
    assert_eq!(ring.base(), 0);
    ring.prune(at(50));
    assert_eq!(ring.base(), 2);
}

#[test]
fn a_full_ring_makes_room_and_tells() {
    let mut ring = SentPackets::new(16);
    for number in 0..16 {
        assert!(push(&mut ring, number, 1).is_none());
    }
    assert!(ring.is_full());
    let evicted = push(&mut ring, 16, 1).expect("the oldest was outstanding");
    assert!(evicted.in_flight);
    assert_eq!(ring.take_orphans(), [token(0)]);
    assert_eq!(ring.eliciting_outstanding(), 16);
    assert_eq!(acked(&mut ring, 0, 3), [3, 2, 1]);
}

#[test]
fn ack_only_packets_do_not_pile_up() {
    let mut ring = SentPackets::new(1 << 20);
    for number in 0..100_000 {
        ring.push(number, sent(false), &mut vec![token(number)]);
    }
    assert!(ring.end() - ring.base() < 100);
}

/// What the peer is to acknowledge stays, in flight or not: a probe timeout waits for it.
#[test]
fn what_left_the_window_is_still_waited_for() {
    let mut ring = SentPackets::new(1 << 20);
    for number in 0..100 {
        let mut packet = sent(true);
        packet.in_flight = false;
        ring.push(number, packet, &mut vec![token(number)]);
    }
    assert_eq!(ring.eliciting_outstanding(), 100);
    assert_eq!(acked(&mut ring, 0, 99).len(), 100);
    assert_eq!(ring.eliciting_outstanding(), 0);
}

/// The oldest packet that is waited for: passed over are ACK-only, acknowledged and lost ones.
#[test]
fn the_oldest_that_is_waited_for_is_found_at_once() {
    let mut ring = SentPackets::new(16);
    let oldest = |ring: &SentPackets| ring.oldest_waiting().map(SentPacket::sent);
    for number in 0..20 {
        let mut packet = sent(number != 6);
        packet.sent = at(number);
        ring.push(number, packet, &mut Vec::new());
    }
    assert_eq!(oldest(&ring), Some(at(4)), "the first had to make room");
    ring.lose(4, Fate::LostByTime, at(50), |_, _| ());
    assert_eq!(oldest(&ring), Some(at(5)));
    acked(&mut ring, 5, 5);
    assert_eq!(oldest(&ring), Some(at(7)));
    ring.prune(Instant::ZERO);
    acked(&mut ring, 7, 19);
    assert_eq!(oldest(&ring), None);
    ring.clear();
    ring.push(40, sent(true), &mut Vec::new());
    assert!(oldest(&ring).is_some());
}

#[test]
fn memory_shrinks_when_idle_and_starts_at_nothing() {
    let mut ring = SentPackets::new(1 << 20);
    assert_eq!(ring.capacity(), 0);
    for number in 0..10_000 {
        push(&mut ring, number, 1);
    }
    assert!(ring.capacity() >= 10_000);
    acked(&mut ring, 0, 9_995);
    ring.prune(Instant::ZERO);
    assert!(ring.capacity() <= 5_000);
    acked(&mut ring, 0, 10_000);
    ring.prune(Instant::ZERO);
    assert!(ring.capacity() <= 16);
}

/// Repeating old ranges costs a step a range, not a step a packet.
#[test]
fn repeated_ranges_are_cheap() {
    let mut ring = SentPackets::new(1 << 20);
    // The front stays outstanding, so nothing is pruned.
    for number in 0..200_000 {
        push(&mut ring, number, 0);
        if number > 0 {
            assert_eq!(acked(&mut ring, 1, number), [number]);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push { gap: u64, tokens: usize },
    Ack { first: u64, last: u64 },
    Lose(u64),
    Prune(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u64..3, 0_usize..4).prop_map(|(gap, tokens)| Step::Push { gap, tokens }),
        3 => (0_u64..200, 0_u64..40)
            .prop_map(|(first, len)| Step::Ack { first, last: first + len }),
        1 => (0_u64..200).prop_map(Step::Lose),
        1 => (0_u64..300).prop_map(Step::Prune),
    ];
    proptest::collection::vec(step, 1..300)
}

#[derive(Clone, Copy, PartialEq)]
enum Model {
    Out(usize),
    Lost(usize, u64),
}

proptest! {
    #[test]
    fn the_ring_matches_a_naive_map(steps in steps()) {
        let mut ring = SentPackets::new(1 << 20);
        // Packets neither acknowledged nor forgotten; `settled`: pushed and acknowledged.
        let mut model: BTreeMap<u64, Model> = BTreeMap::new();
        let mut next = 0_u64;
        for (time, step) in (1_u64..).zip(steps) {
            match step {
                Step::Push { gap, tokens } => {
                    next += gap;
                    let mut packet = sent(true);
                    packet.sent = at(next);
                    ring.push(next, packet, &mut vec![token(next); tokens]);
                    model.insert(next, Model::Out(tokens));
                    next += 1;
                }
                Step::Ack { first, last } => {
                    let expected: Vec<_> =
                        model.range(first..=last).rev().map(|(&n, &m)| (n, m)).collect();
                    let mut seen = Vec::new();
                    ring.ack_range(first, last, |number, packet, tokens| {
                        let count = tokens.filter(|t| *t == token(number)).count();
                        seen.push((number, count, packet.is_lost()));
                    });
                    let expected: Vec<_> = expected
                        .into_iter()
                        .map(|(number, model)| match model {
                            Model::Out(count) => (number, count, false),
                            Model::Lost(count, _) => (number, count, true),
                        })
                        .collect();
                    prop_assert_eq!(&seen, &expected);
                    for (number, ..) in seen {
                        model.remove(&number);
                    }
                }
                Step::Lose(number) => {
                    let mut seen = None;
                    ring.lose(number, Fate::LostByThreshold, at(time), |_, tokens| {
                        seen = Some(tokens.filter(|t| *t == token(number)).count());
                    });
                    let expected = match model.get(&number) {
                        Some(&Model::Out(count)) => Some(count),
                        _ => None,
                    };
                    prop_assert_eq!(seen, expected);
                    if let Some(count) = expected {
                        model.insert(number, Model::Lost(count, time));
                    }
                }
                Step::Prune(before) => {
                    ring.prune(at(before));
                    while let Some((&number, &Model::Lost(_, lost_at))) = model.first_key_value() {
                        if lost_at > before {
                            break;
                        }
                        model.remove(&number);
                    }
                }
            }
            let out: Vec<_> = ring.outstanding().map(|(number, _)| number).collect();
            let expected: Vec<_> = model
                .iter()
                .filter(|(_, m)| matches!(m, Model::Out(_)))
                .map(|(&number, _)| number)
                .collect();
            prop_assert_eq!(ring.eliciting_outstanding(), expected.len());
            let oldest = ring.oldest_waiting().map(SentPacket::sent);
            prop_assert_eq!(oldest, expected.first().map(|&number| at(number)));
            prop_assert_eq!(out, expected);
            if ring.end() > ring.base() {
                prop_assert_eq!(ring.end(), next);
            }
        }
    }
}

#[test]
fn what_was_repeated_is_not_looked_at_again() {
    let mut ring = SentPackets::new(64);
    for number in 0..20 {
        let mut packet = sent(true);
        packet.sent = at(number);
        ring.push(number, packet, &mut vec![token(number)]);
    }
    let after = |ms| move |packet: &SentPacket| packet.sent() <= at(ms);
    assert_eq!(ring.first_to_repeat(|_| false), 0);
    assert_eq!(ring.first_to_repeat(after(4)), 5);
    ring.note_repeated(5..8);
    assert_eq!(ring.first_to_repeat(after(4)), 8);
    assert_eq!(ring.first_to_repeat(after(6)), 8);
    // What follows on them makes one range with them, what does not begins another.
    ring.note_repeated(8..10);
    assert_eq!(ring.first_to_repeat(after(4)), 10);
    assert_eq!(ring.first_to_repeat(|_| false), 0);
    ring.note_repeated(0..2);
    assert_eq!(ring.first_to_repeat(|_| false), 2);
    assert_eq!(ring.first_to_repeat(after(4)), 5);
    let rest = |ring: &mut SentPackets, first| {
        let rest = ring.outstanding_mut(first).map(|(number, ..)| number);
        rest.collect::<Vec<_>>()
    };
    acked(&mut ring, 0, 16);
    assert_eq!(rest(&mut ring, 0), [17, 18, 19]);
    assert_eq!(rest(&mut ring, 18), [18, 19]);
    assert!(rest(&mut ring, 20).is_empty() && rest(&mut ring, 90).is_empty());
    ring.prune(at(30));
    assert_eq!((ring.base(), rest(&mut ring, 0)), (17, vec![17, 18, 19]));
    assert_eq!(ring.first_to_repeat(|_| false), 17);
}
