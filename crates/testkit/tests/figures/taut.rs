//! `bbr3-taut`: its bars on the satellite, one or two seeds each. The whole table, with more seeds
//! and with each rule off: `cargo run --release -p tautline-testkit --example taut`.

use std::time::Duration;

use tautline_testkit::{bars, figure::median};
use tautline_transport::congestion::{SharedControllerFactory, registry};

use crate::{named, secs};

fn by_name(name: &str) -> SharedControllerFactory {
    registry::by_name(name).unwrap_or_else(|| panic!("no controller is called {name}"))
}

fn taut() -> SharedControllerFactory {
    by_name("bbr3-taut")
}

/// At least 0.93 R at up to 2 %. At 5 % that is a goal: 0.917 here, 0.935 as the median of three
/// other seeds; the bar below only tells when it falls further.
#[test]
fn survives_loss_on_geo() {
    for loss in [0.0, 0.02, 0.05] {
        let (share, _) = bars::goodput(11, &named("geo"), loss, &taut(), secs(180));
        println!("bbr3-taut on geo, {} % loss: {share:.4} R", 100.0 * loss);
        let bar = if loss > 0.02 { 0.90 } else { 0.93 };
        assert!(share >= bar, "{share:.4}");
    }
}

#[test]
fn survives_loss_on_short_links() {
    for link in ["wifi", "cellular"] {
        for loss in [0.0, 0.02] {
            let (share, _) = bars::goodput(11, &named(link), loss, &taut(), secs(30));
            println!("bbr3-taut on {link}, {} % loss: {share:.4} R", 100.0 * loss);
            assert!(share >= 0.93, "{share:.4}");
        }
    }
}

/// One flow beside a cubic one, the second 5 to 45 s after the first: cubic's share from 60 to 180 s, and
/// what the queue drops.
fn beside_cubic(name: &str, cubic_first: bool, gap: u64, seed: u64) -> (f64, u64) {
    let mut flows = [by_name("cubic"), by_name(name)];
    if !cubic_first {
        flows.reverse();
    }
    let gap = secs(gap);
    let run = bars::shares(seed, &named("geo"), &flows, gap, secs(60), secs(180));
    let share = run.share(usize::from(!cubic_first));
    println!(
        "cubic beside {name} (cubic first: {cubic_first}), {gap:?} later: {share:.3}, {} drops",
        run.queue_drops
    );
    if name == "bbr3-taut" {
        assert!(run.used > 0.9, "{:.3}", run.used);
    }
    (share, run.queue_drops)
}

/// A cubic flow beside it keeps between 0.35 and 0.65 where the second joins after 10 s; in the median of other
/// moments in the next test.
#[test]
fn leaves_cubic_its_share() {
    for cubic_first in [true, false] {
        for seed in 11..16 {
            let (share, _) = beside_cubic("bbr3-taut", cubic_first, 10, seed);
            assert!((0.35..=0.65).contains(&share), "{share:.3}");
        }
    }
}

/// The queue drops no more than with `bbr3`. No seed changes where in cubic's sawtooth the second joins, and that
/// decides by how much the queue overflows: so many moments to join, and what they drop together.
#[test]
fn overflows_less_than_the_draft_beside_cubic() {
    for cubic_first in [true, false] {
        let of = |name: &str| -> Vec<(f64, u64)> {
            let gaps = (5..45).step_by(5);
            gaps.map(|gap| beside_cubic(name, cubic_first, gap, 11))
                .collect()
        };
        let drops = |runs: &[(f64, u64)]| -> u64 { runs.iter().map(|(_, drops)| drops).sum() };
        let (taut, draft) = (of("bbr3-taut"), of("bbr3"));
        let share = median(taut.iter().map(|(share, _)| *share));
        let (taut, draft) = (drops(&taut), drops(&draft));
        println!("{taut} drops, bbr3 {draft}; {share:.3} for cubic");
        assert!(taut <= draft, "{taut} drops, bbr3 {draft}");
        assert!((0.35..=0.65).contains(&share), "{share:.3}");
    }
}

/// All mixes of four flows with cubic.
#[test]
fn mixes_with_cubic_are_fair() {
    for ours in [1, 2, 3] {
        let flows: Vec<_> = (0..4)
            .map(|index| {
                if index < ours {
                    taut()
                } else {
                    by_name("cubic")
                }
            })
            .collect();
        let gap = Duration::from_millis(500);
        let shares = bars::shares(11, &named("geo"), &flows, gap, secs(60), secs(180));
        println!("{ours} of 4 bbr3-taut, else cubic: Jain {:.4}", shares.jain);
        assert!(shares.jain > 0.90, "{:.4}", shares.jain);
    }
}

/// Freed capacity is taken.
#[test]
fn takes_what_others_leave() {
    for (flows, bar) in [(2, 15.0), (4, 25.0)] {
        let rounds = bars::recovery_rounds(11, &named("geo"), flows, &taut());
        println!("one of {flows} left: 90 % of capacity after {rounds:.1} round trips");
        assert!(rounds <= bar);
    }
}

#[test]
fn sixty_four_flows_share() {
    let flows = vec![taut(); 64];
    let shares = bars::shares(
        11,
        &named("geo"),
        &flows,
        Duration::ZERO,
        secs(30),
        secs(180),
    );
    println!("64 flows: Jain {:.4}", shares.jain);
    assert!(shares.jain >= 0.95, "{:.4}", shares.jain);
}

/// A megabyte beside an elephant is no slower than one of `bbr1`, whoever the elephant is:
/// medians of eight times to begin.
#[test]
fn mice_pass() {
    for elephant in ["cubic", "bbr1", "bbr3-taut"] {
        let time = |mouse: &str| {
            let (elephant, mouse) = (by_name(elephant), by_name(mouse));
            median((11..19).map(|seed| bars::mouse(seed, &named("geo"), &elephant, &mouse)))
        };
        let (ours, model) = (time("bbr3-taut"), time("bbr1"));
        println!("1 MB beside {elephant}: bbr3-taut {ours:.2} s, bbr1 {model:.2} s");
        assert!(
            ours <= model,
            "beside {elephant}: {ours:.2} s, {model:.2} s"
        );
    }
}
