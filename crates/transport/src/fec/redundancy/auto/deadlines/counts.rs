//! How many repair symbols leave at the last moment.
//!
//! Owns: what packets whose fate is open call for: such that nothing tells of before, those whose acknowledgement is
//! overdue, and retransmissions.
//! Does not own: which these are, and when (`mod.rs`); the chances (`model.rs`).

use super::{Due, aim};
use crate::fec::redundancy::{
    RedundancyView, Repairs,
    auto::model::{Chain, MOST, Odds},
};

/// How many times fewer messages come late than is counted where repair symbols leave blindly: those for the next deadline
/// cover what is still open (`tautline lab run fec-messages`).
const OVERLAP: f64 = 1.6;
/// The chance that what is not told of when it should be is merely late, at least: acknowledgements are lost as packets are.
const STRAY: f64 = 1.0 / 256.0;
/// Repair symbols beyond the packets of a piece, at most.
const SPARE: u16 = 3;

/// Shares of messages that come late, with 0 to [`MOST`] repair symbols.
type Late = [f64; MOST + 1];

/// The repair symbols that `due` calls for, each of which is to keep `price` messages or more from being late, and how many messages
/// are late nevertheless. No source symbol below `open` is open.
pub(super) fn called_for(
    view: &RedundancyView,
    due: &Due,
    open: u64,
    odds: Odds,
    price: f64,
) -> (Repairs, f64) {
    let first = due.ids.start.max(open);
    if first >= due.ids.end {
        return (Repairs::NONE, 0.0);
    }
    let behind = view.sources.saturating_sub(due.ids.end);
    let (count, late, behind) = if due.blind && !due.alone {
        // The window ends with the newest packet, so it covers what left since besides.
        let packets = view.sources.saturating_sub(first);
        let aim = |count| {
            if count > 0 && view.paths <= 1 {
                OVERLAP * aim(view)
            } else {
                aim(view)
            }
        };
        let late = odds.late(packets, due.messages);
        let count = u64::from(enough(&late, aim)).min(packets);
        (count, 0.0, 0)
    } else {
        let packets = due.ids.end - first;
        let (late, least) = if due.blind {
            let messages = due.messages as f64;
            (
                odds.late(packets, due.messages).map(|late| late * messages),
                0,
            )
        } else if due.before > 0 {
            (of_retransmissions(due, packets, behind, odds), 1)
        } else {
            (of_overdue(due, behind, odds), 1)
        };
        let count = worth(&late, least, price);
        let expected = late.get(usize::from(count)).copied().unwrap_or(0.0);
        let count = u64::from(count).min(packets.saturating_add(SPARE.into()));
        (count, expected, behind)
    };
    let counted = |packets: u64| u16::try_from(packets).unwrap_or(u16::MAX);
    let repairs = Repairs {
        count: counted(count),
        window: counted(view.sources.saturating_sub(first + behind)),
        behind: counted(behind),
    };
    (repairs, late)
}

/// The fewest repair symbols that leave no more late than `aim` allows; [`MOST`] if none do.
fn enough(late: &Late, aim: impl Fn(u16) -> f64) -> u16 {
    let mut counts = (0..).zip(late);
    let enough = counts.find(|(count, late)| **late <= aim(*count));
    enough.map_or(MOST as u16, |(count, _)| count)
}

/// The repair symbols, `least` or more, that are worth most: each is worth as much as `price` messages in time. None if none help.
fn worth(late: &Late, least: u16, price: f64) -> u16 {
    if late.last() > late.first().map(|none| none - price).as_ref() {
        return 0;
    }
    let loss = |(count, late): &(u16, &f64)| f64::from(*count) * price + **late;
    let counts = (0..).zip(late).skip(least.into());
    let best = counts.min_by(|one, other| loss(one).total_cmp(&loss(other)));
    best.map_or(least, |(count, _)| count)
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
    let again = again_lost(behind, odds).powf(f64::from(due.before));
    let alike = too_few(1, behind, odds).map(|few| again * few);
    with(alike, odds.late(packets, 1), f64::max)
}

/// Some are lost, and of others an acknowledgement is overdue: all of those may be lost, in a run or each for itself, or only some, and
/// the acknowledgement of the others is late.
fn of_overdue(due: &Due, behind: u64, odds: Odds) -> Late {
    let overdue = due.open.saturating_sub(due.lost).min(MOST as u64);
    if overdue == 0 {
        return too_few(due.lost, behind, odds);
    }
    let lost = lost(due, due.open, odds);
    let stray = odds.chain.rate().max(STRAY);
    let (mut apart, mut in_run) = (1.0, 1.0);
    let mut all = 0.0;
    let mut late = [0.0; MOST + 1];
    for losses in 0..=overdue {
        let others = if losses < overdue { stray } else { 1.0 };
        let chance = f64::max(apart, in_run) * others;
        all += chance;
        if due.lost + losses > 0 {
            let few = too_few(due.lost + losses, behind, odds);
            late = with(late, few, |late, few| late + chance * few);
        }
        apart *= lost / (losses + 1) as f64;
        in_run *= if losses == 0 {
            lost
        } else {
            1.0 - odds.chain.q
        };
    }
    late.map(|late| late / all)
}

fn with(mut one: Late, other: Late, of: impl Fn(f64, f64) -> f64) -> Late {
    for (one, other) in one.iter_mut().zip(other) {
        *one = of(*one, other);
    }
    one
}
