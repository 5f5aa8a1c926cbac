//! Simulated downloads in figures: goodput, losses, shares of a bottleneck.
//!
//! Owns: [`Trial`], servers that send to clients over one shared link for a stated time, and what
//! came of it. Words mean what the project's definitions say: capacity counts IP bytes, goodput
//! counts bytes delivered in order, the clock of a flow starts when it connects.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tautline_sim::{
    Direction, DirectionConfig, DirectionStats, HostId, LinkConfig, LinkId, World,
    quic::{App, Context, QuicHost},
};
use tautline_transport::{
    config::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig},
    congestion::{ControllerMetrics, SharedControllerFactory, registry},
    connection::Event,
    endpoint::{ConnectionHandle, Endpoint},
    recovery::RecoveryStats,
    time::Instant,
    units::{PathId, Rate},
};

use crate::{
    apps::{PatternClient, PatternServer},
    tls,
};

/// More than any trial moves.
const ENDLESS: u64 = 1 << 40;

/// One download.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The sender's congestion controller.
    pub congestion: SharedControllerFactory,
    /// When the client connects.
    pub start: Duration,
    /// Bytes to fetch.
    pub size: u64,
    /// One-way delay between the client and the bottleneck.
    pub access: Duration,
    /// When the client closes the connection, whatever is still to come.
    pub stop: Option<Duration>,
}

impl Flow {
    /// A download without end under the controller of this name.
    ///
    /// # Panics
    /// When there is no such controller.
    pub fn endless(congestion: &str) -> Self {
        let congestion = registry::by_name(congestion)
            .unwrap_or_else(|| panic!("no controller is called {congestion}"));
        Self {
            congestion,
            start: Duration::ZERO,
            size: ENDLESS,
            access: Duration::ZERO,
            stop: None,
        }
    }

    /// The same, with another controller.
    #[must_use]
    pub fn with(mut self, congestion: SharedControllerFactory) -> Self {
        self.congestion = congestion;
        self
    }

    /// The same, starting later.
    #[must_use]
    pub fn starting(mut self, start: Duration) -> Self {
        self.start = start;
        self
    }

    /// The same, with a client that is so much further from the bottleneck, each way.
    #[must_use]
    pub fn further(mut self, access: Duration) -> Self {
        self.access = access;
        self
    }

    /// The same, closed by the client at that time.
    #[must_use]
    pub fn stopping(mut self, stop: Duration) -> Self {
        self.stop = Some(stop);
        self
    }

    /// The same, of so many bytes.
    #[must_use]
    pub fn of(mut self, size: u64) -> Self {
        self.size = size;
        self
    }
}

/// Downloads over one bottleneck.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Seed of everything random.
    pub seed: u64,
    /// The bottleneck; `backward` carries the data.
    pub link: LinkConfig,
    /// The downloads, each from a server of its own to a client of its own.
    pub flows: Vec<Flow>,
    /// Both ends of every flow, apart from the controller.
    pub transport: TransportConfig,
    /// Later states of the bottleneck and when they begin.
    pub changes: Vec<(Duration, LinkConfig)>,
    /// Time between two samples.
    pub step: Duration,
}

impl Trial {
    /// One endless download with default behaviour.
    ///
    /// # Panics
    /// When there is no such controller.
    pub fn new(seed: u64, link: LinkConfig, congestion: &str) -> Self {
        Self::of(seed, link, [Flow::endless(congestion)])
    }

    /// These downloads with default behaviour.
    pub fn of(seed: u64, link: LinkConfig, flows: impl IntoIterator<Item = Flow>) -> Self {
        Self {
            seed,
            link,
            flows: flows.into_iter().collect(),
            transport: TransportConfig::default(),
            changes: Vec::new(),
            step: Duration::from_millis(100),
        }
    }

    /// Runs for `duration`, or until every download is complete.
    pub fn run(&self, duration: Duration) -> Report {
        let mut running = self.build();
        let end = Instant::ZERO + duration;
        while running.world.now() < end {
            running.world.run_for(self.step);
            running.sample();
            if running.is_over() {
                break;
            }
        }
        running.report(self)
    }

    fn build(&self) -> Running {
        let mut world = World::new(self.seed);
        let near = world.add_router();
        let far = world.add_router();
        let link = world.connect(near, far, self.link.clone());
        for (at, config) in &self.changes {
            let config = config.clone();
            world.schedule(Instant::ZERO + *at, move |world| {
                world
                    .set_direction(link, Direction::Forward, config.forward)
                    .and_then(|()| world.set_direction(link, Direction::Backward, config.backward))
                    .unwrap_or_else(|error| panic!("a change of the link: {error}"));
            });
        }
        let access = LinkConfig::symmetric(DirectionConfig::default());
        let mut hosts = Vec::new();
        for (index, flow) in self.flows.iter().enumerate() {
            let number = index as u8 + 1;
            let (client_at, server_at) = (
                SocketAddr::from(([10, 0, number, 1], 50_000)),
                SocketAddr::from(([10, 0, number, 2], 443)),
            );
            let seed = self.seed.wrapping_mul(1009).wrapping_add(index as u64);
            let mut transport = self.transport.clone();
            transport.congestion = flow.congestion.clone();
            let transport = Arc::new(transport);
            let mut config = ServerConfig::new(Arc::new(tls::server(seed)));
            config.transport = Arc::clone(&transport);
            let endpoint = Endpoint::new(
                Arc::new(EndpointConfig::default()),
                Some(Arc::new(config)),
                world.rng(2 * index as u64 + 1),
            );
            let server = QuicHost::new(endpoint, server_at, PatternServer::default());
            let mut config = ClientConfig::new(Arc::new(tls::client(seed.wrapping_add(1))));
            config.transport = transport;
            let endpoint = Endpoint::new(
                Arc::new(EndpointConfig::default()),
                None,
                world.rng(2 * index as u64 + 2),
            );
            let client = PatternClient::new(config, server_at, &[flow.size]);
            let app = Starter {
                stop: flow.stop.map(|stop| Instant::ZERO + stop),
                ..Starter::new(Instant::ZERO + flow.start, client)
            };
            let client = QuicHost::new(endpoint, client_at, app);
            let client = world.add_host(client_at, Box::new(client));
            let server = world.add_host(server_at, Box::new(server));
            let mut further = access.clone();
            further.forward.delay = flow.access;
            further.backward.delay = flow.access;
            world.connect(client, near, further);
            world.connect(far, server, access.clone());
            hosts.push((client, server));
        }
        Running {
            world,
            link,
            histories: vec![Vec::new(); hosts.len()],
            hosts,
        }
    }
}

/// A client that connects, and closes, when its time has come.
pub(crate) struct Starter {
    start: Option<Instant>,
    stop: Option<Instant>,
    /// Whether it closed a connection that was alive.
    stopped: bool,
    client: PatternClient,
}

impl Starter {
    pub(crate) fn new(start: Instant, client: PatternClient) -> Self {
        Self {
            start: Some(start),
            stop: None,
            stopped: false,
            client,
        }
    }

    pub(crate) fn client(&self) -> &PatternClient {
        &self.client
    }
}

impl App for Starter {
    fn on_event(&mut self, cx: &mut Context<'_>, connection: ConnectionHandle, event: Event) {
        self.client.on_event(cx, connection, event);
    }

    fn on_timer(&mut self, cx: &mut Context<'_>) {
        if self.start.take_if(|start| *start <= cx.now).is_some() {
            self.client.on_start(cx);
        }
        if self.stop.take_if(|stop| *stop <= cx.now).is_some()
            && self.client.ended.is_none()
            && let Some(handle) = self.client.handle
        {
            let now = cx.now;
            if let Some(connection) = cx.connection(handle) {
                connection.close(now, 0, bytes::Bytes::new());
                self.stopped = true;
            }
        }
    }

    fn poll_timer(&self) -> Option<Instant> {
        self.start.into_iter().chain(self.stop).min()
    }
}

/// A flow at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When.
    pub at: Instant,
    /// Bytes delivered in order.
    pub received: u64,
    /// The sender's smoothed RTT.
    pub rtt: Duration,
    /// The sender's bytes in flight.
    pub in_flight: u64,
    /// The sender's controller.
    pub congestion: ControllerMetrics,
    /// The sender's counters.
    pub recovery: RecoveryStats,
}

struct Running {
    world: World,
    link: LinkId,
    hosts: Vec<(HostId, HostId)>,
    histories: Vec<Vec<Sample>>,
}

impl Running {
    fn client(&self, host: HostId) -> &PatternClient {
        &self.world.node::<QuicHost<Starter>>(host).app().client
    }

    fn is_over(&self) -> bool {
        self.hosts.iter().all(|&(client, _)| {
            let client = self.client(client);
            client.is_done() || client.ended.is_some()
        })
    }

    fn sample(&mut self) {
        let at = self.world.now();
        for (&(client, server), history) in self.hosts.iter().zip(&mut self.histories) {
            let received = self
                .world
                .node::<QuicHost<Starter>>(client)
                .app()
                .client
                .fetches
                .iter()
                .map(|fetch| fetch.received)
                .sum();
            let path = self
                .world
                .node::<QuicHost<PatternServer>>(server)
                .connections()
                .next()
                .and_then(|(_, connection)| connection.path_stats(PathId::ZERO));
            let Some(path) = path else { continue };
            history.push(Sample {
                at,
                received,
                rtt: path.rtt,
                in_flight: path.bytes_in_flight,
                congestion: path.congestion,
                recovery: path.recovery,
            });
        }
    }

    fn report(self, trial: &Trial) -> Report {
        let mut flows = Vec::new();
        for ((&(client, server), flow), history) in
            self.hosts.iter().zip(&trial.flows).zip(&self.histories)
        {
            let stopped = self.world.node::<QuicHost<Starter>>(client).app().stopped;
            let client = self.client(client);
            let server: &PatternServer = self.world.node::<QuicHost<PatternServer>>(server).app();
            // A connection that was closed on purpose did not fail.
            let done = client.is_done() || stopped;
            let error = client
                .ended
                .clone()
                .filter(|_| !done)
                .or_else(|| server.ended.first().cloned().filter(|_| !done));
            assert_eq!(client.corrupt_at, None, "bytes arrive as they were sent");
            flows.push(FlowReport {
                start: flow.start,
                finished: client.finished_at(),
                error: error.map(|error| error.to_string()),
                history: history.clone(),
            });
        }
        Report {
            flows,
            end: self.world.now(),
            capacity: trial.link.backward.mean_rate(),
            down: self.world.link_stats(self.link, Direction::Backward),
            up: self.world.link_stats(self.link, Direction::Forward),
        }
    }
}

/// What came of a [`Trial`].
#[derive(Clone, Debug)]
pub struct Report {
    /// One entry per flow, in order.
    pub flows: Vec<FlowReport>,
    /// When the trial was over.
    pub end: Instant,
    /// The bottleneck's rate towards the clients.
    pub capacity: Option<Rate>,
    /// The bottleneck towards the clients.
    pub down: DirectionStats,
    /// The bottleneck towards the servers.
    pub up: DirectionStats,
}

/// What came of one flow.
#[derive(Clone, Debug)]
pub struct FlowReport {
    /// When it began.
    pub start: Duration,
    /// When the last byte came, if all came.
    pub finished: Option<Instant>,
    /// Why it ended, if not by being complete.
    pub error: Option<String>,
    /// From the first sample with a connection at the server.
    pub history: Vec<Sample>,
}

impl FlowReport {
    /// Bytes delivered in order by then; the last sample at or before it counts.
    pub fn received_by(&self, at: Duration) -> u64 {
        let at = Instant::ZERO + at;
        self.history
            .iter()
            .take_while(|sample| sample.at <= at)
            .last()
            .map_or(0, |sample| sample.received)
    }

    /// Bits per second of application bytes between two moments.
    pub fn goodput(&self, from: Duration, to: Duration) -> f64 {
        let bytes = self.received_by(to).saturating_sub(self.received_by(from));
        bytes as f64 * 8.0 / to.saturating_sub(from).as_secs_f64()
    }

    /// The sender's counters at the end.
    pub fn recovery(&self) -> RecoveryStats {
        self.history
            .last()
            .map_or_else(RecoveryStats::default, |sample| sample.recovery)
    }

    /// Bytes in a sent packet on average, from a moment on.
    pub fn packet_bytes_after(&self, from: Duration) -> f64 {
        let from = Instant::ZERO + from;
        let before = self.history.iter().take_while(|sample| sample.at <= from);
        let before = before.last().map(|sample| sample.recovery);
        let (now, before) = (self.recovery(), before.unwrap_or_default());
        (now.bytes_sent - before.bytes_sent) as f64
            / (now.packets_sent - before.packets_sent).max(1) as f64
    }

    /// Share of sent packets declared lost.
    pub fn loss(&self) -> f64 {
        let recovery = self.recovery();
        recovery.packets_lost as f64 / recovery.packets_sent.max(1) as f64
    }
}

impl Report {
    /// The only flow.
    ///
    /// # Panics
    /// When there are several.
    pub fn flow(&self) -> &FlowReport {
        match self.flows.as_slice() {
            [flow] => flow,
            flows => panic!("{} flows", flows.len()),
        }
    }

    /// Goodput of all flows over the whole trial as a share of the link's rate.
    ///
    /// # Panics
    /// When the link has no rate.
    pub fn utilisation(&self) -> f64 {
        let end = self.end.since_origin();
        self.flows
            .iter()
            .map(|flow| flow.goodput(Duration::ZERO, end))
            .sum::<f64>()
            / self.bits_per_second()
    }

    /// The link's rate in bits per second.
    ///
    /// # Panics
    /// When it has none.
    pub fn bits_per_second(&self) -> f64 {
        self.capacity
            .map(|rate| rate.bits_per_second() as f64)
            .unwrap_or_else(|| panic!("the link has no rate"))
    }

    /// Jain's index over the flows' mean goodputs between two moments.
    pub fn jain(&self, from: Duration, to: Duration) -> f64 {
        let rates: Vec<f64> = self
            .flows
            .iter()
            .map(|flow| flow.goodput(from, to))
            .collect();
        let sum: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
        sum * sum / (rates.len() as f64 * squares)
    }
}

/// The middle one, or the mean of the two in the middle.
///
/// # Panics
/// When there is none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.get(middle) {
        Some(&upper) if values.len() % 2 == 1 => upper,
        Some(&upper) => (values[middle - 1] + upper) / 2.0,
        None => panic!("the median of nothing"),
    }
}
