//! When what arrived on a path is worth telling on another one as well. docs/spec/path-echo.md s4.
//!
//! Owns: [`Echoes`], what came since the path was echoed last. Does not own: which packet carries an echo
//! (`connection/path_frames.rs`), what the sender makes of it (`recovery/echo.rs`).

use std::time::Duration;

use crate::time::Instant;

/// Bytes that pay for an echo: a datagram that every path takes.
const PRICE: u64 = 1_200;
/// So many packets behind a gap show that what is missing there was lost. RFC 9002 s6.1.1.
const BEHIND: u8 = 3;
/// A path stands still when nothing came for this part of its round trip,
const STILL: u32 = 8;
/// and for so long at least: on shorter paths the acknowledgement is as early, and bursts are apart by chance,
const SHORTEST_STILL: Duration = Duration::from_millis(1);
/// and at most.
const LONGEST_STILL: Duration = Duration::from_millis(10);

/// Where the number of a packet stands among those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Next,
    /// Numbers before it have not arrived.
    BehindGap,
    /// Larger ones arrived before.
    Late,
}

/// What arrived on a path since it was echoed last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Echoes {
    bytes: u64,
    /// The newest packet, if one asked for an acknowledgement.
    newest: Option<Instant>,
    /// Packets since the first gap that began, the one behind it included.
    behind_gap: u8,
}

impl Echoes {
    /// A packet arrived.
    pub(super) fn on_packet(&mut self, now: Instant, ack_eliciting: bool, place: Place) {
        if ack_eliciting || self.newest.is_some() {
            self.newest = Some(now);
        }
        match place {
            Place::Next if self.behind_gap == 0 => {}
            Place::Next | Place::BehindGap => self.behind_gap = self.behind_gap.saturating_add(1),
            // What is missing was not lost, most likely.
            Place::Late => self.behind_gap = 0,
        }
    }

    pub(super) fn on_bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Whether the next packet on another path tells of it: of what was lost, or of what was the last to arrive.
    pub(super) fn is_due(&self, now: Instant, smoothed_rtt: Duration) -> bool {
        let still = (smoothed_rtt / STILL).clamp(SHORTEST_STILL, LONGEST_STILL);
        let stands = |newest: Instant| now.saturating_since(newest) >= still;
        self.bytes >= PRICE
            && self
                .newest
                .is_some_and(|newest| self.behind_gap >= BEHIND || stands(newest))
    }

    pub(super) fn on_written(&mut self) {
        // Too few behind a gap tell of no loss yet.
        let behind_gap = match self.behind_gap {
            BEHIND.. => 0,
            few => few,
        };
        *self = Self {
            behind_gap,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn what_stands_still_is_echoed_once() {
        let mut echoes = Echoes::default();
        assert!(!echoes.is_due(at(100), RTT));
        for ms in 0..10 {
            echoes.on_packet(at(ms), true, Place::Next);
            echoes.on_bytes(1_200);
            assert!(!echoes.is_due(at(ms + 4), RTT));
        }
        assert!(echoes.is_due(at(14), RTT));
        echoes.on_written();
        assert!(!echoes.is_due(at(1_000), RTT));
    }

    #[test]
    fn a_loss_is_echoed_at_once() {
        let mut echoes = Echoes::default();
        echoes.on_bytes(4_800);
        echoes.on_packet(at(0), true, Place::BehindGap);
        echoes.on_packet(at(0), true, Place::Next);
        assert!(!echoes.is_due(at(0), RTT));
        echoes.on_packet(at(0), true, Place::Next);
        assert!(echoes.is_due(at(0), RTT));
    }

    #[test]
    fn few_packets_behind_a_gap_are_counted_on() {
        let mut echoes = Echoes::default();
        echoes.on_bytes(PRICE);
        echoes.on_packet(at(0), true, Place::BehindGap);
        echoes.on_packet(at(0), true, Place::Next);
        assert!(echoes.is_due(at(5), RTT), "it stands still");
        echoes.on_written();
        echoes.on_bytes(PRICE);
        echoes.on_packet(at(5), true, Place::Next);
        assert!(echoes.is_due(at(5), RTT), "the third behind the gap");
        echoes.on_written();
        echoes.on_bytes(PRICE);
        echoes.on_packet(at(5), true, Place::Next);
        assert!(!echoes.is_due(at(5), RTT));
    }

    #[test]
    fn what_comes_late_was_not_lost() {
        let mut echoes = Echoes::default();
        echoes.on_bytes(PRICE);
        echoes.on_packet(at(0), true, Place::BehindGap);
        echoes.on_packet(at(0), true, Place::Late);
        echoes.on_packet(at(0), true, Place::Next);
        echoes.on_packet(at(0), true, Place::Next);
        assert!(!echoes.is_due(at(0), RTT));
    }

    #[test]
    fn small_packets_do_not_pay_for_echoes_nor_acknowledgements_draw_any() {
        let mut echoes = Echoes::default();
        echoes.on_bytes(PRICE - 1);
        echoes.on_packet(at(0), true, Place::BehindGap);
        assert!(!echoes.is_due(at(1_000), RTT));
        let mut echoes = Echoes::default();
        echoes.on_bytes(PRICE);
        for _ in 0..10 {
            echoes.on_packet(at(0), false, Place::BehindGap);
        }
        assert!(!echoes.is_due(at(1_000), RTT));
    }
}
