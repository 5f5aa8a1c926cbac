//! The UDP socket: the only place that talks to the network.
//!
//! Purpose: send segmentation batches and receive coalesced ones through `quinn-udp` (GSO, GRO,
//! ECN, PKTINFO), in the transport's own terms.
//! Owns: [`Socket`], [`SocketBuffers`], address forms, receive memory (`receive.rs`), kernel
//! steering between shards (`steer.rs`).
//! Does not own: what is sent when ([`crate::shard`]).
//! Called by: the driver; `Endpoint` for set-up and stateless answers.

mod receive;
mod steer;
mod timestamps;
mod unreachable;

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6},
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll, ready},
};

use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use tautline_transport::{
    endpoint::Transmit,
    units::{Ecn, FourTuple},
};
use tokio::io::Interest;

use crate::error::BindError;
pub(crate) use receive::ReceiveBuffers;

/// What we ask the kernel for, in each direction. Enough for 50 ms at 1 Gb/s.
const WANTED_BUFFER_BYTES: usize = 7 << 20;
/// No batch is larger than one UDP payload may be. RFC 768, RFC 791.
pub(crate) const MAX_BATCH_SEGMENTS: usize = 64;

/// Errors of earlier datagrams that a send may meet: one that waits, and one that ICMP brings meanwhile.
const STALE_ERRORS: usize = 2;

/// Kernel socket buffers: what was asked for and what was granted.
///
/// Too small a receive buffer drops packets before the program sees them as soon as it is busy
/// for some milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketBuffers {
    /// Bytes asked for, for receiving.
    pub wanted_bytes: usize,
    /// Bytes asked for, for sending; as many, unless
    /// [`EndpointBuilder::socket_send_buffer_bytes`](crate::EndpointBuilder::socket_send_buffer_bytes) says otherwise.
    pub wanted_send_bytes: usize,
    /// Bytes granted for receiving.
    pub receive_bytes: usize,
    /// Bytes granted for sending.
    pub send_bytes: usize,
}

impl SocketBuffers {
    /// Whether the kernel granted less than was asked for.
    pub fn is_small(&self) -> bool {
        self.receive_bytes < self.wanted_bytes || self.send_bytes < self.wanted_send_bytes
    }

    /// One sentence with the cure for programs to print; `None` when all is well.
    pub fn warning(&self) -> Option<String> {
        if !self.is_small() {
            return None;
        }
        let (wanted, to_send) = (self.wanted_bytes, self.wanted_send_bytes);
        let cure = if cfg!(target_os = "linux") {
            format!("; cure: sudo sysctl -w net.core.rmem_max={wanted} net.core.wmem_max={to_send}")
        } else {
            String::new()
        };
        Some(format!(
            "UDP socket buffers are small (receive {} of {} KiB wanted, send {} of {} KiB), so fast \
             transfers may lose packets{cure}",
            self.receive_bytes / 1024,
            wanted / 1024,
            self.send_bytes / 1024,
            to_send / 1024,
        ))
    }
}

/// A socket that is set up but not yet tied to a runtime.
#[derive(Debug)]
pub(crate) struct BoundSocket {
    socket: std::net::UdpSocket,
    offload: UdpSocketState,
    local: SocketAddr,
    pub(crate) buffers: SocketBuffers,
}

/// Kernel buffers to ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedBuffers {
    pub(crate) receive_bytes: usize,
    pub(crate) send_bytes: usize,
}

impl Default for WantedBuffers {
    fn default() -> Self {
        Self {
            receive_bytes: WANTED_BUFFER_BYTES,
            send_bytes: WANTED_BUFFER_BYTES,
        }
    }
}

/// How to bind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BindOptions {
    pub(crate) reuse_port: bool,
    pub(crate) buffers: WantedBuffers,
}

impl BoundSocket {
    /// Binds `addr`; an unspecified IPv6 address serves IPv4 too where the system allows.
    pub(crate) fn bind(addr: SocketAddr, options: BindOptions) -> Result<Self, BindError> {
        let socket =
            raw_bind(addr, None, options).map_err(|error| BindError::Bind { addr, error })?;
        Self::adopt(socket, options.buffers).map_err(BindError::Setup)
    }

    /// As [`Self::bind`]; what it sends leaves through `interface` and nowhere else.
    pub(crate) fn bind_through(
        addr: SocketAddr,
        interface: Option<&str>,
        options: BindOptions,
    ) -> io::Result<Self> {
        Self::adopt(raw_bind(addr, interface, options)?, options.buffers)
    }

    /// Sets up a socket that the application bound.
    pub(crate) fn adopt(socket: std::net::UdpSocket, wanted: WantedBuffers) -> io::Result<Self> {
        let offload = UdpSocketState::new((&socket).into())?;
        // Best effort: see there what is lost otherwise.
        let _ = timestamps::switch_off(&socket);
        let local = socket.local_addr()?;
        // Best effort: what was granted is reported.
        let _ = offload.set_recv_buffer_size((&socket).into(), wanted.receive_bytes);
        let _ = offload.set_send_buffer_size((&socket).into(), wanted.send_bytes);
        let granted = |size: io::Result<usize>| {
            // Linux reports twice what may be used; the other half is its bookkeeping.
            size.map_or(0, |bytes| {
                if cfg!(target_os = "linux") {
                    bytes / 2
                } else {
                    bytes
                }
            })
        };
        let buffers = SocketBuffers {
            wanted_bytes: wanted.receive_bytes,
            wanted_send_bytes: wanted.send_bytes,
            receive_bytes: granted(offload.recv_buffer_size((&socket).into())),
            send_bytes: granted(offload.send_buffer_size((&socket).into())),
        };
        Ok(Self {
            socket,
            offload,
            local,
            buffers,
        })
    }

    /// Asks for ICMP errors, so that a refused port is known at once.
    pub(crate) fn report_errors(&self) {
        // Best effort: without it, attempts time out.
        let _ = self.offload.enable_transport_errors((&self.socket).into());
    }

    /// See [`steer::attach`].
    pub(crate) fn steer(&self, shards: u16) -> io::Result<()> {
        steer::attach(&self.socket, shards)
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Ties the socket to the current runtime.
    pub(crate) fn into_socket(self) -> io::Result<Socket> {
        let io = tokio::net::UdpSocket::from_std(self.socket)?;
        Ok(Socket {
            io,
            offload: self.offload,
            local: self.local,
            icmp: AtomicBool::new(false),
        })
    }
}

fn raw_bind(
    addr: SocketAddr,
    interface: Option<&str>,
    options: BindOptions,
) -> io::Result<std::net::UdpSocket> {
    let domain = socket2::Domain::for_address(addr);
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, None)?;
    if addr.is_ipv6() {
        // Not every system lets go of IPv6-only sockets.
        let dual = addr.ip().is_unspecified();
        let _ = socket.set_only_v6(!dual);
    }
    if let Some(interface) = interface {
        hold_to(&socket, interface)?;
    }
    if options.reuse_port {
        set_reuse_port(&socket)?;
    }
    socket.bind(&addr.into())?;
    Ok(socket.into())
}

#[cfg(target_os = "linux")]
fn hold_to(socket: &socket2::Socket, interface: &str) -> io::Result<()> {
    socket.bind_device(Some(interface.as_bytes()))
}

#[cfg(not(target_os = "linux"))]
fn hold_to(_: &socket2::Socket, _: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(unix, not(any(target_os = "solaris", target_os = "illumos"))))]
fn set_reuse_port(socket: &socket2::Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

#[cfg(not(all(unix, not(any(target_os = "solaris", target_os = "illumos")))))]
fn set_reuse_port(_: &socket2::Socket) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "no SO_REUSEPORT here: use one shard",
    ))
}

/// A non-blocking UDP socket with offloads.
#[derive(Debug)]
pub(crate) struct Socket {
    io: tokio::net::UdpSocket,
    offload: UdpSocketState,
    local: SocketAddr,
    /// A send failed because of ICMP's report about an earlier datagram.
    icmp: AtomicBool,
}

/// What came of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The kernel took it.
    Taken,
    /// The kernel dropped it; to the transport that is a lost packet.
    Dropped,
    /// There is no way to the destination.
    Unreachable(io::ErrorKind),
    /// The local address it should come from is gone; the kernel took it from another one.
    Moved,
}

/// Datagrams of one size from one peer, side by side in a receive slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) four_tuple: FourTuple,
    pub(crate) ecn: Ecn,
    pub(crate) len: usize,
    pub(crate) stride: usize,
}

impl Socket {
    /// Where it is bound.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Whether what is sent from `local` goes out here.
    pub(crate) fn is_at(&self, local: SocketAddr) -> bool {
        let bound = canonical(self.local);
        bound.port() == local.port() && (bound.ip().is_unspecified() || bound.ip() == local.ip())
    }

    /// Most datagrams that one [`Self::poll_send`] takes.
    pub(crate) fn max_segments(&self) -> usize {
        self.offload.max_gso_segments().clamp(1, MAX_BATCH_SEGMENTS)
    }

    /// Sends; pending means nothing was sent and the task is woken when there is room. Rarely, it
    /// is not woken: try again a little later anyway.
    pub(crate) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        transmit: &Transmit,
        contents: &[u8],
    ) -> Poll<Sent> {
        // More than once only if the socket became writable meanwhile. Not without end: after an
        // ICMP error the runtime takes the socket for writable even when it is not.
        for _ in 0..2 {
            match self.try_send(transmit, contents) {
                Ok(sent) => return Poll::Ready(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if ready!(self.io.poll_send_ready(cx)).is_err() {
                        return Poll::Ready(Sent::Dropped);
                    }
                }
                Err(_) => return Poll::Ready(Sent::Dropped),
            }
        }
        Poll::Pending
    }

    /// Sends or fails with `WouldBlock`.
    pub(crate) fn try_send(&self, transmit: &Transmit, contents: &[u8]) -> io::Result<Sent> {
        let batch = self.outgoing(transmit, contents, transmit.segment_size);
        let mut result = self.send_once(&batch);
        for _ in 0..STALE_ERRORS {
            if !result.as_ref().is_err_and(may_be_stale) {
                break;
            }
            // The error may belong to an earlier datagram, to another destination; reporting it
            // consumed it. If it is this one's, it comes again.
            self.icmp.store(true, Ordering::Relaxed);
            result = self.send_once(&batch);
        }
        match result {
            Ok(()) => Ok(Sent::Taken),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            Err(_) if self.sent_from_elsewhere(&batch) => Ok(Sent::Moved),
            Err(error) if is_no_route(&error) => Ok(Sent::Unreachable(error.kind())),
            Err(_) => Ok(self.send_one_by_one(transmit, contents)),
        }
    }

    /// Whether a refused batch leaves when the kernel may choose its local address. After a change
    /// of network the old address is gone, and a socket that is bound to none goes on from the new.
    fn sent_from_elsewhere(&self, batch: &quinn_udp::Transmit<'_>) -> bool {
        self.local.ip().is_unspecified()
            && batch.src_ip.is_some()
            && self
                .send_once(&quinn_udp::Transmit {
                    src_ip: None,
                    destination: batch.destination,
                    ecn: batch.ecn,
                    contents: batch.contents,
                    segment_size: batch.segment_size,
                })
                .is_ok()
    }

    fn send_once(&self, transmit: &quinn_udp::Transmit<'_>) -> io::Result<()> {
        self.io.try_io(Interest::WRITABLE, || {
            self.offload.try_send((&self.io).into(), transmit)
        })
    }

    /// After a refused batch: the interface may not do segmentation.
    fn send_one_by_one(&self, transmit: &Transmit, contents: &[u8]) -> Sent {
        let Some(size) = transmit
            .segment_size
            .filter(|&size| size > 0 && size < contents.len())
        else {
            // Too large a probe, a full queue, or a firewall: a lost packet.
            return Sent::Dropped;
        };
        if self.offload.max_gso_segments() > 1 {
            return Sent::Dropped;
        }
        let mut outcome = Sent::Dropped;
        for datagram in contents.chunks(size) {
            if self
                .send_once(&self.outgoing(transmit, datagram, None))
                .is_ok()
            {
                outcome = Sent::Taken;
            }
        }
        outcome
    }

    fn outgoing<'a>(
        &self,
        transmit: &Transmit,
        contents: &'a [u8],
        segment_size: Option<usize>,
    ) -> quinn_udp::Transmit<'a> {
        let local = transmit.four_tuple.local.ip();
        quinn_udp::Transmit {
            destination: self.to_socket_form(transmit.four_tuple.remote),
            ecn: EcnCodepoint::from_bits(transmit.ecn as u8),
            contents,
            segment_size,
            src_ip: (!local.is_unspecified()).then_some(local),
        }
    }

    /// An IPv6 socket takes IPv4 destinations in mapped form only.
    fn to_socket_form(&self, addr: SocketAddr) -> SocketAddr {
        match (addr, self.local) {
            (SocketAddr::V4(v4), SocketAddr::V6(_)) => {
                SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into()
            }
            _ => addr,
        }
    }

    /// Receives one batch into `slot`; pending means that the task is woken when there is more.
    pub(crate) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        slot: &mut [u8],
    ) -> Poll<io::Result<Received>> {
        loop {
            let mut meta = [RecvMeta::default()];
            let received = self.io.try_io(Interest::READABLE, || {
                let mut slots = [io::IoSliceMut::new(slot)];
                self.offload.recv((&self.io).into(), &mut slots, &mut meta)
            });
            let [meta] = meta;
            match received {
                Ok(_) => return Poll::Ready(Ok(self.incoming(&meta))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.io.poll_recv_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn incoming(&self, meta: &RecvMeta) -> Received {
        let ip = meta.dst_ip.unwrap_or_else(|| self.local.ip());
        Received {
            four_tuple: FourTuple {
                local: SocketAddr::new(ip.to_canonical(), self.local.port()),
                remote: canonical(meta.addr),
            },
            ecn: meta
                .ecn
                .map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8)),
            len: meta.len,
            stride: meta.stride.max(1),
        }
    }

    /// Whether ICMP had something to say since the last call.
    pub(crate) fn heard_icmp(&self) -> bool {
        self.icmp.load(Ordering::Relaxed) && self.icmp.swap(false, Ordering::Relaxed)
    }

    /// The next destination that ICMP calls unreachable, and why, if any.
    pub(crate) fn next_unreachable(&self) -> Option<(SocketAddr, io::ErrorKind)> {
        // Bounded: the kernel's queue is, and each call takes one report from it.
        loop {
            if let Some((remote, reason)) = unreachable::next(&self.io)? {
                return Some((canonical(remote), reason));
            }
        }
    }
}

/// The form in which the stack compares addresses: IPv4 is IPv4, whatever socket it came through.
pub(crate) fn canonical(addr: SocketAddr) -> SocketAddr {
    match addr {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(IpAddr::V4(v4), v6.port()),
            None => addr,
        },
        SocketAddr::V4(_) => addr,
    }
}

/// Whether a socket bound to `local` can send to `remote`.
pub(crate) fn reaches(local: SocketAddr, remote: SocketAddr) -> bool {
    match (local, canonical(remote)) {
        (SocketAddr::V4(_), remote) => remote.is_ipv4(),
        (SocketAddr::V6(local), remote) => remote.is_ipv6() || *local.ip() == Ipv6Addr::UNSPECIFIED,
    }
}

/// Whether ICMP may have said so of an earlier datagram. ip(7), IP_RECVERR.
fn may_be_stale(error: &io::Error) -> bool {
    is_no_route(error)
        || matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
        )
}

fn is_no_route(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::AddrNotAvailable
            | io::ErrorKind::PermissionDenied
    )
}

#[cfg(test)]
mod tests;
