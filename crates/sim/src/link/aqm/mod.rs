//! Active queue management: queues that decide at the moment a packet leaves.
//!
//! Purpose: CoDel and FQ-CoDel instead of drop-tail.
//! Owns: [`Aqm`], the packets of such a queue and their order.
//! Does not own: the transmitter behind it (`server.rs`), events (`world`), drop-tail
//! (`transmitter.rs`, which needs no event of its own).
//! To add a discipline: a variant of [`Aqm`] and of [`Discipline`].

mod codel;
mod fq_codel;

use std::{collections::VecDeque, time::Duration};

use serde::{Deserialize, Serialize};
use tautline_transport::{time::Instant, units::Ecn};

use self::{codel::Codel, fq_codel::FqCodel};
use super::{
    config::{ConfigError, delay},
    direction::Ticket,
    queue::Limit,
};
use crate::{Datagram, draw::Draws, text};

/// How a queue is managed beyond its size.
///
/// ```toml
/// aqm = { model = "fq-codel", target = "5 ms", interval = "100 ms", ecn = true }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Aqm {
    /// Drop-tail; the fastest to simulate.
    #[default]
    None,
    /// CoDel (RFC 8289): drops at the head once packets have waited longer than `target` for an
    /// `interval`.
    Codel {
        /// Waiting time that may stand. Default 5 ms.
        #[serde(default = "target", with = "text::duration")]
        target: Duration,
        /// Time in which a queue must have been short once. Default 100 ms.
        #[serde(default = "interval", with = "text::duration")]
        interval: Duration,
        /// Mark ECN-capable packets CE instead of dropping them. Default false.
        #[serde(default)]
        ecn: bool,
    },
    /// FQ-CoDel (RFC 8290): one CoDel queue per flow, served by deficit round robin, new flows
    /// first. A flow is a hash of addresses, ports and protocol.
    FqCodel {
        /// As in CoDel. Default 5 ms.
        #[serde(default = "target", with = "text::duration")]
        target: Duration,
        /// As in CoDel. Default 100 ms.
        #[serde(default = "interval", with = "text::duration")]
        interval: Duration,
        /// IP bytes that a flow may send per round. Default 1514.
        #[serde(default = "quantum")]
        quantum: u32,
        /// Queues that flows are hashed into, 1 to 65536. Default 1024.
        #[serde(default = "flows")]
        flows: u32,
        /// Packets that may wait in all queues together, at least 1; the direction's `queue`
        /// bounds them too. Above it the flow with the most bytes loses packets at its head.
        /// Default 10240.
        #[serde(default = "limit")]
        limit: u64,
        /// Mark ECN-capable packets CE instead of dropping them. Default true.
        #[serde(default = "ecn")]
        ecn: bool,
    },
}

const fn target() -> Duration {
    Duration::from_millis(5)
}

const fn interval() -> Duration {
    Duration::from_millis(100)
}

const fn quantum() -> u32 {
    1514
}

const fn flows() -> u32 {
    1024
}

const fn limit() -> u64 {
    10_240
}

const fn ecn() -> bool {
    true
}

impl Aqm {
    /// CoDel with the document's parameters, dropping.
    pub const fn codel() -> Self {
        Self::Codel {
            target: target(),
            interval: interval(),
            ecn: false,
        }
    }

    /// FQ-CoDel with the document's parameters, marking what can be marked.
    pub const fn fq_codel() -> Self {
        Self::FqCodel {
            target: target(),
            interval: interval(),
            quantum: quantum(),
            flows: flows(),
            limit: limit(),
            ecn: ecn(),
        }
    }

    /// Whether this is [`Aqm::None`].
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Whether every parameter is possible.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let (target, interval) = match *self {
            Self::None => return Ok(()),
            Self::Codel {
                target, interval, ..
            } => (target, interval),
            Self::FqCodel {
                target,
                interval,
                quantum,
                flows,
                limit,
                ..
            } => {
                if !(1..=1 << 20).contains(&quantum) {
                    let problem = format!("{quantum} is not between 1 and 1048576 bytes");
                    return Err(ConfigError::new("quantum", problem));
                }
                if !(1..=1 << 16).contains(&flows) {
                    let problem = format!("{flows} is not between 1 and 65536");
                    return Err(ConfigError::new("flows", problem));
                }
                if limit == 0 {
                    return Err(ConfigError::new(
                        "limit",
                        "is zero: nothing could ever wait",
                    ));
                }
                (target, interval)
            }
        };
        delay("target", target)?;
        delay("interval", interval)?;
        if interval.is_zero() {
            return Err(ConfigError::new("interval", "is zero"));
        }
        Ok(())
    }
}

/// A packet in a managed queue.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) datagram: Datagram,
    pub(crate) ticket: Ticket,
    pub(crate) ip_bytes: u32,
    pub(crate) since: Instant,
    /// Whether the discipline marked it CE.
    pub(crate) marked: bool,
}

impl Waiting {
    /// Marks it CE; false when it cannot be marked.
    fn mark(&mut self) -> bool {
        if self.datagram.ecn == Ecn::NotEct {
            return false;
        }
        self.marked = self.datagram.ecn != Ecn::Ce;
        self.datagram.ecn = Ecn::Ce;
        true
    }
}

/// Why a discipline gave a packet up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The queue is full.
    Full,
    /// CoDel's decision.
    Managed,
}

/// Packets that a discipline gave up, in order.
pub(crate) type Victims = Vec<(Waiting, Reason)>;

/// First in, first out, with a count of bytes.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    packets: VecDeque<Waiting>,
    bytes: u64,
}

impl Fifo {
    fn push(&mut self, packet: Waiting) {
        self.bytes += u64::from(packet.ip_bytes);
        self.packets.push_back(packet);
    }

    fn pop(&mut self) -> Option<Waiting> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.ip_bytes);
        Some(packet)
    }
}

/// CoDel's parameters in effect.
#[derive(Clone, Copy, Debug)]
struct Parameters {
    target: Duration,
    interval: Duration,
    ecn: bool,
    /// A queue of no more than one packet of this size is never too long.
    mtu: u32,
}

#[derive(Debug)]
enum Discipline {
    Codel {
        parameters: Parameters,
        control: Codel,
        queue: Fifo,
    },
    FqCodel(FqCodel),
}

/// A managed queue: what waits, and who leaves next.
#[derive(Debug)]
pub(crate) struct ManagedQueue {
    discipline: Discipline,
    limit: Limit,
    bytes: u64,
    packets: u64,
}

impl ManagedQueue {
    /// `None` for drop-tail. `limit` is that of the direction's `queue`.
    pub(crate) fn new(aqm: Aqm, limit: Limit, mtu: u16, draws: Draws) -> Option<Self> {
        let mtu = u32::from(mtu);
        let (discipline, limit) = match aqm {
            Aqm::None => return None,
            Aqm::Codel {
                target,
                interval,
                ecn,
            } => {
                let parameters = Parameters {
                    target,
                    interval,
                    ecn,
                    mtu,
                };
                let discipline = Discipline::Codel {
                    parameters,
                    control: Codel::default(),
                    queue: Fifo::default(),
                };
                (discipline, limit)
            }
            Aqm::FqCodel {
                target,
                interval,
                quantum,
                flows,
                limit: packets,
                ecn,
            } => {
                let parameters = Parameters {
                    target,
                    interval,
                    ecn,
                    mtu,
                };
                let limit = Limit {
                    packets: limit.packets.min(packets),
                    ..limit
                };
                let fq = FqCodel::new(parameters, quantum, flows, draws);
                (Discipline::FqCodel(fq), limit)
            }
        };
        Some(Self {
            discipline,
            limit,
            bytes: 0,
            packets: 0,
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Applies from now on.
    pub(crate) fn set_limit(&mut self, limit: Limit, aqm: Aqm) {
        self.limit = limit;
        if let Aqm::FqCodel { limit: packets, .. } = aqm {
            self.limit.packets = limit.packets.min(packets);
        }
    }

    /// Queues a packet. `idle`: the transmitter is free, so that the packet will not wait.
    pub(crate) fn push(&mut self, packet: Waiting, idle: bool, victims: &mut Victims) {
        let over = |queue: &Self, bytes: u64, packets: u64| {
            bytes > queue.limit.bytes || packets > queue.limit.packets
        };
        let (bytes, packets) = (self.bytes + u64::from(packet.ip_bytes), self.packets + 1);
        let full = !idle && over(self, bytes, packets);
        match &mut self.discipline {
            Discipline::Codel { .. } if full => victims.push((packet, Reason::Full)),
            Discipline::Codel { queue, .. } => {
                queue.push(packet);
                (self.bytes, self.packets) = (bytes, packets);
            }
            Discipline::FqCodel(fq) => {
                fq.push(packet);
                (self.bytes, self.packets) = (bytes, packets);
                while !idle
                    && over(self, self.bytes, self.packets)
                    && let Discipline::FqCodel(fq) = &mut self.discipline
                    && let Some(victim) = fq.drop_from_fattest()
                {
                    self.bytes -= u64::from(victim.ip_bytes);
                    self.packets -= 1;
                    victims.push((victim, Reason::Full));
                }
            }
        }
    }

    /// The packet to send now; those that are dropped on the way go to `victims`.
    pub(crate) fn pop(&mut self, now: Instant, victims: &mut Victims) -> Option<Waiting> {
        let before = victims.len();
        let packet = match &mut self.discipline {
            Discipline::Codel {
                parameters,
                control,
                queue,
            } => control.pop(parameters, now, queue, victims),
            Discipline::FqCodel(fq) => fq.pop(now, victims),
        };
        let gone = victims.iter().skip(before).map(|(packet, _)| packet);
        for gone in gone.chain(&packet) {
            self.bytes -= u64::from(gone.ip_bytes);
            self.packets -= 1;
        }
        packet
    }

    /// Empties the queue without any decision, in the order in which packets would leave.
    pub(crate) fn drain(&mut self) -> Vec<Waiting> {
        (self.bytes, self.packets) = (0, 0);
        let mut all = match &mut self.discipline {
            Discipline::Codel { queue, .. } => std::mem::take(queue).packets.into(),
            Discipline::FqCodel(fq) => fq.drain(),
        };
        all.sort_by_key(|packet: &Waiting| packet.ticket.index);
        all
    }
}
