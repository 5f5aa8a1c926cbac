//! Replays a run's packet log and checks that no link did what a link cannot do.
//!
//! Owns: [`audit`] and [`Violation`]. It shares no code with the links: rates, delays, queue
//! limits and counts are worked out anew from records and configuration. Does not own: the log
//! (`World::enable_log`), nor a history of configurations: of links that were changed on the way
//! only order and counts are checked. What rules did to packets may look like a violation.

use std::{collections::BTreeMap, fmt, time::Duration};

use tautline_transport::{time::Instant, units::Rate};

use crate::{
    Direction, DirectionConfig, DropCause, JitterOrder, LinkId, Outcome, PacketRecord, QueueSize,
    Stage, World,
};

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

/// The log does not hold every packet, so that nothing can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{omitted} packets are not in the log; enable it from the start and with more room")]
pub struct IncompleteLog {
    /// Packets that it had no room for.
    pub omitted: u64,
}

/// Checks every direction of every link of a world whose log was on from the start.
///
/// What is checked: records in order of time and indices without gaps; every packet that waits in
/// a managed queue leaves it at most once; MTU; drop-tail limits (nobody enters a full queue,
/// nobody is turned away from one with room); the rate, where it is constant; the least delay; order,
/// where nothing may change it; losses only where a model allows them; and that counts of the log
/// and counters of the link agree. Of links that were reconfigured on the way: times, indices,
/// queues left once, and counts.
///
/// # Errors
/// When the log is not complete.
pub fn audit(world: &World) -> Result<Vec<Violation>, IncompleteLog> {
    if world.log_omitted() > 0 {
        return Err(IncompleteLog {
            omitted: world.log_omitted(),
        });
    }
    let mut by_direction: BTreeMap<(LinkId, Direction), Vec<&PacketRecord>> = BTreeMap::new();
    for record in world.log() {
        let key = (record.link, record.direction);
        by_direction.entry(key).or_default().push(record);
    }
    let mut found = Vec::new();
    for link in world.links() {
        let forward = world.direction_config(link, Direction::Forward);
        let backward = world.direction_config(link, Direction::Backward);
        let round_trip = forward.delay.saturating_add(backward.delay);
        for direction in Direction::BOTH {
            let records = by_direction.remove(&(link, direction)).unwrap_or_default();
            let mut check = Check {
                link,
                direction,
                config: world.direction_config(link, direction),
                round_trip,
                changed: world.was_reconfigured(link),
                found: &mut found,
            };
            check.records(&records);
            check.counts(world, &records);
        }
    }
    Ok(found)
}

struct Check<'a> {
    link: LinkId,
    direction: Direction,
    config: &'a DirectionConfig,
    round_trip: Duration,
    /// The configuration is not the one that all packets met.
    changed: bool,
    found: &'a mut Vec<Violation>,
}

/// More of one kind say nothing new.
const MAX_VIOLATIONS: usize = 1000;

impl Check<'_> {
    fn blame(&mut self, index: Option<u64>, what: impl Into<String>) {
        if self.found.len() < MAX_VIOLATIONS {
            self.found.push(Violation {
                link: self.link,
                direction: self.direction,
                index,
                what: what.into(),
            });
        }
    }

    fn records(&mut self, records: &[&PacketRecord]) {
        let mut next_index = 0;
        let mut last_time = Instant::ZERO;
        let mut waiting: BTreeMap<u64, &PacketRecord> = BTreeMap::new();
        let mut sent = Sent::default();
        for record in records {
            let index = Some(record.index);
            if record.time < last_time {
                self.blame(index, "recorded before the one ahead of it");
            }
            last_time = record.time;
            match record.stage {
                Stage::Offered => {
                    if record.index != next_index {
                        self.blame(index, format!("{next_index} was expected"));
                    }
                    next_index = record.index + 1;
                    if !self.changed {
                        self.entry(record);
                    }
                    if record.outcome == Outcome::Queued {
                        waiting.insert(record.index, record);
                    }
                }
                Stage::Dequeued => {
                    if waiting.remove(&record.index).is_none() {
                        self.blame(index, "left a queue that it was not in");
                    }
                    if record.outcome == Outcome::Queued {
                        self.blame(index, "left the queue for the queue");
                    }
                }
            }
            if !self.changed {
                self.fate(record, &mut sent);
            }
        }
    }

    /// MTU and drop-tail.
    fn entry(&mut self, record: &PacketRecord) {
        let index = Some(record.index);
        let too_large = record.ip_bytes > u32::from(self.config.mtu);
        let dropped = |cause| record.outcome == Outcome::Dropped(cause);
        if too_large && !dropped(DropCause::Mtu) && !dropped(DropCause::Rule) {
            self.blame(
                index,
                format!(
                    "{} bytes passed an MTU of {}",
                    record.ip_bytes, self.config.mtu
                ),
            );
        }
        if !too_large && dropped(DropCause::Mtu) {
            self.blame(index, "was within the MTU and dropped for it");
        }
        if let Some(limit) = self.byte_limit() {
            let full = record.queue_bytes + u64::from(record.ip_bytes) > limit;
            if dropped(DropCause::Queue) && !full {
                let waiting = record.queue_bytes;
                self.blame(
                    index,
                    format!("dropped at {waiting} of {limit} bytes of queue"),
                );
            }
            let entered = matches!(record.outcome, Outcome::Arrives(_) | Outcome::Queued);
            if entered && record.queue_bytes > limit {
                self.blame(
                    index,
                    format!(
                        "entered a queue of {} bytes; the limit is {limit}",
                        record.queue_bytes
                    ),
                );
            }
        }
    }

    /// The limit of a drop-tail queue in bytes, where it is one.
    fn byte_limit(&self) -> Option<u64> {
        match self.config.queue {
            QueueSize::Bytes(bytes) => Some(bytes),
            QueueSize::Bdp(factor) => {
                let rate = self.constant_rate()?;
                let bytes = rate.bytes_in(self.round_trip) as f64 * factor;
                Some((bytes as u64).max(3000))
            }
            QueueSize::Unlimited | QueueSize::Packets(_) => None,
        }
    }

    /// The rate, where it never changes.
    fn constant_rate(&self) -> Option<Rate> {
        let c = self.config;
        let varies = c.rate_steps.is_some()
            || c.rate_wander.is_some()
            || c.trace.is_some()
            || c.coding.is_some();
        c.rate.filter(|_| !varies)
    }

    /// The least time on the wire, and whether it is the only one.
    fn least_delay(&self) -> (Duration, bool) {
        let c = self.config;
        let jitter = c.jitter.map_or(Duration::ZERO, |jitter| jitter.spread);
        if c.handover.is_some() {
            return (Duration::ZERO, false);
        }
        let held = c.gaps.iter().any(|gaps| !gaps.hold.is_zero());
        let fixed = c.jitter.is_none() && c.reordering.is_none() && c.silences.is_none() && !held;
        (c.delay.saturating_sub(jitter), fixed)
    }

    /// A packet's own time at the transmitter, to the nanosecond below.
    fn own_time(&self, ip_bytes: u32) -> Duration {
        let rate = self.constant_rate().map_or(0, Rate::bytes_per_second);
        let nanos = (u64::from(ip_bytes) * 1_000_000_000).checked_div(rate);
        Duration::from_nanos(nanos.unwrap_or(0).saturating_sub(1))
    }

    fn may_lose(&self) -> bool {
        let c = self.config;
        !c.loss.is_none() || !c.gaps.is_empty() || c.coding.is_some() || c.handover.is_some()
    }

    fn fate(&mut self, record: &PacketRecord, sent: &mut Sent) {
        let index = Some(record.index);
        match record.outcome {
            Outcome::Dropped(DropCause::Loss) if !self.may_lose() => {
                self.blame(index, "lost on a link that loses nothing");
            }
            Outcome::Arrives(at) => {
                let (wire, fixed) = self.least_delay();
                let least = wire + self.own_time(record.ip_bytes);
                if at < record.time + least {
                    let took = at.saturating_since(record.time);
                    self.blame(index, format!("took {took:?}; the least is {least:?}"));
                }
                if fixed && let Some(rate) = self.constant_rate() {
                    // When its last byte left the transmitter.
                    let left = Instant::ZERO + at.since_origin().saturating_sub(self.config.delay);
                    if !sent.fits(left, record.ip_bytes, rate) {
                        self.blame(index, format!("left sooner than {rate} allows"));
                    }
                }
                let reorders = self
                    .config
                    .jitter
                    .is_some_and(|jitter| jitter.order == JitterOrder::Reorder)
                    || self.config.reordering.is_some()
                    || !self.config.aqm.is_none();
                if !reorders && record.copies == 0 && at < sent.last_arrival {
                    self.blame(index, "overtook the one ahead of it");
                }
                sent.last_arrival = sent.last_arrival.max(at);
            }
            _ => {}
        }
    }

    fn counts(&mut self, world: &World, records: &[&PacketRecord]) {
        let stats = world.link_stats(self.link, self.direction);
        let offered = records.iter().filter(|r| r.stage == Stage::Offered);
        let bytes: u64 = offered.clone().map(|r| u64::from(r.ip_bytes)).sum();
        let offered = offered.count() as u64;
        if (offered, bytes) != (stats.sent_packets, stats.sent_bytes) {
            let counted = (stats.sent_packets, stats.sent_bytes);
            self.blame(
                None,
                format!("{offered} packets of {bytes} bytes in the log, {counted:?} counted"),
            );
        }
        let dropped = records
            .iter()
            .filter(|r| matches!(r.outcome, Outcome::Dropped(_)))
            .count() as u64;
        if dropped != stats.dropped.total() {
            self.blame(
                None,
                format!(
                    "{dropped} drops in the log, {} counted",
                    stats.dropped.total()
                ),
            );
        }
        let copies: u64 = records.iter().map(|r| u64::from(r.copies)).sum();
        if offered + copies < stats.delivered_packets + dropped {
            self.blame(None, "more packets came out than went in");
        }
        let arrived = records
            .iter()
            .filter(|r| matches!(r.outcome, Outcome::Arrives(at) if at <= world.now()))
            .count() as u64;
        // Copies arrive at times of their own.
        if copies == 0 && arrived != stats.delivered_packets {
            self.blame(
                None,
                format!(
                    "{arrived} arrivals in the log, {} counted",
                    stats.delivered_packets
                ),
            );
        }
    }
}

/// What a transmitter of constant rate has sent.
#[derive(Default)]
struct Sent {
    /// When the last packet left.
    last: Option<Instant>,
    last_arrival: Instant,
    /// Nanoseconds by which packets left sooner than whole ones allow, within a busy period.
    early: u64,
}

impl Sent {
    /// Whether a packet whose last byte left at `left` can have followed the last one.
    ///
    /// Times are whole nanoseconds, rounded over a busy period, so that a single gap may be one
    /// nanosecond short; the shortfall of a busy period as a whole stays below two.
    fn fits(&mut self, left: Instant, ip_bytes: u32, rate: Rate) -> bool {
        let per_second = rate.bytes_per_second().max(1);
        let needed = (u64::from(ip_bytes) * 1_000_000_000).div_ceil(per_second);
        let Some(last) = self.last.replace(left) else {
            return true;
        };
        let gap = u64::try_from(left.saturating_since(last).as_nanos()).unwrap_or(u64::MAX);
        if gap >= needed {
            self.early = 0;
            return true;
        }
        let short = needed - gap;
        self.early = self.early.saturating_add(short);
        short <= 1
    }
}

#[cfg(test)]
mod tests {
    use std::{any::Any, net::SocketAddr};

    use super::*;
    use crate::{Datagram, Jitter, LinkConfig, LossModel, Node, links};
    use tautline_transport::units::Ecn;

    /// Sends a packet of varying size now and then.
    struct Source {
        left: u32,
        next: Instant,
        from: SocketAddr,
        to: SocketAddr,
    }

    impl Node for Source {
        fn handle_datagram(&mut self, _: Instant, _: Datagram) {}
        fn handle_timeout(&mut self, _: Instant) {}
        fn poll_timeout(&self) -> Option<Instant> {
            (self.left > 0).then_some(self.next)
        }
        fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
            if now < self.next {
                return None;
            }
            self.left = self.left.checked_sub(1)?;
            if self.left.is_multiple_of(8) {
                self.next = now + Duration::from_micros(u64::from(self.left % 70) * 100);
            }
            Some(Datagram {
                src: self.from,
                dst: self.to,
                ecn: Ecn::Ect0,
                payload: vec![0; 40 + (self.left as usize * 37) % 1400],
            })
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
        fn as_any_mut(&mut self) -> &mut dyn Any {
            self
        }
    }

    fn played(config: LinkConfig) -> World {
        let from: SocketAddr = "10.0.0.1:1".parse().unwrap();
        let to: SocketAddr = "10.0.0.2:2".parse().unwrap();
        let source = |left, from, to| {
            Box::new(Source {
                left,
                next: Instant::ZERO,
                from,
                to,
            })
        };
        let mut world = World::new(3);
        world.enable_log(100_000);
        let a = world.add_host(from, source(5000, from, to));
        let b = world.add_host(to, source(500, to, from));
        world.connect(a, b, config);
        world.run_for(Duration::from_secs(60));
        world
    }

    #[test]
    fn named_links_keep_their_promises() {
        for name in links::names() {
            let world = played(links::by_name(name).unwrap());
            assert_eq!(audit(&world), Ok(Vec::new()), "{name}");
        }
    }

    #[test]
    fn faults_of_all_kinds_are_within_the_rules() {
        let mut config = links::by_name("wifi").unwrap();
        config.forward.loss = LossModel::uniform(0.05);
        config.forward.jitter = Some(Jitter::fifo(Duration::from_millis(3)));
        config.backward.duplication = 0.1;
        config.backward.mtu = 600;
        let world = played(config);
        assert_eq!(audit(&world), Ok(Vec::new()));
    }

    /// The same log judged by other configurations: each lie is found.
    #[test]
    fn what_a_link_cannot_do_is_found() {
        let honest = played(links::by_name("wifi").unwrap());
        let records: Vec<&PacketRecord> = honest
            .log()
            .iter()
            .filter(|record| record.direction == Direction::Forward)
            .collect();
        let link = records[0].link;
        let judged = |change: &dyn Fn(&mut DirectionConfig)| {
            let mut config = honest.direction_config(link, Direction::Forward).clone();
            change(&mut config);
            let mut found = Vec::new();
            let mut check = Check {
                link,
                direction: Direction::Forward,
                config: &config,
                round_trip: Duration::from_millis(25),
                changed: false,
                found: &mut found,
            };
            check.records(&records);
            found
        };
        assert!(judged(&|_| {}).is_empty());
        let slower = Rate::from_bits_per_second(19_000_000);
        assert!(!judged(&|c| c.rate = Some(slower)).is_empty());
        assert!(!judged(&|c| c.delay += Duration::from_micros(1)).is_empty());
        assert!(!judged(&|c| c.mtu = 1000).is_empty());
        assert!(!judged(&|c| c.queue = QueueSize::Bytes(3000)).is_empty());
        let mut gap = records.clone();
        gap.remove(7);
        let config = honest.direction_config(link, Direction::Forward).clone();
        let mut found = Vec::new();
        Check {
            link,
            direction: Direction::Forward,
            config: &config,
            round_trip: Duration::from_millis(25),
            changed: false,
            found: &mut found,
        }
        .records(&gap);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
