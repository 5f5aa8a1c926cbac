//! Peers made by hand: they speak the null handshake and then say whatever a test makes them say.

use std::{
    any::Any,
    collections::{BTreeSet, VecDeque},
    net::SocketAddr,
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use tautline_sim::{Datagram, HostId, LinkConfig, LinkId, Node, World, quic::QuicHost};
use tautline_testkit::{
    apps::Manual,
    null_tls::{NullClient, NullServer, NullTag, packet_key},
    pair::{client_address, server_address},
    trace::{FrameTrace, Trace},
};
use tautline_transport::{
    config::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig},
    endpoint::Endpoint,
    error::{Code, ConnectionError},
    time::Instant,
    tls::{ClientSessionFactory, KeyChange, Level, PacketKey, ServerSessionFactory, Session},
    units::{Ecn, PathId, Side},
    wire::{
        AckToWrite, ConnectionId, Frame, Header, LongHeader, LongType, Reader, TransportParameters,
        Version, Writer, encode_short, parse_header, patch_length, write_ack,
    },
};

use crate::kit::{MS, calm};

const TAG_LEN: usize = 16;
const FINISHED: [u8; 4] = [20, 0, 0, 0];

/// A host that keeps what comes and sends what it is given.
#[derive(Default)]
pub struct Post {
    pub inbox: Vec<(Instant, Datagram)>,
    pub outbox: VecDeque<Datagram>,
}

impl Node for Post {
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram) {
        self.inbox.push((now, datagram));
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> {
        self.outbox.pop_front()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A packet that a raw peer received.
#[derive(Clone, Debug)]
pub struct Got {
    pub level: Level,
    pub number: u64,
    pub payload: Vec<u8>,
}

impl Got {
    pub fn frames(&self) -> Vec<FrameTrace> {
        let mut reader = Reader::new(&self.payload);
        let mut frames = Vec::new();
        while !reader.is_empty() {
            let frame = Frame::decode(&mut reader).expect("our own frames decode");
            frames.push(FrameTrace::of(&frame));
        }
        frames
    }
}

/// A connection's end made by hand. Packet numbers are sent in four bytes.
pub struct Peer {
    side: Side,
    version: Version,
    /// Where its packets seem to come from.
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// The victim's connection ID in use.
    pub dcid: ConnectionId,
    pub scid: ConnectionId,
    /// What Initial keys derive from: the destination of the client's first Initial.
    initial_dcid: Option<ConnectionId>,
    pub token: Vec<u8>,
    /// Next packet numbers: Initial, Handshake, application data.
    pub numbers: [u64; 3],
    pub key_phase: u64,
    pub got: Vec<Got>,
    /// Retry and Version Negotiation packets.
    pub special: Vec<Vec<u8>>,
    /// Datagrams with short headers that opened with no key: stateless resets.
    pub unopened: usize,
    session: Box<dyn Session>,
    hello: Vec<u8>,
}

/// Generous parameters of a raw peer.
pub fn parameters(scid: ConnectionId) -> TransportParameters {
    TransportParameters {
        initial_max_data: 1 << 30,
        initial_max_stream_data_bidi_local: 1 << 30,
        initial_max_stream_data_bidi_remote: 1 << 30,
        initial_max_stream_data_uni: 1 << 30,
        initial_max_streams_bidi: 1_000,
        initial_max_streams_uni: 1_000,
        active_connection_id_limit: 4,
        max_datagram_frame_size: 65_535,
        initial_source_connection_id: Some(scid),
        min_ack_delay_us: Some(1_000),
        reset_stream_at: true,
        ..TransportParameters::default()
    }
}

/// Where a client's second path begins.
pub fn second_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 1, 1], 50_000))
}

fn cid(byte: u8) -> ConnectionId {
    ConnectionId::new(&[byte; 8]).expect("8 bytes")
}

fn space_of(level: Level) -> usize {
    match level {
        Level::Initial => 0,
        Level::Handshake => 1,
        _ => 2,
    }
}

/// Bytes of frames.
pub fn encode(frames: &[Frame<'_>]) -> Vec<u8> {
    let len: usize = frames.iter().map(Frame::encoded_len).sum();
    let mut buffer = vec![0; len];
    let mut writer = Writer::new(&mut buffer);
    for frame in frames {
        frame.encode(&mut writer);
    }
    assert!(!writer.overflowed());
    buffer
}

/// An ACK frame of these ranges, descending.
pub fn ack(ranges: &[RangeInclusive<u64>]) -> Vec<u8> {
    ack_of(None, ranges)
}

/// A PATH_ACK frame of these ranges, descending, or an ACK frame without a path.
pub fn ack_of(path: Option<PathId>, ranges: &[RangeInclusive<u64>]) -> Vec<u8> {
    let mut buffer = vec![0; 1_000];
    let mut writer = Writer::new(&mut buffer);
    let ack = AckToWrite {
        path,
        largest: *ranges[0].end(),
        delay: 0,
        ranges: ranges.iter().cloned(),
        ecn: None,
        timestamps: None,
    };
    assert!(write_ack(&mut writer, ack));
    writer.into_written().to_vec()
}

impl Peer {
    fn new(
        side: Side,
        number: u8,
        session: Box<dyn Session>,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Self {
        Self {
            side,
            version: Version::V1,
            from,
            to,
            dcid: cid(number ^ 0xff),
            scid: cid(number),
            initial_dcid: None,
            token: Vec::new(),
            numbers: [0; 3],
            key_phase: 0,
            got: Vec::new(),
            special: Vec::new(),
            unopened: 0,
            session,
            hello: Vec::new(),
        }
    }

    /// A client with these parameters; nothing is sent yet.
    pub fn client(number: u8, parameters: &TransportParameters) -> Self {
        Self::client_with(number, parameters.encode(Side::Client, None))
    }

    /// A client with these encoded parameters.
    pub fn client_with(number: u8, parameters: Vec<u8>) -> Self {
        let mut session = NullClient::new(b"null")
            .start(Version::V1, "localhost", parameters)
            .expect("a session");
        let mut hello = Vec::new();
        session.write(&mut hello);
        let mut peer = Self::new(
            Side::Client,
            number,
            session,
            client_address(),
            server_address(),
        );
        peer.hello = hello;
        peer
    }

    /// The ClientHello.
    pub fn hello(&self) -> Vec<u8> {
        self.hello.clone()
    }

    /// One packet with this payload, as the only one of its datagram.
    pub fn packet(&mut self, level: Level, payload: &[u8]) -> Vec<u8> {
        let number = self.numbers[space_of(level)];
        self.numbers[space_of(level)] += 1;
        self.packet_numbered(level, number, payload)
    }

    pub fn packet_numbered(&self, level: Level, number: u64, payload: &[u8]) -> Vec<u8> {
        let mut buffer = vec![0; payload.len() + 200];
        let mut writer = Writer::new(&mut buffer);
        let length_at = match level {
            Level::OneRtt => {
                let phase = self.key_phase % 2 == 1;
                encode_short(&mut writer, &self.dcid, false, phase, number, 4, true);
                None
            }
            long => {
                let header = LongHeader {
                    ty: match long {
                        Level::Initial => LongType::Initial,
                        Level::Handshake => LongType::Handshake,
                        _ => LongType::ZeroRtt,
                    },
                    version: self.version,
                    dcid: self.dcid,
                    scid: self.scid,
                    token: &self.token,
                    fixed_bit: true,
                };
                header.encode(&mut writer, number, 4)
            }
        };
        let header_len = writer.len();
        let key = self.key(level, self.side, self.key_phase);
        let tag = key
            .encrypt_in_place(number, &[], &mut payload.to_vec())
            .expect("null keys");
        writer.bytes(payload);
        writer.bytes(tag.as_ref());
        let len = writer.len();
        buffer.truncate(len);
        if let Some(at) = length_at {
            patch_length(&mut buffer, at, len - header_len + 4);
        }
        buffer
    }

    fn key(&self, level: Level, sender: Side, phase: u64) -> Box<dyn PacketKey> {
        if level != Level::Initial {
            return packet_key(NullTag::Keyed, level, sender, phase);
        }
        let dcid = self.initial_dcid.unwrap_or(self.dcid);
        let factory = NullClient::new(b"null");
        factory
            .initial_keys(self.version, &dcid, sender)
            .local
            .packet
    }

    pub fn datagram(&self, payload: Vec<u8>) -> Datagram {
        Datagram {
            src: self.from,
            dst: self.to,
            ecn: Ecn::NotEct,
            payload,
        }
    }

    /// A padded Initial with these frame bytes.
    pub fn initial(&mut self, frames: &[u8]) -> Datagram {
        self.initial_dcid.get_or_insert(self.dcid);
        let mut payload = frames.to_vec();
        payload.resize(payload.len().max(1_200), 0);
        let packet = self.packet(Level::Initial, &payload);
        assert!(packet.len() >= 1_200);
        self.datagram(packet)
    }

    /// The first Initial with the whole ClientHello.
    pub fn first(&mut self) -> Datagram {
        self.initial_dcid = Some(self.dcid);
        let hello = self.hello();
        self.initial(&encode(&[Frame::Crypto {
            offset: 0,
            data: &hello,
        }]))
    }

    pub fn handshake(&mut self, frames: &[Frame<'_>]) -> Datagram {
        let packet = self.packet(Level::Handshake, &encode(frames));
        self.datagram(packet)
    }

    pub fn one_rtt(&mut self, frames: &[Frame<'_>]) -> Datagram {
        self.one_rtt_bytes(&encode(frames))
    }

    pub fn one_rtt_bytes(&mut self, payload: &[u8]) -> Datagram {
        let packet = self.packet(Level::OneRtt, payload);
        self.datagram(packet)
    }

    /// Takes a datagram apart.
    pub fn receive(&mut self, datagram: &[u8]) {
        let mut rest = datagram;
        while !rest.is_empty() {
            let Ok(header) = parse_header(rest, 8) else {
                return;
            };
            let (level, pn_offset, len, scid) = match header {
                Header::Initial {
                    pn_offset,
                    packet_len,
                    scid,
                    ..
                } => (Level::Initial, pn_offset, packet_len, Some(scid)),
                Header::Handshake {
                    pn_offset,
                    packet_len,
                    scid,
                    ..
                } => (Level::Handshake, pn_offset, packet_len, Some(scid)),
                Header::ZeroRtt {
                    pn_offset,
                    packet_len,
                    scid,
                    ..
                } => (Level::ZeroRtt, pn_offset, packet_len, Some(scid)),
                Header::Short {
                    pn_offset,
                    packet_len,
                    ..
                } => (Level::OneRtt, pn_offset, packet_len, None),
                _ => {
                    self.special.push(rest.to_vec());
                    return;
                }
            };
            let packet = &rest[..len];
            rest = &rest[len..];
            let pn_len = usize::from(packet[0] & 3) + 1;
            let opens = (0..60).any(|phase| {
                let key = self.key(level, self.side.peer(), phase);
                let mut payload = packet[pn_offset + pn_len..].to_vec();
                key.decrypt_in_place(0, &[], &mut payload).is_ok()
            });
            if !opens {
                self.unopened += 1;
                return;
            }
            if let Some(scid) = scid
                && self.side.is_client()
            {
                self.dcid = scid;
            }
            let truncated = packet[pn_offset..pn_offset + pn_len]
                .iter()
                .fold(0, |number, byte| number << 8 | u64::from(*byte));
            let number = self.whole_number(level, truncated, 8 * pn_len);
            let payload = packet[pn_offset + pn_len..len - TAG_LEN].to_vec();
            self.got.push(Got {
                level,
                number,
                payload,
            });
        }
    }

    /// The packet number that ends in these bits and is closest to the one after the largest.
    fn whole_number(&self, level: Level, truncated: u64, bits: usize) -> u64 {
        let numbers = self.got.iter().filter(|got| got.level == level);
        let expected = numbers.map(|got| got.number + 1).max().unwrap_or(0);
        let window = 1 << bits;
        let candidate = expected - expected % window + truncated;
        [
            candidate.checked_sub(window),
            Some(candidate),
            Some(candidate + window),
        ]
        .into_iter()
        .flatten()
        .min_by_key(|number| number.abs_diff(expected))
        .unwrap_or(truncated)
    }

    /// Every frame received.
    pub fn frames(&self) -> Vec<FrameTrace> {
        self.got.iter().flat_map(Got::frames).collect()
    }

    /// The code the victim closed with.
    pub fn closed_with(&self) -> Option<Code> {
        self.frames().iter().find_map(|frame| match frame {
            FrameTrace::Close { code, .. } => Some(Code(*code)),
            _ => None,
        })
    }

    /// An ACK of everything received at a level, gaps left out.
    pub fn honest_ack(&self, level: Level) -> Option<Vec<u8>> {
        let numbers: BTreeSet<u64> = self
            .got
            .iter()
            .filter(|got| got.level == level)
            .map(|got| got.number)
            .collect();
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        for number in numbers.into_iter().rev().take(10_000) {
            match ranges.last_mut() {
                Some(last) if *last.start() == number + 1 => *last = number..=*last.end(),
                _ => ranges.push(number..=number),
            }
        }
        ranges.truncate(100);
        (!ranges.is_empty()).then(|| ack(&ranges))
    }
}

/// A real endpoint, an attacker's host, and the link between them.
pub struct Arena {
    pub world: World,
    pub victim: HostId,
    pub attacker: HostId,
    pub link: LinkId,
    pub trace: Trace,
    taken: usize,
}

impl Arena {
    /// A real server.
    pub fn server(
        seed: u64,
        transport: impl FnOnce(&mut TransportConfig),
        tune: impl FnOnce(&mut ServerConfig),
        app: Manual,
    ) -> Self {
        let trace = Trace::new();
        let mut config = TransportConfig::default();
        config.observer = trace.observer();
        transport(&mut config);
        let mut server = ServerConfig::new(Arc::new(NullServer::new(b"null")));
        server.transport = Arc::new(config);
        tune(&mut server);
        let mut world = World::new(seed);
        let endpoint = Endpoint::new(
            Arc::new(EndpointConfig::default()),
            Some(Arc::new(server)),
            world.rng(1),
        );
        let host = QuicHost::new(endpoint, server_address(), app);
        let victim = world.add_host(server_address(), Box::new(host));
        let attacker = world.add_host(client_address(), Box::<Post>::default());
        let link = world.connect(attacker, victim, link());
        Self {
            world,
            victim,
            attacker,
            link,
            trace,
            taken: 0,
        }
    }

    /// A real server with defaults, and a raw client whose handshake is confirmed.
    pub fn confirmed(seed: u64, transport: impl FnOnce(&mut TransportConfig)) -> (Self, Peer) {
        Self::confirmed_with(seed, transport, |_| {})
    }

    /// The same with other parameters of the raw client.
    pub fn confirmed_with(
        seed: u64,
        transport: impl FnOnce(&mut TransportConfig),
        change: impl FnOnce(&mut TransportParameters),
    ) -> (Self, Peer) {
        let mut arena = Self::server(seed, transport, |_| {}, Manual::server());
        let mut parameters = parameters(cid(0x11));
        change(&mut parameters);
        let mut peer = Peer::client(0x11, &parameters);
        arena.handshake(&mut peer);
        (arena, peer)
    }

    /// Completes a raw client's handshake.
    pub fn handshake(&mut self, peer: &mut Peer) {
        let first = peer.first();
        self.send(first);
        self.run(50 * MS);
        self.collect(peer);
        peer.token.clear();
        let finished = peer.handshake(&[Frame::Crypto {
            offset: 0,
            data: &FINISHED,
        }]);
        self.send(finished);
        self.run(100 * MS);
        self.collect(peer);
        let done = peer.frames().contains(&FrameTrace::Other(0x1e));
        assert!(done, "no HANDSHAKE_DONE: {:?}", peer.frames());
    }

    /// A real client and a raw server whose handshake is confirmed.
    pub fn client(seed: u64) -> (Self, Peer) {
        Self::client_with(seed, |_| {}, |_| {})
    }

    /// The same with other settings of the client and parameters of the raw server. The client's
    /// host has a second address.
    pub fn client_with(
        seed: u64,
        transport: impl FnOnce(&mut TransportConfig),
        change: impl FnOnce(&mut TransportParameters),
    ) -> (Self, Peer) {
        let trace = Trace::new();
        let mut config = TransportConfig::default();
        config.observer = trace.observer();
        transport(&mut config);
        let mut client = ClientConfig::new(Arc::new(NullClient::new(b"null")));
        client.transport = Arc::new(config);
        let mut world = World::new(seed);
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, world.rng(1));
        let app = Manual::client(client, server_address());
        let host = QuicHost::new(endpoint, client_address(), app);
        let addresses = vec![client_address(), second_address()];
        let victim = world.add_host(addresses, Box::new(host));
        let attacker = world.add_host(server_address(), Box::<Post>::default());
        let link = world.connect(attacker, victim, link());
        let mut arena = Self {
            world,
            victim,
            attacker,
            link,
            trace,
            taken: 0,
        };
        arena.run(20 * MS);
        let (_, first) = arena.post().inbox[0].clone();
        let Ok(Header::Initial {
            dcid: original,
            scid: client_cid,
            ..
        }) = parse_header(&first.payload, 8)
        else {
            panic!("no Initial");
        };
        let own = cid(0x22);
        let mut parameters = TransportParameters {
            original_destination_connection_id: Some(original),
            ..parameters(own)
        };
        change(&mut parameters);
        let session = NullServer::new(b"null")
            .start(Version::V1, parameters.encode(Side::Server, None))
            .expect("a session");
        let mut peer = Peer::new(
            Side::Server,
            0x22,
            session,
            server_address(),
            client_address(),
        );
        peer.dcid = client_cid;
        peer.initial_dcid = Some(original);
        arena.collect(&mut peer);
        let hello = peer
            .got
            .iter()
            .find_map(|got| crypto(&got.payload))
            .expect("a ClientHello");
        peer.session.read(Level::Initial, &hello).expect("it is");
        let mut initial = Vec::new();
        assert!(matches!(
            peer.session.write(&mut initial),
            Some(KeyChange::Handshake(_))
        ));
        let mut flight = Vec::new();
        peer.session.write(&mut flight);
        let hello = peer.initial(&encode(&[Frame::Crypto {
            offset: 0,
            data: &initial,
        }]));
        arena.send(hello);
        let rest = peer.handshake(&[Frame::Crypto {
            offset: 0,
            data: &flight,
        }]);
        arena.send(rest);
        arena.run(50 * MS);
        let done = peer.one_rtt(&[Frame::HandshakeDone]);
        arena.send(done);
        arena.run(50 * MS);
        arena.collect(&mut peer);
        assert!(
            arena
                .app()
                .saw(&tautline_transport::connection::Event::HandshakeConfirmed)
        );
        (arena, peer)
    }

    pub fn app(&self) -> &Manual {
        self.host().app()
    }

    pub fn host(&self) -> &QuicHost<Manual> {
        self.world.node(self.victim)
    }

    fn post(&self) -> &Post {
        self.world.node(self.attacker)
    }

    pub fn send(&mut self, datagram: Datagram) {
        self.world
            .node_mut::<Post>(self.attacker)
            .outbox
            .push_back(datagram);
    }

    /// Past the link, from any address.
    pub fn inject(&mut self, datagram: Datagram) {
        self.world.inject(datagram);
    }

    pub fn run(&mut self, duration: Duration) {
        let end = self.world.run_for(duration);
        assert_ne!(end, tautline_sim::RunEnd::Stuck, "the world is stuck");
    }

    /// Lets the peer read what came since the last time.
    pub fn collect(&mut self, peer: &mut Peer) {
        let fresh: Vec<Vec<u8>> = self.post().inbox[self.taken..]
            .iter()
            .map(|(_, datagram)| datagram.payload.clone())
            .collect();
        self.taken += fresh.len();
        for payload in fresh {
            peer.receive(&payload);
        }
    }

    /// Datagrams that reached the attacker, with times.
    pub fn inbox(&self) -> &[(Instant, Datagram)] {
        &self.post().inbox
    }

    /// Drops what was received: for long runs.
    pub fn forget(&mut self, peer: &mut Peer) {
        self.world.node_mut::<Post>(self.attacker).inbox = Vec::new();
        let victim: &mut QuicHost<Manual> = self.world.node_mut(self.victim);
        victim.app_mut().events = Vec::new();
        self.taken = 0;
        peer.got = Vec::new();
    }

    /// The code of the error that made the victim close.
    pub fn victim_error(&self) -> Option<Code> {
        match self.app().ended() {
            Some(ConnectionError::Transport(error)) => Some(error.code),
            _ => None,
        }
    }

    /// Sends, and expects the connection to be closed with this code at both ends.
    #[track_caller]
    pub fn expect_close(&mut self, peer: &mut Peer, datagram: Datagram, code: Code) {
        self.send(datagram);
        self.run(100 * MS);
        self.collect(peer);
        assert_eq!(
            self.victim_error(),
            Some(code),
            "ended {:?}",
            self.app().ended()
        );
        assert_eq!(peer.closed_with(), Some(code));
    }

    /// Uses the victim's connection.
    pub fn on_victim<R>(
        &mut self,
        f: impl FnOnce(&mut tautline_transport::connection::Connection, Instant) -> R,
    ) -> R {
        let now = self.world.now();
        let node = self.world.node_mut::<QuicHost<Manual>>(self.victim);
        node.with_app(now, |app, cx| {
            let handle = app.handle.expect("a connection");
            f(cx.connection(handle).expect("it lives"), now)
        })
    }

    /// Whether the victim still has the connection and answers on it.
    #[track_caller]
    pub fn assert_alive(&mut self, peer: &mut Peer) {
        assert_eq!(self.app().ended(), None);
        let before = peer.got.len();
        let ping = peer.one_rtt(&[Frame::Ping]);
        self.send(ping);
        self.run(100 * MS);
        self.collect(peer);
        let answered = peer.got[before..].iter().any(|got| {
            got.frames()
                .iter()
                .any(|f| matches!(f, FrameTrace::Ack { .. }))
        });
        assert!(answered, "no answer");
    }
}

fn link() -> LinkConfig {
    let mut link = calm();
    link.forward.queue = tautline_sim::QueueSize::Unlimited;
    link.forward.rate = None;
    link
}

/// The bytes of the first CRYPTO frame.
fn crypto(payload: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(payload);
    while !reader.is_empty() {
        if let Ok(Frame::Crypto { data, .. }) = Frame::decode(&mut reader) {
            return Some(data.to_vec());
        }
    }
    None
}
