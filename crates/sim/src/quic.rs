//! A QUIC endpoint as a [`Node`]: the real transport on a simulated host.
//!
//! Owns: [`QuicHost`], which drives one [`Endpoint`] and its connections, and [`App`], what runs
//! on top. Does not own: QUIC itself (`tautline-transport`). This is the one file of the crate
//! that knows QUIC.

use std::{
    any::Any,
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    ops::Bound,
};

use bytes::{Bytes, BytesMut};
use tautline_transport::{
    config::ClientConfig,
    connection::{Connection, EndpointEvent, Event},
    endpoint::{
        ConnectError, ConnectionHandle, DatagramEvent, DatagramMeta, Endpoint, Incoming, Transmit,
    },
    time::{Instant, earliest},
    units::FourTuple,
};

use crate::{Datagram, Node};

/// Datagrams of one segmentation batch; more than any pacer lets go at simulated rates.
const MAX_SEGMENTS: usize = 64;
const BUFFER_BYTES: usize = 65_535;

thread_local! {
    /// Where datagrams are written before they are copied out. One for all hosts of a thread: a
    /// buffer for each of many would never be in the caches when it is needed.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What to do with a new connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Accept it.
    Accept,
    /// Ask for address validation first, unless done.
    Retry,
    /// Refuse it.
    Refuse,
}

/// The program on top of a [`QuicHost`].
///
/// Each method may use every connection through [`Context`].
pub trait App: Any {
    /// The simulation begins.
    fn on_start(&mut self, _cx: &mut Context<'_>) {}
    /// A client knocks.
    fn on_incoming(&mut self, _incoming: &Incoming) -> Admission {
        Admission::Accept
    }
    /// A connection was accepted.
    fn on_accepted(&mut self, _cx: &mut Context<'_>, _connection: ConnectionHandle) {}
    /// Something happened on a connection.
    fn on_event(&mut self, cx: &mut Context<'_>, connection: ConnectionHandle, event: Event);
    /// The time named by [`App::poll_timer`] has come.
    fn on_timer(&mut self, _cx: &mut Context<'_>) {}
    /// Nothing is left to be done for now: a moment to look at connections.
    fn on_settled(&mut self, _cx: &mut Context<'_>) {}
    /// When [`App::on_timer`] is wanted.
    fn poll_timer(&self) -> Option<Instant> {
        None
    }
}

/// The host as its program sees it.
pub struct Context<'a> {
    /// Now.
    pub now: Instant,
    /// The host's own address; of several, the first.
    pub local: SocketAddr,
    endpoint: &'a mut Endpoint,
    connections: &'a mut BTreeMap<ConnectionHandle, Connection>,
}

impl Context<'_> {
    /// Starts a connection.
    ///
    /// # Errors
    /// As [`Endpoint::connect`].
    pub fn connect(
        &mut self,
        config: ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<ConnectionHandle, ConnectError> {
        self.connect_from(self.local, config, remote, server_name)
    }

    /// Starts a connection from one of several addresses of the host.
    ///
    /// # Errors
    /// As [`Endpoint::connect`].
    pub fn connect_from(
        &mut self,
        local: SocketAddr,
        config: ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<ConnectionHandle, ConnectError> {
        let four_tuple = FourTuple { local, remote };
        let (handle, connection) =
            self.endpoint
                .connect(self.now, config, four_tuple, server_name)?;
        self.connections.insert(handle, connection);
        Ok(handle)
    }

    /// A connection, while it lives.
    pub fn connection(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        self.connections.get_mut(&handle)
    }

    /// The handles of all living connections.
    pub fn handles(&self) -> Vec<ConnectionHandle> {
        self.connections.keys().copied().collect()
    }
}

/// A simulated host that runs the real transport.
pub struct QuicHost<A> {
    endpoint: Endpoint,
    connections: BTreeMap<ConnectionHandle, Connection>,
    app: A,
    local: SocketAddr,
    started: bool,
    outgoing: VecDeque<Datagram>,
    stateless: Vec<u8>,
    timeout: Option<Instant>,
    drained: u64,
}

impl<A: App> QuicHost<A> {
    /// A host at `local` running `app` over `endpoint`. The host may have more addresses: datagrams
    /// come to any of them and leave from the one that their path has.
    pub fn new(endpoint: Endpoint, local: SocketAddr, app: A) -> Self {
        Self {
            endpoint,
            connections: BTreeMap::new(),
            app,
            local,
            started: false,
            outgoing: VecDeque::new(),
            stateless: Vec::new(),
            // The world asks for the first timeout at the start.
            timeout: Some(Instant::ZERO),
            drained: 0,
        }
    }

    /// The program.
    pub fn app(&self) -> &A {
        &self.app
    }

    /// The program, to be changed between events.
    pub fn app_mut(&mut self) -> &mut A {
        &mut self.app
    }

    /// A connection, while it lives.
    pub fn connection(&self, handle: ConnectionHandle) -> Option<&Connection> {
        self.connections.get(&handle)
    }

    /// A connection, while it lives. Call [`QuicHost::kick`] after changing it.
    pub fn connection_mut(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        self.connections.get_mut(&handle)
    }

    /// All living connections.
    pub fn connections(&self) -> impl Iterator<Item = (ConnectionHandle, &Connection)> {
        self.connections
            .iter()
            .map(|(handle, connection)| (*handle, connection))
    }

    /// Connections that were closed and forgotten.
    pub fn drained(&self) -> u64 {
        self.drained
    }

    /// Asks the world for a turn at once, so that changes made from outside take effect.
    pub fn kick(&mut self) {
        self.timeout = Some(Instant::ZERO);
    }

    /// Calls `f` with the program and its context, then lets everything run that follows.
    pub fn with_app<R>(
        &mut self,
        now: Instant,
        f: impl FnOnce(&mut A, &mut Context<'_>) -> R,
    ) -> R {
        let mut context = Context {
            now,
            local: self.local,
            endpoint: &mut self.endpoint,
            connections: &mut self.connections,
        };
        let result = f(&mut self.app, &mut context);
        self.settle(now);
        self.kick();
        result
    }

    fn queue(&mut self, transmit: &Transmit, bytes: &[u8]) {
        let size = transmit.segment_size.unwrap_or(transmit.len).max(1);
        for segment in bytes.chunks(size) {
            self.outgoing.push_back(Datagram {
                src: transmit.four_tuple.local,
                dst: transmit.four_tuple.remote,
                ecn: transmit.ecn,
                payload: segment.to_vec(),
            });
        }
    }

    /// Runs endpoint events, application events and transmissions until nothing is left to do.
    fn settle(&mut self, now: Instant) {
        let last = self.connections.keys().next_back().copied();
        let mut next = self.connections.keys().next().copied();
        while let Some(handle) = next {
            self.settle_connection(now, handle);
            next = last.filter(|last| *last > handle).and_then(|last| {
                let rest = (Bound::Excluded(handle), Bound::Included(last));
                self.connections.range(rest).next().map(|(next, _)| *next)
            });
        }
        let mut context = Context {
            now,
            local: self.local,
            endpoint: &mut self.endpoint,
            connections: &mut self.connections,
        };
        self.app.on_settled(&mut context);
        self.timeout = self.app.poll_timer();
        for connection in self.connections.values_mut() {
            self.timeout = earliest(self.timeout, connection.poll_timeout());
        }
    }

    fn settle_connection(&mut self, now: Instant, handle: ConnectionHandle) {
        for round in 0.. {
            self.endpoint_events(handle);
            let mut happened = false;
            while let Some(event) = self
                .connections
                .get_mut(&handle)
                .and_then(Connection::poll_event)
            {
                happened = true;
                let mut context = Context {
                    now,
                    local: self.local,
                    endpoint: &mut self.endpoint,
                    connections: &mut self.connections,
                };
                self.app.on_event(&mut context, handle, event);
            }
            // It has said that it has nothing more to send, and nothing happened to it since.
            if round > 0 && !happened {
                break;
            }
            self.transmit(now, handle);
        }
        if self
            .connections
            .get(&handle)
            .is_some_and(Connection::is_drained)
        {
            self.endpoint_events(handle);
            self.connections.remove(&handle);
            self.drained += 1;
        }
    }

    fn endpoint_events(&mut self, handle: ConnectionHandle) {
        while let Some(event) = self
            .connections
            .get_mut(&handle)
            .and_then(Connection::poll_endpoint_event)
        {
            let drained = event == EndpointEvent::Drained;
            let answer = self.endpoint.handle_connection_event(handle, event);
            if let (Some(answer), Some(connection)) = (answer, self.connections.get_mut(&handle)) {
                connection.handle_endpoint_event(answer);
            }
            if drained {
                break;
            }
        }
    }

    fn transmit(&mut self, now: Instant, handle: ConnectionHandle) {
        SCRATCH.with_borrow_mut(|buffer| {
            buffer.resize(BUFFER_BYTES, 0);
            while let Some(transmit) = self
                .connections
                .get_mut(&handle)
                .and_then(|connection| connection.poll_transmit(now, buffer, MAX_SEGMENTS))
            {
                self.queue(&transmit, buffer.get(..transmit.len).unwrap_or_default());
            }
            debug_assert!(
                self.connections.get_mut(&handle).is_none_or(|connection| {
                    connection
                        .poll_transmit(now, buffer, MAX_SEGMENTS)
                        .is_none()
                }),
                "a connection that had nothing to send has something at once after that"
            );
        });
    }

    fn on_incoming(&mut self, now: Instant, incoming: Incoming) {
        let mut admission = self.app.on_incoming(&incoming);
        if admission == Admission::Retry && incoming.is_validated() {
            admission = Admission::Accept;
        }
        let mut out = std::mem::take(&mut self.stateless);
        out.clear();
        match admission {
            Admission::Accept => {
                // A refusal for lack of room is silent; the client tries again.
                if let Ok((handle, connection)) = self.endpoint.accept(now, incoming, None) {
                    self.connections.insert(handle, connection);
                    let mut context = Context {
                        now,
                        local: self.local,
                        endpoint: &mut self.endpoint,
                        connections: &mut self.connections,
                    };
                    self.app.on_accepted(&mut context, handle);
                }
            }
            Admission::Retry => {
                if let Some(transmit) = self.endpoint.retry(now, incoming, &mut out) {
                    self.queue(&transmit, &out);
                }
            }
            Admission::Refuse => {
                if let Some(transmit) = self.endpoint.refuse(now, incoming, &mut out) {
                    self.queue(&transmit, &out);
                }
            }
        }
        self.stateless = out;
    }
}

impl<A: App> Node for QuicHost<A> {
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram) {
        let meta = DatagramMeta {
            four_tuple: datagram.four_tuple_at_receiver(),
            ecn: datagram.ecn,
        };
        let data = BytesMut::from(Bytes::from(datagram.payload));
        let mut out = std::mem::take(&mut self.stateless);
        out.clear();
        let event = self.endpoint.handle_datagram(now, meta, data, &mut out);
        match event {
            DatagramEvent::Connection(handle, data) => {
                if let Some(connection) = self.connections.get_mut(&handle) {
                    connection.handle_datagram(now, meta, data);
                }
            }
            DatagramEvent::Transmit(transmit) => self.queue(&transmit, &out),
            DatagramEvent::Incoming(incoming) => self.on_incoming(now, incoming),
            _ => {}
        }
        self.stateless = out;
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if !self.started {
            self.started = true;
            let mut context = Context {
                now,
                local: self.local,
                endpoint: &mut self.endpoint,
                connections: &mut self.connections,
            };
            self.app.on_start(&mut context);
        }
        for connection in self.connections.values_mut() {
            if connection.poll_timeout().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
            }
        }
        if self.app.poll_timer().is_some_and(|at| at <= now) {
            let mut context = Context {
                now,
                local: self.local,
                endpoint: &mut self.endpoint,
                connections: &mut self.connections,
            };
            self.app.on_timer(&mut context);
        }
        self.settle(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timeout
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Datagram> {
        self.outgoing.pop_front()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
