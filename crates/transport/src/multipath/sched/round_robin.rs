//! `round-robin` and `weighted`: paths take turns.

use super::{Choice, Scheduler, SchedulerView, ready};
use crate::units::PathId;

/// Every path that may send carries one datagram in turn.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    last: Option<PathId>,
}

impl RoundRobin {
    pub(super) const NAME: &'static str = "round-robin";
}

impl Scheduler for RoundRobin {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(&mut self, view: &SchedulerView<'_>) -> Option<Choice> {
        let next = ready(view).find(|path| self.last.is_none_or(|last| path.id > last));
        let path = next.or_else(|| ready(view).next())?;
        self.last = Some(path.id);
        Some(Choice {
            path: path.id,
            bytes: path.datagram,
            ahead: 0,
        })
    }
}

/// Bytes in proportion to what the paths deliver: the path goes that is furthest behind its share.
#[derive(Debug, Default)]
pub(super) struct Weighted {
    /// Bytes sent, by path; halved together before they grow large.
    sent: Vec<(PathId, u64)>,
}

/// Shares are of what was sent of late.
const MEMORY: u64 = 1 << 24;

impl Weighted {
    pub(super) const NAME: &'static str = "weighted";

    fn sent(&self, id: PathId) -> u64 {
        let found = self.sent.iter().find(|(path, _)| *path == id);
        found.map_or(0, |(_, bytes)| *bytes)
    }
}

impl Scheduler for Weighted {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(&mut self, view: &SchedulerView<'_>) -> Option<Choice> {
        let served = |path: &&super::PathView| {
            let rate = path.rate.bits_per_second().max(1);
            u128::from(self.sent(path.id)) * 1_000_000_000 / u128::from(rate)
        };
        let path = ready(view).min_by_key(served)?;
        Some(Choice {
            path: path.id,
            bytes: path.datagram,
            ahead: 0,
        })
    }

    fn on_sent(&mut self, path: PathId, bytes: u64) {
        match self.sent.iter_mut().find(|(id, _)| *id == path) {
            Some((_, sent)) => *sent += bytes,
            None => self.sent.push((path, bytes)),
        }
        if self.sent.iter().any(|(_, sent)| *sent > MEMORY) {
            for (_, sent) in &mut self.sent {
                *sent /= 2;
            }
            // Paths that are gone.
            self.sent.retain(|(_, sent)| *sent > 0);
        }
    }
}
