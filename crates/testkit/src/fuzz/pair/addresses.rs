//! Where the client's host is, and where it seems to be.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tautline_transport::units::{FourTuple, Side};

const BASE_PORT: u16 = 50_000;

/// The client's address, which changes, and a NAT before the server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Addresses {
    /// How often the host moved.
    moved: u8,
    /// The NAT's mapping, 0 for none.
    mapping: u8,
}

impl Addresses {
    /// Where the client's connection `index` sends from.
    pub(super) fn client(self, index: u16) -> SocketAddr {
        SocketAddr::new(self.client_ip(), BASE_PORT + index)
    }

    fn client_ip(self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 1, self.moved))
    }

    fn mapped_ip(self) -> IpAddr {
        match self.mapping {
            0 => self.client_ip(),
            mapping => IpAddr::V4(Ipv4Addr::new(10, 1, self.moved, mapping)),
        }
    }

    pub(super) fn move_client(&mut self) {
        self.moved = self.moved.wrapping_add(1);
    }

    pub(super) fn map(&mut self, mapping: u8) {
        self.mapping = mapping;
    }

    /// Which of the client's connections sends from an address, as the server sees it.
    pub(super) fn index_of(self, seen: SocketAddr) -> u16 {
        seen.port().wrapping_sub(BASE_PORT)
    }

    /// The four-tuple of a datagram as its receiver sees it; `None` if it gets nowhere.
    pub(super) fn route(self, from: Side, sent: FourTuple) -> Option<FourTuple> {
        match from {
            Side::Client => Some(FourTuple {
                local: sent.remote,
                remote: SocketAddr::new(self.mapped_ip(), sent.local.port()),
            }),
            Side::Server if sent.remote.ip() == self.mapped_ip() => Some(FourTuple {
                local: SocketAddr::new(self.client_ip(), sent.remote.port()),
                remote: sent.local,
            }),
            Side::Server => None,
        }
    }
}
