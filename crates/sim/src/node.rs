//! What runs on a host: anything that takes datagrams and time and gives datagrams back.
//!
//! Owns: [`Datagram`], [`Node`]. Does not own: addresses, routes, links (see [`crate::World`]).

use std::{any::Any, net::SocketAddr};

use tautline_transport::{
    time::Instant,
    units::{Ecn, FourTuple},
};

/// A UDP datagram between two hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The sender's address. An unspecified IP address is replaced by the sending host's first
    /// address of the destination's family.
    pub src: SocketAddr,
    /// The receiver's address.
    pub dst: SocketAddr,
    /// The ECN codepoint of the IP header.
    pub ecn: Ecn,
    /// The UDP payload.
    pub payload: Vec<u8>,
}

impl Datagram {
    /// The addresses as the receiver sees them: `local` is the destination.
    pub fn four_tuple_at_receiver(&self) -> FourTuple {
        FourTuple {
            local: self.dst,
            remote: self.src,
        }
    }

    /// Bytes of the IP packet: the payload, 8 bytes of UDP and 20 (IPv4) or 40 (IPv6) of IP.
    ///
    /// Link rates, queues and MTUs count these.
    pub fn ip_bytes(&self) -> u32 {
        let payload = u32::try_from(self.payload.len()).unwrap_or(u32::MAX);
        payload.saturating_add(ip_overhead(self.dst))
    }
}

/// Bytes of IP and UDP headers before a payload: 28 over IPv4, 48 over IPv6.
pub const fn ip_overhead(dst: SocketAddr) -> u32 {
    match dst {
        SocketAddr::V4(_) => 28,
        SocketAddr::V6(_) => 48,
    }
}

/// Application bytes per byte of capacity, in 1,452-byte UDP payloads over IPv4 and without loss:
/// with capacity C and loss p, no more than R = 0.9588 x C x (1 - p) can be delivered.
pub const PAYLOAD_SHARE: f64 = 0.9588;

/// A sans-IO program on a host.
///
/// After every call of `handle_datagram` or `handle_timeout`, and at the start, the world calls
/// `poll_transmit` until it answers `None`, then asks `poll_timeout` anew. A timeout that lies in
/// the past counts as due now.
pub trait Node: Any {
    /// A datagram arrived.
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram);

    /// The time named by [`Node::poll_timeout`] has come.
    fn handle_timeout(&mut self, now: Instant);

    /// When the node wants `handle_timeout`; `None` means never.
    fn poll_timeout(&self) -> Option<Instant>;

    /// The next datagram to send, `None` when there is none for now.
    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram>;

    /// `self`, for typed access through [`crate::World::node`].
    fn as_any(&self) -> &dyn Any;

    /// `self`, for typed access through [`crate::World::node_mut`].
    fn as_any_mut(&mut self) -> &mut dyn Any;
}
