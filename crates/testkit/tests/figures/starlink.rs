//! The named link `starlink` against what was measured on one.
//!
//! A transfer of 100 MB with `cubic`, messages of 5-25 kB 25 times a second, and pings; uploads go
//! over the reversed link, so that the same programs run. Everything is read from the packet log:
//! the RTT of a packet ends when the first packet that was sent back after its arrival arrives;
//! a loss event is a run of consecutive lost packets, and lasts from when the first of them was
//! offered to the link to when the last was.
//!
//! Rows that are printed but not claimed, and why:
//! - Loss of bulk uploads (0.6-0.7 %). `cubic` answers a loss by going slower: at 100 ms single
//!   losses of 2 % would leave it about 1 Mb/s (RFC 5348's simple formula), so that 2 % need
//!   overflows that lose many packets at once. Among the queues tried while fitting (200 to
//!   350 kB, ripples of 0.3 to 0.7, uploads of 30 MB) the loss was never above 1.4 %, and that
//!   one missed the published RTTs.
//! - Durations of loss events down. Most last tens of microseconds, as published, but they are
//!   overflows by bursts at 1 Gb/s, so that their lengths come in steps of a packet (12 us).
//!   Events of milliseconds would have to be drawn, and `cubic` slows down after each: gaps of
//!   1.4-14 ms every 1.2 s left 83 Mb/s, a median RTT of 69 ms and a p95 of 73 us still, and
//!   messages lost 0.49 %.
//! - The least idle RTT is an extreme: 24 runs of two minutes saw 22.4 ms, other draws saw 17.7
//!   and 19.1.
//! - The 99th percentile of the RTT of bulk downloads and the share of their loss events that
//!   hit several packets hang on the few transfers that meet a low rate: 218 ms and 81 % in one
//!   draw of 24 transfers, 242 ms and 67 % in another, 261 ms and 79 % in a third.
//! - So does the loss of bulk downloads: 1.59, 1.74 and 1.81 % in three draws of 24 transfers.
//! - Durations of the rare long events of messages move with a handful of events per run.
//! - The goodput of one download: the thesis leaves open why it was below its speed tests, which
//!   the rate of the link is taken from.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use tautline_sim::{
    Direction, DirectionConfig, HostId, LinkConfig, LinkId, Outcome, PacketRecord, World, links,
    quic::{App, Context, QuicHost},
};
use tautline_testkit::{
    apps::{PatternClient, PatternServer},
    tls,
};
use tautline_transport::{
    config::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig},
    connection::Event,
    endpoint::{ConnectionHandle, Endpoint},
    stream::{ReadOutcome, StreamEvent},
    time::Instant,
    units::{Dir, Rate},
};

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

/// Bytes of a transfer.
const BULK: u64 = 100_000_000;

const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 50_000);
const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 443);

/// A client, the link, and a server behind a gigabit Ethernet.
struct Bench {
    world: World,
    client: HostId,
    link: LinkId,
}

/// Without pacing, as the client that was measured.
fn endpoints(seed: u64) -> (Endpoint, Endpoint, ClientConfig) {
    let mut transport = TransportConfig::default();
    transport.congestion = tautline_transport::congestion::registry::by_name("cubic").unwrap();
    transport.pacing = false;
    let transport = Arc::new(transport);
    let world = World::new(seed);
    let mut server = ServerConfig::new(Arc::new(tls::server(seed)));
    server.transport = Arc::clone(&transport);
    let endpoint = Arc::new(EndpointConfig::default());
    let server = Endpoint::new(Arc::clone(&endpoint), Some(Arc::new(server)), world.rng(1));
    let mut config = ClientConfig::new(Arc::new(tls::client(seed + 1)));
    config.transport = transport;
    (Endpoint::new(endpoint, None, world.rng(2)), server, config)
}

/// `forward` of `link` is the way from the client. The bottleneck stands next to the client; an
/// Ethernet of 1 Gb/s lies between it and the server.
fn bench<C: App, S: App>(
    seed: u64,
    link: LinkConfig,
    client: QuicHost<C>,
    server: QuicHost<S>,
) -> Bench {
    let mut world = World::new(seed);
    let client = world.add_host(SocketAddr::from(CLIENT), Box::new(client));
    let server = world.add_host(SocketAddr::from(SERVER), Box::new(server));
    let router = world.add_router();
    let near = world.add_router();
    let ethernet = || {
        LinkConfig::symmetric(DirectionConfig {
            rate: Some(Rate::from_bits_per_second(1_000_000_000)),
            ..DirectionConfig::default()
        })
    };
    world.connect(client, near, ethernet());
    let link = world.connect(near, router, link);
    world.connect(router, server, ethernet());
    world.enable_log(20_000_000);
    Bench {
        world,
        client,
        link,
    }
}

/// What one run showed.
#[derive(Default)]
struct Seen {
    rtts: Vec<f64>,
    /// Without the time that the receiver took to answer: what a ping sees.
    pings: Vec<f64>,
    events: Vec<(u64, f64)>,
    offered: u64,
    lost: u64,
    /// Offered to the link, in Mb/s.
    rates: Vec<f64>,
}

/// `data`: the direction in which the data goes.
fn look(world: &World, link: LinkId, data: Direction) -> Seen {
    let mine = |r: &&PacketRecord| r.link == link;
    let records: Vec<&PacketRecord> = world.log().iter().filter(mine).collect();
    let mut seen = Seen::default();
    let mut back: Vec<(Instant, Instant)> = Vec::new();
    for record in &records {
        if let Outcome::Arrives(at) = record.outcome
            && record.direction != data
        {
            back.push((record.time, at));
        }
    }
    let mut run: Option<(u64, Instant, Instant)> = None;
    for record in records.iter().filter(|r| r.direction == data) {
        seen.offered += 1;
        match record.outcome {
            Outcome::Arrives(at) => {
                if let Some((count, first, last)) = run.take() {
                    seen.events
                        .push((count, last.saturating_since(first).as_secs_f64() * 1e6));
                }
                // What acknowledges it leaves after it came.
                let answer = back.partition_point(|(sent, _)| *sent < at);
                if let Some((sent, answered)) = back.get(answer) {
                    let rtt = answered.saturating_since(record.time);
                    let rest = sent.saturating_since(at);
                    seen.rtts.push(rtt.as_secs_f64() * 1e3);
                    seen.pings
                        .push(rtt.saturating_sub(rest).as_secs_f64() * 1e3);
                }
            }
            _ => {
                seen.lost += 1;
                run = Some(match run {
                    Some((count, first, _)) => (count + 1, first, record.time),
                    None => (1, record.time, record.time),
                });
            }
        }
    }
    let bytes: u64 = records
        .iter()
        .filter(|r| r.direction == data)
        .map(|r| u64::from(r.ip_bytes))
        .sum();
    seen.rates
        .push(bytes as f64 * 8e-6 / world.now().as_nanos() as f64 * 1e9);
    seen
}

/// The link with the data going from server to client: `down` as it is, `up` reversed.
fn way(down: bool) -> LinkConfig {
    let link = links::by_name("starlink").expect("a known name");
    if down { link } else { link.reversed() }
}

fn bulk(seed: u64, down: bool) -> Seen {
    let (client, server, config) = endpoints(seed);
    let app = PatternClient::new(config, SocketAddr::from(SERVER), &[BULK]);
    let client = QuicHost::new(client, SocketAddr::from(CLIENT), app);
    let server = QuicHost::new(server, SocketAddr::from(SERVER), PatternServer::default());
    let mut bench = bench(seed, way(down), client, server);
    let host = bench.client;
    let done = |world: &World| !world.node::<QuicHost<PatternClient>>(host).app().is_done();
    bench
        .world
        .run_while(done, Instant::ZERO + Duration::from_secs(300));
    assert!(!done(&bench.world), "{:?}", bench.world.now());
    look(&bench.world, bench.link, Direction::Backward)
}

/// Messages for two minutes, or as many single bytes.
fn messages(seed: u64, down: bool, idle: bool) -> Seen {
    let (client, server, config) = endpoints(seed);
    let mut rng = World::new(seed).rng(9);
    let mut len = || 5_000 + (rng.unit_f64() * 20_001.0) as usize;
    let lens = (0..25 * 120).map(|_| if idle { 1 } else { len() });
    let app = Messages {
        config: Some(config),
        remote: SocketAddr::from(SERVER),
        lens: lens.collect(),
        sent: 0,
        next: None,
        handle: None,
    };
    let client = QuicHost::new(client, SocketAddr::from(CLIENT), app);
    let server = QuicHost::new(server, SocketAddr::from(SERVER), Sink);
    // The sender is the client: data goes forward.
    let mut bench = bench(seed, way(!down), client, server);
    let end = Instant::ZERO + Duration::from_secs(122);
    bench.world.run_until(end);
    look(&bench.world, bench.link, Direction::Forward)
}

fn merge(all: impl Iterator<Item = Seen>) -> Seen {
    let mut sum = Seen::default();
    for seen in all {
        sum.rtts.extend(seen.rtts);
        sum.pings.extend(seen.pings);
        sum.events.extend(seen.events);
        sum.offered += seen.offered;
        sum.lost += seen.lost;
        sum.rates.extend(seen.rates);
    }
    sum.rtts.sort_by(f64::total_cmp);
    sum.pings.sort_by(f64::total_cmp);
    sum.rates.sort_by(f64::total_cmp);
    sum.events.sort_by(|a, b| a.1.total_cmp(&b.1));
    sum
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let at = (share * last as f64).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

impl Seen {
    fn rtt(&self, share: f64) -> f64 {
        quantile(&self.rtts, share)
    }

    /// In percent.
    fn loss(&self) -> f64 {
        self.lost as f64 / self.offered as f64 * 100.0
    }

    /// In microseconds.
    fn event(&self, share: f64) -> f64 {
        let last = self.events.len().saturating_sub(1);
        let at = (share * last as f64).round() as usize;
        self.events
            .get(at)
            .map_or(f64::NAN, |(_, duration)| *duration)
    }

    /// Share of the loss events with more than one packet, in percent.
    fn multi(&self) -> f64 {
        let multi = self.events.iter().filter(|(count, _)| *count > 1).count();
        multi as f64 / self.events.len() as f64 * 100.0
    }
}

/// One published figure beside ours.
struct Row {
    name: &'static str,
    published: f64,
    measured: f64,
    /// Whether the model claims it, within 10 %.
    claimed: bool,
}

/// Seeds that were not used for fitting (1 to 12, 101 to 112, 201 to 224, 301 to 324
/// and 401 to 424 were).
fn fresh(count: u64) -> std::ops::Range<u64> {
    501..501 + count
}

fn rows() -> Vec<Row> {
    let down = merge(fresh(24).map(|seed| bulk(seed, true)));
    let up = merge(fresh(24).map(|seed| bulk(seed, false)));
    let to = merge(fresh(24).map(|seed| messages(seed, true, false)));
    let from = merge(fresh(24).map(|seed| messages(seed, false, false)));
    let idle = merge(fresh(24).map(|seed| messages(seed, true, true)));
    let row = |name, published, measured, claimed| Row {
        name,
        published,
        measured,
        claimed,
    };
    let (ping, rate) = (
        |x| quantile(&idle.pings, x),
        |s: &Seen| quantile(&s.rates, 0.5),
    );
    vec![
        row("idle RTT min, ms", 20.0, ping(0.0), false),
        row("idle RTT p50, ms", 49.0, ping(0.5), true),
        row("idle RTT p95, ms (below)", 70.0, ping(0.95), true),
        row("bulk down RTT p50, ms", 95.0, down.rtt(0.5), true),
        row("bulk down RTT p95, ms", 175.0, down.rtt(0.95), true),
        row("bulk down RTT p99, ms", 210.0, down.rtt(0.99), false),
        row("bulk up RTT p50, ms", 104.0, up.rtt(0.5), true),
        row("bulk up RTT p95, ms", 237.0, up.rtt(0.95), true),
        row("bulk up RTT p99, ms", 310.0, up.rtt(0.99), true),
        row("messages down RTT p50, ms", 50.0, to.rtt(0.5), true),
        row("messages down RTT p95, ms", 71.0, to.rtt(0.95), true),
        row("messages down RTT p99, ms", 87.0, to.rtt(0.99), true),
        row("messages up RTT p50, ms", 66.0, from.rtt(0.5), true),
        row("messages up RTT p95, ms", 87.0, from.rtt(0.95), true),
        row("messages up RTT p99, ms", 143.0, from.rtt(0.99), true),
        row("bulk down loss, %", 1.56, down.loss(), false),
        row("bulk up loss, %", 1.96, up.loss(), false),
        row("messages down loss, %", 0.40, to.loss(), true),
        row("messages up loss, %", 0.45, from.loss(), true),
        row("bulk down events of several, %", 75.0, down.multi(), false),
        row("bulk down events p50, us", 49.0, down.event(0.5), false),
        row("bulk down events p75, us", 58.0, down.event(0.75), false),
        row("bulk down events p90, us", 113.0, down.event(0.9), false),
        row("bulk down events p95, us", 1500.0, down.event(0.95), false),
        row("bulk down events p99, us", 7500.0, down.event(0.99), false),
        row("messages down events p95, us", 104e3, to.event(0.95), false),
        row("messages down events p99, us", 127e3, to.event(0.99), false),
        row("bulk up rate p50, Mb/s", 17.0, rate(&up), true),
        row("bulk down rate p50, Mb/s", 125.0, rate(&down), false),
    ]
}

#[test]
fn meets_the_published_quantiles() {
    let rows = rows();
    for row in &rows {
        let ratio = row.measured / row.published;
        let claim = if row.claimed { "" } else { " not claimed" };
        println!(
            "{:<40} {:>9.2} published {:>9.2} ours {ratio:>6.3}{claim}",
            row.name, row.published, row.measured
        );
    }
    for row in rows.iter().filter(|row| row.claimed) {
        let ratio = row.measured / row.published;
        let (low, high) = match row.name {
            name if name.ends_with("(below)") => (0.0, 1.0),
            _ => (0.9, 1.1),
        };
        assert!((low..=high).contains(&ratio), "{}: {ratio:.2}", row.name);
    }
}
