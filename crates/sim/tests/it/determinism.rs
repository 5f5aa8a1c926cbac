//! The same seed gives the same run, byte for byte.

use std::time::Duration;

use tautline_sim::{Reordering, interop, links};

use crate::nodes::{Pair, ms, steady};

fn hash(seed: u64, name: &str) -> [u8; 32] {
    let mut link = links::by_name(name).unwrap();
    link.forward.duplication = 0.01;
    link.forward.reordering = Some(Reordering {
        probability: 0.02,
        extra: ms(3),
    });
    link.backward.corruption = tautline_sim::LossModel::uniform(0.01);
    let mut pair = Pair::with(
        seed,
        link,
        steady(3_000, Duration::from_micros(400), 1_000),
        true,
    );
    let rebind = interop::scenario("rebind-addr").unwrap().rebind.unwrap();
    pair.world.schedule_rebind(pair.a, rebind);
    pair.world
        .run_until(tautline_transport::time::Instant::from_nanos(
            20_000_000_000,
        ));
    pair.world.trace_hash().unwrap()
}

#[test]
fn equal_seeds_give_equal_hashes() {
    for name in ["leo", "mss", "geo-25-3"] {
        assert_eq!(hash(5, name), hash(5, name));
        assert_ne!(hash(5, name), hash(6, name));
    }
}

/// The same value in every process and on every machine.
#[test]
fn the_hash_of_a_known_run() {
    let hex: String = hash(5, "leo")
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(
        hex,
        "d5e474ba8c593d1f70459a49da148f7827a8349c5befb52e40103b2ea4ff505c"
    );
}

#[test]
fn generators_differ_by_label() {
    let world = tautline_sim::World::new(1);
    assert_eq!(world.rng(1).u64(), world.rng(1).u64());
    assert_ne!(world.rng(1).u64(), world.rng(2).u64());
    assert_ne!(world.rng(1).u64(), tautline_sim::World::new(2).rng(1).u64());
}
