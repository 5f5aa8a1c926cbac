//! What every stack is put through: one download over one link for a stated time.

use std::{net::SocketAddr, time::Duration};

use tautline_sim::{LinkConfig, World};
use tautline_transport::time::Instant;

/// UDP payload of every full datagram; nobody probes for more.
pub const MTU: u16 = 1_452;
/// Initial congestion window in datagrams.
pub const INITIAL_WINDOW: u64 = 10;
/// Receive windows (stream and connection) and send buffer in bytes: never the limit here.
pub const WINDOW: u64 = 64 << 20;
/// Longer than any silence here.
pub const IDLE: Duration = Duration::from_secs(300);

/// Where the client is.
pub fn client_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 50_000))
}

/// Where the server is.
pub fn server_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 443))
}

/// One download.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Of link, stacks and TLS.
    pub seed: u64,
    /// The link; `backward` carries the data.
    pub link: LinkConfig,
    /// `newreno`, `cubic` or `bbr3`.
    pub congestion: &'static str,
    /// The clock starts at `connect`.
    pub duration: Duration,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Application bytes delivered in order, in bits per second of the whole duration.
    pub goodput: f64,
    /// Why the connection ended early, if it did.
    pub error: Option<String>,
}

/// A client node, as far as the runner asks.
pub trait Download: tautline_sim::Node {
    /// Bytes delivered in order.
    fn received(&self) -> u64;
    /// Why the connection ended.
    fn error(&self) -> Option<String>;
}

/// Runs two nodes of the same stack against each other.
pub fn run<C: Download>(scene: &Scene, client: C, server: impl tautline_sim::Node) -> Outcome {
    let mut world = World::new(scene.seed);
    let client = world.add_host(client_address(), Box::new(client));
    let server = world.add_host(server_address(), Box::new(server));
    world.connect(client, server, scene.link.clone());
    let end = Instant::ZERO + scene.duration;
    world.run_while(|world| world.node::<C>(client).error().is_none(), end);
    let client: &C = world.node(client);
    Outcome {
        goodput: client.received() as f64 * 8.0 / scene.duration.as_secs_f64(),
        error: client.error(),
    }
}
