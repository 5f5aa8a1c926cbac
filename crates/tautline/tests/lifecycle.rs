//! Handshakes, resumption, moving, closing.

mod common;

use std::{net::UdpSocket, sync::Arc};

use common::{ALPN, client_config, connect, identity, loopback, pair, server_config, within};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tautline::{
    Bytes, ConnectError, ConnectHostError, ConnectionError, Endpoint, HandshakeError,
    TransportConfig,
    tls::{ClientTls, ServerTls},
};

fn endpoints() -> (Endpoint, Endpoint, tautline::tls::SelfSigned) {
    let identity = identity();
    let server = Endpoint::server(
        server_config(&identity, TransportConfig::default()),
        loopback(),
    )
    .unwrap();
    let client = Endpoint::client(loopback()).unwrap();
    client.set_default_client_config(client_config(&identity, TransportConfig::default()));
    (server, client, identity)
}

// ---- errors ----

#[tokio::test]
async fn connecting_without_sense_says_what_to_do() {
    let endpoint = Endpoint::client(loopback()).unwrap();
    let to = "127.0.0.1:9".parse().unwrap();
    assert_eq!(
        endpoint.connect(to, "localhost").unwrap_err(),
        ConnectError::NoClientConfig
    );
    let (_, endpoint, _) = endpoints();
    let bad_name = endpoint.connect(to, "not a name").unwrap_err();
    assert_eq!(
        bad_name,
        ConnectError::InvalidServerName("not a name".into())
    );
    let v6 = endpoint
        .connect("[::1]:9".parse().unwrap(), "localhost")
        .unwrap_err();
    assert!(matches!(v6, ConnectError::UnreachableFamily { .. }));
    endpoint.close(0, b"");
    assert_eq!(
        endpoint.connect(to, "localhost").unwrap_err(),
        ConnectError::EndpointClosed
    );
}

#[test]
fn outside_of_a_runtime_there_is_an_error() {
    assert!(matches!(
        Endpoint::client(loopback()),
        Err(tautline::BindError::NoRuntime)
    ));
}

#[tokio::test]
async fn a_wrong_protocol_is_named() {
    within(async {
        let (server, client, identity) = endpoints();
        let config = ClientTls::pinned([identity.fingerprint])
            .alpn(["other"])
            .build()
            .unwrap();
        let connecting = client
            .connect_with(config, server.local_addr(), "localhost")
            .unwrap();
        let accept = async { server.accept().await.unwrap().await };
        let (client, server) = tokio::join!(connecting, accept);
        assert!(
            matches!(client, Err(HandshakeError::NoCommonProtocol { .. })),
            "{client:?}"
        );
        assert!(
            matches!(server, Err(HandshakeError::NoCommonProtocol { .. })),
            "{server:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_wrong_certificate_is_named() {
    within(async {
        let (server, client, _) = endpoints();
        let stranger = identity();
        let strict = [
            ClientTls::pinned([stranger.fingerprint]),
            ClientTls::with_roots(stranger.roots().unwrap()),
        ];
        for tls in strict {
            let config = tls.alpn([ALPN]).build().unwrap();
            let connecting = client
                .connect_with(config, server.local_addr(), "localhost")
                .unwrap();
            let accept = async { server.accept().await.unwrap().await };
            let (client, server) = tokio::join!(connecting, accept);
            assert!(
                matches!(client, Err(HandshakeError::BadCertificate { .. })),
                "{client:?}"
            );
            assert!(server.is_err());
        }
    })
    .await;
}

/// A certificate that may issue others, shown as a server's own: what `openssl req -x509` makes.
#[tokio::test]
async fn a_certificate_that_was_handed_out_is_trusted_under_its_names() {
    within(async {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let tls = ServerTls::new(vec![certificate.clone()], private).alpn([ALPN]);
        let server = Endpoint::server(tls.build().unwrap(), loopback()).unwrap();
        let client = Endpoint::client(loopback()).unwrap();
        let attempt = async |trusted: &CertificateDer<'static>, name: &'static str| {
            let tls = ClientTls::with_certificates([trusted.clone()]).unwrap();
            let config = tls.alpn([ALPN]).build().unwrap();
            let connecting = client.connect_with(config, server.local_addr(), name);
            let accept = async { server.accept().await.unwrap().await };
            tokio::join!(connecting.unwrap(), accept).0
        };
        attempt(&certificate, "localhost").await.unwrap();
        let said = attempt(&certificate, "elsewhere").await.unwrap_err();
        assert!(said.to_string().contains("is for another name"), "{said}");
        let stranger = identity().certificate;
        let said = attempt(&stranger, "localhost").await.unwrap_err();
        assert!(
            said.to_string()
                .contains("certificate not accepted: the certificate"),
            "{said}"
        );
    })
    .await;
}

#[tokio::test]
async fn roots_and_carelessness_accept_a_certificate() {
    within(async {
        let (server, client, identity) = endpoints();
        let trusting = [
            ClientTls::with_roots(identity.roots().unwrap()),
            ClientTls::danger_accept_any_certificate(),
        ];
        for tls in trusting {
            client.set_default_client_config(tls.alpn([ALPN]).build().unwrap());
            connect(&server, &client).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_without_certificate_is_turned_away() {
    within(async {
        let (identity, ours) = (identity(), identity());
        let config = identity
            .server()
            .alpn([ALPN])
            .require_clients(ours.roots().unwrap());
        let server = Endpoint::server(config.build().unwrap(), loopback()).unwrap();
        let client = Endpoint::client(loopback()).unwrap();
        let tls = || ClientTls::pinned([identity.fingerprint]).alpn([ALPN]);
        client.set_default_client_config(tls().build().unwrap());
        let accept = async { server.accept().await.unwrap().await };
        let connect = client.connect(server.local_addr(), "localhost").unwrap();
        let (accepted, connected) = tokio::join!(accept, connect);
        assert!(
            matches!(accepted, Err(HandshakeError::BadCertificate { .. })),
            "{accepted:?}"
        );
        // In TLS 1.3 the client is done before the server looks at its certificate.
        if let Ok(connected) = connected {
            assert!(matches!(
                connected.closed().await,
                ConnectionError::PeerTransport(_)
            ));
        }
        let chain = vec![ours.certificate.clone()];
        let with_identity = tls().identity(chain, ours.key.clone_key());
        client.set_default_client_config(with_identity.build().unwrap());
        let (server, _client) = common::connect(&server, &client).await;
        assert_eq!(server.peer_identity(), Some(vec![ours.certificate.clone()]));
    })
    .await;
}

#[tokio::test]
async fn a_refused_port_is_an_error_before_the_timeout() {
    within(async {
        let (_, client, _) = endpoints();
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = nobody.local_addr().unwrap();
        drop(nobody);
        let outcome = client.connect(address, "localhost").unwrap().await;
        if cfg!(target_os = "linux") {
            assert!(
                matches!(outcome, Err(HandshakeError::Unreachable { .. })),
                "{outcome:?}"
            );
        } else {
            assert!(outcome.is_err());
        }
    })
    .await;
}

#[tokio::test]
async fn silence_is_a_timeout() {
    within(async {
        let (_, client, identity) = endpoints();
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut transport = TransportConfig::default();
        transport.handshake_timeout = std::time::Duration::from_millis(200);
        let config = client_config(&identity, transport);
        let address = silent.local_addr().unwrap();
        let outcome = client
            .connect_with(config, address, "localhost")
            .unwrap()
            .await;
        assert!(
            matches!(outcome, Err(HandshakeError::TimedOut { .. })),
            "{outcome:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn clients_can_be_refused_ignored_and_asked_to_retry() {
    within(async {
        let (server, client, _) = endpoints();
        let address = server.local_addr();
        let connecting = client.connect(address, "localhost").unwrap();
        let incoming = server.accept().await.unwrap();
        assert_eq!(incoming.remote_address(), client.local_addr());
        assert!(!incoming.remote_address_validated());
        incoming.refuse();
        let outcome = connecting.await;
        assert!(
            matches!(outcome, Err(HandshakeError::Refused { .. })),
            "{outcome:?}"
        );

        let connecting = client.connect(address, "localhost").unwrap();
        server.accept().await.unwrap().ignore();
        // The client tries again: another chance.
        let accept = async {
            server.accept().await.unwrap().retry().unwrap();
            let validated = server.accept().await.unwrap();
            assert!(validated.remote_address_validated());
            let validated = validated.retry().unwrap_err().into_incoming();
            validated.await.unwrap()
        };
        let (connected, _accepted) = tokio::join!(connecting, accept);
        connected.unwrap();
    })
    .await;
}

// ---- names ----

#[tokio::test]
async fn a_host_is_reached_by_name() {
    within(async {
        let (server, client, _) = endpoints();
        let accept = async { server.accept().await.unwrap().await.unwrap() };
        let port = server.local_addr().port();
        let (connected, _accepted) = tokio::join!(client.connect_host("localhost", port), accept);
        assert_eq!(connected.unwrap().remote_address(), server.local_addr());
        let unknown = client.connect_host("no-such-host.invalid", 1).await;
        assert!(
            matches!(unknown, Err(ConnectHostError::Resolve { .. })),
            "{unknown:?}"
        );
        let unreachable = client.connect_host("::1", 1).await;
        assert!(
            matches!(unreachable, Err(ConnectHostError::NoAddress { .. })),
            "{unreachable:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_dead_address_does_not_keep_from_the_live_one() {
    within(async {
        // `localhost` has an IPv6 and an IPv4 address here; the server listens to IPv4 only.
        let Ok(client) = Endpoint::client("[::]:0".parse().unwrap()) else {
            return;
        };
        let (server, _, identity) = endpoints();
        client.set_default_client_config(client_config(&identity, TransportConfig::default()));
        let accept = async { server.accept().await.unwrap().await.unwrap() };
        let port = server.local_addr().port();
        let (connected, _accepted) = tokio::join!(client.connect_host("localhost", port), accept);
        assert_eq!(connected.unwrap().remote_address(), server.local_addr());
    })
    .await;
}

// ---- early data ----

#[tokio::test]
async fn early_data_is_accepted_by_a_server_that_knows_us() {
    within(async {
        let (server, client, _) = endpoints();
        let address = server.local_addr();
        let fresh = client
            .connect(address, "localhost")
            .unwrap()
            .into_0rtt()
            .unwrap_err();
        let accept = async { server.accept().await.unwrap().await.unwrap() };
        let (first, _accepted) = tokio::join!(fresh, accept);
        let first = first.unwrap();
        first.handshake_confirmed().await.unwrap();
        wait_for_ticket(&first, &_accepted).await;

        let connecting = client.connect(address, "localhost").unwrap();
        let (early, accepted) = connecting.into_0rtt().expect("there is a ticket");
        let mut send = early.open_uni().await.unwrap();
        send.write_all(b"early").await.unwrap();
        send.finish().unwrap();
        let serve = async {
            let connecting = server.accept().await.unwrap().accept().unwrap();
            // 0.5-RTT: the server does not wait for the handshake either.
            let (connection, _) = connecting.into_0rtt().unwrap();
            let mut recv = connection.accept_uni().await.unwrap();
            let request = recv.read_to_end(100).await.unwrap();
            let mut answer = connection.open_uni().await.unwrap();
            answer.write_all(b"at once").await.unwrap();
            answer.finish().unwrap();
            (connection, request)
        };
        let ((served, request), was_accepted) = tokio::join!(serve, accepted);
        assert_eq!(request, b"early");
        assert!(was_accepted);
        assert!(early.is_resumed());
        let mut answer = early.accept_uni().await.unwrap();
        assert_eq!(answer.read_to_end(100).await.unwrap(), b"at once");
        served.handshake_complete().await.unwrap();
    })
    .await;
}

/// A server sends its tickets right after the handshake; a round trip later they are here.
async fn wait_for_ticket(client: &tautline::Connection, server: &tautline::Connection) {
    let mut send = client.open_uni().await.unwrap();
    send.finish().unwrap();
    server
        .accept_uni()
        .await
        .unwrap()
        .read_to_end(0)
        .await
        .unwrap();
    let mut send = server.open_uni().await.unwrap();
    send.finish().unwrap();
    client
        .accept_uni()
        .await
        .unwrap()
        .read_to_end(0)
        .await
        .unwrap();
}

#[tokio::test]
async fn rejected_early_data_arrives_all_the_same() {
    within(async {
        let identity = identity();
        let config = || server_config(&identity, TransportConfig::default());
        let first_server = Endpoint::server(config(), loopback()).unwrap();
        let client = Endpoint::client(loopback()).unwrap();
        client.set_default_client_config(client_config(&identity, TransportConfig::default()));
        let (accepted, connected) = connect(&first_server, &client).await;
        wait_for_ticket(&connected, &accepted).await;

        // Another process with the same name and certificate that knows nothing of the ticket.
        let other_server = Endpoint::server(config(), loopback()).unwrap();
        let connecting = client
            .connect(other_server.local_addr(), "localhost")
            .unwrap();
        let (early, accepted) = connecting.into_0rtt().expect("there is a ticket");
        let mut streams = Vec::new();
        for index in 0..10_u8 {
            let mut send = early.open_uni().await.unwrap();
            send.write_all(&vec![index; 1_000]).await.unwrap();
            streams.push(send);
        }
        let serve = async {
            let connection = other_server.accept().await.unwrap().await.unwrap();
            let mut received = Vec::new();
            for _ in 0..10 {
                let mut recv = connection.accept_uni().await.unwrap();
                received.push(recv.read_to_end(10_000).await.unwrap());
            }
            (connection, received)
        };
        let after = async {
            assert!(!accepted.await);
            // Streams opened early stay usable.
            for (index, mut send) in streams.into_iter().enumerate() {
                send.write_all(&[index as u8; 500]).await.unwrap();
                send.finish().unwrap();
            }
        };
        let ((_served, mut received), ()) = tokio::join!(serve, after);
        received.sort();
        let expected: Vec<_> = (0..10_u8).map(|index| vec![index; 1_500]).collect();
        assert_eq!(received, expected);
    })
    .await;
}

// ---- moving ----

#[tokio::test]
async fn a_rebound_client_goes_on() {
    within(async {
        let pair = pair().await;
        pair.client.handshake_confirmed().await.unwrap();
        let data = common::pattern(2_000_000);
        let mut send = pair.client.open_uni().await.unwrap();
        let old = pair.client_endpoint.local_addr();
        let write = async {
            let (before, after) = data.split_at(data.len() / 2);
            send.write_all(before).await.unwrap();
            pair.client_endpoint
                .rebind(UdpSocket::bind("127.0.0.1:0").unwrap())
                .unwrap();
            send.write_all(after).await.unwrap();
            send.finish().unwrap();
        };
        let read = async {
            let mut recv = pair.server.accept_uni().await.unwrap();
            recv.read_to_end(data.len()).await.unwrap()
        };
        let ((), all) = tokio::join!(write, read);
        assert_eq!(all, data);
        assert_ne!(pair.client_endpoint.local_addr(), old);
        assert_eq!(
            pair.server.remote_address(),
            pair.client_endpoint.local_addr()
        );
    })
    .await;
}

// ---- closing ----

#[tokio::test]
async fn closing_tells_the_peer_why() {
    within(async {
        let pair = pair().await;
        let waiting = pair.server.accept_bi();
        pair.client.close(42, b"enough");
        let reason = ConnectionError::PeerApplication {
            code: 42,
            reason: Bytes::from_static(b"enough"),
        };
        assert_eq!(waiting.await.unwrap_err(), reason);
        assert_eq!(pair.server.closed().await, reason);
        assert_eq!(
            pair.client.close_reason(),
            Some(ConnectionError::LocallyClosed)
        );
        assert!(pair.client.open_bi().await.is_err());
        assert!(pair.client.send_datagram(Bytes::new()).is_err());
        pair.client_endpoint.wait_idle().await;
        pair.server_endpoint.wait_idle().await;
    })
    .await;
}

#[tokio::test]
async fn a_server_that_stops_accepting_lets_its_clients_finish() {
    within(async {
        let pair = pair().await;
        pair.server_endpoint.stop_accepting();
        assert!(pair.server_endpoint.accept().await.is_none());
        let late = pair
            .client_endpoint
            .connect(pair.server_endpoint.local_addr(), "localhost");
        let late = late.unwrap().await;
        assert!(
            matches!(late, Err(HandshakeError::Refused { .. })),
            "{late:?}"
        );
        // The one that was there is not disturbed.
        let mut send = pair.client.open_uni().await.unwrap();
        send.write_all(b"let me finish").await.unwrap();
        send.finish().unwrap();
        let mut recv = pair.server.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"let me finish");
        assert_eq!(send.stopped().await, Ok(None));
        pair.client.close(0, b"thanks");
        pair.server_endpoint.wait_idle().await;
        assert_eq!(pair.server_endpoint.open_connections(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_closed_endpoint_ends_everything_and_drains() {
    within(async {
        let pair = pair().await;
        let more: Vec<_> = {
            let mut more = Vec::new();
            for _ in 0..5 {
                more.push(connect(&pair.server_endpoint, &pair.client_endpoint).await);
            }
            more
        };
        pair.server_endpoint.close(5, b"bye");
        let reason = ConnectionError::PeerApplication {
            code: 5,
            reason: Bytes::from_static(b"bye"),
        };
        assert_eq!(pair.client.closed().await, reason);
        for (server, client) in &more {
            assert_eq!(client.closed().await, reason);
            assert_eq!(server.close_reason(), Some(ConnectionError::LocallyClosed));
        }
        pair.server_endpoint.wait_idle().await;
        pair.client_endpoint.wait_idle().await;
        assert!(pair.server_endpoint.accept().await.is_none());
    })
    .await;
}

#[tokio::test]
async fn address_validation_tokens_are_kept_for_the_next_time() {
    within(async {
        let (server, client, _) = endpoints();
        let (accepted, connected) = connect(&server, &client).await;
        connected.handshake_confirmed().await.unwrap();
        wait_for_ticket(&connected, &accepted).await;
        let connecting = client.connect(server.local_addr(), "localhost").unwrap();
        let incoming = server.accept().await.unwrap();
        assert!(incoming.remote_address_validated());
        let (a, b) = tokio::join!(incoming.into_future(), connecting);
        a.unwrap();
        b.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_connection_may_be_configured_when_accepted() {
    within(async {
        let (server, client, identity) = endpoints();
        let mut transport = TransportConfig::default();
        transport.max_concurrent_bidi_streams = 0;
        let config = Arc::new(server_config(&identity, transport));
        let connecting = client.connect(server.local_addr(), "localhost").unwrap();
        let accept = async {
            server
                .accept()
                .await
                .unwrap()
                .accept_with(config)
                .unwrap()
                .await
        };
        let (connected, accepted) = tokio::join!(connecting, accept);
        let (connected, _accepted) = (connected.unwrap(), accepted.unwrap());
        connected.open_uni().await.unwrap();
    })
    .await;
}
