//! Several sockets, threads and shards behind one port.

mod common;

use std::net::UdpSocket;

use common::{client_config, identity, loopback, pair_on, pattern, server_config, within};
use tautline::{Connection, Endpoint, TransportConfig, transport::config::PreferredAddresses};

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
        // All of them move, to one socket that the shards share.
        for (_, connected) in &held {
            connected.handshake_confirmed().await.unwrap();
        }
        client
            .rebind(UdpSocket::bind("127.0.0.1:0").unwrap())
            .unwrap();
        for (accepted, connected) in &held {
            transfer(connected, accepted, 50_000).await;
            transfer(accepted, connected, 50_000).await;
            assert_eq!(accepted.remote_address(), client.local_addr());
        }
    })
    .await;
}

/// A server of `shards` shards with two addresses moves its clients to the second one.
async fn preferred_address_is_taken(shards: usize) {
    let identity = identity();
    // The parameter names the port before the endpoint exists.
    let free = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let std::net::SocketAddr::V4(preferred) = free else {
        unreachable!()
    };
    let mut transport = TransportConfig::default();
    transport.preferred_address = Some(PreferredAddresses {
        v4: Some(preferred),
        v6: None,
    });
    let server = Endpoint::builder()
        .server(server_config(&identity, transport))
        .shards(shards)
        .also_bind(free)
        .bind(loopback())
        .unwrap();
    assert_eq!(server.other_addrs(), [free]);
    for _ in 0..3 {
        let client = Endpoint::client("[::]:0".parse().unwrap())
            .or_else(|_| Endpoint::client(loopback()))
            .unwrap();
        client.set_default_client_config(client_config(&identity, TransportConfig::default()));
        let (accepted, connected) = common::connect(&server, &client).await;
        connected.handshake_confirmed().await.unwrap();
        while connected.remote_address() != free {
            transfer(&connected, &accepted, 1_000).await;
        }
        transfer(&connected, &accepted, 100_000).await;
        transfer(&accepted, &connected, 1_000_000).await;
        assert_eq!(connected.remote_address(), free);
    }
    server.close(0, b"");
    server.wait_idle().await;
}

#[tokio::test]
async fn clients_move_to_the_preferred_address() {
    within(preferred_address_is_taken(1)).await;
}

#[tokio::test]
async fn shards_share_a_preferred_address() {
    within(preferred_address_is_taken(3)).await;
}

#[tokio::test]
async fn too_many_addresses_are_refused() {
    let builder = (0..17).fold(Endpoint::builder(), |builder, _| {
        builder.also_bind(loopback())
    });
    assert!(builder.bind(loopback()).is_err());
}
