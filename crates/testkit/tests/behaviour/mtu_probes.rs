//! The first MTU probe: when it leaves, what it brings, and that it costs nothing where it is lost.

use std::sync::Arc;

use tautline_sim::{Direction, LinkConfig, PacketView, rule};
use tautline_testkit::{
    apps::{PatternClient, PatternServer},
    trace::PacketTrace,
};
use tautline_transport::{tls::Level, units::PathId};

use crate::{
    interop::long_chain_server,
    kit::{Kind, Net, SECOND, Setup, headers, wire},
};

const FULL: usize = 1452;
/// What every path takes.
const LEAST: usize = 1200;
/// IPv4 and UDP.
const HEADERS: u32 = 28;

fn link() -> LinkConfig {
    wire(20, 22)
}

type Fetch = Net<PatternClient, PatternServer>;

fn sent(net: &Fetch) -> Vec<PacketTrace> {
    net.server_trace.with(0, |server| server.sent.clone())
}

/// Seconds of a fetch of `len` over `link`, with the server probing or not, where `drops` picks what the
/// network drops on the way to the client.
fn time(
    len: u64,
    link: &LinkConfig,
    probes: bool,
    drops: impl FnMut(&PacketView<'_>) -> bool + Send + 'static,
) -> (f64, Fetch) {
    let mut net = Setup::new(1, link.clone())
        .server(|config| config.mtu.discovery = probes)
        .client(|config| config.mtu.discovery = false)
        .fetch(&[len]);
    net.world
        .add_rule(net.link, Direction::Backward, rule::drop_when(drops));
    net.client_stays();
    let done = net.finish(30 * SECOND);
    (done.since_origin().as_secs_f64(), net)
}

/// The size is known when the answer begins, and with it the window. RFC 9002 s7.2.
#[test]
fn the_answer_begins_with_full_datagrams() {
    let (_, net) = time(100_000, &link(), true, |_| false);
    let sent = sent(&net);
    let probe = sent.iter().position(|packet| packet.bytes == FULL).unwrap();
    let flight = sent[0].time;
    assert_eq!(sent[probe].time, flight, "behind the handshake's flight");
    assert!(
        sent[..probe]
            .iter()
            .any(|packet| packet.level == Level::Handshake)
    );
    // The client's answer to the probe comes behind its request by what the probe took to arrive.
    let data: Vec<_> = sent
        .iter()
        .filter(|packet| packet.stream_bytes() > 0)
        .collect();
    let small = data.iter().filter(|packet| packet.bytes == LEAST).count();
    assert!(small <= 2, "{small}");
    // What room the first flights leave behind full datagrams is used, and the answer ends.
    let parts = data
        .iter()
        .filter(|packet| packet.bytes < FULL && packet.bytes != LEAST);
    assert!(parts.count() <= 2);
    let first = data[0].time;
    let round: usize = data
        .iter()
        .filter(|packet| packet.time.saturating_since(first) < 2 * link().forward.delay)
        .map(|packet| packet.bytes)
        .sum();
    assert!((13_500..=14_520).contains(&round), "{round}");
    net.server_trace.with(0, |server| {
        assert_eq!((server.mtus.as_slice(), server.lost), (&[1452][..], 0));
    });
}

/// Certificates that use up what an address may get before it is proven leave no room. RFC 9000 s8.1.
#[test]
fn a_large_handshake_leaves_no_room_for_a_probe() {
    let mut setup = Setup::new(1, link());
    setup.server_tls = Arc::new(long_chain_server(1));
    let mut net = setup.fetch(&[100_000]);
    net.finish(10 * SECOND);
    let proven = net.tap.heard(Direction::Forward).into_iter().find(|heard| {
        let packets = headers(&heard.payload);
        packets.iter().any(|packet| packet.kind == Kind::Handshake)
    });
    let proven = proven.unwrap().time;
    let sent = sent(&net);
    let mut before = sent.iter().filter(|packet| packet.time < proven);
    assert!(before.all(|packet| packet.bytes <= 1_200));
    assert!(sent.iter().any(|packet| packet.bytes == FULL));
}

/// Where nothing larger arrives, a probe costs no time.
#[test]
fn a_narrow_path_is_as_fast_as_without_probes() {
    let mut narrow = link();
    narrow.forward.mtu = 1_228;
    narrow.backward.mtu = 1_228;
    for len in [1_000, 12_000, 30_000, 100_000] {
        let (with, net) = time(len, &narrow, true, |_| false);
        let (without, _) = time(len, &narrow, false, |_| false);
        println!("{len}: {with:.4} {without:.4}");
        // Probes behind the first window take their turn in the pacer.
        assert!(with < 1.02 * without, "{len}: {with} {without}");
        let (_, server) = net.server_host().connections().next().unwrap();
        let stats = server.path_stats(PathId::ZERO).unwrap();
        assert_eq!((stats.mtu, stats.recovery.loss_events), (1200, 0), "{len}");
    }
}

/// A client that drops what it has no keys for yet never acknowledges it. The next probe is the first that
/// counts.
#[test]
fn a_client_that_ignores_early_packets_loses_nothing() {
    for len in [1_000, 12_000, 100_000] {
        let mut first = true;
        let (with, net) = time(len, &link(), true, move |packet| {
            packet.ip_bytes == FULL as u32 + HEADERS && std::mem::take(&mut first)
        });
        let (without, _) = time(len, &link(), false, |_| false);
        println!("{len}: {with:.4} {without:.4}");
        assert!(with < without + 0.001, "{len}: {with} {without}");
        let (_, server) = net.server_host().connections().next().unwrap();
        let stats = server.path_stats(PathId::ZERO).unwrap();
        assert_eq!((stats.recovery.loss_events, stats.recovery.ptos), (0, 0));
        if len == 100_000 {
            assert_eq!(stats.mtu, 1452);
        }
    }
}

/// The probe has taken room that a repetition of the flight would need; the client asks for it at the
/// same time, and makes room.
#[test]
fn a_lost_first_flight_is_repeated_as_soon_as_without_a_probe() {
    for lost in 1..=2 {
        let drops = move |packet: &PacketView<'_>| packet.index < lost;
        let (with, _) = time(5_000, &link(), true, drops);
        // Without a probe the flight is the first datagram alone.
        let (without, _) = time(5_000, &link(), false, |packet| packet.index < 1);
        println!("{lost}: {with:.4} {without:.4}");
        assert!(with < without + 0.005, "{lost}: {with} {without}");
    }
}

/// An upload that leaves no moment without data is of large datagrams from its third flight on.
#[test]
fn a_long_upload_probes_in_its_first_flight() {
    let mut net = Setup::new(2, link()).fetch(&[1_000]);
    net.change_client(|client| client.request_padding = 100_000);
    net.finish(10 * SECOND);
    net.client_trace.with(0, |client| {
        let data: Vec<_> = client
            .sent
            .iter()
            .filter(|packet| packet.stream_bytes() > 0)
            .collect();
        let probe = client.sent.iter().find(|packet| packet.bytes == FULL);
        let probe = probe.expect("a probe");
        assert_eq!(probe.stream_bytes(), 0);
        let (first, flight) = (data[0], link().forward.delay);
        assert!(probe.number > first.number, "behind what begins the upload");
        assert!(probe.time < first.time + flight);
        let small = data.iter().filter(|packet| packet.bytes <= LEAST).count();
        assert!(small <= 15, "{small}");
    });
}
