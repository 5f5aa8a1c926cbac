//! `cubic` by itself, beside `newreno`, and against each.

use std::time::Duration;

use tautline_sim::PAYLOAD_SHARE;
use tautline_testkit::figure::{Flow, Trial, median};

use crate::{link, lossy, named, run, secs, seeds, utilisation};

#[test]
fn fills_wifi() {
    let share = utilisation(&named("wifi"), "cubic", secs(60)) / PAYLOAD_SHARE;
    println!("cubic on wifi, 60 s: {share:.4} R");
    assert!(share >= 0.985);
}

/// RFC 9438 s5.1: where the product of bandwidth and delay is large, CUBIC uses far more of it
/// than Reno; table 2 of the RFC at a loss rate of 1e-4.
#[test]
fn outgrows_newreno_on_long_fat_links() {
    let link = lossy(link(100.0, 200, 0.5), 1e-4);
    let (cubic, newreno) = (
        utilisation(&link, "cubic", secs(60)),
        utilisation(&link, "newreno", secs(60)),
    );
    println!("100 Mb/s, 200 ms, 0.01 %: cubic {cubic:.3}, newreno {newreno:.3} of capacity");
    assert!(cubic > 1.3 * newreno);
}

/// RFC 9438 s4.3, s5.1: at short round trips and small windows CUBIC does as Reno.
#[test]
fn equals_newreno_where_windows_are_small() {
    for (mbit, rtt, loss) in [(10.0, 10, 0.02), (10.0, 20, 0.01), (50.0, 10, 0.005)] {
        let link = lossy(link(mbit, rtt, 1.0), loss);
        let (cubic, newreno) = (
            utilisation(&link, "cubic", secs(30)),
            utilisation(&link, "newreno", secs(30)),
        );
        println!(
            "{mbit} Mb/s, {rtt} ms, {} %: cubic {cubic:.3}, newreno {newreno:.3}",
            loss * 100.0
        );
        assert!((0.95..1.35).contains(&(cubic / newreno)));
    }
}

/// RFC 9438 s5.1, s5.6: beside a Reno flow on a short path CUBIC takes no more than its share.
#[test]
fn shares_a_short_path_with_newreno() {
    for (mbit, rtt) in [(10.0, 20), (20.0, 10), (4.0, 50)] {
        let share = median(seeds().map(|seed| {
            let flows = [
                Flow::endless("cubic"),
                Flow::endless("newreno").starting(secs(1)),
            ];
            let report = run(&Trial::of(seed, link(mbit, rtt, 1.0), flows), secs(60));
            let rates = report
                .flows
                .iter()
                .map(|flow| flow.goodput(secs(10), secs(60)));
            let rates: Vec<f64> = rates.collect();
            rates[0] / (rates[0] + rates[1])
        }));
        println!("{mbit} Mb/s, {rtt} ms: cubic has {share:.3} beside newreno");
        assert!((0.35..0.68).contains(&share));
    }
}

/// RFC 9438 s5.8 (fast convergence): a second flow gets its half. The median of times to begin: what its start-up loses, and
/// with it the window that it begins with, depends on the state of the queue.
#[test]
fn two_flows_converge() {
    for (name, from, to) in [
        ("wifi", 20, 60),
        ("cellular", 40, 120),
        ("terrestrial", 60, 180),
    ] {
        let jain = median((0..7).map(|tenth| {
            let begin = secs(5) + Duration::from_millis(100 * tenth);
            let flows = [
                Flow::endless("cubic"),
                Flow::endless("cubic").starting(begin),
            ];
            let report = run(&Trial::of(1, named(name), flows), secs(to));
            let used = report
                .flows
                .iter()
                .map(|flow| flow.goodput(secs(from), secs(to)))
                .sum::<f64>()
                / report.bits_per_second();
            assert!(used > 0.9, "{name}: {used:.3} of capacity together");
            report.jain(secs(from), secs(to))
        }));
        println!("{name}: two cubic flows, Jain {jain:.4} from {from} s to {to} s");
        assert!(jain > 0.95);
    }
}

/// Four flows that begin one after the other.
#[test]
fn four_flows_share() {
    let jain = median(seeds().map(|seed| {
        let flows = (0..4).map(|i| Flow::endless("cubic").starting(secs(2 * i)));
        run(&Trial::of(seed, named("wifi"), flows), secs(60)).jain(secs(20), secs(60))
    }));
    println!("wifi: four cubic flows, Jain {jain:.4}");
    assert!(jain > 0.9);
}
