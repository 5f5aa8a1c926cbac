//! What paths cost, in the hall: the call, and what happens near a cap and at it.
//!
//! Owns: the calls, the end of a path that has carried all it may. Does not own: the cost itself
//! (`multipath/cost.rs`), which paths a scheduler is asked about (`multipath_tx.rs`).

use super::{Connection, Event};
use crate::{
    multipath::{AbandonPathError, CapUse, PathCost, PathStatus, abandon},
    path::{Path, PathEvent},
    time::Instant,
    units::PathId,
};

impl Connection {
    /// Sets what a path costs, before or after it is open. Bytes that it has carried count towards a cap;
    /// a higher cap lets a path go on that is still there. The peer is told to use it, or to keep it in
    /// reserve, as [`Connection::set_path_status`] does, unless that is what the former cost says, too.
    ///
    /// # Errors
    /// [`AbandonPathError::UnknownPath`].
    pub fn set_path_cost(
        &mut self,
        now: Instant,
        id: PathId,
        cost: PathCost,
    ) -> Result<(), AbandonPathError> {
        let mut asks = true;
        if let Some(path) = self.paths.get_mut(id) {
            asks = !path.cost.asks_the_same(cost);
            path.cost.set(cost);
        } else {
            let multipath = self.multipath.as_mut();
            let unopened = multipath.and_then(|multipath| multipath.ids.get_mut(id));
            unopened.ok_or(AbandonPathError::UnknownPath)?.cost = cost;
        }
        if asks && self.multipath.is_some() {
            self.set_path_status(id, cost.status())?;
        }
        self.has_costs |= cost != PathCost::default();
        self.review_costs(now);
        Ok(())
    }

    /// After input, and before anything leaves: tells of caps that come near, and closes paths that have
    /// carried all they may, unless no other works: what is silent may stay so, and a higher cap lets this one go on.
    pub(super) fn review_costs(&mut self, now: Instant) {
        if !self.has_costs {
            return;
        }
        for index in 0..self.paths.len() {
            let path = self.paths.at_mut(index);
            let Some(path) = path.filter(|path| !path.is_abandoned()) else {
                continue;
            };
            let (id, carried, datagram) = (path.id, path.carried(), path.mtu.datagram_size());
            match path.cost.news(carried, datagram.into()) {
                Some(CapUse::Near) => {
                    // Both directions count: the peer is asked to use other paths from now on.
                    if self.multipath.is_some() {
                        path.status.set(PathStatus::Backup);
                    }
                    let bytes_left = path.cost.room(carried);
                    let event = PathEvent::CapNear {
                        path: id,
                        bytes_left,
                    };
                    self.outbox.push(Event::Path(event));
                }
                Some(_) => {
                    let event = PathEvent::CapReached { path: id };
                    self.outbox.push(Event::Path(event));
                }
                None => {}
            }
            if self.paths.get(id).is_some_and(Path::is_spent) && self.multipath.is_some() {
                let other = |path: &Path| path.id != id && path.is_at_work();
                if self.paths.iter().any(other) {
                    let code = abandon::PATH_RESOURCE_LIMIT_REACHED;
                    // Another path is left, and this one is there.
                    let _ = self.abandon_path(now, id, code);
                }
            }
        }
    }
}
