//! What a run's packet log shows.

use tautline_sim::{Direction, DropCause, LinkId, Outcome, PacketRecord, World};
use tautline_transport::time::Instant;

/// What one run showed, or several.
#[derive(Default)]
pub(super) struct Seen {
    /// Of each packet that was answered, in ms.
    pub(super) rtts: Vec<f64>,
    /// Packets lost in a row, and how long nothing came, in us.
    pub(super) events: Vec<(u64, f64)>,
    pub(super) offered: u64,
    pub(super) lost: u64,
    /// Of the packets lost, those that the link's queue did not take.
    pub(super) overflows: u64,
    /// Offered to the link, in Mb/s.
    pub(super) rates: Vec<f64>,
}

/// What an observer at the ends of the link sees. `data`: the direction in which the data goes.
///
/// The RTT of a packet ends when the first packet that was sent back after its arrival arrives. A
/// loss event is a run of packets lost one after the other; it lasts, as in a capture at the
/// receiver, from the arrival of the packet before it to that of the packet after it.
pub(super) fn look(world: &World, link: LinkId, data: Direction) -> Seen {
    let mine = |r: &&PacketRecord| r.link == link;
    let records: Vec<&PacketRecord> = world.log().iter().filter(mine).collect();
    let mut seen = Seen::default();
    let mut back: Vec<(Instant, Instant)> = Vec::new();
    for record in &records {
        if let Outcome::Arrives(at) = record.outcome
            && record.direction != data
        {
            back.push((record.time, at));
        }
    }
    let mut run = 0;
    let mut before = None;
    let mut bytes = 0;
    for record in records.iter().filter(|r| r.direction == data) {
        seen.offered += 1;
        bytes += u64::from(record.ip_bytes);
        let Outcome::Arrives(at) = record.outcome else {
            seen.lost += 1;
            run += 1;
            let full = record.outcome == Outcome::Dropped(DropCause::Queue);
            seen.overflows += u64::from(full);
            continue;
        };
        if run > 0 {
            let from: Instant = before.unwrap_or(record.time);
            let lasted = at.saturating_since(from);
            seen.events.push((run, lasted.as_secs_f64() * 1e6));
            run = 0;
        }
        before = Some(at);
        // What acknowledges it leaves after it came.
        let answer = back.partition_point(|(sent, _)| *sent < at);
        if let Some((_, answered)) = back.get(answer) {
            let rtt = answered.saturating_since(record.time);
            seen.rtts.push(rtt.as_secs_f64() * 1e3);
        }
    }
    seen.rates
        .push(bytes as f64 * 8e-6 / world.now().as_nanos() as f64 * 1e9);
    seen
}

pub(super) fn merge(all: impl Iterator<Item = Seen>) -> Seen {
    let mut sum = Seen::default();
    for seen in all {
        sum.rtts.extend(seen.rtts);
        sum.events.extend(seen.events);
        sum.offered += seen.offered;
        sum.lost += seen.lost;
        sum.overflows += seen.overflows;
        sum.rates.extend(seen.rates);
    }
    sum.rtts.sort_by(f64::total_cmp);
    sum.rates.sort_by(f64::total_cmp);
    sum.events.sort_by(|a, b| a.1.total_cmp(&b.1));
    sum
}

pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let at = (share * last as f64).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

impl Seen {
    /// With one of `every` round trips; they are in order, so their quantiles stay.
    pub(super) fn with_every(mut self, every: usize) -> Self {
        self.rtts = self.rtts.into_iter().step_by(every).collect();
        self
    }

    pub(super) fn rtt(&self, share: f64) -> f64 {
        quantile(&self.rtts, share)
    }

    /// In percent.
    pub(super) fn loss(&self) -> f64 {
        self.lost as f64 / self.offered as f64 * 100.0
    }

    /// In microseconds.
    pub(super) fn event(&self, share: f64) -> f64 {
        let last = self.events.len().saturating_sub(1);
        let at = (share * last as f64).round() as usize;
        self.events
            .get(at)
            .map_or(f64::NAN, |(_, duration)| *duration)
    }

    /// Share of the loss events with more than one packet, in percent.
    pub(super) fn multi(&self) -> f64 {
        let multi = self.events.iter().filter(|(count, _)| *count > 1).count();
        multi as f64 / self.events.len() as f64 * 100.0
    }
}
