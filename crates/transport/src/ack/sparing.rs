//! What a receiver of data does for its return path where the peer asks for nothing.
//!
//! Owns: [`Sparing`]. Does not own: the rules that its threshold goes into (`rules.rs`).
//! Spec: RFC 9000 s13.2.2, which recommends an ACK for every second packet and leaves room.

use super::SendView;

/// One ACK answers no more packets than this unless the peer asks for it.
const MOST_PACKETS: u64 = 16;
/// And a round trip keeps this many ACKs.
const ACKS_PER_ROUND: u64 = 16;
/// Of our own packets one in this many may be lost.
const TOLERATED: u64 = 50;
/// Round trips without a loss after which ACKs become twice as frequent.
const CALM_ROUNDS: u32 = 16;

/// Packets per ACK, doubled and halved by what becomes of our own packets.
///
/// A pure receiver has about one ack-eliciting packet under way at any time: the PING that rides
/// with an ACK now and then (RFC 9000 s13.2.4). Its loss is the only news of ACKs that were lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sparing {
    packets: u64,
    acked: u64,
    lost: u64,
    received: u64,
    calm: u32,
}

impl Sparing {
    pub(super) const fn new() -> Self {
        Self {
            packets: 2,
            acked: 0,
            lost: 0,
            received: 0,
            calm: 0,
        }
    }

    /// What was learned so far belongs to another path.
    pub(super) fn forget(&mut self) {
        self.packets = 2;
        self.calm = 0;
    }

    /// A round trip has passed. Returns the ack-eliciting threshold to go by: 1, as RFC 9000
    /// recommends, or more.
    pub(super) fn on_round(&mut self, view: &SendView) -> u64 {
        let acked = view.packets_acked.saturating_sub(self.acked);
        let lost = view.packets_lost.saturating_sub(self.lost);
        let received = view.packets_received.saturating_sub(self.received);
        (self.acked, self.lost) = (view.packets_acked, view.packets_lost);
        self.received = view.packets_received;
        if lost > 0 && lost.saturating_mul(TOLERATED) > lost.saturating_add(acked) {
            self.packets = (self.packets * 2).min(MOST_PACKETS);
            self.calm = 0;
        } else if acked > 0 && self.packets > 2 {
            self.calm += 1;
            if self.calm >= CALM_ROUNDS {
                self.packets = (self.packets / 2).max(2);
                self.calm = 0;
            }
        }
        let packets = self.packets.min(received / ACKS_PER_ROUND).max(2);
        packets - 1
    }
}
