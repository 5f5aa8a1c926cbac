//! The audit blames no link that did what it was told, whatever that was.

use std::time::Duration;

use proptest::prelude::*;
use tautline_sim::{
    Direction, DirectionConfig, Handover, LinkConfig, RunEnd, Verdict, audit::audit, rule,
};
use tautline_transport::time::Instant;

use crate::{
    nodes::Pair,
    properties::{direction, traffic, vary},
};

/// What is not in [`direction`]: hand-overs with delays of their own, MTUs, scripted drops, two
/// things at once.
fn further(mut config: DirectionConfig, (kind, seed): (u8, u64)) -> DirectionConfig {
    let varies = config.rate_steps.is_some()
        || config.rate_wander.is_some()
        || config.trace.is_some()
        || config.coding.is_some();
    if !varies || (3..7).contains(&kind) {
        vary(&mut config, kind, seed);
    }
    let jitter = config.jitter.map_or(Duration::ZERO, |jitter| jitter.spread);
    if seed.is_multiple_of(3) {
        config.handover = Some(Handover {
            every: Duration::from_millis(20 + seed % 90),
            offset: Duration::from_micros(seed % 19_000),
            delay_spread: config.delay.saturating_sub(jitter) / 2,
            loss_duration: Duration::from_micros(seed % 5_000),
            loss_probability: if seed.is_multiple_of(2) { 1.0 } else { 0.5 },
            gap: Duration::from_micros(seed % 15_000),
        });
    }
    if seed.is_multiple_of(5) {
        config.mtu = 1228;
    }
    if seed.is_multiple_of(7) {
        let first = seed % 50;
        config.drop_packets = vec![first..=first + 3, 70..=70];
    }
    config
}

fn any_direction() -> impl Strategy<Value = DirectionConfig> {
    (direction(), (0u8..12, any::<u64>())).prop_map(|(config, more)| further(config, more))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_valid_link_is_blamed(
        seed in any::<u64>(),
        forward in any_direction(),
        backward in any_direction(),
        plan in traffic(),
        later in proptest::collection::vec(
            (0u64..300_000, any::<bool>(), any_direction(), 0u8..8),
            0..5,
        ),
        stop_micros in 0u64..2_000_000,
    ) {
        let mut pair = Pair::with(seed, LinkConfig { forward, backward }, plan, true);
        let link = pair.link;
        for (micros, back, config, kind) in later {
            let at = Instant::from_nanos(micros * 1000);
            let way = if back { Direction::Backward } else { Direction::Forward };
            pair.world.schedule(at, move |world| match kind {
                0 => world.set_link_up(link, false),
                1 => world.set_link_up(link, true),
                2 => {
                    let verdicts = [
                        Verdict::Drop,
                        Verdict::Corrupt,
                        Verdict::Duplicate(2),
                        Verdict::Delay(Duration::from_millis(9)),
                    ];
                    let verdict = verdicts[(micros % 4) as usize].clone();
                    let pick = |p: &tautline_sim::PacketView<'_>| p.index.is_multiple_of(5);
                    world.add_rule(link, way, rule::apply_when(verdict, pick));
                }
                // The same again: only what is under way begins anew.
                3 => {
                    let same = world.direction_config(link, way).clone();
                    world.set_direction(link, way, same).unwrap();
                }
                _ => world.set_direction(link, way, config.clone()).unwrap(),
            });
        }
        for stop in [stop_micros * 1_000, 40_000_000_000_000] {
            let end = pair.world.run_until(Instant::from_nanos(stop));
            prop_assert_ne!(end, RunEnd::Stuck);
            let found = audit(&pair.world).unwrap();
            prop_assert!(found.violations.is_empty(), "{:#?}", found.violations);
        }
    }
}
