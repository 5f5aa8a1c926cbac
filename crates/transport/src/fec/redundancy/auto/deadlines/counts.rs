//! How many repair symbols leave at the last moment.
//!
//! Owns: what packets whose fate is open call for: such that nothing tells of before, those whose acknowledgement is
//! overdue, and retransmissions.
//! Does not own: which these are, and when (`mod.rs`); what a message in time is worth (`price.rs`); the chances (`model.rs`).

use super::{Due, aim};
use crate::fec::redundancy::{
    RedundancyView, Repairs,
    auto::model::{Chain, MOST, Odds},
};

/// How many times fewer messages come late than is counted where repair symbols leave blindly: those for the next deadline
/// cover what is still open (`tautline lab run fec-messages`).
const OVERLAP: f64 = 1.6;
/// The same over several paths for those that are told of, where losses are single; where they come in runs repair symbols
/// fall together.
const TOLD_OF_SEVERAL: f64 = 1.25;
/// The chance that what is not told of when it should be is merely late, at least: acknowledgements are lost as packets are.
const STRAY: f64 = 1.0 / 256.0;
/// Repair symbols beyond the packets of a piece, at most.
const SPARE: u16 = 3;

/// Shares of messages that come late, with 0 to [`MOST`] repair symbols.
type Late = [f64; MOST + 1];

/// The repair symbols that `due` calls for, and how many messages are expected to be late nevertheless. Over one path each of those for
/// what is told of is to keep `price` messages or more from being late; over several each message has the same chance, and none are
/// expected. No source symbol below `open` is open.
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
    // Blindly the window ends with the newest packet, so it covers what left since besides, unless that will be told.
    let end = if due.blind && !due.alone {
        view.sources
    } else {
        due.ids.end
    };
    let (packets, behind) = (end.saturating_sub(first), view.sources.saturating_sub(end));
    let spare = packets.saturating_add(SPARE.into());
    let (count, late) = if due.blind && (!due.alone || view.several) {
        let count = enough(&odds.late(packets, due.messages), 0, |count| {
            let shared = count > 0 && view.paths <= 1;
            aim(view) * if shared { OVERLAP } else { 1.0 }
        });
        (u64::from(count).min(packets), 0.0)
    } else if view.several {
        let late = told_of_several(view, due, packets, behind, odds);
        let aim = TOLD_OF_SEVERAL * odds.chain.q * aim(view);
        (u64::from(enough(&late, 1, |_| aim)).min(spare), 0.0)
    } else {
        let (late, least) = if due.blind {
            let messages = due.messages as f64;
            let late = odds.late(packets, due.messages);
            (late.map(|late| late * messages), 0)
        } else if due.before > 0 {
            (of_retransmissions(due, packets, 1.0, behind, odds), 1)
        } else {
            (of_overdue(due, behind, odds), 1)
        };
        let count = worth(&late, least, price);
        let expected = late.get(usize::from(count)).copied();
        (u64::from(count).min(spare), expected.unwrap_or(0.0))
    };
    let counted = |packets: u64| u16::try_from(packets).unwrap_or(u16::MAX);
    let repairs = Repairs {
        count: counted(count),
        window: counted(view.sources.saturating_sub(first + behind)),
        behind: counted(behind),
    };
    (repairs, late)
}

/// The fewest repair symbols, `least` or more, that leave no more late than `aim` allows; [`MOST`] if none do.
fn enough(late: &Late, least: u16, aim: impl Fn(u16) -> f64) -> u16 {
    let mut counts = (0..).zip(late).skip(least.into());
    let enough = counts.find(|(count, late)| **late <= aim(*count));
    enough.map_or(MOST as u16, |(count, _)| count)
}

/// The repair symbols, `least` or more, that are worth most: each is worth as much as `price` messages in time. None if none help.
fn worth(late: &Late, least: u16, price: f64) -> u16 {
    let [without, .., with_most] = late;
    if *with_most > without - price {
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

/// Of all messages, not of those that have lost something: which packets are lost is not told there, slower paths tell later.
fn told_of_several(
    view: &RedundancyView,
    due: &Due,
    packets: u64,
    behind: u64,
    odds: Odds,
) -> Late {
    if due.before > 0 {
        let lost = lost(due, packets, odds);
        return of_retransmissions(due, packets, lost, behind, odds);
    }
    let open = view.in_flight.saturating_sub(behind).clamp(1, packets);
    let (late, _) = by_losses(0, open, lost(due, open, odds), 1.0, behind, odds);
    late
}

/// Nothing is known of retransmissions, of so many `lost` packets: one may be lost like what it repeats, or several, each for itself.
fn of_retransmissions(due: &Due, packets: u64, lost: f64, behind: u64, odds: Odds) -> Late {
    let again = lost * again_lost(behind, odds).powf(f64::from(due.before));
    let alike = too_few(1, behind, odds).map(|few| again * few);
    let apart = odds.late(packets, 1).map(|late| lost.min(1.0) * late);
    with(alike, apart, f64::max)
}

/// Some are lost, and of others an acknowledgement is overdue: all of those may be lost, or only some, and the acknowledgement of the
/// others is late.
fn of_overdue(due: &Due, behind: u64, odds: Odds) -> Late {
    let overdue = due.open.saturating_sub(due.lost);
    if overdue == 0 {
        return too_few(due.lost, behind, odds);
    }
    let lost = lost(due, due.open, odds);
    let stray = odds.chain.rate().max(STRAY);
    let (late, all) = by_losses(due.lost, overdue, lost, stray, behind, odds);
    late.map(|late| late / all)
}

/// Beside `known` losses none to all of `open` packets are lost, in a run or each for itself, of a message that loses so many `lost` on
/// average; that others are open has the chance `stray`. The second: how likely all of that is together.
fn by_losses(known: u64, open: u64, lost: f64, stray: f64, behind: u64, odds: Odds) -> (Late, f64) {
    let open = open.min(MOST as u64);
    let (mut apart, mut in_run) = (1.0, 1.0);
    let mut all = 0.0;
    let mut late = [0.0; MOST + 1];
    for losses in 0..=open {
        let others = if losses < open { stray } else { 1.0 };
        let chance = f64::max(apart, in_run) * others;
        all += chance;
        if known + losses > 0 {
            let few = too_few(known + losses, behind, odds);
            late = with(late, few, |late, few| late + chance * few);
        }
        apart *= lost / (losses + 1) as f64;
        in_run *= if losses == 0 {
            lost
        } else {
            1.0 - odds.chain.q
        };
    }
    (late, all)
}

fn with(mut one: Late, other: Late, of: impl Fn(f64, f64) -> f64) -> Late {
    for (one, other) in one.iter_mut().zip(other) {
        *one = of(*one, other);
    }
    one
}
