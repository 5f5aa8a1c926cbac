//! What passed: an optional list of packets and an optional hash over all of them.
//!
//! Owns: [`PacketRecord`], [`Outcome`], the log's bound and the order in which the hash is fed.

use aws_lc_rs::digest;
use tautline_transport::{time::Instant, units::Ecn};

use crate::{
    Datagram, Direction, DirectionConfig, LinkId,
    link::{DirectionState, DropCause},
};

/// One packet offered to one direction of a link, or leaving its managed queue.
///
/// Every packet has one record of [`Stage::Offered`]. Where that says [`Outcome::Queued`] a later
/// one of [`Stage::Dequeued`] with the same link, direction and index says what became of it, once
/// that is decided; it repeats the packet's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord {
    /// When it was offered, or left the queue.
    pub time: Instant,
    /// The link.
    pub link: LinkId,
    /// Its direction.
    pub direction: Direction,
    /// Whether it comes or leaves.
    pub stage: Stage,
    /// Position among the packets offered to this direction, from 0.
    pub index: u64,
    /// Bytes of the IP packet.
    pub ip_bytes: u32,
    /// IP bytes that waited in the queue, this packet not counted.
    pub queue_bytes: u64,
    /// The ECN codepoint it leaves with.
    pub ecn: Ecn,
    /// Whether a byte was changed or the payload replaced.
    pub corrupted: bool,
    /// Copies delivered beyond the first.
    pub copies: u8,
    /// Whether a rule said something about it.
    pub ruled: bool,
    /// Its time at the transmitter, which may lie ahead; `None` where it never got there or waits in
    /// a managed queue.
    pub service: Option<Service>,
    /// What became of it.
    pub outcome: Outcome,
}

/// A packet's time at the transmitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// When its first byte began to be sent.
    pub start: Instant,
    /// When its last byte left.
    pub departure: Instant,
}

/// At which point of its way a packet was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It was offered to the direction.
    Offered,
    /// It left a managed queue, to be sent or dropped.
    Dequeued,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It reaches the other end at this time.
    Arrives(Instant),
    /// It vanished.
    Dropped(DropCause),
    /// It waits in a managed queue; another record will follow.
    Queued,
}

/// What one direction was like until it was changed.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) link: LinkId,
    pub(crate) direction: Direction,
    /// When it was changed.
    pub(crate) time: Instant,
    /// Records that the log held then.
    pub(crate) records: usize,
    /// Whether it was configured, not cut or mended.
    pub(crate) configured: bool,
    /// The configuration until then.
    pub(crate) config: DirectionConfig,
    /// Whether the link was up until then.
    pub(crate) up: bool,
}

/// The bounded list of packets, and what was changed meanwhile.
#[derive(Debug, Default)]
pub(crate) struct PacketLog {
    records: Vec<PacketRecord>,
    changes: Vec<Change>,
    limit: usize,
    omitted: u64,
}

impl PacketLog {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    pub(crate) fn push(&mut self, record: PacketRecord) {
        if self.records.len() < self.limit {
            self.records.push(record);
        } else {
            self.omitted += 1;
        }
    }

    pub(crate) fn records(&self) -> &[PacketRecord] {
        &self.records
    }

    /// To be called before the change is made.
    pub(crate) fn changes_now(&mut self, time: Instant, state: &DirectionState, configured: bool) {
        let (link, direction) = state.place();
        self.changes.push(Change {
            link,
            direction,
            time,
            records: self.records.len(),
            configured,
            config: state.config().clone(),
            up: state.is_up(),
        });
    }

    pub(crate) fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub(crate) fn omitted(&self) -> u64 {
        self.omitted
    }
}

/// SHA-256 over every packet offered to every link: when, where, addresses, bytes and outcome.
#[derive(Clone)]
pub(crate) struct TraceHash(digest::Context);

impl TraceHash {
    pub(crate) fn new() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }

    pub(crate) fn packet(&mut self, record: &PacketRecord, datagram: &Datagram) {
        let mut head = Head::default();
        head.put(&record.time.as_nanos().to_le_bytes());
        head.put(&(record.link.0 as u64).to_le_bytes());
        head.put(&[record.direction as u8, datagram.ecn as u8, record.ecn as u8]);
        head.put(&[u8::from(record.corrupted), record.copies]);
        head.put(&record.index.to_le_bytes());
        match record.outcome {
            Outcome::Arrives(at) => {
                head.put(&[0]);
                head.put(&at.as_nanos().to_le_bytes());
            }
            Outcome::Dropped(cause) => {
                head.put(&[1]);
                head.put(&(cause as u64).to_le_bytes());
            }
            Outcome::Queued => head.put(&[2]),
        }
        if record.stage == Stage::Dequeued {
            head.put(b"dequeued");
        }
        self.datagram(head, datagram);
    }

    /// A datagram that took no link.
    pub(crate) fn injected(&mut self, now: Instant, datagram: &Datagram) {
        let mut head = Head::default();
        head.put(&now.as_nanos().to_le_bytes());
        head.put(&u64::MAX.to_le_bytes());
        head.put(&[datagram.ecn as u8]);
        self.datagram(head, datagram);
    }

    fn datagram(&mut self, mut head: Head, datagram: &Datagram) {
        for address in [datagram.src, datagram.dst] {
            match address.ip() {
                std::net::IpAddr::V4(ip) => head.put(&ip.octets()),
                std::net::IpAddr::V6(ip) => head.put(&ip.octets()),
            }
            head.put(&address.port().to_le_bytes());
        }
        head.put(&(datagram.payload.len() as u64).to_le_bytes());
        self.0.update(head.written());
        self.0.update(&datagram.payload);
    }

    pub(crate) fn value(&self) -> [u8; 32] {
        let digest = self.0.clone().finish();
        let mut out = [0; 32];
        for (to, from) in out.iter_mut().zip(digest.as_ref()) {
            *to = *from;
        }
        out
    }
}

/// A few fixed-size fields, gathered so that the hash is fed twice per packet only.
struct Head {
    bytes: [u8; 128],
    len: usize,
}

impl Default for Head {
    fn default() -> Self {
        Self {
            bytes: [0; 128],
            len: 0,
        }
    }
}

impl Head {
    fn put(&mut self, field: &[u8]) {
        for (to, from) in self.bytes.iter_mut().skip(self.len).zip(field) {
            *to = *from;
        }
        self.len += field.len();
        debug_assert!(self.len <= self.bytes.len());
    }

    fn written(&self) -> &[u8] {
        &self.bytes[..self.len.min(self.bytes.len())]
    }
}
