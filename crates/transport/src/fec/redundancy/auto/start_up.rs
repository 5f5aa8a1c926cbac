//! What start-up overflowed.
//!
//! Owns: [`StartUp`]: whether losses that are found when it ends are of a queue that it filled, and more to come.
//! Does not own: what follows of that (`mod.rs`), what is known of losses (`fec/loss_monitor.rs`).

use crate::{
    fec::{loss_monitor::KNOWN_LOSSES, redundancy::RedundancyView},
    time::Instant,
};

/// What was known while the window doubled each round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct StartUp {
    /// Source symbols sent.
    sources: u64,
    /// Of these, lost ones.
    lost: u64,
    /// Losses without a queue were known.
    lossy: bool,
    /// When it was found to have overflowed a queue.
    overflow: Option<Instant>,
}

impl StartUp {
    /// What is known as long as it lasts.
    pub(super) fn now(view: &RedundancyView) -> Self {
        Self {
            sources: view.sources,
            lost: view.missing.saturating_add(view.retransmitted),
            lossy: Self::is_lossy(view),
            overflow: None,
        }
    }

    /// Whether losses without a queue are known.
    pub(super) fn is_lossy(view: &RedundancyView) -> bool {
        !view.loss.tense && view.loss.now.0 >= KNOWN_LOSSES
    }

    /// Whether a loss ended it, and what left then is not settled: more of it is lost than is known. What is
    /// sent again within a round trip of the first loss counts as well: it meets the same queue, and repair
    /// symbols would go before what is found lost next.
    pub(super) fn has_overflowed(&mut self, view: &RedundancyView) -> bool {
        let oldest = view.sources.saturating_sub(view.span.into());
        let lost = view.missing.saturating_add(view.retransmitted);
        if self.lossy || oldest >= self.sources || lost <= self.lost {
            return false;
        }
        let first = *self.overflow.get_or_insert(view.now);
        if view.now.saturating_since(first) < view.smoothed_rtt {
            self.sources = view.sources;
        }
        true
    }
}
