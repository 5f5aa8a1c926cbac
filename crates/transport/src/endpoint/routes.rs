//! From a connection ID or an address to a connection.

use std::{
    hash::{BuildHasher, DefaultHasher, Hasher},
    net::SocketAddr,
};

use hashbrown::HashMap;

use super::ConnectionHandle;
use crate::{
    rng::Rng,
    trim,
    wire::{ConnectionId, ResetToken},
};

/// Where a datagram belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// To a connection.
    Connection(ConnectionHandle),
    /// To an attempt that nobody accepted yet, by its number.
    Incoming(u64),
}

/// SipHash with a secret prefix, for keys a peer chooses. Nothing depends on iteration order.
#[derive(Clone, Copy, Debug)]
pub(super) struct RandomKeyHasher([u64; 2]);

impl RandomKeyHasher {
    pub(super) fn new(rng: &mut Rng) -> Self {
        Self([rng.u64(), rng.u64()])
    }
}

impl BuildHasher for RandomKeyHasher {
    type Hasher = DefaultHasher;
    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0[0]);
        hasher.write_u64(self.0[1]);
        hasher
    }
}

/// A quick multiplicative hash, for keys we drew at random ourselves.
#[derive(Clone, Copy, Debug)]
struct RandomValueHasher(u64);

impl BuildHasher for RandomValueHasher {
    type Hasher = Fold;
    fn build_hasher(&self) -> Fold {
        Fold(self.0)
    }
}

struct Fold(u64);

impl Fold {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            if let Some(word) = chunk.first_chunk() {
                self.mix(u64::from_le_bytes(*word));
            }
        }
        let rest = chunks
            .remainder()
            .iter()
            .fold(0, |word, &byte| (word << 8) | u64::from(byte));
        self.mix(rest);
    }
    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }
    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }
}

/// All routing tables of an endpoint.
#[derive(Debug)]
pub(super) struct Routes {
    /// Connection IDs we issued.
    issued: HashMap<ConnectionId, ConnectionHandle, RandomValueHasher>,
    /// First destination IDs of clients, which they chose.
    initial: HashMap<ConnectionId, Route, RandomKeyHasher>,
    /// Remote addresses, where our IDs have length zero.
    addresses: HashMap<SocketAddr, ConnectionHandle, RandomKeyHasher>,
    /// Stateless reset tokens of peers.
    resets: HashMap<(SocketAddr, u64), (ResetToken, ConnectionHandle), RandomKeyHasher>,
    /// Hides tokens from the keys of `resets`.
    token_hasher: RandomKeyHasher,
    /// The issued ID looked up last: datagrams come in runs.
    last: Option<(ConnectionId, ConnectionHandle)>,
}

impl Routes {
    pub(super) fn new(rng: &mut Rng) -> Self {
        Self {
            issued: HashMap::with_hasher(RandomValueHasher(rng.u64())),
            initial: HashMap::with_hasher(RandomKeyHasher::new(rng)),
            addresses: HashMap::with_hasher(RandomKeyHasher::new(rng)),
            resets: HashMap::with_hasher(RandomKeyHasher::new(rng)),
            token_hasher: RandomKeyHasher::new(rng),
            last: None,
        }
    }

    /// Who was issued `cid`.
    pub(super) fn issued(&mut self, cid: &ConnectionId) -> Option<ConnectionHandle> {
        if let Some((last, handle)) = self.last
            && last == *cid
        {
            return Some(handle);
        }
        let handle = *self.issued.get(cid)?;
        self.last = Some((*cid, handle));
        Some(handle)
    }

    /// Whose first destination ID `cid` was.
    pub(super) fn initial(&self, cid: &ConnectionId) -> Option<Route> {
        self.initial.get(cid).copied()
    }

    /// Which connection, having an empty ID, talks to `remote`.
    pub(super) fn address(&self, remote: &SocketAddr) -> Option<ConnectionHandle> {
        self.addresses.get(remote).copied()
    }

    /// Which connection a datagram from `remote` that ends in `tail` resets.
    ///
    /// The table is keyed by a secret hash of the token and the match compares in constant time,
    /// so that the time of a lookup tells nothing about tokens. RFC 9000 s10.3.1.
    pub(super) fn reset(&self, remote: &SocketAddr, tail: &ResetToken) -> Option<ConnectionHandle> {
        let (token, handle) = self.resets.get(&self.reset_key(remote, tail))?;
        (token == tail).then_some(*handle)
    }

    fn reset_key(&self, remote: &SocketAddr, token: &ResetToken) -> (SocketAddr, u64) {
        (*remote, self.token_hasher.hash_one(token.0))
    }

    /// Gives `cid` to `handle`; false if somebody has it already.
    pub(super) fn insert_issued(&mut self, cid: ConnectionId, handle: ConnectionHandle) -> bool {
        !self.initial.contains_key(&cid) && self.issued.try_insert(cid, handle).is_ok()
    }

    pub(super) fn remove_issued(&mut self, cid: &ConnectionId) {
        self.last = None;
        self.issued.remove(cid);
        trim::map(&mut self.issued);
    }

    pub(super) fn insert_initial(&mut self, cid: ConnectionId, route: Route) {
        self.initial.insert(cid, route);
    }

    /// Removes the route of a first destination ID if it is still this one.
    pub(super) fn remove_initial(&mut self, cid: &ConnectionId, route: Route) {
        if self.initial.get(cid) == Some(&route) {
            self.initial.remove(cid);
            trim::map(&mut self.initial);
        }
    }

    /// False if another connection talks to `remote`.
    pub(super) fn insert_address(&mut self, remote: SocketAddr, handle: ConnectionHandle) -> bool {
        self.addresses.try_insert(remote, handle).is_ok()
    }

    pub(super) fn remove_address(&mut self, remote: &SocketAddr, handle: ConnectionHandle) {
        if self.addresses.get(remote) == Some(&handle) {
            self.addresses.remove(remote);
            trim::map(&mut self.addresses);
        }
    }

    pub(super) fn insert_reset(
        &mut self,
        remote: SocketAddr,
        token: ResetToken,
        handle: ConnectionHandle,
    ) {
        // A token that another connection has already is that connection's: a peer that sends
        // the same one on many connections must not steal routes.
        let _ = self
            .resets
            .try_insert(self.reset_key(&remote, &token), (token, handle));
    }

    pub(super) fn remove_reset(
        &mut self,
        remote: SocketAddr,
        token: &ResetToken,
        handle: ConnectionHandle,
    ) {
        let key = self.reset_key(&remote, token);
        if self
            .resets
            .get(&key)
            .is_some_and(|(_, owner)| *owner == handle)
        {
            self.resets.remove(&key);
            trim::map(&mut self.resets);
        }
    }

    /// Entries of all tables together, for tests of bounds.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.issued.len() + self.initial.len() + self.addresses.len() + self.resets.len()
    }

    /// Places of all tables together, for tests of bounds.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.issued.capacity()
            + self.initial.capacity()
            + self.addresses.capacity()
            + self.resets.capacity()
    }
}
