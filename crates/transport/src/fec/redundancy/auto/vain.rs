//! Bursts that are protected for nothing.
//!
//! Owns: [`Vain`]: whether burst after burst had source headers and none a repair symbol. Does not own: why (`worth.rs`,
//! `spare.rs`, `effect.rs`).
//!
//! A source header is four bytes or more, and a packet more where the data just fits. On a link that is nearly full the requests
//! for what others answer are late for these alone.

use std::time::Duration;

use crate::{fec::redundancy::RedundancyView, time::Instant};

/// Bursts in a row without a repair symbol, after which they leave plain for a while.
const BURSTS: u32 = 4;
/// For how long, and at most: twice as long each time, until there is use for a repair symbol.
const SILENT: Duration = Duration::from_secs(1);
const MOST_SILENT: Duration = Duration::from_secs(16);
/// A burst that is so many times as long is another one.
const GROWN: u64 = 2;

/// How many were, and until when nothing is protected for that.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Vain {
    bursts: u32,
    /// Of the longest of them.
    bytes: u64,
    silent: Option<(Instant, Duration)>,
}

impl Vain {
    /// A burst ended, with so many repair symbols.
    pub(super) fn on_burst_end(&mut self, view: &RedundancyView, repairs: u16) {
        if repairs > 0 || view.repairs_in_flight > 0 || view.queued > 0 {
            *self = Self::default();
            return;
        }
        self.bursts += 1;
        self.bytes = self.bytes.max(view.left_bytes);
        if self.bursts >= BURSTS {
            let before = self.silent.map_or(Duration::ZERO, |(_, before)| before);
            let silent = (before * 2).clamp(SILENT, MOST_SILENT);
            self.bursts = 0;
            self.silent = Some((view.now + silent, silent));
        }
    }

    /// Whether nothing is protected now.
    pub(super) fn is_silent(&self, view: &RedundancyView) -> bool {
        let bytes = view.left_bytes.saturating_add(view.waiting_bytes);
        view.lifetime.is_none()
            && bytes <= self.bytes.saturating_mul(GROWN)
            && self.silent.is_some_and(|(until, _)| view.now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{at, view},
        *,
    };

    #[test]
    fn after_some_bursts_for_nothing_there_is_silence() {
        let mut vain = Vain::default();
        let mut now = 0;
        let mut until_silent = |vain: &mut Vain| {
            for bursts in 0.. {
                let view = RedundancyView {
                    now: at(now),
                    ..view(1, 0.02)
                };
                if vain.is_silent(&view) {
                    let lasts = vain.silent.unwrap().1;
                    now += lasts.as_millis() as u64;
                    return (bursts, lasts.as_secs());
                }
                vain.on_burst_end(&view, 0);
                now += 10;
            }
            unreachable!()
        };
        for lasts in [1, 2, 4, 8, 16, 16] {
            assert_eq!(until_silent(&mut vain), (BURSTS, lasts));
        }
        vain.on_burst_end(&view(1, 0.02), 1);
        assert_eq!(until_silent(&mut vain), (BURSTS, 1));
    }

    #[test]
    fn not_while_repair_symbols_are_under_way_nor_for_deadlines() {
        let mut vain = Vain::default();
        let under_way = RedundancyView {
            repairs_in_flight: 1,
            ..view(1, 0.02)
        };
        for _ in 0..3 * BURSTS {
            vain.on_burst_end(&under_way, 0);
        }
        assert!(!vain.is_silent(&under_way));
        for _ in 0..BURSTS {
            vain.on_burst_end(&view(1, 0.02), 0);
        }
        let mut view = view(1, 0.02);
        assert!(vain.is_silent(&view));
        view.waiting_bytes = 10_000;
        assert!(!vain.is_silent(&view), "another burst");
        view.waiting_bytes = 0;
        view.lifetime = Some(Duration::from_millis(100));
        assert!(!vain.is_silent(&view));
    }
}
