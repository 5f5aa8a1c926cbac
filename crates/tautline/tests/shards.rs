//! Several sockets, threads and shards behind one port.

mod common;

use std::net::UdpSocket;

use common::{client_config, identity, loopback, pair_on, pattern, server_config, within};
use tautline::{Connection, Endpoint, TransportConfig};

async fn transfer(from: &Connection, to: &Connection, len: usize) {
    let data = pattern(len);
    let write = async {
        let mut send = from.open_uni().await.unwrap();
        send.write_all(&data).await.unwrap();
        send.finish().unwrap();
    };
    let read = async {
        let mut recv = to.accept_uni().await.unwrap();
        recv.read_to_end(len).await.unwrap()
    };
    let ((), all) = tokio::join!(write, read);
    assert_eq!(all, data);
}

#[tokio::test]
async fn a_driver_may_have_a_thread_of_its_own() {
    within(async {
        let builder = Endpoint::builder().own_threads(true);
        let pair = pair_on(
            builder,
            TransportConfig::default(),
            TransportConfig::default(),
        )
        .await;
        transfer(&pair.client, &pair.server, 1_000_000).await;
        transfer(&pair.server, &pair.client, 1_000_000).await;
        pair.client.close(0, b"");
        pair.server_endpoint.wait_idle().await;
    })
    .await;
}

async fn rebinding_clients_reach_their_shard(kernel_steering: bool) {
    let identity = identity();
    let server = Endpoint::builder()
        .server(server_config(&identity, TransportConfig::default()))
        .shards(4)
        .kernel_steering(kernel_steering)
        .bind(loopback())
        .unwrap();
    assert_eq!(server.shards(), 4);
    for _ in 0..4 {
        let client = Endpoint::client(loopback()).unwrap();
        client.set_default_client_config(client_config(&identity, TransportConfig::default()));
        let (accepted, connected) = common::connect(&server, &client).await;
        connected.handshake_confirmed().await.unwrap();
        transfer(&connected, &accepted, 10_000).await;
        for _ in 0..4 {
            client
                .rebind(UdpSocket::bind("127.0.0.1:0").unwrap())
                .unwrap();
            transfer(&connected, &accepted, 10_000).await;
            transfer(&accepted, &connected, 10_000).await;
            assert_eq!(accepted.remote_address(), client.local_addr());
        }
    }
    let stats = server.stats();
    assert_eq!(stats.handover_drops, 0);
    if cfg!(target_os = "linux") {
        // 16 new addresses: without steering, the kernel's hash misses the shard of most.
        assert_eq!(
            stats.handed_over_datagrams > 0,
            !kernel_steering,
            "{stats:?}"
        );
    }
    server.close(0, b"");
    server.wait_idle().await;
}

#[tokio::test]
async fn the_kernel_steers_rebound_clients_to_their_shard() {
    within(rebinding_clients_reach_their_shard(true)).await;
}

#[tokio::test]
async fn shards_hand_over_rebound_clients() {
    within(rebinding_clients_reach_their_shard(false)).await;
}

#[tokio::test]
async fn outgoing_connections_spread_over_shards() {
    within(async {
        let identity = identity();
        let config = server_config(&identity, TransportConfig::default());
        let server = Endpoint::server(config, loopback()).unwrap();
        let client = Endpoint::builder()
            .client(client_config(&identity, TransportConfig::default()))
            .shards(3)
            .bind(loopback())
            .unwrap();
        let mut held = Vec::new();
        for _ in 0..9 {
            held.push(common::connect(&server, &client).await);
        }
        for (accepted, connected) in &held {
            transfer(connected, accepted, 50_000).await;
        }
        assert_eq!(client.open_connections(), 9);
        let moved = client.rebind(UdpSocket::bind("127.0.0.1:0").unwrap());
        assert!(moved.is_err());
    })
    .await;
}
