//! What connections learn of a path's losses, for those that come after them.
//!
//! Owns: [`LossMemory`], the counts that outlast a connection, and [`LossStore`], which keeps those
//! of many peers. Does not own: counting (`loss_monitor.rs`), when counts are kept and taken up
//! (`connection/fec.rs`).

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::time::Instant;

/// So many packets, at most, a memory weighs beside those of the connection itself.
const MOST_PACKETS: f64 = 200.0;
/// After this time a memory weighs half.
const HALF_LIFE: Duration = Duration::from_secs(600);
/// What weighs less than so many packets is forgotten.
const LEAST_PACKETS: f64 = 4.0;
/// More than any count can be.
const LARGEST: f64 = 1e9;

/// Counts of a loss monitor: which packets arrived, which were lost, and in what runs. Old packets
/// count less.
///
/// [`Connection::loss_memory`](crate::connection::Connection::loss_memory) tells that of a connection;
/// [`FecConfig::loss_memory`](super::FecConfig) gives it to another. It begins there with half of its
/// weight, at most that of 200 packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossMemory {
    pub(super) counts: [f64; LossMemory::COUNTS],
}

impl LossMemory {
    /// How many counts there are.
    pub(super) const COUNTS: usize = 13;
    /// Bytes of [`Self::to_bytes`].
    pub const BYTES: usize = 8 * Self::COUNTS;
    /// Pairs of counts of which the first cannot be the larger.
    const PARTS: [(usize, usize); 6] = [(3, 2), (5, 4), (6, 7), (7, 8), (9, 10), (11, 12)];

    /// Packets that it rests on, old ones counted less.
    pub fn packets(&self) -> f64 {
        self.count(0) + self.count(1)
    }

    /// Share of them that were lost, 0 to 1; 0 if there are none.
    pub fn rate(&self) -> f64 {
        let packets = self.packets();
        if packets > 0.0 {
            self.count(1) / packets
        } else {
            0.0
        }
    }

    fn count(&self, index: usize) -> f64 {
        self.counts.get(index).copied().unwrap_or(0.0)
    }

    /// What is left of it after some time: half after ten minutes. `None` when that is next to
    /// nothing.
    #[must_use]
    pub fn aged(&self, age: Duration) -> Option<Self> {
        let factor = (-age.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2();
        let aged = self.scaled(factor);
        (aged.packets() >= LEAST_PACKETS).then_some(aged)
    }

    /// With the weight that it has in the beginning of another connection.
    pub(super) fn discounted(&self) -> Self {
        let packets = self.packets();
        let most = if packets > 0.0 {
            MOST_PACKETS / packets
        } else {
            0.0
        };
        self.scaled(most.min(0.5))
    }

    fn scaled(&self, factor: f64) -> Self {
        Self {
            counts: self.counts.map(|count| count * factor),
        }
    }

    /// For keeping it beyond the process: the counts as IEEE 754 numbers, big-endian.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (out, count) in bytes.chunks_exact_mut(8).zip(self.counts) {
            out.copy_from_slice(&count.to_be_bytes());
        }
        bytes
    }

    /// Of [`Self::to_bytes`]; `None` for another length, and for what no monitor can have counted.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let mut memory = Self::default();
        for (count, of) in memory.counts.iter_mut().zip(bytes.chunks_exact(8)) {
            *count = f64::from_be_bytes(of.try_into().ok()?);
            if !(0.0..=LARGEST).contains(count) {
                return None;
            }
        }
        // Sums that fade together differ by rounding at most.
        let sound = |(part, whole)| memory.count(part) <= memory.count(whole) * 1.001 + 1e-6;
        Self::PARTS.into_iter().all(sound).then_some(memory)
    }
}

/// Keeps loss memories by the peer's IP address, for the connections of one endpoint, or of all that
/// use one clock: with [`FecConfig::loss_store`](super::FecConfig) in several configurations, those
/// connections share it. When full, the peer that was heard of longest ago is forgotten.
///
/// Memory: about 200 bytes for each peer. Peers behind one address share what is known of it.
#[derive(Debug)]
pub struct LossStore {
    most: usize,
    peers: Mutex<Peers>,
}

#[derive(Debug, Default)]
struct Peers {
    by_address: BTreeMap<IpAddr, Kept>,
    /// The same by when they were kept.
    by_age: BTreeMap<u64, IpAddr>,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    order: u64,
    at: Instant,
    memory: LossMemory,
}

impl LossStore {
    /// For so many peers, at least one.
    pub fn new(most_peers: usize) -> Self {
        Self {
            most: most_peers.max(1),
            peers: Mutex::default(),
        }
    }

    /// How many peers are remembered.
    pub fn len(&self) -> usize {
        self.with(|peers| peers.by_address.len())
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps a memory in place of the one that `peer` had. One that rests on next to nothing changes
    /// nothing.
    pub fn keep(&self, peer: IpAddr, now: Instant, memory: LossMemory) {
        if memory.packets() < LEAST_PACKETS {
            return;
        }
        self.with(|peers| {
            let order = peers.next;
            peers.next += 1;
            let peer = peer.to_canonical();
            let kept = Kept {
                order,
                at: now,
                memory,
            };
            if let Some(before) = peers.by_address.insert(peer, kept) {
                peers.by_age.remove(&before.order);
            }
            peers.by_age.insert(order, peer);
            while peers.by_address.len() > self.most
                && let Some((_, oldest)) = peers.by_age.pop_first()
            {
                peers.by_address.remove(&oldest);
            }
        });
    }

    /// What is still known of `peer`.
    pub fn recall(&self, peer: IpAddr, now: Instant) -> Option<LossMemory> {
        let peer = peer.to_canonical();
        let kept = self.with(|peers| peers.by_address.get(&peer).copied())?;
        kept.memory.aged(now.saturating_since(kept.at))
    }

    fn with<R>(&self, f: impl FnOnce(&mut Peers) -> R) -> R {
        // Who panicked while holding it left it whole: nothing in here can.
        f(&mut self.peers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Default for LossStore {
    /// 1,024 peers.
    fn default() -> Self {
        Self::new(1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fec::LossMonitor;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn memory(packets: u64, every: u64) -> LossMemory {
        let mut monitor = LossMonitor::default();
        for number in 0..packets {
            monitor.on_sent(number);
            if number % every < every / 10 {
                monitor.on_lost(number);
            } else {
                monitor.on_acked(number);
            }
        }
        monitor.review();
        monitor.memory().unwrap()
    }

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn another_monitor_goes_on_with_less_weight() {
        let memory = memory(1_000, 20);
        let mut next = LossMonitor::with_memory(&memory);
        let begins = next.estimate();
        assert!((begins.packets - 200.0).abs() < 1e-6, "{begins:?}");
        assert!((begins.rate - memory.rate()).abs() < 1e-9);
        assert!((begins.burst_mean - 2.0).abs() < 1e-6);
        assert!((begins.arrival_after_loss - 0.5).abs() < 0.05);
        assert!(begins.now.1 > 0.0 && !begins.tense);
        // What it learnt itself is nothing yet.
        assert_eq!(next.memory(), None);
        for number in 0..1_000 {
            next.on_sent(number);
            next.on_acked(number);
        }
        next.review();
        assert!(next.estimate().rate < 0.2 * memory.rate());
        assert!(next.memory().is_some());
        // Few packets count half.
        let few = self::memory(40, 10);
        let begins = LossMonitor::with_memory(&few).estimate();
        assert!((begins.packets - few.packets() / 2.0).abs() < 1e-6);
        assert_eq!(
            LossMonitor::with_memory(&LossMemory::default()).estimate(),
            {
                let mut new = LossMonitor::default();
                new.review();
                new.estimate()
            }
        );
    }

    #[test]
    fn bytes_come_back_and_nonsense_does_not() {
        let memory = memory(500, 20);
        assert_eq!(LossMemory::from_bytes(&memory.to_bytes()), Some(memory));
        assert_eq!(LossMemory::from_bytes(&memory.to_bytes()[1..]), None);
        for (index, value) in [
            (0, f64::NAN),
            (1, -1.0),
            (2, f64::INFINITY),
            (3, memory.counts[2] + 1.0),
            (12, 1e10),
        ] {
            let mut wrong = memory;
            wrong.counts[index] = value;
            assert_eq!(LossMemory::from_bytes(&wrong.to_bytes()), None, "{index}");
        }
    }

    #[test]
    fn a_store_ages_and_is_bounded() {
        let store = LossStore::new(2);
        let memory = memory(1_000, 20);
        store.keep(peer(1), NOW, LossMemory::default());
        assert!(store.is_empty());
        for last in 1..=3 {
            store.keep(peer(last), NOW, memory);
        }
        assert_eq!(store.len(), 2);
        assert_eq!(store.recall(peer(1), NOW), None);
        // One that was heard of again is not the oldest.
        store.keep(peer(2), NOW, memory);
        store.keep(peer(4), NOW, memory);
        assert_eq!(store.recall(peer(3), NOW), None);
        let half = store.recall(peer(2), NOW + HALF_LIFE).unwrap();
        assert!((half.packets() - memory.packets() / 2.0).abs() < 1e-6);
        assert!((half.rate() - memory.rate()).abs() < 1e-9);
        assert_eq!(store.recall(peer(2), NOW + 20 * HALF_LIFE), None);
        // A clock that went back makes nothing older.
        assert_eq!(store.recall(peer(2), Instant::ZERO), Some(memory));
        let mapped = IpAddr::from([0, 0, 0, 0, 0, 0xffff, 0x0a00, 0x0002]);
        assert_eq!(store.recall(mapped, NOW), Some(memory));
        assert_eq!(store.len(), 2);
    }
}
