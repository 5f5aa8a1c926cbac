//! Several paths against the best of them, cell by cell: how long fetches take with each scheduler.
//!
//! `cargo run --release -p tautline-testkit --example paths -- --help`
//!
//! `--fetches N`: each size N times, one after the other; times are those of all. `--window BYTES`: the size of
//! receive windows, which then do not grow.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tautline_sim::{DirectionConfig, Jitter, LinkConfig, LossModel, World, links, quic::QuicHost};
use tautline_testkit::{
    apps::{PatternClient, PatternServer},
    tls,
};
use tautline_transport::{
    config::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig, WindowConfig},
    connection::Event,
    endpoint::Endpoint,
    multipath::{MultipathConfig, sched},
    path::PathEvent,
    time::Instant,
    units::{FourTuple, Rate},
};

const USAGE: &str = "paths [--schedulers auto,ecf] [--sizes 10000,1000000] [--seeds N] [--cells NAME,NAME] \
                     [--congestion NAME] [--fetches N] [--window BYTES]";

/// One leg: one-way delay and jitter in ms, loss each way in percent, rate in Mb/s.
#[derive(Clone, Copy)]
struct Leg(u64, u64, f64, u64);

const CELLS: &[(&str, Leg, Leg)] = &[
    ("same", Leg(22, 0, 0.0, 10), Leg(22, 0, 0.0, 10)),
    ("slow", Leg(22, 0, 0.0, 10), Leg(102, 0, 0.0, 5)),
    ("fat", Leg(22, 0, 0.0, 10), Leg(12, 0, 0.0, 50)),
    ("half", Leg(22, 0, 0.0, 10), Leg(22, 0, 0.0, 5)),
    ("rtt-3", Leg(22, 0, 0.0, 10), Leg(66, 0, 0.0, 10)),
    ("rtt-5", Leg(22, 0, 0.0, 10), Leg(110, 0, 0.0, 10)),
    ("base", Leg(20, 0, 0.0, 50), Leg(20, 0, 0.0, 50)),
    ("rtt_40", Leg(20, 0, 0.0, 50), Leg(40, 0, 0.0, 50)),
    ("rtt_70", Leg(20, 0, 0.0, 50), Leg(70, 0, 0.0, 50)),
    ("rtt_120", Leg(20, 0, 0.0, 50), Leg(120, 0, 0.0, 50)),
    ("rtt_320", Leg(20, 0, 0.0, 50), Leg(320, 0, 0.0, 50)),
    ("jit_5", Leg(20, 0, 0.0, 50), Leg(20, 5, 0.0, 50)),
    ("jit_20", Leg(20, 0, 0.0, 50), Leg(20, 20, 0.0, 50)),
    ("loss_05", Leg(20, 0, 0.0, 50), Leg(20, 0, 0.5, 50)),
    ("loss_2", Leg(20, 0, 0.0, 50), Leg(20, 0, 2.0, 50)),
    ("bw_12", Leg(20, 0, 0.0, 50), Leg(20, 0, 0.0, 12)),
    ("bw_100", Leg(20, 0, 0.0, 100), Leg(20, 0, 0.0, 10)),
    ("dual_lte", Leg(30, 5, 0.5, 40), Leg(45, 8, 0.5, 25)),
    ("fiber_lte", Leg(8, 0, 0.0, 300), Leg(40, 8, 0.5, 30)),
    ("lte_starlink", Leg(35, 8, 0.0, 40), Leg(50, 25, 1.0, 100)),
    ("lte_geo", Leg(35, 0, 0.0, 40), Leg(320, 20, 0.5, 20)),
    ("congested", Leg(50, 20, 2.0, 20), Leg(60, 25, 2.0, 15)),
];

/// Pairs of the laboratory's named links.
const NAMED: &[(&str, [&str; 2])] = &[
    ("wifi+lte", ["wifi", "lte"]),
    ("leo+lte", ["leo", "lte"]),
    ("geo+lte", ["geo", "lte"]),
];

/// All pairs, by name.
fn cells() -> Vec<(&'static str, [LinkConfig; 2])> {
    let plain = CELLS
        .iter()
        .map(|(name, a, b)| (*name, [link(*a), link(*b)]));
    let by_name = |name| links::by_name(name).expect("a named link");
    let named = NAMED.iter().map(|(name, pair)| (*name, pair.map(by_name)));
    plain.chain(named).collect()
}

fn link(leg: Leg) -> LinkConfig {
    let mut direction = DirectionConfig::new(
        Rate::from_bits_per_second(leg.3 * 1_000_000),
        Duration::from_millis(leg.0),
    );
    if leg.1 > 0 {
        direction.jitter = Some(Jitter {
            correlation: Duration::from_millis(50),
            ..Jitter::fifo(Duration::from_millis(leg.1))
        });
    }
    if leg.2 > 0.0 {
        direction.loss = LossModel::uniform(leg.2 / 100.0);
    }
    LinkConfig::symmetric(direction)
}

/// What is fetched.
#[derive(Clone, Copy)]
struct Load {
    size: u64,
    fetches: usize,
    /// Bytes of receive windows that do not grow.
    window: Option<u64>,
}

fn local(index: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, index as u8 + 1, 1], 50_000))
}

/// Seconds from the moment that all paths work until everything was fetched, and bytes sent over bytes
/// fetched; `None` if it is not done in ten minutes.
fn fetch(
    seed: u64,
    legs: &[LinkConfig],
    scheduler: &str,
    congestion: &str,
    load: Load,
) -> Option<(f64, f64)> {
    let remote = SocketAddr::from(([10, 0, 0, 2], 443));
    let mut world = World::new(seed);
    let mut transport = TransportConfig::default();
    transport.congestion = tautline_transport::congestion::registry::by_name(congestion)?;
    if let Some(window) = load.window {
        transport.stream_receive_window = WindowConfig::fixed(window);
        transport.connection_receive_window = WindowConfig::fixed(window);
    }
    let mut multipath = MultipathConfig::default();
    multipath.scheduler = sched::registry::by_name(scheduler)?;
    transport.multipath = Some(multipath);
    let transport = Arc::new(transport);
    let mut server_config = ServerConfig::new(Arc::new(tls::server(seed)));
    server_config.transport = Arc::clone(&transport);
    let endpoint = Arc::new(EndpointConfig::default());
    let server = Endpoint::new(
        Arc::clone(&endpoint),
        Some(Arc::new(server_config)),
        world.rng(1),
    );
    let mut client_config = ClientConfig::new(Arc::new(tls::client(seed + 1)));
    client_config.transport = transport;
    let client = Endpoint::new(endpoint, None, world.rng(2));
    let mut app = PatternClient::new(client_config, remote, &vec![load.size; load.fetches]);
    app.one_by_one = true;
    app.close_when_done = false;
    app.paths = (1..legs.len())
        .map(|index| FourTuple {
            local: local(index),
            remote,
        })
        .collect();
    let more = app.paths.len();
    let client = QuicHost::new(client, local(0), app);
    let server = QuicHost::new(server, remote, PatternServer::default());
    let addresses: Vec<SocketAddr> = (0..legs.len()).map(local).collect();
    let client = world.add_host(addresses, Box::new(client));
    let server = world.add_host(remote, Box::new(server));
    for (index, leg) in legs.iter().enumerate() {
        let near = (client, Some(local(index).ip()));
        world.try_connect(near, (server, None), leg.clone()).ok()?;
    }
    let limit = Instant::ZERO + Duration::from_secs(600);
    type Client = QuicHost<PatternClient>;
    let ready = move |world: &World| {
        let app = world.node::<Client>(client).app();
        let validated = app
            .events
            .iter()
            .filter(|event| matches!(event, Event::Path(PathEvent::Validated { .. })));
        app.events.contains(&Event::Connected) && validated.count() >= more
    };
    world.run_while(move |world| !ready(world), limit);
    let start = world.now();
    world.run_while(
        move |world| !world.node::<Client>(client).app().is_done(),
        limit,
    );
    let done = world.node::<Client>(client).app().finished_at()?;
    let sent: u64 = world
        .node::<QuicHost<PatternServer>>(server)
        .connections()
        .map(|(_, connection)| connection.stats().bytes_sent)
        .sum();
    Some((
        done.saturating_since(start).as_secs_f64(),
        sent as f64 / (load.size * load.fetches as u64) as f64,
    ))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut args = std::env::args().skip(1);
    let (mut fetches, mut window) = (1, None);
    let (mut schedulers, mut sizes, mut seeds, mut only, mut congestion) = (
        "auto".to_owned(),
        "10000,100000,1000000,20000000".to_owned(),
        3_u64,
        String::new(),
        "cubic".to_owned(),
    );
    while let Some(key) = args.next() {
        let (Some(value), false) = (args.next(), key == "--help") else {
            println!("{USAGE}");
            return;
        };
        match key.as_str() {
            "--schedulers" => schedulers = value,
            "--sizes" => sizes = value,
            "--seeds" => seeds = value.parse().expect("a number"),
            "--cells" => only = value,
            "--congestion" => congestion = value,
            "--window" => window = Some(value.parse().expect("bytes")),
            "--fetches" => fetches = value.parse().expect("a number"),
            _ => panic!("unknown option {key}: {USAGE}"),
        }
    }
    println!(
        "cell size best | scheduler: ratio to the best single path, handshake on a / b (worst seed), bytes sent per byte"
    );
    let wanted = |name| only.is_empty() || only.split(',').any(|wanted| wanted == name);
    for (name, [a, b]) in cells().into_iter().filter(|cell| wanted(cell.0)) {
        for size in sizes
            .split(',')
            .map(|size| size.parse::<u64>().expect("bytes"))
        {
            let load = Load {
                size,
                fetches,
                window,
            };
            let times = |legs: &[LinkConfig], scheduler: &str| -> Vec<(f64, f64)> {
                (1..=seeds)
                    .map(|seed| {
                        fetch(seed, legs, scheduler, &congestion, load)
                            .unwrap_or((f64::INFINITY, 0.0))
                    })
                    .collect()
            };
            let time = |runs: &[(f64, f64)]| median(runs.iter().map(|run| run.0).collect());
            let alone = |leg| times(std::slice::from_ref(leg), "auto");
            let (on_a, on_b) = (alone(&a), alone(&b));
            let best = if time(&on_a) <= time(&on_b) {
                on_a
            } else {
                on_b
            };
            let mut line = format!("{name:12} {size:9} {:.3}", time(&best));
            for scheduler in schedulers.split(',') {
                let ab = times(&[a.clone(), b.clone()], scheduler);
                let ba = times(&[b.clone(), a.clone()], scheduler);
                let worst = |runs: &[(f64, f64)]| {
                    let ratios = runs.iter().zip(&best).map(|(run, best)| run.0 / best.0);
                    ratios.fold(0.0, f64::max)
                };
                let overhead = median(ab.iter().map(|run| run.1).collect());
                let mark = if time(&ab).max(time(&ba)) > 1.01 * time(&best) {
                    " !"
                } else {
                    ""
                };
                line += &format!(
                    " | {scheduler} {:.3} {:.3} ({:.3}) x{overhead:.2}{mark}",
                    time(&ab) / time(&best),
                    time(&ba) / time(&best),
                    worst(&ab).max(worst(&ba)),
                );
            }
            println!("{line}");
        }
    }
}
