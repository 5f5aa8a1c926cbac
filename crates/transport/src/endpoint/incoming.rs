//! Connection attempts that the application has not decided about.

use std::{collections::BTreeMap, fmt, net::SocketAddr, sync::Arc, time::Duration};

use bytes::BytesMut;

use super::{DatagramMeta, used_tokens::TokenName};
use crate::{
    time::Instant,
    units::FourTuple,
    wire::{ConnectionId, Version},
};

/// An undecided attempt is forgotten after this long; its client has sent anew by then.
const MAX_AGE: Duration = Duration::from_secs(10);

/// A client that wants to connect.
///
/// Decide by [`super::Endpoint::accept`], [`super::Endpoint::retry`],
/// [`super::Endpoint::refuse`] or [`super::Endpoint::ignore`]. Dropped undecided, it is ignored
/// soon; later datagrams of the same attempt are kept for it, within limits, until then.
pub struct Incoming {
    pub(super) id: u64,
    /// Alive as long as this value is.
    pub(super) alive: Arc<()>,
    pub(super) meta: DatagramMeta,
    /// The first datagram.
    pub(super) data: BytesMut,
    pub(super) version: Version,
    /// Destination of the client's Initial; keys derive from it.
    pub(super) dcid: ConnectionId,
    /// The client's own connection ID.
    pub(super) scid: ConnectionId,
    /// The client's first destination ID, before any Retry.
    pub(super) original_dcid: ConnectionId,
    /// The source connection ID of the Retry it answers.
    pub(super) retry_scid: Option<ConnectionId>,
    /// The token it answers it with.
    pub(super) retry_token: Option<TokenName>,
    pub(super) validated: bool,
}

impl Incoming {
    /// Where the client seems to be; may be spoofed unless [`Self::is_validated`].
    pub fn remote_address(&self) -> SocketAddr {
        self.meta.four_tuple.remote
    }

    /// The address it sent to; the IP may be unspecified if the socket does not tell.
    pub fn local_address(&self) -> SocketAddr {
        self.meta.four_tuple.local
    }

    /// Both addresses.
    pub fn four_tuple(&self) -> FourTuple {
        self.meta.four_tuple
    }

    /// Whether a token proved that the client receives at its address. RFC 9000 s8.1.
    pub fn is_validated(&self) -> bool {
        self.validated
    }

    /// Whether [`super::Endpoint::retry`] is possible: a client follows one Retry only.
    pub fn may_retry(&self) -> bool {
        self.retry_scid.is_none()
    }

    /// The client's first destination connection ID.
    pub fn original_dcid(&self) -> ConnectionId {
        self.original_dcid
    }

    /// The version of the client's first packet.
    pub fn version(&self) -> Version {
        self.version
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("remote", &self.remote_address())
            .field("original_dcid", &self.original_dcid)
            .field("version", &self.version)
            .field("validated", &self.validated)
            .finish_non_exhaustive()
    }
}

/// Later datagrams of undecided attempts.
#[derive(Debug, Default)]
pub(super) struct PendingTable {
    pending: BTreeMap<u64, Pending>,
    next_id: u64,
    /// How many of them proved their address.
    proven: usize,
}

/// What is kept of one attempt.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) dcid: ConnectionId,
    pub(super) datagrams: Vec<(DatagramMeta, BytesMut)>,
    remote: SocketAddr,
    validated: bool,
    bytes: usize,
    since: Instant,
    alive: Arc<()>,
}

impl PendingTable {
    /// Attempts waiting for a decision.
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Those of clients that proved their address.
    pub(super) fn proven(&self) -> usize {
        self.proven
    }

    /// A new attempt of `first_bytes`: its number, and what keeps it alive.
    pub(super) fn insert(
        &mut self,
        now: Instant,
        dcid: ConnectionId,
        remote: SocketAddr,
        validated: bool,
        first_bytes: usize,
    ) -> (u64, Arc<()>) {
        let id = self.next_id;
        self.next_id += 1;
        let alive = Arc::new(());
        let pending = Pending {
            dcid,
            datagrams: Vec::new(),
            remote,
            validated,
            bytes: first_bytes,
            since: now,
            alive: Arc::clone(&alive),
        };
        self.pending.insert(id, pending);
        self.proven += usize::from(validated);
        (id, alive)
    }

    /// Keeps a copy of a later datagram of attempt `id`; false if it does not fit or comes from
    /// elsewhere. A copy, because a small datagram may pin a large receive buffer.
    pub(super) fn buffer(
        &mut self,
        id: u64,
        meta: DatagramMeta,
        data: &[u8],
        limit_bytes: usize,
    ) -> bool {
        let Some(pending) = self.pending.get_mut(&id) else {
            return false;
        };
        // The bookkeeping of a datagram counts too, else empty ones would be free.
        let cost = data.len() + size_of::<(DatagramMeta, BytesMut)>();
        if pending.remote != meta.four_tuple.remote || pending.bytes + cost > limit_bytes {
            return false;
        }
        pending.bytes += cost;
        pending.datagrams.push((meta, BytesMut::from(data)));
        true
    }

    /// Whether this very attempt waits here.
    pub(super) fn is_same(&self, incoming: &Incoming) -> bool {
        let pending = self.pending.get(&incoming.id);
        pending.is_some_and(|pending| Arc::ptr_eq(&pending.alive, &incoming.alive))
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Pending> {
        let removed = self.pending.remove(&id)?;
        self.proven = self.proven.saturating_sub(usize::from(removed.validated));
        Some(removed)
    }

    /// Takes out one attempt that nobody will decide about any more, if there is one among the
    /// oldest few.
    pub(super) fn pop_stale(&mut self, now: Instant) -> Option<(u64, Pending)> {
        let (&id, _) = self.pending.iter().take(8).find(|(_, pending)| {
            Arc::strong_count(&pending.alive) <= 1 || now.saturating_since(pending.since) > MAX_AGE
        })?;
        self.remove(id).map(|pending| (id, pending))
    }
}
