//! What using a path costs: paths that are metered, and how much they may carry.
//!
//! Owns: [`PathCost`], what a path has carried of it ([`CostMeter`]). Does not own: the choice among paths
//! of one class (`sched/`), what happens at the cap (`connection/costs.rs`).

use super::PathStatus;

/// The share of its cap at which a path is said to be near it.
const NEAR: f64 = 0.9;

/// What using a path costs. By default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathCost {
    /// Of the paths that work, data goes on those of the smallest class alone; 0 is not metered. The peer
    /// is asked to keep a path of another class in reserve ([`PathStatus::Backup`]).
    pub class: u8,
    /// Bytes of QUIC packets, sent and received, that the path may carry in its life; `None`: any. At nine
    /// tenths of it both ends keep the path in reserve. We never send more. What the peer has sent before it hears that the path is closed may come above it.
    pub cap_bytes: Option<u64>,
}

impl PathCost {
    /// To be used only when no other path works.
    pub const fn metered() -> Self {
        Self {
            class: 1,
            cap_bytes: None,
        }
    }

    /// Another class: smaller ones are used first.
    #[must_use]
    pub const fn class(mut self, class: u8) -> Self {
        self.class = class;
        self
    }

    /// Carries so many bytes and no more.
    #[must_use]
    pub const fn cap(mut self, bytes: u64) -> Self {
        self.cap_bytes = Some(bytes);
        self
    }

    /// What the peer is asked for.
    pub(crate) fn status(self) -> PathStatus {
        match self.class {
            0 => PathStatus::Available,
            _ => PathStatus::Backup,
        }
    }
}

/// How much of its cap a path has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CapUse {
    #[default]
    Some,
    Near,
    /// No further datagram may leave.
    All,
}

/// A path's cost, and what was told of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CostMeter {
    pub(crate) cost: PathCost,
    told: CapUse,
}

impl CostMeter {
    /// Takes another cost; what it says of the cap is told anew.
    pub(crate) fn set(&mut self, cost: PathCost) {
        *self = Self {
            cost,
            told: CapUse::Some,
        };
    }

    /// Whether the peer was asked for the same as with `cost`, and for nothing since.
    pub(crate) fn asks_the_same(&self, cost: PathCost) -> bool {
        self.told == CapUse::Some && self.cost.status() == cost.status()
    }

    /// Bytes that may leave, of a path that has carried so many.
    pub(crate) fn room(&self, carried: u64) -> u64 {
        self.cost
            .cap_bytes
            .map_or(u64::MAX, |cap| cap.saturating_sub(carried))
    }

    /// What is new about the cap, of a path that has carried so many bytes in datagrams of such a size.
    pub(crate) fn news(&mut self, carried: u64, datagram: u64) -> Option<CapUse> {
        let cap = self.cost.cap_bytes?;
        let used = if self.room(carried) < datagram {
            CapUse::All
        } else if carried as f64 >= NEAR * cap as f64 {
            CapUse::Near
        } else {
            CapUse::Some
        };
        (used > self.told).then(|| {
            self.told = used;
            used
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_is_told_of_in_two_steps() {
        let mut meter = CostMeter::default();
        assert_eq!(
            (meter.room(1 << 40), meter.news(1 << 40, 1200)),
            (u64::MAX, None)
        );
        meter.set(PathCost::metered().cap(100_000));
        assert_eq!(meter.news(89_999, 1200), None);
        assert_eq!(meter.news(90_000, 1200), Some(CapUse::Near));
        assert_eq!(meter.news(98_000, 1200), None);
        assert_eq!(meter.room(98_800), 1200);
        assert_eq!(meter.news(98_801, 1200), Some(CapUse::All));
        assert_eq!(meter.news(200_000, 1200), None);
        assert_eq!(meter.room(200_000), 0);
        meter.set(PathCost::metered().cap(1_000));
        assert_eq!(
            meter.news(0, 1200),
            Some(CapUse::All),
            "too small for anything"
        );
    }

    #[test]
    fn the_peer_is_asked_to_spare_what_costs() {
        assert_eq!(PathCost::default().cap(1).status(), PathStatus::Available);
        assert_eq!(PathCost::metered().status(), PathStatus::Backup);
        assert_eq!(PathCost::metered().class(2).class, 2);
    }
}
