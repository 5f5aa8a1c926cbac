//! A second path in the place of the first: shows that per-path state really is per path.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};

use crate::{
    config::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig},
    connection::{Connection, Event},
    endpoint::{ConnectionHandle, DatagramEvent, DatagramMeta, Endpoint},
    error::ConnectionError,
    multipath::{MultipathConfig, abandon::NO_ERROR},
    rng::Rng,
    stream::ReadOutcome,
    time::Instant,
    tls::{RustlsClient, RustlsServer},
    units::{Dir, FourTuple, PathId, StreamId},
};

const SECOND: PathId = PathId(1);
const DELAY: Duration = Duration::from_millis(20);

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], port))
}

struct InFlight {
    at: Instant,
    to_server: bool,
    four_tuple: FourTuple,
    data: Vec<u8>,
}

/// Two endpoints with one connection between them, and a wire of constant delay.
pub(crate) struct Wire {
    pub(crate) now: Instant,
    client_endpoint: Endpoint,
    server_endpoint: Endpoint,
    pub(crate) client: Connection,
    client_handle: ConnectionHandle,
    server: Option<(ConnectionHandle, Connection)>,
    wire: VecDeque<InFlight>,
    /// Datagrams from the server on path 1's addresses, and which of them to drop.
    second_path_datagrams: usize,
    drop_second: fn(usize) -> bool,
}

impl Wire {
    fn new(config: TransportConfig) -> Self {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params =
            rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        let cert = params.self_signed(&key).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(
                vec![cert.der().clone()],
                rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .expect("a server");
        tls.alpn_protocols = vec![b"test".to_vec()];
        let mut roots = rustls::RootCertStore::empty();
        roots.add(cert.der().clone()).expect("a root");
        let mut client_tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        client_tls.alpn_protocols = vec![b"test".to_vec()];

        let transport = Arc::new(config);
        let mut server_config =
            ServerConfig::new(Arc::new(RustlsServer::new(tls).expect("a server")));
        server_config.transport = Arc::clone(&transport);
        let mut client_config =
            ClientConfig::new(Arc::new(RustlsClient::new(client_tls).expect("a client")));
        client_config.transport = transport;
        let endpoint = Arc::new(EndpointConfig::default());
        let server_config = Some(Arc::new(server_config));
        let server_endpoint = Endpoint::new(Arc::clone(&endpoint), server_config, Rng::from_u64(1));
        let mut client_endpoint = Endpoint::new(endpoint, None, Rng::from_u64(2));
        let four_tuple = FourTuple {
            local: address(1, 1000),
            remote: address(2, 443),
        };
        let (client_handle, client) = client_endpoint
            .connect(Instant::ZERO, client_config, four_tuple, "localhost")
            .expect("a connection");
        Self {
            now: Instant::ZERO,
            client_endpoint,
            server_endpoint,
            client,
            client_handle,
            server: None,
            wire: VecDeque::new(),
            second_path_datagrams: 0,
            drop_second: |_| false,
        }
    }

    pub(crate) fn server(&mut self) -> &mut Connection {
        &mut self.server.as_mut().expect("an accepted connection").1
    }

    fn collect(&mut self) {
        let mut buf = vec![0; 65_535];
        loop {
            while let Some(event) = self.client.poll_endpoint_event() {
                let handle = self.client_handle;
                if let Some(answer) = self.client_endpoint.handle_connection_event(handle, event) {
                    self.client.handle_endpoint_event(answer);
                }
            }
            if let Some((handle, server)) = &mut self.server {
                while let Some(event) = server.poll_endpoint_event() {
                    let answer = self.server_endpoint.handle_connection_event(*handle, event);
                    if let Some(answer) = answer {
                        server.handle_endpoint_event(answer);
                    }
                }
            }
            let from_client = self.client.poll_transmit(self.now, &mut buf, 10);
            let to_server = from_client.is_some();
            let transmit = from_client.or_else(|| {
                let (_, server) = self.server.as_mut()?;
                server.poll_transmit(self.now, &mut buf, 10)
            });
            let Some(transmit) = transmit else { break };
            let size = transmit.segment_size.unwrap_or(transmit.len);
            for data in buf[..transmit.len].chunks(size) {
                let FourTuple { local, remote } = transmit.four_tuple;
                let four_tuple = FourTuple {
                    local: remote,
                    remote: local,
                };
                if !to_server && remote.port() == 2000 {
                    self.second_path_datagrams += 1;
                    if (self.drop_second)(self.second_path_datagrams) {
                        continue;
                    }
                }
                let at = self.now + DELAY;
                self.wire.push_back(InFlight {
                    at,
                    to_server,
                    four_tuple,
                    data: data.to_vec(),
                });
            }
        }
    }

    fn deliver(&mut self, datagram: InFlight) {
        let meta = DatagramMeta {
            four_tuple: datagram.four_tuple,
            ecn: Default::default(),
        };
        let data = BytesMut::from(&datagram.data[..]);
        if !datagram.to_server {
            self.client.handle_datagram(self.now, meta, data);
            return;
        }
        let known = self
            .server
            .as_mut()
            .filter(|_| datagram.four_tuple.local.port() == 1443);
        if let Some((_, server)) = known {
            // The endpoint does not know hand-made connection IDs.
            server.handle_datagram(self.now, meta, data);
            return;
        }
        let mut out = Vec::new();
        match self
            .server_endpoint
            .handle_datagram(self.now, meta, data, &mut out)
        {
            DatagramEvent::Connection(_, data) => {
                if let Some((_, server)) = &mut self.server {
                    server.handle_datagram(self.now, meta, data);
                }
            }
            DatagramEvent::Incoming(incoming) => {
                let accepted = self.server_endpoint.accept(self.now, incoming, None);
                self.server = Some(accepted.expect("accepted"));
            }
            _ => {}
        }
    }

    /// Runs until `done` or 60 simulated seconds have passed.
    pub(crate) fn run(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let limit = self.now + Duration::from_secs(60);
        while self.now < limit {
            self.collect();
            if done(self) {
                return;
            }
            let next_datagram = self.wire.front().map(|datagram| datagram.at);
            let server_timer = self
                .server
                .as_mut()
                .and_then(|(_, server)| server.poll_timeout());
            let next = [next_datagram, self.client.poll_timeout(), server_timer];
            let Some(next) = next.into_iter().flatten().min() else {
                return;
            };
            self.now = self.now.max(next);
            while let Some(datagram) = self.wire.pop_front() {
                if datagram.at > self.now {
                    self.wire.push_front(datagram);
                    break;
                }
                self.deliver(datagram);
            }
            self.client.handle_timeout(self.now);
            if let Some((_, server)) = &mut self.server {
                server.handle_timeout(self.now);
            }
        }
        panic!("not done after a simulated minute");
    }

    /// Opens a second path, and leaves path 0.
    fn move_to_second_path(&mut self) {
        let to = FourTuple {
            local: address(1, 2000),
            remote: address(2, 443),
        };
        let now = self.now;
        assert_eq!(self.client.open_path(now, to), Ok(SECOND));
        self.run(|wire| {
            let validated = |connection: &Connection| {
                connection
                    .path_stats(SECOND)
                    .is_some_and(|stats| stats.validated)
            };
            validated(&wire.client) && validated(wire.server())
        });
        let now = self.now;
        let left = self.client.abandon_path(now, PathId::ZERO, NO_ERROR);
        assert_eq!(left, Ok(()));
        let settled = self.now + Duration::from_secs(1);
        self.run(|wire| wire.now > settled || wire.wire.is_empty());
    }

    pub(crate) fn established(config: TransportConfig) -> Self {
        let mut wire = Self::new(config);
        wire.run(|wire| {
            let mut confirmed = false;
            while let Some(event) = wire.client.poll_event() {
                confirmed |= event == Event::HandshakeConfirmed;
            }
            confirmed
        });
        // Let what the handshake left behind (connection IDs, tokens, probes) settle.
        let settled = wire.now + Duration::from_secs(1);
        wire.client.ping();
        wire.run(|wire| wire.now > settled || wire.wire.is_empty());
        wire
    }
}

/// The server sends `len` bytes; the client takes them in order.
fn transfer(wire: &mut Wire, len: usize) -> StreamId {
    let id = wire.server().open_stream(Dir::Uni).expect("a stream");
    let data: Bytes = (0..len).map(|index| (index % 251) as u8).collect();
    let mut rest = data.clone();
    let mut received = Vec::new();
    wire.run(|wire| {
        if !rest.is_empty() {
            wire.server().write_bytes(id, &mut rest).expect("written");
            if rest.is_empty() {
                wire.server().finish(id).expect("finished");
            }
        }
        let _ = wire.client.accept_stream(Dir::Uni);
        loop {
            match wire.client.read(id, usize::MAX) {
                Ok(ReadOutcome::Chunk(chunk)) => received.extend_from_slice(&chunk),
                Ok(ReadOutcome::Finished) => return true,
                _ => return false,
            }
        }
    });
    assert_eq!(received, data);
    id
}

/// Both ends accept four paths.
fn with_paths() -> Wire {
    Wire::established(TransportConfig {
        multipath: Some(MultipathConfig {
            max_paths: 4,
            ..MultipathConfig::default()
        }),
        ..TransportConfig::default()
    })
}

#[test]
fn second_path_carries_data() {
    let mut wire = with_paths();
    wire.move_to_second_path();
    let sent_on_zero = |wire: &mut Wire| {
        let stats = wire.server().path_stats(PathId::ZERO);
        stats.map(|stats| stats.recovery.packets_sent)
    };
    let before = sent_on_zero(&mut wire);
    transfer(&mut wire, 300_000);
    let stats = wire.server().path_stats(SECOND).expect("path 1");
    assert!(stats.recovery.bytes_sent >= 300_000, "{stats:?}");
    assert!(
        stats.recovery.packets_acked > 100,
        "acknowledged by PATH_ACK: {stats:?}"
    );
    assert!(
        stats.rtt >= 2 * DELAY && stats.rtt < 3 * DELAY,
        "its own RTT: {stats:?}"
    );
    let after = sent_on_zero(&mut wire);
    assert!(after.is_none() || after == before, "path 0 stayed silent");
}

#[test]
fn second_path_recovers_losses() {
    let mut wire = with_paths();
    wire.move_to_second_path();
    wire.drop_second = |index| index % 10 == 3;
    transfer(&mut wire, 300_000);
    let stats = wire.server().path_stats(SECOND).expect("path 1").recovery;
    assert!(stats.packets_lost >= 15, "{stats:?}");
}

#[test]
fn abandoned_path_is_forgotten_and_another_may_follow() {
    let mut wire = with_paths();
    wire.move_to_second_path();
    let gone = |connection: &Connection| connection.paths().eq([SECOND]);
    wire.run(|wire| gone(&wire.client) && gone(wire.server()));
    transfer(&mut wire, 50_000);
}

#[test]
fn second_path_carries_the_close() {
    let mut wire = with_paths();
    wire.move_to_second_path();
    let now = wire.now;
    wire.server().close(now, 77, Bytes::from_static(b"enough"));
    let mut lost = None;
    wire.run(|wire| {
        while let Some(event) = wire.client.poll_event() {
            if let Event::Lost(error) = event {
                lost = Some(error);
            }
        }
        lost.is_some()
    });
    let reason = Bytes::from_static(b"enough");
    assert_eq!(
        lost,
        Some(ConnectionError::PeerApplication { code: 77, reason })
    );
}
