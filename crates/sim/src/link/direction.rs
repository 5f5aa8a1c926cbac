//! One direction of a link at work.
//!
//! Owns: the order in which a packet meets faults, queue, transmitter and wire. Does not own:
//! events; the world schedules the arrival that [`DirectionState::offer`] computes.

use std::time::Duration;

use tautline_transport::{time::Instant, units::Ecn};

use super::{
    config::{DirectionConfig, Jitter, JitterOrder, OutageMode},
    loss::LossProcess,
    stats::{DirectionStats, DropCause},
    transmitter::{Limit, Transmitter},
};
use crate::{
    Datagram, Direction, LinkId, RuleId,
    draw::{Draws, Purpose},
    log::{Outcome, PacketRecord},
    rule::{PacketView, Rule, Verdict},
};

pub(crate) struct DirectionState {
    link: LinkId,
    direction: Direction,
    config: DirectionConfig,
    draws: Draws,
    loss: LossProcess,
    corruption: LossProcess,
    transmitter: Transmitter,
    mark_above: Option<Limit>,
    rules: Vec<(RuleId, Box<dyn Rule>)>,
    up: bool,
    next_index: u64,
    last_arrival: Instant,
    stats: DirectionStats,
}

impl std::fmt::Debug for DirectionState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectionState")
            .field("config", &self.config)
            .field("rules", &self.rules.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// What the rules and the script want for a packet.
#[derive(Default)]
struct Faults {
    drop: bool,
    corrupt: bool,
    replaced: bool,
    held: Option<Duration>,
    copies: u8,
}

impl DirectionState {
    /// `config` is valid; `round_trip` is that of the link.
    pub(crate) fn new(
        seed: u64,
        link: LinkId,
        direction: Direction,
        config: DirectionConfig,
        round_trip: Duration,
    ) -> Self {
        let limit = Limit::new(config.queue, config.rate, round_trip);
        let mark_above = config
            .ecn_threshold
            .map(|t| Limit::new(t, config.rate, round_trip));
        Self {
            link,
            direction,
            draws: Draws::new(seed, link.0 as u64, direction as u64),
            loss: LossProcess::for_loss(&config.loss),
            corruption: LossProcess::for_corruption(&config.corruption),
            transmitter: Transmitter::new(config.rate, limit),
            mark_above,
            config,
            rules: Vec::new(),
            up: true,
            next_index: 0,
            last_arrival: Instant::ZERO,
            stats: DirectionStats::default(),
        }
    }

    pub(crate) fn config(&self) -> &DirectionConfig {
        &self.config
    }

    /// Changes what later packets meet. Indices, statistics and waiting packets stay; a loss
    /// process goes on if its model is the same.
    pub(crate) fn reconfigure(&mut self, config: DirectionConfig, round_trip: Duration) {
        let limit = Limit::new(config.queue, config.rate, round_trip);
        self.transmitter.reconfigure(config.rate, limit);
        self.mark_above = config
            .ecn_threshold
            .map(|t| Limit::new(t, config.rate, round_trip));
        if config.loss != self.config.loss {
            self.loss = LossProcess::for_loss(&config.loss);
        }
        if config.corruption != self.config.corruption {
            self.corruption = LossProcess::for_corruption(&config.corruption);
        }
        self.config = config;
    }

    pub(crate) fn set_up(&mut self, up: bool) {
        self.up = up;
    }

    pub(crate) fn add_rule(&mut self, id: RuleId, rule: Box<dyn Rule>) {
        self.rules.push((id, rule));
    }

    pub(crate) fn remove_rule(&mut self, id: RuleId) -> bool {
        let before = self.rules.len();
        self.rules.retain(|(other, _)| *other != id);
        self.rules.len() != before
    }

    pub(crate) fn stats(&self, now: Instant) -> DirectionStats {
        DirectionStats {
            busy: self.transmitter.busy(now),
            ..self.stats
        }
    }

    pub(crate) fn delivered(&mut self, ip_bytes: u32) {
        self.stats.delivered_packets += 1;
        self.stats.delivered_bytes += u64::from(ip_bytes);
    }

    /// Decides everything that happens to a packet, and changes its bytes accordingly.
    pub(crate) fn offer(&mut self, now: Instant, datagram: &mut Datagram) -> PacketRecord {
        let index = self.next_index;
        self.next_index += 1;
        self.stats.sent_packets += 1;
        self.stats.sent_bytes += u64::from(datagram.ip_bytes());
        // Asked for every packet, whatever else happens to it, so that a pick depends on the
        // index alone.
        let lost = self.loss.picks(&self.draws, index);
        let corrupted = self.corruption.picks(&self.draws, index);
        let mut faults = self.ask_rules(now, index, datagram);
        faults.corrupt |= corrupted;

        let queue_bytes = self.transmitter.waiting_bytes(now);
        let outcome = match self.send(now, index, datagram, &faults, lost) {
            Ok(arrival) => {
                if faults.corrupt {
                    faults.replaced |= self.corrupt(index, &mut datagram.payload);
                }
                let p = self.config.duplication;
                if self.draws.chance(Purpose::Duplicate, index, p) {
                    faults.copies = faults.copies.saturating_add(1);
                }
                self.stats.corrupted += u64::from(faults.replaced);
                self.stats.duplicated += u64::from(faults.copies);
                Outcome::Arrives(arrival)
            }
            Err(cause) => {
                self.stats.dropped.count(cause);
                Outcome::Dropped(cause)
            }
        };
        let arrives = matches!(outcome, Outcome::Arrives(_));
        PacketRecord {
            time: now,
            link: self.link,
            direction: self.direction,
            index,
            ip_bytes: datagram.ip_bytes(),
            queue_bytes,
            ecn: datagram.ecn,
            corrupted: arrives && faults.replaced,
            copies: if arrives { faults.copies } else { 0 },
            outcome,
        }
    }

    fn ask_rules(&mut self, now: Instant, index: u64, datagram: &mut Datagram) -> Faults {
        let mut faults = Faults::default();
        if self
            .config
            .drop_packets
            .iter()
            .any(|range| range.contains(&index))
        {
            faults.drop = true;
        }
        if self.rules.is_empty() {
            return faults;
        }
        let view = PacketView {
            now,
            link: self.link,
            direction: self.direction,
            index,
            src: datagram.src,
            dst: datagram.dst,
            ecn: datagram.ecn,
            ip_bytes: datagram.ip_bytes(),
            payload: &datagram.payload,
        };
        let mut counted = Verdict::Pass;
        for (_, rule) in &mut self.rules {
            let verdict = rule(&view);
            if counted == Verdict::Pass {
                counted = verdict;
            }
        }
        match counted {
            Verdict::Pass => {}
            Verdict::Drop => faults.drop = true,
            Verdict::Corrupt => faults.corrupt = true,
            Verdict::Replace(payload) => {
                datagram.payload = payload;
                faults.replaced = true;
            }
            Verdict::Delay(extra) => faults.held = Some(extra),
            Verdict::Duplicate(copies) => faults.copies = copies,
            Verdict::SetEcn(ecn) => datagram.ecn = ecn,
        }
        faults
    }

    /// Queue, transmitter and wire: when the packet arrives, or why it does not.
    fn send(
        &mut self,
        now: Instant,
        index: u64,
        datagram: &mut Datagram,
        faults: &Faults,
        lost: bool,
    ) -> Result<Instant, DropCause> {
        let ip_bytes = datagram.ip_bytes();
        if faults.drop {
            return Err(DropCause::Rule);
        }
        if !self.up {
            return Err(DropCause::Outage);
        }
        if ip_bytes > u32::from(self.config.mtu) {
            return Err(DropCause::Mtu);
        }
        let mark = self
            .mark_above
            .as_ref()
            .is_some_and(|t| self.transmitter.above(t));
        let departure = self
            .transmitter
            .push(now, ip_bytes, &self.config.outages)
            .ok_or(DropCause::Queue)?;
        let waiting = self.transmitter.waiting_bytes(now);
        self.stats.queue_max_bytes = self.stats.queue_max_bytes.max(waiting);
        let waiting = self.transmitter.waiting_packets();
        self.stats.queue_max_packets = self.stats.queue_max_packets.max(waiting);
        if mark && matches!(datagram.ecn, Ecn::Ect0 | Ecn::Ect1) {
            datagram.ecn = Ecn::Ce;
            self.stats.ce_marked += 1;
        }
        let swallowed = |o: &super::config::Outage| {
            o.mode == OutageMode::Drop && o.covering(departure).is_some()
        };
        if self.config.outages.iter().any(swallowed) {
            return Err(DropCause::Outage);
        }
        if lost {
            return Err(DropCause::Loss);
        }
        Ok(self.arrival(departure, index, faults.held))
    }

    fn arrival(&mut self, departure: Instant, index: u64, held: Option<Duration>) -> Instant {
        let mut arrival = departure + self.config.delay;
        let mut keep_order = true;
        if let Some(jitter) = &self.config.jitter {
            arrival =
                departure + jittered(self.config.delay, jitter, &self.draws, departure, index);
            keep_order = jitter.order == JitterOrder::Fifo;
        }
        let picked = self.config.reordering.as_ref().filter(|reordering| {
            self.draws
                .chance(Purpose::Reorder, index, reordering.probability)
        });
        let extra = held.into_iter().chain(picked.map(|r| r.extra)).max();
        if let Some(extra) = extra {
            // Held back: later packets neither wait for it nor does it wait for them.
            self.stats.held_back += 1;
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
