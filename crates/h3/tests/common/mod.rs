//! Pairs of endpoints on loopback, and a server that answers.

#![allow(dead_code, reason = "each test program uses a part of this")]

use bytes::Buf;
use tautline::{Connection, Endpoint, tls};

/// Client and server ends of one connection, with the endpoints that drive them.
pub(crate) async fn pair() -> (Connection, Connection, [Endpoint; 2]) {
    let identity = tls::self_signed(["localhost"]).unwrap();
    let config = identity.server().alpn([tautline_h3::ALPN]).build().unwrap();
    let server = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let client = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let config = tls::ClientTls::pinned([identity.fingerprint]).alpn([tautline_h3::ALPN]);
    client.set_default_client_config(config.build().unwrap());
    let connecting = client.connect(server.local_addr(), "localhost").unwrap();
    let (accepted, connected) = tokio::join!(
        async { server.accept().await.unwrap().await.unwrap() },
        connecting
    );
    (connected.unwrap(), accepted, [client, server])
}

/// Answers every request with its own body, path and place.
pub(crate) async fn echo(quic: Connection) -> Result<(), h3::error::ConnectionError> {
    let connection = tautline_h3::Connection::new(quic);
    let priorities = connection.priorities();
    let mut http = tautline_h3::server_builder().build(connection).await?;
    while let Some(resolver) = http.accept().await? {
        let priorities = priorities.clone();
        tokio::spawn(async move {
            let Ok((request, mut stream)) = resolver.resolve_request().await else {
                return;
            };
            let place = priorities.apply(stream.send_id(), request.headers());
            let response = http::Response::builder()
                .header("path", request.uri().path())
                .header("place", tautline_h3::priority::format(place));
            let answer = async || {
                stream.send_response(response.body(()).unwrap()).await?;
                while let Some(mut data) = stream.recv_data().await? {
                    let bytes = data.copy_to_bytes(data.remaining());
                    stream.send_data(bytes).await?;
                }
                stream.finish().await
            };
            // What a client breaks off is told to the client.
            let _ = answer().await;
        });
    }
    Ok(())
}
