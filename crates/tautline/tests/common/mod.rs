//! Pairs of endpoints on the loopback interface.

#![allow(dead_code, reason = "each test program uses a part of this")]

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use tautline::{
    ClientConfig, Connection, Endpoint, EndpointBuilder, ServerConfig, TransportConfig,
    tls::{self, ClientTls, SelfSigned},
};

pub(crate) const ALPN: &str = "test";

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

pub(crate) fn identity() -> SelfSigned {
    tls::self_signed(["localhost"]).unwrap()
}

pub(crate) fn server_config(identity: &SelfSigned, transport: TransportConfig) -> ServerConfig {
    let mut config = identity.server().alpn([ALPN]).build().unwrap();
    config.transport = Arc::new(transport);
    config
}

pub(crate) fn client_config(identity: &SelfSigned, transport: TransportConfig) -> ClientConfig {
    let mut config = ClientTls::pinned([identity.fingerprint])
        .alpn([ALPN])
        .build()
        .unwrap();
    config.transport = Arc::new(transport);
    config
}

/// What two connected ends need to stay alive.
pub(crate) struct Pair {
    pub(crate) server_endpoint: Endpoint,
    pub(crate) client_endpoint: Endpoint,
    pub(crate) server: Connection,
    pub(crate) client: Connection,
}

pub(crate) async fn pair() -> Pair {
    pair_with(TransportConfig::default(), TransportConfig::default()).await
}

pub(crate) async fn pair_with(server: TransportConfig, client: TransportConfig) -> Pair {
    pair_on(Endpoint::builder(), server, client).await
}

/// `builder` makes the server's endpoint.
pub(crate) async fn pair_on(
    builder: EndpointBuilder,
    server: TransportConfig,
    client: TransportConfig,
) -> Pair {
    let identity = identity();
    let server_endpoint = builder
        .server(server_config(&identity, server))
        .bind(loopback())
        .unwrap();
    let client_endpoint = Endpoint::client(loopback()).unwrap();
    client_endpoint.set_default_client_config(client_config(&identity, client));
    let (server, client) = connect(&server_endpoint, &client_endpoint).await;
    Pair {
        server_endpoint,
        client_endpoint,
        server,
        client,
    }
}

/// One more connection between two endpoints: (server's, client's).
pub(crate) async fn connect(server: &Endpoint, client: &Endpoint) -> (Connection, Connection) {
    let accept = async { server.accept().await.unwrap().await.unwrap() };
    let connecting = client.connect(server.local_addr(), "localhost").unwrap();
    let connect = async { connecting.await.unwrap() };
    tokio::join!(accept, connect)
}

/// Fails a test that hangs. Never decides what passes.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), future)
        .await
        .expect("the test hangs")
}

/// Bytes that differ by position.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}
