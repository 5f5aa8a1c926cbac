//! Several paths under bad luck: keys change while a path is dead, addresses change, also of a path that opens, both ends
//! give up at once; and under a day of opening and abandoning. Any sequence of such things: `multipath_sequences`.

use std::{cell::Cell, net::SocketAddr, rc::Rc, time::Duration};

use tautline_sim::{Direction, LinkId, LossModel, PacketView, Rebind, Verdict, quic::QuicHost};
use tautline_testkit::{
    apps::{Manual, pattern_byte},
    pair::{client_address, server_address},
};
use tautline_transport::{
    config::TransportConfig,
    connection::{Connection, Event},
    error::ConnectionError,
    multipath::{AbandonPathError, AckRouting, MultipathConfig, OpenPathError, PathPin},
    path::PathEvent,
    stream::ReadOutcome,
    time::Instant,
    units::{Dir, FourTuple, PathId, Side, StreamId},
};

use crate::{
    heap,
    kit::{MS, Net, SECOND, Setup, wire},
};

pub(crate) const MAX_PATHS: usize = 8;

pub(crate) fn local(link: usize, port: u16) -> SocketAddr {
    match link {
        0 => SocketAddr::new(client_address().ip(), port),
        _ => SocketAddr::from(([10, 0, link as u8, 1], port)),
    }
}

pub(crate) fn to(link: usize, port: u16) -> FourTuple {
    FourTuple {
        local: local(link, port),
        remote: server_address(),
    }
}

/// One direction of one stream: bytes wanted, written, read.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) sender: Side,
    pub(crate) id: StreamId,
    wanted: u64,
    written: u64,
    read: u64,
    over: bool,
}

/// Two ends with a link for each of the client's addresses.
pub(crate) struct Trouble {
    pub(crate) net: Net<Manual, Manual>,
    pub(crate) links: Vec<LinkId>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) next_port: u16,
}

impl Trouble {
    pub(crate) fn new(seed: u64, links: usize, change: impl Fn(&mut TransportConfig)) -> Self {
        let mut trouble = Self::early(seed, links, change);
        trouble.net.connect();
        trouble
    }

    /// As soon as the client has completed the handshake, which the server has still to hear.
    pub(crate) fn early(seed: u64, links: usize, change: impl Fn(&mut TransportConfig)) -> Self {
        let mut setup = Setup::new(seed, wire(20, 10))
            .null_tls()
            .quiet()
            .both(|config| {
                config.multipath = Some(MultipathConfig::default());
                config.max_idle_timeout = Some(600 * SECOND);
                change(config);
            });
        setup.client_addresses = (0..links).map(|link| local(link, 50_000)).collect();
        setup.client_addresses[0] = client_address();
        setup.parallel = (1..links)
            .map(|link| wire(20, 10 + 7 * link as u64))
            .collect();
        let mut net = setup.manual();
        let handshaking = |net: &Net<Manual, Manual>| {
            net.client_host().app().handle.is_none() || net.client_connection().is_handshaking()
        };
        assert!(net.run_while(5 * SECOND, handshaking));
        let mut links = vec![net.link];
        links.extend(&net.parallel);
        Self {
            net,
            links,
            flows: Vec::new(),
            next_port: 50_001,
        }
    }

    /// With a path over every link.
    pub(crate) fn open(seed: u64, links: usize) -> Self {
        Self::with(seed, links, |_| {})
    }

    /// As `open`, otherwise configured.
    pub(crate) fn with(seed: u64, links: usize, change: impl Fn(&mut TransportConfig)) -> Self {
        let mut trouble = Self::new(seed, links, change);
        for link in 1..links {
            let opened = trouble
                .net
                .on_client(|client, now| client.open_path(now, to(link, 50_000)));
            assert!(opened.is_ok(), "{opened:?}");
        }
        trouble.net.run_for(SECOND);
        for link in 1..links {
            assert!(trouble.works(Side::Client, PathId(link as u32)));
            assert!(trouble.works(Side::Server, PathId(link as u32)));
        }
        trouble
    }

    pub(crate) fn on<R>(&mut self, side: Side, f: impl FnOnce(&mut Connection, Instant) -> R) -> R {
        match side {
            Side::Client => self.net.on_client(f),
            Side::Server => self.net.on_server(f),
        }
    }

    fn app(&self, side: Side) -> &Manual {
        match side {
            Side::Client => self.net.client_app(),
            Side::Server => self.net.server_app(),
        }
    }

    /// A rule that takes all packets of one direction of a link while it is set.
    pub(crate) fn one_way(&mut self, link: usize, direction: Direction) -> Rc<Cell<bool>> {
        let dead = Rc::new(Cell::new(false));
        let is_dead = dead.clone();
        let link = self.links[link];
        let verdict = move |_: &PacketView<'_>| match is_dead.get() {
            true => Verdict::Drop,
            false => Verdict::Pass,
        };
        self.net.world.add_rule(link, direction, verdict);
        dead
    }

    /// A NAT gives the client another address in all that goes out from now on.
    pub(crate) fn nat(&mut self, kind: Rebind) {
        let client = self.net.client;
        self.net.world.rebind(client, kind);
    }

    pub(crate) fn ended(&self) -> Option<&ConnectionError> {
        let client = self.net.client_app().ended();
        client.or_else(|| self.net.server_app().ended())
    }

    pub(crate) fn works(&self, side: Side, id: PathId) -> bool {
        let connection = match side {
            Side::Client => self.net.client_connection(),
            Side::Server => self.net.server_connection(),
        };
        let stats = connection.path_stats(id);
        stats.is_some_and(|path| path.validated && !path.abandoned && !path.degraded)
    }

    pub(crate) fn paths(&self, side: Side) -> Vec<u32> {
        let connection = match side {
            Side::Client => self.net.client_connection(),
            Side::Server => self.net.server_connection(),
        };
        connection.paths().map(|id| id.0).collect()
    }

    pub(crate) fn path_events(&self, side: Side) -> Vec<PathEvent> {
        let events = self.app(side).events.iter();
        events
            .filter_map(|(_, event)| match event {
                Event::Path(event) => Some(*event),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn transfer(&mut self, sender: Side, bytes: u64) {
        self.transfer_on(sender, bytes, None);
    }

    /// As `transfer`, by one path.
    pub(crate) fn transfer_on(
        &mut self,
        sender: Side,
        bytes: u64,
        pin: Option<PathPin>,
    ) -> Option<StreamId> {
        let id = self.on(sender, |connection, _| connection.open_stream(Dir::Uni))?;
        self.pin(sender, id, pin);
        self.flows.push(Flow {
            sender,
            id,
            wanted: bytes,
            written: 0,
            read: 0,
            over: false,
        });
        self.pump();
        Some(id)
    }

    pub(crate) fn pin(&mut self, sender: Side, id: StreamId, pin: Option<PathPin>) {
        // A path that is gone has no effect.
        let _ = self.on(sender, |connection, _| connection.pin_stream(id, pin));
    }

    pub(crate) fn is_over(&self, id: StreamId) -> bool {
        self.flows.iter().any(|flow| flow.id == id && flow.over)
    }

    /// Writes and reads what can be.
    fn pump(&mut self) {
        let mut flows = std::mem::take(&mut self.flows);
        for flow in flows.iter_mut().filter(|flow| !flow.over) {
            let (id, seed) = (flow.id, flow.id.0 * 31);
            self.on(flow.sender, |connection, _| {
                while flow.written < flow.wanted {
                    let end = flow.wanted.min(flow.written + 50_000);
                    let data: Vec<u8> = (flow.written..end)
                        .map(|offset| pattern_byte(offset + seed))
                        .collect();
                    match connection.write(id, &data) {
                        Ok(0) | Err(_) => return,
                        Ok(taken) => flow.written += taken as u64,
                    }
                    if flow.written == flow.wanted {
                        connection.finish(id).expect("it is open");
                    }
                }
            });
            self.on(flow.sender.peer(), |connection, _| {
                while connection.accept_stream(Dir::Uni).is_some() {}
                while let Ok(outcome) = connection.read(id, usize::MAX) {
                    match outcome {
                        ReadOutcome::Chunk(chunk) => {
                            for (offset, byte) in (flow.read..).zip(&chunk) {
                                assert_eq!(*byte, pattern_byte(offset + seed), "{id} {offset}");
                            }
                            flow.read += chunk.len() as u64;
                        }
                        ReadOutcome::Finished => {
                            assert_eq!(flow.read, flow.wanted);
                            flow.over = true;
                            break;
                        }
                        _ => break,
                    }
                }
            });
        }
        self.flows = flows;
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.net.now() + time;
        while self.net.now() < end && self.ended().is_none() {
            let step = end.saturating_since(self.net.now()).min(20 * MS);
            self.net.run_for(step);
            if self.ended().is_none() {
                self.pump();
            }
        }
    }

    /// Until everything arrived.
    #[track_caller]
    pub(crate) fn deliver(&mut self, limit: Duration) -> Duration {
        let start = self.net.now();
        while self.flows.iter().any(|flow| !flow.over) {
            self.run(20 * MS);
            let took = self.net.now().saturating_since(start);
            assert!(
                took < limit && self.ended().is_none(),
                "{took:?}, ended {:?}, {:?}",
                self.ended(),
                self.flows
            );
        }
        self.net.now().saturating_since(start)
    }

    pub(crate) fn set_link(&mut self, link: usize, up: bool) {
        self.net.world.set_link_up(self.links[link], up);
    }

    pub(crate) fn set_loss(&mut self, link: usize, share: f64) {
        for direction in Direction::BOTH {
            let world = &mut self.net.world;
            let mut config = world.direction_config(self.links[link], direction).clone();
            config.loss = LossModel::uniform(share);
            let set = world.set_direction(self.links[link], direction, config);
            assert!(set.is_ok());
        }
    }

    pub(crate) fn abandon(&mut self, side: Side, id: u32) {
        let done = self.on(side, |connection, now| {
            connection.abandon_path(now, PathId(id), 0x3e)
        });
        assert_eq!(done, Ok(()));
    }
}

/// One path dies, and the other pauses for longer than a probe timeout: when it is back, whatever arrives there is
/// acknowledged there.
#[test]
fn a_pause_of_the_last_path_is_survived() {
    for routing in [
        AckRouting::SamePath,
        AckRouting::OnePath,
        AckRouting::Grouped,
    ] {
        for (dead, pause) in [(0, 300), (0, 1_000), (0, 3_000), (1, 1_000)] {
            for senders in [&[Side::Server][..], &[Side::Server, Side::Client]] {
                let mut trouble = Trouble::with(4, 2, |config| {
                    let mut multipath = MultipathConfig::default();
                    multipath.ack_routing = routing;
                    config.multipath = Some(multipath);
                });
                for sender in senders {
                    trouble.transfer(*sender, 10_000_000);
                }
                trouble.run(500 * MS);
                trouble.set_link(dead, false);
                trouble.run(2 * SECOND);
                trouble.set_link(1 - dead, false);
                trouble.run(pause * MS);
                trouble.set_link(1 - dead, true);
                let took = trouble.deliver(60 * SECOND);
                println!("{routing}: {dead} dies, {pause} ms, {senders:?}: {took:?}");
                // 8 s at most for the bytes, and what probe timeouts had backed off to.
                assert!(took < 8 * SECOND + 3 * pause * MS, "{took:?}");
            }
        }
    }
}

#[test]
fn keys_change_while_a_path_is_dead() {
    for updater in [Side::Client, Side::Server] {
        let mut trouble = Trouble::open(1, 2);
        trouble.transfer(Side::Server, 8_000_000);
        trouble.transfer(Side::Client, 8_000_000);
        trouble.run(500 * MS);
        trouble.set_link(1, false);
        let mut updates = 0;
        for _ in 0..4 {
            trouble.run(900 * MS);
            let update = trouble.on(updater, |connection, now| {
                connection.initiate_key_update(now)
            });
            updates += u32::from(update.is_ok());
        }
        assert!(updates > 1, "{updates}");
        trouble.set_link(1, true);
        trouble.transfer(Side::Server, 8_000_000);
        trouble.deliver(30 * SECOND);
        trouble.run(20 * SECOND);
        for side in [Side::Client, Side::Server] {
            assert!(trouble.works(side, PathId(1)), "{side:?}");
            let events = trouble.path_events(side);
            assert!(events.contains(&PathEvent::Degraded { path: PathId(1) }));
            assert!(events.contains(&PathEvent::Recovered { path: PathId(1) }));
        }
    }
}

/// A path that was away for a moment is degraded; one that stays away is lost, once, and recovers or is closed.
#[test]
fn a_path_is_degraded_then_lost_then_back_or_over() {
    let path = PathId(1);
    let degraded = PathEvent::Degraded { path };
    let lost = PathEvent::Lost { path };
    let recovered = PathEvent::Recovered { path };
    // What the sender is told of its answers and its end.
    let told = |trouble: &Trouble| -> Vec<PathEvent> {
        let mut events = trouble.path_events(Side::Server);
        events.retain(|event| match event {
            PathEvent::Abandoned { path: of, .. } => *of == path,
            event => [degraded, lost, recovered].contains(event),
        });
        events
    };
    let dying = || {
        let mut trouble = Trouble::open(6, 2);
        trouble.transfer(Side::Server, 20_000_000);
        trouble.run(500 * MS);
        assert_eq!(told(&trouble), []);
        trouble.set_link(1, false);
        trouble
    };
    let until = |trouble: &mut Trouble, event: PathEvent| {
        let start = trouble.net.now();
        while told(trouble).last() != Some(&event) {
            trouble.run(MS);
            assert!(trouble.net.now() < start + 10 * SECOND, "no {event:?}");
        }
        trouble.net.now().saturating_since(start)
    };
    let stats = |trouble: &Trouble| {
        let stats = trouble.net.server_connection().path_stats(path);
        stats.map(|path| (path.degraded, path.lost))
    };

    let mut trouble = dying();
    let silent = until(&mut trouble, degraded);
    assert_eq!(stats(&trouble), Some((true, false)));
    let more = until(&mut trouble, lost);
    assert_eq!(stats(&trouble), Some((true, true)));
    println!("degraded after {silent:?}, lost {more:?} later");
    // The second probe timeout is twice, the third four times as long as the first, which may end early.
    assert!(more > 3 * silent && more < 3 * SECOND, "{more:?}");
    // It is told once.
    trouble.run(10 * SECOND);
    assert_eq!(told(&trouble), [degraded, lost]);
    trouble.set_link(1, true);
    trouble.run(20 * SECOND);
    assert_eq!(told(&trouble), [degraded, lost, recovered]);
    assert_eq!(stats(&trouble), Some((false, false)));

    let mut trouble = dying();
    until(&mut trouble, degraded);
    trouble.set_link(1, true);
    trouble.run(10 * SECOND);
    assert_eq!(told(&trouble), [degraded, recovered]);

    // Nothing is told of a path after its end.
    for before in [&[degraded][..], &[degraded, lost]] {
        let mut trouble = dying();
        until(&mut trouble, before[before.len() - 1]);
        trouble.abandon(Side::Server, 1);
        trouble.set_link(1, true);
        trouble.run(10 * SECOND);
        let over = PathEvent::Abandoned {
            path,
            code: 0x3e,
            by_peer: false,
        };
        assert_eq!(told(&trouble), [before, &[over]].concat());
    }
}

#[test]
fn one_path_moves_and_the_others_stay() {
    for (moved, port) in [(1, 50_777), (0, 50_778)] {
        let mut trouble = Trouble::open(2, 3);
        trouble.transfer(Side::Server, 20_000_000);
        trouble.run(SECOND);
        let before: Vec<_> = trouble.paths(Side::Client);
        let windows = |trouble: &Trouble| -> Vec<_> {
            let client = trouble.net.client_connection();
            let stats = client.paths().filter_map(|id| client.path_stats(id));
            stats
                .map(|path| (path.four_tuple.local, path.min_rtt))
                .collect()
        };
        let (was, to) = (windows(&trouble), local(moved, port));
        trouble.net.on_client(|client, now| match moved {
            // Those at the address of the first path.
            0 => client.rebind(now, to),
            _ => assert_eq!(client.rebind_path(now, PathId(moved as u32), to), Ok(())),
        });
        let is = windows(&trouble);
        for (index, (was, is)) in was.iter().zip(&is).enumerate() {
            assert_eq!(was == is, index != moved, "path {index}");
        }
        trouble.deliver(30 * SECOND);
        trouble.run(SECOND);
        assert_eq!(trouble.paths(Side::Client), before);
        for side in [Side::Client, Side::Server] {
            let disturbed = trouble.path_events(side).into_iter().any(
                |event| matches!(event, PathEvent::Migrated { path, .. } if path.0 != moved as u32),
            );
            assert!(!disturbed, "{side:?}");
        }
        let seen = trouble
            .net
            .server_connection()
            .path_stats(PathId(moved as u32));
        assert_eq!(seen.map(|path| path.four_tuple.remote), Some(to));
    }
}

#[test]
fn paths_that_cannot_move_leave_the_others() {
    let mut trouble = Trouble::open(3, 2);
    let nowhere: SocketAddr = "[2001:db8::1]:1".parse().unwrap();
    let refused = trouble
        .net
        .on_client(|client, now| client.rebind_path(now, PathId(1), nowhere));
    assert!(refused.is_err());
    assert!(trouble.works(Side::Client, PathId(1)));
    trouble
        .net
        .on_client(|client, now| client.rebind(now, nowhere));
    trouble.transfer(Side::Server, 1_000_000);
    trouble.deliver(10 * SECOND);
    trouble.run(10 * SECOND);
    assert_eq!(trouble.paths(Side::Client), [1]);
}

#[test]
fn a_path_that_loses_one_direction_holds_nothing_up() {
    for direction in Direction::BOTH {
        let mut trouble = Trouble::open(4, 2);
        let dead = Rc::new(Cell::new(false));
        let is_dead = dead.clone();
        let link = trouble.links[1];
        trouble
            .net
            .world
            .add_rule(link, direction, move |_: &PacketView<'_>| {
                match is_dead.get() {
                    true => Verdict::Drop,
                    false => Verdict::Pass,
                }
            });
        trouble.transfer(Side::Server, 3_000_000);
        trouble.transfer(Side::Client, 3_000_000);
        trouble.run(300 * MS);
        dead.set(true);
        // 1.2 s each over what is left, and the time to find out.
        let took = trouble.deliver(10 * SECOND);
        println!("{direction:?} {took:?}");
        assert!(took < 2_500 * MS, "{direction:?} {took:?}");
    }
}

#[test]
fn either_end_may_abandon_any_path_alone_or_at_once() {
    for (by_client, by_server) in [
        (Some(1), None),
        (None, Some(1)),
        (Some(0), None),
        (None, Some(0)),
        (Some(1), Some(1)),
        (Some(0), Some(0)),
        (Some(0), Some(1)),
    ] {
        let mut trouble = Trouble::open(5, 3);
        trouble.transfer(Side::Server, 4_000_000);
        trouble.transfer(Side::Client, 4_000_000);
        trouble.run(300 * MS);
        for (side, path) in [(Side::Client, by_client), (Side::Server, by_server)] {
            if let Some(path) = path {
                trouble.abandon(side, path);
            }
        }
        trouble.deliver(20 * SECOND);
        trouble.run(10 * SECOND);
        let left: Vec<u32> = (0..3)
            .filter(|id| Some(*id) != by_client && Some(*id) != by_server)
            .collect();
        for side in [Side::Client, Side::Server] {
            assert_eq!(trouble.paths(side), left, "{by_client:?} {by_server:?}");
            let events = trouble.path_events(side);
            let failed = |event: &PathEvent| matches!(event, PathEvent::ValidationFailed { .. });
            assert!(!events.iter().any(failed));
        }
        // As many may be opened again.
        for link in 0..3 - left.len() {
            let opened = trouble
                .net
                .on_client(|client, now| client.open_path(now, to(link, 51_000)));
            assert!(opened.is_ok(), "{opened:?}");
        }
        trouble.run(2 * SECOND);
        assert_eq!(trouble.paths(Side::Server).len(), 3);
    }
}

#[test]
fn the_last_two_paths_abandoned_at_once_end_the_connection() {
    let mut trouble = Trouble::open(6, 2);
    trouble.abandon(Side::Client, 0);
    trouble.abandon(Side::Server, 1);
    trouble.run(10 * SECOND);
    for side in [Side::Client, Side::Server] {
        let ended = trouble.app(side).ended();
        let (ConnectionError::Transport(error) | ConnectionError::PeerTransport(error)) =
            ended.expect("it is over")
        else {
            panic!("{ended:?}");
        };
        assert_eq!(error.code, tautline_transport::error::Code::NO_ERROR);
    }
}

#[test]
fn a_lost_abandon_is_told_again() {
    for side in [Side::Client, Side::Server] {
        let mut trouble = Trouble::open(7, 2);
        for link in 0..2 {
            trouble.set_link(link, false);
        }
        trouble.abandon(side, 1);
        trouble.run(700 * MS);
        for link in 0..2 {
            trouble.set_link(link, true);
        }
        trouble.transfer(side, 100_000);
        trouble.deliver(10 * SECOND);
        trouble.run(10 * SECOND);
        for side in [Side::Client, Side::Server] {
            assert_eq!(trouble.paths(side), [0]);
        }
    }
}

#[test]
fn a_path_abandoned_before_it_works_does_not_fail_later() {
    let mut trouble = Trouble::new(8, 2, |_| {});
    trouble.set_link(1, false);
    let opened = trouble
        .net
        .on_client(|client, now| client.open_path(now, to(1, 50_000)));
    assert_eq!(opened, Ok(PathId(1)));
    trouble.abandon(Side::Client, 1);
    trouble.run(10 * SECOND);
    let events = trouble.path_events(Side::Client);
    assert!(
        matches!(
            events[..],
            [PathEvent::Opened { .. }, PathEvent::Abandoned { .. }]
        ),
        "{events:?}"
    );
    assert_eq!(trouble.paths(Side::Client), [0]);
}

/// The handshake is on the first path alone, and what proves another comes after it.
#[test]
fn the_first_path_stays_until_another_works_or_the_handshake_is_confirmed() {
    let mut trouble = Trouble::early(9, 2, |config| config.max_idle_timeout = Some(30 * SECOND));
    // The client's Finished is lost.
    trouble.set_link(0, false);
    trouble.net.run_for(2 * MS);
    trouble.set_link(0, true);
    let opened = trouble
        .net
        .on_client(|client, now| client.open_path(now, to(1, 50_000)));
    assert_eq!(opened, Ok(PathId(1)));
    let abandon = |trouble: &mut Trouble| {
        trouble
            .net
            .on_client(|client, now| client.abandon_path(now, PathId(0), 0x3e))
    };
    assert_eq!(abandon(&mut trouble), Err(AbandonPathError::LastPath));
    trouble.net.run_for(SECOND);
    assert!(trouble.works(Side::Client, PathId(1)));
    assert_eq!(abandon(&mut trouble), Ok(()));
    trouble.net.run_for(SECOND);
    assert!(trouble.ended().is_none() && trouble.works(Side::Server, PathId(1)));
}

/// Else the connection would end with what does not answer.
#[test]
fn the_only_path_that_works_is_not_given_up_for_one_that_opens() {
    let mut trouble = Trouble::early(9, 2, |config| config.max_idle_timeout = Some(60 * SECOND));
    trouble.net.run_for(SECOND);
    trouble.set_link(1, false);
    let opened = trouble
        .net
        .on_client(|client, now| client.open_path(now, to(1, 50_000)));
    assert_eq!(opened, Ok(PathId(1)));
    let abandon = |trouble: &mut Trouble, id| {
        trouble
            .net
            .on_client(|client, now| client.abandon_path(now, PathId(id), 0x3e))
    };
    trouble.net.run_for(SECOND);
    assert_eq!(abandon(&mut trouble, 0), Err(AbandonPathError::LastPath));
    trouble.net.run_for(20 * SECOND);
    assert!(trouble.ended().is_none() && trouble.works(Side::Client, PathId(0)));
    // What opens is given up at will.
    let opened = trouble
        .net
        .on_client(|client, now| client.open_path(now, to(1, 50_001)));
    let Ok(PathId(second)) = opened else {
        panic!("{opened:?}");
    };
    assert_eq!(abandon(&mut trouble, second), Ok(()));
    assert_eq!(abandon(&mut trouble, 0), Err(AbandonPathError::LastPath));
}

#[test]
fn the_close_leaves_on_a_path_that_works() {
    for dead in [0, 1] {
        for side in [Side::Client, Side::Server] {
            let mut trouble = Trouble::open(9, 2);
            trouble.set_link(dead, false);
            trouble.transfer(side, 300_000);
            trouble.deliver(10 * SECOND);
            trouble.on(side, |connection, now| {
                connection.close(now, 3, bytes::Bytes::new());
            });
            trouble.net.run_for(200 * MS);
            let heard = trouble.app(side.peer()).ended();
            assert!(
                matches!(
                    heard,
                    Some(ConnectionError::PeerApplication { code: 3, .. })
                ),
                "{heard:?}"
            );
        }
    }
}

/// Nothing tells yet that a path is dead, and a peer that is idle would ask nothing: the other one carries the close, too.
#[test]
fn a_close_that_one_path_loses_is_heard() {
    for dead in [0, 1] {
        for side in [Side::Client, Side::Server] {
            let mut trouble = Trouble::open(9, 2);
            trouble.transfer(side, 300_000);
            trouble.deliver(10 * SECOND);
            trouble.net.run_for(SECOND);
            trouble.set_link(dead, false);
            trouble.on(side, |connection, now| {
                connection.close(now, 3, bytes::Bytes::new());
            });
            trouble.net.run_for(50 * MS);
            let heard = trouble.app(side.peer()).ended();
            let as_said = |heard: &ConnectionError| {
                matches!(heard, ConnectionError::PeerApplication { code: 3, .. })
            };
            assert!(heard.is_some_and(as_said), "{heard:?}");
        }
    }
}

#[test]
fn a_peer_without_multipath_sees_nothing_of_it() {
    let offer = |config: &mut TransportConfig| config.multipath = Some(MultipathConfig::default());
    for side in [Side::Client, Side::Server] {
        let setup = Setup::new(10, wire(20, 10)).null_tls().quiet();
        let setup = match side {
            Side::Client => setup.client(offer),
            Side::Server => setup.server(offer),
        };
        let mut net = setup.manual();
        net.connect();
        let mut trouble = Trouble {
            links: vec![net.link],
            net,
            flows: Vec::new(),
            next_port: 0,
        };
        trouble.transfer(Side::Client, 1_000_000);
        trouble.transfer(Side::Server, 1_000_000);
        trouble.deliver(10 * SECOND);
        for connection in [
            trouble.net.client_connection(),
            trouble.net.server_connection(),
        ] {
            let sent = connection.stats().frames_sent;
            // PATH_ACK; the rest of RFC 10069 has long types, as ACK_FREQUENCY has.
            assert_eq!(sent.of_type(0x3e) + sent.of_type(0x3f), 0);
            assert!(sent.other() < 10, "{}", sent.other());
        }
    }
}

pub(crate) fn side(client: bool) -> Side {
    if client { Side::Client } else { Side::Server }
}

#[test]
fn a_day_of_opening_and_abandoning_leaves_nothing() {
    const CYCLES: u64 = 10_000;
    let cycle = Duration::from_secs(24 * 3_600) / CYCLES as u32;
    let mut trouble = Trouble::new(11, 2, |config| {
        config.max_idle_timeout = Some(60 * SECOND);
    });
    let mut opened = 0;
    let mut run = |cycles: u64| {
        for _ in 0..cycles {
            let id = trouble
                .net
                .on_client(|client, now| client.open_path(now, to(1, 50_000)));
            let id = id.expect("MAX_PATH_ID was raised");
            opened += 1;
            assert_eq!(u64::from(id.0), opened);
            trouble.net.run_for(cycle / 4);
            assert!(trouble.works(Side::Server, id));
            let by = side(opened % 2 == 0);
            trouble.on(by, |connection, now| {
                connection.abandon_path(now, id, 0x3e).expect("it is open");
            });
            trouble.net.run_for(cycle - cycle / 4);
            assert_eq!(trouble.paths(Side::Client), [0]);
            assert_eq!(trouble.paths(Side::Server), [0]);
            for host in [trouble.net.client, trouble.net.server] {
                let host = trouble.net.world.node_mut::<QuicHost<Manual>>(host);
                host.app_mut().events = Vec::new();
            }
        }
    };
    run(CYCLES / 10);
    let ((), grown) = heap::growth(|| run(CYCLES - CYCLES / 10));
    println!("{grown} bytes over {} cycles", CYCLES - CYCLES / 10);
    assert!(grown < 32 * 1024, "{grown}");
}

/// What both ends say of path 1.
fn is_told_of(trouble: &Trouble, side: Side) -> bool {
    let told = |event: &PathEvent| {
        matches!(
            event,
            PathEvent::Validated {
                path: PathId(1),
                ..
            } | PathEvent::Abandoned {
                path: PathId(1),
                ..
            }
        )
    };
    trouble.path_events(side).iter().any(told)
}

/// A path whose address changes in the round trip between the end of the handshake and its confirmation opens at both ends, and
/// carries what the other one cannot any more.
#[test]
fn a_path_rebound_before_the_handshake_is_confirmed_opens() {
    let mut trouble = Trouble::early(1, 2, |_| {});
    let net = &mut trouble.net;
    let opened = net.on_client(|client, now| client.open_path(now, to(1, 50_000)));
    assert_eq!(opened, Ok(PathId(1)));
    // Until it has connection IDs.
    net.run_while(5 * SECOND, |net| {
        net.client_connection().path_stats(PathId(1)).is_none()
    });
    assert!(!net.client_app().saw(&Event::HandshakeConfirmed));
    let moved = net.on_client(|client, now| client.rebind_path(now, PathId(1), local(1, 50_123)));
    assert_eq!(moved, Ok(()));
    net.run_for(5 * SECOND);
    for side in [Side::Client, Side::Server] {
        assert!(trouble.works(side, PathId(1)), "{side:?}");
    }
    trouble.set_link(0, false);
    trouble.transfer(Side::Client, 300_000);
    trouble.deliver(20 * SECOND);
}

/// While a path opens the first answers are lost, and a NAT gives the client another port: the server hears probes alone from there,
/// then data.
#[test]
fn a_path_that_a_nat_moves_while_it_opens_opens() {
    for gap in [20, 50, 100, 150, 200, 300, 400, 600, 1_000] {
        let mut trouble = Trouble::new(3, 2, |config| {
            config.keep_alive_interval = Some(2 * SECOND);
            config.max_idle_timeout = Some(60 * SECOND);
        });
        let dead = trouble.one_way(1, Direction::Backward);
        dead.set(true);
        let opened = trouble
            .net
            .on_client(|client, now| client.open_path(now, to(1, 50_000)));
        assert_eq!(opened, Ok(PathId(1)));
        trouble.run(gap * MS);
        trouble.nat(Rebind::Port);
        dead.set(false);
        trouble.run(20 * SECOND);
        for side in [Side::Client, Side::Server] {
            assert!(is_told_of(&trouble, side), "{gap} ms: {side:?}");
        }
        if trouble.works(Side::Client, PathId(1)) {
            trouble.set_link(0, false);
        }
        trouble.transfer(Side::Server, 300_000);
        trouble.deliver(20 * SECOND);
    }
}

/// Paths that carry nothing are kept alive one by one; what only one end asks for suffices.
#[test]
fn every_open_path_is_kept_alive() {
    let sent = |interval: Option<Duration>| {
        let mut trouble = Trouble::with(5, 3, |config| config.keep_alive_interval = interval);
        trouble.net.run_for(5 * SECOND);
        let packets = |trouble: &Trouble, path| {
            let client = trouble.net.client_connection();
            let stats = client.path_stats(PathId(path));
            stats.map_or(0, |stats| stats.recovery.packets_sent)
        };
        let before = [0, 1, 2].map(|path| packets(&trouble, path));
        trouble.net.run_for(60 * SECOND);
        let after = [0, 1, 2].map(|path| packets(&trouble, path));
        [0, 1, 2].map(|path: usize| after[path] - before[path])
    };
    assert_eq!(sent(None), [0; 3]);
    for packets in sent(Some(2 * SECOND)) {
        // Both ends ask, so that each packet of one spares the other's.
        assert!((20..70).contains(&packets), "{packets} packets in a minute");
    }
}

/// However long it was gone: nothing but a probe shows that a path is back, and the other one keeps the connection open.
#[test]
fn a_path_that_comes_back_is_used_again_soon() {
    for (dead, busy) in [(60, false), (600, false), (600, true)] {
        let mut trouble = Trouble::open(6, 2);
        trouble.transfer(Side::Server, 3_000_000);
        trouble.run(500 * MS);
        trouble.set_link(1, false);
        trouble.deliver(20 * SECOND);
        let before = trouble.net.server_connection().stats().packets_sent;
        for _ in 0..dead / 20 {
            trouble.run(20 * SECOND);
            trouble.transfer(Side::Server, 10_000);
        }
        let sent = trouble.net.server_connection().stats().packets_sent - before;
        // A few of each transfer, and a probe every ten seconds.
        assert!(sent < 3 * dead, "{sent} packets in {dead} s");
        assert!(trouble.ended().is_none());
        trouble.set_link(1, true);
        let start = trouble.net.now();
        for side in [Side::Client, Side::Server] {
            while !trouble.works(side, PathId(1)) {
                if busy {
                    trouble.transfer(side, 300_000);
                }
                trouble.run(SECOND);
                let took = trouble.net.now().saturating_since(start);
                assert!(
                    took < 13 * SECOND,
                    "{side:?} dead for {dead} s, busy {busy}"
                );
            }
        }
    }
}

/// Whether the peer speaks RFC 10069 is said when that is known, and not before.
#[test]
fn a_path_that_is_asked_for_too_early_is_no_fault_of_the_peer() {
    let mut setup = Setup::new(3, wire(20, 10))
        .null_tls()
        .quiet()
        .both(|config| {
            config.multipath = Some(MultipathConfig::default());
        });
    setup.client_addresses = vec![client_address(), local(1, 50_000)];
    setup.parallel = vec![wire(20, 10)];
    let mut net = setup.manual();
    assert!(net.run_while(SECOND, |net| net.client_host().app().handle.is_none()));
    net.run_for(5 * MS);
    let open = |net: &mut Net<Manual, Manual>| {
        net.on_client(|client, now| client.open_path(now, to(1, 50_000)))
    };
    assert_eq!(open(&mut net), Err(OpenPathError::TooEarly));
    net.run_for(60 * MS);
    assert_eq!(open(&mut net), Ok(PathId(1)));
}
