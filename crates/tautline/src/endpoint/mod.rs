//! Endpoints: where connections come from and go to.
//!
//! Purpose: the application's handle on one UDP address and all connections through it.
//! Owns: [`Endpoint`], [`EndpointBuilder`] (`builder.rs`), [`Incoming`] and [`Connecting`]
//! (`incoming.rs`, `connecting.rs`), reaching a host by name (`happy_eyeballs.rs`).
//! Does not own: moving packets ([`crate::shard`]).
//! Spec: RFC 9000 s5; RFC 8305.

mod builder;
mod connecting;
mod happy_eyeballs;
mod hub;
mod incoming;

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tautline_transport::{
    config::{ClientConfig, ServerConfig},
    endpoint as transport,
    units::{FourTuple, PathId},
};

pub use self::{
    builder::EndpointBuilder,
    connecting::{Connecting, ZeroRttAccepted},
    incoming::{Incoming, IncomingFuture, RetryError},
};
pub(crate) use hub::Hub;

use crate::{
    Connection, LocalEnd,
    error::{BindError, ConnectError, ConnectHostError},
    shard::Counters,
    socket::{self, BoundSocket, SocketBuffers, WantedBuffers},
};

/// One UDP address, with all connections that go through it, as client, server or both.
///
/// Cheap to clone; clones name the same endpoint. Dropping the last clone refuses new clients but
/// leaves existing connections alone: their driver runs until the last of them has ended.
///
/// The driver runs as a task of the runtime in which the endpoint was made (or on threads of its
/// own, see [`EndpointBuilder::shards`]). When that runtime is shut down, all connections end
/// with an error, and nothing hangs.
#[derive(Debug)]
pub struct Endpoint {
    hub: Arc<Hub>,
    shared: Arc<EndpointShared>,
}

#[derive(Debug)]
struct EndpointShared {
    client: Mutex<Option<ClientConfig>>,
    local: Mutex<SocketAddr>,
    /// What [`EndpointBuilder::also_bind`] bound.
    others: Vec<SocketAddr>,
    buffers: Mutex<SocketBuffers>,
    wanted_buffers: WantedBuffers,
    /// Whether sockets report ICMP errors: for clients, who want to know of a refused port. A
    /// server would hear of every client that vanished.
    reports_errors: bool,
}

impl Clone for Endpoint {
    fn clone(&self) -> Self {
        Self::from_parts(Arc::clone(&self.hub), Arc::clone(&self.shared))
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.hub.remove_handle();
    }
}

/// What an endpoint's sockets have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// UDP datagrams received.
    pub received_datagrams: u64,
    /// System calls that received something (with GRO, several datagrams each).
    pub received_batches: u64,
    /// UDP datagrams sent.
    pub sent_datagrams: u64,
    /// System calls that sent something (with GSO, several datagrams each).
    pub sent_batches: u64,
    /// Batches that the kernel refused; the transport sees lost packets.
    pub send_failures: u64,
    /// Datagrams that arrived at a shard that does not own their connection, and were handed over.
    pub handed_over_datagrams: u64,
    /// Of those, dropped because the owner's queue was full.
    pub handover_drops: u64,
}

impl Endpoint {
    fn from_parts(hub: Arc<Hub>, shared: Arc<EndpointShared>) -> Self {
        hub.add_handle();
        Self { hub, shared }
    }

    /// An endpoint for outgoing connections. Bind to `[::]:0` to reach IPv4 and IPv6.
    ///
    /// Set how to connect with [`Self::set_default_client_config`], or use [`Self::connect_with`].
    ///
    /// # Errors
    /// When the address cannot be bound, or outside of a tokio runtime.
    pub fn client(addr: SocketAddr) -> Result<Self, BindError> {
        Self::builder().bind(addr)
    }

    /// An endpoint that accepts connections (and can make some too).
    ///
    /// # Errors
    /// When the address cannot be bound, or outside of a tokio runtime.
    pub fn server(config: ServerConfig, addr: SocketAddr) -> Result<Self, BindError> {
        Self::builder().server(config).bind(addr)
    }

    /// More choices.
    pub fn builder() -> EndpointBuilder {
        EndpointBuilder::new()
    }

    /// How [`Self::connect`] and [`Self::connect_host`] connect from now on.
    pub fn set_default_client_config(&self, config: ClientConfig) {
        *self.shared.client.lock() = Some(config);
    }

    /// Starts a connection to the server at `addr`, which must prove to be `server_name`.
    ///
    /// Dropping the [`Connecting`] gives the attempt up.
    ///
    /// # Errors
    /// When the attempt cannot even start; see [`ConnectError`].
    pub fn connect(&self, addr: SocketAddr, server_name: &str) -> Result<Connecting, ConnectError> {
        let config = self
            .shared
            .client
            .lock()
            .clone()
            .ok_or(ConnectError::NoClientConfig)?;
        self.connect_with(config, addr, server_name)
    }

    /// [`Self::connect`] in another way than the default.
    ///
    /// # Errors
    /// When the attempt cannot even start; see [`ConnectError`].
    pub fn connect_with(
        &self,
        config: ClientConfig,
        addr: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        self.connect_over(config, None, addr, server_name)
    }

    /// [`Self::connect`] from a certain local address or interface, over a socket of its own.
    ///
    /// # Errors
    /// When the attempt cannot even start; see [`ConnectError`].
    pub fn connect_from(
        &self,
        local: &LocalEnd,
        addr: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        self.connect_once_from(local, addr, server_name, true)
    }

    /// `first`: of attempts that stand for one connection; the others spend no token.
    fn connect_once_from(
        &self,
        local: &LocalEnd,
        addr: SocketAddr,
        server_name: &str,
        first: bool,
    ) -> Result<Connecting, ConnectError> {
        let config = self.shared.client.lock().clone();
        let mut config = config.ok_or(ConnectError::NoClientConfig)?;
        if !first {
            config.token_store = None;
        }
        self.connect_over(config, Some(local), addr, server_name)
    }

    fn connect_over(
        &self,
        config: ClientConfig,
        from: Option<&LocalEnd>,
        addr: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let remote = socket::canonical(addr);
        let shard = self.hub.next_shard().ok_or(ConnectError::EndpointClosed)?;
        let own_socket = match from {
            Some(from) => {
                let wanted = from.resolve(remote)?;
                let options = shard.path_socket_options();
                Some(shard.path_sockets.open(&wanted, options)?)
            }
            None => None,
        };
        let local = match &own_socket {
            Some(socket) => socket.local(),
            None => *self.shared.local.lock(),
        };
        if !socket::reaches(local, remote) {
            return Err(ConnectError::UnreachableFamily { remote, local });
        }
        let mut state = shard.state.lock();
        // Under the lock, so that `close` either sees this connection or is seen here.
        if state.dead || self.hub.is_closed() {
            return Err(ConnectError::EndpointClosed);
        }
        let four_tuple = FourTuple { local, remote };
        let place = own_socket.as_ref().map(|socket| socket.local());
        let tokens = config
            .token_store
            .clone()
            .map(|store| (server_name.to_owned(), store));
        let (handle, quic) =
            state
                .endpoint
                .connect(shard.now(), config, four_tuple, server_name)?;
        let conn = shard.adopt(&mut state, handle, quic);
        {
            let mut state = conn.state.lock();
            state.tokens = tokens;
            state.paths.hold(PathId::ZERO, own_socket);
        }
        Ok(Connecting::new(conn, remote).beginning_at(place))
    }

    /// Resolves `host` and connects to whichever of its addresses answers first.
    ///
    /// Happy Eyeballs (RFC 8305): IPv6 and IPv4 addresses take turns, IPv6 first; the next attempt
    /// starts 250 ms after the last, or as soon as that has failed; the first completed handshake
    /// wins and the others are closed. `host` may be an address literal. The name that the
    /// server must prove is `host`.
    ///
    /// Needs a runtime with time enabled. Cancel safe: dropping the future gives all attempts up.
    ///
    /// # Errors
    /// When the name does not resolve or no address answers; the error lists each attempt.
    pub async fn connect_host(
        &self,
        host: &str,
        port: u16,
    ) -> Result<Connection, ConnectHostError> {
        let connected = happy_eyeballs::connect(self, &[], host, port).await;
        connected.map(|(connection, _)| connection)
    }

    /// [`Self::connect_host`] from any of several local addresses or interfaces: each is tried with the
    /// first address of `host`, then each with the next. Also tells the index in `from` of the
    /// one that answered first; open further paths from the others
    /// ([`Connection::open_path_from`]). With none, the endpoint's own socket is used.
    ///
    /// Only the first attempt spends an address validation token.
    ///
    /// # Errors
    /// As [`Self::connect_host`].
    pub async fn connect_host_from(
        &self,
        from: &[LocalEnd],
        host: &str,
        port: u16,
    ) -> Result<(Connection, usize), ConnectHostError> {
        happy_eyeballs::connect(self, from, host, port).await
    }

    /// The next client that wants to connect; `None` once the endpoint accepts no more.
    ///
    /// Clients wait in a bounded queue; when it is full, further ones are refused.
    ///
    /// Cancel safe: dropping the future takes no client.
    pub async fn accept(&self) -> Option<Incoming> {
        self.hub.accept().await
    }

    /// Where the socket is bound.
    pub fn local_addr(&self) -> SocketAddr {
        *self.shared.local.lock()
    }

    /// Where the sockets of [`EndpointBuilder::also_bind`] are bound, in the order of the calls.
    pub fn other_addrs(&self) -> &[SocketAddr] {
        &self.shared.others
    }

    /// What the kernel granted for socket buffers; [`SocketBuffers::warning`] names the cure when
    /// that is little.
    pub fn socket_buffers(&self) -> SocketBuffers {
        *self.shared.buffers.lock()
    }

    /// Connections that are open, closing or draining.
    pub fn open_connections(&self) -> usize {
        self.hub.live_connections()
    }

    /// How many shards run this endpoint.
    pub fn shards(&self) -> usize {
        self.hub.shards().len()
    }

    /// What the sockets have done, over all shards.
    pub fn stats(&self) -> EndpointStats {
        let mut stats = EndpointStats::default();
        for shard in self.hub.shards() {
            let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
            let Counters {
                received_datagrams,
                received_batches,
                sent_datagrams,
                sent_batches,
                send_failures,
                handed_over,
                handover_drops,
            } = &shard.counters;
            stats.received_datagrams += read(received_datagrams);
            stats.received_batches += read(received_batches);
            stats.sent_datagrams += read(sent_datagrams);
            stats.sent_batches += read(sent_batches);
            stats.send_failures += read(send_failures);
            stats.handed_over_datagrams += read(handed_over);
            stats.handover_drops += read(handover_drops);
        }
        stats
    }

    /// Moves the endpoint to another socket, for instance after a change of network.
    ///
    /// Client connections tell their servers at once and go on over the new socket; packets on
    /// their way to the old one are still heard for 3 s. Connections whose peers cannot be reached
    /// from the new socket (another address family) end with
    /// [`ConnectionError::NoViablePath`](crate::ConnectionError). Accepted connections go on only
    /// if the address stays the same: QUIC lets only clients move. A client on a socket that is
    /// bound to no address in particular needs no call: when the network takes its address away, it
    /// goes on from the one that the kernel chooses next. Further addresses
    /// ([`EndpointBuilder::also_bind`]) stay. Shards share the new socket: whichever is awake takes
    /// a packet and hands it to its owner.
    ///
    /// # Errors
    /// When the socket cannot be set up; the endpoint then stays where it is.
    pub fn rebind(&self, socket: std::net::UdpSocket) -> Result<(), BindError> {
        let shards = self.hub.shards();
        let mut sockets = Vec::new();
        for _ in 1..shards.len() {
            let shared = socket.try_clone().map_err(BindError::Setup)?;
            sockets.push(shared);
        }
        sockets.push(socket);
        let adopt = |socket| BoundSocket::adopt(socket, self.shared.wanted_buffers);
        let new: std::io::Result<Vec<_>> = sockets.into_iter().map(adopt).collect();
        for (shard, new) in shards.iter().zip(new.map_err(BindError::Setup)?) {
            if self.shared.reports_errors {
                new.report_errors();
            }
            *self.shared.local.lock() = new.local_addr();
            *self.shared.buffers.lock() = new.buffers;
            shard.state.lock().new_socket = Some(new);
            shard.notify_driver();
        }
        Ok(())
    }

    /// Lets no new client in; existing connections go on. [`Self::accept`] gives `None`.
    ///
    /// With [`Self::wait_idle`] a server ends gracefully: stop accepting, let the peers finish,
    /// then [`Self::close`] what is left after a time of your choice.
    pub fn stop_accepting(&self) {
        self.hub.stop_accepting();
    }

    /// Closes every connection at once with an application error code and lets no new one in.
    ///
    /// Data that was not yet acknowledged is lost; to be sure of it, `finish` streams and wait for
    /// [`SendStream::stopped`](crate::SendStream::stopped) first. Peers are told; await
    /// [`Self::wait_idle`] before the program ends, so that they hear it.
    pub fn close(&self, code: u64, reason: &[u8]) {
        self.hub.close();
        let reason = Bytes::copy_from_slice(reason);
        for shard in self.hub.shards() {
            let conns: Vec<_> = shard.state.lock().table.iter().cloned().collect();
            conns
                .iter()
                .for_each(|conn| conn.close(code, reason.clone()));
        }
    }

    /// Waits until no connection is left, closing and draining ones included.
    ///
    /// Draining lasts three probe timeouts. Cancel safe.
    pub async fn wait_idle(&self) {
        self.hub.idle().await;
    }
}

impl From<transport::ConnectError> for ConnectError {
    fn from(error: transport::ConnectError) -> Self {
        use tautline_transport::tls::StartError;
        match error {
            transport::ConnectError::Tls(StartError::InvalidServerName(name)) => {
                Self::InvalidServerName(name)
            }
            error => Self::Start(error.to_string()),
        }
    }
}
