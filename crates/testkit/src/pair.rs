//! A client and a server of ours over one simulated link.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tautline_sim::{HostId, LinkConfig, LinkId, RunEnd, World, quic::QuicHost};
use tautline_transport::{
    config::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig},
    endpoint::Endpoint,
    time::Instant,
};

use crate::{
    apps::{PatternClient, PatternServer},
    tls,
};

/// Address of the server.
pub fn server_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 443))
}

/// Address of the client.
pub fn client_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 50_000))
}

/// What a [`Pair`] is made of; change fields before [`PairSetup::build`].
pub struct PairSetup {
    /// Seed of everything random.
    pub seed: u64,
    /// The link.
    pub link: LinkConfig,
    /// Behaviour of the client.
    pub client: TransportConfig,
    /// Behaviour of the server.
    pub server: TransportConfig,
    /// Endpoint of the client.
    pub client_endpoint: EndpointConfig,
    /// Endpoint of the server.
    pub server_endpoint: EndpointConfig,
    /// Further changes to the client's set-up.
    pub tune_client: Box<dyn FnOnce(&mut ClientConfig)>,
    /// Further changes to the server's set-up.
    pub tune_server: Box<dyn FnOnce(&mut ServerConfig)>,
    /// Lengths of the objects to fetch.
    pub fetch: Vec<u64>,
}

impl PairSetup {
    /// Defaults over `link`.
    pub fn new(seed: u64, link: LinkConfig) -> Self {
        Self {
            seed,
            link,
            client: TransportConfig::default(),
            server: TransportConfig::default(),
            client_endpoint: EndpointConfig::default(),
            server_endpoint: EndpointConfig::default(),
            tune_client: Box::new(|_| {}),
            tune_server: Box::new(|_| {}),
            fetch: vec![1_000_000],
        }
    }

    /// The world with both hosts in it.
    pub fn build(self) -> Pair {
        let mut world = World::new(self.seed);
        let mut server_config = ServerConfig::new(Arc::new(tls::server(self.seed)));
        server_config.transport = Arc::new(self.server);
        (self.tune_server)(&mut server_config);
        let server_endpoint = Endpoint::new(
            Arc::new(self.server_endpoint),
            Some(Arc::new(server_config)),
            world.rng(1),
        );
        let mut client_config = ClientConfig::new(Arc::new(tls::client(self.seed.wrapping_add(1))));
        client_config.transport = Arc::new(self.client);
        (self.tune_client)(&mut client_config);
        let client_endpoint = Endpoint::new(Arc::new(self.client_endpoint), None, world.rng(2));
        let client_app = PatternClient::new(client_config, server_address(), &self.fetch);
        let client = QuicHost::new(client_endpoint, client_address(), client_app);
        let server = QuicHost::new(server_endpoint, server_address(), PatternServer::default());
        let client = world.add_host(client_address(), Box::new(client));
        let server = world.add_host(server_address(), Box::new(server));
        let link = world.connect(client, server, self.link);
        Pair {
            world,
            client,
            server,
            link,
        }
    }
}

/// A client and a server of ours over one simulated link.
pub struct Pair {
    /// The network.
    pub world: World,
    /// The client's host.
    pub client: HostId,
    /// The server's host.
    pub server: HostId,
    /// The link; forward is client to server.
    pub link: LinkId,
}

impl Pair {
    /// The client's host.
    pub fn client(&self) -> &QuicHost<PatternClient> {
        self.world.node(self.client)
    }

    /// The server's host.
    pub fn server(&self) -> &QuicHost<PatternServer> {
        self.world.node(self.server)
    }

    /// The client's host, to be changed.
    pub fn client_mut(&mut self) -> &mut QuicHost<PatternClient> {
        self.world.node_mut(self.client)
    }

    /// The server's host, to be changed.
    pub fn server_mut(&mut self) -> &mut QuicHost<PatternServer> {
        self.world.node_mut(self.server)
    }

    /// Runs until the client has everything, its connection ended, or `limit` passed.
    /// Returns when the last byte came.
    pub fn run(&mut self, limit: Duration) -> Option<Instant> {
        let client = self.client;
        let until = Instant::ZERO + limit;
        let _end: RunEnd = self.world.run_while(
            |world| {
                let app = world.node::<QuicHost<PatternClient>>(client).app();
                !app.is_done() && app.ended.is_none()
            },
            until,
        );
        self.client().app().finished_at()
    }
}
