//! Any order of sends, acknowledgements, timeouts and resets.

use std::ops::RangeInclusive;

use proptest::prelude::*;

use super::{test_path::*, *};
use crate::{space::SpaceKind, units::Ecn, wire::EcnCounts};

#[derive(Clone, Debug)]
enum Step {
    Send {
        kind: u8,
        eliciting: bool,
        mtu_probe: bool,
        bytes: u16,
        marked: bool,
    },
    /// Offsets below the next number, as pairs of gap and length, from the top.
    Ack {
        kind: u8,
        ranges: Vec<(u64, u64)>,
        ecn: Option<(u64, u64, u64)>,
    },
    Pass(u64),
    FireTimer,
    Discard(u8),
    RetransmitAll,
    NewNetworkPath,
    Mtu(u16),
    Window(u64),
    AppLimited,
    Resend(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0_u8..3, prop::bool::weighted(0.9), prop::bool::weighted(0.05), 30_u16..1_500, any::<bool>())
            .prop_map(|(kind, eliciting, mtu_probe, bytes, marked)| Step::Send {
                kind, eliciting, mtu_probe, bytes, marked
            }),
        8 => (
            0_u8..3,
            prop::collection::vec((0_u64..6, 0_u64..8), 1..5),
            prop::option::of((0_u64..30, 0_u64..2, 0_u64..10)),
        )
            .prop_map(|(kind, ranges, ecn)| Step::Ack { kind, ranges, ecn }),
        4 => (0_u64..400).prop_map(Step::Pass),
        3 => Just(Step::FireTimer),
        1 => (0_u8..2).prop_map(Step::Discard),
        1 => Just(Step::RetransmitAll),
        1 => Just(Step::NewNetworkPath),
        1 => (1_200_u16..9_000).prop_map(Step::Mtu),
        1 => any::<u64>().prop_map(Step::Window),
        1 => Just(Step::AppLimited),
        1 => (0_usize..4).prop_map(Step::Resend),
    ]
}

fn kind_of(index: u8) -> SpaceKind {
    match index {
        0 => SpaceKind::Initial,
        1 => SpaceKind::Handshake,
        _ => SpaceKind::Data,
    }
}

/// Ranges below `end`, descending and disjoint; `None` if there is no room for one.
fn ranges_below(end: u64, wanted: &[(u64, u64)]) -> Option<Vec<RangeInclusive<u64>>> {
    let mut ranges = Vec::new();
    let mut top = end.checked_sub(1)?;
    for &(gap, len) in wanted {
        let Some(last) = top.checked_sub(gap) else {
            break;
        };
        let first = last.saturating_sub(len);
        ranges.push(first..=last);
        let Some(next) = first.checked_sub(2) else {
            break;
        };
        top = next;
    }
    (!ranges.is_empty()).then_some(ranges)
}

fn run(path: &mut TestPath, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut now = at(0);
    let mut lost_total = 0;
    for step in steps {
        match step {
            Step::Send {
                kind,
                eliciting,
                mtu_probe,
                bytes,
                marked,
            } => {
                let ecn = if marked {
                    path.recovery.ecn_mark()
                } else {
                    Ecn::NotEct
                };
                path.send_in(kind_of(kind), now, |packet| {
                    packet.ack_eliciting = eliciting;
                    packet.in_flight = eliciting;
                    packet.mtu_probe = mtu_probe && eliciting;
                    packet.bytes = bytes;
                    packet.ecn = ecn;
                });
            }
            Step::Ack { kind, ranges, ecn } => {
                let kind = kind_of(kind);
                let end = path.spaces[kind as usize].peek_packet_number();
                let ecn = ecn.map(|(ect0, ect1, ce)| EcnCounts { ect0, ect1, ce });
                if let Some(ranges) = ranges_below(end, &ranges) {
                    // A range may hold a skipped number; then nothing may change.
                    let before = path.recovery.bytes_in_flight();
                    if path.try_ack_in(kind, now, &ranges, ecn).is_err() {
                        prop_assert_eq!(path.recovery.bytes_in_flight(), before);
                    }
                }
            }
            Step::Pass(millis) => now += ms(millis),
            Step::FireTimer => {
                if let Some(timer) = path.timer() {
                    now = now.max(timer);
                    prop_assert_ne!(path.timeout(now), TimerAction::Nothing);
                } else {
                    prop_assert_eq!(path.timeout(now), TimerAction::Nothing);
                }
            }
            Step::Discard(kind) => path.discard(kind_of(kind)),
            Step::RetransmitAll => {
                let TestPath {
                    recovery,
                    spaces,
                    fates,
                    ..
                } = path;
                recovery.retransmit_all(&mut spaces[2], SpaceKind::Data, fates);
                prop_assert!(!path.data().has_ack_eliciting_in_flight());
            }
            Step::NewNetworkPath => path.recovery.reset_for_new_network_path(now),
            Step::Mtu(mtu) => path.recovery.on_mtu(mtu),
            Step::Window(window) => path.notes.set_window(window),
            Step::AppLimited => path.recovery.set_app_limited(now),
            Step::Resend(packets) => {
                let TestPath {
                    recovery,
                    spaces,
                    fates,
                    ..
                } = path;
                recovery.resend_oldest(&mut spaces[2], packets, fates);
            }
        }
        prop_assert_eq!(path.recovery.bytes_in_flight(), path.counted_in_flight());
        for space in &path.spaces {
            let eliciting = space
                .sent
                .outstanding()
                .filter(|(_, packet)| packet.ack_eliciting)
                .count();
            prop_assert_eq!(space.sent.eliciting_outstanding(), eliciting);
            // Whatever the largest acknowledged overtook is lost or has a time set.
            if let Some(largest) = space.largest_acked {
                let waiting = space
                    .sent
                    .outstanding()
                    .any(|(number, _)| number <= largest);
                prop_assert!(!waiting || space.loss_time.is_some());
            }
        }
        let lost = path.recovery.stats().packets_lost;
        prop_assert!(lost >= lost_total);
        lost_total = lost;
        prop_assert!(path.recovery.window() >= 2 * 1_200);
        path.recovery.next_send_time(now, 1_200);
        path.recovery.metrics();
    }
    Ok(())
}

proptest! {
    #[test]
    fn bytes_in_flight_stay_exact(steps in prop::collection::vec(step(), 1..250)) {
        run(&mut TestPath::with(|_| {}, true), steps)?;
    }

    #[test]
    fn bytes_in_flight_stay_exact_in_a_small_ring(steps in prop::collection::vec(step(), 1..250)) {
        run(&mut TestPath::with(|config| config.limits.sent_packets = 16, false), steps)?;
    }

    #[test]
    fn real_controllers_survive(steps in prop::collection::vec(step(), 1..250), which in 0_usize..8) {
        let names: Vec<_> = crate::congestion::registry::names().collect();
        let factory = crate::congestion::registry::by_name(names[which % names.len()]).unwrap();
        run(&mut TestPath::with(|config| config.congestion = factory, true), steps)?;
    }

    /// Every packet's token meets its fate: acknowledged, lost, or still outstanding.
    #[test]
    fn no_token_gets_away(
        count in 1_usize..60,
        acks in prop::collection::vec(prop::collection::vec((0_u64..6, 0_u64..8), 1..4), 0..12),
    ) {
        let mut path = TestPath::new();
        path.send_many(at(0), count);
        for (time, ack) in (100_u64..).zip(acks) {
            if let Some(ranges) = ranges_below(count as u64, &ack) {
                path.ack(at(time), &ranges);
            }
        }
        let outstanding = path.data().sent.outstanding().count();
        let mut settled: Vec<_> =
            path.fates.acked.iter().chain(&path.fates.lost).map(|t| format!("{t:?}")).collect();
        settled.sort();
        settled.dedup();
        prop_assert_eq!(settled.len() + outstanding, count);
    }
}
