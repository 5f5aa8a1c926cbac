//! Hosts, links and the way between them.
//!
//! Owns: who holds which IP address, which link a packet takes. Routing is by address: shortest
//! number of links, over forwarding hosts only; ends of links bound to an address attract that
//! address's traffic.

use std::{
    any::Any,
    collections::{BTreeMap, VecDeque},
    net::{IpAddr, SocketAddr},
};

use tautline_transport::time::Instant;

use super::nat::Nat;
use crate::{ConfigError, Node, link::DirectionState};

/// A host of a [`crate::World`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub(crate) usize);

/// A link of a [`crate::World`]; links count from 0 in the order of `connect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) usize);

impl HostId {
    /// Position in the order of `add_host` and `add_router`, from 0.
    pub const fn index(self) -> usize {
        self.0
    }
}

impl LinkId {
    /// Position in the order of `connect`, from 0; part of the key of loss decisions.
    pub const fn index(self) -> usize {
        self.0
    }
}

/// Which way along a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Direction {
    /// From the first host given to `connect` to the second.
    Forward = 0,
    /// From the second to the first.
    Backward = 1,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Backward];

    /// The other one.
    pub const fn opposite(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }
}

/// A set-up that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Two hosts would hold one IP address.
    #[error("the address {0} belongs to another host")]
    AddressInUse(IpAddr),
    /// A host needs an address.
    #[error("a host needs at least one address")]
    NoAddress,
    /// A host of another world, or one that was not added.
    #[error("there is no host {0:?}")]
    UnknownHost(HostId),
    /// A link of another world, or one that was not added.
    #[error("there is no link {0:?}")]
    UnknownLink(LinkId),
    /// A link from a host to itself.
    #[error("host {0:?} cannot be linked to itself")]
    SelfLink(HostId),
    /// An end bound to an address that its host does not hold.
    #[error("host {0:?} does not hold the address {1}")]
    NotItsAddress(HostId, IpAddr),
    /// The link's configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// One or several addresses of a host.
pub trait HostAddresses {
    /// All of them.
    fn into_addresses(self) -> Vec<SocketAddr>;
}

impl HostAddresses for SocketAddr {
    fn into_addresses(self) -> Vec<SocketAddr> {
        vec![self]
    }
}

impl HostAddresses for &[SocketAddr] {
    fn into_addresses(self) -> Vec<SocketAddr> {
        self.to_vec()
    }
}

impl<const N: usize> HostAddresses for [SocketAddr; N] {
    fn into_addresses(self) -> Vec<SocketAddr> {
        self.to_vec()
    }
}

impl HostAddresses for Vec<SocketAddr> {
    fn into_addresses(self) -> Vec<SocketAddr> {
        self
    }
}

/// Places for routes: of a router, through which all pairs go, and of any other host. Powers of two.
const ROUTER_ROUTES: usize = 1024;
const HOST_ROUTES: usize = 8;
/// Places in a row that a route may have.
const ROW: usize = 4;

/// Source and destination.
type Pair = (IpAddr, IpAddr);

pub(super) struct Host {
    pub(super) addresses: Vec<SocketAddr>,
    /// The program; a router when absent.
    pub(super) node: Option<Box<dyn Node>>,
    pub(super) nat: Option<Nat>,
    /// The earliest timer event in the queue.
    pub(super) timer: Option<Instant>,
    /// Whether a wake event is in the queue.
    pub(super) waking: bool,
    /// Timeouts handled at the same instant.
    pub(super) timeouts: (Instant, u32),
    /// Routes taken lately, each at the place that its addresses have: traffic repeats itself.
    routes: Vec<Option<(Pair, Route)>>,
}

impl Host {
    pub(super) fn new(addresses: Vec<SocketAddr>, node: Option<Box<dyn Node>>) -> Self {
        Self {
            addresses,
            node,
            nat: None,
            timer: None,
            waking: false,
            timeouts: (Instant::ZERO, 0),
            routes: Vec::new(),
        }
    }

    fn forwards(&self) -> bool {
        self.node.is_none()
    }

    pub(super) fn holds(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|address| address.ip() == ip)
    }

    pub(super) fn typed<T: Node>(&self) -> Option<&T> {
        let node: &dyn Any = self.node.as_ref()?.as_any();
        node.downcast_ref()
    }

    pub(super) fn typed_mut<T: Node>(&mut self) -> Option<&mut T> {
        let node: &mut dyn Any = self.node.as_mut()?.as_any_mut();
        node.downcast_mut()
    }
}

/// One end of a link; with an address, the end serves that address.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkEnd {
    pub(super) host: HostId,
    pub(super) ip: Option<IpAddr>,
}

#[derive(Debug)]
pub(super) struct Link {
    /// First and second host; a packet forward goes from the first to the second.
    pub(super) ends: [LinkEnd; 2],
    /// Forward and backward.
    pub(super) directions: [DirectionState; 2],
}

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) link: LinkId,
    pub(super) direction: Direction,
}

/// Hosts, links, owners of addresses.
#[derive(Default)]
pub(super) struct Topology {
    pub(super) hosts: Vec<Host>,
    pub(super) links: Vec<Link>,
    /// Who holds an address, and which of the host's own addresses stands behind it.
    owners: BTreeMap<IpAddr, (HostId, IpAddr)>,
    /// Links still to go to an inner address, by host; computed when first needed.
    distances: BTreeMap<IpAddr, Vec<Option<u32>>>,
}

impl Topology {
    pub(super) fn owner(&self, ip: IpAddr) -> Option<HostId> {
        self.owners.get(&ip).map(|(host, _)| *host)
    }

    pub(super) fn add_host(&mut self, host: Host) -> Result<HostId, TopologyError> {
        let id = HostId(self.hosts.len());
        let ips: Vec<IpAddr> = host.addresses.iter().map(SocketAddr::ip).collect();
        if let Some(ip) = ips.iter().find(|ip| self.owners.contains_key(ip)) {
            return Err(TopologyError::AddressInUse(*ip));
        }
        self.owners.extend(ips.iter().map(|ip| (*ip, (id, *ip))));
        self.hosts.push(host);
        self.forget_routes();
        Ok(id)
    }

    /// Makes `outer` lead to `host` too, where it stands for `inner`.
    pub(super) fn add_owner(&mut self, outer: IpAddr, host: HostId, inner: IpAddr) {
        self.owners.insert(outer, (host, inner));
        self.forget_routes();
    }

    pub(super) fn check_end(&self, end: &LinkEnd) -> Result<(), TopologyError> {
        let host = self
            .hosts
            .get(end.host.0)
            .ok_or(TopologyError::UnknownHost(end.host))?;
        match end.ip {
            Some(ip) if !host.addresses.iter().any(|a| a.ip() == ip) => {
                Err(TopologyError::NotItsAddress(end.host, ip))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn add_link(&mut self, link: Link) {
        self.links.push(link);
        self.forget_routes();
    }

    fn forget_routes(&mut self) {
        self.distances.clear();
        for host in &mut self.hosts {
            host.routes.clear();
        }
    }

    /// The next link of a packet that is at `from`; `src` is the host's own address.
    pub(super) fn route(&mut self, from: HostId, src: IpAddr, dst: IpAddr) -> Option<Route> {
        let host = self.hosts.get_mut(from.0)?;
        if host.routes.is_empty() {
            let places = if host.forwards() {
                ROUTER_ROUTES
            } else {
                HOST_ROUTES
            };
            host.routes = vec![None; places];
        }
        let first = spread((src, dst)) % (host.routes.len() / ROW) * ROW;
        let row = host.routes.get(first..first + ROW)?;
        let known = row.iter().flatten().find(|(pair, _)| *pair == (src, dst));
        if let Some((_, route)) = known {
            return Some(*route);
        }
        let free = row.iter().position(Option::is_none).unwrap_or_default();
        let route = self.search(from, src, dst)?;
        let routes = &mut self.hosts.get_mut(from.0)?.routes;
        *routes.get_mut(first + free)? = Some(((src, dst), route));
        Some(route)
    }

    /// [`Self::route`], not remembered.
    fn search(&mut self, from: HostId, src: IpAddr, dst: IpAddr) -> Option<Route> {
        let (owner, inner) = *self.owners.get(&dst)?;
        if !self.distances.contains_key(&inner) {
            let distances = self.measure(owner, inner);
            self.distances.insert(inner, distances);
        }
        let distances = self.distances.get(&inner)?;
        let forwarding = self.hosts.get(from.0)?.forwards();
        let mut best: Option<((u32, u32), Route)> = None;
        for (route, near, far) in self.ends_at(from) {
            let reaches = if far.host == owner {
                serves(far, inner)
            } else {
                self.hosts.get(far.host.0).is_some_and(Host::forwards)
            };
            let Some(distance) = distances.get(far.host.0).copied().flatten() else {
                continue;
            };
            if !reaches {
                continue;
            }
            let unfit = match near.ip {
                Some(ip) if ip == src => 0,
                None => 1,
                Some(_) => 2,
            };
            // An end host picks the link of its source address; a router the shortest way.
            let cost = if forwarding {
                (distance, unfit)
            } else {
                (unfit, distance)
            };
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, route));
            }
        }
        best.map(|(_, route)| route)
    }

    /// Links from every host to `inner` at `owner`, over forwarding hosts only.
    fn measure(&self, owner: HostId, inner: IpAddr) -> Vec<Option<u32>> {
        let mut distances = vec![None; self.hosts.len()];
        let mut queue = VecDeque::from([(owner, 0)]);
        while let Some((host, distance)) = queue.pop_front() {
            match distances.get_mut(host.0) {
                Some(known @ None) => *known = Some(distance),
                _ => continue,
            }
            if host != owner && !self.hosts.get(host.0).is_some_and(Host::forwards) {
                continue;
            }
            let fits = |near: &LinkEnd| host != owner || serves(*near, inner);
            let ends = self.ends_at(host).filter(|(_, near, _)| fits(near));
            queue.extend(ends.map(|(_, _, far)| (far.host, distance + 1)));
        }
        distances
    }

    /// Every way out of `host`: the route, its near and its far end.
    fn ends_at(&self, host: HostId) -> impl Iterator<Item = (Route, LinkEnd, LinkEnd)> + '_ {
        self.links.iter().enumerate().filter_map(move |(i, link)| {
            let [first, second] = link.ends;
            let (direction, near, far) = if first.host == host {
                (Direction::Forward, first, second)
            } else if second.host == host {
                (Direction::Backward, second, first)
            } else {
                return None;
            };
            Some((
                Route {
                    link: LinkId(i),
                    direction,
                },
                near,
                far,
            ))
        })
    }
}

/// A number for two addresses; neighbouring ones get numbers far apart (Fibonacci hashing).
fn spread((src, dst): Pair) -> usize {
    let low = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u64::from(ip.to_bits()),
        IpAddr::V6(ip) => {
            let bits = ip.to_bits();
            (bits >> 64) as u64 ^ bits as u64
        }
    };
    let mixed = (low(src) ^ low(dst).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 48) as usize
}

fn serves(end: LinkEnd, ip: IpAddr) -> bool {
    end.ip.is_none_or(|bound| bound == ip)
}
