//! Which packets left beside repair symbols.
//!
//! Owns: [`Company`]: how many did and how many of them were lost, and the same of those that left alone. Does not own: what
//! follows of that (`fec/redundancy/`), losses as such (`loss_monitor.rs`).

use std::{collections::VecDeque, time::Duration};

use super::Departure;
use crate::{
    fec::redundancy::{ByCompany, Fates},
    time::Instant,
    units::{PacketNumber, PathId, Rows},
};

/// Changes from one to the other that are remembered. 16 bytes each.
const REMEMBERED: usize = 64;

/// Packets of a path by whether a repair symbol had left within a round trip before.
#[derive(Debug, Default)]
pub(super) struct Company {
    path: PathId,
    /// From which packet on they left beside repair symbols, or alone.
    changes: VecDeque<(PacketNumber, bool)>,
    last_repair: Option<Instant>,
    lost: Rows,
    seen: ByCompany,
}

impl Company {
    /// A packet left, with a repair symbol or not, where a round trip takes so long.
    #[inline]
    pub(super) fn on_sent(&mut self, packet: Departure, is_repair: bool, round_trip: Duration) {
        let begins = self.path != packet.path || self.changes.is_empty();
        if is_repair || self.last_repair.is_some() || begins {
            self.on_any_sent(packet, is_repair, round_trip);
        } else {
            self.seen.alone.packets += 1;
        }
    }

    fn on_any_sent(&mut self, packet: Departure, is_repair: bool, round_trip: Duration) {
        if self.path != packet.path {
            self.path = packet.path;
            self.changes.clear();
            self.last_repair = None;
        }
        if is_repair {
            self.last_repair = Some(packet.at);
        }
        let beside = self
            .last_repair
            .is_some_and(|last| packet.at.saturating_since(last) <= round_trip);
        if self.changes.back().is_none_or(|(_, was)| *was != beside) {
            if self.changes.len() >= REMEMBERED {
                self.changes.pop_front();
            }
            self.changes.push_back((packet.number, beside));
        }
        self.of(beside).packets += 1;
    }

    fn of(&mut self, beside: bool) -> &mut Fates {
        if beside {
            &mut self.seen.beside_repairs
        } else {
            &mut self.seen.alone
        }
    }

    pub(super) fn on_lost(&mut self, path: PathId, number: PacketNumber) {
        let since = self.changes.iter().rev().find(|(from, _)| *from <= number);
        let Some((_, beside)) = since.copied().filter(|_| path == self.path) else {
            return;
        };
        let begins = self.lost.begins(number);
        let fates = self.of(beside);
        fates.lost += 1;
        fates.rows += u64::from(begins);
    }

    pub(super) fn seen(&self) -> ByCompany {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::{super::departures::tests::packet, *};

    const RTT: Duration = Duration::from_millis(10);

    fn fates(packets: u64, lost: u64, rows: u64) -> Fates {
        Fates {
            packets,
            lost,
            rows,
        }
    }

    #[test]
    fn for_a_round_trip_after_a_repair_symbol() {
        let mut company = Company::default();
        for number in 0..100 {
            company.on_sent(packet(0, number), number == 20, RTT);
        }
        for number in [5, 20, 21, 30, 31, 99] {
            company.on_lost(PathId(0), number);
        }
        let seen = company.seen();
        assert_eq!(seen.beside_repairs, fates(11, 3, 2));
        assert_eq!(seen.alone, fates(89, 3, 2), "31 follows 30");
    }

    #[test]
    fn of_the_latest_path_and_no_more_than_is_bounded() {
        let mut company = Company::default();
        for number in 0..10_000 {
            company.on_sent(packet(0, number), number % 20 == 0, RTT);
        }
        assert_eq!(company.changes.len(), REMEMBERED);
        company.on_lost(PathId(0), 10);
        company.on_lost(PathId(1), 9_999);
        assert_eq!(company.seen().alone.lost, 0, "forgotten");
        company.on_sent(packet(1, 7), false, RTT);
        company.on_lost(PathId(0), 9_999);
        company.on_lost(PathId(1), 7);
        assert_eq!(company.seen().alone.lost, 1);
        assert_eq!(company.seen().beside_repairs.lost, 0);
    }
}
