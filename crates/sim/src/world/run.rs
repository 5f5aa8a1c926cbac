//! The event loop, and the way of a datagram from program to program.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use tautline_transport::time::Instant;

use super::{Direction, HostId, LinkId, Travelling, World, event::Event};
use crate::{
    Datagram,
    link::{Offer, Settled},
    log::{Outcome, PacketRecord},
};

/// Timeouts that one host may have at one instant before it counts as stuck.
const MAX_TIMEOUTS_PER_INSTANT: u32 = 10_000;
/// Datagrams that one host may send at one instant before it counts as stuck.
const MAX_BURST: u32 = 1 << 20;
/// Events at one instant before the world counts as stuck.
const MAX_EVENTS_PER_INSTANT: u64 = 1 << 23;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The time given was reached; the clock stands there.
    TimeReached,
    /// The condition of [`World::run_while`] no longer holds.
    ConditionMet,
    /// Nothing is left to happen.
    Idle,
    /// A host asks for time or sends without end at one instant, or packets circle without delay.
    /// The world does not go on.
    Stuck,
}

impl World {
    /// Handles the next event; false when there is none or the world is stuck.
    pub fn step(&mut self) -> bool {
        self.step_until(Instant::FAR_FUTURE)
    }

    /// [`World::step`], unless the next event is after `limit`.
    fn step_until(&mut self, limit: Instant) -> bool {
        if self.stuck {
            return false;
        }
        let Some((time, event)) = self.events.pop_until(limit) else {
            return false;
        };
        if time > self.now {
            self.now = time;
            self.at_once = 0;
        }
        if !self.count() {
            return false;
        }
        match event {
            Event::Arrival(slot) => {
                let mut arriving = self.travelling.take(slot);
                while let Some(travelling) = arriving {
                    arriving = self.arrive(travelling);
                    // The next in line, so that there is no need to queue for it.
                    if arriving.is_some() && !self.count() {
                        return false;
                    }
                }
            }
            Event::Timer(host) => self.timer(HostId(host as usize)),
            Event::Wake(host) => {
                let host = HostId(host as usize);
                self.host_mut(host).waking = false;
                self.pump(host);
            }
            Event::Action(slot) => {
                if let Some(action) = self.actions.take(slot) {
                    action(self);
                }
            }
            Event::Dequeue(link, direction) => self.serve(LinkId(link as usize), direction),
        }
        true
    }

    /// Counts an event; false when there are too many at this instant.
    fn count(&mut self) -> bool {
        self.stats.events += 1;
        self.at_once += 1;
        self.stuck |= self.at_once > MAX_EVENTS_PER_INSTANT;
        !self.stuck
    }

    /// Handles every event up to and at `time`; the clock then stands at `time`, also when nothing
    /// was left to happen before.
    pub fn run_until(&mut self, time: Instant) -> RunEnd {
        self.run_while(|_| true, time)
    }

    /// [`World::run_until`] for a length of time from now.
    pub fn run_for(&mut self, duration: Duration) -> RunEnd {
        self.run_until(self.now + duration)
    }

    /// Handles events as long as `condition` holds (asked before each), up to and at `limit`.
    pub fn run_while(
        &mut self,
        mut condition: impl FnMut(&Self) -> bool,
        limit: Instant,
    ) -> RunEnd {
        loop {
            if self.stuck {
                return RunEnd::Stuck;
            }
            if !condition(self) {
                return RunEnd::ConditionMet;
            }
            if !self.step_until(limit) && !self.stuck {
                if limit > self.now {
                    self.now = limit;
                    self.at_once = 0;
                }
                return match self.events.next_time() {
                    None => RunEnd::Idle,
                    Some(_) => RunEnd::TimeReached,
                };
            }
        }
    }

    pub(super) fn wake(&mut self, id: HostId) {
        let now = self.now;
        let host = self.host_mut(id);
        if host.node.is_some() && !host.waking {
            host.waking = true;
            self.events.push(now, Event::Wake(id.0 as u32));
        }
    }

    fn timer(&mut self, id: HostId) {
        let now = self.now;
        let host = self.host_mut(id);
        // An earlier timer took the place of this one.
        if host.timer != Some(now) {
            return;
        }
        host.timer = None;
        let Some(node) = &mut host.node else { return };
        if node.poll_timeout().is_some_and(|due| due <= now) {
            let (at, count) = host.timeouts;
            host.timeouts = if at == now {
                (now, count + 1)
            } else {
                (now, 1)
            };
            if host.timeouts.1 > MAX_TIMEOUTS_PER_INSTANT {
                self.stuck = true;
                return;
            }
            node.handle_timeout(now);
        }
        self.pump(id);
    }

    /// Takes what a node has to send, then its timeout.
    fn pump(&mut self, id: HostId) {
        let now = self.now;
        for sent in 0.. {
            let Some(node) = &mut self.host_mut(id).node else {
                return;
            };
            let Some(datagram) = node.poll_transmit(now) else {
                break;
            };
            if sent > MAX_BURST {
                self.stuck = true;
                return;
            }
            self.stats.sent += 1;
            self.transmit(id, datagram);
        }
        let host = self.host_mut(id);
        let wanted = host.node.as_ref().and_then(|node| node.poll_timeout());
        let Some(wanted) = wanted.filter(|at| *at < Instant::FAR_FUTURE) else {
            return;
        };
        let wanted = wanted.max(now);
        if host.timer.is_none_or(|scheduled| wanted < scheduled) {
            host.timer = Some(wanted);
            self.events.push(wanted, Event::Timer(id.0 as u32));
        }
    }

    /// From a program into the network.
    fn transmit(&mut self, id: HostId, mut datagram: Datagram) {
        let host = self.host_mut(id);
        if datagram.src.ip().is_unspecified() {
            let like = |a: &&SocketAddr| a.is_ipv4() == datagram.dst.is_ipv4();
            if let Some(address) = host.addresses.iter().find(like) {
                datagram.src.set_ip(address.ip());
            }
        }
        let inner = datagram.src.ip();
        let held = host.holds(inner);
        if let Some(nat) = &mut host.nat
            && held
        {
            datagram.src = nat.outbound(datagram.src);
        }
        if self.is_of(id, datagram.dst.ip()) {
            self.deliver_without_link(datagram);
            return;
        }
        if let Some((travelling, at)) = self.forward(id, inner, datagram) {
            self.send_on(travelling, at);
        }
    }

    /// Whether `ip` leads to this host: an address of its own, or what its NAT shows outside.
    fn is_of(&mut self, id: HostId, ip: IpAddr) -> bool {
        let host = self.host_mut(id);
        host.holds(ip) || (host.nat.is_some() && self.topology.owner(ip) == Some(id))
    }

    /// From a host onto the next link; what arrives at its end, and when, if that is known.
    fn forward(
        &mut self,
        from: HostId,
        src: IpAddr,
        mut datagram: Datagram,
    ) -> Option<(Travelling, Instant)> {
        let Some(route) = self.topology.route(from, src, datagram.dst.ip()) else {
            self.stats.unroutable += 1;
            return None;
        };
        let now = self.now;
        let link = self.topology.links.get_mut(route.link.0)?;
        let direction = link.directions.get_mut(route.direction as usize)?;
        let Offer { record, ticket } = direction.offer(now, &mut datagram);
        self.note(&record, &datagram);
        match record.outcome {
            Outcome::Arrives(at) => Some((self.launch(&record, datagram, at)?, at)),
            Outcome::Dropped(_) => None,
            Outcome::Queued => {
                self.direction_mut(route.link, route.direction)
                    .enqueue(now, ticket, datagram);
                self.serve(route.link, route.direction);
                None
            }
        }
    }

    fn send_on(&mut self, travelling: Travelling, at: Instant) {
        let slot = self.travelling.insert(travelling);
        self.events.push(at, Event::Arrival(slot));
    }

    /// Lets a managed queue send what it can, and comes back when it can send more.
    pub(super) fn serve(&mut self, link: LinkId, direction: Direction) {
        let now = self.now;
        let again = self.direction_mut(link, direction).serve(now);
        while let Some(settled) = self.direction_mut(link, direction).take_settled() {
            let Settled { record, datagram } = settled;
            self.note(&record, &datagram);
            if let Outcome::Arrives(at) = record.outcome
                && let Some(travelling) = self.launch(&record, datagram, at)
            {
                self.send_on(travelling, at);
            }
        }
        if let Some(at) = again.filter(|at| *at < Instant::FAR_FUTURE) {
            self.events
                .push(at, Event::Dequeue(link.0 as u32, direction));
        }
    }

    fn note(&mut self, record: &PacketRecord, datagram: &Datagram) {
        if let Some(log) = &mut self.log {
            log.push(*record);
        }
        if let Some(hash) = &mut self.hash {
            hash.packet(record, datagram);
        }
    }

    /// Onto the wire: its copies are on their way then, itself is for the caller to send on.
    fn launch(
        &mut self,
        record: &PacketRecord,
        datagram: Datagram,
        at: Instant,
    ) -> Option<Travelling> {
        let found = self.topology.links.get(record.link.0)?;
        let to = match record.direction {
            Direction::Forward => found.ends[1].host,
            Direction::Backward => found.ends[0].host,
        };
        let by = Some((record.link, record.direction));
        for _ in 0..record.copies {
            let datagram = datagram.clone();
            self.send_on(Travelling { datagram, to, by }, at);
        }
        Some(Travelling { datagram, to, by })
    }

    pub(super) fn deliver_without_link(&mut self, datagram: Datagram) {
        if let Some(hash) = &mut self.hash {
            hash.injected(self.now, &datagram);
        }
        match self.topology.owner(datagram.dst.ip()) {
            Some(to) => {
                let by = None;
                self.send_on(Travelling { datagram, to, by }, self.now);
            }
            None => self.stats.unroutable += 1,
        }
    }

    /// At the end of a link: into the program, or onwards. What is at the end of the next link before
    /// anything else happens is returned.
    fn arrive(&mut self, travelling: Travelling) -> Option<Travelling> {
        let Travelling {
            mut datagram,
            to,
            by,
        } = travelling;
        if let Some((link, direction)) = by {
            self.direction_mut(link, direction)
                .delivered(datagram.ip_bytes());
        }
        let now = self.now;
        if self.host_mut(to).node.is_none() {
            let src = datagram.src.ip();
            let (travelling, at) = self.forward(to, src, datagram)?;
            if at == now && !self.events.has_at(now) {
                return Some(travelling);
            }
            self.send_on(travelling, at);
            return None;
        }
        if !self.is_of(to, datagram.dst.ip()) {
            self.stats.unroutable += 1;
            return None;
        }
        let host = self.host_mut(to);
        let node = host.node.as_mut()?;
        if let Some(nat) = &host.nat {
            match nat.inbound(datagram.dst) {
                Some(inner) => datagram.dst = inner,
                None => {
                    self.stats.nat_dropped += 1;
                    return None;
                }
            }
        }
        node.handle_datagram(now, datagram);
        self.stats.delivered += 1;
        self.pump(to);
        None
    }
}
