//! Where resumable sessions wait: bounded, shared by all connections of a configuration, and
//! each good for one use, so that early data cannot be replayed.
//!
//! A ticket belongs to the QUIC version its connection ended up with (RFC 9369 s5). A server
//! ticket also remembers the limits that the client will hold early data to (RFC 9000 s7.4.1):
//! when the server offers less today, the ticket does not count and the handshake is a full one.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use rustls::{
    NamedGroup,
    client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue},
    pki_types::ServerName,
    server::StoresServerSessions,
};

use crate::wire::{Reader, Version};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// ---------------------------------------------------------------------------------------------
// Server

/// A server's resumable sessions. Share one between the shards of a server.
///
/// Memory: at most `max_tickets` entries and `max_bytes` bytes of session state (about half a
/// kilobyte an entry, more with client certificates); the oldest go first. `rustls` issues two
/// tickets per full handshake.
pub struct ServerTicketStore {
    max_tickets: usize,
    max_bytes: usize,
    tickets: Mutex<ServerTickets>,
}

#[derive(Default)]
struct ServerTickets {
    by_id: BTreeMap<Vec<u8>, ServerTicket>,
    /// Insertion number to ticket ID, oldest first.
    by_age: BTreeMap<u64, Vec<u8>>,
    next_number: u64,
    bytes: usize,
    /// Of the newest ticket; most sessions announce the same and share them.
    limits: Arc<EarlyDataLimits>,
}

struct ServerTicket {
    number: u64,
    version: Version,
    limits: Arc<EarlyDataLimits>,
    state: Vec<u8>,
}

impl ServerTickets {
    fn remove(&mut self, id: &[u8]) -> Option<ServerTicket> {
        let ticket = self.by_id.remove(id)?;
        self.by_age.remove(&ticket.number);
        self.bytes = self.bytes.saturating_sub(id.len() + ticket.state.len());
        Some(ticket)
    }
}

impl ServerTicketStore {
    /// Keeps up to `max_tickets` tickets and `max_bytes` bytes; 0 of either keeps none.
    pub fn new(max_tickets: usize, max_bytes: usize) -> Self {
        Self {
            max_tickets,
            max_bytes,
            tickets: Mutex::default(),
        }
    }

    /// Tickets waiting for their use.
    pub fn len(&self) -> usize {
        lock(&self.tickets).by_id.len()
    }

    /// Whether no ticket waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn put(&self, id: Vec<u8>, mut ticket: ServerTicket) -> bool {
        let size = id.len() + ticket.state.len();
        if self.max_tickets == 0 || size > self.max_bytes {
            return false;
        }
        let mut tickets = lock(&self.tickets);
        tickets.remove(&id);
        while tickets.by_id.len() >= self.max_tickets || tickets.bytes + size > self.max_bytes {
            let Some((_, oldest)) = tickets.by_age.pop_first() else {
                break;
            };
            tickets.remove(&oldest);
        }
        if tickets.limits == ticket.limits {
            ticket.limits = Arc::clone(&tickets.limits);
        } else {
            tickets.limits = Arc::clone(&ticket.limits);
        }
        let number = tickets.next_number;
        tickets.next_number += 1;
        tickets.bytes += size;
        tickets.by_age.insert(number, id.clone());
        tickets.by_id.insert(id, ServerTicket { number, ..ticket });
        true
    }

    fn take(&self, id: &[u8]) -> Option<ServerTicket> {
        lock(&self.tickets).remove(id)
    }
}

impl Default for ServerTicketStore {
    /// 512 tickets, 1 MiB: those of the last 256 clients. A server of more clients than that who
    /// come back wants a larger one.
    fn default() -> Self {
        Self::new(512, 1 << 20)
    }
}

impl fmt::Debug for ServerTicketStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTicketStore")
            .field("max_tickets", &self.max_tickets)
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}

/// The transport parameters that a client remembers for early data: (ID, value) in ID order.
/// RFC 9000 s7.4.1, RFC 9221 s3, draft-ietf-quic-reliable-stream-reset s3.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct EarlyDataLimits(BTreeMap<u64, u64>);

impl EarlyDataLimits {
    const REMEMBERED: [u64; 9] = [0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0e, 0x1d, 0x20];

    /// From encoded transport parameters.
    fn of(params: &[u8]) -> Self {
        let mut limits = BTreeMap::new();
        let mut reader = Reader::new(params);
        while let (Ok(id), Ok(len)) = (reader.varint(), reader.varint()) {
            let Ok(value) = reader.bytes(usize::try_from(len).unwrap_or(usize::MAX)) else {
                break;
            };
            if Self::REMEMBERED.contains(&id) {
                // An empty parameter is a flag; it counts as 1.
                let value = if value.is_empty() {
                    1
                } else {
                    Reader::new(value).varint().unwrap_or(0)
                };
                limits.insert(id, value);
            }
        }
        Self(limits)
    }

    /// Whether nothing is below `older`.
    fn covers(&self, older: &Self) -> bool {
        older
            .0
            .iter()
            .all(|(id, &value)| self.0.get(id).copied().unwrap_or(0) >= value)
    }
}

/// The store as one server session sees it.
pub(super) struct ServerScope {
    store: Arc<ServerTicketStore>,
    scope: VersionScope,
    limits: Arc<EarlyDataLimits>,
}

impl ServerScope {
    /// For a session started in `version` with these encoded transport parameters.
    pub(super) fn new(store: Arc<ServerTicketStore>, version: Version, params: &[u8]) -> Self {
        let limits = Arc::new(EarlyDataLimits::of(params));
        Self {
            store,
            scope: VersionScope::new(version),
            limits,
        }
    }

    pub(super) fn use_version(&self, version: Version) {
        self.scope.set_issued(version);
    }
}

impl fmt::Debug for ServerScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerScope")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl StoresServerSessions for ServerScope {
    fn put(&self, id: Vec<u8>, state: Vec<u8>) -> bool {
        let (version, limits) = (self.scope.issued(), Arc::clone(&self.limits));
        self.store.put(
            id,
            ServerTicket {
                number: 0,
                version,
                limits,
                state,
            },
        )
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        // Only TLS 1.2 looks without taking; there is none in QUIC.
        self.take(id)
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        let ticket = self.store.take(id)?;
        let valid = ticket.version == self.scope.started && self.limits.covers(&ticket.limits);
        valid.then_some(ticket.state)
    }

    fn can_cache(&self) -> bool {
        self.store.max_tickets > 0
    }
}

/// Tickets are taken for the version a session starts in and issued for the one it ends in.
struct VersionScope {
    started: Version,
    issued: AtomicU32,
}

impl VersionScope {
    fn new(started: Version) -> Self {
        Self {
            started,
            issued: AtomicU32::new(started.0),
        }
    }

    fn set_issued(&self, version: Version) {
        self.issued.store(version.0, Ordering::Relaxed);
    }

    fn issued(&self) -> Version {
        Version(self.issued.load(Ordering::Relaxed))
    }
}

// ---------------------------------------------------------------------------------------------
// Client

/// A client's resumable sessions, by QUIC version and server name. Share one between clients
/// that trust the same servers.
///
/// Memory: at most `max_servers` servers with [`Self::TICKETS_PER_SERVER`] tickets each (about
/// 1 KiB a ticket, more with long certificate chains); the server heard of first goes first.
pub struct ClientTicketStore {
    max_servers: usize,
    servers: Mutex<ClientServers>,
}

type ServerKey = (Version, String);

#[derive(Default)]
struct ClientServers {
    by_key: BTreeMap<ServerKey, ServerMemory>,
    /// Insertion number to key, oldest first.
    by_age: BTreeMap<u64, ServerKey>,
    next_number: u64,
    tickets_given: u64,
}

#[derive(Default)]
struct ServerMemory {
    /// Oldest first.
    tickets: VecDeque<ClientTicket>,
    /// Tells which of two servers gave its newest ticket later.
    newest: u64,
    group: Option<NamedGroup>,
}

struct ClientTicket {
    value: Tls13ClientSessionValue,
    /// The application protocol of the session.
    alpn: Option<Arc<[u8]>>,
}

impl ClientTicketStore {
    /// Tickets kept of one server; the oldest go first.
    pub const TICKETS_PER_SERVER: usize = 4;

    /// Remembers up to `max_servers` servers; 0 remembers none.
    pub fn new(max_servers: usize) -> Self {
        Self {
            max_servers,
            servers: Mutex::default(),
        }
    }

    /// Tickets waiting for their use.
    pub fn len(&self) -> usize {
        lock(&self.servers)
            .by_key
            .values()
            .map(|server| server.tickets.len())
            .sum()
    }

    /// Whether no ticket waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version of the newest ticket of `server_name`, among `versions`.
    pub(super) fn newest_version(
        &self,
        server_name: &str,
        versions: &[Version],
    ) -> Option<Version> {
        // As rustls writes names.
        let name = ServerName::try_from(server_name).ok()?;
        let servers = lock(&self.servers);
        let of = |version: &Version| {
            let server = servers.by_key.get(&ClientScope::key(*version, &name))?;
            (!server.tickets.is_empty()).then_some((server.newest, *version))
        };
        versions
            .iter()
            .filter_map(of)
            .max()
            .map(|(_, version)| version)
    }

    fn edit(&self, key: ServerKey, edit: impl FnOnce(&mut ServerMemory, &mut u64)) {
        if self.max_servers == 0 {
            return;
        }
        let mut guard = lock(&self.servers);
        let servers = &mut *guard;
        if let Some(server) = servers.by_key.get_mut(&key) {
            return edit(server, &mut servers.tickets_given);
        }
        while servers.by_key.len() >= self.max_servers {
            let Some((_, oldest)) = servers.by_age.pop_first() else {
                break;
            };
            servers.by_key.remove(&oldest);
        }
        let number = servers.next_number;
        servers.next_number += 1;
        servers.by_age.insert(number, key.clone());
        let server = servers.by_key.entry(key).or_default();
        edit(server, &mut servers.tickets_given);
    }
}

impl Default for ClientTicketStore {
    /// 256 servers.
    fn default() -> Self {
        Self::new(256)
    }
}

impl fmt::Debug for ClientTicketStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTicketStore")
            .field("max_servers", &self.max_servers)
            .finish_non_exhaustive()
    }
}

/// The store as one client session sees it.
pub(super) struct ClientScope {
    store: Arc<ClientTicketStore>,
    scope: VersionScope,
    alpn: Mutex<ClientAlpn>,
}

/// Application protocols by the session they belong to.
#[derive(Default)]
struct ClientAlpn {
    /// This one, once known.
    negotiated: Option<Arc<[u8]>>,
    /// The one that this one resumes.
    resumed: Option<Arc<[u8]>>,
}

impl ClientScope {
    /// For a session started in `version`.
    pub(super) fn new(store: Arc<ClientTicketStore>, version: Version) -> Self {
        Self {
            store,
            scope: VersionScope::new(version),
            alpn: Mutex::default(),
        }
    }

    pub(super) fn use_version(&self, version: Version) {
        self.scope.set_issued(version);
    }

    /// The tickets of this session belong to this application protocol.
    pub(super) fn use_alpn(&self, alpn: Option<&[u8]>) {
        let negotiated = &mut lock(&self.alpn).negotiated;
        if negotiated.as_deref() != alpn {
            *negotiated = alpn.map(Arc::from);
        }
    }

    /// The application protocol of the session that was resumed, if one was and it had one.
    pub(super) fn resumed_alpn(&self) -> Option<Vec<u8>> {
        lock(&self.alpn).resumed.as_deref().map(<[u8]>::to_vec)
    }

    fn key(version: Version, server_name: &ServerName<'_>) -> ServerKey {
        (version, server_name.to_str().into_owned())
    }
}

impl fmt::Debug for ClientScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientScope")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl ClientSessionStore for ClientScope {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        let key = Self::key(self.scope.started, &server_name);
        self.store.edit(key, |server, _| server.group = Some(group));
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        let key = Self::key(self.scope.started, server_name);
        lock(&self.store.servers).by_key.get(&key)?.group
    }

    // There is no TLS 1.2 in QUIC.
    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(
        &self,
        server_name: ServerName<'static>,
        value: Tls13ClientSessionValue,
    ) {
        let alpn = lock(&self.alpn).negotiated.clone();
        self.store.edit(
            Self::key(self.scope.issued(), &server_name),
            |server, given| {
                *given += 1;
                server.newest = *given;
                if server.tickets.len() >= ClientTicketStore::TICKETS_PER_SERVER {
                    server.tickets.pop_front();
                }
                server.tickets.push_back(ClientTicket { value, alpn });
            },
        );
    }

    fn take_tls13_ticket(
        &self,
        server_name: &ServerName<'static>,
    ) -> Option<Tls13ClientSessionValue> {
        let key = Self::key(self.scope.started, server_name);
        // The newest first: its early-data age check is the likeliest to hold.
        let ticket = lock(&self.store.servers)
            .by_key
            .get_mut(&key)?
            .tickets
            .pop_back()?;
        lock(&self.alpn).resumed = ticket.alpn;
        Some(ticket.value)
    }
}
