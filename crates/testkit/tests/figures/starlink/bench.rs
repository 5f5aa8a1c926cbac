//! The study's set-up: hosts, programs, runs.

use std::{any::Any, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use tautline_sim::{
    Datagram, Direction, DirectionConfig, HostId, LinkConfig, LinkId, Node, World,
    quic::{App, Context, QuicHost},
};
use tautline_testkit::null_tls::{NullClient, NullServer};
use tautline_transport::{
    config::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig},
    connection::Event,
    endpoint::{ConnectionHandle, Endpoint},
    stream::{ReadOutcome, StreamEvent},
    time::Instant,
    units::{Dir, Ecn, Rate},
};

use super::{
    look::{Seen, look},
    sender,
};

/// Asks for the bulk, and reads it.
struct Fetch {
    config: Option<ClientConfig>,
    remote: SocketAddr,
    received: u64,
    finished: bool,
}

impl App for Fetch {
    fn on_start(&mut self, cx: &mut Context<'_>) {
        let config = self.config.take().expect("a start happens once");
        cx.connect(config, self.remote, "localhost").unwrap();
    }

    fn on_event(&mut self, cx: &mut Context<'_>, handle: ConnectionHandle, event: Event) {
        let now = cx.now;
        let Some(connection) = cx.connection(handle) else {
            return;
        };
        match event {
            Event::Connected => {
                let id = connection.open_stream(Dir::Bi).expect("the first stream");
                let _ = connection.write(id, b"GET");
                let _ = connection.finish(id);
            }
            Event::Stream(StreamEvent::Readable(id)) => loop {
                match connection.read(id, usize::MAX) {
                    Ok(ReadOutcome::Chunk(data)) => self.received += data.len() as u64,
                    Ok(ReadOutcome::Finished) => {
                        self.finished = true;
                        connection.close(now, 0, Bytes::new());
                        break;
                    }
                    _ => break,
                }
            },
            _ => {}
        }
    }
}

/// Answers the one request by the bulk: bytes that nobody looks at, which would take a third of the
/// time of the whole.
#[derive(Default)]
struct Supply {
    written: u64,
}

/// Offered to the transport at once.
static CHUNK: [u8; 64 * 1024] = [7; 64 * 1024];

impl App for Supply {
    fn on_event(&mut self, cx: &mut Context<'_>, handle: ConnectionHandle, event: Event) {
        let Some(connection) = cx.connection(handle) else {
            return;
        };
        let id = match event {
            Event::Stream(StreamEvent::Opened(dir)) => connection.accept_stream(dir),
            Event::Stream(StreamEvent::Readable(id) | StreamEvent::Writable(id)) => Some(id),
            _ => None,
        };
        let Some(id) = id else {
            return;
        };
        while let Ok(ReadOutcome::Chunk(_)) = connection.read(id, usize::MAX) {}
        while self.written < BULK {
            let left = usize::try_from(BULK - self.written).unwrap_or(usize::MAX);
            let mut data = Bytes::from_static(&CHUNK).slice(..left.min(CHUNK.len()));
            match connection.write_bytes(id, &mut data) {
                Ok(taken) if taken > 0 => self.written += taken as u64,
                _ => return,
            }
        }
        let _ = connection.finish(id);
    }
}

/// Sends a message on a stream of its own every 40 ms, and closes after the last.
struct Messages {
    config: Option<ClientConfig>,
    remote: SocketAddr,
    lens: Vec<usize>,
    sent: usize,
    next: Option<Instant>,
    handle: Option<ConnectionHandle>,
}

impl App for Messages {
    fn on_start(&mut self, cx: &mut Context<'_>) {
        let config = self.config.take().expect("a start happens once");
        self.handle = Some(cx.connect(config, self.remote, "localhost").unwrap());
    }

    fn on_event(&mut self, cx: &mut Context<'_>, _: ConnectionHandle, event: Event) {
        if matches!(event, Event::Connected) {
            self.next = Some(cx.now);
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_>) {
        let len = self.lens.get(self.sent).copied();
        self.sent += 1;
        self.next = len.map(|_| cx.now + Duration::from_millis(40));
        let Some((len, connection)) = len.zip(self.handle.and_then(|h| cx.connection(h))) else {
            return;
        };
        if let Some(id) = connection.open_stream(Dir::Uni) {
            let mut data = Bytes::from(vec![7; len]);
            let _ = connection.write_bytes(id, &mut data);
            let _ = connection.finish(id);
        }
    }

    fn poll_timer(&self) -> Option<Instant> {
        self.next
    }
}

/// Reads everything and says nothing.
struct Sink;

impl App for Sink {
    fn on_event(&mut self, cx: &mut Context<'_>, handle: ConnectionHandle, event: Event) {
        let Some(connection) = cx.connection(handle) else {
            return;
        };
        match event {
            Event::Stream(StreamEvent::Opened(dir)) => {
                while let Some(id) = connection.accept_stream(dir) {
                    while let Ok(ReadOutcome::Chunk(_)) = connection.read(id, usize::MAX) {}
                }
            }
            Event::Stream(StreamEvent::Readable(id)) => {
                while let Ok(ReadOutcome::Chunk(_)) = connection.read(id, usize::MAX) {}
            }
            _ => {}
        }
    }
}

/// Sends a datagram a second; [`Echo`] answers.
struct Ping {
    next: Instant,
    due: bool,
}

/// Bytes of IP, as `ping` sends them.
const PING_BYTES: usize = 84 - 28;
const PING_EVERY: Duration = Duration::from_secs(1);

impl Node for Ping {
    fn handle_datagram(&mut self, _: Instant, _: Datagram) {}

    fn handle_timeout(&mut self, _: Instant) {
        self.due = true;
        self.next += PING_EVERY;
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> {
        std::mem::take(&mut self.due).then(|| Datagram {
            src: SocketAddr::from(CLIENT),
            dst: SocketAddr::from(SERVER),
            ecn: Ecn::NotEct,
            payload: vec![0; PING_BYTES],
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Sends back what comes.
#[derive(Default)]
struct Echo(Option<Datagram>);

impl Node for Echo {
    fn handle_datagram(&mut self, _: Instant, datagram: Datagram) {
        self.0 = Some(Datagram {
            src: datagram.dst,
            dst: datagram.src,
            ..datagram
        });
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> {
        self.0.take()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// No cryptography: it changes no size and no time.
const ALPN: &[u8] = b"h3";
/// Bytes of a transfer.
const BULK: u64 = 100_000_000;
/// UDP payload of the study's datagrams (quiche's applications).
const DATAGRAM: u16 = 1350;
/// The server's Ethernet, in Gb/s; the client's has one.
const SERVER_GIGABITS: u64 = 10;

const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 50_000);
const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 443);

/// A client, the link, and a server.
struct Bench {
    world: World,
    client: HostId,
    link: LinkId,
}

/// As the study's: its congestion control, no pacing.
fn endpoints(seed: u64) -> (Endpoint, Endpoint, ClientConfig) {
    let mut transport = TransportConfig::default();
    transport.congestion = sender::factory();
    transport.pacing = false;
    transport.mtu.initial = DATAGRAM;
    transport.mtu.discovery = false;
    let transport = Arc::new(transport);
    let world = World::new(seed);
    let mut server = ServerConfig::new(Arc::new(NullServer::new(ALPN)));
    server.transport = Arc::clone(&transport);
    let endpoint = Arc::new(EndpointConfig::default());
    let server = Endpoint::new(Arc::clone(&endpoint), Some(Arc::new(server)), world.rng(1));
    let mut config = ClientConfig::new(Arc::new(NullClient::new(ALPN)));
    config.transport = transport;
    (Endpoint::new(endpoint, None, world.rng(2)), server, config)
}

/// The link seen from the client of a simulation: its `backward` carries a download's data. The
/// same programs upload when the client stands at the other end.
fn way(link: &LinkConfig, down: bool) -> LinkConfig {
    let link = link.clone();
    if down { link } else { link.reversed() }
}

/// Two hosts and the link, each with an Ethernet before it. `terminal`: whether the client is at
/// the satellite's terminal.
fn bench<C: Node, S: Node>(
    seed: u64,
    link: &LinkConfig,
    terminal: bool,
    client: C,
    server: S,
) -> Bench {
    let mut world = World::new(seed);
    let client = world.add_host(SocketAddr::from(CLIENT), Box::new(client));
    let server = world.add_host(SocketAddr::from(SERVER), Box::new(server));
    let router = world.add_router();
    let near = world.add_router();
    let ethernet = |gigabits| {
        LinkConfig::symmetric(DirectionConfig {
            rate: Some(Rate::from_bits_per_second(gigabits * 1_000_000_000)),
            ..DirectionConfig::default()
        })
    };
    let (here, there) = if terminal {
        (1, SERVER_GIGABITS)
    } else {
        (SERVER_GIGABITS, 1)
    };
    world.connect(client, near, ethernet(here));
    let link = world.connect(near, router, way(link, terminal));
    world.connect(router, server, ethernet(there));
    world.enable_log(20_000_000);
    Bench {
        world,
        client,
        link,
    }
}

/// One transfer.
pub(super) fn bulk(seed: u64, link: &LinkConfig, down: bool) -> Seen {
    let (client, server, config) = endpoints(seed);
    let app = Fetch {
        config: Some(config),
        remote: SocketAddr::from(SERVER),
        received: 0,
        finished: false,
    };
    let client = QuicHost::new(client, SocketAddr::from(CLIENT), app);
    let server = QuicHost::new(server, SocketAddr::from(SERVER), Supply::default());
    let mut bench = bench(seed, link, down, client, server);
    let host = bench.client;
    let missing = |world: &World| !world.node::<QuicHost<Fetch>>(host).app().finished;
    bench
        .world
        .run_while(missing, Instant::ZERO + Duration::from_secs(300));
    let received = bench.world.node::<QuicHost<Fetch>>(host).app().received;
    assert_eq!(received, BULK, "{:?}", bench.world.now());
    look(&bench.world, bench.link, Direction::Backward)
}

/// Messages for two minutes.
pub(super) fn messages(seed: u64, link: &LinkConfig, down: bool) -> Seen {
    let (client, server, config) = endpoints(seed);
    let mut rng = World::new(seed).rng(9);
    let mut len = || 5_000 + (rng.unit_f64() * 20_001.0) as usize;
    let app = Messages {
        config: Some(config),
        remote: SocketAddr::from(SERVER),
        lens: (0..25 * 120).map(|_| len()).collect(),
        sent: 0,
        next: None,
        handle: None,
    };
    let client = QuicHost::new(client, SocketAddr::from(CLIENT), app);
    let server = QuicHost::new(server, SocketAddr::from(SERVER), Sink);
    // The sender is the client: data goes forward.
    let mut bench = bench(seed, link, !down, client, server);
    let end = Instant::ZERO + Duration::from_secs(122);
    bench.world.run_until(end);
    look(&bench.world, bench.link, Direction::Forward)
}

/// A ping a second for an hour.
pub(super) fn pings(seed: u64, link: &LinkConfig) -> Seen {
    let ping = Ping {
        next: Instant::ZERO + PING_EVERY,
        due: false,
    };
    let mut bench = bench(seed, link, true, ping, Echo::default());
    bench
        .world
        .run_until(Instant::ZERO + Duration::from_secs(3600));
    look(&bench.world, bench.link, Direction::Forward)
}
