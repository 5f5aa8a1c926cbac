//! A node around a stack of the quinn family.
//!
//! quinn-proto and noq-proto have one shape and different types, so the node is a macro; what
//! differs in more than the name of the crate stands in `quinn.rs` and `noq.rs` as `glue`.
//!
//! A node is one connection: a client makes it at its start, a server takes the first that comes
//! and ignores others. It stays after its end, so that its counters can still be read. Several paths
//! (`several.rs`) are opened by a client as soon as it is connected and the peer lets it.

/// Defines the stack `$stack` over `$proto`, called `$name` by its makers, with the module's `glue`.
macro_rules! stack {
    ($proto:ident, $stack:ident, $name:literal) => {
        use std::{any::Any, collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};

        use bytes::{Buf, Bytes, BytesMut};
        use tautline_lab::{
            session::{Half, Happening, Nobody, Read, Session, StreamKey, Way},
            stack::{EndSetup, Inspection, OptionError, PathWire, Stack, StackOptions, WireStats},
        };
        use tautline_sim::{Datagram, Node, tls};
        use tautline_transport::{
            rng::Rng,
            time::{Instant, earliest},
            units::Ecn,
        };
        use $proto::{
            AckFrequencyConfig, ClientConfig, Connection, ConnectionError, ConnectionHandle,
            ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir, EcnCodepoint, Endpoint,
            EndpointConfig, Event, IdleTimeout, MtuDiscoveryConfig, ReadError, ServerConfig,
            StreamEvent, StreamId, Transmit, TransportConfig, ValidationTokenConfig, VarInt,
            crypto,
        };

        use crate::{
            options::{ACK_EVERY, Settings},
            parts::{self, CID_BYTES, DEFAULT_MTU, FIRST_CID_BYTES, clock, instant},
            several::Several,
        };

        #[doc = concat!($name, "-proto.")]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $stack;

        impl Stack for $stack {
            fn client(
                &self,
                options: &StackOptions,
                setup: EndSetup,
            ) -> Result<Box<dyn Node>, String> {
                let settings = settings(options).map_err(|error| error.problem)?;
                let mut rng = setup.rng;
                let crypto = tls::client_config(setup.seed.wrapping_add(1));
                let crypto = crypto::rustls::QuicClientConfig::try_from(crypto)
                    .map_err(|error| error.to_string())?;
                let mut config = ClientConfig::new(Arc::new(crypto));
                config.transport_config(Arc::new(transport(&settings)?));
                let first = ConnectionId::new(&rng.array::<FIRST_CID_BYTES>());
                config.initial_dst_cid_provider(Arc::new(move || first));
                let endpoint = endpoint(&settings, &mut rng, None)?;
                let connect = Some((setup.start, config, setup.remote));
                let ready = options.ready.unwrap_or_default();
                let several = Several::new(settings.several, setup.local, setup.others, ready);
                Ok(Box::new(Peer::new(endpoint, several, setup.half, connect)))
            }

            fn server(
                &self,
                options: &StackOptions,
                setup: EndSetup,
            ) -> Result<Box<dyn Node>, String> {
                let settings = settings(options).map_err(|error| error.problem)?;
                let mut rng = setup.rng;
                let crypto = tls::server_config(setup.seed);
                let crypto = crypto::rustls::QuicServerConfig::try_from(crypto)
                    .map_err(|error| error.to_string())?;
                let mut config = ServerConfig::with_crypto(Arc::new(crypto));
                config.transport_config(Arc::new(transport(&settings)?));
                // For a second connection, which there never is; their key could not be seeded.
                let mut tokens = ValidationTokenConfig::default();
                tokens.sent(0);
                config.validation_token_config(tokens);
                let endpoint = endpoint(&settings, &mut rng, Some(config))?;
                let ready = Default::default();
                let several = Several::new(settings.several, setup.local, Vec::new(), ready);
                Ok(Box::new(Peer::new(endpoint, several, setup.half, None)))
            }

            fn inspect<'a>(&self, node: &'a dyn Any) -> Option<Inspection<'a>> {
                let peer = node.downcast_ref::<Peer>()?;
                Some(Inspection {
                    half: peer.half.as_ref(),
                    wire: peer.wire,
                })
            }

            fn paths(&self, node: &dyn Any) -> Vec<PathWire> {
                let peer = node.downcast_ref::<Peer>();
                peer.map(|peer| peer.several.all()).unwrap_or_default()
            }

            fn is_deterministic(&self, options: &StackOptions) -> bool {
                let name = options.congestion.as_deref();
                !name.is_some_and(|name| glue::UNSEEDED.contains(&name))
            }

            fn check(&self, options: &StackOptions) -> Result<(), OptionError> {
                settings(options).map(|_| ())
            }
        }

        fn settings(options: &StackOptions) -> Result<Settings, OptionError> {
            Settings::read(options, $name, glue::CONTROLLERS, glue::SEVERAL)
        }

        fn transport(settings: &Settings) -> Result<TransportConfig, String> {
            let mut config = TransportConfig::default();
            glue::congestion(
                &mut config,
                settings.congestion,
                settings.initial_window_bytes(),
            );
            if settings.several {
                glue::enable_several(&mut config);
            }
            if let Some(bytes) = settings.receive_window {
                let window = VarInt::from_u32(bytes);
                config.stream_receive_window(window).receive_window(window);
            }
            if let Some(bytes) = settings.send_buffer {
                config.send_window(bytes);
            }
            if let Some(count) = settings.max_streams {
                let count = VarInt::from_u32(count);
                config
                    .max_concurrent_bidi_streams(count)
                    .max_concurrent_uni_streams(count);
            }
            if let Some(fair) = settings.fair {
                config.send_fairness(fair);
            }
            if let Some(mtu) = settings.mtu {
                config.initial_mtu(mtu);
            }
            match (settings.mtu_discovery, settings.mtu) {
                (Some(false), _) => {
                    config.mtu_discovery_config(None);
                }
                (_, Some(mtu)) if mtu > DEFAULT_MTU => {
                    let mut discovery = MtuDiscoveryConfig::default();
                    discovery.upper_bound(mtu);
                    config.mtu_discovery_config(Some(discovery));
                }
                _ => {}
            }
            if let Some(delay) = settings.ack_frequency {
                let mut frequency = AckFrequencyConfig::default();
                frequency
                    .ack_eliciting_threshold(VarInt::from_u32(ACK_EVERY - 1))
                    .max_ack_delay(delay);
                config.ack_frequency_config(Some(frequency));
            }
            if let Some(rtt) = settings.initial_rtt {
                config.initial_rtt(rtt);
            }
            if let Some(timeout) = settings.idle_timeout {
                let timeout = IdleTimeout::try_from(timeout).map_err(|error| error.to_string())?;
                config.max_idle_timeout(Some(timeout));
            }
            Ok(config)
        }

        fn endpoint(
            settings: &Settings,
            rng: &mut Rng,
            server: Option<ServerConfig>,
        ) -> Result<Endpoint, String> {
            let mut config = EndpointConfig::new(Arc::new(ResetKey(rng.array())));
            config.rng_seed(Some(rng.array()));
            let seed = rng.array();
            glue::cid_generator(&mut config, move || -> Box<dyn ConnectionIdGenerator> {
                Box::new(Cids(Rng::from_seed(seed)))
            });
            let mtu = settings.mtu.unwrap_or(DEFAULT_MTU).max(DEFAULT_MTU);
            config
                .max_udp_payload_size(mtu)
                .map_err(|error| error.to_string())?;
            Ok(glue::endpoint(config, server))
        }

        /// Connection IDs from a seed.
        struct Cids(Rng);

        impl ConnectionIdGenerator for Cids {
            fn generate_cid(&mut self) -> ConnectionId {
                ConnectionId::new(&self.0.array::<CID_BYTES>())
            }

            fn cid_len(&self) -> usize {
                CID_BYTES
            }

            fn cid_lifetime(&self) -> Option<Duration> {
                None
            }
        }

        /// Makes stateless reset tokens, which anybody could make.
        struct ResetKey([u8; 32]);

        impl crypto::HmacKey for ResetKey {
            fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
                parts::tag(&self.0, data, signature_out);
            }

            fn signature_len(&self) -> usize {
                32
            }

            fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), crypto::CryptoError> {
                let mut expected = vec![0; signature.len()];
                self.sign(data, &mut expected);
                if expected == signature {
                    Ok(())
                } else {
                    Err(crypto::CryptoError)
                }
            }
        }

        /// A [`Half`] on one connection.
        struct Peer {
            endpoint: Endpoint,
            connection: Option<(ConnectionHandle, Connection)>,
            half: Box<dyn Half>,
            /// Of a client before its start.
            connect: Option<(Instant, ClientConfig, SocketAddr)>,
            several: Several,
            outgoing: VecDeque<Datagram>,
            buffer: Vec<u8>,
            timeout: Option<Instant>,
            /// Whether the half was told that it is over.
            over: bool,
            wire: Option<WireStats>,
        }

        impl Peer {
            fn new(
                endpoint: Endpoint,
                several: Several,
                half: Box<dyn Half>,
                connect: Option<(Instant, ClientConfig, SocketAddr)>,
            ) -> Self {
                let start = connect.as_ref().map(|(start, _, _)| *start);
                let timeout = earliest(start, half.poll_timer());
                Self {
                    endpoint,
                    connection: None,
                    half,
                    connect,
                    several,
                    outgoing: VecDeque::new(),
                    buffer: Vec::new(),
                    timeout,
                    over: false,
                    wire: None,
                }
            }

            fn tell(&mut self, now: Instant, happening: Happening) {
                let closes = match &mut self.connection {
                    Some((_, connection)) => {
                        let mut session = Open {
                            now,
                            connection,
                            closes: false,
                        };
                        self.half.on(&mut session, happening);
                        session.closes
                    }
                    None => {
                        self.half.on(&mut Nobody(now), happening);
                        false
                    }
                };
                if closes {
                    self.end(now, None);
                }
            }

            /// Tells the half, once, that the connection is over.
            fn end(&mut self, now: Instant, reason: Option<String>) {
                if !std::mem::replace(&mut self.over, true) {
                    self.tell(now, Happening::Closed(reason));
                }
            }

            fn on_event(&mut self, now: Instant, event: Event) {
                match event {
                    Event::Connected => {
                        if self.several.on_connected(now) {
                            self.tell(now, Happening::Connected);
                        }
                        self.open_paths(now);
                    }
                    Event::Stream(StreamEvent::Opened { dir }) => {
                        while let Some(id) = self
                            .connection
                            .as_mut()
                            .and_then(|(_, connection)| connection.streams().accept(dir))
                        {
                            self.tell(now, Happening::Opened(key(id)));
                            // What came with the opening has no event of its own.
                            self.tell(now, Happening::Readable(key(id)));
                        }
                    }
                    Event::Stream(StreamEvent::Readable { id }) => {
                        self.tell(now, Happening::Readable(key(id)));
                    }
                    Event::Stream(StreamEvent::Writable { id }) => {
                        self.tell(now, Happening::Writable(key(id)));
                    }
                    Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                        // Else the stream would hold its unsent data for good.
                        if let Some((_, connection)) = &mut self.connection {
                            let _ = connection.send_stream(id).reset(error_code);
                        }
                    }
                    Event::Stream(StreamEvent::Available { .. }) => {
                        self.tell(now, Happening::MayOpen);
                    }
                    Event::DatagramReceived => self.tell(now, Happening::Datagram),
                    Event::ConnectionLost { reason } => {
                        let reason = match reason {
                            ConnectionError::LocallyClosed => None,
                            ConnectionError::ApplicationClosed(close)
                                if close.error_code == VarInt::from_u32(0) =>
                            {
                                None
                            }
                            reason => Some(reason.to_string()),
                        };
                        self.end(now, reason);
                    }
                    other => {
                        if let Some(change) = glue::path_change(&other)
                            && self.several.on_change(now, change)
                        {
                            self.tell(now, Happening::Connected);
                        }
                    }
                }
            }

            /// Opens what paths are wanted and not open, as far as the peer lets us by now.
            fn open_paths(&mut self, now: Instant) {
                let Some((_, connection)) = &mut self.connection else {
                    return;
                };
                let open = |local| glue::open_path(connection, clock(now), local);
                if self.several.open(open) {
                    self.tell(now, Happening::Connected);
                }
            }

            fn queue(&mut self, transmit: &Transmit) {
                let size = transmit.segment_size.unwrap_or(transmit.size).max(1);
                let ecn = match transmit.ecn {
                    None => Ecn::NotEct,
                    Some(EcnCodepoint::Ect0) => Ecn::Ect0,
                    Some(EcnCodepoint::Ect1) => Ecn::Ect1,
                    Some(EcnCodepoint::Ce) => Ecn::Ce,
                };
                let src = self.several.source(transmit.src_ip);
                let written = self.buffer.get(..transmit.size).unwrap_or(&self.buffer);
                for segment in written.chunks(size) {
                    self.outgoing.push_back(Datagram {
                        src,
                        dst: transmit.destination,
                        ecn,
                        payload: segment.to_vec(),
                    });
                }
                self.buffer.clear();
            }

            fn receive(&mut self, now: Instant, datagram: Datagram) {
                let ecn = match datagram.ecn {
                    Ecn::NotEct => None,
                    Ecn::Ect0 => Some(EcnCodepoint::Ect0),
                    Ecn::Ect1 => Some(EcnCodepoint::Ect1),
                    Ecn::Ce => Some(EcnCodepoint::Ce),
                };
                let at = self.several.destination(datagram.dst);
                let data = BytesMut::from(datagram.payload.as_slice());
                self.buffer.clear();
                let event = glue::handle(
                    &mut self.endpoint,
                    clock(now),
                    (datagram.src, at),
                    ecn,
                    data,
                    &mut self.buffer,
                );
                match event {
                    Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                        if let Some((known, connection)) = &mut self.connection
                            && *known == handle
                        {
                            connection.handle_event(event);
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        if self.connection.is_some() || self.over {
                            self.endpoint.ignore(incoming);
                            return;
                        }
                        self.buffer.clear();
                        let accepted =
                            self.endpoint
                                .accept(incoming, clock(now), &mut self.buffer, None);
                        match accepted {
                            Ok(connection) => self.connection = Some(connection),
                            Err(error) => {
                                if let Some(transmit) = &error.response {
                                    self.queue(transmit);
                                }
                                self.end(now, Some(error.cause.to_string()));
                            }
                        }
                    }
                    Some(DatagramEvent::Response(transmit)) => self.queue(&transmit),
                    None => {}
                }
            }

            /// Does what is due.
            fn expire(&mut self, now: Instant) {
                if let Some((_, config, remote)) =
                    self.connect.take_if(|(start, _, _)| *start <= now)
                {
                    match self
                        .endpoint
                        .connect(clock(now), config, remote, "localhost")
                    {
                        Ok(connection) => self.connection = Some(connection),
                        Err(error) => self.end(now, Some(error.to_string())),
                    }
                }
                if let Some((_, connection)) = &mut self.connection
                    && connection
                        .poll_timeout()
                        .is_some_and(|due| due <= clock(now))
                {
                    connection.handle_timeout(clock(now));
                }
                if self.half.poll_timer().is_some_and(|at| at <= now) {
                    let closes = match &mut self.connection {
                        Some((_, connection)) => {
                            let mut session = Open {
                                now,
                                connection,
                                closes: false,
                            };
                            self.half.on_timer(&mut session);
                            session.closes
                        }
                        None => {
                            self.half.on_timer(&mut Nobody(now));
                            false
                        }
                    };
                    if closes {
                        self.end(now, None);
                    }
                }
            }

            /// Runs events and transmissions until nothing is left to do.
            fn settle(&mut self, now: Instant) {
                loop {
                    let mut progress = false;
                    if let Some((handle, connection)) = &mut self.connection {
                        while let Some(event) = connection.poll_endpoint_events() {
                            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                                connection.handle_event(answer);
                            }
                        }
                    }
                    while let Some(event) = self
                        .connection
                        .as_mut()
                        .and_then(|(_, connection)| connection.poll())
                    {
                        progress = true;
                        self.on_event(now, event);
                    }
                    self.buffer.clear();
                    while let Some((_, connection)) = &mut self.connection
                        && let Some(transmit) =
                            glue::poll_transmit(connection, clock(now), &mut self.buffer)
                    {
                        progress = true;
                        self.queue(&transmit);
                    }
                    if !progress {
                        break;
                    }
                }
                let mut timeout = self.half.poll_timer();
                timeout = earliest(timeout, self.connect.as_ref().map(|(start, _, _)| *start));
                if let Some((_, connection)) = &mut self.connection {
                    timeout = earliest(timeout, connection.poll_timeout().map(instant));
                    if let Some(stats) = glue::wire_stats(connection) {
                        self.wire = Some(stats);
                    }
                    if self.several.is_on() {
                        for path in glue::paths(connection, self.several.first()) {
                            self.several.note(now, path);
                        }
                    }
                }
                // What is due now was done; a timer that is due all the same must not stop time.
                let next = now + Duration::from_micros(1);
                self.timeout = timeout.map(|at| if at <= now { next } else { at });
            }
        }

        impl Node for Peer {
            fn handle_datagram(&mut self, now: Instant, datagram: Datagram) {
                self.receive(now, datagram);
                // Connection IDs for further paths may have come.
                self.open_paths(now);
                self.settle(now);
            }

            fn handle_timeout(&mut self, now: Instant) {
                self.expire(now);
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

        fn key(id: StreamId) -> StreamKey {
            StreamKey(VarInt::from(id).into_inner())
        }

        /// A connection as its half sees it.
        struct Open<'a> {
            now: Instant,
            connection: &'a mut Connection,
            /// Whether the half closed it.
            closes: bool,
        }

        impl Open<'_> {
            fn id(stream: StreamKey) -> Option<StreamId> {
                VarInt::from_u64(stream.0).ok().map(StreamId::from)
            }

            /// The stream, if this end may write to it.
            fn sending(&self, stream: StreamKey) -> Option<StreamId> {
                let side = self.connection.side();
                Self::id(stream).filter(|id| id.dir() == Dir::Bi || id.initiator() == side)
            }

            /// The stream, if this end may read from it.
            fn receiving(&self, stream: StreamKey) -> Option<StreamId> {
                let side = self.connection.side();
                Self::id(stream).filter(|id| id.dir() == Dir::Bi || id.initiator() != side)
            }
        }

        impl Session for Open<'_> {
            fn now(&self) -> Instant {
                self.now
            }

            fn open(&mut self, way: Way) -> Option<StreamKey> {
                let dir = match way {
                    Way::Both => Dir::Bi,
                    Way::Out => Dir::Uni,
                };
                self.connection.streams().open(dir).map(key)
            }

            fn write(&mut self, stream: StreamKey, data: &mut Bytes) -> usize {
                let Some(id) = self.sending(stream) else {
                    return 0;
                };
                let before = data.len();
                // To the last: only a write that is blocked is followed by an event.
                while !data.is_empty() {
                    match glue::write(self.connection, id, data.clone()) {
                        None | Some(0) => break,
                        Some(taken) => data.advance(taken),
                    }
                }
                before - data.len()
            }

            fn finish(&mut self, stream: StreamKey) {
                if let Some(id) = self.sending(stream) {
                    // A stream that the peer stopped or that is over needs no end.
                    let _ = self.connection.send_stream(id).finish();
                }
            }

            fn reset(&mut self, stream: StreamKey) {
                if let Some(id) = self.sending(stream) {
                    let _ = self.connection.send_stream(id).reset(VarInt::from_u32(0));
                }
            }

            fn read(&mut self, stream: StreamKey) -> Read {
                let Some(id) = self.receiving(stream) else {
                    return Read::Gone;
                };
                let mut stream = self.connection.recv_stream(id);
                let Ok(mut chunks) = stream.read(true) else {
                    return Read::Gone;
                };
                let read = match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => Read::Chunk(chunk.bytes),
                    Ok(None) => Read::Finished,
                    Err(ReadError::Blocked) => Read::Blocked,
                    Err(_) => Read::Gone,
                };
                // Whatever there is to transmit now is found when the node settles.
                let _ = chunks.finalize();
                read
            }

            fn stop(&mut self, stream: StreamKey) {
                if let Some(id) = self.receiving(stream) {
                    let _ = self.connection.recv_stream(id).stop(VarInt::from_u32(0));
                }
            }

            fn prioritise(&mut self, stream: StreamKey, urgency: u8, _incremental: bool) {
                if let Some(id) = self.sending(stream) {
                    // Theirs is the other way round, 0 being the default as 3 is here; whether
                    // streams take turns is a matter of the whole connection.
                    let priority = 3 - i32::from(urgency);
                    let _ = self.connection.send_stream(id).set_priority(priority);
                }
            }

            fn send_datagram(&mut self, data: Bytes) -> bool {
                self.connection.datagrams().send(data, false).is_ok()
            }

            fn receive_datagram(&mut self) -> Option<Bytes> {
                self.connection.datagrams().recv()
            }

            fn close(&mut self) {
                if !self.connection.is_closed() {
                    let code = VarInt::from_u32(0);
                    self.connection.close(clock(self.now), code, Bytes::new());
                    self.closes = true;
                }
            }
        }
    };
}

pub(crate) use stack;
