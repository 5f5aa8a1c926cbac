//! What a sender of data can tell of the way its acknowledgements take.
//!
//! Owns: [`ReturnPath`], which judges, round trip by round trip, whether that way drops packets or
//! marks them CE.
//! Does not own: what follows from it (`asymmetric.rs`). Spec: RFC 5690 s4.4.
//!
//! TCP has to guess from jumps of the acknowledgement field. QUIC numbers every packet, those that
//! hold only an ACK too: a number that does not come is a packet that was dropped. How long ACKs
//! wait cannot be told from a round-trip time, in which our own queue on the way there is mostly
//! the larger part.

use super::SendView;

/// Packets of the peer that a verdict rests on at least.
const MIN_EXPECTED: u64 = 8;
/// Rounds after which a verdict rests on what there is.
const MAX_ROUNDS: u32 = 4;
/// Of the peer's packets one in this many may be missing: wires lose some too, and peers leave
/// numbers out on purpose.
const TOLERATED: u64 = 50;

/// What the last round trips have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Too little, or it tells of a time before the last change.
    Unknown,
    /// Packets of the peer's are missing or marked; so many ACKs came per round trip.
    Congested {
        /// Packets with an ACK that came, per round trip.
        acks: u64,
    },
    /// What was sent came.
    Calm {
        /// Round trips this holds for.
        rounds: u32,
    },
}

/// Counters at the start of the rounds under judgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReturnPath {
    received: u64,
    missing: u64,
    marked: u64,
    acks: u64,
    /// Reviews since then.
    rounds: u32,
    /// What comes next was sent before the peer knew of our answer to congestion.
    blind: bool,
}

impl ReturnPath {
    /// A round trip has passed. `thinned`: whether ACKs are rare already.
    pub(super) fn on_round(&mut self, view: &SendView, thinned: bool) -> Verdict {
        if std::mem::take(&mut self.blind) {
            self.restart(view);
            return Verdict::Unknown;
        }
        self.rounds += 1;
        let came = view.packets_returned.saturating_sub(self.received);
        // Late packets may have come since: then less is missing than was.
        let missing = view.packets_missing.saturating_sub(self.missing);
        let marked = view.packets_marked.saturating_sub(self.marked);
        let expected = came.saturating_add(missing);
        if expected < MIN_EXPECTED && self.rounds < MAX_ROUNDS {
            return Verdict::Unknown;
        }
        let rounds = self.rounds;
        let acks = view.acks_received.saturating_sub(self.acks) / u64::from(rounds);
        self.restart(view);
        // One number may have been left out on purpose. Where ACKs are rare the mistake costs
        // little, and two in a round would be many.
        let least = if thinned { 1 } else { 2 };
        let hit = missing.saturating_add(marked);
        if hit >= least && hit.saturating_mul(TOLERATED) > expected {
            self.blind = true;
            return Verdict::Congested { acks };
        }
        Verdict::Calm { rounds }
    }

    /// What was counted so far belongs to another path.
    pub(super) fn forget(&mut self) {
        self.blind = true;
    }

    fn restart(&mut self, view: &SendView) {
        self.received = view.packets_returned;
        self.missing = view.packets_missing;
        self.marked = view.packets_marked;
        self.acks = view.acks_received;
        self.rounds = 0;
    }
}
