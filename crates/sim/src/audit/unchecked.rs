//! What an audit cannot prove right or wrong, by name.
//!
//! Owns: [`of`]. A configuration's key that makes something up by chance stands here unless a check
//! covers all that it does.

use super::Way;
use crate::{Aqm, DirectionConfig, JitterOrder};

/// What of a direction was not checked, each thing once. `gave_up`: of some packet it could not be told
/// when it was to begin.
pub(super) fn of(way: &Way<'_>, gave_up: bool) -> Vec<&'static str> {
    let mut what = Vec::new();
    if way.records.is_empty() {
        return what;
    }
    let mut note = |thing: &'static str| {
        if !what.contains(&thing) {
            what.push(thing);
        }
    };
    for era in &way.eras {
        by_time(era.config, &mut note);
        by_index(era.config, &mut note);
    }
    if gave_up {
        note("when packets begin that outages and hand-overs hold again and again");
    }
    if way.records.iter().any(|(_, record)| record.ruled) {
        note("what rules did to packets");
    }
    what
}

fn by_time(c: &DirectionConfig, note: &mut impl FnMut(&'static str)) {
    if c.silences.is_some() {
        note("silences: when they are, and that packets are not held back without one");
    }
    if c.grants.is_some() {
        note(
            "grants: how long requests take beyond the least, and what standing capacity lets pass",
        );
    }
    for gaps in &c.gaps {
        note("gaps: when they are, and which packets they lose");
        if !gaps.hold.is_zero() {
            note("gaps: how much of `hold` a packet waits");
        }
    }
    if let Some(handover) = &c.handover {
        if !handover.loss_duration.is_zero() && handover.loss_probability < 1.0 {
            note("handover: which packets it loses while it loses some");
        }
        let held = c.gaps.iter().any(|gaps| !gaps.hold.is_zero());
        let mixed = c.jitter.is_some() || c.reordering.is_some() || held;
        if !handover.delay_spread.is_zero() && mixed {
            note("handover: that a slot has one delay, which something else varies too");
        }
    }
    if let Some(coding) = &c.coding
        && (coding.lag_loss > 0.0 || coding.states.iter().any(|s| s.loss > 0.0))
    {
        note("coding: which packets it loses");
    }
    match c.aqm {
        Aqm::None => {}
        Aqm::Codel { .. } => note("aqm: when CoDel drops or marks beyond its target"),
        Aqm::FqCodel { .. } => {
            note("aqm: when FQ-CoDel drops or marks beyond its target, and the flows' shares");
        }
    }
}

fn by_index(c: &DirectionConfig, note: &mut impl FnMut(&'static str)) {
    if !c.loss.is_none() {
        note("loss: which packets it picks");
    }
    if !c.corruption.is_none() {
        note("corruption: which packets it picks");
    }
    if c.duplication > 0.0 {
        note("duplication: which packets it picks");
    }
    if c.reordering.is_some() {
        note("reordering: which packets it picks, and the order of the others");
    }
    if let Some(jitter) = c.jitter {
        note("jitter: where within its spread a packet's delay lies");
        if jitter.order == JitterOrder::Reorder {
            note("jitter: the order of arrivals");
        }
    }
}
