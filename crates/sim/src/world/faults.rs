//! What a test or a plan does to a world while it runs: rules, cuts, rebindings, forged datagrams.

use std::net::{IpAddr, SocketAddr};

use tautline_transport::time::Instant;

use super::{
    Direction, HostId, LinkId, RebindSchedule, RuleId, TopologyError, World,
    event::Event,
    nat::{self, Nat, Rebind},
};
use crate::{Datagram, DirectionConfig, draw::Draws, rule::Rule};

impl World {
    /// Adds a fault injector to one direction of a link.
    ///
    /// # Panics
    /// When the link is unknown.
    pub fn add_rule(
        &mut self,
        link: LinkId,
        direction: Direction,
        rule: impl Rule + 'static,
    ) -> RuleId {
        let id = RuleId(self.next_rule);
        self.next_rule += 1;
        self.direction_mut(link, direction)
            .add_rule(id, Box::new(rule));
        id
    }

    /// Removes a rule; false when it is not there.
    pub fn remove_rule(&mut self, id: RuleId) -> bool {
        let links = self.topology.links.iter_mut();
        links
            .flat_map(|link| &mut link.directions)
            .any(|direction| direction.remove_rule(id))
    }

    /// Changes one direction of a link for packets that come to it from now on. The other
    /// direction's delay still counts for a queue in bandwidth-delay products.
    ///
    /// # Panics
    /// When the link is unknown.
    pub fn set_direction(
        &mut self,
        link: LinkId,
        direction: Direction,
        config: DirectionConfig,
    ) -> Result<(), TopologyError> {
        config.validate()?;
        let other = self
            .direction_mut(link, direction.opposite())
            .config()
            .delay;
        let round_trip = config.delay.saturating_add(other);
        let now = self.now;
        self.note_change(link, direction, true);
        self.direction_mut(link, direction)
            .reconfigure(now, config, round_trip);
        self.serve(link, direction);
        Ok(())
    }

    /// Cuts or mends both directions of a link. Packets already on it arrive.
    ///
    /// # Panics
    /// When the link is unknown.
    pub fn set_link_up(&mut self, link: LinkId, up: bool) {
        for direction in Direction::BOTH {
            self.note_change(link, direction, false);
            self.direction_mut(link, direction).set_up(up);
        }
    }

    /// Keeps what a direction is like before it is changed, where there is a log.
    fn note_change(&mut self, link: LinkId, direction: Direction, configured: bool) {
        let found = self.topology.links.get(link.0);
        let state = found.and_then(|found| found.directions.get(direction as usize));
        if let (Some(log), Some(state)) = (&mut self.log, state) {
            log.changes_now(self.now, state, configured);
        }
    }

    /// Runs `action` at `time` (now, when that is past), after what was scheduled before for the
    /// same time.
    pub fn schedule(&mut self, time: Instant, action: impl FnOnce(&mut Self) + 'static) {
        let slot = self.actions.insert(Box::new(action));
        self.events.push(time.max(self.now), Event::Action(slot));
    }

    /// Gives `datagram` to the host that holds its destination, past all links and NATs, as an
    /// attacker with a forged source address could.
    pub fn inject(&mut self, datagram: Datagram) {
        self.stats.injected += 1;
        self.deliver_without_link(datagram);
    }

    /// Rebinds the NAT in front of `host` now. Before its first rebinding a host has no NAT.
    /// Packets under way to the former binding are dropped on arrival.
    ///
    /// # Panics
    /// When the host is unknown.
    pub fn rebind(&mut self, host: HostId, kind: Rebind) {
        let new_ports = matches!(kind, Rebind::Port | Rebind::AddressAndPort);
        let mut new_addresses = Vec::new();
        let inner: Vec<IpAddr> = self
            .host(host)
            .addresses
            .iter()
            .map(SocketAddr::ip)
            .collect();
        for inner in inner {
            let outer = match kind {
                Rebind::Port => continue,
                Rebind::Address | Rebind::AddressAndPort => self.next_nat_address(inner),
                Rebind::To(ip) if self.may_rebind(host, inner, ip) => ip,
                Rebind::To(_) => continue,
            };
            if new_addresses.iter().any(|(known, _)| *known == inner) {
                continue;
            }
            new_addresses.push((inner, outer));
            self.topology.add_owner(outer, host, inner);
        }
        // NAT streams lie beside those of links, which are numbered 0 and 1.
        let draws = Draws::new(self.seed, host.0 as u64, 2);
        let nat = self
            .host_mut(host)
            .nat
            .get_or_insert_with(|| Nat::new(draws));
        nat.rebind(new_ports, &new_addresses);
    }

    /// Rebinds the NAT in front of `host` at the times of `schedule`.
    pub fn schedule_rebind(&mut self, host: HostId, schedule: RebindSchedule) {
        let first = Instant::ZERO + schedule.first;
        self.schedule(first, move |world| {
            world.rebind(host, schedule.kind);
            if let Some(every) = schedule.every.filter(|every| !every.is_zero()) {
                let first = world.now.since_origin().saturating_add(every);
                world.schedule_rebind(host, RebindSchedule { first, ..schedule });
            }
        });
    }

    /// Whether `outer` is of the family of `inner` and not another host's.
    fn may_rebind(&self, host: HostId, inner: IpAddr, outer: IpAddr) -> bool {
        outer.is_ipv4() == inner.is_ipv4()
            && self.topology.owner(outer).is_none_or(|owner| owner == host)
    }

    fn next_nat_address(&mut self, like: IpAddr) -> IpAddr {
        loop {
            self.nat_addresses += 1;
            let ip = nat::pool_address(like, self.nat_addresses);
            if self.topology.owner(ip).is_none() {
                return ip;
            }
        }
    }
}
