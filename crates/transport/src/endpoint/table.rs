//! What the endpoint remembers of each connection.

use std::{collections::VecDeque, net::SocketAddr};

use super::{ConnectionHandle, routes::Routes};
use crate::{
    config::fixed,
    trim,
    units::PathId,
    wire::{ConnectionId, ResetToken},
};

/// One connection's routes.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Where the client's first Initial (after a Retry: the next) went; servers only.
    initial_dcid: Option<ConnectionId>,
    /// The peer's addresses, where our IDs are empty.
    addresses: Vec<SocketAddr>,
    /// Whether the handshake is still going on with a client.
    counts_as_incoming: bool,
    /// Whether a token proved that client's address.
    validated: bool,
    ids: Vec<IssuedId>,
    retired: VecDeque<ConnectionId>,
    /// Of the peer, by path, the oldest first.
    resets: Vec<(PathId, SocketAddr, ResetToken)>,
}

#[derive(Clone, Copy, Debug)]
struct IssuedId {
    path: PathId,
    sequence: u64,
    cid: ConnectionId,
}

impl Entry {
    /// A client's connection that begins; `dcid` is where its first Initial went, `validated`
    /// whether a token proves its address.
    pub(super) fn incoming(dcid: ConnectionId, validated: bool) -> Self {
        Self {
            initial_dcid: Some(dcid),
            counts_as_incoming: true,
            validated,
            ..Self::default()
        }
    }

    /// Whether its peer may be nobody: the address may be forged.
    fn is_unproven(&self) -> bool {
        self.counts_as_incoming && !self.validated
    }

    /// How many more IDs it may be given.
    pub(super) fn free_ids(&self) -> usize {
        fixed::CONNECTION_IDS.saturating_sub(self.ids.len())
    }

    /// The ID of this name, if it was issued and not retired.
    pub(super) fn id(&self, path: PathId, sequence: u64) -> Option<ConnectionId> {
        let found = self
            .ids
            .iter()
            .find(|id| id.path == path && id.sequence == sequence)?;
        Some(found.cid)
    }

    pub(super) fn add_id(&mut self, path: PathId, sequence: u64, cid: ConnectionId) {
        self.ids.push(IssuedId {
            path,
            sequence,
            cid,
        });
    }

    /// The peer will not use this ID any more.
    pub(super) fn retire_id(&mut self, path: PathId, sequence: u64, routes: &mut Routes) {
        let place = self
            .ids
            .iter()
            .position(|id| id.path == path && id.sequence == sequence);
        let Some(place) = place else {
            return;
        };
        self.retired.push_back(self.ids.swap_remove(place).cid);
        if self.retired.len() > fixed::RETIRED_IDS_KEPT
            && let Some(oldest) = self.retired.pop_front()
        {
            routes.remove_issued(&oldest);
        }
    }

    /// `path` may be reset from this address by this token. The newest few of each path are kept, whatever
    /// the others have.
    pub(super) fn add_reset(
        &mut self,
        path: PathId,
        (remote, token): (SocketAddr, ResetToken),
        handle: ConnectionHandle,
        routes: &mut Routes,
    ) {
        let known = (path, remote, token);
        if let Some(place) = self.resets.iter().position(|reset| *reset == known) {
            // Announced again: it is in use, and the last to make room.
            self.resets.remove(place);
            self.resets.push(known);
            return;
        }
        let mut of_path = self.resets.iter().filter(|reset| reset.0 == path);
        let oldest = of_path.next().copied();
        if of_path.count() + 1 >= fixed::RESET_TOKENS_KEPT
            && let Some(oldest) = oldest
        {
            self.resets.retain(|reset| *reset != oldest);
            routes.remove_reset(oldest.1, &oldest.2, handle);
        }
        self.resets.push(known);
        routes.insert_reset(remote, token, handle);
    }

    /// Nothing is left of `path`.
    pub(super) fn forget_resets(
        &mut self,
        path: PathId,
        handle: ConnectionHandle,
        routes: &mut Routes,
    ) {
        for (_, remote, token) in self.resets.extract_if(.., |reset| reset.0 == path) {
            routes.remove_reset(remote, &token, handle);
        }
    }

    /// Where the peer sends from. False if another connection talks to it, or there are too many.
    pub(super) fn add_address(
        &mut self,
        remote: SocketAddr,
        handle: ConnectionHandle,
        routes: &mut Routes,
    ) -> bool {
        let room = self.addresses.len() < fixed::PEER_ADDRESSES;
        let added = room && routes.insert_address(remote, handle);
        if added {
            self.addresses.push(remote);
        }
        added
    }

    /// Takes every route of this connection out of the tables.
    fn remove_routes(&self, handle: ConnectionHandle, routes: &mut Routes) {
        for cid in self.ids.iter().map(|id| &id.cid).chain(&self.retired) {
            routes.remove_issued(cid);
        }
        for (_, remote, token) in &self.resets {
            routes.remove_reset(*remote, token, handle);
        }
        if let Some(dcid) = &self.initial_dcid {
            routes.remove_initial(dcid, super::routes::Route::Connection(handle));
        }
        for remote in &self.addresses {
            routes.remove_address(remote, handle);
        }
    }
}

/// This many free slots rest before one of them is used again.
const RESTING_SLOTS: usize = 16;

/// All connections of an endpoint, by handle.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Boxed, so that a place without a connection costs little: one connection with a high
    /// number keeps all places below.
    slots: Vec<Option<Box<Entry>>>,
    /// Free slots; the one free for longest is taken first, so that a late event for a
    /// connection that is gone seldom meets a new one. May name slots that are no more, or are
    /// taken again.
    free: VecDeque<usize>,
    live: usize,
    incoming: usize,
    unproven: usize,
}

impl Table {
    /// Connections not yet drained.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// Accepted connections whose handshake goes on.
    pub(super) fn incoming(&self) -> usize {
        self.incoming
    }

    /// Connections whose peer is known to be where it says: all but those of clients that may not
    /// exist.
    pub(super) fn proven(&self) -> usize {
        self.live.saturating_sub(self.unproven)
    }

    pub(super) fn insert(&mut self, entry: Entry) -> ConnectionHandle {
        self.live += 1;
        self.incoming += usize::from(entry.counts_as_incoming);
        self.unproven += usize::from(entry.is_unproven());
        let entry = Some(Box::new(entry));
        while self.free.len() > RESTING_SLOTS
            && let Some(index) = self.free.pop_front()
        {
            if let Some(slot @ None) = self.slots.get_mut(index) {
                *slot = entry;
                return ConnectionHandle(index);
            }
        }
        self.slots.push(entry);
        ConnectionHandle(self.slots.len() - 1)
    }

    pub(super) fn get_mut(&mut self, handle: ConnectionHandle) -> Option<&mut Entry> {
        self.slots.get_mut(handle.0)?.as_deref_mut()
    }

    /// The handshake is over: one incoming connection less, once.
    pub(super) fn handshake_over(&mut self, handle: ConnectionHandle) {
        let Some(entry) = self.get_mut(handle) else {
            return;
        };
        let unproven = entry.is_unproven();
        if std::mem::take(&mut entry.counts_as_incoming) {
            self.incoming = self.incoming.saturating_sub(1);
            self.unproven = self.unproven.saturating_sub(usize::from(unproven));
        }
    }

    /// Forgets a connection and its routes.
    pub(super) fn remove(&mut self, handle: ConnectionHandle, routes: &mut Routes) {
        self.handshake_over(handle);
        let Some(entry) = self.slots.get_mut(handle.0).and_then(Option::take) else {
            return;
        };
        entry.remove_routes(handle, routes);
        self.free.push_back(handle.0);
        self.live = self.live.saturating_sub(1);
        self.shrink();
    }

    /// After a burst of connections: gives back what the present ones do not need.
    fn shrink(&mut self) {
        let wanted = (2 * self.live).max(2 * RESTING_SLOTS);
        if self.live <= self.slots.len() / 4 {
            while self.slots.len() > wanted && matches!(self.slots.last(), Some(None)) {
                self.slots.pop();
            }
            trim::vec(&mut self.slots);
        }
        // Now and then only: most of it went with the slots.
        if self.free.len() > 2 * self.slots.len() {
            let slots = self.slots.iter().enumerate();
            self.free = slots
                .filter_map(|(index, slot)| slot.is_none().then_some(index))
                .collect();
        }
    }

    /// Places for connections, for tests of bounds.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity() + self.free.capacity()
    }
}
