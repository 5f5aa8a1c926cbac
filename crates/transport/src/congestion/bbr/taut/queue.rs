//! What round-trip times say about the queue.

use std::time::Duration;

use crate::time::Instant;

/// Rounds whose lowest RTT is remembered.
const ROUNDS: usize = 6;
/// A delay this small a part of the minimum RTT is no queue.
const NO_QUEUE: u32 = 16;
/// A queue that never falls below this part of the minimum RTT stands.
const STANDING: u32 = 8;
/// A round that never falls below this part of the minimum RTT shows that Startup is over...
pub(in super::super) const LONG_IN_STARTUP: u32 = 2;
/// ...and below this, that a probe is.
pub(in super::super) const LONG_IN_PROBE: u32 = 8;
/// A queue of no more than so many grains is one of few packets.
const FEW_GRAINS: u32 = 4;
/// Timers and batches may hide this much.
const GRAIN: Duration = Duration::from_millis(1);
/// How long the longest delay is remembered, once or twice over.
const HIGH_TIME: Duration = Duration::from_secs(10);
const HIGH_ROUNDS: u32 = 16;

/// Packets that arrive so many times faster than they left arrive at once.
const AT_ONCE: u32 = 4;
/// Jitter of this part of the minimum RTT hides queues.
const HIDDEN: u32 = 8;
/// What is learned of jitter is learned from few samples.
const SAFETY: u32 = 2;

/// By how much round trips fall among packets that arrive at once. A queue drains no faster than the path
/// carries, so this is jitter: packets held up for a time and then let go together.
#[derive(Clone, Copy, Debug, Default)]
struct Jitter {
    /// When the newest sample came and when its packet left.
    newest: Option<(Instant, Instant)>,
    /// The longest round trip of those that arrive at once with it.
    top: Duration,
    /// Largest fall of this round and of the one before.
    round: Duration,
    before: Duration,
}

impl Jitter {
    fn on_sample(&mut self, now: Instant, sent: Instant, rtt: Duration) {
        let at_once = self.newest.is_some_and(|(arrived_before, sent_before)| {
            let left = sent.saturating_since(sent_before);
            let arrived = now.saturating_since(arrived_before);
            arrived.saturating_mul(AT_ONCE) <= left
        });
        self.top = if at_once { self.top.max(rtt) } else { rtt };
        self.round = self.round.max(self.top - rtt);
        self.newest = Some((now, sent));
    }

    fn end_round(&mut self) {
        self.before = std::mem::take(&mut self.round);
    }

    /// So much longer a round trip may be by chance.
    fn get(&self) -> Duration {
        self.round.max(self.before).saturating_mul(SAFETY)
    }
}

/// Delay beyond the minimum RTT: lowest of each round, largest of late.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct QueueView {
    /// The lowest RTT of the present round.
    low: Option<Duration>,
    /// Of the rounds before it, the newest first.
    lows: [Duration; ROUNDS],
    /// How many of them there are.
    rounds: usize,
    /// Largest RTT of this and of the previous period.
    high: Duration,
    high_before: Duration,
    high_since: Instant,
    high_rounds: u32,
    jitter: Jitter,
    before_us: bool,
}

impl QueueView {
    pub(in super::super) fn new(now: Instant) -> Self {
        Self {
            low: None,
            lows: [Duration::ZERO; ROUNDS],
            rounds: 0,
            high: Duration::ZERO,
            high_before: Duration::ZERO,
            high_since: now,
            high_rounds: 0,
            jitter: Jitter::default(),
            before_us: false,
        }
    }

    /// A packet that left at `sent` was acknowledged.
    pub(in super::super) fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        rtt: Option<Duration>,
        round_started: bool,
    ) {
        if round_started {
            self.jitter.end_round();
            if let Some(low) = self.low.take() {
                self.lows.rotate_right(1);
                if let Some(newest) = self.lows.first_mut() {
                    *newest = low;
                }
                self.rounds = (self.rounds + 1).min(ROUNDS);
            }
            self.high_rounds = self.high_rounds.saturating_add(1);
            let old = now.saturating_since(self.high_since) >= HIGH_TIME;
            if old && self.high_rounds >= HIGH_ROUNDS {
                self.high_before = std::mem::take(&mut self.high);
                self.high_since = now;
                self.high_rounds = 0;
            }
        }
        if let Some(rtt) = rtt {
            self.low = Some(self.low.map_or(rtt, |low| low.min(rtt)));
            self.high = self.high.max(rtt);
            self.jitter.on_sample(now, sent, rtt);
        }
    }

    /// Forgets the rounds: what comes next is another regime.
    pub(in super::super) fn restart(&mut self) {
        self.low = None;
        self.rounds = 0;
    }

    /// Round trips are `after` at least from now on instead of `before`: queues stay what they are.
    pub(in super::super) fn shift(&mut self, before: Duration, after: Duration) {
        let shifted = |rtt: Duration| (rtt + after).saturating_sub(before);
        self.low = self.low.map(shifted);
        for seen in self
            .lows
            .iter_mut()
            .chain([&mut self.high, &mut self.high_before])
        {
            *seen = shifted(*seen);
        }
    }

    /// Whether a packet with this RTT met a long queue: three quarters of the longest of late, or less
    /// by the `grain` to which a queue of few packets is known.
    pub(in super::super) fn is_high(&self, rtt: Duration, min: Duration, grain: Duration) -> bool {
        let delay = rtt.saturating_sub(min);
        let longest = self.high.max(self.high_before).saturating_sub(min);
        // A long queue is known well enough: beside many others two packets take as long as most of it.
        let grain = if longest > grain.saturating_mul(FEW_GRAINS) {
            Duration::ZERO
        } else {
            grain
        };
        let high = (longest / 4 * 3).saturating_sub(grain);
        delay >= high.max(min / NO_QUEUE).max(GRAIN)
    }

    /// Whether a packet with this RTT met seven eighths of the longest queue of late.
    pub(in super::super) fn is_full(&self, rtt: Duration, min: Duration) -> bool {
        let longest = self.high.max(self.high_before).saturating_sub(min);
        rtt.saturating_sub(min) >= longest / 8 * 7
    }

    /// The shortest round trip that tells of a queue of at least this part of the minimum RTT.
    fn least(&self, min: Duration, part: u32) -> Duration {
        let queue = (min / part.max(1)).max(GRAIN);
        min.saturating_add(queue).saturating_add(self.jitter.get())
    }

    /// Whether jitter alone lifts round trips as a long queue does.
    pub(in super::super) fn is_hidden(&self, min: Duration) -> bool {
        self.jitter.get() >= (min / HIDDEN).max(GRAIN)
    }

    /// Whether all of the last round met a queue of at least this part of the minimum RTT.
    pub(in super::super) fn was_long(&self, min: Duration, part: u32) -> bool {
        let least = self.least(min, part);
        self.rounds > 0 && self.lows.first().is_some_and(|low| *low >= least)
    }

    /// Remembers a queue that all of the last round met, as that of others. To be told after a round
    /// in which we have grown: its packets left before we could fill the pipe.
    pub(in super::super) fn note_before_us(&mut self, min: Duration) {
        self.before_us |= self.was_long(min, NO_QUEUE);
    }

    /// Whether the queue was there before we filled it.
    pub(in super::super) const fn was_before_us(&self) -> bool {
        self.before_us
    }

    /// Whether each of the last six rounds met a queue.
    pub(in super::super) fn stands(&self, min: Duration) -> bool {
        let least = self.least(min, STANDING);
        self.rounds == ROUNDS && self.lows.iter().all(|low| *low >= least)
    }

    /// Whether each of the last `rounds` rounds met an empty queue.
    pub(in super::super) fn is_gone(&self, min: Duration, rounds: usize) -> bool {
        self.rounds >= rounds && self.lows.iter().take(rounds).all(|low| is_empty(*low, min))
    }
}

/// Whether a packet with this RTT met hardly any queue.
pub(in super::super) fn is_empty(rtt: Duration, min: Duration) -> bool {
    rtt <= min.saturating_add((min / NO_QUEUE).max(GRAIN))
}
