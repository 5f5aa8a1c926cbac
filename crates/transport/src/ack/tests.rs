//! The policies against the rules they come from.

use std::time::Duration;

use super::*;
use crate::{config::Limits, space::ReceivedPackets};

const MAX_DELAY: Duration = Duration::from_millis(25);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn standard() -> Box<dyn AckPolicy> {
    registry::default_factory().build(MAX_DELAY)
}

fn asked(threshold: u64, reordering: u64) -> Box<dyn AckPolicy> {
    let mut policy = standard();
    policy.on_request(AckRequest {
        ack_eliciting_threshold: threshold,
        max_ack_delay: Duration::from_millis(100),
        reordering_threshold: reordering,
    });
    policy
}

#[test]
fn names_and_factories_agree() {
    for name in registry::names() {
        let factory = registry::by_name(name).expect("registered");
        assert_eq!(factory.name(), name);
        let policy = factory.build(MAX_DELAY);
        assert_eq!(policy.name(), name);
        assert_eq!(policy.max_ack_delay(), MAX_DELAY);
        assert_eq!(policy.reordering_threshold(), 1);
    }
    assert!(registry::by_name("nonsense").is_none());
    assert_eq!(registry::default_factory().name(), "standard");
}

#[test]
fn every_second_packet_at_once_the_first_delayed() {
    let mut policy = standard();
    let first = policy.on_packet(&ReceivedView::in_order(at(10), 1, 1));
    assert_eq!(first, AckDecision::By(at(35)));
    let second = policy.on_packet(&ReceivedView::in_order(at(11), 2, 2));
    assert_eq!(second, AckDecision::Now);
}

#[test]
fn a_packet_that_asks_for_nothing_gets_nothing() {
    let mut policy = standard();
    let mut view = ReceivedView::in_order(at(0), 7, 5);
    view.ack_eliciting = false;
    view.immediate_requested = true;
    view.ecn = Ecn::Ce;
    view.smallest_unreported_missing = Some(1);
    assert_eq!(policy.on_packet(&view), AckDecision::Hold);
}

#[test]
fn immediate_ack_and_unconfirmed_handshake_hurry() {
    for name in registry::names() {
        let mut policy = registry::by_name(name)
            .expect("registered")
            .build(MAX_DELAY);
        let mut view = ReceivedView::in_order(at(0), 7, 1);
        view.immediate_requested = true;
        assert_eq!(policy.on_packet(&view), AckDecision::Now);
        view.immediate_requested = false;
        view.handshake_confirmed = false;
        assert_eq!(policy.on_packet(&view), AckDecision::Now);
    }
}

#[test]
fn late_packets_and_new_gaps_hurry_by_default() {
    let mut policy = standard();
    let mut late = ReceivedView::in_order(at(0), 5, 1);
    late.largest_before = Some(6);
    assert_eq!(policy.on_packet(&late), AckDecision::Now);
    let mut gap = ReceivedView::in_order(at(0), 9, 1);
    gap.largest_before = Some(6);
    gap.smallest_unreported_missing = Some(7);
    assert_eq!(policy.on_packet(&gap), AckDecision::Now);
}

#[test]
fn congestion_marks_hurry_each_by_default_and_once_per_run_when_acks_are_rare() {
    let ce = |previous| {
        let mut view = ReceivedView::in_order(at(0), 5, 1);
        view.ecn = Ecn::Ce;
        view.previous_ecn = previous;
        view
    };
    let mut policy = standard();
    assert_eq!(policy.on_packet(&ce(Ecn::Ce)), AckDecision::Now);
    let mut rare = asked(10, 1);
    assert_eq!(rare.on_packet(&ce(Ecn::Ect0)), AckDecision::Now);
    assert_eq!(rare.on_packet(&ce(Ecn::Ce)), AckDecision::By(at(100)));
}

#[test]
fn a_request_replaces_everything_for_every_policy() {
    for name in registry::names() {
        let mut policy = registry::by_name(name)
            .expect("registered")
            .build(MAX_DELAY);
        policy.on_request(AckRequest {
            ack_eliciting_threshold: 4,
            max_ack_delay: Duration::from_millis(7),
            reordering_threshold: 0,
        });
        assert_eq!(policy.max_ack_delay(), Duration::from_millis(7));
        let fourth = policy.on_packet(&ReceivedView::in_order(at(0), 4, 4));
        assert_eq!(fourth, AckDecision::By(at(7)));
        let fifth = policy.on_packet(&ReceivedView::in_order(at(0), 5, 5));
        assert_eq!(fifth, AckDecision::Now);
        let mut gap = ReceivedView::in_order(at(0), 90, 1);
        gap.smallest_unreported_missing = Some(7);
        gap.largest_before = Some(100);
        assert_eq!(
            policy.on_packet(&gap),
            AckDecision::By(at(7)),
            "0: reordering never hurries"
        );
    }
}

#[test]
fn threshold_zero_acknowledges_every_packet() {
    let mut policy = asked(0, 1);
    assert_eq!(
        policy.on_packet(&ReceivedView::in_order(at(0), 1, 1)),
        AckDecision::Now
    );
}

#[test]
fn after_a_pause_the_first_packet_hurries_where_acks_are_rare() {
    let mut view = ReceivedView::in_order(at(1_000), 5, 1);
    view.last_ack_sent = Some(at(900));
    assert_eq!(asked(10, 1).on_packet(&view), AckDecision::Now);
    view.last_ack_sent = Some(at(990));
    assert_eq!(asked(10, 1).on_packet(&view), AckDecision::By(at(1_100)));
}

/// Feeds packets one by one and sends an ACK whenever it is due at once; returns for each packet
/// whether it was.
fn acks_for(numbers: &[u64], reordering: u64) -> Vec<bool> {
    let mut policy = asked(1_000, reordering);
    let mut received = ReceivedPackets::new(&Limits::default());
    numbers
        .iter()
        .map(|&number| {
            let rtt = Duration::from_millis(50);
            let policy = Some(policy.as_mut());
            received.on_received(number, at(1), true, Ecn::NotEct, false, policy, true, rtt);
            let due = received.ack_due(at(1));
            if due {
                received.ack_was_sent(at(1));
            }
            due
        })
        .collect()
}

/// draft-ietf-quic-ack-frequency s6.2.1, the table for a reordering threshold of 3.
#[test]
fn worked_table_reordering_threshold_3() {
    let sent = acks_for(&[0, 1, 3, 4, 5, 8, 9, 10], 3);
    assert_eq!(sent, [false, false, false, false, true, false, true, true]);
}

/// The same section, the table for a reordering threshold of 5.
#[test]
fn worked_table_reordering_threshold_5() {
    let sent = acks_for(&[0, 1, 3, 5, 6, 7, 8, 9], 5);
    assert_eq!(sent, [false, false, false, false, false, true, false, true]);
}

/// The same section: with threshold 1 any missing packet calls for an ACK.
#[test]
fn reordering_threshold_1() {
    let sent = acks_for(&[0, 1, 3, 4, 2, 5, 7], 1);
    assert_eq!(sent, [false, false, true, false, true, false, true]);
}

#[test]
fn a_packet_reported_missing_long_ago_is_reported_at_once_when_it_comes() {
    // 5 calls for an ACK; 2, which that ACK let the peer give up, arrives after all.
    let sent = acks_for(&[0, 1, 3, 4, 5, 6, 2], 3);
    assert_eq!(sent, [false, false, false, false, true, false, true]);
}

fn view(window: u64, rtt_millis: u64) -> SendView {
    let rtt = Duration::from_millis(rtt_millis);
    SendView::new(
        at(0),
        rtt,
        rtt,
        window,
        1_200,
        Duration::from_millis(1),
        MAX_DELAY,
        3,
    )
}

fn frequency() -> Box<dyn AckPolicy> {
    registry::by_name("frequency")
        .expect("registered")
        .build(MAX_DELAY)
}

#[test]
fn standard_asks_for_nothing() {
    assert_eq!(standard().request(&view(10_000_000, 600)), None);
}

#[test]
fn frequency_asks_for_an_ack_each_eighth_of_a_window() {
    let request = frequency()
        .request(&view(480_000, 40))
        .expect("a large window");
    assert_eq!(request.ack_eliciting_threshold, 50);
    assert_eq!(request.max_ack_delay, Duration::from_millis(10));
    assert_eq!(request.reordering_threshold, 3);
}

#[test]
fn frequency_stays_within_bounds() {
    let request = frequency()
        .request(&view(u64::MAX, 10_000))
        .expect("a huge window");
    assert_eq!(request.ack_eliciting_threshold, 128);
    assert_eq!(request.max_ack_delay, Duration::from_millis(100));
    let request = frequency()
        .request(&view(12_000, 0))
        .expect("no delay at all");
    assert_eq!(request.ack_eliciting_threshold, 1);
    assert_eq!(
        request.max_ack_delay,
        Duration::from_millis(1),
        "the peer's min_ack_delay"
    );
    let mut odd = view(12_000, 100);
    odd.mtu = 0;
    assert!(frequency().request(&odd).is_some());
}

#[test]
fn frequency_asks_again_only_when_something_moved() {
    let mut policy = frequency();
    assert!(policy.request(&view(480_000, 40)).is_some());
    assert_eq!(policy.request(&view(480_000, 40)), None);
    assert_eq!(
        policy.request(&view(560_000, 44)),
        None,
        "less than half as much more"
    );
    assert!(policy.request(&view(960_000, 44)).is_some());
    let mut reordered = view(960_000, 44);
    reordered.packet_threshold = 9;
    let request = policy
        .request(&reordered)
        .expect("loss detection became more tolerant");
    assert_eq!(request.reordering_threshold, 9);
}

#[test]
fn frequency_says_nothing_where_defaults_do() {
    // 15 packets of window, and a quarter of the RTT is the peer's own maximum.
    assert_eq!(frequency().request(&view(18_000, 100)), None);
}
