//! Which path carries the acknowledgements of which: PATH_ACK may go on any. RFC 10069 s4.1.
//!
//! Owns: the choice of one path for all ([`AckRouting::OnePath`], [`AckRouting::Grouped`]), when a path carries
//! its own none the less, what becomes of both when paths die. Does not own: when acknowledgements are due
//! (`ack/`, `space/`), how they are written (`path_frames.rs`), what the sender makes of their ways
//! (`recovery/returns.rs`).

use std::time::Duration;

use super::Connection;
use crate::{
    multipath::{AckRouting, PathStatus},
    path::Path,
    time::Instant,
    units::PathId,
};

/// Where acknowledgements go now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckWay {
    /// All on this path; `None`: each path carries its own.
    pub(super) all_on: Option<PathId>,
    /// Whatever has not been acknowledged yet goes with what is due.
    pub(super) grouped: bool,
    /// Who carries those of stranded paths.
    relief: Relief,
}

/// Who carries the acknowledgements of stranded paths.
#[derive(Clone, Copy, Debug, Default)]
enum Relief {
    #[default]
    NotNeeded,
    /// This path, which works.
    By(PathId),
    /// None works. What a silent path brings is acknowledged there, for whatever arrives shows that it lives; this path
    /// carries what cannot leave where it belongs.
    Nobody(PathId),
}

impl AckWay {
    /// Whether a path carries its own acknowledgements.
    pub(super) fn is_own(self, id: PathId) -> bool {
        self.all_on.is_none_or(|all_on| all_on == id)
    }

    /// Whether `carrier` carries those of the path `of`, another one; `now` if any are to leave.
    pub(super) fn takes(self, now: Instant, carrier: PathId, of: &Path) -> bool {
        let received = &of.space.received;
        match self.all_on {
            Some(all_on) => {
                all_on == carrier
                    && (received.ack_due(now) || self.grouped && received.has_unreported())
            }
            None => {
                let relieved = match self.relief {
                    Relief::NotNeeded => false,
                    Relief::By(id) => id == carrier && is_stranded(of),
                    Relief::Nobody(id) => id == carrier && is_mute(of),
                };
                relieved && received.ack_due(now)
            }
        }
    }
}

/// Whether a path cannot carry acknowledgements, or not surely.
fn is_stranded(path: &Path) -> bool {
    is_mute(path) || path.is_silent()
}

/// Whether nothing may leave on a path.
fn is_mute(path: &Path) -> bool {
    path.is_abandoned() || path.unnamed_until.is_some()
}

/// Whether a path may be chosen for the acknowledgements of all.
fn may_carry_all(path: &Path) -> bool {
    path.is_usable()
        && !is_stranded(path)
        && path.network.is_validated()
        && path.recovery.rtt().has_sample()
}

impl Connection {
    /// Where acknowledgements go now.
    pub(super) fn ack_way(&self) -> AckWay {
        let Some(multipath) = &self.multipath else {
            return AckWay::default();
        };
        AckWay {
            // It may have gone since it was chosen.
            all_on: multipath
                .acks_on
                .filter(|id| self.paths.get(*id).is_some_and(|path| !is_stranded(path))),
            grouped: multipath.ack_routing == AckRouting::Grouped,
            relief: self.relief(),
        }
    }

    fn relief(&self) -> Relief {
        if !self.paths.iter().any(is_stranded) {
            return Relief::NotNeeded;
        }
        match self.main_path() {
            Some(main) if !is_stranded(main) => Relief::By(main.id),
            main => Relief::Nobody(main.map_or(PathId::ZERO, |main| main.id)),
        }
    }

    /// Whether acknowledgements wait that path `id` carries, its own or others'.
    pub(super) fn owes_acks(&self, now: Instant, path: &Path) -> bool {
        if self.paths.len() == 1 {
            return path.space.received.ack_due(now);
        }
        let way = self.ack_way();
        let owes = match way.is_own(path.id) {
            true => path.space.received.ack_due(now),
            false => path.ack_copies.is_owed(),
        };
        if owes {
            return true;
        }
        self.paths.iter().any(|other| {
            other.id != path.id
                && other.space.received.ack_due(now)
                && way.takes(now, path.id, other)
        })
    }

    /// What a packet takes to the peer on `path`, by what its round trips and those of the path that brings
    /// its acknowledgements tell.
    fn way_there(&self, path: &Path) -> Duration {
        let rtt = path.recovery.rtt();
        rtt.smoothed().saturating_sub(self.way_back(path))
    }

    /// What acknowledgements of `path` take on their way, as far as can be told: half of the shortest round
    /// trip that the path which brings them has by itself.
    pub(super) fn way_back(&self, path: &Path) -> Duration {
        let shortest = path.recovery.rtt().min();
        let by = path.recovery.returned_by().filter(|by| *by != path.id);
        let own = by.and_then(|by| self.paths.get(by)?.recovery.rtt_by(by));
        own.map_or(shortest / 2, |own| (own.min() / 2).min(shortest))
    }

    /// After input: which path is the fastest for acknowledgements, and whether others are to carry some.
    pub(super) fn review_ack_route(&mut self, now: Instant) {
        let Some(multipath) = &self.multipath else {
            return;
        };
        if multipath.ack_routing == AckRouting::SamePath {
            return;
        }
        let before = multipath.acks_on;
        let chosen = self.choose_ack_path(before);
        let lost = before
            .and_then(|id| self.paths.get(id))
            .is_some_and(is_stranded);
        for path in self.paths.iter_mut() {
            if lost && chosen != before {
                // What went that way may not have arrived.
                path.space.received.report_again();
            }
            match chosen {
                Some(all_on) if all_on != path.id => path.ack_copies.review(now),
                _ => path.ack_copies.rest(),
            }
        }
        if let Some(multipath) = &mut self.multipath {
            multipath.acks_on = chosen;
        }
    }

    /// An acknowledgement left.
    pub(super) fn on_acks_sent(&mut self) {
        if let Some(multipath) = &mut self.multipath
            && multipath.ack_routing == AckRouting::Alternate
            && let Some(before) = multipath.acks_on
        {
            let able = || self.paths.iter().filter(|path| may_carry_all(path));
            let next = able().find(|path| path.id > before);
            multipath.acks_on = next.or_else(|| able().next()).map(|path| path.id);
        }
    }

    /// The path for all acknowledgements; `None` where there is nothing to choose from.
    fn choose_ack_path(&self, before: Option<PathId>) -> Option<PathId> {
        let able = || self.paths.iter().filter(|path| may_carry_all(path));
        if able().count() < 2 {
            return None;
        }
        let turns = self
            .multipath
            .as_ref()
            .is_some_and(|multipath| multipath.ack_routing == AckRouting::Alternate);
        if turns {
            let kept = able().find(|path| Some(path.id) == before);
            return kept.or_else(|| able().next()).map(|path| path.id);
        }
        let available = |path: &&Path| path.status.effective() == PathStatus::Available;
        let any = able().any(|path| available(&path));
        let wanted = || able().filter(|path| !any || available(path));
        let fastest = wanted().min_by_key(|path| self.way_there(path))?;
        let kept = wanted().find(|path| Some(path.id) == before);
        // Each change costs the peer round trips to learn: it must be worth it.
        let stays = kept.filter(|kept| {
            let (kept, best) = (self.way_there(kept), self.way_there(fastest));
            best >= kept / 4 * 3
        });
        Some(stays.unwrap_or(fastest).id)
    }
}
