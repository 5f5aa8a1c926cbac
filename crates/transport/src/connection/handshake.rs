//! The TLS handshake, transport parameters and version choice.
//!
//! Owns: feeding CRYPTO bytes to TLS and back, installing and discarding keys, checking the
//! peer's transport parameters (RFC 9000 s7.3-7.4), compatible version negotiation (RFC 9368).
//! Does not own: key derivation (`tls/`), packets (`rx.rs`, `tx.rs`).

use std::{net::SocketAddr, time::Duration};

use super::{Connection, EndpointEvent, Event, SessionSource, crypto_stream::CryptoStream};
use crate::{
    error::{Code, ConnectionError, TransportError},
    multipath::MultipathConfig,
    observe::{self, Abuse, DropReason, PacketKind},
    space::{PacketNumberSpace, SpaceKind, TimestampConfig},
    stream::PeerLimits,
    time::Instant,
    tls::{DirectionalKeys, KeyChange, Keys, Level, OneRttKeys, Session, StartError, client_hello},
    units::{PathId, Side},
    wire::{
        ConnectionId, MAX_VARINT, PreferredAddress, ResetToken, TransportParameters, Version,
        VersionInformation,
    },
};

/// The longest max_ack_delay that may be announced. RFC 9000 s18.2.
const MAX_ACK_DELAY_MS: u64 = (1 << 14) - 1;

/// The highest stream limit that may be announced. RFC 9000 s4.6.
const MAX_STREAMS: u64 = 1 << 60;

/// A TLS alert. RFC 8446 s6.2.
const NO_APPLICATION_PROTOCOL: u8 = 120;

/// CRYPTO streams by space.
#[derive(Debug, Default)]
pub(crate) struct CryptoStreams {
    pub(crate) initial: CryptoStream,
    pub(crate) handshake: CryptoStream,
    pub(crate) data: CryptoStream,
}

impl CryptoStreams {
    pub(crate) fn get(&mut self, kind: SpaceKind) -> &mut CryptoStream {
        match kind {
            SpaceKind::Initial => &mut self.initial,
            SpaceKind::Handshake => &mut self.handshake,
            SpaceKind::Data => &mut self.data,
        }
    }
}

/// The packet number spaces that belong to the connection, not to a path.
#[derive(Debug)]
pub(crate) struct LongSpaces {
    pub(crate) initial: Option<PacketNumberSpace>,
    pub(crate) handshake: Option<PacketNumberSpace>,
}

/// Packet protection by level.
pub(crate) struct KeyStore {
    pub(crate) initial: Option<Keys>,
    /// Initial keys of the client's first version while packets of it may still arrive.
    pub(crate) former_initial: Option<(Version, Keys)>,
    pub(crate) handshake: Option<Keys>,
    pub(crate) zero_rtt: Option<DirectionalKeys>,
    pub(crate) one_rtt: Option<OneRttKeys>,
}

/// TLS and what the handshake must remember to check.
pub(crate) struct Handshake {
    pub(crate) source: SessionSource,
    pub(crate) session: Option<Box<dyn Session>>,
    write_level: SpaceKind,
    read_level: SpaceKind,
    pub(crate) version: Version,
    pub(crate) first_version: Version,
    /// A Version Negotiation packet made us start over with this version.
    pub(crate) after_negotiation: bool,
    /// The server's version choice was seen on an authenticated packet.
    pub(crate) version_settled: bool,
    pub(crate) initial_dcid: ConnectionId,
    pub(crate) original_dcid: ConnectionId,
    pub(crate) local_cid: ConnectionId,
    local_cid_token: Option<ResetToken>,
    pub(crate) preferred_cid: Option<(ConnectionId, ResetToken)>,
    pub(crate) retry_scid: Option<ConnectionId>,
    /// Source Connection ID of the peer's first packet.
    pub(crate) peer_scid: Option<ConnectionId>,
    pub(crate) peer_params_seen: bool,
    pub(crate) token: bytes::Bytes,
    pub(crate) zero_rtt_sent: bool,
    pub(crate) peer_validated_us: bool,
    /// The peer's address when it began.
    pub(crate) remote: SocketAddr,
    scratch: Vec<u8>,
}

impl Handshake {
    pub(crate) fn new(params: &super::ConnectionParams) -> Self {
        Self {
            source: params.session.clone(),
            session: None,
            write_level: SpaceKind::Initial,
            read_level: SpaceKind::Initial,
            version: params.version,
            first_version: params.version,
            after_negotiation: false,
            version_settled: false,
            initial_dcid: params.initial_dcid,
            original_dcid: params.original_dcid,
            local_cid: params.local_cid,
            local_cid_token: params.local_cid_token,
            preferred_cid: params.preferred_cid,
            retry_scid: params.retry_scid,
            peer_scid: None,
            peer_params_seen: false,
            token: params.token.clone(),
            zero_rtt_sent: false,
            peer_validated_us: false,
            remote: params.four_tuple.remote,
            scratch: Vec::new(),
        }
    }

    /// TLS has said all that anybody will hear.
    pub(super) fn release(&mut self) {
        self.scratch = Vec::new();
    }

    /// Initial keys for `version`, derived from the client's destination connection ID.
    pub(crate) fn initial_keys(&self, version: Version) -> Keys {
        match &self.source {
            SessionSource::Client { factory, .. } => {
                factory.initial_keys(version, &self.initial_dcid, Side::Client)
            }
            SessionSource::Server { factory } => {
                factory.initial_keys(version, &self.initial_dcid, Side::Server)
            }
        }
    }
}

impl Connection {
    /// Our transport parameters as they go into the handshake.
    fn local_parameters(&mut self, now: Instant) -> Vec<u8> {
        let config = &self.config;
        let mut params = TransportParameters::default();
        // "As much as possible" may be written as a number that no varint can hold.
        let millis = |d: Duration| u64::try_from(d.as_millis()).map_or(MAX_VARINT, at_most);
        params.max_idle_timeout_ms = config.max_idle_timeout.map_or(0, millis);
        params.max_udp_payload_size = u64::from(self.endpoint.max_udp_payload_bytes.max(1200));
        params.initial_max_data = at_most(config.connection_receive_window.initial);
        let stream_window = at_most(config.stream_receive_window.initial);
        params.initial_max_stream_data_bidi_local = stream_window;
        params.initial_max_stream_data_bidi_remote = stream_window;
        params.initial_max_stream_data_uni = stream_window;
        params.initial_max_streams_bidi = config.max_concurrent_bidi_streams.min(MAX_STREAMS);
        params.initial_max_streams_uni = config.max_concurrent_uni_streams.min(MAX_STREAMS);
        params.max_ack_delay_ms = millis(config.max_ack_delay).min(MAX_ACK_DELAY_MS);
        params.disable_active_migration = !config.migration;
        params.active_connection_id_limit = at_most(config.active_connection_id_limit.max(2));
        params.initial_source_connection_id = Some(self.handshake.local_cid);
        params.reset_stream_at = true;
        params.grease_quic_bit = config.grease;
        if config.datagram_receive_buffer_bytes > 0 {
            params.max_datagram_frame_size = u64::from(u16::MAX);
        }
        if config.ack_frequency {
            let min = u64::try_from(super::MIN_ACK_DELAY.as_micros()).unwrap_or(1_000);
            params.min_ack_delay_us = Some(min.min(params.max_ack_delay_ms * 1_000));
        }
        if config.receive_timestamps {
            params.max_receive_timestamps_per_ack = super::MAX_RECEIVE_TIMESTAMPS;
        }
        params.fec_decoder = config.fec.decoder_parameter();
        params.fec_encoder = config.fec.encoder_parameter();
        // Paths are told apart by connection IDs. RFC 10069 s2.
        params.initial_max_path_id = config
            .multipath
            .as_ref()
            .filter(|_| self.endpoint.connection_id_length > 0)
            .map(MultipathConfig::initial_max_path_id);
        params.path_echo = params.initial_max_path_id.is_some() && self.offers_echoes();
        let available = self.endpoint.versions.clone();
        let chosen = self.handshake.version;
        params.version_information = Some(VersionInformation { chosen, available });
        if self.side().is_server() {
            params.original_destination_connection_id = Some(self.handshake.original_dcid);
            params.retry_source_connection_id = self.handshake.retry_scid;
            params.stateless_reset_token = self.handshake.local_cid_token;
            if let (Some(to), Some((cid, token))) =
                (config.preferred_address, self.handshake.preferred_cid)
            {
                params.preferred_address = Some(PreferredAddress {
                    v4: to.v4,
                    v6: to.v6,
                    cid,
                    token,
                });
            }
        }
        self.emit_parameters_sent(now, &params);
        let side = self.side();
        let grease = self.config.grease.then_some(&mut self.rng);
        params.encode(side, grease)
    }

    /// Starts the client's TLS session and queues its first flight.
    pub(crate) fn start_client_session(&mut self, now: Instant) -> Result<(), StartError> {
        let params = self.local_parameters(now);
        let SessionSource::Client {
            factory,
            server_name,
        } = &self.handshake.source
        else {
            return Ok(());
        };
        let session = factory.start(self.handshake.version, server_name, params)?;
        if let Some(keys) = session.zero_rtt_keys()
            && let Some(remembered) = session.remembered_parameters()
            && let Ok(remembered) = TransportParameters::decode(Side::Server, &remembered)
        {
            self.apply_remembered_parameters(&remembered);
            self.keys.zero_rtt = Some(keys);
            self.observer
                .emit(now, || observe::Event::ParametersRestored(&remembered));
        }
        self.handshake.session = Some(session);
        if let Err(error) = self.drive_tls(now) {
            self.close_with(now, error);
        }
        Ok(())
    }

    /// New CRYPTO bytes may be readable in `kind`.
    pub(crate) fn on_crypto_readable(
        &mut self,
        now: Instant,
        kind: SpaceKind,
    ) -> Result<(), TransportError> {
        if self.handshake.session.is_none() && !self.start_server_session(now)? {
            return Ok(());
        }
        // TLS takes bytes of one level only; what came early waits in its stream.
        loop {
            let level = self.handshake.read_level.min(kind);
            let stream = self.crypto.get(level);
            let mut readable = stream.readable();
            if level == self.handshake.read_level {
                // TLS looks at the pieces of a message anew with each that comes.
                let whole = whole_messages(readable);
                readable = readable.get(..whole).unwrap_or_default();
            }
            let len = readable.len();
            if len == 0 {
                break;
            }
            let Some(session) = self.handshake.session.as_mut() else {
                break;
            };
            session.read(level_of(level), readable)?;
            stream.consume(len);
            self.drive_tls(now)?;
            if self.handshake.read_level > level && !self.crypto.get(level).readable().is_empty() {
                // RFC 9001 s4.1.3.
                return Err(TransportError::protocol_violation(
                    "CRYPTO data left over when the keys changed",
                ));
            }
            if level == kind {
                break;
            }
        }
        Ok(())
    }

    /// Reads the ClientHello for the versions the client speaks, then starts the session.
    /// False while the ClientHello is incomplete.
    fn start_server_session(&mut self, now: Instant) -> Result<bool, TransportError> {
        let Some(hello) = client_hello::parse(self.crypto.initial.readable())? else {
            return Ok(false);
        };
        let Some(raw) = hello.transport_parameters else {
            return Err(TransportError::new(
                Code::crypto(109),
                "ClientHello without quic_transport_parameters",
            ));
        };
        let params = TransportParameters::decode(Side::Client, raw)?;
        if let Some(information) = &params.version_information {
            if information.chosen != self.handshake.first_version {
                return Err(TransportError::version_negotiation(
                    "chosen version is not in use",
                ));
            }
            let wanted = self
                .endpoint
                .versions
                .iter()
                .copied()
                .find(|version| information.available.contains(version));
            if let Some(wanted) = wanted {
                self.switch_version(now, wanted);
            }
        }
        self.handshake.version_settled = true;
        let encoded = self.local_parameters(now);
        let SessionSource::Server { factory } = &self.handshake.source else {
            return Ok(false);
        };
        // The session belongs to the client's version, as its tickets do; only the keys change.
        // RFC 9369 s5.
        let mut session = factory
            .start(self.handshake.first_version, encoded)
            .map_err(|error| TransportError::internal(error.to_string()))?;
        if self.handshake.version != self.handshake.first_version {
            session.use_version(self.handshake.version);
        }
        self.handshake.session = Some(session);
        Ok(true)
    }

    /// Compatible version negotiation: from here on packets carry `version`. RFC 9368 s2.3.
    pub(crate) fn switch_version(&mut self, now: Instant, version: Version) {
        let former = self.handshake.version;
        if version == former {
            return;
        }
        let keys = self.handshake.initial_keys(version);
        if let Some(old) = self.keys.initial.replace(keys) {
            self.keys.former_initial = Some((former, old));
        }
        self.handshake.version = version;
        if let Some(session) = self.handshake.session.as_mut() {
            session.use_version(version);
        }
        self.observer.emit(now, || observe::Event::VersionChosen {
            from: former,
            to: version,
        });
    }

    /// Lets TLS write, and installs the keys it offers.
    fn drive_tls(&mut self, now: Instant) -> Result<(), TransportError> {
        loop {
            let Some(session) = self.handshake.session.as_mut() else {
                return Ok(());
            };
            let mut out = std::mem::take(&mut self.handshake.scratch);
            out.clear();
            let change = session.write(&mut out);
            let wrote = !out.is_empty();
            self.crypto.get(self.handshake.write_level).queue(&out);
            self.handshake.scratch = out;
            if let Some(change) = change {
                self.install(now, change);
            } else if !wrote {
                break;
            }
        }
        self.after_tls_progress(now)
    }

    fn install(&mut self, now: Instant, change: KeyChange) {
        match change {
            KeyChange::Handshake(keys) => {
                self.keys.handshake = Some(keys);
                self.spaces.handshake = Some(PacketNumberSpace::new(&self.config.limits, false));
                self.handshake.write_level = SpaceKind::Handshake;
                self.handshake.read_level = SpaceKind::Handshake;
                self.observer
                    .emit(now, || observe::Event::KeysInstalled(Level::Handshake));
                if self.side().is_server() {
                    self.keys.zero_rtt = self
                        .handshake
                        .session
                        .as_ref()
                        .and_then(|s| s.zero_rtt_keys());
                }
            }
            KeyChange::OneRtt { keys, secrets } => {
                self.keys.one_rtt = Some(OneRttKeys::new(keys, secrets));
                self.handshake.write_level = SpaceKind::Data;
                self.observer
                    .emit(now, || observe::Event::KeysInstalled(Level::OneRtt));
                if self.side().is_server() {
                    self.request_first_connection_ids();
                }
            }
        }
    }

    /// Transport parameters and completion, once TLS knows them.
    fn after_tls_progress(&mut self, now: Instant) -> Result<(), TransportError> {
        let Some(session) = self.handshake.session.as_ref() else {
            return Ok(());
        };
        if !self.handshake.peer_params_seen
            && let Some(raw) = session.peer_transport_parameters()
        {
            let params = TransportParameters::decode(self.side().peer(), raw)?;
            self.check_peer_parameters(&params)?;
            self.handshake.peer_params_seen = true;
            self.observer
                .emit(now, || observe::Event::ParametersReceived(&params));
            self.apply_peer_parameters(now, params)?;
            if self.side().is_server() && self.keys.one_rtt.is_some() {
                // The client's limit is known only now.
                self.request_first_connection_ids();
            }
            self.outbox.push(Event::HandshakeDataReady);
        }
        let session_done = self
            .handshake
            .session
            .as_ref()
            .is_some_and(|session| !session.is_handshaking());
        if session_done && self.is_handshaking() && self.keys.one_rtt.is_some() {
            self.finish_handshake(now)?;
        }
        Ok(())
    }

    fn finish_handshake(&mut self, now: Instant) -> Result<(), TransportError> {
        if !self.handshake.peer_params_seen {
            let missing_extension = Code::crypto(109);
            return Err(TransportError::new(
                missing_extension,
                "no quic_transport_parameters",
            ));
        }
        self.handshake.read_level = SpaceKind::Data;
        if self.side().is_client() {
            let accepted = self
                .handshake
                .session
                .as_ref()
                .and_then(|session| session.early_data_accepted());
            if self.keys.zero_rtt.take().is_some() && accepted != Some(true) {
                self.check_early_protocol()?;
                self.on_zero_rtt_rejected(now);
            }
            self.request_first_connection_ids();
        }
        self.on_handshake_complete(now);
        if self.side().is_server() {
            self.control.handshake_done = true;
            self.queue_validation_tokens(now);
            self.on_handshake_confirmed(now);
        }
        Ok(())
    }

    /// Early data that was refused may be sent again only in the application protocol it was
    /// written for. RFC 8446 s4.2.10.
    fn check_early_protocol(&self) -> Result<(), TransportError> {
        let Some(session) = self.handshake.session.as_ref() else {
            return Ok(());
        };
        match session.early_data_alpn() {
            Some(early) if session.alpn() != Some(early.as_slice()) => Err(TransportError::new(
                Code::crypto(NO_APPLICATION_PROTOCOL),
                "early data was refused, and spoke another application protocol than was chosen; \
                 connect again",
            )),
            _ => Ok(()),
        }
    }

    /// The server did not take our early data: everything goes out again. RFC 9001 s4.6.2.
    fn on_zero_rtt_rejected(&mut self, now: Instant) {
        self.streams.on_zero_rtt_rejected();
        self.datagrams.on_zero_rtt_rejected();
        // The server's real limits replace the remembered ones, which no longer bind.
        let limits = peer_limits(&self.peer);
        self.streams.set_peer_limits(&limits);
        if let Some(path) = self.paths.get_mut(PathId::ZERO) {
            path.recovery
                .forget_in_flight(&mut path.space, SpaceKind::Data);
        }
        self.outbox.push(Event::ZeroRttRejected);
        self.observer.emit(now, || observe::Event::ZeroRttRejected);
    }

    /// Connection IDs in the parameters must be those on the wire. RFC 9000 s7.3.
    fn check_peer_parameters(&self, params: &TransportParameters) -> Result<(), TransportError> {
        let wrong = |what: &'static str| Err(TransportError::transport_parameter(what));
        if params.initial_source_connection_id != self.handshake.peer_scid {
            return wrong("initial_source_connection_id");
        }
        if self.side().is_client() {
            if params.original_destination_connection_id != Some(self.handshake.original_dcid) {
                return wrong("original_destination_connection_id");
            }
            if params.retry_source_connection_id != self.handshake.retry_scid {
                return wrong("retry_source_connection_id");
            }
            self.check_server_version(params)?;
        }
        if let Some(delay) = params.min_ack_delay_us
            && delay > params.max_ack_delay_ms.saturating_mul(1_000)
        {
            return wrong("min_ack_delay");
        }
        Ok(())
    }

    /// Guards against a version downgrade. RFC 9368 s4.
    fn check_server_version(&self, params: &TransportParameters) -> Result<(), TransportError> {
        let upgraded = self.handshake.version != self.handshake.first_version;
        // Servers older than RFC 9368 know v1 alone and do not say so; s8 lets that pass.
        let legacy = self.handshake.version == Version::V1;
        let changed = upgraded || self.handshake.after_negotiation && !legacy;
        let Some(information) = &params.version_information else {
            return if changed {
                Err(TransportError::version_negotiation(
                    "missing version_information",
                ))
            } else {
                Ok(())
            };
        };
        if information.chosen != self.handshake.version {
            return Err(TransportError::version_negotiation(
                "chosen version is not in use",
            ));
        }
        if self.handshake.after_negotiation {
            let best = self
                .endpoint
                .versions
                .iter()
                .find(|version| information.available.contains(version));
            if best != Some(&self.handshake.first_version) {
                return Err(TransportError::version_negotiation(
                    "Version Negotiation was forged",
                ));
            }
        }
        Ok(())
    }

    /// Limits of the earlier connection, for 0-RTT. RFC 9000 s7.4.1.
    fn apply_remembered_parameters(&mut self, params: &TransportParameters) {
        self.streams.set_peer_limits(&peer_limits(params));
        self.streams
            .set_peer_supports_reset_at(params.reset_stream_at);
        self.datagrams
            .set_peer_limit(params.max_datagram_frame_size);
        self.peer.active_connection_id_limit = params.active_connection_id_limit;
        self.peer.max_datagram_frame_size = params.max_datagram_frame_size;
    }

    fn apply_peer_parameters(
        &mut self,
        now: Instant,
        params: TransportParameters,
    ) -> Result<(), TransportError> {
        let zero_rtt_in_use = self.side().is_client()
            && self.keys.zero_rtt.is_some()
            && self
                .handshake
                .session
                .as_ref()
                .and_then(|s| s.early_data_accepted())
                != Some(false);
        let lowered = !self.streams.limits_cover(&peer_limits(&params))
            || params.active_connection_id_limit < self.peer.active_connection_id_limit
            || params.max_datagram_frame_size < self.peer.max_datagram_frame_size;
        if zero_rtt_in_use && lowered {
            // RFC 9000 s7.4.1: a server that accepts 0-RTT must not lower the limits.
            return Err(TransportError::protocol_violation(
                "0-RTT accepted with lower limits",
            ));
        }
        self.streams.set_peer_limits(&peer_limits(&params));
        self.streams
            .set_peer_supports_reset_at(params.reset_stream_at);
        self.datagrams
            .set_peer_limit(params.max_datagram_frame_size);
        let theirs = Some(params.max_idle_timeout_ms)
            .filter(|&ms| ms > 0)
            .map(Duration::from_millis);
        self.life.idle_timeout = match (self.config.max_idle_timeout, theirs) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
        if let Some(path) = self.paths.get_mut(PathId::ZERO) {
            path.mtu.start(params.max_udp_payload_size);
            path.recovery.on_mtu(path.mtu.current());
        }
        let remote = self.remote_address();
        if let (Some(token), Some(path)) = (
            params.stateless_reset_token,
            self.paths.get_mut(PathId::ZERO),
        ) {
            path.remote_cids.set_initial_token(token);
            self.outbox.endpoint(EndpointEvent::ResetToken {
                path: PathId::ZERO,
                remote,
                token,
            });
        }
        if let (Some(preferred), Some(path)) =
            (&params.preferred_address, self.paths.get_mut(PathId::ZERO))
        {
            let new = crate::wire::NewConnectionId {
                path: None,
                sequence: 1,
                retire_prior_to: 0,
                cid: preferred.cid,
                token: preferred.token,
            };
            let limit = self.config.limits.pending_retire_connection_ids;
            path.remote_cids.on_new(&new, limit)?;
            let v4 = preferred.v4.map(SocketAddr::from);
            let v6 = preferred.v6.map(SocketAddr::from);
            for address in [v4, v6].into_iter().flatten() {
                self.outbox.endpoint(EndpointEvent::PeerAddress(address));
            }
        }
        if self.config.receive_timestamps && params.max_receive_timestamps_per_ack > 0 {
            self.timestamps = Some(TimestampConfig {
                max_per_ack: params.max_receive_timestamps_per_ack,
                exponent: params.receive_timestamps_exponent,
                basis: self.started,
            });
        }
        self.negotiate_fec(&params, now)?;
        self.negotiate_multipath(&params)?;
        self.peer = params;
        self.restart_idle_on_receive(now, PathId::ZERO);
        Ok(())
    }

    /// Drops Initial keys and state. RFC 9001 s4.9.1.
    pub(crate) fn discard_initial_keys(&mut self, now: Instant) {
        if self.keys.initial.take().is_none() {
            return;
        }
        self.keys.former_initial = None;
        self.handshake_probes[0] = 0;
        if let (Some(mut space), Some(path)) =
            (self.spaces.initial.take(), self.paths.get_mut(PathId::ZERO))
        {
            path.recovery.discard_space(&mut space, SpaceKind::Initial);
        }
        self.crypto.initial = CryptoStream::default();
        self.observer
            .emit(now, || observe::Event::KeysDiscarded(Level::Initial));
    }

    /// Drops Handshake keys and state. RFC 9001 s4.9.2.
    pub(crate) fn discard_handshake_keys(&mut self, now: Instant) {
        self.discard_initial_keys(now);
        if self.keys.handshake.take().is_none() {
            return;
        }
        self.handshake_probes[1] = 0;
        if let (Some(mut space), Some(path)) = (
            self.spaces.handshake.take(),
            self.paths.get_mut(PathId::ZERO),
        ) {
            path.recovery
                .discard_space(&mut space, SpaceKind::Handshake);
        }
        self.crypto.handshake = CryptoStream::default();
        self.handshake.scratch = Vec::new();
        self.observer
            .emit(now, || observe::Event::KeysDiscarded(Level::Handshake));
    }

    /// A Retry packet arrived; whether it is followed. RFC 9000 s17.2.5.
    pub(crate) fn on_retry(
        &mut self,
        now: Instant,
        scid: ConnectionId,
        token: &[u8],
        authentic: bool,
    ) -> bool {
        let acceptable = self.side().is_client()
            && self.handshake.retry_scid.is_none()
            && self.handshake.peer_scid.is_none()
            && !token.is_empty()
            && scid != self.handshake.original_dcid;
        if !acceptable || !authentic {
            self.drop_packet(now, DropReason::UnexpectedPacket, "invalid retry");
            return false;
        }
        self.handshake.retry_scid = Some(scid);
        self.handshake.token = bytes::Bytes::copy_from_slice(token);
        self.restart_initial(scid);
        true
    }

    /// Initial packets start over towards `dcid` with the same TLS bytes and the packet numbers
    /// going on.
    fn restart_initial(&mut self, dcid: ConnectionId) {
        self.handshake.initial_dcid = dcid;
        self.keys.initial = Some(self.handshake.initial_keys(self.handshake.version));
        let Some(path) = self.paths.get_mut(PathId::ZERO) else {
            return;
        };
        path.remote_cids.replace_initial(dcid);
        if let Some(space) = self.spaces.initial.as_mut() {
            path.recovery.forget_in_flight(space, SpaceKind::Initial);
        }
        self.crypto.initial.resend_unacked();
        // 0-RTT packets went to the wrong connection ID: their data goes out again.
        path.recovery
            .forget_in_flight(&mut path.space, SpaceKind::Data);
        self.streams.on_zero_rtt_rejected();
    }

    /// A Version Negotiation packet arrived. RFC 9000 s6.2, RFC 9368 s2.1.
    pub(crate) fn on_version_negotiation(&mut self, now: Instant, offered: &[u32], bytes: usize) {
        let acceptable = self.side().is_client()
            && self.handshake.peer_scid.is_none()
            && self.handshake.retry_scid.is_none()
            && !self.handshake.after_negotiation
            && !offered.contains(&self.handshake.version.0);
        if !acceptable {
            if offered.contains(&self.handshake.version.0) {
                // No server refuses a version that it speaks.
                self.emit_abuse(now, Abuse::VersionNegotiationSpoof);
            }
            self.drop_packet(now, DropReason::UnexpectedPacket, "version negotiation");
            return;
        }
        self.note_special(now, PacketKind::VersionNegotiation, bytes);
        let common = self
            .endpoint
            .versions
            .iter()
            .copied()
            .find(|version| offered.contains(&version.0));
        let Some(version) = common else {
            let offered = offered.to_vec();
            self.die(now, ConnectionError::VersionMismatch { offered });
            return;
        };
        self.handshake.after_negotiation = true;
        self.handshake.version = version;
        self.handshake.first_version = version;
        // It belongs to the version that was refused. RFC 9369 s5.
        self.handshake.token = bytes::Bytes::new();
        self.keys.zero_rtt = None;
        self.crypto = CryptoStreams::default();
        // A new attempt under a new ID: were the packet forged, answers to the first attempt and a
        // server that knows it must not be mixed up with this one.
        let dcid = ConnectionId::new(&self.rng.array::<8>()).unwrap_or(self.handshake.initial_dcid);
        self.handshake.original_dcid = dcid;
        self.restart_initial(dcid);
        if let Err(error) = self.start_client_session(now) {
            self.close_with(now, TransportError::internal(error.to_string()));
        }
    }
}

/// The length of the TLS messages that `data` starts with, as far as they are whole. RFC 8446 s4.
fn whole_messages(data: &[u8]) -> usize {
    let mut whole = 0;
    while let Some([_, a, b, c]) = data.get(whole..).and_then(<[u8]>::first_chunk::<4>) {
        let len = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        let end = whole + 4 + len;
        if end > data.len() {
            break;
        }
        whole = end;
    }
    whole
}

fn at_most(value: u64) -> u64 {
    value.min(MAX_VARINT)
}

/// What the peer's parameters say about streams.
fn peer_limits(params: &TransportParameters) -> PeerLimits {
    PeerLimits {
        max_data: params.initial_max_data,
        max_stream_data_bidi_local: params.initial_max_stream_data_bidi_local,
        max_stream_data_bidi_remote: params.initial_max_stream_data_bidi_remote,
        max_stream_data_uni: params.initial_max_stream_data_uni,
        max_streams_bidi: params.initial_max_streams_bidi,
        max_streams_uni: params.initial_max_streams_uni,
    }
}

/// The TLS level whose bytes a space's CRYPTO stream carries.
fn level_of(kind: SpaceKind) -> Level {
    match kind {
        SpaceKind::Initial => Level::Initial,
        SpaceKind::Handshake => Level::Handshake,
        SpaceKind::Data => Level::OneRtt,
    }
}
