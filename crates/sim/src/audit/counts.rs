//! Counters of a direction, against sums over its log.
//!
//! Owns: [`check`]. Does not own: whether the records themselves are possible.

use std::{collections::BTreeMap, time::Duration};

use tautline_transport::time::Instant;

use super::{Blame, Way};
use crate::{DropCause, Outcome, PacketRecord, Stage};

pub(super) fn check(way: &Way<'_>, blame: &mut Blame<'_>) {
    let stats = &way.stats;
    let mut sums = Sums::default();
    for (_, record) in &way.records {
        sums.add(record, way.now);
    }
    let mut same = |what: &str, logged: u128, counted: u128| {
        if logged != counted {
            blame.link(format!("{logged} {what} in the log, {counted} counted"));
        }
    };
    same("packets", sums.offered.into(), stats.sent_packets.into());
    same("bytes", sums.offered_bytes.into(), stats.sent_bytes.into());
    same("copies", sums.copies.into(), stats.duplicated.into());
    same("changed", sums.corrupted.into(), stats.corrupted.into());
    let drops = &stats.dropped;
    for (what, cause, counted) in [
        ("dropped by the queue", DropCause::Queue, drops.queue),
        ("lost", DropCause::Loss, drops.loss),
        ("dropped by the MTU", DropCause::Mtu, drops.mtu),
        ("swallowed", DropCause::Outage, drops.outage),
        ("dropped by rules", DropCause::Rule, drops.rule),
        ("given up", DropCause::Aqm, drops.aqm),
    ] {
        let logged = sums.dropped.get(&(cause as u8)).copied();
        same(what, logged.unwrap_or(0).into(), counted.into());
    }
    same("served", sums.served.into(), stats.served_packets.into());
    let waited = stats.sojourn.as_nanos();
    same("ns of waiting and sending", sums.sojourn.as_nanos(), waited);
    // Another kind of queue takes over what is known of the one before, not what is still to come.
    let kinds = way.eras.windows(2).all(|pair| match pair {
        [a, b] => a.config.aqm == b.config.aqm,
        _ => true,
    });
    if kinds {
        same("ns of sending", sums.busy.as_nanos(), stats.busy.as_nanos());
    }
    // Whether those that arrive at this very moment are counted already depends on who looks.
    let (past, all) = (sums.arrived, sums.arrived + sums.arriving);
    if !(past..=all).contains(&stats.delivered_packets) {
        let counted = stats.delivered_packets;
        blame.link(format!("{past} arrivals in the log, {counted} counted"));
    }
    let (past, all) = (sums.arrived_bytes, sums.arrived_bytes + sums.arriving_bytes);
    if !(past..=all).contains(&stats.delivered_bytes) {
        let counted = stats.delivered_bytes;
        blame.link(format!(
            "{past} bytes arrived in the log, {counted} counted"
        ));
    }
}

#[derive(Default)]
struct Sums {
    offered: u64,
    offered_bytes: u64,
    copies: u64,
    corrupted: u64,
    dropped: BTreeMap<u8, u64>,
    served: u64,
    sojourn: Duration,
    busy: Duration,
    arrived: u64,
    arrived_bytes: u64,
    arriving: u64,
    arriving_bytes: u64,
    /// When packets of a managed queue came to it.
    since: BTreeMap<u64, Instant>,
}

impl Sums {
    fn add(&mut self, record: &PacketRecord, now: Instant) {
        let bytes = u64::from(record.ip_bytes);
        if record.stage == Stage::Offered {
            self.offered += 1;
            self.offered_bytes += bytes;
        }
        self.copies += u64::from(record.copies);
        self.corrupted += u64::from(record.corrupted);
        let came = match record.stage {
            Stage::Offered => record.time,
            Stage::Dequeued => self.since.remove(&record.index).unwrap_or(record.time),
        };
        if let Some(service) = record.service {
            self.served += 1;
            self.sojourn += service.departure.saturating_since(came);
            let (start, departure) = (service.start.min(now), service.departure.min(now));
            self.busy += departure.saturating_since(start);
        }
        match record.outcome {
            Outcome::Queued => {
                self.since.insert(record.index, record.time);
            }
            Outcome::Dropped(cause) => *self.dropped.entry(cause as u8).or_default() += 1,
            Outcome::Arrives(at) => {
                let copies = 1 + u64::from(record.copies);
                if at < now {
                    self.arrived += copies;
                    self.arrived_bytes += copies * bytes;
                } else if at == now {
                    self.arriving += copies;
                    self.arriving_bytes += copies * bytes;
                }
            }
        }
    }
}
