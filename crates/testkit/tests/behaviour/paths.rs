//! What a peer, or somebody on its way, can draw out of us by changing and probing addresses, and
//! what a path must show before it counts as one.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use tautline_sim::{Datagram, Direction, links};
use tautline_testkit::trace::{FrameTrace, Tap};
use tautline_transport::{
    ack,
    config::PreferredAddresses,
    connection::Event,
    path::PathEvent,
    time::Instant,
    tls::Level,
    units::{Dir, PathId},
    wire::{ConnectionId, Frame, NewConnectionId, ResetToken},
};

use crate::{
    kit::{MS, SECOND, Setup, calm, headers, read_all, wire},
    raw::{Arena, Peer},
};

/// What of the window a sender may fill before anything is acknowledged, RFC 9002 s7.2.
const INITIAL_WINDOW: usize = 14_720;
/// Every path carries this much. RFC 9000 s14.
const FULL: usize = 1_200;

fn elsewhere(peer: &Peer) -> SocketAddr {
    SocketAddr::new(peer.from.ip(), peer.from.port() + 1)
}

fn from(mut datagram: Datagram, src: SocketAddr) -> Datagram {
    datagram.src = src;
    datagram
}

/// Datagrams that came to `dst` since `since` of all, with the frames in them.
fn heard(
    arena: &Arena,
    peer: &mut Peer,
    dst: SocketAddr,
    since: usize,
) -> Vec<(usize, Vec<FrameTrace>)> {
    let datagrams: Vec<Datagram> = arena.inbox()[since..]
        .iter()
        .map(|(_, datagram)| datagram.clone())
        .filter(|datagram| datagram.dst == dst)
        .collect();
    datagrams
        .into_iter()
        .map(|datagram| {
            let before = peer.got.len();
            peer.receive(&datagram.payload);
            let frames = peer.got[before..].iter().flat_map(|got| got.frames());
            (datagram.payload.len(), frames.collect())
        })
        .collect()
}

fn challenges(heard: &[(usize, Vec<FrameTrace>)]) -> Vec<(usize, [u8; 8])> {
    heard
        .iter()
        .flat_map(|(len, frames)| frames.iter().map(move |frame| (*len, frame)))
        .filter_map(|(len, frame)| match frame {
            FrameTrace::PathChallenge(data) => Some((len, *data)),
            _ => None,
        })
        .collect()
}

fn path_events(arena: &Arena) -> Vec<PathEvent> {
    let events = arena.app().events.iter();
    events
        .filter_map(|(_, event)| match event {
            Event::Path(event) => Some(*event),
            _ => None,
        })
        .collect()
}

/// A server whose client's address changed by one small packet, to which it could only send a
/// small challenge, and the answer to that.
fn answered_small(seed: u64) -> (Arena, Peer, SocketAddr, usize) {
    let (mut arena, mut peer) = Arena::confirmed(seed, |_| {});
    let new = elsewhere(&peer);
    let since = arena.inbox().len();
    let moved = peer.one_rtt(&[Frame::Ping]);
    arena.inject(from(moved, new));
    arena.run(30 * MS);
    let first = challenges(&heard(&arena, &mut peer, new, since));
    let [(len, data)] = first[..] else {
        panic!("{first:?}");
    };
    assert!(len < FULL, "{len}");
    let since = arena.inbox().len();
    let answer = peer.one_rtt(&[Frame::PathResponse(data)]);
    arena.inject(from(answer, new));
    arena.run(15 * MS);
    (arena, peer, new, since)
}

/// RFC 9000 s8.2.1: an answer to a challenge that the amplification limit kept small proves the
/// address; that the path carries full datagrams is another question, which must be asked.
#[test]
fn a_small_challenge_is_followed_by_a_full_one() {
    let (mut arena, mut peer, new, since) = answered_small(1);
    let validated = |arena: &Arena| {
        let events = path_events(arena);
        events
            .iter()
            .any(|event| matches!(event, PathEvent::Validated { to, .. } if to.remote == new))
    };
    let second = challenges(&heard(&arena, &mut peer, new, since));
    assert!(
        second.iter().any(|&(len, _)| len >= FULL),
        "no full challenge: {second:?}"
    );
    assert!(!validated(&arena), "a path, before it showed to be one");
    let (_, data) = second[0];
    let answer = peer.one_rtt(&[Frame::PathResponse(data)]);
    arena.inject(from(answer, new));
    arena.run(30 * MS);
    assert!(validated(&arena));
    // That is the end of it.
    let since = arena.inbox().len();
    arena.run(10 * SECOND);
    assert_eq!(challenges(&heard(&arena, &mut peer, new, since)), []);
}

/// Where full datagrams do not arrive, the application hears of it; the address stays, for nobody
/// answers at the old one.
#[test]
fn a_path_too_small_is_reported() {
    let (mut arena, _, new, _) = answered_small(2);
    arena.run(10 * SECOND);
    let failed = path_events(&arena)
        .iter()
        .any(|event| matches!(event, PathEvent::ValidationFailed { to, .. } if to.remote == new));
    assert!(failed, "{:?}", path_events(&arena));
    let at = arena.on_victim(|server, _| server.remote_address());
    assert_eq!(at, new);
    assert_eq!(arena.app().ended(), None);
}

/// ... and if somebody does, the path goes back there.
#[test]
fn a_path_too_small_gives_way_to_one_that_answers() {
    let (mut arena, mut peer, new, _) = answered_small(3);
    let old = peer.from;
    let asked = challenges(&heard(&arena, &mut peer, old, 0));
    let [.., (_, data)] = asked[..] else {
        panic!("the old address was not asked");
    };
    let answer = peer.one_rtt(&[Frame::PathResponse(data)]);
    // The answer shows nothing but that it was heard: no move.
    arena.inject(from(answer, old));
    arena.run(10 * SECOND);
    let at = arena.on_victim(|server, _| server.remote_address());
    assert_eq!(at, old, "not {new}");
}

/// The same with a client of ours and a NAT: the challenge that a download's ACK pays for is small.
#[test]
fn rebinding_in_a_download_validates_with_full_datagrams() {
    let mut net = Setup::new(1, wire(20, 20)).fetch(&[5_000_000]);
    net.run_for(SECOND);
    net.world.rebind(net.client, tautline_sim::Rebind::Port);
    net.client_stays();
    net.finish(30 * SECOND);
    let answered: Vec<[u8; 8]> = net.client_trace.with(0, |client| {
        client
            .frames_sent()
            .filter_map(|frame| match frame {
                FrameTrace::PathResponse(data) => Some(*data),
                _ => None,
            })
            .collect()
    });
    let sizes: Vec<usize> = net.server_trace.with(0, |server| {
        let sent = server.sent.iter();
        sent.filter(|packet| {
            packet.has(
                |frame| matches!(frame, FrameTrace::PathChallenge(data) if answered.contains(data)),
            )
        })
        .map(|packet| packet.bytes)
        .collect()
    });
    assert!(
        sizes.first().is_some_and(|bytes| *bytes < FULL),
        "the case is gone: {sizes:?}"
    );
    assert!(sizes.iter().any(|bytes| *bytes >= FULL), "{sizes:?}");
}

/// PATH_RESPONSEs count against the congestion window wherever they go. RFC 9002 s7.
#[test]
fn answers_to_another_address_respect_the_window() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let new = elsewhere(&peer);
    let moved = peer.one_rtt(&[Frame::Ping]);
    arena.inject(from(moved, new));
    arena.run(5 * MS);
    let since = arena.inbox().len();
    for round in 0..100u64 {
        let frames: Vec<Frame<'_>> = (0..8)
            .map(|n| Frame::PathChallenge((round * 100 + n).to_be_bytes()))
            .collect();
        let datagram = peer.one_rtt(&frames);
        arena.send(datagram);
    }
    arena.run(40 * MS);
    let answers: usize = arena.inbox()[since..]
        .iter()
        .map(|(_, datagram)| datagram.payload.len())
        .sum();
    assert!(answers > 0);
    assert!(answers <= INITIAL_WINDOW + FULL, "{answers}");
    // They leave once there is room.
    arena.collect(&mut peer);
    let honest = peer.honest_ack(Level::OneRtt).unwrap();
    let since = arena.inbox().len();
    let ack = peer.one_rtt_bytes(&honest);
    arena.send(ack);
    arena.run(40 * MS);
    let old = peer.from;
    let more = heard(&arena, &mut peer, old, since);
    let answered = more
        .iter()
        .flat_map(|(_, frames)| frames)
        .any(|frame| matches!(frame, FrameTrace::PathResponse(_)));
    assert!(answered);
}

/// Bytes to `old` while a peer makes the path jump between there and `new` with 200 small packets,
/// 40 ms long, and acknowledges nothing.
fn to_and_fro(seed: u64, other_ip: bool, data: bool) -> (usize, usize) {
    let (mut arena, mut peer) = Arena::confirmed(seed, |_| {});
    let old = peer.from;
    let new = if other_ip {
        SocketAddr::from(([10, 77, 0, 1], old.port()))
    } else {
        elsewhere(&peer)
    };
    if data {
        arena.on_victim(|server, _| {
            let id = server.open_stream(Dir::Uni).unwrap();
            while server.write(id, &[0; 100_000]).unwrap() > 0 {}
        });
        arena.run(50 * MS);
    }
    let tap = Tap::new(&mut arena.world, arena.link);
    for number in 0..200 {
        let datagram = peer.one_rtt(&[Frame::Ping]);
        let src = if number % 2 == 0 { new } else { old };
        arena.inject(from(datagram, src));
        arena.run(MS / 5);
    }
    let sent = tap.heard(Direction::Backward);
    let bytes_to = |dst: SocketAddr| {
        let datagrams = sent.iter().filter(|datagram| datagram.dst == dst);
        datagrams.map(|datagram| datagram.payload.len()).sum()
    };
    let full = |datagram: &&tautline_testkit::trace::TappedDatagram| datagram.payload.len() >= FULL;
    println!(
        "{other_ip} {data}: {} full",
        sent.iter().filter(full).count()
    );
    (bytes_to(old), bytes_to(new))
}

/// A path that jumps between two addresses opens no window and draws no flood of challenges: a
/// validation under way goes on, and full challenges leave about once a PTO. RFC 9000 s8.2.1.
#[test]
fn jumping_between_two_addresses_draws_little() {
    // 200 ACKs at most, of some 40 bytes, and two challenges.
    let acks = 200 * 50;
    let quiet = acks + 2 * FULL;
    for other_ip in [false, true] {
        let (old, new) = to_and_fro(1, other_ip, false);
        assert!(old <= quiet && new <= quiet, "{other_ip}: {old} {new}");
        // With data to send there is the window, once.
        let (old, new) = to_and_fro(2, other_ip, true);
        let most = quiet + INITIAL_WINDOW;
        assert!(old <= most && new <= most, "{other_ip}: {old} {new}");
    }
}

/// A connection ID serves one of our addresses only. RFC 9000 s9.5.
#[test]
fn a_client_that_moves_faster_than_ids_come_waits_for_them() {
    let mut net = Setup::new(4, calm()).manual();
    net.connect();
    let id = net.on_client(|client, _| client.open_stream(Dir::Bi).unwrap());
    for port in 50_001..50_012u16 {
        let new = SocketAddr::from(([10, 0, 0, 1], port));
        net.on_client(|client, now| client.rebind(now, new));
        net.on_client(|client, _| client.write(id, &[1; 100]).unwrap());
        net.run_for(3 * MS);
    }
    net.run_for(SECOND);
    let mut ports: BTreeMap<Vec<u8>, BTreeSet<u16>> = BTreeMap::new();
    for datagram in net.tap.heard(Direction::Forward) {
        for header in headers(&datagram.payload) {
            ports
                .entry(header.dcid)
                .or_default()
                .insert(datagram.src.port());
        }
    }
    for (cid, ports) in ports {
        assert_eq!(ports.len(), 1, "{cid:02x?} from {ports:?}");
    }
    let (data, _) = net.on_server(|server, _| read_all(server, id));
    assert_eq!(data.len(), 1_100);
}

/// A peer that gives no connection IDs loses its privacy by moving, not its connection.
#[test]
fn a_client_without_ids_goes_on_after_a_while() {
    let (mut arena, mut peer) = Arena::client(5);
    let new = SocketAddr::from(([10, 0, 0, 1], 50_001));
    arena.on_victim(|client, now| client.rebind(now, new));
    let since = arena.inbox().len();
    // What left at once would have arrived.
    arena.run(20 * MS);
    assert_eq!(arena.inbox().len(), since, "an ID from two addresses");
    arena.run(2 * SECOND);
    arena.collect(&mut peer);
    let (_, last) = arena.inbox().last().unwrap();
    assert_eq!(last.src, new);
}

/// A probe from another address is answered under an ID of its own, or not at all. RFC 9000 s9.5.
#[test]
fn a_probe_without_a_spare_id_is_not_answered() {
    let (mut arena, mut peer) = Arena::confirmed(6, |_| {});
    let new = elsewhere(&peer);
    let probe = |peer: &mut Peer, number: u8| {
        let mut frames = vec![Frame::PathChallenge([number; 8])];
        frames.push(Frame::Padding { len: 1_200 });
        let datagram = peer.one_rtt(&frames);
        from(datagram, new)
    };
    let since = arena.inbox().len();
    let first = probe(&mut peer, 1);
    arena.inject(first);
    arena.run(100 * MS);
    assert_eq!(heard(&arena, &mut peer, new, since), []);
    let mut fresh = [9; 8];
    fresh[0] = 1;
    let fresh = ConnectionId::new(&fresh).unwrap();
    let given = peer.one_rtt(&[Frame::NewConnectionId(NewConnectionId {
        path: None,
        sequence: 1,
        retire_prior_to: 0,
        cid: fresh,
        token: ResetToken([1; 16]),
    })]);
    arena.send(given);
    arena.run(100 * MS);
    let (_, answer) = arena.inbox()[since..]
        .iter()
        .find(|(_, datagram)| datagram.dst == new)
        .expect("an answer");
    assert_eq!(headers(&answer.payload)[0].dcid, fresh.as_slice());
    let answer = heard(&arena, &mut peer, new, since);
    assert!(answer[0].1.contains(&FrameTrace::PathResponse([1; 8])));
}

/// ACKs are no amplifier: small packets with a gap before each draw about three times their bytes.
#[test]
fn gaps_draw_short_acks() {
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let gaps = |arena: &mut Arena, peer: &mut Peer, count: usize| {
        let mut sent = 0;
        for _ in 0..count {
            peer.numbers[2] += 2;
            let datagram = peer.one_rtt(&[Frame::Ping]);
            sent += datagram.payload.len();
            arena.send(datagram);
        }
        arena.run(40 * MS);
        sent
    };
    gaps(&mut arena, &mut peer, 600);
    let since = arena.inbox().len();
    let sent = gaps(&mut arena, &mut peer, 1_000);
    let got: usize = arena.inbox()[since..]
        .iter()
        .map(|(_, datagram)| datagram.payload.len())
        .sum();
    assert!(got <= 4 * sent, "{got} for {sent}");
    arena.assert_alive(&mut peer);
}

/// Where the peer agreed to acknowledge sooner than it announced, a probe goes out sooner.
#[test]
fn probe_timeout_follows_the_ack_delay_in_force() {
    let frequency = || ack::registry::by_name("frequency").unwrap();
    let mut net = Setup::new(7, calm())
        .server(|server| server.ack_policy = frequency())
        .manual();
    net.connect();
    let id = net.on_server(|server, _| server.open_stream(Dir::Uni).unwrap());
    for _ in 0..40 {
        net.on_server(|server, _| server.write(id, &[1; 5_000]).unwrap());
        net.run_for(50 * MS);
    }
    let asked = net.server_trace.with(0, |server| {
        let frames = server.frames_sent();
        frames
            .filter_map(|frame| match frame {
                FrameTrace::AckFrequency { max_delay_us, .. } => {
                    Some(Duration::from_micros(*max_delay_us))
                }
                _ => None,
            })
            .last()
            .expect("a request")
    });
    assert!(asked < 10 * MS, "{asked:?}");
    let stats = net.server_connection().path_stats(PathId::ZERO).unwrap();
    net.world.set_link_up(net.link, false);
    let start = net.now();
    net.on_server(|server, _| server.write(id, &[1; 100]).unwrap());
    net.run_for(SECOND);
    let times = net.server_trace.with(0, |server| {
        let sent = server.sent.iter().map(|packet| packet.time);
        sent.filter(|time| *time >= start).collect::<Vec<_>>()
    });
    let timeout = times[1].saturating_since(times[0]);
    let expected = stats.rtt + (4 * stats.rtt_variance).max(MS) + asked;
    assert!(
        timeout >= expected - MS && timeout <= expected + MS,
        "{timeout:?}, not {expected:?}"
    );
}

/// What was asked of the peer's acknowledgements is asked again once the new path is known.
#[test]
fn ack_frequency_is_asked_again_after_a_move() {
    let frequency = || ack::registry::by_name("frequency").unwrap();
    let mut net = Setup::new(8, calm())
        .client(|client| client.ack_policy = frequency())
        .manual();
    net.connect();
    let id = net.on_client(|client, _| client.open_stream(Dir::Bi).unwrap());
    let talk = |net: &mut crate::kit::Net<_, _>| {
        for _ in 0..10 {
            net.on_client(|client, _| client.write(id, &[1; 100]).unwrap());
            net.run_for(50 * MS);
        }
    };
    talk(&mut net);
    let moved = net.now();
    let new: SocketAddr = "10.0.0.1:50001".parse().unwrap();
    net.on_client(|client, now| client.rebind(now, new));
    talk(&mut net);
    let asked: Vec<(Instant, Duration)> = net.client_trace.with(0, |client| {
        let sent = client.sent.iter();
        sent.flat_map(|packet| packet.frames.iter().map(move |frame| (packet.time, frame)))
            .filter_map(|(time, frame)| match frame {
                FrameTrace::AckFrequency { max_delay_us, .. } => {
                    Some((time, Duration::from_micros(*max_delay_us)))
                }
                _ => None,
            })
            .collect()
    });
    let (before, after): (Vec<_>, Vec<_>) = asked.iter().partition(|(time, _)| *time < moved);
    assert!(
        !before.is_empty() && !after.is_empty(),
        "{asked:?} {moved:?}"
    );
    // A quarter of the round trip there is, not of the one assumed before the first sample.
    assert!(after.iter().all(|(_, delay)| *delay < 10 * MS), "{after:?}");
}

/// Rare acknowledgements, which the sender asked for itself, do not stall `bbr3`.
#[test]
fn bbr3_does_not_starve_on_the_acks_it_asked_for() {
    let bbr3 = || tautline_transport::congestion::registry::by_name("bbr3").unwrap();
    // A pipe of four packets, and an ordinary WLAN.
    let cases = [
        ("wifi", links::by_name("wifi").unwrap(), 20_000_000),
        ("four packets", wire(1, 20), 500_000),
    ];
    for (name, link, bytes) in cases {
        let time = |policy: &str| {
            let mut net = Setup::new(9, link.clone())
                .both(|config| config.congestion = bbr3())
                .server(|server| server.ack_policy = ack::registry::by_name(policy).unwrap())
                .quiet()
                .fetch(&[bytes]);
            net.finish(120 * SECOND).saturating_since(Instant::ZERO)
        };
        let (standard, frequency) = (time("standard"), time("frequency"));
        println!("{name}: {standard:?} {frequency:?}");
        assert!(
            frequency <= standard.mul_f64(1.1),
            "{name}: {frequency:?}, {standard:?} with plain ACKs"
        );
    }
}

/// What is under way from the server's former address is not sent twice because the client took
/// the preferred one. RFC 9000 s9.6.2.
#[test]
fn nothing_is_lost_by_moving_to_the_preferred_address() {
    let preferred: std::net::SocketAddrV4 = "10.0.0.9:8443".parse().unwrap();
    for window in [10, 100] {
        let mut link = wire(20, 50);
        link.backward.queue = tautline_sim::QueueSize::Unlimited;
        let mut setup = Setup::new(6, link);
        setup.server_addresses.push(preferred.into());
        setup.server.preferred_address = Some(PreferredAddresses {
            v4: Some(preferred),
            v6: None,
        });
        setup.server.initial_window_packets = window;
        let mut net = setup.fetch(&[3_000_000]);
        net.run_for(SECOND);
        let at = |net: &crate::kit::Net<tautline_testkit::apps::PatternClient, _>| {
            let (_, client) = net.client_host().connections().next().unwrap();
            client.remote_address()
        };
        assert_eq!(at(&net), SocketAddr::from(preferred));
        let dropped = net.client_trace.with(0, |client| client.dropped.clone());
        let unexpected = dropped
            .iter()
            .filter(|reason| **reason == "unexpected address");
        assert_eq!(unexpected.count(), 0, "window {window}");
        let lost = net.server_trace.with(0, |server| server.lost);
        assert_eq!(lost, 0, "window {window}");
        net.finish(30 * SECOND);
    }
}

/// A move that the client makes unlinkable stays so: the server does not write to the old address
/// under the connection ID of the new one. RFC 9000 s9.5.
#[test]
fn the_old_address_is_asked_under_its_own_id() {
    let mut net = Setup::new(4, calm()).manual();
    net.connect();
    let id = net.on_client(|client, _| {
        let id = client.open_stream(Dir::Bi).unwrap();
        client.write(id, &[7; 10_000]).unwrap();
        id
    });
    net.run_for(200 * MS);
    let new: SocketAddr = "10.0.0.1:50001".parse().unwrap();
    net.on_client(|client, now| client.rebind(now, new));
    net.on_client(|client, _| client.write(id, &[8; 1_000]).unwrap());
    let moved = net.now();
    net.run_for(SECOND);
    let mut ports: BTreeMap<Vec<u8>, BTreeSet<u16>> = BTreeMap::new();
    let mut asked = false;
    for datagram in net.tap.heard(Direction::Backward) {
        asked |= datagram.time > moved && datagram.dst.port() != new.port();
        for header in headers(&datagram.payload) {
            let ports = ports.entry(header.dcid).or_default();
            ports.insert(datagram.dst.port());
        }
    }
    assert!(asked, "the old address was not asked");
    for (cid, ports) in ports {
        assert_eq!(ports.len(), 1, "{cid:02x?} to {ports:?}");
    }
    // The ID goes when the address does.
    let held = net.server_connection().path_stats(PathId::ZERO).unwrap();
    assert!(held.validated);
}

/// Challenges to an address that is gone are lost, and mean nothing to the path in use: slow start
/// goes on until the new path itself loses something. RFC 9000 s9.4.
#[test]
fn a_lost_challenge_to_the_old_address_does_not_end_slow_start() {
    let mut net = Setup::new(1, wire(50, 100)).fetch(&[100_000_000]);
    net.run_for(6 * SECOND);
    let stats = |net: &crate::kit::Net<_, tautline_testkit::apps::PatternServer>| {
        let (_, server) = net.server_host().connections().next().unwrap();
        server.path_stats(PathId::ZERO).unwrap()
    };
    let rebind = tautline_sim::Rebind::AddressAndPort;
    net.world.rebind(net.client, rebind);
    let before = stats(&net).recovery.loss_events;
    net.run_for(1_200 * MS);
    let after = stats(&net);
    assert_eq!(after.congestion.slow_start_threshold, None, "{after:?}");
    assert_eq!(after.recovery.loss_events, before, "{after:?}");
    net.run_for(3 * SECOND);
    // The bandwidth-delay product is 1,250,000 bytes.
    let window = stats(&net).congestion.window;
    assert!(window > 600_000, "{window}");
}

fn mtu_after(
    mut net: crate::kit::Net<
        tautline_testkit::apps::PatternClient,
        tautline_testkit::apps::PatternServer,
    >,
) -> u16 {
    net.run_for(SECOND);
    let (_, server) = net.server_host().connections().next().unwrap();
    server.path_stats(PathId::ZERO).unwrap().mtu
}

/// What a rebinding swallows says nothing about sizes.
#[test]
fn a_rebinding_is_no_mtu_black_hole() {
    let mut net = Setup::new(1, wire(20, 20)).fetch(&[60_000_000]);
    net.run_for(2 * SECOND);
    net.world.rebind(net.client, tautline_sim::Rebind::Port);
    net.run_for(500 * MS);
    let mtus = net.server_trace.with(0, |server| server.mtus.clone());
    assert_eq!(mtus, [1452]);
    assert_eq!(mtu_after(net), 1452);
}

/// Nor does an outage, for longer than it takes to see that full datagrams get through again.
#[test]
fn an_outage_is_no_mtu_black_hole() {
    for congestion in ["cubic", "bbr3"] {
        for outage in [500, 2_000] {
            let mut net = Setup::new(1, wire(20, 20))
                .both(|config| {
                    config.congestion =
                        tautline_transport::congestion::registry::by_name(congestion).unwrap();
                })
                .fetch(&[100_000_000]);
            net.run_for(3 * SECOND);
            net.world.set_link_up(net.link, false);
            net.run_for(outage * MS);
            net.world.set_link_up(net.link, true);
            net.run_while(10 * SECOND, {
                let received = net.client_app().fetches[0].received;
                move |net| net.client_app().fetches[0].received == received
            });
            assert_eq!(mtu_after(net), 1452, "{congestion}, {outage} ms");
        }
    }
}

/// Below 1 Mb/s no more than two packets leave at once, whatever the controller thought before.
#[test]
fn slow_links_see_no_bursts() {
    for name in ["da2gc", "geo-thin", "mss"] {
        for congestion in ["newreno", "cubic", "bbr3"] {
            let mut net = Setup::new(3, links::by_name(name).unwrap())
                .both(|config| {
                    config.congestion =
                        tautline_transport::congestion::registry::by_name(congestion).unwrap();
                })
                .fetch(&[2_000_000]);
            net.run_for(40 * SECOND);
            let mut bursts: BTreeMap<_, usize> = BTreeMap::new();
            net.server_trace.with(0, |server| {
                for packet in server.sent.iter().filter(|packet| packet.bytes > 200) {
                    *bursts.entry(packet.time).or_default() += packet.bytes;
                }
            });
            assert!(bursts.len() > 20, "{name} {congestion}");
            bursts.retain(|_, bytes| *bytes > 2 * 1452);
            assert!(bursts.is_empty(), "{name} {congestion}: {bursts:?}");
        }
    }
}
