//! Our stack.

use std::sync::Arc;

use tautline_sim::{Datagram, Node, World, quic::QuicHost};
use tautline_testkit::{
    apps::{PatternClient, PatternServer},
    tls,
};
use tautline_transport::{
    config::{
        ClientConfig, EndpointConfig, MtuConfig, ServerConfig, TransportConfig, WindowConfig,
    },
    congestion::registry,
    endpoint::Endpoint,
    time::Instant,
};

use crate::scene::{self, Download, INITIAL_WINDOW, MTU, Outcome, Scene, WINDOW};

/// More than any scene moves.
const ENDLESS: u64 = 1 << 40;

/// Runs `scene`.
pub fn run(scene: &Scene) -> Outcome {
    let mut transport = TransportConfig::default();
    transport.congestion = registry::by_name(scene.congestion).expect("a known controller");
    transport.mtu = MtuConfig {
        initial: MTU,
        upper_bound: MTU,
        discovery: false,
        ..MtuConfig::default()
    };
    transport.initial_window_packets = INITIAL_WINDOW as u32;
    transport.stream_receive_window = WindowConfig::fixed(WINDOW);
    transport.connection_receive_window = WindowConfig::fixed(WINDOW);
    transport.send_buffer_bytes = WINDOW;
    transport.max_idle_timeout = Some(scene::IDLE);
    let transport = Arc::new(transport);
    // Only for its generators, which follow from the seed.
    let world = World::new(scene.seed);
    let mut config = ServerConfig::new(Arc::new(tls::server(scene.seed)));
    config.transport = Arc::clone(&transport);
    let endpoint = |server, label| {
        Endpoint::new(
            Arc::new(EndpointConfig::default()),
            server,
            world.rng(label),
        )
    };
    let server = QuicHost::new(
        endpoint(Some(Arc::new(config)), 1),
        scene::server_address(),
        PatternServer::default(),
    );
    let mut config = ClientConfig::new(Arc::new(tls::client(scene.seed.wrapping_add(1))));
    config.transport = transport;
    let app = PatternClient::new(config, scene::server_address(), &[ENDLESS]);
    let client = Client(QuicHost::new(
        endpoint(None, 2),
        scene::client_address(),
        app,
    ));
    scene::run(scene, client, server)
}

struct Client(QuicHost<PatternClient>);

impl Download for Client {
    fn received(&self) -> u64 {
        self.0
            .app()
            .fetches
            .iter()
            .map(|fetch| fetch.received)
            .sum()
    }

    fn error(&self) -> Option<String> {
        self.0.app().ended.as_ref().map(ToString::to_string)
    }
}

impl Node for Client {
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram) {
        self.0.handle_datagram(now, datagram);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        self.0.poll_transmit(now)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}
