//! The same seed gives the same bytes at the same times, in any process.

use std::process::Command;

use tautline_sim::{Jitter, LossModel, Rebind, RebindSchedule, Reordering};
use tautline_testkit::apps::Job;

use crate::kit::{MS, SECOND, Setup, wire};

/// Everything at once: handshakes, resumption, early data, loss, jitter, corruption, rebinding.
fn run(seed: u64) -> String {
    let mut link = wire(20, 30);
    for direction in [&mut link.forward, &mut link.backward] {
        direction.loss = LossModel::uniform(0.02);
        direction.corruption = LossModel::uniform(0.01);
        direction.jitter = Some(Jitter::reorder(3 * MS));
        direction.duplication = 0.01;
        direction.reordering = Some(Reordering {
            probability: 0.02,
            extra: 10 * MS,
        });
    }
    let mut setup = Setup::new(seed, link);
    setup.scenario.rebind = Some(RebindSchedule {
        kind: Rebind::Port,
        first: SECOND,
        every: Some(3 * SECOND),
    });
    setup.client.keep_alive_interval = Some(SECOND);
    let jobs = [
        Job::new(&[200_000, 10_000]),
        Job::new(&[1_000; 30]).early(),
        Job::new(&[1_000_000]).early(),
    ];
    let mut net = setup.sequence(jobs);
    net.world.enable_hash();
    net.finish(120 * SECOND);
    let hash = net.world.trace_hash().expect("enabled");
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn same_seed_same_run() {
    const CHILD: &str = "TAUTLINE_DETERMINISM_CHILD";
    let here = run(77);
    if std::env::var_os(CHILD).is_some() {
        println!("hash={here}");
        return;
    }
    assert_eq!(here, run(77));
    assert_ne!(here, run(78));
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "determinism::same_seed_same_run", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(
        output.contains(&format!("hash={here}")),
        "another process, another run: {output}"
    );
}
