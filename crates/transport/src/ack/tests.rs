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
fn repair_symbols_hurry_unless_acks_are_spared() {
    let mut policy = standard();
    let mut view = ReceivedView::in_order(at(0), 7, 1);
    view.repair = true;
    assert_eq!(policy.on_packet(&view), AckDecision::Now);
    policy.on_request(AckRequest {
        ack_eliciting_threshold: 9,
        max_ack_delay: MAX_DELAY,
        reordering_threshold: 1,
    });
    assert_ne!(policy.on_packet(&view), AckDecision::Now);
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
            received.on_received(
                number,
                at(1),
                true,
                Ecn::NotEct,
                false,
                false,
                policy,
                true,
                rtt,
            );
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

/// A path that a test moves on round trip by round trip.
struct Rounds {
    policy: Box<dyn AckPolicy>,
    view: SendView,
}

impl Rounds {
    /// 1,000 packets and 400 ms a round trip.
    fn new(policy: &str) -> Self {
        Self {
            policy: registry::by_name(policy)
                .expect("registered")
                .build(MAX_DELAY),
            view: view(1_200_000, 400),
        }
    }

    /// A round trip in which `acks` came, `missing` did not, and 1,000 packets were acknowledged.
    fn round(&mut self, acks: u64, missing: u64) -> Option<AckRequest> {
        self.packets(1_000, acks, missing)
    }

    fn packets(&mut self, acked: u64, acks: u64, missing: u64) -> Option<AckRequest> {
        self.view.packets_acked += acked;
        self.view.acks_received += acks;
        self.view.packets_received += acks;
        self.view.packets_returned += acks;
        self.view.packets_missing += missing;
        self.policy.on_round(&self.view);
        self.policy.request(&self.view)
    }
}

#[test]
fn asymmetric_leaves_small_windows_alone() {
    let mut path = Rounds::new("asymmetric");
    for _ in 0..100 {
        assert_eq!(path.packets(128, 64, 0), None);
    }
}

#[test]
fn asymmetric_wants_64_acks_a_round_trip_at_most() {
    let mut path = Rounds::new("asymmetric");
    let request = path.round(500, 0).expect("a large window");
    // One ACK for 15 packets.
    assert_eq!(request.ack_eliciting_threshold, 14);
    assert_eq!(request.max_ack_delay, MAX_DELAY);
    assert_eq!(request.reordering_threshold, 3);
    for _ in 0..100 {
        assert_eq!(path.round(66, 0), None, "nothing changed");
    }
}

#[test]
fn asymmetric_halves_what_came_and_adds_one_a_round_trip() {
    let mut path = Rounds::new("asymmetric");
    path.round(500, 0);
    // Half of the 64 do not come.
    let request = path.round(32, 32).expect("congestion");
    // A budget of 16.
    assert_eq!(request.ack_eliciting_threshold, 1_000 / 16 - 1);
    // 1.5 x 400 ms / 16.
    assert_eq!(request.max_ack_delay.as_millis(), 37);
    // These were sent before the peer knew.
    assert_eq!(path.round(32, 32), None);
    // 17, 18, ... once it differs by a fifth.
    let asked: Vec<_> = (0..60).filter_map(|_| path.round(20, 0)).collect();
    let thresholds: Vec<_> = asked.iter().map(|r| r.ack_eliciting_threshold).collect();
    assert_eq!(thresholds, [49, 40, 33, 27, 22, 18, 14]);
}

#[test]
fn asymmetric_starts_over_on_another_network_path() {
    let mut path = Rounds::new("asymmetric");
    path.round(500, 0);
    path.round(32, 32).expect("congestion");
    path.policy.on_new_network_path();
    let request = path.round(32, 32).expect("the ceiling");
    assert_eq!(request.ack_eliciting_threshold, 14, "the old path's drops");
}

#[test]
fn asymmetric_takes_marks_for_drops() {
    let mut path = Rounds::new("asymmetric");
    path.round(500, 0);
    path.view.packets_marked = 20;
    let request = path.round(64, 0).expect("congestion");
    assert_eq!(request.ack_eliciting_threshold, 1_000 / 32 - 1);
}

#[test]
fn asymmetric_never_wants_fewer_than_8_acks_a_round_trip_nor_waits_longer_than_100_ms() {
    let mut path = Rounds::new("asymmetric");
    path.view.smoothed_rtt = Duration::from_secs(2);
    for _ in 0..50 {
        path.round(4, 4);
        if let Some(request) = path.round(4, 4) {
            assert!(request.ack_eliciting_threshold < 1_000 / 8);
            assert!(request.max_ack_delay <= Duration::from_millis(100));
        }
    }
}

#[test]
fn asymmetric_tolerates_what_wires_lose_and_peers_leave_out() {
    let mut path = Rounds::new("asymmetric");
    let first = path.packets(300, 150, 0);
    assert_eq!(first.expect("4 packets").ack_eliciting_threshold, 3);
    for _ in 0..100 {
        assert_eq!(path.packets(300, 80, 1), None, "1 in 81");
    }
    let mut path = Rounds::new("asymmetric");
    for _ in 0..100 {
        assert_eq!(path.packets(40, 20, 1), None, "one may be left out");
    }
}

#[test]
fn asymmetric_lets_gaps_hurry_only_while_they_are_few() {
    let mut path = Rounds::new("asymmetric");
    path.view.packets_lost = 16;
    let few = path.round(500, 0).expect("a large window");
    assert_eq!(few.reordering_threshold, 3);
    path.view.packets_lost += 17;
    let many = path.round(66, 0).expect("17 gaps would be 17 ACKs");
    assert_eq!(many.reordering_threshold, 0);
    let few = path.round(66, 0).expect("as before");
    assert_eq!(few.reordering_threshold, 3);
}

#[test]
fn asymmetric_goes_back_to_what_rfc_9000_has_after_a_probe_timeout_and_for_small_windows() {
    let usual = AckRequest {
        ack_eliciting_threshold: 1,
        max_ack_delay: MAX_DELAY,
        reordering_threshold: 1,
    };
    let mut path = Rounds::new("asymmetric");
    path.round(500, 0);
    path.view.ptos = 1;
    assert_eq!(path.round(66, 0), Some(usual));
    assert!(path.round(66, 0).is_some(), "thin again");
    assert_eq!(path.packets(20, 10, 0), Some(usual));
}

#[test]
fn rfc_5690_doubles_the_ratio_and_lowers_it_slowly() {
    let mut path = Rounds::new("asymmetric-rfc5690");
    assert_eq!(path.policy.name(), "asymmetric-rfc5690");
    assert_eq!(path.round(500, 0), None, "R = 2");
    let request = path.round(400, 100).expect("congestion");
    assert_eq!(request.ack_eliciting_threshold, 3, "R = 4");
    assert_eq!(path.round(400, 100), None, "sent before the peer knew");
    let request = path.round(240, 10).expect("congestion");
    assert_eq!(request.ack_eliciting_threshold, 7, "R = 8");
    assert_eq!(path.round(240, 10), None);
    // 1,000 / (8 x 7) windows.
    for _ in 0..16 {
        assert_eq!(path.round(125, 0), None);
    }
    path.round(125, 0);
    // 1,000 / (7 x 6), and R = 6, which is a fifth less than 8.
    let lower: Vec<_> = (0..23).filter_map(|_| path.round(150, 0)).collect();
    assert_eq!(lower.len(), 1);
    assert_eq!(lower[0].ack_eliciting_threshold, 5);
    // Never more than half a window.
    for _ in 0..40 {
        if let Some(request) = path.round(4, 4) {
            assert!(request.ack_eliciting_threshold < 500);
            assert!(request.max_ack_delay <= Duration::from_millis(500));
        }
    }
}

#[test]
fn asymmetric_receiver_spares_its_return_path_when_its_pings_are_lost() {
    let mut path = Rounds::new("asymmetric");
    let mut deliver = |lost: u64| {
        path.view.packets_acked += 1;
        path.view.packets_lost += lost;
        path.view.packets_received += 1_000;
        path.policy.on_round(&path.view);
        (1..)
            .find(|&n| {
                let packet = ReceivedView::in_order(at(0), n, n);
                path.policy.on_packet(&packet) == AckDecision::Now
            })
            .expect("some packet is acknowledged")
    };
    assert_eq!(deliver(0), 2);
    assert_eq!(
        [deliver(1), deliver(1), deliver(1), deliver(1)],
        [4, 8, 16, 16]
    );
    let calm: Vec<u64> = (0..48).map(|_| deliver(0)).collect();
    assert_eq!([calm[14], calm[15], calm[31], calm[47]], [16, 8, 4, 2]);
    // The delay stays what was announced, and what the peer asks for counts alone.
    deliver(1);
    assert_eq!(path.policy.max_ack_delay(), MAX_DELAY);
    let mut path = Rounds::new("asymmetric");
    path.policy.on_request(AckRequest {
        ack_eliciting_threshold: 1,
        max_ack_delay: MAX_DELAY,
        reordering_threshold: 1,
    });
    path.view.packets_lost = 9;
    path.view.packets_received = 1_000;
    path.policy.on_round(&path.view);
    let second = ReceivedView::in_order(at(0), 2, 2);
    assert_eq!(path.policy.on_packet(&second), AckDecision::Now);
}
