//! One direction of a link at work.
//!
//! Owns: the order in which a packet meets faults, queue and transmitter. Does not own: the wire
//! (`wire.rs`); events: the world schedules the arrival that [`DirectionState::offer`] computes and, for a
//! managed queue, the moments of [`DirectionState::serve`].

use std::{collections::VecDeque, time::Duration};

use tautline_transport::{time::Instant, units::Ecn};

use super::{
    aqm::{ManagedQueue, Reason, Victims, Waiting},
    config::DirectionConfig,
    loss::LossProcess,
    managed::{Managed, Next},
    queue::Limit,
    server::Server,
    stats::{DirectionStats, DropCause},
    transmitter::Transmitter,
    wire::Wire,
};
use crate::{
    Datagram, Direction, LinkId, RuleId,
    draw::Draws,
    log::{Outcome, PacketRecord, Service, Stage},
    rule::{PacketView, Rule, Verdict},
};

pub(crate) struct DirectionState {
    link: LinkId,
    direction: Direction,
    config: DirectionConfig,
    draws: Draws,
    loss: LossProcess,
    corruption: LossProcess,
    wire: Wire,
    queue: Queue,
    mark_above: Option<Limit>,
    rules: Vec<(RuleId, Box<dyn Rule>)>,
    up: bool,
    /// Whether the configuration is not the one it began with.
    reconfigured: bool,
    /// The time that everything takes, where that is all the direction ever does to a packet: the
    /// way between a program and a network's edge, which most packets take twice.
    plain: Option<Duration>,
    next_index: u64,
    stats: DirectionStats,
    /// Packets of a managed queue whose fate is decided, for the world to fetch.
    settled: VecDeque<Settled>,
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

/// What stands before the wire.
#[derive(Debug)]
enum Queue {
    /// Drop-tail: departures are known on arrival.
    Tail(Box<Transmitter>),
    /// Decides when a packet leaves.
    Managed(Box<Managed>),
}

impl Queue {
    fn waiting_bytes(&mut self, now: Instant) -> u64 {
        match self {
            Self::Tail(transmitter) => transmitter.waiting_bytes(now),
            Self::Managed(managed) => managed.queue.bytes(),
        }
    }

    /// After `waiting_bytes`, which brings it up to date.
    fn waiting_packets(&self) -> u64 {
        match self {
            Self::Tail(transmitter) => transmitter.waiting_packets(),
            Self::Managed(managed) => managed.queue.packets(),
        }
    }

    fn busy(&self, now: Instant) -> Duration {
        match self {
            Self::Tail(transmitter) => transmitter.busy(now),
            Self::Managed(managed) => managed.busy(now),
        }
    }
}

/// What is decided about a packet before it is queued, by its index alone or by a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    /// Position among the packets offered.
    pub(crate) index: u64,
    pub(super) lost: bool,
    pub(super) faults: Faults,
}

#[cfg(test)]
impl Ticket {
    /// A packet that nothing happens to.
    pub(crate) fn plain(index: u64) -> Self {
        Self {
            index,
            lost: false,
            faults: Faults::default(),
        }
    }
}

/// What became of a packet that was offered.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) record: PacketRecord,
    /// To be handed to [`DirectionState::enqueue`] when the outcome is `Queued`.
    pub(crate) ticket: Ticket,
}

/// A packet that left a managed queue, or was dropped there.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) record: PacketRecord,
    pub(crate) datagram: Datagram,
}

/// How a packet left what it was recorded at.
struct Fate {
    stage: Stage,
    queue_bytes: u64,
    service: Option<Service>,
    outcome: Outcome,
}

/// What the rules and the script want for a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) drop: bool,
    pub(super) corrupt: bool,
    pub(super) replaced: bool,
    pub(super) held: Option<Duration>,
    pub(super) copies: u8,
    /// Whether a rule said something.
    pub(super) ruled: bool,
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
        let draws = Draws::new(seed, link.0 as u64, direction as u64);
        let only_delay = DirectionConfig {
            delay: config.delay,
            ..DirectionConfig::default()
        };
        let plain = (config == only_delay).then_some(config.delay);
        let limit = Limit::new(config.queue, config.mean_rate(), round_trip);
        let mark_above = config
            .ecn_threshold
            .map(|t| Limit::new(t, config.mean_rate(), round_trip));
        let server = Server::new(&config, draws);
        let queue = match ManagedQueue::new(config.aqm, limit, config.mtu, draws) {
            None => Queue::Tail(Box::new(Transmitter::new(server, limit))),
            Some(queue) => Queue::Managed(Box::new(Managed::new(
                queue,
                server,
                Instant::ZERO,
                Duration::ZERO,
            ))),
        };
        Self {
            link,
            direction,
            draws,
            loss: LossProcess::for_loss(&config.loss),
            corruption: LossProcess::for_corruption(&config.corruption),
            wire: Wire::new(&config, draws),
            queue,
            mark_above,
            config,
            rules: Vec::new(),
            up: true,
            reconfigured: false,
            plain,
            next_index: 0,
            stats: DirectionStats::default(),
            settled: VecDeque::new(),
        }
    }

    pub(crate) fn config(&self) -> &DirectionConfig {
        &self.config
    }

    /// Changes what later packets meet. Indices and statistics stay; packets that wait stay, in
    /// their order, but those in a managed queue meet the new configuration when they leave. A
    /// loss process goes on if its model is the same. The world has to serve the queue afterwards.
    pub(crate) fn reconfigure(
        &mut self,
        now: Instant,
        config: DirectionConfig,
        round_trip: Duration,
    ) {
        self.reconfigured |= config != self.config;
        // What was delayed differently may still be under way.
        self.plain = self.plain.filter(|_| !self.reconfigured);
        let limit = Limit::new(config.queue, config.mean_rate(), round_trip);
        self.mark_above = config
            .ecn_threshold
            .map(|t| Limit::new(t, config.mean_rate(), round_trip));
        if config.loss != self.config.loss {
            self.loss = LossProcess::for_loss(&config.loss);
        }
        if config.corruption != self.config.corruption {
            self.corruption = LossProcess::for_corruption(&config.corruption);
        }
        if config.gaps != self.config.gaps {
            self.wire.set_gaps(&config);
        }
        let server = Server::new(&config, self.draws);
        let same_aqm = config.aqm == self.config.aqm;
        self.config = config;
        match &mut self.queue {
            Queue::Tail(transmitter) if same_aqm => transmitter.reconfigure(server, limit),
            Queue::Managed(managed) if same_aqm => {
                managed.queue.set_limit(limit, self.config.aqm);
                managed.server = server;
            }
            _ => self.replace_queue(now, server, limit),
        }
    }

    /// Takes another queue discipline; what waits moves over.
    fn replace_queue(&mut self, now: Instant, server: Server, limit: Limit) {
        let (free_at, waiting) = match &mut self.queue {
            Queue::Tail(transmitter) => (transmitter.free_at(), Vec::new()),
            Queue::Managed(managed) => (managed.free_at(), managed.queue.drain()),
        };
        let ahead = free_at.saturating_since(now);
        let busy = self.queue.busy(now) + ahead;
        let queue = ManagedQueue::new(self.config.aqm, limit, self.config.mtu, self.draws);
        let mut victims = Victims::new();
        match queue {
            Some(mut queue) => {
                for packet in waiting {
                    queue.push(packet, false, &mut victims);
                }
                let managed = Managed::new(queue, server, free_at, busy);
                self.queue = Queue::Managed(Box::new(managed));
            }
            None => {
                let mut transmitter = Transmitter::new(server, limit).resume(free_at, busy);
                let services: Vec<(Waiting, Service)> = waiting
                    .into_iter()
                    .map(|packet| {
                        let service = transmitter.push_anyway(now, packet.ip_bytes);
                        (packet, service)
                    })
                    .collect();
                self.queue = Queue::Tail(Box::new(transmitter));
                for (packet, service) in services {
                    self.depart(now, packet, service);
                }
            }
        }
        self.settle(now, victims);
    }

    pub(crate) fn was_reconfigured(&self) -> bool {
        self.reconfigured
    }

    pub(crate) fn place(&self) -> (LinkId, Direction) {
        (self.link, self.direction)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up
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
            busy: self.queue.busy(now),
            ..self.stats
        }
    }

    pub(crate) fn delivered(&mut self, ip_bytes: u32) {
        self.stats.delivered_packets += 1;
        self.stats.delivered_bytes += u64::from(ip_bytes);
    }

    /// Decides everything that happens to a packet, and changes its bytes accordingly; for a
    /// managed queue all but whether it leaves it, and when.
    pub(crate) fn offer(&mut self, now: Instant, datagram: &mut Datagram) -> Offer {
        let index = self.next_index;
        self.next_index += 1;
        self.stats.sent_packets += 1;
        let ip_bytes = datagram.ip_bytes();
        self.stats.sent_bytes += u64::from(ip_bytes);
        if let Some(delay) = self.plain
            && self.up
            && self.rules.is_empty()
            && ip_bytes <= u32::from(self.config.mtu)
        {
            let ticket = Ticket {
                index,
                lost: false,
                faults: Faults::default(),
            };
            self.stats.served(now, now);
            let fate = Fate {
                stage: Stage::Offered,
                queue_bytes: 0,
                service: Some(Service {
                    start: now,
                    departure: now,
                }),
                outcome: Outcome::Arrives(now + delay),
            };
            let record = self.record(now, &ticket, datagram, fate);
            return Offer { record, ticket };
        }
        // Asked for every packet, whatever else happens to it, so that a pick depends on the
        // index alone.
        let lost = self.loss.picks(&self.draws, index);
        let corrupted = self.corruption.picks(&self.draws, index);
        let mut faults = self.ask_rules(now, index, datagram);
        faults.corrupt |= corrupted;
        let mut ticket = Ticket {
            index,
            lost,
            faults,
        };

        let queue_bytes = self.queue.waiting_bytes(now);
        let admitted = self.admit(now, datagram, &ticket.faults);
        let service = admitted.unwrap_or(None);
        let outcome = match admitted {
            Ok(None) => Outcome::Queued,
            Ok(Some(service)) => self.cross(service.departure, &mut ticket, datagram),
            Err(cause) => Outcome::Dropped(cause),
        };
        if let Outcome::Dropped(cause) = outcome {
            self.stats.on_drop(now, cause);
        }
        let fate = Fate {
            stage: Stage::Offered,
            queue_bytes,
            service,
            outcome,
        };
        let record = self.record(now, &ticket, datagram, fate);
        Offer { record, ticket }
    }

    /// Puts a packet into the managed queue that [`DirectionState::offer`] let in. To be served
    /// afterwards.
    pub(crate) fn enqueue(&mut self, now: Instant, ticket: Ticket, datagram: Datagram) {
        let Queue::Managed(managed) = &mut self.queue else {
            return;
        };
        let packet = Waiting {
            ip_bytes: datagram.ip_bytes(),
            datagram,
            ticket,
            since: now,
            marked: false,
        };
        let idle = managed.idle(now);
        let mut victims = Victims::new();
        managed.queue.push(packet, idle, &mut victims);
        if !idle {
            self.note_queue(now);
        }
        self.settle(now, victims);
    }

    /// Sends what a managed queue can send now; returns when to come back, if that is not known
    /// already. What was decided is fetched with [`DirectionState::take_settled`].
    pub(crate) fn serve(&mut self, now: Instant) -> Option<Instant> {
        loop {
            let Queue::Managed(managed) = &mut self.queue else {
                return None;
            };
            let mut victims = Victims::new();
            let next = managed.next(now, &mut victims);
            self.settle(now, victims);
            match next {
                Next::Departs(packet, service) => self.depart(now, packet, service),
                Next::Later(at) => return at,
            }
        }
    }

    pub(crate) fn take_settled(&mut self) -> Option<Settled> {
        self.settled.pop_front()
    }

    fn cross(
        &mut self,
        departure: Instant,
        ticket: &mut Ticket,
        datagram: &mut Datagram,
    ) -> Outcome {
        self.wire
            .cross(&self.config, departure, ticket, datagram, &mut self.stats)
    }

    fn record(
        &self,
        now: Instant,
        ticket: &Ticket,
        datagram: &Datagram,
        fate: Fate,
    ) -> PacketRecord {
        let Fate {
            stage,
            queue_bytes,
            service,
            outcome,
        } = fate;
        let arrives = matches!(outcome, Outcome::Arrives(_));
        PacketRecord {
            time: now,
            link: self.link,
            direction: self.direction,
            stage,
            index: ticket.index,
            ip_bytes: datagram.ip_bytes(),
            queue_bytes,
            ecn: datagram.ecn,
            corrupted: arrives && ticket.faults.replaced,
            copies: if arrives { ticket.faults.copies } else { 0 },
            ruled: ticket.faults.ruled,
            service,
            outcome,
        }
    }

    /// Packets that a managed queue gave up.
    fn settle(&mut self, now: Instant, victims: Victims) {
        for (packet, reason) in victims {
            let cause = match reason {
                Reason::Full => DropCause::Queue,
                Reason::Managed => DropCause::Aqm,
            };
            self.left_queue(now, packet, None, Outcome::Dropped(cause));
        }
    }

    /// A packet leaves a managed queue for the wire.
    fn depart(&mut self, now: Instant, mut packet: Waiting, service: Service) {
        self.stats.ce_marked += u64::from(packet.marked);
        self.stats.served(packet.since, service.departure);
        let outcome = self.cross(service.departure, &mut packet.ticket, &mut packet.datagram);
        self.left_queue(now, packet, Some(service), outcome);
    }

    fn left_queue(
        &mut self,
        now: Instant,
        packet: Waiting,
        service: Option<Service>,
        outcome: Outcome,
    ) {
        if let Outcome::Dropped(cause) = outcome {
            self.stats.on_drop(now, cause);
        }
        let Waiting {
            ticket, datagram, ..
        } = packet;
        let queue_bytes = self.queue.waiting_bytes(now);
        let fate = Fate {
            stage: Stage::Dequeued,
            queue_bytes,
            service,
            outcome,
        };
        let record = self.record(now, &ticket, &datagram, fate);
        self.settled.push_back(Settled { record, datagram });
    }

    fn note_queue(&mut self, now: Instant) {
        let waiting = self.queue.waiting_bytes(now);
        self.stats.queue_max_bytes = self.stats.queue_max_bytes.max(waiting);
        let waiting = self.queue.waiting_packets();
        self.stats.queue_max_packets = self.stats.queue_max_packets.max(waiting);
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
        faults.ruled = counted != Verdict::Pass;
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

    /// The way into the queue: its service if it is known already, or why there is none.
    fn admit(
        &mut self,
        now: Instant,
        datagram: &mut Datagram,
        faults: &Faults,
    ) -> Result<Option<Service>, DropCause> {
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
        let above = |t: &Limit, queue: &mut Queue| {
            queue.waiting_bytes(now) > t.bytes || queue.waiting_packets() > t.packets
        };
        let mark = match &self.mark_above {
            Some(threshold) => above(threshold, &mut self.queue),
            None => false,
        };
        let service = match &mut self.queue {
            Queue::Tail(transmitter) => {
                let service = transmitter.push(now, ip_bytes).ok_or(DropCause::Queue)?;
                self.stats.served(now, service.departure);
                self.note_queue(now);
                Some(service)
            }
            Queue::Managed(_) => None,
        };
        if mark && matches!(datagram.ecn, Ecn::Ect0 | Ecn::Ect1) {
            datagram.ecn = Ecn::Ce;
            self.stats.ce_marked += 1;
        }
        Ok(service)
    }
}
