//! What an end may announce of erasure correction, and what the other makes of it. docs/spec/fec.md s2.

use std::time::Duration;

use tautline_transport::{
    config::TransportConfig,
    error::Code,
    fec::FecStats,
    wire::{FecDecoder, FecScheme, Frame, TransportParameters},
};

use crate::{
    fec::{arrival_of, offered, protect},
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

// ---- Peers made by hand ----

/// What a client says that decodes with RLC of this density, and encodes so.
fn says(parameters: &mut TransportParameters, max_symbol_bytes: u64, density: u64) {
    parameters.fec_decoder = Some(FecDecoder {
        window_symbols: 64,
        window_bytes: 100_000,
        max_symbol_bytes,
        schemes: vec![FecScheme {
            id: 10,
            parameter: density,
        }],
    });
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
