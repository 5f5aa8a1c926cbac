//! The world: a virtual clock, hosts, links, and the events between them.
//!
//! Purpose: run nodes in virtual time, the same way every time.
//! Owns: the clock, the event queue, hosts, NATs, routes, the packet log and hash.
//! Does not own: what a link does to a packet (`link`), what a node does.
//! Called by: tests, the testkit, the laboratory, `tautline demo`.
//! To add an event kind: `event.rs` and `run.rs`.

mod event;
mod faults;
mod nat;
mod run;
mod topology;

use std::net::IpAddr;

pub use nat::{Rebind, RebindSchedule};
pub use run::RunEnd;
use tautline_transport::{rng::Rng, time::Instant};
pub use topology::{Direction, HostAddresses, HostId, LinkId, TopologyError};

use self::{
    event::{EventQueue, Slots},
    topology::{Host, Link, LinkEnd, Topology},
};
use crate::{
    Datagram, DirectionConfig, DirectionStats, LinkConfig, Node,
    link::DirectionState,
    log::{Change, PacketLog, PacketRecord, TraceHash},
};

/// A rule added with [`World::add_rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(u64);

/// Datagrams that took no link, or did not reach a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorldStats {
    /// Datagrams that nodes gave to the world.
    pub sent: u64,
    /// Datagrams that came to a program.
    pub delivered: u64,
    /// No route to the destination, or it arrived where it does not belong.
    pub unroutable: u64,
    /// Arrived at a NAT's former binding.
    pub nat_dropped: u64,
    /// Put in by [`World::inject`].
    pub injected: u64,
    /// Events handled.
    pub events: u64,
}

/// A datagram on its way to a host.
struct Travelling {
    datagram: Datagram,
    /// The host at the end of the link.
    to: HostId,
    /// The link and direction it comes by; `None` when injected or from the host itself.
    by: Option<(LinkId, Direction)>,
}

type Action = Box<dyn FnOnce(&mut World)>;

/// Hosts and links in virtual time.
///
/// The same seed, set-up and nodes give the same packets at the same times. See the crate's
/// documentation for an example.
pub struct World {
    seed: u64,
    now: Instant,
    events: EventQueue,
    topology: Topology,
    travelling: Slots<Travelling>,
    actions: Slots<Action>,
    next_rule: u64,
    nat_addresses: u32,
    log: Option<PacketLog>,
    hash: Option<TraceHash>,
    stats: WorldStats,
    /// Events handled at this instant.
    at_once: u64,
    stuck: bool,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("seed", &self.seed)
            .field("now", &self.now)
            .field("hosts", &self.topology.hosts.len())
            .field("links", &self.topology.links)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// Setting up.
impl World {
    /// An empty world at [`Instant::ZERO`]. `seed` decides every random fault.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            now: Instant::ZERO,
            events: EventQueue::default(),
            topology: Topology::default(),
            travelling: Slots::default(),
            actions: Slots::default(),
            next_rule: 0,
            nat_addresses: 0,
            log: None,
            hash: None,
            stats: WorldStats::default(),
            at_once: 0,
            stuck: false,
        }
    }

    /// A generator for a node, independent of all others with another `label`.
    pub fn rng(&self, label: u64) -> Rng {
        let mut seed = [0; 32];
        let (low, rest) = seed.split_at_mut(8);
        low.copy_from_slice(&self.seed.to_le_bytes());
        rest[..8].copy_from_slice(&label.to_le_bytes());
        rest[8..].copy_from_slice(b"tautline-sim/rng");
        Rng::from_seed(seed)
    }

    /// Adds a host that runs `node` and receives what is sent to the IP addresses of `addresses`,
    /// whatever the port.
    ///
    /// # Panics
    /// When `addresses` is empty or one belongs to another host; see [`World::try_add_host`].
    pub fn add_host(&mut self, addresses: impl HostAddresses, node: Box<dyn Node>) -> HostId {
        self.try_add_host(addresses, node)
            .unwrap_or_else(|e| panic!("add_host: {e}"))
    }

    /// [`World::add_host`] for set-ups that come from outside.
    pub fn try_add_host(
        &mut self,
        addresses: impl HostAddresses,
        node: Box<dyn Node>,
    ) -> Result<HostId, TopologyError> {
        let addresses = addresses.into_addresses();
        if addresses.is_empty() {
            return Err(TopologyError::NoAddress);
        }
        let id = self.topology.add_host(Host::new(addresses, Some(node)))?;
        self.wake(id);
        Ok(id)
    }

    /// Adds a host without a program, which forwards packets between its links.
    pub fn add_router(&mut self) -> HostId {
        // Without addresses nothing can be in use.
        self.topology
            .add_host(Host::new(Vec::new(), None))
            .unwrap_or(HostId(usize::MAX))
    }

    /// Links two hosts; `config.forward` is the way from `a` to `b`.
    ///
    /// # Panics
    /// When a host is unknown or `config` is invalid; see [`World::try_connect`].
    pub fn connect(&mut self, a: HostId, b: HostId, config: LinkConfig) -> LinkId {
        self.try_connect((a, None), (b, None), config)
            .unwrap_or_else(|e| panic!("connect: {e}"))
    }

    /// Links two hosts. An end with an address carries only what is sent to that address, and is
    /// preferred for what is sent from it: parallel paths between two hosts are links with
    /// different addresses.
    pub fn try_connect(
        &mut self,
        (a, a_ip): (HostId, Option<IpAddr>),
        (b, b_ip): (HostId, Option<IpAddr>),
        config: LinkConfig,
    ) -> Result<LinkId, TopologyError> {
        config.validate()?;
        let ends = [LinkEnd { host: a, ip: a_ip }, LinkEnd { host: b, ip: b_ip }];
        for end in &ends {
            self.topology.check_end(end)?;
        }
        if a == b {
            return Err(TopologyError::SelfLink(a));
        }
        let id = LinkId(self.topology.links.len());
        let round_trip = config.round_trip();
        let direction = |way, config| DirectionState::new(self.seed, id, way, config, round_trip);
        let directions = [
            direction(Direction::Forward, config.forward),
            direction(Direction::Backward, config.backward),
        ];
        self.topology.add_link(Link { ends, directions });
        Ok(id)
    }

    /// Keeps a record of every packet offered to a link, up to `max_records` (96 bytes each); two where a
    /// queue is managed. What configurations were before they are changed is kept too.
    pub fn enable_log(&mut self, max_records: usize) {
        self.log = Some(PacketLog::new(max_records));
    }

    /// Hashes every packet from now on; see [`World::trace_hash`].
    pub fn enable_hash(&mut self) {
        self.hash = Some(TraceHash::new());
    }
}

/// Looking.
impl World {
    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// When the next event is; `None` when nothing is left to happen.
    pub fn next_event(&self) -> Option<Instant> {
        self.events.next_time()
    }

    /// The program on a host.
    ///
    /// # Panics
    /// When the host is unknown or its program is not a `T`; see [`World::try_node`].
    pub fn node<T: Node>(&self, host: HostId) -> &T {
        self.try_node(host)
            .unwrap_or_else(|| panic!("{host:?} does not run {}", name::<T>()))
    }

    /// The program on a host. It is asked for datagrams and its timeout afterwards.
    ///
    /// # Panics
    /// When the host is unknown or its program is not a `T`.
    pub fn node_mut<T: Node>(&mut self, host: HostId) -> &mut T {
        self.wake(host);
        let node = self
            .topology
            .hosts
            .get_mut(host.0)
            .and_then(Host::typed_mut);
        node.unwrap_or_else(|| panic!("{host:?} does not run {}", name::<T>()))
    }

    /// The program on a host, if it is a `T`.
    pub fn try_node<T: Node>(&self, host: HostId) -> Option<&T> {
        self.topology.hosts.get(host.0).and_then(Host::typed)
    }

    /// The program on a host, for those who find out its type themselves.
    pub fn program(&self, host: HostId) -> Option<&dyn std::any::Any> {
        let host = self.topology.hosts.get(host.0)?;
        host.node.as_ref().map(|node| node.as_any())
    }

    /// The host that holds an IP address, also as a NAT's outer address.
    pub fn host_at(&self, ip: IpAddr) -> Option<HostId> {
        self.topology.owner(ip)
    }

    /// The counters of one direction of a link, up to now.
    ///
    /// # Panics
    /// When the link is unknown.
    pub fn link_stats(&self, link: LinkId, direction: Direction) -> DirectionStats {
        match self.topology.links.get(link.0) {
            Some(found) => found.directions[direction as usize].stats(self.now),
            None => panic!("{}", TopologyError::UnknownLink(link)),
        }
    }

    /// The configuration of one direction of a link.
    ///
    /// # Panics
    /// When the link is unknown.
    pub fn direction_config(&self, link: LinkId, direction: Direction) -> &DirectionConfig {
        match self.topology.links.get(link.0) {
            Some(found) => found.directions[direction as usize].config(),
            None => panic!("{}", TopologyError::UnknownLink(link)),
        }
    }

    /// Whether the configuration of either direction was ever changed. Unknown links never were.
    pub fn was_reconfigured(&self, link: LinkId) -> bool {
        self.topology.links.get(link.0).is_some_and(|found| {
            let mut directions = found.directions.iter();
            directions.any(DirectionState::was_reconfigured)
        })
    }

    /// The links, in the order of `connect`.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.topology.links.len()).map(LinkId)
    }

    /// The world's own counters.
    pub fn stats(&self) -> WorldStats {
        self.stats
    }

    /// The packets recorded since [`World::enable_log`]; empty without it.
    pub fn log(&self) -> &[PacketRecord] {
        self.log.as_ref().map_or(&[], PacketLog::records)
    }

    /// What directions were before they were changed, since [`World::enable_log`].
    pub(crate) fn log_changes(&self) -> &[Change] {
        self.log.as_ref().map_or(&[], PacketLog::changes)
    }

    /// Whether a link is up. Unknown links are not.
    pub(crate) fn is_up(&self, link: LinkId, direction: Direction) -> bool {
        let found = self.topology.links.get(link.0);
        found.is_some_and(|found| found.directions[direction as usize].is_up())
    }

    /// Packets that the log had no room for.
    pub fn log_omitted(&self) -> u64 {
        self.log.as_ref().map_or(0, PacketLog::omitted)
    }

    /// SHA-256 over time, place, addresses, ECN, bytes and outcome of every packet offered to a
    /// link or injected since [`World::enable_hash`]; `None` without it.
    pub fn trace_hash(&self) -> Option<[u8; 32]> {
        self.hash.as_ref().map(TraceHash::value)
    }

    fn host(&self, id: HostId) -> &Host {
        match self.topology.hosts.get(id.0) {
            Some(host) => host,
            None => panic!("{}", TopologyError::UnknownHost(id)),
        }
    }

    fn host_mut(&mut self, id: HostId) -> &mut Host {
        match self.topology.hosts.get_mut(id.0) {
            Some(host) => host,
            None => panic!("{}", TopologyError::UnknownHost(id)),
        }
    }

    fn direction_mut(&mut self, link: LinkId, direction: Direction) -> &mut DirectionState {
        match self.topology.links.get_mut(link.0) {
            Some(found) => &mut found.directions[direction as usize],
            None => panic!("{}", TopologyError::UnknownLink(link)),
        }
    }
}

fn name<T>() -> &'static str {
    std::any::type_name::<T>()
}
