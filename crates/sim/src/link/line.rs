//! One direction of a link by itself, for programs that keep another clock than a world's.
//!
//! Owns: [`Line`]. Does not own: what happens to a packet (`direction.rs`), when anything is
//! delivered: whoever holds the line waits for the times that it names.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use tautline_transport::{time::Instant, units::Ecn};

use super::{ConfigError, DirectionConfig, DirectionState, DirectionStats};
use crate::{Datagram, Direction, LinkId, PacketRecord, ip_overhead};

/// Nothing routes by it here; it makes a packet one of IPv4.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// One direction of a link outside of a [`crate::World`]: what becomes of each packet is told when
/// it is offered. A world's link with the same seed, position and configuration decides the same
/// about packets of the same sizes at the same times.
///
/// ```
/// use std::time::Duration;
/// use tautline_sim::{Direction, Line, Outcome, links};
/// use tautline_transport::{time::Instant, units::Ecn};
///
/// let wifi = links::by_name("wifi").expect("a known name");
/// let round_trip = wifi.round_trip();
/// let mut line = Line::new(7, 0, Direction::Forward, wifi.forward, round_trip)?;
/// let record = line.offer(Instant::ZERO, 1500, Ecn::NotEct);
/// // 12,000 bits at 20 Mb/s, then 12.5 ms.
/// let arrival = Instant::ZERO + Duration::from_micros(600 + 12_500);
/// assert_eq!(record.outcome, Outcome::Arrives(arrival));
/// # Ok::<(), tautline_sim::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Line {
    state: DirectionState,
    /// Stands for the packet under way, whose bytes the line does not need.
    stand_in: Datagram,
}

impl Line {
    /// A line that is idle at time zero. `link` is the position of the link that it stands for,
    /// part of the key of loss decisions; `round_trip` is what queues in bandwidth-delay products
    /// count with ([`crate::LinkConfig::round_trip`]).
    ///
    /// # Errors
    /// A value that a link cannot have, or a managed queue: that one decides later than `offer`.
    pub fn new(
        seed: u64,
        link: usize,
        direction: Direction,
        config: DirectionConfig,
        round_trip: Duration,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        if !config.aqm.is_none() {
            let problem = "a line by itself has a drop-tail queue: leave `aqm` out";
            return Err(ConfigError::new("aqm", problem));
        }
        Ok(Self {
            state: DirectionState::new(seed, LinkId(link), direction, config, round_trip),
            stand_in: Datagram {
                src: NOWHERE,
                dst: NOWHERE,
                ecn: Ecn::NotEct,
                payload: Vec::new(),
            },
        })
    }

    /// Offers an IP packet of so many bytes (at least 28) at `now`, which must not lie before the
    /// last call's. What the record says is to be done by the caller: deliver at the time that the
    /// outcome names, with the record's `ecn` and so many `copies` beside it, and with a byte
    /// changed where it says `corrupted`.
    pub fn offer(&mut self, now: Instant, ip_bytes: u32, ecn: Ecn) -> PacketRecord {
        let payload = ip_bytes.saturating_sub(ip_overhead(NOWHERE));
        self.stand_in.payload.resize(payload as usize, 0);
        self.stand_in.ecn = ecn;
        self.state.offer(now, &mut self.stand_in).record
    }

    /// Counters up to `now`. Nothing tells a line what was delivered: these two stay 0.
    pub fn stats(&self, now: Instant) -> DirectionStats {
        self.state.stats(now)
    }
}

#[cfg(test)]
mod tests {
    use tautline_transport::units::Rate;

    use super::*;
    use crate::{Aqm, HostId, LinkConfig, LossModel, Node, World};

    /// Sends packets of given sizes at given times.
    struct Sender {
        plan: Vec<(Instant, usize)>,
        next: usize,
    }

    impl Node for Sender {
        fn handle_datagram(&mut self, _: Instant, _: Datagram) {}
        fn handle_timeout(&mut self, _: Instant) {}
        fn poll_timeout(&self) -> Option<Instant> {
            self.plan.get(self.next).map(|(at, _)| *at)
        }
        fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
            let (at, bytes) = *self.plan.get(self.next)?;
            if at > now {
                return None;
            }
            self.next += 1;
            Some(Datagram {
                src: address(1),
                dst: address(2),
                ecn: Ecn::Ect0,
                payload: vec![0; bytes],
            })
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
        fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
            self
        }
    }

    fn address(host: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], 443))
    }

    fn host(world: &mut World, number: u8, plan: Vec<(Instant, usize)>) -> HostId {
        world.add_host(address(number), Box::new(Sender { plan, next: 0 }))
    }

    #[test]
    fn decides_as_a_world_does() {
        let direction = DirectionConfig {
            loss: LossModel::uniform(0.1),
            duplication: 0.05,
            jitter: Some(crate::Jitter::fifo(Duration::from_millis(3))),
            ..DirectionConfig::new(
                Rate::from_bits_per_second(5_000_000),
                Duration::from_millis(20),
            )
        };
        let config = LinkConfig::symmetric(direction.clone());
        let plan: Vec<_> = (0..2000u64)
            .map(|i| {
                let at = Instant::from_nanos(i * 900_000 + (i % 7) * 100_000);
                (at, 40 + (i as usize * 131) % 1400)
            })
            .collect();
        let mut world = World::new(11);
        world.enable_log(10_000);
        let sender = host(&mut world, 1, plan.clone());
        let receiver = host(&mut world, 2, Vec::new());
        world.connect(sender, receiver, config.clone());
        world.run_until(Instant::ZERO + Duration::from_secs(60));

        let round_trip = config.round_trip();
        let mut line = Line::new(11, 0, Direction::Forward, direction, round_trip).unwrap();
        let records: Vec<_> = plan
            .iter()
            .map(|(at, bytes)| line.offer(*at, *bytes as u32 + 28, Ecn::Ect0))
            .collect();
        assert_eq!(world.log(), records);
        let drops = line.stats(Instant::ZERO).dropped;
        assert!(drops.loss > 0 && drops.queue > 0, "{drops:?}");
    }

    #[test]
    fn a_managed_queue_is_refused() {
        let config = DirectionConfig {
            aqm: Aqm::codel(),
            ..DirectionConfig::default()
        };
        let error = Line::new(1, 0, Direction::Forward, config, Duration::ZERO).unwrap_err();
        assert_eq!(error.field, "aqm");
    }
}
