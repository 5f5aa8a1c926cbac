//! The transmitter: when each packet was sent, against what could be.
//!
//! Owns: [`Transmitter`]: one packet at a time, at the rate, begun no sooner and no later than
//! possible. Does not own: the rate itself (`curve.rs`), which packet it takes (`queue.rs`).

use std::time::Duration;

use tautline_transport::time::Instant;

use super::{
    Blame, Era, Way,
    curve::{Curve, Opportunities, fastest},
    into, nanos,
};
use crate::{
    DirectionConfig, DropCause, Handover, Outage, OutageMode, Outcome, PacketRecord, Service,
    Spread, Stage, draw::Draws,
};

pub(super) struct Transmitter<'a> {
    config: &'a DirectionConfig,
    pace: Pace<'a>,
    /// When the last byte of the last packet left.
    last: Option<Instant>,
    /// What the last nanosecond of this busy period still has room for: bytes times 1e9.
    spare: u128,
    /// When a packet first asked for capacity since the last one was sent.
    asked: Option<Instant>,
    /// Whether it could not be told when some packet was to begin.
    gave_up: bool,
}

enum Pace<'a> {
    Endless,
    Curve(Curve<'a>),
    Trace(Opportunities),
}

impl<'a> Pace<'a> {
    fn of(way: &Way<'_>, config: &'a DirectionConfig) -> Self {
        let draws = Draws::new(way.seed, way.link.index() as u64, way.direction as u64);
        match (Opportunities::of(config), Curve::of(config, draws)) {
            (Some(trace), _) => Self::Trace(trace),
            (None, Some(curve)) => Self::Curve(curve),
            (None, None) => Self::Endless,
        }
    }
}

/// Rounds of looking for a moment at which nothing holds a packet back. The links give up after
/// more; what they do then is not judged.
const ROUNDS: u32 = 32;

impl<'a> Transmitter<'a> {
    pub(super) fn new(way: &Way<'_>, era: &Era<'a>) -> Self {
        Self {
            config: era.config,
            pace: Pace::of(way, era.config),
            last: None,
            spare: 0,
            asked: None,
            gave_up: false,
        }
    }

    /// Whether it could not be told when some packet was to begin.
    pub(super) fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// What is sent stays sent; a busy period, a trace and a grant begin anew with a configuration.
    pub(super) fn next_era(&mut self, way: &Way<'_>, era: &Era<'a>) {
        if !era.configured {
            return;
        }
        self.config = era.config;
        self.pace = Pace::of(way, era.config);
        self.spare = 0;
        self.asked = None;
    }

    /// Whether a packet that comes now is certainly sent at once.
    pub(super) fn free_at(&self, now: Instant) -> bool {
        let c = self.config;
        let may_hold = c.silences.is_some() || c.grants.is_some() || c.trace.is_some();
        !may_hold && self.last.is_none_or(|last| last <= now) && held_until(c, now).is_none()
    }

    /// `busy_since`: since when a managed queue has had something to send.
    pub(super) fn check(
        &mut self,
        era: &Era<'_>,
        record: &PacketRecord,
        busy_since: Instant,
        blame: &mut Blame<'_>,
    ) {
        let refused = matches!(
            record.outcome,
            Outcome::Dropped(DropCause::Mtu | DropCause::Rule)
        );
        if record.stage == Stage::Offered && !refused && era.up {
            self.asked.get_or_insert(record.time);
        }
        let Some(service) = record.service else {
            return;
        };
        let (start, departure) = (service.start, service.departure);
        let last = self.last.unwrap_or(Instant::ZERO);
        if start < record.time || departure < start {
            blame.packet(record, "was sent before it was there");
        }
        if start < last {
            blame.packet(record, "was sent while the one ahead of it was");
        }
        if era.managed() && start != record.time {
            blame.packet(record, "left the queue at another time than it was sent");
        }
        let ready = if era.managed() {
            busy_since.max(era.since)
        } else {
            record.time
        };
        self.begins(record, start, ready.max(last), blame);
        self.asks(record, start, blame);
        // A drop-tail transmitter that ends as a packet comes begins a busy period with it.
        let goes_on = self.last == Some(start) && (era.managed() || start > record.time);
        self.takes(record, goes_on, blame);
        self.last = Some(last.max(departure));
        self.asked = None;
    }

    /// That a packet which could start at `ready` starts as soon as nothing holds it back.
    fn begins(
        &mut self,
        record: &PacketRecord,
        start: Instant,
        ready: Instant,
        blame: &mut Blame<'_>,
    ) {
        let c = self.config;
        let mut least = ready;
        let mut settled = false;
        for _ in 0..ROUNDS {
            let before = least;
            if let Some(end) = held_until(c, least) {
                least = end;
            }
            if let Pace::Trace(trace) = &mut self.pace {
                least = trace.seek(least);
            }
            settled = least == before;
            if settled {
                break;
            }
        }
        if !settled {
            self.gave_up = true;
            if let Pace::Trace(trace) = &mut self.pace {
                trace.seek(start);
            }
            return;
        }
        let late = c.silences.is_some() || c.grants.is_some();
        if start < least || (start > least && !late) {
            let (is, could) = (start.since_origin(), least.since_origin());
            blame.packet(
                record,
                format!("began to be sent at {is:?}; could at {could:?}"),
            );
        } else if late && c.trace.is_none() && held_until(c, start).is_some() {
            blame.packet(record, "began to be sent while the transmitter was held");
        }
        if let Pace::Trace(trace) = &mut self.pace
            && trace.seek(start) != start
        {
            blame.packet(record, "began to be sent between two opportunities");
        }
    }

    /// What grants promise: frames, and the least time of a request after idleness.
    fn asks(&self, record: &PacketRecord, start: Instant, blame: &mut Blame<'_>) {
        let c = self.config;
        let Some(grants) = &c.grants else {
            return;
        };
        let moved = c.silences.is_some() || c.trace.is_some() || held_at_all(c);
        let frame = nanos(grants.frame);
        if !moved
            && frame > 0
            && self.last != Some(start)
            && !start.as_nanos().is_multiple_of(frame)
        {
            blame.packet(record, "began to be sent within a frame");
        }
        let asked = self.asked.unwrap_or(record.time);
        let asked = asked.max(self.last.unwrap_or(Instant::ZERO));
        let idle = self
            .last
            .is_some_and(|last| asked.saturating_since(last) > grants.idle_after);
        let least = shortest(&grants.request_delay);
        if idle && grants.standing == 0 && start < asked + least {
            blame.packet(
                record,
                format!("began to be sent within {least:?} of its request"),
            );
        }
    }

    /// That the packet took as long as its bytes do. `goes_on`: within a busy period.
    fn takes(&mut self, record: &PacketRecord, goes_on: bool, blame: &mut Blame<'_>) {
        let Some(Service { start, departure }) = record.service else {
            return;
        };
        let stretched = self.config.silences.is_some();
        let took = departure.saturating_since(start);
        match &mut self.pace {
            Pace::Endless if departure != start => {
                blame.packet(record, format!("took {took:?} at no rate"));
            }
            Pace::Endless => {}
            Pace::Trace(trace) => {
                let end = trace.take(record.ip_bytes);
                if departure < end || (departure > end && !stretched) {
                    let (is, could) = (departure.since_origin(), end.since_origin());
                    blame.packet(
                        record,
                        format!("left at {is:?}; its last opportunity was at {could:?}"),
                    );
                }
            }
            Pace::Curve(curve) => {
                let needs = u128::from(record.ip_bytes) * 1_000_000_000;
                if !goes_on {
                    self.spare = 0;
                }
                let room = curve.carries(start, departure) + self.spare;
                if room < needs {
                    let could = room / 1_000_000_000;
                    blame.packet(
                        record,
                        format!("sent in {took:?}, in which {could} bytes can be"),
                    );
                }
                // The last nanosecond was needed, unless a silence cut the packet in two.
                let before = Instant::from_nanos(departure.as_nanos().saturating_sub(1));
                let enough = curve.carries(start, before) + self.spare >= needs;
                if departure > start && !stretched && enough {
                    blame.packet(record, format!("took {took:?}, longer than the rate asks"));
                }
                // What a silence lasts is not to be made up for.
                let last_rate = match stretched {
                    true => fastest(curve, start, departure),
                    false => curve.at(before.as_nanos()).0,
                };
                self.spare = room.saturating_sub(needs).min(last_rate.into());
            }
        }
    }
}

/// Until when an outage or a hand-over holds the transmitter at a moment, if one does.
fn held_until(config: &DirectionConfig, at: Instant) -> Option<Instant> {
    let outages = config.outages.iter().filter(|o| o.mode == OutageMode::Hold);
    let outage = outages.filter_map(|outage| outage_end(outage, at)).max();
    let gap = config.handover.and_then(|handover| {
        let into = since_handover(&handover, at)?;
        let left = nanos(handover.gap).checked_sub(into).filter(|l| *l > 0)?;
        Some(at + Duration::from_nanos(left))
    });
    outage.max(gap)
}

/// Whether anything ever does.
fn held_at_all(config: &DirectionConfig) -> bool {
    config.outages.iter().any(|o| o.mode == OutageMode::Hold)
        || config.handover.is_some_and(|h| !h.gap.is_zero())
}

/// The end of an outage that covers a moment.
pub(super) fn outage_end(outage: &Outage, at: Instant) -> Option<Instant> {
    let into = into(at, nanos(outage.start), outage.every.map(nanos))?;
    let left = nanos(outage.duration)
        .checked_sub(into)
        .filter(|left| *left > 0)?;
    Some(at + Duration::from_nanos(left))
}

/// Nanoseconds since the last hand-over. There is none at the origin.
pub(super) fn since_handover(handover: &Handover, at: Instant) -> Option<u64> {
    let (offset, every) = (nanos(handover.offset), nanos(handover.every));
    let first_slot = offset == 0 && at.as_nanos() < every;
    into(at, offset, Some(every)).filter(|_| !first_slot)
}

/// The shortest duration that can be drawn.
fn shortest(spread: &Spread) -> Duration {
    match spread {
        Spread::Fixed { value } => *value,
        Spread::Uniform { least, .. } => *least,
        Spread::Exponential { .. } => Duration::ZERO,
        Spread::Quantiles { points } => points.first().map_or(Duration::ZERO, |p| p.value),
    }
}
