//! The order in which what is under way on a path that falls silent leaves for other paths.
//!
//! Owns: [`HandOver`].
//! Does not own: when a path is silent (`recovery/timer.rs`), what other paths have room for
//! (`connection/hand_over.rs`).

use std::ops::Range;

use super::Path;
use crate::{
    recovery::{LossHandler, Recovery},
    space::{PacketNumberSpace, SpaceKind},
    units::PacketNumber,
};

/// Where the first lost packet may be.
const RUNS: usize = 3;

/// Packets under way on a silent path that no other path repeats yet: runs, which take turns. Each begins where the
/// first lost packet may be, which holds up what follows; were all repeated in order, what needs no repeating would
/// hold it up, too. From the newest acknowledged packet on, that is:
///
/// - at once, where only the way there died;
/// - as much later as a packet is on its way without a queue, where the way back died with it, and a queue: what was
///   on its way has arrived, and nothing says so any more;
/// - as it is with the queue, where what was in that arrived as well.
#[derive(Clone, Debug)]
pub(crate) struct HandOver {
    runs: [Range<PacketNumber>; RUNS],
    /// Whose turn it is.
    turn: usize,
}

impl HandOver {
    /// All that is under way on `path` now.
    pub(crate) fn begin(path: &Path) -> Self {
        let sent = &path.space.sent;
        let rtt = path.recovery.rtt();
        let way = rtt.min() / 2;
        // A little early: what is repeated in vain before the first that is lost costs less than all between.
        let with_queue = rtt.recent().saturating_sub(way + rtt.variance()).max(way);
        let end = sent.end();
        let known = path.recovery.newest_acked_sent(SpaceKind::Data);
        let after = |way| known.map_or(0, |known| sent.first_after(known + way).min(end));
        let (second, third) = (after(way), after(with_queue));
        Self {
            runs: [0..second, second..third, third..end],
            turn: 0,
        }
    }

    /// Reports the next packets as lost, so many and one at least, of the runs in turns.
    pub(crate) fn go_on(
        &mut self,
        recovery: &Recovery,
        space: &mut PacketNumberSpace,
        packets: u64,
        handler: &mut impl LossHandler,
    ) {
        for _ in 0..packets.max(1) {
            // The turn of a run that is empty is the next one's.
            for _ in 0..self.runs.len() {
                let run = self.runs.get_mut(self.turn);
                self.turn = (self.turn + 1) % RUNS;
                if let Some(run) = run.filter(|run| !run.is_empty()) {
                    run.start = recovery.hand_over(space, run.clone(), 1, handler);
                    break;
                }
            }
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.runs.iter().all(Range::is_empty)
    }
}
