//! Our own transport.

mod paths;

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc};

use bytes::Bytes;
use tautline_sim::{
    Node,
    quic::{App, Context, QuicHost},
    tls,
};
use tautline_transport::{
    ack,
    config::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig, WindowConfig},
    congestion::{
        self, CongestionController, ControllerContext, ControllerFactory, SharedControllerFactory,
    },
    connection::{Connection, ConnectionStats, Event},
    endpoint::{ConnectionHandle, Endpoint},
    error::ConnectionError,
    fec::{
        self, FecLab, FecStats,
        redundancy::{self, registry::RedundancyError},
    },
    message::{Expiry, MessageEvent, MessageOptions, SendMessageError},
    path::PathStats,
    stream::{
        ReadOutcome, StreamEvent,
        sched::{self, Priority},
    },
    time::{Instant, earliest},
    units::{Dir, StreamId},
};

use self::paths::Paths;
use super::{EndSetup, Inspection, OptionError, PathWire, Ready, Stack, StackOptions, WireStats};
use crate::session::{Fate, Half, HandOver, Happening, Nobody, Read, Session, StreamKey, Way};

/// What a 1-RTT packet with one DATAGRAM frame has around its data, but for the connection ID: header
/// byte, packet number, AEAD tag; frame type and length. RFC 9000 s17.3, RFC 9221 s4.
const DATAGRAM_FRAMING: u64 = 1 + 4 + 16 + 3;

/// The transport of this project.
#[derive(Clone, Debug, Default)]
pub struct Tautline {
    controllers: Vec<SharedControllerFactory>,
}

impl Tautline {
    /// The same, with one more congestion controller, under the name of its factory.
    #[must_use]
    pub fn with_controller(mut self, factory: SharedControllerFactory) -> Self {
        self.controllers.push(factory);
        self
    }

    /// The same, with one more congestion controller under this name, which `build` makes for each
    /// path.
    #[must_use]
    pub fn with_controller_fn<C: CongestionController + 'static>(
        self,
        name: &'static str,
        build: impl Fn(ControllerContext) -> C + Send + Sync + 'static,
    ) -> Self {
        self.with_controller(Arc::new(Built { name, build }))
    }

    /// The transport's configuration under these options, as both ends of a flow get it; also for
    /// those who want the same one on real sockets.
    ///
    /// # Errors
    /// The option, what is wrong with it, and the names that would do.
    pub fn transport(&self, options: &StackOptions) -> Result<TransportConfig, OptionError> {
        configure(self, options)
    }

    fn controller(&self, name: &str) -> Option<SharedControllerFactory> {
        let own = self.controllers.iter().find(|own| own.name() == name);
        own.cloned().or_else(|| congestion::registry::by_name(name))
    }
}

/// A factory that is a function.
struct Built<F> {
    name: &'static str,
    build: F,
}

impl<F> fmt::Debug for Built<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Built").field("name", &self.name).finish()
    }
}

impl<C, F> ControllerFactory for Built<F>
where
    C: CongestionController + 'static,
    F: Fn(ControllerContext) -> C + Send + Sync,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn build(&self, context: ControllerContext) -> Box<dyn CongestionController> {
        Box::new((self.build)(context))
    }
}

fn named<T>(
    option: &'static str,
    given: Option<&String>,
    find: impl Fn(&str) -> Option<T>,
    names: impl Iterator<Item = &'static str>,
) -> Result<Option<T>, OptionError> {
    let Some(name) = given else { return Ok(None) };
    find(name).map(Some).ok_or_else(|| OptionError {
        option,
        problem: format!("no {option} is called {name:?}"),
        names: names.map(str::to_owned).collect(),
    })
}

fn wrong(option: &'static str, problem: String) -> OptionError {
    OptionError {
        option,
        problem,
        names: Vec::new(),
    }
}

/// The transport's configuration under these options.
fn configure(ours: &Tautline, options: &StackOptions) -> Result<TransportConfig, OptionError> {
    let mut config = TransportConfig::default();
    let own = ours.controllers.iter().map(|factory| factory.name());
    if let Some(factory) = named(
        "congestion",
        options.congestion.as_ref(),
        |name| ours.controller(name),
        own.chain(congestion::registry::names()),
    )? {
        config.congestion = factory;
    }
    if options.rate.is_some() {
        let problem = "controllers find it out; only split-tcp is told";
        return Err(wrong("rate", problem.to_owned()));
    }
    let find = ack::registry::by_name;
    if let Some(factory) = named("ack", options.ack.as_ref(), find, ack::registry::names())? {
        config.ack_policy = factory;
    }
    let find = sched::registry::by_name;
    if let Some(factory) = named(
        "streams",
        options.streams.as_ref(),
        find,
        sched::registry::names(),
    )? {
        config.stream_scheduler = factory;
    }
    if let Some(scheduler) = &options.fec {
        config.fec.redundancy = redundancy::registry::parse(scheduler).map_err(|error| {
            // Who reads the plan lists the names, or the one that was meant.
            let (problem, names): (String, Vec<&str>) = match error {
                RedundancyError::Unknown(given) => (
                    format!("no redundancy scheduler is called {given:?}"),
                    redundancy::registry::names().collect(),
                ),
                error => (error.to_string(), Vec::new()),
            };
            OptionError {
                option: "fec",
                problem,
                names: names.into_iter().map(str::to_owned).collect(),
            }
        })?;
        config.fec.decode = config.fec.encodes();
    }
    if !config.fec.decode {
        let without = [
            (
                "fec_code",
                options.fec_code.is_some(),
                "says which code erasure correction uses",
            ),
            (
                "fec_window",
                options.fec_window.is_some(),
                "says how many source symbols erasure correction remembers",
            ),
            (
                "fec_datagrams",
                options.fec_datagrams.is_some(),
                "says whether erasure correction protects datagrams",
            ),
            (
                "fec_padding",
                options.fec_padding.is_some(),
                "says whether erasure correction makes its packets of one size",
            ),
            (
                "fec_mode",
                options.fec_mode.is_some(),
                "says how erasure correction departs from its rules",
            ),
        ];
        if let Some((option, _, says)) = without.iter().find(|(_, given, _)| *given) {
            let lacks = match &options.fec {
                Some(none) => format!("`fec` is {none:?}"),
                None => "there is no `fec`".to_owned(),
            };
            return Err(wrong(option, format!("{says}, and {lacks}")));
        }
    }
    if let Some(name) = &options.fec_code {
        let code = fec::code_by_name(name);
        config.fec.schemes = vec![code.map_err(|error| wrong("fec_code", error.to_string()))?];
    }
    if let Some(symbols) = options.fec_window {
        if !(1..=4095).contains(&symbols) {
            let problem = format!("{symbols} source symbols is not between 1 and 4095");
            return Err(wrong("fec_window", problem));
        }
        config.fec.decoder_symbols = symbols;
        config.fec.encoder_symbols = symbols;
    }
    if let Some(protect) = options.fec_datagrams {
        config.fec.protect_datagrams = protect;
    }
    if let Some(padding) = options.fec_padding {
        config.fec.padding = padding;
    }
    if let Some(modes) = &options.fec_mode {
        let lab = FecLab::parse(modes).map_err(|error| wrong("fec_mode", error.to_string()))?;
        config.fec.lab = lab;
    }
    if let Some(scheduler) = &options.multipath {
        paths::enable(&mut config, scheduler)?;
    }
    paths::route_acks(&mut config, options.ack_routing.as_ref())?;
    paths::allow_echoes(&mut config, options.path_echoes)?;
    paths::tune_windows(&mut config, options)?;
    if let Some(packets) = options.initial_window {
        if !(2..=10_000).contains(&packets) {
            let problem = format!("{packets} datagrams is not between 2 and 10000");
            return Err(wrong("initial_window", problem));
        }
        config.initial_window_packets = packets;
    }
    if options.window_tuning == Some(false) {
        config.stream_receive_window = WindowConfig::fixed(config.stream_receive_window.max);
        config.connection_receive_window =
            WindowConfig::fixed(config.connection_receive_window.max);
    }
    if let Some(size) = options.receive_window {
        if size.0 < 1200 || size.0 > 1 << 30 {
            let problem = format!("{size} is not between 1200 B and 1 GiB");
            return Err(wrong("receive_window", problem));
        }
        let share = options.receive_window_share.unwrap_or(1.0);
        let window = (size.0 as f64 * share) as u64;
        if !(share > 0.0 && share <= 8.0) || window < 1200 {
            let problem = format!(
                "{share} of {size} is not a window: between 0 and 8, so that at least 1200 B are left"
            );
            return Err(wrong("receive_window_share", problem));
        }
        config.stream_receive_window = WindowConfig::fixed(window);
        config.connection_receive_window = WindowConfig::fixed(window);
    } else if options.receive_window_share.is_some() {
        let problem = "is a share of `receive_window`, and there is none";
        return Err(wrong("receive_window_share", problem.to_owned()));
    }
    if let Some(size) = options.send_buffer {
        if size.0 < 1200 || size.0 > 1 << 30 {
            let problem = format!("{size} is not between 1200 B and 1 GiB");
            return Err(wrong("send_buffer", problem));
        }
        config.send_buffer_bytes = size.0;
    }
    if let Some(count) = options.max_streams {
        config.max_concurrent_bidi_streams = u64::from(count);
        config.max_concurrent_uni_streams = u64::from(count);
    }
    if let Some(on) = options.mtu_discovery {
        config.mtu.discovery = on;
    }
    if let Some(bytes) = options.mtu {
        if !(1200..=9000).contains(&bytes) {
            let problem = format!("{bytes} bytes is not between 1200 and 9000");
            return Err(wrong("mtu", problem));
        }
        config.mtu.initial = bytes;
        config.mtu.upper_bound = bytes.max(config.mtu.upper_bound);
    }
    if let Some(on) = options.pacing {
        config.pacing = on;
    }
    if let Some(on) = options.ecn {
        config.ecn = on;
    }
    if let Some(rtt) = options.initial_rtt {
        if rtt.0.is_zero() || rtt.0.as_secs() > 60 {
            return Err(wrong(
                "initial_rtt",
                format!("{:?} is not above 0 and at most 60 s", rtt.0),
            ));
        }
        config.initial_rtt = rtt.0;
    }
    if let Some(delay) = options.max_ack_delay {
        if delay.0.as_millis() >= 1 << 14 {
            return Err(wrong(
                "max_ack_delay",
                "at most 16383 ms (RFC 9000 s18.2)".to_owned(),
            ));
        }
        config.max_ack_delay = delay.0;
    }
    if let Some(timeout) = options.idle_timeout {
        config.max_idle_timeout = Some(timeout.0);
    }
    Ok(config)
}

impl Stack for Tautline {
    fn client(&self, options: &StackOptions, setup: EndSetup) -> Result<Box<dyn Node>, String> {
        let mut transport = configure(self, options).map_err(|error| error.problem)?;
        transport.observer = setup.watch.observer;
        let seed = setup.seed.wrapping_add(1);
        let tls = match setup.watch.keys {
            Some(keys) => tls::client_with_keys(seed, keys),
            None => tls::client(seed),
        };
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport = Arc::new(transport);
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, setup.rng);
        let ready = options.ready.unwrap_or_default();
        let paths = Paths::new(options.multipath.is_some(), setup.others, ready);
        let connect = Some((setup.start, config, setup.remote));
        let app = HalfApp::new(setup.half, connect, paths);
        Ok(Box::new(QuicHost::new(endpoint, setup.local, app)))
    }

    fn server(&self, options: &StackOptions, setup: EndSetup) -> Result<Box<dyn Node>, String> {
        let mut transport = configure(self, options).map_err(|error| error.problem)?;
        transport.observer = setup.watch.observer;
        let mut config = ServerConfig::new(Arc::new(tls::server(setup.seed)));
        config.transport = Arc::new(transport);
        let endpoint = Endpoint::new(
            Arc::new(EndpointConfig::default()),
            Some(Arc::new(config)),
            setup.rng,
        );
        let paths = Paths::new(options.multipath.is_some(), Vec::new(), Ready::Connected);
        let app = HalfApp::new(setup.half, None, paths);
        Ok(Box::new(QuicHost::new(endpoint, setup.local, app)))
    }

    fn inspect<'a>(&self, node: &'a dyn Any) -> Option<Inspection<'a>> {
        let host = node.downcast_ref::<QuicHost<HalfApp>>()?;
        let app = host.app();
        let alive = app
            .connection
            .and_then(|handle| host.connection(handle))
            .and_then(wire_stats);
        Some(Inspection {
            half: app.half.as_ref(),
            wire: alive.or(app.last),
        })
    }

    fn paths(&self, node: &dyn Any) -> Vec<PathWire> {
        let Some(host) = node.downcast_ref::<QuicHost<HalfApp>>() else {
            return Vec::new();
        };
        let app = host.app();
        let connection = app.connection.and_then(|handle| host.connection(handle));
        app.paths.all(connection)
    }

    fn datagram_limit(&self, options: &StackOptions, udp_payload: u16) -> u64 {
        let Ok(config) = configure(self, options) else {
            return u64::from(udp_payload);
        };
        let largest = match config.mtu.discovery {
            true => config.mtu.upper_bound,
            false => config.mtu.initial,
        };
        // The peer's connection ID has the length of ours. What erasure correction of datagrams takes
        // is left out, for it depends on the code.
        let id = EndpointConfig::default().connection_id_length;
        let around = DATAGRAM_FRAMING + id as u64;
        u64::from(largest.min(udp_payload)).saturating_sub(around)
    }

    fn check(&self, options: &StackOptions) -> Result<(), OptionError> {
        configure(self, options).map(|_| ())
    }

    fn defaults(&self) -> BTreeMap<String, String> {
        defaults(&TransportConfig::default())
    }
}

/// What of a configuration shows in figures, under the transport's names.
fn defaults(config: &TransportConfig) -> BTreeMap<String, String> {
    let bytes = |window: &WindowConfig| format!("{} to {} bytes", window.initial, window.max);
    let mtu = &config.mtu;
    let values: &[(&str, &dyn fmt::Debug)] = &[
        ("ack_frequency", &config.ack_frequency),
        (
            "datagram_receive_buffer_bytes",
            &config.datagram_receive_buffer_bytes,
        ),
        (
            "datagram_send_buffer_bytes",
            &config.datagram_send_buffer_bytes,
        ),
        ("ecn", &config.ecn),
        ("handshake_timeout", &config.handshake_timeout),
        ("initial_rtt", &config.initial_rtt),
        ("initial_window_packets", &config.initial_window_packets),
        ("keep_alive_interval", &config.keep_alive_interval),
        ("max_ack_delay", &config.max_ack_delay),
        (
            "max_concurrent_bidi_streams",
            &config.max_concurrent_bidi_streams,
        ),
        (
            "max_concurrent_uni_streams",
            &config.max_concurrent_uni_streams,
        ),
        ("max_idle_timeout", &config.max_idle_timeout),
        ("max_packet_threshold", &config.max_packet_threshold),
        ("mtu.discovery", &mtu.discovery),
        ("mtu.initial", &mtu.initial),
        ("mtu.raise_interval", &mtu.raise_interval),
        ("mtu.upper_bound", &mtu.upper_bound),
        ("pacing", &config.pacing),
        ("packet_threshold", &config.packet_threshold),
        (
            "persistent_congestion_threshold",
            &config.persistent_congestion_threshold,
        ),
        ("receive_timestamps", &config.receive_timestamps),
        ("send_buffer_bytes", &config.send_buffer_bytes),
        ("time_threshold", &config.time_threshold),
    ];
    let words = [
        ("ack_policy", config.ack_policy.name().to_owned()),
        ("congestion", config.congestion.name().to_owned()),
        (
            "connection_receive_window",
            bytes(&config.connection_receive_window),
        ),
        (
            "stream_receive_window",
            bytes(&config.stream_receive_window),
        ),
        (
            "stream_scheduler",
            config.stream_scheduler.name().to_owned(),
        ),
    ];
    let values = values
        .iter()
        .map(|(name, value)| (*name, format!("{value:?}")));
    let all = values.chain(words);
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What can be seen of a connection.
fn wire_stats(connection: &Connection) -> Option<WireStats> {
    let paths = connection
        .paths()
        .filter_map(|id| connection.path_stats(id));
    wire_of(&connection.stats(), paths, connection.fec_stats())
}

/// What can be seen of a connection of this transport, wherever it runs. Of all paths together: windows,
/// rates and counts are summed, round-trip times the least. `None` without a path.
pub fn wire_of(
    stats: &ConnectionStats,
    paths: impl Iterator<Item = PathStats>,
    fec: FecStats,
) -> Option<WireStats> {
    let paths = paths.map(|path| WireStats {
        rtt: Some(path.rtt),
        min_rtt: Some(path.min_rtt),
        window: path.congestion.window,
        pacing_rate: path.congestion.pacing_rate,
        in_flight: Some(path.bytes_in_flight),
        packets_sent: path.recovery.packets_sent,
        packets_lost: path.recovery.packets_lost,
        spurious_losses: Some(path.recovery.spurious_losses),
        ptos: Some(path.recovery.ptos),
        ..WireStats::default()
    });
    let all = paths.reduce(WireStats::beside)?;
    Some(WireStats {
        datagrams_sent: stats.datagrams_sent,
        bytes_sent: stats.bytes_sent,
        acks_sent: [0x02, 0x03, PATH_ACK, PATH_ACK + 1]
            .map(|kind| stats.frames_sent.of_type(kind))
            .iter()
            .sum(),
        fec: Some(fec),
        ..all
    })
}

/// The frame type of PATH_ACK; the next one has ECN counts. RFC 10069.
const PATH_ACK: u64 = 0x3e;

/// A [`Half`] on a [`QuicHost`]: one connection, the first.
struct HalfApp {
    half: Box<dyn Half>,
    connect: Option<(Instant, ClientConfig, std::net::SocketAddr)>,
    connection: Option<ConnectionHandle>,
    /// The transport when the connection ended.
    last: Option<WireStats>,
    paths: Paths,
}

impl HalfApp {
    fn new(
        half: Box<dyn Half>,
        connect: Option<(Instant, ClientConfig, std::net::SocketAddr)>,
        paths: Paths,
    ) -> Self {
        Self {
            half,
            connect,
            connection: None,
            last: None,
            paths,
        }
    }

    fn tell(&mut self, cx: &mut Context<'_>, happening: Happening) {
        let now = cx.now;
        if let Some(connection) = self.connection.and_then(|handle| cx.connection(handle)) {
            let mut session = Ours { now, connection };
            self.half.on(&mut session, happening);
        }
    }

    fn accept(&mut self, cx: &mut Context<'_>, dir: Dir) {
        while let Some(id) = self
            .connection
            .and_then(|handle| cx.connection(handle))
            .and_then(|connection| connection.accept_stream(dir))
        {
            self.tell(cx, Happening::Opened(StreamKey(id.0)));
        }
    }
}

impl App for HalfApp {
    fn on_accepted(&mut self, _cx: &mut Context<'_>, connection: ConnectionHandle) {
        self.connection.get_or_insert(connection);
    }

    fn on_event(&mut self, cx: &mut Context<'_>, handle: ConnectionHandle, event: Event) {
        if self.connection != Some(handle) {
            return;
        }
        match event {
            Event::Connected => {
                let now = cx.now;
                let connection = cx.connection(handle);
                if connection.is_none_or(|it| self.paths.on_connected(now, it)) {
                    self.tell(cx, Happening::Connected);
                }
            }
            Event::Path(event) => {
                let now = cx.now;
                let connection = cx.connection(handle);
                if connection.is_some_and(|it| self.paths.on_event(now, it, &event)) {
                    self.tell(cx, Happening::Connected);
                }
            }
            Event::Stream(StreamEvent::Opened(dir)) => self.accept(cx, dir),
            Event::Stream(StreamEvent::Readable(id)) => {
                self.tell(cx, Happening::Readable(StreamKey(id.0)));
            }
            Event::Stream(StreamEvent::Writable(id)) => {
                self.tell(cx, Happening::Writable(StreamKey(id.0)));
            }
            Event::Stream(StreamEvent::Available(_)) => self.tell(cx, Happening::MayOpen),
            Event::DatagramReceived => self.tell(cx, Happening::Datagram),
            Event::Message(MessageEvent::Fate(report)) => {
                let (fate, recovered) = (report.fate, report.recovered);
                self.tell(cx, Happening::Fate(Fate { fate, recovered }));
            }
            Event::Message(MessageEvent::Unblocked) => self.tell(cx, Happening::MayOpen),
            Event::Lost(error) => {
                let now = cx.now;
                if let Some(connection) = cx.connection(handle) {
                    self.last = wire_stats(connection);
                    self.paths.note(now, connection);
                }
                let reason = match error {
                    ConnectionError::LocallyClosed => None,
                    ConnectionError::PeerApplication { code: 0, .. } => None,
                    error => Some(error.to_string()),
                };
                self.tell(cx, Happening::Closed(reason));
            }
            _ => {}
        }
    }

    fn on_settled(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        if let Some(connection) = self.connection.and_then(|handle| cx.connection(handle)) {
            self.paths.on_settled(now, connection);
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_>) {
        if let Some((start, _, _)) = &self.connect
            && *start <= cx.now
            && let Some((_, config, remote)) = self.connect.take()
        {
            match cx.connect(config, remote, "localhost") {
                Ok(handle) => self.connection = Some(handle),
                Err(error) => {
                    let mut nobody = Nobody(cx.now);
                    self.half
                        .on(&mut nobody, Happening::Closed(Some(error.to_string())));
                }
            }
        }
        let now = cx.now;
        if self.half.poll_timer().is_some_and(|at| at <= now) {
            match self.connection.and_then(|handle| cx.connection(handle)) {
                Some(connection) => self.half.on_timer(&mut Ours { now, connection }),
                None => self.half.on_timer(&mut Nobody(now)),
            }
        }
    }

    fn poll_timer(&self) -> Option<Instant> {
        let start = self.connect.as_ref().map(|(start, _, _)| *start);
        earliest(start, self.half.poll_timer())
    }
}

struct Ours<'a> {
    now: Instant,
    connection: &'a mut Connection,
}

impl Session for Ours<'_> {
    fn now(&self) -> Instant {
        self.now
    }

    fn open(&mut self, way: Way) -> Option<StreamKey> {
        let dir = match way {
            Way::Both => Dir::Bi,
            Way::Out => Dir::Uni,
        };
        self.connection.open_stream(dir).map(|id| StreamKey(id.0))
    }

    fn write(&mut self, stream: StreamKey, data: &mut Bytes) -> usize {
        self.connection
            .write_bytes(StreamId(stream.0), data)
            .unwrap_or(0)
    }

    fn finish(&mut self, stream: StreamKey) {
        // A stream that the peer stopped or that is over needs no end.
        let _ = self.connection.finish(StreamId(stream.0));
    }

    fn reset(&mut self, stream: StreamKey) {
        let _ = self.connection.reset(StreamId(stream.0), 0);
    }

    fn read(&mut self, stream: StreamKey) -> Read {
        match self.connection.read(StreamId(stream.0), usize::MAX) {
            Ok(ReadOutcome::Chunk(data)) => Read::Chunk(data),
            Ok(ReadOutcome::Blocked) => Read::Blocked,
            Ok(ReadOutcome::Finished) => Read::Finished,
            Err(_) => Read::Gone,
        }
    }

    fn stop(&mut self, stream: StreamKey) {
        let _ = self.connection.stop(StreamId(stream.0), 0);
    }

    fn prioritise(&mut self, stream: StreamKey, urgency: u8, incremental: bool) {
        self.connection.set_priority(
            StreamId(stream.0),
            Priority {
                urgency,
                incremental,
            },
        );
    }

    fn send_datagram(&mut self, data: Bytes) -> bool {
        self.connection.send_datagram(data).is_ok()
    }

    fn receive_datagram(&mut self) -> Option<Bytes> {
        self.connection.recv_datagram()
    }

    fn send_message(
        &mut self,
        data: &Bytes,
        deadline: Option<Instant>,
        expiry: Expiry,
    ) -> HandOver {
        let options = MessageOptions {
            deadline,
            expiry,
            ..MessageOptions::default()
        };
        let sent = self
            .connection
            .send_message(self.now, data.clone(), &options);
        match sent {
            Ok(_) => HandOver::Taken,
            Err(SendMessageError::Blocked(_)) => HandOver::Full,
            Err(_) => HandOver::Refused,
        }
    }

    fn next_message_at(&mut self, at: Instant) {
        self.connection.next_message_at(Some(at));
    }

    fn close(&mut self) {
        self.connection.close(self.now, 0, Bytes::new());
    }
}
