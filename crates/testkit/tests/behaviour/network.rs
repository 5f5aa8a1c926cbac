//! What the network does to datagrams: marks, sizes, delays.

use tautline_sim::{Direction, LossModel, PacketView, QueueSize, Rebind, Verdict, rule};
use tautline_testkit::trace::{ConnectionTrace, FrameTrace, PacketTrace};
use tautline_transport::{
    ack, congestion,
    units::{Dir, Ecn, PathId},
};

use crate::kit::{Kind, MS, SECOND, Setup, calm, headers, wire};

#[test]
fn ecn_marks_slow_the_sender_without_loss() {
    let mut link = wire(10, 20);
    link.backward.ecn_threshold = Some(QueueSize::Bytes(15_000));
    link.backward.queue = QueueSize::Bytes(200_000);
    let mut net = Setup::new(1, link).fetch(&[5_000_000]);
    let done = net.finish(20 * SECOND).since_origin();
    let stats = net.world.link_stats(net.link, Direction::Backward);
    assert_eq!(stats.dropped.total(), 0, "{stats:?}");
    let (lost, marked) = (
        net.server_trace.with(0, |server| server.lost),
        net.client_trace.with(0, |client| {
            client.received.iter().filter(|p| p.ecn == Ecn::Ce).count()
        }),
    );
    assert_eq!(lost, 0);
    assert!(marked > 3, "{marked}");
    // The queue stayed short, so that marks were heeded, and the link busy.
    assert!(done < 6 * SECOND, "{done:?}");
    println!("{done:?}, {marked} marks");
}

/// A network that clears marks: validation fails, sending goes on without.
#[test]
fn bleached_marks() {
    let mut net = Setup::new(2, calm()).fetch(&[3_000_000]);
    net.world.add_rule(
        net.link,
        Direction::Backward,
        rule::apply_when(Verdict::SetEcn(Ecn::NotEct), |_| true),
    );
    net.finish(10 * SECOND);
    let heard = net.tap.heard(Direction::Backward);
    assert_eq!(heard[0].ecn, Ecn::Ect0);
    assert!(
        heard[heard.len() / 2..]
            .iter()
            .all(|d| d.ecn == Ecn::NotEct)
    );
    // The other direction is fine.
    let forward = net.tap.heard(Direction::Forward);
    assert!(
        forward[forward.len() / 2..]
            .iter()
            .all(|d| d.ecn == Ecn::Ect0)
    );
}

/// A network that drops what is marked: the connection comes up all the same.
#[test]
fn marked_packets_vanish() {
    let mut net = Setup::new(3, calm()).fetch(&[100_000]);
    for direction in Direction::BOTH {
        net.world.add_rule(
            net.link,
            direction,
            rule::drop_when(|packet: &PacketView<'_>| packet.ecn != Ecn::NotEct),
        );
    }
    let done = net.finish(60 * SECOND);
    println!("{done:?}");
}

/// A network that marks everything CE.
#[test]
fn everything_marked() {
    let mut net = Setup::new(4, calm()).fetch(&[300_000]);
    for direction in Direction::BOTH {
        net.world.add_rule(
            net.link,
            direction,
            rule::apply_when(Verdict::SetEcn(Ecn::Ce), |_| true),
        );
    }
    net.finish(60 * SECOND);
}

fn mtu_over(seed: u64, ip_mtu: u16) -> u16 {
    let mut link = calm();
    link.forward.mtu = ip_mtu;
    link.backward.mtu = ip_mtu;
    let mut net = Setup::new(seed, link).fetch(&[2_000_000]);
    net.client_stays();
    net.finish(20 * SECOND);
    net.run_for(10 * SECOND);
    let (_, server) = net.server_host().connections().next().expect("alive");
    server.path_stats(PathId::ZERO).unwrap().mtu
}

#[test]
fn mtu_discovery() {
    assert_eq!(mtu_over(5, 1500), 1452);
    let found = mtu_over(6, 1280);
    assert!((1230..=1252).contains(&found), "{found}");
    let found = mtu_over(7, 1400);
    assert!((1350..=1372).contains(&found), "{found}");
    assert_eq!(mtu_over(8, 1228), 1200);
}

#[test]
fn mtu_black_hole() {
    let mut net = Setup::new(9, wire(20, 20)).fetch(&[10_000_000]);
    net.run_for(SECOND);
    // The path shrinks in the middle of a transfer, without a word.
    for direction in Direction::BOTH {
        let mut config = net.world.direction_config(net.link, direction).clone();
        config.mtu = 1280;
        net.world
            .set_direction(net.link, direction, config)
            .unwrap();
    }
    let done = net.finish(60 * SECOND);
    println!("{done:?}");
    assert!(done.since_origin() < 20 * SECOND, "{done:?}");
    let mtus = net.server_trace.with(0, |server| server.mtus.clone());
    assert_eq!(mtus, [1452, 1200]);
}

/// What an outage swallows, large or small, says nothing about the size of packets.
#[test]
fn outages_are_no_black_holes() {
    for controller in ["cubic", "bbr3"] {
        for outage in [500, 2_000] {
            let mut net = Setup::new(1, wire(20, 20))
                .both(|c| c.congestion = congestion::registry::by_name(controller).unwrap())
                .fetch(&[100_000_000]);
            net.run_for(3 * SECOND);
            net.world.set_link_up(net.link, false);
            net.run_for(outage * MS);
            net.world.set_link_up(net.link, true);
            net.run_for(5 * SECOND);
            let mtus = net.server_trace.with(0, |server| server.mtus.clone());
            assert_eq!(mtus, [1452], "{controller}, {outage} ms");
            let (_, server) = net.server_host().connections().next().unwrap();
            assert_eq!(server.path_stats(PathId::ZERO).unwrap().mtu, 1452);
        }
    }
}

/// Nor does what a NAT drops because it forgot the mapping; and the search starts over only when
/// the address itself changed.
#[test]
fn rebindings_are_no_black_holes() {
    for kind in [Rebind::Port, Rebind::AddressAndPort] {
        let mut net = Setup::new(1, wire(20, 20)).fetch(&[60_000_000]);
        net.run_for(2 * SECOND);
        net.world.rebind(net.client, kind);
        net.run_for(5 * SECOND);
        let (_, server) = net.server_host().connections().next().unwrap();
        let mtu = server.path_stats(PathId::ZERO).unwrap().mtu;
        assert_eq!(mtu, 1452, "{kind:?}");
        let mtus = net.server_trace.with(0, |server| server.mtus.clone());
        let expected: &[u16] = match kind {
            Rebind::Port => &[1452],
            _ => &[1452, 1200, 1452],
        };
        assert_eq!(mtus, expected, "{kind:?}");
    }
}

fn acks_sent(policy: &str) -> (usize, usize, usize) {
    let mut net = Setup::new(10, wire(50, 30))
        .server(|server| server.ack_policy = ack::registry::by_name(policy).unwrap())
        .fetch(&[10_000_000]);
    net.finish(20 * SECOND);
    let requests = net.server_trace.with(0, |server| {
        server
            .frames_sent()
            .filter(|f| matches!(f, FrameTrace::AckFrequency { .. }))
            .count()
    });
    let acks = net.client_trace.with(0, |client| {
        client
            .frames_sent()
            .filter(|f| matches!(f, FrameTrace::Ack { .. }))
            .count()
    });
    let data = net.client_trace.with(0, |client| client.received.len());
    (requests, acks, data)
}

#[test]
fn ack_frequency() {
    let (requests, acks, data) = acks_sent("standard");
    assert_eq!(requests, 0);
    assert!(acks * 3 > data, "{acks} ACKs for {data} packets");
    let (requests, fewer, data) = acks_sent("frequency");
    assert!(requests > 0);
    assert!(
        fewer * 3 < acks,
        "{fewer} ACKs for {data} packets, {acks} before"
    );
}

/// The spin bits heard in one direction.
fn spin_bits(enabled: bool, seed: u64) -> Vec<bool> {
    let mut net = Setup::new(seed, wire(20, 50))
        .both(|config| config.spin_bit = enabled)
        .fetch(&[4_000_000]);
    net.finish(30 * SECOND);
    net.tap
        .heard(Direction::Backward)
        .iter()
        .filter(|datagram| headers(&datagram.payload)[0].kind == Kind::Short)
        .map(|datagram| datagram.payload[0] & 0x20 != 0)
        .collect()
}

fn spin_edges(enabled: bool, seed: u64) -> usize {
    let bits = spin_bits(enabled, seed);
    bits.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

#[test]
fn spin_bit() {
    // Disabled, it is constant, and one or the other from connection to connection.
    let constant: Vec<bool> = (11..17)
        .map(|seed| {
            let bits = spin_bits(false, seed);
            assert!(bits.iter().all(|bit| *bit == bits[0]));
            bits[0]
        })
        .collect();
    assert!(
        constant.contains(&true) && constant.contains(&false),
        "{constant:?}"
    );
    // One edge per round trip of 100 ms and queueing; about 2 s in all. One connection in 16 does
    // not spin.
    let edges: Vec<usize> = (0..3).map(|seed| spin_edges(true, seed)).collect();
    let best = *edges.iter().max().unwrap();
    assert!((8..40).contains(&best), "{edges:?}");
}

/// Where both ends understand it, the QUIC bit says nothing: half of the packets clear it, except
/// those of a handshake whose parameters are not known yet. RFC 9287.
#[test]
fn quic_bit_is_greased() {
    let cleared = |client: bool, server: bool| {
        let mut net = Setup::new(14, calm())
            .client(|config| config.grease = client)
            .server(|config| config.grease = server)
            .fetch(&[500_000]);
        net.finish(10 * SECOND);
        Direction::BOTH.map(|direction| {
            let heard = net.tap.heard(direction);
            let first = |long: bool| {
                heard
                    .iter()
                    .map(|datagram| datagram.payload[0])
                    .filter(move |byte| (byte & 0x80 != 0) == long)
            };
            // No datagram begins with a packet other than Initial that has a long header before
            // the bit may be cleared.
            let initials = first(true).filter(|byte| byte & 0x30 == 0);
            assert_eq!(initials.filter(|byte| byte & 0x40 == 0).count(), 0);
            let all = first(false).count();
            (first(false).filter(|byte| byte & 0x40 == 0).count(), all)
        })
    };
    for (cleared, all) in cleared(true, true) {
        assert!(
            all > 60 && cleared * 3 > all && cleared * 3 < 2 * all,
            "{cleared} of {all}"
        );
    }
    // Towards who does not say so, never.
    for (cleared, all) in [cleared(false, true)[1], cleared(true, false)[0]] {
        assert_eq!(cleared, 0, "of {all}");
    }
}

/// Jitter that reorders is learned: after a while hardly anything is declared lost.
#[test]
fn reordering_is_learned() {
    let mut link = wire(20, 30);
    link.backward.jitter = Some(tautline_sim::Jitter::reorder(4 * MS));
    let mut net = Setup::new(12, link).fetch(&[10_000_000]);
    let done = net.finish(60 * SECOND);
    let (lost, sent) = net
        .server_trace
        .with(0, |server| (server.lost, server.sent.len() as u64));
    println!("{lost} of {sent} lost, {done:?}");
    assert!(lost * 20 < sent, "{lost} of {sent}");
}

#[test]
fn corrupted_packets_are_dropped() {
    let mut link = calm();
    link.forward.corruption = LossModel::uniform(0.1);
    link.backward.corruption = LossModel::uniform(0.1);
    let mut net = Setup::new(13, link).fetch(&[500_000]);
    net.finish(60 * SECOND);
}

const IMMEDIATE_ACK: FrameTrace = FrameTrace::Other(0x1f);

/// A fetch over 10 Mb/s and 44 ms: seconds, how many of the server's packets with data were parts of a full one (but for the end), and
/// how many asked for an acknowledgement.
fn flights(len: u64, ack_frequency: bool, padding: bool) -> (f64, usize, usize) {
    const FULL: usize = 1_452;
    const LEAST: usize = 1_200;
    let mut net = Setup::new(3, wire(10, 22))
        .server(|config| config.fec.padding = padding)
        .client(|config| {
            config.ack_frequency = ack_frequency;
            config.mtu.discovery = false;
        })
        .fetch(&[len]);
    let done = net.finish(30 * SECOND).since_origin().as_secs_f64();
    net.server_trace.with(0, |server| {
        let data = || {
            server
                .sent
                .iter()
                .filter(|packet| packet.stream_bytes() > 0)
        };
        let ends = |packet: &PacketTrace| {
            packet.has(|frame| matches!(frame, FrameTrace::Stream { fin: true, .. }))
        };
        let parts = data().filter(|packet| packet.bytes < FULL && packet.bytes != LEAST);
        let parts = parts.filter(|packet| !ends(packet));
        let asks = data().filter(|packet| packet.has(|frame| *frame == IMMEDIATE_ACK));
        (done, parts.count(), asks.count())
    })
}

/// The last packet of an answer is lost on a path of 6 ms: when all of it has come, in milliseconds.
fn last_lost(ack_frequency: bool) -> f64 {
    let mut net = Setup::new(3, wire(10, 3))
        .client(|config| config.ack_frequency = ack_frequency)
        .fetch(&[8_000]);
    // All before it are full, acknowledgements smaller.
    let mut lost = false;
    let last = move |packet: &PacketView<'_>| {
        let is_last = (100..1_000).contains(&packet.payload.len());
        is_last && !std::mem::replace(&mut lost, true)
    };
    net.world
        .add_rule(net.link, Direction::Backward, rule::drop_when(last));
    let done = net.finish(30 * SECOND).since_origin().as_secs_f64();
    let ends = |packet: &&PacketTrace| {
        packet.has(|frame| matches!(frame, FrameTrace::Stream { fin: true, .. }))
    };
    let times = |server: &ConnectionTrace| server.sent.iter().filter(ends).count();
    let times = net.server_trace.with(0, times);
    assert!(times > 1, "the end was not lost");
    done * 1_000.0
}

/// Its acknowledgement is asked for, so that nobody waits for what a peer may hold it back.
#[test]
fn a_lost_end_is_missed_before_a_delayed_acknowledgement_would_come() {
    let (asked, usual) = (last_lost(true), last_lost(false));
    assert!(asked + 20.0 < usual, "{asked} {usual} ms");
}

/// Each of many small messages ends all data: acknowledged by themselves they would fill a thin way back.
#[test]
fn small_messages_do_not_ask_one_by_one() {
    let mut net = Setup::new(3, wire(10, 22)).manual();
    net.connect();
    for _ in 0..90 {
        net.on_server(|server, _| {
            let id = server.open_stream(Dir::Uni).unwrap();
            server.write(id, &[7; 300]).unwrap();
            server.finish(id).unwrap();
        });
        net.run_for(5 * MS);
    }
    let asks = net.server_trace.with(0, |server| {
        let asks = |packet: &&PacketTrace| packet.has(|frame| *frame == IMMEDIATE_ACK);
        server.sent.iter().filter(asks).count()
    });
    // One in a round trip of 44 ms, and a probe of the path's MTU.
    assert!((5..=12).contains(&asks), "{asks}");
}

/// A window leaves whole, and what it opens is not held up by the acknowledgement of an odd packet.
#[test]
fn flights_leave_whole_and_come_back_at_once() {
    let (time, parts, asks) = flights(200_000, true, false);
    assert!((1..=3).contains(&parts), "{parts}");
    assert!((1..=4).contains(&asks), "{asks}");
    let (late, _, none) = flights(200_000, false, false);
    assert_eq!(none, 0, "asked of a peer that did not offer it");
    assert!(time < late, "{time} {late}");
    let (_, parts, _) = flights(200_000, true, true);
    assert_eq!(parts, 0, "sizes are to tell nothing");
    // Where acknowledgements follow each other there are no flights.
    let (_, parts, asks) = flights(10_000_000, true, false);
    assert!(parts <= 10 && asks <= 10, "{parts} {asks}");
}
