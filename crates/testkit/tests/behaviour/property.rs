//! Any interleaving of loss, reordering, duplication, corruption, rebinding, outages and API calls
//! delivers every byte once and in order, or ends with an error that says why.
//!
//! A case is a seed. `TAUTLINE_CASES` says how many to run (10,000 unless said otherwise),
//! `TAUTLINE_CASE` runs one and tells its story.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bytes::Bytes;
use tautline_sim::{
    Direction, DirectionConfig, Jitter, LinkConfig, LossModel, QueueSize, Rebind, Reordering,
    quic::QuicHost,
};
use tautline_testkit::apps::{Manual, pattern_byte};
use tautline_transport::{
    ack,
    config::{TransportConfig, WindowConfig},
    congestion,
    connection::{Connection, Event},
    error::ConnectionError,
    fec::{code_by_name, redundancy::registry as redundancy},
    rng::Rng,
    stream::{Protection, ReadError, ReadOutcome, sched},
    time::Instant,
    units::{Dir, Rate, Side, StreamId},
};

use crate::kit::{MS, Net, SECOND, Setup};

const DEFAULT_CASES: u64 = 10_000;

/// Of the connections whose addresses changed and that nobody closed, at least so many deliver
/// everything.
const MIN_DELIVERED: f64 = 0.9;
/// And no more than so many end in each other way.
const MOST: [(Outcome, f64); 4] = [
    (Outcome::NoViablePath, 0.02),
    (Outcome::HandshakeTimeout, 0.09),
    (Outcome::IdleTimeout, 0.02),
    (Outcome::StatelessReset, 0.01),
];

const REDUNDANCY: &[&str] = &[
    "none",
    "constant",
    "constant:2,1",
    "constant:3,2,20",
    "constant:65535,1",
    "constant:200,20,300",
    "auto",
    "quirl-object",
    "quirl-object:beta=1",
    "quirl-burst",
    "quirl-burst:0,0,beta=1",
    "quirl-burst:4294967295,60000",
    "tail",
    "flec-bulk",
    "flec-buffer",
    "flec-message",
    "ac-rlnc",
    "rquic",
    "rquic:slow-start=off",
];
const CODES: &[&str] = &[
    "rlc",
    "rlc-gf2",
    "tetrys",
    "reed-solomon",
    "xor",
    "xor:4",
    "xor:65535",
];

/// One direction of one stream.
#[derive(Debug, Default)]
struct Flow {
    written: u64,
    finished: bool,
    /// Code, and how much is delivered all the same.
    reset: Option<(u64, u64)>,
    /// The receiver refused the rest.
    stopped: Option<u64>,
    read: u64,
    /// The receiver saw the end or the reset.
    over: bool,
}

/// Direction of a stream, by who sends.
type FlowId = (Side, StreamId);

struct Case {
    rng: Rng,
    net: Net<Manual, Manual>,
    flows: BTreeMap<FlowId, Flow>,
    /// Application datagrams sent and not seen yet, by sender.
    datagrams: BTreeMap<Side, Vec<Vec<u8>>>,
    next_datagram: u64,
    /// Something happened that may rightly end the connection.
    closed: bool,
    disturbed: bool,
    /// Something was disturbed while one end at least did not have the handshake confirmed.
    disturbed_early: bool,
    /// The client speaks now and then, so that a new mapping of a NAT is soon found.
    client_speaks: bool,
    protected: bool,
    story: bool,
}

fn byte_of(id: StreamId, sender: Side, offset: u64) -> u8 {
    let lane = id.0 * 2 + u64::from(sender.is_server());
    pattern_byte(offset.wrapping_add(lane.wrapping_mul(0x9E37_79B9)))
}

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

fn millis(rng: &mut Rng, below: u64) -> Duration {
    Duration::from_millis(rng.below(below))
}

/// Corruption only where packets are protected.
fn direction(rng: &mut Rng, protected: bool) -> DirectionConfig {
    let rate = pick(rng, &[1, 5, 20, 100]) * 1_000_000;
    let delay = pick(rng, &[1, 5, 20, 100]);
    let mut config = DirectionConfig::new(
        Rate::from_bits_per_second(rate),
        Duration::from_millis(delay),
    );
    config.queue = pick(
        rng,
        &[
            QueueSize::Packets(5),
            QueueSize::Packets(25),
            QueueSize::Bdp(1.0),
            QueueSize::Unlimited,
        ],
    );
    config.mtu = pick(rng, &[1_228, 1_280, 1_400, 1_500, 1_500]);
    config.loss = match rng.below(4) {
        0 => LossModel::None,
        1 => LossModel::uniform(0.01),
        2 => LossModel::uniform(rng.unit_f64() * 0.2),
        _ => LossModel::Gilbert {
            probability: rng.unit_f64() * 0.1,
            mean_burst: 3.0,
            max_burst: None,
        },
    };
    if rng.below(4) == 0 && protected {
        config.corruption = LossModel::uniform(0.03);
    }
    if rng.below(3) == 0 {
        config.duplication = 0.1;
    }
    if rng.below(3) == 0 {
        config.reordering = Some(Reordering {
            probability: 0.2,
            extra: millis(rng, 50),
        });
    }
    if rng.below(3) == 0 {
        config.jitter = Some(Jitter::reorder(Duration::from_millis(delay) / 2));
    }
    config
}

fn transport(rng: &mut Rng, config: &mut TransportConfig) {
    let window = |rng: &mut Rng| {
        let initial = pick(rng, &[1_000, 20_000, 256 * 1024]);
        WindowConfig {
            initial,
            max: initial * pick(rng, &[1, 10, 100]),
        }
    };
    config.stream_receive_window = window(rng);
    config.connection_receive_window = window(rng);
    config.send_buffer_bytes = pick(rng, &[5_000, 100_000, 16 << 20]);
    config.max_concurrent_bidi_streams = pick(rng, &[1, 3, 100]);
    config.max_concurrent_uni_streams = pick(rng, &[1, 3, 100]);
    let schedulers: Vec<_> = sched::registry::names().collect();
    config.stream_scheduler = sched::registry::by_name(pick(rng, &schedulers)).expect("a name");
    let controllers: Vec<_> = congestion::registry::names().collect();
    config.congestion = congestion::registry::by_name(pick(rng, &controllers)).expect("a name");
    let policies: Vec<_> = ack::registry::names().collect();
    config.ack_policy = ack::registry::by_name(pick(rng, &policies)).expect("a name");
    config.pacing = rng.below(4) != 0;
    config.ecn = rng.below(2) == 0;
    config.grease = rng.below(2) == 0;
    config.ack_frequency = rng.below(4) != 0;
    config.mtu.discovery = rng.below(4) != 0;
    config.receive_timestamps = rng.below(4) == 0;
    config.keep_alive_interval = pick(rng, &[None, Some(SECOND)]);
    config.active_connection_id_limit = pick(rng, &[2, 3, 8]);
}

/// Erasure correction, with settings that nobody would choose among them.
fn protect(rng: &mut Rng, config: &mut TransportConfig) {
    let config = &mut config.fec;
    config.redundancy = redundancy::parse(pick(rng, REDUNDANCY)).expect("a scheduler");
    config.decode = rng.below(8) != 0;
    if rng.below(2) == 0 {
        config.schemes = (0..=rng.below(3))
            .map(|_| code_by_name(pick(rng, CODES)).expect("a code"))
            .collect();
    }
    config.decoder_symbols = pick(rng, &[1, 2, 5, 20, 256, 256, 4_095, u16::MAX]);
    config.encoder_symbols = pick(rng, &[0, 1, 2, 5, 20, 256, 256, 4_095, u16::MAX]);
    config.max_symbol_bytes = pick(rng, &[0, 1, 512, 700, 1_200, 1_500, 1_500, u16::MAX]);
    config.protect_datagrams = rng.below(2) == 0;
    config.padding = rng.below(4) == 0;
    config.lab.mask = rng.below(4) == 0;
    config.lab.repair_outside_cwnd = rng.below(4) == 0;
    let holds = [0, 1, 24, 400].map(Duration::from_millis);
    config.lab.hold = (rng.below(4) == 0).then(|| pick(rng, &holds));
}

impl Case {
    fn new(seed: u64, story: bool) -> Self {
        let mut rng = Rng::from_u64(seed);
        let protected = rng.below(10) == 0;
        let link = LinkConfig {
            forward: direction(&mut rng, protected),
            backward: direction(&mut rng, protected),
        };
        let mut setup = Setup::new(seed, link);
        if !protected {
            setup = setup.null_tls();
        }
        if !story {
            setup = setup.quiet();
        }
        transport(&mut rng, &mut setup.client);
        transport(&mut rng, &mut setup.server);
        if rng.below(3) == 0 {
            protect(&mut rng, &mut setup.client);
            protect(&mut rng, &mut setup.server);
        }
        let client_speaks = setup.client.keep_alive_interval.is_some();
        let net = setup.manual();
        Self {
            rng,
            net,
            flows: BTreeMap::new(),
            datagrams: BTreeMap::new(),
            next_datagram: 0,
            closed: false,
            disturbed: false,
            disturbed_early: false,
            client_speaks,
            protected,
            story,
        }
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.story {
            println!("{:?} {}", self.net.now(), what());
        }
    }

    /// Uses one end's connection, while it has one.
    fn on<R>(&mut self, side: Side, f: impl FnOnce(&mut Connection, Instant) -> R) -> Option<R> {
        let host = match side {
            Side::Client => self.net.client,
            Side::Server => self.net.server,
        };
        let now = self.net.now();
        let node = self.net.world.node_mut::<QuicHost<Manual>>(host);
        node.with_app(now, |app, cx| {
            let handle = app.handle?;
            cx.connection(handle).map(|connection| f(connection, now))
        })
    }

    fn ended(&self) -> bool {
        self.net.client_app().ended().is_some() || self.net.server_app().ended().is_some()
    }

    fn any_flow(&mut self) -> Option<FlowId> {
        let count = self.flows.len() as u64;
        let index = self.rng.below(count) as usize;
        self.flows.keys().nth(index).copied()
    }

    fn any_side(&mut self) -> Side {
        pick(&mut self.rng, &[Side::Client, Side::Server])
    }

    /// One random act, then perhaps some time.
    fn act(&mut self) {
        match self.rng.below(100) {
            0..=14 => self.open(),
            15..=39 => self.write(),
            40..=47 => self.finish_one(),
            48..=51 => self.reset(),
            52..=55 => self.stop(),
            56..=69 => self.read_some(),
            70..=73 => self.prioritise(),
            74..=77 => self.update_keys(),
            78..=79 => {
                let side = self.any_side();
                self.on(side, |connection, _| connection.ping());
            }
            80..=83 => self.rebind_client(),
            84..=87 => self.rebind_nat(),
            88..=93 => self.send_datagram(),
            94..=96 => self.outage(),
            97..=98 => {
                let forward = direction(&mut self.rng, self.protected);
                let changed =
                    self.net
                        .world
                        .set_direction(self.net.link, Direction::Forward, forward);
                assert!(changed.is_ok());
            }
            _ if self.rng.below(10) == 0 => self.close(),
            _ if self.rng.below(3) == 0 => self.change_protection(),
            _ => {}
        }
        if self.rng.below(2) == 0 {
            let time = millis(&mut self.rng, 120);
            self.net.run_for(time);
        }
    }

    fn change_protection(&mut self) {
        let side = self.any_side();
        let symbols = pick(&mut self.rng, &[0, 1, 2, 17, 256, u16::MAX]);
        self.tell(|| format!("{side:?} covers {symbols}"));
        self.on(side, |connection, _| connection.set_fec_window(symbols));
        let all = [Protection::Never, Protection::Always, Protection::default()];
        let protection = pick(&mut self.rng, &all);
        if let Some((side, id)) = self.any_flow() {
            self.on(side, |connection, _| {
                connection.set_protection(id, protection);
            });
        }
    }

    fn open(&mut self) {
        let side = self.any_side();
        let dir = pick(&mut self.rng, &[Dir::Bi, Dir::Uni]);
        let Some(Some(id)) = self.on(side, |connection, _| connection.open_stream(dir)) else {
            return;
        };
        self.tell(|| format!("{side:?} opens {id}"));
        self.flows.insert((side, id), Flow::default());
    }

    fn write(&mut self) {
        let Some((side, id)) = self.any_flow() else {
            return;
        };
        let wanted = pick(&mut self.rng, &[1, 100, 3_000, 40_000]);
        let start = self.flows[&(side, id)].written;
        let data: Vec<u8> = (start..start + wanted)
            .map(|offset| byte_of(id, side, offset))
            .collect();
        let zero_copy = self.rng.below(2) == 0;
        let Some(result) = self.on(side, |connection, _| {
            if zero_copy {
                connection.write_bytes(id, &mut Bytes::from(data))
            } else {
                connection.write(id, &data)
            }
        }) else {
            return;
        };
        let ended = self.ended();
        let Some(flow) = self.flows.get_mut(&(side, id)) else {
            return;
        };
        match result {
            Ok(taken) => {
                assert!(!flow.finished && flow.reset.is_none(), "{id} takes more");
                flow.written += taken as u64;
            }
            Err(error) => {
                let stopped = flow.stopped.is_some();
                let gave_up = flow.finished || flow.reset.is_some();
                assert!(stopped || gave_up || ended, "{id}: {error}");
            }
        }
        self.tell(|| format!("{side:?} writes {wanted} to {id}: {result:?}"));
    }

    fn finish(&mut self, (side, id): FlowId) {
        let Some(result) = self.on(side, |connection, _| connection.finish(id)) else {
            return;
        };
        let ended = self.ended();
        if let Some(flow) = self.flows.get_mut(&(side, id)) {
            let allowed = flow.finished || flow.reset.is_some() || flow.stopped.is_some() || ended;
            assert!(result.is_ok() || allowed, "{id}: {result:?}");
            flow.finished |= result.is_ok();
        }
        self.tell(|| format!("{side:?} finishes {id}: {result:?}"));
    }

    fn finish_one(&mut self) {
        if let Some(flow) = self.any_flow() {
            self.finish(flow);
        }
    }

    fn reset(&mut self) {
        let Some((side, id)) = self.any_flow() else {
            return;
        };
        let code = self.rng.below(1_000);
        let reliable = (self.rng.below(2) == 0).then(|| self.rng.below(50_000));
        let Some(result) = self.on(side, |connection, _| match reliable {
            Some(size) => connection.reset_at(id, code, size),
            None => connection.reset(id, code),
        }) else {
            return;
        };
        if let Some(flow) = self.flows.get_mut(&(side, id))
            && result.is_ok()
        {
            let promised = reliable.unwrap_or(0).min(flow.written);
            // A second reset takes the promise back, but not the code.
            let (code, before) = flow.reset.unwrap_or((code, u64::MAX));
            flow.reset = Some((code, promised.min(before)));
        }
        self.tell(|| format!("{side:?} resets {id} with {code} at {reliable:?}: {result:?}"));
    }

    fn stop(&mut self) {
        let Some((sender, id)) = self.any_flow() else {
            return;
        };
        let code = 1_000 + self.rng.below(1_000);
        let receiver = sender.peer();
        self.accept_all();
        let Some(result) = self.on(receiver, |connection, _| connection.stop(id, code)) else {
            return;
        };
        if let Some(flow) = self.flows.get_mut(&(sender, id))
            && result.is_ok()
        {
            flow.stopped.get_or_insert(code);
        }
        self.tell(|| format!("{receiver:?} stops {id} with {code}: {result:?}"));
    }

    /// New streams of the other end; a bidirectional one can be answered.
    fn accept_all(&mut self) {
        for side in [Side::Client, Side::Server] {
            for dir in [Dir::Bi, Dir::Uni] {
                while let Some(Some(id)) =
                    self.on(side, |connection, _| connection.accept_stream(dir))
                {
                    let opened = self.flows.contains_key(&(side.peer(), id));
                    assert!(opened, "{id} was never opened");
                    if dir == Dir::Bi {
                        self.flows.insert((side, id), Flow::default());
                    }
                }
            }
        }
    }

    fn read(&mut self, (sender, id): FlowId, max: usize) {
        let receiver = sender.peer();
        let Some(outcome) = self.on(receiver, |connection, _| connection.read(id, max)) else {
            return;
        };
        let Some(flow) = self.flows.get_mut(&(sender, id)) else {
            return;
        };
        match &outcome {
            Ok(ReadOutcome::Chunk(data)) => {
                assert!(!data.is_empty() && data.len() <= max);
                assert!(!flow.over, "{id}: data after the end");
                for (offset, byte) in (flow.read..).zip(data) {
                    assert_eq!(*byte, byte_of(id, sender, offset), "{id} at {offset}");
                }
                flow.read += data.len() as u64;
                assert!(flow.read <= flow.written, "{id}: more than was written");
            }
            Ok(ReadOutcome::Blocked) => {}
            Ok(ReadOutcome::Finished) => {
                assert!(flow.finished, "{id}: an end nobody made");
                assert_eq!(flow.read, flow.written, "{id}: bytes are missing");
                flow.over = true;
            }
            Err(ReadError::Reset(code)) => {
                match flow.reset {
                    Some((expected, promised)) => {
                        let echoed = flow.stopped == Some(*code);
                        assert!(*code == expected || echoed, "{id}: code {code}");
                        assert!(flow.read >= promised || echoed, "{id}: {promised} promised");
                    }
                    None => assert_eq!(flow.stopped, Some(*code), "{id}: reset by nobody"),
                }
                flow.over = true;
            }
            Err(ReadError::Stopped) => assert!(flow.stopped.is_some(), "{id}"),
            // Before it was accepted, or after its end was seen.
            Err(ReadError::UnknownStream) => {}
            Err(error) => panic!("{id}: {error}"),
        }
    }

    fn read_some(&mut self) {
        self.accept_all();
        let max = pick(&mut self.rng, &[1, 500, 10_000, usize::MAX]);
        if let Some(flow) = self.any_flow() {
            self.read(flow, max);
        }
        self.read_datagrams();
    }

    fn read_all(&mut self) {
        self.accept_all();
        let flows: Vec<FlowId> = self.flows.keys().copied().collect();
        for id in flows {
            let before = |case: &Self| (case.flows[&id].read, case.flows[&id].over);
            loop {
                let was = before(self);
                self.read(id, usize::MAX);
                if before(self) == was {
                    break;
                }
            }
        }
        self.read_datagrams();
    }

    fn read_datagrams(&mut self) {
        for receiver in [Side::Client, Side::Server] {
            while let Some(Some(data)) =
                self.on(receiver, |connection, _| connection.recv_datagram())
            {
                let sent = self.datagrams.entry(receiver.peer()).or_default();
                let place = sent.iter().position(|sent| *sent == data);
                let place = place.expect("a datagram that was sent, and only once");
                sent.swap_remove(place);
            }
        }
    }

    fn prioritise(&mut self) {
        if let Some((side, id)) = self.any_flow() {
            let priority = sched::Priority {
                urgency: self.rng.below(10) as u8,
                incremental: self.rng.below(2) == 0,
            };
            self.on(side, |connection, _| connection.set_priority(id, priority));
        }
    }

    fn update_keys(&mut self) {
        let side = self.any_side();
        let result = self.on(side, |connection, now| connection.initiate_key_update(now));
        self.tell(|| format!("{side:?} updates keys: {result:?}"));
    }

    fn disturb(&mut self) {
        let confirmed = [self.net.client_app(), self.net.server_app()]
            .into_iter()
            .all(|app| app.saw(&Event::HandshakeConfirmed));
        self.disturbed = true;
        self.disturbed_early |= !confirmed;
    }

    fn rebind_client(&mut self) {
        let port = 50_000 + self.rng.below(1_000) as u16;
        let to = SocketAddr::from(([10, 0, 0, 1], port));
        self.disturb();
        self.on(Side::Client, |client, now| client.rebind(now, to));
        self.tell(|| format!("client moves to {to}"));
    }

    fn rebind_nat(&mut self) {
        let kind = pick(
            &mut self.rng,
            &[Rebind::Port, Rebind::Address, Rebind::AddressAndPort],
        );
        self.disturb();
        self.net.world.rebind(self.net.client, kind);
        self.tell(|| format!("NAT rebinds: {kind:?}"));
    }

    fn send_datagram(&mut self) {
        let side = self.any_side();
        let number = self.next_datagram;
        self.next_datagram += 1;
        let mut data = number.to_be_bytes().to_vec();
        data.resize(8 + self.rng.below(1_100) as usize, 0x5a);
        let sent = Bytes::from(data.clone());
        if let Some(Ok(_)) = self.on(side, |connection, _| connection.send_datagram(sent)) {
            self.datagrams.entry(side).or_default().push(data);
        }
    }

    fn outage(&mut self) {
        let time = millis(&mut self.rng, 3_000);
        self.tell(|| format!("nothing passes for {time:?}"));
        self.net.world.set_link_up(self.net.link, false);
        self.net.run_for(time);
        self.net.world.set_link_up(self.net.link, true);
    }

    fn close(&mut self) {
        let side = self.any_side();
        self.closed = true;
        self.on(side, |connection, now| {
            connection.close(now, 5, Bytes::new())
        });
        self.tell(|| format!("{side:?} closes"));
    }

    /// The network becomes kind, every stream is ended and read.
    fn settle(&mut self) {
        self.tell(|| "the network is mended".to_owned());
        for direction in Direction::BOTH {
            let mut config = self
                .net
                .world
                .direction_config(self.net.link, direction)
                .clone();
            config.loss = LossModel::None;
            config.corruption = LossModel::None;
            config.reordering = None;
            config.jitter = None;
            let set = self
                .net
                .world
                .set_direction(self.net.link, direction, config);
            assert!(set.is_ok());
        }
        for round in 0..500 {
            self.read_all();
            let open: Vec<FlowId> = self
                .flows
                .iter()
                .filter(|(_, flow)| !flow.finished && flow.reset.is_none())
                .map(|(id, _)| *id)
                .collect();
            for id in open {
                self.finish(id);
            }
            if self.ended() || (round > 2 && self.all_over()) {
                break;
            }
            let pause = if round < 200 { 50 * MS } else { SECOND };
            self.net.run_for(pause);
        }
    }

    fn all_over(&self) -> bool {
        self.flows
            .values()
            .all(|flow| flow.over || flow.stopped.is_some())
    }

    /// Whether everything is as it should be, and how the case ended.
    fn check_end(&mut self) -> Outcome {
        let ends = [
            self.net.client_app().ended().cloned(),
            self.net.server_app().ended().cloned(),
        ];
        let lost_its_way = ends
            .iter()
            .any(|end| matches!(end, Some(ConnectionError::NoViablePath(_))));
        for end in ends.iter().flatten() {
            let stated = match end {
                ConnectionError::LocallyClosed | ConnectionError::PeerApplication { .. } => {
                    self.closed
                }
                // A close before the handshake is protected hides what the application said.
                ConnectionError::PeerTransport(error) => self.closed && error.code.0 == 0x0c,
                // Packets of a handshake may come from another address than its first ones only
                // once it is confirmed. RFC 9000 s9.
                ConnectionError::HandshakeTimeout => self.disturbed_early || self.closed,
                // Who only listens may be where nobody looks for it any more.
                ConnectionError::IdleTimeout => {
                    let silent = self.disturbed && (!self.client_speaks || self.disturbed_early);
                    silent || lost_its_way || self.closed
                }
                ConnectionError::NoViablePath(_) => self.disturbed || self.closed,
                // One end gave up while the other could not be told.
                ConnectionError::StatelessReset => {
                    self.closed || ends.iter().flatten().any(|other| other != end)
                }
                _ => false,
            };
            assert!(stated, "ended by {end}: {ends:?}");
        }
        let outcome = Outcome::of(self.closed, self.disturbed, &ends);
        if self.ended() {
            self.tell(|| self.net.last_packets());
            return outcome;
        }
        let unfinished: Vec<_> = self
            .flows
            .iter()
            .filter(|(_, flow)| !flow.over && flow.stopped.is_none())
            .collect();
        assert!(
            unfinished.is_empty(),
            "alive, but not delivered at {:?}: {unfinished:?}",
            self.net.now()
        );
        // Nothing is kept of streams that are over.
        self.net.run_for(10 * SECOND);
        self.read_all();
        self.net.run_for(5 * SECOND);
        self.tell(|| self.net.last_packets());
        for side in [Side::Client, Side::Server] {
            let held = self.on(side, |connection, _| connection.stream_stats());
            if let Some(held) = held
                && !self.ended()
            {
                assert_eq!(held.open_streams, 0, "{side:?} {held:?} {:?}", self.flows);
                assert_eq!(held.send_buffered_bytes, 0, "{side:?} {held:?}");
                assert_eq!(held.receive_buffered_bytes, 0, "{side:?} {held:?}");
            }
        }
        outcome
    }
}

/// How a case ended, at the end that fared worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Every byte is where it belongs; addresses did not change meanwhile.
    Delivered,
    /// The same although they did.
    DeliveredAfterMoving,
    /// An application closed.
    Closed,
    NoViablePath,
    HandshakeTimeout,
    IdleTimeout,
    StatelessReset,
}

impl Outcome {
    fn of(closed: bool, disturbed: bool, ends: &[Option<ConnectionError>; 2]) -> Self {
        let ended = |is: fn(&ConnectionError) -> bool| ends.iter().flatten().any(is);
        if closed {
            Self::Closed
        } else if ended(|end| matches!(end, ConnectionError::NoViablePath(_))) {
            Self::NoViablePath
        } else if ended(|end| *end == ConnectionError::HandshakeTimeout) {
            Self::HandshakeTimeout
        } else if ended(|end| *end == ConnectionError::IdleTimeout) {
            Self::IdleTimeout
        } else if ended(|_| true) {
            Self::StatelessReset
        } else if disturbed {
            Self::DeliveredAfterMoving
        } else {
            Self::Delivered
        }
    }
}

/// A stack that gave up wherever it is allowed to would pass every single case: so the shares of
/// all ends are bounded, too.
fn check_shares(counts: &BTreeMap<Outcome, u64>) {
    let of = |outcome| counts.get(&outcome).copied().unwrap_or(0);
    let moved: u64 = [
        Outcome::DeliveredAfterMoving,
        Outcome::NoViablePath,
        Outcome::HandshakeTimeout,
        Outcome::IdleTimeout,
        Outcome::StatelessReset,
    ]
    .into_iter()
    .map(of)
    .sum();
    let share = |outcome| of(outcome) as f64 / moved.max(1) as f64;
    println!("{counts:?}");
    println!(
        "of {moved} connections whose addresses changed, {:.1} % delivered everything",
        100.0 * share(Outcome::DeliveredAfterMoving)
    );
    if moved < 200 {
        return;
    }
    assert!(share(Outcome::DeliveredAfterMoving) >= MIN_DELIVERED);
    for (outcome, most) in MOST {
        assert!(share(outcome) <= most, "{outcome:?}");
    }
}

fn run(seed: u64, story: bool) -> Outcome {
    let mut case = Case::new(seed, story);
    let acts = 5 + case.rng.below(60);
    let patience = millis(&mut case.rng, 300);
    case.net.run_for(patience);
    for _ in 0..acts {
        case.act();
    }
    case.settle();
    case.check_end()
}

#[test]
fn every_byte_once_in_order_or_a_stated_error() {
    if let Ok(seed) = std::env::var("TAUTLINE_CASE") {
        run(seed.parse().expect("a number"), true);
        return;
    }
    let cases = std::env::var("TAUTLINE_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(DEFAULT_CASES);
    let next = AtomicU64::new(0);
    let ends: Vec<(Vec<u64>, BTreeMap<Outcome, u64>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut failed = Vec::new();
                    let mut counts = BTreeMap::new();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= cases || failed.len() >= 5 {
                            return (failed, counts);
                        }
                        match catch_unwind(AssertUnwindSafe(|| run(seed, false))) {
                            Ok(outcome) => *counts.entry(outcome).or_default() += 1,
                            Err(_) => {
                                println!(
                                    "case {seed} failed: TAUTLINE_CASE={seed} tells its story"
                                );
                                failed.push(seed);
                            }
                        }
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("workers catch panics"))
            .collect()
    });
    let mut counts = BTreeMap::new();
    let mut failures = Vec::new();
    for (failed, some) in ends {
        failures.extend(failed);
        for (outcome, count) in some {
            *counts.entry(outcome).or_default() += count;
        }
    }
    assert!(failures.is_empty(), "failing cases: {failures:?}");
    check_shares(&counts);
}
