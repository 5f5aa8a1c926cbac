//! Connections begin here: ours, and those of clients once the application has decided.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use rustls::pki_types::ServerName;

use super::{
    AcceptError, ConnectError, ConnectionHandle, Endpoint, Incoming, Transmit,
    cids::random_initial_dcid, routes::Route, stateless, table::Entry,
};
use crate::{
    config::{ClientConfig, ServerConfig},
    connection::{Connection, ConnectionParams, SessionSource},
    error::Code,
    observe::{Event, PacketKind},
    time::Instant,
    tls::StartError,
    units::{FourTuple, PathId, Side},
    wire::{ConnectionId, ResetToken},
};

impl Endpoint {
    /// Starts a connection to `four_tuple.remote`, which shall prove to be `server_name`.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing was sent then.
    pub fn connect(
        &mut self,
        now: Instant,
        config: ClientConfig,
        four_tuple: FourTuple,
        server_name: &str,
    ) -> Result<(ConnectionHandle, Connection), ConnectError> {
        let version = config.initial_version;
        if !self.config.versions.contains(&version) {
            return Err(ConnectError::UnsupportedVersion(version));
        }
        // Sessions and tokens belong to one version: in another, nothing would be resumed.
        let version = config
            .tls
            .resumable_version(server_name, &self.config.versions)
            .unwrap_or(version);
        let remote = four_tuple.remote;
        if remote.port() == 0 || remote.ip().is_unspecified() {
            return Err(ConnectError::InvalidRemoteAddress(remote));
        }
        if ServerName::try_from(server_name).is_err() {
            return Err(StartError::InvalidServerName(server_name.to_owned()).into());
        }
        let handle = self.table.insert(Entry::default());
        let Some(local_cid) = self.first_id(handle, remote) else {
            self.table.remove(handle, &mut self.routes);
            return Err(ConnectError::NoConnectionId);
        };
        // Chosen by us and unknown to the network yet, so of no use to route by.
        let dcid = random_initial_dcid(&mut self.rng);
        let token = config
            .token_store
            .as_ref()
            .and_then(|store| store.take(server_name, version));
        let params = ConnectionParams {
            now,
            version,
            initial_dcid: dcid,
            original_dcid: dcid,
            local_cid,
            local_cid_token: None,
            preferred_cid: None,
            remote_cid: dcid,
            retry_scid: None,
            four_tuple,
            address_validated: false,
            token: token.unwrap_or_default(),
            transport: config.transport,
            endpoint: Arc::clone(&self.config),
            session: SessionSource::Client {
                factory: config.tls,
                server_name: server_name.to_owned(),
            },
            rng: self.rng.fork(),
            validation_tokens: None,
        };
        match Connection::new(params) {
            Ok(connection) => Ok((handle, connection)),
            Err(error) => {
                self.table.remove(handle, &mut self.routes);
                Err(error.into())
            }
        }
    }

    /// Makes `incoming` a connection, with `config` or the endpoint's own server configuration.
    ///
    /// What the client sent so far is already handed to the connection.
    ///
    /// # Errors
    /// [`AcceptError`]; the client hears nothing and may try again.
    pub fn accept(
        &mut self,
        now: Instant,
        incoming: Incoming,
        config: Option<Arc<ServerConfig>>,
    ) -> Result<(ConnectionHandle, Connection), AcceptError> {
        let later = self.take_pending(&incoming).ok_or(AcceptError::Expired)?;
        let server = config
            .or_else(|| self.server.clone())
            .ok_or(AcceptError::NotListening)?;
        if self.table.proven() >= server.max_connections {
            return Err(AcceptError::TooManyConnections);
        }
        let entry = Entry::incoming(incoming.dcid, incoming.validated);
        let handle = self.table.insert(entry);
        if let Some(token) = incoming.retry_token {
            self.answered.insert(token, server.retry_token_lifetime);
        }
        let remote = incoming.meta.four_tuple.remote;
        let Some(local_cid) = self.first_id(handle, remote) else {
            self.table.remove(handle, &mut self.routes);
            return Err(AcceptError::NoConnectionId);
        };
        self.routes
            .insert_initial(incoming.dcid, Route::Connection(handle));
        let preferred_cid = self.preferred_id(handle, &server);
        let token_sealer = Arc::clone(&self.sealer);
        if server.validation_tokens > 0 {
            self.used_tokens.prepare();
        }
        let params = ConnectionParams {
            now,
            version: incoming.version,
            initial_dcid: incoming.dcid,
            original_dcid: incoming.original_dcid,
            local_cid,
            local_cid_token: (!local_cid.is_empty()).then(|| self.cids.reset_token(&local_cid)),
            preferred_cid,
            remote_cid: incoming.scid,
            retry_scid: incoming.retry_scid,
            four_tuple: incoming.meta.four_tuple,
            address_validated: incoming.validated,
            token: Bytes::new(),
            transport: Arc::clone(&server.transport),
            endpoint: Arc::clone(&self.config),
            session: SessionSource::Server {
                factory: Arc::clone(&server.tls),
            },
            rng: self.rng.fork(),
            validation_tokens: Some((token_sealer, server.validation_tokens)),
        };
        let Ok(mut connection) = Connection::new(params) else {
            // A server's session starts later: nothing here can fail.
            debug_assert!(false, "a server connection failed to start");
            self.table.remove(handle, &mut self.routes);
            return Err(AcceptError::Expired);
        };
        connection.handle_datagram(now, incoming.meta, incoming.data);
        for (meta, data) in later {
            connection.handle_datagram(now, meta, data);
        }
        Ok((handle, connection))
    }

    /// Asks the client to prove its address: appends a Retry packet to `out`. RFC 9000 s8.1.2.
    ///
    /// `None`, and the attempt is ignored, if the client already answered a Retry
    /// (see [`Incoming::may_retry`]).
    pub fn retry(
        &mut self,
        now: Instant,
        incoming: Incoming,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.take_pending(&incoming);
        if !incoming.may_retry() {
            return None;
        }
        let Incoming {
            meta,
            version,
            scid,
            dcid,
            ..
        } = incoming;
        let len = self.write_retry(now, &meta, version, &scid, &dcid, out);
        let (four_tuple, kind) = (meta.four_tuple, PacketKind::Retry);
        self.observer.emit(now, || Event::StatelessResponse {
            four_tuple,
            kind,
            len,
        });
        Some(stateless::answer(&meta, len))
    }

    /// Turns the client away with CONNECTION_REFUSED: appends the packet to `out`.
    ///
    /// `None` if too many stateless answers were given lately; the client then runs into its
    /// timeout.
    pub fn refuse(
        &mut self,
        now: Instant,
        incoming: Incoming,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.take_pending(&incoming);
        let server = self.server.clone()?;
        if !self.limiter.take(now) {
            return None;
        }
        let Incoming {
            meta,
            version,
            scid,
            dcid,
            ..
        } = incoming;
        let keys = server.tls.initial_keys(version, &dcid, Side::Server);
        let ours = self.cids.for_retry(&mut self.rng);
        let code = Code::CONNECTION_REFUSED;
        let len = stateless::initial_close(out, &keys, version, &scid, &ours, code, "refused")?;
        let (four_tuple, kind) = (meta.four_tuple, PacketKind::Initial);
        self.observer.emit(now, || Event::StatelessResponse {
            four_tuple,
            kind,
            len,
        });
        Some(stateless::answer(&meta, len))
    }

    /// Forgets the attempt without a word. A client that tries on knocks again.
    pub fn ignore(&mut self, incoming: Incoming) {
        self.take_pending(&incoming);
    }

    /// The later datagrams of an undecided attempt; `None` if it is not ours or too old.
    fn take_pending(
        &mut self,
        incoming: &Incoming,
    ) -> Option<Vec<(super::DatagramMeta, bytes::BytesMut)>> {
        if !self.pending.is_same(incoming) {
            return None;
        }
        self.routes
            .remove_initial(&incoming.dcid, Route::Incoming(incoming.id));
        self.pending
            .remove(incoming.id)
            .map(|pending| pending.datagrams)
    }

    /// The connection ID with sequence number 0. With empty IDs, the peer's address instead.
    fn first_id(&mut self, handle: ConnectionHandle, remote: SocketAddr) -> Option<ConnectionId> {
        if self.cids.len() > 0 {
            return self.new_id(handle, PathId::ZERO, 0);
        }
        let entry = self.table.get_mut(handle)?;
        entry
            .add_address(remote, handle, &mut self.routes)
            .then_some(ConnectionId::EMPTY)
    }

    /// The connection ID with sequence number 1, for preferred_address. RFC 9000 s5.1.1.
    fn preferred_id(
        &mut self,
        handle: ConnectionHandle,
        server: &ServerConfig,
    ) -> Option<(ConnectionId, ResetToken)> {
        server.transport.preferred_address?;
        let cid = self.new_id(handle, PathId::ZERO, 1)?;
        Some((cid, self.cids.reset_token(&cid)))
    }
}
