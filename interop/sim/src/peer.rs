//! A node around a stack of the quinn family.
//!
//! quinn-proto and noq-proto have one shape and different types, so the node is a macro; what
//! differs in more than the name of the crate stands in `quinn.rs` and `noq.rs` as `glue`.
//!
//! Streams are read out of order and put in order here: at 1,024 gaps (slow-start overshoot on a
//! long fat link suffices) noq-proto's reassembly ends the connection, and what is to be compared
//! are congestion controllers. Nothing but that limit depends on it.

use std::{
    collections::BTreeMap,
    sync::OnceLock,
    time::{Duration, Instant as Clock},
};

use bytes::Bytes;
use tautline_transport::time::Instant;

/// What replies are made of.
pub static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Bytes to write in one go.
pub fn zeros() -> Bytes {
    Bytes::from_static(&ZEROS)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the peers take std's clock, which has no other origin; only differences count"
)]
fn base() -> Clock {
    static BASE: OnceLock<Clock> = OnceLock::new();
    *BASE.get_or_init(|| Clock::now() + Duration::from_secs(3600))
}

/// Virtual time as the peers take it.
pub fn clock(now: Instant) -> Clock {
    base() + now.since_origin()
}

/// And back.
pub fn instant(clock: Clock) -> Instant {
    Instant::ZERO + clock.saturating_duration_since(base())
}

/// Counts the bytes that would have been delivered in order.
#[derive(Default)]
pub struct Prefix {
    end: u64,
    /// Beyond `end`: start and end of what arrived early.
    early: BTreeMap<u64, u64>,
}

impl Prefix {
    /// Bytes without a gap from the start.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// `len` bytes arrived that never arrived before.
    pub fn add(&mut self, offset: u64, len: u64) {
        self.early.insert(offset, offset + len);
        while let Some(entry) = self.early.first_entry()
            && *entry.key() <= self.end
        {
            self.end = self.end.max(entry.remove());
        }
    }
}

/// Defines `Client` and `Server` over `$proto` with the module's `glue`.
macro_rules! nodes {
    ($proto:ident) => {
        /// Asks for an endless stream and counts.
        pub struct Client {
            host: Host,
            config: Option<$proto::ClientConfig>,
            stream: Option<$proto::StreamId>,
            received: Prefix,
        }

        /// Writes without end into every stream that is opened.
        pub struct Server {
            host: Host,
        }

        struct Host {
            endpoint: $proto::Endpoint,
            connections: BTreeMap<usize, $proto::Connection>,
            local: SocketAddr,
            outgoing: VecDeque<Datagram>,
            buffer: Vec<u8>,
            timeout: Option<Instant>,
            error: Option<String>,
        }

        impl Host {
            fn new(endpoint: $proto::Endpoint, local: SocketAddr) -> Self {
                Self {
                    endpoint,
                    connections: BTreeMap::new(),
                    local,
                    outgoing: VecDeque::new(),
                    buffer: Vec::new(),
                    timeout: Some(Instant::ZERO),
                    error: None,
                }
            }

            fn queue(&mut self, transmit: &$proto::Transmit) {
                let size = transmit.segment_size.unwrap_or(transmit.size).max(1);
                let ecn = match transmit.ecn {
                    None => Ecn::NotEct,
                    Some($proto::EcnCodepoint::Ect0) => Ecn::Ect0,
                    Some($proto::EcnCodepoint::Ect1) => Ecn::Ect1,
                    Some($proto::EcnCodepoint::Ce) => Ecn::Ce,
                };
                for segment in self.buffer[..transmit.size].chunks(size) {
                    self.outgoing.push_back(Datagram {
                        src: self.local,
                        dst: transmit.destination,
                        ecn,
                        payload: segment.to_vec(),
                    });
                }
                self.buffer.clear();
            }

            fn receive(&mut self, now: Instant, datagram: Datagram) {
                let ecn = match datagram.ecn {
                    Ecn::NotEct => None,
                    Ecn::Ect0 => Some($proto::EcnCodepoint::Ect0),
                    Ecn::Ect1 => Some($proto::EcnCodepoint::Ect1),
                    Ecn::Ce => Some($proto::EcnCodepoint::Ce),
                };
                let data = BytesMut::from(datagram.payload.as_slice());
                self.buffer.clear();
                let event = glue::handle(
                    &mut self.endpoint,
                    clock(now),
                    datagram.src,
                    ecn,
                    data,
                    &mut self.buffer,
                );
                match event {
                    Some($proto::DatagramEvent::ConnectionEvent(handle, event)) => {
                        if let Some(connection) = self.connections.get_mut(&handle.0) {
                            connection.handle_event(event);
                        }
                    }
                    Some($proto::DatagramEvent::NewConnection(incoming)) => {
                        self.buffer.clear();
                        match self
                            .endpoint
                            .accept(incoming, clock(now), &mut self.buffer, None)
                        {
                            Ok((handle, connection)) => {
                                self.connections.insert(handle.0, connection);
                            }
                            Err(error) => self.error = Some(error.cause.to_string()),
                        }
                    }
                    Some($proto::DatagramEvent::Response(transmit)) => self.queue(&transmit),
                    None => {}
                }
            }

            fn expire(&mut self, now: Instant) {
                for connection in self.connections.values_mut() {
                    let due = connection.poll_timeout();
                    if due.is_some_and(|due| due <= clock(now)) {
                        connection.handle_timeout(clock(now));
                    }
                }
            }

            /// Runs events and transmissions until nothing is left to do.
            fn settle(
                &mut self,
                now: Instant,
                mut on_event: impl FnMut(&mut $proto::Connection, &$proto::Event),
            ) {
                let handles: Vec<usize> = self.connections.keys().copied().collect();
                self.timeout = None;
                for index in handles {
                    let Some(mut connection) = self.connections.remove(&index) else {
                        continue;
                    };
                    let handle = $proto::ConnectionHandle(index);
                    loop {
                        let mut progress = false;
                        while let Some(event) = connection.poll_endpoint_events() {
                            if let Some(answer) = self.endpoint.handle_event(handle, event) {
                                connection.handle_event(answer);
                            }
                        }
                        while let Some(event) = connection.poll() {
                            progress = true;
                            if let $proto::Event::ConnectionLost { reason } = &event {
                                self.error = Some(reason.to_string());
                            }
                            on_event(&mut connection, &event);
                        }
                        self.buffer.clear();
                        while let Some(transmit) =
                            glue::poll_transmit(&mut connection, clock(now), &mut self.buffer)
                        {
                            progress = true;
                            self.queue(&transmit);
                        }
                        if !progress {
                            break;
                        }
                    }
                    let due = connection.poll_timeout().map(instant);
                    self.timeout = earliest(self.timeout, due);
                    self.connections.insert(index, connection);
                }
            }
        }

        impl Client {
            fn settle(&mut self, now: Instant) {
                let (stream, received) = (&mut self.stream, &mut self.received);
                self.host.settle(now, |connection, event| match event {
                    $proto::Event::Connected => {
                        let id = connection
                            .streams()
                            .open($proto::Dir::Bi)
                            .expect("a stream may be opened");
                        connection
                            .send_stream(id)
                            .write(b"request")
                            .expect("an empty stream takes bytes");
                        *stream = Some(id);
                    }
                    $proto::Event::Stream($proto::StreamEvent::Readable { id }) => {
                        let mut recv = connection.recv_stream(*id);
                        let Ok(mut chunks) = recv.read(false) else {
                            return;
                        };
                        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                            received.add(chunk.offset, chunk.bytes.len() as u64);
                        }
                        let _ = chunks.finalize();
                    }
                    _ => {}
                });
            }
        }

        impl Server {
            fn settle(&mut self, now: Instant) {
                let write = |connection: &mut $proto::Connection, id| {
                    let mut chunks = [zeros()];
                    while glue::write(connection, id, &mut chunks) {
                        chunks = [zeros()];
                    }
                };
                self.host.settle(now, |connection, event| match event {
                    $proto::Event::Stream($proto::StreamEvent::Opened { dir }) => {
                        while let Some(id) = connection.streams().accept(*dir) {
                            if let Ok(mut chunks) = connection.recv_stream(id).read(true) {
                                while let Ok(Some(_)) = chunks.next(usize::MAX) {}
                                let _ = chunks.finalize();
                            }
                            write(connection, id);
                        }
                    }
                    $proto::Event::Stream($proto::StreamEvent::Writable { id }) => {
                        write(connection, *id);
                    }
                    _ => {}
                });
            }
        }

        impl Download for Client {
            fn received(&self) -> u64 {
                self.received.end()
            }

            fn error(&self) -> Option<String> {
                self.host.error.clone()
            }
        }

        impl Node for Client {
            fn handle_datagram(&mut self, now: Instant, datagram: Datagram) {
                self.host.receive(now, datagram);
                self.settle(now);
            }

            fn handle_timeout(&mut self, now: Instant) {
                if let Some(config) = self.config.take() {
                    let (handle, connection) = self
                        .host
                        .endpoint
                        .connect(
                            clock(now),
                            config,
                            scene::server_address(),
                            tls::SERVER_NAME,
                        )
                        .expect("a valid configuration");
                    self.host.connections.insert(handle.0, connection);
                }
                self.host.expire(now);
                self.settle(now);
            }

            fn poll_timeout(&self) -> Option<Instant> {
                self.host.timeout
            }

            fn poll_transmit(&mut self, _now: Instant) -> Option<Datagram> {
                self.host.outgoing.pop_front()
            }

            fn as_any(&self) -> &dyn Any {
                self
            }

            fn as_any_mut(&mut self) -> &mut dyn Any {
                self
            }
        }

        impl Node for Server {
            fn handle_datagram(&mut self, now: Instant, datagram: Datagram) {
                self.host.receive(now, datagram);
                self.settle(now);
            }

            fn handle_timeout(&mut self, now: Instant) {
                self.host.expire(now);
                self.settle(now);
            }

            fn poll_timeout(&self) -> Option<Instant> {
                self.host.timeout
            }

            fn poll_transmit(&mut self, _now: Instant) -> Option<Datagram> {
                self.host.outgoing.pop_front()
            }

            fn as_any(&self) -> &dyn Any {
                self
            }

            fn as_any_mut(&mut self) -> &mut dyn Any {
                self
            }
        }

        /// Runs `scene`.
        pub fn run(scene: &Scene) -> Outcome {
            let seed = |label: u8| {
                let mut seed = [label; 32];
                seed[..8].copy_from_slice(&scene.seed.to_le_bytes());
                seed
            };
            let transport = Arc::new(glue::transport(scene));
            let crypto = glue::server_tls(tls::server_config(scene.seed));
            let mut config = $proto::ServerConfig::with_crypto(crypto);
            config.transport_config(Arc::clone(&transport));
            let server = Server {
                host: Host::new(
                    glue::endpoint(seed(1), Some(Arc::new(config))),
                    scene::server_address(),
                ),
            };
            let crypto = glue::client_tls(tls::client_config(scene.seed.wrapping_add(1)));
            let mut config = $proto::ClientConfig::new(crypto);
            config.transport_config(transport);
            let client = Client {
                host: Host::new(glue::endpoint(seed(2), None), scene::client_address()),
                config: Some(config),
                stream: None,
                received: Prefix::default(),
            };
            scene::run(scene, client, server)
        }
    };
}

pub(crate) use nodes;
