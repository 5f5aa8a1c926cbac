//! The order in which what is under way on a path that falls silent leaves for other paths.
//!
//! Owns: [`HandOver`].
//! Does not own: when a path is silent (`recovery/timer.rs`), what other paths have room for
//! (`connection/hand_over.rs`).

use std::{collections::BTreeMap, ops::Range};

use super::Path;
use crate::{
    packet::Token,
    recovery::{LossHandler, Recovery},
    space::{PacketNumberSpace, SentPackets, SpaceKind},
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
///
/// What had been sent before is older than all that, and a run of its own.
#[derive(Clone, Debug)]
pub(crate) struct HandOver {
    runs: [Range<PacketNumber>; RUNS],
    /// Packets whose data others on this path were ahead of, oldest last.
    sent_before: Vec<PacketNumber>,
    /// Whose turn it is.
    turn: usize,
}

impl HandOver {
    /// All that is under way on `path` now.
    pub(crate) fn begin(path: &mut Path) -> Self {
        let sent_before = sent_before(&mut path.space.sent);
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
            sent_before,
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
            for _ in 0..=RUNS {
                let turn = self.turn;
                self.turn = (turn + 1) % (RUNS + 1);
                if let Some(run) = self.runs.get_mut(turn) {
                    if !run.is_empty() {
                        run.start = recovery.hand_over(space, run.clone(), 1, handler);
                        break;
                    }
                } else if let Some(number) = self.sent_before.pop() {
                    recovery.hand_over(space, number..number + 1, 1, handler);
                    break;
                }
            }
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.sent_before.is_empty() && self.runs.iter().all(Range::is_empty)
    }
}

/// Packets under way with data of a stream of which packets before them have later data, newest first.
fn sent_before(sent: &mut SentPackets) -> Vec<PacketNumber> {
    let mut reached = BTreeMap::new();
    let mut found = Vec::new();
    for (number, _, carried) in sent.outstanding_mut(0) {
        let mut before = false;
        for token in carried {
            if let Token::Stream { id, offset, .. } = token {
                let reached = reached.entry(id).or_insert(offset);
                before |= offset < *reached;
                *reached = offset.max(*reached);
            }
        }
        if before {
            found.push(number);
        }
    }
    found.reverse();
    found
}
