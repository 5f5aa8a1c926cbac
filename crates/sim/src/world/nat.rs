//! A NAT in front of a host: what the network sees of the host's addresses, and how that changes.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    draw::{Draws, Purpose},
    text,
};

/// How a NAT in front of a host changes what the network sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rebind {
    /// New ports.
    Port,
    /// New IP addresses (from 100.64.0.0/10 and fd6e:6174::/32), the same ports.
    Address,
    /// Both.
    AddressAndPort,
    /// This IP address for the host's addresses of its family, the same ports. No change when
    /// another host holds it.
    To(IpAddr),
}

/// Rebindings at given times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RebindSchedule {
    /// What changes.
    pub kind: Rebind,
    /// The first time, since the world's origin.
    #[serde(with = "text::duration")]
    pub first: Duration,
    /// Then again after each such time.
    #[serde(
        with = "text::duration_option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub every: Option<Duration>,
}

/// Bindings one host may hold; the oldest goes when a new one would be too many.
const MAX_BINDINGS: usize = 4096;

/// The bindings of one host. Packets to an earlier binding are dropped.
#[derive(Debug)]
pub(super) struct Nat {
    draws: Draws,
    /// Outer IP address by inner one; itself when absent.
    addresses: BTreeMap<IpAddr, IpAddr>,
    /// Outer ports still equal inner ones when 0.
    port_generation: u64,
    ports_drawn: u64,
    bindings: Vec<Binding>,
}

#[derive(Clone, Copy, Debug)]
struct Binding {
    inner: SocketAddr,
    outer: SocketAddr,
}

impl Nat {
    pub(super) fn new(draws: Draws) -> Self {
        Self {
            draws,
            addresses: BTreeMap::new(),
            port_generation: 0,
            ports_drawn: 0,
            bindings: Vec::new(),
        }
    }

    /// Forgets all bindings.
    pub(super) fn rebind(&mut self, new_ports: bool, new_addresses: &[(IpAddr, IpAddr)]) {
        // Bindings in use keep what does not change.
        let old = std::mem::take(&mut self.bindings);
        self.addresses.extend(new_addresses.iter().copied());
        if new_ports {
            self.port_generation += 1;
            return;
        }
        for binding in old {
            let outer = SocketAddr::new(self.address(binding.inner.ip()), binding.outer.port());
            self.bindings.push(Binding { outer, ..binding });
        }
    }

    /// What the network sees as the source.
    pub(super) fn outbound(&mut self, inner: SocketAddr) -> SocketAddr {
        if let Some(binding) = self.bindings.iter().find(|b| b.inner == inner) {
            return binding.outer;
        }
        let ip = self.address(inner.ip());
        let port = if self.port_generation == 0 {
            inner.port()
        } else {
            self.free_port(ip)
        };
        let outer = SocketAddr::new(ip, port);
        if self.bindings.len() >= MAX_BINDINGS {
            self.bindings.remove(0);
        }
        self.bindings.push(Binding { inner, outer });
        outer
    }

    /// The inner address behind `outer`; `None` when nothing is bound there (any more).
    pub(super) fn inbound(&self, outer: SocketAddr) -> Option<SocketAddr> {
        self.bindings
            .iter()
            .find(|b| b.outer == outer)
            .map(|b| b.inner)
    }

    fn address(&self, inner: IpAddr) -> IpAddr {
        self.addresses.get(&inner).copied().unwrap_or(inner)
    }

    /// A port above 49152 that is not bound; far more exist than bindings.
    fn free_port(&mut self, ip: IpAddr) -> u16 {
        loop {
            let bits = self.draws.bits(Purpose::NatPort, self.ports_drawn);
            self.ports_drawn += 1;
            let port = 49_152 + (bits % 16_384) as u16;
            let outer = SocketAddr::new(ip, port);
            if !self.bindings.iter().any(|b| b.outer == outer) {
                return port;
            }
        }
    }
}

/// The `n`-th address that a NAT hands out, of the family of `like`.
pub(super) fn pool_address(like: IpAddr, n: u32) -> IpAddr {
    match like {
        IpAddr::V4(_) => {
            let base = u32::from(Ipv4Addr::new(100, 64, 0, 0));
            IpAddr::V4(Ipv4Addr::from(base + (n & 0x003f_ffff)))
        }
        IpAddr::V6(_) => {
            let base = u128::from(Ipv6Addr::new(0xfd6e, 0x6174, 0, 0, 0, 0, 0, 0));
            IpAddr::V6(Ipv6Addr::from(base + u128::from(n)))
        }
    }
}
