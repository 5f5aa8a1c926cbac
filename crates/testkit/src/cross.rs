//! Downloads over a bottleneck whose return path carries other traffic too.
//!
//! Owns: [`CrossTrial`] (downloads, uploads and a constant-rate flow between the same two routers)
//! and what came of it. Does not own: controllers and policies, which come in the configurations.
//!
//! ```text
//! downloading clients, uploading hosts, source --- near ===link=== far --- their other ends
//! ```
//!
//! `link.forward` is the return path of the downloads: their ACKs, the uploads and the
//! constant-rate flow share it. `link.backward` carries the downloads, and the ACKs of the uploads.

use std::{any::Any, net::SocketAddr, sync::Arc, time::Duration};

use tautline_sim::{
    Datagram, Direction, DirectionConfig, DirectionStats, HostId, LinkConfig, LinkId, Node, World,
    quic::QuicHost,
};
use tautline_transport::{
    config::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig},
    endpoint::Endpoint,
    path::PathStats,
    recovery::RecoveryStats,
    time::Instant,
    units::{Ecn, PathId, Rate},
};

use crate::{
    apps::{PatternClient, PatternServer},
    figure::{Flow, Starter},
    tls,
};

/// Packets of equal size at equal distances, that nothing slows down.
#[derive(Clone, Copy, Debug)]
pub struct ConstantRate {
    /// Speed, counted in IP bytes.
    pub rate: Rate,
    /// Size of a packet in IP bytes; at least 40.
    pub packet_bytes: u32,
}

impl ConstantRate {
    /// 64 kb/s in packets of 200 bytes, like a telephone call.
    pub fn call() -> Self {
        Self {
            rate: Rate::from_bits_per_second(64_000),
            packet_bytes: 200,
        }
    }
}

/// Downloads with other traffic on their return path.
#[derive(Clone, Debug)]
pub struct CrossTrial {
    /// Seed of everything random.
    pub seed: u64,
    /// The bottleneck; `forward` is the return path.
    pub link: LinkConfig,
    /// Each from a server of its own on the far side to a client of its own on the near side.
    pub downloads: Vec<Flow>,
    /// Each from a server of its own on the near side to a client of its own on the far side.
    pub uploads: Vec<Flow>,
    /// From the near side to the far side.
    pub constant: Option<ConstantRate>,
    /// Both ends of every download, apart from the controller.
    pub transport: TransportConfig,
    /// Both ends of every upload, apart from the controller.
    pub upload_transport: TransportConfig,
    /// Time between two samples.
    pub step: Duration,
}

impl CrossTrial {
    /// These downloads with default behaviour and nothing beside them.
    pub fn of(seed: u64, link: LinkConfig, downloads: impl IntoIterator<Item = Flow>) -> Self {
        Self {
            seed,
            link,
            downloads: downloads.into_iter().collect(),
            uploads: Vec::new(),
            constant: None,
            transport: TransportConfig::default(),
            upload_transport: TransportConfig::default(),
            step: Duration::from_millis(500),
        }
    }

    /// With an endless CUBIC upload and 64 kb/s of constant-rate traffic, both from the start.
    #[must_use]
    pub fn with_cross_traffic(mut self) -> Self {
        self.uploads = vec![Flow::endless("cubic")];
        self.constant = Some(ConstantRate::call());
        self
    }

    /// Runs for `duration`, or until every download is complete if there is one.
    pub fn run(&self, duration: Duration) -> CrossReport {
        let mut running = self.build();
        let end = Instant::ZERO + duration;
        while running.world.now() < end {
            running.world.run_for(self.step);
            running.sample();
            if running.is_over() {
                break;
            }
        }
        running.report()
    }

    fn build(&self) -> Running {
        let mut world = World::new(self.seed);
        let near = world.add_router();
        let far = world.add_router();
        let link = world.connect(near, far, self.link.clone());
        let mut running = Running {
            world,
            link,
            downloads: Vec::new(),
            uploads: Vec::new(),
            constant: None,
        };
        let down = self.downloads.iter().map(|flow| (flow, true));
        let up = self.uploads.iter().map(|flow| (flow, false));
        for (index, (flow, is_download)) in down.chain(up).enumerate() {
            let number = index as u8 + 1;
            let near_ip = [10, 0, number, 1];
            let far_ip = [10, 0, number, 2];
            let (client_ip, server_ip, transport) = if is_download {
                (near_ip, far_ip, &self.transport)
            } else {
                (far_ip, near_ip, &self.upload_transport)
            };
            let seed = self.seed.wrapping_mul(1013).wrapping_add(index as u64);
            let (client, server) = running.add_flow(
                flow,
                transport,
                seed,
                SocketAddr::from((client_ip, 50_000)),
                SocketAddr::from((server_ip, 443)),
            );
            let (near_host, far_host) = if is_download {
                (client, server)
            } else {
                (server, client)
            };
            running.world.connect(near_host, near, access());
            running.world.connect(far, far_host, access());
            let hosts = FlowHosts {
                client,
                server,
                history: Vec::new(),
            };
            if is_download {
                running.downloads.push(hosts);
            } else {
                running.uploads.push(hosts);
            }
        }
        if let Some(constant) = self.constant {
            let source_at = SocketAddr::from(([10, 1, 0, 1], 5_000));
            let sink_at = SocketAddr::from(([10, 1, 0, 2], 5_000));
            let source = Source::new(constant, source_at, sink_at);
            let source = running.world.add_host(source_at, Box::new(source));
            let sink = running.world.add_host(sink_at, Box::new(Sink::default()));
            running.world.connect(source, near, access());
            running.world.connect(far, sink, access());
            running.constant = Some((source, sink, Vec::new()));
        }
        running
    }
}

/// What ties a host to its router: no limit, no delay.
fn access() -> LinkConfig {
    LinkConfig::symmetric(DirectionConfig::default())
}

/// Bytes delivered, by time.
type History = Vec<(Instant, u64)>;

struct FlowHosts {
    client: HostId,
    server: HostId,
    history: History,
}

struct Running {
    world: World,
    link: LinkId,
    downloads: Vec<FlowHosts>,
    uploads: Vec<FlowHosts>,
    constant: Option<(HostId, HostId, History)>,
}

impl Running {
    fn add_flow(
        &mut self,
        flow: &Flow,
        transport: &TransportConfig,
        seed: u64,
        client_at: SocketAddr,
        server_at: SocketAddr,
    ) -> (HostId, HostId) {
        let mut transport = transport.clone();
        transport.congestion = flow.congestion.clone();
        let transport = Arc::new(transport);
        let mut config = ServerConfig::new(Arc::new(tls::server(seed)));
        config.transport = Arc::clone(&transport);
        let label = seed.wrapping_mul(2);
        let endpoint = Endpoint::new(
            Arc::new(EndpointConfig::default()),
            Some(Arc::new(config)),
            self.world.rng(label),
        );
        let server = QuicHost::new(endpoint, server_at, PatternServer::default());
        let mut config = ClientConfig::new(Arc::new(tls::client(seed.wrapping_add(1))));
        config.transport = transport;
        let endpoint = Endpoint::new(
            Arc::new(EndpointConfig::default()),
            None,
            self.world.rng(label.wrapping_add(1)),
        );
        let client = PatternClient::new(config, server_at, &[flow.size]);
        let app = Starter::new(Instant::ZERO + flow.start, client);
        let client = QuicHost::new(endpoint, client_at, app);
        let client = self.world.add_host(client_at, Box::new(client));
        let server = self.world.add_host(server_at, Box::new(server));
        (client, server)
    }

    fn client(world: &World, host: HostId) -> &PatternClient {
        world.node::<QuicHost<Starter>>(host).app().client()
    }

    fn is_over(&self) -> bool {
        !self.downloads.is_empty()
            && self.downloads.iter().all(|hosts| {
                let client = Self::client(&self.world, hosts.client);
                client.is_done() || client.ended.is_some()
            })
    }

    fn sample(&mut self) {
        let at = self.world.now();
        for hosts in self.downloads.iter_mut().chain(&mut self.uploads) {
            let client = Self::client(&self.world, hosts.client);
            let received = client.fetches.iter().map(|fetch| fetch.received).sum();
            hosts.history.push((at, received));
        }
        if let Some((_, sink, history)) = &mut self.constant {
            let received = self.world.node::<Sink>(*sink).bytes;
            history.push((at, received));
        }
    }

    fn flow(&self, hosts: &FlowHosts) -> CrossFlow {
        let client = Self::client(&self.world, hosts.client);
        assert_eq!(client.corrupt_at, None, "bytes arrive as they were sent");
        let error = client.ended.clone().filter(|_| !client.is_done());
        let host = self.world.node::<QuicHost<Starter>>(hosts.client);
        let receiver = host.connections().next();
        let host = self.world.node::<QuicHost<PatternServer>>(hosts.server);
        let sender = host.connections().next();
        CrossFlow {
            finished: client.finished_at(),
            error: error.map(|error| error.to_string()),
            history: hosts.history.clone(),
            sender: sender.and_then(|(_, connection)| connection.path_stats(PathId::ZERO)),
            receiver: receiver.and_then(|(_, connection)| connection.path_stats(PathId::ZERO)),
        }
    }

    fn report(self) -> CrossReport {
        let constant = self.constant.as_ref().map(|(source, sink, history)| {
            let source = self.world.node::<Source>(*source);
            let sink = self.world.node::<Sink>(*sink);
            ConstantReport {
                sent_packets: source.sent,
                received_packets: sink.packets,
                mean_delay: sink.total_delay / u32::try_from(sink.packets.max(1)).unwrap_or(1),
                history: history.clone(),
            }
        });
        CrossReport {
            downloads: self.downloads.iter().map(|flow| self.flow(flow)).collect(),
            uploads: self.uploads.iter().map(|flow| self.flow(flow)).collect(),
            constant,
            end: self.world.now(),
            down: self.world.link_stats(self.link, Direction::Backward),
            up: self.world.link_stats(self.link, Direction::Forward),
        }
    }
}

/// What came of a [`CrossTrial`].
#[derive(Clone, Debug)]
pub struct CrossReport {
    /// One entry per download, in order.
    pub downloads: Vec<CrossFlow>,
    /// One entry per upload, in order.
    pub uploads: Vec<CrossFlow>,
    /// The constant-rate flow, if there was one.
    pub constant: Option<ConstantReport>,
    /// When the trial was over.
    pub end: Instant,
    /// The bottleneck towards the downloading clients.
    pub down: DirectionStats,
    /// The return path.
    pub up: DirectionStats,
}

/// What came of one connection.
#[derive(Clone, Debug)]
pub struct CrossFlow {
    /// When the last byte came, if all came.
    pub finished: Option<Instant>,
    /// Why it ended, if not by being complete.
    pub error: Option<String>,
    /// Bytes delivered in order, by time.
    pub history: Vec<(Instant, u64)>,
    /// The data sender's view of the path at the end; `None` once its connection is gone.
    pub sender: Option<PathStats>,
    /// The data receiver's.
    pub receiver: Option<PathStats>,
}

/// What came of the constant-rate flow.
#[derive(Clone, Debug)]
pub struct ConstantReport {
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets that arrived.
    pub received_packets: u64,
    /// How long they took on average.
    pub mean_delay: Duration,
    /// IP bytes arrived, by time.
    pub history: Vec<(Instant, u64)>,
}

/// Bits per second between two moments; each counts by the last sample at or before it.
fn rate(history: &[(Instant, u64)], from: Duration, to: Duration) -> f64 {
    let by = |at: Duration| {
        let at = Instant::ZERO + at;
        let before = history.iter().take_while(|(when, _)| *when <= at);
        before.last().map_or(0, |(_, bytes)| *bytes)
    };
    let bytes = by(to).saturating_sub(by(from));
    bytes as f64 * 8.0 / to.saturating_sub(from).as_secs_f64()
}

impl CrossFlow {
    /// Bits per second of application bytes between two moments.
    pub fn goodput(&self, from: Duration, to: Duration) -> f64 {
        rate(&self.history, from, to)
    }

    /// Packets with nothing but an ACK that the receiver sent, per packet with data it received.
    ///
    /// # Panics
    /// When the receiver's connection is gone.
    pub fn acks_per_data_packet(&self) -> f64 {
        let acks = self.receiver.as_ref().expect("a connection").acks;
        acks.ack_only_sent as f64 / acks.data_packets_received.max(1) as f64
    }

    /// UDP payload bytes of the same, per packet with data.
    ///
    /// # Panics
    /// When the receiver's connection is gone.
    pub fn return_bytes_per_data_packet(&self) -> f64 {
        let acks = self.receiver.as_ref().expect("a connection").acks;
        acks.ack_only_bytes_sent as f64 / acks.data_packets_received.max(1) as f64
    }

    /// The sender's counters at the end.
    pub fn recovery(&self) -> RecoveryStats {
        self.sender
            .as_ref()
            .map_or_else(RecoveryStats::default, |path| path.recovery)
    }
}

impl ConstantReport {
    /// IP bits per second that arrived between two moments.
    pub fn rate(&self, from: Duration, to: Duration) -> f64 {
        rate(&self.history, from, to)
    }
}

impl CrossReport {
    /// The only download.
    ///
    /// # Panics
    /// When there is not exactly one.
    pub fn download(&self) -> &CrossFlow {
        match self.downloads.as_slice() {
            [flow] => flow,
            flows => panic!("{} downloads", flows.len()),
        }
    }

    /// Bits per second of everything but the downloads that arrived over the return path: the
    /// uploads' application bytes and the constant-rate flow's IP bytes.
    pub fn cross_rate(&self, from: Duration, to: Duration) -> f64 {
        let uploads: f64 = self.uploads.iter().map(|flow| flow.goodput(from, to)).sum();
        let constant = self.constant.as_ref();
        uploads + constant.map_or(0.0, |constant| constant.rate(from, to))
    }
}

/// Sends the constant-rate flow; each packet begins with the time it left.
struct Source {
    local: SocketAddr,
    remote: SocketAddr,
    payload_bytes: usize,
    interval: Duration,
    next: Instant,
    sent: u64,
    due: bool,
}

impl Source {
    fn new(constant: ConstantRate, local: SocketAddr, remote: SocketAddr) -> Self {
        let nanos = u64::from(constant.packet_bytes) * 8 * 1_000_000_000
            / constant.rate.bits_per_second().max(1);
        Self {
            local,
            remote,
            payload_bytes: constant.packet_bytes.saturating_sub(28).max(12) as usize,
            interval: Duration::from_nanos(nanos.max(1)),
            next: Instant::ZERO,
            sent: 0,
            due: false,
        }
    }
}

impl Node for Source {
    fn handle_datagram(&mut self, _now: Instant, _datagram: Datagram) {}

    fn handle_timeout(&mut self, now: Instant) {
        if now >= self.next {
            self.next += self.interval;
            self.due = true;
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        if !std::mem::take(&mut self.due) {
            return None;
        }
        self.sent += 1;
        let mut payload = now.as_nanos().to_be_bytes().to_vec();
        payload.resize(self.payload_bytes, 0);
        Some(Datagram {
            src: self.local,
            dst: self.remote,
            ecn: Ecn::NotEct,
            payload,
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Takes the constant-rate flow.
#[derive(Default)]
struct Sink {
    packets: u64,
    bytes: u64,
    total_delay: Duration,
}

impl Node for Sink {
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram) {
        self.packets += 1;
        self.bytes += u64::from(datagram.ip_bytes());
        if let Some(sent) = datagram.payload.first_chunk() {
            let taken = now.as_nanos().saturating_sub(u64::from_be_bytes(*sent));
            self.total_delay += Duration::from_nanos(taken);
        }
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Datagram> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
