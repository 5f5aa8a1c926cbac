//! Congestion control of the peer's acknowledgements: how many may come per round trip.
//!
//! Owns: [`AckBudget`], what `asymmetric` knows of the return path. Does not own: what is asked of
//! the peer for it (`asymmetric.rs`). Spec: RFC 5690 s4.4-4.5, told in packets per round trip.

use super::SendView;

/// Fewer ACKs than this per round trip are never wished for: windows keep moving in steps of an
/// eighth, losses show within an eighth of a round trip. RFC 5690 s4.5 rule 2 has two.
pub(super) const FLOOR: u64 = 8;
/// Packets of the peer that a verdict rests on at least.
const MIN_EXPECTED: u64 = 8;
/// Rounds after which a verdict rests on what there is.
const MAX_ROUNDS: u32 = 4;
/// Of the peer's packets one in this many may be missing: wires lose some too, and peers leave
/// numbers out on purpose.
const TOLERATED: u64 = 50;

/// ACKs that the return path may be asked to carry per round trip.
///
/// Multiplicative decrease: when packets of the peer's are missing, half of the ACKs that did come.
/// Additive increase: one more per round trip, for as long as fewer come than RFC 9000 would have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckBudget {
    /// `None`: as many as RFC 9000 has.
    per_round: Option<u64>,
    /// Counters at the start of the rounds under judgement.
    received: u64,
    missing: u64,
    acks: u64,
    /// Reviews since then.
    rounds: u32,
    /// What comes next was sent before the peer knew of the last cut.
    blind: bool,
}

impl AckBudget {
    /// ACKs per round trip, `None` for as many as RFC 9000 has.
    pub(super) fn per_round(&self) -> Option<u64> {
        self.per_round
    }

    /// A round trip has passed.
    pub(super) fn on_round(&mut self, view: &SendView) {
        if std::mem::take(&mut self.blind) {
            self.restart(view);
            return;
        }
        self.rounds += 1;
        let came = view.packets_received.saturating_sub(self.received);
        // Packets out of order may have come since: less is missing than was.
        let missing = view.packets_missing.saturating_sub(self.missing);
        let expected = came.saturating_add(missing);
        if expected < MIN_EXPECTED && self.rounds < MAX_ROUNDS {
            return;
        }
        let acks = view.acks_received.saturating_sub(self.acks) / u64::from(self.rounds);
        if self.is_congested(missing, expected) {
            let carried = self.per_round.map_or(acks, |budget| budget.min(acks));
            self.per_round = Some((carried / 2).max(FLOOR));
            self.blind = true;
        } else if let Some(budget) = &mut self.per_round {
            *budget = budget.saturating_add(u64::from(self.rounds));
        }
        self.restart(view);
    }

    /// The return path carries whatever RFC 9000 has.
    pub(super) fn lift(&mut self) {
        self.per_round = None;
    }

    fn is_congested(&self, missing: u64, expected: u64) -> bool {
        // One number may have been left out on purpose. Where ACKs are rare already the mistake
        // costs little, and two in a round would be many.
        let least = if self.per_round.is_some() { 1 } else { 2 };
        missing >= least && missing.saturating_mul(TOLERATED) > expected
    }

    fn restart(&mut self, view: &SendView) {
        self.received = view.packets_received;
        self.missing = view.packets_missing;
        self.acks = view.acks_received;
        self.rounds = 0;
    }
}
