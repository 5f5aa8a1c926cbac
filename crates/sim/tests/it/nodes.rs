//! A node that sends by plan and remembers what came.

use std::{any::Any, net::SocketAddr, time::Duration};

use tautline_sim::{
    Datagram, Direction, DirectionConfig, DirectionStats, HostId, LinkConfig, LinkId, Node, World,
};
use tautline_transport::{time::Instant, units::Ecn};

pub(crate) const A: &str = "10.0.0.1:1000";
pub(crate) const B: &str = "10.0.0.2:443";

/// One datagram to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub(crate) at: Instant,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) len: usize,
    pub(crate) ecn: Ecn,
}

/// One datagram that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) at: Instant,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) ecn: Ecn,
    /// Position in the sender's plan.
    pub(crate) number: u64,
    pub(crate) payload: Vec<u8>,
}

#[derive(Default)]
pub(crate) struct Peer {
    plan: Vec<Planned>,
    sent: usize,
    pub(crate) received: Vec<Received>,
    /// Sends everything back.
    echo: bool,
    replies: Vec<Datagram>,
}

impl Peer {
    pub(crate) fn new(plan: Vec<Planned>) -> Self {
        Self {
            plan,
            ..Self::default()
        }
    }

    pub(crate) fn echo() -> Self {
        Self {
            echo: true,
            ..Self::default()
        }
    }
}

impl Node for Peer {
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram) {
        let Datagram {
            src,
            dst,
            ecn,
            payload,
        } = datagram;
        let number = payload
            .first_chunk()
            .map_or(u64::MAX, |b| u64::from_be_bytes(*b));
        if self.echo {
            self.replies.push(Datagram {
                src: dst,
                dst: src,
                ecn,
                payload: payload.clone(),
            });
        }
        self.received.push(Received {
            at: now,
            from: src,
            to: dst,
            ecn,
            number,
            payload,
        });
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        self.plan.get(self.sent).map(|planned| planned.at)
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        if !self.replies.is_empty() {
            return Some(self.replies.remove(0));
        }
        let planned = self
            .plan
            .get(self.sent)
            .filter(|planned| planned.at <= now)?;
        let mut payload = vec![0xaa; planned.len];
        if let Some(number) = payload.first_chunk_mut() {
            *number = (self.sent as u64).to_be_bytes();
        }
        self.sent += 1;
        Some(Datagram {
            src: planned.from,
            dst: planned.to,
            ecn: planned.ecn,
            payload,
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A [`Peer`] that keeps nothing of what it receives.
pub(crate) struct Counter {
    peer: Peer,
    pub(crate) received: u64,
}

impl Counter {
    pub(crate) fn new(plan: Vec<Planned>) -> Self {
        Self {
            peer: Peer::new(plan),
            received: 0,
        }
    }
}

impl Node for Counter {
    fn handle_datagram(&mut self, _: Instant, _: Datagram) {
        self.received += 1;
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        self.peer.poll_timeout()
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        self.peer.poll_transmit(now)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

pub(crate) fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn at(duration: Duration) -> Instant {
    Instant::ZERO + duration
}

/// `count` datagrams of `len` bytes from A to B, one every `gap`.
pub(crate) fn steady(count: u64, gap: Duration, len: usize) -> Vec<Planned> {
    (0..count)
        .map(|i| Planned {
            at: Instant::from_nanos(gap.as_nanos() as u64 * i),
            from: addr(A),
            to: addr(B),
            len,
            ecn: Ecn::NotEct,
        })
        .collect()
}

/// Two hosts and a link.
pub(crate) struct Pair {
    pub(crate) world: World,
    pub(crate) a: HostId,
    pub(crate) b: HostId,
    pub(crate) link: LinkId,
}

impl Pair {
    /// `plan` over `forward`; nothing comes back.
    pub(crate) fn new(seed: u64, forward: DirectionConfig, plan: Vec<Planned>) -> Self {
        Self::with(
            seed,
            LinkConfig {
                forward,
                backward: DirectionConfig::default(),
            },
            plan,
            false,
        )
    }

    pub(crate) fn with(seed: u64, link: LinkConfig, plan: Vec<Planned>, echo: bool) -> Self {
        let mut world = World::new(seed);
        let a = world.add_host(addr(A), Box::new(Peer::new(plan)));
        let receiver = if echo { Peer::echo() } else { Peer::default() };
        let b = world.add_host(addr(B), Box::new(receiver));
        let link = world.connect(a, b, link);
        world.enable_log(usize::MAX);
        world.enable_hash();
        Self { world, a, b, link }
    }

    /// Runs to the end (or an hour) and returns what B received.
    pub(crate) fn run(&mut self) -> Vec<Received> {
        self.world.run_until(at(Duration::from_secs(3600)));
        self.received()
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.world.node::<Peer>(self.b).received.clone()
    }

    pub(crate) fn stats(&self) -> DirectionStats {
        self.world.link_stats(self.link, Direction::Forward)
    }
}

pub(crate) fn numbers(received: &[Received]) -> Vec<u64> {
    received.iter().map(|r| r.number).collect()
}
