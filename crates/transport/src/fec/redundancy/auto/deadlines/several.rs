//! How many repair symbols leave at the last moment over several paths: so many that each message has the same chance.
//!
//! Owns: what packets whose fate is open call for there: which they are is not told, since slower paths tell later.
//! Does not own: the same over one path (`counts.rs`), when (`mod.rs`); the chances (`model.rs`).

use super::{Due, aim};
use crate::fec::redundancy::{
    RedundancyView, Repairs,
    auto::model::{Chain, MOST, Odds},
};

/// How many times fewer messages come late than is counted where repair symbols leave blindly: those for the next deadline
/// cover what is still open (`tautline lab run fec-messages`).
const OVERLAP: f64 = 1.6;
/// The same for those that are told of, where losses are single; where they come in runs repair symbols fall together.
const TOLD: f64 = 1.25;
/// Repair symbols beyond the packets of a piece, at most.
const SPARE: u16 = 3;

/// Shares of messages that come late, with 0 to [`MOST`] repair symbols.
type Late = [f64; MOST + 1];

/// The repair symbols that `due` calls for. No source symbol below `open` is open.
pub(super) fn called_for(view: &RedundancyView, due: &Due, open: u64, odds: Odds) -> Repairs {
    let first = due.ids.start.max(open);
    if first >= due.ids.end {
        return Repairs::NONE;
    }
    let behind = view.sources.saturating_sub(due.ids.end);
    let (count, behind) = if due.blind {
        // The window ends with the newest packet, so it covers what left since besides, unless that will be told.
        let behind = if due.alone { behind } else { 0 };
        let packets = view.sources.saturating_sub(first + behind);
        let aim = |count| {
            if count > 0 && view.paths <= 1 {
                OVERLAP * aim(view)
            } else {
                aim(view)
            }
        };
        let count = enough(&odds.late(packets, due.messages), 0, aim);
        (u64::from(count).min(packets), behind)
    } else {
        let packets = due.ids.end - first;
        let late = if due.before > 0 {
            of_retransmissions(due, packets, behind, odds)
        } else {
            let open = view.in_flight.saturating_sub(behind).clamp(1, packets);
            of_overdue(due, open, behind, odds)
        };
        let count = enough(&late, 1, |_| TOLD * odds.chain.q * aim(view));
        (
            u64::from(count).min(packets.saturating_add(SPARE.into())),
            behind,
        )
    };
    let counted = |packets: u64| u16::try_from(packets).unwrap_or(u16::MAX);
    Repairs {
        count: counted(count),
        window: counted(view.sources.saturating_sub(first + behind)),
        behind: counted(behind),
    }
}

/// The fewest repair symbols, `least` or more, that leave no more late than `aim` allows; [`MOST`] if none do.
fn enough(late: &Late, least: u16, aim: impl Fn(u16) -> f64) -> u16 {
    let counts = (0..).zip(late).skip(least.into());
    let enough = counts
        .into_iter()
        .find(|(count, late)| **late <= aim(*count));
    enough.map_or(MOST as u16, |(count, _)| count)
}

/// Packets of the message that are lost, on average.
fn lost(due: &Due, packets: u64, odds: Odds) -> f64 {
    odds.chain.rate() * due.of_message.max(packets) as f64
}

/// The chance that a packet is lost that leaves now, if the last of `due` was. A chain of losses goes on with packets, not
/// with time: little may have left since.
fn again_lost(behind: u64, odds: Odds) -> f64 {
    odds.chain.after_loss(behind + 1)
}

/// The first repair symbol, and what others follow it.
fn too_few(losses: u64, behind: u64, odds: Odds) -> Late {
    let first_lost = odds.elsewhere.map_or(again_lost(behind, odds), Chain::rate);
    odds.too_few(losses, first_lost)
}

/// Nothing is known of retransmissions: one may be lost like what it repeats, or several, each for itself.
fn of_retransmissions(due: &Due, packets: u64, behind: u64, odds: Odds) -> Late {
    let lost = lost(due, packets, odds);
    let again = lost * again_lost(behind, odds).powf(f64::from(due.before));
    let alike = too_few(1, behind, odds).map(|few| again * few);
    let apart = odds.late(packets, 1).map(|late| lost.min(1.0) * late);
    with(alike, apart, f64::max)
}

/// Of `open` packets an acknowledgement is overdue, and others of the message have arrived: one of them may be lost, or
/// several, in a run or each for itself.
fn of_overdue(due: &Due, open: u64, behind: u64, odds: Odds) -> Late {
    let lost = lost(due, open, odds);
    let (mut apart, mut in_run) = (lost, lost);
    let mut late = [0.0; MOST + 1];
    for losses in 1..=open.min(MOST as u64) {
        let chance = apart.max(in_run);
        let few = too_few(losses, behind, odds);
        late = with(late, few, |late, few| late + chance * few);
        apart *= lost / (losses + 1) as f64;
        in_run *= 1.0 - odds.chain.q;
    }
    late
}

fn with(mut one: Late, other: Late, of: impl Fn(f64, f64) -> f64) -> Late {
    for (one, other) in one.iter_mut().zip(other) {
        *one = of(*one, other);
    }
    one
}
