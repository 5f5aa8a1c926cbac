//! What the application may choose of erasure correction: which streams and messages it is for, and
//! that its packets are of one size.

use std::collections::BTreeSet;

use bytes::Bytes;
use tautline_sim::LossModel;
use tautline_testkit::{
    apps::Manual,
    trace::{FrameTrace, PacketTrace},
};
use tautline_transport::{
    connection::Connection,
    message::MessageOptions,
    stream::Protection,
    time::Instant,
    tls::Level,
    units::{Dir, StreamId},
};

use crate::{
    fec::{SOURCE_SYMBOL, pair, protect},
    kit::{MS, Net, SECOND, Setup, calm, read_all, wire},
};

fn is_header(frame: &FrameTrace) -> bool {
    matches!(frame, FrameTrace::Other(ty) if SOURCE_SYMBOL.contains(ty))
}

fn is_of(id: StreamId) -> impl Fn(&FrameTrace) -> bool {
    move |frame| matches!(frame, FrameTrace::Stream { id: of, .. } if *of == id)
}

/// Opens a stream with `bytes` bytes on it and no more to come.
fn send(connection: &mut Connection, bytes: usize, protection: Protection) -> StreamId {
    let id = connection.open_stream(Dir::Uni).unwrap();
    connection.set_protection(id, protection);
    let mut data = Bytes::from(vec![7; bytes]);
    assert_eq!(connection.write_bytes(id, &mut data), Ok(bytes));
    connection.finish(id).unwrap();
    id
}

fn packets_with(net: &Net<Manual, Manual>, id: StreamId) -> Vec<PacketTrace> {
    net.server_trace.with(0, |server| {
        let packets = server.sent.iter();
        let of_stream = packets.filter(|packet| packet.has(is_of(id)));
        of_stream.cloned().collect()
    })
}

/// Whether STREAM frames of `id` stand behind a header in all of its packets: `None` if in some.
fn is_covered(net: &Net<Manual, Manual>, id: StreamId) -> Option<bool> {
    let behind = |packet: &PacketTrace| {
        let header = packet.frames.iter().position(is_header);
        let data = packet.frames.iter().position(is_of(id));
        header.is_some_and(|header| data.is_some_and(|data| header < data))
    };
    let packets = packets_with(net, id);
    assert!(!packets.is_empty());
    let covered = packets.iter().filter(|packet| behind(packet)).count();
    match covered {
        0 => Some(false),
        all if all == packets.len() => Some(true),
        _ => None,
    }
}

fn arrived(net: &mut Net<Manual, Manual>, id: StreamId, bytes: usize) {
    let (read, fin) = net.on_client(|client, _| read_all(client, id));
    assert!(fin && read.len() == bytes, "{}", net.last_packets());
}

#[test]
fn a_stream_can_do_without() {
    let mut net = pair("constant:10,8", calm());
    let before = net.server_connection().fec_stats();
    let plain = net.on_server(|server, _| send(server, 30_000, Protection::Never));
    net.run_for(SECOND);
    assert_eq!(is_covered(&net, plain), Some(false));
    let after = net.server_connection().fec_stats();
    assert_eq!(after.sources_sent, before.sources_sent);
    assert_eq!(after.repairs_sent, before.repairs_sent);
    // Packets are as full as without erasure correction.
    let bytes = packets_with(&net, plain)[0].bytes;
    assert_eq!(bytes, 1200);
    // It is over: others are not affected.
    let usual = net.on_server(|server, _| send(server, 30_000, Protection::Scheduled));
    net.run_for(SECOND);
    assert_eq!(is_covered(&net, usual), Some(true));
    arrived(&mut net, plain, 30_000);
    arrived(&mut net, usual, 30_000);
}

/// Data that is not protected stands before the header where it comes first, and is sent again when the
/// packet is lost; what stands behind is recovered.
#[test]
fn a_packet_with_both_is_protected_in_part() {
    let both = |net: &mut Net<Manual, Manual>| {
        net.on_server(|server, _| {
            let plain = send(server, 300, Protection::Never);
            (plain, send(server, 300, Protection::Scheduled))
        })
    };
    let mut net = pair("constant:2,1", calm());
    let link = net.link;
    let packets = |net: &Net<Manual, Manual>| {
        let backward = tautline_sim::Direction::Backward;
        net.world.link_stats(link, backward).sent_packets
    };
    let next = packets(&net);
    let (plain, usual) = both(&mut net);
    net.run_for(SECOND);
    let first = packets_with(&net, plain).remove(0);
    let position = |of: &dyn Fn(&FrameTrace) -> bool| first.frames.iter().position(of);
    let header = position(&is_header);
    assert!(position(&is_of(plain)) < header && header < position(&is_of(usual)));
    assert!(header.is_some());

    let mut link = calm();
    link.backward.drop_packets.push(next..=next);
    let mut net = pair("constant:2,1", link);
    let (plain, usual) = both(&mut net);
    net.run_for(SECOND);
    assert_eq!(net.client_connection().fec_stats().recovered, 1);
    assert_eq!(packets_with(&net, plain).len(), 2);
    assert_eq!(packets_with(&net, usual).len(), 1);
    arrived(&mut net, plain, 300);
    arrived(&mut net, usual, 300);
}

/// Where the scheduler leaves the middle of a transfer plain, a stream can insist.
#[test]
fn a_stream_can_insist() {
    let mut net = pair("flec-bulk", wire(20, 20));
    let (bulk, insists) = net.on_server(|server, _| {
        let bulk = send(server, 200_000, Protection::Scheduled);
        (bulk, send(server, 20_000, Protection::Always))
    });
    net.run_for(5 * SECOND);
    assert_eq!(is_covered(&net, insists), Some(true));
    assert_ne!(is_covered(&net, bulk), Some(true));
    arrived(&mut net, bulk, 200_000);
    arrived(&mut net, insists, 20_000);

    // Without a scheduler that protects anything there is nothing to insist on.
    let mut net = pair("none", wire(20, 20));
    let insists = net.on_server(|server, _| send(server, 20_000, Protection::Always));
    net.run_for(SECOND);
    assert_eq!(is_covered(&net, insists), Some(false));
}

/// Messages choose for themselves, and deadlines of those that do without move nobody.
#[test]
fn a_message_can_do_without() {
    let run = |protection| {
        let mut net = pair("flec-message", wire(8, 150));
        net.on_client(|client, _| client.receive_messages());
        let before = net.server_connection().fec_stats();
        for _ in 0..20 {
            net.on_server(|server, now: Instant| {
                let options = MessageOptions {
                    deadline: Some(now + 250 * MS),
                    protection,
                    ..MessageOptions::default()
                };
                let data = Bytes::from(vec![7; 3_000]);
                server.send_message(now, data, &options).unwrap();
            });
            // Slow enough for the window of a new connection.
            net.run_for(66 * MS);
        }
        net.run_for(2 * SECOND);
        let stats = net.server_connection().message_stats();
        assert!(stats.on_time + stats.late > 15, "{stats:?}");
        let after = net.server_connection().fec_stats();
        (
            after.sources_sent - before.sources_sent,
            after.repairs_sent - before.repairs_sent,
        )
    };
    let (sources, repairs) = run(Protection::Scheduled);
    assert!(sources >= 50 && repairs > 0, "{sources} {repairs}");
    assert_eq!(run(Protection::Never), (0, 0));
}

/// Sizes of 1-RTT packets with source symbols, and with repair symbols; each alone in its datagram.
fn sizes(net: &Net<Manual, Manual>) -> [BTreeSet<usize>; 2] {
    let of = |wanted: &dyn Fn(&FrameTrace) -> bool| {
        net.server_trace.with(0, |server| {
            let packets = server.sent_at(Level::OneRtt);
            let packets = packets.filter(|packet| packet.has(wanted));
            packets.map(|packet| packet.bytes).collect()
        })
    };
    [
        of(&is_header),
        of(&|frame| matches!(frame, FrameTrace::Repair { .. })),
    ]
}

/// Sends short and long runs, with acknowledgements among them, over a link that loses packets.
fn varied(padding: bool, loss: f64) -> Net<Manual, Manual> {
    let mut link = wire(20, 20);
    link.backward.loss = LossModel::uniform(loss);
    let setup = Setup::new(7, link).both(|config| {
        protect(config, "constant:5,4");
        config.fec.padding = padding;
        config.mtu.discovery = false;
    });
    let mut net = setup.manual();
    net.connect();
    for len in [10, 700, 1_100, 1_170, 3_000, 20_000, 100_000] {
        let id = net.on_server(|server, _| {
            send(server, 500, Protection::Never);
            send(server, len, Protection::Scheduled)
        });
        // Something to acknowledge, so that there are packets with ACK frames and data.
        net.on_client(|client, _| send(client, 5_000, Protection::Scheduled));
        net.run_for(2 * SECOND);
        arrived(&mut net, id, len);
    }
    net
}

/// Nobody tells source packets and repair packets apart by their size, where that is wanted.
#[test]
fn padded_packets_are_of_one_size() {
    let net = varied(false, 0.0);
    let [sources, repairs] = sizes(&net);
    assert!(
        sources.len() > 3 && repairs.len() > 1,
        "{sources:?} {repairs:?}"
    );
    for loss in [0.0, 0.05] {
        let net = varied(true, loss);
        let full = BTreeSet::from([1200]);
        assert_eq!(sizes(&net), [full.clone(), full]);
        let (sent, got) = (
            net.server_connection().fec_stats(),
            net.client_connection().fec_stats(),
        );
        assert!(sent.repairs_sent > 20);
        assert_eq!((got.recovered > 0, got.ignored), (loss > 0.0, 0));
        // None of the padding is in a symbol, and packets without one have none.
        net.server_trace.with(0, |server| {
            for packet in server.sent_at(Level::OneRtt) {
                let coded = packet.has(is_header)
                    || packet.has(|frame| matches!(frame, FrameTrace::Repair { .. }));
                let padded = packet.has(|frame| matches!(frame, FrameTrace::Padding(_)));
                assert!(coded || !padded);
            }
        });
        let padding = net.client_trace.with(0, |client| {
            let packets = client.received.iter();
            let position = |packet: &PacketTrace, of: &dyn Fn(&FrameTrace) -> bool| {
                packet.frames.iter().position(of)
            };
            let sources = packets.filter(|packet| packet.has(is_header));
            let padded = sources.filter(|packet| {
                let padding = position(
                    packet,
                    &|frame| matches!(frame, FrameTrace::Padding(n) if *n > 3),
                );
                let header = position(packet, &is_header);
                assert!(padding.is_none() || padding < header);
                padding.is_some()
            });
            padded.count()
        });
        assert!(padding > 5);
    }
}

/// Nor after probe timeouts, when datagrams are shorter for a while.
#[test]
fn padded_packets_are_of_one_size_after_silence() {
    let mut link = wire(20, 20);
    link.backward.drop_packets.push(30..=45);
    let setup = Setup::new(7, link).both(|config| {
        protect(config, "constant:5,4");
        config.fec.padding = true;
        config.mtu.discovery = false;
        config.mtu.initial = 1400;
    });
    let mut net = setup.manual();
    net.connect();
    let ids: Vec<StreamId> = (0..20)
        .map(|_| {
            let id = net.on_server(|server, _| send(server, 3_000, Protection::Scheduled));
            net.run_for(50 * MS);
            id
        })
        .collect();
    net.run_for(20 * SECOND);
    // The path's datagram size, and what it is while that is in doubt.
    let full = BTreeSet::from([1200, 1400]);
    let [sources, repairs] = sizes(&net);
    assert!(
        sources.is_subset(&full) && sources.contains(&1400),
        "{sources:?}"
    );
    assert!(
        repairs.is_subset(&full) && repairs.contains(&1400),
        "{repairs:?}"
    );
    for id in ids {
        arrived(&mut net, id, 3_000);
    }
}

/// The choice ends with the connection, and with the stream.
#[test]
fn choices_outlive_nothing() {
    let mut net = pair("constant:10,8", calm());
    let ids: Vec<StreamId> = net.on_client(|client, _| {
        let open = (0..3).map(|_| client.open_stream(Dir::Bi).unwrap());
        let ids: Vec<StreamId> = open.collect();
        for id in &ids {
            client.set_protection(*id, Protection::Never);
            client.set_protection(*id, Protection::Always);
            client.write(*id, b"request").unwrap();
        }
        client.finish(ids[0]).unwrap();
        client.set_protection(StreamId(1 << 40), Protection::Never);
        ids
    });
    net.run_for(SECOND);
    net.on_server(|server, _| {
        for id in &ids {
            server.set_protection(*id, Protection::Never);
            server.write(*id, b"answer").unwrap();
            server.finish(*id).unwrap();
        }
    });
    net.run_for(SECOND);
    net.on_client(|client, now| client.close(now, 0, Bytes::new()));
    for id in &ids {
        let (read, _) = net.on_client(|client, _| {
            client.set_protection(*id, Protection::Scheduled);
            read_all(client, *id)
        });
        assert_eq!(read, b"answer");
    }
    net.run_for(SECOND);
}
