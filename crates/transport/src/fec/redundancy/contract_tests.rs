//! What every scheduler of the registry owes, whatever it is shown.

use std::time::Duration;

use proptest::prelude::*;

use super::{
    ByCompany, Fates, InBurst, Measured, Occasion, RedundancyView, Repairs, flec, registry,
};
use crate::{
    fec::{LossEstimate, Strength, SymbolFate},
    time::Instant,
    units::Rate,
};

/// Each with its defaults, and some with options that make them do more.
fn all() -> Vec<super::SharedRedundancyFactory> {
    let options = [
        "flec-bulk:fill-cwnd=on",
        "flec-buffer:c=100,aside=5",
        "flec-message:deadline=250,interval=33",
        "ac-rlnc:c=100",
        "rquic:overlap=64,redundancy=64,tail=on,slow-start=off",
    ];
    let names = registry::names().chain(options);
    names.map(|text| registry::parse(text).unwrap()).collect()
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![0..5u64, 0..1000u64, Just(u64::MAX)]
}

fn share() -> impl Strategy<Value = f64> {
    let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1.0, 1e-300];
    prop_oneof![0.0..1.0, prop::sample::select(odd.to_vec())]
}

prop_compose! {
    fn loss()(
        packets in prop_oneof![Just(0.0), 0.0..1e4, Just(f64::NAN)],
        rate in share(), p in share(), q in share(), mean in share(), deviation in share(),
    ) -> LossEstimate {
        LossEstimate {
            packets,
            rate,
            loss_after_arrival: p,
            arrival_after_loss: q,
            burst_mean: mean * 10.0,
            burst_deviation: deviation * 10.0,
            after_loss: packets * rate,
            now: (packets * p, packets),
            ..LossEstimate::default()
        }
    }
}

prop_compose! {
    fn state()(
        counts in prop::array::uniform12(count()),
        held in any::<u16>(), span in any::<u16>(), queued in any::<u16>(),
        flags in any::<[bool; 4]>(),
        times in prop::array::uniform5(prop_oneof![0..5_000u64, Just(u64::MAX / 4_000_000)]),
        loss in loss(), elsewhere in loss(), expected_losses in share(),
    ) -> RedundancyView {
        let [sources, uncovered, in_flight, missing, retransmitted, burst_bytes, repairs_in_flight,
            flow, waiting_bytes, congestion_window, bytes_in_flight, datagram_bytes] = counts;
        let [idle, held_back, slow_start, told] = flags;
        let [now, rtt, one_way, deadline, next] = times.map(Duration::from_millis);
        let at = |time| Instant::ZERO + time;
        RedundancyView {
            now: at(now), held, span, sources, uncovered, in_flight, missing, retransmitted,
            burst_bytes, burst_interval: told.then_some(one_way), left_bytes: burst_bytes, queued, repairs_in_flight, idle, held_back,
            flow_window: told.then_some(flow),
            waiting_bytes, window_bytes: waiting_bytes, congestion_window, bytes_in_flight,
            datagram_bytes, slow_start, smoothed_rtt: rtt, min_rtt: rtt / 2, calm_rtt: one_way, one_way_delay: one_way,
            probe_timeout: rtt.saturating_mul(3),
            capacity: told.then_some(Rate::from_bytes_per_second(flow)),
            deadline: told.then(|| at(deadline)),
            lifetime: told.then_some(one_way),
            sent_deadline: told.then(|| at(deadline)),
            stream_ends: held_back,
            more_waits: !idle,
            ends_in: told.then_some(flow),
            repeats: !idle,
            next_message_at: told.then(|| at(next)),
            loss,
            by_company: by_company(sources, missing, repairs_in_flight),
            repair_loss: slow_start.then_some(elsewhere),
            expected_losses: expected_losses * 300.0,
            several: held_back,
            paths: queued % 4,
            strength: match sources % 3 {
                0 => Strength::Any,
                1 => Strength::Groups(held),
                _ => Strength::Random(0.5),
            },
        }
    }
}

/// Packets and losses of such counts, which need not grow from one view to the next.
fn by_company(packets: u64, lost: u64, beside: u64) -> ByCompany {
    let fates = |packets, lost| Fates {
        packets,
        lost,
        rows: lost / 2,
    };
    ByCompany {
        alone: fates(packets, lost),
        beside_repairs: fates(beside, packets),
    }
}

/// A packet that came back, of such a view's times and counts.
fn measured(view: &RedundancyView) -> Measured {
    let told = view.burst_interval.is_some();
    Measured {
        sent: view.now,
        round_trip: view.smoothed_rtt,
        after_repair: told.then_some(view.one_way_delay),
        in_burst: Some(InBurst {
            burst: view.sources % 4,
            packets: u32::from(view.held),
            bytes: view.burst_bytes,
        })
        .filter(|_| view.idle),
    }
}

/// What became of a source symbol: all there is, of neighbours and from view to view another.
fn fate(view: &RedundancyView, id: u64) -> Option<SymbolFate> {
    use SymbolFate::{Acked, InFlight, Recovered, Resent, Waiting};
    let fates = [InFlight, Acked, Recovered, Waiting, Resent].map(Some);
    let index = id.wrapping_add(view.held.into()) % 6;
    fates.get(index as usize).copied().flatten()
}

fn occasion() -> impl Strategy<Value = Occasion> {
    prop::sample::select(vec![
        Occasion::SlotFree,
        Occasion::Feedback,
        Occasion::BurstEnd,
        Occasion::Timer,
        Occasion::SlotIdle,
    ])
}

proptest! {
    /// No view makes one panic, run without end, or speak without end.
    #[test]
    fn any_views_in_any_order(asked in prop::collection::vec((occasion(), state()), 1..40)) {
        for factory in all() {
            let mut scheduler = factory.build();
            for (occasion, view) in &asked {
                scheduler.protects(view);
                let known = view.idle.then_some(view.uncovered);
                scheduler.look(view.now, known, &|id| fate(view, id));
                let repairs = scheduler.ask(*occasion, view);
                let quirl = scheduler.name().starts_with("quirl");
                prop_assert!(quirl || repairs.count <= flec::MOST, "{scheduler:?} {repairs:?}");
                let _ = (scheduler.timer(), scheduler.plans(view.sources));
                scheduler.on_round_trip(view.now, measured(view));
            }
        }
    }

    /// The same views, the same answers.
    #[test]
    fn no_chance(asked in prop::collection::vec((occasion(), state()), 1..10)) {
        for factory in all() {
            let answers = || {
                let mut scheduler = factory.build();
                let answers = asked.iter().map(|(occasion, view)| scheduler.ask(*occasion, view));
                answers.collect::<Vec<Repairs>>()
            };
            prop_assert_eq!(answers(), answers());
        }
    }
}
