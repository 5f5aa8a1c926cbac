//! The parts of a connection's way between those who end it: client, proxies, server.
//!
//! Owns: [`Ends`] (at which routers they are), [`Chain`] (who is whose neighbour, and the hosts of
//! proxies). Does not own: where proxies stand (`scene`), what they do (`stack`).

use std::net::SocketAddr;

use tautline_sim::{DirectionConfig, HostId, LinkConfig, TopologyError, World};
use tautline_transport::time::Instant;

use crate::{
    scene::Split,
    stack::{Part, ProxySetup, Stack, StackOptions},
};

/// The last number of the first proxy's address, behind those of the client and the server.
const FIRST_PROXY: u8 = 200;
/// Labels of proxies' randomness are far from those of ends, and of each other's connections.
const LABELS: u64 = 1 << 40;

/// Who connects where.
pub(super) struct Ends<'a> {
    /// The client's places, that of the handshake first.
    pub(super) near: &'a [(&'a str, HostId)],
    pub(super) far: HostId,
    /// What stands between them, if anything does, and where, from the client on.
    pub(super) split: Option<(&'a Split<'a>, &'a [HostId])>,
}

/// Why a proxy cannot stand there.
#[derive(Debug)]
pub(super) enum ChainError {
    Stack(String),
    Network(TopologyError),
}

/// A part of the way, with the addresses of its ends.
#[derive(Clone, Copy, Debug)]
struct Link {
    near: SocketAddr,
    far: SocketAddr,
    part: Part,
}

/// Without proxies one part, the whole.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    /// The place of each proxy and its router, from the client on.
    proxies: Vec<(&'a str, HostId)>,
    whole: Link,
    /// One more than proxies, where there are any; else none.
    links: Vec<Link>,
}

impl<'a> Chain<'a> {
    /// From `client` to `server`; `address` makes one of the connection's addresses.
    pub(super) fn new(
        split: Option<(&Split<'a>, &[HostId])>,
        (client, server): (SocketAddr, SocketAddr),
        address: impl Fn(u8, u16) -> SocketAddr,
    ) -> Self {
        let whole = Link {
            near: client,
            far: server,
            part: Part::Whole,
        };
        let Some((split, routers)) = split else {
            return Self {
                proxies: Vec::new(),
                whole,
                links: Vec::new(),
            };
        };
        let places = split.places.iter().copied();
        let proxies: Vec<(&str, HostId)> = places.zip(routers.iter().copied()).collect();
        // To the client a proxy is what the server is, and to the server what the client is.
        let numbers = || (FIRST_PROXY..).take(proxies.len());
        let nears = std::iter::once(client).chain(numbers().map(|n| address(n, client.port())));
        let fars = numbers().map(|n| address(n, server.port())).chain([server]);
        let links = nears.zip(fars).enumerate();
        let links = links.map(|(index, (near, far))| Link {
            near,
            far,
            part: split.part(index),
        });
        Self {
            links: links.collect(),
            proxies,
            whole,
        }
    }

    /// Whom the client speaks to, and over which part of the way.
    pub(super) fn beside_client(&self) -> (SocketAddr, Part) {
        let link = self.links.first().unwrap_or(&self.whole);
        (link.far, link.part)
    }

    /// Whom the server speaks to, and over which part of the way.
    pub(super) fn beside_server(&self) -> (SocketAddr, Part) {
        let link = self.links.last().unwrap_or(&self.whole);
        (link.near, link.part)
    }

    /// Sets the proxies of the connection of this number up, each beside its place.
    pub(super) fn add_to(
        &self,
        world: &mut World,
        (stack, options): (&dyn Stack, &StackOptions),
        (number, start): (u64, Instant),
    ) -> Result<(), ChainError> {
        let each = self.proxies.iter().zip(self.links.windows(2));
        for (label, ((place, router), links)) in (LABELS + (number << 8)..).zip(each) {
            let [before, after] = links else { continue };
            let setup = ProxySetup {
                place: (*place).to_owned(),
                sides: [
                    (before.far, before.near, before.part),
                    (after.near, after.far, after.part),
                ],
                start,
                rng: world.rng(label),
            };
            let node = stack.proxy(options, setup).map_err(ChainError::Stack)?;
            let host = world
                .try_add_host(before.far, node)
                .map_err(ChainError::Network)?;
            let at_once = LinkConfig::symmetric(DirectionConfig::default());
            world
                .try_connect((*router, None), (host, None), at_once)
                .map_err(ChainError::Network)?;
        }
        Ok(())
    }
}
