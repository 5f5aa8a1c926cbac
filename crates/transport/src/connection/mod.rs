//! One QUIC connection: the hall that the rooms open onto.
//!
//! Purpose: join streams, paths, recovery, TLS and the wire into RFC 9000's connection.
//! Owns: the handshake, the order of frames in packets and of rooms per frame, connection-wide
//! timers and states, closing, what is kept after that (`aftermath.rs`).
//! Does not own: stream data (`stream/`), per-path facts (`path/`), packet protection (`tls/`),
//! demultiplexing and connection-ID generation (`endpoint/`).
//! Called by: the driver of a socket, or a simulator, through the public API here.
//! Spec: RFC 9000, RFC 9001, RFC 9368, RFC 9369.
//!
//! A driver's loop: hand in datagrams ([`Connection::handle_datagram`]) and time
//! ([`Connection::handle_timeout`]); then drain [`Connection::poll_endpoint_event`],
//! [`Connection::poll_transmit`] and [`Connection::poll_event`]; then wait until
//! [`Connection::poll_timeout`]. After the end of a connection that nobody will ask anything any more,
//! [`Connection::abandon`] frees what only the application could want.

mod ack_requests;
mod ack_route;
mod aftermath;
mod api;
mod close;
mod control;
mod copies;
mod costs;
mod coupling;
mod crypto_stream;
mod datagram_builder;
mod dispatch;
mod echoes;
mod events;
mod fates;
mod fec;
mod fec_lab;
mod fec_memory;
mod fec_paths;
mod hand_over;
mod handshake;
mod lifecycle;
mod messages;
mod migration;
mod mtu_probe;
mod multipath;
mod multipath_tx;
mod observation;
mod outbox;
mod params;
mod path_frames;
mod path_trace;
mod permit;
mod pins;
mod protect;
mod rebind;
mod rx;
mod stats;
mod timers;
mod tx;
mod unprotect;
mod wants;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use bytes::BytesMut;

use crate::{
    config::{EndpointConfig, TransportConfig},
    datagram::DatagramQueue,
    message::Messages,
    multipath::WindowRtt,
    observe::{self, ConnectionInfo, Observer},
    packet::Token,
    path::{IssuedConnectionId, Path, PathSet},
    rng::Rng,
    space::{PacketNumberSpace, TimestampConfig},
    stream::StreamSet,
    time::Instant,
    tls::StartError,
    units::{PathId, Side},
    wire::TransportParameters,
};

pub use events::{ConnectionEvent, EndpointEvent, Event};
pub use params::{ConnectionParams, SessionSource};
pub use stats::ConnectionStats;

use ack_route::AckWay;
use control::Control;
use fec::Fec;
use handshake::{CryptoStreams, Handshake, KeyStore, LongSpaces};
use lifecycle::Lifecycle;
use multipath::{Multipath, unopened};
use observation::Reported;
use outbox::Outbox;

/// The ack_delay_exponent we announce (the default). RFC 9000 s18.2.
const ACK_DELAY_EXPONENT: u8 = 3;
/// The shortest ACK delay a peer may ask of us.
const MIN_ACK_DELAY: Duration = Duration::from_millis(1);
/// Receive timestamps we ask for in one ACK.
const MAX_RECEIVE_TIMESTAMPS: u64 = 32;
/// The unit of the receive timestamps we ask for: microseconds.
const TIMESTAMPS_EXPONENT: u8 = 0;

/// The segmentation batch under construction. Nothing arrives meanwhile.
#[derive(Debug, Default)]
struct Batch {
    /// Whether the datagram under construction is the first one: what other paths owe goes there.
    leads: bool,
    /// Where acknowledgements go, as that one found it.
    ack_way: AckWay,
}

/// Buffers kept between calls so that packets cost no allocation.
#[derive(Debug, Default)]
struct Scratch {
    tokens: Vec<Token>,
    acked: Vec<Token>,
    deferred: Vec<Token>,
    ends_heard: Vec<PathId>,
}

/// One QUIC connection. See the [module documentation](self) for how to drive it.
pub struct Connection {
    side: Side,
    config: Arc<TransportConfig>,
    endpoint: Arc<EndpointConfig>,
    rng: Rng,
    started: Instant,
    life: Lifecycle,
    handshake: Handshake,
    keys: KeyStore,
    /// Initial and Handshake packet numbers; application data's belong to paths.
    spaces: LongSpaces,
    crypto: CryptoStreams,
    paths: PathSet,
    streams: StreamSet,
    datagrams: DatagramQueue,
    messages: Messages,
    control: Control,
    fec: Fec,
    /// Several paths, where both ends speak RFC 10069.
    multipath: Option<Box<Multipath>>,
    /// Some path costs something, or did.
    has_costs: bool,
    /// The peer's transport parameters, defaults until known.
    peer: TransportParameters,
    /// What the peer wants of receive timestamps.
    timestamps: Option<TimestampConfig>,
    /// PTO probes owed in the Initial and Handshake spaces.
    handshake_probes: [u8; 2],
    undecryptable: Vec<(rx::Arrival, BytesMut)>,
    /// What they wait for may have come.
    may_release: bool,
    /// More than stream data came since the last review, time passed, or a path changed: windows, round
    /// trips and paths may be others.
    unreviewed: bool,
    outbox: Outbox,
    observer: Observer,
    reported: Reported,
    stats: ConnectionStats,
    batch: Batch,
    scratch: Scratch,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.side)
            .field("state", &self.life.state)
            .field("remote", &self.remote_address())
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// A connection in its first state; a client's first flight is ready to be sent.
    ///
    /// # Errors
    /// [`StartError`] when a client's TLS session cannot start (a malformed server name).
    pub fn new(params: ConnectionParams) -> Result<Self, StartError> {
        let side = params.session.side();
        let now = params.now;
        let mut rng = params.rng.clone();
        let config = Arc::clone(&params.transport);
        let info = ConnectionInfo::new(side, params.original_dcid, params.four_tuple, now);
        let observer = Observer::from_factory(config.observer.as_ref(), &info);
        let handshake = Handshake::new(&params);
        let initial_keys = handshake.initial_keys(params.version);
        let remote_cid = params.remote_cid;
        let mut path = Path::new(
            PathId::ZERO,
            now,
            params.four_tuple,
            remote_cid,
            &config,
            &mut rng,
        );
        path.local_cids.insert_known(0, params.local_cid);
        if let Some((cid, _)) = params.preferred_cid {
            path.local_cids.insert_known(1, cid);
        }
        if side.is_client() || params.address_validated {
            path.network.amplification.set_validated();
        }
        let mut connection = Self {
            side,
            started: now,
            life: Lifecycle::new(now, config.max_idle_timeout, config.handshake_timeout),
            keys: KeyStore {
                initial: Some(initial_keys),
                former_initial: None,
                handshake: None,
                zero_rtt: None,
                one_rtt: None,
            },
            spaces: LongSpaces {
                initial: Some(PacketNumberSpace::new(&config.limits, false)),
                handshake: None,
            },
            crypto: CryptoStreams::default(),
            paths: PathSet::new(path),
            streams: StreamSet::new(side, &config),
            datagrams: DatagramQueue::new(&config),
            messages: Messages::default(),
            control: Control::new(params.validation_tokens.clone()),
            fec: Fec::default(),
            multipath: None,
            has_costs: false,
            peer: TransportParameters::default(),
            timestamps: None,
            handshake_probes: [0; 2],
            undecryptable: Vec::new(),
            may_release: false,
            unreviewed: true,
            outbox: Outbox::new(config.limits.pending_events),
            observer,
            reported: Reported::default(),
            stats: ConnectionStats::default(),
            batch: Batch::default(),
            scratch: Scratch::default(),
            endpoint: Arc::clone(&params.endpoint),
            handshake,
            config,
            rng,
        };
        connection
            .observer
            .emit(now, || observe::Event::ConnectionStarted {
                side,
                four_tuple: params.four_tuple,
                local_cid: params.local_cid,
                remote_cid: params.remote_cid,
            });
        connection.emit_start(now);
        connection.start_client_session(now)?;
        Ok(connection)
    }

    /// What follows every input: requests that became due.
    fn after_input(&mut self, now: Instant) {
        if self.is_closed() {
            self.emit_changes(now);
            return;
        }
        self.update_key_phase(now);
        // Most packets of a download bring stream data alone.
        let changed = std::mem::take(&mut self.unreviewed);
        if changed {
            let window = self.bytes_until_acknowledged();
            self.streams.set_congestion_window(window);
        }
        self.catch_up_with_messages(now);
        if changed {
            self.review_paths(now);
        }
        self.review_costs(now);
        self.review_ack_route(now);
        self.review_coupling(now, changed);
        for index in 0..self.paths.len() {
            if let Some(id) = self.paths.id_at(index) {
                self.review_ack_frequency(now, id);
            }
        }
        self.emit_changes(now);
    }

    /// Starts a key update before an AEAD limit is reached. RFC 9001 s6.6.
    fn update_key_phase(&mut self, now: Instant) {
        if !self.life.confirmed {
            return;
        }
        let wants = self
            .keys
            .one_rtt
            .as_ref()
            .is_some_and(|keys| keys.wants_update());
        if wants {
            // Refused while an earlier update is unconfirmed; then the limit itself protects.
            let _ = self.initiate_key_update(now);
        }
    }

    /// Old keys stay for three PTOs of the slowest path. RFC 9001 s6.5, RFC 10069.
    fn refresh_key_retention(&mut self) {
        let retention = 3 * self.largest_pto();
        if let Some(keys) = self.keys.one_rtt.as_mut() {
            keys.set_retention(retention);
        }
    }

    fn on_peer_key_update(&mut self, now: Instant) {
        let phase = self.key_phase();
        self.observer.emit(now, || observe::Event::KeysUpdated {
            phase,
            by_peer: true,
        });
    }

    fn peer_max_ack_delay(&self) -> Duration {
        Duration::from_millis(self.peer.max_ack_delay_ms)
    }

    fn min_ack_delay(&self) -> Duration {
        MIN_ACK_DELAY.min(self.config.max_ack_delay)
    }

    /// What all paths send while the slowest of them waits for an acknowledgement: as much must be kept
    /// for a sender that is never to wait for the application. With one path, its window.
    fn bytes_until_acknowledged(&self) -> u64 {
        let paths = || self.paths.iter().filter(|path| path.is_usable());
        if self.paths.len() == 1 {
            return self.paths.iter().map(|path| path.recovery.window()).sum();
        }
        let slowest = paths().map(|path| path.recovery.rtt().smoothed()).max();
        let slowest = slowest.unwrap_or_default();
        paths()
            .map(|path| {
                let rtt = path.recovery.rtt().smoothed();
                let rounds = slowest.as_secs_f64() / rtt.as_secs_f64().max(1e-6);
                (path.recovery.window() as f64 * rounds.max(1.0)) as u64
            })
            .sum()
    }

    /// The round trip by which receive windows are measured: with several paths what their configuration
    /// makes of those known.
    fn window_rtt(&self, id: PathId) -> Duration {
        if self.paths.len() == 1 {
            return self.smoothed_rtt(id);
        }
        let measured = self
            .paths
            .iter()
            .filter(|path| path.recovery.rtt().has_sample());
        let rtts = measured.map(|path| path.recovery.rtt().smoothed());
        let multipath = self.config.multipath.as_ref();
        let choice = multipath.map_or_else(WindowRtt::default, |config| config.window_rtt);
        choice.of(rtts).unwrap_or_else(|| self.smoothed_rtt(id))
    }

    fn smoothed_rtt(&self, id: PathId) -> Duration {
        match self.paths.get(id) {
            Some(path) => path.recovery.rtt().smoothed(),
            None => self.config.initial_rtt,
        }
    }

    /// Whether the peer is known to have validated our address. RFC 9002 A.6.
    fn peer_validated_us(&self) -> bool {
        self.side.is_server() || self.handshake.peer_validated_us || self.life.confirmed
    }

    /// How many key updates there have been.
    fn key_phase(&self) -> u64 {
        self.keys.one_rtt.as_ref().map_or(0, |keys| keys.phase())
    }

    /// The endpoint's answer to a request.
    pub fn handle_endpoint_event(&mut self, event: ConnectionEvent) {
        match event {
            ConnectionEvent::ConnectionIds { path, ids } => self.on_connection_ids(path, ids),
        }
    }

    fn on_connection_ids(&mut self, id: PathId, ids: Vec<IssuedConnectionId>) {
        let cids = match self.paths.get_mut(id) {
            Some(path) => Some(&mut path.local_cids),
            None => unopened(&mut self.multipath, id).map(|unopened| &mut unopened.local),
        };
        if let Some(cids) = cids {
            for issued in ids {
                cids.issue(issued);
            }
            return;
        }
        // The path went away while they were being made.
        for IssuedConnectionId { sequence, .. } in ids {
            self.outbox
                .endpoint(EndpointEvent::RetireConnectionId { path: id, sequence });
        }
    }
}
