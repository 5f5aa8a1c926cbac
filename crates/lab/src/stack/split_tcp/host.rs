//! An end of the connection on its simulated host.
//!
//! Owns: [`Host`], which brings program, streams and the first leg of the way together: handshake, close.
//! Does not own: any of their rules; packets and timers (`leg.rs`).

use std::{any::Any, collections::VecDeque};

use bytes::Bytes;
use tautline_sim::{Datagram, Node};
use tautline_transport::time::{Instant, earliest};

use super::{
    leg::{self, Leg},
    mux::Mux,
    segment::{Kind, Segment},
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
    pub(super) streams: u32,
    pub(super) leg: leg::Settings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The client has not begun, the server has heard nothing.
    Idle,
    Handshake,
    Connected,
    Over,
}

#[derive(Debug)]
struct Connection {
    client: bool,
    state: State,
    /// Whether the server has sent its part of the handshake.
    answered: bool,
    mux: Mux,
    leg: Leg,
    events: VecDeque<Happening>,
    datagrams_in: VecDeque<Bytes>,
    datagrams_in_bytes: usize,
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
            settings.leg.segment,
            settings.streams,
            expected,
        );
        let start = settings.client.then_some(settings.leg.start);
        let connection = Connection {
            client: settings.client,
            state: State::Idle,
            answered: false,
            mux,
            leg: Leg::new(settings.leg),
            events: VecDeque::new(),
            datagrams_in: VecDeque::new(),
            datagrams_in_bytes: 0,
        };
        Self {
            half,
            start,
            connection,
        }
    }

    pub(super) fn half(&self) -> &dyn Half {
        self.half.as_ref()
    }

    pub(super) fn wire_stats(&self) -> WireStats {
        self.connection.leg.wire_stats()
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
        let unread = connection.mux.unread();
        connection.leg.receiver.hold(now, unread);
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
            (State::Over, Kind::Stream) => self.leg.tell_end(Bytes::new()),
            (State::Over, _) => {}
            (_, Kind::Close) => {
                // An end says nothing of its reasons, a proxy does.
                let reason = String::from_utf8_lossy(&segment.data);
                self.end((!reason.is_empty()).then(|| reason.into_owned()));
            }
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
        if self.state == State::Idle {
            self.state = State::Handshake;
        }
        let progress = self.leg.on_segment(now, segment);
        if progress && self.mux.has_blocked() && self.room() >= self.leg.send_buffer() / 8 {
            self.mux.unblock();
        }
        if segment.data.is_empty() {
            return;
        }
        while let Some(data) = self.leg.receiver.take() {
            if let Err(reason) = self.mux.on_bytes(data) {
                self.leg.tell_end(Bytes::new());
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
            self.leg.heard = now;
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
        self.leg.datagrams.clear();
        self.events.push_back(Happening::Closed(reason));
    }

    /// Bytes that the send buffer still takes.
    fn room(&self) -> u64 {
        self.leg.room(self.mux.unsent())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.state == State::Over {
            return None;
        }
        self.leg.timeout()
    }

    fn on_timeout(&mut self, now: Instant) {
        if self.state != State::Over && self.leg.on_timeout(now) {
            let reason = format!("no word from the other end for {:?}", self.leg.patience());
            self.leg.tell_end(Bytes::new());
            self.end(Some(reason));
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        let farewell = self.leg.poll_farewell(now);
        if farewell.is_some() || self.state == State::Over {
            return farewell;
        }
        self.leg.poll_transmit(now, &mut self.mux)
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
        let fits = self.is_connected() && data.len() <= self.connection.leg.segment();
        if fits {
            self.connection.leg.datagrams.push_back(data);
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
            if self.connection.state != State::Idle {
                self.connection.leg.tell_end(Bytes::new());
            }
            self.connection.end(None);
        }
    }
}
