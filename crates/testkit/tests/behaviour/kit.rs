//! A client and a server of ours, a link between them, and ears everywhere.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tautline_sim::{
    Direction, DirectionConfig, HostId, LinkConfig, LinkId, World,
    interop::Scenario,
    quic::{App, QuicHost},
};
use tautline_testkit::{
    apps::{Manual, PatternClient, PatternServer, SequenceClient},
    null_tls::{NullClient, NullServer, NullTag},
    pair::{client_address, server_address},
    tls,
    trace::{Tap, TappedDatagram, Trace},
};
use tautline_transport::{
    config::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig},
    connection::{Connection, Event},
    endpoint::{ConnectionHandle, Endpoint},
    error::ConnectionError,
    observe::{Observer, Sink},
    stream::{ReadOutcome, StreamEvent},
    time::Instant,
    tls::{ClientSessionFactory, ServerSessionFactory},
    units::{Rate, StreamId},
    wire::{ConnectionId, Header, Version, parse_header},
};

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

/// A link without loss: 10 ms each way, 100 Mb/s, a deep queue.
pub fn calm() -> LinkConfig {
    wire(100, 10)
}

/// A link without loss and a queue of one bandwidth-delay product.
pub fn wire(megabits: u64, one_way_ms: u64) -> LinkConfig {
    LinkConfig::symmetric(DirectionConfig::new(
        Rate::from_bits_per_second(megabits * 1_000_000),
        Duration::from_millis(one_way_ms),
    ))
}

/// What a [`Net`] is made of.
pub struct Setup {
    pub seed: u64,
    pub scenario: Scenario,
    pub client: TransportConfig,
    pub server: TransportConfig,
    pub client_endpoint: EndpointConfig,
    pub server_endpoint: EndpointConfig,
    pub client_tls: Arc<dyn ClientSessionFactory>,
    pub server_tls: Arc<dyn ServerSessionFactory>,
    pub client_version: Version,
    /// Where the client's socket is bound.
    pub client_address: SocketAddr,
    /// The client's host's addresses; `client_address` alone when empty.
    pub client_addresses: Vec<SocketAddr>,
    /// Further links between both hosts, each bound to the next of `client_addresses`.
    pub parallel: Vec<LinkConfig>,
    /// The first is where clients connect to.
    pub server_addresses: Vec<SocketAddr>,
    pub tune_client: Box<dyn FnOnce(&mut ClientConfig)>,
    pub tune_server: Box<dyn FnOnce(&mut ServerConfig)>,
    /// Whether to keep traces of packets and of the link.
    pub traced: bool,
    /// Hear the endpoints themselves.
    pub client_sink: Option<Box<dyn Sink>>,
    pub server_sink: Option<Box<dyn Sink>>,
}

impl Setup {
    pub fn new(seed: u64, link: LinkConfig) -> Self {
        Self::over(seed, Scenario { link, rebind: None })
    }

    /// The network of an interop-runner case.
    pub fn case(seed: u64, name: &str) -> Self {
        let scenario = tautline_sim::interop::scenario(name);
        Self::over(seed, scenario.unwrap_or_else(|| panic!("no case {name}")))
    }

    fn over(seed: u64, scenario: Scenario) -> Self {
        Self {
            seed,
            scenario,
            client: TransportConfig::default(),
            server: TransportConfig::default(),
            client_endpoint: EndpointConfig::default(),
            server_endpoint: EndpointConfig::default(),
            client_tls: Arc::new(tls::client(seed.wrapping_add(1))),
            server_tls: Arc::new(tls::server(seed)),
            client_version: Version::V1,
            client_address: client_address(),
            client_addresses: Vec::new(),
            parallel: Vec::new(),
            server_addresses: vec![server_address()],
            tune_client: Box::new(|_| {}),
            tune_server: Box::new(|_| {}),
            traced: true,
            client_sink: None,
            server_sink: None,
        }
    }

    /// Keeps no traces: for long transfers.
    pub fn quiet(mut self) -> Self {
        self.traced = false;
        self
    }

    /// Packets in clear.
    pub fn null_tls(mut self) -> Self {
        let (mut client, mut server) = (NullClient::new(b"null"), NullServer::new(b"null"));
        (client.tag, server.tag) = (NullTag::Numbered, NullTag::Numbered);
        self.client_tls = Arc::new(client);
        self.server_tls = Arc::new(server);
        self
    }

    /// Both ends alike.
    pub fn both(mut self, change: impl Fn(&mut TransportConfig)) -> Self {
        change(&mut self.client);
        change(&mut self.server);
        self
    }

    pub fn client(mut self, change: impl FnOnce(&mut TransportConfig)) -> Self {
        change(&mut self.client);
        self
    }

    pub fn server(mut self, change: impl FnOnce(&mut TransportConfig)) -> Self {
        change(&mut self.server);
        self
    }

    pub fn build<C: App, S: App>(
        mut self,
        client: impl FnOnce(ClientConfig, SocketAddr) -> C,
        server: S,
    ) -> Net<C, S> {
        let mut world = World::new(self.seed);
        let (client_trace, server_trace) = (Trace::new(), Trace::new());
        if self.traced {
            self.client.observer = client_trace.observer();
            self.server.observer = server_trace.observer();
        }

        let mut server_config = ServerConfig::new(self.server_tls);
        server_config.transport = Arc::new(self.server);
        (self.tune_server)(&mut server_config);
        let mut server_endpoint = Endpoint::new(
            Arc::new(self.server_endpoint),
            Some(Arc::new(server_config)),
            world.rng(1),
        );
        if let Some(sink) = self.server_sink {
            let observer = Observer::new(Some(sink));
            server_endpoint.set_observer(world.now(), self.server_addresses[0], observer);
        }
        let mut client_config = ClientConfig::new(self.client_tls);
        client_config.transport = Arc::new(self.client);
        client_config.initial_version = self.client_version;
        (self.tune_client)(&mut client_config);
        let mut client_endpoint = Endpoint::new(Arc::new(self.client_endpoint), None, world.rng(2));
        if let Some(sink) = self.client_sink {
            let observer = Observer::new(Some(sink));
            client_endpoint.set_observer(world.now(), self.client_address, observer);
        }

        let to = self.server_addresses[0];
        let client_app = client(client_config, to);
        let client = QuicHost::new(client_endpoint, self.client_address, client_app);
        let server = QuicHost::new(server_endpoint, to, server);
        if self.client_addresses.is_empty() {
            self.client_addresses.push(self.client_address);
        }
        let near = self.client_addresses.clone();
        let client = world.add_host(self.client_addresses, Box::new(client));
        let server = world.add_host(self.server_addresses, Box::new(server));
        let mut bound = |index: usize, config: LinkConfig| {
            let near = (client, near.get(index).map(SocketAddr::ip));
            let link = world.try_connect(near, (server, None), config);
            link.unwrap_or_else(|error| panic!("path {index}: {error}"))
        };
        let (link, parallel) = if self.parallel.is_empty() {
            (
                self.scenario.install(&mut world, client, server),
                Vec::new(),
            )
        } else {
            let first = bound(0, self.scenario.link);
            let further = self.parallel.into_iter().enumerate();
            let further = further.map(|(index, link)| bound(index + 1, link));
            (first, further.collect())
        };
        let tap = if self.traced {
            Tap::new(&mut world, link)
        } else {
            Tap::default()
        };
        Net {
            world,
            client,
            server,
            link,
            parallel,
            tap,
            client_trace,
            server_trace,
            apps: std::marker::PhantomData,
        }
    }

    /// A client that fetches objects of these lengths over one connection.
    pub fn fetch(self, lens: &[u64]) -> Net<PatternClient, PatternServer> {
        let lens = lens.to_vec();
        self.build(
            move |config, to| PatternClient::new(config, to, &lens),
            PatternServer::default(),
        )
    }

    /// A client that fetches over one connection after the other.
    pub fn sequence(
        self,
        jobs: impl IntoIterator<Item = tautline_testkit::apps::Job>,
    ) -> Net<SequenceClient, PatternServer> {
        self.build(
            move |config, to| SequenceClient::new(config, to, jobs),
            PatternServer::default(),
        )
    }

    /// Both ends in the test's hands.
    pub fn manual(self) -> Net<Manual, Manual> {
        self.build(Manual::client, Manual::server())
    }
}

/// Two hosts, a link, ears.
pub struct Net<C, S> {
    pub world: World,
    pub client: HostId,
    pub server: HostId,
    pub link: LinkId,
    /// The further links.
    pub parallel: Vec<LinkId>,
    pub tap: Tap,
    pub client_trace: Trace,
    pub server_trace: Trace,
    apps: std::marker::PhantomData<(C, S)>,
}

impl<C: App, S: App> Net<C, S> {
    pub fn client_host(&self) -> &QuicHost<C> {
        self.world.node(self.client)
    }

    pub fn server_host(&self) -> &QuicHost<S> {
        self.world.node(self.server)
    }

    pub fn client_app(&self) -> &C {
        self.client_host().app()
    }

    pub fn server_app(&self) -> &S {
        self.server_host().app()
    }

    pub fn run_for(&mut self, duration: Duration) {
        let end = self.world.run_for(duration);
        assert_ne!(end, tautline_sim::RunEnd::Stuck, "the world is stuck");
    }

    pub fn now(&self) -> Instant {
        self.world.now()
    }

    /// The last packets of the first connection that went wrong, for messages of failed tests. The environment
    /// variable `PACKETS` says how many.
    pub fn last_packets(&self) -> String {
        use std::fmt::Write as _;
        let count = std::env::var("PACKETS").map_or(20, |n| n.parse().unwrap_or(20));
        let mut text = String::new();
        for (name, trace) in [
            ("client", &self.client_trace),
            ("server", &self.server_trace),
        ] {
            let bad = |index: &usize| {
                self.client_trace.len() > *index
                    && self.client_trace.with(*index, |client| {
                        !matches!(client.ended, Some((_, ConnectionError::LocallyClosed)))
                    })
            };
            let last = trace.len().checked_sub(1);
            let Some(index) = (0..trace.len()).find(bad).or(last) else {
                continue;
            };
            trace.with(index, |connection| {
                let sent = connection.sent.iter().map(|packet| ("sent", packet));
                let received = connection.received.iter().map(|packet| ("got", packet));
                let mut packets: Vec<_> = sent.chain(received).collect();
                packets.sort_by_key(|(_, packet)| packet.time);
                let skipped = packets.len().saturating_sub(count);
                for (what, packet) in &packets[skipped..] {
                    let _ = write!(
                        text,
                        "\n{name} {what} {:?} {:?} {} {} B {:?}",
                        packet.time, packet.level, packet.number, packet.bytes, packet.frames
                    );
                }
                let _ = write!(
                    text,
                    "\n{name} lost {} dropped {:?} ended {:?}",
                    connection.lost, connection.dropped, connection.ended
                );
            });
        }
        text
    }

    /// Runs while `condition` holds, at most for `limit`; whether it stopped holding.
    pub fn run_while(&mut self, limit: Duration, condition: impl Fn(&Self) -> bool) -> bool {
        let until = self.now() + limit;
        while condition(self) {
            let next = self.world.next_event();
            if next.is_none_or(|next| next > until) {
                return false;
            }
            assert!(
                self.world.step(),
                "the world is stuck: {}",
                self.last_packets()
            );
        }
        true
    }
}

impl Net<PatternClient, PatternServer> {
    /// The client does not close when everything was fetched.
    pub fn client_stays(&mut self) {
        self.change_client(|client| client.close_when_done = false);
    }

    /// Changes how the client goes about its fetches.
    pub fn change_client(&mut self, change: impl FnOnce(&mut PatternClient)) {
        let client = self.client;
        let host = self.world.node_mut::<QuicHost<PatternClient>>(client);
        change(host.app_mut());
    }

    /// Runs until everything was fetched, and a little more; fails if something goes wrong.
    pub fn finish(&mut self, limit: Duration) -> Instant {
        let over = self.run_while(limit, |net| {
            let app = net.client_app();
            app.ended.is_none() && !app.is_done()
        });
        let app = self.client_app();
        let received: u64 = app.fetches.iter().map(|fetch| fetch.received).sum();
        assert!(
            over && app.is_done(),
            "seed {}: not done at {:?} with {received} bytes: ended {:?}, server {:?}{}",
            self.world.seed(),
            self.now(),
            app.ended,
            self.server_app().ended,
            self.last_packets(),
        );
        assert_eq!(app.corrupt_at, None);
        let at = app.finished_at().expect("done");
        self.run_for(SECOND);
        at
    }
}

impl Net<SequenceClient, PatternServer> {
    /// Runs every job; fails if one goes wrong.
    pub fn finish(&mut self, limit: Duration) {
        let over = self.run_while(limit, |net| !net.client_app().is_over());
        let app = self.client_app();
        let ends: Vec<_> = app.finished.iter().map(|job| job.ended.clone()).collect();
        assert!(
            over && app.is_done(),
            "seed {}: not done at {:?}: ended {ends:?}{}",
            self.world.seed(),
            self.now(),
            self.last_packets(),
        );
        self.run_for(SECOND);
    }
}

/// How a connection ended, from its last events.
fn ended(events: &[(ConnectionHandle, Event)]) -> &[(ConnectionHandle, Event)] {
    &events[events.len().saturating_sub(3)..]
}

impl Net<Manual, Manual> {
    /// Runs until both ends have confirmed the handshake.
    pub fn connect(&mut self) {
        let done = self.run_while(10 * SECOND, |net| {
            !net.client_app().saw(&Event::HandshakeConfirmed)
                || !net.server_app().saw(&Event::HandshakeConfirmed)
        });
        assert!(
            done,
            "no handshake: {:?} {:?}",
            self.client_app().events,
            self.server_app().events
        );
        // Connection IDs, tokens and MTU probes come to rest.
        self.run_for(300 * MS);
    }

    fn act<R>(&mut self, host: HostId, f: impl FnOnce(&mut Connection, Instant) -> R) -> R {
        let now = self.now();
        let node = self.world.node_mut::<QuicHost<Manual>>(host);
        node.with_app(now, |app, cx| {
            let handle = app.handle.expect("a connection");
            let events = &app.events;
            let connection = cx.connection(handle);
            f(
                connection.unwrap_or_else(|| panic!("it lives; its end: {:?}", ended(events))),
                now,
            )
        })
    }

    /// Uses the client's connection.
    pub fn on_client<R>(&mut self, f: impl FnOnce(&mut Connection, Instant) -> R) -> R {
        self.act(self.client, f)
    }

    /// Uses the server's connection.
    pub fn on_server<R>(&mut self, f: impl FnOnce(&mut Connection, Instant) -> R) -> R {
        self.act(self.server, f)
    }

    pub fn client_connection(&self) -> &Connection {
        let handle = self.client_app().handle.expect("a connection");
        let connection = self.client_host().connection(handle);
        connection
            .unwrap_or_else(|| panic!("it lives; its end: {:?}", ended(&self.client_app().events)))
    }

    pub fn server_connection(&self) -> &Connection {
        let handle = self.server_app().handle.expect("a connection");
        let connection = self.server_host().connection(handle);
        connection
            .unwrap_or_else(|| panic!("it lives; its end: {:?}", ended(&self.server_app().events)))
    }

    /// Stream events of the client so far.
    pub fn client_stream_events(&self) -> Vec<StreamEvent> {
        stream_events(&self.client_app().events)
    }

    /// Stream events of the server so far.
    pub fn server_stream_events(&self) -> Vec<StreamEvent> {
        stream_events(&self.server_app().events)
    }
}

fn stream_events(events: &[(ConnectionHandle, Event)]) -> Vec<StreamEvent> {
    events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Stream(event) => Some(*event),
            _ => None,
        })
        .collect()
}

/// Reads what is there; the bytes, and whether the end was seen.
pub fn read_all(connection: &mut Connection, id: StreamId) -> (Vec<u8>, bool) {
    let mut data = Vec::new();
    loop {
        match connection.read(id, usize::MAX) {
            Ok(ReadOutcome::Chunk(chunk)) => data.extend_from_slice(&chunk),
            Ok(ReadOutcome::Finished) => return (data, true),
            Ok(ReadOutcome::Blocked) => return (data, false),
            Err(error) => panic!("{error} after {} bytes", data.len()),
        }
    }
}

/// A packet's header as anyone on the way can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub kind: Kind,
    pub version: Option<Version>,
    pub dcid: Vec<u8>,
    pub scid: Vec<u8>,
    pub token: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
    VersionNegotiation,
    Short,
    Other,
}

/// The headers of all packets in a datagram. Connection IDs are 8 bytes long.
pub fn headers(payload: &[u8]) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut rest = payload;
    while !rest.is_empty() {
        let Ok(header) = parse_header(rest, 8) else {
            break;
        };
        let mut one = Seen {
            kind: Kind::Other,
            version: None,
            dcid: Vec::new(),
            scid: Vec::new(),
            token: Vec::new(),
        };
        let mut long = |kind, version, dcid: ConnectionId, scid: ConnectionId| {
            one.kind = kind;
            one.version = Some(version);
            one.dcid = dcid.as_slice().to_vec();
            one.scid = scid.as_slice().to_vec();
        };
        let len = match header {
            Header::Initial {
                version,
                dcid,
                scid,
                token,
                packet_len,
                ..
            } => {
                long(Kind::Initial, version, dcid, scid);
                one.token = token.to_vec();
                packet_len
            }
            Header::ZeroRtt {
                version,
                dcid,
                scid,
                packet_len,
                ..
            } => {
                long(Kind::ZeroRtt, version, dcid, scid);
                packet_len
            }
            Header::Handshake {
                version,
                dcid,
                scid,
                packet_len,
                ..
            } => {
                long(Kind::Handshake, version, dcid, scid);
                packet_len
            }
            Header::Retry {
                version,
                dcid,
                scid,
                token,
                packet_len,
                ..
            } => {
                long(Kind::Retry, version, dcid, scid);
                one.token = token.to_vec();
                packet_len
            }
            Header::Short {
                dcid, packet_len, ..
            } => {
                one.kind = Kind::Short;
                one.dcid = dcid.as_slice().to_vec();
                packet_len
            }
            Header::VersionNegotiation { .. } => {
                one.kind = Kind::VersionNegotiation;
                rest.len()
            }
            Header::UnknownVersion { .. } => rest.len(),
        };
        seen.push(one);
        rest = rest.get(len.max(1)..).unwrap_or_default();
    }
    seen
}

/// Every packet header heard in one direction, with its datagram's place in the order of heard.
pub fn seen(tap: &Tap, direction: Direction) -> Vec<Seen> {
    tap.heard(direction)
        .iter()
        .flat_map(|datagram| headers(&datagram.payload))
        .collect()
}

/// Whether a datagram is of the connection itself and not a stateless answer.
pub fn is_of_connection(datagram: &TappedDatagram) -> bool {
    headers(&datagram.payload)
        .first()
        .is_some_and(|first| !matches!(first.kind, Kind::Retry | Kind::VersionNegotiation))
}
