//! Making endpoints.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tautline_transport::{
    config::{ClientConfig, EndpointConfig, ServerConfig},
    endpoint::{self as transport, UsedTokens},
    rng::Rng,
};

use super::{Endpoint, EndpointShared, Hub};
use crate::{
    clock::Clock,
    error::BindError,
    shard::{Driver, Shard, ShardSockets, Steering},
    socket::{BindOptions, BoundSocket, WantedBuffers},
};

/// More shards than this help nobody.
const MAX_SHARDS: usize = 1_024;
/// More addresses than this are refused; each costs a socket per shard.
const MAX_OTHER_ADDRESSES: usize = 16;
/// Connection IDs carry the shard number and still 6 random bytes.
const MIN_SHARDED_CID_BYTES: usize = 8;

/// Chooses how an [`Endpoint`] is made.
///
/// ```no_run
/// # async fn f(config: tautline::ServerConfig) -> Result<(), tautline::BindError> {
/// let endpoint = tautline::Endpoint::builder()
///     .server(config)
///     .shards(4)
///     .bind("[::]:4433".parse().unwrap())?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing happens before `bind`"]
pub struct EndpointBuilder {
    server: Option<ServerConfig>,
    client: Option<ClientConfig>,
    config: EndpointConfig,
    others: Vec<SocketAddr>,
    shards: usize,
    own_threads: bool,
    kernel_steering: bool,
    buffer_bytes: Option<usize>,
    send_buffer_bytes: Option<usize>,
}

impl EndpointBuilder {
    pub(super) fn new() -> Self {
        Self {
            server: None,
            client: None,
            config: EndpointConfig::default(),
            others: Vec::new(),
            shards: 1,
            own_threads: false,
            kernel_steering: true,
            buffer_bytes: None,
            send_buffer_bytes: None,
        }
    }

    /// Accepts connections.
    pub fn server(mut self, config: ServerConfig) -> Self {
        self.server = Some(config);
        self
    }

    /// How to connect; see [`Endpoint::set_default_client_config`].
    pub fn client(mut self, config: ClientConfig) -> Self {
        self.client = Some(config);
        self
    }

    /// Versions, connection IDs, keys of tokens and resets.
    pub fn config(mut self, config: EndpointConfig) -> Self {
        self.config = config;
        self
    }

    /// Binds one more address, besides that of [`Self::bind`]. Call again for further ones; 16 at
    /// most.
    ///
    /// What arrives there is treated alike, and a connection that moves there is answered from
    /// there. Made for the address that a server prefers:
    ///
    /// ```no_run
    /// # use std::{net::SocketAddr, sync::Arc};
    /// # use tautline::{Endpoint, ServerConfig, TransportConfig};
    /// # use tautline::transport::config::PreferredAddresses;
    /// # async fn f(mut config: ServerConfig) -> Result<(), tautline::BindError> {
    /// let mut transport = TransportConfig::default();
    /// transport.preferred_address = Some(PreferredAddresses {
    ///     v4: Some("192.0.2.7:4434".parse().unwrap()),
    ///     v6: Some("[2001:db8::7]:4434".parse().unwrap()),
    /// });
    /// config.transport = Arc::new(transport);
    /// let endpoint = Endpoint::builder()
    ///     .server(config)
    ///     .also_bind("[::]:4434".parse().unwrap())
    ///     .bind("[::]:4433".parse().unwrap())?;
    /// # Ok(()) }
    /// ```
    pub fn also_bind(mut self, addr: SocketAddr) -> Self {
        self.others.push(addr);
        self
    }

    /// Splits the endpoint into `shards` sockets on one port (SO_REUSEPORT), each with a thread
    /// of its own. Default 1: a task of the current runtime.
    ///
    /// A connection belongs to one shard for its life. Connection IDs carry the shard's number,
    /// so that packets find their shard even after the client's address changed.
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = shards.clamp(1, MAX_SHARDS);
        self
    }

    /// Runs even a single shard on a thread of its own, away from the application's tasks.
    pub fn own_threads(mut self, own_threads: bool) -> Self {
        self.own_threads = own_threads;
        self
    }

    /// Whether the kernel may read connection IDs to find the right shard. Default on. Off, or
    /// where the kernel cannot, shards hand packets to each other.
    pub fn kernel_steering(mut self, kernel_steering: bool) -> Self {
        self.kernel_steering = kernel_steering;
        self
    }

    /// Kernel buffers to ask for, in bytes and each direction. Default 7 MiB.
    pub fn socket_buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer_bytes = Some(bytes);
        self
    }

    /// Kernel buffer to ask for to send from, in bytes. Default: [`Self::socket_buffer_bytes`].
    ///
    /// What has left for the kernel waits there for the interface: with less of it, less waits, and less is gone for
    /// nothing when the interface stands still. With too little a fast link runs empty between two batches. Linux
    /// grants some 2 KiB at least, and takes a batch of up to 64 KiB whole as long as the buffer is not full.
    pub fn socket_send_buffer_bytes(mut self, bytes: usize) -> Self {
        self.send_buffer_bytes = Some(bytes);
        self
    }

    fn wanted_buffers(&self) -> WantedBuffers {
        let mut wanted = WantedBuffers::default();
        if let Some(bytes) = self.buffer_bytes {
            (wanted.receive_bytes, wanted.send_bytes) = (bytes, bytes);
        }
        if let Some(bytes) = self.send_buffer_bytes {
            wanted.send_bytes = bytes;
        }
        wanted
    }

    /// Binds `addr` and starts the driver.
    ///
    /// # Errors
    /// When an address cannot be bound, or outside of a tokio runtime.
    pub fn bind(self, addr: SocketAddr) -> Result<Endpoint, BindError> {
        let main = self.bind_all(addr)?;
        self.start(main)
    }

    /// One socket for each shard, all on one address.
    fn bind_all(&self, addr: SocketAddr) -> Result<Vec<BoundSocket>, BindError> {
        let options = BindOptions {
            reuse_port: self.shards > 1,
            buffers: self.wanted_buffers(),
        };
        let first = BoundSocket::bind(addr, options)?;
        // With port 0 the first socket decides.
        let addr = SocketAddr::new(addr.ip(), first.local_addr().port());
        let mut sockets = vec![first];
        for _ in 1..self.shards {
            sockets.push(BoundSocket::bind(addr, options)?);
        }
        if self.kernel_steering && sockets.len() > 1 {
            // Best effort: without it, shards hand packets over.
            let _ = sockets
                .first()
                .map(|socket| socket.steer(sockets.len() as u16));
        }
        Ok(sockets)
    }

    /// Starts on a socket that the application bound. One shard only.
    ///
    /// # Errors
    /// When the socket cannot be set up, or outside of a tokio runtime.
    pub fn on_socket(mut self, socket: std::net::UdpSocket) -> Result<Endpoint, BindError> {
        self.shards = 1;
        let socket = BoundSocket::adopt(socket, self.wanted_buffers()).map_err(BindError::Setup)?;
        self.start(vec![socket])
    }

    /// Adds the sockets of the other addresses to those of the main one, shard by shard.
    fn with_others(
        &self,
        main: Vec<BoundSocket>,
    ) -> Result<(Vec<ShardSockets>, Vec<SocketAddr>), BindError> {
        if self.others.len() > MAX_OTHER_ADDRESSES {
            return Err(BindError::Setup(io::Error::new(
                io::ErrorKind::InvalidInput,
                "more than 16 further addresses: bind fewer",
            )));
        }
        let alone = |main| ShardSockets {
            main,
            others: Vec::new(),
        };
        let mut shards: Vec<_> = main.into_iter().map(alone).collect();
        let mut bound = Vec::new();
        for &addr in &self.others {
            let sockets = self.bind_all(addr)?;
            bound.extend(sockets.first().map(BoundSocket::local_addr));
            for (shard, socket) in shards.iter_mut().zip(sockets) {
                shard.others.push(socket);
            }
        }
        Ok((shards, bound))
    }

    fn start(mut self, sockets: Vec<BoundSocket>) -> Result<Endpoint, BindError> {
        let own_threads = self.own_threads || sockets.len() > 1;
        if !own_threads && tokio::runtime::Handle::try_current().is_err() {
            return Err(BindError::NoRuntime);
        }
        let (sockets, others) = self.with_others(sockets)?;
        let Some(ShardSockets { main: first, .. }) = sockets.first() else {
            return Err(BindError::Setup(io::ErrorKind::InvalidInput.into()));
        };
        let wanted_buffers = self.wanted_buffers();
        let shared = Arc::new(EndpointShared {
            client: Mutex::new(self.client.take()),
            local: Mutex::new(first.local_addr()),
            others,
            buffers: Mutex::new(first.buffers),
            wanted_buffers,
            reports_errors: self.server.is_none(),
        });
        if shared.reports_errors {
            let mains = sockets.iter().map(|shard| &shard.main);
            mains.for_each(BoundSocket::report_errors);
        }
        let steering = self.share_keys(sockets.len()).map_err(BindError::Setup)?;
        let clock = Clock::start();
        let endpoints = self.transports(sockets.len()).map_err(BindError::Setup)?;
        let hub = Arc::new_cyclic(|hub: &Weak<Hub>| {
            let shards = (0..).zip(endpoints);
            let shards = shards.map(|(index, endpoint)| {
                let hub = Weak::clone(hub);
                Arc::new(Shard::new(index, clock, hub, endpoint, wanted_buffers))
            });
            Hub::new(shards.collect())
        });
        // Before the drivers run: without a handle they would end at once.
        let endpoint = Endpoint::from_parts(Arc::clone(&hub), shared);
        for (shard, sockets) in hub.shards().iter().zip(sockets) {
            let parts = (Arc::clone(shard), Arc::clone(&hub), sockets, steering);
            if own_threads {
                spawn_thread(parts)
            } else {
                spawn_task(parts)
            }
            .map_err(BindError::Setup)?;
        }
        Ok(endpoint)
    }

    /// Shards must agree on the keys of tokens and resets, on which tokens were used, and on the
    /// length of IDs.
    fn share_keys(&mut self, shards: usize) -> io::Result<Option<Steering>> {
        if shards < 2 {
            return Ok(None);
        }
        let config = &mut self.config;
        config.connection_id_length = config.connection_id_length.max(MIN_SHARDED_CID_BYTES);
        let mut rng = entropy()?;
        config.token_key.get_or_insert_with(|| rng.array());
        config
            .used_tokens
            .get_or_insert_with(|| Arc::new(UsedTokens::new(&mut rng)));
        config
            .stateless_reset_key
            .get_or_insert_with(|| rng.array());
        Ok(Some(Steering {
            shards: shards as u16,
            cid_len: config.connection_id_length,
        }))
    }

    fn transports(&self, shards: usize) -> io::Result<Vec<transport::Endpoint>> {
        let server = self.server.clone().map(Arc::new);
        (0..shards)
            .map(|index| {
                let mut config = self.config.clone();
                if shards > 1 {
                    config.shard = Some(index as u16);
                }
                Ok(transport::Endpoint::new(
                    Arc::new(config),
                    server.clone(),
                    entropy()?,
                ))
            })
            .collect()
    }
}

type Parts = (Arc<Shard>, Arc<Hub>, ShardSockets, Option<Steering>);

fn spawn_task((shard, hub, sockets, steering): Parts) -> io::Result<()> {
    tokio::spawn(Driver::new(shard, hub, sockets, steering)?);
    Ok(())
}

fn spawn_thread((shard, hub, sockets, steering): Parts) -> io::Result<()> {
    let name = format!("tautline-{}", shard.index);
    let (report, started) = std::sync::mpsc::sync_channel(1);
    std::thread::Builder::new().name(name).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let driver = runtime.and_then(|runtime| {
            let driver = {
                let _inside = runtime.enter();
                Driver::new(shard, hub, sockets, steering)?
            };
            Ok((runtime, driver))
        });
        match driver {
            Ok((runtime, driver)) => {
                // The builder waits for this report, so it is heard.
                let _ = report.send(Ok(()));
                runtime.block_on(driver);
            }
            Err(error) => {
                let _ = report.send(Err(error));
            }
        }
    })?;
    started
        .recv()
        .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// A generator seeded by the operating system.
fn entropy() -> io::Result<Rng> {
    use aws_lc_rs::rand::{SecureRandom, SystemRandom};
    let mut seed = [0; 32];
    SystemRandom::new()
        .fill(&mut seed)
        .map_err(|_| io::Error::other("the operating system gives no random numbers"))?;
    Ok(Rng::from_seed(seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys, and the tokens that were used: else each shard would honour a token once.
    #[test]
    fn shards_share_what_tokens_depend_on() {
        let mut builder = EndpointBuilder::new();
        builder.share_keys(4).unwrap();
        let shards = builder.transports(4).unwrap();
        let first = shards[0].config();
        assert!(first.token_key.is_some() && first.stateless_reset_key.is_some());
        for shard in &shards {
            let config = shard.config();
            assert_eq!(config.token_key, first.token_key);
            assert_eq!(config.stateless_reset_key, first.stateless_reset_key);
            let used_tokens = config.used_tokens.as_ref().unwrap();
            assert!(Arc::ptr_eq(
                used_tokens,
                first.used_tokens.as_ref().unwrap()
            ));
        }
    }
}
