//! As `bench-ours`, counting the heap, with every setting at its default.

use std::net::SocketAddr;

use anyhow::Result;
use bench_kit::{
    ALPN, Stack,
    heap::Counting,
    identity::{Identity, NAME},
};
use bench_ours::{Ours, Peer};
use tautline::{
    Endpoint,
    tls::{ClientTls, ServerTls},
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Tautline as it comes: tickets and all.
struct Defaults;

impl Stack for Defaults {
    const THREADS: usize = Ours::THREADS;
    type Server = Endpoint;
    type Client = Endpoint;
    type Connection = Peer;

    fn server(identity: &Identity) -> Result<(Endpoint, SocketAddr)> {
        let (chain, key) = identity.chain()?;
        let config = ServerTls::new(chain, key).alpn([ALPN]).build()?;
        let endpoint = Endpoint::server(config, bench_ours::loopback())?;
        let address = endpoint.local_addr();
        Ok((endpoint, address))
    }

    async fn serve(server: Endpoint) {
        Ours::serve(server).await;
    }

    fn client(identity: &Identity) -> Result<Endpoint> {
        let config = ClientTls::with_roots(identity.roots()?)
            .alpn([ALPN])
            .build()?;
        let endpoint = Endpoint::client(bench_ours::loopback())?;
        endpoint.set_default_client_config(config);
        Ok(endpoint)
    }

    async fn connect(client: &Endpoint, server: SocketAddr) -> Result<Peer> {
        Ok(Peer(client.connect(server, NAME)?.await?))
    }
}

fn main() {
    bench_kit::main::<Defaults>()
}
