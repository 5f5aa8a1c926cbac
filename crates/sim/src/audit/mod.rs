//! Replays a run's packet log and checks that no link did what a link cannot do.
//!
//! Purpose: find mistakes of the links' own code.
//! Owns: [`audit`], [`Violation`], [`Unchecked`]; what is checked of the order of records here, of
//! queues in `queue.rs`, of transmitters in `transmitter.rs` over the curves of `curve.rs`, of wires
//! in `wire.rs`, of counters in `counts.rs`; what is not, in `unchecked.rs`.
//! Does not own: the log (`World::enable_log`), which keeps what configurations were before they
//! were changed.
//! It shares no code with the links: queue limits, rates, service times, delays and counts are
//! worked out anew from records and configuration; where a configuration says that something is
//! drawn, the numbers are looked up in the same table (`draw.rs`), and the law is applied anew.

mod counts;
mod curve;
mod queue;
mod transmitter;
mod unchecked;
mod wire;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, time::Duration};

use tautline_transport::time::Instant;

use crate::{
    Direction, DirectionConfig, DirectionStats, LinkId, Outcome, PacketRecord, Stage, World,
    log::Change,
};

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// What links did and cannot have done; at most 1000.
    pub violations: Vec<Violation>,
    /// What of directions that carried anything could not be checked.
    pub unchecked: Vec<Unchecked>,
}

/// Something that a link of this configuration cannot have done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The link.
    pub link: LinkId,
    /// Its direction.
    pub direction: Direction,
    /// The packet, where one is to blame.
    pub index: Option<u64>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {} {:?}", self.link.index(), self.direction)?;
        if let Some(index) = self.index {
            write!(f, ", packet {index}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// What a direction was configured to do that records cannot prove right or wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unchecked {
    /// The link.
    pub link: LinkId,
    /// Its direction.
    pub direction: Direction,
    /// Each in a few words, with the configuration's key.
    pub what: Vec<&'static str>,
}

impl fmt::Display for Unchecked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.what.join("; ");
        write!(f, "link {} {:?}: {what}", self.link.index(), self.direction)
    }
}

/// The log does not hold every packet, so that nothing can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{omitted} packets are not in the log; enable it from the start and with more room")]
pub struct IncompleteLog {
    /// Packets that it had no room for.
    pub omitted: u64,
}

/// Checks every direction of every link of a world whose log was on from the start.
///
/// Each packet is held against the configuration that was in force when it met it:
/// - records in order of time, indices without gaps, MTU, scripted drops, cuts;
/// - what waits: counted anew in bytes and packets; nobody enters a full queue, nobody is turned
///   away from one with room, in packets, bytes or BDPs, drop-tail or managed; CE marks of
///   `ecn_threshold`; managed queues let each packet go once, CoDel in order and never one that
///   waited less than its target;
/// - the transmitter: one packet at a time, in order, neither sooner nor later than the rate, steps,
///   the drawn rates, coding or the trace's opportunities allow, over each busy period; none begun
///   in an outage that holds or a hand-over's standstill; none kept waiting without a reason;
/// - the wire: arrival between the least and the greatest delay (jitter, hand-overs, gaps that hold
///   and reordering counted), one delay per slot of hand-overs, order where nothing may change it,
///   losses and copies only where something makes them, outages that swallow all;
/// - counters: packets and bytes offered, dropped by cause, delivered, served; waiting and busy times.
///
/// What remains is named in [`Audit::unchecked`].
///
/// # Errors
/// When the log is not complete.
pub fn audit(world: &World) -> Result<Audit, IncompleteLog> {
    if world.log_omitted() > 0 {
        return Err(IncompleteLog {
            omitted: world.log_omitted(),
        });
    }
    let mut by_direction: BTreeMap<(LinkId, Direction), Vec<(usize, &PacketRecord)>> =
        BTreeMap::new();
    for (position, record) in world.log().iter().enumerate() {
        let key = (record.link, record.direction);
        let records = by_direction.entry(key).or_default();
        records.push((position, record));
    }
    let mut report = Audit::default();
    for link in world.links() {
        for direction in Direction::BOTH {
            let way = Way {
                link,
                direction,
                records: by_direction.remove(&(link, direction)).unwrap_or_default(),
                eras: eras(world, link, direction),
                stats: world.link_stats(link, direction),
                now: world.now(),
                seed: world.seed(),
            };
            judge(&way, &mut report);
        }
    }
    Ok(report)
}

/// One direction of a link, and everything that is known about it.
struct Way<'a> {
    link: LinkId,
    direction: Direction,
    /// With their positions in the world's log.
    records: Vec<(usize, &'a PacketRecord)>,
    /// By time; there is always one.
    eras: Vec<Era<'a>>,
    stats: DirectionStats,
    now: Instant,
    seed: u64,
}

/// A time in which a direction was the same.
#[derive(Clone, Copy)]
struct Era<'a> {
    /// Position in the world's log of its first record.
    from: usize,
    /// Whether it began with a configuration, not with a cut or its end.
    configured: bool,
    since: Instant,
    config: &'a DirectionConfig,
    up: bool,
    /// What a queue in bandwidth-delay products counts with.
    round_trip: Duration,
}

impl Era<'_> {
    fn managed(&self) -> bool {
        !self.config.aqm.is_none()
    }
}

/// What a direction was like, one after the other.
fn eras(world: &World, link: LinkId, direction: Direction) -> Vec<Era<'_>> {
    let of = |change: &&Change, way| change.link == link && change.direction == way;
    let changes = || world.log_changes().iter();
    // What held after the first `n` changes: the state before the next one of this way, or today's.
    let after = |n: usize, way| {
        let next = changes().skip(n).find(|change| of(change, way));
        next.map_or_else(
            || (world.direction_config(link, way), world.is_up(link, way)),
            |next| (&next.config, next.up),
        )
    };
    let era = |from, since, configured, n: usize| {
        let (config, up) = after(n, direction);
        let back = after(n, direction.opposite()).0.delay;
        Era {
            from,
            configured,
            since,
            config,
            up,
            round_trip: config.delay.saturating_add(back),
        }
    };
    let own = changes().enumerate().filter(|(_, c)| of(c, direction));
    let mut eras = vec![era(0, Instant::ZERO, true, 0)];
    for (n, change) in own {
        let mut next = era(change.records, change.time, change.configured, n + 1);
        if let Some(before) = eras.last().filter(|_| !change.configured) {
            // Only who is configured looks at the other direction's delay again.
            next.round_trip = before.round_trip;
        }
        eras.push(next);
    }
    eras
}

/// Where violations of one direction go.
struct Blame<'a> {
    link: LinkId,
    direction: Direction,
    found: &'a mut Vec<Violation>,
}

/// More of one kind say nothing new.
const MAX_VIOLATIONS: usize = 1000;

impl Blame<'_> {
    fn packet(&mut self, record: &PacketRecord, what: impl Into<String>) {
        self.add(Some(record.index), what.into());
    }

    fn link(&mut self, what: impl Into<String>) {
        self.add(None, what.into());
    }

    fn add(&mut self, index: Option<u64>, what: String) {
        if self.found.len() < MAX_VIOLATIONS {
            self.found.push(Violation {
                link: self.link,
                direction: self.direction,
                index,
                what,
            });
        }
    }
}

/// Checks one direction.
fn judge(way: &Way<'_>, report: &mut Audit) {
    let Some(mut era) = way.eras.first() else {
        return;
    };
    let mut blame = Blame {
        link: way.link,
        direction: way.direction,
        found: &mut report.violations,
    };
    let mut later = way.eras.iter().skip(1).peekable();
    let mut order = Order::default();
    let mut queue = queue::Queue::new(era);
    let mut transmitter = transmitter::Transmitter::new(way, era);
    let mut wire = wire::Wire::default();
    for &(position, record) in &way.records {
        while let Some(next) = later.next_if(|next| next.from <= position) {
            queue.next_era(era, next, &mut blame);
            transmitter.next_era(way, next);
            wire.next_era();
            era = next;
        }
        order.check(record, &mut blame);
        queue.check(era, record, &transmitter, &mut blame);
        transmitter.check(era, record, queue.busy_since(), &mut blame);
        wire.check(era, record, &mut blame);
    }
    queue.end(era, &mut blame);
    counts::check(way, &mut blame);
    let what = unchecked::of(way, transmitter.gave_up());
    if !what.is_empty() {
        report.unchecked.push(Unchecked {
            link: way.link,
            direction: way.direction,
            what,
        });
    }
}

/// The order of records.
#[derive(Default)]
struct Order {
    next_index: u64,
    last: Instant,
}

impl Order {
    fn check(&mut self, record: &PacketRecord, blame: &mut Blame<'_>) {
        if record.time < self.last {
            blame.packet(record, "recorded before the one ahead of it");
        }
        self.last = record.time;
        if record.stage == Stage::Offered {
            if record.index != self.next_index {
                blame.packet(record, format!("{} was expected", self.next_index));
            }
            self.next_index = record.index + 1;
        } else if record.outcome == Outcome::Queued {
            blame.packet(record, "left the queue for the queue");
        }
    }
}

/// Nanoseconds, saturating.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How far into a repetition of `every` nanoseconds since `start` a moment lies; `None` before it.
fn into(at: Instant, start: u64, every: Option<u64>) -> Option<u64> {
    let since = at.as_nanos().checked_sub(start)?;
    Some(every.map_or(since, |every| since % every.max(1)))
}
