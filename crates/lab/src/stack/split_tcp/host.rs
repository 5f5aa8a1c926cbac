//! An end of the connection on its simulated host.
//!
//! Owns: [`Host`], which brings program, streams, sender and receiver together: handshake, close,
//! timers, packets. Does not own: any of their rules.

use std::{any::Any, collections::VecDeque, net::SocketAddr, time::Duration};

use bytes::Bytes;
use tautline_sim::{Datagram, Node};
use tautline_transport::{
    congestion::CongestionController,
    time::{Instant, earliest},
    units::Ecn,
};

use super::{
    mux::Mux,
    receive::{AckRule, Receiver},
    segment::{Kind, Segment, stamp},
    send::Sender,
};
use crate::{
    session::{Half, Happening, Read, Session, StreamKey, Way},
    stack::WireStats,
};

/// Bytes of TLS 1.3 in each flight, about as our own stack's in the laboratory: ClientHello; ServerHello
/// to Finished with a small certificate; the client's Finished.
const CLIENT_HELLO: usize = 330;
const SERVER_FLIGHT: usize = 800;
const CLIENT_FINISHED: usize = 58;
/// Datagrams beside the connection that wait for the program.
const MOST_DATAGRAM_BYTES: usize = 1 << 20;

/// How an end behaves.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) client: bool,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// When a client connects.
    pub(super) start: Instant,
    /// Data bytes of a full segment.
    pub(super) segment: usize,
    pub(super) receive_buffer: u64,
    pub(super) send_buffer: u64,
    pub(super) streams: u32,
    pub(super) ack: AckRule,
    pub(super) initial_timeout: Duration,
    /// How long data may go without any word from the other end.
    pub(super) patience: Duration,
    pub(super) paced: bool,
    pub(super) controller: Box<dyn CongestionController>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The client has not begun, the server has heard nothing.
    Idle,
    Handshake,
    Connected,
    Over,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    packets: u64,
    bytes: u64,
    acks: u64,
}

#[derive(Debug)]
struct Connection {
    client: bool,
    local: SocketAddr,
    remote: SocketAddr,
    segment: usize,
    send_buffer: u64,
    patience: Duration,
    state: State,
    /// Whether the server has sent its part of the handshake.
    answered: bool,
    mux: Mux,
    sender: Sender,
    receiver: Receiver,
    /// When the other end was last heard, or data began to wait for it.
    heard: Instant,
    /// Whether the other end has to be told that this is over.
    tells_close: bool,
    events: VecDeque<Happening>,
    datagrams_in: VecDeque<Bytes>,
    datagrams_in_bytes: usize,
    datagrams_out: VecDeque<Bytes>,
    counters: Counters,
}

/// A simulated host with a program over one split connection.
pub(super) struct Host {
    half: Box<dyn Half>,
    start: Option<Instant>,
    connection: Connection,
}

impl Host {
    pub(super) fn new(settings: Settings, half: Box<dyn Half>) -> Self {
        let expected = if settings.client {
            SERVER_FLIGHT
        } else {
            CLIENT_HELLO + CLIENT_FINISHED
        };
        let mux = Mux::new(
            settings.client,
            settings.segment,
            settings.streams,
            expected,
        );
        let connection = Connection {
            client: settings.client,
            local: settings.local,
            remote: settings.remote,
            segment: settings.segment,
            send_buffer: settings.send_buffer,
            patience: settings.patience,
            state: State::Idle,
            answered: false,
            mux,
            sender: Sender::new(
                settings.start,
                settings.segment,
                // What the other end's buffer is taken to be until it tells: its own.
                settings.receive_buffer,
                settings.initial_timeout,
                settings.controller,
                settings.paced,
            ),
            receiver: Receiver::new(settings.receive_buffer, settings.ack),
            heard: settings.start,
            tells_close: false,
            events: VecDeque::new(),
            datagrams_in: VecDeque::new(),
            datagrams_in_bytes: 0,
            datagrams_out: VecDeque::new(),
            counters: Counters::default(),
        };
        Self {
            half,
            start: settings.client.then_some(settings.start),
            connection,
        }
    }

    pub(super) fn half(&self) -> &dyn Half {
        self.half.as_ref()
    }

    pub(super) fn wire_stats(&self) -> WireStats {
        let connection = &self.connection;
        let sender = &connection.sender;
        let rtt = sender.rtt();
        WireStats {
            rtt: rtt.map(|rtt| rtt.smoothed),
            min_rtt: rtt.map(|rtt| rtt.min),
            window: sender.window(),
            pacing_rate: sender.pacing_rate(),
            in_flight: Some(sender.in_flight()),
            datagrams_sent: connection.counters.packets,
            bytes_sent: connection.counters.bytes,
            packets_sent: sender.counters.segments,
            packets_lost: sender.counters.lost,
            spurious_losses: Some(sender.counters.spurious),
            ptos: Some(sender.counters.timeouts),
            acks_sent: connection.counters.acks,
            fec: None,
        }
    }

    /// Tells the program everything there is to tell. Returns whether there was anything.
    fn settle(&mut self, now: Instant) -> bool {
        let connection = &mut self.connection;
        let mut told = false;
        loop {
            let event = connection.events.pop_front();
            let Some(event) = event.or_else(|| connection.mux.event()) else {
                break;
            };
            told = true;
            self.half.on(&mut Live { now, connection }, event);
        }
        connection.receiver.hold(now, connection.mux.unread());
        told
    }
}

impl Connection {
    fn on_packet(&mut self, now: Instant, payload: Bytes) {
        // Damaged packets do not pass the checksum.
        let Some(segment) = Segment::decode(payload) else {
            return;
        };
        match (self.state, segment.kind) {
            (State::Over, Kind::Stream) => self.tells_close = true,
            (State::Over, _) => {}
            (_, Kind::Close) => self.end(None),
            (State::Connected, Kind::Datagram) => {
                if self.datagrams_in_bytes + segment.data.len() <= MOST_DATAGRAM_BYTES {
                    self.datagrams_in_bytes += segment.data.len();
                    self.datagrams_in.push_back(segment.data);
                    self.events.push_back(Happening::Datagram);
                }
            }
            (_, Kind::Datagram) => {}
            (_, Kind::Stream) => self.on_segment(now, &segment),
        }
    }

    fn on_segment(&mut self, now: Instant, segment: &Segment) {
        self.heard = now;
        if self.state == State::Idle {
            self.state = State::Handshake;
        }
        let una = self.sender.una();
        self.sender.on_ack(now, segment);
        if self.sender.una() > una && self.mux.has_blocked() && self.room() >= self.send_buffer / 8
        {
            self.mux.unblock();
        }
        if segment.data.is_empty() {
            return;
        }
        self.receiver.on_data(now, segment);
        while let Some(data) = self.receiver.take() {
            if let Err(reason) = self.mux.on_bytes(data) {
                self.tells_close = true;
                self.end(Some(reason));
                return;
            }
        }
        self.greet();
    }

    /// Goes on with the handshake as far as it has come: one round trip from end to end, which no
    /// proxy can shorten.
    fn greet(&mut self) {
        if self.state != State::Handshake {
            return;
        }
        if self.mux.handshake_left() == 0 {
            if self.client {
                self.mux.send_handshake(CLIENT_FINISHED);
            }
            self.state = State::Connected;
            self.events.push_back(Happening::Connected);
        } else if !self.client && self.mux.handshake_left() == CLIENT_FINISHED && !self.answered {
            self.answered = true;
            self.mux.send_handshake(SERVER_FLIGHT);
        }
    }

    fn begin(&mut self, now: Instant) {
        if self.state == State::Idle {
            self.state = State::Handshake;
            self.heard = now;
            self.mux.send_handshake(CLIENT_HELLO);
        }
    }

    fn end(&mut self, reason: Option<String>) {
        if self.state == State::Over {
            return;
        }
        self.state = State::Over;
        self.mux.end();
        self.events.clear();
        self.datagrams_in.clear();
        self.datagrams_out.clear();
        self.events.push_back(Happening::Closed(reason));
    }

    /// Bytes that the send buffer still takes.
    fn room(&self) -> u64 {
        let used = self.mux.unsent() + self.sender.outstanding();
        self.send_buffer.saturating_sub(used)
    }

    fn gives_up_at(&self) -> Option<Instant> {
        (self.state != State::Over && self.sender.outstanding() > 0)
            .then(|| self.heard + self.patience)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.state == State::Over {
            return None;
        }
        let recovery = earliest(self.sender.timeout(), self.receiver.due());
        earliest(recovery, self.gives_up_at())
    }

    fn on_timeout(&mut self, now: Instant) {
        if self.state == State::Over {
            return;
        }
        if self.gives_up_at().is_some_and(|at| at <= now) {
            let reason = format!("no word from the other end for {:?}", self.patience);
            self.tells_close = true;
            self.end(Some(reason));
            return;
        }
        if self.sender.timeout().is_some_and(|at| at <= now) {
            self.sender.on_timeout(now);
        }
    }

    fn packet(&mut self, now: Instant, mut segment: Segment) -> Datagram {
        segment.stamp = stamp(now);
        let payload = segment.encode();
        self.counters.packets += 1;
        self.counters.bytes += payload.len() as u64;
        Datagram {
            src: self.local,
            dst: self.remote,
            ecn: Ecn::NotEct,
            payload,
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        if std::mem::take(&mut self.tells_close) {
            let segment = Segment {
                kind: Kind::Close,
                ..Segment::default()
            };
            return Some(self.packet(now, segment));
        }
        if self.state == State::Over {
            return None;
        }
        if let Some(data) = self.datagrams_out.pop_front() {
            let segment = Segment {
                kind: Kind::Datagram,
                data,
                ..Segment::default()
            };
            return Some(self.packet(now, segment));
        }
        let due = self.receiver.due().is_some_and(|at| at <= now);
        // A full segment has no room for SACK blocks.
        if due && self.receiver.has_holes() {
            return Some(self.acknowledgement(now));
        }
        let idle = self.sender.outstanding() == 0;
        if let Some((start, data)) = self.sender.poll(now, &mut self.mux) {
            if idle {
                self.heard = self.heard.max(now);
            }
            let mut segment = Segment {
                seq: start as u32,
                data,
                ..Segment::default()
            };
            self.counters.acks += u64::from(self.receiver.acknowledge(&mut segment));
            segment.blocks = Default::default();
            return Some(self.packet(now, segment));
        }
        due.then(|| self.acknowledgement(now))
    }

    fn acknowledgement(&mut self, now: Instant) -> Datagram {
        let mut segment = Segment::default();
        self.receiver.acknowledge(&mut segment);
        self.counters.acks += 1;
        self.packet(now, segment)
    }
}

impl Node for Host {
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram) {
        self.connection
            .on_packet(now, Bytes::from(datagram.payload));
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.start.is_some_and(|start| start <= now) {
            self.start = None;
            self.connection.begin(now);
        }
        self.connection.on_timeout(now);
        if self.half.poll_timer().is_some_and(|at| at <= now) {
            let connection = &mut self.connection;
            self.half.on_timer(&mut Live { now, connection });
        }
        self.settle(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let own = earliest(self.start, self.connection.poll_timeout());
        earliest(own, self.half.poll_timer())
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        loop {
            let datagram = self.connection.poll_transmit(now);
            // Streams may have ended by being sent: then others may open.
            if datagram.is_some() || !self.settle(now) {
                return datagram;
            }
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// The connection as its program sees it.
struct Live<'a> {
    now: Instant,
    connection: &'a mut Connection,
}

impl Live<'_> {
    fn is_connected(&self) -> bool {
        self.connection.state == State::Connected
    }
}

impl Session for Live<'_> {
    fn now(&self) -> Instant {
        self.now
    }

    fn open(&mut self, way: Way) -> Option<StreamKey> {
        self.is_connected()
            .then(|| self.connection.mux.open(way))
            .flatten()
    }

    fn write(&mut self, stream: StreamKey, data: &mut Bytes) -> usize {
        let room = self.connection.room();
        self.connection.mux.write(stream, data, room)
    }

    fn finish(&mut self, stream: StreamKey) {
        self.connection.mux.finish(stream);
    }

    fn reset(&mut self, stream: StreamKey) {
        self.connection.mux.reset(stream);
    }

    fn read(&mut self, stream: StreamKey) -> Read {
        self.connection.mux.read(stream)
    }

    fn stop(&mut self, stream: StreamKey) {
        self.connection.mux.stop(stream);
    }

    fn prioritise(&mut self, stream: StreamKey, urgency: u8, incremental: bool) {
        self.connection.mux.prioritise(stream, urgency, incremental);
    }

    fn send_datagram(&mut self, data: Bytes) -> bool {
        let fits = self.is_connected() && data.len() <= self.connection.segment;
        if fits {
            self.connection.datagrams_out.push_back(data);
        }
        fits
    }

    fn receive_datagram(&mut self) -> Option<Bytes> {
        let data = self.connection.datagrams_in.pop_front()?;
        self.connection.datagrams_in_bytes -= data.len();
        Some(data)
    }

    fn close(&mut self) {
        if self.connection.state != State::Over {
            self.connection.tells_close = self.connection.state != State::Idle;
            self.connection.end(None);
        }
    }
}
