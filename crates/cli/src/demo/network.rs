//! A client and a server with one link between them, or several.

use std::{net::SocketAddr, sync::Arc};

use tautline_sim::{
    HostId, LinkConfig, LinkId, World,
    quic::{App, QuicHost},
    tls,
};
use tautline_transport::{
    config::{ClientConfig, EndpointConfig, Profile, ServerConfig, TransportConfig},
    congestion,
    endpoint::Endpoint,
    fec::FecConfig,
    tls::{RustlsClient, RustlsServer},
    units::FourTuple,
};

use super::apps::FileServer;
use crate::failure::{Failure, Outcome};

const ALPN: &[u8] = b"tautline-demo";

/// The simulated world and who is where in it.
pub(super) struct Network {
    pub(super) world: World,
    pub(super) client: HostId,
    pub(super) server: HostId,
    /// One for each of the client's addresses. `Backward` is from server to client.
    pub(super) links: Vec<LinkId>,
}

/// How both ends behave, but for the controller and the redundancy scheduler.
pub(super) fn transport() -> TransportConfig {
    Profile::Bulk.config()
}

/// [`transport`] with a controller and, if there is one, a redundancy scheduler; erasure correction
/// is not negotiated without.
pub(super) fn transport_with(controller: &str, fec: Option<&str>) -> Outcome<TransportConfig> {
    let mut config = transport();
    if let Some(factory) = congestion::registry::by_name(controller) {
        config.congestion = factory;
    }
    if let Some(scheduler) = fec {
        config.fec = FecConfig::with(scheduler).map_err(|error| Failure::new(error.to_string()))?;
    }
    Ok(config)
}

/// A way to the server over each link.
pub(super) fn ways(links: usize) -> Vec<FourTuple> {
    (0..links)
        .map(|link| FourTuple {
            local: client_address(link),
            remote: server_address(),
        })
        .collect()
}

/// Puts the programs on their hosts, with a link for each address of the client; `client` is made from
/// what it needs to connect.
pub(super) fn build<C: App>(
    seed: u64,
    links: &[LinkConfig],
    transport: TransportConfig,
    client: impl FnOnce(ClientConfig, SocketAddr) -> C,
    server: FileServer,
) -> Outcome<Network> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("TLS set-up: {error}"));
    let transport = Arc::new(transport);
    let mut world = World::new(seed);

    let mut server_tls = tls::server_config(seed);
    server_tls.alpn_protocols = vec![ALPN.to_vec()];
    let server_tls = RustlsServer::new(server_tls).map_err(|error| failed(&error))?;
    let mut server_config = ServerConfig::new(Arc::new(server_tls));
    server_config.transport = Arc::clone(&transport);
    let endpoint = Arc::new(EndpointConfig::default());
    let server_endpoint = Endpoint::new(
        Arc::clone(&endpoint),
        Some(Arc::new(server_config)),
        world.rng(1),
    );

    let mut client_tls = tls::client_config(seed.wrapping_add(1));
    client_tls.alpn_protocols = vec![ALPN.to_vec()];
    let client_tls = RustlsClient::new(client_tls).map_err(|error| failed(&error))?;
    let mut client_config = ClientConfig::new(Arc::new(client_tls));
    client_config.transport = transport;
    let client_endpoint = Endpoint::new(endpoint, None, world.rng(2));

    let client = client(client_config, server_address());
    let addresses: Vec<SocketAddr> = (0..links.len().max(1)).map(client_address).collect();
    let client = QuicHost::new(client_endpoint, client_address(0), client);
    let server = QuicHost::new(server_endpoint, server_address(), server);
    let client = world.add_host(addresses.clone(), Box::new(client));
    let server = world.add_host(server_address(), Box::new(server));
    let links = links.iter().zip(&addresses).map(|(link, near)| {
        let near = (client, Some(near.ip()));
        let connected = world.try_connect(near, (server, None), link.clone());
        connected.map_err(|error| Failure::new(format!("the simulated network: {error}")))
    });
    let links = links.collect::<Outcome<_>>()?;
    Ok(Network {
        world,
        client,
        server,
        links,
    })
}

fn server_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 443))
}

fn client_address(link: usize) -> SocketAddr {
    // There are two links at most.
    let net = u8::try_from(link).unwrap_or(u8::MAX);
    SocketAddr::from(([10, 0, net, 1], 50_000))
}
