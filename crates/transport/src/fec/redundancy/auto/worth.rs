//! What a repair symbol may save and what it costs.
//!
//! Owns: how much later something is complete for a loss, how long a repair symbol holds up what may follow, how many are best.
//! Does not own: the chances (`model.rs`), deadlines (`deadlines.rs`), for whom there is room (`mod.rs`).

use super::{
    Auto, knows_losses,
    model::{Chain, MOST, Odds},
};
use crate::fec::{loss_monitor::queue_stands, redundancy::RedundancyView};

/// Repair symbols per packet in flight where no deadline asks for more, at most. The papers' beta.
const SHARE: f64 = 0.3;
/// What a slot costs that nothing waits for, as a share of what it would cost otherwise. Who else
/// uses the link, and who pays for its bytes, is not ours to know.
const PRICE: f64 = 0.01;
/// Packets of a flight that is asked about, at most.
const LONGEST_FLIGHT: u64 = 256;
/// Seconds of work of both ends that a protected packet costs: kept until it is acknowledged, and coded
/// (`cargo xtask bench fec`, `constant:25,20`).
const WORK: f64 = 2e-6;
/// Packets behind which a loss shows without a timeout. RFC 9002 s6.1.1.
const FOLLOWERS: f64 = 3.0;
/// Round trips for which flow control is remembered to have held data back.
const HELD_ROUNDS: u32 = 2;

/// Seconds between packets where the window is full, be it that of flow control, and no less than the link is known to
/// take for one.
pub(super) fn slot(view: &RedundancyView) -> f64 {
    let window = view
        .congestion_window
        .min(flow_window(view).unwrap_or(u64::MAX));
    let window = window.max(view.datagram_bytes).max(1);
    let slot = view.datagram_bytes as f64 / window as f64 * view.smoothed_rtt.as_secs_f64();
    let capacity = view
        .capacity
        .map_or(f64::INFINITY, |rate| rate.bytes_per_second() as f64);
    slot.max(view.datagram_bytes as f64 / capacity.max(1.0))
}

/// Bytes that flow control lets be under way, if it held data back; what is under way now it has let pass since.
pub(super) fn flow_window(view: &RedundancyView) -> Option<u64> {
    view.flow_window.map(|flow| flow.max(view.bytes_in_flight))
}

pub(super) fn has_queue(view: &RedundancyView) -> bool {
    queue_stands(view.calm_rtt, view.min_rtt)
}

impl Auto {
    pub(super) fn chain(&self, view: &RedundancyView) -> Chain {
        Chain::of(&view.loss, self.terms.forecast, self.terms.bursts)
    }

    pub(super) fn odds(&self, view: &RedundancyView) -> Odds {
        let repair = view.repair_loss.as_ref();
        Odds {
            chain: self.chain(view),
            likely: Chain::likely(&view.loss, self.terms.forecast, self.terms.bursts),
            elsewhere: repair.map(|loss| Chain::of(loss, self.terms.forecast, self.terms.bursts)),
            strength: view.strength,
        }
    }

    /// Seconds that a repair symbol is to be worth, where a loss makes others late by `delay`: for how long it holds up
    /// what follows, at the price of a link that is idle, unless a queue stands: then it takes the place of another
    /// packet, be it another's. And the heavier losses are, the likelier it is that they come of want of room, even
    /// where no queue is seen, and that what it takes the place of is lost.
    fn cost(&self, view: &RedundancyView, delay: f64) -> f64 {
        let slot = slot(view);
        let idle = PRICE * slot;
        let taken = if !self.terms.cost {
            return 0.0;
        } else if has_queue(view) {
            slot.max(self.waits.cost(view))
        } else if self.was_held_back(view) {
            // What flow control lets be under way may be just what the path holds.
            let stands = view.smoothed_rtt.saturating_sub(view.min_rtt).as_secs_f64();
            stands.clamp(idle, slot)
        } else {
            idle.max(self.waits.cost(view))
        };
        taken + self.chain(view).rate().powi(2) * delay
    }

    /// Seconds by which a loss among `packets` packets in flight makes all of them late: a round-trip
    /// time, less what of the flight follows the lost packet, half of it on average; for the last
    /// three, whose loss nothing shows, the probe timeout instead.
    fn delay(&self, view: &RedundancyView, packets: u64) -> f64 {
        let rtt = view.smoothed_rtt.as_secs_f64();
        let packets = packets.max(1) as f64;
        let follows = (packets * slot(view)).min(rtt) / 2.0;
        let tail = if self.terms.tail {
            let last = (FOLLOWERS / packets).min(1.0);
            last * view
                .probe_timeout
                .saturating_sub(view.smoothed_rtt)
                .as_secs_f64()
        } else {
            0.0
        };
        // Where flow control holds data back the link works on what stands before it.
        let stands = if self.was_held_back(view) {
            view.smoothed_rtt.saturating_sub(view.min_rtt).as_secs_f64()
        } else {
            0.0
        };
        (rtt - follows + tail - stands).max(0.0)
    }

    /// How many repair symbols in all are best behind `packets` packets, when `sent` are under way,
    /// and what those beyond may save.
    pub(super) fn best(
        &self,
        view: &RedundancyView,
        packets: u64,
        missing: u64,
        sent: u64,
    ) -> (u64, f64) {
        // One at least where losses are known: a single packet is all there is of many answers. What is merely assumed
        // of a path is not worth as many bytes again.
        let least = u64::from(knows_losses(view));
        let most = ((SHARE * packets as f64).floor() as u64).max(least);
        if sent >= most {
            return (sent, 0.0);
        }
        let counted = usize::try_from(most).unwrap_or(MOST);
        let rescued = self.odds(view).rescued(packets, missing, counted);
        let delay = self.delay(view, packets);
        let cost = self.cost(view, delay);
        let worth = |(repairs, chance): (u64, f64)| chance * delay - repairs as f64 * cost;
        let start = rescued.get(usize::try_from(sent).unwrap_or(usize::MAX));
        let Some(start) = start.copied() else {
            return (sent, 0.0);
        };
        let mut best = (sent, start);
        for (repairs, chance) in (0..).zip(rescued) {
            if repairs > sent && repairs <= most && worth((repairs, chance)) > worth(best) {
                best = (repairs, chance);
            }
        }
        (best.0, ((best.1 - start) * delay).max(0.0))
    }

    /// Whether a flight may be worth its protection: a full window, as far as its losses can be told, or
    /// the end of something short.
    pub(super) fn is_worth_protecting(&self, view: &RedundancyView) -> bool {
        let window = view.congestion_window / view.datagram_bytes.max(1);
        let told = MOST as f64 / 2.0 / self.chain(view).rate().max(1e-6);
        let full = window.min(told as u64).clamp(1, LONGEST_FLIGHT);
        let short = full.min(FOLLOWERS as u64);
        // The cheaper question first.
        self.is_worth_work(view, short) || self.is_worth_work(view, full)
    }

    /// Whether repair symbols behind a flight of so many packets may save more than the work of protecting it.
    /// On a short path that lost nothing for long they do not, however cheap the link.
    fn is_worth_work(&self, view: &RedundancyView, packets: u64) -> bool {
        let work = if self.terms.cost { WORK } else { 0.0 };
        // More than this cannot be saved, and it is told without the chances of all that may happen.
        let most = self.chain(view).rate() * packets as f64 * self.delay(view, packets);
        if most <= work * packets as f64 {
            return false;
        }
        let (repairs, saving) = self.best(view, packets, 0, 0);
        repairs > 0 && saving > work * packets as f64
    }

    /// Whether flow control held data back lately.
    pub(super) fn was_held_back(&self, view: &RedundancyView) -> bool {
        let since = self.held_back.map(|at| view.now.saturating_since(at));
        view.held_back
            || since.is_some_and(|since| since < view.smoothed_rtt.saturating_mul(HELD_ROUNDS))
    }
}
