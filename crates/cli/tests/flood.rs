//! `tautline serve` among clients that never answer.

mod common;

use std::{
    net::{SocketAddr, UdpSocket},
    sync::Arc,
};

use common::{Server, put, read, succeed};
use tautline_transport::{
    config::ClientConfig, endpoint::Endpoint, rng::Rng, time::Instant, tls::RustlsClient,
    units::FourTuple,
};

/// The first datagram of a client.
fn first_initial(to: SocketAddr, seed: u64) -> Vec<u8> {
    let mut tls = tautline_sim::tls::client_config(seed);
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = RustlsClient::new(tls).unwrap();
    let mut endpoint = Endpoint::new(Arc::default(), None, Rng::from_u64(seed));
    let four_tuple = FourTuple {
        local: "127.0.0.1:9".parse().unwrap(),
        remote: to,
    };
    let config = ClientConfig::new(Arc::new(tls));
    let (_, mut connection) = endpoint
        .connect(Instant::ZERO, config, four_tuple, "localhost")
        .unwrap();
    let mut datagram = vec![0; 1_500];
    let transmit = connection
        .poll_transmit(Instant::ZERO, &mut datagram, 1)
        .unwrap();
    datagram.truncate(transmit.len);
    datagram
}

/// Many more than it takes connections, as forged ones would do; then one that means it.
#[test]
fn clients_that_never_answer_take_nobodys_place() {
    let (www, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(www.path(), "file", b"here\n");
    let server = Server::serve(www.path(), &["--max-connections", "8"]);
    let to = SocketAddr::from(([127, 0, 0, 1], server.port));
    let sockets: Vec<UdpSocket> = (0..64)
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    for (seed, socket) in (0..).zip(&sockets) {
        socket.send_to(&first_initial(to, seed), to).unwrap();
    }
    for _ in 0..3 {
        succeed(server.get(got.path()).arg(server.url("/file")));
        assert_eq!(read(got.path(), "file"), b"here\n");
    }
}
