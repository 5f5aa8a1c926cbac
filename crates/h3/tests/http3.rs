//! HTTP/3 between two endpoints on loopback, and against a peer that breaks the rules.

mod common;

use std::future::poll_fn;

use bytes::{Buf, Bytes};
use common::{echo, pair};
use h3::error::Code;
use tautline::{ConnectionError, Priority};
use tautline_h3::HttpDatagrams;

#[tokio::test]
async fn requests_and_bodies_travel_both_ways() {
    let (client, server, _endpoints) = pair().await;
    tokio::spawn(echo(server));
    let connection = tautline_h3::Connection::new(client);
    let (mut driver, mut http) = tautline_h3::client_builder()
        .build(connection)
        .await
        .unwrap();
    let driver = tokio::spawn(async move { driver.wait_idle().await });
    let body: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
    let request = http::Request::post("https://localhost/a").header("priority", "u=1, i");
    let stream = http.send_request(request.body(()).unwrap()).await.unwrap();
    let (mut send, mut recv) = stream.split();
    let sending = async {
        send.send_data(Bytes::from(body.clone())).await.unwrap();
        send.finish().await.unwrap();
    };
    let receiving = async {
        let response = recv.recv_response().await.unwrap();
        assert_eq!(response.headers()["path"], "/a");
        assert_eq!(response.headers()["place"], "u=1, i");
        let mut echoed = Vec::new();
        while let Some(mut data) = recv.recv_data().await.unwrap() {
            echoed.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        assert!(echoed == body);
    };
    tokio::join!(sending, receiving);
    drop(http);
    // The last sender of requests is gone: the connection ends well.
    assert!(driver.await.unwrap().is_h3_no_error());
}

#[tokio::test]
async fn frames_that_would_fill_memory_close_the_connection() {
    let (client, server, _endpoints) = pair().await;
    tokio::spawn(echo(server));
    let (mut send, _recv) = client.open_bi().await.unwrap();
    // HEADERS of 2^30 - 1 bytes, of which only some come.
    send.write_all(&[0x01, 0xbf, 0xff, 0xff, 0xff, 0, 0, 0])
        .await
        .unwrap();
    let ConnectionError::PeerApplication { code, .. } = client.closed().await else {
        panic!("closed by the application");
    };
    assert_eq!(Code::H3_EXCESSIVE_LOAD, code);
}

#[tokio::test]
async fn priority_updates_reach_the_streams() {
    let (client, server, _endpoints) = pair().await;
    let connection = tautline_h3::Connection::new(server);
    let priorities = connection.priorities();
    let mut control = client.open_uni().await.unwrap();
    // SETTINGS, then PRIORITY_UPDATE of stream 0 to `u=6`; the request itself says nothing.
    let update = [
        0x00, 0x04, 0x00, 0x80, 0x0f, 0x07, 0x00, 0x04, 0x00, b'u', b'=', b'6',
    ];
    control.write_all(&update).await.unwrap();
    let mut http = tautline_h3::server_builder()
        .build::<_, Bytes>(connection)
        .await
        .unwrap();
    let stream = h3::quic::StreamId::try_from(0).unwrap();
    let expected = Priority {
        urgency: 6,
        incremental: false,
    };
    let headers = http::HeaderMap::new();
    let seen = async {
        while priorities.apply(stream, &headers) != expected {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = seen => {}
        _ = http.accept() => panic!("there is no request"),
    }
}

#[tokio::test]
async fn requests_that_are_dropped_are_reset() {
    let (client, server, _endpoints) = pair().await;
    let connection = tautline_h3::Connection::new(client);
    let (mut driver, mut http) = tautline_h3::client_builder()
        .build::<_, _, Bytes>(connection)
        .await
        .unwrap();
    tokio::spawn(async move { driver.wait_idle().await });
    let request = http::Request::post("https://localhost/").body(()).unwrap();
    let stream = http.send_request(request).await.unwrap();
    let connection = tautline_h3::Connection::new(server);
    let mut served = tautline_h3::server_builder()
        .build::<_, Bytes>(connection)
        .await
        .unwrap();
    let resolver = served.accept().await.unwrap().unwrap();
    let (_, mut answer) = resolver.resolve_request().await.unwrap();
    drop(stream);
    let error = poll_fn(|cx| answer.poll_recv_data(cx).map(|data| data.map(|_| ()))).await;
    let h3::error::StreamError::RemoteTerminate { code, .. } = error.unwrap_err() else {
        panic!("a reset");
    };
    assert_eq!(code, Code::H3_REQUEST_CANCELLED);
}

#[tokio::test]
async fn datagrams_belong_to_streams() {
    let (client, server, _endpoints) = pair().await;
    let stream = h3::quic::StreamId::try_from(400).unwrap();
    let sender = HttpDatagrams::new(client);
    sender.send(stream, b"hello").unwrap();
    let (of, payload) = HttpDatagrams::new(server).receive().await.unwrap();
    assert_eq!((of, &payload[..]), (stream, &b"hello"[..]));
}
