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

/// A cubic flow beside it keeps between 0.35 and 0.65, whenever the second joins, and the queue drops no
/// more than with `bbr3`. Of fourteen moments to join, 3 s apart: where in cubic's sawtooth it is decides by
/// how much the queue overflows, and no seed changes that.
#[test]
fn leaves_cubic_its_share() {
    for cubic_first in [true, false] {
        let drops = |name: &str| -> u64 {
            let ours = by_name(name);
            let of = |gap| {
                let mut flows = [by_name("cubic"), ours.clone()];
                if !cubic_first {
                    flows.reverse();
                }
                let run = bars::shares(11, &named("geo"), &flows, gap, secs(60), secs(180));
                let share = run.share(usize::from(!cubic_first));
                println!(
                    "cubic beside {name} (cubic first: {cubic_first}), {gap:?} later: {share:.3}, {} drops",
                    run.queue_drops
                );
                if name == "bbr3-taut" {
                    assert!((0.35..=0.65).contains(&share), "{share:.3}");
                    assert!(run.used > 0.9, "{:.3}", run.used);
                }
                run.queue_drops
            };
            (5..45).step_by(3).map(|gap| of(secs(gap))).sum()
        };
        let (taut, draft) = (drops("bbr3-taut"), drops("bbr3"));
        println!("{taut} drops, bbr3 {draft}");
        assert!(taut <= draft, "{taut} drops, bbr3 {draft}");
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
