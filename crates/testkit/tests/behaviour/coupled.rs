//! Coupled congestion control: what two paths take of one bottleneck, and of two.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tautline_sim::{DirectionConfig, HostId, LinkConfig, World, quic::QuicHost};
use tautline_testkit::{
    apps::{PatternClient, PatternServer},
    tls,
};
use tautline_transport::{
    config::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig},
    congestion,
    endpoint::Endpoint,
    multipath::MultipathConfig,
    time::Instant,
    units::FourTuple,
};

use crate::kit::{SECOND, wire};

const COUPLED: [&str; 3] = ["lia", "olia", "balia"];
/// More than is fetched.
const ENDLESS: u64 = 1 << 40;

/// A connection under test: its controller and where its paths begin.
struct Flow {
    congestion: &'static str,
    paths: Vec<HostId>,
}

/// Adds a client and a server; the paths of the client lead to the routers `near`, the server is at `far`.
fn add_flow(world: &mut World, number: u8, flow: &Flow, far: HostId) -> HostId {
    let access = || LinkConfig::symmetric(DirectionConfig::default());
    let local = |path: usize| SocketAddr::from(([10, number, path as u8 + 1, 1], 50_000));
    let remote = SocketAddr::from(([10, number, 0, 2], 443));
    let seed = world.seed() * 100 + u64::from(number);
    let mut transport = TransportConfig::default();
    transport.congestion = congestion::registry::by_name(flow.congestion).expect("a controller");
    if flow.paths.len() > 1 {
        transport.multipath = Some(MultipathConfig::default());
    }
    let transport = Arc::new(transport);
    let mut server = ServerConfig::new(Arc::new(tls::server(seed)));
    server.transport = Arc::clone(&transport);
    let endpoint = Arc::new(EndpointConfig::default());
    let rng = world.rng(u64::from(number) * 2);
    let server = Endpoint::new(Arc::clone(&endpoint), Some(Arc::new(server)), rng);
    let server = QuicHost::new(server, remote, PatternServer::default());
    let mut config = ClientConfig::new(Arc::new(tls::client(seed + 50)));
    config.transport = transport;
    let mut client = PatternClient::new(config, remote, &[ENDLESS]);
    let four_tuple = |path| FourTuple {
        local: local(path),
        remote,
    };
    client.paths = (1..flow.paths.len()).map(four_tuple).collect();
    let endpoint = Endpoint::new(endpoint, None, world.rng(u64::from(number) * 2 + 1));
    let client = QuicHost::new(endpoint, local(0), client);
    let addresses: Vec<_> = (0..flow.paths.len()).map(local).collect();
    let client = world.add_host(addresses, Box::new(client));
    let server = world.add_host(remote, Box::new(server));
    for (path, near) in flow.paths.iter().enumerate() {
        let end = (client, Some(local(path).ip()));
        let linked = world.try_connect(end, (*near, None), access());
        linked.unwrap_or_else(|error| panic!("path {path}: {error}"));
    }
    world.connect(far, server, access());
    client
}

fn received(world: &World, client: HostId) -> u64 {
    let fetches = &world.node::<QuicHost<PatternClient>>(client).app().fetches;
    fetches.iter().map(|fetch| fetch.received).sum()
}

/// What a pair of paths gets of one bottleneck over what a NewReno connection beside it gets, in `time`.
fn against_newreno(seed: u64, congestion: &'static str, link: &LinkConfig, time: Duration) -> f64 {
    let mut world = World::new(seed);
    let (near, far) = (world.add_router(), world.add_router());
    world.connect(near, far, link.clone());
    let flow = |congestion, count| Flow {
        congestion,
        paths: vec![near; count],
    };
    let pair = add_flow(&mut world, 1, &flow(congestion, 2), far);
    let other = add_flow(&mut world, 2, &flow("newreno", 1), far);
    world.run_for(time);
    received(&world, pair) as f64 / received(&world, other) as f64
}

/// Mb/s of one connection over a path by each of the links, in 60 s.
fn alone_over(seed: u64, congestion: &'static str, links: &[LinkConfig]) -> f64 {
    let mut world = World::new(seed);
    let far = world.add_router();
    let paths = links.iter().map(|link| {
        let near = world.add_router();
        world.connect(near, far, link.clone());
        near
    });
    let paths = paths.collect();
    let client = add_flow(&mut world, 1, &Flow { congestion, paths }, far);
    world.run_for(60 * SECOND);
    received(&world, client) as f64 * 8e-6
        / world.now().saturating_since(Instant::ZERO).as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;

#[test]
fn a_coupled_pair_is_one_flow_on_one_bottleneck() {
    let link = wire(10, 25);
    let ratios = |congestion| -> Vec<f64> {
        let ratio = |seed| against_newreno(seed, congestion, &link, 60 * SECOND);
        SEEDS.map(ratio).collect()
    };
    for congestion in COUPLED {
        let ratios = ratios(congestion);
        println!("{congestion}: {ratios:.3?}");
        assert!(median(ratios) <= 1.2, "{congestion}");
    }
    let ratios = ratios("newreno");
    println!("newreno: {ratios:.3?}");
    assert!((1.5..2.6).contains(&median(ratios)));
}

#[test]
fn a_coupled_pair_fills_two_links() {
    let cells = [
        ("equal", [wire(10, 22), wire(10, 22)]),
        ("half the rate", [wire(10, 22), wire(5, 22)]),
        ("thrice the delay", [wire(10, 22), wire(10, 66)]),
    ];
    for (name, links) in cells {
        // With one path all of them are NewReno.
        let each = links.each_ref().map(std::slice::from_ref);
        let sum: f64 = each.map(|link| alone_over(1, "newreno", link)).iter().sum();
        for congestion in COUPLED.into_iter().chain(["newreno"]) {
            let share = alone_over(1, congestion, &links) / sum;
            println!("{name}, {congestion}: {share:.3} of the sum");
            assert!(share >= 0.9, "{name}, {congestion}: {share}");
        }
    }
}
