//! One packet that a second path loses, wherever it may be: nobody waits for it longer than for the better path.

use tautline_sim::{Direction, LinkConfig, PacketView, Verdict};

use crate::{
    kit::{SECOND, wire},
    multipath::{fetch_time, over},
};

/// Full datagrams, and nothing smaller.
const FULL: usize = 1_000;

/// Seconds that `bytes` take over two links with `cubic`, whose second loses the full datagram `lost` from the server.
fn time_without(links: &[LinkConfig; 2], bytes: u64, lost: u64) -> f64 {
    let (mut net, ids) = over(1, links, "auto", &[bytes], |setup| setup);
    let mut seen: u64 = 0;
    let rule = move |packet: &PacketView<'_>| {
        seen += u64::from(packet.payload.len() >= FULL);
        if packet.payload.len() >= FULL && seen == lost {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    };
    net.world.add_rule(ids[1], Direction::Backward, rule);
    fetch_time(&mut net, 60 * SECOND)
}

/// The same over the better link alone.
fn time_alone(link: &LinkConfig, bytes: u64) -> f64 {
    let links = std::slice::from_ref(link);
    let (mut net, _) = over(1, links, "auto", &[bytes], |setup| setup);
    fetch_time(&mut net, 60 * SECOND)
}

#[test]
fn the_end_of_a_transfer_does_not_wait_for_what_a_young_path_loses() {
    // Nothing has shown that the second path loses packets, and to find this one out takes its round trip and more.
    let (better, other) = (wire(300, 8), wire(30, 40));
    let alone = time_alone(&better, 10_000_000);
    let links = [better, other];
    let times = (1..=120)
        .step_by(3)
        .map(|lost| time_without(&links, 10_000_000, lost));
    let worst = times.fold(0.0, f64::max);
    println!("{:.3}", worst / alone);
    assert!(worst < 1.05 * alone, "{worst} {alone}");
}

#[test]
fn a_window_does_not_wait_for_what_a_far_path_lost() {
    // The receiver's window, which grows yet, lets the better path go on for less than the far one takes to tell of a loss.
    let (better, other) = (wire(40, 35), wire(20, 320));
    let alone = time_alone(&better, 15_000_000);
    let links = [better, other];
    let times = (8..=18).map(|lost| time_without(&links, 15_000_000, lost));
    let worst = times.fold(0.0, f64::max);
    println!("{:.3}", worst / alone);
    assert!(worst < 1.05 * alone, "{worst} {alone}");
}
