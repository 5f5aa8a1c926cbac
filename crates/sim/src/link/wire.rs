//! The wire behind a transmitter: what is lost on it, and when the rest arrives.
//!
//! Owns: [`Wire`]: losses by time, corruption, delay, jitter, reordering, duplication.
//! Does not own: losses by index, which the direction has decided already (`loss.rs`).

use std::time::Duration;

use tautline_transport::time::Instant;

use super::{
    config::{DirectionConfig, Jitter, JitterOrder},
    direction::Ticket,
    outage::{Outage, OutageMode},
    silence::Gaps,
    spans::Spans,
    stats::{DirectionStats, DropCause},
};
use crate::{
    Datagram,
    draw::{Draws, Purpose},
    log::Outcome,
};

pub(crate) struct Wire {
    draws: Draws,
    gaps: Vec<GapProcess>,
    last_arrival: Instant,
}

impl Wire {
    pub(crate) fn new(config: &DirectionConfig, draws: Draws) -> Self {
        Self {
            draws,
            gaps: GapProcess::all(config, draws),
            last_arrival: Instant::ZERO,
        }
    }

    pub(crate) fn set_gaps(&mut self, config: &DirectionConfig) {
        self.gaps = GapProcess::all(config, self.draws);
    }

    /// What happens to a packet whose last byte leaves at `departure`.
    pub(crate) fn cross(
        &mut self,
        config: &DirectionConfig,
        departure: Instant,
        ticket: &mut Ticket,
        datagram: &mut Datagram,
        stats: &mut DirectionStats,
    ) -> Outcome {
        let swallowed = |o: &Outage| o.mode == OutageMode::Drop && o.covering(departure).is_some();
        if config.outages.iter().any(swallowed) {
            return Outcome::Dropped(DropCause::Outage);
        }
        let (index, draws) = (ticket.index, &self.draws);
        let handover = config.handover.as_ref();
        let coding = config.coding.as_ref();
        let mut lost = ticket.lost;
        lost |= handover.is_some_and(|h| h.loses(departure, index, draws));
        lost |= coding.is_some_and(|c| c.loses(departure, index, draws));
        for gap in &mut self.gaps {
            lost |= gap.loses(departure, index);
        }
        if lost {
            return Outcome::Dropped(DropCause::Loss);
        }
        let held = self.gaps.iter().map(|gap| gap.holds(departure)).max();
        let departure = held.unwrap_or(departure);
        let faults = &mut ticket.faults;
        let arrival = self.arrival(config, departure, index, faults.held, stats);
        if faults.corrupt {
            faults.replaced |= self.corrupt(index, &mut datagram.payload);
        }
        let p = config.duplication;
        if self.draws.chance(Purpose::Duplicate, index, p) {
            faults.copies = faults.copies.saturating_add(1);
        }
        stats.corrupted += u64::from(faults.replaced);
        stats.duplicated += u64::from(faults.copies);
        Outcome::Arrives(arrival)
    }

    fn arrival(
        &mut self,
        config: &DirectionConfig,
        departure: Instant,
        index: u64,
        held: Option<Duration>,
        stats: &mut DirectionStats,
    ) -> Instant {
        let mut delay = config.delay;
        if let Some(handover) = &config.handover {
            delay = handover.delay(delay, departure, &self.draws);
        }
        let mut arrival = departure + delay;
        let mut keep_order = true;
        if let Some(jitter) = &config.jitter {
            arrival = departure + jittered(delay, jitter, &self.draws, departure, index);
            keep_order = jitter.order == JitterOrder::Fifo;
        }
        let picked = config.reordering.as_ref().filter(|reordering| {
            self.draws
                .chance(Purpose::Reorder, index, reordering.probability)
        });
        let extra = held.into_iter().chain(picked.map(|r| r.extra)).max();
        if let Some(extra) = extra {
            // Held back: later packets neither wait for it nor does it wait for them.
            stats.held_back += 1;
            return arrival + extra;
        }
        if keep_order {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
        }
        arrival
    }

    /// Changes one byte; false when there is none.
    fn corrupt(&self, index: u64, payload: &mut [u8]) -> bool {
        let bits = self.draws.bits(Purpose::CorruptByte, index);
        let at = ((bits >> 32) * payload.len() as u64) >> 32;
        let Some(byte) = payload.get_mut(at as usize) else {
            return false;
        };
        // 1..=255: a change that changes nothing would not be one.
        *byte ^= ((bits & 0xffff_ffff) % 255 + 1) as u8;
        true
    }
}

/// One kind of lossy gaps at work.
struct GapProcess {
    spans: Spans,
    probability: f64,
    hold: Duration,
    draws: Draws,
}

impl GapProcess {
    fn all(config: &DirectionConfig, draws: Draws) -> Vec<Self> {
        let gaps = config.gaps.iter().zip(1..);
        let process = |(gaps, part): (&Gaps, u64)| {
            let draws = draws.part(part);
            Self {
                spans: Spans::new(gaps.interval, gaps.timing, gaps.duration.clone(), draws),
                probability: gaps.probability,
                hold: gaps.hold,
                draws,
            }
        };
        gaps.map(process).collect()
    }

    fn loses(&mut self, departure: Instant, index: u64) -> bool {
        self.spans.covering(departure).is_some()
            && self.draws.chance(Purpose::GapLoss, index, self.probability)
    }

    /// When a packet counts as gone that left at `departure`, for which [`GapProcess::loses`] was
    /// asked, and was not lost.
    fn holds(&self, departure: Instant) -> Instant {
        let held = self.spans.last_end().map(|end| end + self.hold);
        held.map_or(departure, |held| departure.max(held))
    }
}

/// The delay of the packet that departs at `departure`.
fn jittered(
    delay: Duration,
    jitter: &Jitter,
    draws: &Draws,
    departure: Instant,
    index: u64,
) -> Duration {
    let unit = if jitter.correlation.is_zero() {
        draws.unit(Purpose::Jitter, index)
    } else {
        let period = u64::try_from(jitter.correlation.as_nanos()).unwrap_or(u64::MAX);
        let (slot, into) = (departure.as_nanos() / period, departure.as_nanos() % period);
        let from = draws.unit(Purpose::Jitter, slot);
        let to = draws.unit(Purpose::Jitter, slot + 1);
        from + (to - from) * (into as f64 / period as f64)
    };
    let width = jitter.spread.as_nanos() as f64 * 2.0;
    delay.saturating_sub(jitter.spread) + Duration::from_nanos((width * unit) as u64)
}
