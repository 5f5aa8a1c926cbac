//! How much is lost while the queue is short, and how much more than that.

/// Share of packets that a path may lose on its own. Whatever is beyond is never random: a policer
/// drops without any queue.
const BASE_MAX: f64 = 0.1;
/// What remains of the account after a round.
const MEMORY: f64 = 7.0 / 8.0;
/// Packets that the account must hold before it says anything.
const ENOUGH: f64 = 64.0;
/// Standard deviations of a count that are chance.
const DEVIATIONS: f64 = 2.0;

/// Packets acknowledged and lost.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    packets: f64,
    lost: f64,
}

/// The path's own loss rate, and what this round lost.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Ledger {
    /// Of packets that met a short queue and were not sent to probe, with fading memory.
    quiet: Count,
    /// Of this round.
    round: Count,
    /// Lost in this round where the queue was long.
    high_lost: f64,
    /// Whether the round before this one lost more than a path does on its own.
    overflowed: bool,
    /// Whether jitter hides short queues: the base rests on few packets.
    hidden: bool,
}

impl Ledger {
    /// Whether jitter hides short queues.
    pub(in super::super) fn set_hidden(&mut self, hidden: bool) {
        self.hidden = hidden;
    }

    /// Packets were acknowledged, or lost, where the queue was `high` or not; `learn` when they
    /// tell about the path rather than about a probe.
    pub(in super::super) fn count(&mut self, acked: f64, lost: f64, high: bool, learn: bool) {
        self.round.packets += acked + lost;
        self.round.lost += lost;
        if high {
            self.high_lost += lost;
        } else if learn {
            self.quiet.packets += acked + lost;
            self.quiet.lost += lost;
        }
    }

    pub(in super::super) fn end_round(&mut self) {
        self.overflowed = self.round.lost > most_by_chance(self.round.packets, 0.0);
        self.round = Count::default();
        self.high_lost = 0.0;
        // Below its least size the account does not fade: a base that is forgotten in a standing
        // queue would come back as congestion.
        if self.quiet.packets > ENOUGH {
            self.quiet.packets *= MEMORY;
            self.quiet.lost *= MEMORY;
        }
    }

    /// The share that the path loses on its own.
    pub(in super::super) fn base(&self) -> f64 {
        let share = self.quiet.lost / self.quiet.packets.max(ENOUGH);
        share.min(BASE_MAX)
    }

    /// What of `packets` may be lost when the path loses `threshold` beyond its base: the mean and
    /// the chance around it, in these packets and, where jitter hides short queues, in those that the
    /// base is known from.
    pub(in super::super) fn allowed(&self, packets: f64, threshold: f64) -> f64 {
        let mean = (self.base() + threshold) * packets;
        let mut variance = mean;
        if self.hidden {
            let times = packets / self.quiet.packets.max(ENOUGH);
            variance += self.quiet.lost * times * times;
        }
        mean + DEVIATIONS * variance.max(0.0).sqrt()
    }

    /// Whether this round lost more than `threshold` beyond the base where the queue was long, or
    /// more than any path loses on its own; a round has `window` packets at least.
    pub(in super::super) fn is_congested(&self, threshold: f64, window: f64) -> bool {
        let packets = self.round.packets.max(window);
        self.high_lost > self.allowed(packets, threshold)
            || self.round.lost > most_by_chance(packets, threshold)
    }

    /// Forgets what the path seemed to lose on its own: it was lost to a queue that overflowed.
    pub(in super::super) fn forget_base(&mut self) {
        self.quiet = Count::default();
    }

    /// Whether the last whole round lost more than any path loses on its own.
    pub(in super::super) const fn has_overflowed(&self) -> bool {
        self.overflowed
    }
}

/// The most of `packets` that a path loses on its own, and `threshold` beyond it, with the chance around
/// both.
fn most_by_chance(packets: f64, threshold: f64) -> f64 {
    let mean = (BASE_MAX + threshold) * packets;
    mean + DEVIATIONS * mean.sqrt()
}
