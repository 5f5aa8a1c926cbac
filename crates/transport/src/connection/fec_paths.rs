//! Erasure correction over several paths, in the hall.
//!
//! Owns: what `fec/` is told of the paths, the path of repair symbols, which packets need no copy and what
//! becomes of the symbols of those that got one. Does not own: which path is best (`fec/paths.rs`), the path of
//! data (`multipath_tx.rs`), repair packets (`fec.rs`).

use std::ops::Range;

use super::{Connection, multipath_tx::view_of};
use crate::{
    endpoint::Transmit,
    fec::{FecSender, PathOutlook},
    multipath::{PathStatus, sched::PathView},
    path::Path,
    time::Instant,
    tls::TAG_LEN,
    units::{Ecn, PathId},
};

/// Bytes of a packet number, at least: where it has more, a window whose symbols would just have fitted is cut short.
const LEAST_NUMBER_BYTES: usize = 1;

impl Connection {
    /// Tells erasure correction of the paths that data may use now.
    pub(super) fn show_paths_to_fec(&mut self, now: Instant) {
        if !self.has_choice_of_paths() {
            if let Some(sender) = self.fec.sender.as_deref_mut() {
                sender.look_at_paths(std::iter::empty());
            }
            return;
        }
        let peer_delay = self.peer_max_ack_delay();
        let Some(sender) = self.fec.sender.as_deref_mut() else {
            return;
        };
        let answers = |path: &&Path| path.is_at_work();
        let class = |path: &Path| path.cost.cost.class;
        // As with data, cost comes before status.
        let cheapest = self.paths.iter().filter(answers).map(class).min();
        let cheap = |path: &&Path| Some(class(path)) == cheapest;
        let wanted = |path: &Path| path.status.effective() == PathStatus::Available;
        let any = self.paths.iter().filter(answers).filter(cheap).any(wanted);
        let paths = self.paths.iter().filter(answers).filter(cheap);
        let paths = paths.filter(|path| !any || wanted(path));
        sender.look_at_paths(paths.map(|path| {
            let rtt = path.recovery.rtt();
            let view = view_of(now, path, false, rtt.min() / 2);
            let peer_delay = path.ack_frequency.max_ack_delay(peer_delay);
            PathOutlook {
                id: path.id,
                smoothed_rtt: rtt.smoothed(),
                min_rtt: rtt.min(),
                calm_rtt: rtt.calm(),
                probe_timeout: rtt.pto_base() + peer_delay,
                one_way_delay: view.one_way_delay(),
                congestion_window: view.window,
                bytes_in_flight: view.in_flight,
                datagram_bytes: view.datagram,
                slow_start: view.slow_start,
            }
        }));
    }

    /// Repair symbols that wait, on the path where they do most good, of those whose datagrams have room for them.
    pub(super) fn transmit_repairs_over_paths(
        &mut self,
        now: Instant,
        buf: &mut [u8],
        max_segments: usize,
    ) -> Option<Transmit> {
        self.show_paths_to_fec(now);
        let views = self.path_views(now);
        let sender = self.fec.sender.as_deref();
        let may = |id: PathId| views.iter().any(|view| view.id == id && view.may_send);
        let needed = sender.and_then(FecSender::next_repair_room);
        // Where none has room, what is left of the window is what counts.
        let may_hold = |path: &Path| path.is_at_work() && has_room(path, needed);
        let none_has = !self.paths.iter().any(may_hold);
        let holds = |id| {
            let path = self.paths.get(id);
            none_has || path.is_some_and(|path| has_room(path, needed))
        };
        let chosen = sender.and_then(|sender| sender.repair_path(|id| may(id) && holds(id)));
        // None of them is heard of: any that data may use.
        let chosen = chosen.or_else(|| first_of(&views).filter(|_| !self.hears_of_any_path()));
        self.keep_views(views);
        let id = chosen?;
        let path = self.paths.get(id)?;
        let ecn = if self.config.ecn {
            path.recovery.ecn_mark()
        } else {
            Ecn::NotEct
        };
        self.transmit_repairs(now, id, buf, ecn, max_segments)
    }

    /// Whether a datagram of the path has room for the repair symbol to leave next, over all that it is for: what it is for
    /// may have left on a path with larger ones.
    pub(super) fn has_room_for_repair(&self, id: PathId) -> bool {
        let sender = self.fec.sender.as_deref();
        let needed = sender.and_then(FecSender::next_repair_room);
        let path = self.paths.get(id);
        path.is_none_or(|path| has_room(path, needed))
    }

    fn hears_of_any_path(&self) -> bool {
        self.paths.iter().any(Path::is_at_work)
    }
}

/// Whether a datagram of the path has room for a frame of so many bytes.
fn has_room(path: &Path, needed: Option<usize>) -> bool {
    let header = 1 + path.remote_cids.active().cid.len() + LEAST_NUMBER_BYTES;
    let room = usize::from(path.mtu.datagram_size()).saturating_sub(header + TAG_LEN);
    needed.is_none_or(|needed| needed <= room)
}

fn first_of(views: &[PathView]) -> Option<PathId> {
    let ready = views.iter().filter(|view| view.may_send);
    let first = ready.min_by_key(|view| view.smoothed_rtt);
    first.map(|view| view.id)
}

/// Which packets are not copied in case they are lost.
pub(super) struct Covered<'a> {
    sender: Option<&'a FecSender>,
    ids: Range<u64>,
}

impl<'a> Covered<'a> {
    pub(super) fn by(sender: Option<&'a FecSender>) -> Self {
        let ids = sender.map_or(0..0, FecSender::covered);
        Self { sender, ids }
    }

    /// Whether repair symbols for this source symbol are under way, or will be in time.
    pub(super) fn contains(&self, symbol: Option<u64>) -> bool {
        let planned = |id| self.sender.is_some_and(|sender| sender.is_planned(id));
        symbol.is_some_and(|id| self.ids.contains(&id) || planned(id))
    }
}
