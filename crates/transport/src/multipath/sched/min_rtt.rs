//! `min-rtt` and `backup`: the fastest path that may send; the others only when it is full.

use super::{Choice, PathView, Scheduler, SchedulerView, ready, wanted};

/// The path with the smallest smoothed round-trip time that may send. What TCP's stacks do: the
/// baseline of papers.
#[derive(Debug, Default)]
pub(super) struct MinRtt;

impl MinRtt {
    pub(super) const NAME: &'static str = "min-rtt";
}

impl Scheduler for MinRtt {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(&mut self, view: &SchedulerView<'_>) -> Option<Choice> {
        let path = ready(view).min_by_key(|path| path.smoothed_rtt)?;
        Some(whole(path))
    }
}

/// One path alone: the first of those that work, the others stay in reserve.
#[derive(Debug, Default)]
pub(super) struct Backup;

impl Backup {
    pub(super) const NAME: &'static str = "backup";
}

impl Scheduler for Backup {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(&mut self, view: &SchedulerView<'_>) -> Option<Choice> {
        let path = wanted(view).next()?;
        path.may_send.then(|| whole(path))
    }
}

/// As much as the window takes.
pub(super) fn whole(path: &PathView) -> Choice {
    Choice {
        path: path.id,
        bytes: path.room().max(path.datagram),
        ahead: 0,
    }
}
