//! From a datagram to whom it concerns.

use std::{fmt, net::SocketAddr, sync::Arc};

use bytes::BytesMut;

use super::{
    ConnectionEvent, ConnectionHandle, DatagramEvent, DatagramMeta, EndpointEvent, TokenSealer,
    Transmit, UsedTokens,
    cids::CidMaker,
    incoming::PendingTable,
    initial::{Admission, Initial, MIN_INITIAL_DATAGRAM},
    limiter::Limiter,
    routes::{Route, Routes},
    stateless::{self, MIN_RESET_LEN},
    table::Table,
    used_tokens::AnsweredRetries,
};
use crate::{
    config::{EndpointConfig, ServerConfig},
    observe::{Abuse, DropReason, Event, Observer, PacketKind},
    path::IssuedConnectionId,
    rng::Rng,
    time::Instant,
    units::PathId,
    wire::{ConnectionId, Header, ResetToken, parse_header},
};

/// All connections of one socket, and what is answered without one.
///
/// Sans-IO: it is told what arrived and says what to send. One endpoint serves any number of
/// outgoing connections and, with a server configuration, incoming ones.
pub struct Endpoint {
    pub(super) config: Arc<EndpointConfig>,
    pub(super) server: Option<Arc<ServerConfig>>,
    pub(super) rng: Rng,
    pub(super) cids: CidMaker,
    pub(super) sealer: Arc<TokenSealer>,
    pub(super) routes: Routes,
    pub(super) table: Table,
    pub(super) pending: PendingTable,
    pub(super) limiter: Limiter,
    pub(super) observer: Observer,
    pub(super) used_tokens: Arc<UsedTokens>,
    pub(super) answered: AnsweredRetries,
    /// Copies of Initials under test.
    pub(super) scratch: Vec<u8>,
}

/// What becomes of a datagram; [`DatagramEvent`] before the bytes change hands.
pub(super) enum Verdict {
    Connection(ConnectionHandle),
    Admit(Admission),
    Transmit(Transmit),
    Buffered,
    Dropped(DropReason),
}

impl Endpoint {
    /// An endpoint; without `server` it takes no incoming connections.
    pub fn new(
        config: Arc<EndpointConfig>,
        server: Option<Arc<ServerConfig>>,
        mut rng: Rng,
    ) -> Self {
        let cids = CidMaker::new(&config, &mut rng);
        let config = with_cid_length(config, cids.len());
        let token_key = config.token_key.unwrap_or_else(|| rng.array());
        Self {
            server,
            cids,
            sealer: Arc::new(TokenSealer::new(&token_key)),
            routes: Routes::new(&mut rng),
            table: Table::default(),
            pending: PendingTable::default(),
            limiter: Limiter::new(config.stateless_responses_per_second),
            observer: Observer::none(),
            used_tokens: config
                .used_tokens
                .clone()
                .unwrap_or_else(|| Arc::new(UsedTokens::new(&mut rng))),
            answered: AnsweredRetries::default(),
            scratch: Vec::new(),
            config,
            rng,
        }
    }

    /// Sends the endpoint's own events (not those of its connections) to `observer`.
    pub fn set_observer(&mut self, now: Instant, local: SocketAddr, observer: Observer) {
        self.observer = observer;
        if self.server.is_some() {
            self.observer.emit(now, || Event::ServerListening { local });
        }
    }

    /// Changes what new incoming connections get; `None` stops taking any.
    pub fn set_server_config(&mut self, server: Option<Arc<ServerConfig>>) {
        self.server = server;
    }

    /// The configuration in use; the connection ID length is the effective one.
    pub fn config(&self) -> &Arc<EndpointConfig> {
        &self.config
    }

    /// Connections that are not yet drained.
    pub fn connections(&self) -> usize {
        self.table.len()
    }

    /// Attempts that wait for a decision of the application.
    pub fn undecided(&self) -> usize {
        self.pending.len()
    }

    /// Routes a received datagram.
    ///
    /// Answers are appended to `out`; [`DatagramEvent::Transmit`] then tells where they go.
    /// Never panics, whatever the bytes are; work per datagram is bounded.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        meta: DatagramMeta,
        data: BytesMut,
        out: &mut Vec<u8>,
    ) -> DatagramEvent {
        match self.judge(now, &meta, &data, out) {
            Verdict::Connection(handle) => DatagramEvent::Connection(handle, data),
            Verdict::Admit(admission) => {
                DatagramEvent::Incoming(self.admit(now, meta, &data, admission))
            }
            Verdict::Transmit(transmit) => DatagramEvent::Transmit(transmit),
            Verdict::Buffered => DatagramEvent::Buffered,
            Verdict::Dropped(reason) => {
                let (four_tuple, len) = (meta.four_tuple, data.len());
                self.observer.emit(now, || Event::DatagramDropped {
                    four_tuple,
                    len,
                    reason,
                });
                DatagramEvent::Dropped(reason)
            }
        }
    }

    /// What a connection asks of its endpoint; hand an answer back to the connection.
    pub fn handle_connection_event(
        &mut self,
        handle: ConnectionHandle,
        event: EndpointEvent,
    ) -> Option<ConnectionEvent> {
        match event {
            EndpointEvent::NeedConnectionIds {
                path,
                first_sequence,
                count,
            } => {
                return self.issue_ids(handle, path, first_sequence, count);
            }
            EndpointEvent::RetireConnectionId { path, sequence } => {
                if let Some(entry) = self.table.get_mut(handle) {
                    entry.retire_id(path, sequence, &mut self.routes);
                }
            }
            EndpointEvent::ResetToken {
                path,
                remote,
                token,
            } => {
                if let Some(entry) = self.table.get_mut(handle) {
                    entry.add_reset(path, (remote, token), handle, &mut self.routes);
                }
            }
            EndpointEvent::PathGone(path) => {
                if let Some(entry) = self.table.get_mut(handle) {
                    entry.forget_resets(path, handle, &mut self.routes);
                }
            }
            EndpointEvent::PeerAddress(remote) => self.add_address(handle, remote),
            EndpointEvent::HandshakeOver => self.table.handshake_over(handle),
            EndpointEvent::Drained => self.table.remove(handle, &mut self.routes),
        }
        None
    }

    /// Routes what comes from `remote` to `handle`, unless another connection talks to it.
    fn add_address(&mut self, handle: ConnectionHandle, remote: SocketAddr) {
        if self.cids.len() == 0
            && let Some(entry) = self.table.get_mut(handle)
        {
            let _ = entry.add_address(remote, handle, &mut self.routes);
        }
    }

    fn issue_ids(
        &mut self,
        handle: ConnectionHandle,
        path: PathId,
        first_sequence: u64,
        count: u64,
    ) -> Option<ConnectionEvent> {
        let free = self.table.get_mut(handle)?.free_ids() as u64;
        let mut ids = Vec::new();
        for sequence in (first_sequence..).take(count.min(free) as usize) {
            let known = self
                .table
                .get_mut(handle)
                .and_then(|entry| entry.id(path, sequence));
            let Some(cid) = known.or_else(|| self.new_id(handle, path, sequence)) else {
                break;
            };
            ids.push(IssuedConnectionId {
                sequence,
                cid,
                token: self.cids.reset_token(&cid),
            });
        }
        Some(ConnectionEvent::ConnectionIds { path, ids })
    }

    /// A fresh connection ID that leads to `handle`; `None` if IDs have length 0.
    pub(super) fn new_id(
        &mut self,
        handle: ConnectionHandle,
        path: PathId,
        sequence: u64,
    ) -> Option<ConnectionId> {
        if self.cids.len() == 0 {
            return None;
        }
        // With short IDs most may be taken; long ones never collide in practice.
        for _ in 0..64 {
            let cid = self.cids.issue(&mut self.rng);
            if self.routes.insert_issued(cid, handle) {
                match self.table.get_mut(handle) {
                    Some(entry) => entry.add_id(path, sequence, cid),
                    None => self.routes.remove_issued(&cid),
                }
                return Some(cid);
            }
        }
        None
    }

    fn judge(
        &mut self,
        now: Instant,
        meta: &DatagramMeta,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Verdict {
        if data.len() > usize::from(self.config.max_udp_payload_bytes) {
            return self.abuse(now, Abuse::OversizedDatagram, DropReason::Overload);
        }
        let Ok(header) = parse_header(data, self.cids.len()) else {
            return self.abuse(now, Abuse::MalformedHeader, DropReason::Malformed);
        };
        match header {
            Header::Short { dcid, .. } => match self.owner(&dcid, meta) {
                Some(handle) => Verdict::Connection(handle),
                None => self.on_unknown_short(now, meta, &dcid, data, out),
            },
            Header::Handshake { dcid, .. } | Header::Retry { dcid, .. } => {
                self.owner(&dcid, meta).map_or(
                    Verdict::Dropped(DropReason::UnknownConnectionId),
                    Verdict::Connection,
                )
            }
            Header::VersionNegotiation { dcid, .. } => {
                // Never answered, else two servers could answer each other. RFC 9000 s6.1.
                ConnectionId::new(dcid)
                    .and_then(|dcid| self.owner(&dcid, meta))
                    .map_or(
                        Verdict::Dropped(DropReason::UnexpectedPacket),
                        Verdict::Connection,
                    )
            }
            Header::UnknownVersion {
                version,
                dcid,
                scid,
            } => self.on_unknown_version(now, meta, version, dcid, scid, data.len(), out),
            Header::ZeroRtt { dcid, .. } => match self.client_route(&dcid, meta) {
                Some(route) => self.follow(now, route, meta, data),
                None => Verdict::Dropped(DropReason::KeyUnavailable),
            },
            Header::Initial {
                version,
                dcid,
                scid,
                token,
                pn_offset,
                packet_len,
            } => match self.client_route(&dcid, meta) {
                Some(route) => self.follow(now, route, meta, data),
                None => {
                    let initial = Initial {
                        version,
                        dcid,
                        scid,
                        pn_offset,
                        packet_len,
                    };
                    self.on_new_initial(now, meta, initial, token, data, out)
                }
            },
        }
    }

    /// The connection that `dcid` was issued to, or that talks to the sender.
    fn owner(&mut self, dcid: &ConnectionId, meta: &DatagramMeta) -> Option<ConnectionHandle> {
        if dcid.is_empty() {
            return self.routes.address(&meta.four_tuple.remote);
        }
        self.routes.issued(dcid)
    }

    /// Where Initial and 0-RTT packets go: their destination may be an ID the client chose.
    fn client_route(&mut self, dcid: &ConnectionId, meta: &DatagramMeta) -> Option<Route> {
        match self.owner(dcid, meta) {
            Some(handle) => Some(Route::Connection(handle)),
            None => self.routes.initial(dcid),
        }
    }

    fn follow(&mut self, now: Instant, route: Route, meta: &DatagramMeta, data: &[u8]) -> Verdict {
        match route {
            Route::Connection(handle) => Verdict::Connection(handle),
            Route::Incoming(id) => {
                let limit = self
                    .server
                    .as_ref()
                    .map_or(0, |server| server.incoming_buffer_bytes);
                if self.pending.buffer(id, *meta, data, limit) {
                    Verdict::Buffered
                } else {
                    self.abuse(now, Abuse::EarlyDataFlood, DropReason::Overload)
                }
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one unparsed header"
    )]
    pub(super) fn on_unknown_version(
        &mut self,
        now: Instant,
        meta: &DatagramMeta,
        version: u32,
        dcid: &[u8],
        scid: &[u8],
        datagram_len: usize,
        out: &mut Vec<u8>,
    ) -> Verdict {
        self.observer.emit(now, || Event::Abuse {
            kind: Abuse::UnknownVersion,
        });
        // Only a datagram that could start a connection is answered. RFC 9000 s5.2.2.
        if self.server.is_none() || datagram_len < MIN_INITIAL_DATAGRAM {
            return Verdict::Dropped(DropReason::UnsupportedVersion);
        }
        if !self.limiter.take(now) {
            return self.abuse(now, Abuse::StatelessFlood, DropReason::Overload);
        }
        let versions = &self.config.versions;
        let len = stateless::version_negotiation(out, dcid, scid, version, versions, &mut self.rng);
        self.respond(now, meta, PacketKind::VersionNegotiation, len)
    }

    /// A short header that leads nowhere: a stateless reset for us, or a reason to send one.
    fn on_unknown_short(
        &mut self,
        now: Instant,
        meta: &DatagramMeta,
        dcid: &ConnectionId,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Verdict {
        if data.len() >= MIN_RESET_LEN
            && let Some(tail) = data.last_chunk::<16>()
            && let Some(handle) = self
                .routes
                .reset(&meta.four_tuple.remote, &ResetToken(*tail))
        {
            return Verdict::Connection(handle);
        }
        // Nobody who only connects is asked for a reset: this looks like one, and is none.
        let kind = if self.server.is_none() && data.len() >= MIN_RESET_LEN {
            Abuse::ResetGuess
        } else {
            Abuse::UnknownConnectionId
        };
        self.observer.emit(now, || Event::Abuse { kind });
        // An ID of another shard is that shard's affair: a reset sent here would kill its
        // connection. An empty ID tells nothing to derive a token from.
        if dcid.is_empty() || !self.cids.is_of_this_shard(dcid) || data.len() <= MIN_RESET_LEN {
            return Verdict::Dropped(DropReason::UnknownConnectionId);
        }
        if !self.limiter.take(now) {
            return self.abuse(now, Abuse::StatelessFlood, DropReason::Overload);
        }
        let token = self.cids.reset_token(dcid);
        match stateless::stateless_reset(out, data.len(), &token, &mut self.rng) {
            Some(len) => self.respond(now, meta, PacketKind::StatelessReset, len),
            None => Verdict::Dropped(DropReason::UnknownConnectionId),
        }
    }

    pub(super) fn abuse(&mut self, now: Instant, kind: Abuse, reason: DropReason) -> Verdict {
        self.observer.emit(now, || Event::Abuse { kind });
        Verdict::Dropped(reason)
    }

    pub(super) fn respond(
        &mut self,
        now: Instant,
        meta: &DatagramMeta,
        kind: PacketKind,
        len: usize,
    ) -> Verdict {
        let four_tuple = meta.four_tuple;
        self.observer.emit(now, || Event::StatelessResponse {
            four_tuple,
            kind,
            len,
        });
        Verdict::Transmit(stateless::answer(meta, len))
    }
}

/// The configuration with the length that issued connection IDs really have.
fn with_cid_length(config: Arc<EndpointConfig>, len: usize) -> Arc<EndpointConfig> {
    if config.connection_id_length == len {
        return config;
    }
    let mut config = EndpointConfig::clone(&config);
    config.connection_id_length = len;
    Arc::new(config)
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("connections", &self.table.len())
            .field("undecided", &self.pending.len())
            .finish_non_exhaustive()
    }
}
