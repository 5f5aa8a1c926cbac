//! What an end may announce of erasure correction, and what the other makes of it. docs/spec/fec.md s2.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tautline_codes::{
    CodingWindow, Encoder, Limits, RepairId, Scheme,
    rlc::{DensityThreshold, Field, Rlc},
    tetrys::Tetrys,
    xor::Xor,
};
use tautline_testkit::apps::Manual;
use tautline_transport::{
    config::TransportConfig,
    error::Code,
    fec::{
        FecStats, Occasion,
        redundancy::{RedundancyFactory, RedundancyScheduler, RedundancyView, Repairs},
    },
    message::MessageOptions,
    units::StreamId,
    wire::{ConnectionId, Frame, Repair, TransportParameters},
};

use crate::{
    fec::{arrival_of, header, offered, protect, push, rlc_decoder, stream_frame},
    kit::{MS, SECOND, Setup, calm},
    raw::{self, Arena, Peer},
};

/// How long 3,000 bytes take from a server to a client, the packets that the server sends in the second
/// after, and what it did.
fn download(scheduler: &str, at_client: u16, at_server: u16) -> (Duration, u64, FecStats) {
    let setup = Setup::new(7, calm()).both(|config| {
        config.mtu.discovery = false;
        protect(config, scheduler);
    });
    let setup = setup.client(|config| config.fec.max_symbol_bytes = at_client);
    let setup = setup.server(|config| config.fec.max_symbol_bytes = at_server);
    let mut net = setup.manual();
    net.connect();
    let (packets, before) = (offered(&net), net.server_connection().fec_stats());
    let time = arrival_of(&mut net, 3_000);
    net.run_for(SECOND);
    let mut stats = net.server_connection().fec_stats();
    stats.sources_sent -= before.sources_sent;
    stats.repairs_sent -= before.repairs_sent;
    (time, offered(&net) - packets, stats)
}

/// Whatever symbols a peer takes, it neither stalls what is sent to it nor has it cut to pieces.
#[test]
fn short_symbols_make_no_short_packets() {
    let (plain, packets, _) = download("none", 1_500, 1_500);
    for scheduler in ["constant:25,20", "rquic", "auto"] {
        for size in [1, 10, 24, 30, 40, 511, 512, 1_200] {
            for at_server in [size, 1_500] {
                let (time, taken, stats) = download(scheduler, size, at_server);
                let what = format!("{scheduler} {size} {at_server} {taken} {packets} {stats:?}");
                assert!(time <= plain + 2 * MS, "{what}: {time:?}, plain {plain:?}");
                if size < 512 {
                    assert_eq!((stats.sources_sent, stats.repairs_sent), (0, 0), "{what}");
                }
                // The shortest symbols that are protected are of less than half a packet.
                let most = if size == 512 {
                    packets * 5 / 2
                } else {
                    packets * 3 / 2
                };
                assert!(taken <= most, "{what}");
            }
        }
    }
}

/// Frames that the parameters allow are no error, even where we make nothing of them.
#[test]
fn any_symbol_size_goes_with_any_window() {
    for (at_client, at_server) in [(0, 0), (0, 1_500), (1_500, 0), (1, 1_500), (511, 512)] {
        let setup = Setup::new(7, calm()).both(|config| protect(config, "constant:25,20"));
        let setup = setup.client(|config| config.fec.max_symbol_bytes = at_client);
        let setup = setup.server(|config| config.fec.max_symbol_bytes = at_server);
        let mut net = setup.manual();
        net.connect();
        net.on_client(|client, _| client.set_fec_window(3));
        net.on_server(|server, _| server.set_fec_window(3));
        net.run_for(SECOND);
        push(&mut net, 3_000, SECOND);
        assert!(!net.server_connection().is_fec_sender());
    }
}

/// Codes that are configured twice, have no number, or are many, do not break the handshake.
#[test]
fn any_codes_may_be_configured() {
    let xor = |depth: u16| Scheme::Xor(Xor::interleaved(depth.try_into().unwrap()));
    let rlc = |density| Rlc::new(Field::Gf256, DensityThreshold::new(density).unwrap());
    let many: Vec<_> = (1..40)
        .map(xor)
        .chain((0..16).map(|d| Scheme::Rlc(rlc(d))))
        .collect();
    let nameless = Scheme::Tetrys(Tetrys::RFC9407);
    let cases = [
        (vec![xor(1), xor(4)], true),
        (vec![nameless], false),
        (vec![nameless, xor(2)], true),
        (vec![nameless; 40], false),
        (many, true),
        (Vec::new(), false),
    ];
    for (schemes, protects) in cases {
        let setup = Setup::new(7, calm()).both(|config| {
            protect(config, "constant:25,20");
            config.fec.schemes.clone_from(&schemes);
        });
        let mut net = setup.manual();
        net.connect();
        push(&mut net, 30_000, SECOND);
        let server = net.server_connection();
        assert_eq!(server.is_fec_sender(), protects, "{schemes:?}");
        assert_eq!(server.fec_stats().repairs_sent > 0, protects, "{schemes:?}");
    }
}

// ---- Peers made by hand ----

/// What a client says that decodes with RLC of this density, and encodes so.
fn says(parameters: &mut TransportParameters, max_symbol_bytes: u64, density: u64) {
    parameters.fec_decoder = Some(rlc_decoder(max_symbol_bytes, density));
    parameters.fec_encoder = vec![10];
}

/// A server that decodes and protects, and a client that takes symbols of so many bytes.
fn arena(max_symbol_bytes: u64) -> (Arena, Peer) {
    let server = |config: &mut TransportConfig| protect(config, "constant:25,20");
    Arena::confirmed_with(1, server, |client| says(client, max_symbol_bytes, 15))
}

/// Feedback is heard, and its errors are errors, where nothing is protected since symbols are too short.
#[test]
fn feedback_of_a_peer_with_short_symbols() {
    let window = |symbols| {
        raw::encode(&[Frame::FecWindow {
            epoch: 0,
            symbols,
            bytes: 0,
        }])
    };
    let (mut arena_of_short, mut peer) = arena(10);
    let datagram = peer.one_rtt_bytes(&window(3));
    arena_of_short.send(datagram);
    arena_of_short.run(50 * MS);
    arena_of_short.assert_alive(&mut peer);
    // A window without symbols; symbol 0, which was not sent.
    for wrong in [window(0), vec![0x6f, 0xe9, 0, 0, 0]] {
        let (mut arena, mut peer) = arena(10);
        let datagram = peer.one_rtt_bytes(&wrong);
        arena.expect_close(&mut peer, datagram, Code::PROTOCOL_VIOLATION);
    }
}

/// A parameter that a code does not have is an error, whatever the other end does itself.
#[test]
fn parameters_of_codes_are_checked_always() {
    let encodes = |config: &mut TransportConfig| {
        protect(config, "constant:25,20");
        config.fec.decode = false;
    };
    let ends: [fn(&mut TransportConfig); 3] = [|_| {}, |config| config.fec.decode = true, encodes];
    for (index, end) in ends.into_iter().enumerate() {
        for (density, expected) in [(15, None), (16, Some(Code::TRANSPORT_PARAMETER_ERROR))] {
            let mut arena = Arena::server(1, end, |_| {}, Manual::server());
            let mut parameters = raw::parameters(ConnectionId::new(&[0x11; 8]).unwrap());
            says(&mut parameters, 1_400, density);
            let mut peer = Peer::client(0x11, &parameters);
            let first = peer.first();
            arena.send(first);
            arena.run(100 * MS);
            arena.collect(&mut peer);
            assert_eq!(arena.victim_error(), expected, "end {index}, {density}");
        }
    }
}

/// A repair symbol over more than FEC_WINDOW's bytes may have crossed it: it is used.
#[test]
fn a_repair_symbol_beyond_window_bytes_is_no_error() {
    const SYMBOLS: u64 = 5;
    let (mut arena, mut peer) = arena(1_400);
    arena.on_victim(|server, _| server.set_fec_window(2));
    arena.run(50 * MS);
    let mut encoder = Encoder::new(Limits::default());
    for id in 0..SYMBOLS {
        let symbol = stream_frame(id * 900, &[7; 900]);
        encoder.push(&symbol).unwrap();
        if id > 0 {
            let datagram = peer.one_rtt_bytes(&[header(id), symbol].concat());
            arena.send(datagram);
        }
    }
    let window = CodingWindow {
        first: 0,
        len: SYMBOLS as u16,
    };
    let mut symbol = vec![0; encoder.repair_len(window).unwrap()];
    assert!(SYMBOLS as usize * symbol.len() > 2 * 1_502);
    let id = RepairId { window, key: 0 };
    encoder.repair(&Rlc::DENSE, id, &mut symbol).unwrap();
    let datagram = peer.one_rtt(&[Frame::Repair(Repair {
        first: 0,
        count: SYMBOLS,
        key: 0,
        symbol: &symbol,
    })]);
    arena.send(datagram);
    arena.run(50 * MS);
    arena.assert_alive(&mut peer);
    arena.on_victim(|server, _| {
        assert_eq!(server.fec_stats().recovered, 1);
        let (data, _) = crate::kit::read_all(server, StreamId(0));
        assert_eq!(data.len(), 900 * SYMBOLS as usize);
    });
}

/// A packet whose symbol was rebuilt to nonsense, or whose number another packet had, says what it says.
#[test]
fn a_datagram_counts_whatever_its_symbol_is_said_to_be() {
    let (mut arena, mut peer) = arena(1_400);
    // Of symbol 0 alone: PINGs, which may not stand in a symbol.
    let symbol = [1; 4];
    let mut encoder = Encoder::new(Limits::default());
    encoder.push(&symbol).unwrap();
    let window = CodingWindow { first: 0, len: 1 };
    let mut repair = vec![0; encoder.repair_len(window).unwrap()];
    let id = RepairId { window, key: 0 };
    encoder.repair(&Rlc::DENSE, id, &mut repair).unwrap();
    let datagram = peer.one_rtt(&[Frame::Repair(Repair {
        first: 0,
        count: 1,
        key: 0,
        symbol: &repair,
    })]);
    arena.send(datagram);
    for data in [&b"first"[..], b"second"] {
        let frame = raw::encode(&[Frame::Datagram { data }]);
        let datagram = peer.one_rtt_bytes(&[header(0), frame].concat());
        arena.send(datagram);
        arena.run(50 * MS);
        arena.on_victim(|server, _| {
            assert_eq!(server.recv_datagram().as_deref(), Some(data));
            assert_eq!(server.fec_stats().recovered, 0);
        });
    }
    arena.assert_alive(&mut peer);
}

/// Sends nothing and counts how often it is asked for what acknowledgements tell.
#[derive(Clone, Debug, Default)]
struct Asked(Arc<AtomicU64>);

impl RedundancyFactory for Asked {
    fn name(&self) -> &'static str {
        "asked"
    }

    fn build(&self) -> Box<dyn RedundancyScheduler> {
        Box::new(self.clone())
    }
}

impl RedundancyScheduler for Asked {
    fn name(&self) -> &'static str {
        "asked"
    }

    fn ask(&mut self, occasion: Occasion, _: &RedundancyView) -> Repairs {
        let feedback = u64::from(occasion == Occasion::Feedback);
        self.0.fetch_add(feedback, Ordering::Relaxed);
        Repairs::NONE
    }
}

/// A packet holds hundreds of ACK frames. Each question may look at all messages that are under way.
#[test]
fn acknowledgements_that_tell_nothing_cost_no_question() {
    let asked = Asked::default();
    let change = |config: &mut TransportConfig| {
        config.fec.redundancy = Arc::new(asked.clone());
        config.fec.decode = true;
    };
    let (mut arena, mut peer) = Arena::confirmed_with(1, change, |client| says(client, 1_400, 15));
    arena.on_victim(|server, now| {
        let options = MessageOptions {
            deadline: Some(now + 60 * SECOND),
            ..MessageOptions::default()
        };
        let sent = server.send_message(now, Bytes::from_static(&[1; 3_000]), &options);
        assert!(sent.is_ok());
    });
    arena.run(20 * MS);
    let mut asked_by = |frame: &[u8]| {
        let before = asked.0.load(Ordering::Relaxed);
        let datagram = peer.one_rtt_bytes(&frame.repeat(200));
        arena.send(datagram);
        arena.run(20 * MS);
        asked.0.load(Ordering::Relaxed) - before
    };
    let ack = raw::ack(&[0..=1]);
    assert_eq!(asked_by(&ack), 1);
    assert_eq!(asked_by(&ack), 0);
}
