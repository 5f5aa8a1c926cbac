//! Forward erasure correction between two ends. docs/spec/fec.md.

use bytes::Bytes;
use tautline_codes::{CodingWindow, Encoder, Limits, RepairId, rlc::Rlc};
use tautline_sim::{Direction, LinkConfig, LossModel};
use tautline_testkit::{apps::Manual, trace::FrameTrace};
use tautline_transport::{
    config::TransportConfig,
    connection::Connection,
    error::Code,
    fec::{FecStats, redundancy::registry},
    stream::ReadOutcome,
    units::{Dir, PathId, StreamId},
    wire::{Close, ConnectionId, FecDecoder, FecScheme, Frame, Reader, Repair, Stream},
};

use crate::{
    kit::{MS, Net, SECOND, Setup, calm, wire},
    raw::{self, Arena, Peer},
};

pub const SOURCE_SYMBOL: std::ops::RangeInclusive<u64> = 0x2fe4..=0x2fe7;
const SYMBOL_ACK: u64 = 0x2fe9;

fn with_fec(config: &mut TransportConfig) {
    protect(config, "constant:25,20");
}

pub fn protect(config: &mut TransportConfig, scheduler: &str) {
    config.fec.redundancy = registry::parse(scheduler).unwrap();
    config.fec.decode = true;
}

/// Sends `bytes` from the server on a new stream; what the client makes of it after `time`.
pub fn push(net: &mut Net<Manual, Manual>, bytes: usize, time: std::time::Duration) {
    let data: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
    let id = net.on_server(|server, _| {
        let id = server.open_stream(Dir::Uni).unwrap();
        let mut rest = Bytes::from(data.clone());
        assert_eq!(server.write_bytes(id, &mut rest), Ok(bytes));
        server.finish(id).unwrap();
        id
    });
    net.run_for(time);
    let (read, fin) = net.on_client(|client, _| crate::kit::read_all(client, id));
    assert!(
        fin && read == data,
        "the stream arrived whole{}",
        net.last_packets()
    );
}

fn server_stats(net: &Net<Manual, Manual>) -> FecStats {
    net.server_connection().fec_stats()
}

fn client_stats(net: &Net<Manual, Manual>) -> FecStats {
    net.client_connection().fec_stats()
}

fn retransmitted(connection: &Connection) -> u64 {
    connection.stream_stats().retransmitted_bytes
}

/// A pair whose server protects what it sends, connected, over a link whose way back drops these
/// packets.
pub fn pair(scheduler: &str, link: LinkConfig) -> Net<Manual, Manual> {
    let setup = Setup::new(7, link).both(|config| config.mtu.discovery = false);
    let mut net = setup.both(|config| protect(config, scheduler)).manual();
    net.connect();
    net
}

pub fn offered(net: &Net<Manual, Manual>) -> u64 {
    net.world
        .link_stats(net.link, Direction::Backward)
        .sent_packets
}

/// Whichever single packet of a protected flight is lost, nothing is sent again, and what is late
/// is late by less than a round trip.
#[test]
fn each_single_loss_is_recovered_without_retransmission() {
    const BYTES: usize = 30_000;
    let mut net = pair("constant:10,8", calm());
    let (first, before) = (offered(&net), server_stats(&net));
    push(&mut net, BYTES, SECOND);
    let (last, after) = (offered(&net), server_stats(&net));
    let sources = after.sources_sent - before.sources_sent;
    let repairs = after.repairs_sent - before.repairs_sent;
    // Full blocks of 8, and 1 or 2 packets in the end.
    assert_eq!((sources, repairs), (26, 7));
    let mut recovered = 0;
    for lost in first..last {
        let mut link = calm();
        link.backward.drop_packets.push(lost..=lost);
        let mut net = pair("constant:10,8", link);
        push(&mut net, BYTES, SECOND);
        let dropped = net.world.link_stats(net.link, Direction::Backward).dropped;
        assert_eq!(dropped.rule, 1);
        assert_eq!(
            retransmitted(net.server_connection()),
            0,
            "packet {lost} of {first}..{last}{}",
            net.last_packets()
        );
        recovered += client_stats(&net).recovered;
        assert_eq!(client_stats(&net).ignored, 0);
        let reported = server_stats(&net).reported_recovered;
        assert_eq!(reported, client_stats(&net).recovered);
    }
    assert_eq!(recovered, sources);
}

/// How long 9,000 bytes take from the server to the client.
fn arrival(net: &mut Net<Manual, Manual>) -> std::time::Duration {
    arrival_of(net, 9_000)
}

/// How long so many bytes take from the server to the client.
pub fn arrival_of(net: &mut Net<Manual, Manual>, bytes: usize) -> std::time::Duration {
    let start = net.now();
    let id = net.on_server(|server, _| {
        let id = server.open_stream(Dir::Uni).unwrap();
        let mut data = Bytes::from(vec![7; bytes]);
        assert_eq!(server.write_bytes(id, &mut data), Ok(bytes));
        server.finish(id).unwrap();
        id
    });
    loop {
        net.run_for(MS);
        assert!(net.now() < start + 10 * SECOND, "{}", net.last_packets());
        let finished = net.on_client(|client, _| {
            loop {
                match client.read(id, usize::MAX) {
                    Ok(ReadOutcome::Chunk(_)) => {}
                    Ok(ReadOutcome::Finished) => return true,
                    Ok(ReadOutcome::Blocked) | Err(_) => return false,
                }
            }
        });
        if finished {
            return net.now().saturating_since(start);
        }
    }
}

/// How much longer those bytes take at most if one of their packets is lost.
pub fn worst_of_each_loss(scheduler: &str) -> std::time::Duration {
    let mut net = pair(scheduler, wire(100, 40));
    let first = offered(&net);
    let calm = arrival(&mut net);
    let worst = (first..first + 8).map(|lost| {
        let mut link = wire(100, 40);
        link.backward.drop_packets.push(lost..=lost);
        arrival(&mut pair(scheduler, link)) - calm
    });
    worst.max().unwrap()
}

/// The point of it all: a loss in the last flight costs no round trip.
#[test]
fn a_loss_at_the_end_costs_no_round_trip() {
    let worst = worst_of_each_loss;
    assert!(worst("none") >= 80 * MS);
    for scheduler in [
        "constant:10,8",
        "constant:3,2,20",
        "quirl-object",
        "quirl-burst",
    ] {
        let late = worst(scheduler);
        assert!(late <= 10 * MS, "{scheduler}: {late:?}");
    }
    let late = worst("quirl-burst:5000,20");
    assert!((10 * MS..=30 * MS).contains(&late), "{late:?}");
}

/// A loss that was repaired is a loss to congestion control all the same. RFC 9265 s3.
#[test]
fn a_recovered_loss_stays_a_congestion_signal() {
    let mut link = calm();
    let mut net = pair("constant:10,8", link.clone());
    let first = offered(&net);
    push(&mut net, 30_000, SECOND);
    let calm_window = net.server_connection().path_stats(PathId::ZERO);
    link.backward.drop_packets.push(first + 3..=first + 3);
    let mut net = pair("constant:10,8", link);
    push(&mut net, 30_000, SECOND);
    let lossy = net.server_connection().path_stats(PathId::ZERO);
    let (calm_window, lossy) = (calm_window.unwrap(), lossy.unwrap());
    assert_eq!(lossy.recovery.packets_lost, 1);
    assert!(lossy.congestion.window < calm_window.congestion.window);
    assert_eq!(retransmitted(net.server_connection()), 0);
}

/// Of losses beyond what the repair symbols can make good, only as many as there are too many cost
/// anything, up to as many again; of more, all are sent again.
#[test]
fn too_many_losses_are_made_up_for() {
    let net = pair("constant:10,8", calm());
    let first = offered(&net);
    drop(net);
    for losses in 5..=7 {
        let mut link = calm();
        link.backward.drop_packets.push(first + 1..=first + losses);
        let mut net = pair("constant:10,8", link);
        push(&mut net, 30_000, SECOND);
        let stats = server_stats(&net);
        assert_eq!(
            (stats.retransmitted, stats.waited),
            (losses, 4),
            "{stats:?}"
        );
        assert!(retransmitted(net.server_connection()) > 0);
    }
    for losses in 3..=4 {
        let mut link = calm();
        link.backward.drop_packets.push(first + 1..=first + losses);
        let mut net = pair("constant:10,8", link);
        let before = server_stats(&net).repairs_sent;
        push(&mut net, 30_000, SECOND);
        let stats = server_stats(&net);
        let retransmitted = retransmitted(net.server_connection());
        let repairs = stats.repairs_sent - before;
        assert_eq!(
            (retransmitted, repairs, stats.reported_recovered),
            (0, 7 + losses - 2, losses),
            "{stats:?}{}",
            net.last_packets()
        );
    }
}

/// What the repair symbols that are counted on cannot rebuild, being lost themselves, is sent again.
#[test]
fn what_waits_in_vain_is_sent_again() {
    let net = pair("constant:10,8", calm());
    let first = offered(&net);
    drop(net);
    let mut link = calm();
    // Half a block and all that was to make good for it.
    link.backward.drop_packets.push(first + 1..=first + 4);
    link.backward.drop_packets.push(first + 8..=first + 9);
    let mut net = pair("constant:10,8", link);
    push(&mut net, 30_000, SECOND);
    let stats = server_stats(&net);
    assert!(retransmitted(net.server_connection()) > 0, "{stats:?}");
}

/// Where nothing tells what is missing, repair symbols are the probes: whatever it was, it is there
/// with them, and nothing is sent twice.
#[test]
fn probes_are_coded() {
    let late = |scheduler, lost: std::ops::RangeInclusive<u64>| {
        let mut net = pair(scheduler, wire(100, 40));
        let first = offered(&net);
        let answered = net
            .world
            .link_stats(net.link, Direction::Forward)
            .sent_packets;
        let calm = arrival(&mut net);
        let mut link = wire(100, 40);
        let lost = first + lost.start()..=first + lost.end();
        link.backward.drop_packets.push(lost);
        // Repair symbols of the end, and acknowledgements until the probes are due.
        link.backward.drop_packets.push(first + 7..=first + 8);
        link.forward.drop_packets.push(answered..=answered + 4);
        let mut net = pair(scheduler, link);
        let late = arrival(&mut net) - calm;
        (late, retransmitted(net.server_connection()))
    };
    for lost in [3..=3, 4..=5, 6..=6] {
        let (plain, again) = late("none", lost.clone());
        let (coded, never) = late("quirl-object", lost.clone());
        assert_eq!(never, 0, "{lost:?}");
        assert!(again > 0 && coded <= plain, "{lost:?} {coded:?} {plain:?}");
    }
}

/// What left is what a second implementation would expect: headers after frames of the path,
/// repair symbols alone, symbols reported when they are recovered.
#[test]
fn frames_stand_where_they_should() {
    let mut link = calm();
    link.backward.loss = LossModel::uniform(0.05);
    let mut net = pair("constant:10,8", link);
    push(&mut net, 250_000, 10 * SECOND);
    let mut repairs = 0;
    net.server_trace.with(0, |server| {
        for packet in &server.sent {
            let types: Vec<_> = packet.frames.iter().collect();
            let header = types.iter().position(
                |frame| matches!(frame, FrameTrace::Other(ty) if SOURCE_SYMBOL.contains(ty)),
            );
            if let Some(header) = header {
                assert!(header + 1 < types.len(), "{types:?}");
                for frame in &types[header + 1..] {
                    let concerns_path = matches!(
                        frame,
                        FrameTrace::Ack { .. } | FrameTrace::Other(0x01 | 0x18 | 0x19 | 0x1f)
                    );
                    assert!(!concerns_path, "{types:?}");
                }
            }
            if types
                .iter()
                .any(|frame| matches!(frame, FrameTrace::Repair { .. }))
            {
                assert_eq!(types.len(), 1, "{types:?}");
                repairs += 1;
            }
        }
    });
    assert_eq!(repairs, server_stats(&net).repairs_sent);
    let told = net.client_trace.with(0, |client| {
        let symbol_acks = client
            .sent
            .iter()
            .filter(|packet| packet.has(|frame| *frame == FrameTrace::Other(SYMBOL_ACK)));
        symbol_acks.count()
    });
    assert!(client_stats(&net).recovered > 5 && told > 5);
}

/// `quirl-object` leaves all but the end of an object as it is without erasure correction.
#[test]
fn what_is_not_of_the_last_flight_is_plain() {
    let stream_frames = |scheduler| {
        let mut net = pair(scheduler, wire(20, 40));
        push(&mut net, 250_000, 10 * SECOND);
        assert!(net.server_connection().fec_stats().repairs_sent > 0 || scheduler == "none");
        net.server_trace.with(0, |server| {
            let packets = server.sent.iter().filter_map(|packet| {
                let header = |frame: &FrameTrace| {
                    matches!(frame, FrameTrace::Other(ty) if SOURCE_SYMBOL.contains(ty))
                };
                let stream = packet.frames.iter().find_map(|frame| match frame {
                    FrameTrace::Stream { offset, len, .. } => Some((*offset, *len)),
                    _ => None,
                });
                Some((stream?, packet.frames.iter().any(header)))
            });
            packets.collect::<Vec<_>>()
        })
    };
    let (plain, object) = (stream_frames("none"), stream_frames("quirl-object"));
    let first = object.iter().position(|(_, protected)| *protected).unwrap();
    assert!(first > 40, "{first} of {} packets", object.len());
    // ACKs from the client come at other times, since its handshake is longer: one packet may have
    // room for a few bytes less than its pair. Protection would add up over all of them.
    for (((plain, _), _), ((object, _), _)) in plain.iter().zip(&object).take(first) {
        assert!(
            plain.abs_diff(*object) <= 16,
            "offsets {plain} and {object}"
        );
    }
    assert!(object[first..].iter().all(|(_, protected)| *protected));
}

/// Nobody who has not agreed sees anything of it but transport parameters.
#[test]
fn a_peer_without_the_extension_sees_plain_quic() {
    let traffic = |setup: Setup| {
        let mut net = setup.both(|config| config.grease = false).manual();
        net.connect();
        push(&mut net, 100_000, 2 * SECOND);
        let stats = [server_stats(&net), client_stats(&net)];
        assert_eq!(stats, [FecStats::default(); 2]);
        net.server_trace.with(0, |server| {
            let data = server.sent.iter().filter(|p| p.stream_bytes() > 0);
            data.map(|p| (p.bytes, p.frames.clone()))
                .collect::<Vec<_>>()
        })
    };
    let plain = traffic(Setup::new(3, calm()));
    assert_eq!(traffic(Setup::new(3, calm()).server(with_fec)), plain);
    assert_eq!(traffic(Setup::new(3, calm()).client(with_fec)), plain);
    // Two that would both send but do not decode.
    let deaf = Setup::new(3, calm()).both(|config| {
        with_fec(config);
        config.fec.decode = false;
    });
    assert_eq!(traffic(deaf), plain);
}

/// Bulk over a lossy path, every code, both ways at once.
#[test]
fn every_code_helps() {
    use tautline_codes::{Scheme, reed_solomon::ReedSolomon, rlc, tetrys::Tetrys, xor::Xor};
    let sparse = rlc::DensityThreshold::new(7).unwrap();
    let schemes = [
        Scheme::Xor(Xor::interleaved(2.try_into().unwrap())),
        Scheme::ReedSolomon(ReedSolomon),
        Scheme::Rlc(rlc::Rlc::DENSE),
        Scheme::Rlc(rlc::Rlc::new(rlc::Field::Gf2, sparse)),
        Scheme::Tetrys(Tetrys::VANDERMONDE),
    ];
    for scheme in schemes {
        let mut link = wire(20, 20);
        link.backward.loss = LossModel::uniform(0.03);
        let setup = Setup::new(11, link).both(|config| {
            protect(config, "constant:10,8");
            config.fec.schemes = vec![scheme];
        });
        let mut net = setup.fetch(&[1_000_000]);
        net.client_stays();
        net.finish(60 * SECOND);
        let handle = net.server_app().accepted[0];
        let server = net.server_host().connection(handle).unwrap();
        let stats = server.fec_stats();
        assert!(stats.reported_recovered >= 15, "{scheme:?} {stats:?}");
    }
}

/// Reordering, duplication, corruption, migration, resumption: with erasure correction as without.
#[test]
fn a_rough_network_and_the_same_seed() {
    let run = |seed| {
        let mut link = wire(20, 30);
        for direction in [&mut link.forward, &mut link.backward] {
            direction.loss = LossModel::uniform(0.03);
            direction.corruption = LossModel::uniform(0.01);
            direction.jitter = Some(tautline_sim::Jitter::reorder(3 * MS));
            direction.duplication = 0.02;
        }
        let setup = Setup::new(seed, link).both(|config| protect(config, "constant:6,5,20"));
        let mut net = setup.quiet().sequence([
            tautline_testkit::apps::Job::new(&[200_000, 10_000]),
            tautline_testkit::apps::Job::new(&[1_000; 30]).early(),
            tautline_testkit::apps::Job::new(&[600_000]).early(),
        ]);
        net.world.enable_hash();
        net.finish(120 * SECOND);
        net.world.trace_hash()
    };
    for seed in 0..6 {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(1), run(2));
}

/// DATAGRAM frames stay outside unless they are asked in; a recovered one comes once.
#[test]
fn datagrams_are_protected_on_request() {
    let mut link = calm();
    link.backward.loss = LossModel::uniform(0.1);
    link.backward.jitter = Some(tautline_sim::Jitter::reorder(4 * MS));
    let arrived = |protect_datagrams| {
        let setup = Setup::new(5, link.clone()).both(|config| {
            protect(config, "constant:8,4");
            config.mtu.discovery = false;
            config.fec.protect_datagrams = protect_datagrams;
        });
        let mut net = setup.manual();
        net.connect();
        let before = server_stats(&net).sources_sent;
        for number in 0..200u8 {
            net.on_server(|server, _| {
                let max = server.max_datagram_size().unwrap();
                let len = if number % 2 == 0 { 100 } else { max };
                server
                    .send_datagram(Bytes::from(vec![number; len]))
                    .unwrap();
            });
            net.run_for(2 * MS);
        }
        net.run_for(10 * SECOND);
        let mut got: Vec<u8> = net.on_client(|client, _| {
            std::iter::from_fn(|| client.recv_datagram())
                .map(|data| data[0])
                .collect()
        });
        let dropped = net.server_connection().datagram_stats().dropped_unsent;
        assert_eq!(dropped, 0, "what fits once fits later");
        let len = got.len();
        got.sort_unstable();
        got.dedup();
        assert_eq!(got.len(), len, "a datagram came twice");
        (len, server_stats(&net).sources_sent - before)
    };
    let (plain, none) = arrived(false);
    assert_eq!(none, 0, "nothing but datagrams was sent");
    let (protected, sources) = arrived(true);
    assert!(
        plain < 190 && protected > plain && sources >= 190,
        "{plain} {protected} {sources}"
    );
}

/// A receiver that grants less is given less, also when its frame was lost.
#[test]
fn a_smaller_window_is_granted_and_kept() {
    let mut link = calm();
    link.forward.loss = LossModel::uniform(0.3);
    let mut net = pair("constant:3,2,20", link);
    for window in [5, 0, 1_000, 7] {
        net.on_client(|client, _| client.set_fec_window(window));
        net.run_for(3 * SECOND);
    }
    let before = server_stats(&net);
    push(&mut net, 60_000, 20 * SECOND);
    assert!(server_stats(&net).repairs_sent > before.repairs_sent + 20);
    net.server_trace.with(0, |server| {
        let last = server.sent.iter().rev().find_map(|packet| {
            packet.frames.iter().find_map(|frame| match frame {
                FrameTrace::Repair { count } => Some(*count),
                _ => None,
            })
        });
        assert_eq!(last, Some(7));
    });
}

/// An idle end says nothing, whatever became of its repair symbols; with the modes of the laboratory, too.
#[test]
fn idle_ends_fall_silent() {
    let schedulers = [
        "constant:2,1",
        "auto",
        "quirl-object:beta=1",
        "tail",
        "flec-bulk",
        "flec-message",
        "ac-rlnc",
        "rquic:redundancy=64,overlap=64",
    ];
    for scheduler in schedulers {
        for modes in 0..8 {
            let mut link = wire(20, 30);
            link.backward.loss = LossModel::uniform(0.05);
            let mut net = Setup::new(5, link)
                .quiet()
                .both(|config| {
                    protect(config, scheduler);
                    config.fec.lab.mask = modes & 1 > 0;
                    config.fec.lab.repair_outside_cwnd = modes & 2 > 0;
                    config.fec.lab.hold = (modes & 4 > 0).then_some(24 * MS);
                    config.max_idle_timeout = None;
                })
                .manual();
            net.connect();
            push(&mut net, 100_000, 20 * SECOND);
            net.run_for(20 * SECOND);
            let sent = |net: &Net<Manual, Manual>| {
                let stats = |direction| net.world.link_stats(net.link, direction);
                Direction::BOTH.map(|direction| stats(direction).sent_packets)
            };
            let before = sent(&net);
            net.run_for(60 * SECOND);
            assert_eq!(before, sent(&net), "{scheduler}, modes {modes}");
        }
    }
}

// ---- Peers made by hand ----

/// What a peer announces that decodes RLC of this density.
pub fn rlc_decoder(max_symbol_bytes: u64, density: u64) -> FecDecoder {
    FecDecoder {
        window_symbols: 64,
        window_bytes: 100_000,
        max_symbol_bytes,
        schemes: vec![FecScheme {
            id: 10,
            parameter: density,
        }],
    }
}

/// A server that decodes and protects, and a client made by hand that does so, too.
fn arena() -> (Arena, Peer) {
    let change = |config: &mut TransportConfig| with_fec(config);
    let mut arena = Arena::server(1, change, |_| {}, Manual::server());
    let mut parameters = raw::parameters(ConnectionId::new(&[0x11; 8]).unwrap());
    parameters.fec_decoder = Some(rlc_decoder(1_400, 15));
    parameters.fec_encoder = vec![10];
    let mut peer = Peer::client(0x11, &parameters);
    arena.handshake(&mut peer);
    (arena, peer)
}

pub fn stream_frame(offset: u64, data: &[u8]) -> Vec<u8> {
    raw::encode(&[Frame::Stream(Stream {
        id: StreamId(0),
        offset,
        data,
        fin: false,
    })])
}

pub fn header(id: u64) -> Vec<u8> {
    [&[0x6f, 0xe4][..], &[id as u8]].concat()
}

/// One packet with these bytes closes the connection with this code.
#[track_caller]
fn closes(payload: &[u8], code: Code) {
    let (mut arena, mut peer) = arena();
    let datagram = peer.one_rtt_bytes(payload);
    arena.expect_close(&mut peer, datagram, code);
}

/// A repair symbol over one source symbol is that symbol, times a coefficient. With key 0 RLC's
/// first coefficient is 39; see docs/codes.md.
fn repair_of(id: u64, symbol: &[u8], damage: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    repair_from(id, id, symbol, damage)
}

/// The same, made as if it were symbol `at`.
fn repair_from(id: u64, at: u64, symbol: &[u8], damage: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut encoder = Encoder::new(Limits::default());
    for _ in 0..at {
        encoder.push(&[]).unwrap();
    }
    encoder.push(symbol).unwrap();
    let window = CodingWindow { first: at, len: 1 };
    let mut repair = vec![0; encoder.repair_len(window).unwrap()];
    encoder
        .repair(&Rlc::DENSE, RepairId { window, key: 0 }, &mut repair)
        .unwrap();
    damage(&mut repair);
    raw::encode(&[Frame::Repair(Repair {
        first: id,
        count: 1,
        key: 0,
        symbol: &repair,
    })])
}

#[test]
fn a_recovered_symbol_does_what_its_packet_would_have_done() {
    let (mut arena, mut peer) = arena();
    let lost = stream_frame(0, b"never received");
    let datagram = peer.one_rtt_bytes(&repair_of(0, &lost, |_| {}));
    arena.send(datagram);
    arena.run(50 * MS);
    arena.collect(&mut peer);
    let (data, _) = arena.on_victim(|server, _| {
        assert_eq!(server.fec_stats().recovered, 1);
        crate::kit::read_all(server, StreamId(0))
    });
    assert_eq!(data, b"never received");
    // Reported at once, and never acknowledged.
    assert!(peer.frames().contains(&FrameTrace::Other(SYMBOL_ACK)));
    // The packet comes late: nothing happens twice.
    let late = [header(0), lost].concat();
    let datagram = peer.one_rtt_bytes(&late);
    arena.send(datagram);
    arena.run(50 * MS);
    arena.assert_alive(&mut peer);
}

/// What a symbol brought is known for longer than the decoder needs it: a network that holds its packet back makes no
/// application see a datagram twice.
#[test]
fn a_recovered_datagram_comes_once() {
    let (mut arena, mut peer) = arena();
    let datagram = raw::encode(&[Frame::Datagram { data: b"pay 100" }]);
    let repair = peer.one_rtt_bytes(&repair_of(0, &datagram, |_| {}));
    let header = |id: u16| [&[0x6f, 0xe5][..], &id.to_be_bytes()].concat();
    let held_back = peer.one_rtt_bytes(&[header(0), datagram].concat());
    arena.send(repair);
    arena.run(20 * MS);
    for id in 1..=300u16 {
        let source = peer.one_rtt_bytes(&[header(id), stream_frame(0, b"")].concat());
        arena.send(source);
    }
    arena.run(50 * MS);
    arena.send(held_back);
    arena.run(50 * MS);
    arena.assert_alive(&mut peer);
    arena.on_victim(|server, _| {
        assert_eq!(server.fec_stats().sources_received, 301);
        assert!(server.recv_datagram().is_some());
        assert_eq!(server.recv_datagram(), None);
    });
}

/// Shortest packets, each of which recovers something, are answered by hardly more than they are, however far apart the
/// symbols that they name. docs/spec/fec.md s9.
#[test]
fn recovered_symbols_are_told_of_in_few_bytes() {
    const PACKETS: u64 = 1_000;
    for (apart, most) in [(1, 1.15), (2, 1.15), (1 << 30, 1.25), (1 << 40, 1.4)] {
        let (mut arena, mut peer) = arena();
        let heard = |arena: &Arena| -> usize {
            let inbox = arena.inbox();
            inbox
                .iter()
                .map(|(_, datagram)| datagram.payload.len())
                .sum()
        };
        let before = heard(&arena);
        let mut sent = 0;
        for packet in 0..PACKETS {
            let id = (1 << 31) + packet * apart;
            let nothing = stream_frame(0, b"");
            let repair = repair_from(id, 0, &nothing, |_| {});
            let datagram = peer.one_rtt_bytes(&repair);
            sent += datagram.payload.len();
            arena.send(datagram);
            arena.run(MS);
        }
        arena.run(50 * MS);
        let recovered = arena.on_victim(|server, _| server.fec_stats().recovered);
        assert_eq!(recovered, PACKETS);
        let ratio = (heard(&arena) - before) as f64 / sent as f64;
        println!("{apart} apart: {ratio:.2}");
        assert!(ratio < most, "{apart} apart: {ratio}");
    }
}

#[test]
fn what_may_not_be_recovered_is_ignored_whole() {
    let ack = raw::ack(&[0..=0]);
    let close = raw::encode(&[Frame::ConnectionClose(Close {
        frame_type: None,
        code: 7,
        reason: b"",
    })]);
    let unknown = [0x7f, 0xff, 0x00].to_vec();
    let cut = [0x04, 0x00].to_vec();
    for bad in [ack, close, unknown, cut, vec![0x1a; 9]] {
        let (mut arena, mut peer) = arena();
        let symbol = [stream_frame(0, b"data"), bad].concat();
        let datagram = peer.one_rtt_bytes(&repair_of(0, &symbol, |_| {}));
        arena.send(datagram);
        arena.run(50 * MS);
        arena.assert_alive(&mut peer);
        arena.on_victim(|server, _| {
            let stats = server.fec_stats();
            assert_eq!((stats.recovered, stats.ignored), (0, 1));
            assert!(server.read(StreamId(0), 1).is_err(), "no stream was opened");
        });
    }
}

#[test]
fn garbage_and_contradictions_are_ignored() {
    let (mut arena, mut peer) = arena();
    let damaged: [fn(&mut Vec<u8>); 3] = [
        |repair| repair[0] ^= 0xff,
        |repair| repair.extend([1, 2, 3]),
        |repair| repair[1] ^= 0x80,
    ];
    for (id, damage) in (0..).zip(damaged) {
        let payload = repair_of(id, b"\x01\x01\x01\x01", damage);
        let datagram = peer.one_rtt_bytes(&payload);
        arena.send(datagram);
        arena.run(20 * MS);
    }
    // A source symbol that is longer than the repair symbol over it.
    let long = [header(5), vec![0; 60]].concat();
    let datagram = peer.one_rtt_bytes(&long);
    arena.send(datagram);
    let datagram = peer.one_rtt_bytes(&repair_of(5, b"\0\0", |_| {}));
    arena.send(datagram);
    arena.run(50 * MS);
    arena.assert_alive(&mut peer);
    arena.on_victim(|server, _| {
        let stats = server.fec_stats();
        assert_eq!((stats.recovered, stats.ignored), (0, 4), "{stats:?}");
    });
}

#[test]
fn violations_have_their_errors() {
    let repair = |count, key, symbol: &[u8]| {
        raw::encode(&[Frame::Repair(Repair {
            first: 0,
            count,
            key,
            symbol,
        })])
    };
    // More than the announced window, no key of the code, longer than the longest, too short.
    closes(&repair(257, 0, &[0; 20]), Code::PROTOCOL_VIOLATION);
    closes(&repair(4, 1 << 16, &[0; 20]), Code::PROTOCOL_VIOLATION);
    closes(&repair(4, 0, &[0]), Code::PROTOCOL_VIOLATION);
    closes(&repair(0, 0, &[0; 20]), Code::FRAME_ENCODING_ERROR);
    // A header with nothing behind it, two headers, a PING behind one.
    closes(&header(0), Code::FRAME_ENCODING_ERROR);
    closes(
        &[header(0), header(1), vec![0]].concat(),
        Code::PROTOCOL_VIOLATION,
    );
    closes(&[header(0), vec![1]].concat(), Code::PROTOCOL_VIOLATION);
    // As of an unknown type, where nothing was negotiated.
    let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
    let datagram = peer.one_rtt_bytes(&[header(0), vec![0]].concat());
    arena.expect_close(&mut peer, datagram, Code::FRAME_ENCODING_ERROR);
    // Symbols that the server has not sent; a window without symbols.
    let beyond = [0x6f, 0xe9, 0x7f, 0xff, 0x00, 0x00];
    closes(&beyond, Code::PROTOCOL_VIOLATION);
    let none = raw::encode(&[Frame::FecWindow {
        epoch: 1,
        symbols: 0,
        bytes: 1,
    }]);
    closes(&none, Code::PROTOCOL_VIOLATION);
}

/// A recovered frame that breaks a rule of its own closes as a received one does.
#[test]
fn recovered_frames_obey_the_rules() {
    let (mut arena, mut peer) = arena();
    let beyond = stream_frame(1 << 40, b"x");
    let datagram = peer.one_rtt_bytes(&repair_of(0, &beyond, |_| {}));
    arena.expect_close(&mut peer, datagram, Code::FLOW_CONTROL_ERROR);
}

/// A window that the peer made smaller is not exceeded.
#[test]
fn fec_window_is_obeyed() {
    let (mut arena, mut peer) = arena();
    let window = Frame::FecWindow {
        epoch: 1,
        symbols: 3,
        bytes: 100_000,
    };
    let datagram = peer.one_rtt(&[window]);
    arena.send(datagram);
    arena.run(20 * MS);
    arena.on_victim(|server, _| {
        let id = server.open_stream(Dir::Uni).unwrap();
        let mut data = Bytes::from(vec![1; 4_500]);
        assert_eq!(server.write_bytes(id, &mut data), Ok(4_500));
    });
    arena.run(50 * MS);
    arena.collect(&mut peer);
    let stats = arena.on_victim(|server, _| server.fec_stats());
    let mut repairs = 0;
    for got in &peer.got {
        let mut reader = Reader::new(&got.payload);
        while !reader.is_empty() {
            if let Frame::Repair(repair) = Frame::decode(&mut reader).unwrap() {
                assert!(repair.count <= 3 || repair.first == 0, "{repair:?}");
                repairs += u32::from(repair.count == 3);
            }
        }
    }
    assert!(repairs > 0, "{stats:?}");
}
