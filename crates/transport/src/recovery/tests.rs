//! The rules of RFC 9002 one by one.

use std::time::Duration;

use super::{test_path::*, *};
use crate::{
    congestion::{AckEvent, fallback_rate},
    error::Code,
    observe::EcnPhase,
    packet::Token,
    space::SpaceKind,
    units::{Ecn, PacketNumber},
    wire::EcnCounts,
};

fn ack_event(told: &[Told]) -> AckEvent {
    let acks: Vec<_> = told
        .iter()
        .filter_map(|told| {
            if let Told::Ack(event) = told {
                Some(*event)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(acks.len(), 1, "{told:?}");
    acks[0]
}

// -- Round-trip time, s5 --

#[test]
fn first_sample_sets_everything() {
    let mut path = TestPath::new();
    assert_eq!(path.recovery.rtt().smoothed(), ms(333));
    assert!(!path.recovery.rtt().has_sample());
    path.send(at(0));
    path.context.ack_delay = ms(20);
    let summary = path.ack(at(100), &[0..=0]);
    assert_eq!(summary.rtt_sample, Some(ms(100)));
    let rtt = path.recovery.rtt();
    assert_eq!(
        (rtt.latest(), rtt.smoothed(), rtt.min()),
        (ms(100), ms(100), ms(100))
    );
    assert_eq!(rtt.variance(), ms(50));
    assert_eq!(rtt.pto_base(), ms(300));
}

#[test]
fn ack_delay_is_taken_off_but_not_below_the_minimum() {
    let mut rtt = RttEstimator::new(ms(333));
    rtt.update(ms(100), ms(0));
    // 150 - 30 = 120: deviation 20.
    rtt.update(ms(150), ms(30));
    assert_eq!(rtt.variance(), Duration::from_micros(42_500));
    assert_eq!(rtt.smoothed(), Duration::from_micros(102_500));
    assert_eq!(rtt.latest(), ms(150));
    // 110 - 30 would be below the minimum of 100.
    let before = rtt.smoothed();
    rtt.update(ms(110), ms(30));
    assert_eq!(rtt.smoothed(), before / 8 * 7 + ms(100) / 8);
    rtt.update(ms(90), ms(30));
    assert_eq!(rtt.min(), ms(90));
}

#[test]
fn ack_delay_is_capped_only_once_the_handshake_is_confirmed() {
    for (confirmed, kind, expected) in [
        (true, SpaceKind::Data, ms(200) - MAX_ACK_DELAY),
        (false, SpaceKind::Data, ms(120)),
        (false, SpaceKind::Handshake, ms(120)),
        (false, SpaceKind::Initial, ms(200)),
    ] {
        let mut path = TestPath::new();
        path.send_in(kind, at(0), |_| {});
        path.try_ack_in(kind, at(100), &[0..=0], None).unwrap();
        path.send_in(kind, at(100), |_| {});
        path.context.handshake_confirmed = confirmed;
        path.context.ack_delay = ms(80);
        path.try_ack_in(kind, at(300), &[0..=1], None).unwrap();
        assert_eq!(
            path.recovery.rtt().smoothed(),
            ms(100) / 8 * 7 + expected / 8
        );
    }
}

#[test]
fn only_a_newly_acknowledged_largest_gives_a_sample() {
    let mut path = TestPath::new();
    path.send_many(at(0), 3);
    assert!(path.ack(at(50), &[2..=2]).rtt_sample.is_some());
    let late = path.ack(at(60), &[1..=2]);
    assert!(late.newly_acked && late.rtt_sample.is_none());
    let repeated = path.ack(at(70), &[1..=2]);
    assert_eq!(repeated, AckSummary::default());
}

#[test]
fn a_standstill_that_is_over_does_not_slow_the_pacer() {
    let mut path = TestPath::new();
    path.send_many(at(0), 20);
    path.ack(at(40), &[0..=19]);
    for (sent, acknowledged) in [(100, 400), (500, 540), (600, 640)] {
        let number = path.send(at(sent));
        path.ack(at(acknowledged), &[number..=number]);
    }
    assert!(path.recovery.rtt().smoothed() > ms(60));
    let paced = fallback_rate(path.recovery.window(), ms(60), path.recovery.slow_start);
    assert_eq!(path.recovery.pacing_rate(), paced);
}

#[test]
fn packets_that_ask_for_nothing_give_no_sample() {
    let mut path = TestPath::new();
    path.send_in(SpaceKind::Data, at(0), |p| {
        p.ack_eliciting = false;
        p.in_flight = false;
    });
    let summary = path.ack(at(50), &[0..=0]);
    assert!(summary.newly_acked && summary.rtt_sample.is_none());
    assert!(
        path.notes.take().is_empty(),
        "none of the controller's business"
    );
}

// -- Loss detection, s6.1 --

#[test]
fn three_later_packets_make_a_loss() {
    let mut path = TestPath::new();
    path.send_many(at(0), 5);
    let summary = path.ack(at(10), &[4..=4]);
    assert_eq!(summary.lost_packets, 2);
    assert_eq!(path.lost_numbers(), [0, 1]);
    assert!(
        path.fates
            .packets_lost
            .iter()
            .all(|l| l.1 == LossTrigger::ReorderingThreshold)
    );
    assert_eq!(path.fates.lost.len(), 2);
    assert_eq!(path.recovery.bytes_in_flight(), 2 * u64::from(MTU));
    let stats = path.recovery.stats();
    assert_eq!(
        (stats.packets_sent, stats.packets_acked, stats.packets_lost),
        (5, 1, 2)
    );
    assert_eq!(path.recovery.lost(), 2 * u64::from(MTU));
    assert_eq!(path.recovery.delivered(), u64::from(MTU));
}

#[test]
fn the_controller_hears_of_losses_before_the_ack() {
    let mut path = TestPath::new();
    path.send_many(at(0), 5);
    path.ack(at(10), &[4..=4]);
    let told = path.notes.take();
    let [
        Told::Loss {
            packets,
            persistent,
            prior,
            in_flight,
        },
        Told::Ack(ack),
    ] = &told[..]
    else {
        panic!("{told:?}");
    };
    let mtu = u64::from(MTU);
    assert_eq!(packets.len(), 2);
    assert!(!persistent);
    assert_eq!((*prior, *in_flight), (4 * mtu, 2 * mtu));
    assert_eq!(
        (ack.prior_in_flight, ack.bytes_in_flight),
        (5 * mtu, 2 * mtu)
    );
    assert_eq!(
        (ack.acked_bytes, ack.acked_packets, ack.largest_acked),
        (mtu, 1, 4)
    );
    assert_eq!(ack.next_packet_number, 5);
    assert!(ack.has_rtt_sample);
    assert_eq!(
        (packets[0].tx_in_flight, packets[1].tx_in_flight),
        (mtu, 2 * mtu)
    );
}

#[test]
fn time_makes_a_loss() {
    let mut path = TestPath::new();
    path.send(at(0));
    path.send(at(4));
    path.ack(at(84), &[1..=1]);
    // 9/8 of 80 ms after it left.
    assert_eq!(path.timer(), Some(at(90)));
    assert_eq!(path.timeout(at(89)), TimerAction::Nothing);
    assert_eq!(path.timeout(at(90)), TimerAction::LossDetected);
    assert_eq!(path.fates.packets_lost, [(0, LossTrigger::TimeThreshold)]);
    assert_eq!(path.recovery.bytes_in_flight(), 0);
    assert_eq!(path.timer(), None);
}

#[test]
fn the_time_threshold_has_a_floor() {
    let mut path = TestPath::new();
    path.send_many(at(0), 2);
    let now = Instant::from_nanos(10_000);
    path.ack(now, &[1..=1]);
    assert_eq!(path.timer(), Some(at(1)), "kGranularity");
}

#[test]
fn nothing_newer_than_the_largest_acknowledged_is_lost() {
    let mut path = TestPath::new();
    path.send_many(at(0), 10);
    path.ack(at(500), &[0..=0]);
    assert!(path.lost_numbers().is_empty());
    assert_eq!(path.recovery.bytes_in_flight(), 9 * u64::from(MTU));
}

#[test]
fn a_lost_mtu_probe_is_no_congestion() {
    let mut path = TestPath::new();
    path.send_in(SpaceKind::Data, at(0), |p| {
        p.mtu_probe = true;
        p.bytes = 1_400;
    });
    path.send_many(at(0), 3);
    path.ack(at(50), &[1..=3]);
    assert_eq!(path.fates.probes_lost, [1_400]);
    assert_eq!(path.recovery.bytes_in_flight(), 0);
    assert!(
        path.notes
            .take()
            .iter()
            .all(|told| matches!(told, Told::Ack(_)))
    );
    assert_eq!(path.recovery.stats().mtu_probes_lost, 1);
    assert_eq!(path.recovery.stats().packets_lost, 0);
    path.send_in(SpaceKind::Data, at(60), |p| p.mtu_probe = true);
    path.ack(at(99), &[4..=4]);
    assert_eq!(path.fates.probes_acked, [MTU]);
}

#[test]
fn a_probe_given_up_leaves_room_and_may_still_arrive() {
    let mut path = TestPath::new();
    let probe = path.send_in(SpaceKind::Data, at(0), |p| p.mtu_probe = true);
    path.send(at(1));
    let TestPath {
        recovery,
        spaces,
        fates,
        ..
    } = &mut path;
    recovery.give_up_mtu_probe(&mut spaces[2], probe, at(2), fates);
    assert_eq!(path.recovery.bytes_in_flight(), u64::from(MTU));
    assert_eq!(path.fates.probes_lost, [MTU]);
    path.notes.take();
    // What waited for keys measures no round trip, and its loss was none.
    let summary = path.ack(at(900), &[probe..=probe]);
    assert_eq!(
        (summary.rtt_sample, path.fates.probes_acked.len()),
        (None, 1)
    );
    let stats = path.recovery.stats();
    assert_eq!((stats.spurious_losses, stats.packets_lost), (0, 0));
    assert_eq!(path.recovery.bytes_in_flight(), u64::from(MTU));
    assert!(path.notes.take().is_empty());
}

// RFC 9002 s7.2.
#[test]
fn the_initial_window_follows_the_datagram_size_until_something_is_lost() {
    let newreno = crate::congestion::registry::by_name("newreno").unwrap();
    let start = || TestPath::with(|config| config.congestion = newreno.clone(), false);
    let mut path = start();
    assert_eq!(path.recovery.window(), 12_000);
    path.recovery.on_mtu(1_452);
    assert_eq!(path.recovery.window(), 14_520);
    path.recovery.on_mtu(1_200);
    assert_eq!(path.recovery.window(), 12_000);
    path.recovery.on_mtu(9_000);
    assert_eq!(path.recovery.window(), 18_000);

    let mut path = start();
    path.send_many(at(0), 10);
    path.ack(at(50), &[5..=9]);
    let window = path.recovery.window();
    path.recovery.on_mtu(1_452);
    assert_eq!(path.recovery.window(), window, "the path is known");
}

// -- Spurious losses --

#[test]
fn a_spurious_loss_raises_the_threshold_to_what_was_seen_and_it_decays() {
    let mut path = TestPath::new();
    path.send_many(at(0), 9);
    path.ack(at(100), &[4..=8]);
    assert_eq!(path.lost_numbers(), [0, 1, 2, 3]);
    let summary = path.ack(at(101), &[3..=8]);
    assert_eq!((summary.newly_acked, summary.spurious_losses), (true, 1));
    // Overtaken by five (8 - 3): six are needed from now on.
    assert_eq!(path.recovery.packet_threshold(), 6);
    assert_eq!(path.recovery.stats().spurious_losses, 1);
    assert_eq!(path.fates.packets_acked, [8, 7, 6, 5, 4, 3]);
    path.fates.packets_lost.clear();
    path.send_many(at(110), 7);
    path.ack(at(210), &[15..=15, 3..=8]);
    assert_eq!(
        path.lost_numbers(),
        [9],
        "10 to 14 are within the new threshold"
    );
    // Halved towards 3 after sixteen quiet round trips.
    for (sent, expected) in [(1_000, 6), (2_000, 4), (4_000, 3)] {
        let number = path.send(at(sent));
        path.ack(at(sent + 100), &[number..=number]);
        assert_eq!(path.recovery.packet_threshold(), expected);
    }
}

#[test]
fn the_adaptive_threshold_is_bounded() {
    for (max, expected) in [(3, 3), (10, 10), (64, 31)] {
        let mut path = TestPath::with(|config| config.max_packet_threshold = max, false);
        path.send_many(at(0), 40);
        path.ack(at(100), &[30..=30]);
        path.ack(at(101), &[30..=30, 0..=0]);
        assert_eq!(path.recovery.packet_threshold(), expected);
    }
}

#[test]
fn an_episode_is_spurious_when_none_of_its_losses_remains() {
    let mut path = TestPath::new();
    path.send_many(at(0), 6);
    path.ack(at(100), &[5..=5]);
    assert_eq!(path.lost_numbers(), [0, 1, 2]);
    path.notes.take();
    path.ack(at(101), &[4..=5, 0..=1]);
    path.ack(at(102), &[4..=5, 0..=2]);
    let spurious: Vec<_> = path
        .notes
        .take()
        .into_iter()
        .filter_map(|told| match told {
            Told::Spurious(event) => Some((event.packet_number, event.episode_spurious)),
            _ => None,
        })
        .collect();
    assert_eq!(spurious, [(1, false), (0, false), (2, true)]);
    assert_eq!(path.recovery.delivered(), 5 * u64::from(MTU));
}

#[test]
fn a_loss_of_an_older_episode_does_not_end_the_new_one() {
    let mut path = TestPath::new();
    path.send_many(at(0), 4);
    path.ack(at(100), &[3..=3]);
    path.send_many(at(110), 4);
    path.ack(at(210), &[7..=7, 1..=3]);
    assert_eq!(path.lost_numbers(), [0, 4]);
    path.notes.take();
    path.ack(at(211), &[7..=7, 0..=3]);
    let told = path.notes.take();
    assert!(
        matches!(&told[..], [Told::Spurious(event)] if !event.episode_spurious),
        "{told:?}"
    );
}

#[test]
fn after_a_pto_a_lost_packet_is_forgotten() {
    let mut path = TestPath::new();
    path.send_many(at(0), 4);
    path.ack(at(100), &[3..=3]);
    path.send(at(2_000));
    path.ack(at(2_100), &[4..=4]);
    let summary = path.ack(at(2_101), &[3..=4, 0..=0]);
    assert!(!summary.newly_acked);
}

// -- Probe timeout, s6.2 --

/// Two packets passed in each of ten round trips of 10 ms.
fn known_path() -> TestPath {
    let mut path = TestPath::new();
    for round in 0..10 {
        path.send_many(at(100 * round), 2);
        path.ack(at(100 * round + 10), &[2 * round..=2 * round + 1]);
    }
    path
}

/// What asks for an acknowledgement at once is not waited for as if it were held back, but behind its own queue.
#[test]
fn what_asks_at_once_is_missed_sooner() {
    let mut path = known_path();
    path.send_many(at(1_000), 2);
    let held_back = path.timer().expect("a probe timeout");
    // That of as many packets as are acknowledged together is due at once.
    path.timers.together = 2;
    assert!(path.timer().is_some_and(|at| at + ms(15) < held_back));
    path.timers.together = usize::MAX;
    path.send_in(SpaceKind::Data, at(1_000), |packet| packet.asks = true);
    let asked = path.timer().expect("a probe timeout");
    assert!(asked >= at(1_011) + MIN_ACK_DELAY, "{asked:?}");
    assert!(asked + ms(15) < held_back, "{asked:?} {held_back:?}");
    // What leaves behind it may be held back again; an MTU probe that is lost says nothing.
    path.send(at(1_000));
    assert_eq!(path.timer(), Some(held_back));
    path.send_in(SpaceKind::Data, at(1_000), |packet| {
        (packet.asks, packet.mtu_probe) = (true, true);
    });
    assert_eq!(path.timer(), Some(held_back));
    // A queue of 15 packets, of which two pass in a round trip of 10 ms, is waited for; never longer than usual.
    path.send_many(at(1_000), 10);
    path.send_in(SpaceKind::Data, at(1_000), |packet| packet.asks = true);
    assert_eq!(path.timer(), Some(held_back));
    // Once nothing has come of it, probes are as far apart as ever.
    assert_eq!(path.timeout(held_back), probe_of_data());
    path.send_in(SpaceKind::Data, held_back, |packet| packet.asks = true);
    let pto = held_back.saturating_since(at(1_000));
    assert_eq!(path.timer(), Some(held_back + 2 * pto));
}

#[test]
fn where_nothing_has_passed_yet_the_usual_timeout_holds() {
    let mut path = TestPath::new();
    path.send(at(0));
    let usual = path.timer();
    path.send_in(SpaceKind::Data, at(0), |packet| packet.asks = true);
    assert_eq!(path.timer(), usual);
}

#[test]
fn a_probe_of_the_mtu_makes_no_acknowledgement_due() {
    let mut path = known_path();
    path.timers.together = 2;
    path.send(at(1_000));
    let held_back = path.timer();
    path.send_in(SpaceKind::Data, at(1_000), |packet| packet.mtu_probe = true);
    assert_eq!(path.timer(), held_back);
    path.send(at(1_000));
    assert!(path.timer() < held_back);
}

fn probe_of_data() -> TimerAction {
    TimerAction::Probe {
        kind: SpaceKind::Data,
        packets: 2,
    }
}

#[test]
fn pto_doubles_and_starts_over_with_an_ack() {
    let mut path = TestPath::new();
    path.send(at(0));
    path.ack(at(100), &[0..=0]);
    path.send(at(1_000));
    let pto = ms(100 + 200) + MAX_ACK_DELAY;
    assert_eq!(path.timer(), Some(at(1_000) + pto));
    assert_eq!(path.timeout(at(1_324)), TimerAction::Nothing);
    let probe = probe_of_data();
    assert_eq!(path.timeout(at(1_325)), probe);
    assert_eq!(path.recovery.pto_count(), 1);
    path.send(at(1_325));
    assert_eq!(path.timer(), Some(at(1_325) + 2 * pto));
    assert_eq!(path.timeout(at(1_325) + 2 * pto), probe);
    assert_eq!(path.recovery.stats().ptos, 2);
    assert!(
        path.lost_numbers().is_empty(),
        "a timeout declares nothing lost"
    );
    path.ack(at(2_100), &[1..=1]);
    assert_eq!(path.recovery.pto_count(), 0);
}

#[test]
fn probes_may_repeat_the_oldest_packets() {
    let mut path = TestPath::new();
    path.send_many(at(0), 4);
    let TestPath {
        recovery,
        spaces,
        fates,
        ..
    } = &mut path;
    recovery.resend_oldest(&mut spaces[2], 2, fates);
    let repeated = [0, 1].map(|offset| Token::Crypto { offset, len: 1 });
    assert_eq!(path.fates.lost, repeated);
    assert_eq!(
        path.recovery.bytes_in_flight(),
        4 * u64::from(MTU),
        "they stay in flight"
    );
}

#[test]
fn handshake_packets_do_not_wait_for_the_ack_delay() {
    for kind in [SpaceKind::Initial, SpaceKind::Handshake] {
        let mut path = TestPath::new();
        path.send_in(kind, at(0), |_| {});
        assert_eq!(path.timer(), Some(at(999)));
        assert_eq!(
            path.timeout(at(999)),
            TimerAction::Probe { kind, packets: 2 }
        );
    }
}

/// Over several paths: each packet sent would put a timeout off.
#[test]
fn where_data_may_leave_the_oldest_packet_counts() {
    let mut path = TestPath::new();
    path.send(at(0));
    path.ack(at(100), &[0..=0]);
    let pto = ms(100 + 200) + MAX_ACK_DELAY;
    for sent in [1_000, 1_040, 1_080] {
        path.send(at(sent));
    }
    assert_eq!(path.timer(), Some(at(1_080) + pto));
    path.timers.may_leave = true;
    assert_eq!(path.timer(), Some(at(1_000) + pto));
    // As soon as anything is acknowledged, nothing stands still.
    path.ack(at(1_120), &[1..=1]);
    for sent in [1_130, 1_170] {
        path.send(at(sent));
    }
    let pto = path.recovery.pto_base() + MAX_ACK_DELAY;
    assert_eq!(path.timer(), Some(at(1_120) + pto));
    // The probe that follows a timeout has its own time.
    assert!(matches!(
        path.timeout(at(1_120) + pto),
        TimerAction::Probe { .. }
    ));
    path.send(at(1_500));
    assert_eq!(path.timer(), Some(at(1_500) + 2 * pto));
}

#[test]
fn data_waits_for_the_handshake_to_be_confirmed() {
    let mut path = TestPath::new();
    path.timers.handshake_confirmed = false;
    path.send(at(0));
    assert_eq!(path.timer(), None);
    path.send_in(SpaceKind::Handshake, at(10), |_| {});
    assert_eq!(path.timer(), Some(at(1_009)));
    let probe = TimerAction::Probe {
        kind: SpaceKind::Handshake,
        packets: 2,
    };
    assert_eq!(path.timeout(at(1_009)), probe);
}

#[test]
fn the_earliest_space_is_probed() {
    let mut path = TestPath::new();
    path.send_in(SpaceKind::Handshake, at(5), |_| {});
    path.send_in(SpaceKind::Initial, at(10), |_| {});
    path.send(at(0));
    assert_eq!(path.timer(), Some(at(1_004)));
    let probe = TimerAction::Probe {
        kind: SpaceKind::Handshake,
        packets: 2,
    };
    assert_eq!(path.timeout(at(1_004)), probe);
}

#[test]
fn a_client_probes_although_nothing_is_in_flight() {
    let mut path = TestPath::new();
    path.timers.peer_completed_address_validation = false;
    path.context.peer_completed_address_validation = false;
    path.timers.handshake_confirmed = false;
    path.timers.has_handshake_keys = false;
    path.send_in(SpaceKind::Initial, at(0), |_| {});
    path.try_ack_in(SpaceKind::Initial, at(100), &[0..=0], None)
        .unwrap();
    // 100 ms and 4 x 50 ms after the ACK.
    assert_eq!(path.timer(), Some(at(400)));
    let initial = TimerAction::Probe {
        kind: SpaceKind::Initial,
        packets: 1,
    };
    assert_eq!(path.timeout(at(400)), initial);
    assert_eq!(
        path.timer(),
        Some(at(1_000)),
        "backed off from the timeout on"
    );
    path.timers.has_handshake_keys = true;
    let handshake = TimerAction::Probe {
        kind: SpaceKind::Handshake,
        packets: 1,
    };
    assert_eq!(path.timeout(at(1_000)), handshake);
    path.timers.peer_completed_address_validation = true;
    assert_eq!(path.timer(), None);
}

#[test]
fn a_client_keeps_backing_off_until_its_address_is_validated() {
    let mut path = TestPath::new();
    path.context.peer_completed_address_validation = false;
    path.timers.peer_completed_address_validation = false;
    path.send_in(SpaceKind::Initial, at(0), |_| {});
    path.timeout(at(999));
    path.try_ack_in(SpaceKind::Initial, at(1_100), &[0..=0], None)
        .unwrap();
    assert_eq!(path.recovery.pto_count(), 1);
    path.discard(SpaceKind::Initial);
    assert_eq!(path.recovery.pto_count(), 0, "discarding keys starts over");
}

#[test]
fn a_server_without_credit_arms_no_timer() {
    let mut path = TestPath::new();
    path.send_in(SpaceKind::Initial, at(0), |_| {});
    path.timers.amplification_blocked = true;
    assert_eq!(path.timer(), None);
    assert_eq!(path.timeout(at(5_000)), TimerAction::Nothing);
    path.timers.amplification_blocked = false;
    assert_eq!(path.timer(), Some(at(999)));
}

/// What another path acknowledges of a silent one leaves it silent, and it is asked again.
#[test]
fn a_silent_path_is_asked_until_it_answers() {
    let mut path = TestPath::new();
    path.send(at(0));
    path.ack(at(100), &[0..=0]);
    path.send(at(100));
    let timeout = path.timer().expect("something is in flight");
    path.timeout(timeout);
    path.context.elsewhere = true;
    path.context.returned_by = PathId(1);
    path.context.ack_delay = Duration::from_secs(5);
    path.ack(timeout + Duration::from_secs(5), &[0..=1]);
    assert_eq!(path.recovery.rtt().smoothed(), Duration::from_millis(100));
    assert!(!path.data().has_ack_eliciting_in_flight());
    assert_eq!(path.recovery.pto_count(), 1);
    let again = path.timer().expect("it has not answered");
    assert_eq!(
        path.timeout(again),
        TimerAction::Probe {
            kind: SpaceKind::Data,
            packets: 1
        }
    );
    // What left after that shows that it is alive, whoever tells.
    path.context.ack_delay = Duration::ZERO;
    let probe = path.send(again);
    path.ack(again + Duration::from_millis(100), &[probe..=probe]);
    assert_eq!((path.recovery.pto_count(), path.timer()), (0, None));
}

/// Beside others that work; whether or not the probes can leave.
#[test]
fn a_silent_path_beside_others_is_asked_every_ten_seconds() {
    let every = Duration::from_secs(10);
    for leaves in [true, false] {
        let mut path = TestPath::new();
        path.timers.probe_every = Some(every);
        path.send(at(0));
        let mut now = at(0);
        for asked in 0..40 {
            let next = path.timer().expect("something is in flight");
            assert!(next > now && next <= now + every, "{asked}, {leaves}");
            assert!(asked < 10 || next == now + every, "{asked}, {leaves}");
            now = next;
            assert!(matches!(path.timeout(now), TimerAction::Probe { .. }));
            if leaves {
                path.send(now);
            }
        }
    }
}

#[test]
fn backoff_does_not_overflow() {
    let mut path = TestPath::new();
    let mut now = at(0);
    path.send(now);
    for _ in 0..200 {
        now = path.timer().expect("something is in flight");
        path.timeout(now);
        path.send(now);
    }
    assert_eq!(path.recovery.pto_count(), 200);
}

// -- Persistent congestion, s7.6 --

/// Two RTT samples of 100 ms around packets lost from 1,000 ms on; the duration is
/// 3 x (100 + 4 x 37.5 + 25) ms.
fn outage(sends: &[u64], acked_between: Option<u64>) -> (bool, TestPath) {
    let mut path = TestPath::new();
    path.send(at(0));
    path.ack(at(100), &[0..=0]);
    for &millis in sends {
        path.send(at(millis));
    }
    let survivor = path.send(at(4_000));
    let mut ranges = vec![survivor..=survivor];
    ranges.extend(acked_between.map(|number| number..=number));
    ranges.push(0..=0);
    let summary = path.ack(at(4_100), &ranges);
    let told = path.notes.take();
    let lost = told.iter().any(|told| {
        matches!(
            told,
            Told::Loss {
                persistent: true,
                ..
            }
        )
    });
    assert_eq!(lost, summary.persistent_congestion);
    (lost, path)
}

#[test]
fn a_long_run_of_losses_is_persistent_congestion() {
    let (persistent, path) = outage(&[1_000, 1_300, 1_826], None);
    assert!(persistent);
    assert_eq!(path.recovery.stats().persistent_congestions, 1);
    assert!(
        !outage(&[1_000, 1_300, 1_825], None).0,
        "not longer than 825 ms"
    );
}

#[test]
fn an_acknowledgement_in_between_breaks_the_run() {
    assert!(!outage(&[1_000, 1_300, 1_826], Some(2)).0);
    assert!(
        outage(&[1_000, 1_300, 2_300, 3_300], Some(2)).0,
        "the rest is long enough"
    );
}

#[test]
fn losses_before_the_first_rtt_sample_do_not_count() {
    let mut path = TestPath::new();
    for millis in [0, 1_000, 2_000, 3_000, 9_000] {
        path.send(at(millis));
    }
    let summary = path.ack(at(9_100), &[4..=4]);
    assert_eq!(summary.lost_packets, 4);
    assert!(!summary.persistent_congestion);
}

#[test]
fn a_run_goes_on_over_two_acks() {
    let mut path = TestPath::new();
    path.send(at(0));
    path.ack(at(100), &[0..=0]);
    for millis in [1_000, 1_300, 1_976, 1_980, 1_981, 1_982] {
        path.send(at(millis));
    }
    assert!(!path.ack(at(2_080), &[4..=4, 0..=0]).persistent_congestion);
    assert_eq!(path.lost_numbers(), [1, 2], "both by time and number");
    path.notes.take();
    assert!(path.ack(at(2_095), &[4..=6, 0..=0]).persistent_congestion);
    assert_eq!(path.lost_numbers(), [1, 2, 3]);
}

#[test]
fn another_space_breaks_the_run_too() {
    let mut path = TestPath::new();
    path.send(at(0));
    path.ack(at(100), &[0..=0]);
    path.send(at(1_000));
    path.send_in(SpaceKind::Handshake, at(1_500), |_| {});
    path.send(at(2_000));
    path.try_ack_in(SpaceKind::Handshake, at(1_600), &[0..=0], None)
        .unwrap();
    path.send(at(4_000));
    assert!(!path.ack(at(4_100), &[3..=3, 0..=0]).persistent_congestion);
}

// -- Acknowledgements of what was not sent, RFC 9000 s21.4 --

#[test]
fn an_ack_of_an_unsent_packet_is_a_violation() {
    let mut path = TestPath::new();
    path.send_many(at(0), 3);
    let error = path
        .try_ack_in(SpaceKind::Data, at(1), &[3..=3], None)
        .unwrap_err();
    assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
    assert_eq!(
        path.recovery.bytes_in_flight(),
        3 * u64::from(MTU),
        "nothing changed"
    );
    assert!(path.fates.acked.is_empty());
}

#[test]
fn an_ack_of_a_skipped_number_is_a_violation() {
    let mut path = TestPath::with(|_| {}, true);
    let mut last = 0;
    let skipped = loop {
        let number = path.send(at(0));
        if number > last + 1 {
            break number - 1;
        }
        last = number;
    };
    path.send(at(0));
    path.ack(at(1), &[skipped + 1..=skipped + 1, 0..=skipped - 1]);
    let error = path
        .try_ack_in(SpaceKind::Data, at(1), &[0..=skipped + 2], None)
        .unwrap_err();
    assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
}

// -- Bytes in flight, spaces, network paths --

#[test]
fn discarding_a_space_takes_its_bytes_out_of_flight() {
    let mut path = TestPath::new();
    path.send_in(SpaceKind::Initial, at(0), |_| {});
    path.send_in(SpaceKind::Handshake, at(0), |_| {});
    path.discard(SpaceKind::Initial);
    assert_eq!(path.recovery.bytes_in_flight(), u64::from(MTU));
    assert!(!path.spaces[0].has_ack_eliciting_in_flight());
    assert_eq!(path.timer(), Some(at(999)));
    assert!(path.fates.lost.is_empty());
}

#[test]
fn everything_can_be_sent_again_without_a_congestion_signal() {
    let mut path = TestPath::new();
    path.send_many(at(0), 3);
    let TestPath {
        recovery,
        spaces,
        fates,
        ..
    } = &mut path;
    recovery.retransmit_all(&mut spaces[2], SpaceKind::Data, fates);
    assert_eq!(path.fates.lost.len(), 3);
    assert_eq!(path.recovery.bytes_in_flight(), 0);
    assert!(path.notes.take().is_empty());
    assert!(!path.ack(at(50), &[0..=2]).newly_acked);
    assert_eq!(path.send(at(60)), 3);
    assert!(path.ack(at(70), &[0..=3]).newly_acked);
}

#[test]
fn packets_of_an_old_network_path_stay_old_however_many_follow() {
    let mut path = TestPath::new();
    path.send_many(at(0), 2);
    for round in 0..1000 {
        path.recovery.reset_for_new_network_path(at(round));
        path.send(at(round));
        assert_eq!(path.recovery.bytes_in_flight(), u64::from(MTU));
    }
    path.ack(at(1100), &[0..=1]);
    assert_eq!(path.recovery.bytes_in_flight(), u64::from(MTU));
    assert_eq!(path.recovery.delivered(), 0);
}

#[test]
fn a_new_network_path_starts_anew() {
    let mut path = TestPath::new();
    path.send_many(at(0), 4);
    path.ack(at(100), &[0..=0]);
    path.recovery.reset_for_new_network_path(at(150));
    assert_eq!(path.recovery.bytes_in_flight(), 0);
    assert_eq!(path.recovery.rtt().smoothed(), ms(333));
    path.notes.take();
    path.send(at(150));
    let summary = path.ack(at(160), &[3..=3, 0..=0]);
    assert!(
        summary.newly_acked && summary.rtt_sample.is_none(),
        "an old path's packet"
    );
    assert_eq!(path.recovery.delivered(), 0);
    assert_eq!(path.recovery.bytes_in_flight(), u64::from(MTU));
    assert!(path.notes.take().is_empty());
    // Loss of old packets means retransmission, not congestion.
    path.send_many(at(200), 3);
    path.ack(at(900), &[7..=7, 3..=3]);
    assert_eq!(
        path.fates.lost.len(),
        3,
        "1 and 2 of the old path, 4 of the new one"
    );
    let told = path.notes.take();
    let lost: Vec<_> = told
        .iter()
        .filter_map(|told| match told {
            Told::Loss { packets, .. } => Some(packets.iter().map(|p| p.packet_number)),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(lost, [4]);
    assert_eq!(path.recovery.rtt().latest(), ms(700));
}

#[test]
fn the_window_is_held_within_limits() {
    let mut path = TestPath::with(|config| config.limits.sent_packets = 100, false);
    path.notes.set_window(0);
    assert_eq!(path.recovery.window(), 2 * u64::from(MTU));
    path.notes.set_window(u64::MAX);
    assert_eq!(path.recovery.window(), 100 * u64::from(MTU));
    path.notes.set_window(10_000);
    path.send_many(at(0), 8);
    assert!(path.recovery.can_send(400) && !path.recovery.can_send(401));
}

#[test]
fn a_full_ring_keeps_counts_exact_and_sends_again() {
    let mut path = TestPath::with(|config| config.limits.sent_packets = 16, false);
    path.send_many(at(0), 20);
    assert!(path.data().is_full());
    assert_eq!(path.recovery.bytes_in_flight(), path.counted_in_flight());
    path.ack(at(10), &[19..=19]);
    assert!(
        path.fates
            .lost
            .contains(&Token::Crypto { offset: 0, len: 1 })
    );
    assert_eq!(path.recovery.bytes_in_flight(), path.counted_in_flight());
}

#[test]
fn sending_after_silence_restarts() {
    let mut path = TestPath::new();
    path.send(at(0));
    path.ack(at(50), &[0..=0]);
    path.notes.take();
    path.send(at(5_000));
    assert!(matches!(path.notes.take()[..], [Told::Restart]));
    path.send(at(5_000));
    assert!(path.notes.take().is_empty());
}

#[test]
fn pacing_waits_for_an_rtt_sample() {
    let mut path = TestPath::new();
    path.notes.set_window(12_000);
    path.send_many(at(0), 9);
    assert_eq!(path.recovery.next_send_time(at(0), 1_200), None);
    path.ack(at(100), &[0..=8]);
    path.send_many(at(100), 10);
    assert!(path.recovery.next_send_time(at(100), 1_200).is_some());
    assert!(path.recovery.send_quantum(at(100)) >= u64::from(MTU));
}

#[test]
fn many_ack_only_packets_call_for_a_ping() {
    let mut path = TestPath::new();
    let ack_only = |path: &mut TestPath| {
        path.send_in(SpaceKind::Data, at(0), |p| {
            (p.ack_eliciting, p.in_flight) = (false, false)
        });
        path.data().should_elicit_ack()
    };
    path.send(at(0));
    for _ in 0..18 {
        assert!(!ack_only(&mut path));
    }
    assert!(ack_only(&mut path));
    path.send(at(0));
    assert!(!path.data().should_elicit_ack());
    // Fewer do with nothing under way, but not the one that an idle peer's PING causes.
    path.ack(at(100), &[0..=20]);
    assert!(!ack_only(&mut path));
    assert!(ack_only(&mut path));
}

// -- Delivery rate, draft-ietf-ccwg-bbr-06 s4.1 --

#[test]
fn a_steady_flow_measures_its_rate() {
    let mut path = TestPath::new();
    // A packet each 10 ms, acknowledged 100 ms later.
    for step in 0..60_u64 {
        path.send(at(step * 10));
        if step >= 10 {
            let number = step - 10;
            path.ack(at(step * 10), &[0..=number]);
        }
    }
    let told = path.notes.take();
    let Some(Told::Ack(event)) = told.last() else {
        panic!("{told:?}")
    };
    let rate = event.rate.expect("a sample");
    // 1,200 bytes each 10 ms.
    assert_eq!(rate.delivery_rate.bytes_per_second(), 120_000);
    assert_eq!(rate.interval, ms(110));
    assert_eq!(rate.delivered, 13_200);
    assert_eq!(rate.tx_in_flight, 11 * u64::from(MTU));
    assert_eq!(rate.lost, 0);
    assert!(!rate.app_limited);
}

#[test]
fn app_limited_samples_say_so_until_delivered() {
    let mut path = TestPath::new();
    path.send(at(0));
    path.recovery.set_app_limited(at(0));
    path.send(at(1));
    path.ack(at(100), &[0..=0]);
    assert!(
        !ack_event(&path.notes.take()).rate.unwrap().app_limited,
        "left before"
    );
    path.ack(at(101), &[0..=1]);
    let event = ack_event(&path.notes.take());
    assert!(event.app_limited && event.rate.unwrap().app_limited);
    path.send(at(110));
    path.ack(at(210), &[0..=2]);
    assert!(!ack_event(&path.notes.take()).rate.unwrap().app_limited);
}

#[test]
fn a_full_window_is_not_app_limited() {
    let mut path = TestPath::new();
    path.notes.set_window(6_000);
    path.send(at(0));
    path.recovery.set_app_limited(at(0));
    path.send_many(at(0), 4);
    path.recovery.set_app_limited(at(0));
    path.ack(at(100), &[0..=4]);
    assert!(!ack_event(&path.notes.take()).app_limited);
}

#[test]
fn a_window_behind_an_even_pace_is_not_the_limit() {
    for (evenly, limited) in [(false, false), (true, true)] {
        let mut path = TestPath::new();
        path.notes.set_window(100_000);
        path.recovery.set_evenly(evenly);
        // A queue: round trips grow from 40 to 80 ms.
        path.send(at(0));
        path.ack(at(40), &[0..=0]);
        path.send_many(at(40), 20);
        path.ack(at(120), &[1..=10]);
        path.ack(at(122), &[11..=20]);
        assert!(path.recovery.capacity().is_some());
        path.notes.take();
        path.send(at(130));
        path.recovery.note_even_pace();
        path.ack(at(210), &[21..=21]);
        assert_eq!(ack_event(&path.notes.take()).app_limited, limited);
    }
}

#[test]
fn what_only_fills_room_makes_no_window_larger() {
    let mut path = TestPath::new();
    path.notes.set_window(6_000);
    path.send_many(at(0), 3);
    path.recovery.set_app_limited(at(0));
    let fill = |path: &mut TestPath, now| {
        path.send_in(SpaceKind::Data, now, |packet| packet.filler = true);
    };
    (0..2).for_each(|_| fill(&mut path, at(1)));
    // The window is full, and not of what the application sends.
    assert_eq!(path.recovery.bytes_in_flight(), 6_000);
    assert!(path.recovery.is_app_limited());
    assert!(!path.recovery.can_send(1_200));
    path.ack(at(100), &[0..=4]);
    let event = ack_event(&path.notes.take());
    assert!(event.app_limited);
    assert_eq!((event.acked_bytes, event.acked_packets), (3_600, 3));
    assert_eq!((event.largest_acked, event.bytes_in_flight), (2, 0));
    assert_eq!(event.rate.unwrap().prior_delivered, 0);
    // Alone they are no news; lost they are a loss.
    (0..4).for_each(|_| fill(&mut path, at(200)));
    path.ack(at(300), &[8..=8]);
    let told = path.notes.take();
    assert!(!told.iter().any(|told| matches!(told, Told::Ack(_))));
    assert!(
        told.iter()
            .any(|told| matches!(told, Told::Loss { packets, .. } if packets.len() == 1))
    );
}

#[test]
fn an_interval_below_the_minimum_rtt_is_no_sample() {
    for (min_rtt, valid) in [(Some(ms(51)), false), (Some(ms(50)), true), (None, true)] {
        let mut rate = DeliveryRate::new(at(0));
        rate.on_send(at(10), true);
        let packet = SentPacket::new(at(10), MTU, rate.snapshot(u64::from(MTU)));
        rate.on_acked(0, &packet, at(60));
        assert_eq!(rate.take_sample(min_rtt).is_some(), valid);
        assert!(rate.take_sample(min_rtt).is_none(), "one ACK, one sample");
    }
}

// -- ECN, RFC 9000 s13.4.2 and A.4 --

fn send_marked(path: &mut TestPath, now: Instant) -> PacketNumber {
    let ecn = path.recovery.ecn_mark();
    path.send_in(SpaceKind::Data, now, |p| p.ecn = ecn)
}

#[test]
fn marks_that_arrive_make_the_path_capable() {
    let mut path = TestPath::new();
    assert_eq!(path.recovery.ecn_phase(), EcnPhase::Testing);
    for _ in 0..10 {
        assert_eq!(path.recovery.ecn_mark(), Ecn::Ect0);
        send_marked(&mut path, at(0));
    }
    assert_eq!(path.recovery.ecn_phase(), EcnPhase::Unknown);
    assert_eq!(
        path.recovery.ecn_mark(),
        Ecn::NotEct,
        "ten are enough for a test"
    );
    let summary = path.ack_ecn(at(100), &[0..=4], (5, 0, 0));
    assert_eq!(summary.ecn_changed, Some(EcnPhase::Capable));
    assert_eq!(path.recovery.ecn_mark(), Ecn::Ect0);
    assert!(
        path.notes
            .take()
            .iter()
            .all(|told| matches!(told, Told::Ack(_)))
    );
}

#[test]
fn more_ce_marks_are_congestion() {
    let mut path = TestPath::new();
    for _ in 0..10 {
        send_marked(&mut path, at(0));
    }
    let summary = path.ack_ecn(at(100), &[0..=4], (3, 0, 2));
    assert_eq!(summary.ce_marks, 2);
    let told = path.notes.take();
    let Told::Ecn(event) = &told[0] else {
        panic!("{told:?}")
    };
    assert_eq!(
        (
            event.ce_packets,
            event.largest_acked,
            event.largest_acked_sent
        ),
        (2, 4, at(0))
    );
    // The same count again is nothing new; an ACK that raises nothing is not looked at.
    assert_eq!(path.ack_ecn(at(101), &[0..=5], (4, 0, 2)).ce_marks, 0);
    path.ack_ecn(at(102), &[0..=5], (0, 0, 0));
    assert_eq!(path.recovery.ecn_phase(), EcnPhase::Capable);
    assert_eq!(path.recovery.stats().ce_marks, 2);
}

#[test]
fn wrong_reports_fail_validation() {
    let reports = [
        (None, "no counts"),
        (Some((4, 0, 0)), "one mark cleared"),
        (Some((0, 5, 0)), "remarked to ECT(1), which we never send"),
        (Some((11, 0, 0)), "more than were sent"),
        (Some((5, 0, 99)), "more CE than were sent"),
    ];
    for (report, why) in reports {
        let mut path = TestPath::new();
        for _ in 0..10 {
            send_marked(&mut path, at(0));
        }
        let ecn = report.map(|(ect0, ect1, ce)| EcnCounts { ect0, ect1, ce });
        path.try_ack_in(SpaceKind::Data, at(100), &[0..=4], ecn)
            .unwrap();
        assert_eq!(path.recovery.ecn_phase(), EcnPhase::Failed, "{why}");
        assert_eq!(path.recovery.ecn_mark(), Ecn::NotEct);
    }
}

#[test]
fn counts_that_shrink_fail_validation() {
    let mut path = TestPath::new();
    for _ in 0..10 {
        send_marked(&mut path, at(0));
    }
    path.ack_ecn(at(100), &[0..=4], (4, 0, 1));
    path.ack_ecn(at(100), &[0..=5], (6, 0, 0));
    assert_eq!(path.recovery.ecn_phase(), EcnPhase::Failed);
}

#[test]
fn losing_every_marked_packet_fails_validation() {
    let mut path = TestPath::new();
    for _ in 0..10 {
        send_marked(&mut path, at(0));
    }
    for _ in 0..3 {
        path.send(at(10));
    }
    path.ack(at(500), &[12..=12]);
    assert_eq!(path.recovery.ecn_phase(), EcnPhase::Failed);
}

#[test]
fn the_test_ends_after_three_ptos() {
    let mut path = TestPath::new();
    send_marked(&mut path, at(0));
    send_marked(&mut path, at(2_996));
    assert_eq!(path.recovery.ecn_phase(), EcnPhase::Testing);
    send_marked(&mut path, at(2_997));
    assert_eq!(path.recovery.ecn_phase(), EcnPhase::Unknown);
}

#[test]
fn ecn_can_be_switched_off_and_is_tested_on_each_network_path() {
    let mut path = TestPath::with(|config| config.ecn = false, false);
    assert_eq!(path.recovery.ecn_mark(), Ecn::NotEct);
    path.recovery.reset_for_new_network_path(at(1));
    assert_eq!(path.recovery.ecn_mark(), Ecn::NotEct);
    let mut path = TestPath::new();
    for _ in 0..10 {
        send_marked(&mut path, at(0));
    }
    path.ack(at(100), &[0..=4]);
    assert_eq!(path.recovery.ecn_phase(), EcnPhase::Failed);
    path.recovery.reset_for_new_network_path(at(200));
    let number = send_marked(&mut path, at(200));
    // Packets of the old path arrive without marks; the new path's arrive with them.
    path.ack_ecn(at(300), &[number..=number, 0..=9], (1, 0, 0));
    assert_eq!(path.recovery.ecn_phase(), EcnPhase::Capable);
}

// -- One-way delay --

#[test]
fn one_way_delay_varies_around_half_the_first_rtt() {
    let mut owd = OneWayDelay::default();
    assert_eq!(owd.latest(), None);
    let skew = ms(1_000_000);
    let sample = |owd: &mut OneWayDelay, sent, delay| {
        owd.on_sample(at(sent), skew + ms(sent + delay), ms(100));
    };
    sample(&mut owd, 0, 70);
    assert_eq!(owd.latest(), Some(ms(50)), "half the round trip");
    sample(&mut owd, 10, 60);
    assert_eq!((owd.latest(), owd.min()), (Some(ms(40)), Some(ms(40))));
    sample(&mut owd, 20, 90);
    assert_eq!(owd.latest(), Some(ms(70)));
    assert_eq!(owd.variation(), Some(ms(30)), "true: 90 - 60");
    sample(&mut owd, 30, 0);
    assert_eq!(owd.latest(), Some(ms(0)), "below zero is not shown");
}

#[test]
fn what_is_overdue_is_known_before_a_probe_timeout() {
    let acks = |together| PeerAcks {
        together,
        max_delay: ms(25),
    };
    let mut path = TestPath::new();
    // Ten round trips of 40 ms.
    for round in 0..10 {
        path.send_many(at(100 * round), 10);
        path.ack(at(100 * round + 40), &[10 * round..=10 * round + 9]);
    }
    let begins = |path: &mut TestPath, here| {
        let rule = path.recovery.overdue(here, acks(2));
        rule.begins(path.data())
    };
    assert_eq!(begins(&mut path, false), None);
    // The acknowledgement of one packet alone may be held back, that of two may not.
    path.send(at(1_000));
    let alone = begins(&mut path, false).expect("one is under way");
    path.send(at(1_001));
    let two = begins(&mut path, false).expect("two are under way");
    let here = begins(&mut path, true).expect("two are under way");
    let timeout = path.timer().expect("a probe timeout");
    assert!(two > at(1_041) && two < alone, "{two:?} {alone:?}");
    assert!(two <= here && here < timeout, "{here:?} {timeout:?}");
    // Who acknowledges each packet holds none back.
    let rule = path.recovery.overdue(false, acks(1));
    assert_eq!(rule.begins(path.data()), Some(alone - ms(25)));
    // What asks for it is acknowledged with all before it.
    path.send_in(SpaceKind::Data, at(1_001), |packet| packet.asks = true);
    let rule = path.recovery.overdue(false, acks(10));
    assert!(rule.begins(path.data()).is_some_and(|at| at < alone));
    path.ack(at(1_045), &[102..=102]);
    // Who acknowledges ten packets together may hold that of nine back.
    let rule = path.recovery.overdue(false, acks(10));
    assert_eq!(rule.begins(path.data()), Some(alone));
    // What was in flight with it may stand before it in a queue: here as much as passes in twenty round trips.
    path.send_many(at(1_002), 198);
    let rule = path.recovery.overdue(false, acks(2));
    let newest = path.data().sent.outstanding().last();
    let queued = newest.map(|(_, packet)| rule.at(packet));
    assert!(queued > Some(at(1_700)), "{queued:?}");
}

#[test]
fn jitter_is_no_standstill() {
    let mut path = TestPath::new();
    // A packet every 100 ms; round trips of 40 to 90 ms.
    let jitter = |number: u64| 40 + 17 * number % 51;
    for number in 0..100 {
        path.send(at(100 * number));
        path.ack(at(100 * number + jitter(number)), &[number..=number]);
    }
    let still = |path: &TestPath, now| path.recovery.standstill(at(now)).share;
    assert_eq!(still(&path, 10_000), 0.0);
    // 300 ms are more than that explains.
    path.send(at(10_000));
    path.ack(at(10_300), &[100..=100]);
    let share = still(&path, 10_300);
    assert!(share > 0.01, "{share}");
    // It is forgotten.
    for number in 101..1_400 {
        path.send(at(100 * number));
        path.ack(at(100 * number + jitter(number)), &[number..=number]);
    }
    assert_eq!(still(&path, 140_000), 0.0);
}
