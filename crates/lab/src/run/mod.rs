//! Playing a scene: hosts and links in virtual time, samples on the way, a record at the end.
//!
//! Owns: [`play`], [`Record`] and its parts. Does not own: metrics over a record (`metric`), cells
//! and files (`campaign`).

mod capture;
mod chain;
mod record;
mod timed;
mod traces;

use std::{cell::RefCell, io::Write, net::SocketAddr, rc::Rc, sync::Arc, time::Duration};

pub use capture::Capture;
pub use record::{FlowRecord, LinkRecord, PathRecord, Record, Sample, Served};
use tautline_sim::{
    Direction, DirectionConfig, HostId, LinkConfig, LinkId, PacketView, RunEnd, Verdict, World,
};
use tautline_transport::time::Instant;
pub use timed::cut_off;
pub use traces::{TraceError, Traces, Wanted, packets};

use self::chain::{Chain, ChainError, Ends};
use crate::{
    scene::{Flow, Scene, SceneError},
    session::Half,
    stack::{EndSetup, PathWire, Stack, StackOptions, Stacks, Watch, WireStats},
    workload::End,
};

/// Why a scene cannot be played. Anything that happens while it plays is in the record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlayError {
    /// A stack refuses its options.
    #[error("flow {flow}: {reason}")]
    Stack {
        /// The flow.
        flow: String,
        /// The stack's words.
        reason: String,
    },
    /// The network cannot be built.
    #[error("network: {0}")]
    Network(String),
    /// The scene does not fit together.
    #[error(transparent)]
    Scene(#[from] SceneError),
}

/// Plays a scene to its end.
///
/// # Errors
/// When it cannot begin.
pub fn play(scene: &Scene, stacks: &Stacks, seed: u64) -> Result<Record, PlayError> {
    Ok(Stage::build(scene, stacks, seed, Watch::default())?.play(scene))
}

/// One connection of a flow.
struct Player {
    flow: usize,
    stack: Arc<dyn Stack>,
    client: HostId,
    server: HostId,
    receiver: End,
    start: Instant,
    /// The client's places and its addresses there.
    homes: Vec<(String, SocketAddr)>,
    history: Vec<Sample>,
}

/// A scene set up.
pub struct Stage {
    world: World,
    links: Vec<LinkId>,
    /// Of each link, what it had let go at samples; empty unless paths lie side by side.
    served: Vec<Vec<(Instant, [Served; 2])>>,
    players: Vec<Player>,
    watch: Watch,
    audited: bool,
}

impl Stage {
    /// Hosts, links and programs, at time zero.
    ///
    /// # Errors
    /// When a stack refuses its options or the network cannot be built.
    pub fn build(
        scene: &Scene,
        stacks: &Stacks,
        seed: u64,
        watch: Watch,
    ) -> Result<Self, PlayError> {
        let mut world = World::new(seed);
        let places: Vec<(&str, HostId)> = scene
            .network
            .places()
            .map(|name| (name, world.add_router()))
            .collect();
        let place = |wanted: &str| {
            let found = places.iter().find(|(name, _)| *name == wanted);
            found
                .map(|(_, host)| *host)
                .ok_or_else(|| PlayError::Network(format!("no place is called {wanted:?}")))
        };
        let network = |error: tautline_sim::TopologyError| PlayError::Network(error.to_string());
        let mut links = Vec::new();
        for wire in &scene.network.wires {
            let ends = (place(&wire.between[0])?, place(&wire.between[1])?);
            let link = world
                .try_connect((ends.0, None), (ends.1, None), wire.config.clone())
                .map_err(network)?;
            links.push(link);
            for (at, config) in &wire.changes {
                let config = config.clone();
                world.schedule(Instant::ZERO + *at, move |world| {
                    // Validated when it was read.
                    let _ = world.set_direction(link, Direction::Forward, config.forward);
                    let _ = world.set_direction(link, Direction::Backward, config.backward);
                });
            }
        }
        let several = scene.network.homes.len() > 1;
        let mut stage = Self {
            world,
            served: vec![Vec::new(); if several { links.len() } else { 0 }],
            links,
            players: Vec::new(),
            watch,
            audited: false,
        };
        for (index, flow) in scene.flows.iter().enumerate() {
            let homes = scene.homes(flow)?.into_iter();
            let near = homes.map(|home| Ok((home, place(home)?)));
            let near = near.collect::<Result<Vec<_>, PlayError>>()?;
            let far = place(&flow.server)?;
            let split = scene.split(flow)?;
            let stops = split.iter().flat_map(|split| &split.places);
            let stops = stops
                .map(|name| place(name))
                .collect::<Result<Vec<_>, _>>()?;
            for number in 0..flow.count {
                let ends = Ends {
                    near: &near,
                    far,
                    split: split.as_ref().map(|split| (split, stops.as_slice())),
                };
                stage.add(stacks, (index, flow, number), scene.options(flow), &ends)?;
            }
        }
        Ok(stage)
    }

    fn add(
        &mut self,
        stacks: &Stacks,
        (index, flow, number): (usize, &Flow, u32),
        options: &StackOptions,
        ends: &Ends<'_>,
    ) -> Result<(), PlayError> {
        let refused = |reason: String| PlayError::Stack {
            flow: flow.name.clone(),
            reason,
        };
        let stack = stacks
            .get(&options.stack)
            .ok_or_else(|| refused(format!("no stack is called {:?}", options.stack)))?;
        let order = self.players.len() as u64;
        let subnet = order + 1;
        let address = |host: u8, port: u16| {
            let (high, low) = ((subnet / 250) as u8, (subnet % 250) as u8);
            SocketAddr::from(([10, high, low, host], port))
        };
        let (client_at, server_at) = (address(1, 50_000), address(2, 443));
        // Further addresses of the client follow those two.
        let further = (3u8..).map(|host| address(host, 50_000));
        let addresses = std::iter::once(client_at).chain(further);
        let homes: Vec<(String, SocketAddr)> = ends
            .near
            .iter()
            .zip(addresses)
            .map(|((home, _), address)| ((*home).to_owned(), address))
            .collect();
        let all: Vec<SocketAddr> = homes.iter().map(|(_, address)| *address).collect();
        let seed = self.world.seed().wrapping_mul(1009).wrapping_add(order);
        // Every connection of a flow begins later by the same time; the labels of hosts count up.
        let first = order.saturating_sub(u64::from(number));
        let later = self.world.rng(u64::MAX - first).unit_f64();
        let later = flow.start_within.0.mul_f64(later);
        let start = Instant::ZERO + flow.start.0 + later + flow.stagger.0 * number;
        let program = flow.workload.program();
        let mut half = program.client(seed);
        if let Some(stop) = flow.stop {
            half = cut_off(half, Instant::ZERO + stop.0);
        }
        let chain = Chain::new(ends.split, (client_at, server_at), address);
        let (remote, part) = chain.beside_client();
        let client = EndSetup {
            local: client_at,
            others: all.iter().skip(1).copied().collect(),
            remote,
            part,
            half,
            start,
            rng: self.world.rng(2 * order + 2),
            seed,
            watch: self.watch.clone(),
        };
        let (remote, part) = chain.beside_server();
        let server = EndSetup {
            local: server_at,
            others: Vec::new(),
            remote,
            part,
            half: program.server(seed),
            start,
            rng: self.world.rng(2 * order + 1),
            seed,
            watch: self.watch.clone(),
        };
        let client = stack.client(options, client).map_err(refused)?;
        let server = stack.server(options, server).map_err(refused)?;
        let network = |error: tautline_sim::TopologyError| PlayError::Network(error.to_string());
        let client = self
            .world
            .try_add_host(all.as_slice(), client)
            .map_err(network)?;
        let server = self
            .world
            .try_add_host(server_at, server)
            .map_err(network)?;
        let access = DirectionConfig {
            delay: flow.access_delay.0,
            ..DirectionConfig::default()
        };
        let at_once = LinkConfig::symmetric(DirectionConfig::default());
        for ((_, near), address) in ends.near.iter().zip(&all) {
            // By its address a host with several knows its link.
            let bound = (all.len() > 1).then(|| address.ip());
            let access = LinkConfig::symmetric(access.clone());
            self.world
                .try_connect((client, bound), (*near, None), access)
                .map_err(network)?;
        }
        self.world
            .try_connect((ends.far, None), (server, None), at_once)
            .map_err(network)?;
        let with = (stack.as_ref(), options);
        chain
            .add_to(&mut self.world, with, (order, start))
            .map_err(|error| match error {
                ChainError::Stack(reason) => refused(reason),
                ChainError::Network(error) => network(error),
            })?;
        self.players.push(Player {
            flow: index,
            stack: Arc::clone(stack),
            client,
            server,
            receiver: program.receiver(),
            start,
            homes,
            history: Vec::new(),
        });
        Ok(())
    }

    /// The world, to look into or to change before it plays.
    pub fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// Keeps a log of up to `packets` packets (about 100 bytes each) and checks at the end that no
    /// link did what it cannot do.
    pub fn audit(&mut self, packets: usize) {
        self.audited = true;
        self.world.enable_log(packets);
    }

    /// What an audit found, and what it could not check, in words; nothing where there was none.
    fn audit_result(&self, scene: &Scene) -> (Vec<String>, Vec<String>) {
        if !self.audited {
            return (Vec::new(), Vec::new());
        }
        let audit = match tautline_sim::audit::audit(&self.world) {
            Ok(audit) => audit,
            Err(incomplete) => return (vec![incomplete.to_string()], Vec::new()),
        };
        let place = |link: LinkId, direction| {
            let wire = scene.network.wires.get(link.index());
            let name = wire.map_or("?", |wire| wire.name.as_str());
            let way = match direction {
                Direction::Forward => "up",
                Direction::Backward => "down",
            };
            format!("link {name} {way}")
        };
        let violations = audit.violations.iter().map(|violation| {
            let place = place(violation.link, violation.direction);
            let packet = violation.index.map(|index| format!(", packet {index}"));
            format!("{place}{}: {}", packet.unwrap_or_default(), violation.what)
        });
        let unchecked = audit.unchecked.iter().map(|unchecked| {
            let place = place(unchecked.link, unchecked.direction);
            format!("{place}: {}", unchecked.what.join("; "))
        });
        (violations.collect(), unchecked.collect())
    }

    /// Writes the packets of both directions of the first link down, as they reach it: before its
    /// queue and what it loses.
    pub fn capture<W: Write + 'static>(&mut self, capture: &Rc<RefCell<Capture<W>>>) {
        let Some(&link) = self.links.first() else {
            return;
        };
        for direction in [Direction::Forward, Direction::Backward] {
            let capture = Rc::clone(capture);
            self.world
                .add_rule(link, direction, move |packet: &PacketView<'_>| {
                    capture.borrow_mut().packet(packet);
                    Verdict::Pass
                });
        }
    }

    /// Plays until every measured flow is over, or to the limit.
    pub fn play(mut self, scene: &Scene) -> Record {
        let end = Instant::ZERO + scene.limit;
        loop {
            let step = scene.sample.min(end.saturating_since(self.world.now()));
            let stuck = self.world.run_for(step) == RunEnd::Stuck;
            self.sample();
            if stuck || self.world.now() >= end || self.is_over(scene) {
                return self.record(scene, stuck);
            }
        }
    }

    fn half(&self, player: &Player, end: End) -> Option<&dyn Half> {
        let host = match end {
            End::Client => player.client,
            End::Server => player.server,
        };
        let node = self.world.program(host)?;
        player.stack.inspect(node).map(|inside| inside.half)
    }

    fn wire(&self, player: &Player, end: End) -> Option<WireStats> {
        let host = match end {
            End::Client => player.client,
            End::Server => player.server,
        };
        let node = self.world.program(host)?;
        player.stack.inspect(node)?.wire
    }

    /// What each path of a connection carried; of one with a single path nothing is to be told apart.
    fn paths(&self, player: &Player) -> Vec<PathRecord> {
        if player.homes.len() < 2 {
            return Vec::new();
        }
        let of = |end: End| {
            let host = match end {
                End::Client => player.client,
                End::Server => player.server,
            };
            let node = self.world.program(host);
            node.map(|node| player.stack.paths(node))
                .unwrap_or_default()
        };
        let (client, server) = (of(End::Client), of(End::Server));
        let record = |ours: &PathWire| {
            let theirs = server.iter().find(|path| path.id == ours.id).copied();
            let local = ours.four_tuple.local.ip();
            let home = player.homes.iter().find(|(_, at)| at.ip() == local);
            let (sender, receiver) = match player.receiver {
                End::Client => (theirs, Some(*ours)),
                End::Server => (Some(*ours), theirs),
            };
            PathRecord {
                home: home.map(|(home, _)| home.clone()).unwrap_or_default(),
                id: ours.id,
                validated: ours.validated,
                sender,
                receiver,
            }
        };
        client.iter().map(record).collect()
    }

    fn is_over(&self, scene: &Scene) -> bool {
        let measured =
            |player: &&Player| scene.flows.get(player.flow).is_some_and(Flow::is_measured);
        self.players.iter().filter(measured).all(|player| {
            let over = |end| self.half(player, end).is_some_and(|half| half.is_over());
            over(End::Client) || over(player.receiver)
        })
    }

    fn sample(&mut self) {
        let at = self.world.now();
        for (history, link) in self.served.iter_mut().zip(&self.links) {
            let served = [Direction::Forward, Direction::Backward].map(|direction| {
                let stats = self.world.link_stats(*link, direction);
                Served {
                    packets: stats.served_packets,
                    sojourn: stats.sojourn,
                }
            });
            history.push((at, served));
        }
        for index in 0..self.players.len() {
            let Some(player) = self.players.get(index) else {
                continue;
            };
            if at < player.start {
                continue;
            }
            let received = self
                .half(player, player.receiver)
                .map_or(0, Half::received_bytes);
            // Without a connection there is nothing in flight, whatever the stack can tell later.
            let none = WireStats {
                in_flight: Some(0),
                ..WireStats::default()
            };
            let wire = self.wire(player, player.receiver.other()).unwrap_or(none);
            let sample = Sample { at, received, wire };
            if let Some(player) = self.players.get_mut(index) {
                player.history.push(sample);
            }
        }
    }

    fn record(self, scene: &Scene, stuck: bool) -> Record {
        let end = self.world.now();
        let mut flows = Vec::new();
        for player in &self.players {
            let Some(flow) = scene.flows.get(player.flow) else {
                continue;
            };
            let outcome = |end| {
                self.half(player, end)
                    .map(Half::outcome)
                    .unwrap_or_default()
            };
            let options = scene.options(flow);
            flows.push(FlowRecord {
                name: flow.name.clone(),
                flow: player.flow,
                measured: flow.is_measured(),
                endless: flow.stop.is_some() || flow.workload.program().is_endless(),
                stack: options.stack.clone(),
                congestion: options.congestion.clone(),
                deterministic: player.stack.is_deterministic(options),
                start: player.start,
                stop: flow.stop.map(|stop| Instant::ZERO + stop.0),
                receiver: outcome(player.receiver),
                connected: outcome(End::Client).connected,
                error: outcome(End::Client).error.or(outcome(End::Server).error),
                sender_wire: self.wire(player, player.receiver.other()),
                receiver_wire: self.wire(player, player.receiver),
                homes: player.homes.iter().map(|(home, _)| home.clone()).collect(),
                paths: self.paths(player),
                up: player.receiver == End::Server,
                direction: {
                    let mut homes = player.homes.iter();
                    let up = homes.find_map(|(home, _)| {
                        scene.network.crossing(scene.link, home, &flow.server)
                    });
                    up.map(|up| match player.receiver {
                        End::Client => up.opposite(),
                        End::Server => up,
                    })
                },
                history: player.history.clone(),
                window: (Duration::ZERO, Duration::ZERO),
            });
        }
        let links = self
            .links
            .iter()
            .zip(&scene.network.wires)
            .enumerate()
            .map(|(index, (link, wire))| LinkRecord {
                name: wire.name.clone(),
                is_path: scene.network.homes.contains(&wire.name),
                config: wire.config.clone(),
                changes: wire.changes.clone(),
                forward: self.world.link_stats(*link, Direction::Forward),
                backward: self.world.link_stats(*link, Direction::Backward),
                history: self.served.get(index).cloned().unwrap_or_default(),
            })
            .collect();
        let (violations, unchecked) = self.audit_result(scene);
        Record {
            stuck,
            violations,
            unchecked,
            link: scene.link,
            links,
            events: self.world.stats().events,
            ..Record::of_flows(scene, end, flows)
        }
    }
}
