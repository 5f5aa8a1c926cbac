//! Two hosts, the datagrams between them, and what must always hold.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};

use bytes::BytesMut;
use tautline_transport::{
    connection::{Connection, EndpointEvent, Event},
    endpoint::{ConnectionHandle, DatagramEvent, DatagramMeta, Endpoint, Incoming, Transmit},
    error::ConnectionError,
    message::MessageEvent,
    observe::Observer,
    rng::Rng,
    stream::StreamEvent,
    time::{Instant, earliest},
    units::{Ecn, FourTuple, PathId, Side},
};

use super::{
    addresses::Addresses,
    inject::Sniffed,
    model::{Messages, Streams},
    setup::{SERVER, Setup, shared},
};
use crate::fuzz::Coverage;

/// One way through the network.
pub(super) const LATENCY: Duration = Duration::from_millis(10);
/// Datagrams under way in one direction; more are lost.
const MAX_UNDER_WAY: usize = 256;
/// Connections of the client.
const MAX_CONNECTIONS: usize = 3;
/// Attempts that wait for a decision.
const MAX_INCOMING: usize = 8;
/// Turns of timers and output that may follow one another at the same moment.
const MAX_TURNS: usize = 64;
/// Datagrams that one end may send in one go.
const MAX_OUTPUT: usize = 2_000;

/// A datagram under way.
#[derive(Clone, Debug)]
pub(super) struct Datagram {
    pub(super) due: Instant,
    pub(super) four_tuple: FourTuple,
    pub(super) ecn: Ecn,
    pub(super) bytes: Vec<u8>,
}

/// A connection with its application.
pub(super) struct End {
    pub(super) handle: ConnectionHandle,
    pub(super) connection: Connection,
    /// Which of the client's connections it is, or answers.
    pub(super) index: u16,
    pub(super) streams: Streams,
    pub(super) messages: Messages,
    pub(super) connected: bool,
    pub(super) closed_by_script: bool,
    pub(super) lost: Option<ConnectionError>,
}

/// A host with its endpoint and connections.
pub(super) struct Host {
    pub(super) side: Side,
    pub(super) endpoint: Endpoint,
    pub(super) ends: Vec<End>,
    /// Connections that are over.
    pub(super) gone: Vec<End>,
    pub(super) incoming: Vec<Incoming>,
    /// What its connections may buffer: received and sent stream bytes.
    buffers: [u64; 2],
}

/// Both hosts and what is between them.
pub(crate) struct World {
    pub(super) setup: Setup,
    pub(super) now: Instant,
    pub(super) hosts: [Host; 2],
    /// By whom they go to.
    pub(super) under_way: [VecDeque<Datagram>; 2],
    pub(super) addresses: Addresses,
    /// What passed on the way to each side.
    pub(super) sniffed: [Sniffed; 2],
    /// Bytes were forged: contents need not be right any more.
    pub(super) forged: bool,
    /// Something happened after which connections may rightly fail.
    pub(super) may_fail: bool,
    /// Messages were sent.
    messages: bool,
    client: tautline_transport::config::ClientConfig,
    pub(super) coverage: Option<Coverage>,
    connects: u16,
    buffer: Vec<u8>,
    answers: Vec<u8>,
}

pub(super) const fn slot(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

pub(super) const fn side_of(bit: u8) -> Side {
    if bit & 1 == 0 {
        Side::Client
    } else {
        Side::Server
    }
}

impl World {
    pub(crate) fn new(setup: Setup, coverage: Option<Coverage>) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let host = |side, seed: u64| {
            let server =
                (side == Side::Server).then(|| Arc::new(setup.server_config(coverage.as_ref())));
            let config = Arc::new(setup.endpoint(side));
            let seed = Rng::from_u64(u64::from(setup.seed) << 1 | seed);
            let mut endpoint = Endpoint::new(config, server, seed);
            if let Some(coverage) = &coverage {
                let observer = Observer::new(Some(coverage.sink()));
                endpoint.set_observer(now, SocketAddr::V4(SERVER), observer);
            }
            Host {
                side,
                endpoint,
                ends: Vec::new(),
                gone: Vec::new(),
                incoming: Vec::new(),
                buffers: setup.buffers(side),
            }
        };
        Self {
            now,
            hosts: [host(Side::Client, 0), host(Side::Server, 1)],
            under_way: Default::default(),
            addresses: Addresses::default(),
            sniffed: Default::default(),
            forged: false,
            may_fail: setup.may_fail(),
            messages: false,
            client: setup.client_config(coverage.as_ref()),
            coverage,
            connects: 0,
            buffer: vec![0; 20_000],
            answers: Vec::new(),
            setup,
        }
    }

    pub(super) fn host(&mut self, side: Side) -> &mut Host {
        &mut self.hosts[slot(side)]
    }

    /// The end that `on` names.
    pub(super) fn end(&mut self, on: u8) -> Option<&mut End> {
        let ends = &mut self.host(side_of(on)).ends;
        let index = usize::from(on >> 1).checked_rem(ends.len())?;
        ends.get_mut(index)
    }

    /// Streams may be messages from now on.
    pub(super) fn expect_messages(&mut self) {
        self.messages = true;
        for end in self.hosts.iter_mut().flat_map(|host| &mut host.ends) {
            end.streams.messages = true;
        }
    }

    /// The client connects once more.
    pub(crate) fn connect(&mut self) {
        if self.hosts[0].ends.len() >= MAX_CONNECTIONS || self.connects >= 100 {
            return;
        }
        if self.connects > 0 && self.setup.endpoint_cid_len(Side::Client) == 0 {
            // Nothing would tell packets for this one from late ones for the former: all
            // connections have the same keys here.
            return;
        }
        let index = self.connects;
        let four_tuple = FourTuple {
            local: self.addresses.client(index),
            remote: SocketAddr::V4(SERVER),
        };
        let config = self.client.clone();
        let connected = self.hosts[0]
            .endpoint
            .connect(self.now, config, four_tuple, "host.test");
        if let Ok((handle, connection)) = connected {
            self.connects += 1;
            self.hosts[0].ends.push(End::new(handle, connection, index));
        }
        if self.messages {
            self.expect_messages();
        }
    }

    /// Hands a datagram to a host as it arrives there.
    pub(super) fn arrive(&mut self, to: Side, datagram: Datagram) {
        let meta = DatagramMeta {
            four_tuple: datagram.four_tuple,
            ecn: datagram.ecn,
        };
        let data = BytesMut::from(&datagram.bytes[..]);
        self.answers.clear();
        let now = self.now;
        let host = &mut self.hosts[slot(to)];
        let event = host
            .endpoint
            .handle_datagram(now, meta, data, &mut self.answers);
        match event {
            DatagramEvent::Connection(handle, data) => {
                if let Some(end) = host.ends.iter_mut().find(|end| end.handle == handle) {
                    end.connection.handle_datagram(now, meta, data);
                }
            }
            DatagramEvent::Transmit(transmit) => {
                assert!(
                    transmit.len <= 3 * datagram.bytes.len(),
                    "amplification by an answer"
                );
                self.answer(to, transmit);
            }
            DatagramEvent::Incoming(incoming) => self.on_incoming(incoming),
            _ => {}
        }
    }

    fn on_incoming(&mut self, incoming: Incoming) {
        let setup = &self.setup;
        if setup.is_shared(shared::UNDECIDED) {
            if self.hosts[1].incoming.len() < MAX_INCOMING {
                self.hosts[1].incoming.push(incoming);
            }
            return;
        }
        let how = if setup.is_shared(shared::REFUSE) {
            2
        } else {
            u8::from(setup.is_shared(shared::RETRY) && !incoming.is_validated())
        };
        self.decide(incoming, how);
    }

    /// 0 accepts, 1 retries, 2 refuses, 3 ignores.
    pub(super) fn decide(&mut self, incoming: Incoming, how: u8) {
        let now = self.now;
        let index = self.addresses.index_of(incoming.remote_address());
        self.answers.clear();
        let host = &mut self.hosts[1];
        let answer = match how % 4 {
            0 => {
                if let Ok((handle, connection)) = host.endpoint.accept(now, incoming, None) {
                    host.ends.push(End::new(handle, connection, index));
                }
                None
            }
            1 => host.endpoint.retry(now, incoming, &mut self.answers),
            2 => {
                self.may_fail = true;
                host.endpoint.refuse(now, incoming, &mut self.answers)
            }
            _ => {
                host.endpoint.ignore(incoming);
                None
            }
        };
        if let Some(transmit) = answer {
            self.answer(Side::Server, transmit);
        }
        if self.messages {
            self.expect_messages();
        }
    }

    /// Sends an answer of an endpoint, which stands in `self.answers`.
    fn answer(&mut self, from: Side, transmit: Transmit) {
        let bytes = std::mem::take(&mut self.answers);
        self.send(from, &transmit, &bytes);
        self.answers = bytes;
    }

    /// Puts what a host sends on its way.
    fn send(&mut self, from: Side, transmit: &Transmit, bytes: &[u8]) {
        let to = from.peer();
        let Some(four_tuple) = self.addresses.route(from, transmit.four_tuple) else {
            return;
        };
        let size = transmit.segment_size.unwrap_or(transmit.len).max(1);
        for segment in bytes[..transmit.len].chunks(size) {
            assert!(!segment.is_empty(), "empty datagram");
            self.sniffed[slot(to)].note(segment, self.setup.endpoint_cid_len(to));
            // Both directions' Initial keys come from one connection ID.
            self.sniffed[slot(from)].mark = self.sniffed[slot(to)].mark;
            let queue = &mut self.under_way[slot(to)];
            if queue.len() < MAX_UNDER_WAY {
                queue.push_back(Datagram {
                    due: self.now + LATENCY,
                    four_tuple,
                    ecn: transmit.ecn,
                    bytes: segment.to_vec(),
                });
            }
        }
    }

    /// Lets everything happen that is due now.
    pub(crate) fn settle(&mut self) {
        for turn in 0.. {
            for side in [Side::Client, Side::Server] {
                self.pump(side);
            }
            let mut due = false;
            for end in self.hosts.iter_mut().flat_map(|host| &mut host.ends) {
                if end
                    .connection
                    .poll_timeout()
                    .is_some_and(|at| at <= self.now)
                {
                    end.connection.handle_timeout(self.now);
                    due = true;
                }
            }
            if !due {
                return;
            }
            assert!(turn < MAX_TURNS, "a timer stays in the past");
        }
    }

    /// The earliest timer.
    pub(super) fn next_timer(&mut self) -> Option<Instant> {
        let ends = self.hosts.iter_mut().flat_map(|host| &mut host.ends);
        ends.fold(None, |next, end| {
            earliest(next, end.connection.poll_timeout())
        })
    }

    /// Endpoint events, application events and output of one host.
    fn pump(&mut self, side: Side) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for index in 0..self.hosts[slot(side)].ends.len() {
            let mut sent = 0;
            loop {
                let host = &mut self.hosts[slot(side)];
                let end = &mut host.ends[index];
                end.endpoint_events(&mut host.endpoint);
                end.events(self.coverage.as_ref());
                let transmit = end.connection.poll_transmit(self.now, &mut buffer, 10);
                let Some(transmit) = transmit else { break };
                sent += 1;
                assert!(sent < MAX_OUTPUT, "output without end");
                self.send(side, &transmit, &buffer);
            }
            let host = &mut self.hosts[slot(side)];
            host.ends[index].check(host.buffers);
        }
        self.buffer = buffer;
        self.hosts[slot(side)].bury();
    }
}

impl Host {
    /// Forgets connections that are drained.
    fn bury(&mut self) {
        let mut index = 0;
        while index < self.ends.len() {
            if self.ends[index].connection.is_drained() {
                let mut end = self.ends.swap_remove(index);
                end.endpoint_events(&mut self.endpoint);
                assert!(end.lost.is_some(), "drained without a word");
                end.messages.check(&end.connection, true);
                assert_eq!(
                    end.connection.poll_timeout(),
                    None,
                    "timer of a drained connection"
                );
                self.gone.push(end);
            } else {
                index += 1;
            }
        }
    }
}

impl End {
    fn new(handle: ConnectionHandle, connection: Connection, index: u16) -> Self {
        Self {
            handle,
            connection,
            index,
            streams: Streams::default(),
            messages: Messages::default(),
            connected: false,
            closed_by_script: false,
            lost: None,
        }
    }

    /// Whether data may still pass.
    pub(super) fn is_alive(&self) -> bool {
        self.lost.is_none() && !self.connection.is_closed()
    }

    fn endpoint_events(&mut self, endpoint: &mut Endpoint) {
        while let Some(event) = self.connection.poll_endpoint_event() {
            let drained = event == EndpointEvent::Drained;
            if let Some(answer) = endpoint.handle_connection_event(self.handle, event) {
                self.connection.handle_endpoint_event(answer);
            }
            if drained {
                assert_eq!(
                    self.connection.poll_endpoint_event(),
                    None,
                    "after the last event"
                );
            }
        }
    }

    fn events(&mut self, coverage: Option<&Coverage>) {
        while let Some(event) = self.connection.poll_event() {
            assert!(
                self.lost.is_none(),
                "{event:?} after the connection was lost"
            );
            match event {
                Event::Connected => {
                    assert!(!self.connected, "connected twice");
                    self.connected = true;
                }
                Event::Lost(error) => {
                    assert!(self.connection.is_closed(), "lost but open");
                    if let Some(coverage) = coverage {
                        coverage.on_lost(&error);
                    }
                    self.lost = Some(error);
                }
                Event::Stream(StreamEvent::Stopped { id, .. }) => {
                    self.streams.written.entry(id).or_default().reset = Some(0);
                }
                Event::Message(MessageEvent::Fate(report)) => self.messages.on_fate(report),
                _ => {}
            }
        }
    }

    /// What must hold at any time.
    fn check(&self, [receive, send]: [u64; 2]) {
        self.messages.check(&self.connection, false);
        let streams = self.connection.stream_stats();
        assert!(
            streams.receive_buffered_bytes <= receive,
            "{} bytes received and not read, of {receive}",
            streams.receive_buffered_bytes
        );
        assert!(
            streams.send_buffered_bytes <= send,
            "{} bytes written and not acknowledged, of {send}",
            streams.send_buffered_bytes
        );
        let stats = self.connection.stats();
        let path = self.connection.path_stats(PathId::ZERO);
        let unproven = path.is_some_and(|path| !path.validated);
        if self.connection.side() == Side::Server && unproven && !self.connected {
            assert!(
                stats.bytes_sent <= 3 * stats.bytes_received,
                "amplification: {} of {}",
                stats.bytes_sent,
                stats.bytes_received
            );
        }
    }
}
