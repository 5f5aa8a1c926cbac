//! Where acknowledgements go, and what their ways do to round trips, losses and windows.

use std::{
    cell::Cell,
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use tautline_sim::{Direction, LinkConfig, LinkId, LossModel, PacketView, Verdict, links};
use tautline_testkit::{
    apps::{PatternClient, PatternServer},
    pair::{client_address, server_address},
};
use tautline_transport::{
    ack,
    config::TransportConfig,
    congestion,
    connection::{Connection, Event},
    multipath::{AckRouting, MultipathConfig, PathStatus},
    observe::{self, ConnectionInfo, Sink, SinkFactory},
    path::{PathEvent, PathStats},
    time::Instant,
    units::{FourTuple, PathId},
};

use crate::kit::{MS, Net, SECOND, Setup, wire};

const ALL: [AckRouting; 4] = [
    AckRouting::SamePath,
    AckRouting::OnePath,
    AckRouting::Grouped,
    AckRouting::Alternate,
];

fn local(index: usize) -> SocketAddr {
    match index {
        0 => client_address(),
        _ => SocketAddr::from(([10, 0, index as u8, 1], 50_000)),
    }
}

type Fetching = Net<PatternClient, PatternServer>;

/// A client that fetches over all links, its acknowledgements routed like this.
fn fetching(
    seed: u64,
    links: &[LinkConfig],
    routing: AckRouting,
    bytes: u64,
    change: impl FnOnce(Setup) -> Setup,
) -> (Fetching, Vec<LinkId>) {
    let setup = Setup::new(seed, links[0].clone())
        .quiet()
        .both(|config| config.multipath = Some(MultipathConfig::default()))
        .client(|config| {
            let mut multipath = MultipathConfig::default();
            multipath.ack_routing = routing;
            config.multipath = Some(multipath);
        });
    let mut setup = change(setup);
    setup.client_addresses = (0..links.len()).map(local).collect();
    setup.parallel = links[1..].to_vec();
    let further: Vec<FourTuple> = (1..links.len())
        .map(|index| FourTuple {
            local: local(index),
            remote: server_address(),
        })
        .collect();
    let mut net = setup.build(
        move |config, to| {
            let mut client = PatternClient::new(config, to, &[bytes]);
            client.paths = further;
            client
        },
        PatternServer::default(),
    );
    net.client_stays();
    let mut all = vec![net.link];
    all.extend(&net.parallel);
    (net, all)
}

fn validated(net: &Fetching) -> usize {
    let events = net.client_app().events.iter();
    events
        .filter(|event| matches!(event, Event::Path(PathEvent::Validated { .. })))
        .count()
}

/// Until all paths work.
fn open(net: &mut Fetching) {
    let ready = net.run_while(10 * SECOND, |net| {
        validated(net) < net.client_app().paths.len() || net.client_app().paths.is_empty()
    });
    assert!(ready, "paths work: {:?}", net.client_app().events);
}

/// Seconds from then to the last byte.
fn fetch_time(net: &mut Fetching, limit: Duration) -> f64 {
    open(net);
    let start = net.now();
    let done = net.finish(limit);
    done.saturating_since(start).as_secs_f64()
}

fn client(net: &Fetching) -> &Connection {
    let mut connections = net.client_host().connections();
    connections.next().expect("connected").1
}

fn server(net: &Fetching) -> &Connection {
    let mut connections = net.server_host().connections();
    connections.next().expect("connected").1
}

/// A path as the sender of the data sees it.
fn at_server(net: &Fetching, id: u32) -> PathStats {
    let stats = server(net).path_stats(PathId(id));
    stats.expect("the path is there")
}

fn satellite_and_cellular() -> [LinkConfig; 2] {
    [wire(20, 300), wire(20, 35)]
}

fn multipath(config: &mut TransportConfig) -> &mut MultipathConfig {
    config.multipath.as_mut().expect("configured")
}

#[test]
fn acknowledgements_take_the_fastest_way_and_are_measured_by_it() {
    for routing in [AckRouting::OnePath, AckRouting::Grouped] {
        let (mut net, _) = fetching(1, &satellite_and_cellular(), routing, 20_000_000, |it| it);
        open(&mut net);
        net.run_for(4 * SECOND);
        let (slow, fast) = (at_server(&net, 0), at_server(&net, 1));
        assert_eq!((slow.acks_by, fast.acks_by), (PathId(1), PathId(1)));
        // There by satellite and back by radio, with what queues.
        assert!(
            slow.min_rtt >= 335 * MS && slow.min_rtt < 345 * MS,
            "{slow:?}"
        );
        assert!(
            fast.min_rtt >= 70 * MS && fast.min_rtt < 80 * MS,
            "{fast:?}"
        );
        // The satellite's own is known, and apart.
        let own = slow.own_rtt.expect("measured");
        assert!(own >= 600 * MS, "{own:?}");
        assert_eq!(fast.own_rtt, Some(fast.rtt));
        assert_eq!(
            slow.recovery.spurious_losses + fast.recovery.spurious_losses,
            0
        );
        assert_eq!(slow.recovery.ptos + fast.recovery.ptos, 0);
        net.finish(60 * SECOND);
    }
}

#[test]
fn by_default_each_path_has_its_own() {
    let links = satellite_and_cellular();
    let (mut net, _) = fetching(1, &links, AckRouting::SamePath, 10_000_000, |it| it);
    fetch_time(&mut net, 60 * SECOND);
    for id in 0..2 {
        let path = at_server(&net, id);
        assert_eq!(path.acks_by, PathId(id));
        assert_eq!(path.own_rtt, Some(path.rtt));
    }
}

#[test]
fn grouped_acknowledgements_take_fewer_packets() {
    let packets = |routing| {
        let links = [wire(10, 22), wire(10, 40), wire(10, 30)];
        let (mut net, _) = fetching(2, &links, routing, 5_000_000, |it| it);
        fetch_time(&mut net, 60 * SECOND);
        client(&net).stats().packets_sent
    };
    let [same, one, grouped] = [
        AckRouting::SamePath,
        AckRouting::OnePath,
        AckRouting::Grouped,
    ]
    .map(packets);
    println!("same-path {same}, one-path {one}, grouped {grouped}");
    assert!(one * 10 < same * 11, "{one} {same}");
    assert!(grouped * 10 < one * 9, "{grouped} {one}");
}

#[test]
fn a_peer_that_takes_turns_breaks_nothing() {
    for name in congestion::registry::names() {
        let time = |routing| {
            let controller = congestion::registry::by_name(name).expect("known");
            let links = [wire(20, 100), wire(20, 20)];
            let (mut net, _) = fetching(3, &links, routing, 10_000_000, |setup| {
                setup.server(|config| config.congestion = controller)
            });
            let time = fetch_time(&mut net, 60 * SECOND);
            let paths = [at_server(&net, 0), at_server(&net, 1)];
            for path in &paths {
                println!(
                    "{name} {routing} {}: by {} {:?} own {:?} lost {} spurious {} ptos {}",
                    path.id.0,
                    path.acks_by.0,
                    path.rtt,
                    path.own_rtt,
                    path.recovery.packets_lost,
                    path.recovery.spurious_losses,
                    path.recovery.ptos
                );
            }
            (time, paths)
        };
        let (same, _) = time(AckRouting::SamePath);
        let (turns, paths) = time(AckRouting::Alternate);
        println!("{name}: {same:.3} {turns:.3}");
        for path in paths {
            assert_eq!(path.recovery.spurious_losses, 0, "{name}");
            // The first acknowledgement by a longer way may be later than anything before it.
            assert!(path.recovery.ptos <= 3, "{name}");
        }
        assert!(turns < 1.1 * same, "{name}: {turns} {same}");
    }
}

/// Kills directions of a link from some time on.
fn kill(net: &mut Fetching, link: LinkId, directions: &[Direction]) -> Rc<Cell<bool>> {
    let dead = Rc::new(Cell::new(false));
    for &direction in directions {
        let dead = dead.clone();
        let rule = move |_: &PacketView<'_>| match dead.get() {
            true => Verdict::Drop,
            false => Verdict::Pass,
        };
        net.world.add_rule(link, direction, rule);
    }
    dead
}

#[test]
fn a_dying_way_back_stalls_nothing() {
    let links = [wire(10, 40), wire(10, 22)];
    for routing in ALL {
        for link in 0..2 {
            for directions in [
                &Direction::BOTH[..],
                &[Direction::Forward],
                &[Direction::Backward],
            ] {
                let (mut net, ids) = fetching(4, &links, routing, 5_000_000, |it| it);
                open(&mut net);
                let start = net.now();
                let dead = kill(&mut net, ids[link], directions);
                net.run_for(1_200 * MS);
                dead.set(true);
                let read = |net: &Fetching| net.client_app().fetches[0].received;
                let (mut since, mut last, mut longest) = (net.now(), read(&net), Duration::ZERO);
                while read(&net) < 5_000_000 && net.now() < start + 20 * SECOND {
                    net.run_for(5 * MS);
                    if read(&net) > last {
                        (since, last) = (net.now(), read(&net));
                    }
                    longest = longest.max(net.now().saturating_since(since));
                }
                let took = net.now().saturating_since(start);
                println!("{routing} {link} {directions:?}: {took:?}, longest stall {longest:?}");
                // A probe timeout with the queues there are, a round trip, and then it moves.
                assert!(
                    longest < 350 * MS,
                    "{routing} {link} {directions:?} {longest:?}"
                );
                // 5 MB take 4.2 s over one path alone.
                assert!(
                    took < 4_900 * MS,
                    "{routing} {link} {directions:?} {took:?}"
                );
            }
        }
    }
}

#[test]
fn the_route_follows_status_and_the_end_of_paths() {
    let links = [wire(10, 60), wire(10, 22)];
    let (mut net, _) = fetching(5, &links, AckRouting::OnePath, 20_000_000, |it| it);
    open(&mut net);
    net.run_for(2 * SECOND);
    assert_eq!(at_server(&net, 0).acks_by, PathId(1));
    let set = |net: &mut Fetching, status| {
        let (host, now) = (net.client, net.now());
        let host = net
            .world
            .node_mut::<tautline_sim::quic::QuicHost<PatternClient>>(host);
        let handle = host.app().handle.expect("connected");
        let connection = host.connection_mut(handle).expect("connected");
        match status {
            Some(status) => assert!(connection.set_path_status(PathId(1), status).is_ok()),
            None => assert!(connection.abandon_path(now, PathId(1), 0).is_ok()),
        }
    };
    set(&mut net, Some(PathStatus::Backup));
    net.run_for(2 * SECOND);
    assert_eq!(
        at_server(&net, 0).acks_by,
        PathId(0),
        "a path in reserve carries none"
    );
    set(&mut net, Some(PathStatus::Available));
    net.run_for(2 * SECOND);
    assert_eq!(at_server(&net, 0).acks_by, PathId(1));
    let before = net.client_app().fetches[0].received;
    set(&mut net, None);
    net.run_for(SECOND);
    assert_eq!(
        at_server(&net, 0).acks_by,
        PathId(0),
        "nor does one that is over"
    );
    let read = net.client_app().fetches[0].received - before;
    assert!(read > 900_000, "{read}");
    net.finish(60 * SECOND);
}

#[test]
fn two_ends_that_route_leave_each_other_in_peace() {
    for routing in ALL {
        let links = satellite_and_cellular();
        let (mut net, _) = fetching(6, &links, routing, 2_000_000, |setup| {
            setup.server(|config| multipath(config).ack_routing = routing)
        });
        fetch_time(&mut net, 60 * SECOND);
        net.run_for(3 * SECOND);
        let sent =
            |net: &Fetching| client(net).stats().packets_sent + server(net).stats().packets_sent;
        let before = sent(&net);
        net.run_for(10 * SECOND);
        assert_eq!(sent(&net), before, "{routing}");
    }
}

/// Requests for acknowledgements, by path, as the policy made them.
#[derive(Clone, Debug, Default)]
struct Requests(Arc<Mutex<Vec<(u32, f64)>>>);

impl Sink for Requests {
    fn on_event(&mut self, _: Instant, event: &observe::Event<'_>) {
        if let observe::Event::PolicyDecision {
            policy: "ack",
            decision: "request",
            path: Some(path),
            values: [Some(threshold), _],
            ..
        } = event
        {
            self.0.lock().unwrap().push((path.0, *threshold));
        }
    }
}

impl SinkFactory for Requests {
    fn build(&self, _: &ConnectionInfo) -> Option<Box<dyn Sink>> {
        Some(Box::new(self.clone()))
    }
}

#[test]
fn each_path_that_carries_data_is_asked_for_its_own() {
    for routing in [AckRouting::SamePath, AckRouting::OnePath] {
        let requests = Requests::default();
        let links = [wire(50, 40), wire(10, 30), wire(10, 35)];
        let (mut net, _) = fetching(7, &links, routing, 20_000_000, |setup| {
            setup.server(|config| {
                config.ack_policy = ack::registry::by_name("frequency").expect("known");
                config.observer = Some(Arc::new(requests.clone()));
            })
        });
        open(&mut net);
        let host = net.server;
        let host = net
            .world
            .node_mut::<tautline_sim::quic::QuicHost<PatternServer>>(host);
        let handle = host.connections().next().expect("connected").0;
        let connection = host.connection_mut(handle).expect("connected");
        let set = connection.set_path_status(PathId(2), PathStatus::Backup);
        assert!(set.is_ok());
        // What is under way there comes to an end.
        net.run_for(500 * MS);
        requests.0.lock().unwrap().retain(|(path, _)| *path < 2);
        net.finish(60 * SECOND);
        let asked = requests.0.lock().unwrap().clone();
        let largest = |path: u32| {
            let of = asked.iter().filter(|(id, _)| *id == path);
            of.map(|(_, threshold)| *threshold).fold(0.0, f64::max)
        };
        println!("{routing}: {:?}", [largest(0), largest(1), largest(2)]);
        assert!(largest(0) > 20.0 && largest(1) > 4.0, "{asked:?}");
        assert!(largest(0) > largest(1), "each by its own window");
        assert_eq!(largest(2), 0.0, "a path in reserve is not asked");
        // As asked: an acknowledgement for many packets.
        let acks: u64 = [0, 1]
            .map(|id| client(&net).path_stats(PathId(id)).expect("open").acks)
            .map(|acks| acks.acks_sent)
            .iter()
            .sum();
        let data = server(&net).stats().packets_sent;
        println!("{acks} acknowledgements for {data} packets");
        assert!(acks * 4 < data, "{acks} {data}");
    }
}

/// What the server takes the second path's round trip to be before it has measured it, and what it then
/// measures: milliseconds. Nothing where it measures before it can tell.
fn first_round_trips(known: &LinkConfig, new: &LinkConfig, seed: u64) -> Option<(f64, f64)> {
    let links = [known.clone(), new.clone()];
    let (mut net, _) = fetching(seed, &links, AckRouting::SamePath, 1_000, |it| it);
    let mut assumed = Duration::ZERO;
    for _ in 0..10_000 {
        net.run_for(MS);
        if net.server_host().connections().next().is_none() {
            continue;
        }
        let Some(path) = server(&net).path_stats(PathId(1)) else {
            continue;
        };
        match path.own_rtt {
            None => assumed = path.rtt,
            Some(own) => {
                let known = assumed != TransportConfig::default().initial_rtt;
                return known.then_some((assumed.as_secs_f64() * 1e3, own.as_secs_f64() * 1e3));
            }
        }
    }
    panic!("no second path");
}

#[test]
fn the_first_round_trip_is_foreseen() {
    let names = ["wifi", "lte", "leo", "geo"];
    println!("| known path | new path | assumed, ms | measured, ms | error |");
    for known in names {
        for new in names.iter().filter(|name| **name != known) {
            let link = |name: &str| links::by_name(name).expect("a named link");
            let mut errors: Vec<(f64, f64, f64)> = (1..=11)
                .filter_map(|seed| first_round_trips(&link(known), &link(new), seed))
                .map(|(assumed, measured)| (assumed / measured - 1.0, assumed, measured))
                .collect();
            if errors.is_empty() {
                println!("| {known} | {new} | measured first | | |");
                assert_eq!(known, "geo");
                continue;
            }
            errors.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (error, assumed, measured) = errors[errors.len() / 2];
            println!(
                "| {known} | {new} | {assumed:.0} | {measured:.0} | {:+.0} % ({:+.0} to {:+.0}) |",
                error * 100.0,
                errors[0].0 * 100.0,
                errors[errors.len() - 1].0 * 100.0,
            );
            // What varies is the delay of the links.
            let bound = 0.2 + 15.0 / measured;
            assert!(error.abs() < bound, "{known} {new}: {error}");
        }
    }
}

/// Packets that leave anyway tell what arrived on other paths, where both ends agree; no datagram leaves for it.
#[test]
fn paths_echo_each_other_where_both_ends_agree() {
    let run = |willing: bool| {
        let lossy = |delay| {
            let mut link = wire(10, delay);
            link.backward.loss = LossModel::uniform(0.02);
            link
        };
        let links = [lossy(20), lossy(30)];
        let (mut net, _) = fetching(7, &links, AckRouting::SamePath, 2_000_000, |setup| {
            setup.server(|config| {
                let mut multipath = MultipathConfig::default();
                multipath.echoes = willing;
                config.multipath = Some(multipath);
            })
        });
        fetch_time(&mut net, 30 * SECOND);
        let stats = client(&net).stats();
        (stats.frames_sent.other(), stats.packets_sent)
    };
    // Without, other frames with long types alone.
    let (others, _) = run(false);
    let (frames, packets) = run(true);
    assert!(others < 20, "{others}");
    let echoes = frames - others;
    assert!((10..packets / 2).contains(&echoes), "{echoes} in {packets}");
}
