//! Path identifiers before paths: which may be opened, and with which connection IDs.
//!
//! Owns: both ends' maximum path IDs, and for every identifier not used yet the connection IDs that
//! either end issued for it. An identifier leaves when its path opens or is abandoned, and never
//! comes back.

use std::collections::{BTreeMap, BTreeSet};

use super::{PathCost, StatusExchange};
use crate::{
    error::TransportError,
    path::{FirstRtt, LocalCids, RemoteCids},
    units::PathId,
    wire::{ConnectionId, NewConnectionId},
};

/// What is known of a path that is not open yet.
#[derive(Debug, Default)]
pub(crate) struct Unopened {
    /// Connection IDs that we issued for it.
    pub(crate) local: LocalCids,
    /// Connection IDs that the peer issued for it.
    pub(crate) remote: Option<RemoteCids>,
    /// Status may be told before use.
    pub(crate) status: StatusExchange,
    pub(crate) cost: PathCost,
    /// When that was, for the path's first round trip.
    pub(crate) first_rtt: FirstRtt,
}

impl Unopened {
    /// Whether the peer lacks news of it.
    fn has_unsent(&self) -> bool {
        let retires = |remote: &RemoteCids| remote.peek_retirement().is_some();
        self.local.peek_unsent().is_some()
            || self.status.unsent().is_some()
            || self.remote.as_ref().is_some_and(retires)
    }
}

/// The identifiers of a connection's paths.
#[derive(Debug)]
pub(crate) struct PathIds {
    /// Largest identifier we allow.
    local_max: u64,
    /// Largest identifier the peer allows.
    remote_max: u64,
    /// Not used yet, up to `local_max`.
    unopened: BTreeMap<PathId, Unopened>,
    /// The lowest identifier never opened by us (client).
    next: u64,
    /// Abandoned, and the peer has not acknowledged that we said so.
    unheard: BTreeSet<PathId>,
    /// Those of them of which nothing else is left.
    gone: BTreeSet<PathId>,
    /// Whether the peer may lack news of paths that are not open: asked for every packet.
    news: bool,
}

fn path_id(number: u64) -> Option<PathId> {
    u32::try_from(number).ok().map(PathId)
}

impl PathIds {
    /// Both ends' initial_max_path_id.
    pub(crate) fn new(local_max: u64, remote_max: u64) -> Self {
        let mut ids = Self {
            local_max: 0,
            remote_max,
            unopened: BTreeMap::new(),
            next: 1,
            unheard: BTreeSet::new(),
            gone: BTreeSet::new(),
            news: false,
        };
        ids.allow(local_max);
        ids
    }

    /// Identifiers up to `max` may be used from now on.
    fn allow(&mut self, max: u64) {
        let max = max.min(u64::from(u32::MAX));
        for number in self.local_max + 1..=max {
            if let Some(id) = path_id(number) {
                self.unopened.insert(id, Unopened::default());
            }
        }
        self.local_max = self.local_max.max(max);
    }

    /// We abandon `id`, and shall tell the peer.
    pub(crate) fn on_abandoned(&mut self, id: PathId) {
        self.unheard.insert(id);
    }

    /// Nothing is left of `id`, an abandoned path: one more may follow once the peer is known to have
    /// heard of it, so that what waits to be told is bounded whatever the peer abandons and leaves
    /// unacknowledged. The new maximum, to be announced.
    pub(crate) fn on_gone(&mut self, id: PathId) -> Option<u64> {
        if self.unheard.contains(&id) {
            self.gone.insert(id);
            return None;
        }
        Some(self.allow_another())
    }

    /// The peer has heard that we abandoned `id`. The new maximum, to be announced.
    pub(crate) fn on_abandon_heard(&mut self, id: PathId) -> Option<u64> {
        self.unheard.remove(&id);
        self.gone.remove(&id).then(|| self.allow_another())
    }

    fn allow_another(&mut self) -> u64 {
        self.allow(self.local_max.saturating_add(1));
        self.local_max
    }

    /// Whether the peer issued `cid` for a path other than `but`, among those not used yet.
    pub(crate) fn has_remote_cid(&self, cid: &ConnectionId, but: PathId) -> bool {
        let others = self.unopened.iter().filter(|(id, _)| **id != but);
        others
            .filter_map(|(_, unopened)| unopened.remote.as_ref())
            .any(|remote| remote.contains(cid))
    }

    /// Largest identifier we allow.
    pub(crate) fn local_max(&self) -> u64 {
        self.local_max
    }

    /// Largest identifier the peer allows.
    pub(crate) fn remote_max(&self) -> u64 {
        self.remote_max
    }

    /// Whether it is the peer's limit that keeps us from opening a path, and not our own.
    pub(crate) fn is_blocked_by_peer(&self) -> bool {
        self.remote_max < self.local_max
    }

    /// The peer raised its limit; smaller values are old news. Whether it did.
    pub(crate) fn on_max_path_id(&mut self, max: u64) -> bool {
        let raised = max > self.remote_max;
        self.remote_max = self.remote_max.max(max);
        raised
    }

    /// A frame about `id` arrived.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION above what we allow. RFC 10069 s4.
    pub(crate) fn check(&self, id: PathId) -> Result<(), TransportError> {
        if u64::from(id.0) > self.local_max {
            return Err(TransportError::protocol_violation(
                "path ID above the limit",
            ));
        }
        Ok(())
    }

    /// What is known of a path that is not open yet, to be changed.
    pub(crate) fn get_mut(&mut self, id: PathId) -> Option<&mut Unopened> {
        self.news = true;
        self.unopened.get_mut(&id)
    }

    /// Whether the peer lacks news of a path that is not open yet.
    pub(crate) fn has_news(&self) -> bool {
        self.news && self.unopened.values().any(Unopened::has_unsent)
    }

    /// Hands out what may have news, one by one, until `write` has no room for the next.
    pub(crate) fn write_news(&mut self, mut write: impl FnMut(PathId, &mut Unopened) -> bool) {
        if self.news {
            self.news = !self.unopened.iter_mut().all(|(id, it)| write(*id, it));
        }
    }

    /// Identifiers that both ends allow and that lack connection IDs of ours.
    pub(crate) fn without_ids(&self) -> impl Iterator<Item = PathId> {
        let max = self.local_max.min(self.remote_max);
        self.unopened
            .iter()
            .filter(move |(id, unopened)| u64::from(id.0) <= max && unopened.local.is_empty())
            .map(|(id, _)| *id)
    }

    /// Whose connection ID this is.
    pub(crate) fn by_local_cid(&self, cid: &ConnectionId) -> Option<PathId> {
        self.unopened
            .iter()
            .find(|(_, unopened)| unopened.local.contains(cid))
            .map(|(id, _)| *id)
    }

    /// Takes the next identifier to open, in order; `None` while the peer allows none.
    pub(crate) fn take_next(&mut self) -> Option<PathId> {
        let max = self.local_max.min(self.remote_max);
        while self.next <= max {
            let id = path_id(self.next)?;
            self.next += 1;
            if self.unopened.contains_key(&id) {
                return Some(id);
            }
            // The peer abandoned it unused.
        }
        None
    }

    /// Whether both ends have given connection IDs for `id`, so that it can be opened.
    pub(crate) fn is_ready(&self, id: PathId) -> bool {
        self.unopened
            .get(&id)
            .is_some_and(|it| !it.local.is_empty() && it.remote.is_some())
    }

    /// The path opens, or never will.
    pub(crate) fn take(&mut self, id: PathId) -> Option<Unopened> {
        self.unopened.remove(&id)
    }

    /// A connection ID for a path that is not open yet; `limit`: how many we hold for one path.
    ///
    /// # Errors
    /// As [`RemoteCids::on_new`].
    pub(crate) fn on_new_connection_id(
        &mut self,
        id: PathId,
        new: &NewConnectionId,
        limit: u64,
        retire_limit: usize,
    ) -> Result<(), TransportError> {
        let Some(unopened) = self.get_mut(id) else {
            return Ok(());
        };
        match &mut unopened.remote {
            Some(remote) => remote.on_new(new, retire_limit),
            None => {
                let mut remote = RemoteCids::first_of_path(new, limit);
                let result = remote.on_new(new, retire_limit);
                unopened.remote = Some(remote);
                result
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ResetToken;

    fn new_cid(path: u32, sequence: u64) -> NewConnectionId {
        NewConnectionId {
            path: Some(PathId(path)),
            sequence,
            retire_prior_to: 0,
            cid: ConnectionId::new(&[path as u8, sequence as u8, 1, 2]).unwrap(),
            token: ResetToken([sequence as u8; 16]),
        }
    }

    #[test]
    fn identifiers_are_used_in_order_and_once() {
        let mut ids = PathIds::new(2, 1);
        assert_eq!(ids.without_ids().collect::<Vec<_>>(), [PathId(1)]);
        assert_eq!(ids.take_next(), Some(PathId(1)));
        assert_eq!(ids.take_next(), None, "the peer allows 1 only");
        assert!(ids.on_max_path_id(5));
        assert!(!ids.on_max_path_id(4));
        assert_eq!(ids.take_next(), Some(PathId(2)));
        assert_eq!(ids.take_next(), None, "we allow 2 only");
        ids.take(PathId(1));
        assert_eq!(ids.on_gone(PathId(1)), Some(3));
        assert_eq!(ids.take_next(), Some(PathId(3)));
        assert!(ids.check(PathId(3)).is_ok() && ids.check(PathId(4)).is_err());
    }

    #[test]
    fn another_is_allowed_once_the_peer_knows_of_the_end() {
        let mut ids = PathIds::new(2, 2);
        ids.on_abandoned(PathId(1));
        ids.take(PathId(1));
        assert_eq!(ids.on_gone(PathId(1)), None);
        assert_eq!(ids.on_abandon_heard(PathId(1)), Some(3));
        assert_eq!(ids.on_abandon_heard(PathId(1)), None, "once");
        ids.on_abandoned(PathId(2));
        assert_eq!(ids.on_abandon_heard(PathId(2)), None, "it is still there");
        assert_eq!(ids.on_gone(PathId(2)), Some(4));
    }

    #[test]
    fn abandoned_identifiers_are_passed_over() {
        let mut ids = PathIds::new(3, 3);
        ids.take(PathId(1));
        assert_eq!(ids.take_next(), Some(PathId(2)));
    }

    #[test]
    fn connection_ids_may_come_in_any_order() {
        let mut ids = PathIds::new(1, 1);
        let id = PathId(1);
        for sequence in [1, 0, 1] {
            ids.on_new_connection_id(id, &new_cid(1, sequence), 4, 8)
                .unwrap();
        }
        let remote = ids.take(id).unwrap().remote.unwrap();
        assert_eq!(remote.active().sequence, 1);
        assert!(
            ids.on_new_connection_id(id, &new_cid(1, 2), 4, 8).is_ok(),
            "for a path that is gone"
        );
    }

    #[test]
    fn too_many_connection_ids_are_refused() {
        let mut ids = PathIds::new(1, 1);
        let results: Vec<_> = (0..5)
            .map(|sequence| {
                ids.on_new_connection_id(PathId(1), &new_cid(1, sequence), 4, 8)
                    .is_ok()
            })
            .collect();
        assert_eq!(results, [true, true, true, true, false]);
    }
}
